"""Training on several processes that read from headrace.data. This module does not import torch;
headrace.train.torch does.

from headrace import train
from headrace.train.torch import TorchTrainer

trainer = TorchTrainer(train_loop, datasets={"train": ds}, scaling_config=train.ScalingConfig(num_workers=2))
result = trainer.fit()
"""

from typing import TYPE_CHECKING

from headrace import absent
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

_ELSEWHERE = {  # as in Ray, frameworks have modules of their own
    "TorchTrainer": "headrace.train.torch",
    "TorchConfig": "headrace.train.torch",
    "prepare_model": "headrace.train.torch",
    "prepare_data_loader": "headrace.train.torch",
    "XGBoostTrainer": "headrace.train.xgboost",
    "LightGBMTrainer": "headrace.train.lightgbm",
    "DataParallelTrainer": "headrace.train.data_parallel_trainer",
}

if not TYPE_CHECKING:
    __getattr__ = absent.hook("headrace.train", elsewhere=_ELSEWHERE)

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
