"""Iterables that go on for many epochs: their order, their states, and the next epoch that opens early."""

import itertools
import json
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_shares import on_all

import headrace.data as hd
from headrace import exceptions

N = 1000


def plan():
    return hd.range(N).random_shuffle()


def ids(batches):
    return [b["id"].tolist() for b in batches]


def test_the_batches_of_one_pass_after_another():
    one = plan().iter_batches(batch_size=128)
    want = [ids(one) for _ in range(3)]
    assert want[0] != want[1]
    repeated = plan().iter_batches(batch_size=128).repeat(3)
    assert ids(repeated) == want[0] + want[1] + want[2]
    assert ids(itertools.islice(repeated, 8)) == ids(itertools.islice(one, 8))  # epoch 3, and so on
    repeated.close()


def test_without_an_end():
    repeated = hd.range(10).iter_rows().repeat()
    rows = [row["id"] for row in itertools.islice(repeated, 35)]
    assert rows == [i % 10 for i in range(35)]
    assert repeated.state_dict()["epoch"] == 3


@pytest.mark.parametrize("taken", [0, 1, 7, 8, 9, 17, 24])
def test_resume_in_any_epoch(taken):
    want = ids(plan().iter_batches(batch_size=128).repeat(3))
    first = plan().iter_batches(batch_size=128).repeat(3)
    begun = iter(first)
    assert ids(itertools.islice(begun, taken)) == want[:taken]
    state = json.loads(json.dumps(first.state_dict()))
    assert state["epoch"] == max(taken - 1, 0) // 8 or taken % 8 == 0
    rest = plan().iter_batches(batch_size=128).repeat(3)
    rest.load_state_dict(state)
    assert ids(rest) == want[taken:]


def test_breaking_off_does_not_count_the_epoch_that_opened_early():
    batches = hd.range(N).iter_batches(batch_size=100)
    repeated = batches.repeat(None)
    begun = iter(repeated)
    for _ in range(10):
        next(begun)
    assert repeated.state_dict()["epoch"] == 0
    repeated.close()
    assert list(begun) == []
    assert batches.state_dict()["epoch"] == 1


def test_the_next_epoch_opens_early(tmp_path):
    for f in range(3):
        pq.write_table(pa.table({"x": np.arange(5000)}), tmp_path / f"{f}.parquet")
    repeated = hd.read_parquet(tmp_path).iter_batches(batch_size=100).repeat(2)
    begun = iter(repeated)
    early = [repeated._iterable._owner.early.held() is not None for _ in itertools.islice(begun, 150)]
    assert early[-1]
    assert sum(len(b["x"]) for b in begun) == 15_000


def test_classes_begin_anew_in_each_epoch():
    class Count:
        def __init__(self):
            self.n = 0

        def __call__(self, batch):
            self.n += len(batch["id"])
            return {"n": np.array([self.n])}

    ds = hd.range(40).map_batches(Count, batch_size=10, concurrency=1)
    got = [row["n"] for row in ds.iter_rows().repeat(3)]
    assert got == [10, 20, 30, 40] * 3


def test_an_error_of_the_next_epoch_comes_at_its_border(monkeypatch):
    repeated = hd.range(10).iter_batches(batch_size=1).repeat(2)
    owner, calls = repeated._iterable._owner, []
    real = owner._pass

    def fail(request, epoch, position, how, share=None):
        calls.append(epoch)
        if epoch == 1:
            raise exceptions.StorageError("the files are gone")
        return real(request, epoch, position, how, share)

    monkeypatch.setattr(owner, "_pass", fail)
    begun = iter(repeated)
    assert len(list(itertools.islice(begun, 10))) == 10
    with pytest.raises(exceptions.StorageError, match="gone"):
        next(begun)
    assert calls == [0, 1, 1]


def test_no_rows():
    assert list(hd.range(0).iter_batches().repeat()) == []
    assert list(hd.range(10).filter(expr="id > 10").iter_rows().repeat(5)) == []


def test_wrong_numbers():
    for n in (0, -1, 1.5, True, "2"):
        with pytest.raises(exceptions.InvalidArgument, match="repeat: n"):
            hd.range(3).iter_batches().repeat(n)


def test_pickled():
    repeated = pickle.loads(pickle.dumps(hd.range(6).iter_torch_batches(batch_size=3).repeat(2)))
    assert [b["id"].tolist() for b in repeated] == [[0, 1, 2], [3, 4, 5]] * 2


@pytest.mark.parametrize("by_row", [False, True])
@pytest.mark.parametrize("tail", ["drop", "pad"])
def test_shares(by_row, tail):
    def read(n, epochs):
        def of(rank, share):
            if by_row:
                return [row["id"] for row in share.iter_rows().repeat(epochs)]
            return [i for b in share.iter_batches(batch_size=7).repeat(epochs) for i in b["id"].tolist()]

        return on_all(plan().streaming_split(n, tail=tail), of)

    shares = plan().streaming_split(3, tail=tail)
    want = [[], [], []]
    for _ in range(3):
        how = {"batch_size": 1} if by_row else {"batch_size": 7}
        more = on_all(
            shares, lambda r, s, how=how: [i for b in s.iter_batches(**how) for i in b["id"].tolist()]
        )
        want = [a + b for a, b in zip(want, more, strict=True)]
    assert read(3, 3) == want


def test_shares_resume_in_a_later_epoch():
    def begin(batches, n, state=None):
        def take(rank, one):
            if state:
                one.load_state_dict(state)
            begun = iter(one)
            return begun, [b["id"].tolist() for b in itertools.islice(begun, n)]

        return on_all(batches, take)

    def made():
        return [s.iter_batches(batch_size=50).repeat(3) for s in plan().streaming_split(2)]

    want = [got for _, got in begin(made(), 100)]
    assert [len(w) for w in want] == [30, 30]
    for taken in (10, 13, 29):
        batches = made()
        open_passes = begin(batches, taken)
        state = batches[1].state_dict()
        del open_passes
        assert state["epoch"] == taken // 10 or taken == 10
        assert [got for _, got in begin(made(), 100, state)] == [w[taken:] for w in want]


def test_one_rank_resumes_all():
    """The story: one rank loaded a state of an epoch's end. The others took the epoch without rows for the
    last one, ended, and left the rank that had loaded it waiting.
    """
    made = [s.iter_batches(batch_size=50).repeat(3) for s in plan().streaming_split(2)]
    passes = on_all(made, lambda r, one: [p := iter(one), [next(p) for _ in range(20)]])
    state = made[0].state_dict()
    del passes
    whole = on_all(plan().streaming_split(2), lambda r, s: ids(s.iter_batches(batch_size=50).repeat(3)))
    made = [s.iter_batches(batch_size=50).repeat(3) for s in plan().streaming_split(2)]
    made[1].load_state_dict(state)
    assert on_all(made, lambda r, one: ids(one)) == [w[20:] for w in whole]


def test_a_rank_without_rows():
    """The story: the rank that got no batch of an uneven epoch took it for the last one, and the other waited
    for it.
    """
    shares = hd.range(30).streaming_split(2, tail="uneven")
    got = on_all(shares, lambda r, s: ids(s.iter_batches(batch_size=33).repeat(3)))
    assert got == [[list(range(30))] * 3, []]
    nothing = hd.range(30).filter(expr="id < 0").streaming_split(2, tail="uneven")
    assert on_all(nothing, lambda r, s: ids(s.iter_batches(batch_size=33).repeat())) == [[], []]


def test_shares_that_break_off_go_on_with_the_next_epoch():
    shares = hd.range(40).streaming_split(2)
    whole = [[0, 1, 2, 3, 4], [10, 11, 12, 13, 14], [20, 21, 22, 23, 24], [30, 31, 32, 33, 34]]

    def break_off(rank, share):
        return ids(itertools.islice(share.iter_batches(batch_size=5).repeat(), 3 + rank))

    got = on_all(shares, break_off)
    assert [b[0] for b in got[0]][:2] == [0, 10]
    again = on_all(shares, lambda r, s: ids(s.iter_batches(batch_size=5)))
    assert again[0] == whole
    del shares
