"""A small vision model on JPEG files, on two processes, that goes on after any kill.

    python examples/train_images.py --storage runs

The first start writes the files. Kill it (kill -9) and start it again with the same --storage: it goes on
from its last checkpoint, in the middle of an epoch, and ends with the same losses and the same weights, bit
for bit, although each batch has random crops.
"""

import argparse
import hashlib
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import nn

import headrace.data
from headrace import train
from headrace.train import Checkpoint, RunConfig, ScalingConfig
from headrace.train.torch import TorchTrainer, prepare_model

SIZE, CROP, CLASSES = 24, 20, 3


def write_images(folder, n):
    """JPEG files of three classes, each in its folder: stripes across, stripes down, and neither."""
    if folder.exists():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    images, labels = [], np.arange(n) % CLASSES
    for label in labels:
        stripes = np.zeros((SIZE, SIZE, 3))
        stripes[:: 4 if label == 0 else SIZE, :: 4 if label == 1 else SIZE] = 200
        images.append((stripes + random.integers(0, 56, stripes.shape)).astype(np.uint8))
    made = Path(tempfile.mkdtemp(dir=folder.parent))
    for label in range(CLASSES):
        mine = [{"image": image} for image in np.asarray(images)[labels == label]]
        headrace.data.from_items(mine).write_images(str(made / str(label)), "image", file_format="jpeg")
    made.rename(folder)  # whole, or not there


def augment(batch):
    """A random crop, mirrored or not. A restart draws the same random numbers for the same rows."""
    n = len(batch["image"])
    ys, xs = np.random.randint(0, SIZE - CROP + 1, (2, n))
    images = [im[y : y + CROP, x : x + CROP] for im, y, x in zip(batch["image"], ys, xs, strict=True)]
    flips = np.random.random(n) < 0.5
    images = np.stack([im[:, ::-1] if flip else im for im, flip in zip(images, flips, strict=True)])
    labels = [int(Path(path).parent.name) for path in batch["path"]]
    return {"image": images.transpose(0, 3, 1, 2).astype(np.float32) / 255, "label": np.array(labels)}


def new_model():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, stride=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(8 * 4 * 4, CLASSES),
    )


def train_loop(config):
    torch.manual_seed(0)
    rank = train.get_context().get_world_rank()
    model = prepare_model(new_model())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    epoch = step = 0
    if checkpoint := train.get_checkpoint():
        with checkpoint.as_directory() as folder:
            saved = torch.load(Path(folder, "state.pt"))
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        epoch, step = saved["epoch"], saved["step"]

    def save(next_epoch):
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = None
            if rank == 0:
                state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
                torch.save(state | {"epoch": next_epoch, "step": step}, Path(folder, "state.pt"))
                checkpoint = Checkpoint.from_directory(folder)
            train.report({"step": step, "loss": loss.item()}, checkpoint=checkpoint)

    batches = train.get_dataset_shard("train").iter_torch_batches(batch_size=8)
    for e in range(epoch, config["epochs"]):
        for batch in batches:
            loss = nn.functional.cross_entropy(model(batch["image"]), batch["label"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step % config["save_every"] == 0:
                save(e)
        save(e + 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--images", type=int, default=600)
    parser.add_argument("--save-every", type=int, default=10, help="steps (%(default)s)")
    parser.add_argument("--storage", default="checkpoints", help="folder of the run (%(default)s)")
    args = parser.parse_args()

    files = Path(args.storage) / "images"
    write_images(files, args.images)
    images = headrace.data.read_images(str(files), include_paths=True).random_shuffle()
    result = TorchTrainer(
        train_loop,
        train_loop_config={"epochs": args.epochs, "save_every": args.save_every},
        datasets={"train": images.map_batches(augment, compute="inline", batch_size=50)},
        scaling_config=ScalingConfig(num_workers=args.workers),
        run_config=RunConfig(name="images", storage_path=args.storage),
    ).fit()
    for report in result.history:
        print("step {step}: loss {loss!r}".format(**report))
    with result.checkpoint.as_directory() as folder:
        weights = torch.load(Path(folder, "state.pt"))["model"]
    digest = hashlib.sha256(b"".join(w.numpy().tobytes() for w in weights.values()))
    print(f"weights: {digest.hexdigest()}")


if __name__ == "__main__":
    main()
