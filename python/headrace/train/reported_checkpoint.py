"""What get_all_reported_checkpoints() returns, under Ray's names."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from headrace.train.checkpoint import Checkpoint


class CheckpointConsistencyMode(Enum):
    """Which checkpoints get_all_reported_checkpoints() waits for: VALIDATED: until none waits for its
    validation. COMMITTED: for none, because report() returns when its checkpoint is stored.
    """

    COMMITTED = "COMMITTED"
    VALIDATED = "VALIDATED"


class ReportedCheckpointStatus(Enum):
    """COMMITTED: stored, without a validation. The others: of a checkpoint with report(validation=...)."""

    COMMITTED = "COMMITTED"
    PENDING_VALIDATION = "PENDING_VALIDATION"
    VALIDATED = "VALIDATED"
    VALIDATION_TIMEOUT = "VALIDATION_TIMEOUT"
    VALIDATION_FAILED = "VALIDATION_FAILED"


@dataclass
class ReportedCheckpoint:
    """A checkpoint that the run keeps, with the metrics that rank 0 reported with it and those of its
    validation.
    """

    checkpoint: Checkpoint
    metrics: dict[str, Any]
    status: ReportedCheckpointStatus = ReportedCheckpointStatus.COMMITTED
