"""A program as users write it: checkers find no mistake, and it runs."""

from pathlib import Path
from typing import Any

import headrace.data as hd
from headrace.data.aggregate import AggregateFn


def add(a: int, row: dict[str, Any]) -> int:
    return a + row["id"]


def main(folder: Path) -> None:
    total = AggregateFn(init=lambda key: 0, accumulate_row=add, merge=lambda a, b: a + b, name="total")
    assert hd.range(4).aggregate(total) == {"total": 6}
