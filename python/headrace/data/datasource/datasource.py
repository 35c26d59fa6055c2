"""Rows that Python produces: a Datasource divides a source into ReadTasks, which return blocks of rows.

The list of tasks is the canonical order of the source: the rows of task 0 come first, whichever task ends
first. Tasks run like map functions: in worker processes, in threads, or inline, some of them ahead of the
consumer, within its memory budget.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from headrace import absent
from headrace._core import InvalidArgument, TypeMismatchError
from headrace.data.block_metadata import BlockMetadata
from headrace.data.context import accept_cluster_arguments
from headrace.data.dataset import Dataset
from headrace.data.plan import Node

if TYPE_CHECKING:
    from headrace.data.annotations import Compute
    from headrace.data.dataset import Dataset


DEFAULT_TASKS = 200  # the `parallelism` for a Datasource, which may return another number of tasks


class ReadTask:
    """A part of a source. read_fn() returns an iterable of blocks: dicts of column -> values, lists of row
    dicts, DataFrames, or Arrow data. It may be a generator. A worker process calls it, so the function and
    all it refers to must pickle (cloudpickle).
    """

    def __init__(
        self,
        read_fn: Callable[[], Iterable[Any]],
        metadata: BlockMetadata | None = None,
        schema: Any = None,
        per_task_row_limit: int | None = None,
    ) -> None:
        if not callable(read_fn):
            raise TypeMismatchError(f"ReadTask: expected a function, found {type(read_fn).__name__}")
        self.read_fn = read_fn
        self.metadata: BlockMetadata | None = metadata or BlockMetadata()
        self.schema = schema
        self.per_task_row_limit = per_task_row_limit

    def __call__(self) -> Iterable[Any]:
        return self.read_fn()


class Datasource:
    """A source of rows. Subclasses define get_read_tasks()."""

    def get_name(self) -> str:
        """The name in repr() and in errors."""
        name = type(self).__name__
        return name.removesuffix("Datasource") or name

    def estimate_inmemory_data_size(self) -> int | None:
        """Bytes of all rows in memory; None: unknown."""
        return None

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
    ) -> list[ReadTask]:
        """A list of ReadTasks, about `parallelism` of them. The dataset has the rows of all tasks, in the
        order of the list. per_task_row_limit and data_context are None.
        """
        raise NotImplementedError(f"{type(self).__name__}.get_read_tasks")

    @property
    def supports_distributed_reads(self) -> bool:
        """False: the tasks must run in this process."""
        return True


class _Tasks:
    """The function that runs tasks: its batch has the number of one task; it returns the task's blocks."""

    def __init__(self, name, tasks):
        self.__name__ = name
        self.__qualname__ = f"read_datasource.{name}"
        self.tasks = tasks

    def __call__(self, batch):
        from headrace.data.blocks import columns_of_rows

        (number,) = batch["task"].tolist()
        blocks = self.tasks[number]()
        if isinstance(blocks, dict) or not hasattr(blocks, "__iter__"):
            raise TypeMismatchError(
                f"task {number} of {self.__name__}: expected an iterable of blocks, "
                f"found {type(blocks).__name__}"
            )
        return (columns_of_rows(block) for block in blocks)


def read_tasks(name, tasks, *, compute=None, concurrency=None):
    """A Dataset of the rows of several tasks, in their order: ReadTasks, or functions without arguments that
    return blocks. tasks.pieces, where it has that, is (stored pieces that a task reads, bytes of each in
    memory), means for statistics.
    """
    if not len(tasks):
        raise InvalidArgument(f"{name}: expected at least one read task")
    blocks = {"n_blocks": len(tasks)}  # a task is a ticket
    numbers = Dataset(Node("range", {"n": len(tasks), "name": "task"} | blocks))
    pieces = getattr(tasks, "pieces", (0, 0))
    return numbers._with_function(
        "read",
        "batches",
        _Tasks(name, tasks),
        compute=compute,
        concurrency=concurrency,
        options={"block_rows": 1, **({"pieces": pieces} if pieces[0] else {})},
    )


def read_datasource(
    datasource: Datasource,
    *,
    compute: Compute = None,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    parallelism: int = -1,
    **read_args: Any,
) -> Dataset:
    """The rows of a Datasource.

    Worker processes run its tasks; compute="threads" or "inline" keeps them in this process, as does a source
    without supports_distributed_reads. override_num_blocks: the `parallelism` for the source. Arguments for
    Ray's clusters have no effect, others are an error: the constructor of a source takes its own.
    """
    accept_cluster_arguments("read_datasource", {"parallelism": parallelism, **read_args})
    if not isinstance(datasource, Datasource):
        raise TypeMismatchError(f"read_datasource: expected a Datasource, found {type(datasource).__name__}")
    if override_num_blocks is not None and override_num_blocks < 1:
        raise InvalidArgument(
            f"read_datasource: override_num_blocks: expected at least 1, found {override_num_blocks}"
        )
    tasks = list(datasource.get_read_tasks(override_num_blocks or DEFAULT_TASKS))
    for task in tasks:
        if not callable(task):
            raise TypeMismatchError(f"read_datasource: expected a ReadTask, found {type(task).__name__}")
    if compute is None and not datasource.supports_distributed_reads:
        compute = "threads"
    return read_tasks(datasource.get_name(), tasks, compute=compute, concurrency=concurrency)


def ranges(n, size):
    """[(begin, end)] that cover 0 .. n - 1 in steps of `size`."""
    return [(begin, min(begin + size, n)) for begin in range(0, n, size)]


def task(function, *args):
    """A task that calls function(*args)."""
    return functools.partial(function, *args)


if not TYPE_CHECKING:
    __getattr__ = absent.hook("headrace.data.datasource.datasource", "headrace.data.datasource")
