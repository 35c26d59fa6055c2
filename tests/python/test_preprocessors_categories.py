"""Categoricals and Arrow dictionaries keep their categories, through operations, up to DataFrames."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import headrace.data as hd
from headrace.data.expressions import col
from headrace.data.preprocessors import (
    Categorizer,
    Chain,
    CustomKBinsDiscretizer,
    OneHotEncoder,
    OrdinalEncoder,
    SimpleImputer,
    StandardScaler,
    UniformKBinsDiscretizer,
)

SIZES = pd.CategoricalDtype(["small", "large", "huge"], ordered=True)
FRAME = pd.DataFrame(
    {
        "size": pd.Categorical(["large", None, "small", "large"], dtype=SIZES),
        "n": pd.Categorical([3, 1, 3, 3], categories=[3, 1, 2]),
        "x": [1.0, 2.0, 3.0, 4.0],
        "city": ["paris", "lagos", None, "paris"],
    }
)


def sources():
    dictionary = pa.Table.from_pandas(FRAME, preserve_index=False)
    assert pa.types.is_dictionary(dictionary["size"].type)
    half = pa.concat_tables([dictionary.slice(0, 2), dictionary.slice(2)])
    return {
        "pandas": hd.from_pandas(FRAME),
        "frames": hd.from_pandas([FRAME.iloc[:2], FRAME.iloc[2:]]),
        "arrow": hd.from_arrow(dictionary),
        "chunks": hd.from_arrow(half),
        "blocks": hd.from_arrow([half.slice(0, 1), half.slice(1)]),
    }


@pytest.mark.parametrize("source", sources())
def test_there_and_back(source):
    ds = sources()[source]
    found = ds.to_pandas()
    assert found["size"].dtype == SIZES and found["n"].dtype == FRAME["n"].dtype
    pd.testing.assert_frame_equal(found, FRAME)
    # values for everybody else
    assert ds.take_all()[0]["size"] == "large" and ds.schema().types[0].endswith("string")
    assert ds.to_arrow()["size"].to_pylist() == ["large", None, "small", "large"]


OPERATIONS = {
    "filter": lambda ds: ds.filter(expr=col("x") > 1).limit(2),
    "rename": lambda ds: ds.rename_columns({"size": "s"}).rename_columns({"s": "size"}),
    "sort": lambda ds: ds.sort("x", descending=True),
    "shuffle": lambda ds: ds.random_shuffle(seed=1),
    "select": lambda ds: ds.select_columns(["size", "n", "x"]),
    "union": lambda ds: ds.union(ds),
    "materialize": lambda ds: ds.materialize(),
    "join": lambda ds: ds.join(hd.from_items([{"x": 1.0, "y": 1}]), "left_outer", on="x"),
    "scale": lambda ds: StandardScaler(["x"]).fit_transform(ds),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_keep_them(name):
    found = OPERATIONS[name](hd.from_pandas(FRAME)).to_pandas()
    assert found["size"].dtype == SIZES and found["n"].dtype == FRAME["n"].dtype


def test_a_value_that_is_no_category_is_not_lost():
    ds = hd.from_pandas(FRAME).union(hd.from_pandas(FRAME.astype({"size": str}).assign(size="other")))
    assert ds.to_pandas()["size"].tolist()[-1] == "other"
    changed = hd.from_pandas(FRAME).with_column("size", col("size").str.upper()).to_pandas()
    assert changed["size"].tolist()[0] == "LARGE" and changed["size"].dtype != "category"
    mixed = hd.from_pandas([FRAME, FRAME.assign(size=FRAME["size"].cat.add_categories("tiny"))])
    assert mixed.to_pandas()["size"].tolist()[:1] == ["large"]


def test_functions_get_them():
    def seen(df):
        return df.assign(kinds=str(df["size"].dtype), codes=df["size"].cat.codes)

    found = hd.from_pandas(FRAME).map_batches(seen, batch_format="pandas").to_pandas()
    assert found["kinds"].tolist() == ["category"] * 4 and found["codes"].tolist() == [1, -1, 0, 1]


def test_categorizer():
    ds = hd.from_pandas(FRAME)
    what = Categorizer(["size", "city", "x"], output_columns=["size", "c", "x"]).fit(ds)
    assert what.stats_["size"] == SIZES  # its own
    assert what.stats_["c" if "c" in what.stats_ else "city"] == pd.CategoricalDtype(["lagos", "paris"])
    found, batch = what.transform(ds).to_pandas(), what.transform_batch(FRAME)
    pd.testing.assert_frame_equal(found, batch)
    assert found["c"].dtype == pd.CategoricalDtype(["lagos", "paris"]) and found["c"].isna().tolist()[2]
    new = hd.from_items(
        [{"size": "vast", "city": "rome", "x": 4.0}, {"size": "huge", "city": "paris", "x": 9.0}]
    )
    found = what.transform(new).to_pandas()
    assert found["size"].tolist()[1:] == ["huge"] and found["size"].isna().tolist() == [True, False]
    assert found["size"].dtype == SIZES and found["c"].isna().tolist() == [True, False]
    given = Categorizer(["city"], dtypes={"city": pd.CategoricalDtype(["rome", "paris"], ordered=True)})
    assert given.fit_transform(ds).to_pandas()["city"].dtype == given.dtypes["city"]
    assert given.fit_status() == "FITTED"


def test_halves():
    halves = pd.DataFrame({"x": np.array([1.5, 2.5, np.nan], np.float16)})
    what = Categorizer(["x"]).fit(hd.from_pandas(halves))
    for made in (what.transform_batch(halves), what.transform(hd.from_pandas(halves)).to_pandas()):
        assert made["x"].cat.categories.tolist() == [1.5, 2.5] and made["x"].cat.codes.tolist() == [0, 1, -1]


def test_lists_have_no_categories():
    """The story: fit() took them, and transform() said "unhashable type: 'numpy.ndarray'"."""
    with pytest.raises(TypeError, match="Categorizer: column 'x' is list<.*expected single values"):
        Categorizer(["x"]).fit(hd.from_items([{"x": [1, 2]}]))


def test_large_integers_beside_nulls():
    """The story: they went through doubles, and the column was no Categorical any more."""
    values = pd.Series(pd.Categorical([2**53 + 1, None, 2**53 + 3, 5]))
    pd.testing.assert_series_equal(
        hd.from_pandas(pd.DataFrame({"x": values})).to_pandas()["x"], values, check_names=False
    )


def test_encoders_count_all_categories():
    ds = hd.from_pandas(FRAME)
    assert OrdinalEncoder(["n"]).fit(ds).stats_ == {"unique_values(n)": {1: 0, 2: 1, 3: 2}}
    hot = OneHotEncoder(["n"]).fit(ds)
    assert [v.tolist() for v in hot.transform(ds).to_pandas()["n"]] == [[0, 0, 1], [1, 0, 0]] + [
        [0, 0, 1]
    ] * 2
    assert [v.tolist() for v in hot.transform_batch(FRAME)["n"]] == [[0, 0, 1], [1, 0, 0]] + [[0, 0, 1]] * 2
    most = OneHotEncoder(["n"], max_categories={"n": 1}).fit(ds)
    assert most.stats_ == {"unique_values(n)": {3: 0}}


def test_imputer_adds_its_value():
    ds = hd.from_pandas(FRAME)
    for what, dtype in (
        (SimpleImputer(["size"], "most_frequent"), SIZES),
        (
            SimpleImputer(["size"], "constant", "?"),
            pd.CategoricalDtype([*SIZES.categories, "?"], ordered=True),
        ),
    ):
        found, batch = what.fit_transform(ds).to_pandas(), what.transform_batch(FRAME)
        assert found["size"].dtype == batch["size"].dtype == dtype
        assert found["size"].tolist() == batch["size"].tolist()


def test_bins_with_names():
    levels = pd.CategoricalDtype(["low", "mid", "high"], ordered=True)
    ds = hd.from_pandas(FRAME)
    for what in (
        UniformKBinsDiscretizer(["x"], 3, dtypes={"x": levels}),
        CustomKBinsDiscretizer(["x"], [0, 2, 3, 9], dtypes={"x": levels}),
    ):
        found, batch = what.fit_transform(ds).to_pandas(), what.transform_batch(FRAME)
        assert found["x"].dtype == batch["x"].dtype == levels
        assert found["x"].tolist() == batch["x"].tolist() and found["x"].tolist()[-1] == "high"
    with pytest.raises(ValueError, match="Bin labels must be one fewer than the number of bin edges"):
        CustomKBinsDiscretizer(["x"], [0, 9], dtypes={"x": levels}).transform(ds)


def test_a_chain_with_them():
    chain = Chain(SimpleImputer(["size"], "most_frequent"), Categorizer(["city"]), OrdinalEncoder(["size"]))
    found = chain.fit_transform(hd.from_pandas(FRAME)).to_pandas()
    assert found["size"].tolist() == [1, 1, 2, 1] and str(found["city"].dtype) == "category"
    again = Chain.deserialize(chain.serialize())
    assert again.transform_batch(FRAME)["size"].tolist() == [1, 1, 2, 1]


def test_nothing_but_plain_values_is_kept():
    dates = pd.DataFrame({"d": pd.Categorical(pd.to_datetime(["2024-01-01", "2024-01-02"]))})
    assert hd.from_pandas(dates).to_pandas()["d"].tolist() == list(dates["d"])
    many = pd.DataFrame({"s": pd.Categorical([f"a rather long category {i:09}" for i in range(40_000)])})
    assert hd.from_pandas(many).to_pandas()["s"].dtype != "category"
    empty = pa.table({"s": pa.array([], pa.dictionary(pa.int8(), pa.string()))})
    assert hd.from_arrow(empty).count() == 0
