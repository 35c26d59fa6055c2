"""RandomAccessDataset: rows by key, for Dataset.to_random_access_dataset()."""

from __future__ import annotations

import bisect
import time
from collections.abc import Iterable
from typing import Any

from headrace import lazy_module

blocks = lazy_module("headrace.data.blocks")  # imports numpy


class RandomAccessDataset:
    """The rows of a dataset, sorted by the column `key`, in the memory of this process. Rows without a key
    (null, NaN) are left out; of rows with equal keys the first one in the dataset's order is found.
    """

    def __init__(self, ds: Any, key: str, num_workers: int) -> None:
        begin = time.perf_counter()
        self._key = key
        tables = ds._tables(ds.sort(key)._node, "to_random_access_dataset")
        self._tables = []
        self._keys: list[list[Any]] = []
        for table in tables:
            keys = [k for k in table.column(key).to_pylist() if k is not None and k == k]  # nulls, NaN: last
            if keys:
                self._tables.append(table)
                self._keys.append(keys)
        self._last = [keys[-1] for keys in self._keys]
        self._build_s = time.perf_counter() - begin
        self._accesses, self._access_s = 0, 0.0

    def _row(self, key):
        begin = time.perf_counter()
        i = bisect.bisect_left(self._last, key)
        row = bisect.bisect_left(self._keys[i], key) if i < len(self._last) else 0
        there = i < len(self._last) and self._keys[i][row] == key
        found = blocks.rows_of(self._tables[i].slice(row, 1), writable=True)[0] if there else None
        self._accesses += 1
        self._access_s += time.perf_counter() - begin
        return found

    def get_async(self, key: Any) -> Any:
        """The row with this key as a dict, or None. headrace.get() returns it as it is."""
        return self._row(key)

    def multiget(self, keys: Iterable[Any]) -> list[Any]:
        """The rows with these keys; None where there is none."""
        return [self._row(key) for key in keys]

    def stats(self) -> str:
        """The time of building, the number of blocks and of accesses, and their mean time, as text."""
        mean = int(self._access_s / (1 + self._accesses) * 1e6)
        return (
            f"RandomAccessDataset:\n- Build time: {self._build_s:.2f}s\n- Num workers: 1\n"
            f"- Blocks: {len(self._tables)}\n- Accesses: {self._accesses}\n- Mean access time: {mean}us\n"
        )


__all__ = ["RandomAccessDataset"]
