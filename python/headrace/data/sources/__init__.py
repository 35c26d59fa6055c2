"""Sources that other packages read. A call of a function imports its package, not before."""

from headrace.optional import package

__all__ = ["package"]
