"""Instances of a user's class, one per run in each server, and the optional methods of a class.

A class whose function runs with concurrency=1 sees its batches in the order of the rows, and may have

    finish()               returns its last rows after the last batch, in any form that __call__ may return
    state_dict()           returns its state, for a position; any value that pickles
    load_state_dict(state) restores the state in a new instance, before its first batch

The engine's side: src/op/call/turns.c.
"""

import base64
import functools
import gc
import inspect
import pickle
import weakref

from headrace._core import InvalidArgument, TypeMismatchError
from headrace.optional import imported
from headrace.udf import errors

MAX_STATE_BYTES = 1 << 20  # of a pickled state in a position
IN_ORDER, LAST, SAVE = 1, 2, 4  # a call's flags
RUN, FLAGS = 6, 7  # indices in a call's place
WITH_FINISH = ("batches", "groups", "rows", "flat")  # kinds that may return any number of rows


# ---------------------------------------------------------------------------------------- kinds of functions


def remembers(fn):
    """ "class", "object" (a callable object or a bound method), or None for a plain function."""
    if inspect.isclass(fn):
        return "class"
    while isinstance(fn, functools.partial):
        fn = fn.func
    if inspect.ismethod(fn):
        return None if inspect.isclass(fn.__self__) else "object"
    return None if inspect.isroutine(fn) else "object"


def has_own(fn, name):
    """Whether a class has a method of that name. torch's methods do not count: a Module's state is the
    model.
    """
    for cls in fn.__mro__:
        if name in vars(cls):
            return callable(getattr(fn, name)) and cls.__module__.partition(".")[0] != "torch"
    return False


def keeps_state(fn):
    """Whether a class has state_dict() and load_state_dict()."""
    return inspect.isclass(fn) and has_own(fn, "state_dict") and has_own(fn, "load_state_dict")


def _finishes(method, kind, fn, single, one_to_one):
    """Whether a class has finish(); an error if there is no place for its rows."""
    if not has_own(fn, "finish"):
        return False
    what = f"{method}: {fn.__name__}.finish()"
    try:
        parameters = list(inspect.signature(fn.finish).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    if not isinstance(inspect.getattr_static(fn, "finish"), (staticmethod, classmethod)):
        parameters = parameters[1:]
    needed = [
        p.name for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    if needed:
        raise TypeMismatchError(
            f"{what}: expected no parameters, found {', '.join(needed)}: the engine calls finish() without "
            "arguments, for the last rows; give another method another name"
        )
    if kind not in WITH_FINISH:
        raise InvalidArgument(
            f"{what} returns rows of its own, but {method} returns one row per row of the input; "
            "give a method with another purpose another name"
        )
    if not single:
        raise InvalidArgument(
            f"{what} returns the last rows of one instance; the order of several instances is undefined: "
            "use concurrency=1"
        )
    if one_to_one:
        raise InvalidArgument(
            f"{what} returns rows of its own, but udf_modifying_row_count=False excludes them"
        )
    return True


def forgets(spec, single):
    """The warning of a resume about a class whose instance may remember rows and whose state is not in
    positions; None if there is nothing to warn of.
    """
    fn = spec["fn"]
    if spec["fresh"] != "class" or fn.__module__.partition(".")[0] == "headrace":
        return None
    what = f"{spec['name']}: a new {fn.__name__} continues from the position"
    if not keeps_state(fn):
        return (
            f"{what} and does not know the rows before it; with concurrency=1, state_dict() and "
            "load_state_dict() it would continue as the old one"
        )
    if not single:
        return f"{what} and does not know the rows before it: only concurrency=1 saves state_dict()"
    return None


def contract(method, kind, fn, made, awaits, options):
    """(entries of a function's spec, engine options) for classes and callable objects. made: from
    functions.workers().
    """
    what = remembers(fn)
    if what is None or (what == "object" and made["compute"] != "processes"):
        fn_of = getattr(fn, "__self__", fn)
        if what and has_own(type(fn_of), "finish"):
            raise _object_with_finish(method, fn_of)
        return {"fresh": None}, {}
    if what == "object":
        if has_own(type(getattr(fn, "__self__", fn)), "finish"):
            raise _object_with_finish(method, getattr(fn, "__self__", fn))
        return {"fresh": what}, {"of_class": (0, 0, False, False)}
    single = made["most"] == 1 or made["compute"] == "inline"
    one_to_one = kind == "batches" and options.get("one_to_one", False)
    finishes = _finishes(method, kind, fn, single, one_to_one)
    saves = single and keeps_state(fn)
    at_a_time = 0 if not single else 1 if finishes or saves or not awaits else made["depth"]
    ahead = (made["initial"] or made["least"]) if made["compute"] == "processes" else 0
    changed = {"of_class": (ahead, at_a_time, finishes, saves)}
    if finishes:
        changed["one_to_one"] = False
    return {"fresh": what}, changed


def _object_with_finish(method, found):
    name = type(found).__name__
    return InvalidArgument(
        f"{method}: {name} has finish(), which needs an instance per run: pass the class {name} and "
        "fn_constructor_args, not an object"
    )


# ------------------------------------------------------------------------------------------------- instances


class Instances:
    """The runners of one server. make(spec) makes one, at a run's first call or earlier.

    again: returns a spec with a fresh copy of the callable object; None: one spec serves all runs. caught:
    the exceptions of a constructor that callers get as an error.
    """

    def __init__(self, spec, make, again=None, caught=Exception):
        self.spec = spec
        self.make = make
        self.again = again
        self.caught = caught
        self.fresh = spec.get("fresh") == "class" or (spec.get("fresh") == "object" and again is not None)
        self.known = {}  # run -> (runner, packed error); run 0: for all runs

    def get(self, run, call=None):
        """(runner, None), or (None, the error as errors.pack() makes it). call: the one that needs the
        runner.
        """
        key = run if self.fresh else 0
        found = self.known.get(key)
        if found is None:
            try:
                found = self.make(self._spec()), None
            except self.caught as e:
                found = None, errors.pack(e)
            self.known[key] = found
            if call is not None:
                call.begins()
        return found

    def _spec(self):
        if self.again is None:
            return self.spec
        spec, self.spec = self.spec, None  # the first run uses the object that arrived
        return spec or self.again()

    def end(self, run):
        """Drops the instance of a run that has ended. Returns whether the run had one."""
        return self.known.pop(run, None) is not None

    def prune(self, calls):
        """Drops the instances of all runs that have ended."""
        for run in list(self.known):
            if run and not calls.runs(run):
                self.end(run)

    def clear(self):
        self.known.clear()


class WorkerInstances(Instances):
    """The instances of a worker process; when they end, their GPU memory is freed as well."""

    def end(self, run):
        runner, _ = self.known.get(run, (None, None))
        alive = _weak(runner)
        del runner
        found = super().end(run)
        if found:
            _collect(alive)
        return found

    def clear(self):
        for run in list(self.known):
            self.end(run)


def _weak(runner):
    try:
        return weakref.ref(runner.instance)
    except (AttributeError, TypeError):
        return lambda: None


def _collect(alive):
    torch = imported("torch")
    on_gpu = torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized()
    if alive() is not None or on_gpu:
        gc.collect()
    if on_gpu:
        torch.cuda.empty_cache()


# ---------------------------------------------------------------------------------------------------- states


def load_state(instance, call):
    """The result of load_state_dict() if the call brings a state of its run's instance; otherwise None."""
    text = call.state
    return None if text is None else instance.load_state_dict(pickle.loads(base64.b64decode(text)))


def wants_state(call):
    return bool(call.place[FLAGS] & SAVE)


def is_last(call):
    return bool(call.place[FLAGS] & LAST)


def save_state(state, call, runner):
    """Gives the engine the state as of this call. It leaves out a state that is too large: positions then
    stay at an earlier place, and a resume repeats more calls.
    """
    try:
        data = pickle.dumps(state)
    except Exception:
        import cloudpickle

        data = cloudpickle.dumps(state)
    if len(data) <= MAX_STATE_BYTES:
        call.save(base64.b64encode(data).decode())
    elif not runner.state_warned:
        runner.state_warned = True
        import logging

        logging.getLogger("headrace.data").warning(
            "%s: state_dict() takes %d bytes, and a position holds at most %d: positions stay at the last "
            "state that fitted, and a resume calls the function again from there",
            runner.name,
            len(data),
            MAX_STATE_BYTES,
        )
