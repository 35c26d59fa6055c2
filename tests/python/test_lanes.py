"""Several hosts: the order of lanes, of which each host reads its own."""

import itertools
import json
import threading

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace.data as hd
from headrace.data import launchers, shares
from headrace.data.expressions import col
from headrace.data.iterator import LocalSource, SplitIterator, SplitOwner
from headrace.exceptions import InvalidArgument, MemoryLimitError, MismatchError

N = 9_001
LANES = 12


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lanes")
    sizes = [1, 700, 3_000, 50, 5_250]
    for i, (begin, n) in enumerate(zip(itertools.accumulate([0, *sizes]), sizes, strict=False)):
        table = pa.table({"id": np.arange(begin, begin + n)})
        pq.write_table(table, folder / f"{i}.parquet", row_group_size=211)
    return str(folder)


class OneRank(LocalSource):
    """As a rank of a launcher: its position and its resume do not depend on how far the others are."""

    def position(self, done=False, ahead=0):
        self.owner.know_code()
        return self.split.position_of(self.rank, ahead)

    def restore(self, text, moved=False, strict=False):
        return self.split.restore(text, moved, strict, True)


class Host:
    """Host k of K: an engine for its ranks, as a launcher's ranks on that host share it."""

    def __init__(self, ds, k, hosts, ranks, tail="equal", lanes=LANES, in_turn=False):
        here = ranks // hosts
        self.owner = SplitOwner(ds, ranks, tail)
        self.owner.split.expect(here)
        self.owner.split.lanes(lanes, hosts)
        self.ranks = range(k, ranks, hosts) if in_turn else range(k * here, (k + 1) * here)
        self.shares = [SplitIterator(OneRank(self.owner, r), ranks, r) for r in self.ranks]

    def close(self):
        self.owner.close()


class Run:
    """What all ranks of all hosts read: steps[epoch][step] = the rows of all ranks, and each host's state."""

    def __init__(self, ds, hosts, ranks, *, epochs=1, stop=None, state=None, size=16, in_turn=False, **more):
        options = {k: more.pop(k) for k in ("tail", "lanes") if k in more}
        made = [Host(ds, k, hosts, ranks, in_turn=in_turn, **options) for k in range(hosts)]
        self.ranks = {}
        self.states, errors = {}, []

        def read(rank, share):
            try:
                its = share.iter_batches(batch_size=size, **more)
                if state is not None:
                    its.load_state_dict(state)
                out = self.ranks[rank] = []
                for _ in range(epochs):
                    out.append([])
                    for batch in its:
                        out[-1].append(batch)
                        if len(out[-1]) == stop:
                            self.states[rank] = its.state_dict()
                            break
            except BaseException as e:
                errors.append(e)

        threads = [
            threading.Thread(target=read, args=(r, s))
            for h in made
            for r, s in zip(h.ranks, h.shares, strict=True)
        ]
        [t.start() for t in threads]
        [t.join(60) for t in threads]
        self.stats = [json.loads(h.owner.split.stats()) for h in made]
        [h.close() for h in made]
        if errors:
            raise errors[0]

    def steps(self, epoch=0, column="id"):
        """The rows of each step, in the order of the rows' numbers."""
        out = []
        for batches in itertools.zip_longest(*(self.ranks[r][epoch] for r in sorted(self.ranks))):
            batches = [b for b in batches if b is not None]
            values = np.concatenate([b[column] for b in batches])
            out.append(values[np.argsort(np.concatenate([b["id"] for b in batches]), kind="stable")].tolist())
        return out

    def lengths(self, epoch=0):
        return [len(self.ranks[r][epoch]) for r in sorted(self.ranks)]

    def rows(self, epoch=0):
        return sorted(itertools.chain(*self.steps(epoch)))


def parquet(files):
    return hd.read_parquet(files)


def batches(files):
    """Batches of a function count from a lane's start; its random numbers are those of the batch."""
    return hd.read_parquet(files).map_batches(
        lambda b: {
            "id": b["id"],
            "r": np.random.rand(len(b["id"])),
            "n": np.full(len(b["id"]), len(b["id"])),
        },
        batch_size=50,
        udf_modifying_row_count=False,
    )


def blocks(files):
    """The same for a function over blocks of the source, and then exact batches."""
    ds = hd.read_parquet(files).map_batches(
        lambda b: {
            "id": b["id"],
            "r": np.random.rand(len(b["id"])),
            "n": np.full(len(b["id"]), len(b["id"])),
        },
        udf_modifying_row_count=False,
    )
    return ds.map_batches(
        lambda b: b | {"n": b["n"] + 1000 * len(b["id"])},
        batch_size=30,
        udf_modifying_row_count=False,
        compute="threads",
    )


@pytest.mark.parametrize(("make", "here"), [(parquet, 1), (parquet, 2), (batches, 1), (blocks, 2)])
def test_any_number_of_hosts_has_one_order(files, make, here):
    """The steps are equal for all numbers of hosts with equally many ranks, and a resume goes on with
    them."""
    ds = make(files)
    columns = ["id"] if make is parquet else ["id", "r", "n"]
    for ranks in (6 * here, 4 * here):
        want = Run(ds, 1, ranks, epochs=2)
        for epoch in range(2):
            assert len(want.rows(epoch)) > N - ranks
            assert len(set(want.rows(epoch))) == len(want.rows(epoch))
        position = None
        for hosts in (1, 2, 3, 4, 6):
            if ranks % hosts:
                continue
            run = Run(ds, hosts, ranks, epochs=2) if hosts > 1 else want
            for column in columns:
                assert run.steps(0, column) == want.steps(0, column)
                assert run.steps(1, column) == want.steps(1, column)
            assert len(set(run.lengths())) == 1
            stopped = Run(ds, hosts, ranks, stop=7)
            positions = {s["position"] for s in stopped.states.values()}
            assert len(positions) == 1 and position in (None, *positions)  # common to all ranks and hosts
            position = positions.pop()
            rest = Run(ds, ranks // here, ranks, state=stopped.states[0], lanes=1, epochs=2)
            for column in columns:
                assert rest.steps(0, column) == want.steps(0, column)[7:]
                assert rest.steps(1, column) == want.steps(1, column)  # the position's lanes stay


@pytest.mark.parametrize("tail", ["equal", "pad", "uneven"])
def test_the_tail(files, tail):
    ds = hd.read_parquet(files)
    for hosts, ranks, size in [(2, 4, 16), (3, 6, 100), (6, 6, 7), (2, 6, 5_000)]:
        run = Run(ds, hosts, ranks, tail=tail, size=size)
        rows = run.rows()
        assert run.steps() == Run(ds, 1, ranks, tail=tail, size=size).steps()
        if tail == "uneven":
            assert rows == list(range(N))
            continue
        assert len(set(run.lengths())) == 1
        assert len(set(len(b["id"]) for batches in run.ranks.values() for b in batches[0][-1:])) == 1
        if tail == "equal":
            assert len(set(rows)) == len(rows) > N - ranks
            assert all(s["dropped_rows"] == N - len(rows) for s in run.stats)
        else:
            pads = sum(int(b["__pad__"].sum()) for batches in run.ranks.values() for b in batches[0])
            assert set(rows) == set(range(N)) and len(rows) == N + pads < N + ranks


@pytest.mark.filterwarnings("ignore:no rank got a row")
@pytest.mark.parametrize("n", [0, 1, 5, 13, 400])
def test_few_rows(n):
    ds = hd.range(n)
    for hosts, ranks in [(1, 6), (2, 6), (6, 6)]:
        assert Run(ds, hosts, ranks, tail="uneven").rows() == list(range(n))
        assert len(set(Run(ds, hosts, ranks, tail="pad").lengths())) == 1
        assert len(Run(ds, hosts, ranks).rows()) == n // ranks * ranks


def test_local_shuffle_within_lanes(files):
    """Files in a random order, then windows within each lane: a new order in each epoch, for all hosts the
    same."""
    ds = hd.read_parquet(files)
    more = {"local_shuffle_buffer_size": 500, "tail": "uneven"}
    want = Run(ds, 1, 6, epochs=3, **more)
    for epoch in range(3):
        assert want.rows(epoch) == list(range(N))
    assert want.steps(0)[0] != want.steps(1)[0] != want.steps(2)[0]
    for hosts in (2, 3, 6):
        run = Run(ds, hosts, 6, epochs=3, **more)
        assert [run.steps(e) for e in range(3)] == [want.steps(e) for e in range(3)]
        state = Run(ds, hosts, 6, stop=40, **more).states[0]
        rest = Run(ds, 1 if hosts == 3 else 3, 6, state=state, epochs=2, **more)
        assert rest.steps(0) == want.steps(0)[40:]
        assert rest.steps(1) == want.steps(1)
    ds = ds.randomize_block_order(seed=7)
    assert Run(ds, 3, 6).steps() == Run(ds, 1, 6).steps() != Run(hd.read_parquet(files), 1, 6).steps()


def test_a_host_reads_its_lanes_alone(tmp_path):
    """Rows that the readers of host k of K decode: about 1 / K of all, also after a resume."""
    n = 120_000
    for i in range(4):
        table = pa.table({"id": np.arange(i * n // 4, (i + 1) * n // 4)})
        pq.write_table(table, tmp_path / f"{i}.parquet", row_group_size=1_000)
    ds = hd.read_parquet(str(tmp_path))
    for hosts in (2, 3, 6):
        run = Run(ds, hosts, 6)
        read = [s["run"]["lanes"]["rows_read"] for s in run.stats]
        assert all(n / hosts <= r < 1.1 * n / hosts for r in read), read
        assert sum(len(b) for b in run.steps()) == n
    state = Run(ds, 2, 6, stop=1_000).states[0]  # 96,000 rows were taken
    rest = Run(ds, 3, 6, state=state)
    assert sum(s["run"]["lanes"]["rows_read"] for s in rest.stats) < 1.2 * (n - 96_000) + 3 * 12 * 100


def test_files_of_one_row(tmp_path):
    """A host opens the files of its lanes alone."""
    for i in range(150):
        (tmp_path / f"{i:03}").write_bytes(bytes([i]))
    ds = hd.read_binary_files(str(tmp_path)).map(lambda r: {"id": r["bytes"][0]})
    for hosts in (1, 3, 6):
        run = Run(ds, hosts, 6, tail="uneven", size=2)
        assert run.rows() == list(range(150))
        opened = [s["run"]["files_opened"] for s in run.stats]
        assert all(n <= 150 // hosts + LANES for n in opened), opened


def test_memory_stays_under_its_limit(tmp_path):
    """Lanes read ahead together: their memory is that of one run."""
    n = 100_000
    x = [np.random.default_rng(1).bytes(400)] * n
    for i in range(4):
        table = pa.table({"id": np.arange(i * n, i * n + n), "x": x})
        pq.write_table(
            table, tmp_path / f"{i}.parquet", row_group_size=5_000, compression=None, use_dictionary=False
        )
    ds = hd.read_parquet(str(tmp_path))
    context = hd.DataContext.get_current()
    before, context.memory_limit_bytes = context.memory_limit_bytes, 64 << 20
    try:
        run = Run(ds, 1, 4, size=64, tail="uneven")
        context.memory_limit_bytes = 16 << 20
        with pytest.raises(MemoryLimitError, match="the plan needs at least"):
            Run(ds, 1, 4, size=64)
    finally:
        context.memory_limit_bytes = before
    assert sum(run.lengths()) == 4 * n // 64
    assert run.stats[0]["run"]["peak_bytes"] < 1.1 * (64 << 20), run.stats


def test_slices_have_lanes(files):
    train, test = hd.read_parquet(files).train_test_split(0.25)
    a, b = Run(train, 2, 4, tail="uneven"), Run(test, 3, 6, tail="uneven")
    assert a.rows() + b.rows() == list(range(N))
    assert a.stats[0]["lanes"] == LANES
    assert Run(hd.read_parquet(files).limit(500), 2, 4, tail="uneven").rows() == list(range(500))
    shuffled = Run(train, 3, 6, tail="uneven", local_shuffle_buffer_size=100)
    assert shuffled.rows() == a.rows()  # the order of the files is that of the slice


class Same:
    def __call__(self, batch):
        return batch


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda ds: ds.filter(expr=col("id") >= 0), "filter"),
        (lambda ds: ds.map_batches(lambda b: b, compute="threads"), "map_batches"),
        (lambda ds: ds.random_shuffle(seed=1), "random_shuffle"),
        (lambda ds: ds.union(ds), "union has several sources"),
        (lambda ds: ds.sort("id"), "sort"),
        (
            lambda ds: ds.map_batches(Same, concurrency=2, udf_modifying_row_count=False),
            "map_batches(Same) is a",
        ),
    ],
)
def test_plans_without_lanes(files, make, why, capsys):
    """Each host reads all rows, as explain() says, in the order of one host without lanes."""
    ds = make(hd.read_parquet(files))
    ds.explain()
    assert f"each reads all rows: {why}" in capsys.readouterr().out
    run = Run(ds, 3, 6)
    assert run.steps() == Run(ds, 1, 6, lanes=1).steps()
    assert run.stats[0]["lanes"] == 1


def test_numbering_of_ranks(files):
    """In turn, as MPI can; any other is an error, but not with one lane."""
    ds = hd.read_parquet(files)
    want = Run(ds, 1, 6)
    assert Run(ds, 3, 6, in_turn=True).steps() == want.steps()
    host = Host(ds, 0, 3, 6)
    host.ranks = (0, 5)
    with pytest.raises(InvalidArgument, match="6 ranks on 3 hosts: each host must have equally many"):
        read_pair(host)
    host = Host(ds, 0, 3, 6, lanes=1)
    host.ranks = (0, 5)
    read_pair(host)


def read_pair(host):
    errors = []

    def read(r):
        try:
            share = SplitIterator(OneRank(host.owner, r), 6, r)
            next(iter(share.iter_batches(batch_size=8)))
        except InvalidArgument as e:
            errors.append(e)

    threads = [threading.Thread(target=read, args=(r,)) for r in host.ranks]
    [t.start() for t in threads]
    [t.join(30) for t in threads]
    host.close()
    if errors:
        raise errors[0]


def test_positions(files):
    ds = hd.read_parquet(files)
    state = Run(ds, 2, 4, stop=3).states[0]
    with pytest.raises(MismatchError, match=r"by a split"):
        its = ds.iter_batches(batch_size=16)
        its.load_state_dict(state)
        next(iter(its))
    with pytest.raises(MismatchError, match=r"batches of 16 rows"):
        Run(ds, 2, 4, size=8, state=state)
    want = Run(ds, 1, 5)
    assert Run(ds, 5, 5).steps() == want.steps()  # 5 hosts read all of 12 lanes
    one = Run(ds, 1, 4, stop=3, lanes=1).states[0]  # the position of one host: its order stays
    assert Run(ds, 2, 4, state=one).steps() == Run(ds, 1, 4, lanes=1).steps()[3:]
    between = Run(ds, 2, 4)
    assert between.rows() == Run(ds, 1, 4).rows()


def test_shares(files, monkeypatch):
    """shard(lanes=): one rank has the order of several hosts; wrong numbers are errors."""
    monkeypatch.setenv("HEADRACE_LAUNCHER", "none")
    ds = hd.read_parquet(files)
    assert [b["id"].tolist() for b in ds.shard(lanes=12).iter_batches(batch_size=16)] == Run(ds, 1, 1).steps()
    plain = [b["id"].tolist() for b in ds.shard().iter_batches(batch_size=16)]
    assert list(itertools.chain(*plain)) == list(range(N))
    for wrong in (0, -1, 5_000, True, "x"):
        with pytest.raises(InvalidArgument, match="lanes: expected a number of 1 to 4096"):
            ds.shard(lanes=wrong)


def test_the_usual_number_of_lanes():
    assert [shares._usual_lanes(k) for k in (1, 2, 3, 4, 5, 6, 7, 8, 12, 13)] == [
        1, 12, 12, 12, 15, 12, 14, 16, 12, 13,
    ]  # fmt: skip
    env = {
        "RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2", "MASTER_PORT": "1",
        "TORCHELASTIC_RUN_ID": "x", "GROUP_RANK": "1",
    }  # fmt: skip
    assert launchers.current(env).n_hosts == 2
    assert launchers.current(env | {"GROUP_WORLD_SIZE": "3"}).n_hosts == 3
    assert launchers.current(env | {"LOCAL_WORLD_SIZE": "4"}).n_hosts == 1
