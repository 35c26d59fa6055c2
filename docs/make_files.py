"""Writes docs/files.md: each source file, its first words, its tests. `make docs` runs it; a test looks."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = {
    "base": "memory, texts, numbers, the operating system: knows no column",
    "data": "types, columns and tables, in Arrow's layout",
    "data/cdata": "Arrow's C data interface",
    "data/pick": "rows of several tables, in any order",
    "share": "what other processes see: shared memory and the sockets over which tables travel",
    "io": "bytes from somewhere and to somewhere",
    "io/http": "URLs: requests, and sources over their answers",
    "io/http/hdfs": "HDFS by its REST API",
    "io/http/multi": "moves the bytes of requests, by libcurl, on one thread or more",
    "io/http/pace": "how many requests are in flight, and which ones are sent twice",
    "io/http/s3": "S3: addresses, configuration, directory buckets",
    "io/http/served": "filesystems of the program, by threads of the program",
    "codec": "bytes into bytes: compression, encodings of text, checksums",
    "image": "bytes into pixels, and pixels into others",
    "expr": "expressions over columns",
    "expr/fn": "the functions that expressions have",
    "format": "bytes to tables and back: what all formats share",
    "format/scan": "what a plan reads",
    "format/spill": "tables on disk for a while",
    "format/parquet": "Parquet",
    "format/csv": "CSV",
    "format/json": "JSON",
    "format/arrow": "Arrow IPC",
    "format/numpy": "NumPy's files, and the zip archives that hold several",
    "format/tar": "tar archives, and WebDataset's samples in them",
    "format/tfrecord": "TFRecord",
    "format/plain": "text, whole files, images",
    "op": "tables to tables: what an operator is",
    "op/store": "tables in partitions, on disk if need be",
    "op/call": "functions of users",
    "op/rows": "some rows, some columns, several inputs",
    "op/join": "joins",
    "op/group": "groups and aggregates",
    "op/order": "sorts, shuffles, blocks",
    "op/write": "rows into files",
    "plan": "plans as immutable trees, and the rules that rewrite them",
    "exec": "runs a plan: threads, tickets, positions",
    "feed": "exact batches, for one consumer or many",
    "cli": "the command `headrace`",
}
HEAD = """# Source files

Folders in the order in which data flows; a file includes headers of its own folder and of those
before it. `make docs` writes this table from the first words of each file. The tests of a file are
the program that is named after it, or the ones that its head names ("Tests: ...").
[How the files fit together](ARCHITECTURE.md).
"""


def first_words(path):
    """The text after "name.c - " at the top of a file, to the full stop or the end of the paragraph."""
    text = path.read_text(encoding="utf-8")
    found = re.match(r"/\* [\w.]+ - (.*?)(?:\.\s|\.?\s*\*/|\n \*\n)", text, re.DOTALL)
    if not found:
        raise SystemExit(f"{path}: does not begin with its name, a dash and what it is for")
    return re.sub(r"\s*\n \*\s*", " ", found.group(1)).strip().rstrip(".").replace("|", "\\|")


def tests_of(path):
    """The tests of a C file: named after it, or named in its head by a line "Tests: a.c, b.py."."""
    named = f"test_{path.stem}.c"
    if (ROOT / "tests" / named).exists():
        return [named]
    head = path.read_text(encoding="utf-8").split("*/")[0]
    found = re.search(r"\n \* Tests: ([\w., \n*]+?)\.\s*$", head)
    if not found:
        raise SystemExit(f"{path}: there is no tests/{named}, and the head has no line 'Tests: ...'")
    tests = [t for t in re.split(r"[\s,*]+", found.group(1)) if t]
    for t in tests:
        if not any((ROOT / folder / t).exists() for folder in ("tests", "tests/python")):
            raise SystemExit(f"{path}: its head names {t}, which does not exist")
    return tests


def row(path):
    tests = ", ".join(f"`{t}`" for t in tests_of(path)) if path.suffix == ".c" else ""
    return f"| `{path.name}` | {first_words(path)} | {tests} |"


def page():
    lines = [HEAD]
    for name, what in FOLDERS.items():
        files = sorted(p for p in (ROOT / "src" / name).iterdir() if p.suffix in {".c", ".h"})
        lines += [f"## `src/{name}/`: {what}", "", "| file | | tests |", "|---|---|---|"]
        lines += [row(p) for p in files]
        lines.append("")
    return "\n".join(lines)


def main():
    there = {
        str(p.relative_to(ROOT / "src"))
        for p in (ROOT / "src").rglob("*")
        if p.is_dir() and list(p.glob("*.c"))
    }
    if there != set(FOLDERS):
        raise SystemExit(f"FOLDERS and src/ differ: {sorted(there ^ set(FOLDERS))}")
    path = ROOT / "docs" / "files.md"
    if "--check" in sys.argv:
        return path.read_text(encoding="utf-8") != page()
    path.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
