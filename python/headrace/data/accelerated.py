"""Wrong uses of Hugging Face Accelerate: its prepare() divides what a DataLoader reads among the ranks.

A share has been divided already. Divided once more, or read on rank 0 alone for all ranks, it loses rows and
nobody says so. Accelerate has no hook for that: a pass over a share looks for Accelerate's objects among its
callers.

Tests: tests/python/test_train_frameworks_accelerate.py
"""

import sys
from typing import Any

from headrace._core import InvalidArgument

MODULE = "accelerate.data_loader"
HOW = {
    "IterableDatasetShard": "divides it among the ranks once more",
    "DataLoaderDispatcher": "reads it on rank 0 alone, for all ranks",
}


def refuse_share(owner: Any) -> None:
    """InvalidArgument if `owner` is a share of several, and an object of Accelerate that divides rows begins
    the pass.
    """
    n = getattr(owner, "world_size", None) or 1
    if n == 1 or MODULE not in sys.modules:
        return
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__") == MODULE:
            how = HOW.get(type(frame.f_locals.get("self")).__name__)
            if how:
                raise InvalidArgument(
                    f"this is a share of {n}, with the rows of one rank, and a DataLoader of Accelerate's "
                    f"prepare() {how}, so that rows would be lost: leave the DataLoader out of prepare()"
                )
        frame = frame.f_back
