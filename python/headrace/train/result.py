"""Result, the value of fit(), and the exception that fit() raises."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import Any

from headrace import places
from headrace.optional import package
from headrace.places import StorePath
from headrace.train.checkpoint import Checkpoint
from headrace.train.files import STATE_FILE, folders_with

PROGRESS_FILE = "progress.json"


class RayTrainError(RuntimeError):
    """The base of the errors of training, under Ray's name."""


class TrainingFailedError(RayTrainError):
    """The training failed. fit() raises a WorkerGroupError; errors of the driver keep their own type."""

    def __init__(self, message: str, worker_failures: dict[int, Any] | None = None):
        super().__init__(message)
        self.worker_failures: dict[int, str] = worker_failures or {}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.args[0], self.worker_failures)


class WorkerGroupError(TrainingFailedError):
    """A worker failed. The text has its rank and its traceback; __cause__ is its exception, if it pickles.

    worker_failures: rank -> exception (or text) of all workers that failed, the first one first. If a worker
    cannot store its checkpoint, report() raises its error on all workers: the text and worker_failures name
    that worker alone.
    """


class NCCLHangError(WorkerGroupError):
    """fit() never raises it: a collective that hangs is found as any other wait, see
    DataContext.stall_timeout_s.
    """


class ControllerError(TrainingFailedError):
    """fit() never raises it: an error of the driver keeps its own type. controller_failure: the error."""

    def __init__(self, controller_failure: Exception):
        super().__init__(f"the driver failed: {controller_failure}")
        self.controller_failure = controller_failure

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.controller_failure,)


@dataclass(repr=False)
class Result:
    """metrics: rank 0's last report; checkpoint: the newest one; path: the folder of the run.

    best_checkpoints: (checkpoint, its metrics) of all that the run kept, the oldest first.
    validation_failures: name of a kept checkpoint -> why its validation failed, with the function's
        traceback.
    datasets: for each dataset "epochs" that the workers read to the end, and of these the rows that went to
        no worker ("dropped_rows") or came twice ("padded_rows"), see DataConfig(tail=...). They go on
        with the run: a restart begins with the counts of its checkpoint, in a new driver, too.
    """

    metrics: dict[str, Any] | None
    checkpoint: Checkpoint | None
    error: Exception | None
    path: str
    best_checkpoints: list[tuple[Checkpoint, dict[str, Any]]] = field(default_factory=list)
    return_value: Any = None
    history: list[dict[str, Any]] = field(default_factory=list, repr=False)
    datasets: dict[str, dict[str, int]] = field(default_factory=dict)
    validation_failures: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        lines = [f"metrics={self.metrics!r}", f"path={self.path!r}", f"checkpoint={self.checkpoint!r}"]
        if kept := len(self.best_checkpoints):
            lines.append(f"best_checkpoints: {kept}, history: {len(self.history)} reports")
        lines += [f"{name}={value!r}" for name in ("error", "return_value") if (value := getattr(self, name))]
        lines += [f"validation_failures={self.validation_failures!r}"] if self.validation_failures else []
        for name, found in self.datasets.items():
            lines.append(f"dataset {name!r}: " + ", ".join(f"{v} {k}" for k, v in found.items()))
        return "Result(\n" + "".join(f"  {line},\n" for line in lines) + ")"

    @property
    def metrics_dataframe(self) -> Any:
        """Rank 0's reports, one row each; None if there are none. Needs pandas."""
        if not self.history:
            return None
        return package("pandas", "Result.metrics_dataframe").DataFrame(self.history)

    def get_best_checkpoint(self, metric: str, mode: str) -> Checkpoint | None:
        """The kept checkpoint whose metrics have the largest (mode "max") or smallest ("min") `metric`."""
        if mode not in ("max", "min"):
            raise ValueError(f"get_best_checkpoint(mode={mode!r}): expected 'max' or 'min'")
        having = [(c, m[metric]) for c, m in self.best_checkpoints if metric in m]
        if not having:
            return None
        return (max if mode == "max" else min)(having, key=lambda pair: pair[1])[0]

    @classmethod
    def from_path(
        cls,
        path: str | os.PathLike[str],
        storage_filesystem: Any = None,
        *,
        storage_options: dict[str, Any] | None = None,
    ) -> Result:
        """The result of an earlier run, from its folder: also of one that failed, was killed, or is running.
        Metrics are as JSON stored them. storage_filesystem, storage_options: as of RunConfig.
        """
        path, storage_options = places.in_filesystem(
            "Result.from_path", path, storage_filesystem, storage_options
        )
        options = places.checked("Result.from_path", storage_options)
        folder = places.of(path, options)
        file = folder / PROGRESS_FILE
        try:
            known = json.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise FileNotFoundError(
                f"{path}: not the folder of a run: {PROGRESS_FILE} does not exist"
            ) from None
        names = [c["name"] for c in known["checkpoints"]]
        if isinstance(folder, StorePath):
            there = folders_with(folder, STATE_FILE, names)
        else:
            there = {name for name in names if (folder / name).is_dir()}  # see storage.py
        best = [
            (Checkpoint(str(folder / c["name"]), storage_options=options), c["metrics"])
            for c in known["checkpoints"]
            if c["name"] in there
        ]
        history = known["metrics"]
        return cls(
            metrics=history[-1] if history else None,
            checkpoint=best[-1][0] if best else None,
            error=None,
            path=str(folder) if isinstance(folder, StorePath) else os.fspath(path),
            best_checkpoints=best,
            history=history,
            datasets=known.get("datasets", {}),
            validation_failures={
                c["name"]: c["validation"]["error"]
                for c in known["checkpoints"]
                if "error" in c.get("validation", {})
            },
        )
