"""Loaders of the tests of headrace.tune; the processes that measure import this file. It does without torch,
whose import takes seconds.
"""

import os
import signal
import threading
import time

import numpy as np


class Slow:
    """30 batches of four rows, of which each takes `seconds`."""

    def __init__(self, seconds):
        self.seconds = seconds

    def __len__(self):
        return 30

    def __iter__(self):
        for i in range(30):
            time.sleep(self.seconds)
            yield np.full((4, 8), i), np.arange(4)


def slow(num_workers=0):
    print("made with", num_workers)
    return Slow(0.008 / (1 + num_workers))


def broken():
    raise KeyError("there are no files in <b>nowhere</b>")


def broken_later():
    yield from Slow(0)
    raise KeyError("row <b>nine</b> is bad")


def number():
    return 7


def hangs(num_workers=0):
    """With workers it gives six batches, and then nothing."""
    for i, batch in enumerate(Slow(0.05)):
        if i == 6 and num_workers:
            threading.Event().wait()
        yield batch


class _Dies(Slow):
    def __iter__(self):
        os.kill(os.getpid(), signal.SIGKILL)


def dies(num_workers=0):
    return Slow(0) if num_workers else _Dies(0)


def once():
    """An iterator: it serves one epoch. Its batches are of a kind that nobody knows."""
    for i in range(30):
        yield {"name": ["a"] * 5, "x": np.full((5, 3), i)}


class _Hot:
    """Computes on eight threads, as dask does in each worker; on one, if the environment says so."""

    def __iter__(self):
        alone = os.environ.get("OMP_NUM_THREADS") == "1"
        for i in range(12):
            threads = [threading.Thread(target=_compute) for _ in range(1 if alone else 8)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            yield [i]


def _compute():
    a = np.random.default_rng(0).random((300, 1000))
    end = time.monotonic() + 0.2  # all eight have begun before the first one ends
    while time.monotonic() < end:
        np.sort(a)  # without the GIL


def hot(num_workers=0):
    return _Hot()


def leak():
    """The process keeps 4 MB of each batch."""
    kept = []
    for _ in range(60):
        kept.append(np.ones(1 << 19))
        time.sleep(0.03)
        yield kept[-1][:4]


def step(batch):
    time.sleep(0.004)


def bad_step(batch):
    raise RuntimeError("the step is broken")


def empty(num_workers=0):
    return []


def colours():
    yield from Slow(0)
    raise KeyError("row \x1b[31m9\udc80")


def slow_to_make():
    threading.Event().wait()


def takes_one(folder):
    return []
