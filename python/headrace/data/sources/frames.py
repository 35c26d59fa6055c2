"""Rows of other libraries' frames, through the Arrow protocol if they have it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace._core import TypeMismatchError, UnsupportedError
from headrace.data.datasource.datasource import read_tasks, task

if TYPE_CHECKING:
    from headrace.data.dataset import Dataset


def _collected(frame):
    yield frame.collect()


def from_polars(df: Any) -> Dataset:
    """The rows of a polars DataFrame (shares the memory), or of a LazyFrame, which each run collects."""
    from headrace.data.in_memory import from_arrow

    if hasattr(df, "collect"):
        return read_tasks("polars", [task(_collected, df)], compute="threads")
    if not hasattr(df, "__arrow_c_stream__"):
        raise TypeMismatchError(f"from_polars: expected a polars DataFrame, found {type(df).__name__}")
    return from_arrow(df)


def _daft_parts(df):
    yield from df.to_arrow_iter()


def from_daft(df: Any) -> Dataset:
    """The rows of a daft DataFrame, which each run computes."""
    if not hasattr(df, "to_arrow_iter"):
        raise TypeMismatchError(f"from_daft: expected a daft DataFrame, found {type(df).__name__}")
    return read_tasks("daft", [task(_daft_parts, df)], compute="threads")


def _dask_part(df, i):
    yield df.partitions[i].compute(scheduler="synchronous")


def from_dask(df: Any) -> Dataset:
    """The rows of a dask DataFrame; a thread computes each partition when a run reaches it."""
    if not hasattr(df, "partitions") or not hasattr(df, "npartitions"):
        raise TypeMismatchError(f"from_dask: expected a dask DataFrame, found {type(df).__name__}")
    return read_tasks("dask", [task(_dask_part, df, i) for i in range(df.npartitions)], compute="threads")


def from_spark(df: Any, *, parallelism: int = None, override_num_blocks: int | None = None) -> Dataset:
    """The rows of a Spark DataFrame (pyspark 4 or later), which Spark collects as Arrow data."""
    from headrace.data.in_memory import from_arrow

    if not hasattr(df, "toArrow"):
        raise UnsupportedError("from_spark: expected a DataFrame with toArrow() (pyspark 4 or later)")
    return from_arrow(df.toArrow())


def from_modin(df: Any) -> Dataset:
    """The rows of a Modin DataFrame, brought into this process as pandas."""
    from headrace.data.in_memory import from_pandas

    if not hasattr(df, "modin"):
        raise TypeMismatchError(f"from_modin: expected a Modin DataFrame, found {type(df).__name__}")
    return from_pandas(df.modin.to_pandas())


def _tf_blocks(dataset):
    from headrace.data.sources.torch import _stream

    yield from _stream(dataset.as_numpy_iterator())


def from_tf(dataset: Any) -> Dataset:
    """The items of a tf.data.Dataset, in the form that from_torch gives."""
    if not hasattr(dataset, "as_numpy_iterator"):
        raise TypeMismatchError(f"from_tf: expected a tf.data.Dataset, found {type(dataset).__name__}")
    return read_tasks("tf", [task(_tf_blocks, dataset)], compute="threads")
