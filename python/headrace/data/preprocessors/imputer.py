"""SimpleImputer: values in the place of missing ones."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from headrace.data.aggregate import Mean, ValueCounter
from headrace.data.preprocessors.utils import (
    BuiltInPreprocessor,
    categories_of,
    check_columns,
    check_numbers,
    is_float,
    is_integer,
    numbers_of,
    read_only,
    types_of,
)
from headrace.data.preprocessors.version_support import SerializablePreprocessor
from headrace.optional import package

if TYPE_CHECKING:
    import pandas as pd

    from headrace.data.dataset import Dataset


@SerializablePreprocessor(version=1, identifier="headrace.SimpleImputer")
class SimpleImputer(BuiltInPreprocessor):
    """Replaces nulls and NaN. A dataset or batch without the column gets it, filled with the value.

    With "mean" integers become float64; otherwise a column keeps its type if the value fits into it. stats_:
    `mean(x)` or `most_frequent(x)`.

    Args:
        columns: the columns to fill.
        strategy: "mean" of the column, "most_frequent" (the first seen of equally frequent values), or
            "constant".
        fill_value: the value of "constant".
        output_columns: as many names for the results; None: the results replace the columns.

    Raises:
        ValueError: another strategy, or "constant" without fill_value.
    """

    _valid_strategies = ["mean", "most_frequent", "constant"]
    _FIELDS = ("columns", "strategy", "fill_value", "output_columns")

    columns: list[str] = read_only("columns", "The columns to fill.")
    strategy: str = read_only("strategy", "How the value is found.")
    fill_value: Any = read_only("fill_value", "The value of the strategy 'constant'.")
    output_columns: list[str] = read_only("output_columns", "The columns that the result goes to.")

    def __init__(
        self,
        columns: list[str],
        strategy: str = "mean",
        fill_value: Any = None,
        *,
        output_columns: list[str] | None = None,
    ):
        super().__init__()
        if strategy not in self._valid_strategies:
            raise ValueError(
                f"Strategy {strategy} is not supported. Supported values are: {self._valid_strategies}"
            )
        if strategy == "constant" and fill_value is None:
            raise ValueError('`fill_value` must be set when using "constant" strategy.')
        self._columns = columns
        self._strategy = strategy
        self._fill_value = fill_value
        self._is_fittable = strategy != "constant"
        self._output_columns = self._derive_and_validate_output_columns(columns, output_columns)

    def _set_serializable_fields(self, fields: dict[str, Any], version: int) -> None:
        super()._set_serializable_fields(fields, version)
        self._is_fittable = self._strategy != "constant"

    def _fit(self, ds: Dataset) -> SimpleImputer:
        plan = self._stat_computation_plan
        if self._strategy == "mean":
            check_numbers(self, ds, self._columns)
            plan.add_aggregator(aggregator_fn=Mean, columns=self._columns, skip_nan=True)
        else:
            check_columns(self, ds, self._columns)
            plan.add_aggregator(
                aggregator_fn=lambda c: ValueCounter(c, alias_name=f"most_frequent({c})"),
                post_process_fn=_most_frequent,
                columns=self._columns,
                skip_nan=True,
            )
        return self

    def _value(self, column: str) -> Any:
        """What replaces missing values of the column."""
        if self._strategy == "constant":
            return self._fill_value
        value = self.stats_[f"{self._strategy}({column})"]
        if value is None:
            raise ValueError(
                f"Column {column} has no fill value. Check the data used to fit the SimpleImputer."
            )
        return value

    def _pairs(self):
        return zip(self._columns, self._output_columns, strict=True)

    def _transform_dataset(self, ds: Dataset) -> Dataset:
        from headrace.data.categories import to_json
        from headrace.data.expressions import coalesce, col, if_else, lit

        types, known, made = types_of(ds), categories_of(ds), {}
        for c, out in self._pairs():
            value = self._value(c)
            kind = types.get(c)
            if kind is None:
                made[out] = lit(value)
                continue
            x = col(c)
            if is_float(kind):
                x = if_else(x.is_nan(), None, x)
            elif self._strategy == "mean" or is_integer(kind) and isinstance(value, float):
                x = x.cast("float64")
            made[out] = coalesce(x, value)
            if c in known and not (kind == "bool" and isinstance(value, float)):
                categories, ordered = known[c]
                categories = categories if value in categories else [*categories, value]
                made[out] = made[out]._categorized(to_json(categories, ordered))
        return ds.with_columns(made)

    def _transform_pandas(self, df: pd.DataFrame) -> pd.DataFrame:
        import numpy as np

        made: dict[str, Any] = {}
        for c, out in self._pairs():
            value = self._value(c)
            if c in df.columns and self._strategy == "mean" and _is_odd(df[c]):
                made[out] = numbers_of(self, df[c])
                made[out][np.isnan(made[out])] = value
            else:
                made[out] = _filled(df[c], value) if c in df.columns else value
        for out, values in made.items():
            df[out] = values
        return df


def _is_odd(values: pd.Series) -> bool:
    """Whether the column has numbers that do not become double precision by themselves beside a mean:
    booleans, decimals.
    """
    dtype = getattr(values.dtype, "categories", values).dtype
    kinds = package("pandas", "preprocessors").api.types
    return kinds.is_object_dtype(dtype) or kinds.is_bool_dtype(dtype)


def _filled(values: pd.Series, value: Any) -> pd.Series:
    pd = package("pandas", "preprocessors")
    if isinstance(values.dtype, pd.CategoricalDtype) and value not in values.cat.categories:
        values = values.cat.add_categories([value])
    elif isinstance(value, float) and pd.api.types.is_integer_dtype(values.dtype):
        values = values.astype("float64")
    return values.fillna(value)


def _most_frequent(found: dict[str, list] | None) -> Any:
    counts = Counter(dict(zip(found["values"], found["counts"], strict=True))) if found else Counter()
    return counts.most_common(1)[0][0] if counts else None
