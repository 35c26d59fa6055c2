"""Scalers of numbers: StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler.

All learn in one pass over their columns, where nulls and NaN count as missing, and compute in double
precision. Null stays null, NaN stays NaN. A column without any value becomes a column of nulls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.data.aggregate import AbsMax, ApproximateQuantile, Max, Mean, Min, Std
from headrace.data.preprocessors.utils import BuiltInPreprocessor, check_numbers, numbers_of, read_only
from headrace.data.preprocessors.version_support import SerializablePreprocessor

if TYPE_CHECKING:
    import pandas as pd

    from headrace.data.dataset import Dataset
    from headrace.data.expressions import Expr

_EPSILON = 1e-8  # a spread below it counts as 0, as in Ray


class _Scaler(BuiltInPreprocessor):
    """x -> (x - shift) / scale of each column, by `_shift_and_scale`."""

    columns: property = read_only("columns", "The columns to scale.")
    output_columns: property = read_only("output_columns", "The columns that the result goes to.")

    def __init__(self, columns: list[str], output_columns: list[str] | None = None):
        super().__init__()
        self._columns = columns
        self._output_columns = self._derive_and_validate_output_columns(columns, output_columns)

    def _shift_and_scale(self, column: str) -> tuple[float, float] | None:
        """None: the column of the fit had no value."""
        raise NotImplementedError

    def _pairs(self):
        return zip(self._columns, self._output_columns, strict=True)

    def _transform_dataset(self, ds: Dataset) -> Dataset:
        check_numbers(self, ds, self._columns)
        return ds.with_columns({out: self._expression(c) for c, out in self._pairs()})

    def _expression(self, column: str) -> Expr:
        from headrace.data.expressions import col, lit

        found = self._shift_and_scale(column)
        if found is None:
            return lit(None, type="float64")
        shift, scale = found
        x = col(column).cast("float64")
        if scale == 0:  # RobustScaler: the results are zero
            return lit(0.0, type="float64")
        return (x - lit(shift, type="float64")) / lit(scale, type="float64")

    def _transform_pandas(self, df: pd.DataFrame) -> pd.DataFrame:
        made = {out: self._scaled(df[c]) for c, out in self._pairs()}  # all see the old columns
        for out, values in made.items():
            df[out] = values
        return df

    def _scaled(self, values: pd.Series) -> Any:
        import numpy as np

        numbers = numbers_of(self, values)
        found = self._shift_and_scale(str(values.name))
        if found is None:
            return np.full(len(numbers), np.nan)
        shift, scale = found
        if scale == 0:
            return np.zeros(len(numbers))
        return (numbers - shift) / scale


@SerializablePreprocessor(version=1, identifier="headrace.StandardScaler")
class StandardScaler(_Scaler):
    """(x - mean) / standard deviation of each column, with the deviation of the whole population (ddof=0).

    A deviation below 1e-8 counts as 1, so that constant columns become 0. stats_: `mean(x)`, `std(x)`.

    Args:
        columns: the columns to scale.
        output_columns: as many names for the results; None: the results replace the columns.
    """

    def _fit(self, ds: Dataset) -> StandardScaler:
        check_numbers(self, ds, self._columns)
        plan = self._stat_computation_plan
        plan.add_aggregator(aggregator_fn=Mean, columns=self._columns, skip_nan=True)
        plan.add_aggregator(aggregator_fn=lambda c: Std(c, ddof=0), columns=self._columns, skip_nan=True)
        return self

    def _shift_and_scale(self, column: str) -> tuple[float, float] | None:
        mean, std = self.stats_[f"mean({column})"], self.stats_[f"std({column})"]
        if mean is None or std is None:
            return None
        return float(mean), 1.0 if std < _EPSILON else float(std)


@SerializablePreprocessor(version=1, identifier="headrace.MinMaxScaler")
class MinMaxScaler(_Scaler):
    """(x - min) / (max - min) of each column, which lies in [0, 1] for the rows of the fit.

    A range below 1e-8 counts as 1, so that constant columns become 0. stats_: `min(x)`, `max(x)`.

    Args:
        columns: the columns to scale.
        output_columns: as many names for the results; None: the results replace the columns.
    """

    def _fit(self, ds: Dataset) -> MinMaxScaler:
        check_numbers(self, ds, self._columns)
        for aggregate in (Min, Max):
            self._stat_computation_plan.add_aggregator(
                aggregator_fn=aggregate, columns=self._columns, skip_nan=True
            )
        return self

    def _shift_and_scale(self, column: str) -> tuple[float, float] | None:
        least, most = self.stats_[f"min({column})"], self.stats_[f"max({column})"]
        if least is None or most is None:
            return None
        span = float(most) - float(
            least
        )  # of the numbers that the transform sees: large integers are rounded
        return float(least), 1.0 if span < _EPSILON else span


@SerializablePreprocessor(version=1, identifier="headrace.MaxAbsScaler")
class MaxAbsScaler(_Scaler):
    """x / max(|x|) of each column, which lies in [-1, 1] for the rows of the fit; zeros stay zeros.

    stats_: `abs_max(x)`.

    Args:
        columns: the columns to scale.
        output_columns: as many names for the results; None: the results replace the columns.
    """

    def _fit(self, ds: Dataset) -> MaxAbsScaler:
        check_numbers(self, ds, self._columns)
        self._stat_computation_plan.add_aggregator(aggregator_fn=AbsMax, columns=self._columns, skip_nan=True)
        return self

    def _shift_and_scale(self, column: str) -> tuple[float, float] | None:
        most = self.stats_[f"abs_max({column})"]
        return None if most is None else (0.0, float(most) or 1.0)


@SerializablePreprocessor(version=1, identifier="headrace.RobustScaler")
class RobustScaler(_Scaler):
    """(x - median) / (high - low) of each column, where low and high are quantiles; outliers matter little.

    The quantiles are exact (between neighbours in proportion, as in NumPy), and the fit holds the values of
    its columns in memory. If high equals low, the result is 0. stats_: `low_quantile(x)`, `median(x)`,
    `high_quantile(x)`.

    Args:
        columns: the columns to scale.
        quantile_range: the two quantiles, between 0 and 1.
        output_columns: as many names for the results; None: the results replace the columns.
        quantile_precision: accepted for Ray's sketch; quantiles are exact here.
    """

    DEFAULT_QUANTILE_PRECISION = 800
    _FIELDS = ("columns", "quantile_range", "output_columns", "quantile_precision")

    quantile_range: tuple[float, float] = read_only("quantile_range", "The lower and the upper quantile.")
    quantile_precision: int = read_only("quantile_precision", "Has no effect.")

    def __init__(
        self,
        columns: list[str],
        quantile_range: tuple[float, float] = (0.25, 0.75),
        output_columns: list[str] | None = None,
        quantile_precision: int = DEFAULT_QUANTILE_PRECISION,
    ):
        super().__init__(columns, output_columns)
        low, high = quantile_range
        if not 0 <= low <= high <= 1:
            raise ValueError(
                f"RobustScaler: quantile_range: expected 0 <= low <= high <= 1, found {tuple(quantile_range)}"
            )
        self._quantile_range = quantile_range
        self._quantile_precision = quantile_precision

    def _fit(self, ds: Dataset) -> RobustScaler:
        check_numbers(self, ds, self._columns)
        low, high = self._quantile_range
        self._stat_computation_plan.add_aggregator(
            aggregator_fn=lambda c: ApproximateQuantile(c, [low, 0.5, high], self._quantile_precision),
            columns=self._columns,
            skip_nan=True,
        )
        return self

    def _take_stats(self, stats: dict[str, Any]) -> None:
        for column in self._columns:
            found = stats[f"approx_quantile({column})"] or [None] * 3
            for name, value in zip(("low_quantile", "median", "high_quantile"), found, strict=True):
                self.stats_[f"{name}({column})"] = value

    def _shift_and_scale(self, column: str) -> tuple[float, float] | None:
        low, median, high = (
            self.stats_[f"{name}({column})"] for name in ("low_quantile", "median", "high_quantile")
        )
        return None if low is None or median is None or high is None else (median, high - low)

    def __repr__(self) -> str:
        return self._repr(
            columns=self._columns, quantile_range=self._quantile_range, output_columns=self._output_columns
        )
