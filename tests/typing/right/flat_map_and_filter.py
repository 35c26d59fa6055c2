"""A program as users write it: checkers find no mistake, and it runs."""

from pathlib import Path
from typing import Any

import headrace.data as hd


def words(row: dict[str, Any]) -> list[dict[str, str]]:
    return [{"word": w} for w in row["text"].split()]


def main(folder: Path) -> None:
    ds = hd.from_items([{"text": "a b"}, {"text": "c"}]).flat_map(words)
    assert ds.filter(lambda row: row["word"] != "b").count() == 2
