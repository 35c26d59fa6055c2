"""materialize(): kept rows, in memory as far as they fit, later ones on disk."""

import gc
import os
import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import headrace.data as hd
from headrace import _core
from headrace.data.expressions import col
from headrace.exceptions import DiskFullError, InvalidArgument, NotFoundError, UnsupportedError

pa = pytest.importorskip("pyarrow")
MIB = 1 << 20


@pytest.fixture
def small(tmp_path):
    """A limit of 16 MiB and a separate spill folder."""
    context = hd.DataContext.get_current()
    was = context.memory_limit_bytes
    folder = tmp_path / "spill"
    folder.mkdir()
    context.memory_limit_bytes = "16MiB"
    context.spill_dir = folder
    yield folder
    context.memory_limit_bytes = was
    context.spill_dir = None
    context.spill_quota_bytes = None


def wide(batch):
    n = batch["id"]
    return {
        "id": n,
        "x": n * 0.5,
        "text": np.array([f"row {i}" for i in n], dtype=object),
        "tensor": np.stack([n, n + 1], axis=1),
    }


def rows(n):
    return hd.range(n).map_batches(wide, compute="threads")


def same(a, b):
    assert a.to_arrow().equals(b.to_arrow())


def test_rows_beyond_the_share_lie_on_disk(small):
    lazy = rows(400_000)
    kept = lazy.materialize()
    size = kept.size_bytes()
    assert size > 16 * MIB
    on_disk = _core.spill_used()
    assert 0 < on_disk < size
    assert os.listdir(small) == []  # no file has a name
    assert kept.count() == 400_000
    assert kept.num_blocks() > 1
    assert "on disk" in kept._node.plan.explain()
    assert repr(kept).startswith("MaterializedDataset(materialize(400000 rows)), 400,000 rows\n")
    assert repr(kept.take(2)) == repr(lazy.take(2))
    assert kept.schema() == lazy.schema()
    assert kept.sum("id") == 400_000 * 399_999 // 2
    assert kept.limit(350_000).count() == 350_000
    assert kept.materialize() is kept
    assert sum(t.num_rows for t in kept.select_columns(["x"])._tables()) == 400_000
    same(kept, lazy)
    del kept
    gc.collect()
    assert _core.spill_used() == 0


def test_the_same_tables_and_coordinates_wherever_they_lie(small):
    lazy = rows(300_000)
    on_disk = lazy.materialize()
    assert on_disk._node.op == "materialized"
    hd.DataContext.get_current().memory_limit_bytes = "1GiB"
    in_memory = hd.from_blocks(on_disk.to_arrow_refs())

    def blocks(ds):
        return [t.num_rows for t in ds._node.args["rows"].tables()]

    whole = lazy.materialize()
    assert blocks(whole) == blocks(on_disk) and max(blocks(whole)) % 4096 == 0
    assert not whole._node.args["rows"].disk_bytes
    assert whole.num_blocks() == on_disk.num_blocks()
    assert whole.size_bytes() == on_disk.size_bytes()
    assert whole._node.plan.fingerprint() == on_disk._node.plan.fingerprint()
    same(on_disk, in_memory)


def keyed(n, blocks=None):
    return hd.range(n, override_num_blocks=blocks).map_batches(
        lambda b: {"id": b["id"], "k": b["id"] % 7}, compute="inline"
    )


PLANS = {
    "filter": lambda: hd.range(30_000).filter(lambda row: row["id"] % 3 == 0, compute="threads"),
    "flat_map": lambda: hd.range(9000, override_num_blocks=3).flat_map(
        lambda row: [row] * (row["id"] % 3), compute="threads"
    ),
    "map_groups": lambda: keyed(200).groupby("k").map_groups(lambda group: group, compute="threads"),
    "mix": lambda: keyed(20_000, 4).mix(keyed(9000, 2), weights=[3, 1]),
    "large": lambda: hd.range(1_000_000).filter(expr="id % 3 != 0"),
    "sort": lambda: keyed(400_000, 4).sort("k"),
    "union": lambda: keyed(9000, 3).filter(lambda row: row["k"] > 2, compute="threads").union(keyed(50)),
}


@pytest.mark.parametrize("name", PLANS)
def test_blocks_depend_on_the_rows_alone(name):
    """Once the tables of the run were the blocks: they depended on threads and time, and with them positions
    (a rightful resume got MismatchError), the batches of functions and local shuffles.
    """
    context = hd.DataContext.get_current()
    was = context.num_threads, context.memory_limit_bytes
    seen = []
    try:
        for threads, limit in (1, "1GiB"), (2, "1GiB"), (8, "1GiB"), (2, "40MiB"):
            context.num_threads, context.memory_limit_bytes = threads, limit
            made = PLANS[name]().materialize()
            calls = made.map_batches(
                lambda b: {"first": b["id"][:1], "n": [len(b["id"])]}, compute="inline", batch_size=None
            )
            shuffled = made.iterator().iter_batches(batch_size=500, local_shuffle_buffer_size=1000)
            plan = made._node.plan
            seen.append(
                (
                    plan.digests(),
                    plan.fingerprint(),
                    made.num_blocks(),
                    calls.take_all(),
                    next(iter(shuffled))["id"].tolist(),
                    [t.num_rows for t in made._node.args["rows"].tables()],
                    [part.materialize().num_blocks() for part in made.split(3)],
                )
            )
    finally:
        context.num_threads, context.memory_limit_bytes = was
    assert seen[0][2] == {"union": 4, "flat_map": 3, "large": 3, "sort": 4}.get(name, 1)
    for other in seen[1:]:
        assert other == seen[0]


def test_a_resume_after_a_materialized_filter():
    """Killed at one number of threads, resumed at another: MismatchError once."""
    context = hd.DataContext.get_current()
    was = context.num_threads
    try:
        context.num_threads = 1
        batches = PLANS["filter"]().materialize().iter_batches(batch_size=100)
        seen = [b["id"].tolist() for _, b in zip(range(31), batches, strict=False)]
        state = batches.state_dict()
        context.num_threads = 8
        again = PLANS["filter"]().materialize().iter_batches(batch_size=100)
        again.load_state_dict(state)
        seen += [b["id"].tolist() for b in again]
    finally:
        context.num_threads = was
    assert sum(seen, []) == list(range(0, 30_000, 3))


def test_blocks_that_a_plan_asks_for():
    assert keyed(200, 10).materialize().num_blocks() == 10
    assert keyed(200).repartition(9).materialize().num_blocks() == 9
    assert keyed(200).repartition(9).filter(expr="k == 1").materialize().num_blocks() == 9
    assert keyed(200).repartition(9).limit(100).materialize().num_blocks() == 5
    assert keyed(200).repartition(target_num_rows_per_block=30).materialize().num_blocks() == 7
    assert keyed(200).repartition(4).union(keyed(200).repartition(3)).materialize().num_blocks() == 7
    by_key = keyed(200).repartition(20, keys=["k"]).materialize()
    assert 1 < by_key.num_blocks() <= 7
    assert keyed(200, 10).split(5)[2].materialize().num_blocks() == 2


def test_files_of_one_row_are_blocks_together(tmp_path):
    for i in range(50):
        (tmp_path / f"{i:02}.bin").write_bytes(bytes([i]) * 10)
    made = hd.read_binary_files(str(tmp_path)).materialize()
    assert made.num_blocks() == 1 and made.count() == 50


def test_positions_are_of_rows_not_of_where_they_lie(small):
    """Begins with rows on disk, resumes with the same rows in memory."""
    lazy = rows(300_000)
    kept = lazy.materialize()
    assert kept._node.op == "materialized"
    batches = kept.iter_batches(batch_size=1000)
    seen = [b["id"].copy() for _, b in zip(range(251), batches, strict=False)]
    state = batches.state_dict()
    for limit in "16MiB", "1GiB":
        hd.DataContext.get_current().memory_limit_bytes = limit
        again = lazy.materialize().iter_batches(batch_size=1000)
        again.load_state_dict(state)
        rest = [b["id"].copy() for b in again]
        assert np.array_equal(np.concatenate(seen + rest), np.arange(300_000))


def test_shuffled_and_grouped_from_the_disk(small):
    kept = rows(300_000).materialize()
    got = np.concatenate([b["id"] for b in kept.iter_batches(batch_size=512, local_shuffle_buffer_size=4096)])
    assert np.array_equal(np.sort(got), np.arange(300_000))
    assert not np.array_equal(got, np.arange(300_000))


def test_nulls_strings_and_nested_columns(small):
    n = 120_000
    table = pa.table(
        {
            "s": pa.array([None if i % 7 == 0 else "é" * (i % 50) for i in range(n)]),
            "l": pa.array([None if i % 5 == 0 else [i] * (i % 4) for i in range(n)]),
            "st": pa.array([{"a": i, "b": None if i % 3 else str(i)} for i in range(n)]),
            "t": pa.array(range(n), pa.timestamp("us", "Europe/Berlin")),
            "d": pa.array([None if i % 11 == 0 else i for i in range(n)], pa.decimal128(20, 3)),
            "flag": pa.array([None if i % 13 == 0 else i % 2 == 0 for i in range(n)]),
        }
    )
    kept = hd.from_arrow(table).filter(col("t") == col("t"))
    kept = kept.materialize()
    assert kept._node.op == "materialized"
    assert kept.to_arrow().equals(table)


def test_functions_whose_types_nearly_agree(small):
    """A column of nulls takes its type from later rows, on disk, too."""

    def some(batch):
        n = batch["id"]
        late = n[0] > 250_000
        return {"id": n, "pad": np.zeros((len(n), 8)), "x": [float(i) if late else None for i in n]}

    kept = hd.range(300_000).map_batches(some, compute="threads").materialize()
    assert kept._node.op == "materialized"
    assert kept.schema().types[2] == "double"
    got = kept.select_columns(["x"]).to_arrow()["x"]
    assert got.null_count == sum(1 for i in range(300_000) if i // 4096 * 4096 <= 250_000)


def test_what_fits_is_as_before_and_can_be_pickled():
    kept = rows(1000).materialize()
    assert _core.spill_used() == 0
    again = pickle.loads(pickle.dumps(kept))
    same(again, kept)
    assert again._node.plan.digests() == kept._node.plan.digests()
    assert again.num_blocks() == kept.num_blocks()


def test_what_is_on_disk_cannot_be_pickled(small):
    kept = rows(300_000).materialize()
    with pytest.raises(UnsupportedError, match=r"cannot pickle .* with \d+ of \d+ bytes on disk"):
        pickle.dumps(kept.limit(3))


def test_a_fork_reads_it_and_leaves_it(small):
    kept = rows(200_000).materialize()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = 0 if kept.select_columns(["id"]).count() == 200_000 else 2
            kept = None
            gc.collect()
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
    assert kept.sum("id") == 200_000 * 199_999 // 2


def test_ranks_keep_their_rows(small):
    import threading

    shares = rows(300_000).streaming_split(2, equal=True)
    made = [None, None]

    def work(rank):
        made[rank] = shares[rank].materialize()

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert [m.count() for m in made] == [150_000, 150_000]
    assert sum(m.sum("id") for m in made) == 300_000 * 299_999 // 2


# ---------------------------------------------------------------------------------------------- settings


def test_a_quota_that_is_too_small(small):
    context = hd.DataContext.get_current()
    context.spill_quota_bytes = "2MiB"
    assert context.spill_quota_bytes == 2 * MIB
    with pytest.raises(DiskFullError, match=r"materialize: .*\d+ more bytes, beside .* quota .* is 2097152"):
        rows(400_000).materialize()
    gc.collect()
    assert _core.spill_used() == 0
    context.spill_quota_bytes = None
    assert context.spill_quota_bytes is None


def test_nothing_may_be_spilled(small):
    hd.DataContext.get_current().spill_quota_bytes = 0
    with pytest.raises(DiskFullError):
        rows(400_000).materialize()


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("memory_limit_bytes", "much", "memory_limit_bytes: 'much' is not a number of bytes"),
        (
            "memory_limit_bytes",
            -1,
            "memory_limit_bytes: expected a whole number of bytes of at least 1.*found -1",
        ),
        ("memory_limit_bytes", 0, "memory_limit_bytes: expected.*found 0"),
        ("memory_limit_bytes", [], r"memory_limit_bytes: expected.*found \[\]"),
        (
            "memory_limit_bytes",
            1.5,
            "memory_limit_bytes: expected a whole number of bytes.*found 1.5",
        ),  # was 1 byte
        (
            "spill_quota_bytes",
            -5,
            "spill_quota_bytes: expected a whole number of bytes of at least 0.*found -5",
        ),
        ("spill_quota_bytes", float("nan"), "spill_quota_bytes: expected.*found nan"),
        ("spill_quota_bytes", True, "spill_quota_bytes: expected.*found True"),
    ],
)
def test_wrong_settings(name, value, text):
    context = hd.DataContext.get_current()
    was = getattr(context, name)
    with pytest.raises(InvalidArgument, match=text):
        setattr(context, name, value)
    assert getattr(context, name) == was


def test_a_spill_folder_that_is_none(tmp_path):
    context = hd.DataContext.get_current()
    with pytest.raises(NotFoundError, match="cannot make a spill file"):
        context.spill_dir = tmp_path / "nowhere"
    context.spill_dir = tmp_path
    assert context.spill_dir == str(tmp_path)
    context.spill_dir = None


def test_variables_of_the_environment(tmp_path):
    code = """
        import warnings, headrace.data as hd
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            c = hd.DataContext.get_current()
        print([str(w.message) for w in seen], c.spill_dir, c.spill_quota_bytes)
    """

    def run(**env):
        return subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)],
            env=os.environ | env,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()

    assert run(HEADRACE_SPILL_DIR=str(tmp_path), HEADRACE_SPILL_QUOTA="3KiB") == f"[] {tmp_path} 3072"
    with pytest.raises(subprocess.CalledProcessError) as e:
        run(HEADRACE_SPILL_QUOTA="x")
    assert "InvalidArgument: HEADRACE_SPILL_QUOTA: 'x' is not a number of bytes" in e.value.stderr
