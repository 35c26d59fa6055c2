"""The worker processes of a DataLoader, as the process with the training loop sees them."""

import collections
import errno
import os
import select
import socket
import sys
import threading
import time
import weakref

from headrace._core import PeerError, TypeMismatchError
from headrace.torch import messages
from headrace.torch.meanwhile import Meanwhile
from headrace.udf import errors, starter
from headrace.udf.processes import how

MODULES = ("headrace.torch.worker",)
WARM_S = 0.02  # workers of a fork server that has imported torch are there after so long


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
    """n worker processes. One epoch uses them at a time. They start in the background."""

    def __init__(self, n):
        self.workers = [_Worker(i) for i in range(n)]
        self.spec = None
        self.meanwhile = None
        self.epoch = 0
        self.busy = False
        self._end = weakref.finalize(self, _end, self.workers, os.getpid())
        self.warm_until = time.monotonic() + WARM_S
        threading.Thread(target=_start, args=(self.workers,), name="headrace DataLoader", daemon=True).start()

    def begin(self, spec, given, helps):
        """Begins an epoch; given: for each worker, arguments of Epoch.begin(). helps: take() makes batches of
        workers that have not started.
        """
        self.epoch += 1
        known, self.spec = self.spec, spec
        self.meanwhile = Meanwhile(spec, given) if helps else None
        for worker, one in zip(self.workers, given, strict=True):
            worker.answers.clear()
            worker.begin(None if spec is known else spec, ("epoch", self.epoch, sys.path, one))
            self._send(worker)

    def request(self, worker, i, indices):
        """Requests batch i of a worker."""
        self.workers[worker].request(self.epoch, i, indices)
        self._send(self.workers[worker])

    def take(self, worker, i, timeout):
        """The worker's next answer, for batch i. RuntimeError: late; PeerError: it died."""
        one = self.workers[worker]
        until = time.monotonic() + timeout if timeout else None
        while not one.answers:
            if one.gone:
                raise self._died(one, i)
            now = time.monotonic()
            if until is not None and now >= until:
                raise late(timeout)
            if self.meanwhile and now >= self.warm_until and (request := one.take_back()):
                return self.meanwhile.make(worker, *request)
            waits_until = self.warm_until if self.meanwhile and not one.process else until
            self._listen(None if waits_until is None else max(0, waits_until - now))
        if all(w.process for w in self.workers):
            self.meanwhile = None
            starter.import_now(MODULES)
        return one.answers.popleft()

    def close(self):
        self._end()

    def _died(self, one, i):
        if one.error:
            self.close()
            raise one.error
        code = one.process.wait()
        self.close()
        who = f"worker {one.number} (process {one.process.pid})"
        return PeerError(f"DataLoader: {who} {how(code)} before it gave batch {i}")

    def _send(self, worker):
        while not worker.send():
            self._listen(0.01)

    def _listen(self, seconds):
        """Receives what has come, and waits for `seconds` at most if nothing has."""
        poll = select.poll()
        by_fd = {}
        for worker in self.workers:
            if not worker.gone:
                by_fd[worker.socket.fileno()] = worker, worker.receive
            if worker.process and not worker.silent:
                by_fd[worker.process.stdout.fileno()] = worker, worker.forward
        for fd in by_fd:
            poll.register(fd, select.POLLIN)
        for fd, _ in poll.poll(None if seconds is None else max(1, int(seconds * 1000))):
            by_fd[fd][1](self.epoch)


class _Worker:
    """What is sent to it waits here until it has started."""

    def __init__(self, number):
        self.number = number
        self.answers = collections.deque()
        self.gone = self.silent = self.ended = False
        self.line = b""
        self.socket, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.lock = threading.RLock()  # of all below, which the thread that starts it uses, too
        self.process = self.error = None
        self.first = collections.deque()  # functions that send the dataset and the begin of the epoch
        self.requests = collections.deque()  # (a function that sends it, number, indices)

    def start(self):
        """Starts the process, and sends what waits. A new fork server imports torch first."""
        with self.theirs:
            if self.ended:
                return
            try:
                process = starter.start(self.theirs, [], MODULES, "headrace.torch.worker")
            except Exception as e:
                self.error = e
                return
            with self.lock:
                self.process = process
                if self.ended:
                    _kill(process)
                self.send()

    def end(self):
        """Ends the process, now or when it has started."""
        with self.lock:
            if self.process and not self.ended:
                _kill(self.process)
            self.ended = True
            self.socket.close()

    def begin(self, spec, message):
        """The next requests are of an epoch that begins with this message; spec: of another dataset."""
        with self.lock:
            self.requests.clear()
            if spec is not None:
                self.first.clear()
                self.first.append(lambda: messages.send_dataset(self.socket, spec.fd, socket.MSG_DONTWAIT))
            self.first.append(self._sends(message))

    def request(self, epoch, i, indices):
        send = self._sends(("batch", epoch, i, indices))
        with self.lock:
            self.requests.append((send, i, indices))

    def _sends(self, message):
        parts = messages.dumps(message)
        return lambda: messages.send(self.socket, parts, socket.MSG_DONTWAIT)

    def send(self):
        """Sends what waits. False: the socket is full. A worker that died gets nothing, and take() reports it
        behind what it gave before.
        """
        with self.lock:
            if not self.process or self.ended:
                return True
            try:
                while self.first:
                    self.first[0]()
                    self.first.popleft()
                while self.requests:
                    self.requests[0][0]()
                    self.requests.popleft()
            except BlockingIOError:
                return False
            except (BrokenPipeError, ConnectionResetError):
                self.first.clear()
                self.requests.clear()
            return True

    def take_back(self):
        """(number, indices) of the first request, of a worker that has not started; or None."""
        with self.lock:
            return self.requests.popleft()[1:] if self.requests and not self.process else None

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


def _start(workers):
    for worker in workers:
        worker.start()


def _end(workers, pid):
    for worker in workers:
        if pid == os.getpid():
            worker.end()
        else:  # a fork of the process that they belong to
            worker.socket.close()


def _kill(process):
    process.kill()
    process.wait()
    process.close()


def late(seconds):
    """The error for a batch that took longer than the timeout, as torch's."""
    return RuntimeError(f"DataLoader timed out after {seconds} seconds")


def raise_error(packed, i):
    """Raises a worker's exception, with its own type and a note with the user's lines."""
    line, detail = packed
    raise errors.rebuild(detail, f"DataLoader: batch {i}: {line}")
