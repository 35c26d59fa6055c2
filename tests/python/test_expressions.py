"""headrace.data.expressions: syntax, results and errors.

test_expressions_agree.py compares with other engines.
"""

import datetime
import operator
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace.data as hd
from headrace import _core
from headrace.data.expressions import (
    BinaryExpr,
    ColumnExpr,
    Expr,
    LiteralExpr,
    Operation,
    RandomExpr,
    UnaryExpr,
    UUIDExpr,
    col,
    lit,
    parse,
    random,
    uuid,
)
from headrace.exceptions import DataError, InvalidArgument, TypeMismatchError

TABLE = pa.table(
    {
        "x": pa.array([1, 2, None, 4, 5], pa.int8()),
        "y": [1.5, float("nan"), 3.0, None, -1.0],
        "s": ["a", "b", None, "", "zz"],
        "b": [True, None, False, True, False],
        "t": pa.array([0, 10**6, None, -1, 5], pa.timestamp("us")),
    }
)


def compute(expr, table=TABLE):
    return hd.from_arrow(table).with_column("r", expr).select_columns(["r"]).to_arrow()["r"]


@pytest.mark.parametrize(
    ("expr", "want"),
    [
        (col("x") > 2, [False, False, None, True, True]),
        (2 < col("x"), [False, False, None, True, True]),
        ((col("x") > 2) & (col("y") < 3), [False, False, False, None, True]),
        ((col("x") > 2) | (col("y") < 3), [True, False, None, True, True]),
        (col("b") ^ True, [False, None, True, False, True]),
        (~col("b"), [False, None, True, False, True]),
        (col("s").is_in(["a", "zz"]), [True, False, False, False, True]),
        (col("x").is_in([1, 5, 300, None]), [True, False, True, False, True]),
        (col("x").not_in([1, 5, 300]), [False, True, True, True, False]),
        (col("y").is_in([float("nan"), 3]), [False, False, True, False, False]),
        (col("x").is_in([]), [False] * 5),
        (col("x") + 1, [2, 3, None, 5, 6]),
        (10 - col("x"), [9, 8, None, 6, 5]),
        (col("x") * 2.5, [2.5, 5.0, None, 10.0, 12.5]),
        (col("x") / 2, [0.5, 1.0, None, 2.0, 2.5]),
        (col("x") // 2, [0, 1, None, 2, 2]),
        (-col("x") // 2, [-1, -1, None, -2, -3]),
        (-col("x") % 3, [2, 1, None, 2, 1]),
        (col("x") % 0, [None] * 5),
        (col("y").is_nan(), [False, True, False, None, False]),
        (col("s") >= "b", [False, True, None, False, True]),
        (col("s").is_null(), [False, False, True, False, False]),
        (col("s").is_not_null(), [True, True, False, True, True]),
        (col("t") > datetime.datetime(1970, 1, 1), [False, True, None, False, True]),
        (lit(7), [7] * 5),
        (lit(None).cast("int16"), [None] * 5),
        (lit(1) + 2, [3] * 5),
        (+col("x"), [1, 2, None, 4, 5]),
    ],
    ids=str,
)
def test_values(expr, want):
    assert compute(expr).to_pylist() == want
    empty = compute(expr, TABLE.slice(0, 0))
    assert empty.to_pylist() == [] and empty.type == compute(expr).type
    for begin in range(5):
        assert compute(expr, TABLE.slice(begin, 1)).to_pylist() == want[begin : begin + 1]
        assert compute(expr, TABLE.slice(begin)).to_pylist() == want[begin:]


@pytest.mark.parametrize(
    ("expr", "want"),
    [
        (col("x") + 1, pa.int8()),
        (col("x") + 300, pa.int64()),
        (col("x") + np.int16(1), pa.int16()),
        (col("x") + 1.0, pa.float64()),
        (col("f") * 2.0, pa.float32()),
        (col("f") * np.float64(2), pa.float64()),
        (col("f") + col("x"), pa.float32()),
        (col("f") + col("i"), pa.float64()),
        (col("x") / 2, pa.float64()),
        (col("f") / 2, pa.float32()),
        (col("x") // 2, pa.int8()),
        (col("x") + col("u"), pa.int64()),
        (col("u") + 1, pa.uint32()),
        (lit(2) * 3, pa.int64()),
        (col("t") - col("t"), pa.duration("us")),
        (col("t") + datetime.timedelta(seconds=1), pa.timestamp("us")),
        (col("x") > 3, pa.bool_()),
        (col("x").cast("float32"), pa.float32()),
        (col("x").cast(np.uint8), pa.uint8()),
        (col("x").cast(pa.int32()), pa.int32()),
        (col("x").cast(float), pa.float64()),
    ],
    ids=str,
)
def test_types(expr, want):
    table = TABLE.append_column("f", pa.array([1] * 5, pa.float32())).append_column(
        "i", pa.array([1] * 5, pa.int32())
    )
    table = table.append_column("u", pa.array([1] * 5, pa.uint32()))
    assert compute(expr, table).type == want


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda d: d.filter(expr=col("nix") > 3), InvalidArgument, "no column 'nix'"),
        (lambda d: d.with_column("r", col("x") + col("s")), TypeMismatchError, "add of int8 and string"),
        (lambda d: d.filter(expr=col("x") + 1), TypeMismatchError, "expected bool"),
        (lambda d: d.filter(expr=col("x") == col("s")), TypeMismatchError, "equal of int8 and string"),
        (lambda d: d.filter(expr=col("b") & col("x")), TypeMismatchError, "expected bool"),
        (lambda d: d.filter(expr="x >"), InvalidArgument, r"column 4: invalid syntax\n    x >\n       \^$"),
        (lambda d: d.filter(expr="x + 'ä' + x.rond(2)"), InvalidArgument, r"mean 'round'.*\n.*\n {16}\^{4}$"),
        (lambda d: d.filter(expr="s.str.uper()"), InvalidArgument, r"column 7: no method 'uper'.* 'upper'\?"),
        (lambda d: d.filter(expr="(x >\n y[0])"), InvalidArgument, r"\[ \]\n     y\[0\]\)\n     \^{4}$"),
        (lambda d: d.filter(expr="x + (lambda: 3)"), InvalidArgument, "column 6: Lambda"),
        (lambda d: d.filter(expr="__import__('os')"), InvalidArgument, "no function '__import__'"),
        (lambda d: d.filter(expr="(s)(3)"), InvalidArgument, r"no function 's'"),
        (lambda d: d.filter(expr="x == None"), InvalidArgument, "is null in every row: is_null"),
        (lambda d: d.filter(expr=col("x") != None), InvalidArgument, "is null in every row"),  # noqa: E711
        (lambda d: d.filter(expr="x > 1 && x < 3"), InvalidArgument, "expected 'and' instead of '&&'"),
        (lambda d: d.filter(expr="x > 1 || x < 3"), InvalidArgument, "expected 'or' instead of '||'"),
        (lambda d: d.filter(expr="x = 1"), InvalidArgument, "expected '==' instead of '='"),
        (lambda d: d.filter(expr="x <> 1"), InvalidArgument, "expected '!=' instead of '<>'"),
        (lambda d: d.filter(expr="x between 1 and 3"), InvalidArgument, "write a <= x and x <= b"),
        (lambda d: d.with_column("r", lambda r: 1), TypeMismatchError, "found a function; map"),
        (lambda d: d.filter(expr="x.cast('int3')"), InvalidArgument, "type 'int3'"),
        (lambda d: d.with_columns([col("x") + 1]), InvalidArgument, "alias"),
        (lambda d: d.with_column(3, col("x")), TypeMismatchError, "expected a name"),
        (lambda d: d.filter(), InvalidArgument, "a function or an expression"),
        (lambda d: d.filter(lambda r: True, expr="x > 1"), InvalidArgument, "found both"),
        (lambda d: d.with_column("r", -col("s")), TypeMismatchError, "negate of string"),
        (lambda d: d.with_column("r", col("x").is_in("abc")), TypeMismatchError, "list of values"),
        (lambda d: d.with_column("r", lit(2**63 - 1) + 1), DataError, "does not fit int64"),
    ],
)
def test_refused_when_written(make, error, text):
    with pytest.raises(error, match=text):
        make(hd.from_arrow(TABLE))


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (col("x") * 100, "row 1 of memory: 2 \\* 100 does not fit int8"),
        (col("x").cast("uint8") - 2, "row 0 .* 1 - 2 does not fit uint8"),
        (col("y").cast("int32"), "row 0 .* 1.5 does not fit int32"),
        ((col("x") - 5).cast("uint16"), "row 0 .* -4 does not fit uint16"),
    ],
)
def test_refused_when_run(expr, text):
    with pytest.raises(DataError, match=text):
        compute(expr)


def test_unsafe_cast():
    assert compute((col("x") - 5).cast("uint16", safe=False)).to_pylist() == [65532, 65533, None, 65535, 0]
    assert compute(col("y").cast("int32", safe=False)).to_pylist() == [1, None, 3, None, -1]


def test_truth_is_refused():
    for use in (bool, lambda e: e and e, lambda e: not e, lambda e: 1 < e < 3, list):
        with pytest.raises(TypeError, match="use & | ~|expected a sequence"):
            use(col("x"))
    with pytest.raises(TypeError):
        hash(col("x"))
    import pyarrow.compute as pc

    with pytest.raises(TypeError, match=r"pyarrow\.compute\.Expression"):
        hd.from_arrow(TABLE).filter(expr=pc.field("x") > 3)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("x > 3", col("x") > 3),
        ("x > -3 and s != 'b'", (col("x") > -3) & (col("s") != "b")),
        ("not b or x in [1, 2]", ~col("b") | col("x").is_in([1, 2])),
        ("1 < x <= 4", (lit(1) < col("x")) & (col("x") <= 4)),
        ("s is None or col('y') is not None", col("s").is_null() | col("y").is_not_null()),
        ("is_null(s) or y is not null", col("s").is_null() | col("y").is_not_null()),
        ("x not in (1, 2)", col("x").not_in([1, 2])),
        ("(x + 1) // 2 % 3 == y / 2", (col("x") + 1) // 2 % 3 == col("y") / 2),
        ("x.is_null() & ~b", col("x").is_null() & ~col("b")),
        ("x.cast('int32', safe=False) > 3", col("x").cast("int32", safe=False) > 3),
    ],
)
def test_text(text, same):
    assert parse(text).structurally_equals(same)


def test_classes_of_expressions():
    """As Ray's: what an expression is made of, and the same expressions from the classes."""
    whole = (col("x") + 5 > lit(1)) & ~col("b")
    assert isinstance(whole, BinaryExpr) and whole.op is Operation.AND and whole.op == "and"
    added = whole.left.left
    assert isinstance(added.left, ColumnExpr) and added.left.name == "x" and added.op.name == "ADD"
    assert isinstance(added.right, LiteralExpr) and added.right.value == 5 and (7 - col("x")).left.value == 7
    assert isinstance(whole.right, UnaryExpr) and whole.right.op is Operation.NOT
    assert whole.right.operand.structurally_equals(ColumnExpr("b"))
    assert parse("x in [1, 2]").right.value == [1, 2] and col("x").is_in(iter([3])).right.value == [3]
    assert (
        col("x")
        .not_in(lit([1, 2]).value)
        .structurally_equals(BinaryExpr(Operation.NOT_IN, col("x"), lit([1, 2])))
    )
    assert type(col("x").abs()) is Expr and type(col("x").alias("y")) is Expr


@pytest.mark.parametrize("op", Operation)
def test_operations_are_those_of_operators(op):
    names = {"and": "and_", "or": "or_", "not": "invert", "div": "truediv"}
    one = op in (Operation.NOT, Operation.IS_NULL, Operation.IS_NOT_NULL)
    right = [1, 2] if op in (Operation.IN, Operation.NOT_IN) else col("y")
    made = UnaryExpr(op, col("x")) if one else BinaryExpr(op, col("x"), right)
    if method := {"in": "is_in"}.get(op.value, op.value if hasattr(Expr, op.value) else None):
        same = getattr(col("x"), method)() if one else getattr(col("x"), method)(right)
    else:
        function = getattr(operator, names.get(op.value, op.value))
        same = function(col("x")) if one else function(col("x"), right)
    assert made.structurally_equals(same) and same.op is op and type(same) is type(made)
    with pytest.raises(InvalidArgument, match="operand"):
        BinaryExpr(op, col("x"), 1) if one else UnaryExpr(op, col("x"))


def test_random_numbers_and_identifiers_print_as_in_ray():
    for made, text in (
        (random(), "RANDOM()"),
        (random(seed=1234), "RANDOM(seed=1234, reseed_after_execution=True)"),
        (RandomExpr(), "RANDOM()"),
        (uuid(), "UUID()"),
        (UUIDExpr(), "UUID()"),
    ):
        again = pickle.loads(pickle.dumps(made))
        assert repr(made) == repr(again) == text and again.structurally_equals(made)
    rows = hd.range(50).with_columns({"r": random(seed=1), "s": RandomExpr(1), "u": UUIDExpr()}).take_all()
    assert all(row["r"] == row["s"] for row in rows) and len({row["u"] for row in rows}) == 50


def test_long_chains_pickle():
    whole = col("x") == 0
    for i in range(300):
        whole = whole | (col("x") == i)
    again = pickle.loads(pickle.dumps(whole))
    assert again.structurally_equals(whole)


def test_repr_name_pickle():
    e = ((col("x") + 1).is_in([1, 2]) & (col("s") != "b")).alias("kept")
    assert repr(e) == "(is_in(col('x') + 1, [1, 2]) & (col('s') != 'b')).alias('kept')"
    assert e.name == "kept" and col("x").name == "x" and (col("x") + 1).name is None
    assert sorted(e.columns()) == ["s", "x"]
    for other in (e, col("x").cast("int8"), lit(3), lit(None), lit(b"\x00"), lit(np.float32(2)), lit([1, 2])):
        again = pickle.loads(pickle.dumps(other))
        assert again.structurally_equals(other) and repr(again) == repr(other)
        assert again._core.fingerprint() == other._core.fingerprint()
    assert isinstance(e, Expr) and not e.structurally_equals(col("x"))
    ds = hd.from_arrow(TABLE).filter(expr=col("x") > 1).with_columns([e, col("y").alias("z")])
    assert pickle.loads(pickle.dumps(ds)).to_arrow().drop("y").drop("z") == ds.to_arrow().drop("y").drop("z")


def test_with_columns_see_the_old_ones():
    ds = hd.from_arrow(TABLE.select(["x"])).with_columns(
        {"y": col("x") + 1, "x": col("x") * 10, "z": col("x")}
    )
    assert ds.columns() == ["x", "y", "z"]
    assert ds.take(1) == [{"x": 10, "y": 2, "z": 1}]


def explained(ds, capsys):
    ds.explain()
    return capsys.readouterr().out.split("runs as")[-1]


def test_pushed_down(tmp_path, capsys):
    pq.write_table(TABLE, tmp_path / "a.parquet")
    ds = hd.read_parquet(str(tmp_path / "a.parquet"))
    plan = explained(
        ds.rename_columns({"x": "z"})
        .with_columns({"q": col("z") + 1, "unused": col("y") * 2})
        .filter(expr=(col("z") > 1) & (col("q") < 6))
        .select_columns(["s", "q"]),
        capsys,
    )
    assert (
        "columns=[x, s] rows where col('x') > 1" in plan or "columns=[s, x] rows where col('x') > 1" in plan
    )
    assert "unused" not in plan.split("project")[1]
    assert "rows where" not in explained(ds.limit(2).filter(expr=col("x") > 1), capsys)
    limited = explained(ds.filter(expr=col("x") > 1).limit(2), capsys)
    assert "rows<=" not in limited and "rows where" in limited
    both = explained(ds.union(ds).filter(expr=col("x") > 1).filter(expr="s != 'b'"), capsys)
    assert both.count("rows where (col('x') > 1) & (col('s') != 'b')") == 2
    function = explained(ds.map(lambda r: r).filter(expr=col("x") > 1), capsys)
    assert "rows where" not in function


def test_filter_of_a_read(tmp_path):
    pq.write_table(TABLE, tmp_path / "a.parquet")
    path = str(tmp_path / "a.parquet")
    ds = hd.read_parquet(path, columns=["s"], filter=col("x") > 1)
    assert ds.take_all() == [{"s": "b"}, {"s": ""}, {"s": "zz"}]
    assert ds.count() == 3
    assert hd.read_parquet(path, filter="x > 1").columns() == TABLE.column_names
    assert hd.read_parquet(path).filter(expr=lit(True)).count() == 5
    assert hd.read_parquet(path).filter(expr=lit(None).cast("int8") == 1).count() == 0


def test_coordinates_stay():
    ds = hd.range(3000).filter(expr=col("id") % 7 == 0).with_column("y", col("id") * 2)
    with ds._run(ds._node) as run:
        tables = list(run)
    rows = [(first + i, t) for t in tables for _, _, _, first, _, n, _ in t.origin for i in range(n)]
    assert [r for r, _ in rows] == [r["id"] for r in ds.take_all()]


def test_all_python_operators_are_functions():
    names = {name for name, *_ in _core.Expr.functions()}
    for op in (operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod):
        text = str(op(col("x"), 2))
        assert text.startswith("col('x') ")
    assert {"add", "is_in", "cast", "and", "not"} <= names


def test_texts_of_every_length_are_distinguished():
    """One letter differs, at each place of texts of each length; among texts of other lengths."""
    for n in range(40):
        text = "".join(chr(97 + i % 26) for i in range(n))
        others = [text[:i] + "#" + text[i + 1 :] for i in range(n)]
        for kind in (pa.string(), pa.large_string()):
            table = pa.table({"s": pa.array([text, text + "a", text[1:], None, *others, text], kind)})
            want = [text == v if v is not None else None for v in table["s"].to_pylist()]
            ds = hd.from_arrow(table).with_columns({"e": col("s") == text, "n": col("s") != text})
            found = ds.to_arrow()
            assert found["e"].to_pylist() == want
            assert found["n"].to_pylist() == [None if v is None else not v for v in want]


def test_columns_that_a_filter_looks_at_need_not_go_on():
    numbers = list(range(100))
    table = pa.table({"x": numbers, "y": [str(i) for i in numbers], "z": [i % 3 for i in numbers]})
    ds = hd.from_arrow([table.slice(i, 9) for i in range(0, 100, 9)])
    kept = ds.filter(expr=(col("x") > 10) & (col("z") == 0))
    want = [str(i) for i in range(100) if i > 10 and i % 3 == 0]
    assert kept.select_columns(["y"]).to_arrow()["y"].to_pylist() == want
    assert kept.count() == len(want)
    again = kept.filter(expr=col("y") != "12").select_columns(["z", "y"]).to_arrow()
    assert again.column_names == ["z", "y"] and again["y"].to_pylist() == [v for v in want if v != "12"]
