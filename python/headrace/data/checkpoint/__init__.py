"""Write jobs that restart, under Ray's names."""

from typing import TYPE_CHECKING

from headrace import absent
from headrace.data.checkpoint.interfaces import CheckpointConfig

if not TYPE_CHECKING:
    __getattr__ = absent.hook("headrace.data.checkpoint")

__all__ = ["CheckpointConfig"]
