"""A torch Dataset of chunked files: the loader untuned, tuned by hand, and Headrace as it is.

    python bench/tuned.py [--rounds 7] [--train-step-time 0.1] [--workers 1 2 4]

prints a table in Markdown for docs/tune.md. The Dataset is that of examples/chunked_dataset.py. The
configurations take turns, each time in a process of its own; the figures are medians of the rounds, and the
last column is the median of the ratios to the best torch configuration of the same round. CPU for a row is
what a loader costs, also when other programs use the cores.
"""

import argparse
import math
import statistics
import sys
import tempfile
from pathlib import Path

from machine import cpu_name, n_cpus

from headrace.tune import Configuration
from headrace.tune.advice import milliseconds, percent
from headrace.tune.configurations import HEADRACE, TORCH
from headrace.tune.tuning import measure

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "chunked_dataset.py"
sys.path.insert(0, str(EXAMPLE.parent))

from chunked_dataset import write_chunks  # noqa: E402


def configurations(workers):
    yield Configuration("torch, untuned: num_workers=0", TORCH, {"num_workers": 0})
    for n in workers:
        options = {"num_workers": n, "persistent_workers": True, "prefetch_factor": 4}
        yield Configuration(
            f"torch: num_workers={n}, prefetch_factor=4, persistent_workers=True", TORCH, options
        )
    yield Configuration("Headrace: from_torch, untouched", HEADRACE)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--train-step-time", type=float, default=0.1)
    some = sorted({1, n_cpus() // 2, n_cpus() - 1, n_cpus(), 2 * n_cpus()} - {0})
    parser.add_argument("--workers", type=int, nargs="*", default=some, help="of torch's loader")
    given = parser.parse_args()
    todo = list(configurations(given.workers))
    runs = {one.name: [] for one in todo}
    write_chunks()  # else the first start-up has it
    with tempfile.TemporaryDirectory() as logs:
        for i in range(given.rounds):
            for one in todo if i % 2 else reversed(todo):
                result = measure(
                    f"{EXAMPLE}:make_loader", one, logs, train_step_time=given.train_step_time, batches=None
                )
                if not result.measured:
                    sys.exit(f"{one.name}: {result.error}")
                runs[one.name].append(result)
                print(i, one.name, result.as_dict(), file=sys.stderr, flush=True)
    print(f"{cpu_name()}, {n_cpus()} cores, a step of {given.train_step_time} s\n")
    show(todo, runs)


def middle(results, name):
    values = [v for v in (getattr(r, name) for r in results) if math.isfinite(v)]
    return statistics.median(values) if values else math.nan


def show(todo, runs):
    """The table: medians, and the ratios within the rounds."""
    torch = [one for one in todo if one.library == TORCH]
    best = max(torch, key=lambda one: middle(runs[one.name], "samples_per_s"))
    print("| | samples/s | wait | CPU for a row | first batch | between epochs | epoch | to the best |")
    print("|---|---|---|---|---|---|---|---|")
    for one in todo:
        results = runs[one.name]
        pairs = zip(results, runs[best.name], strict=True)
        ratio = statistics.median(a.samples_per_s / b.samples_per_s for a, b in pairs)
        cells = [f"{middle(results, 'samples_per_s'):.0f}", percent(middle(results, "wait_share"))]
        names = ("cpu_per_row_s", "startup_s", "border_s", "epoch_s")
        cells += [milliseconds(middle(results, name)) for name in names]
        print(f"| {one.name} | {' | '.join(cells)} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
