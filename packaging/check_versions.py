"""Runs tests with the oldest packages that are promised (PACKAGES), and with the newest.

    python packaging/check_versions.py [oldest] [newest] [--python PATH]

The oldest are the lower bounds of pyproject.toml. Each set gets a virtual environment without torch, with
the wheel of dist/ and the pytest of requirements/dev.txt. TESTS are those about values that cross the border
to these packages. Not a part of `make test`: five minutes.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from common import DIST, ROOT, interpreters, one, run

PACKAGES = ("numpy", "pandas", "pyarrow", "cloudpickle", "tqdm")
TOOLS = ("pytest", "pytest-timeout", "pytest-xdist", "hypothesis", "psutil")
TESTS = """
    arrow_ipc compute_matrix datasource display functions groupby in_memory iter join map_groups materialize
    no_rows numpy objects padding pack preprocessors summary table types udf union
"""
# Tests that need torch, beside those that have it in their name.
TORCH = "torch or tensors_in_and_out or what_cannot_be_done_with_them or knows_no_intervals"
# What an old pyarrow or pandas cannot do or writes otherwise, where the test compares with it.
DIFFERENT = {
    "test_arrow_ipc": "files_of_pyarrow or no_rows_and_no_columns or streams_of_pyarrow or "
    "written_files_are_read",  # casts to string_view
    "test_display": "rows_that_are_there",  # text of pandas 2 is `string`, of pandas 3 `large_string`
    "test_preprocessors": "test_of_fit and city",  # the same
    "test_types": "what_a_column_is and string",  # the same
    "test_table": "encoded_types_are_decoded or python_objects",  # run ends with nulls; float16 as float
}


def bounds():
    """{package: its lower bound in pyproject.toml}."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [*project["dependencies"], *sum(project["optional-dependencies"].values(), [])]
    found = dict(re.fullmatch(r"(\w+)>=([\d.]+)", r).groups() for r in lines if r.startswith(PACKAGES))
    return {name: found[name] for name in PACKAGES}


def tools():
    """The pinned lines of requirements/dev.txt for TOOLS."""
    lines = (ROOT / "requirements" / "dev.txt").read_text().splitlines()
    return [line for line in lines if line.partition("==")[0] in TOOLS]


def check(which, python, wheel, folder):
    """Installs, runs, prints; the number of tests that failed, as pytest's exit status."""
    wanted = PACKAGES if which == "newest" else [f"{n}=={v}" for n, v in bounds().items()]
    place = folder / which
    run(python, "-m", "venv", place)
    inside = place / "bin" / "python"
    pip = [inside, "-m", "pip", "-q", "--disable-pip-version-check", "install", "--only-binary", ":all:"]
    run(*pip, *wanted, *tools(), wheel)
    frozen = run(inside, "-m", "pip", "list", "--format=freeze")
    print(f"{which}:", *(line for line in frozen.split() if line.startswith(PACKAGES)), flush=True)
    words = TORCH
    if which == "oldest":
        words += "".join(f" or ({file} and ({names}))" for file, names in DIFFERENT.items())
    tests = [f"tests/python/test_{name}.py" for name in TESTS.split()]
    pytest = [inside, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "2", "--dist", "worksteal"]
    pytest += ["-k", f"not ({words})", *tests]
    env = os.environ | {"PATH": f"{place / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run(list(map(str, pytest)), cwd=ROOT, env=env).returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("which", nargs="*", help="oldest or newest (both)")
    parser.add_argument("--python", help="the interpreter (the oldest on PATH, from 3.11 on)")
    parser.add_argument("--dist", type=Path, default=DIST, help="the folder of the wheel")
    args = parser.parse_args()
    wheel = one(args.dist, "headrace-*.whl")
    python = os.path.abspath(args.python or next(interpreters()))
    with tempfile.TemporaryDirectory() as folder:
        failed = [w for w in args.which or ("oldest", "newest") if check(w, python, wheel, Path(folder))]
    if failed:
        sys.exit(f"tests fail with the {' and '.join(failed)} packages")


if __name__ == "__main__":
    main()
