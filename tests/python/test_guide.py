"""Ray's guide to data in training, step by step, with this package in Ray's place.

The programs of the guide "Data Loading and Preprocessing" and of the notebook on Fashion-MNIST, written anew,
with a count of each rank's rows.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import headrace.data
from headrace import train
from headrace.actor import ActorHandle
from headrace.data import DataIterator, Dataset, NodeIdStr
from headrace.train import DataConfig, RunConfig, ScalingConfig

torch = pytest.importorskip("torch")
from headrace.train.torch import TorchTrainer  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("forked_ranks")]
TWO = ScalingConfig(num_workers=2)
SPAM = [f"{'spam' if i % 5 == 0 else 'ham'}\tmessage number {i}" for i in range(747)]
FASHION = Path(__file__).resolve().parents[2] / "examples" / "data" / "fashion_mnist_train.parquet"


@pytest.fixture
def text_file(tmp_path):
    path = tmp_path / "sms.txt"
    path.write_text("".join(line + "\n" for line in SPAM))
    return str(path)


def seen_by(folder):
    """The records of each rank."""
    return [json.loads((folder / f"rank-{rank}.json").read_text()) for rank in range(2)]


def note(folder, what):
    (Path(folder) / f"rank-{train.get_context().get_world_rank()}.json").write_text(json.dumps(what))


def test_quickstart(tmp_path):
    """Items in memory, a function on batches, two workers that take tensors of their share."""
    data = headrace.data.from_items([{"x": [n], "y": [2 * n]} for n in range(200)])

    def add_one(batch):
        batch["y"] = batch["y"] + 1
        return batch

    data = data.map_batches(add_one)

    def loop(config):
        shard = train.get_dataset_shard("train")
        loader = shard.iter_torch_batches(batch_size=16, dtypes=torch.float32)
        seen = []
        for _ in range(config["epochs"]):
            xs = []
            for batch in loader:
                assert type(batch["x"]) is torch.Tensor and batch["x"].dtype == torch.float32
                assert batch["x"].shape == batch["y"].shape == (len(batch["x"]), 1)
                assert torch.equal(batch["y"], 2 * batch["x"] + 1)
                xs.append(batch["x"][:, 0].int().tolist())
            seen.append(xs)
        note(config["folder"], seen)

    config = {"folder": str(tmp_path), "epochs": 2}
    trainer = TorchTrainer(
        loop,
        train_loop_config=config,
        datasets={"train": data},
        scaling_config=TWO,
        run_config=RunConfig(storage_path=tmp_path / "storage"),
    )
    trainer.fit()
    zero, one = seen_by(tmp_path)
    assert zero[0] == zero[1] and one[0] == one[1]
    assert [len(b) for b in zero[0]] == [len(b) for b in one[0]] == [16] * 6 + [4]
    for step in range(6):
        assert zero[0][step] == list(range(step * 32, step * 32 + 16))
        assert one[0][step] == list(range(step * 32 + 16, step * 32 + 32))
    assert sorted(x for rank in (zero, one) for b in rank[0] for x in b) == list(range(200))


class OwnConfig(DataConfig):
    """Splits by itself, as the guide's advanced example does."""

    def configure(
        self,
        datasets: dict[str, Dataset],
        world_size: int,
        worker_handles: list[ActorHandle] | None,
        worker_node_ids: list[NodeIdStr] | None,
        **kwargs,
    ) -> list[dict[str, DataIterator]]:
        assert list(datasets) == ["train"]
        context = headrace.data.DataContext.get_current()
        context.execution_options = DataConfig.default_ingest_options()
        shards = datasets["train"].streaming_split(world_size, equal=True, locality_hints=worker_node_ids)
        return [{"train": shard} for shard in shards]


def count_loop(config):
    shard = train.get_dataset_shard("train")
    seen = []
    for _ in range(2):
        seen.append([])
        for batch in shard.iter_batches(batch_size=128, prefetch_batches=config.get("prefetch", 1)):
            seen[-1] += batch["text"].tolist()
    note(config["folder"], seen)


def fit_text(data, tmp_path, **arguments):
    config = {"folder": str(tmp_path), **arguments.pop("config", {})}
    TorchTrainer(
        count_loop,
        train_loop_config=config,
        scaling_config=TWO,
        datasets={"train": data},
        run_config=RunConfig(storage_path=tmp_path / "storage"),
        **arguments,
    ).fit()
    zero, one = seen_by(tmp_path)
    assert zero[0] == zero[1] and one[0] == one[1]
    return zero[0], one[0]


def test_own_data_config(text_file, tmp_path):
    zero, one = fit_text(headrace.data.read_text(text_file), tmp_path, dataset_config=OwnConfig())
    assert len(zero) == len(one) == 373  # of 747: one row is left out, so that both take as many steps
    assert len(set(zero) | set(one)) == 746 and set(zero) | set(one) < set(SPAM)
    assert zero[:128] == SPAM[:128] and one[:128] == SPAM[128:256]


def test_split_only_the_training_rows(text_file, tmp_path):
    """train_test_split: each worker sees half of the training rows and all test rows."""
    train_ds, val_ds = headrace.data.read_text(text_file).train_test_split(0.3)
    n_train = int(747 * (1 - 0.3))

    def loop(config):
        seen = {}
        for name in ("train", "val"):
            shard = train.get_dataset_shard(name)
            seen[name] = [
                [t for b in shard.iter_batches(batch_size=128) for t in b["text"]] for _ in range(2)
            ]
        note(config["folder"], seen)

    TorchTrainer(
        loop,
        train_loop_config={"folder": str(tmp_path)},
        scaling_config=TWO,
        datasets={"train": train_ds, "val": val_ds},
        dataset_config=DataConfig(datasets_to_split=["train"]),
        run_config=RunConfig(storage_path=tmp_path / "storage"),
    ).fit()
    zero, one = seen_by(tmp_path)
    assert zero["val"] == one["val"] == [SPAM[n_train:]] * 2
    both = zero["train"][0] + one["train"][0]
    assert len(both) == n_train // 2 * 2 and set(both) <= set(SPAM[:n_train])


@pytest.mark.parametrize("seed", [None, 3])
def test_block_order_and_local_shuffle(text_file, tmp_path, seed):
    """The guide's usual shuffle: both ranks use the same window, epochs differ."""
    data = headrace.data.read_text(text_file).randomize_block_order(seed=seed)

    def loop(config):
        shard = train.get_dataset_shard("train")
        batches = shard.iter_batches(
            local_shuffle_buffer_size=10_000, local_shuffle_seed=config["seed"], batch_size=128
        )
        note(config["folder"], [[t for b in batches for t in b["text"]] for _ in range(2)])

    TorchTrainer(
        loop,
        train_loop_config={"folder": str(tmp_path), "seed": seed},
        scaling_config=TWO,
        datasets={"train": data},
        run_config=RunConfig(storage_path=tmp_path / "storage"),
    ).fit()
    zero, one = seen_by(tmp_path)
    for epoch in range(2):
        assert len(zero[epoch]) == len(one[epoch]) == 373
        assert not set(zero[epoch]) & set(one[epoch])
        assert set(zero[epoch]) | set(one[epoch]) < set(SPAM)
        assert zero[epoch] + one[epoch] != SPAM[:746] and zero[epoch] != sorted(zero[epoch], key=SPAM.index)
    assert zero[0] != zero[1] and one[0] != one[1]


def test_global_shuffle(text_file, tmp_path):
    data = headrace.data.read_text(text_file).random_shuffle()
    batches = data.iter_batches(batch_size=128)
    first, second = ([t for b in batches for t in b["text"]] for _ in range(2))
    assert sorted(first) == sorted(second) == sorted(SPAM)
    assert len({tuple(first), tuple(second), tuple(SPAM)}) == 3
    kept = data.materialize()
    assert [r["text"] for r in kept.take_all()] == [r["text"] for r in kept.take_all()]


def test_preserve_order(text_file, tmp_path):
    context = headrace.data.DataContext.get_current()
    context.execution_options.preserve_order = True
    data = headrace.data.read_text(text_file).map(lambda row: {"text": row["text"]})
    assert [row["text"] for row in data.take_all()] == SPAM
    first = fit_text(data, tmp_path)
    assert fit_text(data, tmp_path) == first


def test_prefetch(text_file, tmp_path):
    data = headrace.data.read_text(text_file)
    assert fit_text(data, tmp_path, config={"prefetch": 10}) == fit_text(
        data, tmp_path, config={"prefetch": 0}
    )


def test_materialize_then_augment(tmp_path):
    """The first function runs once, the second in every epoch."""
    frame = pd.DataFrame({"sepal.length": [5.1, 4.9, 6.4, 7.9], "variety": ["a", "b", "a", "c"]})
    frame.to_parquet(tmp_path / "iris.parquet")
    log = tmp_path / "log"

    def normalize(batch):
        with open(log, "a") as f:
            f.write("normalize\n")
        batch["normalized"] = batch["sepal.length"] / np.max(batch["sepal.length"])
        del batch["sepal.length"]
        return batch

    data = headrace.data.read_parquet(tmp_path / "iris.parquet").map_batches(normalize).materialize()

    def augment(batch):
        with open(log, "a") as f:
            f.write("augment\n")
        return {**batch, "noise": np.random.random(len(batch["normalized"]))}

    data = data.map_batches(augment)
    batches = data.iter_batches(batch_size=4)
    epochs = [next(iter(batches)) for _ in range(3)]
    for batch in epochs:
        assert np.allclose(batch["normalized"], frame["sepal.length"] / 7.9)
        assert batch["variety"].tolist() == ["a", "b", "a", "c"]
    assert len({tuple(batch["noise"]) for batch in epochs}) == 3
    lines = log.read_text().split()
    assert lines.count("normalize") == 1 and lines.count("augment") == 3


def test_notebook(tmp_path):
    """Images as lists of lists, a transform for each row, two workers, global batch 512, two epochs."""

    def transform_images(row):
        image = torch.from_numpy(np.array(row["image"], dtype=np.uint8)).to(torch.float32).div(255)
        row["image"] = image.sub(0.5).div(0.5).unsqueeze(0)
        return row

    source = headrace.data.read_parquet(str(FASHION)).limit(4000)
    data = source.map(transform_images)

    def loop(config):
        loader = train.get_dataset_shard("train").iter_torch_batches(
            batch_size=512 // train.get_context().get_world_size(), prefetch_batches=2
        )
        for epoch in range(2):
            rows, pixels, labels = 0, 0.0, 0
            for batch in loader:
                assert batch["image"].dtype == torch.float32 and batch["image"].shape[1:] == (1, 28, 28)
                assert batch["label"].dtype == torch.int64
                assert batch["image"].min() >= -1 and batch["image"].max() <= 1
                rows += len(batch["label"])
                labels += int(batch["label"].sum())
                pixels += float(((batch["image"].double() + 1) * 127.5).sum())
            train.report({"epoch": epoch, "rows": rows})
        note(config["folder"], [rows, labels, round(pixels)])

    TorchTrainer(
        loop,
        train_loop_config={"folder": str(tmp_path)},
        scaling_config=TWO,
        datasets={"train": data},
        run_config=RunConfig(storage_path=tmp_path / "storage"),
    ).fit()
    plain = source.to_arrow()
    n = plain.num_rows
    zero, one = seen_by(tmp_path)
    assert zero[0] == one[0] == n // 2
    assert zero[1] + one[1] == sum(plain["label"].to_pylist())
    assert abs(zero[2] + one[2] - np.array(plain["image"].to_pylist()).sum()) < 10


def test_structured_data(tmp_path):
    """Preprocessors, whose text travels with each checkpoint as metadata."""
    from headrace.data.preprocessors import Concatenator, StandardScaler
    from headrace.train import Checkpoint

    random = np.random.default_rng(1)
    table = pd.DataFrame(random.normal(3, 2, (300, 3)), columns=["width", "height", "age"])
    table.assign(target=random.integers(0, 2, 300)).to_csv(tmp_path / "people.csv", index=False)
    dataset = headrace.data.read_csv(str(tmp_path / "people.csv"))
    scaler = StandardScaler(columns=["width", "height"])
    concatenator = Concatenator(exclude=["target"], dtype=np.float32)
    dataset = concatenator.fit_transform(scaler.fit_transform(dataset))

    def loop(config):
        metadata = train.get_context().get_metadata()
        shard = train.get_dataset_shard("train")
        shapes = []
        for _ in range(2):
            for batch in shard.iter_batches(batch_size=64, prefetch_batches=10):
                assert sorted(batch) == ["concat_out", "target"] and batch["concat_out"].dtype == np.float32
                shapes.append(batch["concat_out"].shape)
        note(config["folder"], {"shapes": shapes, "metadata": metadata})
        folder = Path(config["folder"]) / f"model-{train.get_context().get_world_rank()}"
        folder.mkdir()
        train.report({"score": 2.0}, checkpoint=Checkpoint.from_directory(folder))

    trainer = TorchTrainer(
        loop,
        train_loop_config={"folder": str(tmp_path)},
        datasets={"train": dataset},
        scaling_config=TWO,
        run_config=RunConfig(storage_path=tmp_path / "storage"),
        metadata={"preprocessor": scaler.serialize()},
    )
    metadata = trainer.fit().checkpoint.get_metadata()
    for seen in seen_by(tmp_path):
        assert seen["metadata"] == metadata
        assert seen["shapes"] == [[64, 3], [64, 3], [22, 3]] * 2
    again = StandardScaler.deserialize(metadata["preprocessor"])
    assert repr(again) == repr(scaler) and again.stats_ == scaler.stats_
    assert (
        again.transform_batch({"width": [0.0], "height": [scaler.stats_["mean(height)"]]})["height"][0] == 0
    )
