"""Packages that Headrace uses where they are installed. Who calls a function imports its package, not before.

A missing package is a MissingPackageError that says what to install. tests/python/test_optional.py finds
imports that pass this module by, and runs the functions without their packages.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

from headrace.exceptions import MissingPackageError

# The module that Python imports: (its name for pip, the extra of pyproject.toml that brings it).
PACKAGES = {
    "PIL": ("pillow", "images"),
    "av": ("av", "video"),
    "daft": ("daft", "daft"),
    "dask": ("dask", "dask"),
    "deltalake": ("deltalake", "delta"),
    "fastavro": ("fastavro", "avro"),
    "h5py": ("h5py", "hdf5"),
    "jax": ("jax", "jax"),
    "lance": ("pylance", "lance"),
    "lightgbm": ("lightgbm", "lightgbm"),
    "lightning": ("lightning", "lightning"),
    "modin": ("modin", "modin"),
    "msgpack": ("msgpack", "webdataset"),
    "pandas": ("pandas", "pandas"),
    "polars": ("polars", "polars"),
    "pyarrow": ("pyarrow", "pyarrow"),
    "pyiceberg": ("pyiceberg", "iceberg"),
    "pytorch_lightning": ("lightning", "lightning"),
    "soundfile": ("soundfile", "audio"),
    "tensorboard": ("tensorboard", "tensorboard"),
    "tensorflow": ("tensorflow", "tensorflow"),
    "torch": ("torch", "torch"),
    "transformers": ("transformers", "transformers"),
    "xgboost": ("xgboost", "xgboost"),
    "zarr": ("zarr", "zarr"),
}


def missing(error: ImportError, where: str) -> ImportError:
    """The error to raise for an import that failed: a MissingPackageError if a package of PACKAGES is not
    there, else `error`: the package is there, and something else is wrong with it.

    where: the function or module that needs the package.
    """
    root = (error.name or "").partition(".")[0]
    if not isinstance(error, ModuleNotFoundError) or root not in PACKAGES:
        return error
    pip, extra = PACKAGES[root]
    return MissingPackageError(
        f"{where}: needs the package {pip}: pip install 'headrace[{extra}]'", name=error.name
    )


def package(name: str, where: str) -> Any:
    """The module `name`. MissingPackageError if its package is not installed. where: who needs it."""
    try:
        return importlib.import_module(name)
    except ImportError as e:
        error = missing(e, where)
        if error is e:
            raise
        raise error from None


def imported(name: str) -> Any:
    """The module `name` if this process has imported it to the end, else None: no value of its types is
    there. sys.modules has it earlier, while another thread imports it; its attributes are missing then.
    """
    module = sys.modules.get(name)
    return None if getattr(getattr(module, "__spec__", None), "_initializing", False) else module
