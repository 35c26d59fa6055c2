"""What the engine needs of a filesystem, for those of fsspec and of pyarrow.

    path(path)           the path as the filesystem takes it, of what the user gave
    find(path)           (whether it is a file, iterator of (path below `path`, bytes, version))
    read(path, version, offset, n)    bytes; n None: all of them
    create(path), discard(stream)     a stream to write to; ends one whose file is not wanted
    exists, make_folder, move, remove, remove_empty

A version is a text that changes when the file does, "" where the filesystem knows none.
"""

from __future__ import annotations

import collections
import hashlib
import importlib
import threading
from typing import Any

from headrace._core import InvalidArgument, UnsupportedError

HELD = 64  # files that stay open between two reads
COPY_BYTES = 8 << 20


def adapter_of(filesystem: Any) -> Any:
    """The adapter of an object of fsspec or pyarrow.fs."""
    return (_Arrow if hasattr(filesystem, "open_input_file") else _Fsspec)(filesystem)


class _Held:
    """Open files between reads, the latest ones: opening may cost more than reading."""

    def __init__(self, close):
        self.lock = threading.Lock()
        self.items = collections.OrderedDict()  # key -> files
        self.n = 0
        self.close = close  # of files that go

    def take(self, key, offset):
        """A file of the key, if possible one whose position is `offset`; None: there is none."""
        with self.lock:
            files = self.items.get(key)
            if not files:
                return None
            at = next((i for i, (_, position) in enumerate(files) if position == offset), 0)
            file, _ = files.pop(at)
            self.n -= 1
            if not files:
                del self.items[key]
            return file

    def put(self, key, file, position):
        gone = []
        with self.lock:
            self.items.setdefault(key, []).append((file, position))
            self.items.move_to_end(key)
            self.n += 1
            while self.n > HELD:
                first = next(iter(self.items))
                gone.append(self.items[first].pop(0)[0])
                self.n -= 1
                if not self.items[first]:
                    del self.items[first]
        self.close(gone)

    def clear(self):
        with self.lock:
            gone = [file for files in self.items.values() for file, _ in files]
            self.items.clear()
            self.n = 0
        self.close(gone)


def _forget(files):
    """For files that another thread may be reading: the last reference closes them."""


def _close(files):
    for file in files:
        try:
            file.close()
        except Exception:
            pass  # it was only read


class _Adapter:
    _ends = staticmethod(_close)

    def __init__(self, filesystem):
        self.fs = filesystem
        self.name = type(filesystem).__name__
        self.held = _Held(self._ends)

    def close(self):
        self.held.clear()

    close_idle = close

    def after_fork(self):
        self.held = _Held(self._ends)  # the files are the parent's too: their positions are shared

    def read(self, path, version, offset, n):
        """By open files: a file is read from one thread at a time."""
        key = (path, version)
        file = self.held.take(key, offset) or self._open(path)
        try:
            file.seek(offset)
            out = file.read() if n is None else _exactly(file, n)
        except BaseException:
            _close([file])
            raise
        if n is None:
            _close([file])
        else:
            self.held.put(key, file, offset + len(out))
        return out

    def move(self, path, to):
        """Where the filesystem has no move, by a copy."""
        try:
            self._move(path, to)
        except NotImplementedError:
            with self._open(path) as file, self.create(to) as out:
                while data := file.read(COPY_BYTES):
                    out.write(data)
            self.remove(path)

    def _open(self, path):
        raise NotImplementedError

    def _move(self, path, to):
        raise NotImplementedError


def _exactly(file, n):
    """n bytes, fewer only at the end: a raw file may give fewer at a time."""
    out = file.read(n)
    if len(out) == n or not out:
        return out
    parts = [bytes(out)]
    n -= len(out)
    while n > 0 and (out := file.read(n)):
        parts.append(bytes(out))
        n -= len(out)
    return b"".join(parts)


def _moment(value):
    """A time as seconds: info() and find() of one filesystem may give it in two ways."""
    seconds = getattr(value, "timestamp", None)
    value = seconds() if seconds is not None else value
    return f"{value:.6f}" if isinstance(value, float) else value


def _version(texts):
    """One text for the names and values that tell a file's versions apart."""
    text = "; ".join(f"{name} {_moment(value)}" for name, value in texts)
    if len(text) > 100 or not text.isprintable():
        return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
    return text


# Of the dict that info() gives, the first that is there; a time only where there is no hash or number.
_VERSIONS = ("ETag", "etag", "e_tag", "generation", "VersionId", "md5Hash", "content_md5", "md5", "checksum")
_VERSIONS += ("sha", "crc32c", "CRC", "mtime", "LastModified", "last_modified", "modificationTime", "updated")
_VERSIONS += ("modified", "modify", "created")


class _Fsspec(_Adapter):
    def __init__(self, filesystem):
        super().__init__(filesystem)
        spec = importlib.import_module("fsspec.spec")
        coroutines = importlib.import_module("fsspec.asyn")
        kind = type(filesystem)
        own = getattr(kind, "_cat_file", coroutines.AsyncFileSystem._cat_file)
        self.has_ranges = (
            getattr(kind, "cat_file", None) is not spec.AbstractFileSystem.cat_file
            or own is not coroutines.AsyncFileSystem._cat_file
        )
        self.buffered = spec.AbstractBufferedFile
        self.no_cache = importlib.import_module("fsspec.caching").BaseCache

    def path(self, path):
        scheme, found, rest = path.partition("://")
        if not found:
            return path
        known = self.fs.protocol
        if scheme not in ((known,) if isinstance(known, str) else known):
            raise InvalidArgument(f"{path}: expected a path or a URL of the filesystem")
        path = self.fs._strip_protocol(path)
        return rest if path.startswith(f"{scheme}://") else path  # a class with a protocol of its own alone

    @staticmethod
    def _version_of(info):
        found = next((name for name in _VERSIONS if info.get(name) is not None), None)
        return "" if found is None else _version([(found, info[found])])

    def find(self, path):
        info = self.fs.info(path)
        if info.get("type") != "directory":
            return True, [("", info.get("size"), self._version_of(info))]
        root = info.get("name") or path
        return False, self._below(path, root)

    def _below(self, path, root):
        root = self.fs._strip_protocol(root).rstrip("/")
        for name, info in self.fs.find(path, detail=True).items():
            plain = self.fs._strip_protocol(name)
            if root and not plain.startswith(root + "/"):
                raise UnsupportedError(f"{self.name}: find({path!r}) gives {name!r}, which is not below it")
            below = plain[len(root) :].lstrip("/")
            if info.get("type") != "directory" and below:
                yield below, info.get("size"), self._version_of(info)

    def read(self, path, version, offset, n):
        if not self.has_ranges:
            return super().read(path, version, offset, n)
        return self.fs.cat_file(path, start=offset or None, end=None if n is None else offset + n)

    def _open(self, path):
        file = self.fs.open(path, "rb")
        if isinstance(file, self.buffered) and getattr(file, "size", None) is not None:
            file.cache = self.no_cache(file.blocksize, file._fetch_range, file.size)  # the engine reads ahead
        return file

    def create(self, path):
        return self.fs.open(path, "wb")

    def discard(self, stream):
        if hasattr(stream, "discard"):
            try:
                stream.discard()
                return
            except NotImplementedError:
                pass
        stream.close()

    def exists(self, path):
        return self.fs.exists(path)

    def make_folder(self, path):
        self.fs.makedirs(path, exist_ok=True)

    def _move(self, path, to):
        try:
            self.fs.mv(path, to)
        except NotImplementedError:
            raise
        except Exception:  # some do not replace
            if not self.fs.exists(to) or not self.fs.exists(path):
                raise
            self.fs.rm_file(to)
            self.fs.mv(path, to)

    def remove(self, path):
        if hasattr(self.fs, "rm_file"):
            try:
                self.fs.rm_file(path)
                return
            except NotImplementedError:
                pass
        self.fs.rm(path)

    def remove_empty(self, path):
        """False: it has files."""
        if self.fs.ls(path, detail=False):
            return False
        self.fs.rmdir(path)
        return True


class _Arrow(_Adapter):
    """pyarrow.fs. Its files are read by many threads at once."""

    _ends = staticmethod(_forget)

    def __init__(self, filesystem):
        super().__init__(filesystem)
        self.arrow = importlib.import_module("pyarrow.fs")
        handler = getattr(filesystem, "handler", None)
        if handler is not None:
            self.name = type(handler).__name__

    def path(self, path):
        return self.fs.normalize_path(path.partition("://")[2] if "://" in path else path)

    @staticmethod
    def _version_of(info):
        return _version([("mtime", info.mtime_ns)]) if info.mtime_ns else ""

    def _info(self, path):
        return self.fs.get_file_info([path])[0]

    def find(self, path):
        info, types = self._info(path), self.arrow.FileType
        if info.type == types.NotFound:
            raise FileNotFoundError(path)
        if info.type != types.Directory:
            return True, [("", info.size, self._version_of(info))]
        return False, self._below(path, types)

    def _below(self, path, types):
        n = len(path.rstrip("/")) + 1 if path.strip("/") else len(path)
        for info in self.fs.get_file_info(self.arrow.FileSelector(path, recursive=True)):
            if info.type not in (types.Directory, types.NotFound):
                yield info.path[n:].lstrip("/"), info.size, self._version_of(info)

    def read(self, path, version, offset, n):
        key = (path, version)
        file = self.held.take(key, 0) or self.fs.open_input_file(path)
        self.held.put(key, file, 0)  # for the other threads
        return file.read_at(file.size() if n is None else n, offset)

    def _open(self, path):
        return self.fs.open_input_file(path)

    def create(self, path):
        return self.fs.open_output_stream(path)

    def discard(self, stream):
        stream.close()

    def exists(self, path):
        return self._info(path).type != self.arrow.FileType.NotFound

    def make_folder(self, path):
        self.fs.create_dir(path, recursive=True)

    def _move(self, path, to):
        self.fs.move(path, to)

    def remove(self, path):
        self.fs.delete_file(path)

    def remove_empty(self, path):
        """False: it has files."""
        if self.fs.get_file_info(self.arrow.FileSelector(path)):
            return False
        self.fs.delete_dir(path)
        return True
