"""A user's functions over rows, batches and groups: checks their arguments and makes their plan nodes.

headrace.udf runs the functions; docs/functions.md says what they get and may return.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import Any, ClassVar

from headrace import lazy_module
from headrace._core import InvalidArgument, TypeMismatchError
from headrace.data.context import DataContext, accept_cluster_arguments, is_whole
from headrace.data.plan import Node
from headrace.settings import OnlyKnown, hinted

hints = lazy_module("headrace.data.hints")

BATCH_BLOCK_ROWS = 4096  # most rows of a batch without a size from the user
ROW_BLOCK_ROWS = 512
ROW_BATCH_BYTES = 8 << 20
MAX_BATCHES = 64  # most short batches in one message to a worker
BATCHED = ("batches", "column", "groups")  # kinds that get columns, in batch_format
_OF_ROWS = ("rows", "flat", "filter")  # kinds that get rows
SEVERAL = ("batches", "rows", "flat", "filter")  # kinds that can get several batches at a time


class ComputeStrategy(OnlyKnown):
    """The base of the strategies for compute=."""


@hinted
class TaskPoolStrategy(ComputeStrategy):
    """Workers for a function; size: the most workers."""

    _names = ("size",)

    def __init__(self, size: int | None = None) -> None:
        if size is not None and not is_whole(size, 1):
            raise InvalidArgument(f"TaskPoolStrategy: size: expected a number of at least 1, found {size!r}")
        self.size = size

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, TaskPoolStrategy) and self.size == other.size

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"TaskPoolStrategy(size={self.size})"


@hinted
class ActorPoolStrategy(ComputeStrategy):
    """Workers for a function or class: `size` of them, or from min_size (1) to max_size (no limit), with
    initial_size (min_size) at first.

    max_tasks_in_flight_per_actor: most batches of a worker at a time: one that the worker processes, and
    others that wait for it. max_concurrent_calls_per_actor and enable_true_multi_threading have no effect: a
    worker makes one call of a function that is not async at a time.
    """

    _names = (
        *("min_size", "max_size", "initial_size", "max_tasks_in_flight_per_actor"),
        *("max_concurrent_calls_per_actor", "enable_true_multi_threading"),
    )

    def __init__(
        self,
        *,
        size: int | None = None,
        min_size: int | None = None,
        max_size: float | None = None,
        initial_size: int | None = None,
        max_tasks_in_flight_per_actor: int | None = None,
        max_concurrent_calls_per_actor: int | None = None,
        enable_true_multi_threading: bool | None = None,
    ) -> None:
        numbers = {
            "size": size,
            "min_size": min_size,
            "max_size": max_size,
            "initial_size": initial_size,
            "max_tasks_in_flight_per_actor": max_tasks_in_flight_per_actor,
            "max_concurrent_calls_per_actor": max_concurrent_calls_per_actor,
        }
        for name, value in numbers.items():
            unlimited = name == "max_size" and value == math.inf
            if value is not None and not unlimited and not is_whole(value, 1):
                raise InvalidArgument(
                    f"ActorPoolStrategy: {name}: expected a number of at least 1, found {value!r}"
                )
        if size is not None:
            if not min_size is max_size is initial_size is None:
                raise InvalidArgument(
                    "ActorPoolStrategy: size sets a fixed size: expected no min_size, max_size or "
                    "initial_size beside it"
                )
            min_size = max_size = initial_size = size
        self.min_size: int = min_size or 1
        self.max_size: float = max_size or math.inf
        self.initial_size: int = initial_size or self.min_size
        self.max_tasks_in_flight_per_actor = max_tasks_in_flight_per_actor
        self.max_concurrent_calls_per_actor = max_concurrent_calls_per_actor
        self.enable_true_multi_threading: bool = bool(enable_true_multi_threading)
        if not self.min_size <= self.initial_size <= self.max_size:
            raise InvalidArgument(
                "ActorPoolStrategy: expected min_size <= initial_size <= max_size, found "
                f"{self.min_size}, {self.initial_size}, {self.max_size}"
            )

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, ActorPoolStrategy) and vars(self) == vars(other)

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"ActorPoolStrategy({', '.join(f'{k}={v}' for k, v in vars(self).items())})"


def workers(method, compute, concurrency):
    """dict(compute, least, most, initial, depth) from the arguments `compute` and `concurrency`."""
    made = {"compute": "processes", "least": 1, "most": None, "initial": None, "depth": 0}
    if isinstance(compute, str):
        where = {"tasks": "processes", "actors": "processes"}.get(compute, compute)
        if where not in ("processes", "threads", "inline"):
            raise InvalidArgument(
                f"{method}: compute: expected 'processes', 'threads', 'inline' or a strategy, "
                f"found {compute!r}"
            )
        made["compute"] = where
    elif isinstance(compute, TaskPoolStrategy):
        made["most"] = compute.size
    elif isinstance(compute, ActorPoolStrategy):
        made["least"], made["initial"] = compute.min_size, compute.initial_size
        made["most"] = None if compute.max_size == math.inf else compute.max_size
        made["depth"] = compute.max_tasks_in_flight_per_actor or 0
    elif compute is not None and compute not in (TaskPoolStrategy, ActorPoolStrategy):
        raise InvalidArgument(
            f"{method}: compute: expected 'processes', 'threads', 'inline' or a strategy, found {compute!r}"
        )
    if concurrency is not None:
        made.update(_concurrency(method, concurrency))
    return made


def _concurrency(method, concurrency):
    many = isinstance(concurrency, (tuple, list))
    numbers = list(concurrency) if many else [1, concurrency]
    if len(numbers) not in (2, 3) or not all(is_whole(n, 1) for n in numbers):
        raise InvalidArgument(
            f"{method}: concurrency: expected a number of at least 1, (least, most), or "
            f"(least, most, initial), found {concurrency!r}"
        )
    least, most, initial = numbers if len(numbers) == 3 else [*numbers, numbers[0]]
    if not least <= initial <= most:
        raise InvalidArgument(
            f"{method}: concurrency: expected least <= initial <= most, found {least}, {initial}, {most}"
        )
    return {"least": least, "most": most, "initial": initial}


def function_name(fn):
    """The function's name in plans and errors."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    return getattr(fn, "__name__", type(fn).__name__)


def _check_function(method, fn, args, kwargs, constructor_args, constructor_kwargs):
    if not callable(fn):
        raise TypeMismatchError(f"{method}: expected a function or a class, found {type(fn).__name__}")
    for name, given in (("fn_args", args), ("fn_constructor_args", constructor_args)):
        if given is not None and (isinstance(given, (str, bytes)) or not isinstance(given, Iterable)):
            raise TypeMismatchError(f"{method}: {name}: expected a list or a tuple, found {given!r}")
    for name, given in (("fn_kwargs", kwargs), ("fn_constructor_kwargs", constructor_kwargs)):
        if given is not None and not isinstance(given, Mapping):
            raise TypeMismatchError(f"{method}: {name}: expected a dict of names to values, found {given!r}")
    if inspect.isclass(fn):
        if not any("__call__" in vars(c) for c in fn.__mro__):
            raise TypeMismatchError(f"{method}: the class {fn.__name__} has no __call__")
    elif constructor_args or constructor_kwargs:
        raise InvalidArgument(
            f"{method}: only a class takes constructor arguments, and {function_name(fn)} is a function"
        )


def _retries(method, other):
    """How often the engine repeats a call whose worker died: max_retries or max_task_retries."""
    found = 0
    for name in ("max_retries", "max_task_retries", "max_restarts"):
        value = other.pop(name, None)
        if value is None:
            continue
        if not is_whole(value, -1):
            raise InvalidArgument(f"{method}: {name}: expected a number, or -1 for no limit, found {value!r}")
        if name != "max_restarts":
            found = value
    return found


def _cpus(method, cpus):
    if cpus is None:
        return 1
    if isinstance(cpus, bool) or not isinstance(cpus, Real) or not cpus >= 0:
        raise InvalidArgument(f"{method}: num_cpus: expected a number of at least 0, found {cpus!r}")
    return cpus or 1


def _gpus(method, gpus, made, node):
    """The GPUs per worker; an error unless the least numbers of workers of all functions of the plan fit
    together."""
    if not gpus:
        return 0
    from headrace.udf import gpus as devices

    gpus = devices.check(method, gpus)
    if made["compute"] != "processes":
        return 0  # the function runs in this process and sees this process's GPUs
    there = len(devices.visible())
    if made["least"] > devices.capacity(gpus):
        raise InvalidArgument(
            f"{method}: {made['least']} workers with num_gpus {gpus:g} each do not fit: found {there} GPUs"
        )
    before = {n.args["spec"]["name"]: n.args for n in node._functions() if n.args.get("gpus")}
    needed = gpus * made["least"] + sum(a["gpus"] * a["least"] for a in before.values())
    if needed > there:
        raise InvalidArgument(
            f"{method}: num_gpus {gpus:g} beside {', '.join(before)}: {needed:g} GPUs in all, found {there}"
        )
    return gpus


def _policy():
    """DataContext's settings for errors of functions, at the time when a function is added."""
    context = DataContext.get_current()
    errors, retries = context.retried_map_errors, context.max_map_retries
    blocks = context.max_errored_blocks
    if not isinstance(blocks, Integral) or isinstance(blocks, bool):
        raise InvalidArgument(f"DataContext.max_errored_blocks: expected a number, found {blocks!r}")
    if not is_whole(retries, 0):
        raise InvalidArgument(
            f"DataContext.max_map_retries: expected a number of at least 0, found {retries!r}"
        )
    if not isinstance(errors, bool):
        if isinstance(errors, str) or not all(isinstance(e, str) for e in errors):
            raise InvalidArgument(
                "DataContext.retried_map_errors: expected True, False or a list of patterns, "
                f"found {errors!r}"
            )
        errors = list(errors)
    return {"retried_errors": errors, "max_retries": retries if errors else 0}, int(blocks)


def function_node(
    node,
    method,
    kind,
    fn,
    *,
    compute,
    concurrency,
    options,
    fn_args=None,
    fn_kwargs=None,
    fn_constructor_args=None,
    fn_constructor_kwargs=None,
    batch_format=None,
    zero_copy_batch=None,
    column=None,
    batch_size=None,
    num_cpus=None,
    num_gpus=None,
    memory=None,
    **other,
):
    """The Node that runs `fn` over the rows of `node`. kind: see headrace.udf.call.Runner. options: those of
    Plan.calls. other: Ray's arguments that have a meaning only on a cluster.
    """
    if kind in _OF_ROWS:
        given = {"batch_format": batch_format, "zero_copy_batch": zero_copy_batch, "batch_size": batch_size}
        for name, value in given.items():
            if value is not None:
                raise hints.unexpected(method, name)
    batch_format = batch_format or "numpy"
    zero_copy_batch = zero_copy_batch is not False
    _check_function(method, fn, fn_args, fn_kwargs, fn_constructor_args, fn_constructor_kwargs)
    made = workers(method, compute, concurrency)
    if made["compute"] == "processes":
        from headrace.udf import starter

        starter.warm_up()  # before the other imports, so that the processes start meanwhile
    from headrace.udf import instances
    from headrace.udf.call import BATCHES_AT_A_TIME, is_async

    made["max_retries"] = _retries(method, other)
    accept_cluster_arguments(method, other, _CALL_ARGUMENTS)
    if memory is not None and (isinstance(memory, bool) or not isinstance(memory, Real) or memory < 0):
        raise InvalidArgument(f"{method}: memory: expected a number of bytes, found {memory!r}")
    policy, max_errored = _policy()
    awaits = is_async(fn)
    if awaits and not made["depth"]:
        made["depth"] = BATCHES_AT_A_TIME if kind in ("batches", "groups") else 2
    fresh, changed = instances.contract(method, kind, fn, made, awaits, options)
    options = {**options, **changed}
    if awaits and changed.get("of_class", (0, 0))[1] == 1:
        made["depth"] = 1
    made["gpus"] = _gpus(method, num_gpus, made, node)
    made["cpus"] = _cpus(method, num_cpus)
    spec = {
        "name": f"{method}({function_name(fn)})",
        "kind": kind,
        "fn": fn,
        "fn_args": tuple(fn_args or ()),
        "fn_kwargs": dict(fn_kwargs or {}),
        "constructor_args": tuple(fn_constructor_args or ()),
        "constructor_kwargs": dict(fn_constructor_kwargs or {}),
        "batch_format": batch_format,
        "zero_copy_batch": zero_copy_batch,
        "column": column,
        "async": awaits,
        "objects": DataContext.get_current().enable_fallback_to_arrow_object_ext_type is not False,
        **policy,
        **fresh,
    }
    if kind in BATCHED and batch_format != "pyarrow":
        options["shows_doubles"] = True
    if batch_size is not None:
        node = Node("rebatch", {"n_rows": batch_size}, [node])
        options["batch_rows"] = -1
    elif node.plan.makes_batches() and "group_keys" not in options:
        options.pop("block_rows", None)
        options["batch_rows"] = -1  # a call gets one of these batches
    elif kind in SEVERAL and not awaits and not policy["max_retries"] and options.get("block_rows", 0) > 1:
        options["max_batches"] = MAX_BATCHES
    if max_errored:
        options["max_errored"] = max_errored
        spec["whole"] = True  # a run leaves out whole batches: no result goes on before its batch is done
    return Node("calls", {"spec": spec, **made, "options": options}, [node])


WHOLE = 1 << 62  # rows: more than any dataset has


_CALL_ARGUMENTS = function_node.__kwdefaults__.keys()  # of all methods, for hints


def grouped_function_node(node, method, fn, keys, **arguments):
    """The Node that calls `fn` once for each group: consecutive rows of `node` with equal values in the
    columns `keys`; without keys all rows are one group. The caller puts the rows of a group together.
    """
    if not keys:
        whole = Node("rebatch", {"n_rows": WHOLE}, [node])
        return function_node(whole, method, "groups", fn, options={"batch_rows": -1}, **arguments)
    options = {"group_keys": tuple(keys)}
    whole = Node("whole_groups", {"keys": tuple(keys)}, [node])
    return function_node(whole, method, "groups", fn, options=options, **arguments)


__all__ = [
    "BATCH_BLOCK_ROWS",
    "ROW_BATCH_BYTES",
    "ROW_BLOCK_ROWS",
    "ActorPoolStrategy",
    "TaskPoolStrategy",
    "function_name",
    "function_node",
    "grouped_function_node",
    "workers",
]
