"""Ray's module of names of files."""

from headrace.data.write import FilenameProvider

__all__ = ["FilenameProvider"]
