"""What pyarrow lacks for tensors: the type of arrays whose shapes differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from headrace.optional import package

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = package("pyarrow", "DataType")


class VariableShapeTensorType(pa.ExtensionType):
    """Arrow's arrow.variable_shape_tensor: arrays of `ndim` dimensions with values of `value_type`."""

    def __init__(self, value_type: pa.DataType, ndim: int) -> None:
        self.value_type: pa.DataType = value_type
        self.ndim: int = ndim
        storage = pa.struct([("data", pa.list_(value_type)), ("shape", pa.list_(pa.int32(), ndim))])
        super().__init__(storage, "arrow.variable_shape_tensor")

    def __arrow_ext_serialize__(self) -> bytes:
        return b"{}"

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: Any, serialized: bytes) -> Self:
        return cls(storage_type.field("data").type.value_type, storage_type.field("shape").type.list_size)

    def __reduce__(self) -> tuple[Any, ...]:
        return VariableShapeTensorType, (self.value_type, self.ndim)

    def __str__(self) -> str:
        return f"extension<arrow.variable_shape_tensor[value_type={self.value_type}, ndim={self.ndim}]>"

    __repr__ = __str__


def of_arrays(values: Any, kind: pa.DataType) -> pa.Array:
    """The arrays as a column of the type `kind`, a fixed_shape_tensor or a VariableShapeTensorType; None is a
    null. ValueError if a shape does not fit.
    """
    dtype = kind.value_type.to_pandas_dtype()
    arrays = [None if v is None else np.asarray(v, dtype) for v in values]
    fixed = getattr(kind, "shape", None)
    n_dims = kind.ndim if fixed is None else len(fixed)
    for v in arrays:
        if v is not None and (v.ndim != n_dims or fixed is not None and v.shape != tuple(fixed)):
            expected = f"{n_dims} dimensions" if fixed is None else f"the shape {tuple(fixed)}"
            raise ValueError(f"expected arrays of {expected}, found one of the shape {v.shape}")
    if fixed is not None:
        data = [None if v is None else v.reshape(-1) for v in arrays]
        return pa.ExtensionArray.from_storage(kind, pa.array(data, kind.storage_type))
    data = [[] if v is None else v.reshape(-1) for v in arrays]
    shapes = [[0] * n_dims if v is None else v.shape for v in arrays]
    mask = pa.array([v is None for v in arrays])
    fields = [pa.array(x, f.type) for x, f in zip((data, shapes), kind.storage_type, strict=True)]
    storage = pa.StructArray.from_arrays(fields, fields=list(kind.storage_type), mask=mask)
    return pa.ExtensionArray.from_storage(kind, storage)
