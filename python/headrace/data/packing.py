"""Documents of tokens as rows of one length, and as batches of about one length: checks the arguments of
Dataset.pack() and Dataset.batch_by_length().
"""

from collections.abc import Collection

from headrace._core import InvalidArgument, TypeMismatchError
from headrace.data.context import is_whole
from headrace.data.plan import Node
from headrace.settings import check

_STRATEGIES = ("concat", "first_fit", "best_fit")
_LONG_DOCUMENTS = ("split", "truncate", "drop")
_LONG_ROWS = ("error", "drop", "alone")
_MOST_BUCKETS = 256


def _choice(what, value, choices, method="pack"):
    if value not in choices:
        raise InvalidArgument(
            f"{method}: {what}: expected one of {', '.join(map(repr, choices))}, found {value!r}"
        )
    return choices.index(value)


def _whole(what, value):
    if not is_whole(value):
        raise TypeMismatchError(f"pack: {what}: expected an integer, found {value!r}")
    return int(value)


def _columns(columns):
    if columns is None:
        return None
    names = [columns] if isinstance(columns, str) else columns
    if not isinstance(names, Collection) or not len(names) or not all(isinstance(n, str) for n in names):
        raise TypeMismatchError(f"pack: columns: expected names of columns, found {columns!r}")
    names = list(names)
    if len(set(names)) != len(names):
        raise InvalidArgument(f"pack: columns: a name comes twice: {names!r}")
    return names


def _values(what, given, columns, default=None):
    """A list with a value for each column, for the engine; None: the engine's default for all."""
    if given is None:
        return None
    if not isinstance(given, dict):
        if columns is not None and len(columns) > 1:
            raise InvalidArgument(
                f"pack: {what}: expected a dict with a value for each of the columns {', '.join(columns)}, "
                f"found {given!r}"
            )
        return (_whole(what, given),)
    if columns is None:
        raise InvalidArgument(f"pack: {what}: a dict needs columns=, found {given!r}")
    for name in given:
        if name not in columns:
            raise InvalidArgument(f"pack: {what}: {name!r} is none of the columns {', '.join(columns)}")
    for name in columns:
        if name not in given and default is None:
            raise InvalidArgument(f"pack: {what}: no value for column {name!r}")
    return tuple(_whole(f"{what}[{name!r}]", given.get(name, default)) for name in columns)


def _name(what, value):
    if value is not None and (not isinstance(value, str) or not value):
        raise TypeMismatchError(f"pack: {what}: expected the name of a column, or None, found {value!r}")
    return value or ""


def pack(
    dataset,
    seq_len,
    strategy,
    *,
    columns,
    long_documents,
    open_bins,
    drop_last,
    pad_token_id,
    bos_token_id,
    eos_token_id,
    segment_ids,
    position_ids,
    loss_mask,
):
    """The node of Dataset.pack()."""
    columns = _columns(columns)
    open_bins = _whole("open_bins", open_bins)
    if open_bins < 1:
        raise InvalidArgument(f"pack: open_bins: expected 1 to 1024, found {open_bins}")
    args = {
        "seq_len": _whole("seq_len", seq_len),
        "strategy": _choice("strategy", strategy, _STRATEGIES),
        "long_documents": _choice("long_documents", long_documents, _LONG_DOCUMENTS),
        "columns": columns,
        "open_bins": open_bins,
        "drop_last": check("pack: drop_last", drop_last, "flag"),
        "pad": _values("pad_token_id", pad_token_id, columns, 0),
        "bos": _values("bos_token_id", bos_token_id, columns),
        "eos": _values("eos_token_id", eos_token_id, columns),
        "segment_ids": _name("segment_ids", segment_ids),
        "position_ids": _name("position_ids", position_ids),
        "loss_mask": _name("loss_mask", loss_mask),
    }
    return Node("pack", args, [dataset._node])


def _at_least_one(what, value, most):
    """The number, or 0 for None, the engine's default."""
    if value is None:
        return 0
    if not is_whole(value):
        raise TypeMismatchError(f"batch_by_length: {what}: expected an integer, found {value!r}")
    if not 1 <= value <= most:
        raise InvalidArgument(f"batch_by_length: {what}: expected 1 to {most}, found {value}")
    return int(value)


def _buckets(buckets, n_buckets):
    """(a tuple of bounds or None, their number or 0)"""
    if buckets is None:
        return None, _at_least_one("n_buckets", n_buckets, _MOST_BUCKETS)
    if n_buckets is not None:
        raise InvalidArgument("batch_by_length: expected buckets or n_buckets, found both")
    if isinstance(buckets, (str, dict)) or not hasattr(buckets, "__iter__"):
        raise TypeMismatchError(f"batch_by_length: buckets: expected a list of lengths, found {buckets!r}")
    bounds = tuple(buckets)
    if not all(is_whole(b) for b in bounds):
        raise TypeMismatchError(f"batch_by_length: buckets: expected integers, found {buckets!r}")
    bounds = tuple(int(b) for b in bounds)
    ascending = all(a < b for a, b in zip(bounds, bounds[1:], strict=False))
    if not ascending or not 1 <= len(bounds) <= _MOST_BUCKETS or bounds[0] < 1:
        raise InvalidArgument(
            f"batch_by_length: buckets: expected 1 to {_MOST_BUCKETS} ascending lengths of at least 1, found "
            f"{buckets!r}"
        )
    return bounds, len(bounds)


def batch_by_length(
    dataset, column, *, max_tokens, buckets, n_buckets, max_rows, max_wait, long_rows, drop_last
):
    """The node of Dataset.batch_by_length()."""
    if not isinstance(column, str):
        raise TypeMismatchError(f"batch_by_length: column: expected a name, found {column!r}")
    if max_tokens is None:
        raise TypeMismatchError("batch_by_length: max_tokens: expected an integer, found None")
    bounds, n = _buckets(buckets, n_buckets)
    args = {
        "column": column,
        "max_tokens": _at_least_one("max_tokens", max_tokens, 1 << 40),
        "buckets": bounds,
        "n_buckets": n,
        "max_rows": _at_least_one("max_rows", max_rows, 1 << 20),
        "max_wait": _at_least_one("max_wait", max_wait, 1 << 40),
        "long_rows": _choice("long_rows", long_rows, _LONG_ROWS, "batch_by_length"),
        "drop_last": check("batch_by_length: drop_last", drop_last, "flag"),
    }
    return Node("batch_by_length", args, [dataset._node])
