"""validation_config: metrics, failures, time limits, order, and what a killed driver leaves."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headrace import train
from headrace.train import (
    CheckpointConfig,
    RunConfig,
    ScalingConfig,
    ValidationConfig,
    ValidationTaskConfig,
)

pytest.importorskip("torch")
from headrace.train.torch import TorchTrainer  # noqa: E402


def saved(folder, step):
    folder = Path(folder, f"{train.get_context().get_world_rank()}-{step}")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "step").write_text(str(step))
    return train.Checkpoint(folder)


def fitted(tmp_path, loop, fn, workers=2, task=None, keep=None, name="run", failures=0):
    return TorchTrainer(
        loop,
        train_loop_config={"folder": str(tmp_path / "saved")},
        scaling_config=ScalingConfig(num_workers=workers),
        run_config=RunConfig(
            storage_path=tmp_path,
            name=name,
            failure_config=train.FailureConfig(max_failures=failures),
            checkpoint_config=CheckpointConfig(
                num_to_keep=keep, checkpoint_score_attribute="right" if keep else None
            ),
        ),
        validation_config=fn and ValidationConfig(fn, task),
    ).fit()


def test_the_best_stays_while_others_wait(forked_ranks, tmp_path):
    go = tmp_path / "go"

    def right(checkpoint):
        step = int(Path(checkpoint.path, "step").read_text())
        while step > 0 and not go.exists():
            time.sleep(0.01)
        return {"right": 10 - step}

    def loop(config):
        for step in range(4):
            train.report({"step": step}, saved(config["folder"], step), validation=True)
            if step == 0:
                while train.get_all_reported_checkpoints()[0].metrics.get("right") is None:
                    time.sleep(0.01)
        go.touch()

    result = fitted(tmp_path, loop, right, workers=1, keep=2)
    assert [metrics["step"] for _, metrics in result.best_checkpoints] == [0, 3]


def test_metrics_join_the_checkpoints(forked_ranks, tmp_path):
    def loop(config):
        for step in range(3):
            wanted = [False, True, ValidationTaskConfig({"scale": 10})][step]
            train.report({"step": step}, saved(config["folder"], step), validation=wanted)
        found = train.get_all_reported_checkpoints()
        assert [one.status.value for one in found] == ["COMMITTED", "VALIDATED", "VALIDATED"]
        assert [one.metrics.get("right") for one in found] == [None, 1, 20]
        return os.getpid()

    def fn(checkpoint, scale):  # of no name of this module, whose import takes seconds
        import os

        import headrace.data as hd

        step = int(open(f"{checkpoint.path}/step").read())
        assert hd.range(5).count() == 5  # a validation may read datasets
        return {"right": step * scale, "pid": os.getpid(), "rank": os.environ.get("RANK")}

    result = fitted(tmp_path, loop, fn, task=ValidationTaskConfig({"scale": 1}))
    metrics = [m for _, m in result.best_checkpoints]
    assert metrics[0] == {"step": 0}
    assert [(m["step"], m["right"], m["rank"]) for m in metrics[1:]] == [(1, 1, None), (2, 20, None)]
    assert len({metrics[1]["pid"], metrics[2]["pid"], result.return_value, os.getpid()}) == 4
    assert result.metrics == metrics[2] == train.Result.from_path(result.path).best_checkpoints[2][1]
    assert result.get_best_checkpoint("right", "max").path == result.checkpoint.path
    assert result.validation_failures == {}


def test_what_a_failed_validation_does(forked_ranks, tmp_path, capfd):
    def loop(config):
        for step in range(4):
            limit = ValidationTaskConfig(timeout_s=0.5) if step == 1 else True
            train.report({"step": step}, saved(config["folder"], step), validation=limit)
        found = train.get_all_reported_checkpoints(timeout_s=0)
        assert len(found) == 4 and found[3].status.value == "PENDING_VALIDATION"
        return [one.status.value for one in train.get_all_reported_checkpoints()]

    def fn(checkpoint):
        import os
        import time

        step = int(open(f"{checkpoint.path}/step").read())
        if step == 0:
            raise KeyError("no such column")
        if step == 1:
            time.sleep(600)
        if step == 2:
            os._exit(3)
        return [step]

    began = time.monotonic()
    result = fitted(tmp_path, loop, fn)
    assert time.monotonic() - began < 30
    expected = ["VALIDATION_FAILED", "VALIDATION_TIMEOUT", "VALIDATION_FAILED", "VALIDATION_FAILED"]
    assert result.return_value == expected
    failures = list(result.validation_failures.values())
    assert result.validation_failures == train.Result.from_path(result.path).validation_failures
    assert "in fn" in failures[0] and failures[0].endswith("KeyError: 'no such column'\n")
    assert failures[1] == "no result within timeout_s=0.5"
    assert failures[2] == "its process ended with exit code 3 before the function returned"
    assert "TypeError: the validation function: expected a dict of metrics, found list" in failures[3]
    printed = capfd.readouterr().err
    assert printed.count("validation of ") == 4 and "checkpoint_000000 failed:\n\nTraceback" in printed
    assert [m for _, m in result.best_checkpoints] == [{"step": step} for step in range(4)]


def test_a_restart_of_the_workers_leaves_validations_alone(forked_ranks, tmp_path):
    def loop(config):
        if train.get_checkpoint() is None:
            for step in range(2):
                train.report({"step": step}, saved(config["folder"], step), validation=True)
            if train.get_context().get_world_rank() == 1:
                raise RuntimeError("the machine is lost")
            train.collective.barrier()
        found = train.get_all_reported_checkpoints(train.CheckpointConsistencyMode.COMMITTED)
        assert found[1].status.value == "PENDING_VALIDATION"
        open(config["folder"] + "/go", "w").close()

    def fn(checkpoint):  # ends after the restart
        import os
        import time

        with open(os.path.dirname(checkpoint.path) + "/calls", "a") as out:
            out.write("x")
        while not os.path.exists(os.path.dirname(checkpoint.path) + "/../saved/go"):
            time.sleep(0.02)
        return {"right": int(open(f"{checkpoint.path}/step").read())}

    result = fitted(tmp_path, loop, fn, failures=1)
    expected = [{"step": step, "right": step} for step in range(2)]
    assert [m for _, m in result.best_checkpoints] == result.history == expected
    assert Path(result.path, "calls").read_text() == "xx"


def test_local_mode_and_the_best_checkpoints(tmp_path):
    seen = []

    def loop(config):
        for step in range(4):
            train.report({"step": step}, saved(config["folder"], step), validation=True)
            assert len(seen) == step + 1 and train.get_context().get_world_size() == 1

    def fn(checkpoint):
        with pytest.raises(RuntimeError, match="only in the train loop"):
            train.get_checkpoint()
        step = int(open(f"{checkpoint.path}/step").read())
        seen.append(step)
        if step == 2:
            raise ValueError("of the user")
        return {"right": [5, 7, 0, 6][step]}

    result = fitted(tmp_path, loop, fn, workers=0, keep=2)
    assert [m["step"] for _, m in result.best_checkpoints] == [1, 3]  # the best, and the newest
    assert len(list(Path(result.path).glob("checkpoint_*"))) == 2


def test_what_is_wrong(tmp_path):
    def of(validation, **more):
        def loop(config):
            checkpoint = saved(config["folder"], 0) if more.get("checkpoint", True) else None
            train.report({}, checkpoint, validation=validation)

        return lambda: fitted(tmp_path, loop, more.get("fn", dict), workers=0, name=f"{time.monotonic()}")

    for wrong, kind, text in (
        (of(True, fn=None), ValueError, "expected a trainer with a validation_config"),
        (of(True, checkpoint=False), ValueError, "expected a checkpoint to validate, found None"),
        (of({"a": 1}), TypeError, "expected a bool or a ValidationTaskConfig, found dict"),
        (lambda: ValidationTaskConfig({"a": {1}}), ValueError, "values that JSON can hold"),
        (lambda: ValidationTaskConfig(timeout_s=0), ValueError, "timeout_s=0.: expected more than 0"),
        (lambda: ValidationConfig(3), TypeError, "expected a function, found int"),
        (lambda: ValidationConfig(dict, {"a": 1}), TypeError, "expected a ValidationTaskConfig, found dict"),
        (lambda: TorchTrainer(dict, validation_config=dict), TypeError, "expected a ValidationConfig"),
    ):
        with pytest.raises(kind, match=text):
            wrong()


PROGRAM = """
import os, sys, time
from pathlib import Path
from headrace import train
from headrace.train.torch import TorchTrainer

folder = sys.argv[1]

def loop():
    if train.get_checkpoint() is None:
        for step in range(2):
            saved = Path(folder, f"saved{step}")
            saved.mkdir()
            wanted = train.ValidationTaskConfig({"a": step})
            train.report({"step": step}, train.Checkpoint(saved), validation=wanted)

def fn(checkpoint, a):
    began = Path(folder, f"began{a}")
    if a == 1 and not began.exists():
        began.write_text(str(os.getpid()))
        time.sleep(600)
    return {"validated": a, "times": len(list(Path(folder).glob(f"began{a}")))}

trainer = TorchTrainer(
    loop,
    run_config=train.RunConfig(name="run", storage_path=folder),
    scaling_config=train.ScalingConfig(num_workers=1),
    validation_config=train.ValidationConfig(fn),
)
found = [m for _, m in trainer.fit().best_checkpoints]
"""


@pytest.mark.timeout(900)
def test_a_killed_drivers_validations_run_again(forked_ranks, tmp_path, monkeypatch):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    began = tmp_path / "began1"
    with subprocess.Popen([sys.executable, program, tmp_path], start_new_session=True) as driver:
        until = time.monotonic() + 40
        while not (began.exists() and began.read_text()):
            assert driver.poll() is None and time.monotonic() < until
            time.sleep(0.02)
        pid = int(began.read_text())
        driver.send_signal(signal.SIGKILL)
    until = time.monotonic() + 10
    while Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes():
        assert time.monotonic() < until, "the validation outlives the driver"
        time.sleep(0.02)
    known = json.loads((tmp_path / "run" / "progress.json").read_text())["checkpoints"]
    assert [c["validation"]["status"] for c in known] == ["VALIDATED", "PENDING_VALIDATION"]
    monkeypatch.setattr(sys, "argv", [str(program), str(tmp_path)])
    names = {"__name__": "program"}
    exec(PROGRAM, names)  # the next driver is this process
    assert names["found"] == [
        {"step": 0, "validated": 0, "times": 0},
        {"step": 1, "validated": 1, "times": 1},
    ]
