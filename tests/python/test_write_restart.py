"""Write jobs that go on where an earlier one ended: CheckpointConfig."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from object_server import S3Server

import headrace.data as hd
from headrace import exceptions
from headrace.data import restarting
from headrace.data.checkpoint import CheckpointConfig
from headrace.data.checkpoint.interfaces import InvalidCheckpointingConfig, InvalidCheckpointingOperators
from headrace.data.expressions import col


@pytest.fixture
def job(tmp_path, monkeypatch):
    """(the folder of results, the folder of checkpoints); parts of some rows."""
    monkeypatch.setattr(restarting, "PART_BYTES", 4000)
    context = hd.DataContext.get_current()
    config = CheckpointConfig("id", str(tmp_path / "done"))
    context.checkpoint_config = config
    yield tmp_path / "out", Path(config.checkpoint_path)
    context.checkpoint_config = None


class Fails:
    """Fails at a row; counts its rows in a file."""

    def __init__(self, at, seen):
        self.at, self.seen = at, seen

    def __call__(self, batch):
        if self.at in batch["id"]:
            raise ZeroDivisionError(f"row {self.at}")
        with open(self.seen, "a") as file:
            file.write("".join(f"{i}\n" for i in batch["id"]))
        return {"id": batch["id"], "y": batch["id"] * 2}


def rows_of(out):
    hd.DataContext.get_current().checkpoint_config = None
    return sorted(row["id"] for row in hd.read_parquet(str(out)).take_all())


@pytest.mark.parametrize("write", ["write_parquet", "write_csv", "write_json"])
def test_a_job_that_fails_and_goes_on(job, tmp_path, write):
    out, done = job
    hd.range(5000).write_parquet(str(tmp_path / "in"), max_rows_per_file=1000)
    assert not done.exists()  # the job is complete
    seen = tmp_path / "seen"

    def run(at):
        ds = hd.read_parquet(str(tmp_path / "in"))
        ds = ds.map_batches(Fails(at, str(seen)), batch_size=500, compute="inline")
        return getattr(ds, write)(str(out))

    with pytest.raises(ZeroDivisionError, match="row 3200"):
        run(3200)
    written = hd.read_parquet(str(done)).count()
    assert written >= 1000 and not list(done.glob("*.pending"))
    seen.unlink()
    made = run(-1)
    again = len(seen.read_text().split())
    assert again == 5000 - written  # complete parts do not come again
    assert sum(f["rows"] for f in made) == again and not done.exists()
    hd.DataContext.get_current().checkpoint_config = None
    read = getattr(hd, write.replace("write", "read"))
    ids = sorted(row["id"] for row in read(str(out)).take_all())
    assert ids == list(range(5000))


def test_files_of_a_part_that_was_not_completed(job, tmp_path):
    """The story: a kill between the files of a part and its checkpoint. The files go, the rows come again."""
    out, done = job
    real, calls = os.replace, []

    def replace(a, b):
        calls.append(b)
        if len(calls) == 3:
            raise KeyboardInterrupt
        real(a, b)

    restarting.os.replace = replace
    try:
        with pytest.raises(KeyboardInterrupt):
            hd.range(4000, override_num_blocks=8).write_parquet(str(out), partition_cols=None)
    finally:
        restarting.os.replace = real
    assert len(list(done.glob("*.pending"))) == 1 and len(list(done.glob("*.parquet"))) == 2
    assert len(list(out.glob("*.parquet"))) == 3
    hd.range(4000, override_num_blocks=8).write_parquet(str(out))
    assert rows_of(out) == list(range(4000)) and not done.exists()


KILLED = """
import os, sys, time
import headrace.data as hd
from headrace.data import restarting
restarting.PART_BYTES = 4000
hd.DataContext.get_current().checkpoint_config = {"id_column": "id", "checkpoint_path": sys.argv[2]}
def slow(batch):
    time.sleep(0.05)
    return batch
ds = hd.range(4000, override_num_blocks=8).map_batches(slow, batch_size=100, compute="inline")
ds.write_parquet(sys.argv[1])
"""


def test_a_job_that_is_killed(job):
    out, done = job
    child = subprocess.Popen([sys.executable, "-c", KILLED, str(out), str(done)])
    while child.poll() is None and len(list(done.glob("*.parquet"))) < 2:
        pass
    child.send_signal(signal.SIGKILL)
    child.wait()
    made = hd.range(4000, override_num_blocks=8).write_parquet(str(out))
    assert 0 < sum(f["rows"] for f in made) <= 3000
    assert rows_of(out) == list(range(4000))


@pytest.fixture
def store(tmp_path, monkeypatch):
    (tmp_path / "root" / "bucket").mkdir(parents=True)
    server = S3Server(tmp_path / "root")
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", server.key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", server.secret)
    yield server
    server.close()


# The request that kills the job: its kind, what its path has, its number among these, whether it is done.
DEATHS = [
    ("PUT", ".pending", 3, True),
    ("PART", "/out/", 3, True),
    ("PUT", "_headrace_commit", 3, True),
    ("PUT", "_SUCCESS", 3, True),
    ("COMPLETE", "/done/", 3, False),
    ("DELETE", ".pending", 3, False),
]


@pytest.mark.parametrize(("kind", "what", "number", "done"), DEATHS)
def test_a_job_in_a_store_that_is_killed(kind, what, number, done, store, monkeypatch):
    monkeypatch.setattr(restarting, "PART_BYTES", 4000)
    seen = [0]

    def kill(found, path, handler):
        seen[0] += found == kind and what in path
        if found != kind or what not in path or seen[0] != number:
            return None
        child.kill()
        return "lose" if done else True

    store.on_write = kill
    words = ["s3://bucket/out", "s3://bucket/done"]
    child = subprocess.Popen([sys.executable, "-c", KILLED.replace("0.05", "0"), *words])
    assert child.wait(60) == -signal.SIGKILL
    store.on_write = None
    context = hd.DataContext.get_current()
    context.checkpoint_config = CheckpointConfig("id", words[1])
    try:
        made = hd.range(4000, override_num_blocks=8).write_parquet(words[0])
    finally:
        context.checkpoint_config = None
    assert 0 < sum(f["rows"] for f in made) <= 3500
    assert rows_of(words[0]) == list(range(4000)) and not store.uploads
    assert not list((store.root / "bucket" / "done").glob("*"))


def test_what_is_kept(job):
    out, done = job
    config = hd.DataContext.get_current().checkpoint_config
    config.delete_checkpoint_on_success = False
    assert len(hd.range(1000).write_parquet(str(out))) >= 1
    assert hd.range(1000).write_parquet(str(out)) == []
    assert sum(f["rows"] for f in hd.range(1500).write_parquet(str(out))) == 500  # rows that came later
    assert rows_of(out) == list(range(1500)) and list(done.glob("*.parquet"))


def test_a_source_of_ones_own(job, tmp_path):
    """The column is there behind the tasks of the source."""
    out, done = job

    class Source(hd.Datasource):
        def get_read_tasks(self, parallelism, per_task_row_limit=None):
            return [hd.ReadTask(lambda i=i: [{"id": np.arange(i * 1000, i * 1000 + 1000)}]) for i in range(3)]

    ds = hd.read_datasource(Source(), compute="inline")
    with pytest.raises(ZeroDivisionError):
        ds.map_batches(Fails(2500, str(tmp_path / "seen")), compute="inline").write_parquet(str(out))
    ds.map_batches(Fails(-1, str(tmp_path / "seen")), compute="inline").write_parquet(str(out))
    assert rows_of(out) == list(range(3000))


def test_plans_that_cannot_restart(job):
    out, _ = job
    ds = hd.range(100)
    for made, text in [
        (ds.sort("id"), r"sort\(id\): expected steps that work row by row"),
        (ds.random_shuffle(seed=1), "random_shuffle"),
        (ds.union(ds), "union"),
        (ds.limit(5), "limit"),
    ]:
        with pytest.raises(InvalidCheckpointingOperators, match=text):
            made.write_parquet(str(out))
    for made in (ds.rename_columns({"id": "other"}), ds.with_column("x", col("id")).select_columns(["x"])):
        with pytest.raises(exceptions.InvalidArgument, match="expected the column 'id' in the source and in"):
            made.write_parquet(str(out))
    for arguments in (
        {"mode": "overwrite"},
        {"single_file": True},
        {"filename_provider": hd.FilenameProvider()},
    ):
        with pytest.raises(exceptions.UnsupportedError, match="expected mode 'append', no filename_provider"):
            ds.write_parquet(str(out), **arguments)
    with pytest.raises(
        exceptions.UnsupportedError, match="write_sql: checkpoint_config: only writers of files"
    ):
        ds.write_sql("", lambda: None)


def test_configs(tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_DATA_CHECKPOINT_PATH_BUCKET", str(tmp_path))
    assert CheckpointConfig("id").checkpoint_path == str(tmp_path / "ray_data_checkpoint")
    assert CheckpointConfig("id", "/x") == CheckpointConfig("id", "/x") != CheckpointConfig("id", "/y")
    monkeypatch.delenv("RAY_DATA_CHECKPOINT_PATH_BUCKET")
    for arguments in ((), ("",), ("id",), ("id", "ftp://x/y")):
        with pytest.raises(InvalidCheckpointingConfig):
            CheckpointConfig(*arguments)
    with pytest.raises(exceptions.UnsupportedError, match="override_backend is not supported"):
        CheckpointConfig("id", "/x", override_backend="FILE_STORAGE")
    context = hd.DataContext.get_current().copy()
    context.checkpoint_config = {"id_column": "id", "checkpoint_path": "/x"}
    assert context.copy().checkpoint_config == CheckpointConfig("id", "/x")
    assert hd.DataContext.get_current().checkpoint_config is None
