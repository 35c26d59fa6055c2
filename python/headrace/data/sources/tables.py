"""Row and table formats that other packages read and hand over as Arrow data: ORC, Avro, Delta Lake, Iceberg,
Lance.
"""

import os

from headrace._core import DataError
from headrace.data.context import accept_cluster_arguments
from headrace.data.datasource import read_tasks, task
from headrace.data.files import files_of
from headrace.data.sources import package

AVRO_ROWS = 5_000


def _names(columns):
    return [columns] if isinstance(columns, str) else columns and list(columns)


def _stripe(path, stripe, columns):
    orc = package("pyarrow.orc", "read_orc", "pyarrow")
    try:
        yield orc.ORCFile(path).read_stripe(stripe, columns)
    except (OSError, ValueError) as e:
        raise DataError(f"{path}: stripe {stripe}: {e}") from None


def read_orc(
    paths, *, columns=None, file_extensions=None, ignore_missing_paths=False, concurrency=None, **other
):
    """Rows of ORC files, stripe by stripe, through pyarrow. columns: names, in the file's order."""
    accept_cluster_arguments("read_orc", other)
    orc = package("pyarrow.orc", "read_orc", "pyarrow")
    tasks = []
    for path in files_of(paths, file_extensions or ["orc"], ignore_missing_paths):
        try:
            n = orc.ORCFile(path).nstripes
        except (OSError, ValueError) as e:
            raise DataError(f"{path}: {e}") from None
        tasks += [task(_stripe, path, i, _names(columns)) for i in range(n)]
    return read_tasks("orc", tasks, compute="threads", concurrency=concurrency)


def _records(path):
    fastavro = package("fastavro", "read_avro")
    with open(path, "rb") as file:
        try:
            block = []
            for record in fastavro.reader(file):
                block.append(record if isinstance(record, dict) else {"value": record})
                if len(block) == AVRO_ROWS:
                    yield block
                    block = []
            if block:
                yield block
        except (ValueError, EOFError, IndexError, KeyError, TypeError) as e:
            raise DataError(f"{path}: {type(e).__name__}: {e}") from None


def read_avro(paths, *, file_extensions=None, ignore_missing_paths=False, concurrency=None, **other):
    """Rows of Avro files, a task each file, through fastavro in worker processes."""
    accept_cluster_arguments("read_avro", other)
    package("fastavro", "read_avro")
    files = files_of(paths, file_extensions or ["avro"], ignore_missing_paths)
    return read_tasks("avro", [task(_records, path) for path in files], concurrency=concurrency)


def _fragment(fragment, schema, columns):
    yield from fragment.to_batches(schema=schema, columns=columns)


def _of_dataset(name, dataset, columns, concurrency):
    """The fragments of a pyarrow.dataset, in its order."""
    tasks = [task(_fragment, f, dataset.schema, _names(columns)) for f in dataset.get_fragments()]
    return read_tasks(name, tasks, compute="threads", concurrency=concurrency)


def read_delta(path, version=None, *, columns=None, storage_options=None, concurrency=None, **other):
    """Rows of a Delta Lake table, at its newest version or at `version`, through the package deltalake."""
    accept_cluster_arguments("read_delta", other)
    deltalake = package("deltalake", "read_delta")
    table = deltalake.DeltaTable(os.fspath(path), version=version, storage_options=storage_options)
    return _of_dataset("delta", table.to_pyarrow_dataset(), columns, concurrency)


def _scanned(scan):
    yield from scan.to_arrow_batch_reader()


def read_iceberg(
    table_identifier,
    *,
    row_filter=None,
    selected_fields=("*",),
    snapshot_id=None,
    scan_kwargs=None,
    catalog_kwargs=None,
    concurrency=None,
    **other,
):
    """Rows of an Iceberg table, through the package pyiceberg. catalog_kwargs: of its load_catalog()."""
    accept_cluster_arguments("read_iceberg", other)
    catalog = package("pyiceberg.catalog", "read_iceberg", "pyiceberg").load_catalog(**(catalog_kwargs or {}))
    arguments = {"selected_fields": tuple(selected_fields), "snapshot_id": snapshot_id, **(scan_kwargs or {})}
    if row_filter is not None:
        arguments["row_filter"] = row_filter
    scan = catalog.load_table(table_identifier).scan(**arguments)
    return read_tasks("iceberg", [task(_scanned, scan)], compute="threads", concurrency=concurrency)


def _lance_fragment(uri, version, number, columns, filter_text):
    dataset = package("lance", "read_lance", "pylance").dataset(uri, version=version)
    yield from dataset.get_fragment(number).to_batches(columns=columns, filter=filter_text)


def read_lance(uri, *, version=None, columns=None, filter=None, concurrency=None, **other):
    """Rows of a Lance dataset, fragment by fragment, through the package pylance. filter: SQL text."""
    accept_cluster_arguments("read_lance", other)
    dataset = package("lance", "read_lance", "pylance").dataset(os.fspath(uri), version=version)
    numbers = [f.fragment_id for f in dataset.get_fragments()]
    tasks = [
        task(_lance_fragment, os.fspath(uri), dataset.version, n, _names(columns), filter) for n in numbers
    ]
    return read_tasks("lance", tasks, compute="threads", concurrency=concurrency)
