"""Unions of datasets with different columns: missing ones are null, types hold all values."""

import pyarrow as pa
import pytest

import headrace.data as hd
from headrace import exceptions
from headrace.data.expressions import col

A = pa.table({"a": [1, 2, 3], "x": [1, 2, 3]})
B = pa.table({"x": [0.5, None], "b": ["p", "q"]})
C = pa.table({"b": [None, "r"], "a": pa.array([7, 8], pa.int8()), "l": [[1], []]})
ALL = pa.concat_tables([A, B, C], promote_options="permissive")


def of(table, known=True):
    ds = hd.from_arrow(table)
    return ds if known else ds.map_batches(lambda b: b, batch_format="pyarrow", compute="threads")


@pytest.mark.parametrize("known", [(True,) * 3, (False, True, True)], ids=["known", "a function first"])
def test_columns_are_those_of_all(known):
    a, b, c = (of(t, k) for t, k in zip([A, B, C], known, strict=True))
    ds = a.union(b, c)
    assert ds.schema().names == ["a", "x", "b", "l"]
    assert ds.schema().types == ["int64", "double", "string", "list<item: int64>"]
    assert ds.to_arrow().equals(ALL)
    assert ds.count() == 7 and ds.sum("x") == 6.5
    assert ds.take(4)[3] == {"a": None, "x": 0.5, "b": "p", "l": None}
    assert a.union(a).to_arrow().equals(pa.concat_tables([A, A]))
    assert ds.union(ds).to_arrow().equals(pa.concat_tables([ALL, ALL]))


BEHIND = {
    "select_columns": lambda ds: ds.select_columns(["b", "a"]),
    "one that two lack": lambda ds: ds.select_columns(["l"]),
    "filter": lambda ds: ds.filter(expr=col("a") > 1),
    "filter, selected": lambda ds: ds.filter(expr=col("x").is_null()).select_columns(["b"]),
    "with_column": lambda ds: ds.with_column("y", col("x") + 1).select_columns(["y"]),
    "sort": lambda ds: ds.sort("x", descending=True),
    "sort, selected": lambda ds: ds.sort("a").select_columns(["b"]),
    "limit": lambda ds: ds.limit(5),
    "drop_columns": lambda ds: ds.drop_columns(["a"]),
    "groupby": lambda ds: ds.groupby("b").count(),
    "map": lambda ds: ds.map(lambda row: {"n": row["b"]}, compute="threads"),
    "repartition": lambda ds: ds.repartition(2),
    "materialize": lambda ds: ds.materialize(),
    "join": lambda ds: ds.join(hd.from_arrow(A), "left_outer", on=["a"], right_suffix="_2"),
    "zip": lambda ds: ds.select_columns(["a"]).zip(hd.range(7)),
    "batches": lambda ds: ds.map_batches(
        lambda t: t, batch_size=4, batch_format="pyarrow", compute="threads"
    ),
}  # fmt: skip


@pytest.mark.parametrize("known", [True, False], ids=["known", "a function first"])
@pytest.mark.parametrize("name", BEHIND)
def test_whatever_stands_behind(name, known):
    """The same result as after the same table in memory."""
    ds = of(A, known).union(of(B), of(C))
    assert BEHIND[name](ds).to_arrow().equals(BEHIND[name](hd.from_arrow(ALL)).to_arrow())


def test_only_what_is_wanted_is_read(tmp_path):
    hd.from_arrow(A).write_parquet(tmp_path / "a")
    hd.from_arrow(B).write_parquet(tmp_path / "b")
    both = hd.read_parquet(tmp_path / "a").union(hd.read_parquet(tmp_path / "b"))
    assert both.select_columns(["b"]).to_arrow()["b"].to_pylist() == [None] * 3 + ["p", "q"]
    assert both.select_columns(["x"]).sum("x") == 6.5
    text = both.select_columns(["b"])._node.plan.explain()
    assert "columns=[]" in text and "columns=[b]" in text, text


def test_functions_on_all_sides():
    """The first determines the columns; others may lack some."""
    first = hd.range(3).map(lambda r: {"a": r["id"], "b": "x"})
    second = hd.range(2).map(lambda r: {"b": "y"})
    for ds in (first.union(second), first.union(second).sort("a")):
        assert ds.to_arrow()["b"].to_pylist() == ["x"] * 3 + ["y"] * 2
        assert ds.to_arrow()["a"].to_pylist() == [0, 1, 2, None, None]
    assert second.filter(lambda r: False).union(first).to_arrow().column_names == ["a", "b"]


def test_what_comes_too_late_is_named():
    late = hd.range(3).map(lambda r: {"a": r["id"], "late": 1})
    expected = "column 'late' of a function's rows is not in the inputs before it, whose columns are 'a'"
    with pytest.raises(exceptions.TypeMismatchError, match=expected):
        hd.from_arrow(pa.table({"a": [1]})).union(late).to_arrow()
    with pytest.raises(exceptions.TypeMismatchError, match=expected):
        hd.range(3).map(lambda r: {"a": r["id"]}).union(late).to_arrow()
    assert late.union(hd.from_arrow(pa.table({"a": [1]}))).to_arrow()["late"].null_count == 1
    assert hd.from_arrow(pa.table({"a": [1]})).union(late.materialize()).to_arrow()["late"].null_count == 1


def test_types_that_do_not_meet_are_named():
    text = pa.table({"x": ["a"]})
    with pytest.raises(exceptions.TypeMismatchError, match="input 2 .*column 'x' is string, expected double"):
        hd.from_arrow(A).union(hd.from_arrow(B), hd.from_arrow(text))
    with pytest.raises(exceptions.TypeMismatchError, match="column 'x' is string, expected int64"):
        hd.from_arrow(A).union(of(text, known=False)).to_arrow()
    with pytest.raises(exceptions.TypeMismatchError, match="column 'x' is double, expected int64"):
        hd.from_arrow(A).union(of(B.select(["x"]), known=False)).to_arrow()


def test_order_and_limits():
    """Tables of later inputs wait until the first input's columns are known."""

    def slow(batch):
        import time

        if batch["id"][0] == 0:
            time.sleep(0.2)
        return {"id": batch["id"], "first": batch["id"] * 2}

    first = hd.range(500).map_batches(slow, batch_size=50, compute="threads")
    ds = first.union(hd.range(1000), hd.range(10).rename_columns(["other"]))
    found = ds.to_arrow()
    assert found.column_names == ["id", "first", "other"]
    assert found["id"].to_pylist() == [*range(500), *range(1000), *[None] * 10]
    assert ds.take(501)[-1] == {"id": 0, "first": None, "other": None}
    assert found["first"].null_count == 1010
    assert found["other"].to_pylist() == [None] * 1500 + list(range(10))


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("kind", ["number", "list", "struct"])
def test_integers_that_no_double_is(known, kind):
    """The story: 2^60 + 1 beside doubles was rounded in silence. 2^60 is a double."""

    def table(value):
        return pa.table({"a": [{"number": value, "list": [value], "struct": {"k": value}}[kind]]})

    for value in (2**60 + 1, -(2**53) - 1):
        for first, second in ((table(1.5), table(value)), (table(value), table(1.5)))[: 1 + known]:
            with pytest.raises(exceptions.TypeMismatchError, match=rf"'a': row 0: no doubles? .*{value}"):
                of(first).union(of(second, known)).take_all()
    assert of(table(1.5)).union(of(table(2**60), known)).count() == 2


def test_python_numbers_that_no_double_is():
    """The story: from_items() and results of functions rounded them, too."""
    values = [2**60 + 1, 1.5]
    assert [r["a"] for r in hd.from_items([{"a": v} for v in values]).take_all()] == values
    assert hd.range(2).map(lambda r: {"a": values[r["id"]]}).take_all() == [{"a": v} for v in values]
    assert [r["a"] for r in hd.from_items([{"a": 2**60}, {"a": 1.5}]).take_all()] == [2.0**60, 1.5]
