"""Whether all hosts of a run begin a pass at the same place.

Hosts exchange no data, so a host where no rank loads the state would begin at another row in silence. Where
the program has begun a process group of torch.distributed, the engine's rank of each host compares its place
with that of the first host to come, in the key-value store of the group. That is no collective: no rank
waits, and the order of the program's own collectives does not matter.

Tests: tests/python/test_launchers.py
"""

from __future__ import annotations

import json
import socket
from typing import Any

from headrace._core import HeadraceError, MismatchError
from headrace.optional import imported


def check(place: Any, name: str, what: str, split: Any) -> None:
    """Compares the place at which `split` begins a pass. name: of this pass, the same on all hosts; what:
    the dataset, for errors.

    Raises MismatchError with the ranks, hosts and places if another host begins elsewhere.
    """
    store = _store(place.world_size) if place.here < place.world_size else None
    if store is None:
        return
    mine = {"rank": place.rank, "host": socket.gethostname(), "hosts": place.n_hosts}
    mine |= _begins(split, place.rank)
    try:
        first = json.loads(store.compare_set(f"headrace/{name}", "", json.dumps(mine)).decode())
    except (RuntimeError, ValueError, NotImplementedError):
        return  # the process that serves the store ends, or this kind of store cannot
    different = [key for key in mine if key not in ("rank", "host") and mine[key] != first.get(key)]
    if different:
        raise MismatchError(
            f"the hosts read different rows of {what}: {_told(mine, different)}; {_told(first, different)}. "
            "Expected the same place on all hosts: at least one rank of each host loads the state "
            "(DataContext.check_hosts = False: no comparison)"
        )


def _store(world_size: int) -> Any:
    """The store of the default process group of all ranks; None: there is none."""
    dist = imported("torch.distributed")
    if dist is None or not dist.is_available() or not dist.is_initialized():
        return None
    if dist.get_world_size() != world_size:
        return None
    try:
        return dist.distributed_c10d._get_default_store()
    except (AttributeError, ValueError):
        return None


def _begins(split: Any, rank: int) -> dict[str, Any]:
    """Where the pass begins: epoch, row, seed, rows of a batch, and the order by lanes."""
    try:
        known = json.loads(split.position_of(rank))
        extra = known["extra"]
        return {
            "epoch": known["epoch"],
            "row": extra.get("rows", 0),
            "seed": known["seed"],
            "batch_size": extra.get("batch_rows", 0),
            "lanes": extra.get("lanes", 1),
        }
    except (HeadraceError, KeyError, ValueError):  # a plan without positions
        return {"epoch": json.loads(split.ranks())["epoch"]}


def _told(one: dict[str, Any], names: list[str]) -> str:
    values = ", ".join(f"{name} {one.get(name)}" for name in names)
    return f"rank {one['rank']} (host {one['host']}) begins at {values}"


__all__ = ["check"]
