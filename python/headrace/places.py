"""Paths of this machine (pathlib.Path) or of a store (StorePath, of a URL), for what Python keeps in folders:
runs, checkpoints, the parts of write jobs.

A StorePath has those names of pathlib.Path that its users read with; train/files.py writes to both kinds.

Tests: tests/python/test_train_stores.py, test_write_restart.py
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from headrace import _core, lazy_module
from headrace.data.paths import lacks_slash, storage_texts
from headrace.exceptions import InvalidArgument

AT_ONCE = 8  # files that are fetched at the same time


class Options(dict[str, Any]):
    """storage_options. They may hold keys: nothing prints their values, and pickles have None in their place.
    The process that reads such a pickle has the options of its run.
    """

    def __repr__(self) -> str:
        return f"<storage options: {', '.join(self) or 'none'}>"

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return type(None), ()

    def __copy__(self) -> Options:
        return Options(self)

    def __deepcopy__(self, memo: Any) -> Options:
        return Options(self)


_of_run: Options | None = None  # what paths without options of their own take


def use(options: Mapping[str, Any] | None) -> None:
    """Sets the options of paths that have none: in a worker those of its run."""
    global _of_run
    _of_run = checked("storage_options", options)


def checked(where: str, options: Any) -> Options | None:
    """The options, or TypeMismatchError."""
    if options is None:
        return None
    storage_texts(where, options)
    return Options(options)


def in_filesystem(
    where: str, path: str | os.PathLike[str], filesystem: Any, options: Any
) -> tuple[str | os.PathLike[str], Any]:
    """(path or URL, storage options) of a path in a filesystem of pyarrow or fsspec; None: the path."""
    if filesystem is None:
        return path, options
    filesystems = lazy_module("headrace.data.filesystems")
    found = filesystems.place(where, filesystem, os.fspath(path))
    if found is None:
        served = filesystems.served_by(filesystem)
        return served.url(os.fspath(path)), {**(options or {}), "filesystem": served}
    return found[0], {**found[1], **(options or {})} or None


def plainly(options: Options | None) -> dict[str, Any] | None:
    """For a message to a process of the run, which may hold keys."""
    return None if options is None else dict(options)


def is_url(path: str | os.PathLike[str]) -> bool:
    return "://" in os.fspath(path)


class StorePath:
    """A path in a store's bucket. What it reads and writes goes over the network; errors are HeadraceErrors
    that name the URL and what the store said.
    """

    def __init__(self, url: str, options: Options | None = None):
        self._url = url.rstrip("/")
        self.options = _of_run if options is None else options

    def __str__(self) -> str:
        return self._url

    def __repr__(self) -> str:
        return f"StorePath({self._url!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StorePath) and self._url == other._url

    def __hash__(self) -> int:
        return hash(self._url)

    def __truediv__(self, name: str | os.PathLike[str]) -> StorePath:
        return StorePath(f"{self._url}/{os.fspath(name)}", self.options)

    @property
    def _texts(self) -> list[str]:
        return storage_texts("storage_options", self.options) or []

    @property
    def name(self) -> str:
        return self._url.rpartition("/")[2]

    @property
    def stem(self) -> str:
        return PurePosixPath(self.name).stem

    @property
    def parent(self) -> StorePath:
        return StorePath(self._url.rpartition("/")[0], self.options)

    def resolve(self) -> StorePath:
        return self

    def is_relative_to(self, other: object) -> bool:
        return isinstance(other, StorePath) and f"{self._url}/".startswith(f"{other._url}/")

    def relative_to(self, other: StorePath) -> PurePosixPath:
        return PurePosixPath(self._url[len(other._url) + 1 :])

    def below(self) -> list[tuple[str, int]]:
        """(name below this folder, bytes) of all objects, in the order of the store's list."""
        n = len(self._url) + 1
        return [(url[n:], size) for url, size in _core.objects_list(self._url, self._texts)]

    def iterdir(self) -> Iterator[StorePath]:
        for name in dict.fromkeys(name.partition("/")[0] for name, _ in self.below()):
            yield self / name

    def glob(self, pattern: str) -> Iterator[StorePath]:
        return (path for path in self.iterdir() if fnmatch.fnmatchcase(path.name, pattern))

    def is_dir(self) -> bool:
        return bool(self.below())

    def exists(self) -> bool:
        """Whether there is an object of this name, or one below it."""
        try:
            self.read_bytes()
        except _core.NotFoundError:
            return self.is_dir()
        return True

    def read_versioned(self) -> tuple[bytes, str]:
        """The object's bytes, and its version. NotFoundError: there is none."""
        return _core.object_read(self._url, self._texts)

    def read_bytes(self) -> bytes:
        return self.read_versioned()[0]

    def read_text(self, encoding: str = "utf-8") -> str:
        return self.read_bytes().decode(encoding)

    def write(self, data: bytes, version: str | None = None) -> str:
        """Makes the object, at once and whole. version: see _core.object_put(). Returns the new version."""
        return _core.object_put(self._url, data, version, self._texts)

    def remove(self, first: str = "") -> None:
        """Removes all objects below it, those with the name `first` before the others; without any, the
        object itself.
        """
        names = [name for name, _ in self.below()]
        early = [str(self / name) for name in names if PurePosixPath(name).name == first]
        rest = [str(self / name) for name in names if PurePosixPath(name).name != first]
        _core.objects_remove(early, self._texts)
        _core.objects_remove(rest if names else [self._url], self._texts)

    def upload(self, folder: str | os.PathLike[str], names: list[str]) -> None:
        """Copies files of a local folder, by their names below it. They appear when all have arrived."""
        urls = [str(self / name) for name in names]
        _core.objects_upload(self._url, urls, [os.path.join(folder, n) for n in names], self._texts)

    def download(self, folder: str | os.PathLike[str]) -> None:
        """Copies all objects below into a local folder."""
        found = [name for name, _ in self.below()]
        for name in found:
            if any(part in ("", ".", "..") for part in name.split("/")):
                raise ValueError(f"{self}: the key {name!r} cannot be the name of a file")
        from concurrent.futures import ThreadPoolExecutor  # it imports logging

        with ThreadPoolExecutor(AT_ONCE, "headrace-train-download") as pool:
            for done in [pool.submit(self._fetch, name, os.path.join(folder, name)) for name in found]:
                done.result()

    def _fetch(self, name: str, to: str) -> None:
        os.makedirs(os.path.dirname(to), exist_ok=True)
        _core.object_save(str(self / name), to, self._texts)

    def remove_part(self, name: str) -> None:
        """Removes what a write job of this name has left below: its uploads, and its files."""
        self.abort_uploads(name)
        found = [str(self / key) for key, _ in self.below() if name in PurePosixPath(key).name]
        _core.objects_remove(found, self._texts)

    def abort_uploads(self, job: str = "") -> None:
        """Completes the write jobs below that had decided, and removes the unfinished uploads of a job; of
        all without a job.
        """
        _core.objects_abort(self._url, job, self._texts)


Place = Path | StorePath


def of(path: str | os.PathLike[str], options: Options | None = None) -> Place:
    """The path of this text. options: of a URL; None: those of use()."""
    text = os.fspath(path)
    if lacks_slash(text):
        raise InvalidArgument(f"{text}: one slash follows the scheme, expected two")
    if text.startswith("file://"):
        text = text[len("file://") :]
    return StorePath(text, options) if is_url(text) else Path(text)


def absolute(path: str | os.PathLike[str], options: Options | None = None) -> Place:
    found = of(path, options)
    return found if isinstance(found, StorePath) else found.expanduser().absolute()


__all__ = ["Options", "Place", "StorePath", "absolute", "checked", "in_filesystem", "is_url", "of", "plainly"]
__all__ += ["use"]
