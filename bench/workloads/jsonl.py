"""JSON lines, 6 numeric columns of 9: the text is read, the other columns are passed over."""

from batches import ROWS, exact

from workloads.numeric import COLUMNS
from workloads.peers import arrow_columns, polars_columns

TITLE = "JSON lines, 6 numeric columns"
DATA = "jsonl"
WHOLE = False


def headrace(data):
    import headrace.data

    return lambda: headrace.data.read_json(data, columns=COLUMNS).iter_batches(
        batch_size=ROWS, batch_format="numpy"
    )


def polars(data):
    import polars as pl

    def start():
        pieces = pl.scan_ndjson(f"{data}/000.jsonl").select(COLUMNS).collect_batches(maintain_order=True)
        return exact(polars_columns(piece) for piece in pieces)

    return start


def pyarrow(data):
    """It has no projection: all columns are read."""
    import pyarrow.json

    def start():
        options = pyarrow.json.ReadOptions(block_size=4 << 20)
        table = pyarrow.json.read_json(f"{data}/000.jsonl", read_options=options).select(COLUMNS)
        return exact(arrow_columns(b) for b in table.to_batches())

    return start
