"""Parquet, all 10 columns, a date and strings among them; NumPy gets strings as an array of objects."""

from workloads import numeric

TITLE = "Parquet, all 10 columns"
DATA = "table"
WHOLE = False
COLUMNS = ["id", "ts", "vendor", "dist", "fare", "f0", "f1", "f2", "city", "label"]


def headrace(data):
    return numeric.headrace(data, COLUMNS)


def polars(data):
    return numeric.polars(data, COLUMNS)


def pyarrow(data):
    return numeric.pyarrow(data, COLUMNS)


def ray(data):
    return numeric.ray(data, COLUMNS)
