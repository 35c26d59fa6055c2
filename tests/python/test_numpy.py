"""NumPy's files: the arrays of numpy.save come back; a damaged file is an error that names it."""

import io
import struct
import warnings
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import headrace.data as hd
from headrace._core import num_threads, set_num_threads
from headrace.exceptions import DataError, HeadraceError, UnsupportedError

KINDS = ["?", "i1", "<i2", ">i4", "<i8", "u1", ">u2", "<u4", ">u8", "<f2", ">f2", "<f4", ">f4", "<f8", ">f8"]


def column(ds, name="data"):
    """The column as one array of all rows."""
    parts = [b[name] for b in ds.iter_batches(batch_size=None, batch_format="numpy")]
    return np.concatenate(parts) if parts else None


def same(ds, want, name="data"):
    got = column(ds, name)
    if len(want) == 0:
        assert got is None or len(got) == 0
        return
    assert got.shape == want.shape
    assert got.dtype == want.dtype.newbyteorder("=")
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(7,), (5, 3), (4, 1, 3, 2), (0,), (0, 2), (300, 40)])
def test_plain(tmp_path, kind, order, shape):
    rng = np.random.default_rng(3)
    a = np.asarray(rng.integers(0, 100, shape).astype(kind), order=order)
    np.save(tmp_path / "a.npy", a)
    ds = hd.read_numpy(str(tmp_path / "a.npy"))
    assert ds.count() == shape[0]
    same(ds, a)
    np.savez(tmp_path / "a.npz", x=a, y=a)
    np.savez_compressed(tmp_path / "b.npz", x=a, y=a)
    for name in ("a.npz", "b.npz"):
        ds = hd.read_numpy(str(tmp_path / name))
        assert ds.schema().names == ["x", "y"]
        same(ds, a, "x")
        same(ds.select_columns(["y"]), a, "y")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    hnp.arrays(
        st.sampled_from([np.dtype(k) for k in KINDS]),
        hnp.array_shapes(max_dims=5, max_side=4),
        elements={"allow_nan": False},
    )
)
def test_random(tmp_path, a):
    np.save(tmp_path / "r.npy", a)
    same(hd.read_numpy(str(tmp_path / "r.npy")), a)


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_versions(tmp_path, version):
    a = np.arange(12.0).reshape(4, 3)
    with open(tmp_path / "v.npy", "wb") as f, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.lib.format.write_array(f, a, version=version)
    same(hd.read_numpy(str(tmp_path / "v.npy")), a)


def test_scalar(tmp_path):
    np.save(tmp_path / "s.npy", np.float32(2.5))
    assert hd.read_numpy(str(tmp_path / "s.npy")).take_all() == [{"data": 2.5}]


def test_complex_is_pairs(tmp_path):
    a = np.array([[1 + 2j, 3 - 4j], [5j, -6]], dtype=">c8")
    np.save(tmp_path / "c.npy", a)
    got = column(hd.read_numpy(str(tmp_path / "c.npy")))
    assert got.shape == (2, 2, 2) and got.dtype == np.float32
    np.testing.assert_array_equal(got[..., 0] + 1j * got[..., 1], a)


def test_times(tmp_path):
    pa = pytest.importorskip("pyarrow")
    for unit in ("ns", "us", "ms", "s", "m", "h", "D", "W", "25us"):
        a = np.array([0, 5, -7], dtype="i8").view(f"M8[{unit}]")
        a[1] = np.datetime64("NaT")
        np.save(tmp_path / "t.npy", a)
        t = pa.table(hd.read_numpy(str(tmp_path / "t.npy")).to_arrow())["data"]
        assert t.null_count == 1 and t.type.unit in ("s", "ms", "us", "ns")
        got = t.combine_chunks().cast(pa.int64()).to_pylist()
        want = a.astype(f"M8[{t.type.unit}]").astype("i8").tolist()
        assert [got[0], got[2]] == [want[0], want[2]], unit
    np.save(tmp_path / "d.npy", np.array([1, 2], dtype="m8[ms]"))
    spans = pa.table(hd.read_numpy(str(tmp_path / "d.npy")).to_arrow())
    assert str(spans.schema.field("data").type) == "duration[ms]"


def test_texts(tmp_path):
    u = np.array([["a", ""], ["grün", "日本😀"]], dtype=">U5")
    s = np.array([b"ab", b"", b"\0x", b"abc"], dtype="S3")
    np.save(tmp_path / "u.npy", u)
    np.save(tmp_path / "s.npy", s)
    assert [r["data"] for r in hd.read_numpy(str(tmp_path / "s.npy")).take_all()] == s.tolist()
    rows = [list(r["data"]) for r in hd.read_numpy(str(tmp_path / "u.npy")).take_all()]
    assert rows == u.tolist()


def test_structured(tmp_path):
    kind = np.dtype([("a", "<i4"), ("größe", ">f4", (2, 3)), ("n", "S4"), ("ok", "?")], align=True)
    a = np.zeros(1000, kind)
    rng = np.random.default_rng(1)
    a["a"], a["größe"], a["ok"] = rng.integers(0, 9, 1000), rng.random((1000, 2, 3)), rng.random(1000) < 0.5
    a["n"] = [b"x" * (i % 5) for i in range(1000)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.save(tmp_path / "s.npy", a)
    ds = hd.read_numpy(str(tmp_path / "s.npy"))
    assert ds.schema().names == ["a", "größe", "n", "ok"]
    for name in ("a", "größe", "ok"):
        same(ds, a[name], name)
    assert [r["n"] for r in ds.take_all()] == a["n"].tolist()


def test_order_is_the_same_for_any_threads(tmp_path):
    a = np.arange(4_000_000, dtype="u4").reshape(-1, 4)
    np.save(tmp_path / "a.npy", a)
    ds = hd.read_numpy(str(tmp_path / "a.npy"))
    try:
        for n in (1, 4):
            set_num_threads(n)
            assert num_threads() == n
            same(ds, a)
    finally:
        set_num_threads(0)
    np.save(tmp_path / "f.npy", np.asfortranarray(a))
    same(hd.read_numpy(str(tmp_path / "f.npy")), a)


def refused(path, *texts):
    with pytest.raises(HeadraceError) as e:
        hd.read_numpy(str(path)).materialize()
    for text in (path.name, *texts):
        assert text in str(e.value)


def test_objects_are_refused(tmp_path):
    np.save(tmp_path / "o.npy", np.array([{}, []], dtype=object), allow_pickle=True)
    refused(tmp_path / "o.npy", "Python objects")
    with pytest.raises(UnsupportedError, match="allow_pickle"):
        hd.read_numpy(str(tmp_path / "o.npy"), allow_pickle=True)


def test_damaged(tmp_path):
    buffer = io.BytesIO()
    np.save(buffer, np.arange(100.0).reshape(50, 2))
    data = buffer.getvalue()
    p = tmp_path / "bad.npy"
    for n in (0, 3, 9, 11, 60, 127, 128, 900):
        p.write_bytes(data[:n])
        refused(p)
    for old, new, text in [
        (b"(50, 2)", b"(99, 2)", "need 1584 bytes of data, there are 800"),
        (b"(50, 2)", b"(9999999999999999, 9999999999)", "2^63"),
        (b"(50, 2)", b"(50, -2)", "expected a number"),
        (b"'<f8'", b"'<f7'", "'<f7'"),
        (b"'<f8'", b"'|O8'", "Python objects"),
        (b"'<f8'", b"'<V9999999999'", "V99999"),
        (b"False", b"Maybe", "True or False"),
        (b"'shape'", b"'shApe'", "'shape'"),
    ]:
        p.write_bytes(data.replace(old, new))
        refused(p, text)
    p.write_bytes(data[:8] + b"\xff\xff" + data[10:])
    refused(p)
    p.write_bytes(b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + data[10:])
    refused(p, "header of")


def test_damaged_zip(tmp_path):
    a = np.arange(3000, dtype="i8") % 7
    np.savez_compressed(tmp_path / "z.npz", a=a, b=a)
    np.savez(tmp_path / "s.npz", a=a, b=a)
    for name in ("z.npz", "s.npz"):
        data = (tmp_path / name).read_bytes()
        p = tmp_path / ("bad_" + name)
        for n in (0, 2, 50, len(data) // 2, len(data) - 1, len(data) - 30):
            p.write_bytes(data[:n])
            refused(p)
        for at in (len(data) // 4, len(data) // 2 - 100):
            p.write_bytes(data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :])
            refused(p)
    np.savez(tmp_path / "two.npz", a=a, b=a[:5])
    refused(tmp_path / "two.npz", "'a' has 3000 rows, 'b' has 5")
    with zipfile.ZipFile(tmp_path / "no.npz", "w") as z:
        z.writestr("readme.txt", "nothing")
    refused(tmp_path / "no.npz", "none of which ends in .npy")


def test_zip64(tmp_path):
    with zipfile.ZipFile(tmp_path / "w.npz", "w") as z, z.open("a.npy", "w", force_zip64=True) as f:
        np.lib.format.write_array(f, np.arange(5))
    same(hd.read_numpy(str(tmp_path / "w.npz")), np.arange(5), "a")


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i8", "f2", "f4", "f8", "M8[ms]", "m8[us]"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 4)])
def test_written_arrays(tmp_path, dtype, shape):
    values = np.arange(500 * int(np.prod(shape))).reshape(500, *shape).astype(dtype)
    hd.from_numpy(values).write_numpy(tmp_path / "out", column="data", max_rows_per_file=200)
    files = sorted((tmp_path / "out").iterdir())
    back = [np.load(f) for f in files]
    assert [len(b) for b in back] == [200, 200, 100]
    assert back[0].dtype == values.dtype and (np.concatenate(back) == values).all()


def test_what_cannot_be_written(tmp_path):
    with pytest.raises(TypeError, match="column 'a' has a null"):
        hd.from_items([{"a": 1}, {"a": None}]).write_numpy(tmp_path / "x", column="a")
    with pytest.raises(TypeError, match="column 'a': rows have different lengths"):
        hd.from_items([{"a": [1]}, {"a": [1, 2]}]).write_numpy(tmp_path / "x", column="a")
    with pytest.raises(TypeError, match="column 'a' is string, for which NumPy has no type"):
        hd.from_items([{"a": "text"}]).write_numpy(tmp_path / "x", column="a")
    assert not list(tmp_path.glob("x/*"))


def test_arrays_that_are_not_all_of_the_file(tmp_path):
    """A smaller shape, or several arrays in one file; the story: the reader ignored the rest of the file."""
    path = tmp_path / "a.npy"
    out = io.BytesIO()
    np.save(out, np.arange(300))
    data = out.getvalue()
    for damaged in (data.replace(b"(300,)", b"(30,) "), data + data, data + b"x"):
        path.write_bytes(damaged)
        with pytest.raises(
            DataError, match=r"a.npy: byte 128: shape and type need \d+ bytes of data, there are \d+"
        ):
            hd.read_numpy(str(path)).to_arrow()
    for damaged, message in (
        (data.replace(b"    \n", b"\0\0\0\0\n"), "expected the end"),
        (data.replace(b"<i8", b"<i\0"), "expected a character, not a NUL"),
    ):
        assert damaged != data
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=f"a.npy: header, byte .*{message}"):
            hd.read_numpy(str(path)).to_arrow()
    out = io.BytesIO()
    np.save(out, np.zeros(3, dtype="i4, f8"))
    path.write_bytes(out.getvalue().replace(b"'f1'", b"'f0'"))
    with pytest.raises(DataError, match="two fields are named 'f0'"):
        hd.read_numpy(str(path)).to_arrow()


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_archives_whose_parts_disagree(tmp_path, save):
    """An archive states names, sizes and checksums twice; the story: the reader checked only one of them."""
    out = io.BytesIO()
    save(out, long=np.arange(50), wide=np.arange(50) * 2)
    data = out.getvalue()
    directory = data.index(b"PK\1\2")
    path = tmp_path / "a.npz"

    def refused(damaged, message):
        assert damaged != data
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=f"a.npz: .*{message}"):
            hd.read_numpy(str(path)).to_arrow()

    name = data.index(b"wide.npy", directory)
    refused(
        data[:name] + b"w" + data[name + 1 :].replace(b"ide.npy", b"ise.npy", 1),
        "has another name in its own",
    )
    refused(data[:name] + b"wide.txt" + data[name + 8 :], "'wide.txt' has another name in its own header")
    refused(data[:8] + b"\x0c" + data[9:], "the directory and the header of 'long.npy' at byte 0 differ")
    refused(
        data[:14] + b"\1\2\3\4" + data[18:], "the directory and the header of 'long.npy' at byte 0 differ"
    )
    end = data.index(b"PK\5\6")
    refused(data[: end + 10] + b"\1\0" + data[end + 12 :], "1 members end here, the directory ends at")
    at = directory + 42
    second = struct.unpack_from("<I", data, data.index(b"PK\1\2", directory + 4) + 42)[0]
    moved = data[:at] + struct.pack("<I", second) + data[at + 4 :]
    refused(moved, "zip: '(long|wide).npy' (at byte|has another)")


def test_members_that_go_on(tmp_path):
    """Damage makes the unpacked member longer; only the checksum after its end detects it."""
    out = io.BytesIO()
    np.save(out, np.arange(10))
    member = out.getvalue()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("x.npy", member + b"more")
    data = bytearray(packed.getvalue())
    for signature, at in ((b"PK\3\4", 22), (b"PK\1\2", 24)):
        struct.pack_into("<I", data, data.index(signature) + at, len(member))
    (tmp_path / "a.npz").write_bytes(data)
    with pytest.raises(DataError, match="a.npz: 'x': goes on after its 208 bytes|gzip"):
        hd.read_numpy(str(tmp_path / "a.npz")).to_arrow()
