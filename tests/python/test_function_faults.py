"""Functions whose workers die, that raise, or whose results are not read to the end: no row is lost or
repeated, and nothing is left behind.
"""

import os
import pathlib
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time

import cloudpickle
import numpy as np
import pytest

import headrace.data as hd
from headrace import exceptions
from headrace.udf import processes, states

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # or workers would import pytest
COMPUTE = ["processes", "threads", "inline"]
PARTS, PART_ROWS = 6, 3000


def leave(how):
    if how == "exit":
        os._exit(3)
    os.kill(os.getpid(), {"SIGKILL": signal.SIGKILL, "SIGSEGV": signal.SIGSEGV}[how])
    time.sleep(10)


def count(path, key):
    """Number of calls with this key, with this one, across processes."""
    fd = os.open(pathlib.Path(path) / str(key), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(fd, b"x")
        return os.fstat(fd).st_size
    finally:
        os.close(fd)


def stream(path, how, deaths):
    """A generator for batches of 2 rows: PARTS tables per row. In batch 3 its worker dies `deaths` times,
    each time one part later."""

    def parts(batch):
        first = int(batch["id"][0])
        times = count(path, first) if first == 6 else 0
        for part in range(PARTS):
            if times and times <= deaths and part == times:
                time.sleep(0.1)  # some of what came before is collected by now
                leave(how)
            for i in batch["id"].tolist():
                yield {
                    "id": np.full(PART_ROWS, i),
                    "part": np.full(PART_ROWS, part),
                    "row": np.arange(PART_ROWS),
                }

    return parts


def expected(n_rows):
    return [
        (i, part)
        for first in range(0, n_rows, 2)
        for part in range(PARTS)
        for i in range(first, min(first + 2, n_rows))
    ]


def given(ds):
    """(id, part) of each table that the function returned, in order; checks that each row came once."""
    found = []
    for batch in ds.iter_batches(batch_size=PART_ROWS):
        assert batch["row"].tolist() == list(range(PART_ROWS))
        assert len(set(batch["id"].tolist())) == len(set(batch["part"].tolist())) == 1
        found.append((int(batch["id"][0]), int(batch["part"][0])))
    return found


@pytest.mark.parametrize("how", ["exit", "SIGKILL", "SIGSEGV"])
@pytest.mark.parametrize(("retries", "deaths"), [(0, 1), (1, 1), (-1, 3)])
def test_a_worker_that_dies_in_the_middle_of_a_stream(tmp_path, how, retries, deaths):
    ds = hd.range(12).map_batches(
        stream(tmp_path, how, deaths), batch_size=2, concurrency=2, max_retries=retries
    )
    if retries < 0 or retries >= deaths:
        assert given(ds) == expected(12)
        return
    found = []
    with pytest.raises(exceptions.PeerError, match=r"exit code 3|SIGKILL|SIGSEGV") as e:
        for row in ds.iter_rows():
            found.append((row["id"], row["part"], row["row"]))
    assert how in str(e.value) or "exit code 3" in str(e.value)
    assert "map_batches(parts)" in str(e.value)
    every = [(i, part, row) for i, part in expected(12) for row in range(PART_ROWS)]
    assert found == every[: len(found)] and len(found) >= 6 * PARTS * PART_ROWS  # what came before, in order


@pytest.mark.parametrize("seed", range(2))
def test_deaths_at_random(tmp_path, seed):
    """Chains of functions over rows, lists of rows and streams, whose workers die again and again."""

    def perhaps_dies(key):
        dice = random.Random(f"{seed} {key}")
        if dice.random() < 0.03 and count(tmp_path, key) <= dice.randint(1, 2):
            leave(dice.choice(["exit", "SIGKILL", "SIGSEGV"]))

    def one(row):
        perhaps_dies(f"one {row['id']}")
        return row

    def two(row):
        perhaps_dies(f"two {row['id']}")
        return [row, {"id": -row["id"]}]

    def many(batch):
        for k in range(0, len(batch["id"]), 7):
            perhaps_dies(f"many {batch['id'][k]}")
            yield {"id": batch["id"][k : k + 7]}

    ds = hd.range(120).map(one, max_retries=-1, concurrency=2)
    ds = ds.flat_map(two, max_retries=-1, concurrency=2)
    ds = ds.map_batches(many, batch_size=50, max_retries=-1, concurrency=2)
    assert [r["id"] for r in ds.take_all()] == [s * i for i in range(120) for s in (1, -1)]
    assert list(tmp_path.iterdir())  # some did die


@pytest.mark.parametrize("compute", COMPUTE)
def test_a_stream_that_raises(tmp_path, compute, context):
    """Its earlier tables remain; a repeated call gives none of them twice."""
    log = tmp_path / "log"
    log.mkdir()

    def parts(batch):
        first = int(batch["id"][0])
        times = count(log, first)
        for part in range(PARTS):
            if first == 4 and times <= 2 and part == 2 * times:
                raise OSError(f"part {part}")
            yield {"id": batch["id"], "part": [part] * len(batch["id"])}

    found = []
    ds = hd.range(8).map_batches(parts, batch_size=2, compute=compute)
    with pytest.raises(OSError, match="part 2") as e:
        for row in ds.iter_rows():
            found.append((row["id"], row["part"]))
    rows = [(i, part) for first in range(0, 8, 2) for part in range(PARTS) for i in (first, first + 1)]
    assert found == rows[: 2 * (2 * PARTS + 2)]
    assert any("rows 4 to 5" in note for note in e.value.__notes__)
    for old in log.iterdir():
        old.unlink()
    context.retried_map_errors, context.max_map_retries = True, 3
    again = hd.range(8).map_batches(parts, batch_size=2, compute=compute)
    assert [(r["id"], r["part"]) for r in again.iter_rows()] == rows
    assert (log / "4").stat().st_size == 3  # it did raise, twice


# ------------------------------------------------------------------------------------------- nothing is left


LEFT = """
    import gc, json, os, signal, sys, threading, time
    import numpy as np
    import psutil
    import headrace.data as hd
    from headrace.udf import pool, processes

    me = psutil.Process()

    def state():
        maps = open("/proc/self/maps").read()
        links = []
        for fd in os.listdir("/proc/self/fd"):
            try:
                links.append(os.readlink(f"/proc/self/fd/{fd}").split(":")[0].split(" ")[0])
            except OSError:
                pass
        return {
            "children": len(me.children(recursive=True)),
            "threads": threading.active_count(),
            "memfd": sum(l.startswith("/memfd") for l in links) + maps.count("/memfd:"),
            "sockets": links.count("socket"),
            "shm": len([n for n in os.listdir("/dev/shm") if str(os.getpid()) in n]),
        }

    def endless(batch):
        for i in range(10**9):
            yield {"x": np.full(10_000, i)}

    def slow(row):
        if row["id"] > 600:
            time.sleep(0.005)  # a batch that has begun is worked on to its end
        return row

    def dies(row):
        if row["id"] == 700:
            os._exit(5)
        return row

    def wrong(row):
        return {"x": 1 // (row["id"] - 700)}

    def use(how, compute):
        more = {"compute": compute}
        if how == "break":
            for n, batch in enumerate(hd.range(100).map_batches(endless, **more).iter_batches()):
                if n == 20:
                    break
        elif how == "limit":
            assert hd.range(10**7).map(slow, **more).limit(3).count() == 3
        elif how == "interrupt":
            timer = threading.Timer(0.5, os.kill, [os.getpid(), signal.SIGINT])
            try:
                timer.start()
                for batch in hd.range(10**6).map(slow, **more).iter_batches():
                    pass
            except KeyboardInterrupt:
                timer.join()
                return
            raise SystemExit("no interrupt")
        else:
            try:
                hd.range(2000).map(wrong if how == "raise" else dies, **more).take_all()
            except Exception as e:
                assert type(e).__name__ in ("ZeroDivisionError", "PeerError"), e
                return
            raise SystemExit("no error")

    compute, ways = sys.argv[1], sys.argv[2:]
    hd.range(10).map(slow, compute=compute).take_all()  # what is started once and for all
    until = time.monotonic() + 60
    while True:
        gc.collect()
        before = state()  # of workers only the fork server stays
        quiet = before["threads"] == 1 and before["children"] <= (compute == "processes")
        if quiet or time.monotonic() > until:
            break
        time.sleep(0.02)
    for how in ways:
        use(how, compute)
        until = time.monotonic() + 60
        while True:
            gc.collect()
            after = state()
            more = [name for name in before if after[name] > before[name]]
            if not more or time.monotonic() > until:
                break
            time.sleep(0.05)
        if more:
            raise SystemExit(f"{how}: {before} became {after}")
    print("clean")
"""


@pytest.mark.parametrize("compute", COMPUTE)
def test_nothing_is_left_of_what_ended_early(tmp_path, compute):
    script = tmp_path / "left.py"
    script.write_text(textwrap.dedent(LEFT))
    ways = ["break", "limit", "interrupt", "raise", *(["die"] if compute == "processes" else [])]
    out = subprocess.run(
        [sys.executable, script, compute, *ways], capture_output=True, text=True, timeout=200
    )
    assert out.stdout.strip().endswith("clean"), out.stdout + out.stderr[-2000:]


# ------------------------------------------------------------------------------------------------ the pool


def test_a_pool_grows_and_shrinks_within_its_bounds(monkeypatch, tmp_path):
    monkeypatch.setattr(processes, "QUIET", 0.2)
    seen, ended = [], threading.Event()
    grown, until = str(tmp_path / "grown"), time.monotonic() + 120

    def work(batch):
        if not os.path.exists(grown):
            time.sleep(0.04)  # the workers are busy, and calls wait
        return batch

    def watch():
        while not ended.wait(0.01):
            seen.extend(len(s.workers) for s in states.live() if s.name == "map_batches(work)")
            if 4 in seen:
                pathlib.Path(grown).touch()

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        strategy = hd.ActorPoolStrategy(min_size=2, max_size=4, initial_size=3)
        ds = hd.range(2000).map_batches(work, batch_size=1, compute=strategy)
        found = []
        for batch in ds.iter_batches(batch_size=1, prefetch_batches=0):
            found += batch["id"].tolist()
            while 4 in seen and 2 not in seen[seen.index(4) :] and time.monotonic() < until:
                time.sleep(0.01)  # the consumer is slow: workers have nothing to do
    finally:
        ended.set()
        watcher.join()
    assert found == list(range(2000))
    most = seen.index(max(seen))
    assert seen[most] == 4 and min(seen[most:]) == 2, seen


# --------------------------------------------------------------------------------- workers that do not start


class Shy:
    """It cannot be pickled the first time."""

    refused = False

    def __reduce__(self):
        if not self.refused:
            self.refused = True
            raise ValueError("not now")
        return int, ()


def same(batch, shy=None):
    return batch


def two_functions():
    ds = hd.range(10).map_batches(same, fn_kwargs={"shy": Shy()}, batch_size=5, concurrency=1)
    return ds.map_batches(lambda batch: batch, concurrency=1)


@pytest.mark.timeout(120)
def test_a_run_begins_after_one_that_could_not():
    """The story: the second function had no workers, since the run that had not begun it ended it."""
    ds = two_functions()
    with pytest.raises(exceptions.TypeMismatchError, match="not now"):
        ds.take_all()
    assert [row["id"] for row in ds.take_all()] == list(range(10))


@pytest.mark.timeout(120)
def test_a_split_begins_after_an_epoch_that_could_not():
    first, second = two_functions().streaming_split(2)
    with pytest.raises(exceptions.TypeMismatchError, match="not now"):
        next(iter(first.iter_batches(batch_size=5)))
    seen = []
    thread = threading.Thread(target=lambda: seen.extend(second.iter_batches(batch_size=5)))
    thread.start()
    assert [batch["id"].tolist() for batch in first.iter_batches(batch_size=5)] == [[0, 1, 2, 3, 4]]
    thread.join()
    assert [batch["id"].tolist() for batch in seen] == [[5, 6, 7, 8, 9]]


COLLECTED = """
    import gc
    import headrace.data as hd
    from headrace import exceptions

    class Shy:
        refused = False

        def __reduce__(self):
            gc.collect()
            if not self.refused:
                self.refused = True
                raise ValueError("not now")
            return int, ()

    gc.disable()
    ds = hd.range(10).map_batches(lambda b, shy: b, fn_kwargs={"shy": Shy()}, concurrency=1)
    try:
        ds.take_all()
    except exceptions.TypeMismatchError as e:
        e.itself = e  # in a cycle of references, with the run that did not begin
    print(len(ds.take_all()))
"""


def test_a_run_that_is_collected_while_another_one_begins(tmp_path):
    """The story: it waited for the lock that its own thread held while it pickled the function."""
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(COLLECTED))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=100)
    assert done.stdout == "10\n", done.stderr
