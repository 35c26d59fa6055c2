"""Writers of table formats by their own packages: ORC, Delta Lake, Iceberg, Lance. They get the rows as an
Arrow stream, in order, while the run computes them.
"""

from __future__ import annotations

from headrace._core import InvalidArgument, UnsupportedError
from headrace.data.context import accept_cluster_arguments
from headrace.data.datasinks import save_mode
from headrace.data.datasource.file_datasink import BlockBasedFileDatasink
from headrace.data.paths import path_text
from headrace.data.table_options import of_iceberg, of_object_store
from headrace.optional import package


def _stream(ds, where):
    """The rows as a pyarrow.RecordBatchReader; its end ends the run."""
    return package("pyarrow", where).RecordBatchReader.from_stream(ds)


class _OrcSink(BlockBasedFileDatasink):
    def __init__(self, path, arguments, **more):
        super().__init__(path, **more)
        self.arguments = arguments
        self.files = []

    def write_block_to_file(self, block, file):
        package("pyarrow.orc", "write_orc").write_table(block.to_arrow(), file, **self.arguments)
        self.files.append((self._written[-1], block.num_rows()))


def write_orc(ds, path, arguments, provider, **more):
    """Files of ORC in the folder `path`; returns what Dataset.write_parquet() returns."""
    package("pyarrow.orc", "write_orc")
    how = {"filename_provider": provider} if provider else {"file_format": "orc"}
    sink = _OrcSink(path_text(path), arguments, **how, **more)
    ds.write_datasink(sink)
    found = sink.filesystem.get_file_info([path for path, _ in sink.files])
    return [
        {"path": p, "rows": n, "bytes": info.size} for (p, n), info in zip(sink.files, found, strict=True)
    ]


_DELTA_MODES = {"append": "append", "overwrite": "overwrite", "create": "error", "ignore": "ignore"}


def write_delta(ds, path, mode, schema_mode, options, other):
    """One transaction of a Delta Lake table."""
    accept_cluster_arguments("write_delta", other)
    deltalake = package("deltalake", "write_delta")
    if schema_mode not in ("merge", "error"):
        raise InvalidArgument(f"write_delta: schema_mode: expected 'merge' or 'error', found {schema_mode!r}")
    word = save_mode(mode, "write_delta")
    merge = schema_mode == "merge" and word in ("append", "overwrite")
    where = path_text(path)
    options |= {"storage_options": of_object_store("write_delta", where, options["storage_options"])}
    deltalake.write_deltalake(
        where,
        _stream(ds, "write_delta"),
        mode=_DELTA_MODES[word],
        schema_mode="merge" if merge else None,
        **{name: value for name, value in options.items() if value is not None},
    )


def write_lance(ds, path, mode, options, other):
    """A version of a Lance dataset."""
    accept_cluster_arguments("write_lance", other)
    lance = package("lance", "write_lance")
    word = save_mode(mode, "write_lance")
    if word == "ignore":
        raise UnsupportedError("write_lance: expected mode 'create', 'append' or 'overwrite', found 'ignore'")
    where = path_text(path)
    options |= {"storage_options": of_object_store("write_lance", where, options["storage_options"])}
    rows = _stream(ds, "write_lance")
    given = {name: value for name, value in options.items() if value is not None}
    lance.write_dataset(rows, where, schema=given.pop("schema", rows.schema), mode=word, **given)


def write_iceberg(ds, table_identifier, catalog_kwargs, mode, options, other, storage_options=None):
    """One transaction of an Iceberg table, which is made if it is not there; new columns are added."""
    accept_cluster_arguments("write_iceberg", other)
    given = {**of_iceberg("write_iceberg", storage_options), **(catalog_kwargs or {})}
    catalog = package("pyiceberg.catalog", "write_iceberg").load_catalog(**given)
    upsert = str(getattr(mode, "value", mode)).lower() == "upsert"
    word = "upsert" if upsert else save_mode(mode, "write_iceberg")
    if word not in ("append", "overwrite", "upsert"):
        raise UnsupportedError(
            f"write_iceberg: expected mode 'append', 'overwrite' or 'upsert', found {word!r}"
        )
    rows = _stream(ds, "write_iceberg")
    properties = options["snapshot_properties"] or {}
    table = catalog.create_table_if_not_exists(table_identifier, schema=rows.schema)
    with table.transaction() as changes:
        with changes.update_schema() as columns:
            columns.union_by_name(rows.schema)
        whole = rows.read_all()
        if word == "append":
            changes.append(whole, snapshot_properties=properties)
        elif word == "overwrite":
            keep = (
                {}
                if options["overwrite_filter"] is None
                else {"overwrite_filter": options["overwrite_filter"]}
            )
            changes.overwrite(
                whole, snapshot_properties=properties, **keep, **(options["overwrite_kwargs"] or {})
            )
        else:
            changes.upsert(whole, **(options["upsert_kwargs"] or {}))
