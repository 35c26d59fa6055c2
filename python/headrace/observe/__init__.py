"""Seeing what a run does: dashboard() shows runs while they go on, report() makes a page of a trace."""

from headrace.observe.dashboard import Dashboard, dashboard
from headrace.observe.run_report import report

__all__ = ["Dashboard", "dashboard", "report"]
