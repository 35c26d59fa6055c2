"""Parquet, 12 M rows joined with 2 M by a text key, of which a fifth is found, then a sum."""

from workloads.group import CLOSE, sums  # noqa: F401
from workloads.peers import files

TITLE = "Parquet, 12 M rows joined with 2 M by text, summed"
DATA = "users"
WHOLE = False


def headrace(data):
    import headrace.data

    def start():
        left = headrace.data.read_parquet(data, columns=["user", "x"])
        right = headrace.data.read_parquet(files(data)[3], columns=["user", "x"])
        both = left.join(right, "inner", on="user", right_suffix="_right")
        return [{name: [value] for name, value in both.sum(["x", "x_right"]).items()}]

    return start


def polars(data):
    import polars as pl

    def start():
        left = pl.scan_parquet(files(data)).select("user", "x")
        right = pl.scan_parquet(files(data)[3]).select("user", "x")
        both = left.join(right, on="user").select(pl.col("x", "x_right").sum()).collect(engine="streaming")
        return [{f"sum({s.name})": s.to_list() for s in both.iter_columns()}]

    return start


def duckdb(data):
    import duckdb

    def start():
        query = (
            f'SELECT sum(l.x), sum(r.x) FROM (SELECT "user", x FROM read_parquet({files(data)})) l '
            f'JOIN (SELECT "user", x FROM read_parquet(\'{files(data)[3]}\')) r USING ("user")'
        )
        x, right = duckdb.connect().sql(query).fetchall()[0]
        return [{"sum(x)": [x], "sum(x_right)": [right]}]

    return start
