"""Ray's module of a trainer's base and error."""

from typing import TYPE_CHECKING

from headrace import absent
from headrace.train.result import TrainingFailedError

if not TYPE_CHECKING:
    __getattr__ = absent.hook("headrace.train.base_trainer")

__all__ = ["TrainingFailedError"]
