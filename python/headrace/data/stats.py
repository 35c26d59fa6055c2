"""DatasetSummary, under the name of Ray's module."""

from headrace.data.summary import DatasetSummary

__all__ = ["DatasetSummary"]
