"""How often a run may fail: FailureConfig.max_failures."""

from __future__ import annotations

import sys

from headrace.train.config import FailureConfig
from headrace.train.storage import RunStorage


class Failures:
    """Counts the failures of one fit()."""

    def __init__(self, config: FailureConfig, storage: RunStorage):
        self._left = config.max_failures
        self._storage = storage

    def allow(self, text: str, what: str) -> bool:
        """Whether the run goes on after the failure `text`; then a line says what starts again, and where."""
        if self._left == 0:
            return False
        self._left -= 1
        resumed = self._storage.resumed
        where = resumed.path if resumed else "the beginning"
        print(f"{text.rstrip()}\n\nrestarting {what} from {where}", file=sys.stderr)
        return True
