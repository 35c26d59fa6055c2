"""Tokenizer: texts to lists of tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace.data.preprocessors.utils import (
    BuiltInPreprocessor,
    check_columns,
    read_only,
    simple_split_tokenizer,
)
from headrace.data.preprocessors.version_support import SerializablePreprocessor
from headrace.optional import package

if TYPE_CHECKING:
    import pandas as pd

    from headrace.data.dataset import Dataset


class TokenizingPreprocessor(BuiltInPreprocessor):
    """Base of the classes with a `tokenization_fn`. The text of a preprocessor has null for the default
    function."""

    tokenization_fn: property = read_only("tokenization_fn", "The function from a text to a list of tokens.")
    _tokenization_fn: Callable[[str], list[str]]

    def _get_serializable_fields(self) -> dict[str, Any]:
        fields = super()._get_serializable_fields()
        if self._tokenization_fn is simple_split_tokenizer:
            fields["tokenization_fn"] = None
        return fields

    def _set_serializable_fields(self, fields: dict[str, Any], version: int) -> None:
        super()._set_serializable_fields(fields, version)
        self._tokenization_fn = _checked_function(self._tokenization_fn)

    def __repr__(self) -> str:
        shown = {name: getattr(self, f"_{name}") for name in self._FIELDS}
        name = getattr(self._tokenization_fn, "__name__", self._tokenization_fn)
        parts = [f"{k}={name if k == 'tokenization_fn' else repr(v)}" for k, v in shown.items()]
        return f"{type(self).__name__}({', '.join(parts)})"


def _checked_function(fn: Any) -> Callable[[str], list[str]]:
    if fn is None:
        return simple_split_tokenizer
    if not callable(fn):
        raise TypeError(f"tokenization_fn: expected a function from a text to a list of tokens, found {fn!r}")
    return fn


def check_texts(who: BuiltInPreprocessor, ds: Dataset, columns: list[str]) -> dict[str, str]:
    """The types of the columns; TypeError unless they are texts."""
    types = check_columns(who, ds, columns)
    for c in columns:
        if types.get(c, "null") not in ("string", "large_string", "null"):
            raise TypeError(f"{type(who).__name__}: column {c!r} is {types[c]}, expected texts")
    return types


@SerializablePreprocessor(version=1, identifier="headrace.Tokenizer")
class Tokenizer(TokenizingPreprocessor):
    """A list of tokens for each text; a missing text stays missing. There is nothing to fit.

    Args:
        columns: the columns of texts.
        tokenization_fn: from a text to a list of tokens; None: cuts at each blank, as `str.split(" ")`.
        output_columns: as many names for the results; None: the results replace the columns.
    """

    _is_fittable = False
    _FIELDS = ("columns", "tokenization_fn", "output_columns")

    columns: list[str] = read_only("columns", "The columns of texts.")
    output_columns: list[str] = read_only("output_columns", "The columns that the result goes to.")

    def __init__(
        self,
        columns: list[str],
        tokenization_fn: Callable[[str], list[str]] | None = None,
        output_columns: list[str] | None = None,
    ):
        super().__init__()
        self._columns = columns
        self._tokenization_fn = _checked_function(tokenization_fn)
        self._output_columns = self._derive_and_validate_output_columns(columns, output_columns)

    def _pairs(self):
        return zip(self._columns, self._output_columns, strict=True)

    def _transform_dataset(self, ds: Dataset) -> Dataset | None:
        from headrace.data.expressions import col

        check_texts(self, ds, self._columns)
        if self._tokenization_fn is not simple_split_tokenizer:
            return None
        return ds.with_columns({out: col(c).str.split(" ") for c, out in self._pairs()})

    def _transform_pandas(self, df: pd.DataFrame) -> pd.DataFrame:
        made = {out: tokens_of(df[c], self._tokenization_fn) for c, out in self._pairs()}
        for out, values in made.items():
            df[out] = values
        return df


def tokens_of(values: pd.Series, fn: Callable[[str], list[str]]) -> pd.Series:
    """The tokens of each text, None for a missing one."""
    pd = package("pandas", "preprocessors")
    missing = values.isna().to_numpy()
    tokens = [None if no else list(fn(v)) for v, no in zip(values, missing, strict=True)]
    return pd.Series(tokens, index=values.index, dtype=object)
