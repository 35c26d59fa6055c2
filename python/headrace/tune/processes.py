"""CPU time, memory and threads of a process and all that it started, read from /proc.

Nothing is added to the processes: any loader can be watched, whatever it is made of.
"""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass, field

TICK = os.sysconf("SC_CLK_TCK")


def tree(pid: int) -> list[int]:
    """pid and its descendants, those that are still there."""
    found, todo = [], [pid]
    while todo:
        pid = todo.pop()
        found.append(pid)
        for thread in threads(pid):
            try:
                with open(f"/proc/{pid}/task/{thread}/children") as f:
                    todo += map(int, f.read().split())
            except OSError:
                pass  # it has ended meanwhile
    return found


def threads(pid: int) -> list[str]:
    try:
        return os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []


def _stat(path):
    """(state, seconds of CPU, time of start) of a process or thread, or None."""
    try:
        with open(path, "rb") as f:
            fields = f.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return fields[0], (int(fields[11]) + int(fields[12])) / TICK, int(fields[19])


def pss_bytes(pid: int) -> int:
    """The process's memory; pages that several processes share count by their part."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as f:
            for line in f:
                if line.startswith(b"Pss:"):
                    return 1024 * int(line.split()[1])
    except OSError:
        pass
    return 0


def kill_all(pid: int) -> None:
    """Ends a process and all that it started, also those that it starts meanwhile."""
    for _ in range(3):
        for one in reversed(tree(pid)):
            try:
                os.kill(one, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass


@dataclass
class Watch:
    """Samples of a process tree. The times are those of time.monotonic().

    cpu: (time, seconds of CPU of the whole tree). lanes: process -> [(time, seconds of CPU of this process)].
    memory: (time, bytes). running: (time, threads that run or want to run).
    """

    pid: int
    cpu: list[tuple[float, float]] = field(default_factory=list)
    lanes: dict[int, list[tuple[float, float]]] = field(default_factory=dict)
    memory: list[tuple[float, int]] = field(default_factory=list)
    running: list[tuple[float, int]] = field(default_factory=list)
    most_threads: int = 0
    _seconds: dict[tuple[int, int], float] = field(default_factory=dict)

    def sample(self, with_memory: bool) -> None:
        now = time.monotonic()
        running = n_threads = 0
        pids = tree(self.pid)
        for pid in pids:
            found = _stat(f"/proc/{pid}/stat")
            if not found:
                continue
            self._seconds[pid, found[2]] = found[1]
            self.lanes.setdefault(pid, []).append((now, found[1]))
            names = threads(pid)
            n_threads += len(names)
            states = (_stat(f"/proc/{pid}/task/{name}/stat") for name in names)
            running += sum(1 for s in states if s and s[0] == b"R")
        self.cpu.append((now, sum(self._seconds.values())))
        self.running.append((now, running))
        self.most_threads = max(self.most_threads, n_threads)
        if with_memory:
            self.memory.append((now, sum(map(pss_bytes, pids))))
