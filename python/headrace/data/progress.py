"""How far a long call is: one bar of tqdm on a terminal or in a notebook, gone at the end; elsewhere
nothing, or a line now and then if HEADRACE_PROGRESS wants it.

A thread of the bar's own looks at the counters of the run, so the run pays nothing for it. What the program
prints meanwhile stands above the bar.

Tests: tests/python/test_progress.py
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from headrace import _core
from headrace._core import InvalidArgument
from headrace.data.environment import seconds_between_lines
from headrace.data.run_stats import bytes_text, written_rows
from headrace.optional import imported

FIRST_S = 1.0  # shorter work shows nothing
EVERY_S = 0.5
COUNTED_FILES = 100  # of no more files are rows counted for a total
BAR = "{desc}: {percentage:3.0f}%|{bar:12}| {elapsed}<{remaining}{postfix}"
NARROW = "{desc}: {percentage:3.0f}% {elapsed}<{remaining}{postfix}"  # without the bar
NARROWEST = "{desc}: {percentage:3.0f}%{postfix}"
NOTEBOOK = "{desc}: {percentage:3.0f}%{bar}{elapsed}<{remaining}{postfix}"  # the bar is a widget
LINE = "{desc}"


class Look(NamedTuple):
    """What a bar shows. done: 0 to 1. lines: below the bar."""

    done: float
    text: str
    lines: list[str] = []


def _in_notebook() -> bool:
    ipython = imported("IPython")
    shell = ipython and ipython.get_ipython()
    return type(shell).__name__ == "ZMQInteractiveShell"


class _Above:
    """A terminal stream that writes its lines above the bars."""

    def __init__(self, progress, stream):
        self._progress = progress
        self._stream = stream

    def __getattr__(self, name):
        return getattr(self._stream, name)

    def write(self, text):
        with self._progress.lock:
            self._progress.hide()
            n = self._stream.write(text)
            self._stream.flush()
            return n


class Progress:
    """A context manager for a call. look(seconds) gives a Look, `seconds` after the beginning, or None at the
    end of the work; the bar's thread calls it. on=False: nothing is shown.
    """

    def __init__(self, title: str, look: Callable[[float], Look | None], on: bool = True) -> None:
        self.title = title
        self.look = look
        self.lock = threading.RLock()
        every = seconds_between_lines(os.environ.get("HEADRACE_PROGRESS")) if on else -1
        self._terminal = sys.stdout.isatty() and sys.stderr.isatty()
        self._bars = every >= 0 and (self._terminal or _in_notebook())
        self._line_s = 0 if self._bars else max(every, 0)
        self._shown: list[Any] = []
        self._end = threading.Event()

    def __enter__(self) -> Progress:
        self.begin()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def begin(self) -> None:
        """Starts the thread that looks."""
        if self._bars or self._line_s:
            self._streams = sys.stdout, sys.stderr
            self._to = sys.stderr
            if self._terminal and self._bars:
                sys.stdout, sys.stderr = (_Above(self, s) for s in self._streams)  # type: ignore[assignment]
            self._thread = threading.Thread(target=self._show, name="headrace-progress", daemon=True)
            self._thread.start()

    def end(self) -> None:
        """Takes the bars away."""
        if self._bars or self._line_s:
            self._end.set()
            self._thread.join()
            sys.stdout, sys.stderr = self._streams
            for bar in reversed(self._shown):
                bar.n = bar.total  # else one of a notebook stays, in red
                bar.close()

    def hide(self) -> None:
        """Removes the bars until they are drawn again. The caller holds `lock`."""
        for bar in self._shown:
            bar.clear(nolock=True)

    def _show(self) -> None:
        begin = time.monotonic()
        wait = FIRST_S if self._bars else self._line_s
        while not self._end.wait(wait):
            wait = EVERY_S if self._bars else self._line_s
            seconds = time.monotonic() - begin
            found = self.look(seconds)
            if found is None:
                return
            with self.lock:
                if self._bars:
                    self._draw(found, seconds)
                else:
                    print(
                        f"headrace: {self.title}, {seconds:.0f} s: {found.done:.0%}, {found.text}",
                        file=self._to,
                        flush=True,
                    )

    def _draw(self, found: Look, seconds: float) -> None:
        form, text, width = NOTEBOOK, found.text, None
        done = min(max(found.done, 0.0), 1.0)
        if self._terminal:
            width = shutil.get_terminal_size().columns - 1  # tqdm writes nothing where the width is unknown
            form, text = _fitted(self.title, found.text, seconds, done, width)
        if not self._shown:
            self._shown.append(_bar(self._to, self.title, form, time.time() - seconds, 0))
        while len(self._shown) <= len(found.lines):
            self._shown.append(_bar(self._to, "", LINE, time.time(), len(self._shown)))
        top = self._shown[0]
        top.n, top.bar_format = done, form
        top.set_postfix_str(text, refresh=False)
        for bar, line in zip(self._shown[1:], found.lines, strict=False):
            bar.set_description_str(line, refresh=False)
        for bar in self._shown:
            bar.ncols = width
            bar.refresh(nolock=True)


def _fitted(title, text, seconds, done, width):
    """(form, text) of a line that is no wider than `width`: without the bar, without the last parts of the
    text, then without the times. tqdm cuts a longer line anywhere.
    """
    from tqdm import tqdm

    left = tqdm.format_interval(seconds * (1 - done) / done) if done else "?"
    times = len(f" {tqdm.format_interval(seconds)}<{left}")
    head = len(title) + len(": 100%")
    parts = text.split(", ")
    for n in range(len(parts), -1, -1):
        rest = "".join(f", {part}" for part in parts[:n])
        for form, taken in ((BAR, head + 14 + times), (NARROW, head + times)):
            if taken + len(rest) <= width:
                return form, rest.removeprefix(", ")
    return NARROWEST, ""


def _bar(stream, title, form, begin, place):
    """tqdm's, in the terminal or the notebook; without tqdm's watching thread and its lock of processes."""
    from tqdm import tqdm as plain

    base = plain
    if not stream.isatty():
        from tqdm.notebook import tqdm as base

    cls = type("Bar", (base,), {"monitor_interval": 0})
    cls.set_lock(threading.RLock())
    bar = cls(
        total=1.0,
        desc=title,
        bar_format=form,
        file=stream,
        leave=False,
        delay=1e-9,  # the first look draws it
        position=place,
        disable=False,
    )
    bar.start_t = begin
    return bar


class Rate:
    """Turns a growing count into "1,234 rows, 567 rows/s"; `what` is the noun."""

    def __init__(self, what: str = "rows") -> None:
        self.what = what
        self._before: tuple[float, int] | None = None

    def text(self, n: int, total: int | None = None) -> str:
        now = time.monotonic()
        rate = ""
        if self._before and n > self._before[1]:
            rate = f", {(n - self._before[1]) / (now - self._before[0]):,.0f} {self.what}/s"
        self._before = now, n
        of = f" of {total:,}" if total is not None else ""
        return f"{n:,}{of} {self.what}{rate}"


def of_run(run: Any, title: str, node: Any = None, on: bool = True) -> Progress:
    """The progress of a Run. node: what it runs, if its number of rows may be shown as the total."""
    from headrace.data.context import DataContext

    context = DataContext.get_current()
    taken, read = Rate(), Rate("rows read")
    total: list[int | None] = []
    before = 0.0  # the work that had passed when no row had come out: of a sort, all that goes into it

    def look(seconds: float) -> Look | None:
        try:
            known = json.loads(run.stats())
        except InvalidArgument:  # closed meanwhile
            return None
        if not known:
            return None
        if not total:
            total.append(known_rows(node))
        nonlocal before
        rows = written_rows(known) or known["taken_rows"]
        done = known["done"]
        if not rows:
            before = done
        elif total[0]:
            done = before + (1 - before) * rows / total[0]
        if rows:
            text = taken.text(rows, total[0])
        elif made := _made(known):
            text = taken.text(made)
        else:
            text = read.text(known["rows_read"])
        lines = _lines(known) if context.execution_options.verbose_progress else []
        return Look(done, text + _rest(known), lines)

    return Progress(title, look, on=on and context.enable_progress_bars)


def known_rows(node):
    """The number of rows if metadata has it and few local files have to be asked; else None."""
    if node is None:
        return None
    try:
        files = list(itertools.islice(node.files(), COUNTED_FILES + 1))
        if len(files) > COUNTED_FILES or any("://" in f for f in files):
            return None
        return node.plan.count()
    except _core.HeadraceError:  # the run itself has this error, and says it
        return None


def _made(known):
    """Rows of the last operation that has made any, or of the function that it waits for."""
    of = (o["rows_out"] for o in reversed(known["operators"]) if o["rows_out"] or "served" in o)
    return next(of, 0)


def _rest(known):
    made = known["operators"][-1]["bytes_out"] if known["operators"] else 0
    slowest = _slowest(known)
    return (f", slowest: {slowest}" if slowest else "") + (f", {bytes_text(made)}" if made else "")


def _slowest(known):
    """The name of the operation that was busy longest, or "read"; None: none was."""
    busy = [("read", known["read_ns"])]
    busy += [(o["name"], o["busy_ns"] + o["wait_ns"]) for o in known["operators"]]
    name, ns = max(busy, key=lambda b: b[1])
    return name if ns else None


def _lines(known):
    return [
        f"  {o['name']}: {o['rows_in']:,} rows in, {o['rows_out']:,} out, {bytes_text(o['bytes_out'])}"
        for o in known["operators"]
    ]
