"""CountVectorizer and HashingVectorizer: how often a text has each token."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace.data.preprocessors.tokenizer import (
    TokenizingPreprocessor,
    _checked_function,
    check_texts,
    tokens_of,
)
from headrace.data.preprocessors.utils import read_only, simple_hash
from headrace.data.preprocessors.version_support import SerializablePreprocessor

if TYPE_CHECKING:
    import pandas as pd

    from headrace.data.dataset import Dataset


class _Vectorizer(TokenizingPreprocessor):
    """A vector of counts (int64) for each text; null for a missing text."""

    columns: property = read_only("columns", "The columns of texts.")
    output_columns: property = read_only("output_columns", "The columns that the result goes to.")

    def _place(self, column: str) -> tuple[Callable[[str], int], int]:
        """(the function from a token to its place, -1 for none; the number of places)"""
        raise NotImplementedError

    def _transform_dataset(self, ds: Dataset) -> None:
        check_texts(self, ds, self._columns)

    def _transform_pandas(self, df: pd.DataFrame) -> pd.DataFrame:
        names = zip(self._columns, self._output_columns, strict=True)
        made = {out: self._vectors(df[c]) for c, out in names}
        for out, values in made.items():
            df[out] = values
        return df

    def _vectors(self, values: pd.Series) -> Any:
        import numpy as np

        place, n = self._place(str(values.name))
        cells = np.empty(len(values), object)
        for row, tokens in enumerate(tokens_of(values, self._tokenization_fn)):
            if tokens is not None:
                places = np.fromiter((place(token) for token in tokens), np.int64, len(tokens))
                cells[row] = np.bincount(places[places >= 0], minlength=n).astype(np.int64, copy=False)
        return cells


@SerializablePreprocessor(version=1, identifier="headrace.HashingVectorizer")
class HashingVectorizer(_Vectorizer):
    """Counts the tokens of each text by their hashes: a vector of `num_features` counts. There is nothing to
    fit.

    The hash is the same in every process and version (SHA-256, as in Ray). A missing text becomes null.

    Args:
        columns: the columns of texts.
        num_features: the length of the vectors.
        tokenization_fn: from a text to a list of tokens; None: cuts at each blank.
        output_columns: as many names for the results; None: the results replace the columns.
    """

    _is_fittable = False
    _FIELDS = ("columns", "num_features", "tokenization_fn", "output_columns")
    num_features: int = read_only("num_features", "The length of the vectors.")

    def __init__(
        self,
        columns: list[str],
        num_features: int,
        tokenization_fn: Callable[[str], list[str]] | None = None,
        *,
        output_columns: list[str] | None = None,
    ):
        super().__init__()
        check_number_of_features(self, num_features)
        self._columns = columns
        self._num_features = num_features
        self._tokenization_fn = _checked_function(tokenization_fn)
        self._output_columns = self._derive_and_validate_output_columns(columns, output_columns)

    def _place(self, column: str) -> tuple[Callable[[str], int], int]:
        known: dict[str, int] = {}  # of one batch: texts repeat their tokens

        def place(token: str) -> int:
            found = known.get(token)
            if found is None:
                found = known[token] = simple_hash(token, self._num_features)
            return found

        return place, self._num_features


def check_number_of_features(who: Any, n: Any) -> None:
    if not isinstance(n, int) or isinstance(n, bool) or n < 1:
        raise ValueError(f"{type(who).__name__}: num_features: expected a number of at least 1, found {n!r}")


@SerializablePreprocessor(version=1, identifier="headrace.CountVectorizer")
class CountVectorizer(_Vectorizer):
    """Counts the tokens of each text: a vector with a place for each token of the fit, the most frequent one
    first.

    Tokens that were not in the fit do not count; a missing text becomes null. stats_: `token_counts(x)`, a
    Counter of token -> how often it occurs in all texts; equally frequent tokens come in the order of their
    first occurrence.

    Args:
        columns: the columns of texts.
        tokenization_fn: from a text to a list of tokens; None: cuts at each blank.
        max_features: how many tokens to keep, the most frequent ones; None: all.
        output_columns: as many names for the results; None: the results replace the columns.
    """

    _FIELDS = ("columns", "tokenization_fn", "max_features", "output_columns")
    max_features: int | None = read_only("max_features", "How many tokens to keep.")

    def __init__(
        self,
        columns: list[str],
        tokenization_fn: Callable[[str], list[str]] | None = None,
        max_features: int | None = None,
        *,
        output_columns: list[str] | None = None,
    ):
        super().__init__()
        if max_features is not None:
            check_number_of_features(self, max_features)
        self._columns = columns
        self._tokenization_fn = _checked_function(tokenization_fn)
        self._max_features = max_features
        self._output_columns = self._derive_and_validate_output_columns(columns, output_columns)

    def _fit(self, ds: Dataset) -> CountVectorizer:
        check_texts(self, ds, self._columns)
        self._stat_computation_plan.add_callable_stat(
            stat_fn=lambda name: {name(c): counts for c, counts in self._count(ds).items()},
            stat_key_fn=lambda column: f"token_counts({column})",
            post_process_fn=lambda counts: Counter(dict(counts.most_common(self._max_features))),
            columns=self._columns,
        )
        return self

    def _count(self, ds: Dataset) -> dict[str, Counter]:
        """The tokens of each column, counted by the workers batch by batch."""
        found: dict[str, Counter] = {c: Counter() for c in self._columns}
        counting = _CountTokens(self._columns, self._tokenization_fn)
        counted = ds.select_columns(list(dict.fromkeys(self._columns))).map_batches(
            lambda df: counting(df), batch_format="pandas"
        )
        for row in counted.iter_rows():
            found[row["column"]][row["token"]] += row["count"]
        return found

    def _place(self, column: str) -> tuple[Callable[[str], int], int]:
        counts = self.stats_[f"token_counts({column})"]
        places = {token: i for i, (token, _) in enumerate(counts.most_common())}
        return lambda token: places.get(token, -1), len(places)


class _CountTokens:
    """The tokens of a batch's columns as rows: column, token, count."""

    def __init__(self, columns: list[str], fn: Callable[[str], list[str]]):
        self.columns, self.fn = columns, fn

    def __call__(self, df: pd.DataFrame) -> dict[str, list]:
        rows: dict[str, list] = {"column": [], "token": [], "count": []}
        for column in dict.fromkeys(self.columns):
            counts = Counter(token for tokens in tokens_of(df[column], self.fn) for token in tokens or ())
            rows["column"] += [column] * len(counts)
            rows["token"] += counts.keys()
            rows["count"] += counts.values()
        return rows
