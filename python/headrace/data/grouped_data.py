"""GroupedData, under the name of Ray's module."""

from headrace.data.grouping import GroupedData

__all__ = ["GroupedData"]
