"""docs/c-api.md is what docs/make_reference.py makes of include/headrace.h."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_reference_is_fresh():
    made = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "make_reference.py"), "--print"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    page = (ROOT / "docs" / "c-api.md").read_text()
    assert made.rstrip("\n") == page.rstrip("\n"), "run `make docs`"


def test_reference_has_every_function():
    header = re.sub(r"/\*.*?\*/", "", (ROOT / "include" / "headrace.h").read_text(), flags=re.S)
    page = (ROOT / "docs" / "c-api.md").read_text()
    names = set(re.findall(r"^HR_API[^;]*?\b(hr_\w+)\(", header, flags=re.M))
    shown = set(re.findall(r"\b(hr_\w+)\(", "".join(re.findall(r"```c\n(.*?)```", page, flags=re.S))))
    assert len(names) > 100 and names - shown == set()
