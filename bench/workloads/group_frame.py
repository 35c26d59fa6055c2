"""A pandas frame of 1 M rows in memory, by an integer key with 1,000 values: the sum of a column."""

import numpy as np

from workloads.group import CLOSE, sums  # noqa: F401
from workloads.peers import start_ray

TITLE = "pandas frame, 1 M rows, group by an integer: sum"
DATA = "table"
WHOLE = False
ROWS = 1_000_000


def frame():
    import pandas as pd

    random = np.random.default_rng(1)
    return pd.DataFrame({"k": random.integers(0, 1000, ROWS), "x": random.standard_normal(ROWS)})


def columns(found):
    return [{"k": found["k"].to_numpy(), "sum": found[found.columns[-1]].to_numpy()}]


def headrace(data):
    import headrace.data

    rows = frame()
    return lambda: columns(headrace.data.from_pandas(rows).groupby("k").sum("x").to_pandas())


def pandas(data):
    rows = frame()
    return lambda: columns(rows.groupby("k", as_index=False)["x"].sum())


def ray(data):
    ray = start_ray()
    rows = frame()
    return lambda: columns(ray.data.from_pandas(rows).groupby("k").sum("x").to_pandas())
