"""The progress of a training run: rows that the workers have taken, their rate, and how far the epoch is."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from headrace.data.context import DataContext
from headrace.data.progress import Look, Progress, Rate, known_rows


def training_progress(splits: list[Any], n_workers: int, nodes: Sequence[Any] = ()) -> Progress:
    """The bar for `splits`, the _core.Splits that the workers read. It shows the one that is furthest. nodes:
    what they read; their numbers of rows are the totals, where metadata has them.
    """
    rates: dict[int, Rate] = {}
    totals: list[int | None] = []

    def look(seconds: float) -> Look | None:
        if not totals:
            totals.extend(known_rows(node) for node in nodes or [None] * len(splits))
        try:
            places = [_place(json.loads(s.stats())) for s in splits]
        except Exception:  # the splits are closed: the run is ending
            return None
        (epoch, rows, done), total = max(
            zip(places, totals, strict=True), key=lambda of: (of[0][0], of[0][1])
        )
        if not rows and epoch == 1:
            return Look(0.0, f"{n_workers} workers start")
        if total and rows <= total:  # replicas take rows more than once
            done = rows / total
        else:
            total = None
        taken = rates.setdefault(epoch, Rate()).text(rows, total)
        return Look(done, f"epoch {epoch}, {n_workers} workers, {taken}")

    return Progress("fit", look, on=bool(splits) and DataContext.get_current().enable_progress_bars)


def _place(known: dict[str, Any]) -> tuple[int, int, float]:
    """Epoch, rows taken in it, and how much of it has been read, from 0 to 1."""
    return known["epoch"] + 1, sum(known["rows"]), (known["run"] or {}).get("done", 0.0)
