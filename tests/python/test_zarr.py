"""Zarr stores as the zarr package writes them, and damaged ones."""

import numpy as np
import pytest

import headrace.data as hd
from headrace.exceptions import DataError, InvalidArgument, NotFoundError

zarr = pytest.importorskip("zarr")


def column(ds, name="data"):
    return np.concatenate([b[name] for b in ds.iter_batches(batch_size=None, batch_format="numpy")])


@pytest.mark.parametrize("version", [2, 3])
def test_array(tmp_path, version):
    want = np.arange(100 * 7, dtype="f4").reshape(100, 7)
    a = zarr.create_array(
        str(tmp_path / "a.zarr"), shape=want.shape, chunks=(9, 4), dtype="f4", zarr_format=version
    )
    a[:] = want
    ds = hd.read_zarr(str(tmp_path / "a.zarr"))
    assert ds.count() == 100
    np.testing.assert_array_equal(column(ds), want)


def test_group(tmp_path):
    g = zarr.create_group(str(tmp_path / "g.zarr"))
    for name, shape in (("x", (10, 3)), ("y", (10,))):
        g.create_array(name, shape=shape, chunks=shape, dtype="i8")[:] = 1
    assert sorted(hd.read_zarr(str(tmp_path / "g.zarr")).take(1)[0]) == ["x", "y"]
    assert hd.read_zarr(str(tmp_path / "g.zarr"), arrays="y").take(1) == [{"y": 1}]
    with pytest.raises(NotFoundError, match="g.zarr: no array 'z'"):
        hd.read_zarr(str(tmp_path / "g.zarr"), arrays="z")
    g.create_array("z", shape=(3,), chunks=(3,), dtype="i8")
    with pytest.raises(InvalidArgument, match="g.zarr: first axes differ"):
        hd.read_zarr(str(tmp_path / "g.zarr"))


def test_missing_chunks_are_fill_values(tmp_path):
    zarr.create_array(str(tmp_path / "f.zarr"), shape=(5,), chunks=(2,), dtype="i4", fill_value=7)
    assert column(hd.read_zarr(str(tmp_path / "f.zarr"))).tolist() == [7] * 5


def test_damaged(tmp_path):
    a = zarr.create_array(str(tmp_path / "d.zarr"), shape=(50,), chunks=(10,), dtype="i8")
    a[:] = np.arange(50)
    chunk = tmp_path / "d.zarr" / "c" / "2"
    chunk.write_bytes(chunk.read_bytes()[:9])
    with pytest.raises(Exception, match=r"d.zarr: rows from 0"):
        hd.read_zarr(str(tmp_path / "d.zarr")).materialize()
    (tmp_path / "d.zarr" / "zarr.json").write_text('{"zarr_format": 3, "node_type": "array", "shape": [1')
    with pytest.raises(DataError, match="d.zarr"):
        hd.read_zarr(str(tmp_path / "d.zarr"))
    with pytest.raises(NotFoundError, match="no.zarr"):
        hd.read_zarr(str(tmp_path / "no.zarr"))
