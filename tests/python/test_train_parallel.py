"""prepare_model: DistributedDataParallel and FullyShardedDataParallel on the CPU, saved and restarted. Beside
them is torch's fully_shard (FSDP2), which needs no prepare_model.
"""

import contextlib
from pathlib import Path

import forked_ranks
import pytest

import headrace.data as hd
from headrace import train
from headrace.train import FailureConfig, RunConfig, ScalingConfig

torch = pytest.importorskip("torch")
from headrace.train.torch import TorchTrainer, prepare_model  # noqa: E402

pytestmark = pytest.mark.usefixtures("ranks")
ROWS = 64
BATCH = 4
STRATEGIES = ["ddp", "fsdp", "fsdp2"]
STEPS = ROWS // (2 * BATCH)


@pytest.fixture(scope="module")
def ranks(rank_server):
    dcp = "torch.distributed.checkpoint"
    modules = ("torch.distributed.fsdp", dcp, f"{dcp}.state_dict")
    with contextlib.closing(rank_server.more(*modules)) as server, forked_ranks.ranks_of(server):
        yield


def wrapped(plain, config):
    if config["strategy"] != "fsdp2":
        return prepare_model(
            plain, parallel_strategy=config["strategy"], parallel_strategy_kwargs=config["kwargs"]
        )
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (train.get_context().get_world_size(),))
    for layer in (plain[0], plain[2]):
        fully_shard(layer, mesh=mesh)
    return fully_shard(plain, mesh=mesh)


def loop(config):
    """Saves and loads by torch's distributed checkpoint, as users of either strategy do."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict

    rank = train.get_context().get_world_rank()
    torch.manual_seed(0)
    plain = torch.nn.Sequential(torch.nn.Linear(1, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    model = wrapped(plain, config)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    flat = StateDictOptions(flatten_optimizer_state_dict=True)
    checkpoint, step = train.get_checkpoint(), 0
    if checkpoint is not None:
        values, moments = get_state_dict(model, optimizer, options=flat)
        state = {"model": values, "optimizer": moments, "step": 0}
        dcp.load(state, checkpoint_id=checkpoint.path)
        values, moments = state["model"], state["optimizer"]
        set_state_dict(model, optimizer, model_state_dict=values, optim_state_dict=moments, options=flat)
        step = state["step"]
    for batch in train.get_dataset_shard("train").iter_torch_batches(batch_size=BATCH):
        if checkpoint is None and rank == 1 and step == config["fail_at"]:
            raise RuntimeError("the machine is lost")
        x = batch["id"].float().unsqueeze(1) / ROWS
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), 2 * x).backward()
        optimizer.step()
        step += 1
        if step % 3 == 0 or step == STEPS:
            values, moments = get_state_dict(model, optimizer, options=flat)
            folder = Path(config["folder"], str(step))
            dcp.save({"model": values, "optimizer": moments, "step": step}, checkpoint_id=folder)
            mine = sum(getattr(p, "to_local", lambda p=p: p)().numel() for p in model.parameters())
            report = {"step": step, "wrapped": type(model).__name__, "mine": mine}
            train.report(report, train.Checkpoint.from_directory(folder) if rank == 0 else None)


def fit(tmp_path, name, strategy, fail_at=None, **kwargs):
    return TorchTrainer(
        loop,
        train_loop_config={
            "strategy": strategy,
            "kwargs": kwargs,
            "folder": str(tmp_path / f"saved-{name}"),
            "fail_at": fail_at,
        },
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(
            storage_path=tmp_path,
            name=name,
            failure_config=FailureConfig(max_failures=int(fail_at is not None)),
        ),
        datasets={"train": hd.range(ROWS).random_shuffle(seed=1)},
    ).fit()


def weights(result):
    """The whole model, from the parts of the ranks."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

    assert isinstance(dcp.FileSystemReader(result.checkpoint.path).read_metadata(), dcp.Metadata)
    file = Path(result.path, "whole.pt")
    dcp_to_torch_save(result.checkpoint.path, file)
    return torch.load(file, weights_only=False)["model"]


@pytest.fixture(scope="module")
def whole(ranks, tmp_path_factory):
    return {strategy: fit(tmp_path_factory.mktemp(strategy), "whole", strategy) for strategy in STRATEGIES}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_restart_ends_with_the_weights_of_the_whole_run(strategy, whole, tmp_path):
    again = fit(tmp_path, "again", strategy, fail_at=5)
    assert [m["step"] for m in again.history] == [m["step"] for m in whole[strategy].history] == [3, 6, 8]
    expected, got = weights(whole[strategy]), weights(again)
    assert expected.keys() == got.keys() == {"0.weight", "0.bias", "2.weight", "2.bias"}
    assert all(torch.equal(expected[name], got[name]) for name in expected)


def test_all_strategies_train_the_same_model(whole):
    ddp = weights(whole["ddp"])
    for other in map(weights, (whole["fsdp"], whole["fsdp2"])):
        assert all(torch.allclose(ddp[name], other[name], atol=1e-5) for name in ddp)
    metrics = {strategy: result.metrics for strategy, result in whole.items()}
    assert metrics["ddp"] == {"step": STEPS, "wrapped": "DistributedDataParallel", "mine": 49}
    assert metrics["fsdp"] == {"step": STEPS, "wrapped": "FullyShardedDataParallel", "mine": 25}  # half
    assert metrics["fsdp2"] == {"step": STEPS, "wrapped": "FSDPSequential", "mine": 33}  # of 8 + 8 + 16 + 1


def test_arguments_reach_the_wrapper(tmp_path):
    def wrong():
        prepare_model(
            torch.nn.Linear(1, 1), parallel_strategy="fsdp", parallel_strategy_kwargs={"nonsense": 1}
        )

    trainer = TorchTrainer(
        wrong,
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(storage_path=tmp_path, name="wrong"),
    )
    with pytest.raises(train.TrainingFailedError, match="unexpected keyword argument 'nonsense'"):
        trainer.fit()
    with pytest.raises(ValueError, match="'tensor'.: expected 'ddp', 'fsdp' or None"):
        prepare_model(torch.nn.Linear(1, 1), parallel_strategy="tensor")
