"""Ray's module of names of files: its names are those of headrace.data.datasource."""

from typing import TYPE_CHECKING

from headrace import absent

if TYPE_CHECKING:
    from headrace.data.datasource import *  # noqa: F403
else:
    __getattr__ = absent.hook("headrace.data.datasource.filename_provider", "headrace.data.datasource")
