"""Uploads of checkpoints by report(): what counts, in which order, and what a death leaves."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from pathlib import Path

import pytest

import headrace.data as hd
from headrace import exceptions, train
from headrace.train import Checkpoint, CheckpointUploadMode

torch = pytest.importorskip("torch")
from headrace.train.torch import TorchTrainer  # noqa: E402

pytestmark = pytest.mark.usefixtures("forked_ranks")
ASYNC, NO_UPLOAD = CheckpointUploadMode.ASYNC, CheckpointUploadMode.NO_UPLOAD


def fit(loop, tmp_path, workers=2, config=None, failures=0, keep=None, **more):
    run_config = train.RunConfig(
        name="run",
        storage_path=tmp_path,
        failure_config=train.FailureConfig(max_failures=failures),
        checkpoint_config=train.CheckpointConfig(num_to_keep=keep),
    )
    return TorchTrainer(
        loop,
        train_loop_config={"folder": str(tmp_path), **(config or {})},
        scaling_config=train.ScalingConfig(num_workers=workers),
        run_config=run_config,
        **more,
    ).fit()


def saved(text):
    """A local folder with one file of this worker."""
    folder = tempfile.mkdtemp()
    Path(folder, f"rank{train.get_context().get_world_rank()}").write_text(str(text))
    return Checkpoint(folder)


def left(tmp_path):
    """What the run's folder has beside its own files."""
    own = {"progress.json", "trainer.pkl", ".headrace.lock"}
    return sorted(p.name for p in Path(tmp_path, "run").iterdir() if p.name not in own)


def content(checkpoint):
    return {p.name: p.read_text() for p in Path(checkpoint.path).iterdir() if p.name[0] != "."}


def slow_copy(seconds):
    def copy(checkpoint, name):
        to = Path(train.get_context().get_storage().experiment_fs_path, name)
        to.mkdir(exist_ok=True)
        for file in Path(checkpoint.path).iterdir():
            (to / file.name).write_text("half")
            time.sleep(seconds)
            (to / file.name).write_text(file.read_text())
        return Checkpoint(to)

    return copy


def held_copy(config):
    """Copies when the loop says so."""

    def copy(checkpoint, name):
        until = time.monotonic() + 60
        while not Path(config["folder"], "go").exists():
            assert time.monotonic() < until
            time.sleep(0.01)
        return slow_copy(0.01)(checkpoint, name)

    return copy


@pytest.mark.parametrize(("workers", "function"), [(0, True), (2, False), (2, True)])
def test_async(tmp_path, workers, function):
    """Reports return before their uploads, checkpoints come in their order, metrics alone wait for none."""

    def loop(config):
        local = []
        for step in range(3):
            local.append(saved(step))
            fn = held_copy(config) if function else None
            train.report({"step": step}, local[-1], checkpoint_upload_mode=ASYNC, checkpoint_upload_fn=fn)
            train.report({"step": step + 0.5})
        mode = train.CheckpointConsistencyMode.COMMITTED
        early = train.get_all_reported_checkpoints(mode, timeout_s=0) if function else []
        train.collective.barrier()
        Path(config["folder"], "go").touch()
        found = train.get_all_reported_checkpoints(mode)
        there = [os.path.exists(c.path) for c in local]
        return early, [c.metrics["step"] for c in found], there, train.get_checkpoint().path

    result = fit(loop, tmp_path, workers)
    early, steps, there, newest = result.return_value
    assert early == [] and steps == [0, 1, 2] and there == [False] * 3
    assert newest == result.checkpoint.path == str(tmp_path / "run" / "checkpoint_000002")
    assert [m["step"] for m in result.history] == [0, 0.5, 1, 1.5, 2, 2.5]
    for step, (checkpoint, metrics) in enumerate(result.best_checkpoints):
        assert metrics == {"step": step}
        assert content(checkpoint) == {f"rank{r}": str(step) for r in range(max(workers, 1))}
    assert left(tmp_path) == [f"checkpoint_{n:06d}" for n in range(3)]


def test_only_rank_0_has_a_checkpoint(tmp_path):
    """The other ranks report metrics alone, with the default mode, and do not wait for the upload."""

    def loop(config):
        if train.get_context().get_world_rank() == 0:
            train.report({"a": 1}, saved("x"), "mine", ASYNC, checkpoint_upload_fn=held_copy(config))
        else:
            train.report({"a": 1})
        train.collective.barrier()
        Path(config["folder"], "go").touch()

    result = fit(loop, tmp_path)
    assert left(tmp_path) == ["mine"] and content(result.checkpoint) == {"rank0": "x"}


def test_a_sync_report_waits_for_those_before_it(tmp_path):
    def loop(config):
        train.report({"n": 0}, saved(0), checkpoint_upload_mode=ASYNC, checkpoint_upload_fn=slow_copy(0.4))
        train.report({"n": 1}, saved(1))
        return [c.metrics["n"] for c in train.get_all_reported_checkpoints()]

    assert fit(loop, tmp_path).return_value == [0, 1]


def test_positions_are_those_of_the_call(tmp_path):
    """While a checkpoint is on its way the loop reads on; a restart goes on after the batch of the call."""

    def loop(config):
        rows, first = [], train.get_checkpoint() is None
        for step, batch in enumerate(train.get_dataset_shard("train").iter_batches(batch_size=10)):
            rows += batch["id"].tolist()
            if first and step == 2:
                fn = slow_copy(0.3)
                train.report({}, saved(step), checkpoint_upload_mode=ASYNC, checkpoint_upload_fn=fn)
            if first and step == 6:
                train.get_all_reported_checkpoints()
                torch.distributed.barrier()
                raise KeyError("stop")
        return rows

    result = fit(loop, tmp_path, failures=1, datasets={"train": hd.range(200)})
    assert result.return_value == [i for s in range(3, 10) for i in range(20 * s, 20 * s + 10)]


class DiskError(Exception):
    pass


@pytest.mark.parametrize(("workers", "later"), [(0, False), (0, True), (2, False), (2, True)])
def test_a_function_that_fails(tmp_path, workers, later, capfd):
    """All ranks get the error with its type: at once, or by the next report. The rest of the run goes on."""

    def broken(checkpoint, name):
        to = Path(train.get_context().get_storage().experiment_fs_path, name)
        to.mkdir(exist_ok=True)
        (to / "half").write_text("half")
        if train.get_context().get_world_rank() == 0:
            raise DiskError("the cable")
        return Checkpoint(to)

    def loop(config):
        mode = ASYNC if later else CheckpointUploadMode.SYNC
        error = None
        try:
            train.report({"n": 0}, saved(0), checkpoint_upload_mode=mode, checkpoint_upload_fn=broken)
            train.get_all_reported_checkpoints()
            train.report({"n": 1})
        except DiskError as e:
            error = str(e), "\n".join(e.__notes__)
        train.report({"n": 2}, saved(2))
        return error

    result = fit(loop, tmp_path, workers)
    text, notes = result.return_value
    assert text == "the cable" and "checkpoint_upload_fn failed on rank 0" in notes and "in broken" in notes
    assert ("after its report() had returned" in notes) == later
    assert ("rank 0: " in capfd.readouterr().err) == later
    assert result.history == [{"n": 2}]
    kept = Path(result.checkpoint.path).name
    assert left(tmp_path) == [kept] and "half" not in content(result.checkpoint)


def test_a_full_disk_after_checkpoints(tmp_path):
    """The story: the error said that there is no checkpoint yet, beside two that a restart went on from,
    since it named what was newest when the worker last knew it.
    """

    def loop(config):
        train.report({}, saved("first"), checkpoint_upload_mode=ASYNC)
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
        try:
            train.report({}, large, checkpoint_upload_mode=ASYNC)
            train.get_all_reported_checkpoints()  # waits
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    folder = tempfile.mkdtemp()
    Path(folder, "rank0").write_text("x" * 300_000)
    large = Checkpoint(folder)
    with pytest.raises(exceptions.StorageError, match="; the last complete checkpoint stays"):
        fit(loop, tmp_path, 0)
    assert left(tmp_path) == ["checkpoint_000000"]


@pytest.mark.parametrize("catches", [False, True])
def test_the_worker_whose_disk_is_full_is_the_cause(tmp_path, catches):
    """The story: all workers raise its error; the heading named the one that was first to say so, and
    worker_failures had all.
    """

    def broken(checkpoint, name):
        if train.get_context().get_world_rank() == 1:
            raise DiskError("the disk is full")
        return Checkpoint(str(Path(train.get_context().get_storage().experiment_fs_path, name)))

    def report(config):
        train.report({}, saved(0), checkpoint_upload_fn=broken)

    def loop(config):
        if not catches:
            return report(config)
        try:
            report(config)
        except DiskError as e:
            time.sleep(0.1 * train.get_context().get_world_rank())  # the cause is not the first to say so
            raise RuntimeError("no checkpoint") from e

    with pytest.raises(
        train.WorkerGroupError, match="^rank 1 failed:(.|\n)*DiskError: the disk is full"
    ) as e:
        fit(loop, tmp_path, 3)
    kind = RuntimeError if catches else DiskError
    assert {r: type(found) for r, found in e.value.worker_failures.items()} == {1: kind}


def test_an_error_at_the_end(tmp_path):
    """No report follows: fit() raises the error."""

    def broken(checkpoint, name):
        time.sleep(0.3)
        raise DiskError("the cable")

    def loop(config):
        train.report({"n": 0}, saved(0), checkpoint_upload_mode=ASYNC, checkpoint_upload_fn=broken)

    with pytest.raises(train.TrainingFailedError, match=r"DiskError: the cable(.|\n)*in broken"):
        fit(loop, tmp_path)
    assert left(tmp_path) == []
    with pytest.raises(DiskError):
        fit(loop, tmp_path, workers=0)


@pytest.mark.parametrize("function", [False, True])
def test_a_rank_that_dies_in_an_upload(tmp_path, function):
    """Checkpoint 1 is half there when rank 1 dies: the restart goes on from checkpoint 0."""

    def dies(checkpoint, name):
        to = Path(train.get_context().get_storage().experiment_fs_path, name)
        to.mkdir(exist_ok=True)
        (to / f"rank{train.get_context().get_world_rank()}").write_text("half")
        if train.get_context().get_world_rank() == 1:
            time.sleep(0.2)
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)

    def loop(config):
        if train.get_checkpoint() is not None:
            before = content(train.get_checkpoint())
            train.report({"n": 1}, saved("again"), checkpoint_upload_mode=ASYNC)
            return before, left(config["folder"])[:1]
        train.report({"n": 0}, saved("first"), checkpoint_upload_mode=ASYNC)
        train.get_all_reported_checkpoints()
        if function:
            train.report({"n": 1}, saved("x"), checkpoint_upload_mode=ASYNC, checkpoint_upload_fn=dies)
        else:
            local = saved("x")
            if train.get_context().get_world_rank() == 1:
                shutil.copy2 = lambda *_: time.sleep(60)  # the copy does not end
            train.report({"n": 1}, local, checkpoint_upload_mode=ASYNC)
            time.sleep(0.5)
            if train.get_context().get_world_rank() == 1:
                os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)

    result = fit(loop, tmp_path, failures=1)
    before, there = result.return_value
    assert before == {"rank0": "first", "rank1": "first"}
    assert [m["n"] for _, m in result.best_checkpoints] == [0, 1]
    assert content(result.checkpoint) == {"rank0": "again", "rank1": "again"}
    assert left(tmp_path) == ["checkpoint_000000", "checkpoint_000001"]


DRIVER = """
import os, shutil, sys, time
from pathlib import Path
from headrace import train
from headrace.train import Checkpoint, CheckpointUploadMode
from headrace.train.torch import TorchTrainer

def upload(checkpoint, name):
    to = Path(train.get_context().get_storage().experiment_fs_path, name)
    to.mkdir(exist_ok=True)
    (to / "half").write_text("half")
    (to.parent.parent / "ready").touch()
    time.sleep(60)

def loop(config):
    folder = Path(config["path"], "local")
    folder.mkdir(exist_ok=True)
    train.report({"n": 0}, Checkpoint(folder))
    fn = upload if config["function"] else None
    if not fn:
        Path(folder, "file").touch()
        shutil.copy2 = lambda *_: time.sleep(60)  # the copy does not end
    train.report({"n": 1}, Checkpoint(folder), None, CheckpointUploadMode.ASYNC, False, fn)
    Path(config["path"], "ready").touch()

path, function, workers = sys.argv[1], sys.argv[2] == "True", int(sys.argv[3])
TorchTrainer(loop, train_loop_config={"path": path, "function": function},
    scaling_config=train.ScalingConfig(num_workers=workers),
    run_config=train.RunConfig(name="run", storage_path=path)).fit()
"""


@pytest.mark.parametrize(("function", "workers"), [(True, 1), (False, 0)])
def test_a_driver_that_dies_in_an_upload(tmp_path, function, workers):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(DRIVER))
    first = subprocess.Popen([sys.executable, script, tmp_path, str(function), str(workers)])
    until = time.monotonic() + 60
    uploading = 2 + function  # half a checkpoint, and the marker of the function's folder
    while not (tmp_path / "ready").exists() or len(left(tmp_path)) < uploading:
        assert time.monotonic() < until and first.poll() is None
        time.sleep(0.005)
    first.kill()
    first.wait()
    listed = json.loads((tmp_path / "run" / "progress.json").read_text())["checkpoints"]
    assert [c["metrics"]["n"] for c in listed] == [0]
    assert len(left(tmp_path)) == uploading
    again = fit(lambda config: train.get_checkpoint().path, tmp_path, workers=0)
    assert again.return_value == str(tmp_path / "run" / "checkpoint_000000") and again.history == [{"n": 0}]
    assert left(tmp_path) == ["checkpoint_000000"]


def test_no_upload(tmp_path):
    """Folders below the run's become checkpoints where they are, and count for num_to_keep."""

    def loop(config):
        run = Path(train.get_context().get_storage().experiment_fs_path)
        rank = train.get_context().get_world_rank()
        for step in range(3):
            folder = run / "mine" / f"step{step}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"rank{rank}").write_text(str(step))
            train.report({"n": step}, Checkpoint(folder), checkpoint_upload_mode=NO_UPLOAD)
        return train.get_checkpoint().path

    result = fit(loop, tmp_path, keep=2, metadata={"a": 1})
    assert result.return_value == str(tmp_path / "run" / "mine" / "step2")
    assert [Path(c.path).name for c, _ in result.best_checkpoints] == ["step1", "step2"]
    assert sorted(os.listdir(tmp_path / "run" / "mine")) == ["step1", "step2"]
    assert content(result.checkpoint) == {"rank0": "2", "rank1": "2"}
    assert result.checkpoint.get_metadata() == {"a": 1}
    again = train.Result.from_path(tmp_path / "run")
    assert again.checkpoint == result.checkpoint
    found = fit(lambda config: train.get_checkpoint().path, tmp_path)
    assert found.return_value == result.return_value


def test_a_pipe_in_a_checkpoint(tmp_path):
    # The message was "None", without the file.
    def loop(config):
        local = saved("x")
        os.mkfifo(Path(local.path, "pipe"))
        train.report({}, local)

    with pytest.raises(train.TrainingFailedError, match="rank 0: .*/pipe: neither a file nor a folder"):
        fit(loop, tmp_path, workers=1)
    assert left(tmp_path) == []


def outside(config):
    train.report({}, saved(1), checkpoint_upload_mode=NO_UPLOAD)


def the_run_itself(config):
    run = train.get_context().get_storage().experiment_fs_path
    train.report({}, Checkpoint(run), checkpoint_upload_mode=NO_UPLOAD)


def twice(config):
    folder = Path(train.get_context().get_storage().experiment_fs_path, "a")
    folder.mkdir(exist_ok=True)
    for _ in range(2):
        train.report({}, Checkpoint(folder), checkpoint_upload_mode=NO_UPLOAD)


def two_folders(config):
    run = Path(train.get_context().get_storage().experiment_fs_path)
    folder = run / f"part{train.get_context().get_world_rank()}"
    folder.mkdir()
    train.report({}, Checkpoint(folder), checkpoint_upload_mode=NO_UPLOAD)


def no_checkpoint(config):
    train.report({}, saved(1), checkpoint_upload_fn=lambda checkpoint, name: None)


def deletes_the_run(config):
    train.report({}, Checkpoint(config["folder"]), checkpoint_upload_mode=ASYNC)


def a_name(config):
    train.report({}, saved(1), checkpoint_upload_mode="ASYNC")


@pytest.mark.parametrize(
    ("loop", "error", "text"),
    [
        (outside, ValueError, "expected a folder below the run's folder"),
        (the_run_itself, ValueError, "expected a folder below the run's folder"),
        (twice, ValueError, "shares files with the run's checkpoint a"),
        (no_checkpoint, ValueError, "expected that it returns a Checkpoint, found NoneType"),
        (deletes_the_run, ValueError, "contains the run's folder"),
        (a_name, TypeError, "expected a CheckpointUploadMode, found str"),
    ],
)
def test_what_is_wrong(tmp_path, loop, error, text):
    with pytest.raises(error, match=text):
        fit(loop, tmp_path, workers=0)


def test_two_folders(tmp_path):
    with pytest.raises(train.TrainingFailedError, match="expected one folder .*part0 from rank 0, part1"):
        fit(two_folders, tmp_path)


def test_a_slow_upload_has_a_line(tmp_path, monkeypatch, capfd):
    from headrace.train import uploads

    monkeypatch.setattr(uploads, "SLOW_S", 0.2)
    fit(lambda config: train.report({}, saved(1), checkpoint_upload_fn=slow_copy(1.5)), tmp_path, workers=0)
    assert "rank 0: the upload of checkpoint_000000 has been running for 0 s" in capfd.readouterr().err
    assert not [t for t in threading.enumerate() if t.name.startswith("headrace-train-upload")]
