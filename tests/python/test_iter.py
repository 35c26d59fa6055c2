"""Passes over datasets and shares: batch sizes, epochs, ends, context managers, threads, splits."""

import gc
import pickle
import subprocess
import sys
import threading
import time

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace.data as hd
from headrace import _core, exceptions


@pytest.fixture
def folder(tmp_path):
    """Files of 7, 0, 13 and 30 rows: ids 0 .. 49."""
    begin = 0
    for f, n in enumerate([7, 0, 13, 30]):
        ids = pa.array(range(begin, begin + n), pa.int64())
        pq.write_table(
            pa.table({"id": ids, "x": ids.cast("float")}), tmp_path / f"{f}.parquet", row_group_size=4
        )
        begin += n
    return tmp_path


def ids_of(batches):
    return [batch["id"].tolist() for batch in batches]


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 60), st.booleans(), st.integers(0, 5))
def test_batches_are_exact(tmp_path_factory, size, drop_last, prefetch):
    ds = hd.from_items([{"id": i} for i in range(50)])
    found = ids_of(ds.iter_batches(batch_size=size, drop_last=drop_last, prefetch_batches=prefetch))
    expected = [list(range(i, min(i + size, 50))) for i in range(0, 50, size)]
    if drop_last and len(expected[-1]) < size:
        expected.pop()
    assert found == expected


@pytest.mark.parametrize(
    "wrong, error",
    [
        ({"prefetch_batches": -1}, exceptions.InvalidArgument),
        ({"prefetch_batches": "1"}, exceptions.TypeMismatchError),
        ({"prefetch_batches": 1.5}, exceptions.TypeMismatchError),
        ({"prefetch_batches": True}, exceptions.TypeMismatchError),
        ({"prefetch_batches": None}, exceptions.TypeMismatchError),
        ({"drop_last": "no"}, exceptions.TypeMismatchError),
        ({"drop_last": 2}, exceptions.TypeMismatchError),
        ({"drop_last": 1.0}, exceptions.TypeMismatchError),
        ({"drop_last": None}, exceptions.TypeMismatchError),
        ({"batch_size": 0}, exceptions.InvalidArgument),
        ({"batch_size": True}, exceptions.InvalidArgument),
        ({"batch_size": 1.5}, exceptions.InvalidArgument),
        ({"batch_size": float("inf")}, exceptions.InvalidArgument),
        ({"batch_size": float("nan")}, exceptions.InvalidArgument),
        ({"batch_size": "all"}, exceptions.InvalidArgument),
    ],
)
def test_wrong_numbers_of_batches(wrong, error):
    """The stories: 1.5 batches ahead were 1, and a text was an error of Python's, without the option's name;
    drop_last="no" of a file of settings dropped the last rows.
    """
    with pytest.raises(error, match=f"^{next(iter(wrong))}: expected "):
        list(hd.range(3).iter_batches(**wrong))
    assert ids_of(hd.range(3).iter_batches(batch_size=2.0, prefetch_batches=np.int64(2))) == [[0, 1], [2]]


@pytest.mark.parametrize("kind", [bool, int, np.bool_, np.int64])
def test_flags(kind):
    """The story: Ray's programs say drop_last=1, which was an error."""
    for flag in (0, 1):
        assert len(list(hd.range(5).iter_batches(batch_size=2, drop_last=kind(flag)))) == 3 - flag
        assert len(hd.range(5).split(2, equal=kind(flag))[0].take_all()) == 3 - flag
        assert len(list(hd.range(5).shard(0, 1, equal=kind(flag)).iter_batches(batch_size=5))) == 1


def test_batches_across_files(folder):
    ds = hd.read_parquet(folder)
    for size in (1, 4, 8, 50, 64):
        found = ids_of(ds.iter_batches(batch_size=size))
        assert [v for b in found for v in b] == list(range(50))
        assert {len(b) for b in found[:-1]} <= {size} and len(found[-1]) == (50 % size or size)
    assert [v for b in ids_of(ds.iter_batches(batch_size=None)) for v in b] == list(range(50))


def test_formats(folder):
    ds = hd.read_parquet(folder)
    frame = next(iter(ds.iter_batches(batch_size=3, batch_format="pandas")))
    assert isinstance(frame, pd.DataFrame) and frame["id"].tolist() == [0, 1, 2]
    table = next(iter(ds.iter_batches(batch_size=3, batch_format="pyarrow")))
    assert table == pa.table({"id": [0, 1, 2], "x": pa.array([0, 1, 2], pa.float32())})
    batch = next(iter(ds.iter_batches(batch_size=3, batch_format="numpy")))
    assert list(batch) == ["id", "x"] and batch["x"].dtype == np.float32
    with pytest.raises(ValueError, match="read-only"):
        batch["id"][0] = 5


def test_batches_stay_valid(folder):
    ds = hd.read_parquet(folder)
    kept = list(ds.iter_batches(batch_size=8))
    for _ in range(3):
        list(ds.iter_batches(batch_size=8))
    gc.collect()
    assert ids_of(kept)[3] == list(range(24, 32))
    assert ids_of(kept)[-1] == [48, 49]


def test_rows(folder):
    ds = hd.read_parquet(folder)
    rows = list(ds.iter_rows())
    assert rows == [{"id": i, "x": float(i)} for i in range(50)]
    assert type(rows[0]["id"]) is int


def epochs(batch):
    return {"id": batch["id"], "r": np.random.random(len(batch["id"]))}


def test_each_pass_is_an_epoch():
    ds = hd.range(20).map_batches(epochs, compute="inline")
    batches = ds.iter_batches(batch_size=20)
    one, two = next(iter(batches)), next(iter(batches))
    assert one["id"].tolist() == two["id"].tolist() == list(range(20))
    assert one["r"].tolist() != two["r"].tolist()
    again = ds.copy().iter_batches(batch_size=20)
    assert next(iter(again))["r"].tolist() == one["r"].tolist()
    assert next(iter(again))["r"].tolist() == two["r"].tolist()
    # a new iterable of the same dataset goes on counting: `for epoch in ...: for b in ds.iter_batches()`
    assert next(iter(ds.iter_batches(batch_size=20)))["r"].tolist() == next(iter(again))["r"].tolist()
    # looking does not count
    assert ds.take_batch(20)["r"].tolist() == one["r"].tolist() == ds.take_batch(20)["r"].tolist()
    it = ds.iterator()
    assert next(iter(it.iter_batches(batch_size=20)))["r"].tolist() == one["r"].tolist()


def test_leaving_early():
    live = _core.live_bytes()
    ds = hd.range(10_000_000)
    for batch in ds.iter_batches(batch_size=1000):
        if batch["id"][0] >= 3000:
            break
    del batch
    with ds.iter_batches(batch_size=1000) as batches:
        it = iter(batches)
        assert next(it)["id"][0] == 0
    assert list(it) == []
    one = iter(ds.iter_batches(batch_size=10))
    next(one)
    one.close()
    assert list(one) == []
    rows = iter(ds.iter_rows())
    next(rows)
    del rows, one, it, batches, ds
    gc.collect()
    assert _core.live_bytes() < live + (1 << 20)


def test_a_new_pass_ends_the_old_one():
    batches = hd.range(1000).iter_batches(batch_size=10)
    old = iter(batches)
    next(old)
    assert len(list(batches)) == 100
    with pytest.raises(exceptions.InvalidArgument, match="new iteration"):
        next(old)
    never_used = iter(batches)
    assert len(list(batches)) == 100
    del never_used


def test_two_passes_side_by_side():
    ds = hd.range(1000)
    pairs = list(zip(ds.iter_batches(batch_size=10), ds.iter_batches(batch_size=10), strict=True))
    assert len(pairs) == 100 and all(a["id"].tolist() == b["id"].tolist() for a, b in pairs)


def test_nested_loops_of_one_iterable_are_distinguished():
    ds = hd.range(6)
    pairs = [
        (a["id"][0], b["id"][0]) for a in ds.iter_batches(batch_size=3) for b in ds.iter_batches(batch_size=3)
    ]
    assert pairs == [(0, 0), (0, 3), (3, 0), (3, 3)]


def test_stats():
    ds = hd.range(1000)
    batches = ds.iter_batches(batch_size=100)
    assert batches.stats("dict") == {}
    it = iter(batches)
    next(it)
    assert isinstance(batches.stats("dict"), dict) and batches.stats("dict")
    list(it)
    assert batches.stats("dict") == ds.stats("dict")
    counted = ds.map_batches(lambda b: b, compute="inline")
    counted.count()
    assert counted.stats("dict")


def test_two_threads_on_one_pass():
    refused = threading.Event()

    def wait(batch):
        refused.wait(60)
        return batch

    it = iter(hd.range(100).map_batches(wait, compute="threads").iter_batches(batch_size=10))
    errors = []

    def read():
        try:
            next(it)
        except exceptions.InvalidArgument as e:
            errors.append(e)
            refused.set()

    threads = [threading.Thread(target=read) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(errors) == 1 and "two threads" in str(errors[0])


def test_closing_from_another_thread():
    def slow(batch):
        time.sleep(0.2)
        return batch

    rows = hd.range(4096 * 500)  # 100 s
    batches = rows.map_batches(slow, compute="threads", concurrency=1).iter_batches(batch_size=4096)
    it = iter(batches)
    threading.Timer(0.1, batches.close).start()
    begun = time.monotonic()
    assert len(list(it)) < 250
    assert time.monotonic() - begun < 50


# --------------------------------------------------------------------------------------------------- splits


def consume(shards, read):
    """Runs read(shard) in one thread per shard; returns their results or raises the first error."""
    out = [None] * len(shards)

    def run(i):
        try:
            out[i] = read(shards[i])
        except BaseException as e:
            out[i] = e

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(shards))]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
        assert not t.is_alive()
    return out


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("compute", [None, "inline", "threads", "processes"])
def test_split(n, compute):
    ds = hd.range(100)
    if compute:
        ds = ds.map_batches(lambda b: {"id": b["id"]}, batch_size=7, compute=compute)
    shards = ds.streaming_split(n, equal=True)
    assert len(shards) == n and all(isinstance(s, hd.DataIterator) for s in shards)
    found = consume(shards, lambda s: ids_of(s.iter_batches(batch_size=8)))
    steps = 100 // (8 * n)
    for rank, batches in enumerate(found):
        assert not isinstance(batches, BaseException), batches
        for step in range(steps):
            begin = (step * n + rank) * 8
            assert batches[step] == list(range(begin, begin + 8))
    sizes = {tuple(len(b) for b in batches) for batches in found}
    assert len(sizes) == 1  # every rank the same number of batches of the same sizes
    assert sum(sum(s) for s in sizes) * n == 100 - 100 % n


def test_uneven_split_gives_all_rows():
    found = consume(hd.range(101).streaming_split(3), lambda s: ids_of(s.iter_batches(batch_size=8)))
    assert sorted(v for rank in found for b in rank for v in b) == list(range(101))


def test_split_epochs():
    shards = hd.range(64).streaming_split(2, equal=True)

    def two(shard):
        batches = shard.iter_batches(batch_size=8)
        return [ids_of(batches), ids_of(batches), ids_of(shard.iter_batches(batch_size=4, drop_last=True))]

    one, other = consume(shards, two)
    assert one[0] == one[1] != other[0]
    assert [v for b in one[2] for v in b][:8] == [0, 1, 2, 3, 8, 9, 10, 11]


def test_split_rows_and_formats():
    found = consume(hd.range(10).streaming_split(2), lambda s: [r["id"] for r in s.iter_rows()])
    assert found == [[0, 2, 4, 6, 8], [1, 3, 5, 7, 9]]
    frames = consume(
        hd.range(8).streaming_split(2), lambda s: list(s.iter_batches(batch_size=4, batch_format="pandas"))
    )
    assert frames[1][0]["id"].tolist() == [4, 5, 6, 7]
    kept = consume(hd.range(4096).streaming_split(2), lambda s: s.materialize().count())
    assert kept == [2048, 2048]


def test_split_says_schema_and_stats():
    shards = hd.range(10).streaming_split(2)
    assert shards[0].schema().names == ["id"]
    consume(shards, lambda s: list(s.iter_batches(batch_size=5)))
    assert shards[1].stats("dict")


def test_ranks_must_agree():
    shards = hd.range(100).streaming_split(2)
    found = consume(shards, lambda s: list(s.iter_batches(batch_size=4 if s is shards[0] else 5)))
    assert all(isinstance(e, exceptions.MismatchError) for e in found)
    assert "4" in str(found[0]) and "5" in str(found[0])


def test_a_rank_that_leaves_blocks_nobody():
    shards = hd.range(1000).streaming_split(2, equal=True)

    def read(shard):
        seen = 0
        for _ in shard.iter_batches(batch_size=10):
            seen += 1
            if shard is shards[0] and seen == 2:
                break
        return seen

    assert consume(shards, read) == [2, 50]


def test_a_share_that_is_given_up():
    shards = hd.range(1000).streaming_split(2, equal=True)

    def read(shard):
        if shard is shards[0]:
            shard.close()
            return 0
        return len(list(shard.iter_batches(batch_size=10)))

    assert consume(shards, read)[1] == 50


def test_errors_reach_every_rank():
    def bad(batch):
        raise KeyError("gone")

    found = consume(
        hd.range(100).map_batches(bad, compute="threads").streaming_split(2),
        lambda s: list(s.iter_batches(batch_size=10)),
    )
    assert any(isinstance(e, KeyError) for e in found)
    assert all(isinstance(e, Exception) for e in found)


LEFT_OPEN = """
import time
import headrace.data as hd

def fn(batch):
    time.sleep(0.001)
    return batch

kept = []
split = hd.range(50).streaming_split(1)[0]
for ds in (hd.range(10**9), hd.range(1000).map_batches(fn, batch_size=10), split):
    for batches in (ds.iter_rows(), ds.iter_batches(batch_size=4)):
        kept.append(iter(batches))
        next(kept[-1])
"""


LEFT_OPEN_WITH_TORCH = """
import torch
import headrace.data as hd

class Items(torch.utils.data.Dataset):
    def __len__(self):
        return 2000

    def __getitem__(self, i):
        return torch.ones(3)

batches = iter(hd.from_torch(Items()).iter_torch_batches(batch_size=10))
next(batches)
"""


@pytest.mark.parametrize("program", [LEFT_OPEN, LEFT_OPEN_WITH_TORCH], ids=["engine", "torch"])
def test_a_program_ends_while_iterators_are_open(program):
    """The story: "Exception ignored in ... __del__", twice, below each program that took one batch; again of
    programs with torch, where other modules go first.
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_pass_cannot_be_pickled_and_its_iterable_can():
    batches = hd.range(30).iter_batches(batch_size=10)
    passing = iter(batches)
    next(passing)
    with pytest.raises(exceptions.UnsupportedError, match="pickle the iterable that iter_batches"):
        pickle.dumps(passing)
    again = pickle.loads(pickle.dumps(batches))
    again.load_state_dict(batches.state_dict())
    assert [b["id"][0] for b in again] == [10, 20]
