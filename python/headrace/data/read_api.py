"""Readers of the engine's own formats (parquet, arrow, text, binary, json, numpy, tfrecords, images,
webdataset), and range. CSV: csv_files.py. Formats that other packages read: sources/.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any, Unpack

from headrace import absent
from headrace._core import InvalidArgument, TypeMismatchError, UnsupportedError
from headrace.data.context import accept_cluster_arguments, is_whole
from headrace.data.dataset import Dataset
from headrace.data.files import FileArguments, read_files
from headrace.data.paths import SkippedPaths, path_list
from headrace.data.plan import Node
from headrace.data.records import (
    decoded,
    decoder_list,
    decoder_options,
    expanded,
    select_suffixes,
    tf_schema_text,
)

if TYPE_CHECKING:
    from headrace.data.annotations import Decoder, Paths, Predicate


def read_parquet(
    paths: Paths,
    *,
    columns: Sequence[str] | None = None,
    filter: Predicate | None = None,
    verify_checksums: bool = True,
    verify: bool = False,
    tensor_column_schema: Any = None,
    include_row_hash: bool = False,
    skip_paths: Paths | None = None,
    catalog: Any = None,
    use_threads: bool | None = None,
    batch_size: int | None = None,
    **common: Unpack[FileArguments],
) -> Dataset:
    """Rows of Parquet files: paths, folders (all files whose names end in one of file_extensions) or
    patterns.

    columns: names, in the order of the result; the engine does not read other columns. include_paths: a
    column 'path' with each row's file. This call only lists the files. The schema is the one in the first
    file's footer; a file that does not fit is an error that names both files, the column and both types.
    filter: an expression, as for Dataset.filter(expr=...); it may use columns that are not in `columns`.
    concurrency and override_num_blocks have no effect: the order does not depend on them. NotFoundError
    names a path that does not exist, unless ignore_missing_paths. verify_checksums: compares the checksums of
    pages, if the file has them; DataError names the page. verify: compares values with the file's statistics
    (minima, maxima and null counts of row groups and pages), if it has them; DataError names the column, the
    value and the bound. It also follows each bit stream of zstd pages without a checksum. skip_paths: files
    to leave out. use_threads and batch_size, pyarrow's, have no effect.

    common: filesystem, storage_options, cache, partitioning, partition_filter, include_paths,
    ignore_missing_paths, file_extensions, shuffle, schema, unify, arrow_open_stream_args, concurrency,
    override_num_blocks: see docs/reading.md.
    """
    for name, given in (
        ("tensor_column_schema", tensor_column_schema),
        ("include_row_hash", include_row_hash),
        ("catalog", catalog),
    ):
        if given:
            raise UnsupportedError(f"read_parquet: {name} is not supported")
    if skip_paths:
        common["partition_filter"] = SkippedPaths(path_list(skip_paths), common.get("partition_filter"))
    common["options"] = {"verify_checksums": verify_checksums, "verify": verify}
    if filter is None:
        return read_files("read_parquet", "parquet", paths, columns=columns, **common)
    kept = read_files("read_parquet", "parquet", paths, **common).filter(expr=filter)
    return kept if columns is None else kept.select_columns(columns)


def read_arrow(
    paths: Paths,
    *,
    columns: Sequence[str] | None = None,
    check_values: str | None = None,
    **common: Unpack[FileArguments],
) -> Dataset:
    """Rows of Arrow IPC files (Feather V2) and streams; each record batch is a fragment.

    columns: names, in the order of the result; the engine does not read the buffers of others. Dictionaries,
    views and run ends become plain values. check_values: "usual" (the default), "all" or "none". "usual":
    times beyond the day, dates that are not whole days and null keys of maps are a DataError; "all": decimals
    with more digits than their type, too. read_ipc and read_feather are the same function.

    common: filesystem, storage_options, cache, partitioning, partition_filter, include_paths,
    ignore_missing_paths, file_extensions, shuffle, schema, unify, arrow_open_stream_args, concurrency,
    override_num_blocks: see docs/reading.md.
    """
    options = {"check_values": check_values}
    return read_files("read_arrow", "arrow", paths, columns=columns, options=options, **common)


read_ipc = read_feather = read_arrow


def read_text(
    paths: Paths,
    *,
    encoding: str = "utf-8",
    drop_empty_lines: bool = True,
    **common: Unpack[FileArguments],
) -> Dataset:
    """One row per line, without its line end, in the column 'text'. The engine decompresses compressed files.

    encoding: any name that iconv knows ("latin-1", "utf-16", "cp1252", ...); one thread reads a file that is
    not UTF-8. drop_empty_lines: leaves out lines with only white space. include_paths: a column 'path' with
    each row's file. DataError names the file and the invalid byte.

    common: filesystem, storage_options, cache, partitioning, partition_filter, include_paths,
    ignore_missing_paths, file_extensions, shuffle, schema, unify, arrow_open_stream_args, concurrency,
    override_num_blocks: see docs/reading.md.
    """
    options = {"encoding": encoding, "drop_empty_lines": drop_empty_lines}
    return read_files("read_text", "text", paths, options=options, **common)


def read_binary_files(paths: Paths, *, large: bool = False, **common: Unpack[FileArguments]) -> Dataset:
    """One row per file, with the file's bytes in the column 'bytes'.

    include_paths: a column 'path' with each row's file. large=True: the column is large_binary, for files of
    more than 2 GiB; otherwise such a file is an error.

    common: filesystem, storage_options, cache, partitioning, partition_filter, include_paths,
    ignore_missing_paths, file_extensions, shuffle, schema, unify, arrow_open_stream_args, concurrency,
    override_num_blocks: see docs/reading.md.
    """
    return read_files("read_binary_files", "binary", paths, options={"large": large}, **common)


def read_json(
    paths: Paths,
    *,
    lines: bool = False,
    columns: Sequence[str] | None = None,
    layout: str | None = None,
    sample_bytes: int | None = None,
    unexpected: str | None = None,
    on_error: str | None = None,
    big_integers: str | None = None,
    allow_nan: bool | None = None,
    times: bool | None = None,
    parse_options: Any = None,
    read_options: Any = None,
    **common: Unpack[FileArguments],
) -> Dataset:
    """One row per JSON object: one object per line, the elements of an array, or objects one after another
    over several lines. The head of each file determines the layout, or layout: 'lines', 'array', 'sequence'.
    The engine decompresses compressed files.

    The first sample_bytes (4 MiB; 0: all) of the first file determine the types. A later value of another
    type is an error that names file, line, column, expected and found; so is a key that is no column
    (unexpected='ignore': the key is ignored). on_error='skip' leaves out rows that are not JSON or do not
    fit. big_integers: 'error', 'double' or 'string' for integers beyond 64 bits. allow_nan: NaN and Infinity
    are numbers. times=False: columns of dates and times (ISO 8601, whole seconds, all with a zone or all
    without) stay strings; by default they are timestamps. lines: Ray's argument; True means layout='lines'.
    parse_options: pyarrow.json's; explicit_schema, unexpected_field_behavior and newlines_in_values have an
    effect. read_options: pyarrow.json's, without effect: rows may have any length. See docs/formats/json.md.

    common: filesystem, storage_options, cache, partitioning, partition_filter, include_paths,
    ignore_missing_paths, file_extensions, shuffle, schema, unify, arrow_open_stream_args, concurrency,
    override_num_blocks: see docs/reading.md.
    """
    if lines and layout is None:
        layout = "lines"
    for name, given, known in (
        ("read_options", read_options, "block_size"),
        ("parse_options", parse_options, "explicit_schema"),
    ):
        if given is not None and not hasattr(given, known):
            expected = "ReadOptions" if name == "read_options" else "ParseOptions"
            raise TypeMismatchError(
                f"read_json: {name}: expected pyarrow.json.{expected}, found {type(given).__name__}"
            )
    if parse_options is not None:
        if parse_options.newlines_in_values and layout in (None, "lines"):
            layout = "sequence"
        if parse_options.explicit_schema is not None:
            common.setdefault("schema", parse_options.explicit_schema)
        if parse_options.unexpected_field_behavior in ("ignore", "error"):
            unexpected = unexpected or parse_options.unexpected_field_behavior
    options = {
        "layout": layout,
        "sample_bytes": sample_bytes,
        "unexpected": unexpected,
        "on_error": on_error,
        "big_integers": big_integers,
        "allow_nan": allow_nan,
        "times": times,
    }
    return read_files("read_json", "json", paths, columns=columns, options=options, **common)


def read_numpy(
    paths: Paths,
    *,
    allow_pickle: bool = False,
    mmap_mode: Any = None,
    fix_imports: bool | None = None,
    encoding: str | None = None,
    **common: Unpack[FileArguments],
) -> Dataset:
    """Arrays of .npy and .npz files; rows are slices along the first axis.

    A .npy file is the column 'data', a structured array one column per field; an .npz file is one column per
    member, all of the same length. Rows of one or more dimensions are tensors. Arrays of Python objects are
    an error: unpickling them would run code from the file. DataError names file and byte of the damage.
    mmap_mode, fix_imports and encoding, numpy.load's, have no effect.

    common: filesystem, storage_options, cache, partitioning, partition_filter, include_paths,
    ignore_missing_paths, file_extensions, shuffle, schema, unify, arrow_open_stream_args, concurrency,
    override_num_blocks: see docs/reading.md.
    """
    if allow_pickle:
        raise UnsupportedError("read_numpy: allow_pickle=True: this reader never loads pickled objects")
    return read_files("read_numpy", "numpy", paths, **common)


def read_tfrecords(
    paths: Paths,
    *,
    tf_schema: Any = None,
    raw: bool | None = None,
    sample: int | None = None,
    check: bool | None = None,
    **common: Unpack[FileArguments],
) -> Dataset:
    """TFRecord files of tf.train.Example, plain or compressed: one column per feature.

    A feature with at most one value in every record is a column of int64, float or binary; the others are
    lists; a missing feature is null. The first `sample` bytes (8 MiB) of the first file determine the
    features and which of them are lists; a later record that does not fit is a TypeMismatchError that names
    file and record. tf_schema determines them instead: a dict of name -> "int64", "float", "bytes" or
    "list<...>" of these, or a schema of tensorflow_metadata; the reader leaves out other features. raw=True:
    the records themselves, in the column 'bytes'. check=False: does not compare the checksums of payloads.
    DataError names file, record and byte.

    common: filesystem, storage_options, cache, partitioning, partition_filter, include_paths,
    ignore_missing_paths, file_extensions, shuffle, schema, unify, arrow_open_stream_args, concurrency,
    override_num_blocks: see docs/reading.md.
    """
    options = {"tf_schema": tf_schema_text(tf_schema), "raw": raw, "sample": sample, "check": check}
    return read_files("read_tfrecords", "tfrecords", paths, options=options, **common)


def read_images(
    paths: Paths,
    *,
    size: tuple[int, int] | None = None,
    mode: str | None = None,
    interpolation: str = "bilinear",
    exif_orientation: bool = False,
    on_error: str | None = "raise",
    allow_truncated: bool = False,
    exact: bool = True,
    max_pixels: int | None = None,
    fixed_shape: bool = True,
    arrow_open_file_args: dict[str, Any] | None = None,
    **common: Unpack[FileArguments],
) -> Dataset:
    """One row per JPEG, PNG, WebP, GIF, BMP or TIFF file, in the column 'image': uint8, of shape
    (height, width, channels), or (height, width) for grey images. From a folder it reads files with the usual
    suffixes.

    size: (height, width); the engine resizes all images to it (interpolation: nearest, box, bilinear,
    hamming, bicubic, lanczos; antialiased). exact=False: decodes a JPEG at 1/2, 1/4 or 1/8 of its size if
    that is at least twice `size`. mode: "L", "LA", "RGB" or "RGBA"; None: as stored. With size the column is
    a tensor with the mode's channels, or with those of the first file; an image with other channels is then
    an error, unless fixed_shape=False. Without size shapes differ from row to row, and a batch is an array of
    arrays unless all its shapes are equal. exif_orientation: turns images as EXIF says. on_error: "raise" a
    DataError that names the file, or "skip" the file. allow_truncated: the missing end of a file is grey or
    black. max_pixels: an image with more pixels is damaged (179 million; 0: no limit). include_paths: a
    column 'path' with each row's file.

    common: filesystem, storage_options, cache, partitioning, partition_filter, include_paths,
    ignore_missing_paths, file_extensions, shuffle, schema, unify, arrow_open_stream_args, concurrency,
    override_num_blocks: see docs/reading.md.
    """
    common.setdefault("arrow_open_stream_args", arrow_open_file_args)
    if size is not None and (not isinstance(size, (tuple, list)) or len(size) != 2):
        raise InvalidArgument(f"read_images: size: expected (height, width), found {size!r}")
    height, width = (None, None) if size is None else size
    if size is not None and (height < 1 or width < 1):
        raise InvalidArgument(f"read_images: size: expected height and width of at least 1, found {size}")
    options = {
        "mode": mode,
        "height": height,
        "width": width,
        "interpolation": interpolation,
        "exif_orientation": exif_orientation,
        "on_error": on_error,
        "allow_truncated": allow_truncated,
        "exact": exact,
        "max_pixels": max_pixels,
        "fixed_shape": fixed_shape,
    }
    return read_files("read_images", "images", paths, options=options, **common)


def read_webdataset(
    paths: Paths,
    *,
    decoder: Decoder = True,
    fileselect: Any = None,
    filerename: Any = None,
    suffixes: Any = None,
    verbose_open: bool = False,
    expand_json: bool = False,
    **common: Unpack[FileArguments],
) -> Dataset:
    """Samples of tar archives: one row per sequence of members with one key, with '__key__', a column for
    each suffix in the first archive, and '__url__' (and 'path', with include_paths).

    decoder: None gives bytes. True decodes text (txt, text, transcript), numbers (cls, cls2, index, inx, id,
    count), images (uint8, (height, width, channels)), json and npy; "rgb", "l" or "rgba" is True with images
    of these channels. A function gets each sample as a dict and returns its replacement; a list applies its
    decoders one after the other. suffixes: the wanted ones, as names, patterns, or a function. fileselect:
    the same for whole names of members. filerename: functions, or (regular expression, replacement) pairs,
    that change the names first. expand_json: the keys of 'json' become columns. verbose_open: prints the
    beginning and end of each archive. With fileselect, filerename or verbose_open Python reads the archives,
    in worker processes. A sample without a member has null in its column. DataError names file, byte and
    member.

    common: filesystem, storage_options, cache, partitioning, partition_filter, include_paths,
    ignore_missing_paths, file_extensions, shuffle, schema, unify, arrow_open_stream_args, concurrency,
    override_num_blocks: see docs/reading.md.
    """
    paths_column = common.pop("include_paths", None)
    steps = decoder_list(decoder)
    by_engine = fileselect is None and filerename is None and not verbose_open
    if by_engine:
        common["include_paths"] = "__url__"
        ds = read_files("read_webdataset", "webdataset", paths, options=decoder_options(steps), **common)
    else:
        from headrace.data.samples import read_samples

        ds = read_samples(paths, fileselect, filerename, verbose_open, **common)
    ds = decoded(select_suffixes(ds, suffixes, ["__key__", "__url__"]), steps, by_engine)
    if expand_json:
        ds = expanded(ds)
    if paths_column:
        from headrace.data.expressions import col

        name = paths_column if isinstance(paths_column, str) else "path"
        if name in ds.columns():
            raise InvalidArgument(
                f"read_webdataset: has a column '{name}' of its own: include_paths needs another name"
            )
        ds = ds.with_column(name, col("__url__"))
    return ds


def range(
    n: float, *, parallelism: int = -1, concurrency: int | None = None, override_num_blocks: int | None = None
) -> Dataset:
    """The int64 column 'id' of 0 .. n-1; the engine computes it during the run. A fraction of n is cut off:
    range(1e6). override_num_blocks: the number of blocks for randomize_block_order(); None: blocks of a
    million rows.
    """
    accept_cluster_arguments("range", {"parallelism": parallelism})
    return _range("range", n, override_num_blocks)


def _range(where, n, n_blocks):
    if n_blocks is not None and not is_whole(n_blocks, 1):
        raise InvalidArgument(f"{where}: override_num_blocks: expected at least 1, found {n_blocks!r}")
    if not isinstance(n, Real) or isinstance(n, bool) or not math.isfinite(n):
        raise TypeMismatchError(f"{where}: n: expected a number of rows, found {type(n).__name__} {n!r:.50}")
    return Dataset(Node("range", {"n": int(n), "name": "id", "n_blocks": n_blocks}))


def range_tensor(
    n: float,
    *,
    shape: Sequence[int] = (1,),
    parallelism: int = -1,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
) -> Dataset:
    """The int64 tensor column 'data' of n rows; row i is an array of `shape` that is filled with i.
    override_num_blocks: see range().
    """
    accept_cluster_arguments("range_tensor", {"parallelism": parallelism})
    if not isinstance(shape, (tuple, list)):
        raise TypeMismatchError(f"range_tensor: shape: expected a tuple, found {type(shape).__name__}")

    def filled(batch):
        import numpy as np

        rows = batch["id"].reshape((-1,) + (1,) * len(shape))
        return {"data": np.ascontiguousarray(np.broadcast_to(rows, (len(rows), *shape)))}

    shape = tuple(shape)
    rows = _range("range_tensor", n, override_num_blocks)
    return rows.map_batches(filled, compute="threads", udf_modifying_row_count=False)


if not TYPE_CHECKING:
    __getattr__ = absent.hook("headrace.data.read_api", "headrace.data")  # the readers of other modules
