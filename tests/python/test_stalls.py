"""A run in which nothing moves is explained once, and ends if that is wanted."""

import logging
import os
import subprocess
import sys
import threading
import time

import pytest

import headrace.data as hd
from headrace.exceptions import PeerError


def slow(batch):
    time.sleep(0.8)
    return batch


def lines_of(caplog):
    return [r.getMessage() for r in caplog.records if r.getMessage().startswith("no batch for ")]


def test_it_is_explained_once(monkeypatch, caplog, tmp_path):
    monkeypatch.setenv("HEADRACE_STALL_WARNING", "0.2")
    hd.range(3000).write_parquet(tmp_path)
    ds = hd.read_parquet(tmp_path).map_batches(slow, batch_size=1000, concurrency=1)
    with caplog.at_level(logging.WARNING, "headrace.data"):
        assert sum(len(b["id"]) for b in ds.iter_batches(batch_size=1000)) == 3000
    (line,) = lines_of(caplog)
    # The story: workers that imported a package for 10 s were a function that had not returned.
    first = "once (its workers start and import modules, or are in their first calls)"
    assert f"map_batches(slow) has not returned {first}, at row " in line
    assert " wait for a function" in line and "memory: " in line


def test_it_is_explained_while_it_lasts():
    """It was when the wait had ended: a run that never moves said nothing."""
    program = """
import sys, threading, time
import headrace.data as hd
def stuck(batch):
    time.sleep(3600)
def read():
    hd.range(2000).map_batches(stuck, concurrency=1).take_all()
if sys.argv[1] == "main":
    read()
else:
    threading.Thread(target=read, daemon=True).start()
    threading.Event().wait()
"""
    for place in ("main", "thread"):
        run = subprocess.Popen(
            [sys.executable, "-c", program, place],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "HEADRACE_STALL_WARNING": "0.2"},
        )
        late = threading.Timer(60, run.kill)
        late.start()
        try:
            assert run.stderr.readline().startswith("no batch for ")
        finally:
            late.cancel()
            run.kill()
            run.communicate()


def test_nothing_is_said_of_a_run_that_moves(monkeypatch, caplog):
    monkeypatch.setenv("HEADRACE_STALL_WARNING", "30")
    assert hd.range(2000).map_batches(slow, batch_size=1000, concurrency=1).count() == 2000
    assert not lines_of(caplog)


def test_it_ends(monkeypatch):
    monkeypatch.setenv("HEADRACE_STALL_TIMEOUT", "0.3")
    monkeypatch.setenv("HEADRACE_STALL_WARNING", "0")

    def stuck(batch):
        time.sleep(3600)

    with pytest.raises(
        PeerError, match=r"nothing moved for .* s \(HEADRACE_STALL_TIMEOUT\): no batch for .*stuck"
    ):
        hd.range(2000).map_batches(stuck, concurrency=1).take_all()


def test_values_are_checked(monkeypatch):
    from headrace.data import environment
    from headrace.exceptions import InvalidArgument

    for value in ("soon", "-1", "nan"):
        monkeypatch.setenv("HEADRACE_STALL_TIMEOUT", value)
        with pytest.raises(InvalidArgument, match="HEADRACE_STALL_TIMEOUT: .* expected a number of seconds"):
            environment.check()
