"""CSV, all 10 columns, a time and quoted texts among them; NumPy gets texts as an array of objects."""

from workloads import csv
from workloads.all_columns import COLUMNS

TITLE = "CSV, all 10 columns"
DATA = "csv"
WHOLE = False


def headrace(data):
    return csv.headrace(data, COLUMNS)


def polars(data):
    return csv.polars(data, COLUMNS)


def pyarrow(data):
    return csv.pyarrow(data, COLUMNS)
