"""Fixed settings of a run against those that it finds by itself.

    python bench/autotune.py [--rounds 7] [--only NAME ...] [--cpu] [--threads 1 2 4 8]
    python bench/autotune.py --prefetch 1 2 4 8 16
    python bench/autotune.py --window 1 2 4 8
    python bench/autotune.py --group 5000 25000 100000

prints a table in Markdown for docs/waiting.md: seconds of a pass (with --cpu: of CPUs, this process and its
workers together) for each fixed number, and of a run that moves it. All take turns in one process, and each
round begins with another one; figures are medians of the rounds, and the last column of ratios to the best
within a round. The first pass of the moving run, in which it learns, stands in a column of its own. The
numbers are of threads; of batches ahead; of pieces of work under way for each thread, beside the default; of
rows of a Parquet row group, beside that of the pipeline.
"""

import argparse
import os
import statistics
import sys
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "python"))

from test_verdicts import parquet_files  # noqa: E402

import headrace.data as hd  # noqa: E402

GROUP = None  # rows of a row group, instead of the pipeline's


def files(folder, n, rows, group, columns=1):
    return parquet_files(folder, n, rows, GROUP or group, columns, "float32")


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


def stalls(folder):
    """A source that rests, and now and then stalls, before steps that take 20 ms and no CPU."""

    def work(batch):
        if batch["id"][0] // 8 % 40 == 39:
            time.sleep(0.6)
        return batch

    return hd.range(8 * 160).map_batches(work, batch_size=8, concurrency=1), {"batch_size": 8}, -0.02, {}


def bursts(folder):
    """Eight batches at once, and then a pause, before steps that take as long together."""

    def work(batch):
        time.sleep(0.5)
        return batch

    ds = hd.range(8 * 96).map_batches(work, batch_size=64, concurrency=1)
    return ds, {"batch_size": 8}, -0.05, {}


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
    stalls,
    bursts,
)
PIPELINES = {f.__name__: f for f in _ALL}


def compute(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        np.sort(np.random.default_rng(0).random(2000))


def seconds_of(batches, step):
    """Of the clock, and of CPUs."""
    begin, began = time.perf_counter(), cpu_seconds()
    for _ in batches:
        if step > 0:
            compute(step)
        elif step < 0:
            time.sleep(-step)
    return time.perf_counter() - begin, cpu_seconds() - began


def cpu_seconds():
    """Of this process and its children, of which some are still alive."""
    me = psutil.Process()
    found = 0
    for process in (me, *me.children(recursive=True)):
        with suppress(psutil.Error):
            found += sum(process.cpu_times()[:2])
    return found


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


def knob(args):
    """(what the numbers are of, the numbers)"""
    for of in ("prefetch", "window", "group"):
        if getattr(args, of):
            return of, getattr(args, of)
    return "threads", args.threads


@contextmanager
def fixed(of, way, arguments):
    """The arguments of a pass in which the number is `way`; None: the default."""
    context = hd.DataContext.get_current()
    if way is None or of == "group":
        yield arguments
    elif of == "prefetch":
        context.most_prefetch_batches = way
        yield arguments | {"prefetch_batches": way}
    elif of == "threads":
        context.num_threads = way
        yield arguments
    else:
        with settings({"HR_WINDOW": str(way)}):
            yield arguments
    context.num_threads, context.most_prefetch_batches = None, 64


def pipelines(make, of, ways, folder):
    """For each way its pipeline: one for all, or one with files of its own."""
    global GROUP
    found = {}
    for way in ways if of == "group" else [None]:
        place = folder / str(way)
        place.mkdir()
        GROUP = way
        found[way] = make(place)
    return {way: found[way if of == "group" else None] for way in ways}


def turn_of(ways, i):
    """The order of round i: each begins with another one, and every second one goes backwards."""
    turned = ways[i // 2 % len(ways) :] + ways[: i // 2 % len(ways)]
    return turned if i % 2 else turned[::-1]


def to_the_best(found):
    """The seconds of the best fixed setting to those of the default: the median of the rounds' ratios."""
    best = min((way for way in found if way is not None), key=lambda w: statistics.median(found[w][1:]))
    return statistics.median(a / b for a, b in zip(found[best][1:], found[None][1:], strict=True))


def measure(make, args):
    """The seconds of each way, {None: of the default}, and the threads and batches ahead of its last pass."""
    of, numbers = knob(args)
    ways = [*numbers, None]
    found = {way: [] for way in ways}
    with tempfile.TemporaryDirectory() as folder:
        made = pipelines(make, of, ways, Path(folder))
        for i in range(args.rounds + 1):
            for way in turn_of(ways, i):
                ds, arguments, step, given = made[way]
                with settings(given), fixed(of, way, arguments) as these:
                    batches = ds.iter_batches(**these)
                    found[way].append(seconds_of(batches, step)[args.cpu])
                if way is None:
                    tuned = batches.stats("dict")["tuned"]
    return found, tuned


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2, 4, 8])
    parser.add_argument("--prefetch", type=int, nargs="*")
    parser.add_argument("--window", type=int, nargs="*")
    parser.add_argument("--group", type=int, nargs="*")
    parser.add_argument("--only", nargs="*", choices=PIPELINES, default=list(PIPELINES))
    args = parser.parse_args()
    of, numbers = knob(args)
    head = [
        "pipeline",
        *(f"{of} {n}" for n in numbers),
        "learning",
        "tuned",
        "threads",
        "ahead",
        "of the best",
    ]
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for name in args.only:
        found, tuned = measure(PIPELINES[name], args)
        given = [statistics.median(seconds[1:]) for way, seconds in found.items() if way is not None]
        own = statistics.median(found[None][1:])
        rows = [*(f"{s:.3f}" for s in given), f"{found[None][0]:.3f}", f"{own:.3f}"]
        rows += [str(tuned["threads"]), str(tuned["prefetch"])]
        print(f"| {name} | " + " | ".join(rows) + f" | {to_the_best(found):.2f} |", flush=True)


if __name__ == "__main__":
    main()
