"""The train loop's view of its run: ranks, data shards, report()."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headrace import places
from headrace.data.iterator import SplitIterator
from headrace.train.checkpoint import Checkpoint
from headrace.train.reported_checkpoint import (
    CheckpointConsistencyMode,
    CheckpointUploadMode,
    ReportedCheckpoint,
    ReportedCheckpointStatus,
)
from headrace.train.reports import Begun, Given, Raised
from headrace.train.uploads import Upload, UploadFn, Uploads, check_delete
from headrace.train.validation_config import ValidationTaskConfig, wanted_by

if TYPE_CHECKING:
    from headrace.data import DataIterator


@dataclass
class StorageContext:
    """The folder of the run's results: storage_path/experiment_dir_name, local or of a store."""

    storage_path: str
    experiment_dir_name: str
    storage_options: places.Options | None = field(default=None, repr=False)

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

    def __post_init__(self) -> None:
        self._uploads = Uploads(self.channel.uploaded)
        self._later = False  # whether checkpoints have been stored in the background

    def report(self, given: Given, upload: Upload | None) -> None:
        """Waits for the other workers, and for the checkpoint unless it is stored in the background."""
        for name, shard in self.shards.items():
            source = getattr(shard, "_source", None)
            if hasattr(source, "settle"):
                source.settle()
            if isinstance(shard, SplitIterator) and (n := shard.n_ahead()):
                given.ahead[name] = n
        found = self.channel.begin(given)
        if isinstance(found, Begun):
            found = self._stored(found, upload)
        if found and not self._later:
            self.checkpoint = self.checkpoint_at(found)

    def _stored(self, begun: Begun, upload: Upload | None) -> str | None:
        later = upload is not None and upload.mode is CheckpointUploadMode.ASYNC
        self._later = self._later or not begun.waits
        place = None
        if later:
            self._uploads.start(upload, begun)
        elif upload is not None:
            try:
                place = upload.run(begun)
            except Exception as e:  # the other workers wait, too; all of them raise it
                self.channel.uploaded(begun.number, None, Raised.of(e))
            else:
                self.channel.uploaded(begun.number, place, None)
        found = self.channel.stored() if begun.waits else None
        if place is not None:
            upload.remove(place)
        return found

    def newest(self) -> Checkpoint | None:
        """The last checkpoint that is stored."""
        if self._later and (path := self.channel.latest()):
            self.checkpoint = self.checkpoint_at(path)
        return self.checkpoint

    def stays(self, mode: CheckpointUploadMode) -> str:
        """What stays if the next checkpoint cannot be stored."""
        if self._later or mode is CheckpointUploadMode.ASYNC:
            return "the last complete checkpoint stays"  # which one that will be, the driver knows
        newest = self.checkpoint
        return f"{newest.path} stays the newest checkpoint" if newest else "there is no checkpoint yet"

    def checkpoint_at(self, path: str) -> Checkpoint:
        """The run's checkpoint in this folder."""
        return Checkpoint(path, storage_options=self.storage.storage_options)

    def finish(self) -> None:
        """The train loop has ended: waits for the uploads of all workers."""
        self.channel.flush()
        self._uploads.close()

    def abandon(self) -> None:
        """The train loop has failed: starts no further upload."""
        self._uploads.close()


_LOOK_S = 0.1  # between two questions to the driver
_session: Session | None = None


def set_session(session: Session | None) -> None:
    global _session
    _session = session
    places.use(session.storage.storage_options if session else None)


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
    return get_session("get_checkpoint()").newest()


def get_all_reported_checkpoints(
    consistency_mode: CheckpointConsistencyMode = CheckpointConsistencyMode.VALIDATED,
    timeout_s: float | None = None,
) -> list[ReportedCheckpoint]:
    """The checkpoints that the run keeps, the oldest first, with rank 0's metrics and those of their
    validation. It waits until those of all reports are stored, with VALIDATED also until none waits for its
    validation; at most timeout_s seconds. Then the status says which still wait.
    """
    session = get_session("get_all_reported_checkpoints()")
    until = None if timeout_s is None else time.monotonic() + timeout_s
    while True:
        n_open, listed = session.channel.reported()
        found = [
            ReportedCheckpoint(session.checkpoint_at(path), metrics, ReportedCheckpointStatus(status))
            for path, metrics, status in listed
        ]
        waits = n_open > 0
        if consistency_mode is CheckpointConsistencyMode.VALIDATED:
            waits |= any(one.status is ReportedCheckpointStatus.PENDING_VALIDATION for one in found)
        if not waits or (until is not None and time.monotonic() >= until):
            return found
        time.sleep(_LOOK_S)


def report(
    metrics: dict[str, Any],
    checkpoint: Checkpoint | None = None,
    checkpoint_dir_name: str | None = None,
    checkpoint_upload_mode: CheckpointUploadMode = CheckpointUploadMode.SYNC,
    delete_local_checkpoint_after_upload: bool | None = None,
    checkpoint_upload_fn: UploadFn | None = None,
    validation: bool | ValidationTaskConfig = False,
) -> None:
    """Reports metrics and perhaps a checkpoint. It is a barrier: every worker must call it equally often.

    Rank 0's metrics are the run's. All ranks copy their checkpoints into one folder (ranks that save parts
    give their files different names). The folder is complete when report() returns; it has the positions of
    the datasets, so that a restart continues after the last batch that the rank took. If a rank cannot store
    its files, all ranks raise its StorageError, which names the rank, the path and, on a full disk, the bytes
    that it needs; the previous checkpoint stays.

    checkpoint_upload_mode: SYNC. ASYNC: report() returns when all workers have called it; each worker stores
        its files in the background, one checkpoint after another, and then deletes the local ones. A
        checkpoint counts from the moment when all workers have stored their files and all reports before it
        are stored, with the positions of the call. The next report(), or the end of the train loop, raises an
        error on all workers. fit() returns when all is stored. NO_UPLOAD: the files are in a folder below
        get_context().get_storage().experiment_fs_path, which becomes the checkpoint.
    delete_local_checkpoint_after_upload: None: with ASYNC.
    checkpoint_upload_fn: called as fn(checkpoint, name) instead of the copy; it puts the files into the
        folder `name` below experiment_fs_path and returns that as a Checkpoint.
    validation: True or a ValidationTaskConfig: the function of TorchTrainer(validation_config=...) validates
        the checkpoint while the training goes on. Its metrics join those of this report.
    """
    session = get_session("report()")
    _check_report(metrics, checkpoint, checkpoint_upload_mode, checkpoint_upload_fn)
    wanted = wanted_by(validation)
    if wanted is not None and checkpoint is None:
        raise ValueError("report(validation=...): expected a checkpoint to validate, found None")
    if wanted is not None and not session.validates:
        raise ValueError("report(validation=...): expected a trainer with a validation_config, found none")
    delete = delete_local_checkpoint_after_upload
    if delete is None:
        delete = checkpoint_upload_mode.default_delete_local_checkpoint_after_upload()
    upload = None
    if checkpoint is not None:
        if delete and checkpoint_upload_mode is not CheckpointUploadMode.NO_UPLOAD:
            check_delete(checkpoint, session.storage.experiment_fs_path)
        stays = session.stays(checkpoint_upload_mode)
        upload = Upload(
            checkpoint, checkpoint_upload_mode, checkpoint_upload_fn, delete, session.world_rank, stays
        )
    uploads = checkpoint is not None and checkpoint_upload_mode is not CheckpointUploadMode.NO_UPLOAD
    given = Given(
        metrics,
        None if checkpoint is None else checkpoint_upload_mode,
        uploads and checkpoint_upload_fn is not None,
        checkpoint_dir_name,
        wanted,
    )
    session.report(given, upload)


def _check_report(metrics: Any, checkpoint: Any, mode: Any, fn: Any) -> None:
    for name, value, kind, what in (
        ("metrics", metrics, dict, "a dict of name -> value"),
        (
            "checkpoint",
            checkpoint,
            Checkpoint | None,
            "a Checkpoint, as Checkpoint(folder) of a folder of files,",
        ),
        ("checkpoint_upload_mode", mode, CheckpointUploadMode, "a CheckpointUploadMode"),
    ):
        if not isinstance(value, kind):
            raise TypeError(f"report({name}=...): expected {what}, found {type(value).__name__}")
    if fn is not None and not callable(fn):
        raise TypeError(f"report(checkpoint_upload_fn=...): expected a function, found {type(fn).__name__}")
