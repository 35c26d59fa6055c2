"""What came out: a table, files (CSV, JSON, the page), and the recommendation in words.

Tests: test_tune.py, test_tune_page.py.
"""

from __future__ import annotations

import csv
import json
import math
import statistics
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from headrace._core import __version__
from headrace.observe.page import page
from headrace.tune import advice
from headrace.tune.configurations import Target
from headrace.tune.machine import Machine
from headrace.tune.results import Result

HERE = Path(__file__).parent
MOST_SPANS = 4000  # of one configuration on the page; more are drawn together
MOST_LANES = 16
MOST_POINTS = 1000  # of a lane or curve

COLUMNS = {
    "configuration": lambda r: r.name,
    "samples/s": lambda r: advice.rate(r.samples_per_s),
    "wait": lambda r: advice.percent(r.wait_share) if r.measured else "-",
    "wait mean": lambda r: advice.milliseconds(r.wait_mean_s),
    "p99": lambda r: advice.milliseconds(r.wait_p99_s),
    "first batch": lambda r: advice.milliseconds(r.startup_s),
    "border": lambda r: advice.milliseconds(r.border_s),
    "epoch": lambda r: ("~" if r.epoch_estimated else "") + advice.milliseconds(r.epoch_s),
    "cores": lambda r: f"{r.cpu_cores:.2f}" if math.isfinite(r.cpu_cores) else "-",
    "CPU/row": lambda r: advice.milliseconds(r.cpu_per_row_s),
    "memory": lambda r: advice.size(r.memory_peak) if r.memory_peak else "-",
    "GPU": lambda r: advice.percent(r.gpu_share) if math.isfinite(r.gpu_share) else "-",
}


@dataclass
class Report:
    """What tune() measured.

    results: one for each configuration, in the order in which they ran. step_s: the step that was simulated;
    None for the user's own. complete: False after Ctrl-C. folder: where the files are, or None.
    """

    target: Target | None
    machine: Machine
    results: list[Result]
    step_s: float | None
    notes: list[str] = field(default_factory=list)
    complete: bool = True
    name: str = "loader"
    folder: Path | None = None
    time: str = field(default_factory=lambda: time.strftime("%Y-%m-%d %H:%M"))

    @property
    def best(self) -> Result | None:
        """The configuration that is recommended."""
        return advice.best_of(self.results)

    @property
    def floor_s(self) -> float:
        """The step's own time as measured, also on batches that were kept: no loader can beat it."""
        floors = [s for r in self.results for s in (r.floor_s, r.step_s) if s > 0]
        return max(min(floors, default=0.0), self.step_s or 0.0)

    @property
    def most_samples_per_s(self) -> float:
        """The rate at which the step alone is the limit."""
        return advice.most_of(self.results, self.floor_s)

    @property
    def recommendation(self) -> list[str]:
        """Sentences, the most important first."""
        return advice.words(self.target, self.results, self.floor_s)

    @property
    def warnings(self) -> list[str]:
        return advice.warnings(self.target, self.results, self.machine.cores)

    def table(self) -> str:
        """The results as lines of text."""
        shown = [c for c in COLUMNS if c != "GPU" or any(math.isfinite(r.gpu_share) for r in self.results)]
        rows = [shown, *([COLUMNS[c](r) for c in shown] for r in self.results)]
        widths = [max(len(row[i]) for row in rows) for i in range(len(shown))]
        lines = [
            "  ".join(
                (cell.ljust if i == 0 else cell.rjust)(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        return "\n".join(lines)

    def text(self) -> str:
        """Table, recommendation, warnings and notes."""
        parts = [self.table(), "", *self.recommendation]
        if not self.complete:
            parts[1:1] = ["", "Stopped before the end: other configurations were not measured."]
        for title, lines in (("Warnings", self.warnings), ("Notes", self.notes)):
            if lines:
                parts += ["", f"{title}:", *(f"- {line}" for line in lines)]
        return "\n".join(parts)

    def as_dict(self) -> dict[str, Any]:
        """All figures, as the JSON file has them."""
        most = self.most_samples_per_s
        return {
            "headrace": __version__,
            "name": self.name,
            "time": self.time,
            "complete": self.complete,
            "machine": self.machine.as_dict(),
            "target": asdict(self.target) if self.target else None,
            "step_s": self.step_s,
            "floor_s": self.floor_s,
            "most_samples_per_s": most if math.isfinite(most) else None,
            "best": self.best.name if self.best else None,
            "recommendation": self.recommendation,
            "warnings": self.warnings,
            "notes": self.notes,
            "results": [r.as_dict() for r in self.results],
        }

    def save(self, folder: str | Path) -> Path:
        """Writes summary.csv, summary.json and report.html. Returns the path of the page."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        (folder / "summary.json").write_text(json.dumps(self.as_dict(), indent=1, allow_nan=False) + "\n")
        self._save_csv(folder / "summary.csv")
        path = folder / "report.html"
        path.write_text(self.html(), encoding="utf-8", errors="replace")
        return path

    def _save_csv(self, path):
        rows = [r.as_dict() for r in self.results]
        plain = [k for k in rows[0] if not isinstance(rows[0][k], (dict, list))] if rows else []
        with open(path, "w", newline="") as f:
            writer = csv.DictWriter(f, [*plain, "options", "env"], extrasaction="ignore")
            writer.writeheader()
            for row in rows:
                writer.writerow(row | {k: json.dumps(row[k]) for k in ("options", "env")})

    def html(self) -> str:
        """The page, with the time line of each configuration."""
        shown = [c for c in COLUMNS if c != "GPU" or any(math.isfinite(r.gpu_share) for r in self.results)]
        data = {
            **{k: v for k, v in self.as_dict().items() if k != "results"},
            "columns": shown,
            "rows": [
                {"cells": [COLUMNS[c](r) for c in shown], "status": r.status, "error": r.error}
                for r in self.results
            ],
            "lines": [lines for r in self.results if (lines := _time_lines(r))],
        }
        return page(f"Headrace: {self.name}", data, [HERE / "tune.js"])


def _time_lines(r):
    """The rows of a configuration's chart; times in seconds from the loop's begin."""
    run = r.run
    if not run or run.begin is None or not run.batches:
        return None
    begin = run.begin
    end = run.batches[-1][3] - begin
    rows = [_train_row(run, begin)]
    lanes = _lanes(run, begin, end)
    rows += lanes
    memory = [(t - begin, b / 1e6) for t, b in run.watch.memory if 0 <= t - begin <= end] if run.watch else []
    memory = _thinned(memory)
    if len(memory) > 1:
        rows.append(
            {"name": "memory", "kind": "curve", "unit": "MB", "times": [_ms(t) for t, _ in memory]}
            | {"values": [round(b, 1) for _, b in memory]}
        )
    return {"name": r.name, "end": _ms(end), "ours": r.ours, "rows": rows}


def _thinned(points):
    return points[:: math.ceil(len(points) / MOST_POINTS) or 1]


def _ms(t):
    return round(t, 5)


def _train_row(run, begin):
    """Spans: waits (of the first batch of an epoch apart) and steps."""
    records = run.batches
    together = max(1, math.ceil(2 * len(records) / MOST_SPANS))
    made = {"begin": [], "end": [], "what": [], "many": []}

    def add(a, b, what, n):
        for key, value in (("begin", _ms(a - begin)), ("end", _ms(b - begin)), ("what", what), ("many", n)):
            made[key].append(value)

    previous, end = None, begin
    for i in range(0, len(records), together):
        part = records[i : i + together]
        first = part[0][0] != previous
        a = end if first else part[0][1]
        came = part[-1][3] - sum(r[3] - r[2] for r in part) if together > 1 else part[0][2]
        add(a, came, 2 if first else 1, len(part))
        add(came, part[-1][3], 0, len(part))
        previous, end = part[-1][0], part[-1][3]
    colours = [["step", "step"], ["wait", "wait"], ["start", "wait for the first batch of an epoch"]]
    return {"name": "train", "kind": "spans", "colours": colours, **made}


def _lanes(run, begin, end):
    """The CPU use of each process, those that used most first."""
    found = []
    for i, (pid, samples) in enumerate(run.watch.lanes.items() if run.watch else ()):
        points = _thinned([(t - begin, cpu) for t, cpu in samples if t - begin <= end])
        pairs = [(a, b) for a, b in zip(points, points[1:], strict=False) if b[0] > 0]
        if not pairs or sum(b[1] - a[1] for a, b in pairs) <= 0:
            continue
        times = [max(0.0, a[0]) for a, _ in pairs] + [pairs[-1][1][0]]
        values = [min(1.0, (b[1] - a[1]) / (b[0] - a[0])) for a, b in pairs] + [0.0]
        found.append((statistics.fmean(values), pid, i, times, values))
    found = sorted(found, reverse=True)[:MOST_LANES]
    return [
        {"name": "training process" if i == 0 else f"process {pid}", "kind": "share"}
        | {"times": [_ms(t) for t in times], "values": [round(v, 3) for v in values]}
        for _, pid, i, times, values in sorted(found, key=lambda lane: lane[2])
    ]
