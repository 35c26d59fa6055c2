"""Parquet, all 10 columns, ordered by a float32: tables as each engine has them, strings left as they are."""

from workloads.all_columns import COLUMNS
from workloads.peers import files, start_ray

TITLE = "Parquet, all 10 columns, sorted by a float32"
DATA = "table"
WHOLE = False
KEY = "f0"


def tables(source):
    return (dict(zip(t.schema.names, t.columns, strict=True)) for t in source)


def headrace(data):
    import headrace.data

    return lambda: tables(
        headrace.data.read_parquet(data, columns=COLUMNS)
        .sort(KEY)
        .iter_batches(batch_size=None, batch_format="pyarrow")
    )


def polars(data):
    import polars as pl

    def start():
        frame = pl.scan_parquet(files(data)).select(COLUMNS).sort(KEY).collect()
        return ({s.name: s for s in part.iter_columns()} for part in frame.iter_slices(1 << 16))

    return start


def duckdb_tables(data, order, settings=()):
    import duckdb

    connection = duckdb.connect()
    for setting in settings:
        connection.execute(f"SET {setting}")
    query = f"SELECT {', '.join(COLUMNS)} FROM read_parquet({files(data)}) ORDER BY {order}"
    return tables(connection.sql(query).to_arrow_reader(1 << 16))


def duckdb(data):
    return lambda: duckdb_tables(data, KEY)


def ray(data):
    ray = start_ray()
    return lambda: tables(
        ray.data.read_parquet(data)
        .select_columns(COLUMNS)
        .sort(KEY)
        .iter_batches(batch_size=None, batch_format="pyarrow")
    )
