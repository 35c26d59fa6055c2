"""Datasets of rows in memory: from_items, from_numpy, from_pandas, from_arrow, from_blocks.

Ray's from_*_refs take references to objects of a cluster; here they take the objects themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from headrace._core import DataError, InvalidArgument, Table, TypeMismatchError
from headrace._core import from_arrow as tables_of_arrow
from headrace.data import categories
from headrace.data.context import accept_cluster_arguments, is_whole
from headrace.data.dataset import MaterializedDataset
from headrace.data.plan import Node
from headrace.optional import package

if TYPE_CHECKING:
    from headrace.data.dataset import MaterializedDataset


def _dataset(tables, what, n_blocks=None):
    """A MaterializedDataset of the tables; n_blocks: cuts them into n tables of nearly equal length."""
    if n_blocks is not None:
        if not is_whole(n_blocks, 1):
            raise InvalidArgument(f"{what}: override_num_blocks: expected at least 1, found {n_blocks!r}")
        tables = _cut(tables, n_blocks)
    return MaterializedDataset(Node("tables", {"tables": tables, "what": what}))


def _cut(tables, n_blocks):
    table = tables[0] if len(tables) == 1 else Table.concat(tables)
    n = max(1, min(n_blocks, table.num_rows))
    ends = [i * table.num_rows // n for i in range(n + 1)]
    return [table.slice(a, b - a) for a, b in zip(ends, ends[1:], strict=False)]


def from_items(
    items: Iterable[Any], *, parallelism: int = -1, override_num_blocks: int | None = None
) -> MaterializedDataset:
    """One row per item: dicts of column -> value; other values become the column 'item'.

    All values of a column determine its type: int and float together are float; TypeMismatchError names
    column, row and both types. override_num_blocks: the number of tables in the dataset; rows and order do
    not depend on it.
    """
    accept_cluster_arguments("from_items", {"parallelism": parallelism})
    items = list(items)
    if any(isinstance(i, Mapping) for i in items):
        table = Table.build_rows([dict(i) if isinstance(i, Mapping) else {"item": i} for i in items])
    else:
        table = Table.build({"item": items})
    return _dataset([table], "from_items", override_num_blocks)


def from_numpy(ndarrays: Any) -> MaterializedDataset:
    """One row per value along the first axis of an array, or of each array of a list; column 'data'. Copies
    the values.
    """
    import numpy as np

    arrays = ndarrays if isinstance(ndarrays, (list, tuple)) else [ndarrays]
    for a in arrays:
        if not isinstance(a, np.ndarray):
            raise TypeMismatchError(f"from_numpy: expected numpy.ndarray, found {type(a).__name__}")
        if a.ndim == 0:
            raise InvalidArgument("from_numpy: expected at least one dimension, found an array with none")
    if not arrays:
        raise InvalidArgument("from_numpy: expected at least one array")
    return _dataset(Table.conformed([Table.build({"data": a}) for a in arrays]), "from_numpy")


def from_pandas(dfs: Any, override_num_blocks: int | None = None) -> MaterializedDataset:
    """The rows of a DataFrame, or of each DataFrame of a list, without the index. Copies the values; NaN is
    null. override_num_blocks: see from_items().
    """
    frames = dfs if isinstance(dfs, (list, tuple)) else [dfs]
    if not frames:
        raise InvalidArgument("from_pandas: expected at least one DataFrame")
    tables = _alike([_table_of_pandas(df, "from_pandas") for df in frames])
    tables = categories.with_those_of(tables, frames)
    return _dataset(tables, "from_pandas", override_num_blocks)


def _table_of_pandas(df, what):
    if not hasattr(df, "iloc") or not hasattr(df, "columns"):
        raise TypeMismatchError(f"{what}: expected pandas.DataFrame, found {type(df).__name__}")
    columns = {str(c): df.iloc[:, i] for i, c in enumerate(df.columns)}
    if len(columns) != len(df.columns):
        raise InvalidArgument(f"{what}: expected columns with different names, found {list(df.columns)}")
    return Table.build(columns)


def from_arrow(tables: Any, *, override_num_blocks: int | None = None) -> MaterializedDataset:
    """The rows of a pyarrow.Table, of any object with __arrow_c_stream__ or __arrow_c_array__, of bytes with
    an Arrow IPC stream, or of each of a list of these.

    Shares the memory. Reads a stream to its end at once. override_num_blocks: see from_items().
    """
    parts = tables if isinstance(tables, (list, tuple)) else [tables]
    if not parts:
        raise InvalidArgument("from_arrow: expected at least one table")
    found = [t for part in parts for t in tables_of_arrow(_arrow_part(part))]
    return _dataset([t for t in found if t.num_rows] or found[:1], "from_arrow", override_num_blocks)


def _arrow_part(part):
    if hasattr(part, "_cut_node"):  # a Dataset, whose stream has the tables of a run, cut by time
        part = part.to_arrow()
    if not isinstance(part, (bytes, bytearray, memoryview)):
        return categories.decoded(part)
    pyarrow = package("pyarrow", "from_arrow")
    try:
        return categories.decoded(pyarrow.ipc.open_stream(part).read_all())
    except pyarrow.ArrowInvalid as e:
        raise DataError(f"from_arrow: {len(part)} bytes are no Arrow IPC stream: {e}") from None


def from_blocks(blocks: Iterable[Any]) -> MaterializedDataset:
    """The rows of blocks: pandas DataFrames, or objects that from_arrow() takes. Each block with columns
    becomes a block of the dataset.
    """
    tables = []
    for block in blocks:
        if hasattr(block, "iloc"):
            tables.append(_table_of_pandas(block, "from_blocks"))
        else:
            parts = tables_of_arrow(_arrow_part(block))
            tables.append(parts[0] if len(parts) == 1 else Table.concat(parts))
    if not tables:
        raise InvalidArgument("from_blocks: expected at least one block")
    return _dataset(_alike(tables), "from_blocks")


def _alike(tables):
    """The tables with columns, under one schema; a table without columns if there are no others."""
    return Table.conformed([t for t in tables if t.names] or tables[:1])


def from_pandas_refs(dfs: Any) -> MaterializedDataset:
    """from_pandas() of DataFrames in this process, which replace Ray's references."""
    return from_pandas(dfs)


def from_numpy_refs(ndarrays: Any) -> MaterializedDataset:
    """from_numpy() of arrays in this process, which replace Ray's references."""
    return from_numpy(ndarrays)


def from_arrow_refs(tables: Any) -> MaterializedDataset:
    """from_arrow() of tables in this process, which replace Ray's references."""
    return from_arrow(tables)
