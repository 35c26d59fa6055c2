"""Ray's module of names of files."""

from headrace.data.datasinks import FilenameProvider

__all__ = ["FilenameProvider"]
