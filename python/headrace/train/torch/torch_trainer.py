"""Ray's module of TorchTrainer: its names are those of headrace.train.torch."""

from typing import TYPE_CHECKING

from headrace import absent

if TYPE_CHECKING:
    from headrace.train.torch import *  # noqa: F403
else:
    __getattr__ = absent.hook("headrace.train.torch.torch_trainer", "headrace.train.torch")
