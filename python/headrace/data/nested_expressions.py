"""`.list`, `.struct`, `.map` and `.arr` of expressions; the names are Ray Data's, the engine computes
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace._core import InvalidArgument, TypeMismatchError

if TYPE_CHECKING:
    from headrace.data.expressions import Expr


def _index(value, what):
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeMismatchError(f"{what}: expected an integer, found {type(value).__name__}")
    return value.__index__()


class ListFunctions:
    """Functions of a column of lists, fixed-size lists or tensors of one dimension; null stays null."""

    def __init__(self, expr: Expr) -> None:
        self._expr = expr

    def len(self) -> Expr:
        """Number of items: int32, int64 for large_list."""
        return self._expr._call("list_len")

    def get(self, index: int) -> Expr:
        """The item at `index`, counted from the end if negative; null if there is no such item."""
        return self._expr._call("list_get", index=_index(index, "list.get"))

    def slice(self, start: int | None = None, stop: int | None = None, step: int | None = None) -> Expr:
        """The items of a Python slice. The result of a fixed-size list is a fixed-size list."""
        parts = {"start": start, "stop": stop, "step": step}
        given = {k: _index(v, f"list.slice {k}") for k, v in parts.items() if v is not None}
        return self._expr._call("list_slice", **given)

    def __getitem__(self, key: int | slice | str) -> Expr:
        if isinstance(key, slice):
            return self.slice(key.start, key.stop, key.step)
        return self.get(key)

    def sort(self, order: str = "ascending", null_placement: str = "at_end") -> Expr:
        """The items in order, "ascending" or "descending". "at_end": NaN, then nulls come last; "at_start":
        nulls, then NaN come first.
        """
        if order not in ("ascending", "descending"):
            raise InvalidArgument(f"list.sort: order: expected 'ascending' or 'descending', found {order!r}")
        if null_placement not in ("at_start", "at_end"):
            raise InvalidArgument(
                f"list.sort: null_placement: expected 'at_start' or 'at_end', found {null_placement!r}"
            )
        return self._expr._call(
            "list_sort",
            descending=True if order == "descending" else None,
            nulls_first=True if null_placement == "at_start" else None,
        )

    def flatten(self) -> Expr:
        """The items of a list of lists as one list; a null inner list adds no items."""
        return self._expr._call("list_flatten")


class StructFunctions:
    """Fields of a column of structs: .struct["a"], .struct[0]; null where the struct is null."""

    def __init__(self, expr: Expr) -> None:
        self._expr = expr

    def field(self, field_name: str) -> Expr:
        """The field of that name."""
        if not isinstance(field_name, str):
            raise TypeMismatchError(f"struct.field: expected a name, found {type(field_name).__name__}")
        return self._expr._call("struct_field", name=field_name)

    def field_by_index(self, index: int) -> Expr:
        """The field at that index, from 0."""
        index = _index(index, "struct.field_by_index")
        if index < 0:
            raise InvalidArgument(f"struct.field_by_index: {index}; expected 0 or more")
        return self._expr._call("struct_field", index=index)

    def __getitem__(self, key: int | slice | str) -> Expr:
        return self.field(key) if isinstance(key, str) else self.field_by_index(key)


class MapFunctions:
    """Keys and values of a column of maps, or of lists of structs with a key and a value."""

    def __init__(self, expr: Expr) -> None:
        self._expr = expr

    def keys(self) -> Expr:
        """The keys, as a list."""
        return self._expr._call("map_keys")

    def values(self) -> Expr:
        """The values, as a list."""
        return self._expr._call("map_values")


class ArrayFunctions:
    """Functions of fixed-size lists and tensors."""

    def __init__(self, expr: Expr) -> None:
        self._expr = expr

    def to_list(self) -> Expr:
        """Lists of variable length; a tensor of several dimensions becomes lists of lists."""
        return self._expr._call("arr_to_list")
