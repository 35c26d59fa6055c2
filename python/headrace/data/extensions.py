"""Ray's module of Arrow extension types; each of its classes says what to use."""

from typing import TYPE_CHECKING

from headrace import absent
from headrace.data.context_fields import FixedShapeTensorFormat

if not TYPE_CHECKING:
    __getattr__ = absent.hook("headrace.data.extensions")

__all__ = ["FixedShapeTensorFormat"]
