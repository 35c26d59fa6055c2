"""Fashion-MNIST, from a Parquet file to a trained model, on two processes.

    python examples/train_fashion_mnist.py          10,000 images that lie beside this script
    python examples/train_fashion_mnist.py --full   all 60,000, from Debian's package dataset-fashion-mnist

The file holds each image as pandas writes it, a list of lists of int64. A Python function makes a float32
tensor (1, 28, 28) of it, row by row, in worker processes. Two trainers get equal shares, step by step, and
train one model (DistributedDataParallel). Each epoch they make sure that they have seen every row of the
file, each once: the number of rows and a checksum.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import torch
import torch.distributed as dist
from torch import nn

import headrace.data
from headrace import train
from headrace.train import Checkpoint, RunConfig, ScalingConfig
from headrace.train.torch import TorchTrainer, prepare_model

DATA = Path(__file__).resolve().parent / "data"
MEAN, STD = 0.286, 0.353  # of all pixels


def to_tensor(row):
    image = np.asarray(row["image"], dtype=np.float32).reshape(1, 28, 28)
    return {"image": (image / 255 - MEAN) / STD, "label": row["label"]}


def to_pixels(images):
    """The integers again."""
    return ((images * STD + MEAN) * 255).round().long()


def new_model():
    return nn.Sequential(
        nn.Conv2d(1, 16, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 7 * 7, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


def checksum(pixel_sums, labels):
    """Of rows in any order: no row may be missing, twice, or with another row's label."""
    return int((pixel_sums * (labels + 1)).sum())


def checksum_of_file(path):
    table = pq.read_table(path)
    pixels = table["image"].combine_chunks().flatten().flatten().to_numpy().reshape(len(table), -1)
    return len(table), checksum(pixels.sum(axis=1), table["label"].to_numpy())


def train_loop(config):
    torch.manual_seed(config["seed"])
    rank = train.get_context().get_world_rank()
    model = prepare_model(new_model())
    optimizer = torch.optim.Adam(model.parameters(), lr=config["lr"])
    batches = train.get_dataset_shard("train").iter_torch_batches(batch_size=config["batch_size"])

    for epoch in range(1, config["epochs"] + 1):
        begin = time.perf_counter()
        loss_sum = 0.0
        rows = correct = check = 0
        for batch in batches:
            images, labels = batch["image"], batch["label"]
            logits = model(images)
            loss = nn.functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

            rows += len(labels)
            loss_sum += loss.item() * len(labels)
            correct += (logits.argmax(1) == labels).sum().item()
            check += checksum(to_pixels(images).sum(dim=(1, 2, 3)), labels)
        seconds = time.perf_counter() - begin
        waited = batches.stats("dict")["wait_ns"][rank] / 1e9

        total = torch.tensor([rows, check, correct, loss_sum, waited, seconds], dtype=torch.float64)
        dist.all_reduce(total)
        rows, check, correct, loss_sum, waited, seconds = total.tolist()
        if (rows, check) != (config["rows"], config["checksum"]):
            raise AssertionError(
                f"epoch {epoch}: {rows:.0f} rows, checksum {check:.0f}; "
                f"the file has {config['rows']} and {config['checksum']}"
            )
        metrics = {
            "epoch": epoch,
            "loss": loss_sum / rows,
            "accuracy": correct / rows,
            "rows_per_second": rows / (seconds / dist.get_world_size()),
            "waited": waited / seconds,
        }
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = None
            if rank == 0:
                torch.save(model.module.state_dict(), Path(folder, "model.pt"))
                checkpoint = Checkpoint.from_directory(folder)
            train.report(metrics, checkpoint=checkpoint)
        if rank == 0:
            print(
                "epoch {epoch}: loss {loss:.3f}, accuracy {accuracy:.3f}, {rows_per_second:,.0f} rows/s, "
                "waited for data {waited:.1%} of the time".format(**metrics),
                f"- each of {rows:,.0f} rows seen once",
            )


def accuracy_on(path, checkpoint):
    model = new_model()
    with checkpoint.as_directory() as folder:
        model.load_state_dict(torch.load(Path(folder, "model.pt")))
    correct = rows = 0
    with torch.inference_mode():
        for batch in headrace.data.read_parquet(str(path)).map(to_tensor).iter_torch_batches(batch_size=500):
            correct += (model(batch["image"]).argmax(1) == batch["label"]).sum().item()
            rows += len(batch["label"])
    return correct / rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="all 60,000 images")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=64, help="per worker (%(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--storage", default="checkpoints", help="folder for checkpoints (%(default)s)")
    args = parser.parse_args()

    data = DATA / "full" if args.full else DATA
    file, test_file = data / "fashion_mnist_train.parquet", data / "fashion_mnist_test.parquet"
    if args.full and not file.exists():
        subprocess.run([sys.executable, DATA / "make_fashion_mnist.py", "--full", "--out", data], check=True)
    rows, check = checksum_of_file(file)
    print(
        f"{os.path.relpath(file)}: {rows:,} images; {args.workers} workers, batches of {args.batch_size} each"
    )

    dataset = headrace.data.read_parquet(str(file)).map(to_tensor)
    trainer = TorchTrainer(
        train_loop,
        train_loop_config={
            "seed": args.seed,
            "lr": 3e-3,
            "epochs": args.epochs,
            "batch_size": args.batch_size,
            "rows": rows,
            "checksum": check,
        },
        datasets={"train": dataset},
        scaling_config=ScalingConfig(num_workers=args.workers),
        run_config=RunConfig(storage_path=args.storage),
    )
    result = trainer.fit()
    print(f"checkpoint: {os.path.relpath(result.checkpoint.path)}")
    print(f"test accuracy: {accuracy_on(test_file, result.checkpoint):.4f}")


main()
