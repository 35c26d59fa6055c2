"""Type checkers over programs of users: mypy and pyright find nothing in tests/typing/right and every mistake
in tests/typing/wrong.py; no name of the public interface lacks a type.
"""

import importlib
import json
import os
import re
import subprocess
import sys
import venv
from pathlib import Path

import numpy
import pytest

import headrace
from headrace.data import context

PROGRAMS = Path(__file__).parents[1] / "typing"
RIGHT = sorted(p.stem for p in (PROGRAMS / "right").glob("*.py"))
MODULES = [
    "headrace",
    "headrace.data",
    *(f"headrace.data.{m}" for m in ("aggregate", "collate_fn", "datasource", "expressions")),
    *(f"headrace.data.{m}" for m in ("preprocessor", "preprocessors")),
    *(f"headrace.{m}" for m in ("torch", "observe", "train", "train.collective", "train.torch")),
    "headrace.tune",
]


def run(*command, prefix=sys.prefix):
    """A checker that sees the packages of the environment in `prefix`."""
    path = os.pathsep.join([f"{prefix}/bin", f"{sys.prefix}/bin", os.environ["PATH"]])
    env = {**os.environ, "PATH": path, "VIRTUAL_ENV": str(prefix), "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    return subprocess.run([sys.executable, "-m", *command], env=env, capture_output=True, text=True)


def errors(checker, cache):
    """{file: {line: message}}, of all programs."""
    pytest.importorskip(checker)
    command = ["pyright", "--pythonpath", sys.executable]
    if checker == "mypy":
        few = cache / "mypy.ini"  # torch has 1,400 files, and pyright reads what it needs of them
        few.write_text("[mypy]\nignore_missing_imports = true\n[mypy-torch.*]\nfollow_imports = skip\n")
        command = ["mypy", "--config-file", str(few), "--cache-dir", str(cache)]
    done = run(*command, *map(str, [PROGRAMS / "wrong.py", *(PROGRAMS / "right").glob("*.py")]))
    found = {}
    for line in done.stdout.splitlines():
        if m := re.match(r"\s*(\S+\.py):(\d+)(?::\d+)?(?: -|:) error", line):
            found.setdefault(Path(m[1]).name, {})[int(m[2])] = line
    assert found, done.stdout + done.stderr
    return found


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_mistakes_are_marked_and_nothing_else(checker, tmp_path):
    found = errors(checker, tmp_path)
    marked = found.pop("wrong.py")
    assert found == {}
    lines = (PROGRAMS / "wrong.py").read_text().splitlines()
    wrong = {n: line for n, line in enumerate(lines, 1) if line.endswith("# wrong")}
    assert len(wrong) >= 50
    assert [line for n, line in wrong.items() if n not in marked] == []
    assert [line for n, line in marked.items() if n not in wrong] == []


@pytest.mark.parametrize("name", RIGHT)
def test_right_programs_run(name, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(PROGRAMS / "right"))
    importlib.import_module(name).main(tmp_path)


def environment_of_few(folder):
    """NumPy, Headrace and a few classes of torch: verifytypes reads all that imports reach."""
    venv.create(folder)
    (packages,) = folder.glob("lib/python*/site-packages")
    few = [Path(headrace.__file__).parent, Path(numpy.__file__).parent, PROGRAMS / "few" / "torch"]
    for package in few:
        (packages / package.name).symlink_to(package)
    return folder


def test_the_public_interface_has_types(tmp_path):
    pytest.importorskip("pyright")
    command = ["pyright", "--verifytypes", "headrace", "--ignoreexternal", "--outputjson"]
    report = run(*command, prefix=environment_of_few(tmp_path)).stdout
    public = set()
    for module in map(importlib.import_module, MODULES):
        names = getattr(module, "__all__", None) or [name for name in vars(module) if name[0] != "_"]
        for value in (getattr(module, name, None) for name in names):
            if getattr(value, "__module__", "").startswith("headrace") and hasattr(value, "__qualname__"):
                public.add(f"{value.__module__}.{value.__qualname__}")
    assert len(public) > 150
    symbols = [
        s
        for s in json.loads(report)["typeCompleteness"]["symbols"]
        if any(f"{s['name']}.".startswith(f"{p}.") for p in public)
    ]
    assert len(symbols) > 1000
    unknown = [(s["name"], [d["message"] for d in s["diagnostics"]]) for s in symbols if not s["isTypeKnown"]]
    assert unknown == []


def test_types_of_settings_are_those_that_the_context_checks():
    """One line of context_types.py for each setting."""
    types = {"bool": "bool", "int": "int", "count": "int", "float": "float", "str": "str", "None": "None"}
    types |= {"texts": "Sequence[str]", "list": "Sequence[Any]", "dict": "dict[str, Any]"}
    types |= {"path": "str | os.PathLike[str]"}
    kinds = {name: kind for name, (_, kind) in context._FIELDS.items()}
    kinds |= {name: kinds[other] for name, other in context.ALIASES.items()}
    want = {
        name: "Any" if kind == "any" else " | ".join(types[k] for k in kind.split("|"))
        for name, kind in kinds.items()
    }
    text = Path(context.__file__).with_name("context_types.py").read_text()
    assert dict(re.findall(r"^    (\w+): ([^#\n]*?)(?:  #.*)?$", text, re.M)) == want
