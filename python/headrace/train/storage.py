"""The folder of a run: complete checkpoints, and the reports.

    <storage_path>/<name>/checkpoint_000000/     the workers' files, .metadata.json, .headrace.json
    (positions)
                          .checkpoint_000001-... the next checkpoint, incomplete, with its driver's name; the
                                                 next driver removes those of drivers that died
                          .headrace.lock         locked by the driver while it runs
                          progress.json          for Result.from_path

Workers copy their files into the hidden folder side by side; the driver renames it when all of them have
reported.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import time
from pathlib import Path
from typing import Any

from headrace import _core
from headrace.train.checkpoint import Checkpoint, write_whole
from headrace.train.config import CheckpointConfig, RunConfig
from headrace.train.owner import Lock
from headrace.train.result import PROGRESS_FILE, Result

STATE_FILE = ".headrace.json"
LOCK_FILE = ".headrace.lock"


def plain(value: Any) -> Any:
    """A value for JSON: NumPy and torch scalars as numbers, other unknown values as text."""
    item = getattr(value, "item", None)
    if callable(item):
        try:
            return item()
        except (ValueError, RuntimeError, TypeError):
            pass
    return str(value)


class RunStorage:
    """The driver's side. Not thread-safe: the control channel calls it under its lock."""

    def __init__(self, config: RunConfig, metadata: dict[str, Any]):
        # random: drivers in two containers may start in the same second with the same process id
        self.name = config.name or time.strftime("headrace_%Y-%m-%d_%H-%M-%S") + f"_{secrets.token_hex(4)}"
        self.path = Path(config.storage_path, self.name)
        self.config: CheckpointConfig = config.checkpoint_config
        self.metadata = metadata
        self.history: list[dict[str, Any]] = []
        self.kept: list[tuple[Checkpoint, dict[str, Any]]] = []
        self.state: dict[str, Any] | None = None  # positions of the data sets at the newest checkpoint
        self.path.mkdir(parents=True, exist_ok=True)
        self.lock = self._lock()
        taken = [
            int(m[1]) for p in self.path.iterdir() if (m := re.fullmatch(r"checkpoint_(\d{6,})", p.name))
        ]
        self.next_index = max(taken, default=-1) + 1

    def _lock(self) -> Lock:
        lock = Lock(self.path / LOCK_FILE, create=True)
        if lock.state is False:
            raise RuntimeError(
                f"{self.path}: another driver is writing this run; give RunConfig(name=...) another name"
            )
        return lock

    def close(self) -> None:
        self.lock.close()

    def begin(self) -> None:
        """Removes incomplete checkpoints of earlier workers, before new ones start."""
        for left in self.path.glob(".checkpoint_*"):
            driver = left.name.partition("-")[2]
            if self.lock.state or driver == _core.process_name() or _core.process_is_gone(driver):
                shutil.rmtree(left, ignore_errors=True)

    @property
    def latest(self) -> Checkpoint | None:
        return self.kept[-1][0] if self.kept else None

    def staging(self) -> str:
        """The folder into which the workers copy the files of the next checkpoint."""
        return str(self.path / f".checkpoint_{self.next_index:06d}-{_core.process_name()}")

    def commit(
        self, metrics: dict[str, Any], has_files: bool, dir_name: str | None, state: dict[str, Any] | None
    ) -> Checkpoint | None:
        """Stores one report of all workers. Returns its checkpoint, complete, or None."""
        self.history.append(dict(metrics))
        checkpoint = self._commit_files(dict(metrics), dir_name, state) if has_files else None
        self._write_progress()
        return checkpoint

    def _commit_files(self, metrics, dir_name, state) -> Checkpoint:
        staging = Path(self.staging())
        name = dir_name or f"checkpoint_{self.next_index:06d}"
        if os.sep in name or name.startswith("."):
            raise ValueError(f"report(checkpoint_dir_name={name!r}): expected a plain folder name")
        staging.mkdir(exist_ok=True)  # a checkpoint without files
        made = Checkpoint(staging)
        made.set_metadata({**self.metadata, **made.get_metadata()})
        write_whole(staging / STATE_FILE, json.dumps({"datasets": state or {}}))
        final = self.path / name
        if final.exists():
            raise FileExistsError(f"report(checkpoint_dir_name={name!r}): {final} exists already")
        os.rename(staging, final)
        self.next_index += 1
        self.state = state
        self.kept.append((Checkpoint(final), metrics))
        self._prune()
        return Checkpoint(final)

    def _score(self, metrics: dict[str, Any]) -> float:
        attribute = self.config.checkpoint_score_attribute
        value = metrics.get(attribute) if attribute else None
        if value is None:
            return float("-inf")
        value = float(value)
        return value if self.config.checkpoint_score_order == "max" else -value

    def _prune(self) -> None:
        limit = self.config.num_to_keep
        while limit is not None and len(self.kept) > limit:
            older = range(len(self.kept) - 1)  # never the newest: a restart begins there
            if not older:
                return
            worst = min(older, key=lambda i: (self._score(self.kept[i][1]), i))
            checkpoint, _ = self.kept.pop(worst)
            shutil.rmtree(checkpoint.path, ignore_errors=True)

    def _write_progress(self) -> None:
        checkpoints = [{"name": os.path.basename(c.path), "metrics": m} for c, m in self.kept]
        text = json.dumps({"metrics": self.history, "checkpoints": checkpoints}, default=plain)
        write_whole(self.path / PROGRESS_FILE, text)

    def result(self, return_value: Any) -> Result:
        return Result(
            metrics=self.history[-1] if self.history else None,
            checkpoint=self.latest,
            error=None,
            path=str(self.path),
            best_checkpoints=list(self.kept),
            return_value=return_value,
            history=self.history,
        )
