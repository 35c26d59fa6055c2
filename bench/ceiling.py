"""Every operation over far more data than memory, in a control group that kills whoever takes more.

    python bench/ceiling.py [--rows N] [--limit 512MiB] [--only sort] [--data FOLDER]

Rows are {id, key, x, name}, about 50 bytes in memory: id counts, key is one of N / 2 (10 million at most) in
no order, x is a number, name a text of the key. Each operation runs in a process of its own, in a memory
cgroup of its own (root on Linux), with the default memory limit, which is half of the group's. Its result is
checked by sums, counts and order; nothing may be left in the spill folder. The default is 10 GB in 512 MiB;
tests/python/test_ceiling.py runs the same with less.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STEP = 7_368_787  # a prime: keys come in no order
MOST_GROUPS = 10_000_000


# ------------------------------------------------------------------------------------------- control groups


class Cgroup:
    """A memory cgroup, version 1 or 2, as long as the context lasts."""

    ROOT = Path("/sys/fs/cgroup")

    def __init__(self, limit):
        self.limit = limit
        one = self.ROOT / "memory"
        self.is_one = (one / "memory.limit_in_bytes").exists()
        self.path = (one if self.is_one else self.ROOT) / f"headrace-ceiling-{os.getpid()}"

    def __enter__(self):
        if not self.is_one:
            control = self.ROOT / "cgroup.subtree_control"
            if "memory" not in control.read_text().split():
                control.write_text("+memory")
        self.path.mkdir()
        try:
            name = "memory.limit_in_bytes" if self.is_one else "memory.max"
            (self.path / name).write_text(str(self.limit))
            swap = self.path / "memory.swap.max"
            if swap.exists():
                swap.write_text("0")
        except OSError:
            self.path.rmdir()
            raise
        return self

    def __exit__(self, *exception):
        for _ in range(100):  # its last process may still be on its way out
            try:
                self.path.rmdir()
                return
            except OSError:
                time.sleep(0.05)

    def command(self, *command):
        """The command line that runs `command` inside."""
        return ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', str(self.path), *map(str, command)]


def why_not():
    """Why there can be no Cgroup here; None if there can."""
    if not sys.platform.startswith("linux"):
        return "control groups are Linux's"
    if os.geteuid():
        return "only root can make a control group"
    try:
        with Cgroup(64 << 20) as group:
            subprocess.run(group.command("true"), check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as e:
        return f"no memory control group can be made: {e}"
    return None


# ------------------------------------------------------------------------------------------- inside


def n_groups(n):
    return max(1, min(n // 2, MOST_GROUPS))


def make(folder, n):
    import headrace.data as hd
    from headrace.data.expressions import col, lit

    key = (col("id") * STEP) % n_groups(n)
    ds = hd.range(n).with_columns(
        {
            "key": key,
            "x": (col("id") % 1000).cast("double") / lit(8.0),
            "name": (key + 1_000_000_000_000).cast("string"),
        }
    )
    ds.write_parquet(folder, max_rows_per_file=max(1, n // 8))


def read(folder):
    import headrace.data as hd

    return hd.read_parquet(folder)


class Sums:
    """What a pass over rows adds up to, and whether they came in order."""

    def __init__(self, column):
        self.column = column
        self.n = self.ids = self.moved = 0
        self.x = 0.0
        self.last = None
        self.ordered = self.matched = True

    def add(self, batch):
        import numpy as np

        values = batch[self.column]
        if self.last is not None and len(values):
            self.ordered = self.ordered and values[0] >= self.last
        self.ordered = self.ordered and bool((values[1:] >= values[:-1]).all())
        self.last = values[-1]
        if "id" in batch:
            self.moved += int((batch["id"] != np.arange(self.n, self.n + len(values))).sum())
            self.ids += int(batch["id"].sum())
        if "y" in batch:
            self.matched = self.matched and bool((batch["y"] == batch["key"] + 1).all())
        if "x" in batch:
            self.x += float(batch["x"].sum())
        self.n += len(values)


def consumed(ds, column):
    sums = Sums(column)
    for batch in ds.iter_batches(batch_size=65536):
        sums.add(batch)
    found = {"rows": sums.n, "ids": sums.ids, "x": sums.x, "moved": sums.moved}
    return found | {"ordered": sums.ordered, "matched": sums.matched}, ds


def double(batch):
    return {"id": batch["id"], "x": batch["x"] * 2}


def map_write(folder, n, out):
    import headrace.data as hd

    ds = read(folder).map_batches(double, compute="threads")
    ds.write_parquet(out)
    return consumed(hd.read_parquet(out), "id")


def map_processes(folder, n, out):
    return consumed(read(folder).map_batches(double, concurrency=1), "id")


def sort(folder, n, out):
    return consumed(read(folder).sort("key"), "key")


def random_shuffle(folder, n, out):
    return consumed(read(folder).random_shuffle(seed=3), "id")


def group(folder, n, out):
    return consumed(read(folder).groupby("key").sum("x").rename_columns({"sum(x)": "x"}), "key")


def group_names(folder, n, out):
    from headrace.data.aggregate import Count

    return consumed(read(folder).groupby("name").aggregate(Count(alias_name="id")), "id")


def join(folder, n, out):
    import headrace.data as hd
    from headrace.data.expressions import col

    right = hd.range(n_groups(n)).with_columns({"key": col("id"), "y": col("id") + 1}).drop_columns(["id"])
    ds = read(folder).select_columns(["id", "key", "x"]).join(right, "inner", 16, on=("key",))
    return consumed(ds, "id")


def materialize(folder, n, out):
    return consumed(read(folder).materialize(), "id")


# What a result of n rows has, if not the sums of the input; spills: it has to; times: of x.
OPERATIONS = {
    map_write: {"moved": 0, "ordered": True, "times": 2},
    map_processes: {"moved": 0, "ordered": True, "times": 2},
    sort: {"ordered": True, "spills": True},
    random_shuffle: {"ordered": False, "spills": True},
    group: {"rows": n_groups, "ids": lambda n: 0, "spills": True},
    group_names: {"rows": n_groups, "ids": lambda n: n, "times": 0, "spills": True},
    join: {"matched": True, "spills": True},
    materialize: {"moved": 0, "ordered": True, "spills": True},
}


def inside(what, folder, n, out):
    """One operation, in this process: prints what it found as a line of JSON."""
    from headrace import _core

    begin = time.monotonic()
    found, ds = {f.__name__: f for f in OPERATIONS}[what](folder, n, out)
    stats = ds.stats("dict")
    found["spilled"] = stats["spill_written_bytes"] + _core.spill_used()
    found["limit"] = stats["limit_bytes"]
    found["peak"] = _core.memory_peak()
    found["seconds"] = time.monotonic() - begin
    print(json.dumps(found))


# ------------------------------------------------------------------------------------------- outside


def wrong(operation, n, found):
    """What is not as it should be, as text; empty if all is well."""
    want = OPERATIONS[operation]
    x = want.get("times", 1) * sum(i / 8 * ((n - i + 999) // 1000) for i in range(1000))
    sums = {
        "rows": want.get("rows", lambda n: n)(n),
        "ids": want.get("ids", lambda n: n * (n - 1) // 2)(n),
        "x": x,
    }
    sums |= {name: want[name] for name in ("moved", "ordered", "matched") if name in want}
    out = [f"{k} is {found[k]}, expected {v}" for k, v in sums.items() if found[k] != v]
    if want.get("spills") and not found["spilled"]:
        out.append("nothing was spilled")
    if operation is random_shuffle and found["moved"] < n * 0.99:
        out.append(f"only {found['moved']} rows moved")
    return ", ".join(out)


def run(operation, folder, n, limit, timeout_s=3600):
    """One operation in a group of `limit` bytes: what it found. RuntimeError says what is wrong."""
    name = operation.__name__
    with tempfile.TemporaryDirectory(dir=folder.parent) as work, Cgroup(limit) as group:
        spill = Path(work) / "spill"
        spill.mkdir()
        clean = {k: v for k, v in os.environ.items() if not k.startswith("HEADRACE_")}
        done = subprocess.run(
            group.command(sys.executable, __file__, "--inside", name, folder, n, Path(work) / "out"),
            env=clean | {"HEADRACE_SPILL_DIR": str(spill), "HEADRACE_NUM_THREADS": "2"},
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
        left = os.listdir(spill)
    if done.returncode:
        raise RuntimeError(f"{name} ended with {done.returncode}: {done.stderr[-2000:]}")
    found = json.loads(done.stdout)
    text = wrong(operation, n, found)
    if left:
        text += f" {left} are left in the spill folder"
    if text:
        raise RuntimeError(f"{name}: {text}")
    return found


def ensure(folder, n):
    """The files, made if they are not there."""
    path = Path(folder).resolve() / f"ceiling-{n}"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        make(path, n)
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=200_000_000, help="(%(default)s)")
    parser.add_argument("--limit", default="512MiB", help="of the control group (%(default)s)")
    parser.add_argument("--only", action="append", choices=[f.__name__ for f in OPERATIONS])
    parser.add_argument(
        "--data", type=Path, default=Path(__file__).resolve().parent / "data", help="(%(default)s)"
    )
    parser.add_argument("--inside", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.inside:
        what, folder, n, out = args.inside
        return inside(what, folder, int(n), out)
    if reason := why_not():
        print(f"skipped: {reason}")
        return 0
    from headrace import _core

    folder = ensure(args.data, args.rows)
    print(f"{args.rows:,} rows, about {args.rows * 48 / 1e9:.1f} GB in memory, in {args.limit}")
    for operation in OPERATIONS:
        if args.only and operation.__name__ not in args.only:
            continue
        found = run(operation, folder, args.rows, _core.parse_bytes(args.limit))
        print(
            f"{operation.__name__:>15}: {found['seconds']:7.1f} s, peak {found['peak'] / 1e6:5.0f} of "
            f"{found['limit'] / 1e6:.0f} MB, {found['spilled'] / 1e9:6.2f} GB spilled",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
