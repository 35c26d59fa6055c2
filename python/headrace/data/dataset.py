"""Dataset: a lazy, immutable plan, with Ray Data's methods."""

import functools

from headrace import lazy_module
from headrace._core import InvalidArgument, Table, TypeMismatchError, UnsupportedError
from headrace.data import ordering, write
from headrace.data.context import DataContext, accept_cluster_arguments, check_format, is_whole
from headrace.data.functions import (
    BATCH_PIECE_ROWS,
    ROW_PIECE_BYTES,
    ROW_PIECE_ROWS,
    ActorPoolStrategy,
    TaskPoolStrategy,
    function_node,
    workers,
)
from headrace.data.iterator import DatasetIterator, LocalSource, SplitIterator, SplitOwner, materialized_by
from headrace.data.plan import Node, Run
from headrace.data.progress import run_line
from headrace.data.schema import Schema

blocks = lazy_module("headrace.data.blocks")  # imports numpy
aggregates = lazy_module("headrace.data.aggregate")
expressions = lazy_module("headrace.data.expressions")
combining = lazy_module("headrace.data.combining")
grouping = lazy_module("headrace.data.grouping")
joining = lazy_module("headrace.data.joining")
shuffling = lazy_module("headrace.data.shuffling")
splitting = lazy_module("headrace.data.splitting")
keeping = lazy_module("headrace.data.keeping")
summaries = lazy_module("headrace.data.summary")


def _expr_name(expr):
    name = getattr(expr, "name", None)
    if name is None:
        raise InvalidArgument(f"with_columns: {expr!r} has no name; give it one with .alias(name)")
    return name


class Dataset:
    """Rows of named columns, described by a plan. Methods return new datasets and read nothing (but the
    first file's schema, to check column names); rows flow when they are asked for.

    Order is part of the result: the same rows in the same order whatever the number of threads, worker
    processes and ranks.

    Functions (map, map_batches, flat_map, filter, add_column) run in worker processes by default:
    compute="threads" runs them in threads of this process, "inline" in the thread that asks for rows.
    concurrency=n: at most n workers; (m, n): at least m; (m, n, i): i at first. num_cpus, num_gpus: of a
    worker; with num_gpus it sees GPUs of its own. A class is instantiated once in each worker, with
    fn_constructor_args and fn_constructor_kwargs. Functions may be async: a worker has several calls of them
    in flight. Before each batch the generators of random, numpy.random
    and torch are seeded from (DataContext.seed, epoch, position), so that results can be repeated (not with
    "threads" and async functions, which share them). A function that raises ends the run with its own
    exception; a worker that dies ends it with PeerError, naming the operator, the rows, the process and how
    it ended, unless max_retries=n has the batch done again by another. DataContext.max_errored_blocks: so
    many batches may fail and are left out. See docs/functions.md.
    """

    def __init__(self, node):
        self._plan_node = node
        self._iterator = None
        self._schema = None
        self._last_stats = None
        self._name = None

    @property
    def _node(self):
        return self._plan_node.here()

    @staticmethod
    def _plain(node):
        """A Dataset of this node, whatever class it is asked of."""
        return Dataset(node)

    def __reduce__(self):
        return type(self), (self._plan_node,), {"_name": self._name}

    # -------------------------------------------------------------------------------------------- functions

    def _with_function(self, method, kind, fn, **arguments):
        return Dataset(function_node(self._node, method, kind, fn, **arguments))

    def map_batches(
        self,
        fn,
        *,
        batch_size=None,
        compute=None,
        batch_format="default",
        zero_copy_batch=True,
        fn_args=None,
        fn_kwargs=None,
        fn_constructor_args=None,
        fn_constructor_kwargs=None,
        concurrency=None,
        udf_modifying_row_count=True,
        **other,
    ):
        """fn(batch) -> batch, for tables of rows.

        batch: with batch_format "default" or "numpy" a dict of column -> array (rows, *shape), read-only
        views with zero_copy_batch=True (the dict itself may be changed); "pandas" a DataFrame; "pyarrow" a
        pyarrow.Table. fn returns a dict of arrays, lists or tensors, a DataFrame, or Arrow data, of any
        number of rows; a generator yields several. batch_size=n: each call gets exactly n rows in order,
        but for the last; None: up to 4,096 rows of one source fragment. udf_modifying_row_count=False
        promises a row for each row (an error otherwise), which lets limits move before it.
        """
        if batch_size in ("default", "auto"):
            batch_size = None
        if batch_size is not None and not is_whole(batch_size, 1):
            raise InvalidArgument(
                f"map_batches: batch_size {batch_size!r}: expected a number of at least 1, or None"
            )
        return self._with_function(
            "map_batches",
            "batches",
            fn,
            compute=compute,
            concurrency=concurrency,
            options={"piece_rows": BATCH_PIECE_ROWS, "one_to_one": not udf_modifying_row_count},
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
        fn,
        *,
        compute=None,
        fn_args=None,
        fn_kwargs=None,
        fn_constructor_args=None,
        fn_constructor_kwargs=None,
        concurrency=None,
        **other,
    ):
        """fn(row) -> row, for each row: dicts of column -> value.

        Values that fn gets: Python scalars, str, bytes, None; arrays (writable, its own) for tensors and
        lists of numbers, of two dimensions for lists of lists of equal length. Values that it may return:
        these, numpy scalars, torch tensors, lists, dicts, dates, decimals. Arrays of two or more dimensions
        that agree in shape become a tensor column.
        """
        return self._with_function(
            "map",
            "rows",
            fn,
            compute=compute,
            concurrency=concurrency,
            options={"piece_rows": ROW_PIECE_ROWS, "piece_bytes": ROW_PIECE_BYTES, "one_to_one": True},
            fn_args=fn_args,
            fn_kwargs=fn_kwargs,
            fn_constructor_args=fn_constructor_args,
            fn_constructor_kwargs=fn_constructor_kwargs,
            **other,
        )

    def flat_map(
        self,
        fn,
        *,
        compute=None,
        fn_args=None,
        fn_kwargs=None,
        fn_constructor_args=None,
        fn_constructor_kwargs=None,
        concurrency=None,
        **other,
    ):
        """fn(row) -> list of rows (or a generator of them), for each row; see map()."""
        return self._with_function(
            "flat_map",
            "flat",
            fn,
            compute=compute,
            concurrency=concurrency,
            options={"piece_rows": ROW_PIECE_ROWS, "piece_bytes": ROW_PIECE_BYTES},
            fn_args=fn_args,
            fn_kwargs=fn_kwargs,
            fn_constructor_args=fn_constructor_args,
            fn_constructor_kwargs=fn_constructor_kwargs,
            **other,
        )

    def filter(
        self,
        fn=None,
        expr=None,
        *,
        compute=None,
        fn_args=None,
        fn_kwargs=None,
        fn_constructor_args=None,
        fn_constructor_kwargs=None,
        concurrency=None,
        **other,
    ):
        """The rows for which fn(row) is true, unchanged; or those for which `expr` is.

        expr: an expression of headrace.data.expressions, as col("x") > 3, or the same as text: "x > 3".
        Rows for which it is null are left out. It is computed by the engine, and what statistics of the
        files rule out is not read.
        """
        if expr is None and isinstance(fn, (str, expressions.Expr)):
            fn, expr = None, fn
        if expr is not None:
            if fn is not None:
                raise InvalidArgument("filter: a function or an expression, not both")
            given = (fn_args, fn_kwargs, fn_constructor_args, fn_constructor_kwargs)
            if any(g is not None for g in given):
                raise InvalidArgument(
                    "filter: an expression takes no arguments, fn_args and the like are a function's"
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
            options={"piece_rows": ROW_PIECE_ROWS, "piece_bytes": ROW_PIECE_BYTES, "filter": True},
            fn_args=fn_args,
            fn_kwargs=fn_kwargs,
            fn_constructor_args=fn_constructor_args,
            fn_constructor_kwargs=fn_constructor_kwargs,
            **other,
        )

    def add_column(self, col, fn, *, batch_format="pandas", compute=None, concurrency=None, **other):
        """Adds the column `col`, or replaces it: fn(batch) -> a Series, array or list with a value for each
        row.
        """
        if not isinstance(col, str):
            raise TypeMismatchError(f"add_column: expected a name, not {type(col).__name__}")
        return self._with_function(
            "add_column",
            "column",
            fn,
            compute=compute,
            concurrency=concurrency,
            options={"piece_rows": BATCH_PIECE_ROWS, "one_to_one": True},
            batch_format=check_format(batch_format),
            column=col,
            **other,
        )

    # ---------------------------------------------------------------------------------------------- columns

    def with_column(self, column_name, expr, *, compute=None, **other):
        """All columns, and `column_name`: an expression of headrace.data.expressions, computed by the
        engine. It takes the place of a column of that name. compute: where functions in it run, as for
        map_batches.
        """
        accept_cluster_arguments("with_column", other)
        return self.with_columns({column_name: expr}, compute=compute)

    def with_columns(self, exprs=None, *more_exprs, compute=None, **other):
        """All columns, and these: {name: expression}, or a list of expressions with names, or
        unnest(struct), or several of them. All of them see the columns as they were before.
        """
        accept_cluster_arguments("with_columns", other)
        pairs = [p for given in (exprs, *more_exprs) if given is not None for p in self._named(given)]
        names = [name for name, _ in pairs]
        for name in names:
            if not isinstance(name, str):
                raise TypeMismatchError(f"with_columns: expected a name, not {type(name).__name__}")
        workers("with_columns", compute, None)
        op = lambda n, c: Node("with_columns", {"names": names, "exprs": c}, [n])  # noqa: E731
        return Dataset(self._computed(names, [e for _, e in pairs], op, compute))

    def _named(self, exprs):
        """(name, expression) of what with_columns takes."""
        if isinstance(exprs, dict):
            return list(exprs.items())
        if isinstance(exprs, expressions.Star):
            return []
        if isinstance(exprs, expressions.Unnest):
            added = "<unnest>"
            found = self.with_columns({added: exprs.expr}).schema().base_schema.field(added).type
            if not str(found).startswith("struct"):
                raise TypeMismatchError(f"unnest: {exprs.expr!r} is {found}, expected a struct")
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
        """op(node, the engine's expressions) -> a node, over this and what functions in the expressions
        add.
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

    def select_columns(self, cols, *, compute=None, concurrency=None, **other):
        """These columns, in this order. InvalidArgument names one that is not there."""
        accept_cluster_arguments("select_columns", other)
        cols = [cols] if isinstance(cols, str) else list(cols)
        if len(set(cols)) != len(cols):
            raise InvalidArgument(f"select_columns: a name stands there twice: {cols}")
        return self._project(cols)

    def drop_columns(self, cols, *, compute=None, concurrency=None, **other):
        """All columns but these. After a function its first rows are computed, to know what there is."""
        accept_cluster_arguments("drop_columns", other)
        cols = [cols] if isinstance(cols, str) else list(cols)
        names = self._known_names()
        if names is None:
            return Dataset(self._node)
        for name in cols:
            if name not in names:
                raise InvalidArgument(f"drop_columns: no column '{name}'; there are {', '.join(names)}")
        return self._project([n for n in names if n not in cols])

    def rename_columns(self, names, *, concurrency=None, **other):
        """names: {old: new}, or a list of as many names as there are columns."""
        accept_cluster_arguments("rename_columns", other)
        old = self._known_names()
        if old is None:  # of no rows: any names will do
            old = list(names)
        if isinstance(names, dict):
            for name in names:
                if name not in old:
                    raise InvalidArgument(f"rename_columns: no column '{name}'; there are {', '.join(old)}")
            new = [names.get(n, n) for n in old]
        else:
            new = list(names)
            if len(new) != len(old):
                raise InvalidArgument(f"rename_columns: {len(new)} names for {len(old)} columns")
        if len(set(new)) != len(new):
            raise InvalidArgument(f"rename_columns: two columns would have one name: {new}")
        return self._project(old, new)

    def _known_names(self):
        """Names of the columns; None: nobody knows them, since a function gives no rows."""
        known = self._node.names() if self._schema is None and self._node.plan.schema() is None else None
        if known is not None:
            return known
        schema = self.schema()
        return schema.names if schema is not None else None

    def _names(self):
        return self._known_names() or []

    # ------------------------------------------------------------------------------------------------- rows

    def join(
        self,
        ds,
        join_type,
        num_partitions=None,
        on=("id",),
        right_on=None,
        left_suffix=None,
        right_suffix=None,
        *,
        partition_size_hint=None,
        aggregator_ray_remote_args=None,
        validate_schemas=False,
    ):
        """Rows of both datasets that have equal keys, side by side: the columns of this one, then those of
        `ds` but for its keys; columns that both have get the suffixes.

        join_type: "inner", "left_outer", "right_outer", "full_outer", "left_semi", "right_semi", "left_anti",
        "right_anti". on, right_on: names of the keys here and in `ds`; they must have the same types. A null
        equals nothing. num_partitions and the other arguments mean nothing here.

        The order is that of this dataset's rows, those of one in the order of `ds`; then, of right and full
        joins, the rows of `ds` without a partner (of right_semi and right_anti: the order of `ds`). `ds`, or
        this dataset where it is known to be much smaller, is held in memory if it fits into an eighth of the
        memory limit; else both go to the disk by parts.
        """
        if not isinstance(ds, Dataset):
            raise TypeError(f"join: {ds!r} is not a Dataset")
        return joining.join(self, ds, join_type, on, right_on, left_suffix, right_suffix)

    def groupby(self, key, num_partitions=None):
        """Rows by the values of a column or several, for `aggregate`, `count`, `sum` and so on; None: all
        in one group. A key may be an expression with a name: `(col("x") % 10).alias("bucket")`.
        num_partitions means nothing here."""
        return grouping.GroupedData(self, key)

    def aggregate(self, *aggs):
        """Aggregates (`headrace.data.aggregate`) of all rows, as a dict by their names."""
        return grouping.aggregate(self, aggs)

    def sum(self, on=None, ignore_nulls=True):
        """The sum of a column; of several (None: of all) a dict."""
        return grouping.of_columns(self, aggregates.Sum, on, "sum", ignore_nulls=ignore_nulls)

    def min(self, on=None, ignore_nulls=True):
        """The least value of a column; of several a dict."""
        return grouping.of_columns(self, aggregates.Min, on, "min", ignore_nulls=ignore_nulls)

    def max(self, on=None, ignore_nulls=True):
        """The greatest value of a column; of several a dict."""
        return grouping.of_columns(self, aggregates.Max, on, "max", ignore_nulls=ignore_nulls)

    def mean(self, on=None, ignore_nulls=True):
        """The mean of a column; of several a dict."""
        return grouping.of_columns(self, aggregates.Mean, on, "mean", ignore_nulls=ignore_nulls)

    def std(self, on=None, ddof=1, ignore_nulls=True):
        """The standard deviation of a column; of several a dict."""
        return grouping.of_columns(self, aggregates.Std, on, "std", ddof=ddof, ignore_nulls=ignore_nulls)

    def unique(self, column, ignore_nulls=False):
        """The different values of a column, a list, in the order in which they are first seen."""
        return grouping.of_columns(self, aggregates.Unique, column, "unique", ignore_nulls=ignore_nulls)

    def summary(self, columns=None, override_dtype_agg_mapping=None):
        """Statistics of the columns by their types, a DatasetSummary: to_pandas(), get_column_stats(name).

        Numbers have count, mean, min, max, std, the median, and the percentages of missing and zero values,
        booleans all but the median, decimals but that and zeros; times count, min, max and what is missing;
        text and bytes count, what is missing, and the ten most frequent values; other types the first two.
        override_dtype_agg_mapping: a dict of type (of pyarrow, or its name) -> function that gives the
        aggregates for a column's name.

        One pass; the median holds its column's values, and the most frequent ones the different values.
        """
        return summaries.summarize(self, columns, override_dtype_agg_mapping)

    def limit(self, limit):
        """The first `limit` rows. No more is read than they need."""
        if not is_whole(limit, 0):
            raise InvalidArgument(f"limit {limit!r}: expected a number of at least 0")
        return Dataset(Node("limit", {"n": limit}, [self._node]))

    # ------------------------------------------------------------------------------------------------- order

    def sort(self, key, descending=False, boundaries=None, *, null_placement="at_end"):
        """All rows, ordered by key: a column's name, an expression, or a list of them, the first one first.

        descending: one bool for all keys, or one for each. Rows with equal keys keep their order. Nulls,
        and NaN before them, stand at the end, descending or not; null_placement="at_start" (for all keys,
        or one for each) puts them first. Text is ordered by its bytes, that is by code points. boundaries is
        accepted: Ray cuts blocks there, the rows are the same. TypeMismatchError if a column has no order
        (lists, structs).

        Held: all rows. In memory up to about a quarter of the memory limit; above it as sorted runs in the
        spill folder (HEADRACE_SPILL_DIR, else TMPDIR, else /tmp), compressed, and merged from there.
        """
        return Dataset(ordering.sort(self, key, descending, boundaries, null_placement=null_placement))

    def random_shuffle(self, *, seed=None, num_blocks=None, **ray_remote_args):
        """All rows in a random order: a function of seed, epoch and where each row came from, so that
        it does not depend on threads, memory or how tables are cut.

        seed: None for DataContext.seed, a new order in each epoch; an integer: one order for all epochs,
        as in Ray; RandomSeedConfig says both. num_blocks is accepted and means nothing here. Held as by
        sort().
        """
        return Dataset(ordering.random_shuffle(self, seed, num_blocks, **ray_remote_args))

    def repartition(
        self,
        num_blocks=None,
        target_num_rows_per_block=None,
        *,
        strict=False,
        shuffle=False,
        keys=None,
        sort=False,
    ):
        """The same rows in other blocks: what iter_batches(batch_size=None) gives one by one, and
        materialize() keeps.

        num_blocks: so many, of equal size but for one row, in order; with shuffle=True in a random order
        (always the same one); with keys, rows whose keys are equal come into one block, by hash, and with
        sort=True in the order of the keys. Blocks that would have no rows do not come.
        target_num_rows_per_block: blocks of exactly so many rows, the last one shorter (strict or not).

        Held: with num_blocks all rows, as by sort(), and each block whole; with target_num_rows_per_block one
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

    def union(self, *other):
        """All rows of this dataset, then those of the others in turn.

        The columns are those of this one, then the new ones of each other, of types that hold all values
        (int64 and double: double); what a dataset lacks is null. TypeMismatchError where there is no such
        type, or where a function behind the first dataset gives a column that is not known before its rows.
        """
        for o in other:
            if not isinstance(o, Dataset):
                raise TypeMismatchError(f"union: expected a Dataset, not {type(o).__name__}")
        if not other:
            return self
        return Dataset(Node("union", {}, [self._node, *(o._node for o in other)]))

    def zip(self, *other):
        """The columns of all side by side, row by row. A name that is taken gets "_1", then "_2" and so on.

        Columns are shared, not copied. Of each dataset a few tables wait for the others. All must have as
        many rows: InvalidArgument at the end of the run says how many each has.
        """
        return combining.zip(self, *other)

    def mix(self, *other, weights=None, stopping_condition="stop_on_longest_drop"):
        """Rows of all in proportion of the weights (alike, if none are given), exact by row: the next one
        comes from the dataset that is the furthest behind its share. TypeMismatchError if their schemas
        differ.

        stopping_condition: a headrace.data.MixStoppingCondition.
        """
        return combining.mix(self, *other, weights=weights, stopping_condition=stopping_condition)

    def randomize_block_order(self, *, seed=None):
        """The same rows, blocks of them (row groups, pieces of files, tables in memory) in a random order:
        files, and the blocks of each. They are read in that order; nothing is held.

        seed: None for DataContext.seed, a new order in each epoch; an integer: one order for all epochs, as
        in Ray; RandomSeedConfig says both. It works through maps, filters, columns and unions (whose inputs
        stay one after another), and blocks of repartition(num_blocks) come in a random order. Behind anything
        else, a limit, a sort, a function of exact batches, blocks are 256 rows that are next to each other in
        their source, and all rows are held, as by sort(): explain() shows shuffle_blocks.
        """
        return shuffling.randomize_block_order(self, seed=seed)

    def random_sample(self, fraction, *, seed=None):
        """About `fraction` of the rows, in their order: each by chance, which belongs to the row's place in
        its source, not to how it is read.

        seed: an integer gives the same rows in each epoch; None another sample in each, of
        DataContext.seed; or a RandomSeedConfig.
        """
        return shuffling.random_sample(self, fraction, seed=seed)

    def streaming_train_test_split(
        self, test_size, *, split_type="random", hash_column=None, seed=None, **other
    ):
        """(train, test): each row goes to the test with the probability test_size, the same rows in every
        pass. Nothing is read for it, nothing held.

        split_type="random": by seed (or DataContext.seed) and the row's place. "hash": by the value of
        hash_column, so that equal values stay together, in other files too.
        """
        accept_cluster_arguments("streaming_train_test_split", other)
        return shuffling.streaming_train_test_split(
            self, test_size, split_type=split_type, hash_column=hash_column, seed=seed
        )

    def train_test_split(self, test_size, *, shuffle=False, seed=None, stratify=None):
        """(train, test): the last rows are for the test, test_size of them if it is an integer, else this
        fraction.

        Both are ranges of this plan's rows: nothing is held in memory, and functions run again for each; use
        materialize() before if they are slow. Rows are counted for it, by running the plan if metadata do
        not tell. shuffle: of a random order, by `seed`. stratify: a column; of each of its values the first
        rows are for training, the last for the test (a bit a row is held).
        """
        return splitting.train_test_split(self, test_size, shuffle=shuffle, seed=seed, stratify=stratify)

    def split(self, n, *, equal=False, locality_hints=None):
        """n datasets of rows that follow each other, of sizes that differ by one row at most; equal=True: by
        none, up to n - 1 rows at the end are left out. See train_test_split for what that costs.
        """
        return splitting.split(self, n, equal=equal, locality_hints=locality_hints)

    def split_at_indices(self, indices):
        """The rows before the first of these numbers, those from there to the second, ..., and the rest: one
        dataset more than there are indices. See train_test_split for what that costs.
        """
        return splitting.split_at_indices(self, indices)

    def split_proportionately(self, proportions):
        """Datasets with these fractions of the rows, and one with the rest. See train_test_split for what
        that costs.
        """
        return splitting.split_proportionately(self, proportions)

    # ---------------------------------------------------------------------------------------------- looking

    def schema(self, fetch_if_missing=True):
        """The Schema; None if there is none to be known (no rows behind a function).

        Before any function it is the first file's. After one it is that of its first rows, which are
        computed for it, unless fetch_if_missing=False, which gives None then.
        """
        if self._schema is None:
            found = self._node.plan.schema()
            if found is None and fetch_if_missing:
                with self._run(self._node, prefetch=-1) as run:
                    table = run.next()
                    found = table.schema if table is not None else None
            self._schema = Schema(found) if found is not None else None
        return self._schema

    def columns(self, fetch_if_missing=True):
        """Column names."""
        schema = self.schema(fetch_if_missing)
        return schema.names if schema is not None else None

    def count(self):
        """The number of rows: from metadata where they tell, else by running the plan."""
        known = self._node.plan.count()
        if known is not None:
            return known
        with self._run(self._project([])._node) as run, run_line(run):  # what no row needs is not read
            return sum(t.num_rows for t in run)

    def input_files(self):
        """Paths of the files that are read, each once, in the order of the plan. Opens none."""
        return list(dict.fromkeys(self._node.files()))

    def size_bytes(self):
        """Bytes of all rows in memory. Of what is not there yet the plan is run, and nothing of it kept."""
        node = self._node
        if node.op == "range":
            return 8 * node.args["n"]
        with self._run(node) as run, run_line(run):
            return sum(t.nbytes for t in run)

    def num_blocks(self):
        """Only a MaterializedDataset has a number of blocks: UnsupportedError, a NotImplementedError."""
        raise UnsupportedError(
            "num_blocks: rows are not in blocks until they are in memory: materialize() first"
        )

    def set_name(self, name):
        """A name of the user's for this object, shown by repr()."""
        if name is not None and not isinstance(name, str):
            raise TypeMismatchError(f"set_name: expected a str, not {type(name).__name__}")
        self._name = name

    @property
    def name(self):
        """What set_name() gave; None before."""
        return self._name

    def explain(self):
        """Prints the plan, as it was written and as it is run. Reads nothing."""
        print(self._node.plan.explain(), end="")

    def __repr__(self):
        name = "" if self._name is None else f"{self._name}: "
        return f"{type(self).__name__}({name}{self._node.chain()})"

    def stats(self):
        """What the last run that this object began did, as JSON text; '{}' before the first."""
        return self._last_stats or (self._iterator.stats() if self._iterator else "{}")

    @property
    def context(self):
        """The DataContext of this process."""
        return DataContext.get_current()

    # -------------------------------------------------------------------------------------------- consuming

    def _run(self, node, **options):
        return Run(node, self, **options, **DataContext.get_current().run_options())

    def _tables(self, node=None):
        with self._run(node or self._node) as run, run_line(run):
            return Table.conformed([t for t in run if t.num_rows])

    def take(self, limit=20):
        """The first rows, as a list of dicts; see iter_rows()."""
        return [
            row for t in self._tables(self.limit(limit)._node) for row in blocks.rows_of(t, writable=True)
        ]

    def take_all(self, limit=None):
        """All rows. InvalidArgument if there are more than `limit`."""
        if limit is None:
            return [row for t in self._tables() for row in blocks.rows_of(t, writable=True)]
        rows = self.take(limit + 1)
        if len(rows) > limit:
            raise InvalidArgument(f"take_all: the dataset has more than {limit} rows")
        return rows

    def take_batch(self, batch_size=20, *, batch_format="default"):
        """The first rows as one batch (see iter_batches), of fewer rows if there are not that many."""
        batch_format = check_format(batch_format)
        if not is_whole(batch_size, 1):
            raise InvalidArgument(f"take_batch: batch_size {batch_size!r}: expected a number of at least 1")
        tables = self._tables(self.limit(batch_size)._node)
        if not tables:
            raise InvalidArgument("take_batch: the dataset is empty")
        return blocks.to_format(
            tables[0] if len(tables) == 1 else Table.concat(tables), batch_format, writable=True
        )

    def show(self, limit=20):
        """Prints the first rows."""
        for row in self.take(limit):
            print(row)

    def materialize(self):
        """Runs the plan and keeps all rows: a MaterializedDataset, whose passes start there.

        They stay in memory up to half of the memory limit. What comes after that lies in the spill folder
        (DataContext.spill_dir) until the dataset is gone; DiskFullError if it does not fit there. A dataset
        of which a part is on disk cannot be pickled.
        """
        with self._run(self._node) as run, run_line(run):
            node = keeping.kept(
                run,
                lambda: getattr(self.schema(), "_core", None),
                DataContext.get_current().run_options().get("memory_limit", 0),
            )
        return MaterializedDataset(node)

    def iterator(self):
        """A DataIterator over all rows."""
        return DatasetIterator(self)

    def _own_iterator(self):
        if self._iterator is None:
            self._iterator = DatasetIterator(self)
        return self._iterator

    @functools.wraps(DatasetIterator.iter_batches)
    def iter_batches(self, **arguments):
        return self._own_iterator().iter_batches(**arguments)

    @functools.wraps(DatasetIterator.iter_torch_batches)
    def iter_torch_batches(self, **arguments):
        return self._own_iterator().iter_torch_batches(**arguments)

    @functools.wraps(DatasetIterator.iter_rows)
    def iter_rows(self, **arguments):
        return self._own_iterator().iter_rows(**arguments)

    @functools.wraps(DatasetIterator.to_torch)
    def to_torch(self, **arguments):
        return self._own_iterator().to_torch(**arguments)

    def __iter__(self):
        raise TypeMismatchError(
            "a Dataset is not iterable: iter_rows(), iter_batches(), iter_torch_batches() are; to_torch() is "
            "for torch's DataLoader"
        )

    def __len__(self):
        raise TypeMismatchError(
            "a Dataset has no len(): count() counts the rows, for which it may have to run the plan; torch's "
            "DataLoader takes to_torch()"
        )

    def __bool__(self):
        return True

    def __getitem__(self, row):
        raise TypeMismatchError(
            "a Dataset has no rows by number: limit(), take(), split_at_indices() take some; torch's "
            "DataLoader takes to_torch()"
        )

    def streaming_split(self, n, *, equal=False, locality_hints=None):
        """n DataIterators that share one pass: step s of rank r is rows [(s*n + r) * B, +B) of the epoch, B
        the batch size.

        equal=True: each rank gets as many batches of as many rows as the others; up to n - 1 rows of an
        epoch are left out. equal=False: all rows; the last batches may be short or missing on some ranks.
        The iterators belong to this process (a thread for each) until headrace.train hands them to its
        workers. An epoch begins when all have begun it.
        """
        if not is_whole(n, 1):
            raise InvalidArgument(f"streaming_split: {n!r} shares: expected at least 1")
        if locality_hints is not None and len(locality_hints) != n:
            raise InvalidArgument(f"streaming_split: {len(locality_hints)} locality_hints for {n} shares")
        owner = SplitOwner(self, n, "equal" if equal else "uneven")
        return [SplitIterator(LocalSource(owner, rank), n, rank) for rank in range(n)]

    def to_pandas(self, limit=None):
        """All rows as a DataFrame. InvalidArgument if there are more than `limit`."""
        import pandas

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

    def _limited(self, limit, where):
        if limit is None:
            return self._tables()
        tables = self._tables(self.limit(limit + 1)._node)
        if sum(t.num_rows for t in tables) > limit:
            raise InvalidArgument(f"{where}: the dataset has more than {limit} rows")
        return tables

    def to_arrow(self):
        """All rows as a pyarrow.Table, or without pyarrow as an object with __arrow_c_stream__. Shares the
        memory.
        """
        tables = self._tables()
        schema = tables[0].schema if tables else getattr(self.schema(), "_core", None)
        if schema is None:
            schema = Table.build({}).schema
        stream = ArrowStream(schema, tables)
        try:
            return blocks.table_to_arrow(stream)
        except ImportError:
            return stream

    def _blocks(self):
        """All rows, as the tables they come in; one of no rows if there are none."""
        tables = self._tables()
        schema = None if tables else self.schema()
        return [Table.empty(schema._core)] if schema is not None else tables

    def to_arrow_refs(self):
        """All rows as a list of pyarrow.Tables, one for each block. They stand for Ray's references; they
        share the engine's memory.
        """
        return [blocks.table_to_arrow(t) for t in self._blocks()]

    def to_pandas_refs(self):
        """All rows as a list of DataFrames, one for each block. They stand for Ray's references."""
        return [blocks.to_format(t, check_format("pandas")) for t in self._blocks()]

    def to_numpy_refs(self, *, column=None):
        """All rows as a list of dicts of column -> array, one for each block, or of arrays of `column`. They
        stand for Ray's references.
        """
        if column is None:
            return [blocks.table_to_numpy(t, writable=True) for t in self._blocks()]
        made = self.select_columns([column])._blocks()
        return [blocks.table_to_numpy(t, writable=True)[column] for t in made]

    def __arrow_c_stream__(self, requested_schema=None):
        """The rows as they are computed, as an Arrow stream; it ends the run when it is released."""
        run = self._run(self._node)
        return run.feed.stream(self._node.plan.schema(), run)

    # -------------------------------------------------------------------------------------------- writing

    @functools.wraps(write.write_parquet)
    def write_parquet(self, path, **arguments):
        return write.write_parquet(self, path, **arguments)

    @functools.wraps(write.write_csv)
    def write_csv(self, path, **arguments):
        return write.write_csv(self, path, **arguments)

    @functools.wraps(write.write_json)
    def write_json(self, path, **arguments):
        return write.write_json(self, path, **arguments)

    @functools.wraps(write.write_arrow)
    def write_arrow(self, path, **arguments):
        return write.write_arrow(self, path, **arguments)

    @functools.wraps(write.write_numpy)
    def write_numpy(self, path, *, column, **arguments):
        return write.write_numpy(self, path, column=column, **arguments)

    @functools.wraps(write.write_images)
    def write_images(self, path, column, file_format="png", **arguments):
        return write.write_images(self, path, column, file_format, **arguments)

    @functools.wraps(write.write_tfrecords)
    def write_tfrecords(self, path, **arguments):
        return write.write_tfrecords(self, path, **arguments)

    @functools.wraps(write.write_webdataset)
    def write_webdataset(self, path, **arguments):
        return write.write_webdataset(self, path, **arguments)

    @functools.wraps(write.write_sql)
    def write_sql(self, sql, connection_factory, **arguments):
        return write.write_sql(self, sql, connection_factory, **arguments)

    @functools.wraps(write.write_datasink)
    def write_datasink(self, datasink, **arguments):
        return write.write_datasink(self, datasink, **arguments)

    # ---------------------------------------------------------------------------------------- odds and ends

    def copy(self):
        """The same plan as another object, with its own count of epochs."""
        made = type(self)(self._node)
        made._name = self._name
        return made


class ArrowStream:
    """Tables with __arrow_c_stream__, which may be asked for more than once."""

    def __init__(self, schema, tables):
        self._schema = schema
        self._tables = tables

    def __arrow_c_schema__(self):
        return self._schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema=None):
        return Table.stream(self._schema, self._tables)


class MaterializedDataset(Dataset):
    """A dataset whose rows are kept: in memory, or if there are too many of them also on disk."""

    def num_blocks(self):
        """Number of tables that the rows lie in."""
        args = self._node.args
        return len(args["tables"]) if "tables" in args else args["keep"].num_tables

    def size_bytes(self):
        """Bytes of all rows, as if all of them were in memory."""
        args = self._node.args
        return sum(t.nbytes for t in args["tables"]) if "tables" in args else args["keep"].nbytes

    def materialize(self):
        return self


materialized_by(MaterializedDataset)

__all__ = [
    "ActorPoolStrategy",
    "ArrowStream",
    "Dataset",
    "MaterializedDataset",
    "Schema",
    "TaskPoolStrategy",
]
