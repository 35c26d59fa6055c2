"""The Python examples that need no trainer run as they stand (the others: test_guide.py, test_train.py)."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def run(name, *args):
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *map(str, args)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_convert_hdf5(tmp_path):
    h5py = pytest.importorskip("h5py")
    zarr = pytest.importorskip("zarr")
    pq = pytest.importorskip("pyarrow.parquet")
    with h5py.File(tmp_path / "a.h5", "w") as f:
        values = np.arange(70 * 300 * 400, dtype="f4").reshape(70, 300, 400)
        f.create_dataset("x", data=values, chunks=(70, 30, 40))
        f["t"] = np.arange(70)
    text = run("convert_hdf5.py", tmp_path / "a.h5", tmp_path / "out")
    assert "chunks (70, 30, 40): one row reads 70 times its bytes; advised: (4, 300, 400)" in text
    stored = zarr.open(str(tmp_path / "out" / "zarr"))["x"]
    assert (stored.chunks, stored.shards) == ((4, 300, 400), (64, 300, 400))
    assert float(stored[69, 299, 399]) == np.float32(70 * 300 * 400 - 1)
    (file,) = (tmp_path / "out" / "parquet").glob("*.parquet")
    assert pq.ParquetFile(file).metadata.num_row_groups == 2


def test_chunked_dataset(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import chunked_dataset

    chunked_dataset.write_chunks(tmp_path, files=1)
    fields = chunked_dataset.Fields(tmp_path)
    x, number = fields[95]
    assert (len(fields), number, tuple(x.shape)) == (96, 95, (4, 240, 240))
    assert abs(float(x[0].mean())) < 1e-3 and set(np.unique(x[3])) == {0.0, 1.0}
