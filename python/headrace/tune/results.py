"""From the records of a run to its figures. Start-up, epoch borders and the steady state are told apart.

Tests: test_tune.py.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field
from typing import Any

from headrace.tune.configurations import HEADRACE, HEADRACE_LOADER, OVER, Configuration
from headrace.tune.machine import Machine
from headrace.tune.watching import Run

FIRST_STEPS = 20  # of an epoch, at most a fifth: left out of the steady state
LEAK_SHARE, LEAK_BYTES = 0.1, 64 << 20  # memory that grows by less in half a run does not grow
FEW_SAMPLES = 8
FAILED = ("error", "died", "silent")  # Result.status


@dataclass
class Result:
    """The figures of one configuration; times in seconds.

    status: "done", "stopped" (its time was up), "error", "died", "silent" or "interrupted"; error: why.
    startup_s: from the call of make_loader to the first batch. border_s: from the last step of an epoch to
    the first batch of the next one (median). wait_*: of a step for its batch. step_s: the step itself;
    floor_s: on batches that were kept, without a loader. wait_share, samples_per_s, batches_per_s: of the
    steady state, the first steps of each epoch left out. epoch_s: a whole epoch; estimated if
    epoch_estimated. cpu_cores: cores that the processes kept busy; cpu_per_row_s: their CPU time for each
    row; both without the first epoch, in which workers start. per_core: use of each core, by whomever;
    other_cores: cores that other programs kept busy. memory_peak: bytes of all processes. growth_bytes: how
    much memory grew in the second half of the run; leaks: whether it keeps growing. running: threads that ran
    or wanted to (median); oversubscribed: these are too many for the cores.
    """

    configuration: Configuration
    status: str
    error: str = ""
    n_batches: int = 0
    n_rows: int = 0
    n_epochs: int = 0
    load_s: float = math.nan
    startup_s: float = math.nan
    border_s: float = math.nan
    wait_mean_s: float = math.nan
    wait_median_s: float = math.nan
    wait_p99_s: float = math.nan
    wait_share: float = math.nan
    step_s: float = math.nan
    floor_s: float = math.nan
    samples_per_s: float = math.nan
    batches_per_s: float = math.nan
    epoch_s: float = math.nan
    epoch_estimated: bool = False
    epoch_rows: int = 0
    cpu_cores: float = math.nan
    cpu_per_row_s: float = math.nan
    per_core: list[float] = field(default_factory=list)
    other_cores: float = 0.0
    memory_peak: int = 0
    growth_bytes: int = 0
    leaks: bool = False
    running: float = math.nan
    most_threads: int = 0
    oversubscribed: bool = False
    gpu_share: float = math.nan
    gpu_bytes: int = 0
    log: str = ""
    run: Run | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        return self.configuration.name

    @property
    def ours(self) -> bool:
        return self.configuration.library in (HEADRACE, HEADRACE_LOADER)

    @property
    def measured(self) -> bool:
        """Whether there are enough batches to compare. What an error ended is no choice, however fast."""
        return self.samples_per_s > 0 and self.status not in FAILED

    def as_dict(self) -> dict[str, Any]:
        """For JSON: a figure that was not measured is None."""
        hidden = ("configuration", "run")
        values = {k: _known(v) for k, v in vars(self).items() if k not in hidden}
        one = self.configuration
        return {"name": one.name, "library": one.library, "options": one.options, "env": one.env, **values}


def _known(value):
    return None if isinstance(value, float) and not math.isfinite(value) else value


def result_of(
    configuration: Configuration, run: Run, machine: Machine, batches: int | None, log: str
) -> Result:
    """batches: of a whole epoch, if known."""
    made = Result(configuration, run.outcome, run.text, log=log, run=run, load_s=run.load_s)
    made.per_core, made.gpu_bytes = run.per_core, run.gpu_bytes
    if run.gpu:
        made.gpu_share = statistics.fmean(run.gpu)
    if run.floor:
        made.floor_s = statistics.median(run.floor)
    if run.batches and run.begin is not None:
        _times(made, run, batches)
    if run.watch:
        _processes(made, run, machine)
    return made


def _times(made, run, batches):
    records = run.batches
    by_epoch = [[r for r in records if r[0] == e] for e in range(records[-1][0] + 1)]
    by_epoch = [e for e in by_epoch if e]
    made.n_batches, made.n_rows, made.n_epochs = len(records), sum(r[4] for r in records), len(by_epoch)
    made.epoch_rows = max(sum(r[4] for r in e) for e in by_epoch)
    made.startup_s = records[0][2] - run.begin
    borders = [b[0][2] - a[-1][3] for a, b in zip(by_epoch, by_epoch[1:], strict=False)]
    if borders:
        made.border_s = statistics.median(borders)
    steady = [_steady(e) for e in by_epoch]
    steady = [s for s in steady if s]
    if not steady:
        return
    waits = sorted(r[2] - r[1] for s in steady for r in s)
    made.wait_mean_s, made.wait_median_s = statistics.fmean(waits), statistics.median(waits)
    made.wait_p99_s = waits[min(len(waits) - 1, math.ceil(0.99 * len(waits)) - 1)]
    made.step_s = statistics.median(r[3] - r[2] for s in steady for r in s)
    spans = [(s[-1][3] - s[0][1], s) for s in steady]
    total = sum(span for span, _ in spans)
    made.wait_share = sum(waits) / total if total else 0.0
    most = max(len(s) for s in steady)
    whole = [(span, s) for span, s in spans if 2 * len(s) >= most]  # an epoch that was cut short says little
    made.samples_per_s = statistics.median(sum(r[4] for r in s) / max(span, 1e-9) for span, s in whole)
    made.batches_per_s = statistics.median(len(s) / max(span, 1e-9) for span, s in whole)
    _epoch_time(made, run, by_epoch, batches)


def _steady(records):
    """The records of an epoch without its first steps."""
    return records[min(FIRST_STEPS, max(1, len(records) // 5)) :]


def _epoch_time(made, run, by_epoch, batches):
    """Of an epoch that was measured to its end, else an estimate from border and rate."""
    first = made.border_s if made.n_epochs > 1 else made.startup_s
    n = batches if batches else max(map(len, by_epoch))
    whole = [e for e in run.epochs if e["whole"] and e["batches"] == n]
    if whole:
        taken = [by_epoch[e["epoch"]] for e in whole if e["epoch"] < len(by_epoch)]
        made.epoch_s = statistics.median(e[-1][3] - e[0][1] for e in taken)
    else:
        made.epoch_s, made.epoch_estimated = first + n / made.batches_per_s, True


def _processes(made, run, machine):
    begin, end = _span(run.batches)
    made.memory_peak = max((b for _, b in run.watch.memory), default=0)
    made.most_threads = run.watch.most_threads
    later, _ = _span([b for b in run.batches if b[0]] or run.batches)  # workers may start in the first epoch
    cpu = [c for c in run.watch.cpu if begin <= c[0] <= end]
    if len([c for c in cpu if c[0] >= later]) > 1:
        cpu = [c for c in cpu if c[0] >= later]
    if len(cpu) > 1:
        made.cpu_cores = (cpu[-1][1] - cpu[0][1]) / (cpu[-1][0] - cpu[0][0])
        rows = sum(r[4] for r in run.batches if cpu[0][0] < r[2] <= cpu[-1][0])
        made.cpu_per_row_s = (cpu[-1][1] - cpu[0][1]) / rows if rows else math.nan
    whole = [c for c in run.watch.cpu if (run.begin or 0.0) <= c[0] <= (run.ended or 0.0)]
    if run.per_core and len(whole) > 1:
        ours = (whole[-1][1] - whole[0][1]) / (whole[-1][0] - whole[0][0])
        made.other_cores = max(0.0, sum(run.per_core) - ours)
    running = [n for t, n in run.watch.running if begin <= t <= end]
    if running:
        made.running = statistics.median(running)
        made.oversubscribed = len(running) > 2 and made.running >= OVER * machine.cores + 1
    made.growth_bytes, made.leaks = growth([b for t, b in run.watch.memory if begin <= t <= end])


def _span(batches):
    """The time from the first batch to the last step."""
    return (batches[0][2], batches[-1][3]) if batches else (0.0, math.inf)


def growth(samples: list[int]) -> tuple[int, bool]:
    """How much memory grew between the second and the last quarter of the samples; whether it keeps growing:
    by more than noise, and in the end at least half as fast as before.
    """
    if len(samples) < FEW_SAMPLES:
        return 0, False
    quarter = len(samples) // 4
    levels = [statistics.median(samples[i * quarter : (i + 1) * quarter]) for i in range(4)]
    grown = int(levels[3] - levels[1])
    before, lately = levels[2] - levels[1], levels[3] - levels[2]
    return grown, before > 0 and 2 * lately >= before and grown > max(LEAK_BYTES, LEAK_SHARE * levels[1])
