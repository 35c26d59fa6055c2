"""Settings of Ray's DataContext that have no effect here: names, defaults and types of Ray 2.60.

Users can set and read them; a value of another type is an error. Those in `WARNED` warn once when they
change, because a program may depend on their effect.
"""

import enum
from dataclasses import dataclass, field

from headrace.settings import OnlyKnown


class ShuffleStrategy(enum.StrEnum):
    """Ray's ways to shuffle. All of them mean the one way of this engine."""

    SORT_SHUFFLE_PULL_BASED = "sort_shuffle_pull_based"
    SORT_SHUFFLE_PUSH_BASED = "sort_shuffle_push_based"
    HASH_SHUFFLE = "hash_shuffle"
    SHUFFLE_V2 = "shuffle_v2"
    GPU_SHUFFLE = "gpu_shuffle"
    HASH_SHUFFLE_V2 = "shuffle_v2"

    @classmethod
    def _missing_(cls, value):
        return cls.SHUFFLE_V2 if value == "hash_shuffle_v2" else None


class FixedShapeTensorFormat(enum.Enum):
    """Ray's types of tensor columns. Tensors here have Arrow's type."""

    V1 = "v1"
    V2 = "v2"
    ARROW_NATIVE = "native"


CATALOG_ERRORS = (
    *("429", "503", "502", "500", "Too Many Requests", "Service Unavailable", "Internal Server Error"),
    *("Connection reset", "Connection refused", "Connection timed out", "Read timed out"),
    *("UNAVAILABLE", "DEADLINE_EXCEEDED"),
)
AWS_ERRORS = (
    "AWS Error INTERNAL_FAILURE",
    "AWS Error NETWORK_CONNECTION",
    "AWS Error SLOW_DOWN",
    "AWS Error UNKNOWN (HTTP status 503)",
)


def _list(*values):
    return field(default_factory=lambda: list(values))


@dataclass
class AutoscalingConfig(OnlyKnown):
    """No effect: `concurrency=` sets the number of a function's workers."""

    _names = {
        "actor_pool_util_upscaling_threshold": "float",
        "actor_pool_util_downscaling_threshold": "float",
        "actor_pool_max_upscaling_delta": "int|None",
    }
    actor_pool_util_upscaling_threshold: float = 1.75
    actor_pool_util_downscaling_threshold: float = 0.5
    actor_pool_max_upscaling_delta: int | None = None


@dataclass
class IcebergConfig(OnlyKnown):
    """No effect."""

    write_file_max_attempts: int = 10
    write_file_retry_max_backoff_s: int = 32
    catalog_max_attempts: int = 5
    catalog_retry_max_backoff_s: int = 16
    catalog_retried_errors: list[str] = _list(*CATALOG_ERRORS)
    read_file_tasks_sequentially: bool = True


@dataclass
class DeltaConfig(OnlyKnown):
    """No effect."""

    commit_max_attempts: int = 5
    commit_retry_max_backoff_s: int = 16
    commit_retried_errors: list[str] = _list(*CATALOG_ERRORS)
    credential_refresh_enabled: bool = True


@dataclass
class LanceConfig(OnlyKnown):
    """No effect."""

    read_fragments_errors_to_retry: list[str] = _list("LanceError(IO)")
    read_fragments_max_attempts: int = 10
    read_fragments_retry_max_backoff_s: int = 32
    write_fragments_errors_to_retry: list[str] = _list("LanceError(IO)")
    write_fragments_max_attempts: int = 10
    write_fragments_retry_max_backoff_s: int = 32


@dataclass
class HangingExecutionIssueDetectorConfig(OnlyKnown):
    """No effect."""

    op_task_stats_min_count: int = 10
    op_task_stats_std_factor: float = 10
    detection_time_interval_s: float = 30.0


@dataclass
class HashShuffleAggregatorIssueDetectorConfig(OnlyKnown):
    """No effect."""

    detection_time_interval_s: float = 30
    min_wait_time_s: int = 300


@dataclass
class HighMemoryIssueDetectorConfig(OnlyKnown):
    """No effect."""

    detection_time_interval_s: float = 30


@dataclass
class IssueDetectorsConfiguration(OnlyKnown):
    """Without effect."""

    hanging_detector_config: HangingExecutionIssueDetectorConfig = field(
        default_factory=HangingExecutionIssueDetectorConfig
    )
    hash_shuffle_detector_config: HashShuffleAggregatorIssueDetectorConfig = field(
        default_factory=HashShuffleAggregatorIssueDetectorConfig
    )
    high_memory_detector_config: HighMemoryIssueDetectorConfig = field(
        default_factory=HighMemoryIssueDetectorConfig
    )
    detectors: list = _list()


# name: (default or a class that makes it, kind of value: see headrace.settings.KINDS)
WITHOUT_EFFECT = {
    "target_max_block_size": (128 << 20, "int|None"),
    "target_min_block_size": (1 << 20, "int"),
    "streaming_read_buffer_size": (32 << 20, "int"),
    "enable_pandas_block": (True, "bool"),
    "actor_prefetcher_enabled": (False, "bool"),
    "autoscaling_config": (AutoscalingConfig, "any"),
    "use_push_based_shuffle": (False, "bool"),
    "pipeline_push_based_shuffle_reduce_tasks": (True, "bool"),
    "default_hash_shuffle_parallelism": (200, "int"),
    "shuffle_compression": ("zstd", "str"),
    "hash_shuffle_reduce_batch_size": (16, "int"),
    "hash_shuffle_reduce_get_timeout_s": (1800.0, "float"),
    "shuffle_input_batch_bytes": (1 << 30, "int"),
    "max_hash_shuffle_aggregators": (None, "int|None"),
    "min_hash_shuffle_aggregator_wait_time_in_s": (300, "int"),
    "hash_shuffle_aggregator_health_warning_interval_s": (30, "int"),
    "max_hash_shuffle_finalization_batch_size": (None, "int|None"),
    "join_operator_actor_num_cpus_override": (None, "float|None"),
    "hash_shuffle_operator_actor_num_cpus_override": (None, "float|None"),
    "hash_aggregate_operator_actor_num_cpus_override": (None, "float|None"),
    "use_disk_based_hash_shuffle": (False, "bool"),
    "gpu_shuffle_num_actors": (None, "int|None"),
    "gpu_shuffle_rmm_pool_size": (None, "int|str|None"),
    "gpu_shuffle_spill_memory_limit": ("auto", "int|str|None"),
    "gpu_shuffle_setup_timeout_s": (120.0, "float"),
    "scheduling_strategy": ("SPREAD", "any"),
    "scheduling_strategy_large_args": ("DEFAULT", "any"),
    "large_args_threshold": (50 << 20, "int"),
    "use_polars": (False, "bool"),
    "use_polars_sort": (False, "bool"),
    "use_legacy_dataset_ids": (False, "bool"),
    "decoding_size_estimation": (True, "bool"),
    "min_parallelism": (200, "int"),
    "read_op_min_num_blocks": (200, "int"),
    "use_datasource_v2": (True, "bool"),
    "enable_tensor_extension_casting": (True, "bool"),
    "arrow_fixed_shape_tensor_format": (FixedShapeTensorFormat.V2, "any"),
    "use_arrow_tensor_v2": (True, "bool"),
    "enable_auto_log_stats": (False, "bool"),
    "verbose_stats_logs": (False, "bool"),
    "accurate_map_phase_timing": (False, "bool"),
    "per_stage_map_timing": (False, "bool"),
    "trace_allocations": (False, "bool"),
    "use_ray_tqdm": (True, "bool"),
    "enable_operator_progress_bars": (True, "bool"),
    "enable_progress_bar_name_truncation": (True, "bool"),
    "enable_rich_progress_bars": (False, "bool"),
    "enable_get_object_locations_for_metrics": (False, "bool"),
    "write_file_retry_on_errors": (AWS_ERRORS, "texts"),
    "warn_on_driver_memory_usage_bytes": (2 << 30, "int"),
    "actor_task_retry_on_errors": (False, "bool|list"),
    "actor_init_retry_on_errors": (False, "bool"),
    "actor_init_max_retries": (3, "int"),
    "max_consecutive_actor_init_deaths": (0, "int"),
    "op_resource_reservation_enabled": (True, "bool"),
    "op_resource_reservation_ratio": (0.5, "float"),
    "output_backpressure_guard_release_interval_s": (None, "float|None"),
    "execution_no_progress_timeout_s": (1800, "float"),
    "log_internal_stack_trace": (False, "bool"),
    "raise_original_map_exception": (False, "bool"),
    "print_on_execution_start": (True, "bool"),
    "s3_try_create_dir": (False, "bool"),
    "wait_for_min_actors_s": (-1, "int"),
    "max_tasks_in_flight_per_actor": (None, "int|None"),
    "retried_io_errors": ([*AWS_ERRORS, "AWS Error SERVICE_UNAVAILABLE"], "texts"),
    "lance_config": (LanceConfig, "any"),
    "iceberg_config": (IcebergConfig, "any"),
    "delta_config": (DeltaConfig, "any"),
    "enable_per_node_metrics": (False, "bool"),
    "enable_stats_summary_collection": (False, "bool"),
    "override_object_store_memory_limit_fraction": (None, "float|None"),
    "memory_usage_poll_interval_s": (1, "float|None"),
    "dataset_logger_id": (None, "str|None"),
    "issue_detectors_config": (IssueDetectorsConfiguration, "any"),
    "isolate_read_workers": (False, "bool"),
    "downstream_capacity_backpressure_ratio": (2.0, "float|None"),
    "enable_dynamic_output_queue_size_backpressure": (False, "bool"),
    "enable_lineage_reconstruction_resource_accounting": (True, "bool"),
    "enforce_schemas": (False, "bool"),
    "pandas_block_ignore_metadata": (False, "bool"),
    "batch_to_block_arrow_format": (True, "bool"),
    "custom_execution_callback_classes": ([], "list"),
    "default_map_logical_memory_enabled": (False, "bool"),
    "object_store_reservation_overshoot_ratio": (None, "float|None"),
    "object_store_memory_pressure_fraction": (None, "float|None"),
}

# Older names and the names that replaced them.
ALIASES = {
    "hash_shuffle_compression": "shuffle_compression",
    "use_external_hash_shuffle": "use_disk_based_hash_shuffle",
    "target_shuffle_max_block_size": "target_max_block_size",
    "log_internal_stack_trace_to_stdout": "log_internal_stack_trace",
}

# Settings that warn when they change, with the text of the warning.
WARNED = {
    "override_object_store_memory_limit_fraction": "memory_limit_bytes limits the memory for data",
    "execution_no_progress_timeout_s": "the engine does not end a run that makes no progress",
    "actor_task_retry_on_errors": "retried_map_errors and max_map_retries set what the engine tries again",
    "actor_init_retry_on_errors": "the engine does not retry a class whose __init__ raises",
    "max_consecutive_actor_init_deaths": "a worker that dies while it starts is an error",
    "custom_execution_callback_classes": "the engine never calls them",
    "enable_tensor_extension_casting": "arrays of more than one dimension are always tensors",
    "enable_stats_summary_collection": "Dataset.stats() describes the last run",
    "retried_io_errors": "files are local, and the engine does not retry system errors",
    "write_file_retry_on_errors": "files are local, and the engine does not retry system errors",
}
