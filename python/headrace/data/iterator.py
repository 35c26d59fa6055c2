"""DataIterator: passes over a dataset, or over one rank's share of it.

iter_batches() and its siblings return iterables. Each `for` over one is a pass of its own, and a new epoch;
leaving a pass early ends it. state_dict() says what the consumer has taken, never what was read ahead;
load_state_dict() makes the next pass go on from there.

In a worker of torch's DataLoader a pass gives that worker's share of the batches: see loader.py.
"""

import os
import sys
import threading
import warnings
import weakref

from headrace import _core, lazy_module
from headrace._core import InvalidArgument, MismatchError, TypeMismatchError, UnsupportedError
from headrace.data import loader
from headrace.data.context import DataContext, check_format, check_seed, is_whole
from headrace.data.plan import Run, explained
from headrace.data.schema import Schema

json = lazy_module("json")
np = lazy_module("numpy")
keeping = lazy_module("headrace.data.keeping")
resuming = lazy_module("headrace.data.resuming")
blocks = lazy_module("headrace.data.blocks")  # imports numpy: while the engine already reads

ROWS_AT_ONCE = 1024  # rows made into Python objects together
WARN_AFTER_S = 30  # of a share's wait for the others
SHARE_ROWS = 4096  # of a share's batches where the consumer does not say
VERSION = 2  # of states


def materialized_by(make):
    """Registers what makes a dataset of the Node of kept rows: the module of datasets imports this one."""
    global _materialized
    _materialized = make


_materialized = None

# --------------------------------------------------------------------------------------------------- passes


class _RunPass:
    """A pass over the whole dataset."""

    remembers = True  # where it was, when it is left

    def __init__(self, node, request, epoch, position, how, options):
        keep = request["batch_rows"] == 0
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
        _warn_of_code(self.run.feed.code_differs)

    def position(self, row):
        """For this process; DatasetIterator makes it whole when it is asked for."""
        return self.run.feed.position(-1 if row is None else row, False)

    def forget(self, row):
        self.run.feed.forget(row)

    def stats(self):
        return self.run.stats()

    def close(self):
        self.run.close()


class _SharePass:
    """A pass over one rank's share."""

    remembers = False  # the state is that of all ranks

    def __init__(self, source, request, epoch, position, how):
        if position is not None:
            _warn_of_code(source.restore(position, **how))
        self.source = source
        self.epoch = epoch
        self.done = False
        self.superseded = False
        self.lock = threading.Lock()
        self.number = None

    def begin(self, request):
        self.number = self.source.begin(
            request["batch_rows"] or (1 if "rows" in request else SHARE_ROWS),
            extra=json.dumps({"rows": True}) if "rows" in request else "",
            **{k: v for k, v in request.items() if k not in ("batch_rows", "rows")},
        )

    def supersede(self):
        """Another pass over this share begins: this one has no rows any more, and nothing to give up."""
        with self.lock:
            self.superseded = True

    def next(self):
        if self.superseded:
            raise _superseded()
        table = self.source.next(self.number)
        self.done = table is None
        return table

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


def _superseded():
    return InvalidArgument(
        "a new iteration over the same iterable or share has ended this one; threads that read at the same "
        "time need an iterable each"
    )


def _warn_of_code(names):
    if names:
        warnings.warn(
            f"load_state_dict: the code or the data of {names} is not that with which the position was "
            "saved. The rows before the position were made by the other one; they are skipped, not made "
            "again (strict=True refuses such a position)",
            UserWarning,
            stacklevel=2,
        )


# ------------------------------------------------------------------------------------------------ iterables


class Iterable:
    """What iter_batches(), iter_torch_batches() and iter_rows() return: each iteration over it is one
    epoch.

    A context manager; close() ends the pass that is under way. stats() gives the counters of the last pass
    as a dict.
    """

    def __init__(self, owner, request, convert, by_row=False):
        self._owner = owner
        self._request = request
        self._convert = convert
        self._by_row = by_row
        self._pass = None
        self._resume = None
        self._how = {}  # moved, strict, of what is resumed
        self._loaded = None  # the process that loaded it, and a number for it
        self._after = None  # the state once a pass has ended
        self._beginning = threading.Lock()

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
        return one

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def close(self):
        """Ends the pass that is under way, if there is one."""
        one = self._pass and self._pass()
        if one is not None:
            one.close()

    def stats(self):
        """Counters of the last pass, a dict; empty before the first."""
        one = self._pass and self._pass()
        text = one.stats() if one is not None else self._owner.last_stats
        return json.loads(text) if text else {}

    def state_dict(self):
        """Where the consumer is: a small dict of epoch and position, of what was taken from this iterable.

        After the end of a pass: the beginning of the next epoch.
        """
        one = self._pass and self._pass()
        if one is not None and one.active:
            return self._owner._whole(one.state())
        return dict(self._resume or self._owner._between(self._after))

    def load_state_dict(self, state, *, moved=False, strict=False):
        """The next pass goes on from `state`, of an iterable with the same plan and the same batches. What is
        no state_dict() of this version is InvalidArgument at once; where it does not fit, that pass raises
        MismatchError.

        Compared are the plan's steps and arguments, the files (names below the folder that all share, sizes,
        times, and contents where times differ), the data in memory, and the functions' code: files and data
        that differ are refused, code that differs is a warning, or with strict=True refused. moved=True: the
        files may have other names and times, as long as their contents are the same. See docs/resuming.md.
        """
        state = _checked(state)
        self._owner._warn_of_classes(state["position"])
        self.close()
        self._resume = state
        self._how = {"moved": bool(moved), "strict": bool(strict)}
        self._loaded = os.getpid(), int.from_bytes(os.urandom(7), "little")

    def _begin(self, share=None):
        """The pass to read from, and how many batches or rows of the order it begins behind."""
        state, self._resume = self._resume, None
        if state and share is not None and self._loaded[0] != os.getpid():
            state = state if self._owner._epochs.claims(self._loaded[1], share) else None
        how, self._how = (self._how, {}) if state and state["position"] else ({}, {})
        begun = state.get("workers") if state else None
        if begun and (share is None or begun[:2] != [share.number, share.of]):
            mine = "no worker" if share is None else f"worker {share.number} of {share.of}"
            raise MismatchError(
                f"load_state_dict: the state is of worker {begun[0]} of {begun[1]} of a DataLoader; "
                f"this is {mine}"
            )
        epoch = self._owner._next_epoch(state and state["epoch"], share)
        position = state and state["position"]
        under = self._owner._pass(self._request, epoch, position, how, share)
        return under, begun[2] if begun else 0


_KEYS = {"version", "epoch", "position"}


def _checked(state):
    """A copy of a state_dict(), or InvalidArgument."""
    where = "load_state_dict"
    if not isinstance(state, dict):
        raise InvalidArgument(
            f"{where}: expected the dict that state_dict() gave, not {type(state).__name__}"
        )
    version = state.get("version")
    if not is_whole(version, 1):
        raise InvalidArgument(f"{where}: not a state_dict() of Headrace: its version is {version!r:.50}")
    if version != VERSION:
        by = "an older" if version < VERSION else "a newer"
        raise InvalidArgument(
            f"{where}: version {version!r:.50} of {by} Headrace; this one reads version {VERSION}"
        )
    if missing := _KEYS - set(state):
        raise InvalidArgument(f"{where}: the state lacks {', '.join(sorted(missing))}")
    if unknown := [k for k in state if k not in _KEYS | {"workers"}]:
        raise InvalidArgument(f"{where}: a state has no {unknown[0]!r:.50}")
    epoch, position, workers = state["epoch"], state["position"], state.get("workers")
    if not is_whole(epoch, 0) or epoch >= 1 << 62:
        raise InvalidArgument(f"{where}: epoch {epoch!r:.50}: expected a number of passes")
    if position is not None:
        if not isinstance(position, str) or not position.isascii() or "\0" in position:
            raise InvalidArgument(f"{where}: not a position: {type(position).__name__} {position!r:.50}")
        if (of := _core.Plan.position_epoch(position)) != epoch:
            raise InvalidArgument(f"{where}: epoch {epoch} with a position of epoch {of}")
    if workers is not None and not (
        isinstance(workers, (list, tuple))
        and len(workers) == 3
        and all(is_whole(n, 0) and n < 1 << 62 for n in workers)
        and workers[0] < workers[1]
    ):
        raise InvalidArgument(f"{where}: workers {workers!r:.50}: expected number, number of all, rows taken")
    copy = {"version": VERSION, "epoch": int(epoch), "position": position}
    return copy if workers is None else copy | {"workers": [int(n) for n in workers]}


def _sent(packed, resume):
    """What Iterable.__reduce__ made: an iterable in another process."""
    made = Iterable(*loader.unpacked(packed))
    made._resume, made._how, made._loaded = resume
    return made


class _Pass:
    """The iterator of one epoch. The run begins with the first item, and ends with the last, close(), or
    when it is dropped.
    """

    def __init__(self, iterable):
        self.iterable = iterable
        self.under = None  # _RunPass or _SharePass
        self.active = False
        self.ended = False
        self.superseded = False
        self.reading = threading.Lock()

    def __iter__(self):
        return self

    def supersede(self):
        """A new iteration over the same iterable begins. Whoever reads from this one, maybe in another
        thread, is to hear of it instead of taking it for the end.
        """
        self.superseded = True
        self.close()

    def _begin(self):
        self.under, _ = self.iterable._begin()

    def _taker(self):
        """What gives the next table; asked for once a pass, since there may be 100,000 batches a second."""
        return self.under.next

    def _next_table(self):
        if self.superseded:
            raise _superseded()
        if self.ended:
            return None
        if not self.reading.acquire(blocking=False):
            raise InvalidArgument("two threads, or a function and its consumer, read from one iterator")
        try:
            if self.under is None:
                self._begin()
                self._take = self._taker()
                self.active = True
            table = None if self.ended else self._take()  # close() may have come meanwhile
        except BaseException as e:
            self.close()
            if self.superseded and isinstance(e, _core.HeadraceError):
                raise _superseded() from None
            raise
        finally:
            self.reading.release()
        if self.superseded:
            self.close()  # it may have begun after supersede() had closed it
            raise _superseded()
        if table is None:
            if not self.ended:
                self.iterable._after = _start_of(self.under.epoch + 1)
            self.close()
        return table

    def stats(self):
        return self.under.stats() if self.active else self.iterable._owner.last_stats

    def close(self):
        """Ends the pass. Batches that were handed out stay valid."""
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
                pass  # still in use, or its other end is gone

    def _remember(self):
        """Left in the middle: the state stays that of the last item taken."""
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
        return _state(self.under.epoch, self.under.position(None))


class _SharedBatchPass(_BatchPass):
    """Every n-th batch, of a worker of a DataLoader: so that the batches of all workers, taken in turn, are
    those of one pass.
    """

    def __init__(self, iterable, share):
        super().__init__(iterable)
        self.share = share
        self.at = 0  # in the order of all

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
        """A table with rows from `at` on, also if another thread takes self.table away (supersede)."""
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
        self.rows, self.table = iter(()), None  # those that were made are not to hide it

    def state(self):
        return _state(self.under.epoch, self.under.position(self.taken))


class _SharedRowPass(_RowPass):
    """Every n-th row; see _SharedBatchPass."""

    def __init__(self, iterable, share):
        super().__init__(iterable)
        self.share = share
        self.begun = self.made = 0  # where the pass began in the order of all; rows made into objects

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


def _start_of(epoch):
    return _state(epoch, None)


# --------------------------------------------------------------------------------------------- DataIterator


class DataIterator:
    """Passes over a dataset. Made by Dataset.iterator() and streaming_split().

    All iterables of one DataIterator count epochs together: the second pass, through whichever, is epoch 1.
    """

    def __init__(self):
        self._epochs = loader.Epochs()
        self.last_stats = None

    @property
    def epochs_begun(self):
        return self._epochs.begun

    def _next_epoch(self, wanted, share=None):
        return self._epochs.begin(wanted, share)

    def _pass(self, request, epoch, position, how, share=None):
        raise NotImplementedError

    def _warn_of_classes(self, position):
        """Says once which classes of the plan know nothing of the rows before a position."""

    def _between(self, after):
        """The state while no pass is under way; after: where the last one of an iterable ended, or None."""
        return self._whole(after or _start_of(self.epochs_begun))

    def _whole(self, state):
        """A state that is good in another process, too."""
        return state

    def to_send(self):
        """This, as it is pickled with an iterable of its own."""
        raise UnsupportedError(
            f"{self!r} belongs to this process: a DataLoader's workers cannot read from it; use "
            "num_workers=0, the engine reads ahead with all cores"
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
    ):
        """Batches of exactly batch_size rows, the last one shorter unless drop_last.

        batch_format "numpy" (the default): dict of column -> array (rows, *shape), read-only where it
        shares the engine's memory; "pandas": a DataFrame; "pyarrow": a pyarrow.Table. batch_size None:
        tables as they come. prefetch_batches + 1 batches are alive beside those that the consumer holds.

        local_shuffle_buffer_size=W: rows come in a random order within windows of W rows, which overlap by
        half: a row moves by up to 1.5 W. About 2 W rows are held in memory (BudgetError where they do not
        fit). The order depends on local_shuffle_seed (or, without one, DataContext.seed) and on the epoch,
        and on nothing else; ranks that share a pass have to ask for the same.
        """
        batch_format = check_format(batch_format)
        shuffle = _shuffle(local_shuffle_buffer_size, local_shuffle_seed)
        request = _request(batch_size, drop_last, prefetch_batches) | shuffle
        return Iterable(self, request, _Format(batch_format))

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
    ):
        """Batches as dict of column -> tensor (rows, *shape), each of its own memory: the consumer may
        write into it.

        dtypes: one torch dtype, or a dict of column -> dtype; torch.bfloat16 takes uint16 columns for its
        bits, as .image.normalize(dtype="bfloat16") makes them. device: "auto" is that of the training worker,
        or the CPU.
        collate_fn: gets the batch as a dict of numpy arrays; what it returns is the batch (tensors in
        dicts, lists and tuples are moved to the device). Text and bytes come as lists. Integers are float64
        with NaN in a batch in which one is null, as in numpy batches. TypeMismatchError names the column
        whose type has no tensor, whose rows are of different lengths, or that has nulls and is of booleans,
        or is to be of a dtype that has no NaN.
        """
        shuffle = _shuffle(local_shuffle_buffer_size, local_shuffle_seed)
        if collate_fn is not None and dtypes is not None:
            raise InvalidArgument(
                "iter_torch_batches: either dtypes or collate_fn; the function can convert as it likes"
            )
        request = _request(batch_size, drop_last, prefetch_batches, own_memory=True) | shuffle
        self._epochs.share()  # a DataLoader's workers may count them
        return Iterable(self, request, TorchBatches(dtypes, device, collate_fn, pin_memory))

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
        """A torch IterableDataset whose items are (features, label) of a batch; each pass of it is one over
        the rows.

        feature_columns: a list of names gives one tensor (rows, columns), a list of lists a list of such
        tensors, a dict of lists a dict; None all columns but the label. The label is a tensor (rows, 1), or
        (rows,) without unsqueeze_label_tensor, None without a label_column. dtypes are as the columns, or
        one for all.

        For torch's DataLoader use batch_size=None, so that its batches are these. With num_workers=n worker w
        gives batches w, w + n, ...: each once, in the order that they have without workers. Each worker
        runs the whole plan for that, with a share of the threads: the engine alone, without workers, is
        faster, unless what comes behind it in the DataLoader takes longer. state_dict() and load_state_dict()
        are those of the batches; in a worker, of its share.
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
        tables = Iterable(self, _request(SHARE_ROWS, False, 1), _as_it_is)
        return _materialized(keeping.kept(tables, lambda: getattr(self.schema(), "_core", None)))

    def iter_rows(self, *, prefetch_blocks=0, local_shuffle_buffer_size=None, local_shuffle_seed=None):
        """Rows as dicts: Python scalars, str, bytes, None; arrays for tensors and lists of numbers.

        A share's rows come one step each (batch_size 1): use iter_batches where speed matters. A local
        shuffle is that of iter_batches.
        """
        shuffle = _shuffle(local_shuffle_buffer_size, local_shuffle_seed)
        request = _request(None, False, 1) | shuffle | {"rows": True}
        return Iterable(self, request, None, by_row=True)

    def schema(self):
        raise NotImplementedError

    def stats(self):
        """What the last pass did, as JSON text; '{}' before the first."""
        return self.last_stats or "{}"


class _Format:
    """Table -> a batch of that format."""

    def __init__(self, batch_format):
        self.batch_format = batch_format

    def __call__(self, table):
        return blocks.to_format(table, self.batch_format)


def _as_it_is(table):
    return table


def _shuffle(size, seed):
    """The request's part about a local shuffle."""
    if size is not None and not is_whole(size, 1):
        raise InvalidArgument(f"local_shuffle_buffer_size {size!r}: expected a number of at least 1, or None")
    check_seed("local_shuffle_seed", seed)
    if size is None:
        return {}
    return {"shuffle_rows": int(size), "shuffle_seed": None if seed is None else int(seed)}


def _request(batch_size, drop_last, prefetch_batches, own_memory=False):
    if batch_size is not None and (
        isinstance(batch_size, bool) or int(batch_size) != batch_size or batch_size < 1
    ):
        raise InvalidArgument(f"batch_size {batch_size}: expected a number of at least 1, or None")
    if prefetch_batches < 0:
        raise InvalidArgument(f"prefetch_batches {prefetch_batches}: expected 0 or more")
    return {
        "batch_rows": int(batch_size or 0),
        "drop_last": bool(drop_last),
        "prefetch": int(prefetch_batches) or -1,
        "own_memory": own_memory,
        "shuffle_rows": 0,
        "shuffle_seed": None,
    }


class DatasetIterator(DataIterator):
    """Passes over all of a dataset."""

    def __init__(self, dataset):
        super().__init__()
        self._dataset = dataset
        self._options = None  # of runs, where they are not those of this process's DataContext

    def __repr__(self):
        return f"DataIterator({self._dataset!r})"

    def _pass(self, request, epoch, position, how, share=None):
        options = dict(self._options or DataContext.get_current().run_options())
        if share is not None:
            request, options = loader.of_share(request, options, share, SHARE_ROWS)
        return _RunPass(self._dataset._node, request, epoch, position, how, options)

    def _whole(self, state):
        if state["position"] is None:
            return state
        return state | {"position": self._dataset._node.plan.whole_position(state["position"])}

    def to_send(self):
        one = DatasetIterator(self._dataset)
        one._epochs = self._epochs
        one._options = self._options or DataContext.get_current().run_options()
        return one

    def _warn_of_classes(self, position):
        resuming.warn(self._dataset._node, position, stacklevel=4)

    def schema(self):
        """The Schema; runs the functions on their first rows if it must."""
        return self._dataset.schema()

    def materialize(self):
        """A MaterializedDataset of one pass."""
        return self._dataset.materialize()


class SplitIterator(DataIterator):
    """One rank's share of a dataset that is dealt to several, in steps of a batch each.

    source: where batches come from. Its methods are those of a rank of a _core.Split: begin(batch_rows,
    drop_last, prefetch, own_memory, extra) -> number of the pass, next(number) -> Table or None, leave(),
    position(), restore(text, moved, strict) -> names of functions that are others now, schema(), stats(),
    close(); and warn_of_classes(text, stacklevel). All ranks have to begin an epoch with the same
    arguments; the first batch waits until they all have. The shares' one position is only there when all
    ranks have taken the same number of steps (MismatchError otherwise, naming rank and step).
    """

    def __init__(self, source, world_size=None, rank=None):
        super().__init__()
        self._source = source
        self._world_size = world_size
        self._rank = rank
        self._current = None  # the pass that has the share's rows
        self._changing = threading.Lock()

    def __repr__(self):
        return f"DataIterator(rank {self._rank} of {self._world_size})"

    @property
    def world_size(self):
        """Number of shares."""
        return self._world_size

    def _pass(self, request, epoch, position, how, share=None):
        with self._changing:
            old = self._current and self._current()
            if old is not None:
                old.supersede()
            one = _SharePass(self._source, request, epoch, position, how)
            self._current = weakref.ref(one)
        one.begin(request)
        return one

    def _warn_of_classes(self, position):
        self._source.warn_of_classes(position, stacklevel=5)

    def _between(self, after):
        position = self._source.position()
        return _state(json.loads(position)["epoch"], position)

    def schema(self):
        """The Schema of the whole dataset."""
        found = self._source.schema()
        return None if found is None else Schema(found)

    def stats(self):
        """What the split did so far, as JSON text."""
        return self._source.stats()

    def materialize(self):
        """This rank's rows of one pass, kept as Dataset.materialize() does. All ranks have to do it."""
        one = self._pass(_request(1024, False, 1), self._next_epoch(None), None, {})
        return _materialized(keeping.kept(iter(one.next, None), lambda: None))

    def close(self):
        """Gives up the share."""
        self._source.close()


class SplitOwner:
    """A _core.Split of a dataset in this process, and the functions' workers it needs. Its shares hold it."""

    def __init__(self, dataset, n, tail):
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
        self._begun = self._warned = False
        self.asking, self.closed = set(), set()  # ranks that wait for others to begin an epoch; that are gone
        self._end = weakref.finalize(self, _end_split, self.split, self.pools)

    def warn_of_wait(self, rank):
        """This rank waits in vain, it seems: says once for which others."""
        others = [str(r) for r in range(self.n) if r not in self.asking | self.closed]
        if others and not self._warned:
            self._warned = True
            warnings.warn(
                f"rank {rank} has waited {WARN_AFTER_S:g} s for {'rank' if len(others) == 1 else 'ranks'} "
                f"{', '.join(others)} to begin the epoch: all shares of a split have to be read at the same "
                "time, from threads or processes of their own",
                RuntimeWarning,
                stacklevel=2,
            )

    def know_code(self):
        """For positions: what the functions are."""
        for pool in self.pools:
            pool.know_code()

    def begin(self):
        """Starts the functions' workers; once."""
        if not self._begun:
            self._begun = True
            for pool in self.pools:
                pool.begin()

    def serve_elsewhere(self):
        """The consumers are other processes: functions that run inline get a thread here."""
        self.begin()
        for pool in self.pools:
            pool.serve_in_thread()

    def close(self):
        """Ends the run and its workers' part in it."""
        self._end()


def _end_split(split, pools):
    split.close()
    for pool in pools:
        pool.end()


class LocalSource:
    """A rank of a split in this process: what a SplitIterator reads from."""

    def __init__(self, owner, rank):
        self.owner = owner
        self.rank = rank
        self.split = owner.split

    def begin(self, batch_rows, **request):
        self.owner.begin()
        patience = threading.Timer(WARN_AFTER_S, self.owner.warn_of_wait, [self.rank])
        patience.daemon = True
        self.owner.asking.add(self.rank)
        patience.start()
        try:
            return self.split.begin(self.rank, batch_rows, **request)
        finally:
            patience.cancel()
            self.owner.asking.discard(self.rank)

    def next(self, number=0):
        try:
            return self.split.next(self.rank, number)
        except _core.PeerError as e:
            raise explained(e, self.owner.pools) from None

    def leave(self):
        self.split.leave(self.rank)

    def position(self):
        self.owner.know_code()
        return self.split.position()

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
        self.owner.closed.add(self.rank)
        self.split.lost(self.rank)


# ---------------------------------------------------------------------------------------------------- torch


class TorchBatches:
    """Table -> dict of tensors; see DataIterator.iter_torch_batches."""

    def __init__(self, dtypes, device, collate_fn, pin_memory):
        self.dtypes = dtypes
        self.device = device
        self.collate_fn = collate_fn
        self.wanted_pin = bool(pin_memory)
        self._load()

    def _load(self):
        import torch

        self.torch = torch
        self.pin = self.wanted_pin and torch.cuda.is_available()
        self.target = None

    def __reduce__(self):
        return TorchBatches, (self.dtypes, self.device, self.collate_fn, self.wanted_pin)

    def _target(self):
        """The device, looked up once, when the first batch is there: the training worker has its own by
        then.
        """
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
            batch = self.collate_fn(blocks.table_to_numpy(table, writable=True))
            return self._moved(batch, target)
        batch = table.batch(self._flat, self._other, True, True)
        if self.dtypes is not None:
            batch = self._typed(batch, table)
        return batch if target.type == "cpu" and not self.pin else self._moved(batch, target)

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
                f"{what} has {column.null_count} nulls here; a tensor of booleans holds none"
            )
        if column.time or kind in ("clock", "decimal", "interval", "struct", "map", "object"):
            raise TypeMismatchError(
                f"column '{column.name}' has type {column.type}, for which torch has no tensor"
            )
        return self.torch.from_numpy(blocks.column_to_numpy(column, writable=True))

    def _typed(self, batch, table):
        dtypes = self.dtypes
        if not isinstance(dtypes, dict):
            dtypes = dict.fromkeys((n for n, v in batch.items() if not isinstance(v, list)), dtypes)
        for name, dtype in dtypes.items():
            if name not in batch:
                raise InvalidArgument(f"dtypes: no column '{name}'; there are {', '.join(batch)}")
            column = table.column(name)
            if isinstance(batch[name], list):
                raise TypeMismatchError(f"column '{name}' is {column.type}: cannot be a tensor of {dtype}")
            if batch[name].is_floating_point() and not dtype.is_floating_point and not dtype.is_complex:
                n = _nulls(column)
                if n:
                    raise TypeMismatchError(
                        f"column '{name}' ({column.type}) has {n} nulls here; a tensor of {dtype} holds none"
                    )
            batch[name] = self._as(batch[name], dtype)
        return batch

    def _as(self, tensor, dtype):
        torch = self.torch
        if dtype is torch.bfloat16 and tensor.dtype == torch.uint16:
            return tensor.view(torch.int16).view(torch.bfloat16)  # its bits: neither Arrow nor NumPy has it
        return tensor.to(dtype)

    def _moved(self, value, target):
        torch = self.torch
        if isinstance(value, torch.Tensor):
            value = value.pin_memory() if self.pin and value.device.type == "cpu" else value
            return value.to(target, non_blocking=self.pin)
        if isinstance(value, dict):
            return {k: self._moved(v, target) for k, v in value.items()}
        if type(value) in (list, tuple) and any(isinstance(v, torch.Tensor) for v in value):
            return type(value)(self._moved(v, target) for v in value)
        return value


def _in_training():
    context = sys.modules.get("headrace.train.context")
    return bool(context and getattr(context, "in_worker", lambda: False)())


def _stacked(column):
    """Lists of equal length with nulls in them, as one array of floats; None if they are no such lists."""
    if column.kind != "list" or column.null_count or not len(column):
        return None
    array = blocks.column_to_numpy(column)
    cells = list(array)
    alike = all(
        isinstance(c, np.ndarray) and c.dtype.kind == "f" and c.shape == cells[0].shape for c in cells
    )
    return np.stack(cells) if alike else None


def _nulls(column):
    """Nulls among the values of a column: of a list's also those in it."""
    n = column.null_count
    while column.kind == "list":
        column = column.lists()[2]
        n += column.null_count
    return n


def _ragged_text(column):
    """Why rows do not make one array."""
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
