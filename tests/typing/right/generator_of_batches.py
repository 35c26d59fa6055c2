"""A program as users write it: checkers find no mistake, and it runs."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

import headrace.data as hd


def twice(batch: dict[str, np.ndarray]) -> Iterator[dict[str, np.ndarray]]:
    yield batch
    yield batch


def main(folder: Path) -> None:
    assert hd.range(4).map_batches(twice, compute="inline").count() == 8
