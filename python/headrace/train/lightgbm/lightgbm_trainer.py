"""Ray's module of LightGBMTrainer: its names are those of headrace.train.lightgbm."""

from typing import TYPE_CHECKING

from headrace import absent

if TYPE_CHECKING:
    from headrace.train.lightgbm import *  # noqa: F403
else:
    __getattr__ = absent.hook("headrace.train.lightgbm.lightgbm_trainer", "headrace.train.lightgbm")
