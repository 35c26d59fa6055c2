"""What the train loop sees of its run: ranks, data shards, report()."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headrace.train.checkpoint import Checkpoint

if TYPE_CHECKING:
    from headrace.data import DataIterator


@dataclass
class StorageContext:
    """Where the run's results lie: storage_path/experiment_dir_name."""

    storage_path: str
    experiment_dir_name: str

    @property
    def experiment_fs_path(self) -> str:
        return os.path.join(self.storage_path, self.experiment_dir_name)


@dataclass
class Session:
    """One worker's side of a run. `channel.report(...)` reaches the driver, or, in local mode, the storage
    itself.
    """

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

    def report(self, metrics: dict[str, Any], checkpoint: Checkpoint | None, dir_name: str | None) -> None:
        if checkpoint is not None:
            staging = self.channel.staging()
            shutil.copytree(checkpoint.path, staging, dirs_exist_ok=True)
        for shard in self.shards.values():
            source = getattr(shard, "_source", None)
            if hasattr(source, "settle"):
                source.settle()
        latest = self.channel.report(metrics, checkpoint is not None, dir_name)
        if latest:
            self.checkpoint = Checkpoint(latest)


_session: Session | None = None


def set_session(session: Session | None) -> None:
    global _session
    _session = session


def in_worker() -> bool:
    """Is this a train loop?"""
    return _session is not None


def get_session(what: str) -> Session:
    if _session is None:
        raise RuntimeError(
            f"{what} works in the train loop only, the function that a trainer's fit() calls on each worker"
        )
    return _session


class TrainContext:
    """Ranks, sizes and names of this run, as its worker sees them."""

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
        """The machine's number: 0, there is one."""
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
    """The context of the worker that this runs in. Its methods raise RuntimeError outside of a train loop."""
    return TrainContext()


def get_dataset_shard(dataset_name: str | None = None) -> DataIterator:
    """This worker's share of TorchTrainer(datasets={dataset_name: ...}); None: "train"."""
    session = get_session("get_dataset_shard()")
    name = "train" if dataset_name is None else dataset_name
    if name not in session.shards:
        there = ", ".join(map(repr, session.shards)) or "none"
        raise KeyError(f"no data set {name!r} was given to the trainer; there are: {there}")
    return session.shards[name]


def get_checkpoint() -> Checkpoint | None:
    """The checkpoint reported last: after a restart, the one to go on from. None: the run is at its
    beginning.
    """
    return get_session("get_checkpoint()").checkpoint


def report(
    metrics: dict[str, Any],
    checkpoint: Checkpoint | None = None,
    checkpoint_dir_name: str | None = None,
    checkpoint_upload_mode: Any = None,
    delete_local_checkpoint_after_upload: bool | None = None,
    checkpoint_upload_fn: Any = None,
    validation: Any = None,
) -> None:
    """Reports metrics and, if given, a checkpoint. A barrier: every worker must call it as often as the
    others.

    Rank 0's metrics are the run's. Files of the checkpoints of all ranks are put into one folder (ranks
    that save parts give them different names), which is there when report() returns, complete, with the
    positions of the data sets, so that a restart goes on behind the last batch that was taken.
    """
    session = get_session("report()")
    if not isinstance(metrics, dict):
        raise TypeError(f"report(metrics=...) is a dict of name -> value, not {type(metrics).__name__}")
    if checkpoint is not None and not isinstance(checkpoint, Checkpoint):
        raise TypeError(f"report(checkpoint=...) is a Checkpoint, not {type(checkpoint).__name__}")
    given = {
        "checkpoint_upload_mode": checkpoint_upload_mode,
        "checkpoint_upload_fn": checkpoint_upload_fn,
        "validation": validation,
    }
    for name, value in given.items():
        if value is not None:
            raise NotImplementedError(f"report({name}=...) does not exist yet; leave it out")
    session.report(metrics, checkpoint, checkpoint_dir_name)
    if delete_local_checkpoint_after_upload and checkpoint is not None:
        shutil.rmtree(checkpoint.path, ignore_errors=True)
