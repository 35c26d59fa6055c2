"""Data feed for model training: files to exact batches on every rank.

`headrace.data` reads, transforms and iterates; `headrace.train` runs data-parallel training on it. Both are
imported when first used, so that `import headrace` costs a few milliseconds and loads neither numpy nor
torch.
"""

import importlib

from headrace._core import __version__

__all__ = ["__version__", "data", "exceptions", "train"]
_LAZY = ("data", "exceptions", "train")


def __getattr__(name):
    if name in _LAZY:
        return importlib.import_module(f"headrace.{name}")
    raise AttributeError(f"module 'headrace' has no attribute '{name}'")


def __dir__():
    return sorted({*globals(), *_LAZY})
