"""PyTorch Lightning on the workers of a trainer: strategies, environment and a callback that reports, under
Ray's names.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from headrace.optional import missing
from headrace.train import context
from headrace.train.checkpoint import Checkpoint
from headrace.train.reported_checkpoint import CheckpointUploadMode
from headrace.train.torch import get_device

try:
    import torch

    try:
        import lightning.pytorch as pl
        from lightning.pytorch.plugins.environments import LightningEnvironment
    except ModuleNotFoundError as e:
        if (e.name or "").partition(".")[0] != "lightning":
            raise
        import pytorch_lightning as pl
        from pytorch_lightning.plugins.environments import LightningEnvironment
except ImportError as e:
    raise missing(e, "headrace.train.lightning") from None


class _OnThisWorker:
    """What the strategies have in common: the trainer has made the process group and chosen the device."""

    @property
    def root_device(self) -> torch.device:
        return get_device()

    @property
    def distributed_sampler_kwargs(self) -> dict[str, Any]:
        return {"num_replicas": self.world_size, "rank": self.global_rank}


class RayDDPStrategy(_OnThisWorker, pl.strategies.DDPStrategy):
    """Lightning's DDPStrategy in the process group of a TorchTrainer.

    It takes DDPStrategy's arguments; `process_group_backend`, `timeout` and `start_method` have no effect,
    because TorchConfig sets backend and limit.
    """


class RayFSDPStrategy(_OnThisWorker, pl.strategies.FSDPStrategy):
    """Lightning's FSDPStrategy in the process group of a TorchTrainer; it takes FSDPStrategy's arguments."""


class RayDeepSpeedStrategy(_OnThisWorker, pl.strategies.DeepSpeedStrategy):
    """Lightning's DeepSpeedStrategy in the process group of a TorchTrainer. It needs deepspeed."""


class RayLightningEnvironment(LightningEnvironment):
    """Gives Lightning the ranks of the trainer's worker, so that Lightning starts no processes."""

    @property
    def creates_processes_externally(self) -> bool:
        return True

    def world_size(self) -> int:
        return context.get_context().get_world_size()

    def global_rank(self) -> int:
        return context.get_context().get_world_rank()

    def local_rank(self) -> int:
        return context.get_context().get_local_rank()

    def node_rank(self) -> int:
        return context.get_context().get_node_rank()

    def set_world_size(self, size: int) -> None:
        """No effect: the trainer sets the size."""

    def set_global_rank(self, rank: int) -> None:
        """No effect: the trainer sets the rank."""

    def teardown(self) -> None:
        """No effect: the trainer ends the process group."""


def prepare_trainer(trainer: pl.Trainer) -> pl.Trainer:
    """Checks that the Lightning Trainer has a strategy and an environment of this module. Returns it.

    Raises RuntimeError for any other strategy or environment, which would start processes of its own.
    """
    valid = (RayDDPStrategy, RayFSDPStrategy, RayDeepSpeedStrategy)
    if not isinstance(trainer.strategy, valid):
        raise RuntimeError(
            f"prepare_trainer: expected Trainer(strategy=) to be one of {[c.__name__ for c in valid]}, "
            f"found {type(trainer.strategy).__name__}"
        )
    environment = getattr(trainer.strategy, "cluster_environment", None)
    if environment and not isinstance(environment, RayLightningEnvironment):
        raise RuntimeError(
            "prepare_trainer: expected Trainer(plugins=[RayLightningEnvironment()]), "
            f"found {type(environment).__name__}"
        )
    return trainer


class RayTrainReportCallback(pl.callbacks.Callback):
    """Reports `trainer.callback_metrics`, "epoch" and "step", with a checkpoint, at the end of each epoch of
    training.

    The checkpoint has the file checkpoint.ckpt (CHECKPOINT_NAME), which `trainer.fit(ckpt_path=)` loads.
    The arguments are those of train.report().
    """

    CHECKPOINT_NAME = "checkpoint.ckpt"

    def __init__(
        self,
        checkpoint_upload_mode: CheckpointUploadMode | None = None,
        validation: Any = False,
    ):
        super().__init__()
        context.get_session("RayTrainReportCallback()")
        self.checkpoint_upload_mode = checkpoint_upload_mode or CheckpointUploadMode.SYNC
        self.validation = validation

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Lightning calls it on all workers."""
        metrics = {name: value.item() for name, value in trainer.callback_metrics.items()}
        metrics |= {"epoch": trainer.current_epoch, "step": trainer.global_step}
        if fetcher := getattr(trainer.fit_loop, "_data_fetcher", None):
            fetcher.done = True  # it takes no more of this epoch, which on_train_batch_start() may have ended
        folder = tempfile.mkdtemp(prefix="headrace-lightning-")
        try:
            trainer.save_checkpoint(str(Path(folder, self.CHECKPOINT_NAME)), weights_only=False)
            context.report(
                metrics,
                Checkpoint.from_directory(folder),
                checkpoint_upload_mode=self.checkpoint_upload_mode,
                validation=self.validation,
            )
        finally:
            if self.checkpoint_upload_mode is not CheckpointUploadMode.ASYNC:  # else report() deletes it
                shutil.rmtree(folder, ignore_errors=True)


__all__ = [
    "RayDDPStrategy",
    "RayDeepSpeedStrategy",
    "RayFSDPStrategy",
    "RayLightningEnvironment",
    "RayTrainReportCallback",
    "prepare_trainer",
]
