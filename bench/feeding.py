"""What does a batch cost on its way to a trainer?

    python bench/feeding.py [--rows N] [--images N] [--runs N] [--only PART ...]

prints tables in Markdown, of medians:
- hand-off: microseconds for each batch of 32 rows in memory, for a number of columns, in this process and in
  a rank, a process that gets its batches through shared memory. The fitted line is the cost of a batch and of
  a column;
- consumers: rows per second of a Parquet file read by a loop of this process, and by 1, 2 and 4 ranks of one
  engine;
- local shuffle: rows per second in windows of 100,000 rows, beside the order of the file, for some sizes of
  batches;
- border: milliseconds from the last batch of an epoch to the first of the next, in a loop over 6 epochs;
- images: JPEG files per second, for a loop of this process and for two ranks.

The first pass, which starts workers and fills caches, does not count. A rank belongs to a TorchTrainer.
"""

import argparse
import itertools
import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import headrace.data as hd
import headrace.train
import headrace.train.torch

BATCH = 1024
SMALL = 32


# -------------------------------------------------------------------------------------------------- measuring


def each(batches, ahead=50):
    """Microseconds for a batch, after the first ones."""
    passing = iter(batches)
    for _ in itertools.islice(passing, ahead):
        pass
    begin = time.perf_counter_ns()
    n = sum(1 for _ in passing)
    return (time.perf_counter_ns() - begin) / 1e3 / n


def rate(batches, column):
    """(rows, seconds) of a whole pass."""
    begin = time.perf_counter()
    rows = sum(len(batch[column]) for batch in batches)
    return rows, time.perf_counter() - begin


def loop(config):
    """In a rank: passes over its share; writes what way() gave for each to a file."""
    batches = headrace.train.get_dataset_shard("train").iter_batches(**config["arguments"])
    found = [config["way"](batches, *config["details"]) for _ in range(config["runs"] + 1)]
    path = Path(config["out"]) / str(headrace.train.get_context().get_world_rank())
    path.write_text(json.dumps(found[1:]))


def in_ranks(ds, n, arguments, runs, way, *details):
    """What way(batches, *details) gives in each of n ranks of a trainer, for each run."""
    with tempfile.TemporaryDirectory() as folder:
        config = {"arguments": arguments, "runs": runs, "way": way, "details": details, "out": folder}
        headrace.train.torch.TorchTrainer(
            loop,
            train_loop_config=config,
            datasets={"train": ds},
            scaling_config=headrace.train.ScalingConfig(num_workers=n),
            run_config=headrace.train.RunConfig(storage_path=folder),
        ).fit()
        ranks = [json.loads((Path(folder) / str(k)).read_text()) for k in range(n)]
    return list(zip(*ranks, strict=True))


def in_a_loop(ds, arguments, runs, way, *details):
    """What way(batches, *details) gives in a loop of this process, for each run."""
    batches = ds.iter_batches(**arguments)
    return [way(batches, *details) for _ in range(runs + 1)][1:]


def speed(runs):
    """The median of rows per second, for runs of (rows, seconds) of ranks side by side."""
    return statistics.median(sum(rows for rows, _ in ranks) / max(s for _, s in ranks) for ranks in runs)


def alone(runs):
    return [[found] for found in runs]


def table(head, rows):
    print("\n| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)


# ------------------------------------------------------------------------------------------- what is measured


def hand_off(folder, args):
    n = 2_000
    arguments = {"batch_size": SMALL, "batch_format": "numpy"}
    here, there = [], []
    for columns in args.columns:
        values = {f"c{i}": np.arange(n * SMALL, dtype=np.float64) for i in range(columns)}
        ds = hd.from_arrow(pa.table(values))
        here.append(statistics.median(in_a_loop(ds, arguments, args.runs, each)))
        there.append(statistics.median(one for (one,) in in_ranks(ds, 1, arguments, args.runs, each)))
    rows = []
    for name, found in (("in this process", here), ("in a rank", there)):
        slope, base = np.polyfit(args.columns, found, 1)
        rows.append([name, *(f"{us:.1f}" for us in found), f"{base:.1f} + {slope:.2f} a column"])
    table(["hand-off, µs", *(f"{n} columns" for n in args.columns), "fitted"], rows)


def numbers(folder, args):
    path = folder / "numbers.parquet"
    if not path.exists():
        rng = np.random.default_rng(1)
        columns = {f"c{i}": rng.normal(size=args.rows).astype("float32") for i in range(6)}
        pq.write_table(pa.table(columns), path, row_group_size=100_000)
    return hd.read_parquet(path)


def consumers(folder, args):
    ds = numbers(folder, args)
    arguments = {"batch_size": BATCH, "batch_format": "numpy"}
    one = speed(alone(in_a_loop(ds, arguments, args.runs, rate, "c0")))
    ranks = [speed(in_ranks(ds, n, arguments, args.runs, rate, "c0")) for n in (1, 2, 4)]
    rows = [["a loop of this process", f"{one / 1e6:.1f}", "1.00"]]
    rows += [
        [f"ranks: {n}", f"{r / 1e6:.1f}", f"{r / one:.2f}"] for n, r in zip((1, 2, 4), ranks, strict=True)
    ]
    table(["consumers, 6 columns of Parquet", "M rows/s", "of the loop"], rows)


def local_shuffle(folder, args):
    ds = numbers(folder, args)
    rows = []
    for size in args.batches:
        plain = {"batch_size": size, "batch_format": "numpy"}
        mixed = plain | {"local_shuffle_buffer_size": 100_000, "local_shuffle_seed": 1}
        a, b = (speed(alone(in_a_loop(ds, how, args.runs, rate, "c0"))) for how in (plain, mixed))
        rows.append([str(size), f"{a / 1e6:.1f}", f"{b / 1e6:.1f}", f"{b / a:.2f}"])
    table(["6 columns of Parquet, rows of a batch", "file's order, M rows/s", "local shuffle", "of it"], rows)


def double(batch):
    return {"c0": batch["c0"] * 2}


def waits(batches):
    """(waits for a first batch from the second epoch on, waits for other batches), in milliseconds."""
    first, other = [], []
    begin = time.perf_counter_ns()
    for epoch in range(6):
        for k, _ in enumerate(batches):
            ms = (time.perf_counter_ns() - begin) / 1e6
            if k == 0 and epoch:
                first.append(ms)
            elif k:
                other.append(ms)
            time.sleep(0.0005)  # a trainer's step
            begin = time.perf_counter_ns()
    return first, other


def border(folder, args):
    ds = numbers(folder, args).limit(200_000)
    arguments = {"batch_size": BATCH, "batch_format": "numpy"}
    plans = {
        "Parquet": (ds, {}),
        "Parquet, function": (ds.map_batches(double), {}),
        "Parquet, local shuffle": (ds, {"local_shuffle_buffer_size": 20_000}),
        "Parquet, random_shuffle": (ds.random_shuffle(), {}),
    }
    rows = []
    made = {name: lambda p=p, m=m: p.iter_batches(**arguments, **m) for name, (p, m) in plans.items()}
    made |= {
        f"{name}, a share": lambda p=plans[name][0]: p.streaming_split(1)[0].iter_batches(**arguments)
        for name in ("Parquet", "Parquet, random_shuffle")
    }
    for name, batches in made.items():
        found = [waits(batches()) for _ in range(args.runs)]
        early = statistics.median(first[0] for first, _ in found)
        late = statistics.median(statistics.median(first[1:]) for first, _ in found)
        other = statistics.median(statistics.median(others) for _, others in found)
        rows.append([name, f"{early:.2f}", f"{late:.2f}", f"{other:.2f}"])
    table(["border of epochs, ms", "first to second", "later ones", "any other batch"], rows)


def images(folder, args):
    from PIL import Image

    place = folder / "images"
    place.mkdir()
    rng = np.random.default_rng(2)
    small = rng.integers(0, 255, (16, 16, 16, 3), dtype=np.uint8)
    for i in range(args.images):
        Image.fromarray(small[i % 16]).resize((500, 375), Image.BICUBIC).save(
            place / f"{i:05}.jpg", quality=90
        )
    ds = hd.read_images(place, size=(224, 224), mode="RGB")
    arguments = {"batch_size": 32, "batch_format": "numpy"}
    one = speed(alone(in_a_loop(ds, arguments, args.runs, rate, "image")))
    two = speed(in_ranks(ds, 2, arguments, args.runs, rate, "image"))
    rows = [
        ["a loop of this process", f"{one:,.0f}", "1.00"],
        ["two ranks", f"{two:,.0f}", f"{two / one:.2f}"],
    ]
    table(["JPEG, 500 x 375 to 224 x 224", "images/s", "of the loop"], rows)


PARTS = {f.__name__: f for f in (hand_off, consumers, local_shuffle, border, images)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--images", type=int, default=1_000)
    parser.add_argument("--columns", type=int, nargs="*", default=[1, 2, 4, 8, 16], help="of hand-off")
    parser.add_argument("--batches", type=int, nargs="*", default=[32, 128, 1024], help="of local shuffle")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", nargs="*", choices=PARTS, default=list(PARTS))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name in args.only:
            PARTS[name](Path(folder), args)


if __name__ == "__main__":
    main()
