"""DataIterator: passes over a dataset, or over one rank's share of it. The passes are in iterables.py."""

from __future__ import annotations

import math
import os
import threading
import warnings
import weakref
from typing import TYPE_CHECKING, Any, Literal, overload

from headrace import _core, lazy_module
from headrace._core import InvalidArgument, MismatchError, UnsupportedError
from headrace.data import early, loader, running, stalls
from headrace.data.consumers import Consumers, request_of
from headrace.data.context import DataContext, is_whole
from headrace.data.iterables import Iterable, RunPass, SharePass, start_of, state_of, taken_rows
from headrace.data.plan import explained
from headrace.data.schema import Schema

if TYPE_CHECKING:
    from headrace.data.dataset import Dataset, MaterializedDataset

json = lazy_module("json")
run_stats = lazy_module("headrace.data.run_stats")
materializing = lazy_module("headrace.data.materializing")
resuming = lazy_module("headrace.data.resuming")

SHARE_ROWS = 4096  # batch size in workers of a DataLoader if the consumer gives none


def materialized_by(make):
    """Registers the maker of a dataset from a Node of materialized rows: dataset.py imports this module."""
    global _materialized
    _materialized = make


_materialized = None


class DataIterator(Consumers):
    """Passes over a dataset. Dataset.iterator() and streaming_split() make it.

    All iterables of one DataIterator count epochs together: the second pass over any of them is epoch 1.
    """

    def __init__(self) -> None:
        self._epochs = loader.Epochs()
        self.chosen_epoch: int | None = None  # by set_epoch(), for the next pass
        self.last_stats: str | None = None
        self.early: early.Early | None = None  # of its passes; a split opens its next epoch itself

    @property
    def epochs_begun(self) -> int:
        return self._epochs.begun

    def set_epoch(self, n: int) -> None:
        """The next pass over any of its iterables is epoch n; see Iterable.set_epoch()."""
        if not is_whole(n, 0) or n >= 1 << 62:
            raise InvalidArgument(f"set_epoch: expected a number of at least 0, found {n!r:.50}")
        self._epochs.go_to(int(n))
        self.chosen_epoch = int(n)

    def _next_epoch(self, wanted, share=None):
        chosen, self.chosen_epoch = self.chosen_epoch, None
        if wanted is not None and chosen not in (None, wanted):
            raise MismatchError(
                f"set_epoch({chosen}): the state of load_state_dict() is in epoch {wanted}; begin with that "
                "epoch, or leave out set_epoch(): a pass after another one is the next epoch"
            )
        return self._epochs.begin(wanted, share)

    def _pass(self, request, epoch, position, how, share=None):
        raise NotImplementedError

    def _warn_of_classes(self, position):
        """Warns once of classes in the plan that do not know the rows before a position."""

    def _between(self, after):
        """The state between passes; after: the state after the last pass of an iterable, or None."""
        return self._whole(after or start_of(self.epochs_begun))

    def _whole(self, state):
        """A state that is valid in other processes, too."""
        return state

    def to_send(self) -> DataIterator:
        """The owner to pickle with an iterable."""
        raise UnsupportedError(
            f"{self!r} belongs to this process, and a DataLoader's workers cannot read from it: use "
            "num_workers=0; the engine reads ahead with all cores"
        )

    def _consumed(self):
        return self

    def materialize(self) -> MaterializedDataset:
        """A MaterializedDataset of the rows of one pass."""
        tables = Iterable(self, request_of(SHARE_ROWS, False, 1), _unchanged)
        return _materialized(materializing.node_of(tables, lambda: getattr(self.schema(), "_core", None)))

    def schema(self) -> Schema | None:
        """The Schema of the rows; None if it cannot be known."""
        raise NotImplementedError

    def get_context(self) -> DataContext:
        """The DataContext of this process."""
        return DataContext.get_current()

    @overload
    def stats(self, format: Literal["text", "json"] = ...) -> str: ...
    @overload
    def stats(self, format: Literal["dict"]) -> dict[str, Any]: ...
    def stats(self, format: str = "text") -> str | dict[str, Any]:
        """Statistics of the last pass; "no run yet", {} or "{}" before the first. See Dataset.stats."""
        return run_stats.in_format(self._stats_text(), format)

    def _stats_text(self):
        return self.last_stats or "{}"

    def keep_stats(self, text: str) -> None:
        """Stores the JSON text of a pass that has ended."""
        self.last_stats = text


def _unchanged(table):
    return table


class DatasetIterator(DataIterator):
    """Passes over a whole dataset."""

    def __init__(self, dataset: Dataset, of: Dataset | None = None) -> None:
        """of: the Dataset that keeps this iterator, and of which `dataset` is a copy: a cycle of references
        would keep an early pass until the next garbage collection.
        """
        super().__init__()
        self._copy = dataset
        self._of = of and weakref.ref(of)
        self._options = None  # of runs, if they are not those of this process's DataContext
        self.early: early.Early | None = early.Early()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_of": None}

    @property
    def _dataset(self):
        return (self._of and self._of()) or self._copy

    def __repr__(self) -> str:
        return f"DataIterator({self._dataset!r})"

    def keep_stats(self, text: str) -> None:
        super().keep_stats(text)
        self._dataset._last_stats = text

    def run_options(self) -> dict[str, Any]:
        """Of its passes."""
        return dict(self._options or DataContext.get_current().run_options(1))

    def _pass(self, request, epoch, position, how, share=None):
        options = self.run_options()
        if share is not None:
            makes_batches = self._dataset._node.plan.makes_batches()
            request, options = loader.of_share(request, options, share, SHARE_ROWS, makes_batches)
        return RunPass(self._dataset._node, request, epoch, position, how, options)

    def _whole(self, state):
        if state["position"] is None:
            return state
        return state | {"position": self._dataset._node.plan.whole_position(state["position"])}

    def to_send(self) -> DataIterator:
        one = DatasetIterator(self._dataset)
        one._epochs = self._epochs
        one._options = self.run_options()
        one.chosen_epoch = self.chosen_epoch
        return one

    def _warn_of_classes(self, position):
        resuming.warn(self._dataset._node, position, stacklevel=4)

    def schema(self) -> Schema | None:
        """The Schema; runs the functions on their first rows if necessary."""
        return self._dataset.schema()

    def materialize(self) -> MaterializedDataset:
        """A MaterializedDataset of one pass."""
        return self._dataset.materialize()


class SplitIterator(DataIterator):
    """One rank's share of a split dataset, in steps of one batch each.

    source: where batches come from. Its methods are those of one rank of a _core.Split: begin(batch_rows,
    drop_last, prefetch, own_memory, by_row) -> number of the pass, next(number) -> Table or None, leave(),
    position(ahead=n), restore(text, moved, strict) -> names of functions that have changed, schema(),
    stats(), close(); and warn_of_classes(text, stacklevel). Before position() it reports taken_rows() to
    the split. Before begin() its attribute `epoch` becomes the number of the pass, for messages.
    All ranks must begin an epoch with the same arguments; the first batch waits for all of them. The split
    has one position, and only while all ranks have taken equally many steps (otherwise MismatchError names
    rank and step).
    """

    def __init__(self, source: Any, world_size: int | None = None, rank: int | None = None) -> None:
        super().__init__()
        self._source = source
        self._world_size = world_size
        self._rank = rank
        self._current = None  # the pass that reads the share's rows
        self._begins = None  # the epoch that its pass requests; None: the split's next one
        self._changing = threading.Lock()

    def __repr__(self) -> str:
        return f"DataIterator(rank {self._rank} of {self._world_size})"

    @property
    def world_size(self) -> int | None:
        """Number of shares."""
        return self._world_size

    def __reduce__(self) -> tuple[Any, ...]:
        parts = self._source, self._world_size, self._rank, self._epochs, self.chosen_epoch
        return _sent_share, parts

    def to_send(self) -> DataIterator:
        """A share travels as it is."""
        return self

    def _pass(self, request, epoch, position, how, share=None):
        divides = isinstance(self._source, AloneSource)
        if share is not None and share.of > 1 and not divides:
            raise UnsupportedError(
                f"{self!r} is read by one process, and this DataLoader has {share.of} workers: use "
                "num_workers=0; the engine reads ahead with all cores"
            )
        if share is not None and divides:
            request = self._source.in_worker(request, share)
        with self._changing:
            old = self._current and self._current()
            if old is not None:
                old.supersede()
            self._source.epoch = epoch
            one = SharePass(self._source, request, epoch, position, how, self._rank)
            self._current = weakref.ref(one)
        begins, self._begins = self._begins, None
        one.begin(request, begins)
        return one

    def _next_epoch(self, wanted, share=None):
        chosen = self.chosen_epoch
        epoch = super()._next_epoch(wanted, share)
        counts = chosen is not None or isinstance(self._source, AloneSource)
        self._begins = epoch if counts else None
        return epoch

    def _warn_of_classes(self, position):
        self._source.warn_of_classes(position, stacklevel=5)

    def _between(self, after):
        if self.chosen_epoch is not None:
            return start_of(self.chosen_epoch)
        position = self._source.position()
        epoch = json.loads(position)["epoch"]
        if isinstance(self._source, AloneSource) and epoch != self.epochs_begun:
            return start_of(self.epochs_begun)  # workers of a DataLoader have read the epochs before it
        return state_of(epoch, position)

    def n_ahead(self) -> int:
        """The number of batches of its pass that a trainer has taken and not used."""
        one = self._current and self._current()
        return 0 if one is None else one.n_ahead()

    def schema(self) -> Schema | None:
        """The Schema of the whole dataset."""
        found = self._source.schema()
        return None if found is None else Schema(found)

    def _stats_text(self):
        return self._source.stats()

    def materialize(self) -> MaterializedDataset:
        """This rank's rows of one pass, stored as by Dataset.materialize(). All ranks must call it."""
        one = self._pass(request_of(1024, False, 1), self._next_epoch(None), None, {})
        return _materialized(materializing.node_of(iter(one.next, None), lambda: None))

    def close(self) -> None:
        """Leaves the split."""
        self._source.close()


def _sent_share(source, world_size, rank, epochs, chosen_epoch):
    """Unpickles a SplitIterator in another process."""
    made = SplitIterator(source, world_size, rank)
    made._epochs, made.chosen_epoch = epochs, chosen_epoch
    return made


def share_watch(report):
    """The `watch` of a call that waits for other ranks: it calls report(seconds, over) after stall_warning_s,
    and then each time the wait has doubled. over: stall_timeout_s have passed; report() then raises.
    """
    context = DataContext.get_current()
    limit = math.inf if context.stall_timeout_s is None else context.stall_timeout_s
    first = min(context.stall_warning_s, limit)
    report_of = weakref.WeakMethod(report)  # its object has the watch, which must not keep the object alive

    def waited(seconds):
        report_of()(seconds, seconds >= limit)
        if seconds >= limit:  # nobody is to blame: the engine has work to do
            return first
        return max(min(seconds, limit - seconds), 0.05)

    return first, waited


def _ranks_here(n):
    """Of n ranks, those on this machine, as torchrun and other launchers say it; all, if none does."""
    said = os.environ.get("LOCAL_WORLD_SIZE", "")
    return min(n, int(said)) if said.isascii() and said.isdigit() and int(said) else n


class SplitOwner:
    """A _core.Split of a dataset in this process, and the workers of its functions. Its shares refer to
    it.
    """

    def __init__(self, dataset, n, tail, replicas=1, options=None):
        self.node = dataset._node
        self.n = n
        self.pools = self.node.pools()
        self.split = _core.Split(
            self.node.plan,
            n,
            tail=tail,
            inline_calls=[p.inline for p in self.pools if p.inline],
            **(options or DataContext.get_current().run_options(_ranks_here(n))),
        )
        if replicas != 1:
            self.split.replicate(replicas)
        self._begun = self._warned = False
        self._beginning = threading.Lock()
        self._running = []  # the pools that have begun
        self.sources = weakref.WeakSet()  # its ranks in this process
        self._watched = []  # once it has begun: its Running
        self._end = weakref.finalize(self, _end_split, self.split, self._running, self._watched)

    def report_wait(self, rank, seconds, over):
        """Warns once that a rank waits for others, and names them; over: raises."""
        info = json.loads(self.split.ranks())
        text, others = stalls.line(info, rank, None, self.node.chain(), seconds)
        if not others or (self._warned and not over):
            return
        self._warned = True
        text += "; read all shares of a split at the same time, each in its own thread or process"
        if over:
            raise _core.PeerError(text)
        warnings.warn(text, RuntimeWarning, stacklevel=3)

    def know_code(self):
        """Gives the engine the hashes of the functions, for positions."""
        for pool in self.pools:
            pool.know_code()

    def begin(self):
        """Starts the workers of functions, once. After an error the next call goes on with the pool that
        failed.
        """
        with self._beginning:
            if self._begun:
                return
            for pool in self.pools[len(self._running) :]:
                pool.begin()
                self._running.append(pool)
            self._watched.append(running.Running(self.split, self.node, ranks=self.n))
            self._begun = True

    def serve_elsewhere(self):
        """The consumers are other processes: starts threads here for functions that run inline."""
        self.begin()
        for pool in self.pools:
            pool.serve_in_thread()

    def close(self):
        """Ends the run, and the workers' part in it."""
        self._end()


def _end_split(split, pools, watched):
    for one in watched:
        one.ends()
    split.close()
    for pool in pools:
        pool.end()


class LocalSource:
    """One rank of a split in this process, the source of a SplitIterator."""

    reading = None  # a weak reference to the SharePass by rows

    def __init__(self, owner, rank):
        self.owner = owner
        self.rank = rank
        self.split = owner.split
        self._watch = None
        self._pid = os.getpid()
        owner.sources.add(self)

    def begin(self, batch_rows, **request):
        if self._pid != os.getpid():
            raise self._elsewhere()
        self.owner.begin()
        self._watch = share_watch(self._report_wait)
        try:
            return self.split.begin(self.rank, batch_rows, watch=self._watch, **request)
        except BaseException:
            self.leave()
            raise

    def _report_wait(self, seconds, over):
        self.owner.report_wait(self.rank, seconds, over)

    def next(self, number=0):
        try:
            return self.split.next(self.rank, number, self._watch)
        except _core.PeerError as e:
            raise explained(e, self.owner.pools) from None

    def converted(self, ns):
        self.split.converted(self.rank, ns)

    def leave(self):
        self.split.leave(self.rank)

    def position(self, done=False, ahead=0):
        self.owner.know_code()
        for source in list(self.owner.sources):
            rows = taken_rows(source)
            if rows is not None:
                self.split.report_taken(source.rank, rows)
        return self.split.position(done, ahead)

    def restore(self, text, moved=False, strict=False):
        self.owner.know_code()
        return self.split.restore(text, moved, strict)

    def warn_of_classes(self, position, stacklevel=3):
        resuming.warn(self.owner.node, position, stacklevel)

    def schema(self):
        return self.split.schema()

    def stats(self):
        return self.split.stats()

    def close(self):
        self.split.lost(self.rank)

    def _elsewhere(self):
        where = "this process" if self._pid == os.getpid() else f"process {self._pid}"
        return UnsupportedError(
            f"share {self.rank} of {self.owner.n} belongs to {where}, and another one cannot read "
            "it: use num_workers=0 (the engine reads ahead with all cores), or Dataset.shard() in each "
            "process of a launcher"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        raise self._elsewhere()


class AloneSource(LocalSource):
    """The share of a program without a launcher, which has all rows. Each process with a copy of it, by fork
    or by pickle, runs the plan itself; the workers of a DataLoader divide the batches, as those of a Dataset.
    """

    def __init__(self, dataset, tail, lanes, options=None):
        self.rank = 0
        self._watch = None
        self._made_of = dataset, tail, lanes
        self._options = options  # of runs; None: those of this process's DataContext
        self._pid = None
        self._owner = self._parents = None
        self._making = threading.Lock()

    @property
    def owner(self):
        if self._pid != os.getpid():
            self._making = threading.Lock()
            self._parents, self._owner = self._owner, None  # a parent's engine must not end here
            self._pid = os.getpid()
        with self._making:
            if self._owner is None:
                dataset, tail, lanes = self._made_of
                owner = SplitOwner(dataset, 1, tail, options=self._options)
                owner.split.lanes(lanes, 1)
                owner.sources.add(self)
                self._owner = owner
        return self._owner

    @property
    def split(self):
        return self.owner.split

    def in_worker(self, request, share):
        """The request of a pass in a worker of a DataLoader."""
        options = self._options or DataContext.get_current().run_options(1)
        makes_batches = self._made_of[0]._node.plan.makes_batches()
        request, options = loader.of_share(request, dict(options), share, SHARE_ROWS, makes_batches)
        if self._pid != os.getpid():
            self._options = options
        return request

    def _runs_here(self):
        return self._owner is not None and self._pid == os.getpid()

    def begin(self, batch_rows, **request):
        self.owner.begin()
        return super().begin(batch_rows, **request)

    def leave(self):
        if self._runs_here():
            super().leave()

    def close(self):
        if self._runs_here():
            super().close()

    def __reduce__(self):
        options = self._options or DataContext.get_current().run_options(1)
        return AloneSource, (*self._made_of, options)


__all__ = [
    "AloneSource",
    "DataIterator",
    "DatasetIterator",
    "LocalSource",
    "SplitIterator",
    "SplitOwner",
]
