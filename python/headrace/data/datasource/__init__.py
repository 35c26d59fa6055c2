"""Sources and sinks of one's own, and which files are read: Ray's names, where Ray has them."""

from headrace.data.datasource.datasource import BlockMetadata, Datasource, ReadTask
from headrace.data.datasource.partitioning import (
    FileShuffleConfig,
    Partitioning,
    PartitionStyle,
    PathPartitionFilter,
    PathPartitionParser,
)
from headrace.data.write import Datasink, FilenameProvider, SaveMode, WriteResult

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
