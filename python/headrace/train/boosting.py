"""What xgboost.py and lightgbm.py have in common: the reporting callback, and the cores of a worker."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headrace.train import context
from headrace.train.checkpoint import Checkpoint


class Reports:
    """Reports metrics after each round, and the model as a checkpoint.

    metrics: names as "eval-rmse" (name of the data, "-", name of the metric), or a dict of the name to report
        -> that name; None: all.
    filename: of the model in the checkpoint.
    frequency: a checkpoint after each n rounds; 0: none in between.
    checkpoint_at_end: a checkpoint after the last round.
    results_postprocessing_fn: gets the metrics, returns those to report.

    Rank 0 saves the model; all workers have the same one.
    """

    CHECKPOINT_NAME: str

    def __init__(
        self,
        metrics: str | list[str] | dict[str, str] | None = None,
        filename: str | None = None,
        frequency: int = 0,
        checkpoint_at_end: bool = True,
        results_postprocessing_fn: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    ):
        super().__init__()
        if isinstance(metrics, str):
            metrics = [metrics]
        if metrics and not isinstance(metrics, dict):
            metrics = {name: name for name in metrics}
        self._metrics: dict[str, str] = metrics or {}
        self._filename = self.CHECKPOINT_NAME if filename is None else filename
        self._frequency = frequency
        self._checkpoint_at_end = checkpoint_at_end
        self._process = results_postprocessing_fn

    def _chosen(self, found: dict[str, Any]) -> dict[str, Any]:
        """What to report of all metrics."""
        for wanted in self._metrics.values():
            if wanted not in found:
                there = ", ".join(map(repr, found)) or "none"
                raise KeyError(f"RayTrainReportCallback: no metric {wanted!r}; the metrics are {there}")
        report = {name: found[of] for name, of in self._metrics.items()} if self._metrics else found
        return self._process(report) if self._process else report

    def _is_due(self, rounds: int) -> bool:
        """Whether a checkpoint follows this many rounds."""
        return self._frequency > 0 and rounds % self._frequency == 0

    def _report(self, metrics: dict[str, Any], model: Any = None) -> None:
        """model: for a checkpoint."""
        if model is None or context.get_context().get_world_rank() != 0:
            context.report(metrics)
            return
        with tempfile.TemporaryDirectory(prefix="headrace-model-") as folder:
            model.save_model(str(Path(folder, self._filename)))
            context.report(metrics, Checkpoint.from_directory(folder))


def cores_of_a_worker(session: context.Session) -> int | None:
    """The cores that a worker has for itself; None: OMP_NUM_THREADS says."""
    if "OMP_NUM_THREADS" in os.environ:
        return None
    return max(1, len(os.sched_getaffinity(0)) // session.local_world_size)


def refuse_legacy(trainer: str, **given: Any) -> None:
    """Arguments of Ray Train v1, which Ray refuses like this."""
    for name, value in given.items():
        if value is not None:
            raise DeprecationWarning(f"{trainer}({name}=...) is not supported: give a train_loop_per_worker")
