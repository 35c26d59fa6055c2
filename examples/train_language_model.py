"""A small language model on packed tokens, on two processes, that goes on after any kill.

    python examples/train_language_model.py --storage runs

Kill it (kill -9) and start it again with the same --storage: it goes on from its last checkpoint, in the
middle of an epoch, and ends with the same losses and the same weights, bit for bit.
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

SEQ_LEN, EOS, N_TOKENS = 32, 256, 257


def documents(n):
    """Texts of different lengths."""
    return [
        {"text": f"Line {i} counts " + " ".join(str(j * i % 10) for j in range(i % 23))} for i in range(n)
    ]


def tokenize(batch):
    """Each byte is a token."""
    return {"tokens": [np.frombuffer(t.encode(), np.uint8).astype(np.int64) for t in batch["text"]]}


class Model(nn.Module):
    """Predicts a token from the one before it and its place."""

    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(N_TOKENS, 24)
        self.place = nn.Embedding(SEQ_LEN, 24)
        self.body = nn.Sequential(nn.Linear(24, 48), nn.GELU(), nn.Linear(48, N_TOKENS))

    def forward(self, tokens, places):
        return self.body(self.token(tokens) + self.place(places))


def train_loop(config):
    torch.manual_seed(0)
    rank = train.get_context().get_world_rank()
    model = prepare_model(Model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
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
            tokens, places = batch["tokens"], batch["position_ids"].long()
            logits = model(tokens[:, :-1], places[:, :-1])
            learned = batch["loss_mask"][:, 1:]
            loss = nn.functional.cross_entropy(logits[learned], tokens[:, 1:][learned])
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
    parser.add_argument("--documents", type=int, default=1500)
    parser.add_argument("--save-every", type=int, default=10, help="steps (%(default)s)")
    parser.add_argument("--storage", default="checkpoints", help="folder of the run (%(default)s)")
    args = parser.parse_args()

    text = headrace.data.from_items(documents(args.documents)).random_shuffle()
    rows = text.map_batches(tokenize, compute="threads", batch_size=100).pack(
        SEQ_LEN, "best_fit", eos_token_id=EOS, loss_mask="loss_mask"
    )
    result = TorchTrainer(
        train_loop,
        train_loop_config={"epochs": args.epochs, "save_every": args.save_every},
        datasets={"train": rows},
        scaling_config=ScalingConfig(num_workers=args.workers),
        run_config=RunConfig(name="language_model", storage_path=args.storage),
    ).fit()
    for report in result.history:
        print("step {step}: loss {loss!r}".format(**report))
    with result.checkpoint.as_directory() as folder:
        weights = torch.load(Path(folder, "state.pt"))["model"]
    digest = hashlib.sha256(b"".join(w.numpy().tobytes() for w in weights.values()))
    print(f"weights: {digest.hexdigest()}")


if __name__ == "__main__":
    main()
