"""WebDataset archives in Python, for arguments with functions over members' names (fileselect, filerename)
and for verbose_open. Otherwise the engine reads archives. Those of URLs come through the engine here, too.
"""

import contextlib
import io
import re
import tarfile

from headrace._core import DataError, HeadraceError, InvalidArgument, Table, UnsupportedError
from headrace.data.datasource.datasource import read_tasks, task
from headrace.data.files import read_files
from headrace.data.paths import is_url, shown
from headrace.data.ranged_files import RangedFile
from headrace.data.records import matches

BLOCK_ROWS = 512
READ_BYTES = 1 << 20  # of a URL at once
BLOCK_BYTES = 8 << 20


def _renamed(name, rename):
    """The name after all functions and (regular expression, replacement) pairs, in order."""
    for step in rename:
        name = step(name) if callable(step) else re.sub(step[0], step[1], name)
    return name


def _steps(filerename):
    if filerename is None:
        return []
    steps = list(filerename) if isinstance(filerename, list) else [filerename]
    for step in steps:
        if not callable(step) and not (isinstance(step, tuple) and len(step) == 2):
            raise InvalidArgument(
                "read_webdataset: filerename: expected a function, a (pattern, replacement) pair, or a list "
                f"of these, found {step!r}"
            )
    return steps


def _split(name):
    """(key, suffix) of a member; None if it belongs to no sample."""
    found = re.match(r"^((?:.*/|)[^.]+)[.]([^/]*)$", name)
    return found and (found[1], found[2].lower())


class _Archive:
    """The members of an archive that belong to samples: (key, suffix, function that reads the bytes).

    reach: how the engine reaches a URL: its options, and the filesystem that this process serves, or None.
    """

    def __init__(self, path, select, rename, reach):
        self.path = path
        self.select = select
        self.rename = rename
        self.reach = reach

    def _file(self):
        if not is_url(self.path):
            return contextlib.nullcontext()
        texts, served = self.reach
        texts = texts if served is None else [*texts, served.option]
        return io.BufferedReader(RangedFile(self.path, texts), READ_BYTES)

    def __iter__(self):
        try:
            with self._file() as file, tarfile.open(None if file else self.path, fileobj=file) as archive:
                for member in archive:
                    if not member.isreg() or re.match(r"__[^/]*__($|/)", member.name):
                        continue
                    name = _renamed(member.name, self.rename)
                    parts = _split(name)
                    if parts is None or not (self.select is None or matches(name, self.select)):
                        continue
                    yield *parts, lambda member=member: archive.extractfile(member).read()
        except HeadraceError:
            raise
        except (tarfile.TarError, EOFError, OSError) as e:
            raise DataError(f"{shown(self.path)}: tar: {e}") from e


def _table(path, columns, rows):
    """Rows as a Table. An extra last row gives every column its type; the result is without it."""
    made = {"__key__": [r["__key__"] for r in rows] + [""]}
    made |= {c: [r.get(c) for r in rows] + [b""] for c in columns}
    made["__url__"] = [path] * (len(rows) + 1)
    return Table.build(made).slice(0, len(rows))


def _samples(url, select, rename, reach, columns, verbose):
    """Tables of the samples in an archive."""
    rows, n_bytes, key = [], 0, None
    path = shown(url)
    if verbose:
        print(f"start {path}", flush=True)
    for sample, suffix, read in _Archive(url, select, rename, reach):
        if sample != key:
            if len(rows) >= BLOCK_ROWS or n_bytes >= BLOCK_BYTES:
                yield _table(path, columns, rows)
                rows, n_bytes = [], 0
            rows.append({"__key__": sample})
            key = sample
        if suffix in rows[-1]:
            raise DataError(f"{path}: tar: sample '{sample}' has two members of the suffix '{suffix}'")
        rows[-1][suffix] = None
        if suffix in columns:
            rows[-1][suffix] = data = read()
            n_bytes += len(data)
    if rows:
        yield _table(path, columns, rows)
    if verbose:
        print(f"done {path}", flush=True)


def read_samples(paths, fileselect, filerename, verbose_open, **common):
    """The samples of archives; all members are bytes. See read_webdataset."""
    for name in ("shuffle", "partitioning", "schema", "unify"):
        if common.get(name) is not None:
            raise UnsupportedError(
                f"read_webdataset: {name} is not supported with fileselect, filerename or verbose_open"
            )
    node = read_files("read_webdataset", "webdataset", paths, **common)._node
    files, served = node.plan.files(), node.args.get("filesystem")
    reach = (node.args.get("storage_options") or [], served)
    how = (fileselect, _steps(filerename), reach)
    columns = sorted({suffix for _, suffix, _ in _Archive(files[0], *how)} if files else ())
    tasks = [task(_samples, path, *how, columns, verbose_open) for path in files]
    compute = "threads" if served is not None else None  # which threads of this process serve
    return read_tasks("read_webdataset", tasks, compute=compute)
