"""GPUs of workers: which of this process's devices each worker sees in its CUDA_VISIBLE_DEVICES.

A worker has whole GPUs, or a fraction of one that it shares with others. The counts include all functions of
this process.
"""

import os
import threading
from pathlib import Path

from headrace._core import InvalidArgument

_lock = threading.Lock()
_used = {}  # device -> the fraction of it that workers have
_TINY = 1e-6


def _forked():
    """Another thread of the parent may have held the lock."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forked)


def visible():
    """The devices that this process sees, as CUDA_VISIBLE_DEVICES names them."""
    text = os.environ.get("CUDA_VISIBLE_DEVICES")
    if text is not None:
        return [d for d in (part.strip() for part in text.split(",")) if d and d != "-1"]
    try:
        return [str(i) for i, _ in enumerate(sorted(Path("/proc/driver/nvidia/gpus").iterdir()))]
    except OSError:
        return []


def check(where, gpus):
    """num_gpus of a function; InvalidArgument if it is no number, or more than this process sees."""
    if gpus is None:
        return 0
    if isinstance(gpus, bool) or not isinstance(gpus, (int, float)) or not gpus >= 0:
        raise InvalidArgument(f"{where}: num_gpus: expected a number of at least 0, found {gpus!r}")
    if gpus > 1 and gpus != int(gpus):
        raise InvalidArgument(
            f"{where}: num_gpus: expected a whole number or a fraction below 1, found {gpus}"
        )
    there = visible()
    if gpus > len(there):
        what = f"CUDA_VISIBLE_DEVICES={','.join(there)}" if there else "no device is visible"
        raise InvalidArgument(f"{where}: num_gpus: expected at most {len(there)} ({what}), found {gpus:g}")
    return gpus


def capacity(gpus):
    """The largest number of workers with `gpus` GPUs each."""
    n = len(visible())
    return n // int(gpus) if gpus >= 1 else n * int(1 / gpus + _TINY)


def take(gpus):
    """Reserves devices for a worker; None if other workers have them."""
    with _lock:
        there = visible()
        if gpus < 1:
            fits = [d for d in there if _used.get(d, 0) + gpus <= 1 + _TINY]
            found = [min(fits, key=lambda d: (_used.get(d, 0), there.index(d)))] if fits else []
        else:
            free = [d for d in there if _used.get(d, 0) < _TINY]
            found = free[: int(gpus)] if len(free) >= gpus else []
        for device in found:
            _used[device] = _used.get(device, 0) + min(gpus, 1)
        return found or None


def give_back(devices, gpus):
    """Releases the devices of a worker that has ended."""
    with _lock:
        for device in devices:
            _used[device] -= min(gpus, 1)
            if _used[device] < _TINY:
                del _used[device]
