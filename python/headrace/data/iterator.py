"""DataIterator: passes over a dataset, or over one rank's share of it.

iter_batches() and its siblings return iterables. Each `for` over an iterable is one pass and a new epoch;
leaving a loop early ends its pass. state_dict() describes what the consumer has taken, never what the engine
has read ahead; load_state_dict() makes the next pass resume there.

In a worker of torch's DataLoader a pass gives that worker's share of the batches: see loader.py.
"""

import functools
import math
import os
import sys
import threading
import warnings
import weakref

from headrace import _core, lazy_module
from headrace._core import InvalidArgument, MismatchError, TypeMismatchError, UnsupportedError
from headrace.data import loader, stalls
from headrace.data.context import DataContext, check_format, check_seed, is_whole
from headrace.data.plan import Run, explained
from headrace.data.schema import Schema
from headrace.optional import package

json = lazy_module("json")
np = lazy_module("numpy")
materializing = lazy_module("headrace.data.materializing")
padded_lists = lazy_module("headrace.data.padding")
resuming = lazy_module("headrace.data.resuming")
blocks = lazy_module("headrace.data.blocks")  # imports numpy, while the engine already reads

ROWS_AT_ONCE = 1024  # rows that become Python objects together
SHARE_ROWS = 4096  # batch size in workers of a DataLoader if the consumer gives none
VERSION = 2  # of states


def materialized_by(make):
    """Registers the maker of a dataset from a Node of materialized rows: dataset.py imports this module."""
    global _materialized
    _materialized = make


_materialized = None

# --------------------------------------------------------------------------------------------------- passes


class _RunPass:
    """A pass over the whole dataset."""

    remembers = True  # its position after an early end

    def __init__(self, node, request, epoch, position, how, options):
        keep = "rows" in request
        self.run = Run(
            node,
            batch_rows=request["batch_rows"],
            drop_last=request["drop_last"],
            prefetch=request["prefetch"],
            own_memory=request["own_memory"],
            shuffle_rows=request["shuffle_rows"],
            shuffle_seed=request["shuffle_seed"],
            epoch=epoch,
            position=position,
            keep_positions=keep,
            **how,
            **options,
        )
        self.next = self.run.next
        self.epoch = epoch
        self.resumes = position is not None
        _warn_of_code(self.run.feed.code_differs)

    def position(self, row):
        """A position for this process; DatasetIterator._whole makes it valid for other processes."""
        return self.run.feed.position(-1 if row is None else row, False)

    @property
    def reads(self):
        """Whether its sources have not been read to the end."""
        return self.run.feed.reads

    @property
    def may_open_next(self):
        return self.run.feed.may_open_next

    def start(self):
        """The number of the epoch, and whether the pass goes on in it, by a state of another rank too."""
        return self.epoch, self.resumes

    def others_got(self):
        """Whether the epoch gave another rank a row."""
        return False

    def forget(self, row):
        self.run.feed.forget(row)

    def stats(self):
        return self.run.stats()

    def close(self):
        self.run.close()


class _SharePass:
    """A pass over one rank's share."""

    remembers = False  # the state is common to all ranks
    reads = True  # the split opens its next epoch itself

    def __init__(self, source, request, epoch, position, how, rank):
        self.rank = rank
        if position is not None:
            _warn_of_code(source.restore(position, **how))
        self.source = source
        self.epoch = epoch
        self.done = False
        self.superseded = False
        self.lock = threading.Lock()
        self.number = None
        self.reader = None  # a weak reference to the _RowPass that reads this pass

    def begin(self, request, epoch=None):
        by_row = "rows" in request
        self.source.reading = weakref.ref(self) if by_row else None
        self.number = self.source.begin(
            request["batch_rows"] or (1 if by_row else 0),
            by_row=by_row,
            epoch=epoch,
            **{k: v for k, v in request.items() if k not in ("batch_rows", "rows")},
        )

    def taken_rows(self):
        """Rows of this pass by rows that the consumer has taken; None: the pass has no reader any more."""
        reader = self.reader and self.reader()
        return None if reader is None or self.done else reader.taken

    def start(self):
        """Of the split, which another rank may have resumed."""
        stats = json.loads(self.source.stats())
        return stats["epoch"], stats["resumed"]

    def others_got(self):
        """Whether the epoch, whose end this rank has seen, gave any rank a row."""
        return json.loads(self.source.stats())["steps"] > 0

    def supersede(self):
        """Another pass over this share begins: this one gets no more rows and does not leave the share."""
        with self.lock:
            self.superseded = True

    def next(self):
        if self.superseded:
            raise _superseded()
        table = self.source.next(self.number)
        if table is None:
            self.done = True
            self._warn_of_no_rows()
        return table

    def _warn_of_no_rows(self):
        """At the end of an epoch that gave no rank a row, though it has some."""
        if self.rank:
            return
        try:
            stats = json.loads(self.source.stats())
        except _core.HeadraceError:
            return
        if stats["steps"] == 0 and stats["dropped_rows"] > 0:
            warnings.warn(
                f"no rank got a row: the {stats['dropped_rows']} rows of the epoch are too few for a step of "
                f"all {stats['ranks']} ranks (drop_last=True needs a full batch for each)",
                RuntimeWarning,
                stacklevel=6,
            )

    def position(self, row):
        return self.source.position()

    def forget(self, row):
        pass

    def stats(self):
        return self.source.stats()

    def close(self):
        with self.lock:
            if not self.done and not self.superseded:
                self.source.leave()
            self.done = True


def taken_rows(source):
    """The rows of a pass by rows that the rank of `source` has taken; None without such a pass. The rank
    reports them to the split before it requests a position.
    """
    one = source.reading and source.reading()
    return None if one is None else one.taken_rows()


def _superseded():
    return InvalidArgument(
        "a new iteration over the same iterable or share has ended this one; threads that read at the "
        "same time need one iterable each"
    )


def _warn_of_code(names):
    if names:
        warnings.warn(
            f"load_state_dict: the code or the data of {names} has changed since the position was saved. The "
            "pass skips the rows before the position, which the old code made (strict=True makes such a "
            "position an error)",
            UserWarning,
            stacklevel=2,
        )


# ------------------------------------------------------------------------------------------------ iterables


class Iterable:
    """The result of iter_batches(), iter_torch_batches() and iter_rows(): each iteration over it is one
    epoch.

    A context manager; close() ends the current pass. stats() returns the counters of the last pass as a dict.
    """

    def __init__(self, owner, request, convert, by_row=False):
        self._owner = owner
        self._request = request
        self._convert = convert
        self._by_row = by_row
        self._pass = None
        self._resume = None
        self._how = {}  # arguments moved and strict of load_state_dict()
        self._loaded = None  # (process that loaded the state, random token of the state)
        self._after = None  # the state after the last pass
        self._beginning = threading.Lock()
        self._ahead = None  # (process, the _RunPass of the next epoch), opened early
        self._loops = False  # a pass has ended, so that another one is likely after the next

    def set_epoch(self, n):
        """The next pass is epoch n, for programs that count epochs themselves; a pass that follows another
        one needs no call. All ranks of a split must give the same number. After load_state_dict() n must be
        the epoch of the state: another one is a MismatchError of the pass.
        """
        self._owner.set_epoch(n)

    def repeat(self, n=None):
        """The same batches or rows, on and on: one iteration goes through n epochs, or for ever.

        An epoch's first batches are made while the last ones of the epoch before it are taken, so that its
        border costs no more than any other batch. No batch crosses it. An iteration ends before the next
        epoch whose number divides by n: so one that resumes in epoch 3 of 10 has 7 epochs to go.
        state_dict() has epoch and position. An epoch without rows is the last.
        """
        if n is not None and not is_whole(n, 1):
            raise InvalidArgument(f"repeat: n: expected a number of at least 1, or None, found {n!r}")
        request = self._request | {"ahead": True}
        return Repeated(Iterable(self._owner, request, self._convert, self._by_row), n)

    def __reduce__(self):
        parts = self._owner.to_send(), self._request, self._convert, self._by_row
        return _sent, (loader.packed(parts), (self._resume, self._how, self._loaded))

    def __iter__(self):
        share = loader.share()
        with self._beginning:
            old = self._pass and self._pass()
            if old is not None and not old.ended:
                old.supersede()
            if share is not None:
                one = _SharedRowPass(self, share) if self._by_row else _SharedBatchPass(self, share)
            else:
                one = _RowPass(self) if self._by_row else _BatchPass(self)
            self._pass = weakref.ref(one)
            one.guesses = self._loops or bool(self._resume and self._resume["epoch"] > 0)
        return one

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def close(self):
        """Ends the current pass, if there is one."""
        one = self._pass and self._pass()
        if one is not None:
            one.close()
        self._take_ahead(None)

    def _open_ahead(self, epoch):
        """Opens the pass of an epoch that will follow. If that fails, its begin tries again and says why."""
        try:
            self._ahead = os.getpid(), self._owner._pass(self._request, epoch, None, {})
        except Exception:
            self._ahead = None

    def _take_ahead(self, epoch):
        """The pass of this epoch that was opened early; None: there is none. One of another epoch ends."""
        (process, under), self._ahead = self._ahead or (0, None), None
        if process != os.getpid() or under.epoch == epoch:
            return under if process == os.getpid() else None
        under.close()
        return None

    def stats(self):
        """Counters of the last pass, as a dict; empty before the first."""
        one = self._pass and self._pass()
        text = one.stats() if one is not None else self._owner.last_stats
        return json.loads(text) if text else {}

    def state_dict(self):
        """The consumer's position: a small dict of epoch and position, after the items taken from this
        iterable.

        After the end of a pass it is the beginning of the next epoch.
        """
        one = self._pass and self._pass()
        if one is not None and one.active:
            return self._owner._whole(one.state())
        after = None if self._owner.chosen_epoch is not None else self._after
        return dict(self._resume or self._owner._between(after))

    def load_state_dict(self, state, *, moved=False, strict=False):
        """Makes the next pass resume from `state`, of an iterable with the same plan and the same batches.
        Raises InvalidArgument at once if it is no state_dict() of this version; if it does not fit the plan,
        the pass raises MismatchError.

        The pass compares the plan's steps and arguments, the files (names below their common folder, sizes,
        times, and contents if times differ), the data in memory, and the functions' code. Other files and
        other data are an error, other code is a warning, or with strict=True an error. moved=True: the files
        may have other names and times if their contents are the same. See docs/resuming.md.
        """
        state = _checked(state)
        self._owner._warn_of_classes(state["position"])
        self.close()
        self._resume = state
        self._how = {"moved": bool(moved), "strict": bool(strict)}
        self._loaded = os.getpid(), int.from_bytes(os.urandom(7), "little")

    def _begin(self, share=None):
        """(the pass to read from, number of batches or rows in the epoch's order before it)."""
        state, self._resume = self._resume, None
        if state and share is not None and self._loaded[0] != os.getpid():
            state = state if self._owner._epochs.claims(self._loaded[1], share) else None
        how, self._how = (self._how, {}) if state and state["position"] else ({}, {})
        begun = state.get("workers") if state else None
        if begun and (share is None or begun[:2] != [share.number, share.of]):
            mine = "no worker" if share is None else f"worker {share.number} of {share.of}"
            raise MismatchError(
                f"load_state_dict: expected the state of {mine}, found that of worker {begun[0]} of "
                f"{begun[1]} of a DataLoader"
            )
        if state and state["position"] is None and self._owner.chosen_epoch is None:
            self._owner.chosen_epoch = state["epoch"]
        epoch = self._owner._next_epoch(state and state["epoch"], share)
        self._after = None
        position = state and state["position"]
        under = self._take_ahead(epoch if position is None and share is None else None)
        if under is None:
            under = self._owner._pass(self._request, epoch, position, how, share)
        return under, begun[2] if begun else 0


class Repeated:
    """The result of Iterable.repeat(): an iterable of the items of many epochs. Its other methods are as
    those of an Iterable.
    """

    def __init__(self, iterable, n):
        self._iterable = iterable
        self._n = n

    def __reduce__(self):
        return Repeated, (self._iterable, self._n)

    def set_epoch(self, n):
        """The next iteration begins with epoch n; see Iterable.set_epoch()."""
        self._iterable.set_epoch(n)

    def __iter__(self):
        return _Repeating(self._iterable, self._n)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def close(self):
        self._iterable.close()

    def stats(self):
        return self._iterable.stats()

    def state_dict(self):
        return self._iterable.state_dict()

    def load_state_dict(self, state, *, moved=False, strict=False):
        self._iterable.load_state_dict(state, moved=moved, strict=strict)


class _Repeating:
    """One iteration over a Repeated."""

    def __init__(self, iterable, n):
        self.iterable = iterable
        self.n = n
        self.ended = False
        self._next_pass()

    def _next_pass(self):
        self.one = iter(self.iterable)
        self.one.prepares = True
        self.any = False

    def __iter__(self):
        return self

    def __next__(self):
        while not self.ended:
            for item in self.one:
                self.any = True
                return item
            self.ended = self._is_last()
            if not self.ended:
                self._next_pass()
        raise StopIteration

    def _is_last(self):
        one = self.one
        if not one.finished or not (self.any or one.resumed or one.under.others_got()):
            return True
        return self.n is not None and (one.epoch + 1) % self.n == 0


_KEYS = {"version", "epoch", "position"}


def _checked(state):
    """A copy of a state_dict(), or InvalidArgument."""
    where = "load_state_dict"
    if not isinstance(state, dict):
        raise InvalidArgument(f"{where}: expected a dict from state_dict(), found {type(state).__name__}")
    version = state.get("version")
    if not is_whole(version, 1):
        raise InvalidArgument(f"{where}: expected a state_dict() of Headrace, found version {version!r:.50}")
    if version != VERSION:
        by = "an older" if version < VERSION else "a newer"
        raise InvalidArgument(
            f"{where}: expected version {VERSION}, found version {version!r:.50} of {by} Headrace"
        )
    if missing := _KEYS - set(state):
        raise InvalidArgument(f"{where}: the state has no {', '.join(sorted(missing))}")
    if unknown := [k for k in state if k not in _KEYS | {"workers"}]:
        raise InvalidArgument(f"{where}: the state has an unknown key {unknown[0]!r:.50}")
    epoch, position, workers = state["epoch"], state["position"], state.get("workers")
    if not is_whole(epoch, 0) or epoch >= 1 << 62:
        raise InvalidArgument(f"{where}: epoch: expected a number of passes, found {epoch!r:.50}")
    if position is not None:
        if not isinstance(position, str) or not position.isascii() or "\0" in position:
            raise InvalidArgument(
                f"{where}: position: expected text of a position, found {type(position).__name__} "
                f"{position!r:.50}"
            )
        if (of := _core.Plan.position_epoch(position)) != epoch:
            raise InvalidArgument(f"{where}: expected a position of epoch {epoch}, found one of epoch {of}")
    if workers is not None and not (
        isinstance(workers, (list, tuple))
        and len(workers) == 3
        and all(is_whole(n, 0) and n < 1 << 62 for n in workers)
        and workers[0] < workers[1]
    ):
        raise InvalidArgument(
            f"{where}: workers: expected (number, number of all, rows taken), found {workers!r:.50}"
        )
    copy = {"version": VERSION, "epoch": int(epoch), "position": position}
    return copy if workers is None else copy | {"workers": [int(n) for n in workers]}


def _sent(packed, resume):
    """Unpickles an Iterable in another process."""
    made = Iterable(*loader.unpacked(packed))
    made._resume, made._how, made._loaded = resume
    return made


class _Pass:
    """The iterator of one epoch. The run begins with the first item, and ends after the last one, at close(),
    or when the iterator is garbage.
    """

    def __init__(self, iterable):
        self.iterable = iterable
        self.under = None  # a _RunPass or _SharePass
        self.active = False
        self.ended = False
        self.finished = False  # it gave all items, and was not left early
        self.superseded = False
        self.reading = threading.Lock()
        self.prepares = False  # the next epoch follows, and opens when the sources of this one have been read
        self.guesses = False  # the same, if nothing speaks against it: the program has looped before
        self.epoch = None  # set with `prepares`
        self.resumed = False  # the same

    def __iter__(self):
        return self

    def _prepare(self):
        if not self.under.reads:
            opens = self.prepares or self.under.may_open_next
            self.prepares = self.guesses = False
            if opens:
                self.iterable._open_ahead(self.under.epoch + 1)

    def supersede(self):
        """A new iteration over the same iterable begins. A reader of this one, perhaps in another thread,
        gets an error instead of an end.
        """
        self.superseded = True
        self.close()

    def _begin(self):
        self.under, _ = self.iterable._begin()

    def _taker(self):
        """The function that returns the next table; looked up once per pass, for 100,000 batches a second."""
        return self.under.next

    def _next_table(self):
        if self.superseded:
            raise _superseded()
        if self.ended:
            return None
        if not self.reading.acquire(blocking=False):
            raise InvalidArgument(
                "expected one reader of an iterator, found two: two threads, or a function and its consumer"
            )
        try:
            if self.under is None:
                self._begin()
                self._take = self._taker()
                self.active = True
                if self.prepares:
                    self.epoch, self.resumed = self.under.start()
            table = None if self.ended else self._take()  # another thread may have called close()
        except BaseException as e:
            self.close()
            if self.superseded and isinstance(e, _core.HeadraceError):
                raise _superseded() from None
            raise
        finally:
            self.reading.release()
        if self.superseded:
            self.close()  # the run may have begun after supersede() closed the pass
            raise _superseded()
        if table is None:
            if not self.ended:
                self.iterable._after = _start_of(self.under.epoch + 1)
                self.iterable._loops = True
                self.finished = True
            self.close()
        elif self.prepares or self.guesses:
            self._prepare()
        return table

    def stats(self):
        return self.under.stats() if self.active else self.iterable._owner.last_stats

    def close(self):
        """Ends the pass. Batches that the consumer has stay valid."""
        self.ended = True
        if self.active:
            after = self.iterable._after
            if self.under.remembers and (not after or after["epoch"] <= self.under.epoch):
                self._remember()
            self.active = False
            self.under.close()
            try:
                self.iterable._owner.last_stats = self.under.stats()
            except _core.HeadraceError:
                pass  # still in use, or the other end has closed

    def _remember(self):
        """The consumer left the pass early: keeps the state after the last item that it took."""
        try:
            self.iterable._after = self.state()
        except _core.HeadraceError:
            self.iterable._after = None

    def __del__(self):
        if getattr(self, "active", False):
            self.close()


class _BatchPass(_Pass):
    def __init__(self, iterable):
        super().__init__(iterable)
        self.convert = iterable._convert

    def __next__(self):
        table = self._next_table()
        if table is None:
            raise StopIteration
        return self.convert(table)

    def state(self):
        return _state_of(self.under, None)


class _SharedBatchPass(_BatchPass):
    """Every n-th batch, for a worker of a DataLoader: the batches of all workers, taken in turn, are those of
    one pass.
    """

    def __init__(self, iterable, share):
        super().__init__(iterable)
        self.share = share
        self.at = 0  # number of batches passed, of all workers

    def _begin(self):
        self.under, self.at = self.iterable._begin(self.share)

    def _taker(self):
        return self._next_of_share

    def _next_of_share(self):
        while (table := self.under.next()) is not None:
            self.at += 1
            if (self.at - 1) % self.share.of == self.share.number:
                return table
        return None

    def state(self):
        return super().state() | {"workers": [self.share.number, self.share.of, self.at]}


class _RowPass(_Pass):
    def __init__(self, iterable):
        super().__init__(iterable)
        self.rows = iter(())
        self.taken = 0
        self.table, self.at = None, 0

    def _taker(self):
        self.under.reader = weakref.ref(self)
        return super()._taker()

    def __next__(self):
        for row in self.rows:
            self.taken += 1
            return row
        table = self._rest()
        n = min(ROWS_AT_ONCE, table.num_rows - self.at)
        self.rows = iter(blocks.rows_of(table.slice(self.at, n), writable=True))
        self.at += n
        return self.__next__()

    def _rest(self):
        """A table with rows from `at` on; supersede() in another thread may set self.table to None."""
        table = self.table
        while table is None or self.at >= table.num_rows:
            if self.active and self.taken:
                self.under.forget(self.taken)
            table = self._next_table()
            self.table, self.at = table, 0
            if table is None:
                raise StopIteration
        return table

    def supersede(self):
        super().supersede()
        self.rows, self.table = iter(()), None  # so that the reader reaches _next_table() and its error

    def state(self):
        return _state_of(self.under, self.taken)


class _SharedRowPass(_RowPass):
    """Every n-th row; see _SharedBatchPass."""

    def __init__(self, iterable, share):
        super().__init__(iterable)
        self.share = share
        self.begun = self.made = 0  # rows of the epoch before this pass; rows made into objects

    def _begin(self):
        self.under, self.begun = self.iterable._begin(self.share)

    def __next__(self):
        for taken, row in self.rows:
            self.taken = taken
            return row
        table = self._rest()
        n = min(ROWS_AT_ONCE, table.num_rows - self.at)
        rows = list(blocks.rows_of(table.slice(self.at, n), writable=True))
        first = (self.share.number - self.begun - self.made) % self.share.of
        self.rows = iter([(self.made + i + 1, rows[i]) for i in range(first, n, self.share.of)])
        self.at += n
        self.made += n
        return self.__next__()

    def state(self):
        return super().state() | {"workers": [self.share.number, self.share.of, self.begun + self.taken]}


def _state(epoch, position):
    return {"version": VERSION, "epoch": epoch, "position": position}


def _state_of(under, row):
    position = under.position(row)  # of a share, its epoch is that of all ranks
    return _state(under.epoch if under.remembers else _core.Plan.position_epoch(position), position)


def _start_of(epoch):
    return _state(epoch, None)


# --------------------------------------------------------------------------------------------- DataIterator


class DataIterator:
    """Passes over a dataset. Dataset.iterator() and streaming_split() make it.

    All iterables of one DataIterator count epochs together: the second pass over any of them is epoch 1.
    """

    def __init__(self):
        self._epochs = loader.Epochs()
        self.chosen_epoch = None  # by set_epoch(), for the next pass
        self.last_stats = None

    @property
    def epochs_begun(self):
        return self._epochs.begun

    def set_epoch(self, n):
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
        return self._whole(after or _start_of(self.epochs_begun))

    def _whole(self, state):
        """A state that is valid in other processes, too."""
        return state

    def to_send(self):
        """The owner to pickle with an iterable."""
        raise UnsupportedError(
            f"{self!r} belongs to this process, and a DataLoader's workers cannot read from it: use "
            "num_workers=0; the engine reads ahead with all cores"
        )

    def iter_batches(
        self,
        *,
        prefetch_batches=1,
        batch_size=256,
        batch_format="default",
        drop_last=False,
        local_shuffle_buffer_size=None,
        local_shuffle_seed=None,
        padding=None,
    ):
        """Batches of exactly batch_size rows, the last one shorter unless drop_last.

        batch_format "numpy" (the default): dict of column -> array (rows, *shape), read-only if it shares the
        engine's memory; "pandas": a DataFrame; "pyarrow": a pyarrow.Table. batch_size None: tables as they
        come, whose borders after a function depend on time; the order of the rows does not.
        prefetch_batches + 1 batches are alive beside those that the consumer holds, in a share of a dataset
        up to 17 if 16 of them fit in 256 KiB.

        local_shuffle_buffer_size=W: rows come in a random order within windows of W rows that overlap by
        half, so a row moves by up to 1.5 W. Memory holds about 2 W rows (MemoryLimitError if they do not
        fit). The order depends only on local_shuffle_seed (or, without one, DataContext.seed) and the epoch;
        all ranks of a split must give the same values.

        padding: a dict of column -> value, for columns of lists of different lengths: each becomes an array
        (rows, longest list of the batch), filled up with the value, and the batch has a column NAME_mask of
        bools beside it, True for values. True: all columns of lists of numbers, by 0. NumPy batches only.
        """
        batch_format = check_format(batch_format)
        padding = padded_lists.of_argument(padding)
        if padding is not None and batch_format not in ("default", "numpy"):
            raise InvalidArgument(
                f"iter_batches: padding makes NumPy arrays; found batch_format={batch_format!r}"
            )
        shuffle = _shuffle(local_shuffle_buffer_size, local_shuffle_seed)
        request = _request(batch_size, drop_last, prefetch_batches) | shuffle
        return Iterable(self, request, _converter(batch_format, padding))

    def iter_torch_batches(
        self,
        *,
        prefetch_batches=1,
        batch_size=256,
        dtypes=None,
        device="auto",
        collate_fn=None,
        drop_last=False,
        local_shuffle_buffer_size=None,
        local_shuffle_seed=None,
        pin_memory=False,
        padding=None,
    ):
        """Batches as dicts of column -> tensor (rows, *shape) with memory of their own, which the consumer
        may write to.

        dtypes: one torch dtype, or a dict of column -> dtype; torch.bfloat16 reinterprets the bits of a
        uint16 column, as .image.normalize(dtype="bfloat16") makes it. device: "auto" is the device of the
        training worker, or the CPU. collate_fn: gets the batch as a dict of numpy arrays, or in the form that
        its class in headrace.data.collate_fn says, and returns the batch (tensors in dicts, lists and tuples
        then move to the device). padding: as in iter_batches; not with a collate_fn. Text and bytes come as
        lists. Integers are float64 with NaN in a batch with nulls, as in numpy batches. TypeMismatchError
        names the column if torch has no tensor for its type, if its rows have different lengths, or if it has
        nulls and is a boolean column or gets a dtype without NaN.
        """
        shuffle = _shuffle(local_shuffle_buffer_size, local_shuffle_seed)
        if collate_fn is not None and dtypes is not None:
            raise InvalidArgument(
                "iter_torch_batches: expected dtypes or collate_fn, found both; the function can convert "
                "itself"
            )
        padding = padded_lists.of_argument(padding)
        if padding is not None and collate_fn is not None:
            raise InvalidArgument("iter_torch_batches: expected padding or collate_fn, found both")
        convert = TorchBatches(dtypes, device, collate_fn, pin_memory, padding)
        own = not convert.copies and padding is None  # otherwise the engine's memory is copied once anyway
        request = _request(batch_size, drop_last, prefetch_batches, own_memory=own) | shuffle
        self._epochs.share()  # so that a DataLoader's workers count epochs with this process
        return Iterable(self, request, convert)

    def iter_jax_batches(
        self,
        *,
        prefetch_batches=1,
        batch_size=256,
        dtypes=None,
        collate_fn=None,
        drop_last=False,
        local_shuffle_buffer_size=None,
        local_shuffle_seed=None,
        synchronize_batches=False,
        paddings=None,
    ):
        """Batches as dicts of column -> jax.Array (rows, *shape), divided by rows among JAX's devices.

        batch_size: rows for the devices of this process, a multiple of their number. On the CPU an array may
        be the engine's memory, uncopied: JAX reads it, and copies what is donated. dtypes: one dtype, or a
        dict of column -> dtype; without it JAX makes int64 and float64 its default widths. paddings: a
        number, or a dict of column -> number, that fills a short last batch up to batch_size rows.
        collate_fn: gets the batch as the class in headrace.data.collate_fn says (else a dict of arrays) and
        returns arrays, or a dict of them. local_shuffle_*: as in iter_batches. TypeMismatchError names a
        column that is no array of numbers; UnsupportedError: synchronize_batches with several processes.
        """
        from headrace.data.jax_batches import JaxBatches

        if not is_whole(batch_size) or batch_size < 1:
            raise InvalidArgument(
                f"iter_jax_batches: batch_size: expected a number of at least 1, found {batch_size!r}"
            )
        shuffle = _shuffle(local_shuffle_buffer_size, local_shuffle_seed)
        request = _request(batch_size, drop_last, prefetch_batches) | shuffle
        convert = JaxBatches(batch_size, dtypes, collate_fn, paddings, synchronize_batches)
        return Iterable(self, request, convert)

    def to_torch(
        self,
        *,
        label_column=None,
        feature_columns=None,
        label_column_dtype=None,
        feature_column_dtypes=None,
        batch_size=1,
        prefetch_batches=1,
        drop_last=False,
        local_shuffle_buffer_size=None,
        local_shuffle_seed=None,
        unsqueeze_label_tensor=True,
        unsqueeze_feature_tensors=True,
    ):
        """A torch IterableDataset with items (features, label), one per batch; each pass over it is one over
        the rows.

        feature_columns: a list of names gives one tensor (rows, columns), a list of lists a list of such
        tensors, a dict of lists a dict of them; None means all columns except the label. The label is a
        tensor (rows, 1), or (rows,) without unsqueeze_label_tensor; None without label_column.
        feature_column_dtypes has the form of feature_columns, or is one dtype for all.

        Use batch_size=None in torch's DataLoader, so that its batches are these. With num_workers=n worker w
        gives the batches w, w + n, ...: each batch once, in the order of a pass without workers. Each worker
        runs the whole plan with a share of the threads, so the engine without workers is faster, unless the
        DataLoader's own work takes longer. state_dict() and load_state_dict() are those of the batches; in a
        worker, those of its share.
        """
        from headrace.data.torch_dataset import TorchIterableDataset

        batches = self.iter_torch_batches(
            batch_size=batch_size,
            prefetch_batches=prefetch_batches,
            drop_last=drop_last,
            local_shuffle_buffer_size=local_shuffle_buffer_size,
            local_shuffle_seed=local_shuffle_seed,
            device="cpu",
        )
        return TorchIterableDataset(
            batches,
            label_column,
            feature_columns,
            label_column_dtype,
            feature_column_dtypes,
            unsqueeze_label_tensor,
            unsqueeze_feature_tensors,
        )

    def materialize(self):
        """A MaterializedDataset of the rows of one pass."""
        tables = Iterable(self, _request(SHARE_ROWS, False, 1), _unchanged)
        return _materialized(materializing.node_of(tables, lambda: getattr(self.schema(), "_core", None)))

    def iter_tf_batches(
        self,
        *,
        prefetch_batches=1,
        batch_size=256,
        dtypes=None,
        drop_last=False,
        local_shuffle_buffer_size=None,
        local_shuffle_seed=None,
    ):
        """Batches as dicts of column -> tf.Tensor (rows, *shape); lists of different lengths become a
        tf.RaggedTensor.

        dtypes: one tf.DType, or a dict of column -> tf.DType. Makes one copy of each value.
        local_shuffle_*: as in iter_batches. TypeMismatchError names a column that has no tensor: times,
        structs, missing texts, tensors of different shapes.
        """
        from headrace.data.tf_batches import TfBatches

        shuffle = _shuffle(local_shuffle_buffer_size, local_shuffle_seed)
        request = _request(batch_size, drop_last, prefetch_batches) | shuffle
        return Iterable(self, request, TfBatches(dtypes))

    def to_tf(
        self,
        feature_columns,
        label_columns,
        *,
        additional_columns=None,
        prefetch_batches=1,
        batch_size=1,
        drop_last=False,
        local_shuffle_buffer_size=None,
        local_shuffle_seed=None,
        feature_type_spec=None,
        label_type_spec=None,
        additional_type_spec=None,
    ):
        """A tf.data.Dataset of (features, labels) or (features, labels, additional), for Model.fit(). Each
        pass over it is a new epoch.

        *_columns: one column, which gives a tensor, or a list of columns, which gives a dict of tensors.
        *_type_spec: a tf.TypeSpec, or a dict of column -> tf.TypeSpec; without it those of the schema: lists
        are tf.RaggedTensors. local_shuffle_*: as in iter_batches. Errors as in iter_tf_batches.
        """
        from headrace.data import tf_batches

        parts = [(feature_columns, feature_type_spec), (label_columns, label_type_spec)]
        if additional_columns is not None:
            parts.append((additional_columns, additional_type_spec))
        shuffle = _shuffle(local_shuffle_buffer_size, local_shuffle_seed)
        request = _request(batch_size, drop_last, prefetch_batches) | shuffle
        return tf_batches.dataset(self, request, parts, Iterable)

    def iter_rows(self, *, prefetch_blocks=0, local_shuffle_buffer_size=None, local_shuffle_seed=None):
        """Rows as dicts: Python scalars, str, bytes, None; arrays for tensors and lists of numbers.

        The shares of a split take the rows in turn, as with batches of one row: rank r of n has the rows r,
        r + n, ... of the epoch. Local shuffle: as in iter_batches.
        """
        shuffle = _shuffle(local_shuffle_buffer_size, local_shuffle_seed)
        request = _request(None, False, 1) | shuffle | {"rows": True}
        return Iterable(self, request, None, by_row=True)

    def schema(self):
        raise NotImplementedError

    def stats(self):
        """Statistics of the last pass, as JSON text; '{}' before the first."""
        return self.last_stats or "{}"


def _converter(batch_format, padding):
    """The function of a table that returns a batch. NumPy takes the shortest way: 100,000 batches a second
    feel every Python call.
    """
    if padding is not None:
        return functools.partial(_padded, padding=padding)
    if batch_format in ("numpy", "default"):
        return _numpy
    return functools.partial(_formatted, batch_format=batch_format)


def _numpy(table):
    return blocks.table_to_numpy(table)


def _formatted(table, batch_format):
    return blocks.to_format(table, batch_format)


def _padded(table, padding):
    return blocks.table_to_numpy(table) | padding.arrays(table)


def _unchanged(table):
    return table


def _shuffle(size, seed):
    """The part of a request about a local shuffle."""
    if size is not None and not is_whole(size, 1):
        raise InvalidArgument(
            f"local_shuffle_buffer_size: expected a number of at least 1, or None, found {size!r}"
        )
    check_seed("local_shuffle_seed", seed)
    if size is None:
        return {}
    return {"shuffle_rows": int(size), "shuffle_seed": None if seed is None else int(seed)}


def _request(batch_size, drop_last, prefetch_batches, own_memory=False):
    if batch_size is not None and (
        isinstance(batch_size, bool) or int(batch_size) != batch_size or batch_size < 1
    ):
        raise InvalidArgument(f"batch_size: expected a number of at least 1, or None, found {batch_size}")
    if prefetch_batches < 0:
        raise InvalidArgument(f"prefetch_batches: expected 0 or more, found {prefetch_batches}")
    return {
        "batch_rows": int(batch_size or 0),
        "drop_last": bool(drop_last),
        "prefetch": int(prefetch_batches) or -1,
        "own_memory": own_memory,
        "shuffle_rows": 0,
        "shuffle_seed": None,
    }


class DatasetIterator(DataIterator):
    """Passes over a whole dataset."""

    def __init__(self, dataset):
        super().__init__()
        self._dataset = dataset
        self._options = None  # of runs, if they are not those of this process's DataContext

    def __repr__(self):
        return f"DataIterator({self._dataset!r})"

    def _pass(self, request, epoch, position, how, share=None):
        options = dict(self._options or DataContext.get_current().run_options())
        if share is not None:
            makes_batches = self._dataset._node.plan.makes_batches()
            request, options = loader.of_share(request, options, share, SHARE_ROWS, makes_batches)
        return _RunPass(self._dataset._node, request, epoch, position, how, options)

    def _whole(self, state):
        if state["position"] is None:
            return state
        return state | {"position": self._dataset._node.plan.whole_position(state["position"])}

    def to_send(self):
        one = DatasetIterator(self._dataset)
        one._epochs = self._epochs
        one._options = self._options or DataContext.get_current().run_options()
        one.chosen_epoch = self.chosen_epoch
        return one

    def _warn_of_classes(self, position):
        resuming.warn(self._dataset._node, position, stacklevel=4)

    def schema(self):
        """The Schema; runs the functions on their first rows if necessary."""
        return self._dataset.schema()

    def materialize(self):
        """A MaterializedDataset of one pass."""
        return self._dataset.materialize()


class SplitIterator(DataIterator):
    """One rank's share of a split dataset, in steps of one batch each.

    source: where batches come from. Its methods are those of one rank of a _core.Split: begin(batch_rows,
    drop_last, prefetch, own_memory, by_row) -> number of the pass, next(number) -> Table or None, leave(),
    position(), restore(text, moved, strict) -> names of functions that have changed, schema(), stats(),
    close(); and warn_of_classes(text, stacklevel). Before position() it reports taken_rows() to the split.
    All ranks must begin an epoch with the same arguments; the first batch waits for all of them. The split
    has one position, and only while all ranks have taken equally many steps (otherwise MismatchError names
    rank and step).
    """

    def __init__(self, source, world_size=None, rank=None):
        super().__init__()
        self._source = source
        self._world_size = world_size
        self._rank = rank
        self._current = None  # the pass that reads the share's rows
        self._begins = None  # the epoch that its pass requests; None: the split's next one
        self._changing = threading.Lock()

    def __repr__(self):
        return f"DataIterator(rank {self._rank} of {self._world_size})"

    @property
    def world_size(self):
        """Number of shares."""
        return self._world_size

    def __reduce__(self):
        parts = self._source, self._world_size, self._rank, self._epochs, self.chosen_epoch
        return _sent_share, parts

    def to_send(self):
        return self

    def _pass(self, request, epoch, position, how, share=None):
        if share is not None and share.of > 1 and not isinstance(self._source, LocalSource):
            raise UnsupportedError(
                f"{self!r} is read by one process, and this DataLoader has {share.of} workers: use "
                "num_workers=0; the engine reads ahead with all cores"
            )
        with self._changing:
            old = self._current and self._current()
            if old is not None:
                old.supersede()
            one = _SharePass(self._source, request, epoch, position, how, self._rank)
            self._current = weakref.ref(one)
        begins, self._begins = self._begins, None
        one.begin(request, begins)
        return one

    def _next_epoch(self, wanted, share=None):
        chosen = self.chosen_epoch
        epoch = super()._next_epoch(wanted, share)
        self._begins = epoch if chosen is not None else None
        return epoch

    def _warn_of_classes(self, position):
        self._source.warn_of_classes(position, stacklevel=5)

    def _between(self, after):
        if self.chosen_epoch is not None:
            return _start_of(self.chosen_epoch)
        position = self._source.position()
        return _state(json.loads(position)["epoch"], position)

    def schema(self):
        """The Schema of the whole dataset."""
        found = self._source.schema()
        return None if found is None else Schema(found)

    def stats(self):
        """Statistics of the split so far, as JSON text."""
        return self._source.stats()

    def materialize(self):
        """This rank's rows of one pass, stored as by Dataset.materialize(). All ranks must call it."""
        one = self._pass(_request(1024, False, 1), self._next_epoch(None), None, {})
        return _materialized(materializing.node_of(iter(one.next, None), lambda: None))

    def close(self):
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


class SplitOwner:
    """A _core.Split of a dataset in this process, and the workers of its functions. Its shares refer to
    it.
    """

    def __init__(self, dataset, n, tail, replicas=1):
        self.node = dataset._node
        self.n = n
        self.pools = self.node.pools()
        self.split = _core.Split(
            self.node.plan,
            n,
            tail=tail,
            inline_calls=[p.inline for p in self.pools if p.inline],
            **DataContext.get_current().run_options(),
        )
        if replicas != 1:
            self.split.replicate(replicas)
        self._begun = self._warned = False
        self._running = []  # the pools that have begun
        self.sources = weakref.WeakSet()  # its ranks in this process
        self._end = weakref.finalize(self, _end_split, self.split, self._running)

    def report_wait(self, rank, seconds, over):
        """Warns once that a rank waits for others, and names them; over: raises."""
        info = json.loads(self.split.ranks())
        others = stalls.blamed(info)
        if not others or (self._warned and not over):
            return
        self._warned = True
        what = "begin the epoch" if info["ranks"][rank]["state"] == "asked" else "take their batches"
        text = (
            f"rank {rank} has waited {seconds:.2g} s for {stalls.listed(others)} to {what}: read all "
            "shares of a split at the same time, each in its own thread or process"
        )
        if over:
            raise _core.PeerError(text)
        warnings.warn(text, RuntimeWarning, stacklevel=3)

    def know_code(self):
        """Gives the engine the hashes of the functions, for positions."""
        for pool in self.pools:
            pool.know_code()

    def begin(self):
        """Starts the workers of functions, once."""
        if not self._begun:
            self._begun = True
            for pool in self.pools:
                pool.begin()
                self._running.append(pool)

    def serve_elsewhere(self):
        """The consumers are other processes: starts threads here for functions that run inline."""
        self.begin()
        for pool in self.pools:
            pool.serve_in_thread()

    def close(self):
        """Ends the run, and the workers' part in it."""
        self._end()


def _end_split(split, pools):
    split.close()
    for pool in pools:
        pool.end()


class LocalSource:
    """One rank of a split in this process, the source of a SplitIterator."""

    reading = None  # a weak reference to the _SharePass by rows

    def __init__(self, owner, rank):
        self.owner = owner
        self.rank = rank
        self.split = owner.split
        self._watch = None
        owner.sources.add(self)

    def begin(self, batch_rows, **request):
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

    def leave(self):
        self.split.leave(self.rank)

    def position(self, done=False):
        self.owner.know_code()
        for source in list(self.owner.sources):
            rows = taken_rows(source)
            if rows is not None:
                self.split.report_taken(source.rank, rows)
        return self.split.position(done)

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

    def __reduce__(self):
        raise UnsupportedError(
            f"share {self.rank} of {self.owner.n} belongs to this process, and another one cannot read "
            "it: use num_workers=0 (the engine reads ahead with all cores), or Dataset.shard() in each "
            "process of a launcher"
        )


# ---------------------------------------------------------------------------------------------------- torch


class TorchBatches:
    """Converts a table to a dict of tensors; see DataIterator.iter_torch_batches."""

    def __init__(self, dtypes, device, collate_fn, pin_memory, padding=None):
        if vars(type(collate_fn)).get("_is_default"):
            dtypes, collate_fn = collate_fn.dtypes, None
        self.dtypes = dtypes
        self.device = device
        self.collate_fn = collate_fn
        self.wanted_pin = bool(pin_memory)
        self.padding = padding
        self._load()

    def _load(self):
        self.torch = torch = package("torch", "iter_torch_batches")
        self.pin = self.wanted_pin and torch.cuda.is_available()
        self.copies = self.pin and self.collate_fn is None and self.padding is None and self.dtypes is None
        self.target = None

    def __reduce__(self):
        return TorchBatches, (self.dtypes, self.device, self.collate_fn, self.wanted_pin, self.padding)

    def _target(self):
        """The device, looked up once, at the first batch: by then the training worker has set its own."""
        if self.target is None:
            device = self.device
            if device == "auto":
                train = sys.modules.get("headrace.train.torch")
                device = train.get_device() if train is not None and _in_training() else "cpu"
            self.target = self.torch.device(device)
        return self.target

    def __call__(self, table):
        target = self._target()
        if self.collate_fn is not None:
            return self._moved(self.collate_fn(blocks.for_collate(table, self.collate_fn)), target)
        if self.copies:
            batch = table.batch(self._pinned_flat, self._pinned_other, False, True)
            return batch if target.type == "cpu" else self._moved(batch, target, pinned=True)
        if self.padding is not None:
            batch = self._padded(table)
        else:
            batch = table.batch(self._flat, self._other, True, True)
        if self.dtypes is not None:
            batch = self._typed(batch, table)
        return batch if target.type == "cpu" and not self.pin else self._moved(batch, target)

    def _padded(self, table):
        """All columns, in their order, with the padded ones and then their masks."""
        arrays = {name: self.torch.from_numpy(array) for name, array in self.padding.arrays(table).items()}

        def other(column):
            return None if column.name in arrays else self._other(column)

        return table.batch(self._flat, other, True, True) | arrays

    def _flat(self, column):
        return self.torch.from_numpy(np.asarray(column))

    def _other(self, column):
        kind = column.kind
        if kind in ("string", "binary"):
            return column.to_pylist()
        if kind in ("list", "tensor", "ragged") and not column.dense:
            if (array := _stacked(column)) is not None:
                return self.torch.from_numpy(array)
            raise TypeMismatchError(
                f"column '{column.name}' ({column.type}): {_ragged_text(column)}; use collate_fn to pad"
            )
        if kind == "bool" and column.null_count:
            what = f"column '{column.name}' ({column.type})"
            raise TypeMismatchError(
                f"{what} has {column.null_count} nulls in this batch, and a tensor of booleans cannot "
                "hold nulls"
            )
        if column.time or kind in ("clock", "decimal", "interval", "struct", "map", "object"):
            raise TypeMismatchError(f"column '{column.name}': torch has no tensor for type {column.type}")
        return self.torch.from_numpy(blocks.column_to_numpy(column, writable=True))

    def _typed(self, batch, table):
        dtypes = self.dtypes
        if not isinstance(dtypes, dict):
            dtypes = dict.fromkeys((n for n, v in batch.items() if not isinstance(v, list)), dtypes)
        for name, dtype in dtypes.items():
            if name not in batch:
                raise InvalidArgument(f"dtypes: no column '{name}'; the columns are {', '.join(batch)}")
            column = table.column(name)
            if isinstance(batch[name], list):
                raise TypeMismatchError(f"column '{name}': type {column.type} cannot be a tensor of {dtype}")
            if batch[name].is_floating_point() and not dtype.is_floating_point and not dtype.is_complex:
                n = _nulls(column)
                if n:
                    raise TypeMismatchError(
                        f"column '{name}' ({column.type}) has {n} nulls in this batch, and a tensor of "
                        f"{dtype} cannot hold nulls"
                    )
            batch[name] = self._as(batch[name], dtype)
        return batch

    def _as(self, tensor, dtype):
        torch = self.torch
        if dtype is torch.bfloat16 and tensor.dtype == torch.uint16:
            return tensor.view(torch.int16).view(torch.bfloat16)  # the bits of bfloat16, see normalize()
        return tensor.to(dtype)

    def _moved(self, value, target, pinned=False):
        """Tensors in dicts, lists and tuples on the device. pinned: they lie in pinned memory already."""
        torch = self.torch
        if isinstance(value, torch.Tensor):
            if self.pin and not pinned and value.device.type == "cpu":
                value = self._buffer(value.shape, value.dtype).copy_(value)
            return value.to(target, non_blocking=self.pin)
        if isinstance(value, dict):
            return {k: self._moved(v, target, pinned) for k, v in value.items()}
        if type(value) in (list, tuple) and any(isinstance(v, torch.Tensor) for v in value):
            return type(value)(self._moved(v, target, pinned) for v in value)
        return value

    def _buffer(self, shape, dtype):
        """A new tensor in pinned memory. torch pins each buffer once: its allocator takes one back when no
        tensor refers to it and the copies from it to devices, which it has recorded as events, are done.
        """
        return self.torch.empty(shape, dtype=dtype, pin_memory=True)

    def _pinned_flat(self, column):
        """One copy, from the memory of the table to pinned memory."""
        array = np.asarray(column)
        buffer = self._buffer(array.shape, self.torch.from_numpy(np.empty(0, array.dtype)).dtype)
        np.copyto(buffer.numpy(), array)
        return buffer

    def _pinned_other(self, column):
        value = self._other(column)
        return self._moved(value, "cpu") if isinstance(value, self.torch.Tensor) else value


def _in_training():
    context = sys.modules.get("headrace.train.context")
    return bool(context and getattr(context, "in_worker", lambda: False)())


def _stacked(column):
    """Lists of equal length with nulls among their values, as one array of floats; otherwise None."""
    if column.kind != "list" or column.null_count or not len(column):
        return None
    array = blocks.column_to_numpy(column)
    cells = list(array)
    alike = all(
        isinstance(c, np.ndarray) and c.dtype.kind == "f" and c.shape == cells[0].shape for c in cells
    )
    return np.stack(cells) if alike else None


def _nulls(column):
    """Number of nulls in a column, for lists with those of their values."""
    n = column.null_count
    while column.kind == "list":
        column = column.lists()[2]
        n += column.null_count
    return n


def _ragged_text(column):
    """Why the rows do not form one array."""
    if column.null_count:
        return f"{column.null_count} of {len(column)} rows are null"
    if column.kind == "ragged":
        shapes = [cell.shape for cell in blocks.column_to_numpy(column)]
        row = next((i for i, s in enumerate(shapes) if s != shapes[0]), 0)
        return f"row 0 has the shape {shapes[0]}, row {row} has {shapes[row]}"
    _, lengths, values = column.lists()
    lengths = np.asarray(lengths)
    for row, n in enumerate(lengths):
        if n != lengths[0]:
            return f"row 0 has {lengths[0]} values, row {row} has {n}"
    if values.kind in ("list", "tensor"):
        return "in its lists, " + _ragged_text(values)
    return f"values of type {values.type}" + (f" with {values.null_count} nulls" if values.null_count else "")


__all__ = [
    "DataIterator",
    "DatasetIterator",
    "Iterable",
    "LocalSource",
    "MismatchError",
    "SplitIterator",
    "SplitOwner",
]
