"""Takes exceptions of user functions from the process that raised them to the consumer."""

import functools
import importlib
import inspect
import os
import pickle
import re
import traceback

from headrace._core import CallbackError, HeadraceError, TypeMismatchError
from headrace.settings import hint

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
# In the consumer these would have another meaning: the end of a loop, or of the program.
_MISLEADING = (StopIteration, StopAsyncIteration, GeneratorExit, SystemExit, KeyboardInterrupt)


def user_traceback(exception):
    """The traceback as text, without Headrace's own frames; nothing for an error of Headrace about a result,
    which has no others.
    """
    made = traceback.TracebackException.from_exception(exception, compact=True)
    seen = set()
    todo = [made]
    while todo:
        one = todo.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        kept = [f for f in one.stack if not os.path.abspath(f.filename).startswith(_OURS)]
        if one is made and not kept and isinstance(exception, HeadraceError):
            return ""
        one.stack = traceback.StackSummary.from_list(kept or one.stack)
        todo += [one.__cause__, one.__context__]
    return "".join(made.format())


def advise(exception, spec, call):
    """Keeps with the exception of a user's function what it says of the function's input, for pack()."""
    try:
        text, names = "", getattr(call.table, "names", ())
    except ValueError:
        return  # the generator was paused, and goes on in another call
    if isinstance(exception, KeyError) and exception.args and isinstance(exception.args[0], str):
        if (name := exception.args[0]) not in names:
            text = f"the function got the columns {', '.join(names)}{hint(name, names)}"
    elif spec["kind"] in ("rows", "flat", "filter"):
        if m := re.fullmatch(r"'dict' object has no attribute '(\w+)'", str(exception)):
            text = f"the function got a row, a dict: write row[{m[1]!r}]" if m[1] in names else ""
    elif spec.get("batch_format") == "numpy" and _OF_FRAMES.match(f"{type(exception).__name__}: {exception}"):
        text = "the function got a dict of NumPy arrays; batch_format='pandas' gives it a DataFrame"
    elif isinstance(exception, ValueError) and "read-only" in str(exception) and spec.get("zero_copy_batch"):
        text = (
            "the function got the engine's memory; zero_copy_batch=False gives it a copy that it may change"
        )
    if text:
        exception._headrace_advice = text


# What a function of DataFrames raises if it gets a dict of arrays.
_OF_FRAMES = re.compile(
    r"AttributeError: '(dict|numpy\.ndarray)' object has no attribute|"
    r"TypeError: (unhashable type: '(numpy\.ndarray|list|slice)'|cannot use '[\w.]+' as a dict key)"
)


def pack(exception):
    """(one line, bytes from which rebuild() makes the exception, in this process or another)."""
    import cloudpickle

    advice = vars(exception).pop("_headrace_advice", "")

    importlib.import_module("headrace.exceptions")  # without the module its classes would lose their names

    try:
        payload = cloudpickle.dumps(exception)
        pickle.loads(payload)  # fails here, not in the consumer, if the exception cannot be rebuilt
    except Exception:
        payload = _pack_parts(exception)
    line = " ".join(traceback.format_exception_only(exception)[-1].split()) or type(exception).__name__
    trace = "\n".join(filter(None, (user_traceback(exception).rstrip(), advice)))
    return line[:500], pickle.dumps((payload, trace, os.getpid(), line[:500]))


class _Parts:
    """An exception that cannot be pickled or rebuilt, for example because its class takes other arguments
    than it stores: its class, and its arguments and attributes, each as a value or, if it cannot be pickled,
    as text.
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
    """The value, or its repr() if it cannot be pickled."""
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
    """(description, value) of everything that travels to a worker with a function or class."""
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
    """The exception for a function that cannot be pickled: it names the function and the part at fault."""
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
        f"{spec['name']}: cannot pickle the function for worker processes{where}: {exception}. Make such a "
        "value where it is used, as in a class's __init__, or use compute='threads'"
    )


def _loaded(payload):
    from headrace.udf import sending

    return sending.loads(payload)


def cause(detail):
    """The exception of pack(), with the place where it was raised; None if it cannot be rebuilt. Never
    raises.
    """
    try:
        payload, trace, _, _ = pickle.loads(detail)
        found = _loaded(payload) if payload is not None else None
        found = found.made() if isinstance(found, _Parts) else found
        if not isinstance(found, BaseException) or isinstance(found, _MISLEADING):
            return None
        if trace:
            found.add_note(trace.rstrip())
        return found
    except Exception:
        return None


def rebuild(detail, text):
    """The exception of pack(), with its own type. text: names the operator. Never raises."""
    trace, pid, found, line = "", None, None, ""
    try:
        payload, trace, pid, line = pickle.loads(detail)
        found = _loaded(payload) if payload is not None else None
        found = found.made() if isinstance(found, _Parts) else found
    except Exception:
        pass
    if not isinstance(found, BaseException) or isinstance(found, _MISLEADING):
        found = CallbackError(text)
    where = "" if pid in (None, os.getpid()) else f" (in worker process {pid})"
    operator, _, rest = text.partition(": ")
    rows = rest[: -len(line) - 2] if line and rest.endswith(": " + line) else ""
    rows = f", for {rows}" if rows else ""
    found.add_note(f"raised by the function of {operator}{where}{rows}\n{trace}".rstrip())
    return found
