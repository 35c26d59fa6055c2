"""Runs the headrace command as a person and a shell script do."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("HEADRACE_BUILD", ROOT / "build" / "release"))
COMMAND = BUILD / "src" / "cli" / "headrace"
MISSING = not COMMAND.exists()

COMMANDS = (
    "schema",
    "head",
    "count",
    "stat",
    "convert",
    "sort",
    "shuffle",
    "sample",
    "group",
    "distinct",
    "explode",
    "ls",
    "clean",
    "formats",
    "functions",
    "completion",
)


def environment(**more):
    """Of a process without our own variables and colours, but for `more`."""
    own = ("NO_COLOR", "CLICOLOR_FORCE")
    return {k: v for k, v in os.environ.items() if not k.startswith("HEADRACE_") and k not in own} | more


def headrace(*args, status=0, given=None, warns=False, **env):
    """(standard output, standard error) of a run that ends with `status`; `given`: bytes for its standard
    input. Standard output is text if it is UTF-8. warns: standard error may have any lines.
    """
    words = [COMMAND, *map(str, args)]
    done = subprocess.run(words, capture_output=True, input=given, timeout=120, env=environment(**env))
    error = done.stderr.decode()
    assert done.returncode == status, done
    if warns:
        assert error.startswith("headrace"), error
    elif status:
        assert error.count("\n") == 1 and error.endswith("\n"), error
        assert error.startswith("headrace"), error
    else:
        assert error == ""
    try:
        return done.stdout.decode(), error
    except UnicodeDecodeError:
        return done.stdout, error
