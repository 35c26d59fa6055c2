"""Fixed numbers of threads against the one that a run finds by itself.

    python bench/autotune.py [--rounds 7] [--only NAME ...] [--threads 1 2 4 8]

prints a table in Markdown for docs/waiting.md: seconds of a pass for each fixed number, and of a run that
moves it. All take turns, a round each, in one process; figures are medians of the rounds. The first pass of
the moving run, in which it learns, stands in a column of its own.
"""

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import headrace.data as hd


def files(folder, n, rows, group, columns=1):
    numbers = np.random.default_rng(0)
    for i in range(n):
        table = pa.table({f"x{k}": numbers.random(rows).astype("float32") for k in range(columns)})
        pq.write_table(table, folder / f"{i:02}.parquet", row_group_size=group)
    return str(folder)


# Each takes a folder and gives (dataset, arguments of iter_batches, seconds of a step, environment).


def scan(folder):
    return hd.read_parquet(files(folder, 8, 4_000_000, 100_000, 6)), {"batch_size": 4096}, 0, {}


def slow_disk(folder):
    return (
        hd.read_parquet(files(folder, 8, 40_000, 2_000)),
        {"batch_size": 1000},
        0,
        {"HR_STALL": "disk:20ms"},
    )


def images(folder):
    from PIL import Image

    numbers = np.random.default_rng(0)
    for i in range(2000):
        noise = numbers.integers(0, 255, (32, 32, 3), np.uint8)
        Image.fromarray(noise).resize((400, 300)).save(folder / f"{i:04}.jpg", quality=90)
    ds = hd.read_images(str(folder), size=(224, 224), mode="RGB")
    return ds, {"batch_size": 32}, 0, {}


def numpy_function(folder):
    path = files(folder, 16, 2_000_000, 100_000, 3)

    def work(batch):
        return {"y": np.sqrt(batch["x0"]) + np.sin(batch["x1"]) * batch["x2"]}

    return hd.read_parquet(path).map_batches(work, batch_size=4096), {"batch_size": 4096}, 0, {}


def python_function(folder):
    def work(row):
        return {"id": row["id"], "text": str(row["id"]) * 3}

    return hd.range(1_500_000).map(work), {"batch_size": 1024}, 0, {}


def shuffle(folder):
    path = files(folder, 16, 2_000_000, 50_000, 3)
    return hd.read_parquet(path), {"batch_size": 4096, "local_shuffle_buffer_size": 200_000}, 0, {}


def trainer(folder):
    """Its steps compute on one CPU, and it finds its batches ready."""
    return hd.read_parquet(files(folder, 4, 600_000, 20_000, 6)), {"batch_size": 4096}, 0.004, {}


PIPELINES = {
    f.__name__: f for f in (scan, slow_disk, images, numpy_function, python_function, shuffle, trainer)
}


def compute(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        np.sort(np.random.default_rng(0).random(2000))


def seconds_of(batches, step):
    begin = time.perf_counter()
    for _ in batches:
        if step:
            compute(step)
    return time.perf_counter() - begin


def measure(make, args):
    context = hd.DataContext.get_current()
    with tempfile.TemporaryDirectory() as folder:
        ds, arguments, step, environment = make(Path(folder))
        os.environ |= environment
        ways = [*args.threads, None]
        found = {way: [] for way in ways}
        for _ in range(args.rounds + 1):
            for way in ways:
                context.num_threads = way
                batches = ds.iter_batches(**arguments)
                found[way].append(seconds_of(batches, step))
        tuned = batches.stats("dict")["tuned"]["threads"]
        for name in environment:
            del os.environ[name]
    return found, tuned


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2, 4, 8])
    parser.add_argument("--only", nargs="*", choices=PIPELINES, default=list(PIPELINES))
    args = parser.parse_args()
    head = [
        "pipeline",
        *(f"{n} threads" for n in args.threads),
        "learning",
        "tuned",
        "threads",
        "of the best",
    ]
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for name in args.only:
        found, tuned = measure(PIPELINES[name], args)
        fixed = [statistics.median(found[n][1:]) for n in args.threads]
        own = statistics.median(found[None][1:])
        rows = [*(f"{s:.3f}" for s in fixed), f"{found[None][0]:.3f}", f"{own:.3f}", str(tuned)]
        print(f"| {name} | " + " | ".join(rows) + f" | {min(fixed) / own:.2f} |", flush=True)


if __name__ == "__main__":
    main()
