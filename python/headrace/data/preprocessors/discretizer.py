"""Discretizers: replace a number by the number of the interval that holds it."""

import math
from collections.abc import Iterable
from numbers import Real
from typing import TYPE_CHECKING, Any

from headrace.data.aggregate import Max, Min
from headrace.data.preprocessors.utils import BuiltInPreprocessor, check_numbers, numbers_of, read_only
from headrace.data.preprocessors.version_support import SerializablePreprocessor
from headrace.optional import package

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from headrace.data.dataset import Dataset


class _Discretizer(BuiltInPreprocessor):
    """pandas.cut of each column with the edges of `_edges(column)`."""

    _FIELDS = ("columns", "bins", "right", "include_lowest", "duplicates", "dtypes", "output_columns")

    columns: property = read_only("columns", "The columns to discretize.")
    bins: property = read_only("bins", "The edges, or the number of bins.")
    right: property = read_only("right", "Whether a bin includes its right edge.")
    include_lowest: property = read_only("include_lowest", "Whether the first bin includes its left edge.")
    duplicates: property = read_only("duplicates", "'raise' or 'drop': equal edges.")
    dtypes: property = read_only("dtypes", "The categories of the results, by column.")
    output_columns: property = read_only("output_columns", "The columns that the result goes to.")

    def __init__(
        self,
        columns: list[str],
        bins: Any,
        *,
        right: bool = True,
        include_lowest: bool = False,
        duplicates: str = "raise",
        dtypes: "dict[str, pd.CategoricalDtype | type[np.integer]] | None" = None,
        output_columns: list[str] | None = None,
    ):
        super().__init__()
        if duplicates not in ("raise", "drop"):
            raise ValueError(
                f"{type(self).__name__}: duplicates: expected 'raise' or 'drop', found {duplicates!r}"
            )
        self._columns = columns
        self._bins = bins
        self._right = right
        self._include_lowest = include_lowest
        self._duplicates = duplicates
        self._dtypes = dtypes
        self._output_columns = self._derive_and_validate_output_columns(columns, output_columns)
        if isinstance(bins, dict) and not all(c in bins for c in columns):
            raise ValueError("If `bins` is a dictionary, all elements of `columns` must be present in it.")

    def _bins_of(self, column: str) -> Any:
        return self._bins[column] if isinstance(self._bins, dict) else self._bins

    def _edges(self, column: str) -> Any:
        """Edges in ascending order, or an IntervalIndex."""
        raise NotImplementedError

    def _labels(self, column: str) -> "pd.CategoricalDtype | None":
        """The categories that stand for the bins; None: numbers stand for them."""
        pd = package("pandas", "preprocessors")
        given = (self._dtypes or {}).get(column)
        return given if isinstance(given, pd.CategoricalDtype) else None

    def _transform_dataset(self, ds: "Dataset") -> "Dataset | None":
        from headrace.data.categories import to_json
        from headrace.data.expressions import col

        edges = {c: self._edges(c) for c in self._columns}
        if not all(_are_numbers(edges[c]) for c in self._columns):
            return None
        if not check_numbers(self, ds, self._columns):
            return None
        made = {}
        for c, out in zip(self._columns, self._output_columns, strict=True):
            distinct = list(dict.fromkeys(float(edge) for edge in edges[c]))
            if len(distinct) < len(edges[c]) and self._duplicates == "raise":
                raise ValueError(
                    f"Bin edges must be unique: {list(edges[c])}. You can drop duplicate edges by setting "
                    "the 'duplicates' kwarg"
                )
            made[out] = col(c).bucket(distinct, right=self._right, lowest=self._include_lowest)
            labels = self._labels(c)
            if labels is None:
                continue
            names = labels.categories.tolist()
            text = to_json(names, labels.ordered)
            if text is None:
                return None
            if len(names) != len(distinct) - 1:
                raise ValueError(
                    f"Bin labels must be one fewer than the number of bin edges: column {c!r} has "
                    f"{len(names)} and {len(distinct)}"
                )
            made[out] = made[out].lookup(dict(enumerate(names)))._categorized(text)
        return ds.with_columns(made)

    def _transform_pandas(self, df: "pd.DataFrame") -> "pd.DataFrame":
        names = zip(self._columns, self._output_columns, strict=True)
        made = {out: self._binned(df[c]) for c, out in names}
        for out, values in made.items():
            df[out] = values
        return df

    def _binned(self, values: "pd.Series") -> "pd.Series":
        pd = package("pandas", "preprocessors")
        labels = self._labels(str(values.name))
        numbers = pd.Series(numbers_of(self, values), index=values.index)
        return pd.cut(
            numbers,
            self._edges(str(values.name)),
            right=self._right,
            labels=False if labels is None else list(labels.categories),
            ordered=True if labels is None else bool(labels.ordered),
            include_lowest=self._include_lowest,
            duplicates=self._duplicates,
        )


def _are_numbers(edges: Any) -> bool:
    return not hasattr(edges, "closed") and all(isinstance(edge, Real) for edge in edges)


@SerializablePreprocessor(version=1, identifier="headrace.CustomKBinsDiscretizer")
class CustomKBinsDiscretizer(_Discretizer):
    """The number of the interval that holds a value, by given edges: int64, null for values outside and
    missing ones.

    Args:
        columns: the columns of numbers.
        bins: edges in ascending order, a pandas.IntervalIndex, or column -> one of these.
        right: a bin includes its right edge (True) or its left one.
        include_lowest: the first bin includes its left edge, too.
        duplicates: equal edges are an error ("raise") or one edge ("drop").
        dtypes: column -> pandas.CategoricalDtype, whose categories stand for the bins.
        output_columns: as many names for the results; None: the results replace the columns.
    """

    _is_fittable = False

    def __init__(
        self,
        columns: list[str],
        bins: "Iterable[float] | pd.IntervalIndex | dict[str, Iterable[float] | pd.IntervalIndex]",
        *,
        right: bool = True,
        include_lowest: bool = False,
        duplicates: str = "raise",
        dtypes: "dict[str, pd.CategoricalDtype | type[np.integer]] | None" = None,
        output_columns: list[str] | None = None,
    ):
        super().__init__(
            columns,
            bins,
            right=right,
            include_lowest=include_lowest,
            duplicates=duplicates,
            dtypes=dtypes,
            output_columns=output_columns,
        )

    def _edges(self, column: str) -> Any:
        bins = self._bins_of(column)
        return bins if hasattr(bins, "closed") else list(bins)


@SerializablePreprocessor(version=1, identifier="headrace.UniformKBinsDiscretizer")
class UniformKBinsDiscretizer(_Discretizer):
    """The number of the interval that holds a value, of n intervals of equal width between the least and the
    greatest value of the fit: int64, null for values outside and missing ones.

    The first edge (the last one with right=False) lies 0.1 % of the range further out. stats_: column ->
    edges.

    Args:
        columns: the columns of numbers.
        bins: the number of bins, or column -> number.
        right: a bin includes its right edge (True) or its left one.
        include_lowest: the first bin includes its left edge, too.
        duplicates: equal edges are an error ("raise") or one edge ("drop").
        dtypes: column -> pandas.CategoricalDtype, whose categories stand for the bins.
        output_columns: as many names for the results; None: the results replace the columns.
    """

    def __init__(
        self,
        columns: list[str],
        bins: int | dict[str, int],
        *,
        right: bool = True,
        include_lowest: bool = False,
        duplicates: str = "raise",
        dtypes: "dict[str, pd.CategoricalDtype | type[np.integer]] | None" = None,
        output_columns: list[str] | None = None,
    ):
        super().__init__(
            columns,
            bins,
            right=right,
            include_lowest=include_lowest,
            duplicates=duplicates,
            dtypes=dtypes,
            output_columns=output_columns,
        )

    def _fit(self, ds: "Dataset") -> "UniformKBinsDiscretizer":
        for c in self._columns:
            n = self._bins_of(c)
            if not isinstance(n, int) or isinstance(n, bool):
                raise TypeError(f"`bins` must be an integer or a dict of integers, got {n!r}")
            if n < 1:
                raise ValueError(f"`bins` must be a positive integer, got {n}")
        check_numbers(self, ds, self._columns)
        for aggregate in (Min, Max):
            self._stat_computation_plan.add_aggregator(
                aggregator_fn=aggregate, columns=self._columns, skip_nan=True
            )
        return self

    def _take_stats(self, stats: dict[str, Any]) -> None:
        for c in self._columns:
            self.stats_[c] = self._uniform_edges(c, stats[f"min({c})"], stats[f"max({c})"])

    def _uniform_edges(self, column: str, least: Any, most: Any) -> "np.ndarray":
        """Edges of equal distance, as pandas.cut places them for a number of bins."""
        import numpy as np

        if least is None or most is None:
            raise ValueError(
                f"Column {column} has no values to bin. Check the data used to fit the discretizer."
            )
        least, most = float(least), float(most)
        if math.isinf(least) or math.isinf(most):
            raise ValueError(
                f"Cannot specify integer `bins` when input data contains infinity: column {column!r}."
            )
        if math.isinf(most - least):
            raise ValueError(
                f"Column {column} has values from {least} to {most}, a range that no double has: "
                "scale it first."
            )
        n = self._bins_of(column)
        if least == most:
            return np.linspace(
                least - (0.001 * abs(least) or 0.001), most + (0.001 * abs(most) or 0.001), n + 1
            )
        edges = np.linspace(least, most, n + 1)
        beyond = (most - least) * 0.001
        edges[0 if self._right else -1] += -beyond if self._right else beyond
        return edges

    def _edges(self, column: str) -> Any:
        return self.stats_[column]
