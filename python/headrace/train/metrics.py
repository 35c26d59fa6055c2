"""Reported metrics as values for JSON and as numbers."""

from __future__ import annotations

from typing import Any


def plain(value: Any) -> Any:
    """A value for JSON: NumPy and torch scalars as numbers, other unknown values as text."""
    item = getattr(value, "item", None)
    if callable(item):
        try:
            return item()
        except (ValueError, RuntimeError, TypeError):
            pass
    return str(value)


def plain_number(value: Any) -> float | None:
    """A number, or an array or tensor of one, as a float; None for anything else."""
    try:
        return None if isinstance(value, (str, bytes)) else float(value)
    except (TypeError, ValueError):
        return None
