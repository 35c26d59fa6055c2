"""A program as users write it: checkers find no mistake, and it runs."""

from pathlib import Path

import numpy as np

import headrace.data as hd


class Model:
    def __init__(self, weight: float, bias: float = 0.0) -> None:
        self.weight, self.bias = weight, bias

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {"y": batch["id"] * self.weight + self.bias}


def main(folder: Path) -> None:
    ds = hd.range(4).map_batches(
        Model, fn_constructor_args=(2.0,), fn_constructor_kwargs={"bias": 1.0}, concurrency=(1, 2)
    )
    assert [row["y"] for row in ds.iter_rows()] == [1, 3, 5, 7]
