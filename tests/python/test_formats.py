"""Every format has all parts of docs/adding-a-format.md; the check names a missing part."""

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "check_format.py"
spec = importlib.util.spec_from_file_location("check_format", SCRIPT)
check_format = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check_format)
FORMATS = check_format.formats()


def test_all_formats_are_found():
    listed = check_format.re.findall(
        r"^ +FORMAT\((\w+)\)", check_format.read(check_format.ROOT / "src/format/format.h"), check_format.re.M
    )
    assert sorted(f.variable.removeprefix("hr__format_") for f in FORMATS) == sorted(listed)


@pytest.mark.parametrize("form", FORMATS, ids=lambda f: f.name)
def test_nothing_is_missing(form):
    assert check_format.missing(form) == []


def test_exceptions_are_needed():
    assert check_format.stale() == []


@pytest.mark.parametrize("place", check_format.PLACES)
def test_a_format_that_is_nowhere_lacks_each_place(place, tmp_path):
    if place in ("test of the writer", "writer in Python"):
        table = "    .create = nothing,\n"
    else:
        table = ""
    path = check_format.ROOT / "src/format/no.c"
    if place == "compressed files":
        path = tmp_path / "no.c"
        path.write_text("codec = hr__codec_guess(name, head);\n")
    nowhere = check_format.Format("nosuch", "hr__format_nosuch", path, table)
    assert check_format.PLACES[place](nowhere)
