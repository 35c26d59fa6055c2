"""Dataset.summary(): statistics of columns.

The type of a column selects its statistics; one pass computes all of them. As in Ray, a statistic that is a
list (quantiles, the most frequent values) becomes one row per item.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace._core import InvalidArgument, TypeMismatchError
from headrace.data.aggregate import (
    AggregateFnV2,
    ApproximateQuantile,
    ApproximateTopK,
    Count,
    Max,
    Mean,
    Min,
    MissingValuePercentage,
    Std,
    ZeroPercentage,
)
from headrace.optional import package
from headrace.settings import hint

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


NUMBERS = ("int", "uint", "halffloat", "float", "double")
TIMES = ("date", "time", "timestamp", "duration")
COUNTED = ("string", "large_string", "binary", "large_binary", "fixed_size_binary")
STATISTIC = "statistic"


def _of_times(column):
    return [
        Count(on=column, ignore_nulls=False),
        Min(on=column),
        Max(on=column),
        MissingValuePercentage(on=column),
    ]


def _of_decimals(column):
    return [*_of_times(column), Mean(on=column), Std(on=column, ddof=0)]


def _of_booleans(column):
    return [*_of_decimals(column), ZeroPercentage(on=column)]


def _of_numbers(column):
    return [*_of_booleans(column), ApproximateQuantile(on=column, quantiles=[0.5])]


def _of_texts(column):
    return [
        Count(on=column, ignore_nulls=False),
        MissingValuePercentage(on=column),
        ApproximateTopK(on=column, k=10),
    ]


def _of_others(column):
    return [Count(on=column, ignore_nulls=False), MissingValuePercentage(on=column)]


def _defaults(kind):
    """The function that makes the aggregates for a column's type."""
    head = kind.partition("[")[0].partition("(")[0].partition("<")[0]
    if head in ("bool", "decimal128", "decimal256"):
        return _of_booleans if head == "bool" else _of_decimals
    if head == "null":
        return lambda column: [Count(on=column, ignore_nulls=False)]
    if kind in COUNTED or head in COUNTED:
        return _of_texts
    if head.rstrip("0123456789") in NUMBERS:
        return _of_numbers
    return _of_times if head.rstrip("0123456789") in TIMES else _of_others


def _type_text(key):
    """A type as a schema prints it, from that text, a pyarrow type, or an object with to_arrow_dtype()."""
    if hasattr(key, "to_arrow_dtype"):
        key = key.to_arrow_dtype()
    if isinstance(key, str) or hasattr(key, "__arrow_c_schema__"):
        return str(key)
    raise InvalidArgument(
        "summary: override_dtype_agg_mapping: expected keys that are pyarrow types or their names, found "
        f"{key!r}"
    )


def _aggregators(schema, columns, override):
    kinds = dict(zip(schema.names, schema.types, strict=True))
    wanted = list(kinds) if columns is None else list(columns)
    for name in wanted:
        if name not in kinds:
            known = f"{', '.join(kinds)}{hint(name, kinds)}"
            raise InvalidArgument(f"summary: no column '{name}'; the columns are {known}")
    own = {_type_text(key): make for key, make in (override or {}).items()}
    found = []
    for name in wanted:
        made = own.get(kinds[name], _defaults(kinds[name]))(name)
        for agg in made:
            if not isinstance(agg, AggregateFnV2):
                raise TypeMismatchError(
                    f"summary: column '{name}': expected an AggregateFnV2, found {type(agg).__name__}"
                )
        found += made
    return found


def summarize(ds, columns, override):
    schema = ds.schema()
    if schema is None or not len(schema):
        raise InvalidArgument("summary: the dataset has no columns")
    aggs = _aggregators(schema, columns, override)
    if not aggs:
        raise InvalidArgument("summary: expected at least one column")
    values = ds.aggregate(*aggs)
    statistics = {}
    for agg in aggs:
        column, name, value = agg.get_target_column(), agg.get_agg_name(), values[agg.name]
        if not column:
            continue
        if isinstance(agg, (ApproximateQuantile, ApproximateTopK)) or isinstance(value, (list, tuple)):
            for place, item in enumerate(value if value is not None else [None][: name == "approx_quantile"]):
                statistics.setdefault(f"{name}[{place}]", {})[column] = item
        else:
            statistics.setdefault(name, {})[column] = value
    return DatasetSummary(schema, sorted({a.get_target_column() for a in aggs} - {None}), statistics)


class DatasetSummary:
    """Statistics of a dataset's columns.

    columns: their names, sorted. dataset_schema: a pyarrow.Schema. statistics: dict of statistic -> dict of
    column -> value, as the engine computed them.
    """

    STATISTIC_COLUMN = STATISTIC

    def __init__(self, schema: Any, columns: Any, statistics: Any) -> None:
        self._schema = schema
        self.columns: list[str] = columns
        self.statistics: dict[str, dict[str, Any]] = {name: statistics[name] for name in sorted(statistics)}

    @property
    def dataset_schema(self) -> pa.Schema:
        return self._schema.base_schema

    def to_pandas(self) -> pd.DataFrame:
        """A DataFrame with one row per statistic and one column per column of the dataset; None or NaN where
        a column does not have the statistic.
        """
        pandas = package("pandas", "DatasetSummary.to_pandas")
        data = {STATISTIC: list(self.statistics)}
        for column in self.columns:
            data[column] = [of.get(column) for of in self.statistics.values()]
        return pandas.DataFrame(data)

    def get_column_stats(self, column: str) -> pd.DataFrame:
        """A DataFrame with the columns "statistic" and "value" for one column; one row per statistic that any
        column has.
        """
        pandas = package("pandas", "get_column_stats")
        if column not in self.columns:
            known = f"{', '.join(self.columns)}{hint(column, self.columns)}"
            raise InvalidArgument(f"summary: no column '{column}'; the columns are {known}")
        values = [of.get(column) for of in self.statistics.values()]
        return pandas.DataFrame({STATISTIC: list(self.statistics), "value": values})

    def __repr__(self) -> str:
        from headrace.data import display  # imports numpy

        title = f"DatasetSummary({len(self.statistics)} statistics of {', '.join(self.columns)})"
        rows = [
            {STATISTIC: name} | {c: of.get(c) for c in self.columns} for name, of in self.statistics.items()
        ]
        return f"{title}\n{display.table(None, rows)}" if rows else title
