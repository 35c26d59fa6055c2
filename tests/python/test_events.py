"""What runs tell Python's logging (headrace.events)."""

import logging
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import headrace.data as hd
from headrace.exceptions import PeerError


def messages(caplog, name):
    return [r.getMessage() for r in caplog.records if r.name == name and r.levelno == logging.INFO]


def test_a_pass_begins_and_ends(caplog, tmp_path):
    caplog.set_level(logging.INFO, "headrace")
    ds = hd.range(1000).filter(expr="id < 10")
    assert ds.take_all() == [{"id": i} for i in range(10)]
    ds.write_parquet(tmp_path / "out")
    lines = messages(caplog, "headrace.data")
    begins = [line for line in lines if " begins: " in line]
    ends = [line for line in lines if " ends after " in line]
    first = re.match(r"run (\d+) begins: range\(1000\) -> filter\(.*id.* < 10\)", begins[0])
    assert first, begins
    assert re.search(rf"run {first[1]} ends after \d\.\d+ s: 10 rows, 1000 read", ends[0])
    assert f"write_parquet({tmp_path / 'out'})" in begins[-1]
    numbers = [int(line.split()[1]) for line in begins]
    assert numbers == sorted(set(numbers)) and len(begins) == len(ends)


def test_logging_that_another_thread_imports_is_not_used(monkeypatch):
    """The story: a run that began while a thread imported logging failed, without getLogger."""
    with monkeypatch.context() as patch:
        patch.setattr(logging.__spec__, "_initializing", True, raising=False)
        patch.delattr(logging, "getLogger")
        rows = hd.range(3).take_all()
    assert rows == [{"id": i} for i in range(3)]


def test_worker_processes(caplog):
    caplog.set_level(logging.INFO, "headrace.udf")

    def dies(batch):
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(PeerError, match="SIGKILL"):
        hd.range(10).map_batches(dies, concurrency=1).take_all()
    lines = messages(caplog, "headrace.udf")
    started = re.match(r"map_batches\(.*dies\): process (\d+) starts", lines[0])
    assert started, lines
    assert any(f"process {started[1]} was killed by SIGKILL" in line for line in lines[1:])


def test_a_training(caplog, tmp_path):
    pytest.importorskip("torch")
    from headrace import train
    from headrace.train.torch import TorchTrainer

    def loop():
        fails = train.get_checkpoint() is None
        for batch in train.get_dataset_shard("train").iter_batches(batch_size=10):
            Path(tmp_path, "kept").mkdir(exist_ok=True)
            train.report({"n": len(batch["id"])}, checkpoint=train.Checkpoint(tmp_path / "kept"))
            if fails:
                raise ValueError("no luck")

    caplog.set_level(logging.INFO, "headrace.train")
    failure = train.FailureConfig(max_failures=1)
    run = train.RunConfig(name="r", storage_path=str(tmp_path / "runs"), failure_config=failure)
    scaling = train.ScalingConfig(num_workers=0)
    TorchTrainer(loop, datasets={"train": hd.range(20)}, scaling_config=scaling, run_config=run).fit()
    stored, again, stored_again, finished = messages(caplog, "headrace.train")
    folder = tmp_path / "runs" / "r" / "checkpoint_000000"
    assert stored == f"run r: checkpoint {folder} is stored"
    assert again.startswith(f"run r: restarting the train loop from {folder} (0 left): ")
    assert again.endswith("no luck") and "checkpoint_000001" in stored_again
    assert finished == "run r: the workers have finished after 2 reports"


def test_silent_by_default():
    """Without a request nothing is shown, and the module logging is not even imported."""
    program = "import sys, headrace.data as hd; hd.range(5).take_all(); print('logging' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("False\n", "")
    program = (
        "import logging; logging.basicConfig(); import headrace.data as hd; hd.range(5).take_all()\n"
        "logging.getLogger('headrace').setLevel(logging.INFO); hd.range(5).take_all()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    begins, ends = done.stderr.splitlines()
    assert begins == "INFO:headrace.data:run 2 begins: range(5)"
    assert ends.startswith("INFO:headrace.data:run 2 ends after ")


def test_columns_that_the_first_file_lacks(caplog, tmp_path):
    """They were left out in silence. The warning comes once, from a thread of the engine."""
    for name, header in (("a", "x"), ("b", "x,y"), ("c", "x,z")):
        (tmp_path / f"{name}.csv").write_text(
            f"{header}\n1,2\n".replace("\n1,2", "\n1" if name == "a" else "\n1,2")
        )
    hd.read_csv(tmp_path).to_arrow()
    told = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert len(told) == 1 and re.search(
        r"/[bc].csv: '[yz]': not read, since .*/a.csv lacks it; unify", told[0]
    )
    caplog.clear()
    hd.read_csv(tmp_path, unify="all").to_arrow()
    hd.read_csv(tmp_path).select_columns(["x"]).to_arrow()
    hd.read_csv(tmp_path / "b.csv").to_arrow()
    assert not caplog.records
