"""The fork server behind worker processes: its workers behave like fresh interpreters, and no process
outlives another one.
"""

import gc
import os
import resource
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import process_tree
import psutil
import pytest
from process_tree import is_alive

import headrace.data as hd
from headrace import exceptions
from headrace.udf import starter


@pytest.fixture(autouse=True)
def fresh():
    """Each test gets a new server."""
    starter.end()
    yield
    starter.end()


def server():
    return starter._servers[-1].process.pid


def alive(pids):
    return [p for p in pids if is_alive(p)]


def gone(pids, seconds=60.0):
    gc.collect()  # datasets that are no more
    return process_tree.gone(pids, seconds)


def ask(question, **more):
    """The answer of a worker, or of all workers."""
    ds = hd.range(max(1, more.get("concurrency", (1,))[0])).map_batches(
        lambda batch: {"answer": [repr(question())] * len(batch["id"])}, batch_size=1, **more
    )
    return [eval(row["answer"]) for row in ds.take_all()]


def parents():
    return os.getpid(), os.getppid()


# ---------------------------------------------------------------------------------------- what a worker is


def test_one_server_for_all_functions():
    ds = hd.range(10).map(lambda row: {"pid": os.getpid(), "parent": os.getppid()})
    first = server()  # it is started with the plan
    assert psutil.Process(first).ppid() == os.getpid()
    row = ds.take(1)[0]
    (pid, parent), *_ = ask(parents)
    assert row["parent"] == parent == first == server() and row["pid"] != pid
    assert len(os.listdir(f"/proc/{first}/task")) == 1  # a fork is safe


def test_what_changes_in_the_driver_is_seen(monkeypatch, tmp_path):
    def seen():
        umask = os.umask(0)
        names = ("MINE", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "PYTHONPATH", "MALLOC_TRIM_THRESHOLD_")
        return (
            [os.environ.get(name) for name in names],
            os.getcwd(),
            umask,
            sorted(os.sched_getaffinity(0)),
            resource.getrlimit(resource.RLIMIT_NOFILE),
        )

    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    before = os.umask(0o022), os.sched_getaffinity(0), resource.getrlimit(resource.RLIMIT_NOFILE)
    cpus = sorted(before[1])
    try:
        assert ask(seen)[0] == ([None, "1", None, None, None], os.getcwd(), 0o022, cpus, before[2])
        kept = server()
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
        monkeypatch.setenv("PYTEST_CURRENT_TEST", "the next one")
        monkeypatch.chdir(tmp_path)
        assert ask(seen)[0] == ([None, "1", "3,5", None, None], str(tmp_path), 0o022, cpus, before[2])
        assert server() == kept
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
        monkeypatch.setenv("MINE", "ü")
        monkeypatch.setenv("OMP_NUM_THREADS", "2")
        monkeypatch.setenv("PYTHONPATH", "/nowhere")
        monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "1000000")
        os.umask(0o077)
        os.sched_setaffinity(0, cpus[-1:])
        resource.setrlimit(resource.RLIMIT_NOFILE, (before[2][0] - 1, before[2][1]))
        wanted = (["ü", "2", None, "/nowhere", "1000000"], str(tmp_path), 0o077, cpus[-1:])
        assert ask(seen)[0] == (*wanted, (before[2][0] - 1, before[2][1]))
        assert server() != kept and gone([kept])
    finally:
        os.umask(before[0])
        os.sched_setaffinity(0, before[1])
        resource.setrlimit(resource.RLIMIT_NOFILE, before[2])


def test_a_folder_that_is_no_more(tmp_path, monkeypatch):
    lost = tmp_path / "lost"
    lost.mkdir()
    monkeypatch.chdir(lost)
    lost.rmdir()
    assert hd.range(3).map(lambda row: row).take_all() == [{"id": i} for i in range(3)]


def test_workers_share_nothing_of_their_servers(tmp_path):
    def looked():
        import random
        import threading

        links = [os.readlink(f"/proc/self/fd/{n}").split(":")[0] for n in ("0", "1", "2")]
        others = []
        for name in os.listdir("/proc/self/fd"):
            try:
                others.append(os.readlink(f"/proc/self/fd/{name}").split(":")[0])
            except OSError:
                pass
        (tmp_path / str(os.getpid())).touch()
        until = time.monotonic() + 60
        while len(os.listdir(tmp_path)) < 2 and time.monotonic() < until:
            time.sleep(0.005)  # until the other worker is there, too
        return {
            "standard": links,
            "sockets": others.count("socket"),
            "pipes": others.count("pipe"),
            "pidfds": others.count("anon_inode"),
            "group": os.getpgid(0) == os.getpid(),
            "interrupt": signal.getsignal(signal.SIGINT) == signal.SIG_IGN,
            "child": signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL,
            "wakeup": signal.set_wakeup_fd(-1),
            "threads": threading.active_count(),
            "main": sys.modules["__main__"].__spec__.name,
            "random": (Drawing.drawn, random.getrandbits(64), os.getpid()),
        }

    class Drawing:
        drawn = None

        def __init__(self):
            import random

            type(self).drawn = random.getrandbits(64), np.random.rand()  # before any seed

        def __call__(self, batch):
            return {"answer": [repr(looked())]}

    ds = hd.range(8).map_batches(Drawing, batch_size=1, concurrency=(2, 2))
    found = [eval(row["answer"]) for row in ds.take_all()]
    for one in found:
        assert one["standard"] == ["/dev/null", "pipe", "pipe"]
        assert (one["sockets"], one["pipes"], one["pidfds"]) == (1, 3, 0)  # pipes: output, errors, reports
        assert one["group"] and one["interrupt"] and one["child"] and one["wakeup"] == -1
        assert one["threads"] == 1 and one["main"] == "headrace.udf.worker"
    by_worker = {one["random"][2]: one["random"][0] for one in found}
    assert len(by_worker) == 2 and len({d[0] for d in by_worker.values()}) == 2
    assert len({d[1] for d in by_worker.values()}) == 2


def test_what_the_server_prints_is_shown(tmp_path, monkeypatch, capfd):
    (tmp_path / "sitecustomize.py").write_text("import sys\nprint('customized', file=sys.stderr)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert ask(os.getpid)
    assert capfd.readouterr().err.count("customized\n") == 1


# --------------------------------------------------------------------------------------------- its own end


def test_it_ends_when_idle(monkeypatch):
    monkeypatch.setattr(starter, "IDLE", 0.3)
    ds = hd.range(3).map(lambda row: {"parent": os.getppid()})
    first = {row["parent"] for row in ds.take_all()}
    time.sleep(0.6)
    assert alive(first)  # its worker is there
    del ds
    assert gone(first)
    assert first.isdisjoint({parent for _, parent in ask(parents)})


def test_a_server_that_died():
    (_, parent), *_ = ask(parents)
    os.kill(parent, signal.SIGKILL)
    assert ask(parents)[0][1] != parent
    psutil.Process(server()).send_signal(signal.SIGKILL)  # perhaps not yet noticed when it is asked
    assert hd.range(3).map(lambda row: row).count() == 3


def test_workers_die_with_their_server(tmp_path):
    def kill(row):
        if not (tmp_path / "killed").exists():
            (tmp_path / "killed").touch()
            (tmp_path / "pid").write_text(str(os.getpid()))
            os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(600)
        return row

    ds = hd.range(3).map(kill)
    with pytest.raises(exceptions.PeerError, match=r"map\(kill\).*process \d+ was killed by SIGKILL"):
        ds.take_all()
    assert gone([int((tmp_path / "pid").read_text())])
    assert ds.count() == 3


def test_one_that_cannot_start(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(RuntimeError, match="the fork server ended with code 1"):
        hd.range(10).map(lambda row: row).take_all()
    monkeypatch.undo()
    assert ask(parents)


def test_no_process_may_be_made():
    script = """
        import resource
        import headrace.data as hd
        from headrace.udf import starter
        hd.range(1).map(lambda row: row).take_all()

        def refused(sock, cuda, *descriptors):
            raise OSError(11, "no worker process: Resource temporarily unavailable")

        starter._Server.worker = refused
        try:
            hd.range(1).map(lambda row: row).take_all()
        except OSError as e:
            print(e)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True)
    assert "no worker process" in done.stdout, done.stderr


# ----------------------------------------------------------------------------------------- the driver's end

DRIVER = """
    import os, sys, time
    import headrace.data as hd
    from headrace.udf import starter

    def slow(row):
        print("worker", os.getpid(), flush=True)
        time.sleep(600)
        return row

    ds = hd.range(10).map(slow, concurrency=(2, 2))
    print("server", starter._servers[-1].process.pid, flush=True)
    {then}
"""


def driver(then, environment=None):
    """Starts a script; returns it and the process ids that it prints."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(DRIVER).format(then=then)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(os.environ, **(environment or {})),
    )


def pid_of(file, word):
    while word not in (line := file.readline()):
        assert line
    return int(line.split()[-1])


@pytest.mark.parametrize(
    ("how", "pause"),
    [(signal.SIGKILL, 0), (signal.SIGKILL, 0.05), (signal.SIGTERM, 0.3), (signal.SIGINT, 0.3)],
)
def test_a_driver_that_never_ran_it(how, pause):
    process = driver("time.sleep(600)")
    pid = pid_of(process.stdout, "server")
    time.sleep(pause)
    process.send_signal(how)
    process.communicate(timeout=300)
    assert gone([pid])


def test_a_driver_that_ends_at_once():
    begin = time.monotonic()
    process = driver("")
    pid = pid_of(process.stdout, "server")
    assert process.communicate(timeout=300)[1] == "" and process.returncode == 0
    assert not alive([pid]) and time.monotonic() - begin < 30


@pytest.mark.parametrize(("how", "pidfd"), [("kill", True), ("exec", True), ("both", True), ("both", False)])
def test_a_driver_with_workers(tmp_path, how, pidfd):
    """The driver is killed, replaced by another program, or killed while its child has its sockets."""
    environment = {"PYTHONWARNINGS": "ignore"}
    if not pidfd:
        text = "import os\ndef none(pid, flags=0):\n    raise OSError(38, 'none')\nos.pidfd_open = none\n"
        (tmp_path / "sitecustomize.py").write_text(text)
        environment["PYTHONPATH"] = str(tmp_path)
    then = {
        "kill": "ds.take_all()",
        "exec": "import threading; threading.Thread(target=ds.take_all, daemon=True).start(); "
        "sys.stdin.readline(); os.execv('/bin/sleep', ['sleep', '600'])",
        "both": "import ctypes, threading; threading.Thread(target=ds.take_all, daemon=True).start(); "
        "time.sleep(0.5); ctypes.CDLL(None).fork() or time.sleep(600); ds.take_all()",
    }[how]
    code = textwrap.dedent(DRIVER).format(then=then)
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(os.environ, **environment),
        start_new_session=True,
    )
    try:
        pids = [pid_of(process.stdout, "server"), pid_of(process.stderr, "worker")]
        if how == "exec":
            process.stdin.write("\n")
            process.stdin.flush()
        else:
            time.sleep(1 if how == "both" else 0)
            process.kill()
        assert gone(pids)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
