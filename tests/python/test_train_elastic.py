"""ScalingConfig(num_workers=(least, most)): the number of workers at each start, and their rows."""

import os
import signal
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import headrace
import headrace.data as hd
from headrace import train

torch = pytest.importorskip("torch")
from headrace.train.torch import TorchTrainer  # noqa: E402

pytestmark = pytest.mark.usefixtures("forked_ranks")
GLOBAL, MICRO = 40, 10  # rows of an optimizer step, and of a batch


class Cores(train.ScalingConfig):
    """A machine whose cores are the number in a file."""

    def available_resources(self):
        return {"CPU": float(Path(os.environ["CORES_OF_TEST"]).read_text())}


@pytest.fixture
def cores(tmp_path, monkeypatch):
    file = tmp_path / "cores"
    monkeypatch.setenv("CORES_OF_TEST", str(file))

    def write(n):
        part = tmp_path / "cores.part"
        part.write_text(str(n))
        part.rename(file)

    return write


def fit(loop, tmp_path, workers=(1, 4), failures=1, interval=60.0, **more):
    return TorchTrainer(
        loop,
        train_loop_config={},
        scaling_config=Cores(num_workers=workers, elastic_resize_monitor_interval_s=interval),
        run_config=train.RunConfig(
            name="run",
            storage_path=tmp_path,
            failure_config=train.FailureConfig(max_failures=failures),
        ),
        **more,
    ).fit()


def gather(value):
    out = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(out, value)
    return out


def steps(config, at):
    """Trains in steps of GLOBAL rows on any number of workers; at(step, world) comes after each step. Returns
    the rows of each step, across restarts.
    """
    world = train.get_context().get_world_size()
    rank = train.get_context().get_world_rank()
    assert world == torch.distributed.get_world_size()
    done = []
    if checkpoint := train.get_checkpoint():
        done = np.load(Path(checkpoint.path, "rows.npy")).tolist()
    batches = iter(train.get_dataset_shard("train").iter_batches(batch_size=MICRO))
    parts = GLOBAL // (MICRO * world)
    while True:
        mine = [b["id"].tolist() for b in (next(batches, None) for _ in range(parts)) if b is not None]
        if not mine:
            break
        every = gather(mine)
        done.append(sum((sum((ranks[p] for ranks in every), []) for p in range(parts)), []))
        with tempfile.TemporaryDirectory() as folder:
            if rank == 0:
                np.save(Path(folder, "rows.npy"), np.array(done))
            train.report({"step": len(done), "workers": world}, train.Checkpoint(folder))
        at(len(done), world)
    return done


def test_killed_with_4_and_restarted_with_2(tmp_path, cores, capfd):
    def loop(config):
        def at(step, world):
            if step == 3 and world == 4:
                if train.get_context().get_world_rank() == 2:
                    Path(os.environ["CORES_OF_TEST"]).write_text("2")
                    os.kill(os.getpid(), signal.SIGKILL)
                time.sleep(60)

        return steps(config, at)

    ds = hd.range(400).random_shuffle(seed=1)
    cores(4)
    result = fit(loop, tmp_path / "killed", datasets={"train": ds})
    assert [m["workers"] for m in result.history] == [4] * 3 + [2] * 7
    found = capfd.readouterr().err
    assert "training with 4 workers: the machine has room for 4 (4 CPU, 1 for each)" in found
    assert "training with 2 workers instead of 4" in found and "rank 2 (pid " in found
    cores(1)
    whole = fit(lambda config: steps(config, lambda *_: None), tmp_path / "whole", datasets={"train": ds})
    assert [m["workers"] for m in whole.history] == [1] * 10
    assert result.return_value == whole.return_value
    assert sorted(sum(result.return_value, [])) == list(range(400))


def test_resized_while_it_runs(tmp_path, cores, capfd):
    """Cores appear: the workers start again from the last checkpoint, and that is no failure."""

    def loop(config):
        def at(step, world):
            if step == 3 and world == 1:
                Path(os.environ["CORES_OF_TEST"]).write_text("2")
                time.sleep(60)

        return steps(config, at)

    cores(1)
    ds = hd.range(320)
    result = fit(loop, tmp_path, (1, 2), failures=0, interval=0.1, datasets={"train": ds})
    assert [m["workers"] for m in result.history] == [1] * 3 + [2] * 5
    assert result.return_value == np.arange(320).reshape(8, GLOBAL).tolist()
    assert "training with 2 workers instead of 1" in capfd.readouterr().err


def test_waits_for_the_least_number(tmp_path, cores, capfd):
    cores(1)
    threading.Timer(0.5, cores, [3]).start()
    result = fit(lambda config: train.get_context().get_world_size(), tmp_path, (2, 8))
    assert result.return_value == 3
    found = capfd.readouterr().err
    assert found.count("has room for 1 (1 CPU, 1 for each); waiting for at least 2") == 1


def test_a_driver_that_goes_on_with_another_number(tmp_path, cores):
    def loop(config):
        def at(step, world):
            if world == 2 and step == 2:
                raise KeyError("stop")

        return steps(config, at)

    cores(2)
    ds = hd.range(160)
    with pytest.raises(train.TrainingFailedError):
        fit(loop, tmp_path, (1, 2), failures=0, datasets={"train": ds})
    cores(1)
    again = fit(loop, tmp_path, (1, 2), failures=0, datasets={"train": ds})
    assert again.return_value == np.arange(160).reshape(4, GLOBAL).tolist()


def test_room():
    """What a worker needs decides; without a subclass the machine's own cores, GPUs and memory."""
    from headrace.train.sizes import Sizes

    def room(there, **more):
        class Machine(train.ScalingConfig):
            def available_resources(self):
                return there

        return Sizes(Machine(num_workers=(1, 9), **more), False).choose()

    assert room({"CPU": 5.0}) == 5 and room({"CPU": 50.0}) == 9
    assert room({"CPU": 5.0}, resources_per_worker={"CPU": 2}) == 2
    assert room({"CPU": 0.3}, resources_per_worker={"CPU": 0.1}) == 3
    assert room({"CPU": 1.0, "GPU": 4.0}, use_gpu=True) == 4
    assert room({"CPU": 6.0, "GPU": 4.0}, use_gpu=True, resources_per_worker={"CPU": 3}) == 2
    assert room({"memory": 10e9}, resources_per_worker={"memory": 3e9}) == 3
    assert room({}, resources_per_worker={"CPU": 0}) == 9
    assert Sizes(train.ScalingConfig(num_workers=3), True).choose() == 3
    plain = train.ScalingConfig(num_workers=(1, 2))
    assert plain.available_resources() == headrace.cluster_resources()
    assert plain.available_resources()["CPU"] <= len(os.sched_getaffinity(0))
    assert (plain.min_workers, plain.max_workers, plain.elasticity_enabled) == (1, 2, True)


def test_ctrl_c_while_it_waits(tmp_path):
    class Interrupted(train.ScalingConfig):
        looks = 0

        def available_resources(self):
            Interrupted.looks += 1
            if Interrupted.looks == 3:
                signal.raise_signal(signal.SIGINT)
            return {"CPU": 0.0}

    trainer = TorchTrainer(
        lambda: None,
        scaling_config=Interrupted(num_workers=(1, 2)),
        run_config=train.RunConfig(name="run", storage_path=tmp_path),
    )
    with pytest.raises(KeyboardInterrupt):
        trainer.fit()
    assert Interrupted.looks == 3
