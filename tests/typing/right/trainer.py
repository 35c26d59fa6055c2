"""A program as users write it: checkers find no mistake, and it runs."""

from pathlib import Path
from typing import Any

import headrace.data as hd
from headrace import train
from headrace.train.torch import TorchTrainer


def loop(config: dict[str, Any]) -> None:
    shard = train.get_dataset_shard("train")
    rows = sum(len(batch["id"]) for batch in shard.iter_torch_batches(batch_size=config["size"]))
    train.report({"rows": rows, "rank": train.get_context().get_world_rank()})


def main(folder: Path) -> None:
    result = TorchTrainer(
        loop,
        train_loop_config={"size": 4},
        datasets={"train": hd.range(8)},
        scaling_config=train.ScalingConfig(num_workers=0),
        run_config=train.RunConfig(
            name="run", storage_path=folder, failure_config=train.FailureConfig(max_failures=1)
        ),
    ).fit()
    assert result.metrics is not None and result.metrics["rows"] == 8
