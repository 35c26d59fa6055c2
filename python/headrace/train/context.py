"""The train loop's view of its run: ranks, data shards, report()."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headrace._core import StorageError
from headrace.train.checkpoint import Checkpoint
from headrace.train.files import copy_folder
from headrace.train.reported_checkpoint import (
    CheckpointConsistencyMode,
    ReportedCheckpoint,
    ReportedCheckpointStatus,
)
from headrace.train.validation_config import ValidationTaskConfig, wanted_by

if TYPE_CHECKING:
    from headrace.data import DataIterator


@dataclass
class StorageContext:
    """The folder of the run's results: storage_path/experiment_dir_name."""

    storage_path: str
    experiment_dir_name: str

    @property
    def experiment_fs_path(self) -> str:
        return os.path.join(self.storage_path, self.experiment_dir_name)


@dataclass
class Session:
    """One worker's side of a run. `channel.report(...)` reaches the driver, or in local mode the storage."""

    channel: Any
    world_size: int
    world_rank: int
    local_rank: int
    local_world_size: int
    storage: StorageContext
    metadata: dict[str, Any]
    use_gpu: bool = False
    shards: dict[str, DataIterator] = field(default_factory=dict)
    checkpoint: Checkpoint | None = None
    validates: bool = False

    def report(
        self,
        metrics: dict[str, Any],
        checkpoint: Checkpoint | None,
        dir_name: str | None,
        wanted: dict[str, Any] | None,
    ) -> None:
        error = self._copied(checkpoint) if checkpoint is not None else None
        for shard in self.shards.values():
            source = getattr(shard, "_source", None)
            if hasattr(source, "settle"):
                source.settle()
        latest = self.channel.report(metrics, checkpoint is not None, dir_name, error, wanted)
        if latest:
            self.checkpoint = Checkpoint(latest)

    def _copied(self, checkpoint: Checkpoint) -> Exception | None:
        """Copies the files of a checkpoint to the driver's folder. Returns why that failed: the other workers
        wait in report(), and all of them raise it.
        """
        try:
            copy_folder(checkpoint.path, self.channel.staging(), f"rank {self.world_rank}")
        except StorageError as e:
            stays = f"{self.checkpoint.path} stays the newest checkpoint" if self.checkpoint else ""
            return StorageError(e.errno, f"{e.strerror}; {stays or 'there is no checkpoint yet'}")
        except Exception as e:
            return e
        return None


_LOOK_S = 0.1  # between two questions to the driver
_session: Session | None = None


def set_session(session: Session | None) -> None:
    global _session
    _session = session


def in_worker() -> bool:
    """Whether this code runs in a train loop."""
    return _session is not None


def get_session(what: str) -> Session:
    if _session is None:
        raise RuntimeError(
            f"{what} works only in the train loop, the function that fit() of a trainer calls on each worker"
        )
    return _session


class TrainContext:
    """Ranks, sizes and names of this worker's run."""

    def get_world_size(self) -> int:
        """Number of workers."""
        return get_session("get_context()").world_size

    def get_world_rank(self) -> int:
        """This worker's number, 0 .. world size - 1."""
        return get_session("get_context()").world_rank

    def get_local_rank(self) -> int:
        """This worker's number on its machine."""
        return get_session("get_context()").local_rank

    def get_local_world_size(self) -> int:
        return get_session("get_context()").local_world_size

    def get_node_rank(self) -> int:
        """The number of the machine: 0, because there is one."""
        return 0

    def get_experiment_name(self) -> str:
        return get_session("get_context()").storage.experiment_dir_name

    def get_trial_name(self) -> str:
        return self.get_experiment_name()

    def get_trial_id(self) -> str:
        return self.get_experiment_name()

    def get_trial_dir(self) -> str:
        return get_session("get_context()").storage.experiment_fs_path

    def get_storage(self) -> StorageContext:
        return get_session("get_context()").storage

    def get_metadata(self) -> dict[str, Any]:
        """TorchTrainer(metadata=...)."""
        return get_session("get_context()").metadata


def get_context() -> TrainContext:
    """The context of this worker. Its methods raise RuntimeError outside a train loop."""
    return TrainContext()


def get_dataset_shard(dataset_name: str | None = None) -> DataIterator:
    """This worker's share of TorchTrainer(datasets={dataset_name: ...}); None: "train"."""
    session = get_session("get_dataset_shard()")
    name = "train" if dataset_name is None else dataset_name
    if name not in session.shards:
        there = ", ".join(map(repr, session.shards)) or "none"
        raise KeyError(f"the trainer has no dataset {name!r}; the datasets are {there}")
    return session.shards[name]


def get_checkpoint() -> Checkpoint | None:
    """The last reported checkpoint: after a restart, also by another driver, the one to load. At the
    beginning of a run it is TorchTrainer(resume_from_checkpoint=...), or None.
    """
    return get_session("get_checkpoint()").checkpoint


def get_all_reported_checkpoints(
    consistency_mode: CheckpointConsistencyMode = CheckpointConsistencyMode.VALIDATED,
    timeout_s: float | None = None,
) -> list[ReportedCheckpoint]:
    """The checkpoints that the run keeps, the oldest first, with rank 0's metrics and those of their
    validation. With VALIDATED it waits until none waits for its validation, at most timeout_s seconds; then
    the status says which still do. COMMITTED waits for nothing: report() returns when its checkpoint is
    stored.
    """
    session = get_session("get_all_reported_checkpoints()")
    until = None if timeout_s is None else time.monotonic() + timeout_s
    while True:
        found = [
            ReportedCheckpoint(Checkpoint(path), metrics, ReportedCheckpointStatus(status))
            for path, metrics, status in session.channel.reported()
        ]
        waits = any(one.status is ReportedCheckpointStatus.PENDING_VALIDATION for one in found)
        late = until is not None and time.monotonic() >= until
        if not waits or late or consistency_mode is CheckpointConsistencyMode.COMMITTED:
            return found
        time.sleep(_LOOK_S)


def report(
    metrics: dict[str, Any],
    checkpoint: Checkpoint | None = None,
    checkpoint_dir_name: str | None = None,
    checkpoint_upload_mode: Any = None,
    delete_local_checkpoint_after_upload: bool | None = None,
    checkpoint_upload_fn: Any = None,
    validation: bool | ValidationTaskConfig = False,
) -> None:
    """Reports metrics and perhaps a checkpoint. It is a barrier: every worker must call it equally often.

    Rank 0's metrics are the run's. All ranks copy their checkpoints into one folder (ranks that save parts
    give their files different names). The folder is complete when report() returns; it has the positions of
    the datasets, so that a restart continues after the last batch that the rank took. If a rank cannot store
    its files, all ranks raise its StorageError, which names the rank, the path and, on a full disk, the bytes
    that it needs; the previous checkpoint stays.

    validation: True or a ValidationTaskConfig: the function of TorchTrainer(validation_config=...) validates
    the checkpoint while the training goes on. Its metrics join those of this report.
    """
    session = get_session("report()")
    if not isinstance(metrics, dict):
        raise TypeError(
            f"report(metrics=...): expected a dict of name -> value, found {type(metrics).__name__}"
        )
    if checkpoint is not None and not isinstance(checkpoint, Checkpoint):
        raise TypeError(f"report(checkpoint=...): expected a Checkpoint, found {type(checkpoint).__name__}")
    given = {
        "checkpoint_upload_mode": checkpoint_upload_mode,
        "checkpoint_upload_fn": checkpoint_upload_fn,
    }
    for name, value in given.items():
        if value is not None:
            raise NotImplementedError(f"report({name}=...) is not supported; leave it out")
    wanted = wanted_by(validation)
    if wanted is not None and checkpoint is None:
        raise ValueError("report(validation=...): expected a checkpoint to validate, found None")
    if wanted is not None and not session.validates:
        raise ValueError("report(validation=...): expected a trainer with a validation_config, found none")
    session.report(metrics, checkpoint, checkpoint_dir_name, wanted)
    if delete_local_checkpoint_after_upload and checkpoint is not None:
        shutil.rmtree(checkpoint.path, ignore_errors=True)
