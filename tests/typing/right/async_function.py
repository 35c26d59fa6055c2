"""A program as users write it: checkers find no mistake, and it runs."""

from pathlib import Path
from typing import Any

import headrace.data as hd


async def ask(row: dict[str, Any]) -> dict[str, Any]:
    return {"answer": row["id"] + 1}


def main(folder: Path) -> None:
    assert hd.range(3).map(ask).take_all() == [{"answer": 1}, {"answer": 2}, {"answer": 3}]
