"""Accelerate: under `accelerate launch`, and on the workers of a trainer; rows once, saves, restarts."""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import forked_ranks
import pytest
from pages import run_block

import headrace.data as hd
from headrace import train
from headrace.exceptions import InvalidArgument
from headrace.train import FailureConfig, RunConfig, ScalingConfig

torch = pytest.importorskip("torch")
accelerate = pytest.importorskip("accelerate")
from headrace.train.torch import TorchTrainer  # noqa: E402

ROWS = 64
BATCH = 4
EPOCHS = 2
STEPS = ROWS // (2 * BATCH)

PROGRAM = """
import json, sys
import torch
from accelerate import Accelerator
import headrace.data as hd

folder, begins_at = sys.argv[1:]
accelerator = Accelerator(cpu=True)
torch.manual_seed(0)
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
batches = hd.range(64).random_shuffle(seed=1).shard().iter_torch_batches(batch_size=4)
model, optimizer, same = accelerator.prepare(model, optimizer, batches)
assert same is batches
accelerator.register_for_checkpointing(batches)
step = int(begins_at)
if step:
    accelerator.load_state(f"{folder}/{step}")
seen = []
while step < 16:
    for batch in batches:
        x = batch["id"].float().unsqueeze(1) / 64
        optimizer.zero_grad()
        accelerator.backward(torch.nn.functional.mse_loss(model(x), 2 * x))
        optimizer.step()
        step += 1
        seen.append([step, batch["id"].tolist()])
        if begins_at == "0" and step in (5, 8):
            accelerator.save_state(f"{folder}/{step}")
rank, n = accelerator.process_index, accelerator.num_processes
values = {name: value.tolist() for name, value in accelerator.unwrap_model(model).state_dict().items()}
found = {"n": n, "seen": seen, "values": values}
open(f"{folder}/from-{begins_at}-{rank}.json", "w").write(json.dumps(found))
accelerator.end_training()
"""


@pytest.fixture(scope="module")
def server(rank_server):
    modules = ("accelerate", "accelerate.commands.launch")
    with forked_ranks.adopting(), contextlib.closing(rank_server.more(*modules)) as made:
        yield made


def launched(tmp_path, begins_at, server=None):
    """What the two ranks of a launched program wrote; of a server, all processes are forks."""
    program, errors = tmp_path / "program.py", tmp_path / "errors"
    program.write_text(PROGRAM)
    command = ["-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2"]
    command += ["--num_machines", "1", "--main_process_port", "0", program, tmp_path, str(begins_at)]
    env = {**os.environ, "HF_HOME": str(tmp_path), "OMP_NUM_THREADS": "1"}
    for _ in range(2):
        with open(errors, "w") as out:
            if server is None:
                process = subprocess.Popen([sys.executable, *command], env=env, stdout=out, stderr=out)
            else:
                process = server.start(command, env, out, out)
        status = process.wait(300)
        if "terminate called without an active exception" not in errors.read_text():
            break  # rarely, a thread of torch is not joined when a rank ends, on a loaded machine
    assert status == 0, errors.read_text()
    assert "Exception ignored" not in errors.read_text()
    return [json.loads((tmp_path / f"from-{begins_at}-{rank}.json").read_text()) for rank in range(2)]


def steps_of(found):
    """step -> the rows of all ranks, sorted."""
    out = {}
    for one in found:
        for step, rows in one["seen"]:
            out.setdefault(step, []).extend(rows)
    return {step: sorted(rows) for step, rows in out.items()}


@pytest.mark.timeout(900)
def test_accelerate_launch(tmp_path, server):
    whole = launched(tmp_path, 0)
    steps = steps_of(whole)
    assert [one["n"] for one in whole] == [2, 2] and list(steps) == list(range(1, EPOCHS * STEPS + 1))
    for epoch in range(EPOCHS):
        rows = [row for step in range(STEPS) for row in steps[epoch * STEPS + step + 1]]
        assert sorted(rows) == list(range(ROWS))
    for begins_at in (5, 8):  # in an epoch, after its last batch
        again = launched(tmp_path, begins_at, server)
        assert steps_of(again) == {step: rows for step, rows in steps.items() if step > begins_at}
        assert again[0]["values"] == again[1]["values"] == whole[0]["values"]


def test_the_page(tmp_path, monkeypatch, server):
    monkeypatch.chdir(tmp_path)
    run_block(server, "accelerate.md", tmp_path)


def loop(config):
    accelerator = accelerate.Accelerator(cpu=True)
    torch.manual_seed(0)
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    model, optimizer = accelerator.prepare(model, optimizer)
    assert (accelerator.num_processes, type(model).__name__) == (2, "DistributedDataParallel")
    checkpoint, step = train.get_checkpoint(), 0
    if checkpoint is not None:
        accelerator.load_state(checkpoint.path)
        step = json.loads(Path(checkpoint.path, "step.json").read_text())
    rank = accelerator.process_index
    seen = Path(config["folder"], f"{'first' if checkpoint is None else 'second'}-{rank}")
    while step < EPOCHS * STEPS:
        for batch in train.get_dataset_shard().iter_torch_batches(batch_size=BATCH):
            if checkpoint is None and rank == 1 and step == config["fail_at"]:
                raise RuntimeError("the machine is lost")
            x = batch["id"].float().unsqueeze(1) / ROWS
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x), 2 * x)
            accelerator.backward(loss)
            optimizer.step()
            step += 1
            with open(seen, "a") as out:
                out.write(json.dumps([step, batch["id"].tolist()]) + "\n")
            if step % 4 == 0:
                folder = Path(config["folder"], str(step))
                accelerator.save_state(folder)
                if accelerator.is_main_process:
                    Path(folder, "step.json").write_text(json.dumps(step))
                accelerator.wait_for_everyone()
                metrics = {"step": step, "loss": accelerator.reduce(loss.detach(), "mean").item()}
                train.report(metrics, train.Checkpoint(folder) if rank == 0 else None)


def fit(tmp_path, name, fail_at=None):
    folder = tmp_path / f"saved-{name}"
    folder.mkdir()
    result = TorchTrainer(
        loop,
        train_loop_config={"folder": str(folder), "fail_at": fail_at},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(
            storage_path=tmp_path,
            name=name,
            failure_config=FailureConfig(max_failures=int(fail_at is not None)),
        ),
        datasets={"train": hd.range(ROWS).random_shuffle(seed=1)},
    ).fit()
    return result, folder


def noted(files):
    return [{"seen": [json.loads(line) for line in file.read_text().splitlines()]} for file in files]


def test_on_the_workers_of_a_trainer(tmp_path, server):
    with forked_ranks.ranks_of(server):
        whole, folder = fit(tmp_path, "whole")
        again, second = fit(tmp_path, "again", fail_at=6)
    steps = steps_of(noted(folder.glob("first-*")))
    for epoch in range(EPOCHS):
        rows = [row for step in range(STEPS) for row in steps[epoch * STEPS + step + 1]]
        assert sorted(rows) == list(range(ROWS))
    found = steps_of(noted(second.glob("second-*")))
    assert found == {step: rows for step, rows in steps.items() if step > 4}
    assert whole.history == again.history and [m["step"] for m in whole.history] == [4, 8, 12, 16]
    files = [Path(r.checkpoint.path, "model.safetensors").read_bytes() for r in (whole, again)]
    assert files[0] == files[1]


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, i):
        return i


def test_a_data_loader_that_accelerate_saves(tmp_path):
    from headrace.torch import DataLoader

    accelerator = accelerate.Accelerator(cpu=True)
    loader = DataLoader(Numbers(), batch_size=4, shuffle=True)
    accelerator.register_for_checkpointing(loader)
    batches = iter(loader)
    for _ in range(3):
        next(batches)
    accelerator.save_state(tmp_path)
    rest = [b.tolist() for b in batches]
    accelerator.load_state(tmp_path)
    assert len(rest) == 7 and [b.tolist() for b in loader] == rest


def prepared(loader, **how):
    """As prepare() does on rank 0 of two, in this process."""
    from accelerate.data_loader import prepare_data_loader

    accelerate.PartialState()
    return prepare_data_loader(loader, num_processes=2, process_index=0, **how)


class Wrapped(torch.utils.data.IterableDataset):
    """What users write around batches."""

    def __init__(self, batches):
        self.batches = batches

    def __iter__(self):
        yield from self.batches


@pytest.mark.parametrize("wrap", [lambda d: d, Wrapped], ids=["to_torch", "a class of a user"])
@pytest.mark.parametrize(
    "how, text",
    [
        ({}, "a share of 2.*divides it among the ranks once more.*leave the DataLoader out"),
        ({"dispatch_batches": True, "put_on_device": True}, "reads it on rank 0 alone.*leave the DataLoader"),
    ],
    ids=["shard", "dispatch"],
)
def test_a_share_that_is_prepared(wrap, how, text):
    """The story: each rank trained on a part of its part, or on parts of rank 0's, without a word."""
    share = hd.range(64).streaming_split(2)[0]
    data = wrap(share.to_torch(label_column="id", feature_columns=["id"], batch_size=4))
    with pytest.raises(InvalidArgument, match=text):
        next(iter(prepared(torch.utils.data.DataLoader(data, batch_size=2), **how)))


def test_a_whole_dataset_that_is_prepared():
    """Accelerate divides it, as users of the dataset without a share expect."""
    data = hd.range(64).iter_torch_batches(batch_size=1)
    loader = prepared(torch.utils.data.DataLoader(Wrapped(data), batch_size=2))
    rows = [x for batch in loader for x in batch["id"].flatten().tolist()]
    assert rows == [i for i in range(64) if i % 4 < 2]


def test_a_data_loader_that_is_prepared():
    from headrace.torch import DataLoader

    accelerator = accelerate.Accelerator(cpu=True)
    with pytest.warns(UserWarning, match="without its workers and its state: leave the loader out"):
        made = accelerator.prepare(DataLoader(Numbers(), batch_size=4))
    assert [b.tolist() for b in made][0] == [0, 1, 2, 3]
    sampler = torch.utils.data.DistributedSampler(Numbers(), num_replicas=2, rank=0)
    with pytest.raises(InvalidArgument, match="its part of 2.*once more.*leave the loader out of prepare"):
        accelerator.prepare(DataLoader(Numbers(), batch_size=4, sampler=sampler))
