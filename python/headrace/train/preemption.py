"""Names of Ray Train for machines of a cluster that go away: one machine has none of that.

Tests: tests/python/test_train_names.py
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace.train.context import get_session
from headrace.train.result import TrainingFailedError


@dataclass(frozen=True)
class PreemptionInfo:
    """Which machines go away, and when. deadline_ms: UNIX time; preempted_node_to_ranks: machine -> ranks."""

    deadline_ms: int | None
    preempted_node_to_ranks: dict[str, list[int]]

    @property
    def preempted_node_ids(self) -> list[str]:
        return sorted(self.preempted_node_to_ranks)

    @property
    def preempted_ranks(self) -> list[int]:
        return sorted({rank for ranks in self.preempted_node_to_ranks.values() for rank in ranks})


class PreemptionError(TrainingFailedError):
    """A machine went away. fit() never raises it."""

    def __init__(self, preemption_info: PreemptionInfo, drain_timed_out: bool = False):
        self.preemption_info = preemption_info
        self.drain_timed_out = drain_timed_out
        super().__init__(f"the machines of ranks {preemption_info.preempted_ranks} went away")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.preemption_info, self.drain_timed_out)


def get_preemption_info() -> PreemptionInfo | None:
    """None: nothing takes the machine away. Not a barrier."""
    get_session("get_preemption_info()")
    return None


__all__ = ["PreemptionError", "PreemptionInfo", "get_preemption_info"]
