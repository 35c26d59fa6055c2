"""Dataset's methods: projections, limits, unions, inspection, consumption, pickled plans, against pyarrow and
pandas.
"""

import pickle
import subprocess
import sys

import cloudpickle
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace.data as hd
from headrace import _core, exceptions
from headrace.data import DataContext


@pytest.fixture
def table():
    rng = np.random.default_rng(5)
    return pa.table(
        {
            "id": np.arange(1000),
            "x": rng.random(1000, dtype=np.float32),
            "name": [None if i % 7 == 0 else f"name {i % 10}" for i in range(1000)],
            "tokens": [list(range(i % 5)) for i in range(1000)],
        }
    )


@pytest.fixture
def ds(table, tmp_path):
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=300)
    return hd.read_parquet(tmp_path / "t.parquet")


def plus_one(row):
    return {**row, "id": row["id"] + 1}


def test_everything_comes_back(ds, table):
    assert ds.to_arrow() == table
    pd.testing.assert_frame_equal(
        ds.to_pandas().drop(columns="tokens"), table.to_pandas().drop(columns="tokens"), check_dtype=False
    )
    assert [list(t) for t in ds.to_pandas()["tokens"]] == table["tokens"].to_pylist()
    assert pa.table(ds) == table  # __arrow_c_stream__
    assert pa.RecordBatchReader.from_stream(ds).read_all() == table
    rows = ds.take_all()
    assert [{**r, "tokens": r["tokens"].tolist()} for r in rows] == table.to_pylist()


def test_columns(ds, table):
    assert ds.select_columns(["x", "id"]).to_arrow() == table.select(["x", "id"])
    assert ds.select_columns("id").columns() == ["id"]
    assert ds.drop_columns(["x", "tokens"]).to_arrow() == table.select(["id", "name"])
    assert ds.rename_columns({"x": "y"}).columns() == ["id", "y", "name", "tokens"]
    assert ds.rename_columns({"x": "y"}).select_columns(["y"]).to_arrow()["y"] == table["x"]
    assert ds.rename_columns(["a", "b", "c", "d"]).columns() == ["a", "b", "c", "d"]
    swapped = ds.rename_columns({"id": "x", "x": "id"})
    assert swapped.columns() == ["x", "id", "name", "tokens"] and swapped.to_arrow()["x"] == table["id"]
    assert ds.select_columns([]).count() == 1000


@pytest.mark.parametrize(
    "wrong",
    [
        lambda d: d.select_columns(["nope"]),
        lambda d: d.drop_columns(["nope"]),
        lambda d: d.rename_columns({"nope": "a"}),
        lambda d: d.rename_columns({"id": "x"}),
        lambda d: d.rename_columns(["a"]),
        lambda d: d.select_columns(["id", "id"]),
        lambda d: d.limit(-1),
        lambda d: d.limit("3"),
        lambda d: d.iter_batches(batch_size=0),
        lambda d: d.iter_batches(batch_format="arrow"),
        lambda d: d.map_batches(plus_one, batch_size=0),
        lambda d: d.map_batches(plus_one, batch_format="x"),
        lambda d: d.map_batches(plus_one, compute="gpu"),
        lambda d: d.map(plus_one, concurrency=0),
        lambda d: d.map(plus_one, concurrency=(3, 2)),
        lambda d: d.map(plus_one, fn_constructor_args=[1]),
        lambda d: d.filter(),
        lambda d: d.streaming_split(0),
        lambda d: d.streaming_split(2, locality_hints=["a"]),
        lambda d: d.take_all(limit=5),
        lambda d: d.to_pandas(limit=5),
    ],
)
def test_wrong_arguments_fail_where_they_stand(ds, wrong):
    with pytest.raises(exceptions.InvalidArgument) as e:
        wrong(ds)
    assert isinstance(e.value, ValueError)


def test_wrong_types_fail_where_they_stand(ds):
    for wrong in (lambda: ds.map(5), lambda: ds.union(5), lambda: ds.add_column(5, len)):
        with pytest.raises(TypeError):
            wrong()
    with pytest.raises(TypeError, match="unexpected"):
        ds.map(plus_one, concurency=2)
    with pytest.raises(exceptions.TypeMismatchError, match="id"):
        ds.union(ds.rename_columns({"id": "name", "name": "id"}))


def test_missing_column_names_what_there_is(ds):
    with pytest.raises(exceptions.InvalidArgument, match="(?s)nope.*id.*x.*name"):
        ds.select_columns(["nope"])


def test_limit(ds, table):
    for n in (0, 1, 299, 300, 301, 1000, 5000):
        assert ds.limit(n).to_arrow().num_rows == min(n, 1000)
        assert ds.limit(n).count() == min(n, 1000)
    assert ds.limit(500).limit(20).to_arrow() == table.slice(0, 20)
    assert ds.limit(0).columns() == ["id", "x", "name", "tokens"]


def test_union(ds, table):
    both = ds.union(ds.limit(10), ds)
    assert both.to_arrow().equals(pa.concat_tables([table, table.slice(0, 10), table]))
    assert both.count() == 2010
    assert ds.union() is ds


def test_take_and_show(ds, capsys):
    assert len(ds.take()) == 20 and len(ds.take(3)) == 3
    batch = ds.take_batch(5)
    assert batch["id"].tolist() == [0, 1, 2, 3, 4] and batch["name"][0] is None
    batch["id"][0] = 9  # its own
    assert ds.take_batch(2000)["id"].shape == (1000,)
    assert isinstance(ds.take_batch(3, batch_format="pandas"), pd.DataFrame)
    assert ds.take_batch(3, batch_format="pyarrow").num_rows == 3
    with pytest.raises(exceptions.InvalidArgument):
        ds.limit(0).take_batch()
    ds.select_columns(["id"]).show(2)
    assert capsys.readouterr().out.splitlines()[4:6] == ["│     0 │", "│     1 │"]


def test_materialize(ds, table):
    calls = []

    def once(batch):
        calls.append(len(batch["id"]))
        return batch

    mapped = ds.map_batches(once, compute="inline")
    kept = mapped.materialize()
    n = len(calls)
    assert isinstance(kept, hd.MaterializedDataset) and isinstance(kept, hd.Dataset)
    assert kept.to_arrow().select(["id", "name"]) == table.select(["id", "name"])
    assert kept.count() == 1000 and kept.size_bytes() > 8000 and kept.num_blocks() >= 1
    assert len(calls) == n and kept.materialize() is kept
    assert ds.limit(0).materialize().columns() == ["id", "x", "name", "tokens"]
    assert ds.materialize().map_batches(lambda b: {"y": b["id"] * 2}).take(2) == [{"y": 0}, {"y": 2}]


def test_looking_reads_nothing(tmp_path):
    for f in range(3):
        pq.write_table(pa.table({"a": [f]}), tmp_path / f"{f}.parquet")
    ds = hd.read_parquet(tmp_path).map(plus_one).limit(3)
    for path in tmp_path.iterdir():
        path.unlink()
    text = repr(ds)
    assert "read_parquet" in text and "map(plus_one)" in text and "limit(3)" in text


def test_explain(ds, capsys):
    ds.select_columns(["id", "x"]).limit(5).explain()
    out = capsys.readouterr().out
    assert "limit" in out and "parquet" in out and "id" in out


def test_a_limit_reads_one_row_group(tmp_path):
    for f in range(200):
        pq.write_table(
            pa.table({"a": range(f * 10, f * 10 + 10)}), tmp_path / f"{f:03}.parquet", row_group_size=5
        )
    ds = hd.read_parquet(tmp_path)
    with ds._run(ds.limit(5)._node) as run:
        assert sum(t.num_rows for t in run) == 5
        counts = run.feed.counts()
    assert counts["fragments_read"] == 1 and counts["files_opened"] <= 2


def test_plans_can_be_pickled(ds, table):
    for plan in (
        ds,
        ds.select_columns(["id"]).limit(5),
        ds.union(hd.from_arrow(table)),
        hd.range(5).rename_columns({"id": "i"}),
        hd.from_items([{"a": [1, 2]}, {"a": [3]}]),
    ):
        again = pickle.loads(pickle.dumps(plan))
        assert type(again) is type(plan)
        assert again.to_arrow() == plan.to_arrow()
        assert again._node.plan.fingerprint() == plan._node.plan.fingerprint()
    offset = 7
    mapped = hd.range(5).map(lambda row: {"id": row["id"] + offset})
    assert cloudpickle.loads(cloudpickle.dumps(mapped)).take_all() == mapped.take_all()
    assert pickle.loads(pickle.dumps(mapped)).take_all() == mapped.take_all()


def test_context():
    context = DataContext.get_current()
    assert context is DataContext.get_current() and context.execution_options.preserve_order
    before = context.num_threads
    context.num_threads = 3
    assert _core.num_threads() == 3
    context.num_threads = None
    assert _core.num_threads() == before
    limit = context.memory_limit_bytes
    context.memory_limit_bytes = "64MiB"
    assert context.memory_limit_bytes == 64 << 20
    context.memory_limit_bytes = None
    assert context.memory_limit_bytes == limit
    options = context.execution_options.copy()
    options.resource_limits.cpu = 1
    options.resource_limits.object_store_memory = 1e9
    options.preserve_order = False
    kept, context.execution_options = context.execution_options, options
    try:
        assert context.run_options()["num_threads"] == 1
        assert context.run_options()["memory_limit"] == 10**9
        assert context.run_options()["any_order"]
        assert hd.range(100_000).to_pandas()["id"].sum() == 4999950000
    finally:
        context.execution_options = kept


def test_memory_limit_is_refused_with_the_number():
    big = hd.range(10_000_000).map_batches(lambda b: b, batch_size=5_000_000, compute="inline")
    context = DataContext.get_current()
    context.execution_options.resource_limits.memory = 4096
    try:
        with pytest.raises(MemoryError, match=r"\d"):
            big.count()
    finally:
        context.execution_options.resource_limits.memory = None


def test_import_is_light():
    code = (
        "import sys, headrace\n"
        "assert not {'numpy', 'torch', 'pandas', 'pyarrow', 'ray'} & set(sys.modules), 'headrace'\n"
        "import headrace.data\n"
        "assert not {'torch', 'pandas', 'pyarrow', 'ray'} & set(sys.modules), 'headrace.data'\n"
        "assert headrace.data.range(3).take_all() == [{'id': 0}, {'id': 1}, {'id': 2}]\n"
        "assert not {'torch', 'pandas', 'pyarrow', 'ray'} & set(sys.modules), 'take_all'\n"
        "import headrace.exceptions\n"
        "assert headrace.data.__name__ == 'headrace.data' and headrace.__version__\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_exceptions_are_a_tree():
    for name in exceptions.__all__:
        cls = getattr(exceptions, name)
        assert issubclass(cls, exceptions.HeadraceError) and issubclass(cls, Exception)
        assert pickle.loads(pickle.dumps(cls("text"))).args == ("text",)
        assert cls.__doc__ and cls.__module__ == "headrace.exceptions"
    assert issubclass(exceptions.NotFoundError, FileNotFoundError)
