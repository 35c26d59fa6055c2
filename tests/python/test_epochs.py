"""Loops over the same batches: the next epoch that opens early on a guess, and set_epoch()."""

import itertools
import json
import os
import pickle
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_shares import on_all

import headrace.data as hd
from headrace import exceptions, train
from headrace.data import early

N = 1000


def plan():
    return hd.range(N).random_shuffle()


def ids(batches):
    return [b["id"].tolist() for b in batches]


def epochs(n, **how):
    one = plan().iter_batches(batch_size=128, **how)
    return [ids(one) for _ in range(n)]


# ------------------------------------------------------------------------------------------- the next epoch


def is_early(batches):
    """Whether the next epoch is open."""
    return batches._owner.early.held() is not None


def opened_early(batches):
    """For each of three passes after the first, whether the next epoch was open at its last batch."""
    found = []
    for _ in range(4):
        last = None
        for _ in batches:
            last = is_early(batches)
        found.append(last)
    batches.close()
    return found[1:]


def test_the_second_pass_opens_the_third_epoch():
    assert opened_early(plan().iter_batches(batch_size=100)) == [True] * 3
    assert opened_early(hd.range(N).iter_rows()) == [True] * 3


def test_the_border_does_not_wait_for_the_epoch_after_the_next():
    """The story: where an epoch's sources were read by its first batch, this batch came after the run of the
    epoch after it had opened, 0.3 to 2 ms later.
    """
    batches = hd.range(N).iter_batches(batch_size=100)
    for _ in range(2):
        ids(batches)
    feed = batches._owner.early.held().run.feed
    while feed.counts()["tables_out"] < 2:
        time.sleep(0.001)
    one = iter(batches)
    next(one)
    assert not is_early(batches)
    next(one)
    assert is_early(batches)
    batches.close()


def test_epochs_of_one_batch():
    assert opened_early(hd.range(N).iter_batches(batch_size=N)) == [True] * 3


def test_the_batches_are_those_of_fresh_iterables():
    got = epochs(5)
    for epoch, want in enumerate(got):
        fresh = plan().iter_batches(batch_size=128)
        fresh.set_epoch(epoch)
        assert ids(fresh) == want
    assert len({str(e) for e in got}) == 5


def test_a_resume_in_a_later_epoch_opens_the_next():
    one = plan().iter_batches(batch_size=100)
    for _ in range(2):
        ids(one)
    begun = iter(one)
    want = [b["id"].tolist() for b in itertools.islice(begun, 3)]
    state = one.state_dict()
    want = [b["id"].tolist() for b in begun] + ids(one)
    other = plan().iter_batches(batch_size=100)
    other.load_state_dict(state)
    got = []
    for b in other:
        got.append(b["id"].tolist())
        early = is_early(other)
    assert early
    assert got + ids(other) == want


def test_no_second_instance_of_a_class():
    class Same:
        def __call__(self, batch):
            return batch

    ds = hd.range(N).map_batches(Same, batch_size=100, concurrency=1)
    assert opened_early(ds.iter_batches(batch_size=100)) == [False] * 3


def test_no_second_run_without_memory_for_it():
    ballast = hd.range(8_000_000).materialize()  # 64 MB of the engine; a worker's results are its own memory
    context = hd.DataContext.get_current()
    before = context.memory_limit_bytes
    try:
        context.memory_limit_bytes = 60 << 20
        assert opened_early(hd.range(N).iter_batches(batch_size=100)) == [False] * 3
    finally:
        context.memory_limit_bytes = before
    assert ballast.count() == 8_000_000


def test_a_wrong_guess_costs_no_epoch_and_no_row():
    one = plan().iter_batches(batch_size=100)
    want = [ids(one) for _ in range(4)]
    one = plan().iter_batches(batch_size=100)
    assert [ids(one), ids(one)] == want[:2]
    assert is_early(one)
    state = one.state_dict()
    assert (state["epoch"], state["position"]) == (2, None)
    one.load_state_dict(state)  # closes what was opened
    assert not is_early(one)
    assert [ids(one), ids(one)] == want[2:]


def train_for(batches, n):
    """Takes n batches with steps that leave the engine time."""
    taken = 0
    for _ in itertools.islice(batches, n):
        time.sleep(0.002)
        taken += 1
    return taken


def test_the_first_epoch_opens_the_second_if_the_trainer_leaves_time():
    """The story: the border of the first two epochs took 4 ms."""
    one = hd.range(N).iter_batches(batch_size=4)
    begun = iter(one)
    while not is_early(one):
        assert train_for(begun, 10) == 10
    list(begun)
    assert is_early(one)
    assert sum(ids(one), []) == list(range(N))


def test_new_iterables_in_each_epoch_take_the_early_pass():
    """The story: `for epoch in range(n): for batch in ds.iter_batches()` opened no epoch early."""
    ds = plan()
    want = epochs(4)
    for epoch in range(4):
        held = ds._iterator and ds._iterator.early.held()
        assert held is not None or epoch <= 1
        batches = iter(ds.iter_batches(batch_size=128))
        got = [next(batches)["id"].tolist()]
        assert held is None or batches.under is held
        assert got + [b["id"].tolist() for b in batches] == want[epoch]
    held = ds._iterator.early.held()
    list(ds.iter_batches(batch_size=100))
    assert held.run.feed.closed  # other batches


def test_no_guess_calls_a_function_or_reads_all_rows():
    """The second story: one pass over shuffled rows read them all again, for an epoch that never came."""
    for ds in (hd.range(N).map_batches(lambda b: b, batch_size=10), plan(), hd.range(N).sort("id")):
        one = ds.iter_batches(batch_size=4)
        begun = iter(one)
        train_for(begun, 200)
        assert not is_early(one)
        begun.close()


def test_no_second_guess_after_a_wrong_one():
    ds = hd.range(N)
    for again in (True, False):
        one = ds.iter_batches(batch_size=4)
        begun = iter(one)
        for _ in range(N // 40):
            train_for(begun, 10)
            if is_early(one):
                break
        assert is_early(one) == again
        one.close()
        assert not is_early(one)


def test_an_early_pass_ends_when_nobody_comes(monkeypatch):
    ds = plan()
    for _ in range(2):
        list(ds.iter_batches(batch_size=100))
    held = ds._iterator.early.held()
    monkeypatch.setattr(early, "IDLE_S", 0.01)
    early._sweeping()  # what its thread does
    assert held.run.feed.closed
    assert len(list(ds.iter_batches(batch_size=100))) == 10


def test_an_early_pass_leaves_its_memory_to_another_run(context):
    """The story: for two minutes after the last epoch of one dataset, the rows that nobody came for took the
    memory of another one, which ran three times as long.
    """
    ds = hd.range(1_000_000)
    for _ in range(2):
        list(ds.iter_batches(batch_size=10_000))
    held = ds._iterator.early.held()
    other = hd.range(10)
    assert other.count() == 10 and ids(other.iter_batches(batch_size=10)) == [list(range(10))]
    assert not held.run.feed.closed
    until = time.monotonic() + 60
    while not (used := json.loads(held.run.stats())["used_bytes"]) and time.monotonic() < until:
        time.sleep(0.01)
    context.memory_limit_bytes = used
    ids(other.iter_batches(batch_size=10))
    assert held.run.feed.closed
    assert len(list(ds.iter_batches(batch_size=10_000))) == 100


@pytest.mark.parametrize("lightning", [False, True])
def test_an_early_pass_ends_with_its_dataset(lightning):
    """The story: where Lightning was imported, a pass that began read the variables of its callers, which
    Python kept until the callers ended.
    """
    if lightning:
        pytest.importorskip("lightning.pytorch.loops.fetchers")
    ds = plan()
    for _ in range(2):
        list(ds.iter_batches(batch_size=100))
    feed = ds._iterator.early.held().run.feed
    del ds
    assert feed.closed


def test_a_setting_of_the_process_holds_for_the_next_epoch(context):
    """The story: an epoch that was open already had the number of threads from before."""
    ds = plan()
    for _ in range(2):
        list(ds.iter_batches(batch_size=100))
    held = ds._iterator.early.held()
    context.num_threads = 1
    begun = iter(ds.iter_batches(batch_size=100))
    next(begun)
    assert begun.under is not held and held.run.feed.closed


def shares_of(n, epochs_of):
    def of(rank, share):
        return [ids(share.iter_batches(batch_size=50)) for _ in range(epochs_of)]

    return on_all(plan().streaming_split(n), of)


def test_shares_give_the_same_with_and_without_repeat():
    got = shares_of(2, 4)
    repeated = on_all(plan().streaming_split(2), lambda r, s: ids(s.iter_batches(batch_size=50).repeat(4)))
    assert [sum(r, []) for r in got] == repeated


def calls_at_rest(log):
    """Calls of a function that nobody waits for."""
    size, same = -1, 0
    while same < 5:
        time.sleep(0.05)
        now = os.path.getsize(log)
        same, size = (same + 1 if now == size else 0), now
    return size


def test_shares_open_the_third_epoch_in_the_second(tmp_path):
    log = tmp_path / "calls"
    log.touch()

    def count(batch, log=str(log)):
        with open(log, "ab", buffering=0) as f:
            f.write(b".")
        return batch

    shares = hd.range(1000).map_batches(count, batch_size=100).streaming_split(2)

    def consume(shares):
        on_all(shares, lambda r, s: [None for b in s.iter_batches(batch_size=50)])

    consume(shares)
    assert calls_at_rest(log) == 10
    consume(shares)
    until = time.monotonic() + 60
    while os.path.getsize(log) <= 20:
        assert time.monotonic() < until
        time.sleep(0.005)


def bytes_read():
    text = Path("/proc/self/io").read_text()
    return int(text.split()[1])


def test_shares_open_the_second_epoch_in_the_first(tmp_path):
    """A plan without functions: a wrong guess reads, and nobody notices."""
    values = np.random.default_rng(1).normal(size=500_000)
    pq.write_table(pa.table({"id": values}), tmp_path / "a.parquet")
    size = os.path.getsize(tmp_path / "a.parquet")
    shares = hd.read_parquet(tmp_path / "a.parquet").random_shuffle().streaming_split(2)
    before = bytes_read()
    first = on_all(shares, lambda r, s: [b["id"].sum() for b in s.iter_batches(batch_size=10_000)])
    until = time.monotonic() + 30
    while bytes_read() - before < 1.9 * size:
        assert time.monotonic() < until
        time.sleep(0.005)
    assert sum(map(sum, first)) == pytest.approx(values.sum())
    again = on_all(shares, lambda r, s: [b["id"].sum() for b in s.iter_batches(batch_size=10_000)])
    assert again != first and sum(map(sum, again)) == pytest.approx(values.sum())


# ------------------------------------------------------------------------------------------------- set_epoch


def test_set_epoch_is_the_number_of_the_next_pass():
    want = epochs(4)
    one = plan().iter_batches(batch_size=128)
    one.set_epoch(2)
    assert one.state_dict()["epoch"] == 2
    assert ids(one) == want[2]
    assert one.state_dict()["epoch"] == 3
    one.set_epoch(0)
    assert one.state_dict() == {"version": 2, "epoch": 0, "position": None}
    assert [ids(one), ids(one)] == want[:2]
    one.set_epoch(1)
    assert ids(one) == want[1]


def test_set_epoch_in_each_epoch_changes_nothing():
    one = plan().iter_batches(batch_size=128)
    got = []
    for epoch in range(4):
        one.set_epoch(epoch)
        got.append(ids(one))
    assert got == epochs(4)


def test_set_epoch_of_rows_and_of_repeat():
    rows = plan().iter_rows()
    first = [r["id"] for r in rows]
    second = [r["id"] for r in rows]
    rows.set_epoch(0)
    assert [r["id"] for r in rows] == first
    repeated = plan().iter_rows().repeat(2)
    repeated.set_epoch(1)
    assert [r["id"] for r in repeated] == second


def test_breaking_off_after_set_epoch_keeps_the_position():
    one = plan().iter_batches(batch_size=128)
    for _ in range(3):
        want = ids(one)
    one.set_epoch(2)
    for _ in one:
        break
    state = one.state_dict()
    assert state["epoch"] == 2
    other = plan().iter_batches(batch_size=128)
    other.load_state_dict(state)
    other.set_epoch(2)
    assert ids(other) == want[1:]


def test_set_epoch_and_a_state_of_another_epoch():
    one = plan().iter_batches(batch_size=128)
    for _ in itertools.islice(itertools.chain(one, one), 10):
        pass
    other = plan().iter_batches(batch_size=128)
    other.load_state_dict(one.state_dict())
    other.set_epoch(0)
    with pytest.raises(exceptions.MismatchError, match=r"set_epoch\(0\).*epoch 1"):
        next(iter(other))


@pytest.mark.parametrize("n", [-1, 1.5, True, "2", None, 1 << 62])
def test_wrong_numbers(n):
    with pytest.raises(exceptions.InvalidArgument, match="set_epoch"):
        hd.range(3).iter_batches().set_epoch(n)
    with pytest.raises(exceptions.InvalidArgument, match="set_epoch"):
        hd.range(3).streaming_split(1)[0].set_epoch(n)


@pytest.mark.parametrize("by", ["share", "iterable"])
def test_shares(by):
    want = shares_of(2, 4)

    def of(rank, share):
        batches = share.iter_batches(batch_size=50)
        got = []
        for epoch in (3, 1, 2):
            (share if by == "share" else batches).set_epoch(epoch)
            assert batches.state_dict()["epoch"] == epoch
            got.append(ids(batches))
        return got + [ids(batches)]

    got = on_all(plan().streaming_split(2), of)
    assert got == [[w[3], w[1], w[2], w[3]] for w in want]


def test_shares_that_disagree():
    def of(rank, share):
        share.set_epoch(rank)
        with pytest.raises(exceptions.MismatchError, match="rank 0: .*epoch 0; rank 1: .*epoch 1"):
            next(iter(share.iter_batches(batch_size=50)))

    on_all(plan().streaming_split(2), of)


def test_shares_with_a_state_of_another_epoch():
    split = plan().streaming_split(1)
    batches = split[0].iter_batches(batch_size=50)
    ids(batches)
    for _ in batches:
        break
    state = batches.state_dict()
    other = plan().streaming_split(1)[0].iter_batches(batch_size=50)
    other.load_state_dict(state)
    other.set_epoch(0)
    with pytest.raises(exceptions.MismatchError, match=r"set_epoch\(0\).*epoch 2"):
        next(iter(other))


@pytest.mark.usefixtures("forked_ranks")
def test_ranks_of_a_trainer(tmp_path):
    torch_trainer = pytest.importorskip("headrace.train.torch").TorchTrainer

    def loop(config):
        share = train.get_dataset_shard()
        batches = share.iter_batches(batch_size=50)
        got = []
        for epoch in (None, 0, 2):
            if epoch is not None:
                batches.set_epoch(epoch)
            got.append([b["id"].tolist() for b in batches])
        (config["folder"] / f"{share._rank}.json").write_text(json.dumps(got))

    torch_trainer(
        loop,
        train_loop_config={"folder": tmp_path},
        datasets={"train": plan()},
        scaling_config=train.ScalingConfig(num_workers=2),
        run_config=train.RunConfig(name="run", storage_path=str(tmp_path)),
    ).fit()
    got = [json.loads((tmp_path / f"{r}.json").read_text()) for r in range(2)]
    assert got == [[w[0], w[0], w[2]] for w in shares_of(2, 3)]


def test_the_state_of_a_chosen_epoch_of_a_share():
    split = plan().streaming_split(1)[0]
    batches = split.iter_batches(batch_size=50)
    want = [ids(batches) for _ in range(3)]
    batches.set_epoch(1)
    state = batches.state_dict()
    other = plan().streaming_split(1)[0].iter_batches(batch_size=50)
    other.load_state_dict(state)
    assert ids(other) == want[1]


def test_pickled():
    one = plan().iter_batches(batch_size=128)
    one.set_epoch(2)
    assert ids(pickle.loads(pickle.dumps(one))) == epochs(3)[2]


@pytest.mark.parametrize("persistent", [False, True])
def test_torch_dataloader(persistent):
    data = pytest.importorskip("torch.utils.data")

    def passes(workers, numbers):
        items = plan().to_torch(batch_size=100)
        how = {"persistent_workers": persistent} if workers else {}
        loader = data.DataLoader(items, batch_size=None, num_workers=workers, **how)
        got = []
        for n in numbers:
            if n is not None:
                loader.dataset.set_epoch(n)
            got.append([x.flatten().tolist() for x, _ in loader])
        return got

    want = passes(0, [None] * 4)
    assert passes(0, [3, 1, None, 0]) == [want[3], want[1], want[2], want[0]]
    if not persistent:  # persistent workers have copies of the dataset, but count with the program
        assert passes(2, [3, 1, None, 0]) == [want[3], want[1], want[2], want[0]]
    else:
        assert passes(2, [2, None, 0]) == [want[2], want[3], want[0]]
