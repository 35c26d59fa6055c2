"""Barriers and small values between the workers of a run, over the driver: without a process group."""

from __future__ import annotations

from typing import Any

from headrace.train.context import get_session


def barrier() -> None:
    """Waits until all workers have called it. RuntimeError: a worker has ended, or called another one."""
    get_session("barrier()").channel.meet("barrier", None)


def broadcast_from_rank_zero(data: Any) -> Any:
    """Returns rank 0's `data` on all workers; it must pickle. A barrier. For small values: the driver sends a
    copy to each worker. RuntimeError as for barrier().
    """
    session = get_session("broadcast_from_rank_zero()")
    return session.channel.meet("broadcast_from_rank_zero", data if session.world_rank == 0 else None)


__all__ = ["barrier", "broadcast_from_rank_zero"]
