"""A run that a new driver goes on with; see train_torture.py for what kills it."""

import os
import resource
import tempfile
import time
from pathlib import Path

import pytest

import headrace.data as hd
from headrace import exceptions, train

torch = pytest.importorskip("torch")
import train_torture  # noqa: E402

from headrace.train.torch import TorchTrainer  # noqa: E402

pytestmark = pytest.mark.usefixtures("forked_ranks")
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # no wait for a disk


@pytest.fixture(scope="module")
def server():
    with train_torture.Server() as one:
        yield one


@pytest.mark.parametrize(
    ("number", "ranks"),
    [(n, 0) for n in range(4)]
    + [pytest.param(n, 0, marks=pytest.mark.thorough) for n in range(4, 8)]
    + [(8, 2)],
)
def test_killed_and_started_again(server, number, ranks):
    case = train_torture.draw(number, ranks)
    if ranks:
        case["kills"] = case["kills"][:1]
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        train_torture.run_case(server, case, folder)


def loop(config):
    rows = []
    shard = train.get_dataset_shard("train")
    for step, batch in enumerate(shard.iter_batches(batch_size=config.get("batch", 10))):
        rows += batch["id"].tolist()
        if step == 2 and config["stop"]:
            with tempfile.TemporaryDirectory() as folder:
                train.report({"rows": len(rows)}, checkpoint=train.Checkpoint(folder))
            train.report({"forgotten": True})
            raise KeyError("stop")
    return rows


def trainer(path, stop, ds=None, **more):
    return TorchTrainer(
        loop,
        train_loop_config={"stop": stop},
        datasets={"train": ds or hd.range(100)},
        scaling_config=train.ScalingConfig(num_workers=0),
        run_config=train.RunConfig(name="run", storage_path=path, **more),
    )


def test_the_same_name_goes_on(tmp_path):
    with pytest.raises(KeyError):
        trainer(tmp_path, True).fit()
    result = trainer(tmp_path, False).fit()
    assert result.return_value == list(range(30, 100))
    assert result.history == [{"rows": 30}]


def counted(config):
    """Four epochs, with a checkpoint in each. Stops after an end that the last one does not know."""
    start = train.get_checkpoint()
    first = int((Path(start.path) / "epoch").read_text()) if start else 0
    shard = train.get_dataset_shard("train")
    for epoch in range(first, 4):
        for step, _ in enumerate(shard.iter_batches(batch_size=10)):
            if step == 1:
                with tempfile.TemporaryDirectory() as folder:
                    (Path(folder) / "epoch").write_text(str(epoch))
                    train.report({"epoch": epoch}, checkpoint=train.Checkpoint(folder))
        if epoch == config["stop"]:
            raise KeyError("stop")


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("failures", [0, 1])
def test_counts_go_on(tmp_path, workers, failures):
    """By a new driver and by new workers: an end of an epoch counts once, also if it comes again."""

    def fit(stop, max_failures):
        return TorchTrainer(
            counted,
            train_loop_config={"stop": stop},
            datasets={"train": hd.range(101)},
            scaling_config=train.ScalingConfig(num_workers=workers),
            run_config=train.RunConfig(
                name="run",
                storage_path=tmp_path,
                failure_config=train.FailureConfig(max_failures=max_failures),
            ),
        ).fit()

    with pytest.raises((KeyError, train.TrainingFailedError)):
        fit(1, failures)  # each attempt ends epoch 1 once more
    result = fit(None, 0)
    counts = {"epochs": 4, "dropped_rows": 4 if workers else 0, "padded_rows": 0}
    assert result.datasets == {"train": counts}
    assert train.Result.from_path(result.path).datasets == result.datasets


def test_restore(tmp_path):
    assert not TorchTrainer.can_restore(tmp_path / "run")
    with pytest.raises(KeyError):
        trainer(tmp_path, True).fit()
    assert TorchTrainer.can_restore(tmp_path / "run")
    with pytest.raises(ValueError, match="datasets"):
        TorchTrainer.restore(tmp_path / "run")
    again = TorchTrainer.restore(
        tmp_path / "run", train_loop_config={"stop": False}, datasets={"train": hd.range(100)}
    )
    assert again.fit().return_value == list(range(30, 100))
    ended = TorchTrainer.restore(tmp_path / "run", datasets={"train": hd.range(100)}).fit()
    assert ended.return_value is None and ended.metrics == {"rows": 30}


def test_other_data(tmp_path):
    with pytest.raises(KeyError):
        trainer(tmp_path, True).fit()
    with pytest.raises(exceptions.MismatchError, match="checkpoint_000000: dataset 'train'"):
        trainer(tmp_path, False, hd.range(101)).fit()


def test_failures_in_local_mode(tmp_path):
    allowed = train.FailureConfig(max_failures=1)
    with pytest.raises(KeyError):  # steps 3, 4, 5 are the second attempt's first ones
        trainer(tmp_path, True, failure_config=allowed).fit()
    assert sorted(p.name for p in Path(tmp_path, "run").glob("checkpoint_*")) == [
        "checkpoint_000000",
        "checkpoint_000001",
    ]


def test_resume_from_checkpoint(tmp_path):
    given = train.Checkpoint(tmp_path)
    result = TorchTrainer(
        lambda: train.get_checkpoint().path,
        scaling_config=train.ScalingConfig(num_workers=0),
        run_config=train.RunConfig(name="run", storage_path=tmp_path),
        resume_from_checkpoint=given,
    ).fit()
    assert result.return_value == str(tmp_path)


def test_positions_without_checkpoints(tmp_path, capfd):
    """The loop reports nothing. A restart repeats batches after the stored position and loses none; the
    lines name the position, and not the beginning.
    """

    def slow(config):
        rows = []
        for step, batch in enumerate(train.get_dataset_shard("train").iter_batches(batch_size=10)):
            rows += batch["id"].tolist()
            time.sleep(0.02)
            if step == 40 and config["stop"]:
                raise KeyError("stop")
        return rows

    def run(stop, name="run", failures=0):
        return TorchTrainer(
            slow,
            train_loop_config={"stop": stop},
            datasets={"train": hd.range(600)},
            scaling_config=train.ScalingConfig(num_workers=0),
            run_config=train.RunConfig(
                name=name,
                storage_path=tmp_path,
                failure_config=train.FailureConfig(max_failures=failures),
                checkpoint_config=train.CheckpointConfig(positions_every_n_batches=5),
            ),
        ).fit()

    with pytest.raises(KeyError):
        run(True)
    rows = run(False).return_value
    assert f"run 'run' goes on from {tmp_path}/run/positions.json" in capfd.readouterr().err
    assert 0 < rows[0] <= 410 and rows[0] % 10 == 0
    assert rows == list(range(rows[0], 600))
    rows = run(True, "again", failures=1).return_value
    assert f"restarting the train loop from {tmp_path}/again/positions.json" in capfd.readouterr().err
    assert 0 < rows[0] <= 410 and rows == list(range(rows[0], 600))


def test_another_number_of_workers(tmp_path):
    def shares(config):
        rows = []
        for step, batch in enumerate(train.get_dataset_shard("train").iter_batches(batch_size=10)):
            rows += batch["id"].tolist()
            if step == 4 and config["stop"]:
                with tempfile.TemporaryDirectory() as folder:
                    train.report({}, checkpoint=train.Checkpoint(folder))
                raise KeyError("stop")
        return rows

    def run(workers, stop):
        return TorchTrainer(
            shares,
            train_loop_config={"stop": stop},
            datasets={"train": hd.range(400)},
            scaling_config=train.ScalingConfig(num_workers=workers),
            run_config=train.RunConfig(name="run", storage_path=tmp_path),
        ).fit()

    with pytest.raises(train.TrainingFailedError):
        run(2, True)
    assert run(0, False).return_value == list(range(100, 400))


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["test"], r"the datasets were \['train'\], those of the trainer are \['test'\]"),
        (["train", "test"], r"the datasets were \['train'\], those of the trainer are \['test', 'train'\]"),
    ],
)
def test_other_names(tmp_path, names, text):
    with pytest.raises(KeyError):
        trainer(tmp_path, True).fit()
    other = trainer(tmp_path, False)
    other.datasets = {name: hd.range(100) for name in names}
    with pytest.raises(exceptions.MismatchError, match=text):
        other.fit()


@pytest.mark.parametrize("workers", [0, 2])
def test_a_mismatch_is_not_repeated(tmp_path, workers):
    """The story: max_failures=-1 restarted for ever from a checkpoint that the new batch size did not fit."""
    with pytest.raises(KeyError):
        trainer(tmp_path, True).fit()
    other = trainer(tmp_path, False, failure_config=train.FailureConfig(max_failures=-1))
    other.loop_config = {"stop": False, "batch": 7}
    other.scaling_config = train.ScalingConfig(num_workers=workers)
    text = "batches of .* RunConfig" if workers else "batches of"
    with pytest.raises((exceptions.MismatchError, train.TrainingFailedError), match=text):
        other.fit()


def test_a_full_disk(tmp_path):
    """Files may not exceed 1 MB, as on a full disk: the error has path and bytes, and nothing half-written
    stays.
    """

    def large(config):
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "model").write_bytes(bytes(3_000_000))
            resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, limits[1]))
            try:
                train.report({}, checkpoint=train.Checkpoint(folder))
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    text = "rank 0: .*model: .*: 3,000,000 bytes are needed.*`ulimit -f`, is 1,000,000 bytes"
    with pytest.raises(exceptions.StorageError, match=text):
        TorchTrainer(
            large,
            scaling_config=train.ScalingConfig(num_workers=0),
            run_config=train.RunConfig(name="run", storage_path=tmp_path),
        ).fit()
    assert not list(Path(tmp_path, "run").glob("**/model*"))
