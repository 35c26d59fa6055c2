"""A program as users write it: checkers find no mistake, and it runs."""

from pathlib import Path

import numpy as np

import headrace.data as hd
from headrace.data.expressions import col


def first(group: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: values[:1] for name, values in group.items()}


def main(folder: Path) -> None:
    ds = hd.range(10).with_column("k", col("id") % 3)
    assert ds.groupby("k").map_groups(first, batch_format="numpy").count() == 3
