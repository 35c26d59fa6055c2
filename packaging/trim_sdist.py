#!/usr/bin/env python3
"""Leaves in a source distribution what a build reads, and removes the rest.

`meson dist` runs it (meson.build); MESON_DIST_ROOT is the folder that it packs. An archive of the last
commit, tests and benchmarks included, is 8 MB.

Tests: packaging/check_sdist.py
"""

import os
from pathlib import Path

# What meson.build and pyproject.toml read, and what somebody who has nothing else wants to read.
KEPT = (
    "CHANGELOG.md",
    "LICENSE",
    "README.md",
    "docs/man/headrace.1",
    "include/",
    "meson.build",
    "meson.options",
    "pyproject.toml",
    "python/",
    "src/",
)


def trim(root):
    for path in sorted(root.rglob("*"), reverse=True):  # a folder comes after what is in it
        name = path.relative_to(root).as_posix()
        if path.is_dir() and not path.is_symlink():
            if not any(path.iterdir()):
                path.rmdir()
        elif not name.startswith(tuple(k for k in KEPT if k.endswith("/"))) and name not in KEPT:
            path.unlink()
    for name in KEPT:
        if not (root / name).exists():
            raise SystemExit(f"{root}: {name} is missing")


if __name__ == "__main__":
    trim(Path(os.environ["MESON_DIST_ROOT"]))
