"""BlockAccessor: what Ray's sources and sinks ask of a block, for a block of any kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace import absent
from headrace._core import Table
from headrace.data import blocks
from headrace.data.block_metadata import BlockMetadata
from headrace.data.context import check_format
from headrace.optional import package

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


class BlockAccessor:
    """The rows of a block in other forms. A block is a dict of column -> values, a list of row dicts, a
    DataFrame or Arrow data. `BlockAccessor.for_block(block)` makes one; results that are blocks are
    pyarrow.Tables.
    """

    def __init__(self, table: Table) -> None:
        self._table = table

    @staticmethod
    def for_block(block: Any) -> BlockAccessor:
        """An accessor for a block; TypeMismatchError if it is none."""
        return BlockAccessor(
            blocks.table_of(blocks.columns_of_rows(block), Table.build, "BlockAccessor.for_block")
        )

    @classmethod
    def batch_to_block(cls, batch: Any, block_type: Any = None) -> pa.Table:
        """A batch of any format as a pyarrow.Table; block_type has no effect."""
        return cls.for_block(batch).to_arrow()

    @classmethod
    def batch_to_arrow_block(cls, batch: Any) -> pa.Table:
        """The same as batch_to_block()."""
        return cls.for_block(batch).to_arrow()

    @classmethod
    def batch_to_pandas_block(cls, batch: Any) -> pd.DataFrame:
        """A batch of any format as a DataFrame."""
        return cls.for_block(batch).to_pandas()

    def num_rows(self) -> int:
        return self._table.num_rows

    def size_bytes(self) -> int:
        """Bytes of the values in memory."""
        return self._table.nbytes

    def schema(self) -> pa.Schema:
        return self.to_arrow().schema

    def get_metadata(
        self, input_files: list[str] | None = None, block_exec_stats: Any = None, task_exec_stats: Any = None
    ) -> BlockMetadata:
        """BlockMetadata with the number of rows and of bytes."""
        return BlockMetadata(
            self.num_rows(), self.size_bytes(), block_exec_stats, task_exec_stats, input_files
        )

    def to_arrow(self) -> pa.Table:
        """Shares the memory."""
        return blocks.table_to_arrow(self._table)

    def to_block(self) -> pa.Table:
        """The same as to_arrow()."""
        return self.to_arrow()

    def to_default(self) -> pa.Table:
        """The same as to_arrow()."""
        return self.to_arrow()

    def to_pandas(self) -> pd.DataFrame:
        return blocks.to_format(self._table, check_format("pandas"))

    def to_numpy(self, columns: str | Sequence[str] | None = None) -> Any:
        """A dict of column -> array (rows, *shape), or for one name the array."""
        found = blocks.table_to_numpy(self._table, writable=True)
        if isinstance(columns, str):
            return found[columns]
        return found if columns is None else {name: found[name] for name in columns}

    def to_batch_format(self, batch_format: str | None) -> Any:
        """A batch as map_batches(batch_format=) gives it; None: a pyarrow.Table."""
        return blocks.to_format(self._table, check_format(batch_format))

    def iter_rows(self, public_row_format: bool = True) -> Iterator[dict[str, Any]]:
        """The rows as dicts; public_row_format has no effect."""
        return iter(blocks.rows_of(self._table, writable=True))

    def slice(self, start: int, end: int, copy: bool = False) -> pa.Table:
        """The rows `start` to `end` - 1; copy=True: with memory of their own."""
        rows = self.to_arrow().slice(start, max(0, end - start))
        return rows.take(list(range(len(rows)))) if copy else rows

    def take(self, indices: Sequence[int]) -> pa.Table:
        """The rows with these numbers, in this order."""
        return self.to_arrow().take(list(indices))

    def select(self, columns: Sequence[str]) -> pa.Table:
        return self.to_arrow().select(list(columns))

    def drop(self, columns: Sequence[str]) -> pa.Table:
        """The rows without these columns."""
        return self.to_arrow().drop_columns(list(columns))

    def rename_columns(self, columns_rename: Mapping[str, str]) -> pa.Table:
        names = self._table.names
        return self.to_arrow().rename_columns([columns_rename.get(name, name) for name in names])

    def upsert_column(self, column_name: str, column_data: Any) -> pa.Table:
        """The rows with a column of this name, new or in its place."""
        made = blocks.table_of({column_name: column_data}, Table.build, "BlockAccessor.upsert_column")
        rows, column = self.to_arrow(), blocks.table_to_arrow(made).column(0)
        if column_name in rows.column_names:
            return rows.set_column(rows.column_names.index(column_name), column_name, column)
        return rows.append_column(column_name, column)

    def count(self, on: str, ignore_nulls: bool = False) -> int:
        return self._compute("count", on, mode="only_valid" if ignore_nulls else "all")

    def min(self, on: str, ignore_nulls: bool) -> Any:
        return self._compute("min", on, skip_nulls=ignore_nulls)

    def max(self, on: str, ignore_nulls: bool) -> Any:
        return self._compute("max", on, skip_nulls=ignore_nulls)

    def sum(self, on: str, ignore_nulls: bool) -> Any:
        return self._compute("sum", on, skip_nulls=ignore_nulls)

    def mean(self, on: str, ignore_nulls: bool) -> Any:
        return self._compute("mean", on, skip_nulls=ignore_nulls)

    def _compute(self, name: str, on: str, **options: Any) -> Any:
        """The result of an aggregate of pyarrow over a column; None without values."""
        compute = package("pyarrow.compute", "BlockAccessor")
        return getattr(compute, name)(self.to_arrow().column(on), **options).as_py()

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            raise absent.no_attribute(self, "headrace.data.block.BlockAccessor", name)


__all__ = ["BlockAccessor"]
