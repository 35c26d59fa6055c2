"""Arrays of rows in slabs, one task per slab: the common part of read_hdf5 and read_zarr."""

import bisect
import functools
import itertools
from collections.abc import Sequence

# The result of a task stays in memory until the task ends, so a task reads at most this, or one chunk.
SLAB_BYTES = 4 << 20


def slab_rows(row_bytes, chunk_rows):
    """Rows of a slab: whole chunks, about SLAB_BYTES."""
    chunk_rows = max(1, chunk_rows)
    return max(1, SLAB_BYTES // max(1, row_bytes) // chunk_rows) * chunk_rows


class SlabTasks(Sequence):
    """The tasks of several files, made one by one: a store of terabytes has many.

    read(path, columns, begin, end) returns the block of those rows; files are (path, columns, n_rows, step).
    chunks: (their number, their bytes in memory) of all files.
    """

    def __init__(self, read, files, chunks=(0, 0)):
        self.read = read
        self.files = files
        self.ends = list(itertools.accumulate(max(1, -(-n // step)) for _, _, n, step in files))

        n, n_bytes = chunks
        self.pieces = (-(-n // max(1, len(self))), n_bytes // max(1, n))

    def __len__(self):
        return self.ends[-1] if self.ends else 0

    def __getitem__(self, number):
        if not 0 <= number < len(self):
            raise IndexError(number)
        at = bisect.bisect_right(self.ends, number)
        path, columns, n, step = self.files[at]
        begin = (number - (self.ends[at - 1] if at else 0)) * step
        return functools.partial(self._blocks, path, columns, begin, min(begin + step, n))

    def _blocks(self, *args):
        yield self.read(*args)
