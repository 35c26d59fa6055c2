"""Expressions over columns. The engine computes them column by column, without calls of Python.

    from headrace.data.expressions import col, lit

    ds.filter(expr=(col("score") > 0.5) & ~col("label").is_null())
    ds.with_column("ratio", col("clicks") / col("views"))

An expression has no types until a dataset uses it, which checks it at once. A plain number takes the type of
the other operand (float32 column * 2.0 stays float32, as in NumPy). A null operand makes the result null,
except in `&` and `|`: false & null is false. An integer result that does not fit is an error.
docs/expressions.md lists all functions.
"""

from __future__ import annotations

import ast
import datetime
import enum
import importlib
import itertools
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn, TypeAlias

from headrace import _core
from headrace._core import InvalidArgument, NotFoundError, TypeMismatchError
from headrace.optional import package
from headrace.settings import hint

if TYPE_CHECKING:
    from headrace.data.downloading import download
    from headrace.data.function_expressions import monotonically_increasing_id, pyarrow_udf, udf
    from headrace.data.image_expressions import ImageFunctions
    from headrace.data.nested_expressions import ArrayFunctions, ListFunctions, MapFunctions, StructFunctions
    from headrace.data.string_expressions import StringFunctions
    from headrace.data.time_expressions import TimeFunctions


_NUMBERS = (int, float)


def _is_plain_number(value):
    return type(value) in _NUMBERS and (type(value) is float or -(2**63) <= value < 2**63)


def _literal(value):
    if _is_plain_number(value):
        return _core.Expr.number(value)
    if hasattr(value, "__arrow_c_array__") or hasattr(value, "__arrow_c_stream__"):
        raise TypeMismatchError(
            f"expression: expected a single value, found {type(value).__name__}; is_in() takes lists"
        )
    if hasattr(value, "as_py") and hasattr(value, "type"):  # pyarrow.Scalar; as_py() would lose nanoseconds
        pyarrow = package("pyarrow", "lit")
        return _core.Expr.value(pyarrow.array([value], value.type))
    if type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0:
        return _core.Expr.value(value.reshape(1))
    return _core.Expr.value([value])


def core_of(value: Any, where: Name = "expression") -> Any:
    """The engine's expression for an Expr, or for a constant."""
    if isinstance(value, Expr):
        if value._calls:
            raise TypeMismatchError(
                f"{where}: {value!r} calls a Python function; only with_column(s), filter, sort and groupby "
                "support such expressions"
            )
        return value._core
    if type(value).__module__.partition(".")[0] == "pyarrow" and type(value).__name__ == "Expression":
        raise TypeMismatchError(
            f"{where}: expected an expression of headrace.data.expressions, found a "
            "pyarrow.compute.Expression"
        )
    if callable(value):
        raise TypeMismatchError(
            f"{where}: expected an expression or a constant, found a function; map(), map_batches() and "
            "add_column() call functions"
        )
    return _literal(value)


def merged(values: Any) -> dict[str, Any]:
    """The Python functions that the expressions among the values call: {column: Call}, in order of
    dependency.
    """
    calls = {}
    for value in values:
        if isinstance(value, Expr) and value._calls:
            calls.update(value._calls)
    return calls


def made(function: Any, values: Any, texts: Any = ()) -> Expr:
    """An Expr: a function of the engine with expressions and constants as arguments."""
    operation = None if texts else _OPERATION_OF.get(function)
    if operation is not None:
        return (UnaryExpr if len(values) == 1 else BinaryExpr)(operation, *values)
    return Expr(_call_of(function, values, texts), None, merged(values))


def _call_of(function, values, texts=()):
    cores = [v._core if isinstance(v, Expr) else core_of(v, function) for v in values]
    return _core.Expr.call(function, cores, texts)


def _binary(function, swap=False):
    def operator(self, other):
        return made(function, [other, self] if swap else [self, other])

    return operator


def _namespace(name):
    """A property for a set of functions, whose module is imported on first use."""
    module, cls = _NAMESPACES[name]

    def get(self):
        return getattr(importlib.import_module(module), cls)(self)

    return property(get, doc=f"Functions of {name} values; see {cls}.")


# attribute: (module, class). e.image is class(e); the module is imported on first use.
_NAMESPACES = {
    "image": ("headrace.data.image_expressions", "ImageFunctions"),
    "str": ("headrace.data.string_expressions", "StringFunctions"),
    "dt": ("headrace.data.time_expressions", "TimeFunctions"),
    "list": ("headrace.data.nested_expressions", "ListFunctions"),
    "struct": ("headrace.data.nested_expressions", "StructFunctions"),
    "map": ("headrace.data.nested_expressions", "MapFunctions"),
    "arr": ("headrace.data.nested_expressions", "ArrayFunctions"),
}


Name: TypeAlias = str  # inside Expr `str` is a property


class Expr:
    """A column, a constant, or a function of expressions; immutable. col(), lit() and operators make it:

    + - * / // %, == != < <= > >=, & | ~ (not `and or not`). `/` divides floats, // and % are Python's; an
    integer divided by 0 is null.
    """

    __slots__ = ("_calls", "_core", "_name")

    def __init__(self, core: Any, name: Name = None, calls: Any = None) -> None:
        self._core = core
        self._name = name
        self._calls = calls or None  # Python functions that make hidden columns: function_expressions.py

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            from headrace import absent

            raise absent.no_attribute(self, "headrace.data.expressions.Expr", name)

    # -------------------------------------------------------------------------------------------- operators

    if TYPE_CHECKING:

        def __add__(self, other: Any) -> Expr: ...
        def __radd__(self, other: Any) -> Expr: ...
        def __sub__(self, other: Any) -> Expr: ...
        def __rsub__(self, other: Any) -> Expr: ...
        def __mul__(self, other: Any) -> Expr: ...
        def __rmul__(self, other: Any) -> Expr: ...
        def __truediv__(self, other: Any) -> Expr: ...
        def __rtruediv__(self, other: Any) -> Expr: ...
        def __floordiv__(self, other: Any) -> Expr: ...
        def __rfloordiv__(self, other: Any) -> Expr: ...
        def __mod__(self, other: Any) -> Expr: ...
        def __rmod__(self, other: Any) -> Expr: ...
        def __eq__(self, other: object) -> Expr: ...
        def __ne__(self, other: object) -> Expr: ...
        def __lt__(self, other: Any) -> Expr: ...
        def __le__(self, other: Any) -> Expr: ...
        def __gt__(self, other: Any) -> Expr: ...
        def __ge__(self, other: Any) -> Expr: ...
        def __and__(self, other: Any) -> Expr: ...
        def __rand__(self, other: Any) -> Expr: ...
        def __or__(self, other: Any) -> Expr: ...
        def __ror__(self, other: Any) -> Expr: ...
        def __xor__(self, other: Any) -> Expr: ...
        def __rxor__(self, other: Any) -> Expr: ...
        @property
        def image(self) -> ImageFunctions: ...
        @property
        def str(self) -> StringFunctions: ...
        @property
        def dt(self) -> TimeFunctions: ...
        @property
        def list(self) -> ListFunctions: ...
        @property
        def struct(self) -> StructFunctions: ...
        @property
        def map(self) -> MapFunctions: ...
        @property
        def arr(self) -> ArrayFunctions: ...
    else:
        __add__, __radd__ = _binary("add"), _binary("add", True)
        __sub__, __rsub__ = _binary("subtract"), _binary("subtract", True)
        __mul__, __rmul__ = _binary("multiply"), _binary("multiply", True)
        __truediv__, __rtruediv__ = _binary("divide"), _binary("divide", True)
        __floordiv__, __rfloordiv__ = _binary("floor_divide"), _binary("floor_divide", True)
        __mod__, __rmod__ = _binary("modulo"), _binary("modulo", True)
        __eq__, __ne__ = _binary("equal"), _binary("not_equal")
        __lt__, __le__ = _binary("less"), _binary("less_equal")
        __gt__, __ge__ = _binary("greater"), _binary("greater_equal")
        __and__, __rand__ = _binary("and"), _binary("and", True)
        __or__, __ror__ = _binary("or"), _binary("or", True)
        __xor__, __rxor__ = _binary("xor"), _binary("xor", True)
    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __invert__(self) -> Expr:
        return self._call("not")

    def __neg__(self) -> Expr:
        return self._call("negate")

    def __pos__(self) -> Expr:
        return self

    def __bool__(self) -> bool:
        raise TypeMismatchError(
            f"{self!r} has no truth value: use & | ~ for and, or, not, and is_in() for in; "
            "write a < x < b as (a < x) & (x < b)"
        )

    if not TYPE_CHECKING:  # checkers mark it as an error

        def __getitem__(self, key):
            raise TypeMismatchError(
                f"{self!r} has no [{key!r}]: write .list[...] for an item of lists, .struct[...] for a "
                "field, .str[...] for a part of texts"
            )

    def __iter__(self) -> NoReturn:
        raise TypeMismatchError(f"expected a sequence, found the expression {self!r}")

    def _call(self, function, *args, **settings):
        """Calls a function of the engine; `headrace functions` lists them."""
        texts = [
            f"{k}={str(v).lower() if isinstance(v, bool) else v}"
            for k, v in settings.items()
            if v is not None
        ]
        return made(function, [self, *args], texts)

    # -------------------------------------------------------------------------------------------- numbers

    def abs(self) -> Expr:
        """The absolute value."""
        return self._call("abs")

    def sign(self) -> Expr:
        """-1, 0 or 1 (int8 for integers); NaN for NaN."""
        return self._call("sign")

    def negate(self) -> Expr:
        """The negative of the number, as -x."""
        return self._call("negate")

    def ceil(self) -> Expr:
        """The least whole number that is not less than the number; for integers a double."""
        return self._call("ceil")

    def floor(self) -> Expr:
        """The greatest whole number that is not greater than the number; for integers a double."""
        return self._call("floor")

    def trunc(self) -> Expr:
        """The number without its fraction; for integers a double."""
        return self._call("trunc")

    def round(self, ndigits: int = 0) -> Expr:
        """Rounds to `ndigits` places after the point (before it if negative); a tie rounds to an even last
        digit. Keeps the type.
        """
        return self._call("round", ndigits=ndigits or None)

    def power(self, exponent: Any) -> Expr:
        """The number to the power of `exponent`, a number or an expression. For integers an integer."""
        return self._call("power", exponent)

    def exp(self) -> Expr:
        """e to the power of the number."""
        return self._call("exp")

    def ln(self) -> Expr:
        """The natural logarithm; -inf for 0, NaN for negative numbers."""
        return self._call("ln")

    def log2(self) -> Expr:
        """The logarithm to base 2."""
        return self._call("log2")

    def log10(self) -> Expr:
        """The logarithm to base 10."""
        return self._call("log10")

    def sqrt(self) -> Expr:
        """The square root; NaN for negative numbers."""
        return self._call("sqrt")

    def sin(self) -> Expr:
        """The sine of an angle in radians."""
        return self._call("sin")

    def cos(self) -> Expr:
        """The cosine of an angle in radians."""
        return self._call("cos")

    def tan(self) -> Expr:
        """The tangent of an angle in radians."""
        return self._call("tan")

    def asin(self) -> Expr:
        """The angle in radians with this sine; NaN outside -1 to 1."""
        return self._call("asin")

    def acos(self) -> Expr:
        """The angle in radians with this cosine; NaN outside -1 to 1."""
        return self._call("acos")

    def atan(self) -> Expr:
        """The angle in radians with this tangent."""
        return self._call("atan")

    __abs__ = abs
    __ceil__ = ceil
    __floor__ = floor
    __trunc__ = trunc
    __round__ = round
    __pow__ = power

    def __rpow__(self, base: Any) -> Expr:
        return made("power", [base, self])

    # ---------------------------------------------------------------------------------------------- methods

    def fill_null(self, value: Any) -> Expr:
        """Replaces nulls by `value`, a constant or an expression."""
        return coalesce(self, value)

    def is_null(self) -> Expr:
        """True for null."""
        return self._call("is_null")

    def is_not_null(self) -> Expr:
        """True for values that are not null."""
        return self._call("is_not_null")

    def is_nan(self) -> Expr:
        """True for NaN."""
        return self._call("is_nan")

    def is_in(self, values: Any) -> Expr:
        """True if the value is one of `values` (a list, array or set of constants). Never null: null is in a
        list with None. NaN is in no list.
        """
        return BinaryExpr(Operation.IN, self, values)

    def not_in(self, values: Any) -> Expr:
        """The negation of is_in()."""
        return BinaryExpr(Operation.NOT_IN, self, values)

    def lookup(self, mapping: Mapping[Any, Any], *, strict: bool = False) -> Expr:
        """The value that the dict `mapping` has for the value of this expression; null if it has none.
        strict: a null or NaN ends the run with an error that names the row.
        """
        keys, values = _list_of(list(mapping)), _list_of(list(mapping.values()))
        return self._of_lists("lookup", [keys, values], strict=strict or None)

    def one_hot(self, categories: Sequence[Any], *, strict: bool = False) -> Expr:
        """A vector as long as the list `categories`: 1 at the place of the value, 0 elsewhere (uint8).
        strict: a null or NaN ends the run with an error that names the row.
        """
        return self._of_lists("one_hot", [_list_of(categories)], strict=strict or None)

    def bucket(self, edges: Sequence[float], *, right: bool = True, lowest: bool = False) -> Expr:
        """The number of the interval between ascending `edges` that contains the number; null if none does.
        right: an interval contains its right edge, otherwise its left one. lowest: the first interval
        contains its left edge, too.
        """
        right = None if right else False
        return self._of_lists("bucket", [_list_of(edges)], right=right, lowest=lowest or None)

    def _categorized(self, text):
        """The values, in a column with the categories that the JSON names; see categories.py."""
        return self if text is None else made("categorize", [self], [f"categories={text}"])

    def _of_lists(self, function, lists, **settings):
        """Calls a function of the engine with constant lists."""
        texts = [f"{k}={str(v).lower()}" for k, v in settings.items() if v is not None]
        return Expr(_core.Expr.call(function, [self._core, *lists], texts), None, self._calls)

    def cast(self, target_type: Any, *, safe: bool = True) -> Expr:
        """Converts to another type: its name ("int32", "float64", "timestamp[us]"), a NumPy dtype, a pyarrow
        type, a DataType, or int, float, str, bool, bytes.

        A value that does not fit ends the run with an error that names row and value. safe=False: integers
        keep their low bits, and values that cannot be converted become null.
        """
        return self._call("cast", to=type_name(target_type), safe=None if safe else False)

    def alias(self, name: Name) -> Expr:
        """The same expression with a name, for with_columns([...]) and messages."""
        if not isinstance(name, str):
            raise TypeMismatchError(f"alias: expected a name, found {type(name).__name__}")
        return Expr(self._core, name, self._calls)

    def download(
        self,
        *,
        on_error: Literal["raise", "null"] = "raise",
        max_bytes: int | str | None = None,
        allow_local: bool = False,
        allow_private: bool = False,
        schemes: Sequence[str] | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> Expr:
        """The bytes that a text of this expression names, as binary: URLs of http(s)
        and of stores (s3://, gs://, az://).

            ds.with_column("image", col("url").download(max_bytes="20MB", on_error="null"))

        Up to 64 are under way at the same time, and leave in the order of the rows. A null gives null.

        on_error: "null" gives null for what cannot be read. max_bytes: a larger object is an error.
        allow_local: paths of this machine and file:// too. allow_private: URLs of this host and of private
        networks too. Without these two, such texts are an InvalidArgument, whatever on_error says: URLs in
        data are not the user's words. schemes: the only ones that are read, such as ["https"]; "file" is a
        local path. A text of another one is an InvalidArgument too. storage_options: as of the readers.
        """
        from headrace.data.downloading import downloaded

        return downloaded(
            self,
            on_error=on_error,
            max_bytes=max_bytes,
            allow_local=allow_local,
            allow_private=allow_private,
            schemes=schemes,
            storage_options=storage_options,
        )

    # -------------------------------------------------------------------------------------------- inspection

    @property
    def name(self) -> Name | None:
        """The alias, or the column's name; None if there is neither."""
        return self._name if self._name is not None else self._core.name

    def columns(self) -> list[Name]:
        """Names of the columns that the expression reads."""
        names = {}
        for column in self._core.columns:
            if self._calls and column in self._calls:
                for value in self._calls[column].operands():
                    names.update(dict.fromkeys(value.columns()))
            else:
                names[column] = None
        return list(names)

    def structurally_equals(self, other: Any) -> bool:
        """Whether the other is the same expression under the same name. (== makes an expression.)"""
        return isinstance(other, Expr) and self._name == other._name and self._core.same(other._core)

    def __reduce__(self) -> tuple[Any, ...]:
        return Expr, (self._core, self._name, self._calls)

    def __repr__(self) -> str:
        text = str(self._core)
        for name in self._calls or ():
            quoted = name.replace("\\", "\\\\").replace("'", "\\'")
            text = text.replace(f"col('{quoted}')", name.strip("<>"))
        return text if self._name is None else f"({text}).alias({self._name!r})"


# ------------------------------------------------------------------------------ what an expression is made of


class Operation(str, enum.Enum):  # noqa: UP042  (str() of a member is Ray's)
    """The operations of BinaryExpr and UnaryExpr."""

    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    DIV = "div"
    MOD = "mod"
    FLOORDIV = "floordiv"
    GT = "gt"
    LT = "lt"
    GE = "ge"
    LE = "le"
    EQ = "eq"
    NE = "ne"
    AND = "and"
    OR = "or"
    NOT = "not"
    IS_NULL = "is_null"
    IS_NOT_NULL = "is_not_null"
    IN = "in"
    NOT_IN = "not_in"


_FUNCTION_OF = {  # the engine's names
    Operation.SUB: "subtract",
    Operation.MUL: "multiply",
    Operation.DIV: "divide",
    Operation.MOD: "modulo",
    Operation.FLOORDIV: "floor_divide",
    Operation.GT: "greater",
    Operation.LT: "less",
    Operation.GE: "greater_equal",
    Operation.LE: "less_equal",
    Operation.EQ: "equal",
    Operation.NE: "not_equal",
    Operation.IN: "is_in",
}
_FUNCTION_OF = {op: _FUNCTION_OF.get(op, op.value) for op in Operation}
_OF_LISTS = (Operation.IN, Operation.NOT_IN)
_OF_ONE = (Operation.NOT, Operation.IS_NULL, Operation.IS_NOT_NULL)
_OPERATION_OF = {text: op for op, text in _FUNCTION_OF.items() if op not in _OF_LISTS}


def _operation(op, where, unary):
    op = Operation(op)
    if (op in _OF_ONE) != unary:
        found = "one operand" if unary else "two operands"
        raise InvalidArgument(f"{where}: {op} has not {found}")
    return op


class _Leaf(Expr):
    """An expression without operands. Its pickle keeps its class."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        values = {name: getattr(self, name) for name in type(self).__slots__}
        return _leaf, (type(self), self._core, values)


def _leaf(kind, core, values):
    leaf = kind.__new__(kind)
    Expr.__init__(leaf, core)
    for name, value in values.items():
        setattr(leaf, name, value)
    return leaf


class ColumnExpr(_Leaf):
    """A column: what col(name) returns."""

    __slots__ = ()

    def __init__(self, _name: Name) -> None:
        if not isinstance(_name, str):
            raise TypeMismatchError(f"col: expected a name, found {type(_name).__name__}")
        super().__init__(_core.Expr.column(_name))


class LiteralExpr(_Leaf):
    """A constant: what lit(value) returns. value: as it was given."""

    __slots__ = ("value",)
    value: Any

    def __init__(self, value: Any) -> None:
        if isinstance(value, Expr):
            raise TypeMismatchError(f"LiteralExpr: expected a constant, found the expression {value!r}")
        super().__init__(core_of(value, "lit"))
        self.value = value


class BinaryExpr(Expr):
    """What an operator returns: op, an Operation, and its operands left and right. The right one of IN and
    NOT_IN is a list of constants. Its pickle is read as an Expr, without the operands.
    """

    __slots__ = ("left", "op", "right")
    op: Operation
    left: Expr
    right: Expr

    def __init__(self, op: Operation, left: Any, right: Any) -> None:
        self.op = _operation(op, "BinaryExpr", unary=False)
        function = _FUNCTION_OF[self.op]
        self.left = _operand(left, function)
        if self.op in _OF_LISTS:
            values = right.value if isinstance(right, LiteralExpr) else right
            values = list(values) if hasattr(values, "__next__") else values
            self.right = _leaf(LiteralExpr, _list_of(values), {"value": values})
            core = _core.Expr.call(function, [self.left._core, self.right._core])
            calls = self.left._calls
        else:
            self.right = _operand(right, function)
            values = [self.left, self.right]
            core, calls = _call_of(function, values), merged(values)
        super().__init__(core, None, calls)


class UnaryExpr(Expr):
    """What ~, is_null() and is_not_null() return: op, an Operation, and its operand. Its pickle is read as
    an Expr, without the operand.
    """

    __slots__ = ("op", "operand")
    op: Operation
    operand: Expr

    def __init__(self, op: Operation, operand: Any) -> None:
        self.op = _operation(op, "UnaryExpr", unary=True)
        function = _FUNCTION_OF[self.op]
        self.operand = _operand(operand, function)
        super().__init__(_call_of(function, [self.operand]), None, merged([self.operand]))


class RandomExpr(_Leaf):
    """What random() returns."""

    __slots__ = ("reseed_after_execution", "seed")
    seed: int | None
    reseed_after_execution: bool

    def __init__(self, seed: int | None = None, reseed_after_execution: bool = True) -> None:
        texts = [f"stream={next(_streams)}"] if seed is None else ["seeded=true", f"seed={int(seed)}"]
        if not reseed_after_execution:
            texts.append("reseed=false")
        super().__init__(_core.Expr.call("random", [], texts))
        self.seed = seed
        self.reseed_after_execution = reseed_after_execution

    def __repr__(self) -> Name:
        if self.seed is None:
            return "RANDOM()"
        return f"RANDOM(seed={self.seed}, reseed_after_execution={self.reseed_after_execution})"


class UUIDExpr(_Leaf):
    """What uuid() returns."""

    __slots__ = ("seed",)
    seed: int | None

    def __init__(self, *, seed: int | None = None) -> None:
        number = int.from_bytes(os.urandom(7), "little") if seed is None else int(seed)
        super().__init__(_core.Expr.call("uuid", [], [f"seed={number}"]))
        self.seed = seed

    def __repr__(self) -> Name:
        return "UUID()" if self.seed is None else f"UUID(seed={self.seed})"


def _operand(value, function):
    if isinstance(value, Expr):
        return value
    return _leaf(LiteralExpr, core_of(value, function), {"value": value})


def _add_namespaces():
    for name in _NAMESPACES:
        setattr(Expr, name, _namespace(name))


_add_namespaces()


def _list_of(values):
    if isinstance(values, Expr):
        raise TypeMismatchError("expected a list of constants, found an expression")
    if isinstance(values, (str, bytes)):
        raise TypeMismatchError(f"expected a list of values, found {type(values).__name__}")
    if hasattr(values, "__arrow_c_array__") or hasattr(values, "__arrow_c_stream__"):
        return _core.Expr.list(values)
    if not hasattr(values, "dtype"):
        values = list(values)
    return _core.Expr.list(values)


def type_name(target: Any) -> str:
    """The engine's name of a type given as text, Python class, NumPy dtype, pyarrow type or DataType."""
    target = getattr(target, "_physical_dtype", target)  # of a DataType
    if isinstance(target, str):
        return target
    names = {bool: "bool", int: "int64", float: "float64", str: "string", bytes: "binary"}
    names |= {datetime.date: "date32", datetime.datetime: "timestamp[us]", datetime.timedelta: "duration[us]"}
    if isinstance(target, type) and target in names:
        return names[target]
    if hasattr(target, "__arrow_c_schema__"):  # pyarrow.DataType
        return str(target)
    try:
        import numpy as np

        dtype = np.dtype(target)
    except (ImportError, TypeError):
        raise TypeMismatchError(f"cast: expected a type, found {target!r}") from None
    if dtype.kind in "mM":
        unit = np.datetime_data(dtype)[0]
        if dtype.kind == "M" and unit == "D":
            return "date32"
        return f"{'timestamp' if dtype.kind == 'M' else 'duration'}[{unit}]"
    return "string" if dtype.kind in "UO" else dtype.name


def col(name: Name) -> Expr:
    """The column of that name."""
    return ColumnExpr(name)


def lit(value: Any, type: Any = None) -> Expr:
    """A constant. A number takes the type of the other operand, unless `type` is given; None is a null."""
    if isinstance(value, Expr):
        return value
    literal = LiteralExpr(value)
    return literal if type is None else literal.cast(type)


def _choice(function, values):
    if not values:
        raise InvalidArgument(f"{function}: expected at least one value")
    return made(function, values)


def if_else(condition: Any, yes: Any, no: Any) -> Expr:
    """`yes` if the condition is true, `no` if it is false, null if it is null. All three may be expressions;
    the engine computes both values for all rows.
    """
    return _choice("if_else", [condition, yes, no])


def coalesce(*values: Any) -> Expr:
    """The first of the values that is not null."""
    return _choice("coalesce", values)


def least(*values: Any) -> Expr:
    """The least of the values that are not null; NaN only if there is no other value."""
    return _choice("least", values)


def greatest(*values: Any) -> Expr:
    """The greatest of the values that are not null; NaN only if there is no other value."""
    return _choice("greatest", values)


def vector(*values: Any, dtype: Any = None) -> Expr:
    """The numbers, and all numbers of fixed-size lists and tensors, side by side: a fixed-size list, which is
    one array (rows, n) in NumPy. A null is NaN; among integers it ends the run with an error. dtype: the type
    of the numbers; without it the one that holds those of all values.
    """
    if not values:
        raise InvalidArgument("vector: expected at least one value")
    return made("vector", values, [] if dtype is None else [f"to={type_name(dtype)}"])


_streams = itertools.count(1)  # one number per random() in a program


def random(*, seed: int | None = None, reseed_after_execution: bool = True) -> Expr:
    """A random number in [0, 1) per row, which depends on the row's coordinate, the epoch, and `seed` or the
    run's seed, but not on threads or batches. Without a seed each random() in a program has its own numbers.
    reseed_after_execution=False: the same numbers in every epoch.
    """
    return RandomExpr(seed, reseed_after_execution)


def uuid(*, seed: int | None = None) -> Expr:
    """A random identifier (UUID version 4, as text) per row; for one expression a row has the same one in
    every epoch. seed: other programs with this seed get the same identifiers; None: the identifiers are
    unique.
    """
    return UUIDExpr(seed=seed)


class Star:
    """All columns, for with_columns([star(), ...]), which keeps all columns anyway."""

    def __repr__(self) -> str:
        return "star()"


def star() -> Star:
    """All columns: with_columns() and select_columns() accept it, as in Ray Data."""
    return Star()


class Unnest:
    """The result of unnest(expr)."""

    def __init__(self, expr: Expr) -> None:
        self.expr = expr

    def __repr__(self) -> str:
        return f"unnest({self.expr!r})"


def unnest(expr: Expr) -> Unnest:
    """The fields of a struct as columns: with_columns(unnest(col("s")))."""
    if not isinstance(expr, Expr):
        raise TypeMismatchError(f"unnest: expected an expression, found {type(expr).__name__}")
    return Unnest(expr)


if not TYPE_CHECKING:

    def __getattr__(name):
        """Imports the module of a function of Python, as udf, on its first use."""
        if name in _FUNCTIONS_OF_PYTHON:
            module = importlib.import_module(f"headrace.data.{_FUNCTIONS_OF_PYTHON[name]}")
            return getattr(module, name)
        from headrace import absent

        if name in _RAY_NAMES:
            module, functions = _NAMESPACES[_RAY_NAMES[name]]
            return getattr(importlib.import_module(module), functions)
        return absent.hook("headrace.data.expressions")(name)


_RAY_NAMES = {  # Ray's names of the classes
    "_ArrayNamespace": "arr",
    "_DatetimeNamespace": "dt",
    "_ListNamespace": "list",
    "_MapNamespace": "map",
    "_StringNamespace": "str",
    "_StructNamespace": "struct",
}
_FUNCTIONS_OF_PYTHON = dict.fromkeys(
    ("udf", "pyarrow_udf", "monotonically_increasing_id"), "function_expressions"
) | {"download": "downloading"}

# ------------------------------------------------------------------------------------------------ as text

_BINARY = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.Div: "divide",
    ast.FloorDiv: "floor_divide",
    ast.Mod: "modulo",
    ast.Pow: "power",
    ast.BitAnd: "and",
    ast.BitOr: "or",
    ast.BitXor: "xor",
}
_COMPARE = {
    ast.Eq: "equal",
    ast.NotEq: "not_equal",
    ast.Lt: "less",
    ast.LtE: "less_equal",
    ast.Gt: "greater",
    ast.GtE: "greater_equal",
}


# methods that may stand in an expression's text
_IN_TEXT = {
    "is_null",
    "is_not_null",
    "is_nan",
    "is_in",
    "not_in",
    "cast",
    "fill_null",
    "abs",
    "sign",
    "negate",
}
_IN_TEXT |= {"ceil", "floor", "trunc", "round", "power", "exp", "ln", "log2", "log10", "sqrt"}
_IN_TEXT |= {"sin", "cos", "tan", "asin", "acos", "atan"}


_FUNCTIONS_IN_TEXT = {f.__name__: f for f in (col, lit, if_else, coalesce, least, greatest)}


def _instead_of(text, at):
    """What to write instead of the operator of another language at this place; None: nothing."""
    for theirs, ours in (("&&", "and"), ("||", "or"), ("<>", "!="), ("=", "==")):
        if text.startswith(theirs, at) or len(theirs) > 1 and text.startswith(theirs, at - 1):
            return f"expected {ours!r} instead of {theirs!r}"
    for theirs, ours in (("between", "a <= x and x <= b"), ("like", "x.str.match(pattern)")):
        if text[at:].lower().startswith(theirs):
            return f"{theirs} is not supported; write {ours}"
    return None


_ELSEWHERE = {
    name: "a text has no fields of structs nor items of lists; write col('x').struct['a'] or col('x').list[0]"
    for name in ("Attribute", "Subscript")
}


class _Parser:
    """Parses Python syntax into an Expr: names are columns; comparisons, arithmetic, and/or/not, in, is
    None.
    """

    def __init__(self, text):
        self.text = text.strip()

    def refuse(self, node, why):
        """Raises with the line of the text and a caret under the node."""
        line = self.text.encode().splitlines()[node.lineno - 1]  # ast counts bytes of UTF-8
        begin = len(line[: node.col_offset].decode())
        end = node.end_col_offset if node.end_lineno == node.lineno else len(line)
        end = len(line[:end].decode())
        if isinstance(node, ast.Attribute) and node.end_lineno == node.lineno:
            begin = end - len(node.attr)  # the name, not what it belongs to
        self.refuse_at(line.decode(), begin, end, why)

    def refuse_at(self, line, begin, end, why):
        marks = " " * begin + "^" * max(end - begin, 1)
        raise InvalidArgument(f"expression, column {begin + 1}: {why}\n    {line}\n    {marks}") from None

    def parse(self):
        try:
            tree = ast.parse(self.text, mode="eval")
        except SyntaxError as e:
            line = (self.text.splitlines() or [""])[(e.lineno or 1) - 1 :][:1] or [""]
            begin = e.offset - 1 if e.offset else len(line[0])  # 0: the text ends too soon
            end = (e.end_offset or 0) - 1 if e.end_lineno == e.lineno else 0
            self.refuse_at(line[0], begin, end, _instead_of(line[0], begin) or e.msg)
        except (ValueError, RecursionError, MemoryError) as e:
            raise InvalidArgument(f"expression {self.text!r}: {e}") from None
        return self.expr(tree.body)

    def visit(self, node):
        method = getattr(self, "_" + type(node).__name__.lower(), None)
        if method is None:
            self.refuse(node, _ELSEWHERE.get(type(node).__name__, f"{type(node).__name__} is not supported"))
        return method(node)

    def _name(self, node):
        return col(node.id)

    def _constant(self, node):
        if node.value is ... or isinstance(node.value, complex):
            self.refuse(node, f"{node.value!r} is not supported")
        return node.value

    def _call(self, node):
        """col("a name"), lit(value), and methods: x.is_null(), x.cast("int32")."""
        args = [self.visit(a) for a in node.args]
        words = {k.arg: self.visit(k.value) for k in node.keywords}
        if isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS_IN_TEXT:
            return _FUNCTIONS_IN_TEXT[node.func.id](*args, **words)
        if isinstance(node.func, ast.Name):
            return self.engine_function(node, args, words)
        if isinstance(node.func, ast.Attribute):
            inner = node.func.value
            if isinstance(inner, ast.Attribute) and inner.attr in _NAMESPACES:
                target = getattr(self.expr(inner.value), inner.attr)
                known = not node.func.attr.startswith("_") and hasattr(target, node.func.attr)
            else:
                target, known = self.expr(inner), node.func.attr in _IN_TEXT
            if known:
                return getattr(target, node.func.attr)(*args, **words)
            names = _IN_TEXT if target is None or isinstance(target, Expr) else dir(target)
            known = [n for n in names if not n.startswith("_")]
            self.refuse(node.func, f"no method {node.func.attr!r}{hint(node.func.attr, known)}")
        self.refuse(
            node, "expected a call of col(), lit(), a function of expressions or a method of a column"
        )

    def engine_function(self, node, args, words):
        """A function by the engine's name, as in the command: is_null(x)."""
        if words:
            self.refuse(node, f"write {node.func.id}'s settings as a method's: x.{node.func.id}(...)")
        try:
            return made(node.func.id, args)
        except (NotFoundError, InvalidArgument, TypeMismatchError) as e:
            self.refuse(node.func, str(e))

    def expr(self, node):
        return self.as_expr(self.visit(node))

    def as_expr(self, value):
        return value if isinstance(value, Expr) else lit(value)

    def _subscript(self, node):
        """x.list[0], x.struct["a"], x.str[1:3]"""
        if not isinstance(node.value, ast.Attribute) or node.value.attr not in _NAMESPACES:
            self.refuse(node, "expected .list, .struct or .str before [ ]")
        target = getattr(self.expr(node.value.value), node.value.attr)
        if not isinstance(node.slice, ast.Slice):
            return target[self.visit(node.slice)]
        return target[
            slice(*(p and self.visit(p) for p in (node.slice.lower, node.slice.upper, node.slice.step)))
        ]

    def _list(self, node):
        values = [self.visit(e) for e in node.elts]
        if any(isinstance(v, Expr) for v in values):
            self.refuse(node, "expected a list of constants, found a column in it")
        return values

    _tuple = _set = _list

    def _unaryop(self, node):
        value = self.visit(node.operand)
        if isinstance(node.op, ast.Not) or isinstance(node.op, ast.Invert):
            return ~(value if isinstance(value, Expr) else lit(value))
        return -value if isinstance(node.op, ast.USub) else value

    def _binop(self, node):
        function = _BINARY.get(type(node.op))
        if function is None:
            self.refuse(node, f"{type(node.op).__name__} is not supported")
        return made(function, [self.visit(n) for n in (node.left, node.right)])

    def _boolop(self, node):
        function = "and" if isinstance(node.op, ast.And) else "or"
        whole, *others = [self.visit(v) for v in node.values]
        for other in others:
            whole = made(function, [whole, other])
        return self.as_expr(whole)

    def _compare(self, node):
        left, terms = node.left, []
        for op, right in zip(node.ops, node.comparators, strict=True):
            terms.append(self.one_comparison(op, left, right))
            left = right
        whole = terms[0]
        for term in terms[1:]:
            whole = whole & term
        return whole

    def one_comparison(self, op, left, right):
        if isinstance(op, (ast.Is, ast.IsNot)) and isinstance(right, ast.Name) and right.id.lower() == "null":
            right = ast.copy_location(ast.Constant(None), right)  # as in SQL
        a, b = self.visit(left), self.visit(right)
        expr = a if isinstance(a, Expr) else lit(a)
        if isinstance(op, (ast.In, ast.NotIn)):
            if isinstance(b, Expr) or not isinstance(b, list):
                self.refuse(right, "expected a list of constants after in")
            return expr.is_in(b) if isinstance(op, ast.In) else expr.not_in(b)
        if isinstance(op, (ast.Is, ast.IsNot)):
            if b is not None:
                self.refuse(right, "expected None after is")
            return expr.is_null() if isinstance(op, ast.Is) else expr.is_not_null()
        return made(_COMPARE[type(op)], [a, b])


def parse(text: Name) -> Expr:
    """Parses Python syntax into an Expr: "x > 3 and not (name in ['a', 'b'])". Names are columns; col("a
    name") is for columns whose names are not Python names.
    """
    return _Parser(text).parse()


def as_expr(value: Any, where: Name) -> Expr:
    """An Expr, from an Expr, a text for parse(), or a constant."""
    if isinstance(value, str):
        return parse(value)
    if isinstance(value, Expr):
        return value
    return Expr(core_of(value, where))


__all__ = [
    "BinaryExpr",
    "ColumnExpr",
    "Expr",
    "LiteralExpr",
    "Operation",
    "RandomExpr",
    "UUIDExpr",
    "UnaryExpr",
    "coalesce",
    "col",
    "greatest",
    "if_else",
    "least",
    "lit",
    "parse",
    "random",
    "star",
    "unnest",
    "uuid",
    "vector",
]
__all__ += ["download", "monotonically_increasing_id", "pyarrow_udf", "udf"]  # _FUNCTIONS_OF_PYTHON
