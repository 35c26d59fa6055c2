"""Users' sources and sinks, and the choice of files to read. The names are Ray's, as are their modules."""

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
