"""Hugging Face's Trainer on the workers of a TorchTrainer: batches of shards, and a callback that reports,
under Ray's names.

Tests: tests/python/test_train_frameworks_transformers.py
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from headrace.data.dataset import Dataset
from headrace.data.iterables import Iterable, Repeated
from headrace.data.iterator import DataIterator
from headrace.optional import missing
from headrace.train import collective, context
from headrace.train.checkpoint import Checkpoint

try:
    import torch
    import transformers
    from torch.utils.data import DataLoader, IterableDataset
    from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR, get_last_checkpoint
except ImportError as e:
    raise missing(e, "headrace.train.huggingface.transformers") from None


class RayTrainReportCallback(transformers.TrainerCallback):
    """Reports all metrics that the Trainer has logged, with a checkpoint, each time the Trainer saves one.

    The checkpoint has the Trainer's files in the folder checkpoint (CHECKPOINT_NAME), which
    `trainer.train(resume_from_checkpoint=)` loads. If evaluation is to be in the metrics of its checkpoint,
    eval_strategy and save_strategy (and their steps) must fit.
    """

    CHECKPOINT_NAME = "checkpoint"

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Transformers calls it on all workers, when each has saved its own files."""
        context.get_session("RayTrainReportCallback")
        metrics = {name: value for log in state.log_history for name, value in log.items()}
        saved = _saved_folder(args.output_dir, state.global_step)
        first = collective.broadcast_from_rank_zero(saved)  # behind it rank 0's files are complete
        mine = context.get_context().get_world_rank() == 0 or saved != first
        if saved is None or not mine:
            context.report(metrics)
            return
        with tempfile.TemporaryDirectory(prefix="headrace-transformers-") as folder:
            os.symlink(saved, Path(folder, self.CHECKPOINT_NAME), target_is_directory=True)
            context.report(metrics, Checkpoint.from_directory(folder))


def _saved_folder(output_dir: str, step: int) -> str | None:
    """The folder that the Trainer has just saved; None: nothing."""
    usual = os.path.join(output_dir, f"{PREFIX_CHECKPOINT_DIR}-{step}")
    found = usual if os.path.isdir(usual) else get_last_checkpoint(output_dir)
    return os.path.realpath(found) if found else None


class _Batches(IterableDataset):
    """The batches of an iterable of headrace.data, one item each."""

    def __init__(self, iterable: Iterable | Repeated):
        super().__init__()
        self.iterable = iterable
        self.resumes = context.in_worker() and context.get_checkpoint() is not None

    def __iter__(self):
        resumes, self.resumes = self.resumes, False
        any_batch = False
        for batch in self.iterable:
            any_batch = True
            yield batch
        if resumes and not any_batch:  # the checkpoint is of an epoch's end: the Trainer would stop
            yield from self.iterable


def _first(batches: list[Any]) -> Any:
    return batches[0]


def _is_ours(what: str, dataset: Any) -> bool:
    """Whether `dataset` is an iterable of batches. TypeError if it is a shard or a Dataset."""
    if isinstance(dataset, (DataIterator, Dataset)):
        raise TypeError(
            f"Trainer({what}=): expected batches, as iter_torch_batches(batch_size=...) gives, found a "
            f"{type(dataset).__name__}"
        )
    return isinstance(dataset, (Iterable, Repeated))


def _loader(iterable: Iterable | Repeated) -> DataLoader:
    # A generator of its own: the Trainer restores the state of torch's before it makes the iterator.
    return DataLoader(_Batches(iterable), batch_size=1, collate_fn=_first, generator=torch.Generator())


def prepare_trainer(trainer: transformers.Trainer) -> transformers.Trainer:
    """Makes a transformers.Trainer read batches of headrace.data as they are: train_dataset and eval_dataset
    (also those in a dict) may be what iter_torch_batches() gives. Returns the same object, with a new class.

    In a train loop the shards go on after the rows of the checkpoint, so the Trainer skips no batches of its
    own (ignore_data_skip) if its train_dataset is such an iterable.

    Raises TypeError if a dataset is a Dataset or a shard of one.
    """
    base = type(trainer)

    class RayTransformersTrainer(base):
        def get_train_dataloader(self):
            if _is_ours("train_dataset", self.train_dataset):
                return _loader(self.train_dataset)
            return super().get_train_dataloader()

        def get_eval_dataloader(self, eval_dataset: Any = None):
            found = self.eval_dataset if eval_dataset is None else eval_dataset
            if isinstance(found, str) and isinstance(self.eval_dataset, dict):
                found = self.eval_dataset[found]
            if _is_ours("eval_dataset", found):
                return _loader(found)
            return super().get_eval_dataloader(eval_dataset)

    if _is_ours("train_dataset", trainer.train_dataset) and context.in_worker():
        trainer.args.ignore_data_skip = True
    evals = trainer.eval_dataset
    for one in evals.values() if isinstance(evals, dict) else [evals]:
        _is_ours("eval_dataset", one)
    trainer.__class__ = RayTransformersTrainer
    return trainer


__all__ = ["RayTrainReportCallback", "prepare_trainer"]
