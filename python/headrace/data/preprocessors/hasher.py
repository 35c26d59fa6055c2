"""FeatureHasher: columns of token counts as one vector of fixed length."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.data.preprocessors.utils import BuiltInPreprocessor, check_numbers, read_only, simple_hash
from headrace.data.preprocessors.vectorizer import check_number_of_features
from headrace.data.preprocessors.version_support import SerializablePreprocessor

if TYPE_CHECKING:
    import pandas as pd

    from headrace.data.dataset import Dataset


@SerializablePreprocessor(version=1, identifier="headrace.FeatureHasher")
class FeatureHasher(BuiltInPreprocessor):
    """A vector of `num_features` sums: each column counts a token, and its numbers go to the place that the
    hash of the column's name gives. There is nothing to fit. A missing number makes its place NaN.

    Args:
        columns: the columns of counts; they stay.
        num_features: the length of the vectors.
        output_column: the column of vectors.
    """

    _is_fittable = False
    _FIELDS = ("columns", "num_features", "output_column")

    columns: list[str] = read_only("columns", "The columns of counts.")
    num_features: int = read_only("num_features", "The length of the vectors.")
    output_column: str = read_only("output_column", "The column of vectors.")

    def __init__(self, columns: list[str], num_features: int, output_column: str):
        super().__init__()
        self._derive_and_validate_output_columns(columns, None)
        check_number_of_features(self, num_features)
        self._columns = columns
        self._num_features = num_features
        self._output_column = output_column

    def _transform_dataset(self, ds: Dataset) -> None:
        check_numbers(self, ds, self._columns)

    def _transform_pandas(self, df: pd.DataFrame) -> pd.DataFrame:
        import numpy as np

        columns = [
            df[c].to_numpy(np.float64, na_value=np.nan) if df[c].isna().any() else df[c].to_numpy()
            for c in self._columns
        ]
        made = np.zeros((len(df), self._num_features), np.result_type(np.int64, *(c.dtype for c in columns)))
        for name, values in zip(self._columns, columns, strict=True):
            made[:, simple_hash(name, self._num_features)] += values
        cells = np.empty(len(df), object)
        for row in range(len(df)):
            cells[row] = made[row]
        df[self._output_column] = cells
        return df

    def get_input_columns(self) -> list[str]:
        return self._columns

    def get_output_columns(self) -> list[str]:
        return [self._output_column]
