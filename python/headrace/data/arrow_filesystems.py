"""The filesystem of pyarrow for users' classes that read or write files themselves: FileBasedDatasource,
RowBasedFileDatasink, BlockBasedFileDatasink.

A filesystem that the user gives is passed on; one of fsspec is wrapped. A URL without a filesystem gets one
that reads and writes whole objects through the engine: its credentials, retries and errors.

Tests: tests/python/test_user_files.py
"""

from __future__ import annotations

import io
import os
import tempfile
from typing import Any

from headrace._core import UnsupportedError
from headrace.data.filesystems import is_of_pyarrow
from headrace.data.paths import is_store, is_url, shown
from headrace.optional import package


def arrow_filesystem(where: str, filesystem: Any, path: str, storage_options: Any = None) -> Any:
    """The filesystem of pyarrow for a path or URL."""
    fs = package("pyarrow.fs", where)
    if filesystem is not None:
        return (
            filesystem if is_of_pyarrow(where, filesystem) else fs.PyFileSystem(fs.FSSpecHandler(filesystem))
        )
    if is_url(path):
        return fs.PyFileSystem(_handler(fs)(storage_options))
    if "://" in path and not path.startswith("file://"):
        raise UnsupportedError(
            f"{where}: {shown(path)}: expected a local path or a URL that headrace reaches, or filesystem="
        )
    return fs.LocalFileSystem()


def path_in(filesystem: Any, path: str) -> str:
    """The path that the filesystem takes, of one that the engine has listed."""
    scheme, found, rest = path.partition("://")
    if not found or filesystem is None or scheme in ("http", "https"):
        return path.removeprefix("file://")
    return rest


def _handler(fs):
    """The class, which needs pyarrow."""

    class Engine(fs.FileSystemHandler):
        """Objects of stores, by their URLs, through the engine."""

        def __init__(self, options):
            self.options = options

        def __eq__(self, other):
            return type(other).__name__ == "Engine" and self.options == other.options

        def __ne__(self, other):
            return not self == other

        def __reduce__(self):
            return _of_options, (self.options,)

        def _at(self, path):
            from headrace import places

            return places.StorePath(path, places.Options(self.options or {}))

        def get_type_name(self):
            return "headrace"

        def normalize_path(self, path):
            return path

        def get_file_info(self, paths):
            lists: dict[str, dict[str, int]] = {}
            return [self._info(path.rstrip("/"), lists) for path in paths]

        def _info(self, path, lists):
            """From the list of the folder, which is read once."""
            if not is_store(path):
                return fs.FileInfo(path, fs.FileType.File)
            folder, _, name = path.rpartition("/")
            if folder not in lists:
                lists[folder] = dict(self._at(folder).below())
            if name in lists[folder]:
                return fs.FileInfo(path, fs.FileType.File, size=lists[folder][name])
            has = any(below.startswith(f"{name}/") for below in lists[folder])
            return fs.FileInfo(path, fs.FileType.Directory if has else fs.FileType.NotFound)

        def get_file_info_selector(self, selector):
            base = selector.base_dir.rstrip("/")
            return [
                fs.FileInfo(f"{base}/{name}", fs.FileType.File, size=size)
                for name, size in self._at(base).below()
            ]

        def create_dir(self, path, recursive):
            """Stores have no folders."""

        def delete_file(self, path):
            self._at(path).remove()

        def open_input_file(self, path):
            pa = package("pyarrow", "a URL")
            if is_store(path):
                return pa.BufferReader(self._at(path).read_bytes())
            from headrace import _core
            from headrace.data.paths import storage_texts

            return pa.BufferReader(_core.object_read(path, storage_texts("a URL", self.options) or [])[0])

        def open_input_stream(self, path):
            return self.open_input_file(path)

        def open_output_stream(self, path, metadata):
            if not is_store(path):
                raise UnsupportedError(f"{path}: nothing is written to URLs of this kind")
            return package("pyarrow", "a URL").PythonFile(_Upload(self._at(path)), mode="w")

        def open_append_stream(self, path, metadata):
            raise UnsupportedError(f"{path}: an object of a store cannot grow")

        def copy_file(self, src, dest):
            self._at(dest).write(self._at(src).read_bytes())

        def move(self, src, dest):
            self.copy_file(src, dest)
            self._at(src).remove()

        def delete_dir(self, path):
            self._at(path).remove()

        def delete_dir_contents(self, path, missing_dir_ok=False):
            self._at(path).remove()

        def delete_root_dir_contents(self):
            raise UnsupportedError("a whole store is not emptied")

    return Engine


def _of_options(options):
    return _handler(package("pyarrow.fs", "a URL"))(options)


class _Upload(io.RawIOBase):
    """A local file that becomes the object when it is closed."""

    def __init__(self, to):
        self.to = to
        self.folder = tempfile.TemporaryDirectory(prefix="headrace-upload-")
        self.file = open(os.path.join(self.folder.name, to.name), "wb")  # noqa: SIM115 - closed below

    def writable(self):
        return True

    def write(self, data):
        return self.file.write(data)

    def tell(self):
        return self.file.tell()

    def close(self):
        if self.closed:
            return
        super().close()
        self.file.close()
        try:
            self.to.parent.upload(self.folder.name, [self.to.name])
        finally:
            self.folder.cleanup()
