"""Concatenator: columns of numbers as one column of vectors."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from headrace._core import DataError, TypeMismatchError
from headrace.data.preprocessors.utils import (
    BuiltInPreprocessor,
    is_float,
    is_integer,
    is_list,
    is_text,
    read_only,
    types_of,
)
from headrace.data.preprocessors.version_support import SerializablePreprocessor
from headrace.optional import package

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from headrace.data.dataset import Dataset

logger = logging.getLogger("headrace.data")


def _type_of(dtype: Any) -> str | None:
    """The name of a NumPy type; None for None."""
    import numpy as np

    return None if dtype is None else np.dtype(dtype).name


def _fits(kind: str, dtype: str | None) -> bool:
    """Whether `vector` and NumPy make the same of a column of this type: not for booleans, decimals, and
    integers made of floats.
    """
    if is_list(kind):
        return kind.startswith("fixed_size_list<") or "tensor" in kind
    if dtype is not None and not dtype.startswith("float"):
        return dtype.startswith(("int", "uint")) and is_integer(kind)
    return is_integer(kind) or is_float(kind) or dtype is not None and kind == "bool"


@SerializablePreprocessor(version=1, identifier="headrace.Concatenator")
class Concatenator(BuiltInPreprocessor):
    """Makes one column of vectors of n numbers from n columns, and drops these. There is nothing to fit.

    The column is a `fixed_size_list`: an array (rows, n) in NumPy and torch batches. Missing values are NaN.
    In a vector of integers they are a DataError: impute them first, or give a dtype of floats.

    Args:
        columns: the columns, in the order in which they stand in the vector.
        output_column_name: the column of vectors.
        dtype: the type of the vectors' numbers; None: the one that holds those of all columns, by NumPy's
            rules.
        raise_if_missing: True: logs no warning of a missing column. A missing column is an error in any case.
        flatten: the vector gets all values of columns of vectors or lists.
        exclude: in place of `columns`: all columns but these, in their order (as in earlier versions of Ray).
    """

    _is_fittable = False
    _FIELDS = ("columns", "output_column_name", "dtype", "raise_if_missing", "flatten", "exclude")

    columns: list[str] = read_only("columns", "The columns of the vector; None with `exclude`.")
    output_column_name: str = read_only("output_column_name", "The column of vectors.")
    dtype: Any = read_only("dtype", "The type of the vectors' numbers.")
    raise_if_missing: bool = read_only("raise_if_missing", "Whether a missing column logs no warning.")
    flatten: bool = read_only("flatten", "Whether vectors go in with all of their values.")
    exclude: list[str] = read_only("exclude", "The columns that stay out.")

    def __init__(
        self,
        columns: list[str] | None = None,
        output_column_name: str = "concat_out",
        dtype: np.dtype | None = None,
        raise_if_missing: bool = False,
        flatten: bool = False,
        *,
        exclude: list[str] | None = None,
    ):
        super().__init__()
        if (columns is None) == (exclude is None):
            raise TypeError("Concatenator: expected either columns or exclude")
        exclude = [exclude] if isinstance(exclude, str) else exclude
        self._derive_and_validate_output_columns(columns if exclude is None else exclude, None)
        if exclude is None and not columns:
            raise ValueError("Concatenator: columns: expected at least one name")
        self._columns = columns
        self._exclude = exclude
        self._output_column_name = output_column_name
        self._dtype = dtype
        self._raise_if_missing = raise_if_missing
        self._flatten = flatten

    def _names(self, there: list[str]) -> list[str]:
        """The columns of the vector, among those of the dataset."""
        names = self._columns
        if names is None:
            names = [c for c in there if c not in self._exclude]
        missing = [c for c in (self._columns or self._exclude) if c not in there]
        if missing:
            message = f"Missing columns specified in {self._columns or self._exclude!r}: {missing}"
            if not self._raise_if_missing:
                logger.warning(message)
            raise ValueError(f"Concatenator: {message}; the columns are {', '.join(map(str, there))}")
        return names

    def _transform_batch(self, data: Any) -> Any:
        from headrace.data.preprocessors import batches

        if batches.is_table(data):  # its DataFrame has floats in place of integers with nulls
            pa = package("pyarrow", "preprocessors")
            for c in self._names(data.column_names):
                if pa.types.is_integer(data.schema.field(c).type) and data[c].null_count:
                    self._check_missing(c, data[c].is_null().to_numpy(), of_integers=True)
        return super()._transform_batch(data)

    def _check_missing(self, name: str, missing: np.ndarray, of_integers: bool) -> None:
        """DataError where the vector, as in a dataset, cannot hold a missing value of this column."""
        import numpy as np

        kind = None if self._dtype is None else np.dtype(self._dtype).kind
        if missing.any() and (of_integers if kind is None else kind in "iub"):
            raise DataError(
                f"Concatenator: column {name!r}, row {int(missing.argmax())} of the batch: a null among "
                "integers; impute missing values first, or give a dtype of floats"
            )

    def _transform_pandas(self, df: pd.DataFrame) -> pd.DataFrame:
        import numpy as np

        names = self._names(list(df.columns))
        parts = [self._part(df[c]) for c in names]
        if any(p.dtype == object for p in parts):
            vectors = np.empty(len(df), object)
            for i in range(len(df)):
                row = np.concatenate([np.atleast_1d(p[i]) for p in parts])
                vectors[i] = row if self._dtype is None else row.astype(self._dtype)
        else:
            matrix = np.column_stack(parts)
            matrix = matrix if self._dtype is None else matrix.astype(self._dtype)
            vectors = np.empty(len(df), object)
            for i in range(len(df)):
                vectors[i] = matrix[i]
        df = df.drop(columns=names)
        df[self._output_column_name] = vectors
        return df

    def _part(self, values: pd.Series) -> np.ndarray:
        """A column's numbers: (rows,) or (rows, n), or objects for lists of different lengths."""
        import numpy as np

        from headrace.data.preprocessors import batches

        if values.dtype == object or str(values.dtype).endswith("[pyarrow]") and "list" in str(values.dtype):
            cells = np.empty(len(values), object)
            cells[:] = [np.asarray(v) if isinstance(v, (list, tuple, np.ndarray)) else v for v in values]
            if not any(isinstance(v, np.ndarray) for v in cells):
                raise TypeError(f"Concatenator: column {values.name!r} is {values.dtype}, expected numbers")
            if not self._flatten:
                raise TypeError(
                    f"Concatenator: column {values.name!r} holds lists, expected numbers; "
                    "flatten=True takes lists"
                )
            made = batches.stacked(cells)
            return made.reshape(len(made), -1) if made.dtype != object else made
        if is_text(str(values.dtype).removesuffix("[pyarrow]")):
            raise TypeError(f"Concatenator: column {values.name!r} is {values.dtype}, expected numbers")
        if values.hasnans:
            self._check_missing(values.name, values.isna().to_numpy(), values.dtype.kind in "iu")
        if values.hasnans or values.dtype.kind not in "biufc":
            return values.to_numpy(np.float64, na_value=np.nan)
        return values.to_numpy(values.dtype.numpy_dtype if hasattr(values.dtype, "numpy_dtype") else None)

    def get_input_columns(self) -> list[str]:
        return self._columns or []

    def get_output_columns(self) -> list[str]:
        return [self._output_column_name]

    def _dropped(self) -> list[str]:
        """The columns that the result does not have."""
        return self._columns or []

    def _transform_dataset(self, ds: Dataset) -> Dataset | None:
        from headrace.data.expressions import col, vector

        types = types_of(ds)
        if not types:
            return None
        names = self._names(list(types))
        dtype = _type_of(self._dtype)
        for c in names:
            if is_list(types[c]) and not self._flatten:
                raise TypeError(
                    f"Concatenator: column {c!r} is {types[c]}, expected numbers; flatten=True takes lists"
                )
            if is_text(types[c]):
                raise TypeError(f"Concatenator: column {c!r} is {types[c]}, expected numbers")
            if not _fits(types[c], dtype):
                return None
        values = [
            col(c) if dtype is None or is_list(types[c]) else col(c).cast(dtype, safe=False) for c in names
        ]
        try:
            made = ds.with_columns({self._output_column_name: vector(*values, dtype=dtype)})
        except TypeMismatchError:  # lists of different lengths, or of lists
            return None
        kept = [c for c in types if c not in names]
        out = self._output_column_name
        return made.select_columns(kept if out in kept else [*kept, out])

    def __repr__(self) -> str:
        defaults = {"output_column_name": "concat_out", "columns": None, "dtype": None}
        defaults |= {"raise_if_missing": False, "flatten": False, "exclude": None}
        shown = {name: getattr(self, name) for name, default in defaults.items()}
        given = [f"{name}={value}" for name, value in shown.items() if value != defaults[name]]
        return f"{type(self).__name__}({', '.join(given)})"
