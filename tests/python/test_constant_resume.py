"""A resume costs what lies after the position.

The rest is exact from many batches of each kind of plan, and counters show that functions, and readers as far
as they can, leave out what came before.
"""

import hashlib
import json
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace.data as hd

N = 24_000
BATCH = 300


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("constant")
    ids = np.arange(N)
    table = pa.table({"id": ids, "k": ids % 7, "text": [f"row {i}" for i in ids]})
    pq.write_table(table, path / "one.parquet", row_group_size=N)
    (path / "groups").mkdir()
    for i in range(3):
        pq.write_table(table.slice(i * 8000, 8000), path / "groups" / f"{i}.parquet", row_group_size=3000)
    rows = [json.dumps({"id": int(i), "k": int(i % 7), "text": f"row {i}"}) for i in ids]
    (path / "one.jsonl").write_text("\n".join(rows) + "\n")
    (path / "one.csv").write_text("id,k,text\n" + "".join(f"{i},{i % 7},row {i}\n" for i in ids))
    (path / "small").mkdir()
    for i in range(300):
        (path / "small" / f"{i:03}.bin").write_bytes(b"%d" % i)
    return path


def mean(batch):
    """Depends on the batch that it gets: other batches are other rows."""
    return {"id": batch["id"], "mean": np.full(len(batch["id"]), batch["id"].mean())}


def noise(batch):
    return {"id": batch["id"], "r": np.random.random(len(batch["id"]))}


def odd(row):
    return row["id"] % 3 != 1


def some(row):
    return [{"id": row["id"], "copy": i} for i in range(row["id"] % 3)]


def plain(row):
    return {"id": row["id"], "y": row["id"] * 2}


class Packer:
    """Sums of 77 rows each, across batches."""

    def __init__(self):
        self.rest = np.empty(0, np.int64)

    def __call__(self, batch):
        rows = np.concatenate([self.rest, batch["id"]])
        n = len(rows) // 77 * 77
        self.rest = rows[n:]
        return {"id": rows[:n].reshape(-1, 77).sum(axis=1)}

    def finish(self):
        return {"id": self.rest}

    def state_dict(self):
        return {"rest": self.rest}

    def load_state_dict(self, state):
        self.rest = state["rest"]


class Waits(Packer):
    def __call__(self, batch):
        time.sleep(0.012)
        return super().__call__(batch)


def numbers():
    return hd.range(N).rename_columns(["n"])


def one(d):
    return hd.read_parquet(d / "one.parquet")


def groups(d):
    return hd.read_parquet(d / "groups")


# Name: (plan, arguments of iter_batches, share of the rows that functions may give after 90 %). Short calls
# travel together, so that some thousands of rows are one result.
PLANS = {
    "parquet": (lambda d: one(d).map_batches(mean), {}, 0.75),
    "parquet, batches": (lambda d: one(d).map_batches(mean, batch_size=300), {}, 0.2),
    "groups": (lambda d: groups(d).map_batches(noise), {}, 0.75),
    "json": (lambda d: hd.read_json(d / "one.jsonl").map_batches(mean), {}, 0.75),
    "csv": (lambda d: hd.read_csv(d / "one.csv").map(plain), {}, 0.2),
    "arrow": (lambda d: hd.from_arrow(pq.read_table(d / "one.parquet")).map_batches(mean), {}, 0.75),
    "materialize": (lambda d: one(d).materialize().map_batches(mean), {}, 0.75),
    "range": (lambda d: hd.range(N).map_batches(noise), {}, 0.75),
    "range, batches": (lambda d: hd.range(N).map_batches(noise, batch_size=256), {}, 0.2),
    "two functions": (lambda d: one(d).map_batches(mean).map(plain).filter(odd), {}, 0.75),
    "filter": (lambda d: one(d).filter(odd).map_batches(mean), {}, 0.75),
    "filter by expression": (lambda d: one(d).filter(expr="k == 3").map_batches(mean), {}, 0.75),
    "flat_map": (lambda d: one(d).flat_map(some), {}, 0.75),
    "flat_map, batches": (lambda d: one(d).flat_map(some).map_batches(mean, batch_size=333), {}, 0.75),
    "union": (lambda d: one(d).map_batches(mean).union(groups(d).map_batches(mean)), {}, 0.75),
    "zip": (lambda d: one(d).map_batches(mean).zip(numbers()), {}, 0.75),
    "zip, function": (lambda d: one(d).zip(numbers()).map_batches(noise), {}, 0.75),
    "zip of zip": (
        lambda d: (
            one(d).map_batches(mean).zip(numbers().zip(hd.range(N).map(plain).rename_columns(["a", "b"])))
        ),
        {},
        0.75,
    ),
    "zip of a union": (
        lambda d: hd.range(N // 2).map_batches(mean).union(hd.range(N // 2).map_batches(mean)).zip(numbers()),
        {},
        0.75,
    ),
    "zip of a sort": (
        lambda d: one(d).map_batches(mean).zip(numbers().sort("n", descending=True)),
        {},
        0.75,
    ),
    "mix": (
        lambda d: one(d).map_batches(mean).mix(hd.range(N // 2).map_batches(mean), weights=[3, 1]),
        {},
        0.75,
    ),
    "mix of a short one": (
        lambda d: one(d).map_batches(mean).mix(hd.range(N // 8).map_batches(mean)),
        {},
        0.75,
    ),
    "mix that repeats": (
        lambda d: (
            one(d)
            .map_batches(mean)
            .mix(hd.range(N // 8).map_batches(mean), stopping_condition="all_exhausted")
        ),
        {},
        0.75,
    ),
    "union of mixes": (
        lambda d: hd.range(900).mix(hd.range(100)).union(hd.range(N).mix(hd.range(N // 2))).map(plain),
        {},
        0.75,
    ),
    "local shuffle": (lambda d: one(d).map_batches(mean), {"local_shuffle_buffer_size": 1000}, 1),
    "block order": (lambda d: groups(d).randomize_block_order(seed=3).map_batches(mean), {}, 0.75),
    "limit": (lambda d: one(d).map_batches(mean).limit(N - 7), {}, 0.75),
    "small files": (
        lambda d: hd.read_binary_files(d / "small").map(lambda r: {"id": int(r["bytes"])}),
        {"batch_size": 7},
        0.75,
    ),
    "class": (lambda d: one(d).map_batches(Packer, concurrency=1), {"batch_size": 7}, 1),
    "class, batches": (
        lambda d: one(d).map_batches(Packer, concurrency=1, batch_size=300),
        {"batch_size": 7},
        1,
    ),
    "sort": (lambda d: one(d).sort("k").map_batches(noise), {}, 0.75),
    "shuffle": (lambda d: groups(d).random_shuffle(seed=1).map_batches(mean), {}, 0.75),
    "shuffle, batches": (lambda d: groups(d).random_shuffle().map_batches(mean, batch_size=99), {}, 0.75),
    "repartition": (lambda d: one(d).repartition(9).map_batches(mean), {}, 0.75),
    "groups of a key": (
        lambda d: one(d).groupby("k").map_groups(lambda g: {"id": g["id"], "n": np.full(len(g["id"]), 1)}),
        {},
        1,
    ),
    "many groups": (
        lambda d: (
            one(d)
            .map_batches(lambda b: {"id": b["id"], "g": b["id"] // 3})
            .groupby("g")
            .map_groups(lambda g: {"id": g["id"], "n": np.full(len(g["id"]), len(g["id"]))})
        ),
        {},
        0.8,
    ),
    "join": (
        lambda d: (
            one(d).join(groups(d).select_columns(["id"]), "inner", 4, on=["id"]).sort("id").map_batches(mean)
        ),
        {},
        0.75,
    ),
    "aggregate": (
        lambda d: hd.range(N).map_batches(mean).groupby("id").count().map_batches(noise),
        {},
        1,
    ),
}


def digest(batch):
    h = hashlib.sha256()
    for name in sorted(batch):
        values = batch[name]
        h.update(name.encode())
        h.update(values.tobytes() if values.dtype != object else repr(values.tolist()).encode())
    return h.hexdigest()


def called(stats):
    names = ("map", "map_batches", "flat_map", "filter", "map_groups")
    return sum(op["rows_out"] for op in stats["operators"] if op["name"].split("(")[0] in names)


def whole_pass(ds, args):
    """All batches, and the states before each."""
    batches = ds.iter_batches(**args)
    states, digests = [], []
    for batch in batches:
        digests.append(digest(batch))
        states.append(batches.state_dict())
    return digests, states, batches.stats("dict")


@pytest.mark.parametrize("name", PLANS)
def test_the_rest_is_exact_and_not_repeated(folder, name):
    plan, args, most = PLANS[name]
    args = {"batch_size": BATCH} | args
    ds = plan(folder)
    digests, states, stats = whole_pass(ds, args)
    assert len(digests) > 8
    for at in [*range(0, len(digests), max(1, len(digests) // 4)), len(digests) - 1]:
        batches = ds.iter_batches(**args)
        batches.load_state_dict(states[at])
        assert [digest(b) for b in batches] == digests[at + 1 :], at
    batches = ds.iter_batches(**args)
    batches.load_state_dict(states[len(states) * 9 // 10])
    for _ in batches:
        pass
    assert called(batches.stats("dict")) <= most * called(stats)


@pytest.mark.parametrize("name", ["parquet", "two functions", "zip", "mix", "union", "sort", "class"])
def test_a_resumed_pass_resumes(folder, name):
    """Positions of a pass that was itself resumed."""
    plan, args, _ = PLANS[name]
    args = {"batch_size": BATCH} | args
    ds = plan(folder)
    digests, states, _ = whole_pass(ds, args)
    at, state = len(digests) // 3, states[len(digests) // 3]
    while at < len(digests) - 2:
        batches = ds.iter_batches(**args)
        batches.load_state_dict(state)
        passing = iter(batches)
        for _ in range(min(5, len(digests) - 1 - at)):
            at += 1
            assert digest(next(passing)) == digests[at]
        state = batches.state_dict()


@pytest.mark.parametrize("name", ["zip", "mix", "zip of a union", "two functions", "shuffle"])
def test_reading_ahead_does_not_matter(folder, name):
    """A position of a pass that reads ahead, in one that does not."""
    plan, _, _ = PLANS[name]
    ds = plan(folder)
    digests, states, _ = whole_pass(ds, {"batch_size": BATCH})
    for at in (3, len(digests) // 2, len(digests) - 4):
        batches = ds.iter_batches(batch_size=BATCH, prefetch_batches=0)
        batches.load_state_dict(states[at])
        assert [digest(b) for b in batches] == digests[at + 1 :]


@pytest.mark.parametrize("how", [{}, {"batch_size": 256}])
def test_a_class_goes_on_with_its_state(folder, how):
    """In the middle of a row group: the instance is not given the rows of before again."""
    ds = one(folder).map_batches(Waits, concurrency=1, compute="inline", **how)
    _, states, stats = whole_pass(ds, {"batch_size": 7})
    batches = ds.iter_batches(batch_size=7)
    batches.load_state_dict(states[len(states) * 9 // 10])
    for _ in batches:
        pass
    assert called(batches.stats("dict")) <= 0.5 * called(stats)


def test_readers_skip(folder):
    """Where a fragment knows its rows, no row before the position's block is made again."""
    for ds in (hd.range(N), hd.from_arrow(pq.read_table(folder / "one.parquet")), one(folder)):
        ds = ds.map_batches(mean)
        _, states, stats = whole_pass(ds, {"batch_size": BATCH})
        assert stats["rows_read"] == N
        batches = ds.iter_batches(batch_size=BATCH)
        batches.load_state_dict(states[len(states) * 9 // 10])
        for _ in batches:
            pass
        assert batches.stats("dict")["rows_read"] <= N // 10 + 4096 + 2 * BATCH


def test_explain_says_what_runs_again(folder, capsys):
    ds = one(folder).map_batches(mean).zip(numbers()).limit(10)
    ds.explain()
    assert "on a resume:\n  goes on at the position\n" in capsys.readouterr().out
    ds.sort("id").random_shuffle().map_batches(noise).explain()
    out = capsys.readouterr().out.split("on a resume:\n")[1].split("on several hosts:")[0]
    assert out.startswith("  random_shuffle") and "about 10 rows" in out and out.count("\n") == 1
    numbers().union(numbers().sort("n")).explain()
    assert f"  sort(n) and all before it run again, over about {N} rows" in capsys.readouterr().out


def test_ranks(folder):
    """A split has one position for all ranks; after zip too."""
    ds = one(folder).map_batches(mean).zip(numbers())

    def iterables(state=None):
        found = [s.iter_batches(batch_size=BATCH) for s in ds.streaming_split(2)]
        if state:
            for f in found:
                f.load_state_dict(state)
        return found

    def steps(passing, n):
        """The next n batches of each rank; a pass begins when all ranks begin it."""
        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(lambda p: [digest(next(p)) for _ in range(n)], passing))

    before = iterables()
    passing = [iter(i) for i in before]
    steps(passing, 30)
    state = before[0].state_dict()
    want = steps(passing, 8)
    after = iterables(state)
    assert steps([iter(i) for i in after], 8) == want
