"""No rows after a function, so its columns are unknown: every operation still works.

The story: sum, min and unique raised KeyError, groupby().count() ValueError; after materialize() the columns
were known to be none, and a step that named one failed. The expected results are Ray's.
"""

import os
import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import headrace.data as hd
from headrace import exceptions
from headrace.data import aggregate as agg
from headrace.data.expressions import col


def nothing():
    return hd.range(100).flat_map(lambda row: [], compute="threads")


MADE = {
    "flat_map": lambda: hd.range(100).flat_map(lambda row: []),
    "map": lambda: hd.range(100).limit(0).map(lambda row: row),
    "map_batches": lambda: hd.range(100).map_batches(lambda batch: {"id": batch["id"][:0]}),
    "threads": lambda: hd.range(100).map_batches(lambda b: {"id": b["id"][:0]}, compute="threads"),
    "inline": lambda: hd.range(100).flat_map(lambda row: [], compute="inline"),
    "a generator": lambda: hd.range(100).map_batches(lambda batch: iter(())),
    "map_groups": lambda: hd.range(100).groupby("id").map_groups(lambda g: {"id": g["id"][:0]}),
    "kept": lambda: nothing().materialize(),
    "pickled": lambda: pickle.loads(pickle.dumps(nothing().materialize())),
}


@pytest.mark.parametrize("made", MADE)
def test_whatever_gives_no_rows(made):
    ds = MADE[made]()
    assert ds.take_all() == [] and ds.count() == 0 and ds.schema() is None and ds.columns() is None
    assert ds.sum("id") is None and ds.min("id") is None and ds.unique("id") == []
    assert ds.groupby("id").count().take_all() == []
    assert ds.sort("id").select_columns(["id"]).rename_columns({"id": "x"}).take_all() == []


THREE = [{"id": 0, "v": "a"}, {"id": 1, "v": "b"}, {"id": 2, "v": "c"}]


def three():
    return hd.from_items(THREE)


def late_three():
    """The same rows after a function: unknown before its first row."""
    return hd.from_items(THREE).map(lambda row: row)


def written(method, **arguments):
    def write(ds):
        getattr(ds, "write_" + method)("written", **arguments)
        return os.listdir("written") if os.path.isdir("written") else []

    return write


class Own(agg.AggregateFnV2):
    def __init__(self):
        super().__init__("own", lambda: 7, on="id", ignore_nulls=True)

    def aggregate_block(self, block):
        return len(block)

    def combine(self, a, b):
        return a + b


OPERATIONS = [
    # of the whole
    ("sum", lambda ds: ds.sum("id"), None),
    ("min", lambda ds: ds.min("id"), None),
    ("max", lambda ds: ds.max("id"), None),
    ("mean", lambda ds: ds.mean("id"), None),
    ("std", lambda ds: ds.std("id"), None),
    ("sum of all", lambda ds: ds.sum(), None),
    ("sum of two", lambda ds: ds.sum(["a", "b"]), {"sum(a)": None, "sum(b)": None}),
    ("unique", lambda ds: ds.unique("id"), []),
    ("count", lambda ds: ds.count(), 0),
    ("aggregate", lambda ds: ds.aggregate(agg.Count(), agg.Mean("a"), agg.Quantile("a"), agg.Unique("b")),
     {"count()": 0, "mean(a)": None, "quantile(a)": None, "unique(b)": []}),
    ("more aggregates",
     lambda ds: ds.aggregate(agg.AbsMax("a"), agg.CountDistinct("a"), agg.ZeroPercentage("a")),
     {"abs_max(a)": None, "count_distinct(a)": 0, "zero_pct(a)": None}),
    ("own aggregate", lambda ds: ds.aggregate(Own(), agg.Count()), {"own": 7, "count()": 0}),
    # groups
    ("groups: count", lambda ds: ds.groupby("id").count(), []),
    ("groups: two keys", lambda ds: ds.groupby(["id", "v"]).sum("x"), []),
    ("groups: sum of all", lambda ds: ds.groupby("id").sum(), []),
    ("groups: expression", lambda ds: ds.groupby((col("id") % 2).alias("odd")).count(), []),
    ("groups: no key", lambda ds: ds.groupby(None).count(), [{"count()": 0}]),
    ("groups: own", lambda ds: ds.groupby("id").aggregate(Own(), agg.Sum("x")), []),
    ("map_groups", lambda ds: ds.groupby("id").map_groups(lambda g: g), []),
    ("map_groups, no key", lambda ds: ds.groupby(None).map_groups(lambda g: g), []),
    # order
    ("sort", lambda ds: ds.sort("id"), []),
    ("sort down", lambda ds: ds.sort(["id", "v"], descending=True), []),
    ("random_shuffle", lambda ds: ds.random_shuffle(), []),
    ("randomize_block_order", lambda ds: ds.randomize_block_order(), []),
    ("repartition", lambda ds: ds.repartition(3), []),
    ("repartition, shuffled", lambda ds: ds.repartition(3, shuffle=True), []),
    ("repartition by keys", lambda ds: ds.repartition(3, keys=["id"]), []),
    ("limit", lambda ds: ds.limit(2), []),
    ("random_sample", lambda ds: ds.random_sample(0.5), []),
    # several datasets
    ("zip", lambda ds: ds.zip(ds), []),
    ("union", lambda ds: ds.union(three()), THREE),
    ("union, after", lambda ds: three().union(ds), THREE),
    ("union with itself", lambda ds: ds.union(ds), []),
    ("mix", lambda ds: ds.mix(three()), THREE),
    # columns
    ("select_columns", lambda ds: ds.select_columns(["id"]), []),
    ("rename_columns", lambda ds: ds.rename_columns({"id": "x"}), []),
    ("rename_columns, all", lambda ds: ds.rename_columns(["x"]), []),
    ("drop_columns", lambda ds: ds.drop_columns(["id"]), []),
    ("with_column", lambda ds: ds.with_column("x", col("id") + 1), []),
    ("add_column", lambda ds: ds.add_column("x", lambda batch: batch["id"]), []),
    ("filter by expression", lambda ds: ds.filter(expr="id > 3"), []),
    # functions
    ("map", lambda ds: ds.map(lambda row: row), []),
    ("map_batches", lambda ds: ds.map_batches(lambda batch: batch, batch_size=10), []),
    ("flat_map", lambda ds: ds.flat_map(lambda row: [row]), []),
    ("filter", lambda ds: ds.filter(lambda row: True), []),
    # pieces
    ("split", lambda ds: [s.take_all() for s in ds.split(2)], [[], []]),
    ("split_at_indices", lambda ds: [s.take_all() for s in ds.split_at_indices([1])], [[], []]),
    ("streaming_split", lambda ds: [list(s.iter_batches()) for s in ds.streaming_split(1)], [[]]),
    ("stratified", lambda ds: [s.take_all() for s in ds.train_test_split(0.5, stratify="id")], [[], []]),
    # looking and consuming
    ("schema", lambda ds: ds.schema(), None),
    ("columns", lambda ds: ds.columns(), None),
    ("take", lambda ds: ds.take(3), []),
    ("show", lambda ds: ds.show(), None),
    ("iter_rows", lambda ds: list(ds.iter_rows()), []),
    ("iter_batches", lambda ds: list(ds.iter_batches()), []),
    ("iter_batches, shuffled", lambda ds: list(ds.iter_batches(local_shuffle_buffer_size=10)), []),
    ("iter_torch_batches", lambda ds: list(ds.iter_torch_batches()), []),
    ("to_pandas", lambda ds: ds.to_pandas().shape, (0, 0)),
    ("to_arrow", lambda ds: ds.to_arrow().shape, (0, 0)),
    ("arrow stream", lambda ds: pa.table(ds).shape, (0, 0)),
    ("to_arrow_refs", lambda ds: ds.to_arrow_refs(), []),
    ("to_pandas_refs", lambda ds: ds.to_pandas_refs(), []),
    ("to_numpy_refs", lambda ds: ds.to_numpy_refs(column="id"), []),
    ("size_bytes", lambda ds: ds.size_bytes(), 0),
    ("input_files", lambda ds: ds.input_files(), []),
    ("num_blocks", lambda ds: ds.materialize().num_blocks(), 0),
    # files
    ("write_parquet", written("parquet"), []),
    ("write_parquet, partitioned", written("parquet", partition_cols=["id"]), []),
    ("write_csv", written("csv"), []),
    ("write_json", written("json"), []),
    ("write_arrow", written("arrow"), []),
    ("write_numpy", written("numpy", column="id"), []),
    ("write_tfrecords", written("tfrecords"), []),
    ("write_webdataset", written("webdataset"), []),
    ("write_images", written("images", column="id"), []),
]  # fmt: skip


@pytest.mark.parametrize("kept", [False, True], ids=["after a function", "materialized"])
@pytest.mark.parametrize("name", [name for name, *_ in OPERATIONS])
def test_every_operation(name, kept, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ((operation, expected),) = [(f, e) for n, f, e in OPERATIONS if n == name]
    found = operation(nothing().materialize() if kept else nothing())
    if hasattr(found, "take_all"):
        assert found.materialize().count() == len(expected)
        found = found.take_all()
    assert found == expected


@pytest.mark.parametrize("other", [three, late_three])
@pytest.mark.parametrize(
    ("kind", "first", "second"),
    [
        ("inner", [], []),
        ("left_outer", [], THREE),
        ("right_outer", THREE, []),
        ("full_outer", THREE, THREE),
        ("left_semi", [], []),
        ("right_semi", [], []),
        ("left_anti", [], THREE),
        ("right_anti", THREE, []),
    ],
)
def test_joins(other, kind, first, second):
    """A side without rows has the keys and no other columns."""
    assert nothing().join(other(), kind, on=["id"]).take_all() == first
    assert other().join(nothing(), kind, on=["id"]).take_all() == second
    assert nothing().join(nothing(), kind, on=["id"]).take_all() == []
    renamed = other().join(nothing(), kind, on=["id"], right_on=["key"]).take_all()
    assert renamed == second


def test_what_cannot_be_is_still_said():
    for ask in (
        lambda: nothing().take_batch(),
        lambda: nothing().train_test_split(0.5),
        lambda: nothing().zip(three()).take_all(),
        lambda: nothing().groupby(None).sum(),
        lambda: hd.range(3).filter(lambda row: False).sum("x"),
        lambda: hd.range(3).filter(lambda row: False).groupby("x"),
        lambda: hd.range(3).filter(lambda row: False).drop_columns(["x"]),
    ):
        with pytest.raises((ValueError, exceptions.InvalidArgument)):
            ask()


def test_blocks_without_columns_are_left_out():
    """They remain when no column is selected; the story: they made the other blocks an error."""
    frame, table = pd.DataFrame({"x": [1, 2]}), pa.table({"x": [3]})
    ds = hd.from_blocks([pd.DataFrame(), frame, pa.table({}), table, pd.DataFrame(index=range(5))])
    assert ds.take_all() == [{"x": 1}, {"x": 2}, {"x": 3}] and ds.num_blocks() == 2
    assert hd.from_pandas([pd.DataFrame(), frame]).sum("x") == 3
    assert hd.from_blocks([pd.DataFrame(), pa.table({})]).take_all() == []
    assert hd.from_arrow([pa.table({}), table]).take_all() == [{"x": 3}]
    assert hd.from_items([]).count() == 0 and hd.from_numpy(np.empty(0)).sum("data") is None
