"""The pass of a DatasetIterator's next epoch, opened while the present one is read.

A program that loops over epochs should not wait at their border: files open, first batches are decoded and
rows are shuffled while the last batches of the epoch before are used. That another epoch follows is known
(Iterable.repeat), likely (the last epoch had the same batches), or a guess (this epoch is the first one).
Feed.delays_next, may_open_next and guesses_next say when the epoch may open. If the program does not take a
guessed epoch, its DatasetIterator guesses no more.

An early pass holds memory and threads' work, so it ends when IDLE_S have passed since the last epoch ended,
or when another run begins and finds little free memory.

Tests: tests/python/test_epochs.py, test_repeat.py
"""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from typing import Any

from headrace import _core
from headrace.data.context import process_settings

IDLE_S = 120.0

_holding: weakref.WeakSet[Early] = weakref.WeakSet()
_changing = threading.Lock()
_sweeper: threading.Thread | None = None


def _batches(request):
    return {k: v for k, v in request.items() if k != "ahead"}


def _key(owner, request):
    return _batches(request), owner.run_options(), process_settings()


class Early:
    """At most one early pass. owner: its DatasetIterator."""

    def __init__(self) -> None:
        self._held: Any = None  # (key, the pass)
        self._pid = os.getpid()
        self._ended: Any = None  # _batches() of the last pass that gave all of them
        self._since: float | None = None  # when it ended; None: a pass is under way
        self._wrong = False  # nobody took a pass that was opened on a guess
        self._guessed = False  # the one that is open was a guess
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return Early, ()  # a pass belongs to its process

    def held(self) -> Any:
        """The early pass, or None."""
        held = self._held
        return held and held[1]

    def likely(self, request: dict[str, Any]) -> bool:
        """Whether the last epoch that ended had the same batches."""
        return self._ended == _batches(request)

    def may_guess(self) -> bool:
        return not self._wrong

    def ended(self, request: dict[str, Any]) -> None:
        """A pass has given all its batches."""
        self._ended = _batches(request)
        self._since = time.monotonic()

    def open(self, owner: Any, request: dict[str, Any], epoch: int, guessed: bool = False) -> None:
        """Opens the pass of an epoch that will follow, unless another pass has that number by now. If it
        fails, its begin tries again and says why.
        """
        if owner.epochs_begun != epoch or owner.chosen_epoch not in (None, epoch):
            return
        self.drop()
        try:
            held = _key(owner, request), owner._pass(request, epoch, None, {})
        except Exception:
            return
        with self._lock:
            self._held, self._pid, self._guessed, self._since = held, os.getpid(), guessed, None
        _sweep(self)

    def take(self, owner: Any, request: dict[str, Any], epoch: int | None) -> Any:
        """The early pass if it is this epoch of the same batches, or None; another one ends."""
        with self._lock:
            held, self._held, self._since = self._held, None, None
        if held is None or self._pid != os.getpid():
            return None
        key, under = held
        if under.epoch == epoch and key == _key(owner, request):
            return under
        self._end(under)
        return None

    def drop(self) -> None:
        """Ends the early pass, if there is one."""
        with self._lock:
            held, self._held = self._held, None
        if held is not None and self._pid == os.getpid():
            self._end(held[1])

    def idle_s(self) -> float:
        """The seconds in which nobody has come for it; -1: its epoch is not yet the next one."""
        since = self._since
        return -1.0 if since is None else time.monotonic() - since

    def __del__(self, is_finalizing: Any = sys.is_finalizing) -> None:  # the interpreter ends: runs have, too
        if not is_finalizing():
            self.drop()

    def _end(self, under):
        self._wrong = self._wrong or self._guessed
        try:
            under.close()
        except _core.HeadraceError:
            pass


def make_room(most: int) -> None:
    """Ends passes for which nobody has come, those first that wait longest, while data takes more than
    `most` bytes of memory.
    """
    for one in sorted(_holding, key=Early.idle_s, reverse=True):
        if one.idle_s() < 0 or _core.memory_used() <= most:
            return
        one.drop()


def _sweep(one):
    """A thread ends idle passes as long as there are any."""
    global _sweeper
    with _changing:
        _holding.add(one)
        if _sweeper is None:
            _sweeper = threading.Thread(target=_sweeping, name="headrace-early", daemon=True)
            _sweeper.start()


def _sweeping():
    global _sweeper
    while True:
        time.sleep(IDLE_S / 8)
        for one in list(_holding):
            if one.idle_s() > IDLE_S:
                one.drop()
        one = None  # a reference would keep its pass open
        with _changing:
            if not any(one.held() for one in _holding):
                _holding.clear()
                _sweeper = None
                return


def _forked():
    global _sweeper, _changing
    _changing, _sweeper = threading.Lock(), None
    _holding.clear()


os.register_at_fork(after_in_child=_forked)
