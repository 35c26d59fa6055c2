"""Passes in the workers of torch's DataLoader: each worker gives a share of the batches, and all of them
count epochs alike.

A worker has a copy of the iterable, by fork or by pickle. Worker w of n runs the plan like any other pass and
gives the batches w, w + n, ...: the DataLoader takes its workers in turn, so its batches come in the one
order. Workers share rows only if the DataLoader's dataset is an IterableDataset: with other datasets each
worker wants all rows.

Each worker begins its epochs alone. A page of memory, shared with the process that started the workers, makes
all of them count the same epochs, and the next workers of the DataLoader begin with the next epoch.
"""

import contextlib
import fcntl
import os
import struct
import threading
from dataclasses import dataclass

from headrace import _core
from headrace._core import UnsupportedError
from headrace.optional import imported

LEAST_MEMORY = 64 << 20  # bytes for a worker's run


@dataclass(frozen=True)
class Share:
    """Worker `number` of `of`; key: equal for all workers that started together."""

    number: int
    of: int
    key: int


def share():
    """This process's Share as a worker of a DataLoader; None if it is no worker, or workers share no rows."""
    module = imported("torch.utils.data")
    info = module and module.get_worker_info()
    if info is None or not isinstance(info.dataset, module.IterableDataset):
        return None
    return Share(info.id, info.num_workers, info.seed - info.id)


def of_share(request, options, share, batch_rows, makes_batches):
    """Request and options for a run in a worker: its part of threads and memory, and a batch size that is
    equal in all workers, unless the plan makes batches.
    """
    if options.get("any_order"):
        raise UnsupportedError(
            "the workers of a DataLoader need preserve_order=True: they divide the rows by their order"
        )
    left = max(1, _core.num_threads() - options.get("reserved_cpus", 0))
    options = {"num_threads": left, "memory_limit": _core.memory_limit()} | options
    options["num_threads"] = max(1, options["num_threads"] // share.of)
    options["memory_limit"] = max(LEAST_MEMORY, options["memory_limit"] // share.of)
    options["trace_path"] = None  # n runs cannot write one file
    if not request["batch_rows"] and "rows" not in request and not makes_batches:
        request = request | {"batch_rows": batch_rows}
    return request, options


def packed(value):
    """Pickles by value, with the definitions of a script: the value may hold a user's functions."""
    from headrace.udf import sending

    return sending.dumps(value)


def unpacked(data):
    import pickle

    return pickle.loads(data)


_RECORD = struct.Struct("<qQq")  # key of the workers, number of the pass, epoch
_COUNT = struct.Struct("<qq")  # the next epoch, the number of records ever written
_RECORDS = 128
_CLAIM = 2**64 - 1  # in place of the pass's number: these workers resume a state
_in_process = threading.Lock()  # file locks exclude other processes only


def _forked():
    """Another thread of the parent may have held the lock."""
    global _in_process
    _in_process = threading.Lock()


os.register_at_fork(after_in_child=_forked)


class Epochs:
    """Counts passes. After share(), all processes with a copy of this object count together."""

    def __init__(self, begun=0):
        self._begun = begun
        self._passes = {}  # key -> number of passes that this worker has begun
        self._page = None  # a descriptor
        self._owner = None  # (process, descriptor) to open the page by

    @property
    def begun(self):
        """The number of the next epoch."""
        with _in_process:
            page = self._open()
            return (
                self._begun
                if page is None
                else max(self._begun, _COUNT.unpack(os.pread(page, _COUNT.size, 0))[0])
            )

    def share(self):
        """Makes the shared page. Call it before copies are made."""
        if self._page is None and share() is None:
            self._page = os.memfd_create("headrace-epochs")
            os.pwrite(self._page, _COUNT.pack(self._begun, 0), 0)
            self._owner = os.getpid(), self._page

    def go_to(self, epoch):
        """Makes it the next epoch, of the workers that start later, too."""
        with self._locked() as page:
            self._begun = epoch
            if page is not None:
                _, n = _COUNT.unpack(os.pread(page, _COUNT.size, 0))
                os.pwrite(page, _COUNT.pack(epoch, n), 0)

    def begin(self, wanted=None, share=None):
        """The number of the next epoch; `wanted`: the number of the epoch to resume. The n-th passes of
        workers that started together are the same epoch.
        """
        key = None
        if share is not None:
            n = self._passes[share.key] = self._passes.get(share.key, -1) + 1
            key = share.key, n
        with self._locked() as page:
            if page is None:
                epoch = self._begun if wanted is None else wanted
            else:
                epoch = _agreed(page, wanted, key, self._begun)
            self._begun = epoch + 1
        return epoch

    def claims(self, token, share):
        """Whether the workers of this share are the first to resume from the state of this token. The program
        loaded the state before the DataLoader copied the iterable, so the workers of the next epoch have it,
        too.
        """
        with self._locked() as page:
            if page is None:
                return True
            _, n = _COUNT.unpack(os.pread(page, _COUNT.size, 0))
            for record in _records(page, n):
                if record[:2] == (token, _CLAIM):
                    return record[2] == share.key
            _add(page, (token, _CLAIM, share.key))
        return True

    @contextlib.contextmanager
    def _locked(self):
        """The page, locked against other processes; None if there is none."""
        with _in_process:
            page = self._open()
            if page is None:
                yield None
                return
            fcntl.lockf(page, fcntl.LOCK_EX)
            try:
                yield page
            finally:
                fcntl.lockf(page, fcntl.LOCK_UN)

    def _open(self):
        if self._page is None and self._owner is not None:
            try:
                self._page = os.open("/proc/{}/fd/{}".format(*self._owner), os.O_RDWR | os.O_CLOEXEC)
            except OSError:  # the process is gone or belongs to another user: each process counts alone
                self._owner = None
        return self._page

    def __getstate__(self):
        return self._begun, self._owner

    def __setstate__(self, state):
        self.__init__(state[0])
        self._owner = state[1]

    def __del__(self, close=os.close):  # at the interpreter's end the name os is gone
        if getattr(self, "_page", None) is not None:
            close(self._page)


def _agreed(page, wanted, key, begun):
    """The epoch of this pass; writes it to the page."""
    following, n = _COUNT.unpack(os.pread(page, _COUNT.size, 0))
    if key is not None and wanted is None:
        for record in _records(page, n):
            if record[:2] == key:
                return record[2]
    epoch = wanted if wanted is not None else following if key is not None else max(following, begun)
    os.pwrite(page, _COUNT.pack(epoch + 1, n), 0)
    if key is not None:
        _add(page, (*key, epoch))
    return epoch


def _records(page, n):
    """The last records, the newest first."""
    for i in range(n - 1, max(0, n - _RECORDS) - 1, -1):
        yield _RECORD.unpack(os.pread(page, _RECORD.size, _place(i)))


def _add(page, record):
    following, n = _COUNT.unpack(os.pread(page, _COUNT.size, 0))
    os.pwrite(page, _RECORD.pack(*record), _place(n))
    os.pwrite(page, _COUNT.pack(following, n + 1), 0)


def _place(i):
    return _COUNT.size + i % _RECORDS * _RECORD.size
