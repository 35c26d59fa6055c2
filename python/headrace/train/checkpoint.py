"""Checkpoint: a reference to a folder, local or in a store, with metadata in JSON."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from headrace import places
from headrace.places import Place, StorePath
from headrace.train.files import write_whole

METADATA_FILE = ".metadata.json"


class Checkpoint:
    """A reference to a folder: a local path, or a URL ("s3://bucket/run/checkpoint_000000"). Only
    to_directory(), report(), and as_directory() of a URL copy files.

    storage_options: how the URL is reached (docs/stores.md). None: in a train loop those of
    RunConfig(storage_options=...), elsewhere the environment. filesystem: one of pyarrow or fsspec, whose
    path `path` is; it becomes a URL and options of it. Pickles have neither.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        filesystem: Any = None,
        *,
        storage_options: dict[str, Any] | None = None,
    ):
        path, storage_options = places.in_filesystem("Checkpoint", path, filesystem, storage_options)
        place = places.of(path)
        self.path: str = str(place) if places.is_url(path) else os.fspath(path)
        self.filesystem: Any = filesystem
        self._options = places.checked("Checkpoint", storage_options)

    def __repr__(self) -> str:  # as Ray prints it
        scheme = self.path.partition("://")[0] if places.is_url(self.path) else "local"
        return f"Checkpoint(filesystem={scheme}, path={self.path})"

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "filesystem": None}  # it may hold keys

    @property
    def _folder(self) -> Place:
        return places.of(self.path, self._options)

    @property
    def _key(self) -> str:
        return self.path if places.is_url(self.path) else os.path.abspath(self.path)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Checkpoint) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @classmethod
    def from_directory(cls, path: str | os.PathLike[str]) -> Checkpoint:
        """A checkpoint of the files in the local folder `path`. Only report() copies them."""
        return cls(path)

    def to_directory(self, path: str | os.PathLike[str] | None = None) -> str:
        """Copies the files into the folder `path`, which it makes if necessary (None: a new temporary
        folder). Returns its path.
        """
        path = tempfile.mkdtemp(prefix="headrace-checkpoint-") if path is None else os.fspath(path)
        folder = self._folder
        if isinstance(folder, StorePath):
            self._check_there(folder)
            folder.download(path)
        else:
            shutil.copytree(folder, path, dirs_exist_ok=True)
        return path

    @staticmethod
    def _check_there(folder: Place) -> None:
        if not folder.is_dir():
            raise FileNotFoundError(f"{folder}: the checkpoint does not exist")

    @contextmanager
    def as_directory(self) -> Iterator[str]:
        """A local folder with the files, for reading: the checkpoint's own folder; of a URL a temporary copy,
        which the end of the block removes.
        """
        folder = self._folder
        self._check_there(folder)
        if not isinstance(folder, StorePath):
            yield self.path
            return
        with tempfile.TemporaryDirectory(prefix="headrace-checkpoint-") as copy:
            folder.download(copy)
            yield copy

    def get_metadata(self) -> dict[str, Any]:
        """The dict of set_metadata(), or of TorchTrainer(metadata=...) for checkpoints of its workers."""
        try:
            text = (self._folder / METADATA_FILE).read_text(encoding="utf-8")
        except FileNotFoundError:
            return {}
        return json.loads(text)

    def set_metadata(self, metadata: dict[str, Any]) -> None:
        """Writes `metadata`, which JSON can hold, into the checkpoint and replaces earlier metadata."""
        write_whole(self._folder / METADATA_FILE, json.dumps(metadata))

    def update_metadata(self, metadata: dict[str, Any]) -> None:
        self.set_metadata({**self.get_metadata(), **metadata})
