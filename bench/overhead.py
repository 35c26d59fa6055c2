"""What it costs to watch a run: a trace, and a dashboard with an open page.

    python bench/overhead.py [--rounds 7] [--seconds 2] [--only NAME ...] [--rows 1000 4096]

prints a table in Markdown for docs/timeline.md and docs/live.md. The pipelines are those of
bench/autotune.py, with batches of few rows as the worst case. A measurement is as many passes as take
`--seconds`. The ways take turns, a measurement each in a round, in one process; figures are medians of the
ratios to the plain measurement of the same round, by the clock and by the CPU time of the process. The trace
is written within the measurement. The page is a process that asks as the browser's does, once a second;
drawing is the browser's own work.
"""

import argparse
import math
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

from autotune import PIPELINES, settings

import headrace.data as hd
from headrace import observe

PAGE = """
import json, sys, time, urllib.request
had = {"run": 0, "of": 0, "sample": 0, "span": 0}
while True:
    words = "&".join(f"{name}={value}" for name, value in had.items())
    with urllib.request.urlopen(f"{sys.argv[1]}&{words}") as answer:
        run = json.load(answer)["run"] or {}
    had |= {"of": run.get("number", 0), "sample": run.get("sample", 0), "span": run.get("span", 0)}
    time.sleep(1)
"""


@contextmanager
def plain():
    yield


@contextmanager
def trace():
    context = hd.DataContext.get_current()
    with tempfile.TemporaryDirectory() as folder:
        context.trace_path = str(Path(folder) / "trace.json.gz")
        try:
            yield
        finally:
            context.trace_path = None


@contextmanager
def dashboard():
    with observe.dashboard() as board:
        page = subprocess.Popen([sys.executable, "-c", PAGE, board.url.replace("/?", "/news?")])
        try:
            time.sleep(1)  # its interpreter has begun
            yield
        finally:
            page.terminate()
            page.wait()


WAYS = (plain, trace, dashboard)


def measured(way, batches, passes):
    """(seconds by the clock, of this process on CPUs)"""
    with way():
        begin, cpu = time.perf_counter(), time.process_time()
        for _ in range(passes):
            for _ in batches():
                pass
        return time.perf_counter() - begin, time.process_time() - cpu


def compare(make, rows, args):
    with tempfile.TemporaryDirectory() as folder:
        ds, arguments, _, given = make(Path(folder))

        def batches():
            return ds.iter_batches(**arguments | {"batch_size": rows})

        with settings(given):
            measured(plain, batches, 1)
            passes = math.ceil(args.seconds / measured(plain, batches, 1)[0])
            found = {way: [] for way in WAYS}
            for i in range(args.rounds):
                for way in WAYS if i % 2 else reversed(WAYS):
                    found[way].append(measured(way, batches, passes))
    clock = {way: [seconds / passes for seconds, _ in taken] for way, taken in found.items()}
    return clock, {way: [cpu / passes for _, cpu in taken] for way, taken in found.items()}


def ratio(found, way):
    return statistics.median(a / b for a, b in zip(found[way], found[plain], strict=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rows", type=int, nargs="*", default=[1000, 4096])
    parser.add_argument("--only", nargs="*", choices=PIPELINES, default=["scan", "numpy_function", "shuffle"])
    args = parser.parse_args()
    head = ["pipeline", "rows of a batch", "a pass", "with a trace", "its CPU", "with a page", "its CPU"]
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for name in args.only:
        for rows in args.rows:
            clock, cpu = compare(PIPELINES[name], rows, args)
            cells = [f"{statistics.median(clock[plain]):.3f} s"]
            for way in WAYS[1:]:
                cells += [f"{ratio(clock, way):.3f}", f"{ratio(cpu, way):.3f}"]
            print(f"| {name} | {rows} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
