"""A program as users write it: checkers find no mistake, and it runs."""

from pathlib import Path

import headrace.data as hd


def main(folder: Path) -> None:
    left = hd.range(5).rename_columns({"id": "k"})
    right = hd.from_items([{"k": 1, "v": "a"}])
    assert left.join(right, "inner", on="k", right_on=["k"]).count() == 1
    assert left.union(left, left).count() == 15
    assert left.zip(hd.range(5)).columns() == ["k", "id"]
