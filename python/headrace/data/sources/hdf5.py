"""read_hdf5 and read_netcdf: arrays of HDF5 files, cut along their first axis.

h5py has one lock for the whole library, so worker processes read the slabs, each with its own lock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from headrace._core import InvalidArgument, NotFoundError
from headrace.data.datasource.datasource import ranges
from headrace.data.files import FileArguments
from headrace.data.sources.each_file import MEMORY, damaged, read_each_file
from headrace.data.sources.slabs import slab_rows
from headrace.optional import package

if TYPE_CHECKING:
    from headrace.data.annotations import Paths
    from headrace.data.dataset import Dataset


def _arrays(h5py, file, names, where):
    """The datasets in `names`, or all at the top of the file, by name; their first axes must agree."""
    if names is None:
        names = [name for name, item in file.items() if isinstance(item, h5py.Dataset) and item.ndim > 0]
        names = [n for n in names if file[n].shape[0] == file[names[0]].shape[0]] if names else []
    found = {}
    for name in names:
        if name not in file or not isinstance(file[name], h5py.Dataset):
            there = ", ".join(sorted(file.keys()))
            raise NotFoundError(f"{where}: no dataset '{name}'; the datasets are {there}")
        found[name] = file[name]
        if found[name].ndim == 0:
            raise InvalidArgument(f"{where}: '{name}': expected an array, found one value")
    if not found:
        raise NotFoundError(f"{where}: no arrays at the top of the file; name some by datasets=")
    rows = {name: array.shape[0] for name, array in found.items()}
    if len(set(rows.values())) > 1:
        raise InvalidArgument(f"{where}: expected first axes of equal length, found {rows}")
    return found


def _slab_rows(arrays):
    row_bytes = sum(max(1, a.dtype.itemsize * (a.size // max(1, a.shape[0]))) for a in arrays.values())
    first = next(iter(arrays.values()))
    return slab_rows(row_bytes, first.chunks[0] if first.chunks else 1)


def _plain(values):
    """h5py's strings and references as numpy's types or objects."""
    if values.dtype.kind == "O":
        return [v.decode() if isinstance(v, bytes) else v for v in values.ravel().tolist()]
    if values.dtype.kind == "S":
        return values.astype(object).tolist()
    return values


class _Slabs:
    """Lists the slabs of a file (parts), and reads them (call)."""

    def __init__(self, names, where):
        self.names = names
        self.where = where

    def parts(self, path):
        """[(begin, end)], whole chunks."""
        h5py = package("h5py", self.where)
        with _opened(h5py, path) as file:
            arrays = _arrays(h5py, file, self.names, path)
            return ranges(next(iter(arrays.values())).shape[0], _slab_rows(arrays))

    def __call__(self, path, begin, end):
        h5py = package("h5py", self.where)
        with _opened(h5py, path) as file:
            try:
                made = {
                    name: _plain(a[begin:end]) for name, a in _arrays(h5py, file, self.names, path).items()
                }
            except Exception as e:
                raise damaged(path, e, f"rows from {begin}") from None
        yield made


def _opened(h5py, path):
    """The file, read by HDF5, or through Python: HDF5 follows links, and a file in memory has no place."""
    try:
        return h5py.File(open(path, "rb") if path.startswith(MEMORY) else path, "r")
    except OSError as e:
        raise type(e)(f"{path}: {e}") from None


def _read(where, name, paths, names, extensions, common):
    package("h5py", where)
    slabs = _Slabs([names] if isinstance(names, str) else names and list(names), where)
    return read_each_file(where, name, paths, slabs, parts=slabs.parts, extensions=extensions, **common)


def read_hdf5(paths: Paths, *, datasets: Any = None, **common: Unpack[FileArguments]) -> Dataset:
    """Rows are slices along the first axis of arrays in HDF5 files; each array is a column.

    datasets: names (with slashes for groups); None: all arrays at the top of the file whose first axis is as
    long as the first array's. Arrays of more axes become tensor columns. Worker processes read slabs of whole
    chunks; each holds about 4 MiB, or one chunk, in memory. Needs h5py.

    common: filesystem, storage_options, cache, partitioning, partition_filter, include_paths,
    ignore_missing_paths, file_extensions, shuffle, schema, unify, arrow_open_stream_args, concurrency,
    override_num_blocks: see docs/reading.md.
    """
    return _read("read_hdf5", "hdf5", paths, datasets, ["h5", "hdf5", "he5"], common)


def read_netcdf(paths: Paths, *, variables: Any = None, **common: Unpack[FileArguments]) -> Dataset:
    """Rows are slices along the first axis of variables of NetCDF 4 files (which are HDF5 files); see
    read_hdf5. Values are the stored ones, without scale_factor, add_offset and fill values.

    common: filesystem, storage_options, cache, partitioning, partition_filter, include_paths,
    ignore_missing_paths, file_extensions, shuffle, schema, unify, arrow_open_stream_args, concurrency,
    override_num_blocks: see docs/reading.md.
    """
    return _read("read_netcdf", "netcdf", paths, variables, ["nc", "nc4"], common)
