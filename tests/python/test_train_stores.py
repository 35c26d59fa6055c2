"""Runs in a store: RunConfig(storage_path="s3://..."). The server checks signatures and conditions."""

import copy
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from object_server import S3Server

import headrace.data as hd
from headrace import train
from headrace.exceptions import StorageError, UnsupportedError
from headrace.train import Checkpoint, CheckpointUploadMode, Result, context
from headrace.train.data_parallel_trainer import DataParallelTrainer

RUN = "s3://bucket/runs/run"
OWN = {"progress.json", "trainer.pkl"}


@pytest.fixture
def server(tmp_path, monkeypatch):
    (tmp_path / "root" / "bucket").mkdir(parents=True)
    server = S3Server(tmp_path / "root")
    for name in [n for n in os.environ if n.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    yield server
    server.close()


def options(server):
    return {"endpoint": server.url, "key": server.key, "secret": server.secret}


def keys(server, below="runs/run"):
    root = server.root / "bucket" / below
    return sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file())


def folders(server):
    return sorted({k.partition("/")[0] for k in keys(server)} - OWN)


def saved(text, name="model"):
    folder = tempfile.mkdtemp()
    Path(folder, f"{name}{train.get_context().get_world_rank()}").write_text(str(text))
    Path(folder, "sub").mkdir()
    Path(folder, "sub", "[x] ä+%.bin").write_bytes(b"")
    return Checkpoint(folder)


def loop(config):
    """Ten rows a step. Reports a checkpoint every second step; ends in a KeyError after `stop` steps."""
    rows, start = [], train.get_checkpoint()
    if start is not None:
        with start.as_directory() as folder:
            rows.append(Path(folder, "model0").read_text())
    for step, batch in enumerate(train.get_dataset_shard("train").iter_batches(batch_size=10)):
        rows += batch["id"].tolist()
        if step % 2 == 1:
            train.report({"last": rows[-1]}, saved(rows[-1]))
        if step + 1 == config.get("stop"):
            raise KeyError("stop")
    return rows


def trainer(
    server, loop=loop, config=None, workers=0, keep=None, path="s3://bucket/runs", given=None, **more
):
    return DataParallelTrainer(
        loop,
        train_loop_config=config or {},
        datasets={"train": hd.range(100)},
        scaling_config=train.ScalingConfig(num_workers=workers),
        run_config=train.RunConfig(
            name="run",
            storage_path=path,
            storage_options=given or options(server),
            checkpoint_config=train.CheckpointConfig(num_to_keep=keep),
        ),
        **more,
    )


def test_a_run_and_its_result(server):
    result = trainer(server, keep=2, metadata={"a": 1}).fit()
    assert result.path == RUN and result.checkpoint.path == f"{RUN}/checkpoint_000004"
    assert result.checkpoint.get_metadata() == {"a": 1}
    assert folders(server) == ["checkpoint_000003", "checkpoint_000004"]
    assert [k for k in keys(server) if k.startswith("checkpoint_000004")] == [
        f"checkpoint_000004/{n}" for n in (".headrace.json", ".metadata.json", "model0", "sub/[x] ä+%.bin")
    ]
    assert not server.uploads
    again = Result.from_path(RUN, storage_options=options(server))
    assert again.metrics == {"last": 99} and again.history == result.history
    assert again.best_checkpoints == result.best_checkpoints and len(again.history) == 5
    assert json.loads((server.root / "bucket/runs/run/progress.json").read_text())["finished"]


def test_checkpoints_come_down(server, tmp_path):
    result = trainer(server, keep=1).fit()
    with result.checkpoint.as_directory() as folder:
        assert Path(folder, "model0").read_text() == "99" and Path(folder, "sub/[x] ä+%.bin").exists()
    assert not os.path.exists(folder)
    assert result.checkpoint.to_directory(tmp_path / "to") == str(tmp_path / "to")
    assert (tmp_path / "to" / "model0").read_text() == "99"
    made = Checkpoint(f"{RUN}/checkpoint_000004/", storage_options=options(server))
    assert made == result.checkpoint and hash(made) == hash(result.checkpoint)
    made.update_metadata({"b": 2})
    assert result.checkpoint.get_metadata() == {"b": 2}
    none = Checkpoint(f"{RUN}/none", storage_options=options(server))
    with pytest.raises(FileNotFoundError, match="s3://bucket/runs/run/none: the checkpoint does not exist"):
        none.to_directory()
    assert repr(none) == f"Checkpoint(filesystem=s3, path={RUN}/none)"


def test_a_new_trainer_goes_on(server):
    with pytest.raises(KeyError):
        trainer(server, config={"stop": 5}).fit()
    assert folders(server) == ["checkpoint_000000", "checkpoint_000001"]
    result = trainer(server).fit()
    assert result.return_value == ["39", *range(40, 100)]
    assert [m["last"] for m in result.history] == [19, 39, 59, 79, 99]


def test_files_that_the_user_brings(server):
    """As a program of the user's would write them into the bucket."""

    def bring(name):
        folder = Path(server.root, "bucket/runs/run", name)
        folder.mkdir(parents=True)
        (folder / "model0").write_text(name)
        return Checkpoint(f"{train.get_context().get_storage().experiment_fs_path}/{name}")

    def loop(config):
        train.report({"n": 1}, bring("mine"), checkpoint_upload_mode=CheckpointUploadMode.NO_UPLOAD)
        train.report({"n": 2}, saved(1), checkpoint_upload_fn=lambda checkpoint, name: bring(name))
        with pytest.raises(ValueError, match="expected a folder below the run's folder s3://"):
            train.report({"n": 3}, Checkpoint("s3://bucket/x"), None, CheckpointUploadMode.NO_UPLOAD)
        with pytest.raises(ValueError, match="expected a folder below the run's folder s3://"):
            train.report({"n": 3}, saved(1), checkpoint_upload_fn=lambda checkpoint, name: checkpoint)
        with pytest.raises(KeyError):
            train.report({"n": 3}, saved(1), checkpoint_upload_fn=lambda c, name: {}[bring(name)])
        train.report({"n": 3}, train.get_checkpoint())

    result = trainer(server, loop).fit()
    names = [Path(c.path).name for c, _ in result.best_checkpoints]
    assert names == ["mine", "checkpoint_000001", "checkpoint_000002"]
    with result.checkpoint.as_directory() as folder:
        assert Path(folder, "model0").read_text() == "checkpoint_000001"
    assert folders(server) == sorted(names)


def test_restore(server):
    given = options(server)
    assert not DataParallelTrainer.can_restore(RUN, storage_options=given)
    with pytest.raises(KeyError):
        trainer(server, config={"stop": 3}).fit()
    assert DataParallelTrainer.can_restore(RUN, storage_options=given)
    again = DataParallelTrainer.restore(
        RUN, train_loop_config={}, datasets={"train": hd.range(100)}, storage_options=given
    )
    assert again.fit().return_value == ["19", *range(20, 100)]
    ended = DataParallelTrainer.restore(RUN, datasets={"train": hd.range(100)}, storage_options=given).fit()
    assert ended.return_value is None and ended.metrics == {"last": 99}


def test_resume_from_checkpoint(server):
    first = trainer(server, keep=1).fit().checkpoint
    there = trainer(server, path="s3://bucket/others", resume_from_checkpoint=first).fit()
    assert there.return_value[:2] == ["99", 0]
    missing = Checkpoint(f"{RUN}/none", storage_options=options(server))
    with pytest.raises(FileNotFoundError, match="resume_from_checkpoint: s3://"):
        trainer(server, path="s3://bucket/x", resume_from_checkpoint=missing).fit()


@pytest.mark.skipif(not find_spec("torch"), reason="needs torch")
@pytest.mark.usefixtures("forked_ranks")
def test_two_workers_in_the_background(server):
    def loop(config):
        start = train.get_checkpoint()
        seen = []
        if start is not None:
            with start.as_directory() as folder:
                seen = sorted(p.name for p in Path(folder).iterdir() if p.name[0] != ".")
        for step in range(2):
            train.report({"step": step}, saved(step), checkpoint_upload_mode=CheckpointUploadMode.ASYNC)
        found = train.get_all_reported_checkpoints(train.CheckpointConsistencyMode.COMMITTED)
        return seen, [c.checkpoint.path for c in found], train.get_context().get_trial_dir()

    first = trainer(server, loop, workers=2).fit().return_value
    assert first == ([], [f"{RUN}/checkpoint_{n:06d}" for n in range(2)], RUN)
    again = trainer(server, loop, workers=2).fit()
    assert again.return_value[0] == ["model0", "model1", "sub"]
    assert folders(server) == [f"checkpoint_{n:06d}" for n in range(4)]


@pytest.mark.skipif(not find_spec("torch"), reason="needs torch")
@pytest.mark.usefixtures("forked_ranks")
def test_a_refused_upload_names_rank_url_and_the_stores_words(server):
    def loop(config):
        try:
            train.report({}, saved(1))
        except StorageError as e:
            return str(e)

    def refuse(kind, path, handler):
        return server.refuse(handler, 403, "AccessDenied") or True if path.endswith("model1") else None

    server.on_write = refuse
    result = trainer(server, loop, workers=2).fit()
    assert (
        "rank 1: s3://bucket/runs/run/checkpoint_000000/model1: access denied (HTTP 403)"
        in result.return_value
    )
    assert "AccessDenied" in result.return_value and server.secret not in result.return_value
    assert folders(server) == [] and result.checkpoint is None
    assert not server.uploads


SCRIPT = """
import sys; sys.path[:0] = [{folder!r}]
from test_train_stores import *
class server: url, key, secret = {given!r}
trainer(server, keep=2).fit()
"""
# What the server sees when the process dies, and whether the request is done; the newest checkpoint then. A
# run stores for each checkpoint the name of its upload, its files, its state, and lists it in progress.json.
DEATHS = [
    ("PUT", ".upload_000001", True, 0),
    ("PART", "checkpoint_000001", True, 0),
    ("COMPLETE", "checkpoint_000001/model0", True, 0),
    ("PUT", "checkpoint_000001/.headrace.json", False, 0),
    ("PUT", "checkpoint_000001/.headrace.json", True, 0),
    ("DELETE", ".upload_000001", False, 1),
    ("DELETE", "checkpoint_000000/.headrace.json", True, 2),
]


@pytest.mark.parametrize("kind,what,done,newest", DEATHS)
def test_death_in_each_phase(kind, what, done, newest, server):
    def kill(found, path, handler):
        if found != kind or what not in path:
            return None
        os.kill(child.pid, signal.SIGKILL)
        return "lose" if done else True

    server.on_write = kill
    text = SCRIPT.format(folder=os.path.dirname(__file__), given=(server.url, server.key, server.secret))
    child = subprocess.Popen([sys.executable, "-c", text], stderr=subprocess.PIPE)
    error = child.communicate(timeout=300)[1]
    assert child.returncode == -signal.SIGKILL, error
    server.on_write = None
    there = Result.from_path(RUN, storage_options=options(server))
    assert there.checkpoint.path == f"{RUN}/checkpoint_{newest:06d}"
    result = trainer(server, keep=2).fit()
    assert result.return_value == [str(20 * newest + 19), *range(20 * newest + 20, 100)]
    assert folders(server) == ["checkpoint_000003", "checkpoint_000004"]
    assert not server.uploads


def test_the_later_driver_takes_over(server):
    """Nothing locks a run in a store: the first driver ends at its next report."""

    def loop(config):
        train.report({"n": 1}, saved(1))
        session = context._session
        trainer(server, lambda: train.report({"n": 2}, saved(2))).fit()
        context.set_session(session)
        train.report({"n": 3}, saved(3))

    with pytest.raises(RuntimeError, match="another driver has taken over this run"):
        trainer(server, loop).fit()
    there = Result.from_path(RUN, storage_options=options(server))
    assert [m["n"] for m in there.history] == [1, 2]
    with there.checkpoint.as_directory() as folder:
        assert Path(folder, "model0").read_text() == "2"


def test_positions_without_checkpoints(server):
    def loop(config):
        rows = []
        for step, batch in enumerate(train.get_dataset_shard("train").iter_batches(batch_size=10)):
            rows += batch["id"].tolist()
            until = time.monotonic() + 30
            while config and step == 5 and not Path(server.root, "bucket/runs/run/positions.json").exists():
                assert time.monotonic() < until
                time.sleep(0.01)
            if config and step == 6:
                raise KeyError("stop")
        return rows

    for stop in (True, False):
        one = trainer(server, loop, {"stop": True} if stop else {})
        one.run_config.checkpoint_config.positions_every_n_batches = 2
        if stop:
            with pytest.raises(KeyError):
                one.fit()
    rows = one.fit().return_value
    assert rows == list(range(rows[0], 100)) and 20 <= rows[0] <= 70


def lose_once(name):
    left = [1]

    def hook(kind, path, handler):
        if kind == "PUT" and path.endswith(name) and left:
            left.clear()
            return "lose"

    return hook


def test_lost_answers(server):
    server.on_write = lose_once("progress.json")
    assert trainer(server).fit().metrics == {"last": 99}


def test_pickles_have_no_options(server):
    config = train.RunConfig(storage_path="s3://b/x", storage_options={"secret": "hush-hush"})
    made = Checkpoint("s3://b/x", storage_options={"secret": "hush-hush"})
    for one in (config, made):
        assert "hush" not in repr(one) and b"hush" not in pickle.dumps(one)
    assert pickle.loads(pickle.dumps(config)).storage_options is None
    assert copy.deepcopy(config).storage_options == {"secret": "hush-hush"}


def test_what_is_refused(server):
    with pytest.raises(NotImplementedError, match="local folders and stores, found ftp://"):
        train.RunConfig(storage_path="ftp://me:hush@x/y")
    with pytest.raises(ValueError, match="expected a URL as storage_path"):
        train.RunConfig(storage_path="/tmp", storage_options={"key": "x"})
    run = trainer(server)
    run.run_config.callbacks = [train.JsonLinesWriter()]
    with pytest.raises(UnsupportedError, match="JsonLinesWriter: expected a run with a local folder"):
        run.fit()
