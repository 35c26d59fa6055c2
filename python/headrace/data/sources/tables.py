"""Table formats that other packages read as Arrow data: ORC, Avro, Delta Lake, Iceberg, Lance."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack

from headrace._core import UnsupportedError
from headrace.data.context import accept_cluster_arguments
from headrace.data.datasource.datasource import read_tasks, task
from headrace.data.files import FileArguments
from headrace.data.ranged_files import cached_folder, cached_texts, ranged_filesystem
from headrace.data.sources.each_file import damaged, read_each_file
from headrace.data.table_options import of_iceberg, of_object_store
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
    cache: str | os.PathLike[str] | bool | None = None,
    catalog: Any = None,
    concurrency: int | None = None,
    **other: Any,
) -> Dataset:
    """Rows of a Delta Lake table, at its newest version or at `version`; needs the package deltalake. catalog
    is an error: the options of the package name the table. storage_options: names of other readers, or of the
    package. cache: as of other readers; the engine then reads the files of rows, and the package the log.
    """
    accept_cluster_arguments("read_delta", other)
    _no_catalog("read_delta", catalog)
    deltalake = package("deltalake", "read_delta")
    where = os.fspath(path)
    texts = cached_texts("read_delta", where, storage_options, cache)
    options = of_object_store("read_delta", where, storage_options)
    table = deltalake.DeltaTable(where, version=version, storage_options=options)
    files = None if texts is None else ranged_filesystem("read_delta", where, texts)
    return _of_dataset("delta", table.to_pyarrow_dataset(filesystem=files), columns, concurrency)


class _IcebergScan:
    """A scan of one snapshot. Another process opens the table anew: a catalog cannot be pickled."""

    def __init__(self, given, identifier, arguments, cached):
        catalog = package("pyiceberg.catalog", "read_iceberg").load_catalog(**given)
        table = catalog.load_table(identifier)
        if arguments["snapshot_id"] is None and (snapshot := table.current_snapshot()):
            arguments = {**arguments, "snapshot_id": snapshot.snapshot_id}
        if cached:
            from headrace.data.sources.iceberg_files import CachedFiles

            table.io = CachedFiles(table.io.properties, *cached)
        self.opened = given, identifier, arguments, cached
        self.scan = table.scan(**arguments)

    def __reduce__(self):
        return _IcebergScan, self.opened


def _scanned(iceberg):
    yield from iceberg.scan.to_arrow_batch_reader()


def read_iceberg(
    table_identifier: Any,
    *,
    row_filter: Any = None,
    selected_fields: Any = ("*",),
    snapshot_id: Any = None,
    scan_kwargs: Any = None,
    catalog_kwargs: Any = None,
    catalog: Any = None,
    storage_options: dict[str, Any] | None = None,
    cache: str | os.PathLike[str] | bool | None = None,
    concurrency: int | None = None,
    **other: Any,
) -> Dataset:
    """Rows of an Iceberg table; needs the package pyiceberg. catalog_kwargs: those of load_catalog(). catalog
    is an error. storage_options: names of other readers, which become properties of the catalog (those of
    catalog_kwargs come before), or properties, such as "s3.endpoint". cache: as of other readers; the engine
    then reads the files of rows and the manifests.
    """
    accept_cluster_arguments("read_iceberg", other)
    _no_catalog("read_iceberg", catalog)
    given = {**of_iceberg("read_iceberg", storage_options), **(catalog_kwargs or {})}
    arguments = {"selected_fields": tuple(selected_fields), "snapshot_id": snapshot_id, **(scan_kwargs or {})}
    if row_filter is not None:
        arguments["row_filter"] = row_filter
    folder = cached_folder("read_iceberg", storage_options, cache)
    scan = _IcebergScan(given, table_identifier, arguments, (storage_options, cache) if folder else None)
    return read_tasks("iceberg", [task(_scanned, scan)], compute="threads", concurrency=concurrency)


def _lance_dataset(place, version):
    """place: (URL or path, options of pylance, texts of the engine if the dataset has a cache)."""
    where, options, texts = place
    if texts is not None:
        from headrace.data.sources.loopback_store import open_store

        where, options = open_store(where, texts)
    return package("lance", "read_lance").dataset(where, version=version, storage_options=options)


def _lance_fragment(place, version, number, scan):
    yield from _lance_dataset(place, version).get_fragment(number).to_batches(**scan)


def read_lance(
    uri: str,
    *,
    version: Any = None,
    columns: Sequence[str] | None = None,
    filter: str | None = None,
    storage_options: dict[str, Any] | None = None,
    cache: str | os.PathLike[str] | bool | None = None,
    scanner_options: dict[str, Any] | None = None,
    concurrency: int | None = None,
    **other: Any,
) -> Dataset:
    """Rows of a Lance dataset, fragment by fragment; needs the package pylance. filter: SQL text.
    scanner_options: further arguments of the package's LanceFragment.to_batches. storage_options: names of
    other readers, or of the package. cache: as of other readers; the package then asks this process, at an
    address of the machine that no other user can read, and the engine fetches the objects.
    """
    accept_cluster_arguments("read_lance", other)
    where = os.fspath(uri)
    texts = cached_texts("read_lance", where, storage_options, cache)
    place = (where, of_object_store("read_lance", where, storage_options), texts)
    dataset = _lance_dataset(place, version)
    scan = {"columns": _names(columns), "filter": filter, **(scanner_options or {})}
    fragments = dataset.get_fragments()
    tasks = [task(_lance_fragment, place, dataset.version, f.fragment_id, scan) for f in fragments]
    return read_tasks("lance", tasks, compute="threads", concurrency=concurrency)
