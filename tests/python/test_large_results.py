"""Functions whose rows grow a thousandfold, and results larger than memory: memory holds a few tables at a
time.

The story: memory held the results of 512 rows of a row function, and those of all short batches and groups
that travelled together: 2 GB, with a limit of 64 MB. take(1) after map_groups called its function for all
groups of a table.
"""

import functools
import json
import subprocess
import sys
import threading
import time

import numpy as np
import pandas as pd
import psutil
import pyarrow as pa
import pytest

import headrace.data as hd
from headrace import exceptions

LIMIT = 64_000_000
WIDE = 12_500  # doubles: 100 KB
ROWS = 3_000  # of them: 300 MB


@pytest.fixture(params=["processes", pytest.param("threads", marks=pytest.mark.thorough), "inline"])
def compute(request):
    return request.param


@pytest.fixture(autouse=True)
def limited(tmp_path):
    context = hd.DataContext.get_current()
    was = context.memory_limit_bytes
    context.memory_limit_bytes = LIMIT
    yield
    context.memory_limit_bytes = was


def resident():
    """Resident bytes of this process and its descendants; shared pages count once."""
    total = 0
    me = psutil.Process()
    for process in [me, *me.children(recursive=True)]:
        try:
            with open(f"/proc/{process.pid}/smaps_rollup") as f:
                total += sum(int(line.split()[1]) << 10 for line in f if line.startswith("Pss:"))
        except OSError:
            pass
    return total


class Watch:
    """The peak of resident memory above the value at the start."""

    def __enter__(self):
        self.before = self.most = resident()
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._look)
        self.thread.start()
        return self

    def _look(self):
        while not self.ended.wait(0.02):
            self.most = max(self.most, resident())

    def __exit__(self, *exception):
        self.ended.set()
        self.thread.join()

    @property
    def grew(self):
        return self.most - self.before


def wide(i, n=1):
    return {"x": np.full((n, WIDE), float(i))}


def text(i):
    return {"k": f"{i % 50:06d}" * 16_000, "v": i}


def frame(n):
    return pd.DataFrame({f"c{i}": np.zeros(n * 250) for i in range(50)})


GROWING = {
    "map": lambda c: hd.range(ROWS).map(lambda r: {"x": np.full(WIDE, float(r["id"]))}, compute=c),
    "map to text": lambda c: hd.range(ROWS).map(lambda r: text(r["id"]), compute=c),
    "flat_map": lambda c: hd.range(ROWS // 10).flat_map(lambda r: [text(r["id"])] * 10, compute=c),
    "batches": lambda c: hd.range(ROWS).map_batches(
        lambda b: wide(0, len(b["id"])), batch_size=500, compute=c
    ),
    "short batches": lambda c: hd.range(ROWS).map_batches(
        lambda b: wide(0, len(b["id"])), batch_size=5, compute=c
    ),
    "DataFrames": lambda c: hd.range(ROWS).map_batches(
        lambda b: frame(len(b["id"])), batch_size=100, compute=c
    ),
    "map_groups": lambda c: hd.range(ROWS // 10).groupby("id").map_groups(
        lambda g: wide(g["id"][0], 10), compute=c
    ),
    # It took 839 MB, because 65,536 rows are grouped at a time, however long their keys are.
    "groupby": lambda c: (
        hd.range(ROWS)
        .map(lambda r: text(r["id"]), compute=c)
        .groupby("k")
        .count()
        .select_columns(["count()"])
    ),
}  # fmt: skip


def consume(name, ds):
    """Whether all rows came."""
    if name == "groupby":
        return sorted({r["count()"] for r in ds.take_all()}) == [60]
    frames = name == "DataFrames"
    batches = ds.iter_batches(batch_size=5000 if frames else 20, prefetch_batches=0)
    return sum(len(next(iter(b.values()))) for b in batches) == (250 * ROWS if frames else ROWS)


def measure(compute):
    """For each case: whether all rows came, bytes by which memory grew, peak of the engine's bytes."""
    hd.DataContext.get_current().memory_limit_bytes = LIMIT
    found = {}
    for name, make in GROWING.items():
        ds = make(compute)
        ds.limit(1).take_all()  # workers have started
        with Watch() as watch:
            complete = consume(name, ds)
        found[name] = complete, watch.grew, ds.stats("dict")["peak_bytes"]
    return found


@functools.cache
def measured(compute):
    """A fresh process: the memory of this one depends on the tests that it ran."""
    done = subprocess.run([sys.executable, __file__, compute], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", GROWING)
def test_rows_that_grow_a_thousandfold(name, compute):
    complete, grew, peak = measured(compute)[name]
    assert complete
    private = 150_000_000 if compute == "processes" else 0  # what workers hold of their own
    assert grew < 3 * LIMIT + private, grew
    assert peak < 1.25 * LIMIT, peak


def count_calls(path):
    with open(path, "ab") as f:
        f.write(b".")


@pytest.mark.parametrize("mib", [0, 1, 128])
def test_a_limit_behind_map_groups_stops_the_calls(compute, mib, tmp_path):
    """The story: it called the function for all 256 groups; with 128 MiB each there was no row for
    minutes.
    """
    log = tmp_path / "calls"

    def one(group):
        count_calls(log)
        return {"id": group["id"]} | ({"x": np.zeros((1, mib << 17))} if mib else {})

    ds = hd.range(256).groupby("id").map_groups(one, compute=compute)
    if mib == 128:  # a row is larger than the limit
        with pytest.raises(exceptions.MemoryLimitError, match="134217"):
            ds.take(1)
    else:
        assert ds.take(1)[0]["id"] == 0
    assert log.stat().st_size <= 16


def test_groups_are_all_there(compute):
    """However many groups travel together; the number depends on the duration of calls."""
    ds = (
        hd.range(20_000)
        .groupby("id")
        .map_groups(lambda g: {"n": [len(g["id"])], "id": g["id"]}, compute=compute)
    )
    for _ in range(2):
        assert ds.to_arrow()["id"].to_pylist() == list(range(20_000))
    wide_groups = hd.range(20_000).map_batches(
        lambda b: {"k": b["id"] // 3, "t": np.full((len(b["id"]), 100), 1.5)}
    )
    found = wide_groups.groupby("k").map_groups(
        lambda g: {"k": g["k"][:1], "n": [len(g["k"])]}, compute=compute
    )
    assert found.to_arrow()["n"].to_pylist() == [3] * 6666 + [2]


RESULTS = {
    "arrays": lambda n: {"x": np.arange(n * 300.0).reshape(n, 300), "i": np.arange(n)},
    "text": lambda n: {"x": [f"{i:06d}" * 100 for i in range(n)], "i": np.arange(n)},
    "text arrays": lambda n: {"x": np.array([f"{i:06d}" * 100 for i in range(n)]), "i": np.arange(n)},
    "lists": lambda n: {"x": [[i] * 200 for i in range(n)], "i": np.arange(n)},
    "numbers, some of them None": lambda n: {
        "x": [None if i % 3 else float(i) for i in range(n)],
        "i": np.ones((n, 200)),
    },
    "DataFrame": lambda n: pd.DataFrame({"x": [f"{i:06d}" * 100 for i in range(n)], "i": np.arange(n)}),
    "arrow": lambda n: pa.table({"x": [f"{i:06d}" * 100 for i in range(n)], "i": np.arange(n)}),
}  # fmt: skip


@pytest.mark.parametrize("name", RESULTS)
def test_results_that_are_cut_are_the_same(name, compute):
    """A result of 20 MiB, in one table from a batch that must stay whole."""
    n = 20_000
    ds = hd.range(2).map_batches(
        lambda b: RESULTS[name](n) if b["id"][0] else {}, batch_size=1, compute=compute
    )
    context = hd.DataContext.get_current()
    context.max_errored_blocks = 1  # then batches are kept whole
    try:
        whole = hd.range(2).map_batches(
            lambda b: RESULTS[name](n) if b["id"][0] else {}, batch_size=1, compute="threads"
        )
    finally:
        context.max_errored_blocks = 0
    assert ds.to_arrow() == whole.to_arrow()
    assert max(t.num_rows for t in ds.to_arrow_refs()) < n


def test_results_that_cannot_be_cut_are_refused(compute):
    ds = hd.range(1).map_batches(lambda b: {"x": [[1.5] * 1000] * 100_000}, compute=compute)
    text = r"map_batches\(<lambda>\) returned \d{8,9} bytes at once, .*the memory limit is 64000000 bytes"
    with pytest.raises(exceptions.MemoryLimitError, match=text):
        ds.take(1)


async def wide_later(batch):
    return {"x": np.full((len(batch["id"]), WIDE), 1.5)}


async def row_later(row):
    return {"x": np.full(WIDE, 1.5)}


@pytest.mark.parametrize("where", ["processes", "threads"])
def test_functions_that_wait(where):
    for ds in (
        hd.range(ROWS).map_batches(wide_later, batch_size=500, compute=where),
        hd.range(ROWS).map(row_later, compute=where),
    ):
        sizes = [t.num_rows for t in ds.iter_batches(batch_size=None, batch_format="pyarrow")]
        assert sum(sizes) == ROWS and max(sizes) < 200


def test_what_comes_before_an_error_comes_out(compute):
    def one(row):
        if row["id"] == 400:
            raise ValueError("no 400")
        return {"x": np.full(WIDE, float(row["id"]))}

    seen = 0
    with pytest.raises(ValueError, match="no 400"):
        for batch in hd.range(512).map(one, compute=compute).iter_batches(batch_size=1):
            assert batch["x"][0, 0] == seen
            seen += 1
    assert seen >= 300


def test_time_is_not_spent_on_dropped_groups(compute):
    """The worker does not finish a call whose results are not needed."""
    ds = (
        hd.range(2000)
        .groupby("id")
        .map_groups(lambda g: (time.sleep(0.002), wide(0, 20))[1], compute=compute)
    )
    assert len(ds.take(3)) == 3


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1])))
