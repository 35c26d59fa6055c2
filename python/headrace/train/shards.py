"""Data shards: the driver runs the datasets and serves their splits, the workers take batches over a ring."""

from __future__ import annotations

import json
import pickle
import sys
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from headrace import _core
from headrace.data import resuming
from headrace.data.iterables import taken_rows
from headrace.data.iterator import LocalSource, SplitIterator
from headrace.udf import sending

Shards = list[dict[str, Any]]  # for each rank: name -> DataIterator


@dataclass(frozen=True)
class RemoteShard:
    """The address of a worker's share."""

    address: str
    split: int
    rank: int
    world_size: int
    forgetful: tuple[str, ...] = ()  # warnings about classes for a resume in the middle of an epoch


def _local(shard: Any) -> LocalSource | None:
    source = getattr(shard, "_source", None)
    return source if isinstance(source, LocalSource) else None


class ShardServer:
    """The driver's side: serves the splits of all shards, saves and restores their positions, closes them."""

    def __init__(self, shards: Shards):
        self.shards = shards
        self._server = None
        sources = [s for mine in shards for shard in mine.values() if (s := _local(shard))]
        self._owners = list({id(s.owner): s.owner for s in sources}.values())
        self._reported: set[tuple[str, str]] = set()  # datasets without a position, and reasons

    @property
    def splits(self) -> list[_core.Split]:
        return [owner.split for owner in self._owners]

    def nodes(self) -> list[Any]:
        """What the splits read, in their order."""
        return [owner.node for owner in self._owners]

    def named_splits(self) -> list[tuple[str, _core.Split, dict[int, int]]]:
        """For each split: the name of its dataset, the split, and the share of each rank that has one. A
        dataset that is not split has a split of its own for each rank.
        """
        names: dict[int, str] = {}
        shares: dict[int, dict[int, int]] = {}
        for rank, mine in enumerate(self.shards):
            for name, shard in mine.items():
                source = _local(shard)
                if source is not None:
                    names[id(source.owner)] = name
                    shares.setdefault(id(source.owner), {})[rank] = source.rank
        return [(names[id(o)], o.split, shares[id(o)]) for o in self._owners]

    def serve(self) -> list[bytes]:
        """Opens the ring. Returns, for each rank, its shards in the form that open_shards() takes."""
        for owner in self._owners:
            owner.serve_elsewhere()
        if self._owners:
            self._server = _core.RingServer(self.splits)
        return [sending.dumps({n: self._packed(s) for n, s in mine.items()}) for mine in self.shards]

    def _packed(self, shard: Any) -> Any:
        source = _local(shard)
        if source is None:
            return shard  # an iterator over a whole dataset: the worker runs it itself
        at = next(i for i, owner in enumerate(self._owners) if owner is source.owner)
        texts = tuple(text for _, text in resuming.forgetful(source.owner.node))
        return RemoteShard(self._server.address, at, source.rank, shard.world_size, texts)

    def state(self, done: bool = False, ahead: Mapping[str, set[int]] | None = None) -> dict[str, Any]:
        """The state of a checkpoint: "workers", their number; "counts", those of this attempt for
        Result.datasets; and "datasets", name -> dict. The dict has "shares", the number of ranks that share
        the rows, and "positions", one text for each group of such ranks; or "missing", why there is no
        position. The driver prints each reason once: the checkpoint is valid without the position.

        done: the ranks may be at different steps, and the positions are those after the steps that all have
        done. ahead: for datasets, how many batches the ranks have taken and not used.
        """
        names = {name: None for mine in self.shards for name in mine}
        return {
            "workers": len(self.shards),
            "counts": self.counts(),
            "datasets": {n: self._position(n, done, (ahead or {}).get(n, {0})) for n in names},
        }

    def _position(self, name: str, done: bool, ahead: set[int]) -> dict[str, Any]:
        groups = self._groups(name)
        if groups is None:
            return self._missing(name, "its shards are not those of streaming_split()")
        if len(ahead) > 1:
            return self._missing(
                name, "the ranks have taken different numbers of batches ahead of their steps"
            )
        try:
            texts = [sources[0].position(done, *ahead) for sources in groups]
        except _core.HeadraceError as e:
            return self._missing(name, str(e))
        return {"shares": groups[0][0].owner.n, "positions": texts}

    def _missing(self, name: str, reason: str) -> dict[str, Any]:
        if (name, reason) not in self._reported:
            self._reported.add((name, reason))
            print(
                f"dataset {name!r}: checkpoints have no position of it, and a restart begins with its first "
                f"epoch: {reason}",
                file=sys.stderr,
            )
        return {"missing": reason}

    def _groups(self, name: str) -> list[list[LocalSource]] | None:
        """The shards of a dataset, those of one split together; None if a rank has another kind of shard."""
        groups: dict[int, list[LocalSource]] = {}
        for mine in self.shards:
            source = _local(mine.get(name))
            if source is None:
                return None
            groups.setdefault(id(source.owner), []).append(source)
        return list(groups.values())

    def restore(self, state: dict[str, Any] | None) -> None:
        """Sets positions before the workers begin: those of RunStorage.begin(). Prints a line if code has
        changed. Raises MismatchError if a position does not fit.
        """
        if state is None:
            return
        saved, where = state["datasets"], state["where"]
        mine = {name for shards in self.shards for name in shards}
        if set(saved) != mine:
            raise _differs(
                where, f"the datasets were {sorted(saved)}, those of the trainer are {sorted(mine)}"
            )
        for name, at in saved.items():
            groups = self._groups(name)
            if "missing" in at:
                print(
                    f"dataset {name!r}: begins with its first epoch: {where} has no position of it "
                    f"({at['missing']})",
                    file=sys.stderr,
                )
            elif groups is None:
                raise _differs(where, f"dataset {name!r}: its shards were those of streaming_split()")
            else:
                self._restore(name, at, groups, state)

    def _restore(self, name: str, at: dict, groups: list[list[LocalSource]], state: dict[str, Any]) -> None:
        positions, before, now = at["positions"], state["workers"], len(self.shards)
        if before > 1 and now > 1 and (at["shares"] > 1) != (groups[0][0].owner.n > 1):
            what = ["every worker reads all of its rows", "the workers share its rows"]
            first = at["shares"] > 1
            raise _differs(
                state["where"], f"dataset {name!r}: expected that {what[first]}, found that {what[not first]}"
            )
        if len(set(positions)) == 1:
            positions = [positions[0]] * len(groups)
        if len(positions) != len(groups):
            raise _differs(
                state["where"],
                f"dataset {name!r}: every worker reads all of its rows, and they were at different rows; so "
                f"expected {before} workers, found {now}",
            )
        for group, position in zip(groups, positions, strict=True):
            try:
                differs = group[0].restore(position)
            except _core.HeadraceError as e:
                raise _differs(state["where"], f"dataset {name!r}: {e}") from None
            _print_difference(name, differs if group is groups[0] else None)
            group[0].warn_of_classes(position)

    def counts(self) -> dict[str, dict[str, int]]:
        """The counts of each dataset for Result.datasets."""
        out: dict[str, dict[str, int]] = {}
        for name, split, _ in self.named_splits():
            ended = json.loads(split.stats())["all_epochs"]
            mine = out.setdefault(name, {"epochs": 0, "dropped_rows": 0, "padded_rows": 0})
            mine["epochs"] = max(mine["epochs"], ended["ended"])
            mine["dropped_rows"] += ended["dropped_rows"]
            mine["padded_rows"] += ended["padded_rows"]
        return out

    def reported(self, rank: int, begin_ns: int, end_ns: int) -> None:
        """The worker was in report() then: for traces."""
        for _, split, shares in self.named_splits():
            if rank in shares:
                with suppress(_core.HeadraceError):  # the split is closed already
                    split.reported(shares[rank], begin_ns, end_ns)

    def rank_ended(self, rank: int, why: str | None) -> None:
        """A worker has ended (why is None) or failed: the other ranks of its splits stop waiting for it."""
        for shard in self.shards[rank].values():
            source = _local(shard)
            if source is not None:
                try:
                    source.split.lost(source.rank, why)
                except _core.HeadraceError:
                    pass  # the split is closed already

    def close(self) -> None:
        if self._server is not None:
            self._server.stop()
        for owner in self._owners:
            owner.close()


def _differs(where: str, what: str) -> _core.MismatchError:
    return _core.MismatchError(f"{where}: {what}. {_ADVICE}")


_ADVICE = (
    "Give what the run had; or another RunConfig(name=...), to begin anew, and resume_from_checkpoint=..., "
    "to take over the model without the positions"
)


def _print_difference(name: str, differs: str | None) -> None:
    if differs:
        print(
            f"dataset {name!r}: the code or the data of {differs} has changed since the position was saved; "
            "the run skips the rows before the position, which the old code made",
            file=sys.stderr,
        )


class RingSource:
    """One rank of a split in the driver, as the source of a SplitIterator. Connects on its first use."""

    reading = None  # a weak reference to its pass by rows

    def __init__(self, remote: RemoteShard):
        self._remote = remote
        self._forgetful = remote.forgetful
        self._ring = None

    @property
    def ring(self) -> _core.Ring:
        if self._ring is None:
            self._ring = _core.Ring(self._remote.address, self._remote.split, self._remote.rank)
        return self._ring

    def begin(self, batch_rows, **request):
        try:
            return self.ring.begin(batch_rows, **request)  # the driver watches ranks that wait: watch.py
        except _core.MismatchError as e:  # the run goes on from a position with other batches
            raise _core.MismatchError(f"{e}. {_ADVICE}") from None

    def next(self, number=0):
        return self.ring.next(number)

    def converted(self, ns):
        self.ring.converted(ns)

    def leave(self):
        self.ring.leave()

    def position(self, ahead=0):
        self._report_taken()
        return self.ring.position_of(ahead) if ahead else self.ring.position()

    def _report_taken(self):
        rows = taken_rows(self)
        if rows is not None:
            self.ring.report_taken(rows)

    def restore(self, text, moved=False, strict=False):
        return self.ring.restore(text, moved, strict)

    def warn_of_classes(self, position, stacklevel=3):
        if resuming.in_the_middle(position):
            texts, self._forgetful = self._forgetful, ()
            for text in texts:
                warnings.warn(text, stacklevel=stacklevel)

    def schema(self):
        return self.ring.schema()

    def stats(self):
        return self.ring.stats()

    def settle(self) -> None:
        """Makes sure that the driver knows what this rank has taken, by a request and its answer."""
        if self._ring is not None:
            self._report_taken()
            self._ring.stats()

    def close(self):
        if self._ring is not None:
            self._ring.close()


def open_shards(packed: bytes) -> dict[str, Any]:
    """The worker's side: name -> DataIterator. Two names of one shard get one iterator."""
    named = pickle.loads(packed)
    remotes = {s for s in named.values() if isinstance(s, RemoteShard)}
    opened = {r: SplitIterator(RingSource(r), r.world_size, r.rank) for r in remotes}
    return {name: opened.get(s, s) if isinstance(s, RemoteShard) else s for name, s in named.items()}
