"""Whether the driver that made a folder still runs, perhaps in another container.

Containers of one host, and hosts, share folders but not process ids. So a driver holds a lock on a file in
the folder; the kernel releases the lock when the driver ends, however it ends. Where locks prove nothing
(network file systems), a driver can prove only the end of processes in its own namespace.
"""

from __future__ import annotations

import os
from pathlib import Path

from headrace import _core

_held: set[int] = set()  # descriptors of locks; a forked child must close them


def _close_in_child() -> None:
    for fd in _held:
        os.close(fd)
    _held.clear()


os.register_at_fork(after_in_child=_close_in_child)


class Lock:
    """A lock on the file `path`; create: makes the file if necessary. `state`: True: this object has the
    lock; False: another process has it; None: locks prove nothing on this file system.
    """

    def __init__(self, path: str | os.PathLike[str], create: bool):
        self.path = path
        self.process = os.getpid()
        self.fd = -1
        self.state: bool | None = None
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_CREAT if create else 0)
        try:
            self.fd = os.open(path, flags, 0o666)
        except OSError:
            return
        _held.add(self.fd)
        self.state = _core.lock_file(self.fd)
        if self.state is not True:
            self.close()

    def is_ours(self) -> bool:
        """Whether no other driver has the lock, as far as this process can know. Where locks prove nothing,
        it knows only living drivers of its own namespace, by the name in the file.
        """
        if self.state is None and (there := self._text().partition(" ")[0]) != _core.process_name():
            mine = _core.process_name().partition("-")[0]
            return there.partition("-")[0] != mine or _core.process_is_gone(there)
        return self.state is not False

    def sign(self, text: str) -> None:
        """Writes into the file who has the lock."""
        try:
            with open(self.path, "w", encoding="utf-8") as f:
                f.write(f"{_core.process_name()} {text}\n")
        except OSError:
            pass  # it is only for errors

    def holder(self) -> str:
        """What the other driver has signed, for errors; "" if nothing."""
        text = self._text().partition(" ")[2].strip()
        return f" ({text})" if text else ""

    def _text(self) -> str:
        try:
            with open(self.path, encoding="utf-8", errors="replace") as f:
                return f.read(300)
        except OSError:
            return ""

    def close(self) -> None:
        if self.fd >= 0 and self.process == os.getpid():
            _held.discard(self.fd)
            os.close(self.fd)
        self.fd = -1

    __del__ = close


def has_ended(lock_file: Path, process_name: str) -> bool:
    """Whether the driver with this name, which locked this file, has certainly ended."""
    lock = Lock(lock_file, create=False)
    lock.close()
    return _core.process_is_gone(process_name) if lock.state is None else lock.state
