"""The environment variables HEADRACE_*, and the values that are refused; docs/environment.md lists them."""

from __future__ import annotations

import os
import re
import warnings

from headrace import _core
from headrace.settings import nearest

KNOWN = (
    "HEADRACE_AUTOTUNE",
    "HEADRACE_CACHE_DIR",
    "HEADRACE_CACHE_SIZE",
    "HEADRACE_DEBUG",
    "HEADRACE_LAUNCHER",
    "HEADRACE_LOCAL_WORLD_SIZE",
    "HEADRACE_MEMORY_LIMIT",
    "HEADRACE_NETWORK_THREADS",
    "HEADRACE_NODE_RANK",
    "HEADRACE_NUM_THREADS",
    "HEADRACE_PROGRESS",
    "HEADRACE_RANK",
    "HEADRACE_RULES",
    "HEADRACE_RUN_ID",
    "HEADRACE_SHARE_CREDENTIALS",
    "HEADRACE_SPILL_DIR",
    "HEADRACE_SPILL_QUOTA",
    "HEADRACE_STALL_TIMEOUT",
    "HEADRACE_STALL_WARNING",
    "HEADRACE_TRACE",
    "HEADRACE_WORLD_SIZE",
)
OF_TESTS = (
    "HEADRACE_BUILD",
    "HEADRACE_EXAMPLES",
    "HEADRACE_HUGE",
    "HEADRACE_LIB",
    "HEADRACE_RAY",
    "HEADRACE_THOROUGH",
)


def seconds_between_lines(text: str | None) -> int:
    """The value of HEADRACE_PROGRESS: 0 for "auto" or none, -1 for "off", else seconds."""
    if not text or text == "auto":
        return 0
    if text == "off":
        return -1
    if text.isascii() and text.isdigit() and 1 <= int(text) <= 86400:
        return int(text)
    raise _core.InvalidArgument(
        f"HEADRACE_PROGRESS: {text!r}, expected auto, off, or whole seconds between lines"
    )


def check() -> None:
    """Raises InvalidArgument for a value that the engine cannot parse; warns of names that nothing reads."""
    for name in ("HEADRACE_CACHE_SIZE", "HEADRACE_MEMORY_LIMIT", "HEADRACE_SPILL_QUOTA"):
        try:
            _core.parse_bytes(os.environ.get(name) or "0")
        except _core.InvalidArgument as e:
            raise _core.InvalidArgument(f"{name}: {e}") from None
    seconds_between_lines(os.environ.get("HEADRACE_PROGRESS"))
    for name, most in (("HEADRACE_NUM_THREADS", 1024), ("HEADRACE_NETWORK_THREADS", 9)):
        n = os.environ.get(name, "")
        if n and not (n.isascii() and n.isdigit() and 1 <= int(n) <= most):
            raise _core.InvalidArgument(f"{name}: {n!r}, expected a number from 1 to {most}")
    for name in ("HEADRACE_AUTOTUNE", "HEADRACE_SHARE_CREDENTIALS"):
        if (value := os.environ.get(name)) not in (None, "", "on", "off"):
            raise _core.InvalidArgument(f"{name}: {value!r}, expected on or off")
    for name in ("HEADRACE_STALL_TIMEOUT", "HEADRACE_STALL_WARNING"):
        seconds = os.environ.get(name, "")
        if seconds and not re.fullmatch(r"\d{1,8}(\.\d*)?", seconds, re.ASCII):
            raise _core.InvalidArgument(f"{name}: {seconds!r}, expected a number of seconds")
    for name in sorted(os.environ):
        if name.startswith("HEADRACE_") and name not in KNOWN and name not in OF_TESTS:
            near = nearest(name, KNOWN)
            text = f"{name}: Headrace has no such environment variable"
            warnings.warn(text + (f"; did you mean {near!r}?" if near else ""), RuntimeWarning, stacklevel=4)


__all__ = ["KNOWN", "check", "seconds_between_lines"]
