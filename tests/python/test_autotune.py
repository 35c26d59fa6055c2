"""A run moves its number of threads by measurement, and nothing else changes."""

import hashlib
import logging

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace.data as hd
from headrace.exceptions import TypeMismatchError
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


def test_decisions_are_logged_on_request(slow_disk, context, caplog):
    caplog.set_level(logging.INFO, "headrace.data")
    batches = hd.read_parquet(slow_disk).iter_batches(batch_size=500)
    for _ in range(2):
        for _ in batches:
            pass
    moves = [r.getMessage() for r in caplog.records if r.getMessage().startswith("threads: ")]
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
    assert batches.stats("dict")["tuned"]["threads"] == tuned[-1]["threads"]
    assert batches.stats("dict")["tuned"]["moves"] == 0


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
