"""The account says what the process takes: resident memory minus that before the first run, at any time."""

import json
import subprocess
import sys

import pytest

pytest.importorskip("pyarrow")
MIB = 1 << 20
ROWS = 2_000_000

PROGRAM = """
import json, os, sys, threading, time
import numpy, headrace.data as hd
from headrace import _core
from headrace.data.expressions import col

def resident():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

def sample():
    while not done.is_set():
        before, r, after = _core.memory_used(), resident() - base, _core.memory_used()
        samples.append((r, min(before, after), max(before, after)))
        time.sleep(0.002)

def half(batch):
    return {"id": batch["id"], "x": batch["x"] / 2}

what, path = sys.argv[1:]
hd.DataContext.get_current().memory_limit_bytes = "128MiB"
ds = hd.read_parquet(path)
plans = {
    "scan": lambda: ds,
    "filter": lambda: ds.filter(col("x") > 50),
    "map_batches": lambda: ds.map_batches(half, compute="threads"),
    "sort": lambda: ds.sort("key"),
    "random_shuffle": lambda: ds.random_shuffle(seed=1),
    "groupby": lambda: ds.groupby("key").sum("x"),
    "materialize": lambda: ds.materialize(),
}
done, samples, base = threading.Event(), [], resident()
thread = threading.Thread(target=sample, daemon=True)
thread.start()
made = plans[what]()
rows = sum(len(next(iter(b.values()))) for b in made.iter_batches(batch_size=16384))
done.set()
thread.join()
print(json.dumps([rows, samples, json.loads(made.stats())]))
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    import headrace.data as hd
    from headrace.data.expressions import col

    folder = tmp_path_factory.mktemp("accounts") / "rows"
    key = (col("id") * 7_368_787) % (ROWS // 2)
    columns = {"key": key, "x": (col("id") % 1000) / 8.0, "name": key.cast("string")}
    hd.range(ROWS).with_columns(columns).write_parquet(folder, max_rows_per_file=ROWS // 8)
    return folder


# Counted are blocks, not what malloc keeps of freed ones: for groups, whose tables grow, that is more.
LEAST = {"groupby": 64 * MIB}


@pytest.mark.slow
@pytest.mark.parametrize(
    "what", ["scan", "filter", "map_batches", "sort", "random_shuffle", "groupby", "materialize"]
)
def test_resident_memory_is_what_the_account_says(path, what):
    """Within a tenth, or 32 MiB if that is more."""
    command = [sys.executable, "-c", PROGRAM, what, path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    rows, samples, stats = json.loads(done.stdout)
    assert rows == {"groupby": ROWS // 2, "filter": 1_198_000}.get(what, ROWS)
    assert len(samples) > 10
    assert max(hi for _, _, hi in samples) > 16 * MIB  # there was something to see
    assert what in ("scan", "filter", "map_batches", "materialize") or stats["spill_written_bytes"] > 0
    for resident, low, high in samples:
        wrong = max(resident - high, low - resident)
        assert wrong <= max(LEAST.get(what, 32 * MIB), resident // 10), (
            f"resident {resident / MIB:.0f} MiB, account {low / MIB:.0f} to {high / MIB:.0f}"
        )
    assert stats["peak_bytes"] <= max(hi for _, _, hi in samples) * 1.5 + 32 * MIB
    assert stats["limit_bytes"] == 128 * MIB
