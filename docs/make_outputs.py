"""Runs each ```python block of the user's pages and writes what it prints below it.

Each block runs as a program of its own, in an empty folder and in a process of its own: it is what a reader
pastes. Those of pages on object stores reach servers on this machine: stores_of_pages.py. A block that
prints nothing shows nothing. What stands below a ```python { .varies } block is left alone: its output is
different each time (losses, seconds, process ids). `make docs` writes the pages; --check tells which blocks
fail or print something else, and --each does so for pages that it reads, one a line, from its input. Tests:
test_docs.py; the pages of OF_FRAMEWORKS in test_train_frameworks_*.py, whose ranks are quick to start.
"""

import argparse
import contextlib
import importlib.util
import json
import os
import re
import runpy
import sys
import tempfile
import traceback
from pathlib import Path

import stores_of_pages

DOCS = Path(__file__).resolve().parent
OF_DEVELOPERS = ("ARCHITECTURE.md", "adding-a-format.md", "adding-an-operator.md")
OF_FRAMEWORKS = ("accelerate.md", "lightning.md", "transformers.md")
PAGES = [p for p in sorted(DOCS.glob("**/*.md")) if p.name not in OF_DEVELOPERS]
BLOCK = re.compile(
    r"^```python( \{ \.varies \})?\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE
)
FRAMEWORKS = "torch lightning transformers accelerate xgboost lightgbm PIL zarr h5py duckdb polars soundfile"
NEEDED = re.compile(rf"^(?:import|from) ({FRAMEWORKS.replace(' ', '|')})\b", re.MULTILINE)


def needed(page):
    """The packages that the blocks of a page import, beside those that every test has."""
    return sorted(set(NEEDED.findall("".join(found[2] for found in BLOCK.finditer(page.read_text())))))


def run(code, folder, environment, output, errors):
    """In a process of its own: runs a block, which prints to `output` and `errors`. Does not return."""
    os.chdir(folder)
    if environment:
        stores_of_pages.enter(environment)
    Path("block.py").write_text(code)
    os.dup2(output, 1)
    os.dup2(errors, 2)
    failed = False
    try:
        runpy.run_path(str(folder / "block.py"), run_name="__main__")
    except BaseException:
        traceback.print_exc()
        failed = True
    sys.stdout.flush()
    os._exit(failed)


@contextlib.contextmanager
def two_files():
    with tempfile.TemporaryFile() as one, tempfile.TemporaryFile() as other:
        yield one, other


def output_of(code, with_stores=False):
    """(what a block prints, None); or (what it prints, how it failed)"""
    import headrace.data  # noqa: F401 - once for all blocks

    stores = stores_of_pages.stores() if with_stores else contextlib.nullcontext()
    with tempfile.TemporaryDirectory() as place, two_files() as (output, errors), stores as environment:
        folder = Path(place).resolve()
        if not (child := os.fork()):
            run(code, folder, environment, output.fileno(), errors.fileno())
        failed = os.waitpid(child, 0)[1] != 0
        printed, said = (file.seek(0) or file.read().decode() for file in (output, errors))
    lines = [line.rstrip() for line in printed.splitlines()]
    return "".join(f"{line}\n" for line in lines), said if failed else None


def with_outputs(page):
    """(text of the page with the outputs of now, what is wrong with its blocks)"""
    text, wrong = page.read_text(), []

    def block_with_output(found):
        place = f"{page.relative_to(DOCS.parent)}:{text.count(chr(10), 0, found.start()) + 1}"
        varies, code, below = found.groups()
        printed, failure = output_of(code, stores_of_pages.has_stores(page))
        if failure is not None:
            wrong.append(f"{place}: fails\n{failure}")
        if varies or failure is not None:
            return found[0]
        if printed != (below or ""):
            wrong.append(f"{place}: prints\n{printed}")
        shown = f"\n```text\n{printed}```\n" if printed else ""
        return f"```python\n{code}```\n{shown}"

    return BLOCK.sub(block_with_output, text), wrong


def answer_each():
    """For each page of the input: a line of what is wrong with it, as JSON."""
    for line in sys.stdin:
        print(json.dumps(with_outputs(Path(line.strip()).resolve())[1]), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if an output differs")
    parser.add_argument("--each", action="store_true", help="check the pages that the input names")
    parser.add_argument("pages", nargs="*", type=Path, help="all pages of users, if none is named")
    args = parser.parse_args()
    if args.each:
        return answer_each()
    wrong = []
    for page in [p.resolve() for p in args.pages] or PAGES:
        missing = [name for name in needed(page) if not importlib.util.find_spec(name)]
        if missing:
            print(f"{page.name}: not run, without {', '.join(missing)}")
            continue
        text, found = with_outputs(page)
        wrong += found
        if not args.check:
            page.write_text(text)
    if wrong and (args.check or any(": fails\n" in line for line in wrong)):
        print("\n".join(wrong), "make docs writes these outputs", sep="\n")
        sys.exit(1)


if __name__ == "__main__":
    main()
