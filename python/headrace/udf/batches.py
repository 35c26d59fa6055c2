"""The batches of one call, and their results merged into few tables.

One call takes many short batches or groups. Each batch looks as it would alone: batches_of() converts columns
whose form does not depend on the rows (plain numbers, text) once and slices them, and converts other columns
batch by batch. Results with equal names and types become one table.
"""

import numpy as np

from headrace._core import MemoryLimitError
from headrace.data import blocks
from headrace.optional import imported, package

BATCH_PLACE = np.dtype([("rows", "i8"), ("ordinal", "i8"), ("random", "u8")])
MERGED_BYTES = 4 << 20
FEW_VALUES = 64  # shorter columns count as 100 bytes
MANY_CELLS = 65536  # bytes_of() does not measure smaller DataFrames
LARGE_BYTES = 8 << 20  # cut() divides larger results
CUT_BYTES = 4 << 20  # into tables of about this size


def _sliceable(table):
    columns = [table.column(i) for i in range(len(table.names))]
    return all(c.dense or c.kind in ("string", "binary") for c in columns)


def batches_of(table, rows, batch_format, writable):
    """The batches, one after the other; rows: the number of rows of each."""
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
        pandas = package("pandas", "DataFrames")
        whole = blocks.to_format(table, batch_format)
        for begin, end in zip(begins, ends, strict=True):
            batch = whole.iloc[begin:end].copy()
            batch.index = pandas.RangeIndex(end - begin)
            yield batch


class Merged:
    """Collects results of batches; flush() yields (table, batch, counts, False) of the collected ones."""

    def __init__(self, build, name, whole=False):
        self.build = build
        self.name = name
        self.whole = whole
        self.first = 0
        self.results = []
        self.bytes = 0
        self.alike = None

    def add(self, number, result, n_bytes):
        """Collects a result. Returns whether to flush(). n_bytes: from bytes_of()."""
        if not self.results:
            self.first = number
        self.results.append(result)
        self.bytes += n_bytes
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
            table = blocks.table_of(result, self.build, self.name)
            for one in [table] if self.whole else slices(table):
                yield one, self.first + i, None, False


def _merged_dicts(results):
    """(dict of arrays, rows of each result) if all are dicts of arrays with the same names and types."""
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
            return None  # one by one, the wrong result gives an error
        counts = lengths
        merged[name] = np.concatenate(values)
    return merged, counts


def _merged_frames(results):
    pandas = imported("pandas")
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
    arrow = imported("pyarrow")
    if arrow is None or any(not isinstance(r, arrow.Table) for r in results):
        return None
    if any(r.schema != results[0].schema for r in results):
        return None
    return arrow.concat_tables(results), [len(r) for r in results]


# ------------------------------------------------------------------------------------------- large results


def bytes_of(result):
    """The size of a result, as far as it is cheap to find out."""
    if type(result) is not dict and hasattr(result, "iloc") and getattr(result, "size", 0) < MANY_CELLS:
        return MERGED_BYTES // 64  # measuring a small DataFrame takes longer than most functions
    return _bytes_of(result)


def _bytes_of(result):
    if type(result) is dict:
        n = 0
        for v in result.values():
            plain = type(v) is np.ndarray and not v.dtype.hasobject
            n += v.nbytes if plain else _bytes_of_column(v)
        return n
    found = getattr(result, "nbytes", None)  # pyarrow's
    if isinstance(found, int):
        return found
    if not hasattr(result, "iloc") or not hasattr(result, "memory_usage"):
        return 0
    objects = [result.iloc[:, i].to_numpy() for i, t in enumerate(result.dtypes) if t.kind == "O"]
    return int(result.memory_usage(index=False).sum()) + sum(map(_bytes_of_column, objects))


def _bytes_of_column(values):
    """An estimate; for objects and lists from some of the values."""
    found = getattr(values, "nbytes", None)
    kind = getattr(getattr(values, "dtype", None), "kind", "")
    if isinstance(found, int) and kind != "O":
        return found
    if not isinstance(values, (list, tuple)) and not (isinstance(values, np.ndarray) and values.ndim):
        return 0
    if len(values) < FEW_VALUES:
        return 100
    some = [values[i] for i in range(0, len(values), len(values) // 16)]
    return sum(map(_bytes_of_value, some)) * len(values) // len(some)


def _bytes_of_value(value):
    if isinstance(value, (str, bytes)):
        return len(value)
    if isinstance(value, (list, tuple)):
        return 8 * len(value)
    found = getattr(value, "nbytes", 8)
    return found if isinstance(found, int) else 8


def _typed(values):
    """Whether every slice of a column has the column's type."""
    if isinstance(values, np.ndarray) and values.dtype.kind != "O":
        return values.ndim > 0
    if type(values).__module__.partition(".")[0] == "torch":
        return len(values.shape) > 0
    if not isinstance(values, (list, tuple, np.ndarray)):
        return False
    kinds = {type(v) for v in values}
    return len(kinds) == 1 and kinds <= {str, bytes, bool, float}


def _rows_of(result):
    """(number of rows, function of a range -> those rows of the result) if slices keep the types; otherwise
    None.
    """
    if type(result) is dict:
        columns = list(result.values())
        if all(map(_typed, columns)) and len({len(v) for v in columns}) == 1:
            return len(columns[0]), lambda a, b: {name: v[a:b] for name, v in result.items()}
    elif hasattr(result, "iloc") and hasattr(result, "dtypes"):
        kinds = list(result.dtypes)
        if all(isinstance(t, np.dtype) for t in kinds) and all(
            t.kind != "O" or _typed(result.iloc[:, i].to_numpy()) for i, t in enumerate(kinds)
        ):
            return len(result), lambda a, b: result.iloc[a:b]
    return None


def cut(result, build, limit, name, n_bytes=None):
    """A result as tables of some MiB each. Builds it slice by slice if every slice of its columns has their
    types; otherwise whole, with MemoryLimitError if that takes more than `limit` bytes.

    n_bytes: the size of the result, if known.
    """
    n_bytes = _bytes_of(result) if n_bytes is None else n_bytes
    found = _rows_of(result) if n_bytes > LARGE_BYTES else None
    if found is not None:
        n, rows = found
        step = max(1, n * CUT_BYTES // n_bytes)
        for begin in range(0, n, step):
            yield blocks.table_of(rows(begin, min(begin + step, n)), build, name)
        return
    if n_bytes <= limit:
        table = blocks.table_of(result, build, name)
        n_bytes = table.nbytes
    if n_bytes > limit:
        raise MemoryLimitError(
            f"{name} returned {n_bytes} bytes at once, in columns that must be built whole (lists, objects, "
            f"arrays of different shapes); the memory limit is {limit} bytes: yield the result in parts"
        )
    yield from slices(table)


def slices(table):
    """The table, or, if it is large, several tables of its rows."""
    n, n_bytes = table.num_rows, table.nbytes
    if n_bytes <= LARGE_BYTES:
        yield table
        return
    step = max(1, n * CUT_BYTES // n_bytes)
    for begin in range(0, n, step):
        yield table.slice(begin, min(step, n - begin))
