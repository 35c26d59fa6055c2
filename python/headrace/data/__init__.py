"""Lazy datasets: read, transform, iterate, with the names of Ray Data.

A Dataset is an immutable plan; nothing is read until rows are asked for, and then by the C engine, in an
order that does not depend on threads, processes or memory.
"""

from headrace.data.context import DataContext, ExecutionOptions, ExecutionResources
from headrace.data.dataset import ActorPoolStrategy, Dataset, MaterializedDataset, Schema, TaskPoolStrategy
from headrace.data.iterator import DataIterator, SplitIterator
from headrace.data.read_api import (
    from_arrow,
    from_items,
    from_numpy,
    from_pandas,
    range,
    read_parquet,
    read_text,
)

NodeIdStr = str  # what Ray calls a machine; there is one

__all__ = [
    "ActorPoolStrategy",
    "DataContext",
    "DataIterator",
    "Dataset",
    "ExecutionOptions",
    "ExecutionResources",
    "MaterializedDataset",
    "NodeIdStr",
    "Schema",
    "SplitIterator",
    "TaskPoolStrategy",
    "from_arrow",
    "from_items",
    "from_numpy",
    "from_pandas",
    "range",
    "read_parquet",
    "read_text",
]
