"""Positions between checkpoints: CheckpointConfig(positions_every_n_batches=..., positions_every_s=...).

A thread of the driver looks at the splits. No rank waits, so the ranks may be at different steps: the stored
position lies after the batches that every rank has done (every rank has requested a later one).
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

from headrace import _core
from headrace.train.config import CheckpointConfig
from headrace.train.shards import ShardServer
from headrace.train.storage import RunStorage

LOOK_S = 0.05  # between two looks at the splits


class PositionKeeper:
    """A context manager around the time in which the workers run."""

    def __init__(self, storage: RunStorage, shards: ShardServer, config: CheckpointConfig):
        self._storage = storage
        self._shards = shards
        self._batches = config.positions_every_n_batches
        self._seconds = config.positions_every_s
        self._stored: list[tuple[int, int]] = []
        self._reported = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headrace-train-positions", daemon=True)

    def __enter__(self) -> None:
        if self._shards.splits and (self._batches or self._seconds):
            self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        last = time.monotonic()
        self._stored = self._steps()
        while not self._stop.wait(LOOK_S):
            if self._storage.latest is not None:
                return  # the positions of a checkpoint belong to its files
            steps = self._steps()
            now = time.monotonic()
            due = self._seconds is not None and now - last >= self._seconds
            if steps and steps != self._stored and (due or self._enough(steps)):
                self._store()
                self._stored, last = steps, now

    def _steps(self) -> list[tuple[int, int]]:
        """(epoch, steps that all ranks have taken) of each split; [] while they end."""
        try:
            known = [json.loads(s.stats()) for s in self._shards.splits]
        except _core.HeadraceError:
            return []
        return [(k["epoch"], min(k["taken_steps"])) for k in known]

    def _enough(self, steps: list[tuple[int, int]]) -> bool:
        """Whether a split is n batches further, or in another epoch."""
        before: list[Any] = self._stored or [(-1, 0)] * len(steps)
        return self._batches is not None and any(
            epoch != old_epoch or step - old >= self._batches
            for (epoch, step), (old_epoch, old) in zip(steps, before, strict=True)
        )

    def _store(self) -> None:
        try:
            state = self._shards.state(done=True)
            if any("positions" in at for at in state["datasets"].values()):
                self._storage.keep_positions(state)
        except OSError as e:
            if not self._reported:
                print(f"the driver cannot store positions for now: {e}", file=sys.stderr)
            self._reported = True
