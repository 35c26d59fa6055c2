"""A program as users write it: checkers find no mistake, and it runs."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

import headrace.data as hd
from headrace.data import Datasink, WriteResult


class Kept(Datasink):
    def __init__(self) -> None:
        self.rows = 0

    def write(self, blocks: Iterable[pa.Table], ctx: Any) -> int:
        return sum(block.num_rows for block in blocks)

    def on_write_complete(self, write_result: WriteResult) -> None:
        self.rows = sum(write_result.write_returns)


def main(folder: Path) -> None:
    sink = Kept()
    hd.range(5).write_datasink(sink)
    assert sink.rows == 5
