"""from_huggingface: datasets of the package `datasets`, without a copy of their memory-mapped Arrow files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace._core import TypeMismatchError
from headrace.data.datasource.datasource import ranges, read_tasks, task

if TYPE_CHECKING:
    from headrace.data.dataset import Dataset


TASK_ROWS = 10_000


def _picked(dataset, begin, end):
    yield dataset[begin:end]


def _streamed(dataset, batch_rows):
    yield from dataset.with_format("arrow").iter(batch_size=batch_rows)


# Steps that give the same rows in the same order for a whole stream and for its shards.
_BY_SHARDS = {
    "ExamplesIterable",
    "ArrowExamplesIterable",
    "RebatchedArrowExamplesIterable",
    "SelectColumnsIterable",
    "FormattedExamplesIterable",
    "MappedExamplesIterable",
    "FilteredExamplesIterable",
}


def _shards(dataset):
    """The stream as a list of streams. It has one item if a step counts, shuffles or sees batches: take(),
    skip(), shuffle(), map(with_indices=True), map(batched=True), interleaving, and all unknown steps.
    """
    n = getattr(dataset, "num_shards", 1)
    step = getattr(dataset, "_ex_iterable", None)
    while step is not None:
        if type(step).__name__ not in _BY_SHARDS:
            return [dataset]
        if getattr(step, "with_indices", False) or getattr(step, "batched", False):
            return [dataset]
        step = getattr(step, "ex_iterable", None)
    if n < 2 or getattr(dataset, "_ex_iterable", None) is None or getattr(dataset, "_shuffling", None):
        return [dataset]
    return [dataset.shard(num_shards=n, index=i) for i in range(n)]


def from_huggingface(
    dataset: Any,
    parallelism: int = -1,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
) -> Dataset:
    """The rows of a datasets.Dataset or datasets.IterableDataset; select one from a DatasetDict first.

    A Dataset shares its Arrow tables: memory-mapped ones stay mapped, without a copy. After a select(),
    shuffle() or the like, threads follow its indices, TASK_ROWS at a time. Worker processes stream an
    IterableDataset, shard by shard if that gives the same rows as iteration. override_num_blocks: see
    from_items(), for tables in memory.
    """
    from headrace.data.in_memory import from_arrow

    kind = type(dataset).__name__
    if kind.endswith("DatasetDict"):
        raise TypeMismatchError(
            f"from_huggingface: expected a Dataset, such as dataset['train'], found a {kind}"
        )
    if hasattr(dataset, "data") and hasattr(dataset, "_indices"):
        if dataset._indices is None:
            return from_arrow(dataset.data.table, override_num_blocks=override_num_blocks)
        plain = dataset.with_format("arrow")
        return read_tasks(
            "huggingface",
            [task(_picked, plain, *r) for r in ranges(len(dataset), TASK_ROWS)],
            compute="threads",
        )
    if not hasattr(dataset, "with_format") or not hasattr(dataset, "__iter__"):
        raise TypeMismatchError(f"from_huggingface: expected a datasets.Dataset, found {kind}")
    tasks = [task(_streamed, s, 1000) for s in _shards(dataset)]
    return read_tasks("huggingface", tasks, concurrency=concurrency)
