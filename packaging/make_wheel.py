"""Makes the wheel that people install: dist/headrace-VERSION-cp311-abi3-manylinux_*.whl.

    make wheel

1. pip builds it, stripped, against the libraries of this system. It leaves libtiff out: that brings
   libjbig, whose licence is the GPL. libcurl and expat are made here (make_libraries.py); a wheel for
   another machine has none, and a URL is an error that names libcurl then.
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
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import make_libraries
from common import DIST, ROOT, one, run, shown

COPYRIGHT = Path("/usr/share/doc")  # /PACKAGE/copyright, on Debian


def build(folder, libraries, cross=None, machine=None):
    """Builds the wheel with libcurl and expat of the folder `libraries`; None: without them."""
    stores = "enabled" if libraries else "disabled"
    given = ["install-args=--strip", "setup-args=-Dtiff=disabled"]
    given += [f"setup-args=-Dcurl={stores}", f"setup-args=-Ds3={stores}"]
    given += [f"setup-args=--cross-file={cross.absolute()}"] if cross else []
    settings = [f"--config-settings={s}" for s in given]
    env = {"_PYTHON_HOST_PLATFORM": f"linux-{machine}"} if cross else {}
    if libraries:
        found = [libraries / "lib" / "pkgconfig", os.environ.get("PKG_CONFIG_PATH", "")]
        env["PKG_CONFIG_PATH"] = os.pathsep.join(map(str, found))
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


def built_libraries(libraries):
    """What is no file of a package of this system: {package: (version, licence text)}."""
    zstd, found = ROOT / "build" / "zstd", {}
    if (zstd / "zstd" / "LICENSE").exists():  # else the system's, bundled like all others
        version = re.search(r"^Version: (.*)$", (zstd / "lib/pkgconfig/libzstd.pc").read_text(), re.M)[1]
        found["libzstd"] = (version, zstd / "zstd" / "LICENSE")
    if libraries:
        versions = dict(line.split() for line in (libraries / "versions").read_text().splitlines())
        for name, package in (("curl", "libcurl4"), ("expat", "libexpat1")):
            found[package] = (versions[name], COPYRIGHT / package / "copyright")
    return found


def add_components(sbom, built):
    """Adds to auditwheel's list of bundled libraries those that it cannot see."""
    listed = json.loads(sbom.read_text())
    for name, (version, _) in built.items():
        component = {"type": "library", "bom-ref": f"{name}@{version}", "name": name, "version": version}
        listed["components"].append(component)
    sbom.write_text(json.dumps(listed))


def add_licences(wheel, built):
    """Adds licence texts and the SBOM's missing lines to the wheel; -> the names of the libraries in it."""
    with tempfile.TemporaryDirectory() as folder:
        run(sys.executable, "-m", "wheel", "unpack", "-d", folder, wheel)
        (tree,) = Path(folder).iterdir()
        (info,) = tree.glob("*.dist-info")
        texts = info / "licenses" / "libraries"
        texts.mkdir(parents=True)
        packages = debian_packages(sorted(tree.glob("headrace.libs/*")))
        for package in packages:
            shutil.copy(COPYRIGHT / package / "copyright", texts / f"{package}.txt")
        for package, (_, licence) in built.items():
            shutil.copy(licence, texts / f"{package}.txt")
        add_components(info / "sboms" / "auditwheel.cdx.json", built)
        wheel.unlink()
        run(sys.executable, "-m", "wheel", "pack", "-d", wheel.parent, tree)
    return sorted({*packages, *built})


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
    libraries = None if args.cross else make_libraries.build()
    if args.cross:
        machine, root = cross_machine(args.cross)
        folders = [f"{root}/{top}/{machine}-linux-gnu" for top in ("usr/lib", "lib")]
        audit = ["--ldpaths", os.pathsep.join(folders)]
    args.dist.mkdir(exist_ok=True)
    for old in args.dist.glob("headrace-*.whl"):
        old.unlink()
    with tempfile.TemporaryDirectory() as folder:
        wheel = build(Path(folder), libraries, args.cross, machine)
        own = {"LD_LIBRARY_PATH": str(libraries / "lib")} if libraries else None
        run("auditwheel", "repair", *audit, "-w", args.dist, wheel, env=own)
    wheel = one(args.dist, "headrace-*.whl")
    packages = add_licences(wheel, built_libraries(libraries))
    wheel = one(args.dist, "headrace-*.whl")
    run("abi3audit", "--strict", wheel)
    print(f"{shown(wheel)}\n{wheel.stat().st_size / 1e6:.1f} MB, with {', '.join(packages)}")
    if libraries:
        print("made here:", ", ".join((libraries / "versions").read_text().splitlines()))


if __name__ == "__main__":
    main()
