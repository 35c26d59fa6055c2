"""Fixed numbers of threads against the one that a run finds by itself.

    python bench/autotune.py [--rounds 7] [--only NAME ...] [--threads 1 2 4 8]
    python bench/autotune.py --prefetch 1 2 4 8 16 [--rounds 7] [--only NAME ...]

prints a table in Markdown for docs/waiting.md: seconds of a pass for each fixed number, and of a run that
moves it. All take turns in one process, and each round begins with another one; figures are medians of the
rounds. The first pass of the moving run, in which it learns, stands in a column of its own. With --prefetch,
each fixed number of batches ready ahead, beside the default.
"""

import argparse
import os
import statistics
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "python"))

from test_verdicts import parquet_files  # noqa: E402

import headrace.data as hd  # noqa: E402


def files(folder, n, rows, group, columns=1):
    return parquet_files(folder, n, rows, group, columns, "float32")


class Ranks:
    """A dataset that ranks share, each in a thread; the caller's is the first."""

    def __init__(self, ds, n):
        self.ds, self.n = ds, n

    def iter_batches(self, **arguments):
        return RanksPass(self.ds.streaming_split(self.n, equal=True), arguments)


class RanksPass:
    def __init__(self, shares, arguments):
        self.passes = [share.iter_batches(**arguments) for share in shares]

    def __iter__(self):
        others = [threading.Thread(target=seconds_of, args=(one, 0)) for one in self.passes[1:]]
        for thread in others:
            thread.start()
        yield from self.passes[0]
        for thread in others:
            thread.join()

    def stats(self, form):
        return self.passes[0].stats(form)["run"]


# Each takes a folder and gives (dataset, arguments of iter_batches, seconds of a step, settings: of the
# DataContext, or in capitals of the environment).


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


def tight_shuffle(folder):
    ds, arguments, step, _ = shuffle(folder)
    return ds, arguments, step, {"memory_limit_bytes": 24 << 20}


def two_ranks(folder):
    ds = hd.read_parquet(files(folder, 8, 4_000_000, 100_000, 6))
    return Ranks(ds, 2), {"batch_size": 4096}, 0, {}


def trainer(folder):
    """Its steps compute on one CPU, and it finds its batches ready."""
    return hd.read_parquet(files(folder, 4, 600_000, 20_000, 6)), {"batch_size": 4096}, 0.004, {}


_ALL = (
    scan,
    slow_disk,
    images,
    numpy_function,
    python_function,
    shuffle,
    tight_shuffle,
    two_ranks,
    trainer,
)
PIPELINES = {f.__name__: f for f in _ALL}


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


@contextmanager
def settings(given):
    context = hd.DataContext.get_current()
    for name, value in given.items():
        if name.isupper():
            os.environ[name] = value
        else:
            setattr(context, name, value)
    try:
        yield
    finally:
        for name in given:
            if name.isupper():
                del os.environ[name]
            else:
                setattr(context, name, None)


def measure(make, args):
    """The seconds of each way, {None: of the default}, and the threads of the last pass."""
    context = hd.DataContext.get_current()
    with tempfile.TemporaryDirectory() as folder:
        ds, arguments, step, given = make(Path(folder))
        ways = [*(args.prefetch or args.threads), None]
        found = {way: [] for way in ways}
        with settings(given):
            for i in range(args.rounds + 1):
                for way in ways[i % len(ways) :] + ways[: i % len(ways)]:  # none always follows the same one
                    if args.prefetch:
                        arguments.pop("prefetch_batches", None)
                        arguments |= {} if way is None else {"prefetch_batches": way}
                    else:
                        context.num_threads = way
                    batches = ds.iter_batches(**arguments)
                    found[way].append(seconds_of(batches, step))
            tuned = batches.stats("dict")["tuned"]["threads"]
    return found, tuned


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2, 4, 8])
    parser.add_argument("--prefetch", type=int, nargs="*")
    parser.add_argument("--only", nargs="*", choices=PIPELINES, default=list(PIPELINES))
    args = parser.parse_args()
    of = "ahead" if args.prefetch else "threads"
    head = [
        "pipeline",
        *(f"{n} {of}" for n in args.prefetch or args.threads),
        "learning",
        "default" if args.prefetch else "tuned",
        "threads",
        "of the best",
    ]
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for name in args.only:
        found, tuned = measure(PIPELINES[name], args)
        fixed = [statistics.median(seconds[1:]) for way, seconds in found.items() if way is not None]
        own = statistics.median(found[None][1:])
        rows = [*(f"{s:.3f}" for s in fixed), f"{found[None][0]:.3f}", f"{own:.3f}", str(tuned)]
        print(f"| {name} | " + " | ".join(rows) + f" | {min(fixed) / own:.2f} |", flush=True)


if __name__ == "__main__":
    main()
