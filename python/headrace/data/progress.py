"""One progress line on the terminal during work of more than a second. There is no line without a terminal,
and the line disappears when the work is done.
"""

import json
import sys
import threading
import time

from headrace._core import InvalidArgument

FIRST_S = 1.0  # shorter work shows no line
EVERY_S = 0.5
CLEAR = "\r\x1b[K"


class _Above:
    """A terminal stream that writes its lines above the progress line."""

    def __init__(self, line, stream):
        self._line = line
        self._stream = stream

    def __getattr__(self, name):
        return getattr(self._stream, name)

    def write(self, text):
        with self._line.lock:
            self._line.hide()
            n = self._stream.write(text)
            self._stream.flush()
            return n


class ProgressLine:
    """A context manager. `text(seconds)` returns the line, `seconds` after the beginning, or None to end it;
    a thread of the line's own calls it. on=False: no line.
    """

    def __init__(self, text, on=True):
        self.text = text
        self.lock = threading.Lock()
        self.on = on and sys.stdout.isatty() and sys.stderr.isatty()
        self._shown = False
        self._end = threading.Event()

    def __enter__(self):
        if self.on:
            self._streams = sys.stdout, sys.stderr
            self._terminal = sys.stderr
            sys.stdout, sys.stderr = (_Above(self, s) for s in self._streams)
            self._thread = threading.Thread(target=self._show, name="headrace-progress", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_):
        if self.on:
            self._end.set()
            self._thread.join()
            self.hide()
            sys.stdout, sys.stderr = self._streams

    def hide(self):
        """Removes the line. The caller holds `lock`."""
        if self._shown:
            self._terminal.write(CLEAR)
            self._terminal.flush()
            self._shown = False

    def _show(self):
        begin = time.monotonic()
        wait = FIRST_S
        while not self._end.wait(wait):
            wait = EVERY_S
            text = self.text(time.monotonic() - begin)
            if text is None:
                return
            with self.lock:
                self._terminal.write(CLEAR + text)
                self._terminal.flush()
                self._shown = True


class Rate:
    """Turns a growing count into "1,234 rows, 567 rows/s"; `what` is the noun."""

    def __init__(self, what="rows"):
        self.what = what
        self._before = None

    def text(self, n):
        now = time.monotonic()
        rate = ""
        if self._before and n > self._before[1]:
            rate = f", {(n - self._before[1]) / (now - self._before[0]):,.0f} {self.what}/s"
        self._before = now, n
        return f"{n:,} {self.what}{rate}"


def run_line(run):
    """The progress line of a Run: rows taken from it, or rows read while none were taken."""
    from headrace.data.context import DataContext

    taken, read = Rate(), Rate("rows read")

    def text(seconds):
        try:
            known = json.loads(run.stats())
        except InvalidArgument:  # closed meanwhile
            return None
        if not known:
            return None
        rows = known["taken_rows"]
        return f"{seconds:.0f} s: " + (taken.text(rows) if rows else read.text(known["rows_read"]))

    return ProgressLine(text, on=DataContext.get_current().enable_progress_bars)
