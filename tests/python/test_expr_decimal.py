"""Decimals in expressions against pyarrow.compute and exact fractions: arithmetic, rounding, casts, order."""

import decimal
import math
import os
from fractions import Fraction

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from expression_tables import INTS, compute, same, table_of
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace.data as hd
from headrace.data.expressions import coalesce, col, lit
from headrace.exceptions import DataError, TypeMismatchError

D = decimal.Decimal
THOROUGH = os.environ.get("HEADRACE_THOROUGH") == "1"
EXAMPLES = settings(max_examples=400 if THOROUGH else 15, deadline=None)
EXACT = decimal.Context(prec=200, traps=[])


def a_type(most=20, least_scale=0):
    def make(wide, precision, scale):
        return (pa.decimal256 if wide or precision > 38 else pa.decimal128)(precision, min(scale, precision))

    return st.builds(make, st.booleans(), st.integers(1, most), st.integers(least_scale, 8))


@st.composite
def decimals(draw, kind, n):
    end = 10**kind.precision - 1
    whole = (
        st.integers(-end, end) | st.integers(-min(end, 12), min(end, 12)) | st.sampled_from([0, end, -end])
    )
    cells = draw(st.lists(st.none() | whole, min_size=n, max_size=n))
    return pa.array([None if v is None else D(v).scaleb(-kind.scale, EXACT) for v in cells], kind)


@st.composite
def decimal_table(draw, *kinds):
    n = draw(st.integers(0, 10))
    whole = pa.table({f"c{i}": draw(decimals(k, n)) for i, k in enumerate(kinds)})
    begin = draw(st.integers(0, n))
    return whole.slice(begin, draw(st.integers(0, n - begin)))


ARROW = {
    "add": (pc.add, lambda a, b: a + b),
    "subtract": (pc.subtract, lambda a, b: a - b),
    "multiply": (pc.multiply, lambda a, b: a * b),
    "divide": (pc.divide, lambda a, b: a / b),
    "modulo": (pc.modulo, lambda a, b: a % b),
}


@pytest.mark.parametrize("op", sorted(ARROW))
@given(data=st.data())
@EXAMPLES
def test_arithmetic_as_pyarrow(op, data):
    kinds = data.draw(a_type()), data.draw(a_type())
    table = data.draw(decimal_table(*kinds))
    by_arrow, ours = ARROW[op]
    a, b = table["c0"].combine_chunks(), table["c1"].combine_chunks()
    if op in ("divide", "modulo"):  # Arrow refuses 0
        b = pc.if_else(pc.equal(b, pa.scalar(0, b.type)), None, b)
    try:
        want = by_arrow(a, b)
    except pa.ArrowInvalid as e:
        assert "precision out of range" in str(e)
        return
    found = compute(ours(col("c0"), col("c1")), table)
    assert found.type == want.type
    assert found.to_pylist() == want.to_pylist()


@given(data=st.data(), op=st.sampled_from(["add", "subtract", "multiply"]))
@EXAMPLES
def test_more_digits_than_there_are(data, op):
    """Where Arrow refuses the types: the result keeps all digits, or is an error if it needs too many."""
    kinds = data.draw(a_type(38)), data.draw(a_type(38))
    table = data.draw(decimal_table(*kinds))
    python = {"add": EXACT.add, "subtract": EXACT.subtract, "multiply": EXACT.multiply}[op]
    rows = list(zip(table["c0"].to_pylist(), table["c1"].to_pylist(), strict=True))
    want = [None if a is None or b is None else python(a, b) for a, b in rows]
    scale = kinds[0].scale + kinds[1].scale if op == "multiply" else max(k.scale for k in kinds)
    most = 76 if any(pa.types.is_decimal256(k) for k in kinds) else 38
    bad = [i for i, v in enumerate(want) if v is not None and v.scaleb(scale, EXACT).copy_abs() >= 10**most]
    expr = ARROW[op][1](col("c0"), col("c1"))
    if bad:
        with pytest.raises(DataError, match=rf"row {bad[0]} .*does not fit decimal.*in col\('c0'\)"):
            compute(expr, table)
        return
    found = compute(expr, table)
    assert found.type.scale == scale
    assert found.to_pylist() == want


@given(data=st.data())
@EXAMPLES
def test_division_rounds_down(data):
    table = data.draw(decimal_table(data.draw(a_type()), data.draw(a_type())))
    found = compute(col("c0") // col("c1"), table)
    assert found.type.scale == 0
    for a, b, q in zip(*(c.to_pylist() for c in (*table.columns, found)), strict=True):
        assert q == (None if a is None or not b else math.floor(Fraction(a) / Fraction(b)))


def test_rounding_down_can_need_one_digit_more():
    """The story: -9.1 // 1 was an error, since the type had the digits of 9."""
    table = pa.table({"a": pa.array([D("9.1"), D("-9.9")]), "b": pa.array([D("-1"), D("1")])})
    found = compute(col("a") // col("b"), table)
    assert found.to_pylist() == [-10, -10] and found.type == pa.decimal128(2, 0)


def test_by_zero_is_null():
    table = pa.table({"a": [D("1.5"), D("0.0"), None]})
    zero = lit(D("0.00"))
    for expr in (col("a") / zero, col("a") // zero, col("a") % zero):
        assert compute(expr, table).to_pylist() == [None, None, None]


@given(data=st.data(), kind=st.sampled_from(INTS), op=st.sampled_from(["add", "subtract", "multiply"]))
@EXAMPLES
def test_beside_integers(data, kind, op):
    table = data.draw(table_of(pa.decimal128(9, 2), getattr(pa, kind)()))
    by_arrow, ours = ARROW[op]
    want = by_arrow(table["c0"], table["c1"])
    found = compute(ours(col("c0"), col("c1")), table)
    assert found.type == want.type
    assert found.to_pylist() == want.to_pylist()


def test_beside_constants_and_floats():
    table = pa.table({"p": pa.array([D("19.99"), None], pa.decimal128(6, 2)), "f": [0.5, 0.5]})
    twice = compute(col("p") * 2, table)
    assert twice.type == pa.decimal128(8, 2) and twice.to_pylist() == [D("39.98"), None]
    assert compute(1 - col("p"), table).type == pa.decimal128(7, 2)
    assert compute(col("p") * D("0.19"), table).to_pylist() == [D("3.7981"), None]
    for expr in (col("p") * 0.5, col("p") * col("f")):
        assert compute(expr, table).to_pylist() == [9.995, None]
    assert compute(col("p") + None, table).to_pylist() == [None, None]
    assert hd.from_arrow(table).filter(expr="p * 2 > 39.9 and p % 1 == 0.99").count() == 1


def test_what_has_no_place_is_refused_where_it_is_written():
    ds = hd.from_arrow(pa.table({"a": pa.array([D(1)], pa.decimal128(38, 2))}))
    with pytest.raises(TypeMismatchError, match=r"divide of decimal128\(38, 2\) and .*39 places.*cast"):
        ds.with_column("q", col("a") / col("a"))
    assert ds.with_column("q", col("a").cast("decimal128(10, 2)") / 3).take_all()[0]["q"] == D("0.3333")


WHOLE = {"ceil": decimal.ROUND_CEILING, "floor": decimal.ROUND_FLOOR, "trunc": decimal.ROUND_DOWN}
OF_ONE = {
    "abs": D.copy_abs,
    "negate": D.copy_negate,
    "sign": lambda v: int(v > 0) - int(v < 0),
    **{k: lambda v, mode=mode: v.to_integral_value(mode, EXACT) for k, mode in WHOLE.items()},
}


@pytest.mark.parametrize("function", sorted(OF_ONE))
@given(data=st.data(), kind=a_type(60))
@EXAMPLES
def test_of_one_decimal(function, data, kind):
    """Against Python: Arrow gives wrong values after one that does not fit."""
    table = data.draw(decimal_table(kind))
    want = [None if v is None else OF_ONE[function](v) for v in table["c0"].to_pylist()]
    end = 10 ** (kind.precision - kind.scale)
    if function in WHOLE and any(v is not None and v.copy_abs() >= end for v in want):
        with pytest.raises(DataError, match="does not fit"):
            compute(getattr(col("c0"), function)(), table)
        return
    found = compute(getattr(col("c0"), function)(), table)
    assert found.type == (pa.int64() if function == "sign" else kind)
    assert found.to_pylist() == want


@given(data=st.data(), kind=a_type(), ndigits=st.integers(-4, 9))
@EXAMPLES
def test_round(data, kind, ndigits):
    table = data.draw(decimal_table(kind))
    rows = table["c0"].to_pylist()
    want = [None if v is None else (v if ndigits >= kind.scale else round(v, ndigits)) for v in rows]
    if any(v is not None and v.scaleb(kind.scale, EXACT).copy_abs() >= 10**kind.precision for v in want):
        with pytest.raises(DataError, match="does not fit"):
            compute(col("c0").round(ndigits), table)
        return
    found = compute(col("c0").round(ndigits), table)
    assert found.type == kind
    assert found.to_pylist() == want


COMPARE = {
    "equal": lambda a, b: a == b,
    "not_equal": lambda a, b: a != b,
    "less": lambda a, b: a < b,
    "less_equal": lambda a, b: a <= b,
    "greater": lambda a, b: a > b,
    "greater_equal": lambda a, b: a >= b,
}


@given(data=st.data(), op=st.sampled_from(sorted(COMPARE)))
@EXAMPLES
def test_compare_different_scales(data, op):
    table = data.draw(decimal_table(data.draw(a_type(38)), data.draw(a_type(38))))
    rows = zip(*(c.to_pylist() for c in table.columns), strict=True)
    want = [None if a is None or b is None else COMPARE[op](a, b) for a, b in rows]
    assert compute(COMPARE[op](col("c0"), col("c1")), table).to_pylist() == want


@given(data=st.data(), a=a_type(38), b=a_type(38))
@EXAMPLES
def test_cast_to_another_scale(data, a, b):
    table = data.draw(decimal_table(a))
    cells = table["c0"].to_pylist()
    cut = [
        None if v is None else int(v.scaleb(b.scale, EXACT).to_integral_value(decimal.ROUND_DOWN, EXACT))
        for v in cells
    ]
    fits = [v is None or abs(v) < 10**b.precision for v in cut]
    values = [
        None if v is None or not good else D(v).scaleb(-b.scale, EXACT)
        for v, good in zip(cut, fits, strict=True)
    ]
    assert compute(col("c0").cast(b, safe=False), table).to_pylist() == values
    if values == cells:
        found = compute(col("c0").cast(b), table)
        assert found.type == b and found.to_pylist() == cells
        assert found.to_pylist() == table["c0"].cast(b).to_pylist()
    else:
        with pytest.raises(DataError, match="does not fit"):
            compute(col("c0").cast(b), table)


@given(data=st.data(), kind=a_type(), to=st.sampled_from(INTS))
@EXAMPLES
def test_cast_to_integers_and_back(data, kind, to):
    table = data.draw(decimal_table(kind))
    to = getattr(pa, to)()
    try:
        want = table["c0"].cast(to)
    except pa.ArrowInvalid:
        with pytest.raises(DataError, match="does not fit"):
            compute(col("c0").cast(to), table)
        assert compute(col("c0").cast(to, safe=False), table).to_pylist() == wrapped(table["c0"], to)
        return
    found = compute(col("c0").cast(to), table)
    assert found.to_pylist() == want.to_pylist()
    assert compute(col("c0").cast(kind), pa.table({"c0": found})).to_pylist() == table["c0"].to_pylist()


def wrapped(column, to):
    bits, signed = to.bit_width, pa.types.is_signed_integer(to)
    whole = [None if v is None else math.trunc(v) % 2**bits for v in column.to_pylist()]
    return [v - 2**bits if v is not None and signed and v >= 2 ** (bits - 1) else v for v in whole]


@given(
    cells=st.lists(st.none() | st.floats(-1e6, 1e6) | st.integers(-9, 9).map(lambda v: v / 8), max_size=8),
    scale=st.integers(0, 6),
    wide=st.booleans(),
)
@EXAMPLES
def test_cast_of_floats(cells, scale, wide):
    """The nearest decimal to the exact value; Arrow scales in floats and may be off by one."""
    kind = (pa.decimal256 if wide else pa.decimal128)(20, scale)
    found = compute(col("x").cast(kind), pa.table({"x": pa.array(cells, pa.float64())}))
    want = [None if v is None else round(D(v), scale) for v in cells]
    assert found.type == kind and found.to_pylist() == want
    back = compute(col("c").cast("float64"), pa.table({"c": found})).to_pylist()
    same(back, [None if v is None else float(v) for v in want])


@given(data=st.data(), kind=a_type(38))
@EXAMPLES
def test_cast_to_text_and_back(data, kind):
    table = data.draw(decimal_table(kind))
    texts = compute(col("c0").cast("string"), table)
    assert [None if v is None else D(v) for v in texts.to_pylist()] == table["c0"].to_pylist()
    assert compute(col("c0").cast(kind), pa.table({"c0": texts})).to_pylist() == table["c0"].to_pylist()
    floats = compute(col("c0").cast("double"), table).to_pylist()
    assert floats == [None if v is None else float(v) for v in table["c0"].to_pylist()]


@given(text=st.from_regex(r"\A[+-]?[0-9]{0,4}(\.[0-9]{0,4})?([eE][+-]?[0-9]{1,2})?\Z") | st.text(max_size=4))
@EXAMPLES
def test_text_as_pyarrow_reads_it(text):
    kind = pa.decimal128(12, 3)
    table = pa.table({"c0": [text]})
    try:
        want = table["c0"].cast(kind).to_pylist()
    except pa.ArrowInvalid:
        want = [None]
    found = compute(col("c0").cast(kind, safe=False), table).to_pylist()
    if want != [None] and want == [D(text)]:  # Arrow takes 1e-42 for 0
        assert found == want == compute(col("c0").cast(kind), table).to_pylist()
    else:
        with pytest.raises(DataError, match="row 0 .*does not fit"):
            compute(col("c0").cast(kind), table)


def test_choices_meet_in_one_decimal():
    table = pa.table({"a": pa.array([D("1.5"), None], pa.decimal128(3, 1)), "b": pa.array([D("2.25")] * 2)})
    found = compute(coalesce(col("a"), col("b"), 0), table)
    assert found.type == pa.decimal128(5, 2) or found.type.scale == 2
    assert found.to_pylist() == [D("1.50"), D("2.25")]


@given(data=st.data())
@EXAMPLES
def test_as_duckdb(data):
    table = data.draw(decimal_table(pa.decimal128(9, 2), pa.decimal128(6, 3)))
    con = duckdb.connect()
    con.register("t", table)
    cases = [
        (col("c0") + col("c1"), "c0 + c1"),
        (col("c0") - col("c1") * 2, "c0 - c1 * 2"),
        (col("c0") * col("c1"), "c0 * c1"),
        (-col("c0"), "-c0"),
        (col("c0") >= col("c1"), "c0 >= c1"),
        (col("c0").cast("int64", safe=False), "trunc(c0)::bigint"),
        (col("c0").cast("decimal128(20, 6)"), "c0::decimal(20, 6)"),
    ]
    for expr, sql in cases:
        want = [r for (r,) in con.execute(f"select {sql} from t").fetchall()]
        assert compute(expr, table).to_pylist() == want, sql
