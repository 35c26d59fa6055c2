"""A hash of a user's function: its code, defaults and arguments, the values in its closure and the globals
that it names. Positions store the hash, so that a resume reports another function.

The same program gives the same hash in each process: the hash has the values of sets and dicts, in any order,
and no names of files, line numbers and addresses. It has the name and version of installed code (the standard
library, packages), and the content of the user's own code, through all modules that it uses. Of an object
that it cannot inspect (a lock, a connection) it has only the type.
"""

import dis
import functools
import hashlib
import operator
import re
import sys
import types

SCRIPT = ("__main__", "__mp_main__")  # the module of a script; the second one in processes that were spawned
_SIMPLE = (bool, int, float, complex, str, bytes, bytearray, range, type(None), type(Ellipsis), slice)
_LIKE_ITS_TEXT = ("datetime", "decimal", "fractions", "pathlib", "uuid", "zoneinfo")
# Members of a class that Python adds itself, with varying order or text.
_NOT_OURS = frozenset(
    "__dict__ __weakref__ __doc__ __module__ __qualname__ __annotations__ __firstlineno__ "
    "__static_attributes__ __annotate_func__ __annotations_cache__ __abstractmethods__ _abc_impl "
    "__parameters__ __orig_bases__ __dataclass_params__ __match_args__ __hash__".split()
)
_MOST_OBJECTS = 50_000  # of further ones the hash has only the type: hashing must not outlast the function


def code_of(*values):
    """16 hex digits for functions and data."""
    try:
        return _Walk().of(values).hex()
    except RecursionError:
        return hashlib.blake2b(b"too deep", digest_size=8).hexdigest()


class _Walk:
    """of(value): 8 bytes. It inspects each object once; an object inside itself becomes a mark."""

    def __init__(self):
        self.known = {}  # id -> (object, digest); holds the object, so that its id stays in use
        self.inside = {}  # id -> depth, of objects whose inspection goes on
        self.n = 0

    def of(self, value):
        if isinstance(value, _SIMPLE) and type(value) in _SIMPLE:
            return _hash(type(value).__name__, value if isinstance(value, bytes) else repr(value))
        key = id(value)
        if key in self.known:
            return self.known[key][1]
        if key in self.inside:
            return _hash("itself", str(len(self.inside) - self.inside[key]))
        self.n += 1
        if self.n > _MOST_OBJECTS:
            return _hash("more", _type_name(type(value)))
        self.inside[key] = len(self.inside)
        try:
            found = self._look(value)
        except RecursionError:
            raise
        except Exception:  # an object that cannot be inspected
            found = _hash("opaque", _type_name(type(value)))
        del self.inside[key]
        self.known[key] = (value, found)
        return found

    def all(self, what, values):
        return _hash(what, *map(self.of, values))

    def set(self, what, values):
        return _hash(what, *sorted(map(self.of, values)))

    def pairs(self, what, items):
        return _hash(what, *sorted(self.of(k) + self.of(v) for k, v in items))

    def _look(self, value):
        kind = type(value)
        if kind in (list, tuple):
            if set(map(type, value)) <= {int, float, str, bool, type(None)}:
                return _hash(kind.__name__, repr(value))
            return self.all(kind.__name__, value)
        if kind in (set, frozenset):
            return self.set(kind.__name__, value)
        if isinstance(value, (dict, types.MappingProxyType)):
            return self.pairs(_type_name(kind), value.items())
        if kind is types.FunctionType:
            return self._function(value)
        if kind is types.CodeType:
            return self._code(value)
        if kind is types.MethodType:
            return self.all("method", (value.__func__, value.__self__))
        if isinstance(value, types.ModuleType):
            return _hash("module", value.__name__, _version(value.__name__))
        if isinstance(value, type):
            return self._class(value)
        if isinstance(value, functools.partial):
            return self.all("partial", (value.func, value.args, value.keywords))
        if isinstance(value, (staticmethod, classmethod)):
            return self.all(kind.__name__, (value.__func__,))
        if isinstance(value, property):
            return self.all("property", (value.fget, value.fset, value.fdel))
        if isinstance(
            value, types.BuiltinFunctionType | types.MethodDescriptorType | types.WrapperDescriptorType
        ):
            owner = getattr(value, "__self__", None)
            named = _hash("builtin", str(value.__module__), value.__qualname__)
            return named if owner is None or isinstance(owner, types.ModuleType) else named + self.of(owner)
        return self._object(value)

    # ------------------------------------------------------------------------------------------------- code

    def _function(self, fn):
        if _installed(fn.__module__):
            return _hash("function", fn.__module__, fn.__qualname__, _version(fn.__module__))
        cells = [_content(c) for c in fn.__closure__ or ()]
        names = [n for n in sorted(_globals_of(fn.__code__)) if n in fn.__globals__]
        found = [(n, fn.__globals__[n]) for n in names]
        found += _of_modules(fn.__code__, [v for _, v in found] + cells)
        parts = (fn.__code__, fn.__defaults__, fn.__kwdefaults__, cells, getattr(fn, "__wrapped__", None))
        return _hash("function", *map(self.of, parts), self.pairs("globals", found))

    def _code(self, code):
        arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        numbers = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        return self.all(
            "code",
            (
                code.co_code,
                code.co_consts,
                code.co_names,
                arguments,
                numbers,
                getattr(code, "co_exceptiontable", b""),
            ),
        )

    def _class(self, cls):
        if _installed(cls.__module__):
            return _hash("class", _type_name(cls), _version(cls.__module__))
        own = [(n, v) for n, v in vars(cls).items() if n not in _NOT_OURS and not _is_slot(v)]
        return _hash("class", self.all("bases", cls.__bases__), self.pairs("members", own))

    # ------------------------------------------------------------------------------------------------- data

    def _object(self, value):
        cls = type(value)
        module = cls.__module__.partition(".")[0]
        if module in _LIKE_ITS_TEXT or isinstance(value, re.Pattern):
            return _hash(_type_name(cls), repr(value))
        if module == "numpy" and hasattr(value, "dtype"):
            return self._array(cls, value)
        if module == "torch" and hasattr(value, "untyped_storage"):
            return self._tensor(value)
        if isinstance(value, (memoryview,)):
            return _hash("memoryview", value.format, _bytes(value.tobytes()))
        if isinstance(value, operator.attrgetter | operator.itemgetter | operator.methodcaller):
            return self.all(_type_name(cls), value.__reduce__()[1:])
        state = [("", v) for v in (value,) if isinstance(v, (list, tuple, set, frozenset, str, int, float))]
        state = [("", self._builtin(v)) for _, v in state]
        if hasattr(value, "__wrapped__"):
            state.append(("__wrapped__", value.__wrapped__))
        if hasattr(value, "__dict__"):
            state += [(n, v) for n, v in vars(value).items() if not n.startswith("__")]
        for slots in (vars(c).get("__slots__", ()) for c in cls.__mro__):
            names = (slots,) if isinstance(slots, str) else slots
            state += [(n, getattr(value, n)) for n in names if n != "__dict__" and hasattr(value, n)]
        if not state and _installed(cls.__module__) and cls.__module__ != "builtins":
            state = [("", value.__reduce_ex__(4)[1:3])]
        return _hash("object", self.of(cls), self.pairs("state", state))

    @staticmethod
    def _builtin(value):
        """For an instance of a subclass of a built-in class: its value as that built-in class."""
        base = next(b for b in (list, tuple, set, frozenset, str, int, float) if isinstance(value, b))
        return base(value)

    def _array(self, cls, value):
        if value.dtype.hasobject:
            return self.all("objects", (str(value.dtype), value.shape, value.tolist()))
        import numpy

        flat = numpy.ascontiguousarray(value).reshape(-1).view(numpy.uint8)
        return _hash(_type_name(cls), str(value.dtype), repr(value.shape), _bytes(flat))

    def _tensor(self, value):
        torch = sys.modules["torch"]  # who made the tensor has imported it
        flat = value.detach().cpu().contiguous().reshape(-1)
        bits = flat.view(torch.uint8).numpy() if flat.numel() else b""
        return _hash("tensor", str(value.dtype), repr(tuple(value.shape)), _bytes(bits))


def _hash(what, *parts):
    h = hashlib.blake2b(digest_size=8)
    for part in (what, *parts):
        part = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        h.update(len(part).to_bytes(8, "little"))
        h.update(part)
    return h.digest()


def _bytes(value):
    return hashlib.blake2b(value, digest_size=8).digest()


def _content(cell):
    try:
        return cell.cell_contents
    except ValueError:  # the cell is empty
        return "an empty cell"


def _globals_of(code):
    """Names of the globals that a function, or a function defined in it, uses."""
    names = {i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            names |= _globals_of(inner)
    return names


def _of_modules(code, values):
    """(name, value) of all that a function may use from the user's own modules, by the names in its code."""
    modules = [v for v in values if isinstance(v, types.ModuleType) and not _installed(v.__name__)]
    names = _names_of(code) if modules else ()
    return [(f"{m.__name__}.{n}", vars(m)[n]) for m in modules for n in sorted(names) if n in vars(m)]


def _names_of(code):
    names = set(code.co_names)
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            names |= _names_of(inner)
    return names


def _is_slot(value):
    return isinstance(value, types.MemberDescriptorType | types.GetSetDescriptorType)


def _type_name(cls):
    module = "__main__" if cls.__module__ in SCRIPT else cls.__module__
    return f"{module}.{cls.__qualname__}"


@functools.cache
def _installed(module):
    """Whether a module is not the user's: it belongs to Python or to an installed package."""
    if module is None or module in SCRIPT:
        return False
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names or top == "headrace":
        return True
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        return module in sys.modules and not hasattr(sys.modules[module], "__path__")
    return "site-packages" in file or "dist-packages" in file


@functools.cache
def _version(module):
    if not _installed(module):
        return ""
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names or top == "headrace":
        return ""
    return str(getattr(sys.modules.get(top), "__version__", ""))
