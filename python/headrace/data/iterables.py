"""Iterables of batches or rows: the results of iter_batches() and its siblings, and their passes.

Each `for` over an iterable is one pass and a new epoch; leaving a loop early ends its pass. state_dict()
describes what the consumer has taken, never what the engine has read ahead; load_state_dict() makes the next
pass resume there.

In a worker of torch's DataLoader a pass gives that worker's share of the batches: see loader.py.

Tests: tests/python/test_iter.py, test_positions.py, test_repeat.py, test_epochs.py
"""

from __future__ import annotations

import os
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Iterator
from typing import Any, Generic, Literal, Self, TypeVar, overload

from headrace import _core, lazy_module
from headrace._core import InvalidArgument, MismatchError, UnsupportedError
from headrace.data import accelerated, loader, taken_ahead
from headrace.data.context import DataContext, is_whole
from headrace.data.plan import Run

json = lazy_module("json")
run_stats = lazy_module("headrace.data.run_stats")
progress = lazy_module("headrace.data.progress")
blocks = lazy_module("headrace.data.blocks")  # imports numpy, while the engine already reads

ROWS_AT_ONCE = 1024  # rows that become Python objects together
VERSION = 2  # of states
TIMED_FIRST, TIMED_EACH = 64, 8  # batches whose conversion is timed: the first ones, then one of so many

T = TypeVar("T", covariant=True)  # a batch, or a row

# --------------------------------------------------------------------------------------------------- passes


class RunPass:
    """A pass over the whole dataset."""

    remembers = True  # its position after an early end
    fetcher = None

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
        self.node = node
        self.epoch = epoch
        self.bar = None
        self.resumes = position is not None
        _warn_of_code(self.run.feed.code_differs)

    def position(self, row):
        """A position for this process; DatasetIterator._whole makes it valid for other processes."""
        return self.run.feed.position(-1 if row is None else row, False)

    @property
    def delays_next(self):
        """Whether the next epoch opens later than now: the sources of this one have not been read to the end,
        or its first table is the only one taken, and more are ready.
        """
        return self.run.feed.delays_next

    @property
    def may_open_next(self):
        return self.run.feed.may_open_next

    @property
    def guesses_next(self):
        return self.run.feed.guesses_next

    def start(self):
        """The number of the epoch, and whether the pass goes on in it, by a state of another rank too."""
        return self.epoch, self.resumes

    def others_got(self):
        """Whether the epoch gave another rank a row."""
        return False

    def forget(self, row):
        self.run.feed.forget(row)

    def converted(self, ns):
        """Reports the time that the consumer has spent to make its own batch of the last table."""
        self.run.feed.converted(ns)

    def stats(self):
        return self.run.stats()

    def show_progress(self):
        if DataContext.get_current().enable_iteration_progress_bars:
            self.bar = progress.of_run(self.run, f"epoch {self.epoch + 1}", self.node)
            self.bar.begin()

    def close(self):
        self.run.close()
        if self.bar is not None:
            self.bar.end()


class SharePass:
    """A pass over one rank's share."""

    remembers = False  # the state is common to all ranks
    delays_next = True  # the split opens its next epoch itself
    fetcher = None  # of taken_ahead.py

    def __init__(self, source, request, epoch, position, how, rank):
        self.rank = rank
        if position is not None:
            _warn_of_code(source.restore(position, **how))
        self.source = source
        self.epoch = epoch
        self.done = self.got = False  # got: it has given a row
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

    def show_progress(self):
        pass  # the driver shows that of all ranks

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
            if not self.got:
                self._warn_of_no_rows()
        elif table.num_rows:
            self.got = True
        return table

    def _warn_of_no_rows(self):
        """At the end of an epoch that gave this rank no row, though it has some."""
        try:
            stats = json.loads(self.source.stats())
        except _core.HeadraceError:
            return
        text = None
        if stats["steps"] == 0 and stats["dropped_rows"] > 0 and not self.rank:
            text = (
                f"no rank got a row: the {stats['dropped_rows']} rows of the epoch are too few for a step of "
                f"all {stats['ranks']} ranks (drop_last=True needs a full batch for each)"
            )
        elif stats["steps"] > 0 and not stats["resumed"]:
            text = (
                f"rank {self.rank} got no row: the epoch has fewer batches than its {stats['ranks']} ranks, "
                "and ranks may get unequal numbers of rows"
            )
        if text:
            warnings.warn(text, RuntimeWarning, stacklevel=6)

    def n_ahead(self):
        """The number of batches or rows that the consumer has taken and not used. One that takes no more
        leaves the epoch.
        """
        if taken_ahead.is_through(self.fetcher):
            self.close()
        return 0 if self.done else taken_ahead.n_batches(self.fetcher)

    def position(self, row):
        return self.source.position(ahead=self.n_ahead())

    def forget(self, row):
        pass

    def converted(self, ns):
        """As of RunPass."""
        self.source.converted(ns)

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


class Iterable(Generic[T]):
    """The result of iter_batches(), iter_torch_batches() and iter_rows(): each iteration over it is one
    epoch.

    A context manager; close() ends the current pass. stats() describes the last pass.
    """

    def __init__(self, owner: Any, request: dict[str, Any], convert: Any, by_row: bool = False) -> None:
        self._owner = owner
        self._request = request
        self._convert = convert
        self._by_row = by_row
        self._pass = None
        self._resume = None
        self._how = {}  # arguments moved and strict of load_state_dict()
        self._loaded = None  # (process that loaded the state, random token of the state)
        self._after = None  # the state after the last pass
        self._begun = None  # the state that the last pass began with, if it was a resume
        self._beginning = threading.Lock()

    def set_epoch(self, n: int) -> None:
        """The next pass is epoch n, for programs that count epochs themselves; a pass that follows another
        one needs no call. All ranks of a split must give the same number. After load_state_dict() n must be
        the epoch of the state: another one is a MismatchError of the pass.
        """
        self._owner.set_epoch(n)

    def repeat(self, n: int | None = None) -> Repeated[T]:
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

    def __reduce__(self) -> tuple[Any, ...]:
        parts = self._owner.to_send(), self._request, self._convert, self._by_row
        return _sent, (loader.packed(parts), (self._resume, self._how, self._loaded))

    def __iter__(self) -> Iterator[T]:
        share = loader.share()
        accelerated.refuse_share(self._owner)
        with self._beginning:
            old = self._pass and self._pass()
            if old is not None and not old.ended:
                old.supersede()
            if share is not None:
                one = _SharedRowPass(self, share) if self._by_row else _SharedBatchPass(self, share)
            else:
                one = _RowPass(self) if self._by_row else _BatchPass(self)
            self._pass = weakref.ref(one)
            if share is None:
                one.expect_another(self._owner.early)
        return one

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the current pass, if there is one."""
        one = self._pass and self._pass()
        if one is not None:
            one.close()
        if self._owner.early is not None:
            self._owner.early.drop()

    @overload
    def stats(self, format: Literal["text", "json"] = ...) -> str: ...
    @overload
    def stats(self, format: Literal["dict"]) -> dict[str, Any]: ...
    def stats(self, format: str = "text") -> str | dict[str, Any]:
        """Statistics of the last pass; "no run yet", {} or "{}" before the first. See Dataset.stats."""
        one = self._pass and self._pass()
        text = one.stats() if one is not None else self._owner.last_stats
        return run_stats.in_format(text or "{}", format)

    def state_dict(self) -> dict[str, Any]:
        """The consumer's position: a small dict of epoch and position, after the items taken from this
        iterable.

        After the end of a pass it is the beginning of the next epoch.
        """
        one = self._pass and self._pass()
        if one is not None and one.active:
            return self._owner._whole(one.used())
        after = None if self._owner.chosen_epoch is not None else self._after
        return dict(self._resume or self._owner._between(after))

    def load_state_dict(self, state: dict[str, Any], *, moved: bool = False, strict: bool = False) -> None:
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
        self._begun = state
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
        under = None
        if self._owner.early is not None and share is None:
            under = self._owner.early.take(self._owner, self._request, epoch if position is None else None)
        if under is None:
            under = self._owner._pass(self._request, epoch, position, how, share)
        return under, begun[2] if begun else 0


class Repeated(Generic[T]):
    """The result of Iterable.repeat(): an iterable of the items of many epochs. Its other methods are as
    those of an Iterable.
    """

    def __init__(self, iterable: Iterable[T], n: int | None) -> None:
        self._iterable = iterable
        self._n = n

    def __reduce__(self) -> tuple[Any, ...]:
        return Repeated, (self._iterable, self._n)

    def set_epoch(self, n: int) -> None:
        """The next iteration begins with epoch n; see Iterable.set_epoch()."""
        self._iterable.set_epoch(n)

    def __iter__(self) -> Iterator[T]:
        return _Repeating(self._iterable, self._n)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        self._iterable.close()

    @overload
    def stats(self, format: Literal["text", "json"] = ...) -> str: ...
    @overload
    def stats(self, format: Literal["dict"]) -> dict[str, Any]: ...
    def stats(self, format: str = "text") -> str | dict[str, Any]:
        return self._iterable.stats(format)  # type: ignore[call-overload]

    def state_dict(self) -> dict[str, Any]:
        return self._iterable.state_dict()

    def load_state_dict(self, state: dict[str, Any], *, moved: bool = False, strict: bool = False) -> None:
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
        self.fetcher = taken_ahead.fetcher()  # that iterates over it
        self.under = None  # a RunPass or SharePass
        self.active = False
        self.ended = False
        self.finished = False  # it gave all items, and was not left early
        self.superseded = False
        self.reading = threading.Lock()
        self.prepares = False  # the next epoch follows, and opens when the sources of this one have been read
        self.likely = False  # the same, if nothing speaks against it: the program has looped before
        self.guesses = False  # the same, if much speaks for it: the first epoch
        self.epoch = None  # set with `prepares`
        self.resumed = False  # the same

    def __iter__(self):
        return self

    def __reduce__(self):
        raise UnsupportedError(
            "a pass belongs to its process: pickle the iterable that iter_batches() returned, and give it "
            "load_state_dict() of this one's state_dict() to go on from here"
        )

    def expect_another(self, early):
        """Whether this epoch opens the next one, which early.py keeps."""
        iterable = self.iterable
        if early is not None:
            resume = iterable._resume
            self.likely = early.likely(iterable._request) or bool(resume and resume["epoch"])
            self.guesses = not self.likely and early.may_guess()

    def _prepare(self):
        if not self.under.delays_next:
            opens = self.prepares or self.under.may_open_next
            self.prepares = self.likely = self.guesses = False
            if opens:
                self._open_next()

    def _guess(self):
        if self.under.guesses_next:
            self.guesses = False
            self._open_next(guessed=True)

    def _open_next(self, guessed=False):
        owner = self.iterable._owner
        if owner.early is not None:
            owner.early.open(owner, self.iterable._request, self.under.epoch + 1, guessed)

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
                self.under.fetcher = self.fetcher
                self.under.show_progress()
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
                self.iterable._after = start_of(self.under.epoch + 1)
                self.finished = True
                if self.iterable._owner.early is not None:
                    self.iterable._owner.early.ended(self.iterable._request)
            self.close()
        elif self.prepares or self.likely:
            self._prepare()
        return table

    def used(self):
        """The state after the items that the consumer has used."""
        if self.under.remembers and taken_ahead.is_through(self.fetcher):
            return start_of(self.under.epoch + 1)
        return self.state()

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
                self.iterable._owner.keep_stats(self.under.stats())
            except _core.HeadraceError:
                pass  # still in use, or the other end has closed

    def _remember(self):
        """The consumer left the pass early: keeps the state after the last item that it took."""
        try:
            self.iterable._after = self.used()
        except _core.HeadraceError:
            self.iterable._after = None

    def __del__(self, is_finalizing=sys.is_finalizing):  # at the interpreter's end, names are gone
        if getattr(self, "active", False) and not is_finalizing():  # else runs have ended, too
            self.close()


class _BatchPass(_Pass):
    def __init__(self, iterable):
        super().__init__(iterable)
        self.convert = iterable._convert
        self.made = 0  # batches
        self.before = None  # the state before the last batch, if a fetcher may hold it

    def __next__(self):
        if self.fetcher and self.active and self.under.remembers:  # a share knows it
            self.before = self.state()
        table = self._next_table()
        if table is None:
            raise StopIteration
        self.made += 1
        if self.made > TIMED_FIRST and self.made % TIMED_EACH:
            return self.convert(table)
        return self._timed(table)

    def _timed(self, table):
        begin = time.perf_counter_ns()
        made = self.convert(table)
        took = time.perf_counter_ns() - begin
        try:
            self.under.converted(took if self.made <= TIMED_FIRST else took * TIMED_EACH)
            if self.guesses:
                self._guess()
        except _core.HeadraceError:
            pass  # another thread has closed the pass
        return made

    def state(self):
        return _state_after(self.under, None)

    def used(self):
        if not self.under.remembers or not taken_ahead.n_batches(self.fetcher):
            return super().used()
        return self.before or self.iterable._begun or start_of(self.under.epoch)


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
            if self.guesses:
                self._guess()
        return table

    def supersede(self):
        super().supersede()
        self.rows, self.table = iter(()), None  # so that the reader reaches _next_table() and its error

    def state(self):
        return _state_after(self.under, max(self.taken - taken_ahead.n_batches(self.fetcher), 0))


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


def state_of(epoch, position):
    return {"version": VERSION, "epoch": epoch, "position": position}


def _state_after(under, row):
    position = under.position(row)  # of a share, its epoch is that of all ranks
    return state_of(under.epoch if under.remembers else _core.Plan.position_epoch(position), position)


def start_of(epoch):
    return state_of(epoch, None)
