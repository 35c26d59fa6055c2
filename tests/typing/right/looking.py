"""A program as users write it: checkers find no mistake, and it runs."""

from pathlib import Path

import pandas as pd

import headrace.data as hd


def main(folder: Path) -> None:
    ds = hd.range(5).set_name
    ds("numbers")
    data = hd.range(5).materialize()
    schema = data.schema()
    assert schema is not None and schema.names == ["id"] and data.num_blocks() == 1
    summary: pd.DataFrame = data.summary().to_pandas()
    assert len(summary) > 0
    batch = data.take_batch(2, batch_format="pandas")
    assert isinstance(batch, pd.DataFrame)
