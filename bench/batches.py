"""What every measured process does with the batches it is handed, and what it needs to hand them out alike.

A batch is a dict of column name -> NumPy array, 1,024 rows long but for the last. Strings and lists are
arrays of objects.
"""

import json
import zlib

import numpy as np

ROWS = 1024
MASK = (1 << 64) - 1


def exact(chunks, rows=ROWS):
    """Batches of exactly `rows` rows (the last may be short) from longer or shorter dicts of arrays.

    They are views; only where a batch spans two chunks is it copied together.
    """
    rest = None
    for chunk in chunks:
        n, at = len(next(iter(chunk.values()))), 0
        if rest is not None:
            at = min(n, rows - len(next(iter(rest.values()))))
            rest = {k: np.concatenate([rest[k], v[:at]]) for k, v in chunk.items()}
            if len(next(iter(rest.values()))) < rows:
                continue
            yield rest
            rest = None
        while at + rows <= n:
            yield {k: v[at : at + rows] for k, v in chunk.items()}
            at += rows
        if at < n:
            rest = {k: v[at:] for k, v in chunk.items()}
    if rest is not None:
        yield rest


def touch(batch):
    """Reads the first and the last value of every column, which any step would. Gives the number of rows."""
    n = 0
    for column in batch.values():
        n = len(column)
        first, last = column[0], column[-1]
        if type(first) is np.ndarray and len(first) and len(last):
            first[0], last[-1]
    return n


def sums(batch):
    """For each column a number that depends on every bit but not on the order, which peers need not keep."""
    return {name: column_sum(np.asarray(column)) for name, column in batch.items()}


def column_sum(column):
    if column.dtype.kind == "O" and len(column) and isinstance(column[0], dict):
        column = np.array([json.dumps(row, sort_keys=True) for row in column])
    if column.dtype.kind == "O" and len(column) and not isinstance(column[0], (str, bytes)):
        return sum(column_sum(np.asarray(row)) + 31 * len(row) for row in column) & MASK
    if column.dtype.kind in "OUT":
        return sum(zlib.crc32(str(text).encode()) for text in column) & MASK
    if column.dtype.kind == "M":
        column = column.astype("datetime64[ms]").view(np.int64)
    if column.dtype.kind == "f":
        column = np.ascontiguousarray(column).view(f"u{column.dtype.itemsize}")
    return int(column.astype(np.uint64, copy=False).sum(dtype=np.uint64))


def add_sums(total, more):
    for name, value in more.items():
        total[name] = total.get(name, 0) + value
        if isinstance(value, int):
            total[name] &= MASK
