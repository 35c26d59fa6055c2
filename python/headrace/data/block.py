"""Ray's module of blocks, for data sources and sinks written for Ray."""

from typing import TYPE_CHECKING, Any

from headrace import absent
from headrace.data.block_accessor import BlockAccessor
from headrace.data.datasource.datasource import BlockMetadata
from headrace.data.preprocessor import BatchFormat

Block = Any  # a dict of column -> values, a list of row dicts, a DataFrame, or Arrow data

if not TYPE_CHECKING:
    __getattr__ = absent.hook("headrace.data.block")

__all__ = ["BatchFormat", "Block", "BlockAccessor", "BlockMetadata"]
