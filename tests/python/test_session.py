"""The calls around a Ray program: `ray.` becomes `headrace.`, and nothing starts."""

import subprocess
import sys

import pytest

import headrace
import headrace.data as hd
from headrace.exceptions import InvalidArgument, UnsupportedError


@pytest.fixture(autouse=True)
def ended():
    yield
    headrace.shutdown()


def test_as_a_ray_program_calls_them():
    headrace.init(num_cpus=4, object_store_memory=10**9, runtime_env={"pip": []}, logging_level="ERROR")
    assert headrace.is_initialized()
    reference = headrace.put({"x": 1})
    assert headrace.get(reference) == {"x": 1}
    assert headrace.get([reference, headrace.put(2)], timeout=1) == [{"x": 1}, 2]
    assert headrace.wait([1, 2, 3], num_returns=2) == ([1, 2], [3])
    resources = headrace.cluster_resources()
    assert resources["CPU"] >= 1 and resources["memory"] > 0 and headrace.available_resources() == resources
    headrace.shutdown()
    assert not headrace.is_initialized()
    assert hd.range(3).count() == 3


def test_begun_twice():
    headrace.init()
    with pytest.raises(RuntimeError, match="called before"):
        headrace.init()
    headrace.init("auto", ignore_reinit_error=True)
    with headrace.init(ignore_reinit_error=True):
        pass
    assert not headrace.is_initialized()


def test_mistakes():
    with pytest.raises(InvalidArgument, match="unknown argument 'num_cpu'"):
        headrace.init(num_cpu=4)
    with pytest.raises(UnsupportedError, match="connects to no cluster"):
        headrace.init("ray://head:10001")
    with pytest.raises(ValueError, match="num_returns: expected 1 to 2, found 3"):
        headrace.wait([1, 2], num_returns=3)
    with pytest.raises(UnsupportedError, match="tasks and actors are Ray's own"):

        @headrace.remote
        def task():
            pass


def test_references_enter_datasets():
    references = [headrace.put(one) for one in hd.range(6).to_arrow_refs()]
    assert hd.from_arrow_refs(references).count() == 6


def test_import_stays_light():
    code = "import sys, headrace; headrace.init; print(any(m in sys.modules for m in ('numpy', 'torch')))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"
