"""One line on the terminal while the workers train: what was taken so far, and how fast. Nothing where
there is no terminal.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any, TextIO

FIRST_S = 1.0  # work shorter than this shows nothing
EVERY_S = 0.5
CLEAR = "\r\x1b[K"


class _Above:
    """A terminal whose lines appear above the progress line."""

    def __init__(self, progress: Progress, stream: TextIO):
        self._progress = progress
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with self._progress.lock:
            self._progress.hide()
            n = self._stream.write(text)
            self._stream.flush()
            return n


class Progress:
    """A context manager; `splits` are the _core.Splits that the workers read."""

    def __init__(self, splits: list[Any], n_workers: int):
        self.splits = splits
        self.n_workers = n_workers
        self.lock = threading.Lock()
        self.on = sys.stdout.isatty() and sys.stderr.isatty() and bool(splits)
        self._shown = False
        self._end = threading.Event()

    def __enter__(self) -> Progress:
        if self.on:
            self._streams = sys.stdout, sys.stderr
            self._terminal = sys.stderr
            sys.stdout, sys.stderr = (_Above(self, s) for s in self._streams)
            self._thread = threading.Thread(target=self._show, name="headrace-train-progress", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_) -> None:
        if self.on:
            self._end.set()
            self._thread.join()
            self.hide()
            sys.stdout, sys.stderr = self._streams

    def hide(self) -> None:
        """With the lock held."""
        if self._shown:
            self._terminal.write(CLEAR)
            self._terminal.flush()
            self._shown = False

    def _show(self) -> None:
        begin, before = time.monotonic(), None
        wait = FIRST_S
        while not self._end.wait(wait):
            wait = EVERY_S
            now = time.monotonic()
            try:
                epoch, rows = self._where()
            except Exception:  # the splits are closed: the end is near
                return
            rate = ""
            if before and before[1] == epoch and rows > before[2]:
                rate = f", {(rows - before[2]) / (now - before[0]):,.0f} rows/s"
            before = now, epoch, rows
            with self.lock:
                text = f"epoch {epoch}, {rows:,} rows{rate}" if rows or epoch > 1 else "starting"
                text = f"{self.n_workers} workers, {now - begin:.0f} s: {text}"
                self._terminal.write(CLEAR + text)
                self._terminal.flush()
                self._shown = True

    def _where(self) -> tuple[int, int]:
        """Epoch and rows taken in it, of the split that has taken most."""
        known = [json.loads(s.stats()) for s in self.splits]
        return max((k["epoch"] + 1, sum(k["rows"])) for k in known)
