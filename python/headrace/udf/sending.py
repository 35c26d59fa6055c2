"""Pickles functions for worker processes: cloudpickle, plus caches that no worker can import."""

import functools
import io
import operator
import pickle
import sys

import cloudpickle

from headrace.udf.code import SCRIPT

_Cache = type(functools.cache(lambda: None))


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
        return super().reducer_override(value)


def dumps(value):
    """Bytes for pickle.loads() in a worker."""
    out = io.BytesIO()
    _Pickler(out).dump(value)
    return out.getvalue()


def dumps_if_possible(value):
    """The same bytes, which pickle.loads() has read here; None if one of the two fails."""
    try:
        data = dumps(value)
        pickle.loads(data)
        return data
    except Exception:
        return None
