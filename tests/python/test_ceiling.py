"""Every operation over more data than memory, in a control group: all finish and leave nothing behind.

bench/ceiling.py does it with 10 GB in 512 MiB, whose half is the limit for data. Here it is 500 MB
in 256 MiB.
"""

import fcntl
import importlib
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
BENCH = Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))
ceiling = importlib.import_module("ceiling")
sys.path.remove(str(BENCH))

ROWS, LIMIT = 10_000_000, 256 << 20
REASON = ceiling.why_not()

needs_group = pytest.mark.skipif(REASON is not None, reason=str(REASON))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One folder for all processes of a test run."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if base.name.startswith("popen-") else base
    with (shared / "ceiling.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return ceiling.ensure(shared / "ceiling", ROWS)


@needs_group
@pytest.mark.slow
@pytest.mark.parametrize("operation", ceiling.OPERATIONS, ids=lambda f: f.__name__)
def test_it_finishes(folder, operation):
    found = ceiling.run(operation, folder, ROWS, LIMIT, timeout_s=300)
    assert found["limit"] == LIMIT // 2


@needs_group
def test_the_group_kills_who_takes_more():
    """Otherwise the other tests prove nothing."""
    import subprocess

    with ceiling.Cgroup(64 << 20) as group:
        command = group.command(sys.executable, "-c", "x = b'1' * (100 << 20)")
        assert subprocess.run(command, check=False).returncode == -9


def test_the_checks_see_what_is_wrong():
    found = {"rows": 10, "ids": 45, "x": 45 / 8, "moved": 0, "ordered": True, "matched": True, "spilled": 1}
    assert ceiling.wrong(ceiling.sort, 10, found) == ""
    assert "rows is 9, expected 10" in ceiling.wrong(ceiling.sort, 10, found | {"rows": 9})
    assert "ordered is False" in ceiling.wrong(ceiling.sort, 10, found | {"ordered": False})
    assert "nothing was spilled" in ceiling.wrong(ceiling.sort, 10, found | {"spilled": 0})
    assert "only 0 rows moved" in ceiling.wrong(ceiling.random_shuffle, 10, found | {"ordered": False})


@pytest.mark.parametrize("version", [1, 2])
def test_both_versions_of_control_groups(tmp_path, monkeypatch, version):
    """In folders that imitate both: a machine has only one of the versions."""
    root = tmp_path / "memory" if version == 1 else tmp_path
    root.mkdir(exist_ok=True)
    (root / ("memory.limit_in_bytes" if version == 1 else "cgroup.subtree_control")).write_text("cpu\n")
    monkeypatch.setattr(ceiling.Cgroup, "ROOT", tmp_path)
    with ceiling.Cgroup(4096) as group:
        assert group.path.parent == root
        limit = group.path / ("memory.limit_in_bytes" if version == 1 else "memory.max")
        assert limit.read_text() == "4096"
        assert version == 1 or (root / "cgroup.subtree_control").read_text() == "+memory"
        assert str(group.path) in group.command("true")
        limit.unlink()
    assert not group.path.exists()
