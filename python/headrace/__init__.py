"""Data feed for model training: files to exact batches on every rank.

`headrace.data` reads, transforms and iterates; `headrace.train` runs data-parallel training on it. Python
imports both on first use: `import headrace` costs a few milliseconds and loads neither numpy nor torch.
"""

import importlib
from typing import TYPE_CHECKING

from headrace._core import __version__, has_certificates

if TYPE_CHECKING:
    from headrace import data, exceptions, train
    from headrace.session import (
        available_resources,
        cluster_resources,
        get,
        get_gpu_ids,
        init,
        is_initialized,
        put,
        remote,
        shutdown,
        wait,
    )

__all__ = [
    "__version__",
    "available_resources",
    "cluster_resources",
    "data",
    "exceptions",
    "get",
    "get_gpu_ids",
    "init",
    "is_initialized",
    "put",
    "remote",
    "shutdown",
    "train",
    "wait",
]
_LAZY = ("data", "exceptions", "train")


class lazy_module:
    """Stands for a module; the first use of one of its attributes imports it."""

    def __init__(self, name):
        self.__name = name

    def __getattr__(self, name):
        value = getattr(importlib.import_module(self.__name), name)
        setattr(self, name, value)
        return value


if not has_certificates():
    importlib.import_module("headrace.certificates")


def __getattr__(name):
    if name in _LAZY:
        return importlib.import_module(f"headrace.{name}")
    if name in __all__:
        return getattr(importlib.import_module("headrace.session"), name)
    return importlib.import_module("headrace.absent").hook("headrace")(name)


def __dir__():
    return sorted({*globals(), *__all__})
