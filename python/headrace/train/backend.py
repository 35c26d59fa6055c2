"""BackendConfig: what each worker does before and after the train loop.

Tests: tests/python/test_train_names.py
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace import absent
from headrace._core import UnsupportedError

if TYPE_CHECKING:
    from headrace.train.context import Session


class BackendConfig:
    """The base of TorchConfig, XGBoostConfig and LightGBMConfig; itself it does nothing. For a process group
    of another library override start() and stop(). Each worker gets a copy, by pickle.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "backend_cls" in vars(cls):
            raise UnsupportedError(
                f"{cls.__name__}.backend_cls: Ray's Backend works on Ray's actors; give {cls.__name__} the "
                "methods start(session) and stop() instead, which each worker calls"
            )

    def to_dict(self) -> dict[str, Any]:
        """Its fields: name -> value."""
        return dict(vars(self))

    def start(self, session: Session) -> None:
        """Each worker calls it before the train loop. session has world_rank, world_size, local_rank, and
        channel.meet(name, value), a barrier that returns rank 0's value to all.
        """

    def stop(self) -> None:
        """Each worker calls it after its train loop."""


__all__ = ["BackendConfig"]

if not TYPE_CHECKING:
    __getattr__ = absent.hook("headrace.train.backend")
