"""Validation of checkpoints while the training goes on: TorchTrainer(validation_config=...) and
report(validation=...), under Ray's names.

The driver runs the user's function for one checkpoint after another, each in a process of its own
(_validation.py) that dies with the driver. Which checkpoints wait for it stands in progress.json, so the next
driver of a run validates those that this one did not finish. In local mode the function runs within report().
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from headrace.places import plainly
from headrace.train import context
from headrace.train.checkpoint import Checkpoint
from headrace.train.reported_checkpoint import ReportedCheckpointStatus as Status
from headrace.train.storage import Kept, RunStorage
from headrace.train.validation_config import ValidationConfig
from headrace.udf import sending

LOOK_S = 0.1  # between two looks at a process


def called(fn: Callable, checkpoint: Checkpoint, kwargs: dict[str, Any]) -> dict[str, Any]:
    """The metrics that the user's function returns."""
    metrics = fn(checkpoint, **kwargs)
    if not isinstance(metrics, dict):
        raise TypeError(
            f"the validation function: expected a dict of metrics, found {type(metrics).__name__}"
        )
    return metrics


class Validations:
    """The validations of one fit(). Without a config it does nothing."""

    def __init__(self, storage: RunStorage, config: ValidationConfig | None):
        self._storage = storage
        self._config = config
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headrace-train-validation", daemon=True)
        self._begun = False
        waiting = len(storage.waiting())
        if waiting and config is None:
            print(
                f"{waiting} checkpoints of run {storage.name!r} wait for validation; give the trainer its "
                "validation_config",
                file=sys.stderr,
            )

    def begin(self) -> None:
        """Validates from now on, in the background."""
        if self._config is not None and not self._begun:
            self._begun = True
            self._thread.start()

    def finish(self) -> None:
        """Waits until no checkpoint waits."""
        if self._begun:
            with self._storage.changed:
                self._storage.changed.wait_for(lambda: not self._storage.waiting())

    def close(self) -> None:
        """Ends a validation that is under way; its checkpoint goes on waiting."""
        self._stopped.set()
        if self._begun:
            with self._storage.changed:
                self._storage.changed.notify_all()
            self._thread.join()

    def run_here(self) -> None:
        """Validates what waits, in this thread, outside of the train loop's session."""
        while self._config is not None and (waiting := self._storage.waiting()):
            kept, kwargs, _ = self._task(waiting[0])
            session = context._session
            context.set_session(None)
            try:
                metrics = called(self._config.fn, kept.checkpoint, kwargs)
            except Exception:
                self._end(kept, Status.VALIDATION_FAILED, error=traceback.format_exc())
            else:
                self._end(kept, Status.VALIDATED, metrics)
            finally:
                context.set_session(session)

    def _task(self, kept: Kept) -> tuple[Kept, dict[str, Any], float | None]:
        return kept, *self._config.task(kept.validation["wanted"])

    def _end(
        self, kept: Kept, status: Status, metrics: dict[str, Any] | None = None, error: str = ""
    ) -> None:
        if error:
            print(f"validation of {kept.checkpoint.path} failed:\n\n{error.rstrip()}", file=sys.stderr)
        try:
            self._storage.validated(kept, status.value, metrics or {}, error)
        except Exception as e:  # a full disk, or metrics that JSON cannot hold
            text = f"its metrics cannot be stored: {type(e).__name__}: {e}"
            print(f"validation of {kept.checkpoint.path} failed: {text}", file=sys.stderr)
            self._storage.validated(kept, Status.VALIDATION_FAILED.value, {}, text, write=False)

    # --- the thread

    def _run(self) -> None:
        while True:
            with self._storage.changed:
                self._storage.changed.wait_for(lambda: self._stopped.is_set() or self._storage.waiting())
                if self._stopped.is_set():
                    return
                kept = self._storage.waiting()[0]
            try:
                self._validate(*self._task(kept))
            except Exception:
                self._end(kept, Status.VALIDATION_FAILED, error=traceback.format_exc())

    def _validate(self, kept: Kept, kwargs: dict[str, Any], timeout_s: float | None) -> None:
        """One checkpoint. Nothing ends when close() comes first."""
        payload = {
            "call": sending.dumps((self._config.fn, kept.checkpoint, kwargs)),
            "storage_options": plainly(self._storage.options),
            "cwd": os.getcwd(),
            "sys_path": [os.path.abspath(p) for p in sys.path],
            "argv": list(sys.argv),
        }
        process, conn = _started()
        try:
            with suppress(BrokenPipeError):  # it has ended: below
                conn.send_bytes(pickle.dumps(payload))
            until = None if timeout_s is None else time.monotonic() + timeout_s
            while not conn.poll(LOOK_S):
                if self._stopped.is_set():
                    return
                if until is not None and time.monotonic() > until:
                    text = f"no result within timeout_s={timeout_s}"
                    self._end(kept, Status.VALIDATION_TIMEOUT, error=text)
                    return
            try:
                metrics, error = pickle.loads(conn.recv_bytes())
            except (EOFError, OSError):
                metrics, error = None, f"its process {_how_it_ended(process.wait())}"
            self._end(kept, Status.VALIDATION_FAILED if error else Status.VALIDATED, metrics, error)
        finally:
            conn.close()
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _started() -> tuple[subprocess.Popen, Connection]:
    mine, its = socket.socketpair()
    with its:
        command = ["-m", "headrace.train._validation", str(its.fileno()), str(os.getpid())]
        process = subprocess.Popen(
            [sys.executable, *command],
            pass_fds=[its.fileno()],
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C goes to the driver
        )
    return process, Connection(mine.detach())


def _how_it_ended(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code} before the function returned"
    return f"was killed by signal {-code} ({signal.Signals(-code).name})"


__all__ = ["Validations", "called"]
