"""Trainers: rows of ranks, reports, checkpoints, and the state after a death."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from pathlib import Path

import forked_ranks
import numpy as np
import psutil
import pytest

import headrace.data as hd
import headrace.observe
from headrace import train
from headrace.train import (
    Checkpoint,
    CheckpointConfig,
    DataConfig,
    FailureConfig,
    Result,
    RunConfig,
    ScalingConfig,
    TrainingFailedError,
)

torch = pytest.importorskip("torch")
from headrace.train.torch import (  # noqa: E402
    TorchConfig,
    TorchTrainer,
    enable_reproducibility,
    get_device,
    get_devices,
    prepare_data_loader,
    prepare_model,
)

pytestmark = pytest.mark.usefixtures("forked_ranks")


@pytest.fixture
def storage(tmp_path):
    return RunConfig(storage_path=tmp_path, name="run")


def workers_alive():
    """Workers of this process's trainers."""
    return [rank.pid for rank in forked_ranks.Rank.started if rank.is_alive()]


@pytest.fixture(autouse=True)
def nobody_survives():
    yield
    assert workers_alive() == []


def fit(loop, storage, n=2, config=None, **more):
    trainer = TorchTrainer(
        loop,
        train_loop_config=config,
        scaling_config=ScalingConfig(num_workers=n),
        run_config=storage,
        **more,
    )
    return trainer.fit()


def gather(value):
    """The values of all ranks, on every rank."""
    out = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(out, value)
    return out


# --- rows


def increment(batch):
    batch["y"] = batch["y"] + 1
    return batch


def test_the_thread_of_an_inline_function_outlives_errors(storage, monkeypatch, context):
    """The story: an import that failed, while the package on disk was replaced, ended the thread; all later
    attempts waited for its results for ever.
    """
    from headrace.udf import pool

    context.stall_timeout_s = 120
    servers, left = pool._Server, ["one"]

    def server(*args):
        if left:
            left.clear()
            raise ImportError("half of a package")
        return servers(*args)

    def loop():
        rows = [row["id"] for row in train.get_dataset_shard("train").iter_rows()]
        train.report({"sum": sum(rows)})

    monkeypatch.setattr(pool, "_Server", server)
    storage.failure_config = train.FailureConfig(max_failures=1)
    ds = hd.range(40).map_batches(lambda b: b, batch_size=8, compute="inline")
    assert fit(loop, storage, 1, datasets={"train": ds}).metrics["sum"] == sum(range(40))
    assert not left


def test_report_is_in_the_trace(storage, tmp_path, context):
    """Of each rank, with and without a checkpoint, until it returns; and in the dashboard of the driver."""
    context.trace_path = str(tmp_path / "trace.json")

    def loop():
        for i, _ in enumerate(train.get_dataset_shard("train").iter_batches(batch_size=100)):
            if i == 1:
                train.report({"i": i})
            if i == 2:
                with tempfile.TemporaryDirectory() as folder:
                    train.report({"i": i}, checkpoint=Checkpoint(folder))

    with headrace.observe.dashboard() as board:
        fit(loop, storage, datasets={"train": hd.range(10_000)})
        (record,) = board._live.records.values()
    spans = json.loads(f"[{','.join(text for _, text in record.spans)}]")
    assert record.ranks == 2 and record.rows == 10_000 and not record.works
    assert [sum(s[4] for s in spans if s[3] == "report" and s[0] == t) for t in (50_000, 50_001)] == [2, 2]
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    reports = [e["tid"] for e in events if e["ph"] == "X" and e["name"] == "report"]
    assert sorted(reports) == [50_000, 50_000, 50_001, 50_001]


def test_the_driver_and_each_rank_have_traces_of_their_own(storage, tmp_path, monkeypatch):
    """The story: the first rank's own runs and the driver, which serves the ranks, wrote one file."""
    monkeypatch.setenv("HEADRACE_TRACE", str(tmp_path / "traces" / "t.json"))
    (tmp_path / "traces").mkdir()

    def loop():
        hd.range(100).take(50)
        for _ in train.get_dataset_shard("train").iter_batches(batch_size=100):
            pass

    fit(loop, storage, datasets={"train": hd.range(1000)})
    found = [p.name.partition("-process")[0] for p in (tmp_path / "traces").iterdir()]  # ranks are forks here
    names = {name.removesuffix(".json") for name in found}
    assert len(found) == 3 and {"t-rank0", "t-rank1"} < names


@pytest.mark.parametrize(
    "name", ["ScalingConfig", "RunConfig", "FailureConfig", "CheckpointConfig", "DataConfig"]
)
def test_settings_that_are_none(name):
    """The story: they took any attribute in silence, and trainers any object, which then failed in fit()."""
    config = getattr(train, name)()
    with pytest.raises(AttributeError, match=f"{name} has no 'num_failures'"):
        config.num_failures = 3
    argument = {"RunConfig": "run_config", "DataConfig": "dataset_config"}.get(name, "scaling_config")
    with pytest.raises(TypeError, match=f"{argument}: expected a .*Config, found dict"):
        TorchTrainer(print, **{argument: {"x": 1}})


def test_settings_of_other_types():
    with pytest.raises(TypeError, match="FailureConfig.max_failures: expected int, found str '3'"):
        train.FailureConfig(max_failures="3")
    with pytest.raises(TypeError, match=r"RunConfig\(failure_config\): expected FailureConfig, found dict"):
        RunConfig(failure_config={"max_failures": 3})
    with pytest.raises(
        TypeError, match=r"DataConfig\(execution_options\): expected ExecutionOptions, found bool"
    ):
        train.DataConfig(execution_options={"train": True})
    with pytest.raises(TypeError, match="torch_config: expected a TorchConfig, found dict"):
        TorchTrainer(print, torch_config={"backend": "gloo"})
    config = train.CheckpointConfig(num_to_keep=2)
    config.checkpoint_score_order = "best"  # looked at again where it is used
    with pytest.raises(ValueError, match="'max' or 'min'"):
        TorchTrainer(print, run_config=RunConfig(checkpoint_config=config))
    scaling = ScalingConfig(num_workers=2)
    scaling.num_workers = -1
    with pytest.raises(ValueError, match="num_workers=-1"):
        TorchTrainer(print, scaling_config=scaling)


def test_quickstart(storage):
    ds = hd.from_items([{"x": [x], "y": [2 * x]} for x in range(200)]).map_batches(increment)

    def loop(config):
        seen = []
        shard = train.get_dataset_shard("train")
        for batch in shard.iter_torch_batches(batch_size=16, dtypes=torch.float32):
            assert batch["x"].dtype == torch.float32 and batch["x"].shape[1:] == (1,)
            assert torch.equal(batch["y"], 2 * batch["x"] + 1)
            seen.append(batch["x"][:, 0].int().tolist())
        return gather(seen)

    seen = fit(loop, storage, datasets={"train": ds}).return_value
    assert [len(b) for b in seen[0]] == [len(b) for b in seen[1]] == [16] * 6 + [4]
    assert seen[0][0] == list(range(16)) and seen[1][0] == list(range(16, 32))
    assert sorted(x for rank in seen for b in rank for x in b) == list(range(200))


@pytest.mark.parametrize("drop_last", [False, True])
def test_rows_per_rank(storage, drop_last):
    def loop(config):
        it = train.get_dataset_shard("train").iter_batches(batch_size=10, drop_last=config["drop_last"])
        return gather([[b["id"].tolist() for b in it] for epoch in range(2)])

    ranks = fit(
        loop, storage, n=3, config={"drop_last": drop_last}, datasets={"train": hd.range(100)}
    ).return_value
    for r, epochs in enumerate(ranks):
        want = [list(range((s * 3 + r) * 10, (s * 3 + r) * 10 + 10)) for s in range(3)]
        want += [] if drop_last else [[90 + r * 3, 91 + r * 3, 92 + r * 3]]
        assert epochs == [want, want]


def test_datasets_that_are_not_split(storage):
    def loop():
        shards = {name: train.get_dataset_shard(name) for name in ("train", "val")}
        rows = {n: [b["id"].tolist() for b in s.iter_batches(batch_size=8)] for n, s in shards.items()}
        return gather({n: sum(r, []) for n, r in rows.items()})

    ranks = fit(
        loop,
        storage,
        datasets={"train": hd.range(40), "val": hd.range(20)},
        dataset_config=DataConfig(datasets_to_split=["train"]),
    ).return_value
    assert [r["val"] for r in ranks] == [list(range(20))] * 2
    assert sorted(ranks[0]["train"] + ranks[1]["train"]) == list(range(40))
    assert len(ranks[0]["train"]) == 20


class MyDataConfig(DataConfig):
    def configure(self, datasets, world_size, worker_handles, worker_node_ids, **kwargs):
        assert len(datasets) == 1
        ctx = hd.DataContext.get_current()
        ctx.execution_options = DataConfig.default_ingest_options()
        shards = datasets["train"].streaming_split(world_size, equal=True, locality_hints=worker_node_ids)
        return [{"train": it, "again": it} for it in shards]


def test_own_data_config(storage):
    def loop():
        it = train.get_dataset_shard("train")
        return gather([sum(len(b["id"]) for b in it.iter_batches(batch_size=16)) for epoch in range(2)])

    result = fit(loop, storage, datasets={"train": hd.range(100)}, dataset_config=MyDataConfig())
    assert result.return_value == [[50, 50], [50, 50]]


def test_a_shard_that_is_not_there(storage):
    def loop():
        train.get_dataset_shard("test")

    with pytest.raises(TrainingFailedError, match="no dataset 'test'.*'train'"):
        fit(loop, storage, n=1, datasets={"train": hd.range(10)})
    with pytest.raises(ValueError, match="no dataset"):
        fit(loop, storage, datasets={"train": hd.range(10)}, dataset_config=DataConfig(["wrong"]))


def test_an_epoch_left_early(storage):
    def loop():
        firsts = []
        it = train.get_dataset_shard("train").iter_batches(batch_size=4)
        for _ in range(3):
            for i, batch in enumerate(it):
                firsts.append(int(batch["id"][0]))
                if i == 1:
                    break
        return gather(firsts)

    assert fit(loop, storage, datasets={"train": hd.range(1000)}).return_value == [[0, 8] * 3, [4, 12] * 3]


def test_ranks_that_want_different_batches(storage):
    def loop():
        size = 4 + train.get_context().get_world_rank()
        for _ in train.get_dataset_shard("train").iter_batches(batch_size=size):
            pass

    with pytest.raises(TrainingFailedError, match="(?s)rank 0: batch_size 4.*rank 1: batch_size 5"):
        fit(loop, storage, datasets={"train": hd.range(100)})


# --- context, reports, checkpoints


def test_context(storage, tmp_path):
    def loop():
        c = train.get_context()
        x = torch.ones(1)
        torch.distributed.all_reduce(x)
        return gather(
            (
                c.get_world_rank(),
                c.get_local_rank(),
                c.get_world_size(),
                c.get_local_world_size(),
                c.get_node_rank(),
            )
            + (c.get_metadata(), c.get_experiment_name(), c.get_storage().experiment_fs_path, x.item())
            + (str(get_device()), len(get_devices()))
        )

    ranks = fit(loop, storage, metadata={"scaler": "abc"}).return_value
    rest = (2, 2, 0, {"scaler": "abc"}, "run", str(tmp_path / "run"), 2.0, "cpu", 1)
    assert ranks == [(0, 0, *rest), (1, 1, *rest)]
    with pytest.raises(RuntimeError, match="only in the train loop"):
        train.get_context().get_world_rank()


def save(folder, rank, text):
    Path(folder, f"rank{rank}.txt").write_text(text)
    return Checkpoint.from_directory(folder)


def test_checkpoints(storage, tmp_path):
    storage.checkpoint_config = CheckpointConfig(num_to_keep=2, checkpoint_score_attribute="score")

    def loop():
        rank = train.get_context().get_world_rank()
        assert train.get_checkpoint() is None
        for i, score in enumerate([0.1, 0.9, 0.5, 0.3]):
            with tempfile.TemporaryDirectory() as folder:
                train.report({"score": score, "i": i}, checkpoint=save(folder, rank, str(i)))
            with train.get_checkpoint().as_directory() as folder:
                assert Path(folder, f"rank{1 - rank}.txt").read_text() == str(i)
        train.report({"score": 0.0, "last": True})

    result = fit(loop, storage, metadata={"key": [1, 2]})
    assert result.metrics == {"score": 0.0, "last": True}
    assert result.path == str(tmp_path / "run")
    assert sorted(p.name for p in (tmp_path / "run").iterdir()) == [
        ".headrace.lock",
        "checkpoint_000001",
        "checkpoint_000003",
        "progress.json",
        "trainer.pkl",
    ]
    assert [m["score"] for _, m in result.best_checkpoints] == [0.9, 0.3]
    assert result.checkpoint.path.endswith("checkpoint_000003")
    assert result.checkpoint.get_metadata() == {"key": [1, 2]}
    assert result.get_best_checkpoint("score", "max").path.endswith("checkpoint_000001")
    assert list(result.metrics_dataframe["score"]) == [0.1, 0.9, 0.5, 0.3, 0.0]
    again = Result.from_path(result.path)
    assert again.checkpoint == result.checkpoint and again.metrics == result.metrics
    copy = result.checkpoint.to_directory(tmp_path / "copy")
    assert Path(copy, "rank0.txt").read_text() == "3"


def test_checkpoint_metadata(tmp_path):
    checkpoint = Checkpoint.from_directory(tmp_path)
    assert checkpoint.get_metadata() == {}
    checkpoint.set_metadata({"a": 1})
    checkpoint.update_metadata({"b": 2})
    assert Checkpoint(f"file://{tmp_path}").get_metadata() == {"a": 1, "b": 2}


def test_a_checkpoint_that_cannot_be_stored(storage):
    def loop():
        with tempfile.TemporaryDirectory() as folder:
            train.report({}, checkpoint=Checkpoint(folder), checkpoint_dir_name="same")
            train.report({}, checkpoint=Checkpoint(folder), checkpoint_dir_name="same")

    with pytest.raises(TrainingFailedError, match="exists already"):
        fit(loop, storage)


def test_report_is_a_barrier(storage):
    def loop():
        if train.get_context().get_world_rank() == 0:
            time.sleep(0.5)
        came = time.monotonic()  # one clock for all processes
        train.report({})
        return gather((came, time.monotonic()))

    times = fit(loop, storage).return_value
    assert min(left for _, left in times) >= max(came for came, _ in times)

    def unequal():
        for _ in range(2 - train.get_context().get_world_rank()):
            train.report({})

    with pytest.raises(TrainingFailedError, match="equally many calls by all workers: rank 1 ended"):
        fit(unequal, storage)


def test_local_mode(storage):
    pids = []

    def loop(config):
        pids.append(os.getpid())
        model = prepare_model(torch.nn.Linear(1, 1))
        assert isinstance(model, torch.nn.Linear)
        rows = [int(i) for b in train.get_dataset_shard().iter_batches(batch_size=8) for i in b["id"]]
        with tempfile.TemporaryDirectory() as folder:
            train.report({"rows": len(rows)}, checkpoint=Checkpoint(folder))
        return rows

    result = fit(loop, storage, n=0, datasets={"train": hd.range(20)}, metadata={"m": 1})
    assert pids == [os.getpid()] and result.return_value == list(range(20))
    assert result.metrics == {"rows": 20} and result.checkpoint.get_metadata() == {"m": 1}
    storage.name = "another"
    with pytest.raises(ZeroDivisionError):
        fit(lambda: 1 / 0, storage, n=0)


# --- failures


def test_a_worker_that_raises(storage):
    def loop():
        it = train.get_dataset_shard("train").iter_batches(batch_size=4)
        for i, _ in enumerate(it):
            if i == 3 and train.get_context().get_world_rank() == 1:
                raise ValueError("the third batch")  # this line
        return None

    with pytest.raises(TrainingFailedError) as e:
        fit(loop, storage, datasets={"train": hd.range(10_000_000)})
    assert str(e.value).startswith("rank 1 failed:")
    assert 'raise ValueError("the third batch")  # this line' in str(e.value)
    assert "_worker.py" not in str(e.value)
    assert isinstance(e.value.__cause__, ValueError)
    assert isinstance(e.value.worker_failures[1], ValueError)


def bad_row(row):
    if row["id"] == 500:
        raise KeyError("row 500")
    return row


def test_a_function_that_raises(storage):
    def loop():
        for _ in train.get_dataset_shard("train").iter_batches(batch_size=10):
            pass

    with pytest.raises(TrainingFailedError, match="(?s)KeyError.*row 500"):
        fit(loop, storage, datasets={"train": hd.range(1000).map(bad_row)})


def test_a_worker_that_is_killed(storage):
    def loop():
        it = train.get_dataset_shard("train").iter_batches(batch_size=4)
        for i, _ in enumerate(it):
            if i == 3 and train.get_context().get_world_rank() == 1:
                os.kill(os.getpid(), signal.SIGKILL)

    began = time.monotonic()
    with pytest.raises(TrainingFailedError, match=r"rank 1 \(pid \d+\) was killed by signal 9 \(SIGKILL\)"):
        fit(loop, storage, datasets={"train": hd.range(100_000_000)})
    assert time.monotonic() - began < 120  # reading all would take longer


def test_restart_goes_on_behind_the_last_checkpoint(storage, tmp_path):
    """The workers write taken rows to a file; the second attempt must give exactly those after the
    checkpoint.
    """
    storage.failure_config = FailureConfig(max_failures=1)
    log = tmp_path / "log"
    log.mkdir()

    def loop(config):
        rank = train.get_context().get_world_rank()
        checkpoint = train.get_checkpoint()
        first = checkpoint is None
        with open(Path(config["log"], f"{rank}-{1 if first else 2}"), "w") as out:
            for epoch in range(2):
                for i, batch in enumerate(train.get_dataset_shard("train").iter_batches(batch_size=10)):
                    out.write(f"{epoch} {batch['id'][0]}\n")
                    out.flush()
                    if first and i == 4:
                        with tempfile.TemporaryDirectory() as folder:
                            train.report({"step": i}, checkpoint=Checkpoint(folder))
                    if first and i == 7 and rank == 1:
                        raise RuntimeError("once")
                if not first:
                    break

    fit(loop, storage, config={"log": str(log)}, datasets={"train": hd.range(400)})
    for rank in range(2):
        first = Path(log, f"{rank}-1").read_text().split()[1::2]
        second = Path(log, f"{rank}-2").read_text().split()[1::2]
        want = [str((s * 2 + rank) * 10) for s in range(20)]
        assert first[:5] == want[:5]
        assert second == want[5:]
    state = json.loads((tmp_path / "run" / "checkpoint_000000" / ".headrace.json").read_text())
    assert "train" in state["datasets"]


def test_half_a_checkpoint_is_not_mixed_into_the_next(storage):
    """Rank 0 has copied its file when rank 1 dies in its copy."""
    storage.failure_config = FailureConfig(max_failures=1)

    def loop(config):
        rank = train.get_context().get_world_rank()
        first = not Path(config["marker"]).exists()
        torch.distributed.barrier()
        with tempfile.TemporaryDirectory() as folder:
            save(folder, rank, "a")
            if rank == 1 and first:
                Path(config["marker"]).touch()
                shutil.copy2 = lambda *_: time.sleep(60)  # its copy does not end
                threading.Timer(0.5, os._exit, [1]).start()
            if rank == 0 and not first:
                os.rename(Path(folder, "rank0.txt"), Path(folder, "other"))
            train.report({}, checkpoint=Checkpoint(folder))

    result = fit(loop, storage, config={"marker": storage.storage_path + "/marker"})
    assert sorted(p for p in os.listdir(result.checkpoint.path) if p[0] != ".") == ["other", "rank1.txt"]


def test_ways_to_end(storage):
    def loop():
        train.report({"x": torch.tensor(1.5)})
        if train.get_context().get_world_rank() == 0:
            sys.exit()

    assert fit(loop, storage).metrics["x"] == 1.5
    with pytest.raises(TrainingFailedError, match="SystemExit: 3"):
        fit(lambda: sys.exit(3), storage, n=1)


def test_failures_are_counted(storage, tmp_path):
    storage.failure_config = FailureConfig(max_failures=2)

    def loop(config):
        Path(config["log"], str(time.monotonic_ns())).touch()
        raise RuntimeError("always")

    log = tmp_path / "log"
    log.mkdir()
    with pytest.raises(TrainingFailedError, match="always"):
        fit(loop, storage, n=1, config={"log": str(log)})
    assert len(list(log.iterdir())) == 3


# --- whole programs: no __main__ guard, functions of the script, signals

SCRIPT = """
import os, sys, time
import headrace.data as hd
from headrace import train
from headrace.train import RunConfig, ScalingConfig
from headrace.train.torch import TorchTrainer

class Doubler:
    def __init__(self, by):
        self.by = by
    def __call__(self, batch):
        return {"id": batch["id"] * self.by}

def loop(config):
    rank = train.get_context().get_world_rank()
    print("hello from", rank)
    for i, batch in enumerate(train.get_dataset_shard("train").iter_batches(batch_size=10)):
        assert batch["id"][0] == (2 * i + rank) * 20
        if i == 2:
            open(os.path.join(config["dir"], f"ready-{rank}-{os.getpid()}"), "w").close()
        if config["sleep"]:
            time.sleep(0.05)
    print("error output", file=sys.stderr)

ds = hd.range(int(sys.argv[2])).map_batches(Doubler, fn_constructor_args=[2], batch_size=10, concurrency=1)
trainer = TorchTrainer(
    loop,
    train_loop_config={"dir": sys.argv[1], "sleep": len(sys.argv) > 3},
    datasets={"train": ds},
    scaling_config=ScalingConfig(num_workers=2),
    run_config=RunConfig(storage_path=sys.argv[1]),
)
trainer.fit()
print("the end")
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(SCRIPT))
    return path


def test_a_script_without_main_guard(script, tmp_path):
    done = subprocess.run(
        [sys.executable, script, tmp_path, "1000"], capture_output=True, text=True, timeout=120, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "(rank 0) hello from 0" in lines and "(rank 1) hello from 1" in lines and lines[-1] == "the end"
    assert "(rank 1) error output" in done.stderr.splitlines()


def start_and_wait(script, tmp_path):
    """The driver and all its descendants, once both ranks are training."""
    driver = subprocess.Popen(
        [sys.executable, script, tmp_path, "10000000", "sleep"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    until = time.monotonic() + 120
    while len(list(tmp_path.glob("ready-*"))) < 2:
        assert driver.poll() is None and time.monotonic() < until, driver.communicate()[1]
        time.sleep(0.05)
    return driver, psutil.Process(driver.pid).children(recursive=True)


def assert_gone(processes, seconds=60):
    _, alive = psutil.wait_procs(processes, timeout=seconds)
    assert not alive, [p.cmdline() for p in alive]


def test_the_driver_is_killed(script, tmp_path):
    driver, below = start_and_wait(script, tmp_path)
    assert len(below) >= 3  # two ranks and a function worker
    driver.kill()
    driver.communicate()
    assert_gone(below)


def test_ctrl_c(script, tmp_path):
    driver, below = start_and_wait(script, tmp_path)
    driver.send_signal(signal.SIGINT)
    _, err = driver.communicate(timeout=300)
    assert "KeyboardInterrupt" in err
    assert driver.returncode != 0
    assert_gone(below)


# --- the smaller helpers


def test_importing_train_loads_no_torch():
    code = "import sys, headrace.train; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_prepare_model_and_loader(storage):
    def loop():
        torch.manual_seed(train.get_context().get_world_rank())
        model = prepare_model(torch.nn.Linear(2, 1))
        assert isinstance(model, torch.nn.parallel.DistributedDataParallel)
        weights = gather([p.tolist() for p in model.parameters()])
        assert weights[0] == weights[1]
        data = torch.utils.data.TensorDataset(torch.arange(20))
        loader = prepare_data_loader(torch.utils.data.DataLoader(data, batch_size=5))
        return gather([b[0].tolist() for b in loader])

    ranks = fit(loop, storage).return_value
    assert ranks == [[[0, 2, 4, 6, 8], [10, 12, 14, 16, 18]], [[1, 3, 5, 7, 9], [11, 13, 15, 17, 19]]]


def test_enable_reproducibility():
    drawn = []
    for _ in range(2):
        enable_reproducibility(3)
        drawn.append((torch.rand(1).item(), np.random.rand()))
    torch.use_deterministic_algorithms(False)
    assert drawn[0] == drawn[1]


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: ScalingConfig(num_workers=(2, 1)), ValueError, "least <= most"),
        (lambda: ScalingConfig(num_workers=(0, 1)), ValueError, "least <= most"),
        (lambda: ScalingConfig(num_workers=(1, 2.0)), ValueError, "least <= most"),
        (
            lambda: ScalingConfig(num_workers=(1, 2), resources_per_worker={"TPU": 1}),
            ValueError,
            "CPU, GPU, memory, found .'TPU'",
        ),
        (lambda: ScalingConfig(elastic_resize_monitor_interval_s=-1), ValueError, "at least 0"),
        (lambda: ScalingConfig(num_workers=-1), ValueError, "num_workers=-1"),
        (lambda: RunConfig(storage_path="ftp://bucket"), NotImplementedError, "local folders"),
        (lambda: RunConfig(callbacks=[1]), TypeError, "callbacks.*UserCallback"),
        (lambda: ScalingConfig(resources_per_worker={"CPU": -1}), ValueError, "'CPU': expected at least 0"),
        (lambda: ScalingConfig(resources_per_worker={"CPU": "1"}), TypeError, "CPU.*a number, found str"),
        (lambda: RunConfig(storage_path=5), TypeError, "RunConfig.storage_path: expected str or os.PathLike"),
        (lambda: RunConfig(name="a/../../b"), ValueError, "expected the name of a folder below storage_path"),
        (lambda: RunConfig(name="/a"), ValueError, "expected the name of a folder below storage_path"),
        (lambda: RunConfig(name=""), ValueError, "expected the name of a folder below storage_path"),
        (lambda: FailureConfig(max_failures=-2), ValueError, "at least 0, or -1 for no limit"),
        (lambda: TorchConfig(timeout_s=0), ValueError, "more than 0 seconds"),
        (lambda: DataConfig(enable_shard_locality="no"), TypeError, "enable_shard_locality: expected bool"),
        (lambda: CheckpointConfig(num_to_keep=0), ValueError, "num_to_keep=0"),
        (lambda: CheckpointConfig(checkpoint_score_order="up"), ValueError, "'max' or 'min'"),
        (lambda: DataConfig("train"), TypeError, "datasets_to_split"),
        (lambda: Checkpoint("a", filesystem=1), TypeError, "expected one of pyarrow.fs or fsspec"),
        (lambda: TorchConfig(init_method="tcp"), NotImplementedError, "env"),
        (lambda: TorchTrainer(1), TypeError, "expected a function"),
        (lambda: TorchTrainer(print, metadata={"a": object()}), ValueError, "JSON"),
        (lambda: TorchTrainer(print, metadata="a"), TypeError, "metadata: expected a dict, found str"),
        (
            lambda: TorchTrainer(print, datasets={1: hd.range(1)}),
            TypeError,
            "datasets: expected names, found int",
        ),
        (lambda: TorchTrainer(lambda a, b: 1), ValueError, "a function of no or one argument: .*'b'"),
        (lambda: TorchTrainer(lambda: 1, train_loop_config={"a": 1}), ValueError, "takes no argument"),
        (lambda: TorchTrainer(print, validation_config=1), TypeError, "expected a ValidationConfig"),
    ],
)
def test_wrong_arguments(make, error, text):
    with pytest.raises(error, match=text):
        make()


SPAWNING = """
import multiprocessing

import headrace.data as hd
import headrace.train as ht
from headrace.train.torch import TorchTrainer

def loop(config):
    ht.report({"rows": sum(len(b["id"]) for b in ht.get_dataset_shard("train").iter_batches(batch_size=5))})

def child(folder, out):
    trainer = TorchTrainer(loop, datasets={"train": hd.range(40)},
                           scaling_config=ht.ScalingConfig(num_workers=2),
                           run_config=ht.RunConfig(storage_path=folder))
    out.put(trainer.fit().metrics["rows"])

if __name__ == "__main__":
    spawn = multiprocessing.get_context("spawn")
    out = spawn.SimpleQueue()
    process = spawn.Process(target=child, args=(FOLDER, out))
    process.start()
    process.join()
    print(process.exitcode or out.get())
"""


def test_a_spawned_process_trains_with_functions_of_its_script(tmp_path):
    # There the script's module is __mp_main__, in which the workers looked for the train loop.
    path = tmp_path / "spawning.py"
    path.write_text(SPAWNING.replace("FOLDER", repr(str(tmp_path / "runs"))))
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=300)
    assert done.stdout == "20\n", done.stderr
