"""Exceptions of user functions on their way from where they were raised to the consumer."""

import importlib
import os
import pickle
import traceback

from headrace._core import CallbackError

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
        payload = None
    line = " ".join(traceback.format_exception_only(exception)[-1].split()) or type(exception).__name__
    return line[:500], pickle.dumps((payload, user_traceback(exception), os.getpid(), line[:500]))


def rebuild(detail, text):
    """The exception of pack(), with its own type. text: names the operator. Never raises."""
    trace, pid, found, line = "", None, None, ""
    try:
        payload, trace, pid, line = pickle.loads(detail)
        found = pickle.loads(payload) if payload is not None else None
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
