"""Spilling that fails or is stopped: a clear error at once, and nothing is left behind."""

import gc
import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

import headrace.data as hd
from headrace import _core
from headrace.data.expressions import col
from headrace.exceptions import DiskFullError, HeadraceError, MemoryLimitError

pytest.importorskip("pyarrow")
MIB = 1 << 20
ROWS = 1_500_000
STEP = 7_368_787


@pytest.fixture
def context(tmp_path):
    """A limit of 8 MiB and a separate spill folder."""
    context = hd.DataContext.get_current()
    was = context.memory_limit_bytes
    folder = tmp_path / "spill"
    folder.mkdir()
    context.memory_limit_bytes = 8 * MIB
    context.spill_dir = folder
    yield context
    context.memory_limit_bytes = was
    context.spill_dir = None
    context.spill_quota_bytes = None
    gc.collect()
    assert _core.spill_used() == 0
    assert os.listdir(folder) == []


def rows(n=ROWS):
    return hd.range(n).with_columns({"key": (col("id") * STEP) % n, "x": col("id") * 0.5})


OPERATIONS = {
    "sort": lambda: rows().sort("key"),
    "random_shuffle": lambda: rows().random_shuffle(seed=1),
    "groupby": lambda: rows().groupby("key").count(),
    "join": lambda: rows().join(rows().rename_columns({"id": "a", "x": "b"}), "inner", 8, on=("key",)),
    "materialize": lambda: rows().materialize(),
}


def consume(ds):
    n = 0
    for batch in ds.iter_batches(batch_size=16384):
        n += len(batch["key"])
    return n


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_quota_that_is_too_small(context, name):
    """Soon after reaching it, with both numbers."""
    context.spill_quota_bytes = 3 * MIB
    begin = time.monotonic()
    with pytest.raises(DiskFullError) as e:
        consume(OPERATIONS[name]())
    assert time.monotonic() - begin < 30  # the run up to there included; 0.2 s on a quiet machine
    text = str(e.value)
    assert f"the quota of the process is {3 * MIB} bytes" in text
    assert " more bytes, beside " in text
    assert str(context.spill_dir) in text
    assert "HEADRACE_SPILL_QUOTA" in text
    assert isinstance(e.value, OSError)


@pytest.fixture
def little_disk(context, tmp_path):
    """A disk of 4 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if (
        os.geteuid()
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder], capture_output=True, check=False
        ).returncode
    ):
        pytest.skip("only root can mount a small disk")
    try:
        context.spill_dir = folder
        yield folder
        gc.collect()
        context.spill_dir = None
        assert os.listdir(folder) == []
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("quota", [None, "1GB"], ids=["looked at before", "found when writing"])
def test_a_full_disk(context, little_disk, name, quota):
    context.spill_quota_bytes = quota
    begin = time.monotonic()
    with pytest.raises(DiskFullError) as e:
        consume(OPERATIONS[name]())
    assert time.monotonic() - begin < 30
    text = str(e.value)
    assert str(little_disk) in text
    assert " more bytes, beside " in text and "HEADRACE_SPILL_DIR" in text
    assert os.statvfs(little_disk).f_bavail * os.statvfs(little_disk).f_frsize >= 3 * MIB  # it was given back


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_run_after_a_failed_one(context, little_disk, name):
    """On a disk with room, and, with rows that fit in memory, on the full disk."""
    with pytest.raises(DiskFullError):
        consume(OPERATIONS[name]())
    gc.collect()
    assert consume(rows(1000).sort("key")) == 1000
    context.spill_dir = little_disk.parent / "spill"
    assert consume(OPERATIONS[name]()) == ROWS
    context.spill_dir = little_disk


def test_half_of_the_rows_and_no_more(context):
    """A pass that is left in the middle of spilled rows."""
    for name in "sort", "random_shuffle", "groupby":
        batches = iter(OPERATIONS[name]().iter_batches(batch_size=1000))
        next(batches)
        assert _core.spill_used() > 0
        del batches
        gc.collect()
        assert _core.spill_used() == 0, name


# ------------------------------------------------------------------------------------------- other processes

PROGRAM = """
    import sys
    import headrace.data as hd
    from headrace import _core
    from headrace.data.expressions import col

    ds = hd.range(1_500_000).with_columns({"key": (col("id") * 7368787) % 1_500_000, "x": col("id") * 0.5})
    ds = {"sort": lambda: ds.sort("key"), "groupby": lambda: ds.groupby("key").sum("id")}[sys.argv[1]]()
    at = -1
    for i, batch in enumerate(ds.iter_batches(batch_size=10_000)):
        if i == 3:
            assert _core.spill_used() > 0
            print("spilled", flush=True)
            if len(sys.argv) > 2:
                import time
                time.sleep(600)
        if sys.argv[1] == "sort":
            assert batch["key"][0] == at + 1
            at = batch["key"][-1]
    print("rows", at + 1)
"""


def start(what, folder, *more):
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), what, *more],
        env=os.environ | {"HEADRACE_MEMORY_LIMIT": "12MiB", "HEADRACE_SPILL_DIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(
    ("what", "how"),
    [
        ("sort", signal.SIGKILL),
        ("sort", signal.SIGINT),
        ("sort", signal.SIGTERM),
        ("groupby", signal.SIGKILL),
        ("groupby", signal.SIGINT),
    ],
)
def test_stopped_in_the_middle(tmp_path, what, how):
    process = start(what, tmp_path, "wait")
    try:
        assert process.stdout.readline() == "spilled\n", process.communicate()
        process.send_signal(how)
        _, err = process.communicate(timeout=300)
    finally:
        process.kill()
        process.wait()
    assert process.returncode != 0
    assert how != signal.SIGINT or "KeyboardInterrupt" in err
    assert os.listdir(tmp_path) == []


def test_interrupted_while_it_spills(tmp_path):
    """Ctrl-C before the first row: the engine works while Python waits. A late one meets a program that
    waits in the middle.
    """
    process = start("sort", tmp_path, "wait")
    try:
        deadline = time.monotonic() + 60
        while not spills(process.pid) and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=300)
    finally:
        process.kill()
        process.wait()
    assert "KeyboardInterrupt" in err
    assert os.listdir(tmp_path) == []


def spills(pid):
    """Whether the process has an open file without a name."""
    try:
        return any(
            "(deleted)" in os.readlink(f"/proc/{pid}/fd/{fd}")
            and "memfd" not in os.readlink(f"/proc/{pid}/fd/{fd}")
            for fd in os.listdir(f"/proc/{pid}/fd")
        )
    except OSError:
        return False


def test_two_at_once(tmp_path):
    both = [start("sort", tmp_path) for _ in range(2)]
    try:
        for process in both:
            out, err = process.communicate(timeout=300)
            assert out == "spilled\nrows 1500000\n", err
    finally:
        for process in both:
            process.kill()
            process.wait()
    assert os.listdir(tmp_path) == []


# ------------------------------------------------------------------------------------------- too large


def huge(tmp_path):
    """A row of 24 MiB between small ones, in a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    text = ["a", "b" * (24 * MIB), "c"]
    pq.write_table(pa.table({"key": [3, 1, 2], "text": text}), tmp_path / "huge.parquet")
    return hd.read_parquet(tmp_path / "huge.parquet")


def larger(batch):
    return {"key": batch["key"], "text": np.zeros((len(batch["key"]), 24 * MIB), dtype=np.uint8)}


TOO_LARGE = {
    "reader": lambda ds: ds,
    "sort": lambda ds: ds.sort("key"),
    "random_shuffle": lambda ds: ds.random_shuffle(seed=1),
    "groupby": lambda ds: ds.groupby("text").count(),
    "map_batches": lambda ds: ds.map_batches(lambda b: b, compute="threads"),
}


@pytest.mark.parametrize("name", TOO_LARGE)
def test_a_row_larger_than_the_limit(context, tmp_path, name):
    with pytest.raises(HeadraceError) as e:
        for _ in TOO_LARGE[name](huge(tmp_path)).iter_batches(batch_size=1):
            pass
    assert isinstance(e.value, MemoryLimitError), e.value
    assert str(8 * MIB) in str(e.value)


def test_a_function_that_makes_a_row_larger_than_the_limit(context):
    ds = hd.range(1).rename_columns({"id": "key"}).map_batches(larger, compute="threads")
    with pytest.raises(MemoryLimitError, match=str(8 * MIB)):
        ds.take(1)
