"""Columns out of folder names, and which files are read because of them: Ray's names."""

import enum
import os
from urllib.parse import unquote

from headrace._core import InvalidArgument
from headrace.data.context import is_whole

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


class Partitioning:
    """How folder names become columns.

    style: "hive" or "dir". base_dir: only folders below it count; None: all (with "dir" the last ones).
    field_names: columns; for "dir" they have to be given, for "hive" None means all keys. field_types: dict
    of column -> int, float, str, bool, or an Arrow type; others are int64 if all values are, else string.
    """

    def __init__(self, style="hive", base_dir=None, field_names=None, field_types=None, filesystem=None):
        try:
            self.style = PartitionStyle("dir" if style == "directory" else style)
        except ValueError:
            raise InvalidArgument(f"Partitioning: style {style!r}: expected 'hive' or 'dir'") from None
        self.base_dir = os.fspath(base_dir) if base_dir else ""
        self.field_names = list(field_names) if field_names else None
        self.field_types = dict(field_types or {})
        self.filesystem = filesystem
        if self.style is PartitionStyle.DIRECTORY and not self.field_names:
            raise InvalidArgument("Partitioning: style 'dir' needs field_names")
        if self.field_types and not self.field_names:
            self.field_names = list(self.field_types)
        unknown = sorted(set(self.field_types) - set(self.field_names or ()))
        if unknown:
            raise InvalidArgument(f"Partitioning: field_types of {unknown}, which are not in field_names")

    def __eq__(self, other):
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__ = None

    def __repr__(self):
        return (
            f"Partitioning({self.style.value!r}, {self.base_dir!r}, {self.field_names}, {self.field_types})"
        )

    def arguments(self):
        """The engine's words for it."""
        names = self.field_names
        return {
            "partitioning": self.style.value,
            "partition_base": self.base_dir or None,
            "partition_names": names,
            "partition_types": [_format_of(self.field_types.get(n)) for n in names] if names else None,
        }


def _format_of(kind):
    if kind is None or kind in _FORMATS:
        return _FORMATS.get(kind)
    if str(kind) in _ARROW_FORMATS:  # a pyarrow.DataType, or its name
        return _ARROW_FORMATS[str(kind)]
    raise InvalidArgument(
        f"Partitioning: type {kind!r}: expected int, float, str, bool, bytes or an Arrow type of those kinds"
    )


class PathPartitionParser:
    """Path -> dict of what its folders say; called with a path."""

    def __init__(self, partitioning):
        self.scheme = partitioning

    @staticmethod
    def of(style="hive", base_dir=None, field_names=None, field_types=None, filesystem=None):
        """A parser of such a Partitioning."""
        return PathPartitionParser(Partitioning(style, base_dir, field_names, field_types, filesystem))

    def __call__(self, path):
        scheme = self.scheme
        base = scheme.base_dir.rstrip("/")
        if base and not path.startswith(base + "/"):
            return {}
        folders = [f for f in path[len(base) :].split("/")[:-1] if f]
        if scheme.style is PartitionStyle.HIVE:
            pairs = [f.partition("=") for f in folders]
            found = {unquote(k): unquote(v) for k, equals, v in pairs if equals and k}
            if scheme.field_names:
                found = {k: found[k] for k in scheme.field_names if k in found}
        else:
            names = scheme.field_names
            if len(folders) < len(names) or base and len(folders) != len(names):
                raise InvalidArgument(f"{path}: {len(folders)} folders for {len(names)} partition columns")
            found = {k: unquote(v) for k, v in zip(names, folders[-len(names) :], strict=True)}
        out = {}
        for name, value in found.items():
            kind = scheme.field_types.get(name, str)
            if kind is bool and value != HIVE_NULL:
                out[name] = value.lower() == "true"
            else:
                out[name] = None if value == HIVE_NULL else kind(value) if kind in _FORMATS else value
        return out


class PathPartitionFilter:
    """Keeps the paths for which filter_fn, called with a dict of partition column -> value, is true.

    Values are str, unless field_types says otherwise. Called with a list of paths -> a list of paths.
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


class FileShuffleConfig:
    """The order in which files are read: a function of seed and epoch.

    seed: None for DataContext.seed. reseed_after_execution: False gives all epochs one order.
    """

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
