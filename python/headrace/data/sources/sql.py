"""read_sql: the rows of a query, through a DB-API connection (PEP 249)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from headrace._core import InvalidArgument
from headrace.data.context import accept_cluster_arguments
from headrace.data.datasource.datasource import read_tasks, task

if TYPE_CHECKING:
    from headrace.data.dataset import Dataset


FETCH_ROWS = 10_000
DEFAULT_SHARDS = 8


def _rows(connection_factory, sql, params):
    """Blocks of FETCH_ROWS rows: dicts of column -> values."""
    with contextlib.closing(connection_factory()) as connection:
        cursor = connection.cursor()
        cursor.execute(sql, *([params] if params is not None else []))
        if cursor.description is None:
            raise InvalidArgument(f"read_sql: expected a statement that gives rows, found: {sql}")
        names = [column[0] for column in cursor.description]
        if len(set(names)) != len(names):
            raise InvalidArgument(
                f"read_sql: expected columns with different names (use aliases), found {names}"
            )
        while True:
            rows = cursor.fetchmany(FETCH_ROWS)
            if not rows:
                break
            yield dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


def _sharded(sql, keys, hash_fn, shard, n):
    key = keys[0] if len(keys) == 1 else f"CONCAT({', '.join(keys)})"
    hashed = f"{hash_fn}({key})" if hash_fn else key
    return f"SELECT * FROM ({sql}) AS T WHERE MOD(ABS({hashed}), {n}) = {shard}"


def read_sql(
    sql: str,
    connection_factory: Callable[[], Any],
    *,
    sql_params: Any = None,
    shard_keys: Sequence[str] | None = None,
    shard_hash_fn: str = "MD5",
    parallelism: int = -1,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    **other: Any,
) -> Dataset:
    """The rows of a query. connection_factory() returns a new DB-API connection; worker processes call it
    (cloudpickle), once per task.

    Without shard_keys the query is one task. With shard_keys it runs as override_num_blocks queries (default
    8) at the same time; query i gets the rows with MOD(ABS(shard_hash_fn(keys)), n) = i, so the database must
    know MOD, ABS, CONCAT and that function (shard_hash_fn=None: the key itself is a number). The rows of one
    query come after those of the previous one, in the database's order: use ORDER BY if it matters. The
    database's own exceptions reach the caller.
    """
    accept_cluster_arguments("read_sql", {"parallelism": parallelism, **other})
    if not callable(connection_factory):
        raise InvalidArgument("read_sql: connection_factory: expected a function that returns a connection")
    if not shard_keys:
        return read_tasks("sql", [task(_rows, connection_factory, sql, sql_params)], concurrency=concurrency)
    keys = [shard_keys] if isinstance(shard_keys, str) else list(shard_keys)
    n = override_num_blocks or DEFAULT_SHARDS
    queries = [_sharded(sql.rstrip().rstrip(";"), keys, shard_hash_fn, i, n) for i in range(n)]
    tasks = [task(_rows, connection_factory, q, sql_params) for q in queries]
    return read_tasks("sql", tasks, concurrency=concurrency)
