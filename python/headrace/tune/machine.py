"""What this machine has for a trainer: cores and GPUs, and what its cores and GPUs do meanwhile."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from dataclasses import asdict, dataclass, field
from typing import Any

from headrace import _core
from headrace.udf import gpus

KEEP_TWO_FROM = 8  # cores of a trainer process from which on two of them are kept for it
GPU_EVERY_MS = 500


@dataclass(frozen=True)
class Machine:
    """cores: CPUs that this process may use. gpus: devices that it sees; each has a trainer process."""

    cores: int
    gpus: int

    @property
    def trainers(self) -> int:
        return max(1, self.gpus)

    @property
    def workers(self) -> int:
        """The sensible number of worker processes of one trainer: its share of the cores, less the one or two
        that its own thread and its GPU's driver use.
        """
        share = self.cores // self.trainers
        return max(1, share - (2 if share >= KEEP_TWO_FROM else 1))

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "processor": _processor(), "python": platform.python_version()}


def this_machine() -> Machine:
    return Machine(cores=_core.cpus_allowed(), gpus=len(gpus.visible()))


def _processor():
    try:
        with open("/proc/cpuinfo") as f:
            return next(line.split(":", 1)[1].strip() for line in f if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()


def cores_busy() -> dict[int, tuple[int, int]]:
    """Of each core of this process: (ticks in use, all ticks) since the system's start."""
    found = {}
    with open("/proc/stat") as f:
        for line in f:
            name, *ticks = line.split()
            if name.startswith("cpu") and name != "cpu":
                values = [int(t) for t in ticks[:8]]
                found[int(name[3:])] = (sum(values) - values[3] - values[4], sum(values))
    return {cpu: found[cpu] for cpu in sorted(os.sched_getaffinity(0)) if cpu in found}


@dataclass
class GpuWatch:
    """Use and memory of the GPUs by nvidia-smi, where there is one. A context manager."""

    shares: list[float] = field(default_factory=list)  # mean over the GPUs, of each reading
    most_bytes: int = 0
    _process: Any = None
    _rest: bytes = b""

    def __enter__(self) -> GpuWatch:
        program = shutil.which("nvidia-smi")
        if program:
            query = "--query-gpu=index,utilization.gpu,memory.used"
            self._process = subprocess.Popen(
                [program, query, "--format=csv,noheader,nounits", f"--loop-ms={GPU_EVERY_MS}"],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                stdin=subprocess.DEVNULL,
            )
            os.set_blocking(self._process.stdout.fileno(), False)
        return self

    def __exit__(self, *_: Any) -> None:
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process.stdout.close()

    def read(self) -> None:
        """Takes what nvidia-smi has written since."""
        if not self._process:
            return
        while text := self._process.stdout.read(65536):  # None: nothing more now
            self._rest += text
        *lines, self._rest = self._rest.split(b"\n")
        readings = [r for r in map(_reading, lines) if r]
        if readings:
            rounds = max(1, len(readings) // max(1, len({r[0] for r in readings})))
            for i in range(rounds):
                of = readings[i * len(readings) // rounds : (i + 1) * len(readings) // rounds]
                self.shares.append(sum(r[1] for r in of) / len(of) / 100)
            self.most_bytes = max(self.most_bytes, *(r[2] << 20 for r in readings))


def _reading(line):
    """(GPU, per cent, MiB), or None for a line of another kind."""
    try:
        index, use, memory = line.decode().split(",")
        return int(index), float(use), int(memory)
    except ValueError:
        return None
