"""Every format has all parts of docs/adding-a-format.md; the check names a missing part."""

import importlib.util
from pathlib import Path

import pytest


def script(name):
    spec = importlib.util.spec_from_file_location(name, Path(__file__).resolve().parents[1] / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


check_format = script("check_format")
area = script("area")
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


@pytest.mark.parametrize("form", FORMATS, ids=lambda f: f.name)
def test_quick_finds_the_tests_of_a_format_by_each_name(form):
    tests = {p.stem.removeprefix("test_") for p in form.c_tests()}
    for name in (form.name, form.path.stem, form.path.parent.name):
        found = area.tests_of(name, FORMATS)
        if found["c_tests"][0] != "--suite":  # image is a folder of src/ as well
            assert tests <= set(found["c_tests"]) and "writers" in found["c_tests"]
        assert found["cases"] and form.name in found["words"].split(" or ")
        assert all((area.ROOT / path).exists() for path in [*found["py_tests"], *found["cases"]])


def test_quick_finds_folders_and_words():
    assert area.tests_of("data", FORMATS)["c_tests"] == ["--suite", "data"]
    assert area.tests_of("plan", FORMATS)["c_tests"] == ["plan"]
    assert area.tests_of("split", FORMATS)["py_tests"] == ["tests/python/test_splits.py"]
    assert area.tests_of("tfrecords", FORMATS)["corpora"] == ["tfrecord"]
    assert area.tests_of("nosuch", FORMATS)["c_tests"] == []
