"""Hugging Face's Trainer on the workers of a trainer: rows once, metrics, checkpoints, restarts."""

import contextlib
import os
from pathlib import Path

import forked_ranks
import numpy as np
import pytest
from pages import run_block

import headrace.data as hd
from headrace import train
from headrace.train import FailureConfig, RunConfig, ScalingConfig

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")
from headrace.train.torch import TorchTrainer  # noqa: E402

pytestmark = pytest.mark.usefixtures("ranks_with_transformers")
ROWS = 64
BATCH = 4
EPOCH = ROWS // (2 * BATCH)  # steps
TOKENS = 32


@pytest.fixture(scope="module")
def server(rank_server):
    modules = ("headrace.train.huggingface.transformers", "transformers.models.gpt2.modeling_gpt2")
    with contextlib.closing(rank_server.more(*modules)) as made:
        yield made


@pytest.fixture(scope="module")
def ranks_with_transformers(server):
    with forked_ranks.ranks_of(server):
        yield


def test_the_page(tmp_path, monkeypatch, server):
    monkeypatch.chdir(tmp_path)
    run_block(server, "transformers.md", tmp_path)


def texts(rows):
    """Of no function: its workers would import transformers."""
    ids = np.arange(rows)[:, None] * np.arange(1, 7) % TOKENS
    return hd.from_items([{"input_ids": one, "labels": one, "row": i} for i, one in enumerate(ids)])


class Noted(transformers.Trainer):
    """Notes the rows of each step, and fails where it is told."""

    def __init__(self, *args, seen, fail_at, **kwargs):
        super().__init__(*args, **kwargs)
        self.seen, self.fail_at = seen, fail_at

    def training_step(self, model, inputs, *args):
        if self.state.global_step == self.fail_at:
            raise RuntimeError("the machine is lost")
        rows = inputs.pop("row").tolist()
        with open(self.seen, "a") as out:
            out.write(f"{self.state.global_step} {' '.join(map(str, rows))}\n")
        return super().training_step(model, inputs, *args)

    def prediction_step(self, model, inputs, *args, **kwargs):
        inputs.pop("row")
        return super().prediction_step(model, inputs, *args, **kwargs)


def tiny_model():
    torch.manual_seed(0)
    sizes = {"vocab_size": TOKENS, "n_positions": 8, "n_embd": 8, "n_layer": 1, "n_head": 1}
    sizes |= {"bos_token_id": 0, "eos_token_id": 0}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes))


def loop(config):
    import headrace.train.huggingface.transformers as ht

    rank = train.get_context().get_world_rank()
    checkpoint = train.get_checkpoint()
    fail_at = config["fail_at"] if checkpoint is None and rank == 1 else None
    args = transformers.TrainingArguments(
        output_dir=config["output_dir"],
        max_steps=2 * EPOCH,
        eval_strategy="steps",
        eval_steps=4,
        save_strategy="steps",
        save_steps=4,
        save_total_limit=1,
        logging_steps=4,
        learning_rate=1e-2,
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
    )
    trainer = Noted(
        tiny_model(),
        args,
        train_dataset=train.get_dataset_shard("train").iter_torch_batches(batch_size=BATCH),
        eval_dataset=train.get_dataset_shard("eval").iter_torch_batches(batch_size=BATCH),
        callbacks=[ht.RayTrainReportCallback()],
        seen=Path(config["seen"], f"{rank}-{'first' if checkpoint is None else 'second'}"),
        fail_at=fail_at,
    )
    trainer = ht.prepare_trainer(trainer)
    assert (trainer.args.world_size, trainer.args.process_index) == (2, rank)
    folder = None if checkpoint is None else str(Path(checkpoint.path, "checkpoint"))
    trainer.train(resume_from_checkpoint=folder)


def fit(tmp_path, name, fail_at=None):
    seen = tmp_path / f"seen-{name}"
    seen.mkdir()
    result = TorchTrainer(
        loop,
        train_loop_config={
            "seen": str(seen),
            "output_dir": str(tmp_path / f"out-{name}"),
            "fail_at": fail_at,
        },
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(
            storage_path=tmp_path,
            name=name,
            failure_config=FailureConfig(max_failures=int(fail_at is not None)),
        ),
        datasets={
            "train": texts(ROWS).random_shuffle(seed=1),
            "eval": texts(16),
        },
    ).fit()
    return result, seen


def steps_of(files):
    """step -> the rows of all ranks, sorted."""
    out = {}
    for file in files:
        for line in file.read_text().splitlines():
            step, *rows = map(int, line.split())
            out.setdefault(step, []).extend(rows)
    return {step: sorted(rows) for step, rows in sorted(out.items())}


def weights(result):
    model = transformers.GPT2LMHeadModel.from_pretrained(Path(result.checkpoint.path, "checkpoint"))
    return model.state_dict()


@pytest.mark.parametrize("fail_at", [6, 10], ids=["in an epoch", "from its end"])
def test_a_restart_ends_with_the_weights_of_the_whole_run(whole, tmp_path, fail_at):
    result, seen = whole  # checkpoints after steps 4 and 8, the last one of epoch 1
    steps = steps_of(seen.iterdir())
    again, seen = fit(tmp_path, "again", fail_at=fail_at)
    second = steps_of(seen.glob("*-second"))
    begin = fail_at // 4 * 4
    assert second == {step: rows for step, rows in steps.items() if step >= begin}
    assert [m["step"] for m in again.history] == [4, 8, 12, 16]
    assert again.metrics["eval_loss"] == result.metrics["eval_loss"]
    found = weights(again)
    for name, value in weights(result).items():
        assert torch.equal(value, found[name])


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return fit(tmp_path_factory.mktemp("whole"), "whole")


def test_each_epoch_has_each_row_once_and_reports(whole):
    result, seen = whole
    steps = steps_of(seen.iterdir())
    assert list(steps) == list(range(2 * EPOCH))
    for epoch in range(2):
        rows = [row for step in range(EPOCH * epoch, EPOCH * (epoch + 1)) for row in steps[step]]
        assert sorted(rows) == list(range(ROWS))
    assert [m["step"] for m in result.history] == [4, 8, 12, 16]
    assert result.history[3]["eval_loss"] < result.history[0]["eval_loss"]
    assert {"loss", "eval_loss", "learning_rate", "epoch"} <= set(result.metrics)
    files = set(os.listdir(Path(result.checkpoint.path, "checkpoint")))
    assert {"model.safetensors", "trainer_state.json", "rng_state_0.pth", "rng_state_1.pth"} <= files


def test_without_a_torch_trainer(tmp_path):
    """The Trainer skips the batches itself, with repeat() those of whole epochs too."""
    import headrace.train.huggingface.transformers as ht

    def trained(name, folder=None):
        args = transformers.TrainingArguments(
            tmp_path / "out", max_steps=12, save_steps=10, report_to=[], disable_tqdm=True, use_cpu=True
        )
        batches = texts(ROWS // 2).random_shuffle(seed=1).iter_torch_batches(batch_size=BATCH).repeat()
        seen = tmp_path / name
        trainer = Noted(tiny_model(), args, train_dataset=batches, seen=seen, fail_at=None)
        ht.prepare_trainer(trainer).train(resume_from_checkpoint=folder)
        return seen.read_text().splitlines(), trainer.model.state_dict()

    lines, whole = trained("whole")
    more, again = trained("again", tmp_path / "out" / "checkpoint-10")
    assert len(lines) == 12 and more == lines[10:]
    assert all(torch.equal(whole[name], again[name]) for name in whole)


def test_what_is_no_batches(tmp_path):
    import headrace.train.huggingface.transformers as ht

    args = transformers.TrainingArguments(tmp_path, max_steps=1, report_to=[], use_cpu=True)
    for data in (hd.range(3), hd.range(3).iterator()):
        wrong = transformers.Trainer(torch.nn.Linear(1, 1), args, train_dataset=data)
        with pytest.raises(TypeError, match=r"train_dataset=.: expected batches.*iter_torch_batches"):
            ht.prepare_trainer(wrong)
    wrong = transformers.Trainer(torch.nn.Linear(1, 1), args, eval_dataset={"a": hd.range(3)})
    with pytest.raises(TypeError, match="eval_dataset=.*found a"):
        ht.prepare_trainer(wrong)
    with pytest.raises(RuntimeError, match="only in the train loop"):
        ht.RayTrainReportCallback().on_save(args, transformers.TrainerState(), None)
