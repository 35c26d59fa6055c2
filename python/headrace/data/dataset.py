"""Dataset: a lazy, immutable plan, with Ray Data's methods.

A method checks its arguments and returns a Dataset around a new Node (plan.py). Most steps have a module of
their own (ordering, grouping, joining, shuffling, splitting, write ...), which is imported on first use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack, overload

from headrace import lazy_module
from headrace._core import InvalidArgument, Table, TypeMismatchError, UnsupportedError
from headrace.data import ordering, packing
from headrace.data.consumers import Consumers
from headrace.data.context import DataContext, accept_cluster_arguments, check_format, is_whole
from headrace.data.conversions import Conversions
from headrace.data.functions import (
    BATCH_BLOCK_ROWS,
    ROW_BATCH_BYTES,
    ROW_BLOCK_ROWS,
    ActorPoolStrategy,
    TaskPoolStrategy,
    function_node,
    workers,
)
from headrace.data.iterator import DatasetIterator, LocalSource, SplitIterator, SplitOwner, materialized_by
from headrace.data.plan import Node, Run
from headrace.data.schema import Schema
from headrace.data.write import Writing
from headrace.optional import package
from headrace.settings import hint

if TYPE_CHECKING:
    import os

    import pandas as pd
    import pyarrow as pa

    from headrace.data.aggregate import AggregateFn
    from headrace.data.annotations import (
        AnyBatchFunction,
        ArrowFormat,
        ArrowFunction,
        Batch,
        BatchFormat,
        CallArguments,
        ClusterArguments,
        ColumnFunction,
        Columns,
        Compute,
        Concurrency,
        FunctionArguments,
        Key,
        NumpyBatch,
        NumpyFormat,
        NumpyFunction,
        PandasFunction,
        Predicate,
        Row,
        RowFunction,
        RowPredicate,
        RowsFunction,
        Tail,
    )
    from headrace.data.combining import MixStoppingCondition
    from headrace.data.grouping import GroupedData
    from headrace.data.iterator import DataIterator
    from headrace.data.ordering import RandomSeedConfig
    from headrace.data.summary import DatasetSummary

blocks = lazy_module("headrace.data.blocks")  # imports numpy
progress = lazy_module("headrace.data.progress")
display = lazy_module("headrace.data.display")
hints = lazy_module("headrace.data.hints")
aggregates = lazy_module("headrace.data.aggregate")
expressions = lazy_module("headrace.data.expressions")
combining = lazy_module("headrace.data.combining")
grouping = lazy_module("headrace.data.grouping")
joining = lazy_module("headrace.data.joining")
distinct = lazy_module("headrace.data.distinct")
shuffling = lazy_module("headrace.data.shuffling")
caching = lazy_module("headrace.data.caching")
splitting = lazy_module("headrace.data.splitting")
materializing = lazy_module("headrace.data.materializing")
shares = lazy_module("headrace.data.shares")
summaries = lazy_module("headrace.data.summary")
run_stats = lazy_module("headrace.data.run_stats")


_FOR_TORCH = "for torch's DataLoader write DataLoader(ds.to_torch(batch_size=64), batch_size=None)"


def _expr_name(expr):
    name = getattr(expr, "name", None)
    if name is None:
        raise InvalidArgument(f"with_columns: {expr!r} has no name; give it one with .alias(name)")
    return name


class Dataset(Consumers, Conversions, Writing):
    """Rows of named columns, described by a plan. Methods return new datasets; to check column names they
    read at most the first file's schema. Rows flow when a consumer runs the plan.

    The order is part of the result: the same rows come in the same order, whatever the number of threads,
    worker processes and ranks.

    Functions (map, map_batches, flat_map, filter, add_column) run in worker processes by default;
    compute="threads" runs them in threads of this process, "inline" in the consumer's thread.
    concurrency=n: at most n workers; (m, n): at least m; (m, n, i): i at first. num_cpus, num_gpus: of each
    worker; with num_gpus a worker sees only its own GPUs. Each worker makes one instance of a class, with
    fn_constructor_args and fn_constructor_kwargs. A worker has several calls of an async function in flight.
    Before each batch Headrace seeds the generators of random, numpy.random and torch from (DataContext.seed,
    epoch, position), so that results are repeatable (not with "threads" and async functions, whose calls
    share the generators). A function that raises ends the run with its own exception. A worker that dies ends
    the run with PeerError, which names the operator, the rows, the process and how it ended, unless
    max_retries=n lets another worker repeat the batch. DataContext.max_errored_blocks: the number of batches
    that may fail; the run leaves them out. See docs/functions.md.
    """

    def __init__(self, node: Any) -> None:
        self._plan_node = node
        self._iterator = None
        self._schema = None
        self._last_stats: str | None = None
        self._name = None
        self._id = None

    @property
    def _node(self):
        return self._plan_node.here()

    @staticmethod
    def _plain(node):
        """A Dataset of this node, from any subclass."""
        return Dataset(node)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._plan_node,), {"_name": self._name}

    # -------------------------------------------------------------------------------------------- functions

    def _with_function(self, method, kind, fn, **arguments):
        return Dataset(function_node(self._node, method, kind, fn, **arguments))

    @overload
    def map_batches(
        self,
        fn: NumpyFunction,
        *,
        batch_size: int | Literal["default", "auto"] | None = ...,
        batch_format: NumpyFormat = ...,
        zero_copy_batch: bool = ...,
        udf_modifying_row_count: bool = ...,
        **other: Unpack[CallArguments],
    ) -> Dataset: ...
    @overload
    def map_batches(
        self,
        fn: PandasFunction,
        *,
        batch_size: int | Literal["default", "auto"] | None = ...,
        batch_format: Literal["pandas"],
        zero_copy_batch: bool = ...,
        udf_modifying_row_count: bool = ...,
        **other: Unpack[CallArguments],
    ) -> Dataset: ...
    @overload
    def map_batches(
        self,
        fn: ArrowFunction,
        *,
        batch_size: int | Literal["default", "auto"] | None = ...,
        batch_format: ArrowFormat,
        zero_copy_batch: bool = ...,
        udf_modifying_row_count: bool = ...,
        **other: Unpack[CallArguments],
    ) -> Dataset: ...
    def map_batches(
        self,
        fn: AnyBatchFunction,
        *,
        batch_size: int | Literal["default", "auto"] | None = None,
        compute: Compute = None,
        batch_format: BatchFormat = "default",
        zero_copy_batch: bool = True,
        fn_args: Iterable[Any] | None = None,
        fn_kwargs: Mapping[str, Any] | None = None,
        fn_constructor_args: Iterable[Any] | None = None,
        fn_constructor_kwargs: Mapping[str, Any] | None = None,
        concurrency: Concurrency = None,
        udf_modifying_row_count: bool = True,
        **other: Unpack[FunctionArguments],
    ) -> Dataset:
        """Calls fn(batch) -> batch.

        batch: with batch_format "default" or "numpy" a dict of column -> array (rows, *shape), read-only
        views with zero_copy_batch=True (fn may change the dict itself); with "pandas" a DataFrame; with
        "pyarrow" a pyarrow.Table. fn returns a dict of arrays, lists or tensors, a DataFrame, or Arrow data,
        with any number of rows; a generator yields several of them. batch_size=n: each call gets exactly n
        rows in order, the last one the rest; None: up to 4,096 rows of one source fragment.
        udf_modifying_row_count=False promises one row per row (otherwise an error), so that limits can move
        before the function.

        other: num_cpus, num_gpus, max_retries, max_restarts, max_task_retries: see docs/functions.md.
        """
        if batch_size in ("default", "auto"):
            batch_size = None
        if batch_size is not None and not is_whole(batch_size, 1):
            raise InvalidArgument(
                f"map_batches: batch_size: expected a number of at least 1, or None, found {batch_size!r}"
            )
        return self._with_function(
            "map_batches",
            "batches",
            fn,
            compute=compute,
            concurrency=concurrency,
            options={"block_rows": BATCH_BLOCK_ROWS, "one_to_one": not udf_modifying_row_count},
            fn_args=fn_args,
            fn_kwargs=fn_kwargs,
            fn_constructor_args=fn_constructor_args,
            fn_constructor_kwargs=fn_constructor_kwargs,
            batch_format=check_format(batch_format),
            zero_copy_batch=zero_copy_batch,
            batch_size=batch_size,
            **other,
        )

    def map(
        self,
        fn: RowFunction,
        *,
        compute: Compute = None,
        fn_args: Iterable[Any] | None = None,
        fn_kwargs: Mapping[str, Any] | None = None,
        fn_constructor_args: Iterable[Any] | None = None,
        fn_constructor_kwargs: Mapping[str, Any] | None = None,
        concurrency: Concurrency = None,
        **other: Unpack[FunctionArguments],
    ) -> Dataset:
        """Calls fn(row) -> row for each row; rows are dicts of column -> value.

        fn gets Python scalars, str, bytes, None; for tensors and lists of numbers arrays of its own, which it
        may write to, two-dimensional for lists of lists of equal length. fn may return these, numpy scalars,
        torch tensors, lists, dicts, dates, decimals. Arrays of two or more dimensions and equal shape become
        a tensor column.

        other: num_cpus, num_gpus, max_retries, max_restarts, max_task_retries: see docs/functions.md.
        """
        return self._with_function(
            "map",
            "rows",
            fn,
            compute=compute,
            concurrency=concurrency,
            options={"block_rows": ROW_BLOCK_ROWS, "batch_bytes": ROW_BATCH_BYTES, "one_to_one": True},
            fn_args=fn_args,
            fn_kwargs=fn_kwargs,
            fn_constructor_args=fn_constructor_args,
            fn_constructor_kwargs=fn_constructor_kwargs,
            **other,
        )

    def flat_map(
        self,
        fn: RowsFunction,
        *,
        compute: Compute = None,
        fn_args: Iterable[Any] | None = None,
        fn_kwargs: Mapping[str, Any] | None = None,
        fn_constructor_args: Iterable[Any] | None = None,
        fn_constructor_kwargs: Mapping[str, Any] | None = None,
        concurrency: Concurrency = None,
        **other: Unpack[FunctionArguments],
    ) -> Dataset:
        """Calls fn(row) -> list or generator of rows, for each row; see map().

        other: num_cpus, num_gpus, max_retries, max_restarts, max_task_retries: see docs/functions.md.
        """
        return self._with_function(
            "flat_map",
            "flat",
            fn,
            compute=compute,
            concurrency=concurrency,
            options={"block_rows": ROW_BLOCK_ROWS, "batch_bytes": ROW_BATCH_BYTES},
            fn_args=fn_args,
            fn_kwargs=fn_kwargs,
            fn_constructor_args=fn_constructor_args,
            fn_constructor_kwargs=fn_constructor_kwargs,
            **other,
        )

    def filter(
        self,
        fn: RowPredicate | Predicate | None = None,
        expr: Predicate | None = None,
        *,
        compute: Compute = None,
        fn_args: Iterable[Any] | None = None,
        fn_kwargs: Mapping[str, Any] | None = None,
        fn_constructor_args: Iterable[Any] | None = None,
        fn_constructor_kwargs: Mapping[str, Any] | None = None,
        concurrency: Concurrency = None,
        **other: Unpack[FunctionArguments],
    ) -> Dataset:
        """The rows for which fn(row), or `expr`, is true, unchanged.

        expr: an expression of headrace.data.expressions, such as col("x") > 3, or its text: "x > 3". A row
        for which it is null does not pass. The engine computes it, and does not read what the statistics of
        the files exclude.

        other: num_cpus, num_gpus, max_retries, max_restarts, max_task_retries: see docs/functions.md.
        """
        if expr is None and isinstance(fn, (str, expressions.Expr)):
            fn, expr = None, fn
        if expr is not None:
            if isinstance(fn, expressions.Expr):
                raise InvalidArgument("filter: expected one expression, found two: join them by &")
            if fn is not None:
                raise InvalidArgument("filter: expected a function or an expression, found both")
            given = (fn_args, fn_kwargs, fn_constructor_args, fn_constructor_kwargs)
            if any(g is not None for g in given):
                raise InvalidArgument(
                    "filter: an expression takes no arguments; fn_args and the like belong to a function"
                )
            workers("filter", compute, concurrency)
            predicate = expressions.as_expr(expr, "filter")
            op = lambda n, c: Node("filter", {"expr": c[0]}, [n])  # noqa: E731
            return Dataset(self._computed([], [predicate], op, compute))
        if fn is None:
            raise InvalidArgument("filter: expected a function or an expression")
        return self._with_function(
            "filter",
            "filter",
            fn,
            compute=compute,
            concurrency=concurrency,
            options={"block_rows": ROW_BLOCK_ROWS, "batch_bytes": ROW_BATCH_BYTES, "filter": True},
            fn_args=fn_args,
            fn_kwargs=fn_kwargs,
            fn_constructor_args=fn_constructor_args,
            fn_constructor_kwargs=fn_constructor_kwargs,
            **other,
        )

    def add_column(
        self,
        col: str,
        fn: ColumnFunction,
        *,
        batch_format: BatchFormat = "pandas",
        compute: Compute = None,
        concurrency: Concurrency = None,
        **other: Unpack[FunctionArguments],
    ) -> Dataset:
        """Adds the column `col`, or replaces it: fn(batch) -> a Series, a DataFrame of one column, an array
        or a list with one value per row, or a number or text for all rows.

        other: num_cpus, num_gpus, max_retries, max_restarts, max_task_retries: see docs/functions.md.
        """
        if not isinstance(col, str):
            raise TypeMismatchError(f"add_column: expected a name, found {type(col).__name__}")
        return self._with_function(
            "add_column",
            "column",
            fn,
            compute=compute,
            concurrency=concurrency,
            options={"block_rows": BATCH_BLOCK_ROWS, "one_to_one": True},
            batch_format=check_format(batch_format),
            column=col,
            **other,
        )

    # ---------------------------------------------------------------------------------------------- columns

    def with_column(
        self, column_name: str, expr: Any, *, compute: Compute = None, **other: Unpack[ClusterArguments]
    ) -> Dataset:
        """All columns and `column_name`, an expression of headrace.data.expressions, which the engine
        computes. It replaces a column of that name. compute: where functions in the expression run, as for
        map_batches.
        """
        accept_cluster_arguments("with_column", other)
        return self.with_columns({column_name: expr}, compute=compute)

    def with_columns(
        self, exprs: Any = None, *more_exprs: Any, compute: Compute = None, **other: Unpack[ClusterArguments]
    ) -> Dataset:
        """All columns and these: {name: expression}, a list of expressions with names, unnest(struct), or
        several of them. All expressions see the old columns.
        """
        accept_cluster_arguments("with_columns", other)
        pairs = [p for given in (exprs, *more_exprs) if given is not None for p in self._named(given)]
        names = [name for name, _ in pairs]
        for name in names:
            if not isinstance(name, str):
                raise TypeMismatchError(f"with_columns: expected a name, found {type(name).__name__}")
        for name, e in pairs:
            if isinstance(e, str):
                raise TypeMismatchError(
                    f"with_columns: {name!r}: expected an expression, found the text {e!r}: "
                    f"lit({e!r}) is that text in each row, col({e!r}) a column"
                )
        workers("with_columns", compute, None)
        op = lambda n, c: Node("with_columns", {"names": names, "exprs": c}, [n])  # noqa: E731
        return Dataset(self._computed(names, [e for _, e in pairs], op, compute))

    def _named(self, exprs):
        """[(name, expression)] from the arguments of with_columns."""
        if isinstance(exprs, dict):
            return list(exprs.items())
        if isinstance(exprs, expressions.Star):
            return []
        if isinstance(exprs, expressions.Unnest):
            added = "<unnest>"
            found = self.with_columns({added: exprs.expr}).schema().base_schema.field(added).type
            if not str(found).startswith("struct"):
                raise TypeMismatchError(f"unnest: expected a struct, found {exprs.expr!r} of type {found}")
            return [(found.field(i).name, exprs.expr.struct[i]) for i in range(found.num_fields)]
        if isinstance(exprs, expressions.Expr):
            exprs = [exprs]
        return [
            pair
            for e in exprs
            for pair in (
                [(_expr_name(e), e)]
                if not isinstance(e, (expressions.Star, expressions.Unnest))
                else self._named(e)
            )
        ]

    def _computed(self, names, exprs, op, compute=None):
        """op(node, the engine's expressions) -> a node, over this dataset plus the columns of functions in
        the expressions.
        """
        calls = expressions.merged(exprs)
        if not calls:
            return op(self._node, [expressions.core_of(e, "with_columns") for e in exprs])
        from headrace.data.function_expressions import planned

        old = self._names()
        cores = [e._core if isinstance(e, expressions.Expr) else expressions.core_of(e) for e in exprs]
        return planned(self._node, old + [n for n in names if n not in old], calls, cores, op, compute)

    def _project(self, names, new_names=None):
        return Dataset(Node("project", {"names": list(names), "new_names": new_names}, [self._node]))

    def select_columns(
        self,
        cols: Columns,
        *,
        compute: Compute = None,
        concurrency: Concurrency = None,
        **other: Unpack[ClusterArguments],
    ) -> Dataset:
        """These columns, in this order. InvalidArgument names a column that does not exist."""
        accept_cluster_arguments("select_columns", other)
        cols = [cols] if isinstance(cols, str) else list(cols)
        if wrong := [c for c in cols if not isinstance(c, str)]:
            raise TypeMismatchError(
                f"select_columns: expected names, found {wrong[0]!r}; with_columns() computes columns"
            )
        if len(set(cols)) != len(cols):
            raise InvalidArgument(f"select_columns: expected each name once, found {cols}")
        return self._project(cols)

    def drop_columns(
        self,
        cols: Columns,
        *,
        compute: Compute = None,
        concurrency: Concurrency = None,
        **other: Unpack[ClusterArguments],
    ) -> Dataset:
        """All columns except these. After a function it runs the plan up to the first rows to know the
        names.
        """
        accept_cluster_arguments("drop_columns", other)
        cols = [cols] if isinstance(cols, str) else list(cols)
        names = self._known_names()
        if names is None:
            return Dataset(self._node)
        for name in cols:
            if name not in names:
                raise InvalidArgument(
                    f"drop_columns: no column '{name}'; the columns are {', '.join(names)}{hint(name, names)}"
                )
        return self._project([n for n in names if n not in cols])

    def rename_columns(
        self,
        names: Mapping[str, str] | Sequence[str],
        *,
        concurrency: Concurrency = None,
        **other: Unpack[ClusterArguments],
    ) -> Dataset:
        """names: {old: new}, or a list with one name per column."""
        accept_cluster_arguments("rename_columns", other)
        old = self._known_names()
        if old is None:  # there are no rows: any names will do
            old = list(names)
        if isinstance(names, dict):
            for name in names:
                if name not in old:
                    known = f"{', '.join(old)}{hint(name, old)}"
                    raise InvalidArgument(f"rename_columns: no column '{name}'; the columns are {known}")
            new = [names.get(n, n) for n in old]
        else:
            new = list(names)
            if len(new) != len(old):
                raise InvalidArgument(f"rename_columns: expected {len(old)} names, found {len(new)}")
        if len(set(new)) != len(new):
            raise InvalidArgument(f"rename_columns: expected different names, found {new}")
        return self._project(old, new)

    def _known_names(self):
        """Names of the columns; None if they cannot be known, because a function gives no rows."""
        known = (
            self._node.names() if self._schema is None and self._node.schema_plan.schema() is None else None
        )
        if known is not None:
            return known
        schema = self.schema()
        return schema.names if schema is not None else None

    def _names(self):
        return self._known_names() or []

    # ------------------------------------------------------------------------------------------------- rows

    def join(
        self,
        ds: Dataset,
        join_type: str,
        num_partitions: int | None = None,
        on: Columns = ("id",),
        right_on: Columns | None = None,
        left_suffix: str | None = None,
        right_suffix: str | None = None,
        *,
        partition_size_hint: int | None = None,
        aggregator_ray_remote_args: dict[str, Any] | None = None,
        validate_schemas: bool = False,
    ) -> Dataset:
        """Pairs of rows of both datasets with equal keys: the columns of this dataset, then those of `ds`
        without its keys; columns that both have get the suffixes.

        join_type: "inner", "left_outer", "right_outer", "full_outer", "left_semi", "right_semi", "left_anti",
        "right_anti". on, right_on: names of the keys here and in `ds`, which must have the same types. A null
        equals nothing. num_partitions and the other arguments have no effect.

        Rows come in the order of this dataset, the partners of one row in the order of `ds`; right and full
        joins then give the rows of `ds` without a partner (right_semi and right_anti: the order of `ds`).
        `ds`, or this dataset if it is known to be much smaller, stays in memory if it fits into an eighth of
        the memory limit; otherwise both go to disk in partitions.
        """
        if not isinstance(ds, Dataset):
            raise TypeError(f"join: expected a Dataset, found {ds!r}")
        if num_partitions is not None and not is_whole(num_partitions):
            raise TypeMismatchError(
                f"join: num_partitions: expected a number, found {num_partitions!r}; "
                f"write on={num_partitions!r}"
            )
        return joining.join(self, ds, join_type, on, right_on, left_suffix, right_suffix)

    def groupby(self, key: Key | None, num_partitions: int | None = None) -> GroupedData:
        """Groups of rows by one or more columns, for `aggregate`, `count`, `sum` and so on; None: one group
        of all rows. A key may be an expression with a name: `(col("x") % 10).alias("bucket")`. num_partitions
        has no effect."""
        if num_partitions is not None and not is_whole(num_partitions):
            raise TypeMismatchError(
                f"groupby: num_partitions: expected a number, found {num_partitions!r}; several keys are a "
                f"list: groupby([{key!r}, {num_partitions!r}])"
            )
        return grouping.GroupedData(self, key)

    def aggregate(self, *aggs: AggregateFn) -> dict[str, Any]:
        """Aggregates (`headrace.data.aggregate`) of all rows, as a dict by name."""
        return grouping.aggregate(self, aggs)

    def sum(self, on: Columns | None = None, ignore_nulls: bool = True) -> Any:
        """The sum of a column; for several columns (None: all) a dict."""
        return grouping.of_columns(self, aggregates.Sum, on, "sum", ignore_nulls=ignore_nulls)

    def min(self, on: Columns | None = None, ignore_nulls: bool = True) -> Any:
        """The least value of a column; for several columns a dict."""
        return grouping.of_columns(self, aggregates.Min, on, "min", ignore_nulls=ignore_nulls)

    def max(self, on: Columns | None = None, ignore_nulls: bool = True) -> Any:
        """The greatest value of a column; for several columns a dict."""
        return grouping.of_columns(self, aggregates.Max, on, "max", ignore_nulls=ignore_nulls)

    def mean(self, on: Columns | None = None, ignore_nulls: bool = True) -> Any:
        """The mean of a column; for several columns a dict."""
        return grouping.of_columns(self, aggregates.Mean, on, "mean", ignore_nulls=ignore_nulls)

    def std(self, on: Columns | None = None, ddof: int = 1, ignore_nulls: bool = True) -> Any:
        """The standard deviation of a column; for several columns a dict."""
        return grouping.of_columns(self, aggregates.Std, on, "std", ddof=ddof, ignore_nulls=ignore_nulls)

    def unique(self, column: str, ignore_nulls: bool = False) -> list[Any]:
        """The distinct values of a column, as a list, in the order of their first rows."""
        return grouping.of_columns(self, aggregates.Unique, column, "unique", ignore_nulls=ignore_nulls)

    def summary(
        self,
        columns: Sequence[str] | None = None,
        override_dtype_agg_mapping: Mapping[Any, Callable[[str], Any]] | None = None,
    ) -> DatasetSummary:
        """Statistics of columns by their types: a DatasetSummary with to_pandas(), get_column_stats(name).

        Numbers: count, mean, min, max, std, median, and the percentages of missing and zero values. Booleans:
        these without the median; decimals: these without median and zeros. Times: count, min, max, missing.
        Text and bytes: count, missing, and the ten most frequent values. Other types: count and missing.
        override_dtype_agg_mapping: a dict of type (pyarrow's, or its name) -> function that returns the
        aggregates for a column's name.

        One pass computes all of them. The median keeps its column's values in memory, the most frequent
        values keep the distinct ones.
        """
        return summaries.summarize(self, columns, override_dtype_agg_mapping)

    def distinct(self) -> Dataset:
        """The rows that differ, each as it comes first: drop_duplicates() of all columns."""
        return distinct.drop_duplicates(self, None, "first", "distinct")

    def drop_duplicates(
        self, subset: Columns | None = None, keep: Literal["first", "last", False] = "first"
    ) -> Dataset:
        """The rows that differ in `subset` (a column, several, or None for all), in the order of the dataset.

        keep: which of equal rows stays: "first", "last", or False for none of them. Null equals null, NaN
        equals NaN, -0.0 equals 0.0. The columns of the subset are numbers, times, decimals, bool, text or
        bytes; the others may be anything.

        Memory: as groupby() with a row for each different one, then as sort(). All rows are read before the
        first one comes.
        """
        return distinct.drop_duplicates(self, subset, keep)

    def explode(self, column: str) -> Dataset:
        """A row for each value of the lists of `column`, which becomes the value; the other columns repeat.
        A null and an empty list give one row with a null, as in pandas and Polars.
        """
        return distinct.explode(self, column)

    def sample(self, n: int, *, seed: int | None = None) -> Dataset:
        """Exactly n rows (all, if there are fewer), each with the same probability, in the order of the
        dataset. random_sample(fraction) keeps each row by itself.

        seed: None for DataContext.seed now. The same rows come in each epoch. One pass reads all rows;
        memory: as sort() of n rows.
        """
        return distinct.sample(self, n, seed)

    def value_counts(self, column: str, *, normalize: bool = False, sort: bool = True) -> Dataset:
        """A row for each value of the column: the value and `count`, the number of its rows.

        normalize: `proportion` instead, the share of all rows, null included; this runs the plan now, for the
        number of rows. sort: the most frequent first, equal counts by value; else by value. Null is a value.
        """
        return distinct.value_counts(self, column, normalize, sort)

    def limit(self, limit: int) -> Dataset:
        """The first `limit` rows. The engine reads no more than they need."""
        if not is_whole(limit, 0):
            raise InvalidArgument(f"limit: expected a number of at least 0, found {limit!r}")
        return Dataset(Node("limit", {"n": limit}, [self._node]))

    # ------------------------------------------------------------------------------------------------- order

    def sort(
        self,
        key: Key,
        descending: bool | Sequence[bool] = False,
        boundaries: Sequence[Any] | None = None,
        *,
        null_placement: str | Sequence[str] = "at_end",
    ) -> Dataset:
        """All rows, ordered by `key`: a column's name, an expression, or a list of them (the first key
        first).

        descending: one bool for all keys, or one per key. Rows with equal keys keep their order. NaN, then
        nulls come last, descending or not; null_placement="at_start" (for all keys, or one value per key)
        puts nulls, then NaN first. The order of text is that of its bytes, that is of code points. boundaries
        has no effect: Ray cuts blocks there. TypeMismatchError if a column has no order (lists, structs).

        Memory: keeps all rows, up to about a quarter of the memory limit in memory; beyond that as compressed
        sorted runs in the spill folder (HEADRACE_SPILL_DIR, else TMPDIR, else /tmp), which it then merges.
        """
        return Dataset(ordering.sort(self, key, descending, boundaries, null_placement=null_placement))

    def random_shuffle(
        self,
        *,
        seed: int | RandomSeedConfig | None = None,
        num_blocks: int | None = None,
        **ray_remote_args: Any,
    ) -> Dataset:
        """All rows in a random order, which depends on the seed, the epoch and each row's coordinate, not on
        threads, memory or the cut of tables.

        seed: None for DataContext.seed and a new order in each epoch; an integer: one order for all epochs,
        as in Ray; RandomSeedConfig sets both. num_blocks has no effect. Memory: as sort().
        """
        return Dataset(ordering.random_shuffle(self, seed, num_blocks, **ray_remote_args))

    def repartition(
        self,
        num_blocks: int | None = None,
        target_num_rows_per_block: int | None = None,
        *,
        strict: bool = False,
        shuffle: bool = False,
        keys: Sequence[str] | None = None,
        sort: bool = False,
    ) -> Dataset:
        """The same rows in other blocks, the tables that iter_batches(batch_size=None) gives and
        materialize() keeps.

        num_blocks: the number of blocks, whose sizes differ by at most one row, in order; with shuffle=True
        in a random order (the same in every epoch); with keys, rows with equal keys go to one block, by hash,
        and sort=True sorts each block by the keys. There are no empty blocks.
        target_num_rows_per_block: blocks of exactly this many rows, the last one shorter (strict or not).

        Memory: with num_blocks all rows, as sort(), and each block whole; with target_num_rows_per_block one
        block.
        """
        node = ordering.repartition(
            self,
            num_blocks,
            target_num_rows_per_block,
            strict=strict,
            shuffle=shuffle,
            keys=keys,
            sort=sort,
        )
        return Dataset(node)

    def pack(
        self,
        seq_len: int,
        strategy: Literal["concat", "first_fit", "best_fit"] = "concat",
        *,
        columns: Columns | None = None,
        long_documents: Literal["split", "truncate", "drop"] = "split",
        open_bins: int = 64,
        drop_last: bool = False,
        pad_token_id: float | Mapping[str, float] | None = None,
        bos_token_id: float | Mapping[str, float] | None = None,
        eos_token_id: float | Mapping[str, float] | None = None,
        segment_ids: str | None = "segment_ids",
        position_ids: str | None = "position_ids",
        loss_mask: str | None = None,
    ) -> Dataset:
        """Documents of tokens, one a row, as rows of exactly seq_len tokens.

        columns: columns whose values are lists of numbers (integers or floats), equally long in each row;
        None for all such columns. They become tensors (seq_len,) of the same type. The result has neither
        other columns nor documents without tokens. These columns follow, by the names given here (None: no
        such column):

        - segment_ids, int32 (seq_len,): the number of the document in its row, from 1; 0 in padding
        - position_ids, int32 (seq_len,): the number of the token in its segment, from 0; 0 in padding
        - loss_mask, bool (seq_len,): False in padding and for the first token of each segment, which no token
          before it predicts: labels = where(loss_mask, tokens, -100)

        strategy: "concat" puts documents one after the other and cuts them where a row is full: only the last
        row has padding. "first_fit" keeps documents whole and puts each into the oldest of `open_bins` open
        rows that have room for it; "best_fit" chooses the open row in which it leaves the least room. If no
        open row has room, the fullest one goes out. long_documents: what happens to documents longer than
        seq_len: "split" goes on with them in another row, "truncate" keeps their first seq_len tokens, "drop"
        leaves them out. Padding fills the rows that are not full at the end; drop_last=True leaves them out.

        pad_token_id fills rows up (default 0), bos_token_id goes before each document, eos_token_id after it
        (default: none): an integer, or with several columns a dict of column -> value.

        The rows depend on the documents and their order alone: they are the same for any number of threads
        and ranks, and after a resume at any row. Memory: open_bins + 2 rows. stats() gives tokens,
        padding_tokens, padding_rate, truncated_tokens, dropped_tokens and empty_documents.

        Raises TypeMismatchError for columns that hold no lists of numbers, and DataError in the run, with the
        place, for a null among the tokens and for a document whose columns differ in length.
        """
        node = packing.pack(
            self,
            seq_len,
            strategy,
            columns=columns,
            long_documents=long_documents,
            open_bins=open_bins,
            drop_last=drop_last,
            pad_token_id=pad_token_id,
            bos_token_id=bos_token_id,
            eos_token_id=eos_token_id,
            segment_ids=segment_ids,
            position_ids=position_ids,
            loss_mask=loss_mask,
        )
        return Dataset(node)

    def batch_by_length(
        self,
        column: str,
        *,
        max_tokens: int,
        buckets: Sequence[int] | None = None,
        n_buckets: int | None = None,
        max_rows: int | None = None,
        max_wait: int | None = None,
        long_rows: Literal["error", "drop", "alone"] = "error",
        drop_last: bool = False,
    ) -> Dataset:
        """The same rows in batches of rows of about one length, each of up to max_tokens tokens when its rows
        are padded to its longest.

        column: lists, or integers that are the lengths (frames, characters, tokens of two columns). A null
        list has length 0. Batches are long where rows are short. Read them with batch_size=None; padding=True
        makes arrays of the lists:

            for batch in ds.batch_by_length("tokens", max_tokens=16384).iter_torch_batches(
                batch_size=None, padding=True
            ): ...

        buckets: ascending lengths; [128, 512] makes batches of rows up to 128, of those up to 512, and of
        longer ones. n_buckets: that many (default 32), with the bounds that leave the least padding for the
        first 4,096 rows. max_rows: the most rows of a batch. max_wait: a batch goes out, however few rows it
        has, when it has been open while that many others went out (default 256). long_rows: a row longer than
        max_tokens is an "error", "drop" leaves it out, "alone" makes it a batch. drop_last leaves out the
        batches that are open at the end.

        Filters and column expressions keep the batches, and so do functions without batch_size, which get one
        batch per call, and the shares of a split with batch_size=None, which take whole batches in turn.

        The batches depend on the rows and their order alone: they are the same for any number of threads, and
        after a resume at any batch. Memory: one open batch per bucket. stats() gives batches, tokens,
        padding_tokens, padding_rate, dropped_rows, waited_batches, and the bounds of the buckets.

        Raises TypeMismatchError for a column of another type, and DataError in the run, with the place, for a
        row that is too long, and for a length that is null or negative.
        """
        node = packing.batch_by_length(
            self,
            column,
            max_tokens=max_tokens,
            buckets=buckets,
            n_buckets=n_buckets,
            max_rows=max_rows,
            max_wait=max_wait,
            long_rows=long_rows,
            drop_last=drop_last,
        )
        return Dataset(node)

    def union(self, *other: Dataset) -> Dataset:
        """All rows of this dataset, then those of the others in turn.

        The columns are those of this dataset, then the new ones of each other dataset, with types that hold
        all values (int64 and double: double); missing columns are null. TypeMismatchError if there is no such
        type, or if a function of the first dataset gives a column that is not known before its rows.
        """
        for o in other:
            if not isinstance(o, Dataset):
                raise TypeMismatchError(f"union: expected a Dataset, found {type(o).__name__}")
        if not other:
            return self
        return Dataset(Node("union", {}, [self._node, *(o._node for o in other)]))

    def zip(self, *other: Dataset) -> Dataset:
        """The columns of all datasets side by side, row by row. A repeated name gets "_1", then "_2" and so
        on.

        The result shares the columns. A few tables of each dataset wait in memory for the others. All
        datasets must have the same number of rows; otherwise InvalidArgument at the end of the run names the
        numbers.
        """
        return combining.zip(self, *other)

    def mix(
        self,
        *other: Dataset,
        weights: Sequence[float] | None = None,
        stopping_condition: str | MixStoppingCondition = "stop_on_longest_drop",
    ) -> Dataset:
        """Rows of all datasets in proportion to the weights (default: equal), exact by row: the next row
        comes from the dataset that is furthest behind its share. TypeMismatchError if the schemas differ.

        stopping_condition: a headrace.data.MixStoppingCondition, or its value as text: "stop_on_shortest"
        (as "first_exhausted" of Hugging Face), "stop_on_longest_drop"
        ("all_exhausted_without_replacement"), or "stop_on_longest_repeat" ("all_exhausted"), where a dataset
        that has ended begins again until each has given all its rows. For that the datasets are counted
        here: with filters or functions that runs them.
        """
        return combining.mix(self, *other, weights=weights, stopping_condition=stopping_condition)

    def randomize_block_order(self, *, seed: int | RandomSeedConfig | None = None) -> Dataset:
        """The same rows with their blocks (row groups, parts of files, tables in memory) in a random order:
        files in a random order, and the blocks of each. The engine reads them in that order and keeps
        nothing.

        seed: None for DataContext.seed and a new order in each epoch; an integer: one order for all epochs,
        as in Ray; RandomSeedConfig sets both. It passes through maps, filters, columns and unions (whose
        inputs stay one after another); blocks of repartition(num_blocks) come in a random order. After any
        other step (a limit, a sort, a function of exact batches) blocks are 256 consecutive rows of their
        source, and the engine keeps all rows, as sort() does: explain() then shows shuffle_blocks.
        """
        return shuffling.randomize_block_order(self, seed=seed)

    def random_sample(self, fraction: float, *, seed: int | RandomSeedConfig | None = None) -> Dataset:
        """About `fraction` of the rows, in their order. A random number decides for each row; it depends on
        the row's coordinate, not on how the engine reads it.

        seed: an integer gives the same rows in each epoch; None another sample in each epoch, from
        DataContext.seed; or a RandomSeedConfig.
        """
        return shuffling.random_sample(self, fraction, seed=seed)

    def streaming_train_test_split(
        self,
        test_size: float,
        *,
        split_type: Literal["random", "hash"] = "random",
        hash_column: str | None = None,
        seed: int | RandomSeedConfig | None = None,
        **other: Unpack[ClusterArguments],
    ) -> tuple[Dataset, Dataset]:
        """(train, test): each row belongs to the test with probability test_size, the same rows in every
        pass. It reads nothing and keeps nothing.

        split_type="random": by seed (or DataContext.seed) and the row's coordinate. "hash": by the value of
        hash_column, so that equal values stay together, in other files, too.
        """
        accept_cluster_arguments("streaming_train_test_split", other)
        return shuffling.streaming_train_test_split(
            self, test_size, split_type=split_type, hash_column=hash_column, seed=seed
        )

    def train_test_split(
        self,
        test_size: int | float,
        *,
        shuffle: bool = False,
        seed: int | None = None,
        stratify: str | None = None,
    ) -> tuple[Dataset, Dataset]:
        """(train, test): the last rows are the test, test_size of them if it is an integer, otherwise this
        fraction.

        Both are ranges of this plan's rows: nothing stays in memory, and functions run again for each; use
        materialize() before if they are slow. The split needs the number of rows and runs the plan if
        metadata do not have it. shuffle: splits a random order, by `seed`. stratify: a column; of each of its
        values the first rows are for training, the last for the test (keeps one bit per row in memory).
        """
        return splitting.train_test_split(self, test_size, shuffle=shuffle, seed=seed, stratify=stratify)

    def split(
        self, n: int, *, equal: bool = False, locality_hints: Sequence[Any] | None = None
    ) -> list[Dataset]:
        """n datasets of consecutive rows, whose sizes differ by at most one row; equal=True: equal sizes; up
        to n - 1 rows at the end are in none of them. train_test_split says what that costs.
        """
        return splitting.split(self, n, equal=equal, locality_hints=locality_hints)

    def split_at_indices(self, indices: Sequence[int]) -> list[Dataset]:
        """The rows before the first index, those from there to the second, ..., and the rest: one dataset
        more than indices. train_test_split says what that costs.
        """
        return splitting.split_at_indices(self, indices)

    def split_proportionately(self, proportions: Sequence[float]) -> list[Dataset]:
        """Datasets with these fractions of the rows, and one with the rest. train_test_split says what that
        costs.
        """
        return splitting.split_proportionately(self, proportions)

    # ---------------------------------------------------------------------------------------------- looking

    def schema(self, fetch_if_missing: bool = True) -> Schema | None:
        """The Schema; None if it cannot be known (a function gives no rows).

        Without functions it is the schema of the first file. With a function it is that of the first rows,
        which a run computes; with fetch_if_missing=False it is then None.
        """
        if self._schema is None:
            found = self._node.schema_plan.schema()
            if found is None and fetch_if_missing:
                with self._run(self._node, prefetch=-1) as run:
                    table = run.next()
                    found = table.schema if table is not None else None
            self._schema = Schema(found) if found is not None else None
        return self._schema

    def columns(self, fetch_if_missing: bool = True) -> list[str] | None:
        """Column names."""
        schema = self.schema(fetch_if_missing)
        return schema.names if schema is not None else None

    def count(self) -> int:
        """The number of rows: from metadata if they have it, otherwise by running the plan."""
        known = self._node.plan.count()
        if known is not None:
            return known
        with (
            self._run(self._project([])._node) as run,
            progress.of_run(run, "count"),
        ):  # reads no columns that it does not need
            return sum(t.num_rows for t in run)

    def input_files(self) -> list[str]:
        """Paths of the files that the plan reads, each once, in the order of the plan. Opens none."""
        return list(dict.fromkeys(self._node.files()))

    def size_bytes(self) -> int:
        """Bytes of all rows in memory. Runs the plan if it must, and keeps no rows."""
        node = self._node
        if node.op == "range":
            return 8 * node.args["n"]
        with self._run(node) as run, progress.of_run(run, "size_bytes", node):
            return sum(t.nbytes for t in run)

    def num_blocks(self) -> int:
        """Raises UnsupportedError (a NotImplementedError): only a MaterializedDataset has blocks."""
        raise UnsupportedError("num_blocks: only a materialized dataset has blocks: call materialize() first")

    def set_name(self, name: str | None) -> None:
        """Sets a name for this object, which repr() shows."""
        if name is not None and not isinstance(name, str):
            raise TypeMismatchError(f"set_name: expected a str, found {type(name).__name__}")
        self._name = name

    @property
    def name(self) -> str | None:
        """The name from set_name(), or None."""
        return self._name

    def explain(self) -> None:
        """Prints the plan as written and as it runs, what a resume does again, and whether each of several
        hosts reads its own rows or all. Reads nothing.
        """
        print(self._node.plan.explain(), end="")

    def _title(self):
        name = "" if self._name is None else f"{self._name}: "
        return f"{type(self).__name__}({name}{self._node.chain()})"

    def _looked_at(self):
        """(what it is, Schema or None, rows to show). Reads rows only if they are there, and of files at most
        the first one's schema; never fails.
        """
        title = self._title()
        try:
            if next(iter(self._node.files()), None) is None and (n := self._node.plan.count()) is not None:
                title += f", {n:,} rows"
            return title, self.schema(fetch_if_missing=False), self._rows_there()
        except Exception:
            return title, None, []

    def _rows_there(self):
        return []

    def __repr__(self) -> str:
        title, schema, rows = self._looked_at()
        title = display.folded(title, self._node.steps())
        if schema is None:
            return f"{title}\nits columns are known after a run; schema() reads the first rows for them"
        return f"{title}\n{display.table(schema, rows)}" if len(schema) else title

    def _repr_html_(self):
        return display.as_html(*self._looked_at())

    @overload
    def stats(self, format: Literal["text", "json"] = ...) -> str: ...
    @overload
    def stats(self, format: Literal["dict"]) -> dict[str, Any]: ...
    def stats(self, format: str = "text") -> str | dict[str, Any]:
        """Statistics of the last run that this object began; of a materialized Dataset, of the run that made
        it. "no run yet", {} or "{}" before the first. Of a run that failed, what it did until then, and
        `error`, the error's text.

        format: "text": a table of the operations, for people; "dict" or "json": all counters, as
        docs/waiting.md ("What is counted") describes them. Times of operations are sums over threads.
        """
        text = self._last_stats or (self._iterator.last_stats if self._iterator else None)
        return run_stats.in_format(text or "{}", format)

    @property
    def context(self) -> DataContext:
        """The DataContext of this process."""
        return DataContext.get_current()

    # -------------------------------------------------------------------------------------------- consuming

    def _run(self, node, **options):
        return Run(node, self, **options, **DataContext.get_current().run_options())

    def _tables(self, node=None, title="take"):
        node = node or self._node
        if node.op == "limit" and node.begins_with(n := node.args["n"]):
            with self._run(node, beginning=True) as run:
                tables = Table.conformed([t for t in run if t.num_rows])
            if sum(t.num_rows for t in tables) == n:
                return tables
        with self._run(node) as run, progress.of_run(run, title, node):
            return Table.conformed([t for t in run if t.num_rows])

    def take(self, limit: int = 20) -> list[Row]:
        """The first rows, as a list of dicts; see iter_rows()."""
        return [
            row for t in self._tables(self.limit(limit)._node) for row in blocks.rows_of(t, writable=True)
        ]

    def take_all(self, limit: int | None = None) -> list[Row]:
        """All rows. InvalidArgument if there are more than `limit`."""
        if limit is None:
            return [row for t in self._tables() for row in blocks.rows_of(t, writable=True)]
        rows = self.take(limit + 1)
        if len(rows) > limit:
            raise InvalidArgument(f"take_all: the dataset has more than {limit} rows")
        return rows

    @overload
    def take_batch(self, batch_size: int = ..., *, batch_format: NumpyFormat = ...) -> NumpyBatch: ...
    @overload
    def take_batch(self, batch_size: int = ..., *, batch_format: Literal["pandas"]) -> pd.DataFrame: ...
    @overload
    def take_batch(self, batch_size: int = ..., *, batch_format: ArrowFormat) -> pa.Table: ...
    def take_batch(self, batch_size: int = 20, *, batch_format: BatchFormat = "default") -> Batch:
        """The first rows as one batch (see iter_batches), with fewer rows if the dataset has fewer."""
        batch_format = check_format(batch_format)
        if not is_whole(batch_size, 1):
            raise InvalidArgument(
                f"take_batch: batch_size: expected a number of at least 1, found {batch_size!r}"
            )
        tables = self._tables(self.limit(batch_size)._node)
        if not tables:
            raise InvalidArgument("take_batch: the dataset is empty")
        return blocks.to_format(
            tables[0] if len(tables) == 1 else Table.concat(tables), batch_format, writable=True
        )

    def show(self, limit: int = 20) -> None:
        """Prints the first rows as a table, cut to the terminal's width. take() has the values."""
        found = list(self._tables(self.limit(limit)._node))
        schema = Schema(found[0].schema) if found else self.schema(fetch_if_missing=False)
        rows = [row for t in found for row in blocks.rows_of(t)]
        print(display.printed(schema, rows) or "no rows")

    def head(self, limit: int = 5) -> None:
        """show() of fewer rows."""
        self.show(limit)

    def materialize(self) -> MaterializedDataset:
        """Runs the plan and keeps all rows: a MaterializedDataset, whose passes read these rows.

        Rows stay in memory up to half of the memory limit. Later rows are in the spill folder
        (DataContext.spill_dir) until the dataset is garbage; DiskFullError if they do not fit there. A
        dataset with rows on disk cannot be pickled. The blocks, hence positions, function batches and seeds,
        depend on the rows alone, not on threads or memory.
        """
        with self._run(self._node) as run, progress.of_run(run, "materialize", self._node):
            node = materializing.node_of(
                run,
                lambda: getattr(self.schema(), "_core", None),
                DataContext.get_current().run_options().get("memory_limit", 0),
                self._node.plan.gives_blocks(),
            )
        made = MaterializedDataset(node)
        made._last_stats = self._last_stats
        return made

    def cache(
        self, path: str | os.PathLike[str], limit: int | str | None = None, *, version: str | None = None
    ) -> Dataset:
        """The same rows, from the folder `path` if they are there; others are computed, and stored there as
        they go by.

        The first epoch fills the folder. Later epochs, later runs and other processes of the machine read
        it, and call no function below the cache; random choices (shuffles, augmentation) belong after it.
        The rows are known by a hash of the plan, of its files (names, sizes, times) and of the code of its
        functions: a change gives other rows, never old ones. Order, seeds and positions are those of the
        dataset without the cache. See docs/caching.md.

        path: a folder on a disk of this machine; it is made.
        limit: bytes of the folder, also as text ("200GB"); None: what the disk has, of which 1/50 stays
            free. Rows that do not fit are computed in each epoch.
        version: part of the hash. With a version, sources and functions that have no hash are allowed; change
            it when they change.

        Functions below the cache see epoch 0. InvalidArgument: an operation below it gives other rows in each
        epoch, or, when it runs, has no hash.
        """
        return Dataset(caching.node_of(self._node, path, limit, version))

    def iterator(self) -> DataIterator:
        """A DataIterator over all rows."""
        return DatasetIterator(self)

    def _consumed(self):
        if self._iterator is None:
            copy = object.__new__(type(self))
            copy.__dict__.update(self.__dict__)
            self._iterator = DatasetIterator(copy, of=self)
        return self._iterator

    def __bool__(self) -> bool:
        return True

    if not TYPE_CHECKING:  # checkers mark these uses as errors

        def __getattr__(self, name):
            raise hints.no_attribute(self, name)

        def __iter__(self):
            raise TypeMismatchError(
                "a Dataset is not iterable: use iter_rows(), iter_batches() or iter_torch_batches(); "
                + _FOR_TORCH
            )

        def __len__(self):
            raise TypeMismatchError(
                "a Dataset has no len(): count() counts the rows, and may run the plan; " + _FOR_TORCH
            )

        def __getitem__(self, row):
            if isinstance(row, (str, list)):
                names = [row] if isinstance(row, str) else row
                raise TypeMismatchError(
                    f"a Dataset has no [{row!r}]: select_columns({names!r}) is a Dataset of these columns, "
                    f"and col({names[0] if names else 'name'!r}) a column in an expression"
                )
            raise TypeMismatchError(
                "a Dataset has no rows by number: use limit(), take() or split_at_indices(); " + _FOR_TORCH
            )

    def shard(
        self,
        rank: int | None = None,
        world_size: int | None = None,
        *,
        equal: bool = True,
        tail: Tail = None,
        lanes: int | None = None,
    ) -> DataIterator:
        """This process's share of one pass that all ranks of a launcher read together: a DataIterator.

        Each rank calls it; rank and world_size come from the launcher's environment (torchrun, accelerate,
        mpirun, srun, ...: docs/launchers.md). The ranks of a host share one engine, which runs in the process
        that came first. Rows, steps, equal and tail (which counts instead of equal) are those of
        streaming_split: step s of rank r holds the rows [(s*n + r) * B, +B) of the epoch.
        state_dict() of any rank is a state of all ranks, after the steps that this rank has taken; a run with
        another number of ranks can resume from it. Without a launcher the share is the whole dataset.

        lanes=n: the order of n lanes, ranges of the rows whose batches come in turn. On several hosts each
        reads the lanes of its ranks; the usual n is 12 there, and 1 on one host. All numbers of hosts give
        the same order for the same n. It has no effect on plans without lanes, of which each host reads all
        rows (explain() says which). A position that is restored has its number of lanes, which stays.

        Raises PeerError if another rank dies or raises, or does not come within
        DataContext.stall_timeout_s, and MismatchError if the ranks read other data or batches.
        """
        tail = splitting.tail("shard", equal if tail is None else False, tail)
        return shares.share(self, rank, world_size, tail, lanes)

    def streaming_split(
        self,
        n: int,
        *,
        equal: bool = False,
        locality_hints: Sequence[Any] | None = None,
        tail: Tail = None,
        replicas: int = 1,
    ) -> list[DataIterator]:
        """n DataIterators that share one pass: step s of rank r holds the rows [(s*n + r) * B, +B) of the
        epoch, where B is the batch size.

        equal=True: all ranks get equally many batches of equally many rows; up to n - 1 rows of an epoch go
        to no rank. equal=False: all rows; the last batches may be short or missing on some ranks. tail
        replaces equal and decides about the rows after the last full step: "drop" (as equal=True), "uneven"
        (as equal=False), or "pad": all ranks get equally many batches and rows, and all rows; up to n - 1
        rows of the last step come again, and all batches have a column __pad__ of bools, true for the
        repeated rows. stats() has dropped_rows and padded_rows.

        replicas=k: ranks 0 to k - 1 get the same batches in the same order, then ranks k to 2k - 1, and so
        on, as the members of a tensor-parallel group need; the rows are divided among the n / k groups. All
        ranks of all groups have one position.


        The iterators belong to this process (one thread for each) unless headrace.train sends them to its
        workers. An epoch begins when all iterators have begun it. In a rank of a launcher with n ranks,
        [rank] is what shard() returns, and the others belong to the processes of their ranks.
        """
        if not is_whole(n, 1):
            raise InvalidArgument(f"streaming_split: n: expected at least 1, found {n!r}")
        splitting.check_hints("streaming_split", n, locality_hints)
        tail = splitting.tail("streaming_split", equal, tail)
        if not is_whole(replicas, 1) or n % replicas:
            raise InvalidArgument(
                f"streaming_split: replicas: expected a divisor of the {n} ranks, found {replicas!r}"
            )
        made = shares.of_launcher(self, n, tail)
        if made is not None and replicas > 1:
            raise UnsupportedError(
                "streaming_split(replicas=...) in a rank of a launcher: expected a TorchTrainer, or "
                "shard(rank=group, world_size=groups) in one process of each group"
            )
        if made is not None:
            return made
        owner = SplitOwner(self, n, tail, int(replicas))
        return [SplitIterator(LocalSource(owner, rank), n, rank) for rank in range(n)]

    def to_pandas(self, limit: int | None = None) -> pd.DataFrame:
        """All rows as a DataFrame. InvalidArgument if there are more than `limit`."""
        pandas = package("pandas", "to_pandas")
        tables = self._limited(limit, "to_pandas")
        if not tables:
            schema = self.schema()
            return (
                blocks.to_format(Table.empty(schema._core), check_format("pandas"))
                if schema is not None
                else pandas.DataFrame()
            )
        return blocks.to_format(
            tables[0] if len(tables) == 1 else Table.concat(tables), check_format("pandas")
        )

    def to_dict(self, limit: int | None = None) -> dict[str, list[Any]]:
        """All rows as columns: a dict of name -> list of Python values. InvalidArgument if there are more
        than `limit`. take_all() gives rows.
        """
        tables = self._limited(limit, "to_dict")
        found: dict[str, list[Any]] = {name: [] for name in self._names()}
        for table in tables:
            for row in table.to_pylist():
                for name, value in row.items():
                    found[name].append(value)
        return found

    def to_polars(self, limit: int | None = None) -> Any:
        """All rows as a polars.DataFrame, which shares the memory where Polars can. InvalidArgument if there
        are more than `limit`.
        """
        polars = package("polars", "to_polars")
        tables = self._limited(limit, "to_polars")
        schema = tables[0].schema if tables else getattr(self.schema(), "_core", None)
        return polars.DataFrame() if schema is None else polars.DataFrame(ArrowStream(schema, tables))

    def _limited(self, limit, where):
        if limit is None:
            return self._tables()
        tables = self._tables(self.limit(limit + 1)._node)
        if sum(t.num_rows for t in tables) > limit:
            raise InvalidArgument(
                f"{where}: the dataset has more than {limit} rows; "
                f"limit({limit}).{where}() takes the first ones, and limit=None all"
            )
        return tables

    def to_arrow(self) -> pa.Table:
        """All rows as a pyarrow.Table; without pyarrow as an object with __arrow_c_stream__. Shares the
        memory.
        """
        tables = self._tables(self._cut_node())
        schema = tables[0].schema if tables else getattr(self.schema(), "_core", None)
        if schema is None:
            schema = Table.build({}).schema
        stream = ArrowStream(schema, tables)
        try:
            return blocks.table_to_arrow(stream)
        except ImportError:
            return stream

    def _cut_node(self):
        """The node of the same rows in tables that depend on the rows alone, not on threads or time."""
        return Node("fragments", {}, [self._node])

    def _block_tables(self):
        return self._tables(self._cut_node())

    def _blocks(self):
        """All rows as one table per block; one empty table if there are none."""
        tables = self._block_tables()
        schema = None if tables else self.schema()
        return [Table.empty(schema._core)] if schema is not None else tables

    def to_arrow_refs(self) -> list[pa.Table]:
        """All rows as a list of pyarrow.Tables, one per block, in place of Ray's references. Shares the
        engine's memory.
        """
        return [blocks.table_to_arrow(t) for t in self._blocks()]

    def to_pandas_refs(self) -> list[pd.DataFrame]:
        """All rows as a list of DataFrames, one per block, in place of Ray's references."""
        return [blocks.to_format(t, check_format("pandas")) for t in self._blocks()]

    def to_numpy_refs(self, *, column: str | None = None) -> list[Any]:
        """All rows as a list of dicts of column -> array, one per block, or of arrays of `column`, in place
        of Ray's references.
        """
        if column is None:
            return [blocks.table_to_numpy(t, writable=True) for t in self._blocks()]
        made = self.select_columns([column])._blocks()
        return [blocks.table_to_numpy(t, writable=True)[column] for t in made]

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows as an Arrow stream, in tables as the run computes them; releasing it ends the run."""
        run = self._run(self._node)
        return run.feed.stream(self._node.plan.schema(), run)

    # ----------------------------------------------------------------------------------------------- copying

    @staticmethod
    def deserialize_lineage(serialized_ds: bytes) -> Dataset:
        """The dataset of serialize_lineage(). The bytes must come from a trusted place: they can run any
        code.
        """
        import pickle

        found = pickle.loads(serialized_ds)
        if not isinstance(found, Dataset):
            raise TypeMismatchError(f"deserialize_lineage: expected a Dataset, found {type(found).__name__}")
        return found

    def copy(self) -> Self:
        """The same plan as another object, with its own count of epochs."""
        made = type(self)(self._node)
        made._name = self._name
        return made


class ArrowStream:
    """Tables with __arrow_c_stream__, which can be called more than once."""

    def __init__(self, schema, tables):
        self._schema = schema
        self._tables = tables

    def __arrow_c_schema__(self):
        return self._schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema=None):
        return Table.stream(self._schema, self._tables)


class MaterializedDataset(Dataset):
    """A dataset that holds its rows: in memory, and on disk those that do not fit there."""

    def num_blocks(self) -> int:
        """Number of blocks: the given tables, the blocks of repartition() or of the files, or parts of them
        of some megabytes. The rows alone decide where they end.
        """
        args = self._node.args
        return len(args["tables"]) if "tables" in args else args["rows"].num_fragments

    def size_bytes(self) -> int:
        """Bytes of all rows, as if all of them were in memory."""
        args = self._node.args
        return sum(t.nbytes for t in args["tables"]) if "tables" in args else args["rows"].nbytes

    def materialize(self) -> MaterializedDataset:
        return self

    def _block_tables(self):
        args = self._node.args
        return (
            Table.conformed([t for t in args["tables"] if t.num_rows])
            if "tables" in args
            else args["rows"].tables()
        )

    def _rows_there(self):
        return self.take(display.ROWS)


materialized_by(MaterializedDataset)

__all__ = [
    "ActorPoolStrategy",
    "ArrowStream",
    "Dataset",
    "MaterializedDataset",
    "Schema",
    "TaskPoolStrategy",
]
