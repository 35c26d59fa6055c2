"""TFRecord files of tf.train.Example against an encoder in this file: every layout, damage anywhere."""

import gzip
import struct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import headrace.data as hd
from headrace._core import set_num_threads
from headrace.exceptions import DataError, HeadraceError, InvalidArgument, TypeMismatchError, UnsupportedError

TABLE = []
for i in range(256):
    c = i
    for _ in range(8):
        c = c >> 1 ^ (0x82F63B78 if c & 1 else 0)
    TABLE.append(c)


def masked_crc(data):
    c = 0xFFFFFFFF
    for b in data:
        c = c >> 8 ^ TABLE[(c ^ b) & 255]
    c ^= 0xFFFFFFFF
    return ((c >> 15 | c << 17) + 0xA282EAD8) & 0xFFFFFFFF


def record(payload):
    head = struct.pack("<Q", len(payload))
    return head + struct.pack("<I", masked_crc(head)) + payload + struct.pack("<I", masked_crc(payload))


def varint(n):
    n &= (1 << 64) - 1
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes(out) + bytes([n])


def part(number, payload):
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def feature(values, packed=True):
    if all(isinstance(v, bytes) for v in values) and values:
        return part(1, b"".join(part(1, v) for v in values))
    if values and isinstance(values[0], float):
        if packed:
            return part(2, part(1, struct.pack(f"<{len(values)}f", *values)))
        return part(2, b"".join(b"\x0d" + struct.pack("<f", v) for v in values))
    if packed:
        return part(3, part(1, b"".join(varint(v) for v in values)))
    return part(3, b"".join(b"\x08" + varint(v) for v in values))


def example(features, packed=True, extra=b""):
    entries = [
        part(1, part(1, k.encode()) + part(2, feature(v, packed)) + extra) for k, v in features.items()
    ]
    return extra + part(1, b"".join(entries) + extra)


def rows(path, **options):
    return hd.read_tfrecords(str(path), **options).take_all()


def test_kinds(tmp_path):
    p = tmp_path / "a.tfrecord"
    p.write_bytes(
        record(example({"i": [7], "f": [0.5], "b": [b"x"], "l": [1, -2, 3], "s": [b"a"]}))
        + record(example({"i": [-1], "b": [b""], "l": [5], "s": [b"", b"bc"]}))
        + record(example({}))
    )
    ds = hd.read_tfrecords(str(p))
    assert ds.count() == 3 and ds.schema().names == ["b", "f", "i", "l", "s"]
    got = ds.take_all()
    assert [r["i"] for r in got] == [7, -1, None]
    assert [r["f"] for r in got] == [0.5, None, None]
    assert [r["b"] for r in got] == [b"x", b"", None]
    assert [None if r["l"] is None else list(r["l"]) for r in got] == [[1, -2, 3], [5], None]
    assert [None if r["s"] is None else list(r["s"]) for r in got] == [[b"a"], [b"", b"bc"], None]
    assert [r["bytes"] for r in rows(p, raw=True)][2] == example({})


VALUES = st.one_of(
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=4),
    st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=4),
    st.lists(st.binary(max_size=9), min_size=1, max_size=4),
)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data(), st.booleans(), st.sampled_from([b"", part(9, b"xyz"), b"\x58\x96\x01", b"\x65abcd"]))
def test_random(tmp_path, data, packed, extra):
    kinds = data.draw(
        st.dictionaries(st.text(min_size=1, max_size=5).filter(lambda s: "\0" not in s), VALUES, max_size=5)
    )
    many = []
    for _ in range(data.draw(st.integers(1, 5))):
        one = {}
        for name, sample in kinds.items():
            kind = type(sample[0])
            other = data.draw(st.one_of(st.none(), VALUES.filter(lambda v, k=kind: type(v[0]) is k)))
            if other is not None:
                one[name] = other
        many.append(one)
    p = tmp_path / "r.tfrecord"
    try:
        p.write_bytes(b"".join(record(example(m, packed, extra)) for m in many))
    except UnicodeEncodeError:
        return
    got = rows(p)
    assert len(got) == len(many)
    for g, m in zip(got, many, strict=True):
        for name in g:
            value = g[name]
            value = (
                []
                if value is None
                else list(value)
                if hasattr(value, "__iter__") and not isinstance(value, bytes)
                else [value]
            )
            assert value == m.get(name, []), name


def test_files_of_one_schema(tmp_path):
    (tmp_path / "a.tfrecord").write_bytes(record(example({"x": [1], "y": [1, 2]})))
    (tmp_path / "b.tfrecord").write_bytes(record(example({"y": [3], "z": [4]})))
    got = rows(tmp_path)
    assert [(r["x"], list(r["y"])) for r in got] == [(1, [1, 2]), (None, [3])]


def test_sample_and_schema(tmp_path):
    p = tmp_path / "late.tfrecord"
    p.write_bytes(
        b"".join(record(example({"x": [i]})) for i in range(10)) + record(example({"x": [1, 2], "y": [3]}))
    )
    with pytest.raises(TypeMismatchError, match=r"late.tfrecord: record 10: feature 'y' is in none"):
        rows(p, sample=1)
    assert [list(r["x"]) for r in rows(p)][-1] == [1, 2]
    assert rows(p, tf_schema={"y": "int64"})[-1] == {"y": 3}
    assert list(rows(p, tf_schema={"x": "list<int64>"})[-1]["x"]) == [1, 2]
    with pytest.raises(TypeMismatchError, match=r"record 10: feature 'x' has 2 values, expected at most one"):
        rows(p, tf_schema={"x": "int64"})
    with pytest.raises(TypeMismatchError, match=r"record 0: feature 'x' is int64, expected float"):
        rows(p, tf_schema={"x": "float"})
    with pytest.raises(InvalidArgument, match="tf_schema"):
        rows(p, tf_schema={"x": "int32"})
    with pytest.raises(InvalidArgument, match="tf_schema"):
        rows(p, tf_schema=["x"])


@pytest.mark.parametrize("gz", [False, True])
def test_fragments_and_threads(tmp_path, gz):
    data = b"".join(record(example({"i": [i], "b": [bytes([i % 256]) * (i % 3000)]})) for i in range(9000))
    p = tmp_path / ("big.tfrecord.gz" if gz else "big.tfrecord")
    p.write_bytes(gzip.compress(data, 1) if gz else data)
    ds = hd.read_tfrecords(str(p))
    try:
        for n in (1, 4):
            set_num_threads(n)
            got = ds.take_all()
            assert [r["i"] for r in got] == list(range(9000))
            assert all(r["b"] == bytes([i % 256]) * (i % 3000) for i, r in enumerate(got))
    finally:
        set_num_threads(0)
    assert ds.select_columns(["i"]).take(2) == [{"i": 0}, {"i": 1}]


def test_sequence_examples_are_refused(tmp_path):
    p = tmp_path / "seq.tfrecord"
    p.write_bytes(record(example({"x": [1]}) + part(2, part(1, b""))))
    with pytest.raises(UnsupportedError, match="seq.tfrecord: record 0: a tf.train.SequenceExample"):
        rows(p)


def test_damage(tmp_path):
    good = [record(example({"x": [i], "s": [b"text"] * (i % 3)})) for i in range(4)]
    data = b"".join(good)
    p = tmp_path / "bad.tfrecord"
    borders = {len(b"".join(good[:i])) for i in range(5)}
    for n in range(1, len(data)):
        p.write_bytes(data[:n])
        if n in borders:
            assert len(rows(p)) < 4
        else:
            with pytest.raises(HeadraceError, match="bad.tfrecord"):
                rows(p)
    for at in range(len(data)):
        p.write_bytes(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
        with pytest.raises(DataError, match=r"bad.tfrecord"):
            rows(p, tf_schema={"x": "int64"})
    flipped = bytearray(good[0])
    flipped[-1] ^= 1
    p.write_bytes(good[1] + flipped)
    with pytest.raises(DataError, match=rf"record 1 at byte {len(good[1])}: the payload's checksum"):
        rows(p)
    assert len(rows(p, check=False)) == 2
    for bad in (
        b"\x0a\x05abc",
        b"\xff" * 20,
        b"\x07",
        b"\x0b",
        part(1, b"\x0a\x09x"),
        part(1, part(1, part(2, part(2, part(1, b"abc"))))),
    ):
        p.write_bytes(record(bad))
        with pytest.raises(DataError, match="bad.tfrecord: record 0: not a tf.train.Example"):
            rows(p)
    overlong = part(1, part(1, part(1, b"x") + part(2, part(3, part(1, b"\x80" * 11 + b"\x01")))))
    p.write_bytes(record(overlong))
    with pytest.raises(DataError, match="bad.tfrecord"):
        rows(p)


def test_a_length_that_lies_costs_nothing(tmp_path):
    head = struct.pack("<Q", 1 << 29)
    frame = head + struct.pack("<I", masked_crc(head)) + b"x" * 50
    for name, data in (("lie.tfrecord", frame), ("lie.tfrecord.gz", gzip.compress(frame))):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(DataError, match=f"{name}: record 0 at byte 0"):
            rows(tmp_path / name)


def test_written_records_are_those_of_our_own_encoder(tmp_path):
    rows = [
        {
            "i": i - 3,
            "f": i / 4,
            "s": f"text {i}",
            "b": i % 2 == 0,
            "l": list(range(-i, i)),
            "n": None if i % 3 else i,
        }
        for i in range(40)
    ]
    hd.from_items(rows).write_tfrecords(tmp_path / "out")
    (path,) = (tmp_path / "out").iterdir()
    want = b""
    for row in rows:
        features = {}
        for name, value in row.items():
            if value is None:
                continue
            values = value if isinstance(value, list) else [value]
            features[name] = [
                v.encode() if isinstance(v, str) else int(v) if isinstance(v, bool) else v for v in values
            ]
        want += record(example(features))
    assert path.read_bytes() == want
    back = hd.read_tfrecords(path).take_all()
    assert [r["i"] for r in back] == [r["i"] for r in rows] and [r["n"] for r in back] == [
        r["n"] for r in rows
    ]


def test_what_cannot_be_written(tmp_path):
    with pytest.raises(TypeError, match="column 't' is timestamp.*integers, floats and bytes"):
        import datetime

        hd.from_items([{"t": datetime.datetime(2026, 1, 1)}]).write_tfrecords(tmp_path / "x")
    with pytest.raises(TypeError, match="column 'l' has a null inside a list"):
        hd.from_items([{"l": [1, None]}]).write_tfrecords(tmp_path / "x")
