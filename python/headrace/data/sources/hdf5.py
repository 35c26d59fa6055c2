"""read_hdf5 and read_netcdf: arrays of HDF5 files, cut along their first axis.

h5py holds one lock for the whole library, so slabs are read by worker processes, each with its own.
"""

from headrace._core import InvalidArgument, NotFoundError
from headrace.data.context import accept_cluster_arguments
from headrace.data.datasource import read_tasks
from headrace.data.files import files_of
from headrace.data.sources import package
from headrace.data.sources.slabs import SlabTasks, slab_rows


def _arrays(h5py, file, names, where):
    """The datasets of `names`, or all at the top, by name; their first axes agree."""
    if names is None:
        names = [name for name, item in file.items() if isinstance(item, h5py.Dataset) and item.ndim > 0]
        names = [n for n in names if file[n].shape[0] == file[names[0]].shape[0]] if names else []
    found = {}
    for name in names:
        if name not in file or not isinstance(file[name], h5py.Dataset):
            there = ", ".join(sorted(file.keys()))
            raise NotFoundError(f"{where}: no dataset '{name}', there are: {there}")
        found[name] = file[name]
        if found[name].ndim == 0:
            raise InvalidArgument(f"{where}: '{name}' is one value, not an array")
    if not found:
        raise NotFoundError(f"{where}: no arrays at the top of the file: name some by datasets=")
    rows = {name: array.shape[0] for name, array in found.items()}
    if len(set(rows.values())) > 1:
        raise InvalidArgument(f"{where}: first axes differ: {rows}: read them apart")
    return found


def _slab_rows(arrays):
    row_bytes = sum(max(1, a.dtype.itemsize * (a.size // max(1, a.shape[0]))) for a in arrays.values())
    first = next(iter(arrays.values()))
    return slab_rows(row_bytes, first.chunks[0] if first.chunks else 1)


def _plain(values):
    """Strings and references of h5py as what numpy knows."""
    if values.dtype.kind == "O":
        return [v.decode() if isinstance(v, bytes) else v for v in values.ravel().tolist()]
    if values.dtype.kind == "S":
        return values.astype(object).tolist()
    return values


def _slab(path, names, begin, end):
    import h5py

    with h5py.File(path, "r") as file:
        return {name: _plain(a[begin:end]) for name, a in _arrays(h5py, file, names, path).items()}


def _tasks(where, paths, names, suffixes, ignore_missing):
    h5py = package("h5py", where)
    found = []
    for path in files_of(paths, suffixes, ignore_missing):
        try:
            with h5py.File(path, "r") as file:
                arrays = _arrays(h5py, file, names, path)
                found.append((path, list(arrays), next(iter(arrays.values())).shape[0], _slab_rows(arrays)))
        except OSError as e:
            raise type(e)(f"{path}: {e}") from None
    return SlabTasks(_slab, found)


def read_hdf5(
    paths, *, datasets=None, file_extensions=None, ignore_missing_paths=False, concurrency=None, **other
):
    """Rows are slices along the first axis of arrays in HDF5 files; each array is a column.

    datasets: names (with slashes for groups); None: all arrays at the top of the file whose first axis is as
    long as the first one's. Arrays of more axes become tensor columns. Read slab by slab, in whole chunks of
    the file, in worker processes; memory holds about 4 MiB, or one chunk, a worker. Needs h5py.
    """
    accept_cluster_arguments("read_hdf5", other)
    names = [datasets] if isinstance(datasets, str) else datasets and list(datasets)
    tasks = _tasks("read_hdf5", paths, names, file_extensions or ["h5", "hdf5", "he5"], ignore_missing_paths)
    return read_tasks("hdf5", tasks, concurrency=concurrency)


def read_netcdf(
    paths, *, variables=None, file_extensions=None, ignore_missing_paths=False, concurrency=None, **other
):
    """Rows are slices along the first axis of variables of NetCDF 4 files (which are HDF5 files); see
    read_hdf5. Values are the stored ones: scale_factor, add_offset and fill values are not applied.
    """
    accept_cluster_arguments("read_netcdf", other)
    names = [variables] if isinstance(variables, str) else variables and list(variables)
    tasks = _tasks("read_netcdf", paths, names, file_extensions or ["nc", "nc4"], ignore_missing_paths)
    return read_tasks("netcdf", tasks, concurrency=concurrency)
