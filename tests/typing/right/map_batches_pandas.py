"""A program as users write it: checkers find no mistake, and it runs."""

from pathlib import Path

import pandas as pd

import headrace.data as hd


def add(df: pd.DataFrame) -> pd.DataFrame:
    df["y"] = df["id"] + 1
    return df


def main(folder: Path) -> None:
    ds = hd.range(8).map_batches(add, batch_format="pandas", zero_copy_batch=False)
    df: pd.DataFrame = ds.to_pandas()
    assert list(df.columns) == ["id", "y"]
