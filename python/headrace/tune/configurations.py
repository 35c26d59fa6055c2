"""Which configurations are measured, and in which order.

The loader as it is, torch's without workers, the sensible default for the cores and GPUs, and Headrace come
first: whoever stops early has these. Then one option changes at a time, from the best so far; an option stays
changed if it gains more than the noise. More workers and deeper prefetching are left out when the step no
longer waits, unless thorough is set.

Tests: test_tune.py.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headrace.tune.machine import Machine

if TYPE_CHECKING:
    from headrace.tune.results import Result

GAIN = 1.05  # a smaller ratio of two speeds is noise
FED = 0.02  # share of the time that the step waits, below which it is fed
IDLE = 0.6  # share of a trainer's cores, below which they are idle
OVER = 1.5  # threads that want to run, for each core, from which on they are too many
KNOBS = ("num_workers", "prefetch_factor", "persistent_workers", "pin_memory", "multiprocessing_context")
ONE_THREAD = {
    "DASK_SCHEDULER": "synchronous",
    **dict.fromkeys(
        ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1"
    ),
    **dict.fromkeys(("BLOSC_NTHREADS", "POLARS_MAX_THREADS", "RAYON_NUM_THREADS"), "1"),
}

GIVEN, TORCH, HEADRACE_LOADER, HEADRACE = "given", "torch", "headrace.torch", "headrace"


@dataclass(frozen=True)
class Configuration:
    """library: who loads: "given" (what make_loader returns), "torch", "headrace.torch" (its DataLoader) or
    "headrace" (from_torch, or a Headrace Dataset). options: arguments of the loader. env: variables of the
    process.
    """

    name: str
    library: str
    options: dict[str, Any] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)

    @property
    def ours(self) -> bool:
        return self.library in (HEADRACE, HEADRACE_LOADER)


@dataclass
class Target:
    """What make_loader returns, as a process that called it says.

    kind: "loader" (a torch DataLoader), "dataset" (map-style), "stream" (an IterableDataset), "headrace" or
    "iterable". options: of a DataLoader. takes: options that make_loader itself takes. converts: whether
    from_torch can replace the loader, else why_not. spawns: whether processes that are no forks can import
    the dataset. pins: whether there is a device to pin memory for.
    """

    kind: str
    options: dict[str, Any] = field(default_factory=dict)
    takes: list[str] = field(default_factory=list)
    converts: bool = False
    why_not: str = ""
    spawns: bool = True
    pins: bool = False
    batches: int | None = None
    libraries: list[str] = field(default_factory=list)

    @property
    def is_torch(self) -> bool:
        return self.kind in ("loader", "dataset", "stream")

    def knobs(self) -> list[str]:
        """The options that can be changed."""
        if self.takes:
            return [k for k in KNOBS if k in self.takes]
        return list(KNOBS) if self.is_torch else []


Plan = Generator[Configuration, "Result", None]


def plan(target: Target, machine: Machine, thorough: bool, notes: list[str]) -> Plan:
    """Yields the configurations; send() gives each one's Result. notes: gets what is left out, and why."""
    if target.kind == "headrace":
        yield from _of_headrace(target)
        return
    knobs = target.knobs()
    if target.kind in ("loader", "iterable"):
        yield Configuration("as given", GIVEN)
    if "num_workers" in knobs:
        sweep = _Sweep(target, machine, thorough, notes)
        yield from sweep.run()


def _of_headrace(target):
    yield Configuration("Headrace, as given", GIVEN)
    yield Configuration("Headrace, prefetch_batches=4", HEADRACE, {"prefetch_batches": 4})


class _Sweep:
    """The configurations of a loader with workers."""

    def __init__(self, target, machine, thorough, notes):
        self.target, self.machine, self.thorough, self.notes = target, machine, thorough, notes
        self.knobs = target.knobs()
        self.best = None  # (Configuration, Result)
        self.seen = set()

    def run(self) -> Plan:
        yield from self.one(num_workers=0)
        default = yield from self.one(num_workers=self.machine.workers, **self.default())
        yield from self.ours()
        if default and default.oversubscribed:
            yield from self.one_thread(default)
        for n in self.numbers():
            yield from self.one(**{**self.default(), "num_workers": n})
        if self.best and self.best[0].options.get("num_workers", 0) > 0:
            yield from self.others()

    def default(self):
        """Of the sensible configuration, beside num_workers."""
        options = {"persistent_workers": True}
        if self.target.pins:
            options["pin_memory"] = True
        return {k: v for k, v in options.items() if k in self.knobs}

    def share(self):
        """The trainer's share of the cores."""
        return max(1, self.machine.cores // self.machine.trainers)

    def is_idle(self, result):
        """Whether workers for each core leave the step waiting, and cores idle: the dataset waits itself."""
        fed = result.measured and result.wait_share <= FED
        return not fed and not result.cpu_cores > IDLE * self.share()

    def numbers(self):
        """Numbers of workers from few to twice the trainer's share of the cores, which is too many."""
        share = self.share()
        usual = {1, self.machine.workers // 2, self.machine.workers, share, 2 * share}
        return sorted(n for n in usual if n >= max(1, share // 8))

    def others(self) -> Plan:
        """The other options, each from the best so far."""
        for factor in (4, 8, 1):
            yield from self.change(prefetch_factor=factor)
        yield from self.change(persistent_workers=False)
        if self.target.pins:
            yield from self.change(pin_memory=not self.best[0].options.get("pin_memory", False))
        for context in ("forkserver", "spawn"):
            if self.target.spawns:
                yield from self.change(multiprocessing_context=context)
        if not self.target.spawns and "multiprocessing_context" in self.knobs:
            self.notes.append(
                "multiprocessing_context is left out: make_loader is part of a program's __main__, which "
                "processes that are no forks cannot import"
            )

    def change(self, **options) -> Plan:
        if set(options) <= set(self.knobs):
            yield from self.one(**{**self.best[0].options, **options})

    def one(self, **options) -> Plan:
        """One configuration of the loader's own library; its Result, or None if it is left out."""
        options = {k: options[k] for k in self.knobs if k in options}
        key = tuple(sorted(options.items()))
        if key in self.seen:
            return None
        self.seen.add(key)
        made = Configuration(_name("", options), TORCH if self.target.is_torch else GIVEN, options)
        if self.is_needless(options):
            self.notes.append(
                f"{made.name} is left out: the step already waits for less than {FED:.0%} of its time"
            )
            return None
        result = yield made
        if result and result.measured and (not self.best or _is_better(result, self.best[1])):
            self.best = made, result
        return result

    def is_needless(self, options):
        """Whether a fed step cannot gain: more workers, or more batches ahead."""
        if self.thorough or not self.best or self.best[1].wait_share > FED:
            return False
        now = self.best[0].options
        return (
            options.get("num_workers", 0) > now.get("num_workers", 0) or options.get("prefetch_factor", 2) > 2
        )

    def ours(self) -> Plan:
        if self.target.is_torch:
            if self.target.converts:
                result = yield Configuration("Headrace: from_torch", HEADRACE)
                if result and self.is_idle(result):
                    n = 2 * self.share()
                    yield Configuration(
                        f"Headrace: from_torch, concurrency={n}", HEADRACE, {"concurrency": n}
                    )
            else:
                self.notes.append(f"from_torch is left out: {self.target.why_not}")
            options = {"num_workers": self.machine.workers}
            yield Configuration(_name("headrace.torch.DataLoader", options), HEADRACE_LOADER, options)

    def one_thread(self, default) -> Plan:
        """The default with one thread for each worker; dask, OpenMP and others start one for each core."""
        options = {"num_workers": self.machine.workers, **self.default()}
        options = {k: options[k] for k in self.knobs if k in options}
        name = _name("", options) + ", one thread a worker"
        made = Configuration(name, TORCH if self.target.is_torch else GIVEN, options, ONE_THREAD)
        result = yield made
        if result and result.measured and self.best and _is_better(result, self.best[1]):
            self.best = made, result


def _is_better(one, other):
    """More samples a second beyond the noise."""
    return one.samples_per_s > GAIN * other.samples_per_s


def _name(library, options):
    return " ".join([library] * bool(library) + [", ".join(f"{k}={v}" for k, v in options.items())])
