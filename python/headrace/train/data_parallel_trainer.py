"""DataParallelTrainer, under the name of Ray's module."""

from headrace.train.trainer import DataParallelTrainer

__all__ = ["DataParallelTrainer"]
