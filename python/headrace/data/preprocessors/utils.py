"""Shared by the preprocessors: their base class, checks of columns, tokens, hashes."""

import hashlib
from collections.abc import Iterable
from decimal import Decimal
from numbers import Real
from typing import TYPE_CHECKING, Any

from headrace.data.preprocessor import Preprocessor, SerializablePreprocessorBase
from headrace.data.preprocessors import batches
from headrace.data.preprocessors.statistics import (
    StatComputationPlan,
    categories_of,
    compute_together,
    is_float,
    is_integer,
    is_list,
    is_number,
    is_text,
    types_of,
)
from headrace.optional import package
from headrace.settings import hint

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from headrace.data.dataset import Dataset

__all__ = [
    "BuiltInPreprocessor",
    "StatComputationPlan",
    "categories_of",
    "check_columns",
    "check_numbers",
    "compute_together",
    "is_float",
    "is_integer",
    "is_list",
    "is_number",
    "is_text",
    "numbers_of",
    "read_only",
    "simple_hash",
    "simple_split_tokenizer",
    "types_of",
]


def simple_split_tokenizer(value: str) -> list[str]:
    """The text cut at each blank."""
    return value.split(" ")


def simple_hash(value: object, num_features: int) -> int:
    """A number below num_features, the same in every process and version."""
    return int.from_bytes(hashlib.sha256(str(value).encode()).digest(), "big") % num_features


def check_columns(who: Preprocessor, ds: "Dataset", columns: Iterable[str]) -> dict[str, str]:
    """The types of the dataset's columns; ValueError if one of `columns` is not there."""
    types = types_of(ds)
    missing = [c for c in columns if c not in types]
    if types and missing:
        raise ValueError(
            f"{type(who).__name__}: no column {', '.join(map(repr, missing))}; "
            f"the dataset has {', '.join(types)}{hint(missing[0], types)}"
        )
    return types


def check_numbers(who: Preprocessor, ds: "Dataset", columns: Iterable[str]) -> dict[str, str]:
    """check_columns(), and TypeError unless all of them are numbers or booleans."""
    columns = list(columns)
    types = check_columns(who, ds, columns)
    for c in columns:
        kind = types.get(c, "null")
        if not is_number(kind) and kind not in ("bool", "null"):
            raise TypeError(f"{type(who).__name__}: column {c!r} is {kind}, expected numbers")
    return types


def numbers_of(who: Preprocessor, values: "pd.Series") -> "np.ndarray":
    """The column of a batch in double precision, NaN for missing values; TypeError unless it has numbers or
    booleans.
    """
    import numpy as np

    kinds = package("pandas", "preprocessors").api.types
    dtype = getattr(values.dtype, "categories", values).dtype
    found = str(dtype)
    if kinds.is_object_dtype(dtype):
        found = _no_number(values)
    elif kinds.is_numeric_dtype(dtype) or kinds.is_bool_dtype(dtype):
        found = None
    if found is not None:
        raise TypeError(f"{type(who).__name__}: column {str(values.name)!r} is {found}, expected numbers")
    return values.to_numpy(dtype=np.float64, na_value=np.nan)


def _no_number(values: Iterable[Any]) -> str | None:
    """The type of the first object that is neither missing nor a number; None if there is none."""
    for v in values:
        if not (
            v is None or isinstance(v, (Real, Decimal)) or type(v).__name__ in ("bool_", "bool", "NAType")
        ):
            return type(v).__name__
    return None


# ------------------------------------------------------------------------------------------------- base class


class BuiltInPreprocessor(SerializablePreprocessorBase):
    """A preprocessor of this package: the fields of the text are the constructor's arguments.

    `_FIELDS`: their names in the text; the attribute of each has a `_` before it.
    """

    _FIELDS: tuple[str, ...] = ("columns", "output_columns")

    def _get_serializable_fields(self) -> dict[str, Any]:
        fields = {name: getattr(self, f"_{name}") for name in self._FIELDS}
        return fields | ({"fitted": bool(getattr(self, "_fitted", False))} if self._is_fittable else {})

    def _set_serializable_fields(self, fields: dict[str, Any], version: int) -> None:
        for name in self._FIELDS:
            if name not in fields:
                raise ValueError(f"no field {name!r}")
            setattr(self, f"_{name}", fields[name])
        if fields.get("fitted"):
            self._fitted = True

    def _transform_batch(self, data: Any) -> Any:
        try:
            made = super()._transform_batch(data)
        except KeyError as e:
            missing = [c for c in self.get_input_columns() if e.args == (c,)]
            if not missing:
                raise
            raise ValueError(
                f"{type(self).__name__}: transform_batch: the batch has no column {missing[0]!r}"
            ) from None
        return batches.to_arrow(made) if batches.is_table(data) and batches.is_frame(made) else made

    def _repr(self, **arguments: Any) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in arguments.items())})"

    def __repr__(self) -> str:
        return self._repr(**{name: getattr(self, f"_{name}") for name in self._FIELDS})


def read_only(name: str, doc: str) -> property:
    """A property that shows the attribute `_name`."""
    return property(lambda self: getattr(self, f"_{name}"), doc=doc)
