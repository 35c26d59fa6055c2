"""Rows that are kept: what materialize() gives."""

from headrace._core import Keep, Table
from headrace.data.plan import Node


def kept(tables, schema, memory_limit=0):
    """A Node that gives the rows of `tables` (an iterator), in the same order: in memory up to half of the
    memory limit, and what comes after that on disk. schema(): the _core.Schema if there are none, or None.
    """
    keep = Keep("materialize", memory_limit // 2)
    try:
        for table in tables:
            keep.add(table)
    except BaseException:
        keep = None  # the exception's traceback would keep what was spilled
        raise
    if keep.disk_bytes:
        return Node("kept", {"keep": keep})
    made = keep.tables()
    if not made:
        found = schema()
        if found is None:
            return Node("nothing", {"tables": [], "what": "materialize"})
        made = [Table.empty(found)]
    return Node("tables", {"tables": made, "what": "materialize"})
