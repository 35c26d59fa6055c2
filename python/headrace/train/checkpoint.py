"""Checkpoint: a reference to a folder, with metadata in JSON."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headrace.train.files import write_whole

METADATA_FILE = ".metadata.json"


class Checkpoint:
    """A reference to a folder. Only to_directory() and report() copy files."""

    def __init__(self, path: str | os.PathLike[str], filesystem: Any = None):
        if filesystem is not None:
            raise NotImplementedError("Checkpoint(filesystem=...) is not supported; give a local path")
        path = os.fspath(path)
        self.path: str = path[len("file://") :] if path.startswith("file://") else path
        self.filesystem: Any = None

    def __repr__(self) -> str:
        return f"Checkpoint(filesystem=local, path={self.path})"  # as Ray prints it

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Checkpoint) and os.path.abspath(self.path) == os.path.abspath(other.path)

    def __hash__(self) -> int:
        return hash(os.path.abspath(self.path))

    @classmethod
    def from_directory(cls, path: str | os.PathLike[str]) -> Checkpoint:
        """A checkpoint of the files in the local folder `path`. Only report() copies them."""
        return cls(path)

    def to_directory(self, path: str | os.PathLike[str] | None = None) -> str:
        """Copies the files into the folder `path`, which it makes if necessary (None: a new temporary
        folder). Returns its path.
        """
        path = tempfile.mkdtemp(prefix="headrace-checkpoint-") if path is None else os.fspath(path)
        shutil.copytree(self.path, path, dirs_exist_ok=True)
        return path

    @contextmanager
    def as_directory(self) -> Iterator[str]:
        """A local folder with the files, for reading: the checkpoint's own folder."""
        if not os.path.isdir(self.path):
            raise FileNotFoundError(f"{self.path}: the checkpoint does not exist")
        yield self.path

    def get_metadata(self) -> dict[str, Any]:
        """The dict of set_metadata(), or of TorchTrainer(metadata=...) for checkpoints of its workers."""
        try:
            text = Path(self.path, METADATA_FILE).read_text(encoding="utf-8")
        except FileNotFoundError:
            return {}
        return json.loads(text)

    def set_metadata(self, metadata: dict[str, Any]) -> None:
        """Writes `metadata`, which JSON can hold, into the checkpoint and replaces earlier metadata."""
        write_whole(Path(self.path, METADATA_FILE), json.dumps(metadata))

    def update_metadata(self, metadata: dict[str, Any]) -> None:
        self.set_metadata({**self.get_metadata(), **metadata})
