"""Finds the worker that holds up the others: it is stopped, asleep, or deadlocked, or ended in silence.

Each worker has a thread with a connection of its own to the driver. The driver sends a question only after
stall_warning_s without progress (no batch taken, no report), and the thread answers with the place where the
train loop is. A worker that waits in a collective, for rows or for a report is not to blame; one that is
elsewhere, or does not answer, is. After stall_timeout_s the driver ends that worker, which counts as its
failure. Where the driver itself does not answer, it says where it is.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import select
import signal
import socket
import struct
import sys
import threading
import time
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from headrace import _core
from headrace.data import stalls
from headrace.data.context import DataContext
from headrace.train.control import Control

ANSWER_S = 2.0  # a worker that does not answer within this time is stopped, or holds Python's lock
SILENT_S = 1.0  # the launcher sees a failed worker by then; a worker that ended with code 0 it takes as done
WAITS = {"collective": "in {}", "data": "for rows", "report": "in report()", "backward": "in backward()"}


@dataclass
class _Worker:
    conn: Connection
    pid: int
    seen: Any = None  # what it had taken and reported at the last look
    since: float = field(default_factory=time.monotonic)
    gone: float | None = None  # when its connection ended


@dataclass(frozen=True)
class _Split:
    """What the engine knows of one split, by the ranks of the workers."""

    name: str  # of the dataset
    info: dict[str, Any]
    shares: dict[int, int]  # rank -> its share; a dataset that is not split has a split for each rank

    def has(self, rank: int) -> bool:
        return rank in self.shares

    def of(self, rank: int) -> dict[str, Any]:
        return self.info["ranks"][self.shares[rank]]

    def is_waiting(self, rank: int) -> bool:
        return self.has(rank) and stalls.is_waiting(self.info, self.shares[rank])

    def blamed(self) -> list[int]:
        behind = set(stalls.blamed(self.info))
        return [rank for rank, share in self.shares.items() if share in behind]


class Watch:
    """The driver's side, for one start of the workers. ended: rank -> why it ended, by the driver or without
    a report."""

    def __init__(self, control: Control):
        self.control = control
        self.ended: dict[int, str] = {}
        self.token = secrets.token_hex(16)
        self.address = f"headrace-watch-{os.getpid()}-{secrets.token_hex(8)}"
        self._workers: dict[int, _Worker] = {}
        self._lock = threading.Lock()
        self._reported: dict[int, float] = {}
        self._next_line: dict[tuple, float] = {}  # guilty ranks -> seconds
        self._next_of_driver: dict[float, float] = {}  # since when -> seconds
        self._stop = threading.Event()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind("\0" + self.address)
        self._listener.listen(128)
        context = DataContext.get_current()
        self.warn_s = context.stall_warning_s
        self.limit_s = context.stall_timeout_s
        control.on_failure = self._before_a_failure
        for work in (self._accept, self._look):
            threading.Thread(target=work, name="headrace-train-watch", daemon=True).start()

    def close(self) -> None:
        self._stop.set()
        try:
            self._listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._listener.close()

    def _accept(self) -> None:
        while not self._stop.is_set():
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            sock.settimeout(ANSWER_S)
            try:
                raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
                pid, uid, _ = struct.unpack("3i", raw)
                hello = sock.recv(256).decode("ascii", "replace")
            except OSError:
                sock.close()
                continue
            token, _, rank = hello.partition(" ")
            known = uid == os.getuid() and hmac.compare_digest(token, self.token) and rank.isdigit()
            if not known or int(rank) >= self.control.world_size:
                sock.close()
                continue
            sock.settimeout(None)
            with self._lock:
                self._workers[int(rank)] = _Worker(Connection(sock.detach()), pid)

    # --- the thread that looks

    def _look(self) -> None:
        pause = max(0.05, min(0.5, self.warn_s / 4))
        while not self._stop.wait(pause):
            with self._lock:
                workers = dict(self._workers)
            try:
                self._find_slow_driver()
                self._find_silent(workers)
                self._find_stalled(workers)
            except (OSError, _core.HeadraceError):
                pass  # the run ends

    def _find_slow_driver(self) -> None:
        """Prints where a thread of the driver is that does not come back from a message of a worker: all
        workers may wait for it. Of those that wait for its lock there is nothing to say.
        """
        frames = sys._current_frames()
        for rank, (since, thread) in list(self.control.handling.items()):
            seconds = time.monotonic() - since
            frame = frames.get(thread)
            if frame is None or frame.f_code is Control.handle.__code__:
                continue
            if seconds >= self._next_of_driver.get(since, self.warn_s):
                self._next_of_driver = {since: 2 * seconds}
                who = f"the driver (pid {os.getpid()}) has not answered rank {rank} for {seconds:.0f} s"
                print(f"headrace: {who}: it is at {describe(frame)['at']}", file=sys.stderr, flush=True)

    def _finished(self, rank: int) -> bool:
        return rank in self.control.return_values or any(f.rank == rank for f in self.control.failures)

    def _find_silent(self, workers: dict[int, _Worker]) -> None:
        """A worker whose process ended without a report, perhaps with exit code 0."""
        for rank, worker in workers.items():
            if worker.gone is None and _has_ended(worker):
                worker.gone = time.monotonic()
            if worker.gone is None or self._finished(rank) or rank in self.ended:
                continue
            if time.monotonic() - worker.gone > SILENT_S:
                self.ended[rank] = f"rank {rank} (pid {worker.pid}) ended before its train loop returned"
                self.control.shards.rank_ended(rank, "its process ended before its train loop returned")
                for other, w in workers.items():
                    if other != rank and w.gone is None:
                        _kill(w.pid, signal.SIGTERM)

    def _before_a_failure(self) -> None:
        """A worker reports a failure: another one may have ended in silence before, and be the cause."""
        with self._lock:
            workers = dict(self._workers)
        for rank, worker in workers.items():
            if rank not in self.ended and not self._finished(rank) and _has_ended(worker):
                self.ended[rank] = f"rank {rank} (pid {worker.pid}) ended before its train loop returned"

    def _splits(self) -> list[_Split]:
        splits = self.control.shards.named_splits()
        return [_Split(name, json.loads(split.ranks()), shares) for name, split, shares in splits]

    def _find_stalled(self, workers: dict[int, _Worker]) -> None:
        now = time.monotonic()
        splits = self._splits()
        reports = self.control.progress()
        for rank, worker in workers.items():
            seen = [
                (s.info["epoch"], s.of(rank)["state"], s.of(rank)["taken"]) for s in splits if s.has(rank)
            ]
            seen.append(reports.get(rank))
            if seen != worker.seen:
                worker.seen, worker.since = seen, now
        alive = {r: w for r, w in workers.items() if not self._finished(r) and w.gone is None}
        late = {r: now - w.since for r, w in alive.items() if now - w.since >= self.warn_s}
        if not late or all(now < self._reported.get(r, 0) for r in late):
            return
        for rank in late:
            self._reported[rank] = now + max(self.warn_s / 4, 0.2)
        places = {rank: _place(worker) for rank, worker in alive.items()}
        guilty = self._guilty(places, late, splits) or self._left_alone(places, late)
        if not guilty:
            return
        self._report(guilty, places, late, splits, alive)
        worst = max(guilty, key=lambda r: (late[r], -r))
        if self.limit_s is not None and late[worst] >= self.limit_s:
            self.ended[worst] = self._text([worst], places, late, splits, alive)
            _kill(alive[worst].pid, signal.SIGKILL)

    def _guilty(self, places, late, splits) -> list[int]:
        """The workers that others wait for. A long step of all workers is no stall, a stopped worker is."""
        suspects = [r for r in late if places[r]["kind"] in ("user", "stopped", "silent")]
        waiting = [r for r in places if places[r]["kind"] not in ("user", "stopped", "silent")]
        if suspects and (waiting or any(places[r]["kind"] == "stopped" for r in suspects)):
            return suspects
        if suspects:
            return []
        for (
            split
        ) in splits:  # all wait: some for steps that others must take, or for an epoch that others must begin
            asked = [r for r in late if split.is_waiting(r) and places[r]["kind"] == "data"]
            behind = [r for r in split.blamed() if r in late and r not in asked]
            if asked and behind:
                return behind
        return []

    def _left_alone(self, places, late) -> list[int]:
        """The workers in a collective that a worker whose train loop has returned does not call any more.
        Some collectives notice that at once, NCCL's and LightGBM's may wait for ever.
        """
        if not self.control.return_values:
            return []
        return [r for r in late if places[r]["kind"] == "collective"]

    def _report(self, guilty, places, late, splits, alive) -> None:
        key = tuple(guilty)
        longest = max(late[r] for r in guilty)
        if longest < self._next_line.get(key, 0):
            return
        self._next_line = {key: 2 * longest}
        print(f"headrace: {self._text(guilty, places, late, splits, alive)}", file=sys.stderr, flush=True)

    def _text(self, guilty, places, late, splits, alive) -> str:
        parts = []
        for rank in guilty:
            parts.append(
                f"rank {rank} (pid {alive[rank].pid}) has made no progress for {late[rank]:.0f} s: "
                f"{places[rank]['text']}{_steps(rank, splits)}"
            )
        others = {}
        for rank, place in places.items():
            if rank not in guilty and place["waits"]:
                text = place["waits"] + _waits_for(rank, place, splits) + place["at"]
                others.setdefault(text, []).append(rank)
        for text, ranks in others.items():
            verb = "wait" if len(ranks) > 1 else "waits"
            parts.append(f"{stalls.listed(ranks)} {verb} {text}")
        if self.control.return_values and any(places[rank]["kind"] == "collective" for rank in guilty):
            returned = stalls.listed(sorted(self.control.return_values))
            parts.append(f"the train loop of {returned} has returned: all must call it equally often")
        return "; ".join(parts) + self._advice(guilty, places, splits)

    def _advice(self, guilty, places, splits) -> str:
        for split in splits:
            asked = any(r["state"] == "asked" for r in split.info["ranks"])
            if asked and all(split.has(g) and split.of(g)["state"] in ("away", "out") for g in guilty):
                return (
                    f"; dataset {split.name!r} is split, so all workers must iterate over it; if only "
                    "some of them read it, leave it out of DataConfig(datasets_to_split=[...])"
                )
        return ""


def _steps(rank: int, splits) -> str:
    out = []
    for split in splits:
        if split.has(rank) and split.of(rank)["state"] == "in":
            epoch = split.info["epoch"]
            out.append(f"step {split.of(rank)['taken']} of epoch {epoch} of dataset {split.name!r}")
    return f" ({', '.join(out)})" if out else ""


def _waits_for(rank: int, place: dict[str, str], splits) -> str:
    if place["kind"] != "data":
        return ""
    for split in splits:
        if not split.is_waiting(rank):
            continue
        info, one = split.info, split.of(rank)
        if one["state"] == "asked":
            return f" of epoch {info['epoch'] + info['running']} of dataset {split.name!r} to begin"
        return f" of step {one['taken']} of epoch {info['epoch']} of dataset {split.name!r}"
    return ""


def _has_ended(worker: _Worker) -> bool:
    """Its connection has ended."""
    try:
        look = select.poll()
        look.register(worker.conn.fileno(), select.POLLRDHUP)
        return bool(look.poll(0))
    except (OSError, ValueError):
        return True


def _place(worker: _Worker) -> dict[str, str]:
    """Where the worker's train loop is: kind, text for the one to blame, what it waits for."""
    try:
        while worker.conn.poll(0):
            worker.conn.recv_bytes(1 << 16)  # an answer that came too late
        worker.conn.send_bytes(b"where")
        if worker.conn.poll(ANSWER_S):
            place = json.loads(worker.conn.recv_bytes(1 << 16))
            at = f"{place['at']}"
            waits = WAITS.get(place["kind"], "").format(place["what"])
            text = f"it waits {waits} at {at}" if waits else f"it is at {at}"
            return {"kind": place["kind"], "text": text, "waits": waits, "at": f" at {at}"}
    except (EOFError, OSError, ValueError, KeyError):
        pass
    state = stalls.process_state(worker.pid)
    if "stopped" in state:
        return {"kind": "stopped", "text": state, "waits": "", "at": ""}
    return {"kind": "silent", "text": f"it does not answer: {state}", "waits": "", "at": ""}


def _kill(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError:
        pass


# --------------------------------------------------------------------------------- the worker's side


def answer(address: str, token: str, rank: int) -> None:
    """Starts the thread that reports to the driver where the train loop is."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.connect("\0" + address)
    sock.sendall(f"{token} {rank}".encode())
    main = threading.main_thread().ident
    threading.Thread(
        target=_answers, args=(Connection(sock.detach()), main), name="headrace-train-watch", daemon=True
    ).start()


def _answers(conn: Connection, thread: int | None) -> None:
    try:
        while True:
            conn.recv_bytes(64)
            frame = sys._current_frames().get(thread)
            conn.send_bytes(json.dumps(describe(frame)).encode())
            del frame
    except (EOFError, OSError):
        pass  # the driver has ended, and so will this process


_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_KINDS = (  # parts of paths, the innermost frame first
    (os.path.join("torch", "distributed") + os.sep, "collective"),
    (os.path.join("torch", "autograd") + os.sep, "backward"),
    (f"{os.sep}lightgbm{os.sep}", "collective"),
    (f"{os.sep}xgboost{os.sep}", "collective"),
    (_PACKAGE + "data" + os.sep, "data"),
    (_PACKAGE + "train" + os.sep + "control.py", "report"),
)
_COLLECTIVE = _PACKAGE + "train" + os.sep + "collective.py"


def describe(frame: Any) -> dict[str, str]:
    """kind: collective, backward, data, report or user; what: that waits; at: the user's line."""
    kind, what, at, last = "user", "", "", ""
    while frame is not None:
        code = frame.f_code
        path = code.co_filename
        found = next((k for part, k in _KINDS if part in path), None)
        if found == "collective" and kind in ("user", "collective") and not at:
            kind, what = found, code.co_name.removeprefix("wrapper") or what
        elif path == _COLLECTIVE and kind == "report":
            kind, what = "collective", code.co_name
        elif found is not None and kind == "user" and not at:
            kind, what = found, code.co_name
        if not at and found is None and _is_users(path):
            at = f"{path}:{frame.f_lineno} in {code.co_name}()"
        last = last or f"{path}:{frame.f_lineno} in {code.co_name}()"
        frame = frame.f_back
    return {"kind": kind, "what": f"{what}()", "at": at or last}


def _is_users(path: str) -> bool:
    library = os.path.dirname(os.__file__) + os.sep
    inside = path.startswith((_PACKAGE, library, "<frozen")) or f"{os.sep}site-packages{os.sep}" in path
    return not inside


__all__ = ["Watch", "answer", "describe"]
