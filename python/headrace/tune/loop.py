"""The training loop that measures: it waits for batches, runs the step, and notes the times.

Runs in the process of one configuration. A record of a batch is [epoch, asked, came, done, rows], with times
of time.monotonic() in seconds. Tests: test_tune.py.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

CACHED = 10  # batches that are kept to replay them
FLUSH_S = 0.1  # records leave the process this often; the watcher counts their absence as silence
END = object()


def rows_of(batch: Any) -> int:
    """The number of rows: the length of the first array, tensor or list in a batch."""
    todo = [batch]
    for _ in range(100):
        if not todo:
            break
        one = todo.pop(0)
        if isinstance(one, Mapping):
            todo += one.values()
        elif getattr(one, "shape", None) is not None:
            if len(one.shape):
                return int(one.shape[0])
        elif isinstance(one, (tuple, list)):
            if one and not _is_nested(one):
                return len(one)
            todo += one
        elif hasattr(one, "__dict__") and vars(one):
            todo += vars(one).values()
    try:
        return len(batch)
    except TypeError:
        return 1


def _is_nested(values):
    return any(isinstance(v, (Mapping, tuple, list)) or hasattr(v, "shape") for v in values)


def step_of(function: Callable[[Any], Any] | None, seconds: float) -> Callable[[Any], Any]:
    """The step of a batch: the user's function, and the device's work that it began; or a sleep, which leaves
    the cores to the loader as a step on a GPU does.
    """
    if function is None:
        return (lambda batch: time.sleep(seconds)) if seconds > 0 else (lambda batch: None)

    def step(batch):
        function(batch)
        torch = sys.modules.get("torch")
        if torch and torch.cuda.is_available() and torch.cuda.is_initialized():
            torch.cuda.synchronize()

    return step


class Loop:
    """epochs, batches, seconds: where to stop. send: takes messages (dicts) for the watcher."""

    def __init__(self, step, epochs, batches, seconds, send):
        self.step, self.epochs, self.batches, self.seconds = step, epochs, batches, seconds
        self.send = send
        self.cached = []
        self.records = []
        self.sent = time.monotonic()

    def run(self, make: Callable[[], tuple[Any, bool]], keep: bool) -> None:
        """make: the loader, and whether it ends after `batches` by itself. keep: batches, for replay()."""
        begin = time.monotonic()
        self.send({"event": "begin", "time": begin})
        loader, ends = make()
        self.send({"event": "made", "time": time.monotonic()})
        try:
            for epoch in range(self.epochs):
                if epoch and hasattr(type(loader), "__next__"):  # an iterator serves one epoch
                    loader, ends = make()
                if self.epoch(epoch, loader, None if ends else self.batches, begin, keep and epoch == 0):
                    self.send({"event": "stopped", "time": time.monotonic()})
                    break
        finally:
            self.flush()
        self.send({"event": "end", "time": time.monotonic()})

    def epoch(self, epoch, loader, most, begin, keep):
        """One epoch of at most `most` batches; whether the time is up."""
        n = 0
        asked = time.monotonic()
        iterator = iter(loader)
        while (whole := n != most) and (batch := next(iterator, END)) is not END:
            came = time.monotonic()
            self.step(batch)
            done = time.monotonic()
            self.records.append((epoch, asked, came, done, rows_of(batch)))
            if keep and len(self.cached) < CACHED:
                self.cached.append(batch)
            if done - self.sent > FLUSH_S:
                self.flush()
            if done - begin > self.seconds:
                return True
            n += 1
            del batch
            asked = time.monotonic()
        self.flush()
        self.send({"event": "epoch", "epoch": epoch, "time": time.monotonic(), "whole": whole, "batches": n})
        return False

    def replay(self) -> None:
        """Runs the step on the batches that were kept, without a loader: no loader can be faster."""
        gc.collect()  # ends the workers of loaders that nobody has any more
        taken = []
        for batch in self.cached:
            begin = time.monotonic()
            self.step(batch)
            taken.append(time.monotonic() - begin)
        self.send({"event": "floor", "seconds": taken})

    def flush(self):
        self.sent = time.monotonic()
        if self.records:
            self.send({"event": "batches", "batches": self.records})
            self.records = []
