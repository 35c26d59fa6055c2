"""The control channel between driver and workers, an abstract Unix socket: hello, reports, the worker's end.

The driver accepts only processes of its own user that know the run's token. A report is a barrier, and so
are the calls of collective.py: the driver answers when all workers have made the same call. Rows and batches
never travel over this channel.
"""

from __future__ import annotations

import hmac
import os
import pickle
import secrets
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from headrace.places import plainly
from headrace.train.callback import Callbacks
from headrace.train.checkpoint import Checkpoint
from headrace.train.reports import Begun, Given, Open, Raised, Reports
from headrace.train.shards import ShardServer
from headrace.train.storage import RunStorage
from headrace.train.validation import Validations
from headrace.udf import sending


def send(conn: Connection, message: tuple) -> None:
    """Sends by value, with classes of scripts; multiprocessing's own pickler would share tensors."""
    conn.send_bytes(sending.dumps(message))


def receive(conn: Connection) -> tuple:
    return pickle.loads(conn.recv_bytes())


@dataclass
class WorkerFailure:
    """How a worker reported its failure. cause: the rank whose failure it is, another one if this worker
    raised what the upload of that one did.
    """

    rank: int
    traceback: str
    exception: BaseException | None
    cause: int


@dataclass
class _Meeting:
    """A call of collective.py. data: pickled; rank 0's goes to all."""

    call: str
    data: bytes


class Control:
    """The driver's end, for one start of the workers."""

    def __init__(self, storage: RunStorage, world_size: int, shards: ShardServer, callbacks: Callbacks):
        self.storage = storage
        self.world_size = world_size
        self.shards = shards
        self.reports = Reports(storage, shards, callbacks)
        self.token = secrets.token_hex(16)
        self.address = f"headrace-train-{os.getpid()}-{secrets.token_hex(8)}"
        self.failures: list[WorkerFailure] = []
        self.pids: dict[int, int] = {}
        self.return_values: dict[int, Any] = {}
        self.on_failure: Callable[[], None] | None = None  # called before a worker's failure counts
        self.handling: dict[int, tuple[float, int]] = {}  # rank -> since when a thread handles its message
        self._lock = threading.Lock()  # guards the fields above and below
        self._conns: dict[int, Connection] = {}
        self._pending: dict[int, Given | _Meeting] = {}
        self._reporting: dict[int, int] = {}  # ranks in report(), and since when
        self._ending: set[int] = set()  # ranks that wait for the end of all uploads
        self._n_calls = 0  # barriers that all workers have passed
        self._n_uploads = 0  # that have ended
        self._closed = False
        self._ended = False
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind("\0" + self.address)
        self._listener.listen(128)
        threading.Thread(target=self._accept, name="headrace-train-accept", daemon=True).start()

    def close(self) -> None:
        """Closes all connections."""
        try:
            self._listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._listener.close()
        with self._lock:
            self._closed = True
            conns = list(self._conns.values())
            self._conns.clear()
        for conn in conns:
            try:
                socket.socket(fileno=os.dup(conn.fileno())).shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # the thread that reads it closes it

    def end_workers(self) -> None:
        """Ends all workers that have connected, and those that connect from now on."""
        with self._lock:
            self._ended = True
            pids = list(self.pids.values())
        for pid in pids:
            end_process(pid)

    def heard_of(self, rank: int, seconds: float) -> bool:
        """Whether a worker that has ended has reported how; waits `seconds` for a report on its way."""
        until = time.monotonic() + seconds
        while rank not in self.return_values and all(f.rank != rank for f in self.failures):
            if time.monotonic() > until:
                return False
            time.sleep(0.02)
        return True

    def progress(self) -> dict[int, Any]:
        """rank -> a value that changes when the worker connects, reports, or gets its answer. Without the
        lock: its holder may wait for a disk, or for a stopped worker to read its answer.
        """
        done = self._n_calls, self._n_uploads
        return {rank: (*done, rank in self._pending, rank in self._ending) for rank in list(self.pids)}

    # --- threads: one accepts, one per worker

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(
                target=self._serve, args=(sock,), name="headrace-train-control", daemon=True
            ).start()

    def _hello(self, sock: socket.socket, conn: Connection) -> int | None:
        """The rank of a worker of this run; None for any other process."""
        raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        pid, uid, _ = struct.unpack("3i", raw)
        if uid != os.getuid():
            return None
        token, _, rank = conn.recv_bytes(256).decode().partition(" ")
        if not hmac.compare_digest(token, self.token) or not rank.isdigit() or int(rank) >= self.world_size:
            return None
        with self._lock:
            self.pids[int(rank)] = pid
            self._conns[int(rank)] = conn
            ended = self._ended
        if ended:
            end_process(pid)
        return int(rank)

    def _serve(self, sock: socket.socket) -> None:
        with sock, Connection(os.dup(sock.fileno())) as conn:
            rank = None
            try:
                rank = self._hello(sock, conn)
                if rank is None:
                    return
                send(conn, ("welcome", *self._welcome()))
                while True:
                    message = receive(conn)
                    self.handling[rank] = time.monotonic(), threading.get_ident()
                    try:
                        self.handle(rank, message)
                    finally:
                        self.handling.pop(rank, None)  # a second process with the rank may have ended first
            except (EOFError, OSError, ValueError):
                pass  # the launcher sees how the process ended
            finally:
                with self._lock:
                    if rank is not None and self._conns.get(rank) is conn:
                        del self._conns[rank]

    def _welcome(self) -> tuple[str | None, dict[str, Any] | None, dict[str, Any] | None]:
        """The checkpoint from which the run goes on, how its store is reached, and how the run's store is.
        Options travel over the channel: the file with the payload has no keys.
        """
        first = self.storage.resumed
        return first and first.path, plainly(first and first._options), plainly(self.storage.options)

    def handle(self, rank: int, message: tuple) -> None:
        """One message of a worker, on its thread."""
        kind, *rest = message
        if kind == "failed" and self.on_failure is not None:
            self.on_failure()
        with self._lock:
            if self._closed:
                return  # what a worker has sent late belongs to no run
            if kind in ("report", "meet"):
                self._pending[rank] = rest[0] if kind == "report" else _Meeting(*rest)
                if kind == "report":
                    self._reporting[rank] = time.monotonic_ns()
            elif kind == "uploaded":
                self._n_uploads += 1
                self.reports.uploaded(rank, *rest)
                self._answer_locked(self.reports.settle())
            elif kind == "flush":
                self._ending.add(rank)
                self._answer_locked([])
            elif kind == "checkpoints":
                self._send_locked(rank, ("ok", (self.reports.n_open, self.storage.reported())))
            elif kind == "latest":
                self._send_locked(rank, self.reports.latest())
            elif kind == "done":
                self.return_values[rank] = _unpickled(rest[0])
            elif kind == "failed":
                traceback, exception, cause = rest
                cause = rank if cause is None else cause
                self.failures.append(WorkerFailure(rank, traceback, _unpickled(exception), cause))
            self._settle_locked()
        if kind == "done":
            self.shards.rank_ended(rank, None)
        elif kind == "failed":  # the last line of a traceback says what it was
            self.shards.rank_ended(rank, rest[0].rstrip().rpartition("\n")[2])

    def _send_locked(self, rank: int, answer: tuple) -> None:
        conn = self._conns.get(rank)
        try:
            if conn:
                send(conn, answer)
        except OSError:
            pass  # the worker died; the launcher sees that

    def _settle_locked(self) -> None:
        """Answers the barrier if all workers have reached it, or if some never can."""
        if not self._pending or len(self._pending) + len(self.return_values) < self.world_size:
            return
        pending, self._pending = self._pending, {}
        answer: tuple
        wrong = self._mismatch_locked(pending)
        if wrong:
            answer = ("error", Raised.of(RuntimeError(wrong)))
        else:
            self._n_calls += 1
            first = pending[0]
            answer = ("ok", first.data) if isinstance(first, _Meeting) else self.reports.begin(pending)
        for rank in pending:
            if answer[0] != "begun" or not answer[1].waits:
                self._reported_locked(rank)
            self._send_locked(rank, answer)

    def _reported_locked(self, rank: int) -> None:
        """Before the answer: what the worker takes after it would come first into the trace."""
        begin = self._reporting.pop(rank, None)
        if begin is not None:
            self.shards.reported(rank, begin, time.monotonic_ns())

    def _answer_locked(self, settled: list[tuple[Open, tuple]]) -> None:
        """After uploads have ended: answers the workers that wait for a checkpoint, or for all."""
        for one, answer in settled:
            for rank in range(self.world_size) if one.waits and one.target is not None else ():
                self._reported_locked(rank)
                self._send_locked(rank, answer)
        if self.reports.n_open == 0:
            for rank in self._ending:
                self._send_locked(rank, self.reports.late())
            self._ending.clear()

    def _mismatch_locked(self, pending: dict[int, Any]) -> str:
        """Why the workers cannot pass the barrier; "": they can."""
        first = min(pending)
        call = pending[first].call
        if self.return_values:
            return (
                f"{call}(): expected equally many calls by all workers: rank {min(self.return_values)} ended "
                f"its train loop after {self._n_calls} calls, rank {first} called it once more"
            )
        other = next((r for r, p in pending.items() if p.call != call), None)
        if other is None:
            return ""
        return (
            f"expected the same call by all workers: rank {first} called {call}(), rank {other} called "
            f"{pending[other].call}()"
        )


def end_process(pid: int) -> None:
    """Sends SIGTERM, if the process is there."""
    with suppress(OSError):
        os.kill(pid, signal.SIGTERM)


def _unpickled(data: bytes | None) -> Any:
    if data is None:
        return None
    try:
        return sending.loads(data)
    except Exception:  # its class exists only in the worker
        return None


class Channel:
    """The worker's end. uploaded() comes from any thread, all other calls from one."""

    def __init__(self, address: str, token: str, rank: int):
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.connect("\0" + address)
        self._conn = Connection(sock.detach())
        self._send_lock = threading.Lock()
        self._conn.send_bytes(f"{token} {rank}".encode())
        _, path, options, self.storage_options = receive(self._conn)
        self.first = Checkpoint(path, storage_options=options) if path else None  # where the run goes on

    def begin(self, given: Given) -> Begun | str | None:
        """Waits until all workers have called report(). Returns what an upload needs; for metrics alone the
        path of the newest checkpoint.
        """
        return self._ask(("report", given))

    def uploaded(self, number: int, place: str | None, error: Raised | None) -> None:
        """An upload has ended: the folder with the files, or why there is none."""
        self._send(("uploaded", number, place, error))

    def stored(self) -> str | None:
        """Waits until the checkpoint of the report that has begun is stored, or raises why it is not. Returns
        the path of the newest checkpoint.
        """
        return self._answer()

    def flush(self) -> None:
        """Waits until all reports are stored, or raises why one is not."""
        self._ask(("flush",))

    def _send(self, message: tuple) -> None:
        with self._send_lock:
            send(self._conn, message)

    def _ask(self, message: tuple) -> Any:
        self._send(message)
        return self._answer()

    def _answer(self) -> Any:
        # EOFError if the driver has ended; the worker then ends, too
        kind, found = receive(self._conn)
        if kind == "error":
            raise found.exception()
        return found

    def meet(self, call: str, data: Any) -> Any:
        """Waits until all workers have made this call. Returns rank 0's data."""
        return pickle.loads(self._ask(("meet", call, sending.dumps(data))))

    def reported(self) -> tuple[int, list[tuple[str, dict[str, Any], str]]]:
        """The number of reports that are not stored yet; path, metrics and status of each checkpoint that the
        run keeps.
        """
        return self._ask(("checkpoints",))

    def latest(self) -> str | None:
        """The path of the newest checkpoint."""
        return self._ask(("latest",))

    def done(self, value: bytes | None) -> None:
        self._send(("done", value))

    def failed(self, traceback: str, exception: bytes | None, cause: int | None) -> None:
        """cause: the rank whose upload raised the exception; None: this worker's own."""
        self._send(("failed", traceback, exception, cause))


class LocalChannel:
    """The channel of local mode: without workers, it writes reports to the storage itself."""

    def __init__(
        self, storage: RunStorage, shards: ShardServer, callbacks: Callbacks, validations: Validations
    ):
        self._storage = storage
        self._reports = Reports(storage, shards, callbacks)
        self._validations = validations
        self._changed = threading.Condition()
        self._answers: dict[int, tuple] = {}  # of reports that wait
        self._number = 0

    def begin(self, given: Given) -> Begun | str | None:
        with self._changed:
            answer = self._reports.begin({0: given})
        found = _unless_error(answer)
        if isinstance(found, Begun):
            self._number = found.number
        else:
            self._validations.run_here()
        return found

    def uploaded(self, number: int, place: str | None, error: Raised | None) -> None:
        with self._changed:
            self._reports.uploaded(0, number, place, error)
            self._answers.update({o.number: a for o, a in self._reports.settle() if o.waits})
            self._changed.notify_all()

    def stored(self) -> str | None:
        with self._changed:
            self._changed.wait_for(lambda: self._number in self._answers)
            answer = self._answers.pop(self._number)
        found = _unless_error(answer)
        self._validations.run_here()
        return found

    def flush(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._reports.n_open == 0)
            answer = self._reports.late()
        _unless_error(answer)
        self._validations.run_here()

    def meet(self, call: str, data: Any) -> Any:
        return data

    def reported(self) -> tuple[int, list[tuple[str, dict[str, Any], str]]]:
        with self._changed:
            found = self._reports.n_open, self._storage.reported()
        if found[0] == 0:
            self._validations.run_here()
            found = 0, self._storage.reported()
        return found

    def latest(self) -> str | None:
        return self._reports.latest()[1]


def _unless_error(answer: tuple) -> Any:
    kind, found = answer
    if kind == "error":
        raise found.exception()
    return found
