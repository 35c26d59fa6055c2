"""join against pandas and by brute force, whatever the cuts, threads and memory."""

import datetime as dt
import math
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace.data as hd
from headrace import _core
from headrace.data.expressions import col
from headrace.data.joining import KINDS
from headrace.exceptions import InvalidArgument

ALL = [*KINDS, "right_semi", "right_anti"]


def cut(table, sizes):
    parts, at, i = [], 0, 0
    while at < len(table):
        parts.append(table.slice(at, sizes[i % len(sizes)]))
        at += sizes[i % len(sizes)]
        i += 1
    return hd.from_arrow(parts or [table])


def same_key(a, b, n):
    def equal(x, y):
        if x is None or y is None:
            return False
        return x == y or (isinstance(x, float) and math.isnan(x) and math.isnan(y))

    return all(equal(a[f"k{i}"], b[f"k{i}"]) for i in range(n))


def expected(left, right, n, kind):
    """By brute force, in the documented order."""
    if kind.startswith("right_") and kind != "right_outer":
        return expected(right, left, n, kind.replace("right_", "left_"))
    out, had = [], set()
    nothing = dict.fromkeys(c for c in right.column_names if not c.startswith("k"))
    for a in left.to_pylist():
        found = [(j, b) for j, b in enumerate(right.to_pylist()) if same_key(a, b, n)]
        had.update(j for j, _ in found)
        if kind in ("left_semi", "left_anti"):
            if bool(found) == (kind == "left_semi"):
                out.append(a)
            continue
        out += [a | {c: b[c] for c in nothing} for _, b in found]
        if not found and kind in ("left_outer", "full_outer"):
            out.append(a | nothing)
    if kind in ("right_outer", "full_outer"):
        none = dict.fromkeys(left.column_names)
        for j, b in enumerate(right.to_pylist()):
            if j not in had:
                out.append(none | b)
    return out


ZONED = [dt.datetime(2026, 3, 29, h, tzinfo=dt.UTC) for h in (0, 1, 2)]  # a summer begins
KEYS = {
    "string": (pa.string(), ["", "a", "b", "é"]),
    "int64": (pa.int64(), [0, 1, -5]),
    "int8": (pa.int8(), [0, 1, -5]),
    "wide": (pa.int64(), [0, 1, -(2**63), 2**63 - 1, 2**40]),
    "uint64": (pa.uint64(), [0, 1, 2**64 - 1, 2**63]),
    "uint16": (pa.uint16(), [0, 1, 65535]),
    "date": (pa.date32(), [dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2026, 2, 28)]),
    "zoned": (pa.timestamp("us", "Europe/Berlin"), ZONED),
    "decimal": (pa.decimal128(20, 2), [Decimal("0.10"), Decimal("-1.00"), Decimal("123456789012345678.90")]),
    "decimal256": (pa.decimal256(50, 2), [Decimal("0.10"), Decimal("-1.00"), Decimal(10**40)]),
    "binary": (pa.binary(), [b"", b"\0", b"\0\0", b"x" * 20]),
    "float64": (pa.float64(), [0.0, -0.0, 1.5, math.nan]),
    "bool": (pa.bool_(), [True, False]),
}


def equal_rows(a, b):
    return len(a) == len(b) and all(str(x) == str(y) for x, y in zip(a, b, strict=True))


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_against_brute_force(data):
    names = data.draw(st.lists(st.sampled_from(sorted(KEYS)), min_size=1, max_size=2))
    tables = []
    for side in ("l", "r"):
        n = data.draw(st.integers(0, 12))
        columns = {}
        for i, name in enumerate(names):
            type_, values = KEYS[name]
            drawn = data.draw(st.lists(st.none() | st.sampled_from(values), min_size=n, max_size=n))
            columns[f"k{i}"] = pa.array(drawn, type_)
        columns[side] = pa.array(range(n), pa.int32())
        columns[side + "s"] = pa.array([f"{side}{i}" for i in range(n)])
        tables.append(pa.table(columns))
    kind = data.draw(st.sampled_from(ALL))
    sizes = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    on = [f"k{i}" for i in range(len(names))]
    found = cut(tables[0], sizes).join(cut(tables[1], sizes[::-1]), kind, on=on)
    rows = found.to_arrow().to_pylist() if found.count() else []
    assert equal_rows(rows, expected(*tables, len(names), kind)), kind


def test_columns_and_suffixes():
    left = hd.from_items([{"id": 1, "x": 1, "y": 2}])
    right = hd.from_items([{"rid": 1, "x": 3, "z": 4}])
    out = left.join(right, "inner", on="id", right_on="rid", left_suffix="_l", right_suffix="_r")
    assert out.columns() == ["id", "x_l", "y", "x_r", "z"]
    assert out.take_all() == [{"id": 1, "x_l": 1, "y": 2, "x_r": 3, "z": 4}]
    assert out.select_columns(["x_r"]).take_all() == [{"x_r": 3}]
    assert out.select_columns(["z", "id"]).take_all() == [{"z": 4, "id": 1}]
    with pytest.raises(ValueError, match="two output columns have the name 'x'; set left_suffix"):
        left.join(right, "inner", on="id", right_on="rid")
    assert left.join(right, "left_semi", on="id", right_on="rid").columns() == ["id", "x", "y"]


def test_ray_arguments():
    left = hd.from_items([{"id": i, "d": i * 2} for i in range(4)])
    right = hd.from_items([{"id": i, "sq": i * i} for i in range(3)])
    rows = left.join(right, join_type="inner", num_partitions=2).take_all()
    assert rows == [{"id": i, "d": i * 2, "sq": i * i} for i in range(3)]
    full = left.join(right, "full_outer", 2, on=("id",)).take_all()
    assert [r["id"] for r in full] == [0, 1, 2, 3] and full[3]["sq"] is None


def test_wrong_arguments():
    left, right = hd.range(3), hd.from_items([{"id": "a"}])
    with pytest.raises(_core.TypeMismatchError, match="left key 'id' is int64, right key 'id' is string"):
        left.join(right, "inner")
    lists = hd.from_items([{"id": [1]}])
    with pytest.raises(_core.TypeMismatchError, match="column 'id' of type list.* cannot be a key"):
        lists.join(lists, "inner")
    with pytest.raises(ValueError, match="join_type: expected one of .*found 'outer'"):
        left.join(left, "outer")
    with pytest.raises(ValueError, match="right side: there is no column 'x'"):
        left.join(right, "inner", right_on="x")
    with pytest.raises(ValueError, match="on= names 1 columns, right_on= 2"):
        left.join(right, "inner", right_on=["id", "id"])
    with pytest.raises(TypeError, match="expected a Dataset"):
        left.join(3, "inner")


@pytest.mark.parametrize("kind", ["inner", "full_outer", "left_anti"])
def test_partitioned_is_the_same(kind, tmp_path, monkeypatch):
    monkeypatch.setenv("HEADRACE_SPILL_DIR", str(tmp_path))
    rng = np.random.default_rng(3)
    n, m = 100_000, 80_000
    left = pa.table({"k": rng.integers(0, 60_000, n), "a": np.arange(n), "s": ["left text"] * n})
    right = pa.table({"k": rng.integers(20_000, 80_000, m), "b": np.arange(m), "t": ["right"] * m})
    for t, name in ((left, "l"), (right, "r")):
        hd.from_arrow(t).write_arrow(str(tmp_path / name))
    plan = hd.read_arrow(str(tmp_path / "l")).join(hd.read_arrow(str(tmp_path / "r")), kind, on="k")
    whole = plan.to_arrow()
    found = {}
    for threads in (1, 8):
        _core.set_num_threads(threads)
        _core.set_memory_limit(16 << 20)
        try:
            found[threads] = plan.to_arrow()
        finally:
            _core.set_num_threads(0)
            _core.set_memory_limit(0)
    assert whole.equals(found[1]) and whole.equals(found[8])
    if kind != "left_anti":
        how = {"inner": "inner", "full_outer": "outer"}[kind]
        frame = left.to_pandas().merge(right.to_pandas(), on="k", how=how)
        assert len(frame) == len(whole)
        assert frame["b"].sum() == pd.Series(whole["b"].to_pandas()).sum()


def assert_same_in_little_memory(plan, whole):
    """Compares with the rows of an Arrow table, on one thread and on eight, in 16 MiB."""
    for threads in (1, 8):
        _core.set_num_threads(threads)
        _core.set_memory_limit(16 << 20)
        try:
            at = 0
            for batch in plan.iter_batches(batch_size=100_000, batch_format="pyarrow"):
                assert batch.equals(whole.slice(at, len(batch)).combine_chunks()), (threads, at)
                at += len(batch)
            assert at == len(whole)
        finally:
            _core.set_num_threads(0)
            _core.set_memory_limit(0)


@pytest.mark.parametrize("kind", KINDS)
def test_one_key_that_does_not_fit(kind, tmp_path, monkeypatch):
    """One key has 7 MB on the right, and 4 MiB may stay in memory; the result has 20 MB."""
    monkeypatch.setenv("HEADRACE_SPILL_DIR", str(tmp_path))
    n, m, hot = 40_000, 300_000, 3
    left = pa.table({"k": [5] * hot + list(range(1000, 1000 + n)), "a": range(n + hot)})
    keys = [5] * m + list(range(1000 + n // 2, 1000 + 2 * n)) + [None]
    right = pa.table({"k": keys, "b": range(len(keys))})
    for t, name in ((left, "l"), (right, "r")):
        hd.from_arrow(t).write_arrow(str(tmp_path / name))
    plan = hd.read_arrow(str(tmp_path / "l")).join(hd.read_arrow(str(tmp_path / "r")), kind, on="k")
    whole = plan.to_arrow()
    rows = {
        "inner": hot * m + n // 2,
        "left_outer": hot * m + n,
        "right_outer": hot * m + 3 * n // 2 + 1,
        "full_outer": hot * m + 2 * n + 1,
        "left_semi": hot + n // 2,
        "left_anti": n // 2,
    }
    assert len(whole) == rows[kind]
    assert_same_in_little_memory(plan, whole)


@pytest.mark.parametrize("kind", KINDS)
def test_keys_narrow_the_left_scan(kind, tmp_path, capsys):
    """The scan skips row groups beyond the right keys if left rows without a partner are not in the
    result.
    """
    n = 20_000
    rng = np.random.default_rng(1)
    left = pa.table({"k": pa.array(np.arange(n) // 2).cast(pa.timestamp("us", "UTC")), "a": np.arange(n)})
    left = left.append_column("z", pa.array([None if i % 7 == 0 else i for i in range(n)], pa.int32()))
    keys = pa.array([*rng.integers(4000, 4500, 300).tolist(), None], pa.timestamp("us", "UTC"))
    right = pa.table({"k": keys, "b": np.arange(301)})
    pq.write_table(left, tmp_path / "l.parquet", row_group_size=1000)
    file = hd.read_parquet(str(tmp_path / "l.parquet"))
    for rows, from_, skips in (
        (left, file, True),
        (left, file.sort("a"), True),
        (left, file.with_column("c", col("a") + 1).rename_columns({"k": "kk"}), True),
        (left, file.with_column("k", col("k")), False),
        (left.slice(0, 9000), file.limit(9000), False),
        (left.filter(pc.field("z") > 8500), file.filter(expr=col("z") > 8500), True),
    ):
        on = "kk" if "kk" in from_.columns() else "k"
        found = from_.join(hd.from_arrow(right), kind, on=on, right_on="k")
        whole = hd.from_arrow(rows).join(hd.from_arrow(right), kind, on="k")
        assert [r["a"] for r in found.select_columns(["a"]).take_all()] == [r["a"] for r in whole.take_all()]
        drops = kind in ("inner", "right_outer", "left_semi")
        found.explain()
        assert ("between the keys of join" in capsys.readouterr().out) == (drops and skips)
        assert found.select_columns(["a"]).count() == whole.count()
        batches = found.iter_batches(batch_size=1000)
        assert sum(len(b["a"]) for b in batches) == whole.count()
        assert (batches.stats("dict")["rows_read"] <= 2000 + 301) == (drops and skips)


def first_is_left(plan, capsys):
    capsys.readouterr()
    plan.explain()
    return "which comes first" in capsys.readouterr().out


def looks_small(dataset):
    """The same rows, with a low estimate of their number."""
    for _ in range(4):
        dataset = dataset.filter(expr=col("b") >= 0)
    return dataset


def without_nan(table):
    """The table with comparable keys: NaN replaced."""
    keys = table["k"]
    if keys.type != pa.float64():
        return table
    return table.set_column(0, "k", pc.if_else(pc.is_nan(keys), pa.scalar(-1.0), keys))


SIDES = {
    "dense, some twice": lambda rng, n: rng.integers(0, 3000, n),
    "dense, once": lambda rng, n: rng.permutation(n),
    "far apart": lambda rng, n: rng.integers(0, 3000, n) * 7919**3,
    "text": lambda rng, n: np.char.add("number ", rng.integers(0, 9000, n).astype(str)),
    "float": lambda rng, n: np.where(rng.random(n) < 0.01, np.nan, rng.integers(0, 3000, n) / 2),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_smaller_left_side(kind, tmp_path, capsys, monkeypatch):
    """The left side becomes the lookup side; the result is the same for any keys, threads and memory."""
    monkeypatch.setenv("HEADRACE_SPILL_DIR", str(tmp_path))
    rng = np.random.default_rng(5)
    n, m = 5_000, 40_000
    for name, values in SIDES.items():
        left = pa.table({"k": values(rng, n), "a": np.arange(n), "s": ["left text"] * n})
        right = pa.table({"k": values(rng, m), "b": np.arange(m), "t": ["right"] * m})
        for side, of in (("l", left), ("r", right)):
            of = of.set_column(
                0, "k", pa.array([None if i % 97 == 5 else v for i, v in enumerate(of["k"].to_pylist())])
            )
            hd.from_arrow(of).write_arrow(str(tmp_path / name / side))
        sides = [hd.read_arrow(str(tmp_path / name / side)) for side in ("l", "r")]
        plan, other = (
            sides[0].join(sides[1], kind, on="k"),
            sides[0].join(looks_small(sides[1]), kind, on="k"),
        )
        assert first_is_left(plan, capsys) and not first_is_left(other, capsys)
        whole = without_nan(other.to_arrow())
        assert len(whole) > 0
        for threads, memory in ((1, 0), (2, 0), (8, 0), (1, 16 << 20), (8, 16 << 20)):
            _core.set_num_threads(threads)
            _core.set_memory_limit(memory)
            try:
                assert without_nan(plan.to_arrow()).equals(whole), (name, threads, memory)
            finally:
                _core.set_num_threads(0)
                _core.set_memory_limit(0)


@pytest.mark.parametrize("kind", ["inner", "full_outer", "left_semi", "left_anti"])
@pytest.mark.parametrize("sizes", [(150_000, 400_000), (20_000, 500_000)])
def test_a_smaller_left_side_spills(kind, sizes, tmp_path, capsys, monkeypatch):
    """The left side is too large, alone or with the right rows that have a partner."""
    monkeypatch.setenv("HEADRACE_SPILL_DIR", str(tmp_path))
    rng = np.random.default_rng(6)
    n, m = sizes
    left = pa.table({"k": rng.integers(0, n, n) * 1_000_003, "a": np.arange(n)})
    right = pa.table({"k": rng.integers(0, n, m) * 1_000_003, "b": np.arange(m)})
    for name, of in (("l", left), ("r", right)):
        hd.from_arrow(of).write_arrow(str(tmp_path / name))
    sides = [hd.read_arrow(str(tmp_path / name)) for name in ("l", "r")]
    plan = sides[0].join(sides[1], kind, on="k")
    assert first_is_left(plan, capsys)
    whole = sides[0].join(looks_small(sides[1]), kind, on="k").to_arrow()
    assert_same_in_little_memory(plan, whole)


@pytest.mark.parametrize("kind", KINDS)
def test_keys_narrow_the_right_scan(kind, tmp_path):
    n = 20_000
    right = pa.table({"k": np.arange(n) // 2, "b": np.arange(n)})
    left = pa.table(
        {"k": [*np.random.default_rng(1).integers(4000, 4500, 300).tolist(), None], "a": np.arange(301)}
    )
    pq.write_table(right, tmp_path / "r.parquet", row_group_size=1000)
    found = hd.from_arrow(left).join(hd.read_parquet(str(tmp_path / "r.parquet")), kind, on="k")
    whole = hd.from_arrow(left).join(hd.from_arrow(right), kind, on="k")
    assert found.to_arrow().equals(whole.to_arrow())
    batches = found.iter_batches(batch_size=1000)
    assert sum(len(b["a"]) for b in batches) == whole.count()
    drops = kind in ("inner", "left_outer", "left_semi", "left_anti")
    assert (batches.stats("dict")["rows_read"] <= 2000 + 301) == drops


# ---- filters after a join run on its sides, too


def sides():
    def table(n, seed, name):
        rng = np.random.default_rng(seed)
        keys = [None if rng.random() < 0.1 else int(k) for k in rng.integers(0, 60, n)]
        same = np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n))
        columns = {
            "k": pa.array(keys, pa.int64()),
            name: rng.integers(-5, 5, n),
            "same": same,
            "row" + name: range(n),
        }
        table = pa.table(columns)
        return hd.from_arrow([table.slice(i, n // 5) for i in range(0, n, n // 5)])

    return table(500, 1, "x"), table(300, 2, "y")


FILTERS = [
    "x > 2",
    "y > 2",
    "x > 0 and y < 3",
    "k > 30",
    "k is None",
    "k > 10 or x == 1",
    "x is None",
    "y is None",
    "same_l > 0",
    "same_r < 0",
    "k < 20 and x < rowx",
    "not (y > 1)",
    "x + 1 > 2",
]


@pytest.mark.parametrize(
    "kind", ["inner", "left_outer", "right_outer", "full_outer", "left_semi", "left_anti"]
)
def test_a_filter_after_a_join_gives_the_same_rows(kind):
    """As a filter of the rows that the join gave, in the same order, and from any place in the middle."""
    left, right = sides()
    join = {"join_type": kind, "num_partitions": 3, "on": ("k",), "left_suffix": "_l", "right_suffix": "_r"}
    both = left.join(right, **join)
    rows = both.materialize()
    for text in FILTERS:
        try:
            want = rows.filter(expr=text).take_all()
        except InvalidArgument:  # no such column
            continue
        got = both.filter(expr=text)
        assert str(got.take_all()) == str(want), text
        batches = got.iterator().iter_batches(batch_size=7, batch_format="pyarrow")
        iterator = iter(batches)
        for n, _ in zip(range(1, 4), iterator, strict=False):
            fresh = got.iterator().iter_batches(batch_size=7, batch_format="pyarrow")
            fresh.load_state_dict(batches.state_dict())
            rest = [row for batch in fresh for row in batch.to_pylist()]
            assert str(rest) == str(want[7 * n :]), (text, n)


def test_where_a_filter_runs(capsys):
    left, right = sides()
    places = {  # left, right
        "inner": (True, True),
        "left_outer": (True, False),
        "right_outer": (False, True),
        "full_outer": (False, False),
    }
    for kind, on_sides in places.items():
        both = left.join(
            right, join_type=kind, num_partitions=3, on=("k",), left_suffix="_l", right_suffix="_r"
        )
        both.filter(expr="x > 1 and y < 2 and rowx + 1 > 3").explain()
        text = capsys.readouterr().out.split("runs as:")[-1]
        assert ("filter(col('x') > 1)" in text, "filter(col('y') < 2)" in text) == on_sides, text
        assert (
            text.count("rowx") >= 1 and "filter(col('rowx')" not in text
        )  # an overflow could fail there alone


def test_the_short_names_of_kinds():
    left, right = sides()
    for short, kind in (
        ("left", "left_outer"),
        ("outer", "full_outer"),
        ("anti", "left_anti"),
        ("iner", "inner"),
    ):
        with pytest.raises(InvalidArgument, match=f"found '{short}'; did you mean '{kind}'"):
            left.join(right, join_type=short, on="k")
