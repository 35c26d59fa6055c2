"""The root account equals the process's resident memory minus that before the first run, at any time."""

import json
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("pyarrow")
MIB = 1 << 20
ROWS = 1_600_000

PROGRAM = """
import json, os, sys, threading, time
import numpy, headrace.data as hd, headrace.data.aggregate
from headrace import _core
from headrace.data.expressions import col
from headrace.udf import processes

def shared():
    # what is shared with workers, whether its pages were looked at here or not
    segments = {}
    for fd in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{fd}").startswith("/memfd:"):
                found = os.fstat(int(fd))
                segments[found.st_ino] = found.st_blocks * 512
        except OSError:
            pass  # closed meanwhile
    return sum(segments.values())

def resident():
    with open("/proc/self/statm") as f:
        mine = int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    with open("/proc/self/status") as f:
        shmem = int(f.read().split("RssShmem:")[1].split()[0]) * 1024
    return mine - shmem + shared()

def sample():
    while not done.is_set():
        before, r, after = _core.memory_used(), resident() - base, _core.memory_used()
        samples.append((r, min(before, after), max(before, after)))
        time.sleep(0.002)

def half(batch):
    return {"id": batch["id"], "x": batch["x"] / 2}

def grouped(batch):
    return {"key": batch["key"][:1], "n": numpy.array([len(batch["key"])])}

processes.Processes._measure = lambda self: None  # what workers have alone is not in resident()
what, path, images = sys.argv[1:]
hd.DataContext.get_current().memory_limit_bytes = "96MiB"
ds = hd.read_parquet(path)
keys = hd.range(400_000).rename_columns({"id": "key"}).with_column("y", col("key") + 1)
options = {"batch_size": 16384}
if what == "local shuffle":
    options |= {"local_shuffle_buffer_size": 200_000, "local_shuffle_seed": 1}
plans = {
    "scan": lambda: ds,
    "filter": lambda: ds.filter(col("x") > 50),
    "map_batches": lambda: ds.map_batches(half, compute="threads"),
    "sort": lambda: ds.sort("key"),
    "random_shuffle": lambda: ds.random_shuffle(seed=1),
    "groupby": lambda: ds.groupby("key").sum("x"),
    "group_names": lambda: ds.groupby("name").count(),
    "map_groups": lambda: ds.limit(200_000).groupby("key").map_groups(grouped, compute="threads"),
    "unique": lambda: ds.groupby("name").aggregate(hd.aggregate.CountDistinct("x")),
    "join": lambda: ds.join(keys, "inner", 8, on=("key",)),
    "repartition": lambda: ds.repartition(7, keys=["key"]),
    "zip": lambda: ds.zip(ds.rename_columns({"key": "a", "x": "b", "name": "c"})),
    "local shuffle": lambda: ds,
    "processes": lambda: ds.map_batches(half, concurrency=2, batch_size=65536),
    "images": lambda: hd.read_images(images, size=(224, 224), mode="RGB"),
    "materialize": lambda: ds.materialize(),
}
done, samples, base = threading.Event(), [], resident()
thread = threading.Thread(target=sample, daemon=True)
thread.start()
made = plans[what]()
if what == "images":
    options["batch_size"] = 64
rows = sum(len(next(iter(b.values()))) for b in made.iter_batches(**options))
done.set()
thread.join()
print(json.dumps([rows, samples, made.stats("dict")]))
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    import headrace.data as hd
    from headrace.data.expressions import col

    folder = tmp_path_factory.mktemp("accounts") / "rows"
    key = (col("id") * 7_368_787) % (ROWS // 2)
    columns = {"key": key, "x": (col("id") % 1000) / 8.0, "name": key.cast("string")}
    hd.range(ROWS).with_columns(columns).write_parquet(folder, max_rows_per_file=ROWS // 16)
    return folder


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Images of noise, whose decoding takes long enough for several samples."""
    image = pytest.importorskip("PIL.Image")
    folder = tmp_path_factory.mktemp("images")
    noise = np.random.default_rng(1).integers(0, 255, (600, 800, 3), dtype=np.uint8)
    image.fromarray(noise).save(folder / "0.jpg", quality=80)
    for i in range(1, 300):
        (folder / f"{i}.jpg").hardlink_to(folder / "0.jpg")
    return folder


GROUPS = ROWS // 2
FILTERED = ROWS // 1000 * 599  # x > 50 of 0, 1/8, ... 999/8
SPILL = {"sort", "random_shuffle", "groupby", "group_names", "unique", "repartition"}
STAY = {"scan", "filter", "map_batches", "map_groups", "zip", "local shuffle", "processes", "images"}
STAY |= {"join", "materialize"}
GIVE = dict.fromkeys(("groupby", "group_names", "unique", "join"), GROUPS)
GIVE |= {"map_groups": 200_000, "images": 300}


@pytest.mark.slow
@pytest.mark.parametrize("what", sorted(SPILL | STAY))
def test_resident_memory_is_what_the_account_says(path, images, what):
    """Within a tenth or 32 MiB, whichever is more; of workers only the memory that they share."""
    command = [sys.executable, "-c", PROGRAM, what, path, images]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    rows, samples, stats = json.loads(done.stdout)
    assert rows == GIVE.get(what, FILTERED if what == "filter" else ROWS)
    assert len(samples) > 10
    assert max(hi for _, _, hi in samples) > 16 * MIB  # the samples saw data
    assert (stats["spill_written_bytes"] > 0) == (what in SPILL)
    for resident, low, high in samples:
        wrong = max(resident - high, low - resident)
        assert wrong <= max(32 * MIB, resident // 10), (
            f"resident {resident / MIB:.0f} MiB, account {low / MIB:.0f} to {high / MIB:.0f}"
        )
    assert stats["peak_bytes"] <= max(hi for _, _, hi in samples) * 1.5 + 32 * MIB
    assert stats["limit_bytes"] == 96 * MIB
