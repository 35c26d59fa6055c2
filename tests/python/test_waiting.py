"""Functions that wait get more workers than CPUs, by measurement; others do not."""

import os
import time

import pytest

import headrace.data as hd
from headrace import _core
from headrace.udf import states, waiting


class Calls:
    """What the manager sees of its calls: `rate` end in a second, and compute for `share` of the time."""

    n_expected = 0

    def __init__(self):
        self.n_waiting, self.ended = 1, (0, 0.0, 0.0)

    def second(self, workers, rate, share):
        n, busy, waited = self.ended
        self.ended = (n + rate, busy + workers, waited + workers * (1 - share))


def moves(rate_of, share, seconds, base=2, private=0):
    """The numbers of workers, second by second, where they come at once and `rate_of(workers)` calls end."""
    calls, waits, n, found = Calls(), waiting.Waiting(), base, []
    for now in range(seconds):
        waits.look(float(now), calls, n, base, private)
        n = max(n, base + waits.extra)
        found.append(base + waits.extra)
        calls.second(n, rate_of(n), share)
    return found


def test_workers_that_hardly_compute_become_four_times_as_many():
    assert moves(lambda n: 50 * n, 0.02, 8) == [2, 4, 8, 8, 8, 8, 8, 8]
    assert moves(lambda n: 50 * n, 0.02, 8, base=32)[-1] == 64
    assert moves(lambda n: 50 * n, 0.02, 8, base=96)[-1] == 96


def test_workers_that_compute_are_left_alone():
    assert set(moves(lambda n: 50 * n, 0.5, 10)) == {2}
    assert moves(lambda n: 50 * n, 0.3, 10)[-1] == 6  # as many as fill both CPUs


def test_a_trial_without_a_gain_goes_back_and_pauses():
    """Workers that wait for one lock, or for a server with a limit."""
    found = moves(lambda n: 100, 0.02, 60)
    trials = [i for i, n in enumerate(found) if n > 2]
    assert 2 <= len(trials) <= 5 and trials[0] == 1 and found[trials[0] + 1] == 2
    assert all(b - a >= 4 for a, b in zip(trials, trials[1:], strict=False))


def test_workers_have_a_part_of_the_memory():
    part = _core.memory_limit() // waiting.MEMORY_PART
    assert moves(lambda n: 50 * n, 0.02, 8, private=part // 3)[-1] == 3
    assert moves(lambda n: 50 * n, 0.02, 8, private=part)[-1] == 2


def test_nothing_moves_while_no_call_waits():
    calls, waits = Calls(), waiting.Waiting()
    calls.n_waiting = 0
    for now in range(5):
        assert not waits.look(float(now), calls, 2, 2, 0)
        calls.second(2, 100, 0.02)


def sleeps(batch):
    time.sleep(0.02)
    return {"id": batch["id"], "pid": [os.getpid()] * len(batch["id"])}


def pids_of(seconds, **given):
    """The workers that a pass of so many seconds (of one worker for each CPU) used, and its ids."""
    ds = hd.range(int(seconds * 50) * _core.num_threads() * 10).map_batches(sleeps, batch_size=10, **given)
    pids, ids = set(), []
    for batch in ds.iter_batches(batch_size=10):
        pids.update(batch["pid"].tolist())
        ids.extend(batch["id"].tolist())
    assert ids == list(range(len(ids)))
    return pids


@pytest.mark.skipif(_core.threads_are_fixed(), reason="HEADRACE_NUM_THREADS is given")
def test_a_function_that_sleeps(context):
    """The story: a Dataset that waited for a disk had two workers on two CPUs, and a third of the rate of
    torch's best hand-tuned loader.
    """
    context.num_threads = None  # as in a new process, whatever tests before this one have set
    assert len(pids_of(6)) > states.default_workers()


class Sleeping:
    """A map-style Dataset of torch, of some pieces for each CPU that take a fifth of a second."""

    def __len__(self):
        return 256 * 30 * _core.num_threads()

    def __getitem__(self, i):
        if i % 64 == 0:
            time.sleep(0.05)
        return {"id": i, "pid": os.getpid()}


@pytest.mark.skipif(_core.threads_are_fixed(), reason="HEADRACE_NUM_THREADS is given")
def test_a_dataset_that_sleeps(context):
    """The story: the pieces of a source were calls of one ticket, in sets of two for each worker. At the end
    of each set no call waited, so nothing was measured, and workers were idle.
    """
    context.num_threads = None
    ds = hd.from_torch(Sleeping())
    pids, ids = set(), []
    for batch in ds.iter_batches(batch_size=256):
        pids.update(batch["pid"].tolist())
        ids.extend(batch["id"].tolist())
    assert ids == list(range(len(Sleeping())))
    assert len(pids) > states.default_workers()


@pytest.mark.parametrize("fixed", ["autotune", "num_threads", "cpu", "concurrency"])
def test_numbers_that_are_fixed(context, fixed):
    given = {}
    if fixed == "autotune":
        context.autotune = False
    elif fixed == "num_threads":
        context.num_threads = 2
    elif fixed == "cpu":
        context.execution_options.resource_limits = hd.ExecutionResources(cpu=2)
    else:
        given["concurrency"] = 2
    assert len(pids_of(3, **given)) <= max(2, states.default_workers())
