"""The files of an Iceberg table through the engine, with its cache: what pyiceberg asks for a table's files.

Importing this module needs pyiceberg.
"""

from __future__ import annotations

from typing import Any

from headrace.data.paths import is_url, storage_texts, with_cache
from headrace.data.ranged_files import ranged_filesystem
from headrace.data.table_options import of_properties
from headrace.optional import package

pyiceberg = package("pyiceberg.io.pyarrow", "read_iceberg")

_WHERE = "read_iceberg"


def _own(options):
    """Without properties of pyiceberg, which stand among them."""
    return {name: value for name, value in (options or {}).items() if "." not in name}


class CachedFiles(pyiceberg.PyArrowFileIO):
    """The engine reads URLs; pyiceberg reads and writes all else. The options may hold keys: nothing prints
    them.
    """

    def __init__(self, properties: dict[str, Any], storage_options: dict[str, Any] | None, cache: Any):
        super().__init__(properties)
        given = storage_texts(_WHERE, {**of_properties(properties), **_own(storage_options)})
        self.texts = with_cache(_WHERE, given, cache)

    def new_input(self, location: str) -> Any:
        if not is_url(location):
            return super().new_input(location)
        files = ranged_filesystem(_WHERE, "", self.texts or [])
        return pyiceberg.PyArrowFile(location=location, path=location, fs=files)
