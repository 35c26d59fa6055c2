"""Random order of blocks: row groups of many files, by seed and epoch; after other steps; resumed."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace.data as hd
from headrace import exceptions

ROWS = 50  # of a row group


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """8 files of 10 row groups of 50 rows, and an empty one."""
    path = tmp_path_factory.mktemp("blocks")
    for f in range(8):
        ids = np.arange(f * 10 * ROWS, (f + 1) * 10 * ROWS)
        pq.write_table(pa.table({"id": ids}), path / f"{f}.parquet", row_group_size=ROWS)
    pq.write_table(pa.table({"id": np.arange(0)}), path / "9.parquet")
    return path


def ids(batches):
    return [v for b in batches for v in b["id"].tolist()]


def blocks_of(rows):
    """The numbers of the blocks, in the order in which they came, each whole."""
    cut = [rows[i : i + ROWS] for i in range(0, len(rows), ROWS)]
    assert all(c == list(range(c[0], c[0] + ROWS)) and c[0] % ROWS == 0 for c in cut)
    return [c[0] // ROWS for c in cut]


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """40 files of 3 row groups of 50 rows."""
    path = tmp_path_factory.mktemp("many")
    for f in range(40):
        ids = np.arange(f * 3 * ROWS, (f + 1) * 3 * ROWS)
        pq.write_table(pa.table({"id": ids}), path / f"{f:02}.parquet", row_group_size=ROWS)
    return path


def test_files_and_row_groups(many):
    """16 files of the random order go together, then the next; their row groups are permuted as one list."""
    order = blocks_of(ids(hd.read_parquet(many).randomize_block_order(seed=1).iter_batches()))
    assert sorted(order) == list(range(120))
    together = [order[:48], order[48:96], order[96:]]
    files = [{block // 3 for block in part} for part in together]
    assert [len(f) for f in files] == [16, 16, 8] and len(set.union(*files)) == 40
    assert max(files[0]) > 20 and max(files[1]) > 20  # any files
    for part in together:
        as_they_lie = sum(b == a + 1 for a, b in zip(part, part[1:], strict=False))
        assert as_they_lie < 5  # row groups of a file do not follow each other


def test_many_files_resumed(many):
    ds = hd.read_parquet(many).randomize_block_order(seed=3)
    whole = ids(ds.iter_batches())
    for taken in (0, 1, 20, 47, 48, 49, 100, 119):
        batches = ds.iterator().iter_batches(batch_size=ROWS)
        passed = iter(batches)
        seen = [v for _ in range(taken) for v in next(passed)["id"].tolist()]
        rest = ds.iterator().iter_batches(batch_size=ROWS)
        rest.load_state_dict(json.loads(json.dumps(batches.state_dict())))
        assert seen + ids(rest) == whole
        assert rest.stats("dict")["files_opened"] <= 40 - max(taken - 1, 0) // 48 * 16


def test_seeds_and_epochs(folder):
    def twice(seed):
        batches = hd.read_parquet(folder).randomize_block_order(seed=seed).iter_batches()
        return [ids(batches), ids(batches)]

    fixed = twice(1)
    assert fixed[0] == fixed[1] and twice(1) == fixed and twice(2)[0] != fixed[0]
    drawn = twice(None)
    assert drawn[0] != drawn[1] and twice(None) == drawn
    both = twice(hd.RandomSeedConfig(1))
    assert both[0] != both[1] and twice(hd.RandomSeedConfig(1)) == both


def test_through_maps_filters_and_columns(folder):
    ds = hd.read_parquet(folder)
    plain = ids(ds.randomize_block_order(seed=3).iter_batches())
    for other in (
        ds.map_batches(lambda b: {"id": b["id"]}, compute="threads").randomize_block_order(seed=3),
        ds.select_columns(["id"]).randomize_block_order(seed=3).map(lambda r: r, compute="threads"),
    ):
        assert ids(other.iter_batches()) == plain
    found = ids(ds.filter(expr="id % 7 == 0").randomize_block_order(seed=3).iter_batches())
    assert found == [i for i in plain if i % 7 == 0]
    found = ids(ds.randomize_block_order(seed=3).filter(expr="id < 1000").iter_batches())
    assert found == [i for i in plain if i < 1000]


def test_a_limit_above_takes_the_first_of_that_order(folder):
    ds = hd.read_parquet(folder).randomize_block_order(seed=3)
    assert [r["id"] for r in ds.take(120)] == ids(ds.iter_batches())[:120]
    assert ids(ds.split_at_indices([333])[1].iter_batches()) == ids(ds.iter_batches())[333:]


BEHIND = [
    lambda d: d.limit(1000),
    lambda d: d.split_at_indices([1500])[0],
    lambda d: d.map_batches(lambda b: b, batch_size=100, compute="threads"),
    lambda d: d.zip(d.rename_columns({"id": "other"})),
    lambda d: d.union(d.limit(500)),
    lambda d: d.sort("id", descending=True),
    lambda d: d.random_shuffle(seed=1),
    lambda d: d.groupby("id").count(),
    lambda d: d.repartition(7, keys=["id"]),
]


@pytest.mark.parametrize("plan", BEHIND)
def test_behind_what_keeps_its_order(folder, plan, capsys):
    """Blocks of 256 rows stay together, and all rows are kept. The story: nothing happened, in silence."""
    ds = plan(hd.read_parquet(folder))
    before, shuffled = ids(ds.iter_batches()), ds.randomize_block_order(seed=1)
    after = ids(shuffled.iter_batches())
    shuffled.explain()
    assert "shuffle_blocks(256 rows, seed=1)" in capsys.readouterr().out
    assert after != before and sorted(after) == sorted(before)
    place = {pair: i for i, pair in enumerate(zip(before, before[1:], strict=False))}
    torn = sum(pair not in place for pair in zip(after, after[1:], strict=False))
    assert torn < len(before) / 40  # source blocks have 50 rows, others 256
    assert ids(ds.randomize_block_order(seed=1).iter_batches()) == after
    assert ids(ds.randomize_block_order(seed=2).iter_batches()) != after
    assert [r["id"] for r in shuffled.take(300)] == after[:300]


@pytest.mark.parametrize(
    "between",
    [lambda d: d, lambda d: d.map(lambda r: r, compute="threads"), lambda d: d.filter(expr="id >= 0")],
)
def test_blocks_of_repartition(folder, between, capsys):
    ds = between(hd.read_parquet(folder).repartition(9))
    shuffled = ds.randomize_block_order(seed=1)
    shuffled.explain()
    assert "repartition(9), in random order" in capsys.readouterr().out
    rows, order = ids(shuffled.iter_batches()), []
    while len([r for block in order for r in block]) < 4000:
        at = sum(map(len, order))
        block = next(k for k in range(9) if rows[at] == 4000 * k // 9)
        order.append(list(range(4000 * block // 9, 4000 * (block + 1) // 9)))
    assert rows == [r for block in order for r in block] and rows != sorted(rows)
    assert [r["id"] for r in shuffled.take(1000)] == rows[:1000]
    assert ids(ds.randomize_block_order(seed=2).iter_batches()) != rows
    assert ids(ds.iter_batches()) == sorted(rows)  # the plan below is as it was


def test_each_epoch_has_its_own():
    for ds in (
        hd.range(3000).repartition(20),
        hd.range(3000).limit(2900),
        hd.range(3000, override_num_blocks=20),
    ):
        it = ds.randomize_block_order().iterator()
        first, second = ids(it.iter_batches()), ids(it.iter_batches())
        assert sorted(first) == sorted(second) == list(range(len(first))) and first != second
        it = ds.randomize_block_order(seed=3).iterator()
        assert ids(it.iter_batches()) == ids(it.iter_batches())


def test_blocks_of_ranges():
    assert [len(b["id"]) for b in hd.range(100, override_num_blocks=7).iter_batches(batch_size=None)] == [
        15
    ] * 6 + [10]
    rows = ids(hd.range(100, override_num_blocks=10).randomize_block_order(seed=1).iter_batches())
    assert sorted(rows) == list(range(100)) and sorted(rows[::10]) == list(range(0, 100, 10)) != rows[::10]
    tensors = hd.range_tensor(10, override_num_blocks=5).randomize_block_order(seed=1).take_all()
    assert (
        sorted(int(t["data"][0]) for t in tensors) == list(range(10)) != [int(t["data"][0]) for t in tensors]
    )
    assert (
        hd.range(3, override_num_blocks=10).count() == 3
        and hd.range(0, override_num_blocks=2).take_all() == []
    )
    for n in (0, -1, 1.5, "2"):
        with pytest.raises(exceptions.InvalidArgument, match="override_num_blocks"):
            hd.range(3, override_num_blocks=n)


def test_explain(folder, capsys):
    ds = hd.read_parquet(folder)
    ds.randomize_block_order().explain()
    out = capsys.readouterr().out
    assert "randomize_block_order()" in out and "blocks in random order" in out
    ds.explain()
    assert "random order" not in capsys.readouterr().out


def test_unions_and_memory(folder):
    ds = hd.read_parquet(folder)
    rows = ids(ds.union(ds).randomize_block_order(seed=1).iter_batches())
    first, second = blocks_of(rows[:4000]), blocks_of(rows[4000:])
    assert sorted(first) == sorted(second) == list(range(80)) and first != second
    tables = [pa.table({"id": np.arange(i * ROWS, (i + 1) * ROWS)}) for i in range(30)]
    order = blocks_of(ids(hd.from_arrow(tables).randomize_block_order(seed=1).iter_batches()))
    assert sorted(order) == list(range(30)) and order != sorted(order)


def test_threads_and_memory_do_not_matter(folder):
    ds = hd.read_parquet(folder).randomize_block_order(seed=5)
    expected = ids(ds.iter_batches())
    context = hd.DataContext.get_current()
    try:
        for threads in (1, 8):
            context.num_threads = threads
            assert ids(ds.iter_batches()) == expected
    finally:
        context.num_threads = None


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 63), st.sampled_from([None, 100, 1500]), st.sampled_from([None, 4]))
def test_resume(folder, taken, window, seed):
    ds = hd.read_parquet(folder)
    if window is None or seed:
        ds = ds.randomize_block_order(seed=seed)
    ask = {"batch_size": 64, "local_shuffle_buffer_size": window}
    whole = [b["id"].tolist() for b in ds.iterator().iter_batches(**ask)]
    batches = ds.iterator().iter_batches(**ask)
    passed = iter(batches)
    taken = min(taken, len(whole))
    assert [next(passed)["id"].tolist() for _ in range(taken)] == whole[:taken]
    state = json.loads(json.dumps(batches.state_dict()))
    rest = ds.iterator().iter_batches(**ask)
    rest.load_state_dict(state)
    assert [b["id"].tolist() for b in rest] == whole[taken:]


def test_local_shuffles_begin_with_blocks(folder):
    """Fragments of files in a random order, then windows: rows come from all over the files."""
    rows = ids(hd.read_parquet(folder).iter_batches(local_shuffle_buffer_size=100, local_shuffle_seed=1))
    assert sorted(rows) == list(range(4000))
    assert len({r // 500 for r in rows[:500]}) >= 5
    behind = hd.read_parquet(folder).limit(4000)  # what counts rows keeps its order
    rows = ids(behind.iter_batches(local_shuffle_buffer_size=100, local_shuffle_seed=1))
    assert max(abs(r - i) for i, r in enumerate(rows)) <= 150


def test_wrong_seeds():
    for seed in ("x", -1, 0.5):
        with pytest.raises(exceptions.InvalidArgument, match="randomize_block_order: seed"):
            hd.range(3).randomize_block_order(seed=seed)
