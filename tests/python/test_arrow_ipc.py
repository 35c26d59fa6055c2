"""Arrow IPC against pyarrow, both ways."""

import ctypes
import datetime
import decimal
import json
import struct

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pytest

import headrace.data as hd
import headrace.exceptions
from headrace.data.expressions import col
from headrace.exceptions import DataError, InvalidArgument


def table(n=1000):
    rng = np.random.default_rng(n)
    ints = [None if i % 7 == 0 else i for i in range(n)]
    words = pa.array([None if i % 5 == 0 else f"word {i % 13}" for i in range(n)])
    return pa.table(
        {
            "i": pa.array(ints),
            "f": rng.random(n).astype(np.float32),
            "b": pa.array([None if i % 3 == 0 else i % 2 == 0 for i in range(n)]),
            "s": words,
            "dict": words.dictionary_encode(),
            "view": words.cast(pa.string_view()),
            "list": pa.array([list(range(i % 4)) if i % 6 else None for i in range(n)]),
            "struct": pa.array([{"a": i, "b": str(i)} for i in range(n)]),
            "map": pa.array([[(str(i), i)] for i in range(n)], pa.map_(pa.string(), pa.int64())),
            "time": pa.array([datetime.datetime(2026, 1, 1) + datetime.timedelta(i) for i in range(n)]),
            "decimal": pa.array([decimal.Decimal(i) / 4 for i in range(n)], pa.decimal128(20, 2)),
            "run": pa.RunEndEncodedArray.from_arrays([n // 2, n], pa.array(["x", "y"])),
            "null": pa.nulls(n),
            "nested": pa.array([[{"x": [1, None]}, None] for _ in range(n)]),
            "tensor": pa.FixedShapeTensorArray.from_numpy_ndarray(rng.random((n, 2, 3))),
        }
    )


def plain(t):
    """The table with encoded columns decoded."""
    return t.to_pydict() | {"tensor": t["tensor"].combine_chunks().to_numpy_ndarray().tolist()}


@pytest.mark.parametrize("compression", ["uncompressed", "lz4", "zstd"])
def test_files_of_pyarrow(tmp_path, compression):
    want = table()
    pa.feather.write_feather(want, tmp_path / "a.feather", compression=compression, chunksize=300)
    ds = hd.read_arrow(tmp_path / "a.feather")
    assert plain(ds.to_arrow()) == plain(want)
    assert hd.read_feather(tmp_path / "a.feather", columns=["s", "i"]).columns() == ["s", "i"]
    assert ds.count() == 1000
    batch = ds.take_batch(1000)
    assert batch["tensor"].shape == (1000, 2, 3)


def test_streams_of_pyarrow(tmp_path):
    want = table()
    with pa.ipc.new_stream(tmp_path / "a.arrows", want.schema) as writer:
        writer.write_table(want, max_chunksize=100)
    assert plain(hd.read_arrow(tmp_path / "a.arrows").to_arrow()) == plain(want)


def without_field(data, message, field):
    """Removes a field of a RecordBatch from the vtable of the message at this byte."""

    def number(at, n=4, signed=False):
        return int.from_bytes(data[at : at + n], "little", signed=signed)

    def slot(table, i):
        return table - number(table, signed=True) + 4 + 2 * i

    root = message + number(message)
    header = root + number(slot(root, 2), 2)
    batch = header + number(header)
    at = slot(batch, field)
    assert number(at, 2) != 0
    return data[:at] + b"\0\0" + data[at + 2 :]


@pytest.mark.parametrize("body", [9, 2**40, 2**63 - 1])
def test_a_schema_whose_body_leaves_the_file(tmp_path, body):
    """The story: the reader took it for the end of the stream."""
    schema = pa.schema({"x": pa.int32()}).serialize().to_pybytes()
    old = schema[8:]
    root = int.from_bytes(old[:4], "little")
    slots = root - int.from_bytes(old[root : root + 4], "little", signed=True) + 4
    header = root + int.from_bytes(old[slots + 4 : slots + 6], "little")
    header += int.from_bytes(old[header : header + 4], "little")
    new = struct.pack("<IHHHHHHiIqhB13x", 16, 12, 24, 16, 18, 4, 8, 12, 28 + header, body, 4, 1)
    (tmp_path / "a").write_bytes(struct.pack("<iI", -1, len(new) + len(old)) + new + old)
    with pytest.raises(headrace.exceptions.DataError, match=f"a body of {body} bytes at byte"):
        hd.read_arrow(tmp_path / "a").to_arrow()


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_compression_as_arrow_0_17_said_it(tmp_path, codec):
    """Only in the metadata of the message, in capitals."""
    want = pa.table({"i": list(range(2000)), "s": [f"text {i % 7}" for i in range(2000)]})
    options = pa.ipc.IpcWriteOptions(metadata_version=pa.ipc.MetadataVersion.V4, compression=codec)
    with pa.ipc.new_stream(tmp_path / "a.arrows", want.schema, options=options) as writer:
        for batch in want.to_batches():
            writer.write_batch(batch, custom_metadata={"ARROW:experimental_compression": codec.upper()})
    data = (tmp_path / "a.arrows").read_bytes()
    schema_end = 8 + int.from_bytes(data[4:8], "little")
    old = without_field(data, schema_end + 8, 3)
    (tmp_path / "a.arrows").write_bytes(old)
    assert hd.read_arrow(tmp_path / "a.arrows").to_arrow() == want
    (tmp_path / "b.arrows").write_bytes(old.replace(codec.upper().encode(), codec.upper()[::-1].encode()))
    with pytest.raises(headrace.exceptions.HeadraceError, match=f"b.arrows.*'{codec.upper()[::-1]}'"):
        hd.read_arrow(tmp_path / "b.arrows").to_arrow()


class ArrowSchema(ctypes.Structure):
    """The struct of the C data interface: pyarrow has no other way to make two of the intervals."""

    release_type = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    _fields_ = (
        [(name, ctypes.c_char_p) for name in ("format", "name", "metadata")]
        + [("flags", ctypes.c_int64), ("n_children", ctypes.c_int64)]
        + [("children", ctypes.c_void_p), ("dictionary", ctypes.c_void_p)]
        + [("release", release_type), ("private_data", ctypes.c_void_p)]
    )


def arrow_type(form):
    schema = ArrowSchema(format=form, name=b"", flags=2)

    @ArrowSchema.release_type
    def release(address):
        ArrowSchema.from_address(address).release = ArrowSchema.release_type()

    schema.release = release
    return pa.DataType._import_from_c(ctypes.addressof(schema))


INTERVALS = {
    "months": (b"tiM", "i4", [1, -14, 2**31 - 1, -(2**31)]),
    "days": (b"tiD", "i4,i4", [(1, 2), (-3, 86399999), (0, -1), (2**31 - 1, -(2**31))]),
    "all": (b"tin", "i4,i4,i8", [(1, 2, 3), (-3, 0, 2**63 - 1), (0, 7, -1), (-1, -2, -(2**63))]),
}


def intervals(*names):
    """Five rows, the last one null."""
    columns, fields = [], []
    for name in names:
        form, dtype, values = INTERVALS[name]
        data = np.array([*values, values[0]], dtype)
        buffers = [pa.py_buffer(b"\x0f"), pa.py_buffer(data.tobytes())]
        columns.append(pa.Array.from_buffers(pa.binary(data.itemsize), 5, buffers))
        fields.append(pa.field(name, arrow_type(form)))
    space = ctypes.create_string_buffer(80)  # an ArrowArray
    pa.record_batch(columns, names)._export_to_c(ctypes.addressof(space))
    batch = pa.RecordBatch._import_from_c(ctypes.addressof(space), pa.schema(fields))
    return pa.Table.from_batches([batch])


@pytest.mark.parametrize("new", [pa.ipc.new_file, pa.ipc.new_stream])
def test_intervals(tmp_path, new):
    want = intervals(*INTERVALS).append_column("i", [list(range(5))])
    rows = [*zip(*(values for _, _, values in INTERVALS.values()), strict=True), (None, None, None)]
    with new(tmp_path / "a.arrow", want.schema) as writer:
        writer.write_table(want)
        writer.write_table(want.slice(2))
    ds = hd.read_arrow(tmp_path / "a.arrow")
    assert ds.schema().types == [str(t) for t in want.schema.types]
    assert ds.to_arrow() == pa.concat_tables([want, want.slice(2)])
    assert [tuple(row[name] for name in INTERVALS) for row in ds.take_all()] == rows + rows[2:]
    assert next(iter(ds.iter_batches(batch_size=5)))["all"].tolist() == [row[2] for row in rows]
    assert ds.filter(expr="i == 4").to_arrow()["all"].to_pylist() == [None, None]
    assert hd.from_arrow(want).to_arrow() == want

    ds.write_arrow(tmp_path / "out")
    assert hd.read_arrow(tmp_path / "out").to_arrow() == ds.to_arrow()
    ds.write_json(tmp_path / "json")
    texts = {"months": "1M", "days": "1D 2ms", "all": "1M 2D 3ns", "i": 0}
    assert hd.read_json(tmp_path / "json").take(1) == [texts]


@pytest.mark.parametrize("name", INTERVALS)
def test_what_knows_no_intervals(tmp_path, name):
    ds = hd.from_arrow(intervals(name))
    for write in (ds.write_parquet, ds.write_csv, ds.write_tfrecords, ds.write_webdataset):
        with pytest.raises(headrace.exceptions.HeadraceError, match=f"'{name}'"):
            write(tmp_path / write.__name__)
    with pytest.raises(headrace.exceptions.HeadraceError, match=f"'{name}'"):
        ds.write_numpy(tmp_path / "numpy", column=name)
    x = col(name)
    for wrong in (x == x, x < 3, x + 1 > 0, x.is_in([1])):
        with pytest.raises(headrace.exceptions.HeadraceError, match="interval"):
            ds.filter(expr=wrong).take_all()
    assert ds.filter(expr=x.is_null()).count() == 1
    with pytest.raises(TypeError):
        next(iter(ds.iter_torch_batches()))
    (tmp_path / "a.json").write_text(json.dumps({name: 1}))
    with pytest.raises(headrace.exceptions.HeadraceError, match=f"'{name}'.*interval"):
        hd.read_json(tmp_path / "a.json", schema=ds.to_arrow().schema).take_all()


@pytest.mark.parametrize("deltas", [False, True])
def test_dictionaries_that_change(tmp_path, deltas):
    schema = pa.schema({"d": pa.dictionary(pa.int8(), pa.string())})
    values, rows = [], []
    options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=deltas)
    with pa.ipc.new_stream(tmp_path / "a.arrows", schema, options=options) as writer:
        for k in range(5):
            values = values + [f"v{k}", f"w{k}"] if deltas else [f"v{k}", f"w{k}"]
            column = pa.DictionaryArray.from_arrays(pa.array([len(values) - 1, 0, None], pa.int8()), values)
            writer.write_batch(pa.record_batch([column], schema))
            rows += [values[-1], values[0], None]
    assert [r["d"] for r in hd.read_arrow(tmp_path / "a.arrows").iter_rows()] == rows


@pytest.mark.parametrize("options", [{}, {"compression": "lz4"}, {"compression": "zstd", "stream": True}])
def test_written_files_are_read_by_pyarrow(tmp_path, options):
    want = table(3000)
    hd.from_arrow(want).write_arrow(tmp_path / "out", **options)
    files = sorted((tmp_path / "out").iterdir())
    read = pa.ipc.open_stream if options.get("stream") else pa.ipc.open_file
    got = pa.concat_tables(read(f).read_all() for f in files)
    got.validate(full=True)
    assert plain(got) == plain(want)
    assert plain(hd.read_arrow(str(tmp_path / "out")).to_arrow()) == plain(want)


def test_no_rows_and_no_columns(tmp_path):
    for name, empty in {"rows": table(4).slice(0, 0), "columns": pa.table({})}.items():
        pa.feather.write_feather(empty, tmp_path / name)
        got = hd.read_arrow(tmp_path / name)
        assert got.count() == 0 and (got.schema() is None or len(got.schema().names) == empty.num_columns)


def test_what_is_refused(tmp_path):
    union = pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["a", "b"])])
    pa.feather.write_feather(
        pa.table({"ok": [1, 2], "u": union}), tmp_path / "u.arrow", compression="uncompressed"
    )
    with pytest.raises(NotImplementedError, match=r"u\.arrow.*'u'.*union"):
        hd.read_arrow(tmp_path / "u.arrow").take_all()
    (tmp_path / "cut.arrow").write_bytes((tmp_path / "u.arrow").read_bytes()[:-3])
    with pytest.raises(ValueError, match=r"cut\.arrow.*footer"):
        hd.read_arrow(tmp_path / "cut.arrow").take_all()


@pytest.mark.parametrize("new", [pa.ipc.new_file, pa.ipc.new_stream])
def test_a_batch_larger_than_the_limit(tmp_path, monkeypatch, new):
    """A batch is read whole; the story: even if it exceeded the limit."""
    path = tmp_path / "large.arrow"
    with pa.OSFile(str(path), "wb") as f, new(f, pa.schema({"a": "int64", "b": "int64"})) as w:
        w.write_table(pa.table({"a": np.arange(2_000_000), "b": np.arange(2_000_000)}))
    context = hd.DataContext.get_current()
    monkeypatch.setattr(context, "memory_limit_bytes", 20 << 20)
    message = r"large\.arrow: record batch 0 takes 320\d{5} bytes, the memory limit is"
    with pytest.raises(MemoryError, match=message):
        hd.read_arrow(str(path)).take(1)
    assert hd.read_arrow(str(path), columns=["b"]).take(1) == [{"b": 0}]


def test_values_that_types_do_not_allow(tmp_path):
    """The story: times beyond the day and dates within a day came as they were; decimals still do."""
    path = str(tmp_path / "a.arrow")

    def written(values, type_):
        array = pa.Array.from_buffers(type_, 1, [None, pa.py_buffer(values)])
        with pa.ipc.new_file(path, pa.schema({"x": type_})) as writer:
            writer.write_batch(pa.record_batch([array], ["x"]))

    for values, type_ in [
        (struct.pack("<q", 86400001), pa.date64()),
        (struct.pack("<i", 86400), pa.time32("s")),
        (struct.pack("<q", -1), pa.time64("us")),
    ]:
        written(values, type_)
        with pytest.raises(DataError, match="a.arrow: record batch 0, column 'x': row 0: a (date|time)"):
            hd.read_arrow(path).to_arrow()
        assert hd.read_arrow(path, check_values="none").count() == 1
        assert hd.read_arrow(path, check_values="none").to_arrow().column(0).type == type_
    written(struct.pack("<qq", 12810, 0), pa.decimal128(3, 2))
    assert str(hd.read_arrow(path).to_arrow()["x"][0]) == "128.10"
    with pytest.raises(
        DataError, match=r"row 0: a decimal with more digits than its type has: 128.10 as decimal128\(3, 2\)"
    ):
        hd.read_arrow(path, check_values="all").to_arrow()
    with pytest.raises(InvalidArgument, match="check_values"):
        hd.read_arrow(path, check_values="some").to_arrow()


def test_a_stream_behind_another_is_not_dropped(tmp_path):
    """Two streams in one file; the story: the rows of the second were lost in silence."""
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, pa.schema({"x": pa.int64()})) as writer:
        writer.write_table(pa.table({"x": [1, 2]}))
    data = out.getvalue().to_pybytes()
    (tmp_path / "a.arrows").write_bytes(data + data)
    with pytest.raises(
        DataError, match=f"a.arrows: the stream ends at byte {len(data)}, {len(data)} bytes follow"
    ):
        hd.read_arrow(str(tmp_path / "a.arrows")).to_arrow()
    (tmp_path / "a.arrows").write_bytes(data + bytes(8))  # filled up
    assert hd.read_arrow(str(tmp_path / "a.arrows")).count() == 2


def test_a_dictionary_that_a_file_replaces(tmp_path):
    """Batches of a file may be read in any order; the story: all were read with the last dictionary."""

    def batch(words):
        return pa.record_batch([pa.array(words).dictionary_encode()], ["x"])

    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, batch(["a", "b"]).schema) as writer:
        writer.write_batch(batch(["a", "b"]))
        writer.write_batch(batch(["c", "d"]))
    (tmp_path / "a.arrows").write_bytes(out.getvalue().to_pybytes())
    assert [r["x"] for r in hd.read_arrow(str(tmp_path / "a.arrows")).take_all()] == ["a", "b", "c", "d"]
    # The same messages with a footer, written by hand, because pyarrow refuses to.
    stream = out.getvalue().to_pybytes()
    blocks, at = [], 0
    while struct.unpack_from("<i", stream, at + 4)[0]:
        n = struct.unpack_from("<i", stream, at + 4)[0]
        message = pa.ipc.read_message(pa.py_buffer(stream[at:]))
        body = message.body.size if message.body else 0
        blocks.append((message.type, at + 8, n + 8, body))
        at += 8 + n + body
    assert [b[0] for b in blocks] == ["schema", "dictionary", "record batch", "dictionary", "record batch"]
    out = pa.BufferOutputStream()
    with pa.ipc.new_file(
        out, batch(["a", "b"]).schema, options=pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
    ) as w:
        w.write_batch(batch(["a", "b"]))
        w.write_batch(batch(["a", "b", "c"]))
    file = out.getvalue().to_pybytes()
    footer_bytes = struct.unpack_from("<i", file, len(file) - 10)[0]
    footer = bytearray(file[len(file) - 10 - footer_bytes : -10])
    # Replaces its blocks by those of the stream.
    lists = {"dictionary": [], "record batch": []}
    for kind, *block in blocks[1:]:
        lists[kind].append(struct.pack("<qiiq", block[0], block[1], 0, block[2]))
    for kind in lists:
        n = struct.pack("<i", 2)
        found = [i for i in range(len(footer) - 52) if footer[i : i + 4] == n and i % 8 == 4]
        for i in found:
            at, length, _, body = struct.unpack_from("<qiiq", footer, i + 4)
            if 8 < at < len(file) and length > 0 and file[at : at + 4] == b"\xff" * 4:
                is_dictionary = pa.ipc.read_message(pa.py_buffer(file[at:])).type == "dictionary"
                if is_dictionary == (kind == "dictionary"):
                    footer[i + 4 : i + 52] = b"".join(lists[kind])
                    break
        else:
            raise AssertionError(f"no blocks of {kind}")
    whole = b"ARROW1\0\0" + stream + bytes(footer) + struct.pack("<i", len(footer)) + b"ARROW1"
    (tmp_path / "a.arrow").write_bytes(whole)
    with pytest.raises(DataError, match="a.arrow: dictionary 0 occurs twice"):
        hd.read_arrow(str(tmp_path / "a.arrow")).to_arrow()
