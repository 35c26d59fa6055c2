"""Methods of Dataset for other libraries' frames, for plans as bytes, and for blocks: names of Ray."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace import lazy_module
from headrace._core import InvalidArgument, TypeMismatchError
from headrace.data.block_metadata import BlockMetadata
from headrace.data.context import check_format
from headrace.optional import package

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.data.random_access_dataset import RandomAccessDataset

blocks = lazy_module("headrace.data.blocks")  # imports numpy

_IN_MEMORY = ("materialized", "nothing", "tables")  # nodes that hold rows


@dataclass(frozen=True)
class BlockEntry:
    """A block of a dataset: its rows (in place of Ray's reference) and their number and bytes."""

    ref: Any
    metadata: Any


@dataclass(frozen=True)
class RefBundle:
    """Some blocks of a dataset, in order."""

    blocks: tuple[BlockEntry, ...]
    schema: Any

    @property
    def block_refs(self) -> list[Any]:
        return [entry.ref for entry in self.blocks]

    def num_rows(self) -> int:
        return sum(entry.metadata.num_rows for entry in self.blocks)

    def size_bytes(self) -> int:
        return sum(entry.metadata.size_bytes for entry in self.blocks)


def _sources(node):
    """The nodes without inputs."""
    if not node.inputs:
        yield node
    for below in node.inputs:
        yield from _sources(below)


class Conversions:
    """The methods of Dataset in this module."""

    def to_dask(self: Any, meta: Any = None, verify_meta: bool = True) -> Any:
        """A dask DataFrame with a partition for each block; needs the package dask.

        Runs the plan: the partitions hold the rows. meta, verify_meta: those of dask.dataframe.from_delayed;
        without meta the first block's types count.
        """
        frames = package("dask.dataframe", "to_dask")
        parts = self.to_pandas_refs()
        meta = parts[0].iloc[:0] if meta is None and parts else meta
        delayed = package("dask", "to_dask").delayed
        return frames.from_delayed([delayed(part) for part in parts], meta=meta, verify_meta=verify_meta)

    def to_daft(self: Any) -> Any:
        """A daft DataFrame of all rows; needs the package daft."""
        return package("daft", "to_daft").from_arrow(self.to_arrow())

    def to_modin(self: Any) -> Any:
        """A Modin DataFrame of all rows; needs the package modin."""
        return package("modin.pandas", "to_modin").DataFrame(self.to_pandas())

    def to_spark(self: Any, spark: Any) -> Any:
        """A Spark DataFrame of all rows, by a session of pyspark 4 or later."""
        if not hasattr(spark, "createDataFrame"):
            raise TypeMismatchError(f"to_spark: expected a SparkSession, found {type(spark).__name__}")
        return spark.createDataFrame(self.to_arrow())

    def to_random_access_dataset(self: Any, key: str, num_workers: int | None = None) -> RandomAccessDataset:
        """Rows by the value of a column: sorts the rows by `key` and holds them in this process. num_workers
        has no effect.
        """
        from headrace.data.random_access_dataset import RandomAccessDataset

        return RandomAccessDataset(self, key, num_workers or 1)

    def has_serializable_lineage(self: Any) -> bool:
        """Whether serialize_lineage() needs no rows: all of them come from files, ranges and Datasources."""
        return all(node.op not in _IN_MEMORY for node in _sources(self._node))

    def serialize_lineage(self: Any) -> bytes:
        """The plan as bytes, without rows, for Dataset.deserialize_lineage(). InvalidArgument if the dataset
        has rows in memory; pickle takes these, too.
        """
        if not self.has_serializable_lineage():
            raise InvalidArgument(
                "serialize_lineage: the dataset has rows in memory (from_items, from_pandas, materialize, "
                "...): write them to files, or use pickle, which takes the rows, too"
            )
        return pickle.dumps(self)

    def get_dataset_id(self: Any) -> str:
        """A text of this object alone: its name (or "dataset"), and a number that no other object has."""
        if self._id is None:
            self._id = uuid.uuid4().hex
        return f"{self._name or 'dataset'}_{self._id}"

    def get_stats_summary(self: Any, detail: bool = False) -> dict[str, Any]:
        """stats("dict"); detail has no effect."""
        return self.stats("dict")

    def iter_internal_ref_bundles(self: Any) -> Iterator[RefBundle]:
        """The blocks of a run, each in a bundle of its own: `bundle.blocks[0].ref` is a pyarrow.Table, and
        headrace.get() returns it.
        """
        with self._run(self._cut_node()) as run:
            for table in run:
                rows = blocks.to_format(table, check_format("pyarrow"))
                entry = BlockEntry(rows, BlockMetadata(rows.num_rows, rows.nbytes))
                yield RefBundle((entry,), rows.schema)

    def get_internal_block_refs(self: Any) -> list[pa.Table]:
        """All blocks, as to_arrow_refs() gives them."""
        return self.to_arrow_refs()
