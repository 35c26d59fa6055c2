"""Functions of Python inside of expressions: udf(), pyarrow_udf(), download(), and what else is a step of
its own.

The engine computes expressions; what it cannot compute is a step before that: `add_one(col("x")) * 2` first
adds a column by the function, then multiplies it, then drops it. In an expression such a call is a column
of a name that no dataset has, and the expression knows how the column is made (`Call`). Calls of one
function with the same arguments are one call.
"""

import functools
import inspect
import weakref

from headrace._core import HeadraceError, TypeMismatchError, UnsupportedError
from headrace.data.plan import Node

_PIECE_ROWS = 4096  # rows that a function gets at once
_DOWNLOAD_ROWS = 16  # files that are read at once, so that few are held


class Call:
    """How a hidden column is made. kind: "udf" or "number"."""

    def __init__(
        self, name, kind, fn=None, args=(), words=None, dtype=None, constructor=((), {}), rows=_PIECE_ROWS
    ):
        self.name, self.kind, self.fn, self.args = name, kind, fn, tuple(args)
        self.words, self.dtype, self.constructor, self.rows = dict(words or {}), dtype, constructor, rows

    def operands(self):
        from headrace.data.expressions import Expr

        return [a for a in (*self.args, *self.words.values()) if isinstance(a, Expr)]

    def __reduce__(self):
        from headrace.udf import sending

        return _unpickled, (sending.dumps(self.__dict__),)


def _unpickled(state):
    import pickle

    call = Call.__new__(Call)
    call.__dict__ = pickle.loads(state)
    return call


_known = {}  # text of a call -> weak references of the functions that it was said of


def _name_of(fn, text):
    """A column's name that stands for this function with these arguments: another function, another name."""
    functions = _known.setdefault(text, [])
    i = next((i for i, known in enumerate(functions) if known() is fn), len(functions))
    if i == len(functions):
        try:
            functions.append(weakref.ref(fn))
        except TypeError:  # built-in functions stay, and are few
            functions.append(lambda fn=fn: fn)
    return f"<{text}>" if i == 0 else f"<{text} #{i + 1}>"


def _expression(call):
    from headrace.data.expressions import Expr, _core, merged

    calls = merged(call.operands())
    calls[call.name] = call
    return Expr(_core.Expr.column(call.name), None, calls)


def _title(fn):
    return getattr(fn, "__qualname__", type(fn).__qualname__).replace("<locals>.", "")


def _called(fn, dtype, args, words, constructor=((), {}), rows=_PIECE_ROWS):
    texts = [str(a) if hasattr(a, "_calls") else repr(a) for a in args]
    texts += [f"{k}={v}" if hasattr(v, "_calls") else f"{k}={v!r}" for k, v in words.items()]
    made = ", ".join([*map(repr, constructor[0]), *(f"{k}={v!r}" for k, v in constructor[1].items())])
    text = _title(fn) + (f"({made})" if inspect.isclass(fn) else "") + f"({', '.join(texts)})"
    return _expression(Call(_name_of(fn, text), "udf", fn, args, words, dtype, constructor, rows))


def _arrow_type(dtype):
    """What a function says that it returns: one of pyarrow's types, or None."""
    from headrace.data.expressions import type_name

    if hasattr(dtype, "to_arrow_dtype"):  # a DataType, as Ray has them
        try:
            return dtype.to_arrow_dtype()
        except Exception:  # one that is no Arrow type: whatever the function gives
            return None
    if dtype is None or hasattr(dtype, "__arrow_c_schema__"):
        return dtype
    import pyarrow

    name = type_name(dtype)
    try:
        return pyarrow.type_for_alias(name)
    except ValueError:
        pass
    try:  # as the engine writes types: "timestamp[us, tz=UTC]", "list<item: int64>"
        return _type_by_text(name)
    except (HeadraceError, ValueError):
        raise TypeMismatchError(f"udf: return_dtype {dtype!r} is no type") from None


def _type_by_text(text):
    import pyarrow

    from headrace.data.expressions import lit

    nothing = Node("range", {"n": 0, "name": "id"})
    cast = Node("with_columns", {"names": ["x"], "exprs": [lit(None).cast(text)._core]}, [nothing])
    return pyarrow.schema(cast.plan.schema()).field("x").type


def udf(return_dtype=None):
    """A decorator: a function of batches becomes one of expressions.

        @udf(return_dtype="int64")
        def add_one(x):
            return pyarrow.compute.add(x, 1)

        ds.with_column("y", add_one(col("x")) * 2)

    Each argument that is an expression comes as a pyarrow.ChunkedArray of some thousand rows, others as
    they are; what is returned (an Arrow or NumPy array, a Series, a list) has a value for each row, and is
    cast to `return_dtype`: a name, a pyarrow or NumPy type, or None for what it is. A class is instantiated
    once in each worker: `AddOffset(5)(col("x"))`. Functions run in worker processes, as those of
    map_batches() do; few batches are held at a time, and only the columns that are arguments go there.
    """
    if inspect.isfunction(return_dtype):
        raise TypeMismatchError("udf: write @udf(return_dtype=...), with parentheses")
    dtype = _arrow_type(return_dtype)

    def decorator(fn):
        if inspect.isclass(fn):
            if not any("__call__" in vars(c) for c in fn.__mro__):
                raise TypeMismatchError(f"udf: the class {fn.__name__} has no __call__")

            @functools.wraps(fn, updated=())
            class Delayed:
                def __init__(self, *args, **words):
                    self._constructor = (args, words)

                def __call__(self, *args, **words):
                    return _called(fn, dtype, args, words, self._constructor)

            return Delayed
        if not callable(fn):
            raise TypeMismatchError(f"udf: expected a function or a class, not {type(fn).__name__}")

        @functools.wraps(fn)
        def expression(*args, **words):
            return _called(fn, dtype, args, words)

        expression._original_fn = fn
        return expression

    return decorator


pyarrow_udf = udf  # columns are Arrow's in any case


def monotonically_increasing_id():
    """0, 1, 2, ... for the rows in their order: unique, and the same in every run."""
    return _expression(Call("<monotonically_increasing_id()>", "number"))


class _Download:
    """Bytes of files; null where there is none of that name."""

    def one(self, uri):
        from urllib.parse import unquote

        if uri is None:
            return None
        scheme, found, path = uri.partition("://")
        if found and scheme != "file":
            raise UnsupportedError(
                f"download: {uri}: this version reads local files and file://, not {scheme}://"
            )
        try:
            with open(unquote(path) if found else uri, "rb") as file:
                return file.read()
        except OSError:
            return None

    def __call__(self, uris):
        import pyarrow

        return pyarrow.array([self.one(u) for u in uris.to_pylist()], pyarrow.large_binary())


def download(uri_column_name, *, filesystem=None):
    """The contents of the files that the column names, as binary: local paths and file:// URIs.

    A null, and a file that cannot be read, gives a null, as in Ray Data. Other schemes (s3://, http://) are
    refused with an error: this version reads local files. Some files are held at a time.
    """
    from headrace.data.expressions import col

    if filesystem is not None:
        raise UnsupportedError("download: filesystem is not known to this version; it reads local files")
    if not isinstance(uri_column_name, str):
        raise TypeMismatchError(f"download: expected a column's name, not {type(uri_column_name).__name__}")
    return _called(_Download, "large_binary", (col(uri_column_name),), {}, rows=_DOWNLOAD_ROWS)


# ------------------------------------------------------------------------------------------------ into a plan


def _has_a_name(dtype):
    """Whether the engine knows the type by its text: not structs and maps."""
    return dtype is not None and "<" not in str(dtype)


def _checked(node, calls, cores, op):
    """The same with columns of nulls for the calls whose types are known: an error at the line that is
    wrong.
    """
    from headrace.data.expressions import lit

    known = [c for c in calls.values() if c.kind == "number" or _has_a_name(c.dtype)]
    if len(known) == len(calls):
        names = [c.name for c in known]
        types = ["int64" if c.kind == "number" else str(c.dtype) for c in known]
        nulls = [lit(None).cast(t)._core for t in types]
        op(Node("with_columns", {"names": names, "exprs": nulls}, [node]), cores)


def _declared(call):
    """The call's column as a schema, if its type is known: then nothing has to run to know what there is, and
    it is known where no row is left.
    """
    if call.dtype is None:
        return None
    import pyarrow

    from headrace.data import blocks

    return pyarrow.schema([(call.name, blocks.arrow_type(call.dtype))])


def _add_call(node, call, compute=None):
    from headrace.data.functions import function_node

    if call.kind == "number":
        return Node("number_rows", {"name": call.name}, [node])
    names, exprs, places = [], [], []
    for i, arg in enumerate((*call.args, *call.words.values())):
        if not hasattr(arg, "_calls"):
            places.append((None, arg))
        elif arg._core.name is not None:
            places.append((arg._core.name, None))
        else:
            names.append(f"{call.name} argument {i + 1}")
            exprs.append(arg._core)
            places.append((names[-1], None))
    if names:
        node = Node("with_columns", {"names": names, "exprs": exprs}, [node])
    for name, _ in places:
        if name is not None and node.plan.schema() is not None:
            node.plan.project([name])  # an unknown column is an error here
    made, words = call.constructor
    return function_node(
        node,
        "udf",
        "arrow",
        call.fn,
        compute="threads" if call.fn is _Download else compute,
        concurrency=None,
        options={
            "piece_rows": call.rows,
            "one_to_one": True,
            "made": call.name,
            "schema": _declared(call),
            "columns": tuple(dict.fromkeys(name for name, _ in places if name is not None)),
        },
        fn_constructor_args=made,
        fn_constructor_kwargs=words,
        batch_format="pyarrow",
        column=(call.name, places, list(call.words), call.dtype),
    )


def planned(node, names, calls, cores, op, compute=None):
    """`op` (a node and the engine's expressions -> a node) over what the calls add; `names`: the columns
    that are to be left of what was there, and then those that op added. compute: where functions run.
    """
    _checked(node, calls, cores, op)
    for call in calls.values():
        node = _add_call(node, call, compute)
    return Node("project", {"names": names, "new_names": None}, [op(node, cores)])
