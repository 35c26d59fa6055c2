"""A memory limit holds for the whole process: what bench/memory.py measures on 8 M rows, on 2 M."""

import importlib
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
BENCH = Path(__file__).resolve().parents[2] / "bench"


@pytest.fixture(scope="module")
def bench():
    """The modules of bench/, which are scripts and no package."""
    sys.path.insert(0, str(BENCH))
    try:
        yield {name: importlib.import_module(name) for name in ("make_data", "memory", "pss")}
    finally:
        sys.path.remove(str(BENCH))


@pytest.fixture(scope="module")
def table(bench, tmp_path_factory):
    return bench["make_data"].ensure(tmp_path_factory.mktemp("memory"), "table", 2_000_000)


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
    """Shared pages are counted once, however many processes map them."""
    import mmap
    import os
    import subprocess
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
