"""`.list`, `.struct`, `.map` and `.arr` of expressions, with the names of Ray Data's, by the engine."""

from headrace._core import InvalidArgument, TypeMismatchError


def _index(value, what):
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeMismatchError(f"{what}: expected an integer, not {type(value).__name__}")
    return value.__index__()


class ListFunctions:
    """Functions of a column of lists (fixed-size ones and tensors of one dimension, too); null stays null."""

    def __init__(self, expr):
        self._expr = expr

    def len(self):
        """How many items: int32, of large_list int64."""
        return self._expr._call("list_len")

    def get(self, index):
        """The item at this place, from the end where negative; null if there is none."""
        return self._expr._call("list_get", index=_index(index, "list.get"))

    def slice(self, start=None, stop=None, step=None):
        """Some of the items, as Python's slices. A fixed-size list stays one."""
        parts = {"start": start, "stop": stop, "step": step}
        given = {k: _index(v, f"list.slice {k}") for k, v in parts.items() if v is not None}
        return self._expr._call("list_slice", **given)

    def __getitem__(self, key):
        if isinstance(key, slice):
            return self.slice(key.start, key.stop, key.step)
        return self.get(key)

    def sort(self, order="ascending", null_placement="at_end"):
        """The items in order, "ascending" or "descending"; NaN, then nulls "at_end", or the other way round
        "at_start".
        """
        if order not in ("ascending", "descending"):
            raise InvalidArgument(f"list.sort: order {order!r}; expected 'ascending' or 'descending'")
        if null_placement not in ("at_start", "at_end"):
            raise InvalidArgument(
                f"list.sort: null_placement {null_placement!r}; expected 'at_start' or 'at_end'"
            )
        return self._expr._call(
            "list_sort",
            descending=True if order == "descending" else None,
            nulls_first=True if null_placement == "at_start" else None,
        )

    def flatten(self):
        """The items of a list of lists as one list; lists that are null have none."""
        return self._expr._call("list_flatten")


class StructFunctions:
    """Fields of a column of structs: .struct["a"], .struct[0]; null where the struct is."""

    def __init__(self, expr):
        self._expr = expr

    def field(self, field_name):
        """The field of this name."""
        if not isinstance(field_name, str):
            raise TypeMismatchError(f"struct.field: expected a name, not {type(field_name).__name__}")
        return self._expr._call("struct_field", name=field_name)

    def field_by_index(self, index):
        """The field at this place, from 0."""
        index = _index(index, "struct.field_by_index")
        if index < 0:
            raise InvalidArgument(f"struct.field_by_index: {index}; expected 0 or more")
        return self._expr._call("struct_field", index=index)

    def __getitem__(self, key):
        return self.field(key) if isinstance(key, str) else self.field_by_index(key)


class MapFunctions:
    """Keys and values of a column of maps, or of lists of structs of a key and a value."""

    def __init__(self, expr):
        self._expr = expr

    def keys(self):
        """The keys as a list."""
        return self._expr._call("map_keys")

    def values(self):
        """The values as a list."""
        return self._expr._call("map_values")


class ArrayFunctions:
    """Functions of fixed-size lists and tensors."""

    def __init__(self, expr):
        self._expr = expr

    def to_list(self):
        """As lists of any length; a tensor of several dimensions as lists of lists."""
        return self._expr._call("arr_to_list")
