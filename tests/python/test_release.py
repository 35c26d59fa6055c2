"""packaging/release.py: what is in the way of a release, and the version in every file that has it."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import headrace

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def release():
    sys.path.insert(0, str(ROOT / "packaging"))
    try:
        spec = importlib.util.spec_from_file_location("release", ROOT / "packaging" / "release.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(ROOT / "packaging"))
        sys.modules.pop("common", None)
    return module


@pytest.fixture
def clone(tmp_path, release):
    """A repository of the files that hold the version, with a change log, committed."""
    for name in release.PLACES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "CHANGELOG.md").write_text(
        "# Changelog\n\n## Unreleased\n\n- News.\n\n## 0.0.1 - 2020-01-01\n"
    )
    git(tmp_path, "init", "-q")
    commit(tmp_path)
    return tmp_path


def git(folder, *words):
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "-C", folder, *who, *words], check=True, capture_output=True)


def commit(folder):
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "x")


def test_the_version_is_the_same_everywhere(release):
    assert set(release.found_in(ROOT).values()) == {headrace.__version__}


def test_ready(release, clone):
    release.write_version(clone, "12.3.45")
    assert set(release.found_in(clone).values()) == {"12.3.45"}
    (changed,) = release.problems(clone)
    assert changed.startswith("4 files are changed or unknown to git: CHANGELOG.md, ")
    commit(clone)
    assert list(release.problems(clone)) == []
    git(clone, "tag", "v12.3.45")
    assert list(release.problems(clone)) == []
    (clone / "new").touch()
    commit(clone)
    assert list(release.problems(clone)) == ["v12.3.45 is the tag of another commit: choose the next version"]


def test_in_the_way(release, clone):
    own = release.found_in(clone)["meson.build"]
    assert list(release.problems(clone)) == [
        f"CHANGELOG.md: expected a section '## {own} - YEAR-MONTH-DAY' with lines"
    ]
    release.write_version(clone, "0.2.0")
    log = clone / "CHANGELOG.md"
    log.write_text(log.read_text().replace("## Unreleased\n", "## Unreleased\n\n- Later news.\n"))
    man = clone / "docs/man/headrace.1"
    man.write_text(man.read_text().replace("0.2.0", "0.1.9"))
    commit(clone)
    differ, lines = release.problems(clone)
    assert differ.startswith("the versions differ: ") and "docs/man/headrace.1 has 0.1.9" in differ
    assert lines == "CHANGELOG.md: there are lines under Unreleased; a release has them in its section"


def test_wrong_versions(release, clone):
    for text in ("1.0", "v1.0.0", "1.0.0rc1", ""):
        with pytest.raises(SystemExit, match="expected a version as 0.2.0"):
            release.write_version(clone, text)
    (clone / "meson.build").write_text("project('x')\n")
    with pytest.raises(SystemExit, match="meson.build: expected the version once, found it 0 times"):
        release.write_version(clone, "1.0.0")
