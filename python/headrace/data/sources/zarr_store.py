"""The store that zarr reads URLs and filesystems by: keys are objects below a URL, which the engine fetches.

Importing this module needs zarr 3.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
from collections.abc import AsyncIterator, Iterable
from typing import Any

from headrace import _core
from headrace._core import NotFoundError
from headrace.data.paths import shown
from headrace.optional import package

zarr = package("zarr.abc.store", "read_zarr")

THREADS = 16  # that wait for chunks, of all stores of the process

_threads: concurrent.futures.ThreadPoolExecutor | None = None


def _forget_pool():
    global _threads
    _threads = None


os.register_at_fork(after_in_child=_forget_pool)  # its threads stay in the parent


def _pool():
    global _threads
    if _threads is None:
        _threads = concurrent.futures.ThreadPoolExecutor(THREADS, "headrace-zarr")
    return _threads


def _range(request):
    """(offset, n) of a request of zarr, as _core.object_read() takes them."""
    if isinstance(request, zarr.RangeByteRequest):
        return request.start, request.end - request.start
    if isinstance(request, zarr.OffsetByteRequest):
        return (request.offset,)
    if isinstance(request, zarr.SuffixByteRequest):
        return (-request.suffix,) if request.suffix else (0, 0)
    return ()


class EngineStore(zarr.Store):
    """Read only. The options may hold keys: nothing prints them."""

    supports_writes = supports_deletes = False
    supports_listing = True

    def __init__(self, url: str, options: list[str]):
        super().__init__(read_only=True)
        base, mark, query = url.partition("?") if url.startswith("http") else (url, "", "")
        self.url = base.rstrip("/")
        self.query = mark + query  # the signature of a URL
        self.options = options

    def __repr__(self) -> str:
        return f"EngineStore({shown(self.url)!r})"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EngineStore) and vars(self) == vars(other)

    __hash__ = None

    def _read(self, key, request):
        try:
            return _core.object_read(f"{self.url}/{key}{self.query}", self.options, *_range(request))[0]
        except NotFoundError:
            return None

    def _keys(self, prefix):
        below = f"{self.url}/{prefix}".rstrip("/")
        found = _core.objects_list(below, self.options)
        return [url[len(self.url) + 1 :] for url, _ in found]

    def is_empty(self, key: str) -> bool:
        """Whether there is an object of no bytes."""
        return self._read(key, zarr.RangeByteRequest(0, 1)) == b""

    async def _run(self, call, *args):
        return await asyncio.get_running_loop().run_in_executor(_pool(), call, *args)

    async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
        data = await self._run(self._read, key, byte_range)
        return None if data is None else prototype.buffer.from_bytes(data)

    async def get_partial_values(self, prototype: Any, key_ranges: Iterable[Any]) -> list[Any]:
        return await asyncio.gather(*(self.get(key, prototype, part) for key, part in key_ranges))

    async def exists(self, key: str) -> bool:
        return await self._run(self._read, key, zarr.RangeByteRequest(0, 0)) is not None

    async def set(self, key: str, value: Any) -> None:
        raise NotImplementedError

    async def delete(self, key: str) -> None:
        raise NotImplementedError

    async def list(self) -> AsyncIterator[str]:
        for key in await self._run(self._keys, ""):
            yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        folder = prefix.rpartition("/")[0]
        for key in await self._run(self._keys, folder):
            if key.startswith(prefix):
                yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        folder = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        keys = await self._run(self._keys, folder)
        for name in dict.fromkeys(key[len(folder) :].partition("/")[0] for key in keys):
            if name:
                yield name
