"""Zarr stores by the zarr package, and damaged ones."""

import pickle

import numpy as np
import pytest
from object_server import ObjectServer, S3Server

import headrace.data as hd
from headrace.exceptions import DataError, HeadraceError, InvalidArgument, NotFoundError, UnsupportedError

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
    with pytest.raises(InvalidArgument, match="g.zarr: expected first axes of equal length"):
        hd.read_zarr(str(tmp_path / "g.zarr"))


@pytest.mark.parametrize("kind", ["M8", "m8"])
def test_times_finer_than_nanoseconds(tmp_path, kind):
    """The story: they were cut to nanoseconds; later the error did not name the store."""
    path = str(tmp_path / "t.zarr")
    a = zarr.create_array(path, shape=(3,), chunks=(3,), dtype=f"{kind}[ps]")
    a[:] = np.array([5000, "NaT", -(2**62) // 1000 * 1000], f"{kind}[ps]")
    made = column(hd.read_zarr(path))
    assert made.dtype == f"{kind}[ns]" and made.view("i8")[0] == 5 and np.isnat(made[1])
    assert made.view("i8")[2] == -(2**62) // 1000
    a[2] = np.array(7, f"{kind}[ps]")
    with pytest.raises(UnsupportedError, match="t.zarr: expected whole nanoseconds, found the time .*7"):
        hd.read_zarr(path).take_all()


def test_missing_chunks_are_fill_values(tmp_path):
    zarr.create_array(str(tmp_path / "f.zarr"), shape=(5,), chunks=(2,), dtype="i4", fill_value=7)
    assert column(hd.read_zarr(str(tmp_path / "f.zarr"))).tolist() == [7] * 5


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("compressor", ["zstd", "gzip", "none"])
def test_codecs_and_orders(tmp_path, version, compressor):
    from zarr import codecs

    known = {2: {"zstd": "zstd", "gzip": "gzip"}, 3: {"zstd": codecs.ZstdCodec(), "gzip": codecs.GzipCodec()}}
    if version == 2:
        import numcodecs

        known[2] = {"zstd": numcodecs.Zstd(), "gzip": numcodecs.GZip()}
    want = np.random.default_rng(0).integers(0, 1000, (37, 5, 3)).astype(">i4" if version == 2 else "i4")
    a = zarr.create_array(
        str(tmp_path / "a.zarr"),
        shape=want.shape,
        chunks=(8, 5, 2),
        dtype=want.dtype,
        zarr_format=version,
        **({"order": "F"} if version == 2 else {}),
        compressors=known[version].get(compressor),
    )
    a[:] = want
    np.testing.assert_array_equal(column(hd.read_zarr(str(tmp_path / "a.zarr"))), want)


def test_shards(tmp_path):
    a = zarr.create_array(str(tmp_path / "s.zarr"), shape=(100, 4), chunks=(5, 4), shards=(20, 4), dtype="f8")
    a[:] = want = np.random.default_rng(0).random((100, 4))
    assert len(list((tmp_path / "s.zarr" / "c").iterdir())) == 5
    np.testing.assert_array_equal(column(hd.read_zarr(str(tmp_path / "s.zarr"))), want)
    shard = tmp_path / "s.zarr" / "c" / "3" / "0"
    good = shard.read_bytes()
    for bad in (good[:-7], good[:100], b"", good[:-3] + bytes([good[-3] ^ 1]) + good[-2:]):
        shard.write_bytes(bad)
        with pytest.raises(DataError, match=r"s.zarr: rows from \d+: "):
            hd.read_zarr(str(tmp_path / "s.zarr")).materialize()


@pytest.mark.parametrize("version", [2, 3])
def test_damaged_chunks(tmp_path, version):
    path = tmp_path / "d.zarr"
    a = zarr.create_array(str(path), shape=(50,), chunks=(10,), dtype="i8", zarr_format=version)
    a[:] = np.arange(50)
    chunk = path / "c" / "2" if version == 3 else path / "2"
    good = chunk.read_bytes()
    for bad in (good[:9], b"", b"\xff" * len(good), good[:-4]):
        chunk.write_bytes(bad)
        with pytest.raises(DataError, match=r"d.zarr: rows from 0: "):
            hd.read_zarr(str(path)).materialize()
    chunk.write_bytes(good)
    assert column(hd.read_zarr(str(path))).tolist() == list(range(50))


@pytest.mark.parametrize("version", [2, 3])
def test_damaged_descriptions(tmp_path, version):
    path = tmp_path / "m.zarr"
    zarr.create_array(str(path), shape=(50,), chunks=(10,), dtype="i8", zarr_format=version)
    about = path / ("zarr.json" if version == 3 else ".zarray")
    good = about.read_text()
    dtype = '"int64"' if version == 3 else '"<i8"'
    assert dtype in good and "50" in good
    for bad in (
        "",
        "{}",
        "[]",
        good[:-9],
        good.replace(dtype, '"int63"'),
        good.replace("50", '"x"', 1),
        "\0" * 20,
    ):
        about.write_text(bad)
        with pytest.raises((DataError, NotFoundError), match=r"m.zarr"):
            hd.read_zarr(str(path)).materialize()
    about.unlink()
    with pytest.raises((DataError, NotFoundError), match=r"m.zarr"):
        hd.read_zarr(str(path))
    with pytest.raises(NotFoundError, match="no.zarr"):
        hd.read_zarr(str(tmp_path / "no.zarr"))


@pytest.fixture
def s3(tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    (tmp_path / "bucket").mkdir()
    server = S3Server(tmp_path)
    yield server
    server.close()


def options_of(server):
    return {"endpoint": server.url, "key": server.key, "secret": server.secret}


@pytest.mark.parametrize("version", [2, 3])
def test_stores_of_urls(tmp_path, s3, version):
    """read_zarr took local paths only."""
    want = np.arange(60 * 3, dtype="f4").reshape(60, 3)
    g = zarr.create_group(str(tmp_path / "bucket/dir/g.zarr"), zarr_format=version)
    shards = {"shards": (20, 3)} if version == 3 else {}
    g.create_array("x", shape=want.shape, chunks=(10, 3), dtype="f4", **shards)[:] = want
    g.create_array("missing", shape=(60,), chunks=(10,), dtype="i4", fill_value=7)
    ds = hd.read_zarr("s3://bucket/dir/g.zarr/", storage_options=options_of(s3))
    assert ds.schema().names == ["missing", "x"] and ds.count() == 60
    np.testing.assert_array_equal(column(ds, "x"), want)
    assert set(column(ds, "missing").tolist()) == {7}
    s3.forget()
    one = hd.read_zarr("s3://bucket/dir/g.zarr/x", storage_options=options_of(s3))
    np.testing.assert_array_equal(column(one), want)
    named = hd.read_zarr("s3://bucket/dir/g.zarr", arrays="x", storage_options=options_of(s3))
    assert pickle.loads(pickle.dumps(named)).take(1)[0]["x"].tolist() == [0, 1, 2]
    server = ObjectServer(tmp_path / "bucket")
    np.testing.assert_array_equal(column(hd.read_zarr(f"{server.url}/dir/g.zarr/x?sig=hush")), want)
    with pytest.raises(NotFoundError) as e:
        hd.read_zarr(f"{server.url}/dir/none?sig=hush")
    assert "hush" not in str(e.value)
    server.close()


def test_stores_of_filesystems():
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    a = zarr.create_array(
        zarr.storage.FsspecStore.from_url("memory://hr_zarr/a.zarr"), shape=(20,), chunks=(6,), dtype="i8"
    )
    a[:] = np.arange(20)
    try:
        assert column(hd.read_zarr("/hr_zarr/a.zarr", filesystem=memory)).tolist() == list(range(20))
    finally:
        memory.rm("/hr_zarr", recursive=True)


def test_errors_of_stores(tmp_path, s3):
    given = options_of(s3)
    with pytest.raises(NotFoundError, match="s3://bucket/none: no Zarr store"):
        hd.read_zarr("s3://bucket/none", storage_options=given)
    a = zarr.create_array(str(tmp_path / "bucket/a.zarr"), shape=(8,), chunks=(2,), shards=(4,), dtype="i4")
    a[:] = 1
    ds = hd.read_zarr("s3://bucket/a.zarr", storage_options=given)
    (tmp_path / "bucket/a.zarr/c/1").write_bytes(b"")
    with pytest.raises(DataError, match=r"s3://bucket/a.zarr: rows from 0: c/1: the shard is empty"):
        ds.take_all()
    with pytest.raises(HeadraceError, match="s3://bucket") as e:
        hd.read_zarr("s3://bucket/a.zarr", storage_options=given | {"secret": "hush"})
    assert "hush" not in str(e.value) and type(e.value) is not NotFoundError
