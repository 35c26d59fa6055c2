"""Users' sinks of rows, and what all writers share: modes, names of files, results."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from headrace._core import InvalidArgument, TypeMismatchError, UnsupportedError


class SaveMode(enum.StrEnum):
    """What a job does with existing files.

    APPEND: keeps them. CREATE and ERROR: StorageError if there are any. OVERWRITE: removes them once all new
    files are complete. IGNORE: writes nothing if there are any.
    """

    APPEND = "append"
    CREATE = "create"
    ERROR = "error"
    OVERWRITE = "overwrite"
    IGNORE = "ignore"
    UPSERT = "upsert"


class SinkMode(enum.Enum):
    """Ray's older name of ways to write; CREATE, APPEND and OVERWRITE are those of SaveMode."""

    CREATE = enum.auto()
    APPEND = enum.auto()
    OVERWRITE = enum.auto()


class FilenameProvider:
    """Names of files. A subclass defines get_filename_for_task, or one of the two older methods.

    write_uuid is the job's, equal for all its files. For files of many rows task_index is the file's number,
    from 0. For files of one row (images) "_BLOCK_ROW" goes before the suffix of get_filename_for_task's
    name; get_filename_for_row gets the row, a dict, and (task_index, block_index, row_index) identifies it.
    block is None.
    """

    dataset_uuid = file_format = None

    def __init__(self, dataset_uuid: str | None = None, file_format: str | None = None) -> None:
        self.dataset_uuid: str | None = dataset_uuid
        self.file_format: str | None = file_format

    def get_filename_for_task(self, write_uuid: str, task_index: int) -> str:
        """dataset_uuid, write_uuid and the file's number, with file_format as the suffix."""
        head = "" if self.dataset_uuid is None else f"{self.dataset_uuid}_"
        tail = "" if self.file_format is None else f".{self.file_format}"
        return f"{head}{write_uuid}_{task_index:06}{tail}"

    def get_filename_for_block(self, block: Any, write_uuid: str, task_index: int, block_index: int) -> str:
        return self.get_filename_for_task(write_uuid, task_index)

    def get_filename_for_row(
        self, row: dict[str, Any], write_uuid: str, task_index: int, block_index: int, row_index: int
    ) -> str:
        stem, dot, suffix = self.get_filename_for_task(write_uuid, task_index).rpartition(".")
        stem, suffix = (stem, dot + suffix) if dot else (suffix, "")
        return f"{stem}_{block_index:06}_{row_index:06}{suffix}"


def save_mode(mode, where):
    """The engine's word for a mode."""
    if isinstance(mode, SinkMode):
        mode = SaveMode[mode.name]
    if not isinstance(mode, SaveMode):
        if not isinstance(mode, str):
            raise TypeMismatchError(f"{where}: mode: expected a SaveMode, found {type(mode).__name__}")
        try:
            mode = SaveMode(mode.lower())
        except ValueError:
            names = ", ".join(m.value for m in SaveMode)
            raise InvalidArgument(f"{where}: mode: expected one of {names}, found {mode!r}") from None
    if mode is SaveMode.UPSERT:
        raise UnsupportedError(f"{where}: mode upsert needs a table with keys; files have none")
    return "create" if mode is SaveMode.ERROR else mode.value


WriteReturnType = TypeVar("WriteReturnType")  # of Datasink.write()


@dataclass
class WriteResult(Generic[WriteReturnType]):
    """The argument of on_write_complete: totals, and the results of write(), in order."""

    num_rows: int = 0
    size_bytes: int = 0
    write_returns: list[WriteReturnType] = field(default_factory=list)

    @classmethod
    def combine(cls, *wrs: WriteResult[WriteReturnType]) -> WriteResult[WriteReturnType]:
        """The sums of several results, and all of their write_returns."""
        returns = [value for one in wrs for value in one.write_returns]
        return cls(sum(one.num_rows for one in wrs), sum(one.size_bytes for one in wrs), returns)


class TaskContext:
    """The second argument of write(). task_idx: the number of the call, from 0."""

    def __init__(self, task_idx: int) -> None:
        self.task_idx = task_idx


class Datasink(Generic[WriteReturnType]):
    """A user's destination of rows. The run calls write(blocks, ctx) in order, in this process, with an
    iterable of pyarrow Tables, and passes the results to on_write_complete.
    """

    def on_write_start(self, schema: Any = None) -> None:
        pass

    def write(self, blocks: Iterable[Any], ctx: TaskContext) -> WriteReturnType:
        raise NotImplementedError

    def on_write_complete(self, write_result: WriteResult[WriteReturnType]) -> None:
        pass

    def on_write_failed(self, error: Exception) -> None:
        pass

    def get_name(self) -> str:
        return type(self).__name__.lstrip("_").removesuffix("Datasink")

    @property
    def supports_distributed_writes(self) -> bool:
        return True

    @property
    def min_rows_per_write(self) -> int | None:
        """Rows of each call of write(), but the last one; None: the plan's blocks, by the rows alone."""
        return None

    @property
    def min_bytes_per_write(self) -> int | None:
        """Bytes in memory that each call of write() gets at least, but the last one."""
        return None


__all__ = [
    "Datasink",
    "FilenameProvider",
    "SaveMode",
    "SinkMode",
    "TaskContext",
    "WriteResult",
    "WriteReturnType",
    "save_mode",
]
