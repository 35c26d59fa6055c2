"""Ours and each peer on the same files, side by side: `make bench`, `make bench ARGS="--only tokens"`.

For each workload every participant first reads everything once with all sums, which have to agree. Then they
take turns (A B C, A B C, ...), each time in a fresh process; the table shows medians. A participant's memory
is sampled in a run of its own, as sampling costs time. The page cache is warm. What exactly is timed:
bench/one.py.
"""

import argparse
import importlib
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import machine
import make_data
import pss

HERE = Path(__file__).resolve().parent
WORKLOADS = [
    "numeric",
    "all_columns",
    "local_shuffle",
    "random_shuffle",
    "sort",
    "sort_on_disk",
    "group",
    "group_text",
    "group_users",
    "group_frame",
    "join",
    "join_flipped",
    "join_text",
    "join_flipped_text",
    "join_two_keys",
    "join_semi",
    "join_full",
    "join_many",
    "join_wide",
    "join_small",
    "tokens",
    "jsonl",
    "csv",
    "csv_all",
    "function",
    "function_rows",
    "write",
    "images",
    "images_crop",
    "webdataset",
    "webdataset_bytes",
    "tfrecord",
    "notebook",
]
OURS = "headrace"
WHO = {
    OURS: "headrace",
    "headrace_threads": "headrace, threads",
    "polars": "Polars",
    "duckdb": "DuckDB",
    "daft": "Daft",
    "pandas": "pandas",
    "pyarrow": "pyarrow.dataset",
    "torch": "torch DataLoader",
    "webdataset": "webdataset",
    "tensorflow": "tf.data",
    "tfrecord": "tfrecord",
    "torch_1": "torch DataLoader, 1 worker",
    "torch_2": "torch DataLoader, 2 workers",
    "torch_3": "torch DataLoader, 3 workers",
    "torch_4": "torch DataLoader, 4 workers",
    "ray": "Ray Data",
    "ray_blocks": "Ray Data, own batches",
}
PACKAGES = "numpy polars duckdb pyarrow daft pandas pillow torch webdataset tensorflow-cpu ray".split()
TIMEOUT_S = 600
FIRST_RUNS = 3  # processes that stop at their first batch


def is_ours(who):
    return who.startswith(OURS)


class Failed(Exception):
    pass


def stop(process):
    """What a process started goes with it."""
    for pid in reversed(pss.tree(process.pid)):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def measure(python, workload, who, data, mode, watch_memory=False):
    """The result of one process, with `peak_bytes` if watched."""
    env = {**os.environ, "PYTHONWARNINGS": "ignore", "BENCH_WARM": str(int(mode != "first"))}
    env["BENCH_BORN_NS"] = str(time.monotonic_ns())
    process = subprocess.Popen(
        [python, HERE / "one.py", workload.__name__.split(".")[1], who, str(data), mode],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=env,
        cwd=HERE,
    )
    try:
        peak = pss.watch(process, TIMEOUT_S) if watch_memory else 0
        output = process.communicate(timeout=TIMEOUT_S)[0]
    except (TimeoutError, subprocess.TimeoutExpired):
        raise Failed(f"no end in {TIMEOUT_S} s") from None
    finally:
        if process.returncode is None:
            stop(process)
            process.communicate()
    lines = [line for line in output.splitlines() if line.strip()]
    results = [line for line in lines if line.startswith("RESULT ")]
    # Ray may complain when it is left early, after the result; ours must not.
    if not results or (process.returncode and is_ours(who)):
        raise Failed(lines[-1] if lines else f"ended with {process.returncode}")
    return {**json.loads(results[-1][7:]), "peak_bytes": peak}


def say(text):
    print(text, file=sys.stderr, flush=True)


def run_workload(workload, people, pythons, data, runs):
    """{who: its figures, or the Failed that ended it}."""
    for path in data.iterdir():
        path.read_bytes()  # into the page cache
    results = {}

    def attempt(who, mode, **more):
        if isinstance(results.get(who), Failed):
            return None
        try:
            return measure(pythons[who], workload, who, data, mode, **more)
        except Failed as why:
            say(f"  {WHO[who]}: {why}")
            results[who] = why
            return None

    for who in people:
        checked = attempt(who, "check")
        if checked:
            results[who] = {
                "rows": checked["rows"],
                "sums": checked["sums"],
                "seconds": [],
                "first": [],
                "peak": 0,
            }
    for turn in range(runs):
        say(f"  turn {turn + 1} of {runs}")
        for who in people:
            if (timed := attempt(who, "time")) and timed["rows"] == results[who]["rows"]:
                results[who]["seconds"].append(timed["seconds"])
                if workload.WHOLE:
                    results[who]["first"].append(timed["first_batch"])
            elif timed:
                results[who] = Failed(f"{timed['rows']} rows, {results[who]['rows']} when checked")
    for _ in range(0 if workload.WHOLE else min(runs, FIRST_RUNS)):
        for who in people:
            if first := attempt(who, "first"):
                results[who]["first"].append(first["first_batch"])
    for who in people:
        if watched := attempt(who, "time", watch_memory=True):
            results[who]["peak"] = watched["peak_bytes"]
    return results


def agree(a, b, close):
    """Rows, and sums: the same, or nearly (a share) where a workload says so."""
    if a[0] != b[0] or a[1].keys() != b[1].keys():
        return False
    return all(abs(a[1][k] - b[1][k]) <= close * abs(b[1][k]) for k in a[1])


def disagreements(results, close=0):
    """One line for each participant whose rows or sums are not those of most."""
    outcomes = {who: (r["rows"], r["sums"]) for who, r in results.items() if not isinstance(r, Failed)}
    most = max(outcomes.values(), key=list(outcomes.values()).count, default=None)
    return [
        f"{WHO[who]}: {found}, others {most}"
        for who, found in outcomes.items()
        if not agree(found, most, close)
    ]


def table_rows(workload, results):
    ours = results.get(OURS)
    base = statistics.median(ours["seconds"]) if isinstance(ours, dict) else None
    for who, r in results.items():
        if isinstance(r, Failed):
            yield [workload.TITLE, WHO[who], "failed", "", "", "", ""]
            continue
        seconds = statistics.median(r["seconds"])
        yield [
            workload.TITLE,
            WHO[who],
            f"{seconds:.3f}",
            f"{seconds / base:.2f}" if base else "",
            f"{r['rows'] / seconds:,.0f}",
            f"{statistics.median(r['first']):.2f}",
            f"{r['peak'] / 1e6:,.0f}",
        ]


def print_table(head, rows):
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    last = None
    for row in [head, ["-" * w for w in widths], *rows]:
        cells = ["" if i == 0 and cell == last else cell for i, cell in enumerate(row)]
        last = row[0]
        print(
            " | ".join(
                f"{c:<{w}}" if i < 2 else f"{c:>{w}}"
                for i, (c, w) in enumerate(zip(cells, widths, strict=True))
            )
        )


def versions(python, names):
    """'polars 2.1.0, ...' of the packages that are there."""
    code = (
        "import importlib.metadata as m, sys\n"
        "for n in sys.argv[1:]:\n"
        "    try: print(n, m.version(n))\n"
        "    except m.PackageNotFoundError: pass"
    )
    done = subprocess.run([python, "-c", code, *names], capture_output=True, text=True, check=True)
    return ", ".join(done.stdout.splitlines())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--peers",
        type=os.path.abspath,  # not resolved: a venv's python is a link
        default=sys.executable,
        help="the interpreter that has the peers",
    )
    parser.add_argument(
        "--peer", action="append", choices=[p for p in WHO if not is_ours(p)], help="only these beside ours"
    )
    parser.add_argument("--only", action="append", choices=WORKLOADS, help="only these workloads")
    parser.add_argument("--runs", type=int, default=5, help="timed processes of each (%(default)s)")
    parser.add_argument(
        "--rows", type=int, default=make_data.SIZES["table"], help="of the table; the rest in proportion"
    )
    parser.add_argument(
        "--data", type=Path, default=HERE / "data", help="where the files are made (%(default)s)"
    )
    parser.add_argument("--json", type=Path, help="write every figure there")
    parser.add_argument("--no-ours", action="store_true", help="the peers alone")
    args = parser.parse_args()

    share = args.rows / make_data.SIZES["table"]
    sizes = {k: max(64 if k == "photos" else 1024, round(n * share)) for k, n in make_data.SIZES.items()}
    say(f"files in {args.data}")
    workloads = {name: importlib.import_module(f"workloads.{name}") for name in args.only or WORKLOADS}
    needed = {"table", "tokens", "photos", *(w.DATA for w in workloads.values())}
    data = {kind: make_data.ensure(args.data, kind, n) for kind, n in sizes.items() if kind in needed}
    pythons = {who: sys.executable if is_ours(who) else args.peers for who in WHO}
    limits = machine.limits(data["table"], data["tokens"], data["photos"])
    print("\n".join(limits))
    peers = versions(args.peers, PACKAGES)
    print(f"peers: {peers}")
    print(
        f"medians of {args.runs} processes, taken in turn; warm page cache; batches of 1,024 rows as NumPy, "
        "of 64 images as tensors\n",
        flush=True,
    )

    rows, wrong, everything = [], [], {}
    try:
        for name, workload in workloads.items():
            people = [
                w for w in WHO if callable(getattr(workload, w, None)) and not (is_ours(w) and args.no_ours)
            ]
            people = [w for w in people if is_ours(w) or not args.peer or w in args.peer]
            say(f"{workload.TITLE}: {', '.join(WHO[w] for w in people)}")
            results = run_workload(workload, people, pythons, data[workload.DATA], args.runs)
            wrong += [
                f"{workload.TITLE}: {line}" for line in disagreements(results, getattr(workload, "CLOSE", 0))
            ]
            wrong += [f"{workload.TITLE}: {WHO[w]}: {r}" for w, r in results.items() if isinstance(r, Failed)]
            rows += table_rows(workload, results)
            figures = {WHO[w]: str(r) if isinstance(r, Failed) else r for w, r in results.items()}
            everything[name] = {"title": workload.TITLE, "figures": figures}
    except KeyboardInterrupt:
        wrong.append("interrupted")
    print_table(["workload", "who", "seconds", "x ours", "rows/s", "first batch s", "peak MB"], rows)
    print("\n".join(["", *wrong] if wrong else ["", "rows and sums of all columns agree"]))
    if args.json:
        measured = {"limits": limits, "peers": peers, "runs": args.runs, "workloads": everything}
        args.json.write_text(json.dumps(measured, indent=1) + "\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
