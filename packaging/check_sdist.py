"""Builds a wheel and the command from the source distribution of dist/, and tries them.

    python packaging/check_sdist.py [--python PATH]

1. The archive has no file but those that packaging/trim_sdist.py names, and all of these that git knows.
2. pip downloads what the build needs, and what the package depends on. Everything after that runs
   without a network, if this system can take it away.
3. pip builds a wheel from the archive in an environment of its own, and an empty environment
   installs it and runs the lines of packaging/check_wheel.py.
4. meson builds and installs the command and the C library from the archive.
"""

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path

from check_wheel import TRY
from common import DIST, ROOT, one, run, shown
from trim_sdist import KEPT


def without_network():
    """The words before a command that take its network away; none where that is not permitted."""
    words = ["unshare", "--map-root-user", "--net"]
    try:
        return words if subprocess.run([*words, "true"], capture_output=True).returncode == 0 else []
    except FileNotFoundError:
        return []


def check_names(sdist):
    """Compares the archive with git; returns the number of files."""
    with tarfile.open(sdist) as archive:
        found = {m.name.partition("/")[2] for m in archive.getmembers() if not m.isdir()}
    wanted = set(run("git", "-C", ROOT, "ls-tree", "-r", "--name-only", "HEAD", *KEPT).splitlines())
    wanted.add("PKG-INFO")
    for text, names in (("has too much", found - wanted), ("lacks", wanted - found)):
        if names:
            sys.exit(f"{sdist}: {text}: {', '.join(sorted(names)[:10])}")
    return len(found)


def check_python(sdist, python, folder):
    """The size of the wheel that pip builds; the wheel has run."""
    needs = tomllib.loads((ROOT / "pyproject.toml").read_text())
    needs = needs["build-system"]["requires"] + needs["project"]["dependencies"]
    run(python, "-m", "venv", folder / "venv")
    inside = folder / "venv" / "bin" / "python"
    pip = [inside, "-m", "pip", "-q", "--disable-pip-version-check"]
    run(*pip, "download", "--only-binary", ":all:", "-d", folder / "wheels", *needs)
    offline = ["--no-index", "--find-links", folder / "wheels"]
    run(*without_network(), *pip, "wheel", *offline, "--no-deps", "-w", folder / "built", sdist)
    wheel = one(folder / "built", "headrace-*.whl")
    run(*without_network(), *pip, "install", *offline, wheel)
    script = folder / "try.py"
    script.write_text(TRY)
    run(*without_network(), inside, script, cwd=folder)
    return wheel.stat().st_size


def check_c(sdist, folder):
    """The text of `headrace --version`, as meson installed the command."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (tree,) = folder.glob("headrace-*")
    place = folder / "installed"
    run("meson", "setup", folder / "build", f"--prefix={place}", "--libdir=lib", cwd=tree)
    run("ninja", "install", cwd=folder / "build")
    for name in ("include/headrace.h", "lib/libheadrace.so", "share/man/man1/headrace.1"):
        if not (place / name).exists():
            sys.exit(f"{sdist}: meson installs no {name}")
    return run(place / "bin" / "headrace", "--version", env={"LD_LIBRARY_PATH": str(place / "lib")}).strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", default=sys.executable, help="the interpreter (this one)")
    parser.add_argument("--dist", type=Path, default=DIST, help="the folder of the archive")
    args = parser.parse_args()
    sdist = one(args.dist, "headrace-*.tar.gz")
    print(f"{shown(sdist)}: {check_names(sdist)} files", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        size = check_python(sdist, os.path.abspath(args.python), Path(folder))
    offline = (
        "without a network" if without_network() else "with a network, which this system does not take away"
    )
    print(f"a wheel of {size / 1e6:.1f} MB, built and tried {offline}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        print(f"C: {check_c(sdist, Path(folder))}")


if __name__ == "__main__":
    main()
