"""Hints for names that a Dataset lacks: what pandas, Polars, Spark, tf.data or Hugging Face call it."""

import difflib

from headrace import absent

ELSEWHERE = {
    "agg": "aggregate() or groupby().aggregate()",
    "apply": "map() for rows, map_batches() for batches",
    "as_numpy_iterator": "iter_batches()",
    "assign": "with_column() or add_column()",
    "astype": "with_column(name, col(name).cast(...))",
    "batch": "iter_batches(batch_size=)",
    "cache": "materialize()",
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
    "iloc": "take(), limit() or split_at_indices()",
    "interleave": "mix() or union()",
    "iter": "iter_rows()",
    "merge": "join()",
    "nrow": "count()",
    "num_rows": "count()",
    "order_by": "sort()",
    "persist": "materialize()",
    "prefetch": "iter_batches(prefetch_batches=)",
    "rename": "rename_columns()",
    "select": "select_columns()",
    "shape": "count() and columns()",
    "shuffle": "random_shuffle(), or iter_batches(local_shuffle_buffer_size=)",
    "skip": "split_at_indices()",
    "sort_values": "sort()",
    "tail": "sort(descending=True).take()",
    "take_while": "filter() or limit()",
    "to_list": "take_all()",
    "toPandas": "to_pandas()",
    "with_format": "iter_batches(batch_format=)",
}


def no_attribute(value, name):
    """The AttributeError for a name that `value` does not have."""
    text = f"{type(value).__name__!r} object has no attribute {name!r}"
    if because := absent.ABSENT.get(f"headrace.data.dataset.Dataset.{name}"):
        text += f": {because}"
    elif name in ELSEWHERE:
        text += f": use {ELSEWHERE[name]}"
    elif near := difflib.get_close_matches(name, (n for n in dir(value) if n[0] != "_"), 1, 0.7):
        text += f": did you mean {near[0]!r}?"
    return AttributeError(text)  # without name and obj, from which Python makes a hint of its own
