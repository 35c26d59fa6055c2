"""Every operation over more data than memory, in a control group: all finish, and leave nothing.

bench/ceiling.py does it with 10 GB in 512 MiB. Here it is 150 MB in 128 MiB, whose half is the limit for
data; with HEADRACE_THOROUGH=1 1 GB in 512 MiB.
"""

import importlib
import os
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
BENCH = Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))
ceiling = importlib.import_module("ceiling")
sys.path.remove(str(BENCH))

THOROUGH = os.environ.get("HEADRACE_THOROUGH") == "1"
ROWS, LIMIT = (20_000_000, 512 << 20) if THOROUGH else (3_000_000, 128 << 20)
REASON = ceiling.why_not()

pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return ceiling.ensure(tmp_path_factory.mktemp("ceiling"), ROWS)


@pytest.mark.slow
@pytest.mark.parametrize("operation", ceiling.OPERATIONS, ids=lambda f: f.__name__)
def test_it_finishes(folder, operation):
    found = ceiling.run(operation, folder, ROWS, LIMIT, timeout_s=300)
    assert found["limit"] == LIMIT // 2


def test_the_group_kills_who_takes_more():
    """Else the others prove nothing."""
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
