"""Ray's module of write jobs that restart."""

from typing import TYPE_CHECKING

from headrace import absent

if not TYPE_CHECKING:
    __getattr__ = absent.hook("headrace.data.checkpoint")
