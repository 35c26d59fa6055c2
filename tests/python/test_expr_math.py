"""Functions of numbers, and choices between values, against pyarrow.compute and Python."""

import decimal
import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from expression_tables import INTS, column_of, compute, same, table_of
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace.data as hd
from headrace.data.expressions import coalesce, col, greatest, if_else, least, lit
from headrace.exceptions import DataError, TypeMismatchError

QUICK = settings(max_examples=12, deadline=None)
NUMBERS = [*(getattr(pa, k)() for k in INTS), pa.float32(), pa.float64(), pa.decimal128(10, 2), pa.null()]
CONTINUOUS = ["exp", "ln", "log2", "log10", "sqrt", "sin", "cos", "tan", "asin", "acos", "atan"]


@pytest.mark.parametrize("function", [*CONTINUOUS, "ceil", "floor", "trunc", "sign"])
@given(data=st.data(), kind=st.sampled_from(NUMBERS))
@QUICK
def test_as_pyarrow(function, data, kind):
    table = data.draw(table_of(kind))
    cells = table["c0"]
    if pa.types.is_integer(kind) and kind.bit_width == 64 and function != "sign":
        cells = cells.cast(pa.float64(), safe=False)  # Arrow refuses what a double does not hold exactly
    if (
        pa.types.is_decimal(kind) and function in CONTINUOUS
    ):  # Arrow's doubles of decimals are not the nearest
        cells = pa.array([None if v is None else float(v) for v in cells.to_pylist()], pa.float64())
    want = getattr(pc, function)(cells)
    found = compute(getattr(col("c0"), function)(), table)
    assert found.type == want.type
    same(found.to_pylist(), want.to_pylist())


@given(data=st.data(), kind=st.sampled_from([*NUMBERS, pa.duration("ms")]))
@settings(max_examples=60, deadline=None)
def test_abs(data, kind):
    table = data.draw(table_of(kind))
    try:
        want = pc.abs_checked(table["c0"])
    except pa.ArrowInvalid:
        with pytest.raises(DataError, match=r"row \d+.*does not fit"):
            compute(col("c0").abs(), table)
        return
    found = compute(abs(col("c0")), table)
    assert found.type == want.type
    same(found.to_pylist(), want.to_pylist())


@given(data=st.data(), kind=st.sampled_from(NUMBERS), ndigits=st.integers(-4, 4))
@settings(max_examples=120, deadline=None)
def test_round(data, kind, ndigits):
    table = data.draw(table_of(kind))
    try:
        want = pc.round(table["c0"], ndigits)
    except pa.ArrowInvalid as e:  # also for digits that the type has not, and too large floats
        if "out of range" in str(e) or "overflow" in str(e) and pa.types.is_floating(kind):
            compute(col("c0").round(ndigits), table)
        else:
            with pytest.raises(DataError, match=r"row \d+.*does not fit"):
                compute(col("c0").round(ndigits), table)
        return
    found = compute(round(col("c0"), ndigits), table)
    assert found.type == want.type
    same(found.to_pylist(), want.to_pylist())


def test_round_is_to_even_and_keeps_what_has_no_digits():
    table = pa.table({"x": [0.5, 1.5, 2.5, -0.5, 1e308, math.inf, None]})
    assert compute(col("x").round(), table).to_pylist() == [0.0, 2.0, 2.0, -0.0, 1e308, math.inf, None]
    assert compute(col("x").round(3), table).to_pylist() == table["x"].to_pylist()
    assert compute(lit(1250).round(-2), table).to_pylist() == [1200] * 7
    assert compute(lit(2**63 - 1).round(-30), table).to_pylist() == [0] * 7
    with pytest.raises(DataError, match="does not fit int64"):
        compute(lit(2**63 - 1).round(-1), table)
    money = pa.table({"x": pa.array([decimal.Decimal("99.95"), None], pa.decimal128(4, 2))})
    assert compute(col("x").floor(), money).to_pylist() == [decimal.Decimal("99.00"), None]
    with pytest.raises(DataError, match=r"row 0 .*round\(99.95\) does not fit decimal128\(4, 2\)"):
        compute(col("x").round(), money)


def exact_power(a, b, kind):
    info = np.iinfo(str(kind))
    if b < 0 or (abs(a) > 1 and b > 64):
        return None
    return a**b if info.min <= a**b <= info.max else None


@given(data=st.data(), kind=st.sampled_from(INTS))
@settings(max_examples=60, deadline=None)
def test_power_of_integers(data, kind):
    table = data.draw(table_of(getattr(pa, kind)(), getattr(pa, kind)()))
    rows = [(a, b) for a, b in zip(*(c.to_pylist() for c in table.columns), strict=True)]
    want = [None if a is None or b is None else exact_power(a, b, kind) for a, b in rows]
    bad = [i for i, (a, b) in enumerate(rows) if None not in (a, b) and want[i] is None]
    if bad:
        with pytest.raises(DataError, match=rf"row {bad[0]} .*to the power of"):
            compute(col("c0") ** col("c1"), table)
        good = pa.table(
            [c.filter(pa.array([i not in bad for i in range(len(rows))])) for c in table.columns],
            ["c0", "c1"],
        )
        table, want = good, [w for i, w in enumerate(want) if i not in bad]
    found = compute(col("c0").power(col("c1")), table)
    assert found.type == getattr(pa, kind)()
    assert found.to_pylist() == want
    assert compute(col("c0") ** 0, table).to_pylist() == [
        None if v is None else 1 for v in table["c0"].to_pylist()
    ]


@given(data=st.data(), kind=st.sampled_from([pa.float32(), pa.float64()]))
@settings(max_examples=30, deadline=None)
def test_power_of_floats(data, kind):
    table = data.draw(table_of(kind, kind))
    same(compute(col("c0") ** col("c1"), table).to_pylist(), pc.power(table["c0"], table["c1"]).to_pylist())
    same(
        compute(2.0 ** col("c1"), table).to_pylist(), pc.power(pa.scalar(2.0, kind), table["c1"]).to_pylist()
    )


# ---------------------------------------------------------------------------------------------------- choices

ANY = [
    pa.bool_(),
    pa.int8(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.string(),
    pa.large_binary(),
    pa.binary(3),
]
ANY += [
    pa.date32(),
    pa.timestamp("us", "UTC"),
    pa.decimal128(10, 2),
    pa.decimal256(50, 4),
    pa.list_(pa.int32()),
]


def draw_columns(data, *kinds):
    n = data.draw(st.integers(0, 12))
    cells = {pa.list_(pa.int32()): st.lists(st.none() | st.integers(-9, 9), max_size=3)}
    columns = [
        pa.array(data.draw(st.lists(st.none() | cells[k], min_size=n, max_size=n)), k)
        if k in cells
        else data.draw(column_of(k, n))
        for k in kinds
    ]
    begin = data.draw(st.integers(0, n))
    return pa.table(columns, [f"c{i}" for i in range(len(columns))]).slice(begin)


@pytest.mark.parametrize("kind", ANY, ids=str)
@given(data=st.data())
@QUICK
def test_if_else_and_coalesce(kind, data):
    table = draw_columns(data, pa.bool_(), kind, kind)
    c, a, b = (x.to_pylist() for x in table.columns)
    want = [None if k is None else x if k else y for k, x, y in zip(c, a, b, strict=True)]
    found = compute(if_else(col("c0"), col("c1"), col("c2")), table)
    assert found.type == kind
    same(found.to_pylist(), want)
    want = [y if x is None else x for x, y in zip(a, b, strict=True)]
    same(compute(coalesce(col("c1"), col("c2")), table).to_pylist(), want)
    if not pa.types.is_nested(kind):
        same(pc.coalesce(table["c1"], table["c2"]).to_pylist(), want)
    same(
        compute(if_else(col("c0"), col("c1"), None), table).to_pylist(),
        [x if k else None for k, x in zip(c, a, strict=True)],
    )


@pytest.mark.parametrize("kind", [k for k in ANY if not pa.types.is_nested(k)], ids=str)
@given(data=st.data())
@QUICK
def test_least_and_greatest(kind, data):
    table = draw_columns(data, kind, kind, kind)
    rows = list(zip(*(x.to_pylist() for x in table.columns), strict=True))

    def best(row, of):
        there = [v for v in row if v is not None]
        numbers = [v for v in there if v == v]
        return of(numbers) if numbers else there[0] if there else None

    names = [col(n) for n in table.column_names]
    same(compute(least(*names), table).to_pylist(), [best(r, min) for r in rows])
    same(compute(greatest(*names), table).to_pylist(), [best(r, max) for r in rows])


def test_choices_meet_in_one_type():
    table = pa.table({"i": pa.array([1, None], pa.int8()), "f": pa.array([0.5, 1.5], pa.float32())})
    assert compute(col("i").fill_null(7), table).type == pa.int8()
    assert compute(col("i").fill_null(300), table).to_pylist() == [1, 300]
    assert compute(coalesce(col("i"), col("f")), table).to_pylist() == [1.0, 1.5]
    assert compute(coalesce(col("i"), col("f")), table).type == pa.float32()
    assert compute(if_else(col("i") > 0, "yes", "no"), table).to_pylist() == ["yes", None]
    assert compute(least(1, 2.5), table).to_pylist() == [1.0, 1.0]
    assert compute(coalesce(None, None), table).type == pa.null()
    with pytest.raises(TypeMismatchError, match="coalesce of int8 and string: no type holds all of them"):
        coalesce_it = hd.from_arrow(table).with_column("x", coalesce(col("i"), "a"))
        assert coalesce_it is None
    with pytest.raises(TypeMismatchError, match="if_else of int8.*expected a bool as the first argument"):
        hd.from_arrow(table).with_column("x", if_else(col("i"), 1, 2))


def test_as_text():
    ds = hd.from_items([{"x": -1.5}, {"x": 4.0}])
    assert ds.filter(expr="x.abs() > 2").take_all() == [{"x": 4.0}]
    assert ds.filter(expr="x.round() == -2").take_all() == [{"x": -1.5}]


def test_nothing_of_this_prunes_what_it_should_not(tmp_path):
    """Readers know bounds of x, not of abs(x): the filter must see all rows."""
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"x": list(range(-50, 50))}), tmp_path / "a.parquet", row_group_size=10)
    ds = hd.read_parquet(str(tmp_path / "a.parquet"))
    assert ds.filter(expr=col("x").abs() > 45).count() == 9
    assert ds.filter(expr=col("x").sign() == -1).count() == 50
    assert ds.filter(expr=coalesce(col("x"), 0) < -48).count() == 2
    assert ds.filter(expr=if_else(col("x") < 0, 1, 0) == 1).count() == 50
