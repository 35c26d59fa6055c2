"""Training on several processes that read from headrace.data. This module does not import torch;
headrace.train.torch does.

from headrace import train
from headrace.train.torch import TorchTrainer

trainer = TorchTrainer(train_loop, datasets={"train": ds}, scaling_config=train.ScalingConfig(num_workers=2))
result = trainer.fit()
"""

from headrace.train.checkpoint import Checkpoint
from headrace.train.config import CheckpointConfig, DataConfig, FailureConfig, RunConfig, ScalingConfig
from headrace.train.context import TrainContext, get_checkpoint, get_context, get_dataset_shard, report
from headrace.train.result import Result, TrainingFailedError, WorkerGroupError

__all__ = [
    "Checkpoint",
    "CheckpointConfig",
    "DataConfig",
    "FailureConfig",
    "Result",
    "RunConfig",
    "ScalingConfig",
    "TrainContext",
    "TrainingFailedError",
    "WorkerGroupError",
    "get_checkpoint",
    "get_context",
    "get_dataset_shard",
    "report",
]
