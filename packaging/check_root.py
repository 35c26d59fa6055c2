"""Runs the README's example from the wheel of dist/ in a small Debian, without compiler and -dev packages.

    python packaging/check_root.py [--suite bookworm] [--root FOLDER]

It needs root, debootstrap and a network; FOLDER keeps the system for the next time, or is one that exists.

1. debootstrap makes a system of the least packages and python3-venv. It has no compiler, no header, and none
   of the libraries that the wheel brings.
2. pip installs headrace[pyarrow,torch] there, without an index.
3. An ordinary user without a network runs the Python lines of the README, the example that trains on two
   ranks, and the command. The engine loads no library of the system but glibc's and zlib.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from common import DIST, ROOT, one, run

# Of glibc, and zlib, which manylinux wheels take from the system.
ALLOWED = re.compile(r"/(ld-linux|lib(c|m|z|dl|rt|pthread|util)\.so)")
TOOLS = ("cc", "gcc", "clang", "ld", "make", "pkg-config")
SHAPES = """
print("the README's lines:", tuple(image.shape), image.dtype, tuple(label.shape), label.dtype)
"""
# What an import of the engine maps beside the interpreter's own files.
MAPPED = """
import typing

def mapped():
    return {line.split()[-1] for line in open("/proc/self/maps") if ".so" in line}

before = mapped()
import headrace._core
print(*sorted(p for p in mapped() - before if not p.startswith("/opt/headrace/") and "/python3" not in p))
"""
# Mounts, processes and a network of its own, as in a container; the network is the loop device.
INSIDE = """
set -e
mount -t proc proc "$1/proc"
mount -t tmpfs -o mode=1777 tmp "$1/tmp"
mkdir -p "$1/dev/shm" && mount -t tmpfs -o mode=1777 shm "$1/dev/shm"
"$2" -c "$3"
root=$1; shift 3
path=PATH=/opt/headrace/bin:/usr/bin:/bin
exec chroot --userspec=nobody:nogroup "$root" /usr/bin/env -i $path HOME=/tmp "$@"
"""
LOOP_UP = """
import fcntl, socket, struct
fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sH14x", b"lo", 0x41))  # SIOCSIFFLAGS: up, running
"""


def in_root(root, *command):
    """What a program prints that an ordinary user runs in the root, without a network, in /tmp."""
    own = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--net"]
    return run(*own, "sh", "-c", INSIDE, "sh", root, sys.executable, LOOP_UP, *command)


def make_root(root, suite):
    if not (root / "usr" / "bin" / "python3").exists():
        print(f"debootstrap {suite}", flush=True)
        run("debootstrap", "--variant=minbase", "--include=python3-venv", suite, root)
    bare = ["chroot", root, "/usr/bin/env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"]
    for tool in TOOLS:
        if subprocess.run([*bare, "which", tool], capture_output=True).returncode == 0:
            sys.exit(f"{root}: there is {tool}; expected a system without a compiler")
    headers = list((root / "usr" / "include").rglob("*.h"))
    if headers:
        sys.exit(f"{root}: there is {headers[0]}; expected a system without -dev packages")
    hosts = root / "etc" / "hosts"
    if not hosts.exists():  # every container has one
        hosts.write_text("127.0.0.1 localhost\n")
    packages = run(*bare, "dpkg-query", "-W", "-f", "${Package}\\n").split()
    glibc = run(*bare, "dpkg-query", "-W", "-f", "${Version}", "libc6")
    python = run(*bare, "python3", "--version").split()[1]
    print(f"{root.name}: {len(packages)} packages, glibc {glibc}, Python {python}", flush=True)
    return python.rpartition(".")[0]


def install(root, wheel, python):
    """A virtual environment /opt/headrace in the root; pip has no index there."""
    host = shutil.which(f"python{python}")
    if not host:
        sys.exit(f"python{python} is missing: it downloads the wheels for the root")
    wheels = root / "opt" / "wheels"
    shutil.rmtree(wheels, ignore_errors=True)
    shutil.rmtree(root / "opt" / "headrace", ignore_errors=True)
    wheels.mkdir(parents=True)
    pins = wheels / "constraints.txt"  # which may not have extras
    pins.write_text(re.sub(r"\[.*?\]", "", (ROOT / "requirements" / "dev.txt").read_text()))
    pip = [host, "-m", "pip", "download", "-q", "-c", pins]
    run(
        *pip, "--only-binary", ":all:", "-d", wheels, f"headrace[pyarrow,torch] @ {wheel.absolute().as_uri()}"
    )
    bare = ["chroot", root, "/usr/bin/env", "-i", "PATH=/usr/bin:/bin"]
    run(*bare, "python3", "-m", "venv", "/opt/headrace")
    pip = [*bare, "/opt/headrace/bin/python", "-m", "pip", "-q", "install", "--no-index"]
    run(*pip, "--find-links", "/opt/wheels", "headrace[pyarrow,torch]")
    shutil.rmtree(wheels)


def copy_examples(root):
    """The README's Python lines and the examples, in /srv."""
    place = root / "srv"
    shutil.rmtree(place / "examples", ignore_errors=True)
    shutil.copytree(
        ROOT / "examples", place / "examples", ignore=shutil.ignore_patterns("full", "__pycache__")
    )
    (lines,) = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.M | re.S)
    (place / "readme.py").write_text(lines + SHAPES)


def check(root):
    there = ["sh", "-c", 'cp -r /srv/* /tmp && cd /tmp && exec "$@"', "sh"]
    print(in_root(root, *there, "python", "readme.py").strip(), flush=True)
    mapped = in_root(root, *there, "python", "-c", MAPPED).split()
    strange = [path for path in mapped if not ALLOWED.search(path)]
    if strange:
        sys.exit(f"the engine loads libraries of the system: {', '.join(strange)}")
    print(
        f"libraries of the system that the engine loads: {', '.join(Path(p).name for p in mapped) or 'none'}"
    )
    version = in_root(root, *there, "headrace", "--version").strip()
    counted = in_root(root, *there, "headrace", "count", "examples/data/fashion_mnist_train.parquet")
    if counted != "10000\n":
        sys.exit(f"headrace count: expected 10000, found {counted}")
    print(version, flush=True)
    print(in_root(root, *there, "python", "examples/train_fashion_mnist.py").strip())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--suite", default="bookworm", help="the release of Debian")
    parser.add_argument("--root", type=Path, help="the system's folder, kept")
    parser.add_argument("--dist", type=Path, default=DIST, help="the folder of the wheel")
    args = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("check_root.py: expected to run as root: chroot and debootstrap are root's")
    for program in ("debootstrap", "chroot", "unshare"):
        if not shutil.which(program):
            sys.exit(f"check_root.py: {program} is missing: apt-get install debootstrap util-linux")
    wheel = one(args.dist, "headrace-*.whl")
    with tempfile.TemporaryDirectory() as folder:
        root = (args.root or Path(folder) / args.suite).absolute()
        python = make_root(root, args.suite)
        install(root, wheel, python)
        copy_examples(root)
        check(root)


if __name__ == "__main__":
    main()
