"""State of classes: an instance belongs to one run. With concurrency=1 it sees batches in the order of the
rows, and may have finish() and state_dict().
"""

import gc
import hashlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import warnings

import numpy as np
import pytest

import headrace.data as hd
from headrace import exceptions
from headrace._core import set_num_threads
from headrace.data.aggregate import AggregateFnV2
from headrace.data.expressions import col, udf
from headrace.udf import instances

THOROUGH = bool(os.environ.get("HEADRACE_THOROUGH"))


@pytest.fixture(params=[1, 2, 8])
def threads(request):
    set_num_threads(request.param)
    yield request.param
    set_num_threads(0)


def eventually(check, seconds=60):
    """Waits for `check`; only a hang reaches the limit."""
    until = time.monotonic() + seconds
    while not (found := check()) and time.monotonic() < until:
        time.sleep(0.02)
    return found


# ---------------------------------------------------------------------------------------- an instance a run


class Counts:
    """How many rows the instance has seen."""

    def __init__(self):
        self.n = 0

    def __call__(self, batch):
        n = len(batch["id"])
        self.n += n
        return {"n": np.full(n, self.n), "who": np.full(n, hash((os.getpid(), id(self))))}


class CountsRows:
    def __init__(self):
        self.n = 0

    def __call__(self, row):
        self.n += 1
        return {"n": self.n}


class FlatCounts(CountsRows):
    def __call__(self, row):
        self.n += 1
        return [{"n": self.n}]


class KeepsHundred(CountsRows):
    """The first hundred rows that it sees."""

    def __call__(self, row):
        self.n += 1
        return self.n <= 100


class CountsColumn(CountsRows):
    def __call__(self, batch):
        self.n += len(batch)
        return [self.n] * len(batch)


class CountsGroups(CountsRows):
    def __call__(self, group):
        self.n += len(group["id"])
        return {"n": [self.n]}


class AwaitsCounts(Counts):
    async def __call__(self, batch):
        return Counts.__call__(self, batch)


@udf(return_dtype="int64")
class CountsArrow:
    def __init__(self):
        self.n = 0

    def __call__(self, ids):
        self.n += len(ids)
        return [self.n] * len(ids)


def by_key(ds):
    return ds.map_batches(lambda b: {"id": b["id"], "key": b["id"] % 7}).groupby("key")


METHODS = {
    "map_batches": (lambda ds, kw: ds.map_batches(Counts, **kw), 1000),
    "sized batches": (lambda ds, kw: ds.map_batches(Counts, batch_size=64, **kw), 1000),
    "async": (lambda ds, kw: ds.map_batches(AwaitsCounts, **kw), 1000),
    "map": (lambda ds, kw: ds.map(CountsRows, **kw), 1000),
    "flat_map": (lambda ds, kw: ds.flat_map(FlatCounts, **kw), 1000),
    "add_column": (lambda ds, kw: ds.add_column("n", CountsColumn, **kw), 1000),
    "map_groups": (lambda ds, kw: by_key(ds).map_groups(CountsGroups, **kw), 1000),
    "expression": (
        lambda ds, kw: ds.with_column("n", CountsArrow()(col("id")), compute=kw["compute"]),
        1000,
    ),
}


@pytest.mark.parametrize("method", METHODS)
def test_three_runs_of_one_dataset(method, compute):
    """The story: it counted 1000, 2000, 3000, because an instance lived as long as its worker."""
    make, want = METHODS[method]
    ds = make(hd.range(1000), {"compute": compute, "concurrency": 1})
    assert [max(r["n"] for r in ds.take_all()) for _ in range(3)] == [want] * 3


def test_filters(compute):
    ds = hd.range(1000).filter(KeepsHundred, compute=compute, concurrency=1)
    assert [ds.count() for _ in range(3)] == [100] * 3


@pytest.mark.parametrize("concurrency", [2, (2, 3), None])
def test_several_workers(concurrency, compute):
    """Together they see each row once."""
    ds = hd.range(50_000, override_num_blocks=20).map_batches(
        Counts, compute=compute, concurrency=concurrency
    )
    for _ in range(3):
        last = {}
        for row in ds.take_all():
            last[row["who"]] = max(row["n"], last.get(row["who"], 0))
        assert sum(last.values()) == 50_000


def test_a_strategy_of_one(compute):
    ds = hd.range(1000).map_batches(Counts, compute=hd.ActorPoolStrategy(size=1))
    assert [ds.take_all()[-1]["n"] for _ in range(3)] == [1000] * 3


def test_epochs_of_an_iterator_and_of_a_split(compute):
    ds = hd.range(1000).map_batches(Counts, compute=compute, concurrency=1)
    batches = ds.iterator().iter_batches(batch_size=100)
    assert [max(b["n"].max() for b in batches) for _ in range(3)] == [1000] * 3
    (share,) = ds.streaming_split(1)
    assert [max(b["n"].max() for b in share.iter_batches(batch_size=100)) for _ in range(3)] == [1000] * 3
    share.close()


def test_two_passes_at_once(compute):
    """Each has its own instance, and both see all rows in order."""
    ds = hd.range(20_000, override_num_blocks=10).map_batches(Counts, compute=compute, concurrency=1)
    one, two = ds.iterator().iter_batches(batch_size=500), ds.iterator().iter_batches(batch_size=500)
    pairs = list(zip(one, two, strict=True))
    for a, b in pairs:
        np.testing.assert_array_equal(a["n"], b["n"])
    assert pairs[-1][0]["n"].max() == 20_000
    assert pairs[0][0]["who"][0] != pairs[0][1]["who"][0]


def test_a_class_twice_in_one_plan(compute):
    """Each place in the plan has an instance, also where the two are one node."""
    ds = hd.range(1000).map_batches(Counts, compute=compute, concurrency=1)
    assert [r["n"] for r in ds.union(ds).take_all()][999::1000] == [1000, 1000]


class Object:
    def __init__(self):
        self.n = 0

    def __call__(self, batch):
        self.n += len(batch["id"])
        return {"n": np.full(len(batch["id"]), self.n)}

    def method(self, batch):
        return self(batch)


def test_objects_are_sent_anew():
    """A callable object, or an object with a bound method, begins each run in its original state."""
    for fn in (Object(), Object().method):
        ds = hd.range(1000).map_batches(fn, concurrency=1)
        assert [ds.take_all()[-1]["n"] for _ in range(3)] == [1000] * 3


class Total(AggregateFnV2):
    """An aggregate that counts its calls."""

    def __init__(self):
        super().__init__("total", lambda: 0, on="id", ignore_nulls=True)
        self.calls = 0

    def aggregate_block(self, block):
        self.calls += 1
        return self.calls

    def combine(self, a, b):
        self.calls += 1000
        return max(a, b) + self.calls


def test_aggregates_of_ones_own(context):
    """An aggregate's state belongs to one run, in workers and in this process. Each worker has its own: with
    more of them, time decides which group counts in which.
    """
    context.num_threads = 1
    total = Total()
    ds = hd.range(1000)
    assert len({ds.aggregate(total)["total"] for _ in range(3)}) == 1
    grouped = by_key(ds).aggregate(total)
    assert len({str(grouped.take_all()) for _ in range(3)}) == 1
    assert total.calls == 0


def test_processes_live_on():
    """A second run pays for an instance, not for processes; what modules keep stays."""

    class Told:
        def __call__(self, batch):
            seen = sys.modules.setdefault("headrace_test_kept", {"n": 0})
            seen["n"] += 1
            return {"pid": [os.getpid()], "n": [seen["n"]]}

    ds = hd.range(10).map_batches(Told, concurrency=1)
    rows = [ds.take_all()[0] for _ in range(3)]
    assert len({r["pid"] for r in rows}) == 1
    assert [r["n"] for r in rows] == [1, 2, 3]


CACHED = """
import functools, os
import headrace.data as hd

calls = [0]

@functools.cache
def load(path):
    calls[0] += 1
    return path

@functools.lru_cache(maxsize=2)
def other(n):
    return n

class Model:
    def __init__(self, path):
        self.path = load(path)

    def __call__(self, batch):
        return {"calls": [calls[0]], "other": [other(7)]}

ds = hd.range(10).map_batches(Model, fn_constructor_args=["model"], concurrency=1)
print([ds.take_all() for _ in range(3)])
"""


def test_caches_of_a_script_stay():
    """A cache for data that takes long to load. The story: pickle looked for it in the worker's __main__."""
    found = subprocess.run([sys.executable, "-c", CACHED], capture_output=True, text=True, timeout=300)
    assert found.stdout == f"{[[{'calls': 1, 'other': 7}]] * 3}\n", found.stderr


class Leaves:
    """Writes its construction and its end into a file."""

    def __init__(self, path, loop=False):
        self.path = path
        self.me = self if loop else None  # freed by a collection only
        self.say("+")

    def say(self, what):
        with open(self.path, "a") as file:
            file.write(what)

    def __call__(self, batch):
        if batch["id"][0] == 3000:
            raise ValueError("three")
        return batch

    def __del__(self):
        self.say("-")


def balance(path, n):
    text = path.read_text() if path.exists() else ""
    return text.count("+") == n and text.count("-") == n


@pytest.mark.parametrize("how", ["end", "close", "error", "dropped"])
def test_instances_go_when_the_run_ends(how, compute, tmp_path):
    path = tmp_path / "said"
    ds = hd.range(5000, override_num_blocks=5).map_batches(
        Leaves, fn_constructor_args=[str(path)], compute=compute, concurrency=1
    )
    it = ds.iterator().iter_batches(batch_size=1000)
    if how == "close":
        with it:
            next(iter(it))
    elif how == "dropped":
        one = iter(it)
        next(one)
        del one
        gc.collect()
    elif how == "error":
        with pytest.raises(ValueError, match="three"):
            for _ in it:
                pass
    else:
        ds.limit(2000).take_all()
    assert eventually(lambda: balance(path, 1)), path.read_text()
    if compute == "processes":
        assert ds._node.pool.pids()  # the worker is still there


def test_instances_in_cycles_go_in_workers(tmp_path):
    path = tmp_path / "said"
    ds = hd.range(10).map_batches(Leaves, fn_constructor_args=[str(path), True], concurrency=1)
    ds.take_all()
    assert eventually(lambda: balance(path, 1)), path.read_text()


class OnGpu(Leaves):
    """Its worker has a fake torch that records calls."""

    def __init__(self, path):
        import types

        def empty_cache():
            with open(path, "a") as file:
                file.write("e")

        cuda = types.SimpleNamespace(
            is_available=lambda: True, is_initialized=lambda: True, empty_cache=empty_cache
        )
        sys.modules["torch"] = types.SimpleNamespace(cuda=cuda, manual_seed=lambda n: None)
        super().__init__(path)


def test_memory_of_gpus_is_given_back(tmp_path):
    """After the instance, in the worker, which stays."""
    path = tmp_path / "said"
    ds = hd.range(10).map_batches(OnGpu, fn_constructor_args=[str(path)], concurrency=1)
    ds.take_all()
    assert eventually(lambda: path.read_text() == "+-e"), path.read_text()
    ds.take_all()
    assert eventually(lambda: path.read_text() == "+-e+-e"), path.read_text()


def test_an_instance_is_made_when_the_run_begins(tmp_path):
    """In parallel to reading and earlier steps; here the first batch waits until the instance exists."""
    path = tmp_path / "made"

    class Made:
        def __init__(self):
            path.write_text("")

        def __call__(self, batch):
            return batch

    def waits(batch):
        assert eventually(path.exists)
        return batch

    ds = hd.range(10).map_batches(waits, compute="threads").map_batches(Made, concurrency=1)
    for _ in range(2):  # by a worker that starts, and by one that is there
        assert len(ds.take_all()) == 10
        path.unlink()


SCRIPT = """
import sys, time
import headrace.data as hd

class Slow:
    def __init__(self, path):
        self.path = path
        open(path, "a").write("+")
    def __call__(self, batch):
        time.sleep(0.01)
        return batch
    def __del__(self):
        open(self.path, "a").write("-")

ds = hd.range(10_000_000).map_batches(
    Slow, fn_constructor_args=[sys.argv[1]], compute=sys.argv[2], concurrency=1, batch_size=100
)
try:
    for i, batch in enumerate(ds.iter_batches(batch_size=100)):
        if i == 3:
            print("going", flush=True)
except KeyboardInterrupt:
    pass  # its traceback holds on to the function's frame, and so to the instance
print("interrupted", flush=True)
sys.stdin.read()
"""


def test_an_interrupt_frees_instances(compute, tmp_path):
    path = tmp_path / "said"
    run = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(path), compute],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert run.stdout.readline() == "going\n"
    run.send_signal(signal.SIGINT)
    assert run.stdout.readline() == "interrupted\n"
    assert eventually(lambda: balance(path, 1)), path.read_text()
    run.communicate("")
    assert run.returncode == 0


def test_a_constructor_that_fails_is_called_again_by_the_next_run(compute, tmp_path):
    class Fails:
        def __init__(self, path):
            if not os.path.exists(path):
                raise OSError("no model yet")

        def __call__(self, batch):
            return batch

    path = tmp_path / "model"
    ds = hd.range(10).map_batches(Fails, fn_constructor_args=[str(path)], compute=compute, concurrency=1)
    for _ in range(2):
        with pytest.raises(OSError, match="no model yet"):
            ds.take_all()
    path.write_text("")
    assert ds.count() == 10 and len(ds.take_all()) == 10


# ---------------------------------------------------------------------------------- the order of the rows


def packed(values, size):
    """The reference: rows of `size` values, and a shorter one at the end."""
    return [values[i : i + size] for i in range(0, len(values), size)]


class Packer:
    """Rows of `size` values, whatever the batches; the rest comes at the end."""

    def __init__(self, size=7, end="dict"):
        self.size, self.end = size, end
        self.rest = []

    def take(self, ids):
        self.rest += ids
        n = len(self.rest) // self.size * self.size
        found = [self.rest[i : i + self.size] for i in range(0, n, self.size)]
        del self.rest[:n]
        return found

    def __call__(self, batch):
        return {"x": self.take([int(i) for i in batch["id"]])}

    def finish(self):
        if self.end == "rows":
            return self.parts()
        return {"x": [self.rest]} if self.rest else None

    def parts(self):
        for value in self.rest:
            yield {"x": [[value]]}


class GeneratingPacker(Packer):
    def __call__(self, batch):
        for row in self.take([int(i) for i in batch["id"]]):
            yield {"x": [row]}


class FlatPacker(Packer):
    def __call__(self, row):
        for found in self.take([int(row["id"])]):
            yield {"x": found}

    def finish(self):
        return [{"x": self.rest}] if self.rest else None


class AwaitingPacker(Packer):
    async def __call__(self, batch):
        import asyncio

        await asyncio.sleep(0)
        return Packer.__call__(self, batch)

    async def finish(self):
        return Packer.finish(self)


def values(rows):
    return [[int(v) for v in np.atleast_1d(r["x"])] for r in rows]


@pytest.mark.parametrize("batch_size", [None, 1000, 37])
def test_a_packer_sees_rows_in_order(compute, threads, batch_size):
    """The story: range(20000) was sometimes packed out of order, because an idle worker took the first queued
    call."""
    n = 20_000 if batch_size != 37 else 5000
    for blocks in (None, 11):
        ds = hd.range(n, override_num_blocks=blocks).map_batches(
            Packer, compute=compute, concurrency=1, batch_size=batch_size
        )
        for _ in range(3 if THOROUGH else 1):
            assert values(ds.take_all()) == packed(list(range(n)), 7)


@pytest.mark.parametrize("kind", [GeneratingPacker, FlatPacker, AwaitingPacker])
def test_packers_of_every_kind(kind, compute):
    ds = hd.range(5000, override_num_blocks=7)
    arguments = {"compute": compute, "concurrency": 1}
    ds = ds.flat_map(kind, **arguments) if kind is FlatPacker else ds.map_batches(kind, **arguments)
    for _ in range(2):
        assert values(ds.take_all()) == packed(list(range(5000)), 7)


@pytest.mark.parametrize(
    "where", ["after a filter", "after a sort", "after a function", "union", "twice", "groups"]
)
def test_packers_wherever_they_stand(where, compute):
    ids = list(range(6000))
    ds = hd.range(6000, override_num_blocks=9)
    arguments = {"compute": compute, "concurrency": 1}
    if where == "after a filter":
        ds, ids = ds.filter(expr="id % 5 == 0"), ids[::5]
    elif where == "after a sort":
        ds, ids = ds.sort("id", descending=True), ids[::-1]
    elif where == "after a function":
        ds = ds.map_batches(lambda b: b, batch_size=50, compute="threads")
    elif where == "union":
        one = ds.map_batches(Packer, **arguments)
        assert values(one.union(one).take_all()) == 2 * packed(ids, 7)
        return
    elif where == "twice":
        ds = ds.map_batches(Packer, **arguments).map_batches(
            lambda b: {"id": np.concatenate([np.atleast_1d(x) for x in b["x"]])}, compute="threads"
        )
    else:
        got = by_key(ds).map_groups(GroupPacker, **arguments).take_all()
        want = [v for k in range(7) for v in ids[k::7]]
        assert values(got) == packed(want, 7)
        return
    assert values(ds.map_batches(Packer, **arguments).take_all()) == packed(ids, 7)


class GroupPacker(Packer):
    def __call__(self, group):
        return {"x": self.take([int(i) for i in group["id"]])}


@pytest.mark.parametrize("stall", ["apply:3ms", "*:2ms"])
def test_order_under_stalls(stall, monkeypatch, compute):
    """Only debug builds stall; other builds run normally."""
    monkeypatch.setenv("HR_STALL", stall)
    ds = hd.range(5000, override_num_blocks=20).map_batches(Packer, compute=compute, concurrency=1)
    assert values(ds.take_all()) == packed(list(range(5000)), 7)


def test_without_order_of_results(compute):
    """preserve_order=False concerns results: the class still sees its batches in order."""
    context = hd.DataContext.get_current()
    context.execution_options.preserve_order = False
    try:
        ds = hd.range(20_000, override_num_blocks=11).map_batches(Packer, compute=compute, concurrency=1)
        assert sorted(values(ds.take_all())) == packed(list(range(20_000)), 7)
    finally:
        context.execution_options.preserve_order = True


def test_a_rank_shuffle_does_not_reach_below(compute, tmp_path):
    """A local shuffle or a random order of blocks does not change the order that the class sees."""
    for i in range(8):
        hd.range(1000).map_batches(lambda b, i=i: {"id": b["id"] + 1000 * i}).write_parquet(
            str(tmp_path / str(i))
        )
    paths = [str(tmp_path / str(i)) for i in range(8)]
    ds = hd.read_parquet(paths).map_batches(Packer, compute=compute, concurrency=1)
    want = packed(list(range(8000)), 7)
    shuffled = [
        r
        for b in ds.iter_batches(local_shuffle_buffer_size=50, batch_format="pyarrow")
        for r in b.to_pylist()
    ]
    assert values(shuffled) != want and sorted(values(shuffled)) == want
    assert sorted(values(ds.randomize_block_order(seed=3).take_all())) == want
    assert sorted(values(ds.random_shuffle(seed=3).take_all())) == want


def test_rows_before_a_slice_are_seen(compute):
    """The story: the engine skipped rows before a range below a class that numbers them, and it began
    with 1.
    """
    ds = hd.range(100_000).map(CountsRows, compute=compute, concurrency=1)
    _, rest = ds.split_at_indices([99_000])
    assert rest.take(2) == [{"n": 99_001}, {"n": 99_002}]


# ------------------------------------------------------------------------------------------------ finish()


def test_finish_without_batches(compute):
    """It is called once per run, even without rows."""

    class Ends:
        def __init__(self):
            self.n = 0

        def __call__(self, batch):
            self.n += len(batch["id"])
            return {"id": batch["id"]}

        def finish(self):
            return {"id": np.array([-1 - self.n])}

    for n in (0, 1, 100):
        for blocks in (None, 3) if n == 100 else (None,):
            ds = hd.range(n, override_num_blocks=blocks).map_batches(Ends, compute=compute, concurrency=1)
            for _ in range(2):
                assert [r["id"] for r in ds.take_all()] == [*range(n), -1 - n]
    nothing = (
        hd.range(100).filter(expr="id < 0").map_batches(Ends, compute=compute, concurrency=1, batch_size=10)
    )
    assert nothing.take_all() == [{"id": -1}]


def test_finish_in_every_form(compute):
    """A generator, None, rows: all that __call__ may return."""
    for end in ("dict", "rows"):
        ds = hd.range(100).map_batches(
            Packer, fn_constructor_kwargs={"end": end}, compute=compute, concurrency=1
        )
        rest = [[98, 99]] if end == "dict" else [[98], [99]]
        assert values(ds.take_all()) == packed(list(range(98)), 7) + rest
    ds = hd.range(98).map_batches(Packer, compute=compute, concurrency=1)
    assert values(ds.take_all()) == packed(list(range(98)), 7)  # None: no rows are left

    class Rows:
        def __call__(self, row):
            return {"id": int(row["id"])}

        def finish(self):
            return {"id": -1}

    assert hd.range(3).map(Rows, compute=compute, concurrency=1).take_all() == [
        {"id": 0}, {"id": 1}, {"id": 2}, {"id": -1}
    ]  # fmt: skip


def test_finish_gives_much(compute):
    """More than the engine collects at once; later steps process it as usual."""

    class Much:
        def __call__(self, batch):
            return {"x": np.zeros((0, 1000))}

        def finish(self):
            for i in range(100):
                yield {"x": np.full((100, 1000), i, "f8")}

    ds = hd.range(1000).map_batches(Much, compute=compute, concurrency=1)
    assert ds.count() == 10_000
    ds = ds.map_batches(lambda b: {"x": b["x"][:, 0]}, compute="threads")
    assert [r["x"] for r in ds.take_all()] == [i for i in range(100) for _ in range(100)]
    assert ds.limit(250).count() == 250


def test_a_limit_leaves_finish_out(compute, tmp_path):
    path = tmp_path / "finished"

    class Says(Packer):
        def finish(self):
            open(path, "a").write("x")
            return super().finish()

    ds = hd.range(20_000, override_num_blocks=4).map_batches(Says, compute=compute, concurrency=1)
    assert len(ds.take(5)) == 5
    assert not path.exists()
    assert ds.count() == 2858
    assert path.read_text() == "x"
    assert len(ds.limit(2858).take_all()) == 2858


def test_finish_that_raises(compute, context):
    """Its exception keeps its type and the user's lines; earlier rows come; max_errored_blocks may leave
    it out.
    """

    class Raises(Packer):
        def finish(self):
            raise KeyError("no end in sight")

    def make():
        return hd.range(100).map_batches(Raises, compute=compute, concurrency=1)

    rows = []
    with pytest.raises(KeyError, match="no end in sight") as found:
        for row in make().iter_rows():
            rows.append(row)
    assert values(rows) == packed(list(range(98)), 7)
    note = found.value.__notes__[0]
    assert (
        "map_batches(Raises)" in note and "finish()" in note and 'raise KeyError("no end in sight")' in note
    )
    context.max_errored_blocks = 1
    assert values(make().take_all()) == packed(list(range(98)), 7)


def test_finish_is_tried_again(compute, context, tmp_path):
    path = tmp_path / "tried"

    class Later(Packer):
        def finish(self):
            if not path.exists():
                path.write_text("")
                raise OSError("not now")
            return super().finish()

    context.retried_map_errors = ["not now"]
    context.max_map_retries = 2
    ds = hd.range(100).map_batches(Later, compute=compute, concurrency=1)
    assert values(ds.take_all()) == packed(list(range(100)), 7)


def test_batches_left_out_leave_the_instance(compute, context):
    class Once(Packer):
        def __call__(self, batch):
            if batch["id"][0] == 20:
                raise ValueError("not these")
            return super().__call__(batch)

    context.max_errored_blocks = 1
    ds = hd.range(100).map_batches(Once, compute=compute, concurrency=1, batch_size=10)
    assert values(ds.take_all()) == packed([*range(20), *range(30, 100)], 7)


def test_finish_has_a_place(compute):
    """If there is no place for its rows, the line that adds the class raises."""

    class Filters(CountsRows):
        def finish(self):
            return None

    class Wants(Packer):
        def finish(self, batch):
            return None

    ds = hd.range(100)
    with pytest.raises(exceptions.InvalidArgument, match=r"Packer.finish\(\).* use concurrency=1"):
        ds.map_batches(Packer, concurrency=2)
    with pytest.raises(exceptions.InvalidArgument, match="use concurrency=1"):
        ds.map_batches(Packer)
    with pytest.raises(exceptions.InvalidArgument, match=r"Filters.finish\(\) returns rows of its own"):
        ds.filter(Filters, compute=compute, concurrency=1)
    with pytest.raises(
        exceptions.TypeMismatchError, match=r"finish\(\): expected no parameters, found batch"
    ):
        ds.map_batches(Wants, compute=compute, concurrency=1)
    with pytest.raises(exceptions.InvalidArgument, match="pass the class Packer"):
        ds.map_batches(Packer(), compute=compute, concurrency=1)
    with pytest.raises(exceptions.InvalidArgument, match="udf_modifying_row_count"):
        ds.map_batches(Packer, compute=compute, concurrency=1, udf_modifying_row_count=False)
    ds.map_batches(Packer, compute="inline")  # there is one instance


def test_small_memory(compute):
    """Rows of 800 kB through a packer, within 16 MiB."""

    class Pairs:
        def __init__(self):
            self.rest = None

        def __call__(self, batch):
            for row in batch["x"]:
                if self.rest is None:
                    self.rest = row
                    continue
                yield {"x": np.stack([self.rest, row])[None, :, :1]}
                self.rest = None

        def finish(self):
            return None if self.rest is None else {"x": np.stack([self.rest] * 2)[None, :, :1]}

    context = hd.DataContext.get_current()
    kept = context.memory_limit_bytes
    context.memory_limit_bytes = 16 << 20
    try:
        ds = hd.range(101).map_batches(
            lambda b: {"x": np.repeat(b["id"][:, None], 100_000, 1)}, batch_size=1, compute=compute
        )
        ds = ds.map_batches(Pairs, compute=compute, concurrency=1, batch_size=4)
        rows = [np.ravel(r["x"]).tolist() for r in ds.iter_rows()]
    finally:
        context.memory_limit_bytes = kept
    assert rows == [[i, i + 1] for i in range(0, 100, 2)] + [[100, 100]]


# ------------------------------------------------------------------------------------------------ positions


class Resumes(Packer):
    def __init__(self, size=7):
        super().__init__(size)
        self.calls = 0

    def __call__(self, batch):
        self.calls += 1
        found = super().__call__(batch)
        return {"x": found["x"], "calls": [self.calls] * len(found["x"])}

    def finish(self):
        return {"x": [self.rest], "calls": [-self.calls]} if self.rest else None

    def state_dict(self):
        return {"rest": list(self.rest), "calls": self.calls}

    def load_state_dict(self, state):
        self.rest, self.calls = state["rest"], state["calls"]


class AwaitsResumes(Resumes):
    async def __call__(self, batch):
        return Resumes.__call__(self, batch)

    async def state_dict(self):
        return Resumes.state_dict(self)


def digest(batch):
    return hashlib.sha256(repr(batch.to_pylist()).encode()).hexdigest()


PLANS = {
    "pieces": lambda kw: hd.range(20_000, override_num_blocks=9).map_batches(Resumes, **kw),
    "sized": lambda kw: hd.range(20_000, override_num_blocks=9).map_batches(Resumes, batch_size=300, **kw),
    "async": lambda kw: hd.range(20_000, override_num_blocks=9).map_batches(AwaitsResumes, **kw),
    "filtered": lambda kw: (
        hd.range(20_000, override_num_blocks=40).filter(expr="id % 3000 < 700").map_batches(Resumes, **kw)
    ),
    "union": lambda kw: (
        hd.range(9000, override_num_blocks=5)
        .map_batches(Resumes, **kw)
        .union(hd.range(8000, override_num_blocks=3).map_batches(Resumes, **kw))
    ),
    "after": lambda kw: (
        hd.range(20_000, override_num_blocks=9)
        .map_batches(Resumes, **kw)
        .map_batches(lambda b: b, batch_size=11, compute="threads")
        .limit(2000)
    ),
}


@pytest.mark.parametrize("name", PLANS)
def test_resume_at_every_batch(name, compute):
    """The rest of the epoch equals the undisturbed run's, finish() included, wherever it resumes."""

    def passes():
        ds = PLANS[name]({"compute": compute, "concurrency": 1})
        return ds.iterator().iter_batches(batch_size=64, batch_format="pyarrow")

    it = passes()
    states, want = [it.state_dict()], []
    for batch in it:
        want.append(digest(batch))
        states.append(it.state_dict())
    assert len(want) > 10
    again = passes()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for i in range(0, len(states), 1 if THOROUGH else 3):
            again.load_state_dict(json.loads(json.dumps(states[i])))
            assert [digest(b) for b in again] == want[i:], i


def test_what_is_read_ahead_is_not_in_a_position(compute):
    """A position has the state after the rows that the consumer took."""
    ds = hd.range(20_000, override_num_blocks=20).map_batches(Resumes, compute=compute, concurrency=1)
    it = ds.iterator().iter_batches(batch_size=10, prefetch_batches=30, batch_format="pyarrow")
    one = iter(it)
    for _ in range(5):
        next(one)
    time.sleep(0.2)
    state = it.state_dict()
    rest = [digest(b) for b in one]
    it.load_state_dict(state)
    assert [digest(b) for b in it] == rest


@pytest.mark.parametrize("ranks", [1, 2])
def test_splits_resume(compute, ranks):
    def make():
        ds = hd.range(20_000, override_num_blocks=9).map_batches(Resumes, compute=compute, concurrency=1)
        shares = ds.streaming_split(ranks, equal=True)
        return shares, [s.iter_batches(batch_size=64, batch_format="pyarrow") for s in shares]

    def steps(passes, n=None):
        """Rounds of a step of each rank, taken in turn by this one thread."""
        from concurrent.futures import ThreadPoolExecutor

        out = []
        with ThreadPoolExecutor(len(passes)) as pool:
            while n is None or len(out) < n:
                found = list(pool.map(lambda p: next(p, None), passes))
                if all(f is None for f in found):
                    break
                out.append([f and digest(f) for f in found])
        return out

    shares, batches = make()
    passes = [iter(b) for b in batches]
    steps(passes, 9)
    state = batches[0].state_dict()
    rest = steps(passes)
    for s in shares:
        s.close()
    shares, batches = make()
    for b in batches:
        b.load_state_dict(state)
    assert steps([iter(b) for b in batches]) == rest
    for s in shares:
        s.close()


class Forgets:
    def __init__(self):
        self.n = 0

    def __call__(self, batch):
        self.n += len(batch["id"])
        return batch


class StateOfMany(Forgets):
    def state_dict(self):
        return {"n": self.n}

    def load_state_dict(self, state):
        self.n = state["n"]


def middle(ds):
    it = ds.iterator().iter_batches(batch_size=10)
    one = iter(it)
    next(one)
    state = it.state_dict()
    one.close()
    return state


def loaded(ds, state):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        it = ds.iterator().iter_batches(batch_size=10)
        it.load_state_dict(state)
        it.load_state_dict(state)
        sum(len(b["id"]) for b in it)
    return [w for w in found if "rows before" in str(w.message)]


def test_a_resume_behind_a_class_warns_once(compute):
    ds = hd.range(100).map_batches(Forgets, compute=compute, concurrency=1)
    state = middle(ds)
    (warning,) = loaded(ds, state)
    assert "map_batches(Forgets)" in str(warning.message) and "state_dict()" in str(warning.message)
    assert warning.filename == __file__
    assert not loaded(ds, state)


def test_what_a_resume_does_not_warn_of(compute):
    def function(batch):
        return batch

    single = {"compute": compute, "concurrency": 1}
    for ds in (
        hd.range(100).map_batches(function, **single),
        hd.range(100).map_batches(StateOfMany, **single),
        hd.range(100).map_batches(function, compute=compute),
    ):
        assert not loaded(ds, middle(ds))
    ds = hd.range(100).map_batches(Forgets, **single)
    assert not loaded(ds, ds.iterator().iter_batches(batch_size=10).state_dict())  # the beginning
    if compute != "inline":
        ds = hd.range(100).map_batches(StateOfMany, compute=compute, concurrency=2)
        (warning,) = loaded(ds, middle(ds))
        assert "only concurrency=1 saves state_dict" in str(warning.message)


def test_a_splits_resume_warns():
    ds = hd.range(100).map_batches(Forgets, compute="threads", concurrency=1)
    (share,) = ds.streaming_split(1)
    it = share.iter_batches(batch_size=10)
    one = iter(it)
    next(one)
    state = it.state_dict()
    one.close()
    with pytest.warns(UserWarning, match=r"map_batches\(Forgets\).*rows before"):
        it.load_state_dict(state)
    share.close()


def test_a_models_state_is_none():
    """torch's own state_dict() is the model: it is never called and not part of a position."""
    torch = pytest.importorskip("torch")

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(1, 1)

        def state_dict(self, *args, **kwargs):
            return super().state_dict(*args, **kwargs)

        def forward(self, batch):
            return {"id": batch["id"]}

    class Plain(torch.nn.Module):
        def forward(self, batch):
            return {"id": batch["id"]}

    assert not instances.keeps_state(Plain)
    ds = hd.range(100).map_batches(Plain, compute="threads", concurrency=1)
    assert "gAS" not in middle(ds)["position"]
    assert not instances.keeps_state(Model)  # load_state_dict() is torch's


def test_a_state_that_is_too_large(compute, caplog, capfd):
    """Positions stay at the last small state; a resume repeats more, and the rows are the same."""

    class Grows(Resumes):
        def state_dict(self):
            padding = b"x" * (instances.MAX_STATE_BYTES + 1 if self.calls > 3 else 10)
            return {**super().state_dict(), "padding": padding}

    def passes():
        ds = hd.range(20_000, override_num_blocks=9).map_batches(Grows, compute=compute, concurrency=1)
        return ds.iterator().iter_batches(batch_size=64, batch_format="pyarrow")

    it = passes()
    one = iter(it)
    for _ in range(30):
        next(one)
    state = it.state_dict()
    assert json.loads(state["position"])["at"][2] < 4
    assert len(state["position"]) < 4096
    rest = [digest(b) for b in one]
    again = passes()
    again.load_state_dict(state)
    assert [digest(b) for b in again] == rest
    said = caplog.text + capfd.readouterr().err
    assert "state_dict() takes" in said and str(instances.MAX_STATE_BYTES) in said


@pytest.mark.parametrize("method", ["state_dict", "load_state_dict"])
def test_states_that_raise(method, compute):
    class Raises(Resumes):
        pass

    def fails(self, *args):
        raise RuntimeError(f"{method} fails")

    def passes(cls):
        ds = hd.range(20_000, override_num_blocks=9).map_batches(cls, compute=compute, concurrency=1)
        return ds.iterator().iter_batches(batch_size=64, batch_format="pyarrow")

    it = passes(Raises)
    one = iter(it)
    for _ in range(30):
        next(one)
    state = it.state_dict()
    one.close()
    setattr(Raises, method, fails)
    again = passes(Raises)
    again.load_state_dict(state)
    with pytest.raises(RuntimeError, match=f"{method} fails"):
        list(again)


def test_another_contract_is_another_plan():
    """A position with a state does not fit a class that has none."""
    ds = hd.range(100).map_batches(Resumes, compute="threads", concurrency=1)
    it = ds.iterator().iter_batches(batch_size=5, batch_format="pyarrow")
    next(iter(it))
    state = it.state_dict()
    other = hd.range(100).map_batches(Resumes, compute="threads", concurrency=1)
    again = other.iterator().iter_batches(batch_size=5, batch_format="pyarrow")
    again.load_state_dict(state)
    assert len(list(again)) == 2  # of 14 rows and the last, five were taken

    class Resumes2(Packer):
        pass

    Resumes2.__name__, Resumes2.__qualname__ = Resumes.__name__, Resumes.__qualname__
    wrong = hd.range(100).map_batches(Resumes2, compute="threads", concurrency=1)
    with pytest.raises(exceptions.MismatchError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again = wrong.iterator().iter_batches(batch_size=5)
        again.load_state_dict(state)
        list(again)


# ------------------------------------------------------------------------------------------------- a death


def test_a_dead_worker_takes_rows_with_it(tmp_path):
    """A new instance never replaces one with finish() or a state."""
    path = tmp_path / "died"

    class Dies(Packer):
        def __call__(self, batch):
            if batch["id"][0] == 50 and not path.exists():
                path.write_text("")
                os.kill(os.getpid(), signal.SIGKILL)
            return super().__call__(batch)

    ds = hd.range(100).map_batches(Dies, concurrency=1, batch_size=10, max_retries=-1)
    with pytest.raises(
        exceptions.PeerError, match=r"map_batches\(Dies\).*rows that its instance held are lost"
    ):
        ds.take_all()
    assert values(ds.take_all()) == packed(list(range(100)), 7)  # a new run has a new one


def test_a_dead_worker_is_replaced_where_nothing_is_kept(tmp_path):
    path = tmp_path / "died"

    class Dies:
        def __call__(self, batch):
            if batch["id"][0] == 50 and not path.exists():
                path.write_text("")
                os.kill(os.getpid(), signal.SIGKILL)
            return batch

    ds = hd.range(100).map_batches(Dies, concurrency=1, batch_size=10, max_retries=-1)
    assert [r["id"] for r in ds.take_all()] == list(range(100))


def test_a_worker_that_dies_between_two_calls(context, tmp_path):
    """The story: with max_errored_blocks a new worker continued without the state."""
    context.max_errored_blocks = -1

    class Idles(Packer):
        def __call__(self, batch):
            return {"pid": [os.getpid()] * len(batch["id"])}

        def finish(self):
            return None

    ds = hd.range(100_000).map_batches(Idles, concurrency=1, batch_size=100)
    it = iter(ds.iterator().iter_batches(batch_size=100, prefetch_batches=0))
    pid = int(next(it)["pid"][0])
    time.sleep(0.3)  # windows are full, and nobody takes more
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(exceptions.PeerError, match="rows that its instance held are lost"):
        for batch in it:
            assert (batch["pid"] == pid).all()


def test_trainers_go_on(tmp_path, rank_server):
    """A restarted trainer continues in the middle of an epoch, with the packer's rest."""
    pytest.importorskip("torch")
    script = tmp_path / "train.py"
    script.write_text(
        textwrap.dedent(
            """
            import os, sys, json, tempfile
            import numpy as np
            import headrace.data as hd
            from headrace import train
            from headrace.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
            from headrace.train.torch import TorchTrainer

            class Packer:
                def __init__(self):
                    self.rest = []
                def __call__(self, batch):
                    self.rest += batch["id"].tolist()
                    n = len(self.rest) // 7 * 7
                    out = np.array(self.rest[:n]).reshape(-1, 7)
                    del self.rest[:n]
                    return {"x": out}
                def finish(self):
                    if self.rest:
                        return {"x": np.array([self.rest + [-1] * (7 - len(self.rest))])}
                def state_dict(self):
                    return self.rest
                def load_state_dict(self, state):
                    self.rest = state

            def loop(config):
                shard = train.get_dataset_shard("train")
                first = train.get_checkpoint() is None
                for i, batch in enumerate(shard.iter_batches(batch_size=50)):
                    with open(config["out"], "a") as out:
                        out.write(json.dumps(batch["x"].tolist()) + "\\n")
                    with tempfile.TemporaryDirectory() as folder:
                        train.report({"i": i}, checkpoint=Checkpoint.from_directory(folder))
                    if first and i == 5:
                        raise RuntimeError("once")

            ds = hd.range(5000, override_num_blocks=5).map_batches(Packer, concurrency=1)
            TorchTrainer(
                loop,
                train_loop_config={"out": sys.argv[1]},
                datasets={"train": ds},
                scaling_config=ScalingConfig(num_workers=1),
                run_config=RunConfig(storage_path=sys.argv[2], failure_config=FailureConfig(max_failures=1)),
            ).fit()
            """
        )
    )
    out = tmp_path / "out"
    rank_server.run([script, out, tmp_path / "runs"], tmp_path, 600)
    rows = [row for line in out.read_text().splitlines() for row in json.loads(line)]
    flat = [v for row in rows for v in row if v >= 0]
    assert flat == list(range(5000))
