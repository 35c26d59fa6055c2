"""Pickles functions for worker processes: cloudpickle, plus caches that no worker can import.

The names of their files go with them: errors show the user's lines.
"""

import contextlib
import functools
import io
import operator
import pickle
import sys
import types

import cloudpickle

from headrace.udf.code import SCRIPT

_Cache = type(functools.cache(lambda: None))
OF_CLASS = b"_class_setstate"  # is in a pickle with a class by value
_NO_FILE = "<dynamic-code>"  # cloudpickle's name, from 3.1.3 on, of the file of each function


def _is_importable(cache):
    module = sys.modules.get(cache.__module__)
    if module is None or cache.__module__ in SCRIPT:
        return False
    try:
        return operator.attrgetter(cache.__qualname__)(module) is cache
    except AttributeError:
        return False


def _made(function, maxsize, typed):
    return functools.lru_cache(maxsize=maxsize, typed=typed)(function)


def _with_file(code):
    """What cloudpickle makes of code, with the name of its file: an error shows the user's lines by it."""
    make, arguments, *rest = cloudpickle.Pickler.dispatch_table[types.CodeType](code)
    known = (code.co_filename if isinstance(a, str) and a == _NO_FILE else a for a in arguments)
    return make, tuple(known), *rest


class _Pickler(cloudpickle.Pickler):
    """Pickles a script's function under functools.cache by value, with an empty cache. Pickle itself would
    look for it in the worker's __main__.
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        script = sys.modules.get("__mp_main__")
        if script is not None:  # cloudpickle takes __main__ by value, and takes this for an importable module
            cloudpickle.register_pickle_by_value(script)

    def reducer_override(self, value):
        if isinstance(value, _Cache) and not _is_importable(value):
            return _made, (value.__wrapped__, *value.cache_parameters().values())
        if isinstance(value, types.CodeType):
            return _with_file(value)
        return super().reducer_override(value)


def dumps(value):
    """Bytes for pickle.loads() in a worker."""
    out = io.BytesIO()
    _Pickler(out).dump(value)
    return out.getvalue()


def dumps_if_possible(value):
    """The same bytes, which loads() has read here; None if one of the two fails."""
    try:
        data = dumps(value)
        loads(data)
        return data
    except Exception:
        return None


def loads(data):
    """The value of dumps(), in the process of the script: see classes_stay()."""
    if OF_CLASS not in data:
        return pickle.loads(data)
    with classes_stay():
        return pickle.loads(data)


@contextlib.contextmanager
def classes_stay():
    """What is unpickled within leaves the classes of this process's script as they are. cloudpickle gives
    them the methods of the pickle, whose globals are copies: they would not see later values.
    """
    known = getattr(cloudpickle.cloudpickle, "_DYNAMIC_CLASS_TRACKER_BY_CLASS", {})
    before = [(cls, dict(vars(cls))) for cls in list(known) if _is_of_script(cls)]
    try:
        yield
    finally:
        for cls, attributes in before:
            for name, value in attributes.items():
                if vars(cls).get(name) is not value:
                    setattr(cls, name, value)


def _is_of_script(cls):
    script = sys.modules.get("__main__")
    return cls.__module__ in SCRIPT and getattr(script, cls.__qualname__, None) is cls
