"""Callbacks of the driver, collectives of the workers, reported checkpoints, TorchCheckpoint."""

import csv
import json
import logging
import re
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import numpy as np
import pytest

import headrace.data as hd
from headrace import train
from headrace.train import (
    Checkpoint,
    CsvWriter,
    FailureConfig,
    JsonLinesWriter,
    LoggingConfig,
    RunConfig,
    ScalingConfig,
    TrainingFailedError,
    UserCallback,
    collective,
)

torch = pytest.importorskip("torch")
from headrace.train.torch import TorchCheckpoint, TorchTrainer  # noqa: E402

pytestmark = pytest.mark.usefixtures("forked_ranks")


def fit(loop, path, workers=0, **more):
    return TorchTrainer(
        loop,
        train_loop_config=more.pop("config", None),
        scaling_config=ScalingConfig(num_workers=workers),
        run_config=RunConfig(name="run", storage_path=path, **more),
    ).fit()


def checkpoint():
    return Checkpoint(tempfile.mkdtemp())


class Notes(UserCallback):
    def __init__(self):
        self.seen = []

    def before_start(self, run_context):
        self.seen.append(("start", len(run_context.history)))

    def after_report(self, run_context, metrics, checkpoint):
        self.seen.append((metrics, checkpoint and Path(checkpoint.path).name))

    def after_exception(self, run_context, worker_exceptions):
        self.seen.append({rank: type(e).__name__ for rank, e in worker_exceptions.items()})


def test_two_workers(tmp_path):
    """Callbacks get all ranks' metrics, broadcasts reach all ranks, and each sees the checkpoints."""

    def loop():
        rank = train.get_context().get_world_rank()
        collective.barrier()
        sent = collective.broadcast_from_rank_zero({"a": [1, 2]} if rank == 0 else None)
        assert sent == {"a": [1, 2]}
        train.report({"rank": rank})
        train.report({"rank": rank, "n": 1}, checkpoint=checkpoint())
        found = train.get_all_reported_checkpoints()
        assert [c.metrics for c in found] == [{"rank": 0, "n": 1}]
        assert found[0].status is train.ReportedCheckpointStatus.COMMITTED
        assert Path(found[0].checkpoint.path).is_dir()
        if rank == 1:
            raise KeyError("last")
        collective.barrier()

    notes = Notes()
    with pytest.raises(TrainingFailedError, match="last"):
        fit(loop, tmp_path, 2, callbacks=[notes])
    assert notes.seen == [
        ("start", 0),
        ([{"rank": 0}, {"rank": 1}], None),
        ([{"rank": 0, "n": 1}, {"rank": 1, "n": 1}], "checkpoint_000000"),
        {1: "KeyError"},
    ]


def test_calls_that_differ(tmp_path):
    def loop():
        if train.get_context().get_world_rank() == 0:
            train.report({})
        else:
            collective.barrier()

    with pytest.raises(TrainingFailedError, match=r"rank 0 called report\(\), rank 1 called barrier\(\)"):
        fit(loop, tmp_path, 2)


def failing_once(config):
    n = len(config["runs"])
    config["runs"].append(n)
    done = train.get_checkpoint() is not None
    for step in range(2 if done else 0, 4):
        stored = checkpoint() if step == 1 else None
        train.report({"step": step, **({"late": [step]} if step == 3 else {})}, checkpoint=stored)
        if step == 2 and n == 0:
            raise KeyError("once")


def test_files_of_metrics(tmp_path):
    """A restart drops the reports after the checkpoint; the files have each report once."""
    notes = Notes()
    fit(
        failing_once,
        tmp_path,
        config={"runs": []},
        callbacks=[JsonLinesWriter(), CsvWriter(), notes],
        failure_config=FailureConfig(max_failures=1),
    )
    want = [{"step": 0}, {"step": 1}, {"step": 2}, {"step": 3, "late": [3]}]
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == want
    rows = list(csv.reader((tmp_path / "run" / "metrics.csv").open()))
    assert rows == [["step", "late"], ["0", ""], ["1", ""], ["2", ""], ["3", "[3]"]]
    assert [s for s in notes.seen if isinstance(s, tuple) and s[0] == "start"] == [("start", 0), ("start", 2)]


def test_tensorboard(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    def loop():
        for step in range(3):
            train.report({"loss": np.float32(1 / (step + 1)), "text": "a"})

    fit(loop, tmp_path, callbacks=[train.TensorBoardWriter()])
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    assert [(e.step, round(e.value, 3)) for e in events.Scalars("loss")] == [(0, 1.0), (1, 0.5), (2, 0.333)]


def test_a_callback_that_raises(tmp_path):
    class Raises(UserCallback):
        def after_report(self, run_context, metrics, checkpoint):
            raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        fit(lambda: train.report({}), tmp_path, callbacks=[Raises()])


def test_logging_config(tmp_path, capfd):
    fit(lambda: train.report({}, checkpoint=checkpoint()), tmp_path)
    fit(lambda: None, tmp_path, logging_config=LoggingConfig("warning"))
    assert "goes on" not in capfd.readouterr().err
    fit(lambda: None, tmp_path)
    assert "goes on" in capfd.readouterr().err
    with pytest.raises(ValueError, match="log_level='loud'.*INFO"):
        LoggingConfig("loud")
    assert LoggingConfig("debug").log_level == logging.getLevelName(logging.DEBUG)


def test_logging_config_is_the_level_of_the_logger(tmp_path):
    """The story: "DEBUG" and "ERROR" were as "INFO" and "WARNING"."""
    script = """
        import logging, sys, tempfile
        from headrace import train
        from headrace.train.torch import TorchTrainer

        def loop():
            with tempfile.TemporaryDirectory() as folder:
                train.report({}, checkpoint=train.Checkpoint.from_directory(folder))

        def fit(level):
            print(level, file=sys.stderr, flush=True)
            logs = train.LoggingConfig(level)
            how = train.RunConfig(name=level, storage_path=sys.argv[1], logging_config=logs)
            TorchTrainer(loop, scaling_config=train.ScalingConfig(num_workers=0), run_config=how).fit()

        fit("DEBUG")
        fit("INFO")
        assert not logging.getLogger("headrace.train").handlers
        logging.basicConfig(level=logging.INFO)
        fit("INFO")
        fit("ERROR")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), tmp_path], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    stored = ["stored" in part for part in re.split("^(?:DEBUG|INFO|ERROR)$", done.stderr, flags=re.M)]
    assert stored == [False, True, False, True, False], done.stderr


def test_outside_a_train_loop():
    for call in (collective.barrier, train.get_all_reported_checkpoints):
        with pytest.raises(RuntimeError, match="only in the train loop"):
            call()


def test_torch_checkpoint(tmp_path):
    from headrace.data.preprocessors import StandardScaler

    scaler = StandardScaler(columns=["id"]).fit(hd.range(10))
    model = torch.nn.Linear(2, 1)
    saved = {f"module.{name}": value for name, value in model.state_dict().items()}
    made = TorchCheckpoint.from_state_dict(saved, preprocessor=scaler)
    again = TorchCheckpoint(made.path).get_model(torch.nn.Linear(2, 1))
    assert all(torch.equal(a, b) for a, b in zip(again.parameters(), model.parameters(), strict=True))
    assert made.get_preprocessor().stats_ == scaler.stats_
    with pytest.raises(ValueError, match="found a state_dict"):
        made.get_model()
    whole = TorchCheckpoint.from_model(model)
    assert whole.get_preprocessor() is None
    assert torch.equal(whole.get_model().weight, model.weight)
    with pytest.raises(FileNotFoundError, match=r"model\.pt"):
        TorchCheckpoint(tmp_path).get_model()
