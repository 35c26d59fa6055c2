"""Processes of a run ask a service of credentials once for all of them, by a private file in memory."""

import os
import subprocess
import sys
import time

import pytest
from test_credentials import cloud  # noqa: F401

import headrace.data as hd

READ = "import headrace.data as hd; print(hd.read_text('s3://many/x').count())"


@pytest.fixture
def runtime(tmp_path, monkeypatch):
    (tmp_path / "runtime").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("HEADRACE_SHARE_CREDENTIALS", "on")
    return tmp_path / "runtime" / "headrace"


def processes(n):
    """The numbers of rows that n processes read, which run at the same time."""
    all_of_them = [
        subprocess.Popen([sys.executable, "-c", READ], stdout=subprocess.PIPE, text=True) for _ in range(n)
    ]
    return [int(p.communicate(timeout=120)[0]) for p in all_of_them]


def test_eight_processes_ask_once(cloud, runtime, monkeypatch):  # noqa: F811
    s3, services, _ = cloud
    assert processes(8) == [25] * 8
    assert len(s3.issued) == 1
    assert len(services.requests) == 3  # a token, the role's name, its credentials
    assert (runtime.stat().st_mode & 0o777, runtime.stat().st_uid) == (0o700, os.geteuid())
    files = [f for f in runtime.iterdir() if f.suffix != ".l"]
    assert [f.stat().st_mode & 0o777 for f in files] == [0o600]
    monkeypatch.setenv("HEADRACE_SHARE_CREDENTIALS", "off")
    assert processes(1) == [25]
    assert len(s3.issued) == 2


def test_what_was_refused_is_fetched_anew(cloud, runtime):  # noqa: F811
    s3, _, _ = cloud
    assert processes(1) == [25]
    s3.expired.add("ASIA1")
    assert processes(2) == [25] * 2
    assert "ASIA2" in s3.issued
    assert len(s3.issued) <= 3


def spoil_file(runtime):
    return next(f for f in runtime.iterdir() if f.suffix != ".l")


def readable(runtime):
    spoil_file(runtime).chmod(0o644)


def linked(runtime):
    file = spoil_file(runtime)
    file.rename(runtime.parent / "elsewhere")
    file.symlink_to(runtime.parent / "elsewhere")


def open_folder(runtime):
    runtime.chmod(0o777)


def cut(runtime):
    file = spoil_file(runtime)
    file.write_text(file.read_text()[:-5])


def old(runtime):
    file = spoil_file(runtime)
    lines = file.read_text().splitlines()
    lines[1] = f"fetched {int(time.time()) - 700}"
    file.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("spoil", [readable, linked, open_folder, cut, old])
def test_what_others_could_have_changed_is_not_used(cloud, runtime, spoil):  # noqa: F811
    s3, _, _ = cloud
    assert processes(1) == [25]
    spoil(runtime)
    assert processes(1) == [25]
    assert len(s3.issued) == 2


def test_a_process_keeps_its_own(cloud, runtime):  # noqa: F811
    s3, services, _ = cloud
    for _ in range(2):
        assert hd.read_text("s3://many/x").count() == 25
    assert len(s3.issued) == 1
    assert len(services.requests) == 3
