"""A driver's folder is removed only when the driver has certainly ended.

The story: a folder without its process in /proc counted as left over, so a driver in one container removed
the folders of drivers in others that share the folder for temporary files.
"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headrace import _core
from headrace.train import RunConfig
from headrace.train.launch import PREFIX, _remove_leftovers
from headrace.train.owner import Lock, has_ended
from headrace.train.storage import RunStorage

CONTAINER = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
MAKE_FOLDER = """
from headrace.train.launch import _new_folder
folder, lock = _new_folder()
assert lock.state is {state}
print(folder, flush=True)
input()
"""
SWEEP = "from headrace.train.launch import _remove_leftovers; _remove_leftovers()"
BEGIN = """
import os
from headrace.train import RunConfig
from headrace.train.storage import RunStorage
storage = RunStorage(RunConfig(storage_path={path!r}, name="run"), {{}})
storage.begin()
staging = storage.reserve(None, False).folder
os.mkdir(staging)
print(staging, flush=True)
{then}
"""


def can_unshare():
    return (
        shutil.which("unshare") and subprocess.run([*CONTAINER, "true"], capture_output=True).returncode == 0
    )


needs_containers = pytest.mark.skipif(not can_unshare(), reason="no right to make pid namespaces")


@pytest.fixture
def tmp(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def start(code, container=False):
    """Starts a process; returns it and its line of output. In a container its id is not visible to others."""
    command = [sys.executable, "-c", code]
    if container:
        command = [
            *CONTAINER,
            "sh",
            "-c",
            'for i in $(seq 60); do /bin/true; done; "$@"; exit $?',
            "sh",
            *command,
        ]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    return process, process.stdout.readline().strip()


def kill(process):
    process.kill()
    process.communicate()


def run(code, container=False):
    command = [*CONTAINER, sys.executable, "-c", code] if container else [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def wait_until_unlocked(folder):
    """Waits: the container's processes end a moment after its first one."""
    while not has_ended(Path(folder, "owner"), ""):
        time.sleep(0.01)


@needs_containers
def test_a_driver_in_another_container(tmp):
    process, folder = start(MAKE_FOLDER.format(state=True), container=True)
    try:
        assert Path(folder).parent == tmp and Path(folder, "owner").exists()
        assert run(SWEEP, container=True).returncode == 0
        _remove_leftovers()
        assert Path(folder, "owner").exists()
    finally:
        kill(process)
    wait_until_unlocked(folder)
    assert run(SWEEP, container=True).returncode == 0
    assert not Path(folder).exists()


def test_a_driver_that_was_killed(tmp):
    process, folder = start(MAKE_FOLDER.format(state=True))
    _remove_leftovers()
    assert Path(folder).exists()
    kill(process)
    _remove_leftovers()
    assert not Path(folder).exists()


def test_where_locks_prove_nothing(tmp, monkeypatch):
    """Then only the end of processes of the own namespace is known."""
    process, folder = start(
        "from headrace import _core\n_core.lock_file = lambda fd: None" + MAKE_FOLDER.format(state=None)
    )
    _, _, name = Path(folder).name.partition(PREFIX)
    space, pid, ticks, _ = name.split("-", 3)
    elsewhere = tmp / f"{PREFIX}{int(space, 16) ^ 1:016x}-{pid}-{ticks}-abc"
    elsewhere.mkdir()
    (tmp / f"{PREFIX}{pid}-old").mkdir()  # of a version before: nothing is known
    _remove_leftovers()
    assert Path(folder).exists()
    kill(process)
    _remove_leftovers()
    assert not Path(folder).exists()
    assert sorted(p.name for p in tmp.iterdir()) == sorted([elsewhere.name, f"{PREFIX}{pid}-old"])


def test_names_of_processes():
    me = _core.process_name()
    space, pid, ticks = me.split("-")
    assert int(space, 16) and int(pid) == os.getpid() and int(ticks) > 0
    assert not _core.process_is_gone(me)
    assert _core.process_is_gone(f"{space}-{pid}-{int(ticks) - 1}")  # one that had our number before
    for name in ["", "x", f"{me}-1", f"{int(space, 16) ^ 1:016x}-{pid}-1", f"{space}-0-0", f"{space}--1-0"]:
        assert not _core.process_is_gone(name)


def test_a_forked_child_does_not_hold_the_lock(tmp):
    lock = Lock(tmp / "lock", create=True)
    assert lock.state is True and Lock(tmp / "lock", create=True).state is False
    code = f"""
import os, time
from headrace.train.owner import Lock
lock = Lock({str(tmp / "other")!r}, create=True)
assert lock.state
read, write = os.pipe()
if os.fork() == 0:
    os.close(write)
    os.read(read, 1)  # until the parent's end; its files are closed one after another
    while not Lock({str(tmp / "other")!r}, create=True).state:
        time.sleep(0.01)
    os._exit(os.write(1, b"locked") < 0)
os._exit(0)
"""
    assert run(code).stdout == "locked"


def test_two_drivers_of_one_run(tmp):
    """The story: the second one removed what the first one's workers were writing."""
    first, staging = start(BEGIN.format(path=str(tmp), then="input()"))
    second = run(BEGIN.format(path=str(tmp), then=""))
    assert "another driver is writing this run" in second.stderr
    assert Path(staging).is_dir()
    kill(first)
    storage = RunStorage(RunConfig(storage_path=str(tmp), name="run"), {})
    storage.begin()
    assert not Path(staging).exists()
    storage.close()


@needs_containers
def test_runs_in_containers_have_names_of_their_own(tmp):
    code = f"""
import time; time.strftime = lambda *_: "headrace_now"
from headrace.train import RunConfig
from headrace.train.storage import RunStorage
print(RunStorage(RunConfig(storage_path={str(tmp)!r}), {{}}).name)
"""
    names = {run(code, container=True).stdout for _ in range(2)}
    assert len(names) == 2
