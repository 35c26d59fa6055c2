"""Ray's module of the error of misplaced calls, which is not here."""

from typing import TYPE_CHECKING

from headrace import absent

if not TYPE_CHECKING:
    __getattr__ = absent.hook("headrace.train.error")
