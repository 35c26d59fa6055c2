"""A program as users write it: checkers find no mistake, and it runs."""

from pathlib import Path

import numpy as np

import headrace.data as hd


def halve(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {"x": batch["id"] / 2}


def main(folder: Path) -> None:
    ds = hd.range(8).map_batches(halve, batch_size=4, compute="threads")
    for batch in ds.iter_batches(batch_size=8):
        x: np.ndarray = batch["x"]
        assert x.sum() == 14
