"""Names what a format still lacks: `make check-format NAME=csv`, or all of them without NAME.

Looks at files only, nothing has to be built. PLACES is the list of what a format has, in the order of
docs/adding-a-format.md; EXCEPTIONS says which format lacks what on purpose. tests/python/test_formats.py
runs it over every format.
"""

import argparse
import ast
import re
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests" / "python"
DAMAGE = ["test_corruption_formats.py", "*corruption*.py"]

# Readers of files that Ray Data has as well; docs/ray.md says what the others are.
OF_RAY = {
    "read_binary_files",
    "read_csv",
    "read_images",
    "read_json",
    "read_numpy",
    "read_parquet",
    "read_text",
    "read_tfrecords",
    "read_webdataset",
}

# What is missing on purpose: (format, place) -> why.
EXCEPTIONS = {
    ("binary", "fuzz target"): "nothing is parsed: a file's bytes are the value",
    ("binary", "test of damaged files"): "every file is a right one",
    ("binary", "test in Python"): "test_sources.py",
    ("images", "C test"): "test_pixels.c has the decoders, test_images.py and test_image_rule.c the files",
    ("images", "test of failures"): "test_pixels.c has the decoders",
    ("images", "fuzz target"): "fuzz_image.c has the decoders; nothing else is parsed",
    ("images", "test of the writer"): "a file for each row: test_images.py",
    ("parquet", "test of the writer"): "test_parquet_write.c",
    ("text", "test in Python"): "test_scan.py",
}


def read(path):
    return path.read_text(encoding="utf-8") if path.exists() else ""


def quoted(list_name, text):
    """The names in `list_name = [...]` or `(...)` of a meson.build or a Python file."""
    found = re.search(rf"{list_name} = [\[(](.*?)[\])]", text, re.DOTALL)
    return re.findall(r"['\"](\w+)['\"]", found[1]) if found else []


@dataclass
class Format:
    name: str
    variable: str  # hr__format_NAME
    path: Path
    table: str  # the text of its const table

    def has(self, field):
        return re.search(rf"^\s*\.{field} =", self.table, re.MULTILINE) is not None

    def c_tests(self):
        return [p for p in sorted((ROOT / "tests").glob("test_*.c")) if self.variable in read(p)]

    def fuzz_targets(self):
        return [p for p in sorted((ROOT / "fuzz").glob("fuzz_*.c")) if self.variable in read(p)]

    def page(self):
        pages = sorted((ROOT / "docs" / "formats").glob("*.md"))
        return next((p for p in pages if f"<!-- options {self.name} -->" in read(p)), None)

    def reader(self):
        """(its name, its docstring) of the function of headrace.data that reads the format."""
        for path in sorted((ROOT / "python" / "headrace" / "data").glob("*.py")):
            text = read(path)
            found = re.search(rf'read_files\(\s*"(read_\w+)", "{self.name}"', text)
            if found:
                for node in ast.parse(text).body:
                    if isinstance(node, ast.FunctionDef) and node.name == found[1]:
                        return node.name, ast.get_docstring(node)
        return None, None


def formats():
    """Every const table of a format under src/format."""
    out = []
    for path in sorted((ROOT / "src" / "format").rglob("*.c")):
        for table in re.finditer(
            r"^const hr_format (hr__format_\w+) = \{\n(.*?)^\};", read(path), re.M | re.S
        ):
            name = re.search(r'\.name = "(\w+)"', table[2])
            out.append(Format(name[1], table[1], path, table[2]))
    return out


# ------------------------------------------------------------------------------- places
# Each gives a sentence on what is missing, or None.


def in_meson(f):
    meson = f.path.parent / "meson.build"
    if f"'{f.path.name}'" not in read(meson):
        return f"{meson.relative_to(ROOT)} does not name {f.path.name}"
    return None


def in_list(f):
    short = f.variable.removeprefix("hr__format_")
    if not re.search(rf"^\s*FORMAT\({short}\)", read(ROOT / "src/format/format.h"), re.MULTILINE):
        return f"HR_FORMATS in src/format/format.h has no line FORMAT({short})"
    return None


def in_words(f):
    for field in ("suffixes", "doc", "open"):
        if not f.has(field):
            return f"its table in {f.path.relative_to(ROOT)} has no .{field}"
    for options, size in (("options", "options_bytes"), ("write_options", "write_options_bytes")):
        if f.has(options) and not f.has(size):
            return f"its table has .{options} without .{size}"
    return None


def in_page(f):
    page = f.page()
    if page is None:
        return f"no page docs/formats/*.md has a line <!-- options {f.name} --> (`make docs` fills it)"
    text = read(page)
    if f.has("write_options") and f"<!-- write options {f.name} -->" not in text:
        return f"{page.name} has no line <!-- write options {f.name} --> (`make docs` fills it)"
    if "```python\n" not in text:
        return f"{page.name} has no example"
    return None


def in_reading(f):
    if f"| `{f.name}` |" not in read(ROOT / "docs/reading.md"):
        return "the table of formats in docs/reading.md is old: make docs"
    return None


def in_python(f):
    reader, doc = f.reader()
    if reader is None:
        return f'no function of python/headrace/data calls read_files("read_...", "{f.name}", ...)'
    if not doc:
        return f"{reader} has no docstring"
    if f'"{reader}",' not in read(ROOT / "python/headrace/data/__init__.py"):
        return f"headrace.data does not export {reader}"
    return None


def in_c_tests(f):
    tests = f.c_tests()
    listed = read(ROOT / "tests/meson.build")
    if not tests:
        return f"no tests/test_*.c uses {f.variable}"
    if not any(f"'{p.stem.removeprefix('test_')}'" in listed for p in tests):
        return f"tests/meson.build does not name {tests[0].name}"
    return None


def in_failures(f):
    if not any("run_with_faults" in read(p) for p in f.c_tests()):
        return "no C test of it calls run_with_faults: each allocation and each read fails in turn"
    return None


def in_writers(f):
    if f.has("create") and f'{{ "{f.name}"' not in read(ROOT / "tests/test_writers.c"):
        return f'tests/test_writers.c has no case {{ "{f.name}", ... }}'
    return None


def in_fuzz(f):
    targets = [p.stem.removeprefix("fuzz_") for p in f.fuzz_targets()]
    if not targets:
        return f"no fuzz/fuzz_*.c uses {f.variable}"
    if not set(targets) & set(quoted("fuzz_targets", read(ROOT / "fuzz/meson.build"))):
        return f"fuzz/meson.build does not name {targets[0]}"
    if not any(p for name in targets for p in (ROOT / "fuzz/corpus" / name).glob("*")):
        return f"fuzz/corpus/{targets[0]} has no files"
    return None


def in_file(pattern, names, what):
    """A place that wants the reader's name in one of the files of tests/python."""

    def place(f):
        reader = f.reader()[0] or f"read_{f.name}"
        for name in names:
            if any(re.search(pattern.format(reader), read(p)) for p in TESTS.glob(name)):
                return None
        return f"tests/python/{names[0]} {what} {reader}"

    return place


def in_files(f):
    if f"| `{f.path.name}` |" not in read(ROOT / "docs/files.md"):
        return f"docs/files.md does not list {f.path.name}: make docs"
    return None


def in_extensions(f):
    """Which files of a folder are read: by their names, or all."""
    reader = f.reader()[0] or f"read_{f.name}"
    by_name = f'"{f.name}": [' in read(ROOT / "python/headrace/data/files.py")
    if not by_name and reader not in quoted("ALL_FILES", read(TESTS / "test_reader_arguments.py")):
        return f"EXTENSIONS of files.py lacks {f.name}, or ALL_FILES of test_reader_arguments.py {reader}"
    return None


def in_decompressed(f):
    """Where the C file decompresses, Python permits it and the test of arguments expects it."""
    if "hr__codec_guess(" not in read(f.path):
        return None
    reader = f.reader()[0] or f"read_{f.name}"
    if f.name not in quoted("DECOMPRESSED", read(ROOT / "python/headrace/data/files.py")):
        return f"DECOMPRESSED of files.py lacks {f.name}: {f.path.name} calls hr__codec_guess"
    if reader not in quoted("DECOMPRESSED", read(TESTS / "test_reader_arguments.py")):
        return f"DECOMPRESSED of test_reader_arguments.py lacks {reader}"
    return None


def in_ray(f):
    reader = f.reader()[0] or f"read_{f.name}"
    if reader not in OF_RAY and f"| `{reader}` |" not in read(ROOT / "docs/ray.md"):
        return f"docs/ray.md has no line | `{reader}` |, which Ray Data has not"
    return None


def in_python_tests(f):
    if not any(TESTS.glob(f"test_{f.name}*.py")):
        return f"no tests/python/test_{f.name}.py"
    return None


def in_dataset(f):
    writer = (f.reader()[0] or f"read_{f.name}").replace("read_", "write_", 1)
    if f.has("create") and f"    def {writer}(" not in read(ROOT / "python/headrace/data/write.py"):
        return f"Dataset has no method {writer}"
    return None


def in_changelog(f):
    reader = f.reader()[0] or f"read_{f.name}"
    if reader not in read(ROOT / "CHANGELOG.md"):
        return f"CHANGELOG.md does not mention {reader}"
    return None


PLACES = {
    "source file": in_words,
    "meson.build": in_meson,
    "list of formats": in_list,
    "list of source files": in_files,
    "reader in Python": in_python,
    "files of a folder": in_extensions,
    "compressed files": in_decompressed,
    "coming from Ray Data": in_ray,
    "writer in Python": in_dataset,
    "page": in_page,
    "table of formats": in_reading,
    "C test": in_c_tests,
    "test of failures": in_failures,
    "test of the writer": in_writers,
    "fuzz target": in_fuzz,
    "test of arguments": in_file('"{}": ', ["test_reader_arguments.py"], "has no line for"),
    "test of small memory": in_file('"{}", ', ["test_memory_formats.py"], "has no line for"),
    "test of damaged files": in_file(r"\b{}\b", DAMAGE, "does not use"),
    "test in Python": in_python_tests,
    "change log": in_changelog,
}


def missing(f):
    """[(place, what is missing there)] of a format; exceptions left out."""
    found = [(place, look(f)) for place, look in PLACES.items() if (f.name, place) not in EXCEPTIONS]
    return [(place, what) for place, what in found if what]


def stale():
    """Exceptions that are none: the format is gone, or it has what it is said to lack."""
    known = {f.name: f for f in formats()}
    return [key for key in EXCEPTIONS if key[0] not in known or PLACES[key[1]](known[key[0]]) is None]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", nargs="?", help="of one format; all without it")
    args = parser.parse_args()
    chosen = [f for f in formats() if args.name in (None, "", f.name)]
    if not chosen:
        print(f'{args.name}: no const table under src/format has .name = "{args.name}"')
        return 1
    n = 0
    for f in chosen:
        lacks = missing(f)
        n += len(lacks)
        for place, what in lacks:
            print(f"{f.name}: {place}: {what}")
        for (name, place), why in EXCEPTIONS.items():
            if name == f.name and args.name:
                print(f"{name}: {place}: left out: {why}")
        if not lacks and args.name:
            print(f"{f.name}: complete; now: make quick AREA={f.name}")
    return 1 if n else 0


if __name__ == "__main__":
    sys.exit(main())
