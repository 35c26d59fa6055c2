"""headrace.torch.DataLoader: the same batches as torch's DataLoader, and a state to resume from."""

import inspect
import os
import random
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import process_tree
import psutil
import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import (  # noqa: E402
    DataLoader as TorchLoader,
)
from torch.utils.data import (  # noqa: E402
    Dataset,
    DistributedSampler,
    IterableDataset,
    get_worker_info,
)

from headrace.exceptions import InvalidArgument, MismatchError, PeerError  # noqa: E402
from headrace.torch import DataLoader  # noqa: E402
from headrace.udf import starter  # noqa: E402

WORKERS = [(0, None), (2, "processes"), (2, "threads")]


class Squares(Dataset):
    def __init__(self, n=23):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return {"x": torch.full((500,), float(i)), "y": i * i, "name": f"row {i}"}


class Noise(Squares):
    def __getitem__(self, i):
        return torch.rand(3) + i


class Bad(Squares):
    def __getitem__(self, i):
        if i == 9:
            raise KeyError("row nine is bad")
        return i


class Dies(Squares):
    def __getitem__(self, i):
        if i == 9:
            os.kill(os.getpid(), signal.SIGKILL)
        return i


class Stops(Squares):
    def __getitem__(self, i):
        if i == 9:
            raise StopIteration
        return i


class Sleeps(Squares):
    def __getitem__(self, i):
        time.sleep(i)
        return i


class Stream(IterableDataset):
    def __init__(self, n=20):
        self.n = n

    def __iter__(self):
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        yield from range(first, self.n, step)


def text(batches):
    return [
        repr(b) if not isinstance(b, dict) else (b["y"].tolist(), b["name"], b["x"].sum().item())
        for b in batches
    ]


def seeded():
    return torch.Generator().manual_seed(7)


@pytest.mark.parametrize("n, workers", WORKERS)
def test_same_batches_as_torch(n, workers):
    """The second epoch too: the generator goes on."""
    ours = DataLoader(Squares(), 4, shuffle=True, num_workers=n, workers=workers, generator=seeded())
    theirs = TorchLoader(Squares(), 4, shuffle=True, generator=seeded())
    assert len(ours) == len(theirs) == 6
    for _ in range(2):
        assert text(ours) == text(theirs)


@pytest.mark.parametrize("n, workers", WORKERS)
@pytest.mark.parametrize("generator", [None, seeded])
def test_resume_gives_the_remaining_batches(n, workers, generator):
    def loader():
        return DataLoader(
            Squares(), 4, shuffle=True, num_workers=n, workers=workers, generator=generator and generator()
        )

    first = loader()
    it = iter(first)
    for _ in range(2):
        next(it)
    state = first.state_dict()
    rest = text(it)
    second = loader()
    second.load_state_dict(state)
    assert len(rest) == 4
    assert text(second) == rest
    assert len(text(second)) == 6


@pytest.mark.parametrize("workers", ["processes", "threads"])
def test_epochs_of_persistent_workers_are_torchs(workers):
    """The story: from the second epoch on, the order was another one than torch's, which draws no new seed
    from the generator for workers that stay.
    """

    def loader(cls, **more):
        generator = torch.Generator().manual_seed(5)
        how = {"shuffle": True, "generator": generator, "num_workers": 2, "persistent_workers": True}
        return cls(Squares(), batch_size=4, **how, **more)

    theirs, ours = loader(TorchLoader), loader(DataLoader, workers=workers)
    want = [[b["y"].tolist() for b in theirs] for _ in range(4)]
    assert [[b["y"].tolist() for b in ours] for _ in range(2)] == want[:2]
    begun = iter(ours)
    got = [next(begun)["y"].tolist() for _ in range(2)]
    state = ours.state_dict()
    other = loader(DataLoader, workers=workers)
    other.load_state_dict(state)
    for one in (begun, other):
        assert [b["y"].tolist() for b in one] == want[2][2:]
    assert got == want[2][:2]
    assert [[b["y"].tolist() for b in one] for one in (ours, other)] == [want[3]] * 2


def test_random_values_of_persistent_workers_differ_by_epoch():
    loader = DataLoader(Noise(), batch_size=4, num_workers=2, persistent_workers=True)
    first, second = (torch.cat(list(loader)) for _ in range(2))
    assert not torch.equal(first, second)
    begun = iter(loader)
    taken = [next(begun)]
    state = loader.state_dict()
    other = DataLoader(Noise(), batch_size=4, num_workers=2, persistent_workers=True)
    other.load_state_dict(state)
    assert torch.equal(torch.cat([*taken, *begun]), torch.cat([*taken, *other]))


class Resets(IterableDataset):
    """Its state after the last row is that of a new pass, as that of datasets which go round."""

    def __init__(self):
        self.at = 0

    def __iter__(self):
        while self.at < 8:
            self.at += 1
            yield self.at
        self.at = 0

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.at = state["at"]


@pytest.mark.parametrize("n", [0, 1, 2])
def test_resume_after_the_last_batch_of_a_dataset_that_resets(n):
    """The story: where the last batch was a short one, the resumed pass gave all rows once more, since
    the worker had seen the end, and its dataset's state was that of a new pass."""

    def loader():
        return DataLoader(Resets(), 3, num_workers=n)

    batches, states = [], []
    before = loader()
    for batch in before:
        batches.append(batch)
        states.append(before.state_dict())
    for i, state in enumerate(states):
        after = loader()
        after.load_state_dict(state)
        assert text(after) == text(batches[i + 1 :])
        assert text(after) == text(batches)


def test_resume_keeps_random_values():
    """A worker's random numbers depend on the batch, not on what the worker did before."""
    first = DataLoader(Noise(), 4, num_workers=2, generator=seeded())
    it = iter(first)
    next(it)
    state = first.state_dict()
    rest = text(it)
    second = DataLoader(Noise(), 4, num_workers=1, generator=seeded())
    second.load_state_dict(state)
    assert text(second) == rest


@pytest.mark.parametrize("n", [0, 2])
def test_iterable(n):
    def rows():
        return DataLoader(Stream(), 3, num_workers=n)

    expected = text(TorchLoader(Stream(), 3, num_workers=n))
    first = rows()
    assert text(first) == expected
    it = iter(first)
    for _ in range(3):
        next(it)
    second = rows()
    second.load_state_dict(first.state_dict())
    assert text(second) == expected[3:]


def test_torch_load_reads_a_state(tmp_path):
    """The story: it has refused arrays of NumPy since PyTorch 2.6. A state from before has one."""
    again = DataLoader(Squares(), 4, shuffle=True)
    it = iter(again)
    next(it)
    torch.save(again.state_dict(), tmp_path / "state.pt")
    state = torch.load(tmp_path / "state.pt", weights_only=True)
    rest = [b["y"].tolist() for b in it]
    name, key, *more = state["random"]["numpy"]
    before = {**state, "random": {**state["random"], "numpy": (name, key.numpy().astype(np.uint32), *more)}}
    for one in (state, before):
        loader = DataLoader(Squares(), 4, shuffle=True)
        loader.load_state_dict(one)
        assert [b["y"].tolist() for b in loader] == rest


def of_torchdata(taken, dataset=None, **options):
    """(a state of StatefulDataLoader after `taken` batches, the batches that come next)"""
    torchdata = pytest.importorskip("torchdata.stateful_dataloader", reason="needs torchdata")
    theirs = torchdata.StatefulDataLoader(dataset or Squares(), **options)
    batches = iter(theirs)
    for _ in range(taken):
        next(batches)
    return theirs.state_dict(), rows_of(batches)


def rows_of(batches):
    return [torch.as_tensor(b["y"]).tolist() if isinstance(b, dict) else b for b in batches]


OF_TORCHDATA = {
    "in order": {"batch_size": 4},
    "shuffled": {"batch_size": 4, "shuffle": True},
    "shuffled, drop_last": {"batch_size": 4, "shuffle": True, "drop_last": True},
    "single rows": {"batch_size": None, "shuffle": True},
}


@pytest.mark.parametrize("n, taken", [(0, 0), (0, 3), (2, 3)])
@pytest.mark.parametrize("name", OF_TORCHDATA)
def test_a_state_of_torchdata(name, n, taken):
    """The story: it was an error, and people had to end their epoch before they could change the import."""
    options = OF_TORCHDATA[name] | {"num_workers": n}
    state, rest = of_torchdata(taken, **options, **({"snapshot_every_n_steps": 2} if n else {}))
    ours = DataLoader(Squares(), **options)
    ours.load_state_dict(state)
    batches = iter(ours)
    assert rows_of([next(batches)]) == rest[:1]
    again = DataLoader(Squares(), **options)
    again.load_state_dict(ours.state_dict())
    assert rows_of(again) == rest[1:]
    assert rows_of(batches) == rest[1:]
    assert len(rows_of(ours)) == len(ours)  # the next epoch


def test_a_state_of_torchdata_with_replacement():
    def sampler():
        torchdata = pytest.importorskip("torchdata.stateful_dataloader.sampler", reason="needs torchdata")
        return torchdata.RandomSampler(Squares(), replacement=True, num_samples=50)

    state, rest = of_torchdata(3, batch_size=4, sampler=sampler())
    ours = DataLoader(Squares(), 4, sampler=torch.utils.data.RandomSampler(Squares(), True, 50))
    ours.load_state_dict(state)
    assert rows_of(ours) == rest


def test_a_state_of_torchdata_after_an_epoch():
    state, rest = of_torchdata(0, batch_size=4)
    assert len(rest) == 6
    torchdata = pytest.importorskip("torchdata.stateful_dataloader", reason="needs torchdata")
    theirs = torchdata.StatefulDataLoader(Squares(), batch_size=4)
    list(theirs)
    ours = DataLoader(Squares(), 4)
    ours.load_state_dict(theirs.state_dict())
    assert rows_of(ours) == rest


class WithState(Squares):
    def state_dict(self):
        return {"n": 1}

    def load_state_dict(self, state):
        pass


def test_states_of_torchdata_that_do_not_fit():
    state, _ = of_torchdata(3, batch_size=4)
    with pytest.raises(MismatchError, match="3 batches of 12 rows; found batch_size 5 of 23 rows"):
        DataLoader(Squares(), 5).load_state_dict(state)
    with pytest.raises(MismatchError, match="shuffle was False.*is True"):
        DataLoader(Squares(), 4, shuffle=True).load_state_dict(state)
    with pytest.raises(InvalidArgument, match="the order of a WeightedRandomSampler.*begin the next one"):
        sampler = torch.utils.data.WeightedRandomSampler([1.0] * 23, 23)
        DataLoader(Squares(), 4, sampler=sampler).load_state_dict(state)
    for dataset in (WithState(), Stream()):
        state, _ = of_torchdata(3, dataset, batch_size=4)
        with pytest.raises(InvalidArgument, match="a state of its dataset.*begin the next one here"):
            DataLoader(dataset, 4).load_state_dict(state)
    for state in ({"_snapshot": {}, "_iterator_finished": False}, {"_sampler_iter_yielded": 3}):
        with pytest.raises(InvalidArgument, match="keys of another version"):
            DataLoader(Squares()).load_state_dict(state)
    with pytest.raises(InvalidArgument, match="expected a state of headrace.torch.DataLoader"):
        DataLoader(Squares()).load_state_dict({"a": 1})


def test_state_of_others_is_an_error():
    state = DataLoader(Squares(), 4).state_dict()
    with pytest.raises(MismatchError, match="length was 23.*is 22"):
        DataLoader(Squares(22), 4).load_state_dict(state)
    with pytest.raises(MismatchError, match="batch_size was 4.*is 5"):
        DataLoader(Squares(), 5).load_state_dict(state)
    with pytest.raises(InvalidArgument, match="map-style"):
        DataLoader(Stream(), 4, num_workers=1, workers="threads")


@pytest.mark.parametrize("n, workers", WORKERS)
def test_exception_keeps_its_type(n, workers):
    with pytest.raises(KeyError, match="row nine is bad") as caught:
        list(DataLoader(Bad(), 4, num_workers=n, workers=workers))
    if workers == "processes":
        assert 'raise KeyError("row nine is bad")' in caught.value.__notes__[0]


class Seen(Squares):
    """What reading a row sees of its process."""

    def __getitem__(self, i):
        self.n += 1  # stays in the copy that is read
        info = get_worker_info()
        numbers = torch.rand(1).item(), np.random.rand(), random.random()
        return os.getpid(), info.id, info.num_workers, info.seed, torch.get_num_threads(), *numbers


@pytest.fixture
def late_start(monkeypatch):
    """An event without which no worker starts."""
    may, start = threading.Event(), starter.start

    def late(*arguments):
        assert may.wait(60)
        return start(*arguments)

    monkeypatch.setattr(starter, "start", late)
    yield may
    may.set()


def test_the_first_batches_do_not_wait_for_workers(late_start):
    """A new fork server imports torch, which takes seconds. The program makes the batches of that time."""
    dataset = Seen()
    loader = DataLoader(dataset, None, num_workers=2, generator=torch.Generator().manual_seed(4))
    before = (
        torch.get_rng_state(),
        np.random.get_state()[1].tolist(),
        random.getstate(),
        torch.get_num_threads(),
    )
    batches = iter(loader)
    here = [next(batches) for _ in range(5)]
    after = (
        torch.get_rng_state(),
        np.random.get_state()[1].tolist(),
        random.getstate(),
        torch.get_num_threads(),
    )
    assert torch.equal(before[0], after[0]) and before[1:] == after[1:] and get_worker_info() is None
    assert {b[0] for b in here} == {os.getpid()} and dataset.n == 23
    late_start.set()
    workers_of(loader)
    time.sleep(0.5)
    rest = list(batches)
    assert os.getpid() not in {b[0] for b in rest[-8:]}
    again = DataLoader(
        dataset, None, num_workers=2, generator=torch.Generator().manual_seed(4), worker_init_fn=nothing
    )
    assert [b[1:] for b in again] == [b[1:] for b in here + rest]


def test_errors_of_batches_of_the_program(late_start):
    loader = DataLoader(Bad(), 4, num_workers=2)
    batches = iter(loader)
    assert [next(batches).tolist() for _ in range(2)] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    with pytest.raises(KeyError, match="row nine is bad") as caught:
        next(batches)
    assert 'raise KeyError("row nine is bad")' in caught.value.__notes__[0]
    assert next(batches).tolist() == [12, 13, 14, 15]
    late_start.set()
    assert [b.tolist() for b in batches] == [[16, 17, 18, 19], [20, 21, 22]]


def test_loaders_of_two_threads_begin_at_once(late_start):
    """The generators that a batch is made with belong to the process: threads take turns."""
    loaders = [
        DataLoader(Slow(), 2, num_workers=2, generator=torch.Generator().manual_seed(1)) for _ in range(2)
    ]
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(text, loaders))
    assert found[0] == found[1]


class Slow(Noise):
    def __init__(self):
        super().__init__(12)

    def __getitem__(self, i):
        time.sleep(0.005)
        return super().__getitem__(i)


def test_workers_that_cannot_start(monkeypatch):
    def fails(*arguments):
        raise OSError(11, "cannot start a worker process: no more of them")

    monkeypatch.setattr(starter, "start", fails)
    for options in ({}, {"worker_init_fn": nothing}):
        with pytest.raises(OSError, match="no more of them"):
            list(DataLoader(Slow(), 2, num_workers=2, **options))


def test_a_loader_that_goes_before_its_workers_come(late_start):
    loader = DataLoader(Squares(), 4, num_workers=2)
    next(iter(loader))
    workers = [w for group in loader._groups for w in group.workers]
    loader = None
    late_start.set()
    until = time.monotonic() + 60
    while any(w.theirs.fileno() >= 0 for w in workers):
        assert time.monotonic() < until
        time.sleep(0.01)
    assert all(w.process is None or not psutil.pid_exists(w.process.pid) for w in workers)


def test_its_signature_is_torchs():
    theirs, ours = (inspect.signature(cls).parameters for cls in (TorchLoader, DataLoader))
    assert list(ours) == [*theirs, "workers"]
    assert all(ours[name].default == theirs[name].default for name in theirs)


def test_dead_worker_is_named():
    with pytest.raises(
        PeerError, match=r"worker 0 \(process \d+\) was killed by SIGKILL before it gave batch 2"
    ):
        list(DataLoader(Dies(), 4, num_workers=2, worker_init_fn=nothing))


def test_what_a_worker_gave_before_it_died_is_kept():
    """The story: a request that could not be sent was an error, and the batches before it were lost."""
    loader = DataLoader(Dies(), 4, num_workers=2, worker_init_fn=nothing)
    batches = iter(loader)
    found = []
    wait_for_end(workers_of(loader)[:1], but_zombies=True)
    with pytest.raises(
        PeerError, match=r"worker 0 \(process \d+\) was killed by SIGKILL before it gave batch 2"
    ):
        for batch in batches:
            found.append(batch.tolist())
    assert found == [[0, 1, 2, 3], [4, 5, 6, 7]]


class DiesEarly(Dataset):
    """The worker of row 1 dies; that of row 0 gives its row when the other one is no more."""

    def __init__(self, folder):
        self.folder = folder

    def __len__(self):
        return 2

    def __getitem__(self, i):
        if i == 1:
            (self.folder / "new").write_text(str(os.getpid()))
            (self.folder / "new").rename(self.folder / "pid")
            os.kill(os.getpid(), signal.SIGKILL)
        until = time.monotonic() + 60
        while not (self.folder / "pid").exists():
            assert time.monotonic() < until
            time.sleep(0.01)
        while process_tree.is_alive(int((self.folder / "pid").read_text())):
            time.sleep(0.01)
        time.sleep(0.1)  # so that the death is known before this row
        return i


def test_a_worker_that_died_while_another_was_waited_for(tmp_path):
    """The story: its batch was waited for without an end, where no other worker had anything to say."""
    batches = iter(DataLoader(DiesEarly(tmp_path), 1, num_workers=2, timeout=60))
    assert int(next(batches)) == 0
    begin = time.monotonic()
    with pytest.raises(PeerError, match=r"worker 1 .* was killed by SIGKILL before it gave batch 1"):
        next(batches)
    assert time.monotonic() - begin < 50


class Large(Dataset):
    """An array of n KiB a row, which reading marks."""

    def __init__(self, n):
        self.x = np.ones((8, n << 7))

    def __len__(self):
        return 8

    def __getitem__(self, i):
        total = float(self.x[i].sum())
        self.x[i, 0] = 5
        with open("/proc/self/smaps_rollup") as file:
            own = next(int(line.split()[1]) << 10 for line in file if line.startswith("Anonymous:"))
        return total, own, os.getpid()


@pytest.mark.parametrize("persistent", [False, True])
def test_workers_share_the_memory_of_the_dataset(persistent):
    """What a worker writes stays its own, until it gets a fresh dataset."""
    options = {"worker_init_fn": nothing}
    loader = DataLoader(Large(8 << 10), num_workers=2, persistent_workers=persistent, **options)
    small = DataLoader(Large(1), num_workers=1, **options)  # its worker shares that, too, with the program
    alone = max(int(b[1]) for b in small)
    first, second = list(loader), list(loader)
    whole = float(1 << 20)
    assert [float(b[0]) for b in first] == [whole] * 8
    assert [float(b[0]) for b in second] == [whole + 4 if persistent else whole] * 8
    assert loader.dataset.x.max() == 1 and len({int(b[2]) for b in first}) == 2
    assert max(int(b[1]) for b in first + second) < alone + (16 << 20)


def test_two_iterators_and_early_break():
    loader = DataLoader(Squares(), 4, num_workers=2)
    expected = text(TorchLoader(Squares(), 4))
    assert text(b for pair in zip(loader, loader, strict=True) for b in pair[:1]) == expected
    assert len(loader._groups) == 1, "the second set of workers has ended"
    pids = workers_of(loader)
    for _ in range(3):
        for _ in loader:
            break
        assert loader.state_dict()["taken"] == 1
    assert text(loader) == expected
    assert workers_of(loader) == pids
    second = DataLoader(Squares(), 4)
    for _ in loader:
        break
    second.load_state_dict(loader.state_dict())
    assert text(second) == expected[1:]
    loader = None
    wait_for_end(pids)


def workers_of(loader):
    found = [worker for group in loader._groups for worker in group.workers]
    until = time.monotonic() + 60
    while not all(worker.process for worker in found):
        assert time.monotonic() < until, "a worker does not start"
        time.sleep(0.01)
    return [worker.process.pid for worker in found]


def nothing(worker):
    """A worker_init_fn: with one, the program makes no batches while workers start."""


def wait_for_end(pids, but_zombies=False):
    until = time.monotonic() + 60
    there = process_tree.is_alive if but_zombies else psutil.pid_exists
    while any(map(there, pids)):
        assert time.monotonic() < until, "a worker outlives its loader"
        time.sleep(0.01)


def test_resume_before_the_first_batch():
    """The order belongs to the start of the iterator, not to its first batch."""
    first = DataLoader(Squares(), 4, shuffle=True)
    it = iter(first)
    state = first.state_dict()
    expected = text(it)
    second = DataLoader(Squares(), 4, shuffle=True)
    second.load_state_dict(state)
    assert text(second) == expected


OPTIONS = {
    "sampler, drop_last": lambda: {"batch_size": 4, "sampler": list(range(22, -1, -2)), "drop_last": True},
    "batch_sampler": lambda: {"batch_sampler": [[3, 1], [2], [7, 7, 0]], "collate_fn": names},
    "no batches": lambda: {"batch_size": None, "collate_fn": only_y},
    "for workers": lambda: {
        "batch_size": 4,
        "prefetch_factor": 5,
        "persistent_workers": True,
        "in_order": False,
        "pin_memory": torch.accelerator.is_available(),
        "multiprocessing_context": "spawn",
        "timeout": 30,
    },
}
ONLY_WORKERS = ("prefetch_factor", "persistent_workers", "multiprocessing_context", "timeout", "in_order")


def only_y(row):
    return row["y"]


def names(rows):
    return [row["name"] for row in rows]


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("n, workers", WORKERS[1:])
def test_options_as_torch(name, n, workers):
    theirs = {k: v for k, v in OPTIONS[name]().items() if k not in ONLY_WORKERS}
    expected = text(TorchLoader(Squares(), **theirs))
    loader = DataLoader(Squares(), num_workers=n, workers=workers, **OPTIONS[name]())
    assert text(loader) == expected
    it = iter(loader)
    next(it)
    assert text(it) == expected[1:]


class Told(Squares):
    told = None

    def __getitem__(self, i):
        return (i, self.told, get_worker_info().id, get_worker_info().num_workers)


def tell(worker):
    get_worker_info().dataset.told = worker * 10


def test_worker_init_fn_and_worker_info():
    batches = [
        b.tolist()
        for b in DataLoader(Told(4), 1, num_workers=2, worker_init_fn=tell, collate_fn=torch.tensor)
    ]
    assert batches == [[[i, i % 2 * 10, i % 2, 2]] for i in range(4)]


@pytest.mark.parametrize("n", [0, 2])
def test_distributed_sampler(n):
    def sampler():
        return DistributedSampler(Squares(), 2, 1, shuffle=True, seed=3)

    ours, theirs = sampler(), sampler()
    loader = DataLoader(Squares(), 4, sampler=ours, num_workers=n)
    for epoch in range(2):
        ours.set_epoch(epoch)
        theirs.set_epoch(epoch)
        assert text(loader) == text(TorchLoader(Squares(), 4, sampler=theirs))


@pytest.mark.parametrize("n, workers", WORKERS)
def test_stop_iteration_is_an_error(n, workers):
    with pytest.raises(RuntimeError, match="StopIteration"):
        list(DataLoader(Stops(), 4, num_workers=n, workers=workers))


@pytest.mark.parametrize(
    "wrong, what",
    [
        ({"timeout": 5}, "timeout: expected 0"),
        ({"num_workers": 2, "prefetch_factor": 0}, "prefetch_factor: expected"),
        ({"num_workers": 2, "prefetch_factor": 0, "workers": "threads"}, "prefetch_factor: expected"),
        ({"prefetch_factor": 2}, "prefetch_factor option"),
        ({"num_workers": 2, "timeout": -1}, "timeout option"),
    ],
)
def test_options_that_torch_refuses(wrong, what):
    """The story: a timeout without workers and prefetch_factor=0 had no effect; torch's first batch is an
    error.
    """
    with pytest.raises(ValueError, match=what):
        DataLoader(Sleeps(2), 1, **wrong)


def test_types_of_options():
    """The story: torch says "'int' object is not callable" in the loop, and the like, without a name."""
    for wrong in (
        {"dataset": 5},
        {"num_workers": "1"},
        {"collate_fn": 5},
        {"worker_init_fn": 5, "num_workers": 1},
        {"generator": 5, "shuffle": True},
        {"sampler": 5},
        {"batch_sampler": 5},
        {"timeout": "1", "num_workers": 1},
        {"prefetch_factor": 1.5, "num_workers": 1},
    ):
        with pytest.raises(TypeError, match=f"DataLoader: {next(iter(wrong))}: expected"):
            DataLoader(**({"dataset": Sleeps(2)} | wrong))


@pytest.mark.parametrize("workers", ["processes", "threads"])
def test_timeout(workers):
    loader = DataLoader(Sleeps(2), 1, num_workers=1, workers=workers, timeout=0.3)
    with pytest.raises(RuntimeError, match="timed out after 0.3 seconds"):
        list(loader)
