"""FileBasedDatasource: a user's class reads the stream of a file; the engine lists the files."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal

from headrace._core import InvalidArgument, TypeMismatchError
from headrace.data.arrow_filesystems import arrow_filesystem, path_in
from headrace.data.datasource.datasource import BlockMetadata, Datasource, ReadTask
from headrace.data.datasource.partitioning import FileShuffleConfig, Partitioning, PathPartitionParser

if TYPE_CHECKING:
    from headrace.data.annotations import Paths


class FileBasedDatasource(Datasource):
    """A source of files: derive from it and define `_read_stream(file, path)`, which yields blocks.

    `file` is a pyarrow.NativeFile, whose bytes are decompressed if the path ends in .gz, .zst, .bz2 or .lz4,
    or open_stream_args has a compression. The arguments are those of every reader of files; file_extensions
    None: those of the class in `_FILE_EXTENSIONS`, else all files. schema has no effect. The files come in
    the order of every reader, and each task reads some of them. A file of a URL is in memory while it is
    read; storage_options: how it is reached.
    """

    _FILE_EXTENSIONS: str | list[str] | None = None

    def __init__(
        self,
        paths: Paths,
        *,
        filesystem: Any = None,
        schema: Any = None,
        open_stream_args: dict[str, Any] | None = None,
        meta_provider: Any = None,
        partition_filter: Any = None,
        partitioning: Partitioning | str | None = None,
        ignore_missing_paths: bool = False,
        shuffle: Literal["files"] | FileShuffleConfig | None = None,
        include_paths: bool = False,
        file_extensions: str | list[str] | None = None,
        storage_options: dict[str, Any] | None = None,
    ) -> None:
        from headrace.data.files import read_files

        if meta_provider is not None:
            raise InvalidArgument(
                f"{type(self).__name__}: meta_provider: the engine lists files itself; leave it out"
            )
        listing = read_files(
            type(self).__name__,
            "binary",
            paths,
            filesystem=filesystem,
            partition_filter=partition_filter,
            partitioning=None,
            ignore_missing_paths=ignore_missing_paths,
            shuffle=shuffle,
            file_extensions=file_extensions or self._FILE_EXTENSIONS,
            storage_options=storage_options,
        )
        if isinstance(partitioning, str):
            partitioning = Partitioning(partitioning)
        self._files: list[str] = [path_in(filesystem, path) for path in listing.input_files()]
        first = self._files[0] if self._files else ""
        self._filesystem = arrow_filesystem(type(self).__name__, filesystem, first, storage_options)
        self._open_stream_args: dict[str, Any] = open_stream_args or {}
        self._partitioning = partitioning
        self._include_paths = include_paths

    def _paths(self) -> list[str]:
        """The paths of all files, in order."""
        return list(self._files)

    def estimate_inmemory_data_size(self) -> int | None:
        """Bytes of all files."""
        sizes = [found.size for found in self._filesystem.get_file_info(self._files)]
        return None if None in sizes else sum(sizes)

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
    ) -> list[ReadTask]:
        n = max(1, min(parallelism, len(self._files)))
        ends = [len(self._files) * i // n for i in range(n + 1)]
        parts = [self._files[begin:end] for begin, end in zip(ends, ends[1:], strict=False)]
        return [
            ReadTask(functools.partial(self._read_files, part), BlockMetadata(input_files=part))
            for part in parts
        ]

    def resolve_compression(self, path: str, open_args: dict[str, Any]) -> str | None:
        """The codec in open_args, else the one that the path's suffix names, or None."""
        return open_args.get("compression") or _CODECS.get(os.path.splitext(path)[1])

    def _open_input_source(self, filesystem: Any, path: str, **open_args: Any) -> Any:
        """The stream that _read_stream() gets."""
        args = {**open_args, "compression": self.resolve_compression(path, open_args)}
        return filesystem.open_input_stream(path, **args)

    def _read_stream(self, f: Any, path: str) -> Iterator[Any]:
        """Yields the blocks of a file."""
        raise NotImplementedError(f"{type(self).__name__}._read_stream")

    def _read_files(self, paths: Iterable[str]) -> Iterator[Any]:
        for path in paths:
            more = self._columns_of_file(path)
            with self._open_input_source(self._filesystem, path, **self._open_stream_args) as file:
                for block in self._read_stream(file, path):
                    yield _with_columns(block, more) if more else block

    def _columns_of_file(self, path):
        """Column -> its value in all rows of a file."""
        more: dict[str, Any] = {}
        if self._partitioning is not None:
            more |= PathPartitionParser(self._partitioning)(path)
        return more | {"path": path} if self._include_paths else more


_CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4", ".br": "brotli"}


def _with_columns(block, more):
    from headrace.data.block_accessor import BlockAccessor

    rows = BlockAccessor.for_block(block)
    if twice := [name for name in more if name in rows.schema().names]:
        raise TypeMismatchError(f"_read_stream: has the column '{twice[0]}', as the file's folder or path")
    table, n = rows.to_arrow(), rows.num_rows()
    for name, value in more.items():
        table = BlockAccessor.for_block(table).upsert_column(name, [value] * n)
    return table


__all__ = ["FileBasedDatasource", "FileShuffleConfig"]
