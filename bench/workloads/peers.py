"""How the peers are started and read from, at what was found to be their best here."""

import atexit
import logging
import os
import shutil
import tempfile
from pathlib import Path


def files(data):
    return sorted(str(p) for p in Path(data).glob("*.parquet"))


def start_ray(**settings):
    """Ray on this machine alone: no usage report, no dashboard, a temporary folder of its own, quiet.

    Its worker processes are started here as well, so that a timed run finds them; not where the first batch
    is timed.
    """
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
    import ray
    import ray.data

    folder = tempfile.mkdtemp(prefix="hrb", dir="/tmp")  # short: names of sockets lie below it
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    ray.init(
        include_dashboard=False,
        _temp_dir=folder,
        logging_level=logging.ERROR,
        log_to_driver=False,
        **settings,
    )
    atexit.register(ray.shutdown)
    ray.data.DataContext.get_current().enable_progress_bars = False
    for name in ("ray.data", "ray.train"):
        logging.getLogger(name).setLevel(logging.ERROR)
    if os.environ.get("BENCH_WARM") == "1":
        ray.data.range(1000).map_batches(lambda batch: batch).materialize()
    return ray


def polars_columns(frame):
    """A Polars frame as a dict of NumPy arrays."""
    return {s.name: s.to_numpy() for s in frame.iter_columns()}


def arrow_columns(table):
    """A pyarrow table or record batch as a dict of NumPy arrays."""
    return {
        name: column.to_numpy(zero_copy_only=False)
        if not hasattr(column, "combine_chunks")
        else column.combine_chunks().to_numpy(zero_copy_only=False)
        for name, column in zip(table.schema.names, table.columns, strict=True)
    }
