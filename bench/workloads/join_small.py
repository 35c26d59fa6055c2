"""Parquet, 8 M rows joined with a table of 6 rows in memory, where every row has a partner; then a sum."""

import pyarrow as pa

from workloads.group import CLOSE, sums  # noqa: F401
from workloads.peers import files

TITLE = "Parquet, 8 M rows joined with 6 in memory, summed"
DATA = "table"
WHOLE = False


def rates(data):
    """A rate for each vendor."""
    import pyarrow.parquet as pq

    vendors = pq.read_table(files(data)[0], columns=["vendor"])["vendor"].unique()
    return pa.table({"vendor": vendors, "rate": pa.array([0.5 + i for i in range(len(vendors))])})


def headrace(data):
    import headrace.data

    small = rates(data)

    def start():
        left = headrace.data.read_parquet(data, columns=["vendor", "fare"])
        both = left.join(headrace.data.from_arrow(small), "inner", on="vendor")
        return [{name: [value] for name, value in both.sum(["fare", "rate"]).items()}]

    return start


def polars(data):
    import polars as pl

    small = pl.from_arrow(rates(data)).lazy()

    def start():
        left = pl.scan_parquet(files(data)).select("vendor", "fare")
        both = left.join(small, on="vendor").select(pl.col("fare", "rate").sum()).collect(engine="streaming")
        return [{f"sum({s.name})": s.to_list() for s in both.iter_columns()}]

    return start


def duckdb(data):
    import duckdb

    small = rates(data)

    def start():
        connection = duckdb.connect()
        connection.register("small", small)
        query = f"SELECT sum(fare), sum(rate) FROM read_parquet({files(data)}) JOIN small USING (vendor)"
        fare, rate = connection.sql(query).fetchall()[0]
        return [{"sum(fare)": [fare], "sum(rate)": [rate]}]

    return start
