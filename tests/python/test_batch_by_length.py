"""Batches of rows of about one length: whole in every kind of loop, for any threads and ranks, and after a
resume at any batch.
"""

import json
import threading

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace.data as hd
from headrace import exceptions, train
from headrace.data.expressions import col

N = 3000
LENGTHS = np.minimum(np.random.default_rng(1).lognormal(4, 1, N).astype(int), 900)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lengths")
    for i in range(3):
        rows = range(i * N // 3, (i + 1) * N // 3)
        tokens = [np.full(LENGTHS[r], r, np.int32) for r in rows]
        table = pa.table({"id": list(rows), "tokens": tokens, "n": LENGTHS[rows.start : rows.stop]})
        pq.write_table(table, folder / f"{i}.parquet", row_group_size=170)
    return str(folder)


def lengths(ds, **options):
    return ds.batch_by_length("tokens", max_tokens=4000, **options)


def ids(ds, **options):
    return [b["id"].tolist() for b in ds.iter_batches(batch_size=None, **options)]


def operator(ds):
    return next(o for o in ds.stats("dict")["operators"] if o["name"].startswith("batch_by_length"))


# ---------------------------------------------------------------------------------------------------- batches


def test_batches(files, capsys):
    ds = lengths(hd.read_parquet(files), buckets=[64, 256])
    seen = []
    for batch in ds.iter_torch_batches(batch_size=None, padding=True):
        rows, longest = batch["tokens"].shape
        assert rows * longest <= 4000
        assert (batch["tokens_mask"].sum(1).numpy() == LENGTHS[batch["id"].numpy()]).all()
        assert len({int(np.searchsorted([64, 256], n)) for n in LENGTHS[batch["id"].numpy()]}) == 1
        seen += batch["id"].tolist()
    assert sorted(seen) == list(range(N))
    found = operator(ds)
    assert found["tokens"] == LENGTHS.sum() and found["buckets"] == [64, 256]
    assert found["padding_rate"] == pytest.approx(
        found["padding_tokens"] / (found["tokens"] + found["padding_tokens"]), abs=1e-6
    )
    ds.explain()
    assert "batch_by_length(tokens, 4000 tokens, buckets 64,256)" in capsys.readouterr().out


def padding_rate(groups):
    padded = sum(len(g) * max(LENGTHS[g]) for g in groups)
    return 1 - sum(LENGTHS[g].sum() for g in groups) / padded


def test_padding(files):
    ds = hd.read_parquet(files)
    made = ids(lengths(ds, n_buckets=32))
    plain = ids(ds.batch_by_length("tokens", max_tokens=4000, n_buckets=1))
    assert padding_rate(made) < 0.12 < 0.5 < padding_rate(plain)


@pytest.mark.parametrize("options", [{"buckets": [50, 200]}, {}, {"max_rows": 7, "max_wait": 5}])
def test_any_threads(files, options):
    ds = lengths(hd.read_parquet(files), **options)
    want = ids(ds)
    context = hd.DataContext.get_current()
    for threads in (1, 3):
        context.num_threads = threads
        try:
            assert ids(ds) == want
        finally:
            context.num_threads = None
    assert max(map(len, want)) <= options.get("max_rows", N)


def test_lengths_in_a_column(files):
    ds = hd.read_parquet(files)
    by_column = ds.batch_by_length("n", max_tokens=4000, buckets=[100])
    assert ids(by_column) == ids(lengths(ds, buckets=[100]))


def test_long_rows(files):
    ds = hd.read_parquet(files)
    most = 300
    with pytest.raises(exceptions.DataError, match=r"max_tokens=300, found \d+ in 'tokens'.*row \d+ of"):
        ids(ds.batch_by_length("tokens", max_tokens=most))
    alone = ids(ds.batch_by_length("tokens", max_tokens=most, long_rows="alone"))
    assert sorted(sum(alone, [])) == list(range(N))
    assert all(len(g) == 1 or max(LENGTHS[g]) * len(g) <= most for g in alone)
    dropped = ds.batch_by_length("tokens", max_tokens=most, long_rows="drop")
    assert sorted(sum(ids(dropped), [])) == np.flatnonzero(most >= LENGTHS).tolist()
    assert operator(dropped)["dropped_rows"] == (most < LENGTHS).sum()


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"column": 3}, TypeError, "expected a name"),
        ({"column": "id2"}, exceptions.InvalidArgument, "id2"),
        ({"max_tokens": 0}, exceptions.InvalidArgument, "max_tokens: expected 1 to"),
        ({"max_tokens": 1.5}, TypeError, "max_tokens: expected an integer"),
        ({"buckets": [4, 4]}, exceptions.InvalidArgument, "ascending"),
        ({"buckets": []}, exceptions.InvalidArgument, "ascending"),
        ({"buckets": "12"}, TypeError, "list of lengths"),
        ({"buckets": [1], "n_buckets": 2}, exceptions.InvalidArgument, "found both"),
        ({"n_buckets": 257}, exceptions.InvalidArgument, "n_buckets: expected 1 to 256"),
        ({"long_rows": "cut"}, exceptions.InvalidArgument, "'alone'"),
        ({"max_rows": 0}, exceptions.InvalidArgument, "max_rows"),
    ],
)
def test_wrong_arguments(files, arguments, error, text):
    with pytest.raises(error, match=text):
        hd.read_parquet(files).batch_by_length(**{"column": "tokens", "max_tokens": 4000} | arguments)


def test_wrong_columns():
    ds = hd.from_items([{"t": "text", "n": 5}, {"t": "more", "n": None}])
    with pytest.raises(exceptions.TypeMismatchError, match="'t' is string, expected lists"):
        ds.batch_by_length("t", max_tokens=10)
    with pytest.raises(exceptions.DataError, match="the length in 'n' is null"):
        list(ds.batch_by_length("n", max_tokens=10).iter_batches())


def test_no_rows():
    ds = hd.from_items([{"n": 5}]).filter(expr=col("n") > 9)
    assert list(ds.batch_by_length("n", max_tokens=10).iter_batches(batch_size=None)) == []


# ------------------------------------------------------------------------------------ what follows keeps them


def test_maps_keep_batches(files):
    batches = lengths(hd.read_parquet(files), buckets=[50, 200])
    want = ids(batches)
    assert ids(batches.with_column("twice", col("id") * 2)) == want
    assert ids(batches.select_columns(["id"])) == want
    assert ids(batches.map_batches(lambda b: {"id": b["id"]})) == want
    assert ids(batches.map(lambda row: {"id": row["id"]})) == want
    odd = [[i for i in g if i % 2] for g in want]
    assert ids(batches.filter(expr=col("id") % 2 == 1)) == [g for g in odd if g]
    seen = batches.map_batches(lambda b: {"id": b["id"][:1], "rows": np.array([len(b["id"])])})
    assert [int(b["rows"][0]) for b in seen.iter_batches(batch_size=None)] == [len(g) for g in want]


@pytest.mark.parametrize("options", [{"buckets": [50, 200]}, {}])
def test_resume_at_every_batch(files, options):
    ds = lengths(hd.read_parquet(files), **options)
    want = ids(ds)
    first = ds.iterator().iter_batches(batch_size=None)
    for i, batch in enumerate(first):
        assert batch["id"].tolist() == want[i]
        if i % 7 and i < len(want) - 2:
            continue
        again = ds.iterator().iter_batches(batch_size=None)
        again.load_state_dict(json.loads(json.dumps(first.state_dict())))
        assert [b["id"].tolist() for b in again] == want[i + 1 :]


# ----------------------------------------------------------------------------------------------------- shares


def read(shares, n=None, **options):
    """The ids of the batches of each share, n at most, and the iterables."""
    loops = [s.iter_batches(batch_size=None, **options) for s in shares]
    out = [[] for _ in loops]

    def one(rank):
        for i, batch in enumerate(loops[rank]):
            out[rank].append((batch["id"].tolist(), batch.get("__pad__", np.zeros(1, bool)).tolist()))
            if n is not None and i == n - 1:
                break

    threads = [threading.Thread(target=one, args=(r,)) for r in range(len(loops))]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
        assert not t.is_alive()
    return out


@pytest.mark.parametrize("n", [1, 2, 3])
def test_shares_take_whole_batches(files, n):
    ds = lengths(hd.read_parquet(files), buckets=[50, 200])
    want = ids(ds)
    full = len(want) // n * n
    shares = ds.streaming_split(n)
    for rank, got in enumerate(read(shares)):
        assert [g for g, _ in got] == want[rank:full:n]
    stats = shares[0].stats("dict")
    assert stats["dropped_rows"] == sum(map(len, want[full:])) and stats["steps"] == full // n
    uneven = read(ds.streaming_split(n, tail="uneven"))
    assert [[g for g, _ in got] for got in uneven] == [want[r::n] for r in range(n)]


def test_shares_with_padding(files):
    ds = lengths(hd.read_parquet(files), buckets=[50, 200])
    want = ids(ds)
    n = next(n for n in (2, 3, 4, 5, 7) if len(want) % n)
    rest = len(want) % n
    shares = ds.streaming_split(n, tail="pad")
    got = read(shares)
    assert {len(g) for g in got} == {len(want) // n + 1}
    for rank in range(n):
        last, padding = got[rank][-1]
        assert last == want[len(want) - rest + rank % rest]
        assert set(padding) == {rank >= rest}
    assert shares[0].stats("dict")["padded_rows"] == sum(len(got[r][-1][0]) for r in range(rest, n))


def test_shares_resume_with_another_number(files):
    ds = lengths(hd.read_parquet(files))
    want = ids(ds)
    shares = ds.streaming_split(2)
    loops = [iter(s.iter_batches(batch_size=None)) for s in shares]
    taken = []
    for _ in range(5):
        threads = [
            threading.Thread(target=lambda r=r: taken.append(next(loops[r])["id"].tolist())) for r in (0, 1)
        ]
        for t in threads:
            t.start()
        for t in threads:
            t.join(60)
    assert sorted(taken) == sorted(want[:10])
    state = json.dumps(loops[0].iterable.state_dict())
    rest = want[10:]
    more = ds.streaming_split(3, tail="uneven")
    again = [s.iter_batches(batch_size=None) for s in more]
    for loop in again:
        loop.load_state_dict(json.loads(state))
    got = [[] for _ in again]
    threads = [
        threading.Thread(target=lambda r=r: got[r].extend(b["id"].tolist() for b in again[r]))
        for r in range(3)
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert got == [rest[r::3] for r in range(3)]


def test_a_share_of_other_plans_has_batches_of_one_size(files):
    ds = hd.read_parquet(files)
    assert [len(b) for b, _ in read(ds.streaming_split(1))[0]] == [N]


def test_dataloader_workers(files):
    torch = pytest.importorskip("torch")
    ds = lengths(hd.read_parquet(files), buckets=[50, 200]).select_columns(["id"])
    loader = torch.utils.data.DataLoader(ds.to_torch(batch_size=None), batch_size=None, num_workers=2)
    assert [features[:, 0].tolist() for features, _ in loader] == ids(ds)


def _reads_batches(config):
    share = train.get_dataset_shard("train")
    got = [b["id"].tolist() for b in share.iter_batches(batch_size=None)]
    rank = train.get_context().get_world_rank()
    with open(f"{config['folder']}/{rank}.json", "w") as out:
        json.dump(got, out)


@pytest.mark.usefixtures("forked_ranks")
def test_workers_of_a_trainer(files, tmp_path):
    """Ranks in other processes."""
    torch_trainer = pytest.importorskip("headrace.train.torch").TorchTrainer
    ds = lengths(hd.read_parquet(files), buckets=[50, 200])
    want = ids(ds)
    torch_trainer(
        _reads_batches,
        train_loop_config={"folder": str(tmp_path)},
        datasets={"train": ds},
        scaling_config=train.ScalingConfig(num_workers=2),
        run_config=train.RunConfig(name="lengths", storage_path=str(tmp_path / "runs")),
    ).fit()
    got = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]
    assert got == [want[0 : len(want) // 2 * 2 : 2], want[1 : len(want) // 2 * 2 : 2]]


# ----------------------------------------------------------------------------------------------------- memory


def test_memory(files):
    ds = hd.read_parquet(files)
    want = ids(lengths(ds))
    context = hd.DataContext.get_current()
    before = context.memory_limit_bytes
    try:
        context.memory_limit_bytes = "8MiB"
        assert ids(lengths(ds)) == want
        with pytest.raises(exceptions.MemoryLimitError, match="needs at least"):
            ids(ds.batch_by_length("tokens", max_tokens=1 << 20))
    finally:
        context.memory_limit_bytes = before


def test_long_lists_that_are_cut(files):
    ds = hd.read_parquet(files).with_column("tokens", col("tokens").list.slice(0, 100))
    found = [max(map(len, b["tokens"])) for b in ds.batch_by_length("tokens", max_tokens=100).iter_batches()]
    assert max(found) == 100
