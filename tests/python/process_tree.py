"""Whether processes are alive, for tests of workers, which may end during the check."""

import time

import psutil


def is_alive(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def gone(pids, seconds=60.0):
    """Whether all have ended within `seconds`."""
    until = time.monotonic() + seconds
    while any(map(is_alive, pids)):
        if time.monotonic() >= until:
            return False
        time.sleep(0.02)
    return True
