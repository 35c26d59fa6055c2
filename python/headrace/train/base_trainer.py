"""BaseTrainer: a trainer whose loop is a method, in one worker; and the error of trainers."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any

from headrace import absent
from headrace.train.checkpoint import Checkpoint
from headrace.train.config import RunConfig, ScalingConfig
from headrace.train.result import Result, TrainingFailedError


class BaseTrainer(abc.ABC):
    """Runs the method training_loop() of a subclass in one worker process, a copy of the trainer by pickle.

    The loop may call headrace.train.report() and get_checkpoint(); self.datasets has the whole datasets.
    scaling_config is for the subclass: it starts no further workers. A trainer with several workers is a
    DataParallelTrainer.
    """

    scaling_config: ScalingConfig
    run_config: RunConfig
    datasets: dict[str, Any]
    metadata: dict[str, Any] | None
    starting_checkpoint: Checkpoint | None

    def __init__(
        self,
        *,
        scaling_config: ScalingConfig | None = None,
        run_config: RunConfig | None = None,
        datasets: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
        resume_from_checkpoint: Checkpoint | None = None,
    ) -> None:
        self.scaling_config = ScalingConfig() if scaling_config is None else scaling_config
        self.run_config = RunConfig() if run_config is None else run_config
        self.datasets = {} if datasets is None else datasets
        self.metadata = metadata
        self.starting_checkpoint = resume_from_checkpoint

    def setup(self) -> None:  # noqa: B027  (a subclass may leave it out)
        """The worker calls it before training_loop()."""

    @abc.abstractmethod
    def training_loop(self) -> None:
        """What the worker runs."""

    def _run(self) -> None:
        self.setup()
        self.training_loop()

    def fit(self) -> Result:
        """Runs setup() and training_loop(). Results and errors are those of DataParallelTrainer.fit()."""
        from headrace.train.trainer import DataParallelTrainer

        trainer = DataParallelTrainer(
            self._run,
            scaling_config=ScalingConfig(num_workers=1, use_gpu=self.scaling_config.use_gpu),
            run_config=self.run_config,
            metadata=self.metadata,
            resume_from_checkpoint=self.starting_checkpoint,
        )
        return trainer.fit()


if not TYPE_CHECKING:
    __getattr__ = absent.hook("headrace.train.base_trainer")

__all__ = ["BaseTrainer", "TrainingFailedError"]
