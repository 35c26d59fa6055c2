"""Measures a loader beside a training step, with other settings and with Headrace, and says what to change.

`python -m headrace.tune script.py:make_loader` is the command; `tune` does the same from a program.
docs/tune.md describes both.
"""

from typing import TYPE_CHECKING

from headrace import absent
from headrace.tune.configurations import Configuration, Target
from headrace.tune.machine import Machine
from headrace.tune.report import Report
from headrace.tune.results import Result
from headrace.tune.tuning import tune

__all__ = ["Configuration", "Machine", "Report", "Result", "Target", "tune"]

if not TYPE_CHECKING:
    __getattr__ = absent.hook("headrace.tune")
