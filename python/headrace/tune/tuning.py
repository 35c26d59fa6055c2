"""tune(): runs one configuration after the other, each in a fresh process, and collects the results.

Tests: test_tune.py.
"""

from __future__ import annotations

import math
import os
import re
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from headrace._core import InvalidArgument, TypeMismatchError
from headrace.exceptions import CallbackError
from headrace.settings import check
from headrace.tune import advice, watching
from headrace.tune.configurations import Configuration, Target, plan
from headrace.tune.machine import this_machine
from headrace.tune.report import Report
from headrace.tune.results import Result, result_of
from headrace.udf import sending

LOG_LINES = 20  # of a process that failed, in the exception


def tune(
    make_loader: Any,
    *,
    step: Callable[[Any], Any] | str | None = None,
    measure_step: bool = False,
    train_step_time: float = 0.1,
    epochs: int = 2,
    batches: int | None = 100,
    batch_size: int | None = None,
    shuffle: bool = False,
    seconds: float = 60.0,
    silence: float = 120.0,
    thorough: bool = False,
    folder: str | os.PathLike[str] | None = None,
    show: Callable[[str], None] | None = None,
) -> Report:
    """Measures a loader with several configurations beside a training step. Ctrl-C ends it; the Report then
    has what was measured until then.

    Args:
        make_loader: a function that returns a torch Dataset or DataLoader, a Headrace Dataset, or an iterable
        of
            batches; or "FILE.py:NAME". Options of DataLoader that it takes (num_workers, ...) are passed to
            it.
        step: what the training does with a batch, or "FILE.py:NAME". None: a sleep of train_step_time
        seconds. measure_step: times `step` on ten batches first, and sleeps so long instead of running it.
        epochs, batches: how many of them; batches of each epoch, None for all. batch_size, shuffle: of a
        Dataset without a DataLoader; 32 rows. seconds: a configuration ends after so long, with what it
        measured. silence: a configuration without a batch for so many seconds is ended, and is a row with an
        error. thorough: measures also what cannot gain because the step does not wait any more. folder: gets
        summary.csv, summary.json, report.html, and a log of each configuration. show: gets a line of text for
        each configuration.

    Raises:
        CallbackError: make_loader or the step failed. InvalidArgument: a wrong argument.
    """
    _check(locals())
    check("tune: folder", folder, "path|None")
    check("tune: show", show, "function|None")
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="headrace-tune-") as logs:
            tuning = _Tuning(make_loader, step, Path(logs), show, locals())
            report = tuning.run()
            for result in report.results:
                result.log = ""
            return report
    logs = Path(folder)
    logs.mkdir(parents=True, exist_ok=True)
    report = _Tuning(make_loader, step, logs, show, locals()).run()
    try:
        report.save(logs)
    except OSError as e:  # what was measured is not lost
        report.notes.append(f"the report is not written: {e}")
        report.folder = None
    return report


_KINDS = {
    "epochs": "count",
    "batches": "count|None",
    "batch_size": "count|None",
    "step": "function|str|None",
    "measure_step": "bool",
    "shuffle": "bool",
    "thorough": "bool",
}


def _check(given):
    for name, kind in _KINDS.items():
        check(f"tune: {name}", given[name], kind)
        if kind.startswith("count") and given[name] == 0:
            raise InvalidArgument(f"tune: {name}: expected at least 1, found 0")
    for name in ("train_step_time", "seconds", "silence"):
        check(f"tune: {name}", given[name], "float")
        positive = given[name] > 0 or given[name] == 0 and name == "train_step_time"
        if not positive or not math.isfinite(given[name]):
            raise InvalidArgument(f"tune: {name}: expected a positive number, found {given[name]}")
    if given["measure_step"] and given["step"] is None:
        raise InvalidArgument("tune: measure_step: expected a step to measure; step is None")


def _sent(what, value):
    """(place, bytes) of a function for the processes."""
    if value is None:
        return None
    if isinstance(value, str):
        place, colon, name = value.rpartition(":")
        if place.endswith(".py"):
            place = str(Path(place).resolve())
        return place + colon + name, None
    try:
        return None, sending.dumps(value)
    except Exception as e:
        raise TypeMismatchError(
            f"tune: {what}: cannot be pickled for the processes that measure: {e}. Give a function that "
            "makes the loader, or FILE.py:NAME"
        ) from e


def measure(
    make_loader: Any,
    configuration: Configuration,
    logs: str | Path,
    batches: int | None = 100,
    **options: Any,
) -> Result:
    """One configuration, in a fresh process; options: of tune()."""
    defaults = {"step": None, "measure_step": False, "train_step_time": 0.1, "epochs": 2, "batch_size": None}
    defaults |= {"shuffle": False, "seconds": 60.0, "silence": 120.0, "thorough": False}
    options = defaults | options | {"batches": batches}
    _check(options)
    tuning = _Tuning(make_loader, options["step"], Path(logs), None, options)
    return tuning.measure(configuration, Target("loader"), 0)


class _Tuning:
    def __init__(self, make_loader, step, logs, show, options):
        self.logs, self.show = logs, show or (lambda line: None)
        self.step, self.measure_step = step, options["measure_step"]
        self.silence_s, self.thorough = options["silence"], options["thorough"]
        self.name = make_loader if isinstance(make_loader, str) else _name_of(make_loader)
        self.step_s = options["train_step_time"] if step is None else None
        self.request = {
            "path": [os.path.abspath(p) for p in sys.path],
            "target": _sent("make_loader", make_loader),
            "step": _sent("step", step),
            "step_s": self.step_s or 0.0,
            "look": False,
            "measure_step": False,
            "replay": False,
            **{k: options[k] for k in ("epochs", "batches", "batch_size", "shuffle", "seconds")},
        }
        self.machine = this_machine()

    def run(self):
        target = self.look()
        report = Report(target, self.machine, [], self.step_s, name=self.name)
        todo = plan(target, self.machine, self.thorough, report.notes)
        result = None
        try:
            while True:
                configuration = todo.send(result) if result else next(todo)
                result = self.measure(configuration, target, len(report.results))
                if result.status == "interrupted":
                    report.complete = False
                    if result.n_batches:
                        report.results.append(result)
                    break
                report.results.append(result)
                self.tell(result)
                if len(report.results) == 1 and result.status == "done" and not result.n_batches:
                    break  # nor would it have any with other settings
        except StopIteration:
            pass
        except KeyboardInterrupt:
            report.complete = False
        return report

    def look(self):
        """Calls make_loader in a process, and measures the step if that is wanted."""
        log = self.logs / "00-look.log"
        request = self.request | {"look": True, "measure_step": self.measure_step}
        seen = watching.run(request, {}, log, self.silence_s, self._live("looking at the loader"))
        if seen.outcome == "interrupted":
            raise KeyboardInterrupt
        if seen.outcome != "done" and seen.outcome != "stopped":
            text = f"tune: {self.name}: {seen.text}{_end_of(log, seen.text)}"
            self._forget(log)
            raise CallbackError(text)
        if self.measure_step:
            self.step_s = sorted(seen.floor)[len(seen.floor) // 2] if seen.floor else 0.0
            self.request |= {"step": None, "step_s": self.step_s}
            self.show(f"the step takes {advice.milliseconds(self.step_s)}")
        return Target(**seen.target)

    def _forget(self, log):
        """Removes a log that the error shows whole, and the folder if it has nothing else."""
        if len(_lines(log)) <= LOG_LINES:
            log.unlink()
            with suppress(OSError):
                self.logs.rmdir()

    def measure(self, configuration: Configuration, target: Target, number: int) -> Result:
        log = self.logs / f"{number + 1:02d}-{_file_name(configuration.name)}.log"
        replay = self.request["step"] is not None  # a sleep needs no measuring
        request = self.request | {"configuration": asdict(configuration), "replay": replay}
        live = self._live(configuration.name)
        seen = watching.run(request, configuration.env, log, self.silence_s, live)
        return result_of(configuration, seen, self.machine, target.batches, str(log))

    def tell(self, result: Result) -> None:
        """After the report has it: what the user has read does not get lost by Ctrl-C."""
        name = result.configuration.name
        if result.measured:
            self.show(
                f"{name}: {advice.rate(result.samples_per_s)} samples/s, the step waits "
                f"{advice.percent(result.wait_share)} of the time"
            )
        else:
            few = "too few batches" if result.n_batches else "no batch"
            self.show(f"{name}: {result.error or few}")

    def _live(self, name):
        update = getattr(self.show, "update", None)
        return None if update is None else lambda run: update(name, run)


def _name_of(value):
    return getattr(value, "__qualname__", type(value).__name__)


def _file_name(text):
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")[:80]


def _lines(log):
    return log.read_text(errors="replace").splitlines()


def _end_of(log, text):
    """The last lines of a log, indented; "" for one that has nothing but `text`."""
    lines = _lines(log)[-LOG_LINES:]
    return "" if lines == [text] else "".join(f"\n  {line}" for line in lines)
