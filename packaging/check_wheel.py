"""Installs the wheel of dist/ in empty environments and tries it there.

    python packaging/check_wheel.py [--python PATH ...]

It takes each Python from 3.11 on that is on PATH. The environments have no compiler, and pip installs
without an index, from a folder with the wheel and what it depends on. Each environment reads and writes
Parquet with each codec, decodes a JPEG, runs a function in a worker process, reads a URL if the wheel has
libcurl, and calls the command. Prints a line for each Python.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from common import DIST, interpreters, one

# Of glibc, and what manylinux wheels may take from the system beside it.
ALLOWED = {"libc.so.6", "libm.so.6", "libpthread.so.0", "librt.so.1", "libdl.so.2", "ld-linux-x86-64.so.2"}
ALLOWED |= {"ld-linux-aarch64.so.1", "libz.so.1"}

TRY = """
import base64, functools, http.server, os, subprocess, sys, tempfile, threading
import headrace, headrace.data as hd

JPEG = base64.b64decode(  # 8 x 8 grey pixels
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAP" + "/" * 86 + "wAALCAAIAAgBAREA/8QAFAAB"
    "AAAAAAAAAAAAAAAAAAAAAP/EABQQAQAAAAAAAAAAAAAAAAAAAAD/2gAIAQEAAD8AP//Z"
)
folder = tempfile.mkdtemp()
rows = hd.range(1000).map_batches(lambda b: {"id": b["id"], "x": b["id"] * 2})
for codec in ("zstd", "snappy", "gzip", "brotli", "lz4"):
    rows.write_parquet(f"{folder}/{codec}", compression=codec)
    assert hd.read_parquet(f"{folder}/{codec}").sum("x") == 999000, codec
with open(f"{folder}/a.jpg", "wb") as f:
    f.write(JPEG)
assert hd.read_images(f"{folder}/a.jpg").take(1)[0]["image"].shape == (8, 8)
if "--urls" in sys.argv:
    quiet = type("Quiet", (http.server.SimpleHTTPRequestHandler,), {"log_message": lambda *args: None})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(quiet, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    (name,) = os.listdir(f"{folder}/zstd")
    url = f"http://127.0.0.1:{server.server_port}/zstd/{name}"
    assert hd.read_parquet(url).sum("x") == 999000
    try:
        hd.read_parquet(url.replace("http:", "https:"), storage_options={"max_retries": 0}).count()
        raise AssertionError("TLS with a server that does not speak it")
    except OSError as error:
        assert "SSL" in str(error), error
command = os.path.join(os.path.dirname(sys.executable), "headrace")
done = subprocess.run([command, "count", f"{folder}/zstd"], capture_output=True, text=True)
assert done.stdout == "1000\\n", done
print(headrace.__version__, headrace._core.__file__)
"""


def check(python, wheel, folder):
    """What is printed for a Python: its version, and the libraries that are not the wheel's own."""
    place = folder / Path(python).name
    subprocess.run([python, "-m", "venv", place], check=True)
    inside = str(place / "bin" / "python")
    pip = [inside, "-m", "pip", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, "download", "--only-binary", ":all:", "-d", place / "wheels", wheel], check=True)
    env = {"PATH": str(place / "bin"), "HOME": str(folder), "TMPDIR": str(folder)}
    subprocess.run(
        [*pip, "install", "--no-index", "--find-links", place / "wheels", "headrace"], check=True, env=env
    )
    script = place / "try.py"
    script.write_text(TRY)
    urls = ["--urls"] if any("libcurl" in name for name in zipfile.ZipFile(wheel).namelist()) else []
    done = subprocess.run([inside, script, *urls], env=env, capture_output=True, text=True, cwd=folder)
    if done.returncode:
        sys.exit(f"{python}: {done.stdout}{done.stderr}")
    version, module = done.stdout.split()
    others = needed(module, place)
    if others - ALLOWED:
        sys.exit(f"{python}: the module needs libraries of the system: {', '.join(sorted(others - ALLOWED))}")
    return (
        f"{Path(python).name}: headrace {version} works; of the system it needs {', '.join(sorted(others))}"
    )


def needed(module, place):
    """The libraries that a module needs from outside the environment."""
    lines = subprocess.run(["ldd", module], check=True, capture_output=True, text=True).stdout.splitlines()
    return {Path(line.split()[0]).name for line in lines if str(place) not in line and "vdso" not in line}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", nargs="*", help="interpreters (those of PATH, from 3.11 on)")
    parser.add_argument("--dist", type=Path, default=DIST, help="the folder of the wheel")
    args = parser.parse_args()
    wheel = one(args.dist, "headrace-*.whl")
    with tempfile.TemporaryDirectory() as folder:
        for python in args.python or interpreters():
            print(check(os.path.abspath(python), wheel, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
