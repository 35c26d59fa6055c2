"""Calls of a user function: a Table in, Tables out. Worker processes, threads and inline calls share this
code.

A call has one batch or several; the Runner calls the function once per batch, in order. advance() runs a
call; if the function raises, its earlier tables remain valid. The engine passes on the tables of a generator
as they come. When a generator has given more than the engine collects, the engine pauses the call, and
advance() continues it later.
"""

import inspect
import random
import re
import sys
import threading
import time

import numpy as np

from headrace._core import Column, TypeMismatchError, take_rows
from headrace.data import blocks
from headrace.optional import imported, package
from headrace.udf import instances
from headrace.udf.batches import BATCH_PLACE, LARGE_BYTES, Merged, batches_of, bytes_of, cut

GO, PAUSE, AWAY = range(3)
BATCHES_AT_A_TIME = 4  # of an async function, in one worker
FLAT_ROWS = 1024  # most rows in a table that functions of rows give,
FLAT_BYTES = 4 << 20  # and about the most bytes
HELD_BYTES = 4 << 20  # a call collects its results up to this size, then streams later ones


def is_async(fn):
    """Whether a call of fn returns an awaitable or an asynchronous iterator."""
    import functools

    while isinstance(fn, functools.partial):
        fn = fn.func
    if inspect.isclass(fn) or not inspect.isroutine(fn):
        fn = getattr(fn, "__call__", fn)  # noqa: B004 - the method itself
    return inspect.iscoroutinefunction(fn) or inspect.isasyncgenfunction(fn)


def make_function(spec):
    """(the instance of a class, or the callable itself; the user's function with its arguments bound)"""
    fn = spec["fn"]
    if inspect.isclass(fn):
        fn = fn(*spec["constructor_args"], **spec["constructor_kwargs"])
    args, kwargs = spec["fn_args"], spec["fn_kwargs"]
    return fn, (lambda x, fn=fn: fn(x, *args, **kwargs)) if args or kwargs else fn


def is_generator(result):
    return inspect.isgenerator(result) or (hasattr(result, "__next__") and hasattr(result, "__iter__"))


class Runner:
    """A function that is ready for calls. For a class it makes the instance, once per run in each server.

    spec: dict(kind, name, fn, fn_args, fn_kwargs, constructor_args, constructor_kwargs, batch_format,
    zero_copy_batch, column, retried_errors, max_retries).
    Kinds: "batches" (map_batches), "rows" (map), "flat" (flat_map), "filter", "column" (add_column),
    "groups" (map_groups), "values" (fn({name: values} of the columns in `column`) -> a dict of columns to
    replace or add), "made" (fn(list of a column's values) -> a list, the column `column`), "arrow" (udf(): fn
    of columns as pyarrow arrays -> a column, which the engine adds to the others; see
    function_expressions.py), "tables" (fn(Table, build) yields Tables: for this package's own sources).
    """

    def __init__(self, spec):
        self.spec = spec
        self.name = spec["name"]
        self.whole = spec.get("whole", False)
        self.instance, self.fn = make_function(spec)
        self.state_warned = False  # whether it has logged that its state is too large

    def __call__(self, call):
        """Yields (table, batch, counts, whether more follows): the function's results for the call."""
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
                    from headrace.udf import errors

                    errors.advise(e, self.spec, call)
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
                    for item in result:
                        for table in tables_of(item):
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
        """The last rows of a class with finish()."""
        seed(call.place[3], call.place[4])
        for table in last_tables(self.instance.finish(), call, self.spec):
            yield table, 0, None, True

    def _each_batch(self, call):
        """(number, batch in the user's format) of all batches; seeds the random generators before each."""
        spec = self.spec
        if len(call.batches) == BATCH_PLACE.itemsize:
            seed(call.place[3], call.place[4])
            yield 0, blocks.to_format(call.table, spec["batch_format"], not spec["zero_copy_batch"])
            return
        places = np.frombuffer(call.batches, BATCH_PLACE)
        batches = batches_of(call.table, places["rows"], spec["batch_format"], not spec["zero_copy_batch"])
        seeds = zip(places["ordinal"].tolist(), places["random"].tolist(), strict=True)
        for number, (batch, of) in enumerate(zip(batches, seeds, strict=True)):
            seed(*of)
            yield number, batch

    def _each_table(self, call):
        """(number, table) of all batches; seeds the random generators before each."""
        table = call.table
        if len(call.batches) == BATCH_PLACE.itemsize:
            seed(call.place[3], call.place[4])
            yield 0, table
            return
        begin = 0
        for number, (n, ordinal, bits) in enumerate(np.frombuffer(call.batches, BATCH_PLACE).tolist()):
            seed(ordinal, bits)
            yield number, table.slice(begin, n)
            begin += n

    def _rows(self, call):
        fn = self.fn
        for number, table in self._each_table(call):
            rows = iter(blocks.rows_of(table, writable=True))
            for made, ended in in_tables(rows, call.build, self.whole, fn):
                yield made, number, None, not ended

    def _flat(self, call):
        for number, table in self._each_table(call):
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
        for number, table in self._each_table(call):
            found = (is_true(fn(row), self.name) for row in blocks.rows_of(table))
            keep = np.fromiter(found, bool, table.num_rows)
            yield call.build({"keep": keep}), number, None, False

    def _column(self, call):
        seed(call.place[3], call.place[4])
        values = self.fn(blocks.to_format(call.table, self.spec["batch_format"]))
        column = call.build({self.spec["column"]: _one_column(values, call.table.num_rows)}).column(0)
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
    """The result of finish() as tables: None, or anything that a function of this kind may return. call: the
    one at the beginning; if it is paused, it ends and another call continues.
    """
    if result is None:
        return
    tables_of = Tables(call, spec | {"name": f"{spec['name']}: finish()"})
    if spec["kind"] in ("rows", "flat"):
        yield from last_rows([result] if isinstance(result, dict) else result, call.build, tables_of.name)
        return
    for item in result if is_generator(result) else [result]:
        yield from tables_of(item)


def last_rows(rows, build, what):
    """Rows as tables; see last_tables."""
    check_flat(rows, what)
    for table, _ in in_tables(iter(rows), build):
        yield table


def is_true(found, name):
    """The result of a row filter as a bool; TypeMismatchError for a generator or an awaitable."""
    if found is True or found is False:
        return found
    if is_generator(found) or inspect.isawaitable(found) or hasattr(found, "__aiter__"):
        raise TypeMismatchError(f"{name} returned {blocks.called(found)}; expected True or False")
    return bool(found)


def _one_column(values, n_rows):
    """The result of add_column's function: a value for each row; of a DataFrame its only column; a number,
    text or bool for all rows, as pandas takes it.
    """
    if isinstance(values, (bool, int, float, str)):
        return [values] * n_rows
    pandas = imported("pandas")
    if pandas is None or not isinstance(values, pandas.DataFrame):
        return values
    if values.shape[1] != 1:
        raise TypeMismatchError(
            f"add_column: expected a DataFrame of one column, found {', '.join(map(str, values.columns))}"
        )
    return values.iloc[:, 0]


def arrow_arguments(table, column):
    """(positional arguments, named arguments) of an expression's function: columns and constant values."""
    _, places, words, _ = column
    columns = blocks.table_to_arrow(table)
    given = [columns.column(place) if place is not None else value for place, value in places]
    n = len(given) - len(words)
    return given[:n], dict(zip(words, given[n:], strict=True))


def _arrow_result(pyarrow, what, result, dtype):
    """Values of Python or NumPy as a column of Arrow; dtype: the function's type, or None."""
    if "_shape_tensor" not in getattr(dtype, "extension_name", ""):
        return pyarrow.array(result, from_pandas=True)
    from headrace.data import tensor_types

    try:
        return tensor_types.of_arrays(result, dtype)
    except ValueError as e:
        raise TypeMismatchError(f"{what}: {e}") from None


def with_arrow_result(call, result, spec):
    """The result of an expression's function as a table of one column."""
    pyarrow = package("pyarrow", "udf")
    table, what = call.table, spec["name"]
    name, _, _, dtype = spec["column"]
    if isinstance(result, Column):  # download()'s, of the declared type
        return call.build({name: result})
    if not isinstance(result, (pyarrow.Array, pyarrow.ChunkedArray)):
        if not hasattr(result, "__len__") or isinstance(result, (str, bytes, dict)):
            raise TypeMismatchError(
                f"{what} returned {blocks.called(result)}; expected an array with one value per row"
            )
        result = _arrow_result(pyarrow, what, result, dtype)
    if len(result) != table.num_rows:
        raise TypeMismatchError(
            f"{what} returned {len(result)} values; expected {table.num_rows}, one per row"
        )
    if dtype is not None:
        result = blocks.as_type(result, dtype)
    return call.build({name: result})


class Input:
    """A copy of a call's input, for retries: a paused call ends, and another call continues it."""

    def __init__(self, call):
        self.table, self.batches, self.place, self.build = call.table, call.batches, call.place, call.build


class Tables:
    """Turns one result of a function into tables: several if it is large, unless spec["whole"]."""

    def __init__(self, call, spec):
        self.build, self.name, self.whole = call.build, spec["name"], spec.get("whole", False)
        self.limit = call.place[5]  # read now: a paused call ends, and another call continues it

    def __call__(self, result, n_bytes=None):
        if self.whole:
            return iter([blocks.table_of(result, self.build, self.name)])
        return cut(result, self.build, self.limit, self.name, n_bytes)


def in_tables(rows, build, whole=False, fn=None):
    """(table of some rows of an iterator, whether they are the last). whole: one table. fn: of its results
    for these rows; a StopIteration of fn does not end them, nor may one of a generator that calls a function.
    """
    most = (sys.maxsize, sys.maxsize) if whole else (FLAT_ROWS, FLAT_BYTES)
    ended = False
    while not ended:
        some, ended = take_rows(rows, *most, fn)
        if some:
            table = build(some)
            del some
            yield table, ended


def check_flat(result, name):
    if isinstance(result, dict) or not hasattr(result, "__iter__"):
        raise TypeMismatchError(f"{name} returned {blocks.called(result)}; expected a list of row dicts")


def is_retried(exception, patterns):
    """Whether DataContext.retried_map_errors covers it: True, or a pattern that is in its text or matches
    it.
    """
    if patterns is True:
        return True
    text = f"{type(exception).__name__}: {exception}"
    return any(p in text or re.search(p, text) for p in patterns or ())


def advance(steps, call):
    """Runs the steps of a call, which Runner makes, until the call ends (True) or is paused (False)."""
    from headrace.udf import errors

    given = 0
    try:
        for table, number, counts, more in steps:
            given += table.nbytes
            if not more and given <= HELD_BYTES:
                if table.num_rows:
                    call.result(table, number, counts)
                continue
            go = call.stream(table, number, counts)
            del table
            if go == PAUSE:
                return False
            if go == AWAY:
                steps.close()
                break
    except Exception as e:
        call.fail(*errors.pack(e))
    except BaseException as e:  # KeyboardInterrupt: the run fails, and the consumer gets the interrupt itself
        call.fail(*errors.pack(e))
        raise
    else:
        call.done()
    return True


here = threading.local()
# .ordinal: number of this thread's batch, in canonical order after a rebatch. .seeds: whether the thread may
# seed the process's random generators: in worker processes, and during an inline call.
_base_seed = random.Random.__base__.seed  # without Random.seed's conversions of other types
_shared = random.seed.__self__


def seed(ordinal, bits):
    """Seeds the random generators of Python, numpy and (if loaded) torch for a batch."""
    here.ordinal = ordinal
    if not getattr(here, "seeds", False):
        return
    _base_seed(_shared, bits)
    _shared.gauss_next = None
    np.random.seed(bits & 0xFFFFFFFF)
    torch = imported("torch")
    if torch is not None:
        _seed_torch(torch, bits & 0x7FFFFFFFFFFFFFFF)


def _seed_torch(torch, bits):
    """Like torch.manual_seed(). That keeps the seed, and a text of the whole stack, for the start of each
    kind of accelerator: 70 us and more per batch, also in a build of torch that has none.
    """
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is not None and accelerator.current_accelerator() is None:  # does not start a device
        torch.default_generator.manual_seed(bits)
    else:
        torch.manual_seed(bits)


def generators():
    """The states of the random generators."""
    torch = imported("torch")
    return random.getstate(), np.random.get_state(), torch.get_rng_state() if torch else None


def set_generators(state):
    random.setstate(state[0])
    np.random.set_state(state[1])
    if state[2] is not None:
        sys.modules["torch"].set_rng_state(state[2])


class kept_generators:
    """A context in which this thread may seed the process's random generators; restores them at its end."""

    def __enter__(self):
        self.state = generators()
        here.seeds = True

    def __exit__(self, *exception):
        here.seeds = False
        set_generators(self.state)


class Paused:
    """A paused call with the states of the random generators, which go_on() restores."""

    def __init__(self, steps):
        self.steps = steps
        self.state = generators() if getattr(here, "seeds", False) else None

    def go_on(self):
        if self.state is not None:
            set_generators(self.state)
        return self.steps
