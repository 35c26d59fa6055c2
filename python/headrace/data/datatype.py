"""DataType: a type of Arrow, NumPy or Python, under Ray's name.

Expr.cast() and udf(return_dtype=) take it.
"""

from __future__ import annotations

import datetime
import enum
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from headrace import absent
from headrace._core import InvalidArgument, TypeMismatchError
from headrace.data.schema import type_as_printed
from headrace.optional import package

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

Answer: TypeAlias = bool  # inside DataType `bool` is a method
_ARROW = "pa"
_NUMPY = "np"
_PYTHON = "python"

# kind: (predicates of pyarrow.types, kinds of NumPy's dtypes, classes of Python)
_KINDS: dict[str, tuple[str, str, tuple[type, ...]]] = {
    "binary": ("binary large_binary binary_view fixed_size_binary", "V", (bytes, bytearray)),
    "boolean": ("boolean", "b", (bool,)),
    "floating": ("floating", "f", (float,)),
    "integer": ("integer", "iu", (int,)),
    "list": ("list large_list fixed_size_list list_view large_list_view", "", ()),
    "large_list": ("large_list large_list_view", "", ()),
    "map": ("map", "", ()),
    "nested": ("nested", "", ()),
    "null": ("null", "", ()),
    "numerical": ("integer floating decimal", "iufc", (int, float, complex)),
    "string": ("string large_string string_view", "US", (str,)),
    "struct": ("struct", "", ()),
    "temporal": (
        "temporal",
        "mM",
        (datetime.datetime, datetime.date, datetime.time, datetime.timedelta),
    ),
}
_UNITS = {  # of temporal(): the units, the usual one first
    "timestamp": ("us", "s", "ms", "ns"),
    "time32": ("s", "ms"),
    "time64": ("us", "ns"),
    "duration": ("us", "s", "ms", "ns"),
    "date32": (),
    "date64": (),
}


class TypeCategory(enum.StrEnum):
    """Kinds of types for DataType.is_of()."""

    LIST = "list"
    LARGE_LIST = "large_list"
    STRUCT = "struct"
    MAP = "map"
    TENSOR = "tensor"
    TEMPORAL = "temporal"


def _arrow(name, *args):
    return DataType(getattr(package("pyarrow", "DataType"), name)(*args))


class DataType:
    """A pyarrow.DataType, a numpy.dtype or a class of Python."""

    def __init__(self, _physical_dtype: Any) -> None:
        self._physical_dtype = _physical_dtype
        if self._origin() is None:
            found = type(_physical_dtype).__name__
            raise TypeMismatchError(f"DataType: expected a type of pyarrow, NumPy or Python, found {found}")

    def _origin(self):
        import numpy as np

        if isinstance(self._physical_dtype, np.dtype):
            return _NUMPY
        if isinstance(self._physical_dtype, type):
            return _PYTHON
        return _ARROW if hasattr(self._physical_dtype, "__arrow_c_schema__") else None

    # ------------------------------------------------------------------------------------------------ making

    @classmethod
    def from_arrow(cls, arrow_type: pa.DataType) -> DataType:
        return cls(arrow_type)

    @classmethod
    def from_numpy(cls, numpy_dtype: Any) -> DataType:
        """Of a dtype or its name."""
        import numpy as np

        return cls(np.dtype(numpy_dtype))

    @classmethod
    def from_dtype(cls, dtype: Any) -> DataType | None:
        """Of a type of pyarrow, NumPy, pandas or Python, or of a name of NumPy's; None if there is none."""
        import numpy as np

        if dtype is None or isinstance(dtype, DataType):
            return dtype
        if hasattr(dtype, "pyarrow_dtype"):  # pandas.ArrowDtype
            return cls(dtype.pyarrow_dtype)
        if type(dtype).__name__ == "StringDtype":
            return cls.string()
        if (
            hasattr(dtype, "__arrow_c_schema__")
            or isinstance(dtype, type)
            and not issubclass(dtype, np.generic)
        ):
            return cls(dtype)
        try:
            return cls(np.dtype(getattr(dtype, "numpy_dtype", dtype)))
        except (TypeError, ValueError):
            return None

    @classmethod
    def infer_dtype(cls, value: Any) -> DataType:
        """The type of a value: NumPy's of an array or a NumPy scalar, else Arrow's, else its class."""
        import numpy as np

        if isinstance(value, (np.ndarray, np.generic)):
            return cls(value.dtype)
        pyarrow = package("pyarrow", "DataType")
        try:
            return cls(pyarrow.array([value]).type)
        except pyarrow.ArrowException:
            return cls(type(value))

    @classmethod
    def int8(cls) -> DataType:
        return _arrow("int8")

    @classmethod
    def int16(cls) -> DataType:
        return _arrow("int16")

    @classmethod
    def int32(cls) -> DataType:
        return _arrow("int32")

    @classmethod
    def int64(cls) -> DataType:
        return _arrow("int64")

    @classmethod
    def uint8(cls) -> DataType:
        return _arrow("uint8")

    @classmethod
    def uint16(cls) -> DataType:
        return _arrow("uint16")

    @classmethod
    def uint32(cls) -> DataType:
        return _arrow("uint32")

    @classmethod
    def uint64(cls) -> DataType:
        return _arrow("uint64")

    @classmethod
    def float32(cls) -> DataType:
        return _arrow("float32")

    @classmethod
    def float64(cls) -> DataType:
        return _arrow("float64")

    @classmethod
    def string(cls) -> DataType:
        return _arrow("string")

    @classmethod
    def binary(cls) -> DataType:
        return _arrow("binary")

    @classmethod
    def bool(cls) -> DataType:
        return _arrow("bool_")

    @classmethod
    def list(cls, value_type: DataType) -> DataType:
        return _arrow("list_", value_type.to_arrow_dtype())

    @classmethod
    def large_list(cls, value_type: DataType) -> DataType:
        return _arrow("large_list", value_type.to_arrow_dtype())

    @classmethod
    def fixed_size_list(cls, value_type: DataType, list_size: int) -> DataType:
        return _arrow("list_", value_type.to_arrow_dtype(), list_size)

    @classmethod
    def struct(cls, fields: Sequence[tuple[str, DataType]]) -> DataType:
        """fields: (name, type) of each."""
        return _arrow("struct", [(name, kind.to_arrow_dtype()) for name, kind in fields])

    @classmethod
    def map(cls, key_type: DataType, value_type: DataType) -> DataType:
        return _arrow("map_", key_type.to_arrow_dtype(), value_type.to_arrow_dtype())

    @classmethod
    def tensor(cls, shape: tuple[int, ...], dtype: DataType) -> DataType:
        """Arrow's fixed_shape_tensor."""
        return _arrow("fixed_shape_tensor", dtype.to_arrow_dtype(), shape)

    @classmethod
    def variable_shaped_tensor(cls, dtype: DataType, ndim: int = 2) -> DataType:
        """Arrow's variable_shape_tensor: arrays of `ndim` dimensions, each with a shape of its own."""
        package("pyarrow", "DataType")
        from headrace.data.tensor_types import VariableShapeTensorType

        return cls(VariableShapeTensorType(dtype.to_arrow_dtype(), ndim))

    @classmethod
    def temporal(cls, temporal_type: str, unit: str | None = None, tz: str | None = None) -> DataType:
        """temporal_type: "timestamp" (with tz: in a zone), "date32", "date64", "time32", "time64" or
        "duration". unit: "s", "ms", "us", "ns"; None: "us", of time32 "s".
        """
        kind = temporal_type.lower()
        if kind not in _UNITS:
            raise InvalidArgument(
                f"DataType.temporal: expected one of {', '.join(_UNITS)}, found {temporal_type!r}"
            )
        if not _UNITS[kind]:
            return _arrow(kind)
        unit = unit or _UNITS[kind][0]
        if unit not in _UNITS[kind]:
            units = ", ".join(_UNITS[kind])
            raise InvalidArgument(f"DataType.temporal: unit of {kind}: expected {units}, found {unit!r}")
        return _arrow(kind, unit, tz) if kind == "timestamp" else _arrow(kind, unit)

    # -------------------------------------------------------------------------------------------- converting

    def to_arrow_dtype(self, values: Any = None) -> pa.DataType:
        """The pyarrow.DataType. Of a class of Python it is that of the `values`; InvalidArgument without."""
        pyarrow = package("pyarrow", "DataType")
        if self.is_arrow_type():
            return self._physical_dtype
        if self.is_numpy_type():
            return pyarrow.from_numpy_dtype(self._physical_dtype)
        if values is None or not len(values):
            raise InvalidArgument(f"{self!r}.to_arrow_dtype: a class of Python needs values")
        return pyarrow.array(values).type

    def to_numpy_dtype(self) -> np.dtype[Any]:
        """The numpy.dtype; object if there is none."""
        import numpy as np

        if self.is_numpy_type():
            return self._physical_dtype
        try:
            return np.dtype(self._physical_dtype.to_pandas_dtype())
        except (AttributeError, NotImplementedError, TypeError, ValueError):
            return np.dtype(object)

    def to_python_type(self) -> type:
        """The class of Python; InvalidArgument if the type is Arrow's or NumPy's."""
        if not self.is_python_type():
            raise InvalidArgument(f"{self!r}.to_python_type: it is not a class of Python")
        return self._physical_dtype

    # ----------------------------------------------------------------------------------------------- asking

    def is_arrow_type(self) -> Answer:
        return self._origin() is _ARROW

    def is_numpy_type(self) -> Answer:
        return self._origin() is _NUMPY

    def is_python_type(self) -> Answer:
        return self._origin() is _PYTHON

    def _is(self, kind):
        predicates, kinds, classes = _KINDS[kind]
        found = self._physical_dtype
        if self.is_numpy_type():
            return found.kind in kinds
        if self.is_python_type():
            return found in classes
        types = package("pyarrow", "DataType").types
        if types.is_dictionary(found) or types.is_run_end_encoded(found):
            found = found.value_type
        tests = [getattr(types, f"is_{name}", None) for name in predicates.split()]
        return any(test(found) for test in tests if test is not None)

    def is_of(self, category: TypeCategory | str) -> Answer:
        """Whether the type is of a TypeCategory, or of its name."""
        kind = str(category)
        if kind == "tensor":
            return self.is_tensor_type()
        return kind in set(TypeCategory) and self._is(kind)

    def is_tensor_type(self) -> Answer:
        return str(self._physical_dtype).startswith(
            ("extension<arrow.fixed_shape_tensor", "extension<arrow.variable_shape_tensor")
        )

    def is_uint64_type(self) -> Answer:
        if self.is_python_type():
            return False
        return str(self._physical_dtype) == "uint64"

    def is_binary_type(self) -> Answer:
        return self._is("binary")

    def is_boolean_type(self) -> Answer:
        return self._is("boolean")

    def is_floating_type(self) -> Answer:
        return self._is("floating")

    def is_integer_type(self) -> Answer:
        return self._is("integer")

    def is_list_type(self) -> Answer:
        return self._is("list")

    def is_map_type(self) -> Answer:
        return self._is("map")

    def is_nested_type(self) -> Answer:
        return self._is("nested")

    def is_null_type(self) -> Answer:
        return self._is("null")

    def is_numerical_type(self) -> Answer:
        return self._is("numerical")

    def is_string_type(self) -> Answer:
        return self._is("string")

    def is_struct_type(self) -> Answer:
        return self._is("struct")

    def is_temporal_type(self) -> Answer:
        return self._is("temporal")

    def __repr__(self) -> str:
        names = {_ARROW: "arrow", _NUMPY: "numpy"}
        if self.is_python_type():
            return f"DataType(python:{self._physical_dtype.__name__})"
        text = type_as_printed(str(self._physical_dtype), "ArrowTensorType")
        return f"DataType({names[self._origin()]}:{text})"

    def __eq__(self, other: object) -> Answer:
        if not isinstance(other, DataType) or self._origin() is not other._origin():
            return False
        return self._physical_dtype == other._physical_dtype

    def __hash__(self) -> int:
        return hash((self._origin(), self._physical_dtype))

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            raise absent.no_attribute(self, "headrace.data.datatype.DataType", name)


__all__ = ["DataType", "TypeCategory"]
