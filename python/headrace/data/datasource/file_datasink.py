"""Users' sinks of files: a class says how a row, or a block of rows, becomes the bytes of a file.

Files of a job that fails are removed. With SaveMode.OVERWRITE the old files go when the new ones are there.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from headrace._core import StorageError, UnsupportedError
from headrace.data.arrow_filesystems import arrow_filesystem, path_in
from headrace.data.datasinks import Datasink, FilenameProvider, SaveMode, SinkMode, TaskContext, save_mode
from headrace.data.paths import is_store, is_url, shown
from headrace.optional import package

if TYPE_CHECKING:
    from headrace.data.block_accessor import BlockAccessor


class _FileDatasink(Datasink[None]):
    """Writes files in the folder `path`.

    open_stream_args: of pyarrow's open_output_stream, compression for example. filename_provider gives the
    names of files; without it they have dataset_uuid, the job's identifier and a number, and file_format is
    their suffix. mode: a SaveMode. path: local, of the filesystem, or the URL of a store, where a file
    appears when it is complete; storage_options: how it is reached.
    """

    _job: str
    _old: list[str]
    _written: list[str]
    _skips: bool

    def __init__(
        self,
        path: str,
        *,
        filesystem: Any = None,
        try_create_dir: bool = True,
        open_stream_args: dict[str, Any] | None = None,
        filename_provider: FilenameProvider | None = None,
        dataset_uuid: str | None = None,
        file_format: str | None = None,
        mode: SaveMode | SinkMode | str = SaveMode.APPEND,
        storage_options: dict[str, Any] | None = None,
    ) -> None:
        where = type(self).__name__
        path = os.fspath(path)
        if filesystem is None and is_url(path) and not is_store(path):
            raise UnsupportedError(f"{where}: {shown(path)}: nothing is written to URLs of this kind")
        self.filesystem: Any = arrow_filesystem(where, filesystem, path, storage_options)
        self.path: str = path_in(filesystem, path)
        self.try_create_dir: bool = try_create_dir
        self.open_stream_args: dict[str, Any] = open_stream_args or {}
        self.filename_provider: Any = filename_provider or FilenameProvider(dataset_uuid, file_format)
        self.dataset_uuid: str | None = dataset_uuid
        self.file_format: str | None = file_format
        self.mode: str = save_mode(mode, where)
        self._begin([])

    def _begin(self, old: list[str]) -> None:
        self._job, self._old, self._written, self._skips = uuid.uuid4().hex, old, [], False

    def open_output_stream(self, path: str) -> Any:
        """A pyarrow.NativeFile to write to."""
        return self.filesystem.open_output_stream(path, **self.open_stream_args)

    def _files(self) -> list[str]:
        fs = package("pyarrow.fs", "a sink of files")
        below = fs.FileSelector(self.path, recursive=True, allow_not_found=True)
        return [found.path for found in self.filesystem.get_file_info(below) if found.is_file]

    def _has_folder(self) -> bool:
        return self.filesystem.get_file_info(self.path).type.name == "Directory"

    def _remove(self, paths: Iterable[str]) -> None:
        for path in paths:
            try:
                self.filesystem.delete_file(path)
            except FileNotFoundError:
                pass

    def on_write_start(self, schema: Any = None) -> None:
        """Makes the folder. StorageError: mode is "create" and there are files, or there is no folder and
        try_create_dir is False.
        """
        self._begin(self._files())
        if self._old and self.mode == "create":
            raise StorageError(f'{self.path}: already contains files (mode is "create")')
        self._skips = bool(self._old) and self.mode == "ignore"
        if not self.try_create_dir and not self._has_folder():
            raise StorageError(f"{self.path}: the folder does not exist, and try_create_dir is False")
        self.filesystem.create_dir(self.path, recursive=True)

    def write(self, blocks: Iterable[Any], ctx: TaskContext) -> None:
        """Writes the files of a call; none for a call without rows."""
        from headrace.data.block_accessor import BlockAccessor

        accessors = [a for a in map(BlockAccessor.for_block, blocks) if a.num_rows() and not self._skips]
        for number, accessor in enumerate(accessors):
            self.write_block(accessor, number, ctx)

    def write_block(self, block: BlockAccessor, block_index: int, ctx: TaskContext) -> None:
        raise NotImplementedError

    def _stored(self, name: Any, write: Any, value: Any) -> None:
        """Writes a value in the file of this name."""
        path = f"{self.path.rstrip('/')}/{name}"
        self._written.append(path)
        with self.open_output_stream(path) as file:
            write(value, file)

    def on_write_complete(self, write_result: Any) -> None:
        if self.mode == "overwrite":
            self._remove(set(self._old) - set(self._written))

    def on_write_failed(self, error: Exception) -> None:
        self._remove(set(self._written) - set(self._old))


class RowBasedFileDatasink(_FileDatasink):
    """A Datasink that writes a file for each row: derive from it and define write_row_to_file()."""

    def write_row_to_file(self, row: dict[str, Any], file: Any) -> None:
        """Writes a row, a dict of column -> value, to `file`, a pyarrow.NativeFile."""
        raise NotImplementedError(f"{type(self).__name__}.write_row_to_file")

    def write_block(self, block: BlockAccessor, block_index: int, ctx: TaskContext) -> None:
        name_of = self.filename_provider.get_filename_for_row
        for number, row in enumerate(block.iter_rows()):
            name = name_of(row, self._job, ctx.task_idx, block_index, number)
            self._stored(name, self.write_row_to_file, row)


class BlockBasedFileDatasink(_FileDatasink):
    """A Datasink that writes a file for each block of rows: derive from it and define write_block_to_file().

    min_rows_per_file: rows of each file, but the last one; None: the blocks as the plan gives them, which
    depend on the rows alone. The other arguments are those of RowBasedFileDatasink.
    """

    def __init__(
        self, path: str, *, min_rows_per_file: int | None = None, **file_datasink_kwargs: Any
    ) -> None:
        super().__init__(path, **file_datasink_kwargs)
        self._min_rows_per_file = min_rows_per_file

    def write_block_to_file(self, block: BlockAccessor, file: Any) -> None:
        """Writes a block to `file`, a pyarrow.NativeFile."""
        raise NotImplementedError(f"{type(self).__name__}.write_block_to_file")

    def write_block(self, block: BlockAccessor, block_index: int, ctx: TaskContext) -> None:
        name_of = self.filename_provider.get_filename_for_block
        name = name_of(block.to_arrow(), self._job, ctx.task_idx, block_index)
        self._stored(name, self.write_block_to_file, block)

    @property
    def min_rows_per_write(self) -> int | None:
        return self._min_rows_per_file


__all__ = ["BlockBasedFileDatasink", "RowBasedFileDatasink"]
