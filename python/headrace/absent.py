"""Names of Ray that Headrace does not have on purpose, and the sentence that their use gets.

A module with such names calls `hook` for its `__getattr__`; a class has them in its error for unknown
attributes. tests/python/test_ray_names.py uses each of them.
"""

from collections.abc import Callable
from typing import Any

from headrace.exceptions import UnsupportedError

_TASKS = (
    "tasks, actors and their references are Ray's own: use Ray for them beside Headrace, or Dataset.map, "
    "map_batches and their classes for functions over rows"
)

ABSENT = {
    "headrace.train.SyncConfig": "Ray Train has no effect for it any more; leave out "
    "RunConfig(sync_config=...): the files of a checkpoint are in the run's folder when report() returns",
}


def hook(module: str) -> Callable[[str], Any]:
    """A `__getattr__` for `module`: an UnsupportedError with the sentence of ABSENT, or an AttributeError."""

    def attribute(name: str) -> Any:
        if text := ABSENT.get(f"{module}.{name}"):
            raise UnsupportedError(f"{module}.{name}: {text}")
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return attribute
