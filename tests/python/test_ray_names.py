"""Every public name of Ray Data and Ray Train is here, or its use says what to do instead, or it is in
tests/ray_missing.txt, which may only become shorter (`python tests/python/ray_names.py --write`).
"""

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import ray_names as names

import headrace.tune
from headrace.absent import ABSENT
from headrace.exceptions import UnsupportedError


@pytest.fixture(scope="module")
def found():
    program = Path(__file__).with_name("ray_names.py")
    done = subprocess.run(
        [sys.executable, str(program), "--json"], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def test_names(found, capsys):
    with capsys.disabled():
        print(f"\nRay's names: {names.counts(found)}")
    missing = {name for name, state in found.items() if state == names.LACKING}
    listed = names.listed()
    assert listed == sorted(set(listed))
    assert missing - set(listed) == set(), "Ray has these; the signature or default differs, or they are gone"
    assert set(listed) - missing == set(), f"these are here now: take them out of {names.MISSING}"


def test_the_list_only_shrinks():
    """Lower the number with the list."""
    assert len(names.listed()) <= 0


def test_reasons_are_used(found):
    other = [name for name, state in found.items() if state == names.OTHER]
    for pattern, reason in names.DIFFERENT.items():
        assert any(names.matches(name, pattern) for name in other), f"{pattern}: nothing differs any more"
        assert reason


def test_absent_names_say_what_to_use(found):
    used = {key for name, state in found.items() if state == names.GONE for key in names.keys_of(name)}
    used.add("headrace.data.llm")  # the list leaves it out, because it needs many packages
    with pytest.raises(ImportError, match=re.escape(ABSENT["headrace.data.llm"])):
        importlib.import_module("headrace.data.llm")
    used.add("headrace.air")  # these two modules are not compared
    with pytest.raises(ImportError, match=r"^headrace\.air: .* headrace\.train"):
        importlib.import_module("headrace.air")
    for name in (n for n in ABSENT if n.startswith("headrace.tune.")):
        used.add(name)
        with pytest.raises(UnsupportedError, match="Optuna"):
            getattr(headrace.tune, name.rpartition(".")[2])
    assert set(ABSENT) - used == set(), "nobody can reach these sentences"
    for name, text in ABSENT.items():
        assert len(text.split()) >= 5 and not text.endswith("."), name


def test_absent_names_are_in_the_docs():
    text = (names.TESTS.parent / "docs" / "ray.md").read_text(encoding="utf-8")
    lacking = [name for name in ABSENT if not re.search(rf"[`.]{re.escape(name.rpartition('.')[2])}`", text)]
    assert lacking == []


def test_the_comparison_finds_what_is_wrong():
    def fn(a, b=1, *, c=None, **options): ...

    def wrong(*call):
        return list(names.differences(call, fn))

    assert wrong("a", "b=1", "*", "c=None", "**options") == []
    assert wrong("a", "b=2") == ["b"] and wrong("a", "*", "c=3") == ["c"]
    assert wrong("b=1", "a") == ["b", "a"] and wrong("a", "x") == ["x"]
    assert (
        wrong("a", "*", "num_cpus=None") == []
        and wrong("a", "*", "x") == ["x"]
        and wrong("a", "*args") == ["*args"]
    )
    assert list(names.differences(["*", "x"], lambda y: 0)) == ["x", "y"]
