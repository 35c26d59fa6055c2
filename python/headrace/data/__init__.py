"""Lazy datasets: read, transform, iterate, with the names of Ray Data.

A Dataset is an immutable plan. A consumer starts a run, and the C engine then reads the rows in an order that
does not depend on threads, processes or memory.
"""

import importlib
from typing import TYPE_CHECKING

from headrace import absent
from headrace.data.combining import MixStoppingCondition
from headrace.data.context import DataContext, DatasetContext, ExecutionOptions, ExecutionResources
from headrace.data.csv_files import read_csv, read_fwf
from headrace.data.dataset import ActorPoolStrategy, Dataset, MaterializedDataset, Schema, TaskPoolStrategy
from headrace.data.datasinks import Datasink, FilenameProvider, SaveMode, SinkMode, WriteResult
from headrace.data.datasource.datasource import BlockMetadata, Datasource, ReadTask, read_datasource
from headrace.data.datasource.file_based_datasource import FileBasedDatasource
from headrace.data.datasource.file_datasink import BlockBasedFileDatasink, RowBasedFileDatasink
from headrace.data.datasource.partitioning import (
    FileShuffleConfig,
    Partitioning,
    PartitionStyle,
    PathPartitionFilter,
    PathPartitionParser,
)
from headrace.data.in_memory import (
    from_arrow,
    from_arrow_refs,
    from_blocks,
    from_items,
    from_numpy,
    from_numpy_refs,
    from_pandas,
    from_pandas_refs,
)
from headrace.data.iterator import DataIterator, DatasetIterator, SplitIterator
from headrace.data.ordering import RandomSeedConfig
from headrace.data.read_api import (
    range,
    range_tensor,
    read_arrow,
    read_binary_files,
    read_feather,
    read_images,
    read_ipc,
    read_json,
    read_numpy,
    read_parquet,
    read_text,
    read_tfrecords,
    read_webdataset,
)
from headrace.data.sources.audio import read_audio
from headrace.data.sources.frames import from_daft, from_dask, from_modin, from_polars, from_spark, from_tf
from headrace.data.sources.hdf5 import read_hdf5, read_netcdf
from headrace.data.sources.huggingface import from_huggingface
from headrace.data.sources.sql import read_sql
from headrace.data.sources.tables import read_avro, read_delta, read_iceberg, read_lance, read_orc
from headrace.data.sources.torch import from_torch
from headrace.data.sources.video import read_videos
from headrace.data.sources.zarr import read_zarr

_MODULES = (
    "aggregate block catalog checkpoint collate_fn context datatype exceptions expressions extensions "
    "grouped_data preprocessors random_access_dataset stats util"
).split()
NodeIdStr = str  # Ray's name of a machine; there is one machine here

if TYPE_CHECKING:
    from headrace.data.preprocessor import Preprocessor
    from headrace.data.summary import DatasetSummary
else:

    def __getattr__(name):
        """Imports modules on first use: those of two classes, and those that `import ray.data` imports."""
        if name in _MODULES:
            return importlib.import_module(f"headrace.data.{name}")
        if name == "DatasetSummary":
            from headrace.data.summary import DatasetSummary

            return DatasetSummary
        if name == "Preprocessor":
            from headrace.data.preprocessor import Preprocessor

            return Preprocessor
        return absent.hook("headrace.data", elsewhere=_ELSEWHERE)(name)

    _ELSEWHERE = {
        "DataFrame": "from_pandas(), or from_items() for rows",
        "concat": "union()",
        "load_dataset": "from_huggingface(), or read_parquet() and the other readers",
        "read": "read_parquet(), read_csv() or another reader",
        "read_excel": "from_pandas(pandas.read_excel(path))",
        "read_jsonl": "read_json()",
        "read_ndjson": "read_json()",
        "read_table": "read_csv()",
        "scan_csv": "read_csv()",
        "scan_ndjson": "read_json()",
        "scan_parquet": "read_parquet()",
    }


__all__ = [
    "ActorPoolStrategy",
    "BlockBasedFileDatasink",
    "BlockMetadata",
    "DataContext",
    "DataIterator",
    "Dataset",
    "DatasetContext",
    "DatasetIterator",
    "DatasetSummary",
    "Datasink",
    "Datasource",
    "ExecutionOptions",
    "ExecutionResources",
    "FileBasedDatasource",
    "FileShuffleConfig",
    "FilenameProvider",
    "MaterializedDataset",
    "MixStoppingCondition",
    "NodeIdStr",
    "PartitionStyle",
    "Partitioning",
    "PathPartitionFilter",
    "PathPartitionParser",
    "Preprocessor",
    "RandomSeedConfig",
    "ReadTask",
    "RowBasedFileDatasink",
    "SaveMode",
    "Schema",
    "SinkMode",
    "SplitIterator",
    "TaskPoolStrategy",
    "WriteResult",
    "from_arrow",
    "from_arrow_refs",
    "from_blocks",
    "from_daft",
    "from_dask",
    "from_huggingface",
    "from_items",
    "from_modin",
    "from_numpy",
    "from_numpy_refs",
    "from_pandas",
    "from_pandas_refs",
    "from_polars",
    "from_spark",
    "from_tf",
    "from_torch",
    "range",
    "range_tensor",
    "read_arrow",
    "read_audio",
    "read_avro",
    "read_binary_files",
    "read_datasource",
    "read_delta",
    "read_feather",
    "read_fwf",
    "read_hdf5",
    "read_iceberg",
    "read_images",
    "read_ipc",
    "read_json",
    "read_lance",
    "read_netcdf",
    "read_numpy",
    "read_orc",
    "read_parquet",
    "read_sql",
    "read_csv",
    "read_text",
    "read_tfrecords",
    "read_videos",
    "read_webdataset",
    "read_zarr",
]
