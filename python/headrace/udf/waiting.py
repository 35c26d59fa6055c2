"""How many workers a function has that waits, moved by measurement.

A worker for each CPU is right where functions compute. One that waits, for a server or a lock of its own,
leaves CPUs idle: there more workers help. So the manager of the workers shows each look here, and one move is
on trial at a time, as in src/exec/tune.c:

    calls wait in each look of a period, all workers are there, and compute for less than COMPUTES of their
    calls' time, waits for a CPU with it: half as many again, or twice as many where they hardly compute. It
    is kept if GAIN more calls end in a second, once the new workers are there. Otherwise no worker that ends
    is replaced, and the pause before the next trial doubles.

There are TIMES_MORE workers for each CPU at most, and no more than MOST or the CPUs; as many as do not fill
more CPUs than a worker each would; and as many as have their memory in a MEMORY_PARTth of the limit. Workers
beyond the CPUs take no worker from other functions.

Tests: tests/python/test_waiting.py
"""

from headrace import _core

PERIOD = 1.0  # seconds of a look at least
CALLS = 2  # that each worker must have ended in a period
COMPUTES = 0.5  # share of calls' time with work for a CPU, below which a function waits
HARDLY = 0.2  # the same, below which it hardly does anything else
GAIN = 1.1  # of the rate
TIMES_MORE = 4
MOST = 64
MEMORY_PART = 8
MOST_HOLD = 64  # periods


class Waiting:
    """The number of workers beyond those of the CPUs: `extra`."""

    def __init__(self):
        self.extra = 0
        self._before = None  # (extra, rate) while a trial goes on
        self._hold, self._next_hold = 0, 4
        self._begin(0.0, (0, 0.0, 0.0))

    def look(self, now, calls, n, base, private):
        """Takes what the manager sees: the time, its Calls, the workers that are there, those of the CPUs,
        and the bytes of each worker. True: `extra` is another number.
        """
        if calls.n_waiting == 0 or calls.n_expected or n < base + self.extra:
            self._begin(now, calls.ended)  # not short of workers, or not all are there
            return False
        ended, busy, waited = (b - a for a, b in zip(self._from, calls.ended, strict=True))
        if now - self._since < PERIOD or ended < CALLS * n:
            return False
        rate, share = ended / (now - self._since), 1 - waited / busy if busy else 1.0
        self._begin(now, calls.ended)
        return self._decide(rate, share, n, base, private)

    def _begin(self, now, ended):
        self._since, self._from = now, ended

    def _decide(self, rate, share, n, base, private):
        was = self.extra
        if self._before:
            before, slower = self._before
            self._before = None
            if rate < GAIN * slower:
                self.extra, self._hold = before, self._next_hold
                self._next_hold = min(2 * self._next_hold, MOST_HOLD)
                return self.extra != was
        if self._hold:
            self._hold -= 1
        elif share < COMPUTES:
            most = min(n + (n if share < HARDLY else max(1, n // 2)), TIMES_MORE * base, max(MOST, base))
            if share * most > base:
                most = int(base / share)
            if private:
                most = min(most, max(base, _core.memory_limit() // MEMORY_PART // private))
            if most > n:
                self._before = (was, rate)
                self.extra = most - base
        return self.extra != was
