"""Filters in the Parquet reader: the same rows as after it, and counters of skipped parts."""

import datetime
import decimal
import math
import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace.data as hd
from headrace.data.expressions import col
from headrace.exceptions import DataError, HeadraceError

ROWS = 3000


def kept(ds):
    return pa.table(ds.to_arrow())


def counted(ds):
    """The rows of a run, and its counters."""
    rows = sum(len(next(iter(b.values()))) for b in ds.iter_batches(batch_size=1 << 20, batch_format="numpy"))
    return rows, ds.stats("dict")


def some(rng, kind, rows):
    """A column with runs of similar values, so that pages differ, and a value that it may have."""
    base = np.sort(rng.integers(-50, 50, rows))
    if kind == "float":
        v = [
            [math.nan, 0.0, -0.0, math.inf][i % 4] if rng.random() < 0.05 else float(b) / 4
            for i, b in enumerate(base)
        ]
        return pa.array(v, pa.float64()), float(rng.choice(v))
    if kind == "float32":
        return pa.array((base / 8).astype("f4")), 0.0
    if kind == "int8":
        return pa.array(base.astype("i1")), int(rng.choice(base))
    if kind == "uint16":
        return pa.array((base + 40000).astype("u2")), int(rng.choice(base)) + 40000
    if kind == "uint64":
        return pa.array([int(b) + (1 << 63) for b in base], pa.uint64()), int(rng.choice(base)) + (1 << 63)
    if kind == "int64":
        return pa.array(base), int(rng.choice(base))
    if kind == "string":
        v = [f"{b + 50:03d}" + "é" * int(b % 90) for b in base]
        return pa.array(v), str(rng.choice(v))
    if kind == "binary":
        v = [bytes([int(b) + 128]) * 3 for b in base]
        return pa.array(v, pa.binary()), v[int(rng.integers(rows))]
    if kind == "bool":
        return pa.array(base > 0), True
    if kind == "date":
        v = [datetime.date(2020, 1, 1) + datetime.timedelta(days=int(b)) for b in base]
        return pa.array(v), v[int(rng.integers(rows))]
    if kind == "time":
        v = [datetime.datetime(2020, 1, 1) + datetime.timedelta(hours=int(b)) for b in base]
        return pa.array(v, pa.timestamp("us")), v[int(rng.integers(rows))]
    v = [decimal.Decimal(int(b)) / 100 for b in base]
    return pa.array(v, pa.decimal128(12 if kind == "decimal" else 5, 2)), v[int(rng.integers(rows))]


KINDS = "float float32 int8 uint16 uint64 int64 string binary bool date time decimal small".split()


def predicate(rng, columns):
    """A random predicate: comparisons joined by and, or, not."""
    name, value = columns[int(rng.integers(len(columns)))]
    c = col(name)
    options = [
        lambda: c == value,
        lambda: c != value,
        lambda: c.is_null(),
        lambda: c.is_not_null(),
    ]
    if name not in ("decimal", "small"):
        options.append(lambda: c.is_in([value]))
    if not isinstance(value, bool):
        options += [lambda: c < value, lambda: c <= value, lambda: c > value, lambda: c >= value]
    e = options[int(rng.integers(len(options)))]()
    if rng.random() < 0.5:
        other = predicate(rng, columns)
        e = e & other if rng.random() < 0.6 else e | other
    return ~e if rng.random() < 0.2 else e


@pytest.mark.parametrize("seed", range(16))
def test_same_rows(tmp_path, seed):
    rng = np.random.default_rng(seed)
    random.seed(seed)
    columns, arrays, names = [], [], []
    for kind in random.sample(KINDS, 5):
        array, value = some(rng, kind, ROWS)
        if rng.random() < 0.6:
            begin = int(rng.integers(ROWS))
            nulls = (rng.random(ROWS) < 0.1) | ((np.arange(ROWS) >= begin) & (np.arange(ROWS) < begin + 700))
            cells = zip(array.to_pylist(), nulls, strict=True)
            array = pa.array([None if n else v for v, n in cells], array.type)
        columns.append((kind, value))
        arrays.append(array)
        names.append(kind)
    names.append("list")
    arrays.append(pa.array([list(range(i % 4)) if i % 9 else None for i in range(ROWS)]))
    table = pa.table(arrays, names)
    path = tmp_path / "a.parquet"
    bloom = [c for c, _ in columns if c not in ("bool",)]
    pq.write_table(
        table,
        path,
        row_group_size=int(rng.choice([400, 1000, ROWS])),
        data_page_size=int(rng.choice([64, 300, 4000])),
        write_batch_size=int(rng.choice([7, 64])),
        data_page_version=str(rng.choice(["1.0", "2.0"])),
        write_page_index=bool(rng.random() < 0.8),
        write_statistics=bool(rng.random() < 0.9),
        use_dictionary=bool(rng.random() < 0.5),
        bloom_filter_options={c: True for c in bloom} if rng.random() < 0.5 else None,
    )
    stored = kept(hd.read_parquet(str(path)))
    assert stored.num_rows == ROWS
    for _ in range(8):
        e = predicate(rng, columns)
        want = kept(hd.from_arrow(stored).filter(expr=e))
        for wanted in (None, ["list", names[0]]):
            got = hd.read_parquet(str(path)).filter(expr=e)
            expected = want
            if wanted:
                got, expected = got.select_columns(wanted), want.select(wanted)
            got = kept(got)
            if got.num_rows or expected.num_rows:
                # NaN is not equal to itself: compare the bytes of what is printed
                assert got.num_rows == expected.num_rows, str(e)
                assert repr(got.to_pydict()) == repr(expected.to_pydict()), str(e)


def numbers(path, **how):
    n = 40000
    t = pa.table(
        {
            "x": np.arange(n),
            "y": np.random.default_rng(0).integers(0, 1000, n) * 2,
            "s": [f"k{i * 7919 % 5000}" for i in range(n)],
            "l": pa.array([[i] * (i % 3) for i in range(n)]),
        }
    )
    pq.write_table(t, path, row_group_size=10000, data_page_size=4096, write_batch_size=128, **how)


def test_row_groups_are_passed_over(tmp_path):
    path = str(tmp_path / "a.parquet")
    numbers(path, write_page_index=False)
    rows, stats = counted(hd.read_parquet(path).filter(expr=(col("x") >= 12345) & (col("x") < 12350)))
    assert rows == 5
    assert stats["fragments_skipped"] == 3 and stats["rows_skipped"] == 30000 and stats["rows_read"] == 5
    rows, stats = counted(hd.read_parquet(path).filter(expr=col("y") < 0))
    assert rows == 0 and stats["rows_read"] == 0 and stats["fragments_skipped"] == 4
    rows, stats = counted(hd.read_parquet(path).filter(expr=col("y") >= 0))
    assert rows == 40000 and stats["rows_skipped"] == 0


@pytest.mark.parametrize("how", [{}, {"use_dictionary": False}, {"data_page_version": "2.0"}])
def test_pages_are_passed_over(tmp_path, how):
    path = str(tmp_path / "a.parquet")
    numbers(path, write_page_index=True, **how)
    rows, stats = counted(hd.read_parquet(path).filter(expr=(col("x") >= 16000) & (col("x") < 16005)))
    assert rows == 5
    assert stats["fragments_skipped"] == 3 and stats["rows_read"] <= 2500 and stats["pages_skipped"] > 5
    rows, stats = counted(
        hd.read_parquet(path).filter(expr=(col("x") < 5) | (col("x") == 5000) | (col("x") >= 39998))
    )
    assert rows == 8
    assert stats["fragments_skipped"] == 2 and stats["rows_read"] <= 3 * 2500


def test_bloom_filters(tmp_path):
    path = str(tmp_path / "a.parquet")
    numbers(path, bloom_filter_options={"y": True, "s": True}, use_dictionary=False)
    rows, stats = counted(hd.read_parquet(path).filter(expr=col("y") == 501))  # within bounds, not there
    assert rows == 0 and stats["bloom_hits"] >= 3 and stats["fragments_skipped"] >= 3
    rows, stats = counted(hd.read_parquet(path).filter(expr=col("s") == "k250x"))
    assert rows == 0 and stats["bloom_hits"] >= 3
    rows, stats = counted(hd.read_parquet(path).filter(expr=col("s") == "k250"))
    assert rows == 8


def test_nothing_read_of_other_pages(tmp_path):
    """Skipped pages may have garbage: the reader never reads them."""
    path = tmp_path / "a.parquet"
    t = pa.table({"x": pa.array(range(20000), pa.int64()), "z": pa.array(range(20000), pa.int64())})
    pq.write_table(
        t,
        path,
        data_page_size=8000,
        write_batch_size=100,
        use_dictionary=False,
        compression="zstd",
        write_page_index=True,
    )
    m = pq.ParquetFile(path).metadata.row_group(0).column(1)
    data = bytearray(path.read_bytes())
    begin, end = m.data_page_offset, m.data_page_offset + m.total_compressed_size
    for i in range(begin + (end - begin) // 2, end):
        data[i] = 0xAA
    path.write_bytes(data)
    got = hd.read_parquet(str(path)).filter(expr=col("x") < 100).select_columns(["z"]).take_all()
    assert [r["z"] for r in got] == list(range(100))


def test_positions_hold(tmp_path):
    """A pass that is left and resumed under a filter gives the remaining rows."""
    path = str(tmp_path / "a.parquet")
    numbers(path, write_page_index=True)
    ds = hd.read_parquet(path).filter(expr=(col("x") % 10000) < 700).select_columns(["x"])
    want = [x for x in range(40000) if x % 10000 < 700]
    got = [x for b in ds.iter_batches(batch_size=64, batch_format="numpy") for x in b["x"].tolist()]
    assert got == want
    ds = hd.read_parquet(path).filter(expr=(col("x") > 15000) & (col("x") < 25000)).select_columns(["x"])
    got = [x for b in ds.iter_batches(batch_size=64, batch_format="numpy") for x in b["x"].tolist()]
    assert got == list(range(15001, 25000))


LATE = [
    col("x") < 5,
    (col("y") < 20) & col("x").is_not_null(),
    col("n") > 97,
    col("s") == "k17",
    col("x").is_in([0, 9999, 10000, 39999, 23456]),
    (col("x") % 1000) == 7,
    col("n").is_null(),
]


@pytest.mark.parametrize("how", [{}, {"use_dictionary": False}, {"data_page_version": "2.0"}], ids=str)
@pytest.mark.parametrize("index", [False, True])
def test_only_rows_that_are_kept_are_decoded(tmp_path, how, index):
    """Columns of all kinds, read here and there: the same rows as by filtering all of them."""
    path = str(tmp_path / "a.parquet")
    n = 40000
    rng = np.random.default_rng(1)
    t = pa.table(
        {
            "x": range(n),
            "y": rng.integers(0, 1000, n),
            "n": pa.array(rng.integers(0, 100, n), mask=rng.random(n) < 0.02),
            "s": [f"k{i * 7919 % 500}" for i in range(n)],
            "o": pa.array([None if i % 3 else f"text {i}" for i in range(n)]),
            "b": rng.random(n) < 0.5,
            "l": pa.array([[i] * (i % 4) if i % 5 else None for i in range(n)]),
            "d": pa.array([{"a": i, "b": [str(i)] * (i % 3)} for i in range(n)]),
            "f": pa.array(rng.standard_normal(n).astype(np.float32), mask=rng.random(n) < 0.5),
        }
    )
    pq.write_table(t, path, row_group_size=15000, data_page_size=4096, write_page_index=index, **how)
    for e in LATE:
        for columns in (None, ["l", "d"], ["x", "f", "o"], ["b"]):
            ds = hd.read_parquet(path, columns=columns, filter=e)
            rows, stats = counted(ds)
            want = hd.from_arrow(t).filter(expr=e).to_arrow()
            assert ds.to_arrow().equals(want.select(columns) if columns else want), (str(e), columns)
            assert rows == want.num_rows and stats["rows_read"] < n / 4
    assert hd.read_parquet(path, filter=col("y") >= 0).to_arrow().equals(t)
    assert hd.read_parquet(path, filter=col("y") >= 20).count() == int((t["y"].to_numpy() >= 20).sum())


TEXT_FILTERS = [
    col("s") == "k7",
    col("s") != "k7",
    col("s").is_in(["k1", "k2", "nobody"]),
    col("s").is_null(),
    col("s").is_not_null(),
    (col("s") == "k3") | col("s").is_null(),
    ~(col("s") > "k5"),
    col("s").str.upper() == "K7",
    col("s").str.len() > 2,
    (col("s") == "k3") & (col("x") > 2000),
    col("s") == "text 3900",
]


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("text", [pa.string(), pa.large_string(), pa.binary()], ids=str)
@pytest.mark.parametrize("limit", [60, 1 << 20], ids=["some by dictionary", "all by dictionary"])
def test_text_by_dictionary(tmp_path, limit, text, version):
    """The reader applies the filter once per dictionary value: the same rows as once per row."""
    n = 4000
    rng = np.random.default_rng(limit)
    values = [None if k < 3 else f"k{k}" for k in rng.integers(0, 40, n)]
    values[3800:] = [f"text {i}" for i in range(3800, n)]
    values[1000:1500] = [None] * 500
    s = pa.array([v if v is None or text != pa.binary() else v.encode() for v in values], text)
    t = pa.table({"x": range(n), "s": s, "d": pa.array([str(i % 3) for i in range(n)])})
    path = str(tmp_path / "a.parquet")
    pq.write_table(
        t,
        path,
        row_group_size=1500,
        dictionary_pagesize_limit=limit,
        data_page_size=500,
        write_batch_size=16,
        data_page_version=version,
        write_statistics=False,
    )
    for e in TEXT_FILTERS if text != pa.binary() else [col("s") == b"k7", col("s").is_null()]:
        want = hd.from_arrow(t).filter(expr=e).to_arrow()
        ds = hd.read_parquet(path).filter(expr=e)
        assert ds.to_arrow().equals(want), str(e)
        assert ds.count() == ds.select_columns(["s"]).count() == want.num_rows, str(e)
        assert ds.select_columns(["s"]).to_arrow().equals(want.select(["s"])), str(e)
        assert ds.select_columns(["d"]).to_arrow().equals(want.select(["d"])), str(e)
        assert ds.select_columns(["x"]).take(3) == want.select(["x"]).slice(0, 3).to_pylist(), str(e)


def test_a_value_that_a_filter_cannot_say_anything_of(tmp_path):
    """A row with the value is an error, as without a dictionary; no error if the rows end before it."""
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"s": ["1", "2"] * 500 + ["none"] * 3}), path)
    e = col("s").cast("int64") == 2
    with pytest.raises(HeadraceError, match="none"):
        hd.read_parquet(path).filter(expr=e).count()
    assert hd.read_parquet(path).limit(900).filter(expr=e).count() == 450


def varint(n):
    out = b""
    while n > 127:
        n, out = n >> 7, out + bytes([n & 127 | 128])
    return out + bytes([n])


@pytest.mark.parametrize("lists", [False, True])
def test_an_offset_index_that_is_wrong(tmp_path, lists):
    """The story: rows came from another place in silence. A page must agree with its index."""
    path = tmp_path / "a.parquet"
    x = list(range(8000))
    table = pa.table({"x": x, "y": [[v] for v in x]} if lists else {"x": x, "y": x})
    options = {"use_dictionary": False, "compression": "none", "write_page_index": True}
    pq.write_table(table, path, data_page_size=1, write_batch_size=1000, **options)
    ds = hd.read_parquet(str(path), filter=(col("x") >= 3100) & (col("x") < 3200), columns=["y"])
    want = [[v] for v in range(3100, 3200)] if lists else list(range(3100, 3200))
    assert kept(ds)["y"].to_pylist() == want
    data = path.read_bytes()
    row = [b"\x16" + varint(2 * n) + b"\x00" for n in (3000, 3001)]  # a place's last field
    assert data.count(row[0]) == 2
    at = data.rindex(row[0])  # of y
    path.write_bytes(data[:at] + row[1] + data[at + len(row[1]) :])
    with pytest.raises(
        DataError,
        match=r"row group 0, column 'y.*', page [23]: 1000 rows, the offset index says (999|1001)",
    ):
        kept(ds)
