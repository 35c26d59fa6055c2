"""What `meson install` leaves serves a C program that knows nothing but pkg-config."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("HEADRACE_BUILD", ROOT / "build" / "release"))
PROGRAM = """
#include <headrace.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    char made[32];

    puts(hr_version());
    snprintf(made, sizeof made, "%d.%d.%d", HR_VERSION_MAJOR, HR_VERSION_MINOR, HR_VERSION_PATCH);
    return strcmp(hr_version(), made) != 0;
}
"""

pytestmark = pytest.mark.skipif(
    not (BUILD / "build.ninja").exists() or not shutil.which("pkg-config"),
    reason="needs build/release (make lib) and pkg-config",
)


def run(*args, **env):
    """Standard output of a command that has to succeed."""
    return subprocess.run(
        [str(a) for a in args], check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, **env}
    ).stdout


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    """Folder that stands for / after `meson install`."""
    at = tmp_path_factory.mktemp("stage")
    meson = shutil.which("meson", path=f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}")
    run(meson, "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", at)
    return at


@pytest.mark.parametrize("kind", ["shared", "static"])
def test_a_c_program(stage, tmp_path, kind):
    (pc,) = stage.rglob("headrace.pc")
    env = {"PKG_CONFIG_PATH": str(pc.parent), "PKG_CONFIG_SYSROOT_DIR": str(stage)}
    flags = run(
        "pkg-config", "--cflags", "--libs", *(["--static"] if kind == "static" else []), "headrace", **env
    )
    flags = flags.split()
    (library,) = stage.rglob("libheadrace.a" if kind == "static" else "libheadrace.so")
    if kind == "static":
        flags = [str(library) if f == "-lheadrace" else f for f in flags]

    source = tmp_path / "program.c"
    source.write_text(PROGRAM)
    strict = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    run(os.environ.get("CC", "cc"), *strict, source, "-o", tmp_path / "program", *flags)
    version = re.search(r"^  version: '(.*)',$", (ROOT / "meson.build").read_text(), re.M)[1]
    assert run(tmp_path / "program", LD_LIBRARY_PATH=str(library.parent)) == f"{version}\n"


def test_what_is_installed(stage):
    names = {p.name for p in stage.rglob("*") if not p.is_dir()}
    assert {"headrace.h", "headrace.pc", "libheadrace.a", "libheadrace.so", "libheadrace.so.0"} <= names
    assert not any(n.startswith("test_") or "engine" in n for n in names)
