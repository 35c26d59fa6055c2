"""Table formats that other packages read as Arrow data: ORC, Avro, Delta Lake, Iceberg, Lance."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack

from headrace._core import UnsupportedError
from headrace.data.context import accept_cluster_arguments
from headrace.data.datasource.datasource import read_tasks, task
from headrace.data.files import FileArguments
from headrace.data.sources.each_file import damaged, read_each_file
from headrace.optional import package

if TYPE_CHECKING:
    from headrace.data.annotations import Paths
    from headrace.data.dataset import Dataset


AVRO_ROWS = 5_000


def _no_catalog(where, catalog):
    if catalog is not None:
        raise UnsupportedError(f"{where}: catalog is not supported: give the table's place and its options")


def _names(columns):
    return [columns] if isinstance(columns, str) else columns and list(columns)


def _stripes(path):
    orc = package("pyarrow.orc", "read_orc")
    try:
        n = orc.ORCFile(path).nstripes
    except Exception as e:
        raise damaged(path, e) from None
    return [(i, i + 1) for i in range(n)]


class _Stripes:
    """Reads stripes of an ORC file."""

    def __init__(self, columns):
        self.columns = columns

    def __call__(self, path, begin, end):
        orc = package("pyarrow.orc", "read_orc")
        for stripe in range(begin, end):
            try:
                made = orc.ORCFile(path).read_stripe(stripe, self.columns)
            except Exception as e:
                raise damaged(path, e, f"stripe {stripe}") from None
            yield made


def read_orc(
    paths: Paths, *, columns: Sequence[str] | None = None, **common: Unpack[FileArguments]
) -> Dataset:
    """Rows of ORC files. pyarrow reads them, stripe by stripe, in threads. columns: names, in the file's
    order.

    Other arguments: see docs/reading.md.

    common: filesystem, storage_options, cache, partitioning, partition_filter, include_paths,
    ignore_missing_paths, file_extensions, shuffle, schema, unify, arrow_open_stream_args, concurrency,
    override_num_blocks: see docs/reading.md.
    """
    package("pyarrow.orc", "read_orc")
    read = _Stripes(_names(columns))
    return read_each_file(
        "read_orc", "orc", paths, read, parts=_stripes, extensions=["orc"], compute="threads", **common
    )


def _records(path):
    fastavro = package("fastavro", "read_avro")
    block = []
    with open(path, "rb") as file:
        try:
            for record in fastavro.reader(file):
                block.append(record if isinstance(record, dict) else {"value": record})
                if len(block) == AVRO_ROWS:
                    yield block
                    block = []
        except Exception as e:
            raise damaged(path, e) from None
    if block:
        yield block


def read_avro(paths: Paths, **common: Unpack[FileArguments]) -> Dataset:
    """Rows of Avro files. fastavro reads them in worker processes, one task per file.

    common: filesystem, storage_options, cache, partitioning, partition_filter, include_paths,
    ignore_missing_paths, file_extensions, shuffle, schema, unify, arrow_open_stream_args, concurrency,
    override_num_blocks: see docs/reading.md.
    """
    package("fastavro", "read_avro")
    return read_each_file("read_avro", "avro", paths, _records, extensions=["avro"], **common)


def _fragment(fragment, schema, columns):
    yield from fragment.to_batches(schema=schema, columns=columns)


def _of_dataset(name, dataset, columns, concurrency):
    """The fragments of a pyarrow.dataset, in its order."""
    tasks = [task(_fragment, f, dataset.schema, _names(columns)) for f in dataset.get_fragments()]
    return read_tasks(name, tasks, compute="threads", concurrency=concurrency)


def read_delta(
    path: Any,
    version: Any = None,
    *,
    columns: Sequence[str] | None = None,
    storage_options: dict[str, Any] | None = None,
    catalog: Any = None,
    concurrency: int | None = None,
    **other: Any,
) -> Dataset:
    """Rows of a Delta Lake table, at its newest version or at `version`; needs the package deltalake. catalog
    is an error: the options of the package name the table.
    """
    accept_cluster_arguments("read_delta", other)
    _no_catalog("read_delta", catalog)
    deltalake = package("deltalake", "read_delta")
    table = deltalake.DeltaTable(os.fspath(path), version=version, storage_options=storage_options)
    return _of_dataset("delta", table.to_pyarrow_dataset(), columns, concurrency)


def _scanned(scan):
    yield from scan.to_arrow_batch_reader()


def read_iceberg(
    table_identifier: Any,
    *,
    row_filter: Any = None,
    selected_fields: Any = ("*",),
    snapshot_id: Any = None,
    scan_kwargs: Any = None,
    catalog_kwargs: Any = None,
    catalog: Any = None,
    concurrency: int | None = None,
    **other: Any,
) -> Dataset:
    """Rows of an Iceberg table; needs the package pyiceberg. catalog_kwargs: those of load_catalog(). catalog
    is an error.
    """
    accept_cluster_arguments("read_iceberg", other)
    _no_catalog("read_iceberg", catalog)
    catalog = package("pyiceberg.catalog", "read_iceberg").load_catalog(**(catalog_kwargs or {}))
    arguments = {"selected_fields": tuple(selected_fields), "snapshot_id": snapshot_id, **(scan_kwargs or {})}
    if row_filter is not None:
        arguments["row_filter"] = row_filter
    scan = catalog.load_table(table_identifier).scan(**arguments)
    return read_tasks("iceberg", [task(_scanned, scan)], compute="threads", concurrency=concurrency)


def _lance_fragment(uri, version, options, number, scan):
    dataset = package("lance", "read_lance").dataset(uri, version=version, storage_options=options)
    yield from dataset.get_fragment(number).to_batches(**scan)


def read_lance(
    uri: str,
    *,
    version: Any = None,
    columns: Sequence[str] | None = None,
    filter: str | None = None,
    storage_options: dict[str, str] | None = None,
    scanner_options: dict[str, Any] | None = None,
    concurrency: int | None = None,
    **other: Any,
) -> Dataset:
    """Rows of a Lance dataset, fragment by fragment; needs the package pylance. filter: SQL text.
    scanner_options: further arguments of the package's LanceFragment.to_batches.
    """
    accept_cluster_arguments("read_lance", other)
    where = os.fspath(uri)
    dataset = package("lance", "read_lance").dataset(where, version=version, storage_options=storage_options)
    scan = {"columns": _names(columns), "filter": filter, **(scanner_options or {})}
    tasks = [
        task(_lance_fragment, where, dataset.version, storage_options, f.fragment_id, scan)
        for f in dataset.get_fragments()
    ]
    return read_tasks("lance", tasks, compute="threads", concurrency=concurrency)
