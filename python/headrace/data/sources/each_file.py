"""Files that Python reads. The engine lists them, so that paths, partitions, file filters and their order
mean the same for every reader; each file, or each part of a file, is then a task.

The packages that read know files of this machine. The engine reads the bytes of a URL, or of a file of
another filesystem, and gives them to a task, which makes a file in memory of them and reads all its parts.
"""

import contextlib
import os

from headrace._core import DataError, Expr, HeadraceError, InvalidArgument, Table
from headrace.data.files import read_files
from headrace.data.paths import is_url

PATH = "__headrace_path__"
BYTES = "bytes"


class _Task:
    """The function that reads a file. Its batch is one row of the listing: the path, columns from folder
    names, begin and end of a part, the bytes of a URL. It yields the Tables of read(path, *part), with the
    columns of `kept` repeated in each row.
    """

    def __init__(self, name, read, part=(), kept=(), paths_name=None):
        self.__name__ = name
        self.__qualname__ = f"read.{name}"
        self.read = read
        self.part = part
        self.kept = kept
        self.paths_name = paths_name

    def __call__(self, table, build):
        from headrace.data.blocks import columns_of_rows, table_of

        path = table.column(PATH).to_pylist()[0]
        part = [table.column(n).to_pylist()[0] for n in self.part]
        repeated = {n: table.column(n) for n in self.kept}
        if self.paths_name:
            repeated[self.paths_name] = table.column(PATH)
        repeated = {n: Expr.of_table(Table.build({n: c}), False) for n, c in repeated.items()}
        for block in self._blocks(path, part, table):
            made = table_of(columns_of_rows(block), build, self.__name__)
            if self.paths_name and self.paths_name in made.names:
                raise InvalidArgument(
                    f"{path}: has a column '{self.paths_name}' of its own: include_paths needs another name"
                )
            for name, value in repeated.items():
                made = made.with_column(name, value.eval(made))
            yield made

    def _blocks(self, path, part, table):
        if BYTES not in table.names:
            yield from self.read(path, *part)
            return
        with _file_of(table.column(BYTES).to_pylist()[0]) as file:
            try:
                yield from self.read(file, *part)
            except Exception as e:
                e.args = tuple(a.replace(file, path) if isinstance(a, str) else a for a in e.args)
                raise


MEMORY = "/proc/self/fd/"


@contextlib.contextmanager
def _file_of(data):
    """A path of a file in memory with these bytes. Nothing of it stays when the process is killed."""
    with open(os.memfd_create("headrace"), "wb") as file:
        file.write(data)
        file.flush()
        yield f"{MEMORY}{file.fileno()}"


class _Cut:
    """Calls parts(path) and returns its list of (begin, end) as a block of rows."""

    def __init__(self, parts):
        self.parts = parts

    def __call__(self, path):
        found = list(self.parts(path))
        if found:
            yield {BEGIN: [begin for begin, _ in found], END: [end for _, end in found]}


class _AllParts:
    """Reads the parts of a file one after the other."""

    def __init__(self, parts, read):
        self.parts, self.read = parts, read

    def __call__(self, path):
        for part in self.parts(path):
            yield from self.read(path, *part)


BEGIN, END = "__headrace_begin__", "__headrace_end__"


def read_each_file(where, name, paths, read, *, parts=None, extensions=None, compute=None, **common):
    """A Dataset of files, in order.

    read: read(path), or with `parts` read(path, begin, end), yields blocks: dicts of columns, lists of row
    dicts, DataFrames, or Arrow data. parts: parts(path) returns the (begin, end) of a file's parts; this call
    tries it on the first file, unless it is a URL, so that it raises an error that concerns all files.
    extensions: of files in folders, unless file_extensions is given. common: see FileArguments.
    """
    concurrency, include = common.get("concurrency"), common.pop("include_paths", None)
    common.setdefault("file_extensions", extensions)
    common.setdefault("partitioning", None)
    for argument in ("schema", "unify"):
        if common.get(argument) is not None:
            raise InvalidArgument(f"{where}: only readers of the engine's own formats take {argument}")
    large = {"large": True}  # a URL's file may have more than 2 GiB
    listing = read_files(where, "binary", paths, include_paths=PATH, name=where, options=large, **common)
    folders = [n for n in listing.columns() if n not in (BYTES, PATH)]
    files = listing.input_files()
    remote = "filesystem" in listing._node.args or any(map(is_url, files))
    rows = listing.select_columns([PATH, *folders, *([BYTES] if remote else [])])
    if remote and parts is not None:
        read, parts = _AllParts(parts, read), None
    if parts is not None:
        parts(files[0])
        cut = _Task(f"{name}_parts", _Cut(parts), (), (*folders, PATH))
        rows = _tasks(rows, cut, compute="threads")
    paths_name = include if isinstance(include, str) else "path" if include else None
    task = _Task(name, read, (BEGIN, END) if parts is not None else (), folders, paths_name)
    return _tasks(rows, task, compute, concurrency)


def _tasks(rows, task, compute=None, concurrency=None):
    return rows._with_function(
        "read", "tables", task, compute=compute, concurrency=concurrency, options={"block_rows": 1}
    )


def damaged(path, error, place=""):
    """The exception to raise when another package fails to read a file: its error, with the file's name."""
    if isinstance(error, (MemoryError, HeadraceError)):
        return error
    text = f"{place}: {type(error).__name__}: {error}" if place else f"{type(error).__name__}: {error}"
    return DataError(f"{path}: {text}")
