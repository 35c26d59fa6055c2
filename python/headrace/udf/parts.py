"""The batches of one call, and their results as few tables.

Short batches and groups travel many at a time. Each is cut out of the call's table just as it would be alone:
columns that look the same for any rows (plain numbers, text) are converted once and sliced, others by batch.
Results that agree in names and types are put together.
"""

import sys

import numpy as np

from headrace.data import blocks

PART = np.dtype([("rows", "i8"), ("ordinal", "i8"), ("random", "u8")])
MERGED_BYTES = 4 << 20


def _sliceable(table):
    columns = [table.column(i) for i in range(len(table.names))]
    return all(c.dense or c.kind in ("string", "binary") for c in columns)


def batches_of(table, rows, batch_format, writable):
    """The batches of so many rows each, one after the other."""
    ends = np.cumsum(rows).tolist()
    begins = [0, *ends[:-1]]
    if batch_format == "pyarrow":
        whole = blocks.table_to_arrow(table)
        for begin, end in zip(begins, ends, strict=True):
            yield whole.slice(begin, end - begin)
    elif not _sliceable(table):
        for begin, end in zip(begins, ends, strict=True):
            yield blocks.to_format(table.slice(begin, end - begin), batch_format, writable)
    elif batch_format == "numpy":
        whole = list(blocks.table_to_numpy(table, writable).items())
        for begin, end in zip(begins, ends, strict=True):
            yield {name: values[begin:end] for name, values in whole}
    else:
        import pandas

        whole = blocks.to_format(table, batch_format)
        for begin, end in zip(begins, ends, strict=True):
            part = whole.iloc[begin:end].copy()
            part.index = pandas.RangeIndex(end - begin)
            yield part


class Merged:
    """Collects results of batches; flush() yields (table, part, counts, False) of what was collected."""

    def __init__(self, build, name):
        self.build = build
        self.name = name
        self.first = 0
        self.results = []
        self.bytes = 0
        self.alike = None

    def add(self, number, result):
        """Whether it is time for a flush()."""
        if not self.results:
            self.first = number
        self.results.append(result)
        if type(result) is dict:
            self.bytes += sum(getattr(v, "nbytes", 100) for v in result.values())
        else:
            self.bytes += MERGED_BYTES // 64
        return self.bytes >= MERGED_BYTES

    def flush(self):
        results, self.results, self.bytes = self.results, [], 0
        if len(results) > 1:
            found = _merged_dicts(results) or _merged_frames(results) or _merged_arrow(results)
            if found is not None:
                merged, counts = found
                table = blocks.table_of(merged, self.build, self.name)
                yield table, self.first, np.array(counts, "i8"), False
                return
        for i, result in enumerate(results):
            yield blocks.table_of(result, self.build, self.name), self.first + i, None, False


def _merged_dicts(results):
    """(dict of arrays, rows of each result) if all are dicts of arrays of the same names and types."""
    if any(type(r) is not dict for r in results):
        return None
    names = list(results[0])
    if not names or any(list(r) != names for r in results):
        return None
    merged = {}
    counts = None
    for name in names:
        values = [r[name] for r in results]
        first = values[0]
        if not isinstance(first, np.ndarray) or first.ndim == 0 or first.dtype.kind not in "biufmM":
            return None
        like = first.dtype, first.shape[1:]
        if any(type(v) is not np.ndarray or v.ndim == 0 or (v.dtype, v.shape[1:]) != like for v in values):
            return None
        lengths = [len(v) for v in values]
        if counts is not None and lengths != counts:
            return None  # one by one there is an error that says what is wrong
        counts = lengths
        merged[name] = np.concatenate(values)
    return merged, counts


def _merged_frames(results):
    pandas = sys.modules.get("pandas")
    if pandas is None or any(type(r) is not pandas.DataFrame for r in results):
        return None
    first = results[0]
    if len(first.columns) == 0 or not all(isinstance(t, np.dtype) for t in first.dtypes):
        return None
    if any(t.kind not in "biufmM" for t in first.dtypes):
        return None
    for r in results:
        if not r.columns.equals(first.columns) or not (r.dtypes.values == first.dtypes.values).all():
            return None
    return pandas.concat(results, ignore_index=True), [len(r) for r in results]


def _merged_arrow(results):
    arrow = sys.modules.get("pyarrow")
    if arrow is None or any(not isinstance(r, arrow.Table) for r in results):
        return None
    if any(r.schema != results[0].schema for r in results):
        return None
    return arrow.concat_tables(results), [len(r) for r in results]
