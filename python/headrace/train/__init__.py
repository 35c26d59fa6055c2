"""Training on several processes that read from headrace.data. This module does not import torch;
headrace.train.torch does.

from headrace import train
from headrace.train.torch import TorchTrainer

trainer = TorchTrainer(train_loop, datasets={"train": ds}, scaling_config=train.ScalingConfig(num_workers=2))
result = trainer.fit()
"""

from headrace._core import UnsupportedError
from headrace.train import collective
from headrace.train.backend import BackendConfig
from headrace.train.callback import (
    CsvWriter,
    JsonLinesWriter,
    RayTrainCallback,
    TensorBoardWriter,
    TrainRunContext,
    UserCallback,
)
from headrace.train.checkpoint import Checkpoint
from headrace.train.config import (
    CheckpointConfig,
    DataConfig,
    FailureConfig,
    LoggingConfig,
    RunConfig,
    ScalingConfig,
)
from headrace.train.constants import TRAIN_DATASET_KEY
from headrace.train.context import (
    TrainContext,
    get_all_reported_checkpoints,
    get_checkpoint,
    get_context,
    get_dataset_shard,
    report,
)
from headrace.train.preemption import PreemptionError, PreemptionInfo, get_preemption_info
from headrace.train.reported_checkpoint import (
    CheckpointConsistencyMode,
    CheckpointUploadMode,
    ReportedCheckpoint,
    ReportedCheckpointStatus,
)
from headrace.train.result import (
    ControllerError,
    NCCLHangError,
    Result,
    TrainingFailedError,
    WorkerGroupError,
)
from headrace.train.validation_config import ValidationConfig, ValidationFn, ValidationTaskConfig

_GONE = {
    "SyncConfig": "Ray Train has no effect for it any more; leave out RunConfig(sync_config=...): the files "
    "of a checkpoint are in the run's folder when report() returns",
}


def __getattr__(name: str):
    if name in _GONE:
        raise UnsupportedError(f"headrace.train.{name}: {_GONE[name]}")
    raise AttributeError(f"module 'headrace.train' has no attribute {name!r}")


__all__ = [
    "TRAIN_DATASET_KEY",
    "BackendConfig",
    "Checkpoint",
    "CheckpointConfig",
    "CheckpointConsistencyMode",
    "CheckpointUploadMode",
    "ControllerError",
    "CsvWriter",
    "DataConfig",
    "FailureConfig",
    "JsonLinesWriter",
    "LoggingConfig",
    "NCCLHangError",
    "PreemptionError",
    "PreemptionInfo",
    "RayTrainCallback",
    "ReportedCheckpoint",
    "ReportedCheckpointStatus",
    "Result",
    "RunConfig",
    "ScalingConfig",
    "TensorBoardWriter",
    "TrainContext",
    "TrainRunContext",
    "TrainingFailedError",
    "UserCallback",
    "ValidationConfig",
    "ValidationFn",
    "ValidationTaskConfig",
    "WorkerGroupError",
    "collective",
    "get_all_reported_checkpoints",
    "get_checkpoint",
    "get_context",
    "get_dataset_shard",
    "get_preemption_info",
    "report",
]
