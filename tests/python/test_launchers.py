"""Shares under launchers: real torchrun, the same one order, resumes, deaths, and ranks that never come."""

import hashlib
import itertools
import json
import os
import pickle
import re
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import forked_ranks
import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace import exceptions
from headrace.data import launchers

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("forked_ranks")
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)

HEAD = """
import hashlib, json, os, signal, sys, time
import headrace.data as hd
from headrace import exceptions
RANK, SIZE, OUT = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), os.environ["OUT"]
context = hd.DataContext.get_current()

def plan(name):
    ds = hd.read_parquet(os.environ["ROWS"])
    if name == "map":
        return ds.map_batches(lambda b: {"id": b["id"]}, batch_size=100)
    if name == "shuffle":
        return ds.random_shuffle(seed=hd.RandomSeedConfig(3))
    if name == "memory":
        return hd.from_items([{"id": i} for i in range(2400)])
    return ds

def write(value):
    with open(f"{OUT}/{RANK}.new", "w") as f:
        json.dump(value, f)
    os.rename(f"{OUT}/{RANK}.new", f"{OUT}/{RANK}.json")

def wait_until(condition):
    until = time.monotonic() + 50
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)

def is_there(name):
    return os.path.exists(f"{OUT}/{name}")

def is_stopped(rank):  # which writes its process id before
    if not is_there(f"{rank}.json"):
        return False
    with open(f"{OUT}/{rank}.json") as f:
        pid = json.load(f)
    with open(f"/proc/{pid}/stat") as f:
        return f.read().rpartition(")")[2].split()[0] == "T"

def states(share):  # of the ranks, as the engine knows them
    info = share._source._info()
    return [r["state"] for r in info["ranks"]] if info else [""] * SIZE
"""


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    for f in range(3):
        table = pa.table({"id": np.arange(f * 800, f * 800 + 800)})
        pq.write_table(table, folder / f"{f}.parquet", row_group_size=300)
    return folder


class Runs:
    """Starts programs under launchers, and ends them."""

    def __init__(self, folder, rows):
        self.folder, self.rows, self.started, self.n = folder, rows, [], 0

    def environment(self, out, **more):
        drop = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_", "TORCHELASTIC", "GROUP_", "HEADRACE_")
        env = {k: v for k, v in os.environ.items() if not k.startswith(drop)}
        return env | {"OMP_NUM_THREADS": "1", "OUT": str(out), "ROWS": str(self.rows)} | more

    def program(self, code):
        self.n += 1
        out = self.folder / f"out{self.n}"
        out.mkdir()
        path = self.folder / f"program{self.n}.py"
        path.write_text(HEAD + textwrap.dedent(code))
        return path, out

    def popen(self, command, env):
        p = subprocess.Popen(
            command,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.started.append(p)
        return p

    def torchrun(self, n, code, *options, **more):
        """Runs torchrun's main() in this process, with ranks that are forks, which spares the imports of
        torch: (exit code, text, folder)."""
        from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
        from torch.distributed.run import main

        path, out = self.program(code)
        logs = self.folder / f"logs{self.n}"
        options = options or ("--standalone",)
        args = ["--nproc-per-node", str(n), "--log-dir", str(logs), "--redirects", "3", *options, str(path)]
        watchdog = threading.Timer(60, self.kill)
        watchdog.start()
        kept, handlers = dict(os.environ), {s: signal.getsignal(s) for s in SIGNALS}
        os.environ.clear()
        os.environ.update(self.environment(out, **more))
        code = 0
        try:
            main(args)
        except ChildFailedError:
            code = 1
        finally:
            watchdog.cancel()
            os.environ.clear()
            os.environ.update(kept)
            for number, handler in handlers.items():
                signal.signal(number, handler)
        return code, "".join(p.read_text() for p in sorted(logs.rglob("std*.log"))), out

    def kill(self):
        for rank in forked_ranks.Rank.started:  # a fork's variables are not in its /proc/PID/environ
            if rank.is_alive():
                os.kill(rank.pid, signal.SIGKILL)
        for child in psutil.process_iter(["environ"]):
            if (child.info["environ"] or {}).get("OUT", "").startswith(str(self.folder)):
                child.kill()

    def plain(self, code, ranks, **more):
        """The same program for each dict of variables in `ranks`, without a launcher."""
        path, out = self.program(code)
        processes = []
        for r in ranks:
            env = self.environment(out, **more) | {"RANK": "0", "WORLD_SIZE": "1"} | r
            processes.append(self.popen([sys.executable, str(path)], env))
        return processes, out

    def close(self):
        for p in self.started:
            try:
                os.killpg(p.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            p.wait(10)
            p.stdout.close()
        self.kill()


@pytest.fixture
def runs(tmp_path, rows):
    made = Runs(tmp_path, rows)
    yield made
    made.close()


def end(process, code=0, timeout=300):
    """The output of a process that ends with this code."""
    text, _ = process.communicate(timeout=timeout)
    assert process.returncode == code, text
    return text


def results(out, n):
    return [json.loads(Path(out, f"{r}.json").read_text()) for r in range(n)]


def in_order(ranks):
    """Batches of all ranks, step by step."""
    return [b for step in zip(*ranks, strict=True) for b in step]


def places(states):
    """(epoch, row) of each state. The texts may differ: a place can be told from the start of any row
    group."""
    positions = [json.loads(s["position"]) for s in states]
    return [(p["epoch"], p["extra"]["rows"]) for p in positions]


def sha(batches):
    return hashlib.sha256(json.dumps([int(v) for b in batches for v in b]).encode()).hexdigest()


def split_here(ds, n, batch_size, epochs=1, state=None):
    """The batches of each rank of streaming_split in this process."""
    shares = ds.streaming_split(n, equal=True)
    out = [[] for _ in range(n)]

    def read(r):
        batches = shares[r].iter_batches(batch_size=batch_size)
        if state is not None:
            batches.load_state_dict(state)
        for _ in range(epochs):
            out[r] += [b["id"].tolist() for b in batches]

    threads = [threading.Thread(target=read, args=(r,)) for r in range(n)]
    [t.start() for t in threads]
    [t.join(60) for t in threads]
    return out


def plan(name, rows):
    os.environ["ROWS"] = str(rows)
    space = {}
    exec(
        HEAD.replace('os.environ["RANK"]', "0")
        .replace('os.environ["WORLD_SIZE"]', "1")
        .replace('os.environ["OUT"]', '""'),
        space,
    )
    return space["plan"](name)


# --------------------------------------------------------------------------------------------- the one order

READ = """
    its = plan(os.environ["PLAN"]).shard().iter_batches(batch_size=20)
    state = os.environ.get("STATE")
    if state:
        its.load_state_dict(json.loads(state))
    out, states = [], []
    for epoch in range(int(os.environ.get("EPOCHS", 1))):
        for b in its:
            out.append(b["id"].tolist())
            states.append(its.state_dict())
            if len(out) == int(os.environ.get("STOP", -1)):
                break
    n = int(os.environ.get("STOP", 5))
    write({"rows": out, "states": states[n - 1 : n], "end": its.state_dict()})
"""


@pytest.mark.parametrize(("name", "ranks"), [("map", (2,)), ("shuffle", (1, 2, 3, 4))])
def test_the_order_of_streaming_split(runs, rows, name, ranks):
    """The story: under plain torchrun each rank read all rows, or waited for the others for ever."""
    expected = {}
    for n in ranks:
        code, text, out = runs.torchrun(n, READ, PLAN=name, EPOCHS="2")
        assert code == 0, text
        found = results(out, n)
        here = split_here(plan(name, rows), n, 20, epochs=2)
        assert [f["rows"] for f in found] == here
        assert all(places(f["states"]) == [(0, 100 * n)] and f["end"] == found[0]["end"] for f in found)
        expected[n] = sha(in_order([f["rows"] for f in found]))
    assert len(set(expected.values())) == 1  # 2,400 rows: no number of ranks leaves one out


@pytest.mark.parametrize(
    ("before", "after"), [pytest.param(2, 3, marks=pytest.mark.thorough), (4, 1), (1, 2)]
)
def test_resume_with_other_numbers_of_ranks(runs, rows, before, after):
    whole = [b for b in in_order(split_here(plan("shuffle", rows), 1, 20))]
    code, text, out = runs.torchrun(before, READ, PLAN="shuffle", STOP="6")
    assert code == 0, text
    first = results(out, before)
    state = first[-1]["states"][0]
    assert all(places(f["states"]) == [(0, 120 * before)] for f in first)
    code, text, out = runs.torchrun(after, READ, PLAN="shuffle", STATE=json.dumps(state))
    assert code == 0, text
    rest = in_order([f["rows"] for f in results(out, after)])
    taken = in_order([f["rows"] for f in first])
    assert [v for b in taken + rest for v in b] == [v for b in whole for v in b]


def test_streaming_split_in_each_rank(runs, rows):
    code, text, out = runs.torchrun(
        2,
        """
        mine = plan("read").streaming_split(SIZE, equal=True)
        other = ""
        try:
            list(mine[1 - RANK].iter_batches())
        except exceptions.InvalidArgument as e:
            other = str(e)
        out = [b["id"].tolist() for b in mine[RANK].iter_batches(batch_size=20)]
        write({"rows": out, "other": other, "count": mine[RANK].schema().names})
        """,
    )
    assert code == 0, text
    found = results(out, 2)
    assert [f["rows"] for f in found] == split_here(plan("read", rows), 2, 20)
    assert found[0]["other"].startswith(
        "this process is rank 0 of 2 (torchrun): share 1 of the split belongs to"
    )
    assert found[1]["count"] == ["id"]


def test_a_share_for_each_epoch(runs):
    """Also by rows, and of several datasets; engines that nobody needs end."""
    code, text, out = runs.torchrun(
        2,
        """
        from headrace.data import shares
        shares.LOOK_S = 0.02
        train, test = plan("map"), plan("memory")
        out = [0, 0]
        for epoch in range(3):
            for b in train.shard().iter_batches(batch_size=30):
                out[0] += len(b["id"])
            for row in test.shard().iter_rows():
                out[1] += 1
        write(out)
        while len(os.listdir(OUT)) < 2:
            time.sleep(0.01)
        until = time.monotonic() + 30
        while shares._hosts and time.monotonic() < until:
            time.sleep(0.02)
        write([*out, len(shares._hosts)])
        """,
    )
    assert code == 0, text
    assert results(out, 2) == [[3600, 3600, 0]] * 2


def test_a_name_that_another_user_has(rows, monkeypatch):
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    for name, value in {"HEADRACE_RANK": "0", "HEADRACE_WORLD_SIZE": "2", "HEADRACE_RUN_ID": "taken"}.items():
        monkeypatch.setenv(name, value)
    share = plan("read", rows).shard()
    code = """
import os, socket, sys
os.setuid(65534)
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.bind("\\0" + sys.argv[1])
s.listen()
print("bound", flush=True)
sys.stdin.read()
"""
    code = code.replace("\\\\0", "\\0")
    name = share._source.meeting.name
    with subprocess.Popen(
        [sys.executable, "-c", code, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout.readline() == "bound\n"
        with pytest.raises(exceptions.PeerError, match="belongs to user 65534, this one to user 0"):
            next(iter(share.iter_batches()))
        other.stdin.close()


def test_without_a_launcher(rows, monkeypatch):
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    ds = plan("read", rows)
    share = ds.shard()
    batches = share.iter_batches(batch_size=100)
    assert sum(len(b["id"]) for b in batches) == 2400 and share.world_size == 1
    with pytest.raises(exceptions.InvalidArgument, match="expected rank and world_size, found one"):
        ds.shard(rank=1)
    with pytest.raises(exceptions.InvalidArgument, match="rank: expected 0 to 1, found 2"):
        ds.shard(2, 2)
    with pytest.raises(
        exceptions.InvalidArgument, match="world_size: expected a number of at least 1, found 0"
    ):
        ds.shard(0, 0)


def test_ranks_that_the_program_numbers(runs, rows):
    """Children of one process, as torch.multiprocessing and subprocess make them."""
    code = """
    its = plan("read").shard(int(sys.argv[1]) if sys.argv[1:] else int(os.environ["MINE"]), 2)
    with open(f"{OUT}/{os.environ['MINE']}.json", "w") as f:
        json.dump([b["id"].tolist() for b in its.iter_batches(batch_size=20)], f)
    """
    processes, out = runs.plain(code, [{"MINE": "0"}, {"MINE": "1"}])
    [end(p) for p in processes]
    assert results(out, 2) == split_here(plan("read", rows), 2, 20)


# ------------------------------------------------------------------------------------------------------ hosts


def step_by_step(ranks):
    """The rows of each step, whichever rank has them."""
    return [sorted(v for b in step for v in b) for step in zip(*ranks, strict=True)]


def lanes_here(rows, n, batch_size, monkeypatch):
    """What n ranks of one host read of the order of 12 lanes, step by step: n batches of one rank."""
    monkeypatch.setenv("HEADRACE_LAUNCHER", "none")
    share = plan("rows", rows).shard(lanes=12)
    out = [b["id"].tolist() for b in share.iter_batches(batch_size=batch_size)]
    return [sorted(itertools.chain(*out[i : i + n])) for i in range(0, len(out), n)]


@pytest.mark.parametrize("name", ["shuffle", pytest.param("rows", marks=pytest.mark.thorough)])
def test_two_hosts(runs, rows, name, monkeypatch):
    """Two agents of torchrun: each host runs an engine, and the order is that of one host, of one lane or of
    12."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    options = (
        "--nnodes",
        "2",
        "--rdzv-backend",
        "c10d",
        "--rdzv-id",
        "x",
        "--rdzv-endpoint",
        f"localhost:{port}",
    )
    path, out = runs.program(READ)
    agents = []
    for _ in range(2):
        command = [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--nproc-per-node",
            "2",
            *options,
            str(path),
        ]
        agents.append(runs.popen(command, runs.environment(out, PLAN=name)))
    [end(a) for a in agents]
    found = results(out, 4)
    if name == "shuffle":
        assert [f["rows"] for f in found] == split_here(plan("shuffle", rows), 4, 20)
    else:
        assert step_by_step([f["rows"] for f in found]) == lanes_here(rows, 4, 20, monkeypatch)
        assert len({s["position"] for f in found for s in f["states"]}) == 1
    assert all(places(f["states"]) == [(0, 400)] for f in found)


@pytest.mark.parametrize("name", [pytest.param("map", marks=pytest.mark.thorough), "rows"])
def test_hosts_by_network_namespaces(runs, rows, name, monkeypatch):
    """Abstract sockets belong to a network namespace, as to a host; the ranks are dealt in turn, as MPI
    can."""
    if subprocess.run(["unshare", "-n", "true"], capture_output=True).returncode:
        pytest.skip("network namespaces are not to be had")
    path, out = runs.program(READ)
    processes = []
    base = {"PLAN": name, "HEADRACE_WORLD_SIZE": "4", "WORLD_SIZE": "4", "HEADRACE_LOCAL_WORLD_SIZE": "2"}
    for host in range(2):
        command = " & ".join(
            f"RANK={r} HEADRACE_RANK={r} HEADRACE_RUN_ID=x {sys.executable} {path}" for r in (host, host + 2)
        )
        processes.append(
            runs.popen(["unshare", "-n", "sh", "-c", f"{command} & wait"], runs.environment(out, **base))
        )
    [end(p) for p in processes]
    found = [f["rows"] for f in results(out, 4)]
    if name == "map":
        assert found == split_here(plan("map", rows), 4, 20)
    else:
        assert step_by_step(found) == lanes_here(rows, 4, 20, monkeypatch)


TWO_HOSTS = """
host = RANK // 2
os.environ["HEADRACE_NODE_RANK"] = str(host)
import torch.distributed as dist
dist.init_process_group("gloo")
case = os.environ["CASE"]
context.check_hosts = case != "off"
batches = plan("map").shard().iter_batches(batch_size=20)
for batch, _ in zip(batches, range(5)):
    state = batches.state_dict()
batches.close()
dist.barrier()
if case == "seed":
    context.seed = host
again = plan("map").shard().iter_batches(batch_size=20)
if RANK == 0 or (case == "right" and RANK == 2):
    again.load_state_dict(state)
write([int(b["id"][0]) for b in again])
"""


@pytest.mark.parametrize("case", ["right", "forgotten", "seed", "off"])
def test_hosts_that_begin_at_different_places(runs, case):
    """Rank 0 loads a state, and on host 1 (ranks 2 and 3) nobody. The host that comes second says so."""
    code, text, out = runs.torchrun(4, TWO_HOSTS, CASE=case, HEADRACE_LOCAL_WORLD_SIZE="2")
    if case in ("right", "off"):
        assert code == 0, text
        begins = [found[0] for found in results(out, 4)]
        assert begins == [400 + 20 * r if case == "right" or r < 2 else 20 * r for r in range(4)]
        return
    assert code == 1, text
    assert "MismatchError: the hosts read different rows of read_parquet(" in text
    assert re.search(r"rank [01] \(host \S+\) begins at ", text), text
    assert re.search(r"rank [23] \(host \S+\) begins at ", text), text
    assert re.search(r"begins at (epoch 0, )?row 400(, seed 0)?[;.]", text), text
    assert ("seed 1" in text) == (case == "seed") and "(DataContext.check_hosts = False" in text


def test_hosts_with_other_lanes(runs):
    """The orders differ, so rows would come twice or never."""
    code, text, _ = runs.torchrun(
        4,
        """
        host = RANK // 2
        os.environ["HEADRACE_NODE_RANK"] = str(host)
        import torch.distributed as dist
        dist.init_process_group("gloo")
        for batch in plan("rows").shard(lanes=6 + 6 * host).iter_batches(batch_size=20):
            pass
        """,
        HEADRACE_LOCAL_WORLD_SIZE="2",
    )
    assert code == 1, text
    assert "MismatchError: the hosts read different rows of read_parquet(" in text
    assert re.search(r"begins at lanes (6|12); rank [0-3] \(host \S+\) begins at lanes (6|12)", text), text


# ----------------------------------------------------------------------------------------------------- deaths


def test_a_rank_that_is_killed(runs):
    """Whoever runs the engine or not, the others hear of it, by name."""
    for victim in (0, 1):
        code, text, out = runs.torchrun(
            2,
            f"""
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the agent's, when it sees the death
            share = plan("map").shard()
            if RANK != 0:
                while not os.path.exists(f"{{OUT}}/first"):
                    time.sleep(0.01)
            said = None
            try:
                if RANK == 0:
                    share.stats()  # runs the engine from now on
                    open(f"{{OUT}}/first", "w").close()
                for i, b in enumerate(share.iter_batches(batch_size=10)):
                    if i == 3 and RANK == {victim}:
                        os.kill(os.getpid(), signal.SIGKILL)
            except exceptions.PeerError as e:
                write(str(e))
                time.sleep(0.5)
                raise
            """,
        )
        assert code == 1, text
        said = json.loads(Path(out, f"{1 - victim}.json").read_text())
        if victim == 0:
            assert "rank 0 (pid " in said and "has ended, which ran the engine" in said
        else:
            assert "rank 1: its process (pid " in said and "died" in said


def test_a_rank_that_raises(runs):
    """The others hear its exception."""
    for victim in (0, 1):
        code, text, out = runs.torchrun(
            2,
            f"""
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the agent's, when it sees the death
            if RANK != {victim}:
                open(OUT + "/ready", "w").close()
            share = plan("map").shard()
            try:
                for i, b in enumerate(share.iter_batches(batch_size=10)):
                    if i == 3 and RANK == {victim}:
                        while not os.path.exists(OUT + "/ready"):
                            time.sleep(0.01)
                        raise ValueError("it broke")
                    if RANK != {victim}:
                        time.sleep(0.02)  # so that batches are left when the other one raises
            except exceptions.PeerError as e:
                write(str(e))
                raise
            """,
        )
        assert code == 1, text
        said = json.loads(Path(out, f"{1 - victim}.json").read_text())
        assert f"rank {victim}: ValueError: it broke" in said


def test_the_first_to_end_feeds_the_others(runs):
    """The story: the rank that ran the engine ended its program, and the others lost their last batches."""
    code, text, out = runs.torchrun(
        2,
        """
        its = plan("map").shard().iter_batches(batch_size=10)
        if RANK == 0:
            next(iter(its))
            write(0)
        else:
            while not os.path.exists(f"{OUT}/0.json"):
                if not its.stats("dict"):
                    break
            out = 0
            for b in its:
                time.sleep(0.002)
                out += 1
            write(out)
        """,
    )
    assert code == 0, text
    assert results(out, 2) == [0, 120]


def test_elastic_restart(runs, rows):
    """torchrun starts all ranks again: the new ones meet anew and resume."""
    code, text, out = runs.torchrun(
        2,
        """
        its = plan("shuffle").shard().iter_batches(batch_size=20)
        attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
        if attempt:
            its.load_state_dict(json.load(open(f"{OUT}/state")))
        out = []
        for i, b in enumerate(its):
            out.append(b["id"].tolist())
            if not attempt and i == 9 and RANK == 0:
                with open(f"{OUT}/new", "w") as f:
                    json.dump(its.state_dict(), f)
                os.rename(f"{OUT}/new", f"{OUT}/state")
                os.kill(os.getpid(), signal.SIGKILL)
        write(out)
        """,
        "--standalone",
        "--max-restarts",
        "1",
    )
    assert code == 0, text
    here = split_here(plan("shuffle", rows), 2, 20)
    assert results(out, 2) == [r[10:] for r in here]


# ------------------------------------------------------------------------------------------ ranks that
# do not come


def test_a_rank_that_never_comes(runs):
    code, text, out = runs.torchrun(
        3,
        """
        context.stall_warning_s, context.stall_timeout_s = 0.5, 1.5
        share = plan("map").shard()
        if RANK == 2:
            time.sleep(3)
            sys.exit(0)
        begun = time.monotonic()
        try:
            list(share.iter_batches())
        except exceptions.PeerError as e:
            write([str(e), time.monotonic() - begun])
        """,
    )
    assert code == 0, text
    found = results(out, 2)
    for said, seconds in found:
        assert "rank 2 has not come" in said and "all ranks must read the same datasets" in said
        assert 1.4 < seconds < 20
    lines = [line for line in text.splitlines() if line.startswith("headrace:")]
    assert len(lines) >= 1 and all("ranks 0, 1 wait" in line or "rank " in line for line in lines)
    assert "epoch 0 of read_parquet(" in lines[0] and "rank 2 has not come" in lines[0]


# What two ranks of a program do that do not meet: they say what they were told.
WAIT_FOR_OTHERS = """
        open(f"{OUT}/met{RANK}", "w").close()
        wait_until(lambda: is_there("met0") and is_there("met1"))
        try:
            list(share.iter_batches())
        except exceptions.PeerError as e:
            write(str(e))
        wait_until(lambda: is_there("0.json") and is_there("1.json"))
        """


def test_a_rank_that_reads_another_plan(runs):
    code, text, out = runs.torchrun(
        2,
        """
        context.stall_warning_s, context.stall_timeout_s = 0.3, 0.8
        share = plan("map" if RANK else "read").shard()
        share.stats()  # this rank runs an engine from now on
        """
        + WAIT_FOR_OTHERS,
    )
    assert code == 0, text
    assert all("this run serves another plan, too" in said for said in results(out, 2))


def test_ranks_with_other_data(runs):
    code, text, out = runs.torchrun(
        2,
        """
        context.stall_timeout_s = 1
        share = hd.from_items([{"id": i + RANK} for i in range(100)]).shard()
        if RANK == 0:
            share.stats()  # runs the engine from now on
            open(f"{OUT}/first", "w").close()
        wait_until(lambda: is_there("first") and (RANK == 1 or is_there("1.json")))
        try:
            list(share.iter_batches())
        except (exceptions.MismatchError, exceptions.PeerError) as e:
            write(str(e))
        """,
    )
    assert code == 0, text
    assert any(
        "reads other data than the process that feeds it" in s
        for s in [Path(out, f"{r}.json").read_text() for r in range(2)]
    )


def test_ranks_that_resume_from_different_places(runs):
    code, text, out = runs.torchrun(
        2,
        """
        context.stall_timeout_s = 30
        its = plan("read").shard().iter_batches(batch_size=10)
        states = []
        for i, b in enumerate(its):
            states.append(its.state_dict())
            if i == 9:
                break
        its.load_state_dict(states[3 + RANK])
        try:
            next(iter(its))
            write("")
        except (exceptions.MismatchError, exceptions.PeerError) as e:
            write(str(e))
            raise
        """,
    )
    assert code == 1, text
    assert any("the ranks resume from different places" in p.read_text() for p in out.glob("*.json"))


def test_a_rank_that_is_stopped(runs):
    """A line names it and its state, and the others are not left waiting for ever."""
    code, text, out = runs.torchrun(
        2,
        """
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the agent's, when it sees the death
        share = plan("map").shard()
        if RANK == 0:
            context.stall_warning_s, context.stall_timeout_s = 0.5, 2
            share.stats()
            open(f"{OUT}/first", "w").close()
            wait_until(lambda: states(share)[1] == "asked")
        else:
            wait_until(lambda: is_there("first"))
        try:
            for i, b in enumerate(share.iter_batches(batch_size=10)):
                if i == 3 and RANK == 1:
                    write(os.getpid())
                    os.kill(os.getpid(), signal.SIGSTOP)
                if i == 0 and RANK == 0:
                    wait_until(lambda: is_stopped(1))
        except exceptions.PeerError as e:
            write(str(e))
            os.kill(json.load(open(f"{OUT}/1.json")), signal.SIGKILL)
        """,
    )
    assert code == 1, text
    said = json.loads(Path(out, "0.json").read_text())
    pid = json.loads(Path(out, "1.json").read_text())
    assert f"rank 1 (pid {pid}) has taken 4 steps of epoch 0 and none for" in said
    assert "it is stopped (SIGSTOP)" in said
    assert "headrace: rank 0 (pid " in text


def test_the_engine_is_stopped(runs):
    """The rank that waits says what for: it cannot ask, and knows its own epoch and step."""
    code, text, out = runs.torchrun(
        2,
        """
        from headrace.data import shares
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the agent's, when it sees the death
        share = plan("map").shard()
        if RANK == 0:
            share.stats()
            write(os.getpid())
        else:
            wait_until(lambda: is_there("0.json"))
            share.stats()
            wait_until(lambda: states(share)[0] == "asked")
            shares.CONNECT_S = 0.3
            context.stall_warning_s, context.stall_timeout_s = 0.4, 2
        try:
            for i, b in enumerate(share.iter_batches(batch_size=10)):
                if i == 3 and RANK == 0:
                    wait_until(lambda: is_there("began"))
                    os.kill(os.getpid(), signal.SIGSTOP)
                if i == 0 and RANK == 1:
                    open(f"{OUT}/began", "w").close()
                    wait_until(lambda: is_stopped(0))
                n = i
        except exceptions.PeerError as e:
            write([str(e), n + 1, os.getpid(), share._source.meeting.what])
            os.kill(json.load(open(f"{OUT}/0.json")), signal.SIGKILL)
        """,
    )
    assert code == 1, text
    said, step, pid, what = json.loads(Path(out, "1.json").read_text())
    engine = json.loads(Path(out, "0.json").read_text())
    assert said == (
        f"rank 1 (pid {pid}) waits 2 s for step {step} of epoch 0 of {what}: rank 0 (pid {engine}), which "
        "runs the engine, does not answer: it is stopped (SIGSTOP)"
    )


# -----------------------------------------------------------------------------------------------------
# pickles


def test_shares_in_workers_of_a_data_loader(runs, rows):
    """One worker may read a share; the process that made it runs the engine."""
    code, text, out = runs.torchrun(
        2,
        """
        import torch
        class Rows(torch.utils.data.IterableDataset):
            def __init__(self, its):
                self.its = its
            def __iter__(self):
                for b in self.its:
                    yield b["id"]
        def main():
            how = "fork" if RANK else "spawn"
            its = plan("read").shard().iter_torch_batches(batch_size=20)
            loader = torch.utils.data.DataLoader(
                Rows(its), batch_size=None, num_workers=1, multiprocessing_context=how
            )
            out = [b.tolist() for b in loader]
            try:
                its = plan("read").shard().iter_torch_batches(batch_size=20)
                list(torch.utils.data.DataLoader(Rows(its), batch_size=None, num_workers=2))
            except Exception as e:
                write([out, str(e)])

        if __name__ == "__main__":
            main()
        """,
    )
    assert code == 0, text
    found = results(out, 2)
    assert [f[0] for f in found] == split_here(plan("read", rows), 2, 20)
    assert all("is read by one process" in f[1] for f in found)


def test_what_does_not_pickle(rows, monkeypatch):
    ds = plan("read", rows)
    with pytest.raises(
        exceptions.UnsupportedError, match=r"share 0 of 2 belongs to this process.*Dataset.shard"
    ):
        pickle.dumps(ds.streaming_split(2)[0])
    with pytest.raises(exceptions.UnsupportedError, match="belongs to this process"):
        pickle.dumps(ds.streaming_split(2)[0].iter_batches())


# ---------------------------------------------------------------------------------------------------
# variables

torchrun = {
    "RANK": "3",
    "WORLD_SIZE": "8",
    "LOCAL_WORLD_SIZE": "4",
    "LOCAL_RANK": "3",
    "TORCHELASTIC_RUN_ID": "a",
    "MASTER_ADDR": "h",
    "MASTER_PORT": "1",
    "GROUP_RANK": "0",
    "TORCHELASTIC_RESTART_COUNT": "0",
}
slurm = {
    "SLURM_PROCID": "3",
    "SLURM_STEP_NUM_TASKS": "5",
    "SLURM_STEP_ID": "0",
    "SLURM_JOB_ID": "7",
    "SLURM_NODEID": "1",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2),1",
}


@pytest.mark.parametrize(
    ("env", "found"),
    [
        (torchrun, (3, 8, 4)),
        ({"RANK": "1", "WORLD_SIZE": "2", "MASTER_PORT": "1"}, (1, 2, 2)),
        (
            {"LOCAL_RANK": "1", "NODE_RANK": "0", "WORLD_SIZE": "2", "MASTER_PORT": "1"},
            (1, 2, 2),
        ),  # Lightning
        ({"LOCAL_RANK": "1", "NODE_RANK": "1", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"}, (3, 4, 2)),
        (
            {"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"},
            (2, 4, 2),
        ),
        ({"PMI_RANK": "2", "PMI_SIZE": "4", "MPI_LOCALNRANKS": "4"}, (2, 4, 4)),
        (
            {"MV2_COMM_WORLD_RANK": "0", "MV2_COMM_WORLD_SIZE": "2", "MV2_COMM_WORLD_LOCAL_SIZE": "1"},
            (0, 2, 1),
        ),
        (slurm, (3, 5, 2)),
        (slurm | {"SLURM_NODEID": "2"}, (3, 5, 1)),
        (slurm | torchrun, (3, 8, 4)),
        (
            {"SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_JOB_ID": "7"},
            None,
        ),  # a batch script, before srun
        (torchrun | {"HEADRACE_LAUNCHER": "none"}, None),
        (torchrun | {"HEADRACE_RANK": "1", "HEADRACE_WORLD_SIZE": "2"}, (1, 2, 2)),
        ({}, None),
        ({"WORLD_SIZE": "2"}, None),
    ],
)
def test_variables(env, found):
    place = launchers.current(env)
    assert (place and (place.rank, place.world_size, place.here)) == found


@pytest.mark.parametrize(
    ("env", "text"),
    [
        ({"RANK": "x", "WORLD_SIZE": "2"}, "RANK: expected a number, found 'x'"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "expected a rank of 0 to 1, found 2"),
        ({"HEADRACE_RANK": "2"}, "expected HEADRACE_RANK and HEADRACE_WORLD_SIZE"),
        ({"LOCAL_RANK": "1", "NODE_RANK": "1", "WORLD_SIZE": "4"}, "do not say which rank"),
    ],
)
def test_wrong_variables(env, text):
    with pytest.raises(exceptions.InvalidArgument, match=text):
        launchers.current(env)


def test_names_of_runs_differ():
    """Two runs, two starts of a run, and two hosts never meet."""
    runs = [
        launchers.current(torchrun | more).run
        for more in (
            {},
            {"TORCHELASTIC_RUN_ID": "b"},
            {"MASTER_PORT": "2"},
            {"TORCHELASTIC_RESTART_COUNT": "1"},
            {"GROUP_RANK": "1"},
            {"HEADRACE_RUN_ID": "mine"},
        )
    ]
    assert len(set(runs)) == 6
    assert launchers.current(torchrun | {"RANK": "0"}).run == runs[0]
    assert launchers.current(slurm).run != launchers.current(slurm | {"SLURM_STEP_ID": "1"}).run


def run_names(command, **env):
    """The names of the runs of the ranks below a launcher."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("RANK", "WORLD_SIZE", "MASTER_"))} | env
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return [line.partition("run: ")[2] for line in done.stdout.splitlines() if "run: " in line]


NAME = "from headrace.data import launchers; print('run:', launchers.current().run)"
WRAPPER = f'cd /; {sys.executable} -c "{NAME}"; true'  # a shell that stays


def test_ranks_below_scripts_of_their_own(tmp_path):
    """The story: MPICH's mpirun sh -c "..." made each rank a run of its own, and none found the others."""
    script = tmp_path / "rank.sh"
    script.write_text(WRAPPER)
    ranks = [f"PMI_RANK={r} PMI_SIZE=2 PMI_FD={r + 6} sh -c 'sh {script}; true'" for r in range(2)]
    launcher = ["sh", "-c", " & ".join(ranks) + " & wait"]
    once, twice = run_names(launcher), run_names(launcher)
    assert len(once) == len(twice) == 2
    assert len(set(once)) == len(set(twice)) == 1 and once != twice


@pytest.mark.skipif(not shutil.which("mpirun.mpich"), reason="needs mpich")
def test_mpich_itself():
    for command in ([sys.executable, "-c", NAME], ["sh", "-c", WRAPPER]):
        assert len(set(names := run_names(["mpirun.mpich", "-n", "2", *command]))) == 1 and len(names) == 2


def test_missing_ranks_that_seem_to_be_another_run(runs):
    code = """
        context.stall_warning_s, context.stall_timeout_s = 0.3, 0.8
        os.environ["HEADRACE_RUN_ID"] = f"of rank {RANK}"
        share = plan("read").shard()
        share.stats()
        """
    code, text, out = runs.torchrun(2, code + WAIT_FOR_OTHERS)
    assert code == 0, text
    assert all("the same plan in another run, too" in said for said in results(out, 2))
    assert all("set HEADRACE_RUN_ID" in said for said in results(out, 2))
