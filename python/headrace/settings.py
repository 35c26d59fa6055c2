"""Base of the settings classes: they refuse unknown names and values of a wrong type.

`OnlyKnown` is the base class, `check()` tests a value against the kinds in `KINDS`, and `nearest()` and
`unknown()` write the "did you mean" part of error texts.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import os
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, TypeVar

from headrace._core import InvalidArgument, TypeMismatchError

C = TypeVar("C")


def nearest(name, known):
    """The known name that `name` is most like, or None."""
    found = difflib.get_close_matches(str(name), [str(k) for k in known], 1, 0.6)
    return found[0] if found else None


def hint(name, known):
    """The end of an error text: the nearest known name, or nothing."""
    near = nearest(name, known)
    return f"; did you mean {near!r}?" if near else ""


def unknown(what, name, known):
    """Error text: `what` has no `name`, and the nearest known name."""
    return f"{what} has no {name!r}" + hint(name, known)


def is_whole(value: object, least: int | None = None) -> bool:
    """Whether `value` is an integer (Python's or NumPy's, no bool) and at least `least`."""
    return isinstance(value, Integral) and not isinstance(value, bool) and (least is None or value >= least)


def _is_bool(value):
    return isinstance(value, bool) or type(value).__name__ in ("bool", "bool_") and hasattr(value, "dtype")


def _is_texts(value):
    return isinstance(value, (list, tuple)) and all(isinstance(v, str) for v in value)


def line_of(error: Exception) -> str:
    """An error as a command says it: of the system's, the file and the words, without the number."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)


class NoAttribute(AttributeError):
    """An AttributeError whose text has the hint. Python gives it the name and the object, from which a
    traceback would make another one; this class drops them.
    """

    name = property(lambda self: None, lambda self, value: None)
    obj = property(lambda self: None, lambda self, value: None)

    def __reduce__(self):
        return AttributeError, self.args


NoAttribute.__module__, NoAttribute.__qualname__ = "builtins", "AttributeError"  # as tracebacks show it

# kind: (test, words for error texts). A kind such as "int|None" accepts either.
KINDS = {
    "None": (lambda v: v is None, "None"),
    "bool": (_is_bool, "bool"),
    "flag": (lambda v: _is_bool(v) or is_whole(v) and v in (0, 1), "bool"),
    "int": (is_whole, "int"),
    "count": (lambda v: is_whole(v, 0), "an int of at least 0"),
    "float": (lambda v: isinstance(v, Real) and not isinstance(v, bool), "a number"),
    "str": (lambda v: isinstance(v, str), "str"),
    "path": (lambda v: isinstance(v, (str, os.PathLike)), "str or os.PathLike"),
    "function": (callable, "a function"),
    "texts": (_is_texts, "a list of str"),
    "list": (lambda v: isinstance(v, (list, tuple)), "a list"),
    "dict": (lambda v: isinstance(v, dict), "dict"),
    "any": (lambda v: True, ""),
}


def check(what, value, kind):
    """Returns the value (a NumPy scalar becomes Python's, a "flag" a bool). Raises TypeMismatchError with
    `what` if the value has none of the kinds, InvalidArgument if a "count" is negative."""
    kinds = kind.split("|")
    if not any(KINDS[k][0](value) for k in kinds):
        words = " or ".join(KINDS[k][1] for k in kinds)
        error = InvalidArgument if kind == "count" and is_whole(value) else TypeMismatchError
        raise error(f"{what}: expected {words}, found {type(value).__name__} {value!r}")
    if kind == "flag":
        return bool(value)
    return value.item() if hasattr(value, "dtype") and hasattr(value, "item") else value


def unexpected(where, init, given):
    """Raises TypeError with the nearest known name if a keyword in `given` is not one of init's."""
    known = inspect.signature(init).parameters
    if any(p.kind is p.VAR_KEYWORD for p in known.values()):
        return
    for name in given:
        if name not in known:
            raise TypeError(
                f"{where}() got an unexpected keyword argument {name!r}{hint(name, list(known)[1:])}"
            )


def hinted(cls: type[C]) -> type[C]:
    """Decorator: an unknown keyword of the constructor is a TypeError that names the nearest known one."""
    init = cls.__init__

    @functools.wraps(init)
    def __init__(self, *args, **kwargs):
        if kwargs:
            unexpected(cls.__name__, init, kwargs)
        init(self, *args, **kwargs)

    cls.__init__ = __init__  # type: ignore[method-assign]
    return cls


class OnlyKnown:
    """Refuses attributes that a class does not define; the AttributeError names the nearest known one.

    Known names are the annotations of the class, its properties with setters, and `_names`. Where `_names` is
    a dict, it gives the kind of each (see KINDS). A user's subclass may add attributes; private names (`_x`)
    are free.
    """

    _names: Any = ()

    @classmethod
    def _known(cls):
        """The names that can be set, in the order in which the class defines them."""
        found = {}
        for base in reversed(cls.__mro__):
            found.update(dict.fromkeys(vars(base).get("__annotations__", ())))
            found.update(dict.fromkeys(vars(base).get("_names", ())))
            found.update((n, None) for n, v in vars(base).items() if isinstance(v, property) and v.fset)
        return [n for n in found if not n.startswith("_")]

    if not TYPE_CHECKING:  # checkers mark unknown names as errors

        def __setattr__(self, name, value):
            cls = type(self)
            if name.startswith("_"):
                super().__setattr__(name, value)
                return
            if name not in cls._known() and cls.__module__.partition(".")[0] == "headrace":
                raise NoAttribute(unknown(cls.__name__, name, cls._known()))
            if isinstance(cls._names, dict) and name in cls._names:
                value = check(f"{cls.__name__}.{name}", value, cls._names[name])
            super().__setattr__(name, value)

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            cls = type(self)
            if name.startswith("_"):
                raise AttributeError(f"{cls.__name__!r} object has no attribute {name!r}")
            raise NoAttribute(unknown(cls.__name__, name, cls._known()))
