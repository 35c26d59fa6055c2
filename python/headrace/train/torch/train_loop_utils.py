"""Ray's module for train loops: its names are those of headrace.train.torch."""

from typing import TYPE_CHECKING

from headrace import absent

if TYPE_CHECKING:
    from headrace.train.torch import *  # noqa: F403
else:
    __getattr__ = absent.hook("headrace.train.torch.train_loop_utils", "headrace.train.torch")
