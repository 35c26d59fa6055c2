"""Filesystems of fsspec and pyarrow that the engine does not reach itself: threads of this process answer its
requests.

`Served` is one such filesystem. `threads.py` has the threads, `requests.py` what they do for each request,
`adapters.py` what differs between fsspec and pyarrow. The engine's side is src/io/http/served.

Tests: tests/python/test_served.py
"""

from __future__ import annotations

import pickle
from typing import Any

from headrace import _core
from headrace.data.served import threads
from headrace.data.served.adapters import adapter_of

URL = "filesystem:///"  # what the engine has before the paths of such filesystems


class Served:
    """A filesystem that this process serves while a plan or a run refers to it.

    Pickles carry the filesystem, by cloudpickle; UnsupportedError says so where that is not possible.
    """

    def __init__(self, filesystem: Any):
        self.filesystem = filesystem
        self._adapter = adapter_of(filesystem)
        self.number: int = threads.serve(self._adapter)

    def __del__(self) -> None:
        if hasattr(self, "number"):
            _core.served_unref(self.number)

    def __repr__(self) -> str:
        return f"<{self._adapter.name}>"

    def __reduce__(self) -> tuple[Any, ...]:
        import cloudpickle

        try:
            payload = cloudpickle.dumps(self.filesystem)
        except Exception as e:
            raise _core.UnsupportedError(
                f"cannot pickle the filesystem {self._adapter.name}: {type(e).__name__}: {e}. Give its class "
                "a __reduce__, or make the dataset in the process that reads it"
            ) from e
        return _unpickled, (payload,)

    @property
    def option(self) -> str:
        """The storage option that names the filesystem for the engine."""
        return f"filesystem={self.number}"

    def url(self, path: str) -> str:
        """The path as the engine takes it."""
        return path if path.startswith(URL) else URL + self._adapter.path(path)

    def exists(self, path: str) -> bool:
        """Whether there is a file or a folder at the path, or the engine's URL of one. Waits for the
        filesystem.
        """
        return self._adapter.exists(plain(self.url(path)))


def _unpickled(payload):
    return Served(pickle.loads(payload))


def plain(path: str) -> str:
    """The path as its filesystem takes it, of a URL of the engine; other paths as they are."""
    return path.removeprefix(URL)


__all__ = ["URL", "Served", "plain"]
