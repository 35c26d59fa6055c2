"""The turns of inline functions: in one process one thread at a time runs one.

A call seeds the random generators of random, NumPy and torch, which all threads share; of two calls at once
each would draw from the other's numbers. So a function that waits for another thread's inline function
waits for ever. The thread that waits for its turn names both functions after DataContext.stall_warning_s,
and fails after stall_timeout_s.
"""

import os
import threading
import warnings

from headrace import _core

_lock = threading.RLock()  # held by the thread that runs an inline function; again by a nested one
_running = []  # (function, thread) of each, the innermost last


def _forked():
    global _lock
    _lock = threading.RLock()
    _running.clear()


os.register_at_fork(after_in_child=_forked)


def begin(name):
    """Waits for the turn of the function `name` in this thread; end() ends it. PeerError after
    stall_timeout_s.
    """
    if not _lock.acquire(blocking=False):
        _wait(name)
    _running.append((name, threading.current_thread().name))


def end():
    _running.pop()
    _lock.release()


def _wait(name):
    from headrace.data.context import DataContext

    context = DataContext.get_current()
    limit = threading.TIMEOUT_MAX if context.stall_timeout_s is None else context.stall_timeout_s
    first = min(context.stall_warning_s, limit)
    if _lock.acquire(timeout=first):
        return
    if first < limit:
        warnings.warn(_waits(name, first), RuntimeWarning, stacklevel=2)
        if _lock.acquire(timeout=limit - first):
            return
    raise _core.PeerError(_waits(name, limit))


def _waits(name, seconds):
    other, thread = (_running or [("another function", "another thread")])[-1]
    return (
        f"{name} has waited {seconds:.2g} s in thread {threading.current_thread().name!r} for {other} in "
        f"thread {thread!r}: inline functions of a process run one at a time. If they wait for each other, "
        "give one of them compute='threads'"
    )
