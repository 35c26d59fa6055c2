"""PowerTransformer: makes values more like a normal distribution."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

from headrace.data.preprocessors.utils import BuiltInPreprocessor, check_numbers, numbers_of, read_only
from headrace.data.preprocessors.version_support import SerializablePreprocessor

if TYPE_CHECKING:
    import numpy as np
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
                x = numbers_of(self, df[c])
                if self._method == "box-cox":
                    made[out] = _power_of_array(x, self._power)
                    continue
                up = x >= 0
                made[out] = np.empty(len(x))
                made[out][up] = _power_of_array(x[up] + 1.0, self._power)
                made[out][~up] = -_power_of_array(1.0 - x[~up], 2 - self._power)
        for out, values in made.items():
            df[out] = values
        return df


def _power_of(x: Any, power: float, ln: Any) -> Any:
    """(x ** power - 1) / power, or its limit ln(x) for 0."""
    return ln(x) if power == 0 else (x ** float(power) - 1.0) / float(power)


def _power_of_array(x: np.ndarray, power: float) -> np.ndarray:
    """_power_of() with the logarithms and powers of the C library, which the engine takes, too. NumPy has
    other code for many at once, whose last bits differ from processor to processor.
    """
    import numpy as np

    one = np.frompyfunc(_ln if power == 0 else functools.partial(_pow, power=float(power)), 1, 1)
    found = one(x.astype(object)).astype(np.float64)
    return found if power == 0 else (found - 1.0) / float(power)


def _ln(x: float) -> float:
    if x > 0 or math.isnan(x):
        return math.log(x)
    return -math.inf if x == 0 else math.nan


def _pow(x: float, power: float) -> float:
    """x ** power of a finite power other than 0, as C has it where Python raises an error."""
    try:
        return math.pow(x, power)
    except OverflowError:
        return -math.inf if x < 0 and power % 2 == 1 else math.inf
    except ValueError:
        if x != 0:
            return math.nan
        return -math.inf if math.copysign(1, x) < 0 and power % 2 == 1 else math.inf
