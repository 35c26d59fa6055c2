"""What `fit` learns: statistics of a dataset's columns, as many as possible in one pass."""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from headrace.data.aggregate import AbsMax, AggregateFn, ApproximateQuantile, BuiltIn, _built_in

if TYPE_CHECKING:
    from headrace.data.dataset import Dataset


class _Aggregate:
    """One aggregate of a plan; its result becomes stats[key]."""

    def __init__(self, aggregate, post_process_fn, key, skip_nan):
        self.aggregate = aggregate
        self.post_process_fn = post_process_fn
        self.key = key
        self.skip_nan = skip_nan


class _Callable:
    """A function that computes statistics of some columns by runs of its own."""

    def __init__(self, stat_fn, post_process_fn, stat_key_fn, post_key_fn, columns):
        self.stat_fn = stat_fn
        self.post_process_fn = post_process_fn
        self.stat_key_fn = stat_key_fn
        self.post_key_fn = post_key_fn
        self.columns = columns

    def compute(self) -> dict[str, Any]:
        found = self.stat_fn(self.stat_key_fn)
        return {
            self.post_key_fn(column): self.post_process_fn(found[self.stat_key_fn(column)])
            for column in self.columns
        }


class StatComputationPlan:
    """The statistics that a `fit` needs: aggregates, which one pass computes together, and functions."""

    def __init__(self):
        self._specs: list[_Aggregate | _Callable] = []

    def reset(self) -> None:
        self._specs.clear()

    def add_aggregator(
        self,
        *,
        aggregator_fn: Callable[[str], AggregateFn],
        post_process_fn: Callable[[Any], Any] = lambda value: value,
        columns: Iterable[str],
        batch_format: Any = None,
        skip_nan: bool = False,
    ) -> None:
        """Adds `aggregator_fn(column)` for each column; stats get the result under the aggregate's name.

        skip_nan: NaN counts as missing. batch_format has no effect.
        """
        for column in columns:
            made = aggregator_fn(column)
            self._specs.append(_Aggregate(made, post_process_fn, made.name, skip_nan))

    def add_callable_stat(
        self,
        *,
        stat_fn: Callable[[Callable[[str], str]], dict[str, Any]],
        stat_key_fn: Callable[[str], str],
        post_key_fn: Callable[[str], str] | None = None,
        post_process_fn: Callable[[Any], Any] = lambda value: value,
        columns: Iterable[str],
    ) -> None:
        """Adds `stat_fn(stat_key_fn)`, which returns {stat_key_fn(column): value} for all columns; stats get
        post_process_fn(value) under post_key_fn(column).
        """
        self._specs.append(
            _Callable(stat_fn, post_process_fn, stat_key_fn, post_key_fn or stat_key_fn, list(columns))
        )

    def compute(self, ds: "Dataset") -> dict[str, Any]:
        """All statistics: one pass for the aggregates, then the functions."""
        return compute_together([self], ds)[0]

    def has_custom_stat_fn(self) -> bool:
        return any(isinstance(spec, _Callable) for spec in self._specs)

    def __iter__(self) -> Iterator[_Aggregate]:
        return iter([spec for spec in self._specs if isinstance(spec, _Aggregate)])


def compute_together(plans: list[StatComputationPlan], ds: "Dataset") -> list[dict[str, Any]]:
    """The statistics of each plan. One pass over `ds` computes the aggregates of all plans."""
    specs = list(dict.fromkeys(spec for plan in plans for spec in plan))
    found = dict(zip(map(id, specs), _aggregated(ds, specs), strict=True))
    made = []
    for plan in plans:
        stats = {}
        for spec in plan._specs:
            if isinstance(spec, _Callable):
                stats |= spec.compute()
            else:
                stats[spec.key] = spec.post_process_fn(found[id(spec)])
        made.append(stats)
    return made


def _aggregated(ds: "Dataset", specs: list[_Aggregate]) -> list[Any]:
    if not specs:
        return []
    ds, prepared = _prepared(ds, specs)
    aggregates, place = {}, []
    for i, spec in enumerate(specs):
        made = spec.aggregate
        if isinstance(made, BuiltIn):
            column = made.get_target_column()
            column = prepared.get((column, _counts_numbers(made)), column) if spec.skip_nan else column
            key = (type(made), column, tuple(sorted(made.settings.items())))
            made = _built_in(type(made), column, f"stat {i}", made.settings)
        else:
            key = made.name
        aggregates.setdefault(key, made)
        place.append(aggregates[key].name)
    found = ds.aggregate(*aggregates.values())
    return [found[name] for name in place]


def _counts_numbers(aggregate: Any) -> bool:
    """Whether the aggregate knows integers and floats only; others know booleans and decimals, too."""
    return isinstance(aggregate, (AbsMax, ApproximateQuantile))


def _prepared(ds: "Dataset", specs: list[_Aggregate]) -> tuple["Dataset", dict[tuple[str, bool], str]]:
    """The dataset with copies of columns for the aggregates that skip NaN: nulls replace the NaN of floats,
    and where numbers count, booleans, decimals and nulls are floats. Names by (column, numbers count).
    """
    from headrace.data.expressions import col, if_else

    wanted = {
        (spec.aggregate.get_target_column(), _counts_numbers(spec.aggregate))
        for spec in specs
        if spec.skip_nan
    }
    types = types_of(ds) if wanted else {}
    made, names = {}, {}
    for c, numbers in sorted(wanted):
        kind = types.get(c, "")
        if is_float(kind):
            names[c, numbers] = f"{c} without NaN"
            made[f"{c} without NaN"] = if_else(col(c).is_nan(), None, col(c))
        elif numbers and kind.startswith(("bool", "decimal", "null")):
            names[c, numbers] = f"{c} as numbers"
            made[f"{c} as numbers"] = col(c).cast("float64")
    return (ds.with_columns(made) if made else ds), names


# --------------------------------------------------------------------------------------- columns of a dataset


def types_of(ds: "Dataset") -> dict[str, str]:
    """Column -> type as text; empty if the columns are not known (a function without rows)."""
    schema = ds.schema()
    return {} if schema is None else dict(zip(schema.names, schema.types, strict=True))


def categories_of(ds: "Dataset") -> dict[str, tuple[list[Any], bool]]:
    """Column -> (categories, ordered), of columns that came as Categoricals or Arrow dictionaries."""
    from headrace.data import categories

    schema = ds.schema()
    return {} if schema is None else categories.of_schema(schema._core)


def is_float(kind: str) -> bool:
    return kind in ("halffloat", "float", "double")


def is_integer(kind: str) -> bool:
    return kind.startswith(("int", "uint"))


def is_number(kind: str) -> bool:
    return is_float(kind) or is_integer(kind) or kind.startswith("decimal")


def is_text(kind: str) -> bool:
    return kind in ("string", "large_string", "string_view", "str")


def is_list(kind: str) -> bool:
    return kind.startswith(
        ("list<", "large_list<", "fixed_size_list<", "extension<arrow.fixed_shape_tensor", "tensor")
    )
