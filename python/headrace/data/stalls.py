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


def of_rank(info: dict[str, Any], rank: int, epoch: int) -> str:
    """One rank that others wait for: "rank 1 (pid 77) ..."."""
    one = info["ranks"][rank]
    if one["state"] == "away":
        return f"rank {rank} has not come"
    name = f"rank {rank} (pid {one['pid']})"
    since = f"for {max(one['idle_ms'], 0) / 1000:.0f} s"
    if one["state"] == "in":
        text = f"{name} has taken {one['taken']} steps of epoch {info['epoch']} and none {since}"
    elif one["taken"] or epoch:
        text = f"{name} has not begun epoch {epoch} {since}"
    else:
        text = f"{name} has not begun to read it"
    state = process_state(one["pid"])
    return f"{text}: {state}" if state else text


def listed(ranks: list[int]) -> str:
    """ "rank 1", "ranks 1, 2"."""
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"


def line(info: dict[str, Any], rank: int, pid: int, what: str, seconds: float) -> tuple[str, list[int]]:
    """(why rank `rank` waits for the dataset `what`, the ranks that it waits for)."""
    guilty = blamed(info)
    one = info["ranks"][rank]
    epoch = info["epoch"] + (one["state"] == "asked" and info["running"])
    waits = [i for i in range(len(info["ranks"])) if is_waiting(info, i) and i not in guilty]
    who = listed(waits) if rank in waits else f"{listed([rank])}"
    verb = "waits" if len(waits) < 2 or rank not in waits else "wait"
    if rank in waits and len(waits) == 1 or rank not in waits:
        who = f"rank {rank} (pid {pid})"
    if one["state"] == "asked":
        head = f"{who} {verb} {seconds:.0f} s for epoch {epoch} of {what} to begin"
    else:
        head = f"{who} {verb} {seconds:.0f} s for step {one['taken']} of epoch {epoch} of {what}"
    if not guilty:
        return f"{head}: no rank is behind, the engine has no batch yet", guilty
    return f"{head}: {'; '.join(of_rank(info, g, epoch) for g in guilty)}", guilty


__all__ = ["blamed", "is_waiting", "line", "listed", "of_rank", "process_state"]
