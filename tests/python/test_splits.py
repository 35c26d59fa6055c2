"""Samples, splits, zip and mix against Python, for any cut and threads, resumed anywhere."""

import itertools
import json
import math
import threading
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_shares import on_all

import headrace.data as hd
from headrace import exceptions


def ids(ds, name="id"):
    return [row[name] for row in ds.take_all()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files of 9,000, 1, 0, 5,000 and 20,000 rows: ids 0 .. 34000."""
    path = tmp_path_factory.mktemp("splits")
    begin = 0
    for f, n in enumerate([9000, 1, 0, 5000, 20_000]):
        part = pa.table({"id": np.arange(begin, begin + n), "k": np.arange(begin, begin + n) % 10})
        pq.write_table(part, path / f"{f}.parquet", row_group_size=6000)
        begin += n
    return path


N = 34_001
PLANS = {
    "read": (lambda d: d, list(range(N))),
    "map": (lambda d: d.map_batches(lambda b: b, compute="threads"), list(range(N))),
    "one to one": (
        lambda d: d.map_batches(lambda b: b, compute="threads", udf_modifying_row_count=False),
        list(range(N)),
    ),
    "filter": (lambda d: d.filter(expr="id % 3 == 1"), [i for i in range(N) if i % 3 == 1]),
    "limit": (lambda d: d.limit(20_000), list(range(20_000))),
    "union": (lambda d: d.limit(10_000).union(d), [*range(10_000), *range(N)]),
    "memory": (lambda d: d.materialize(), list(range(N))),
}


# --------------------------------------------------------------------------------------------- ranges of rows


@pytest.mark.parametrize("name", PLANS)
@settings(max_examples=6, deadline=None)
@given(st.data())
def test_split_at_indices(folder, name, data):
    plan, rows = PLANS[name]
    ds = plan(hd.read_parquet(folder)).select_columns(["id"])
    cuts = sorted(data.draw(st.lists(st.integers(0, N + 5), min_size=1, max_size=4)))
    pieces = ds.split_at_indices(cuts)
    borders = [0, *cuts, len(rows) + N]
    for piece, (begin, end) in zip(pieces, itertools.pairwise(borders), strict=True):
        expected = rows[begin:end]
        assert piece.count() == len(expected)
        assert [v for b in piece.iter_batches(batch_size=999) for v in b["id"].tolist()] == expected
        assert ids(piece.limit(3)) == expected[:3]


@pytest.mark.parametrize("name", ["read", "filter", "one to one"])
@settings(max_examples=8, deadline=None)
@given(st.data())
def test_resume_in_a_range(folder, name, data):
    plan, rows = PLANS[name]
    piece = plan(hd.read_parquet(folder)).split_at_indices([5003, 11_111])[1]
    batches = piece.iterator().iter_batches(batch_size=700)
    passed = iter(batches)
    taken = data.draw(st.integers(0, 8))
    for _ in range(taken):
        next(passed)
    state = json.loads(json.dumps(batches.state_dict()))
    rest = piece.iterator().iter_batches(batch_size=700)
    rest.load_state_dict(state)
    assert [v for b in rest for v in b["id"].tolist()] == rows[5003:11_111][taken * 700 :]


def test_a_range_does_not_read_what_lies_before(folder):
    last = hd.read_parquet(folder).split_at_indices([33_000])[1]
    batches = last.iterator().iter_batches()
    assert sum(len(b["id"]) for b in batches) == 1001
    assert batches.stats("dict")["rows_read"] <= 6000
    one = hd.range(10**12).split_at_indices([10**12 - 1])[1]
    assert ids(one) == [10**12 - 1]
    of_a_range = last.split_at_indices([500])[1]
    assert ids(of_a_range) == list(range(33_500, N))


def test_explain_says_so(folder, capsys):
    hd.read_parquet(folder).split_at_indices([33_000])[1].explain()
    assert "skip=33000" in capsys.readouterr().out


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 50), st.integers(1, 9), st.booleans())
def test_split(count, n, equal):
    pieces = [ids(p) for p in hd.range(count).split(n, equal=equal)]
    sizes = [len(p) for p in pieces]
    assert len(pieces) == n
    assert [v for p in pieces for v in p] == list(range(count // n * n if equal else count))
    assert max(sizes) - min(sizes) <= (0 if equal else 1)


def test_split_proportionately():
    pieces = hd.range(10).split_proportionately([0.2, 0.5])
    assert [ids(p) for p in pieces] == [[0, 1], [2, 3, 4, 5, 6], [7, 8, 9]]
    assert [ids(p) for p in hd.range(5).split_proportionately([0.4, 0.1])] == [[0], [1], [2, 3, 4]]
    with pytest.raises(exceptions.InvalidArgument, match="2 rows are too few"):
        hd.range(2).split_proportionately([0.3, 0.3, 0.3])


def test_parts_of_memory_stay_in_memory():
    ds = hd.range(10).materialize()
    pieces = ds.split(3)
    assert all(isinstance(p, hd.MaterializedDataset) for p in pieces)
    assert [p.count() for p in pieces] == [4, 3, 3]
    assert type(ds.random_sample(0.5, seed=1)) is hd.Dataset


def repeated(sizes, weights):
    """The mix, as (dataset, row) pairs, until each dataset has given all its rows."""
    total, given = sum(weights), [0] * len(sizes)
    shares = [w / total for w in weights]
    while any(g < n for g, n in zip(given, sizes, strict=True)):
        rows = sum(given)
        left = [i for i in range(len(sizes)) if sizes[i]]
        best = max(left, key=lambda i: (shares[i] * rows - given[i], weights[i], -i))
        yield best, given[best] % sizes[best]
        given[best] += 1


@settings(max_examples=40, deadline=None)
@example([1, 0, 13], [0.5, 4.0, 2.0, 1.0], 0)  # the first input did not repeat often enough: a row was lost
@given(
    st.lists(st.integers(0, 60), min_size=1, max_size=4),
    st.lists(st.sampled_from([1.0, 2.0, 4.0, 0.5]), min_size=4, max_size=4),
    st.integers(0, 40),
)
def test_mix_that_repeats(sizes, weights, taken):
    weights = weights[: len(sizes)]
    inputs = [
        hd.range(n).select_columns(["id"]).add_column("of", lambda b, i=i: np.full(len(b["id"]), i))
        for i, n in enumerate(sizes)
    ]
    ds = inputs[0].mix(*inputs[1:], weights=weights, stopping_condition="stop_on_longest_repeat")
    want = list(repeated(sizes, weights))
    rows = ds.iter_rows()
    begun = iter(rows)
    got = [(r["of"], r["id"]) for r in itertools.islice(begun, taken)]
    state = rows.state_dict()
    got += [(r["of"], r["id"]) for r in begun]
    assert got == want
    if 0 < taken <= len(want):
        rest = ds.iter_rows()
        rest.load_state_dict(state)
        assert [(r["of"], r["id"]) for r in rest] == want[taken:]


def test_mix_that_repeats_on_ranks_and_resumed():
    def plan():
        long, short = hd.range(900).random_shuffle(), hd.range(70).random_shuffle()
        return long.mix(short, weights=[3, 1], stopping_condition="all_exhausted")

    whole = [b["id"].tolist() for b in plan().iter_batches(batch_size=10, drop_last=True)]
    assert len(whole) in (119, 120, 121)
    for n in (2, 3):
        shares = plan().streaming_split(n)
        got = on_all(shares, lambda r, s: [b["id"].tolist() for b in s.iter_batches(batch_size=10)])
        steps = len(whole) // n
        assert [g[:steps] for g in got] == [whole[r : steps * n : n] for r in range(n)]
    one = plan().iter_batches(batch_size=10, drop_last=True)
    for taken, _ in enumerate(one, 1):
        if taken in (1, 60, 118):
            other = plan().iter_batches(batch_size=10, drop_last=True)
            other.load_state_dict(one.state_dict())
            assert [b["id"].tolist() for b in other] == whole[taken:]


def test_mix_by_the_names_of_hugging_face():
    def lengths(name, **how):
        return hd.range(10).mix(hd.range(4), stopping_condition=name, **how).count()

    assert lengths("first_exhausted") == lengths("stop_on_shortest") in (8, 9)
    assert lengths("all_exhausted_without_replacement") == lengths("stop_on_longest_drop") == 14
    assert lengths("all_exhausted") == lengths("stop_on_longest_repeat") in (19, 20)
    assert lengths(hd.MixStoppingCondition.STOP_ON_LONGEST_REPEAT) in (19, 20)
    filtered = hd.range(10).filter(expr="id < 3")
    mixed = hd.range(10).mix(filtered, stopping_condition="all_exhausted")
    assert sorted(set(ids(mixed))) == list(range(10))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda d: d.split(0), "n: expected at least 1, found 0"),
        (lambda d: d.split(2, locality_hints=[1]), "locality_hints: expected 2, found 1"),
        (lambda d: d.split_at_indices([]), "at least one"),
        (lambda d: d.split_at_indices([3, 2]), "ascending"),
        (lambda d: d.split_at_indices([-1]), "at least 0"),
        (lambda d: d.split_proportionately([]), "at least one"),
        (lambda d: d.split_proportionately([0.5, 0.5]), "below 1"),
        (lambda d: d.split_proportionately([0.5, 0]), "above 0"),
        (lambda d: d.train_test_split(1.5), "between 0 and 1"),
        (lambda d: d.train_test_split(10), "fewer than the 10 rows"),
        (lambda d: d.train_test_split(0), "between 0 and 1|the 10 rows"),
        (lambda d: d.train_test_split(0.5, shuffle=True, stratify="id"), "not both"),
        (lambda d: d.train_test_split(0.5, stratify="no"), "no column 'no'.*id"),
        (lambda d: d.random_sample(1.5), "fraction: .*found 1.5"),
        (lambda d: d.random_sample(0.5, seed="x"), "seed: .*found 'x'"),
        (lambda d: d.streaming_train_test_split(1.0), "between 0 and 1"),
        (lambda d: d.streaming_train_test_split(0.5, split_type="no"), "split_type: .*found 'no'"),
        (lambda d: d.streaming_train_test_split(0.5, split_type="hash"), "expected a hash_column"),
        (lambda d: d.streaming_train_test_split(0.5, split_type="hash", hash_column="no"), "no.*column"),
        (lambda d: d.streaming_train_test_split(0.5, hash_column="id"), "expected no hash_column"),
        (lambda d: d.streaming_train_test_split(0.5, split_type="hash", hash_column="id", seed=1), "no seed"),
        (lambda d: d.mix(d, weights=[1]), "1 weights for 2"),
        (lambda d: d.mix(d, weights=[1, 0]), "weight: .*found 0"),
        (lambda d: d.mix(d, stopping_condition="never"), "stop_on_longest_repeat, found 'never'"),
        (
            lambda d: d.limit(1).mix(hd.range(5000), stopping_condition="all_exhausted"),
            "input 0 would repeat",
        ),
    ],
)
def test_refusals(call, text):
    with pytest.raises(exceptions.InvalidArgument, match=text):
        call(hd.range(10))


def test_wrong_types():
    for call in (hd.range(10).split, hd.range(10).streaming_split):
        with pytest.raises(
            exceptions.TypeMismatchError, match="split: locality_hints: expected a list or None"
        ):
            call(2, locality_hints=5)
    for call in (lambda d: d.zip(5), lambda d: d.mix(5), lambda d: d.train_test_split("x")):
        with pytest.raises(exceptions.TypeMismatchError):
            call(hd.range(10))
    with pytest.raises(exceptions.TypeMismatchError, match="mix: input 1 differs.*x"):
        hd.range(3).mix(hd.from_items([{"x": 1}]))


# ------------------------------------------------------------------------------------------ training, testing


def test_train_test_split(folder):
    train, test = hd.read_parquet(folder).train_test_split(0.25)
    assert ids(train) == list(range(int(N * 0.75))) and ids(test) == list(range(int(N * 0.75), N))
    train, test = hd.range(8).train_test_split(3)
    assert ids(train) == [0, 1, 2, 3, 4] and ids(test) == [5, 6, 7]


def test_shuffled_train_test_split(folder):
    """One order for all epochs: no row is ever in both."""
    ds = hd.read_parquet(folder)
    for seed in (7, None):
        train, test = ds.train_test_split(0.2, shuffle=True, seed=seed)
        for _ in range(2):
            a = [v for b in train.iter_batches() for v in b["id"].tolist()]
            b = [v for b in test.iter_batches() for v in b["id"].tolist()]
            assert sorted(a + b) == list(range(N)) and len(b) == N - int(N * 0.8)
            assert b != sorted(b)


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.sampled_from(["a", "b", "c", None, "d"]), min_size=4, max_size=60),
    st.one_of(st.floats(0.05, 0.95), st.integers(1, 3)),
)
def test_stratified(classes, test_size):
    ds = hd.from_arrow(pa.table({"c": pa.array(classes, pa.string()), "id": np.arange(len(classes))}))
    train, test = ds.train_test_split(test_size, stratify="c")
    fraction = test_size / len(classes) if isinstance(test_size, int) else test_size
    rest = {c: n - int(n * fraction) for c, n in Counter(classes).items()}
    expected = ([], [])
    for i, c in enumerate(classes):
        expected[rest[c] <= 0].append(i)
        rest[c] -= 1
    assert (ids(train), ids(test)) == expected
    assert train.schema().names == ["c", "id"]


def test_stratified_by_numbers(folder):
    train, test = hd.read_parquet(folder).train_test_split(0.2, stratify="k")
    counts = Counter(ids(test, "k"))
    assert set(counts.values()) <= {680, 679, 681} and len(counts) == 10
    assert sorted(ids(train) + ids(test)) == list(range(N))


@pytest.mark.parametrize("ask", [{"seed": 4}, {}, {"split_type": "hash", "hash_column": "id"}])
def test_streaming_train_test_split(folder, ask):
    train, test = hd.read_parquet(folder).streaming_train_test_split(0.3, **ask)
    for _ in range(2):  # in any epoch
        a = [v for b in train.iter_batches() for v in b["id"].tolist()]
        b = [v for b in test.iter_batches() for v in b["id"].tolist()]
        assert sorted(a + b) == list(range(N)) and a == sorted(a) and b == sorted(b)
        assert abs(len(b) - 0.3 * N) < 6 * math.sqrt(N * 0.3 * 0.7)


def test_equal_values_stay_together():
    ds = hd.from_items([{"user": f"u{i % 200}", "i": i} for i in range(5000)])
    train, test = ds.streaming_train_test_split(0.5, split_type="hash", hash_column="user")
    a, b = set(ids(train, "user")), set(ids(test, "user"))
    assert not a & b and len(a | b) == 200 and 60 < len(a) < 140
    again, _ = ds.limit(100).streaming_train_test_split(0.5, split_type="hash", hash_column="user")
    assert set(ids(again, "user")) <= a


# ---------------------------------------------------------------------------------------------------- samples


@settings(max_examples=15, deadline=None)
@given(st.floats(0, 1), st.integers(0, 2**64 - 1))
def test_random_sample(fraction, seed):
    n = 3000
    found = ids(hd.range(n).random_sample(fraction, seed=seed))
    assert found == sorted(set(found))
    assert abs(len(found) - fraction * n) <= 6 * math.sqrt(n * fraction * (1 - fraction)) + 1
    assert ids(hd.range(n).random_sample(fraction, seed=seed)) == found


def test_samples_and_epochs():
    def twice(ds):
        return [[v for b in ds.iter_batches() for v in b["id"].tolist()] for _ in range(2)]

    fixed = twice(hd.range(1000).random_sample(0.5, seed=1))
    assert fixed[0] == fixed[1]
    drawn = twice(hd.range(1000).random_sample(0.5))
    assert drawn[0] != drawn[1]
    again = twice(hd.range(1000).random_sample(0.5, seed=hd.RandomSeedConfig(1)))
    assert again[0] != again[1]
    once = twice(hd.range(1000).random_sample(0.5, seed=hd.RandomSeedConfig(1, reseed_after_execution=False)))
    assert once == fixed
    assert repr(hd.RandomSeedConfig(1)) == "RandomSeedConfig(seed=1, reseed_after_execution=True)"


def test_a_sample_of_a_sample():
    ds = hd.range(10_000).random_sample(0.5, seed=1).random_sample(0.5, seed=1)
    assert 2200 < ds.count() < 2800


def test_a_sample_does_not_depend_on_threads_or_budget(folder):
    ds = hd.read_parquet(folder).random_sample(0.1, seed=2)
    expected = ids(ds)
    context = hd.DataContext.get_current()
    try:
        for threads, limit in ((1, None), (8, "40MiB")):
            context.num_threads = threads
            context.memory_limit_bytes = limit
            assert ids(ds) == expected
    finally:
        context.num_threads = context.memory_limit_bytes = None


# ------------------------------------------------------------------------------------------------ zip and mix


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_zip(data):
    n = data.draw(st.integers(0, 300))
    tables = []
    for name in ("a", "b", "a"):
        cuts = sorted(data.draw(st.lists(st.integers(0, n), max_size=8)))
        whole = pa.table({name: np.arange(n), "s": [f"{name}{i}" for i in range(n)]})
        parts = [whole.slice(i, j - i) for i, j in zip([0, *cuts], [*cuts, n], strict=True)]
        tables.append(hd.from_arrow(pa.concat_tables(parts)))
    zipped = tables[0].zip(*tables[1:])
    assert zipped.schema().names == ["a", "s", "b", "s_1", "a_1", "s_2"]
    found = zipped.to_arrow()
    assert found.num_rows == n
    if n:
        assert found["a"].to_pylist() == found["b"].to_pylist() == found["a_1"].to_pylist() == list(range(n))
        assert found["s_1"].to_pylist() == [f"b{i}" for i in range(n)]
        assert ids(zipped.select_columns(["s_2"]), "s_2") == [f"a{i}" for i in range(n)]


def test_zip_of_different_lengths():
    for a, b, text in ((5, 9, "5, 9"), (9, 5, "9, 5"), (0, 3, "0, 3"), (100_000, 7, "100000, 7")):
        with pytest.raises(exceptions.InvalidArgument, match=f"different numbers of rows: {text}"):
            hd.range(a).zip(hd.range(b)).take_all()
    assert hd.range(5).zip(hd.range(9)).limit(2).take_all() == [{"id": 0, "id_1": 0}, {"id": 1, "id_1": 1}]


def test_zip_behind_functions():
    """The first tables determine the names."""
    left = hd.range(5000).map_batches(lambda b: {"x": b["id"] * 2}, compute="threads")
    right = hd.range(5000).map_batches(lambda b: {"x": b["id"] * 3}, batch_size=77, compute="threads")
    rows = left.zip(right).take_all()
    assert rows == [{"x": 2 * i, "x_1": 3 * i} for i in range(5000)]
    assert left.zip(right).select_columns(["x_1"]).take(2) == [{"x_1": 0}, {"x_1": 3}]


def mixed(lengths, weights, drop):
    """Row by row, by the definition."""
    weights = [w / sum(weights) for w in weights]
    given_out, out = [0] * len(lengths), []
    while True:
        over = [g == n for g, n in zip(given_out, lengths, strict=True)]
        if all(over) or (any(over) and not drop):
            return out
        best = None
        for i, w in enumerate(weights):
            if over[i]:
                continue
            behind = w * len(out) - given_out[i]
            if best is None or (behind, w) > best[:2]:
                best = (behind, w, i)
        i = best[2]
        out.append((i, given_out[i]))
        given_out[i] += 1


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 200), st.floats(0.01, 10)), min_size=1, max_size=4),
    st.booleans(),
    st.sampled_from([1, 2, 8]),
)
def test_mix(inputs, drop, threads):
    lengths, weights = [n for n, _ in inputs], [w for _, w in inputs]
    sets = [hd.from_arrow(pa.table({"of": np.full(n, k), "id": np.arange(n)})) for k, n in enumerate(lengths)]
    condition = hd.MixStoppingCondition.STOP_ON_LONGEST_DROP if drop else "stop_on_shortest"
    context = hd.DataContext.get_current()
    context.num_threads = threads
    try:
        rows = sets[0].mix(*sets[1:], weights=weights, stopping_condition=condition).take_all()
    finally:
        context.num_threads = None
    assert [(r["of"], r["id"]) for r in rows] == mixed(lengths, weights, drop)


def test_mix_of_files(folder):
    a, b = hd.read_parquet(folder), hd.read_parquet(folder).filter(expr="id % 2 == 0")
    found = ids(a.mix(b, weights=[3, 1]).select_columns(["id"]))
    rows = [list(range(N)), list(range(0, N, 2))]
    assert found == [rows[i][k] for i, k in mixed([len(rows[0]), len(rows[1])], [3, 1], True)]


def test_resume_in_zip_and_mix(folder):
    ds = hd.read_parquet(folder)
    for whole in (ds.zip(ds), ds.mix(ds.limit(5000), weights=[1, 2])):
        batches = whole.iterator().iter_batches(batch_size=1000)
        expected = [b["id"].tolist() for b in batches]
        first = whole.iterator().iter_batches(batch_size=1000)
        passed = iter(first)
        assert [next(passed)["id"].tolist() for _ in range(7)] == expected[:7]
        rest = whole.iterator().iter_batches(batch_size=1000)
        rest.load_state_dict(first.state_dict())
        assert [b["id"].tolist() for b in rest] == expected[7:]


def test_a_rank_that_waits_alone_warns_and_names_the_others(monkeypatch):
    """The story: shares that were read one after the other in one thread hung in silence."""
    monkeypatch.setattr(hd.DataContext.get_current(), "stall_warning_s", 0.1)
    shares = hd.range(100).streaming_split(3, equal=True)
    waits = threading.Thread(target=lambda: shares[1].close() or list(shares[0].iter_batches()))
    said = r"rank 0 waits [0-9] s for epoch 0 of range\(100\) to begin: rank 2 has not begun to read it; "
    with pytest.warns(RuntimeWarning, match=said):
        waits.start()
        waits.join(2)
    assert waits.is_alive()
    assert list(shares[2].iter_batches())
    waits.join(60)
    assert not waits.is_alive()


def test_a_rank_that_hangs_in_a_thread_is_named_with_its_step(monkeypatch):
    """The story: the line named no dataset, epoch or step."""
    context = hd.DataContext.get_current()
    monkeypatch.setattr(context, "stall_warning_s", 0.1)
    monkeypatch.setattr(context, "stall_timeout_s", 0.5)
    shares = hd.range(1_000_000).streaming_split(2, equal=True)
    ends = threading.Event()

    def hang():
        passed = iter(shares[1].iter_batches(batch_size=100))
        for _ in range(3):
            next(passed)
        ends.wait(60)

    hangs = threading.Thread(target=hang)
    hangs.start()
    said = (
        r"^rank 0 waits 0 s for step \d+ of epoch 0 of range\(1000000\): rank 1 has taken 3 steps of epoch 0"
    )
    with (
        pytest.warns(RuntimeWarning, match=said + r" and none for 0 s; read all shares"),
        pytest.raises(exceptions.PeerError, match=said.replace(" 0 s", r" \d s")),
    ):
        list(shares[0].iter_batches(batch_size=100))
    ends.set()
    hangs.join(60)


@pytest.mark.parametrize("of", ["split", "streaming_split", "shard"])
def test_equal_is_a_bool(of):
    """The story: equal="no" was True, and dropped rows."""
    args = (0, 2) if of == "shard" else (2,)
    with pytest.raises(exceptions.TypeMismatchError, match=f"^{of}: equal: expected bool, found str 'no'"):
        getattr(hd.range(10), of)(*args, equal="no")
