"""map_groups against pandas: each group whole, in the order of the keys, however large or many."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace.data as hd
from headrace import exceptions

N = 3000


def source():
    random = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "k": random.integers(0, 700, N),
            "s": random.choice(["a", "bb", "", "ü"], N),
            "x": random.random(N),
            "row": np.arange(N),
        }
    )


def describe(group):
    return {"k": group["k"][:1], "n": [len(group["x"])], "x": [group["x"].sum()], "first": group["row"][:1]}


@pytest.mark.parametrize("compute", ["processes", "threads", "inline"])
@pytest.mark.parametrize("batch_format", ["numpy", "pandas", "pyarrow"])
def test_each_group_once(compute, batch_format):
    def rows(group):
        kind = {"numpy": dict, "pandas": pd.DataFrame, "pyarrow": pa.Table}[batch_format]
        assert isinstance(group, kind)
        if batch_format == "pandas":
            assert list(group.index) == list(range(len(group)))
            return group.assign(x=group["x"].cumsum())[["row", "x"]]
        if batch_format == "pyarrow":
            return group.select(["row", "x"])
        return {"row": group["row"], "x": group["x"].cumsum()}

    df = source()
    found = (
        hd.from_pandas(df).groupby(["k", "s"]).map_groups(rows, batch_format=batch_format, compute=compute)
    )
    found = found.to_pandas()
    expected = df.sort_values(["k", "s"], kind="stable")
    assert found["row"].tolist() == expected["row"].tolist()
    if batch_format != "pyarrow":
        np.testing.assert_allclose(found["x"], expected.groupby(["k", "s"], sort=False)["x"].cumsum())


def test_arguments_classes_and_generators():
    class Add:
        def __init__(self, n, *, times):
            self.n = n * times

        def __call__(self, group, more, twice=False):
            for _ in range(1 + twice):
                yield {"v": group["k"][:1] + self.n + more}

    ds = hd.from_pandas(source()).groupby("k").map_groups(
        Add,
        fn_constructor_args=[10],
        fn_constructor_kwargs={"times": 2},
        fn_args=[1],
        fn_kwargs={"twice": True},
        concurrency=2,
    )  # fmt: skip
    keys = sorted(set(source()["k"]))
    assert ds.to_arrow()["v"].to_pylist() == [k + 21 for k in keys for _ in range(2)]


def test_writable_groups():
    def write(group):
        group["x"][:] = 0
        return group

    ds = hd.from_pandas(source()).groupby("k").map_groups(write, zero_copy_batch=False)
    assert ds.to_pandas()["x"].sum() == 0
    with pytest.raises(ValueError, match="read-only"):
        hd.from_pandas(source()).groupby("k").map_groups(write).take()


async def later(group):
    return {"k": group["k"][:1], "n": [len(group["k"])]}


def test_async_groups():
    found = hd.from_pandas(source()).groupby("k").map_groups(later).to_pandas()
    assert found["n"].tolist() == source().groupby("k").size().tolist()


def test_no_keys_and_no_rows():
    ds = hd.from_pandas(source())
    found = ds.groupby(None).map_groups(lambda g: {"n": [len(g["k"])], "last": g["row"][-1:]}).take_all()
    assert found == [{"n": N, "last": N - 1}]
    assert ds.filter(expr="k < 0").groupby("k").map_groups(describe).take_all() == []
    assert ds.groupby("k").map_groups(lambda g: {"k": g["k"][:0]}).take_all() == []


def test_one_large_group_and_many_small():
    keys = np.concatenate([np.zeros(200_000, int), np.arange(1, 50_000)])
    ds = (
        hd.from_numpy(keys)
        .groupby("data")
        .map_groups(lambda g: {"k": g["data"][:1], "n": np.array([len(g["data"])])})
    )
    found = ds.to_arrow()
    assert found["k"].to_pylist() == list(range(50_000))
    assert found["n"].to_pylist() == [200_000] + [1] * 49_999


def test_random_numbers_are_the_groups_own():
    draw = lambda g: {"k": g["k"][:1], "r": np.random.random(1)}  # noqa: E731
    ds = hd.from_pandas(source()).groupby("k")
    one = ds.map_groups(draw, compute="inline").to_arrow()
    assert ds.map_groups(draw, concurrency=2).to_arrow() == one
    assert len(set(one["r"].to_pylist())) == one.num_rows


def test_errors_name_the_step():
    ds = hd.from_pandas(source()).groupby("k")
    with pytest.raises(ZeroDivisionError) as e:
        ds.map_groups(lambda g: 1 // 0).take()
    assert "map_groups(<lambda>)" in e.value.__notes__[0]
    with pytest.raises(exceptions.TypeMismatchError, match="map_groups: expected a function"):
        ds.map_groups(5)
    with pytest.raises(exceptions.InvalidArgument, match="batch_format"):
        ds.map_groups(describe, batch_format="xml")


values = {
    "double": st.one_of(st.none(), st.sampled_from([0.0, -0.0, float("nan"), 1.5, -2.5, float("inf")])),
    "text": st.one_of(st.none(), st.sampled_from(["", "a", "aa", "ü"])),
    "int": st.one_of(st.none(), st.integers(-2, 2)),
    "bool": st.one_of(st.none(), st.booleans()),
}


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.fixed_dictionaries(values), min_size=1, max_size=60),
    st.sampled_from(range(1, 5)),
    st.integers(1, 30),
)
def test_like_pandas(rows, n_keys, block):
    keys = list(values)[:n_keys]
    types = {"double": "double", "text": "string", "int": "int64", "bool": "bool", "row": "int64"}
    schema = pa.schema([(name, pa.type_for_alias(kind)) for name, kind in types.items()])
    table = pa.Table.from_pylist([{**r, "row": i} for i, r in enumerate(rows)], schema=schema)
    parts = [table.slice(i, block) for i in range(0, table.num_rows, block)]
    found = hd.from_arrow(parts).groupby(keys).map_groups(
        lambda g: {"rows": [g["row"].tolist()]}, compute="inline"
    )  # fmt: skip
    groups = {}
    for i, row in enumerate(rows):
        key = tuple("nan" if v != v else v + 0.0 if k == "double" and v is not None else v
                    for k, v in ((k, row[k]) for k in keys))  # fmt: skip
        groups.setdefault(key, []).append(i)
    assert sorted(found.to_arrow()["rows"].to_pylist()) == sorted(groups.values())
