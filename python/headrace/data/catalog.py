"""Ray's module of catalogs; each of its names says what to use."""

from typing import TYPE_CHECKING

from headrace import absent

if not TYPE_CHECKING:
    __getattr__ = absent.hook("headrace.data.catalog", "headrace.data")
