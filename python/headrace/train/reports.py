"""The driver's queue of reports. A report begins when all workers have called report(), and it is stored when
its files are there and all reports before it are stored.

Tests: tests/python/test_train_uploads.py
"""

from __future__ import annotations

import traceback
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any

from headrace.train.callback import Callbacks
from headrace.train.reported_checkpoint import CheckpointUploadMode
from headrace.train.shards import ShardServer
from headrace.train.storage import RunStorage, Target
from headrace.udf import sending


@dataclass
class Given:
    """What one worker gives to report(). mode: of its checkpoint, None without one; by_function: whether the
    user's function uploads it; wanted: of validation.wanted_by(); ahead: for datasets, how many batches the
    worker has taken and not used.
    """

    metrics: dict[str, Any]
    mode: CheckpointUploadMode | None
    by_function: bool
    dir_name: str | None
    wanted: dict[str, Any] | None
    ahead: dict[str, int] = field(default_factory=dict)
    call = "report"


@dataclass(frozen=True)
class Begun:
    """What a worker needs for its upload: the report's number, the folder for the files, the checkpoint's
    name. waits: whether report() returns only when the checkpoint is stored.
    """

    number: int
    folder: str
    name: str
    waits: bool


@dataclass(frozen=True)
class Raised:
    """An exception on its way between processes, which need not know its class. rank: whose upload raised
    it; None: the driver.
    """

    data: bytes | None
    text: str
    rank: int | None = None

    @classmethod
    def of(cls, e: BaseException) -> Raised:
        text = "".join(traceback.format_exception_only(e)).strip()
        return cls(sending.dumps_if_possible(e), text)

    def exception(self) -> BaseException:
        """For all workers; rank_of() finds the rank."""
        found: BaseException = RuntimeError(self.text)
        if self.data is not None:
            with suppress(Exception):  # its class exists only in another process
                found = sending.loads(self.data)
        with suppress(AttributeError):  # a class with slots
            found._headrace_rank = self.rank  # type: ignore[attr-defined]
        return found


def rank_of(e: BaseException | None) -> int | None:
    """The rank whose upload raised e, or raised what e was raised from; None: no upload."""
    while e is not None:
        rank = getattr(e, "_headrace_rank", None)
        if rank is not None:
            return rank
        e = e.__cause__
    return None


@dataclass
class Open:
    """A report that has begun. missing: the ranks whose upload has not ended."""

    number: int
    metrics: list[dict[str, Any]]
    target: Target | None
    state: dict[str, Any] | None
    wanted: dict[str, Any] | None
    waits: bool
    missing: set[int] = field(default_factory=set)
    places: dict[int, str] = field(default_factory=dict)
    errors: dict[int, Raised] = field(default_factory=dict)


def _taken_ahead(given: dict[int, Given]) -> dict[str, set[int]]:
    names = {name for one in given.values() for name in one.ahead}
    return {name: {one.ahead.get(name, 0) for one in given.values()} for name in names}


Answer = tuple[str, Any]  # "ok", the path of the newest checkpoint, or None; "error", Raised; "begun", Begun


class Reports:
    """The reports of one start of the workers. The caller holds a lock around each call."""

    def __init__(self, storage: RunStorage, shards: ShardServer, callbacks: Callbacks):
        self._storage = storage
        self._shards = shards
        self._callbacks = callbacks
        self._queue: deque[Open] = deque()
        self._late: list[Raised] = []  # of reports that had returned before
        self._n_begun = 0

    @property
    def n_open(self) -> int:
        return len(self._queue)

    def latest(self) -> Answer:
        """The answer to a worker when nothing is wrong."""
        resumed = self._storage.resumed
        return "ok", resumed.path if resumed else None

    def begin(self, given: dict[int, Given]) -> Answer:
        """All workers have called report(). After an error of an earlier report nothing begins."""
        if self._late:
            late, self._late = self._late[0], []
            return "error", late
        givers = {rank for rank, one in given.items() if one.mode is not None}
        try:
            target = self._target(given) if givers else None
            state = self._shards.state(ahead=_taken_ahead(given)) if givers else None
        except Exception as e:
            return "error", Raised.of(e)
        wanted = [given[rank].wanted for rank in sorted(given) if given[rank].wanted is not None]
        waits = any(given[rank].mode is not CheckpointUploadMode.ASYNC for rank in givers)
        metrics = [given[rank].metrics for rank in sorted(given)]
        self._n_begun += 1
        new = Open(self._n_begun, metrics, target, state, next(iter(wanted), None), waits, givers)
        self._queue.append(new)
        if target is not None:
            return "begun", Begun(new.number, str(target.folder), target.name, waits)
        new.waits = self._queue[0] is new  # metrics alone do not wait for uploads
        settled = self.settle()
        return settled[0][1] if settled else self.latest()

    def _target(self, given: dict[int, Given]) -> Target:
        names = {one.dir_name for one in given.values() if one.dir_name}
        if len(names) > 1:
            raise ValueError(
                f"report(checkpoint_dir_name=...): expected one name from all workers, found {sorted(names)}"
            )
        by_function = any(one.by_function for one in given.values())
        return self._storage.reserve(next(iter(names), None), by_function)

    def uploaded(self, rank: int, number: int, place: str | None, error: Raised | None) -> None:
        """A worker's upload has ended: the folder that has the files, or why there is none."""
        one = next(o for o in self._queue if o.number == number)
        one.missing.discard(rank)
        if error is not None:
            one.errors[rank] = replace(error, rank=rank)
        elif place is not None:
            one.places[rank] = place

    def settle(self) -> list[tuple[Open, Answer]]:
        """Stores the reports at the head of the queue whose files are there. Returns them with the answers
        for those workers that wait.
        """
        settled = []
        while self._queue and not self._queue[0].missing:
            one = self._queue.popleft()
            answer = self._stored(one)
            settled.append((one, answer))
            if answer[0] == "error" and not one.waits:
                self._late.append(answer[1])
        return settled

    def late(self) -> Answer:
        """The answer to a worker that has ended its train loop."""
        return ("error", self._late[0]) if self._late else self.latest()

    def _stored(self, one: Open) -> Answer:
        try:
            if one.errors:
                self._storage.discard(one.target)
                return "error", one.errors[min(one.errors)]
            place = self._place(one)
            stored = self._storage.commit(one.metrics[0], one.target, place, one.state, one.wanted)
            self._callbacks.after_report(one.metrics, stored)
        except Exception as e:
            return "error", Raised.of(e)
        return self.latest()

    def _place(self, one: Open) -> str | None:
        """The folder that has the files of all workers."""
        found: dict[PurePath, int] = {}
        try:
            for rank, place in sorted(one.places.items()):
                found.setdefault(self._storage.inside(self._storage.folder_of(place)), rank)
            if len(found) > 1:
                listed = ", ".join(f"{place} from rank {rank}" for place, rank in found.items())
                raise ValueError(
                    f"report(checkpoint=...): expected one folder from all workers, found {listed}"
                )
        except ValueError:
            self._storage.discard(one.target)
            raise
        return next(iter(one.places.values()), None)


__all__ = ["Begun", "Given", "Open", "Raised", "Reports", "rank_of"]
