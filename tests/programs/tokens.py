"""Language modelling: text to tokens, packed sequences, a tiny model on two workers."""

import json
import os
import sys
import tempfile

import numpy as np
import ray
import ray.train
import torch
from ray.train import Checkpoint, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

WORDS = "the feed gives each row once and the trainer never waits for it".split()
END = 0
SEQ_LEN = 16


def write_text(path, n):
    rng = np.random.default_rng(5)
    with open(path, "w") as out:
        for _ in range(n):
            out.write(" ".join(rng.choice(WORDS, rng.integers(3, 12))) + "\n")


class Tokenizer:
    """A word is its number in the vocabulary; END closes a document."""

    def __init__(self, words):
        self.ids = {word: i + 1 for i, word in enumerate(sorted(set(words)))}

    def __call__(self, batch):
        batch["tokens"] = [[self.ids[w] for w in text.split()] + [END] for text in batch["text"]]
        return {"tokens": np.array(batch["tokens"], dtype=object)}


def pack(batch):
    """All documents of the batch one after another, cut into sequences; what is left is dropped."""
    tokens = np.concatenate([np.asarray(t, np.int64) for t in batch["tokens"]])
    n = len(tokens) // (SEQ_LEN + 1)
    return {"tokens": tokens[: n * (SEQ_LEN + 1)].reshape(n, SEQ_LEN + 1)}


def train_loop(config):
    torch.manual_seed(2)
    model = torch.nn.Sequential(
        torch.nn.Embedding(config["vocabulary"], 8),
        torch.nn.Linear(8, 16),
        torch.nn.Tanh(),
        torch.nn.Linear(16, config["vocabulary"]),
    )
    model = ray.train.torch.prepare_model(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    shard = ray.train.get_dataset_shard("train")
    for epoch in range(3):
        sequences = 0
        for batch in shard.iter_torch_batches(batch_size=256):
            tokens = batch["tokens"]
            logits = model(tokens[:, :-1])
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            sequences += len(tokens)
        total = torch.tensor([loss.item(), sequences], dtype=torch.float64)
        torch.distributed.all_reduce(total)
        metrics = {"epoch": epoch, "loss": total[0].item() / 2, "sequences": int(total[1])}
        with tempfile.TemporaryDirectory() as at:
            torch.save(model.state_dict(), os.path.join(at, "model.pt"))
            first = ray.train.get_context().get_world_rank() == 0
            ray.train.report(metrics, checkpoint=Checkpoint.from_directory(at) if first else None)


def main(folder):
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    write_text(os.path.join(folder, "text.txt"), 600)
    ds = ray.data.read_text(os.path.join(folder, "text.txt"))
    ds = ds.map_batches(Tokenizer, fn_constructor_args=(WORDS,), concurrency=1, batch_size=128)
    lengths = sorted(len(row["tokens"]) for row in ds.take_all())
    packed = ds.repartition(1).map_batches(pack, batch_size=None).materialize()
    result = TorchTrainer(
        train_loop,
        train_loop_config={"vocabulary": len(set(WORDS)) + 1},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name="tokens", storage_path=os.path.join(folder, "runs")),
        datasets={"train": packed},
    ).fit()
    print(
        json.dumps(
            {
                "documents": len(lengths),
                "tokens": sum(lengths),
                "longest": lengths[-1],
                "packed": packed.count(),
                "sequences": result.metrics["sequences"],
                "loss": round(result.metrics["loss"], 3),
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1])
