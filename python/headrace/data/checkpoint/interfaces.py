"""Ray's module of parts of write jobs that restart: its names are those of headrace.data.checkpoint."""

from typing import TYPE_CHECKING

from headrace import absent

if TYPE_CHECKING:
    from headrace.data.checkpoint import *  # noqa: F403
else:
    __getattr__ = absent.hook("headrace.data.checkpoint.interfaces", "headrace.data.checkpoint")
