"""LightGBM on several processes, each with its shard of the datasets, under Ray's names.

Tests: tests/python/test_train_frameworks_boosting.py
"""

from __future__ import annotations

import ctypes
import socket
import warnings
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace import absent
from headrace.optional import missing, package
from headrace.settings import OnlyKnown
from headrace.train import context
from headrace.train.backend import BackendConfig
from headrace.train.boosting import Reports, cores_of_a_worker, refuse_legacy
from headrace.train.checkpoint import Checkpoint
from headrace.train.config import DataConfig, RunConfig, ScalingConfig
from headrace.train.trainer import DataParallelTrainer
from headrace.train.validation_config import ValidationConfig

try:
    import lightgbm
except ImportError as e:
    raise missing(e, "headrace.train.lightgbm") from None

_network: dict[str, Any] = {}  # of this worker


def get_network_params() -> dict[str, Any]:
    """num_machines, local_listen_port and machines, for the params of lightgbm.train() in the train loop of a
    LightGBMTrainer. In local mode, and with a warning elsewhere, they are empty.
    """
    if not _network and not context.in_worker():
        warnings.warn("get_network_params() works only in the train loop of a LightGBMTrainer", stacklevel=2)
    return dict(_network)


def _free_ports(n: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(n)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


@dataclass
class LightGBMConfig(OnlyKnown, BackendConfig):
    """It has no settings."""

    _names = {}

    def start(self, session: context.Session) -> None:
        """Tells each worker the addresses of all. Each calls it before the train loop."""
        cores = cores_of_a_worker(session)
        if cores is not None:
            with suppress(OSError):  # another OpenMP: LightGBM takes all cores
                ctypes.CDLL("libgomp.so.1").omp_set_num_threads(cores)
        ports = _free_ports(session.world_size) if session.world_rank == 0 else None
        ports = session.channel.meet("the start of LightGBM", ports)
        _network.update(
            num_machines=session.world_size,
            local_listen_port=ports[session.world_rank],
            machines=",".join(f"127.0.0.1:{port}" for port in ports),
        )

    def stop(self) -> None:
        """LightGBM ends its connections itself."""


class LightGBMTrainer(DataParallelTrainer):
    """Runs a train loop on several processes; `lightgbm.train({**params, **get_network_params()}, ...)` in it
    trains one model on the rows of all. The arguments are those of TorchTrainer; lightgbm_config takes the
    place of torch_config.
    """

    _config = ("lightgbm_config", LightGBMConfig)

    def __init__(
        self,
        train_loop_per_worker: Callable[[], Any] | Callable[[dict[str, Any]], Any],
        *,
        train_loop_config: dict[str, Any] | None = None,
        lightgbm_config: LightGBMConfig | None = None,
        scaling_config: ScalingConfig | None = None,
        run_config: RunConfig | None = None,
        datasets: dict[str, Any] | None = None,
        dataset_config: DataConfig | None = None,
        validation_config: ValidationConfig | None = None,
        metadata: dict[str, Any] | None = None,
        resume_from_checkpoint: Checkpoint | None = None,
        label_column: str | None = None,
        params: dict[str, Any] | None = None,
        num_boost_round: int | None = None,
    ):
        refuse_legacy(
            "LightGBMTrainer", label_column=label_column, params=params, num_boost_round=num_boost_round
        )
        super().__init__(
            train_loop_per_worker,
            train_loop_config=train_loop_config,
            backend_config=lightgbm_config,
            scaling_config=scaling_config,
            run_config=run_config,
            datasets=datasets,
            dataset_config=dataset_config,
            metadata=metadata,
            validation_config=validation_config,
            resume_from_checkpoint=resume_from_checkpoint,
        )

    @classmethod
    def get_model(cls, checkpoint: Checkpoint) -> lightgbm.Booster:
        """The model in a checkpoint of RayTrainReportCallback."""
        return RayTrainReportCallback.get_model(checkpoint)


class RayTrainReportCallback(Reports):
    """For lightgbm.train(callbacks=[...]) in the train loop."""

    __doc__ = f"{__doc__}\n\n    {Reports.__doc__}"
    CHECKPOINT_NAME = "model.txt"

    @classmethod
    def get_model(cls, checkpoint: Checkpoint, filename: str = CHECKPOINT_NAME) -> lightgbm.Booster:
        """The model in a checkpoint of this callback."""
        with checkpoint.as_directory() as folder:
            return lightgbm.Booster(model_file=str(Path(folder, filename)))

    def __call__(self, env: lightgbm.callback.CallbackEnv) -> None:
        """LightGBM calls it after each round, on all workers."""
        found = {}
        for data, name, value, *more in env.evaluation_result_list or []:
            if len(more) > 1:  # of lightgbm.cv()
                found[f"{data}-{name}-mean"], found[f"{data}-{name}-stdv"] = value, more[1]
            else:
                found[f"{data}-{name}"] = value
        at_end = self._checkpoint_at_end and env.iteration == env.end_iteration - 1
        due = at_end or self._is_due(env.iteration + 1)
        self._report(self._chosen(found), env.model if due else None)


def normalize_pandas_for_lightgbm(df: Any) -> Any:
    """A DataFrame whose columns of Arrow's numbers and bools have pandas' nullable types, which LightGBM
    takes. Other columns are those of `df`.
    """
    pandas = package("pandas", "normalize_pandas_for_lightgbm")
    types = {}
    for name, dtype in df.dtypes.items():
        if isinstance(dtype, pandas.ArrowDtype) and dtype.kind in "iufb":
            kind = {"i": "Int", "u": "UInt", "f": "Float", "b": "boolean"}[dtype.kind]
            types[name] = kind if dtype.kind == "b" else f"{kind}{8 * dtype.itemsize}"
    return df.astype(types) if types else df


if not TYPE_CHECKING:
    __getattr__ = absent.hook("headrace.train.lightgbm")

__all__ = [
    "LightGBMConfig",
    "LightGBMTrainer",
    "RayTrainReportCallback",
    "get_network_params",
    "normalize_pandas_for_lightgbm",
]
