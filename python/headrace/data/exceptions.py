"""Ray's module of exceptions. Those of Headrace are in headrace.exceptions."""

from typing import TYPE_CHECKING

from headrace import absent
from headrace.exceptions import InternalError as SystemException

if not TYPE_CHECKING:
    __getattr__ = absent.hook("headrace.data.exceptions")

__all__ = ["SystemException"]
