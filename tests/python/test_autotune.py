"""A run moves its numbers of threads and of batches ahead by measurement, and nothing else changes."""

import hashlib
import logging
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace.data as hd
from headrace import _core
from headrace.exceptions import InvalidArgument, TypeMismatchError
from headrace.udf import states

PASSES = 4


@pytest.fixture
def slow_disk(tmp_path, monkeypatch):
    """Files whose reads take 10 ms: threads wait, and CPUs are idle."""
    numbers = np.random.default_rng(0)
    for i in range(8):
        table = pa.table({"x": numbers.random(20_000), "i": np.arange(20_000) + 20_000 * i})
        pq.write_table(table, tmp_path / f"{i}.parquet", row_group_size=1000)
    monkeypatch.setenv("HR_STALL", "disk:10ms")
    return str(tmp_path)


@pytest.fixture
def context(monkeypatch):
    """That of the default number of threads."""
    found = hd.DataContext.get_current()
    monkeypatch.delenv("HEADRACE_NUM_THREADS", raising=False)
    before = found.num_threads
    found.num_threads = None
    yield found
    found.num_threads = before
    found.autotune = True
    found.first_threads = None
    found.most_prefetch_batches = 64
    found.reserved_cores_per_trainer = 1
    found.execution_options.exclude_resources = None


def passes(path, n=PASSES, **options):
    """(the hash of each pass's batches, what each one was tuned to)"""
    batches = hd.read_parquet(path).iter_batches(batch_size=500, batch_format="numpy", **options)
    sums, tuned = [], []
    for _ in range(n):
        digest = hashlib.sha256()
        for batch in batches:
            digest.update(batch["i"].tobytes() + batch["x"].tobytes())
        sums.append(digest.hexdigest())
        tuned.append(batches.stats("dict")["tuned"])
    return sums, tuned


@pytest.mark.parametrize("options", [{}, {"local_shuffle_buffer_size": 3000, "local_shuffle_seed": 1}])
def test_threads_that_wait_for_a_disk_get_more(slow_disk, context, options):
    sums, tuned = passes(slow_disk, **options)
    assert all(t["on"] and t["first_threads"] == context.num_threads for t in tuned)
    assert max(t["threads"] for t in tuned) > context.num_threads
    moves = [move for t in tuned for move in t["last_moves"]]
    assert moves and "threads wait for reads" in moves[0]["reason"]
    context.autotune = False
    same, fixed = passes(slow_disk, **options)
    assert same == sums
    for t in fixed:
        assert not t["on"] and t["threads"] == context.num_threads and t["moves"] == 0


def test_an_epoch_that_nobody_takes_teaches_nothing(slow_disk, context):
    """The story: it had begun before the last epoch ended, and when it closed, what that one had learnt was
    forgotten.
    """
    ds = hd.read_parquet(slow_disk)
    tried = []
    for _ in range(PASSES):
        batches = ds.iter_batches(batch_size=500)
        for _ in batches:
            pass
        tried += [move["threads"] for move in batches.stats("dict")["tuned"]["last_moves"]]
        batches.close()
    assert tried and len(tried) == len(set(tried)), tried


def test_decisions_are_logged_on_request(slow_disk, context, caplog):
    caplog.set_level(logging.INFO, "headrace.data")
    batches = hd.read_parquet(slow_disk).iter_batches(batch_size=500)
    for _ in range(2):
        for _ in batches:
            pass
    moves = [
        r.getMessage()
        for r in caplog.records
        if r.getMessage().startswith("threads: ") and "reads" in r.getMessage()
    ]
    assert moves and "threads wait for reads" in moves[0]


def test_a_number_that_is_given_stays(slow_disk, context, monkeypatch):
    context.num_threads = 3
    _, (tuned,) = passes(slow_disk, 1)
    assert not tuned["on"] and tuned["threads"] == 3 and tuned["moves"] == 0
    context.num_threads = None
    monkeypatch.setenv("HEADRACE_AUTOTUNE", "off")
    _, (tuned,) = passes(slow_disk, 1)
    assert not tuned["on"] and tuned["moves"] == 0


def test_a_number_given_in_the_middle_of_a_run(slow_disk, context):
    batches = hd.read_parquet(slow_disk).iter_batches(batch_size=500)
    for k, _ in enumerate(batches):
        if k == 20:
            context.num_threads = 1
    assert batches.stats("dict")["tuned"]["threads"] == 1


def test_what_was_chosen_is_given_back(slow_disk, context):
    """To a new dataset, as that of a later program would be: its first pass begins there."""
    _, tuned = passes(slow_disk)
    assert tuned[-1]["threads"] > context.num_threads
    context.first_threads = tuned[-1]["threads"]
    batches = hd.read_parquet(slow_disk).iter_batches(batch_size=500)
    next(iter(batches))
    begun = batches.stats("dict")["tuned"]
    assert begun["threads"] == begun["first_threads"] == tuned[-1]["threads"]
    assert begun["moves"] == 0


def test_cpus_are_left_to_the_trainer(slow_disk, context):
    """The default number of threads is lower, and still moves."""
    context.execution_options.exclude_resources = hd.ExecutionResources(cpu=1)
    _, tuned = passes(slow_disk)
    assert all(t["on"] and t["first_threads"] == max(1, context.num_threads - 1) for t in tuned)
    assert max(t["threads"] for t in tuned) > context.num_threads
    assert states.default_workers() == max(1, context.num_threads - 1)
    context.execution_options.exclude_resources = hd.ExecutionResources(cpu=1e9)
    context.autotune = False
    _, (tuned,) = passes(slow_disk, 1)
    assert tuned["threads"] == 1


def test_cores_for_trainers(context, monkeypatch):
    """Of trainers alone: a write and a materialize() begin with all threads. None of few CPUs."""

    def first(trainers, cpus=16):
        monkeypatch.setattr(_core, "num_threads", lambda: cpus)
        return context.run_options(trainers)["first_threads"]

    assert first(0) == 0 and first(1) == 15 and first(4) == 12 and first(100) == 8
    assert first(1, cpus=3) == 0 and first(1, cpus=4) == 3 and first(4, cpus=4) == 2
    monkeypatch.setattr(context, "reserved_cores_per_trainer", 2)
    assert first(1) == 14
    monkeypatch.setattr(context, "reserved_cores_per_trainer", 0)
    assert first(1) == 0
    monkeypatch.setattr(context, "reserved_cores_per_trainer", 1)
    context.first_threads = 5
    assert first(1) == 5
    context.first_threads = None
    context.autotune = False
    assert first(1) == 0
    context.autotune = True
    context.execution_options.exclude_resources = hd.ExecutionResources(cpu=3)
    assert first(1) == 0  # these are left already
    with pytest.raises(InvalidArgument, match="reserved_cores_per_trainer"):
        context.reserved_cores_per_trainer = -1


def test_who_is_a_trainer(context, monkeypatch):
    """Passes are, writes are not; of ranks those of this machine."""
    asked = []
    real = type(context).run_options

    def run_options(self, trainers=0):
        asked.append(trainers)
        return real(self, trainers)

    monkeypatch.setattr(type(context), "run_options", run_options)
    ds = hd.range(100)
    ds.materialize()
    assert asked and not any(asked)
    asked.clear()
    next(iter(ds.iter_batches()))
    assert asked == [1]
    asked.clear()
    shares = ds.streaming_split(3)
    assert asked == [3] and len(shares) == 3
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    asked.clear()
    ds.streaming_split(3)
    assert asked == [2]


def test_memory_stays_below_its_limit(slow_disk, context):
    before, context.memory_limit_bytes = context.memory_limit_bytes, 8 << 20
    try:
        batches = hd.read_parquet(slow_disk).iter_batches(batch_size=500)
        for _ in range(PASSES):
            for _ in batches:
                assert batches.stats("dict")["peak_bytes"] <= 8 << 20
    finally:
        context.memory_limit_bytes = before


def test_a_wrong_value(context):
    with pytest.raises(TypeMismatchError, match="autotune"):
        context.autotune = "yes"
    with pytest.raises(TypeMismatchError, match="first_threads"):
        context.first_threads = -1
    with pytest.raises(TypeMismatchError, match="most_prefetch_batches"):
        context.most_prefetch_batches = "all"


def stalls(batch):
    """A function that is quick, and now and then is not."""
    if int(batch["id"][0]) // 8 % 40 == 39:
        time.sleep(0.4)
    return batch


def steady_steps(ds, **arguments):
    """(ids of a pass whose steps take 10 ms, what it was tuned to)"""
    batches = ds.iter_batches(batch_size=8, **arguments)
    ids = []
    for batch in batches:
        ids += batch["id"].tolist()
        time.sleep(0.01)
    return ids, batches.stats("dict")["tuned"]


def test_stalls_of_a_source_get_more_batches_ahead(context, caplog):
    """The feed rests between them. Rows, and their order, are the same; the next pass begins there."""
    caplog.set_level(logging.INFO, "headrace.data")
    ds = hd.range(8 * 160).map_batches(stalls, batch_size=8, concurrency=1)
    for _ in range(6):  # one is enough, unless other programs keep the function from its rest
        ids, tuned = steady_steps(ds)
        assert ids == list(range(8 * 160))
        assert tuned["first_prefetch"] == 1 and tuned["most_prefetch"] == 64
        if any("would spare" in move["reason"] for move in tuned["last_moves"]):
            break
    move = next(move for move in tuned["last_moves"] if "would spare" in move["reason"])
    assert 2 <= move["prefetch"] <= 64
    lines = [r.getMessage() for r in caplog.records if "would spare" in r.getMessage()]
    assert lines and f"prefetch: {move['prefetch']}; " in lines[0]


@pytest.mark.parametrize("how", ["autotune", "environment", "most", "none"])
def test_batches_ahead_that_are_given_stay(context, monkeypatch, how):
    ds, ahead = hd.range(8 * 80).map_batches(stalls, batch_size=8, concurrency=1), 2
    if how == "autotune":
        context.autotune = False
    elif how == "environment":
        monkeypatch.setenv("HEADRACE_AUTOTUNE", "off")
    elif how == "most":
        context.most_prefetch_batches = 2
    else:
        ahead = 0
    ids, tuned = steady_steps(ds, prefetch_batches=ahead)
    assert ids == list(range(8 * 80))
    assert tuned["prefetch"] == tuned["first_prefetch"] == tuned["most_prefetch"] == max(ahead, 1)
    assert all(move["prefetch"] == tuned["prefetch"] for move in tuned["last_moves"])


def test_a_source_that_never_rests_gets_no_more_batches_ahead(context):
    """Its consumer waits all the time, which more batches ahead would not change."""
    batches = hd.range(2_000_000).iter_batches(batch_size=256)
    for _ in range(2):
        for _ in batches:
            pass
        assert batches.stats("dict")["tuned"]["prefetch"] == 1
