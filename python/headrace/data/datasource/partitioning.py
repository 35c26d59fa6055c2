"""Columns out of folder names, and which files are read because of them: Ray's names."""

import enum
import os
from urllib.parse import unquote

from headrace._core import InvalidArgument
from headrace.data.context import is_whole
from headrace.settings import OnlyKnown, unknown

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
_FORMATS = {int: "l", float: "g", str: "u", bool: "b", bytes: "z"}
_ARROW_FORMATS = {
    "int8": "c",
    "uint8": "C",
    "int16": "s",
    "uint16": "S",
    "int32": "i",
    "uint32": "I",
    "int64": "l",
    "uint64": "L",
    "float": "f",
    "double": "g",
    "bool": "b",
    "string": "u",
    "large_string": "U",
    "binary": "z",
}


class PartitionStyle(enum.StrEnum):
    """HIVE: folders 'key=value'; DIRECTORY: folder names are the values of given columns."""

    HIVE = "hive"
    DIRECTORY = "dir"


class Partitioning(OnlyKnown):
    """How folder names become columns, as text unless field_types says otherwise.

    style: "hive" or "dir". base_dir: only folders below it count; None: all (with "dir" the last ones).
    field_names: columns; for "dir" they have to be given, and None leaves a folder out; for "hive" None means
    all keys. field_types: dict of column -> int, float, str, bool, or an Arrow type.
    """

    _names = ("style", "base_dir", "field_names", "field_types", "filesystem")

    def __init__(self, style="hive", base_dir=None, field_names=None, field_types=None, filesystem=None):
        try:
            self.style = PartitionStyle("dir" if style == "directory" else style)
        except ValueError:
            raise InvalidArgument(f"Partitioning: style {style!r}: expected 'hive' or 'dir'") from None
        self.base_dir = os.fspath(base_dir) if base_dir else ""
        self.field_names = _names_of(field_names)
        self.field_types = dict(field_types or {})
        self.filesystem = filesystem
        if self.style is PartitionStyle.DIRECTORY and not self.field_names:
            raise InvalidArgument("Partitioning: style 'dir' needs field_names")
        if self.style is PartitionStyle.HIVE and None in (self.field_names or ()):
            raise InvalidArgument("Partitioning: field_names: None is for style 'dir'")
        if self.field_names:
            for name in self.field_types:
                if name not in self.field_names:
                    raise InvalidArgument(unknown("Partitioning: field_names", name, self.field_names))

    def __eq__(self, other):
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__ = None

    def __repr__(self):
        return (
            f"Partitioning({self.style.value!r}, {self.base_dir!r}, {self.field_names}, {self.field_types})"
        )

    def arguments(self):
        """The engine's words for it."""
        types = {name: _format_of(kind) for name, kind in self.field_types.items()}
        names = self.field_names or list(types) or None
        return {
            "partitioning": self.style.value,
            "partition_base": self.base_dir or None,
            "partition_names": names,
            "partition_types": [types.get(n) for n in names] if names else None,
            "partition_others": not self.field_names,
        }


def _names_of(given):
    if isinstance(given, str):
        raise InvalidArgument(f"Partitioning: field_names {given!r}: expected a list of names")
    names = list(given) if given else None
    for name in names or ():
        if name is not None and not isinstance(name, str):
            raise InvalidArgument(f"Partitioning: field_names: {name!r} is no text")
    return names


def _format_of(kind):
    if kind is None or kind in _FORMATS:
        return _FORMATS.get(kind)
    if str(kind) in _ARROW_FORMATS:  # a pyarrow.DataType, or its name
        return _ARROW_FORMATS[str(kind)]
    raise InvalidArgument(
        f"Partitioning: type {kind!r}: expected int, float, str, bool, bytes or an Arrow type of those kinds"
    )


class PathPartitionParser:
    """Path -> dict of what its folders say, as text unless field_types says otherwise; called with a path.

    A file outside of base_dir, or directly in it, gives an empty dict.
    """

    def __init__(self, partitioning):
        self.scheme = partitioning

    @staticmethod
    def of(style="hive", base_dir=None, field_names=None, field_types=None, filesystem=None):
        """A parser of such a Partitioning."""
        return PathPartitionParser(Partitioning(style, base_dir, field_names, field_types, filesystem))

    def _folders(self, path):
        """The names of the folders below base_dir that lead to the file; None if it is not there."""
        base = self.scheme.base_dir.removeprefix("file://").rstrip("/")
        if base and not path.startswith(base + "/"):  # one of them may be relative
            base, path = os.path.abspath(base), os.path.abspath(path)
            if not path.startswith(base + "/"):
                return []
        return [f for f in path[len(base) :].split("/")[:-1] if f]

    def __call__(self, path):
        scheme, folders = self.scheme, self._folders(path)
        if scheme.style is PartitionStyle.HIVE:
            pairs = [f.partition("=") for f in folders]
            found = {unquote(k): unquote(v) for k, equals, v in pairs if equals and k}
            if scheme.field_names:
                found = {k: found[k] for k in scheme.field_names if k in found}
        else:
            found = self._by_place(path, folders)
        return {name: _as(value, scheme.field_types.get(name, str)) for name, value in found.items()}

    def _by_place(self, path, folders):
        names, based = self.scheme.field_names, bool(self.scheme.base_dir)
        if not folders:
            return {}
        if len(folders) < len(names) or based and len(folders) != len(names):
            raise InvalidArgument(f"{path}: {len(folders)} folders for {len(names)} partition columns")
        pairs = zip(names, folders[-len(names) :], strict=True)
        return {name: folder for name, folder in pairs if name is not None}


def _as(value, kind):
    """A folder's text as the type that field_types gives; in another type than text the hive null is None."""
    if kind is str or kind not in _FORMATS:
        return value
    if value == HIVE_NULL:
        return None
    if kind is bool:
        return value.lower() == "true"
    return value.encode() if kind is bytes else kind(value)


class PathPartitionFilter:
    """Keeps the paths for which filter_fn, called with a dict of partition column -> value, is true.

    Values are the folders' texts (also __HIVE_DEFAULT_PARTITION__), unless field_types says otherwise.
    Called with a list of paths -> a list of paths.
    """

    def __init__(self, path_partition_parser, filter_fn):
        self.parser = path_partition_parser
        self.filter_fn = filter_fn

    @staticmethod
    def of(filter_fn, style="hive", base_dir=None, field_names=None, field_types=None, filesystem=None):
        """A filter over such a Partitioning."""
        parser = PathPartitionParser.of(style, base_dir, field_names, field_types, filesystem)
        return PathPartitionFilter(parser, filter_fn)

    def __call__(self, paths):
        return [p for p in paths if self.filter_fn(self.parser(p))]


class FileShuffleConfig(OnlyKnown):
    """The order in which files are read: a function of seed and epoch.

    seed: None for DataContext.seed. reseed_after_execution: False gives all epochs one order.
    """

    _names = ("seed", "reseed_after_execution")

    def __init__(self, seed=None, reseed_after_execution=True):
        if seed is not None and not is_whole(seed):
            raise InvalidArgument(f"FileShuffleConfig: seed {seed!r}: expected an integer")
        self.seed = seed
        self.reseed_after_execution = reseed_after_execution

    def __eq__(self, other):
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__ = None

    def __repr__(self):
        return f"FileShuffleConfig(seed={self.seed}, reseed_after_execution={self.reseed_after_execution})"
