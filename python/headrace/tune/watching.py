"""Runs one configuration in a process of its own and watches it: messages, CPU, memory, GPU, silence.

Tests: test_tune.py.
"""

from __future__ import annotations

import json
import os
import pickle
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.tune.machine import GpuWatch, cores_busy
from headrace.tune.processes import Watch, kill_all

EVERY_S = 0.2  # between samples of the processes
MEMORY_EVERY_S = 1.0
END_S = 10.0  # a process that has sent its last message and does not end is killed


@dataclass
class Run:
    """What a process sent, and what was seen of it.

    outcome: "done", "stopped" (its time was up), "error", "died", "silent" (killed) or "interrupted". text:
    why. batches: (epoch, asked, came, done, rows). Times are those of time.monotonic().
    """

    outcome: str = "done"
    text: str = ""
    begin: float | None = None
    made: float | None = None
    ended: float | None = None
    load_s: float = 0.0
    batches: list[tuple[int, float, float, float, int]] = field(default_factory=list)
    epochs: list[dict[str, Any]] = field(default_factory=list)
    floor: list[float] = field(default_factory=list)
    target: dict[str, Any] | None = None
    watch: Watch | None = None
    per_core: list[float] = field(default_factory=list)
    gpu: list[float] = field(default_factory=list)
    gpu_bytes: int = 0

    def take(self, message: dict[str, Any]) -> None:
        event = message["event"]
        if event == "batches":
            self.batches += [(int(b[0]), b[1], b[2], b[3], int(b[4])) for b in message["batches"]]
        elif event == "epoch":
            self.epochs.append(message)
        elif event == "floor":
            self.floor = message["seconds"]
        elif event == "loaded":
            self.load_s = message["seconds"]
        elif event == "target":
            self.target = message["target"]
        elif event == "error":
            self.outcome, self.text = "error", message["text"]
        elif event == "stopped":
            self.outcome = "stopped"
        elif event == "begin":
            self.begin = message["time"]
        elif event == "made":
            self.made = message["time"]
        elif event == "end":
            self.ended = message["time"]


def run(request: dict[str, Any], env: dict[str, str], log: Path, silence_s: float, show: Any = None) -> Run:
    """Runs a request to its end. log: the file that gets the process's output. silence_s: a process that
    sends no batch for so long is killed. show(run): is called now and then. Ctrl-C ends the process; the Run
    has outcome "interrupted".
    """
    made = Run()
    ours, theirs = os.pipe()
    pickled = pickle.dumps(request)
    with open(log, "wb") as output, GpuWatch() as gpu:
        process = subprocess.Popen(
            [sys.executable, "-m", "headrace.tune.child", str(theirs), str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=[theirs],
            env={**os.environ, **env},
            start_new_session=True,
        )
        os.close(theirs)
        try:
            _Watcher(made, process, ours, gpu, silence_s, show).watch(pickled)
        except KeyboardInterrupt:
            made.outcome, made.text = "interrupted", "stopped by Ctrl-C"
        finally:
            os.close(ours)
            _end(process)
        made.gpu, made.gpu_bytes = gpu.shares, gpu.most_bytes
    if made.outcome == "done" and (process.returncode or made.ended is None and made.target is None):
        made.outcome, made.text = "died", _how(process.returncode)
    return made


def _end(process):
    """Ends the process with all that it started."""
    if process.poll() is None:
        kill_all(process.pid)
    try:
        os.killpg(process.pid, signal.SIGKILL)  # workers that have outlived it
    except ProcessLookupError:
        pass
    process.wait()


def _how(code):
    if code is not None and code < 0:
        name = signal.Signals(-code).name
        hint = "; the system kills so when memory is short" if code == -signal.SIGKILL else ""
        return f"the process died of {name}{hint}"
    return f"the process ended with exit code {code}"


class _Watcher:
    def __init__(self, run, process, pipe, gpu, silence_s, show):
        self.run, self.process, self.pipe, self.gpu = run, process, pipe, gpu
        self.silence_s, self.show = silence_s, show
        self.rest = b""
        self.cores = cores_busy()

    def watch(self, pickled):
        self.run.watch = Watch(self.process.pid)
        try:
            self.process.stdin.write(pickled)
            self.process.stdin.close()
        except BrokenPipeError:
            pass  # its end says why
        heard = sampled = time.monotonic()
        remembered = 0.0
        pipe = select.poll()  # select() takes no descriptor from 1024 on
        pipe.register(self.pipe, select.POLLIN)
        while True:
            now = time.monotonic()
            ready = pipe.poll(1000 * max(0.0, sampled + EVERY_S - now))
            now = time.monotonic()
            if ready:
                if not self.receive():
                    break
                heard = now
            elif self.process.poll() is not None:
                break  # a worker that has outlived it holds the pipe
            elif now - heard > self.silence_s:
                self.run.outcome = "silent"
                what = "no batch" if self.run.made else "no loader"
                self.run.text = f"{what} for {self.silence_s:g} s; its processes were ended"
                kill_all(self.process.pid)
                break
            if now - sampled >= EVERY_S:
                with_memory = now - remembered >= MEMORY_EVERY_S
                if self.run.ended is None:
                    self.run.watch.sample(with_memory)
                remembered = now if with_memory else remembered
                sampled = now
                self.gpu.read()
                if self.show:
                    self.show(self.run)
        try:
            self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            kill_all(self.process.pid)

    def receive(self):
        """Takes messages; False at their end."""
        data = os.read(self.pipe, 1 << 16)
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if message["event"] == "begin":
                self.cores = cores_busy()
            if message["event"] == "end":
                self.run.watch.sample(True)
                self.per_core()
            self.run.take(message)
        return bool(data)

    def per_core(self):
        """The share of each core that was in use from the loop's begin to its end, by whomever."""
        now = cores_busy()
        pairs = ((self.cores[cpu], now[cpu]) for cpu in now if cpu in self.cores)
        self.run.per_core = [(b[0] - a[0]) / max(1, b[1] - a[1]) for a, b in pairs]
