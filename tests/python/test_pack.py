"""Rows of tokens: the packing against a plain one in Python, for any cut and threads, resumed at every row,
divided among ranks, in a small memory.
"""

import json
import pickle
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace.data as hd
from headrace import exceptions

ROOT = Path(__file__).resolve().parents[2]
STRATEGIES = ("concat", "first_fit", "best_fit")


# -------------------------------------------------------------------------------------------- the slow model


class Row:
    def __init__(self, age=0):
        self.segments = []
        self.age = age

    @property
    def n(self):
        return sum(map(len, self.segments))


class Model:
    """Packs one document after another; `rows` are those that have gone out."""

    def __init__(self, seq_len, strategy="concat", open_bins=64, long_documents="split"):
        self.seq_len, self.strategy, self.most, self.long = seq_len, strategy, open_bins, long_documents
        self.rows, self.open = [], []

    def close(self, row):
        if row in self.open:
            self.open.remove(row)
        self.rows.append(row)
        while self.open and len(self.rows) - self.open[0].age >= 4 * self.most:
            self.rows.append(self.open.pop(0))

    def add(self, tokens):
        if len(tokens) > self.seq_len and self.long != "split":
            tokens = tokens[: self.seq_len] if self.long == "truncate" else []
        while tokens and self.strategy == "concat":
            row = self.open[0] if self.open else Row()
            self.open = [row]
            room = self.seq_len - row.n
            row.segments.append(tokens[:room])
            tokens = tokens[room:]
            if row.n == self.seq_len:
                self.open = []
                self.rows.append(row)
        while len(tokens) >= self.seq_len:
            row = Row()
            row.segments.append(tokens[: self.seq_len])
            tokens = tokens[self.seq_len :]
            self.close(row)
        if tokens:
            self.place(tokens)

    def place(self, tokens):
        fits = [row for row in self.open if row.n + len(tokens) <= self.seq_len]
        if not fits:
            if len(self.open) == self.most:
                self.close(max(self.open, key=lambda row: row.n))
            self.open.append(Row(len(self.rows)))
            fits = self.open[-1:]
        row = fits[0] if self.strategy == "first_fit" else max(fits, key=lambda row: row.n)
        row.segments.append(tokens)
        if row.n == self.seq_len:
            self.close(row)

    def finish(self, drop_last=False):
        if not drop_last:
            self.rows += self.open
        return self.rows


def model(docs, seq_len, strategy="concat", *, bos=None, eos=None, pad=0, drop_last=False, **how):
    """The rows as (tokens, segment ids, position ids, loss mask)."""
    m = Model(seq_len, strategy, **how)
    for doc in docs:
        if len(doc):
            m.add([bos] * (bos is not None) + list(doc) + [eos] * (eos is not None))
    out = []
    for row in m.finish(drop_last):
        fill = seq_len - row.n
        out.append(
            (
                [t for s in row.segments for t in s] + [pad] * fill,
                [i + 1 for i, s in enumerate(row.segments) for _ in s] + [0] * fill,
                [i for s in row.segments for i in range(len(s))] + [0] * fill,
                [i > 0 for s in row.segments for i in range(len(s))] + [False] * fill,
            )
        )
    return out


NAMES = ("t", "segment_ids", "position_ids", "loss_mask")


def rows_of(batches):
    out = []
    for b in batches:
        out += zip(*(b[name].tolist() for name in NAMES), strict=True)
    return [tuple(row) for row in out]


def some_docs(seed, n, longest):
    """Documents of other tokens each; lengths as in text: many short ones, few long ones."""
    rng = np.random.default_rng(seed)
    lengths = np.minimum(rng.lognormal(np.log(longest / 6), 1, n).astype(int), longest)
    tokens = np.arange(100, 100 + lengths.sum(), dtype=np.int32)
    return np.split(tokens, np.cumsum(lengths)[:-1])


def dataset(docs, size=None):
    """A Dataset of these documents, in tables of `size`."""
    table = pa.table({"x": np.arange(len(docs)), "t": pa.array(docs, pa.list_(pa.int32()))})
    parts = [table.slice(i, size) for i in range(0, len(docs), size)] if size and docs else [table]
    return hd.from_arrow(pa.concat_tables(parts))


# --------------------------------------------------------------------------------------------------- packing


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_rows(data):
    docs = data.draw(st.lists(st.integers(0, 40), max_size=120))
    docs = [list(range(1000 * i, 1000 * i + n)) for i, n in enumerate(docs)]
    strategy = data.draw(st.sampled_from(STRATEGIES))
    seq_len = data.draw(st.integers(1, 50))
    how = {"open_bins": data.draw(st.integers(1, 9))}
    how |= {"long_documents": data.draw(st.sampled_from(["split", "truncate", "drop"]))}
    how |= {"drop_last": data.draw(st.booleans())}
    bos, eos, pad = (data.draw(st.sampled_from([None, -5])) for _ in range(3))
    packed = dataset(docs, data.draw(st.integers(1, 50))).pack(
        seq_len, strategy, bos_token_id=bos, eos_token_id=eos, pad_token_id=pad, loss_mask="loss_mask", **how
    )
    want = model(docs, seq_len, strategy, bos=bos, eos=eos, pad=pad or 0, **how)
    assert rows_of(packed.iter_batches(batch_size=None)) == want
    assert rows_of(packed.iter_batches(batch_size=3)) == want


@pytest.fixture(scope="module")
def docs():
    return some_docs(1, 6000, 300)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, docs):
    path, begin = tmp_path_factory.mktemp("tokens"), 0
    for f, n in enumerate([2500, 1, 0, 1499, 2000]):
        part = pa.table({"x": np.arange(begin, begin + n), "t": pa.array(docs[begin : begin + n])})
        pq.write_table(part, path / f"{f}.parquet", row_group_size=600)
        begin += n
    return path


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_threads_do_not_matter(folder, docs, strategy):
    want = model(docs, 256, strategy, open_bins=16)
    context = hd.DataContext.get_current()
    ds = hd.read_parquet(folder).pack(256, strategy, open_bins=16, loss_mask="loss_mask")
    try:
        for threads in (1, 2, 8):
            context.num_threads = threads
            assert rows_of(ds.iterator().iter_batches(batch_size=100)) == want
    finally:
        context.num_threads = None


def test_columns_and_types(folder):
    ds = hd.read_parquet(folder).pack(
        128, columns="t", loss_mask="mask", segment_ids="doc", position_ids=None
    )
    assert ds.columns() == ["t", "doc", "mask"]
    assert "ArrowTensorTypeV2(shape=(128,), dtype=int32)" in str(ds.schema())
    batch = next(iter(ds.iter_batches(batch_size=7)))
    assert {k: (v.dtype.name, v.shape) for k, v in batch.items()} == {
        "t": ("int32", (7, 128)), "doc": ("int32", (7, 128)), "mask": ("bool", (7, 128))
    }  # fmt: skip
    assert "columns=[t]" in explained(ds)  # x is not read


def explained(ds):
    return ds._node.plan.explain()


def test_several_columns():
    docs = [[1, 2, 3], [4, 5], [6], [7, 8, 9, 10]]
    weights = [[0.5 * v for v in doc] for doc in docs]
    table = pa.table(
        {
            "ids": pa.array(docs, pa.large_list(pa.int64())),
            "labels": pa.array([[-v for v in doc] for doc in docs], pa.list_(pa.int16())),
            "weight": pa.array(weights, pa.list_(pa.float64())),
        }
    )
    ds = hd.from_arrow(table).pack(
        6,
        "best_fit",
        columns=["labels", "ids", "weight"],
        eos_token_id={"ids": 99, "labels": -99, "weight": 1},
        pad_token_id={"labels": -100},
    )
    batch = next(iter(ds.iter_batches()))
    assert list(batch) == ["labels", "ids", "weight", "segment_ids", "position_ids"]
    assert batch["ids"].tolist() == [[1, 2, 3, 99, 6, 99], [4, 5, 99, 0, 0, 0], [7, 8, 9, 10, 99, 0]]
    assert batch["labels"].tolist()[2] == [-7, -8, -9, -10, -99, -100]
    assert batch["weight"].tolist()[1] == [2.0, 2.5, 1.0, 0, 0, 0]
    assert [batch[k].dtype.name for k in ("labels", "ids", "weight")] == ["int16", "int64", "float64"]


@pytest.mark.parametrize("kind", ["lists", "arrays", "arrow"])
def test_behind_a_function(kind):
    """The columns are known when the first batch is there; NumPy arrays of any lengths are documents."""
    docs = [np.arange(i % 7, dtype=np.int64) + i for i in range(50)]

    def tokenize(batch):
        found = [docs[i] for i in batch["id"]]
        if kind == "arrow":
            return pa.table({"t": pa.array(found)})
        if kind == "lists":
            return {"t": [d.tolist() for d in found]}
        column = np.empty(len(found), object)
        column[:] = found
        return {"t": column}

    ds = hd.range(50).map_batches(tokenize, batch_size=8, compute="threads").pack(20, loss_mask="loss_mask")
    assert rows_of(ds.iter_batches()) == model(docs, 20)


def test_functions_behind_it(docs):
    """Blocks of functions are cut from the packed rows: calls do not depend on how documents were read."""

    def tag(batch):
        return {"first": batch["t"][:, 0], "n": np.full(len(batch["t"]), len(batch["t"]))}

    want = None
    for size in (None, 1, 777):
        packed = dataset(docs[:3000], size).pack(8, "first_fit")
        found = packed.map_batches(tag, compute="threads").take_all()
        want = want or found
        assert found == want
    assert {row["n"] for row in want[:4096]} == {4096}


def test_order_of_documents(folder, docs):
    """Shuffled documents: other rows in each epoch, each time all tokens once."""
    ds = hd.read_parquet(folder).random_shuffle().pack(128, "best_fit", loss_mask="loss_mask")
    batches = ds.iterator().iter_batches(batch_size=50)
    epochs = [rows_of(batches), rows_of(batches)]
    assert epochs[0] != epochs[1]
    tokens = [sorted(t for row in e for t, s in zip(row[0], row[1], strict=True) if s) for e in epochs]
    assert tokens[0] == tokens[1] == sorted(t for doc in docs for t in doc.tolist())


def test_no_documents():
    assert dataset([[]] * 5).pack(8).take_all() == []
    assert hd.range(10).map_batches(lambda b: {"t": [[1]] * 10}).filter(expr="False").pack(8).take_all() == []


# -------------------------------------------------------------------------------------------------- resuming

BINS = {"open_bins": 8, "loss_mask": "loss_mask"}
PLANS = {
    "read": lambda d: d.pack(128, "best_fit", **BINS),
    "concat": lambda d: d.pack(100, loss_mask="loss_mask", eos_token_id=7),
    "dropped": lambda d: d.pack(128, "first_fit", drop_last=True, **BINS),
    "filter": lambda d: d.filter(expr="x % 3 != 1").pack(64, "first_fit", **BINS),
    "union": lambda d: d.limit(900).union(d.limit(700)).pack(128, "best_fit", **BINS),
    "shuffle": lambda d: d.limit(2500).random_shuffle().pack(128, "best_fit", **BINS),
    "limit": lambda d: d.pack(128, "best_fit", **BINS).limit(333),
    "function": lambda d: d.map_batches(lambda b: b, batch_size=50, compute="threads").pack(
        128, "best_fit", **BINS
    ),
    "twice": lambda d: d.pack(16, "first_fit", segment_ids="a", position_ids="b").pack(
        128, columns="t", loss_mask="loss_mask"
    ),
}


@pytest.mark.parametrize("name", PLANS)
def test_resume_at_rows(folder, name):
    """From every k-th row, through JSON text, and once more from a place after it."""
    whole = rows_of(PLANS[name](hd.read_parquet(folder)).iter_batches(batch_size=1))
    step = max(1, len(whole) // 12)
    ds = PLANS[name](hd.read_parquet(folder))
    first = ds.iterator().iter_batches(batch_size=1)
    passed, states = iter(first), {}
    for i in range(len(whole)):
        if i % step == 0:
            states[i] = json.dumps(first.state_dict())
        next(passed)
    states[len(whole)] = json.dumps(first.state_dict())
    passed.close()
    for i, state in states.items():
        rest = ds.iterator().iter_batches(batch_size=1)
        rest.load_state_dict(json.loads(state))
        after = iter(rest)
        seen = [next(after) for _ in range(min(37, len(whole) - i))]
        state = rest.state_dict()
        after.close()
        again = ds.iterator().iter_batches(batch_size=1)
        again.load_state_dict(state)
        assert rows_of(seen) + rows_of(again) == whole[i:]


def test_resuming_reads_little(tmp_path):
    """A resume reads the documents of the open rows again, not all of them."""
    docs = some_docs(2, 40_000, 300)
    pq.write_table(pa.table({"t": pa.array(docs)}), tmp_path / "a.parquet", row_group_size=500)
    ds = hd.read_parquet(tmp_path).pack(512, "best_fit")
    first = ds.iterator().iter_batches(batch_size=16)
    n = sum(1 for _ in first)
    passed = iter(first)
    for _ in range(9 * n // 10):
        next(passed)
    state = first.state_dict()
    passed.close()
    rest = ds.iterator().iter_batches(batch_size=16)
    rest.load_state_dict(state)
    assert sum(1 for _ in rest) == n - 9 * n // 10
    assert rest.stats("dict")["rows_read"] <= 4000 + 4500
    assert len(json.dumps(state)) < 4096


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_resume_within_a_large_table(strategy):
    """Tables came in pieces of 4 MB, and a resume packed that of its row from the beginning."""
    lengths = np.arange(100_000) % 60 + 1
    values = pa.ListArray.from_arrays(np.concatenate([[0], np.cumsum(lengths)]), np.arange(lengths.sum()))
    packed = hd.from_arrow(pa.table({"t": values})).pack(256, strategy)  # 24 MB
    batches = packed.iterator().iter_batches(batch_size=16)
    discards = []
    for i, _ in enumerate(batches):
        if i % 50 == 0:
            discards.append(json.loads(batches.state_dict()["position"])["discard"])
    assert len(discards) > 14
    assert max(discards) < 800  # of 12,000 rows: some pieces of 256 kB, and what is open


def test_a_position_of_another_packing(folder):
    first = hd.read_parquet(folder).pack(128, "best_fit").iterator().iter_batches(batch_size=8)
    next(iter(first))
    state = first.state_dict()
    for other in (
        {"seq_len": 128, "strategy": "first_fit"},
        {"seq_len": 129, "strategy": "best_fit"},
        {"seq_len": 128, "strategy": "best_fit", "open_bins": 65},
        {"seq_len": 128, "strategy": "best_fit", "eos_token_id": 1},
    ):
        rest = hd.read_parquet(folder).pack(**other).iterator().iter_batches(batch_size=8)
        rest.load_state_dict(state)
        with pytest.raises(exceptions.MismatchError):
            next(iter(rest))


# ----------------------------------------------------------------------------------------------------- ranks


def taken(shares, n_steps=None, state=None):
    """The rows of all shares, step by step, from `state` on; and the state after them."""
    seen, states = [[] for _ in shares], [None] * len(shares)
    together = threading.Barrier(len(shares))

    def consume(rank):
        batches = shares[rank].iter_batches(batch_size=5)
        if state is not None:
            batches.load_state_dict(state)
        for i, batch in enumerate(batches):
            seen[rank].append(rows_of([batch]))
            if i + 1 == n_steps:
                together.wait(20)
                states[rank] = batches.state_dict()
                together.wait(20)
                break

    threads = [threading.Thread(target=consume, args=(rank,)) for rank in range(len(shares))]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    return [row for step in zip(*seen, strict=True) for batch in step for row in batch], states[0]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_ranks_share_one_order(folder, docs, strategy):
    want = model(docs, 128, strategy, open_bins=8)
    ds = hd.read_parquet(folder).pack(128, strategy, open_bins=8, loss_mask="loss_mask")
    for ranks in (1, 2, 3):
        found, _ = taken(ds.streaming_split(ranks, equal=True))
        assert found == want[: len(found)]
        assert len(want) - len(found) < ranks


def test_other_numbers_of_ranks_go_on(folder, docs):
    want = model(docs, 128, "best_fit", open_bins=8)
    ds = hd.read_parquet(folder).pack(128, "best_fit", open_bins=8, loss_mask="loss_mask")
    for before, after in ((2, 3), (3, 1), (1, 2)):
        head, state = taken(ds.streaming_split(before, equal=True), n_steps=11)
        tail, _ = taken(ds.streaming_split(after, equal=True), state=state)
        assert head == want[: 11 * 5 * before]
        assert head + tail == want[: len(head) + len(tail)]
        assert len(want) - len(head) - len(tail) < after


# --------------------------------------------------------------------------------------------- memory, stats


def pack_stats(ds):
    return next(o for o in ds.stats("dict")["operators"] if o["name"].startswith("pack("))


def test_stats():
    docs = [list(range(n)) for n in (3, 0, 9, 4, 2, 20, 5)]
    ds = dataset(docs).pack(8, "first_fit", long_documents="truncate", eos_token_id=1)
    rows = sum(len(b["t"]) for b in ds.iter_batches())
    stats = pack_stats(ds)
    assert stats["rows_out"] == rows
    assert stats["tokens"] + stats["padding_tokens"] == 8 * rows
    assert stats["tokens"] == sum(min(8, len(d) + 1) for d in docs if d)
    assert stats["padding_rate"] == round(stats["padding_tokens"] / (8 * rows), 6)
    assert stats["truncated_tokens"] == 2 + 13
    assert stats["empty_documents"] == 1
    ds = dataset(docs).pack(8, long_documents="drop", drop_last=True)
    assert [len(b["t"]) for b in ds.iter_batches()] == [1]
    assert pack_stats(ds)["dropped_tokens"] == 9 + 20 + 6


def test_padding():
    """What bounded best fit leaves as padding, of documents with lengths as in text: under 1.5 %."""
    docs = some_docs(3, 20_000, 2048)
    rates = {}
    for strategy in STRATEGIES:
        ds = dataset(docs).pack(2048, strategy)
        for _ in ds.iter_batches(batch_size=256):
            pass
        rates[strategy] = pack_stats(ds)["padding_rate"]
    assert rates["concat"] < 0.001 < rates["best_fit"] < rates["first_fit"]
    assert rates["best_fit"] < 0.015


def test_memory(tmp_path, context):
    """Only the open rows stay, whatever the number of documents; a limit below that is refused."""
    context.num_threads = 2  # each has pieces of work
    n = 30_000
    tokens = np.ones(n * 200, np.int32)
    for i in range(4):
        table = pa.table({"t": pa.ListArray.from_arrays(np.arange(0, n * 200 + 1, 200, np.int32), tokens)})
        pq.write_table(table, tmp_path / f"{i}.parquet", row_group_size=2000)
    ds = hd.read_parquet(tmp_path).pack(4096, "best_fit", open_bins=64)
    for limit in ("24MiB", "200MiB"):
        context.memory_limit_bytes = limit
        assert sum(len(b["t"]) for b in ds.iter_batches(batch_size=8)) == n * 4 // 20
        assert pack_stats(ds)["peak_bytes"] < 64 << 20  # of 290 MB that come out
    context.memory_limit_bytes = "8MiB"
    with pytest.raises(exceptions.MemoryLimitError, match="8388608"):
        next(iter(hd.read_parquet(tmp_path).pack(65_536, "best_fit").iter_batches()))


# -------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    "arguments, error, text",
    [
        ({"seq_len": 0}, ValueError, "rows of 0 tokens; expected 1 to"),
        ({"seq_len": "8"}, TypeError, "seq_len: expected an integer"),
        ({"strategy": "worst_fit"}, ValueError, "expected one of 'concat', 'first_fit', 'best_fit'"),
        ({"long_documents": "cut"}, ValueError, "expected one of 'split', 'truncate', 'drop'"),
        ({"open_bins": 0}, ValueError, "open_bins: expected 1 to 1024, found 0"),
        ({"open_bins": 2000}, ValueError, "2000 open bins"),
        ({"columns": "x"}, TypeError, "column 'x' is int64, expected a list of numbers"),
        ({"columns": ["t", "t"]}, ValueError, "a name comes twice"),
        ({"columns": "none"}, ValueError, "none"),
        ({"columns": 5}, TypeError, "columns: expected names of columns, found 5"),
        ({"eos_token_id": 2**31}, ValueError, "eos is 2147483648, no value of column 't'"),
        ({"eos_token_id": {"t": 1}}, ValueError, "a dict needs columns="),
        ({"columns": ["t", "u"], "eos_token_id": 1}, ValueError, "a value for each of the columns t, u"),
        ({"columns": ["t", "u"], "bos_token_id": {"t": 1}}, ValueError, "no value for column 'u'"),
        ({"columns": ["t"], "pad_token_id": {"x": 1}}, ValueError, "'x' is none of the columns t"),
        ({"segment_ids": "t"}, ValueError, "two columns would be called 't'"),
        ({"loss_mask": True}, TypeError, "expected the name of a column, or None"),
    ],
)
def test_refusals(arguments, error, text):
    ds = dataset([[1, 2], [3]])
    if isinstance(arguments.get("columns"), list) and "u" in arguments["columns"]:
        ds = hd.from_arrow(pa.table({"t": [[1]], "u": [[2]]}))
    with pytest.raises(error, match=text):
        ds.pack(**({"seq_len": 8} | arguments))


def test_bad_documents(tmp_path):
    ds = hd.from_arrow(pa.table({"a": [[1], [2, 3]], "b": [[1], [2]]})).pack(8)
    with pytest.raises(exceptions.DataError, match="'a' has 2 tokens, 'b' has 1, row 1 of"):
        ds.take_all()
    pq.write_table(pa.table({"t": [[1], [2, None]]}), tmp_path / "x.parquet")
    with pytest.raises(exceptions.DataError, match=r"a token of 't' is null, row 1 of .*x\.parquet"):
        hd.read_parquet(tmp_path).pack(8).take_all()
    with pytest.raises(exceptions.TypeMismatchError, match="no column is a list of numbers; columns: 'id'"):
        hd.range(3).pack(8)


def test_the_benchmark():
    command = [sys.executable, "bench/packing.py", "--documents", "300", "--runs", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    for strategy in STRATEGIES:
        assert f"| {strategy} | headrace |" in done.stdout


def test_a_packed_dataset_pickles(docs):
    ds = dataset(docs[:100]).pack(64, "best_fit", loss_mask="loss_mask")
    again = pickle.loads(pickle.dumps(ds))
    assert rows_of(again.iter_batches()) == rows_of(ds.iter_batches())
    assert ds._node.describe() == "pack(64, best_fit)"
