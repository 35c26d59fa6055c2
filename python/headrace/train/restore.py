"""trainer.pkl of a run's folder: the arguments of its trainer, without the datasets, for
TorchTrainer.restore().

Each argument has a pickle of its own: restore() reads only those that the caller does not give again.
"""

from __future__ import annotations

import os
import pickle
from typing import Any

from headrace import places
from headrace.places import Place
from headrace.train.files import write_whole
from headrace.udf import sending

TRAINER_FILE = "trainer.pkl"


def save(folder: Place, cls: type, arguments: dict[str, Any], datasets: list[str]) -> None:
    """Stores the arguments, without storage options. The caller of restore() must give those that do not
    pickle (a train loop of local mode may not).
    """
    packed: dict[str, bytes | None] = {}
    for name, value in arguments.items():
        try:
            packed[name] = sending.dumps(value)
        except Exception:
            packed[name] = None
    known = {"class": f"{cls.__module__}.{cls.__qualname__}", "datasets": datasets, "arguments": packed}
    write_whole(folder / TRAINER_FILE, pickle.dumps(known), "the driver")


def is_there(folder: str | os.PathLike[str], options: places.Options | None) -> bool:
    return (places.of(folder, options) / TRAINER_FILE).exists()


def load(
    folder: str | os.PathLike[str], options: places.Options | None
) -> tuple[str, list[str], dict[str, bytes | None]]:
    """Name of the class, names of datasets, name of each argument -> its pickle (None: it has none)."""
    file = places.of(folder, options) / TRAINER_FILE
    try:
        known = pickle.loads(file.read_bytes())
        return known["class"], known["datasets"], known["arguments"]
    except FileNotFoundError:
        raise ValueError(
            f"restore: {os.fspath(folder)}: expected the folder of a run, with {TRAINER_FILE}, found none"
        ) from None
    except (KeyError, TypeError, EOFError, pickle.UnpicklingError) as e:
        raise ValueError(f"restore: {file}: not written by a trainer, or damaged: {e!r}") from None


def unpacked(folder: str | os.PathLike[str], name: str, data: bytes | None) -> Any:
    """One argument."""
    if data is None:
        raise ValueError(f"restore: {os.fspath(folder)}: {name} could not be pickled: give it again")
    try:
        return pickle.loads(data)
    except Exception as e:
        raise ValueError(
            f"restore: {os.fspath(folder)}: {name} cannot be read again, give it: {type(e).__name__}: {e}"
        ) from e
