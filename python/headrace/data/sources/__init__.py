"""Sources that other packages read: each module imports its package when it is called, and not before."""

import importlib

from headrace._core import UnsupportedError


def package(name, where, pip=None):
    """The module, or an error that says what to install."""
    try:
        return importlib.import_module(name)
    except ImportError as e:
        if e.name is None or e.name.split(".")[0] != name.split(".")[0]:
            raise  # it is there, and lacks something of its own
        raise UnsupportedError(
            f"{where}: needs the package {pip or name}: pip install {pip or name}"
        ) from None
