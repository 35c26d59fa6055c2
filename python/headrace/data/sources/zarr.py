"""read_zarr: arrays of Zarr stores, versions 2 and 3, cut along their first axis in whole chunks.

Local stores are read by zarr itself; those of URLs and filesystems through zarr_store.py, by the engine.

The zarr package decodes without Python's lock, so threads read the slabs.
"""

from __future__ import annotations

import itertools
import math
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace._core import DataError, HeadraceError, InvalidArgument, NotFoundError, UnsupportedError
from headrace.data.context import accept_cluster_arguments
from headrace.data.datasource.datasource import read_tasks
from headrace.data.filesystems import places
from headrace.data.paths import is_url, path_list, shown, with_cache
from headrace.data.sources.slabs import SlabTasks, slab_rows
from headrace.optional import package

if TYPE_CHECKING:
    from headrace.data.annotations import Paths
    from headrace.data.dataset import Dataset


class _Remote:
    """A store that the engine reaches. As text it is the URL without its secrets."""

    def __init__(self, url, options, served):
        self.url, self.options, self.served = url, options or [], served

    def __str__(self):
        return shown(self.url)

    def store(self):
        from headrace.data.sources.zarr_store import EngineStore

        options = self.options + ([self.served.option] if self.served is not None else [])
        return EngineStore(self.url, options)


def _open(where, path, names=None):
    """The arrays of a store by column: 'data' for an array, the members' names for a group. names: of a group
    in a remote store, whose members are then not listed; None: all.
    """
    zarr = package("zarr", where)
    try:
        node = zarr.open(path.store() if isinstance(path, _Remote) else path, mode="r")
        if hasattr(node, "shape"):
            return {"data": node}
        if names and isinstance(path, _Remote) and all(name in node for name in names):
            found = {name: node[name] for name in names}
            return {name: a for name, a in found.items() if hasattr(a, "shape")}
        return {name: a for name, a in sorted(node.arrays())}
    except (MemoryError, HeadraceError):
        raise
    except FileNotFoundError:
        raise NotFoundError(f"{path}: no Zarr store (a folder) at this path") from None
    except Exception as e:  # a damaged store makes zarr raise any class of exception
        raise DataError(f"{path}: {type(e).__name__}: {e}") from None


def _row_bytes(array):
    return max(1, array.dtype.itemsize * int(np.prod(array.shape[1:], dtype=object)))


def _slab_rows(arrays):
    first = next(iter(arrays.values()))
    return slab_rows(sum(map(_row_bytes, arrays.values())), first.chunks[0] if first.ndim else 1)


def _chunks(arrays):
    """(number of chunks, their bytes in memory): those of shards count one by one, as zarr decodes them."""
    n = sum(math.prod(-(-n // max(1, c)) for n, c in zip(a.shape, a.chunks, strict=True)) for a in arrays)
    return n, sum(a.dtype.itemsize * math.prod(a.shape) for a in arrays)


def _plain(values, path):
    """Rows in a form that columns can hold: texts and bytes as objects, complex numbers as pairs."""
    values = np.asarray(values)
    kind = values.dtype.kind
    if kind == "c":
        return np.stack([values.real, values.imag], axis=-1)
    if kind in "SUT":
        return values.astype(object).tolist()
    if kind == "O":
        return values.tolist()
    if kind == "V":
        raise UnsupportedError(f"{path}: values of type {values.dtype}")
    values = np.ascontiguousarray(values.astype(values.dtype.newbyteorder("="), copy=False))
    return _nanoseconds(values, path) if kind in "mM" else values


def _nanoseconds(times, path):
    """Times of a finer unit in nanoseconds, the finest unit of columns; other times stay."""
    unit = np.datetime_data(times.dtype)[0]
    if unit not in ("ps", "fs", "as"):
        return times
    made = times.astype(f"{times.dtype.kind}8[ns]")
    wrong = (made.astype(times.dtype) != times) & ~np.isnat(times)
    if wrong.any():
        raise UnsupportedError(f"{path}: expected whole nanoseconds, found the time {times[wrong][0]}")
    return made


def _check_shards(path, array, begin, end):
    """Raises DataError for an empty shard; zarr would take it for a missing one and use fill values."""
    if not array.ndim or array.shards is None:
        return
    first = range(begin // array.shards[0], -(-end // array.shards[0]))
    others = [range(-(-n // s)) for n, s in zip(array.shape[1:], array.shards[1:], strict=True)]
    for place in itertools.product(first, *others):
        key = os.path.join(array.path, array.metadata.encode_chunk_key(place))
        if _is_empty(path, array, key):
            raise DataError(f"{path}: rows from {begin}: {key}: the shard is empty (0 bytes)")


def _is_empty(path, array, key):
    if isinstance(path, _Remote):
        return array.store.is_empty(key)
    file = os.path.join(path, key)
    return os.path.exists(file) and os.path.getsize(file) == 0


def _slab(path, columns, begin, end):
    arrays = _open("read_zarr", path, columns)
    try:
        for c in columns:
            _check_shards(path, arrays[c], begin, end)
        parts = {c: arrays[c][begin:end] if arrays[c].ndim else arrays[c][...] for c in columns}
    except (MemoryError, HeadraceError):
        raise
    except Exception as e:  # any class, as in _open
        raise DataError(f"{path}: rows from {begin}: {type(e).__name__}: {e}") from None
    return {c: _plain(v if np.ndim(v) else np.asarray(v).reshape(1), path) for c, v in parts.items()}


def _store(where, path, names):
    """((path, columns, rows, rows per slab), its chunks as SlabTasks has them)."""
    if not isinstance(path, _Remote) and not os.path.isdir(path):
        raise NotFoundError(f"{path}: no Zarr store (a folder) at this path")
    arrays = _open(where, path, names)
    for name in names or []:
        if name not in arrays:
            raise NotFoundError(f"{path}: no array '{name}'; the arrays are {', '.join(arrays)}")
    arrays = {name: arrays[name] for name in names} if names else arrays
    if not arrays:
        raise NotFoundError(f"{path}: the group has no arrays")
    rows = {name: a.shape[0] if a.ndim else 1 for name, a in arrays.items()}
    n = next(iter(rows.values()))
    if len(set(rows.values())) > 1:
        raise InvalidArgument(
            f"{path}: expected first axes of equal length, found {rows}; name some arrays by arrays="
        )
    return (path, list(arrays), n, _slab_rows(arrays)), _chunks(arrays.values())


def read_zarr(
    path: Paths,
    *,
    arrays: Any = None,
    filesystem: Any = None,
    storage_options: dict[str, Any] | None = None,
    cache: str | os.PathLike[str] | bool | None = None,
    chunk_shapes: Any = None,
    array_paths: Any = None,
    allow_full_metadata_scan: bool = False,
    align_axis_0: bool = False,
    overlap: int = 0,
    concurrency: int | None = None,
    **other: Any,
) -> Dataset:
    """Rows are slices along the first axis of the array in a Zarr store (version 2 or 3), in the column
    'data'; each array of a group is a column, and their first axes must agree.

    arrays (array_paths is the same): names of a group's arrays; None: all at its top. Arrays of more axes
    become tensor columns, complex numbers pairs. Missing chunks have the fill value. Threads read slabs of
    whole chunks; each holds about 4 MiB, or one chunk, in memory. Needs zarr 3. DataError names the store.
    storage_options, cache and filesystem are those of other readers: the engine then fetches the objects.
    Without consolidated metadata a group's members are found by a list of all objects below it, unless
    arrays= names them. chunk_shapes and overlap are an error; allow_full_metadata_scan and align_axis_0 have
    no effect.
    """
    accept_cluster_arguments("read_zarr", other)
    if chunk_shapes is not None or overlap:
        raise UnsupportedError("read_zarr: chunk_shapes and overlap: a row is a slice along the first axis")
    arrays = array_paths if arrays is None else arrays
    names = [arrays] if isinstance(arrays, str) else arrays and list(arrays)
    found, options, served = places("read_zarr", filesystem, path_list(path), storage_options)
    if served is not None and cache:
        raise InvalidArgument(f"read_zarr: cache: the files of {served} have no place in it; leave it out")
    options = with_cache("read_zarr", options, cache)
    remote = [_Remote(one, options, served) if is_url(one) else one.rstrip("/") for one in found]
    stores = [_store("read_zarr", one, names) for one in remote]
    chunks = tuple(map(sum, zip(*(chunks for _, chunks in stores), strict=True)))
    tasks = SlabTasks(_slab, [store for store, _ in stores], chunks)
    return read_tasks("zarr", tasks, compute="threads", concurrency=concurrency)
