"""Schema: names and types of columns."""

from headrace.optional import package


class Schema:
    """Column names and types of a dataset.

    names: list of str. types: list of str, as Arrow prints them ("int64", "list<item: double>"). len() is
    the number of columns; base_schema is a pyarrow.Schema; pyarrow.schema(this) works too.
    """

    def __init__(self, core):
        self._core = core

    @property
    def names(self):
        return self._core.names

    @property
    def types(self):
        return self._core.types

    @property
    def base_schema(self):
        return package("pyarrow", "Schema.base_schema").schema(self)

    def __arrow_c_schema__(self):
        return self._core.__arrow_c_schema__()

    def __eq__(self, other):
        return isinstance(other, Schema) and self._core == other._core

    __hash__ = None

    def __len__(self):
        return len(self._core)

    def __repr__(self):
        rows = [("Column", "Type"), ("------", "----"), *zip(self.names, self.types, strict=True)]
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {kind}" for name, kind in rows)
