"""Every kind of function, with every method that takes one, in every place where it may run.

The kinds are Python's callables: functions, lambdas, generators, classes, bound
methods, partials, and what is `async`. Each gets its arguments (fn_args, fn_kwargs and those of constructors)
and adds 6 to a column, classes 21. Threads run all of them; in processes, where each would start
workers, a few kinds take turns with each strategy.
"""

import asyncio
import functools
import itertools
import os
import threading
import time

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import headrace.data as hd
from headrace import exceptions
from headrace.data.expressions import col, udf

N = 20
PLAIN = {"fn_args": (2,), "fn_kwargs": {"m": 3}}
OF_CLASSES = PLAIN | {"fn_constructor_args": (10,), "fn_constructor_kwargs": {"q": 5}}


def kinds(value):
    """All kinds of functions that return `value`(argument, addend)."""

    def function(x, a=1, *, m=1):
        return value(x, a * m)

    def generator(x, a=1, *, m=1):
        yield value(x, a * m)

    async def coroutine(x, a=1, *, m=1):
        await asyncio.sleep(0)
        return value(x, a * m)

    async def async_generator(x, a=1, *, m=1):
        await asyncio.sleep(0)
        yield value(x, a * m)

    class Class:
        def __init__(self, p=0, *, q=0):
            self.n = p + q

        def __call__(self, x, a=1, *, m=1):
            return value(x, a * m + self.n)

        def method(self, x, a=1, *, m=1):
            return value(x, a * m + self.n)

        @staticmethod
        def static(x, a=1, *, m=1):
            return value(x, a * m)

        @classmethod
        def of_class(cls, x, a=1, *, m=1):
            return value(x, a * m)

    class Derived(Class):
        pass

    class Yields(Class):
        def __call__(self, x, a=1, *, m=1):
            yield value(x, a * m + self.n)

    class Awaits(Class):
        async def __call__(self, x, a=1, *, m=1):
            await asyncio.sleep(0)
            return value(x, a * m + self.n)

    class AwaitsAndYields(Class):
        async def __call__(self, x, a=1, *, m=1):
            await asyncio.sleep(0)
            yield value(x, a * m + self.n)

    return {
        "function": function,
        "lambda": lambda x, a=1, *, m=1: value(x, a * m),
        "class": Class,
        "derived class": Derived,
        "object": Class(),
        "bound method": Class().method,
        "static method": Class.static,
        "class method": Class.of_class,
        "partial": functools.partial(lambda z, x, a=1, *, m=1: value(x, a * m), "z"),
        "partial of partial": functools.partial(functools.partial(function)),
        "async function": coroutine,
        "async class": Awaits,
        "async object": Awaits(),
        "partial of async": functools.partial(coroutine),
        "generator": generator,
        "generator class": Yields,
        "iterator": lambda x, a=1, *, m=1: iter([value(x, a * m)]),
        "async generator": async_generator,
        "async generator class": AwaitsAndYields,
    }


YIELDING = ["generator", "generator class", "iterator", "async generator", "async generator class"]
KINDS = list(kinds(None))


def arguments(fn):
    return OF_CLASSES if isinstance(fn, type) else PLAIN


def added(fn):
    return 21 if isinstance(fn, type) else 6


def of_batches(batch_format):
    def value(batch, n):
        if batch_format == "numpy":
            return {"k": batch["k"], "x": batch["x"] + n, "s": batch["s"]}
        if batch_format == "pandas":
            return batch.assign(x=batch["x"] + n)
        if batch_format == "torch":  # numpy in, tensors out
            import torch

            return {"k": torch.tensor(batch["k"]), "x": torch.tensor(batch["x"]) + n}
        return batch.set_column(batch.schema.get_field_index("x"), "x", pc.add(batch["x"], n))

    return kinds(value)


def source():
    ids = list(range(N))
    return hd.from_arrow(pa.table({"k": [i % 3 for i in ids], "x": ids, "s": [str(i) for i in ids]}))


def batches(fn, batch_format, **where):
    batch_format = "numpy" if batch_format == "torch" else batch_format
    return source().map_batches(fn, batch_size=7, batch_format=batch_format, **where, **arguments(fn))


def groups(fn, batch_format, **where):
    batch_format = "numpy" if batch_format == "torch" else batch_format
    return source().groupby("k").map_groups(fn, batch_format=batch_format, **where, **arguments(fn))


def of(ds, name):
    return ds.to_arrow()[name].to_pylist()


IN_ORDER_OF_KEYS = sorted(range(N), key=lambda i: i % 3)
HERE = [{"compute": "threads"}, {"compute": "inline"}]
ELSEWHERE = [
    {"compute": "processes"},
    {"concurrency": 2},
    {"concurrency": (1, 2)},
    {"compute": hd.TaskPoolStrategy(size=1)},
    {"compute": hd.ActorPoolStrategy(min_size=1, max_size=2, initial_size=1)},
    {"compute": hd.ActorPoolStrategy(size=1, max_tasks_in_flight_per_actor=3)},
    {"compute": "actors", "concurrency": 1, "num_cpus": 0.5},
]


@pytest.mark.parametrize("batch_format", ["numpy", "pandas", "pyarrow", "torch"])
@pytest.mark.parametrize("where", HERE, ids=str)
def test_batches_and_groups(where, batch_format):
    for kind, fn in of_batches(batch_format).items():
        n = added(fn)
        assert of(batches(fn, batch_format, **where), "x") == [i + n for i in range(N)], kind
        assert of(groups(fn, batch_format, **where), "x") == [i + n for i in IN_ORDER_OF_KEYS], kind


@pytest.mark.parametrize("where", HERE, ids=str)
def test_rows_columns_and_expressions(where):
    ids = list(range(N))
    for kind, fn in kinds(lambda row, n: {"id": row["id"] + n}).items():
        if kind not in YIELDING:
            assert of(hd.range(N).map(fn, **where, **arguments(fn)), "id") == [i + added(fn) for i in ids], (
                kind
            )
    for kind, fn in kinds(lambda row, n: [{"id": row["id"] + n}]).items():
        if kind not in YIELDING:
            found = hd.range(N).flat_map(fn, **where, **arguments(fn))
            assert of(found, "id") == [i + added(fn) for i in ids], kind
    for kind, fn in kinds(lambda row, n: {"id": row["id"] + n}).items():
        if kind in YIELDING:
            found = hd.range(N).flat_map(fn, **where, **arguments(fn))
            assert of(found, "id") == [i + added(fn) for i in ids], kind
    for kind, fn in kinds(lambda row, n: row["id"] % 2 == n % 2).items():
        if kind not in YIELDING:
            found = hd.range(N).filter(fn, **where, **arguments(fn))
            assert of(found, "id") == [i for i in ids if i % 2 == added(fn) % 2], kind
    for kind, fn in kinds(lambda batch, n: batch["id"] + n).items():
        if kind not in YIELDING:
            assert of(hd.range(N).add_column("y", fn, **where), "y") == [i + 1 for i in ids], kind


@pytest.mark.parametrize("where", HERE, ids=str)
def test_expressions_of_every_kind(where):
    """The story: an async function in an expression was an AttributeError of an internal class."""
    for kind, fn in kinds(pc.add).items():
        if kind not in YIELDING:
            made = udf(return_dtype="int64")(fn)
            made = made(10, q=5) if isinstance(fn, type) else made
            n = 16 if isinstance(fn, type) else 1
            found = hd.range(N).with_column("y", made(col("id") * 2) + 100, **where)
            assert of(found, "y") == [i * 2 + n + 100 for i in range(N)], kind
            assert of(hd.range(N).filter(expr=made(col("id")) > 30, **where), "id") == list(
                range(31 - n, N)
            ), kind


@pytest.mark.parametrize("where", ELSEWHERE, ids=str)
def test_in_processes(where):
    """One plan with a function of each method; the kinds differ by strategy."""
    turn = ELSEWHERE.index(where)
    fns = itertools.islice(itertools.cycle(KINDS), turn * 3, None)
    batch_format = ["numpy", "pandas", "pyarrow"][turn % 3]
    fn = of_batches(batch_format)[next(fns)]
    expected = [i + added(fn) for i in range(N)]
    ds = batches(fn, batch_format, **where).select_columns(["x"]).with_column("k", col("x") * 0)
    fn = of_batches("numpy")[next(fns)]
    expected = [x + added(fn) for x in expected]
    ds = ds.with_column("s", col("x")).groupby("k").map_groups(fn, **where, **arguments(fn))
    if turn % 2:
        ds = ds.map(lambda row: {"x": row["x"] + 1}, **where)
    else:
        kind = next(k for k in fns if k not in YIELDING)
        fn = udf(return_dtype="int64")(kinds(pc.add)[kind])
        fn = fn() if isinstance(kinds(pc.add)[kind], type) else fn
        ds = ds.with_column("x", fn(col("x")), compute=where.get("compute", "processes"))
    assert of(ds, "x") == [x + 1 for x in expected]


def test_what_has_still_to_run_is_no_answer():
    """The story: a filter with a generator, or a lambda around an async function, kept every row."""

    async def later(row):
        return False

    async def parts(row):
        yield False

    def generator(row):
        yield False

    for fn, found in (
        (lambda r: later(r), "coroutine"),
        (parts, "async_generator"),
        (generator, "generator"),
    ):
        with pytest.raises(TypeError, match=f"returned {found}.*; expected True or False"):
            hd.range(3).filter(fn, compute="threads").take()
    with pytest.raises(
        TypeError, match=r"returned coroutine \(did you mean to declare the function `async def`\?\)"
    ):
        hd.range(3).map_batches(lambda b: later(b), compute="threads").take()
    with pytest.raises(TypeError, match=r"returned coroutine \(did you mean"):
        hd.range(3).flat_map(lambda r: later(r), compute="threads").take()
    assert of(hd.range(3).filter(lambda r: np.bool_(r["id"]), compute="threads"), "id") == [1, 2]
    assert of(hd.range(3).filter(lambda r: r["id"], compute="threads"), "id") == [1, 2]
    assert of(hd.range(3).filter(lambda r: None, compute="threads"), "id") == []


# ----------------------------------------------------------------------------------------------- exceptions


class WithName(Exception):
    """An exception whose class takes other arguments than it stores: pickle cannot rebuild it."""

    def __init__(self, *, code):
        super().__init__(f"code {code}")
        self.code = code
        self.lock = threading.Lock()


def raises(x, *rest):
    raise WithName(code=5)  # the line that is wanted


METHODS = {
    "map": lambda ds, fn, **w: ds.map(fn, **w),
    "flat_map": lambda ds, fn, **w: ds.flat_map(fn, **w),
    "filter": lambda ds, fn, **w: ds.filter(fn, **w),
    "map_batches": lambda ds, fn, **w: ds.map_batches(fn, **w),
    "map_groups": lambda ds, fn, **w: ds.groupby("id").map_groups(fn, **w),
    "add_column": lambda ds, fn, **w: ds.add_column("y", fn, **w),
    "udf": lambda ds, fn, **w: ds.with_column("y", udf()(fn)(col("id")), **w),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("compute", ["threads", "inline", "processes"])
def test_exceptions_keep_their_type(compute, method):
    """The story: an exception that did not unpickle came as CallbackError, so `except ItsType` did not
    catch it.
    """

    async def later(x):
        await asyncio.sleep(0)
        raises(x)

    class Object:
        def method(self, x):
            raises(x)

    fns = [raises] if compute == "processes" else [raises, later, Object().method, functools.partial(raises)]
    for fn in fns:
        with pytest.raises(WithName, match="code 5") as caught:
            METHODS[method](hd.range(4), fn, compute=compute).take_all()
        assert caught.value.code == 5 and "lock object" in caught.value.lock
        note = "".join(caught.value.__notes__)
        assert f"{method}(" in note and "raise WithName(code=5)  # the line that is wanted" in note
        assert "headrace/udf" not in note


def test_exceptions_that_cannot_be_made_again_at_all(monkeypatch):
    class Odd(Exception):
        def __init__(self):
            self.lock = threading.Lock()

        def __str__(self):
            return f"it is {self.lock.locked()}"

    def odd(row):
        raise Odd

    with pytest.raises(exceptions.CallbackError, match="Odd: it is False"):
        hd.range(2).map(odd, compute="threads").take()


def test_what_cannot_be_sent_is_named():
    """The story: the error was pickle's alone, "cannot pickle '_thread.lock' object"."""
    lock = threading.Lock()

    def closes_over(batch):
        with lock:
            return batch

    class Takes:
        def __init__(self, what):
            pass

        def __call__(self, batch):
            return batch

    class Holds:
        def __init__(self):
            self.guard = threading.Lock()

        def method(self, batch):
            return batch

    cases = [
        (
            (closes_over,),
            {},
            r"map_batches\(closes_over\): cannot pickle the function.*: variable lock is lock: ",
        ),
        ((lambda b, x=lock: b,), {}, "a default of <lambda> is lock"),
        ((functools.partial(lambda x, b: b, lock),), {}, "argument 1 of the partial is lock"),
        ((Takes,), {"fn_constructor_args": [lock]}, "argument 1 is lock"),
        ((Takes,), {"fn_constructor_kwargs": {"what": lock}}, "argument what is lock"),
        ((lambda b, k: b,), {"fn_kwargs": {"k": lock}}, "argument k is lock"),
        ((Holds().method,), {}, "attribute guard is lock"),
    ]
    for fn, where, text in cases:
        with pytest.raises(TypeError, match=text):
            hd.range(2).map_batches(*fn, **where).take()
    assert of(hd.range(2).map_batches(closes_over, compute="threads"), "id") == [0, 1]


@pytest.mark.parametrize(
    "wrong",
    [
        {"fn_args": 3},
        {"fn_args": "ab"},
        {"fn_kwargs": [1]},
        {"fn_constructor_args": 1},
        {"fn_constructor_kwargs": "a"},
    ],
    ids=str,
)
def test_arguments_of_a_wrong_kind(wrong):
    name = next(iter(wrong))
    for method in ("map", "flat_map", "filter", "map_batches"):
        with pytest.raises(TypeError, match=rf"{method}: {name}: expected a "):
            getattr(hd.range(3), method)(lambda x, *rest: x, **wrong)


# -------------------------------------------------------------------------- errors left out, calls done again


@pytest.fixture
def context():
    found = hd.DataContext.get_current()
    old = found.max_errored_blocks, found.retried_map_errors, found.max_map_retries
    yield found
    found.max_errored_blocks, found.retried_map_errors, found.max_map_retries = old


def least(x):
    return min(x) if isinstance(x, np.ndarray) else x


@pytest.mark.parametrize("where", [*HERE, {"concurrency": 1}], ids=str)
@pytest.mark.parametrize("waits", [False, True], ids=["plain", "async"])
def test_errors_left_out(where, waits, context):
    """Batches of 5 rows; the one with ids 5 to 9 fails."""

    def check(batch):
        if 7 in batch["id"]:
            raise LookupError("7")
        return batch

    async def check_later(batch):
        await asyncio.sleep(0)
        return check(batch)

    context.max_errored_blocks = 1
    ds = hd.range(N).map_batches(check_later if waits else check, batch_size=5, **where)
    grouped = hd.range(N).groupby("id").map_groups(check_later if waits else check, **where)
    context.max_errored_blocks = 0
    assert of(ds, "id") == [*range(5), *range(10, N)]
    assert of(grouped, "id") == [i for i in range(N) if i != 7]


@pytest.mark.parametrize("where", [*HERE, {"concurrency": 1}], ids=str)
@pytest.mark.parametrize("waits", [False, True], ids=["plain", "async"])
def test_errors_tried_again(where, waits, context, tmp_path, monkeypatch):
    def fails_once(batch):
        mark = tmp_path / str(batch["id"][0])
        if not mark.exists():
            mark.touch()
            raise ConnectionError("once")
        return batch

    async def later(batch):
        return fails_once(batch)

    monkeypatch.setattr(time, "sleep", lambda s: None)
    context.retried_map_errors, context.max_map_retries = ["ConnectionError"], 2
    ds = hd.range(4).map_batches(later if waits else fails_once, batch_size=2, **where)
    assert of(ds, "id") == [0, 1, 2, 3]


@pytest.mark.parametrize("method", ["map", "flat_map", "filter", "map_batches", "map_groups", "add_column"])
def test_a_dead_worker_is_replaced_whatever_it_ran(method, tmp_path):
    mark = tmp_path / "died"

    def dies_once(x):
        if not mark.exists():
            mark.touch()
            os._exit(3)
        return (
            {"flat_map": [x], "filter": True, "add_column": x}.get(method, x)
            if method != "add_column"
            else x["id"]
        )

    ds = METHODS[method](hd.range(4), dies_once, max_retries=1, concurrency=1)
    assert of(ds, "id") == [0, 1, 2, 3]
    mark.unlink()
    with pytest.raises(
        exceptions.PeerError, match=rf"{method}\(dies_once\).*exit status 3|{method}\(dies_once\)"
    ):
        METHODS[method](hd.range(4), dies_once, concurrency=1).take_all()


# --------------------------------------------------------------------------------------------- GPUs, frames


@pytest.mark.parametrize("method", ["map", "map_batches", "map_groups"])
def test_a_part_of_a_gpu(method, monkeypatch):
    """Works without a GPU: CUDA_VISIBLE_DEVICES names devices, and workers see their part of them."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-a,GPU-b")

    def seen(x):
        value = os.environ["CUDA_VISIBLE_DEVICES"]
        return {"seen": value if method == "map" else [value]}

    ds = METHODS[method](hd.range(3), seen, num_gpus=0.5, concurrency=1)
    assert set(of(ds, "seen")) <= {"GPU-a", "GPU-b"}
    with pytest.raises(
        exceptions.InvalidArgument, match="5 workers with num_gpus 0.5 each do not fit: found 2 GPUs"
    ):
        METHODS[method](hd.range(3), seen, num_gpus=0.5, concurrency=(5, 5))
    inside = METHODS[method](hd.range(3), seen, num_gpus=0.5, compute="threads")
    assert set(of(inside, "seen")) == {"GPU-a,GPU-b"}  # a thread sees what its process sees


@pytest.mark.parametrize("compute", ["threads", "inline"])
def test_frames_out(compute):
    """The story: a frame with two columns of one name lost one; a Series was an error about Arrow formats."""

    def twice(batch):
        return pd.DataFrame(np.ones((4, 2)), columns=["a", "a"])

    def alike(batch):
        return pd.DataFrame(np.ones((4, 2)), columns=[1, "1"])

    for fn, name in ((twice, "a"), (alike, "1")):
        with pytest.raises(ValueError, match=rf"returned a DataFrame with two columns '{name}'"):
            hd.range(4).map_batches(fn, compute=compute).take()
    for made in (pd.Series, pa.array):
        with pytest.raises(TypeError, match="which is not a table"):
            hd.range(4).map_batches(lambda b, made=made: made([1, 2]), compute=compute).take()
    indexed = hd.range(4).map_batches(lambda b: b.groupby("id").sum(), batch_format="pandas", compute=compute)
    assert indexed.count() == 0 or indexed.schema() is None


@pytest.mark.parametrize("compute", ["threads", "processes"])
def test_tensors_in_and_out(compute):
    import torch

    made = hd.range(4).map_batches(
        lambda b: {
            "i": torch.tensor(b["id"]),
            "m": torch.ones(4, 2, 3, dtype=torch.float16),
            "t": torch.arange(16).reshape(4, 4).t(),
            "ragged": [torch.arange(i) for i in range(4)],
            "grad": torch.ones(4, requires_grad=True),
        },
        compute=compute,
    )

    def back(batch):
        assert all(isinstance(v, np.ndarray) for v in batch.values())
        m, t = torch.tensor(batch["m"]), torch.tensor(batch["t"])
        assert m.shape == (4, 2, 3) and m.dtype == torch.float16
        return {"sum": m.sum((1, 2)) + t.sum(1), "n": [len(r) for r in batch["ragged"]]}

    found = made.map_batches(back, compute=compute).take_all()
    assert [r["n"] for r in found] == [0, 1, 2, 3] and found[1]["sum"] == 6 + sum(range(1, 16, 4))
    rows = made.map(lambda r: {"m": torch.tensor(r["m"]) * 2, "i": r["i"]}, compute=compute).take_batch(4)
    assert rows["m"].shape == (4, 2, 3) and rows["m"].dtype == np.float16


def test_a_declared_type_is_known_without_running():
    """The story: a filter by the expression that kept no row had no columns, and schema() ran the
    function.
    """

    @udf(return_dtype="timestamp[us, tz=UTC]")
    def never(x):
        raise AssertionError("it ran")

    ds = hd.range(N).with_column("t", never(col("id")))
    assert ds.schema().types == ["int64", "timestamp[us, tz=UTC]"]
    with pytest.raises(AssertionError, match="it ran"):
        ds.take()

    @udf(return_dtype="int64")
    def same(x):
        return x

    for compute in ("threads", "inline"):
        none = hd.range(N).filter(expr=same(col("id")) > N, compute=compute)
        assert none.to_arrow().schema == hd.range(0).to_arrow().schema
        assert none.columns() == ["id"] and none.count() == 0


def test_arguments_of_functions_are_not_for_expressions():
    """The story: a filter by an expression ignored compute=; its function always ran in processes."""
    where = []

    @udf(return_dtype="bool")
    def here(x):
        where.append(threading.get_ident())
        return pc.greater(x, 3)

    assert hd.range(6).filter(expr=here(col("id")), compute="inline").count() == 2
    assert where == [threading.get_ident()]
    with pytest.raises(exceptions.InvalidArgument, match="filter: an expression takes no arguments"):
        hd.range(3).filter(expr=col("id") > 1, fn_args=[1])
    with pytest.raises(exceptions.InvalidArgument, match="filter: compute: expected .*found 'nowhere'"):
        hd.range(3).filter(expr=col("id") > 1, compute="nowhere")
