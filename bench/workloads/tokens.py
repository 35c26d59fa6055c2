"""Parquet, documents of token ids: lists of different lengths, which NumPy gets as an array of arrays."""

from batches import exact

from workloads import numeric
from workloads.peers import arrow_columns, files

TITLE = "Parquet, token lists"
DATA = "tokens"
WHOLE = False
COLUMNS = ["doc", "tokens"]


def headrace(data):
    return numeric.headrace(data, COLUMNS)


def polars(data):
    """Lists go through Arrow, which costs no copy: Polars' own to_numpy() takes twice the time."""
    import polars as pl

    def start():
        pieces = pl.scan_parquet(files(data)).select(COLUMNS).collect_batches(maintain_order=True)
        return exact(arrow_columns(piece.to_arrow()) for piece in pieces)

    return start


def pyarrow(data):
    return numeric.pyarrow(data, COLUMNS)


def ray(data):
    return numeric.ray(data, COLUMNS)
