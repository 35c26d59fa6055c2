"""Libraries that the fork server imports, so that workers of later plans have them at once."""

import os
import select
import sys
import time

import pytest

import headrace.data as hd
from headrace.udf import starter
from headrace.udf.preload import Learner, Reporter

PATIENCE = 60


def modules_of_a_worker(name, batch_format="numpy", function=None):
    """Whether the worker of a new plan had the module before the function's first call."""

    def call(batch):
        had = name in sys.modules
        if function:
            function()
        return {"had": [had]}

    ds = hd.range(1).map_batches(call, batch_format=batch_format)
    return ds.take(1)[0]["had"]


@pytest.mark.parametrize("batch_format", ["pandas", "pyarrow"])
def test_the_library_of_a_batch_format(batch_format):
    """The story: each worker of ten small plans imported pandas, a third of a second each."""
    assert modules_of_a_worker(batch_format, batch_format)
    assert modules_of_a_worker(batch_format, "numpy")  # the next worker is a fork of the same server


def test_torch_is_imported_once_for_all_workers():
    """The story: each of the first workers of from_torch() imported it, seconds on two cores."""
    pytest.importorskip("torch")
    starter.end()  # a server of earlier tests may have it
    assert modules_of_a_worker("torch")


def test_a_library_that_a_function_imports():
    def imports():
        import wave  # noqa: F401

    assert not modules_of_a_worker("wave")
    end = time.monotonic() + PATIENCE
    while not modules_of_a_worker("wave", function=imports):
        assert time.monotonic() < end


def test_a_module_of_the_user_is_imported_anew(tmp_path, monkeypatch):
    """State of the user's modules stays with one plan, and an edited file counts."""
    monkeypatch.syspath_prepend(str(tmp_path))
    file = tmp_path / "of_a_user.py"

    def call(batch):
        import of_a_user

        of_a_user.calls += 1
        return {"calls": [of_a_user.calls]}

    for start in (0, 10, 20):
        file.write_text(f"calls = {start}\n# {'x' * start}")
        assert hd.range(1).map_batches(call).take_all() == [{"calls": start + 1}]


@pytest.fixture
def learner(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    made = Learner()
    yield made
    made.close()
    os.close(made.write)


def learn(learner, tmp_path, text):
    """Whether the learner imports a module with this text."""
    file = tmp_path / "a_library.py"
    file.write_text(text)
    os.write(learner.write, f"a_library\t{file}\n".encode())
    learner.ready(learner.files(), os.fork)
    if learner.trial is None:
        return None
    assert select.select([learner.trial[1]], [], [], PATIENCE)[0]
    good = learner.ready(learner.files(), os.fork)
    return good, sys.modules.pop("a_library", None) is not None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = 1", (True, True)),
        (
            "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
            (False, False),
        ),
        ("raise SystemExit(3)", (True, False)),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", (False, False)),
    ],
    ids=["plain", "thread", "exit", "crash"],
)
def test_a_trial(learner, tmp_path, text, expected):
    assert learn(learner, tmp_path, text) == expected
    assert learn(learner, tmp_path, text) is None  # one trial each


def test_a_folder_that_was_removed(learner, tmp_path, monkeypatch):
    """The server's folder is the driver's at its start. When that was gone, MKL ended the trial of torch with
    a message, and new workers imported torch themselves.
    """
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert learn(learner, tmp_path, "import os; os.getcwd()") == (True, True)


def test_a_trial_that_does_not_return(learner, tmp_path, monkeypatch):
    monkeypatch.setattr("headrace.udf.preload.TRIAL_SECONDS", 1)
    assert learn(learner, tmp_path, "while True: pass") == (False, False)


def test_a_file_elsewhere_is_not_imported(learner, tmp_path):
    (tmp_path / "a_library.py").write_text("x = 1")
    os.write(learner.write, b"a_library\t/elsewhere/a_library.py\n")
    learner.ready(learner.files(), os.fork)
    select.select([learner.trial[1]], [], [], PATIENCE)
    assert learner.ready(learner.files(), os.fork)
    assert "a_library" not in sys.modules


def test_reports(tmp_path, monkeypatch):
    """Libraries are reported once, with their file; modules of the user and made-up ones are not."""
    for name in ("colorsys", "a_user"):
        sys.modules.pop(name, None)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "a_user.py").write_text("")
    read, write = os.pipe()
    reporter = Reporter(write)
    import colorsys

    import a_user  # noqa: F401

    monkeypatch.setitem(sys.modules, "made_up", type(sys)("made_up"))
    reporter.report()
    reporter.report()
    os.close(write)
    with open(read, "rb") as file:
        assert file.read() == f"colorsys\t{colorsys.__file__}\n".encode()
