"""Shares of a streaming_split by rows: their order, their positions, and what happens at an epoch's end."""

import itertools
import json
import random
import tempfile
import threading
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace.data as hd
from headrace import exceptions, train

N = 2003


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Row groups of 7, 300 and 1 rows: ids 0 .. 2002, with a text and a list."""
    path = tmp_path_factory.mktemp("shares")
    ids = np.arange(N)
    table = pa.table(
        {"id": ids, "text": [f"row {i}" for i in ids], "list": [list(range(i % 4)) for i in ids]}
    )
    for f, (begin, end, group) in enumerate([(0, 50, 7), (50, 2000, 300), (2000, N, 1)]):
        pq.write_table(table.slice(begin, end - begin), path / f"{f}.parquet", row_group_size=group)
    return path


def on_all(shards, read):
    """read(rank, share) of all shares at the same time; what they return, by rank."""
    out, errors = [None] * len(shards), []

    def run(rank):
        try:
            out[rank] = read(rank, shards[rank])
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=run, args=(r,)) for r in range(len(shards))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if errors:
        raise errors[0]
    return out


def ids(rows):
    return [row["id"] for row in rows]


def first(rows, n):
    """The first n rows; the pass stays open as long as its iterator."""
    one = iter(rows)
    return one, [next(one)["id"] for _ in range(n)]


# ---------------------------------------------------------------------------------------------------- by rows


@pytest.mark.parametrize("equal", [True, False])
@pytest.mark.parametrize("n", [1, 2, 3, 8, 500])
def test_rows_go_to_the_ranks_in_turn(folder, n, equal):
    shards = hd.read_parquet(folder).streaming_split(n, equal=equal)
    got = on_all(shards, lambda r, s: ids(s.iter_rows()))
    end = N // n * n if equal else N
    assert got == [list(range(r, end, n)) for r in range(n)]
    assert shards[0].stats("dict")["rows"] == [len(g) for g in got]


def test_inline_functions_of_several_threads(folder):
    """The story: the threads of two ranks ran inline functions at the same time, which drew from each other's
    random numbers and shared an instance.
    """

    class Noise:
        inside = 0

        def __call__(self, batch):
            assert self.inside == 0
            self.inside = 1
            first = np.random.random()
            time.sleep(0.0005)
            self.inside = 0
            return {"id": batch["id"], "r": first + np.random.random(len(batch["id"]))}

    ds = hd.read_parquet(folder).map_batches(Noise, batch_size=50, compute="inline", concurrency=1)
    want = [b["r"].tolist() for b in ds.iterator().iter_batches(batch_size=20)]
    shards = ds.streaming_split(4)
    got = on_all(shards, lambda r, s: [b["r"].tolist() for b in s.iter_batches(batch_size=20)])
    assert [b for turn in itertools.zip_longest(*got) for b in turn if b] == want


@pytest.fixture
def stalls():
    context = hd.DataContext.get_current()
    was = context.stall_warning_s, context.stall_timeout_s
    context.stall_warning_s, context.stall_timeout_s = 0.2, 1
    yield context
    context.stall_warning_s, context.stall_timeout_s = was


def waiting_for_each_other(**how):
    """Two runs in two threads; the function of the first one waits for that of the second."""
    began, other = threading.Event(), threading.Event()

    def first(batch):
        began.set()
        assert other.wait(20)
        return batch

    def second(batch):
        other.set()
        return batch

    sets = hd.range(3).map_batches(first, compute="inline"), hd.range(3).map_batches(second, **how)

    def read(rank, ds):
        assert rank == 0 or began.wait(20)
        try:
            return ds.take_all()
        except exceptions.HeadraceError as e:
            other.set()
            return e

    return on_all(sets, read)


def test_inline_functions_that_wait_for_each_other(stalls):
    """They hung: the thread that runs an inline function has the process's turn, and nothing said so."""
    with pytest.warns(
        RuntimeWarning, match=r"second\) has waited 0.2 s in thread .* for map_batches\(.*first\)"
    ):
        got = waiting_for_each_other(compute="inline")
    assert len(got[0]) == 3
    assert isinstance(got[1], exceptions.PeerError) and "has waited 1 s" in str(got[1])
    assert "compute='threads'" in str(got[1])
    assert [len(rows) for rows in waiting_for_each_other(compute="threads")] == [3, 3]  # as the text says
    assert hd.range(3).map_batches(lambda b: b, compute="inline").count() == 3  # the turn is free again


def test_a_slow_inline_function_delays_others(stalls):
    stalls.stall_timeout_s = None

    def slow(batch):
        until = time.monotonic() + 20
        while not said and time.monotonic() < until:
            time.sleep(0.01)
        return batch

    sets = [hd.range(3).map_batches(slow, compute="inline")] * 2
    with pytest.warns(RuntimeWarning, match="inline functions of a process run one at a time") as said:
        assert [len(rows) for rows in on_all(sets, lambda r, ds: ds.take_all())] == [3, 3]


def test_rows_have_the_values_of_a_dataset(folder):
    ds = hd.read_parquet(folder)
    got = on_all(ds.streaming_split(3), lambda r, s: list(s.iter_rows()))
    want = list(ds.iter_rows())
    for r in range(3):
        assert [row["text"] for row in got[r]] == [row["text"] for row in want[r::3]]
        assert all(np.array_equal(a["list"], b["list"]) for a, b in zip(got[r], want[r::3], strict=True))
        got[r][0]["list"].sum()


def test_fewer_rows_than_ranks():
    with pytest.warns(RuntimeWarning, match="3 rows of the epoch are too few"):
        got = on_all(hd.range(3).streaming_split(4, equal=True), lambda r, s: ids(s.iter_rows()))
    assert got == [[], [], [], []]
    assert on_all(hd.range(3).streaming_split(4), lambda r, s: ids(s.iter_rows())) == [[0], [1], [2], []]
    assert on_all(hd.range(0).streaming_split(2), lambda r, s: ids(s.iter_rows())) == [[], []]


def test_a_local_shuffle_by_rows(folder):
    def read(n):
        shards = hd.read_parquet(folder).streaming_split(n)
        how = {"local_shuffle_buffer_size": 64, "local_shuffle_seed": 5}
        got = on_all(shards, lambda r, s: ids(s.iter_rows(**how)))
        return [i for turn in zip(*got, strict=False) for i in turn][:1900]

    one = read(1)
    assert one != sorted(one)
    assert read(4) == one


@pytest.mark.parametrize("seed", range(6))
def test_resume_at_any_row_with_any_number_of_ranks(folder, seed):
    """Taken by k ranks, resumed by others, twice; each row once, in the order of the turns."""
    draw = random.Random(seed)
    state, seen, epoch = None, 0, draw.randrange(2)
    for _ in range(3):
        n = draw.choice([1, 2, 3, 5])
        shards = hd.read_parquet(folder).streaming_split(n)
        rows = [s.iter_rows() for s in shards]
        for one in rows:
            if state:
                one.load_state_dict(state)
        if state is None and epoch:
            on_all(rows, lambda r, s: list(s))
        take = draw.choice([0, 1, draw.randrange(300)])
        taken = on_all(rows, lambda r, s, k=take: first(s, k))
        for r in range(n):
            assert taken[r][1] == list(range(seen + r, seen + take * n, n))
        state = json.loads(json.dumps(rows[draw.randrange(n)].state_dict()))
        assert take == 0 or state["epoch"] == epoch
        seen += take * n
    shards = hd.read_parquet(folder).streaming_split(2)
    rows = [s.iter_rows() for s in shards]
    for one in rows:
        one.load_state_dict(state)
    got = on_all(rows, lambda r, s: ids(s))
    assert got == [list(range(seen + r, N, 2)) for r in range(2)]


def test_ranks_at_different_rows_have_no_position(folder):
    shards = hd.read_parquet(folder).streaming_split(2)
    rows = [s.iter_rows() for s in shards]
    taken = on_all(rows, lambda r, s: first(s, 5 + r))
    with pytest.raises(exceptions.MismatchError, match="rank 0 has taken 5, rank 1 6"):
        rows[0].state_dict()
    next(taken[0][0])
    assert rows[0].state_dict() == rows[1].state_dict()


def test_the_end_of_an_epoch_by_rows():
    shards = hd.range(10).streaming_split(2)
    rows = [s.iter_rows() for s in shards]
    taken = on_all(rows, lambda r, s: first(s, 5))
    state = rows[0].state_dict()
    assert state["epoch"] == 0
    on_all([t[0] for t in taken], lambda r, one: list(one))
    assert rows[0].state_dict()["epoch"] == 1
    again = [s.iter_rows() for s in hd.range(10).streaming_split(2)]
    for one in again:
        one.load_state_dict(state)
    assert on_all(again, lambda r, s: list(s)) == [[], []]
    assert on_all(again, lambda r, s: ids(s)) == [[0, 2, 4, 6, 8], [1, 3, 5, 7, 9]]


def test_a_share_alone_has_all_rows(folder):
    share = hd.read_parquet(folder).shard()
    rows = share.iter_rows()
    one, got = first(rows, 77)
    state = rows.state_dict()
    del one
    assert got == list(range(77))
    rest = hd.read_parquet(folder).shard().iter_rows()
    rest.load_state_dict(state)
    assert ids(rest) == list(range(77, N))


def test_rows_and_batches_are_different_requests():
    shards = hd.range(10).streaming_split(2)
    reads = [lambda s: list(s.iter_rows()), lambda s: list(s.iter_batches(batch_size=1))]
    with pytest.raises(exceptions.MismatchError, match="rank 0: rows, batch_size 1"):
        on_all(shards, lambda r, s: reads[r](s))


def _by_rows(config):
    import torch

    got = []
    rows = train.get_dataset_shard("train").iter_rows()
    for row in rows:
        got.append(row["id"])
        if config["stop"] and len(got) == 137:
            torch.distributed.barrier()
            state = rows.state_dict()
            with tempfile.TemporaryDirectory() as path:
                train.report({"state": json.dumps(state)}, checkpoint=train.Checkpoint(path))
            raise KeyError("stop")
    train.report({"got": got})


@pytest.mark.usefixtures("forked_ranks")
def test_a_trainer_by_rows_resumes_at_the_row(folder, tmp_path):
    torch_trainer = pytest.importorskip("headrace.train.torch").TorchTrainer

    def fit(stop, workers):
        return torch_trainer(
            _by_rows,
            train_loop_config={"stop": stop},
            datasets={"train": hd.read_parquet(folder)},
            scaling_config=train.ScalingConfig(num_workers=workers),
            run_config=train.RunConfig(name="rows", storage_path=str(tmp_path)),
        ).fit()

    with pytest.raises(train.TrainingFailedError, match="stop"):
        fit(True, 2)
    assert fit(False, 1).metrics["got"] == list(range(274, N))


# ----------------------------------------------------------------------------------------------- last rows


def steps(rank, share, batch_size=4, drop_last=False):
    batches = share.iter_batches(batch_size=batch_size, drop_last=drop_last)
    return [(b["id"].tolist(), b.get("__pad__", np.zeros(0)).tolist()) for b in batches]


def test_drop_pad_and_uneven():
    ds = hd.range(21)  # two full steps of 2 x 4 rows; 5 are left
    no = [False] * 4
    got = on_all(ds.streaming_split(2, tail="pad"), steps)
    assert got[0] == [([0, 1, 2, 3], no), ([8, 9, 10, 11], no), ([16, 17, 18], [False] * 3)]
    assert got[1] == [([4, 5, 6, 7], no), ([12, 13, 14, 15], no), ([19, 20, 16], [False, False, True])]
    drop = on_all(ds.streaming_split(2, tail="drop"), steps)
    assert [s[-1][0] for s in drop] == [[16, 17], [18, 19]]
    assert drop == on_all(ds.streaming_split(2, equal=True), steps)
    uneven = on_all(ds.streaming_split(2, tail="uneven"), steps)
    assert [s[-1][0] for s in uneven] == [[16, 17, 18, 19], [20]]
    assert uneven == on_all(ds.streaming_split(2, equal=False), steps)


@pytest.mark.parametrize("by_row", [False, True])
@pytest.mark.parametrize("n", [1, 2, 3, 5, 7])
def test_padding_hides_no_row_and_is_counted(folder, n, by_row):
    shards = hd.read_parquet(folder).select_columns(["id"]).streaming_split(n, tail="pad")

    def read(rank, share):
        if by_row:
            return [(row["id"], row["__pad__"]) for row in share.iter_rows()]
        batches = share.iter_torch_batches(batch_size=64)
        return [(int(i), bool(p)) for b in batches for i, p in zip(b["id"], b["__pad__"], strict=True)]

    for _ in range(2):
        got = on_all(shards, read)
        assert len({len(g) for g in got}) == 1
        assert sorted(i for g in got for i, pad in g if not pad) == list(range(N))
        padded = sum(pad for g in got for _, pad in g)
        assert padded == -N % n
        stats = shards[0].stats("dict")
        assert (stats["dropped_rows"], stats["padded_rows"]) == (0, padded)
    assert stats["all_epochs"] == {"ended": 2, "dropped_rows": 0, "padded_rows": 2 * padded}
    assert "__pad__" in shards[0].schema().names


def test_padding_is_the_same_after_a_resume():
    whole = on_all(hd.range(21).streaming_split(2, tail="pad"), steps)
    batches = [s.iter_batches(batch_size=4) for s in hd.range(21).streaming_split(2, tail="pad")]

    def take_two(rank, mine):
        one = iter(mine)
        next(one), next(one)
        return one

    open_passes = on_all(batches, take_two)
    state = batches[0].state_dict()
    del open_passes
    rest = [s.iter_batches(batch_size=4) for s in hd.range(21).streaming_split(2, tail="pad")]
    for one in rest:
        one.load_state_dict(state)
    got = on_all(rest, lambda r, s: [(b["id"].tolist(), b["__pad__"].tolist()) for b in s])
    assert got == [w[2:] for w in whole]


def test_wrong_tails():
    with pytest.raises(exceptions.InvalidArgument, match="expected 'drop', 'pad' or 'uneven'"):
        hd.range(3).streaming_split(2, tail="equal")
    with pytest.raises(exceptions.InvalidArgument, match="equal=True"):
        hd.range(3).streaming_split(2, equal=True, tail="uneven")
    with pytest.raises(exceptions.InvalidArgument, match="__pad__"):
        hd.from_items([{"__pad__": 1}]).streaming_split(2, tail="pad")
    with pytest.raises(ValueError, match="expected 'drop', 'pad' or 'uneven'"):
        train.DataConfig(tail={"train": True})
    with pytest.raises(ValueError, match="are not split"):
        train.DataConfig([], tail={"test": "pad"}).configure({"test": hd.range(3)}, 2, None, None)


def test_statistics_right_after_a_pass():
    """The story: for the moment in which the last rank ended the run, the statistics had none."""

    def read(iterable):
        for _ in iterable:
            pass

    for _ in range(100):
        first, second = (
            share.iter_batches(batch_size=1000) for share in hd.range(20_000).streaming_split(2, equal=True)
        )
        other = threading.Thread(target=read, args=(second,))
        other.start()
        read(first)
        other.join()
        found = first.stats("dict")
        assert found["run"]["taken_rows"] > 0 and found["verdict"]


def _count(config):
    seen = {}
    for _ in range(2):
        for name in ("train", "test", "rest"):
            batches = train.get_dataset_shard(name).iter_batches(batch_size=4)
            seen[name] = [int(i) for b in batches for i in b["id"]]
    train.report(seen)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.usefixtures("forked_ranks")
def test_policies_of_a_trainer_and_their_counts(tmp_path, workers):
    torch_trainer = pytest.importorskip("headrace.train.torch").TorchTrainer
    result = torch_trainer(
        _count,
        datasets={"train": hd.range(21), "test": hd.range(21), "rest": hd.range(21)},
        scaling_config=train.ScalingConfig(num_workers=workers),
        dataset_config=train.DataConfig(tail={"test": "pad", "rest": "uneven"}),
        run_config=train.RunConfig(name="tails", storage_path=str(tmp_path)),
    ).fit()
    none = {"epochs": 2, "dropped_rows": 0, "padded_rows": 0}
    n = 2 if workers else 0
    assert result.datasets == {
        "train": none | {"dropped_rows": n},
        "test": none | {"padded_rows": n},
        "rest": none,
    }
    assert train.Result.from_path(result.path).datasets == result.datasets
    assert [len(result.metrics[name]) for name in ("train", "test", "rest")] == (
        [10, 11, 12] if workers else [21, 21, 21]
    )


# ------------------------------------------------------------------------------------------- replica groups


@pytest.mark.parametrize("tail", ["drop", "pad", "uneven"])
@pytest.mark.parametrize("by_row", [False, True])
def test_the_members_of_a_group_get_the_same_batches(folder, tail, by_row):
    ds = hd.read_parquet(folder).select_columns(["id", "text"])

    def read(rank, share):
        if by_row:
            return [[row["id"]] for row in share.iter_rows()]
        return [b["id"].tolist() for b in share.iter_batches(batch_size=32)]

    alone = on_all(ds.streaming_split(2, tail=tail), read)
    shards = ds.streaming_split(6, tail=tail, replicas=3)
    for _ in range(2):
        assert on_all(shards, read) == [alone[0]] * 3 + [alone[1]] * 3


def test_the_members_own_their_batches():
    def double(rank, share):
        out = []
        for batch in share.iter_torch_batches(batch_size=5):
            batch["id"] *= 2 + rank
            out += batch["id"].tolist()
        return out

    assert on_all(hd.range(10).streaming_split(2, replicas=2), double) == [
        [2 * i for i in range(10)],
        [3 * i for i in range(10)],
    ]


def test_groups_resume_with_another_number_of_ranks(folder):
    def begin(n, replicas, state, take):
        batches = [
            s.iter_batches(batch_size=32)
            for s in hd.read_parquet(folder).streaming_split(n, replicas=replicas)
        ]

        def some(rank, one):
            if state:
                one.load_state_dict(state)
            begun = iter(one)
            got = [i for b in itertools.islice(begun, take) for i in b["id"].tolist()]
            return begun, got

        return batches, on_all(batches, some)

    batches, taken = begin(4, 2, None, 5)
    assert taken[0][1] == taken[1][1] and taken[2][1] == taken[3][1]
    state = batches[3].state_dict()
    _, rest = begin(3, 3, state, None)
    assert [got for _, got in rest] == [list(range(320, N))] * 3


def test_wrong_groups():
    for replicas in (0, 3, 5, 1.5):
        with pytest.raises(exceptions.InvalidArgument, match="divisor of the 4 ranks"):
            hd.range(9).streaming_split(4, replicas=replicas)
    with pytest.raises(ValueError, match="replicas"):
        train.DataConfig(replicas=0)


def _see(config):
    got = [b["id"].tolist() for b in train.get_dataset_shard("train").iter_batches(batch_size=4)]
    train.report({"got": got})
    return got


@pytest.mark.usefixtures("forked_ranks")
def test_groups_of_a_trainer(tmp_path):
    torch_trainer = pytest.importorskip("headrace.train.torch").TorchTrainer
    result = torch_trainer(
        _see,
        datasets={"train": hd.range(12)},
        scaling_config=train.ScalingConfig(num_workers=2),
        dataset_config=train.DataConfig(replicas=2),
        run_config=train.RunConfig(name="groups", storage_path=str(tmp_path)),
    ).fit()
    assert result.metrics["got"] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]


def test_a_share_that_nobody_reads():
    """A share that is dropped before its first use does not end the workers of the next one."""
    ds = hd.range(200).map_batches(lambda b: b, batch_size=50)
    ds.shard()
    assert sum(len(b["id"]) for b in ds.shard().iter_batches(batch_size=32)) == 200
