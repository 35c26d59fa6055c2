"""Types of the settings in DataContext, for type checkers. Nothing imports this module at run time.

A test compares the names and types with those that context.py checks.

Tests: tests/python/test_typing.py
"""

import os
from collections.abc import Sequence
from typing import Any


class Fields:
    """The settings without code of their own."""

    enable_progress_bars: bool
    enable_iteration_progress_bars: bool
    max_errored_blocks: int
    retried_map_errors: bool | Sequence[str]
    max_map_retries: int
    enable_fallback_to_arrow_object_ext_type: bool | None
    enable_arrow_backed_pandas_conversion: bool
    seed: int
    trace_path: str | os.PathLike[str] | None
    autotune: bool
    first_threads: int | None
    most_prefetch_batches: int
    reserved_cores_per_trainer: int
    stall_warning_s: float
    stall_timeout_s: float | None
    check_hosts: bool
    target_max_block_size: int | None
    target_min_block_size: int
    streaming_read_buffer_size: int
    enable_pandas_block: bool
    actor_prefetcher_enabled: bool
    autoscaling_config: Any
    use_push_based_shuffle: bool
    pipeline_push_based_shuffle_reduce_tasks: bool
    default_hash_shuffle_parallelism: int
    shuffle_compression: str
    hash_shuffle_reduce_batch_size: int
    hash_shuffle_reduce_get_timeout_s: float
    shuffle_input_batch_bytes: int
    max_hash_shuffle_aggregators: int | None
    min_hash_shuffle_aggregator_wait_time_in_s: int
    hash_shuffle_aggregator_health_warning_interval_s: int
    max_hash_shuffle_finalization_batch_size: int | None
    join_operator_actor_num_cpus_override: float | None
    hash_shuffle_operator_actor_num_cpus_override: float | None
    hash_aggregate_operator_actor_num_cpus_override: float | None
    use_disk_based_hash_shuffle: bool
    gpu_shuffle_num_actors: int | None
    gpu_shuffle_rmm_pool_size: int | str | None
    gpu_shuffle_spill_memory_limit: int | str | None
    gpu_shuffle_setup_timeout_s: float
    scheduling_strategy: Any
    scheduling_strategy_large_args: Any
    large_args_threshold: int
    use_polars: bool
    use_polars_sort: bool
    use_legacy_dataset_ids: bool
    decoding_size_estimation: bool
    min_parallelism: int
    read_op_min_num_blocks: int
    use_datasource_v2: bool
    enable_tensor_extension_casting: bool
    arrow_fixed_shape_tensor_format: Any
    use_arrow_tensor_v2: bool
    enable_auto_log_stats: bool
    verbose_stats_logs: bool
    accurate_map_phase_timing: bool
    per_stage_map_timing: bool
    trace_allocations: bool
    use_ray_tqdm: bool
    enable_operator_progress_bars: bool
    enable_progress_bar_name_truncation: bool
    enable_rich_progress_bars: bool
    enable_get_object_locations_for_metrics: bool
    write_file_retry_on_errors: Sequence[str]
    warn_on_driver_memory_usage_bytes: int
    actor_task_retry_on_errors: bool | Sequence[Any]
    actor_init_retry_on_errors: bool
    actor_init_max_retries: int
    max_consecutive_actor_init_deaths: int
    op_resource_reservation_enabled: bool
    op_resource_reservation_ratio: float
    output_backpressure_guard_release_interval_s: float | None
    execution_no_progress_timeout_s: float
    log_internal_stack_trace: bool
    raise_original_map_exception: bool
    print_on_execution_start: bool
    s3_try_create_dir: bool
    wait_for_min_actors_s: int
    max_tasks_in_flight_per_actor: int | None
    retried_io_errors: Sequence[str]
    lance_config: Any
    iceberg_config: Any
    delta_config: Any
    enable_per_node_metrics: bool
    enable_stats_summary_collection: bool
    override_object_store_memory_limit_fraction: float | None
    memory_usage_poll_interval_s: float | None
    dataset_logger_id: str | None
    issue_detectors_config: Any
    isolate_read_workers: bool
    downstream_capacity_backpressure_ratio: float | None
    enable_dynamic_output_queue_size_backpressure: bool
    enable_lineage_reconstruction_resource_accounting: bool
    enforce_schemas: bool
    pandas_block_ignore_metadata: bool
    batch_to_block_arrow_format: bool
    custom_execution_callback_classes: Sequence[Any]
    default_map_logical_memory_enabled: bool
    object_store_reservation_overshoot_ratio: float | None
    object_store_memory_pressure_fraction: float | None
    hash_shuffle_compression: str  # shuffle_compression
    use_external_hash_shuffle: bool  # use_disk_based_hash_shuffle
    target_shuffle_max_block_size: int | None  # target_max_block_size
    log_internal_stack_trace_to_stdout: bool  # log_internal_stack_trace
