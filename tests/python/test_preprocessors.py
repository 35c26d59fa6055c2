"""headrace.data.preprocessors: what each class learns, what it makes of datasets and of single batches, and
its errors.

Expected values are computed by NumPy and pandas, or stand in the tests; test_preprocessors_agree.py compares
with scikit-learn.
"""

import datetime
import math
import pickle
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import headrace.data as hd
from headrace import exceptions
from headrace.data.aggregate import Max, Mean
from headrace.data.preprocessor import BatchFormat, Preprocessor, PreprocessorNotFittedException
from headrace.data.preprocessors import (
    Chain,
    Concatenator,
    CountVectorizer,
    CustomKBinsDiscretizer,
    FeatureHasher,
    HashingVectorizer,
    LabelEncoder,
    MaxAbsScaler,
    MinMaxScaler,
    MultiHotEncoder,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PowerTransformer,
    RobustScaler,
    SimpleImputer,
    StandardScaler,
    Tokenizer,
    TorchVisionPreprocessor,
    UniformKBinsDiscretizer,
)

NAN = math.nan
ROWS = pd.DataFrame(
    {
        "x": [1.0, 2.0, NAN, 4.0, -3.0],
        "n": [5, -5, 3, 3, 0],
        "same": [7, 7, 7, 7, 7],
        "none": [NAN] * 5,
        "city": ["paris", "lagos", "paris", "tokyo", "lagos"],
        "word": ["to be or", "not to be", None, "be", ""],
        "tags": [["a", "b"], ["b"], ["c", "a", "a"], ["b"], []],
    }
)
NEW = pd.DataFrame(
    {
        "x": [NAN, 10.0],
        "n": [100, -100],
        "same": [7, 8],
        "none": [1.0, NAN],
        "city": ["rome", "tokyo"],
        "word": ["be be so", None],
        "tags": [["z"], ["c", "c", "z"]],
    }
)


def cells(values):
    """A column as Python's lists and numbers; missing values are None."""
    made = []
    for v in values:
        if isinstance(v, (list, np.ndarray)):
            made.append(cells(v))
        else:
            v = v.item() if isinstance(v, np.generic) else v
            made.append(None if v is None or v is pd.NA or isinstance(v, float) and v != v else v)
    return made


def columns(frame):
    frame = frame if isinstance(frame, pd.DataFrame) else frame.to_pandas()
    return {c: cells(frame[c]) for c in frame.columns}


def near(found, want):
    if isinstance(want, list):
        return isinstance(found, list) and len(found) == len(want) and all(map(near, found, want))
    if isinstance(want, float) and found is not None:
        return found == pytest.approx(want, rel=1e-12, abs=1e-12)
    return found == want


def root(*values):
    return math.sqrt(sum(v * v for v in values))


STD_X, MEAN_X = np.std([1, 2, 4, -3.0]), 1.0
STD_N, MEAN_N = np.std([5, -5, 3, 3, 0]), 1.2

# (what, {column: values} of ROWS, {column: values} of NEW, stats_)
CASES = {
    "standard": (
        StandardScaler(["x", "n", "same", "none"]),
        {
            "x": [0.0, 1 / STD_X, None, 3 / STD_X, -4 / STD_X],
            "n": [(v - MEAN_N) / STD_N for v in (5, -5, 3, 3, 0)],
            "same": [0.0] * 5,
            "none": [None] * 5,
        },
        {"x": [None, 9 / STD_X], "same": [0.0, 1.0], "none": [None, None]},
        {"mean(x)": 1.0, "std(same)": 0.0, "mean(none)": None},
    ),
    "standard, swapped": (
        StandardScaler(["x", "n"], output_columns=["n", "m"]),
        {
            "x": [1.0, 2.0, None, 4.0, -3.0],
            "n": [0.0, 1 / STD_X, None, 3 / STD_X, -4 / STD_X],
            "m": [(v - MEAN_N) / STD_N for v in (5, -5, 3, 3, 0)],
        },
        {},
        {},
    ),
    "min-max": (
        MinMaxScaler(["x", "n", "same", "none"]),
        {
            "x": [4 / 7, 5 / 7, None, 1.0, 0.0],
            "n": [1.0, 0.0, 0.8, 0.8, 0.5],
            "same": [0.0] * 5,
            "none": [None] * 5,
        },
        {"x": [None, 13 / 7], "n": [10.5, -9.5]},
        {"min(x)": -3.0, "max(x)": 4.0, "min(n)": -5, "max(none)": None},
    ),
    "max-abs": (
        MaxAbsScaler(["x", "n", "same"], ["a", "b", "c"]),
        {"a": [0.25, 0.5, None, 1.0, -0.75], "b": [1.0, -1.0, 0.6, 0.6, 0.0], "c": [1.0] * 5},
        {"a": [None, 2.5]},
        {"abs_max(x)": 4.0, "abs_max(n)": 5},
    ),
    "robust": (
        RobustScaler(["x", "n", "same", "none"]),
        {
            "x": [(v - 1.5) / 2.5 if v is not None else None for v in (1.0, 2.0, None, 4.0, -3.0)],
            "n": [2 / 3, -8 / 3, 0.0, 0.0, -1.0],
            "same": [0.0] * 5,
            "none": [None] * 5,
        },
        {"n": [97 / 3, -103 / 3]},
        {"low_quantile(n)": 0, "median(n)": 3, "high_quantile(n)": 3, "median(none)": None},
    ),
    "robust, all": (
        RobustScaler(["n"], (0, 1)),
        {"n": [0.2, -0.8, 0.0, 0.0, -0.3]},
        {},
        {"low_quantile(n)": -5, "high_quantile(n)": 5},
    ),
    "ordinal": (
        OrdinalEncoder(["city", "n"]),
        {"city": [1, 0, 1, 2, 0], "n": [3, 0, 2, 2, 1]},
        {"city": [None, 2], "n": [None, None]},
        {"unique_values(city)": {"lagos": 0, "paris": 1, "tokyo": 2}},
    ),
    "ordinal, items": (
        OrdinalEncoder(["tags"], output_columns=["t"]),
        {"t": [[0, 1], [1], [2, 0, 0], [1], []]},
        {"t": [[None], [2, 2, None]]},
        {"unique_values(tags)": {"a": 0, "b": 1, "c": 2}},
    ),
    "ordinal, lists": (
        OrdinalEncoder(["tags"], encode_lists=False),
        {"tags": [1, 2, 3, 2, 0]},
        {"tags": [None, None]},
        {"unique_values(tags)": {(): 0, ("a", "b"): 1, ("b",): 2, ("c", "a", "a"): 3}},
    ),
    "one-hot": (
        OneHotEncoder(["city"]),
        {"city": [[0, 1, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0]]},
        {"city": [[0, 0, 0], [0, 0, 1]]},
        {"unique_values(city)": {"lagos": 0, "paris": 1, "tokyo": 2}},
    ),
    "one-hot, most frequent": (
        OneHotEncoder(["city", "n"], max_categories={"city": 1, "n": 9}, output_columns=["c", "m"]),
        {
            "c": [[1], [0], [1], [0], [0]],
            "m": [[0, 0, 0, 1], [1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 1, 0], [0, 1, 0, 0]],
        },
        {"c": [[0], [0]]},
        {"unique_values(city)": {"paris": 0}},
    ),
    "multi-hot": (
        MultiHotEncoder(["tags", "city"]),
        {
            "tags": [[1, 1, 0], [0, 1, 0], [2, 0, 1], [0, 1, 0], [0, 0, 0]],
            "city": [[0, 1, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0]],
        },
        {"tags": [[0, 0, 0], [0, 0, 2]]},
        {"unique_values(tags)": {"a": 0, "b": 1, "c": 2}},
    ),
    "multi-hot, most frequent": (
        MultiHotEncoder(["tags"], max_categories={"tags": 2}),
        {"tags": [[1, 1], [0, 1], [2, 0], [0, 1], [0, 0]]},
        {},
        {"unique_values(tags)": {"a": 0, "b": 1}},
    ),
    "label": (
        LabelEncoder("city", output_column="y"),
        {"y": [1, 0, 1, 2, 0], "city": ["paris", "lagos", "paris", "tokyo", "lagos"]},
        {"y": [None, 2]},
        {"unique_values(city)": {"lagos": 0, "paris": 1, "tokyo": 2}},
    ),
    "mean": (
        SimpleImputer(["x", "n"]),
        {"x": [1.0, 2.0, 1.0, 4.0, -3.0], "n": [5.0, -5.0, 3.0, 3.0, 0.0]},
        {"x": [1.0, 10.0]},
        {"mean(x)": 1.0},
    ),
    "most frequent": (
        SimpleImputer(["word", "n", "x"], "most_frequent", output_columns=["w", "n", "y"]),
        {
            "w": ["to be or", "not to be", "to be or", "be", ""],
            "n": [5, -5, 3, 3, 0],
            "y": [1.0, 2.0, 1.0, 4.0, -3.0],
        },
        {"w": ["be be so", "to be or"]},
        {"most_frequent(word)": "to be or", "most_frequent(n)": 3},
    ),
    "constant": (
        SimpleImputer(["word", "absent"], "constant", "?"),
        {"word": ["to be or", "not to be", "?", "be", ""], "absent": ["?"] * 5},
        {"word": ["be be so", "?"]},
        {},
    ),
    "l2": (
        Normalizer(["x", "n"]),
        {
            "x": [1 / root(1, 5), 2 / root(2, 5), None, 0.8, -1.0],
            "n": [5 / root(1, 5), -5 / root(2, 5), 1.0, 0.6, 0.0],
        },
        {},
        {},
    ),
    "l1": (
        Normalizer(["x", "n"], norm="l1", output_columns=["u", "v"]),
        {"u": [1 / 6, 2 / 7, None, 4 / 7, -1.0], "v": [5 / 6, -5 / 7, 1.0, 3 / 7, 0.0]},
        {},
        {},
    ),
    "max": (
        Normalizer(["x", "n", "none"], norm="max"),
        {"x": [0.2, 0.4, None, 1.0, -1.0], "n": [1.0, -1.0, 1.0, 0.75, 0.0], "none": [None] * 5},
        {},
        {},
    ),
    "yeo-johnson": (
        PowerTransformer(["x"], 3),
        {"x": [7 / 3, 26 / 3, None, 124 / 3, -0.75]},
        {},
        {},
    ),
    "yeo-johnson 0 and 2": (
        Chain(
            PowerTransformer(["x"], 0, output_columns=["a"]), PowerTransformer(["x"], 2, output_columns=["b"])
        ),
        {
            "a": [math.log(2), math.log(3), None, math.log(5), -7.5],
            "b": [1.5, 4.0, None, 12.0, -math.log(4)],
        },
        {},
        {},
    ),
    "box-cox": (
        PowerTransformer(["same"], 2, "box-cox"),
        {"same": [24.0] * 5},
        {"same": [24.0, 31.5]},
        {},
    ),
    "concatenator": (
        Concatenator(["n", "x"], "v", np.float32),
        {
            "v": [[5.0, 1.0], [-5.0, 2.0], [3.0, None], [3.0, 4.0], [0.0, -3.0]],
            "city": ["paris", "lagos", "paris"],
        },
        {},
        {},
    ),
    "custom bins": (
        CustomKBinsDiscretizer(["x", "n"], {"x": [-3, 1, 2, 4], "n": [0, 3, 5]}),
        {"x": [0, 1, None, 2, None], "n": [1, None, 0, 0, None]},
        {"n": [None, None]},
        {},
    ),
    "custom bins, left": (
        CustomKBinsDiscretizer(["x"], [-3, 1, 2, 4], right=False, output_columns=["b"]),
        {"b": [1, 2, None, None, 0]},
        {},
        {},
    ),
    "custom bins, lowest": (
        CustomKBinsDiscretizer(["x"], [-3, 1, 1, 4], include_lowest=True, duplicates="drop"),
        {"x": [0, 1, None, 1, 0]},
        {},
        {},
    ),
    "uniform bins": (
        UniformKBinsDiscretizer(["x", "n", "same"], {"x": 7, "n": 2, "same": 2}),
        {"x": [3, 4, None, 6, 0], "n": [1, 0, 1, 1, 0], "same": [0] * 5},
        {"n": [None, None]},
        {"n": [-5.01, 0.0, 5.0]},
    ),
    "tokenizer": (
        Tokenizer(["word"]),
        {"word": [["to", "be", "or"], ["not", "to", "be"], None, ["be"], [""]]},
        {"word": [["be", "be", "so"], None]},
        {},
    ),
    "count": (
        CountVectorizer(["word"], max_features=2),
        {"word": [[1, 1], [1, 1], None, [1, 0], [0, 0]]},
        {"word": [[2, 0], None]},
        {"token_counts(word)": {"be": 3, "to": 2}},
    ),
    "hashing": (
        HashingVectorizer(["word"], 5, output_columns=["h"]),
        {"h": [[1, 2, 0, 0, 0], [1, 2, 0, 0, 0], None, [1, 0, 0, 0, 0], [0, 0, 0, 0, 1]]},
        {},
        {},
    ),
    "hasher": (
        FeatureHasher(["n", "same"], 3, "h"),
        {"h": [[7, 0, 5], [7, 0, -5], [7, 0, 3], [7, 0, 3], [7, 0, 0]], "n": [5, -5, 3, 3, 0]},
        {},
        {},
    ),
}


@pytest.fixture(scope="module")
def rows():
    return hd.from_pandas(ROWS)


@pytest.mark.parametrize("case", CASES)
def test_of_a_dataset_and_of_a_batch(case, rows):
    what, want, want_new, stats = CASES[case]
    what = pickle.loads(pickle.dumps(what))
    given = ROWS.copy(deep=True)
    fitted = what.fit(rows)
    assert fitted is what
    for name, value in stats.items():
        found = what.stats_[name]
        found = found.tolist() if isinstance(found, np.ndarray) else found
        assert found == (pytest.approx(value) if not isinstance(value, dict) and value is not None else value)
    made = columns(what.transform(rows))
    batch = columns(what.transform_batch(ROWS))
    pd.testing.assert_frame_equal(ROWS, given)
    assert list(made) == list(batch)
    for name, values in want.items():
        n = min(len(values), len(made[name]))
        assert near(made[name][:n], values[:n]), name
        assert near(batch[name][:n], values[:n]), name
    new = columns(what.transform_batch(NEW))
    made_new = columns(what.transform(hd.from_pandas(NEW))) if want_new else new
    for name, values in want_new.items():
        assert near(new[name], values) and near(made_new[name], values), name
    # the text of it does the same
    again = Preprocessor.deserialize(what.serialize())
    assert type(again) is type(what) and repr(again) == repr(what) and again.fit_status() == what.fit_status()
    assert columns(again.transform_batch(NEW)) == new


# ----------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    "make, error, match",
    [
        (lambda: StandardScaler("x"), TypeError, "columns: expected a list of names, found 'x'"),
        (
            lambda: StandardScaler(["x"], ["a", "b"]),
            ValueError,
            "length of columns and output_columns must match",
        ),
        (lambda: StandardScaler(5), TypeError, "columns: expected a list of names, found 5"),
        (lambda: OneHotEncoder(["x"], max_categories=2), TypeError, "max_categories: expected a dict"),
        (lambda: OneHotEncoder(["x"], max_categories={"x": "2"}), ValueError, "expected at least 1"),
        (lambda: MinMaxScaler(["x"], "y"), TypeError, "output_columns: expected a list"),
        (lambda: RobustScaler(["x"], (0.9, 0.1)), ValueError, "quantile_range: expected 0 <= low <= high"),
        (lambda: SimpleImputer(["x"], "median"), ValueError, "Strategy median is not supported"),
        (lambda: SimpleImputer(["x"], "constant"), ValueError, "`fill_value` must be set"),
        (lambda: Normalizer(["x"], norm="l3"), ValueError, "Norm l3 is not supported"),
        (lambda: PowerTransformer(["x"], 1, "log"), ValueError, "Method log is not supported"),
        (lambda: PowerTransformer(["x"], NAN), ValueError, "power: expected a finite number"),
        (lambda: CustomKBinsDiscretizer(["x", "n"], {"x": [1, 2]}), ValueError, "must be present in it"),
        (lambda: CustomKBinsDiscretizer(["x"], [1, 2], duplicates="no"), ValueError, "'raise' or 'drop'"),
        (lambda: HashingVectorizer(["x"], 0), ValueError, "num_features: expected a number of at least 1"),
        (lambda: FeatureHasher(["x"], 2.5, "h"), ValueError, "num_features: expected"),
        (lambda: Tokenizer(["x"], "split"), TypeError, "tokenization_fn: expected a function"),
        (lambda: TorchVisionPreprocessor(["x"], None), TypeError, "transform: expected a function"),
        (lambda: LabelEncoder(["x"]), TypeError, "label_column: expected a name"),
        (lambda: Chain(StandardScaler(["x"]), "x"), TypeError, "Chain: expected preprocessors, found 'x'"),
        (lambda: Concatenator([]), ValueError, "expected at least one name"),
    ],
)
def test_arguments(make, error, match):
    with pytest.raises(error, match=match):
        make()


@pytest.mark.parametrize(
    "what, error, match",
    [
        (StandardScaler(["x", "y"]), ValueError, "StandardScaler: no column 'y'; the dataset has x, n"),
        (
            StandardScaler(["city"]),
            TypeError,
            "StandardScaler: column .city. is large_string, expected numbers",
        ),
        (OrdinalEncoder(["x"]), ValueError, "Unable to fit column 'x' because it contains null values"),
        (OneHotEncoder(["word"]), ValueError, "Unable to fit column 'word' because it contains null values"),
        (
            OneHotEncoder(["word"], max_categories={"word": 2}),
            ValueError,
            "fit column 'word' because .* null",
        ),
        (
            OneHotEncoder(["city"], max_categories={"n": 2}),
            ValueError,
            "`max_categories` for n, which is not",
        ),
        (SimpleImputer(["city"]), TypeError, "expected numbers"),
        (UniformKBinsDiscretizer(["x"], [1, 2]), TypeError, "`bins` must be an integer"),
        (UniformKBinsDiscretizer(["x"], 0), ValueError, "`bins` must be a positive"),
        (UniformKBinsDiscretizer(["none"], 2), ValueError, "Column none has no values to bin"),
        (CountVectorizer(["n"]), TypeError, "CountVectorizer: column 'n' is int64, expected texts"),
    ],
    ids=repr,
)
def test_of_fit(what, error, match, rows):
    with pytest.raises(error, match=match):
        what.fit(rows)
    assert what.fit_status() == "NOT_FITTED"


@pytest.mark.parametrize(
    "what, error, match",
    [
        (SimpleImputer(["none"]), ValueError, "Column none has no fill value"),
        (Concatenator(["x", "y"]), ValueError, "Missing columns specified in .*'y'"),
        (Normalizer(["city"]), TypeError, "expected numbers"),
        (Tokenizer(["n"]), TypeError, "expected texts"),
        (PowerTransformer(["y"], 1), ValueError, "no column 'y'"),
    ],
    ids=repr,
)
def test_of_transform(what, error, match, rows):
    with pytest.raises(error, match=match):
        what.fit_transform(rows)


def test_a_null_among_integers_is_an_error_in_datasets_and_in_batches():
    """The story: a dataset refused it, transform_batch gave floats or, for a dtype of integers, -2**63."""
    table = pa.table({"n": pa.array([1, None, 3]), "m": [4, 5, 6], "x": [0.5, None, 1.5]})
    frame = pd.DataFrame(
        {"n": pd.array([1, None, 3], dtype="Int64"), "m": [4, 5, 6], "x": [0.5, np.nan, 1.5]}
    )
    for columns, dtype in ((["n", "m"], None), (["n", "m"], np.int64), (["x", "m"], np.int32)):
        what = Concatenator(columns, "v", dtype)
        for run in (
            lambda what=what: what.transform(hd.from_arrow(table)).take_all(),
            lambda what=what: what.transform_batch(table),
            lambda what=what: what.transform_batch(frame),
        ):
            with pytest.raises(
                exceptions.DataError, match="null among integers.*impute missing values first"
            ):
                run()
    for columns, dtype in ((["n", "m"], np.float32), (["x", "m"], None), (["x", "n"], np.float64)):
        what = Concatenator(columns, "v", dtype)
        want = what.transform(hd.from_arrow(table)).take_batch(3)["v"]
        for batch in (table.to_pandas(), frame):
            np.testing.assert_array_equal(np.stack(list(what.transform_batch(batch)["v"])), want)


@pytest.mark.parametrize(
    "what",
    [
        StandardScaler(["x"]),
        MaxAbsScaler(["x"]),
        RobustScaler(["x"]),
        Normalizer(["x"]),
        PowerTransformer(["x"], 0.5),
        UniformKBinsDiscretizer(["x"], 3),
    ],
    ids=repr,
)
@pytest.mark.parametrize(
    "values, found",
    [
        (pd.to_datetime(["2020-01-01", None]), "datetime64"),
        (pd.to_timedelta([1, 2], "s"), "timedelta64"),
        ([datetime.date(2020, 1, 1), None], "date"),
        (["a", None], "str"),
        ([b"a", None], "bytes"),
        ([[1.0], [2.0]], "list"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_a_batch_without_numbers(what, values, found):
    """As of a dataset. The story: NumPy's errors came out, and times were scaled as their nanoseconds."""
    what = what.fit(hd.from_items([{"x": 1.0}, {"x": 3.0}])) if what._is_fittable else what
    match = rf"{type(what).__name__}: column 'x' is {found}.*, expected numbers"
    with pytest.raises(TypeError, match=match):
        what.transform_batch(pd.DataFrame({"x": values}))


def test_bins_of_a_range_that_no_double_has():
    """The story: the edges were NaN and infinite, and transform() said that they must be unique."""
    with pytest.raises(
        ValueError, match="Column x has values from -1e\\+308 to 1e\\+308, a range that no double"
    ):
        UniformKBinsDiscretizer(["x"], 3).fit(hd.from_items([{"x": -1e308}, {"x": 1e308}]))


def test_missing_values_of_encoders_in_a_batch(rows):
    for what in (
        OrdinalEncoder(["city"]),
        OneHotEncoder(["city"]),
        MultiHotEncoder(["city"]),
        LabelEncoder("city"),
    ):
        with pytest.raises(
            ValueError, match=r"Unable to transform columns \['city'\] because they contain null"
        ):
            what.fit(rows).transform_batch({"city": ["paris", None]})


def test_before_fit_and_after_it(rows):
    scaler = StandardScaler(["x"])
    assert scaler.fit_status() == Preprocessor.FitStatus.NOT_FITTED and not scaler.has_stats()
    for use in (scaler.transform, scaler.transform_batch):
        with pytest.raises(PreprocessorNotFittedException, match="`fit` must be called before `transform"):
            use(rows)
    with pytest.raises(PreprocessorNotFittedException, match="inverse_transform"):
        LabelEncoder("city").inverse_transform(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert scaler.fit(rows) is scaler
    assert scaler.fit_status() == "FITTED" and scaler.has_stats()
    with pytest.warns(UserWarning, match="All previously fitted state will be overwritten"):
        scaler.fit(hd.from_items([{"x": 10.0}, {"x": 20.0}]))
    assert scaler.stats_ == {"mean(x)": 15.0, "std(x)": 5.0}
    assert Normalizer(["x"]).fit(rows).fit_status() == "NOT_FITTABLE"


# ---------------------------------------------------------------------------------------------------- batches


def test_batches_of_other_kinds(rows):
    scaler = MaxAbsScaler(["x", "n"]).fit(rows)
    want = {"x": [0.25, None], "n": [1.0, 0.2]}
    given = {"x": np.array([1.0, NAN]), "n": np.array([5, 1])}
    for batch in (given, {"x": [1.0, None], "n": [5, 1]}, pd.DataFrame(given).convert_dtypes()):
        found = scaler.transform_batch(batch)
        assert (
            isinstance(found, pd.DataFrame)
            and near(columns(found), want)
            or near(columns(found)["x"], want["x"])
        )
        assert near(columns(found)["n"], want["n"])
    assert given["n"].tolist() == [5, 1]
    table = scaler.transform_batch(pa.table({"x": [1.0, None], "n": [5, 1]}))
    assert isinstance(table, pa.Table) and near(columns(table), want)
    arrow = pd.DataFrame(
        {"x": pd.array([1.0, None], "double[pyarrow]"), "n": pd.array([5, 1], "int64[pyarrow]")}
    )
    assert near(columns(scaler.transform_batch(arrow))["x"], want["x"])
    with pytest.raises(ValueError, match="transform_batch: expected a pandas.DataFrame.* found list"):
        scaler.transform_batch([1, 2])
    empty = scaler.transform_batch({"x": np.array([]), "n": np.array([], int)})
    assert len(empty) == 0 and list(empty) == ["x", "n"]


def test_vectors_in_a_dict(rows):
    hot = OneHotEncoder(["city"]).fit(rows)
    chain = Chain(hot, Concatenator(["city", "n"], "v", flatten=True))
    made = chain.transform_batch({"city": np.array(["tokyo", "x"]), "n": np.array([1.5, 2.5])})
    assert np.stack(made["v"]).tolist() == [[0, 0, 1, 1.5], [0, 0, 0, 2.5]]
    whole = Concatenator(["m", "n"], flatten=True).transform_batch({"m": np.eye(2), "n": np.array([3, 4])})
    assert np.stack(whole["concat_out"]).tolist() == [[1, 0, 3], [0, 1, 4]]
    with pytest.raises(TypeError, match="column 'm' holds lists, expected numbers; flatten=True takes lists"):
        Concatenator(["m", "n"]).transform_batch({"m": np.eye(2), "n": np.array([3, 4])})


def test_no_rows():
    none = hd.from_arrow(pa.table({"x": pa.array([], pa.float64()), "s": pa.array([], pa.string())}))
    chain = Chain(StandardScaler(["x"]), OrdinalEncoder(["s"]))
    assert chain.fit_transform(none).count() == 0
    assert chain.preprocessors[0].stats_ == {"mean(x)": None, "std(x)": None}
    assert chain.preprocessors[1].stats_ == {"unique_values(s)": {}}


def test_images():
    torch = pytest.importorskip("torch")
    images = np.arange(2 * 4 * 4 * 3, dtype=np.uint8).reshape(2, 4, 4, 3)

    def channels_first(image):
        return torch.as_tensor(image).permute(2, 0, 1) / 255

    def of_arrays_only(image):
        if isinstance(image, torch.Tensor):
            raise TypeError("expected an array")
        return torch.as_tensor(image[:2])

    one = TorchVisionPreprocessor(["image"], channels_first, ["x"])
    assert one.transform_batch({"image": images})["x"].shape == (2, 3, 4, 4)
    assert one.fit_status() == "NOT_FITTABLE"
    batched = TorchVisionPreprocessor(
        ["image"], lambda b: torch.as_tensor(b).float().mean((1, 2)), batched=True
    )
    assert batched.transform_batch({"image": images})["image"].shape == (2, 3)
    assert TorchVisionPreprocessor(["image"], of_arrays_only).transform_batch({"image": images})[
        "image"
    ].shape == (*(2, 2, 4, 3),)
    with pytest.raises(ValueError, match="transform returned a `int` instead"):
        TorchVisionPreprocessor(["image"], lambda image: 1).transform_batch({"image": images})
    ds = one.transform(hd.from_numpy(images).rename_columns({"data": "image"}))
    assert ds.take_batch(2)["x"].shape == (2, 3, 4, 4)


# --------------------------------------------------------------------------------------------------- own ones


class Doubled(Preprocessor):
    """What a user writes: learns the mean in `_fit` and has a transform of dicts of arrays."""

    def __init__(self, column):
        self.column = column

    def _fit(self, ds):
        self.mean_ = ds.mean(self.column)
        return self

    def _transform_numpy(self, batch):
        return dict(batch) | {self.column: batch[self.column] * 2 - self.mean_}


class ByPlan(Preprocessor):
    def _fit(self, ds):
        self.stat_computation_plan.add_aggregator(aggregator_fn=Mean, columns=["n"])
        self.stat_computation_plan.add_aggregator(
            aggregator_fn=Max, columns=["n"], post_process_fn=lambda v: -v
        )
        self.stat_computation_plan.add_callable_stat(
            stat_fn=lambda key: {key("n"): ds.count()}, stat_key_fn=lambda c: f"rows({c})", columns=["n"]
        )
        return self

    def _transform_pandas(self, df):
        return df.assign(n=df["n"] - self.stats_["mean(n)"])


class Both(ByPlan):
    _is_fittable = False

    def _transform_pandas(self, df):
        return df.assign(made="pandas")

    def _transform_numpy(self, batch):
        return {"made": np.full(len(batch["n"]), "numpy")}

    def _transform_arrow(self, table):
        return table.append_column("made", pa.array(["arrow"] * len(table)))


def test_a_class_of_a_user(rows):
    twice = Doubled("n").fit(rows)
    assert twice.mean_ == 1.2 and twice.fit_status() == "FITTED"
    assert twice.transform_batch({"n": np.array([1.0])})["n"].tolist() == [0.8]
    assert columns(twice.transform(rows.select_columns(["n"])))["n"] == pytest.approx(
        [8.8, -11.2, 4.8, 4.8, -1.2]
    )
    assert twice.transform_batch(pd.DataFrame({"n": [1.0]}))["n"].tolist() == [0.8]
    plan = ByPlan().fit(rows)
    assert plan.stats_ == {"mean(n)": 1.2, "max(n)": -5, "rows(n)": 5}
    assert plan.transform_batch({"n": [2]})["n"].tolist() == [0.8]
    with pytest.raises(NotImplementedError, match="needs one of them"):
        type("Nothing", (Preprocessor,), {"_is_fittable": False})().transform(rows)
    with pytest.raises(NotImplementedError, match="has no _fit"):
        type("Unlearned", (Preprocessor,), {"_transform_numpy": lambda self, b: b})().fit(rows)


@pytest.mark.parametrize("name", ["pandas", "numpy", "arrow", BatchFormat.ARROW])
def test_a_class_with_several_transforms_chooses(name):
    made = type("Chosen", (Both,), {"preferred_batch_format": classmethod(lambda cls: name)})()
    found = made.transform_batch({"n": np.array([1, 2])})["made"]
    want = "arrow" if name == "pyarrow" else str(name)
    assert (found.to_pylist() if hasattr(found, "to_pylist") else list(found)) == [want] * 2


def test_a_subclass_with_a_transform_of_its_own(rows):
    class Shifted(StandardScaler):
        def _transform_pandas(self, df):
            return super()._transform_pandas(df).assign(own=1)

    shifted = Shifted(["n"]).fit(rows)
    assert columns(shifted.transform_batch(ROWS))["own"] == [1] * 5
    assert columns(shifted.transform(rows.select_columns(["n"])))["own"] == [1] * 5


# ----------------------------------------------------------------------------------------------------- chains


def test_a_chain_learns_step_by_step_where_it_has_to(rows):
    chain = Chain(
        SimpleImputer(["x"]),
        StandardScaler(["x", "n"]),
        OrdinalEncoder(["city"]),
        MinMaxScaler(["n", "city"]),
        Concatenator(["x", "n", "city"], "v"),
    )
    assert chain.fit_status() == "NOT_FITTED"
    found = np.stack(chain.fit_transform(rows).to_pandas()["v"])
    x = np.array([1, 2, 1, 4, -3.0])
    n = np.array([5, -5, 3, 3, 0])
    want = [(x - x.mean()) / x.std(), (n + 5) / 10, np.array([1, 0, 1, 2, 0]) / 2]
    np.testing.assert_allclose(found, np.column_stack(want), rtol=1e-12, atol=1e-12)
    assert chain.fit_status() == "FITTED" and chain.has_stats()
    np.testing.assert_allclose(np.stack(chain.transform_batch(ROWS)["v"]), found, rtol=1e-12, atol=1e-12)
    assert chain.get_input_columns() == ["x", "n", "city"] and chain.get_output_columns()[-1] == "v"
    assert repr(chain).startswith("Chain(SimpleImputer(columns=['x'], strategy='mean'")


class Counted:
    """A dataset that counts its aggregate() calls."""

    def __init__(self, ds, runs):
        self._ds, self._runs = ds, runs

    def aggregate(self, *aggs):
        self._runs.append([a.name for a in aggs])
        return self._ds.aggregate(*aggs)

    def with_columns(self, *args, **kwargs):
        return Counted(self._ds.with_columns(*args, **kwargs), self._runs)

    def __getattr__(self, name):
        return getattr(self._ds, name)


def test_a_chain_learns_in_one_pass_where_it_can(rows):
    runs = []
    Chain(
        StandardScaler(["x", "n"]),
        Chain(MinMaxScaler(["same"]), OneHotEncoder(["city"])),
        SimpleImputer(["word"], "most_frequent"),
    ).fit(Counted(rows, runs))
    assert [len(names) for names in runs] == [8]
    runs.clear()
    Chain(StandardScaler(["n"]), MinMaxScaler(["n"]), MaxAbsScaler(["x"])).fit(Counted(rows, runs))
    assert [len(names) for names in runs] == [2, 3]


def test_the_states_of_a_chain(rows):
    part = Chain(StandardScaler(["x"]).fit(rows), MinMaxScaler(["n"]))
    assert part.fit_status() == "PARTIALLY_FITTED"
    for use in (part.transform, part.transform_batch):
        with pytest.raises(PreprocessorNotFittedException):
            use(rows)
    assert Chain(Normalizer(["x"])).fit_status() == Chain().fit_status() == "NOT_FITTABLE"
    assert Chain().transform(rows) is rows
    with pytest.warns(UserWarning, match="has already been called"):
        part.fit(rows)
    assert part.fit_status() == "FITTED"
    own = Chain(Doubled("n"), StandardScaler(["n"])).fit(rows)
    assert own.preprocessors[1].stats_["mean(n)"] == pytest.approx(1.2)


def test_labels_there_and_back(rows):
    encoder = LabelEncoder("city", output_column="y")
    encoded = encoder.fit_transform(rows).drop_columns("city")
    assert columns(encoder.inverse_transform(encoded))["city"] == ROWS["city"].tolist()
