"""A memory limit holds for the whole process: bench/memory.py with 2 M rows instead of 8 M."""

import gc
import importlib
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import headrace.data as hd
from headrace import _core, exceptions
from headrace.data.expressions import col

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
BENCH = Path(__file__).resolve().parents[2] / "bench"


@pytest.fixture(scope="module")
def bench():
    """The modules of bench/, which are scripts without a package."""
    sys.path.insert(0, str(BENCH))
    try:
        yield {name: importlib.import_module(name) for name in ("make_data", "memory", "pss")}
    finally:
        sys.path.remove(str(BENCH))


@pytest.fixture(scope="module")
def table(bench, tmp_path_factory):
    return bench["make_data"].ensure(tmp_path_factory.mktemp("memory"), "table", 2_000_000)


def sort(rows):
    ds = hd.range(rows).with_column("k", (col("id") * 7_368_787) % rows).sort("k")
    assert sum(len(b["k"]) for b in ds.iter_batches(batch_size=10_000)) == rows


def test_runs_at_once_share_the_limit():
    """Four sorts at once; the story: each used the whole limit, together 3.3 to 4 times the limit."""
    context = hd.DataContext.get_current()
    before, limit = context.memory_limit_bytes, 32 << 20
    context.memory_limit_bytes = limit
    try:
        gc.collect()  # what earlier tests left
        there = _core.memory_used()  # workers of theirs, which end when they are idle
        _core.memory_reset_peak()
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(sort, [1_500_000] * 4))
        assert _core.memory_peak() < there + 3 * limit
    finally:
        context.memory_limit_bytes = before


MANY_THREADS = """
import headrace.data as hd
from headrace import _core
from headrace.data.expressions import col

limit = hd.DataContext.get_current().memory_limit_bytes = 64 << 20
rows = hd.range(6_000_000).with_column("k", (col("id") * 7_368_787) % 6_000_000)
for ds in (rows.sort("k"), rows.random_shuffle(seed=1)):
    _core.memory_reset_peak()
    assert sum(len(b["k"]) for b in ds.iter_batches(batch_size=10_000)) == 6_000_000
    assert _core.memory_peak() < 1.7 * limit, _core.memory_peak() / limit
"""


def test_many_threads_share_the_limit():
    """The story: each of 16 threads sorted a table of 4 MB, which took 3.8 times a limit of 128 MB."""
    environment = os.environ | {"HEADRACE_NUM_THREADS": "16"}
    subprocess.run([sys.executable, "-c", MANY_THREADS], check=True, env=environment)


def wide(rows, values):
    return hd.range(rows).map_batches(
        lambda b: {"x": np.ones((len(b["id"]), values))}, batch_size=100, compute="threads"
    )


def counted(batch):
    return {"n": [len(batch["x"])]}


def test_a_batch_larger_than_the_limit(tmp_path):
    """The story: batches of 400 MB passed a limit of 32 MiB in silence."""
    context = hd.DataContext.get_current()
    before, limit = context.memory_limit_bytes, 32 << 20
    context.memory_limit_bytes = limit
    try:
        ds = wide(20_000, 1000)  # 8 kB a row
        said = rf"\d+ rows of an incomplete batch take \d{{8}} bytes, the memory limit is {limit}"
        with pytest.raises(exceptions.MemoryLimitError, match=said):
            ds.map_batches(counted, batch_size=10_000, compute="threads").take_all()
        with pytest.raises(exceptions.MemoryLimitError, match=said):
            next(iter(ds.iter_batches(batch_size=10_000)))
        rows = pa.table({"x": ["x" * 16_000] * 5000})  # 80 MB
        pq.write_table(rows, tmp_path / "a.parquet")
        said = rf"a batch: 4096 rows take \d{{8}} bytes, the memory limit is {limit}"
        with pytest.raises(exceptions.MemoryLimitError, match=said):
            hd.read_parquet(tmp_path / "a.parquet").map_batches(counted, compute="threads").take_all()
        fits = ds.map_batches(counted, batch_size=2000, compute="threads").take_all()
        assert [r["n"] for r in fits] == [2000] * 10
        assert [len(b["id"]) for b in hd.range(1000).iter_batches(batch_size=10**9)] == [1000]
    finally:
        context.memory_limit_bytes = before


@pytest.mark.slow
def test_a_scan_stays_within_its_limit(bench, table):
    rows, peak, _ = bench["memory"].scan(table, "256MiB")
    assert rows == 2_000_000
    assert peak < 400e6


@pytest.mark.slow
def test_a_small_limit_makes_a_small_process(bench, table):
    _, little, _ = bench["memory"].scan(table, "32MiB")
    assert little < 180e6  # Python and NumPy are about 40 MB of it


def test_the_sampler_sees_children_and_shared_pages(bench):
    """Shared pages count once, however many processes map them."""
    import mmap
    import os
    import time

    size = 64 << 20
    shared = mmap.mmap(-1, size)
    shared.write(b"x" * size)
    before = sum(map(bench["pss"].pss_bytes, bench["pss"].tree(os.getpid())))
    child = subprocess.Popen(
        [sys.executable, "-c", f"a = bytearray({size}); a[::4096] = b'x' * {size // 4096}; input()"],
        stdin=subprocess.PIPE,
    )
    try:
        after, end = 0, time.monotonic() + 60
        while after < before + size * 0.9 and time.monotonic() < end:
            after = sum(map(bench["pss"].pss_bytes, bench["pss"].tree(os.getpid())))
        assert before + size * 0.9 < after < before + size * 1.5
    finally:
        child.communicate(b"\n")
        shared.close()
