"""Parquet, rows by a text and an integer key: mean of a column, and count. Few groups."""

from workloads import group
from workloads.group import CLOSE, sums  # noqa: F401

TITLE = "Parquet, group by text and integer: mean, count"
DATA = "table"
WHOLE = False
KEYS = ["city", "label"]


def headrace(data):
    return group.headrace(data, KEYS)


def polars(data):
    return group.polars(data, KEYS)


def duckdb(data):
    return group.duckdb(data, KEYS)
