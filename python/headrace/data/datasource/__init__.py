"""Users' sources and sinks, and the choice of files to read. The names are Ray's, as are their modules."""

from typing import TYPE_CHECKING

from headrace import absent
from headrace.data.datasource.datasource import BlockMetadata, Datasource, ReadTask
from headrace.data.datasource.partitioning import (
    FileShuffleConfig,
    Partitioning,
    PartitionStyle,
    PathPartitionFilter,
    PathPartitionParser,
)
from headrace.data.write import Datasink, FilenameProvider, SaveMode, WriteResult

if not TYPE_CHECKING:
    __getattr__ = absent.hook("headrace.data.datasource")

__all__ = [
    "BlockMetadata",
    "Datasink",
    "Datasource",
    "FileShuffleConfig",
    "FilenameProvider",
    "PartitionStyle",
    "Partitioning",
    "PathPartitionFilter",
    "PathPartitionParser",
    "ReadTask",
    "SaveMode",
    "WriteResult",
]
