"""Lightning on the workers of a trainer: rows once, metrics, checkpoints that are read back, resumes."""

import contextlib
import multiprocessing
import os
import signal
import socket
import tempfile
from pathlib import Path

import forked_ranks
import pytest
from pages import run_block

import headrace.data as hd
from headrace import train
from headrace.train import FailureConfig, RunConfig, ScalingConfig

torch = pytest.importorskip("torch")
pl = pytest.importorskip("lightning.pytorch")
from headrace.torch import DataLoader  # noqa: E402
from headrace.train.torch import TorchTrainer  # noqa: E402

pytestmark = pytest.mark.usefixtures("ranks_with_lightning")
ROWS = 64
EPOCHS = 3


@pytest.fixture(scope="module")
def server(rank_server):
    with contextlib.closing(rank_server.more("lightning.pytorch", "headrace.train.lightning")) as made:
        yield made


@pytest.fixture(scope="module")
def ranks_with_lightning(server):
    with forked_ranks.ranks_of(server):
        yield


class Line(pl.LightningModule):
    """y = 2 x, and a note of each row it sees."""

    def __init__(self, seen=None, fail_at=None):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.seen = seen
        self.fail_at = fail_at

    def training_step(self, batch, index):
        if self.fail_at == (self.current_epoch, index):
            raise RuntimeError("the machine is lost")
        if self.seen:
            with open(self.seen, "a") as out:
                out.writelines(f"{self.current_epoch} {int(i)}\n" for i in batch["id"])
        x = batch["id"].float().unsqueeze(1) / ROWS
        loss = torch.nn.functional.mse_loss(self.layer(x), 2 * x)
        self.log("loss", loss, on_step=False, on_epoch=True, sync_dist=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.1)


class Rows(pl.LightningDataModule):
    """A plain DataModule: `source` is a shard, or a Dataset."""

    def __init__(self, source):
        super().__init__()
        self.source = source

    def train_dataloader(self):
        return self.source.iter_torch_batches(batch_size=8)


QUIET = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
QUIET |= {"enable_model_summary": False, "accelerator": "cpu", "devices": "auto"}


def test_the_page(tmp_path, monkeypatch, server):
    monkeypatch.chdir(tmp_path)
    run_block(server, "lightning.md", tmp_path)


def loop(config):
    from headrace.train import lightning as hl

    torch.manual_seed(0)
    rank = train.get_context().get_world_rank()
    checkpoint = train.get_checkpoint()
    crash = config.get("crash") and checkpoint is None and rank == 1
    seen = Path(config["seen"], f"{rank}-{'first' if checkpoint is None else 'second'}")
    model = Line(seen, fail_at=(1, 2) if crash else None)
    trainer = pl.Trainer(
        max_epochs=EPOCHS,
        strategy=getattr(hl, config.get("strategy", "RayDDPStrategy"))(),
        plugins=[hl.RayLightningEnvironment()],
        callbacks=[hl.RayTrainReportCallback()],
        **QUIET,
    )
    trainer = hl.prepare_trainer(trainer)
    assert (trainer.world_size, trainer.global_rank) == (2, rank)
    path = None if checkpoint is None else str(Path(checkpoint.path, "checkpoint.ckpt"))
    trainer.fit(model, datamodule=Rows(train.get_dataset_shard("train")), ckpt_path=path, weights_only=False)


def fit(tmp_path, name, failures=0, **config):
    folder = tmp_path / f"seen-{name}"
    folder.mkdir()
    result = TorchTrainer(
        loop,
        train_loop_config={"seen": str(folder), **config},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(
            storage_path=tmp_path, name=name, failure_config=FailureConfig(max_failures=failures)
        ),
        datasets={"train": hd.range(ROWS).random_shuffle(seed=1)},
    ).fit()
    return result, folder


def rows_of(files):
    """epoch -> the rows of all ranks, sorted."""
    out = {}
    for file in files:
        for line in file.read_text().splitlines():
            epoch, row = map(int, line.split())
            out.setdefault(epoch, []).append(row)
    return {epoch: sorted(rows) for epoch, rows in out.items()}


def weights(result):
    file = Path(result.checkpoint.path, "checkpoint.ckpt")
    return torch.load(file, weights_only=False)["state_dict"]


def test_rows_once_and_a_resume_that_ends_with_the_same_weights(tmp_path):
    whole, folder = fit(tmp_path, "whole")
    every = {epoch: list(range(ROWS)) for epoch in range(EPOCHS)}
    assert rows_of(folder.iterdir()) == every
    assert [m["epoch"] for m in whole.history] == [0, 1, 2]
    assert [m["step"] for m in whole.history] == [4, 8, 12]
    assert whole.history[2]["loss"] < whole.history[0]["loss"]
    assert len(whole.best_checkpoints) == EPOCHS
    model = Line()
    model.load_state_dict(weights(whole))

    again, folder = fit(tmp_path, "again", failures=1, crash=True)
    second = rows_of(folder.glob("*-second"))
    assert second == {epoch: every[epoch] for epoch in (1, 2)}
    assert rows_of(folder.glob("*-first"))[0] == every[0]
    assert again.metrics["loss"] == whole.metrics["loss"]
    for name, value in weights(whole).items():
        assert torch.equal(value, weights(again)[name])


def test_a_plain_data_module_without_a_trainer(tmp_path):
    trainer = pl.Trainer(max_epochs=2, default_root_dir=tmp_path, **QUIET)
    trainer.fit(Line(tmp_path / "seen"), datamodule=Rows(hd.range(ROWS)))
    assert rows_of([tmp_path / "seen"]) == {0: list(range(ROWS)), 1: list(range(ROWS))}


class Seeing(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.rows = []

    def training_step(self, batch, i):
        self.rows += batch["id"].tolist()
        return self.layer(batch["id"].float().unsqueeze(1)).pow(2).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 1e-6)


class Stop(pl.Callback):
    def __init__(self, step):
        self.step = step

    def on_train_batch_end(self, trainer, *others):
        trainer.should_stop = trainer.global_step == self.step


class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        return ({"id": i} for i in range(80))


def batches_of(loader):
    if loader == "stream":
        return DataLoader(Stream(), batch_size=8)
    if loader == "items":
        return DataLoader([{"id": i} for i in range(80)], batch_size=8)
    ds = hd.range(80)
    if loader == "filter":
        ds = ds.filter(expr="id >= 0")
    elif loader == "shuffled":
        ds = ds.random_shuffle(seed=3)
    elif loader == "share":
        ds = ds.random_shuffle(seed=3).shard()
    return ds.iter_torch_batches(batch_size=8)


def rows_of_a_fit(loader, folder, path=None, last=None, **given):
    """With a checkpoint after each step."""
    saves = pl.callbacks.ModelCheckpoint(folder, "{step}", every_n_train_steps=1, save_top_k=-1)
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    model = Seeing()
    trainer = pl.Trainer(accelerator="cpu", callbacks=[saves, Stop(last)], **quiet, **given)
    trainer.fit(model, batches_of(loader), ckpt_path=path, weights_only=False)
    return model.rows


@pytest.mark.parametrize("loader", ["shuffled", "share", "items", "stream"])
def test_an_epoch_that_ends_before_the_data(loader, tmp_path):
    """The story: the checkpoint of the last step of an epoch with limit_train_batches was one in mid-epoch,
    and the next epoch had the batches that were left over, in place of its own.
    """
    limited = {"limit_train_batches": 4, "max_epochs": 3}
    whole = rows_of_a_fit(loader, tmp_path, **limited)
    assert len(whole) == 96
    for step in (3, 4, 5, 8):
        rest = rows_of_a_fit(loader, tmp_path / "again", tmp_path / f"step={step}.ckpt", **limited)
        assert rest == whole[8 * step :]


@pytest.mark.parametrize("loader", ["dataset", "filter", "share", "items", "stream"])
def test_a_checkpoint_in_mid_epoch_loses_no_batch(loader, tmp_path):
    """The story: Lightning takes a batch ahead, and the rows of that batch were never trained on."""

    def fit(last, path=None):
        return rows_of_a_fit(loader, tmp_path, path, last, max_epochs=1)

    whole = fit(10)
    assert sorted(whole) == list(range(80))

    for steps in (1, 3, 9):
        assert fit(steps) == whole[: 8 * steps]
        more = fit(steps + 1, tmp_path / f"step={steps}.ckpt")  # also of a run that was resumed
        rest = fit(10, tmp_path / f"step={steps + 1}.ckpt") if steps < 9 else []
        assert more + rest == whole[8 * steps :]


class Judged(Line):
    """Notes the rows that it validates, too. Ends its first epoch of training early."""

    crash = False

    def on_train_batch_start(self, batch, i):
        return -1 if (self.current_epoch, i) == (0, 2) else None

    def on_validation_epoch_start(self):
        if self.crash and self.current_epoch == 1:
            os._exit(9)

    def validation_step(self, batch, i):
        if not self.trainer.sanity_checking:
            with open(f"{self.seen}-val", "a") as out:
                out.writelines(f"{self.current_epoch} {int(i)}\n" for i in batch["id"])


def left_early(config):
    from headrace.train import lightning as hl

    torch.manual_seed(0)
    rank = train.get_context().get_world_rank()
    checkpoint = train.get_checkpoint()
    model = Judged(Path(config["seen"], f"{rank}-{'first' if checkpoint is None else 'second'}"))
    model.crash = config["crash"] and checkpoint is None and rank == 1
    trainer = pl.Trainer(
        max_epochs=EPOCHS,
        limit_train_batches=3,
        limit_val_batches=2,
        strategy=hl.RayDDPStrategy(),
        plugins=[hl.RayLightningEnvironment()],
        callbacks=[hl.RayTrainReportCallback()],
        **QUIET,
    )
    path = None if checkpoint is None else str(Path(checkpoint.path, "checkpoint.ckpt"))
    loaders = [train.get_dataset_shard(name).iter_torch_batches(batch_size=8) for name in ("train", "val")]
    hl.prepare_trainer(trainer).fit(model, *loaders, ckpt_path=path, weights_only=False)


def test_epochs_that_end_before_the_data_of_a_trainer(tmp_path):
    """The story: after a restart the next epoch of training had the batches that limit_train_batches had left
    over, and the first validation those behind the sanity check or behind limit_val_batches.
    """

    def fit(name, crash):
        folder = tmp_path / f"seen-{name}"
        folder.mkdir()
        rows = hd.range(ROWS).random_shuffle(seed=1)
        result = TorchTrainer(
            left_early,
            train_loop_config={"seen": str(folder), "crash": crash},
            scaling_config=ScalingConfig(num_workers=2),
            run_config=RunConfig(
                storage_path=tmp_path, name=name, failure_config=FailureConfig(max_failures=1)
            ),
            datasets={"train": rows, "val": rows},
        ).fit()
        return result, folder

    whole, folder = fit("whole", False)
    again, second = fit("again", True)
    for rank in (0, 1):
        for kind in ("", "-val"):
            expected, found = (
                (f / f"{rank}-{which}{kind}").read_text().splitlines()
                for f, which in ((folder, "first"), (second, "second"))
            )
            assert len(expected) == (32 if kind else 64)  # the first epoch ends early: no validation
            assert found == [line for line in expected if line[0] != "0"]
    for name, value in weights(whole).items():
        assert torch.equal(value, weights(again)[name])


class Reports(pl.Callback):
    """Reports each third step, in mid-epoch, and keeps no file of its own."""

    def on_train_batch_end(self, trainer, *others):
        if trainer.global_step % 3:
            return
        with tempfile.TemporaryDirectory() as folder:
            trainer.save_checkpoint(Path(folder, "checkpoint.ckpt"))
            train.report({"step": trainer.global_step}, train.Checkpoint.from_directory(folder))


def mid_epoch(config):
    from headrace.train import lightning as hl

    torch.manual_seed(0)
    rank = train.get_context().get_world_rank()
    checkpoint = train.get_checkpoint()
    seen = Path(config["seen"], f"{rank}-{'first' if checkpoint is None else 'second'}")
    model = Line(seen)
    if config["crash"] and checkpoint is None and rank == 1:
        model.on_train_batch_start = lambda batch, i: os._exit(9) if model.global_step == 7 else None
    trainer = pl.Trainer(
        max_epochs=EPOCHS,
        strategy=hl.RayDDPStrategy(),
        plugins=[hl.RayLightningEnvironment()],
        callbacks=[Reports()],
        **QUIET,
    )
    path = None if checkpoint is None else str(Path(checkpoint.path, "checkpoint.ckpt"))
    batches = train.get_dataset_shard("train").iter_torch_batches(batch_size=8)
    hl.prepare_trainer(trainer).fit(model, batches, ckpt_path=path, weights_only=False)


def test_a_report_in_mid_epoch_loses_no_batch(tmp_path):
    """The story: the position of a report in mid-epoch was one batch too far, that of several ranks."""

    def fit(name, crash):
        folder = tmp_path / f"seen-{name}"
        folder.mkdir()
        run = RunConfig(storage_path=tmp_path, name=name, failure_config=FailureConfig(max_failures=1))
        result = TorchTrainer(
            mid_epoch,
            train_loop_config={"seen": str(folder), "crash": crash},
            scaling_config=ScalingConfig(num_workers=2),
            run_config=run,
            datasets={"train": hd.range(ROWS).random_shuffle(seed=1)},
        ).fit()
        return result, folder

    whole, folder = fit("whole", False)
    assert rows_of(folder.iterdir()) == {epoch: list(range(ROWS)) for epoch in range(EPOCHS)}
    again, folder = fit("again", True)
    first, second = (rows_of(folder.glob(f"*-{which}")) for which in ("first", "second"))
    assert len(second[1]) == ROWS // 2 and second[2] == list(range(ROWS))  # from step 6 of 12 on
    assert first[0] == list(range(ROWS)) and set(first[1]) | set(second[1]) == set(range(ROWS))
    for name, value in weights(whole).items():
        assert torch.equal(value, weights(again)[name])


def under_a_launcher(rank, port, folder, name, last, path):
    """A rank of `torchrun --nproc-per-node 2`, killed after step `last`."""
    names = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2, "GROUP_RANK": 0}
    names |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_RUN_ID": port}
    os.environ.update({k: str(v) for k, v in names.items()})

    class Kill(pl.Callback):
        def on_train_batch_start(self, trainer, *others):
            if trainer.global_step == last and rank == 1:  # after the checkpoint, which has a barrier
                os.kill(os.getpid(), signal.SIGKILL)

    torch.manual_seed(0)
    saves = pl.callbacks.ModelCheckpoint(folder / name, "{step}", every_n_train_steps=1, save_top_k=-1)
    model = Line(folder / f"{name}-{rank}-{'first' if path is None else 'second'}")
    quiet = {k: v for k, v in QUIET.items() if k != "enable_checkpointing"} | {"devices": 2}
    trainer = pl.Trainer(max_epochs=2, strategy="ddp", callbacks=[saves, Kill()], **quiet)
    batches = hd.range(ROWS).random_shuffle(seed=1).shard().iter_torch_batches(batch_size=8)
    trainer.fit(model, batches, ckpt_path=path, weights_only=False)


def launch(*arguments):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = multiprocessing.get_context("forkserver")  # a fork of this process has no threads of OpenMP
    server.set_forkserver_preload(["lightning.pytorch"])
    ranks = [server.Process(target=under_a_launcher, args=(rank, port, *arguments)) for rank in range(2)]
    for rank in ranks:
        rank.start()
    ranks[1].join(120)
    if ranks[1].exitcode != 0:
        ranks[0].kill()
    ranks[0].join(120)
    codes = [rank.exitcode for rank in ranks]
    for rank in ranks:
        rank.kill()
    return codes


@pytest.mark.parametrize("last", [2, 3, 6])
def test_a_checkpoint_of_several_ranks_loses_no_batch(last, tmp_path):
    """Killed under a launcher in mid-epoch, and restarted from Lightning's own checkpoint."""
    assert launch(tmp_path, "whole", None, None) == [0, 0]
    assert launch(tmp_path, "again", last, None)[1] == -signal.SIGKILL
    assert launch(tmp_path, "again", None, tmp_path / "again" / f"step={last}.ckpt") == [0, 0]
    every = {epoch: list(range(ROWS)) for epoch in range(2)}
    assert rows_of(tmp_path.glob("whole-?-*")) == every
    for one in tmp_path.glob("again-?-first"):  # without the step that the kill ended
        one.write_text("".join(one.read_text().splitlines(keepends=True)[: 8 * last]))
    assert rows_of(tmp_path.glob("again-?-*")) == every
    ends = [torch.load(tmp_path / name / "step=8.ckpt", weights_only=False) for name in ("whole", "again")]
    for name, value in ends[0]["state_dict"].items():
        assert torch.equal(value, ends[1]["state_dict"][name])


def test_a_trainer_that_would_start_processes_itself():
    from headrace.train import lightning as hl

    with pytest.raises(RuntimeError, match="expected Trainer.strategy=.*RayDDPStrategy.*found SingleDevice"):
        hl.prepare_trainer(pl.Trainer(**QUIET))
    with pytest.raises(RuntimeError, match="only in the train loop"):
        hl.RayTrainReportCallback()


def test_an_environment_of_lightnings_own_in_the_loop(tmp_path):
    def wrong():
        from headrace.train import lightning as hl

        hl.prepare_trainer(pl.Trainer(strategy=hl.RayDDPStrategy(), **QUIET))

    trainer = TorchTrainer(
        wrong,
        scaling_config=ScalingConfig(num_workers=0),
        run_config=RunConfig(storage_path=tmp_path, name="wrong"),
    )
    with pytest.raises(RuntimeError, match="RayLightningEnvironment.*found LightningEnvironment"):
        trainer.fit()
