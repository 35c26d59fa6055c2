"""Batches that the program makes itself while its first workers start, as the workers would make them."""

from contextlib import contextmanager

import torch
from torch.utils.data import _utils

from headrace.torch.worker import Epoch, inform
from headrace.udf import inline_turns, sending
from headrace.udf.call import kept_generators


class Meanwhile:
    """Makes batches of one epoch in the thread that takes them, of a copy of the dataset.

    given: for each worker, arguments of Epoch.begin(). Random generators, torch's number of threads and
    get_worker_info() are a worker's during a call, and the program's after it.
    """

    def __init__(self, spec, given):
        self.spec = spec
        self.given = given
        self.epoch = None

    def make(self, worker, i, indices):
        """A worker's answer: see Epoch.make()."""
        with _as_worker():
            if self.epoch is None:
                self.epoch = Epoch()
                self.epoch.receive(self.spec.fd)
                with sending.classes_stay():
                    self.epoch.begin(**self.given[worker])
            if not self.epoch.broken:
                one = self.given[worker]
                inform(worker, one["n_workers"], one["base_seed"] + worker, self.epoch.loaded["dataset"])
            return self.epoch.make(i, indices)


@contextmanager
def _as_worker():
    """A context in which this thread is like a worker."""
    inline_turns.begin("a DataLoader's dataset")
    threads, info = torch.get_num_threads(), _utils.worker._worker_info
    try:
        with kept_generators():
            torch.set_num_threads(1)
            yield
    finally:
        torch.set_num_threads(threads)
        _utils.worker._worker_info = info
        inline_turns.end()
