"""Memory of a process and all that it started, summed as PSS, so that shared pages count once."""

import os
import time

EVERY_S = 0.02


def tree(pid):
    """pid and its descendants, those that are still there."""
    found, todo = [], [pid]
    while todo:
        pid = todo.pop()
        found.append(pid)
        try:
            for task in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{task}/children") as f:
                    todo += map(int, f.read().split())
        except OSError:
            pass  # it has ended meanwhile
    return found


def pss_bytes(pid):
    try:
        with open(f"/proc/{pid}/smaps_rollup") as f:
            for line in f:
                if line.startswith("Pss:"):
                    return 1024 * int(line.split()[1])
    except OSError:
        pass
    return 0


def watch(process, timeout_s):
    """Peak of the summed PSS of `process` (a Popen) and its descendants, in bytes; TimeoutError."""
    peak, end = 0, time.monotonic() + timeout_s
    while process.poll() is None:
        begin = time.monotonic()
        if begin > end:
            raise TimeoutError
        peak = max(peak, sum(map(pss_bytes, tree(process.pid))))
        time.sleep(max(0.0, EVERY_S - (time.monotonic() - begin)))
    return peak
