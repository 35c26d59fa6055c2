"""Files of URLs for other packages that read ranges of them: through the engine, with its cache, credentials,
retries and errors.

Who opens a file asks for its version; reads take the bytes from the folder of cache= if that has them.

Tests: tests/python/test_table_stores.py
"""

from __future__ import annotations

import io
import os
from typing import Any

from headrace import _core
from headrace._core import NotFoundError, UnsupportedError
from headrace.data.paths import is_url, shown, storage_texts, with_cache
from headrace.optional import package


def cached_texts(where: str, url: str, storage_options: Any, cache: Any) -> list[str] | None:
    """The engine's texts of storage options, if what is read from the URL is kept in a folder: that of the
    argument cache, of the options, or of HEADRACE_CACHE_DIR. None: the package that knows the format reads.
    """
    is_cached = cached_folder(where, storage_options, cache)
    if not is_url(url):
        if cache and "://" in url and not url.startswith("file://"):
            raise UnsupportedError(f"{where}: cache: headrace does not read {shown(url)}; leave it out")
        return None
    if not is_cached:
        return None
    return with_cache(where, storage_texts(where, storage_options), cache)


def cached_folder(where: str, storage_options: Any, cache: Any) -> bool:
    """Whether there is a folder to keep bytes in."""
    with_cache(where, None, cache)
    if cache is not None:
        return cache is not False
    given = {name.lower(): value for name, value in (storage_options or {}).items()}
    if given.get("cache_dir") is not None:
        return bool(given["cache_dir"])
    return bool(os.environ.get("HEADRACE_CACHE_DIR"))


class RangedFile(io.RawIOBase):
    """An object that is read by ranges. It is one version of it: DataError, if it is replaced meanwhile."""

    def __init__(self, url: str, texts: list[str]):
        super().__init__()
        self._at = 0
        self._object, self._n_bytes, _ = _core.object_open(url, texts)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def size(self) -> int:
        return self._n_bytes

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._n_bytes}[whence]
        self._at = max(0, start + offset)
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        left = max(0, self._n_bytes - self._at)
        n = left if size is None or size < 0 else min(size, left)
        if not n:
            return b""
        data = _core.object_range(self._object, self._at, n)
        self._at += len(data)
        return data

    def readall(self) -> bytes:
        return self.read()

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def ranged_filesystem(where: str, base: str, texts: list[str]) -> Any:
    """A filesystem of pyarrow: its paths are URLs, or names below the URL `base`. It only reads."""
    fs = package("pyarrow.fs", where)
    return fs.PyFileSystem(_handler(fs)(base, texts))


def _of_parts(base, texts):
    return _handler(package("pyarrow.fs", "a URL"))(base, texts)


def _handler(fs):
    """The class, which needs pyarrow."""

    class Ranged(fs.FileSystemHandler):
        """Objects below a URL, through the engine."""

        def __init__(self, base, texts):
            self.base, self.texts = base.rstrip("/"), texts

        def __eq__(self, other):
            same = type(other).__name__ == "Ranged"
            return same and (self.base, self.texts) == (other.base, other.texts)

        def __ne__(self, other):
            return not self == other

        def __reduce__(self):
            return _of_parts, (self.base, self.texts)

        def _url(self, path):
            return path if "://" in path or not self.base else f"{self.base}/{path.lstrip('/')}"

        def get_type_name(self):
            return "headrace-ranged"

        def normalize_path(self, path):
            return path

        def get_file_info(self, paths):
            return [self._info(path) for path in paths]

        def _info(self, path):
            try:
                _, size, _ = _core.object_open(self._url(path), self.texts)
            except NotFoundError:
                return fs.FileInfo(path, fs.FileType.NotFound)
            return fs.FileInfo(path, fs.FileType.File, size=size)

        def open_input_file(self, path):
            pa = package("pyarrow", "a URL")
            return pa.PythonFile(RangedFile(self._url(path), self.texts), mode="r")

        def open_input_stream(self, path):
            return self.open_input_file(path)

        def _refuse(self, *args, **kwargs):
            raise UnsupportedError("this filesystem only reads files")

        get_file_info_selector = create_dir = delete_file = open_output_stream = _refuse
        open_append_stream = copy_file = move = delete_dir = delete_dir_contents = _refuse
        delete_root_dir_contents = _refuse

    return Ranged
