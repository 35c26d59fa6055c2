"""Python functions in expressions: udf(), pyarrow_udf(), monotonically_increasing_id().

The engine computes expressions; a call of a Python function becomes a step before the expression:
`add_one(col("x")) * 2` first adds a column by the function, then multiplies it, then drops it. In the
expression the call is a column with a name that no dataset has, and the expression has a `Call` that says how
to make the column. Calls of one function with equal arguments are one call.
"""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace._core import HeadraceError, TypeMismatchError
from headrace.data.plan import Node
from headrace.optional import package

if TYPE_CHECKING:
    from headrace.data.expressions import Expr


_CALL_ROWS = 4096  # most rows of a call


class Call:
    """How to make a hidden column. kind: "udf" or "number". threads: how many of them call fn; 0: the user
    says where it runs.
    """

    threads = 0

    def __init__(
        self, name, kind, fn=None, args=(), words=None, dtype=None, constructor=((), {}), rows=_CALL_ROWS
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


_known = {}  # text of a call -> weak references to the functions with that text


def _name_of(fn, text):
    """The name of the hidden column for this function with these arguments; other functions get other
    names.
    """
    functions = _known.setdefault(text, [])
    i = next((i for i, known in enumerate(functions) if known() is fn), len(functions))
    if i == len(functions):
        try:
            functions.append(weakref.ref(fn))
        except TypeError:  # a built-in function: it has no weak references, and lives for ever
            functions.append(lambda fn=fn: fn)
    return f"<{text}>" if i == 0 else f"<{text} #{i + 1}>"


def _expression(call):
    from headrace.data.expressions import Expr, _core, merged

    calls = merged(call.operands())
    calls[call.name] = call
    return Expr(_core.Expr.column(call.name), None, calls)


def _title(fn):
    return getattr(fn, "__qualname__", type(fn).__qualname__).replace("<locals>.", "")


def _text(fn, args, words, constructor):
    texts = [str(a) if hasattr(a, "_calls") else repr(a) for a in args]
    texts += [f"{k}={v}" if hasattr(v, "_calls") else f"{k}={v!r}" for k, v in words.items()]
    made = ", ".join([*map(repr, constructor[0]), *(f"{k}={v!r}" for k, v in constructor[1].items())])
    return _title(fn) + (f"({made})" if inspect.isclass(fn) else "") + f"({', '.join(texts)})"


def called(fn, dtype, args, words, constructor=((), {}), rows=_CALL_ROWS, threads=0, text=None):
    """The expression fn(*args, **words), of type dtype. constructor: the arguments of a class. text: how it
    is shown.
    """
    text = text or _text(fn, args, words, constructor)
    call = Call(_name_of(fn, text), "udf", fn, args, words, dtype, constructor, rows)
    call.threads = threads
    return _expression(call)


def _arrow_type(dtype):
    """The return type as a pyarrow type; None: any type."""
    from headrace.data.expressions import type_name

    if hasattr(dtype, "to_arrow_dtype"):  # a Ray DataType
        try:
            return dtype.to_arrow_dtype()
        except Exception:  # not an Arrow type: the function decides
            return None
    if dtype is None or hasattr(dtype, "__arrow_c_schema__"):
        return dtype
    pyarrow = package("pyarrow", "udf")
    name = type_name(dtype)
    try:
        return pyarrow.type_for_alias(name)
    except ValueError:
        pass
    try:  # the engine's notation: "timestamp[us, tz=UTC]", "list<item: int64>"
        return _type_by_text(name)
    except (HeadraceError, ValueError):
        raise TypeMismatchError(f"udf: return_dtype: expected a type, found {dtype!r}") from None


def _type_by_text(text):
    from headrace.data.expressions import lit

    pyarrow = package("pyarrow", "udf")
    nothing = Node("range", {"n": 0, "name": "id"})
    cast = Node("with_columns", {"names": ["x"], "exprs": [lit(None).cast(text)._core]}, [nothing])
    return pyarrow.schema(cast.plan.schema()).field("x").type


def udf(return_dtype: Any = None) -> Callable[[Callable[..., Any]], Callable[..., Expr]]:
    """A decorator: turns a function of batches into a function of expressions.

        @udf(return_dtype="int64")
        def add_one(x):
            return pyarrow.compute.add(x, 1)

        ds.with_column("y", add_one(col("x")) * 2)

    An argument that is an expression becomes a pyarrow.ChunkedArray of some thousand rows; other arguments
    stay. The result (an Arrow or NumPy array, a Series, a list) has one value per row and is cast to
    `return_dtype`: a name, a pyarrow or NumPy type, or None for no cast. Each worker makes one instance of a
    class: `AddOffset(5)(col("x"))`. Functions run in worker processes, as those of map_batches() do; only the
    columns of the arguments go there, a few batches at a time.
    """
    if inspect.isfunction(return_dtype):
        raise TypeMismatchError("udf: expected parentheses: @udf(return_dtype=...)")
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
                    return called(fn, dtype, args, words, self._constructor)

            return Delayed
        if not callable(fn):
            raise TypeMismatchError(f"udf: expected a function or a class, found {type(fn).__name__}")

        @functools.wraps(fn)
        def expression(*args, **words):
            return called(fn, dtype, args, words)

        expression._original_fn = fn
        return expression

    return decorator


pyarrow_udf = udf  # functions get Arrow columns in both


def monotonically_increasing_id() -> Expr:
    """0, 1, 2, ... in the order of the rows: unique, and the same in every run."""
    return _expression(Call("<monotonically_increasing_id()>", "number"))


# ------------------------------------------------------------------------------------------------ into a plan


def _has_a_name(dtype):
    """Whether the engine can parse the type's text: not for structs and maps."""
    return dtype is not None and "<" not in str(dtype)


def _checked(node, calls, cores, op):
    """Builds the plan with columns of nulls in place of calls with known types, so that an error appears at
    the line that causes it.
    """
    from headrace.data.expressions import lit

    known = [c for c in calls.values() if c.kind == "number" or _has_a_name(c.dtype)]
    if len(known) == len(calls):
        names = [c.name for c in known]
        types = ["int64" if c.kind == "number" else str(c.dtype) for c in known]
        nulls = [lit(None).cast(t)._core for t in types]
        op(Node("with_columns", {"names": names, "exprs": nulls}, [node]), cores)


def _declared(call):
    """The call's column as a schema if its type is known: the plan's schema then needs no run, and exists
    even if there are no rows.
    """
    if call.dtype is None:
        return None
    from headrace.data import blocks

    pyarrow = package("pyarrow", "udf")
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
            node.plan.project([name])  # raises if the column does not exist
    made, words = call.constructor
    return function_node(
        node,
        "udf",
        "arrow",
        call.fn,
        compute="threads" if call.threads else compute,
        concurrency=call.threads or None,
        options={
            "block_rows": call.rows,
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
    """Adds the columns of the calls to `node`, then applies `op` (a node and the engine's expressions -> a
    node). names: the columns to keep: old ones, then those of op. compute: where functions run.
    """
    _checked(node, calls, cores, op)
    for call in calls.values():
        node = _add_call(node, call, compute)
    return Node("project", {"names": names, "new_names": None}, [op(node, cores)])
