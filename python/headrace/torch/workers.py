"""The worker processes of a DataLoader, as the process with the training loop sees them."""

import collections
import errno
import os
import select
import socket
import sys
import time
import weakref

from headrace._core import PeerError, TypeMismatchError
from headrace.torch import messages
from headrace.udf import errors, starter
from headrace.udf.processes import how

MODULES = ("headrace.torch.worker",)


class Spec:
    """The dataset and its functions, in memory that all workers of a group map."""

    def __init__(self, parts):
        try:
            pickled = messages.dumps(parts)
        except Exception as e:
            raise _cannot_pickle(parts, e) from e
        self.fd = messages.in_memory(pickled)
        self._end = weakref.finalize(self, os.close, self.fd)


def _cannot_pickle(parts, error):
    """TypeMismatchError that names the part."""
    names = {"dataset": "dataset", "collate": "collate_fn", "init": "worker_init_fn"}
    for name, said in names.items():
        try:
            messages.dumps(parts[name])
        except Exception as e:
            return TypeMismatchError(
                f"DataLoader: cannot pickle {said} for worker processes: {e}. Make such a value where "
                "it is used, or use workers='threads' or num_workers=0"
            )
    return error


class Group:
    """n worker processes. One epoch uses them at a time."""

    def __init__(self, n):
        self.workers = []
        self.spec = None
        self.epoch = 0
        self.busy = False
        self.pid = os.getpid()
        self._end = weakref.finalize(self, _end, self.workers, self.pid)
        for i in range(n):
            self.workers.append(_Worker(i))

    def begin(self, spec, given):
        """Begins an epoch; given: for each worker, arguments of Epoch.begin()."""
        self.epoch += 1
        known, self.spec = self.spec, spec
        for worker, one in zip(self.workers, given, strict=True):
            worker.answers.clear()
            if spec is not known:
                self._send(worker, lambda sock: messages.send_dataset(sock, spec.fd, socket.MSG_DONTWAIT))
            self._send_value(worker, ("epoch", self.epoch, sys.path, one))

    def request(self, worker, i, indices):
        """Requests batch i of a worker."""
        self._send_value(self.workers[worker], ("batch", self.epoch, i, indices))

    def take(self, worker, i, timeout):
        """The worker's next answer, for batch i. RuntimeError: late; PeerError: it died."""
        one = self.workers[worker]
        until = time.monotonic() + timeout if timeout else None
        while not one.answers:
            if one.gone:
                raise self._died(one, i)
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                raise late(timeout)
            self._listen(left)
        return one.answers.popleft()

    def close(self):
        self._end()

    def _died(self, one, i):
        code = one.process.wait()
        self.close()
        who = f"worker {one.number} (process {one.process.pid})"
        return PeerError(f"DataLoader: {who} {how(code)} before it gave batch {i}")

    def _send_value(self, worker, message):
        parts = messages.dumps(message)
        self._send(worker, lambda sock: messages.send(sock, parts, socket.MSG_DONTWAIT))

    def _send(self, worker, send):
        """Sends; a worker that died gets nothing, and take() reports it behind what it gave before."""
        while True:
            try:
                send(worker.socket)
                return
            except BlockingIOError:
                self._listen(0.01)
            except (BrokenPipeError, ConnectionResetError):
                return

    def _listen(self, seconds):
        """Receives what has come, and waits for `seconds` at most if nothing has."""
        poll = select.poll()
        by_fd = {}
        for worker in self.workers:
            if not worker.gone:
                by_fd[worker.socket.fileno()] = worker, worker.receive
            if not worker.silent:
                by_fd[worker.process.stdout.fileno()] = worker, worker.forward
        for fd in by_fd:
            poll.register(fd, select.POLLIN)
        for fd, _ in poll.poll(None if seconds is None else max(1, int(seconds * 1000))):
            by_fd[fd][1](self.epoch)


class _Worker:
    def __init__(self, number):
        self.number = number
        self.answers = collections.deque()
        self.gone = self.silent = False
        self.line = b""
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self.process = starter.start(theirs, [], MODULES, "headrace.torch.worker")

    def receive(self, epoch):
        try:
            number, *answer = messages.receive(self.socket)
        except ConnectionResetError:  # said once where requests were not read; what it gave before comes next
            return
        except EOFError:
            self.gone = True
            return
        except OSError as e:
            if e.errno != errno.ENOTCONN:  # a kernel before 6.0, after a request that could not be sent
                raise
            self.gone = True
            return
        if number == epoch:
            self.answers.append(answer)

    def forward(self, _):
        """Prints the worker's output on stderr."""
        try:
            data = os.read(self.process.stdout.fileno(), 1 << 16)
        except BlockingIOError:
            return
        self.silent = not data
        *lines, self.line = (self.line + data).split(b"\n")
        if self.silent and self.line:
            lines.append(self.line)
        for line in lines:
            print(f"(DataLoader, pid {self.process.pid}) {line.decode(errors='replace')}", file=sys.stderr)


def _end(workers, pid):
    for worker in workers:
        worker.socket.close()
    if pid != os.getpid():
        return  # a fork of the process that they belong to
    for worker in workers:
        worker.process.kill()
        worker.process.wait()
        worker.process.close()


def late(seconds):
    """The error for a batch that took longer than the timeout, as torch's."""
    return RuntimeError(f"DataLoader timed out after {seconds} seconds")


def raise_error(packed, i):
    """Raises a worker's exception, with its own type and a note with the user's lines."""
    line, detail = packed
    raise errors.rebuild(detail, f"DataLoader: batch {i}: {line}")
