"""RunConfig(storage_filesystem=): runs and checkpoints in a filesystem of fsspec or pyarrow."""

import os
import pickle
from pathlib import Path

import pyarrow.fs
import pytest
from test_served import Handler, OnlyOpen

import headrace.data as hd
import headrace.train as train
from headrace.train import Checkpoint, Result
from headrace.train.data_parallel_trainer import DataParallelTrainer


def loop(config):
    import tempfile

    rows, start = [], train.get_checkpoint()
    if start is not None:
        with start.as_directory() as folder:
            rows.append(Path(folder, "model").read_text())
    for step, batch in enumerate(train.get_dataset_shard("train").iter_batches(batch_size=10)):
        rows += batch["id"].tolist()
        if step % 2 == 1:
            folder = tempfile.mkdtemp()
            Path(folder, "model").write_text(str(rows[-1]))
            train.report({"last": int(rows[-1])}, Checkpoint(folder))
        if step + 1 == config.get("stop"):
            raise KeyError("stop")
    return rows


def trainer(fs, path, workers=0, **config):
    return DataParallelTrainer(
        loop,
        train_loop_config=config,
        datasets={"train": hd.range(60)},
        scaling_config=train.ScalingConfig(num_workers=workers),
        run_config=train.RunConfig(name="run", storage_path=path, storage_filesystem=fs),
    )


def places(tmp_path):
    (tmp_path / "only").mkdir()
    yield OnlyOpen(tmp_path / "only"), "runs"
    yield pyarrow.fs.PyFileSystem(Handler(pyarrow.fs.LocalFileSystem())), str(tmp_path / "arrow")
    yield pyarrow.fs.LocalFileSystem(), str(tmp_path / "local")


@pytest.mark.parametrize("workers", [0, 1])
def test_a_run_is_stored_and_goes_on(workers, tmp_path, request):
    if workers:
        request.getfixturevalue("forked_ranks")
    for fs, path in places(tmp_path):
        with pytest.raises(Exception, match="stop"):
            trainer(fs, path, workers, stop=4).fit()
        assert DataParallelTrainer.can_restore(f"{path}/run", fs)
        again = DataParallelTrainer.restore(
            f"{path}/run", loop, {}, storage_filesystem=fs, datasets={"train": hd.range(60)}
        )
        result = again.fit()
        assert result.return_value == ["39", *range(40, 60)]
        assert [m["last"] for m in result.history] == [19, 39, 59]
        found = Result.from_path(f"{path}/run", fs)
        assert found.history == result.history and len(found.best_checkpoints) == 3
        with found.checkpoint.as_directory() as folder:
            assert Path(folder, "model").read_text() == "59"
        given = Checkpoint(f"{path}/run/{os.path.basename(found.checkpoint.path)}", fs)
        assert given == found.checkpoint
        assert Path(given.to_directory(tmp_path / "to"), "model").read_text() == "59"


def test_no_file_of_a_run_has_the_filesystem(tmp_path):
    (tmp_path / "only").mkdir()

    class Secret(OnlyOpen):
        def __init__(self, root):
            super().__init__(root)
            self.key = "HUSH" * 4

    fs = Secret(tmp_path / "only")
    trainer(fs, "runs").fit()
    files = [p for p in (tmp_path / "only").rglob("*") if p.is_file()]
    assert files and not [p for p in files if b"HUSH" in p.read_bytes()]
    config = train.RunConfig(storage_path="runs", storage_filesystem=fs)
    assert b"HUSH" not in pickle.dumps(config) and "HUSH" not in repr(config)
    assert b"HUSH" not in pickle.dumps(Checkpoint("a", fs))
