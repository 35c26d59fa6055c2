"""The environment variables: one page, refused alike by Python and the command, unknown ones warned of."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.data import environment

ROOT = Path(__file__).resolve().parent.parent.parent
ASKS = "import headrace.data as hd; print(hd.range(3).count(), hd.DataContext.get_current().num_threads)"


def run(arguments, **variables):
    env = {k: v for k, v in os.environ.items() if not k.startswith("HEADRACE_")} | variables
    return subprocess.run(arguments, capture_output=True, text=True, timeout=60, env=env)


def python(**variables):
    return run([sys.executable, "-c", ASKS], **variables)


def command(**variables):
    return run([sys.executable, "-m", "headrace", "count", os.devnull], **variables)


@pytest.mark.parametrize(
    "name, value",
    [
        ("HEADRACE_NUM_THREADS", "many"),
        ("HEADRACE_NUM_THREADS", "0"),
        ("HEADRACE_NUM_THREADS", "2000"),
        ("HEADRACE_NETWORK_THREADS", "few"),
        ("HEADRACE_NETWORK_THREADS", "0"),
        ("HEADRACE_NETWORK_THREADS", "10"),
        ("HEADRACE_MEMORY_LIMIT", "12 parsecs"),
        ("HEADRACE_SPILL_QUOTA", "a lot"),
        ("HEADRACE_CACHE_SIZE", "a lot"),
        ("HEADRACE_PROGRESS", "yes"),
        ("HEADRACE_PROGRESS", "0"),
        ("HEADRACE_PROGRESS", "0.5"),
        ("HEADRACE_AUTOTUNE", "maybe"),
        ("HEADRACE_SHARE_CREDENTIALS", "maybe"),
        ("HEADRACE_STALL_TIMEOUT", "-2"),
        ("HEADRACE_STALL_WARNING", "10s"),
        ("HEADRACE_STALL_WARNING", "1.5.0"),
        ("HEADRACE_STALL_WARNING", "nan"),
    ],
)
def test_wrong_values_are_refused_alike(name, value):
    """The story: the command took a wrong HEADRACE_STALL_TIMEOUT as none, and would have waited for ever."""
    found = python(**{name: value})
    assert found.returncode == 1
    last = found.stderr.strip().splitlines()[-1]
    assert "InvalidArgument" in last and name in last and value in last
    found = command(**{name: value})
    assert found.returncode == 1 and name in found.stderr and value in found.stderr


def test_right_values():
    found = python(HEADRACE_NUM_THREADS="3", HEADRACE_MEMORY_LIMIT="64MiB", HEADRACE_SPILL_QUOTA="")
    assert (found.stdout, found.stderr) == ("3 3\n", "")
    for seconds in ("0", "2.5", "10.", ""):
        assert "STALL" not in command(HEADRACE_STALL_WARNING=seconds, HEADRACE_STALL_TIMEOUT=seconds).stderr


@pytest.mark.parametrize(
    "name, like",
    [
        ("HEADRACE_MEMORY_LIMT", "HEADRACE_MEMORY_LIMIT"),
        ("HEADRACE_THREADS", "HEADRACE_NUM_THREADS"),
        ("HEADRACE_Q", None),
    ],
)
def test_unknown_names_are_warned_of_once(name, like):
    for found in (python(**{name: "1"}), command(**{name: "1"})):
        assert found.stderr.count(f"{name}: Headrace has no such environment variable") == 1
        asked = re.findall(r"did you mean '(\w+)'\?", found.stderr)
        assert asked == ([like] if like else []) or (like is None and found.stderr)
    assert python(**{name: "1"}).returncode == 0


def test_the_page_and_the_command_have_all():
    page = set(re.findall(r"HEADRACE_[A-Z_]+", (ROOT / "docs" / "environment.md").read_text("utf-8")))
    assert page - {"HEADRACE_", "HEADRACE_MEMORY_LIMT"} == set(environment.KNOWN)
    listed = (ROOT / "src" / "cli" / "environment.c").read_text("utf-8")
    listed = set(re.findall(r'"(HEADRACE_[A-Z_]+)"', listed[: listed.index("#define N_KNOWN")]))
    assert listed - {"HEADRACE_"} == set(environment.KNOWN) | set(environment.OF_TESTS)


def test_no_variable_is_forgotten():
    """Every name that the package or the engine reads is known."""
    read = set()
    for folder, kind in (("python/headrace", "*.py"), ("src", "*.c")):
        for path in (ROOT / folder).rglob(kind):
            text = path.read_text("utf-8")
            read.update(
                re.findall(r'(?:getenv\(|environ\.get\(|environ\[|env, |env\.get\()"(HEADRACE_\w+)"', text)
            )
    assert len(read) > 8 and read <= set(environment.KNOWN)
