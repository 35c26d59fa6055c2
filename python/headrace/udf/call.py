"""One call of a user function: a Table in, Tables out. The same code in worker processes, threads and
inline.
"""

import inspect
import random
import sys
import threading

import numpy as np

from headrace._core import TypeMismatchError
from headrace.data import blocks


class Runner:
    """A function ready to be called: a class is instantiated here, once for each worker.

    spec: dict(kind, name, fn, fn_args, fn_kwargs, constructor_args, constructor_kwargs, batch_format,
    zero_copy_batch, column).
    Kinds: "batches" (map_batches), "rows" (map), "flat" (flat_map), "filter", "column" (add_column),
    "values" (fn({name: values} of the columns in `column`) -> such a dict: columns replaced or added),
    "tables" (fn(Table, build) yields Tables: a source of this package's own).
    """

    def __init__(self, spec):
        self.spec = spec
        self.name = spec["name"]
        fn = spec["fn"]
        if inspect.isclass(fn):
            fn = fn(*spec["constructor_args"], **spec["constructor_kwargs"])
        args, kwargs = spec["fn_args"], spec["fn_kwargs"]
        self.fn = (lambda x, fn=fn: fn(x, *args, **kwargs)) if args or kwargs else fn
        self.run = getattr(self, "_" + spec["kind"])

    def __call__(self, table, build):
        """Tables that come out, one or, of a generator, several. build: dict or list of rows -> Table."""
        for made in self.run(table, build):
            if made.num_rows:
                yield made

    def _batch(self, table):
        return blocks.to_format(table, self.spec["batch_format"], writable=not self.spec["zero_copy_batch"])

    def _batches(self, table, build):
        result = self.fn(self._batch(table))
        if inspect.isgenerator(result) or (hasattr(result, "__next__") and hasattr(result, "__iter__")):
            for part in result:
                yield blocks.table_of(part, build, self.name)
        else:
            yield blocks.table_of(result, build, self.name)

    def _rows(self, table, build):
        fn = self.fn
        made = [fn(row) for row in blocks.rows_of(table, writable=True)]
        yield build(made)

    def _flat(self, table, build):
        made = []
        for row in blocks.rows_of(table, writable=True):
            result = self.fn(row)
            if isinstance(result, dict) or not hasattr(result, "__iter__"):
                raise TypeMismatchError(
                    f"{self.name} returned {type(result).__name__}; expected a list of row dicts"
                )
            made.extend(result)
        if made:
            yield build(made)

    def _tables(self, table, build):
        yield from self.fn(table, build)

    def _filter(self, table, build):
        fn = self.fn
        keep = np.fromiter((bool(fn(row)) for row in blocks.rows_of(table)), bool, table.num_rows)
        yield build({"keep": keep})

    def _column(self, table, build):
        values = self.fn(self._batch(table))
        column = build({self.spec["column"]: values}).column(0)
        yield table.with_column(self.spec["column"], column)

    def _values(self, table, build):
        made = self.fn({name: table.column(name).to_pylist() for name in self.spec["column"]})
        columns = build(made) if made else None
        for name in made:
            table = table.with_column(name, columns.column(name))
        yield table


here = threading.local()  # .ordinal: of the call that this thread runs, in canonical order after a rebatch


def seed(place):
    """Seeds Python's, numpy's and, if it is loaded, torch's generators from the place of the call."""
    here.ordinal = place[3]
    bits = place[4]
    random.seed(bits)
    np.random.seed(bits & 0xFFFFFFFF)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(bits & 0x7FFFFFFFFFFFFFFF)


class kept_generators:
    """While inside, the process's random generators may be seeded; afterwards they are as before."""

    def __enter__(self):
        torch = sys.modules.get("torch")
        self.torch = torch
        self.state = random.getstate(), np.random.get_state(), torch.get_rng_state() if torch else None

    def __exit__(self, *exception):
        random.setstate(self.state[0])
        np.random.set_state(self.state[1])
        if self.torch:
            self.torch.set_rng_state(self.state[2])
