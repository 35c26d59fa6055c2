"""Every step that reorders, selects or divides rows, on twelve rows of every kind, cut everywhere, against
pandas.

The expected result is a list of row numbers; all other columns, nested ones included, must follow.
"""

import datetime
import decimal
import itertools
import math

import numpy as np
import pyarrow as pa
import pytest

import headrace.data as hd

N = 12
NAN = float("nan")
FRAME = pa.table(
    {
        "id": pa.array(range(N), pa.int64()),
        "i": pa.array([3, None, 1, 3, -5, 1, None, 2**62, 3, 0, 1, -5], pa.int64()),
        "f": pa.array([0.5, NAN, None, -0.0, 0.0, NAN, 1e300, None, -1e300, 0.5, math.inf, -math.inf]),
        "s": pa.array(["b", "", None, "ä", "a\0b", "a", "a", "😀", None, "b", "a" * 30, "a" * 29]),
        "t": pa.array(
            [5, None, 3, 3, -(10**15), 0, 1, 2, 10**15, None, 5, 4], pa.timestamp("us", "Asia/Tokyo")
        ),
        "d": pa.array(
            [None if x is None else decimal.Decimal(x) for x in "1.10 1.1 -2 0 7 -2.01".split() * 2]
        ),
        "b": pa.array([True, False, None] * 4),
        "day": pa.array([datetime.date(2024, 1, 1 + k % 5) if k % 4 else None for k in range(N)]),
        "list": pa.array(
            [None if k % 5 == 4 else list(range(k % 3)) for k in range(N)], pa.list_(pa.int16())
        ),
        "struct": pa.array([None if k == 7 else {"a": k, "b": ["x"] * (k % 2)} for k in range(N)]),
        "vector": pa.FixedSizeListArray.from_arrays(pa.array(np.arange(2 * N, dtype=np.float32)), 2),
        "map": pa.array([[("k", k)] if k % 3 else [] for k in range(N)], pa.map_(pa.string(), pa.int64())),
    }
)
KEYS = ["i", "f", "s", "t", "d", "b", "day"]
CUTS = [[a, b] for a, b in itertools.combinations_with_replacement(range(N + 1), 2)] + [list(range(1, N))]


def cut(places):
    return hd.from_arrow([FRAME.slice(a, b - a) for a, b in itertools.pairwise([0, *places, N])])


def ids_of(table):
    """The row numbers, after a check of the other columns."""
    ids = table["id"].to_pylist()
    want = FRAME.take(ids)
    for name in table.column_names:
        x, y = table[name].to_pylist(), want[name].to_pylist()
        assert [repr(v) for v in x] == [repr(v) for v in y], name  # NaN too, and -0.0
    return ids


def ids(ds):
    found = [t for t in ds.iter_batches(batch_size=None, batch_format="pyarrow") if t.num_rows]
    return ids_of(pa.concat_tables(found)) if found else []


def sorted_ids(key, down, first):
    """The rule: values, NaN, nulls (or the other way round), stable."""
    values = FRAME[key].to_pylist()
    known = [k for k in range(N) if values[k] is not None and values[k] == values[k]]
    nan = [k for k in range(N) if values[k] is not None and values[k] != values[k]]
    null = [k for k in range(N) if values[k] is None]
    if isinstance(values[known[0]], str):
        values = [None if v is None else v.encode() for v in values]
    known.sort(key=lambda k: values[k], reverse=down)
    return [*null, *nan, *known] if first else [*known, *nan, *null]


@pytest.mark.parametrize("key", [k for k in KEYS if k != "f"])
def test_the_rule_is_that_of_pandas(key):
    frame = FRAME.select(["id", key]).to_pandas()
    for down, first in itertools.product([False, True], repeat=2):
        place = "first" if first else "last"
        found = frame.sort_values(key, ascending=not down, kind="stable", na_position=place)["id"].tolist()
        assert found == sorted_ids(key, down, first)


@pytest.mark.parametrize("key", KEYS)
def test_sort(key):
    for k, places in enumerate(CUTS):
        down, first = k % 2 == 1, k // 2 % 2 == 1
        ds = cut(places).sort(key, descending=down, null_placement="at_start" if first else "at_end")
        want = sorted_ids(key, down, first)
        assert ids(ds) == want
        assert ids(ds.limit(k % (N + 2))) == want[: k % (N + 2)]


def test_two_keys():
    frame = FRAME.select(["id", "b", "i"]).to_pandas()
    want = frame.sort_values(["b", "i"], ascending=[True, False], kind="stable")["id"].tolist()
    for places in CUTS:
        assert ids(cut(places).sort(["b", "i"], descending=[False, True])) == want


def test_ranges():
    """limit, split, split_at_indices, split_proportionately, train_test_split: pandas' iloc."""
    numbers = list(range(N))
    for k, places in enumerate(CUTS):
        ds, at = cut(places), k % (N + 1)
        assert ids(ds.limit(at)) == numbers[:at]
        borders = sorted({at, 5, 9})
        want = [numbers[a:b] for a, b in itertools.pairwise([0, *borders, N])]
        assert [ids(part) for part in ds.split_at_indices(borders)] == want
        assert [ids(part) for part in ds.split(5)] == [list(a) for a in np.array_split(numbers, 5)]
        assert [ids(part) for part in ds.split_proportionately([0.25, 0.5])] == [
            numbers[:3],
            numbers[3:9],
            numbers[9:],
        ]
        assert [ids(part) for part in ds.train_test_split(0.25)] == [numbers[:9], numbers[9:]]
        train, test = (ids(part) for part in ds.train_test_split(0.25, stratify="b"))
        assert test == [9, 10, 11] and train == numbers[:9]  # the last of each of three values


def test_repartition():
    for k, places in enumerate(CUTS):
        n, ds = 1 + k % 5, cut(places)
        blocks = list(ds.repartition(n).iter_batches(batch_size=None, batch_format="pyarrow"))
        assert [v for b in blocks for v in ids_of(b)] == list(range(N))
        sizes = [b.num_rows for b in blocks]
        assert len(sizes) == n and max(sizes) - min(sizes) <= 1
        by_key = ds.repartition(n, keys=["i"]).iter_batches(batch_size=None, batch_format="pyarrow")
        seen = [{FRAME["i"][v].as_py() for v in ids_of(b)} for b in by_key if b.num_rows]
        assert sum(len(s) for s in seen) == len(set.union(*seen)) == 6  # no key in two blocks


def test_zip_union_and_mix():
    other = FRAME.rename_columns([f"{name}_2" for name in FRAME.column_names])
    for k, places in enumerate(CUTS):
        ds = cut(places)
        shifted = hd.from_arrow([other.slice(0, k % N), other.slice(k % N)])
        both = ds.zip(shifted).to_arrow()
        assert ids_of(both.select(FRAME.column_names)) == both["id_2"].to_pylist() == list(range(N))
        assert ids(ds.union(ds.limit(k % N))) == [*range(N), *range(k % N)]
        mixed = ids(ds.mix(ds.limit(6), weights=[2, 1]))
        assert sorted(mixed) == sorted([*range(N), *range(6)]) and mixed[:3].count(0) == 2


def test_random_orders():
    """All rows, in an order that seeds repeat; blocks and windows know their borders."""
    for k, places in enumerate(CUTS[::2]):
        ds = cut(places)
        for shuffled in (
            ds.random_shuffle(seed=k),
            ds.randomize_block_order(seed=k),
            ds.randomize_block_order(seed=k).random_shuffle(seed=1),
        ):
            found = ids(shuffled)
            assert sorted(found) == list(range(N)) and ids(shuffled) == found
            assert ids(shuffled.limit(5)) == found[:5]
        blocks = ids(ds.randomize_block_order(seed=k))
        breaks = sum(b != a + 1 for a, b in itertools.pairwise(blocks))
        assert breaks <= sum(0 < p < N for p in set(places)) + 1
        window = 1 + k % 14
        ask = {"batch_size": 5, "batch_format": "pyarrow", "local_shuffle_buffer_size": window}
        rows = [v for b in ds.iter_batches(local_shuffle_seed=2, **ask) for v in ids_of(b)]
        whole = hd.from_arrow(FRAME).iter_batches(local_shuffle_seed=2, **ask)
        assert rows == [v for b in whole for v in ids_of(b)]  # no cut matters


def test_samples():
    for k, places in enumerate(CUTS):
        ds = cut(places)
        some = ids(ds.random_sample(0.5, seed=k))
        assert some == sorted(some) and ids(ds.random_sample(0.5, seed=k)) == some
        assert ids(ds.random_sample(0.0, seed=k)) == [] and ids(ds.random_sample(1.0, seed=k)) == list(
            range(N)
        )
        train, test = ds.streaming_train_test_split(0.4, split_type="hash", hash_column="i")
        found, values = (ids(train), ids(test)), FRAME["i"].to_pylist()
        assert sorted(found[0] + found[1]) == list(range(N))
        assert not {values[v] for v in found[0]} & {values[v] for v in found[1]}


@pytest.mark.parametrize("limit", [None, "16MiB"])
def test_threads_and_memory(limit):
    """Many times the frame."""
    many = pa.concat_tables([FRAME] * 1000).combine_chunks()
    many = many.append_column("row", pa.array(range(len(many))))
    parts = [many.slice(k, 1777) for k in range(0, len(many), 1777)]
    context = hd.DataContext.get_current()
    context.memory_limit_bytes = limit
    wanted = {}
    try:
        for threads in (1, 2, 8):
            context.num_threads = threads
            ds = hd.from_arrow(parts)
            found = {
                "sort": ds.sort(["s", "f"], descending=[True, False]),
                "first": ds.sort(["d", "t"]).limit(900),
                "shuffle": ds.random_shuffle(seed=1),
                "sample": ds.random_sample(0.3, seed=1),
                "mix": ds.mix(ds.limit(99), weights=[1, 1]),
                "blocks": ds.repartition(7),
                "range": ds.split_at_indices([3333])[1],
            }
            for what, of in found.items():
                rows = [v for b in of.iter_batches(batch_size=None) for v in b["row"].tolist()]
                assert wanted.setdefault(what, rows) == rows, what
        frame = many.select(["s", "row"]).to_pandas()
        texts = frame.sort_values("s", ascending=False, kind="stable")["s"].fillna("none").tolist()
        values = frame["s"].fillna("none").tolist()
        assert [values[v] for v in wanted["sort"]] == texts
    finally:
        context.memory_limit_bytes = context.num_threads = None


@pytest.mark.parametrize("n", [0, 1])
def test_none_and_one(n):
    ds = hd.from_arrow(FRAME.slice(0, n))
    rows = list(range(n))
    for of in (
        *(ds.sort(key) for key in KEYS),
        ds.sort("i").limit(3),
        ds.random_shuffle(seed=1),
        ds.randomize_block_order(seed=1),
        ds.random_sample(1.0, seed=1),
        ds.repartition(3),
        ds.repartition(3, keys=["s"]),
        ds.union(ds.limit(0)),
        ds.mix(ds.limit(0)),
        ds.split_at_indices([1])[0],
    ):
        assert ids(of) == rows
    assert ds.zip(ds).count() == n
