"""Exceptions of user functions on their way from where they were raised to the consumer."""

import functools
import importlib
import inspect
import os
import pickle
import traceback

from headrace._core import CallbackError, TypeMismatchError

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
# Raised in the consumer these would mean something else: the end of a loop, or of the program.
_MISLEADING = (StopIteration, StopAsyncIteration, GeneratorExit, SystemExit, KeyboardInterrupt)


def user_traceback(exception):
    """The traceback as text, without Headrace's own frames."""
    made = traceback.TracebackException.from_exception(exception, compact=True)
    seen = set()
    todo = [made]
    while todo:
        one = todo.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        kept = [f for f in one.stack if not os.path.abspath(f.filename).startswith(_OURS)]
        one.stack = traceback.StackSummary.from_list(kept or one.stack)
        todo += [one.__cause__, one.__context__]
    return "".join(made.format())


def pack(exception):
    """(one line, bytes) that rebuild() makes the exception of, in this process or another."""
    import cloudpickle

    importlib.import_module("headrace.exceptions")  # classes of a module that is not loaded lose their name

    try:
        payload = cloudpickle.dumps(exception)
        pickle.loads(payload)  # what cannot be made again is better known here
    except Exception:
        payload = _pack_parts(exception)
    line = " ".join(traceback.format_exception_only(exception)[-1].split()) or type(exception).__name__
    return line[:500], pickle.dumps((payload, user_traceback(exception), os.getpid(), line[:500]))


class _Parts:
    """An exception that cannot be pickled, or not be made again, whose class wants other arguments than it
    keeps: its class, what text it has, and those of its arguments and attributes that can be pickled.
    """

    def __init__(self, exception):
        self.kind = type(exception)
        self.args = tuple(_kept(a) for a in exception.args)
        self.state = {name: _kept(value) for name, value in vars(exception).items()}

    def made(self):
        found = self.kind.__new__(self.kind)
        found.args = self.args
        vars(found).update(self.state)
        return found


def _kept(value):
    """The value, or how it is written if it cannot be pickled."""
    import cloudpickle

    try:
        pickle.loads(cloudpickle.dumps(value))
    except Exception:
        return repr(value)
    return value


def _pack_parts(exception):
    import cloudpickle

    try:
        payload = cloudpickle.dumps(_Parts(exception))
        found = pickle.loads(payload).made()
        return payload if isinstance(found, BaseException) and str(found) == str(exception) else None
    except Exception:
        return None


def _held_by(fn):
    """(how it is called, value) of what goes to a worker with a function or class."""
    while isinstance(fn, functools.partial):
        yield from ((f"argument {i} of the partial", a) for i, a in enumerate(fn.args, 1))
        yield from ((f"argument {k} of the partial", a) for k, a in fn.keywords.items())
        fn = fn.func
    if inspect.isclass(fn):
        fn = vars(fn).get("__init__", fn)
    elif not inspect.isroutine(fn):
        yield from ((f"attribute {k}", v) for k, v in getattr(fn, "__dict__", {}).items())
        fn = getattr(type(fn), "__call__", fn)  # noqa: B004 - the method itself
    if inspect.ismethod(fn):
        yield from ((f"attribute {k}", v) for k, v in getattr(fn.__self__, "__dict__", {}).items())
        fn = fn.__func__
    if inspect.isfunction(fn):
        found = inspect.getclosurevars(fn)
        yield from ((f"variable {k}", v) for k, v in {**found.globals, **found.nonlocals}.items())
        yield from ((f"a default of {fn.__name__}", v) for v in fn.__defaults__ or ())
        yield from ((f"the default of {k}", v) for k, v in (fn.__kwdefaults__ or {}).items())


def unsendable(spec, exception):
    """What to raise if a function cannot be pickled: it names the function, and what of it cannot."""
    from headrace.udf import sending

    held = list(_held_by(spec["fn"]))
    for name in ("fn_args", "constructor_args"):
        held += [(f"argument {i}", a) for i, a in enumerate(spec[name], 1)]
    for name in ("fn_kwargs", "constructor_kwargs"):
        held += [(f"argument {k}", a) for k, a in spec[name].items()]
    where = ""
    for what, value in held:
        try:
            sending.dumps(value)
        except Exception:
            where = f": {what} is {type(value).__name__}"
            break
    return TypeMismatchError(
        f"{spec['name']} cannot be sent to worker processes{where}: {exception}. What cannot be pickled "
        "may be made where it is used, as in a class's __init__; compute='threads' sends nothing"
    )


def rebuild(detail, text):
    """The exception of pack(), with its own type. text: names the operator. Never raises."""
    trace, pid, found, line = "", None, None, ""
    try:
        payload, trace, pid, line = pickle.loads(detail)
        found = pickle.loads(payload) if payload is not None else None
        found = found.made() if isinstance(found, _Parts) else found
    except Exception:
        pass
    if not isinstance(found, BaseException) or isinstance(found, _MISLEADING):
        found = CallbackError(text)
    where = "" if pid in (None, os.getpid()) else f" (in worker process {pid})"
    operator, _, rest = text.partition(": ")
    rows = rest[: -len(line) - 2] if line and rest.endswith(": " + line) else ""
    rows = f", for {rows}" if rows else ""
    found.add_note(f"raised by the function of {operator}{where}{rows}\n{trace.rstrip()}")
    return found
