"""distinct, drop_duplicates, explode, sample(n), value_counts, to_dict, First, Last, ArgMin, ArgMax:
against pandas and Polars, for any threads and cuts; wrong input."""

import collections
import math
import random

import pytest

import headrace.data as hd
from headrace.data import aggregate as agg
from headrace.data.expressions import col
from headrace.exceptions import InvalidArgument, TypeMismatchError

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")


def made(n=5000, keys=40, seed=1):
    """Rows with repeated keys of several types, nulls among them; `i` is the number of the row."""
    draw = random.Random(seed)
    some = [None, *range(keys)]
    return pa.table(
        {
            "k": pa.array([draw.choice(some) for _ in range(n)], pa.int32()),
            "s": pa.array([draw.choice([None, "a", "b", "", "é"]) for _ in range(n)]),
            "x": pa.array([draw.choice([None, 0.5, -1.0, 3.0, 2.0]) for _ in range(n)]),
            "list": pa.array([draw.choice([None, [], [1], [2, None, 3]]) for _ in range(n)]),
            "i": pa.array(range(n)),
        }
    )


def rows_of(ds):
    """As take_all(), with lists instead of arrays."""
    return ds.to_arrow().to_pylist()


def cut(table, rows):
    return hd.from_arrow([table.slice(begin, rows) for begin in range(0, len(table), rows)])


def kept(table, subset, keep):
    """The numbers of the rows that pandas keeps."""
    frame = table.select([c for c in table.column_names if c != "list"]).to_pandas()
    return frame.drop_duplicates(subset, keep=keep)["i"].tolist()


@pytest.mark.parametrize("keep", ["first", "last", False])
@pytest.mark.parametrize("subset", ["k", ["s"], ["k", "s"], ["s", "x"], ["k", "x", "s"], ["i"]])
def test_drop_duplicates_as_pandas(subset, keep):
    table = made(700)
    want = kept(table, subset, keep)
    rows = table.to_pylist()
    for ds in (hd.from_arrow(table), cut(table, 7)):
        found = rows_of(ds.drop_duplicates(subset, keep=keep))
        assert [r["i"] for r in found] == want
        assert found == [rows[i] for i in want], "the whole row is the kept one"
    assert len(want) < 700 or subset == ["i"]


def test_the_same_rows_for_any_threads(monkeypatch):
    table = made(200_000, keys=90_000)  # more groups than the operator keeps without partitions
    want = kept(table, ["k"], "first")
    context = hd.DataContext.get_current()
    was = context.num_threads
    try:
        for threads in (1, 3):
            context.num_threads = threads
            found = cut(table, 9000).drop_duplicates("k").to_arrow()
            assert found["i"].to_pylist() == want
            assert found.equals(table.take(want))
    finally:
        context.num_threads = was


def test_distinct_of_all_columns():
    table = made(3000).drop_columns(["i", "list"])
    frame = table.to_pandas()
    want = pa.Table.from_pandas(frame.drop_duplicates(), table.schema, preserve_index=False)
    got = cut(table, 100).distinct().to_arrow()
    assert got.to_pylist() == want.to_pylist()
    again = cut(table, 100).distinct().distinct().to_arrow()
    assert again.equals(got)


def test_null_nan_and_zero():
    values = [math.nan, None, 0.0, math.nan, -0.0, None]
    found = hd.from_arrow(pa.table({"x": values, "i": range(6)})).drop_duplicates("x").take_all()
    assert [r["i"] for r in found] == [0, 1, 2]


def test_distinct_after_a_function_and_on_nothing():
    ds = hd.range(100).map_batches(lambda b: {"m": b["id"] % 7, "v": b["id"]}, compute="inline")
    assert [r["v"] for r in ds.drop_duplicates("m").take_all()] == list(range(7))
    assert hd.from_arrow(made(0)).drop_duplicates("k").take_all() == []
    assert hd.range(10).filter(col("id") > 99).distinct().count() == 0


def test_wrong_distinct():
    ds = hd.from_arrow(made(10))
    with pytest.raises(InvalidArgument, match="no column 'q'; there are: k, s, x, list, i"):
        ds.drop_duplicates("q")
    with pytest.raises(InvalidArgument, match="keep: expected 'first', 'last' or False, found 'any'"):
        ds.drop_duplicates("k", keep="any")
    with pytest.raises(InvalidArgument, match="keep"):
        ds.drop_duplicates("k", keep=True)
    with pytest.raises(InvalidArgument, match="at least one column"):
        ds.drop_duplicates([])
    with pytest.raises(TypeMismatchError, match="names of columns, found 3"):
        ds.drop_duplicates([3])
    with pytest.raises(TypeMismatchError, match="'list'"):
        ds.distinct()


# ------------------------------------------------------------------------------------------ aggregates


def expected(table, key, pick):
    groups = collections.defaultdict(list)
    for row in table.to_pylist():
        groups[row[key]].append(row)
    ordered = sorted(groups, key=lambda k: (k is None, k))
    return [pick(groups[k]) for k in ordered]


@pytest.mark.parametrize("column", ["s", "x", "list", "i"])
def test_first_and_last(column):
    table = made(4000)
    plain = {"first": lambda rows: rows[0][column], "last": lambda rows: rows[-1][column]}
    filled = {
        "first": lambda rows: next((r[column] for r in rows if r[column] is not None), None),
        "last": lambda rows: next((r[column] for r in reversed(rows) if r[column] is not None), None),
    }
    for rows in (4000, 11):
        found = rows_of(
            cut(table, rows)
            .groupby("k")
            .aggregate(
                agg.First(column),
                agg.Last(column),
                agg.First(column, ignore_nulls=True, alias_name="f"),
                agg.Last(column, ignore_nulls=True, alias_name="l"),
            )
        )
        assert [r[f"first({column})"] for r in found] == expected(table, "k", plain["first"])
        assert [r[f"last({column})"] for r in found] == expected(table, "k", plain["last"])
        assert [r["f"] for r in found] == expected(table, "k", filled["first"])
        assert [r["l"] for r in found] == expected(table, "k", filled["last"])


@pytest.mark.parametrize("by", ["x", "s", "i"])
def test_arg_min_and_arg_max(by):
    table = made(4000)

    def best(of):
        def pick(rows):
            rows = [r for r in rows if r[by] is not None]
            return of(rows, key=lambda r: r[by])["list"] if rows else None  # the first of equal ones

        return pick

    for rows in (4000, 13):
        found = cut(table, rows).groupby("k").aggregate(agg.ArgMin("list", by), agg.ArgMax("list", by=by))
        found = rows_of(found)
        assert [r["arg_min(list)"] for r in found] == expected(table, "k", best(min))
        assert [r["arg_max(list)"] for r in found] == expected(table, "k", best(max))


def test_arg_min_of_all_rows():
    ds = hd.from_items([{"a": "x", "b": math.nan}, {"a": "y", "b": 2.0}, {"a": None, "b": 1.0}])
    assert ds.aggregate(agg.ArgMin("a", "b"), agg.ArgMax("a", "b")) == {"arg_min(a)": None, "arg_max(a)": "y"}
    nothing = hd.from_items([{"a": 1, "b": None}]).with_column("b", col("b").cast("double"))
    assert nothing.aggregate(agg.ArgMin("a", "b")) == {"arg_min(a)": None}
    assert hd.range(3).filter(col("id") > 9).aggregate(agg.First("id"), agg.ArgMax("id", "id")) == {
        "first(id)": None,
        "arg_max(id)": None,
    }


def test_wrong_aggregates():
    ds = hd.from_arrow(made(10))
    with pytest.raises(InvalidArgument, match="arg_min: by: there is no column 'nothing'"):
        ds.groupby("k").aggregate(agg.ArgMin("i", "nothing"))
    with pytest.raises(TypeMismatchError, match="arg_min: column 'list'"):
        ds.groupby("k").aggregate(agg.ArgMin("i", "list"))
    with pytest.raises(TypeError, match="by=None"):
        agg.ArgMin("i", None)


# --------------------------------------------------------------------------------------------- explode


@pytest.mark.parametrize("type", [pa.list_(pa.int64()), pa.large_list(pa.int64()), pa.list_(pa.int64(), 2)])
def test_explode_as_pandas(type):
    lists = (
        [[1, 2], None, [3, None], [4, 5]] if pa.types.is_fixed_size_list(type) else [[1, 2], [], None, [3]]
    )
    table = pa.table({"a": ["p", "q", None, "s"], "v": pa.array(lists, type), "i": range(4)})
    frame = table.to_pandas()
    want = pa.Table.from_pandas(frame.explode("v").astype({"v": "Int64"}), preserve_index=False)
    for rows in (4, 1):
        assert cut(table, rows).explode("v").to_arrow().to_pylist() == want.to_pylist()
    sliced = hd.from_arrow(table.slice(1, 3))
    assert sliced.explode("v").to_arrow().to_pylist() == [r for r in want.to_pylist() if r["i"] > 0]


def test_explode_of_structs_twice_and_with_long_lists():
    nested = hd.from_arrow(pa.table({"v": [[[1, 2], []], None, [[3]]]}))
    assert [r["v"] for r in nested.explode("v").explode("v").take_all()] == [1, 2, None, None, 3]
    structs = hd.from_items([{"v": [{"a": 1}, {"a": 2}]}])
    assert structs.explode("v").take_all() == [{"v": {"a": 1}}, {"v": {"a": 2}}]
    long = hd.from_arrow(pa.table({"v": [list(range(200_000)), [7]], "w": ["a", "b"]})).explode("v")
    assert long.count() == 200_001
    assert long.groupby("w").count().take_all() == [{"w": "a", "count()": 200_000}, {"w": "b", "count()": 1}]
    shuffled = [r["v"] for r in long.random_shuffle(seed=1).limit(100).take_all()]
    assert shuffled == [r["v"] for r in long.random_shuffle(seed=1).limit(100).take_all()]
    assert len(set(shuffled)) > 90 and shuffled != sorted(shuffled)


def test_explode_goes_on_where_it_was():
    ds = hd.from_arrow([pa.table({"v": [[i, i + 1]] * 50}) for i in range(20)]).explode("v")
    whole = [b["v"].tolist() for b in ds.iter_batches(batch_size=30)]
    batches = ds.iter_batches(batch_size=30)
    running = iter(batches)
    seen = [next(running)["v"].tolist() for _ in range(7)]
    later = ds.iter_batches(batch_size=30)
    later.load_state_dict(batches.state_dict())
    assert seen + [b["v"].tolist() for b in later] == whole


def test_wrong_explode():
    ds = hd.from_arrow(made(10))
    with pytest.raises(InvalidArgument, match="no column 'q'"):
        ds.explode("q")
    with pytest.raises(TypeMismatchError, match="explode: column 'i' is int64, expected lists"):
        ds.explode("i")


# ---------------------------------------------------------------------------------------------- sample


def test_sample_is_exact_in_order_and_repeatable():
    ds = cut(pa.table({"i": range(5000)}), 37)
    for n in (0, 1, 100, 4999, 5000, 9000):
        found = [r["i"] for r in ds.sample(n, seed=4).take_all()]
        assert len(found) == min(n, 5000) == len(set(found)) and found == sorted(found)
    assert ds.sample(50, seed=4).take_all() == ds.sample(50, seed=4).take_all()
    assert ds.sample(50, seed=4).take_all() != ds.sample(50, seed=5).take_all()
    assert ds.sample(50).take_all() == ds.sample(50).take_all()


def test_sample_is_uniform():
    ds = hd.range(20)
    counts = collections.Counter()
    for seed in range(600):
        counts.update(r["id"] for r in ds.sample(5, seed=seed).take_all())
    # each row 150 times; the standard deviation is 10.6
    assert all(abs(counts[i] - 150) < 55 for i in range(20)), counts


def test_wrong_sample():
    for n in (-1, 1.5, "3", True):
        with pytest.raises(InvalidArgument, match="sample: n"):
            hd.range(5).sample(n)


# ----------------------------------------------------------------------------------------- other methods


def test_value_counts_as_pandas():
    table = made(3000)
    ds = cut(table, 100)
    want = table["s"].to_pandas().value_counts(dropna=False)
    found = ds.value_counts("s").take_all()
    assert {r["s"]: r["count"] for r in found} == {(None if k != k else k): v for k, v in want.items()}
    assert [r["count"] for r in found] == sorted((r["count"] for r in found), reverse=True)
    assert [r["k"] for r in ds.value_counts("k", sort=False).take_all()] == [*range(40), None]
    shares = ds.value_counts("s", normalize=True).take_all()
    assert shares == [{"s": r["s"], "proportion": r["count"] / 3000} for r in found]
    assert hd.range(0).value_counts("id", normalize=True).take_all() == []
    with pytest.raises(InvalidArgument, match="name of the result"):
        hd.from_items([{"count": 1}]).value_counts("count")


def test_to_dict_and_to_polars():
    table = made(50)
    ds = cut(table, 9)
    assert ds.to_dict() == table.to_pydict()
    assert ds.limit(0).to_dict() == {name: [] for name in table.column_names}
    with pytest.raises(InvalidArgument, match="more than 10 rows"):
        ds.to_dict(limit=10)
    polars = pytest.importorskip("polars")
    assert ds.to_polars().to_dicts() == table.to_pylist()
    assert isinstance(ds.limit(0).to_polars(), polars.DataFrame)


def test_explain_shows_the_steps(capsys):
    ds = hd.from_arrow(made(10))
    ds.drop_duplicates("k").explain()
    text = capsys.readouterr().out
    runs_as = text.partition("runs as")[2].partition("on a resume")[0]
    assert "group(k: first(s)" in runs_as and runs_as.count("sort(") == 1, text
    ds.explode("list").explain()
    assert "explode(list)" in capsys.readouterr().out
    assert "drop_duplicates(k, keep='last')" in repr(ds.drop_duplicates("k", keep="last"))
    assert "sample(3, seed=1)" in repr(ds.sample(3, seed=1))


def test_a_summary_prints_its_table():
    ds = hd.from_items([{"age": 25, "city": "NYC"}, {"age": 30, "city": None}])
    summary = ds.summary()
    lines = repr(summary).splitlines()
    assert lines[0].startswith("DatasetSummary(") and "statistic" in lines[2]
    assert len({len(line) for line in lines[1:]}) == 1
    for name in summary.statistics:
        assert sum(line.startswith(f"│ {name} ") for line in lines) == 1
    assert any("│ max " in line and " 30 " in line for line in lines)
