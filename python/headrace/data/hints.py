"""Hints for names that a Dataset or a function lacks: what pandas, Polars, Spark, tf.data, torch or Hugging
Face call it.
"""

import difflib
import inspect
import sys

from headrace import absent
from headrace.settings import NoAttribute

ELSEWHERE = {
    "agg": "aggregate() or groupby().aggregate()",
    "annotate": "with_column()",
    "apply": "map() for rows, map_batches() for batches",
    "as_numpy_iterator": "iter_batches()",
    "assign": "with_column() or add_column()",
    "astype": "with_column(name, col(name).cast(...))",
    "batch": "iter_batches(batch_size=)",
    "cast": "with_column(name, col(name).cast(...))",
    "collect": "take_all() for rows, materialize() to keep them",
    "concat": "union()",
    "concatenate": "union()",
    "describe": "summary()",
    "drop": "drop_columns()",
    "dropna": "filter(col(name).is_not_null())",
    "dtypes": "schema()",
    "execute": "materialize()",
    "fillna": "preprocessors.SimpleImputer",
    "foreach": "iter_rows()",
    "group_by": "groupby()",
    "groupBy": "groupby()",
    "fill_null": "preprocessors.SimpleImputer",
    "group": "groupby()",
    "iloc": "take(), limit() or split_at_indices()",
    "interleave": "mix() or union()",
    "info": "schema() and count(), or summary()",
    "isna": "filter(col(name).is_null())",
    "iter": "iter_rows()",
    "iterrows": "iter_rows()",
    "itertuples": "iter_rows()",
    "lazy": "the Dataset itself: it is a plan, and take() or iter_batches() runs it",
    "loc": "filter(), take() or limit()",
    "merge": "join()",
    "nrow": "count()",
    "num_rows": "count()",
    "nunique": "unique(), or aggregate() with CountDistinct",
    "order_by": "sort()",
    "persist": "materialize()",
    "prefetch": "iter_batches(prefetch_batches=)",
    "query": "filter(expr=)",
    "random_split": "train_test_split() or split_proportionately()",
    "rename": "rename_columns()",
    "reset_index": "drop_columns() for a column; rows have no index",
    "save": "write_parquet(), write_csv() or another writer",
    "select": "select_columns()",
    "shape": "count() and columns()",
    "shuffle": "random_shuffle(), or iter_batches(local_shuffle_buffer_size=)",
    "skip": "split_at_indices()",
    "sort_values": "sort()",
    "tail": "sort(descending=True).take()",
    "take_while": "filter() or limit()",
    "to_list": "take_all()",
    "to_csv": "write_csv()",
    "to_json": "write_json()",
    "to_numpy": "take_batch(), or iter_batches()",
    "to_parquet": "write_parquet()",
    "to_table": "to_arrow()",
    "toPandas": "to_pandas()",
    "where": "filter()",
    "write": "write_parquet(), write_csv() or another writer",
    "with_format": "iter_batches(batch_format=)",
}


OF_GROUPS = {
    "agg": "aggregate(Mean('x'), ...), or its methods",
    "apply": "map_groups()",
    "avg": "mean()",
    "first": "aggregate(First('x'))",
    "last": "aggregate(Last('x'))",
    "median": "aggregate(Quantile('x'))",
    "n_unique": "aggregate(CountDistinct('x'))",
    "nunique": "aggregate(CountDistinct('x'))",
    "quantile": "aggregate(Quantile('x', q=0.5))",
    "size": "count()",
    "stddev": "std()",
    "transform": "map_groups()",
}
# Keyword arguments of others, and what to write here; the first that the function has.
ARGUMENTS = {
    "sep": ["delimiter"],
    "quotechar": ["quote"],
    "escapechar": ["escape"],
    "decimal": ["decimal_point"],
    "skiprows": ["skip_rows"],
    "usecols": ["columns"],
    "dtype": ["dtypes", "schema"],
    "schema_overrides": ["dtypes", "schema"],
    "na_values": ["null_values"],
    "on_bad_lines": ["ragged"],
    "ignore_errors": ["ragged", "on_error"],
    "include_file_paths": ["include_paths"],
    "hive_partitioning": ["partitioning"],
    "union_by_name": ["unify"],
    "partition_by": ["partition_cols"],
    "partitionBy": ["partition_cols"],
    "overwrite": ["mode"],
    "random_state": ["seed"],
    "ascending": ["descending"],
    "reverse": ["descending"],
    "by": ["key"],
    "how": ["join_type"],
    "num_proc": ["concurrency"],
    "num_workers": ["concurrency", "num_threads"],
    "num_worker": ["num_workers", "concurrency"],
    "func": ["fn"],
    "function": ["fn"],
    "args": ["fn_args"],
    "kwargs": ["fn_kwargs"],
}
INSTEAD = {
    "nrows": "limit(n) after the read",
    "n_rows": "limit(n) after the read",
    "index_col": "an ordinary column; drop_columns() removes it",
    "parse_dates": "dtypes={'column': 'timestamp[s]'}, or nothing: ISO dates are found",
    "low_memory": "nothing: files are read in parts",
    "chunksize": "iter_batches(batch_size=) after the read",
    "lines": "nothing: the layout is found",
    "orient": "nothing: the layout is found",
    "engine": "nothing: there is one engine",
    "index": "nothing: rows have no index",
    "inplace": "the new Dataset that the call returns",
    "axis": "nothing: functions get rows or batches",
    "batched": "map_batches()",
    "batch_format": "map_batches()",
    "batch_size": "map_batches()",
    "zero_copy_batch": "map_batches()",
    "remove_columns": "drop_columns()",
    "with_indices": "monotonically_increasing_id() as a column",
}


def _arguments_of(where):
    """The names in the signature of a public function or method; an empty list if it is not found."""
    data = sys.modules["headrace.data"]
    owners = (data, data.Dataset, data.grouped_data.GroupedData)
    function = next((f for owner in owners if (f := getattr(owner, where, None))), None)
    return list(inspect.signature(function).parameters) if function else []


def no_group_method(groups, name):
    """The AttributeError for a name that GroupedData lacks."""
    text = f"'GroupedData' object has no attribute {name!r}"
    if name in OF_GROUPS:
        text += f": use {OF_GROUPS[name]}"
    elif near := difflib.get_close_matches(name, (n for n in dir(groups) if n[0] != "_"), 1, 0.7):
        text += f": did you mean {near[0]!r}?"
    return NoAttribute(text)


def unexpected(where, name, others=()):
    """The TypeError for a keyword argument that a function lacks. others: names that it takes by `**`."""
    text = f"{where}() got an unexpected keyword argument {name!r}"
    known = [*_arguments_of(where), *others]
    ours = next((n for n in ARGUMENTS.get(name, ()) if n in known), None)
    if where == "with_columns" and name not in ("compute", "concurrency"):
        text += f": write with_columns({{{name!r}: ...}})"
    elif ours is not None:
        text += f": use {ours}="
    elif name in INSTEAD:
        text += f": use {INSTEAD[name]}" if not INSTEAD[name].startswith("nothing") else f": {INSTEAD[name]}"
    elif near := difflib.get_close_matches(name, known, 1, 0.7):
        text += f": did you mean {near[0]!r}?"
    return TypeError(text)


def _columns(ds):
    """The names of the columns if they are known, without a run."""
    try:
        return ds.columns(fetch_if_missing=False) or ()
    except Exception:
        return ()


def no_attribute(value, name):
    """The AttributeError for a name that `value` does not have."""
    text = f"{type(value).__name__!r} object has no attribute {name!r}"
    if because := absent.ABSENT.get(f"headrace.data.dataset.Dataset.{name}"):
        text += f": {because}"
    elif name in ELSEWHERE:
        text += f": use {ELSEWHERE[name]}"
    elif name in _columns(value):
        text += f": col({name!r}) is the column in an expression, select_columns([{name!r}]) a Dataset of it"
    elif near := difflib.get_close_matches(name, (n for n in dir(value) if n[0] != "_"), 1, 0.7):
        text += f": did you mean {near[0]!r}?"
    return NoAttribute(text)
