"""What all readers of files have in common: their keyword arguments, and the plan node made of them."""

import os
from typing import TypedDict, Unpack

from headrace import _core
from headrace._core import InvalidArgument, NotFoundError, Schema, TypeMismatchError, UnsupportedError
from headrace.data.context import accept_cluster_arguments
from headrace.data.dataset import Dataset
from headrace.data.partitioning import FileShuffleConfig, Partitioning
from headrace.data.plan import Node

HIVE_BY_DEFAULT = ("parquet", "csv", "json")  # as in Ray


class FileArguments(TypedDict, total=False):
    """Keyword arguments of every read_* that reads files; see docs/reading.md."""

    filesystem: object
    partitioning: object
    partition_filter: object
    include_paths: bool | str
    ignore_missing_paths: bool
    file_extensions: str | list[str] | None
    shuffle: object
    schema: object
    unify: str | None
    concurrency: int | None
    override_num_blocks: int | None
    parallelism: int


def path_list(paths):
    """One path or several as a list of str."""
    if isinstance(paths, (str, os.PathLike)):
        paths = [paths]
    out = [os.fspath(p) for p in paths]
    if not out:
        raise InvalidArgument("paths: expected at least one")
    return out


def extension_list(given):
    """File extensions as suffixes with their dot; None stays."""
    if given is None:
        return None
    return [e if e.startswith(".") else f".{e}" for e in ([given] if isinstance(given, str) else given)]


def files_of(paths, suffixes, ignore_missing=False):
    """The files that the paths stand for, in the order in which they are read. suffixes: of those in
    folders.
    """
    found = _core.list_files(path_list(paths), extension_list(suffixes), ignore_missing)
    if not found and not ignore_missing:
        raise NotFoundError(f"{path_list(paths)[0]}: no files to read")
    return [path for path, _ in found]


def setting(name, value):
    """One option of a format as the engine's option tables read it."""
    if isinstance(value, bool):
        value = "true" if value else "false"
    return f"{name}={value}"


def _check_filesystem(where, filesystem):
    """Local ones are what the engine reads by itself."""
    name = type(filesystem).__name__
    if filesystem is not None and name not in ("LocalFileSystem", "SubTreeFileSystem"):
        raise UnsupportedError(f"{where}: filesystem {name}: only local files can be read")
    if name == "SubTreeFileSystem":
        raise UnsupportedError(f"{where}: filesystem SubTreeFileSystem: give full paths instead")


def _partitioning(where, given):
    if given is None:
        return {}
    if isinstance(given, str):
        given = Partitioning(given)
    if not isinstance(given, Partitioning):
        raise TypeMismatchError(f"{where}: partitioning: expected a Partitioning, not {type(given).__name__}")
    return given.arguments()


def _shuffle(where, given):
    if given is None or isinstance(given, FileShuffleConfig):
        return given and (given.seed, given.reseed_after_execution)
    if given == "files":
        return None, True
    raise InvalidArgument(f"{where}: shuffle={given!r}: expected 'files' or a FileShuffleConfig")


def _schema(where, given):
    if given is None or hasattr(given, "__arrow_c_schema__"):
        return given and Schema.from_arrow(given)
    raise TypeMismatchError(
        f"{where}: schema: expected a pyarrow.Schema or Schema, not {type(given).__name__}"
    )


def read_files(where, form, paths, *, columns=None, options=None, **common: Unpack[FileArguments]):
    """A Dataset of files of one format, with the arguments that all readers share.

    where: the reader's name, for errors. form: the format's name in the engine. columns: names, or None for
    all. options: dict of the format's options; None as a value leaves the default. common: see FileArguments;
    arguments that only mean something on a cluster are accepted with a warning, others are an error.
    """
    hive = Partitioning("hive") if form in HIVE_BY_DEFAULT else None
    partitioning = common.pop("partitioning", hive)
    known = FileArguments.__annotations__
    given = {name: common.pop(name, None) for name in known}
    accept_cluster_arguments(where, {"parallelism": given["parallelism"] or -1, **common})
    _check_filesystem(where, given["filesystem"])
    if given["unify"] not in (None, "first", "all"):
        raise InvalidArgument(f"{where}: unify={given['unify']!r}: expected 'first' or 'all'")
    if given["partition_filter"] is not None and not callable(given["partition_filter"]):
        raise TypeMismatchError(f"{where}: partition_filter: expected a function of a list of paths")
    include = given["include_paths"]
    args = {
        "urls": path_list(paths),
        "format": form,
        "columns": [columns] if isinstance(columns, str) else columns and list(columns),
        "ignore_missing_paths": bool(given["ignore_missing_paths"]),
        "suffixes": extension_list(given["file_extensions"]),
        "include_paths": include if isinstance(include, str) else "path" if include else None,
        "options": [setting(k, v) for k, v in (options or {}).items() if v is not None],
        **_partitioning(where, partitioning),
        "schema": _schema(where, given["schema"]),
        "unify": given["unify"] == "all",
        "shuffle": _shuffle(where, given["shuffle"]),
        "partition_filter": given["partition_filter"],
    }
    return Dataset(Node("read", {name: value for name, value in args.items() if value is not None}))
