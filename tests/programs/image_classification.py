"""Image classification: a folder of PNGs, a transform, DDP on two workers, a checkpoint, a test set."""

import json
import os
import sys

import numpy as np
import ray
import ray.train
import torch
from PIL import Image
from ray.train import Checkpoint, CheckpointConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

CLASSES = ("bright", "dark", "striped")


def draw(folder, n):
    """n small pictures for each class, in a folder of its own."""
    rng = np.random.default_rng(3)
    for name in CLASSES:
        os.makedirs(os.path.join(folder, name))
        for i in range(n):
            pixels = rng.integers(0, 60, (20 + i % 3, 24, 3))
            if name == "bright":
                pixels += 180
            if name == "striped":
                pixels[:, ::2] += 190
            Image.fromarray(pixels.astype(np.uint8)).save(os.path.join(folder, name, f"{i:03}.png"))


def label(row):
    return {"image": row["image"], "label": CLASSES.index(row["path"].split(os.sep)[-2])}


def normalize(batch):
    pixels = batch["image"].astype(np.float32) / 255
    return {"image": pixels.transpose(0, 3, 1, 2), "label": batch["label"]}


def train_loop(config):
    torch.manual_seed(1)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(4 * 14 * 14, 3)
    )
    model = ray.train.torch.prepare_model(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"])
    shard = ray.train.get_dataset_shard("train")
    for epoch in range(config["epochs"]):
        for batch in shard.iter_torch_batches(batch_size=config["batch_size"]):
            loss = torch.nn.functional.cross_entropy(model(batch["image"]), batch["label"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        total = loss.detach().clone()
        torch.distributed.all_reduce(total)
        metrics = {"epoch": epoch, "loss": total.item() / ray.train.get_context().get_world_size()}
        checkpoint = None
        if ray.train.get_context().get_world_rank() == 0:
            folder = os.path.join(config["scratch"], f"epoch{epoch}")
            os.makedirs(folder, exist_ok=True)
            torch.save(model.module.state_dict(), os.path.join(folder, "model.pt"))
            checkpoint = Checkpoint.from_directory(folder)
        ray.train.report(metrics, checkpoint=checkpoint)


def main(folder):
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    draw(os.path.join(folder, "images"), 20)
    ds = ray.data.read_images(os.path.join(folder, "images"), size=(16, 16), mode="RGB", include_paths=True)
    ds = ds.map(label)
    counts = {row["label"]: row["count()"] for row in ds.groupby("label").count().take_all()}
    train_set = ds.map_batches(normalize)
    trainer = TorchTrainer(
        train_loop,
        train_loop_config={
            "lr": 0.05,
            "epochs": 3,
            "batch_size": 30,
            "scratch": os.path.join(folder, "scratch"),
        },
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(
            name="images",
            storage_path=os.path.join(folder, "runs"),
            checkpoint_config=CheckpointConfig(num_to_keep=1),
        ),
        datasets={"train": train_set},
    )
    result = trainer.fit()
    with result.checkpoint.as_directory() as at:
        weights = torch.load(os.path.join(at, "model.pt"))
    print(
        json.dumps(
            {
                "counts": [counts[k] for k in sorted(counts)],
                "shape": list(train_set.take_batch(2)["image"].shape),
                "epoch": result.metrics["epoch"],
                "loss": round(result.metrics["loss"], 2),
                "weights": {name: list(value.shape) for name, value in weights.items()},
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1])
