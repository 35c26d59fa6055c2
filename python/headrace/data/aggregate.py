"""Aggregates of groups: Ray Data's built-in ones, and the base classes of a user's own.

The engine computes the subclasses of `BuiltIn`; `ApproximateQuantile` and `ApproximateTopK` are exact here.
Worker processes run an `AggregateFnV2` (or the older `AggregateFn`).
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from headrace import absent


class AggregateFn:
    """A user's aggregate from functions. `init(key)` makes an accumulator; `accumulate_row(a, row)` or
    `accumulate_block(a, block)` (a pyarrow table) adds to it; `merge(a, b)` joins two accumulators;
    `finalize(a)` makes the result. Blocks have fixed borders, and the engine merges them in order, so the
    result does not depend on threads."""

    def __init__(
        self,
        init: Callable[[Any], Any],
        merge: Callable[[Any, Any], Any],
        name: str,
        accumulate_row: Callable[[Any, dict[str, Any]], Any] | None = None,
        accumulate_block: Callable[[Any, Any], Any] | None = None,
        finalize: Callable[[Any], Any] | None = None,
    ) -> None:
        if (accumulate_row is None) == (accumulate_block is None):
            raise ValueError("Exactly one of accumulate_row or accumulate_block must be provided.")
        if not isinstance(name, str):
            raise TypeError("`name` must be provided.")
        if accumulate_block is None:

            def accumulate_block(a: Any, block: Any) -> Any:
                for row in block.to_pylist():
                    a = accumulate_row(a, row)
                return a

        self.name = name
        self.init = init
        self.merge = merge
        self.accumulate_block = accumulate_block
        self.finalize: Callable[[Any], Any] = finalize or (lambda a: a)


class AggregateFnV2(AggregateFn):
    """A user's aggregate as a class. `aggregate_block(block)` returns the partial result of a block (a
    pyarrow table), or None for no result; `combine(a, b)` joins two partial results; `finalize(a)` makes the
    result. `on` is the column to aggregate."""

    if not TYPE_CHECKING:
        __class_getitem__ = classmethod(types.GenericAlias)  # AggregateFnV2[accumulator, result], as in Ray

    def __init__(
        self, name: str, zero_factory: Callable[[], Any], *, on: str | None, ignore_nulls: bool
    ) -> None:
        if not name:
            raise ValueError(f"Non-empty string has to be provided as name (got {name})")
        self._target_col_name = on
        self._ignore_nulls = ignore_nulls
        finalize = self.finalize  # super().__init__() sets an attribute of the same name
        found = re.match(r"^([^(]+)(?:\(.*\))?$", name)
        self._agg_name = found.group(1) if found else name
        super().__init__(
            init=lambda _: zero_factory(),
            merge=self._merge,
            name=name,
            accumulate_block=lambda a, block: self._merge(a, self.aggregate_block(block)),
            finalize=lambda a: None if a is None else finalize(a),
        )

    def _merge(self, a, b):
        """Joins two partial results. With ignore_nulls it skips None (no result); otherwise None makes the
        result None."""
        if b is None:
            return a if self._ignore_nulls else None
        return None if a is None and not self._ignore_nulls else b if a is None else self.combine(a, b)

    def get_target_column(self) -> str | None:
        return self._target_col_name

    def get_agg_name(self) -> str:
        return self._agg_name

    def aggregate_block(self, block: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no aggregate_block()")

    def combine(self, current_accumulator: Any, new: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no combine()")

    def finalize(self, accumulator: Any) -> Any:
        return accumulator


class BuiltIn(AggregateFnV2):
    """An aggregate that the engine computes."""

    function: str = ""  # the engine's name
    needs_column: bool = True

    def __init__(self, on: str | None, alias_name: str | None, **settings: Any) -> None:
        if on is None and self.needs_column:
            raise ValueError(f"{type(self).__name__}: expected on=, the name of a column")
        if on is not None and not isinstance(on, str):
            raise TypeError(f"{type(self).__name__}: on={on!r} is not the name of a column")
        if alias_name is not None and not isinstance(alias_name, str):
            raise TypeError(f"{type(self).__name__}: alias_name={alias_name!r} is not a name")
        self.settings = settings
        name = alias_name or f"{self.function}({'' if on is None else on})"
        super().__init__(name, lambda: None, on=on, ignore_nulls=settings.get("ignore_nulls", True))

    def spec(self) -> tuple[Any, ...]:
        """(function, column, name, settings) for the engine."""
        settings = [f"{k}={str(v).lower() if isinstance(v, bool) else v}" for k, v in self.settings.items()]
        return (self.function, self._target_col_name, self.name, settings)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _built_in, (type(self), self._target_col_name, self.name, self.settings)


def _built_in(cls, on, name, settings):
    out = cls.__new__(cls)
    BuiltIn.__init__(out, on, name, **settings)
    return out


class Count(BuiltIn):
    """Number of rows; with `on` and `ignore_nulls`, number of the column's values that are not null."""

    function = "count"
    needs_column = False

    def __init__(
        self, on: str | None = None, ignore_nulls: bool = False, alias_name: str | None = None
    ) -> None:
        super().__init__(on, alias_name, ignore_nulls=ignore_nulls)


class Sum(BuiltIn):
    """Sum of numbers or durations: int64, uint64, double, decimal; None if there are no values. An integer
    sum that does not fit into 64 bits is an error, and a decimal sum with more digits than a decimal has."""

    function = "sum"

    def __init__(
        self, on: str | None = None, ignore_nulls: bool = True, alias_name: str | None = None
    ) -> None:
        super().__init__(on, alias_name, ignore_nulls=ignore_nulls)


class Min(BuiltIn):
    """Least value of numbers, times, text or bytes. NaN counts only if there is no other value."""

    function = "min"

    def __init__(
        self,
        on: str | None = None,
        ignore_nulls: bool = True,
        alias_name: str | None = None,
        zero_factory: Callable[[], Any] | None = None,
    ) -> None:
        super().__init__(on, alias_name, ignore_nulls=ignore_nulls)


class Max(BuiltIn):
    """Greatest value of numbers, times, text or bytes. NaN counts only if there is no other value."""

    function = "max"

    def __init__(
        self,
        on: str | None = None,
        ignore_nulls: bool = True,
        alias_name: str | None = None,
        zero_factory: Callable[[], Any] | None = None,
    ) -> None:
        super().__init__(on, alias_name, ignore_nulls=ignore_nulls)


class Mean(BuiltIn):
    """Mean of numbers, a double; None if there are no values."""

    function = "mean"

    def __init__(
        self, on: str | None = None, ignore_nulls: bool = True, alias_name: str | None = None
    ) -> None:
        super().__init__(on, alias_name, ignore_nulls=ignore_nulls)


class Std(BuiltIn):
    """Standard deviation of numbers (Welford's method) with the divisor n - `ddof`; NaN if the divisor is not
    positive, None if there are no values."""

    function = "std"

    def __init__(
        self, on: str | None = None, ddof: int = 1, ignore_nulls: bool = True, alias_name: str | None = None
    ) -> None:
        super().__init__(on, alias_name, ddof=ddof, ignore_nulls=ignore_nulls)


class AbsMax(BuiltIn):
    """Greatest magnitude of numbers."""

    function = "abs_max"

    def __init__(
        self,
        on: str | None = None,
        ignore_nulls: bool = True,
        alias_name: str | None = None,
        zero_factory: Callable[[], Any] | None = None,
    ) -> None:
        super().__init__(on, alias_name, ignore_nulls=ignore_nulls)


class Quantile(BuiltIn):
    """The q-quantile of numbers, interpolated between neighbours. Keeps all values of a group in memory."""

    function = "quantile"

    def __init__(
        self, on: str | None = None, q: float = 0.5, ignore_nulls: bool = True, alias_name: str | None = None
    ) -> None:
        super().__init__(on, alias_name, q=q, ignore_nulls=ignore_nulls)


class Unique(BuiltIn):
    """Distinct values as a list, in the order of their first rows."""

    function = "unique"

    def __init__(
        self,
        on: str | None = None,
        ignore_nulls: bool = False,
        alias_name: str | None = None,
        encode_lists: Any = None,
    ) -> None:
        if encode_lists:
            raise ValueError("Unique: encode_lists is not supported; flatten lists first")
        super().__init__(on, alias_name, ignore_nulls=ignore_nulls)


class CountDistinct(BuiltIn):
    """Number of distinct values."""

    function = "count_distinct"

    def __init__(self, on: str | None, ignore_nulls: bool = True, alias_name: str | None = None) -> None:
        super().__init__(on, alias_name, ignore_nulls=ignore_nulls)


class AsList(BuiltIn):
    """All values as a list, in the order of the rows."""

    function = "list"

    def __init__(self, on: str | None, alias_name: str | None = None, ignore_nulls: bool = False) -> None:
        super().__init__(on, alias_name, ignore_nulls=ignore_nulls)


class First(BuiltIn):
    """The value of the first row, in the order of the dataset; with `ignore_nulls` the first value that is
    not null. None if there is none."""

    function = "first"

    def __init__(self, on: str | None, ignore_nulls: bool = False, alias_name: str | None = None) -> None:
        super().__init__(on, alias_name, ignore_nulls=ignore_nulls)


class Last(BuiltIn):
    """As `First`, of the last row."""

    function = "last"

    def __init__(self, on: str | None, ignore_nulls: bool = False, alias_name: str | None = None) -> None:
        super().__init__(on, alias_name, ignore_nulls=ignore_nulls)


class _AtExtreme(BuiltIn):
    def __init__(self, on: str | None, by: str, alias_name: str | None = None) -> None:
        if not isinstance(by, str) or not by:
            raise TypeError(f"{type(self).__name__}: by={by!r} is not the name of a column")
        super().__init__(on, alias_name, by=by)


class ArgMin(_AtExtreme):
    """The value of column `on` in the row whose `by` is least: the first of such rows. A row without a `by`
    does not count, NaN only if there is nothing else. None if no row counts, or if the value is null."""

    function = "arg_min"


class ArgMax(_AtExtreme):
    """As `ArgMin`, of the row whose `by` is greatest."""

    function = "arg_max"


class ValueCounter(BuiltIn):
    """Distinct values and the number of rows of each: `{"values": [...], "counts": [...]}`."""

    function = "value_counter"

    def __init__(self, on: str | None, alias_name: str | None = None) -> None:
        super().__init__(on, alias_name, ignore_nulls=True)


class MissingValuePercentage(BuiltIn):
    """Percentage of rows that are null or NaN."""

    function = "missing_pct"

    def __init__(self, on: str | None, alias_name: str | None = None) -> None:
        super().__init__(on, alias_name)


class ZeroPercentage(BuiltIn):
    """Percentage of numbers that are zero; with `ignore_nulls=False`, of rows."""

    function = "zero_pct"

    def __init__(self, on: str | None, ignore_nulls: bool = True, alias_name: str | None = None) -> None:
        super().__init__(on, alias_name, ignore_nulls=ignore_nulls)


class ApproximateQuantile(BuiltIn):
    """Several quantiles of numbers, as a list. Exact here; `quantile_precision` has no effect."""

    function = "approx_quantile"

    def __init__(
        self,
        on: str | None,
        quantiles: Sequence[float],
        quantile_precision: int = 800,
        alias_name: str | None = None,
    ) -> None:
        super().__init__(on, alias_name, quantiles=",".join(repr(float(q)) for q in quantiles))


class ApproximateTopK(BuiltIn):
    """The k most frequent values, as a list of `{COLUMN: value, "count": n}`. Exact here; `log_capacity` has
    no effect."""

    function = "approx_topk"

    def __init__(
        self,
        on: str | None,
        k: int,
        log_capacity: int = 15,
        alias_name: str | None = None,
        encode_lists: bool = False,
    ) -> None:
        if encode_lists:
            raise ValueError("ApproximateTopK: encode_lists is not supported; flatten lists first")
        super().__init__(on, alias_name, k=k)


if not TYPE_CHECKING:
    __getattr__ = absent.hook("headrace.data.aggregate")

__all__ = [
    "AbsMax",
    "AggregateFn",
    "AggregateFnV2",
    "ApproximateQuantile",
    "ApproximateTopK",
    "ArgMax",
    "ArgMin",
    "AsList",
    "Count",
    "CountDistinct",
    "First",
    "Last",
    "Max",
    "Mean",
    "Min",
    "MissingValuePercentage",
    "Quantile",
    "Std",
    "Sum",
    "Unique",
    "ValueCounter",
    "ZeroPercentage",
]
