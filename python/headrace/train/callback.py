"""Callbacks of the driver: RunConfig(callbacks=[...]), under Ray's names, and writers of metrics to files.

The driver calls them, in the order of the list, while the workers wait in report(). An exception of a
callback is raised by report() on all workers, and so ends fit().
"""

from __future__ import annotations

import csv
import io
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace._core import UnsupportedError
from headrace.optional import package
from headrace.places import is_url
from headrace.train.checkpoint import Checkpoint
from headrace.train.files import write_whole
from headrace.train.metrics import plain, plain_number


@dataclass
class TrainRunContext:
    """The run that a callback belongs to. run_dir: its folder. history: rank 0's reports so far; after a
    restart those up to the checkpoint from which the run goes on.
    """

    run_config: Any
    train_loop_config: dict[str, Any] | None
    scaling_config: Any
    run_dir: str
    history: list[dict[str, Any]] = field(default_factory=list)


class RayTrainCallback:
    """The base of Ray's callbacks."""


class UserCallback(RayTrainCallback):
    """Base class for RunConfig(callbacks=[...]). Override what you need; the methods run in the driver."""

    def before_start(self, run_context: TrainRunContext) -> None:
        """Before the workers start, at each restart, too. Not in Ray."""

    def after_report(
        self, run_context: TrainRunContext, metrics: list[dict[str, Any]], checkpoint: Checkpoint | None
    ) -> None:
        """After all workers have called report(). metrics: of each rank; checkpoint: stored, or None."""

    def after_exception(self, run_context: TrainRunContext, worker_exceptions: dict[int, Exception]) -> None:
        """After workers have failed. worker_exceptions: rank -> exception."""


class JsonLinesWriter(UserCallback):
    """Writes each report of rank 0 as one line of JSON to `file` in the run's folder."""

    def __init__(self, file: str = "metrics.jsonl"):
        self.file = file

    def before_start(self, run_context: TrainRunContext) -> None:
        _expect_local(self, run_context)
        lines = "".join(_line(metrics) for metrics in run_context.history)
        write_whole(Path(run_context.run_dir, self.file), lines)

    def after_report(self, run_context: Any, metrics: list[dict[str, Any]], checkpoint: Any) -> None:
        with open(Path(run_context.run_dir, self.file), "a", encoding="utf-8") as out:
            out.write(_line(metrics[0]))


class CsvWriter(UserCallback):
    """Writes each report of rank 0 as one row of CSV to `file` in the run's folder. A new metric is a new
    column, for which the file is written again; values that are no numbers or texts are JSON.
    """

    def __init__(self, file: str = "metrics.csv"):
        self.file = file
        self._columns: list[str] = []

    def before_start(self, run_context: TrainRunContext) -> None:
        _expect_local(self, run_context)
        self._columns = []
        self._write_all(run_context)

    def after_report(self, run_context: Any, metrics: list[dict[str, Any]], checkpoint: Any) -> None:
        if any(name not in self._columns for name in metrics[0]):
            self._write_all(run_context)
            return
        with open(Path(run_context.run_dir, self.file), "a", encoding="utf-8", newline="") as out:
            self._rows(out, metrics[:1])

    def _write_all(self, run_context: TrainRunContext) -> None:
        self._columns = list(dict.fromkeys(name for metrics in run_context.history for name in metrics))
        out = io.StringIO(newline="")
        if self._columns:
            csv.writer(out, lineterminator="\n").writerow(self._columns)
        self._rows(out, run_context.history)
        write_whole(Path(run_context.run_dir, self.file), out.getvalue())

    def _rows(self, out: Any, reports: list[dict[str, Any]]) -> None:
        rows = csv.writer(out, lineterminator="\n")
        rows.writerows([_cell(m.get(name)) for name in self._columns] for m in reports)


class TensorBoardWriter(UserCallback):
    """Writes the numbers of rank 0's reports for TensorBoard to `folder` in the run's folder; the step is the
    number of the report. Needs the package tensorboard.
    """

    def __init__(self, folder: str = "tensorboard"):
        self.folder = folder
        self._writer: Any = None

    def before_start(self, run_context: TrainRunContext) -> None:
        _expect_local(self, run_context)
        board = package("torch.utils.tensorboard", "TensorBoardWriter")
        if self._writer is not None:
            self._writer.close()
        path = os.path.join(run_context.run_dir, self.folder)
        self._writer = board.SummaryWriter(path, purge_step=len(run_context.history))

    def after_report(self, run_context: Any, metrics: list[dict[str, Any]], checkpoint: Any) -> None:
        step = len(run_context.history) - 1
        for name, value in metrics[0].items():
            number = plain_number(value)
            if number is not None:
                self._writer.add_scalar(name, number, step)
        self._writer.flush()

    def __getstate__(self) -> dict[str, Any]:
        return {"folder": self.folder, "_writer": None}


def _expect_local(writer: UserCallback, run: TrainRunContext) -> None:
    """Files of these writers grow, and objects of a store do not."""
    if is_url(run.run_dir):
        raise UnsupportedError(
            f"{type(writer).__name__}: expected a run with a local folder, found {run.run_dir}; "
            "Result.history and progress.json have all reports"
        )


def _line(metrics: dict[str, Any]) -> str:
    return json.dumps(metrics, default=plain) + "\n"


def _cell(value: Any) -> Any:
    if value is None or isinstance(value, (str, int, float)):
        return "" if value is None else value
    return json.dumps(value, default=plain).strip('"')


class Callbacks:
    """The callbacks of one fit()."""

    def __init__(self, callbacks: list[UserCallback], run: TrainRunContext):
        self._callbacks = callbacks
        self.run = run

    def before_start(self, history: list[dict[str, Any]]) -> None:
        self.run.history = history
        for one in self._callbacks:
            one.before_start(self.run)

    def after_report(self, metrics: list[dict[str, Any]], checkpoint: Checkpoint | None) -> None:
        for one in self._callbacks:
            one.after_report(self.run, metrics, checkpoint)

    def after_exception(self, failures: dict[int, Any]) -> None:
        """failures: rank -> exception, or the text of a failure without one."""
        found = {r: e if isinstance(e, Exception) else RuntimeError(str(e)) for r, e in failures.items()}
        for one in self._callbacks:
            one.after_exception(self.run, found)


__all__ = [
    "CsvWriter",
    "JsonLinesWriter",
    "RayTrainCallback",
    "TensorBoardWriter",
    "TrainRunContext",
    "UserCallback",
]
