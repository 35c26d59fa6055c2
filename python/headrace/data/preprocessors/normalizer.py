"""Normalizer: rows of unit norm."""

from __future__ import annotations

import functools
import operator
from typing import TYPE_CHECKING, Any

from headrace.data.preprocessors.utils import (
    BuiltInPreprocessor,
    check_numbers,
    is_float,
    numbers_of,
    read_only,
)
from headrace.data.preprocessors.version_support import SerializablePreprocessor

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from headrace.data.dataset import Dataset


@SerializablePreprocessor(version=1, identifier="headrace.Normalizer")
class Normalizer(BuiltInPreprocessor):
    """Divides the values of each row, in the given columns, by their norm. There is nothing to fit.

    Missing values do not count in the norm and stay missing. A row of zeros becomes NaN.

    Args:
        columns: the columns that make a row's vector.
        norm: "l1" (sum of magnitudes), "l2" (root of the sum of squares) or "max" (greatest magnitude).
        output_columns: as many names for the results; None: the results replace the columns.

    Raises:
        ValueError: another norm.
    """

    _is_fittable = False
    _NORMS = ("l1", "l2", "max")
    _FIELDS = ("columns", "norm", "output_columns")

    columns: list[str] = read_only("columns", "The columns of the vector.")
    norm: str = read_only("norm", "The kind of norm.")
    output_columns: list[str] = read_only("output_columns", "The columns that the result goes to.")

    def __init__(self, columns: list[str], norm: str = "l2", *, output_columns: list[str] | None = None):
        super().__init__()
        if norm not in self._NORMS:
            raise ValueError(f"Norm {norm} is not supported. Supported values are: {', '.join(self._NORMS)}")
        self._columns = columns
        self._norm = norm
        self._output_columns = self._derive_and_validate_output_columns(columns, output_columns)

    def _transform_dataset(self, ds: Dataset) -> Dataset | None:
        from headrace.data.expressions import coalesce, col, greatest, if_else

        types = check_numbers(self, ds, self._columns)
        if not types:
            return None
        values = {c: col(c).cast("float64") for c in self._columns}
        sizes = []
        for c, x in values.items():
            there = if_else(x.is_nan(), None, x) if is_float(types[c]) else x
            sizes.append(there.abs() if self._norm == "max" else coalesce(there, 0.0).abs())
        if self._norm == "max":
            norm = greatest(*sizes)
        else:
            norm = _sum(s * s if self._norm == "l2" else s for s in sizes)
            norm = norm.sqrt() if self._norm == "l2" else norm
        names = zip(self._columns, self._output_columns, strict=True)
        return ds.with_columns({out: values[c] / norm for c, out in names})

    def _transform_pandas(self, df: pd.DataFrame) -> pd.DataFrame:
        import numpy as np

        values = [numbers_of(self, df[c]) for c in self._columns]
        with np.errstate(all="ignore"):
            norms = self._norms([np.abs(x) for x in values])
            made = [x / norms for x in values]
        for out, x in zip(self._output_columns, made, strict=True):
            df[out] = x
        return df

    def _norms(self, sizes: list[np.ndarray]) -> np.ndarray:
        """The operations of `_transform_dataset`, in the same order: the same bits."""
        import numpy as np

        if self._norm == "max":
            return np.fmax.reduce(sizes)
        there = [np.where(np.isnan(s), 0.0, s) for s in sizes]
        return _sum(there) if self._norm == "l1" else np.sqrt(_sum(s * s for s in there))


def _sum(values: Any) -> Any:
    """From left to right."""
    return functools.reduce(operator.add, values)
