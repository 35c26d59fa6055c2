"""Single batches in the formats of `transform_batch`: DataFrames, dicts of arrays, pyarrow tables.

A conversion never changes its argument: it copies the DataFrame or dict, not the values.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.optional import imported, package

if TYPE_CHECKING:
    import pandas as pd

VALUE = "__value__"  # the column of an array without a name, as in Ray


def is_frame(data: Any) -> bool:
    pandas = imported("pandas")
    return pandas is not None and isinstance(data, pandas.DataFrame)


def is_table(data: Any) -> bool:
    pyarrow = imported("pyarrow")
    return pyarrow is not None and isinstance(data, pyarrow.Table)


def check(data: Any) -> None:
    if not (is_frame(data) or is_table(data) or isinstance(data, (Mapping, np.ndarray))):
        raise ValueError(
            "transform_batch: expected a pandas.DataFrame, a dict of column to numpy.ndarray, a "
            f"pyarrow.Table or a numpy.ndarray, found {type(data).__name__}"
        )


def to_pandas(data: Any) -> "pd.DataFrame":
    """A DataFrame that the caller may change."""
    pd = package("pandas", "preprocessors")
    if is_frame(data):
        return data.copy(deep=False)
    if is_table(data):
        return data.to_pandas()
    if isinstance(data, np.ndarray):
        data = {VALUE: data}
    return pd.DataFrame({name: _cells(values) for name, values in data.items()})


def _cells(values: Any) -> Any:
    """A column of a DataFrame: arrays of more dimensions become one array in each cell."""
    if not isinstance(values, np.ndarray):
        values = (
            values if hasattr(values, "dtype") else np.asarray(values, None if _is_even(values) else object)
        )
    if isinstance(values, np.ndarray) and values.ndim > 1:
        cells = np.empty(len(values), object)
        cells[:] = list(values)
        return cells
    return values


def _is_even(values: Any) -> bool:
    return not any(isinstance(v, (list, tuple, np.ndarray)) for v in values)


def to_numpy(data: Any) -> Any:
    """A dict of arrays; an array stays one."""
    if isinstance(data, np.ndarray):
        return data
    if is_table(data):
        data = data.to_pandas()
    if is_frame(data):
        return {str(name): stacked(data[name].to_numpy()) for name in data.columns}
    return {name: np.asarray(values) for name, values in data.items()}


def stacked(values: np.ndarray) -> np.ndarray:
    """One array for an array of objects that are arrays of one shape."""
    if values.dtype != object or not len(values) or not isinstance(values[0], np.ndarray):
        return values
    shape = values[0].shape
    if any(not isinstance(v, np.ndarray) or v.shape != shape or v.dtype == object for v in values):
        return values
    return np.stack(list(values))


def to_arrow(data: Any) -> Any:
    pa = package("pyarrow", "preprocessors")
    if is_table(data):
        return data
    return pa.Table.from_pandas(to_pandas(data), preserve_index=False).replace_schema_metadata(None)
