"""Data shards: the driver runs the datasets and serves their splits, the workers take batches over a ring."""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass
from typing import Any

import cloudpickle

from headrace import _core
from headrace.data import resuming
from headrace.data.iterator import LocalSource, SplitIterator

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

    @property
    def splits(self) -> list[_core.Split]:
        return [owner.split for owner in self._owners]

    def named_splits(self) -> list[tuple[str, _core.Split]]:
        """The splits with the names of their datasets."""
        names: dict[int, list[str]] = {}
        for name, shard in self.shards[0].items():
            source = _local(shard)
            if source is not None:
                names.setdefault(id(source.owner), []).append(name)
        return [(", ".join(names.get(id(o), ["?"])), o.split) for o in self._owners]

    def serve(self) -> list[bytes]:
        """Opens the ring. Returns, for each rank, its shards in the form that open_shards() takes."""
        for owner in self._owners:
            owner.serve_elsewhere()
        if self._owners:
            self._server = _core.RingServer(self.splits)
        return [cloudpickle.dumps({n: self._packed(s) for n, s in mine.items()}) for mine in self.shards]

    def _packed(self, shard: Any) -> Any:
        source = _local(shard)
        if source is None:
            return shard  # an iterator over a whole dataset: the worker runs it itself
        at = next(i for i, owner in enumerate(self._owners) if owner is source.owner)
        texts = tuple(text for _, text in resuming.forgetful(source.owner.node))
        return RemoteShard(self._server.address, at, source.rank, shard.world_size, texts)

    def states(self) -> dict[str, Any]:
        """name -> the position of that dataset: one text if all ranks share a split, otherwise a list."""
        out: dict[str, Any] = {}
        for name in self.shards[0]:
            sources = [_local(mine.get(name)) for mine in self.shards]
            if all(sources):
                texts = [s.position() for s in sources]
                out[name] = texts[0] if all(s.owner is sources[0].owner for s in sources) else texts
        return out

    def restore(self, states: dict[str, Any] | None) -> None:
        """Sets positions before the workers begin. Prints a line for a position that does not fit."""
        for name, state in (states or {}).items():
            try:
                for rank, mine in enumerate(self.shards):
                    source = _local(mine.get(name))
                    if source is not None:
                        position = state[rank] if isinstance(state, list) else state
                        differs = source.restore(position)
                        _print_difference(name, differs if rank == 0 else None)
                        source.warn_of_classes(position)
            except _core.HeadraceError as e:
                print(f"dataset {name!r}: a restart reads an epoch from its start: {e}", file=sys.stderr)

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


def _print_difference(name: str, differs: str | None) -> None:
    if differs:
        print(
            f"dataset {name!r}: the code or the data of {differs} has changed since the position was saved; "
            "the run skips the rows before the position, which the old code made",
            file=sys.stderr,
        )


class RingSource:
    """One rank of a split in the driver, as the source of a SplitIterator. Connects on its first use."""

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
        return self.ring.begin(batch_rows, **request)  # the driver looks after those who wait: watch.py

    def next(self, number=0):
        return self.ring.next(number)

    def leave(self):
        self.ring.leave()

    def position(self):
        return self.ring.position()

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
            self._ring.stats()

    def close(self):
        if self._ring is not None:
            self._ring.close()


def open_shards(packed: bytes) -> dict[str, Any]:
    """The worker's side: name -> DataIterator. Two names of one shard get one iterator."""
    named = cloudpickle.loads(packed)
    remotes = {s for s in named.values() if isinstance(s, RemoteShard)}
    opened = {r: SplitIterator(RingSource(r), r.world_size, r.rank) for r in remotes}
    return {name: opened.get(s, s) if isinstance(s, RemoteShard) else s for name, s in named.items()}
