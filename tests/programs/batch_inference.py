"""Batch inference: a class that loads its model once per worker, two workers, results written as Parquet."""

import json
import os
import sys

import numpy as np
import ray
import torch


class Predictor:
    """Holds the model; a call gives classes and probabilities for a batch."""

    def __init__(self, path, top):
        self.model = torch.nn.Linear(8, 4)
        self.model.load_state_dict(torch.load(path))
        self.model.eval()
        self.top = top

    def __call__(self, batch):
        with torch.inference_mode():
            p = torch.softmax(self.model(torch.as_tensor(batch["features"])), dim=1).numpy()
        return {
            "id": batch["id"],
            "label": p.argmax(1),
            "sure": p.max(1) > self.top,
            "worker": np.full(len(p), os.getpid()),
        }


def main(folder):
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    torch.manual_seed(4)
    torch.save(torch.nn.Linear(8, 4).state_dict(), os.path.join(folder, "model.pt"))
    rng = np.random.default_rng(6)
    features = rng.normal(size=(2000, 8)).astype(np.float32)
    ds = ray.data.from_numpy(features).rename_columns({"data": "features"})
    ds = ds.zip(ray.data.range(2000, override_num_blocks=1)).repartition(8)
    predicted = ds.map_batches(
        Predictor,
        fn_constructor_kwargs={"path": os.path.join(folder, "model.pt"), "top": 0.5},
        batch_size=100,
        concurrency=2,
    )
    predicted.write_parquet(os.path.join(folder, "out"))
    back = ray.data.read_parquet(os.path.join(folder, "out"))
    rows = sorted(back.take_all(), key=lambda row: row["id"])
    print(
        json.dumps(
            {
                "rows": len(rows),
                "ids": rows[0]["id"] == 0
                and rows[-1]["id"] == 1999
                and len({row["id"] for row in rows}) == 2000,
                "labels": np.bincount([row["label"] for row in rows]).tolist(),
                "sure": sum(row["sure"] for row in rows),
                "other_processes": os.getpid() not in {row["worker"] for row in rows},
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1])
