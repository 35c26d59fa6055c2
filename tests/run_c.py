"""Runs the C tests of a build folder: `run_c.py build/asan -t 3` gives `meson test` what follows the folder.

A test that fails beside others runs once more, alone: a machine that stands still for a second fails what
waits for a server or a thread. Both outputs are printed. What a sanitizer reports, a signal ends or the time
ends is a fault at the first time; so are more than MOST_AGAIN tests.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

MOST_AGAIN = 3
SANITIZER = re.compile(r"(Address|Leak|Thread|Memory|UndefinedBehavior)Sanitizer|: runtime error: ")


def failed(folder):
    """What meson wrote of each test that failed, of its newest run."""
    log = max(folder.glob("meson-logs/testlog*.json"), key=lambda p: p.stat().st_mtime)
    tests = [json.loads(line) for line in log.read_text().splitlines()]
    return [t for t in tests if t["result"] not in ("OK", "SKIP", "EXPECTEDFAIL")]


def may_run_again(test):
    said = test.get("stdout", "") + test.get("stderr", "")
    return test["result"] == "FAIL" and test["returncode"] > 0 and not SANITIZER.search(said)


def main(folder, *options):
    meson = ["meson", "test", "-C", folder, "--no-rebuild", "--print-errorlogs", *options]
    status = subprocess.run(meson).returncode
    if status <= 0:
        return status
    tests = failed(Path(folder))
    if not tests or len(tests) > MOST_AGAIN or not all(map(may_run_again, tests)):
        return status
    # "headrace:io - headrace:http" in the log is "headrace:http" for meson.
    names = [t["name"].split(" - ")[-1].strip() for t in tests]
    print(f"\033[1m==> C tests: those that failed, alone: {', '.join(names)}\033[0m", flush=True)
    return subprocess.run([*meson, "--num-processes", "1", *names]).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
