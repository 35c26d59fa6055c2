"""Data feed for model training: files to exact batches on every rank.

`headrace.data` reads, transforms and iterates; `headrace.train` runs data-parallel training on it. Python
imports both on first use: `import headrace` costs a few milliseconds and loads neither numpy nor torch.
"""

import importlib

from headrace._core import __version__

__all__ = ["__version__", "data", "exceptions", "train"]
_LAZY = ("data", "exceptions", "train")


class lazy_module:
    """Stands for a module; the first use of one of its attributes imports it."""

    def __init__(self, name):
        self.__name = name

    def __getattr__(self, name):
        value = getattr(importlib.import_module(self.__name), name)
        setattr(self, name, value)
        return value


def __getattr__(name):
    if name in _LAZY:
        return importlib.import_module(f"headrace.{name}")
    raise AttributeError(f"module 'headrace' has no attribute '{name}'")


def __dir__():
    return sorted({*globals(), *_LAZY})
