"""materialize(): stores the rows of a run, in memory or on disk, and makes a plan node of them."""

from headrace._core import Materialized, Table
from headrace.data.plan import Node


def node_of(tables, schema, memory_limit=0):
    """A Node of the rows of `tables` (an iterator), in the same order: in memory up to half of the memory
    limit, on disk beyond that. schema(): the _core.Schema for the case of no tables, or None.
    """
    rows = Materialized("materialize", memory_limit // 2)
    try:
        for table in tables:
            rows.add(table)
    except BaseException:
        rows = None  # otherwise the exception's traceback keeps the spilled files alive
        raise
    if rows.disk_bytes:
        return Node("materialized", {"rows": rows})
    made = rows.tables()
    if not made:
        found = schema()
        if found is None:
            return Node("nothing", {"tables": [], "what": "materialize"})
        made = [Table.empty(found)]
    return Node("tables", {"tables": made, "what": "materialize"})
