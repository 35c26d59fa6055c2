"""Seeing what a run does: report() makes a page of its trace; page.py is what all pages share."""

from headrace.observe.run_report import report

__all__ = ["report"]
