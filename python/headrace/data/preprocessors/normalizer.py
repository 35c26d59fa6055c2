"""Normalizer: rows of unit norm."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.data.preprocessors.utils import BuiltInPreprocessor, check_numbers, is_float, read_only
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
            norm = sum(s * s if self._norm == "l2" else s for s in sizes[1:]) if len(sizes) > 1 else 0.0
            norm = (sizes[0] * sizes[0] if self._norm == "l2" else sizes[0]) + norm
            norm = norm.sqrt() if self._norm == "l2" else norm
        names = zip(self._columns, self._output_columns, strict=True)
        return ds.with_columns({out: values[c] / norm for c, out in names})

    def _transform_pandas(self, df: pd.DataFrame) -> pd.DataFrame:
        import numpy as np

        matrix = np.column_stack([df[c].to_numpy(np.float64, na_value=np.nan) for c in self._columns])
        norms = self._norms(np.abs(matrix))
        for i, out in enumerate(self._output_columns):
            with np.errstate(divide="ignore", invalid="ignore"):
                df[out] = matrix[:, i] / norms
        return df

    def _norms(self, sizes: np.ndarray) -> np.ndarray:
        import numpy as np

        if self._norm == "max":
            return np.fmax.reduce(sizes, axis=1)
        return np.nansum(sizes, axis=1) if self._norm == "l1" else np.sqrt(np.nansum(sizes * sizes, axis=1))
