"""Names of Ray that Headrace does not have on purpose, and the sentence that their use gets.

A module with such names calls `hook` for its `__getattr__`; a class has them in its error for unknown
attributes. tests/python/test_ray_names.py uses each of them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from headrace.exceptions import MissingPackageError, UnsupportedError
from headrace.settings import NoAttribute


def _each(module: str, names: str, sentence: str) -> dict[str, str]:
    return {f"{module}.{name}": sentence for name in names.split()}


_TASKS = (
    "tasks, actors and their references are Ray's own: call Ray for them beside Headrace, or use "
    "Dataset.map, map_batches and their classes for functions over rows"
)
_CLUSTER = "there is one machine and no cluster; cluster_resources() says what this process may use"
_SCHEDULER = "it belongs to Ray's scheduler; Dataset.stats() and explain() say what a run did"
_TENSORS = (
    "columns of tensors have Arrow's own type fixed_shape_tensor here; give NumPy arrays, or "
    "pyarrow.FixedShapeTensorArray, and read NumPy arrays"
)
_OBJECTS = "Python objects in columns are pickles here; give the objects themselves, and rows have them again"
_EXPRESSIONS = (
    "it is of the class Expr, without a class of its own; build it by its function, and print it to see what "
    "it is"
)
_PLANNER = "it belongs to Ray's planner; a Dataset checks an expression against its columns when it is made"
_PROVIDER = "the engine lists files and reads their sizes itself; leave out meta_provider"
_CATALOG = (
    "catalogs of a service are not read; read_parquet or read_delta read the files of the table where they "
    "are local, and read_delta and read_iceberg take the options of their packages"
)
_MODELS = "use RayTrainReportCallback.get_model(checkpoint), which reads the model"
_FILTER = "one way of restarting a write job is here: CheckpointConfig(id_column, checkpoint_path)"


def _reader(package: str, example: str) -> str:
    return f"read by its own package {package} and give the rows to Headrace: {example}"


def _service(package: str, example: str) -> str:
    return (
        f"use the service's own client, {package}: {example}; a Datasource with a ReadTask for each part "
        "reads in parallel (read_datasource)"
    )


def _sink(package: str) -> str:
    return f"write by the service's own client, {package}, in the write() of a Datasink (write_datasink)"


_READERS = {
    "read_bigquery": _service("google-cloud-bigquery", "from_arrow(client.query(sql).to_arrow())"),
    "read_clickhouse": _service("clickhouse-connect", "from_arrow(client.query_arrow(sql))"),
    "read_databricks_tables": _service(
        "databricks-sql-connector", "from_arrow(cursor.execute(sql).fetchall_arrow())"
    ),
    "read_delta_sharing_tables": _reader("delta-sharing", "from_pandas(delta_sharing.load_as_pandas(url))"),
    "read_hudi": _reader(
        "hudi", "read_parquet of the files that HudiTableBuilder's table.get_file_slices() names"
    ),
    "read_kafka": _service(
        "confluent-kafka", "from_items([{'value': m.value()} for m in consumer.consume(n)])"
    ),
    "read_lerobot": _reader(
        "lerobot", "from_torch(LeRobotDataset(name)), or read_parquet of its folder data"
    ),
    "read_mcap": _reader(
        "mcap", "from_items([{'data': m.data} for _, _, m in make_reader(file).iter_messages()])"
    ),
    "read_mongo": _service("pymongoarrow", "from_arrow(collection.find_arrow_all(query))"),
    "read_snowflake": _service(
        "snowflake-connector-python", "from_arrow(cursor.execute(sql).fetch_arrow_all())"
    ),
    "read_unity_catalog": _CATALOG,
    "from_mars": "Mars has ended; from_pandas(frame.to_pandas()) takes what it gives",
}
_WRITERS = {
    "write_bigquery": _sink("google-cloud-bigquery"),
    "write_clickhouse": _sink("clickhouse-connect"),
    "write_kafka": _sink("confluent-kafka"),
    "write_mongo": _sink("pymongo"),
    "write_snowflake": _sink("snowflake-connector-python"),
    "write_turbopuffer": _sink("turbopuffer"),
    "to_mars": "Mars has ended; to_pandas() gives a DataFrame",
    "map_batches_internal": "it belongs to Ray's own modules; use map_batches()",
}

ABSENT = {
    **_each(
        "headrace",
        "ActorClassID ActorID ClientBuilder DynamicObjectRefGenerator FunctionID JobID Language NodeID "
        "ObjectID ObjectRef ObjectRefGenerator PlacementGroupID SCRIPT_MODE TaskID UniqueID WORKER_MODE "
        "WorkerID actor cancel client get_actor java_actor_class java_function kill method util",
        _TASKS,
    ),
    **_each("headrace", "_config autoscaler get_runtime_context internal nodes widgets", _CLUSTER),
    "headrace.timeline": "set DataContext.trace_path, and a run writes its trace to that file",
    "headrace.LoggingConfig": "configure Python's module logging instead",
    **{f"headrace.data.{name}": text for name, text in _READERS.items()},
    **{f"headrace.data.dataset.Dataset.{name}": text for name, text in _WRITERS.items()},
    **_each(
        "headrace.data",
        "Catalog CatalogAccessMode DatabricksUnityCatalog ReaderFormat ResolvedSource",
        _CATALOG,
    ),
    **_each("headrace.data", "ArrowTensorType ArrowVariableShapedTensorType", _TENSORS),
    "headrace.data.ClickHouseTableSettings": _sink("clickhouse-connect"),
    "headrace.data.KafkaAuthConfig": _READERS["read_kafka"],
    "headrace.data.list_stats_summaries": "stats() of a Dataset has those of its last run",
    "headrace.data.llm": "call a model in map_batches with a class: vLLM's LLM(...) in __init__, generate() "
    "in __call__, and num_gpus=1",
    **_each(
        "headrace.data.block",
        "BlockExecStats BlockMetadataWithSchema BlockStats CustomOpStats TaskExecWorkerStats to_stats",
        _SCHEDULER,
    ),
    **_each(
        "headrace.data.block.BlockAccessor",
        "block_type builder merge_sorted_blocks random_shuffle sample sort sort_and_partition "
        "sum_of_squared_diffs_from_mean zip",
        "operators of the engine do this; use the methods of Dataset, or pyarrow.Table of to_arrow()",
    ),
    "headrace.data.aggregate.VectorizedAggregateFnV2": "derive from AggregateFnV2, whose "
    "aggregate_block(block) gets a pyarrow.Table",
    "headrace.data.block.BlockColumnAccessor": "columns of blocks are pyarrow.ChunkedArrays: use "
    "pyarrow.compute",
    "headrace.data.block.BlockType": "blocks are pyarrow.Tables, which BlockAccessor converts",
    **_each(
        "headrace.data.checkpoint",
        "CheckpointBackend CheckpointFilter CheckpointManager IdColumnCheckpointManager "
        "NumpyArrayBasedCheckpointFilter",
        _FILTER,
    ),
    **_each(
        "headrace.data.datatype.DataType",
        "from_cudf to_cudf_type",
        "there are no columns in the memory of GPUs; use to_numpy_dtype() or to_arrow_dtype()",
    ),
    **_each(
        "headrace.data.datasource",
        "BaseFileMetadataProvider DefaultFileMetadataProvider FileMetadataProvider",
        _PROVIDER,
    ),
    "headrace.data.datasource.Connection": "read_sql and write_sql take any DB-API connection",
    "headrace.data.datasource.DeltaSharingDatasource": _READERS["read_delta_sharing_tables"],
    "headrace.data.datasource.LeRobotDatasource": _READERS["read_lerobot"],
    "headrace.data.datasource.MCAPDatasource": _READERS["read_mcap"],
    "headrace.data.datasource.TimeRange": _READERS["read_mcap"],
    "headrace.data.datasource.TurbopufferDatasink": _WRITERS["write_turbopuffer"],
    "headrace.data.datasource._S3FileSystemWrapper": "readers take URLs and storage_options; it is private "
    "in Ray",
    "headrace.data.datasource.RandomIntRowDatasource": "it is for Ray's own tests; range(n) gives rows, and "
    "with_column and random() give numbers",
    "headrace.data.datasource.Reader": "give a Datasource the method get_read_tasks(parallelism)",
    "headrace.data.exceptions.ExecutionTimeoutError": "a rank that waits longer than "
    "DataContext.stall_timeout_s gets a headrace.exceptions.PeerError; other runs have no time limit",
    "headrace.data.exceptions.RayDataUserCodeException": "an exception of a function comes as its own type; "
    "catch that type, or Exception",
    "headrace.data.exceptions.omit_traceback_stdout": "it hides frames of Ray in tracebacks; leave it out",
    **_each(
        "headrace.data.expressions",
        "AliasExpr DownloadExpr MonotonicallyIncreasingIdExpr PyArrowComputeUDFExpr StarExpr UDFExpr "
        "UnnestExpr",
        _EXPRESSIONS,
    ),
    **_each(
        "headrace.data.expressions",
        "expand_projection_exprs expand_star_exprs exprlist_to_fields is_rename_expr",
        _PLANNER,
    ),
    **_each(
        "headrace.data.expressions.Expr",
        "expand_projection get_type is_idempotent nullable to_field to_pyarrow",
        _PLANNER,
    ),
    **_each(
        "headrace.data.extensions",
        "ArrowTensorArray ArrowTensorType ArrowTensorTypeV2 ArrowVariableShapedTensorArray "
        "ArrowVariableShapedTensorType FixedShapeTensorType TensorArray TensorArrayElement TensorDtype "
        "column_needs_tensor_extension create_arrow_fixed_shape_tensor_type get_arrow_extension_tensor_types",
        _TENSORS,
    ),
    **_each(
        "headrace.data.extensions",
        "ArrowPythonObjectArray ArrowPythonObjectScalar ArrowPythonObjectType PythonObjectArray "
        "PythonObjectDtype",
        _OBJECTS,
    ),
    "headrace.data.extensions.ArrowConversionError": "values without a type are an InvalidArgument or a "
    "TypeMismatchError (headrace.exceptions)",
    **_each(
        "headrace.data.preprocessors.serialization_handlers",
        "CloudPickleSerializationHandler HandlerFormatName PickleSerializationHandler SerializationHandler",
        "serialize() writes JSON text; deserialize(text) reads it",
    ),
    "headrace.data.preprocessor.SerializationFormat": "serialize() writes JSON; deserialize(text) reads it",
    "headrace.train.SyncConfig": "Ray Train has no effect for it any more; leave out "
    "RunConfig(sync_config=...): the files of a checkpoint are in the run's folder when report() "
    "returns",
    "headrace.train.backend.Backend": "give a BackendConfig of yours the methods start(session) and stop(), "
    "which each worker calls",
    "headrace.train.base_trainer.format_datasets_for_repr": "it is a part of Ray's own prints; "
    "print the datasets",
    "headrace.train.error.SessionMisuseError": "functions of the train loop raise RuntimeError outside of it",
    "headrace.train.trainer.TrainingIterator": "it belongs to Ray's controller; call fit()",
    "headrace.train.torch.accelerate": "use torch.amp.autocast, and GradScaler for the optimizer",
    "headrace.train.torch.backward": "call loss.backward(), with torch.amp.GradScaler for 16 bits",
    "headrace.train.torch.prepare_optimizer": "use the optimizer, with torch.amp.GradScaler for 16 bits",
    "headrace.train.torch.train_loop_utils.TorchWorkerProfiler": "use torch.profiler in the train loop",
    "headrace.train.torch.xla": "XLA devices are not supported; TorchTrainer trains on CPUs and CUDA devices",
    **_each(
        "headrace.train",
        "tensorflow v2",
        "use DataParallelTrainer with iter_tf_batches or iter_jax_batches, and a BackendConfig whose "
        "start(session) sets up the library's own processes",
    ),
    "headrace.air": "what it had is in headrace.train: from headrace.train import RunConfig, report",
    **_each(
        "headrace.tune",
        "Tuner TuneConfig TuneError ExperimentAnalysis ResultGrid Stopper Trainable TuneCallback choice "
        "grid_search loguniform randint run sample_from schedulers search uniform with_parameters "
        "with_resources",
        "headrace.tune measures loaders; for settings of trainers use Ray Tune, Optuna or a loop over fit()",
    ),
    "headrace.train.xgboost.XGBoostCheckpoint": _MODELS,
    "headrace.train.lightgbm.LightGBMCheckpoint": _MODELS,
}


def error(name: str) -> UnsupportedError | None:
    """The error for a whole name of ABSENT."""
    text = ABSENT.get(name)
    return None if text is None else UnsupportedError(f"{name}: {text}")


def hook(
    module: str, otherwise: str | None = None, elsewhere: dict[str, str] | None = None
) -> Callable[[str], Any]:
    """A `__getattr__` for `module`: an UnsupportedError with the sentence of ABSENT, or an AttributeError.

    elsewhere: names that people look for here, and the modules that have them, or a call to write.
    otherwise: a module whose names are names of this one, too. Python imports it on first use.
    """

    def attribute(name: str) -> Any:
        if found := error(f"{module}.{name}"):
            raise found
        if otherwise is not None and not name.startswith("__"):
            return getattr(importlib.import_module(otherwise), name)
        text = f"module {module!r} has no attribute {name!r}"
        if elsewhere is not None and name in elsewhere:
            where = elsewhere[name]
            write = where if "(" in where else f"from {where} import {name}"
            raise NoAttribute(f"{text}: write {write}")
        raise AttributeError(text)

    return attribute


def no_attribute(value: object, owner: str, name: str) -> AttributeError:
    """The AttributeError for a name that an object of the class `owner` does not have."""
    text = f"{type(value).__name__!r} object has no attribute {name!r}"
    because = ABSENT.get(f"{owner}.{name}")
    return AttributeError(f"{text}: {because}" if because else text)


def module(name: str) -> ImportError:
    """The error for a module of ABSENT, to raise when it is imported."""
    return MissingPackageError(f"{name}: {ABSENT[name]}", name=name)
