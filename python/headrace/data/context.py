"""DataContext: the settings of this process. A run reads them when it begins.

context_fields.py lists Ray's settings without effect here, execution_options.py has the limits of runs. The
settings of the engine (threads, memory, spill) are properties that read and write the engine's own values.
"""

from __future__ import annotations

import contextlib
import copy
import math
import os
import threading
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from headrace import _core
from headrace.data import environment
from headrace.data.context_fields import (
    ALIASES,
    WARNED,
    WITHOUT_EFFECT,
    AutoscalingConfig,
    DeltaConfig,
    IcebergConfig,
    LanceConfig,
    ShuffleStrategy,
)
from headrace.data.execution_options import INF, ExecutionOptions, ExecutionResources, bytes_of
from headrace.settings import NoAttribute, check, is_whole, unknown
from headrace.udf import states

if TYPE_CHECKING:
    from headrace.data.context_types import Fields
else:
    Fields = object

# Ray's settings that have an effect here: (default, kind of value).
_HONOURED = {
    "enable_progress_bars": (True, "bool"),
    "max_errored_blocks": (0, "int"),
    "retried_map_errors": (False, "bool|texts"),
    "max_map_retries": (0, "count"),
    "enable_fallback_to_arrow_object_ext_type": (None, "bool|None"),
    "enable_arrow_backed_pandas_conversion": (False, "bool"),
    # Headrace's own
    "seed": (0, "int"),
    "enable_iteration_progress_bars": (False, "bool"),
    "trace_path": (None, "path|None"),
    "autotune": (True, "bool"),
    "first_threads": (None, "count|None"),
    "most_prefetch_batches": (64, "count"),
    "reserved_cores_per_trainer": (1, "count"),
    "stall_warning_s": (30.0, "float"),
    "stall_timeout_s": (1800.0, "float|None"),
    "check_hosts": (True, "bool"),
}
LEAST_CPUS = 4  # with fewer none is left to trainers: a run needs all of them more
_FIELDS = _HONOURED | WITHOUT_EFFECT
_warned_of = set()


_changes = 0  # of settings of the process


def _count_change() -> None:
    global _changes
    _changes += 1


def process_settings() -> int:
    """Another number after each change of num_threads, memory_limit_bytes, spill_dir or spill_quota_bytes."""
    return _changes


class DataContext(Fields):
    """Settings of this process: DataContext.get_current() returns the one object.

    An unknown name is an AttributeError that names the nearest known one; a value of another type is a
    TypeMismatchError. All of Ray's names exist with Ray's defaults; those below have an effect, the others
    can be set and read (docs/ray.md).

    execution_options: ExecutionOptions.
    seed: random functions derive their seeds from it, the epoch and the row's coordinate; 0 unless set.
    num_threads: pool threads of the engine; None for the default (HEADRACE_NUM_THREADS, or the number of
    CPUs).
    memory_limit_bytes: bytes for data; None for the default (HEADRACE_MEMORY_LIMIT, or half of the
    machine's memory).
    spill_dir: the folder for data that exceeds the limit; None for the default (HEADRACE_SPILL_DIR, TMPDIR or
    /tmp). Setting a folder in which this process cannot make files is an error.
    spill_quota_bytes: the most bytes in that folder at a time; None for the default (HEADRACE_SPILL_QUOTA, or
    all but a fiftieth of the disk). Numbers of bytes may be texts such as "2GB" or "256MiB".
    autotune: whether a run moves its number of threads, where num_threads is not set, of workers of functions
    that wait, and of batches ahead by measurement (docs/waiting.md, "What is tuned by itself"). False: they
    stay. stats("dict")["tuned"] has the numbers of threads and batches that a run came to; num_threads fixes
    that of threads, and of workers without concurrency, for later runs.
    first_threads: where a number that moves begins, such as stats("dict")["tuned"]["threads"] of an earlier
    program, or the bound of docs/waiting.md if that is lower; None: at the default.
    most_prefetch_batches: prefetch_batches of a pass is where the number of batches ahead begins, and its
    least; the run moves it up to this where more would spare waits. At most prefetch_batches: it stays.
    reserved_cores_per_trainer: where autotune moves the number of threads, a pass for trainers begins with so
    many fewer for each of them (with 4 CPUs or more, and at most half of them), and gets these threads, too,
    while the trainer waits. 0: it begins with all.
    execution_options.exclude_resources.cpu: CPUs left to the program's own steps: the default number of
    threads is lower by these, and moves only as far as the threads do not need them.
    trace_path: a file to which each run writes what its threads did (Perfetto); None: no file.
    stall_warning_s: a rank that has waited this long for others prints whom it waits for, and what they do.
    stall_timeout_s: a wait of this many seconds is an error (PeerError), in a trainer the failure of the rank
    that the others wait for; None: never.
    check_hosts: where shares of several hosts have a process group of torch.distributed, each pass compares
    where the hosts begin; a difference is a MismatchError.
    max_errored_blocks: the number of a function's batches per run that may fail (by an exception, or because
    the worker died); the run leaves them out. A function takes the value when it is added; negative: no
    limit. stats() counts the failures, the log shows one line. Tables that a generator gave before its
    failure stay. retried_map_errors: whether the engine calls a function that raised again for the same
    batch: True, or a list of patterns, one of which must match the text of the exception. max_map_retries:
    how often, with pauses in between. raise_original_map_exception, log_internal_stack_trace: no effect; a
    function's exception always keeps its own type.
    enable_fallback_to_arrow_object_ext_type: True or None: a column of Python objects without one common
    column type becomes a column of pickles; False: it is an error. A function takes the value when it is
    added.
    enable_arrow_backed_pandas_conversion: True: DataFrames have columns of Arrow's types (pandas.ArrowDtype),
    Ray's default; False, the default here: of NumPy's. A function takes the value when it is added.
    enable_progress_bars: on a terminal and in a notebook, one bar while a call such as materialize(),
    count(), write_parquet() or fit() works for more than a second; False: nothing.
    execution_options.verbose_progress: True: a line for each operation below it.
    enable_iteration_progress_bars: the same for passes of iter_batches() and its siblings.
    HEADRACE_PROGRESS says what happens without a terminal. Ray's other settings of bars have no effect.
    """

    _current = None
    _lock = threading.RLock()

    def __init__(self, **settings: Any) -> None:
        for name, (default, _) in _FIELDS.items():
            made = default() if isinstance(default, type) else default
            self.__dict__[name] = made.copy() if isinstance(made, list) else made
        self.__dict__["execution_options"] = ExecutionOptions()
        self._shuffle_strategy = ShuffleStrategy.SHUFFLE_V2
        self._kv_configs = {}
        for name, value in settings.items():
            setattr(self, name, value)

    @classmethod
    def _known(cls):
        own = [n for n, v in vars(cls).items() if isinstance(v, property) and v.fset]
        return [*own, "execution_options", *_FIELDS, *ALIASES]

    if not TYPE_CHECKING:  # checkers mark unknown names as errors

        def __setattr__(self, name, value):
            cls, name = type(self), ALIASES.get(name, name)
            if name.startswith("_") or isinstance(getattr(cls, name, None), property):
                super().__setattr__(name, value)
                return
            if name == "execution_options":
                if not isinstance(value, ExecutionOptions):
                    found = f"{type(value).__name__} {value!r}"
                    raise _core.TypeMismatchError(
                        f"DataContext.execution_options: expected ExecutionOptions, found {found}"
                    )
            elif name in _FIELDS:
                value = self._checked(name, value)
            else:
                raise NoAttribute(unknown("DataContext", name, cls._known()))
            super().__setattr__(name, value)

    def _checked(self, name, value):
        default, kind = _FIELDS[name]
        value = check(f"DataContext.{name}", value, kind)
        if isinstance(default, type) and not isinstance(value, default):
            found = f"{type(value).__name__} {value!r}"
            raise _core.TypeMismatchError(f"DataContext.{name}: expected {default.__name__}, found {found}")
        if name == "seed":
            check_seed("DataContext.seed", value)
        if name == "trace_path" and value is not None:
            value = os.fspath(value)
        as_list = list(value) if isinstance(value, tuple) else value
        same = as_list == (list(default) if isinstance(default, tuple) else default)
        if name in WARNED and not same and name not in _warned_of:
            _warned_of.add(name)
            warnings.warn(f"DataContext.{name} has no effect: {WARNED[name]}", UserWarning, stacklevel=3)
        return value

    if not TYPE_CHECKING:  # checkers mark unknown names as errors

        def __getattr__(self, name):
            if name in ALIASES:
                return getattr(self, ALIASES[name])
            if name.startswith("_"):
                raise AttributeError(f"'DataContext' object has no attribute {name!r}")
            raise NoAttribute(unknown("DataContext", name, type(self)._known()))

    def __repr__(self) -> str:
        """Shows the settings that differ from their defaults."""
        plain = vars(DataContext())
        changed = {n: v for n, v in vars(self).items() if n not in plain or plain[n] != v}
        return f"DataContext({', '.join(f'{n}={v!r}' for n, v in changed.items())})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def copy(self) -> DataContext:
        """An independent copy, except for the settings of the process: num_threads, memory_limit_bytes,
        spill_dir and spill_quota_bytes.
        """
        return copy.deepcopy(self)

    @classmethod
    def get_current(cls) -> DataContext:
        """The settings of this process."""
        with cls._lock:
            if cls._current is None:
                environment.check()
                cls._current = cls()
            return cls._current

    @classmethod
    def _set_current(cls, context):
        with cls._lock:
            before, cls._current = cls._current, context
            return before

    @staticmethod
    @contextlib.contextmanager
    def current(context: DataContext) -> Iterator[None]:
        """`with DataContext.current(context)`: the block runs with `context` as the process's settings."""
        if not isinstance(context, DataContext):
            raise _core.TypeMismatchError(
                f"DataContext.current: expected a DataContext, found {type(context).__name__}"
            )
        before = DataContext._set_current(context)
        try:
            yield
        finally:
            DataContext._set_current(before)

    def get_config(self, key: str, default: Any = None) -> Any:
        """The value that set_config() gave to the key, or the default."""
        return self._kv_configs.get(key, default)

    def set_config(self, key: str, value: Any) -> None:
        """Stores a value under a key that the user chooses."""
        self._kv_configs[key] = value

    def remove_config(self, key: str) -> None:
        """Removes the key and its value."""
        self._kv_configs.pop(key, None)

    def set_dataset_logger_id(self, dataset_id: str | None) -> None:
        """No effect beyond the setting of that name."""
        self.dataset_logger_id = dataset_id

    @property
    def num_threads(self) -> int:
        return _core.num_threads()

    @num_threads.setter
    def num_threads(self, n: int | None) -> int:
        if n is not None and not is_whole(n):
            raise _core.TypeMismatchError(
                f"DataContext.num_threads: expected int or None, found {type(n).__name__} {n!r}"
            )
        _count_change()
        _core.set_num_threads(0 if n is None else int(n))

    @property
    def memory_limit_bytes(self) -> int:
        return _core.memory_limit()

    @memory_limit_bytes.setter
    def memory_limit_bytes(self, n: int | None) -> int:
        _count_change()
        _core.set_memory_limit(0 if n is None else bytes_of("memory_limit_bytes", n, 1, whole=True))

    @property
    def spill_dir(self) -> str:
        return _core.spill_dir()

    @spill_dir.setter
    def spill_dir(self, folder: Any) -> str:
        if folder is not None and not isinstance(folder, (str, os.PathLike)):
            raise _core.TypeMismatchError(
                f"DataContext.spill_dir: expected a path or None, found {type(folder).__name__} {folder!r}"
            )
        _count_change()
        _core.set_spill_dir(folder)

    @property
    def spill_quota_bytes(self) -> int:
        n = _core.spill_quota()
        return None if n < 0 else n

    @spill_quota_bytes.setter
    def spill_quota_bytes(self, n: int | None) -> int:
        _count_change()
        _core.set_spill_quota(-1 if n is None else bytes_of("spill_quota_bytes", n, 0, whole=True))

    @property
    def shuffle_strategy(self) -> ShuffleStrategy:
        return self._shuffle_strategy

    @shuffle_strategy.setter
    def shuffle_strategy(self, value: Any) -> ShuffleStrategy:
        try:
            self._shuffle_strategy = ShuffleStrategy(value)
        except ValueError:
            known = ", ".join(repr(s.value) for s in ShuffleStrategy)
            raise _core.InvalidArgument(
                f"DataContext.shuffle_strategy: expected one of {known}, found {value!r}"
            ) from None

    @property
    def checkpoint_config(self) -> Any:
        """None, or a CheckpointConfig (headrace.data.checkpoint) or a dict of its arguments: writers of files
        then go on where an earlier job of the same rows ended.
        """
        return vars(self).get("_checkpoint_config")

    @checkpoint_config.setter
    def checkpoint_config(self, value: Any) -> Any:
        from headrace.data.checkpoint.interfaces import CheckpointConfig

        if isinstance(value, dict):
            value = CheckpointConfig(**value)
        if value is not None and not isinstance(value, CheckpointConfig):
            raise _core.TypeMismatchError(
                f"DataContext.checkpoint_config: expected a CheckpointConfig, found {type(value).__name__}"
            )
        self._checkpoint_config = value

    @property
    def enable_ray_data_reconstruction(self) -> bool:
        return False

    @property
    def execution_callback_classes(self) -> list[Any]:
        return list(self.custom_execution_callback_classes)

    def _first_threads(self, trainers: int) -> int:
        """Where the number of threads begins, if it moves; 0: at the default."""
        cpus = _core.num_threads()
        left = min(trainers * self.reserved_cores_per_trainer, cpus // 2)
        if self.first_threads or not self.autotune or cpus < LEAST_CPUS or not left:
            return self.first_threads or 0
        return 0 if self.execution_options.exclude_resources.cpu else cpus - left

    def run_options(self, trainers: int = 0) -> dict[str, Any]:
        """These settings as keyword arguments of a Feed or Split. trainers: processes of this machine whose
        steps the run feeds.
        """
        options = self.execution_options
        limits, less = options.resource_limits, options.exclude_resources
        out = {"seed": self.seed, "any_order": not options.preserve_order, "trace_path": self.trace_path}
        out |= {"autotune": self.autotune, "first_threads": self._first_threads(trainers)}
        out["most_prefetch"] = max(1, min(self.most_prefetch_batches, 1 << 20))
        if limits.cpu != INF:
            out["num_threads"] = max(1, int(limits.cpu - less.cpu))
        else:
            out["reserved_cpus"] = math.ceil(min(less.cpu, _core.num_threads()))
        fixed = limits.cpu != INF or _core.threads_are_fixed() or os.environ.get("HEADRACE_AUTOTUNE") == "off"
        states.run_settings(out.get("reserved_cpus", 0), self.autotune and not fixed)
        memory = [
            bytes_of("resource_limits", m, 1) for m in (limits.memory, limits.object_store_memory) if m != INF
        ]
        gone = less.memory + less.object_store_memory
        if memory or gone:
            out["memory_limit"] = max(1, int(min(memory or [_core.memory_limit()]) - gone))
        return out


def _forked() -> None:
    """Another thread of the parent may have held the lock."""
    DataContext._lock = threading.RLock()


os.register_at_fork(after_in_child=_forked)


DatasetContext = DataContext  # Ray's older name


_CLUSTER_ONLY = {
    "accelerator_type",
    "fallback_strategy",
    "label_selector",
    "max_calls",
    "memory",
    "num_cpus",
    "num_gpus",
    "parallelism",
    "ray_remote_args",
    "ray_remote_args_fn",
    "resources",
    "runtime_env",
    "scheduling_strategy",
}
_warned = False


def accept_cluster_arguments(where, arguments, others=()):
    """Ignores keyword arguments that have a meaning only on a cluster, with one warning. Other names are a
    TypeError. others: names that the function takes as well, for its hint.
    """
    global _warned
    unknown = sorted(set(arguments) - _CLUSTER_ONLY)
    if unknown:
        from headrace.data import hints

        raise hints.unexpected(where, unknown[0], others)
    given = sorted(name for name, value in arguments.items() if value not in (None, -1))
    if given and not _warned:
        _warned = True
        warnings.warn(
            f"{where}: {', '.join(given)} have no effect on one machine",
            UserWarning,
            stacklevel=3,
        )


def check_seed(where, seed):
    """Raises InvalidArgument with `where` unless seed is None or an unsigned 64-bit integer."""
    if seed is not None and not (is_whole(seed, 0) and seed < 1 << 64):
        raise _core.InvalidArgument(f"{where}: expected None or a number from 0 to 2**64 - 1, found {seed!r}")


PANDAS_ARROW = "pandas[pyarrow]"  # DataFrames with columns of Arrow's types
FORMATS = ("default", "numpy", "pandas", "pyarrow", None)


def check_format(batch_format):
    """The name of the format for blocks.to_format; InvalidArgument if there is no such format."""
    if batch_format == "pandas" and DataContext.get_current().enable_arrow_backed_pandas_conversion:
        return PANDAS_ARROW
    if batch_format not in FORMATS:
        raise _core.InvalidArgument(
            f"batch_format: expected 'numpy', 'pandas', 'pyarrow' or 'default', found {batch_format!r}"
        )
    if batch_format is None:
        return "pyarrow"
    return "numpy" if batch_format == "default" else batch_format


__all__ = [
    "AutoscalingConfig",
    "DataContext",
    "DatasetContext",
    "DeltaConfig",
    "ExecutionOptions",
    "ExecutionResources",
    "IcebergConfig",
    "LanceConfig",
    "ShuffleStrategy",
    "accept_cluster_arguments",
    "check_format",
    "check_seed",
    "is_whole",
]
