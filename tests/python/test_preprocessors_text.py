"""Preprocessors as text: every kind of value comes back; damage and pickles are one clear error each."""

import base64
import collections
import datetime
import decimal
import json
import pickle
import zoneinfo

import numpy as np
import pandas as pd
import pytest

import headrace.data as hd
from headrace.data.preprocessor import Preprocessor, SerializablePreprocessorBase
from headrace.data.preprocessors import (
    Categorizer,
    Chain,
    Concatenator,
    CountVectorizer,
    CustomKBinsDiscretizer,
    OrdinalEncoder,
    SimpleImputer,
    StandardScaler,
    Tokenizer,
    UniformKBinsDiscretizer,
)
from headrace.data.preprocessors.version_support import SerializablePreprocessor, UnknownPreprocessorError


@SerializablePreprocessor(version=3, identifier="tests.Holding")
class Holding(SerializablePreprocessorBase):
    """Holds any value."""

    _is_fittable = False

    def __init__(self, held):
        super().__init__()
        self.held = held

    def _transform_numpy(self, batch):
        return batch

    def _get_serializable_fields(self):
        return {"held": self.held}

    def _set_serializable_fields(self, fields, version):
        self.held, self.version = fields["held"], version


class Unregistered(Preprocessor):
    _is_fittable = False

    def _transform_numpy(self, batch):
        return {"x": batch["x"] + 1}


PLAIN = [
    None,
    True,
    3,
    2**80,
    -1.5,
    float("inf"),
    "text é",
    b"\x00\xff",
    [1, [2.5, None]],
    (1, ("a",)),
    {"a": {"b": 1}},
    {"$x": 1},
    {1: "a", (2, "b"): None, 2.5: True},
    {datetime.date(2024, 2, 29), datetime.date(1999, 1, 1)},
    collections.Counter({"b": 3, "a": 2}),
    datetime.datetime(2024, 2, 29, 1, 2, 3, 4),
    datetime.datetime(2024, 7, 1, 12, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin")),
    datetime.datetime(2024, 7, 1, 12, tzinfo=datetime.UTC),
    datetime.time(1, 2, 3),
    datetime.timedelta(days=-1, microseconds=5),
    decimal.Decimal("-1.50"),
    np.float32(0.1),
    np.int8(-3),
    np.datetime64("2024-02-29T00:00:00.000000001", "ns"),
    np.dtype("float32"),
    np.float64,
    pd.Timestamp("2024-02-29 00:00:00.000000001"),
    pd.Timestamp("2024-02-29", tz="Europe/Berlin"),
    pd.CategoricalDtype(["b", "a"], ordered=True),
    pd.IntervalIndex.from_tuples([(0, 1), (2, 3.5)], closed="left"),
]


@pytest.mark.parametrize("value", PLAIN, ids=lambda v: type(v).__name__)
def test_values_come_back(value):
    text = Holding(value).serialize()
    json.loads(text, parse_constant=lambda c: pytest.fail(f"{c} is not JSON"))
    found = Preprocessor.deserialize(text).held
    assert type(found) is type(value)
    assert found.equals(value) if isinstance(value, pd.IntervalIndex) else found == value
    if isinstance(value, (dict, collections.Counter)):
        assert list(found) == list(value)
    if isinstance(value, pd.CategoricalDtype):
        assert found.ordered is True and list(found.categories) == ["b", "a"]


def test_arrays_and_nan_come_back():
    for array in (
        np.array([[1.5, np.nan], [np.inf, 2]], np.float32),
        np.array(["a", "é"]),
        np.array(["2024-01-01", "NaT"], "M8[D]"),
        np.zeros((0, 3), bool),
    ):
        found = Preprocessor.deserialize(Holding(array).serialize()).held
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, array)
    found = Preprocessor.deserialize(Holding(float("nan")).serialize()).held
    assert found != found


def test_what_the_text_looks_like():
    scaler = StandardScaler(["x"]).fit(hd.from_items([{"x": 1.0}, {"x": 3.0}]))
    assert json.loads(scaler.serialize()) == {
        "format": "headrace.preprocessor",
        "format_version": 1,
        "type": "headrace.StandardScaler",
        "version": 1,
        "fields": {"columns": ["x"], "output_columns": ["x"], "fitted": True},
        "stats": {"mean(x)": 2.0, "std(x)": 1.0},
    }
    assert StandardScaler.deserialize(scaler.serialize().encode()).stats_ == scaler.stats_


def test_states_and_arguments_come_back():
    frame = pd.DataFrame({"x": [1.0, 2.0], "s": ["b", "a"], "l": [["p"], ["q", "p"]]})
    ds = hd.from_pandas(frame)
    dtype = pd.CategoricalDtype(["b", "a", "c"], ordered=True)
    intervals = pd.IntervalIndex.from_tuples([(0, 1), (1, 2)])
    for what in (
        Chain(OrdinalEncoder(["s"]), Chain(SimpleImputer(["x"], "constant", 3))),
        Categorizer(["s"], dtypes={"s": dtype}),
        Categorizer(["s"]),
        Concatenator(exclude=["s", "l"], dtype=np.dtype("float32")),
        Concatenator(["x"], dtype=np.float32),
        CustomKBinsDiscretizer(["x"], {"x": intervals}, dtypes={"x": np.int64}),
        UniformKBinsDiscretizer(["x"], 2, dtypes={"x": pd.CategoricalDtype(["lo", "hi"])}),
        CountVectorizer(["s"]),
        Tokenizer(["s"]),
    ):
        for state in (what, what.fit(ds)):
            again = Preprocessor.deserialize(state.serialize())
            assert again.fit_status() == state.fit_status() and repr(again) == repr(state)
        pd.testing.assert_frame_equal(again.transform_batch(frame), what.transform_batch(frame))


# ---------------------------------------------------------------------------------------------------- pickles


def test_functions_and_own_classes_need_consent():
    own = Unregistered()
    tokens = Tokenizer(["s"], lambda s: s.split("-"))
    for what, why in (
        (own, "the class Unregistered is not a registered one"),
        (tokens, "Tokenizer.serialize: tokenization_fn: <function .* is no plain value"),
        (Chain(StandardScaler(["x"]), own), "Chain.serialize: preprocessors: the class Unregistered"),
    ):
        with pytest.raises(ValueError, match=f"{why}.*serialize\\(allow_pickle=True\\) writes one"):
            what.serialize()
        text = what.serialize(allow_pickle=True)
        with pytest.raises(ValueError, match="it is a pickle, which runs code.*allow_pickle=True"):
            Preprocessor.deserialize(text)
        assert type(Preprocessor.deserialize(text, allow_pickle=True)) is type(what)
    again = Preprocessor.deserialize(tokens.serialize(allow_pickle=True), allow_pickle=True)
    assert again.transform_batch({"s": ["a-b"]})["s"].tolist() == [["a", "b"]]
    with pytest.raises(ValueError, match="lock cannot be pickled"):
        Holding(__import__("threading").Lock()).serialize(allow_pickle=True)


class Boom:
    def __reduce__(self):
        return pytest.fail, ("the pickle ran",)


def test_a_pickle_does_not_run_without_consent():
    bomb = base64.b64encode(pickle.dumps(Boom())).decode()
    text = json.dumps(document(fields={"held": {"$pickle": bomb}}))
    with pytest.raises(ValueError, match="it is a pickle"):
        Preprocessor.deserialize(text)
    text = json.dumps({"format": "headrace.preprocessor", "format_version": 1, "type": "pickle"})
    with pytest.raises(ValueError, match="state: expected an object, found None"):
        Preprocessor.deserialize(text, allow_pickle=True)


# ----------------------------------------------------------------------------------------------------- damage


def document(**changes):
    whole = {"format": "headrace.preprocessor", "format_version": 1, "type": "tests.Holding", "version": 3}
    return whole | {"fields": {"held": 1}, "stats": {}} | changes


WRONG = [
    ("", "expected JSON text of serialize"),
    ("[1]", 'expected {"format": "headrace.preprocessor"'),
    ("{}", 'expected {"format": "headrace.preprocessor"'),
    ('{"format": "x"}', 'expected {"format": "headrace.preprocessor"'),
    ("[" * 100_000, "expected JSON text of serialize"),
    (json.dumps(document())[:-5], "expected JSON text of serialize"),
    (json.dumps(document(fields={"held": float("nan")})), "NaN is not JSON"),
    (json.dumps(document(format_version=2)), "format_version is 2, this version of Headrace reads up to 1"),
    (json.dumps(document(format_version="1")), "format_version: expected a number of at least 1, found '1'"),
    (json.dumps(document(type=None)), "type: expected a text, found None"),
    (json.dumps(document(type="ray.Thing")), "Unknown preprocessor type: 'ray.Thing'"),
    (json.dumps(document(version=4)), "tests.Holding has version 4, this version of Headrace reads up to 3"),
    (json.dumps(document(version=0)), "has version 0"),
    (json.dumps(document(version=True)), "version: expected a number, found True"),
    (json.dumps(document(fields=[])), r"fields: expected an object, found \[\]"),
    (json.dumps(document(stats=3)), "stats: expected an object, found 3"),
    (json.dumps(document(fields={})), "tests.Holding: KeyError: 'held'"),
    (json.dumps(document(fields={"held": {"$new": 1}})), "fields: held: expected a known kind of value"),
    (json.dumps(document(fields={"held": {"$date": 1, "b": 2}})), "expected a known kind of value"),
    (json.dumps(document(fields={"held": {"$date": "2024-13-01"}})), "fields: held: .*month"),
    (json.dumps(document(fields={"held": {"$float": "1"}})), "expected nan, inf or -inf, found '1'"),
    (json.dumps(document(fields={"held": {"$bytes": "é"}})), "fields: held: "),
    (json.dumps(document(fields={"held": {"$map": [[[1], 2]]}})), "unhashable type: 'list'"),
    (json.dumps(document(fields={"held": {"$map": [1]}})), "fields: held: "),
    (json.dumps(document(fields={"held": {"$dtype": "O"}})), "expected a type of plain values"),
    (json.dumps(document(fields={"held": {"$array": ["<f4", [3], [1]]}})), "fields: held: .*reshape"),
    (json.dumps(document(fields={"held": {"$categorical": {}}})), "fields: held: 'categories'"),
    (json.dumps(document(fields={"held": {"$tuple": 3}})), "expected a list, found 3"),
    (json.dumps(document(fields={"held": {"$decimal": "x"}})), "expected a decimal, found 'x'"),
    (json.dumps(document(fields={"held": {"$preprocessor": 1}})), "fields: held: expected {"),
    (json.dumps(document(type="headrace.StandardScaler", version=1)), "StandardScaler: no field 'columns'"),
    (json.dumps(document(type="headrace.Chain", version=1)), "headrace.Chain: KeyError: 'preprocessors'"),
    (b"CPKL:abc", "this was written by Ray"),
    (b"\xff\xfe", "expected UTF-8 text"),
]


@pytest.mark.parametrize("text, match", WRONG, ids=lambda v: repr(v)[:40])
def test_damaged_text(text, match):
    with pytest.raises(ValueError, match=match):
        Preprocessor.deserialize(text)


def test_other_errors():
    with pytest.raises(UnknownPreprocessorError) as e:
        Preprocessor.deserialize(json.dumps(document(type="ray.Thing")))
    assert e.value.preprocessor_type == "ray.Thing"
    with pytest.raises(TypeError, match="expected the text of serialize.., found NoneType"):
        Preprocessor.deserialize(None)
    deep = {"held": 1}
    for _ in range(200):
        deep = {"a": deep}
    with pytest.raises(ValueError, match="more than 100 levels"):
        Preprocessor.deserialize(json.dumps(document(fields={"held": deep})))
    with pytest.raises(TypeError, match="must derive from SerializablePreprocessorBase"):
        SerializablePreprocessor(version=1, identifier="x")(Unregistered)
    assert Preprocessor.deserialize(json.dumps(document(version=2))).version == 2


def test_a_subclass_that_is_not_registered_is_not_taken_for_its_base():
    class Mine(StandardScaler):
        pass

    with pytest.raises(ValueError, match="the class .*Mine is not a registered one"):
        Mine(["x"]).serialize()


def test_texts_cut_and_changed_at_random():
    """Any damage is a ValueError, or a preprocessor."""
    ds = hd.from_items([{"x": 1.0, "s": "a"}, {"x": 2.0, "s": "b"}])
    steps = Chain(StandardScaler(["x"]), OrdinalEncoder(["s"]), UniformKBinsDiscretizer(["x"], 3)).fit(ds)
    text = steps.serialize()
    random = np.random.default_rng(3)
    refused = 0
    for _ in range(2000):
        i, j = sorted(random.integers(0, len(text), 2))
        damaged = text[:i] + text[j:]
        if random.random() < 0.5:
            damaged = text[:i] + chr(random.integers(32, 127)) + text[i + 1 :]
        try:
            assert isinstance(Preprocessor.deserialize(damaged), Preprocessor)
        except ValueError:
            refused += 1
    assert refused > 500
