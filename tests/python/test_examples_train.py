"""The examples that train two models: a driver is killed, and a new one ends with the same losses and
weights, bit for bit.
"""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch")
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def start(name, storage, *args):
    return subprocess.Popen(
        [sys.executable, str(EXAMPLES / name), "--storage", str(storage), *args],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(process):
    """The losses, and the digest of the weights."""
    text, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    found = re.findall(r"step (\d+): loss (\S+)", text), re.findall(r"weights: (\S+)", text)
    assert len(found[0]) > 10 and len(found[1]) == 1, text
    return found


@pytest.mark.parametrize(
    ("name", "run", "args"),
    [
        ("train_language_model.py", "language_model", ["--documents", "400", "--save-every", "3"]),
        ("train_images.py", "images", ["--images", "300", "--save-every", "2"]),
    ],
)
def test_killed_and_started_again(tmp_path, name, run, args):
    whole = start(name, tmp_path / "whole", *args)
    killed = start(name, tmp_path / "killed", *args)
    until = time.monotonic() + 150
    folder = tmp_path / "killed" / run
    while killed.poll() is None and len(list(folder.glob("checkpoint_*"))) < 3:
        assert time.monotonic() < until, "the training does not go on"
        time.sleep(0.002)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL, "it had ended before the kill"
    assert list(folder.glob("checkpoint_*"))
    losses, weights = end(whole)
    assert float(losses[-1][1]) < float(losses[0][1])  # it learns
    assert end(start(name, tmp_path / "killed", *args)) == (losses, weights)
