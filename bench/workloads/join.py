"""Parquet, 8 M rows joined with 1 M others by an integer key of which an eighth is found; then a sum."""

from workloads.group import CLOSE, sums  # noqa: F401
from workloads.peers import files, start_ray

TITLE = "Parquet, 8 M rows joined with 1 M, summed"
DATA = "table"
WHOLE = False


def headrace(data):
    import headrace.data

    def start():
        left = headrace.data.read_parquet(data, columns=["id", "fare", "vendor"])
        right = headrace.data.read_parquet(files(data)[3], columns=["id", "dist"])
        both = left.join(right, "inner", on="id")
        return [{name: [value] for name, value in both.sum(["fare", "dist"]).items()}]

    return start


def polars(data):
    import polars as pl

    def start():
        left = pl.scan_parquet(files(data)).select("id", "fare", "vendor")
        right = pl.scan_parquet(files(data)[3]).select("id", "dist")
        both = left.join(right, on="id").select(pl.col("fare", "dist").sum()).collect(engine="streaming")
        return [{f"sum({s.name})": s.to_list() for s in both.iter_columns()}]

    return start


def duckdb(data):
    import duckdb

    def start():
        query = (
            f"SELECT sum(fare), sum(dist) FROM (SELECT id, fare, vendor FROM read_parquet({files(data)})) "
            f"JOIN (SELECT id, dist FROM read_parquet('{files(data)[3]}')) USING (id)"
        )
        fare, dist = duckdb.connect().sql(query).fetchall()[0]
        return [{"sum(fare)": [fare], "sum(dist)": [dist]}]

    return start


def ray(data):
    ray = start_ray()

    def start():
        left = ray.data.read_parquet(data, columns=["id", "fare", "vendor"])
        right = ray.data.read_parquet(files(data)[3], columns=["id", "dist"])
        both = left.join(right, "inner", num_partitions=8, on=("id",))
        return [{name: [value] for name, value in both.sum(["fare", "dist"]).items()}]

    return start
