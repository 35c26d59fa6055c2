"""The ABI is what tests/abi/headrace.txt says; the library exports what the header declares."""

import difflib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import make_abi  # noqa: E402

ADVICE = (
    "the ABI is another one. New functions, and new fields at the end of a struct, are fine: run "
    "`.venv/bin/python tests/make_abi.py` and commit tests/abi/headrace.txt. What went or moved "
    "breaks programs that were compiled before: it needs another soversion in meson.build.\n"
)


@pytest.mark.skipif(sys.maxsize < 2**32, reason="the list is that of 64 bits")
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_abi_is_the_committed_one():
    want = make_abi.TARGET.read_text().splitlines()
    got = make_abi.abi().splitlines()
    assert len(got) > 200
    difference = "\n".join(
        difflib.unified_diff(want, got, "tests/abi/headrace.txt", "include/headrace.h", lineterm="")
    )
    assert not difference, ADVICE + difference


def test_the_library_exports_what_the_header_declares():
    library = Path(os.environ.get("HEADRACE_LIB", ROOT / "build" / "release" / "libheadrace.so"))
    if not library.exists() or library.suffix == ".a":
        pytest.skip("no shared library is built")
    text = subprocess.run(
        ["nm", "-D", "--defined-only", str(library)], check=True, capture_output=True, text=True
    ).stdout
    exported = {line.split()[-1].split("@")[0] for line in text.splitlines()}
    assert exported == set(make_abi.functions(make_abi.source()))


def test_pkg_config_asks_for_no_other_package():
    """The shared library needs no headers of zstd; headrace-static.pc names what a static one needs."""
    build = Path(os.environ.get("HEADRACE_LIB", ROOT / "build" / "release" / "libheadrace.so")).parent
    files = [build / "meson-private" / name for name in ("headrace.pc", "headrace-static.pc")]
    if not all(f.exists() for f in files):
        pytest.skip("no shared library is built")
    shared, static = (f.read_text() for f in files)
    assert "-lheadrace" in shared and "Requires" not in shared and "private" not in shared
    assert "Requires: " in static
