"""Preprocessors as JSON text.

    {"format": "headrace.preprocessor", "format_version": 1, "type": "headrace.StandardScaler", "version": 1,
     "fields": {"columns": ["x"], ...}, "stats": {"mean(x)": 2.0, "std(x)": 0.5}}

JSON's own values are plain. Others are an object with one key that begins with `$` and names the kind:
{"$float": "nan"}, {"$date": "2024-02-29"}, {"$map": [[key, value], ...]} for dicts with keys other than text,
and so on (`_READERS`). Only {"$pickle": "<base64>"} runs code at reading, so writing and reading refuse it
without allow_pickle.
"""

import base64
import binascii
import collections
import datetime
import decimal
import json
import math
import pickle
from typing import TYPE_CHECKING, Any

from headrace.data.preprocessors.version_support import UnknownPreprocessorError, _lookup_class, is_registered
from headrace.optional import imported, package

if TYPE_CHECKING:
    from headrace.data.preprocessor import Preprocessor

FORMAT = "headrace.preprocessor"
FORMAT_VERSION = 1
PICKLED = "pickle"  # the type of a user's own class
_MAX_DEPTH = 100


class _Writer:
    def __init__(self, base: type, allow_pickle: bool):
        self.base = base
        self.allow_pickle = allow_pickle

    def document(self, preprocessor: "Preprocessor") -> dict[str, Any]:
        head = {"format": FORMAT, "format_version": FORMAT_VERSION}
        cls = type(preprocessor)
        if not is_registered(cls):
            return head | {
                "type": PICKLED,
                "class": f"{cls.__module__}.{cls.__qualname__}",
                "state": self.pickled(preprocessor, f"the class {cls.__qualname__} is not a registered one"),
            }
        return head | {
            "type": cls.get_preprocessor_class_id(),
            "version": cls.get_version(),
            "fields": self.fields(cls, preprocessor._get_serializable_fields()),
            "stats": self.fields(cls, preprocessor._get_stats()),
        }

    def fields(self, cls: type, values: dict[str, Any]) -> dict[str, Any]:
        made = {}
        for name, value in values.items():
            try:
                made[str(name)] = self.value(value)
            except (TypeError, ValueError) as e:
                raise type(e)(f"{cls.__name__}.serialize: {name}: {e}") from None
        return made

    def pickled(self, value: Any, why: str) -> dict[str, str]:
        if not self.allow_pickle:
            raise ValueError(f"{why}, and only a pickle holds it: serialize(allow_pickle=True) writes one")
        import cloudpickle

        try:
            return {"$pickle": base64.b64encode(cloudpickle.dumps(value)).decode("ascii")}
        except Exception as e:
            raise ValueError(f"{type(value).__name__} cannot be pickled: {type(e).__name__}: {e}") from e

    def value(self, value: Any) -> Any:
        if value is None or isinstance(value, (bool, str)) and type(value) in (bool, str):
            return value
        kind = type(value)
        if kind is int:
            return value
        if kind is float:
            return value if math.isfinite(value) else {"$float": repr(value)}
        if kind is list:
            return [self.value(v) for v in value]
        if isinstance(value, self.base):
            return {"$preprocessor": self.document(value)}
        if isinstance(value, collections.Counter):
            return {"$counter": self.items(value)}
        if isinstance(value, dict):
            if all(type(k) is str and not k.startswith("$") for k in value):
                return {k: self.value(v) for k, v in value.items()}
            return {"$map": self.items(value)}
        made = self.special(value)
        return made if made is not None else self.pickled(value, f"{value!r:.80} is no plain value")

    def items(self, value: dict) -> list[list[Any]]:
        return [[self.value(k), self.value(v)] for k, v in value.items()]

    def special(self, value: Any) -> dict[str, Any] | None:
        if isinstance(value, tuple):
            return {"$tuple": [self.value(v) for v in value]}
        if isinstance(value, (set, frozenset)):
            return {"$set": [self.value(v) for v in value]}
        if isinstance(value, (bytes, bytearray)):
            return {"$bytes": base64.b64encode(value).decode("ascii")}
        if isinstance(value, decimal.Decimal):
            return {"$decimal": str(value)}
        return self.of_numpy(value) or self.of_pandas(value) or self.of_time(value)

    def of_time(self, value: Any) -> dict[str, Any] | None:
        if isinstance(value, datetime.datetime):
            return {"$datetime": [value.isoformat(), getattr(value.tzinfo, "key", None)]}
        for kind, name in ((datetime.date, "$date"), (datetime.time, "$time")):
            if isinstance(value, kind):
                return {name: value.isoformat()}
        if isinstance(value, datetime.timedelta):
            return {"$timedelta": [value.days, value.seconds, value.microseconds]}
        return None

    def of_numpy(self, value: Any) -> dict[str, Any] | None:
        import numpy as np

        if isinstance(value, np.dtype):
            return {"$dtype": value.str}
        if isinstance(value, type) and issubclass(value, np.generic):
            return {"$scalar_type": np.dtype(value).name}
        if isinstance(value, np.generic):
            if value.dtype.kind in "mM":
                return {"$time64": [value.dtype.str, int(value.view("i8"))]}
            return (
                {"$scalar": [value.dtype.str, self.value(value.item())]}
                if value.dtype.kind in "biufSU"
                else None
            )
        if isinstance(value, np.ndarray) and value.dtype.kind in "biufmMSU":
            flat = value.view("i8") if value.dtype.kind in "mM" else value
            return {
                "$array": [value.dtype.str, list(value.shape), [self.value(v) for v in flat.ravel().tolist()]]
            }
        return None

    def of_pandas(self, value: Any) -> dict[str, Any] | None:
        pd = imported("pandas")
        if pd is None:
            return None
        if isinstance(value, pd.Timestamp):
            zone = None if value.tz is None else str(value.tz)
            return {
                "$timestamp": [
                    value.tz_localize(None).isoformat() if zone is None else value.isoformat(),
                    zone,
                ]
            }
        if isinstance(value, pd.CategoricalDtype):
            categories = None if value.categories is None else self.value(value.categories.tolist())
            return {"$categorical": {"categories": categories, "ordered": value.ordered}}
        if isinstance(value, pd.IntervalIndex):
            edges = [[self.value(i.left), self.value(i.right)] for i in value]
            return {"$intervals": {"closed": value.closed, "edges": edges}}
        return None


class _Reader:
    def __init__(self, base: type, allow_pickle: bool):
        self.base = base
        self.allow_pickle = allow_pickle
        self.depth = 0

    def document(self, found: Any) -> "Preprocessor":
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise ValueError(f'expected {{"format": "{FORMAT}", ...}}, found {_short(found)}')
        version = found.get("format_version")
        if type(version) is not int or version < 1:
            raise ValueError(f"format_version: expected a number of at least 1, found {_short(version)}")
        if version > FORMAT_VERSION:
            raise ValueError(
                f"format_version is {version}, this version of Headrace reads up to {FORMAT_VERSION}"
            )
        kind = self.member(found, "type", str)
        if kind == PICKLED:
            made = self.value(self.member(found, "state", dict))
            if not isinstance(made, self.base):
                raise ValueError(f"expected a pickled Preprocessor, found {type(made).__name__}")
            return made
        cls = _lookup_class(kind)
        version = self.member(found, "version", int)
        if not 1 <= version <= cls.get_version():
            raise ValueError(
                f"{kind} has version {version}, this version of Headrace reads up to {cls.get_version()}"
            )
        fields = self.fields("fields", self.member(found, "fields", dict))
        stats = self.fields("stats", self.member(found, "stats", dict))
        made = cls.__new__(cls)
        try:
            made._set_serializable_fields(fields, version)
            made._set_stats(stats)
        except (KeyError, TypeError, AttributeError) as e:
            raise ValueError(f"{kind}: {type(e).__name__}: {e}") from e
        except ValueError as e:
            raise ValueError(f"{kind}: {e}") from e
        return made

    def member(self, found: dict, name: str, kind: type) -> Any:
        value = found.get(name)
        if type(value) is not kind:
            raise ValueError(f"{name}: expected {_JSON_NAMES[kind]}, found {_short(value)}")
        return value

    def fields(self, where: str, found: dict) -> dict[str, Any]:
        made = {}
        for name, value in found.items():
            try:
                made[name] = self.value(value)
            except UnknownPreprocessorError:
                raise
            except (ValueError, TypeError, KeyError, OverflowError, IndexError, AttributeError) as e:
                raise ValueError(f"{where}: {name}: {e}") from e
        return made

    def value(self, found: Any) -> Any:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise ValueError(f"more than {_MAX_DEPTH} levels")
        try:
            if isinstance(found, list):
                return [self.value(v) for v in found]
            if not isinstance(found, dict):
                return found
            kind = next(iter(found), "")
            if not kind.startswith("$"):
                return {k: self.value(v) for k, v in found.items()}
            if len(found) != 1 or kind not in _READERS:
                raise ValueError(f"expected a known kind of value, found {_short(found)}")
            return _READERS[kind](self, found[kind])
        finally:
            self.depth -= 1

    def pickled(self, text: Any) -> Any:
        if not self.allow_pickle:
            raise ValueError(
                "it is a pickle, which runs code when it is read: if you trust its writer, "
                "use deserialize(text, allow_pickle=True)"
            )
        try:
            return pickle.loads(_bytes(text))
        except Exception as e:
            raise ValueError(f"the pickle cannot be read: {type(e).__name__}: {e}") from e

    def items(self, found: Any) -> list[tuple[Any, Any]]:
        return [(self.hashable(k), self.value(v)) for k, v in found]

    def hashable(self, found: Any) -> Any:
        made = self.value(found)
        hash(made)
        return made

    def list(self, found: Any) -> list[Any]:
        if not isinstance(found, list):
            raise ValueError(f"expected a list, found {_short(found)}")
        return [self.value(v) for v in found]

    def datetime(self, found: Any) -> datetime.datetime:
        text, zone = found
        made = datetime.datetime.fromisoformat(text)
        return made if zone is None else made.astimezone(_zone(zone))

    def timestamp(self, found: Any) -> Any:
        pd = package("pandas", "preprocessors")
        text, zone = found
        made = pd.Timestamp(text)
        return made if zone is None else made.tz_convert(zone)

    def scalar(self, found: Any) -> Any:
        kind, value = found
        return _dtype(kind).type(self.value(value))

    def time64(self, found: Any) -> Any:
        import numpy as np

        kind, value = found
        return np.array(value, "i8").view(_dtype(kind))[()]

    def array(self, found: Any) -> Any:
        import numpy as np

        kind, shape, values = found
        dtype = _dtype(kind)
        values = [self.value(v) for v in values]
        if dtype.kind in "mM":
            return np.array(values, "i8").view(dtype).reshape(shape)
        return np.array(values, dtype).reshape(shape)

    def categorical(self, found: Any) -> Any:
        pd = package("pandas", "preprocessors")
        categories = found["categories"]
        return pd.CategoricalDtype(None if categories is None else self.list(categories), found["ordered"])

    def intervals(self, found: Any) -> Any:
        pd = package("pandas", "preprocessors")
        edges = [(self.value(left), self.value(right)) for left, right in found["edges"]]
        return pd.IntervalIndex.from_tuples(edges, closed=found["closed"])


def _zone(name: str) -> datetime.tzinfo:
    import zoneinfo

    return zoneinfo.ZoneInfo(name)


def _dtype(text: Any) -> Any:
    import numpy as np

    made = np.dtype(text)
    if made.kind not in "biufmMSU":
        raise ValueError(f"expected a type of plain values, found {text!r}")
    return made


def _scalar_type(name: Any) -> type:
    return _dtype(name).type


def _bytes(text: Any) -> bytes:
    if not isinstance(text, str):
        raise ValueError(f"expected base64, found {_short(text)}")
    return base64.b64decode(text, validate=True)


def _float(text: Any) -> float:
    if text not in ("nan", "inf", "-inf"):
        raise ValueError(f"expected nan, inf or -inf, found {_short(text)}")
    return float(text)


def _decimal(text: Any) -> decimal.Decimal:
    try:
        return decimal.Decimal(text)
    except decimal.InvalidOperation:
        raise ValueError(f"expected a decimal, found {_short(text)}") from None


_READERS = {
    "$array": _Reader.array,
    "$bytes": lambda reader, found: _bytes(found),
    "$categorical": _Reader.categorical,
    "$counter": lambda reader, found: collections.Counter(dict(reader.items(found))),
    "$date": lambda reader, found: datetime.date.fromisoformat(found),
    "$datetime": _Reader.datetime,
    "$decimal": lambda reader, found: _decimal(found),
    "$dtype": lambda reader, found: _dtype(found),
    "$float": lambda reader, found: _float(found),
    "$intervals": _Reader.intervals,
    "$map": lambda reader, found: dict(reader.items(found)),
    "$pickle": _Reader.pickled,
    "$preprocessor": _Reader.document,
    "$scalar": _Reader.scalar,
    "$scalar_type": lambda reader, found: _scalar_type(found),
    "$set": lambda reader, found: set(reader.list(found)),
    "$time": lambda reader, found: datetime.time.fromisoformat(found),
    "$time64": _Reader.time64,
    "$timedelta": lambda reader, found: datetime.timedelta(*found),
    "$timestamp": _Reader.timestamp,
    "$tuple": lambda reader, found: tuple(reader.list(found)),
}
_JSON_NAMES = {str: "a text", int: "a number", dict: "an object", list: "a list"}


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def dumps(preprocessor: "Preprocessor", base: type, allow_pickle: bool = False) -> str:
    """The text of a preprocessor. base: the class of all preprocessors."""
    return json.dumps(_Writer(base, allow_pickle).document(preprocessor), ensure_ascii=False, allow_nan=False)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def loads(serialized: str | bytes, base: type, allow_pickle: bool = False) -> "Preprocessor":
    """The preprocessor of a text."""
    if isinstance(serialized, (bytes, bytearray)):
        if bytes(serialized[:5]) == b"CPKL:":
            raise ValueError(
                "deserialize: this was written by Ray, as a pickle that needs Ray's classes: load it with "
                "Ray, and make the preprocessor here with the same arguments and stats_"
            )
        try:
            serialized = bytes(serialized).decode()
        except UnicodeDecodeError as e:
            raise ValueError(f"deserialize: expected UTF-8 text: {e}") from None
    if not isinstance(serialized, str):
        raise TypeError(f"deserialize: expected the text of serialize(), found {type(serialized).__name__}")
    try:
        found = json.loads(serialized, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as e:
        raise ValueError(
            f"deserialize: expected JSON text of serialize(), found {_short(serialized)}: {e}"
        ) from None
    try:
        return _Reader(base, allow_pickle).document(found)
    except UnknownPreprocessorError:
        raise
    except (ValueError, TypeError, KeyError, OverflowError, binascii.Error) as e:
        raise ValueError(f"deserialize: {e}") from e
