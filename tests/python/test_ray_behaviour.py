"""Small things that programs for Ray rely on: types of a schema, numbers of rows, names of aggregates."""

import pickle

import pandas as pd
import pyarrow as pa
import pytest

import headrace.data as hd
from headrace.data.aggregate import AggregateFnV2, Count, Max, Sum
from headrace.exceptions import TypeMismatchError


def test_types_of_a_schema():
    """The story: `types` was a list of texts, and pyarrow.types.is_integer(types[0]) an AttributeError."""
    kinds = {"i": pa.int64(), "l": pa.list_(pa.float64()), "t": pa.timestamp("us", "UTC"), "s": pa.string()}
    table = pa.table({name: pa.array([None], kind) for name, kind in kinds.items()})
    types = hd.from_arrow(table).schema().types
    assert types == list(kinds.values()) == types and [str(t) for t in kinds.values()] == types
    assert pa.types.is_integer(types[0]) and pa.types.is_list(types[1]) and not pa.types.is_integer(types[1])
    assert types[1].value_type == pa.float64() and types[2].tz == "UTC" and types[0].arrow is not None
    assert types[0] != pa.int32() and types[0] != 5 and types[0] != "int32" and types[0] in ("int64", "x")
    assert pickle.loads(pickle.dumps(types[1])) == "list<item: double>" and len({*types, "int64"}) == 4
    with pytest.raises(AttributeError, match="nothing"):
        types[0].nothing  # noqa: B018


def test_equal_schemas():
    a, b = hd.from_items([{"x": 1, "y": "a"}]), hd.from_items([{"x": 5, "y": None}, {"x": 7, "y": "z"}])
    assert a.schema() == b.schema() != hd.range(2).schema()


def test_numbers_of_rows():
    assert hd.range(1e3).count() == 1000 and hd.range(10.5).count() == 10
    assert hd.range_tensor(3.0, shape=(2,)).count() == 3
    for wrong in ("3", True, float("nan"), float("inf"), None):
        with pytest.raises(TypeMismatchError, match="range: n: expected a number of rows"):
            hd.range(wrong)


def test_aggregates_of_one_name():
    ds = hd.from_items([{"k": "a", "x": 1}, {"k": "b", "x": 2}, {"k": "a", "x": 3}])
    made = ds.groupby("k").aggregate(Sum("x"), Sum("x"), Max("x", alias_name="sum(x)_2"), Sum("x"))
    names = ["k", "sum(x)", "sum(x)_2", "sum(x)_2_2", "sum(x)_3"]
    assert made.columns() == names
    assert made.take_all()[0] == dict(zip(names, ["a", 4, 4, 3, 4], strict=True))
    assert ds.aggregate(Count(), Sum("x", alias_name="count()")) == {"count()": 3, "count()_2": 6}
    assert ds.groupby("k").sum(["x", "x"]).take(1) == [{"k": "a", "sum(x)": 4, "sum(x)_2": 4}]
    one = Sum("x")
    assert ds.aggregate(one, one) == {"sum(x)": 6, "sum(x)_2": 6} and one.name == "sum(x)"


@pytest.mark.parametrize("compute", ["inline", "threads", None])
def test_add_column_of_frames_and_constants(compute):
    ds = hd.from_items([{"x": 1, "y": "a"}, {"x": 2, "y": "b"}])

    def column(fn):
        return [row["z"] for row in ds.add_column("z", fn, compute=compute).take_all()]

    assert column(lambda df: df[["x"]]) == [1, 2]
    assert column(lambda df: pd.DataFrame({"other": df["x"] * 2})) == [2, 4]
    assert column(lambda df: 7) == [7, 7] and column(lambda df: "t") == ["t", "t"]
    with pytest.raises(TypeMismatchError, match="expected a DataFrame of one column, found x, y"):
        column(lambda df: df)


def test_a_subscripted_aggregate():
    class Longest(AggregateFnV2[int, int]):
        def __init__(self, on):
            super().__init__(f"longest({on})", lambda: 0, on=on, ignore_nulls=True)

        def aggregate_block(self, block):
            return max(len(text) for text in block.column(self.get_target_column()).to_pylist())

        def combine(self, current_accumulator, new):
            return max(current_accumulator, new)

    assert hd.from_items([{"t": "ab"}, {"t": "abc"}]).aggregate(Longest("t")) == {"longest(t)": 3}


def test_the_context_of_an_iterator():
    assert hd.range(3).iterator().get_context() is hd.DataContext.get_current()
