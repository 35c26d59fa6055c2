"""Schema: names and types of columns."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar

from headrace.optional import package

if TYPE_CHECKING:
    import pyarrow as pa


_FIXED = re.compile(r"extension<arrow\.fixed_shape_tensor\[value_type=([^\],]+), shape=\[([\d,]*)\]\]>")
_VARIABLE = re.compile(r"extension<arrow\.variable_shape_tensor\[value_type=([^\],]+), ndim=(\d+).*\]>")


def type_as_printed(kind: str, of_tensors: str = "ArrowTensorTypeV2") -> str:
    """The text of a type for people: tensors as Ray prints them, with their shape and type of values."""
    if found := _FIXED.fullmatch(kind):
        shape = tuple(map(int, filter(None, found[2].split(","))))
        return f"{of_tensors}(shape={shape}, dtype={found[1]})"
    if found := _VARIABLE.fullmatch(kind):
        return f"ArrowVariableShapedTensorType(ndim={found[2]}, dtype={found[1]})"
    return kind


class ColumnType(str):
    """The type of a column: its text, as Arrow prints it ("int64", "list<item: double>"). It equals the
    pyarrow.DataType of this text, too, and has its attributes (id, value_type, bit_width, ...), so that
    pyarrow.types.is_integer() and its like work (with pyarrow).
    """

    arrow: pa.DataType

    if not TYPE_CHECKING:

        @property
        def arrow(self):
            """The pyarrow.DataType."""
            return self._schema.base_schema.types[self._place]

        def __getattr__(self, name):
            if name.startswith("_"):
                raise AttributeError(f"'ColumnType' object has no attribute {name!r}")
            return getattr(self.arrow, name)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, str) and not type(other).__module__.startswith("pyarrow"):
            return False
        return str.__eq__(self, str(other))

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__

    def __reduce__(self) -> tuple[Any, ...]:
        return str, (str(self),)


def _types_of(schema):
    for place, text in enumerate(schema._core.types):
        made = ColumnType(text)
        made._schema, made._place = schema, place
        yield made


class Schema:
    """Column names and types of a dataset.

    names: list of str. types: list of texts, as Arrow prints them ("int64", "list<item: double>"), which
    equal the types of pyarrow and have their attributes. len() is the number of columns; base_schema is a
    pyarrow.Schema; pyarrow.schema(this) works too. print() shows tensors as Ray does.
    """

    def __init__(self, core: Any) -> None:
        self._core = core

    @property
    def names(self) -> list[str]:
        return self._core.names

    @property
    def types(self) -> list[ColumnType]:
        return list(_types_of(self))

    @property
    def base_schema(self) -> pa.Schema:
        return package("pyarrow", "Schema.base_schema").schema(self)

    def __arrow_c_schema__(self) -> object:
        return self._core.__arrow_c_schema__()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self._core == other._core

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return len(self._core)

    def __repr__(self) -> str:
        kinds = map(type_as_printed, self.types)
        rows = [("Column", "Type"), ("------", "----"), *zip(self.names, kinds, strict=True)]
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {kind}" for name, kind in rows)
