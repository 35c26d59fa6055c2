"""Settings: names and defaults are those of Ray Data 2.60, and an unknown setting is an error.

The table is what dataclasses.fields(ray.data.DataContext) says there; docs/ray.md names what differs.
"""

import copy
import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import headrace.data as hd
from headrace import exceptions
from headrace.data import context as contexts

INF = float("inf")
RAY = """
target_max_block_size=134217728 target_min_block_size=1048576 streaming_read_buffer_size=33554432
enable_pandas_block=True actor_prefetcher_enabled=False use_push_based_shuffle=False
pipeline_push_based_shuffle_reduce_tasks=True default_hash_shuffle_parallelism=200
shuffle_compression='zstd' hash_shuffle_reduce_batch_size=16 hash_shuffle_reduce_get_timeout_s=1800.0
shuffle_input_batch_bytes=1073741824 max_hash_shuffle_aggregators=None
min_hash_shuffle_aggregator_wait_time_in_s=300 hash_shuffle_aggregator_health_warning_interval_s=30
max_hash_shuffle_finalization_batch_size=None join_operator_actor_num_cpus_override=None
hash_shuffle_operator_actor_num_cpus_override=None hash_aggregate_operator_actor_num_cpus_override=None
use_disk_based_hash_shuffle=False gpu_shuffle_num_actors=None gpu_shuffle_rmm_pool_size=None
gpu_shuffle_spill_memory_limit='auto' gpu_shuffle_setup_timeout_s=120.0 scheduling_strategy='SPREAD'
scheduling_strategy_large_args='DEFAULT' large_args_threshold=52428800 use_polars=False
use_polars_sort=False use_legacy_dataset_ids=False decoding_size_estimation=True min_parallelism=200
read_op_min_num_blocks=200 use_datasource_v2=True enable_tensor_extension_casting=True
use_arrow_tensor_v2=True enable_fallback_to_arrow_object_ext_type=None enable_auto_log_stats=False
verbose_stats_logs=False accurate_map_phase_timing=False per_stage_map_timing=False
trace_allocations=False use_ray_tqdm=True enable_progress_bars=True enable_operator_progress_bars=True
enable_progress_bar_name_truncation=True enable_rich_progress_bars=False
enable_get_object_locations_for_metrics=False warn_on_driver_memory_usage_bytes=2147483648
actor_task_retry_on_errors=False actor_init_retry_on_errors=False actor_init_max_retries=3
max_consecutive_actor_init_deaths=0 retried_map_errors=False max_map_retries=0
op_resource_reservation_enabled=True op_resource_reservation_ratio=0.5
output_backpressure_guard_release_interval_s=None max_errored_blocks=0
execution_no_progress_timeout_s=1800 log_internal_stack_trace=False raise_original_map_exception=False
print_on_execution_start=True s3_try_create_dir=False wait_for_min_actors_s=-1
max_tasks_in_flight_per_actor=None enable_per_node_metrics=False enable_stats_summary_collection=False
override_object_store_memory_limit_fraction=None memory_usage_poll_interval_s=1 dataset_logger_id=None
isolate_read_workers=False downstream_capacity_backpressure_ratio=2.0
enable_dynamic_output_queue_size_backpressure=False
enable_lineage_reconstruction_resource_accounting=True enforce_schemas=False
pandas_block_ignore_metadata=False batch_to_block_arrow_format=True checkpoint_config=None
custom_execution_callback_classes=[] default_map_logical_memory_enabled=False
object_store_reservation_overshoot_ratio=None object_store_memory_pressure_fraction=None
enable_ray_data_reconstruction=False execution_callback_classes=[] hash_shuffle_compression='zstd'
use_external_hash_shuffle=False
"""
READ_ONLY = ("enable_ray_data_reconstruction", "execution_callback_classes")
NESTED = {
    "autoscaling_config": "actor_pool_util_upscaling_threshold=1.75 actor_pool_max_upscaling_delta=None",
    "iceberg_config": "write_file_max_attempts=10 read_file_tasks_sequentially=True",
    "delta_config": "commit_max_attempts=5 credential_refresh_enabled=True",
    "lance_config": "read_fragments_max_attempts=10 write_fragments_errors_to_retry=['LanceError(IO)']",
    "issue_detectors_config": "",
}


def fields(text):
    return [(name, eval(value)) for name, _, value in (f.partition("=") for f in text.split())]


@pytest.fixture
def context():
    """The settings of this process; restores a copy afterwards."""
    current, kept = hd.DataContext.get_current(), hd.DataContext.get_current().copy()
    yield current
    hd.DataContext._set_current(kept)


@pytest.mark.parametrize(("name", "default"), fields(RAY))
def test_rays_fields_are_there(name, default, context):
    fresh = hd.DataContext()
    assert getattr(fresh, name) == default and type(getattr(fresh, name)) in (type(default), float)
    if name in READ_ONLY:
        return
    setattr(fresh, name, default)
    assert getattr(fresh, name) == default
    if not name.startswith("scheduling"):  # which may be any object
        with pytest.raises((TypeError, ValueError, NotImplementedError), match="DataContext|shuffle"):
            setattr(fresh, name, object())


@pytest.mark.parametrize(("name", "inner"), NESTED.items())
def test_rays_nested_settings(name, inner):
    config = getattr(hd.DataContext(), name)
    assert [getattr(config, n) for n, _ in fields(inner)] == [v for _, v in fields(inner)]
    with pytest.raises(AttributeError, match="has no 'commit_max_attempt'"):
        config.commit_max_attempt = 3
    assert getattr(hd.DataContext(), name) is not config
    with pytest.raises(TypeError, match=f"DataContext.{name}: expected {type(config).__name__}, found dict"):
        setattr(hd.DataContext(), name, {})


def test_unknown_names_are_errors(context):
    """The story: `memory_limit = "3GB"` was accepted in silence and limited nothing."""
    with pytest.raises(
        AttributeError, match="DataContext has no 'memory_limit'; did you mean 'memory_limit_bytes'"
    ):
        context.memory_limit = "3GB"
    with pytest.raises(
        exceptions.TypeMismatchError, match="DataContext.trace_path: expected str or os.PathLike or None"
    ):
        context.trace_path = 3
    with pytest.raises(AttributeError, match="no 'max_errored_block'; did you mean 'max_errored_blocks'"):
        print(context.max_errored_block)
    with pytest.raises(AttributeError, match="DataContext has no 'qqqq'$"):
        context.qqqq = 1
    with pytest.raises(AttributeError, match="did you mean 'seed'"):
        hd.DataContext(sed=3)
    assert not hasattr(context, "memory_limit") and hd.DataContext(seed=3).seed == 3


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("max_errored_blocks", "3", "expected int, found str '3'"),
        ("max_errored_blocks", True, "expected int, found bool True"),
        ("max_map_retries", 1.5, "expected an int of at least 0, found float 1.5"),
        ("enable_progress_bars", "no", "expected bool, found str 'no'"),
        ("retried_map_errors", "OSError", "expected bool or a list of str, found str 'OSError'"),
        ("retried_map_errors", [OSError], "expected bool or a list of str"),
        ("seed", None, "expected int, found NoneType None"),
        ("num_threads", "3", "expected int or None, found str '3'"),
        ("spill_dir", 3, "expected a path or None, found int 3"),
        ("execution_options", {"preserve_order": False}, "expected ExecutionOptions, found dict"),
        ("target_max_block_size", "1GB", "expected int or None, found str '1GB'"),
        ("op_resource_reservation_ratio", "0.5", "expected a number, found str"),
    ],
)
def test_values_of_other_types_are_errors(name, value, text, context):
    before = getattr(context, name)
    with pytest.raises(exceptions.TypeMismatchError, match=f"^DataContext.{name}: {text}"):
        setattr(context, name, value)
    assert getattr(context, name) == before


def test_wrong_values_are_errors(context):
    with pytest.raises(exceptions.InvalidArgument, match="threads: found -3"):  # said 2147483647
        context.num_threads = -3
    for value in (-1, 1 << 64):
        with pytest.raises(exceptions.InvalidArgument, match="DataContext.seed"):
            context.seed = value
    with pytest.raises(
        exceptions.InvalidArgument, match="expected one of 'sort_shuffle_pull_based'.*found 'sort'"
    ):
        context.shuffle_strategy = "sort"
    context.shuffle_strategy = "hash_shuffle_v2"
    assert context.shuffle_strategy is contexts.ShuffleStrategy.SHUFFLE_V2
    context.max_errored_blocks = np.int64(3)
    assert type(context.max_errored_blocks) is int
    with pytest.raises(exceptions.TypeMismatchError, match="expected a CheckpointConfig, found str"):
        context.checkpoint_config = "/x"
    with pytest.raises(exceptions.InvalidArgument, match="id_column: expected a column's name, found None"):
        context.checkpoint_config = {"checkpoint_path": "/x"}


def test_settings_without_effect_warn_once(context, monkeypatch, recwarn):
    monkeypatch.setattr(contexts, "_warned_of", set())
    context.execution_no_progress_timeout_s = 1800  # as it is
    context.target_max_block_size = None
    assert not recwarn.list
    for seconds in (5, 6):
        context.execution_no_progress_timeout_s = seconds
    assert [str(w.message) for w in recwarn] == [
        "DataContext.execution_no_progress_timeout_s has no effect: "
        "the engine does not end a run that makes no progress"
    ]
    assert recwarn.list[0].filename == __file__
    assert context.execution_no_progress_timeout_s == 6


def test_keys_of_the_users_own(context):
    assert context.get_config("mine") is None and context.get_config("mine", 3) == 3
    context.set_config("mine", {"a": 1})
    assert context.get_config("mine") == {"a": 1}
    context.remove_config("mine")
    context.remove_config("mine")
    assert context.get_config("mine") is None


def test_copies_and_pickles(context):
    context.retried_map_errors = ["OSError"]
    context.execution_options.resource_limits.cpu = 2
    context.set_config("mine", 1)
    for other in (context.copy(), copy.copy(context), pickle.loads(pickle.dumps(context))):
        assert other == context and other.get_config("mine") == 1
        assert "retried_map_errors=['OSError']" in repr(other)
        with pytest.raises(AttributeError, match="memory_limit"):
            other.memory_limit = 3
    other = context.copy()
    other.execution_options.resource_limits.cpu = 3
    other.retried_map_errors.append("x")
    assert context.execution_options.resource_limits.cpu == 2 and context.retried_map_errors == ["OSError"]
    with hd.DataContext.current(other):
        assert hd.DataContext.get_current() is other
    assert hd.DataContext.get_current() is context and contexts.DatasetContext is hd.DataContext


def test_execution_options_and_resources():
    """Arguments, values and arithmetic as in Ray; the story: locality_with_output was the third argument."""
    options = hd.ExecutionOptions(hd.ExecutionResources(4), None, False, False, True, {"a": "b"})
    assert options.resource_limits == hd.ExecutionResources.for_limits(cpu=4)
    assert options.preserve_order is options.actor_locality_enabled is False
    assert options.label_selector == {"a": "b"} and options.verbose_progress is True
    assert options.resource_limits.memory == INF and options.exclude_resources.cpu == 0
    assert not options.locality_with_output and not options.is_resource_limits_default()
    assert (
        hd.ExecutionOptions().is_resource_limits_default()
        and options.copy() == options != hd.ExecutionOptions()
    )
    options.exclude_resources = hd.ExecutionResources(cpu=1)
    with pytest.raises(ValueError, match="both have cpu"):
        options.validate()
    a, b = hd.ExecutionResources(cpu=2, memory="1GiB"), hd.ExecutionResources(1, 1)
    assert (a.cpu, a.gpu, a.object_store_memory, a.memory) == (2, 0, 0, 1 << 30)
    assert a.add(b) == hd.ExecutionResources(3, 1, 0, 1 << 30) and a.subtract(b).gpu == -1
    assert not a.subtract(b).is_non_negative() and a.max(b).gpu == 1 and a.min(b).memory == 0
    assert a.scale(2).cpu == 4 and a.scale(0).is_zero() and hd.ExecutionResources.inf().scale(0).cpu == 0
    assert a.floordiv(b).cpu == 2 and a.floordiv(b).memory == INF
    assert a.satisfies_limit(hd.ExecutionResources.for_limits(cpu=2)) and not a.satisfies_limit(b)
    assert hd.ExecutionResources.from_resource_dict({"num_cpus": 2}).to_resource_dict() == {
        "CPU": 2, "GPU": 0, "object_store_memory": 0, "memory": 0,
    }  # fmt: skip
    assert a.copy(cpu=5) == hd.ExecutionResources(5, memory=1 << 30) and hash(a) == hash(a.copy())
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(
    ("make", "name", "value", "error", "text"),
    [
        (hd.ExecutionOptions, "preserve_ordr", False, AttributeError, "did you mean 'preserve_order'"),
        (hd.ExecutionOptions, "preserve_order", 0, TypeError, "expected bool, found int 0"),
        (
            hd.ExecutionOptions,
            "resource_limits",
            {"cpu": 1},
            TypeError,
            "expected ExecutionResources, found dict",
        ),
        (hd.ExecutionResources, "cpus", 1, AttributeError, "did you mean 'cpu'"),
        (hd.ExecutionResources, "cpu", "1", TypeError, "expected a number, found str '1'"),
        (hd.ExecutionResources, "cpu", -1, ValueError, "expected 0 or more, found -1"),
        (hd.ExecutionResources, "memory", "much", ValueError, "'much' is not a number of bytes"),
        (hd.Partitioning, "field_type", {}, AttributeError, "did you mean 'field_types'"),
        (hd.FileShuffleConfig, "reseed", 1, AttributeError, "FileShuffleConfig has no 'reseed'"),
        (hd.RandomSeedConfig, "sed", 1, AttributeError, "did you mean 'seed'"),
        (hd.ActorPoolStrategy, "maxsize", 1, AttributeError, "did you mean 'max_size'"),
        (hd.TaskPoolStrategy, "sizes", 1, AttributeError, "did you mean 'size'"),
    ],
)
def test_neighbours(make, name, value, error, text):
    made = make()
    with pytest.raises(error, match=text):
        setattr(made, name, value)
    assert pickle.loads(pickle.dumps(made)) == made == copy.deepcopy(made)


def test_a_subclass_may_have_more():
    class Mine(hd.ExecutionOptions):
        pass

    mine = Mine()
    mine.note = 3
    assert mine.note == 3


def test_frames_of_arrow_types(context):
    """enable_arrow_backed_pandas_conversion, which Ray has on."""
    table = pa.table(
        {
            "i": pa.array([1, None, 2**60 + 1]),
            "d": pa.array([0, None, 1], pa.date32()),
            "l": [[1], [2, 3], None],
            "n": pa.nulls(3),
        }
    )
    ds = hd.from_arrow(table)
    assert ds.to_pandas()["i"].dtype == "float64"
    context.enable_arrow_backed_pandas_conversion = True
    frames = [ds.to_pandas(), next(iter(ds.iter_batches(batch_size=3, batch_format="pandas")))]
    frames += [ds.take_batch(3, batch_format="pandas"), pd.concat(ds.to_pandas_refs())]
    for frame in frames:
        assert [str(t) for t in frame.dtypes[:2]] == ["int64[pyarrow]", "date32[day][pyarrow]"]
        assert frame["i"][2] == 2**60 + 1 and frame["n"].dtype == object
        assert str(frame["l"].dtype) == "list<item: int64>[pyarrow]"

    def look(frame):
        frame["t"] = str(frame["i"].dtype)
        return frame

    for size in (None, 2):
        back = ds.map_batches(look, batch_format="pandas", batch_size=size).to_arrow()
        assert set(back["t"].to_pylist()) == {"int64[pyarrow]"}
        assert back.drop_columns(["t"]).to_pylist() == table.to_pylist()
