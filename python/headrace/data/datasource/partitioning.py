"""Columns from folder names, and filters of files by them. The names are Ray's."""

from __future__ import annotations

import enum
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar
from urllib.parse import unquote

from headrace._core import InvalidArgument
from headrace.data.context import is_whole
from headrace.settings import OnlyKnown, hinted, unknown

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
    """HIVE: folders 'key=value'; DIRECTORY: folder names are the values of `field_names`."""

    HIVE = "hive"
    DIRECTORY = "dir"


@hinted
class Partitioning(OnlyKnown):
    """How folder names become columns; the values are text unless field_types names another type.

    style: "hive" or "dir". base_dir: only folders below it count; None: all folders (for "dir" the last
    ones). field_names: the columns. "dir" needs them, and None leaves a folder out; for "hive" None means all
    keys. field_types: dict of column -> int, float, str, bool, or an Arrow type.
    """

    _names = ("style", "base_dir", "field_names", "field_types", "filesystem")

    def __init__(
        self,
        style: PartitionStyle | str = "hive",
        base_dir: str | None = None,
        field_names: Sequence[str] | None = None,
        field_types: Mapping[str, type] | None = None,
        filesystem: Any = None,
    ) -> None:
        try:
            self.style: PartitionStyle = PartitionStyle("dir" if style == "directory" else style)
        except ValueError:
            raise InvalidArgument(f"Partitioning: style: expected 'hive' or 'dir', found {style!r}") from None
        self.base_dir: str = os.fspath(base_dir) if base_dir else ""
        self.field_names: list[str] | None = _names_of(field_names)
        self.field_types: dict[str, Any] = dict(field_types or {})
        self.filesystem = filesystem
        if self.style is PartitionStyle.DIRECTORY and not self.field_names:
            raise InvalidArgument("Partitioning: expected field_names with style 'dir'")
        if self.style is PartitionStyle.HIVE and None in (self.field_names or ()):
            raise InvalidArgument("Partitioning: field_names: only style 'dir' allows None")
        if self.field_names:
            for name in self.field_types:
                if name not in self.field_names:
                    raise InvalidArgument(unknown("Partitioning: field_names", name, self.field_names))

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"Partitioning({self.style.value!r}, {self.base_dir!r}, {self.field_names}, {self.field_types})"
        )

    def arguments(self) -> dict[str, Any]:
        """The engine's arguments for this partitioning."""
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
        raise InvalidArgument(f"Partitioning: field_names: expected a list of names, found {given!r}")
    names = list(given) if given else None
    for name in names or ():
        if name is not None and not isinstance(name, str):
            raise InvalidArgument(f"Partitioning: field_names: expected names, found {name!r}")
    return names


def _format_of(kind):
    if kind is None or kind in _FORMATS:
        return _FORMATS.get(kind)
    if str(kind) in _ARROW_FORMATS:  # a pyarrow.DataType, or its name
        return _ARROW_FORMATS[str(kind)]
    raise InvalidArgument(
        f"Partitioning: field_types: expected int, float, str, bool, bytes or an Arrow type of these kinds, "
        f"found {kind!r}"
    )


class PathPartitionParser:
    """Turns a path into a dict of the values in its folders' names; text unless field_types names another
    type.

    A file outside of base_dir, or directly in it, gives an empty dict.
    """

    scheme: Partitioning

    def __init__(self, partitioning: Partitioning) -> None:
        self.scheme = partitioning

    @staticmethod
    def of(
        style: PartitionStyle | str = PartitionStyle.HIVE,
        base_dir: str | None = None,
        field_names: Sequence[str] | None = None,
        field_types: Mapping[str, type] | None = None,
        filesystem: Any = None,
    ) -> PathPartitionParser:
        """A parser for a Partitioning with these arguments."""
        return PathPartitionParser(Partitioning(style, base_dir, field_names, field_types, filesystem))

    def _folders(self, path):
        """The names of the folders between base_dir and the file; empty if the file is elsewhere."""
        base = self.scheme.base_dir.removeprefix("file://").rstrip("/")
        if base and not path.startswith(base + "/"):  # one of them may be relative
            base, path = os.path.abspath(base), os.path.abspath(path)
            if not path.startswith(base + "/"):
                return []
        return [f for f in path[len(base) :].split("/")[:-1] if f]

    def __call__(self, path: str) -> dict[str, str]:
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
            raise InvalidArgument(
                f"{path}: expected {len(names)} folders, one per partition column, found {len(folders)}"
            )
        pairs = zip(names, folders[-len(names) :], strict=True)
        return {name: folder for name, folder in pairs if name is not None}


def _as(value, kind):
    """A folder's text as the type in field_types; the hive null is None unless the type is text."""
    if kind is str or kind not in _FORMATS:
        return value
    if value == HIVE_NULL:
        return None
    if kind is bool:
        return value.lower() == "true"
    return value.encode() if kind is bytes else kind(value)


class PathPartitionFilter:
    """Keeps the paths for which filter_fn returns true; it gets a dict of partition column -> value.

    Values are the folders' texts (also __HIVE_DEFAULT_PARTITION__), unless field_types names another type.
    A call takes a list of paths and returns a list of paths.
    """

    parser: PathPartitionParser

    def __init__(
        self, path_partition_parser: PathPartitionParser, filter_fn: Callable[[dict[str, str]], bool]
    ) -> None:
        self.parser = path_partition_parser
        self.filter_fn = filter_fn

    @staticmethod
    def of(
        filter_fn: Callable[[dict[str, str]], bool],
        style: PartitionStyle | str = PartitionStyle.HIVE,
        base_dir: str | None = None,
        field_names: Sequence[str] | None = None,
        field_types: Mapping[str, type] | None = None,
        filesystem: Any = None,
    ) -> PathPartitionFilter:
        """A filter for a Partitioning with these arguments."""
        parser = PathPartitionParser.of(style, base_dir, field_names, field_types, filesystem)
        return PathPartitionFilter(parser, filter_fn)

    def __call__(self, paths: Sequence[str]) -> list[str]:
        return [p for p in paths if self.apply(p)]

    def apply(self, path: str) -> bool:
        """Whether the filter keeps this path."""
        return bool(self.filter_fn(self.parser(path)))


@hinted
class FileShuffleConfig(OnlyKnown):
    """A random order of the files, which depends on seed and epoch.

    seed: None for DataContext.seed. reseed_after_execution: False gives all epochs one order.
    """

    _names = ("seed", "reseed_after_execution")

    def __init__(self, seed: int | None = None, reseed_after_execution: bool = True) -> None:
        if seed is not None and not is_whole(seed):
            raise InvalidArgument(f"FileShuffleConfig: seed: expected an integer, found {seed!r}")
        self.seed = seed
        self.reseed_after_execution = reseed_after_execution

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"FileShuffleConfig(seed={self.seed}, reseed_after_execution={self.reseed_after_execution})"
