"""groupby and aggregates against pandas and pyarrow, whatever the cuts, threads and memory."""

import datetime
import decimal
import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace.data as hd
from headrace import _core
from headrace.data.aggregate import (
    AbsMax,
    AggregateFn,
    AggregateFnV2,
    ApproximateQuantile,
    ApproximateTopK,
    AsList,
    Count,
    CountDistinct,
    Max,
    Mean,
    Min,
    MissingValuePercentage,
    Quantile,
    Std,
    Sum,
    Unique,
    ValueCounter,
    ZeroPercentage,
)


def cut(table, sizes):
    """The same rows as blocks whose sizes cycle through `sizes`."""
    parts, at, i = [], 0, 0
    while at < len(table):
        parts.append(table.slice(at, sizes[i % len(sizes)]))
        at += sizes[i % len(sizes)]
        i += 1
    return hd.from_arrow(parts or [table])


def rows_by_key(rows, keys):
    def comparable(v):
        return "NaN" if isinstance(v, float) and math.isnan(v) else v

    return {tuple(comparable(r[k]) for k in keys): r for r in rows}


def close(a, b):
    if a is None or b is None:
        return a is None and b is None
    if isinstance(a, float) or isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-12, abs_tol=1e-12)
    return a == b


def expected_of(table, keys, ddof=1):
    """With pyarrow, which handles nulls: {key: {name: value}}."""
    groups = {}
    for row in table.to_pylist():
        key = tuple("NaN" if isinstance(row[k], float) and math.isnan(row[k]) else row[k] for k in keys)
        groups.setdefault(key, []).append(row["x"])
    out = {}
    for key, values in groups.items():
        x = pa.array(values, table.schema.field("x").type)
        out[key] = {
            "count()": len(x),
            "sum(x)": pc.sum(x).as_py(),
            "min(x)": pc.min(x).as_py(),
            "max(x)": pc.max(x).as_py(),
            "mean(x)": pc.mean(x).as_py(),
            "std(x)": std_of(x, ddof),
            "list(x)": values,
        }
    return out


def std_of(x, ddof):
    n = len(x) - x.null_count
    if n == 0:
        return None
    return math.nan if n <= ddof else pc.stddev(x, ddof=ddof).as_py()


COLUMNS = {
    "int64": (pa.int64(), st.integers(-1000, 1000)),
    "uint8": (pa.uint8(), st.integers(0, 255)),
    "float64": (pa.float64(), st.floats(-100, 100, allow_nan=False)),
    "float32": (pa.float32(), st.floats(-100, 100, width=32)),
}
KEYS = {
    "string": (pa.string(), st.sampled_from(["", "a", "é", "日本", "a much longer one than the others"])),
    "int32": (pa.int32(), st.integers(-2, 2)),
    "float64": (pa.float64(), st.sampled_from([0.0, 1.5, math.nan, math.inf])),
    "bool": (pa.bool_(), st.booleans()),
    "date": (pa.date32(), st.sampled_from([datetime.date(2020, 1, d) for d in (1, 2, 3)])),
    "zoned": (
        pa.timestamp("us", "Europe/Berlin"),
        st.sampled_from([datetime.datetime(2020, 1, 1, h) for h in (1, 2)]),
    ),
    "decimal": (pa.decimal128(10, 2), st.sampled_from([decimal.Decimal("1.10"), decimal.Decimal("-3.00")])),
}


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_against_pyarrow(data):
    names = data.draw(st.lists(st.sampled_from(sorted(KEYS)), min_size=1, max_size=3))
    kind = data.draw(st.sampled_from(sorted(COLUMNS)))
    n = data.draw(st.integers(0, 40))
    columns = {}
    for i, name in enumerate(names):
        type_, values = KEYS[name]
        columns[f"k{i}"] = pa.array(data.draw(st.lists(st.none() | values, min_size=n, max_size=n)), type_)
    type_, values = COLUMNS[kind]
    columns["x"] = pa.array(data.draw(st.lists(st.none() | values, min_size=n, max_size=n)), type_)
    table = pa.table(columns)
    keys = [c for c in columns if c != "x"]
    ds = cut(table, data.draw(st.lists(st.integers(1, 7), min_size=1, max_size=3)))
    aggs = [Count(), Sum("x"), Min("x"), Max("x"), Mean("x"), Std("x"), AsList("x")]
    found = rows_by_key(ds.groupby(keys).aggregate(*aggs).to_arrow().to_pylist(), keys)
    expected = expected_of(table, keys)
    assert set(found) == set(expected)
    for key, row in expected.items():
        for name, value in row.items():
            same = close if name != "list(x)" else list.__eq__
            assert same(found[key][name], value), (key, name)


def test_names_order_and_types():
    table = pa.table({"k": ["b", None, "a", "b"], "x": pa.array([1, 2, 3, 4], pa.int16()), "y": [1.5] * 4})
    ds = hd.from_arrow(table)
    out = ds.groupby("k").sum()
    assert out.columns() == ["k", "sum(x)", "sum(y)"]
    assert [str(t) for t in out.schema().types] == ["string", "int64", "double"]
    assert ds.groupby("k").count().columns() == ["k", "count()"]
    assert ds.groupby("k").std("x").columns() == ["k", "std(x)"]
    assert ds.groupby("k").aggregate(Sum("x", alias_name="total")).columns() == ["k", "total"]


def test_whole_dataset():
    ds = hd.range(100)
    assert ds.sum("id") == 4950 and ds.min("id") == 0 and ds.max("id") == 99 and ds.mean("id") == 49.5
    assert ds.std("id") == pytest.approx(np.std(np.arange(100), ddof=1))
    assert ds.std("id", ddof=0) == pytest.approx(np.std(np.arange(100)))
    both = hd.from_items([{"A": i, "B": i**2} for i in range(100)])
    assert both.sum(["A", "B"]) == {"sum(A)": 4950, "sum(B)": 328350} == both.sum()
    assert ds.aggregate(Count(), Sum("id")) == {"count()": 100, "sum(id)": 4950}
    assert hd.from_items([3, 1, 3, 2, 1]).unique("item") == [3, 1, 2]
    assert ds.groupby(None).count().take_all() == [{"count()": 100}]


def test_of_no_rows():
    ds = hd.range(10).filter(expr="id > 100")
    assert ds.aggregate(Count(), Sum("id"), Mean("id"), Unique("id"), Quantile("id")) == {
        "count()": 0,
        "sum(id)": None,
        "mean(id)": None,
        "unique(id)": [],
        "quantile(id)": None,
    }
    assert ds.groupby("id").count().take_all() == []
    assert ds.sum("id") is None


def test_nulls_and_nan():
    ds = hd.from_arrow(pa.table({"x": [1.0, None, math.nan, 3.0], "n": pa.array([None] * 4, pa.int64())}))
    assert math.isnan(ds.sum("x")) and ds.min("x") == 1 and ds.max("x") == 3
    assert ds.sum("x", ignore_nulls=False) is None and ds.min("x", ignore_nulls=False) is None
    assert ds.sum("n") is None and ds.aggregate(Count("n", ignore_nulls=True)) == {"count(n)": 0}
    assert ds.aggregate(Count("n")) == {"count(n)": 4}
    assert ds.aggregate(MissingValuePercentage("x")) == {"missing_pct(x)": 50.0}
    zeros = hd.from_arrow(pa.table({"x": [0, 1, None, 0]}))
    assert zeros.aggregate(ZeroPercentage("x"))["zero_pct(x)"] == pytest.approx(200 / 3)
    assert zeros.aggregate(ZeroPercentage("x", ignore_nulls=False)) == {"zero_pct(x)": 50.0}


def test_of_values():
    ds = hd.from_arrow(
        pa.table({"k": [1, 1, 2, 2, 2], "s": ["b", "a", None, "c", "c"], "x": [1.0, 2.0, 3.0, 9.0, 4.0]})
    )
    rows = rows_by_key(
        ds.groupby("k")
        .aggregate(
            Min("s"),
            Max("s"),
            Quantile("x", q=0.5),
            Unique("s"),
            CountDistinct("s"),
            ValueCounter("s"),
            ApproximateTopK("s", k=1),
            ApproximateQuantile("x", [0, 0.5, 1]),
            AbsMax("x"),
        )
        .to_arrow()
        .to_pylist(),
        ["k"],
    )
    assert rows[(1,)] == {
        "k": 1,
        "min(s)": "a",
        "max(s)": "b",
        "quantile(x)": 1.5,
        "unique(s)": ["b", "a"],
        "count_distinct(s)": 2,
        "value_counter(s)": {"values": ["b", "a"], "counts": [1, 1]},
        "approx_topk(s)": [{"s": "b", "count": 1}],
        "approx_quantile(x)": [1.0, 1.5, 2.0],
        "abs_max(x)": 2.0,
    }
    assert rows[(2,)]["unique(s)"] == [None, "c"] and rows[(2,)]["count_distinct(s)"] == 1
    assert rows[(2,)]["approx_quantile(x)"] == [3.0, 4.0, 9.0] and rows[(2,)]["min(s)"] == "c"


@pytest.mark.parametrize("kind", ["int8", "int16", "int32"])
def test_the_magnitude_of_the_least_integer(kind):
    """It does not fit the column's type."""
    least = int(np.iinfo(kind).min)
    ds = hd.from_arrow(pa.table({"x": pa.array([least, 1, None], kind)}))
    assert ds.aggregate(AbsMax("x")) == {"abs_max(x)": -least}


def test_decimals_times_and_large_sums():
    d = decimal.Decimal
    ds = hd.from_arrow(
        pa.table(
            {
                "d": pa.array([d("1.25"), d("-3.50"), None], pa.decimal128(10, 2)),
                "t": pa.array([3, 1, 2], pa.timestamp("ms", "UTC")),
                "big": pa.array([2**62, 2**62, 1], pa.int64()),
                "u": pa.array([2**63, 2**62, 0], pa.uint64()),
                "long": pa.array([5, 6, None], pa.duration("s")),
            }
        )
    )
    assert ds.sum("d") == d("-2.25") and ds.min("d") == d("-3.50") and ds.max("d") == d("1.25")
    assert ds.mean("d") == pytest.approx(-1.125)
    assert ds.min("t") == datetime.datetime(1970, 1, 1, 0, 0, 0, 1000, datetime.UTC)
    assert ds.sum("u") == 2**63 + 2**62 and ds.max("u") == 2**63
    assert ds.sum("long") == datetime.timedelta(seconds=11)
    with pytest.raises(_core.DataError, match="'big' does not fit into 64 bits"):
        ds.sum("big")


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_the_same_for_any_threads_and_cuts(threads, monkeypatch):
    rng = np.random.default_rng(1)
    table = pa.table({"k": rng.integers(0, 3000, 300_000), "x": rng.standard_normal(300_000)})
    out = []
    for sizes in ([300_000], [70_001, 13]):
        ds = hd.from_arrow(table) if sizes == [300_000] else hd.from_arrow(table).filter(expr="k >= 0")
        with limits(threads=threads):
            out.append(ds.groupby("k").aggregate(Sum("x"), Std("x"), Count()).to_arrow())
    assert out[0].sort_by("k").equals(out[1].sort_by("k"))
    frame = table.to_pandas().groupby("k")["x"]
    found = out[0].to_pandas().set_index("k").sort_index()
    np.testing.assert_allclose(found["sum(x)"], frame.sum(), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found["std(x)"], frame.std(), rtol=1e-9)


class limits:
    """A context that sets threads and memory."""

    def __init__(self, threads=0, memory=0):
        self.values = threads, memory

    def __enter__(self):
        _core.set_num_threads(self.values[0])
        _core.set_memory_limit(self.values[1])

    def __exit__(self, *_):
        _core.set_num_threads(0)
        _core.set_memory_limit(0)


@pytest.mark.parametrize("kind", ["float", "text", "both"])
def test_keys_that_hardly_repeat(kind):
    """The front does not group a chunk whose first keys all differ: equal keys meet later."""
    n = 150_000
    random = np.random.default_rng(5)
    numbers = random.integers(0, 100_000, n).astype(float)
    numbers[::1000] = -0.0
    numbers[1::1000] = 0.0
    numbers[2::1000] = np.nan
    numbers[3::1000] = -np.nan
    floats = pa.array(numbers, mask=np.arange(n) % 1000 == 4)
    table = pa.table(
        {
            "float": floats,
            "text": pc.binary_join_element_wise("\u00e9", pc.cast(floats, pa.string()), ""),
            "x": random.integers(0, 9, n),
        }
    )
    keys = ["float", "text"] if kind == "both" else [kind]
    one_block = hd.from_arrow(table).groupby(keys).aggregate(Count(), Sum("x"), Min("x"), Std("x"))
    found = one_block.to_arrow()
    frame = pd.DataFrame(
        {
            "float": np.where(floats.is_null(), -1.0, np.nan_to_num(numbers + 0.0, nan=-2.0)),
            "text": table["text"].to_pandas().fillna("none"),
            "x": table["x"].to_pandas(),
        }
    )
    expected = frame.groupby(keys)["x"].agg(["count", "sum", "min", "std"])
    assert found.num_rows == len(expected) > 50_000
    assert pc.sum(found["count()"]).as_py() == n
    values = found["float"].to_pandas() if "float" in keys else None
    if values is not None:
        assert not np.signbit(values[values == 0]).any()
    for name in ["count", "sum", "min", "std"]:
        ours = found[f"{name}({'' if name == 'count' else 'x'})"].to_pandas()
        assert np.allclose(ours.sort_values().values, expected[name].sort_values().values, equal_nan=True)
    half = (
        cut(table, [65_536 * 2, n]).groupby(keys).aggregate(Count(), Sum("x"), Min("x"), Std("x")).to_arrow()
    )
    assert half.select(["count()", "sum(x)", "min(x)"]).equals(found.select(["count()", "sum(x)", "min(x)"]))


def test_spilled_is_the_same(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADRACE_SPILL_DIR", str(tmp_path))
    rng = np.random.default_rng(2)
    n = 400_000
    table = pa.table(
        {
            "k": pa.array([f"key {i}" for i in rng.integers(0, 250_000, n)]),
            "x": rng.integers(0, 100, n),
            "s": ["v"] * n,
        }
    )
    path = str(tmp_path / "in.arrow")
    hd.from_arrow(table).write_arrow(path + "d")
    frame = table.to_pandas().groupby("k")["x"]
    with limits(memory=16 << 20):
        found = (
            hd.read_arrow(path + "d")
            .groupby("k")
            .aggregate(Sum("x"), Count(), AsList("x"), Min("s"))
            .to_pandas()
        )
        found = found.set_index("k").sort_index()
    assert found["sum(x)"].equals(frame.sum().rename("sum(x)")) and found["count()"].sum() == n
    assert [list(v) for v in found["list(x)"]] == [list(v) for v in frame.apply(list)]
    assert set(found["min(s)"]) == {"v"}


def test_wrong_arguments():
    ds = hd.from_items([{"k": 1, "x": "a", "l": [1]}])
    with pytest.raises(ValueError, match="no column 'y'"):
        ds.groupby("y")
    with pytest.raises(_core.TypeMismatchError, match="'x' is string, expected numbers"):
        ds.groupby("k").sum("x")
    with pytest.raises(_core.TypeMismatchError, match="'l' of type list<item: int64> cannot be a key"):
        ds.groupby("l").count()
    with pytest.raises(ValueError, match="no column"):
        ds.groupby("k").sum("z")
    with pytest.raises(TypeError, match="expected an aggregate"):
        ds.groupby("k").aggregate("sum")
    with pytest.raises(ValueError, match="0 to 1|expected|between"):
        ds.aggregate(Quantile("k", q=2))
    with pytest.raises(ValueError, match="expected each key once"):
        ds.groupby(["k", "k"])


def test_user_aggregates():
    ds = hd.range(1000)
    product = AggregateFn(
        init=lambda k: 1, accumulate_row=lambda a, row: a + row["id"], merge=lambda a, b: a + b - 1, name="p"
    )

    class Longest(AggregateFnV2):
        def __init__(self, on):
            super().__init__(f"longest({on})", lambda: "", on=on, ignore_nulls=True)

        def aggregate_block(self, block):
            return max(block[self.get_target_column()].to_pylist(), key=len)

        def combine(self, a, b):
            return max(a, b, key=len)

    assert ds.aggregate(product) == {"p": 499501}
    texts = hd.from_items([{"s": "x" * (i % 17)} for i in range(300)])
    assert texts.aggregate(Longest("s"), Count()) == {"longest(s)": "x" * 16, "count()": 300}


def test_user_aggregates_by_group():
    joined = AggregateFn(
        init=lambda k: [],
        accumulate_row=lambda a, row: a + [row["s"]],
        merge=lambda a, b: a + b,
        finalize="".join,
        name="joined",
    )
    ds = hd.from_items([{"k": k, "s": s} for k, s in [(2, "a"), (1, "b"), (2, "c"), (None, "d")]])
    assert ds.groupby("k").aggregate(Count(), joined).to_arrow().to_pylist() == [
        {"k": 1, "count()": 1, "joined": "b"},
        {"k": 2, "count()": 2, "joined": "ac"},
        {"k": None, "count()": 1, "joined": "d"},
    ]
    assert ds.groupby("k").aggregate(joined).columns() == ["k", "joined"]


def test_only_what_is_needed_is_read(tmp_path, capsys):
    table = pa.table({"k": [1, 2], "x": [1, 2], "unused": ["a", "b"]})
    hd.from_arrow(table).write_parquet(str(tmp_path / "t"))
    ds = hd.read_parquet(str(tmp_path / "t")).groupby("k").sum("x")
    ds.explain()
    shown = capsys.readouterr().out
    assert "columns=[k, x]" in shown and "unused" not in shown
    pd.testing.assert_frame_equal(
        ds.to_pandas().sort_values("k").reset_index(drop=True), pd.DataFrame({"k": [1, 2], "sum(x)": [1, 2]})
    )


@pytest.mark.parametrize("kind", [pa.decimal128(38, 2), pa.decimal256(76, 2), pa.decimal128(5, 2)], ids=str)
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_sums_of_decimals_are_exact_or_refused(kind, data):
    """As Python's integers; a sum with too many digits is an error, not another number."""
    end = 10**kind.precision - 1
    whole = st.integers(-end, end) | st.sampled_from([end, -end, 0])
    cells = data.draw(st.lists(st.none() | whole, max_size=8))
    context = decimal.Context(prec=100)
    column = [None if v is None else decimal.Decimal(v).scaleb(-2, context) for v in cells]
    table = pa.table({"k": [i % 2 for i in range(len(cells))], "x": pa.array(column, kind)})
    ds = hd.from_arrow([table.slice(i, 3) for i in range(0, len(cells), 3)] or table)
    most = 76 if pa.types.is_decimal256(kind) else 38
    want = {}
    for k in (0, 1):
        there = [v for v in cells[k::2] if v is not None]
        if cells[k::2]:
            want[k] = (sum(there), len(there)) if there else None
    grouped = ds.groupby("k")
    if any(w is not None and abs(w[0]) >= 10**most for w in want.values()):
        with pytest.raises(_core.DataError, match=rf"sum: the sum of column 'x' has more than {most} digits"):
            grouped.sum("x").take_all()
    elif cells:
        found = {r["k"]: r["sum(x)"] for r in grouped.sum("x").iter_rows()}
        assert found == {
            k: None if w is None else decimal.Decimal(w[0]).scaleb(-2, context) for k, w in want.items()
        }
    if cells:
        means = {r["k"]: r["mean(x)"] for r in grouped.mean("x").iter_rows()}
        for k, w in want.items():
            assert means[k] == (None if w is None else pytest.approx(w[0] / w[1] / 100, rel=1e-14))
    for name, of in (("min", min), ("max", max)):
        there = [v for v in column if v is not None]
        assert getattr(ds, name)("x") == (of(there) if there else None)


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("kind", ["float64", "float32", "int64", "uint64", "bool"])
def test_a_batch_of_one_group_gives_the_bits_of_mixed_groups(kind, nulls):
    # The states of a batch of one group stay in registers; those of mixed groups are written for each row.
    n = 30_000  # both datasets below fit in one canonical chunk
    values = np.random.default_rng(3).normal(size=n) * 1000
    values = (abs(values) if kind == "uint64" else values).astype(kind)
    mask = np.arange(n) % 7 == 3 if nulls else None
    column = pa.array(values, mask=mask)
    aggs = [A("x") for A in (Count, Sum, Mean, Std, Min, Max, MissingValuePercentage)]
    aggs += [] if kind == "bool" else [AbsMax("x"), ZeroPercentage("x")]
    alone = pa.table({"k": np.zeros(n, "int8"), "x": column})
    twice = np.arange(2 * n)
    turns = pa.table({"k": (twice % 2).astype("int8"), "x": column.take(pa.array(twice // 2))})
    one, two = (hd.from_arrow(t).groupby("k").aggregate(*aggs).take_all() for t in (alone, turns))
    all_rows = hd.from_arrow(alone).aggregate(*aggs)
    assert one[0] == two[0] == {"k": 0, **all_rows}
    assert two[1] == {**one[0], "k": 1}
