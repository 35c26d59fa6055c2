"""Where rows come from: files, and numbers that are counted."""

from typing import Unpack

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


def read_parquet(
    paths,
    *,
    columns=None,
    filter=None,
    verify_checksums=True,
    verify=False,
    tensor_column_schema=None,
    include_row_hash=False,
    skip_paths=None,
    catalog=None,
    use_threads=None,
    batch_size=None,
    **common: Unpack[FileArguments],
):
    """Rows of Parquet files: paths, folders (all files in them whose name ends in one of file_extensions)
    or patterns.

    columns: names, in this order; others are not read. include_paths: a column 'path' with each row's file.
    Nothing is read now but the list of files; the schema is that of the first file's footer, and a file
    that does not fit is an error naming both files, the column and both types. filter: an expression, as for
    Dataset.filter(expr=...); it may use columns that are not in `columns`. concurrency and
    override_num_blocks are accepted: the order does not depend on them. NotFoundError names a path that is
    not there, unless ignore_missing_paths. verify_checksums: compare the checksums of pages, where a file has
    them; DataError names the page. verify: compare values with the statistics of the file, where it has some:
    least and greatest values and nulls of row groups and pages; DataError names the column, the value and
    the bound. It also follows each bit stream of zstd pages that have no checksum. skip_paths: files that
    are left out. use_threads and batch_size, pyarrow's, are accepted: the engine sees to both.
    """
    for name, given in (
        ("tensor_column_schema", tensor_column_schema),
        ("include_row_hash", include_row_hash),
        ("catalog", catalog),
    ):
        if given:
            raise UnsupportedError(f"read_parquet: {name} is not in this version")
    if skip_paths:
        common["partition_filter"] = SkippedPaths(path_list(skip_paths), common.get("partition_filter"))
    common["options"] = {"verify_checksums": verify_checksums, "verify": verify}
    if filter is None:
        return read_files("read_parquet", "parquet", paths, columns=columns, **common)
    kept = read_files("read_parquet", "parquet", paths, **common).filter(expr=filter)
    return kept if columns is None else kept.select_columns(columns)


def read_arrow(paths, *, columns=None, check_values=None, **common: Unpack[FileArguments]):
    """Rows of Arrow IPC files (Feather V2) and streams; each record batch is a fragment.

    columns: names, in this order; buffers of others are not read. Dictionaries, views and run ends come as
    plain values. check_values: "usual" (the default), "all" or "none": times of day beyond the day, dates
    that are no whole days and null keys of maps are a DataError, with "all" decimals of more digits than
    their type as well. read_ipc and read_feather are the same function.
    """
    options = {"check_values": check_values}
    return read_files("read_arrow", "arrow", paths, columns=columns, options=options, **common)


read_ipc = read_feather = read_arrow


def read_text(
    paths,
    *,
    encoding="utf-8",
    drop_empty_lines=True,
    **common: Unpack[FileArguments],
):
    """A row for each line, in the column 'text', without its end. Files that end in .gz or .zst are
    decompressed.

    encoding: any name that iconv knows ("latin-1", "utf-16", "cp1252", ...); a file in another one than UTF-8
    is read by one thread. drop_empty_lines: lines of nothing but white space are left out. include_paths:
    a column 'path' with each row's file. DataError names the file and the byte that has no meaning.
    """
    options = {"encoding": encoding, "drop_empty_lines": drop_empty_lines}
    return read_files("read_text", "text", paths, options=options, **common)


def read_binary_files(paths, *, large=False, **common: Unpack[FileArguments]):
    """A row for each file: its bytes as they stand there, in the column 'bytes'.

    include_paths: a column 'path' with each row's file. large=True: the column is large_binary, for files of
    more than 2 GiB; without it they are an error.
    """
    return read_files("read_binary_files", "binary", paths, options={"large": large}, **common)


def read_json(
    paths,
    *,
    lines=None,
    columns=None,
    layout=None,
    sample_bytes=None,
    unexpected=None,
    on_error=None,
    big_integers=None,
    allow_nan=None,
    times=None,
    parse_options=None,
    read_options=None,
    **common: Unpack[FileArguments],
):
    """A row for each JSON object: one a line, the elements of an array, or one after another over several
    lines; found out by each file's head (layout: 'lines', 'array', 'sequence' says it). Compressed files
    are decompressed.

    Types are guessed from the first sample_bytes (4 MiB; 0: all) of the first file. Later, a value of
    another type is an error naming file, line, column, expected and found, and so is a key that is no
    column (unexpected='ignore': passed over). on_error='skip' leaves out rows that are no JSON or do not
    fit. big_integers: 'error', 'double' or 'string' for integers beyond 64 bits. allow_nan: NaN and Infinity
    are numbers. times=False: columns of dates and times (ISO 8601, whole seconds, all with a zone or all
    without) stay strings; by default they are timestamps. lines: accepted as Ray's; the layout is found out
    anyhow. parse_options: pyarrow.json's; explicit_schema, unexpected_field_behavior and newlines_in_values
    count. read_options: pyarrow.json's, which only say how pyarrow cuts its work: rows of any length are
    read without. See docs/formats/json.md.
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
                f"read_json: {name}: expected pyarrow.json.{expected}, not {type(given).__name__}"
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
    paths,
    *,
    allow_pickle=False,
    mmap_mode=None,
    fix_imports=None,
    encoding=None,
    **common: Unpack[FileArguments],
):
    """Arrays of .npy and .npz files; rows are slices along the first axis.

    A .npy file is the column 'data', a structured array a column for each field; an .npz file is a column
    for each member, all of one length. Rows of one and more dimensions are tensors. Arrays of Python objects
    are refused: reading them means running what stands in the file. DataError names the file and byte where
    a file is damaged. mmap_mode, fix_imports and encoding, numpy.load's, are accepted; none is of use here.
    """
    if allow_pickle:
        raise UnsupportedError("read_numpy: allow_pickle=True: pickled objects are never loaded")
    return read_files("read_numpy", "numpy", paths, **common)


def read_tfrecords(
    paths, *, tf_schema=None, raw=None, sample=None, check=None, **common: Unpack[FileArguments]
):
    """TFRecord files of tf.train.Example: a column for each feature, plain or compressed.

    A feature that has at most one value in every record is a column of int64, float or binary, others are
    lists; a missing one is null. Which features there are, and which are lists, is found in the first
    `sample` bytes (8 MiB) of the first file; a record that does not fit is a TypeMismatchError naming file
    and record. tf_schema says it instead: a dict of name -> "int64", "float", "bytes" or "list<...>" of
    these, or a schema of tensorflow_metadata; other features are left out. raw=True: the records as they
    are, in the column 'bytes'. check=False: payloads' checksums are not looked at. DataError names file,
    record and byte.
    """
    options = {"tf_schema": tf_schema_text(tf_schema), "raw": raw, "sample": sample, "check": check}
    return read_files("read_tfrecords", "tfrecords", paths, options=options, **common)


def read_images(
    paths,
    *,
    size=None,
    mode=None,
    interpolation="bilinear",
    exif_orientation=False,
    on_error="raise",
    allow_truncated=False,
    exact=True,
    max_pixels=None,
    fixed_shape=True,
    arrow_open_file_args=None,
    **common: Unpack[FileArguments],
):
    """A row for each JPEG, PNG, WebP, GIF, BMP or TIFF file, in the column 'image': uint8, of shape
    (height, width, channels), or (height, width) where it is grey. Of a folder, files with the usual suffixes
    are read.

    size: (height, width), to which all images are resized (interpolation: nearest, box, bilinear, hamming,
    bicubic, lanczos; antialiased); exact=False lets a JPEG be decoded at 1/2, 1/4 or 1/8 where that is still
    twice as large. mode: "L", "LA", "RGB" or "RGBA"; None: as stored. With size the column is a tensor: of
    the mode's channels, or of the first file's, and then an image of others is an error, unless
    fixed_shape=False. Otherwise shapes differ from row to row, and a batch is an array of arrays unless they
    happen to be equal. exif_orientation: turned as EXIF says. on_error: "raise" a DataError that names the
    file, or "skip" it. allow_truncated: what is missing at a file's end is grey or black. max_pixels: images
    of more are damaged (179 million; 0: no limit). include_paths: a column 'path' with each row's file.
    """
    common.setdefault("arrow_open_stream_args", arrow_open_file_args)
    if size is not None and (not isinstance(size, (tuple, list)) or len(size) != 2):
        raise InvalidArgument(f"read_images: size {size!r}: expected (height, width)")
    height, width = (None, None) if size is None else size
    if size is not None and (height < 1 or width < 1):
        raise InvalidArgument(f"read_images: size {size}; expected height and width of at least 1")
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
    paths,
    *,
    decoder=True,
    fileselect=None,
    filerename=None,
    suffixes=None,
    verbose_open=False,
    expand_json=False,
    **common: Unpack[FileArguments],
):
    """Samples of tar archives: a row for each run of members of one key, with '__key__', a column for each
    suffix of the first archive, and '__url__' (and 'path', with include_paths).

    decoder: None gives bytes; True text (txt, text, transcript), numbers (cls, cls2, index, inx, id, count),
    images (uint8, (height, width, channels)), json and npy; "rgb", "l" or "rgba" the same with images of
    these channels; a function gets each sample as a dict and gives what takes its place; a list does one
    after the other. suffixes: only these, names, patterns, or a function. fileselect: the same for whole
    names of members; filerename: functions, or (regular expression, replacement) pairs, that they pass
    before. expand_json: the keys of 'json' become columns. verbose_open: prints which archive begins and
    ends. With fileselect, filerename or verbose_open archives are read by Python, in worker processes. A
    sample that lacks a member has null there. DataError names file, byte and member.
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


def range(n, *, parallelism=-1, concurrency=None, override_num_blocks=None):
    """The int64 column 'id' of 0 .. n-1, computed as it is read. override_num_blocks: in so many blocks, for
    randomize_block_order(); None: of a million rows.
    """
    accept_cluster_arguments("range", {"parallelism": parallelism})
    return _range("range", n, override_num_blocks)


def _range(where, n, n_blocks):
    if n_blocks is not None and not is_whole(n_blocks, 1):
        raise InvalidArgument(f"{where}: override_num_blocks {n_blocks!r}: expected at least 1")
    return Dataset(Node("range", {"n": n, "name": "id", "n_blocks": n_blocks}))


def range_tensor(n, *, shape=(1,), parallelism=-1, concurrency=None, override_num_blocks=None):
    """The int64 tensor column 'data' of n rows; row i is an array of that shape, filled with i.
    override_num_blocks: see range().
    """
    accept_cluster_arguments("range_tensor", {"parallelism": parallelism})
    if not isinstance(shape, (tuple, list)):
        raise TypeMismatchError(f"range_tensor: shape: expected a tuple, not {type(shape).__name__}")

    def filled(batch):
        import numpy as np

        rows = batch["id"].reshape((-1,) + (1,) * len(shape))
        return {"data": np.ascontiguousarray(np.broadcast_to(rows, (len(rows), *shape)))}

    shape = tuple(shape)
    rows = _range("range_tensor", n, override_num_blocks)
    return rows.map_batches(filled, compute="threads", udf_modifying_row_count=False)
