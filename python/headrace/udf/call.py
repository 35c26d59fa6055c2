"""Calls of a user function: a Table in, Tables out. The same code in worker processes, threads and inline.

A call has one batch or several (its *parts*), and the function is called once for each, in order. serve()
runs a call; what it gave before stays given if it raises. A generator's tables go on as they come. If it gave
more than anybody collects, it is kept aside, and serve() goes on with it later.
"""

import inspect
import random
import re
import sys
import threading
import time

import numpy as np

from headrace._core import TypeMismatchError, take_rows
from headrace.data import blocks
from headrace.udf import instances
from headrace.udf.parts import LARGE_BYTES, PART, Merged, batches_of, bytes_of, cut

GO, PAUSE, AWAY = range(3)
BATCHES_AT_A_TIME = 4  # that one worker has of a function that awaits
FLAT_ROWS = 1024  # rows that functions of rows give at a time, at most,
FLAT_BYTES = 4 << 20  # and how many bytes, about
HELD_BYTES = 4 << 20  # what a call gives before it lets what more it gives go on, and waits for that


def is_async(fn):
    """Whether calling it gives something to await or to iterate over asynchronously."""
    import functools

    while isinstance(fn, functools.partial):
        fn = fn.func
    if inspect.isclass(fn) or not inspect.isroutine(fn):
        fn = getattr(fn, "__call__", fn)  # noqa: B004 - the method itself
    return inspect.iscoroutinefunction(fn) or inspect.isasyncgenfunction(fn)


def make_function(spec):
    """(a class's instance or what is called itself, the user's function with its arguments)"""
    fn = spec["fn"]
    if inspect.isclass(fn):
        fn = fn(*spec["constructor_args"], **spec["constructor_kwargs"])
    args, kwargs = spec["fn_args"], spec["fn_kwargs"]
    return fn, (lambda x, fn=fn: fn(x, *args, **kwargs)) if args or kwargs else fn


def is_generator(result):
    return inspect.isgenerator(result) or (hasattr(result, "__next__") and hasattr(result, "__iter__"))


class Runner:
    """A function ready to be called: a class is instantiated here, once for each run in each server.

    spec: dict(kind, name, fn, fn_args, fn_kwargs, constructor_args, constructor_kwargs, batch_format,
    zero_copy_batch, column, retried_errors, max_retries).
    Kinds: "batches" (map_batches), "rows" (map), "flat" (flat_map), "filter", "column" (add_column),
    "groups" (map_groups), "values" (fn({name: values} of the columns in `column`) -> such a dict: columns
    replaced or added), "made" (fn(list of a column's values) -> such a list, which is the column `column`),
    "arrow" (udf(): fn of columns as pyarrow has them -> a column, which the engine joins to the others; see
    function_expressions.py), "tables" (fn(Table, build) yields Tables: a source of this package's own).
    """

    def __init__(self, spec):
        self.spec = spec
        self.name = spec["name"]
        self.whole = spec.get("whole", False)
        self.instance, self.fn = make_function(spec)
        self.said = False  # that its state is too large

    def __call__(self, call):
        """Yields (table, part, counts, whether more follows): what the function gives for the call."""
        retries = self.spec.get("max_retries", 0) if self.spec.get("retried_errors") else 0
        given = 0
        instances.load_state(self.instance, call)
        if instances.wants_state(call):
            instances.save_state(self.instance.state_dict(), call, self)
        make = getattr(self, "_finish" if instances.is_last(call) else "_" + self.spec["kind"])
        if retries:
            call = Input(call)
        for attempt in range(retries + 1):
            try:
                for i, step in enumerate(make(call)):
                    if i >= given:
                        given += 1
                        yield step
                return
            except Exception as e:
                if attempt == retries or not is_retried(e, self.spec["retried_errors"]):
                    raise
            time.sleep(min(0.1 * 2**attempt, 10))

    def _batches(self, call):
        tables_of = Tables(call, self.spec)
        merged = Merged(call.build, self.name, tables_of.whole)
        try:
            for number, batch in self._each_batch(call):
                result = self.fn(batch)
                del batch
                if is_generator(result):
                    yield from merged.flush()
                    for part in result:
                        for table in tables_of(part):
                            yield table, number, None, True
                elif (n_bytes := bytes_of(result)) <= LARGE_BYTES or tables_of.whole:
                    if merged.add(number, result, n_bytes):
                        yield from merged.flush()
                else:
                    yield from merged.flush()
                    for table in tables_of(result, n_bytes):
                        yield table, number, None, True
                del result
        except Exception:
            yield from merged.flush()
            raise
        yield from merged.flush()

    _groups = _batches

    def _finish(self, call):
        """The last rows of a class that has finish()."""
        seed(call.place[3], call.place[4])
        for table in last_tables(self.instance.finish(), call, self.spec):
            yield table, 0, None, True

    def _each_batch(self, call):
        """(number, batch) of all parts, with the generators seeded for each."""
        spec = self.spec
        if len(call.parts) == PART.itemsize:
            seed(call.place[3], call.place[4])
            yield 0, blocks.to_format(call.table, spec["batch_format"], not spec["zero_copy_batch"])
            return
        parts = np.frombuffer(call.parts, PART)
        batches = batches_of(call.table, parts["rows"], spec["batch_format"], not spec["zero_copy_batch"])
        places = zip(parts["ordinal"].tolist(), parts["random"].tolist(), strict=True)
        for number, (batch, place) in enumerate(zip(batches, places, strict=True)):
            seed(*place)
            yield number, batch

    def _each_part(self, call):
        """(number, table) of all parts, with the generators seeded for each."""
        table = call.table
        if len(call.parts) == PART.itemsize:
            seed(call.place[3], call.place[4])
            yield 0, table
            return
        begin = 0
        for number, (n, ordinal, bits) in enumerate(np.frombuffer(call.parts, PART).tolist()):
            seed(ordinal, bits)
            yield number, table.slice(begin, n)
            begin += n

    def _rows(self, call):
        fn = self.fn
        for number, table in self._each_part(call):
            rows = (fn(row) for row in blocks.rows_of(table, writable=True))
            for made, ended in in_tables(rows, call.build, self.whole):
                yield made, number, None, not ended

    def _flat(self, call):
        for number, table in self._each_part(call):
            rows = (new for row in blocks.rows_of(table, writable=True) for new in self._flat_rows(row))
            for made, ended in in_tables(rows, call.build):
                yield made, number, None, not ended

    def _flat_rows(self, row):
        result = self.fn(row)
        check_flat(result, self.name)
        return result

    def _tables(self, call):
        seed(call.place[3], call.place[4])
        for table in self.fn(call.table, call.build):
            yield table, 0, None, True

    def _filter(self, call):
        fn = self.fn
        for number, table in self._each_part(call):
            found = (is_true(fn(row), self.name) for row in blocks.rows_of(table))
            keep = np.fromiter(found, bool, table.num_rows)
            yield call.build({"keep": keep}), number, None, False

    def _column(self, call):
        seed(call.place[3], call.place[4])
        values = self.fn(blocks.to_format(call.table, self.spec["batch_format"]))
        column = call.build({self.spec["column"]: values}).column(0)
        yield call.table.with_column(self.spec["column"], column), 0, None, False

    def _arrow(self, call):
        seed(call.place[3], call.place[4])
        given, words = arrow_arguments(call.table, self.spec["column"])
        yield with_arrow_result(call, self.fn(*given, **words), self.spec), 0, None, False

    def _made(self, call):
        seed(call.place[3], call.place[4])
        yield call.build({self.spec["column"]: self.fn(call.table.column(0).to_pylist())}), 0, None, False

    def _values(self, call):
        seed(call.place[3], call.place[4])
        table = call.table
        made = self.fn({name: table.column(name).to_pylist() for name in self.spec["column"]})
        columns = call.build(made) if made else None
        for name in made:
            table = table.with_column(name, columns.column(name))
        yield table, 0, None, False


def last_tables(result, call, spec):
    """What finish() returned, in tables: nothing, or what a function of this kind may return. call: of the
    beginning, one that was paused has ended.
    """
    if result is None:
        return
    tables_of = Tables(call, spec | {"name": f"{spec['name']}: finish()"})
    if spec["kind"] in ("rows", "flat"):
        yield from last_rows([result] if isinstance(result, dict) else result, call.build, tables_of.name)
        return
    for part in result if is_generator(result) else [result]:
        yield from tables_of(part)


def last_rows(rows, build, what):
    """Rows in tables; see last_tables."""
    check_flat(rows, what)
    for table, _ in in_tables(iter(rows), build):
        yield table


def is_true(found, name):
    """What a function of rows says of a row; an error where it has still to run: a generator, a coroutine."""
    if found is True or found is False:
        return found
    if is_generator(found) or inspect.isawaitable(found) or hasattr(found, "__aiter__"):
        raise TypeMismatchError(f"{name} returned {blocks.called(found)}; expected True or False")
    return bool(found)


def arrow_arguments(table, column):
    """Positional arguments and those by name of an expression's function: columns, and values."""
    _, places, words, _ = column
    columns = blocks.table_to_arrow(table)
    given = [columns.column(place) if place is not None else value for place, value in places]
    n = len(given) - len(words)
    return given[:n], dict(zip(words, given[n:], strict=True))


def with_arrow_result(call, result, spec):
    """The column that an expression's function gave, as a table."""
    import pyarrow

    table, what = call.table, spec["name"]
    name, _, _, dtype = spec["column"]
    if not isinstance(result, (pyarrow.Array, pyarrow.ChunkedArray)):
        if not hasattr(result, "__len__") or isinstance(result, (str, bytes, dict)):
            raise TypeMismatchError(
                f"{what} returned {blocks.called(result)}; expected an array, a value for each row"
            )
        result = pyarrow.array(result, from_pandas=True)
    if len(result) != table.num_rows:
        raise TypeMismatchError(
            f"{what} returned {len(result)} values for {table.num_rows} rows; expected one for each"
        )
    if dtype is not None:
        result = blocks.as_type(result, dtype)
    return call.build({name: result})


class Input:
    """What is given to the function, to be given again: a call that was paused ends, and another goes on."""

    def __init__(self, call):
        self.table, self.parts, self.place, self.build = call.table, call.parts, call.place, call.build


class Tables:
    """What a function gave at once, as one table, or as several if it is large. spec["whole"]: never."""

    def __init__(self, call, spec):
        self.build, self.name, self.whole = call.build, spec["name"], spec.get("whole", False)
        self.limit = call.place[5]  # asked now: a call that was paused has ended, and goes on as another

    def __call__(self, result, n_bytes=None):
        if self.whole:
            return iter([blocks.table_of(result, self.build, self.name)])
        return cut(result, self.build, self.limit, self.name, n_bytes)


def in_tables(rows, build, whole=False):
    """(table of some rows of an iterator, whether they are the last). whole: one table.

    rows: a generator, where a function of the user's is called: a StopIteration of its own is no end there.
    """
    most = (sys.maxsize, sys.maxsize) if whole else (FLAT_ROWS, FLAT_BYTES)
    ended = False
    while not ended:
        some, ended = take_rows(rows, *most)
        if some:
            table = build(some)
            del some
            yield table, ended


def check_flat(result, name):
    if isinstance(result, dict) or not hasattr(result, "__iter__"):
        raise TypeMismatchError(f"{name} returned {blocks.called(result)}; expected a list of row dicts")


def is_retried(exception, patterns):
    """Whether DataContext.retried_map_errors names it: True, or patterns found in its text or matching it."""
    if patterns is True:
        return True
    text = f"{type(exception).__name__}: {exception}"
    return any(p in text or re.search(p, text) for p in patterns or ())


def advance(steps, call):
    """Runs the steps of a call, as Runner makes them, until it ends (True) or is paused (False)."""
    from headrace.udf import errors

    given = 0
    try:
        for table, part, counts, more in steps:
            given += table.nbytes
            if not more and given <= HELD_BYTES:
                if table.num_rows:
                    call.result(table, part, counts)
                continue
            go = call.stream(table, part, counts)
            del table
            if go == PAUSE:
                return False
            if go == AWAY:
                steps.close()
                break
    except Exception as e:
        call.fail(*errors.pack(e))
    except BaseException as e:  # KeyboardInterrupt: the run fails, and the consumer sees the interrupt itself
        call.fail(*errors.pack(e))
        raise
    else:
        call.done()
    return True


here = threading.local()
# .ordinal: of the batch that this thread runs, in canonical order after a rebatch. .seeds: it may seed
# the process's random generators: in worker processes, and while an inline call runs.
_base_seed = random.Random.__base__.seed  # the generator's own, without what Random.seed does for other types
_shared = random.seed.__self__


def seed(ordinal, bits):
    """Seeds Python's, numpy's and, if it is loaded, torch's generators for a batch."""
    here.ordinal = ordinal
    if not getattr(here, "seeds", False):
        return
    _base_seed(_shared, bits)
    _shared.gauss_next = None
    np.random.seed(bits & 0xFFFFFFFF)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(bits & 0x7FFFFFFFFFFFFFFF)


def generators():
    """The state of the random generators."""
    torch = sys.modules.get("torch")
    return random.getstate(), np.random.get_state(), torch.get_rng_state() if torch else None


def set_generators(state):
    random.setstate(state[0])
    np.random.set_state(state[1])
    if state[2] is not None:
        sys.modules["torch"].set_rng_state(state[2])


class kept_generators:
    """While inside, this thread may seed the process's random generators; afterwards they are as before."""

    def __enter__(self):
        self.state = generators()
        here.seeds = True

    def __exit__(self, *exception):
        here.seeds = False
        set_generators(self.state)


class Paused:
    """A call that is kept aside, with its generators' state: who goes on with it draws on."""

    def __init__(self, steps):
        self.steps = steps
        self.state = generators() if getattr(here, "seeds", False) else None

    def go_on(self):
        if self.state is not None:
            set_generators(self.state)
        return self.steps
