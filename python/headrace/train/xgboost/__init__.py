"""XGBoost on several processes, each with its shard of the datasets, under Ray's names.

Tests: tests/python/test_train_frameworks_boosting.py
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace import absent
from headrace.optional import missing
from headrace.settings import OnlyKnown
from headrace.train import context
from headrace.train.backend import BackendConfig
from headrace.train.boosting import Reports, cores_of_a_worker, refuse_legacy
from headrace.train.checkpoint import Checkpoint
from headrace.train.config import DataConfig, RunConfig, ScalingConfig
from headrace.train.trainer import DataParallelTrainer
from headrace.train.validation_config import ValidationConfig

try:
    import xgboost
    from xgboost.collective import CommunicatorContext
except ImportError as e:
    raise missing(e, "headrace.train.xgboost") from None


@dataclass
class XGBoostConfig(OnlyKnown, BackendConfig):
    """xgboost_communicator: "rabit", XGBoost's own collective."""

    _names = {"xgboost_communicator": "str"}

    xgboost_communicator: str = "rabit"
    _joined: Any = field(default=None, init=False, repr=False, compare=False)
    _tracker: Any = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self):
        if self.xgboost_communicator != "rabit":
            raise NotImplementedError(
                f"XGBoostConfig(xgboost_communicator={self.xgboost_communicator!r}): expected 'rabit'"
            )

    def start(self, session: context.Session) -> None:
        """Joins the workers' collective. Each worker calls it before the train loop. Rank 0 has the tracker,
        at a port of this machine's loopback device.
        """
        cores = cores_of_a_worker(session)
        if cores is not None:
            xgboost.set_config(nthread=cores)
        if session.world_size == 1:
            return
        arguments = None
        if session.world_rank == 0:
            tracker = xgboost.RabitTracker(session.world_size, "127.0.0.1", sortby="task")
            tracker.start()
            self._tracker = threading.Thread(target=tracker.wait_for, name="xgboost-tracker", daemon=True)
            self._tracker.start()
            arguments = dict(tracker.worker_args())
        arguments = session.channel.meet("the start of XGBoost", arguments)
        arguments["dmlc_task_id"] = f"{session.world_rank:08}"  # ranks follow its order
        self._joined = CommunicatorContext(**arguments)
        self._joined.__enter__()

    def stop(self) -> None:
        if self._joined is not None:
            self._joined.__exit__(None, None, None)
        if self._tracker is not None:
            self._tracker.join()  # the others may still train


class XGBoostTrainer(DataParallelTrainer):
    """Runs a train loop on several processes that form a collective of XGBoost: `xgboost.train()` in it
    trains one model on the rows of all. The arguments are those of TorchTrainer; xgboost_config takes the
    place of torch_config.
    """

    _config = ("xgboost_config", XGBoostConfig)

    def __init__(
        self,
        train_loop_per_worker: Callable[[], Any] | Callable[[dict[str, Any]], Any],
        *,
        train_loop_config: dict[str, Any] | None = None,
        xgboost_config: XGBoostConfig | None = None,
        scaling_config: ScalingConfig | None = None,
        run_config: RunConfig | None = None,
        datasets: dict[str, Any] | None = None,
        dataset_config: DataConfig | None = None,
        validation_config: ValidationConfig | None = None,
        metadata: dict[str, Any] | None = None,
        resume_from_checkpoint: Checkpoint | None = None,
        label_column: str | None = None,
        params: dict[str, Any] | None = None,
        num_boost_round: int | None = None,
    ):
        refuse_legacy(
            "XGBoostTrainer", label_column=label_column, params=params, num_boost_round=num_boost_round
        )
        super().__init__(
            train_loop_per_worker,
            train_loop_config=train_loop_config,
            backend_config=xgboost_config,
            scaling_config=scaling_config,
            run_config=run_config,
            datasets=datasets,
            dataset_config=dataset_config,
            metadata=metadata,
            validation_config=validation_config,
            resume_from_checkpoint=resume_from_checkpoint,
        )

    @classmethod
    def get_model(cls, checkpoint: Checkpoint) -> xgboost.Booster:
        """The model in a checkpoint of RayTrainReportCallback."""
        return RayTrainReportCallback.get_model(checkpoint)


class RayTrainReportCallback(Reports, xgboost.callback.TrainingCallback):
    """For xgboost.train(callbacks=[...]) in the train loop."""

    __doc__ = f"{__doc__}\n\n    {Reports.__doc__}"
    CHECKPOINT_NAME = "model.ubj"

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._found: dict[str, Any] = {}
        self._saved = -1  # rounds of the model in the last checkpoint

    @classmethod
    def get_model(cls, checkpoint: Checkpoint, filename: str = CHECKPOINT_NAME) -> xgboost.Booster:
        """The model in a checkpoint of this callback."""
        booster = xgboost.Booster()
        with checkpoint.as_directory() as folder:
            booster.load_model(str(Path(folder, filename)))
        return booster

    def after_iteration(self, model: Any, epoch: int, evals_log: dict) -> bool:
        """XGBoost calls it after each round, on all workers."""
        self._found = {
            f"{data}-{name}": log[-1] for data, of in evals_log.items() for name, log in of.items()
        }
        report = self._chosen(self._found)
        due = self._is_due(epoch + 1)
        if due:
            self._saved = model.num_boosted_rounds()
        self._report(report, model if due else None)
        return False

    def after_training(self, model: Any) -> Any:
        """XGBoost calls it at the end."""
        if self._checkpoint_at_end and self._saved != model.num_boosted_rounds():
            self._report(self._chosen(self._found) if self._found else {}, model)
        return model


if not TYPE_CHECKING:
    __getattr__ = absent.hook("headrace.train.xgboost")

__all__ = ["RayTrainReportCallback", "XGBoostConfig", "XGBoostTrainer"]
