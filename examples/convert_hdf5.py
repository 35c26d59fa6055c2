"""Arrays of an HDF5 or NetCDF 4 file as Parquet and as Zarr, laid out for training.

    python examples/convert_hdf5.py               makes a small file of weather maps first
    python examples/convert_hdf5.py FILE FOLDER   into FOLDER/parquet and FOLDER/zarr

A row is a slice of the first axis. Training reads whole rows, in shuffled order. What a read costs is
decided by the chunks that a row lies in: a chunk is read and decompressed as a whole, whatever is wanted
of it. So for each array this says how much is read for one row now, and writes chunks of whole rows, of
about CHUNK_BYTES: smaller ones cost a call (a request, in an object store) each, larger ones are
decompressed for rows that nobody wants yet.
"""

import argparse
import math
import tempfile
from pathlib import Path

import h5py
import numpy as np
import zarr

import headrace.data

CHUNK_BYTES = 2 << 20
SHARD_CHUNKS = 16  # in one file of a Zarr store: file systems do not like a million small files


def make_weather(path, n_hours=240, height=90, width=180):
    """Maps in chunks that suit a time series of one place, as climate archives come, and not rows."""
    hours, y, x = np.ogrid[:n_hours, :height, :width]
    with h5py.File(path, "w") as file:
        maps = 280 + 20 * np.cos(y / 15) + 3 * np.sin((hours + x) / 24)
        maps = maps.astype("f4")
        file.create_dataset("temperature", data=maps, chunks=(n_hours, 9, 18), compression="gzip")
        file.create_dataset("hour", data=np.arange(n_hours))


def row_bytes(array):
    return array.dtype.itemsize * math.prod(array.shape[1:])


def read_for_a_row(array):
    """Bytes, decompressed, of all chunks that one row lies in; in an array without chunks, of the row."""
    if not array.chunks:
        return row_bytes(array)
    rows, *others = array.chunks
    n_chunks = math.prod(-(-n // c) for n, c in zip(array.shape[1:], others, strict=True))
    return n_chunks * rows * math.prod(others) * array.dtype.itemsize


def good_chunks(array):
    """Whole rows, about CHUNK_BYTES of them: a power of two, for shards of equal rows."""
    rows = max(1, min(array.shape[0], CHUNK_BYTES // max(1, row_bytes(array))))
    return (1 << rows.bit_length() - 1, *array.shape[1:])


def advise(file, names):
    for name in names:
        array = file[name]
        times = read_for_a_row(array) / max(1, row_bytes(array))
        print(
            f"{name}: {array.shape} {array.dtype}, chunks {array.chunks}: "
            f"one row reads {times:.0f} times its bytes; advised: {good_chunks(array)}"
        )


def to_zarr(dataset, arrays, shard_rows, folder):
    """A batch is a row of shards, so that none is written twice."""
    group = zarr.open_group(str(folder), mode="w")
    for name, array in arrays.items():
        rows, *others = good_chunks(array)
        chunks, shards = (min(rows, shard_rows), *others), (shard_rows, *others)
        group.create_array(name, shape=array.shape, dtype=array.dtype, chunks=chunks, shards=shards)
    at = 0
    for batch in dataset.iter_batches(batch_size=shard_rows, batch_format="numpy"):
        n = len(next(iter(batch.values())))
        for name in arrays:
            group[name][at : at + n] = batch[name]
        at += n


def convert(path, folder):
    with h5py.File(path) as file:
        names = [n for n, a in file.items() if isinstance(a, h5py.Dataset) and a.ndim]
        advise(file, names)
        dataset = headrace.data.read_hdf5(str(path), datasets=names)
        shard_rows = SHARD_CHUNKS * min(good_chunks(file[n])[0] for n in names)
        # A row group is what a reader can skip or read alone, as a shard is; its footer should not be long.
        dataset.write_parquet(str(folder / "parquet"), row_group_size=shard_rows)
        to_zarr(dataset, {n: file[n] for n in names}, shard_rows, folder / "zarr")
    return names


def check(path, folder, names):
    """All three hold the same rows, in the same order."""
    readers = {
        "hdf5": headrace.data.read_hdf5(str(path), datasets=names),
        "parquet": headrace.data.read_parquet(str(folder / "parquet")),
        "zarr": headrace.data.read_zarr(str(folder / "zarr"), arrays=names),
    }
    first = None
    for kind, dataset in readers.items():
        batches = list(dataset.iter_batches(batch_size=None, batch_format="numpy"))
        found = {n: np.concatenate([b[n] for b in batches]) for n in names}
        first = first or found
        if not all(np.array_equal(found[n], first[n]) for n in names):
            raise SystemExit(f"{kind} differs")
        print(f"{kind}: {len(found[names[0]])} rows")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("folder", nargs="?", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        path, folder = args.file, args.folder or Path(scratch)
        if not path:
            path = Path(scratch) / "weather.h5"
            make_weather(path)
        names = convert(path, folder)
        check(path, folder, names)


if __name__ == "__main__":
    main()
