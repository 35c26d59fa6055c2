"""The nodes of a Dataset: each holds the arguments of a step in a form that pickles, and the engine's plan.

`Run` is one pass over a node's plan. A new operation needs a method `_NAME` that makes the engine's plan, and
a line in `describe()`.
"""

from __future__ import annotations

import json
import os
import threading
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

from headrace import _core, events
from headrace._core import Plan, Table
from headrace.data import early, running
from headrace.data.paths import is_served, shown
from headrace.udf import states

ALL_ROWS = 2**63 - 1  # end of a slice without an end
ROOM_BYTES = 256 << 20  # of memory that a run has before workers and epochs that nobody uses are kept
BEGINNING_ROWS = 10_000  # at most are taken from the files of a list's first page
_KEEPS_COLUMNS = (
    "cache",
    "distinct",
    "explode",
    "filter",
    "limit",
    "randomize_block_order",
    "random_shuffle",
    "sample",
    "sample_rows",
    "slice",
    "sort",
)


# Operations whose first rows are those of the first rows below; their methods get the plan below.
_OF_ROWS = ("filter", "limit", "project", "with_columns")


def _serve(args):
    """Tells the engine the filesystem that this process serves, if the arguments have one."""
    if (served := args.pop("filesystem", None)) is not None:
        args["storage_options"] = [*(args.get("storage_options") or []), served.option]


def _plain(url):
    """The path of a file as its filesystem takes it; another URL as it is."""
    return shown(url) if is_served(url) else url


class Node:
    """One step: an operation, its arguments and its inputs; immutable. `plan` is the engine's plan; making
    the node makes and checks it.

    A list of a store of many pages is not waited for: the node then makes `beginning`, the plan of the files
    of the first page, which has the schema and the first rows; `plan` is made when it is first needed.

    The node of a function has a Pool, which all datasets based on the node share.
    """

    def __init__(self, op: str, args: dict[str, Any], inputs: Sequence[Node] = ()) -> None:
        self.op = op
        self.args = args
        self.inputs = tuple(inputs)
        self.pool = None
        self.process = os.getpid()
        self.beginning = None
        self._plan = None
        if op == "read" and "partition_filter" not in args:
            first = self._read(first_page=True)
            if first.is_beginning():
                self.beginning = first
            else:
                self._plan = first
        elif op in _OF_ROWS and inputs[0].beginning is not None:
            self.beginning = getattr(self, "_" + op)(inputs[0].beginning)
        else:
            self._plan = self._make()

    def _make(self):
        make = getattr(self, "_" + self.op)
        return make(self.inputs[0].plan) if self.op in _OF_ROWS else make()

    @property
    def plan(self) -> Plan:
        """The engine's plan of all rows."""
        if self._plan is None:
            self._plan = self._make()
        return self._plan

    @property
    def schema_plan(self) -> Plan:
        """The plan that knows the schema first."""
        return self.beginning or self.plan

    def begins_with(self, n: int) -> bool:
        """Whether the first n rows are probably in the files of the list's first page."""
        return self.beginning is not None and n <= BEGINNING_ROWS and not self._filters()

    def _filters(self):
        return self.op == "filter" or any(node._filters() for node in self.inputs)

    def here(self) -> Node:
        """The same node for this process: a forked child needs its own workers for functions."""
        if self.process != os.getpid():
            if any(True for _ in self._functions()):
                self.__init__(self.op, self.args, [n.here() for n in self.inputs])
            self.process = os.getpid()
        return self

    def _functions(self):
        if self.op == "calls":
            yield self
        for node in self.inputs:
            yield from node._functions()

    def __reduce__(self) -> tuple[Any, ...]:
        if self.op == "materialized":
            rows = self.args["rows"]
            if not rows.disk_bytes:
                return Node, ("tables", {"tables": rows.tables(), "what": "materialize"})
            raise _core.UnsupportedError(
                f"cannot pickle a materialized dataset with {rows.disk_bytes} of {rows.nbytes} bytes on "
                "disk: pickle the dataset before materialize(), write it to files, or set a larger "
                "DataContext.memory_limit_bytes before materialize()"
            )
        if self.op != "calls" and not {"partition_filter", "filesystem"} & self.args.keys():
            return Node, (self.op, self.args, self.inputs)
        from headrace.udf import sending

        return _pickled_node, (self.op, sending.dumps(self.args), self.inputs)

    def _read(self, first_page=False):
        args = dict(self.args)
        args.setdefault("format", None)
        args.pop("name", None)
        _serve(args)
        keep = args.pop("partition_filter", None)
        if keep is None:
            if self.beginning is not None:
                args["begun"] = self.beginning
            return Plan.read(**args, first_page=first_page)
        listing = ("urls", "format", "ignore_missing_paths", "suffixes", "storage_options")
        listed = Plan.read(**{k: v for k, v in args.items() if k in listing}).files()
        files = keep([_plain(f) for f in listed])
        if not isinstance(files, (list, tuple)) or not all(isinstance(f, str) for f in files):
            raise _core.TypeMismatchError(
                f"partition_filter: expected a list of paths, found {type(files).__name__}"
            )
        if not files:
            raise _core.NotFoundError(
                f"{shown(args['urls'][0])}: {getattr(keep, 'argument', 'partition_filter')} keeps no file"
            )
        urls = {_plain(url): url for url in listed}
        return Plan.read(**args | {"urls": [urls.get(f, f) for f in files]})

    def _tables(self):
        return Plan.tables(self.args["tables"])

    def _nothing(self):
        """A plan without rows and known columns: the result of a function without calls."""
        return Plan.tables([Table.build({})]).calls(_core.Calls("nothing"), "nothing", "nothing")

    def _materialized(self):
        return self.args["rows"].plan()

    def _range(self):
        return Plan.range(self.args["n"], self.args["name"], self.args.get("n_blocks") or 0)

    def _union(self):
        return Plan.union([n.plan for n in self.inputs])

    def _project(self, below):
        return below.project(**self.args)

    def _filter(self, below):
        return below.filter(self.args["expr"])

    def _with_columns(self, below):
        return below.with_columns(self.args["names"], self.args["exprs"])

    def _group(self):
        return self.inputs[0].plan.group(self.args["keys"], self.args["aggregates"])

    def _join(self):
        left, right = self.inputs
        return left.plan.join(right.plan, *self.args.values())

    def _number_rows(self):
        return self.inputs[0].plan.number_rows(self.args["name"])

    def _limit(self, below):
        return below.limit(self.args["n"])

    def _cache(self):
        return self.inputs[0].plan.cache(self.args["folder"], self.args["limit"] or 0, self.args["version"])

    def _distinct(self):
        return self.inputs[0].plan.distinct(*self.args.values())

    def _explode(self):
        return self.inputs[0].plan.explode(self.args["column"])

    def _sample_rows(self):
        return self.inputs[0].plan.sample_rows(self.args["n"], self.args["seed"])

    def _slice(self):
        return self.inputs[0].plan.slice(self.args["begin"], self.args["end"])

    def _sample(self):
        return self.inputs[0].plan.sample(**self.args)

    def _zip(self):
        return Plan.zip([n.plan for n in self.inputs])

    def _mix(self):
        args = self.args
        return Plan.mix([n.plan for n in self.inputs], args["weights"], args["drop"], args.get("n_rows"))

    def _whole_groups(self):
        return self.inputs[0].plan.whole_groups(tuple(self.args["keys"]))

    def _fragments(self):
        return self.inputs[0].plan.fragments()

    def _rebatch(self):
        return self.inputs[0].plan.rebatch(self.args["n_rows"])

    def _sort(self):
        return self.inputs[0].plan.sort(self.args["keys"])

    def _randomize_block_order(self):
        return self.inputs[0].plan.randomize_block_order(self.args["seed"], self.args["once"])

    def _random_shuffle(self):
        return self.inputs[0].plan.random_shuffle(self.args["seed"], self.args["once"])

    def _repartition(self):
        args = self.args
        return self.inputs[0].plan.repartition(args["n_blocks"], args["shuffle"], args["keys"], args["sort"])

    def _pack(self):
        return self.inputs[0].plan.pack(*self.args.values())

    def _batch_by_length(self):
        return self.inputs[0].plan.batch_by_length(*self.args.values())

    def _write(self):
        args = dict(self.args)
        _serve(args)
        return self.inputs[0].plan.write(**args)

    def _calls(self):
        from headrace.udf.pool import Pool

        args = self.args
        how = ("compute", "least", "most", "initial", "gpus", "cpus", "depth", "max_retries")
        self.pool = Pool(args["spec"], **{name: args[name] for name in how})
        fn = args["spec"]["fn"]
        qualified = getattr(fn, "__qualname__", type(fn).__qualname__)  # not __module__: a script may move
        return self.inputs[0].plan.calls(
            self.pool.calls,
            args["spec"]["name"],
            qualified,
            inline_calls=args["compute"] == "inline",
            **args["options"],
        )

    def pools(self) -> list[Any]:
        """Pools of all functions, inputs first, each pool once."""
        out = {}
        for node in self.inputs:
            out.update(dict.fromkeys(node.pools()))
        if self.pool is not None:
            out[self.pool] = None
        return list(out)

    def names(self) -> list[str] | None:
        """Column names if the nodes after the last function determine them; None: only a run or a schema
        knows."""
        if self.op == "project":
            return list(self.args["new_names"] or self.args["names"])
        if self.op in _KEEPS_COLUMNS:
            return self.inputs[0].names()
        if self.op == "with_columns" and (below := self.inputs[0].names()) is not None:
            return below + [n for n in dict.fromkeys(self.args["names"]) if n not in below]
        return None

    def files(self) -> Iterator[str]:
        """Paths of all files that the plan reads, in the order of the scans."""
        if self.op == "read":
            yield from map(_plain, self.plan.files())
        for node in self.inputs:
            yield from node.files()

    def describe(self):
        """The step as one line of text, without I/O."""
        args = self.args
        if self.op == "read":
            urls = args["urls"]
            first = shown(urls[0])
            what = first if len(urls) == 1 else f"{len(urls)} paths, {first} ..."
            name = args.get("name") or f"read_{args.get('format') or 'files'}"
            return f"{name}({what})"
        if self.op in ("tables", "nothing"):
            return f"{args['what']}({sum(t.num_rows for t in args['tables'])} rows)"
        if self.op == "materialized":
            return f"materialize({args['rows'].num_rows} rows)"
        if self.op == "range":
            return f"range({args['n']})"
        if self.op in ("union", "zip", "mix"):
            others = [n.chain() for n in self.inputs[1:]]
            if self.op == "mix":
                others.append(f"weights={self.args['weights']}")
            return f"{self.op}({', '.join(others)})"
        if self.op == "slice":
            return f"slice({args['begin']}:{'' if args['end'] == ALL_ROWS else args['end']})"
        if self.op == "project":
            old, new = args["names"], args["new_names"]
            if new:
                renamed = ", ".join(f"{a} -> {b}" for a, b in zip(old, new, strict=True) if a != b)
                return f"rename_columns({renamed})"
            return f"select_columns({', '.join(old)})"
        if self.op == "filter":
            return f"filter({args['expr']})"
        if self.op == "with_columns":
            pairs = zip(args["names"], args["exprs"], strict=True)
            return f"with_columns({', '.join(f'{name} = {expr}' for name, expr in pairs)})"
        if self.op == "group":
            names = ", ".join(name for _, _, name, _ in args["aggregates"])
            return f"groupby({', '.join(args['keys'])}).aggregate({names})"
        if self.op == "distinct":
            keep = "" if args["keep"] == 0 else f", keep={('first', 'last', False)[args['keep']]!r}"
            return f"drop_duplicates({', '.join(args['keys'] or args['columns'])}{keep})"
        if self.op == "cache":
            return f"cache({args['folder']!r})"
        if self.op == "sample_rows":
            return f"sample({args['n']}, seed={args['seed']})"
        if self.op == "join":
            return f"join({self.inputs[1].chain()}, on={args['on']})"
        if self.op == "sort":
            keys = (f"{key} descending" if down else str(key) for key, down, _ in args["keys"])
            return f"sort({', '.join(keys)})"
        if self.op == "repartition":
            return f"repartition({args['n_blocks']})"
        if self.op in ("random_shuffle", "randomize_block_order"):
            return f"{self.op}()" if args["seed"] is None else f"{self.op}(seed={args['seed']})"
        if self.op == "pack":
            return f"pack({args['seq_len']}, {('concat', 'first_fit', 'best_fit')[args['strategy']]})"
        if self.op == "batch_by_length":
            return f"batch_by_length({args['column']}, max_tokens={args['max_tokens']})"
        if self.op == "calls":
            return args["spec"]["name"]
        if self.op == "write":
            return f"write_{args['format']}({args['path']})"
        return f"{self.op}({', '.join(str(v) for v in args.values())})"

    def chain(self) -> str:
        """All steps as one line, the source first."""
        return " -> ".join(self.steps())

    def steps(self) -> list[str]:
        """A line for each step, the source first."""
        return [*(self.inputs[0].steps() if self.inputs else ()), self.describe()]


def _pickled_node(op, args, inputs):
    import pickle

    return Node(op, pickle.loads(args), inputs)


class Run:
    """One pass over a plan: a Feed, and the workers of the plan's functions. next() returns a Table, or None
    at the end. beginning: over the node's `beginning`.
    """

    def __init__(self, node, owner=None, *, beginning=False, **options):
        node = node.here()
        self.number = next(running.numbers)
        self.running = None
        self.pools = node.pools()
        self.owner = owner
        self._lock = threading.Lock()
        self._open, self._closed = True, False
        self.stats_text = None
        self._begun = []  # the pools that end with the run
        try:
            for pool in self.pools:
                pool.begin()
                self._begun.append(pool)
            self._make_room(options.get("memory_limit") or _core.memory_limit())
            inline = [p.inline for p in self.pools if p.inline]
            plan = node.beginning if beginning else node.plan
            self.feed = _core.Feed(plan, inline_calls=inline, **options)
            if not self.pools:
                self.next = self.feed.next  # the same without a call of Python
            at_exit = weakref.WeakMethod(self.close)
            self.running = running.Running(self.feed, node, self.number, at_exit=at_exit)
        except BaseException as e:
            self._end_pools()
            if owner is not None and isinstance(e, _core.HeadraceError):
                owner._last_stats = json.dumps({"error": str(e)})
            raise
        if events.wanted(events.DATA):
            events.tell(events.DATA, "run %d begins: %s", self.number, node.chain())

    @staticmethod
    def _make_room(limit):
        """Idle workers may hold a model that takes long to load: they end only where memory is short."""
        most = limit - min(limit // 2, ROOM_BYTES)
        if _core.memory_used() > most:
            early.make_room(most)
            states.make_room(most)

    def next(self):
        try:
            return self.feed.next()
        except _core.PeerError as e:
            raise explained(e, self.pools) from None

    def _end_pools(self):
        with self._lock:
            was, self._open = self._open, False
        if was:
            for pool in self._begun:
                pool.end()
                pool.log_errored()

    def stats(self):
        """JSON text of the run's statistics so far, or of those at its close."""
        if self.stats_text:
            return self.stats_text
        try:
            return self.feed.stats()
        except _core.InvalidArgument:
            if not self.feed.closed:
                raise
            return "{}"

    def close(self):
        """Ends the pass. Tables that next() returned stay valid."""
        self.running.ends()
        if self._closed:
            return
        try:
            self.stats_text = self.feed.stats()
            self._tell_end()
        except _core.InvalidArgument:
            pass  # closed before, or another thread is in next() and closes it
        self.feed.close()
        self._end_pools()
        if self.owner is not None:
            self.owner._last_stats = self.stats_text or "{}"
        self._closed = True

    def _tell_end(self):
        if events.wanted(events.DATA):
            self._tell_stats()
            s = json.loads(self.stats_text)
            text = "run %d ends after %.3f s: %d rows, %d read; peak of memory %d bytes"
            counts = s["taken_rows"], s["rows_read"], s["peak_bytes"]
            events.tell(events.DATA, text, self.number, s["seconds"], *counts)

    def _tell_stats(self):
        from headrace.data import run_stats
        from headrace.data.context import DataContext

        if DataContext.get_current().enable_auto_log_stats:
            text = run_stats.in_format(self.stats_text, "text")
            events.tell(events.DATA, "run %d: statistics\n%s", self.number, text)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def __iter__(self):
        while (table := self.next()) is not None:
            yield table

    def __del__(self):
        if getattr(self, "running", None) is not None:
            self.running.ends()
        if getattr(self, "feed", None) is not None:
            self.feed.close()
        self._end_pools()


def explained(error, pools):
    """A PeerError with the reason why the pool's worker died, or why a pool could not start workers."""
    for p in pools:
        if "no worker process" in str(error) and p.name in str(error) and p.failure():
            return p.failure()
    deaths = [d for p in pools if p.name in str(error) and (d := p.deaths(str(error)))]
    return type(error)(f"{error}: {'; '.join(deaths)}") if deaths else error
