"""Batches for TensorFlow, and a tf.data.Dataset for Model.fit()."""

import datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import headrace.data as hd
from headrace import exceptions
from headrace.data.preprocessors import Concatenator

tf = pytest.importorskip("tensorflow")


def dataset():
    table = {
        "id": np.arange(10),
        "x": np.arange(10) / 2,
        "v": [[i, -i] for i in range(10)],
        "words": [[f"w{i}"] * (i % 3) for i in range(10)],
        "lists": [list(range(i % 4)) for i in range(10)],
        "text": [f"text {i}" for i in range(10)],
    }
    return hd.from_arrow(pa.table(table))


def test_batches():
    batches = list(dataset().iter_tf_batches(batch_size=4))
    assert [b["id"].numpy().tolist() for b in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    first = batches[0]
    assert first["v"].shape == (4, 2) and isinstance(first["v"], tf.Tensor)
    assert isinstance(first["lists"], tf.RaggedTensor)
    assert first["lists"].to_list() == [[], [0], [0, 1], [0, 1, 2]]
    assert first["words"].to_list() == [[], [b"w1"], [b"w2", b"w2"], []]
    assert batches[2]["text"].numpy().tolist() == [b"text 8", b"text 9"]
    assert {k: v.dtype.name for k, v in first.items()} == {
        "id": "int64",
        "x": "float64",
        "v": "int64",
        "words": "string",
        "lists": "int64",
        "text": "string",
    }


def test_tensors_and_arguments():
    ds = hd.range_tensor(6, shape=(2, 3))
    batch = next(iter(ds.iter_tf_batches(batch_size=4, dtypes={"data": tf.float32})))
    assert batch["data"].shape == (4, 2, 3) and batch["data"].dtype == tf.float32
    assert [len(b["data"]) for b in ds.iter_tf_batches(batch_size=4, drop_last=True)] == [4]
    nulls = hd.from_arrow(pa.table({"a": pa.array([1, None, 3])}))
    assert np.isnan(next(iter(nulls.iter_tf_batches()))["a"].numpy()).tolist() == [False, True, False]


def test_resume():
    batches = dataset().iterator().iter_tf_batches(batch_size=3)
    next(iter(batches))
    state = batches.state_dict()
    rest = dataset().iterator().iter_tf_batches(batch_size=3)
    rest.load_state_dict(state)
    assert [b["id"].numpy().tolist() for b in rest] == [[3, 4, 5], [6, 7, 8], [9]]


@pytest.mark.parametrize(
    "values, text",
    [
        ([datetime.datetime(2024, 1, 1)], "column 'a' .timestamp.*: TensorFlow has no tensor for it"),
        ([{"b": 1}], "column 'a' .struct.*: TensorFlow has no tensor"),
        (["x", None], "column 'a' .string.: 1 nulls in a batch"),
        ([[1], None, [2, 3]], "column 'a' .list.*: 1 missing lists"),
    ],
)
def test_columns_without_a_tensor(values, text):
    ds = hd.from_arrow(pa.table({"a": values}))
    with pytest.raises(exceptions.TypeMismatchError, match=text):
        next(iter(ds.iter_tf_batches()))


def test_wrong_arguments():
    with pytest.raises(exceptions.InvalidArgument, match="dtypes: no column 'y'; the columns are 'id', 'x'"):
        next(iter(dataset().iter_tf_batches(dtypes={"y": tf.float32})))
    for wrong in ("float99", {"id": "float99"}):  # was "'str' object has no attribute 'is_integer'"
        with pytest.raises(
            exceptions.TypeMismatchError, match="dtypes: expected a tf.DType, found 'float99'"
        ):
            next(iter(dataset().iter_tf_batches(dtypes=wrong)))
    with pytest.raises(exceptions.InvalidArgument, match="to_tf: no column 'y'; the columns are 'id'"):
        dataset().to_tf("y", "id")
    with pytest.raises(exceptions.TypeMismatchError, match="to_tf: expected a column or a list of columns"):
        dataset().to_tf(3, "id")
    with pytest.raises(exceptions.InvalidArgument, match="dict of column -> tf.TypeSpec.*none for 'x'"):
        dataset().to_tf(["x"], "id", feature_type_spec=tf.TensorSpec((None,), tf.float32))
    with pytest.raises(exceptions.TypeMismatchError, match="'text' .string.: cannot become int64"):
        next(iter(dataset().select_columns("text").iter_tf_batches(dtypes=tf.int64)))
    nulls = hd.from_arrow(pa.table({"a": pa.array([1, None, 3])}))
    with pytest.raises(exceptions.TypeMismatchError, match="'a' .int64.: int64 has no NaN"):
        next(iter(nulls.iter_tf_batches(dtypes=tf.int64)))


def test_to_tf():
    made = dataset().to_tf(["x", "lists"], "id", additional_columns="v", batch_size=4)
    assert isinstance(made, tf.data.Dataset)
    features, label, additional = made.element_spec
    assert features["x"] == tf.TensorSpec((None,), tf.float64, name="x")
    assert isinstance(features["lists"], tf.RaggedTensorSpec) and label.dtype == tf.int64
    assert isinstance(additional, tf.RaggedTensorSpec)
    for _ in range(2):  # each pass is an epoch
        batches = list(made)
        assert [b[1].numpy().tolist() for b in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
        assert batches[1][0]["lists"].to_list() == [[], [0], [0, 1], [0, 1, 2]]
        assert batches[2][2].to_list() == [[8, -8], [9, -9]]
    typed = dataset().to_tf(
        "x", "id", feature_type_spec=tf.TensorSpec((None,), tf.float32), label_type_spec=None
    )
    assert next(iter(typed))[0].dtype == tf.float32
    orders = hd.range(100).to_tf(
        "id", "id", batch_size=100, local_shuffle_buffer_size=100, local_shuffle_seed=1
    )
    first, second = (next(iter(orders))[0].numpy().tolist() for _ in range(2))
    assert first != second and sorted(first) == sorted(second) == list(range(100))


def test_lists_of_one_length_in_to_tf():
    """The story: rows of np.full(3, i) were a dense tensor in iter_tf_batches and a ragged one here, where
    the form must be known before the first row. A spec makes them dense.
    """
    ds = hd.from_items([{"x": np.full(3, i, np.float32), "y": np.full((3, 1), i)} for i in range(4)])
    assert isinstance(next(iter(ds.iter_tf_batches()))["x"], tf.Tensor)
    ragged, dense = next(iter(ds.to_tf("x", "y", batch_size=4)))
    assert isinstance(ragged, tf.RaggedTensor) and isinstance(dense, tf.Tensor) and dense.shape == (4, 3, 1)
    spec = tf.TensorSpec((None, 3), tf.float32)
    made, _ = next(iter(ds.to_tf("x", "y", batch_size=4, feature_type_spec=spec)))
    assert isinstance(made, tf.Tensor) and made.shape == (4, 3)
    with pytest.raises(tf.errors.InvalidArgumentError, match="column 'lists'.*expected lists of one length"):
        next(iter(dataset().to_tf("lists", "id", batch_size=4, feature_type_spec=spec)))


def test_a_model_learns():
    x = np.random.default_rng(0).random((256, 3)).astype(np.float32)
    y = (x @ [1.0, -2.0, 3.0]).astype(np.float32)
    columns = pd.DataFrame(x, columns=list("abc")).assign(y=y)
    ds = Concatenator(columns=list("abc"), output_column_name="x").fit_transform(hd.from_pandas(columns))
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile(optimizer=tf.keras.optimizers.SGD(0.3), loss="mse")
    history = model.fit(ds.to_tf("x", "y", batch_size=32), epochs=8, verbose=0)
    assert history.history["loss"][-1] < history.history["loss"][0] / 20
