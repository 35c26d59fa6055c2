"""Tables and columns: Arrow in and out, Python objects, numpy views, pickles, against pyarrow for every
type.
"""

import datetime
import decimal
import gc
import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace.data as hd
from headrace import _core
from headrace._core import InvalidArgument, Table, TypeMismatchError
from headrace.data import blocks

UTC = datetime.UTC
D = decimal.Decimal
F5 = range(5)


@pytest.fixture
def no_pickles(monkeypatch):
    """Values without a type are an error here; columns of Python objects: test_objects.py."""
    context = hd.DataContext.get_current()
    monkeypatch.setattr(context, "enable_fallback_to_arrow_object_ext_type", False)


# type, values without nulls
TYPES = [
    (pa.null(), [None, None, None, None, None]),
    (pa.bool_(), [True, False, True, True, False]),
    (pa.int8(), [-128, 0, 1, 2, 127]),
    (pa.uint8(), [0, 1, 2, 200, 255]),
    (pa.int16(), [-32768, 0, 1, 2, 32767]),
    (pa.uint16(), [0, 1, 2, 3, 65535]),
    (pa.int32(), [-(2**31), 0, 1, 2, 2**31 - 1]),
    (pa.uint32(), [0, 1, 2, 3, 2**32 - 1]),
    (pa.int64(), [-(2**63), 0, 1, 2, 2**63 - 1]),
    (pa.uint64(), [0, 1, 2, 3, 2**64 - 1]),
    (pa.float16(), [np.float16(v) for v in (-1.5, 0, 0.0999755859375, 65504, 6e-8)]),
    (pa.float32(), [-1.5, 0.0, 0.25, 3e38, float("inf")]),
    (pa.float64(), [-1.5, 0.0, 0.1, 1e300, float("-inf")]),
    (pa.string(), ["", "a", "ä€😀", "long enough to be no neighbour of its own cache line", "a"]),
    (pa.large_string(), ["", "a", "ä€😀", "b", "a"]),
    (pa.binary(), [b"", b"a", b"\0\xff", b"b", b"a"]),
    (pa.large_binary(), [b"", b"a", b"\0\xff", b"b", b"a"]),
    (pa.binary(3), [b"abc", b"\0\0\0", b"xyz", b"abc", b"\xff\xff\xff"]),
    (pa.date32(), [datetime.date(1, 1, 1), datetime.date(1970, 1, 1), datetime.date(2024, 2, 29)] * 1
     + [datetime.date(9999, 12, 31), datetime.date(1969, 12, 31)]),
    (pa.date64(), [datetime.date(1970, 1, 1), datetime.date(2024, 2, 29), datetime.date(1960, 1, 2)] * 1
     + [datetime.date(2000, 1, 1), datetime.date(1999, 1, 1)]),
    (pa.time32("s"), [datetime.time(0, 0, s) for s in range(5)]),
    (pa.time32("ms"), [datetime.time(23, 59, 59, s * 1000) for s in range(5)]),
    (pa.time64("us"), [datetime.time(12, 0, 0, s) for s in range(5)]),
    (pa.timestamp("s"), [datetime.datetime(2024, 1, 1, s) for s in range(5)]),
    (pa.timestamp("ms"), [datetime.datetime(1960, 1, 1, 0, 0, 0, s * 1000) for s in range(5)]),
    (pa.timestamp("us"), [datetime.datetime(1, 1, 1, 0, 0, 0, s) for s in range(5)]),
    (pa.timestamp("us", "UTC"), [datetime.datetime(2024, 1, 1, s, tzinfo=UTC) for s in range(5)]),
    (pa.timestamp("ms", "Europe/Berlin"), [datetime.datetime(2024, 7, 1, s, tzinfo=UTC) for s in range(5)]),
    (pa.timestamp("s", "+05:30"), [datetime.datetime(2024, 7, 1, s, tzinfo=UTC) for s in range(5)]),
    (pa.duration("s"), [datetime.timedelta(days=d) for d in range(-2, 3)]),
    (pa.duration("us"), [datetime.timedelta(microseconds=d) for d in range(-2, 3)]),
    (pa.decimal128(20, 3), [D("0.001"), D("-1.500"), D("12345678901234567.890"), D("0.000"), D("1.000")]),
    (pa.decimal256(60, 10), [D("0.0000000001"), D("-1.5"), D(10) ** 40, D(0), D(-1)]),
    (pa.list_(pa.int64()), [[1, 2], [], [3], [4, 5, 6], [7]]),
    (pa.list_(pa.string()), [["a", "b"], [], ["c"], [""], ["d"]]),
    (pa.large_list(pa.float32()), [[1.0], [2.0, 3.0], [], [4.0], [5.0]]),
    (pa.list_(pa.int32(), 2), [[1, 2], [3, 4], [5, 6], [7, 8], [9, 10]]),
    (pa.list_(pa.list_(pa.int16())), [[[1], [2, 3]], [], [[]], [[4]], [[5, 6]]]),
    (pa.list_(pa.bool_()), [[True], [False, True], [], [True], [False]]),
    (pa.struct([("a", pa.int32()), ("b", pa.string())]), [{"a": i, "b": str(i)} for i in range(5)]),
    (pa.struct([("a", pa.list_(pa.struct([("x", pa.bool_())])))]), [{"a": [{"x": True}] * n} for n in F5]),
    (pa.map_(pa.string(), pa.int32()), [[("a", 1)], [], [("b", 2), ("c", 3)], [("d", 4)], [("e", 5)]]),
]  # fmt: skip
IDS = [str(t) for t, _ in TYPES]


def with_nulls(values):
    return [None, *values[1:3], None, values[4]]


def core_of(table):
    """One Table of a pyarrow table."""
    tables = _core.from_arrow(table)
    return tables[0] if len(tables) == 1 else Table.concat(tables)


def back(table):
    return pa.table(table)


def same(a, b):
    """Values equal, NaN equal to NaN."""
    return repr(a) == repr(b) or a == b


def variants(arrow_type, values):
    """The values unchanged, with nulls, sliced, sliced with nulls, sliced to no rows."""
    plain = pa.array(values, arrow_type)
    nulls = pa.array(with_nulls(values), arrow_type)
    return {
        "plain": plain,
        "nulls": nulls,
        "slice": plain[1:4],
        "null slice": nulls[1:5],
        "empty": plain[2:2],
    }


@pytest.mark.parametrize(("arrow_type", "values"), TYPES, ids=IDS)
def test_arrow_round_trip(arrow_type, values):
    for name, array in variants(arrow_type, values).items():
        source = pa.table({"c": array})
        table = core_of(source)
        assert table.num_rows == len(array), name
        result = back(table)
        result.validate(full=True)
        assert result.schema.field("c").type == arrow_type, name
        assert result.column("c").to_pylist() == source.column("c").to_pylist(), name
        assert pa.array(table.column("c")).to_pylist() == array.to_pylist(), name


@pytest.mark.parametrize(("arrow_type", "values"), TYPES, ids=IDS)
def test_python_objects(arrow_type, values):
    for name, array in variants(arrow_type, values).items():
        table = core_of(pa.table({"c": array}))
        expected = array.to_pylist()
        found = table.column("c").to_pylist()
        assert found == expected, name
        assert [type(v) for v in found] == [type(v) for v in expected], name
        assert table.to_pylist() == [{"c": v} for v in expected], name
        into = np.empty(len(array), object)
        assert table.column(0).fill(into).tolist() == expected


@pytest.mark.parametrize(("arrow_type", "values"), TYPES, ids=IDS)
def test_slices_and_pickles(arrow_type, values):
    for name, array in variants(arrow_type, values).items():
        table = core_of(pa.table({"c": array, "row": pa.array(range(len(array)), pa.int64())}))
        for begin in range(table.num_rows + 1):
            part = table.slice(begin, table.num_rows - begin)
            assert part.column("c").to_pylist() == array.to_pylist()[begin:], name
            again = pickle.loads(pickle.dumps(part))
            assert again == part and again.schema == part.schema, name
            assert again.column("c").to_pylist() == array.to_pylist()[begin:], name


@pytest.mark.parametrize(("arrow_type", "values"), TYPES, ids=IDS)
def test_concat(arrow_type, values):
    both = [pa.array(values, arrow_type)[1:], pa.array(with_nulls(values), arrow_type)[:4]]
    tables = [core_of(pa.table({"c": a})) for a in both]
    whole = Table.concat([tables[0], tables[1], tables[0]])
    assert whole.column("c").to_pylist() == both[0].to_pylist() + both[1].to_pylist() + both[0].to_pylist()
    assert whole.sole


def test_nanoseconds_are_not_lost():
    stamps = pa.array([1, None, 1_700_000_000_123_456_789], pa.timestamp("ns"))
    spans = pa.array([1, None, -5], pa.duration("ns"))
    table = core_of(pa.table({"t": stamps, "d": spans}))
    assert table.column("t").to_pylist() == [
        np.datetime64(1, "ns"),
        None,
        np.datetime64(1_700_000_000_123_456_789, "ns"),
    ]
    assert table.column("d").to_pylist() == [np.timedelta64(1, "ns"), None, np.timedelta64(-5, "ns")]


def test_values_outside_of_datetime():
    table = core_of(
        pa.table(
            {"d": pa.array([10**6, -(10**6)], pa.date32()), "t": pa.array([2**62, 0], pa.timestamp("s"))}
        )
    )
    assert table.column("d").to_pylist() == [np.datetime64(10**6, "D"), np.datetime64(-(10**6), "D")]
    assert table.column("t").to_pylist() == [np.datetime64(2**62, "s"), datetime.datetime(1970, 1, 1)]


def test_encoded_types_are_decoded():
    dictionary = pa.array(["a", "b", None, "a"]).dictionary_encode()
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 4], pa.int32()), pa.array([1, None]))
    views = pa.array(["a", "a string of more than twelve bytes", None, ""], pa.string_view())
    found = core_of(pa.table({"d": dictionary, "r": runs, "v": views}))
    assert [t.removeprefix("large_") for t in found.schema.types] == ["string", "int64", "string"]
    assert [c.to_pylist() for c in back(found).columns] == [a.to_pylist() for a in (dictionary, runs, views)]


def test_tensor_type():
    values = pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(24, dtype=np.float32).reshape(4, 2, 3))
    table = core_of(pa.table({"x": values}))
    column = table.column("x")
    assert column.kind == "tensor" and column.shape == (2, 3)
    assert np.array_equal(np.asarray(column), np.arange(24, dtype=np.float32).reshape(4, 2, 3))
    assert back(table).schema.field("x").type == values.type
    sliced = table.slice(1, 2)
    assert np.array_equal(np.asarray(sliced.column("x")), np.asarray(column)[1:3])
    assert sliced.column("x").to_pylist() == np.asarray(column)[1:3].tolist()
    columnwise = pa.fixed_shape_tensor(pa.int32(), [2, 2], permutation=[1, 0])
    storage = pa.array([[1, 2, 3, 4]], columnwise.storage_type)
    assert (
        core_of(pa.table({"x": pa.ExtensionArray.from_storage(columnwise, storage)})).column("x").kind
        == "list"
    )


# -------------------------------------------------------------------------------------- the buffer protocol

NUMPY = [
    np.int8,
    np.uint8,
    np.int16,
    np.uint16,
    np.int32,
    np.uint32,
    np.int64,
    np.uint64,
    np.float16,
    np.float32,
    np.float64,
]


@pytest.mark.parametrize("dtype", NUMPY, ids=lambda t: t.__name__)
def test_numpy_views_share_memory(dtype):
    values = np.arange(100).astype(dtype)
    table = Table.build({"c": values})
    seen = np.asarray(table.column("c"))
    assert seen.dtype == np.dtype(dtype) and seen.dtype.type is dtype
    assert np.array_equal(seen, values)
    assert not seen.flags.writeable
    again = np.asarray(table.slice(10, 5).column("c"))
    assert np.array_equal(again, values[10:15])
    assert np.shares_memory(seen, again)
    kept = again
    del table, seen, again
    gc.collect()
    assert np.array_equal(kept, values[10:15])


def test_writable_only_if_sole():
    table = Table.build({"c": np.arange(5)})
    assert not table.sole
    own = Table.concat([table])
    assert own.sole
    np.asarray(own.column("c"))[2] = 7
    assert own.column("c").to_pylist() == [0, 1, 7, 3, 4]
    assert table.column("c").to_pylist() == [0, 1, 2, 3, 4]
    assert not np.asarray(own.column("c", writable=False)).flags.writeable
    assert memoryview(table.column("c")).readonly and not memoryview(own.column("c")).readonly


def test_dense_lists():
    lists = pa.array([[1, 2, 3], [4, 5, 6], [7, 8, 9], [10, 11, 12]], pa.list_(pa.int32()))
    column = core_of(pa.table({"c": lists})).column("c")
    assert column.dense and np.asarray(column).shape == (4, 3)
    sliced = core_of(pa.table({"c": lists[1:3]})).column("c")
    assert np.asarray(sliced).tolist() == [[4, 5, 6], [7, 8, 9]]
    images = np.arange(2 * 5 * 7).reshape(2, 5, 7)
    nested = core_of(pa.table({"c": pa.array(images.tolist())})).column("c")
    assert np.array_equal(np.asarray(nested), images)


@pytest.mark.parametrize(
    "values",
    [[[1], [2, 3]], [[1], None], [[1, None], [2, 3]], [[[1], [2]], [[3, 4], [5, 6]]], [["a"], ["b"]]],
    ids=["ragged", "null row", "null value", "ragged inside", "text"],
)
def test_not_dense(values):
    column = core_of(pa.table({"c": pa.array(values)})).column("c")
    assert not column.dense
    with pytest.raises(BufferError, match="'c'"):
        memoryview(column)


def test_booleans_are_bytes():
    values = [True, False, True] * 7
    column = core_of(pa.table({"c": pa.array(values)[3:]})).column("c")
    assert np.asarray(column).dtype == np.bool_
    assert np.asarray(column).tolist() == values[3:]
    masks = np.random.default_rng(1).random((5, 3, 9)) > 0.5
    tensor = Table.build({"m": masks}).slice(1, 3).column("m")
    assert np.array_equal(np.asarray(tensor), masks[1:4])


def test_memory_is_given_back():
    gc.collect()
    before = _core.live_bytes()
    table = Table.build({"c": np.zeros(1 << 20), "s": ["x" * 10] * (1 << 20)})
    view = np.asarray(table.column("c"))
    foreign = core_of(back(table))
    assert _core.live_bytes() > before + (8 << 20)
    del table
    del view, foreign
    gc.collect()
    assert _core.live_bytes() <= before + 4096


# ------------------------------------------------------------------------------------ numpy with exceptions


def numpy_of(values, arrow_type=None):
    table = core_of(pa.table({"c": pa.array(values, arrow_type)}))
    return blocks.table_to_numpy(table)["c"]


def test_numpy_with_nulls():
    assert np.array_equal(numpy_of([1, None, 3]), [1.0, np.nan, 3.0], equal_nan=True)
    single = numpy_of([1.5, None], pa.float32())
    assert single.dtype == np.float32 and np.isnan(single[1])
    assert numpy_of([True, None]).tolist() == [True, None]
    assert numpy_of(["a", None]).tolist() == ["a", None]
    days = numpy_of([datetime.date(2024, 1, 1), None])
    assert days.dtype == "M8[D]" and np.isnat(days[1]) and days[0] == np.datetime64("2024-01-01")
    stamps = numpy_of([datetime.datetime(2024, 1, 1), None])
    assert stamps.dtype == "M8[us]" and np.isnat(stamps[1])
    assert np.isnan(numpy_of([None, None], pa.null())).all()


def test_numpy_of_times():
    stamps = [datetime.datetime(2024, 1, 1, 0, 0, s) for s in range(3)]
    assert numpy_of(stamps, pa.timestamp("ms")).dtype == "M8[ms]"
    assert numpy_of(stamps, pa.timestamp("ms")).tolist() == stamps
    assert numpy_of([datetime.timedelta(seconds=1)], pa.duration("s")).dtype == "m8[s]"
    assert numpy_of([[stamps[0]], [stamps[1]]], pa.list_(pa.timestamp("s"))).dtype == "M8[s]"
    assert numpy_of([datetime.time(1, 2, 3)]).tolist() == [datetime.time(1, 2, 3)]


def test_numpy_of_ragged():
    found = numpy_of([[1, 2], [], None, [3]])
    assert found.dtype == object
    assert [None if v is None else v.tolist() for v in found] == [[1, 2], [], None, [3]]
    assert found[0].dtype == np.int64
    images = numpy_of([[[1, 2], [3, 4], [5, 6]], [[7, 8, 9]], [[1], [2, 3]]])
    assert images[0].shape == (3, 2) and images[1].shape == (1, 3)
    assert [v.tolist() for v in images[2]] == [[1], [2, 3]]
    words = numpy_of([["a"], ["b", "c"], None])
    assert [v if v is None else v.tolist() for v in words] == [["a"], ["b", "c"], None]
    assert words[0].dtype == object  # as in Ray: `words[1] == "c"` is asked of each
    assert numpy_of([[1, None], [2, 3]])[1].tolist() == [2.0, 3.0]


def test_numpy_of_tensor_with_nulls():
    shape = pa.fixed_shape_tensor(pa.int32(), [2, 2])
    storage = pa.array([[1, 2, 3, 4], None, [5, 6, 7, 8]], shape.storage_type)
    found = blocks.table_to_numpy(core_of(pa.table({"c": pa.ExtensionArray.from_storage(shape, storage)})))[
        "c"
    ]
    assert found[1] is None and found[2].tolist() == [[5, 6], [7, 8]]


def test_rows():
    table = core_of(
        pa.table({"i": [1, 2], "x": [[1.0], [2.0]], "r": [[1], [2, 3]], "s": ["a", None], "t": [["p"], []]})
    )
    one, two = blocks.rows_of(table, writable=True)
    assert one["i"] == 1 and type(one["i"]) is int
    assert isinstance(one["x"], np.ndarray) and one["x"].flags.writeable
    assert two["r"].tolist() == [2, 3] and two["s"] is None and two["t"] == []
    assert list(one) == ["i", "x", "r", "s", "t"]


# ------------------------------------------------------------------------------------- building from Python


def build(values):
    return Table.build({"c": values})


def kind(values):
    return build(values).schema.types[0]


def test_types_of_lists():
    assert kind([None, None]) == "null"
    assert kind([True, None]) == "bool"
    assert kind([1, 2]) == "int64"
    assert kind([1, 2**63]) == "uint64"
    assert kind([1, 2.5]) == "double"
    assert kind(["a", None]) == "string"
    assert kind([b"a", bytearray(b"b")]) == "binary"
    assert kind([[1], [2.5], None, []]) == "list<item: double>"
    assert kind([(1, 2), [3]]) == "list<item: int64>"
    assert kind([{"a": 1}, {"b": "x"}]) == "struct<a: int64, b: string>"
    assert kind([datetime.date(2024, 1, 1)]) == "date32[day]"
    assert kind([datetime.datetime(2024, 1, 1), None]) == "timestamp[us]"
    assert kind([datetime.datetime(2024, 1, 1, tzinfo=UTC)]) == "timestamp[us, tz=UTC]"
    assert kind([datetime.time(1)]) == "time64[us]"
    assert kind([datetime.timedelta(1)]) == "duration[us]"
    assert kind([D("1.50"), D("2")]) == "decimal128(3, 2)"
    assert kind([np.int32(1), np.int32(2)]) == "int32"
    assert kind([np.int32(1), np.uint16(2)]) == "int64"
    assert kind([np.float32(1), None]) == "float"
    assert kind([np.float32(1), 2]) == "double"
    assert kind([np.bool_(True), False]) == "bool"
    assert kind([np.datetime64("2024-01-01T00:00:00.001"), None]) == "timestamp[ms]"
    assert kind([]) == "null"


@pytest.mark.parametrize(
    ("arrow_type", "values"), TYPES[:-1], ids=IDS[:-1]
)  # a map's pairs are no column of one type
def test_objects_come_back(arrow_type, values):
    """A table from the objects of to_pylist() has the same values."""
    objects = with_nulls(pa.array(values, arrow_type).to_pylist())
    assert build(objects).column("c").to_pylist() == objects


def test_mixed_types_name_the_row(no_pickles):
    with pytest.raises(TypeMismatchError, match=r"column 'c', row 2: str, but row 0 has int"):
        build([1, 2, "x"])
    with pytest.raises(TypeMismatchError, match=r"column 'c', row 3: int, but row 1 has bool"):
        build([None, True, False, 1])
    with pytest.raises(TypeMismatchError, match=r"column 'c', row 1: .*str.*int"):
        build([[1], [2, "x"]])
    with pytest.raises(TypeMismatchError, match=r"column 'c', row 1: field 'a'.*str"):
        build([{"a": 1}, {"a": "x"}])
    with pytest.raises(TypeMismatchError, match="object"):
        build([object()])
    with pytest.raises(TypeMismatchError, match="64 bits"):
        build([2**64])
    with pytest.raises(TypeMismatchError, match="negative"):
        build([2**63, -1])
    with pytest.raises(TypeError, match="'c'.*int"):
        build(5)
    with pytest.raises(TypeError, match="'c'.*str"):
        build("text")
    with pytest.raises(TypeMismatchError, match="time zone"):
        build([datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 1, tzinfo=UTC)])
    with pytest.raises(InvalidArgument, match="'b' has 3 rows, column 'a' has 2"):
        Table.build({"a": [1, 2], "b": [1, 2, 3]})


def test_too_deep_is_an_error(no_pickles):
    deep = []
    for _ in range(500):
        deep = [deep]
    with pytest.raises(TypeMismatchError, match="levels of nesting"):
        build([deep])
    loop = []
    loop.append(loop)
    with pytest.raises(TypeMismatchError, match="levels of nesting"):
        build(loop)


@pytest.mark.parametrize("dtype", [*NUMPY, np.bool_], ids=lambda t: t.__name__)
def test_arrays(dtype):
    rng = np.random.default_rng(3)
    whole = (rng.random((6, 4, 5)) * 3).astype(dtype)
    for array in (
        whole[:, 0, 0],
        whole[::2, 1, 1],
        whole[::-1, 0, 0],
        np.asfortranarray(whole[:, :, 0]),
        whole[:, 1:3, ::2],
    ):
        table = build(array)
        assert np.array_equal(np.asarray(table.column("c")), array)
        assert np.asarray(table.column("c")).dtype == array.dtype
    broadcast = np.broadcast_to(whole[0, 0], (3, 5))
    assert np.array_equal(np.asarray(build(broadcast).column("c")), broadcast)
    assert kind(whole[:, 0]).startswith(("tensor", "fixed_size_list", "extension"))


def test_special_arrays():
    assert kind(np.array(["a", "bcd", ""])) == "string"
    assert build(np.array(["ä€😀", "bcd", ""])).column("c").to_pylist() == ["ä€😀", "bcd", ""]
    assert build(np.array([b"a", b"bcd", b""])).column("c").to_pylist() == [b"a", b"bcd", b""]
    assert build(np.array(["a", None, "b"], object)).column("c").to_pylist() == ["a", None, "b"]
    stamps = np.array(["2024-01-01", "NaT"], "M8[ms]")
    assert kind(stamps) == "timestamp[ms]"
    assert build(stamps).column("c").to_pylist() == [datetime.datetime(2024, 1, 1), None]
    days = np.array(["2024-01-01", "NaT"], "M8[D]")
    assert build(days).column("c").to_pylist() == [datetime.date(2024, 1, 1), None]
    assert build(np.array([1, "NaT"], "m8[ns]")).column("c").to_pylist() == [np.timedelta64(1, "ns"), None]
    assert kind(np.array([1], "m8[h]")) == "duration[s]"
    masked = np.ma.MaskedArray([1, 2, 3], [False, True, False])
    assert build(masked).column("c").to_pylist() == [1, None, 3]
    assert build(np.array([["a", "b"], ["c", "d"]])).column("c").to_pylist() == [["a", "b"], ["c", "d"]]
    with pytest.raises(TypeMismatchError, match="big-endian"):
        build(np.arange(3, dtype=">i4"))
    with pytest.raises(TypeMismatchError, match="'c'.*Zd"):
        build(np.zeros(2, complex))
    with pytest.raises(TypeMismatchError, match="one value per row"):
        build(np.array(5))
    assert build(range(3)).column("c").to_pylist() == [0, 1, 2]


def test_lists_of_arrays(no_pickles):
    equal = [np.full((2, 3), i, np.float32) for i in range(4)]
    table = build(equal)
    assert table.column("c").kind == "tensor" and table.column("c").shape == (2, 3)
    assert np.array_equal(np.asarray(table.column("c")), np.stack(equal))
    with_null = build([equal[0], None, equal[2]])
    assert with_null.column("c").to_pylist() == [equal[0].tolist(), None, equal[2].tolist()]
    assert kind([np.arange(3), np.arange(3)]) == "list<item: int64>"
    ragged = [np.arange(i) for i in range(4)]
    assert build(ragged).column("c").to_pylist() == [a.tolist() for a in ragged]
    images = [np.arange(h * w).reshape(h, w) for h, w in ((2, 3), (1, 5), (0, 4), (3, 1))]
    assert build(images).column("c").to_pylist() == [a.tolist() for a in images]
    cubes = [np.arange(8).reshape(2, 2, 2), np.arange(6).reshape(1, 2, 3), None]
    assert build(cubes).column("c").to_pylist() == [None if a is None else a.tolist() for a in cubes]
    strided = [np.arange(12).reshape(3, 4)[:, ::2], np.arange(6).reshape(2, 3).T]
    assert np.array_equal(np.asarray(build(strided).column("c")), np.stack(strided))
    mixed = build([np.arange(2), np.array([0.5, 1.5]), np.array([])])
    assert mixed.column("c").to_pylist() == [[0.0, 1.0], [0.5, 1.5], []]
    assert kind([np.arange(2), np.array([])]) == "list<item: int64>"
    assert build([np.array(["a", "bc"]), np.array(["d"])]).column("c").to_pylist() == [["a", "bc"], ["d"]]
    masks = [np.array([[True, False, True]]), np.array([[False, False, True]])]
    assert np.array_equal(np.asarray(build(masks).column("c")), np.stack(masks))
    with pytest.raises(TypeMismatchError, match="row 1.*dimensions"):
        build([np.zeros(2), np.zeros((2, 2))])


def test_rows_into_a_table(no_pickles):
    table = Table.build_rows([{"a": 1, "b": "x"}, {"a": 2}, {"b": "y", "c": np.ones((2, 2))}])
    assert table.names == ["a", "b", "c"]
    assert table.column("a").to_pylist() == [1, 2, None]
    assert table.column("c").to_pylist() == [None, None, [[1.0, 1.0], [1.0, 1.0]]]
    with pytest.raises(TypeMismatchError, match="row 1.*list"):
        Table.build_rows([{"a": 1}, [2]])
    with pytest.raises(TypeMismatchError, match="column 'a', row 1: str"):
        Table.build_rows([{"a": 1}, {"a": "x"}])
    with pytest.raises(TypeMismatchError, match="key"):
        Table.build_rows([{1: 1}])


def test_arrow_columns():
    values = pa.array([[1], None, [2, 3]])
    assert build(values).column("c").to_pylist() == values.to_pylist()
    chunks = pa.chunked_array([[1, 2], [3]])
    assert build(chunks).column("c").to_pylist() == [1, 2, 3]


def test_with_column():
    table = Table.build({"a": [1, 2], "b": ["x", "y"]})
    assert table.with_column("c", [0.5, 1.5]).to_pylist() == [
        {"a": 1, "b": "x", "c": 0.5},
        {"a": 2, "b": "y", "c": 1.5},
    ]
    assert table.with_column("a", ["p", "q"]).names == ["a", "b"]
    with pytest.raises(InvalidArgument, match="3 rows"):
        table.with_column("c", [1, 2, 3])


leaf = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
)
value = st.one_of(
    st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1))),
    st.lists(st.one_of(st.none(), st.floats(allow_nan=False))),
    st.lists(st.one_of(st.none(), st.text())),
    st.lists(st.one_of(st.none(), st.binary())),
    st.lists(st.one_of(st.none(), st.booleans())),
    st.lists(st.one_of(st.none(), st.lists(st.one_of(st.none(), st.text(max_size=3)), max_size=4))),
    st.lists(st.one_of(st.none(), st.lists(st.lists(st.integers(0, 9), max_size=3), max_size=3))),
    st.lists(st.one_of(st.none(), st.datetimes())),
    st.lists(
        st.one_of(
            st.none(), st.fixed_dictionaries({"a": st.one_of(st.none(), st.integers(0, 5)), "b": st.text()})
        )
    ),
)


@settings(max_examples=300, deadline=None)
@given(value, st.data())
def test_any_values(values, data):
    table = build(values)
    assert table.column("c").to_pylist() == values
    begin = data.draw(st.integers(0, len(values)))
    n = data.draw(st.integers(0, len(values) - begin))
    part = table.slice(begin, n)
    assert part.column("c").to_pylist() == values[begin : begin + n]
    arrow = back(part)
    arrow.validate(full=True)
    assert arrow.column("c").to_pylist() == values[begin : begin + n]
    assert core_of(arrow) == part
    assert pickle.loads(pickle.dumps(part)) == part
    assert len(blocks.rows_of(part)) == n and len(blocks.table_to_numpy(part)["c"]) == n
