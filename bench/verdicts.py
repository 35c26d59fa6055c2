"""The gain that a verdict predicts, and the one that comes when its cause is removed.

    python bench/verdicts.py [--runs 3] [--only NAME ...]

prints a table in Markdown for docs/waiting.md. Each pipeline of tests/python/test_verdicts.py has one planted
bottleneck; it runs with it and without it in turns. The real gain is the time for its steps with the
bottleneck, divided by the time without. The first WARM steps do not count, as in the prediction. Figures are
medians of the runs.
"""

import argparse
import os
import re
import statistics
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "python"))

from object_server import ObjectServer  # noqa: E402
from test_verdicts import gzip_files, in_two_ranks, parquet_files, refuse_above  # noqa: E402

import headrace.data as hd  # noqa: E402
from headrace.data.expressions import col  # noqa: E402

WARM = 20  # HR_STEPS_WARM
STEP_S = 0.002
RANK_STEPS_S = 0.005
advised = {}  # by the verdict of the run before


@contextmanager
def stalls(what):
    """In a build for tests or not: HR_STALL makes an operator slow."""
    if what:
        os.environ["HR_STALL"] = what
    try:
        yield
    finally:
        os.environ.pop("HR_STALL", None)


@contextmanager
def limited(n_bytes):
    context = hd.DataContext.get_current()
    before, context.memory_limit_bytes = context.memory_limit_bytes, n_bytes
    try:
        yield
    finally:
        context.memory_limit_bytes = before


def read(iterable, step_s=0.0005):
    """A trainer. Returns the statistics, and the seconds of a steady step among them."""
    taken = []
    for _ in iterable:
        taken.append(time.perf_counter())
        if step_s:
            time.sleep(step_s)
    steady = taken[WARM if len(taken) > 3 * WARM else 0 :]
    return iterable.stats("dict") | {"step_s": (steady[-1] - steady[0]) / (len(steady) - 1)}


# Each takes a folder of its own, and whether the bottleneck is there. Returns the statistics.


def function(folder, planted):
    """Its worker sleeps; without the bottleneck it has as many as the verdict advised."""

    def work(batch):
        time.sleep(0.005)
        return batch

    workers = 1 if planted else advised["workers"]
    ds = hd.range(400_000).map_batches(work, batch_size=1000, concurrency=workers)
    stats = read(ds.iter_batches(batch_size=1000), STEP_S)
    found = re.search(r"concurrency=(\d+)", stats["verdict"]["advice"])
    if planted:
        advised["workers"] = int(found[1])
    return stats


def serial(folder, planted):
    path = parquet_files(folder, 8, 20_000, 2000)
    with stalls(planted and "rebatch:10ms"):
        return read(hd.read_parquet(path).iter_batches(batch_size=1000), STEP_S)


def disk(folder, planted):
    path = parquet_files(folder, 16, 20_000, 2000)
    with stalls(planted and "disk:20ms"):
        return read(hd.read_parquet(path).iter_batches(batch_size=1000), 0.0005)


def stored(folder, n, most_a_second, delay_s, **options):
    server = ObjectServer(folder)
    server.delay_s = delay_s
    if most_a_second:
        refuse_above(server, most_a_second)
    try:
        urls = [f"{server.url}/{i:02}.parquet" for i in range(n)]
        return read(hd.read_parquet(urls, storage_options=options).iter_batches(batch_size=1000), 0.005)
    finally:
        server.close()


def latency(folder, planted):
    parquet_files(folder, 60, 2400, 2400)
    return stored(folder, 60, None, 0.1 if planted else 0, max_connections=4)


def throttle(folder, planted):
    parquet_files(folder, 100, 4000, 4000)
    return stored(folder, 100, 20 if planted else None, 0.1, max_retries=50, max_connections=8)


def fragment(folder, planted):
    """The same rows in one large fragment among small ones, or in fragments of one size."""
    sizes = [5000] * 6 + [16_000_000] + [5000] if planted else [501_250] * 32
    path = gzip_files(folder, sizes)
    with limited(1 << 30), stalls("filter_expr:100ms"):
        return read(hd.read_csv(path).filter(expr="a > 0").iter_batches(batch_size=10_000), 0.0005)


def row_groups(folder, planted):
    path = gzip_files(folder, [16_000_000] if planted else [500_000] * 32)
    with limited(1 << 30), stalls("filter_expr:100ms"):
        return read(hd.read_csv(path).filter(expr="a > 0").iter_batches(batch_size=10_000), 0.0005)


def memory(folder, planted):
    path = parquet_files(folder, 8, 800_000, 50_000, columns=3)
    y = col("x0")
    for _ in range(6):
        y = ((y.cos() * col("x2")).abs().sqrt().sin() + col("x1")).exp().ln()
    with limited(6 << 20 if planted else 1 << 30):
        ds = hd.read_parquet(path).with_column("y", y)
        return read(ds.iter_batches(batch_size=20_000), 0.0005)


def gil(folder, planted):
    def burn(batch):
        n = 0
        for i in range(150_000):
            n += i
        return batch

    compute = "threads" if planted else "processes"
    ds = hd.range(600_000).map_batches(burn, batch_size=1000, compute=compute, concurrency=4)
    return read(ds.iter_batches(batch_size=1000))


def collate(folder, planted):
    def make(batch):
        if planted:
            time.sleep(0.01)
        return batch

    return read(hd.range(200_000).iter_torch_batches(batch_size=1000, collate_fn=make), STEP_S)


def rank(folder, planted):
    return in_two_ranks(hd.range(200_000), [RANK_STEPS_S, 0.015 if planted else RANK_STEPS_S])[0]


PIPELINES = {
    "a function in one worker": (function, "function"),
    "a serial operator": (serial, "serial"),
    "a slow disk": (disk, "disk"),
    "latency": (latency, "latency"),
    "a throttled store": (throttle, "throttle"),
    "one huge fragment": (fragment, "fragment"),
    "too large row groups": (row_groups, "row_groups"),
    "tight memory": (memory, "memory"),
    "a function that holds Python's lock": (gil, "gil"),
    "a slow collate_fn": (collate, "collate"),
    "a slow rank": (rank, "rank"),
}


def seconds_a_step(stats):
    """Of the slowest rank, whose steps are alike from the first one on; or of the steady part."""
    if "step_s" in stats:
        return stats["step_s"]
    steps = max(stats["rank_steps"], key=lambda r: r["wait_ns"] + r["step_ns"])
    return (steps["wait_ns"] + steps["step_ns"]) / max(1, steps["taken"] - 1) / 1e9


def measured(make, planted):
    with tempfile.TemporaryDirectory() as folder:
        stats = make(Path(folder), planted)
    return stats["verdict"], seconds_a_step(stats)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=[])
    given = parser.parse_args()
    hd.DataContext.get_current().num_threads = 4
    print("| planted | verdict | predicted gain | real gain | off by |\n|---|---|---|---|---|")
    for name, (make, _kind) in PIPELINES.items():
        if given.only and make.__name__ not in given.only:
            continue
        gains, reals, kinds = [], [], set()
        for _ in range(given.runs):
            found, with_it = measured(make, True)
            other, without = measured(make, False)
            print(
                name, found, f"{with_it * 1e3:.2f} ms, {without * 1e3:.2f} ms", other["kind"], file=sys.stderr
            )
            kinds.add(found["kind"])
            gains.append(found["gain"])
            reals.append(with_it / without)
        gain, real = statistics.median(gains), statistics.median(reals)
        print(
            f"| {name} | {', '.join(sorted(kinds))} | {gain:.2f} | {real:.2f} | {gain / real - 1:+.0%} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
