"""Rows with equal keys: GroupedData, and the aggregates of a whole dataset.

Groups come in the order of their keys, nulls last. Null, NaN and 0.0 (equal to -0.0) are keys like others.
The engine computes built-in aggregates (`group_plan`), worker processes compute those of users.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Unpack

from headrace import lazy_module
from headrace._core import InvalidArgument
from headrace.data.aggregate import AggregateFn, BuiltIn, Count, Max, Mean, Min, Std, Sum
from headrace.data.context import accept_cluster_arguments
from headrace.data.expressions import Expr
from headrace.data.plan import Node
from headrace.optional import package
from headrace.settings import hint

if TYPE_CHECKING:
    from headrace.data.annotations import (
        AnyBatchFunction,
        BatchFormat,
        Columns,
        Compute,
        Concurrency,
        FunctionArguments,
        Key,
    )
    from headrace.data.dataset import Dataset

hints = lazy_module("headrace.data.hints")

BLOCK_ROWS = 65536  # rows of a partial result of a user's aggregate


def with_keys(ds, key):
    """(the dataset with a column for each key that is an expression, the names of all keys) for `key`."""
    keys, computed = [], {}
    for k in [] if key is None else [key] if isinstance(key, (str, Expr)) else list(key):
        if not isinstance(k, (str, Expr)):
            raise TypeError(f"groupby: key: expected a column's name or an expression, found {k!r}")
        if isinstance(k, Expr) and (k.name is None or k.name in (k._calls or ())):
            raise InvalidArgument(f"groupby: the key {k!r} has no name; write ({k!r}).alias('name')")
        keys.append(k if isinstance(k, str) else k.name)
        if isinstance(k, Expr) and k._core.name != k.name:
            computed[k.name] = k
    if len(set(keys)) < len(keys):
        raise InvalidArgument(f"groupby: expected each key once, found: {', '.join(keys)}")
    known = ds._known_names() if keys else None
    for k in keys if known is not None else ():
        if k in computed and k in known:
            raise InvalidArgument(
                f"groupby: the dataset has a column '{k}' already; give the key {computed[k]!r} another name"
            )
        if k not in computed and k not in known:
            raise InvalidArgument(f"groupby: no column '{k}'; there are: {', '.join(known)}" + hint(k, known))
    return ds.with_columns(computed) if computed else ds, keys


def _check(aggs, some=True):
    if not aggs and some:
        raise InvalidArgument("aggregate: expected at least one aggregate")
    for a in aggs:
        if not isinstance(a, AggregateFn):
            raise TypeError(f"aggregate: expected an aggregate such as Sum('x'), found {a!r}")
    return _named_apart(aggs)


def _named_apart(aggs):
    """The aggregates; of those with one name the second is called NAME_2, and so on, as in Ray."""
    taken, made = {}, []
    for a in aggs:
        name, n = a.name, 1
        while name in taken:
            n += 1
            name = f"{a.name}_{n}"
        taken[name] = None
        if name != a.name:
            a = copy.copy(a)
            a.name = name
        made.append(a)
    return made


def _columns_of(ds, on, where, skip=()):
    """The columns that on= names: one name, several, or None for all."""
    if isinstance(on, str):
        return [on]
    if on is None:
        return [c for c in ds._names() if c not in skip]
    if not on:
        raise InvalidArgument(f"{where}: on=: expected at least one column")
    return list(on)


def group_plan(ds, keys, aggs):
    """The dataset of built-in aggregates per group."""
    return ds._plain(Node("group", {"keys": keys, "aggregates": [a.spec() for a in aggs]}, (ds._node,)))


class _Partial:
    """A user's aggregates of one block, pickled into one row."""

    def __init__(self, aggs):
        self.aggs = aggs

    def __call__(self, block):
        found = [a.accumulate_block(a.init(None), block) for a in self.aggs]
        return {"partial": [pickle.dumps(found)]}


class _OfGroup:
    """A function of a whole group; its result is the group's keys and the user's aggregates. An object, so
    that each run has its own copy of the aggregates and of what they store.
    """

    def __init__(self, aggs, keys):
        self.aggs, self.keys = aggs, keys

    def __call__(self, group):
        pa = package("pyarrow", "AggregateFn")
        columns = {k: group[k].slice(0, 1) for k in self.keys}
        key = [columns[k][0].as_py() for k in self.keys]
        key = key[0] if len(key) == 1 else tuple(key)
        for a in self.aggs:
            found = a.accumulate_block(a.init(key), group.slice(0, BLOCK_ROWS))
            for begin in range(BLOCK_ROWS, len(group), BLOCK_ROWS):
                found = a.merge(found, a.accumulate_block(a.init(key), group.slice(begin, BLOCK_ROWS)))
            columns[a.name] = pa.array([a.finalize(found)])
        return pa.table(columns)


def _copied(aggs):
    from headrace.udf import sending

    try:
        return sending.loads(sending.dumps(aggs))
    except Exception:
        return aggs  # they cannot be pickled; the run's own error says so


def _user_aggregates(ds, aggs):
    """A user's aggregates of a whole dataset: workers aggregate blocks, this process merges them in order."""
    aggs = _copied(aggs)  # each run stores into its own copy
    found = [a.init(None) for a in aggs]
    partial = _Partial(aggs)
    blocks = ds.map_batches(lambda block: partial(block), batch_size=BLOCK_ROWS, batch_format="pyarrow")
    try:
        for row in blocks.iter_rows():
            found = [a.merge(x, y) for a, x, y in zip(aggs, found, pickle.loads(row["partial"]), strict=True)]
    finally:
        ds._last_stats = blocks._last_stats
    return {a.name: a.finalize(x) for a, x in zip(aggs, found, strict=True)}


def aggregate(ds, aggs, where="aggregate"):
    """Aggregates of a whole dataset, as a dict. where: the method, for its progress."""
    aggs = _check(aggs)
    built_in = [a for a in aggs if isinstance(a, BuiltIn)]
    others = [a for a in aggs if not isinstance(a, BuiltIn)]
    found = {}
    for table in ds._tables(group_plan(ds, [], built_in)._node, where) if built_in else ():
        found.update(table.to_pylist()[0])
    if others:
        found.update(_user_aggregates(ds, others))
    return {a.name: found[a.name] for a in aggs}


def of_columns(ds, cls, on, where, **settings):
    """`cls` of one column: its value; of several columns: a dict."""
    columns = _columns_of(ds, on, where)
    if not columns and ds._known_names() is None:
        return None  # of no rows
    found = aggregate(ds, [cls(c, **settings) for c in columns], where)
    return next(iter(found.values())) if len(found) == 1 else found


class GroupedData:
    """Rows of a dataset by keys, made by `Dataset.groupby`. Only a consumer of the result starts a run."""

    def __init__(self, ds: Dataset, key: Key | None) -> None:
        self._dataset, self._keys = with_keys(ds, key)

    if not TYPE_CHECKING:  # checkers mark wrong names

        def __getattr__(self, name):
            raise hints.no_group_method(self, name)

    def __repr__(self) -> str:
        return f"GroupedData(dataset={self._dataset!r}, key={self._keys!r})"

    def aggregate(self, *aggs: AggregateFn) -> Dataset:
        """One row per group: its keys, then the aggregates.

        In memory: the groups' partial results (the values themselves for `Quantile`, `AsList`,
        `ValueCounter` and the like), up to half of the memory limit; beyond that they go to disk in
        partitions, each of which must fit in memory. A user's own aggregates keep all rows, as
        `map_groups` does.
        """
        return self._aggregate(aggs)

    def _aggregate(self, aggs, some=True):
        aggs = _check(aggs, some)
        built_in = [a for a in aggs if isinstance(a, BuiltIn)]
        others = [a for a in aggs if not isinstance(a, BuiltIn)]
        if not others:
            return group_plan(self._dataset, self._keys, built_in)
        out = self.map_groups(_OfGroup(others, self._keys), batch_format="pyarrow")
        if built_in:  # both are in the order of the keys
            found = group_plan(self._dataset, self._keys, built_in)
            out = found.zip(out.select_columns([a.name for a in others]))
        return out.select_columns(self._keys + [a.name for a in aggs])

    def _of_columns(self, cls, on, where, **settings):
        columns = _columns_of(self._dataset, on, where, self._keys)
        some = not self._keys or self._dataset._known_names() is not None  # otherwise there are no rows
        return self._aggregate([cls(c, **settings) for c in columns], some)

    def with_column(self, column_name: str, expr: Expr, **ray_remote_args: Any) -> Dataset:
        """The rows, group by group, with a column that an expression computes in each row."""
        accept_cluster_arguments("with_column", ray_remote_args)
        ds = self._dataset.sort(self._keys) if self._keys else self._dataset
        return ds.with_column(column_name, expr)

    def map_groups(
        self,
        fn: AnyBatchFunction,
        *,
        zero_copy_batch: bool = True,
        compute: Compute = None,
        batch_format: BatchFormat = "default",
        fn_args: Iterable[Any] | None = None,
        fn_kwargs: Mapping[str, Any] | None = None,
        fn_constructor_args: Iterable[Any] | None = None,
        fn_constructor_kwargs: Mapping[str, Any] | None = None,
        concurrency: Concurrency = None,
        **other: Unpack[FunctionArguments],
    ) -> Dataset:
        """fn(group) -> batch. The engine calls `fn` once per group, with all rows of the group as one batch
        in any of the formats of `map_batches`; `fn` may return what those functions return, a generator
        included. Groups come in the order of their keys, the rows of a group in the order of the dataset.
        Without keys all rows are one group. The other arguments are those of `map_batches`.

        The engine sorts the rows by the keys: in memory up to half of the memory limit, beyond that with
        files in the spill folder. Each group must fit in memory.

        other: num_cpus, num_gpus, max_retries, max_restarts, max_task_retries: see docs/functions.md.
        """
        from headrace.data.context import check_format
        from headrace.data.functions import grouped_function_node

        ds = self._dataset.sort(self._keys) if self._keys else self._dataset
        return ds._plain(
            grouped_function_node(
                ds._node,
                "map_groups",
                fn,
                self._keys,
                compute=compute,
                concurrency=concurrency,
                fn_args=fn_args,
                fn_kwargs=fn_kwargs,
                fn_constructor_args=fn_constructor_args,
                fn_constructor_kwargs=fn_constructor_kwargs,
                batch_format=check_format(batch_format),
                zero_copy_batch=zero_copy_batch,
                **other,
            )
        )

    def count(self) -> Dataset:
        """One row per group: its keys and `count()`, the number of its rows."""
        return self.aggregate(Count())

    def sum(self, on: Columns | None = None, ignore_nulls: bool = True) -> Dataset:
        """One row per group: its keys and `sum(c)` of each column; on=None: all columns except the keys."""
        return self._of_columns(Sum, on, "sum", ignore_nulls=ignore_nulls)

    def min(self, on: Columns | None = None, ignore_nulls: bool = True) -> Dataset:
        """As `sum`, with the least value."""
        return self._of_columns(Min, on, "min", ignore_nulls=ignore_nulls)

    def max(self, on: Columns | None = None, ignore_nulls: bool = True) -> Dataset:
        """As `sum`, with the greatest value."""
        return self._of_columns(Max, on, "max", ignore_nulls=ignore_nulls)

    def mean(self, on: Columns | None = None, ignore_nulls: bool = True) -> Dataset:
        """As `sum`, with the mean."""
        return self._of_columns(Mean, on, "mean", ignore_nulls=ignore_nulls)

    def std(self, on: Columns | None = None, ddof: int = 1, ignore_nulls: bool = True) -> Dataset:
        """As `sum`, with the standard deviation."""
        return self._of_columns(Std, on, "std", ddof=ddof, ignore_nulls=ignore_nulls)
