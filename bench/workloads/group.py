"""Parquet, rows by two integer keys: mean of a column, and count. Few groups: scanning and adding up."""

import numpy as np
import pyarrow  # noqa: F401  before the clock starts: all hand out its tables

from workloads.peers import files, start_ray

TITLE = "Parquet, group by 2 integers: mean, count"
DATA = "table"
WHOLE = False
KEYS, VALUE = ["vendor", "label"], "fare"
CLOSE = 1e-9  # engines add floats in different orders


def sums(batch):
    """The sum of numbers, and of the lengths of texts."""
    return {
        name: float(sum(map(len, column))) if np.asarray(column).dtype == object else float(np.sum(column))
        for name, column in batch.items()
    }


def columns(table):
    """A pyarrow table as NumPy arrays, whatever an engine called the results."""
    names = [*table.schema.names[:-2], "mean", "rows"]
    return [dict(zip(names, (c.to_numpy(zero_copy_only=False) for c in table.columns), strict=True))]


def headrace(data, keys=KEYS, value=VALUE):
    import headrace.data
    from headrace.data.aggregate import Count, Mean

    return lambda: columns(
        headrace.data.read_parquet(data).groupby(keys).aggregate(Mean(value), Count()).to_arrow()
    )


def polars(data, keys=KEYS, value=VALUE):
    import polars as pl

    def start():
        rows = pl.scan_parquet(files(data)).group_by(keys).agg(pl.col(value).mean(), pl.len())
        return columns(rows.collect(engine="streaming").to_arrow())

    return start


def duckdb(data, keys=KEYS, value=VALUE):
    import duckdb

    names = ", ".join(f'"{k}"' for k in keys)

    def start():
        query = f"SELECT {names}, avg({value}), count(*) FROM read_parquet({files(data)}) GROUP BY {names}"
        return columns(duckdb.connect().sql(query).to_arrow_table())

    return start


def ray(data, keys=KEYS, value=VALUE):
    ray = start_ray()
    from ray.data.aggregate import Count, Mean

    def start():
        rows = ray.data.read_parquet(data).groupby(keys).aggregate(Mean(value), Count())
        frame = rows.to_pandas()
        names = [*keys, "mean", "rows"]
        return [{name: frame[c].to_numpy() for name, c in zip(names, frame.columns, strict=True)}]

    return start
