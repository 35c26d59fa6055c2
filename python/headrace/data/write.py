"""The write_* methods of Dataset: rows to files, databases, and sinks of users.

The engine writes files (docs/writing.md): all files of a job appear when all are complete, or none appears.
Their content depends on the rows alone.
"""

from __future__ import annotations

import difflib
import os
import uuid
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Unpack

from headrace import lazy_module, places
from headrace._core import InvalidArgument, StorageError, TypeMismatchError, UnsupportedError
from headrace.data.context import DataContext, accept_cluster_arguments, is_whole
from headrace.data.datasinks import (
    Datasink,
    FilenameProvider,
    SaveMode,
    SinkMode,
    TaskContext,
    WriteResult,
    WriteReturnType,
    save_mode,
)
from headrace.data.filesystems import places as places_in
from headrace.data.paths import check_stream_args, is_served, is_store, path_text, shown
from headrace.data.plan import Node
from headrace.data.records import of_tf_schema
from headrace.data.sample_encoders import encoded

if TYPE_CHECKING:
    from headrace.data.annotations import ClusterArguments, Columns, Encoder, Path

blocks = lazy_module("headrace.data.blocks")  # imports numpy
progress = lazy_module("headrace.data.progress")
hints = lazy_module("headrace.data.hints")

NAME_COLUMN = "__headrace_file_name__"
DEFAULT_FILE_BYTES = 512 << 20
SQL_ROWS = 1024
NAME_ROWS = 1024


class _Names:
    """The engine's callback name(index, suffix) for a provider."""

    def __init__(self, provider, job):
        self.provider, self.job = provider, job

    def __call__(self, index, suffix):
        return self.provider.get_filename_for_block(None, self.job, index, 0)


class _RowNames:
    """Adds the column of file names, by batches of NAME_ROWS rows."""

    __name__ = "filename_provider"

    def __init__(self, provider, job):
        self.provider, self.job = provider, job

    def __call__(self, batch):
        from headrace.udf.call import here

        columns = list(batch)
        names = [
            self.provider.get_filename_for_row(
                dict(zip(columns, row, strict=True)), self.job, here.ordinal, 0, i
            )
            for i, row in enumerate(zip(*batch.values(), strict=True))
        ]
        return {**batch, NAME_COLUMN: names}


def _texts(options):
    def text(value):
        return str(value).lower() if isinstance(value, bool) else str(value)

    return [f"{name}={text(value)}" for name, value in options.items() if value is not None]


def _number(where, name, value):
    if value is None:
        return 0
    if not is_whole(value, 1):
        raise InvalidArgument(f"{where}: {name}: expected a number of at least 1, found {value!r}")
    return value


def _rows_per_file(where, least, most, number):
    """(min_rows_per_file, max_rows_per_file); 0: no bound."""
    if number is not None:
        if least is not None or most is not None:
            raise InvalidArgument(
                f"{where}: expected num_rows_per_file, or min_rows_per_file and max_rows_per_file, not both"
            )
        warnings.warn(
            f"{where}: num_rows_per_file is deprecated; use min_rows_per_file and max_rows_per_file",
            DeprecationWarning,
            stacklevel=4,
        )
        least = most = _number(where, "num_rows_per_file", number)
    least = _number(where, "min_rows_per_file", least)
    most = _number(where, "max_rows_per_file", most)
    if least and most and least > most:
        raise InvalidArgument(
            f"{where}: expected min_rows_per_file <= max_rows_per_file, found {least} and {most}"
        )
    return least, most


def _stream_options(where, format, given):
    """pyarrow's arguments for opening an output file, as options of the format."""
    check_stream_args(where, given)
    codec = (given or {}).get("compression")
    if codec in (None, "detect"):
        return {}
    if format not in ("csv", "json") or codec not in ("gzip", "zstd", "lz4"):
        raise UnsupportedError(
            f"{where}: arrow_open_stream_args: compression {codec!r}: only write_csv and write_json compress "
            "whole files, by gzip, zstd or lz4"
        )
    return {"compression": codec}


def write_files(ds, where, format, path, **arguments):
    """Writes all rows; returns a list with {"path", "rows", "bytes"} of each file, in order. With
    DataContext.checkpoint_config the rows that an earlier job has not written.
    """
    config = DataContext.get_current().checkpoint_config
    if config is None:
        return _write_files(ds, where, format, path, **arguments)
    from headrace.data import restarting

    mode = save_mode(arguments.get("mode", SaveMode.APPEND), where)
    if mode != "append" or arguments.get("filename_provider") or arguments.get("single_file"):
        raise UnsupportedError(
            f"{where}: checkpoint_config: expected mode 'append', no filename_provider and no single_file"
        )
    path, storage = places.in_filesystem(
        where, path, arguments.pop("filesystem", None), arguments.get("storage_options")
    )
    arguments["storage_options"] = storage
    ids_storage = storage if config._options is None else config._options

    def write(part, name):
        return _write_files(part, where, format, path, job=name, **arguments)

    def write_ids(ids, file):
        _write_files(ids, where, "parquet", file, single_file=True, sync=1, storage_options=ids_storage)

    return restarting.write_in_parts(ds, where, path_text(path), config, storage, write, write_ids)


def _no_checkpoint(where):
    if DataContext.get_current().checkpoint_config is not None:
        raise UnsupportedError(f"{where}: checkpoint_config: only writers of files restart; set it to None")


def _write_files(
    ds,
    where,
    format,
    path,
    *,
    job=None,
    options=None,
    partition_cols=None,
    filesystem=None,
    try_create_dir=True,
    arrow_open_stream_args=None,
    filename_provider=None,
    min_rows_per_file=None,
    max_rows_per_file=None,
    num_rows_per_file=None,
    max_bytes_per_file=None,
    min_bytes_per_file=None,
    mode=SaveMode.APPEND,
    sync=0,
    each_row=False,
    concurrency=None,
    single_file=False,
    storage_options=None,
    **other,
):
    """write_files() without checkpoints. job: a part of the names of files."""
    accept_cluster_arguments(where, other)
    if not isinstance(path, (str, os.PathLike)):
        raise TypeMismatchError(f"{where}: path: expected a str or a Path, found {type(path).__name__}")
    if filename_provider is not None and not hasattr(filename_provider, "get_filename_for_block"):
        found = type(filename_provider).__name__
        raise TypeMismatchError(f"{where}: filename_provider: expected a FilenameProvider, found {found}")
    _refuse_others_names(where, options or {})
    options = {**_stream_options(where, format, arrow_open_stream_args), **(options or {})}
    min_rows_per_file, max_rows_per_file = _rows_per_file(
        where, min_rows_per_file, max_rows_per_file, num_rows_per_file
    )
    if _number(where, "min_bytes_per_file", min_bytes_per_file) > DEFAULT_FILE_BYTES:
        max_bytes_per_file = max_bytes_per_file or min_bytes_per_file
    _number(where, "concurrency", concurrency)
    (path,), storage, served = places_in(where, filesystem, [path_text(path)], storage_options)
    mode = save_mode(mode, where)
    remote = is_store(path)
    if not try_create_dir and not single_file and not _has_folder(path, remote, served):
        raise StorageError(f"{shown(path)}: the folder does not exist, and try_create_dir is False")
    is_new, job = job is None, job or uuid.uuid4().hex
    node, name, name_column = ds._node, None, None
    if filename_provider is not None and each_row:
        names = _RowNames(filename_provider, job)
        named = ds.map_batches(names, batch_format="numpy", batch_size=NAME_ROWS, compute="inline")
        node, name_column = named._node, NAME_COLUMN
    elif filename_provider is not None:
        name = _Names(filename_provider, job)
    args = {
        "format": format,
        "path": path,
        "mode": mode,
        "single_file": single_file,
        "partition_columns": [partition_cols] if isinstance(partition_cols, str) else partition_cols,
        "min_rows_per_file": min_rows_per_file,
        "max_rows_per_file": max_rows_per_file,
        "max_file_bytes": _number(where, "max_bytes_per_file", max_bytes_per_file),
        "job": None if is_new and filename_provider is None else job,  # None: the engine makes one
        "name_column": name_column,
        "sync": sync,
        "options": _texts(options),
        "name": name,
        "storage_options": storage,
    }
    if served is not None:
        args["filesystem"] = served
    with ds._run(Node("write", args, [node])) as run, progress.of_run(run, where):
        made = [row for table in run for row in blocks.rows_of(table, writable=True)]
    return [{**row, "path": shown(row["path"])} if is_served(row["path"]) else row for row in made]


def _has_folder(path, remote, served):
    """Whether the folder is there; stores have none."""
    if served is not None:
        return served.exists(path)
    return remote or os.path.isdir(path)


def _call(args_fn, arguments):
    return {**arguments, **(args_fn() if args_fn else {})}


_FILE_ARGUMENTS = (
    "filesystem",
    "try_create_dir",
    "arrow_open_stream_args",
    "filename_provider",
    "min_rows_per_file",
    "max_rows_per_file",
    "num_rows_per_file",
    "max_bytes_per_file",
    "min_bytes_per_file",
    "ray_remote_args",
    "concurrency",
    "mode",
    "sync",
    "single_file",
    "storage_options",
)


def _split(arguments):
    """(arguments for all files, options of the format)."""
    files = {k: arguments.pop(k) for k in _FILE_ARGUMENTS if k in arguments}
    return files, arguments


def _refuse_others_names(where, options):
    """Raises for the name of an argument that is another tool's, or nearly one of ours; the engine knows only
    its own options.
    """
    ours = [*_FILE_ARGUMENTS, "partition_cols"]
    for name in options:
        near = difflib.get_close_matches(name, ours, 1, 0.8)
        if near or name in hints.INSTEAD or set(hints.ARGUMENTS.get(name, ())) & set(ours):
            raise hints.unexpected(where, name, _FILE_ARGUMENTS)


_PARQUET_NAMES = {
    "row_group_size": "row_group_rows",
    "use_dictionary": "dictionary",
    "write_statistics": "statistics",
    "data_page_size": "page_bytes",
    "data_page_version": "page_version",
    "write_page_index": "page_index",
    "write_page_checksum": "page_checksum",
}
# Arguments of pyarrow's writer without effect: the engine always does this, or does not need it.
_PARQUET_IGNORED = {"version", "use_deprecated_int96_timestamps", "store_schema", "write_batch_size"}
_PARQUET_IGNORED |= {"use_compliant_nested_type", "memory_pool", "use_threads", "dictionary_pagesize_limit"}


_QUOTING = {"needed": "needed", "all_valid": "all", "none": "none"}


def _start(datasink, schema):
    import inspect

    if inspect.signature(datasink.on_write_start).parameters:
        datasink.on_write_start(schema)
    else:
        datasink.on_write_start()


def _not_here(where, **given):
    for name, value in given.items():
        if value is not None:
            raise UnsupportedError(f"{where}: {name} is not supported")


def _of_bytes(tables, least):
    """Lists of tables that have at least so many bytes, but for the last one."""
    held: list[Any] = []
    for table in tables:
        held.append(table)
        if sum(t.nbytes for t in held) >= (least or 0):
            yield held
            held = []
    if held:
        yield held


class Writing:
    """The write_* methods of Dataset."""

    def write_parquet(
        self,
        path: Path,
        *,
        partition_cols: Columns | None = None,
        arrow_parquet_args_fn: Callable[[], dict[str, Any]] | None = None,
        catalog: Any = None,
        **arguments: Any,
    ) -> list[dict[str, Any]]:
        """Writes Parquet files in the folder `path`; returns a list with {"path", "rows", "bytes"} of each
        file.

        partition_cols: columns whose values name folders ("a=1/b=x"); the files do not have them.
        min_rows_per_file, max_rows_per_file, max_bytes_per_file (512 MiB): when a file ends.
        filename_provider: a FilenameProvider. mode: a SaveMode. sync=1: the files are on disk before they
        appear. single_file=True: `path` is the file itself. storage_options: for stores, as for readers.
        The others are pyarrow's names or options of the format: compression ("zstd"), compression_level,
        row_group_size (rows), row_group_bytes, use_dictionary, write_statistics, data_page_size,
        data_page_version ("1.0", "2.0"), write_page_index, write_page_checksum (True).
        """
        _not_here("write_parquet", catalog=catalog)
        files, options = _split(_call(arrow_parquet_args_fn, arguments))
        out = {}
        for key, value in options.items():
            if key in _PARQUET_IGNORED:
                continue
            if key == "data_page_version":
                value = {"1.0": 1, "2.0": 2}.get(value, value)
            if key in ("use_dictionary", "write_statistics") and isinstance(value, (list, tuple)):
                value = bool(value)
            if key == "compression":
                value = "none" if value is None or str(value).upper() == "NONE" else str(value).lower()
            out[_PARQUET_NAMES.get(key, key)] = value
        return write_files(
            self, "write_parquet", "parquet", path, options=out, partition_cols=partition_cols, **files
        )

    def write_arrow(self, path: Path, **arguments: Any) -> list[dict[str, Any]]:
        """Writes Arrow IPC files (Feather V2) in the folder `path`; options: compression ("none", "lz4",
        "zstd"), stream=True for the stream format. Others: see write_parquet.
        """
        files, options = _split(arguments)
        return write_files(self, "write_arrow", "arrow", path, options=options, **files)

    def write_csv(
        self,
        path: Path,
        *,
        arrow_csv_args_fn: Callable[[], dict[str, Any]] | None = None,
        write_options: Any = None,
        **arguments: Any,
    ) -> list[dict[str, Any]]:
        """Writes CSV files in the folder `path`; options of the format: see docs/formats/csv.md.
        write_options: pyarrow's WriteOptions; include_header, delimiter and quoting_style have an effect.
        Others: see write_parquet.
        """
        arguments = _call(arrow_csv_args_fn, arguments)
        write_options = arguments.pop("write_options", write_options)
        files, options = _split(arguments)
        if write_options is not None:
            if not hasattr(write_options, "include_header"):
                found = type(write_options).__name__
                raise TypeMismatchError(f"write_csv: write_options: expected a WriteOptions, found {found}")
            options.setdefault("header", write_options.include_header)
            options.setdefault("delimiter", write_options.delimiter)
            options.setdefault("quoting", _QUOTING[write_options.quoting_style])
        return write_files(self, "write_csv", "csv", path, options=options, **files)

    def write_json(
        self,
        path: Path,
        *,
        pandas_json_args_fn: Callable[[], dict[str, Any]] | None = None,
        **arguments: Any,
    ) -> list[dict[str, Any]]:
        """Writes JSON lines in the folder `path`; options: see docs/formats/json.md. Others: see
        write_parquet.
        """
        files, options = _split(_call(pandas_json_args_fn, arguments))
        options = {k: v for k, v in options.items() if (k, v) not in (("orient", "records"), ("lines", True))}
        return write_files(self, "write_json", "json", path, options=options, **files)

    def write_numpy(self, path: Path, *, column: str, **arguments: Any) -> list[dict[str, Any]]:
        """Writes .npy files in the folder `path`, each with values of `column` along the first axis."""
        files, options = _split(arguments)
        return write_files(
            self.select_columns([column]), "write_numpy", "numpy", path, options=options, **files
        )

    def write_images(
        self, path: Path, column: str, file_format: str = "png", **arguments: Any
    ) -> list[dict[str, Any]]:
        """Writes one file per value of `column`, (H, W, C) uint8; file_format: "png", "jpeg", ..."""
        files, options = _split(arguments)
        ds = self
        if not files.get("filename_provider"):
            ds = self.select_columns([column])
        options["column"] = column
        options["file_format"] = "jpeg" if file_format == "jpg" else file_format
        return write_files(ds, "write_images", "images", path, options=options, each_row=True, **files)

    def write_tfrecords(self, path: Path, *, tf_schema: Any = None, **arguments: Any) -> list[dict[str, Any]]:
        """Writes TFRecord files of tf.train.Example in the folder `path`.

        tf_schema, as for read_tfrecords: the features and their types; it may turn integers into floats. A
        column that it does not have, or has with another type, is an error.
        """
        files, options = _split(arguments)
        ds = self
        if tf_schema is not None:
            ds = of_tf_schema(self, tf_schema)
        return write_files(ds, "write_tfrecords", "tfrecords", path, options=options, **files)

    def write_webdataset(
        self, path: Path, *, encoder: Encoder = True, **arguments: Any
    ) -> list[dict[str, Any]]:
        """Writes tar files in the folder `path`: each row is a sample, each column a member "KEY.COLUMN". The
        column "__key__" names samples; without it their coordinates do. Other columns that begin with "__"
        are left out.

        Text and bytes become members as they are, numbers as text. encoder: True encodes other values as the
        end of the column's name says: json, npy, images (jpg, png, ...; pillow), pt, pkl, mp (msgpack). A
        function gets each sample as a dict and returns the one to write; a list applies its encoders one
        after the other; None does nothing.
        """
        files, options = _split(arguments)
        ds = encoded(self, encoder)
        return write_files(ds, "write_webdataset", "webdataset", path, options=options, **files)

    def write_orc(
        self,
        path: Path,
        *,
        filesystem: Any = None,
        try_create_dir: bool = True,
        arrow_open_stream_args: dict[str, Any] | None = None,
        filename_provider: FilenameProvider | None = None,
        arrow_orc_args_fn: Callable[[], dict[str, Any]] | None = None,
        min_rows_per_file: int | None = None,
        ray_remote_args: dict[str, Any] | None = None,
        concurrency: int | None = None,
        mode: SaveMode | SinkMode | str = SaveMode.APPEND,
        storage_options: dict[str, Any] | None = None,
        **arrow_orc_args: Any,
    ) -> list[dict[str, Any]]:
        """Writes ORC files in the folder `path`, one for each block, or for min_rows_per_file rows; returns a
        list with {"path", "rows", "bytes"} of each. pyarrow writes them; arrow_orc_args are those of its
        orc.write_table (compression="zstd", stripe_size, ...). Files of a job that fails are removed.
        filesystem, storage_options: as of write_parquet.
        """
        from headrace.data import table_writers

        accept_cluster_arguments("write_orc", {"ray_remote_args": ray_remote_args})
        return table_writers.write_orc(
            self,
            path,
            _call(arrow_orc_args_fn, arrow_orc_args),
            filename_provider,
            filesystem=filesystem,
            try_create_dir=try_create_dir,
            open_stream_args=arrow_open_stream_args,
            min_rows_per_file=min_rows_per_file,
            mode=mode,
            storage_options=storage_options,
        )

    def write_delta(
        self,
        path: Path,
        *,
        catalog: Any = None,
        mode: SaveMode | SinkMode | str = SaveMode.APPEND,
        partition_by: list[str] | None = None,
        storage_options: dict[str, str] | None = None,
        schema_mode: str = "merge",
        filesystem: Any = None,
        name: str | None = None,
        description: str | None = None,
        ray_remote_args: dict[str, Any] | None = None,
        concurrency: int | None = None,
    ) -> None:
        """Writes the rows in one transaction of the Delta Lake table at `path`, which is made if it is not
        there; needs the package deltalake. schema_mode: "merge" adds new columns, "error" refuses them.
        """
        from headrace.data import table_writers

        _no_checkpoint("write_delta")
        _not_here("write_delta", catalog=catalog, filesystem=filesystem)
        options = {
            "partition_by": partition_by,
            "storage_options": storage_options,
            "name": name,
            "description": description,
        }
        other = {"ray_remote_args": ray_remote_args}
        table_writers.write_delta(self, path, mode, schema_mode, options, other)

    def write_iceberg(
        self,
        table_identifier: str,
        catalog_kwargs: dict[str, Any] | None = None,
        catalog: Any = None,
        snapshot_properties: dict[str, str] | None = None,
        mode: SaveMode | SinkMode | str = SaveMode.APPEND,
        overwrite_filter: Any = None,
        upsert_kwargs: dict[str, Any] | None = None,
        overwrite_kwargs: dict[str, Any] | None = None,
        ray_remote_args: dict[str, Any] | None = None,
        concurrency: int | None = None,
        *,
        storage_options: dict[str, Any] | None = None,
    ) -> None:
        """Writes the rows in an Iceberg table, which is made if it is not there; needs the package pyiceberg,
        which gets all rows at once, in memory. New columns are added. overwrite_filter: an expression of
        pyiceberg, or its text. mode: "append", "overwrite" or "upsert" (upsert_kwargs: join_cols, ...).
        storage_options: as of read_iceberg.
        """
        from headrace.data import table_writers

        _no_checkpoint("write_iceberg")
        _not_here("write_iceberg", catalog=catalog)
        options = {
            "snapshot_properties": snapshot_properties,
            "overwrite_filter": overwrite_filter,
            "upsert_kwargs": upsert_kwargs,
            "overwrite_kwargs": overwrite_kwargs,
        }
        other = {"ray_remote_args": ray_remote_args}
        table_writers.write_iceberg(
            self, table_identifier, catalog_kwargs, mode, options, other, storage_options
        )

    def write_lance(
        self,
        path: Path,
        *,
        schema: Any = None,
        mode: SaveMode | SinkMode | str = SaveMode.CREATE,
        min_rows_per_file: int = 1024 * 1024,
        max_rows_per_file: int = 64 * 1024 * 1024,
        data_storage_version: str | None = None,
        storage_options: dict[str, Any] | None = None,
        table_id: list[str] | None = None,
        namespace_impl: str | None = None,
        namespace_properties: dict[str, str] | None = None,
        ray_remote_args: dict[str, Any] | None = None,
        concurrency: int | None = None,
    ) -> None:
        """Writes the rows as a version of the Lance dataset at `path`; needs the package pylance. mode:
        "create", "append" or "overwrite". min_rows_per_file has no effect.
        """
        from headrace.data import table_writers

        _no_checkpoint("write_lance")
        _not_here(
            "write_lance",
            table_id=table_id,
            namespace_impl=namespace_impl,
            namespace_properties=namespace_properties,
        )
        options = {
            "schema": schema,
            "max_rows_per_file": max_rows_per_file,
            "data_storage_version": data_storage_version,
            "storage_options": storage_options,
        }
        table_writers.write_lance(self, path, mode, options, {"ray_remote_args": ray_remote_args})

    def write_sql(
        self,
        sql: str,
        connection_factory: Callable[[], Any],
        ray_remote_args: dict[str, Any] | None = None,
        concurrency: int | None = None,
        **other: Unpack[ClusterArguments],
    ) -> int:
        """Writes rows by `sql`, an INSERT with one parameter per column, through a DB-API connection, in one
        transaction: committed at the end, rolled back on an error.
        """
        accept_cluster_arguments("write_sql", {"ray_remote_args": ray_remote_args, **other})
        _no_checkpoint("write_sql")
        connection = connection_factory()
        rows = 0
        try:
            cursor = connection.cursor()
            with self._run(self._node) as run, progress.of_run(run, "write_sql", self._node):
                for table in run:
                    values = [tuple(row.values()) for row in blocks.rows_of(table, writable=True)]
                    for begin in range(0, len(values), SQL_ROWS):
                        cursor.executemany(sql, values[begin : begin + SQL_ROWS])
                    rows += len(values)
            connection.commit()
        except BaseException:
            rollback = getattr(connection, "rollback", None)
            if rollback is not None:
                rollback()
            raise
        finally:
            connection.close()
        return rows

    def write_datasink(
        self, datasink: Datasink[Any], *, concurrency: int | None = None, **other: Unpack[ClusterArguments]
    ) -> None:
        """Writes rows to a user's Datasink, in order. An error of the sink or the run goes to
        on_write_failed, then to the caller.
        """
        accept_cluster_arguments("write_datasink", other)
        _no_checkpoint("write_datasink")
        if not hasattr(datasink, "write"):
            raise TypeMismatchError(f"write_datasink: expected a Datasink, found {type(datasink).__name__}")
        least = getattr(datasink, "min_rows_per_write", None)
        node = Node("rebatch", {"n_rows": least}, [self._node]) if least else self._cut_node()
        result: WriteResult[Any] = WriteResult()
        try:
            schema = self.schema()
            _start(datasink, schema.base_schema if schema is not None else None)
            with self._run(node) as run, progress.of_run(run, "write_datasink", node):
                for tables in _of_bytes(run, getattr(datasink, "min_bytes_per_write", None)):
                    made = [blocks.to_format(table, "pyarrow") for table in tables]
                    ctx = TaskContext(len(result.write_returns))
                    result.write_returns.append(datasink.write(made, ctx))
                    result.num_rows += sum(block.num_rows for block in made)
                    result.size_bytes += sum(block.nbytes for block in made)
            datasink.on_write_complete(result)
        except Exception as e:
            datasink.on_write_failed(e)
            raise


__all__ = [
    "Datasink",
    "FilenameProvider",
    "SaveMode",
    "SinkMode",
    "WriteResult",
    "WriteReturnType",
    "Writing",
]
