"""The notebook: images as nested lists in Parquet, a Python function for each row, two trainers, to the end.

The model is one layer, so that what is measured is the feed. Everybody runs the same steps on the same
batches (global batch 512, two epochs, rows in the file's order), and each epoch adds up rows, labels and
pixels over both ranks.
"""

import json
import os
import tempfile
import time
from pathlib import Path

from workloads.peers import start_ray

TITLE = "Notebook: images, 2 trainers"
DATA = "images"
WHOLE = True
RANKS, GLOBAL_BATCH, EPOCHS = 2, 512, 2


def transform(row):
    """The image, (28, 28) integers in nested lists, becomes float32 (1, 28, 28) in [-1, 1]."""
    import numpy as np

    pixels = np.array(row["image"], dtype=np.uint8)
    row["image"] = ((pixels.astype(np.float32) / 255 - 0.5) / 0.5)[np.newaxis]
    return row


def epochs_of(model, batches_of_epoch, report):
    """One rank's training. report() gets each epoch's sums over both ranks and when its first batch came."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(EPOCHS):
        first_ns, seen = 0, torch.zeros(3, dtype=torch.int64)
        for batch in batches_of_epoch(epoch):
            first_ns = first_ns or time.monotonic_ns()
            image, label = batch["image"], batch["label"]
            loss = torch.nn.functional.cross_entropy(model(image), label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            pixels = (image * 127.5 + 127.5).round().sum(dtype=torch.float64)
            seen += torch.tensor([len(label), int(label.sum()), int(pixels)])
        dist.all_reduce(seen)
        report({"epoch": epoch, "first_ns": first_ns, "seen": seen.tolist(), "loss": float(loss.detach())})


def new_model():
    import torch

    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 10))


def outcome(reports):
    reports = sorted(reports, key=lambda r: r["epoch"])
    assert [r["epoch"] for r in reports] == list(range(EPOCHS)), reports
    rows, labels, pixels = (sum(r["seen"][i] for r in reports) for i in range(3))
    return {"rows": rows, "first_ns": reports[0]["first_ns"], "sums": {"label": labels, "image": pixels}}


def by_trainer(read_parquet, data, train, trainer):
    """The script of the notebook, with the names of Ray or of headrace."""
    rows = read_parquet(data).map(transform)
    folder = tempfile.mkdtemp(prefix="hrb")

    def loop(config):
        model = trainer.prepare_model(new_model())
        shard = train.get_dataset_shard("train")

        def batches(epoch):
            return shard.iter_torch_batches(batch_size=GLOBAL_BATCH // RANKS)

        def report(what):
            if train.get_context().get_world_rank() == 0:
                path = Path(config["folder"]) / f"{what['epoch']}.json"
                path.write_text(json.dumps(what))
            train.report({"loss": what["loss"]})

        epochs_of(model, batches, report)

    trainer.TorchTrainer(
        loop,
        train_loop_config={"folder": folder},
        scaling_config=train.ScalingConfig(num_workers=RANKS, use_gpu=False),
        run_config=train.RunConfig(storage_path=folder, name="notebook"),
        datasets={"train": rows},
    ).fit()
    return outcome([json.loads(p.read_text()) for p in Path(folder).glob("*.json")])


def headrace(data):
    import headrace.data
    import headrace.train
    import headrace.train.torch

    return lambda: by_trainer(headrace.data.read_parquet, data, headrace.train, headrace.train.torch)


def ray(data):
    # Each trainer holds a CPU, which leaves none of two cores for the data, so Ray gets two more CPUs.
    ray = start_ray(num_cpus=os.cpu_count() + RANKS)
    from ray import train
    from ray.train import torch as trainer

    return lambda: by_trainer(ray.data.read_parquet, data, train, trainer)


def torch(data):
    """Each rank loads the whole file by pyarrow; its DataLoader has a worker that transforms row by row."""
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    config = LaunchConfig(
        min_nodes=1, max_nodes=1, nproc_per_node=RANKS, rdzv_backend="c10d", rdzv_endpoint="localhost:0"
    )

    def start():
        folder = tempfile.mkdtemp(prefix="hrb")
        return outcome(elastic_launch(config, torch_rank)(data, folder)[0])

    return start


class Rows:
    """A torch Dataset: row i of the file, transformed."""

    def __init__(self, data):
        import pyarrow.parquet as pq

        table = pq.read_table(data).combine_chunks()
        self.image, self.label = table["image"].chunk(0), table["label"].to_numpy()

    def __len__(self):
        return len(self.label)

    def __getitem__(self, i):
        return transform({"image": self.image[i].as_py(), "label": self.label[i]})


def torch_rank(data, folder):
    import torch.distributed as dist
    import torch.utils.data as td

    dist.init_process_group("gloo")
    rows = Rows(data)
    sampler = td.DistributedSampler(rows, RANKS, dist.get_rank(), shuffle=False)
    loader = td.DataLoader(
        rows,
        GLOBAL_BATCH // RANKS,
        sampler=sampler,
        num_workers=1,
        persistent_workers=True,
        prefetch_factor=4,
    )
    import torch

    reports = []
    model = torch.nn.parallel.DistributedDataParallel(new_model())
    epochs_of(model, lambda epoch: loader, reports.append)
    dist.destroy_process_group()
    return reports
