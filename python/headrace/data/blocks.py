"""Tables to the formats of users and back: dicts of numpy arrays, DataFrames, pyarrow tables, row dicts.

numpy: one array per column, shape (rows, *shape of a row). Fixed-width columns without nulls, tensors, and
lists of equal length are views of the table's memory, read-only unless `writable`. Other columns are copies:
integers with nulls become float64 with NaN, as in pandas; nulls of floats are NaN, nulls of dates and times
NaT; a column without a type (only nulls) is float32 NaN, as in Ray; text, bytes, decimals, structs, and
booleans with nulls are object arrays with None; lists of different lengths and tensors of different shapes
are object arrays of arrays.

pandas: the same, except that dates are datetime.date objects and columns without a type are None, as in
pyarrow's to_pandas(); or columns of Arrow's types, as in Ray (to_format).
"""

import inspect
import itertools

import numpy as np

from headrace._core import InvalidArgument, Table, TypeMismatchError, from_arrow, row_dicts
from headrace.data import categories
from headrace.optional import imported, package

# ---------------------------------------------------------------------------------------------------- numpy


def column_to_numpy(column, writable=False):
    """One array of len(column) rows; see the top of this file."""
    if column.dense:
        array = np.asarray(column)
        if column.time:
            array = array.view(column.time) if array.itemsize == 8 else array.astype(column.time)
        return array.copy() if writable and not array.flags.writeable else array
    kind = column.kind
    if kind in ("int", "float", "time"):
        array = np.asarray(column.filled())
        return array.view(column.time) if kind == "time" else array
    if kind == "null":
        return np.full(len(column), np.nan, np.float32)
    if kind in ("list", "tensor"):
        return _ragged(column)
    if kind == "ragged":
        return _ragged_tensors(column)
    return column.fill(np.empty(len(column), object))


def _ragged(column):
    """Object array with one array (or None) per row. A row's array has more dimensions if its own lists have
    equal lengths, and dtype object if the values are neither numbers nor times.
    """
    starts, lengths, values = column.lists()
    starts, lengths = np.asarray(starts).tolist(), np.asarray(lengths).tolist()
    out = np.empty(len(column), object)
    shape = column.shape
    nested = values.kind == "list" and not values.dense
    if values.dense or values.kind in ("int", "float", "time", "tensor"):
        flat = column_to_numpy(values)
    elif nested:
        flat = _Nested(values)
    else:
        flat = values.fill(np.empty(len(values), object))
    for row, (start, n) in enumerate(zip(starts, lengths, strict=True)):
        cell = flat[start : start + n]
        out[row] = cell.reshape(shape) if shape is not None and n else cell
    valid = column.valid()
    if valid is not None:
        out[~np.asarray(valid)] = None
    return out


def _ragged_tensors(column):
    """Object array with one array per row, each of its own shape; None for a null."""
    starts, lengths, values = column.part(0).lists()
    starts, lengths = np.asarray(starts).tolist(), np.asarray(lengths).tolist()
    shapes, ndims, sizes = column.part(1).lists()
    shapes, ndims, sizes = np.asarray(shapes), np.asarray(ndims), column_to_numpy(sizes)
    flat = column_to_numpy(values)
    grey = "dim_names=[height,width,channels]" in column.type  # grey images are (height, width)
    out = np.empty(len(column), object)
    valid = column.valid()
    for row in range(len(column)) if valid is None else np.flatnonzero(valid):  # a null may have no shape
        shape = sizes[shapes[row] : shapes[row] + ndims[row]].astype(int)  # floats beside nulls
        cell = flat[starts[row] : starts[row] + lengths[row]].reshape(shape)
        out[row] = cell[:, :, 0] if grey and cell.shape[2] == 1 else cell
    return out


class _Nested:
    """Slices of a ragged column of lists: a slice is a 2-d array where its lists have equal lengths."""

    def __init__(self, column):
        self.rows = _ragged(column)
        starts, lengths, values = column.lists()
        self.starts, self.lengths = np.asarray(starts), np.asarray(lengths)
        plain = values.dense or (values.kind in ("int", "float") and values.null_count == 0)
        self.flat = column_to_numpy(values) if plain and column.null_count == 0 else None

    def __getitem__(self, rows):
        lengths = self.lengths[rows]
        if self.flat is None or len(lengths) == 0 or (lengths != lengths[0]).any():
            return self.rows[rows]
        start, n = int(self.starts[rows.start]), int(lengths[0])
        if n == 0:
            return self.rows[rows]
        return self.flat[start : start + n * len(lengths)].reshape(len(lengths), n, *self.flat.shape[1:])


def table_to_numpy(table, writable=False):
    """dict of column name -> array (rows, *shape)."""
    return table.batch(np.asarray, _writable_numpy if writable else column_to_numpy, writable, True)


def for_collate(table, collate_fn):
    """The batch in the form that the class of the function says (headrace.data.collate_fn)."""
    batch_format = getattr(collate_fn, "_batch_format", "numpy")
    return table_to_numpy(table, True) if batch_format == "numpy" else to_format(table, batch_format)


def _writable_numpy(column):
    return column_to_numpy(column, True)


# ------------------------------------------------------------------------------------------ pandas, pyarrow


def table_to_pandas(table, arrow=False):
    """A DataFrame with its own memory; lists and tensors are objects (one array per row), dates are
    datetime.date, timestamps keep their zones.

    arrow: columns of pandas.ArrowDtype (needs pyarrow), except for tensors and pickled objects.
    """
    pandas = package("pandas", "DataFrames")
    whole = table_to_arrow(table) if arrow else None
    texts = table.schema.metadata(categories.KEY)
    data = {}
    for i, name in enumerate(table.names):
        column = table.column(i)
        if arrow and column.kind not in ("tensor", "ragged", "object", "null"):
            data[name] = pandas.Series(pandas.arrays.ArrowExtensionArray(whole.column(i)))
        else:
            data[name] = _pandas_column(pandas, column)
        if texts[i] is not None:
            values = data[name] if arrow else _exact(column, data[name])
            data[name] = categories.as_categorical(pandas, values, texts[i])
    return pandas.DataFrame(data, index=pandas.RangeIndex(table.num_rows))


def _exact(column, values):
    """Python's integers where an integer beside nulls is too large for the double that stands for it."""
    if column.type not in ("int64", "uint64") or values.dtype.kind != "f":
        return values
    large = np.abs(values) >= 2**53  # NaN is not
    return column.fill(np.empty(len(column), object)) if large.any() else values


def _pandas_column(pandas, column):
    if column.kind == "null":
        return np.full(len(column), None, object)
    if column.type in _DATES:
        return _dates(column)
    array = column_to_numpy(column)
    if array.ndim > 1 or "date" in column.type and column.kind == "list":
        array = _cells(array, column.type)
    zone = _zone(column.type)
    if zone:
        return pandas.Series(array).dt.tz_localize("UTC").dt.tz_convert(zone)
    if column.kind == "string":
        return pandas.Series(array, dtype="str") if len(array) else pandas.Series(array, dtype=object)
    return array


_DATES = {"date32[day]": "M8[D]", "date64[ms]": "M8[ms]"}
_YEARS = np.array(["0001-01-01", "9999-12-31"], "M8[D]")  # the range of datetime.date


def _dates(column):
    """Object array of datetime.date, None for nulls; of numpy.datetime64 if a year exceeds 9999."""
    days = column_to_numpy(column).astype("M8[D]")
    if len(days) and ((days < _YEARS[0]) | (days > _YEARS[1])).any():
        return column.fill(np.empty(len(column), object))
    return days.astype(object)


def _cells(array, type_text):
    """Object array with one array per row; dates in lists become datetime.date objects, too."""
    times = "date32" in type_text or "date64" in type_text
    cells = np.empty(len(array), object)
    for row, cell in enumerate(array):
        plain = times and isinstance(cell, np.ndarray) and cell.dtype.kind == "M"
        cells[row] = cell.astype("M8[D]").astype(object) if plain else cell
    return cells


def _zone(type_text):
    head, _, zone = type_text.partition(", tz=")
    return zone[:-1] if head.startswith("timestamp[") and zone else None


def table_to_arrow(table):
    """A pyarrow.Table that shares the table's memory."""
    pyarrow = package("pyarrow", "tables of pyarrow")
    return pyarrow.RecordBatchReader.from_stream(table).read_all()  # table() would import pandas


def as_type(column, kind):
    """An Arrow column cast to `kind`: a pyarrow type, or its name."""
    kind = arrow_type(kind)
    return column if column.type == kind else column.cast(kind)


def arrow_type(kind):
    pyarrow = package("pyarrow", "types of pyarrow")
    return pyarrow.type_for_alias(kind) if isinstance(kind, str) else kind


def to_format(table, batch_format, writable=False):
    """The table as a batch in the format "numpy", "pyarrow", "pandas", or "pandas[pyarrow]" (a DataFrame with
    columns of Arrow's types).
    """
    if batch_format == "numpy":
        return table_to_numpy(table, writable)
    if batch_format == "pyarrow":
        return table_to_arrow(table)
    return table_to_pandas(table, batch_format == "pandas[pyarrow]")


# ----------------------------------------------------------------------------------------------------- rows


def _of_numbers(column):
    """Whether the innermost values of a column of lists are numbers or booleans (then rows show arrays)."""
    while column.kind == "list":
        column = column.lists()[2]
    return column.kind in ("int", "float", "bool", "tensor", "ragged")


def rows_of(table, writable=False):
    """List of row dicts: Python scalars, str, bytes, None; arrays for tensors and lists of numbers.

    writable: copies the arrays, one column at a time, so that the user can write to them.
    """
    n = table.num_rows
    names = table.names
    columns = []
    for i in range(len(names)):
        column = table.column(i)
        kind = column.kind
        if kind in ("tensor", "ragged") or kind == "list" and _of_numbers(column):
            array = column_to_numpy(column, writable)
            columns.append(list(array))
        else:
            columns.append(column.to_pylist())
    return row_dicts(n, tuple(names), tuple(columns))


# -------------------------------------------------------------------------------------------------- results


def called(found):
    """The type of a function's result, for error texts; for a coroutine with a hint."""
    kind = type(found).__name__
    if inspect.iscoroutine(found):
        found.close()  # otherwise Python warns that nobody awaited it
        kind += " (did you mean to declare the function `async def`?)"
    return kind


def table_of(result, build, what):
    """A function's result for a batch as a Table: from a dict of columns, a DataFrame, or Arrow data.

    build: makes a Table from a dict, in the memory of the caller's choice. what: the operator, for errors.
    """
    if isinstance(result, Table):
        return result
    if isinstance(result, dict):
        return build(result)
    pandas = imported("pandas")
    if pandas and isinstance(result, pandas.DataFrame):
        columns = {str(name): result.iloc[:, i] for i, name in enumerate(result.columns)}
        if len(columns) != result.shape[1]:
            twice = next(
                n for n, name in enumerate(result.columns) if str(name) in map(str, result.columns[:n])
            )
            raise InvalidArgument(f"{what} returned a DataFrame with two columns '{result.columns[twice]}'")
        return build(columns)
    if pandas and isinstance(result, pandas.Series):
        raise TypeMismatchError(f"{what} returned {called(result)}, which is not a table")
    if hasattr(result, "__arrow_c_stream__") or hasattr(result, "__arrow_c_array__"):
        try:
            tables = from_arrow(result)
        except TypeMismatchError as e:  # a single column
            raise TypeMismatchError(f"{what} returned {called(result)}, which is not a table: {e}") from None
        return tables[0] if len(tables) == 1 else Table.concat(tables)
    if hasattr(result, "items") and hasattr(result, "keys"):
        return build(dict(result.items()))
    found = "NoneType (has it a return?)" if result is None else called(result)
    raise TypeMismatchError(
        f"{what} returned {found}; expected a dict of column name to values, a DataFrame, or Arrow data"
    )


def columns_of_rows(block):
    """A list of row dicts as a dict of columns; other blocks stay."""
    if not isinstance(block, list):
        return block
    if not all(isinstance(row, dict) for row in block):
        found = next(type(row).__name__ for row in block if not isinstance(row, dict))
        raise TypeMismatchError(f"expected a block of row dicts, found a list with {found}")
    names = dict.fromkeys(itertools.chain.from_iterable(block))
    return {name: [row.get(name) for row in block] for name in names}
