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
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import cloudpickle

from headrace.train.callback import Callbacks
from headrace.train.shards import ShardServer
from headrace.train.storage import RunStorage
from headrace.train.validation import Validations


def send(conn: Connection, message: tuple) -> None:
    """Sends by value, with classes of scripts; multiprocessing's own pickler would share tensors."""
    conn.send_bytes(cloudpickle.dumps(message))


def receive(conn: Connection) -> tuple:
    return pickle.loads(conn.recv_bytes())


@dataclass
class WorkerFailure:
    """How a worker reported its failure."""

    rank: int
    traceback: str
    exception: BaseException | None


@dataclass
class _Report:
    metrics: dict[str, Any]
    has_files: bool
    dir_name: str | None
    error: Exception | None  # the worker could not copy its files
    wanted: dict[str, Any] | None  # of validation.wanted_by()
    call = "report"


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
        self.callbacks = callbacks
        self.token = secrets.token_hex(16)
        self.address = f"headrace-train-{os.getpid()}-{secrets.token_hex(8)}"
        self.failures: list[WorkerFailure] = []
        self.pids: dict[int, int] = {}
        self.return_values: dict[int, Any] = {}
        self.on_failure: Callable[[], None] | None = None  # called before a worker's failure counts
        self._lock = threading.Lock()  # guards the fields above and below
        self._conns: dict[int, Connection] = {}
        self._pending: dict[int, _Report | _Meeting] = {}
        self._n_calls = 0  # barriers that all workers have passed
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
            conns = list(self._conns.values())
            self._conns.clear()
        for conn in conns:
            try:
                socket.socket(fileno=os.dup(conn.fileno())).shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # the thread that reads it closes it

    def heard_of(self, rank: int, seconds: float) -> bool:
        """Whether a worker that has ended has reported how; waits `seconds` for a report on its way."""
        until = time.monotonic() + seconds
        while rank not in self.return_values and all(f.rank != rank for f in self.failures):
            if time.monotonic() > until:
                return False
            time.sleep(0.02)
        return True

    def progress(self) -> dict[int, Any]:
        """rank -> a value that changes when the worker connects, reports, or gets its answer."""
        with self._lock:
            return {rank: (self._n_calls, rank in self._pending) for rank in self.pids}

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
        return int(rank)

    def _serve(self, sock: socket.socket) -> None:
        with sock, Connection(os.dup(sock.fileno())) as conn:
            rank = None
            try:
                rank = self._hello(sock, conn)
                if rank is None:
                    return
                send(conn, ("welcome", self._resumed(), self.storage.staging()))
                while True:
                    self._handle(rank, receive(conn))
            except (EOFError, OSError, ValueError):
                pass  # the launcher sees how the process ended
            finally:
                with self._lock:
                    if rank is not None and self._conns.get(rank) is conn:
                        del self._conns[rank]

    def _resumed(self) -> str | None:
        return self.storage.resumed.path if self.storage.resumed else None

    def _handle(self, rank: int, message: tuple) -> None:
        kind, *rest = message
        if kind == "failed" and self.on_failure is not None:
            self.on_failure()
        with self._lock:
            if kind == "report":
                self._pending[rank] = _Report(*rest)
            elif kind == "meet":
                self._pending[rank] = _Meeting(*rest)
            elif kind == "checkpoints":
                send(self._conns[rank], ("ok", self.storage.reported(), self.storage.staging()))
                return
            elif kind == "done":
                self.return_values[rank] = _unpickled(rest[0])
            elif kind == "failed":
                traceback, exception = rest
                self.failures.append(WorkerFailure(rank, traceback, _unpickled(exception)))
            self._settle_locked()
        if kind == "done":
            self.shards.rank_ended(rank, None)
        elif kind == "failed":  # the last line of a traceback says what it was
            self.shards.rank_ended(rank, rest[0].rstrip().rpartition("\n")[2])

    def _settle_locked(self) -> None:
        """Answers the barrier if all workers have reached it, or if some never can."""
        if not self._pending or len(self._pending) + len(self.return_values) < self.world_size:
            return
        pending, self._pending = self._pending, {}
        wrong = self._mismatch_locked(pending)
        if wrong:
            if any(isinstance(p, _Report) for p in pending.values()):
                self.storage.discard()
            answer = ("error", RuntimeError(wrong), self.storage.staging())
        elif isinstance(pending[0], _Meeting):
            self._n_calls += 1
            answer = ("ok", pending[0].data, self.storage.staging())
        else:
            answer = self._commit_locked(pending)
        for rank in pending:
            conn = self._conns.get(rank)
            try:
                if conn:
                    send(conn, answer)
            except OSError:
                pass  # the worker died; the launcher sees that

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

    def _commit_locked(self, pending: dict[int, Any]) -> tuple:
        self._n_calls += 1
        names = {r.dir_name for r in pending.values() if r.dir_name}
        failed = [pending[rank].error for rank in sorted(pending) if pending[rank].error]
        try:
            if failed:
                raise failed[0]
            if len(names) > 1:
                raise ValueError(
                    "report(checkpoint_dir_name=...): expected one name from all workers, "
                    f"found {sorted(names)}"
                )
        except Exception as e:
            self.storage.discard()
            return ("error", e, self.storage.staging())
        has_files = any(r.has_files for r in pending.values())
        metrics = [pending[rank].metrics for rank in sorted(pending)]
        wanted = [r.wanted for _, r in sorted(pending.items()) if r.wanted is not None]
        return committed(
            self.storage,
            self.shards,
            self.callbacks,
            metrics,
            has_files,
            next(iter(names), None),
            next(iter(wanted), None),
        )


def committed(
    storage: RunStorage,
    shards: ShardServer,
    callbacks: Callbacks,
    metrics: list[dict[str, Any]],
    has_files: bool,
    dir_name: str | None,
    wanted: dict[str, Any] | None,
) -> tuple:
    """Stores a report of all workers, and with a checkpoint the positions; then runs the callbacks. metrics:
    of each rank; wanted: the validation. Returns the answer for them: "ok", path of the newest checkpoint,
    folder for the next one; or "error", exception, folder.
    """
    try:
        state = shards.state() if has_files else None
        stored = storage.commit(metrics[0], has_files, dir_name, state, wanted)
        callbacks.after_report(metrics, stored)
    except Exception as e:
        return ("error", e, storage.staging())
    return ("ok", storage.resumed.path if storage.resumed else None, storage.staging())


def _unpickled(data: bytes | None) -> Any:
    if data is None:
        return None
    try:
        return pickle.loads(data)
    except Exception:  # its class exists only in the worker
        return None


class Channel:
    """The worker's end."""

    def __init__(self, address: str, token: str, rank: int):
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.connect("\0" + address)
        self._conn = Connection(sock.detach())
        self._conn.send_bytes(f"{token} {rank}".encode())
        _, self.latest, self._staging = receive(self._conn)

    def staging(self) -> str:
        """The folder for the files of the next checkpoint."""
        return self._staging

    def report(
        self,
        metrics: dict[str, Any],
        has_files: bool,
        dir_name: str | None,
        error: Exception | None,
        wanted: dict[str, Any] | None,
    ) -> str | None:
        """Waits for all workers. error: why this one could not copy its files; all of them raise it. Returns
        the path of the newest checkpoint.
        """
        return self._answer(("report", metrics, has_files, dir_name, error, wanted))

    def _answer(self, message: tuple) -> Any:
        send(self._conn, message)
        # EOFError if the driver has ended; the worker then ends, too
        kind, found, self._staging = receive(self._conn)
        if kind == "error":
            raise found
        return found

    def meet(self, call: str, data: Any) -> Any:
        """Waits until all workers have made this call. Returns rank 0's data."""
        return pickle.loads(self._answer(("meet", call, cloudpickle.dumps(data))))

    def reported(self) -> list[tuple[str, dict[str, Any], str]]:
        """Path, metrics and status of each checkpoint that the run keeps."""
        return self._answer(("checkpoints",))

    def done(self, value: bytes | None) -> None:
        send(self._conn, ("done", value))

    def failed(self, traceback: str, exception: bytes | None) -> None:
        send(self._conn, ("failed", traceback, exception))


class LocalChannel:
    """The channel of local mode: without workers, it writes reports to the storage itself."""

    def __init__(
        self, storage: RunStorage, shards: ShardServer, callbacks: Callbacks, validations: Validations
    ):
        self._storage = storage
        self._shards = shards
        self._callbacks = callbacks
        self._validations = validations

    def staging(self) -> str:
        return self._storage.staging()

    def report(
        self,
        metrics: dict[str, Any],
        has_files: bool,
        dir_name: str | None,
        error: Exception | None,
        wanted: dict[str, Any] | None,
    ) -> str | None:
        if error is not None:
            self._storage.discard()
            raise error
        kind, found, _ = committed(
            self._storage, self._shards, self._callbacks, [metrics], has_files, dir_name, wanted
        )
        if kind == "error":
            raise found
        self._validations.run_here()
        return found

    def meet(self, call: str, data: Any) -> Any:
        return data

    def reported(self) -> list[tuple[str, dict[str, Any], str]]:
        return self._storage.reported()
