"""User functions beyond a call and its result: GPUs, growing and shrinking pools, failures, batches that
travel together.
"""

import atexit
import gc
import logging
import os
import signal
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from process_tree import gone

import headrace.data as hd
from headrace import _core as core
from headrace import exceptions
from headrace.data import functions


def column(ds, name="id"):
    return ds.to_arrow()[name].to_pylist()


def operators(ds):
    return {o["name"]: o for o in ds.stats("dict")["operators"]}


# ------------------------------------------------------------------------------------------------ the workers


def visible(batch):
    devices = os.environ.get("CUDA_VISIBLE_DEVICES", "-")
    return {"id": batch["id"], "gpus": [devices] * len(batch["id"]), "pid": [os.getpid()] * len(batch["id"])}


def by_two(folder):
    """visible(), which goes on when a second worker calls it, too."""
    folder.mkdir()

    def function(batch):
        (folder / str(os.getpid())).touch()
        until = time.monotonic() + 60
        while len(os.listdir(folder)) < 2:
            assert time.monotonic() < until, "there is one worker"
            time.sleep(0.005)
        return visible(batch)

    return function


def test_each_worker_has_gpus_of_its_own(monkeypatch, tmp_path):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,GPU-7")
    function = by_two(tmp_path / "both")
    both = hd.range(24).map_batches(function, batch_size=1, num_gpus=1, concurrency=(2, 2))
    assert set(column(both, "gpus")) == {"4", "5"}
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "8")
    function = by_two(tmp_path / "shared")
    shared = hd.range(24).map_batches(function, batch_size=1, num_gpus=0.5, concurrency=(2, 2))
    table = shared.to_arrow()
    assert set(table["gpus"].to_pylist()) == {"8"} and len(set(table["pid"].to_pylist())) == 2
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,2,3")
    pair = hd.range(4).map_batches(visible, batch_size=1, num_gpus=2)
    assert set(column(pair, "gpus")) == {"1,2"}


def test_more_gpus_than_there_are(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    ds = hd.range(10)
    with pytest.raises(
        exceptions.InvalidArgument,
        match=r"map: num_gpus: expected at most 2 \(CUDA_VISIBLE_DEVICES=0,1\), found 3",
    ):
        ds.map(lambda r: r, num_gpus=3)
    with pytest.raises(
        exceptions.InvalidArgument, match="3 workers with num_gpus 1 each do not fit: found 2 GPUs"
    ):
        ds.map(lambda r: r, num_gpus=1, concurrency=(3, 3))
    with pytest.raises(exceptions.InvalidArgument, match="num_gpus: .*found 1.5"):
        ds.map(lambda r: r, num_gpus=1.5)
    one = ds.map(visible, num_gpus=1, concurrency=(2, 2))
    with pytest.raises(
        exceptions.InvalidArgument, match=r"num_gpus 1 beside map\(visible\): 3 GPUs in all, found 2"
    ):
        one.map(lambda r: r, num_gpus=1)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(exceptions.InvalidArgument, match="no device is visible"):
        ds.map(lambda r: r, num_gpus=0.1)


def test_an_idle_dataset_gives_its_gpus_away(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    first = hd.range(4).map_batches(visible, num_gpus=1)
    assert set(column(first, "gpus")) == {"7"}
    second = hd.range(4).map_batches(visible, num_gpus=1)
    assert set(column(second, "gpus")) == {"7"}
    assert set(column(first, "gpus")) == {"7"}


def test_what_is_accepted():
    ds = hd.range(10).map(lambda r: r, num_cpus=0.5, memory=1 << 20, max_retries=0)
    assert column(ds) == list(range(10))
    for wrong in (
        {"num_cpus": -1},
        {"memory": "1"},
        {"num_gpus": True},
        {"max_retries": -2},
        {"concurrency": 0},
    ):
        with pytest.raises(exceptions.InvalidArgument, match="map: "):
            hd.range(10).map(lambda r: r, **wrong)
    with pytest.raises(TypeError, match="num_cpu"):
        hd.range(10).map(lambda r: r, num_cpu=1)


def test_strategies_say_what_is_wrong():
    for wrong in (
        {"size": 0},
        {"size": 2, "max_size": 3},
        {"min_size": 3, "max_size": 2},
        {"initial_size": 1, "min_size": 2},
        {"initial_size": 4, "max_size": 3},
        {"max_tasks_in_flight_per_actor": 0},
    ):
        with pytest.raises(exceptions.InvalidArgument, match="ActorPoolStrategy"):
            hd.ActorPoolStrategy(**wrong)
    with pytest.raises(exceptions.InvalidArgument, match="TaskPoolStrategy"):
        hd.TaskPoolStrategy(size=0)
    assert hd.ActorPoolStrategy(size=2) == hd.ActorPoolStrategy(min_size=2, max_size=2, initial_size=2)
    assert functions.workers("map", None, (1, 4, 2)) == {
        "compute": "processes",
        "least": 1,
        "most": 4,
        "initial": 2,
        "depth": 0,
    }
    for concurrency in ((2, 1), (1, 4, 5), (1, 2, 3, 4), "2", True, 1.5):
        with pytest.raises(exceptions.InvalidArgument, match="map: concurrency"):
            hd.range(1).map(lambda r: r, concurrency=concurrency)


def slow_pid(row):
    time.sleep(0.02)
    return {"id": row["id"], "pid": os.getpid()}


def test_the_pool_starts_initial_workers_and_ends_when_idle(monkeypatch):
    from headrace.udf import processes

    ds = hd.range(4).map(slow_pid, compute=hd.ActorPoolStrategy(min_size=1, max_size=3, initial_size=2))
    assert column(ds) == [0, 1, 2, 3]
    pool = ds._node.pool
    until = time.monotonic() + 30  # the rows are there as soon as one of the workers is
    while len(pool.pids()) < 2 and time.monotonic() < until:
        time.sleep(0.01)
    assert len(pool.pids()) == 2
    monkeypatch.setattr(processes, "IDLE", 0.05)
    pool._state.wake()
    until = time.monotonic() + 30
    while pool.pids() and time.monotonic() < until:
        time.sleep(0.02)
        pool._state.wake()
    assert pool.pids() == []
    assert column(ds) == [0, 1, 2, 3]  # and comes back


def test_workers_end_with_their_plan():
    """The story: a run held itself in a cycle, so the workers of a plan that was dropped stayed until the
    collector of Python came; those of several plans then ended at once, and the next plan waited for them.
    """
    gc.collect()
    gc.disable()
    try:
        ds = hd.range(4).map(slow_pid, concurrency=1)
        rows = ds.take_all()
        del ds
        assert gone([row["pid"] for row in rows], 30)
    finally:
        gc.enable()


kept = []


def leaves_things_open(batch):
    """Registers a function at exit and leaves a file open, with text in its buffer."""
    if not kept:
        folder = Path(batch["folder"][0])
        kept.append(open(folder / "buffered", "w"))
        kept[0].write("written")
        atexit.register((folder / "at exit").write_text, "called")
    return batch


def test_the_end_of_a_worker_loses_nothing(tmp_path):
    ds = hd.from_items([{"folder": str(tmp_path)}]).map_batches(leaves_things_open, concurrency=1)
    ds.materialize()
    del ds
    until = time.monotonic() + 30
    while len(list(tmp_path.iterdir())) < 2 and time.monotonic() < until:
        time.sleep(0.01)
    while not (tmp_path / "buffered").read_text() and time.monotonic() < until:
        time.sleep(0.01)
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"at exit": "called", "buffered": "written"}


def test_idle_workers_leave_their_memory_to_another_run(context):
    """The story: for a minute after a run with a function, the memory of its workers was missing in another
    run, a shuffle within 24 MiB, which took three times as long.
    """
    ds = hd.range(4).map(slow_pid, compute=hd.TaskPoolStrategy(size=1))
    assert column(ds) == [0, 1, 2, 3]
    pool = ds._node.pool
    before = pool.pids()
    until = time.monotonic() + 60
    while not (held := pool._state.idle_bytes()) and time.monotonic() < until:
        time.sleep(0.05)
    assert hd.range(10).count() == 10 and pool.pids() == before
    context.memory_limit_bytes = int(1.2 * held)
    assert len(hd.range(10).take_all()) == 10
    while (pool.pids() or core.memory_used() >= held) and time.monotonic() < until:
        time.sleep(0.01)  # on a busy machine the run goes on before they have ended
    assert not pool.pids() and core.memory_used() < held
    assert column(ds) == [0, 1, 2, 3]  # new ones


def test_workers_are_in_the_stats():
    ds = hd.range(2000).map(slow_pid, concurrency=1).limit(60)
    ds.take_all()
    found = operators(ds)["map(slow_pid)"]
    assert found["workers"] == 1 and found["workers_peak_bytes"] > 1 << 20 and found["errored_blocks"] == 0


# ----------------------------------------------------------------------------------------- the order of calls


@pytest.mark.parametrize("threads", [2, 8])
def test_one_server_takes_calls_in_the_order_of_rows(context, threads):
    context.num_threads = threads
    begun, seen = [], []

    def slow(batch):
        begun.append(int(batch["id"][0]))
        time.sleep(0.05)
        return batch

    ds = hd.range(800).map_batches(slow, batch_size=100, compute="threads", concurrency=1)
    for batch in ds.iter_batches(batch_size=100):
        seen.append((int(batch["id"][0]), len(begun)))
    assert [first for first, _ in seen] == list(range(0, 800, 100))
    assert begun[1:] == sorted(begun[1:])  # but for the very first, when nobody was busy
    assert all(n <= first / 100 + 5 for first, n in seen)  # begun when it came: itself, a few after it


# --------------------------------------------------------------------------------------------------- failures


def dies(row):
    if row["id"] == 700:
        os.kill(os.getpid(), signal.SIGSEGV)
    return row


def test_a_dead_worker_names_the_rows(tmp_path):
    path = tmp_path / "numbers.parquet"
    hd.range(2000).write_parquet(str(path))
    with pytest.raises(
        exceptions.PeerError, match=r"map\(dies\): rows 512 to 1023 of .*numbers.parquet.*SIGSEGV"
    ):
        hd.read_parquet(str(path)).map(dies).take_all()


def raises(row):
    if row["id"] in (5, 700):
        raise ValueError(f"no {row['id']}")
    return row


def test_an_exception_names_the_rows(compute):
    with pytest.raises(ValueError, match="no 700") as e:
        hd.range(2000).filter(lambda r: r["id"] > 100).map(raises, compute=compute).take_all()
    assert "for rows 512 to 1023 of range" in e.value.__notes__[0]


def once(flag):
    """A function that kills its worker the first time."""

    def function(row):
        if row["id"] == 5 and not flag.exists():
            flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return row

    return function


def test_a_call_whose_worker_died_is_done_again(tmp_path):
    ds = hd.range(3000).map(once(tmp_path / "flag"), max_task_retries=1, concurrency=1)
    assert column(ds) == list(range(3000))
    with pytest.raises(exceptions.PeerError, match="SIGSEGV"):
        hd.range(1000).map(dies, max_retries=2, concurrency=2).take_all()


def test_a_generator_goes_on_where_its_worker_died(tmp_path):
    flag = tmp_path / "flag"

    def parts(batch):
        for i in range(100):
            if i == 70 and not flag.exists():
                time.sleep(0.3)  # until what came before was collected
                flag.touch()
                os._exit(7)
            yield {"i": np.full(20_000, i)}

    ds = hd.range(1).map_batches(parts, max_retries=-1)
    assert ds.to_arrow()["i"].to_numpy()[::20_000].tolist() == list(range(100))


def test_batches_that_fail_may_be_left_out(compute, context, caplog):
    context.max_errored_blocks = 2
    ds = hd.range(2000).map(raises, compute=compute)
    with caplog.at_level(logging.ERROR, "headrace.data"):
        assert column(ds) == list(range(1024, 2000))
    assert operators(ds)["map(raises)"]["errored_blocks"] == 2
    assert [r.message.split(";")[0] for r in caplog.records] == [
        "map(raises): 2 failed batches were left out (DataContext.max_errored_blocks)"
    ]
    assert "ValueError: no 5" in caplog.text
    context.max_errored_blocks = 1
    with pytest.raises(ValueError, match="no 700"):
        hd.range(2000).map(raises, compute=compute).take_all()
    context.max_errored_blocks = -1
    assert hd.range(2000).map(raises, compute=compute).count() == 976


def test_batches_of_dead_workers_may_be_left_out(context, caplog):
    context.max_errored_blocks = 1
    assert column(hd.range(2000).map(dies)) == [*range(512), *range(1024, 2000)]
    assert "was killed" in caplog.text or "was lost" in caplog.text


def test_exceptions_may_be_retried(tmp_path, compute, context):
    log = tmp_path / "log"

    def fails_twice(batch):
        with log.open("a") as f:
            f.write("x")
        if log.stat().st_size < 3:
            raise OSError("try again")
        return batch

    context.retried_map_errors = ["again", "never"]
    context.max_map_retries = 2
    assert column(hd.range(5).map_batches(fails_twice, compute=compute)) == list(range(5))
    assert log.stat().st_size == 3
    log.unlink()
    context.retried_map_errors = ["other"]
    with pytest.raises(OSError, match="try again"):
        hd.range(5).map_batches(fails_twice, compute=compute).take_all()
    log.unlink()
    context.retried_map_errors, context.max_map_retries = True, 1
    with pytest.raises(OSError, match="try again"):
        hd.range(5).map_batches(fails_twice, compute=compute).take_all()


def test_wrong_settings_are_named(context):
    for name, value in (("max_errored_blocks", "1"), ("retried_map_errors", "text")):
        with pytest.raises(exceptions.TypeMismatchError, match=name):
            setattr(context, name, value)
    with pytest.raises(exceptions.InvalidArgument, match="max_map_retries: expected an int of at least 0"):
        context.max_map_retries = -2
    context.__dict__["max_map_retries"] = -1
    with pytest.raises(exceptions.InvalidArgument, match="max_map_retries"):
        hd.range(1).map(lambda r: r)


# ----------------------------------------------------------------------------------------------- many batches


def describe(batch):
    """Properties that depend on the cut of a batch: sizes, sums, random numbers, dtypes."""
    x = batch["x"]
    return {
        "n": np.array([len(x)]),
        "sum": np.array([float(np.nansum(np.asarray(x, float)))]),
        "random": np.random.random(1),
        "kind": np.array([x.dtype.itemsize]),
    }


@pytest.mark.parametrize("nulls", [False, True])
def test_batches_that_travel_together_are_as_they_are_alone(nulls):
    values = [None if nulls and 5000 < i < 5010 else i for i in range(60_000)]
    source = hd.from_arrow(pa.table({"x": pa.array(values), "t": [str(i) for i in range(60_000)]}))
    alone = source.map_batches(describe, compute="inline").to_arrow()
    assert alone["n"].to_pylist() == [4096] * 14 + [60_000 - 14 * 4096]
    ds = source.map_batches(describe)
    for _ in range(3):  # the first run learns how short they are
        assert ds.to_arrow()["n"] == alone["n"]
    it = source.map_batches(describe)
    assert it.to_arrow() == alone
    assert it.to_arrow().drop_columns("random") == alone.drop_columns("random")


def test_results_of_any_kind_may_travel_together():
    def odd(batch):
        first = int(batch["id"][0]) // 4096
        if first % 3 == 0:
            return {"v": batch["id"][:2]}
        if first % 3 == 1:
            return pa.table({"v": batch["id"][:1]})
        return {"v": []} if first % 2 else {"v": list(batch["id"][:3])}

    ds = hd.range(100_000).map_batches(odd)
    first = column(ds, "v")
    assert column(ds, "v") == first == column(hd.range(100_000).map_batches(odd, compute="inline"), "v")
