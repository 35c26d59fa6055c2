"""The verdict of stats(): it names the planted bottleneck, and healthy runs get none.

What is slow here sleeps, so that a loaded machine changes the times of all parts but seldom their order.
Where it does, the run is measured again: a verdict that is wrong three times is wrong.
"""

import functools
import os
import re
import subprocess
import sys
import threading
import time
import zlib

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from object_server import ObjectServer

import headrace.data as hd


@pytest.fixture
def set_context():
    context = hd.DataContext.get_current()
    names = ("num_threads", "memory_limit_bytes")
    before = {name: getattr(context, name) for name in names}

    def change(**settings):
        for name, value in settings.items():
            setattr(context, name, value)

    change(num_threads=4)
    yield change
    change(**before)


# Where others take the CPUs, threads wait for them and not for what is planted. test_verdict.c has the rules.
needs_a_quiet_machine = pytest.mark.skipif(
    not os.environ.get("HEADRACE_THOROUGH"), reason="HEADRACE_THOROUGH=1, on a machine without other work"
)


def measured_again(test):
    """The test, up to three times."""

    @functools.wraps(test)
    def run(*args, **named):
        for _ in range(2):
            try:
                return test(*args, **named)
            except AssertionError:
                time.sleep(0.5)
        return test(*args, **named)

    return run


def read(iterable, step_s=0.0005):
    """A trainer. Returns the statistics."""
    for _ in iterable:
        if step_s:
            time.sleep(step_s)
    return iterable.stats("dict")


def verdict(stats, kind):
    """The verdict, which must be of this kind."""
    found = stats["verdict"]
    assert found["kind"] == kind, stats
    return found


def alarm(stats, kind):
    found = verdict(stats, kind)
    assert found["starved"] and found["advice"] and found["gain"] >= 1, found
    assert found["gain"] <= found["most_gain"] * 1.001 or kind in ("collate", "gil", "rank"), found
    return found


def parquet_files(folder, n_files, rows, group, columns=1, kind="float64"):
    numbers = np.random.default_rng(0)
    for i in range(n_files):
        table = pa.table({f"x{k}": numbers.random(rows).astype(kind) for k in range(columns)})
        pa.parquet.write_table(table, folder / f"{i:02}.parquet", row_group_size=group)
    return str(folder)


def refuse_above(server, rate):
    """The store answers `rate` GETs a second, 4 at once at most, and refuses the others."""
    lock, tokens, at = threading.Lock(), 4.0, time.monotonic()

    def fault(number, handler):
        nonlocal tokens, at
        if handler.command != "GET":
            return None
        with lock:
            now = time.monotonic()
            tokens, at = min(4.0, tokens + rate * (now - at)), now
            if tokens >= 1:
                tokens -= 1
                return None
        return server.status(handler, 503)

    server.fault = fault


def gzip_files(folder, sizes):
    for i, n in enumerate(sizes):
        with pa.CompressedOutputStream(str(folder / f"{i:02}.csv.gz"), "gzip") as f:
            pa.csv.write_csv(pa.table({"a": pa.array([7], pa.int64()).take(pa.array([0] * n))}), f)
    return str(folder)


# --------------------------------------------------------------------------------- ten planted bottlenecks


@measured_again
def test_a_function_in_one_worker(set_context):
    def slow(batch):
        time.sleep(0.005)
        return batch

    ds = hd.range(80_000).map_batches(slow, batch_size=1000, concurrency=1)
    found = alarm(read(ds.iter_batches(batch_size=1000)), "function")
    assert "map_batches(slow): 1 worker" in found["text"] and "concurrency" in found["advice"]
    assert "Verdict: waits for data are " in ds.stats()


def seconds_a_step(stats):
    steps = stats["steps"]
    return (steps["wait_ns"] + steps["step_ns"]) / (steps["taken"] - 1) / 1e9


@measured_again
def test_the_advised_number_of_workers(set_context):
    """The story: it said 2, and predicted what no number below 4 brings."""

    def slow(batch):
        time.sleep(0.02)
        return batch

    def run(workers):
        ds = hd.range(80_000).map_batches(slow, batch_size=1000, concurrency=workers)
        return read(ds.iter_batches(batch_size=1000), 0.006)

    one = run(1)
    found = alarm(one, "function")
    workers = int(re.search(r"concurrency=(\d+)", found["advice"])[1])
    assert 2 < workers < 6 and found["gain"] > 2, found
    many = run(workers)
    assert 0.75 < seconds_a_step(one) / seconds_a_step(many) / found["gain"] < 1.4, (found, many)


@needs_a_quiet_machine
@measured_again
def test_a_serial_operator(set_context, tmp_path, monkeypatch):
    monkeypatch.setenv("HR_STALL", "rebatch:10ms")
    path = parquet_files(tmp_path, 8, 20_000, 2000)
    found = alarm(read(hd.read_parquet(path).iter_batches(batch_size=1000)), "serial")
    assert "rebatch(1000) runs on one thread" in found["text"]


@needs_a_quiet_machine
@measured_again
def test_a_slow_disk(set_context, tmp_path, monkeypatch):
    monkeypatch.setenv("HR_STALL", "disk:20ms")
    path = parquet_files(tmp_path, 8, 20_000, 2000)
    alarm(read(hd.read_parquet(path).iter_batches(batch_size=1000)), "disk")


@measured_again
def test_latency(set_context, tmp_path):
    """The story: files open ahead of their turn, and a stage without a file seemed to want a thread."""
    parquet_files(tmp_path, 24, 2400, 2400)
    server = ObjectServer(tmp_path)
    server.delay_s = 0.1
    try:
        urls = [f"{server.url}/{i:02}.parquet" for i in range(24)]
        ds = hd.read_parquet(urls, storage_options={"max_connections": 4})
        found = alarm(read(ds.iter_batches(batch_size=1000)), "latency")
        lines = ds.stats().splitlines()
    finally:
        server.close()
    requests, cache = found["files"]
    assert re.search(r"^\d+ requests for 24 files brought [\d.]+ kB each", requests["text"]), found
    assert "write files, row groups or chunks of 8.4 MB: about 1 request" in requests["advice"], found
    assert "HEADRACE_CACHE_DIR" in cache["advice"] and cache["gain"] >= requests["gain"] > 1.05, found
    assert [line.split(":")[0] for line in lines[-3:]] == ["Files", "Files", "Verdict"], lines


@measured_again
def test_a_throttled_store(set_context, tmp_path):
    parquet_files(tmp_path, 40, 4000, 4000)
    server = ObjectServer(tmp_path)
    refuse_above(server, 20)
    server.delay_s = 0.1
    try:
        urls = [f"{server.url}/{i:02}.parquet" for i in range(40)]
        ds = hd.read_parquet(urls, storage_options={"max_retries": 50, "max_connections": 8})
        alarm(read(ds.iter_batches(batch_size=1000)), "throttle")
    finally:
        server.close()


@needs_a_quiet_machine
@measured_again
def test_one_huge_fragment(set_context, tmp_path, monkeypatch):
    monkeypatch.setenv("HR_STALL", "filter_expr:100ms")
    path = gzip_files(tmp_path, [5000] * 6 + [2_000_000] + [5000] * 3)
    set_context(memory_limit_bytes=64 << 20)
    ds = hd.read_csv(path).filter(expr="a > 0")
    found = alarm(read(ds.iter_batches(batch_size=10_000)), "fragment")
    assert "06.csv.gz" in found["text"] and "2000000 rows" in found["text"]


@needs_a_quiet_machine
@measured_again
def test_too_large_row_groups(set_context, tmp_path, monkeypatch):
    monkeypatch.setenv("HR_STALL", "filter_expr:100ms")
    path = gzip_files(tmp_path, [2_000_000])
    set_context(memory_limit_bytes=64 << 20)
    ds = hd.read_csv(path).filter(expr="a > 0")
    found = alarm(read(ds.iter_batches(batch_size=10_000)), "row_groups")
    assert "too few fragments for" in found["text"]


@needs_a_quiet_machine
@measured_again
def test_tight_memory(set_context, tmp_path, monkeypatch):
    path = parquet_files(tmp_path, 2, 400_000, 50_000, columns=3)
    monkeypatch.setenv("HR_STALL", "filter_expr:30ms")
    set_context(memory_limit_bytes=8 << 20)
    ds = hd.read_parquet(path).filter(expr="x0 + x1 + x2 >= 0")
    alarm(read(ds.iter_batches(batch_size=20_000)), "memory")


def loops_for(ms):
    """Additions that keep Python's lock for about this time, here and now."""
    begin = time.thread_time()
    add(200_000)
    return int(200_000 * ms / 1000 / (time.thread_time() - begin))


def add(n):
    total = 0
    for i in range(n):
        total += i


def in_threads(work, n, concurrency=4):
    def function(batch):
        work()
        return batch

    ds = hd.range(n * 100).map_batches(function, batch_size=100, compute="threads", concurrency=concurrency)
    return read(ds.iter_batches(batch_size=100))


@pytest.mark.parametrize(
    ("ms", "n", "concurrency"),
    [(2, 400, 4), (4.7, 200, 4), (5, 200, 2), (8, 200, 4), (20, 80, 4), (50, 50, 4)],
)
@measured_again
def test_a_function_that_holds_the_lock(set_context, ms, n, concurrency):
    """The story: a thread with calls just below 5 ms, after which Python passes the lock on, kept it, and the
    others waited after their calls, where nobody counted.
    """
    loops = loops_for(ms)
    stats = in_threads(lambda: add(loops), n, concurrency)
    found = alarm(stats, "gil")
    assert "map_batches(function)" in found["text"] and "processes" in found["advice"]
    served = next(o["served"] for o in stats["operators"] if "served" in o)
    assert served["lock_ns"] > 0.02 * served["busy_ns"]


@pytest.mark.parametrize("how", ["numpy", "long numpy", "zlib", "sleep", "sleep and zlib"])
@measured_again
def test_a_function_that_frees_the_lock(set_context, how):
    """The story: long calls that came to one CPU in all, beside other programs, were named."""
    text = np.random.default_rng(0).bytes(300_000)
    x = np.arange(400_000, dtype=float)

    def roots(times):
        for _ in range(times):
            np.sqrt(x * x + 1)

    works = {
        "numpy": lambda: roots(4),
        "long numpy": lambda: roots(30),
        "zlib": lambda: zlib.compress(text),
        "sleep": lambda: time.sleep(0.01),
        "sleep and zlib": lambda: (time.sleep(0.03), zlib.compress(text)),
    }
    assert in_threads(works[how], 30 if how == "long numpy" else 100)["verdict"]["kind"] != "gil"


@measured_again
def test_a_slow_collate(set_context):
    pytest.importorskip("torch")

    def collate(batch):
        time.sleep(0.01)
        return batch

    found = alarm(
        read(hd.range(60_000).iter_torch_batches(batch_size=1000, collate_fn=collate), 0.002), "collate"
    )
    assert found["gain"] > 2


@measured_again
def test_a_slow_trainer(set_context):
    found = verdict(read(hd.range(60_000).iter_batches(batch_size=1000), 0.01), "trainer")
    assert not found["starved"] and found["advice"] == "" and found["gain"] == 1


def in_two_ranks(ds, steps_s):
    shares = ds.streaming_split(2)
    ranks = [
        threading.Thread(target=read, args=(share.iter_batches(batch_size=1000), step_s))
        for share, step_s in zip(shares, steps_s, strict=True)
    ]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    return shares[0].stats("dict"), shares[0].stats()


@measured_again
def test_skew_between_ranks(set_context):
    stats, text = in_two_ranks(hd.range(100_000), [0.001, 0.015])
    found = alarm(stats, "rank")
    assert "rank 1 takes its batches late" in found["text"] and "rank 1" in text
    assert stats["held_others_ns"][1] > 10 * stats["held_others_ns"][0]


# ------------------------------------------------------------------------------------- five healthy runs


def fine(stats):
    found = stats["verdict"]
    assert not found["starved"] and found["kind"] in ("trainer", "short"), stats
    assert found["advice"] == "" and found["gain"] == 1


@measured_again
def test_a_healthy_scan(set_context, tmp_path):
    path = parquet_files(tmp_path, 5, 20_000, 2000)
    fine(read(hd.read_parquet(path).iter_batches(batch_size=1000), 0.01))


@measured_again
def test_a_healthy_function(set_context):
    ds = hd.range(60_000).map_batches(lambda b: {"x": b["id"] * 2})
    fine(read(ds.iter_batches(batch_size=1000), 0.01))


@measured_again
def test_a_healthy_shuffle(set_context):
    """All of a block operator's work is the start."""
    fine(read(hd.range(60_000).random_shuffle(seed=1).iter_batches(batch_size=1000), 0.01))


@measured_again
def test_healthy_ranks(set_context):
    stats, _ = in_two_ranks(hd.range(100_000), [0.012, 0.012])
    fine(stats)


@measured_again
def test_a_healthy_short_run(set_context):
    fine(read(hd.range(5000).iter_batches(batch_size=1000), 0.01))


@measured_again
def test_equal_functions_in_a_union(set_context):
    """The story: one of them hid the other, and the gain of both was 1.1."""

    def slow(batch):
        time.sleep(0.02)
        return batch

    def run(workers):
        one, two = (
            hd.range(30_000).map_batches(slow, batch_size=1000, concurrency=workers) for _ in range(2)
        )
        begin = time.monotonic()
        stats = read(one.union(two).iter_batches(batch_size=1000), 0.005)
        return stats, time.monotonic() - begin

    stats, took = run(1)
    found = alarm(stats, "function")
    assert found["text"].startswith("the 2 functions map_batches(slow): of each 1 worker was "), found
    workers = int(re.search(r"concurrency=(\d)", found["advice"])[1])
    assert workers >= 2 and found["gain"] > 1.8, found
    assert run(workers)[1] < took / (0.6 * found["gain"])


# ------------------------------------------------------------------------------------------- other programs


def test_other_programs_use_the_cpus(set_context):
    """The story: a function that found no CPU was to get more workers."""

    def compute(batch):
        begin = time.thread_time()
        while time.thread_time() - begin < 0.01:
            pass
        return batch

    spins = [sys.executable, "-c", "while True: pass"]
    others = [subprocess.Popen(spins) for _ in range(2 * len(os.sched_getaffinity(0)))]
    try:
        ds = hd.range(50_000).map_batches(compute, batch_size=1000, concurrency=1)
        stats = read(ds.iter_batches(batch_size=1000))
    finally:
        for other in others:
            other.kill()
            other.wait()
    found = alarm(stats, "others")
    assert (
        "map_batches(compute)" in found["text"] and "more workers or threads do not help" in found["advice"]
    )
    assert next(o["served"] for o in stats["operators"] if "served" in o)["delayed_ns"] > 0


# ------------------------------------------------------------------------------------------- chunks of arrays


def zarr_store(tmp_path, rows, chunk):
    zarr = pytest.importorskip("zarr")
    array = zarr.create_array(
        str(tmp_path / "a.zarr"), shape=(rows,), chunks=(chunk,), dtype="f4", overwrite=True
    )
    array[:] = 1
    return hd.read_zarr(str(tmp_path / "a.zarr"))


@measured_again
def test_small_chunks_of_an_array(set_context, tmp_path):
    """All of them are one piece of work. The story: preserve_order=False was to help."""
    found = alarm(read(zarr_store(tmp_path, 32_000, 4).iter_batches(batch_size=256), 0), "chunks")
    assert "8000 of 16 B" in found["text"], found
    assert "chunks of about 1.0 MB: 1 instead of 8000" in found["advice"], found
    assert found["gain"] > 10, found


def test_the_chunks_of_a_call(tmp_path):
    pieces = zarr_store(tmp_path, 100, 8)._node.args["options"]["pieces"]
    assert pieces == (13, 400 // 13)


# --------------------------------------------------------------------------------------------------- beside


@measured_again
def test_it_is_kept(set_context, tmp_path):
    """By materialize() and writes, as all of stats()."""
    ds = hd.range(100_000)
    made = ds.materialize()
    assert made.stats("dict")["verdict"] == ds.stats("dict")["verdict"]
    ds.write_parquet(tmp_path)
    assert "verdict" in ds.stats("dict")


@measured_again
def test_runs_without_steps(set_context, tmp_path):
    """A write and a shuffle give few tables at their end: the whole run is judged. It was too short."""

    def slow(batch):
        time.sleep(0.02)
        return batch

    ds = hd.range(60_000).map_batches(slow, batch_size=1000, concurrency=1)
    ds.write_parquet(tmp_path)
    alarm(ds.stats("dict"), "function")
    lines = ds.stats().splitlines()
    assert lines[0].startswith("Run, epoch 0: 60,000 rows in ")
    assert lines[-1].startswith("Verdict: ") and "trainer" not in lines[-1]
    alarm(ds.random_shuffle().materialize().stats("dict"), "function")


@measured_again
def test_one_long_step_is_no_alarm(set_context):
    """Of a trainer that takes all rows at once, and computes."""
    batches = hd.range(20_000).map_batches(lambda b: b, concurrency=1).iter_batches(batch_size=20_000)
    fine(read(batches, 1.2))


@measured_again
def test_epochs_are_apart(set_context):
    """The wait for the first batch is no step's."""
    batches = hd.range(30_000).random_shuffle(seed=1).iter_batches(batch_size=1000)
    for _ in range(2):
        steps = read(batches, 0.001)["steps"]
        assert steps["taken"] == 30 and steps["first_wait_ns"] > 0
        assert sum(steps["waits_by_log2_us"]) == sum(steps["steps_by_log2_us"]) == 29
