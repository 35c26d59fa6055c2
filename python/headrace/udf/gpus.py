"""Which GPUs a worker sees: its own CUDA_VISIBLE_DEVICES, out of what this process sees.

A worker has whole GPUs, or a fraction of one that it shares with others. The shares are counted for all
functions of this process.
"""

import os
import threading
from pathlib import Path

from headrace._core import InvalidArgument

_lock = threading.Lock()
_used = {}  # device -> the part of it that workers have
_TINY = 1e-6


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
    """num_gpus of a function, or InvalidArgument: of a wrong kind, or more than there are."""
    if gpus is None:
        return 0
    if isinstance(gpus, bool) or not isinstance(gpus, (int, float)) or not gpus >= 0:
        raise InvalidArgument(f"{where}: num_gpus {gpus!r}: expected a number of at least 0")
    if gpus > 1 and gpus != int(gpus):
        raise InvalidArgument(f"{where}: num_gpus {gpus}: a whole number, or a fraction of one")
    there = visible()
    if gpus > len(there):
        what = f"CUDA_VISIBLE_DEVICES={','.join(there)}" if there else "none can be seen"
        raise InvalidArgument(f"{where}: num_gpus {gpus:g}: there are {len(there)} ({what})")
    return gpus


def capacity(gpus):
    """How many workers with so many GPUs each there can be."""
    n = len(visible())
    return n // int(gpus) if gpus >= 1 else n * int(1 / gpus + _TINY)


def take(gpus):
    """Devices for a worker, now its; None: others have them."""
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
    """A worker that had them is gone."""
    with _lock:
        for device in devices:
            _used[device] -= min(gpus, 1)
            if _used[device] < _TINY:
                del _used[device]
