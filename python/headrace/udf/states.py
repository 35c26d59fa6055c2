"""State: the implementation of a Pool. Processes, threads and the consumer's thread are kinds of it.

The workers of all states end with this process: each gets a request, and has GRACE seconds.
"""

import atexit
import os
import sys
import threading
import time
import weakref

from headrace import _core

GRACE = 1.0  # what a worker may still take when its pool ends
ROOM_S = 0.2  # how long a run waits for the memory of workers that end for it

_live = weakref.WeakSet()


def add(state):
    """Registers the state of a pool, so that its workers end with this process."""
    _live.add(state)


def live():
    """The states of all pools of this process."""
    return list(_live)


def make_room(most: int) -> None:
    """Ends the workers of pools that no run uses, those first that rest longest, while data and workers take
    more than `most` bytes of memory.
    """
    used = _core.memory_used()
    ended = used
    for state in sorted(live(), key=lambda one: one.idle):
        if ended > most and (n := state.idle_bytes()):
            state.end_idle()
            state.wake()  # to notice it
            ended -= n
    until = time.monotonic() + ROOM_S
    while ended < used and _core.memory_used() > ended and time.monotonic() < until:
        time.sleep(0.002)


@atexit.register
def _at_exit():
    states = live()
    for state in states:
        state.close()
    until = time.monotonic() + 2 * GRACE
    for state in states:
        state.join(until)
    if starter := sys.modules.get("headrace.udf.starter"):
        starter.end()


_left = 0  # CPUs for the program's own steps
_moves = True


def run_settings(reserved_cpus: int, autotune: bool) -> None:
    """Of the run that begins. Functions whose number of workers is not set leave so many CPUs to the
    program's own steps; with autotune they get more workers where they wait.
    """
    global _left, _moves
    _left, _moves = reserved_cpus, autotune


def moves_workers() -> bool:
    return _moves


def default_workers() -> int:
    """The most workers of all functions whose number is not set."""
    return max(1, _core.num_threads() - _left)


class State:
    """The implementation of a Pool."""

    def __init__(self, spec, calls, least, most):
        self.spec = spec
        self.name = spec["name"]
        self.calls = calls
        self.least = max(1, least)
        self.most = most
        self.lock = threading.RLock()  # a run may end in the garbage collection of a call here
        self.runs = 0
        self.idle = time.monotonic()  # when a run used it last
        self.failure = None  # why the last worker did not start
        self.closed = False
        self.process = os.getpid()

    def limit(self):
        return max(self.least, self.most or default_workers())

    def begin(self):
        """A run begins, unless this raises."""
        with self.lock:
            self.runs += 1
        try:
            self.start()
        except BaseException:
            self.end()
            raise

    def end(self):
        with self.lock:
            self.runs -= 1

    def start(self):
        pass

    def idle_bytes(self):
        """The memory of workers that no run uses."""
        return 0

    def deaths(self, text):
        return ""

    def pids(self):
        return []

    def close(self):
        if self.process != os.getpid():
            return  # a forked child: the workers are its parent's
        with self.lock:
            if self.closed:
                return
            self.closed = True
        self.calls.close()

    def join(self, until):
        pass
