"""The number of workers of an elastic run: ScalingConfig(num_workers=(least, most)).

Tests: tests/python/test_train_elastic.py
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from headrace.train.config import ScalingConfig

LOOK_S = 1.0  # between two looks while there is no room for the least number
LINE_S = 30.0  # between two lines that say so


class Sizes:
    """Chooses the number of workers at each start, and notices when another number would fit."""

    def __init__(self, config: ScalingConfig, shows: bool):
        self._config = config
        self._shows = shows
        self._before: int | None = None
        self.resized: int | None = None  # the number for which the workers were ended

    def choose(self) -> int:
        """The number for the workers that start now. Waits until there is room for the least number."""
        if not self._config.elasticity_enabled:
            return self._config.num_workers
        self.resized = None
        next_line = time.monotonic()
        while (n := self._room()) < self._config.min_workers:
            if self._shows and time.monotonic() >= next_line:
                next_line = time.monotonic() + LINE_S
                print(f"{self._found(n)}; waiting for at least {self._config.min_workers}", file=sys.stderr)
            time.sleep(LOOK_S)
        if self._shows and n != self._before:
            before = f" instead of {self._before}" if self._before else ""
            print(f"training with {n} workers{before}: {self._found(n)}", file=sys.stderr)
        self._before = n
        return n

    def _room(self) -> int:
        """How many workers fit, at most the largest number."""
        needs = self._config.needs()
        there = self._config.available_resources()
        room = [int(there.get(name, 0) / need + 1e-9) for name, need in needs.items()]
        return min([self._config.max_workers, *room])

    def _found(self, n: int) -> str:
        there = self._config.available_resources()
        listed = [f"{there.get(k, 0):g} {k}, {need:g} for each" for k, need in self._config.needs().items()]
        return f"the machine has room for {n} ({'; '.join(listed) or 'they need nothing'})"

    @contextmanager
    def watched(self, now: int, end: Callable[[], None]) -> Iterator[None]:
        """Calls end() within the block, once, when another number of workers than `now` would fit."""
        stop = threading.Event()
        thread = threading.Thread(target=self._watch, args=(now, end, stop), name="headrace-train-sizes")
        thread.daemon = True
        if self._config.elasticity_enabled:
            thread.start()
        try:
            yield
        finally:
            stop.set()
            if thread.ident is not None:
                thread.join()

    def _watch(self, now: int, end: Callable[[], None], stop: threading.Event) -> None:
        while not stop.wait(max(self._config.elastic_resize_monitor_interval_s, 0.05)):
            n = self._room()
            if n != now and n >= self._config.min_workers:
                self.resized = n
                end()
                return


__all__ = ["Sizes"]
