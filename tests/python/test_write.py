"""Writing: pyarrow, DuckDB, Polars and our readers read the same rows; all files appear or none."""

import datetime
import decimal
import os
import signal
import sqlite3
import subprocess
import sys
import time

import duckdb
import numpy as np
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import headrace.data as hd
from headrace.exceptions import (
    CallbackError,
    DataError,
    DiskFullError,
    HeadraceError,
    InvalidArgument,
    StorageError,
    TypeMismatchError,
    UnsupportedError,
)

N = 3000


def every_type():
    dec = decimal.Decimal
    repeated = N // 4
    return pa.table(
        {
            "i64": pa.array([1, 2, None, 4] * repeated),
            "text": pa.array(["a", "b", None, "ünï" * 30] * repeated),
            "f64": pa.array(np.random.default_rng(1).random(N)),
            "list": pa.array([[1, 2], [], None, [3, None]] * repeated),
            "bool": pa.array([True, False, None, True] * repeated),
            "struct": pa.array(
                [{"x": 1, "y": ["q", None]}, None, {"x": None, "y": None}, {"x": 2, "y": []}] * repeated
            ),
            "map": pa.array(
                [[("a", 1)], [], None, [("b", None), ("c", 3)]] * repeated, pa.map_(pa.string(), pa.int64())
            ),
            "d38": pa.array([dec("1.23"), None, dec("-9.99"), dec("0")] * repeated, pa.decimal128(30, 2)),
            "d76": pa.array([dec("1.23"), None, dec("-9.99"), dec("0")] * repeated, pa.decimal256(60, 2)),
            "d18": pa.array([dec("1.23"), None, dec("-9.99"), dec("0")] * repeated, pa.decimal128(15, 2)),
            "d9": pa.array([dec("1.23"), None, dec("-9.99"), dec("0")] * repeated, pa.decimal128(9, 2)),
            "stamp": pa.array([1, 2, None, -4] * repeated, pa.timestamp("us", "Europe/Berlin")),
            "stamp_ns": pa.array([1, 2, None, -4] * repeated, pa.timestamp("ns")),
            "null": pa.nulls(N),
            "i8": pa.array([1, -2, None, 4] * repeated, pa.int8()),
            "u8": pa.array([1, 2, None, 255] * repeated, pa.uint8()),
            "i16": pa.array([1, -2, None, 4] * repeated, pa.int16()),
            "u16": pa.array([1, 65535, None, 4] * repeated, pa.uint16()),
            "u32": pa.array([1, 2**32 - 1, None, 4] * repeated, pa.uint32()),
            "u64": pa.array([1, 2**64 - 1, None, 4] * repeated, pa.uint64()),
            "large": pa.array([["a"], None, [], ["b", "c"]] * repeated, pa.large_list(pa.large_string())),
            "duration": pa.array([1, 2, None, 4] * repeated, pa.duration("ns")),
            "fixed": pa.array([[1, 2], [3, 4], None, [5, 6]] * repeated, pa.list_(pa.int16(), 2)),
            "binary": pa.array([b"x", b"", None, b"zz"] * repeated),
            "bytes2": pa.array([b"xx", b"yy", None, b"zz"] * repeated, pa.binary(2)),
            "steps": pa.array(range(N)),
            "f16": pa.array(np.arange(N).astype("float16")),
            "f32": pa.array([1.5, float("nan"), None, -0.0] * repeated, pa.float32()),
            "time": pa.array([1, 2, None, 4] * repeated, pa.time32("ms")),
            "time64": pa.array([1, 2, None, 4] * repeated, pa.time64("us")),
            "date": pa.array([1, 2, None, -4] * repeated, pa.date32()),
            "deep": pa.array(
                [[[1], [], None], None, [], [[2, None]]] * repeated, pa.list_(pa.list_(pa.int32()))
            ),
        }
    )


def same(found, expected, what):
    assert found.column_names == expected.column_names
    for name in expected.column_names:
        assert found[name].to_pylist().__repr__() == expected[name].to_pylist().__repr__(), (what, name)


SETTINGS = [
    {},
    {"row_group_size": 777},
    {"compression": "none", "data_page_size": 1000},
    {"compression": "snappy", "data_page_version": "2.0", "data_page_size": 500},
    {"compression": "lz4", "use_dictionary": False},
    {"compression": "gzip", "max_rows_per_file": 1000},
    {"compression": "none", "write_statistics": False, "write_page_index": False},
    {"compression": "zstd", "compression_level": 9, "data_page_version": "2.0", "use_dictionary": False},
]


@pytest.mark.parametrize(
    "options", SETTINGS, ids=[" ".join(map(str, s.values())) or "default" for s in SETTINGS]
)
def test_parquet_is_read_by_all(tmp_path, options):
    table = every_type()
    files = hd.from_arrow(table).write_parquet(tmp_path / "out", **options)
    assert sum(f["rows"] for f in files) == N
    assert [os.path.getsize(f["path"]) for f in files] == [f["bytes"] for f in files]
    paths = [f["path"] for f in files]
    same(pa.concat_tables([pq.read_table(p) for p in paths]), table, "pyarrow")
    ours = hd.read_parquet(paths).to_arrow()
    same(ours, table, "headrace")
    assert ours.schema.types == table.schema.types
    known = [c for c in table.column_names if c not in ("d76", "null", "map")]
    theirs = polars.concat([polars.read_parquet(p, columns=known) for p in paths])
    assert theirs["i64"].to_list() == table["i64"].to_pylist()
    assert theirs["struct"].to_list()[0] == {"x": 1, "y": ["q", None]}
    assert theirs["deep"].to_list() == table["deep"].to_pylist()
    listed = "[" + ", ".join(f"'{p}'" for p in paths) + "]"
    sums = duckdb.sql(
        "select count(*), sum(i64), count(text), sum(len(list)), sum(d9), max(steps)"
        f" from read_parquet({listed})"
    ).fetchall()
    assert sums == [(N, 7 * N // 4, 3 * N // 4, N, decimal.Decimal("-8.76") * (N // 4), N - 1)]


def test_columns_that_become_dictionaries(tmp_path):
    """The story: among the first 4,096 values of 7,000 there are more than 2,048 different ones, and the
    writer gave up on dictionaries; doubles with zeros in their low bits had few places in its table.
    """
    n = 200_000
    numbers = np.random.default_rng(3).integers(0, 7000, n)
    short = (numbers / 100).astype(np.float32)
    table = pa.table(
        {
            "doubles": short.astype(np.float64),
            "floats": short,
            "texts": pa.array(numbers).cast("string"),
            "pairs": np.repeat(np.random.default_rng(4).random(n // 2), 2),
            "unique": np.random.default_rng(5).random(n),
        }
    )
    hd.from_arrow(table).write_parquet(tmp_path / "out", single_file=True)
    group = pq.read_metadata(tmp_path / "out").row_group(0)
    chunks = [group.column(i) for i in range(group.num_columns)]
    used = {c.path_in_schema for c in chunks if "RLE_DICTIONARY" in c.encodings}
    assert used == {"doubles", "floats", "texts"}
    assert all(c.total_compressed_size < n * 2 for c in chunks[:2])  # 13 bits a value
    assert hd.read_parquet(tmp_path / "out").to_arrow().equals(table)


def test_statistics_and_indexes(tmp_path):
    table = pa.table(
        {
            "i": pa.array([5, None, -7, 9]),
            "u": pa.array([5, None, 2**63 + 1, 9], pa.uint64()),
            "f": pa.array([float("nan"), 0.0, 1.0, None]),
            "nan": pa.array([float("nan")] * 4),
            "s": pa.array(["b", "a" * 100, None, "ÿ" * 100]),
            "z": pa.array(["\U0010ffff" * 40, "\x7f" * 90, None, None]),
            "n": pa.array([None] * 4, pa.string()),
        }
    )
    path = hd.from_arrow(table).write_parquet(tmp_path / "s.parquet", single_file=True)[0]["path"]
    group = pq.ParquetFile(path).metadata.row_group(0)
    stats = [group.column(k).statistics for k in range(group.num_columns)]
    assert (stats[0].min, stats[0].max, stats[0].null_count) == (-7, 9, 1)
    assert (stats[1].min, stats[1].max) == (5, 2**63 + 1)
    assert (stats[2].min, stats[2].max) == (0.0, 1.0)
    assert np.signbit(stats[2].min)
    assert not stats[3].has_min_max
    assert (stats[4].min, stats[4].max) == ("a" * 64, "ÿ" * 31 + "\u0100")
    assert not stats[5].has_min_max  # nothing is greater, cut or not
    assert stats[6].null_count == 4 and not stats[6].has_min_max
    assert group.column(0).has_offset_index and group.column(0).has_column_index
    assert not group.column(3).has_column_index
    for low, want in (
        ("i > 8", 1),
        ("i < -7", 0),
        ("s >= 'a'", 3),
        ("f = 0", 1),
        ("u > 9000000000000000000", 1),
    ):
        assert duckdb.sql(f"select count(*) from '{path}' where {low}").fetchall() == [(want,)], low


def test_tensors_come_back(tmp_path):
    images = np.arange(50 * 4 * 5 * 3, dtype="uint8").reshape(50, 4, 5, 3)
    hd.from_numpy(images).write_parquet(tmp_path / "t")
    back = hd.read_parquet(tmp_path / "t").take_batch(50)["data"]
    assert back.shape == images.shape and back.dtype == images.dtype and (back == images).all()
    assert isinstance(pq.read_table(tmp_path / "t").schema.field("data").type, pa.FixedShapeTensorType)


def test_metadata_comes_back(tmp_path):
    table = pa.table({"x": pa.array([1])}).replace_schema_metadata({"huggingface": "{}", "k": "v"})
    pq.write_table(table, tmp_path / "in.parquet")
    hd.read_parquet(tmp_path / "in.parquet").write_parquet(tmp_path / "m")
    assert pq.read_table(tmp_path / "m").schema.metadata[b"huggingface"] == b"{}"


# --------------------------------------------------------------------------------------------- random tables

leaves = st.sampled_from(
    [pa.int64(), pa.int8(), pa.uint32(), pa.float64(), pa.bool_(), pa.string(), pa.binary(), pa.date32()]
    + [pa.large_string(), pa.timestamp("us"), pa.decimal128(20, 3), pa.binary(3), pa.null(), pa.float32()]
)
types = st.recursive(
    leaves,
    lambda inner: st.one_of(
        inner.map(pa.list_),
        inner.map(pa.large_list),
        inner.map(lambda t: pa.list_(t, 2)),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda ts: pa.struct([pa.field(f"f{i}", t) for i, t in enumerate(ts)])
        ),
        inner.map(lambda t: pa.map_(pa.string(), t)),
    ),
    max_leaves=4,
)


def values(t):
    simple = {
        pa.int64(): st.integers(-(2**63), 2**63 - 1),
        pa.int8(): st.integers(-128, 127),
        pa.uint32(): st.integers(0, 2**32 - 1),
        pa.float64(): st.floats(allow_nan=False),
        pa.float32(): st.floats(width=32, allow_nan=False),
        pa.bool_(): st.booleans(),
        pa.string(): st.text(max_size=8),
        pa.large_string(): st.text(max_size=8),
        pa.binary(): st.binary(max_size=8),
        pa.binary(3): st.binary(min_size=3, max_size=3),
        pa.date32(): st.dates(),
        pa.timestamp("us"): st.datetimes(),
        pa.decimal128(20, 3): st.decimals(-(10**15), 10**15, places=3),
        pa.null(): st.none(),
    }
    if t in simple:
        found = simple[t]
    elif pa.types.is_map(t):
        found = st.lists(st.tuples(st.text(max_size=3), values(t.item_type)), max_size=3)
    elif pa.types.is_fixed_size_list(t):
        found = st.lists(values(t.value_type), min_size=t.list_size, max_size=t.list_size)
    elif pa.types.is_struct(t):
        found = st.fixed_dictionaries({f.name: values(f.type) for f in t})
    else:
        found = st.lists(values(t.value_type), max_size=3)
    return st.one_of(st.none(), found)


@st.composite
def tables(draw):
    n = draw(st.sampled_from([0, 1, 2, 7, 40]))
    columns = {}
    for i in range(draw(st.integers(1, 3))):
        t = draw(types)
        columns[f"c{i}"] = pa.array(draw(st.lists(values(t), min_size=n, max_size=n)), t)
    return pa.table(columns)


slow_is_fine = settings(
    max_examples=120,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@slow_is_fine
@given(table=tables(), pages=st.sampled_from([40, 1 << 20]), version=st.sampled_from(["1.0", "2.0"]))
def test_random_tables(tmp_path_factory, table, pages, version):
    path = str(tmp_path_factory.mktemp("r") / "x.parquet")
    hd.from_arrow(table).write_parquet(
        path, single_file=True, data_page_size=pages, data_page_version=version, row_group_size=11
    )
    same(pq.read_table(path), table, "pyarrow")
    if len(table):
        same(hd.read_parquet(path).to_arrow(), table, "headrace")


# ------------------------------------------------------------------------------------------------- the files


def test_partitions(tmp_path):
    ds = hd.from_items([{"x": i, "k": i % 3, "s": f"v{i % 2}"} for i in range(1000)])
    files = ds.write_parquet(tmp_path / "p", partition_cols=["k", "s"])
    assert sorted({os.path.relpath(os.path.dirname(f["path"]), tmp_path / "p") for f in files}) == sorted(
        f"k={k}/s=v{s}" for k in range(3) for s in range(2)
    )
    back = pq.read_table(tmp_path / "p").to_pandas()
    assert len(back) == 1000
    assert set(back["x"][back["k"] == 2]) == set(range(2, 1000, 3))


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_folders_of_times_are_named_as_by_pyarrow(tmp_path, unit, zone):
    """Other texts of times have a T and the shortest fraction."""
    from urllib.parse import unquote  # pyarrow escapes blanks as well

    import pyarrow.dataset as pads

    scale = {"s": 1, "ms": 1000, "us": 10**6, "ns": 10**9}[unit]
    times = pa.array([0, 1709209800 * scale + scale // 2, 1709209800 * scale], pa.timestamp(unit, zone))
    clock = pa.array(
        [0, 45000 * scale + scale // 2, 1], pa.time32(unit) if scale < 10**6 else pa.time64(unit)
    )
    table = pa.table({"t": times, "c": clock, "v": [1, 2, 3]})
    hd.from_arrow(table).write_parquet(tmp_path / "ours", partition_cols=["t", "c"])
    fields = pa.schema([table.schema.field(name) for name in ("t", "c")])
    pads.write_dataset(
        table,
        tmp_path / "theirs",
        format="parquet",
        partitioning=pads.partitioning(fields, flavor="hive"),
    )
    ours, theirs = (
        {unquote(str(p.parent.relative_to(tmp_path / name))) for p in (tmp_path / name).rglob("*.parquet")}
        for name in ("ours", "theirs")
    )
    assert ours == theirs and len(ours) == 3


def test_modes(tmp_path):
    ds = hd.range(10)
    ds.write_parquet(tmp_path / "d")
    ds.write_parquet(tmp_path / "d")
    assert hd.read_parquet(tmp_path / "d").count() == 20
    for mode in (hd.SaveMode.ERROR, hd.SaveMode.CREATE, "create"):
        with pytest.raises(StorageError, match="already contains files"):
            ds.write_parquet(tmp_path / "d", mode=mode)
    assert ds.write_parquet(tmp_path / "d", mode=hd.SaveMode.IGNORE) == []
    ds.limit(3).write_parquet(tmp_path / "d", mode=hd.SaveMode.OVERWRITE)
    assert hd.read_parquet(tmp_path / "d").count() == 3
    with pytest.raises(UnsupportedError, match="upsert"):
        ds.write_parquet(tmp_path / "d", mode=hd.SaveMode.UPSERT)
    with pytest.raises(InvalidArgument, match="expected one of"):
        ds.write_parquet(tmp_path / "d", mode="replace")


def test_rows_per_file(tmp_path):
    files = hd.range(1000).write_parquet(tmp_path / "a", max_rows_per_file=300)
    assert [f["rows"] for f in files] == [300, 300, 300, 100]
    assert [pq.read_table(f["path"])["id"][0].as_py() for f in files] == [0, 300, 600, 900]
    files = hd.range(1000).write_parquet(
        tmp_path / "b", row_group_size=100, max_bytes_per_file=1, min_rows_per_file=250
    )
    assert [f["rows"] for f in files] == [300, 300, 300, 100]
    with pytest.raises(InvalidArgument, match="max_rows_per_file"):
        hd.range(10).write_parquet(tmp_path / "c", max_rows_per_file=-1)


class Named(hd.FilenameProvider):
    def get_filename_for_block(self, block, write_uuid, task_index, block_index):
        return f"mine-{task_index}.parquet"


class Broken(hd.FilenameProvider):
    def get_filename_for_block(self, block, write_uuid, task_index, block_index):
        raise KeyError("no name")


def test_file_names(tmp_path):
    files = hd.range(10).write_parquet(tmp_path / "n", max_rows_per_file=5, filename_provider=Named())
    assert [os.path.basename(f["path"]) for f in files] == ["mine-0.parquet", "mine-1.parquet"]
    with pytest.raises(CallbackError, match="no name"):
        hd.range(10).write_parquet(tmp_path / "m", filename_provider=Broken())
    assert not (tmp_path / "m").exists()


def test_a_job_that_fails_leaves_nothing(tmp_path):
    def fails(batch):
        if batch["id"][0] > 30000:
            raise ValueError("enough")
        return batch

    (tmp_path / "old").mkdir()
    hd.range(5).write_parquet(tmp_path / "old")
    for path, mode in (("new/deep", "append"), ("old", "overwrite")):
        with pytest.raises(ValueError, match="enough"):
            hd.range(100000).map_batches(fails, compute="threads").write_parquet(
                tmp_path / path, max_rows_per_file=1000, mode=mode
            )
    assert not (tmp_path / "new").exists()
    assert hd.read_parquet(tmp_path / "old").count() == 5


KILLED = """
import sys, headrace.data as hd, time
def slow(batch):
    print("working", flush=True)
    time.sleep(0.05)
    return batch
hd.range(10_000_000).map_batches(slow, compute="inline").write_parquet(sys.argv[1], max_rows_per_file=1000)
"""


def test_kill_leaves_no_file_and_the_job_starts_again(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", KILLED, tmp_path / "k"], stdout=subprocess.PIPE)
    for _ in range(20):
        process.stdout.readline()
    time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert [f for _, _, files in os.walk(tmp_path) for f in files] == []
    hd.range(100).write_parquet(tmp_path / "k", mode="create")
    assert hd.read_parquet(tmp_path / "k").count() == 100


FULL = """
import resource, sys, headrace.data as hd
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
try:
    hd.range(10_000_000).write_parquet(sys.argv[1], compression="none", use_dictionary=False)
except hd_error:
    print(sys.exc_info()[1])
"""


def test_disk_full_names_file_and_bytes(tmp_path):
    code = FULL.replace("hd_error", "__import__('headrace.exceptions').exceptions.DiskFullError")
    out = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "f"], capture_output=True, text=True, check=True
    )
    assert str(tmp_path / "f") in out.stdout and "bytes after" in out.stdout
    assert not (tmp_path / "f").exists()
    assert issubclass(DiskFullError, OSError)


def test_refusals(tmp_path):
    ds = hd.range(10)
    with pytest.raises(InvalidArgument, match="nonesuch"):
        ds.write_parquet(tmp_path / "x", nonesuch=1)
    with pytest.raises(InvalidArgument, match="lzo"):
        ds.write_parquet(tmp_path / "x", compression="lzo")
    with pytest.raises(InvalidArgument, match="absent"):
        ds.write_parquet(tmp_path / "x", partition_cols=["absent"])
    with pytest.raises(TypeMismatchError, match="filesystem: expected one of pyarrow.fs"):
        ds.write_parquet(tmp_path / "x", filesystem=object())
    empty = hd.from_arrow(pa.table({"s": pa.array([{}], pa.struct([]))}))
    with pytest.raises(TypeMismatchError, match="struct without fields"):
        empty.write_parquet(tmp_path / "x")
    assert os.listdir(tmp_path) == []


def test_without_rows_the_schema_is_written(tmp_path):
    hd.range(10).limit(0).write_parquet(tmp_path / "e")
    assert pq.read_table(tmp_path / "e").schema.names == ["id"]


class NamedRows(hd.FilenameProvider):
    def get_filename_for_row(self, row, write_uuid, task_index, block_index, row_index):
        return f"{row['label']}-{task_index}-{row_index}.png"


def test_a_file_for_each_image(tmp_path):
    images = np.arange(3 * 4 * 5 * 3, dtype="uint8").reshape(3, 4, 5, 3)
    rows = hd.from_items([{"pixels": image, "label": f"l{i}"} for i, image in enumerate(images)])
    files = rows.write_images(tmp_path / "a", "pixels")
    assert [f["rows"] for f in files] == [1, 1, 1]
    back = hd.read_images([f["path"] for f in files]).take_batch(3)["image"]
    assert (back == images).all()
    files = rows.write_images(tmp_path / "b", "pixels", filename_provider=NamedRows())
    assert [os.path.basename(f["path"]) for f in files] == ["l0-0-0.png", "l1-0-1.png", "l2-0-2.png"]


# ------------------------------------------------------------------------------------------ SQL and datasinks


def test_sql(tmp_path):
    def connect():
        return sqlite3.connect(tmp_path / "db")

    with connect() as c:
        c.execute("create table t (id integer primary key, name text)")
    rows = hd.range(5000).map(lambda r: {"id": r["id"], "name": f"n{r['id']}"}, compute="threads")
    assert rows.write_sql("insert into t values (?, ?)", connect) == 5000
    assert connect().execute("select count(*), max(name) from t").fetchone() == (5000, "n999")
    with pytest.raises(sqlite3.IntegrityError):
        rows.write_sql("insert into t values (?, ?)", connect)
    assert connect().execute("select count(*) from t").fetchone() == (5000,)


class Counting(hd.Datasink):
    def __init__(self, bad=False):
        self.calls, self.bad = [], bad

    def on_write_start(self, schema=None):
        self.calls.append(("start", schema.names))

    def write(self, blocks, ctx):
        if self.bad:
            raise ValueError("will not")
        return (ctx.task_idx, sum(b.num_rows for b in blocks))

    def on_write_complete(self, write_result):
        self.calls.append(("complete", write_result.num_rows, sum(n for _, n in write_result.write_returns)))

    def on_write_failed(self, error):
        self.calls.append(("failed", str(error)))


def test_datasink_that_counts():
    sink = hd.datasource.DummyOutputDatasink()
    hd.range(10).write_datasink(sink)
    hd.range(5).write_datasink(sink)
    assert (sink.num_ok, sink.num_failed, sink.rows_written) == (2, 0, 15)
    sink.enabled = False
    with pytest.raises(ValueError, match="disabled"):
        hd.range(10).write_datasink(sink)
    assert (sink.num_ok, sink.num_failed, sink.rows_written) == (2, 1, 15)


def test_datasink():
    sink = Counting()
    hd.range(10000).write_datasink(sink)
    assert sink.calls == [("start", ["id"]), ("complete", 10000, 10000)]
    sink = Counting(bad=True)
    with pytest.raises(ValueError, match="will not"):
        hd.range(10).write_datasink(sink)
    assert sink.calls[-1] == ("failed", "will not")


def test_same_bytes_for_any_number_of_threads(tmp_path):
    def written(threads):
        out = tmp_path / str(threads)
        code = (
            "import headrace.data as hd, sys; hd.read_parquet(sys.argv[1]).write_parquet(sys.argv[2], "
            "row_group_size=5000, max_rows_per_file=20000)"
        )
        environment = {**os.environ, "HEADRACE_NUM_THREADS": str(threads)}
        subprocess.run([sys.executable, "-c", code, tmp_path / "in", out], check=True, env=environment)
        return [(out / f).read_bytes() for f in sorted(os.listdir(out))]

    table = pa.table(
        {
            "x": pa.array(range(70001)),
            "s": [f"row {i * i}" for i in range(70001)],
            "d": [datetime.date.min] * 70001,
        }
    )
    pq.write_table(table, tmp_path / "in", row_group_size=9999)
    one = written(1)
    assert len(one) == 4
    assert written(2) == one and written(8) == one


@pytest.mark.parametrize("seed", range(4))
def test_dictionaries_of_texts_that_look_alike(tmp_path, seed):
    """Lengths around a word's, values that differ in one byte, zeros at the end, the empty one."""
    rng = np.random.default_rng(seed)
    texts = {b"", *(bytes(rng.integers(0, 3, n, np.uint8)) for n in rng.integers(0, 20, 300))}
    texts |= {t + b"\0" for t in texts} | {bytes([t[0] ^ 1]) + t[1:] for t in texts if t}
    texts = sorted(texts)
    column = pa.array([texts[i] for i in rng.integers(0, len(texts), 20_000)], pa.binary())
    bits = pa.array(rng.integers(0, 2**52, 500)[rng.integers(0, 500, 20_000)].view(np.float64))
    table = pa.table({"b": column, "f": bits})
    path = str(tmp_path / "a.parquet")
    hd.from_arrow(table).write_parquet(path, single_file=True)
    chunks = [pq.read_metadata(path).row_group(0).column(i) for i in (0, 1)]
    assert all(c.has_dictionary_page for c in chunks)
    assert pq.read_table(path).equals(table)
    assert hd.read_parquet(path).to_arrow().equals(table)


def raw_column(type_, values):
    """Unchecked numbers: pyarrow's own constructors would check them."""
    size = type_.bit_width // 8
    data = b"".join(int(v).to_bytes(size, "little", signed=True) for v in values)
    return pa.Array.from_buffers(type_, len(values), [None, pa.py_buffer(data)])


IMPOSSIBLE = {
    "decimal32": (pa.decimal32(5, 2), 12345678, "123456.78"),
    "decimal64": (pa.decimal64(10, 2), 10**10, "100000000.00"),
    "decimal128": (pa.decimal128(5, 2), -(10**5), "-1000.00"),
    "decimal128 of 38": (pa.decimal128(38, 2), 10**38, "1" + "0" * 36 + ".00"),
    "decimal256": (pa.decimal256(5, 2), 2**200, "16069380442589"),
    "date64": (pa.date64(), 86400001, "86400001"),
    "time32": (pa.time32("s"), 86400, "86400"),
    "time64": (pa.time64("ns"), -1, "-1"),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_values_that_their_type_cannot_have_do_not_come_in(name):
    """pyarrow's arrays can hold them (validate(full=True) refuses); the story: writers cut decimals,
    floored dates.
    """
    type_, bad, text = IMPOSSIBLE[name]
    good = raw_column(type_, [0, 0, 0])
    assert hd.from_arrow(pa.table({"c": good})).count() == 3
    column = raw_column(type_, [0, 0, bad])
    with pytest.raises(pa.ArrowInvalid):
        column.validate(full=True)
    nested = pa.ListArray.from_arrays(pa.array([0, 3], pa.int32()), column)
    for table, where in ((pa.table({"c": column}), "'c'"), (pa.table({"n": nested}), "'n'")):
        with pytest.raises(DataError, match=f"{where}.*row 2: .*: {text}"):
            hd.from_arrow(table).take_all()
    with pytest.raises(HeadraceError, match=f"'c'.*row 2: .*: {text}"):
        hd.range(1).map_batches(lambda b: pa.table({"c": column}), batch_format="pyarrow").take_all()
    null = pa.Array.from_buffers(type_, 3, [pa.py_buffer(b"\x03"), column.buffers()[1]])
    assert hd.from_arrow(pa.table({"c": null})).to_arrow()["c"].null_count == 1


@pytest.mark.parametrize("precision, size", [(5, 16), (12, 16), (20, 16), (20, 32), (50, 32)])
def test_decimals_that_parquet_has_no_room_for(tmp_path, precision, size):
    """Arrow files may hold them (Java's do); the story: low bytes were written, and 123456.78 changed."""
    type_ = (pa.decimal128 if size == 16 else pa.decimal256)(precision, 2)
    structs = pa.StructArray.from_arrays(
        [raw_column(type_, [0, 10**precision - 1, 1 - 10**precision, 0])], ["d"]
    )
    fits = pa.table({"k": [[], [0, 1], [2]], "n": pa.ListArray.from_arrays([0, 0, 2, 4], structs)})
    bad = raw_column(type_, [0, 1, 10**precision, 0])
    structs = pa.StructArray.from_arrays([bad], ["d"])
    for column in (bad, pa.ListArray.from_arrays([0, 0, 2, 3, 4], structs)):
        with pa.ipc.new_file(tmp_path / "bad.arrow", pa.schema({"c": column.type})) as f:
            f.write_batch(pa.record_batch([column], ["c"]))
        text = f"{10 ** (precision - 2)}.00"
        with pytest.raises(TypeMismatchError, match=f"column 'c', row 2 of .*{text}.*has too many digits"):
            hd.read_arrow(tmp_path / "bad.arrow").write_parquet(tmp_path / "bad")
    files = hd.from_arrow(fits).write_parquet(tmp_path / "good", single_file=True)
    assert pq.read_table(files[0]["path"]).to_pylist() == fits.to_pylist()


def test_times_that_files_cannot_hold(tmp_path):
    """A time of 2^60 seconds does not fit in milliseconds; NumPy's NaT is the least number."""
    late = hd.from_arrow(pa.table({"t": raw_column(pa.timestamp("s"), [0, 2**60])}))
    with pytest.raises(
        TypeMismatchError, match=f"'t', row 1 of the row group: {2**60} as timestamp.s. does not fit"
    ):
        late.write_parquet(tmp_path / "a")
    far = hd.from_arrow(pa.table({"t": raw_column(pa.date64(), [0, 86400000 * 2**31])}))
    with pytest.raises(TypeMismatchError, match="'t', row 1 of .* does not fit in Parquet's 32 bits"):
        far.write_parquet(tmp_path / "b")
    for type_ in (pa.timestamp("ns"), pa.duration("s")):
        least = hd.from_arrow(
            pa.table({"t": pa.FixedSizeListArray.from_arrays(raw_column(type_, [1, 1, 1, -(2**63)]), 2)})
        )
        with pytest.raises(
            TypeMismatchError, match=f"'t', row 1 of the write chunk: the value {-(2**63)} means NaT"
        ):
            least.write_numpy(tmp_path / "c", column="t")


def test_doubles_beyond_the_floats_of_an_example(tmp_path):
    """The story: 1e300 was written as infinity."""
    wide = pa.table({"x": [[1.5], [float("inf"), 1e300]]})
    with pytest.raises(
        TypeMismatchError, match=r"'x', row 1 of the write chunk: 1e\+?300 does not fit in a float of 32 bits"
    ):
        hd.from_arrow(wide).write_tfrecords(tmp_path / "a")
    fine = [float("inf"), -float("inf"), 3.4028234663852886e38, 1e-300]
    hd.from_arrow(pa.table({"x": fine})).write_tfrecords(tmp_path / "b")
    assert [r["x"] for r in hd.read_tfrecords(tmp_path / "b").take_all()] == [*fine[:3], 0.0]
