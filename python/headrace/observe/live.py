"""Records of the runs of this process, while they go on and after their end: what dashboard() shows.

A thread looks at each run once a second: at its counters, and at what it has done since the last look, which
the engine sums up (src/exec/trace.c). Without a run the thread waits. The cost is the same for any number of
viewers.

Spans stay text: the engine writes JSON, and the page reads it.

Tests: tests/python/test_dashboard.py
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from typing import Any

from headrace import _core
from headrace.data import running

EVERY_S = 1.0
KEPT = 8  # runs that have ended
MOST_SAMPLES = 2000  # of a run; then every other one goes, and later ones are twice as far apart
MOST_TEXT = 4 << 20  # bytes of spans of a run


class Record:
    """What is known of a run. Guarded by Live.lock.

    samples: [number, seconds, rows, bytes in memory, spilled, ready tables, waits in s, queues, bytes of each
    operation].
    """

    def __init__(self, run: running.Running, now: float) -> None:
        self.run: running.Running | None = run  # None: it has ended
        self.number = run.number
        self.title = run.title
        self.ranks = run.ranks
        self.works = True
        self.begin = now
        self.stats: dict[str, Any] = {}
        self.samples: list[list[Any]] = [[1, round(now, 3), 0, 0, 0, 0, 0.0, [], []]]
        self.spans: deque[tuple[int, str]] = deque()
        self._n_spans = 0
        self._n_text = 0
        self._n_looks = 1
        self._step = 1

    @property
    def engine(self) -> dict[str, Any]:
        """The statistics of the run itself; of a split they are a part."""
        return (self.stats.get("run") or {}) if "ranks" in self.stats else self.stats

    @property
    def rows(self) -> int:
        return sum(self.stats["rows"]) if "ranks" in self.stats else self.stats.get("taken_rows", 0)

    def waited_s(self) -> float:
        """Of the mean rank, since the first batch."""
        steps = self.stats["rank_steps"] if "ranks" in self.stats else [self.stats.get("steps", {})]
        return sum(s.get("wait_ns", 0) for s in steps) / 1e9 / len(steps)

    def look(self, now: float, last: bool = False) -> None:
        """Takes what is new."""
        run, worked = self.run, self.works
        if run is None:
            return
        try:
            self.stats = json.loads(run.engine.stats())
            text = run.engine.news()
            self.works = not last and run.works()
        except _core.HeadraceError:  # it closes now, without its ends()
            self.run, self.works = None, False
            return
        if text:
            self._n_spans += 1
            self._n_text += len(text)
            self.spans.append((self._n_spans, text))
        while self._n_text > MOST_TEXT and len(self.spans) > 1:
            self._n_text -= len(self.spans.popleft()[1])
        if worked or self.works:  # a split rests between two epochs
            self._n_looks += 1
            if last or self._n_looks % self._step == 0:
                self._sample(now)
        if last:
            self.run = None

    def _sample(self, now: float) -> None:
        s = self.engine
        self.samples.append(
            [
                self._n_looks,
                round(now, 3),
                self.rows,
                s.get("used_bytes", 0),
                s.get("spill_written_bytes", 0),
                s.get("ready_tables", 0),
                round(self.waited_s(), 6),
                [stage["queue"] for stage in s.get("stages", [])],
                [o.get("used_bytes", 0) for o in s.get("operators", [])],
            ]
        )
        if len(self.samples) > MOST_SAMPLES:
            self.samples = self.samples[::2]
            self._step *= 2

    def nothing_happened(self) -> bool:
        """An epoch that opened early, and was not wanted."""
        return not self.rows and not self.engine.get("hungry_ns")


class Live:
    """The records of the process. A running.Listener."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # a run may end in the garbage collection of a call here
        self.records: dict[int, Record] = {}
        self.zero_ns = time.monotonic_ns()
        self._some = threading.Event()
        self._end = threading.Event()
        running.listen(self)
        self._thread = threading.Thread(target=self._look, name="headrace-live", daemon=True)
        self._thread.start()

    def now(self) -> float:
        """Seconds since the records began."""
        return (time.monotonic_ns() - self.zero_ns) / 1e9

    def close(self) -> None:
        """Ends the thread."""
        running.ignore(self)
        self._end.set()
        self._some.set()
        self._thread.join()

    def begins(self, run: running.Running) -> None:
        with self.lock:
            if run.number in self.records:
                return
            try:
                run.engine.watch(self.zero_ns)
            except _core.HeadraceError:
                return
            self.records[run.number] = Record(run, self.now())
        self._some.set()

    def ends(self, run: running.Running) -> None:
        with self.lock:
            record = self.records.get(run.number)
            if record is None:
                return
            record.look(self.now(), last=True)
            record.run, record.works = None, False
            if record.nothing_happened():
                del self.records[run.number]
            ended = [n for n, r in self.records.items() if r.run is None]
            for number in ended[: max(0, len(ended) - KEPT)]:
                del self.records[number]

    def look(self) -> bool:
        """Looks at all runs now. Whether there are any."""
        with self.lock:
            for record in list(self.records.values()):
                record.look(self.now())
            return any(r.run is not None for r in self.records.values())

    def _look(self) -> None:
        while not self._end.is_set():
            self._some.wait()
            self._end.wait(EVERY_S)
            if not self.look() and not self._end.is_set():
                self._some.clear()
                if self.look():  # one has begun meanwhile
                    self._some.set()

    def record(self, number: int) -> Record | None:
        """That run's; 0: the newest of those that work, or else of all."""
        if number:
            return self.records.get(number)
        some = [r for r in self.records.values() if r.works] or list(self.records.values())
        return max(some, key=lambda r: r.number, default=None)
