"""Expressions against pyarrow.compute, DuckDB and Python itself: random columns of every type."""

import datetime
import math

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from expression_tables import FLOATS, INTS, UNITS, column_of, compute, int_values, same, table_of, ticks
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace.data as hd
from headrace.data.expressions import col, lit
from headrace.exceptions import DataError

OPS = {
    "equal": lambda a, b: a == b,
    "not_equal": lambda a, b: a != b,
    "less": lambda a, b: a < b,
    "less_equal": lambda a, b: a <= b,
    "greater": lambda a, b: a > b,
    "greater_equal": lambda a, b: a >= b,
}
UTC = datetime.UTC
QUICK = settings(max_examples=25, deadline=None)


ORDERED = [
    pa.bool_(),
    *(getattr(pa, k)() for k in INTS),
    pa.float32(),
    pa.float64(),
    pa.string(),
    pa.large_string(),
    pa.binary(),
    pa.large_binary(),
    pa.binary(3),
    pa.date32(),
    pa.date64(),
    pa.time32("s"),
    pa.time32("ms"),
    pa.time64("us"),
    pa.time64("ns"),
    *(pa.timestamp(u) for u in UNITS),
    pa.timestamp("us", "UTC"),
    *(pa.duration(u) for u in UNITS),
    pa.decimal128(10, 2),
    pa.decimal256(50, 4),
]


def values(column):
    """Python's values; times as ticks, because datetime has no years before 1."""
    return (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()


@pytest.mark.parametrize("kind", ORDERED, ids=str)
@given(data=st.data())
@QUICK
def test_compare_with_pyarrow(kind, data):
    table = data.draw(table_of(kind, kind))
    op = data.draw(st.sampled_from(sorted(OPS)))
    a, b = table["c0"].combine_chunks(), table["c1"].combine_chunks()
    same(compute(OPS[op](col("c0"), col("c1")), table).to_pylist(), getattr(pc, op)(a, b).to_pylist())
    if len(b) and b[0].is_valid:
        constant = lit(b[0])
        want = getattr(pc, op)(a, b[0]).to_pylist()
        same(compute(OPS[op](col("c0"), constant), table).to_pylist(), want)
        same(compute(OPS[op](constant, col("c0")), table).to_pylist(), getattr(pc, op)(b[0], a).to_pylist())
        kept = hd.from_arrow(table).filter(expr=OPS[op](col("c0"), constant)).to_arrow()
        same(values(kept["c1"]), values(table.filter(pa.array(want, pa.bool_()))["c1"]))


@given(data=st.data(), a=st.sampled_from(INTS), b=st.sampled_from(INTS), op=st.sampled_from(sorted(OPS)))
@settings(max_examples=100, deadline=None)
def test_integers_compare_exactly(data, a, b, op):
    table = data.draw(table_of(getattr(pa, a)(), getattr(pa, b)()))
    rows = [(x, y) for x, y in zip(*(c.to_pylist() for c in table.columns), strict=True)]
    want = [None if x is None or y is None else OPS[op](x, y) for x, y in rows]
    same(compute(OPS[op](col("c0"), col("c1")), table).to_pylist(), want)


@given(data=st.data(), unit=st.sampled_from(UNITS), other=st.sampled_from([*UNITS, "date32", "date64"]))
@settings(max_examples=80, deadline=None)
def test_times_compare_exactly(data, unit, other):
    kind = getattr(pa, other)() if other.startswith("date") else pa.timestamp(other)
    table = data.draw(table_of(pa.timestamp(unit), kind))
    op = data.draw(st.sampled_from(sorted(OPS)))
    step = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1, "date32": 86400 * 10**9, "date64": 10**6}
    ticks = [pa.int32() if other == "date32" else pa.int64(), pa.int64()]
    x = table["c0"].combine_chunks().cast(pa.int64()).to_pylist()
    y = table["c1"].combine_chunks().cast(ticks[0]).to_pylist()
    want = [
        None if p is None or q is None else OPS[op](p * step[unit], q * step[other])
        for p, q in zip(x, y, strict=True)
    ]
    same(compute(OPS[op](col("c0"), col("c1")), table).to_pylist(), want)


def python_arithmetic(op, a, b, kind):
    """The rules of docs/expressions.md in exact integers; OverflowError if a result does not fit."""
    if a is None or b is None:
        return None
    if op in ("floor_divide", "modulo") and b == 0:
        return None
    found = {
        "add": lambda: a + b,
        "subtract": lambda: a - b,
        "multiply": lambda: a * b,
        "floor_divide": lambda: a // b,
        "modulo": lambda: a % b,
    }[op]()
    info = np.iinfo(str(kind))
    if not info.min <= found <= info.max:
        raise OverflowError
    return found


ARITHMETIC = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "floor_divide": lambda a, b: a // b,
    "modulo": lambda a, b: a % b,
}


@given(data=st.data(), kind=st.sampled_from(INTS), op=st.sampled_from(sorted(ARITHMETIC)))
@settings(max_examples=150, deadline=None)
def test_integer_arithmetic(data, kind, op):
    table = data.draw(table_of(getattr(pa, kind)(), getattr(pa, kind)()))
    rows = list(zip(*(c.to_pylist() for c in table.columns), strict=True))
    expr = ARITHMETIC[op](col("c0"), col("c1"))
    try:
        want = [python_arithmetic(op, a, b, kind) for a, b in rows]
    except OverflowError:
        with pytest.raises(DataError, match="does not fit"):
            compute(expr, table)
        return
    found = compute(expr, table)
    assert str(found.type) == kind
    same(found.to_pylist(), want)


@given(data=st.data(), kind=st.sampled_from(FLOATS), op=st.sampled_from([*sorted(ARITHMETIC), "divide"]))
@settings(max_examples=150, deadline=None)
def test_float_arithmetic(data, kind, op):
    kind = pa.float32() if kind == "float" else pa.float64()
    table = data.draw(table_of(kind, kind))
    numpy_op = {"floor_divide": np.floor_divide, "modulo": np.remainder}.get(op) or getattr(np, op)
    x, y = (c.combine_chunks().fill_null(1).to_numpy() for c in table.columns)
    valid = [
        a is not None and b is not None for a, b in zip(*(c.to_pylist() for c in table.columns), strict=True)
    ]
    with np.errstate(all="ignore"):
        want = numpy_op(x, y)
    found = compute({**ARITHMETIC, "divide": lambda a, b: a / b}[op](col("c0"), col("c1")), table)
    assert found.type == kind
    for a, b, v in zip(found.to_pylist(), want.tolist(), valid, strict=True):
        if not v:
            assert a is None
        elif op in ("floor_divide", "modulo") and kind == pa.float32() and math.isfinite(b):
            assert a == b or abs(a - b) <= max(abs(a), abs(b)) * 1e-6  # NumPy rounds on the way
        else:
            assert a == b or (math.isnan(a) and math.isnan(b)), (a, b)


@given(data=st.data())
@settings(max_examples=80, deadline=None)
def test_logic_with_duckdb(data):
    table = data.draw(table_of(pa.bool_(), pa.bool_(), pa.bool_()))
    a, b, c = col("c0"), col("c1"), col("c2")
    cases = [
        (a & b, "c0 and c1"),
        (a | b, "c0 or c1"),
        (~a, "not c0"),
        ((a & ~b) | (c & a), "(c0 and not c1) or (c2 and c0)"),
        (~(a | (b & c)), "not (c0 or (c1 and c2))"),
        (a == b, "c0 = c1"),
        (a.is_null() | b, "c0 is null or c1"),
        (a.is_not_null() & b, "c0 is not null and c1"),
        (a & None, "c0 and null"),
        (a | True, "c0 or true"),
    ]
    con = duckdb.connect()
    con.register("t", table)
    for expr, sql in cases:
        want = [r for (r,) in con.execute(f"select {sql} from t").fetchall()]
        assert compute(expr, table).to_pylist() == want, sql


@given(data=st.data(), kind=st.sampled_from(["int32", "int64", "uint8", "int16"]))
@settings(max_examples=120, deadline=None)
def test_division_by_a_constant(data, kind):
    """Values and divisors of every size, and values near multiples of the divisor."""
    info = np.iinfo(kind)
    d = data.draw(st.sampled_from([2, 3, 7, 10, 127]) | st.integers(2, info.max))
    near = st.builds(lambda q, r: q * d + r, st.integers(info.min // d, info.max // d), st.integers(-1, 1))
    near = near.filter(lambda v: info.min <= v <= info.max)
    exact = st.builds(lambda e, r: 2**e + r, st.integers(40, 62), st.integers(-2, 2)).filter(
        lambda v: v <= info.max
    )
    values = near | int_values(kind) | (exact if kind == "int64" else near)
    cells = data.draw(st.lists(st.none() | values, max_size=12))
    table = pa.table({"c0": pa.array(cells, getattr(pa, kind)())})
    divisor = lit(d, type=kind)
    assert compute(col("c0") // divisor, table).to_pylist() == [None if v is None else v // d for v in cells]
    assert compute(col("c0") % divisor, table).to_pylist() == [None if v is None else v % d for v in cells]


@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_filters_with_duckdb(data):
    n = data.draw(st.integers(0, 40))
    cells = {
        "i": (pa.int32(), st.integers(-5, 5)),
        "f": (pa.float64(), st.floats(-3, 3).map(lambda v: round(v, 1))),
        "s": (pa.string(), st.sampled_from(["", "a", "b", "abc", "Ä"])),
        "d": (pa.date32(), st.dates(datetime.date(2020, 1, 1), datetime.date(2020, 1, 9))),
    }
    table = pa.table(
        {
            k: pa.array(data.draw(st.lists(st.none() | v, min_size=n, max_size=n)), t)
            for k, (t, v) in cells.items()
        }
    )
    cases = [
        (col("i") * 2 + 1 > 3, "i * 2 + 1 > 3"),
        (col("i").is_in([1, 2, 7]) | (col("f") <= 0.5), "i in (1, 2, 7) or f <= 0.5"),
        (~(col("s") == "a") & (col("i") != 0), "not (s = 'a') and i <> 0"),
        ((col("s") > "a") & (col("d") >= datetime.date(2020, 1, 4)), "s > 'a' and d >= date '2020-01-04'"),
        (col("f") + col("i") > 0, "f + i > 0"),
        (col("i") / 2 > col("f"), "i / 2 > f"),
        (col("i").cast("double") == col("f"), "i::double = f"),
    ]
    con = duckdb.connect()
    con.register("t", table)
    for expr, sql in cases:
        want = con.execute(f"select i, f, s, d from t where {sql}").fetchall()
        found = [tuple(r.values()) for r in hd.from_arrow(table).filter(expr=expr).to_arrow().to_pylist()]
        assert sorted(found, key=repr) == sorted(want, key=repr), sql


SETS = [k for k in ORDERED if not pa.types.is_decimal256(k)]


@pytest.mark.parametrize("kind", [*SETS, pa.float16()], ids=str)
@given(data=st.data())
@QUICK
def test_is_in_with_pyarrow(kind, data):
    table = data.draw(table_of(kind))
    n = data.draw(st.sampled_from([0, 1, 3, 20]))
    values = data.draw(column_of(kind, n))
    if len(table) and data.draw(st.booleans()):
        values = pa.concat_arrays([values, table["c0"].combine_chunks().slice(0, 2)])
    listed, cells = ticks(values).to_pylist(), ticks(table["c0"].combine_chunks()).to_pylist()
    want = [any(v == x if x is not None else v is None for v in listed) for x in cells]  # NaN is in none
    found = compute(col("c0").is_in(values), table).to_pylist()
    assert found == want
    assert compute(col("c0").not_in(values), table).to_pylist() == [not w for w in want]


@given(
    data=st.data(), kind=st.sampled_from(INTS + FLOATS), values=st.lists(st.integers(-300, 300) | st.floats())
)
@settings(max_examples=80, deadline=None)
def test_is_in_with_numbers_of_other_types(data, kind, values):
    kind = {"float": pa.float32(), "double": pa.float64()}.get(kind) or getattr(pa, kind)()
    table = data.draw(table_of(kind))
    values = [float(v) for v in values] if any(isinstance(v, float) for v in values) else values
    with np.errstate(all="ignore"):
        as_floats = [float(np.float32(v)) if kind == pa.float32() else v for v in values]
    want = [x is not None and x in as_floats and x == x for x in table["c0"].to_pylist()]
    assert compute(col("c0").is_in(values), table).to_pylist() == want


NUMBERS = [pa.bool_(), *(getattr(pa, k)() for k in INTS), pa.float32(), pa.float64()]


def fits(value, kind):
    if pa.types.is_boolean(kind) or pa.types.is_floating(kind):
        return True
    info = np.iinfo(str(kind))
    return math.isfinite(value) and value == math.trunc(value) and info.min <= value <= info.max


@given(data=st.data(), a=st.sampled_from(NUMBERS), b=st.sampled_from(NUMBERS))
@settings(max_examples=150, deadline=None)
def test_cast_of_numbers(data, a, b):
    table = data.draw(table_of(a))
    cells = table["c0"].to_pylist()
    expr = col("c0").cast(str(b))
    if not all(v is None or fits(v, b) for v in cells):
        with pytest.raises(DataError, match="does not fit"):
            compute(expr, table)
        if pa.types.is_integer(a):
            want = pc.cast(table["c0"], b, safe=False).to_pylist()
            assert compute(col("c0").cast(str(b), safe=False), table).to_pylist() == want
        return
    with np.errstate(all="ignore"):
        python = {"b": bool, "f": float}.get(np.dtype(b.to_pandas_dtype()).kind, int)
        want = [None if v is None else python(np.dtype(b.to_pandas_dtype()).type(v)) for v in cells]
    found = compute(expr, table)
    assert found.type == b
    same(found.to_pylist(), want)


@given(data=st.data(), a=st.sampled_from(UNITS), b=st.sampled_from([*UNITS, "date32"]), safe=st.booleans())
@settings(max_examples=80, deadline=None)
def test_cast_of_times(data, a, b, safe):
    table = data.draw(table_of(pa.timestamp(a)))
    to = pa.date32() if b == "date32" else pa.timestamp(b)
    steps = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1, "date32": 86400 * 10**9}
    ticks = [
        None if v is None else v * steps[a] for v in table["c0"].combine_chunks().cast("int64").to_pylist()
    ]
    too_far = any(v is not None and not -(2**63) <= v // steps[b] < 2**63 for v in ticks)
    rest = b != "date32" and any(v is not None and v % steps[b] for v in ticks)
    expr = col("c0").cast(str(to), safe=safe)
    if (rest or too_far) and safe:
        with pytest.raises(DataError, match="does not fit"):
            compute(expr, table)
    elif not too_far:
        found = compute(expr, table).combine_chunks().cast("int32" if b == "date32" else "int64").to_pylist()
        assert found == [None if v is None else v // steps[b] for v in ticks]


@given(data=st.data(), a=st.sampled_from(UNITS), b=st.sampled_from(UNITS))
@settings(max_examples=100, deadline=None)
def test_arithmetic_of_times(data, a, b):
    table = data.draw(table_of(pa.timestamp(a), pa.timestamp(b), pa.duration(b)))
    for expr, fn in ((col("c0") - col("c1"), pc.subtract), (col("c0") + col("c2"), pc.add)):
        other = "c1" if fn is pc.subtract else "c2"
        try:
            want = fn(table["c0"], table[other])
        except pa.ArrowInvalid:  # would not fit the finer unit
            continue
        found = compute(expr, table)
        assert found.type == want.type
        assert found.cast("int64").to_pylist() == want.cast("int64").to_pylist()


@given(data=st.data(), kind=st.sampled_from(ORDERED))
@settings(max_examples=100, deadline=None)
def test_pieces_give_the_same(data, kind):
    """The same rows in one table, in many tables, and in a file."""
    table = data.draw(table_of(kind, pa.int32()))
    expr = col("c0").is_null() | (col("c1") > 0)
    whole = hd.from_arrow(table).filter(expr=expr).to_arrow()
    if len(table):
        parts = hd.from_arrow([table.slice(i, 1) for i in range(len(table))]).filter(expr=expr).to_arrow()
        assert parts.column_names == whole.column_names
        for name in table.column_names:
            same(parts[name].to_pylist(), whole[name].to_pylist())


def test_common_types_are_numpys():
    kinds = [*INTS, "float16", "float32", "float64"]
    for a in kinds:
        for b in kinds:
            table = pa.table(
                {"c0": pa.array([], pa.type_for_alias(a)), "c1": pa.array([], pa.type_for_alias(b))}
            )
            found = compute(col("c0") + col("c1"), table).type.to_pandas_dtype()
            want = np.promote_types(a, b)
            if (
                {a, b} & {"uint64"}
                and want == np.float64
                and np.dtype(a).kind in "iu"
                and np.dtype(b).kind in "iu"
            ):
                want = np.int64  # no integer type holds both: the value decides
            assert np.dtype(found) == (np.float32 if want == np.float16 else want), (a, b)


TEXTUAL = [
    pa.bool_(),
    *(getattr(pa, k)() for k in INTS),
    pa.float32(),
    pa.float64(),
    pa.date32(),
    pa.time32("s"),
    pa.time64("ns"),
    pa.timestamp("us"),
    pa.timestamp("ns", "UTC"),
]


@given(data=st.data(), kind=st.sampled_from(TEXTUAL), text=st.sampled_from(["string", "large_string"]))
@settings(max_examples=150, deadline=None)
def test_text_and_back(data, kind, text):
    table = data.draw(table_of(kind))
    texts = compute(col("c0").cast(text), table)
    assert str(texts.type) == text and texts.null_count == table["c0"].null_count
    back = compute(col("c0").cast(str(kind)), pa.table({"c0": texts}))
    assert back.type == kind
    same(ticks(back.combine_chunks()).to_pylist(), ticks(table["c0"].combine_chunks()).to_pylist())
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_date(kind):
        assert texts.to_pylist() == pc.cast(table["c0"], pa.string()).to_pylist()


@pytest.mark.parametrize(
    ("text", "kind", "want"),
    [
        ("12", "int8", 12),
        ("-128", "int8", -128),
        ("128", "int8", None),
        ("-1", "uint8", None),
        ("18446744073709551615", "uint64", 2**64 - 1),
        ("1.0", "int32", None),
        ("", "int32", None),
        (" 1", "int32", None),
        ("1e3", "double", 1000.0),
        (".5", "float", 0.5),
        ("inf", "double", math.inf),
        ("0.1", "float", float(np.float32(0.1))),
        ("x", "double", None),
        ("0" * 500 + "1", "double", None),  # too long to be meant
        ("TRUE", "bool", True),
        ("0", "bool", False),
        ("yes", "bool", None),
        ("2020-02-29", "date32", datetime.date(2020, 2, 29)),
        ("2021-02-29", "date32", None),
        ("2020-02-29T01:02:03.5", "timestamp[ms]", datetime.datetime(2020, 2, 29, 1, 2, 3, 500000)),
        ("2020-02-29 01:02", "timestamp[s]", datetime.datetime(2020, 2, 29, 1, 2)),
        ("2020-02-29 01:02:03.5", "timestamp[s]", None),
        ("2020-02-29 01:02:03Z", "timestamp[s]", None),
        (
            "2020-02-29T01:02:03+02:00",
            "timestamp[us, tz=UTC]",
            datetime.datetime(2020, 2, 28, 23, 2, 3, 0, UTC),
        ),
        (
            "2020-02-29 01:02:03Z",
            "timestamp[ms, tz=Europe/Berlin]",
            datetime.datetime(2020, 2, 29, 1, 2, 3, 0, UTC),
        ),
        (
            "2020-02-29T01:02:03",
            "timestamp[s, tz=Europe/Berlin]",
            datetime.datetime(2020, 2, 29, 1, 2, 3, 0, UTC),
        ),
        ("2020-02-29T01:02:03-00:30", "timestamp[s]", None),
        ("2020-02-29T01:02:03+25:00", "timestamp[s, tz=UTC]", None),
        ("2020-02-29T01:02:03Z", "date32", None),
        ("01:02:03", "time32[s]", datetime.time(1, 2, 3)),
        ("25:00", "time32[s]", None),
    ],
)
def test_text_as_a_value(text, kind, want):
    table = pa.table({"c0": ["\x00", text, None]}).slice(1)
    found = compute(col("c0").cast(kind, safe=False), table)
    assert found.to_pylist() == [want, None]
    if want is None:
        with pytest.raises(DataError, match="row 0 .*does not fit"):
            compute(col("c0").cast(kind), table)
    else:
        assert compute(col("c0").cast(kind), table).to_pylist() == [want, None]


def test_text_stands_for_a_time():
    days = pa.array([datetime.date(2020, 1, d) for d in (1, 2, 3)])
    table = pa.table(
        {"d": days, "t": days.cast(pa.timestamp("s")), "u": days.cast(pa.timestamp("ms", "UTC"))}
    )
    for name in table.column_names:
        assert compute(col(name) > "2020-01-02", table).to_pylist() == [False, False, True]
        assert compute("2020-01-02" == col(name), table).to_pylist() == [False, True, False]
        assert compute(col(name).is_in(["2020-01-02", None]), table).to_pylist() == [False, True, False]
        with pytest.raises(DataError, match="2020-13-01"):
            compute(col(name) > "2020-13-01", table)
        with pytest.raises(DataError, match="never"):
            compute(col(name).is_in(["2020-01-02", "never"]), table)


def test_text_that_is_no_text():
    table = pa.table({"b": [b"a", b"\xff", None, "ä".encode()]})
    assert compute(col("b").cast("string", safe=False), table).to_pylist() == ["a", None, None, "ä"]
    with pytest.raises(DataError, match="row 1"):
        compute(col("b").cast("string"), table)
    assert compute(col("b").cast("large_binary"), table).to_pylist() == table["b"].to_pylist()
