"""Forks of the driver that start workers with torch at once, while the fork server imports torch.

The story: the first batch of a DataLoader over an IterableDataset, and of from_torch, waited 1.2 to 1.7 s for
that import, and 10 s on a busy machine.
"""

import json
import os
import signal
import subprocess
import sys
import textwrap

import pytest
from process_tree import gone

SCRIPT = """
    import atexit, os, signal, subprocess, sys, threading, time
    print("printed once")  # in the buffer of stdout
    import torch
    import headrace.data as hd
    import headrace.torch
    from headrace.udf import starter

    CALLED = []
    atexit.register(CALLED.append, "exit")

    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            info = torch.utils.data.get_worker_info()
            for i in range(info.id, 40, info.num_workers):
                yield i, os.getpid(), os.getppid(), torch.get_num_threads(), info.num_workers

    class Items(torch.utils.data.Dataset):
        def __len__(self):
            return 8

        def __getitem__(self, i):
            return {"i": i, "parent": os.getppid(), "threads": torch.get_num_threads()}

    def prepare(worker):
        print("prepared", worker)

    def batches():
        loader = headrace.torch.DataLoader(Stream(), batch_size=5, num_workers=2, worker_init_fn=prepare)
        return [[column.tolist() for column in batch] for batch in loader]

    def fork():
        return starter._fork and starter._fork.process.pid

    def the_server_is_ready():
        while starter._servers[-1].busy():
            time.sleep(0.02)

    def tell(**what):
        import json

        print(json.dumps(what), flush=True)
"""


def script(then):
    return [sys.executable, "-c", textwrap.dedent(SCRIPT) + textwrap.dedent(then)]


def run(then):
    """What the script tells, and its errors."""
    done = subprocess.run(script(then), capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    first, *told = done.stdout.splitlines()
    assert first == "printed once" and len(told) == 1, done.stdout
    return json.loads(told[0]), done.stderr


@pytest.fixture(scope="module")
def told():
    return run(
        """
        reader = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
        signal.signal(signal.SIGUSR1, lambda *_: CALLED.append("signal"))
        first, by = batches(), fork()
        reader.stdin.close()
        ended = reader.wait(60)  # a copy of the pipe in the fork keeps it open
        items = hd.from_torch(Items()).take_all() if by else []
        the_server_is_ready()
        again, later = batches(), fork()
        tell(me=os.getpid(), first=first, by=by, ended=ended, items=items, again=again, later=later,
             server=starter._servers[-1].process.pid, called=CALLED)
        """
    )


def test_workers_are_children_of_a_fork_of_their_loader(told):
    found, _ = told
    forks = found["by"], found["later"]
    assert all(forks) and len({*forks, found["me"], found["server"]}) == 4
    for batches, parent in zip((found["first"], found["again"]), forks, strict=True):
        rows = [row for batch in batches for row in zip(*batch, strict=True)]
        assert [len(batch[0]) for batch in batches] == [5] * 8
        assert [row[0] for row in rows] == [
            k + 2 * i for j in range(0, 20, 5) for k in (0, 1) for i in range(j, j + 5)
        ]
        assert {row[2] for row in rows} == {parent}
        assert {row[3:] for row in rows} == {(1, 2)} and len({row[1] for row in rows}) == 2


def test_from_torch_has_a_fork_too(told):
    found, _ = told
    assert [item["i"] for item in found["items"]] == list(range(8))
    ((parent, threads),) = {(item["parent"], item["threads"]) for item in found["items"]}
    assert threads == 1 and parent not in (found["me"], found["server"])


def test_nothing_of_the_driver_happens_twice(told):
    found, errors = told
    assert found["ended"] == 0 and found["called"] == []
    assert sorted(line.partition(") ")[2] for line in errors.splitlines() if "prepared" in line) == [
        "prepared 0",
        "prepared 0",
        "prepared 1",
        "prepared 1",
    ]


def test_the_server_imports_behind_the_first_batch():
    """The first batch of images took 440 ms on two cores, and torch's 242: the import of torch ran beside."""
    found, _ = run(
        """
        def imported():
            return sorted(starter._servers[-1].imported)

        made = iter(headrace.torch.DataLoader(Items(), 2, num_workers=2, worker_init_fn=prepare))
        forked, before = fork() is not None, imported()
        n = len(list(made))
        tell(forked=forked, before=before, n=n, after=imported())
        """
    )
    assert found == {"forked": True, "before": [], "n": 4, "after": ["headrace.torch.worker"]}


def test_all_workers_of_a_loader_come_from_its_fork():
    """The story: where a server was ready, a worker that started after the first batch, or after a plan had
    got a function, came from there, without what the program had set.
    """
    found, _ = run(
        """
        from headrace.torch.workers import MODULES

        starter.warm_up(MODULES)
        the_server_is_ready()
        starter.fork_for(MODULES, now=True)
        mine = starter._fork
        starter.warm_up(("json",))
        hd.from_torch([1])
        with starter._lock:
            first = starter._server_for(MODULES) is mine
        starter.import_now(MODULES)
        the_server_is_ready()
        with starter._lock:
            then = starter._server_for(MODULES) is starter._servers[-1]
        tell(first=first, then=then)
        """
    )
    assert found == {"first": True, "then": True}


@pytest.mark.parametrize("workers", ["init", "help"])
def test_workers_have_what_the_program_has_set(workers):
    """The story: workers of a second loader came from the server, without what the program had set in a
    module; and a class of the script had the globals of the first loader for ever, also in the program, since
    a copy of the dataset had been unpickled there.
    """
    found, _ = run(
        f"""
        import string

        class Values(torch.utils.data.Dataset):
            def __len__(self):
                return 64

            def __getitem__(self, i):
                return string.chosen, chosen

        def values(loader):
            return sorted({{(int(a), int(b)) for batch in loader for a, b in zip(*batch)}})

        seen, init = [], prepare if {workers == "init"} else None
        for chosen in range(4):
            string.chosen = chosen
            loader = headrace.torch.DataLoader(Values(), 4, num_workers=2, worker_init_fn=init)
            seen.append(values(loader))
            if chosen == 1:
                the_server_is_ready()
        chosen = 9
        tell(seen=seen, later=values(loader), mine=Values()[0])
        """
    )
    assert found["seen"] == [[[i, i]] for i in range(4)]
    assert found["later"] == [[3, 9]]  # workers stay, and get the dataset anew
    assert found["mine"] == [3, 9]


def test_a_server_that_was_idle_ends_beside_a_fork_with_workers():
    """The story: a minute after its import the server ended, as all workers were the fork's. The next loader
    took the fork for the server: its first batch came after 125 s, and the first loader's workers died.
    """
    found, _ = run(
        """
        def the_server_ends():
            starter._servers[-1].process.wait()

        starter.IDLE = 0.3
        kept = [headrace.torch.DataLoader(Stream(), batch_size=5, num_workers=2, persistent_workers=True)]
        rows = lambda loader: [[column.tolist() for column in batch] for batch in loader]
        seen, forks = [rows(kept[0])], [fork()]
        the_server_ends()
        kept.append(headrace.torch.DataLoader(Stream(), batch_size=5, num_workers=2))
        seen, forks = [*seen, rows(kept[1])], [*forks, fork()]
        the_server_ends()
        stop = threading.Event()
        threading.Thread(target=stop.wait).start()
        kept.append(headrace.torch.DataLoader(Stream(), batch_size=5, num_workers=2))
        seen, forks = [*seen, rows(kept[2]), rows(kept[0])], [*forks, fork()]
        stop.set()
        tell(seen=seen, forks=forks)
        """
    )
    first, second, third = found["forks"]
    parents = [{parent for batch in batches for parent in batch[2]} for batches in found["seen"]]
    assert first != second and second == third
    assert parents == [{first}, {second}, {second}, {first}]
    assert found["seen"][3][0][1] == found["seen"][0][0][1], "a worker of the first loader"
    assert [[batch[0] for batch in batches] for batches in found["seen"]] == 4 * [
        [batch[0] for batch in found["seen"][0]]
    ]


def test_no_fork_of_programs_that_use_another_start_method():
    found, _ = run(
        """
        how = {"num_workers": 2, "multiprocessing_context": "spawn"}
        loader = headrace.torch.DataLoader(Stream(), batch_size=5, **how)
        n, first = len(list(loader)), fork()
        starter.end()
        torch.multiprocessing.set_start_method("forkserver")
        tell(n=n, first=first, m=len(batches()), second=fork())
        """
    )
    assert found == {"n": 8, "first": None, "m": 8, "second": None}


def test_no_fork_beside_threads():
    found, _ = run(
        """
        stop = threading.Event()
        threading.Thread(target=stop.wait).start()
        n = len(batches())
        stop.set()
        tell(n=n, fork=fork())
        """
    )
    assert found == {"n": 8, "fork": None}


def test_no_fork_whose_threads_would_hang():
    """The story: with OMP_NUM_THREADS=2 a worker of from_torch waited for threads of OpenMP for ever."""
    found, _ = run(
        """
        os.environ["OMP_NUM_THREADS"] = "2"
        torch.set_num_threads(2)

        def work():
            (torch.rand(300, 300) @ torch.rand(300, 300)).sum()
            return float((torch.ones(400_000) + 1).sum())

        class Works(Items):
            def __getitem__(self, i):
                torch.set_num_threads(2)
                return {"sum": work()}

        work()
        sums = [row["sum"] for row in hd.from_torch(Works()).take_all()]
        first = fork()
        del os.environ["OMP_NUM_THREADS"]
        starter.end()
        sys.modules["polars"] = torch  # imported
        tell(sums=sums, first=first, n=len(batches()), second=fork())
        """
    )
    assert found == {"sums": [800_000.0] * 8, "first": None, "n": 8, "second": None}


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_the_driver_ends(how):
    then = """
    loader = iter(headrace.torch.DataLoader(Stream(), batch_size=5, num_workers=2, timeout=300))
    tell(pids=[fork(), *next(loader)[1].tolist()[:1]])
    time.sleep(600)
    """
    process = subprocess.Popen(script(then), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    process.stdout.readline()
    pids = json.loads(process.stdout.readline())["pids"]
    assert all(pids) and os.getpid() not in pids
    process.send_signal(how)
    process.communicate(timeout=300)
    assert gone(pids)
