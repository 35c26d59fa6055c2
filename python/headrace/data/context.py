"""DataContext: settings of this process, read when a run begins."""

import os
import threading
import warnings
from numbers import Integral, Real

from headrace import _core


class _Settings:
    """Named values with an equality, a repr and a copy."""

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in vars(self).items())})"

    def __eq__(self, other):
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__ = None

    def copy(self):
        """A copy that can be changed on its own."""
        made = type(self).__new__(type(self))
        for name, value in vars(self).items():
            setattr(made, name, value.copy() if isinstance(value, _Settings) else value)
        return made


class ExecutionResources(_Settings):
    """What runs may use. cpu: pool threads; memory, object_store_memory: bytes for data (the smaller
    counts). gpu: accepted.
    """

    def __init__(self, cpu=None, gpu=None, object_store_memory=None, memory=None):
        self.cpu = cpu
        self.gpu = gpu
        self.object_store_memory = object_store_memory
        self.memory = memory


class ExecutionOptions(_Settings):
    """How runs are carried out.

    preserve_order: rows come in the order of the source, whatever runs at the same time. True unless set
        otherwise; False lets tables come as they are ready, which no longer can be repeated or resumed
        exactly.
    resource_limits, exclude_resources: ExecutionResources. Other arguments are accepted.
    """

    def __init__(
        self,
        resource_limits=None,
        exclude_resources=None,
        locality_with_output=False,
        preserve_order=True,
        actor_locality_enabled=True,
        verbose_progress=False,
    ):
        self.preserve_order = preserve_order
        self.resource_limits = resource_limits or ExecutionResources()
        self.exclude_resources = exclude_resources or ExecutionResources()
        self.locality_with_output = locality_with_output
        self.actor_locality_enabled = actor_locality_enabled
        self.verbose_progress = verbose_progress


class DataContext:
    """Settings of this process: DataContext.get_current() is the one object of it.

    execution_options: ExecutionOptions.
    seed: what random functions' seeds are made of, with epoch and position; 0 unless set.
    num_threads: pool threads of the engine; None for the default (HEADRACE_NUM_THREADS, or the CPUs there
    are).
    memory_limit_bytes: bytes for data; None for the default (HEADRACE_MEMORY_LIMIT, or half of the memory
    there is).
    spill_dir: the folder for data that does not fit into that; None for the default (HEADRACE_SPILL_DIR,
    TMPDIR or /tmp). A folder in which no file can be made is an error when it is set.
    spill_quota_bytes: how many bytes may lie there at once; None for the default (HEADRACE_SPILL_QUOTA, or
    all but a fiftieth of the disk). Numbers of bytes may be texts, as "2GB" or "256MiB".
    max_errored_blocks: so many batches of a function may fail in a run (its exception, or the end of its
    worker) and are left out; each function added from then on may leave out so many; negative: any number.
    They are counted in stats() and logged once. A generator's tables that came before stay.
    retried_map_errors: whether a function that raised is called again for the same batch: True, or a list of
    patterns of which one has to be found in the text of the exception. max_map_retries: how often, with
    pauses in between. raise_original_map_exception, log_internal_stack_trace: accepted; exceptions of
    functions always come with their own type.
    enable_fallback_to_arrow_object_ext_type: a column of Python objects that have no column type, or not one
    for all of them, is kept as a pickle of each; False makes it an error. For functions as it is when they
    are added.
    enable_progress_bars: on a terminal, one line while a call such as materialize() or count() works for more
    than a second; False shows nothing. The other bars of Ray are accepted, there are none.
    """

    _current = None
    _lock = threading.Lock()

    def __init__(self):
        self.execution_options = ExecutionOptions()
        self.seed = 0
        self.enable_progress_bars = True
        self.enable_operator_progress_bars = False
        self.enable_rich_progress_bars = False
        self.print_on_execution_start = False
        self.enable_auto_log_stats = False
        self.verbose_stats_logs = False
        self.trace_path = None
        self.max_errored_blocks = 0
        self.retried_map_errors = False
        self.max_map_retries = 0
        self.raise_original_map_exception = False
        self.log_internal_stack_trace = False
        self.enable_fallback_to_arrow_object_ext_type = None

    @classmethod
    def get_current(cls):
        """The settings of this process."""
        with cls._lock:
            if cls._current is None:
                _warn_of_environment()
                cls._current = cls()
            return cls._current

    @property
    def num_threads(self):
        return _core.num_threads()

    @num_threads.setter
    def num_threads(self, n):
        _core.set_num_threads(0 if n is None else n)

    @property
    def memory_limit_bytes(self):
        return _core.memory_limit()

    @memory_limit_bytes.setter
    def memory_limit_bytes(self, n):
        _core.set_memory_limit(0 if n is None else _bytes("memory_limit_bytes", n, 1))

    @property
    def spill_dir(self):
        return _core.spill_dir()

    @spill_dir.setter
    def spill_dir(self, folder):
        _core.set_spill_dir(folder)

    @property
    def spill_quota_bytes(self):
        n = _core.spill_quota()
        return None if n < 0 else n

    @spill_quota_bytes.setter
    def spill_quota_bytes(self, n):
        _core.set_spill_quota(-1 if n is None else _bytes("spill_quota_bytes", n, 0))

    def run_options(self):
        """Keyword arguments of a Feed or Split that these settings stand for."""
        options = self.execution_options
        limits, less = options.resource_limits, options.exclude_resources
        out = {"seed": self.seed, "any_order": not options.preserve_order, "trace_path": self.trace_path}
        cpu = limits.cpu
        if cpu is None and less.cpu:
            cpu = _core.num_threads()
        if cpu is not None and cpu != float("inf"):
            out["num_threads"] = max(1, int(cpu - (less.cpu or 0)))
        memory = [
            _bytes("resource_limits", m, 1)
            for m in (limits.memory, limits.object_store_memory)
            if m is not None and m != float("inf")
        ]
        gone = (less.memory or 0) + (less.object_store_memory or 0)
        if memory or gone:
            out["memory_limit"] = max(1, int(min(memory or [_core.memory_limit()]) - gone))
        return out


def _bytes(name, n, least):
    """A number of bytes, from a number or a text."""
    if isinstance(n, str):
        try:
            n = _core.parse_bytes(n)
        except _core.InvalidArgument as e:
            raise _core.InvalidArgument(f"{name}: {e}") from None
    if isinstance(n, bool) or not isinstance(n, Real) or not least <= n < 1 << 63:
        raise _core.InvalidArgument(
            f"{name}: {n!r}, expected a number of bytes of at least {least}, as 268435456 or '256MiB'"
        )
    return int(n)


def _warn_of_environment():
    """The engine falls back to its defaults where it cannot understand a variable; whoever set it wants to
    know.
    """
    threads = os.environ.get("HEADRACE_NUM_THREADS", "")
    wrong = []
    default = "the default is used"
    for name, then in (("MEMORY_LIMIT", default), ("SPILL_QUOTA", "nothing can be spilled")):
        name = f"HEADRACE_{name}"
        try:
            _core.parse_bytes(os.environ.get(name) or "0")
        except _core.InvalidArgument as e:
            wrong.append(f"{name}: {e}; {then}")
    if threads and not (threads.isascii() and threads.isdigit() and 1 <= int(threads) <= 1024):
        wrong.append(f"HEADRACE_NUM_THREADS: {threads!r} is not a number from 1 to 1024; {default}")
    for text in wrong:
        warnings.warn(text, RuntimeWarning, stacklevel=4)


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


def accept_cluster_arguments(where, arguments):
    """Keyword arguments that mean something on a cluster only: ignored, with one warning. Others are a
    TypeError.
    """
    global _warned
    unknown = sorted(set(arguments) - _CLUSTER_ONLY)
    if unknown:
        raise TypeError(f"{where}() got an unexpected keyword argument '{unknown[0]}'")
    given = sorted(name for name, value in arguments.items() if value not in (None, -1))
    if given and not _warned:
        _warned = True
        warnings.warn(
            f"{where}: {', '.join(given)} mean nothing on one machine and are ignored",
            UserWarning,
            stacklevel=3,
        )


def is_whole(value, least=None):
    """Whether it is an integer, Python's or NumPy's, but no bool, and not below `least`."""
    return isinstance(value, Integral) and not isinstance(value, bool) and (least is None or value >= least)


def check_seed(where, seed):
    """InvalidArgument, naming the argument `where`, unless it is None or a number that 64 bits hold."""
    if seed is not None and not (is_whole(seed, 0) and seed < 1 << 64):
        raise _core.InvalidArgument(f"{where} {seed!r}: expected a number from 0 to 2**64 - 1, or None")


FORMATS = ("default", "numpy", "pandas", "pyarrow", None)


def check_format(batch_format):
    """The format's own name, or InvalidArgument."""
    if batch_format not in FORMATS:
        raise _core.InvalidArgument(
            f"batch_format {batch_format!r}: expected 'numpy', 'pandas', 'pyarrow' or 'default'"
        )
    if batch_format is None:
        return "pyarrow"
    return "numpy" if batch_format == "default" else batch_format
