"""Starts, watches and ends the workers of a trainer, with PyTorch's elastic agent in this process.

The agent starts `python -m headrace.train._worker`, so a script needs no `if __name__ == "__main__"`:
functions of the script travel by value (cloudpickle). The agent prints the output of workers with their rank
before each line.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import pickle
import shutil
import signal
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path
from typing import Any

from headrace import _core
from headrace.optional import package
from headrace.train.control import Control, WorkerFailure
from headrace.train.owner import Lock, has_ended
from headrace.train.result import WorkerGroupError
from headrace.train.watch import Watch

PREFIX = "headrace-train-"  # of folders with payload and output of workers: PREFIX, driver's name, "-", ...
OWNER = "owner"  # the file in the folder that the driver locks
SHUTDOWN_S = 5  # between SIGTERM and SIGKILL for workers that must end
COLLECTIVES = (f"torch{os.sep}distributed", "XGBoostError", "LightGBMError")  # in tracebacks
CAUSE_S = 1.0  # a worker's last report may arrive this long after the launcher sees its end


class _Quiet:
    """Silences torch's agent, which logs each end of a process several times; the user gets one exception."""

    def __enter__(self):
        names = [n for n in logging.root.manager.loggerDict if n.startswith("torch.distributed.elastic")]
        self.levels = {n: logging.getLogger(n).level for n in ["torch.distributed.elastic", *names]}
        if not os.environ.get("HEADRACE_DEBUG"):
            for name in self.levels:
                logging.getLogger(name).setLevel(logging.CRITICAL)

    def __exit__(self, *_):
        for name, level in self.levels.items():
            logging.getLogger(name).setLevel(level)


class _Signals:
    """Restores the signal handlers that the agent replaces to end its workers."""

    NAMES = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT")

    def __enter__(self):
        self.kept = {}
        if threading.current_thread() is threading.main_thread():
            self.kept = {s: signal.getsignal(s) for s in (getattr(signal, n) for n in self.NAMES)}

    def __exit__(self, *_):
        for number, handler in self.kept.items():
            if handler is not None:
                signal.signal(number, handler)


def _launch_config(n_workers: int, log_dir: str):
    logs = package("torch.distributed.elastic.multiprocessing", "a trainer")
    config = package("torch.distributed.launcher.api", "a trainer").LaunchConfig
    wanted = {
        "min_nodes": 1,
        "max_nodes": 1,
        "nproc_per_node": n_workers,
        "run_id": uuid.uuid4().hex,
        "role": "rank",
        "rdzv_backend": "c10d",
        "rdzv_endpoint": "localhost:0",
        "max_restarts": 0,  # the trainer restarts, with new splits, from a checkpoint
        "monitor_interval": 0.05,
        "local_addr": "localhost",
        "log_line_prefix_template": "(rank ${rank}) ",
        "logs_specs": logs.DefaultLogsSpecs(log_dir=log_dir, tee=logs.Std.ALL),
        "shutdown_timeout": SHUTDOWN_S,
    }
    known = {f.name for f in dataclasses.fields(config)}
    return config(**{k: v for k, v in wanted.items() if k in known})


def _how_it_ended(exitcode: int) -> str:
    if exitcode >= 0:
        return f"ended with exit code {exitcode} before its train loop returned"
    try:
        name = signal.Signals(-exitcode).name
    except ValueError:
        name = "unknown"
    return f"was killed by signal {-exitcode} ({name})"


def _wait_for_reports(control: Control, ended: dict[int, Any]) -> None:
    """A worker reports before it exits, but the report may still be on its way."""
    until = time.monotonic() + CAUSE_S
    exited = {r for r, f in ended.items() if f.exitcode >= 0}
    while time.monotonic() < until and exited - {f.rank for f in control.failures}:
        time.sleep(0.02)


def _failed(control: Control, children: dict[int, Any], watched: dict[int, str]) -> WorkerGroupError:
    """The exception for a failed run. Its cause is the worker that held up the others, then the one that
    ended without a report, otherwise the worker that reported first.
    """
    ended = {r: f for r, f in children.items() if f.exitcode != -signal.SIGTERM} or children
    _wait_for_reports(control, ended)
    reported = {f.rank for f in control.failures}
    causes = _causes(control.failures)
    watched = {r: text for r, text in watched.items() if r not in children or "no progress" in text}
    parts, cause = list(watched.values()), None
    for rank, f in sorted(ended.items()):
        if rank not in reported and rank not in watched:
            parts.append(f"rank {rank} (pid {f.pid}) {_how_it_ended(f.exitcode)}")
    if not parts:
        for f in _first(causes):
            parts.append(f"rank {f.cause} failed{_left_alone(control, f)}:\n\n{f.traceback.rstrip()}")
            cause = f.exception
    failures = {f.cause: f.exception or f.traceback for f in causes}
    failures.update({r: text for r, text in watched.items()})
    silent = ended.keys() - reported - failures.keys()
    failures.update({r: _how_it_ended(ended[r].exitcode) for r in sorted(silent)})
    error = WorkerGroupError("; ".join(parts), failures)
    error.__cause__ = cause
    return error


def _causes(failures: list[WorkerFailure]) -> list[WorkerFailure]:
    """One failure for each rank that is a cause, as that rank reported it, or else another one that raised
    the same.
    """
    found: dict[int, WorkerFailure] = {}
    for f in failures:
        if f.cause not in found or f.rank == f.cause:
            found[f.cause] = f
    return list(found.values())


def _first(failures: list[WorkerFailure]) -> list[WorkerFailure]:
    """The failure that the others follow from, if there is one. Reports of workers may cross; a worker that
    hears of another's end (PeerError) is not the cause.
    """
    causes = [f for f in failures if not isinstance(f.exception, _core.PeerError)]
    return (causes or failures)[:1]


def _left_alone(control: Control, failure: WorkerFailure) -> str:
    """What to say of a worker whose collective failed because another one had returned."""
    returned = sorted(control.return_values)
    if not returned or not any(sign in failure.traceback for sign in COLLECTIVES):
        return ""
    who = f"rank{'s' if len(returned) > 1 else ''} {', '.join(map(str, returned))}"
    return f" in a collective, after the train loop of {who} had returned: all must call it equally often"


def _kill_survivors(control: Control) -> None:
    """Kills workers that the agent lost. Normally there are none: the agent ends all of them."""
    for pid in control.pids.values():
        try:
            with open(f"/proc/{pid}/stat") as f:
                parent = int(f.read().rpartition(")")[2].split()[1])
            if parent == os.getpid():
                os.kill(pid, signal.SIGKILL)
        except (OSError, ValueError):
            pass


def _ended_in_silence(control: Control, rank: int) -> str:
    return f"rank {rank} (pid {control.pids.get(rank, 0)}) {_how_it_ended(0)}"


def _new_folder() -> tuple[str, Lock]:
    """A new folder of this driver, with a file `owner` that the driver locks before it gets that name."""
    folder = tempfile.mkdtemp(prefix=f"{PREFIX}{_core.process_name()}-")
    new = os.path.join(folder, OWNER + ".new")
    lock = Lock(new, create=True)
    if lock.state:
        os.rename(new, os.path.join(folder, OWNER))
    return folder, lock


def _remove_leftovers() -> None:
    """Removes folders of drivers that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        if has_ended(folder / OWNER, folder.name.removeprefix(PREFIX).rpartition("-")[0]):
            shutil.rmtree(folder, ignore_errors=True)


def run_workers(payload: dict[str, Any], control: Control, n_workers: int) -> None:
    """Runs one worker per rank to its end. Raises WorkerGroupError if one fails. All workers have ended
    when it returns or raises.
    """
    elastic = package("torch.distributed.elastic.multiprocessing", "a trainer")
    launcher = package("torch.distributed.launcher.api", "a trainer")
    _remove_leftovers()
    folder, lock = _new_folder()
    path = os.path.join(folder, "payload")
    payload = {
        **payload,
        "address": control.address,
        "token": control.token,
        "cwd": os.getcwd(),
        "sys_path": [os.path.abspath(p) for p in sys.path],
        "argv": list(sys.argv),
    }
    watch = Watch(control)
    payload["watch"] = watch.address, watch.token
    try:
        with open(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600), "wb") as f:
            pickle.dump(payload, f)
        config = _launch_config(n_workers, os.path.join(folder, "logs"))
        command = ["-m", "headrace.train._worker", path, str(os.getpid())]
        with _Quiet(), _Signals():
            launcher.elastic_launch(config, sys.executable)(*command)
        silent = {
            r: _ended_in_silence(control, r) for r in range(n_workers) if not control.heard_of(r, CAUSE_S)
        }
        if control.failures or silent:  # a worker reported a failure, or nothing, and exited with code 0
            error = _failed(control, {}, silent)
            raise error from error.__cause__
    except elastic.errors.ChildFailedError as e:
        error = _failed(control, e.failures, watch.ended)
        raise error from error.__cause__
    except elastic.api.SignalException as e:
        if e.sigval == signal.SIGINT:
            raise KeyboardInterrupt from None
        raise SystemExit(128 + e.sigval) from None
    finally:
        watch.close()
        _kill_survivors(control)
        shutil.rmtree(folder, ignore_errors=True)
        lock.close()


__all__ = ["WorkerFailure", "run_workers"]
