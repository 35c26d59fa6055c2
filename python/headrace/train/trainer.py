"""DataParallelTrainer: splits datasets, starts workers, restarts them after failures, returns the result."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable
from typing import Any

import cloudpickle

from headrace.data import launchers
from headrace.train import context
from headrace.train.config import DataConfig, RunConfig, ScalingConfig
from headrace.train.control import Control, LocalChannel
from headrace.train.launch import run_workers
from headrace.train.progress import training_line
from headrace.train.result import Result, TrainingFailedError
from headrace.train.shards import Shards, ShardServer
from headrace.train.storage import RunStorage


def loop_arguments(loop: Callable, config: dict[str, Any] | None) -> dict[str, Any] | None:
    """The argument for the train loop; None: call it without one."""
    parameters = inspect.signature(loop).parameters.values()
    wants = any(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL) for p in parameters)
    if config and not wants:
        raise ValueError("expected no train_loop_config: train_loop_per_worker takes no argument")
    return dict(config or {}) if wants else None


class DataParallelTrainer:
    """Runs one function on several workers. `backend` makes a process group of them by start(session) and
    stop().
    """

    def __init__(
        self,
        train_loop_per_worker: Callable[[], Any] | Callable[[dict], Any],
        *,
        train_loop_config: dict[str, Any] | None = None,
        backend: Any,
        scaling_config: ScalingConfig | None = None,
        run_config: RunConfig | None = None,
        datasets: dict[str, Any] | None = None,
        dataset_config: DataConfig | None = None,
        metadata: dict[str, Any] | None = None,
    ):
        if not callable(train_loop_per_worker):
            raise TypeError(
                f"train_loop_per_worker: expected a function, found {type(train_loop_per_worker).__name__}"
            )
        for name, given, kind in (
            ("dataset_config", dataset_config, DataConfig),
            ("scaling_config", scaling_config, ScalingConfig),
            ("run_config", run_config, RunConfig),
        ):
            if given is not None and not isinstance(given, kind):
                raise TypeError(f"{name}: expected a {kind.__name__}, found {type(given).__name__}")
            if given is not None and kind is not DataConfig:
                given.__post_init__()  # checks again: the user may have changed it
        try:
            json.dumps(metadata or {})
        except TypeError as e:
            raise ValueError(f"metadata: expected a value that JSON can hold: {e}") from None
        self.loop = train_loop_per_worker
        self.loop_config = loop_arguments(train_loop_per_worker, train_loop_config)
        self.backend = backend
        self.scaling_config = scaling_config or ScalingConfig()
        self.run_config = run_config or RunConfig()
        self.datasets = dict(datasets or {})
        self.dataset_config = dataset_config or DataConfig()
        self.metadata = dict(metadata or {})

    def fit(self) -> Result:
        """Trains until the train loop has ended on all workers. No worker is left when it returns or raises.

        Raises TrainingFailedError with the traceback of the worker that failed, once FailureConfig allows no
        more restarts.
        """
        storage = RunStorage(self.run_config, self.metadata)
        try:
            return self._fit_here(storage) if self.scaling_config.num_workers == 0 else self._fit(storage)
        finally:
            storage.close()

    def _fit(self, storage: RunStorage) -> Result:
        failures_left = self.run_config.failure_config.max_failures
        while True:
            try:
                return self._fit_once(storage)
            except TrainingFailedError as e:
                if failures_left == 0:
                    raise
                failures_left -= 1
                where = storage.latest.path if storage.latest else "the beginning"
                print(f"{e}\n\nrestarting the workers from {where}", file=sys.stderr)

    def _shards(self, world_size: int) -> Shards:
        with launchers.ignored():
            shards = self.dataset_config.configure(
                self.datasets, world_size, worker_handles=None, worker_node_ids=None
            )
        if len(shards) != world_size:
            raise ValueError(
                f"DataConfig.configure(): expected shards for {world_size} workers, found {len(shards)}"
            )
        return shards

    def _storage_names(self, storage: RunStorage) -> tuple[str, str]:
        return str(storage.path.parent), storage.name

    def _fit_once(self, storage: RunStorage) -> Result:
        n = self.scaling_config.num_workers
        storage.begin()
        shards = ShardServer(self._shards(n))
        control = None
        try:
            shards.restore(storage.state)
            control = Control(storage, n, shards)
            payload = {
                "loop": cloudpickle.dumps((self.loop, self.loop_config)),
                "backend": cloudpickle.dumps(self.backend),
                "shards": shards.serve(),
                "storage": self._storage_names(storage),
                "metadata": self.metadata,
                "use_gpu": self.scaling_config.use_gpu,
            }
            with training_line(shards.splits, n):
                run_workers(payload, control, n)
            return storage.result(control.return_values.get(0))
        finally:
            shards.close()
            if control:
                control.close()

    def _fit_here(self, storage: RunStorage) -> Result:
        """Local mode: one rank, in this process and thread. Exceptions of the train loop reach the caller."""
        shards = ShardServer(self._shards(1))
        session = context.Session(
            channel=LocalChannel(storage, shards),
            world_size=1,
            world_rank=0,
            local_rank=0,
            local_world_size=1,
            storage=context.StorageContext(*self._storage_names(storage)),
            metadata=self.metadata,
            use_gpu=self.scaling_config.use_gpu,
            shards=shards.shards[0],
        )
        context.set_session(session)
        try:
            value = self.loop() if self.loop_config is None else self.loop(self.loop_config)
        finally:
            context.set_session(None)
            shards.close()
        return storage.result(value)
