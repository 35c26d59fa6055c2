"""Tabular data: cleaning, preprocessors, a split, a linear model on one worker, serving."""

import json
import os
import sys
import tempfile

import numpy as np
import pandas as pd
import ray
import ray.train
import torch
from ray.data.preprocessors import Chain, Concatenator, OneHotEncoder, SimpleImputer, StandardScaler
from ray.train import Checkpoint, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

CITIES = ("Bonn", "Oslo", "Rome")


def make(path, n):
    rng = np.random.default_rng(11)
    frame = pd.DataFrame(
        {
            "rooms": rng.integers(1, 6, n).astype(float),
            "area": rng.normal(80, 20, n).round(2),
            "city": rng.choice(CITIES, n),
        }
    )
    frame["price"] = (
        frame["rooms"] * 20 + frame["area"] * 2 + frame["city"].map({c: 30 * i for i, c in enumerate(CITIES)})
    )
    frame.loc[frame.index % 10 == 3, "area"] = np.nan
    frame.to_csv(path, index=False)


def train_loop(config):
    shard = ray.train.get_dataset_shard("train")
    torch.manual_seed(0)
    model = torch.nn.Linear(5, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(config["epochs"]):
        for batch in shard.iter_torch_batches(batch_size=config["rows"], dtypes=torch.float32):
            loss = torch.nn.functional.mse_loss(model(batch["features"])[:, 0], batch["price"] / 100)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with tempfile.TemporaryDirectory() as at:
        torch.save(model.state_dict(), os.path.join(at, "model.pt"))
        ray.train.report({"loss": loss.item()}, checkpoint=Checkpoint.from_directory(at))


def main(folder):
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    ray.data.DataContext.get_current().execution_options.preserve_order = True  # the split is by position
    make(os.path.join(folder, "homes.csv"), 400)
    ds = ray.data.read_csv(os.path.join(folder, "homes.csv")).filter(lambda row: row["rooms"] < 5)
    train_set, test_set = ds.train_test_split(test_size=0.25)
    pipeline = Chain(
        SimpleImputer(["area"], strategy="mean"),
        StandardScaler(["rooms", "area"]),
        OneHotEncoder(["city"]),
        Concatenator(["rooms", "area", "city"], output_column_name="features", flatten=True),
    )
    pipeline.fit(train_set)
    rows = train_set.count()
    result = TorchTrainer(
        train_loop,
        train_loop_config={"epochs": 30, "rows": rows},
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(name="tabular", storage_path=os.path.join(folder, "runs")),
        datasets={"train": pipeline.transform(train_set)},
    ).fit()
    served = pipeline.transform_batch(
        pd.DataFrame({"rooms": [3.0], "area": [None], "city": ["Oslo"], "price": [0.0]})
    )
    scaled = pipeline.transform(test_set).to_pandas()
    print(
        json.dumps(
            {
                "rows": [rows, test_set.count()],
                "mean_area": round(train_set.mean("area"), 6),
                "served": [round(float(v), 6) for v in served["features"].iloc[0]],
                "test_sum": round(float(np.stack(scaled["features"]).sum()), 4),
                "loss": round(result.metrics["loss"], 4),
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1])
