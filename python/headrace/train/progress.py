"""The progress line of a training run: rows that the workers have taken, and their rate."""

from __future__ import annotations

import json
from typing import Any

from headrace.data.progress import ProgressLine, Rate


def training_line(splits: list[Any], n_workers: int) -> ProgressLine:
    """The line for `splits`, the _core.Splits that the workers read."""
    rates: dict[int, Rate] = {}

    def text(seconds: float) -> str | None:
        try:
            epoch, rows = _where(splits)
        except Exception:  # the splits are closed: the run is ending
            return None
        what = "starting"
        if rows or epoch > 1:
            what = f"epoch {epoch}, {rates.setdefault(epoch, Rate()).text(rows)}"
        return f"{n_workers} workers, {seconds:.0f} s: {what}"

    return ProgressLine(text, on=bool(splits))


def _where(splits: list[Any]) -> tuple[int, int]:
    """Epoch, and rows taken in it, of the split with the most progress."""
    known = [json.loads(s.stats()) for s in splits]
    return max((k["epoch"] + 1, sum(k["rows"])) for k in known)
