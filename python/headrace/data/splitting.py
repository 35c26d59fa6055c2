"""Splits of a dataset by row numbers. Each part is a range of the plan's rows; nothing stays in memory.

If the files say how many rows they have, a pass does not read the rows before its range. After a filter or a
function that may change the number of rows, a run of the plan counts them first.
"""

import itertools
from collections.abc import Collection
from numbers import Real

import numpy as np

from headrace._core import InvalidArgument, Table, TypeMismatchError
from headrace.data.context import DataContext, is_whole
from headrace.data.plan import ALL_ROWS, Node
from headrace.settings import check, hint

MARK = "__is_train__"
TAILS = {"drop": "equal", "pad": "pad", "uneven": "uneven"}  # the engine's names


def tail(where, equal, tail):
    """The engine's name of a policy for the rows after the last full step of a split."""
    equal = check(f"{where}: equal", equal, "flag")
    if tail is None:
        return "equal" if equal else "uneven"
    if not isinstance(tail, str) or tail not in TAILS:
        raise InvalidArgument(f"{where}: tail: expected 'drop', 'pad' or 'uneven', found {tail!r}")
    if equal and tail == "uneven":
        raise InvalidArgument(f"{where}: tail='uneven' does not give all ranks equal rows (equal=True)")
    return TAILS[tail]


def rows_between(dataset, begin, end=ALL_ROWS):
    """The rows [begin, end), in memory if the dataset is."""
    node = dataset._node
    if node.op == "materialized" and not node.args["rows"].disk_bytes:
        rows = node.args["rows"].slice(begin, end)
        if rows.num_rows:
            return type(dataset)(Node("materialized", {"rows": rows}))
        made = {"tables": [node.args["rows"].slice(0, 1).tables()[0].slice(0, 0)], "what": "materialize"}
        return type(dataset)(Node("tables", made))
    if node.op == "tables":
        return type(dataset)(
            Node("tables", node.args | {"tables": _slice_tables(node.args["tables"], begin, end)})
        )
    return type(dataset)._plain(Node("slice", {"begin": begin, "end": end}, [node]))


def _slice_tables(tables, begin, end):
    out, at = [], 0
    for table in tables:
        first, last = max(begin - at, 0), min(end - at, table.num_rows)
        if first < last:
            out.append(table.slice(first, last - first))
        at += table.num_rows
    return out or [tables[0].slice(0, 0)]


def split_at_indices(dataset, indices):
    """See Dataset.split_at_indices."""
    indices = list(indices)
    if not indices:
        raise InvalidArgument("split_at_indices: expected at least one index")
    if not all(is_whole(i, 0) for i in indices):
        raise InvalidArgument(f"split_at_indices: indices: expected numbers of at least 0, found {indices}")
    if sorted(indices) != indices:
        raise InvalidArgument(f"split_at_indices: indices: expected ascending order, found {indices}")
    borders = [0, *(int(i) for i in indices), ALL_ROWS]
    return [rows_between(dataset, a, b) for a, b in itertools.pairwise(borders)]


def check_hints(what, n, hints):
    """Raises an error unless the hints, which have no effect, are None or n of them."""
    if hints is None:
        return
    if not isinstance(hints, Collection) or isinstance(hints, str):
        raise TypeMismatchError(f"{what}: locality_hints: expected a list or None, found {hints!r}")
    if len(hints) != n:
        raise InvalidArgument(f"{what}: locality_hints: expected {n}, found {len(hints)}")


def split(dataset, n, *, equal=False, locality_hints=None):
    """See Dataset.split."""
    if not is_whole(n) or n <= 0:
        raise InvalidArgument(f"split: n: expected at least 1, found {n!r}")
    check_hints("split", n, locality_hints)
    equal = check("split: equal", equal, "flag")
    count = dataset.count()
    each, more = divmod(count, n)
    sizes = [each] * n if equal else [each + (i < more) for i in range(n)]
    borders = [0, *itertools.accumulate(sizes)]
    return [rows_between(dataset, a, b) for a, b in itertools.pairwise(borders)]


def split_proportionately(dataset, proportions):
    """See Dataset.split_proportionately."""
    proportions = list(proportions)
    if not proportions:
        raise InvalidArgument("split_proportionately: expected at least one proportion")
    if any(not isinstance(p, Real) or isinstance(p, bool) or not p > 0 for p in proportions):
        raise InvalidArgument(f"split_proportionately: expected numbers above 0, found {proportions}")
    if sum(proportions) >= 1:
        raise InvalidArgument(f"split_proportionately: expected a sum below 1, found {proportions}")
    count = dataset.count()
    indices = [int(count * p) for p in np.cumsum(proportions)]
    less = 0
    for i in range(len(indices) - 2, -1, -1):  # each part has at least one row
        indices[i] -= less
        if indices[i] == indices[i + 1]:
            less += 1
            indices[i] -= 1
    if any(i <= 0 for i in indices):
        raise InvalidArgument(f"split_proportionately: {count} rows are too few for {proportions}")
    return split_at_indices(dataset, indices)


def train_test_split(dataset, test_size, *, shuffle=False, seed=None, stratify=None):
    """See Dataset.train_test_split."""
    if isinstance(test_size, bool) or not isinstance(test_size, Real):
        raise TypeMismatchError(
            f"train_test_split: test_size: expected int or float, found {type(test_size).__name__}"
        )
    if shuffle and stratify is not None:
        raise InvalidArgument("train_test_split: expected shuffle=True or stratify, not both")
    if not is_whole(test_size) and not 0 < test_size < 1:
        raise InvalidArgument(
            f"train_test_split: test_size: expected a fraction between 0 and 1, found {test_size}"
        )
    if shuffle:  # one order for all epochs, so that no row is ever in both parts
        dataset = dataset.random_shuffle(seed=DataContext.get_current().seed if seed is None else seed)
    if stratify is not None:
        return _stratified(dataset, test_size, stratify)
    if not is_whole(test_size):
        return tuple(split_proportionately(dataset, [1 - test_size]))
    return tuple(split_at_indices(dataset, [_train_rows(dataset.count(), test_size)]))


def _train_rows(count, test_size):
    if not 0 < test_size < count:
        raise InvalidArgument(
            f"train_test_split: test_size: expected at least 1 and fewer than the {count} rows, found "
            f"{test_size}"
        )
    return count - int(test_size)


# ----------------------------------------------------------------------------------------------- by classes


def _stratified(dataset, test_size, column):
    """Of each class, the first rows for training and the last test_size of them for the test. Memory holds
    one number per row during the count, then one bit per row.
    """
    codes, n_classes = _classes(dataset, column)
    if is_whole(test_size):
        _train_rows(len(codes), test_size)
        test_size = test_size / len(codes)
    counts = np.bincount(codes, minlength=n_classes)
    n_train = counts - (counts * test_size).astype(np.int64)
    order = np.argsort(codes, kind="stable")
    place = np.empty(len(codes), np.int64)  # of each row within its class
    place[order] = np.arange(len(codes)) - np.repeat(np.cumsum(counts) - counts, counts)
    marks = Table.build({MARK: place < n_train[codes]})
    marked = Node("zip", {}, [dataset._node, Node("tables", {"tables": [marks], "what": "stratify"})])
    names = dataset._names()
    return tuple(_where(dataset, marked, names, train) for train in (True, False))


def _where(dataset, marked, names, train):
    from headrace.data.expressions import col

    predicate = col(MARK) if train else ~col(MARK)
    kept = Node("filter", {"expr": predicate._core}, [marked])
    return type(dataset)._plain(Node("project", {"names": names, "new_names": None}, [kept]))


def _classes(dataset, column):
    """(number of the class of each row, number of classes)."""
    names = dataset._known_names()
    if names is not None and column not in names:
        raise InvalidArgument(
            f"train_test_split: no column '{column}' to stratify by; the columns are {', '.join(names)}"
            + hint(column, names)
        )
    known, codes = {}, []
    for batch in (
        dataset.select_columns([column]).iterator().iter_batches(batch_size=None, batch_format="pandas")
    ):
        values = batch[column].to_numpy(dtype=object, na_value=None)
        codes.append(np.fromiter((known.setdefault(v, len(known)) for v in values), np.int64, len(values)))
    return np.concatenate(codes) if codes else np.empty(0, np.int64), len(known)


__all__ = ["rows_between", "split", "split_at_indices", "split_proportionately", "tail", "train_test_split"]
