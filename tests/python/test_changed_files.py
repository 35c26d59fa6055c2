"""Files that change while a dataset reads them: an error with both sizes, never other rows."""

import gzip
import os

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import headrace.data as hd
from headrace import exceptions

ROWS = 5000
NUMBERS = [f"{i:012d}" for i in range(ROWS)]
LINES = "".join(f"{n}\n" for n in NUMBERS).encode()
CSV = b"x\n" + LINES
JSON = "".join(f'{{"x": "{n}"}}\n' for n in NUMBERS).encode()


def _table():
    return pa.table({"x": NUMBERS})


def _tfrecords(path):
    folder = path + ".d"
    hd.from_arrow(_table()).write_tfrecords(folder)
    os.replace(os.path.join(folder, os.listdir(folder)[0]), path)


def _tar(path):
    folder = path + ".d"
    hd.from_items([{"__key__": n, "txt": n} for n in NUMBERS[:200]]).write_webdataset(folder)
    os.replace(os.path.join(folder, os.listdir(folder)[0]), path)


def _bytes(data):
    def write(path):
        with open(path, "wb") as f:
            f.write(data)

    return write


FORMATS = {
    "csv": (hd.read_csv, _bytes(CSV)),
    "csv.gz": (hd.read_csv, _bytes(gzip.compress(CSV))),
    "csv.zst": (hd.read_csv, _bytes(pa.compress(CSV, "zstd", asbytes=True))),
    "txt": (hd.read_text, _bytes(LINES)),
    "txt.gz": (hd.read_text, _bytes(gzip.compress(LINES))),
    "json": (hd.read_json, _bytes(JSON)),
    "bin": (hd.read_binary_files, _bytes(LINES)),
    "npy": (hd.read_numpy, lambda path: np.save(path, np.arange(ROWS))),
    "parquet": (hd.read_parquet, lambda path: pq.write_table(_table(), path, row_group_size=1000)),
    "arrow": (hd.read_arrow, lambda path: pyarrow.feather.write_feather(_table(), path, chunksize=1000)),
    "tfrecords": (hd.read_tfrecords, _tfrecords),
    "tar": (hd.read_webdataset, _tar),
}


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("change", ["cut", "grown"])
def test_a_file_of_another_size_than_listed_is_an_error(tmp_path, suffix, change):
    """The story: cut text and CSV files lost rows in silence, and their last number changed."""
    read, write = FORMATS[suffix]
    paths = [str(tmp_path / f"{i}.{suffix}") for i in range(2)]
    for path in paths:
        write(path)
    ds = read(paths)
    size = os.path.getsize(paths[1])
    if change == "cut":
        os.truncate(paths[1], size // 2)
    else:
        with open(paths[1], "ab") as f:
            f.write(b"000000000000\n")
    now = os.path.getsize(paths[1])
    with pytest.raises(exceptions.DataError, match=f"1.{suffix}: has {now} bytes, {size} when it was listed"):
        ds.take_all()
    assert len(read(paths[:1]).take_all()) > 0  # those that did not change


@pytest.fixture
def small_limit():
    context = hd.DataContext.get_current()
    before, context.memory_limit_bytes = context.memory_limit_bytes, "16MiB"
    yield
    context.memory_limit_bytes = before


@pytest.mark.parametrize("suffix", ["csv", "txt", "json"])
def test_a_file_cut_while_it_is_read_is_an_error(tmp_path, suffix, small_limit):
    """The story: the new end of an open file was taken for the end of its rows. 34 MB: more than readers
    prefetch.
    """
    line = '{{"x": "{:016d}"}}\n' if suffix == "json" else "{:016d}\n"
    path = tmp_path / f"a.{suffix}"
    path.write_text("".join(["x\n" if suffix == "csv" else "", *map(line.format, range(2_000_000))]))
    size = path.stat().st_size
    batches = iter(FORMATS[suffix][0](str(path)).iter_batches(batch_size=1000))
    next(batches)
    os.truncate(path, 0)
    cut = rf"the file ends at byte \d+, it had {size} bytes"
    said = rf"a.{suffix}: ({cut}|has 0 bytes, {size} when it was listed)"
    with pytest.raises(exceptions.DataError, match=said):
        for _ in batches:
            pass
