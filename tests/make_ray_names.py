"""Writes tests/ray_names.json: the public names of Ray Data and Ray Train, from an installed Ray.

    python -m venv ray && ray/bin/python -m pip install 'ray[data,train]==2.60.0' torch
    ray/bin/python tests/make_ray_names.py

tests/python/test_ray_names.py compares Headrace with the file, without Ray. A module's names are those of its
`__all__`, and those that it defines (a package: those of its modules) and Ray's annotations mark (PublicAPI,
DeveloperAPI, Deprecated).

    module -> name -> {"kind": "class", "bases": [...], "call": parameters, "members": {...}, "fields": {...}}
                      {"kind": "function", "call": parameters}
                      {"kind": "value", "is": repr} or {"kind": "module"}
                      {"kind": "same", "as": "module.name"}, described there

A parameter is text: `fn`, `*`, `batch_size=256`, `*aggs`, `**options`; `/` ends the ones without a name. The
default `...` is one without a short text. A name with "deprecated": true is one that Ray warns about.

Packages that Ray's modules import and that are not installed (tensorflow, xgboost, ...) are replaced by empty
classes, because only names are read. Left out: ray.data.llm, which needs GPUs and a server of models;
ray.train.examples; modules whose names begin with "_"; ray.train.v2 apart from its jax, since its other names
are those of ray.train.
"""

import dataclasses
import enum
import importlib
import importlib.abc
import importlib.machinery
import inspect
import json
import pkgutil
import re
import sys
import types
from pathlib import Path
from typing import Generic

NAMES = Path(__file__).parent / "ray_names.json"
LEFT_OUT = ("ray.data.llm", "ray.train.examples", "ray.train.horovod")
ALSO = ("ray.train.v2.jax",)
NOT_MARKED = {"ray.data.grouped_data": {"GroupedData"}}
NOT_INSTALLED = ("tensorflow", "xgboost", "lightgbm", "lightning", "pytorch_lightning", "jax", "transformers")
SPECIAL = ("__call__", "__class_getitem__", "__getitem__", "__iter__", "__len__", "__contains__", "__eq__")
GONE = object()
PLAIN = (type(None), bool, int, float, str, bytes)


def empty_class(owner, name):
    if name.startswith("__"):
        raise AttributeError(name)
    value = empty(name, (), {"__module__": owner.__name__})
    setattr(owner, name, value)
    return value


class empty(type):
    """The type of classes whose every attribute is such a class."""

    __getattr__ = empty_class


class stand_in(types.ModuleType):
    """A module whose every attribute is an empty class."""

    __path__: list = []
    __version__ = "99.0"
    __getattr__ = empty_class


class stand_ins(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the packages that are not installed."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in NOT_INSTALLED:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return stand_in(spec.name)

    def exec_module(self, module):
        pass


def text_of(value):
    """A default as text, or `...`."""
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, PLAIN):
        text = repr(value)
        return "..." if str(Path.home()) in text or re.search(r"\d{4}-\d\d-\d\d", text) else text
    if isinstance(value, (list, tuple, set, dict)) and "..." not in (text := repr(value)) and len(text) < 80:
        return text if "<" not in text and " object at " not in text else "..."
    return "..."


def parameters(fn):
    """The parameters of a callable without self, or None if Python does not know them."""
    try:
        found = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        return None
    if found and found[0].name in ("self", "cls"):
        found = found[1:]
    texts, star = [], False
    for i, p in enumerate(found):
        if p.kind is p.VAR_POSITIONAL:
            star = True
        elif p.kind is p.KEYWORD_ONLY and not star:
            star = True
            texts.append("*")
        mark = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        default = "" if p.default is p.empty else f"={text_of(p.default)}"
        texts.append(f"{mark}{p.name}{default}")
        if p.kind is p.POSITIONAL_ONLY and (i + 1 == len(found) or found[i + 1].kind is not p.kind):
            texts.append("/")
    return texts


def belongs(value):
    return (getattr(value, "__module__", None) or "").split(".")[0] == "ray"


def marked(value):
    """Public by one of Ray's annotations. A class inherits the mark of its base; it has to have its own."""
    return getattr(value, "_annotated", None) == getattr(value, "__name__", value)


def deprecated(value):
    if marked(value) and str(getattr(value, "_annotated_type", "")).endswith("DEPRECATED"):
        return {"deprecated": True}
    return {}


def member(owner, name):
    """What `owner.name` is: a method, a property, a member of an enum, or a value."""
    raw = inspect.getattr_static(owner, name)
    if isinstance(raw, (staticmethod, classmethod)):
        fn = raw.__func__
        return {"kind": type(raw).__name__, "call": parameters(getattr(owner, name))} | deprecated(fn)
    if isinstance(raw, enum.Enum):
        return {"kind": "value", "is": repr(raw.value)}
    if isinstance(raw, type):
        return {"kind": "class"}
    if inspect.isfunction(raw) or (callable(raw) and not isinstance(raw, property)):
        return {"kind": "method", "call": parameters(raw)} | deprecated(raw)
    if isinstance(raw, PLAIN):
        return {"kind": "value", "is": text_of(raw)}
    return {"kind": "property"}


def is_public(cls):
    return marked(cls) and not cls.__name__.startswith("_")


def members(cls):
    """Those that the class does not inherit from another public class."""
    found = {}
    for name in sorted(dir(cls)):
        home = next((c for c in cls.__mro__ if name in vars(c)), None)
        if home is None or (name.startswith("_") and name not in SPECIAL):
            continue
        if home is not cls and is_public(home):
            continue
        if belongs(home) or (isinstance(cls, enum.EnumMeta) and name in cls.__members__):
            found[name] = member(cls, name)
        elif name == "__class_getitem__" and not any(issubclass(b, Generic) for b in cls.__bases__):
            found[name] = {"kind": "classmethod", "call": None}
    return found


def fields(cls):
    """The public attributes of an instance without arguments, of classes that hold options."""
    if not dataclasses.is_dataclass(cls):
        return {}
    try:
        of = cls()
    except Exception:
        return {"fields": {f.name: "..." for f in dataclasses.fields(cls) if not f.name.startswith("_")}}
    names = {n for n in (*vars(of), *(f.name for f in dataclasses.fields(cls))) if not n.startswith("_")}
    return {"fields": {n: text_of(getattr(of, n)) for n in sorted(names)}}


def entry(value):
    if isinstance(value, types.ModuleType):
        return {"kind": "module"}
    if isinstance(value, type):
        bases = [c.__name__ for c in value.__mro__[1:-1] if is_public(c) or issubclass(c, BaseException)]
        init = next(c for c in value.__mro__ if "__init__" in vars(c))
        call = parameters(value.__init__) if belongs(init) else None
        call = None if call == ["*args", "**kwargs"] else call
        made = {"kind": "class", "bases": bases, "call": call, "members": members(value)}
        return made | fields(value) | deprecated(value)
    if callable(value) and hasattr(value, "__name__"):
        return {"kind": "function", "call": parameters(value)} | deprecated(value)
    return {"kind": "value", "is": text_of(value)}


def attribute(module, name):
    """GONE if the name is listed and no longer there (ray.workflow)."""
    try:
        return getattr(module, name)
    except (AttributeError, ImportError, RuntimeError):
        return GONE


def is_own(module, value):
    home = getattr(value, "__module__", None) or ""
    inside = hasattr(module, "__path__") and home.startswith(f"{module.__name__}.")
    return marked(value) and (home == module.__name__ or inside)


def names_of(module):
    """name -> value of the public names of a module."""
    names = {n for n, value in list(vars(module).items()) if n[0] != "_" and is_own(module, value)}
    names |= {*getattr(module, "__all__", ()), *NOT_MARKED.get(module.__name__, ())}
    found = {n: attribute(module, n) for n in sorted(names)}
    return {n: value for n, value in found.items() if value is not GONE}


def home_of(value, found):
    """Where a class or function of several modules is described: where it is defined, or found first."""
    places = [(module, name) for module, names in found.items() for name, v in names.items() if v is value]
    return next((p for p in places if p[0] == value.__module__), places[0])


def describe(found):
    """module -> name -> entry."""
    made = {}
    for module, names in found.items():
        made[module] = {}
        for name, value in names.items():
            home = home_of(value, found) if isinstance(value, (type, types.FunctionType)) else (module, name)
            same = {"kind": "same", "as": ".".join(home)}
            made[module][name] = entry(value) if home == (module, name) else same
    return made


def lines(value, depth):
    """JSON with a line for each name and member."""
    if depth == 0 or not isinstance(value, dict) or not value:
        return json.dumps(value)
    inner = ",\n".join(f"{json.dumps(k)}: {lines(v, depth - 1)}" for k, v in value.items())
    return "{\n" + inner + "\n}"


def modules():
    yield "ray"
    for package in ("ray.data", "ray.train"):
        yield package
        path = importlib.import_module(package).__path__
        for found in pkgutil.walk_packages(path, f"{package}.", onerror=lambda name: None):
            parts = found.name.split(".")
            if any(part.startswith("_") or part in ("tests", "v2") for part in parts):
                continue
            if not found.name.startswith(LEFT_OUT):
                yield found.name
    yield from ALSO


def main():
    sys.meta_path.append(stand_ins())
    import ray

    found = {name: names_of(importlib.import_module(name)) for name in modules()}
    found = describe({name: names for name, names in found.items() if names})
    NAMES.write_text(lines({"ray": ray.__version__, "modules": found}, 5) + "\n")
    print(f"{NAMES}: {len(found)} modules, {sum(map(len, found.values()))} names of Ray {ray.__version__}")


if __name__ == "__main__":
    main()
