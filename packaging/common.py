"""What the scripts of packaging/ share."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
VERSIONS = ("3.11", "3.12", "3.13", "3.14")  # of Python, oldest first


def run(*command, env=None, **more):
    """Runs a program and returns what it prints; if it fails, prints all of that and exits.

    Programs of this virtual environment are found first. env: variables beside those of this process.
    """
    folder = str(Path(sys.executable).parent)
    env = os.environ | {"PATH": folder + os.pathsep + os.environ["PATH"]} | (env or {})
    done = subprocess.run(list(map(str, command)), env=env, text=True, capture_output=True, **more)
    if done.returncode:
        line = " ".join(map(str, command))
        sys.exit(f"{line}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def one(folder, pattern):
    """The one file of a folder that a pattern names."""
    found = sorted(Path(folder).glob(pattern))
    if len(found) != 1:
        names = ", ".join(f.name for f in found) or "none"
        sys.exit(f"{folder}: expected one file {pattern}, found {names}")
    return found[0]


def shown(path):
    """A path as one reads it: from the current folder, if it is in it."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def interpreters():
    """Each Python from 3.11 on that is on PATH and runs."""
    for version in VERSIONS:
        found = shutil.which(f"python{version}")
        if found and subprocess.run([found, "--version"], capture_output=True).returncode == 0:
            yield found


def version():
    """The version that meson.build names."""
    return re.search(r"^  version: '(.*)',$", (ROOT / "meson.build").read_text(), re.M)[1]
