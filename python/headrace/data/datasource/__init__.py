"""Users' sources and sinks, and the choice of files to read. The names are Ray's, as are their modules."""

from typing import TYPE_CHECKING

from headrace import absent
from headrace.data.datasinks import Datasink, FilenameProvider, SaveMode, WriteResult, WriteReturnType
from headrace.data.datasource.datasink import DummyOutputDatasink
from headrace.data.datasource.datasource import BlockMetadata, Datasource, ReadTask
from headrace.data.datasource.file_based_datasource import FileBasedDatasource
from headrace.data.datasource.file_datasink import BlockBasedFileDatasink, RowBasedFileDatasink
from headrace.data.datasource.partitioning import (
    FileShuffleConfig,
    Partitioning,
    PartitionStyle,
    PathPartitionFilter,
    PathPartitionParser,
)

if not TYPE_CHECKING:
    __getattr__ = absent.hook("headrace.data.datasource")

__all__ = [
    "BlockBasedFileDatasink",
    "BlockMetadata",
    "Datasink",
    "Datasource",
    "DummyOutputDatasink",
    "FileBasedDatasource",
    "FileShuffleConfig",
    "FilenameProvider",
    "PartitionStyle",
    "Partitioning",
    "PathPartitionFilter",
    "PathPartitionParser",
    "ReadTask",
    "RowBasedFileDatasink",
    "SaveMode",
    "WriteResult",
    "WriteReturnType",
]
