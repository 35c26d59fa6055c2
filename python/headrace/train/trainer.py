"""DataParallelTrainer: splits datasets, starts workers, restarts them after failures, returns the
result. It also continues the run of an earlier driver.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from headrace import absent, events, places
from headrace.data import launchers
from headrace.settings import unexpected
from headrace.train import context, restore
from headrace.train.backend import BackendConfig
from headrace.train.callback import Callbacks, TrainRunContext
from headrace.train.checkpoint import Checkpoint
from headrace.train.config import DataConfig, RunConfig, ScalingConfig
from headrace.train.control import Control, LocalChannel
from headrace.train.failures import Failures
from headrace.train.launch import run_workers
from headrace.train.positions import PositionKeeper
from headrace.train.progress import training_progress
from headrace.train.result import Result, TrainingFailedError
from headrace.train.shards import Shards, ShardServer
from headrace.train.sizes import Sizes
from headrace.train.storage import RunStorage
from headrace.train.validation import Validations
from headrace.train.validation_config import ValidationConfig
from headrace.udf import sending


def loop_arguments(loop: Callable, config: dict[str, Any] | None) -> dict[str, Any] | None:
    """The argument for the train loop; None: call it without one."""
    parameters = inspect.signature(loop).parameters.values()
    wants = any(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL) for p in parameters)
    if config and not wants:
        raise ValueError("expected no train_loop_config: train_loop_per_worker takes no argument")
    given = dict(config or {}) if wants else None
    try:
        inspect.signature(loop).bind(*([] if given is None else [given]))
    except TypeError as e:
        raise ValueError(f"train_loop_per_worker: expected a function of no or one argument: {e}") from None
    return given


def _named(init: Callable, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Name -> argument of a call of `init`."""
    unexpected(init.__qualname__.removesuffix(".__init__"), init, kwargs)
    names = [n for n, p in inspect.signature(init).parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
    return {**dict(zip(names[1:], args, strict=False)), **kwargs}


def expect(name: str, given: Any, kind: type) -> None:
    """Raises TypeError unless the argument is None or of this type."""
    if given is not None and not isinstance(given, kind):
        article = "an" if kind.__name__[0] in "AEIOX" else "a"
        raise TypeError(f"{name}: expected {article} {kind.__name__}, found {type(given).__name__}")


class DataParallelTrainer:
    """Runs one function on several workers.

    backend_config: its start(session) and stop() make a process group of the workers; None: there is none.
    The other arguments are those of TorchTrainer.
    """

    loop: Callable[..., Any]
    loop_config: dict[str, Any] | None
    backend: BackendConfig
    scaling_config: ScalingConfig
    run_config: RunConfig
    datasets: dict[str, Any]
    dataset_config: DataConfig
    metadata: dict[str, Any]
    validation_config: ValidationConfig | None
    starting_checkpoint: Checkpoint | None

    _config: tuple[str, type[BackendConfig]] = ("backend_config", BackendConfig)  # the argument, and its type

    def __init__(
        self,
        train_loop_per_worker: Callable[[], Any] | Callable[[dict[str, Any]], Any],
        *,
        train_loop_config: dict[str, Any] | None = None,
        backend_config: BackendConfig | None = None,
        scaling_config: ScalingConfig | None = None,
        run_config: RunConfig | None = None,
        datasets: dict[str, Any] | None = None,
        dataset_config: DataConfig | None = None,
        resume_from_checkpoint: Checkpoint | None = None,
        metadata: dict[str, Any] | None = None,
        validation_config: ValidationConfig | None = None,
    ) -> None:
        if not callable(train_loop_per_worker):
            raise TypeError(
                f"train_loop_per_worker: expected a function, found {type(train_loop_per_worker).__name__}"
            )
        name, kind = self._config
        expect(name, backend_config, kind)
        expect("train_loop_config", train_loop_config, dict)
        if hasattr(datasets, "streaming_split"):
            raise TypeError('datasets: expected a dict, found a Dataset: write {"train": dataset}')
        expect("datasets", datasets, dict)
        for name in datasets or ():
            if not isinstance(name, str):
                raise TypeError(f"datasets: expected names, found {type(name).__name__} {name!r}")
        expect("dataset_config", dataset_config, DataConfig)
        expect("scaling_config", scaling_config, ScalingConfig)
        expect("run_config", run_config, RunConfig)
        expect("validation_config", validation_config, ValidationConfig)
        expect("resume_from_checkpoint", resume_from_checkpoint, Checkpoint)
        for given in (scaling_config, run_config):
            if given is not None:
                given.__post_init__()  # checks again: the user may have changed it
        expect("metadata", metadata, dict)
        try:
            json.dumps(metadata or {})
        except TypeError as e:
            raise ValueError(f"metadata: expected a value that JSON can hold: {e}") from None
        self.loop = train_loop_per_worker
        self.loop_config = loop_arguments(train_loop_per_worker, train_loop_config)
        self.backend = backend_config or kind()
        self.scaling_config = scaling_config or ScalingConfig()
        self.run_config = run_config or RunConfig()
        self.datasets = dict(datasets or {})
        self.dataset_config = dataset_config or DataConfig()
        self.metadata = dict(metadata or {})
        self.validation_config = validation_config
        if type(self.dataset_config).configure is DataConfig.configure:
            for name, value in self.datasets.items():
                if not hasattr(value, "streaming_split"):
                    raise TypeError(f"datasets[{name!r}]: expected a Dataset, found {type(value).__name__}")
        self.starting_checkpoint = resume_from_checkpoint

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        trainer = super().__new__(cls)
        trainer._arguments = _named(cls.__init__, args, kwargs)  # for restore()
        trainer._restored = False
        return trainer

    @classmethod
    def can_restore(
        cls,
        path: str | os.PathLike[str],
        storage_filesystem: Any = None,
        *,
        storage_options: dict[str, Any] | None = None,
    ) -> bool:
        """Whether `path` is the folder of a run (Result.path) that restore() can go on with.
        storage_filesystem, storage_options: as of RunConfig.
        """
        path, storage_options = places.in_filesystem("can_restore", path, storage_filesystem, storage_options)
        return restore.is_there(path, places.checked("can_restore", storage_options))

    @classmethod
    def restore(
        cls,
        path: str | os.PathLike[str],
        train_loop_per_worker: Callable[[], Any] | Callable[[dict[str, Any]], Any] | None = None,
        train_loop_config: dict[str, Any] | None = None,
        storage_filesystem: Any = None,
        datasets: dict[str, Any] | None = None,
        scaling_config: ScalingConfig | None = None,
        *,
        storage_options: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Self:
        """The trainer of the run in the folder `path`, whose fit() goes on from the newest checkpoint. For a
        run that has ended without an error fit() returns its result and starts nothing.

        `datasets` must be those of the run. The other arguments come from the run unless the caller gives
        them; `path` may differ from the folder in which the run began. storage_options: how a URL is reached,
        also while the run goes on; the run does not store them. The folder must come from a trusted
        place: restore() unpickles its trainer.pkl, which can run any code.

        Raises ValueError if `path` is no folder of a run, or datasets or an argument are missing.
        """
        path, storage_options = places.in_filesystem("restore", path, storage_filesystem, storage_options)
        options = places.checked("restore", storage_options)
        made_by, names, packed = restore.load(path, options)
        if made_by != f"{cls.__module__}.{cls.__qualname__}":
            warnings.warn(f"restore: {os.fspath(path)} is a run of {made_by}", stacklevel=2)
        if set(names) != set(datasets or {}):
            raise ValueError(
                f"restore: expected the run's datasets {sorted(names)}, found {sorted(datasets or {})}: give "
                "restore(datasets=...) what the run had"
            )
        given = {
            "train_loop_per_worker": train_loop_per_worker,
            "train_loop_config": train_loop_config,
            "scaling_config": scaling_config,
            **kwargs,
        }
        given = {name: value for name, value in given.items() if value is not None}
        rest = {n: restore.unpacked(path, n, data) for n, data in packed.items() if n not in given}
        arguments = {**rest, **given, "datasets": datasets or {}}
        folder = places.absolute(path, options)
        arguments["run_config"] = dataclasses.replace(
            arguments.get("run_config") or RunConfig(),
            name=folder.name,
            storage_path=str(folder.parent),
            storage_options=options,
        )
        trainer = cls(**arguments)
        trainer._restored = True
        return trainer

    def fit(self) -> Result:
        """Trains until the train loop has ended on all workers. All workers have ended when it returns or
        raises.

        If a driver with the same RunConfig(name, storage_path) was interrupted, or a run of that name has
        ended, the run goes on: get_checkpoint() is the newest checkpoint, the datasets are at its positions,
        and fit() drops the reports after it.

        Raises WorkerGroupError, a TrainingFailedError, with the traceback of the worker that failed, once
        FailureConfig allows no more restarts (in local mode the exception itself); MismatchError if the
        positions do not fit the datasets; RuntimeError if another driver is writing the run.
        """
        if self.starting_checkpoint is not None and not self.starting_checkpoint._folder.is_dir():
            raise FileNotFoundError(
                f"resume_from_checkpoint: {self.starting_checkpoint.path}: the folder does not exist"
            )
        storage = RunStorage(self.run_config, self.metadata, self.starting_checkpoint)
        try:
            if self._restored and storage.finished:
                return storage.result(None)
            arguments = {n: v for n, v in self._arguments.items() if n != "datasets"}
            restore.save(storage.path, type(self), arguments, sorted(self.datasets))
            with self.run_config.logging_config.applied():
                return self._fit(storage)
        finally:
            storage.close()

    def _fit(self, storage: RunStorage) -> Result:
        failures = Failures(self.run_config, storage)
        begun = storage.latest_place()
        if begun is not None and self.run_config.logging_config.shows_progress():
            print(f"run {storage.name!r} goes on from {begun}", file=sys.stderr)
        run = TrainRunContext(self.run_config, self.loop_config, self.scaling_config, str(storage.path))
        callbacks = Callbacks(self.run_config.callbacks or [], run)
        validations = Validations(storage, self.validation_config)
        if self.scaling_config.num_workers == 0:
            validations.run_here()
            return self._fit_here(storage, failures, callbacks, validations)
        validations.begin()
        sizes = Sizes(self.scaling_config, self.run_config.logging_config.shows_progress())
        try:
            while True:
                try:
                    return self._fit_once(storage, callbacks, validations, sizes)
                except TrainingFailedError as e:
                    if sizes.resized is not None:
                        continue
                    callbacks.after_exception(e.worker_failures)
                    if not failures.allow(e, str(e), "the workers"):
                        raise
        finally:
            validations.close()

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

    @contextmanager
    def _shards_at(self, storage: RunStorage, world_size: int, callbacks: Callbacks) -> Iterator[ShardServer]:
        """The shards of all workers, at the positions from which the run goes on."""
        state = storage.begin()
        callbacks.before_start(storage.history)
        shards = ShardServer(self._shards(world_size))
        try:
            shards.restore(state)
            yield shards
        finally:
            shards.close()

    def _keeper(self, storage: RunStorage, shards: ShardServer) -> PositionKeeper:
        return PositionKeeper(storage, shards, self.run_config.checkpoint_config)

    def _storage_names(self, storage: RunStorage) -> tuple[str, str]:
        """StorageContext's arguments without the options, which no file gets."""
        return str(storage.path.parent), storage.name

    def _fit_once(
        self, storage: RunStorage, callbacks: Callbacks, validations: Validations, sizes: Sizes
    ) -> Result:
        n = sizes.choose()
        events.tell(events.TRAIN, "run %s: %d workers start", storage.name, n)
        with self._shards_at(storage, n, callbacks) as shards:
            control = Control(storage, n, shards, callbacks)
            try:
                payload = {
                    "loop": sending.dumps((self.loop, self.loop_config)),
                    "backend": sending.dumps(self.backend),
                    "shards": shards.serve(),
                    "storage": self._storage_names(storage),
                    "metadata": self.metadata,
                    "use_gpu": self.scaling_config.use_gpu,
                    "validates": self.validation_config is not None,
                }
                watched = sizes.watched(n, control.end_workers)
                with (
                    training_progress(shards.splits, n, shards.nodes()),
                    self._keeper(storage, shards),
                    watched,
                ):
                    run_workers(payload, control, n)
                storage.count(shards.counts())
                validations.finish()
                return storage.finish(control.return_values.get(0))
            except TrainingFailedError:
                storage.count(shards.counts())
                raise
            finally:
                control.close()

    def _fit_here(
        self, storage: RunStorage, failures: Failures, callbacks: Callbacks, validations: Validations
    ) -> Result:
        """Local mode: one rank, in this process and thread. Exceptions of the train loop reach the caller."""
        while True:
            with self._shards_at(storage, 1, callbacks) as shards:
                channel = LocalChannel(storage, shards, callbacks, validations)
                session = self._local_session(storage, shards, channel)
                context.set_session(session)
                try:
                    with self._keeper(storage, shards):
                        value = self.loop() if self.loop_config is None else self.loop(self.loop_config)
                        session.finish()
                    storage.count(shards.counts())
                    return storage.finish(value)
                except Exception as e:
                    storage.count(shards.counts())
                    callbacks.after_exception({0: e})
                    if not failures.allow(e, traceback.format_exc(), "the train loop"):
                        raise
                finally:
                    session.abandon()
                    context.set_session(None)

    def _local_session(
        self, storage: RunStorage, shards: ShardServer, channel: LocalChannel
    ) -> context.Session:
        return context.Session(
            channel=channel,
            world_size=1,
            world_rank=0,
            local_rank=0,
            local_world_size=1,
            storage=context.StorageContext(*self._storage_names(storage), storage.options),
            metadata=self.metadata,
            use_gpu=self.scaling_config.use_gpu,
            shards=shards.shards[0],
            checkpoint=storage.resumed,
            validates=self.validation_config is not None,
        )


if not TYPE_CHECKING:
    __getattr__ = absent.hook("headrace.train.trainer", "headrace.train.base_trainer")
