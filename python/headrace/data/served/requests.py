"""What a thread does for each request of the engine: src/io/http/served/served_kind.c has the methods.

A file that is written is a hidden file beside the place of its name until the engine moves it there.
"""

import random
import tempfile
import threading
import time

from headrace import _core
from headrace._core import DataError, HeadraceError, NotFoundError, UnsupportedError
from headrace.udf import errors

TRIES = 4  # of reading: the connection of a filesystem may break
PAUSE_S = 0.1  # before the second try; then twice as long each time
_PASSING = (ConnectionError, TimeoutError)


class Mismatch(Exception):
    """A condition does not hold: somebody else has written."""


_STATUS = (
    (NotFoundError, "not found"),
    (FileNotFoundError, "not found"),
    (NotADirectoryError, "not found"),
    (Mismatch, "mismatch"),
    (DataError, "bad data"),
    (UnsupportedError, "unsupported"),
    (NotImplementedError, "unsupported"),
)


class _File:
    """A file that is being written, part by part. Parts that come early wait in a local file."""

    def __init__(self, path, temporary):
        self.path, self.temporary = path, temporary
        self.lock = threading.Lock()
        self.stream, self.next, self.early, self.spool = None, 1, {}, None
        self.opened = self.named = self.dropped = False

    def close_spool(self):
        if self.spool is not None:
            self.spool.close()
            self.spool = None


class Server:
    """Answers the requests for one filesystem."""

    def __init__(self, adapter):
        self.adapter = adapter
        self.lock = threading.Lock()
        self.files = {}  # id -> _File
        self.folders = set()  # that are there
        self.made = set()  # of these, those that were made for files without names yet

    def close(self):
        self.adapter.close()

    def after_fork(self):
        self.lock = threading.Lock()
        self.files = {}
        self.adapter.after_fork()

    def answer(self, job, number, method, path, query, tag, lines, offset, n, size, data, n_waiting):
        try:
            out, version = getattr(self, f"_{method.lower()}")(path, query, tag, lines, offset, n, size, data)
        except BaseException as e:
            _core.served_refuse(job, *self._failure(e))
        else:
            _core.served_answer(job, out, version)

    def _failure(self, e):
        status = next((name for kind, name in _STATUS if isinstance(e, kind)), "io")
        line, detail = errors.pack(e)
        if status == "not found":
            return status, f"no such file or folder in {self.adapter.name}", detail
        if isinstance(e, (HeadraceError, Mismatch)):
            return status, _text(str(e)), None
        return status, _text(f"{self.adapter.name}: {line}"), detail

    # -------------------------------------------------------------------------------------------- reading

    def _again(self, work):
        """What work() returns; a connection that breaks is tried again."""
        for i in range(TRIES):
            try:
                return work()
            except _PASSING:
                if i == TRIES - 1:
                    raise
                time.sleep(PAUSE_S * 2**i * random.uniform(0.5, 1))

    def _find(self, path, *_):
        def work():
            is_file, found = self.adapter.find(path)
            return is_file, list(found)

        is_file, found = self._again(work)
        out = [b"F" if is_file else b"D"]
        for name, size, version in found:
            if size is None:
                raise UnsupportedError(f"{name}: {self.adapter.name} does not say how many bytes it has")
            out += [name.encode("utf-8", "surrogateescape"), str(size).encode(), version.encode()]
        return b"\0".join(out) + b"\0", None

    def _get(self, path, query, tag, lines, offset, n, size, data):
        if n == 0:
            return self._again(lambda: self.adapter.read(path, None, 0, None)), None
        out = self._again(lambda: self.adapter.read(path, tag, offset, n))
        if tag and offset + n >= size:
            self._check_version(path, tag, size)
        return out, None

    def _check_version(self, path, tag, size):
        """After the end of a file was read: it is still the one that was listed."""
        _, ((_, found, version),) = self._again(lambda: self._one(path))
        if version != tag or found != size:
            raise DataError(
                f"the file was replaced while it was read: it has {found} bytes and the version {version!r}, "
                f"{size} and {tag!r} when it was listed"
            )

    def _one(self, path):
        is_file, found = self.adapter.find(path)
        if not is_file:
            raise FileNotFoundError(path)
        return is_file, list(found)

    # -------------------------------------------------------------------------------------------- writing

    def _put(self, path, query, tag, lines, offset, n, size, data):
        if query.startswith("part="):
            name, _, number = query[5:].rpartition(".")
            self._part(self._file(name, path), int(number), data)
            return b"", None
        if lines and lines.startswith("If-None-Match") and self.adapter.exists(path):
            raise Mismatch("somebody else has written it meanwhile")
        if lines and lines.startswith("If-Match: "):
            self._check_match(path, lines.removeprefix("If-Match: ").strip())
        file = _File(path, self._temporary(path, f"{random.getrandbits(64):016x}"))
        self._part(file, 1, data)
        self._complete(file)
        self._name(file)
        return b"", self._one(path)[1][0][2]

    def _check_match(self, path, version):
        try:
            found = self._one(path)[1][0][2]
        except FileNotFoundError:
            found = None
        if found != version:
            raise Mismatch("somebody else has written or removed it meanwhile")

    @staticmethod
    def _temporary(path, name):
        folder, slash, last = path.rpartition("/")
        return f"{folder}{slash}.{last}.{name}.part"

    def _file(self, name, path):
        with self.lock:
            if name not in self.files:
                self.files[name] = _File(path, self._temporary(path, name))
            return self.files[name]

    def _part(self, file, number, data):
        with file.lock:
            if file.dropped:
                raise DataError("the file was given up")
            if number != file.next:
                file.spool = file.spool or tempfile.TemporaryFile(prefix="headrace-")
                file.early[number] = (file.spool.seek(0, 2), len(data))
                file.spool.write(data)
                return
            self._write(file, data)
            while file.next in file.early:
                begin, size = file.early.pop(file.next)
                file.spool.seek(begin)
                self._write(file, file.spool.read(size))

    def _write(self, file, data):
        self._open(file)
        file.stream.write(data)
        file.next += 1

    def _open(self, file):
        if file.stream is None:
            self._make_folder(file.path.rpartition("/")[0])
            file.opened = True
            file.stream = self.adapter.create(file.temporary)

    def _make_folder(self, folder):
        missing = []
        with self.lock:
            while folder and folder not in self.folders and not self.adapter.exists(folder):
                missing.append(folder)
                folder = folder.rpartition("/")[0]
            if missing:
                self.adapter.make_folder(missing[0])
            self.folders.update(missing, [folder])
            self.made.update(missing)

    def _complete(self, file):
        with file.lock:
            if file.early:
                raise DataError(f"part {file.next} is missing")
            self._open(file)
            file.close_spool()
            stream, file.stream = file.stream, None
            stream.close()

    def _name(self, file):
        self.adapter.move(file.temporary, file.path)
        file.named = True
        with self.lock:
            folder = file.path.rpartition("/")[0]
            while folder in self.made:
                self.made.discard(folder)
                folder = folder.rpartition("/")[0]

    def _post(self, path, query, *_):
        self._complete(self._file(query.removeprefix("end="), path))
        return b"", None

    def _move(self, path, query, *_):
        name, _, only_new = query.removeprefix("id=").partition("&")
        file = self._file(name, path)
        if only_new and self.adapter.exists(path):
            raise FileExistsError(f"{path}: the file exists already, and the mode forbids replacing it")
        self._name(file)
        with self.lock:
            del self.files[name]
        return b"", None

    def _delete(self, path, query, *_):
        if query:
            self._throw_away(self._file(query.removeprefix("id="), path))
            return b"", None
        self.adapter.remove(path)
        return b"", None

    def _throw_away(self, file):
        """Never fails: what stays is hidden. The file stays in `files`: one of its parts, which nobody waits
        for, may still come.
        """
        with file.lock:
            file.dropped = True
            file.close_spool()
            stream, file.stream = file.stream, None
            if stream is not None:
                _quietly(lambda: self.adapter.discard(stream))
            if file.opened and not file.named:
                _quietly(lambda: self.adapter.remove(file.temporary))
        with self.lock:
            for folder in sorted(self.made, key=len, reverse=True):
                if _quietly(lambda folder=folder: self.adapter.remove_empty(folder)):
                    self.made.discard(folder)
                    self.folders.discard(folder)


def _quietly(work):
    """Whether it did not fail."""
    try:
        return work() is not False
    except Exception:
        return False


def _text(text):
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\\0")
