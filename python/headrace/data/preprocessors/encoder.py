"""Encoders of categories: OrdinalEncoder, OneHotEncoder, MultiHotEncoder, LabelEncoder, Categorizer.

Categories are the different values of a column in the rows of the fit, in ascending order. Null and NaN are
no category: they are an error in `fit` and in `transform`, except for Categorizer; SimpleImputer replaces
them. In columns of lists the items are categories, or whole lists are; whole lists are tuples in `stats_`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace.data.aggregate import MissingValuePercentage, Unique, ValueCounter
from headrace.data.preprocessor import PreprocessorNotFittedException
from headrace.data.preprocessors.utils import (
    BuiltInPreprocessor,
    categories_of,
    check_columns,
    is_float,
    is_integer,
    is_list,
    read_only,
)
from headrace.data.preprocessors.version_support import SerializablePreprocessor
from headrace.optional import package
from headrace.settings import is_whole

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from headrace.data.dataset import Dataset


def can_look_up(kind: str | None) -> bool:
    """Whether `lookup` and `one_hot` take a column of this type: not lists, objects, decimals."""
    return kind is not None and (
        is_integer(kind)
        or is_float(kind)
        or kind in ("bool", "string", "large_string", "binary", "large_binary")
        or kind.startswith(("date32", "date64", "timestamp[", "null"))
    )


_IMPUTE = "Consider imputing missing values first."


# --------------------------------------------------------------------------------------------------- learning


def learn_categories(
    who: BuiltInPreprocessor,
    ds: Dataset,
    columns: list[str],
    *,
    items: bool,
    most: dict[str, int] | None = None,
    drop_missing: bool = False,
    key: str = "unique_values({})",
    finish: Callable[[dict[Any, int]], Any] = lambda found: found,
) -> None:
    """Adds to the plan of `who` the statistics that find {category: number} of each column.

    Args:
        items: of a column of lists the items are categories, not the lists.
        most: column -> how many categories to keep, the most frequent ones.
        drop_missing: leaves out null and NaN, which otherwise are an error.
        key: the key in stats_.
        finish: makes the statistic of {category: number}.
    """
    most = most or {}
    for column in most:
        if column not in columns:
            raise ValueError(f"You set `max_categories` for {column}, which is not present in {columns}.")
    types = check_columns(who, ds, columns)
    known = categories_of(ds)
    plan = who._stat_computation_plan
    for column in columns:
        place, limit = key.format(column), most.get(column)

        def numbered(found, limit=limit, column=column):
            found = _with_categories(found, known.get(column, ((), False))[0])
            return finish(_numbered(found, limit, column, drop_missing))

        if is_list(types.get(column, "")):
            plan.add_callable_stat(
                stat_fn=lambda name, column=column: {name(column): _counts_of_lists(ds, column, items)},
                stat_key_fn=lambda column: column,
                post_key_fn=lambda column, place=place: place,
                post_process_fn=numbered,
                columns=[column],
            )
        elif limit is None:
            plan.add_aggregator(
                aggregator_fn=lambda c, place=place: Unique(c, alias_name=place),
                post_process_fn=numbered,
                columns=[column],
                skip_nan=True,
            )
        else:
            plan.add_aggregator(
                aggregator_fn=lambda c, place=place: ValueCounter(c, alias_name=place),
                post_process_fn=lambda found, numbered=numbered: numbered(_counter(found)),
                columns=[column],
                skip_nan=True,
            )
            plan.add_aggregator(
                aggregator_fn=lambda c: MissingValuePercentage(c, alias_name=f"missing({c})"),
                columns=[column],
            )


def _with_categories(found: Any, categories: list[Any]) -> Any:
    """What was found, then the categories of the column that were not found."""
    if isinstance(found, Counter):
        return Counter({**found, **{c: found[c] for c in categories}})
    return list(dict.fromkeys([*(found or ()), *categories]))


def _counter(found: dict[str, list] | None) -> Counter:
    """A Counter of what ValueCounter gives, in the order of first occurrence."""
    return Counter(dict(zip(found["values"], found["counts"], strict=True)) if found else {})


def _numbered(found: Any, limit: int | None, column: str, drop_missing: bool) -> dict[Any, int]:
    """{category: number} in ascending order, of a list of values or of a Counter."""
    values = [v for v, _ in found.most_common(limit)] if isinstance(found, Counter) else list(found or [])
    there = [_plain(v) for v in values if v is not None]
    if len(there) < len(values) and not drop_missing:
        raise ValueError(f"Unable to fit column {column!r} because it contains null values. {_IMPUTE}")
    return {value: i for i, value in enumerate(sorted(there))}


def _plain(value: Any) -> Any:
    """The form that a value has in a Series, for look-ups: nanoseconds are Timestamps."""
    if type(value).__module__ == "numpy" and value.dtype.kind in "mM":
        pd = package("pandas", "preprocessors")
        return pd.Timestamp(value) if value.dtype.kind == "M" else pd.Timedelta(value)
    return value


class _CountLists:
    """Rows of two columns: the different items, or lists, of a batch, and how often each occurs."""

    def __init__(self, column: str, items: bool):
        self.column, self.items = column, items

    def __call__(self, table):
        pa = package("pyarrow", "preprocessors")
        lists = table[self.column].combine_chunks()
        lists = getattr(lists, "storage", lists)
        if self.items:
            found = lists.flatten().value_counts()
            return pa.table({"value": found.field("values"), "count": found.field("counts")})
        counts = Counter(None if v is None else tuple(v) for v in lists.to_pylist())
        values = pa.array([None if v is None else list(v) for v in counts], lists.type)
        return pa.table({"value": values, "count": pa.array(list(counts.values()), pa.int64())})


def _counts_of_lists(ds: Dataset, column: str, items: bool) -> Counter:
    found: Counter = Counter()
    counting = _CountLists(column, items)
    counted = ds.select_columns([column]).map_batches(lambda t: counting(t), batch_format="pyarrow")
    for row in counted.iter_rows():
        value = row["value"]
        found[tuple(value) if not items and value is not None else value] += row["count"]
    return found


# ----------------------------------------------------------------------------------------------- transforming


def refuse_missing(df: pd.DataFrame, columns: list[str]) -> None:
    missing = [c for c in columns if df[c].isna().any()]
    if missing:
        raise ValueError(f"Unable to transform columns {missing} because they contain null values. {_IMPUTE}")


def has_lists(values: pd.Series) -> bool:
    import numpy as np

    pd = package("pandas", "preprocessors")
    if isinstance(values.dtype, pd.ArrowDtype):
        return is_list(str(values.dtype.pyarrow_dtype))
    if values.dtype != object:
        return False
    first = next((v for v in values if v is not None), None)
    return isinstance(first, (list, tuple, np.ndarray))


def codes_of(values: pd.Series, numbers: dict[Any, int]) -> np.ndarray:
    """The number of each value, -1 for values that have none."""
    import numpy as np

    if has_lists(values):
        return np.fromiter((numbers.get(tuple(v), -1) for v in values), np.int64, len(values))
    found = values.astype(object).map(numbers) if len(numbers) else np.full(len(values), -1)
    return found if isinstance(found, np.ndarray) else found.fillna(-1).to_numpy(np.int64)


def with_nan(codes: np.ndarray) -> np.ndarray:
    """Numbers, with NaN for -1: integers if there is none."""
    import numpy as np

    return codes if not (codes < 0).any() else np.where(codes < 0, np.nan, codes)


def _indexable(values: pd.Series) -> pd.Series:
    """pandas compares values with categories in an index, which has no halves."""
    return values.astype("float64") if values.dtype == "float16" else values


class _Encoder(BuiltInPreprocessor):
    """Shared by the encoders of several columns."""

    columns: property = read_only("columns", "The columns to encode.")
    output_columns: property = read_only("output_columns", "The columns that the result goes to.")

    def _pairs(self):
        return zip(self._columns, self._output_columns, strict=True)

    def _by_lookup(self, ds: Dataset, make: Callable[[Any, dict[Any, int]], Any]) -> Dataset | None:
        """The dataset with make(column, numbers) for each column, if the engine can look its values up."""
        from headrace.data.expressions import col

        types = check_columns(self, ds, self._columns)
        if not all(can_look_up(types.get(c)) for c in self._columns):
            return None
        return ds.with_columns({out: make(col(c), self._numbers(c)) for c, out in self._pairs()})

    def _numbers(self, column: str) -> dict[Any, int]:
        try:
            return self.stats_[f"unique_values({column})"]
        except KeyError:
            raise PreprocessorNotFittedException(f"column {column!r} was not fitted: {self!r}") from None


def _limits(who: str, max_categories: object) -> dict[str, int]:
    """The argument max_categories."""
    if max_categories is None:
        return {}
    if not isinstance(max_categories, dict):
        raise TypeError(
            f"{who}: max_categories: expected a dict of column -> number, found {max_categories!r}"
        )
    for column, n in max_categories.items():
        if not is_whole(n, 1):
            raise ValueError(f"{who}: max_categories of {column!r}: expected at least 1, found {n!r}")
    return max_categories


@SerializablePreprocessor(version=1, identifier="headrace.OrdinalEncoder")
class OrdinalEncoder(_Encoder):
    """Numbers the categories of each column: 0 for the least, int64. A value that was not in the fit becomes
    null.

    stats_: `unique_values(x)`, a dict of category -> number.

    Args:
        columns: the columns to encode, of numbers, text, bytes, booleans, times, or lists of these.
        encode_lists: of a column of lists, encodes each item (True) or each list as a whole.
        output_columns: as many names for the results; None: the results replace the columns.
    """

    _FIELDS = ("columns", "encode_lists", "output_columns")
    encode_lists: bool = read_only("encode_lists", "Whether the items of lists are categories.")

    def __init__(
        self, columns: list[str], *, encode_lists: bool = True, output_columns: list[str] | None = None
    ):
        super().__init__()
        self._columns = columns
        self._encode_lists = encode_lists
        self._output_columns = self._derive_and_validate_output_columns(columns, output_columns)

    def _fit(self, ds: Dataset) -> OrdinalEncoder:
        learn_categories(self, ds, self._columns, items=self._encode_lists)
        return self

    def _transform_dataset(self, ds: Dataset) -> Dataset | None:
        return self._by_lookup(ds, lambda x, numbers: x.lookup(numbers, strict=True).cast("int64"))

    def _transform_pandas(self, df: pd.DataFrame) -> pd.DataFrame:
        refuse_missing(df, self._columns)
        made = {out: self._encoded(df[c], self._numbers(c)) for c, out in self._pairs()}
        for out, values in made.items():
            df[out] = values
        return df

    def _encoded(self, values: pd.Series, numbers: dict[Any, int]) -> Any:
        if has_lists(values) and self._encode_lists:
            return values.map(lambda items: [numbers.get(v) for v in items])
        return with_nan(codes_of(values, numbers))


@SerializablePreprocessor(version=1, identifier="headrace.OneHotEncoder")
class OneHotEncoder(_Encoder):
    """A vector for each value: 1 at the place of its category, 0 elsewhere (uint8). A value without a place,
    because it was not in the fit or is not frequent enough, becomes a vector of zeros. Lists are categories
    as a whole.

    stats_: `unique_values(x)`, a dict of category -> place.

    Args:
        columns: the columns to encode.
        max_categories: column -> how many categories to keep, the most frequent ones (the first seen of
            equals).
        output_columns: as many names for the results; None: the results replace the columns.
    """

    _FIELDS = ("columns", "max_categories", "output_columns")
    max_categories: dict[str, int] = read_only("max_categories", "How many categories to keep, by column.")

    def __init__(
        self,
        columns: list[str],
        *,
        max_categories: dict[str, int] | None = None,
        output_columns: list[str] | None = None,
    ):
        super().__init__()
        self._columns = columns
        self._max_categories = _limits(type(self).__name__, max_categories)
        self._output_columns = self._derive_and_validate_output_columns(columns, output_columns)

    def _fit(self, ds: Dataset) -> OneHotEncoder:
        learn_categories(self, ds, self._columns, items=False, most=self._max_categories)
        return self

    def _take_stats(self, stats: dict[str, Any]) -> None:
        self.stats_.update(_without_missing(stats))

    def _transform_dataset(self, ds: Dataset) -> Dataset | None:
        return self._by_lookup(ds, lambda x, numbers: x.one_hot(list(numbers), strict=True))

    def _transform_pandas(self, df: pd.DataFrame) -> pd.DataFrame:
        import numpy as np

        refuse_missing(df, self._columns)
        made = {}
        for c, out in self._pairs():
            numbers = self._numbers(c)
            codes = codes_of(df[c], numbers)
            vectors = np.zeros((len(df), len(numbers)), np.uint8)
            rows = np.flatnonzero(codes >= 0)
            vectors[rows, codes[rows]] = 1
            made[out] = _cells(vectors)
        for out, values in made.items():
            df[out] = values
        return df


def _without_missing(stats: dict[str, Any]) -> dict[str, Any]:
    """The statistics without the shares of missing values, which must be 0."""
    for name, share in stats.items():
        if name.startswith("missing(") and share:
            raise ValueError(
                f"Unable to fit column {name[8:-1]!r} because it contains null values. {_IMPUTE}"
            )
    return {name: value for name, value in stats.items() if not name.startswith("missing(")}


def _cells(vectors: np.ndarray) -> np.ndarray:
    """Rows of a matrix as an array of arrays."""
    import numpy as np

    cells = np.empty(len(vectors), object)
    for i, row in enumerate(vectors):
        cells[i] = row
    return cells


@SerializablePreprocessor(version=1, identifier="headrace.MultiHotEncoder")
class MultiHotEncoder(_Encoder):
    """A vector for each list: how often it has each category (int64), 0 or 1 where items do not repeat. A
    value that is no list counts as a list of one.

    stats_: `unique_values(x)`, a dict of category -> place.

    Args:
        columns: the columns to encode.
        max_categories: column -> how many categories to keep, the most frequent ones (the first seen of
            equals).
        output_columns: as many names for the results; None: the results replace the columns.
    """

    _FIELDS = ("columns", "max_categories", "output_columns")
    max_categories: dict[str, int] = read_only("max_categories", "How many categories to keep, by column.")

    def __init__(
        self,
        columns: list[str],
        *,
        max_categories: dict[str, int] | None = None,
        output_columns: list[str] | None = None,
    ):
        super().__init__()
        self._columns = columns
        self._max_categories = _limits(type(self).__name__, max_categories)
        self._output_columns = self._derive_and_validate_output_columns(columns, output_columns)

    def _fit(self, ds: Dataset) -> MultiHotEncoder:
        learn_categories(self, ds, self._columns, items=True, most=self._max_categories)
        return self

    def _take_stats(self, stats: dict[str, Any]) -> None:
        self.stats_.update(_without_missing(stats))

    def _transform_pandas(self, df: pd.DataFrame) -> pd.DataFrame:
        refuse_missing(df, self._columns)
        made = {out: _cells(_counted(df[c], self._numbers(c))) for c, out in self._pairs()}
        for out, values in made.items():
            df[out] = values
        return df


def _counted(values: pd.Series, numbers: dict[Any, int]) -> np.ndarray:
    """How often each list has each category: (rows, categories), int64."""
    import numpy as np

    pd = package("pandas", "preprocessors")
    counts = np.zeros((len(values), len(numbers)), np.int64)
    if not has_lists(values):
        codes = codes_of(values, numbers)
        rows = np.flatnonzero(codes >= 0)
        counts[rows, codes[rows]] = 1
        return counts
    lists = [v if isinstance(v, (list, tuple)) else v.tolist() for v in values]
    rows = np.repeat(np.arange(len(lists)), [len(v) for v in lists])
    codes = codes_of(pd.Series([item for v in lists for item in v], dtype=object), numbers)
    known = codes >= 0
    np.add.at(counts, (rows[known], codes[known]), 1)
    return counts


@SerializablePreprocessor(version=1, identifier="headrace.LabelEncoder")
class LabelEncoder(BuiltInPreprocessor):
    """Numbers the labels of one column: 0 for the least, int64. A label that was not in the fit becomes null.

    stats_: `unique_values(label_column)`, a dict of label -> number.

    Args:
        label_column: the column of labels.
        output_column: the column that the numbers go to; None: they replace the labels.
    """

    _FIELDS = ("label_column", "output_column")
    label_column: str = read_only("label_column", "The column of labels.")
    output_column: str = read_only("output_column", "The column of numbers.")

    def __init__(self, label_column: str, *, output_column: str | None = None):
        super().__init__()
        if not isinstance(label_column, str):
            raise TypeError(f"LabelEncoder: label_column: expected a name, found {label_column!r}")
        self._label_column = label_column
        self._output_column = output_column or label_column

    @property
    def _labels(self) -> dict[Any, int]:
        return self.stats_[f"unique_values({self._label_column})"]

    def _fit(self, ds: Dataset) -> LabelEncoder:
        learn_categories(self, ds, [self._label_column], items=True)
        return self

    def _transform_dataset(self, ds: Dataset) -> Dataset | None:
        from headrace.data.expressions import col

        types = check_columns(self, ds, [self._label_column])
        if not can_look_up(types.get(self._label_column)):
            return None
        found = col(self._label_column).lookup(self._labels, strict=True).cast("int64")
        return ds.with_column(self._output_column, found)

    def _transform_pandas(self, df: pd.DataFrame) -> pd.DataFrame:
        refuse_missing(df, [self._label_column])
        df[self._output_column] = with_nan(codes_of(df[self._label_column], self._labels))
        return df

    def inverse_transform(self, ds: Dataset) -> Dataset:
        """The dataset with a label column: the labels of the numbers in the output column, null for other
        numbers.

        Raises:
            PreprocessorNotFittedException: `fit` was not called.
        """
        self._require_fitted("inverse_transform")
        types = check_columns(self, ds, [self._output_column])
        if self._labels and is_integer(types.get(self._output_column, "")):
            from headrace.data.expressions import col

            labels = {number: label for label, number in self._labels.items()}
            return ds.with_column(self._label_column, col(self._output_column).lookup(labels))
        return ds.map_batches(self._inverse_transform_pandas, batch_format="pandas", zero_copy_batch=False)

    def _inverse_transform_pandas(self, df: pd.DataFrame) -> pd.DataFrame:
        labels = {number: label for label, number in self._labels.items()}
        df[self._label_column] = df[self._output_column].map(labels)
        return df

    def get_input_columns(self) -> list[str]:
        return [self._label_column]

    def get_output_columns(self) -> list[str]:
        return [self._output_column]


@SerializablePreprocessor(version=1, identifier="headrace.Categorizer")
class Categorizer(_Encoder):
    """Makes columns of pandas' Categorical type, for libraries that read it (LightGBM). Values that are no
    category, and missing ones, become null.

    stats_: column -> pandas.CategoricalDtype. Fit it before you split a dataset, so that all parts have
    the same categories. A column that has categories already (of a Categorical, or of an Arrow dictionary)
    keeps them.

    Args:
        columns: the columns to convert.
        dtypes: column -> pandas.CategoricalDtype, for columns whose categories are known.
        output_columns: as many names for the results; None: the results replace the columns.
    """

    _FIELDS = ("columns", "dtypes", "output_columns")
    dtypes: dict[str, Any] = read_only("dtypes", "The categories that were given.")

    def __init__(
        self,
        columns: list[str],
        dtypes: dict[str, pd.CategoricalDtype] | None = None,
        output_columns: list[str] | None = None,
    ):
        super().__init__()
        self._columns = columns
        self._dtypes = dtypes or {}
        self._output_columns = self._derive_and_validate_output_columns(columns, output_columns)

    def _fit(self, ds: Dataset) -> Categorizer:
        pd = package("pandas", "preprocessors")
        self.stats_.update(self._dtypes)
        for c, (categories, ordered) in categories_of(ds).items():
            if c in self._columns and c not in self._dtypes:
                self.stats_[c] = pd.CategoricalDtype(categories, ordered)
        to_learn = [c for c in self._columns if c not in self.stats_]
        types = check_columns(self, ds, to_learn)
        for c in to_learn:
            if is_list(types.get(c, "")):
                raise TypeError(
                    f"Categorizer: column {c!r} is {types[c]}, expected single values; pandas has no "
                    "categories of lists. MultiHotEncoder and OrdinalEncoder take lists"
                )
        learn_categories(
            self,
            ds,
            to_learn,
            items=True,
            drop_missing=True,
            key="{}",
            finish=lambda found: pd.CategoricalDtype(list(found)),
        )
        return self

    def _transform_dataset(self, ds: Dataset) -> Dataset | None:
        from headrace.data.categories import to_json
        from headrace.data.expressions import col

        types = check_columns(self, ds, self._columns)
        made = {}
        for c, out in self._pairs():
            dtype = self.stats_[c]
            values = dtype.categories.tolist()
            text = to_json(values, dtype.ordered)
            if text is None or not can_look_up(types.get(c)):
                return None
            made[out] = (col(c).lookup({v: v for v in values}) if values else col(c))._categorized(text)
        return ds.with_columns(made)

    def _transform_pandas(self, df: pd.DataFrame) -> pd.DataFrame:
        made = {out: _indexable(df[c]).astype(self.stats_[c]) for c, out in self._pairs()}
        for out, values in made.items():
            df[out] = values
        return df
