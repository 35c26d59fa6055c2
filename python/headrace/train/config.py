"""Configuration of a trainer's run: number of workers, folder of results, division of datasets.

Names, order and defaults of arguments are Ray Train's (v2). An argument that is not supported here raises
NotImplementedError when the user sets it; no argument has silently no effect.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Literal

from headrace import _core, places
from headrace.settings import OnlyKnown, check, hinted
from headrace.train.callback import UserCallback

if TYPE_CHECKING:
    from headrace.data import DataIterator, Dataset, ExecutionOptions

Tail = Literal["drop", "pad", "uneven"]
DEFAULT_STORAGE = "~/headrace_results"


def _refuse(owner: str, **given) -> None:
    for name, value in given.items():
        if value is not None:
            raise NotImplementedError(f"{owner}({name}=...) is not supported; leave it out")


def _expect(what: str, value, kind: type) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"{what}: expected {kind.__name__}, found {type(value).__name__} {value!r}")


def _is_below(name: str) -> bool:
    """Whether the path `name` begins and stays below the folder that it is joined to."""
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts and "\0" not in name


_OLD = "DEPRECATED"  # Ray's default of arguments that it does not have any more


def _refuse_old(owner: str, **given) -> None:
    for name, value in given.items():
        if value != _OLD:
            raise NotImplementedError(
                f"{owner}({name}=...): Ray Train has no effect for it any more; leave it out"
            )


_RESOURCES = ("CPU", "GPU", "memory")  # what a machine is asked for; other names mean machines of a cluster


@hinted
@dataclass
class ScalingConfig(OnlyKnown):
    """How many workers train.

    num_workers: processes, one per rank; 0: the train loop runs in this process (local mode: a debugger
        works, and no process starts). (least, most): as many as the machine has room for at each start of the
        workers, see available_resources(); with room for fewer than the least number fit() waits.
    use_gpu: rank r uses the CUDA device with the number of its local rank; the back end is NCCL instead of
    Gloo.
    resources_per_worker: what one worker needs of "CPU", "GPU" and "memory" (bytes). It counts for (least,
        most) only. None: one GPU with use_gpu, else one CPU.
    elastic_resize_monitor_interval_s: with (least, most), the driver looks so often whether another number of
        workers fits; then they start again, as after a failure that does not count.

    trainer_resources, use_tpu, topology: an error; there are no TPUs, and the driver is this process. The
    other arguments name machines of a cluster and have no effect.
    """

    _names = {
        "use_gpu": "bool",
        "resources_per_worker": "dict|None",
        "placement_strategy": "str",
        "accelerator_type": "str|None",
        "elastic_resize_monitor_interval_s": "float",
    }

    num_workers: int | tuple[int, int] = 1
    use_gpu: bool = False
    resources_per_worker: dict[str, float] | None = None
    placement_strategy: str = "PACK"
    accelerator_type: str | None = None
    label_selector: Any = None
    elastic_resize_monitor_interval_s: float = 60.0
    trainer_resources: dict[str, float] | None = field(default=None, kw_only=True)
    use_tpu: bool = field(default=False, kw_only=True)
    topology: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _refuse(
            "ScalingConfig",
            trainer_resources=self.trainer_resources or None,
            use_tpu=self.use_tpu or None,
            topology=self.topology,
        )
        n = self.num_workers
        both = n if isinstance(n, tuple) else (n, n)
        least = 1 if isinstance(n, tuple) else 0
        whole = len(both) == 2 and all(isinstance(x, int) and not isinstance(x, bool) for x in both)
        if not whole or not least <= both[0] <= both[1]:
            raise ValueError(
                f"ScalingConfig(num_workers={n!r}): expected a number of processes, 0 for local mode, or "
                "(least, most) with 1 <= least <= most"
            )
        for name, amount in (self.resources_per_worker or {}).items():
            check("ScalingConfig.resources_per_worker: a name", name, "str")
            if not check(f"ScalingConfig.resources_per_worker[{name!r}]", amount, "float") >= 0:
                raise ValueError(
                    f"ScalingConfig(resources_per_worker=...): {name!r}: expected at least 0, found {amount}"
                )
        if not self.elastic_resize_monitor_interval_s >= 0:
            raise ValueError(
                f"ScalingConfig(elastic_resize_monitor_interval_s={self.elastic_resize_monitor_interval_s!r})"
                ": expected at least 0"
            )
        unknown = sorted(set(self.needs()) - set(_RESOURCES)) if self.elasticity_enabled else []
        if unknown and type(self).available_resources is ScalingConfig.available_resources:
            raise ValueError(
                f"ScalingConfig(resources_per_worker=...): expected {', '.join(_RESOURCES)}, found "
                f"{unknown}: give a subclass whose available_resources() knows them"
            )

    @property
    def elasticity_enabled(self) -> bool:
        """Whether num_workers is (least, most)."""
        return isinstance(self.num_workers, tuple)

    @property
    def min_workers(self) -> int:
        return self.num_workers[0] if isinstance(self.num_workers, tuple) else self.num_workers

    @property
    def max_workers(self) -> int:
        return self.num_workers[1] if isinstance(self.num_workers, tuple) else self.num_workers

    @property
    def num_cpus_per_worker(self) -> float:
        return self.needs().get("CPU", 0)

    @property
    def num_gpus_per_worker(self) -> float:
        return self.needs().get("GPU", 0)

    @property
    def num_tpus_per_worker(self) -> float:
        return 0

    @property
    def additional_resources_per_worker(self) -> dict[str, float]:
        """What one worker needs beside CPUs and GPUs."""
        return {name: n for name, n in self.needs().items() if name not in ("CPU", "GPU")}

    @property
    def total_resources(self) -> dict[str, float]:
        """What all workers need; with (least, most) the most."""
        return {name: n * self.max_workers for name, n in self.needs().items()}

    def needs(self) -> dict[str, float]:
        """What one worker needs: name -> amount above 0."""
        given = {n: v for n, v in (self.resources_per_worker or {}).items() if v}
        if self.resources_per_worker is None and not self.use_gpu:
            given["CPU"] = 1
        if self.use_gpu:
            given.setdefault("GPU", 1)
        return given

    def available_resources(self) -> dict[str, float]:
        """What the machine has for the workers, by the names of resources_per_worker: the cores that this
        process may use (by its affinity and its control group), its visible GPUs, the memory. Override it
        where something else decides, a scheduler for example. The driver calls it, on any thread.
        """
        from headrace.session import cluster_resources

        return cluster_resources()


@hinted
@dataclass
class FailureConfig(OnlyKnown):
    """max_failures: how often fit() restarts the workers (in local mode the train loop) from the last
    checkpoint after a failure; -1: without limit. Each driver of a run counts from 0. A MismatchError
    (positions that do not fit the datasets) is never repeated: it would come again.

    max_preemption_failures and controller_failure_limit have no effect; the others are an error.
    """

    _names = {"max_failures": "int", "max_preemption_failures": "int", "controller_failure_limit": "int"}

    max_failures: int = 0
    fail_fast: Any = _OLD
    controller_failure_limit: int = -1
    max_preemption_failures: int = -1
    relax_collectives_on_preemption: bool = False
    preemption_grace_s: float = 0.0

    def __post_init__(self) -> None:
        _refuse_old("FailureConfig", fail_fast=self.fail_fast)
        _refuse(
            "FailureConfig",
            relax_collectives_on_preemption=self.relax_collectives_on_preemption or None,
            preemption_grace_s=self.preemption_grace_s or None,
        )
        if self.max_failures < -1:
            raise ValueError(
                f"FailureConfig(max_failures={self.max_failures}): expected at least 0, or -1 for no limit"
            )


@hinted
@dataclass
class CheckpointConfig(OnlyKnown):
    """Which checkpoints the trainer keeps: the best num_to_keep by checkpoint_score_attribute of their
    metrics (without an attribute: the newest).

    It always keeps the newest, because a restart begins there. None keeps all.

    positions_every_n_batches, positions_every_s: for train loops that report no checkpoints. The driver
    stores the positions of the datasets each time every worker has done n more batches of one dataset, or
    each time s seconds have passed (both within some 50 ms). The train loop takes no part in it, and no
    worker waits. A restart goes on after the batches that every worker has done; all workers get those again
    that only some have done. From the first checkpoint on, the driver stores positions only in checkpoints.
    """

    _names = {
        "num_to_keep": "int|None",
        "checkpoint_score_attribute": "str|None",
        "checkpoint_score_order": "str",
        "positions_every_n_batches": "int|None",
        "positions_every_s": "float|None",
    }

    num_to_keep: int | None = None
    checkpoint_score_attribute: str | None = None
    checkpoint_score_order: Literal["max", "min"] = "max"
    checkpoint_frequency: Any = _OLD
    checkpoint_at_end: Any = _OLD
    positions_every_n_batches: int | None = field(default=None, kw_only=True)
    positions_every_s: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _refuse_old(
            "CheckpointConfig",
            checkpoint_frequency=self.checkpoint_frequency,
            checkpoint_at_end=self.checkpoint_at_end,
        )
        if self.positions_every_n_batches is not None and self.positions_every_n_batches < 1:
            raise ValueError(
                f"CheckpointConfig(positions_every_n_batches={self.positions_every_n_batches}): expected at "
                "least 1, or None for none"
            )
        if self.positions_every_s is not None and not self.positions_every_s > 0:
            raise ValueError(
                f"CheckpointConfig(positions_every_s={self.positions_every_s}): expected more than 0, or "
                "None for none"
            )
        if self.num_to_keep is not None and self.num_to_keep < 1:
            raise ValueError(
                f"CheckpointConfig(num_to_keep={self.num_to_keep}): expected at least 1, or None for all"
            )
        if self.checkpoint_score_order not in ("max", "min"):
            raise ValueError(
                f"CheckpointConfig(checkpoint_score_order={self.checkpoint_score_order!r}): expected "
                "'max' or 'min'"
            )


@hinted
@dataclass
class LoggingConfig(OnlyKnown):
    """log_level: a name of Python's logging levels, of the logger headrace.train in the driver during fit().

    "INFO": the driver prints from which checkpoint a run goes on or restarts, and how many workers fit; the
    program's own settings decide about the logger. "DEBUG": standard error has the logger's lines, too
    (workers start and end, checkpoints are stored), if the program has not configured logging. Above "INFO"
    there are neither lines.
    """

    _names = {"log_level": "str"}

    log_level: str = "INFO"

    def __post_init__(self) -> None:
        levels = logging.getLevelNamesMapping()
        if not isinstance(self.log_level, str) or self.log_level.upper() not in levels:
            raise ValueError(
                f"LoggingConfig(log_level={self.log_level!r}): expected one of {', '.join(sorted(levels))}"
            )
        self.log_level = self.log_level.upper()

    def shows_progress(self) -> bool:
        return self._level() <= logging.INFO

    def _level(self) -> int:
        return logging.getLevelNamesMapping()[self.log_level]

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The logger has the level within the block."""
        logger, level = logging.getLogger("headrace.train"), self._level()
        if level == logging.INFO:
            yield
            return
        before, handler = logger.level, None
        logger.setLevel(level)
        if level < logging.INFO and not logger.hasHandlers():
            handler = logging.StreamHandler()
            logger.addHandler(handler)
        try:
            yield
        finally:
            logger.setLevel(before)
            if handler is not None:
                logger.removeHandler(handler)


@hinted
@dataclass
class RunConfig(OnlyKnown):
    """name: the run's folder below storage_path (default ~/headrace_results); None: a name with the time and
    a random suffix. A trainer with the name of an earlier run goes on with that run. callbacks: objects of
    UserCallback, whose methods the driver calls.

    storage_path is a local folder or a URL ("s3://bucket/runs"); storage_options: how the URL is reached, as
    of the readers. storage_filesystem: any filesystem of pyarrow or fsspec, whose path storage_path is. No
    file of the run and no pickle has these two.
    """

    _names = {
        "name": "str|None",
        "storage_path": "path|None",
        "callbacks": "list|None",
        "worker_runtime_env": "dict|None",
    }

    name: str | None = None
    storage_path: str | os.PathLike[str] | None = None
    storage_filesystem: Any = None
    failure_config: FailureConfig = field(default_factory=FailureConfig)
    checkpoint_config: CheckpointConfig = field(default_factory=CheckpointConfig)
    callbacks: list[UserCallback] | None = None
    worker_runtime_env: dict[str, Any] | None = None
    logging_config: LoggingConfig | None = None
    sync_config: Any = _OLD
    verbose: Any = _OLD
    stop: Any = _OLD
    progress_reporter: Any = _OLD
    log_to_file: Any = _OLD
    storage_options: dict[str, Any] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _refuse_old(
            "RunConfig",
            sync_config=self.sync_config,
            verbose=self.verbose,
            stop=self.stop,
            progress_reporter=self.progress_reporter,
            log_to_file=self.log_to_file,
        )
        _refuse(
            "RunConfig",
            worker_runtime_env=self.worker_runtime_env or None,
        )
        if self.name is not None and not _is_below(self.name):
            raise ValueError(
                f"RunConfig(name={self.name!r}): expected the name of a folder below storage_path, or None"
            )
        self.logging_config = self.logging_config or LoggingConfig()
        _expect("RunConfig(logging_config)", self.logging_config, LoggingConfig)
        for one in self.callbacks or []:
            _expect("RunConfig(callbacks)", one, UserCallback)
        self.failure_config = self.failure_config or FailureConfig()
        self.checkpoint_config = self.checkpoint_config or CheckpointConfig()
        _expect("RunConfig(failure_config)", self.failure_config, FailureConfig)
        _expect("RunConfig(checkpoint_config)", self.checkpoint_config, CheckpointConfig)
        self.checkpoint_config.__post_init__()
        given = self.storage_path or DEFAULT_STORAGE
        given, self.storage_options = places.in_filesystem(
            "RunConfig", given, self.storage_filesystem, self.storage_options
        )
        path = os.fspath(given)
        if places.is_url(path) and not path.startswith("file://") and not _core.url_is_writable(path):
            raise NotImplementedError(
                f"RunConfig(storage_path=...): runs are stored in local folders and stores, found "
                f"{path.partition('://')[0]}://"
            )
        self.storage_path = str(places.absolute(path))
        self.storage_options = places.checked("RunConfig", self.storage_options)
        if self.storage_options and not places.is_url(self.storage_path):
            raise ValueError(
                f"RunConfig(storage_options=...): expected a URL as storage_path, found {self.storage_path!r}"
            )

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "storage_filesystem": None}  # it may hold keys


@hinted
class DataConfig(OnlyKnown):
    """Divides the datasets of a trainer among its workers. For another division, override configure() in a
    subclass.

    datasets_to_split: "all", or names: every worker gets an equal share of the rows of these datasets, and
        all rows of the others.
    tail: what becomes of the last rows of an epoch, which do not divide among the workers: "drop" (they go to
        no worker; Ray's way), "pad" (all workers get equally many, so up to num_workers - 1 rows come twice;
        a column __pad__ of bools marks these) or "uneven" (each row once; some workers get fewer batches). A
        dict of name -> one of these for some of the datasets. Result.datasets counts the rows.
    replicas: each so many workers behind one another get the same rows of the split datasets (a tensor- or
        pipeline-parallel group); it divides the number of workers.
    execution_options: one ExecutionOptions for all datasets, or a dict of name -> ExecutionOptions.
    enable_shard_locality: no effect on one machine.
    """

    def __init__(
        self,
        datasets_to_split: Literal["all"] | list[str] = "all",
        execution_options: ExecutionOptions | dict[str, ExecutionOptions] | None = None,
        enable_shard_locality: bool = True,
        *,
        tail: Tail | dict[str, Tail] = "drop",
        replicas: int = 1,
    ):
        if datasets_to_split != "all" and not isinstance(datasets_to_split, (list, tuple, set)):
            raise TypeError(
                f"DataConfig(datasets_to_split={datasets_to_split!r}): expected 'all' or a list of names "
                "of datasets"
            )
        from headrace.data import ExecutionOptions

        check("DataConfig: enable_shard_locality", enable_shard_locality, "flag")
        options = execution_options or {}
        for given in options.values() if isinstance(options, dict) else [options]:
            _expect("DataConfig(execution_options)", given, ExecutionOptions)
        for policy in tail.values() if isinstance(tail, dict) else [tail]:
            if policy not in ("drop", "pad", "uneven"):
                raise ValueError(
                    f"DataConfig(tail=...): expected 'drop', 'pad' or 'uneven', found {policy!r}"
                )
        if not isinstance(replicas, int) or isinstance(replicas, bool) or replicas < 1:
            raise ValueError(f"DataConfig(replicas={replicas!r}): expected a number of workers, at least 1")
        self._tail = tail
        self._replicas = replicas
        self._datasets_to_split = datasets_to_split
        self._execution_options = execution_options
        self._enable_shard_locality = enable_shard_locality

    def configure(
        self,
        datasets: dict[str, Dataset],
        world_size: int,
        worker_handles: list[Any] | None,
        worker_node_ids: list[str] | None,
        **kwargs: Any,
    ) -> list[dict[str, DataIterator]]:
        """For each worker, in order of rank, name -> DataIterator. The driver calls it before the workers
        start.

        A dataset that is not split runs once per worker, in the driver; these runs share function workers,
        threads and budget with all others.
        """
        if self._datasets_to_split == "all":
            split = set(datasets)
        else:
            split = set(self._datasets_to_split)
            if missing := split - set(datasets):
                raise ValueError(
                    f"DataConfig(datasets_to_split=...): no dataset {sorted(missing)}; "
                    f"the datasets are {sorted(datasets)}"
                )
        if isinstance(self._tail, dict) and (missing := set(self._tail) - split):
            raise ValueError(
                f"DataConfig(tail=...): {sorted(missing)} are not split; those that are: {sorted(split)}"
            )
        hints = worker_node_ids if self._enable_shard_locality else None
        out: list[dict[str, DataIterator]] = [{} for _ in range(world_size)]
        for name, ds in datasets.items():
            with self._options(name):
                if name in split:
                    tail = self._tail.get(name, "drop") if isinstance(self._tail, dict) else self._tail
                    shards = ds.streaming_split(
                        world_size, locality_hints=hints, tail=tail, replicas=self._replicas
                    )
                else:
                    shards = [ds.streaming_split(1, equal=True)[0] for _ in range(world_size)]
            for rank, shard in enumerate(shards):
                out[rank][name] = shard
        return out

    @contextmanager
    def _options(self, name: str):
        """In this block the process's options are those of this dataset: a new split copies them."""
        from headrace.data import DataContext

        options = self._execution_options
        if isinstance(options, dict):
            options = options.get(name)
        current = DataContext.get_current()
        kept = current.execution_options
        current.execution_options = options or kept
        try:
            yield
        finally:
            current.execution_options = kept

    @staticmethod
    def default_ingest_options() -> ExecutionOptions:
        """A copy of DataContext's current options, to change and to pass to DataConfig."""
        from headrace.data import DataContext

        return DataContext.get_current().execution_options.copy()
