"""Files of a run: each is there as a whole or not at all, and on the disk (or in the store) when the call
returns.

A name that begins with a dot and ends with the name of a process belongs to that process; see is_leftover().
"""

from __future__ import annotations

import errno
import os
import resource
import secrets
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace import _core
from headrace._core import HeadraceError, MismatchError, StorageError
from headrace.places import Place, StorePath

STATE_FILE = ".headrace.json"  # in the folder of each checkpoint that counts
PART = ".part"  # of a file that write_whole() writes
REMOVED = ".removed"  # of a folder that remove() empties
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def own_name(begin: str) -> str:
    """A new name for a file or folder of this process: `begin`, 8 random bytes, the process."""
    return f"{begin}.{secrets.token_hex(8)}-{_core.process_name()}"


def is_leftover(path: Place, owned: bool) -> bool:
    """Whether a file with the name of a process is left over from a process that ended. owned: no other
    process works in the folder.
    """
    process = path.name.partition("-")[2]
    return owned or process == _core.process_name() or _core.process_is_gone(process)


def sync_folder(path: str | os.PathLike[str]) -> None:
    """Returns when the names in the folder are on the disk."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    except OSError as e:
        if e.errno not in (errno.EINVAL, errno.ENOTSUP):  # a file system whose folders cannot be synced
            raise
    finally:
        os.close(fd)


def write_whole(path: str | Place, data: str | bytes, who: str = "") -> None:
    """Writes a second file, then renames it: a reader of `path` sees the old bytes or the new ones, never a
    part, even after a loss of power. Errors name `who`.
    """
    data = data.encode("utf-8") if isinstance(data, str) else data
    if isinstance(path, StorePath):
        with sent(who):
            path.write(data)
        return
    path = Path(path)
    beside = path.with_name(own_name(PART))
    with explained(who, path, len(data)):
        try:
            with open(beside, "xb") as f:
                f.write(data)
                f.flush()
                os.fsync(f.fileno())
            os.replace(beside, path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)


def size_of(path: str | os.PathLike[str]) -> int:
    """Bytes of all files in a folder."""
    return sum(size_of(entry.path) if entry.is_dir() else entry.stat().st_size for entry in os.scandir(path))


def copy_folder(source: str | os.PathLike[str], target: str | Place, who: str) -> None:
    """Copies all files of a local folder into another one, which may exist. They are on the disk, or in the
    store, when it returns. Errors name `who`.

    Raises StorageError with the path, and if there is no space the number of bytes that the copy needs.
    """
    if not os.path.isdir(source):
        raise FileNotFoundError(f"{who}: {os.fspath(source)}: the folder of the checkpoint does not exist")
    if isinstance(target, StorePath):
        with explained(who, source, 0):
            names = list(_files_below(os.fspath(source)))
        with sent(who):
            target.upload(source, names)
        return
    with explained(who, target, size_of(source)):
        _copy(os.fspath(source), os.fspath(target))


def _files_below(folder: str, above: str = "") -> Iterator[str]:
    """The names of all files of a folder, below it."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _files_below(entry.path, f"{above}{entry.name}/")
            elif stat.S_ISREG(entry.stat().st_mode):
                yield above + entry.name
            else:
                raise OSError(errno.EINVAL, "neither a file nor a folder", entry.path)


def _copy(source: str, target: str) -> None:
    os.makedirs(target, exist_ok=True)
    with os.scandir(source) as entries:
        for entry in entries:
            to = os.path.join(target, entry.name)
            if entry.is_dir():
                _copy(entry.path, to)
                continue
            if not stat.S_ISREG(entry.stat().st_mode):
                raise OSError(errno.EINVAL, "neither a file nor a folder", entry.path)
            shutil.copy2(entry.path, to)
            fd = os.open(to, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
    sync_folder(target)


def remove(path: Place) -> None:
    """Removes a folder or a file, if there is one. A process that dies meanwhile leaves no part of it under
    its name; in a store it leaves no checkpoint that counts.
    """
    if isinstance(path, StorePath):
        try:
            path.remove(first=STATE_FILE)
        except HeadraceError as e:
            print(f"cannot remove {path}: {e}", file=sys.stderr)
        return
    gone = path.with_name(own_name(REMOVED))
    try:
        os.rename(path, gone)
        if gone.is_dir():
            shutil.rmtree(gone, ignore_errors=True)
        else:
            gone.unlink()
    except OSError:
        pass  # it was not there, or it stays whole


def folders_with(path: Place, file: str, names: list[str]) -> set[str]:
    """Those of the folders with these names below `path` that have a file of this name."""
    if isinstance(path, StorePath):
        there = {name for name, _ in path.below()} if names else set()
        return {name for name in names if f"{name}/{file}" in there}
    return {name for name in names if (path / name / file).exists()}


@contextmanager
def sent(who: str) -> Iterator[None]:
    """Makes a StorageError of what a store refuses: who failed, the URL, and what the store said."""
    try:
        yield
    except MismatchError:
        raise
    except HeadraceError as e:
        raise StorageError(errno.EIO, f"{who}: {e}" if who else str(e)) from e


@contextmanager
def explained(who: str, path: str | os.PathLike[str] | Place, needed: int) -> Iterator[None]:
    """Makes a StorageError of an OSError: who failed at which path, and if the disk is full (or the quota, or
    the limit of a file's size is reached) the bytes that are needed and those that are free.
    """
    try:
        yield
    except StorageError:
        raise
    except OSError as e:
        text = f"{e.filename2 or e.filename or path}: {e.strerror}"
        if e.errno in _FULL and not isinstance(path, StorePath):
            most = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
            text += f": {needed:,} bytes are needed, {_free(path):,} are free"
            if e.errno == errno.EFBIG and most != resource.RLIM_INFINITY:
                text += f"; the limit for a file, `ulimit -f`, is {most:,} bytes"
        raise StorageError(e.errno, f"{who}: {text}" if who else text) from e


def _free(path: str | os.PathLike[str]) -> int:
    """Bytes for this user on the disk of `path`, or of the first folder above that is there."""
    for folder in (Path(path), *Path(path).parents):
        try:
            return shutil.disk_usage(folder).free
        except OSError:
            continue
    return 0
