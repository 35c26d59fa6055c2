""".list, .struct, .map and .arr of expressions against pyarrow.compute and Python."""

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from expression_tables import compute, same
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace.data as hd
from headrace.data.expressions import col
from headrace.exceptions import InvalidArgument, TypeMismatchError

X = col("c0")
ITEMS = {
    pa.int32(): st.integers(-9, 9),
    pa.float64(): st.floats(width=16) | st.sampled_from([0.0, math.nan]),
    pa.string(): st.text(max_size=3),
    pa.bool_(): st.booleans(),
    pa.decimal128(5, 1): st.decimals(-99, 99, places=1),
    pa.date32(): st.dates(),
}
LISTS = [pa.list_, pa.large_list]


def draw_lists(data, kind, wrap):
    n = data.draw(st.integers(0, 8))
    item = st.none() | ITEMS[kind]
    rows = st.none() | st.lists(item, max_size=14)
    column = pa.array(data.draw(st.lists(rows, min_size=n, max_size=n)), wrap(kind))
    begin = data.draw(st.integers(0, n))
    return column.slice(begin, data.draw(st.integers(0, n - begin)))


def draw_fixed(data, kind, width):
    n = data.draw(st.integers(0, 6))
    rows = st.none() | st.lists(st.none() | ITEMS[kind], min_size=width, max_size=width)
    return pa.array(data.draw(st.lists(rows, min_size=n, max_size=n)), pa.list_(kind, width)).slice(n // 3)


def of(column):
    return pa.table({"c0": column})


def nan_as_text(v):
    if isinstance(v, list):
        return [nan_as_text(x) for x in v]
    return "nan" if isinstance(v, float) and math.isnan(v) else v


def agree(found, want):
    assert nan_as_text(found) == nan_as_text(want)


@pytest.mark.parametrize("kind", ITEMS, ids=str)
@given(data=st.data(), wrap=st.sampled_from(LISTS))
@settings(max_examples=20, deadline=None)
def test_len_get_and_slice(kind, data, wrap):
    column = draw_lists(data, kind, wrap)
    found = compute(X.list.len(), of(column))
    assert found.type == pc.list_value_length(column).type
    assert found.to_pylist() == pc.list_value_length(column).to_pylist()
    index = data.draw(st.integers(-4, 4))
    rows = column.to_pylist()
    want = [None if v is None or not -len(v) <= index < len(v) else v[index] for v in rows]
    found = compute(X.list.get(index), of(column))
    assert found.type == kind
    same(found.to_pylist(), want)
    same(compute(X.list[index], of(column)).to_pylist(), want)
    bound = st.none() | st.integers(-5, 5)
    key = slice(data.draw(bound), data.draw(bound), data.draw(st.sampled_from([None, 1, 2, -1, -3])))
    found = compute(X.list[key], of(column))
    assert found.type == column.type
    agree(found.to_pylist(), [None if v is None else v[key] for v in rows])


@pytest.mark.parametrize("kind", [pa.int32(), pa.string()], ids=str)
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_fixed_size_lists(kind, data):
    column = draw_fixed(data, kind, 4)
    rows = column.to_pylist()
    start, stop = data.draw(st.integers(0, 3)), data.draw(st.integers(1, 4))
    if start < stop:
        found = compute(X.list.slice(start, stop), of(column))
        want = pc.list_slice(column, start, stop)
        assert found.type == want.type
        assert found.to_pylist() == want.to_pylist()
    assert compute(X.list.len(), of(column)).to_pylist() == pc.list_value_length(column).to_pylist()
    assert compute(X.list[-1], of(column)).to_pylist() == [None if v is None else v[-1] for v in rows]
    found = compute(X.arr.to_list(), of(column))
    assert found.type == pa.list_(kind) and found.to_pylist() == rows
    found = compute(X.list.sort(), of(column))
    assert found.type == column.type


def in_order(values, descending, at_start):
    def key(v):
        return 2 if v is None else 1 if v != v else 0

    numbers = sorted((v for v in values if key(v) == 0), reverse=descending)
    rest = sorted((v for v in values if key(v)), key=key, reverse=at_start)
    return rest + numbers if at_start else numbers + rest


@pytest.mark.parametrize("kind", ITEMS, ids=str)
@given(data=st.data(), wrap=st.sampled_from(LISTS), descending=st.booleans(), at_start=st.booleans())
@settings(max_examples=20, deadline=None)
def test_sort(kind, data, wrap, descending, at_start):
    column = draw_lists(data, kind, wrap)
    order, place = "descending" if descending else "ascending", "at_start" if at_start else "at_end"
    found = compute(X.list.sort(order, place), of(column))
    assert found.type == column.type
    want = [None if v is None else in_order(v, descending, at_start) for v in column.to_pylist()]
    agree(found.to_pylist(), want)


@given(data=st.data(), wrap=st.sampled_from(LISTS), inner=st.sampled_from([*LISTS, lambda t: pa.list_(t, 2)]))
@settings(max_examples=40, deadline=None)
def test_flatten(data, wrap, inner):
    kind = inner(pa.int64())
    size = {"min_size": 2, "max_size": 2} if pa.types.is_fixed_size_list(kind) else {"max_size": 3}
    rows = st.none() | st.lists(st.none() | st.lists(st.none() | st.integers(0, 9), **size), max_size=3)
    column = pa.array(data.draw(st.lists(rows, max_size=6)), wrap(kind))
    column = column.slice(len(column) // 3)
    found = compute(X.list.flatten(), of(column))
    want = [
        None if v is None else [x for part in v if part is not None for x in part] for v in column.to_pylist()
    ]
    assert found.type == wrap(pa.int64())
    assert found.to_pylist() == want


@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_structs(data):
    kinds = {"a": pa.int32(), "b": pa.string(), "c": pa.list_(pa.int8()), "d": pa.bool_(), "e": pa.null()}
    cells = {
        "a": st.integers(0, 9),
        "b": st.text(max_size=3),
        "c": st.lists(st.integers(0, 9), max_size=3),
        "d": st.booleans(),
        "e": st.none(),
    }
    row = st.none() | st.fixed_dictionaries({k: st.none() | v for k, v in cells.items()})
    column = pa.array(data.draw(st.lists(row, max_size=20)), pa.struct(kinds))
    column = column.slice(data.draw(st.integers(0, len(column))))
    for i, name in enumerate(kinds):
        want = pc.struct_field(column, name)
        for expr in (X.struct[name], X.struct.field(name), X.struct[i]):
            found = compute(expr, of(column))
            assert found.type == want.type
            assert found.to_pylist() == [None if r is None else r[name] for r in column.to_pylist()]
            assert found.to_pylist() == want.to_pylist()
    nested = pa.array([{"s": {"x": 1}}, {"s": None}, None], pa.struct({"s": pa.struct({"x": pa.int64()})}))
    assert compute(X.struct["s"].struct["x"] + 1, of(nested)).to_pylist() == [2, None, None]


@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_maps(data):
    entries = st.lists(st.tuples(st.text(max_size=2), st.none() | st.integers(0, 9)), max_size=3)
    rows = data.draw(st.lists(st.none() | entries, max_size=9))
    column = pa.array(rows, pa.map_(pa.string(), pa.int64())).slice(len(rows) // 3)
    rows = rows[len(rows) // 3 :]
    found = compute(X.map.keys(), of(column))
    assert found.type == pa.list_(pa.string())
    assert found.to_pylist() == [None if r is None else [k for k, _ in r] for r in rows]
    found = compute(X.map.values(), of(column))
    assert found.type == pa.list_(pa.int64())
    assert found.to_pylist() == [None if r is None else [v for _, v in r] for r in rows]
    assert compute(X.list.len(), of(column)).to_pylist() == [None if r is None else len(r) for r in rows]
    structs = [None if r is None else [{"k": k, "v": v} for k, v in r] for r in rows]
    column = pa.array(structs, pa.list_(pa.struct({"k": pa.string(), "v": pa.int64()})))
    assert compute(X.map.values(), of(column)).to_pylist() == [
        None if r is None else [v for _, v in r] for r in rows
    ]


def test_tensors():
    values = np.arange(24, dtype=np.float32).reshape(4, 2, 3)
    ds = hd.from_numpy(values).with_column("l", col("data").arr.to_list()).select_columns(["l"])
    found = ds.to_arrow()["l"]
    assert found.type == pa.list_(pa.list_(pa.float32()))
    assert found.to_pylist() == values.tolist()
    flat = hd.from_numpy(values.reshape(4, 6))
    assert flat.with_column("x", col("data").list[2:4]).select_columns(["x"]).to_arrow()["x"].to_pylist() == (
        values.reshape(4, 6)[:, 2:4].tolist()
    )
    assert [r["x"] for r in flat.with_column("x", col("data").list[-1]).iter_rows()] == [
        5.0,
        11.0,
        17.0,
        23.0,
    ]


def test_errors_are_at_the_line():
    table = pa.table({"l": [[1]], "s": [{"a": 1}], "n": [1], "p": [[{"k": 1}]]})
    ds = hd.from_arrow(table)
    for expr, error, text in (
        (lambda: col("n").list.len(), TypeMismatchError, "list_len of int64: expected a list"),
        (lambda: col("l").struct["a"], TypeMismatchError, "expected a struct"),
        (lambda: col("s").struct["b"], InvalidArgument, "no field 'b'; there are a"),
        (lambda: col("s").struct[3], InvalidArgument, "no field 3; there are 1"),
        (lambda: col("s").struct[-1], InvalidArgument, "expected 0 or more"),
        (lambda: col("l").list["a"], TypeMismatchError, "expected an integer, found str"),
        (lambda: col("l").list.sort("up"), InvalidArgument, "expected 'ascending' or 'descending'"),
        (lambda: col("l").list.flatten(), TypeMismatchError, "expected a list of lists"),
        (lambda: col("p").map.keys(), TypeMismatchError, "a list of structs of a key and a value"),
        (lambda: col("n").arr.to_list(), TypeMismatchError, "a fixed-size list, a tensor or a list"),
        (lambda: col("s").list.sort(), TypeMismatchError, "expected a list"),
        (lambda: col("p").list.sort(), TypeMismatchError, "do not compare"),
    ):
        with pytest.raises(error, match=text):
            ds.with_column("x", expr())


def test_pieces_and_text():
    rows = [{"l": list(range(i % 5)), "s": {"a": i}} for i in range(1000)]
    table = pa.Table.from_pylist(rows)
    parts = hd.from_arrow([table.slice(i, 37) for i in range(0, 1000, 37)])
    exprs = {"n": col("l").list.len(), "r": col("l").list[::-1], "a": col("s").struct["a"] * 2}
    found = parts.with_columns(exprs).to_arrow()
    assert found.equals(hd.from_arrow(table).with_columns(exprs).to_arrow())
    assert found["r"].to_pylist() == [r["l"][::-1] for r in rows]
    assert parts.filter(expr="l.list.len() == 4 and s.struct['a'] < 50").count() == 10
    assert parts.filter(expr="l.list[-1] == 3").count() == 200
