"""Quality of shuffles: the figures of bench/shuffle_quality.py with bounds, for few rows."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyarrow")
PROGRAM = Path(__file__).resolve().parents[2] / "bench" / "shuffle_quality.py"
ROWS = 50_000


@pytest.fixture(scope="module")
def quality():
    spec = importlib.util.spec_from_file_location("shuffle_quality", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def found(quality, tmp_path_factory):
    folder = tmp_path_factory.mktemp("quality")
    quality.make_files(folder, ROWS)
    results = list(quality.measure(folder, ROWS, [500, 5000, ROWS]))
    return {(what, window): figures for what, window, figures in results}


def test_the_figures_themselves(quality):
    """For numpy's permutation all are about 1; for rows in order or reversed none is."""
    chance = quality.figures(np.random.default_rng(1).permutation(ROWS))
    assert chance["entropy"] == pytest.approx(1, abs=0.01)
    assert chance["distance"] == pytest.approx(1, abs=0.02)
    assert chance["classes"] == pytest.approx(1, abs=0.15)
    assert chance["both ends"] == pytest.approx(1)
    for order in (np.arange(ROWS), np.arange(ROWS)[::-1]):
        figures = quality.figures(order)
        assert figures["entropy"] < 0.01 and figures["classes"] < 0.01 and figures["both ends"] == 0


def test_global_shuffles_are_as_good_as_chance(found):
    for key in (("global", None), ("windows alone", ROWS), ("blocks and windows", ROWS)):
        figures = found[key]
        assert figures["entropy"] > 0.99, key
        assert 0.97 < figures["distance"] < 1.03, key
        assert 0.85 < figures["classes"] < 1.15, key
        assert figures["both ends"] == pytest.approx(1), key


def test_windows(found):
    """A window of a tenth of all rows mixes near rows well; a random order of blocks brings far ones near."""
    small, large = found["windows alone", 500], found["windows alone", 5000]
    assert small["entropy"] < large["entropy"] and large["entropy"] > 0.7
    assert large["distance"] == pytest.approx(3 * 0.46 * 5000 / ROWS, rel=0.15)  # a window of W: 0.46 W
    with_blocks = found["blocks and windows", 5000]
    assert with_blocks["entropy"] > 0.95 and with_blocks["distance"] > 0.8
    assert with_blocks["classes"] > 0.12 > 10 * large["classes"]  # blocks of 16 files in each window
    assert with_blocks["both ends"] > 0.9


def test_blocks_alone(found):
    assert found["as they lie", None]["distance"] == 0
    assert found["blocks only", None]["distance"] > 0.6
    assert found["blocks only", None]["entropy"] < 0.2


def test_table_and_plot(quality, found):
    results = [(what, window, figures) for (what, window), figures in found.items()]
    lines = quality.table(results).splitlines()
    assert len(lines) == 2 + len(results) and all(line.count("|") == 7 for line in lines)
    drawn = quality.svg(results, [500, 5000, ROWS])
    assert drawn.startswith("<svg") and drawn.count("<polyline") == 8 and "nan" not in drawn
