"""Texts that say which rank waits for whom, from what an engine knows of the ranks of a split."""

from __future__ import annotations

import os
from typing import Any

_STATES = {
    "T": "it is stopped (SIGSTOP)",
    "t": "a debugger has stopped it",
    "Z": "it has ended",
    "X": "it has ended",
    "R": "it computes",
    "D": "it waits for a disk or a device",
}


def process_state(pid: int) -> str:
    """What a process of this machine does, in words; "" if this process cannot see it."""
    if not pid:
        return ""
    try:
        with open(f"/proc/{pid}/stat") as f:
            state = f.read().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return "it has ended" if os.path.isdir("/proc/self") else ""
    return _STATES.get(state, "it sleeps or waits")


def is_waiting(info: dict[str, Any], rank: int) -> bool:
    """Whether a rank has taken all its batches that are ready, or waits for an epoch."""
    one = info["ranks"][rank]
    return one["state"] == "asked" or (one["state"] == "in" and one["ready"] == 0)


def blamed(info: dict[str, Any]) -> list[int]:
    """The ranks that the others wait for; empty: the engine has nothing ready."""
    ranks = info["ranks"]
    if any(r["state"] == "asked" for r in ranks):
        return [i for i, r in enumerate(ranks) if r["state"] in ("away", "out", "in")]
    taken = [r["taken"] for r in ranks if r["state"] == "in"]
    if not taken or info["steps"] - min(taken) < info["lead"]:
        return []
    return [i for i, r in enumerate(ranks) if r["state"] == "in" and r["taken"] == min(taken) and r["ready"]]


def of_rank(info: dict[str, Any], rank: int, epoch: int, in_thread: bool = False) -> str:
    """One rank that others wait for: "rank 1 (pid 77) ...". in_thread: a thread of this process reads it."""
    one = info["ranks"][rank]
    if one["state"] == "away" and not in_thread:
        return f"rank {rank} has not come"
    name = f"rank {rank}" if in_thread else f"rank {rank} (pid {one['pid']})"
    since = f"for {max(one['idle_ms'], 0) / 1000:.0f} s"
    if one["state"] == "in":
        text = f"{name} has taken {one['taken']} steps of epoch {info['epoch']} and none {since}"
    elif one["taken"] or epoch:
        text = f"{name} has not begun epoch {epoch} {since}"
    else:
        text = f"{name} has not begun to read it"
    state = "" if in_thread else process_state(one["pid"])
    return f"{text}: {state}" if state else text


def listed(ranks: list[int]) -> str:
    """ "rank 1", "ranks 1, 2"."""
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"


def awaited(epoch: int, step: int | None, what: str) -> str:
    """What a rank of the dataset `what` waits for; step None: it has not begun the epoch."""
    if step is None:
        return f"for epoch {epoch} of {what} to begin"
    return f"for step {step} of epoch {epoch} of {what}"


def line(
    info: dict[str, Any], rank: int, pid: int | None, what: str, seconds: float
) -> tuple[str, list[int]]:
    """(why rank `rank` waits for the dataset `what`, the ranks that it waits for). pid None: threads of this
    process read the ranks.
    """
    guilty = blamed(info)
    one = info["ranks"][rank]
    asked = one["state"] == "asked"
    epoch = info["epoch"] + (asked and info["running"])
    waits = [i for i in range(len(info["ranks"])) if is_waiting(info, i) and i not in guilty]
    if rank in waits and len(waits) > 1:
        who = f"{listed(waits)} wait"
    else:
        who = f"rank {rank} waits" if pid is None else f"rank {rank} (pid {pid}) waits"
    head = f"{who} {seconds:.0f} s {awaited(epoch, None if asked else one['taken'], what)}"
    if not guilty:
        return f"{head}: no rank is behind, the engine has no batch yet", guilty
    return f"{head}: {'; '.join(of_rank(info, g, epoch, pid is None) for g in guilty)}", guilty


__all__ = ["awaited", "blamed", "is_waiting", "line", "listed", "of_rank", "process_state"]
