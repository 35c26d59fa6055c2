"""PowerTransformer: makes values more like a normal distribution."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from headrace.data.preprocessors.utils import BuiltInPreprocessor, check_numbers, read_only
from headrace.data.preprocessors.version_support import SerializablePreprocessor

if TYPE_CHECKING:
    import pandas as pd

    from headrace.data.dataset import Dataset


@SerializablePreprocessor(version=1, identifier="headrace.PowerTransformer")
class PowerTransformer(BuiltInPreprocessor):
    """The Yeo-Johnson or Box-Cox transform with a given power, in double precision. There is nothing to fit.

    Missing values stay missing. Box-Cox needs positive values.

    Args:
        columns: the columns to transform, each by itself.
        power: the parameter (lambda) of the transform.
        method: "yeo-johnson" or "box-cox".
        output_columns: as many names for the results; None: the results replace the columns.

    Raises:
        ValueError: another method.
    """

    _is_fittable = False
    _valid_methods = ["yeo-johnson", "box-cox"]
    _FIELDS = ("columns", "power", "method", "output_columns")

    columns: list[str] = read_only("columns", "The columns to transform.")
    power: float = read_only("power", "The parameter of the transform.")
    method: str = read_only("method", "The kind of transform.")
    output_columns: list[str] = read_only("output_columns", "The columns that the result goes to.")

    def __init__(
        self,
        columns: list[str],
        power: float,
        method: str = "yeo-johnson",
        *,
        output_columns: list[str] | None = None,
    ):
        super().__init__()
        if method not in self._valid_methods:
            raise ValueError(f"Method {method} is not supported. Supported values are: {self._valid_methods}")
        if isinstance(power, bool) or not isinstance(power, (int, float)) or not math.isfinite(power):
            raise ValueError(f"PowerTransformer: power: expected a finite number, found {power!r}")
        self._columns = columns
        self._power = power
        self._method = method
        self._output_columns = self._derive_and_validate_output_columns(columns, output_columns)

    def _pairs(self):
        return zip(self._columns, self._output_columns, strict=True)

    def _transform_dataset(self, ds: Dataset) -> Dataset:
        from headrace.data.expressions import col, if_else

        check_numbers(self, ds, self._columns)
        made = {}
        for c, out in self._pairs():
            x = col(c).cast("float64")
            if self._method == "box-cox":
                made[out] = _power_of(x, self._power, lambda v: v.ln())
            else:
                above = _power_of(x + 1.0, self._power, lambda v: v.ln())
                below = -_power_of(1.0 - x, 2 - self._power, lambda v: v.ln())
                made[out] = if_else(x >= 0, above, below)
        return ds.with_columns(made)

    def _transform_pandas(self, df: pd.DataFrame) -> pd.DataFrame:
        import numpy as np

        made = {}
        with np.errstate(all="ignore"):
            for c, out in self._pairs():
                x = df[c].to_numpy(np.float64, na_value=np.nan)
                if self._method == "box-cox":
                    made[out] = _power_of(x, self._power, np.log)
                    continue
                above = _power_of(x + 1.0, self._power, np.log)
                below = -_power_of(1.0 - x, 2 - self._power, np.log)
                made[out] = np.where(x >= 0, above, below)
        for out, values in made.items():
            df[out] = values
        return df


def _power_of(x: Any, power: float, ln: Any) -> Any:
    """(x ** power - 1) / power, or its limit ln(x) for 0."""
    return ln(x) if power == 0 else (x ** float(power) - 1.0) / float(power)
