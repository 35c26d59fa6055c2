"""Ray's module of BlockMetadata, for data sources written for Ray."""

from typing import Any

from headrace.data.datasource.datasource import BlockMetadata

Block = Any  # a dict of column -> values, a list of row dicts, a DataFrame, or Arrow data

__all__ = ["Block", "BlockMetadata"]
