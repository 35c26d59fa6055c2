"""A write job that restarts: it fails in its middle, and its second run writes only what is missing."""

import json
import os
import sys

import pandas as pd
import ray
from ray.data.checkpoint import CheckpointConfig


def job(folder):
    """Reads, computes, writes. The machine of the first run is lost at one of the rows."""
    lost = os.path.join(folder, "lost")

    def work(batch):
        if 612 in batch["id"] and not os.path.exists(lost):
            open(lost, "w").close()
            raise RuntimeError("the machine is lost")
        with open(os.path.join(folder, "calls"), "a") as out:
            out.writelines(f"{i}\n" for i in batch["id"])
        batch["square"] = batch["id"] ** 2
        return batch

    ds = ray.data.read_parquet(os.path.join(folder, "in"), override_num_blocks=10)
    ds.map_batches(work, batch_size=None).write_parquet(os.path.join(folder, "out"))


def main(folder):
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    os.makedirs(os.path.join(folder, "in"))
    for k in range(10):
        ids = range(k * 100, k * 100 + 100)
        pd.DataFrame({"id": ids, "text": [f"t{i}" for i in ids]}).to_parquet(
            os.path.join(folder, "in", f"{k}.parquet")
        )
    context = ray.data.DataContext.get_current()
    context.execution_options.preserve_order = True
    context.checkpoint_config = CheckpointConfig(
        id_column="id",
        checkpoint_path=os.path.join(folder, "checkpoint"),
        delete_checkpoint_on_success=False,
    )
    try:
        job(folder)
        failed = None
    except Exception as e:
        failed = "the machine is lost" in str(e)
    job(folder)
    context.checkpoint_config = None
    rows = ray.data.read_parquet(os.path.join(folder, "out")).sort("id").take_all()
    with open(os.path.join(folder, "calls")) as f:
        calls = [int(line) for line in f]
    print(
        json.dumps(
            {
                "failed": failed,
                "rows": len(rows),
                "exact": [row["id"] for row in rows] == list(range(1000)),
                "squares": sum(row["square"] for row in rows),
                "every_row_was_computed": sorted(set(calls)) == list(range(1000)),
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1])
