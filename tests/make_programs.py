"""Writes tests/programs/expected.json: what the programs of that folder print on Ray.

    python tests/make_programs.py PYTHON [NAME ...]

PYTHON: an interpreter with ray[data,train] and what the programs import. NAME: only these programs.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"
EXPECTED = PROGRAMS / "expected.json"


def names():
    return sorted(path.stem for path in PROGRAMS.glob("*.py"))


def run(python, text, limit_s):
    """What the program `text` prints on its last line, as JSON, and the seconds that it took."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "program.py"
        program.write_text(text)
        data = Path(folder) / "data"
        data.mkdir()
        began = time.monotonic()
        done = subprocess.run(
            [python, program, data], cwd=folder, capture_output=True, text=True, timeout=limit_s
        )
        if done.returncode:
            raise AssertionError(f"status {done.returncode}\n{done.stdout}\n{done.stderr}")
        return json.loads(done.stdout.splitlines()[-1]), time.monotonic() - began


def main(python, *only):
    expected = json.loads(EXPECTED.read_text()) if EXPECTED.exists() else {}
    for name in only or names():
        expected[name], seconds = run(python, (PROGRAMS / f"{name}.py").read_text(), 300)
        print(f"{name}: {seconds:.1f} s", file=sys.stderr)
    lines = [f"  {json.dumps(name)}: {json.dumps(expected[name])}" for name in sorted(expected)]
    EXPECTED.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
