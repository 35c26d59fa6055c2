"""A worker process of a DataLoader: it makes batches in the order of the requests."""

import os
import random
import socket
import sys

import numpy as np
import torch
from torch.utils.data import _utils
from torch.utils.data.dataloader import _DatasetKind

from headrace.torch import messages
from headrace.udf import errors


def serve(fd):
    """Serves the driver at the other end of socket `fd` until it closes the socket."""
    sock = socket.socket(fileno=fd)
    sock.setblocking(True)
    torch.set_num_threads(1)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    _utils.signal_handling._set_worker_signal_handlers()
    epoch = Epoch()
    try:
        messages.send(sock, messages.dumps((0, "started")))  # of no epoch: the driver listens to its output
    except (BrokenPipeError, ConnectionResetError):
        return
    while True:
        try:
            kind, number, *rest = messages.receive(sock)
        except (EOFError, ConnectionResetError):
            return
        if kind == "dataset":
            epoch.receive(number)
            continue
        if kind == "epoch":
            sys.path[:] = rest[0]
            epoch.begin(**rest[1])
            continue
        answer = epoch.make(*rest)
        try:
            parts = messages.dumps((number, *answer))
        except Exception as e:
            parts = messages.dumps((number, "error", errors.pack(e), None))
        try:
            messages.send(sock, parts)
        except (BrokenPipeError, ConnectionResetError):
            return
        del answer, parts


class Epoch:
    """Makes the batches of one epoch after the other; an error at its begin is each request's answer."""

    loaded = None
    broken = None
    fd = -1

    def receive(self, fd):
        """The next epoch has the dataset in the memory of `fd`."""
        if self.fd >= 0:
            os.close(self.fd)
        self.fd, self.loaded = fd, None

    def begin(self, worker, n_workers, base_seed, fresh, state, skip):
        """fresh: with a new copy of the dataset; state, skip: of an iterable dataset that resumes."""
        self.base_seed, self.ended, self.broken = base_seed, False, None
        try:
            _seed(base_seed + worker)
            if fresh or self.loaded is None:
                self.loaded = None
                self.loaded = messages.load_dataset(self.fd)
                inform(worker, n_workers, base_seed + worker, self.loaded["dataset"])
                if self.loaded["init"] is not None:
                    self.loaded["init"](worker)
            inform(worker, n_workers, base_seed + worker, self.loaded["dataset"])
            self.fetcher = fetcher(self.loaded, state)
            for _ in range(skip):
                self.fetcher.fetch(self.loaded["size"])
        except StopIteration:
            self.ended = True
        except BaseException as e:
            self.broken = errors.pack(e)

    def make(self, i, indices):
        """("batch", data, state), ("end", None, None) or ("error", packed, None); "last" is a "batch" after
        which an iterable dataset has no rows, which its own state may not say.
        """
        if self.broken:
            return "error", self.broken, None
        if self.ended:
            return "end", None, None
        iterable = self.loaded["kind"] == _DatasetKind.Iterable
        try:
            if not iterable:
                _seed(self.base_seed + i)
            data = self.fetcher.fetch(self.loaded["size"] if iterable else indices)
            return (
                (kind_of(self.fetcher), data, state_of(self.fetcher)) if iterable else ("batch", data, None)
            )
        except StopIteration as e:
            if iterable:
                self.ended = True
                return "end", None, None
            return "error", errors.pack(e), None
        except BaseException as e:
            return "error", errors.pack(e), None


def fetcher(parts, state=None):
    """torch's fetcher of a dataset; state: of an iterable dataset with load_state_dict()."""
    dataset = parts["dataset"]
    if state is not None and state["of"] == "dataset":
        dataset.load_state_dict(state["state"])
    made = _DatasetKind.create_fetcher(
        parts["kind"],
        dataset,
        parts["collate"] is not None and parts["auto"],
        parts["collate"],
        parts["drop"],
    )
    if state is not None and state["of"] == "iterator":
        made.dataset_iter.load_state_dict(state["state"])
    return made


def kind_of(fetcher):
    """That of the batch that it fetched: "last" if it found the end of an iterable dataset."""
    return "last" if fetcher.ended else "batch"


def state_of(fetcher):
    """The state of an iterable dataset or of its iterator; None if neither has any."""
    for of, value in (("iterator", fetcher.dataset_iter), ("dataset", fetcher.dataset)):
        if hasattr(value, "state_dict") and hasattr(value, "load_state_dict"):
            return {"of": of, "state": value.state_dict()}
    return None


def _seed(seed):
    seed %= 1 << 63
    random.seed(seed)
    np.random.seed(seed % (1 << 32))
    torch.default_generator.manual_seed(seed)


def inform(worker, n_workers, seed, dataset):
    """Sets what get_worker_info() gives."""
    _utils.worker._worker_info = _utils.worker.WorkerInfo(
        id=worker, num_workers=n_workers, seed=seed, dataset=dataset
    )
