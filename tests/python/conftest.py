"""Fixtures that several test files use."""

import gc
import os
import shutil
import signal

import pytest

import headrace.data as hd

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # of a background job
    signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.setdefault("HEADRACE_SHARE_CREDENTIALS", "off")  # tests count what each process asks for
os.environ.setdefault("HEADRACE_RULES", "strict")  # a rule that changes a plan's columns is an error


def pytest_collection_modifyitems(config, items):
    """Leaves out what is marked `thorough`, unless HEADRACE_THOROUGH asks for it or its name is given."""
    if os.environ.get("HEADRACE_THOROUGH") or any("::" in str(word) for word in config.args):
        return
    left_out = [item for item in items if item.get_closest_marker("thorough")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if not item.get_closest_marker("thorough")]


def pytest_collection_finish():
    """gc.collect() in tests looks at what tests made, not at the million objects of all imported libraries,
    which take half a second each time.
    """
    gc.collect()
    gc.freeze()


def pytest_unconfigure():
    """Python's end collects what is not frozen; of DuckDB's types, nanobind said that they leaked."""
    gc.unfreeze()


@pytest.fixture(params=["processes", "threads", "inline"])
def compute(request):
    """Where a function runs."""
    return request.param


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """A headless Chromium."""
    if not shutil.which("chromedriver") or not shutil.which("chromium"):
        if os.environ.get("TEST_PAGES"):
            pytest.fail("chromium and chromedriver are missing")
        pytest.skip("needs chromium and chromedriver (make test-pages)")
    from browser import Browser

    made = Browser(tmp_path_factory.mktemp("browser"))
    yield made
    made.close()


@pytest.fixture
def context():
    """The DataContext; restores its settings afterwards."""
    current = hd.DataContext.get_current()
    before = dict(vars(current))
    process = _of_the_process()
    yield current
    for name, value in {**before, **process}.items():
        setattr(current, name, value)


def _of_the_process():
    """The settings that DataContext.copy() does not copy."""
    current = hd.DataContext.get_current()
    names = ("num_threads", "memory_limit_bytes", "spill_dir", "spill_quota_bytes")
    return {name: getattr(current, name) for name in names}


@pytest.fixture(scope="session")
def rank_server():
    """A process that has imported torch and forks programs and ranks; see forked_ranks.py."""
    pytest.importorskip("torch")
    from forked_ranks import Server

    server = Server.of()
    yield server
    server.close()


@pytest.fixture(scope="module")
def forked_ranks(rank_server):
    """Trainers of this file start their ranks in milliseconds."""
    from forked_ranks import ranks_of

    with ranks_of(rank_server):
        yield


@pytest.fixture(autouse=True, scope="module")
def process_settings_stay():
    """A test file that leaves a setting of the process changes the files after it: once a memory limit of
    8 MiB made another file's test fail in every fourth run.
    """
    before = _of_the_process()
    yield
    assert _of_the_process() == before
