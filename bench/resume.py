"""How long does a resume take? The first batch of an epoch, and the first one after 90 % of it.

    python bench/resume.py [--rows N] [--runs N] [--only NAME ...]

prints a table in Markdown: for each plan the median of both in milliseconds, their quotient, and what each of
them did until its first batch was there: rows that readers made, rows that functions gave (also ahead).

Everything is in one process and warm: files in the page cache, workers started, hashes of files and tables
made, but those of tables "not hashed", of which each pass has a new dataset, as in a new process. A plan that
sorts or shuffles all rows (the last lines) does that again, but does not call the functions after it again.
"""

import argparse
import gc
import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import headrace.data as hd

BATCH = 256


def work(batch):
    """About a millisecond for 4,096 rows."""
    x = np.asarray(batch["id"], np.float64)
    for _ in range(12):
        x = np.sin(x) + 1
    return {"id": batch["id"], "x": x}


def row_work(row):
    return {"id": row["id"], "x": row["id"] * 2}


def twice(row):
    return [row, row]


class Packer:
    """Keeps rows between batches: sequences of 100."""

    def __init__(self):
        self.rest = np.empty(0, np.int64)

    def __call__(self, batch):
        x = np.concatenate([self.rest, batch["id"]])
        n = len(x) // 100 * 100
        self.rest = x[n:]
        return {"id": x[:n].reshape(-1, 100)}

    def state_dict(self):
        return {"rest": self.rest}

    def load_state_dict(self, state):
        self.rest = state["rest"]


def make_files(folder, n):
    ids = np.arange(n)
    table = pa.table({"id": ids, "text": pa.array([f"row {i}" for i in range(n)])})
    pq.write_table(table, folder / "one.parquet", row_group_size=n)
    pq.write_table(table, folder / "groups.parquet", row_group_size=max(1, n // 16))
    with open(folder / "one.jsonl", "w") as f:
        f.writelines(json.dumps({"id": i, "text": f"row {i}", "x": i / 7}) + "\n" for i in range(n))
    with open(folder / "one.csv", "w") as f:
        f.write("id,text,x\n")
        f.writelines(f"{i},row {i},{i / 7}\n" for i in range(n))
    return table


def documents(n):
    """Lists of 1 to 60 tokens in a column "id", 10 n tokens in all."""
    ends = np.cumsum(np.arange(n // 3) % 60 + 1)
    lists = pa.ListArray.from_arrays(np.append(0, ends).astype(np.int32), np.arange(ends[-1], dtype=np.int32))
    return pa.table({"id": lists})


def plans(folder, table, n):
    """Name -> (function that gives the dataset, arguments of iter_batches)."""
    one = hd.read_parquet(folder / "one.parquet")
    groups = hd.read_parquet(folder / "groups.parquet")
    tokens = documents(n)
    large = pa.table({"id": np.arange(5 * n)})
    found = {
        "Parquet, one row group": one,
        "Parquet, one row group, function": one.map_batches(work),
        "Parquet, one row group, batches of 512": one.map_batches(work, batch_size=512),
        "Parquet, 16 row groups, function": groups.map_batches(work),
        "JSONL, one file": hd.read_json(folder / "one.jsonl"),
        "JSONL, one file, function": hd.read_json(folder / "one.jsonl").map_batches(work),
        "CSV, one file, function": hd.read_csv(folder / "one.csv").map_batches(work),
        "from_arrow, function": hd.from_arrow(table).map_batches(work),
        "materialize, function": one.materialize().map_batches(work),
        "range, function": hd.range(n).map_batches(work),
        "range, batches of 512": hd.range(n).map_batches(work, batch_size=512),
        "zip": one.map_batches(work).zip(hd.range(n).rename_columns(["n"])),
        "zip, function": one.zip(hd.range(n).rename_columns(["n"])).map_batches(work),
        "mix": hd.range(n).map_batches(work).mix(hd.range(n).map_batches(work), weights=[2, 1]),
        "union": hd.range(n // 2).map_batches(work).union(hd.range(n // 2).map_batches(work)),
        "local shuffle": (groups.map_batches(work), {"local_shuffle_buffer_size": 4096}),
        "filter, map": hd.range(n).filter(expr="id % 3 == 0").map(row_work),
        "filter by function": hd.range(n).filter(lambda row: row["id"] % 3 == 0),
        "flat_map": hd.range(n // 4).flat_map(twice),
        "class with state": one.map_batches(Packer, concurrency=1),
        "class with state, batches of 512": one.map_batches(Packer, concurrency=1, batch_size=512),
        "pack": hd.from_arrow(tokens).pack(256),
        "pack, best_fit": hd.from_arrow(tokens).pack(256, "best_fit"),
        "pack, tables not hashed": lambda: hd.from_arrow(tokens).pack(256),
        "zip, tables not hashed": lambda: hd.from_arrow(large).zip(hd.from_arrow(large)),
        "limit": hd.range(n).map_batches(work).limit(n - 10),
        "sort, function": one.sort("id", descending=True).map_batches(work),
        "random_shuffle, function": one.random_shuffle().map_batches(work),
        "groupby, map_groups": hd.range(n // 8)
        .map_batches(lambda b: b | {"k": b["id"] // 10})
        .groupby("k")
        .map_groups(lambda g: {"k": g["k"][:1], "id": g["id"][:1]}),
    }
    pairs = {k: v if isinstance(v, tuple) else (v, {}) for k, v in found.items()}
    return {k: (v if callable(v) else lambda v=v: v, how) for k, (v, how) in pairs.items()}


def counters(stats):
    called = sum(op["rows_out"] for op in stats["operators"] if "(" in op["name"] and is_function(op["name"]))
    return stats["rows_read"], called


def is_function(name):
    return name.split("(")[0] in ("map", "map_batches", "flat_map", "filter", "map_groups")


def first(batches, state):
    """Milliseconds until the first batch, and the counters then."""
    if state is not None:
        batches.load_state_dict(state)
    gc.collect()
    begin = time.perf_counter_ns()
    with batches:
        batch = next(iter(batches))
        ms = (time.perf_counter_ns() - begin) / 1e6
        done = counters(batches.stats("dict"))
    return ms, done, np.asarray(batch["id"][:1]).tolist()


def position(dataset, args):
    """A state at 90 % of the batches, and what comes next."""
    batches = dataset().iter_batches(batch_size=args.pop("batch_size", BATCH), **args)
    n = sum(1 for _ in batches)
    batches = dataset().iter_batches(batch_size=BATCH, **args)
    passing = iter(batches)
    for _ in range(n * 9 // 10):
        next(passing)
    state = batches.state_dict()
    return state, np.asarray(next(passing)["id"][:1]).tolist()


def measure(name, dataset, args, runs):
    state, want = position(dataset, dict(args))
    fresh, resumed = [], []
    for _ in range(runs):
        fresh.append(first(dataset().iter_batches(batch_size=BATCH, **args), None))
        resumed.append(first(dataset().iter_batches(batch_size=BATCH, **args), state))
        if resumed[-1][2] != want:
            raise SystemExit(f"{name}: other rows after the position: {resumed[-1][2]}, expected {want}")
    return [statistics.median(r[0] for r in rows) for rows in (fresh, resumed)] + [
        [statistics.median(r[1][i] for r in rows) for i in (0, 1)] for rows in (fresh, resumed)
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", nargs="*", help="parts of names of plans")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        table = make_files(folder, args.rows)
        print("| plan | fresh, ms | at 90 %, ms | quotient | rows read | rows that functions gave |")
        print("|---|---|---|---|---|---|")
        for name, (dataset, how) in plans(folder, table, args.rows).items():
            if args.only and not any(part in name for part in args.only):
                continue
            a, b, was, now = measure(name, dataset, how, args.runs)
            print(
                f"| {name} | {a:.1f} | {b:.1f} | {b / a:.2f} | {was[0]:,.0f} → {now[0]:,.0f} | "
                f"{was[1]:,.0f} → {now[1]:,.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
