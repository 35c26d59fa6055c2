"""Ray's module of XGBoostCheckpoint: its names are those of headrace.train.xgboost."""

from typing import TYPE_CHECKING

from headrace import absent

if TYPE_CHECKING:
    from headrace.train.xgboost import *  # noqa: F403
else:
    __getattr__ = absent.hook("headrace.train.xgboost.xgboost_checkpoint", "headrace.train.xgboost")
