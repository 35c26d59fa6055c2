"""DataLoader: torch's DataLoader with warm workers and a state to resume from."""

from __future__ import annotations

import collections
import inspect
import itertools
import random
import sys
import warnings
import weakref
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import _utils
from torch.utils.data.dataloader import _DatasetKind

from headrace._core import InvalidArgument, MismatchError, TypeMismatchError
from headrace.data import taken_ahead
from headrace.settings import check
from headrace.torch import torchdata_state
from headrace.torch import workers as processes
from headrace.torch.worker import fetcher, kind_of, state_of
from headrace.udf import starter

FORM = 1  # of the state
_KINDS = {  # of torch's arguments
    "num_workers": "int",
    "collate_fn": "function",
    "worker_init_fn": "function",
    "timeout": "float",
    "prefetch_factor": "int",
}


def _check_types(dataset, given):
    """Raises TypeMismatchError, with the argument's name, where torch fails in the loop or with words of
    Python's.
    """
    if not hasattr(dataset, "__getitem__") and not isinstance(dataset, Iterable):
        raise TypeMismatchError(
            f"DataLoader: dataset: expected a map-style or iterable dataset, found {dataset!r}"
        )
    for name, kind in _KINDS.items():
        check(f"DataLoader: {name}", given.get(name), f"{kind}|None")
    for name in ("sampler", "batch_sampler"):
        if not isinstance(given.get(name), Iterable | None):
            raise TypeMismatchError(f"DataLoader: {name}: expected an iterable, found {given[name]!r}")
    if not isinstance(given.get("generator"), torch.Generator | None):
        raise TypeMismatchError(
            f"DataLoader: generator: expected a torch.Generator, found {given['generator']!r}"
        )


class DataLoader(TorchLoader[Any]):
    """torch.utils.data.DataLoader, with state_dict() and load_state_dict().

    Batches come in torch's order. With worker processes, the random generators of torch, numpy and random
    are seeded for each batch of a map-style dataset: batches do not depend on num_workers, nor on a resume.

    Args:
        workers: "processes", "threads" (map-style datasets only), or None for threads where Python runs
            without the GIL and the dataset is map-style, and processes elsewhere.
        others: as torch's. multiprocessing_context other than "fork": the first workers are no forks of this
            process, and wait for an import of torch. in_order=False permits another order; batches still come
            in order.

    Raises:
        PeerError: a worker process died. MismatchError: a state of another dataset or other options.
    """

    def __init__(self, dataset: Any, *args: Any, workers: str | None = None, **kwargs: Any) -> None:
        if workers not in (None, "threads", "processes"):
            raise InvalidArgument(
                f"DataLoader: workers: expected 'threads', 'processes' or None, found {workers!r}"
            )
        _check_types(dataset, inspect.signature(TorchLoader).bind_partial(dataset, *args, **kwargs).arguments)
        super().__init__(dataset, *args, **kwargs)
        if self.timeout and not self.num_workers:
            raise InvalidArgument(
                "DataLoader: timeout: expected 0 with num_workers=0, where the loop makes the batches, "
                f"found {self.timeout!r}"
            )
        if self.num_workers and not self.prefetch_factor:
            raise InvalidArgument("DataLoader: prefetch_factor: expected at least 1, found 0")
        iterable = self._dataset_kind == _DatasetKind.Iterable
        if workers == "threads" and iterable and self.num_workers:
            raise InvalidArgument(
                "DataLoader: workers='threads': expected a map-style dataset; threads would share the one "
                "iterator of an IterableDataset. Use workers='processes' or num_workers=0"
            )
        if workers is None:
            free = not getattr(sys, "_is_gil_enabled", lambda: True)()
            workers = "threads" if free and not iterable else "processes"
        self.workers = workers
        self._groups = []
        self._loaded = None
        self._latest = None  # weakly, the latest iterator: a loop that is left early frees its workers
        self._serial = 0  # of the latest iterator
        self._left = None  # the state of the latest iterator, when that is gone
        self._seed = None  # base_seed of the latest iterator
        if self.num_workers and workers == "processes" and not (self._forks() and starter.may_fork()):
            starter.warm_up(processes.MODULES)

    def __iter__(self) -> Iterator[Any]:
        state, self._loaded = self._loaded, None
        self._latest = self._left = None
        self._serial += 1
        made = _Pass(self, state)
        self._latest = weakref.ref(made)
        return made

    def state_dict(self) -> dict[str, Any]:
        """Where the latest iterator is: its next batch is the first one after load_state_dict()."""
        if self._loaded is not None:
            return dict(self._loaded)
        latest = self._latest and self._latest()
        if latest is not None:
            return latest.state()
        return dict(self._left or {**self._options(), "taken": 0, "epoch": None})

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The next iterator begins at the state. MismatchError: the dataset or options differ.

        A state of torchdata's StatefulDataLoader over a map-style dataset is one, too.
        """
        if torchdata_state.is_one(state):
            self._loaded = self._of_torchdata(state)
            return
        if not isinstance(state, dict) or state.get("form") != FORM:
            raise InvalidArgument(
                "DataLoader.load_state_dict: expected a state of headrace.torch.DataLoader, or of "
                "torchdata's StatefulDataLoader"
            )
        for name, found in self._options().items():
            if state[name] != found:
                raise MismatchError(
                    f"DataLoader.load_state_dict: {name} was {state[name]} when the "
                    f"state was taken, and is {found}"
                )
        if state.get("epoch") is not None and (sampler := _with(self, "set_epoch")):
            sampler.set_epoch(state["epoch"])
        self._loaded = dict(state)

    def _of_torchdata(self, state):
        taken, order = torchdata_state.taken(self, state)
        sampler = _with(self, "set_epoch")
        return {
            **self._options(),
            "taken": taken,
            "epoch": getattr(sampler, "epoch", None) if taken else None,
            "random": _random(_generators(self)),
            "sampler": None,
            "workers": None,
            "turn": 0,
            "order": order,
        }

    @property
    def _is_accelerate_prepared(self):
        """Accelerate's prepare() asks for it, then makes a loader of torch's of the parts of this one."""
        replicas = getattr(self.sampler, "num_replicas", 1)
        advice = "leave the loader out of prepare()"
        if replicas > 1:
            raise InvalidArgument(
                f"DataLoader: its sampler gives this rank its part of {replicas}, and Accelerate's prepare() "
                f"divides that among the ranks once more, so that rows would be lost: {advice}"
            )
        warnings.warn(
            "DataLoader: Accelerate's prepare() makes a loader of torch's of its parts, without its "
            f"workers and its state: {advice}; for several ranks, give it a DistributedSampler",
            UserWarning,
            stacklevel=4,
        )
        return False

    def _options(self):
        iterable = self._dataset_kind == _DatasetKind.Iterable
        return {
            "form": FORM,
            "length": len(self.dataset) if not iterable and hasattr(self.dataset, "__len__") else None,
            "batch_size": self.batch_size,
            "drop_last": self.drop_last,
            "num_workers": self.num_workers if iterable else None,
        }

    def _parts(self):
        return {
            "dataset": self.dataset,
            "collate": self.collate_fn,
            "auto": self._auto_collation,
            "drop": self.drop_last,
            "kind": self._dataset_kind,
            "size": [None] * (self.batch_size or 1),
            "init": self.worker_init_fn,
        }

    def _forks(self):
        context = self.multiprocessing_context
        return context is None or context.get_start_method() == "fork"

    def _group(self):
        """Workers that no iterator uses."""
        self._groups = [g for g in self._groups if g._end.alive]
        for group in self._groups:
            if not group.busy:
                break
        else:
            if self._forks():
                starter.fork_for(processes.MODULES, now=True)
            group = processes.Group(self.num_workers)
            self._groups.append(group)
        group.busy = True
        return group

    def _free(self, group):
        """Keeps a group for the next iterator, or ends it if one is kept already."""
        group.busy = False
        if any(g is not group and not g.busy for g in self._groups):
            self._groups.remove(group)
            group.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_groups": [], "_latest": None, "_left": self.state_dict()}


def _signature():
    """That of torch's DataLoader, and `workers`."""
    theirs = inspect.signature(TorchLoader).parameters.values()
    own = inspect.Parameter("workers", inspect.Parameter.KEYWORD_ONLY, default=None, annotation="str | None")
    return inspect.Signature([*theirs, own])


DataLoader.__signature__ = _signature()  # type: ignore[attr-defined]  # for help() and editors


def _with(loader, *names):
    """The sampler that has these methods, or None."""
    for one in (loader.batch_sampler, getattr(loader.batch_sampler, "sampler", None), loader.sampler):
        if one is not None and all(hasattr(one, name) for name in names):
            return one
    return None


def _generators(loader):
    """The generators of the loader and of its sampler."""
    found = (loader.generator, getattr(_with(loader, "generator"), "generator", None))
    return list({id(g): g for g in found if g is not None}.values())


def _random(generators):
    """Only values that torch.load() accepts: no array of NumPy."""
    name, key, *rest = np.random.get_state()
    return {
        "torch": torch.get_rng_state(),
        "numpy": (name, torch.from_numpy(key.astype(np.int64)), *rest),
        "random": random.getstate(),
        "generators": [g.get_state() for g in generators],
    }


def _set_random(state, generators):
    torch.set_rng_state(state["torch"])
    name, key, *rest = state["numpy"]
    np.random.set_state((name, np.asarray(key, np.uint32), *rest))
    random.setstate(state["random"])
    for generator, one in zip(generators, state["generators"], strict=True):
        generator.set_state(one)


class _Pass:
    """One pass over the dataset."""

    def __init__(self, loader, state):
        self.loader = loader
        self.serial = loader._serial
        self.n = loader.num_workers
        self.iterable = loader._dataset_kind == _DatasetKind.Iterable
        self.group = self.threads = None
        self.ended = False
        self.trainer = taken_ahead.fetcher()  # that iterates over it
        self.before = None  # the state before the last batch, if the trainer may hold it
        self.stateful = None if self.iterable else _with(loader, "state_dict", "load_state_dict")
        if state is not None and not (state["taken"] or "random" in state):
            state = None
        sampler = _with(loader, "set_epoch")
        self.epoch = getattr(sampler, "epoch", None)
        if state and state["epoch"] != self.epoch:
            raise MismatchError(
                f"DataLoader: the state is of the sampler's epoch {state['epoch']}, "
                f"found set_epoch({self.epoch})"
            )
        self._begin(state)
        try:
            self._start(state)
        except BaseException:
            self.close()
            raise

    # --- the order

    def _begin(self, state):
        """Begins the sampler, and skips what the state's iterator gave."""
        generators = _generators(self.loader)
        self.taken = self.drawn = 0
        self.sampler_state = None
        now = None
        if state:
            now = _random(()) | {"generators": []}
            _set_random(state["random"], generators)
        self.random = state["random"] if state else _random(generators)
        if self.stateful and state and state["sampler"] is not None:
            self.stateful.load_state_dict(state["sampler"])
            self.sampler_state = state["sampler"]
        self._draw_seed(state)
        self.order = state.get("order") if state else None  # of another library: the state of its generator
        if self.order is None:
            self.indices = iter(self.loader._index_sampler)
        else:
            self.indices = torchdata_state.order(self.loader, self.order)
        if state:
            if not self.iterable and not self.sampler_state:
                for _ in range(state["taken"]):
                    next(self.indices)
            if not self.iterable and not state["taken"]:  # a sampler may draw its order with the first item
                self.indices = itertools.chain(list(itertools.islice(self.indices, 1)), self.indices)
            self.taken = self.drawn = state["taken"]
            _set_random(now, ())

    def _draw_seed(self, state):
        """Sets base_seed, the seed of the epoch. As in torch, a loader with persistent workers draws one from
        its generator for the first epoch only; the seeds of later epochs follow from it.
        """
        loader = self.loader
        self.undrawn = None  # the seed, if it was not drawn
        if state and state.get("seed") is not None:
            self.undrawn = state["seed"]
        elif not state and loader.persistent_workers and loader._seed is not None:
            self.undrawn = (loader._seed * 6364136223846793005 + 1442695040888963407) % (1 << 63)
        self.base_seed = self.undrawn
        if self.undrawn is None:
            self.base_seed = torch.empty((), dtype=torch.int64).random_(generator=loader.generator).item()
        loader._seed = self.base_seed

    def _draw(self):
        """(number, indices, the sampler's state after them), or None at the end."""
        try:
            indices = next(self.indices)
        except StopIteration:
            return None
        self.drawn += 1
        return self.drawn - 1, indices, self.stateful.state_dict() if self.stateful else None

    # --- the workers

    def _start(self, state):
        loader, n = self.loader, max(1, self.n)
        of = state["workers"] if state and self.iterable else [{"n": 0, "state": None, "ended": False}] * n
        self.of = [dict(one) for one in of]
        self.turn = state["turn"] if state and self.iterable else 0
        self.waiting = collections.deque()
        if self.n == 0:
            one = self.of[0]
            self.fetcher = fetcher(loader._parts(), one["state"])
            for _ in range(self._skipped(one)):
                self.fetcher.fetch(loader._parts()["size"])
        elif loader.workers == "threads":
            self.fetcher = fetcher(loader._parts())
            number = iter(range(self.n))
            init = loader.worker_init_fn
            self.threads = ThreadPoolExecutor(
                self.n, "headrace DataLoader", None if init is None else lambda: init(next(number))
            )
        else:
            self._start_processes()
        self._fill()

    def _start_processes(self):
        loader = self.loader
        self.group = loader._group()
        spec = self.group.spec
        if spec is None or not loader.persistent_workers:
            spec = processes.Spec(loader._parts())
        common = {"n_workers": self.n, "base_seed": self.base_seed, "fresh": not loader.persistent_workers}
        self.group.begin(
            spec,
            [
                common | {"worker": w, "state": one["state"], "skip": self._skipped(one)}
                for w, one in enumerate(self.of)
            ],
            # a worker_init_fn prepares a worker, and only another process can be late
            helps=not self.iterable and loader.worker_init_fn is None and not loader.timeout,
        )
        if self.iterable:
            for _ in range(loader.prefetch_factor):
                for w in range(self.n):
                    if not self.of[w]["ended"]:
                        self.group.request(w, 0, None)

    def _skipped(self, one):
        """The batches that a worker of a resumed pass makes again, and drops."""
        return 0 if one["state"] or one["ended"] or not self.iterable else one["n"]

    def _fill(self):
        """Requests batches of a map-style dataset ahead."""
        most = self.n * (self.loader.prefetch_factor or 1)
        while self.n and not self.iterable and len(self.waiting) < most and (drawn := self._draw()):
            if self.threads:
                drawn = (*drawn, self.threads.submit(self._fetch, drawn[1]))
            else:
                self.group.request(drawn[0] % self.n, drawn[0], drawn[1])
            self.waiting.append(drawn)

    # --- batches

    def __iter__(self):
        return self

    def __len__(self):
        return len(self.loader)

    def __next__(self):
        if self.ended:
            raise StopIteration
        if self.trainer:
            self.before = self._reached()
        try:
            data = self._next()
        except StopIteration:
            self.close()
            raise
        if self.loader.pin_memory and torch.accelerator.is_available():
            data = _utils.pin_memory.pin_memory(data, None)
        return data

    def _next(self):
        if self.iterable:
            return self._next_of_iterable()
        if self.n == 0:
            if (drawn := self._draw()) is None:
                raise StopIteration
            self._took(drawn)
            data = self._fetch(drawn[1])
            return data
        if not self.waiting:
            raise StopIteration
        drawn = self.waiting[0]
        if self.threads:
            made = drawn[3]
            if not wait([made], self.loader.timeout or None).done:
                raise processes.late(self.loader.timeout)
            error = made.exception()
            answer = ("raise", error) if error else ("batch", made.result())
        else:
            answer = self.group.take(drawn[0] % self.n, drawn[0], self.loader.timeout)
        self.waiting.popleft()
        self._took(drawn)
        self._fill()
        if answer[0] == "raise":
            raise answer[1]
        if answer[0] == "error":
            processes.raise_error(answer[1], drawn[0])
        return answer[1]

    def _fetch(self, indices):
        try:
            return self.fetcher.fetch(indices)
        except StopIteration as e:  # it would end the loop as if there were no more batches
            raise RuntimeError("DataLoader: the dataset raised StopIteration") from e

    def _took(self, drawn):
        self.taken = drawn[0] + 1
        self.sampler_state = drawn[2]

    def _next_of_iterable(self):
        while not all(one["ended"] for one in self.of):
            w = self.turn
            one = self.of[w]
            self.turn = (w + 1) % len(self.of)
            if one["ended"]:
                continue
            if self.n == 0:
                data = self.fetcher.fetch(self.loader._parts()["size"])
                kind, state = kind_of(self.fetcher), state_of(self.fetcher)
            else:
                kind, data, state = self.group.take(w, self.taken, self.loader.timeout)
                if kind not in ("end", "last"):
                    self.group.request(w, 0, None)
            if kind == "end":
                one["ended"] = True
                continue
            self.taken += 1
            one["n"], one["state"], one["ended"] = one["n"] + 1, state, kind == "last"
            if kind == "error":
                processes.raise_error(data, self.taken - 1)
            return data
        raise StopIteration

    def state(self):
        """The state after the batches that the consumer has used."""
        if self.ended or taken_ahead.is_through(self.trainer):
            return {**self.loader._options(), "taken": 0, "epoch": None}
        return self.before if taken_ahead.n_batches(self.trainer) else self._reached()

    def _reached(self):
        return {
            **self.loader._options(),
            "taken": self.taken,
            "epoch": self.epoch,
            "random": self.random,
            "sampler": self.sampler_state,
            "workers": [dict(one) for one in self.of] if self.iterable else None,
            "turn": self.turn,
            "seed": self.undrawn,
            **({} if self.order is None else {"order": self.order}),
        }

    def close(self):
        """Ends the pass; its workers serve the next one."""
        self.ended = True
        if self.group is not None:
            self.loader._free(self.group)
            self.group = None
        if self.threads is not None:
            self.threads.shutdown(wait=False, cancel_futures=True)

    def __del__(self):
        if not hasattr(self, "turn"):
            return  # its start failed, and closed it
        if self.loader._serial == self.serial:
            self.loader._left = self.state()
        self.close()
