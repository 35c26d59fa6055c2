"""Ray's module of users' sinks."""

from typing import TYPE_CHECKING

from headrace import absent
from headrace.data.datasinks import Datasink, WriteResult

if not TYPE_CHECKING:
    __getattr__ = absent.hook("headrace.data.datasource.datasink", "headrace.data.datasource")

__all__ = ["Datasink", "WriteResult"]
