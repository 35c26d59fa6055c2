"""TorchTrainer(validation_config=...) and report(validation=...), under Ray's names; see validation.py.

Tests: tests/python/test_train_validation.py
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from headrace.data.context import accept_cluster_arguments
from headrace.settings import OnlyKnown, hinted

if TYPE_CHECKING:
    from headrace.train.checkpoint import Checkpoint


class ValidationFn(Protocol):
    """The type of ValidationConfig(fn): takes the checkpoint and fn_kwargs, returns metrics."""

    def __call__(self, checkpoint: Checkpoint, **kwargs: Any) -> dict[str, Any]: ...


@hinted
@dataclass
class ValidationTaskConfig(OnlyKnown):
    """fn_kwargs: arguments of the function after the checkpoint, values that JSON can hold. timeout_s: the
    driver ends a validation that takes longer; None: no limit.
    """

    _names = {"fn_kwargs": "dict|None", "timeout_s": "float|None"}

    fn_kwargs: dict[str, Any] | None = None
    timeout_s: float | None = None

    def __post_init__(self) -> None:
        self.fn_kwargs = dict(self.fn_kwargs or {})
        try:
            json.dumps(self.fn_kwargs)
        except TypeError as e:
            raise ValueError(
                f"ValidationTaskConfig(fn_kwargs=...): expected values that JSON can hold: {e}"
            ) from None
        if self.timeout_s is not None and not self.timeout_s > 0:
            raise ValueError(
                f"ValidationTaskConfig(timeout_s={self.timeout_s}): expected more than 0, or None"
            )


class ValidationConfig:
    """fn: called as fn(checkpoint, **fn_kwargs), returns a dict of metrics. task_config: the arguments and
    the time limit where report(validation=...) gives no others. ray_remote_kwargs: no effect on one machine.
    """

    def __init__(
        self,
        fn: ValidationFn,
        task_config: ValidationTaskConfig | None = None,
        ray_remote_kwargs: dict[str, Any] | None = None,
    ):
        if not callable(fn):
            raise TypeError(f"ValidationConfig(fn=...): expected a function, found {type(fn).__name__}")
        if task_config is not None and not isinstance(task_config, ValidationTaskConfig):
            raise TypeError(
                "ValidationConfig(task_config=...): expected a ValidationTaskConfig, found "
                f"{type(task_config).__name__}"
            )
        accept_cluster_arguments("ValidationConfig(ray_remote_kwargs)", ray_remote_kwargs or {})
        self.fn = fn
        self.task_config: ValidationTaskConfig = task_config or ValidationTaskConfig()
        self.ray_remote_kwargs: dict[str, Any] = ray_remote_kwargs or {}

    def task(self, wanted: dict[str, Any]) -> tuple[dict[str, Any], float | None]:
        """Arguments and time limit of one validation; wanted: of wanted_by()."""
        kwargs = {**self.task_config.fn_kwargs, **wanted.get("fn_kwargs", {})}
        return kwargs, wanted["timeout_s"] if "timeout_s" in wanted else self.task_config.timeout_s


def wanted_by(validation: bool | ValidationTaskConfig | None) -> dict[str, Any] | None:
    """report(validation=...) as JSON holds it: {} for True, None for none."""
    if isinstance(validation, ValidationTaskConfig):
        validation.__post_init__()  # checks again: the user may have changed it
        return {"fn_kwargs": validation.fn_kwargs, "timeout_s": validation.timeout_s}
    if validation is None or isinstance(validation, bool):
        return {} if validation else None
    raise TypeError(
        "report(validation=...): expected a bool or a ValidationTaskConfig, found "
        f"{type(validation).__name__}"
    )


__all__ = ["ValidationConfig", "ValidationFn", "ValidationTaskConfig", "wanted_by"]
