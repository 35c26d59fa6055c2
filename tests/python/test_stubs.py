"""_core.pyi describes headrace._core: the same classes, functions, methods and attributes."""

import ast
from pathlib import Path

import headrace
from headrace import _core

STUB = ast.parse((Path(headrace.__file__).parent / "_core.pyi").read_text())


def members(node):
    for part in node.body:
        if isinstance(part, ast.FunctionDef):
            yield part.name
        elif isinstance(part, ast.AnnAssign):
            yield part.target.id


def test_every_name_is_there():
    said = {n.name: n for n in STUB.body if isinstance(n, (ast.ClassDef, ast.FunctionDef))}
    real = {name for name in vars(_core) if not name.startswith("__")}
    assert set(said) == real
    for name, node in said.items():
        if isinstance(node, ast.FunctionDef) or issubclass(getattr(_core, name), Exception):
            continue
        own = {m for m in vars(getattr(_core, name)) if not m.startswith("_")}
        assert {m for m in members(node) if not m.startswith("_")} == own, name


def test_exceptions_have_the_bases_that_are_said():
    for node in STUB.body:
        if isinstance(node, ast.ClassDef) and node.name.endswith(("Error", "Argument")):
            bases = [b.__name__ for b in getattr(_core, node.name).__bases__]
            assert bases == [b.id for b in node.bases], node.name
