"""Dataset.summary(), against pandas; to_torch() and materialize() of an iterator."""

import concurrent.futures
import datetime
import decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import headrace.data as hd
from headrace._core import InvalidArgument, TypeMismatchError
from headrace.data.aggregate import Count, Sum

PEOPLE = [
    {"age": 25, "salary": 50000, "name": "Alice", "city": "NYC"},
    {"age": 30, "salary": 60000, "name": None, "city": "LA"},
    {"age": 0, "salary": None, "name": "Bob", "city": None},
]


def test_the_example_of_ray():
    """The table of Ray's docstring, except for the median of two values, which lies between them here."""
    got = hd.from_items(PEOPLE).summary().to_pandas()
    assert list(got.columns) == ["statistic", "age", "city", "name", "salary"]
    want = {
        "approx_quantile[0]": (25.0, 55000.0),
        "count": (3, 3),
        "max": (30, 60000),
        "mean": (pytest.approx(18.333333333), 55000.0),
        "min": (0, 50000),
        "missing_pct": (0.0, pytest.approx(33.333333333)),
        "std": (pytest.approx(13.12334645), 5000.0),
        "zero_pct": (pytest.approx(33.333333333), 0.0),
    }
    names = got["statistic"].tolist()
    assert names == sorted(["approx_topk[0]", "approx_topk[1]", *want])
    by = got.set_index("statistic")
    for name, (age, salary) in want.items():
        assert by["age"][name] == age and by["salary"][name] == salary, name
    assert by["city"]["approx_topk[0]"] in ({"city": "LA", "count": 1}, {"city": "NYC", "count": 1})
    assert by["city"]["count"] == 3 and pd.isna(by["city"]["mean"]) and pd.isna(by["age"]["approx_topk[0]"])


def test_columns_of_every_type():
    table = pa.table(
        {
            "b": [True, None, False, True],
            "i8": pa.array([1, 0, None, -3], pa.int8()),
            "u64": pa.array([2**63, 0, 1, 2], pa.uint64()),
            "f": [0.0, float("nan"), 2.5, None],
            "d": pa.array([decimal.Decimal("1.50"), None, decimal.Decimal(0), None]),
            "day": [datetime.date(2024, 1, 1), None, datetime.date(2023, 1, 1), None],
            "at": pa.array([5, 1, None, 3], pa.timestamp("us", "UTC")),
            "clock": pa.array([5, 1, None, 3], pa.time64("us")),
            "for": pa.array([5, 1, None, 3], pa.duration("ms")),
            "s": ["x", "y", "x", None],
            "bin": [b"a", None, b"a", b"b"],
            "l": [[1], None, [], [2]],
            "r": [{"q": 1}, None, {"q": 2}, {"q": 3}],
            "n": pa.nulls(4),
        }
    )
    made = hd.from_arrow(table).summary()
    assert made.dataset_schema.equals(table.schema) and made.columns == sorted(table.column_names)
    of = {
        c: made.get_column_stats(c).set_index("statistic")["value"].dropna().to_dict() for c in made.columns
    }
    assert all(of[c]["count"] == 4 for c in of)
    assert of["n"] == {"count": 4}
    assert of["l"] == of["r"] == {"count": 4, "missing_pct": 25.0}
    assert (of["day"]["min"], of["day"]["max"]) == (datetime.date(2023, 1, 1), datetime.date(2024, 1, 1))
    assert of["at"]["max"].microsecond == 5 and of["clock"]["min"] == datetime.time(0, 0, 0, 1)
    assert of["for"]["max"] == datetime.timedelta(milliseconds=5)
    assert of["f"]["missing_pct"] == 50.0 and of["f"]["max"] == 2.5 and of["f"]["zero_pct"] > 30
    assert of["u64"]["max"] == 2**63 and of["d"]["max"] == decimal.Decimal("1.50")
    assert of["s"]["approx_topk[0]"] == {"s": "x", "count": 2} and of["bin"]["approx_topk[0]"]["bin"] == b"a"
    assert of["d"]["mean"] == 0.75 and "zero_pct" not in of["d"] and of["b"]["mean"] == pytest.approx(2 / 3)
    assert of["b"]["min"] in (False, 0) and of["b"]["missing_pct"] == 25.0 and "approx_topk[0]" not in of["b"]


def test_against_pandas():
    random = np.random.default_rng(5)
    frame = pd.DataFrame(
        {
            "x": random.normal(size=5000),
            "k": random.integers(0, 9, 5000),
            "s": random.choice(["a", "bb", "c"], 5000, p=[0.5, 0.3, 0.2]),
        }
    )
    frame.loc[::7, "x"] = np.nan
    got = hd.from_pandas(frame).repartition(13).summary().to_pandas().set_index("statistic")
    for column in ("x", "k"):
        values = frame[column]
        assert got[column]["mean"] == pytest.approx(values.mean())
        assert got[column]["std"] == pytest.approx(values.std(ddof=0))
        assert got[column]["approx_quantile[0]"] == pytest.approx(values.median())
        assert (got[column]["min"], got[column]["max"]) == (values.min(), values.max())
        assert got[column]["missing_pct"] == pytest.approx(100 * values.isna().mean())
        assert got[column]["zero_pct"] == pytest.approx(100 * (values == 0).sum() / values.notna().sum())
    counts = frame["s"].value_counts()
    assert [got["s"][f"approx_topk[{i}]"]["count"] for i in range(3)] == counts.tolist()


def test_own_aggregates_and_columns():
    ds = hd.from_items(PEOPLE)
    made = ds.summary(["age", "city"], {"int64": lambda c: [Count(on=c), Sum(on=c)]})
    assert made.columns == ["age", "city"]
    assert made.get_column_stats("age").set_index("statistic")["value"].dropna().to_dict() == {
        "count": 3,
        "sum": 55,
    }
    same = ds.summary(["age"], {pa.int64(): lambda c: [Sum(on=c)]})
    assert same.statistics == {"sum": {"age": 55}} and "age" in repr(same)


def test_wrong_arguments():
    ds = hd.from_items(PEOPLE)
    with pytest.raises(InvalidArgument, match="no column 'nope'; the columns are age"):
        ds.summary(["nope"])
    with pytest.raises(InvalidArgument, match="at least one column"):
        ds.summary([])
    with pytest.raises(InvalidArgument, match="found 5"):
        ds.summary(override_dtype_agg_mapping={5: lambda c: []})
    with pytest.raises(TypeMismatchError, match="column 'age': expected an AggregateFnV2, found str"):
        ds.summary(override_dtype_agg_mapping={"int64": lambda c: ["sum"]})
    with pytest.raises(InvalidArgument, match="no column 'x'"):
        ds.summary().get_column_stats("x")


# -------------------------------------------------------------------------------------------------- iterators


def features(ds, **arguments):
    return [(f, label) for f, label in ds.iterator().to_torch(**arguments)]


def test_to_torch():
    torch = pytest.importorskip("torch")
    ds = hd.range(10).map_batches(lambda b: {"a": b["id"], "b": b["id"] * 2.0, "y": b["id"] % 2})
    every = features(
        ds, label_column="y", feature_columns=["a", "b"], batch_size=4, feature_column_dtypes=torch.float32
    )
    assert [f.shape for f, _ in every] == [(4, 2), (4, 2), (2, 2)] and every[0][0].dtype == torch.float32
    assert every[1][0].tolist() == [[4, 8], [5, 10], [6, 12], [7, 14]] and every[1][1].tolist() == [
        [0],
        [1],
        [0],
        [1],
    ]
    (flat,) = features(
        ds, label_column="y", label_column_dtype=torch.float64, unsqueeze_label_tensor=False, batch_size=10
    )
    assert flat[1].shape == (10,) and flat[1].dtype == torch.float64 and flat[0].shape == (10, 2)
    (lists,) = features(
        ds,
        feature_columns=[["a"], ["b", "y"]],
        feature_column_dtypes=[torch.int8, torch.float32],
        batch_size=10,
    )
    assert (
        lists[1] is None
        and [t.shape for t in lists[0]] == [(10, 1), (10, 2)]
        and lists[0][0].dtype == torch.int8
    )
    named = features(ds, feature_columns={"one": ["a"]}, batch_size=4, drop_last=True)
    assert len(named) == 2 and named[0][0]["one"].shape == (4, 1)
    again = ds.iterator().to_torch(batch_size=5)
    assert len(list(again)) == len(list(again)) == 2
    loader = torch.utils.data.DataLoader(
        ds.iterator().to_torch(label_column="y", batch_size=5), batch_size=None
    )
    assert [f.shape for f, _ in loader] == [(5, 2), (5, 2)]


def test_to_torch_says_what_is_wrong():
    torch = pytest.importorskip("torch")
    ds = hd.from_items(PEOPLE).select_columns(["age", "city"])
    with pytest.raises(InvalidArgument, match="no column 'x'; the columns are age, city"):
        features(ds, feature_columns=["x"])
    with pytest.raises(TypeMismatchError, match="column 'city': expected numbers, found text"):
        features(ds, feature_columns=["city"])
    for columns, dtypes in (
        (["age"], [torch.int8]),
        ([["age"]], [torch.int8] * 2),
        ({"a": ["age"]}, {"b": torch.int8}),
    ):
        with pytest.raises(InvalidArgument, match="feature_column_dtypes"):
            features(ds, feature_columns=columns, feature_column_dtypes=dtypes)
    with pytest.raises(InvalidArgument, match="found an empty list"):
        features(ds, feature_columns=[["age"], []])


def test_a_share_is_materialized():
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        kept = list(
            pool.map(lambda share: share.materialize(), hd.range(20_000).streaming_split(2, equal=True))
        )
    assert [k.count() for k in kept] == [10_000, 10_000]
    ids = [sorted(r["id"] for r in k.take_all()) for k in kept]
    assert sorted(ids[0] + ids[1]) == list(range(20_000)) and kept[0].num_blocks() > 0
    assert hd.range(5).iterator().materialize().count() == 5
