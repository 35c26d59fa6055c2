"""PyTorch Lightning on the workers of a trainer: strategy, environment, callback."""

import json
import os
import sys

import lightning.pytorch as pl
import numpy as np
import ray
import ray.train
import ray.train.lightning
import torch
from ray.train import CheckpointConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer


class Regressor(pl.LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(8)
        self.net = torch.nn.Linear(4, 1)

    def training_step(self, batch, index):
        loss = torch.nn.functional.mse_loss(self.net(batch["x"])[:, 0], batch["y"])
        self.log("loss", loss, sync_dist=True, on_step=False, on_epoch=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def train_loop():
    shard = ray.train.get_dataset_shard("train")
    trainer = pl.Trainer(
        max_epochs=4,
        accelerator="cpu",
        devices="auto",
        strategy=ray.train.lightning.RayDDPStrategy(),
        plugins=[ray.train.lightning.RayLightningEnvironment()],
        callbacks=[ray.train.lightning.RayTrainReportCallback()],
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
        logger=False,
    )
    trainer = ray.train.lightning.prepare_trainer(trainer)
    trainer.fit(Regressor(), train_dataloaders=shard.iter_torch_batches(batch_size=50, dtypes=torch.float32))


def main(folder):
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    rng = np.random.default_rng(9)
    x = rng.normal(size=(100, 4))
    y = x @ np.array([1.0, -2.0, 0.5, 3.0])
    ds = ray.data.from_items([{"x": x[i], "y": y[i]} for i in range(100)])
    result = TorchTrainer(
        train_loop,
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(
            name="lightning",
            storage_path=os.path.join(folder, "runs"),
            checkpoint_config=CheckpointConfig(num_to_keep=2),
        ),
        datasets={"train": ds},
    ).fit()
    with result.checkpoint.as_directory() as at:
        saved = torch.load(os.path.join(at, "checkpoint.ckpt"), weights_only=False)
    print(
        json.dumps(
            {
                "epoch": result.metrics["epoch"],
                "step": result.metrics["step"],
                "loss": round(result.metrics["loss"], 4),
                "weights": [round(v, 4) for v in saved["state_dict"]["net.weight"][0].tolist()],
                "kept": len(result.best_checkpoints),
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1])
