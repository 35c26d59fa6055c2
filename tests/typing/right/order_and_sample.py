"""A program as users write it: checkers find no mistake, and it runs."""

from pathlib import Path

import headrace.data as hd


def main(folder: Path) -> None:
    ds = hd.range(20).random_shuffle(seed=1).sort(["id"], descending=[True]).limit(10)
    assert ds.random_sample(0.5, seed=2).count() <= 10
    train, test = ds.train_test_split(0.2, shuffle=True, seed=3)
    parts: list[hd.Dataset] = ds.split(2, equal=True)
    assert train.count() == 8 and test.count() == 2 and len(parts) == 2
