"""Schema: names and types of columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from headrace.optional import package

if TYPE_CHECKING:
    import pyarrow as pa


class Schema:
    """Column names and types of a dataset.

    names: list of str. types: list of str, as Arrow prints them ("int64", "list<item: double>"). len() is
    the number of columns; base_schema is a pyarrow.Schema; pyarrow.schema(this) works too.
    """

    def __init__(self, core: Any) -> None:
        self._core = core

    @property
    def names(self) -> list[str]:
        return self._core.names

    @property
    def types(self) -> list[str]:
        return self._core.types

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
        rows = [("Column", "Type"), ("------", "----"), *zip(self.names, self.types, strict=True)]
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {kind}" for name, kind in rows)
