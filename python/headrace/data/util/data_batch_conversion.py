"""BatchFormat, under the name of Ray's module."""

from headrace.data.preprocessor import BatchFormat

__all__ = ["BatchFormat"]
