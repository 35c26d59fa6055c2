"""Objects whose methods change their container while it is read.

The story: the module walked a dict with borrowed references while methods of its values ran: a method that
cleared the dict made the interpreter read freed memory.
"""

import gc
import re
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import headrace.data as hd
from headrace import _core

SOURCES = Path(__file__).resolve().parents[2] / "python" / "src"


def clear(victim):
    """Empties a container and makes new objects in the freed memory."""
    victim.clear()
    gc.collect()
    return [bytearray(b"x" * 40) for _ in range(50)]


class Array:
    """__array__ and the other attributes of an array-like object."""

    def __init__(self, act):
        self.act = act

    def __array__(self, dtype=None, copy=None):
        self.act()
        return np.arange(3)

    def __len__(self):
        self.act()
        return 3

    def __getitem__(self, i):
        self.act()
        return [0, 1, 2][i]


class Arrow:
    def __init__(self, act):
        self.act = act

    def __arrow_c_array__(self, requested_schema=None):
        self.act()
        return pa.array([0, 1, 2]).__arrow_c_array__()


class Stream:
    def __init__(self, act):
        self.act = act

    def __arrow_c_stream__(self, requested_schema=None):
        self.act()
        return pa.chunked_array([[0, 1], [2]]).__arrow_c_stream__()


class List(list):
    def __init__(self, act):
        super().__init__([0, 1, 2])
        self.act = act

    def __iter__(self):
        self.act()
        return iter([0, 1, 2])


class Key(str):
    """A name whose comparison or hash runs a function."""

    act = staticmethod(lambda: None)

    def __hash__(self):
        self.act()
        return super().__hash__()

    def __eq__(self, other):
        self.act()
        return super().__eq__(other)


@pytest.mark.parametrize("kind", [Array, Arrow, Stream, List])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_value_clears_the_columns(kind, place):
    columns = {}
    values = [[0, 1, 2], [0, 1, 2], [0, 1, 2]]
    values[place] = kind(lambda: clear(columns))
    for i, v in enumerate(values):
        columns[f"name {i}"] = v
    del values, v
    t = _core.Table.build(columns)
    assert pa.table(t).to_pydict() == {f"name {i}": [0, 1, 2] for i in range(3)}


def test_a_value_adds_columns():
    columns = {"a": [1]}
    columns["b"] = Array(lambda: columns.update({f"c{len(columns)}": [len(columns)] for _ in range(100)}))
    columns["a"] = [0, 1, 2]
    assert pa.table(_core.Table.build(columns)).to_pydict() == {"a": [0, 1, 2], "b": [0, 1, 2]}


@pytest.mark.parametrize("kind", [Array, List])
def test_a_value_clears_its_row(kind):
    rows = [{f"name {i}": [0, 1, 2] for i in range(4)} for _ in range(3)]
    for r in rows:
        r["name 1"] = kind(lambda: [clear(r) for r in list(rows)])
    try:
        t = _core.Table.build_rows(rows)
    except _core.HeadraceError:
        return  # what is left of the rows may have no type
    assert pa.table(t).num_rows == 3


def test_a_value_in_a_struct_clears_its_dict():
    inner = [{"x": 1, "y": None} for _ in range(3)]
    for d in inner:
        d["y"] = List(lambda: [clear(d) for d in list(inner)])
    try:
        t = _core.Table.build({"s": inner})
    except _core.HeadraceError:
        return
    assert pa.table(t).num_rows == 3


@pytest.mark.parametrize(
    "build", [lambda rows: _core.Table.build_rows(rows), lambda rows: _core.Table.build({"s": rows})]
)
def test_a_key_clears_its_row(build):
    for mutate_at in range(1, 40):
        rows = [{Key(f"name {i}"): i for i in range(4)} for _ in range(3)]
        calls = 0

        def act(rows=rows, at=mutate_at):
            nonlocal calls
            calls += 1
            if calls == at:
                for r in list(rows):
                    dict.clear(r)
                gc.collect()

        Key.act = staticmethod(act)
        try:
            assert pa.table(build(rows)).num_rows == 3
        except (_core.HeadraceError, RuntimeError):
            pass
        finally:
            Key.act = staticmethod(lambda: None)


def test_subclasses_of_str_are_names():
    rows = [{Key("a"): 1, "b": 2}, {"a": 3, Key("b"): 4, "c": 5}]
    assert pa.table(_core.Table.build_rows(rows)).to_pydict() == {"a": [1, 3], "b": [2, 4], "c": [None, 5]}
    assert pa.table(_core.Table.build({Key("k"): [1]})).to_pydict() == {"k": [1]}


def test_functions_results(tmp_path):
    """A result of map_batches goes through the same code in a worker process."""

    class Result:
        def __init__(self, columns):
            self.columns = columns

        def __array__(self, dtype=None, copy=None):
            self.columns.clear()
            return np.arange(10)

    def function(batch):
        columns = {"id": batch["id"]}
        columns["n"] = Result(columns)
        columns["m"] = np.arange(len(batch["id"]))
        return columns

    rows = hd.range(20).map_batches(function, batch_size=10).take_all()
    assert [r["m"] for r in rows] == [*range(10), *range(10)]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="classes have no __buffer__")
def test_a_buffer_that_changes_its_mind():
    class Number:
        def __init__(self, formats):
            self.formats = formats

        def __buffer__(self, flags):
            return memoryview(np.array(1, self.formats.pop(0) if len(self.formats) > 1 else self.formats[0]))

    formats = ["i1"] * 2 + ["f8"] * 50
    with pytest.raises(_core.HeadraceError, match="changed while it was read|column type"):
        _core.Table.build({"x": [Number(formats), Number(["i1"])]})


# --- closed while arguments are looked at


class Closer:
    def __init__(self, close):
        self.close = close

    def __index__(self):
        self.close()
        return 10


def test_a_feed_is_closed_by_an_argument():
    feed = _core.Feed(_core.Plan.range(100, "id"), batch_rows=10)
    with pytest.raises(_core.HeadraceError, match="closed"):
        feed.position(Closer(feed.close))


def test_a_shard_is_closed_by_an_argument():
    split = _core.Split(_core.Plan.range(100, "id"), 1)
    server = _core.RingServer([split])
    ring = _core.Ring(server.address, 0, 0)
    with pytest.raises(_core.HeadraceError, match="closed"):
        ring.begin(Closer(ring.close))
    server.stop()
    split.close()


def test_ranks_are_not_cut_to_32_bits():
    split = _core.Split(_core.Plan.range(100, "id"), 1)
    for rank in [1 << 32, -(1 << 32), 1, -2]:
        with pytest.raises((_core.HeadraceError, OverflowError)):
            split.next(rank)
        with pytest.raises((_core.HeadraceError, OverflowError)):
            split.leave(rank)
    split.close()


def test_statistics_while_it_is_closed():
    """Statistics, positions and close() at once: each works or reports that the iterator is closed."""
    for _ in range(20):
        feed = _core.Feed(_core.Plan.range(1 << 20, "id"), batch_rows=100)
        begin = threading.Barrier(4)
        wrong = []

        def ask(call, feed=feed, begin=begin, wrong=wrong):
            begin.wait()
            try:
                for _ in range(200):
                    call()
            except _core.HeadraceError as e:
                if "closed" not in str(e) and "another thread" not in str(e):
                    wrong.append(e)

        threads = [threading.Thread(target=ask, args=(f,)) for f in (feed.stats, feed.position, feed.stats)]
        for t in threads:
            t.start()
        begin.wait()
        for _ in range(3):
            feed.next()
        feed.close()
        for t in threads:
            t.join()
        assert not wrong and feed.closed and feed.rows == -1


# --- rule 2 of pyhr.h: what can wait runs without the GIL

WAITS = re.compile(
    r"\b(hr_plan_(?!unref|ref)\w+|hr__plan_(?!op_n)\w+|hr__split_(?!ref|n_ranks)\w+|hr__ring_\w+|hr__feed_(?!run|rows)\w+|"
    r"hr_feed_(?!options)\w+|hr_set_\w+|hr__materialized_(?!size|new)\w+|hr__worker_(?!fd|mem|open)\w+|hr__call_(?!input|place|batches|tag|"
    r"done|state)\w+|hr__paths_list|hr__table_con\w+|hr__array_concat|hr__array_equal)\("
)
HELD = {
    ("module.c", "hr_set_spill_quota"),  # a number
    ("py_log.c", "hr_set_log"),  # waits for functions of the log, which do not wait for the GIL
    ("py_split.c", "hr__ring_stop"),  # what nobody got, without memory for its object
    ("py_split.c", "hr__ring_close"),
    ("py_split.c", "hr__ring_server_of"),  # two numbers
    ("py_split.c", "hr__ring_clients"),  # a number; stop() must not free the server meanwhile
    ("py_split.c", "hr__ring_take_own"),
    ("py_split.c", "hr__split_replicate"),  # two numbers
    ("py_split.c", "hr__ring_converted"),  # a number
    ("py_feed.c", "hr__feed_converted"),
    ("py_split.c", "hr__split_lanes"),
    ("py_plan.c", "hr__plan_makes_batches"),  # looks at the plan's operators
    ("py_plan.c", "hr__plan_fragments_of"),
    ("py_plan.c", "hr_plan_is_beginning"),
    ("py_split.c", "hr__split_unref"),
    ("py_feed.c", "hr_feed_close"),
    ("py_materialized.c", "hr__materialized_free"),
    ("py_udf.c", "hr__worker_close"),
    ("py_udf.c", "hr__call_unlocked"),  # a number: the call has the GIL now
    ("py_feed.c", "hr__table_conform"),  # inside the Arrow stream's own call
}


def test_calls_that_wait_are_made_without_the_gil():
    held = set()
    for path in sorted(SOURCES.glob("*.c")):
        text = re.sub(r"/\*.*?\*/|\"(?:\\.|[^\"\\])*\"", " ", path.read_text(), flags=re.S)
        text = re.sub(r"Py_BEGIN_ALLOW_THREADS.*?Py_END_ALLOW_THREADS", " ", text, flags=re.S)
        text = re.sub(r"PyEval_SaveThread\(\);.*?lock_again\(", " ", text, flags=re.S)
        text = re.sub(r"RING_WAIT(_WATCHED)?\(.*?\);\n", " ", text)
        for line in text.splitlines():
            if not re.match(r"(static )?(hr_\w+|void|int|PyObject|bool|typedef)\b[^=;]*\(.*[,{)]$", line):
                held |= {(path.name, name) for name in WAITS.findall(line)}
    wrapped = {
        ("py_plan.c", f"hr_plan_{n}") for n in ("union", "zip", "mix", "mix_repeat")
    }  # called by plan_of_plans, without it
    assert held - wrapped <= HELD


def test_threads_end_while_one_is_in_a_function(tmp_path):
    """The story: set_num_threads waited for pool threads, and one in filename_provider needed the GIL: a
    hang.
    """
    code = f"""
import threading, time
import headrace.data as hd
from headrace import _core
from headrace.data.datasource import FilenameProvider

inside = threading.Event()

class Names(FilenameProvider):
    def get_filename_for_block(self, block, write_uuid, task_index, block_index, *rest):
        inside.set()
        time.sleep(0.3)
        return f"{{task_index}}-{{block_index}}-{{time.monotonic_ns()}}.csv"
    def get_filename_for_task(self, write_uuid, task_index):
        inside.set()
        time.sleep(0.3)
        return f"{{task_index}}-{{time.monotonic_ns()}}.csv"

_core.set_num_threads(4)
path = {str(tmp_path)!r}
writer = threading.Thread(target=lambda: hd.range(100).write_csv(path, filename_provider=Names()))
writer.start()
inside.wait()
_core.set_num_threads(1)
writer.join()
print(hd.read_csv(path).count())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.stdout.strip() == "100", done.stderr


class Sized:
    """An object with an arbitrary `nbytes`."""

    def __init__(self, nbytes):
        self.give = nbytes

    @property
    def nbytes(self):
        return self.give()


def test_rows_are_taken_until_they_are_enough():
    rows = [{"x": 1.5, "t": "ab", "b": b"abc", "l": [0] * 10, "a": np.zeros(4), "n": None, "o": object()}] * 5
    n = 8 + 2 + 3 + 10 + 32 + 8 + 8
    for most, taken in ((n * 3, 3), (n * 3 + 1, 4), (0, 0), (sys.maxsize, 5)):
        some, ended = _core.take_rows(iter(rows), sys.maxsize, most)
        assert len(some) == taken and ended == (taken == 5), most
    assert _core.take_rows(iter(rows), 2, n * 9) == (rows[:2], False)
    assert _core.take_rows(iter([]), 2, n) == ([], True)
    assert _core.take_rows(iter([3, None]), 9, n) == ([3, None], True)
    with pytest.raises(TypeError, match="iterator"):
        _core.take_rows(rows, 2, n)


@pytest.mark.parametrize("given", [-5, 1 << 62, 1 << 80, "many", None])
def test_bytes_that_cannot_be(given):
    rows = [{"a": Sized(lambda: given), "b": Sized(lambda: given)}] * 4
    some, ended = _core.take_rows(iter(rows), 4, sys.maxsize)
    assert len(some) == (1 if given == 1 << 62 else 4)


def test_rows_that_change_while_they_are_weighed():
    row = {i: str(i) * 9 for i in range(5)}
    row["a"] = Sized(lambda: len(clear(row)))
    row |= {i: str(i) * 9 for i in range(5, 50)}
    some, ended = _core.take_rows(iter([row]), 9, 1000)
    assert some == [{}] and ended

    def raises():
        raise LookupError("no size")

    with pytest.raises(LookupError, match="no size"):
        _core.take_rows(iter([{"a": Sized(raises)}]), 9, 1000)
