"""The examples that train two models: a driver is killed, and a new one ends with the same losses and
weights, bit for bit.
"""

import os
import re
import signal
import time
from pathlib import Path

import forked_ranks
import pytest

pytest.importorskip("torch")
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(scope="module")
def server(rank_server):
    with forked_ranks.adopting():
        yield rank_server


def start(server, name, storage, *args):
    storage.mkdir(exist_ok=True)
    with open(storage / "out", "w") as out, open(storage / "err", "w") as err:
        env = os.environ | {"OMP_NUM_THREADS": "1"}
        return server.start([EXAMPLES / name, "--storage", storage, *args], env, out, err)


def end(process, storage):
    """The losses, and the digest of the weights."""
    assert process.wait(300) == 0, (storage / "err").read_text()
    text = (storage / "out").read_text()
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
def test_killed_and_started_again(server, tmp_path, name, run, args):
    whole = start(server, name, tmp_path / "whole", *args)
    killed = start(server, name, tmp_path / "killed", *args)
    until = time.monotonic() + 150
    folder = tmp_path / "killed" / run
    while killed.poll() is None and len(list(folder.glob("checkpoint_*"))) < 3:
        assert time.monotonic() < until, "the training does not go on"
        time.sleep(0.002)
    os.kill(killed.pid, signal.SIGKILL)
    assert killed.wait(60) == -signal.SIGKILL, "it had ended before the kill"
    assert list(folder.glob("checkpoint_*"))
    losses, weights = end(whole, tmp_path / "whole")
    assert float(losses[-1][1]) < float(losses[0][1])  # it learns
    again = start(server, name, tmp_path / "killed", *args)
    assert end(again, tmp_path / "killed") == (losses, weights)
