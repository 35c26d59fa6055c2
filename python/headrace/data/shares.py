"""Shares of a dataset for ranks that a launcher started: one engine per host, which its ranks share.

The ranks of a host meet at an abstract socket. Each rank computes its name from the run, the plan, and the
number of shares of that plan that its process has made. The process that comes first binds the name and runs
the engine (a `Host`); the others are its clients. The kernel frees the name when the process ends: there is
no port, no file and no daemon. Both sides refuse peers of other users, and a client must send the key: a hash
of the files' names and sizes, of the values in memory, and of the number of ranks.

With several hosts each host runs the plan and gives its own ranks their batches of the one order. If the
files know their numbers of rows, that is the order of some lanes (src/plan/plan_lanes.c), and each host reads
its lanes alone.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import json
import os
import sys
import threading
import time
import weakref

from headrace import _core, lazy_module
from headrace._core import InvalidArgument, MismatchError, PeerError, StorageError, UnsupportedError
from headrace.data import hosts, launchers, stalls
from headrace.data.context import DataContext, is_whole
from headrace.data.iterables import taken_rows
from headrace.data.iterator import AloneSource, SplitIterator, SplitOwner, share_watch
from headrace.optional import imported

resuming = lazy_module("headrace.data.resuming")

_lock = threading.RLock()
_made: dict[tuple, int] = {}  # (run, plan, rank) -> shares made in this process
_hosts: list[Host] = []  # of this process
_sources: weakref.WeakSet[LauncherSource] = weakref.WeakSet()
LOOK_S = 0.5  # seconds between a host's checks for readers
CONNECT_S = 2.0  # for one attempt
REASON_S = 2.0  # that a host whose process raised an exception waits for the others to receive it
LANES = 12  # with several hosts, so that 1, 2, 3, 4, 6 or 12 hosts have equally many
MOST_LANES = 4096


def _forked() -> None:
    global _lock
    _lock = threading.RLock()
    _hosts.clear()  # their engines belong to the parent


os.register_at_fork(after_in_child=_forked)


def share(dataset, rank, world_size, tail, lanes=None):
    """See Dataset.shard."""
    if lanes is not None and (not is_whole(lanes, 1) or lanes > MOST_LANES):
        raise InvalidArgument(f"shard: lanes: expected a number of 1 to {MOST_LANES}, found {lanes!r}")
    for name, value, least in (("rank", rank, 0), ("world_size", world_size, 1)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
            raise InvalidArgument(f"shard: {name}: expected a number of at least {least}, found {value!r}")
    place = launchers.current()
    if rank is None and world_size is None and place is None:
        return _alone(dataset, tail, lanes)
    if place is None and (rank is None or world_size is None):
        raise InvalidArgument(
            "shard: expected rank and world_size, found one of them, and no launcher's variables"
        )
    rank = place.rank if rank is None else rank
    world_size = place.world_size if world_size is None else world_size
    if rank >= world_size:
        raise InvalidArgument(f"shard: rank: expected 0 to {world_size - 1}, found {rank}")
    if world_size == 1:
        return _alone(dataset, tail, lanes)
    return _shares(dataset, launchers.by_hand(rank, world_size), tail, lanes)[rank]


def of_launcher(dataset, n, tail):
    """What streaming_split(n) returns in a rank of a launcher with n ranks; None: this process is none."""
    place = launchers.current()
    if place is None or place.world_size != n or n == 1:
        return None
    return _shares(dataset, place, tail)


def _alone(dataset, tail, lanes):
    source = AloneSource(dataset, tail, lanes or 1)
    _ = source.owner  # whose errors are those of shard()
    return SplitIterator(source, 1, 0)


def _usual_lanes(hosts):
    """One on one host; on several the least multiple of their number from LANES on."""
    return 1 if hosts == 1 else -(-LANES // hosts) * hosts


def _shares(dataset, place, tail, lanes=None):
    source = LauncherSource(_Meeting.of(dataset, place, tail, lanes or _usual_lanes(place.n_hosts)))
    made = [SplitIterator(_ElsewhereSource(place, r), place.world_size, r) for r in range(place.world_size)]
    made[place.rank] = SplitIterator(source, place.world_size, place.rank)
    return made


class _Meeting:
    """Where the ranks of a host meet for one dataset."""

    def __init__(self, dataset, place, tail, lanes, name, key, what, forgetful):
        self.dataset = dataset  # None in a process that got the share by pickle: it can only be a client
        self.place = place
        self.tail = tail
        self.lanes = lanes
        self.name = name
        self.key = key
        self.what = what
        self.forgetful = forgetful

    @classmethod
    def of(cls, dataset, place, tail, lanes):
        nodes, data = dataset._node.plan.digests()
        with _lock:
            number = _made.get((place.run, nodes, place.rank), 0)
            _made[place.run, nodes, place.rank] = number + 1
        run = hashlib.sha256(f"{os.getuid()} {place.run}".encode()).hexdigest()
        texts = tuple(text for _, text in resuming.forgetful(dataset._node))
        return cls(
            dataset,
            place,
            tail,
            lanes,
            f"headrace-share-{run[:20]}-{nodes[:20]}-{number}",
            f"{data} {place.world_size} {place.here} {place.n_hosts} {tail} {lanes}",
            dataset._node.chain(),
            texts,
        )

    @property
    def shared_name(self):
        """The part of the name that all hosts have in common: plan and number."""
        return self.name.split("-", 3)[3]

    def without_dataset(self):
        return _Meeting(
            None, self.place, self.tail, self.lanes, self.name, self.key, self.what, self.forgetful
        )

    def others(self):
        """How many sockets this run has for other plans: ranks that are missing here may have made them."""
        run = self.name.rsplit("-", 2)[0]
        return len({n for n in _sockets() if n.startswith(f"{run}-")} - {self.name} - _own_names())

    def in_other_runs(self):
        """How many sockets other runs have for this plan: missing ranks that seem to be of another run."""
        here = {n for n in _sockets() if n.endswith(f"-{self.shared_name}")}
        return len(here - {self.name} - _own_names())


def _sockets():
    """The names of all shares' sockets on this host."""
    try:
        with open("/proc/net/unix") as f:
            return {line.rpartition("@")[2].strip() for line in f if "@headrace-share-" in line}
    except OSError:
        return set()


def _own_names():
    return {h.meeting.name for h in _hosts}


class Host:
    """The engine of this host's ranks, in this process."""

    def __init__(self, meeting):
        self.meeting = meeting
        place = meeting.place
        self.owner = SplitOwner(meeting.dataset, place.world_size, meeting.tail)
        self.split = self.owner.split
        self.split.expect(place.here)
        self.split.lanes(meeting.lanes, min(place.n_hosts, place.world_size))
        self.own = False  # this process reads its own rank
        self.own_ended = False
        try:
            self.server = _core.RingServer([self.split], meeting.name, meeting.key, place.rank)
        except BaseException:
            self.owner.close()
            raise
        self.owner.know_code()  # for the positions that clients request
        self.owner.serve_elsewhere()
        with _lock:
            _hosts.append(self)
            _watch_hosts()

    def info(self):
        return json.loads(self.split.ranks())

    def needed(self):
        """Whether a rank of this host reads, or may still come."""
        if self.server.n_clients or (self.own and not self.own_ended):
            return True
        states = [r["state"] for r in self.info()["ranks"]]
        return "away" in states or not self.own_ended

    def n_others(self):
        """The number of connected ranks of other programs, without a child that reads this process's rank."""
        own = self.info()["ranks"][self.meeting.place.rank]["state"]
        return self.server.n_clients - (not self.own and own in ("out", "asked", "in"))

    def end_own(self, why=None):
        """This process's rank has ended; why: the exception that ended it, or None."""
        self.own_ended = True
        with contextlib.suppress(_core.HeadraceError):
            self.split.lost(self.meeting.place.rank, why)

    def close(self):
        with _lock:
            if self in _hosts:
                _hosts.remove(self)
        self.server.stop()
        self.owner.close()


_looking = None  # the process whose thread looks after its hosts


def _watch_hosts():
    """Starts the thread that closes hosts without readers; the end of the process waits for readers."""
    global _looking
    atexit.unregister(at_exit)  # the last function that is registered runs first, while all engines are there
    atexit.register(at_exit)
    if _looking == os.getpid():
        return
    _looking = os.getpid()
    threading.Thread(target=_look, name="headrace-shares", daemon=True).start()
    util = imported("multiprocessing.util")
    if util is not None:  # its children end without atexit
        util.Finalize(None, at_exit, exitpriority=100)


def _look():
    while True:
        time.sleep(LOOK_S)
        with _lock:
            hosts = list(_hosts)
        for host in hosts:
            try:
                if not host.needed():
                    host.close()
            except _core.HeadraceError:
                host.close()


def at_exit():
    """At the end of this process: reports its exception to the other ranks; hosts serve them to their end."""
    why = _exception()
    for source in list(_sources):
        source.process_ends(why)
    with _lock:
        hosts = list(_hosts)
    until = time.monotonic() + REASON_S
    for host in hosts:
        with contextlib.suppress(_core.HeadraceError):
            if why is None:
                _serve_to_the_end(host)
            while why is not None and host.n_others() > 0 and time.monotonic() < until:
                time.sleep(0.02)
        host.close()


def _serve_to_the_end(host):
    begun, reported = time.monotonic(), False
    while host.n_others() > 0:
        time.sleep(0.02)
        if not reported and time.monotonic() - begun > DataContext.get_current().stall_warning_s:
            reported = True
            left = [i for i, r in enumerate(host.info()["ranks"]) if r["state"] in ("out", "asked", "in")]
            _say(
                f"rank {host.meeting.place.rank} (pid {os.getpid()}) has ended its program, and feeds "
                f"{stalls.listed(left)} until they end: {host.meeting.what}"
            )


def _exception():
    """What ends this process, if it is an exception: "ValueError: it broke"."""
    value = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    if value is None:
        return None
    return f"{type(value).__name__}: {value}".splitlines()[0][:500]


atexit.register(at_exit)


def _say(text):
    print(f"headrace: {text}", file=sys.stderr, flush=True)


class LauncherSource:
    """The share of this process's rank, as the source of a SplitIterator. Meets the others on its first
    use."""

    reading = None  # a weak reference to its pass by rows

    def __init__(self, meeting):
        self.meeting = meeting
        self.rank = meeting.place.rank
        self._forgetful = meeting.forgetful
        self._meeting_lock = threading.Lock()
        self._pid = os.getpid()
        self._host = None
        self._ring = None
        self._closed = False
        self._watch = None
        self._silent = False  # the engine's process did not answer the last question
        self.epoch = 0  # of its current pass, or of its next one
        self._step = None  # the next one that this process takes from another one's engine; None: not begun
        self._passes = 0  # that have begun, with several hosts
        _sources.add(self)

    # --- meeting

    def _here(self):
        """After a fork the parent's connection is the parent's."""
        if self._pid != os.getpid():
            self._meeting_lock = threading.Lock()
            self._pid = os.getpid()
            self._host = self._ring = None
            _sources.add(self)

    def _met(self):
        if self._pid == os.getpid() and (self._ring is not None or self._host is not None):
            return
        self._here()
        with self._meeting_lock:
            if self._closed:
                raise InvalidArgument("the share is closed")
            if self._ring is None and self._host is None:
                self._meet()

    def _meet(self):
        begun = time.monotonic()
        watch = share_watch(self._report_no_answer)
        next_word = begun + watch[0]
        while True:
            try:
                self._ring = _core.Ring(self.meeting.name, 0, self.rank, CONNECT_S, self.meeting.key)
                return
            except MismatchError as e:
                raise MismatchError(
                    f"rank {self.rank} of {self.meeting.place.world_size} reads {self.meeting.what}: "
                    f"{e} (files and their sizes, values in memory, world_size, equal= and lanes= must be "
                    "equal on all ranks)"
                ) from None
            except InvalidArgument as e:
                raise InvalidArgument(
                    f"rank {self.rank} of {self.meeting.what}: {e}: one process reads a share: the "
                    "one that made it, or one that got it by pickle (a DataLoader with num_workers=1)"
                ) from None
            except PeerError as e:
                if "belongs to user" in str(e):
                    raise
                failure = str(e)  # not the exception: its frames would keep this share
            host = self._serve()
            if host is not None:
                if host.server.take_own():
                    host.own, self._host = True, host
                    return
                continue  # a child of this process reads the rank: the next attempt raises that
            if self.meeting.dataset is None and "no process listens" in failure:
                raise PeerError(
                    f"rank {self.rank} of {self.meeting.what}: the process that runs the engine has "
                    "ended, or is on another host; a pickled share works on the same host, until the run ends"
                )
            time.sleep(0.02)
            if time.monotonic() >= next_word:
                next_word = time.monotonic() + watch[1](time.monotonic() - begun)

    def _serve(self):
        """The host in this process; None: another process has the name."""
        for host in _hosts:
            if host.meeting.name == self.meeting.name and host.meeting.place.rank == self.rank:
                return host
        if self.meeting.dataset is None:
            return None
        try:
            return Host(self.meeting)
        except StorageError as e:
            if "in use" not in str(e):
                raise
            return None

    def _report_no_answer(self, seconds, over):
        text = (
            f"rank {self.rank} (pid {os.getpid()}) has waited {seconds:.0f} s for the process that runs "
            f"the engine of {self.meeting.what} on this host: it does not answer"
        )
        if over:
            raise PeerError(text)
        _say(text)

    # --- waiting

    def _info(self):
        if self._host is not None:
            return self._host.info()
        text = self._ring.ranks(CONNECT_S)
        return None if text is None else json.loads(text)

    def _report_wait(self, seconds, over):
        """Reports, once for all ranks, whom they wait for; over: raises it."""
        info = self._info()
        self._silent = info is None
        if info is None:
            pid, rank = self._ring.server
            state = stalls.process_state(pid)
            text = (
                f"rank {self.rank} (pid {os.getpid()}) waits {seconds:.0f} s "
                f"{stalls.awaited(self.epoch, self._step, self.meeting.what)}: rank {rank} (pid {pid}), "
                f"which runs the engine, does not answer{state and f': {state}'}"
            )
            guilty = [rank]
            first = True
        else:
            text, guilty = stalls.line(info, self.rank, os.getpid(), self.meeting.what, seconds)
            waits = [i for i in range(len(info["ranks"])) if stalls.is_waiting(info, i) and i not in guilty]
            first = not waits or self.rank == min(waits) or info["ranks"][self.rank]["pid"] != os.getpid()
            if any(info["ranks"][g]["state"] == "away" for g in guilty):
                text += self._why_away()
        if over and guilty:
            raise PeerError(text)
        if first:
            _say(text)

    def _why_away(self):
        place = self.meeting.place
        text = (
            "; all ranks must read the same datasets, equally often (a set that one rank reads alone is "
            "ds.shard(rank=0, world_size=1))"
        )
        if place.here == place.world_size:
            others = self.meeting.others()
            if others:
                text += f"; this run serves another plan, too ({others}): compare what the ranks read"
            elif self.meeting.in_other_runs():
                text += (
                    "; this host serves the same plan in another run, too: if those are ranks of this "
                    "run, set HEADRACE_RUN_ID to the same text for all ranks"
                )
        else:
            text += f"; this host has {place.here} of {place.world_size} ranks (HEADRACE_LOCAL_WORLD_SIZE)"
        return text

    # --- a SplitIterator's calls

    def begin(self, batch_rows, **request):
        self._met()
        self._watch = share_watch(self._report_wait)
        self._step = None
        try:
            if self._host is None:
                begun = self._ring.begin(batch_rows, watch=self._watch, **request)
                self._step = 0
                return begun
            begun = self._host.split.begin(self.rank, batch_rows, watch=self._watch, **request)
            self._check_hosts()
            return begun
        except PeerError as e:
            self.leave()
            raise self._explained(e) from None
        except (KeyboardInterrupt, MismatchError):
            self.leave()
            raise

    def _check_hosts(self):
        if DataContext.get_current().check_hosts and self.meeting.place.here < self.meeting.place.world_size:
            self._passes += 1
            name = f"{self.meeting.shared_name}-{self._passes}"
            hosts.check(self.meeting.place, name, self.meeting.what, self._host.split)

    def next(self, number=0):
        try:
            if self._host is not None:
                return self._host.split.next(self.rank, number, self._watch)
            table = self._ring.next(number, self._watch)
            self._step = None if table is None or self._step is None else self._step + 1
            return table
        except PeerError as e:
            raise self._explained(e) from None

    def converted(self, ns):
        if self._host is not None:
            self._host.split.converted(self.rank, ns)
        elif self._ring is not None:
            self._ring.converted(ns)

    def _explained(self, error):
        if self._host is not None:
            from headrace.data.plan import explained

            return explained(error, self._host.owner.pools)
        if "feeds this trainer is gone" not in str(error):
            return error
        pid, rank = self._ring.server
        return PeerError(
            f"rank {rank} (pid {pid}) has ended, which ran the engine of this host's ranks for "
            f"{self.meeting.what}"
        )

    def leave(self):
        if self._pid != os.getpid():
            return
        if self._host is not None:
            self._host.split.leave(self.rank)
        elif self._ring is not None:
            self._ring.leave()

    def _report_taken(self):
        rows = taken_rows(self)
        if rows is not None and self._host is not None:
            self._host.split.report_taken(self.rank, rows)
        elif rows is not None:
            self._ring.report_taken(rows)

    def position(self, done=False, ahead=0):
        self._met()
        self._report_taken()
        if self._host is None:
            return self._request(self._ring.position_of, ahead)
        return self._host.split.position_of(self.rank, ahead)

    def _request(self, question, *arguments):
        try:
            return question(*arguments)
        except PeerError as e:
            raise self._explained(e) from None

    def restore(self, text, moved=False, strict=False):
        self._met()
        begun = time.monotonic()
        watch = share_watch(self._report_wait)
        next_word = begun + watch[0]
        while True:
            try:
                if self._host is None:
                    return self._request(self._ring.restore, text, moved, strict)
                return self._host.split.restore(text, moved, strict, True)
            except InvalidArgument as e:  # others have still to leave the epoch that this rank has left
                if "an epoch is running" not in str(e):
                    raise
            time.sleep(0.01)
            if time.monotonic() >= next_word:
                next_word = time.monotonic() + watch[1](time.monotonic() - begun)

    def warn_of_classes(self, position, stacklevel=3):
        if resuming.in_the_middle(position):
            import warnings

            texts, self._forgetful = self._forgetful, ()
            for text in texts:
                warnings.warn(text, stacklevel=stacklevel)

    def schema(self):
        if self.meeting.dataset is not None:  # without the others
            found = self.meeting.dataset.schema()
            return getattr(found, "_core", None)
        self._met()
        return self._request(self._ring.schema)

    def stats(self):
        self._met()
        if self._host is not None:
            return self._host.split.stats()
        if self._silent:
            raise PeerError("the process that runs the engine does not answer")
        return self._request(self._ring.stats)

    def settle(self):
        """Makes sure that the engine knows what this rank has taken, by a request and its answer."""
        if self._pid == os.getpid() and self._ring is not None:
            self._report_taken()
            self._ring.stats()

    # --- ends

    def process_ends(self, why):
        """At the end of the process; why: the exception that ends it."""
        if self._pid != os.getpid():
            return
        with contextlib.suppress(_core.HeadraceError, RuntimeError):
            if self._ring is not None and why is not None:
                self._ring.fail(why)
            if self._host is not None and not self._closed:
                self._host.end_own(why)
            self.close()

    def close(self):
        if self._closed or self._pid != os.getpid():
            return
        self._closed = True
        if self._ring is not None:
            self._ring.close()
        if self._host is not None:
            if not self._host.own_ended:
                self._host.end_own()
        elif self._ring is None:
            for host in list(_hosts):  # a copy of this share made it
                if host.meeting is self.meeting:
                    host.own_ended = True

    def __del__(self):
        try:
            self.close()
        except Exception:  # the interpreter ends
            pass

    # --- pickle

    def __reduce__(self):
        if self._pid == os.getpid() and (self._ring is not None or (self._host and self._host.own)):
            raise UnsupportedError(
                f"rank {self.rank} of {self.meeting.what}: this process reads the share, so another one "
                "cannot: pickle it before its first use, or use num_workers=0; the engine reads ahead with "
                "all cores"
            )
        self._here()
        self._serve()  # a short-lived child must not run the engine
        return LauncherSource, (self.meeting.without_dataset(),)


class _ElsewhereSource:
    """A share that the process of another rank reads."""

    def __init__(self, place, rank):
        self._text = (
            f"this process is rank {place.rank} of {place.world_size} ({place.launcher}): share {rank} "
            f"of the split belongs to the process of rank {rank}. Read streaming_split(n)[{place.rank}] "
            "here; to read all shares in one process, set HEADRACE_LAUNCHER=none"
        )

    def _refuse(self, *args, **kwargs):
        raise InvalidArgument(self._text)

    reading = None
    begin = next = position = restore = schema = stats = _refuse

    def leave(self):
        pass

    def warn_of_classes(self, position, stacklevel=3):
        pass

    def close(self):
        pass

    def __reduce__(self):
        raise UnsupportedError(self._text)


__all__ = ["LauncherSource", "at_exit", "of_launcher", "share"]
