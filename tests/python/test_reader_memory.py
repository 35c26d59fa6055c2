"""A file 20 times as large as the memory limit is read within the limit and 150 MB for Python and NumPy."""

import io
import subprocess
import sys
import tarfile

import numpy as np
import pyarrow as pa
import pytest

import headrace.data as hd

LIMIT = 16 << 20
SIZE = 20 * LIMIT
READ = """
import re, sys
import headrace.data as hd
rows = 0
for batch in getattr(hd, sys.argv[1])(sys.argv[2], **eval(sys.argv[3])).iter_batches(batch_size=64):
    rows += len(next(iter(batch.values())))
print(rows, int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) * 1024)
"""


def npy(path):
    np.save(path, np.ones((SIZE >> 14, 1 << 12), np.float32))
    return SIZE >> 14


def npz(path):
    half = np.ones((SIZE >> 15, 1 << 12), np.float32)
    np.savez(path, a=half, b=half)
    return SIZE >> 15


def npz_deflated(path):
    np.savez_compressed(path, a=np.arange(SIZE >> 2, dtype=np.float32).reshape(-1, 1 << 12))
    return SIZE >> 14


def tfrecord(path):
    row = np.ones((1, 1 << 12), np.float32)
    ds = hd.range(SIZE >> 14).map_batches(
        lambda b: {"x": np.repeat(row, len(b["id"]), 0)}, compute="threads", batch_size=256
    )
    folder = path.with_name("made")
    ds.write_tfrecords(str(folder))
    (made,) = folder.iterdir()
    made.rename(path)
    return SIZE >> 14


def webdataset(path):
    data = bytes(1 << 16)
    with tarfile.open(path, "w") as archive:
        for i in range(SIZE >> 16):
            info = tarfile.TarInfo(f"{i:06}.bin")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return SIZE >> 16


def images(path):
    """The pixels are 20 times the limit."""
    image = pytest.importorskip("PIL.Image")
    file = io.BytesIO()
    image.fromarray(np.arange(256 * 256 * 3, dtype=np.uint8).reshape(256, 256, 3)).save(file, "JPEG")
    n = SIZE // (256 * 256 * 3)
    with tarfile.open(path, "w") as archive:
        for i in range(n):
            info = tarfile.TarInfo(f"{i:06}.jpg")
            info.size = len(file.getvalue())
            archive.addfile(info, io.BytesIO(file.getvalue()))
    return n


def arrow(path, new=pa.ipc.new_file):
    batch = pa.record_batch({"x": pa.FixedSizeListArray.from_arrays(pa.array(np.ones(1 << 18)), 1 << 10)})
    with new(str(path), batch.schema) as out:
        for _ in range(SIZE >> 21):
            out.write_batch(batch)
    return (SIZE >> 21) * 256


def arrow_stream(path):
    return arrow(path, pa.ipc.new_stream)


@pytest.mark.slow
@pytest.mark.parametrize(
    "make, reader, name, options",
    [
        (npy, "read_numpy", "a.npy", {}),
        (npz, "read_numpy", "a.npz", {}),
        (npz_deflated, "read_numpy", "b.npz", {}),
        (tfrecord, "read_tfrecords", "a.tfrecord", {}),
        (webdataset, "read_webdataset", "a.tar", {"decoder": None}),
        (images, "read_webdataset", "b.tar", {}),
        (arrow, "read_arrow", "a.arrow", {}),
        (arrow_stream, "read_arrow", "a.arrows", {}),
    ],
)
def test_within_the_limit(tmp_path, monkeypatch, make, reader, name, options):
    path = tmp_path / name
    rows = make(path)
    monkeypatch.setenv("HEADRACE_MEMORY_LIMIT", str(LIMIT))
    command = [sys.executable, "-c", READ, reader, str(path), repr(options)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    got, peak = map(int, done.stdout.split())
    path.unlink()
    print(name, peak >> 20)
    assert got == rows
    assert peak < LIMIT + 150e6
