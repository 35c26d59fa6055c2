"""Local shuffle: the order against a slow model, for any cut and threads, resumed anywhere, split among
ranks.
"""

import json
import threading

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace.data as hd
from headrace import exceptions

MASK = (1 << 64) - 1


# --------------------------------------------------------------------------------------------- the slow model


def mix(z):
    z = (z + 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def philox(key, high, low):
    """The low half of Philox4x32-10."""
    x = [low & 0xFFFFFFFF, low >> 32, high & 0xFFFFFFFF, high >> 32]
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        p0, p1 = 0xD2511F53 * x[0], 0xCD9E8D57 * x[2]
        x = [p1 >> 32 ^ x[1] ^ k0, p1 & 0xFFFFFFFF, p0 >> 32 ^ x[3] ^ k1, p0 & 0xFFFFFFFF]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return x[1] << 32 | x[0]


GROUP, MANY, LEAF = 16, 65_536, 131_072


def key_of(seed, epoch, layer, window):
    return philox(mix(mix(seed) ^ epoch), layer, window)


def permuted(values, *how):
    """Each value changes places with one up to itself; a draw makes two choices."""
    values, key = list(values), key_of(*how)
    for i in range(len(values)):
        bits = mix((key + i // 2 * 2) & MASK)
        half = bits & 0xFFFFFFFF if i % 2 else bits >> 32
        other = half * (i + 1) >> 32
        values[i], values[other] = values[other], values[i]
    return values


def groups_dealt(values, section, *how):
    """Groups are dealt to sections, and are in order there; the rest stays at the end."""
    n, key = len(values) // GROUP, key_of(*how)
    order = list(range(n))
    for left in range(n, 1, -1):
        other = mix((key + left) & MASK) * left >> 64
        order[other], order[left - 1] = order[left - 1], order[other]
    each = section // GROUP
    groups = [g for begin in range(0, n, each) for g in sorted(order[begin : begin + each])]
    return [v for g in groups for v in values[g * GROUP : (g + 1) * GROUP]] + values[n * GROUP :]


def second_layer(values, seed, epoch, window):
    if not values:
        return []
    each = -(-len(values) // -(-len(values) // LEAF))
    each = min(LEAF, -(-each // GROUP) * GROUP)
    if len(values) <= each:
        return permuted(values, seed, epoch, 2, window)
    values = groups_dealt(values, each, seed, epoch, 2, window)
    leaves = [values[at : at + each] for at in range(0, len(values), each)]
    return [v for i, leaf in enumerate(leaves) for v in permuted(leaf, seed, epoch, 16 + i, window)]


def model(rows, window, seed, epoch):
    """The definition: windows, then windows shifted by half a window over the result."""
    first, half = [], window // 2
    half -= half % GROUP if window >= MANY else 0
    for k, begin in enumerate(range(0, len(rows), window)):
        some, how = rows[begin : begin + window], (seed, epoch, 1, k)
        first += groups_dealt(some, half, *how) if window >= MANY else permuted(some, *how)
    borders = [0, *range(half, len(rows), window), len(rows)]
    second = []
    for k, (begin, end) in enumerate(zip(borders, borders[1:], strict=False)):
        second += second_layer(first[begin:end], seed, epoch, k)
    return second


def ids(batches):
    return [v for batch in batches for v in batch["id"].tolist()]


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 400), st.integers(1, 500), st.integers(0, 2**64 - 1), st.integers(1, 70))
def test_the_order(n, window, seed, size):
    ds = hd.range(n)
    batches = ds.iter_batches(
        batch_size=size, local_shuffle_buffer_size=window, local_shuffle_seed=seed, batch_format="numpy"
    )
    for epoch in range(2):
        assert ids(batches) == model(list(range(n)), window, seed, epoch)


def test_the_order_over_many_chunks():
    n, window = 70_000, 12_345
    found = ids(hd.range(n).iter_batches(local_shuffle_buffer_size=window, local_shuffle_seed=3))
    assert found == model(list(range(n)), window, 3, 0)


@pytest.mark.parametrize("window", [65_543, 140_000])
def test_the_order_of_large_windows(window):
    """First by groups, then leaf by leaf in groups of more than one leaf."""
    n = 150_000
    found = ids(hd.range(n).iter_batches(local_shuffle_buffer_size=window, local_shuffle_seed=3))
    assert found == model(list(range(n)), window, 3, 0)


# --------------------------------------------------------------------------------------- any cut, any threads


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    n = 40_000
    some = rng.random(n) < 0.1
    words = pa.array([None if s else "w" * (i % 30) + str(i) for i, s in enumerate(some)])
    offsets = np.concatenate([[0], np.cumsum(np.arange(n) % 5)]).astype(np.int32)
    return pa.table(
        {
            "id": np.arange(n),
            "x": pa.array(rng.random(n), mask=some),
            "flag": pa.array(rng.random(n) < 0.5, mask=some),
            "word": words,
            "list": pa.ListArray.from_arrays(offsets, rng.integers(0, 9, offsets[-1])),
            "pair": pa.StructArray.from_arrays(
                [pa.array(np.arange(n) % 7), words.dictionary_encode().cast("string")], ["a", "b"]
            ),
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(rng.random(3 * n, np.float32)), 3),
            "day": pa.array(np.arange(n) % 1000, pa.int32()).cast(pa.date32()),
        }
    )


@pytest.mark.parametrize("window", [1, 100, 16_384, 30_000, 10**6])
def test_all_columns_go_together(table, window):
    found = pa.concat_tables(
        hd.from_arrow(table).iter_batches(
            batch_size=1000, batch_format="pyarrow", local_shuffle_buffer_size=window, local_shuffle_seed=5
        )
    )
    order = found["id"].combine_chunks()
    assert sorted(order.to_pylist()) == list(range(len(table)))
    assert (window == 1) == (order.to_pylist() == list(range(len(table))))
    assert found.equals(table.take(order))


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_cuts_and_threads_do_not_matter(table, data):
    window = data.draw(st.sampled_from([10, 1000, 17_000, 39_999, 40_000]))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(table)), max_size=30)))
    size = data.draw(st.sampled_from([77, 1024, 20_000]))
    parts = [table.slice(a, b - a) for a, b in zip([0, *cuts], [*cuts, len(table)], strict=True)]
    ask = {"batch_size": size, "local_shuffle_buffer_size": window, "local_shuffle_seed": 1}
    whole = hd.from_arrow(table).select_columns(["id"])
    cut = hd.from_arrow(pa.concat_tables(parts)).select_columns(["id"])
    context = hd.DataContext.get_current()
    expected = ids(whole.iter_batches(**ask))
    try:
        for threads in (1, 2, 8):
            context.num_threads = threads
            assert ids(cut.iterator().iter_batches(**ask)) == expected
    finally:
        context.num_threads = None


def test_small_tables(table):
    """Tables of one row each, as a filter leaves them."""
    ds = hd.from_arrow(table).filter(expr="id % 97 == 0")
    few = [i for i in range(len(table)) if i % 97 == 0]
    found = ids(ds.iter_batches(local_shuffle_buffer_size=50, local_shuffle_seed=2))
    assert found == model(few, 50, 2, 0)


# ----------------------------------------------------------------------------------------------------- epochs


def test_epochs_and_seeds():
    ds = hd.range(5000)
    seeded = ds.iter_batches(local_shuffle_buffer_size=800, local_shuffle_seed=1)
    first, second = ids(seeded), ids(seeded)
    assert first != second and sorted(first) == sorted(second) == list(range(5000))
    again = hd.range(5000).iter_batches(local_shuffle_buffer_size=800, local_shuffle_seed=1)
    assert [ids(again), ids(again)] == [first, second]
    assert ids(hd.range(5000).iter_batches(local_shuffle_buffer_size=800)) != first
    rows = hd.range(5000).iterator().iter_rows(local_shuffle_buffer_size=800, local_shuffle_seed=1)
    assert [row["id"] for row in rows] == first


def test_the_context_seeds_what_has_no_seed():
    context = hd.DataContext.get_current()
    found = []
    try:
        for seed in (0, 7, 7):
            context.seed = seed
            found.append(ids(hd.range(1000).iter_batches(local_shuffle_buffer_size=100)))
    finally:
        context.seed = 0
    assert found[0] != found[1] == found[2]


def test_torch():
    torch = pytest.importorskip("torch")
    batches = hd.range(3000).iter_torch_batches(
        batch_size=256, local_shuffle_buffer_size=500, local_shuffle_seed=4
    )
    seen = list(batches)
    for batch in seen:
        batch["id"] += 1  # each of its own memory
    assert torch.cat([b["id"] for b in seen]).tolist() == [i + 1 for i in model(list(range(3000)), 500, 4, 0)]


# --------------------------------------------------------------------------------------------------- resuming


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("shuffle")
    begin = 0
    for f, n in enumerate([30_000, 1, 0, 9_000, 25_000]):
        part = pa.table({"id": np.arange(begin, begin + n)})
        pq.write_table(part, path / f"{f}.parquet", row_group_size=7000)
        begin += n
    return path


PLANS = {
    "read": lambda d: d,
    "filter": lambda d: d.filter(expr="id % 3 != 1"),
    "limit": lambda d: d.limit(50_000),
    "exact": lambda d: d.map_batches(lambda b: b, batch_size=1000, compute="threads"),
    "union": lambda d: d.limit(20_000).union(d),
}


@pytest.mark.parametrize("name", PLANS)
@settings(max_examples=8, deadline=None)
@given(st.data())
def test_resume(folder, name, data):
    ds = PLANS[name](hd.read_parquet(folder))
    ask = {
        "batch_size": data.draw(st.sampled_from([500, 1024, 9999])),
        "local_shuffle_buffer_size": data.draw(st.sampled_from([900, 10_000, 22_222])),
        "local_shuffle_seed": data.draw(st.sampled_from([None, 9])),
    }
    whole = [b["id"].tolist() for b in ds.iter_batches(**ask)]
    first = ds.iterator().iter_batches(**ask)
    taken = data.draw(st.integers(0, len(whole)))
    passed = iter(first)
    assert [next(passed)["id"].tolist() for _ in range(taken)] == whole[:taken]
    state = json.loads(json.dumps(first.state_dict()))
    passed.close()
    rest = PLANS[name](hd.read_parquet(folder)).iterator().iter_batches(**ask)
    rest.load_state_dict(state)
    after = iter(rest)
    more = data.draw(st.integers(0, len(whole) - taken))
    assert [next(after)["id"].tolist() for _ in range(more)] == whole[taken : taken + more]
    again = PLANS[name](hd.read_parquet(folder)).iterator().iter_batches(**ask)
    again.load_state_dict(rest.state_dict())
    assert [b["id"].tolist() for b in again] == whole[taken + more :]


def test_resuming_reads_two_windows(folder):
    """A resume reads two windows, not all earlier rows."""
    ds = hd.read_parquet(folder)
    ask = {"batch_size": 1000, "local_shuffle_buffer_size": 5000, "local_shuffle_seed": 1}
    first = ds.iterator().iter_batches(**ask)
    passed = iter(first)
    for _ in range(60):
        next(passed)
    state = first.state_dict()
    passed.close()
    rest = ds.iterator().iter_batches(**ask)
    rest.load_state_dict(state)
    assert len(ids(rest)) == 64_001 - 60_000
    assert rest.stats("dict")["rows_read"] <= 4001 + 2 * 7000 + 3 * 16_384


def test_a_position_of_another_shuffle(folder):
    ds = hd.read_parquet(folder)
    first = ds.iterator().iter_batches(local_shuffle_buffer_size=5000, local_shuffle_seed=1)
    next(iter(first))
    state = first.state_dict()
    for ask, text in [
        ({"local_shuffle_buffer_size": 4000, "local_shuffle_seed": 1}, "of 5000 rows; this feed has 4000"),
        ({}, "of 5000 rows; this feed has 0"),
        (
            {"local_shuffle_buffer_size": 5000, "local_shuffle_seed": 2},
            "local shuffle seed 1; this feed has 2",
        ),
        ({"local_shuffle_buffer_size": 5000}, "this feed has none"),
    ]:
        other = ds.iterator().iter_batches(**ask)
        other.load_state_dict(state)
        with pytest.raises(exceptions.MismatchError, match=text):
            next(iter(other))


# ------------------------------------------------------------------------------------------------------ ranks


def dealt(shares, **ask):
    """The rows of each share."""
    seen = [[] for _ in shares]

    def consume(rank):
        try:
            seen[rank] += [b["id"].tolist() for b in shares[rank].iter_batches(**ask[f"r{rank}"])]
        except exceptions.HeadraceError as e:
            seen[rank].append(e)

    threads = [threading.Thread(target=consume, args=(rank,)) for rank in range(len(shares))]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    return seen


def test_ranks_share_one_order():
    ask = {"batch_size": 100, "local_shuffle_buffer_size": 700, "local_shuffle_seed": 6}
    shares = hd.range(6000).streaming_split(3, equal=True)
    for epoch in range(2):
        seen = dealt(shares, r0=ask, r1=ask, r2=ask)
        steps = [v for step in zip(*seen, strict=True) for batch in step for v in batch]
        assert steps == model(list(range(6000)), 700, 6, epoch)


def test_ranks_that_disagree():
    shares = hd.range(6000).streaming_split(2)
    seen = dealt(shares, r0={"local_shuffle_buffer_size": 700}, r1={"local_shuffle_buffer_size": 800})
    for errors in seen:
        assert isinstance(errors[-1], exceptions.MismatchError)
        assert "rank 0: batch_size 256" in str(errors[-1])
        assert "local_shuffle_buffer_size 700" in str(errors[-1])
        assert "local_shuffle_buffer_size 800" in str(errors[-1])


# --------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize("size", [0, -5, 2.5, True, "many"])
def test_wrong_sizes(size):
    with pytest.raises(exceptions.InvalidArgument, match="local_shuffle_buffer_size"):
        hd.range(5).iter_batches(local_shuffle_buffer_size=size)


@pytest.mark.parametrize("seed", [-1, 2**64, 0.5, "x"])
def test_wrong_seeds(seed):
    with pytest.raises(exceptions.InvalidArgument, match="local_shuffle_seed"):
        hd.range(5).iter_batches(local_shuffle_buffer_size=2, local_shuffle_seed=seed)


def test_a_window_that_does_not_fit():
    ds = hd.range(10_000_000)
    context = hd.DataContext.get_current()
    context.memory_limit_bytes = "24MiB"
    try:
        with pytest.raises(exceptions.MemoryLimitError, match="use smaller windows"):
            for _ in ds.iter_batches(local_shuffle_buffer_size=5_000_000):
                pass
        assert (
            sum(len(b["id"]) for b in ds.limit(10**6).iter_batches(local_shuffle_buffer_size=50_000)) == 10**6
        )
    finally:
        context.memory_limit_bytes = None


def test_no_rows():
    assert list(hd.range(0).iter_batches(local_shuffle_buffer_size=10)) == []
