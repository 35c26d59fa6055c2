"""The shape of the tree: includes point up, file names are unique, nothing but hr_* leaves the library.

Runs under pytest, and as a script where there is no pytest yet.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LAYERS = ["core", "io", "codec", "expr", "format", "op", "exec", "feed", "cli"]
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)
PUBLIC = {"headrace.h", "headrace_config.h"}


def sources():
    """Every C file that ends in the library, the command or the Python module."""
    for top in ("src", "python/src"):
        yield from sorted(p for p in (ROOT / top).rglob("*") if p.suffix in {".c", ".h"})


def layer_of(path):
    """The folder of src/ that holds `path`; 'python' for the module; None beside the folders."""
    parts = path.relative_to(ROOT).parts
    if parts[0] == "python":
        return "python"
    return parts[1] if len(parts) > 2 else None


def may_include(mine, theirs):
    """cli and python are both the end of the list: neither sees the other."""
    if mine == theirs:
        return True
    if mine == "python":
        return theirs in LAYERS and theirs != "cli"
    return mine in LAYERS and theirs in LAYERS and LAYERS.index(theirs) < LAYERS.index(mine)


def target_of(name, path, by_name):
    """The file that `#include "name"` in `path` means; None for what is not ours."""
    for base in (path.parent, ROOT / "src", ROOT / "include", ROOT / "python" / "src"):
        candidate = (base / name).resolve()
        if candidate.is_file():
            return candidate
    return by_name.get(Path(name).name)


def wrong_includes():
    by_name = {p.name: p for p in sources()}
    for path in sources():
        mine = layer_of(path)
        for name in INCLUDE.findall(path.read_text(encoding="utf-8")):
            where = f'{path.relative_to(ROOT)}: #include "{name}"'
            if Path(name).name in PUBLIC:
                continue
            target = target_of(name, path, by_name)
            if target is None:
                yield f"{where}: no such file in the tree (a library's header goes in <>)"
            elif not may_include(mine, layer_of(target)):
                yield f"{where}: {mine} comes before {layer_of(target)}"


def wrong_names():
    seen = {}
    for path in sources():
        here = path.relative_to(ROOT)
        if path.stem.startswith("util"):
            yield f"{here}: says nothing about what is in it"
        if layer_of(path) not in [*LAYERS, "python"]:
            yield f"{here}: not in one of {' '.join(LAYERS)}"
        if path.name in seen:
            yield f"{here}: there is {seen[path.name]} already"
        seen[path.name] = here


def wrong_exports(library):
    text = subprocess.run(
        ["nm", "-D", "--defined-only", str(library)], check=True, capture_output=True, text=True
    ).stdout
    for line in text.splitlines():
        name = line.split()[-1].split("@")[0]
        if not name.startswith("hr_") or name.startswith("hr__"):
            yield f"{library.name} exports {name}"


def built_library():
    """HEADRACE_LIB, or what `make lib` left; None when nothing is built."""
    path = Path(os.environ.get("HEADRACE_LIB", ROOT / "build" / "release" / "libheadrace.so"))
    return path if path.exists() else None


def test_includes_point_up():
    assert list(wrong_includes()) == []


def test_file_names():
    assert list(wrong_names()) == []


def test_only_hr_is_exported():
    library = built_library()
    if library is None:
        import pytest

        pytest.skip("no shared library is built")
    assert list(wrong_exports(library)) == []


def main():
    wrong = [*wrong_includes(), *wrong_names()]
    if built_library():
        wrong += wrong_exports(built_library())
    for line in wrong:
        print(line)
    print(f"layers: {len(list(sources()))} files, {len(wrong)} wrong")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
