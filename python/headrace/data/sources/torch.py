"""from_torch: the items of a torch Dataset as rows."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from headrace._core import TypeMismatchError
from headrace.data.datasource.datasource import ranges, read_tasks, task
from headrace.data.in_memory import from_items
from headrace.udf import starter

if TYPE_CHECKING:
    from headrace.data.dataset import Dataset


TASK_ITEMS = 256
BLOCK_ITEMS = 64


def _value(item):
    """A PIL image as an array; other values stay."""
    if hasattr(item, "convert") and hasattr(item, "getbands"):
        import numpy as np

        return np.asarray(item)
    return item


def row_of(item):
    """An item as a row: a dict as it is, a tuple as item_0, item_1, ..., another value as `item`."""
    if isinstance(item, dict):
        return {str(k): _value(v) for k, v in item.items()}
    if isinstance(item, (tuple, list)):
        return {f"item_{i}": _value(v) for i, v in enumerate(item)}
    return {"item": _value(item)}


def _items(dataset, begin, end):
    for at in range(begin, end, BLOCK_ITEMS):
        yield [row_of(dataset[i]) for i in range(at, min(at + BLOCK_ITEMS, end))]


def _stream(dataset):
    block = []
    for item in dataset:
        block.append(row_of(item))
        if len(block) == BLOCK_ITEMS:
            yield block
            block = []
    if block:
        yield block


def from_torch(dataset: Any, local_read: bool = False, *, concurrency: int | None = None) -> Dataset:
    """The items of a torch Dataset. Map-style: worker processes read dataset[i], in the order of i; iterable:
    one task reads it.

    A dict becomes a row; a tuple the columns item_0, item_1, ...; another value the column item. Tensors of
    equal shape become a tensor column, PIL images arrays as Pillow makes them. local_read=True reads in this
    process, for datasets that do not pickle. concurrency: worker processes at most, as of map_batches; a
    dataset that waits for a store gains from more of them than there are CPUs.
    """
    compute = "threads" if local_read else None
    if not local_read and "torch" in sys.modules:
        starter.fork_for(("torch",))  # the dataset's workers import it, which takes a second or two
    if hasattr(dataset, "__len__") and len(dataset) == 0:
        return from_items([])
    if hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__"):
        tasks = [task(_items, dataset, *r) for r in ranges(len(dataset), TASK_ITEMS)]
    elif hasattr(dataset, "__iter__"):
        tasks = [task(_stream, dataset)]
    else:
        raise TypeMismatchError(f"from_torch: expected a torch Dataset, found {type(dataset).__name__}")
    return read_tasks("torch", tasks, compute=compute, concurrency=concurrency)
