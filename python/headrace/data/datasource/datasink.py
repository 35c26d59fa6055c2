"""Ray's module of users' sinks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from headrace import absent
from headrace.data.datasinks import Datasink, TaskContext, WriteResult


class DummyOutputDatasink(Datasink[None]):
    """A sink that drops the rows and counts them: to measure a pipeline, or to test what writes.

    num_ok, num_failed: jobs that ended, and that failed. rows_written: rows of all jobs. enabled: False makes
    write() raise ValueError.
    """

    def __init__(self) -> None:
        self.num_ok: int = 0
        self.num_failed: int = 0
        self.rows_written: int = 0
        self.enabled: bool = True

    def write(self, blocks: Iterable[Any], ctx: TaskContext) -> None:
        if not self.enabled:
            raise ValueError("disabled")
        self.rows_written += sum(block.num_rows for block in blocks)

    def on_write_complete(self, write_result: WriteResult[None]) -> None:
        self.num_ok += 1

    def on_write_failed(self, error: Exception) -> None:
        self.num_failed += 1


if not TYPE_CHECKING:
    __getattr__ = absent.hook("headrace.data.datasource.datasink", "headrace.data.datasource")

__all__ = ["Datasink", "DummyOutputDatasink", "WriteResult"]
