"""Runs the block of a page about a framework as a program that a server forks; see forked_ranks.py."""

import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
sys.path.insert(0, str(DOCS))
import make_outputs  # noqa: E402


def run_block(server, name, folder):
    """The page's one block, in the folder, which is the current one, prints what stands below it."""
    assert name in make_outputs.OF_FRAMEWORKS
    (found,) = make_outputs.BLOCK.finditer((DOCS / name).read_text())
    varies, code, below = found.groups()
    program = folder / "block.py"
    program.write_text(code)
    printed = server.run([program], folder, 300)
    assert varies or printed == (below or "")
