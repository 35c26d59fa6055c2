"""A program as users write it: checkers find no mistake, and it runs."""

from pathlib import Path
from typing import Any

import headrace.data as hd


def double(row: dict[str, Any], by: int = 2) -> dict[str, Any]:
    return {"id": row["id"] * by}


def main(folder: Path) -> None:
    ds = hd.range(10).map(double, fn_kwargs={"by": 3}, concurrency=1).map(lambda row: {"id": row["id"] + 1})
    rows: list[dict[str, Any]] = ds.take(2)
    assert rows == [{"id": 1}, {"id": 4}]
