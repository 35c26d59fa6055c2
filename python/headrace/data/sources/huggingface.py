"""from_huggingface: datasets of the package `datasets`, whose Arrow files are mapped and not copied."""

from headrace._core import TypeMismatchError
from headrace.data.datasource import ranges, read_tasks, task

TASK_ROWS = 10_000


def _picked(dataset, begin, end):
    yield dataset[begin:end]


def _streamed(dataset, batch_rows):
    yield from dataset.with_format("arrow").iter(batch_size=batch_rows)


def from_huggingface(dataset, parallelism=-1, concurrency=None, override_num_blocks=None):
    """The rows of a datasets.Dataset or datasets.IterableDataset; a DatasetDict has to be indexed first.

    A Dataset's Arrow tables are shared: what is memory-mapped stays so, and nothing is copied. After a
    select(), shuffle() or the like its indices are followed, in pieces, in threads. An IterableDataset is
    streamed shard by shard, in worker processes.
    """
    from headrace.data.in_memory import from_arrow

    kind = type(dataset).__name__
    if kind.endswith("DatasetDict"):
        raise TypeMismatchError(
            f"from_huggingface: a {kind}: take one of its datasets, as in dataset['train']"
        )
    if hasattr(dataset, "data") and hasattr(dataset, "_indices"):
        if dataset._indices is None:
            return from_arrow(dataset.data.table)
        plain = dataset.with_format("arrow")
        return read_tasks(
            "huggingface",
            [task(_picked, plain, *r) for r in ranges(len(dataset), TASK_ROWS)],
            compute="threads",
        )
    if not hasattr(dataset, "with_format") or not hasattr(dataset, "__iter__"):
        raise TypeMismatchError(f"from_huggingface: expected a datasets.Dataset, not {kind}")
    n = getattr(dataset, "num_shards", 1)
    shards = [dataset.shard(num_shards=n, index=i) for i in range(n)] if n > 1 else [dataset]
    return read_tasks("huggingface", [task(_streamed, s, 1000) for s in shards], concurrency=concurrency)
