"""Parquet, 12 M rows by a text key of 7 M different values: mean of a column, count. Ours come in order."""

from workloads import group
from workloads.group import CLOSE, sums  # noqa: F401

TITLE = "Parquet, group by 7 M texts: mean, count"
DATA = "users"
WHOLE = False
KEYS, VALUE = ["user"], "x"


def headrace(data):
    return group.headrace(data, KEYS, VALUE)


def polars(data):
    return group.polars(data, KEYS, VALUE)


def duckdb(data):
    return group.duckdb(data, KEYS, VALUE)
