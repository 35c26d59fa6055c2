"""What all readers of files share: keyword arguments, and the "read" node of the plan."""

import os
from typing import Any, Literal, TypedDict, Unpack

from headrace._core import InvalidArgument, NotFoundError, Schema, TypeMismatchError
from headrace.data.context import accept_cluster_arguments, is_whole
from headrace.data.dataset import Dataset
from headrace.data.datasource.partitioning import FileShuffleConfig, Partitioning
from headrace.data.filesystems import place, places
from headrace.data.paths import (
    check_stream_args,
    extension_list,
    path_list,
    setting,
    with_cache,
)
from headrace.data.plan import Node

HIVE_BY_DEFAULT = ("parquet", "csv", "json")  # as in Ray
_CODECS = ("", ".gz", ".zst", ".br", ".lz4")
# In folders a reader takes only files with these endings, unless file_extensions is given; others take all.
EXTENSIONS = {
    "parquet": ["parquet", "parq", "pq"],
    "json": [e + c for e in ("json", "jsonl", "ndjson", "geojson", "geojsonl") for c in _CODECS],
    "numpy": ["npy", "npz"],
    "images": ["jpg", "jpeg", "png", "webp", "gif", "bmp", "tif", "tiff"],
}
DECOMPRESSED = ("csv", "fwf", "json", "text", "tfrecords", "webdataset")  # the first bytes identify the codec


class FileArguments(TypedDict, total=False):
    """Keyword arguments of every read_* function of files; see docs/reading.md and docs/stores.md."""

    filesystem: Any
    storage_options: dict[str, Any] | None
    cache: str | os.PathLike[str] | bool | None
    partitioning: Partitioning | str | None
    partition_filter: Any
    include_paths: bool | str
    ignore_missing_paths: bool
    file_extensions: str | list[str] | None
    shuffle: Literal["files"] | FileShuffleConfig | None
    schema: Any
    unify: str | None
    arrow_open_stream_args: dict[str, Any] | None
    concurrency: int | None
    override_num_blocks: int | None
    parallelism: int


def _check_counts(where, given):
    for name in ("concurrency", "override_num_blocks"):
        n = given[name]
        if n is not None and not is_whole(n, 1):
            raise InvalidArgument(f"{where}: {name}: expected a number of at least 1, found {n!r}")


def _like(base, urls):
    """The folder `base` in the form of the paths: relative to the working directory, or absolute. The engine
    and Ray compare texts.
    """
    plain = [u.removeprefix("file://") for u in urls]
    if not os.path.isabs(base):
        return os.path.abspath(base) if all(map(os.path.isabs, plain)) else base
    if any(map(os.path.isabs, plain)):
        return base
    near = os.path.relpath(base)
    return base if near.startswith("..") else None if near == "." else near


def _partitioning(where, given, filesystem, urls):
    if given is None:
        return {}
    if isinstance(given, str):
        given = Partitioning(given)
    if not isinstance(given, Partitioning):
        raise TypeMismatchError(
            f"{where}: partitioning: expected a Partitioning, found {type(given).__name__}"
        )
    out = given.arguments()
    if out["partition_base"]:
        found = place(where, given.filesystem or filesystem, out["partition_base"])
        if found is not None:  # the base of a served filesystem is a path as the user has it
            out["partition_base"] = _like(found[0].removeprefix("file://"), urls)
    return out


def _shuffle(where, given):
    if given is None or isinstance(given, FileShuffleConfig):
        return given and (given.seed, given.reseed_after_execution)
    if given == "files":
        return None, True
    raise InvalidArgument(f"{where}: shuffle: expected 'files' or a FileShuffleConfig, found {given!r}")


def _schema(where, given):
    if given is None or hasattr(given, "__arrow_c_schema__"):
        return given and Schema.from_arrow(given)
    raise TypeMismatchError(
        f"{where}: schema: expected a pyarrow.Schema or Schema, found {type(given).__name__}"
    )


def read_files(where, form, paths, *, columns=None, options=None, name=None, **common: Unpack[FileArguments]):
    """A Dataset of files of one format, with the arguments that all readers share.

    where: the reader's name, for errors. form: the format's name in the engine. columns: names; None: all.
    options: dict of the format's options; the value None leaves the default. name: shown by repr(); None:
    read_ and the format. common: see FileArguments; arguments that have a meaning only on a cluster give a
    warning, unknown ones are an error.
    """
    hive = Partitioning("hive") if form in HIVE_BY_DEFAULT else None
    partitioning = common.pop("partitioning", hive)
    common.setdefault("file_extensions", EXTENSIONS.get(form))
    known = FileArguments.__annotations__
    given = {name: common.pop(name, None) for name in known}
    accept_cluster_arguments(where, {"parallelism": given["parallelism"] or -1, **common}, known)
    filesystem = given["filesystem"]
    check_stream_args(where, given["arrow_open_stream_args"], form in DECOMPRESSED)
    _check_counts(where, given)
    if given["unify"] not in (None, "first", "all"):
        raise InvalidArgument(f"{where}: unify: expected 'first' or 'all', found {given['unify']!r}")
    if given["partition_filter"] is not None and not callable(given["partition_filter"]):
        raise TypeMismatchError(f"{where}: partition_filter: expected a function of a list of paths")
    include = given["include_paths"]
    urls, storage, served = places(where, filesystem, path_list(paths), given["storage_options"])
    if served is not None and given["cache"]:
        raise InvalidArgument(f"{where}: cache: the files of {served} have no place in it; leave it out")
    args = {
        "urls": urls,
        "format": form,
        "name": name,
        "columns": [columns] if isinstance(columns, str) else columns and list(columns),
        "ignore_missing_paths": bool(given["ignore_missing_paths"]),
        "suffixes": extension_list(given["file_extensions"]),
        "include_paths": include if isinstance(include, str) else "path" if include else None,
        "options": [setting(k, v) for k, v in (options or {}).items() if v is not None],
        **_partitioning(where, partitioning, filesystem, urls),
        "schema": _schema(where, given["schema"]),
        "unify": given["unify"] == "all",
        "shuffle": _shuffle(where, given["shuffle"]),
        "partition_filter": given["partition_filter"],
        "storage_options": with_cache(where, storage, given["cache"]),
        "filesystem": served,
    }
    return Dataset(_node({name: value for name, value in args.items() if value is not None}))


def _node(args):
    try:
        return Node("read", args)
    except NotFoundError as e:
        if "suffixes" not in args or not str(e).endswith(": no files there"):
            raise
        ends = ", ".join(args["suffixes"][:4]) + (", ..." if len(args["suffixes"]) > 4 else "")
        others = _others(str(e).removesuffix(": no files there"))
        raise NotFoundError(
            f"{e} whose names end in {ends} (file_extensions=None reads all files){others}"
        ) from None


READERS = {
    "csv": "read_csv",
    "tsv": "read_csv",
    "json": "read_json",
    "jsonl": "read_json",
    "parquet": "read_parquet",
}
READERS |= {"npy": "read_numpy", "txt": "read_text", "tar": "read_webdataset", "tfrecords": "read_tfrecords"}
READERS |= dict.fromkeys(("jpg", "jpeg", "png", "webp"), "read_images") | {"arrow": "read_arrow"}


def _others(folder):
    """The end of an error text: the reader of the files that are in the folder."""
    try:
        names = os.listdir(folder)[:1000]
    except OSError:
        return ""
    found = {end for name in names if (end := name.removesuffix(".gz").rpartition(".")[2].lower()) in READERS}
    return f"; there are .{end} files: {READERS[end]}()" if (end := min(found, default=None)) else ""
