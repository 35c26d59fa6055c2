"""DataType: what Ray's says of the same types. The table comes from Ray 2.60."""

import datetime
import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import headrace.data as hd
from headrace import exceptions
from headrace.data.datatype import DataType, TypeCategory
from headrace.data.expressions import col, udf

D = DataType
# (type, repr, what it is, its categories, NumPy's type)
TYPES = [
    (D.int64(), "arrow:int64", "integer numerical", "", "int64"),
    (D.uint64(), "arrow:uint64", "integer numerical uint64", "", "uint64"),
    (D.float32(), "arrow:float", "floating numerical", "", "float32"),
    (D.string(), "arrow:string", "string", "", "object"),
    (D.bool(), "arrow:bool", "boolean", "", "bool"),
    (D.binary(), "arrow:binary", "binary", "", "object"),
    (D.list(D.int64()), "arrow:list<item: int64>", "list nested", "list", "object"),
    (D.large_list(D.int8()), "arrow:large_list<item: int8>", "list nested", "list large_list", "object"),
    (
        D.fixed_size_list(D.float32(), 3),
        "arrow:fixed_size_list<item: float>[3]",
        "list nested",
        "list",
        "object",
    ),
    (
        D.struct([("x", D.int8()), ("y", D.string())]),
        "arrow:struct<x: int8, y: string>",
        "nested struct",
        "struct",
        "object",
    ),
    (D.map(D.string(), D.int64()), "arrow:map<string, int64>", "map nested", "map", "object"),
    (
        D.temporal("timestamp", tz="UTC"),
        "arrow:timestamp[us, tz=UTC]",
        "temporal",
        "temporal",
        "object",
    ),
    (D.temporal("TIME64", unit="ns"), "arrow:time64[ns]", "temporal", "temporal", "object"),
    (D.temporal("time32"), "arrow:time32[s]", "temporal", "temporal", "object"),
    (D.temporal("duration", unit="ms"), "arrow:duration[ms]", "temporal", "temporal", "timedelta64[ms]"),
    (D.from_arrow(pa.decimal128(5, 2)), "arrow:decimal128(5, 2)", "numerical", "", "object"),
    (D.from_arrow(pa.null()), "arrow:null", "null", "", "object"),
    (D.from_numpy("int32"), "numpy:int32", "integer numerical", "", "int32"),
    (D.from_numpy("bool"), "numpy:bool", "boolean", "", "bool"),
    (D.from_numpy("U5"), "numpy:<U5", "string", "", "<U5"),
    (D.from_numpy("M8[ns]"), "numpy:datetime64[ns]", "temporal", "temporal", "datetime64[ns]"),
    (D.from_numpy("complex64"), "numpy:complex64", "numerical", "", "complex64"),
    (D(int), "python:int", "integer numerical", "", "object"),
    (D(str), "python:str", "string", "", "object"),
    (D(datetime.date), "python:date", "temporal", "temporal", "object"),
    (D(list), "python:list", "", "", "object"),
]
KINDS = "binary boolean floating integer list map nested null numerical string struct temporal uint64".split()


@pytest.mark.parametrize("row", TYPES, ids=lambda row: row[1])
def test_a_type(row):
    kind, text, what, categories, numpy = row
    assert repr(kind) == f"DataType({text})"
    assert " ".join(k for k in KINDS if getattr(kind, f"is_{k}_type")()) == what
    assert {c for c in TypeCategory if kind.is_of(c)} == set(categories.split())
    assert str(kind.to_numpy_dtype()) == numpy
    origins = [kind.is_arrow_type(), kind.is_numpy_type(), kind.is_python_type()]
    assert origins == [text.startswith(name) for name in ("arrow", "numpy", "python")]
    assert kind == DataType(kind._physical_dtype) and hash(kind) == hash(DataType(kind._physical_dtype))


def test_types_of_values():
    inferred = [repr(D.infer_dtype(v)) for v in (5, "a", 1.5, None, [1], np.int32(3), np.zeros(2), object())]
    assert [text[9:-1] for text in inferred] == [
        "arrow:int64",
        "arrow:string",
        "arrow:double",
        "arrow:null",
        "arrow:list<item: int64>",
        "numpy:int32",
        "numpy:float64",
        "python:object",
    ]
    made = [
        D.from_dtype(v) for v in ("f4", int, np.int16, pd.StringDtype(), pd.Int64Dtype(), pa.int8(), "nope")
    ]
    assert [repr(v)[9:-1] for v in made[:-1]] == [
        "numpy:float32",
        "python:int",
        "numpy:int16",
        "arrow:string",
        "numpy:int64",
        "arrow:int8",
    ]
    assert (
        made[-1] is None and D.from_dtype(D.int8()) == D.int8() and D(int).to_arrow_dtype([1]) == pa.int64()
    )


def test_tensors():
    kind = D.tensor((2, 3), D.float32())
    assert kind.is_tensor_type() and kind.is_of("tensor") and not D.int8().is_tensor_type()
    assert kind.to_arrow_dtype() == pa.fixed_shape_tensor(pa.float32(), (2, 3))
    assert repr(kind) == "DataType(arrow:ArrowTensorType(shape=(2, 3), dtype=float))"


def test_functions_return_tensors():
    shapes = [(1, 2), (3, 1), (2, 2), (0, 4)]

    @udf(return_dtype=D.variable_shaped_tensor(dtype=D.float32(), ndim=2))
    def arrays(ids):
        return [None if i.as_py() == 2 else np.full(shapes[i.as_py()], i.as_py()) for i in ids]

    @udf(return_dtype=D.tensor((2, 3), D.int16()))
    def same(ids):
        return np.repeat(np.asarray(ids), 6).reshape(-1, 2, 3)

    @udf(return_dtype=D.tensor((2, 2), D.int16()))
    def wrong(ids):
        return [np.zeros((2, 3))] * len(ids)

    assert repr(arrays(col("id"))) and D.variable_shaped_tensor(D.float32(), 2).is_tensor_type()
    assert repr(D.variable_shaped_tensor(D.float32())).endswith("TensorType(ndim=2, dtype=float))")
    again = pickle.loads(pickle.dumps(D.variable_shaped_tensor(D.float32(), 3)))
    assert again == D.variable_shaped_tensor(D.float32(), 3) != D.variable_shaped_tensor(D.float32(), 2)
    ds = hd.range(4).with_columns({"a": arrays(col("id")), "s": same(col("id"))})
    assert ds.schema().types[1] == "extension<arrow.variable_shape_tensor[value_type=float, ndim=2]>"
    assert ds.schema().types[2] == "extension<arrow.fixed_shape_tensor[value_type=int16, shape=[2,3]]>"
    for i, row in enumerate(ds.take_all()):
        assert row["s"].dtype == np.int16 and (row["s"] == i).all() and row["s"].shape == (2, 3)
        if i == 2:
            assert row["a"] is None
        else:
            assert row["a"].dtype == np.float32 and row["a"].shape == shapes[i] and (row["a"] == i).all()
    with pytest.raises(
        exceptions.TypeMismatchError, match=r"the shape \(2, 2\), found one of the shape \(2, 3\)"
    ):
        hd.range(4).with_column("w", wrong(col("id"))).take_all()


def test_schemas_print_tensors_as_ray_does():
    """The types have Arrow's text."""
    schema = hd.from_numpy(np.zeros((4, 2, 3), np.float32)).schema()
    assert str(schema).splitlines()[-1] == "data    ArrowTensorTypeV2(shape=(2, 3), dtype=float)"
    assert schema.types == ["extension<arrow.fixed_shape_tensor[value_type=float, shape=[2,3]]>"]
    schema = hd.from_numpy(np.zeros((4, 2))).schema()
    assert str(schema).splitlines()[-1] == "data    ArrowTensorTypeV2(shape=(2,), dtype=double)"
    schema = hd.from_arrow(pa.table({"x": pa.array([[[1]]], pa.list_(pa.list_(pa.int8(), 1), 1))})).schema()
    assert str(schema).endswith(schema.types[0])


def test_use_in_expressions():
    ds = hd.range(2).with_column("x", col("id").cast(D.float32())).with_column("y", col("id").cast(D(str)))
    assert ds.schema().types == ["int64", "float", "string"]

    @udf(return_dtype=D.int16())
    def next_one(ids):
        return pa.array([i + 1 for i in ids.to_pylist()])

    made = hd.range(2).with_column("n", next_one(col("id")))
    assert made.schema().types[1] == "int16" and made.take_all()[1] == {"id": 1, "n": 2}


def test_errors():
    for make, text in [
        (lambda: D("int64"), "expected a type of pyarrow, NumPy or Python, found str"),
        (lambda: D.temporal("year"), "expected one of timestamp, .* found 'year'"),
        (lambda: D.temporal("time32", "ns"), "unit of time32: expected s, ms, found 'ns'"),
        (lambda: D(int).to_arrow_dtype(), "a class of Python needs values"),
        (lambda: D.int8().to_python_type(), "it is not a class of Python"),
    ]:
        with pytest.raises((exceptions.InvalidArgument, exceptions.TypeMismatchError), match=text):
            make()
    with pytest.raises(AttributeError, match="'to_cudf_type': there are no columns in the memory of GPUs"):
        D.int8().to_cudf_type  # noqa: B018
