"""Columns of arbitrary Python objects: pickled; every step moves them, only Python computes with them."""

import array
import concurrent.futures
import dataclasses
import datetime
import decimal
import enum
import fractions
import logging
import math
import os
import pickle
import subprocess
import sys
import textwrap
import threading
import uuid

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace.data as hd
from headrace import _core
from headrace._core import Table, TypeMismatchError
from headrace.data import blocks
from headrace.data.aggregate import Count
from headrace.data.expressions import col

KIND = "extension<headrace.pickle>"


@dataclasses.dataclass
class Point:
    x: int
    tags: object = None


class Colour(enum.Enum):
    RED = 1


class Closed:
    def __reduce__(self):
        raise RuntimeError("it is open")


VALUES = [
    Point(1, {2}),
    {1, 2},
    frozenset("ab"),
    Colour.RED,
    fractions.Fraction(1, 3),
    uuid.UUID(int=7),
    1 + 2j,
    2**200,
    array.array("i", [1, 2]),
    datetime.UTC,
    pd.Timestamp("2024-02-29", tz="UTC"),
    [1, {2}, "x"],
    {"a": {1}, "b": [Point(2)]},
    {1: "not text"},
    np.array([Point(3), None], object),
    int,
    math.sqrt,
]


def same(a, b):
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and a.tolist() == b.tolist()
    return type(a) is type(b) and a == b


def column(ds, name="p"):
    return [row[name] for row in ds.take_all()]


# ------------------------------------------------------------------------------------------- what they can be


@pytest.mark.parametrize("value", VALUES, ids=lambda v: type(v).__name__)
def test_values_of_any_class(value):
    got = column(hd.from_items([{"p": value}, {"p": None}, {"p": {0}}]))
    assert same(got[0], value) and got[1:] == [None, {0}]


def test_rows_and_batches(compute):
    ds = hd.range(2000).map(lambda r: {"id": r["id"], "p": Point(r["id"], {r["id"]})}, compute=compute)
    assert KIND in str(ds.schema())
    assert ds.map(lambda r: {"p": r["p"].x + sum(r["p"].tags)}, compute=compute).sum("p") == 1999 * 2000

    def numpy(batch):
        assert batch["p"].dtype == object
        return {"x": [p.x for p in batch["p"]], "p": batch["p"]}

    def pandas(frame):
        assert frame["p"].dtype == object and isinstance(frame["p"][0], Point)
        return frame.assign(p=[p if p.x % 2 else None for p in frame["p"]])

    def arrow(table):
        assert pickle.loads(table["p"][1].as_py()).x % 2  # what it is stored as
        return table.append_column("more", table["x"])

    ds = ds.map_batches(numpy, compute=compute).map_batches(pandas, batch_format="pandas", compute=compute)
    ds = ds.map_batches(arrow, batch_format="pyarrow", compute=compute)
    rows = ds.take_all()
    assert [r["x"] for r in rows] == [r["more"] for r in rows] == list(range(2000))
    assert all(r["p"] == (Point(i, {i}) if i % 2 else None) for i, r in enumerate(rows))


def test_every_kind_of_function(compute):
    ds = hd.range(1200)
    flat = ds.flat_map(lambda r: [{"p": {r["id"]}}] * 2, compute=compute)
    assert flat.filter(lambda r: 7 in r["p"], compute=compute).take_all() == [{"p": {7}}] * 2
    added = ds.add_column("p", lambda b: [{int(i)} for i in b["id"]], compute=compute)
    assert added.take(2)[1] == {"id": 1, "p": {1}}

    def parts(batch):
        for i in batch["id"][:3].tolist():
            yield {"p": [{i}]}

    assert column(ds.limit(3).map_batches(parts, compute=compute)) == [{0}, {1}, {2}]
    grouped = added.map(lambda r: {"k": r["id"] % 2, "p": r["p"]}, compute=compute).groupby("k")
    sums = grouped.map_groups(lambda g: {"k": g["k"][:1], "p": [set.union(*g["p"])]}, compute=compute)
    assert [len(p) for p in column(sums)] == [600, 600]


def test_async_functions(compute):
    async def one(row):
        return {"p": {row["id"]}}

    assert column(hd.range(40).map(one, compute=compute)) == [{i} for i in range(40)]


def test_pil_images_are_arrays(compute):
    image = pytest.importorskip("PIL.Image")

    def make(row):
        return {
            "p": image.new("RGB", (3, 2), (row["id"], 0, 0)),
            "o": [{1}, image.new("RGB", (3, 2), (row["id"], 0, 0))],
        }

    def read(row):
        return {"red": row["p"][0, 0, 0] + row["o"][1].getpixel((0, 0))[0]}

    made = hd.range(9).map(make, compute=compute)
    assert made.take(1)[0]["p"].shape == (2, 3, 3)  # they say how they are arrays
    assert column(made.map(read, compute=compute), "red") == list(range(0, 18, 2))


def test_classes_of_scripts_are_the_same_on_the_way_back(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
        import headrace.data as hd

        class Thing:
            def __init__(self, x):
                self.x = x

        ds = hd.range(100).map(lambda r: {"p": Thing(r["id"])})
        assert all(type(r["p"]) is Thing for r in ds.take_all())
        there = hd.from_items([{"p": Thing(i)} for i in range(5)])
        assert there.map(lambda r: {"x": r["p"].x + isinstance(r["p"], Thing)}).sum("x") == 15
        print("done")
        """)
    )
    out = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60)
    assert out.returncode == 0 and "done" in out.stdout, out.stderr


# ---------------------------------------------------------------------------------------- what moves them


@pytest.fixture(scope="module")
def points():
    return hd.range(500).map(lambda r: {"id": r["id"], "p": Point(r["id"], "x" * 50)}).materialize()


def ids(ds):
    return [row["id"] for row in ds.take_all() if row["p"] == Point(row["id"], "x" * 50)]


def test_operations_that_move_rows(points, monkeypatch):
    every = list(range(500))
    assert ids(points) == ids(points.repartition(7)) == ids(points.sort("id")) == every
    assert ids(points.limit(20)) == every[:20]
    assert sorted(ids(points.random_shuffle(seed=1))) == every != ids(points.random_shuffle(seed=1))
    assert sorted(ids(points.repartition(3, keys=["id"]))) == every
    assert sorted(ids(points.randomize_block_order(seed=1))) == every
    assert ids(points.union(points)) == every * 2
    assert [r["id_1"] for r in points.zip(hd.range(500)).take_all()] == every
    assert len(ids(points.random_sample(0.5, seed=1))) == points.random_sample(0.5, seed=1).count()
    train, test = points.train_test_split(0.2)
    assert ids(train) + ids(test) == every
    assert ids(points.select_columns(["p", "id"])) == every
    joined = points.join(hd.range(500).map_batches(lambda b: b | {"y": b["id"]}), "inner", 2, on=("id",))
    assert ids(joined) == every
    left = hd.range(3).join(points.filter(expr=col("id") == 1), "left_outer", 2, on=("id",))
    assert [r["p"] for r in left.sort("id").take_all()] == [None, Point(1, "x" * 50), None]
    assert points.aggregate(Count("p"))["count(p)"] == 500
    assert points.filter(expr=col("p").is_null()).count() == 0
    assert points.filter(expr=col("p").is_not_null() & (col("id") < 3)).count() == 3


def test_what_is_spilled_comes_back(context, tmp_path):
    before = context.memory_limit_bytes, context.spill_dir
    context.memory_limit_bytes, context.spill_dir = "24MiB", str(tmp_path)
    try:
        ds = hd.range(3000).map_batches(
            lambda b: {"id": b["id"], "p": [Point(int(i), os.urandom(20_000)) for i in b["id"]]},
            batch_size=100,
        )
        kept = ds.random_shuffle(seed=3).materialize()
        rows = [(r["id"], r["p"].x, len(r["p"].tags)) for r in kept.iter_rows()]
    finally:
        context.memory_limit_bytes, context.spill_dir = before
    assert sorted(rows) == [(i, i, 20_000) for i in range(3000)]


def test_consumers(points):
    assert points.take_batch(3)["p"].dtype == object
    assert [type(b) for b in points.iter_batches(batch_size=200, batch_format="pandas")] == [pd.DataFrame] * 3
    assert points.to_pandas()["p"][7].x == 7
    some = list(points.iter_batches(batch_size=100, local_shuffle_buffer_size=200, local_shuffle_seed=1))
    assert sorted(p.x for b in some for p in b["p"]) == list(range(500))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        shares = pool.map(lambda share: list(share.iter_rows()), points.streaming_split(2, equal=True))
        assert sorted(r["p"].x for rows in shares for r in rows) == list(range(500))
    table = points.to_arrow()
    assert table.schema.field("p").type == pa.large_binary()
    assert pickle.loads(table["p"][5].as_py()) == Point(5, "x" * 50)


# ------------------------------------------------------------------------------------- columns of mixed types


MIXED = [
    1,
    -(2**40),
    2**63,
    True,
    "a",
    "ä",
    b"\0x",
    [1, 2],
    [],
    {"a": 1, "b": None},
    datetime.date(2024, 2, 29),
]


@given(st.lists(st.sampled_from([None, *MIXED]), min_size=1, max_size=12), st.integers(1, 5))
@settings(deadline=None, max_examples=25)
def test_values_are_the_same_however_batches_are_cut(values, size):
    """A batch of integers is int64, one of integers and text pickles: both together are pickles."""
    everything = [*values, {1}]

    def give(batch):
        return {"p": [everything[i] for i in batch["id"]]}

    ds = hd.range(len(everything)).map_batches(give, batch_size=size, compute="inline")
    try:
        kept = ds.materialize()
    except TypeMismatchError:  # two batches of plain values that differ
        assert size < len(everything)
        return
    got = kept.take_batch(100)["p"]
    assert got.dtype == object
    assert all(same(a, b) for a, b in zip(got, everything, strict=True)), got


@pytest.mark.parametrize(
    "values",
    [
        [0, 5, None, -(2**31), 2**31, -(2**62)],
        [2**64 - 1, 1],
        [0.5, None, math.inf, -0.0],
        ["", "äöü😀", None, "x" * 300],
        [b"", b"\xff\0", None],
        [True, None, False],
        [[1], [], None, [None, 3]],
        [{"a": [1, {"b": "x"}], "c": None}, {"a": [], "c": datetime.date(1, 1, 1)}],
        [
            datetime.date(1, 1, 1),
            datetime.date(9999, 12, 31),
            datetime.date(1969, 12, 31),
            datetime.date(2000, 3, 1),
        ],
        [
            datetime.datetime(1, 1, 1),
            datetime.datetime(9999, 12, 31, 23, 59, 59, 999999),
            datetime.datetime(1969, 7, 20),
        ],
        [np.float32(1.5), np.float32(2)],
        [np.uint8(200), np.uint8(3)],
    ],
    ids=lambda v: type(v[0]).__name__,
)
def test_plain_tables_beside_pickled_ones(values):
    plain, objects = Table.build({"p": values}), Table.build({"p": [{1}]})
    for tables in ([plain, objects], [objects, plain]):
        both = [t.column("p").to_pylist() for t in Table.conformed(tables)]
        assert {t.column("p").type for t in Table.conformed(tables)} == {KIND}
        assert plain.column("p").to_pylist() in both and [{1}] in both


@pytest.mark.parametrize(
    "values",
    [
        np.zeros((2, 3)),
        [decimal.Decimal(1)],
        [datetime.time(1)],
        [datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)],
    ],
)
def test_what_does_not_go_beside_objects(values):
    with pytest.raises(TypeMismatchError, match="column 'p'.*headrace.pickle"):
        Table.conformed([Table.build({"p": [{1}]}), Table.build({"p": values})])


def test_a_column_says_once_that_it_is_pickled(caplog):
    with caplog.at_level(logging.WARNING, logger="headrace.data"):
        ds = hd.range(1000).map(lambda r: {"told": r["id"] if r["id"] % 2 else "x"}, compute="inline")
        assert ds.materialize().count() == ds.materialize().count() == 1000
    (record,) = caplog.records
    assert "column 'told', row 1: int, but row 0 has str" in record.getMessage()


# ---------------------------------------------------------------------------------------------- what is wrong


@pytest.mark.parametrize(
    "use",
    [
        lambda ds, path: ds.sort("p"),
        lambda ds, path: ds.sort(["id", "p"], descending=True),
        lambda ds, path: ds.groupby("p").count(),
        lambda ds, path: ds.groupby("p").map_groups(lambda g: g),
        lambda ds, path: ds.unique("p"),
        lambda ds, path: ds.max("p"),
        lambda ds, path: ds.mean("p"),
        lambda ds, path: ds.filter(expr=col("p") == 1),
        lambda ds, path: ds.filter(expr=col("p").is_in([1])),
        lambda ds, path: ds.with_column("q", col("p").cast("string")),
        lambda ds, path: ds.with_column("q", col("p").str.len()),
        lambda ds, path: ds.repartition(2, keys=["p"]),
        lambda ds, path: ds.join(
            ds.rename_columns({"id": "i", "p": "q"}), "inner", 2, on=("p",), right_on=("q",)
        ),
        lambda ds, path: ds.streaming_train_test_split(0.5, split_type="hash", hash_column="p")[0],
        lambda ds, path: ds.write_csv(path),
        lambda ds, path: ds.write_json(path),
        lambda ds, path: ds.write_tfrecords(path),
        lambda ds, path: ds.write_webdataset(path),
        lambda ds, path: ds.write_numpy(path, column="p"),
        lambda ds, path: ds.iter_torch_batches().__iter__().__next__(),
    ],
)
def test_what_cannot_be_done_with_them(points, tmp_path, use):
    with pytest.raises(TypeError, match="column '[pq]'") as e:
        used = use(points, str(tmp_path / "out"))
        if isinstance(used, hd.Dataset):
            used.take_all()
    assert KIND in str(e.value) or "object" in str(e.value)


def test_what_cannot_be_pickled_is_named(compute):
    class Lock:
        def __init__(self, i):
            self.lock = threading.Lock() if i == 5 else None

    with pytest.raises(
        TypeMismatchError, match=r"column 'p', row 5: a value of class .*Lock cannot be pickled: "
    ):
        hd.range(10).map(lambda r: {"p": Lock(r["id"])}, compute=compute).take_all()
    with pytest.raises(
        TypeMismatchError, match="row 1: a value of class .*Closed cannot be pickled: RuntimeError: it"
    ):
        hd.from_items([{"p": {1}}, {"p": Closed()}])


def test_they_may_be_forbidden(context, compute):
    context.enable_fallback_to_arrow_object_ext_type = False
    with pytest.raises(TypeMismatchError, match="column 'p', row 0: no column type for a value of type set"):
        hd.range(3).map(lambda r: {"p": {1}}, compute=compute).take_all()
    with pytest.raises(TypeMismatchError, match="column 'p', row 1: str, but row 0 has int"):
        hd.from_items([{"p": 1}, {"p": "x"}])


# ---------------------------------------------------------------------------------------------------- safety


class Bomb:
    """An attacker's object in a file."""

    def __reduce__(self):
        return os.mkdir, (os.environ["BOMB"],)


@pytest.mark.parametrize("kind", ["parquet", "arrow", "pyarrow"])
def test_nothing_is_unpickled_that_was_not_pickled_here(tmp_path, monkeypatch, kind):
    monkeypatch.setenv("BOMB", str(tmp_path / "it went off"))
    marked = pa.field("p", pa.large_binary(), metadata={"ARROW:extension:name": "headrace.pickle"})
    table = pa.Table.from_arrays(
        [pa.array([pickle.dumps(Bomb())], pa.large_binary())], schema=pa.schema([marked])
    )
    path = str(tmp_path / "file")
    if kind == "parquet":
        pq.write_table(table, path)
        ds = hd.read_parquet(path)
    elif kind == "arrow":
        pyarrow.feather.write_feather(table, path, compression="uncompressed")
        ds = hd.read_arrow(path)
    else:
        ds = hd.from_arrow(table)
    assert isinstance(ds.take(1)[0]["p"], bytes)
    assert isinstance(ds.map(lambda r: {"q": len(r["p"]), **r}).materialize().take_batch(1)["p"][0], bytes)
    back = ds.map_batches(lambda t: t, batch_format="pyarrow", compute="inline")
    assert isinstance(back.take(1)[0]["p"], bytes)
    assert os.listdir(tmp_path) in (["file"], [])


def test_a_file_holds_them_as_marked_bytes(points, tmp_path):
    points.limit(3).write_parquet(str(tmp_path))
    (name,) = os.listdir(tmp_path)
    field = pq.read_schema(tmp_path / name).field("p")
    assert field.type == pa.large_binary() and field.metadata[b"ARROW:extension:name"] == b"headrace.pickle"
    assert b"ARROW:extension:metadata" not in field.metadata  # the words that let them be unpickled stay here
    again = hd.read_parquet(str(tmp_path)).map(lambda r: {"p": pickle.loads(r["p"])})
    assert column(again) == [Point(i, "x" * 50) for i in range(3)]


def test_tables_of_them():
    table = Table.build({"p": [{1}, None], "q": [1, 2]})
    assert table.column("p").kind == "object" and table.column("p").type == KIND
    assert table.column("p").null_count == 1
    assert pickle.loads(pickle.dumps(table)).column("p").to_pylist() == [{1}, None]
    assert _core.from_arrow(pa.table(table))[0].column("p").to_pylist() == [{1}, None]
    assert blocks.table_to_pandas(table)["p"].tolist() == [{1}, None]
    assert Table.build({"p": pd.Series([{1}, None, np.nan, pd.NaT], dtype=object)}).column(
        "p"
    ).to_pylist() == [
        {1},
        None,
        None,
        None,
    ]
