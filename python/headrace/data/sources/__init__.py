"""Sources that other packages read. A call of a function imports its package, not before."""

import importlib

from headrace._core import UnsupportedError


def package(name, where, pip=None):
    """The module; if it is missing, an error that says what to install."""
    try:
        return importlib.import_module(name)
    except ImportError as e:
        if e.name is None or e.name.split(".")[0] != name.split(".")[0]:
            raise  # the package is there, and one of its own imports failed
        raise UnsupportedError(
            f"{where}: needs the package {pip or name}: pip install {pip or name}"
        ) from None
