"""What a state depends on: files, data in memory, functions, batches; and invalid states."""

import json
import os
import random
import shutil
import subprocess
import sys
import textwrap
import threading
import time
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import headrace.data as hd
from headrace import exceptions
from headrace.udf.code import code_of

VERSION = 2


def write_parquet(path, values):
    pq.write_table(
        pa.table({"id": values}), path, row_group_size=50, compression="none", use_dictionary=False
    )


def write_csv(path, values):
    pacsv.write_csv(pa.table({"id": [f"{v:07d}" for v in values]}), path)


def write_npy(path, values):
    np.save(path, np.asarray(values))


FORMATS = {
    "parquet": (write_parquet, hd.read_parquet),
    "csv": (write_csv, hd.read_csv),
    "npy": (write_npy, hd.read_numpy),
}


def state_after(ds, n=2, **arguments):
    batches = ds.iterator().iter_batches(batch_size=10, **arguments)
    it = iter(batches)
    for _ in range(n):
        next(it)
    state = json.loads(json.dumps(batches.state_dict()))
    it.close()
    return state


def rest(ds, state, how=(), **arguments):
    batches = ds.iterator().iter_batches(batch_size=10, **arguments)
    batches.load_state_dict(state, **dict(how))
    return [b for b in batches]


def n_rows(batches):
    return sum(len(next(iter(b.values()))) for b in batches)


# ------------------------------------------------------------------------------------------------------ files


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("file", [0, 3])
def test_files_that_were_rewritten(tmp_path, kind, file):
    """Same size, other values, in a file before or after the position; the story: both were accepted."""
    write, read = FORMATS[kind]
    for i in range(5):
        write(tmp_path / f"{i}.{kind}", np.arange(i * 100, i * 100 + 100))
    state = state_after(read(str(tmp_path)))
    assert n_rows(rest(read(str(tmp_path)), state)) == 480
    path = tmp_path / f"{file}.{kind}"
    before = path.stat()
    write(path, np.arange(file * 100, file * 100 + 100)[::-1])
    assert path.stat().st_size == before.st_size
    for how in ({}, {"moved": True}, {"strict": True}):
        with pytest.raises(exceptions.MismatchError, match=rf"{file}\.{kind} has other contents"):
            rest(read(str(tmp_path)), state, how)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # its time says nothing
    with pytest.raises(exceptions.MismatchError, match="other contents"):
        rest(read(str(tmp_path)), state)


def test_touched_and_copied(tmp_path):
    for i in range(70):
        write_parquet(tmp_path / f"{i:02}.parquet", np.arange(i * 10, i * 10 + 10))
    state = state_after(hd.read_parquet(str(tmp_path)), 5)
    for path in tmp_path.iterdir():
        path.touch()
    assert n_rows(rest(hd.read_parquet(str(tmp_path)), state)) == 650
    other = tmp_path / "other" / "mount"
    other.mkdir(parents=True)
    for path in tmp_path.glob("*.parquet"):
        shutil.copyfile(path, other / path.name)
    assert n_rows(rest(hd.read_parquet(str(other)), state)) == 650
    (tmp_path / "link").symlink_to(other)
    assert n_rows(rest(hd.read_parquet(str(tmp_path / "link")), state)) == 650
    assert n_rows(rest(hd.read_parquet(os.path.relpath(other)), state)) == 650
    assert n_rows(rest(hd.read_parquet(sorted(map(str, other.iterdir()))), state)) == 650
    (other / "69.parquet").rename(other / "70.parquet")
    with pytest.raises(exceptions.MismatchError, match="other names.*moved=True"):
        rest(hd.read_parquet(str(other)), state)
    assert n_rows(rest(hd.read_parquet(str(other)), state, {"moved": True})) == 650
    (other / "70.parquet").rename(other / "000.parquet")  # the first of them now
    with pytest.raises(exceptions.MismatchError, match="contents"):
        rest(hd.read_parquet(str(other)), state, {"moved": True})


def test_partitions_are_part_of_it(tmp_path):
    for folder, month in (("a", 1), ("b", 2)):
        (tmp_path / folder / f"month={month}").mkdir(parents=True)
        write_parquet(tmp_path / folder / f"month={month}" / "x.parquet", np.arange(100))

    def read(folder):
        return hd.read_parquet(str(tmp_path / folder), partitioning=hd.datasource.Partitioning("hive"))

    state = state_after(read("a"))
    assert n_rows(rest(read("a"), state)) == 80
    with pytest.raises(exceptions.MismatchError):
        rest(read("b"), state)


def test_several_scans(tmp_path):
    for i in range(6):
        write_parquet(tmp_path / f"{i}.parquet", np.arange(i * 10, i * 10 + 10))

    def plan():
        files = [hd.read_parquet(str(tmp_path / f"{i}.parquet")) for i in range(6)]
        return files[0].union(*files[1:], hd.from_items([{"id": i} for i in range(100)]))

    state = state_after(plan(), 7)
    assert n_rows(rest(plan(), state)) == 90
    write_parquet(tmp_path / "4.parquet", np.arange(10)[::-1])
    with pytest.raises(exceptions.MismatchError, match=r"4\.parquet has other contents"):
        rest(plan(), state)


def test_order_of_files_does_not_depend_on_where_they_lie(tmp_path):
    names = ["b/1.txt", "a/2.txt", "a-b/3.txt", "a.c/4.txt", "a/b/5.txt", "Z.txt", "é.txt"]
    orders = []
    for root in ("~first", "1/2/3"):
        for name in names:
            path = tmp_path / root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(name)
        orders.append([r["text"] for r in hd.read_text(str(tmp_path / root)).take_all()])
    assert orders[0] == orders[1] and sorted(orders[0]) == sorted(names)


def test_many_files_are_not_read_before_a_position_is_wanted(tmp_path):
    """Neither the first batches nor leaving a pass hash any of 2,000 files."""
    table = pa.table({"id": np.arange(10)})
    pq.write_table(table, tmp_path / "00000.parquet")
    for i in range(1, 2000):
        os.link(tmp_path / "00000.parquet", tmp_path / f"{i:05}.parquet")
    program = """
        import sys, headrace.data as hd
        batches = hd.read_parquet(sys.argv[1]).iter_batches(batch_size=10)
        for n, batch in enumerate(batches):
            if n == 3:
                break
        print("LEFT", flush=True)
        batches.state_dict()
    """
    strace = shutil.which("strace")
    if strace is None:
        state = state_after(hd.read_parquet(str(tmp_path)))
        assert len(json.dumps(state)) < 4096
        return
    log = tmp_path / "log.txt"
    command = [strace, "-f", "-e", "trace=openat,write", "-o", str(log), sys.executable, "-c"]
    subprocess.run([*command, textwrap.dedent(program), str(tmp_path)], check=True, capture_output=True)
    before, _, after = log.read_text().partition("LEFT")
    assert before.count(".parquet") < 100 and after.count(".parquet") >= 2000


# ----------------------------------------------------------------------------------------------------- memory


@pytest.mark.parametrize(
    ("make", "other"),
    [
        (
            lambda: hd.from_items([{"id": i} for i in range(100)]),
            lambda: hd.from_items([{"id": 99 - i} for i in range(100)]),
        ),
        (lambda: hd.from_items(list(range(100))), lambda: hd.from_items([*range(99), 0])),
        (
            lambda: hd.from_items([str(i) for i in range(100)]),
            lambda: hd.from_items([str(i + 1) for i in range(100)]),
        ),
        (lambda: hd.from_numpy(np.zeros((100, 3, 2))), lambda: hd.from_numpy(np.ones((100, 3, 2)))),
        (
            lambda: hd.from_arrow(pa.table({"x": [[1], None, [2, 3]] * 40})),
            lambda: hd.from_arrow(pa.table({"x": [[1], [], [2, 3]] * 40})),
        ),
        (
            lambda: hd.range(100).materialize(),
            lambda: hd.range(100).add_column("id", lambda b: b["id"] + 1).materialize(),
        ),
    ],
)
def test_data_in_memory(make, other):
    state = state_after(make())
    rest(make(), state)
    for how in ({}, {"moved": True}):
        with pytest.raises(exceptions.MismatchError, match="data in memory|another plan"):
            rest(other(), state, how)


@pytest.mark.parametrize("kind", ["plain", "share"])
@pytest.mark.parametrize("changed", [0, 500, 999_999])
def test_large_data_in_memory(kind, changed):
    """They are hashed while the first batch is made, which does not come before."""

    def batches_of(changed=None):
        x = np.arange(1_000_000)
        if changed is not None:
            x[changed] = -1
        ds = hd.from_arrow(pa.table({"x": x}))
        return (ds.iterator() if kind == "plain" else ds.streaming_split(1)[0]).iter_batches(batch_size=1000)

    batches = batches_of()
    passing = iter(batches)
    next(passing)
    state = batches.state_dict()
    passing.close()
    again = batches_of()
    again.load_state_dict(state)
    assert n_rows(again) == 999_000
    for _ in range(2):
        other = batches_of(changed)
        other.load_state_dict(state)
        with pytest.raises(exceptions.MismatchError, match="data in memory have other values"):
            next(iter(other))


def test_memory_is_the_same_however_it_is_stored():
    """(On disk: test_materialized.c.)"""
    whole = pa.table({"x": np.arange(40_000), "s": [f"{i}" if i % 7 else None for i in range(40_000)]})
    state = state_after(hd.from_arrow(whole))
    assert n_rows(rest(hd.from_arrow(pa.concat_tables([whole, whole]).slice(40_000)), state)) == 39_980


# -------------------------------------------------------------------------------------------------- functions

SCALE = 2


def scaled(batch):
    return {"id": batch["id"] * SCALE}


def with_code(text, **names):
    """A function `f` from a text, as another version of a script defines it."""
    scope = {"np": np, **names}
    exec(textwrap.dedent(text), scope)
    return scope["f"]


BASE = "def f(b):\n    return {'id': b['id'] * K}\n"
CHANGES = {
    "code": (with_code(BASE, K=2), with_code(BASE.replace("*", "+"), K=2)),
    "global": (with_code(BASE, K=2), with_code(BASE, K=3)),
    "constant": (with_code(BASE.replace("K", "2")), with_code(BASE.replace("K", "3"))),
    "helper": (
        with_code("def g(x): return x * 2\ndef f(b): return {'id': g(b['id'])}"),
        with_code("def g(x): return x * 3\ndef f(b): return {'id': g(b['id'])}"),
    ),
    "default": (
        with_code("def f(b, k=2): return {'id': b['id'] * k}"),
        with_code("def f(b, k=3): return {'id': b['id'] * k}"),
    ),
    "closure": (
        with_code("def m(k):\n    return lambda b: {'id': b['id'] * k}\nf = m(2)"),
        with_code("def m(k):\n    return lambda b: {'id': b['id'] * k}\nf = m(3)"),
    ),
    "array": (with_code(BASE, K=np.ones(100)), with_code(BASE, K=np.zeros(100))),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changed_functions(change):
    """The story: other code was accepted, and rows were skipped as if it had made them."""
    was, now = CHANGES[change]

    def plan(fn):
        return hd.range(100).map_batches(fn, compute="inline")

    state = state_after(plan(was))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rest(plan(was), state, {"strict": True})
    with pytest.warns(UserWarning, match=r"the data of map_batches\(.*skips the rows before the position"):
        assert n_rows(rest(plan(now), state)) == 80
    with pytest.raises(exceptions.MismatchError, match=r"map_batches\(.*strict"):
        rest(plan(now), state, {"strict": True})


def test_changed_arguments_and_classes():
    class Adds:
        def __init__(self, n):
            self.n = n

        def __call__(self, batch):
            return {"id": batch["id"] + self.n}

    class AddsTwice(Adds):
        def __call__(self, batch):
            return {"id": batch["id"] + 2 * self.n}

    AddsTwice.__name__, AddsTwice.__qualname__ = Adds.__name__, Adds.__qualname__

    def plan(cls, n, more=None):
        words = {"fn_kwargs": more} if more else {}
        return hd.range(100).map_batches(cls, fn_constructor_args=[n], compute="threads", **words)

    state = state_after(plan(Adds, 1))
    rest(plan(Adds, 1), state, {"strict": True})
    for other in (plan(Adds, 2), plan(AddsTwice, 1)):
        with pytest.raises(exceptions.MismatchError, match="strict"):
            rest(other, state, {"strict": True})


def test_the_function_that_differs_is_named():
    def plan(k):
        first = hd.range(100).map_batches(scaled, compute="inline")
        return first.filter(lambda r: r["id"] != k, compute="inline").map_batches(scaled, compute="inline")

    state = state_after(plan(1))
    with pytest.warns(UserWarning) as found:
        rest(plan(3), state)
    assert "filter(<lambda>)" in str(found[0].message) and "map_batches" not in str(found[0].message)


def test_shares_say_so():
    def shards(k):
        return hd.range(1000).map_batches(lambda b: {"id": b["id"] * k}, compute="inline").streaming_split(1)

    def state():
        (shard,) = shards(2)
        batches = shard.iter_batches(batch_size=10)
        it = iter(batches)
        next(it)
        return it.state()

    saved = state()
    for k, how in ((2, {"strict": True}), (3, {})):
        (shard,) = shards(k)
        batches = shard.iter_batches(batch_size=10)
        batches.load_state_dict(saved, **how)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            assert n_rows(list(batches)) == 990
        assert len(found) == (k == 3)
    (shard,) = shards(3)
    batches = shard.iter_batches(batch_size=10)
    batches.load_state_dict(saved, strict=True)
    with pytest.raises(exceptions.MismatchError, match="strict"):
        list(batches)


PROGRAM = """
    import dataclasses, datetime, enum, functools, operator, pathlib, re, sys, threading
    import numpy as np
    sys.path.insert(0, sys.argv[1])
    import helper_of_ours
    from headrace.udf.code import code_of

    class Color(enum.Enum):
        RED, BLUE = 1, 2

    @dataclasses.dataclass
    class Settings:
        names: frozenset = frozenset({"alpha", "beta", "gamma", "delta"})
        lock: object = dataclasses.field(default_factory=threading.Lock)
        at: datetime.datetime = datetime.datetime(2020, 1, 2)

    TABLE = {name: len(name) for name in Settings().names}
    WORDS = {"one", "two", "three", b"four", ("five", 6)}

    class Model:
        scale = 3
        __slots__ = ("weights", "settings")
        def __init__(self):
            self.weights, self.settings = np.arange(5.0), Settings()
        @functools.lru_cache
        def look(self, x):
            return TABLE.get(x, Color.RED)
        @property
        def size(self):
            return len(self.weights)
        def __call__(self, batch):
            return {k: helper_of_ours.change(v) for k, v in batch.items() if k in {"a", "b", "c"}}

    def f(row, *, by=operator.itemgetter("x"), path=pathlib.Path("a/b")):
        def inner(y):
            return [z for z in WORDS if re.match("t.*", str(z)) and z in {"one", "two", "ten"}]
        return inner(by(row)), np.sqrt(2), MODEL.look, Color.BLUE, f

    MODEL = Model()
    part = functools.partial(f, by=1)
    print(code_of(f, part, Model, MODEL, MODEL.look, Settings(), {f: MODEL}, f.__code__))
"""


def test_the_same_program_has_the_same_code(tmp_path):
    """In any process, for any order of sets, any place of the script and any line numbers."""
    (tmp_path / "helper_of_ours.py").write_text("def change(v):\n    return v + 1\n")
    found = set()
    for seed, lines in (("0", 0), ("1", 0), ("2", 5), ("random", 0)):
        script = tmp_path / f"{seed}.py"
        script.write_text("\n" * lines + textwrap.dedent(PROGRAM))
        env = dict(os.environ, PYTHONHASHSEED=seed)
        done = subprocess.run(
            [sys.executable, script, tmp_path], env=env, capture_output=True, text=True, check=True
        )
        found.add(done.stdout)
    assert len(found) == 1
    (tmp_path / "helper_of_ours.py").write_text("def change(v):\n    return v + 2\n")
    done = subprocess.run(
        [sys.executable, script, tmp_path], env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout not in found


def test_code_of_odd_things():
    loop = []
    loop.append(loop)
    deep = []
    for _ in range(100_000):
        deep = [deep]

    class Hostile:
        def __reduce_ex__(self, protocol):
            raise OSError("no")

        def __getattr__(self, name):
            raise OSError(name)

    odd = [
        loop,
        deep,
        Hostile(),
        threading.Lock(),
        iter([1]),
        (i for i in range(3)),
        sys,
        open,
        np.sin,
        object(),
    ]
    for value in odd:
        assert len(code_of(value)) == 16
    assert code_of(loop) == code_of(loop)
    assert code_of(np.arange(3)) != code_of(np.arange(3.0))
    begin = time.monotonic()
    code_of([object() for _ in range(300_000)], list(range(10**6)), np.zeros(10**7))
    assert time.monotonic() - begin < 60


# ------------------------------------------------------------------------------------------ batches, kinds


def test_arguments_of_batches():
    ds = hd.range(105)
    state = state_after(ds)
    with pytest.raises(exceptions.MismatchError, match="drop_last=False; this feed has drop_last=True"):
        rest(ds, state, drop_last=True)
    with pytest.raises(exceptions.MismatchError, match="batches of 10 rows"):
        batches = ds.iter_batches(batch_size=11)
        batches.load_state_dict(state)
        list(batches)
    with pytest.raises(exceptions.MismatchError, match="local shuffle"):
        rest(ds, state, local_shuffle_buffer_size=20)
    with pytest.raises(exceptions.MismatchError, match="batches of 10 rows, this feed makes 0"):
        rows = ds.iter_rows()
        rows.load_state_dict(state)
        list(rows)


def test_states_of_another_kind():
    ds = hd.range(1000)
    (shard,) = ds.streaming_split(1)
    batches = shard.iter_batches(batch_size=10)
    it = iter(batches)
    next(it)
    of_shares = batches.state_dict()
    it.close()
    with pytest.raises(exceptions.MismatchError, match="by a split; this feed is a pass over all rows"):
        rest(ds, of_shares)
    (shard,) = ds.streaming_split(1)
    batches = shard.iter_batches(batch_size=10)
    batches.load_state_dict(state_after(ds))
    with pytest.raises(exceptions.MismatchError, match="by a pass over all rows"):
        list(batches)
    for drop in (True, False):
        (shard,) = ds.streaming_split(1)
        batches = shard.iter_batches(batch_size=10, drop_last=drop)
        batches.load_state_dict(of_shares)
        if drop:
            with pytest.raises(exceptions.MismatchError, match="drop_last"):
                list(batches)
        else:
            assert n_rows(list(batches)) == 990


GOOD = state_after(hd.range(1000))


@pytest.mark.parametrize(
    "state",
    [
        None,
        "text",
        b"bytes",
        json.dumps(GOOD),
        json.dumps(GOOD).encode(),
        [],
        {},
        {"version": 2},
        {"version": VERSION, "epoch": 0},
        {"version": VERSION, "position": None},
        {**GOOD, "more": 1},
        {**GOOD, 5: 1},
        {**GOOD, "version": 1},
        {**GOOD, "version": 3},
        {**GOOD, "version": "2"},
        {**GOOD, "version": True},
        {**GOOD, "version": None},
        {**GOOD, "version": -1},
        {**GOOD, "version": 2.0},
        {**GOOD, "version": 10**400},
        {**GOOD, "epoch": -1},
        {**GOOD, "epoch": 1},
        {**GOOD, "epoch": "0"},
        {**GOOD, "epoch": None},
        {**GOOD, "epoch": 0.5},
        {**GOOD, "epoch": False},
        {**GOOD, "epoch": float("nan")},
        {**GOOD, "epoch": 2**63},
        {**GOOD, "epoch": 10**4000, "position": None},
        {**GOOD, "position": 5},
        {**GOOD, "position": b"x"},
        {**GOOD, "position": GOOD["position"].encode()},
        {**GOOD, "position": json.loads(GOOD["position"])},
        {**GOOD, "position": ""},
        {**GOOD, "position": "\0" + GOOD["position"]},
        {**GOOD, "position": GOOD["position"] + "\0"},
        {**GOOD, "position": "\ud800"},
        {**GOOD, "position": "é" * 3000},
        {**GOOD, "position": GOOD["position"][:-1]},
        {**GOOD, "position": GOOD["position"][: len(GOOD["position"]) // 2]},
        {**GOOD, "position": GOOD["position"] + " "},
        {**GOOD, "position": " " + GOOD["position"]},
        {**GOOD, "position": GOOD["position"] * 2},
        {**GOOD, "position": "x" * 10**6},
        {**GOOD, "position": "[" * 4000},
        {
            **GOOD,
            "position": '{"epoch":0,"seed":0,"plan":"%s","discard":0,"end":false}' % ("0" * 32),
        },
        {**GOOD, "workers": 3},
        {**GOOD, "workers": [0, 1]},
        {**GOOD, "workers": [2, 2, 0]},
        {**GOOD, "workers": [0, 2, -5]},
        {**GOOD, "workers": [0, 2, "x"]},
        {**GOOD, "workers": "abc"},
    ],
    ids=lambda s: repr(s)[:60],
)
def test_what_is_no_state(state):
    """The story: KeyError, TypeError, OverflowError, and sometimes rows."""
    batches = hd.range(1000).iter_batches(batch_size=10)
    with pytest.raises(exceptions.InvalidArgument) as found:
        batches.load_state_dict(state)
    assert (
        str(found.value).startswith(("load_state_dict: ", "not a position: ")) and len(str(found.value)) < 300
    )
    assert n_rows(batches) == 1000  # it is as it was


def test_changed_states():
    """Thousands of random changes of a state: each is InvalidArgument, none gives rows."""
    dice = random.Random(5)
    text = json.dumps(GOOD)
    batches = hd.range(1000).iter_batches(batch_size=10)
    for _ in range(4000):
        changed = bytearray(text.encode())
        for _ in range(dice.randint(1, 3)):
            at = dice.randrange(len(changed))
            how = dice.randrange(3)
            if how == 0:
                changed[at] = dice.choice(b'0123456789-+.eE{}[],:"\\ntfabxyz')
            elif how == 1:
                del changed[at : at + dice.randint(1, 20)]
            else:
                changed[at:at] = bytes(dice.choices(b'0123456789"{}[],', k=dice.randint(1, 5)))
            if not changed:
                changed = bytearray(b"0")
        try:
            state = json.loads(changed)
        except ValueError:
            continue
        if state == GOOD:
            continue
        with pytest.raises(exceptions.InvalidArgument):
            batches.load_state_dict(state)


# ---------------------------------------------------------------------------------------------------- threads


def both(iterables, rows_each=None):
    """Reads both at once; returns for each the number of batches and the error at its end."""
    out = [[0, None], [0, None]]
    barrier = threading.Barrier(2)

    def read(i):
        barrier.wait(60)
        try:
            for _ in iterables[i]:
                out[i][0] += 1
        except BaseException as e:
            out[i][1] = e

    threads = [threading.Thread(target=read, args=(i,)) for i in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
        assert not t.is_alive()
    return out


@pytest.mark.parametrize("kind", ["batches", "rows", "torch", "to_torch"])
def test_two_threads_over_one_iterable(kind):
    """The story: the first one ended early without an error in 59 of 60 cases."""
    ds = hd.range(20_000)
    for _ in range(8):
        if kind == "rows":
            iterable, n = ds.iter_rows(), 20_000
        elif kind == "batches":
            iterable, n = ds.iter_batches(batch_size=10), 2000
        else:
            pytest.importorskip("torch")
            iterable = ds.iter_torch_batches(batch_size=50) if kind == "torch" else ds.to_torch(batch_size=50)
            n = 400
        found = both([iterable, iterable])
        for count, error in found:
            assert error is not None or count == n, found
            if error is not None:
                assert isinstance(error, exceptions.InvalidArgument), found
                assert "new iteration" in str(error)
        assert any(error is None for _, error in found)


@pytest.mark.parametrize("same", [True, False])
def test_two_threads_over_one_share(same):
    for _ in range(10):
        (shard,) = hd.range(20_000).streaming_split(1)
        one = shard.iter_batches(batch_size=10)
        found = both([one, one if same else shard.iter_batches(batch_size=10)])
        for count, error in found:
            assert error is not None or count == 2000, found
            assert error is None or isinstance(error, exceptions.InvalidArgument), found


def test_one_thread_may_leave_a_pass_and_begin_another():
    (shard,) = hd.range(1000).streaming_split(1)
    for make in (hd.range(1000).iter_batches, shard.iter_batches):
        iterable = make(batch_size=10)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(3):
                for _ in iterable:
                    break
            kept = iter(iterable)
            next(kept)
            assert n_rows(iterable) == 1000
        with pytest.raises(exceptions.InvalidArgument, match="new iteration"):
            next(kept)


def test_a_pass_that_was_superseded_leaves_the_share_alone():
    """The story: when the garbage collector closed it, the new pass ended."""
    (shard,) = hd.range(1000).streaming_split(1)
    old = iter(shard.iter_batches(batch_size=10))
    next(old)
    new = iter(shard.iter_batches(batch_size=10))
    next(new)
    with pytest.raises(exceptions.InvalidArgument, match="new iteration"):
        next(old)
    old.close()
    del old
    assert n_rows(new) == 990
