"""materialize(): stores the rows of a run, in memory or on disk, and makes a plan node of them."""

from headrace._core import Materialized, Table
from headrace.data.plan import Node


def node_of(tables, schema, memory_limit=0, of_tables=True):
    """A Node of the rows of `tables` (an iterator), in the same order: in memory up to half of the memory
    limit, on disk beyond that. schema(): the _core.Schema for the case of no tables, or None. of_tables: each
    table is a fragment; otherwise the rows decide where fragments end.
    """
    rows = Materialized("materialize", memory_limit // 2, of_tables)
    try:
        for table in tables:
            rows.add(table)
        rows.end()
    except BaseException:
        rows = None  # otherwise the exception's traceback keeps the spilled files alive
        raise
    if rows.num_rows:
        return Node("materialized", {"rows": rows})
    found = schema()
    if found is None:
        return Node("nothing", {"tables": [], "what": "materialize"})
    return Node("tables", {"tables": [Table.empty(found)], "what": "materialize"})
