"""lookup, one_hot, bucket and vector: values at borders, types, slices, nulls, and errors at the line."""

import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import headrace.data as hd
from headrace.data.expressions import col, lit, vector
from headrace.exceptions import DataError, InvalidArgument, TypeMismatchError

X = col("x")


def made(values, expr, kind=None):
    ds = hd.from_arrow(pa.table({"x": pa.array(values, kind)}))
    return ds.with_column("y", expr).to_arrow()["y"]


@pytest.mark.parametrize("n", [0, 1, 8, 9, 3000])
@pytest.mark.parametrize("kind", ["int8", "uint64", "double", "string", "large_binary", "date32", "bool"])
def test_places_among_few_and_many(n, kind):
    """Short lists are searched in turn, others by hash."""
    numbers = pa.array(range(n), pa.int64())
    keys = [i % 2 == 0 for i in range(min(n, 2))] if kind == "bool" else None
    if keys is None and kind == "int8":
        keys = list(range(-128, 128))[:n]
    if keys is None and kind in ("string", "large_binary"):
        keys = pa.array([f"key {i}" for i in range(n)]).cast(kind).to_pylist()
    if keys is None:
        keys = numbers.cast("int32" if kind == "date32" else kind).cast(kind).to_pylist()
    rows = (keys * 2 + [None])[::-1]
    want = {key: i for i, key in enumerate(keys)}
    assert made(rows, X.lookup(want), kind).to_pylist() == [want.get(v) for v in rows]
    if n <= 9:
        hot = made(rows, X.one_hot(keys), kind)
        assert hot.type == pa.list_(pa.uint8(), len(keys))
        assert hot.to_pylist() == [[int(v == key) for key in keys] for v in rows]


def test_keys_of_other_types_and_values_of_all_types():
    assert made([1, 300, 7], X.lookup({300: "a", 7: "b", 2**40: "c"}), "int16").to_pylist() == [
        None,
        "a",
        "b",
    ]
    assert made([1, 2], X.lookup({1.5: 0, 2.0: 1}), "int8").to_pylist() == [None, 1]
    assert made([-0.0, math.nan], X.lookup({0.0: 1, math.nan: 2}), "float").to_pylist() == [1, None]
    lists = made(["a", "b"], X.lookup({"a": [1, 2], "c": None}))
    assert lists.to_pylist() == [[1, 2], None]
    assert made(["a"], X.lookup({})).to_pylist() == [None]
    assert made(["a", None], X.lookup({None: 1, "a": 2})).to_pylist() == [2, None]


def test_slices_and_files(tmp_path):
    ds = hd.from_arrow(pa.table({"x": pa.array([None, *range(9999)], pa.int32())}))
    ds = ds.with_columns({"hot": X.one_hot([3, 5]), "v": vector(X, X.cast("float64"))})
    part = ds.limit(7).to_arrow().slice(3, 3)
    assert part["hot"].to_pylist() == [[0, 0], [1, 0], [0, 0]]
    ds.write_parquet(str(tmp_path / "out"))
    again = hd.read_parquet(str(tmp_path / "out")).sort("x", descending=True)
    assert again.take(1)[0]["v"].tolist() == [9998, 9998]
    batch = next(iter(ds.iter_batches(batch_size=5000)))
    assert batch["hot"].shape == (5000, 2) and batch["hot"].dtype == np.uint8


@pytest.mark.parametrize("right", [True, False])
@pytest.mark.parametrize("lowest", [True, False])
def test_intervals_as_pandas_cuts(right, lowest):
    random = np.random.default_rng(1)
    values = [*random.normal(0, 5, 500), -3, -3.0000001, 0, 2.5, 7, 7.5, math.inf, -math.inf, math.nan, None]
    edges = [-3, 0, 2.5, 7, 7.5]
    found = made(values, X.bucket(edges, right=right, lowest=lowest), "double")
    want = pd.cut(pd.Series(values, dtype=float), edges, right=right, include_lowest=lowest, labels=False)
    assert found.type == pa.int64()
    np.testing.assert_array_equal(found.to_pandas().to_numpy(float), want.to_numpy(float))
    assert made([1], X.bucket([5]), "int8").to_pylist() == [None]
    assert made([1], X.bucket([]), "int8").to_pylist() == [None]


def test_vectors():
    table = pa.table(
        {
            "i": pa.array([1, 2, 3], pa.int8()),
            "f": pa.array([0.5, None, 2.5], pa.float32()),
            "l": pa.array([[1, 2], None, [3, None]], pa.list_(pa.uint8(), 2)),
            "n": pa.nulls(3),
        }
    )
    ds = hd.from_arrow(table)

    def of(*values, **words):
        found = ds.with_column("v", vector(*values, **words)).to_arrow()["v"]
        return found.type.value_type, np.array(found.to_pylist(), object if None in found else float).tolist()

    nan = math.nan
    kind, found = of(col("i"), col("f"))
    assert kind == pa.float32() and str(found) == str([[1.0, 0.5], [2.0, nan], [3.0, 2.5]])
    kind, found = of(col("l"), col("f"), col("i"), 7, dtype="float64")
    assert kind == pa.float64()
    assert str(found) == str(
        [[1.0, 2.0, 0.5, 1.0, 7.0], [nan, nan, nan, 2.0, 7.0], [3.0, nan, 2.5, 3.0, 7.0]]
    )
    assert of(col("i"), col("i") * 2) == (pa.int8(), [[1, 2], [2, 4], [3, 6]])
    kind, found = of(col("n"), col("i").cast("float16"))
    assert kind == pa.float16() and str(found) == str([[nan, 1.0], [nan, 2.0], [nan, 3.0]])
    assert of(col("i").cast("uint64"), col("i").cast("int64"))[0] == pa.float64()
    assert of(lit(1), lit(2.5)) == (pa.float64(), [[1, 2.5]] * 3)  # plain numbers
    assert of(col("i"), 2.5) == (pa.float64(), [[1, 2.5], [2, 2.5], [3, 2.5]])
    assert of(2.5, col("i").cast("float32"))[0] == pa.float32() and of(7, col("i"))[0] == pa.int8()
    tensors = hd.from_numpy(np.arange(12).reshape(2, 2, 3)).with_column("v", vector(col("data"), 1))
    assert tensors.take_all()[1]["v"].tolist() == [6, 7, 8, 9, 10, 11, 1]


@pytest.mark.parametrize(
    "make, error, match",
    [
        (lambda ds: ds.with_column("y", X.lookup({"a": 1})), TypeMismatchError, "int64 and string"),
        (
            lambda ds: ds.with_column("y", X.lookup({1: "a", 2: 3})),
            TypeMismatchError,
            "int, but row 0 has str",
        ),
        (lambda ds: ds.with_column("y", X.one_hot(X)), TypeMismatchError, "list of constants"),
        (lambda ds: ds.with_column("y", X.one_hot("abc")), TypeMismatchError, "list of values"),
        (
            lambda ds: ds.with_column("y", X.bucket([1, 1])),
            InvalidArgument,
            "edge 1 is 1, expected edges in asc",
        ),
        (lambda ds: ds.with_column("y", X.bucket([1, None])), InvalidArgument, "edge 1 is nan"),
        (lambda ds: ds.with_column("y", col("s").bucket([1, 2])), TypeMismatchError, "expected numbers"),
        (
            lambda ds: ds.with_column("y", vector(X, col("s"))),
            TypeMismatchError,
            "expected numbers, or fixed",
        ),
        (lambda ds: ds.with_column("y", vector(col("l"))), TypeMismatchError, "expected numbers, or fixed"),
        (
            lambda ds: ds.with_column("y", vector(X, dtype="string")),
            InvalidArgument,
            "expected a type of numbers",
        ),
        (lambda ds: vector(), InvalidArgument, "at least one value"),
        (lambda ds: ds.with_column("y", X.lookup({1: 1}, strict=True)).count(), None, ""),
        (
            lambda ds: ds.with_column("y", X.lookup({1: 1}, strict=True)).take_all(),
            DataError,
            "lookup: row 1 .*contains null values; impute",
        ),
        (
            lambda ds: ds.with_column("y", col("f").one_hot([1.5], strict=True)).take_all(),
            DataError,
            "one_hot: row 1 .*contains null values",
        ),
        (
            lambda ds: ds.with_column("y", vector(X, 1)).take_all(),
            DataError,
            "vector: row 1 .*: a null among integers",
        ),
    ],
)
def test_errors(make, error, match):
    table = {"x": [1, None], "f": [1.5, math.nan], "s": ["a", "b"], "l": [[1], [1, 2]]}
    ds = hd.from_arrow(pa.table(table))
    if error is None:
        make(ds)
        return
    with pytest.raises(error, match=match):
        make(ds)
