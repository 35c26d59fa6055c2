"""A program as users write it: checkers find no mistake, and it runs."""

from pathlib import Path

import headrace.data as hd
from headrace.data.expressions import col


def main(folder: Path) -> None:
    hd.range(100).write_parquet(folder / "in", mode="overwrite")
    ds = hd.read_parquet(folder / "in", columns=["id"], filter=col("id") > 10, include_paths=False)
    n: int = ds.filter(expr="id < 50").count()
    assert n == 39
