"""Ten programs of Ray's users, the word `ray` changed to `headrace`, print what they print on Ray."""

import importlib.util
import json
import os
import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import make_programs  # noqa: E402

NEEDS = {
    "image_classification": ("torch", "PIL"),
    "tabular": ("torch", "pandas"),
    "tokens": ("torch",),
    "batch_inference": ("torch", "pyarrow"),
    "tpch_q1": ("pandas", "pyarrow"),
    "custom_source": ("pyarrow",),
    "lightning_module": ("lightning", "torch"),
    "transformers_trainer": ("transformers", "accelerate", "torch"),
    "write_job": ("pandas", "pyarrow"),
}
# What these show is in docs/lightning.md and docs/transformers.md, which run, too.
AS_A_PAGE = ("lightning_module", "transformers_trainer")
AS_FORKS = ("batch_inference", "image_classification", "tokens")  # tabular's ranks start as users' ranks do
RAY = os.environ.get("HEADRACE_RAY") or (sys.executable if importlib.util.find_spec("ray") else None)


def same(got, want):
    """Equal but for the rounding of sums in another order."""
    if isinstance(want, float) and isinstance(got, (int, float)):
        return got == pytest.approx(want, rel=1e-9, abs=1e-9)
    if isinstance(want, dict) and isinstance(got, dict):
        return got.keys() == want.keys() and all(same(got[k], want[k]) for k in want)
    if isinstance(want, list) and isinstance(got, list):
        return len(got) == len(want) and all(map(same, got, want))
    return got == want


def text_of(name):
    return (make_programs.PROGRAMS / f"{name}.py").read_text()


@pytest.fixture(scope="module")
def expected():
    return json.loads(make_programs.EXPECTED.read_text())


def printed_by_a_fork(server, text, folder):
    """What the program prints on its last line, as JSON. It and its ranks need not import torch."""
    program, data = folder / "program.py", folder / "data"
    program.write_text(text)
    data.mkdir()
    return json.loads(server.run([program, data], folder, 240).splitlines()[-1])


def test_the_ten_programs_are_programs_of_ray(expected):
    assert len(make_programs.names()) == 10 and set(expected) == set(make_programs.names())
    for name in expected:
        assert "headrace" not in text_of(name) and re.search(r"^import ray$", text_of(name), re.MULTILINE)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.thorough] if name in AS_A_PAGE else [])
        for name in make_programs.names()
    ],
)
def test_on_headrace(name, expected, tmp_path, monkeypatch, request):
    for package in NEEDS.get(name, ()):
        pytest.importorskip(package)
    text = re.sub(r"\bray\b", "headrace", text_of(name))
    if name in AS_FORKS:
        monkeypatch.chdir(tmp_path)
        got = printed_by_a_fork(request.getfixturevalue("rank_server"), text, tmp_path)
    else:
        got, _ = make_programs.run(sys.executable, text, 240)
    assert same(got, expected[name]), got


@pytest.mark.timeout(600)
@pytest.mark.skipif(not RAY, reason="needs Ray (HEADRACE_RAY names an interpreter)")
@pytest.mark.parametrize("name", make_programs.names())
def test_on_ray(name, expected):
    got, _ = make_programs.run(RAY, text_of(name), 500)
    assert same(got, expected[name]), got
