"""torch's DataLoader over datasets: each row once with any workers, in one order, epoch by epoch, resumed."""

import contextlib
import json
import os
import pickle
import subprocess
import sys
import textwrap
import traceback

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace.data as hd
from headrace import exceptions

torch = pytest.importorskip("torch")
from torch.utils.data import DataLoader, IterableDataset  # noqa: E402

N = 1003
WORKERS = [0, 1, 2, 3]


@contextlib.contextmanager
def raises(error, match):
    """pytest.raises() that lets go of the loader. torch raises a worker's exception in a cycle of references;
    when the garbage collector finds a loader in it, torch waits 5 s for each worker (some later test did).
    """
    with pytest.raises(error, match=match) as caught:
        yield
    traceback.clear_frames(caught.tb)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("loader")
    for i, (a, b) in enumerate([(0, 400), (400, 401), (401, 401), (401, N)]):
        pq.write_table(pa.table({"id": np.arange(a, b)}), path / f"{i}.parquet", row_group_size=90)
    return str(path)


def ids(loader):
    return [b[0].flatten().tolist() for b in loader]


PLANS = {
    "read": lambda d: d,
    "filter": lambda d: d.filter(expr="id % 3 != 1"),
    "function": lambda d: d.map_batches(lambda b: {"id": b["id"] * 2 + SHIFT}, compute="threads"),
    "shuffle": lambda d: d.random_shuffle(),
    "union": lambda d: d.union(d.limit(100)),
}
SHIFT = 1


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("plan", PLANS)
def test_each_row_once_and_in_order(folder, plan, workers):
    """The story: every row came once per worker. Epochs equal those without workers."""
    ds = PLANS[plan](hd.read_parquet(folder))
    alone = ds.iterator().to_torch(batch_size=7)
    expected = [[b[0].flatten().tolist() for b in alone] for _ in range(2)]
    assert (expected[0] == expected[1]) == (plan != "shuffle")
    loader = DataLoader(ds.iterator().to_torch(batch_size=7), batch_size=None, num_workers=workers)
    assert [ids(loader) for _ in range(2)] == expected


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_workers_that_are_no_forks(folder, method):
    if method == "forkserver" and sys.platform != "linux":
        pytest.skip("no fork server")
    ds = hd.read_parquet(folder).map_batches(lambda b: {"id": b["id"] + SHIFT}, compute="threads")
    expected = [b["id"].tolist() for b in ds.iter_batches(batch_size=100)]
    dataset = ds.iterator().to_torch(batch_size=100, local_shuffle_buffer_size=50)
    loader = DataLoader(dataset, batch_size=None, num_workers=2, multiprocessing_context=method)
    epochs = [ids(loader) for _ in range(2)]
    alone = ds.iterator().to_torch(batch_size=100, local_shuffle_buffer_size=50)
    assert epochs == [[b[0].flatten().tolist() for b in alone] for _ in range(2)]
    assert sorted(sum(epochs[0], [])) == sum(expected, [])


@pytest.mark.parametrize("workers", [2, 3])
def test_workers_that_stay(folder, workers):
    ds = hd.read_parquet(folder).random_shuffle()
    alone = ds.iterator().to_torch(batch_size=20)
    expected = [[b[0].flatten().tolist() for b in alone] for _ in range(3)]
    dataset = ds.iterator().to_torch(batch_size=20)
    loader = DataLoader(dataset, batch_size=None, num_workers=workers, persistent_workers=True)
    assert [ids(loader) for _ in range(3)] == expected
    assert dataset.state_dict() == {"version": 2, "epoch": 3, "position": None}
    del loader
    assert [b[0].flatten().tolist() for b in dataset] != expected[0]  # epoch 3


def test_batches_of_the_loader(folder):
    """If the DataLoader makes the batches, it fills each from one worker."""
    ds = hd.read_parquet(folder).add_column("y", lambda b: b["id"] % 10, compute="threads")
    seen = []
    for _ in range(2):
        loader = DataLoader(ds.to_torch(label_column="y"), batch_size=16, num_workers=3)
        seen.append([(x.flatten().tolist(), y.flatten().tolist()) for x, y in loader])
    assert sorted(sum((x for x, _ in seen[0]), [])) == list(range(N))
    assert all(y == [v % 10 for v in x] for x, y in seen[0])
    assert seen[0][1][0] == list(range(1, 48, 3))  # worker 1 has rows 1, 4, ...
    assert seen[0] == seen[1]


class Rows(IterableDataset):
    """A user's dataset around ours."""

    def __init__(self, ds, how):
        self.ds, self.how = ds, how

    def __iter__(self):
        if self.how == "rows":
            yield from (r["id"] for r in self.ds.iter_rows())
        elif self.how == "tables":
            yield from (b["id"] for b in self.ds.iter_batches(batch_size=None))
        else:
            yield from (b["id"] for b in getattr(self.ds, self.how)(batch_size=10))


@pytest.mark.parametrize("how", ["rows", "tables", "iter_batches", "iter_torch_batches"])
@pytest.mark.parametrize("workers", [1, 3])
def test_datasets_around_ours(folder, how, workers):
    ds = hd.read_parquet(folder).map_batches(lambda b: b, compute="threads")
    got = list(DataLoader(Rows(ds, how), batch_size=None, num_workers=workers))
    flat = [int(v) for b in got for v in (b if how != "rows" else [b])]
    assert flat == list(range(N))


class Lookup(torch.utils.data.Dataset):
    """A map-style dataset whose workers each read a whole table."""

    def __init__(self, ds):
        self.ds = ds

    def __len__(self):
        return 4

    def __getitem__(self, i):
        return sum(r["id"] for r in self.ds.iter_rows()), sum(b["id"].sum() for b in self.ds.iter_batches())


def test_other_datasets_get_all_rows(folder):
    loader = DataLoader(Lookup(hd.read_parquet(folder)), batch_size=None, num_workers=2)
    assert [tuple(int(x) for x in b) for b in loader] == [(N * (N - 1) // 2,) * 2] * 4


def test_what_a_pass_takes_itself_is_whole(folder):
    """take() and the like in a worker see all rows."""

    class Counts(IterableDataset):
        def __iter__(self):
            ds = hd.read_parquet(folder)
            yield ds.count(), len(ds.take_all()), ds.limit(5).to_arrow().num_rows

    found = [tuple(int(n) for n in b) for b in DataLoader(Counts(), batch_size=None, num_workers=2)]
    assert found == [(N, N, 5)] * 2


def test_errors_come_through(folder):
    def fails(batch):
        if batch["id"][0] > 500:
            raise ZeroDivisionError("of the user's")
        return batch

    ds = hd.read_parquet(folder).map_batches(fails, compute="threads")
    loader = DataLoader(ds.to_torch(batch_size=10), batch_size=None, num_workers=2)
    with raises(ZeroDivisionError, match="of the user's"):
        list(loader)


def test_a_dataset_itself():
    """The story: DataLoader(ds) failed deep inside torch."""
    ds = hd.range(10)
    for read in (
        lambda: list(DataLoader(ds)),
        lambda: list(DataLoader(ds, num_workers=2)),
        lambda: DataLoader(ds, shuffle=True),
        lambda: ds[0],
        lambda: len(ds),
    ):
        with raises(TypeError, match=r"to_torch\("):
            read()
    with pytest.raises(TypeError, match=r"iter_rows\(\)"):
        list(ds)
    assert ds and not isinstance(ds, IterableDataset)


def test_shares_do_not_go_to_workers():
    (shard,) = hd.range(100).streaming_split(1)
    loader = DataLoader(shard.to_torch(batch_size=10), batch_size=None, num_workers=2)
    with raises(exceptions.UnsupportedError, match="num_workers=0"):
        list(loader)
    loader = DataLoader(
        shard.to_torch(batch_size=10), batch_size=None, num_workers=1, multiprocessing_context="spawn"
    )
    with raises(exceptions.UnsupportedError, match="num_workers=0"):
        list(loader)
    shard.close()


@pytest.mark.parametrize(
    "method, workers",
    [("fork", 1), ("fork", 2), pytest.param("spawn", 2, marks=pytest.mark.thorough)],
)
def test_a_share_without_a_launcher_goes_to_workers(folder, method, workers):
    """The story: the program that also runs without torchrun ended in its workers."""
    ds = hd.read_parquet(folder).random_shuffle()
    alone = ds.shard().to_torch(batch_size=60)
    expected = [[b[0].flatten().tolist() for b in alone] for _ in range(3)]
    assert expected[0] != expected[1]
    dataset = ds.shard().to_torch(batch_size=60)
    options = {"batch_size": None, "num_workers": workers, "multiprocessing_context": method}
    loader = DataLoader(dataset, **options)
    assert [ids(loader) for _ in range(2)] == expected[:2]
    assert dataset.state_dict()["epoch"] == 2
    assert [b[0].flatten().tolist() for b in dataset] == expected[2]  # in this process

    half = iter(alone)
    for _ in range(4):
        next(half)
    state = alone.state_dict()
    rest = [b[0].flatten().tolist() for b in half]
    again = ds.shard().to_torch(batch_size=60)
    again.load_state_dict(state)
    assert len(rest) == len(expected[0]) - 4 and ids(DataLoader(again, **options)) == rest


def test_a_copy_of_a_share_without_a_launcher(folder):
    share = hd.read_parquet(folder).map_batches(lambda b: {"id": b["id"] * 2}, compute="threads").shard()
    whole = [b["id"].tolist() for b in share.iter_batches(batch_size=100)]
    copy = pickle.loads(pickle.dumps(share))  # also of one in use
    assert [b["id"].tolist() for b in copy.iter_batches(batch_size=100)] == whole
    iterable = pickle.loads(pickle.dumps(share.iter_batches(batch_size=100)))
    assert [b["id"].tolist() for b in iterable] == whole
    with pytest.raises(exceptions.UnsupportedError, match="pickle the iterable that iter_batches"):
        pickle.dumps(iter(share.iter_batches(batch_size=100)))


def test_without_an_order():
    context = hd.DataContext.get_current()
    context.execution_options.preserve_order = False
    try:
        loader = DataLoader(hd.range(100).to_torch(batch_size=10), batch_size=None, num_workers=2)
        with raises(Exception, match="preserve_order"):
            list(loader)
    finally:
        context.execution_options.preserve_order = True


# ----------------------------------------------------------------------------------------------- resuming


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_a_state_of_one_process(folder, workers):
    """The state is loaded before the workers start; they resume from it together, once."""
    ds = hd.read_parquet(folder).random_shuffle()
    whole = ds.iterator().to_torch(batch_size=10)
    epochs = [[b[0].flatten().tolist() for b in whole] for _ in range(3)]
    first = ds.iterator().to_torch(batch_size=10)
    next(iter(first))  # epoch 0 is left
    it = iter(first)
    for _ in range(7):
        next(it)
    state = json.loads(json.dumps(first.state_dict()))
    assert state["epoch"] == 1
    fresh = ds.iterator().to_torch(batch_size=10)
    fresh.load_state_dict(state)
    loader = DataLoader(fresh, batch_size=None, num_workers=workers)
    assert ids(loader) == epochs[1][7:]
    assert ids(loader) == epochs[2]


class Stateful(IterableDataset):
    """Imitates torchdata's StatefulDataLoader: state_dict() of the dataset after each item,
    load_state_dict() before the first one.
    """

    def __init__(self, dataset, states=None):
        self.dataset, self.states = dataset, states

    def __iter__(self):
        if self.states is not None:
            self.dataset.load_state_dict(self.states[torch.utils.data.get_worker_info().id])
            self.states = None
        for features, _ in self.dataset:
            yield features.flatten().tolist(), json.dumps(self.dataset.state_dict())


def test_states_of_workers(folder):
    ds = hd.read_parquet(folder).filter(expr="id % 7 != 2")
    expected = [b["id"].tolist() for b in ds.iter_batches(batch_size=10)]

    def run(states, workers=2):
        dataset = Stateful(ds.iterator().to_torch(batch_size=10), states)
        return list(DataLoader(dataset, batch_size=None, num_workers=workers))

    whole = run(None)
    assert [w[0] for w in whole] == expected
    states = [json.loads(whole[6][1]), json.loads(whole[7][1])]
    assert [s["workers"] for s in states] == [[0, 2, 7], [1, 2, 8]]
    assert [r[0] for r in run(states)] == expected[8:]
    with raises(exceptions.MismatchError, match="worker 0 of 2"):
        run([states[0]] * 3, 3)
    alone = ds.iter_torch_batches(batch_size=10)
    alone.load_state_dict(states[0])
    with pytest.raises(exceptions.MismatchError, match="expected the state of no worker"):
        list(alone)


def test_states_of_rows(folder):
    class States(Rows):
        def __init__(self, ds, states):
            self.rows, self.states = ds.iterator().iter_rows(), states

        def __iter__(self):
            if self.states is not None:
                self.rows.load_state_dict(self.states[torch.utils.data.get_worker_info().id])
            for row in self.rows:
                yield row["id"], json.dumps(self.rows.state_dict()) if row["id"] % 50 < 3 else ""

    ds = hd.read_parquet(folder)
    whole = list(DataLoader(States(ds, None), batch_size=None, num_workers=3))
    assert [w[0] for w in whole] == list(range(N))
    states = [json.loads(whole[i][1]) for i in (300, 301, 302)]
    rest = list(DataLoader(States(ds, states), batch_size=None, num_workers=3))
    assert [r[0] for r in rest] == list(range(303, N))


SCRIPT = """
    import sys
    import numpy as np
    import headrace.data as hd
    from torch.utils.data import DataLoader

    class Adds:
        def __init__(self, n):
            self.n = n
        def __call__(self, batch):
            return {"id": batch["data"] + self.n}

    def main():
        ds = hd.from_numpy(np.arange(100)).map_batches(Adds, fn_constructor_args=[K], concurrency=1)
        dataset = ds.to_torch(batch_size=10)
        for _ in range(2):
            loader = DataLoader(dataset, batch_size=None, num_workers=2, multiprocessing_context=sys.argv[1])
            print(sum((b[0].flatten().tolist() for b in loader), []) == list(range(5, 105)))

    K = 5
    if __name__ == "__main__":
        main()
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_functions_of_a_script(tmp_path, method):
    """Worker processes of a function, in worker processes of a DataLoader; and all of them end."""
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(SCRIPT))
    done = subprocess.run(
        [sys.executable, script, method], capture_output=True, text=True, timeout=300, env=dict(os.environ)
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["True", "True"]
