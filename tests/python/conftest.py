"""Fixtures that several test files use."""

import os

import pytest

import headrace.data as hd

os.environ.setdefault("HEADRACE_RULES", "strict")  # a rule that changes a plan's columns is an error


@pytest.fixture(params=["processes", "threads", "inline"])
def compute(request):
    """Where a function runs."""
    return request.param


@pytest.fixture
def context():
    """The DataContext; restores its settings afterwards."""
    current = hd.DataContext.get_current()
    before = dict(vars(current))
    yield current
    for name, value in before.items():
        setattr(current, name, value)
