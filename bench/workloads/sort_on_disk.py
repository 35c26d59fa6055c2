"""The same sort in 120 MB, a quarter of what the rows are in memory: the rest goes through the disk.

DuckDB does not sort them in a tenth, 60 MB ("failed to pin block"); Polars knows no limit.
"""

import os
import tempfile

from workloads import sort
from workloads.sort import DATA, WHOLE

TITLE = "Parquet, all 10 columns, sorted by a float32 in 120 MB"
LIMIT = "120MB"

__all__ = ["DATA", "TITLE", "WHOLE", "duckdb", "headrace"]


def headrace(data):
    os.environ["HEADRACE_MEMORY_LIMIT"] = LIMIT
    return sort.headrace(data)


def duckdb(data):
    folder = tempfile.mkdtemp(prefix="headrace-bench-")
    settings = [f"memory_limit='{LIMIT}'", f"temp_directory='{folder}'"]
    return lambda: sort.duckdb_tables(data, sort.KEY, settings)
