"""download(): the bytes of the files and URLs that a column names.

A call gets CALL_ROWS rows. The engine's network asks for all of its URLs at the same time; THREADS calls are
under way at once, and their results leave in the order of the rows. Local paths are read one by one.

What calls hold until the engine has their results is within a quarter of the memory limit: a call of large
objects begins when others have ended. One call is always under way, since nobody knows the size of an object
before.

URLs in data are not the user's words. So a URL of a private address, a path of this machine and an unknown
scheme are errors unless they are allowed, whatever on_error says.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote

from headrace import _core, lazy_module
from headrace._core import HeadraceError, InvalidArgument, TypeMismatchError, UnsupportedError
from headrace.data.execution_options import bytes_of
from headrace.data.filesystems import place, places
from headrace.data.function_expressions import called
from headrace.data.paths import STORE_SCHEMES, shown
from headrace.exceptions import DataError, NotFoundError
from headrace.optional import package

if TYPE_CHECKING:
    from headrace.data.expressions import Expr

served = lazy_module("headrace.data.served")

CALL_ROWS = 4  # few, so that little memory holds them
THREADS = 16
MOST_BYTES = 2**62
STORES = ("http", "https", "s3", "gs", "az")
URL_SCHEMES = (*STORES, *STORE_SCHEMES)
SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")

ROOM = 4  # the part of the memory limit that calls may hold together
COPIES = 2  # an object is in memory twice, while its call makes a column


class Room:
    """Lets calls begin, in all threads of the process, as long as there is room for their bytes: by the sizes
    of the objects before. Until the first call has ended, it is alone.
    """

    def __init__(self):
        self.changed = threading.Condition()
        self.calls, self.held, self.each = 0, 0, None

    def fits(self, n):
        if not self.calls:
            return True
        room = _core.memory_limit() // ROOM
        return self.each is not None and self.held + n * self.each * COPIES <= room

    @contextmanager
    def of(self, n):
        with self.changed:
            self.changed.wait_for(lambda: self.fits(n))
            mine = n * (self.each or 0) * COPIES
            self.calls += 1
            self.held += mine
        try:
            yield
        finally:
            with self.changed:
                self.calls -= 1
                self.held -= mine
                self.changed.notify_all()

    def learn(self, n_bytes, n):
        """n objects had n_bytes: the estimate rises at once, and falls slowly."""
        if n:
            with self.changed:
                self.each = max(n_bytes // n, (self.each or 0) * 3 // 4)


_room = Room()
_made: dict[tuple[Any, ...], Download] = {}  # by their arguments


def _forked() -> None:
    """The calls under way, and the threads that may have held a lock, are the parent's."""
    global _room
    _room = Room()
    for one in _made.values():
        one.lock = threading.Lock()


os.register_at_fork(after_in_child=_forked)


class Download:
    """A function of batches of a column of paths and URLs; download() says what the arguments mean. There is
    one object for equal arguments, which threads share.
    """

    def __init__(self, on_error, max_bytes, allow_local, allow_private, schemes, storage, filesystem=None):
        self.raises, self.max_bytes = on_error == "raise", max_bytes
        self.allow_local, self.allow_private = allow_local, allow_private
        self.given = on_error, max_bytes, allow_local, allow_private, schemes, storage, filesystem
        self.schemes = schemes
        self.storage, self.filesystem = storage, filesystem
        self.lock, self.store = threading.Lock(), None

    def __reduce__(self):
        return made, self.given

    def text(self, column):
        """For plans: without the storage options, which may be secrets."""
        on_error, max_bytes, allow_local, allow_private, schemes, storage, filesystem = self.given
        parts = [f"on_error={on_error!r}"]
        parts += [f"max_bytes={max_bytes}"] if max_bytes else []
        parts += ["allow_local=True"] if allow_local else []
        parts += ["allow_private=True"] if allow_private else []
        parts += [f"schemes={list(schemes)}"] if schemes else []
        parts += ["storage_options=..."] if storage else []
        parts += [f"filesystem={type(filesystem).__name__}"] if filesystem is not None else []
        return f"{column}.download({', '.join(parts)})"

    def __call__(self, uris):
        with _room.of(len(uris)):
            found = self.found(uris)
            if isinstance(found, _core.Column):  # in memory of the engine
                _room.learn(found.n_bytes, len(found) - found.null_count)
                return found
            sizes = [len(value) for value in found if value is not None]
            _room.learn(sum(sizes), len(sizes))
            return package("pyarrow", "download").array(found, "large_binary")

    def found(self, uris):
        """A list of bytes and None; or a Column, if all of them are URLs."""
        found = uris.to_pylist()
        for uri in found:
            if uri is not None and not isinstance(uri, str):
                raise TypeMismatchError(f"download: expected texts, found a value of {type(uri).__name__}")
        if isinstance(self.filesystem, served.Served):
            return self.of_filesystem(found)
        found = [self.local(uri) if uri is not None else None for uri in found]
        places = [i for i, value in enumerate(found) if isinstance(value, str)]
        if len(places) == len(found):
            return self.fetched(found, not self.raises)
        if places:
            got = self.fetched([found[i] for i in places])
            for i, value in zip(places, got, strict=True):
                found[i] = self.settled(value)
        return found

    def of_filesystem(self, paths):
        """The bytes of files of a filesystem that threads of this process serve."""
        with ThreadPoolExecutor(CALL_ROWS, "headrace-download") as threads:
            return list(threads.map(self.one_served, paths))

    def one_served(self, path):
        if path is None:
            return None
        most = self.max_bytes or MOST_BYTES
        options = [*self.storage, self.filesystem.option]
        try:
            data = _core.object_read(self.filesystem.url(path), options, 0, most + 1)[0]
            if len(data) > most:
                raise DataError(f"{path}: it has more than {most} bytes")
        except HeadraceError as error:
            return self.settled(error)
        return data

    def fetched(self, urls, *nulls):
        with self.lock:
            if self.store is None:
                self.store = _core.store(self.storage)
        return _core.download(self.store, urls, self.max_bytes, self.allow_private, *nulls)

    def settled(self, value):
        """The bytes; null, or the exception, for one that failed."""
        if not isinstance(value, Exception):
            return value
        if self.raises or isinstance(value, (InvalidArgument, UnsupportedError)):
            raise value
        return None

    def local(self, uri):
        """The bytes of a local file; a URL stays. A path in a filesystem is first made one of both."""
        if not uri:
            return self.settled(DataError("download: found an empty text, expected a URL"))
        if self.filesystem is not None:
            uri = place("download", self.filesystem, uri)[0]
        scheme = SCHEME.match(uri)
        scheme = scheme[1].lower() if scheme else "file"
        if self.schemes and scheme not in self.schemes:
            names = ", ".join(self.schemes)
            raise InvalidArgument(f"download: {shown(uri)}: its scheme is {scheme}; schemes= allows {names}")
        if scheme in URL_SCHEMES:
            return uri
        if scheme != "file":
            names = ", ".join(f"{name}://" for name in STORES)
            raise UnsupportedError(
                f"download: {shown(uri)}: expected {names} or a local path; found {scheme}://"
            )
        if not self.allow_local:
            raise InvalidArgument(f"download: {uri}: a path of this machine; allow_local=True reads it")
        try:
            return self.read(unquote(uri.partition("://")[2]) if "://" in uri else uri)
        except (HeadraceError, OSError) as error:
            return self.settled(error)

    def read(self, path):
        try:
            with open(path, "rb") as file:
                if self.max_bytes and os.fstat(file.fileno()).st_size > self.max_bytes:
                    raise DataError(f"{path}: it has more than {self.max_bytes} bytes")
                return file.read()
        except FileNotFoundError as error:
            raise NotFoundError(f"{path}: {error.strerror}") from None


def made(*given):
    if given[-1] is not None:  # it is not kept for ever
        return Download(*given)
    if given not in _made:
        _made[given] = Download(*given)
    return _made[given]


def scheme_names(schemes):
    """A tuple of names in lower case; None stays."""
    if schemes is None:
        return None
    if isinstance(schemes, str) or not all(isinstance(name, str) for name in schemes):
        raise TypeMismatchError('download: schemes: expected a list of names, such as ["https", "s3"]')
    names = tuple(dict.fromkeys(name.lower().removesuffix("://") for name in schemes))
    for name in names:
        if name not in (*URL_SCHEMES, "file"):
            known = ", ".join(sorted({*URL_SCHEMES, "file"}))
            raise InvalidArgument(f"download: schemes: expected some of {known}; found {name!r}")
    if not names:
        raise InvalidArgument("download: schemes: expected at least one name")
    return names


def downloaded(
    column: Expr,
    *,
    on_error: Literal["raise", "null"],
    max_bytes: int | str | None,
    allow_local: bool,
    allow_private: bool,
    schemes: Sequence[str] | None,
    storage_options: Mapping[str, Any] | None,
    filesystem: Any = None,
) -> Expr:
    """The expression of Expr.download and download(). Who gives a filesystem allows its paths, also those of
    the local one.
    """
    if on_error not in ("raise", "null"):
        raise InvalidArgument(f"download: on_error: expected 'raise' or 'null', found {on_error!r}")
    if max_bytes is not None:
        max_bytes = bytes_of("download: max_bytes", max_bytes, 1) if isinstance(max_bytes, str) else max_bytes
        if isinstance(max_bytes, bool) or not isinstance(max_bytes, int) or max_bytes < 1:
            raise InvalidArgument(f"download: max_bytes: expected at least 1 byte, found {max_bytes!r}")
    schemes = scheme_names(schemes)
    _, texts, by = places("download", filesystem, ["a/b"], storage_options)
    texts = texts or []
    filesystem = by or filesystem
    allow_local = allow_local or filesystem is not None
    _core.store(texts)  # raises if there is no such option
    package("pyarrow", "download")
    fn = made(
        on_error, max_bytes or 0, bool(allow_local), bool(allow_private), schemes, tuple(texts), filesystem
    )
    return called(fn, "large_binary", (column,), {}, rows=CALL_ROWS, threads=THREADS, text=fn.text(column))


def download(
    uri_column_name: str | Expr,
    *,
    filesystem: Any = None,
    on_error: Literal["raise", "null"] = "null",
    max_bytes: int | str | None = None,
    allow_local: bool = True,
    allow_private: bool = False,
    schemes: Sequence[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Expr:
    """The bytes of the files and URLs that the column names, as binary: http(s)://, s3://, gs://, az:// and
    local paths.

        ds.with_column("bytes", download("url"))

    A null gives null, and so does a file that cannot be read, as in Ray Data, unless on_error="raise". The
    other arguments are those of `col("url").download()`, which raises and reads no local paths by itself.
    filesystem: one of pyarrow or fsspec; the column has paths in it.
    """
    from headrace.data.expressions import col

    if not isinstance(uri_column_name, str):
        raise TypeMismatchError(f"download: expected a column's name, found {type(uri_column_name).__name__}")
    return downloaded(
        col(uri_column_name),
        on_error=on_error,
        max_bytes=max_bytes,
        allow_local=allow_local,
        allow_private=allow_private,
        schemes=schemes,
        storage_options=storage_options,
        filesystem=filesystem,
    )
