"""User functions: arguments, results, where they run, and processes afterwards."""

import datetime
import functools
import gc
import os
import random
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from process_tree import gone

import headrace.data as hd
from headrace import exceptions
from headrace.udf import processes

COMPUTE = ["processes", "threads", "inline"]


def column(ds, name="id"):
    return ds.to_arrow()[name].to_pylist()


# --------------------------------------------------------------------------------------- what functions get


def test_map_batches(compute):
    def double(batch):
        assert type(batch) is dict and isinstance(batch["id"], np.ndarray)
        return {"id": batch["id"] * 2}

    assert column(hd.range(10_000).map_batches(double, compute=compute)) == list(range(0, 20_000, 2))


def test_the_batch_dict_is_the_functions_own(compute):
    def change(batch):
        batch["y"] = batch["x"] + 1
        del batch["x"]
        return batch

    ds = hd.from_items([{"x": [i], "z": i} for i in range(50)]).map_batches(change, compute=compute)
    assert ds.columns() == ["z", "y"]
    assert ds.take_batch(50)["y"].tolist() == [[i + 1] for i in range(50)]


def test_batches_are_read_only_unless_asked(compute):
    def write(batch):
        batch["id"][:] = 7
        return batch

    with pytest.raises(ValueError, match="read-only"):
        hd.range(10).map_batches(write, compute=compute).take()
    ds = hd.range(10).materialize()
    assert column(ds.map_batches(write, compute=compute, zero_copy_batch=False)) == [7] * 10
    assert column(ds) == list(range(10))


@pytest.mark.parametrize("batch_format", ["numpy", "default", "pandas", "pyarrow", None])
def test_formats(compute, batch_format):
    expected = {"pandas": pd.DataFrame, "pyarrow": pa.Table, None: pa.Table}.get(batch_format, dict)

    def same(batch):
        assert isinstance(batch, expected), type(batch)
        return batch

    source = pa.table({"i": [1, 2, 3], "s": ["a", "b", "c"], "x": [[1.0], [2.0], [3.0]]})
    ds = hd.from_arrow(source).map_batches(same, batch_format=batch_format, compute=compute)
    found = ds.to_arrow()
    assert found["i"].to_pylist() == [1, 2, 3] and found["s"].to_pylist() == ["a", "b", "c"]
    assert [list(v) for v in ds.to_pandas()["x"]] == [[1.0], [2.0], [3.0]]


def test_exact_batch_sizes(compute):
    def size(batch):
        return {"n": [len(batch["id"])], "first": [batch["id"][0]]}

    sizes = hd.range(10_000).map_batches(size, batch_size=3000, compute=compute).to_arrow()
    assert sizes["n"].to_pylist() == [3000, 3000, 3000, 1000]
    assert sizes["first"].to_pylist() == [0, 3000, 6000, 9000]
    whole = hd.range(10_000).map_batches(size, compute=compute).to_arrow()["n"].to_pylist()
    assert max(whole) == 4096 and sum(whole) == 10_000


def test_map(compute):
    def describe(row):
        assert type(row) is dict and type(row["id"]) is int
        return {"id": row["id"], "text": str(row["id"]), "half": row["id"] / 2, "none": None}

    found = hd.range(1000).map(describe, compute=compute).take_all()
    assert found[999] == {"id": 999, "text": "999", "half": 499.5, "none": None} and len(found) == 1000


def test_rows_have_arrays_of_their_own(compute):
    def scale(row):
        assert row["image"].shape == (2, 3)
        row["image"] *= 2
        row["flat"] += 1
        return row

    items = [{"image": [[i, 1, 2], [3, 4, 5]], "flat": [i, i]} for i in range(20)]
    source = hd.from_items(items)
    ds = source.map(scale, compute=compute)
    batch = ds.take_batch(20)
    assert batch["image"].shape == (20, 2, 3) and batch["image"][7, 0, 0] == 14
    assert batch["flat"][5].tolist() == [6, 6]
    assert source.take(3)[2]["flat"].tolist() == [2, 2]


def test_flat_map_and_filter(compute):
    ds = hd.range(100)
    assert column(ds.flat_map(lambda r: [r] * (r["id"] % 3), compute=compute)) == [
        i for i in range(100) for _ in range(i % 3)
    ]
    assert column(ds.flat_map(lambda r: (r for _ in range(2)), compute=compute)) == [
        i for i in range(100) for _ in range(2)
    ]
    assert column(ds.filter(lambda r: r["id"] % 7 == 0, compute=compute)) == list(range(0, 100, 7))
    assert ds.filter(lambda r: False, compute=compute).take_all() == []
    assert ds.filter(lambda r: np.bool_(True), compute=compute).count() == 100
    assert column(ds.filter(lambda r: r["id"] > 50, compute=compute).limit(3)) == [51, 52, 53]


def test_add_column(compute):
    ds = hd.range(10)
    assert column(ds.add_column("sq", lambda df: df["id"] ** 2, compute=compute), "sq") == [
        i * i for i in range(10)
    ]
    numpy = ds.add_column("n", lambda b: b["id"] + 0.5, batch_format="numpy", compute=compute)
    assert numpy.columns() == ["id", "n"] and column(numpy, "n")[3] == 3.5
    replaced = ds.add_column("id", lambda df: df["id"].astype(str), compute=compute)
    assert column(replaced) == [str(i) for i in range(10)]


class Adder:
    def __init__(self, n, *, times=1):
        self.n = n * times
        self.pid = os.getpid()

    def __call__(self, batch, extra=0):
        return {"id": batch["id"] + self.n + extra, "calls": np.full(len(batch["id"]), self.pid)}


def test_classes(compute):
    ds = hd.range(5000).map_batches(
        Adder,
        fn_constructor_args=[10],
        fn_constructor_kwargs={"times": 2},
        fn_kwargs={"extra": 1},
        compute=compute,
        concurrency=1,
    )
    assert column(ds) == list(range(21, 5021))
    pids = set(column(ds, "calls"))
    assert (pids == {os.getpid()}) == (compute != "processes") and len(pids) == 1


def test_function_arguments(compute):
    def add(row, a, b=0):
        return {"id": row["id"] + a + b}

    assert column(hd.range(3).map(add, fn_args=[1], fn_kwargs={"b": 10}, compute=compute)) == [11, 12, 13]
    partial = functools.partial(add, a=5)
    assert column(hd.range(3).map(partial, compute=compute)) == [5, 6, 7]


def test_generators(compute):
    def split(batch):
        for value in batch["id"]:
            yield {"id": [value, -value]}

    assert column(hd.range(5).map_batches(split, compute=compute)) == [v for i in range(5) for v in (i, -i)]

    def nothing(batch):
        yield from ()

    assert hd.range(5).map_batches(nothing, compute=compute).take_all() == []


def test_chains(compute):
    ds = (
        hd.range(2000)
        .map_batches(lambda b: {"id": b["id"] + 1}, compute=compute)
        .filter(lambda r: r["id"] % 2 == 0, compute=compute)
        .map(lambda r: {"id": r["id"] // 2}, compute=compute)
    )
    assert column(ds) == list(range(1, 1001))
    assert ds.count() == 1000


# -------------------------------------------------------------------------------- what functions may return

RESULTS = {
    "lists": (lambda b: {"a": [1, 2, 3], "b": ["x", None, "z"]}, {"a": [1, 2, 3], "b": ["x", None, "z"]}),
    "scalars": (lambda b: {"a": [np.float32(0.5), np.float32(1), None]}, {"a": [0.5, 1.0, None]}),
    "frame": (lambda b: pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}), {"a": [1, 2], "b": ["x", "y"]}),
    "series": (lambda b: {"a": pd.Series([1.5, 2.5])}, {"a": [1.5, 2.5]}),
    "arrow": (lambda b: pa.table({"a": [1, None]}), {"a": [1, None]}),
    "batch": (lambda b: pa.record_batch({"a": [1, None]}), {"a": [1, None]}),
    "arrow column": (lambda b: {"a": pa.array([[1], [2, 3]])}, {"a": [[1], [2, 3]]}),
    "times": (lambda b: {"a": np.array(["2024-01-01"], "M8[s]")}, {"a": [datetime.datetime(2024, 1, 1)]}),
    "fewer rows": (lambda b: {"a": [1]}, {"a": [1]}),
    "no rows": (lambda b: {"a": np.array([], np.int64)}, None),
}


@pytest.mark.parametrize("name", RESULTS)
def test_results(compute, name):
    fn, expected = RESULTS[name]
    ds = hd.from_numpy(np.zeros(1)).map_batches(fn, compute=compute)
    if expected is None:
        assert ds.take_all() == []
    else:
        assert ds.to_arrow().to_pydict() == expected


def test_torch_results(compute):
    torch = pytest.importorskip("torch")

    def rows(row):
        return {
            "image": torch.full((1, 2, 2), float(row["id"])),
            "label": torch.tensor(row["id"]),
            "n": row["id"],
        }

    batch = hd.range(10).map(rows, compute=compute).take_batch(10)
    assert batch["image"].shape == (10, 1, 2, 2) and batch["image"].dtype == np.float32
    assert batch["label"].tolist() == list(range(10)) and batch["image"][3, 0, 1, 1] == 3
    ds = hd.range(10).map_batches(
        lambda b: {"x": torch.ones(len(b["id"]), 3, requires_grad=True)}, compute=compute
    )
    assert ds.take_batch(10)["x"].shape == (10, 3)


@pytest.mark.parametrize(
    ("fn", "text"),
    [
        (lambda b: None, "NoneType"),
        (lambda b: 5, "int"),
        (lambda b: {"a": 5}, "'a'.*int"),
        (lambda b: {"a": [1, "x"]}, "'a', row 1.*str"),
        (lambda b: {"a": [1], "b": [1, 2]}, "'b' has 2"),
        (lambda b: {"a": [object()]}, "'a', row 0.*object"),
    ],
)
def test_wrong_results_name_the_function(compute, fn, text, monkeypatch):
    context = hd.DataContext.get_current()
    monkeypatch.setattr(context, "enable_fallback_to_arrow_object_ext_type", False)
    fn.__name__ = "wrong"
    with pytest.raises((TypeError, ValueError), match=text) as e:
        hd.range(3).map_batches(fn, compute=compute).take()
    assert any("map_batches(wrong)" in note for note in e.value.__notes__) or "map_batches(wrong)" in str(
        e.value
    )


def test_rows_must_be_dicts(compute):
    with pytest.raises(TypeError, match="row 0.*int"):
        hd.range(3).map(lambda r: 1, compute=compute).take()
    with pytest.raises(TypeError, match="dict.*list of row"):
        hd.range(3).flat_map(lambda r: {"a": 1}, compute=compute).take()


def test_a_promise_that_is_not_kept(compute):
    def half(batch):
        return {"id": batch["id"][::2]}

    assert hd.range(10).map_batches(half, compute=compute).count() == 5
    with pytest.raises(exceptions.HeadraceError, match="10"):
        hd.range(10).map_batches(half, compute=compute, udf_modifying_row_count=False).take_all()


NEARLY = {
    "null, then int": lambda i: None if i < 600 else i,
    "int, then null": lambda i: i if i < 600 else None,
    "null, then text": lambda i: None if i < 600 else str(i),
    "empty, then full lists": lambda i: [] if i < 600 else [i],
    "tensors, then ragged": lambda i: np.full((2, 2 if i < 600 else i % 3), i),
    "ragged, then tensors": lambda i: np.full((2, 2 if i > 600 else i % 3), i),
    "structs": lambda i: {"a": None if i < 600 else i, "b": [] if i > 600 else ["x"]},
}


@pytest.mark.parametrize("name", NEARLY)
def test_pieces_whose_types_nearly_agree(compute, name):
    value = NEARLY[name]
    ds = hd.range(1100).map(lambda r: {"i": r["id"], "v": value(r["id"])}, compute=compute)
    expected = [v.tolist() if isinstance(v, np.ndarray) else v for v in map(value, range(1100))]
    assert column(ds, "v") == expected
    assert column(ds.materialize(), "v") == expected
    assert sum(len(b["i"]) for b in ds.iter_batches(batch_size=300)) == 1100
    assert column(ds.map_batches(lambda b: {"n": [len(b["v"])]}, batch_size=1000, compute=compute), "n") == [
        1000,
        100,
    ]


def test_arrow_streams_keep_their_first_schema(compute):
    ds = hd.range(1100).map(lambda r: {"v": r["id"] if r["id"] < 600 else None}, compute=compute)
    table = pa.table(ds)  # by __arrow_c_stream__
    table.validate(full=True)
    assert table["v"].null_count == 500
    ds = hd.range(1100).map(lambda r: {"v": None if r["id"] < 600 else r["id"]}, compute=compute)
    with pytest.raises(pa.ArrowInvalid, match="'v': int64 is not null"):
        pa.table(ds)
    ds = hd.range(1100).map(lambda r: {"v": 1 // (r["id"] - 1000)}, compute=compute)
    with pytest.raises(pa.ArrowInvalid, match="ZeroDivisionError"):
        pa.table(ds)


def test_other_orders_of_columns_are_one(compute):
    ds = hd.range(1100).map(
        lambda r: {"a": 1, "b": 2} if r["id"] < 600 else {"b": 2, "a": 1}, compute=compute
    )
    assert ds.to_arrow().column_names == ["a", "b"]
    assert ds.take_batch(1100)["a"].tolist() == [1] * 1100


def test_pieces_whose_types_differ_are_an_error(compute):
    ds = hd.range(1100).map(lambda r: {"v": 1 if r["id"] < 600 else 0.5}, compute=compute)
    for consume in (ds.to_arrow, ds.materialize, lambda: list(ds.iter_batches(batch_size=300))):
        with pytest.raises(exceptions.TypeMismatchError, match="'v' is double, expected int64"):
            consume()
    ds = hd.range(1100).map(lambda r: {"v": 1} if r["id"] < 600 else {"w": 1}, compute=compute)
    with pytest.raises(exceptions.TypeMismatchError, match="'w'"):
        ds.to_arrow()


def test_ragged_and_equal_rows_are_one_type(compute):
    """Arrays of one dimension are lists, whether or not their lengths are equal."""
    ds = hd.range(1100).map(lambda r: {"t": np.arange(3 if r["id"] > 500 else r["id"] % 4)}, compute=compute)
    assert column(ds, "t") == [list(range(3 if i > 500 else i % 4)) for i in range(1100)]


# ----------------------------------------------------------------------------------------------- repeatable


def noise(batch):
    n = len(batch["id"])
    return {"id": batch["id"], "a": np.random.random(n), "b": [random.random() for _ in range(n)]}


def test_random_numbers_are_repeatable():
    ds = hd.range(10_000)
    one = ds.map_batches(noise).to_arrow()
    assert ds.map_batches(noise, concurrency=2).to_arrow() == one
    assert ds.map_batches(noise, compute="inline").to_arrow() == one
    assert len(set(one["a"].to_pylist())) > 9990
    it = ds.map_batches(noise).iter_batches(batch_size=10_000)
    first, second = next(iter(it)), next(iter(it))
    assert first["a"].tolist() == one["a"].to_pylist() != second["a"].tolist()
    context = hd.DataContext.get_current()
    context.seed = 5
    try:
        assert ds.map_batches(noise).to_arrow()["a"] != one["a"]
    finally:
        context.seed = 0


def test_inline_leaves_the_generators_alone():
    random.seed(1)
    np.random.seed(1)
    expected = random.random(), np.random.random()
    random.seed(1)
    np.random.seed(1)
    hd.range(100).map_batches(noise, compute="inline").take_all()
    assert (random.random(), np.random.random()) == expected


# ---------------------------------------------------------------------------------------------- the workers


def own_pid(batch):
    return {"pid": np.full(len(batch["id"]), os.getpid())}


def test_workers_are_reused_and_end_with_the_dataset():
    ds = hd.range(1000).map_batches(own_pid, concurrency=1)
    first = set(column(ds, "pid"))
    second = set(column(ds.limit(500), "pid"))
    assert first == second and len(first) == 1 and os.getpid() not in first
    assert set(ds._node.pool.pids()) == first
    del ds
    gc.collect()
    assert gone(first)


def test_concurrency_is_kept():
    def slow(row):
        time.sleep(0.002)
        return {"pid": os.getpid()}

    ds = hd.range(2000).map(slow, concurrency=2)
    assert len(set(column(ds, "pid"))) <= 2
    fixed = hd.range(4).map(slow, concurrency=(2, 2))
    fixed.take_all()
    until = time.monotonic() + 60  # the rows are there as soon as one of the workers is
    while len(fixed._node.pool.pids()) < 2 and time.monotonic() < until:
        time.sleep(0.01)
    assert len(fixed._node.pool.pids()) == 2


def test_strategies():
    for strategy in (
        hd.TaskPoolStrategy(size=1),
        hd.ActorPoolStrategy(size=1),
        hd.ActorPoolStrategy(min_size=1, max_size=2),
    ):
        assert column(hd.range(3).map_batches(lambda b: b, compute=strategy)) == [0, 1, 2]


def test_threads_are_bounded_libraries():
    def variables(row):
        return {k: os.environ.get(k) for k in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}

    wanted = os.environ.get("OMP_NUM_THREADS", "1")
    assert hd.range(1).map(variables).take()[0]["OMP_NUM_THREADS"] == wanted


def test_what_workers_print_is_shown(capfd):
    def chatty(row):
        print("hello from", row["id"], flush=True)
        sys.stderr.write("and more\n")
        return row

    hd.range(1).map(chatty).take_all()
    until = time.monotonic() + 60
    text = ""
    while time.monotonic() < until and "and more" not in text:
        text += capfd.readouterr().err
        time.sleep(0.02)
    assert "(map(chatty), pid " in text and ") hello from 0\n" in text and ") and more\n" in text


SCRIPT = """
    import headrace.data as hd
    class Mine(Exception):
        pass
    offset = 3
    def shift(row):
        if row["id"] == bad:
            raise Mine("at %d" % row["id"])
        return {"id": row["id"] + offset}
    bad = -1
    print(sum(r["id"] for r in hd.range(100).map(shift).take_all()))
    bad = 50
    try:
        hd.range(100).map(shift).take_all()
    except Mine as e:
        print("Mine", e)
"""


def test_scripts_need_no_main_guard(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(SCRIPT))
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=300)
    assert done.stdout == "5250\nMine at 50\n", done.stderr
    typed = subprocess.run(
        [sys.executable], input=textwrap.dedent(SCRIPT), capture_output=True, text=True, timeout=120
    )
    assert typed.stdout == "5250\nMine at 50\n", typed.stderr


SPAWNING = """
import functools
import multiprocessing

import headrace.data as hd

FACTOR = 3

class Odd(Exception):
    pass

class Wrapped:
    def __init__(self, value):
        self.value = value

class Triple:
    def __call__(self, batch):
        return {"id": batch["id"] * FACTOR}

@functools.cache
def cached(x):
    return x + 1

def inner(row):
    return {"y": cached(row["item"].value), "p": row["item"]}

def fails(batch):
    raise Odd("no")

def plan():
    return hd.range(1000).map_batches(Triple, concurrency=1)

def child(out):
    found = [plan().sum("id"), hd.from_items([Wrapped(1), Wrapped(2)]).map(inner).take_all()[1]["p"].value]
    try:
        hd.range(3).map_batches(fails).take_all()
    except Odd as e:
        found.append(str(e))
    batches = plan().iter_batches(batch_size=10)
    next(iter(batches))
    out.put((found, batches.state_dict()))

if __name__ == "__main__":
    spawn = multiprocessing.get_context("spawn")
    out = spawn.SimpleQueue()
    process = spawn.Process(target=child, args=(out,))
    process.start()
    found, state = out.get()
    process.join()
    batches = plan().iter_batches(batch_size=10)
    batches.load_state_dict(state, strict=True)
    print(found, next(iter(batches))["id"][0])
"""


def test_a_spawned_process_of_multiprocessing_uses_functions_of_the_script(tmp_path):
    # There the script's module is __mp_main__, which workers looked for and did not find.
    path = tmp_path / "spawning.py"
    path.write_text(SPAWNING)
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=300)
    assert done.stdout == "[1498500, 2, 'no'] 30\n", done.stderr


LONG = """
    import os, sys, time
    import headrace.data as hd
    def slow(row):
        print("worker", os.getpid(), flush=True)
        time.sleep(600)
        return row
    print("driver", os.getpid(), flush=True)
    hd.range(10).map(slow, concurrency=(2, 2)).take_all()
"""


def started(tmp_path, text, lines):
    """A script in its own process group, after `lines` lines of 'worker PID' on stderr."""
    path = tmp_path / "script.py"
    # A shell's background job is started with SIGINT ignored, and so would be what it starts.
    listen = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
    path.write_text(listen + textwrap.dedent(text))
    process = subprocess.Popen(
        [sys.executable, "-X", "faulthandler", path],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    pids = []
    while len(pids) < lines:
        line = process.stderr.readline()
        assert line, process.wait()
        if ") worker " in line:
            pids.append(int(line.split()[-1]))
    return process, pids


def ended(process, seconds):
    """Waits for the end; a process that hangs prints the stacks of its threads."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)
        pytest.fail(f"still there after {seconds} s:\n{process.communicate()[1]}")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_no_worker_outlives_its_driver(tmp_path, how):
    shared = set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else None
    process, pids = started(tmp_path, LONG, 1)
    process.send_signal(how)
    ended(process, 60)  # and not after the 600 s that its function takes
    assert gone(pids), "a worker is left"
    assert shared is None or not [f for f in set(os.listdir("/dev/shm")) - shared if "headrace" in f]
    if how == signal.SIGINT:
        assert "KeyboardInterrupt" in process.stderr.read()


def die(row):
    if row["id"] == 700:
        os.kill(os.getpid(), signal.SIGKILL)
    return row


def leave(row):
    os._exit(3)


def test_a_worker_that_dies_is_named():
    with pytest.raises(exceptions.PeerError, match=r"map\(die\).*process \d+.*SIGKILL") as e:
        hd.range(1000).map(die).take_all()
    assert isinstance(e.value, ConnectionError)
    with pytest.raises(exceptions.PeerError, match=r"map\(leave\).*exit code 3"):
        hd.range(1000).map(leave).take_all()


def test_after_a_death_there_are_new_workers(tmp_path):
    flag = tmp_path / "died"

    def once(row):
        if row["id"] == 5 and not flag.exists():
            flag.touch()
            os._exit(1)
        return row

    ds = hd.range(10).map(once)
    with pytest.raises(exceptions.PeerError):
        ds.take_all()
    assert column(ds) == list(range(10))


def test_a_death_may_be_noticed_late(tmp_path, monkeypatch):
    """The socket reports a death at once, the system perhaps after the next run began; the story: its
    calls failed.
    """
    reap = processes.Processes._reap
    late = lambda self, selector: (time.sleep(1.5), reap(self, selector))  # noqa: E731
    monkeypatch.setattr(processes.Processes, "_reap", late)
    test_after_a_death_there_are_new_workers(tmp_path)


def test_a_forked_child_gets_an_error(tmp_path):
    ds = hd.range(100)
    rows = iter(ds.iter_batches(batch_size=10))
    next(rows)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            next(rows)
        except exceptions.InvalidArgument as e:
            code = 0 if "process" in str(e) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert len(list(rows)) == 9


CHILD = """
    import os, sys
    import headrace.data as hd
    ds = hd.range(1000).map(lambda r: {"id": r["id"], "pid": os.getpid()}, concurrency=1)
    mine = {r["pid"] for r in ds.take_all()}
    pid = os.fork()
    if pid == 0:
        rows = ds.take_all()
        assert [r["id"] for r in rows] == list(range(1000))
        assert not mine & {r["pid"] for r in rows}
        sys.exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert {r["pid"] for r in ds.take_all()} == mine  # the child has not ended its parent's workers
    print("fine")
"""


def test_datasets_survive_a_fork(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(CHILD))
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=300)
    assert done.stdout == "fine\n", done.stderr


def test_no_python_to_start(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        hd.range(10).map(lambda r: r).take_all()


@pytest.mark.parametrize("compute", COMPUTE)
def test_an_interrupt_is_prompt(tmp_path, compute):
    """Although the function sleeps for long."""
    text = LONG.replace("concurrency=(2, 2)", f"compute={compute!r}")
    if compute != "processes":
        text = text.replace('print("worker"', 'print("() worker"').replace(
            "flush=True)", "file=sys.stderr, flush=True)"
        )
    process, _ = started(tmp_path, text, 1)
    process.send_signal(signal.SIGINT)
    ended(process, 60)  # some 0.2 s where nothing else runs
    assert "KeyboardInterrupt" in process.stderr.read()
