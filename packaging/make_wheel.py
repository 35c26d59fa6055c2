"""Makes the wheel that people install: dist/headrace-VERSION-cp311-abi3-manylinux_*.whl.

    make wheel

1. pip builds it, stripped, against the libraries of this system. It leaves libtiff out: that brings
   libjbig, whose licence is the GPL. It leaves libcurl out, too: Debian's brings 26 libraries (LDAP,
   Kerberos, GnuTLS). A URL is an error that names libcurl then.
2. auditwheel puts those libraries into it, with a list of them (an SBOM), and finds the oldest glibc
   that has all symbols. On Debian 12 that is 2.34; a wheel for older systems is made on an older
   system.
3. The licence texts of the libraries inside go beside ours, under dist-info/licenses.
4. abi3audit checks that the module uses nothing but Python's stable ABI of 3.11.

packaging/check_wheel.py installs and tries it. docs/releases.md says how to make the wheel of another
machine, with --cross.
"""

import argparse
import configparser
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from common import DIST, ROOT, one, run, shown

COPYRIGHT = Path("/usr/share/doc")  # /PACKAGE/copyright, on Debian


def build(folder, cross=None, machine=None):
    given = ["install-args=--strip", "setup-args=-Dtiff=disabled", "setup-args=-Dcurl=disabled"]
    given.append("setup-args=-Ds3=disabled")
    given += [f"setup-args=--cross-file={cross.absolute()}"] if cross else []
    settings = [f"--config-settings={s}" for s in given]
    env = {"_PYTHON_HOST_PLATFORM": f"linux-{machine}"} if cross else None
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    run(*pip, *settings, "-w", folder, ROOT, env=env)
    return one(folder, "headrace-*.whl")


def debian_packages(libraries):
    """The packages that the libraries come from; auditwheel names them NAME-HASH.so.N."""
    found = set()
    for library in libraries:
        name, _, rest = library.name.partition(".so")
        name = name.rpartition("-")[0] + ".so" + rest
        matches = [p for folder in ("/usr/lib", "/lib") for p in Path(folder).glob(f"*-linux-gnu/{name}*")]
        for path in matches[:1]:
            for candidate in (path, path.resolve(), Path(str(path).removeprefix("/usr"))):
                done = subprocess.run(["dpkg", "-S", candidate], capture_output=True, text=True)
                if done.returncode == 0:
                    found.add(done.stdout.partition(":")[0])
                    break
        if not matches:
            sys.exit(f"{library.name}: no library {name} on this system; where is its licence?")
    return sorted(found)


def add_licences(wheel, zstd):
    """Adds the licence texts to the wheel; returns the names of what they belong to."""
    with tempfile.TemporaryDirectory() as folder:
        run(sys.executable, "-m", "wheel", "unpack", "-d", folder, wheel)
        (tree,) = Path(folder).iterdir()
        (info,) = tree.glob("*.dist-info")
        texts = info / "licenses" / "libraries"
        texts.mkdir(parents=True)
        packages = debian_packages(sorted(tree.glob("headrace.libs/*")))
        for package in packages:
            shutil.copy(COPYRIGHT / package / "copyright", texts / f"{package}.txt")
        if zstd.exists() and "libzstd1" not in packages:  # linked into the module, from its sources
            shutil.copy(zstd, texts / "libzstd.txt")
            packages.append("libzstd")
        wheel.unlink()
        run(sys.executable, "-m", "wheel", "pack", "-d", wheel.parent, tree)
    return packages


def cross_machine(path):
    """(cpu_family, sys_root) of a cross file."""
    words = configparser.ConfigParser()
    words.read_string(path.read_text())
    return words["host_machine"]["cpu_family"].strip("'"), words["properties"]["sys_root"].strip("'")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dist", type=Path, default=DIST, help="the folder it is written to")
    parser.add_argument("--cross", type=Path, help="meson's cross file, for a wheel of another machine")
    args = parser.parse_args()
    machine, audit = None, []
    if args.cross:
        machine, root = cross_machine(args.cross)
        folders = [f"{root}/{top}/{machine}-linux-gnu" for top in ("usr/lib", "lib")]
        audit = ["--ldpaths", os.pathsep.join(folders)]
    args.dist.mkdir(exist_ok=True)
    for old in args.dist.glob("headrace-*.whl"):
        old.unlink()
    with tempfile.TemporaryDirectory() as folder:
        run("auditwheel", "repair", *audit, "-w", args.dist, build(Path(folder), args.cross, machine))
    packages = add_licences(one(args.dist, "headrace-*.whl"), ROOT / "build" / "zstd" / "zstd" / "LICENSE")
    wheel = one(args.dist, "headrace-*.whl")
    run("abi3audit", "--strict", wheel)
    print(f"{shown(wheel)}\n{wheel.stat().st_size / 1e6:.1f} MB, with {', '.join(packages)}")


if __name__ == "__main__":
    main()
