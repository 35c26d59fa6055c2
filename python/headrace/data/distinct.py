"""Rows chosen among all: distinct rows, a sample of exactly n rows, lists as rows, the counts of values."""

from __future__ import annotations

from headrace._core import InvalidArgument, TypeMismatchError
from headrace.data.context import DataContext, check_seed, is_whole
from headrace.data.expressions import col, lit
from headrace.data.plan import Node
from headrace.settings import hint

KEEP = {"first": 0, "last": 1, False: 2}


def _columns(ds, subset, where):
    """(all columns, the columns of the subset; [] for all)."""
    columns = ds._names()
    if not columns:
        raise InvalidArgument(f"{where}: the dataset has no columns")
    subset = [subset] if isinstance(subset, str) else list(subset or [])
    for name in subset:
        if not isinstance(name, str):
            raise TypeMismatchError(f"{where}: subset: expected names of columns, found {name!r}")
        if name not in columns:
            known = f"{', '.join(columns)}{hint(name, columns)}"
            raise InvalidArgument(f"{where}: no column '{name}'; there are: {known}")
    return columns, list(dict.fromkeys(subset))


def drop_duplicates(ds, subset, keep, where="drop_duplicates"):
    """See Dataset.drop_duplicates."""
    if keep is True or not isinstance(keep, (str, bool)) or keep not in KEEP:
        raise InvalidArgument(f"{where}: keep: expected 'first', 'last' or False, found {keep!r}")
    if subset is not None and not isinstance(subset, str) and not list(subset):
        raise InvalidArgument(f"{where}: subset: expected at least one column, or None for all columns")
    columns, keys = _columns(ds, subset, where)
    args = {"columns": columns, "keys": keys, "keep": KEEP[keep]}
    return ds._plain(Node("distinct", args, [ds._node]))


def explode(ds, column):
    """See Dataset.explode."""
    if not isinstance(column, str):
        raise TypeMismatchError(f"explode: expected the name of a column, found {column!r}")
    return ds._plain(Node("explode", {"column": column}, [ds._node]))


def sample(ds, n, seed):
    """See Dataset.sample."""
    if not is_whole(n, 0):
        raise InvalidArgument(
            f"sample: n: expected a number of rows, found {n!r}; random_sample(fraction) takes a fraction"
        )
    check_seed("sample: seed", seed)
    if seed is None:
        seed = DataContext.get_current().seed
    return ds._plain(Node("sample_rows", {"n": n, "seed": seed}, [ds._node]))


def value_counts(ds, column, normalize, sort):
    """See Dataset.value_counts."""
    if not isinstance(column, str):
        raise TypeMismatchError(f"value_counts: expected the name of a column, found {column!r}")
    name = "proportion" if normalize else "count"
    if column == name:
        raise InvalidArgument(
            f"value_counts: the column has the name of the result, {name!r}; rename_columns() changes it"
        )
    out = ds.groupby(column).count().rename_columns({"count()": name})
    if normalize:
        out = out.materialize()
        out = out.with_column(name, col(name) / lit(float(out.sum(name) or 1)))
    return out.sort([name, column], descending=[True, False]) if sort else out
