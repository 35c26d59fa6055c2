"""Runs each ```python block of the pages whose blocks are whole programs, and writes what it prints below it.

One interpreter runs all blocks of a page, each in names and in a folder of its own. `make docs` writes the
pages; --check (tests/python/test_docs.py) tells which outputs differ.
"""

import argparse
import contextlib
import io
import os
import re
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).resolve().parent
PAGES = ("start.md", "cookbook.md")
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE)


def output_of(code, place):
    """What a block prints, run in an empty folder."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as printed:
        os.chdir(folder)
        try:
            exec(compile(code, place, "exec"), {"__name__": "__main__"})
        finally:
            os.chdir(before)
    return "\n".join(line.rstrip() for line in printed.getvalue().splitlines()) + "\n"


def with_outputs(page):
    """(text of the page with the outputs of now, places of the blocks that printed something else)"""
    text, others = (DOCS / page).read_text(), []

    def block_with_output(found):
        place = f"docs/{page}:{text.count(chr(10), 0, found.start()) + 1}"
        printed = output_of(found[1], place)
        if printed != found[2]:
            others.append(f"{place}: prints\n{printed}")
        return f"```python\n{found[1]}```\n\n```text\n{printed}```\n"

    return BLOCK.sub(block_with_output, text), others


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if an output differs")
    parser.add_argument("pages", nargs="*", default=PAGES)
    args = parser.parse_args()
    wrong = []
    for page in args.pages:
        text, others = with_outputs(page)
        wrong += others
        if not args.check:
            (DOCS / page).write_text(text)
    if args.check and wrong:
        print("\n".join(wrong), "make docs writes these outputs", sep="\n")
        sys.exit(1)


if __name__ == "__main__":
    main()
