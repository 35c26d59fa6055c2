"""Consumers, ranks and function workers that are killed anywhere, and what they get afterwards.

See feed_torture.py; trainers: test_train_restart.py.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("feed_torture.py")
CASES, PARTS = 200, 4


def run(*arguments):
    env = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE")}
    env["OPENBLAS_NUM_THREADS"] = "1"  # no thread before the forks
    done = subprocess.run(
        [sys.executable, PROGRAM, *map(str, arguments)], capture_output=True, text=True, env=env, timeout=400
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("part", range(PARTS))
def test_killed_and_resumed(part):
    n = CASES // PARTS
    code, text = run(part * n, n)
    assert code == 0, text
    assert f"{n} cases" in text


def test_one_order_for_threads_ranks_and_launchers():
    """A part of the matrix; CONTRIBUTING.md has the command for all of it."""
    code, text = run("--matrix", "small")
    assert code == 0, text
    assert int(re.search(r"matrix: (\d+) runs", text)[1]) >= 48, text


def test_a_wrong_resume_is_seen():
    """Consumers that store the state of one save ago: rows come twice."""
    code, text = run(0, 20, "--broken")
    assert code == 1, text
    assert int(re.search(r"(\d+) failures", text)[1]) >= 3, text
    assert "is another one" in text
