"""Names of Ray Train that one machine needs little of, and a process group of one's own."""

import pickle
from pathlib import Path

import pytest

import headrace.data as hd
from headrace import exceptions, train
from headrace.train.backend import BackendConfig
from headrace.train.data_parallel_trainer import DataParallelTrainer
from headrace.train.trainer import BaseTrainer

torch = pytest.importorskip("torch")
from headrace.train.torch import TorchConfig, TorchTrainer  # noqa: E402

pytestmark = pytest.mark.usefixtures("forked_ranks")


class Files(BackendConfig):
    """Each worker leaves a file when it joins and when it leaves."""

    def __init__(self, folder):
        self.folder = folder

    def start(self, session):
        where = session.channel.meet("the start", str(self.folder) if session.world_rank == 0 else None)
        self.file = Path(where, f"rank{session.world_rank}")
        self.file.write_text("joined")

    def stop(self):
        self.file.write_text(self.file.read_text() + ", left")


class Counts(BaseTrainer):
    def setup(self):
        self.rows = 0

    def training_loop(self):
        for epoch in range(2):
            self.rows += self.datasets["train"].count()
            train.report({"epoch": epoch, "rows": self.rows, "workers": train.get_context().get_world_size()})


def test_a_loop_that_is_a_method(tmp_path):
    trainer = Counts(
        datasets={"train": hd.range(5)},
        scaling_config=train.ScalingConfig(num_workers=3),
        run_config=train.RunConfig(name="run", storage_path=tmp_path),
    )
    assert trainer.fit().metrics == {"epoch": 1, "rows": 10, "workers": 1}
    with pytest.raises(TypeError, match="abstract"):
        BaseTrainer()


def fit(tmp_path, loop, backend_config=None, workers=2):
    return DataParallelTrainer(
        loop,
        backend_config=backend_config,
        scaling_config=train.ScalingConfig(num_workers=workers),
        run_config=train.RunConfig(name="run", storage_path=tmp_path),
    ).fit()


def test_without_a_process_group(tmp_path):
    def loop():
        train.report({"rank": train.get_context().get_world_rank()})
        return torch.distributed.is_initialized(), train.get_preemption_info()

    assert fit(tmp_path, loop).return_value == (False, None)


def test_a_process_group_of_ones_own(tmp_path):
    def loop():
        train.collective.barrier()
        found = sorted((p.name, p.read_text()) for p in tmp_path.glob("rank*"))
        train.collective.barrier()  # nobody leaves before
        return found

    joined = [("rank0", "joined"), ("rank1", "joined")]
    assert fit(tmp_path, loop, Files(tmp_path)).return_value == joined
    assert [p.read_text() for p in sorted(tmp_path.glob("rank*"))] == ["joined, left"] * 2


def test_types_of_arguments():
    def loop():
        pass

    for make, text in [
        (lambda: DataParallelTrainer(loop, backend_config={}), "backend_config: expected a BackendConfig"),
        (lambda: TorchTrainer(loop, torch_config=Files("")), "torch_config: expected a TorchConfig, found F"),
        (lambda: TorchTrainer(loop, scaling_config=3), "scaling_config: expected a ScalingConfig, found int"),
        (lambda: TorchTrainer(loop, datasets=[1]), "datasets: expected a dict, found list"),
        (lambda: TorchTrainer(loop, train_loop_config=[1]), "train_loop_config: expected a dict, found list"),
    ]:
        with pytest.raises(TypeError, match=text):
            make()
    assert isinstance(TorchTrainer(loop).backend, TorchConfig)


def test_errors():
    """Ray's hierarchy: a program that catches any of them works."""
    assert issubclass(train.WorkerGroupError, train.TrainingFailedError)
    assert issubclass(train.NCCLHangError, train.WorkerGroupError)
    info = train.PreemptionInfo(None, {"b": [3], "a": [1, 0]})
    assert (info.preempted_node_ids, info.preempted_ranks) == (["a", "b"], [0, 1, 3])
    made = [train.ControllerError(ValueError("x")), train.PreemptionError(info, True)]
    for error in (*made, train.WorkerGroupError("text", {1: "died"})):
        again = pickle.loads(pickle.dumps(error))
        assert str(again) == str(error) and vars(again).keys() == vars(error).keys()
        assert isinstance(again, train.TrainingFailedError)
    assert not isinstance(made[0], train.WorkerGroupError)


def test_a_worker_that_fails(tmp_path):
    with pytest.raises(train.WorkerGroupError, match="ZeroDivisionError") as caught:
        fit(tmp_path, lambda: 1 / 0, workers=1)
    assert list(caught.value.worker_failures) == [0]


def test_other_names():
    from headrace.train.constants import TRAIN_DATASET_KEY

    assert train.TRAIN_DATASET_KEY == TRAIN_DATASET_KEY == "train"
    assert train.ValidationConfig(lambda checkpoint, **kwargs: {}).fn is not None
    with pytest.raises(exceptions.UnsupportedError, match=r"RunConfig\(sync_config=...\)"):
        from headrace.train import SyncConfig  # noqa: F401
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        train.Nothing  # noqa: B018
    with pytest.raises(exceptions.UnsupportedError, match=r"start\(session\) and stop\(\)"):

        class Mine(BackendConfig):
            backend_cls = object

    with pytest.raises(RuntimeError, match="works only in the train loop"):
        train.get_preemption_info()
    config = train.ScalingConfig(3, use_gpu=True, resources_per_worker={"CPU": 2, "memory": 5})
    assert (config.num_cpus_per_worker, config.num_gpus_per_worker) == (2, 1)
    assert config.additional_resources_per_worker == {"memory": 5}
    assert config.total_resources == {"CPU": 6, "GPU": 3, "memory": 15}
