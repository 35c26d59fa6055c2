"""state_dict() in the middle of an epoch, a kill -9, and the remaining rows exactly."""

import json
import signal
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace.data as hd
from headrace import exceptions
from headrace.data.expressions import monotonically_increasing_id, random, uuid


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("resume")
    begin = 0
    for f, n in enumerate([50, 1, 0, 333, 116]):
        pq.write_table(
            pa.table({"id": np.arange(begin, begin + n)}), path / f"{f}.parquet", row_group_size=40
        )
        begin += n
    return path


def augment(batch):
    return {"id": batch["id"], "r": np.random.random(len(batch["id"]))}


def odd(row):
    return row["id"] % 3 != 1


def double(row):
    return [row] * (row["id"] % 3)


PLANS = {
    "read": lambda d: d,
    "map": lambda d: d.map_batches(augment, compute="inline"),
    "exact batches": lambda d: d.map_batches(augment, batch_size=64, compute="inline"),
    "filter": lambda d: d.filter(odd, compute="threads"),
    "flat_map": lambda d: d.flat_map(double, compute="threads"),
    "limit": lambda d: d.limit(321),
    "numbers": lambda d: d.with_columns(
        {"n": monotonically_increasing_id(), "r": random(seed=5), "u": uuid(seed=1)}
    ),
    "union": lambda d: d.union(d.limit(100), d),
    "all": lambda d: (
        d.filter(odd, compute="threads")
        .map_batches(augment, batch_size=30, compute="inline")
        .limit(200)
        .union(d.map_batches(augment, compute="inline"))
    ),
}


def values(batches):
    return [{k: v.tolist() for k, v in b.items()} for b in batches]


@pytest.mark.parametrize("name", PLANS)
@settings(max_examples=12, deadline=None)
@given(st.data())
def test_rest_of_an_epoch(folder, name, data):
    size = data.draw(st.sampled_from([1, 7, 32, 100]))
    epoch = data.draw(st.integers(0, 2))
    ds = PLANS[name](hd.read_parquet(folder))
    batches = ds.iter_batches(batch_size=size)
    for _ in range(epoch):
        for _ in batches:
            break
    whole, states = [], []
    for batch in batches:
        whole += values([batch])
        states.append(batches.state_dict())
    at = data.draw(st.integers(0, len(whole)))
    state = states[at - 1] if at else {"version": 2, "epoch": epoch, "position": None}
    assert len(json.dumps(state)) < 4096
    state = json.loads(json.dumps(state))  # it is plain data
    fresh = PLANS[name](hd.read_parquet(folder)).iter_batches(batch_size=size)
    fresh.load_state_dict(state)
    assert fresh.state_dict() == state
    assert values(fresh) == whole[at:]
    if "r" in whole[0]:
        after = PLANS[name](hd.read_parquet(folder)).iter_batches(batch_size=size)
        after.load_state_dict({"version": 2, "epoch": epoch + 1, "position": None})
        assert values(fresh) == values(after)  # the epoch after it is the next one


def test_rows(folder):
    rows = hd.read_parquet(folder).iter_rows()
    it = iter(rows)
    taken = [next(it)["id"] for _ in range(123)]
    state = rows.state_dict()
    fresh = hd.read_parquet(folder).iter_rows()
    fresh.load_state_dict(state)
    assert taken + [r["id"] for r in fresh] == list(range(500))
    assert len(list(it)) == 500 - 123


def test_prefetched_is_not_taken(folder):
    batches = hd.read_parquet(folder).iter_batches(batch_size=10, prefetch_batches=8)
    it = iter(batches)
    for _ in range(3):
        next(it)
    fresh = hd.read_parquet(folder).iter_batches(batch_size=10, prefetch_batches=8)
    fresh.load_state_dict(batches.state_dict())
    assert next(iter(fresh))["id"].tolist() == list(range(30, 40))


def test_states_around_the_ends(folder):
    batches = hd.read_parquet(folder).iter_batches(batch_size=100)
    assert batches.state_dict() == {"version": 2, "epoch": 0, "position": None}
    it = iter(batches)
    for _ in range(5):
        next(it)
    last = batches.state_dict()  # the last batch is taken, the end not seen
    assert list(it) == []
    assert batches.state_dict() == {"version": 2, "epoch": 1, "position": None}
    fresh = hd.read_parquet(folder).iter_batches(batch_size=100)
    fresh.load_state_dict(last)
    assert values(fresh) == [] and len(values(fresh)) == 5
    it = iter(batches)
    next(it)
    it.close()  # left in the middle: that is where the consumer is
    fresh.load_state_dict(batches.state_dict())
    assert next(iter(fresh))["id"][0] == 100
    for batch in batches:
        if batch["id"][0] == 200:
            break
    fresh.load_state_dict(batches.state_dict())
    assert next(iter(fresh))["id"][0] == 300


def test_states_of_other_plans(folder):
    batches = hd.read_parquet(folder).iter_batches(batch_size=10)
    next(iter(batches))
    it = iter(batches)
    next(it)
    state = batches.state_dict()
    for other in (
        hd.read_parquet(folder).limit(5).iter_batches(batch_size=10),
        hd.range(500).iter_batches(batch_size=10),
        hd.read_parquet(folder).iter_batches(batch_size=11),
    ):
        other.load_state_dict(state)
        with pytest.raises(exceptions.MismatchError):
            list(other)
    for nonsense in (None, {}, {"version": 3}, "text"):
        with pytest.raises(exceptions.InvalidArgument):
            batches.load_state_dict(nonsense)
    with pytest.raises(exceptions.InvalidArgument, match="not a position"):
        batches.load_state_dict(dict(state, position="{}"))


def test_changed_files(folder, tmp_path):
    pq.write_table(pa.table({"id": range(100)}), tmp_path / "a.parquet", row_group_size=10)
    batches = hd.read_parquet(tmp_path).iter_batches(batch_size=10)
    it = iter(batches)
    next(it)
    state = batches.state_dict()
    it.close()
    pq.write_table(pa.table({"id": range(200)}), tmp_path / "a.parquet", row_group_size=10)
    fresh = hd.read_parquet(tmp_path).iter_batches(batch_size=10)
    fresh.load_state_dict(state)
    with pytest.raises(exceptions.MismatchError):
        list(fresh)


TRAINER = """
    import json, os, sys
    import numpy as np
    import headrace.data as hd
    folder, state_path, log_path, kill_at = sys.argv[1:4] + [int(sys.argv[4])]
    def augment(row):
        return {"id": row["id"], "r": np.random.random()}
    ds = hd.read_parquet(folder).map(augment, concurrency=2).filter(lambda r: r["id"] % 5 != 0)
    batches = ds.iter_torch_batches(batch_size=16)
    if os.path.exists(state_path):
        batches.load_state_dict(json.load(open(state_path)))
    log = open(log_path, "a")
    for n, batch in enumerate(batches):
        for i, r in zip(batch["id"].tolist(), batch["r"].tolist()):
            print(i, r, file=log)
        log.flush()
        json.dump(batches.state_dict(), open(state_path + ".new", "w"))
        os.rename(state_path + ".new", state_path)
        if n == kill_at:
            os.kill(os.getpid(), 9)
"""


@pytest.mark.slow
def test_kill_and_go_on(folder, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(TRAINER))

    def run(name, kill_at):
        command = [
            sys.executable,
            script,
            folder,
            tmp_path / f"{name}.json",
            tmp_path / f"{name}.log",
            str(kill_at),
        ]
        return subprocess.run(command, capture_output=True, text=True, timeout=300)

    assert run("whole", -1).returncode == 0
    for kill_at in np.random.default_rng().integers(0, 8, 3):  # 400 rows are 25 batches
        assert run("parts", kill_at).returncode == -signal.SIGKILL
    assert run("parts", -1).returncode == 0
    assert (tmp_path / "parts.log").read_text() == (tmp_path / "whole.log").read_text()


def ranks_read(shards, state, n_batches, epochs=1):
    """Each rank's rows, epoch by epoch (n_batches of the last one), and the state of rank 0 then."""
    n = len(shards)
    out, found, errors = [[] for _ in range(n)], [], []
    barrier = threading.Barrier(n)

    def consume(rank):
        batches = shards[rank].iter_batches(batch_size=10)
        if state:
            batches.load_state_dict(state)
        for epoch in range(epochs):
            seen = []
            out[rank].append(seen)
            for batch in batches:
                seen.append(batch["id"].tolist())
                if epoch == epochs - 1 and len(seen) == n_batches:
                    break
            else:
                continue
            break
        barrier.wait(60)
        if rank == 0:
            found.append(batches.state_dict())
        barrier.wait(60)

    def run(rank):
        try:
            consume(rank)
        except BaseException as e:
            errors.append(e)
            barrier.abort()

    threads = [threading.Thread(target=run, args=(r,)) for r in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert not errors, errors
    return out, json.loads(json.dumps(found[0]))


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_splits(folder, ranks):
    def shards():
        return (
            hd.read_parquet(folder).map_batches(augment, compute="threads").streaming_split(ranks, equal=True)
        )

    both, _ = ranks_read(shards(), None, None, 2)
    first, between = ranks_read(shards(), None, None, 1)
    assert [f[0] for f in first] == [b[0] for b in both]
    rest, _ = ranks_read(shards(), between, None)
    assert [r[0] for r in rest] == [b[1] for b in both]


def test_splits_in_the_middle(folder):
    """The one position of all ranks, taken while they pause. (With processes: test_train.py.)"""
    shards = hd.read_parquet(folder).streaming_split(2, equal=True)
    whole, _ = ranks_read(hd.read_parquet(folder).streaming_split(2, equal=True), None, None)
    its = [iter(s.iter_batches(batch_size=10)) for s in shards]
    firsts = [None, None]
    barrier = threading.Barrier(2)

    def take(rank):
        firsts[rank] = [next(its[rank])["id"].tolist() for _ in range(7)]
        barrier.wait(60)

    threads = [threading.Thread(target=take, args=(r,)) for r in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    state = its[0].state()
    assert state["position"] == its[1].state()["position"]
    next(its[0])
    with pytest.raises(exceptions.MismatchError, match="rank"):
        its[0].state()
    fresh = hd.read_parquet(folder).streaming_split(2, equal=True)
    rest, _ = ranks_read(fresh, state, None)
    assert [first + r[0] for first, r in zip(firsts, rest, strict=True)] == [w[0] for w in whole]
