"""Stores that fail at random: see store_torture.py."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("store_torture.py")
CASES, PARTS = 80, 2


@pytest.mark.parametrize("part", range(PARTS))
def test_networks_that_fail(part):
    n = CASES // PARTS
    env = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
    done = subprocess.run(
        [sys.executable, PROGRAM, str(part * n), str(n)], capture_output=True, text=True, env=env, timeout=400
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{n} cases" in done.stdout
