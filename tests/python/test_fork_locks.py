"""Forked children, such as the workers of a DataLoader, go on where another thread of the parent held a lock.
The story: the child waited for ever.
"""

import contextlib
import os
import signal
import threading

import pytest

import headrace.data as hd
from headrace.data import context, downloading, loader
from headrace.udf import gpus


def count_epochs():
    assert list(hd.range(3).iter_batches(batch_size=3))[0]["id"].tolist() == [0, 1, 2]


def room_for_a_call():
    with downloading._room.of(1):
        pass


HELD = {
    "epochs": (lambda: loader._in_process, count_epochs),
    "context": (lambda: context.DataContext._lock, context.DataContext.get_current),
    "gpus": (lambda: gpus._lock, lambda: gpus.give_back([], 1)),
    "downloads": (lambda: downloading._room.of(1), room_for_a_call),
}


def in_a_child(work):
    """The exit code of a fork that runs `work`."""
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(60)
        with contextlib.suppress(BaseException):
            work()
            os._exit(0)
        os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.parametrize("name", HELD)
def test_a_fork_while_another_thread_holds_a_lock(name):
    lock, work = HELD[name]
    held, ends = threading.Event(), threading.Event()

    def hold():
        with lock():
            held.set()
            ends.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    try:
        assert in_a_child(work) == 0
    finally:
        ends.set()
        thread.join()
