"""BlockMetadata: what is known of a block of rows."""

from __future__ import annotations

from typing import Any


class BlockMetadata:
    """What a source knows of a task's rows before the task runs; None: unknown."""

    def __init__(
        self,
        num_rows: int | None = None,
        size_bytes: int | None = None,
        exec_stats: Any = None,
        task_exec_stats: Any = None,
        input_files: list[str] | None = None,
        schema: Any = None,
    ) -> None:
        self.num_rows = num_rows
        self.size_bytes = size_bytes
        self.input_files: list[str] = list(input_files or ())
        self.exec_stats = exec_stats
        self.task_exec_stats = task_exec_stats
        self.schema = schema
