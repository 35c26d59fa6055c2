"""What runs in this process: its runs and splits, for headrace.observe.

A run that nobody looks at costs an entry in a dict, at its beginning and at its end.

Tests: tests/python/test_dashboard.py
"""

from __future__ import annotations

import atexit
import itertools
import json
import os
import threading
from contextlib import suppress
from typing import Any, Protocol

from headrace import _core

numbers = itertools.count(1)  # of runs and splits of the process
_lock = threading.RLock()  # a run may end in the garbage collection of a call here
_runs: dict[int, Running] = {}
_listeners: list[Listener] = []


class Listener(Protocol):
    """Who wants to know. Calls come from any thread, and do not raise."""

    def begins(self, run: Running) -> None: ...
    def ends(self, run: Running) -> None: ...


class Running:
    """A run or a split, from its beginning until ends(). engine: the Feed or the Split. at_exit: a weak
    reference to the method that closes the run if the program ends before it.
    """

    def __init__(
        self, engine: Any, node: Any, number: int | None = None, ranks: int = 0, at_exit: Any = None
    ) -> None:
        self.engine = engine
        self.at_exit = at_exit
        self.number = next(numbers) if number is None else number
        self.ranks = ranks
        self._node = node
        with _lock:
            _runs[self.number] = self
            listeners = list(_listeners)
        for listener in listeners:
            listener.begins(self)

    @property
    def title(self) -> str:
        """The steps of the plan. Text of users."""
        of = f"{self.ranks} ranks: " if self.ranks else ""
        return of + self._node.chain()

    def works(self) -> bool:
        """Whether it takes part in an epoch now; a split may be between two."""
        if not self.ranks:
            return True
        with suppress(_core.HeadraceError):
            return bool(json.loads(self.engine.ranks())["running"])
        return False

    def ends(self) -> None:
        """Its engine closes after this call. A second call does nothing."""
        if _lock is None:  # the interpreter ends: it has cleared the names of modules
            return
        with _lock:
            listeners = list(_listeners) if _runs.pop(self.number, None) else []
        for listener in listeners:
            listener.ends(self)


def listen(listener: Listener) -> None:
    """The listener hears of runs that go on, and of those that begin and end."""
    with _lock:
        _listeners.append(listener)
        before = list(_runs.values())
    for run in before:
        listener.begins(run)


def _forked() -> None:
    """Runs and listeners are the parent's; another thread of it may have held the lock."""
    global _lock
    _lock = threading.RLock()
    _runs.clear()
    _listeners.clear()


os.register_at_fork(after_in_child=_forked)


@atexit.register
def _at_exit() -> None:
    """Closes the runs that the program leaves open. Later, Python has cleared the names that this needs."""
    for run in list(_runs.values()):
        if run.at_exit is not None and (close := run.at_exit()) is not None:
            with suppress(_core.HeadraceError):
                close()


def ignore(listener: Listener) -> None:
    """It hears of nothing more."""
    with _lock:
        _listeners.remove(listener)
