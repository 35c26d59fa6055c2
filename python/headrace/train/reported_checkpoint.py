"""How report() stores a checkpoint, and what get_all_reported_checkpoints() returns, under Ray's names."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from headrace.train.checkpoint import Checkpoint


class CheckpointUploadMode(Enum):
    """SYNC: report() returns when the checkpoint is stored. ASYNC: report() returns at once, and a thread
    stores it. NO_UPLOAD: the files are below the run's folder already.
    """

    ASYNC = "ASYNC"
    SYNC = "SYNC"
    NO_UPLOAD = "NO_UPLOAD"

    def default_delete_local_checkpoint_after_upload(self) -> bool:
        """Whether the local files are deleted where report() does not say it."""
        return self is CheckpointUploadMode.ASYNC


class CheckpointConsistencyMode(Enum):
    """What get_all_reported_checkpoints() waits for: COMMITTED: until the checkpoints of all reports are
    stored. VALIDATED: also until none waits for its validation.
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
