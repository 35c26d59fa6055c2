"""The progress of a training run: rows that the workers have taken, their rate, and how far the epoch is."""

from __future__ import annotations

import json
from typing import Any

from headrace.data.context import DataContext
from headrace.data.progress import Look, Progress, Rate


def training_progress(splits: list[Any], n_workers: int) -> Progress:
    """The bar for `splits`, the _core.Splits that the workers read. It shows the one that is furthest."""
    rates: dict[int, Rate] = {}

    def look(seconds: float) -> Look | None:
        try:
            epoch, rows, done = max(_place(json.loads(s.stats())) for s in splits)
        except Exception:  # the splits are closed: the run is ending
            return None
        if not rows and epoch == 1:
            return Look(0.0, f"{n_workers} workers start")
        return Look(done, f"epoch {epoch}, {n_workers} workers, {rates.setdefault(epoch, Rate()).text(rows)}")

    return Progress("fit", look, on=bool(splits) and DataContext.get_current().enable_progress_bars)


def _place(known: dict[str, Any]) -> tuple[int, int, float]:
    """Epoch, rows taken in it, and how much of it has been read, from 0 to 1."""
    return known["epoch"] + 1, sum(known["rows"]), (known["run"] or {}).get("done", 0.0)
