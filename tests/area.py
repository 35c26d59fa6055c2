"""Names the tests of an area, for `make quick AREA=csv`: `area.py csv` prints them as shell variables.

An area is a folder of src/ (which wins), a word in the names of tests, or a format by any of its names: the
format's, its file's, its folder's.
"""

import importlib.util
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
# Where each format has a case with its name.
CASES = ["test_reader_arguments.py", "test_memory_formats.py", "test_corruption_formats.py"]


def formats():
    spec = importlib.util.spec_from_file_location("check_format", HERE / "check_format.py")
    check_format = importlib.util.module_from_spec(spec)
    sys.modules["check_format"] = check_format  # for its dataclass
    spec.loader.exec_module(check_format)
    return check_format.formats()


def named(folder, words, suffix):
    """Tests with one of the words in their names, or a word that begins so."""
    begin = re.compile("_(" + "|".join(map(re.escape, sorted(words))) + ")")
    return {p for p in folder.glob(f"test_*{suffix}") if begin.search(p.stem)}


def tests_of(area, known=None):
    """Words for meson, corpora, files for pytest, and the words of cases in CASES."""
    chosen = [f for f in known or formats() if area in (f.name, f.path.stem, f.path.parent.name)]
    words = {area} | {word for f in chosen for word in (f.name, f.path.stem)}
    corpora = {word for word in words if (ROOT / "fuzz" / "corpus" / word).is_dir()}
    suites = re.findall(r"^  '(\w+)': \[", (HERE / "meson.build").read_text(encoding="utf-8"), re.MULTILINE)
    if area in suites:
        c_tests = ["--suite", area]
    else:
        files = named(HERE, words, ".c") | {p for f in chosen for p in f.c_tests()}
        c_tests = sorted(p.stem.removeprefix("test_") for p in files)
        c_tests += ["writers"] if chosen and "writers" not in c_tests else []
    for f in chosen:
        corpora |= {p.stem.removeprefix("fuzz_") for p in f.fuzz_targets()}
    py_files = sorted(named(HERE / "python", words, ".py"))
    return {
        "c_tests": c_tests,
        "corpora": sorted(c for c in corpora if (ROOT / "fuzz" / "corpus" / c).is_dir()),
        "py_tests": [str(p.relative_to(ROOT)) for p in py_files],
        "cases": [f"tests/python/{name}" for name in CASES] if chosen else [],
        "words": " or ".join(sorted(f.name for f in chosen)),
    }


if __name__ == "__main__":
    for key, value in tests_of(sys.argv[1]).items():
        print(f"{key}='{value if isinstance(value, str) else ' '.join(value)}'")
