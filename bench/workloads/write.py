"""Parquet, written: all 10 columns from memory into one file, each with its own defaults but zstd for all.

What comes out as the only batch is the number of rows in the footer, as pyarrow reads it; the size of the
file goes to standard error, since a writer that is fast and large has won nothing.
"""

import os
import sys
import tempfile
from pathlib import Path

TITLE = "Parquet, all 10 columns, written"
DATA = "table"
WHOLE = False


def table_of(data):
    import pyarrow as pa
    import pyarrow.parquet as pq

    return pa.concat_tables(pq.read_table(path) for path in sorted(Path(data).glob("*.parquet")))


def written(who, write):
    """A start(): writes to a file that goes again, and gives its rows."""

    def start():
        import numpy as np
        import pyarrow.parquet as pq

        with tempfile.TemporaryDirectory(prefix="hrb") as folder:
            path = os.path.join(folder, "out.parquet")
            write(path)
            rows = pq.read_metadata(path).num_rows
            print(f"{who}: {os.path.getsize(path) / 1e6:.1f} MB", file=sys.stderr)
        yield {"rows": np.array([rows])}

    return start


def headrace(data):
    import headrace.data

    rows = headrace.data.from_arrow(table_of(data))
    return written("headrace", lambda path: rows.write_parquet(path, single_file=True))


def polars(data):
    import polars

    frame = polars.from_arrow(table_of(data))
    return written("polars", frame.write_parquet)


def pyarrow(data):
    import pyarrow.parquet as pq

    table = table_of(data)
    return written("pyarrow", lambda path: pq.write_table(table, path, compression="zstd"))
