"""How often a run may fail: FailureConfig.max_failures."""

from __future__ import annotations

import sys

from headrace import events
from headrace._core import MismatchError
from headrace.train.config import RunConfig
from headrace.train.result import TrainingFailedError
from headrace.train.storage import RunStorage


class Failures:
    """Counts the failures of one fit()."""

    def __init__(self, config: RunConfig, storage: RunStorage):
        self._left = config.failure_config.max_failures
        self._shows = config.logging_config.shows_progress()
        self._storage = storage

    def allow(self, error: Exception, text: str, what: str) -> bool:
        """Whether the run goes on after a failure; then a line has its text, what starts again, and where.

        A position that does not fit the datasets fails again from the same checkpoint: no restart.
        """
        causes = error.worker_failures.values() if isinstance(error, TrainingFailedError) else [error]
        if self._left == 0 or any(isinstance(cause, MismatchError) for cause in causes):
            return False
        self._left -= 1
        where = self._storage.restart_place() or "the beginning"
        left = "without limit" if self._left < 0 else f"{self._left} left"
        last = text.rstrip().rpartition("\n")[2]
        events.tell(
            events.TRAIN,
            "run %s: restarting %s from %s (%s): %s",
            self._storage.name,
            what,
            where,
            left,
            last,
        )
        if self._shows:
            print(f"{text.rstrip()}\n\nrestarting {what} from {where}", file=sys.stderr)
        return True
