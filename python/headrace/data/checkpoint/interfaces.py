"""CheckpointConfig: a write job that goes on after a failure with the rows that are not written yet."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from headrace import absent, places
from headrace._core import InvalidArgument, UnsupportedError
from headrace.data.paths import is_store, shown


class InvalidCheckpointingConfig(InvalidArgument):
    """A wrong argument of CheckpointConfig."""


class InvalidCheckpointingOperators(InvalidArgument):
    """The dataset has a step after which a written row cannot be found in the source again."""


class CheckpointConfig:
    """For `DataContext.get_current().checkpoint_config`: writers of files then write in parts, and remember
    in the folder `checkpoint_path` which rows are written. The same job, started again after a failure,
    leaves out these rows at its source, and writes each other row once.

    id_column: a column whose values are unique and not null, from the source to what is written.
    checkpoint_path: a folder, local or of a store (which the writer's storage_options reach), for one job at
    a time; override_filesystem: one of pyarrow or fsspec, whose path it is. None: ray_data_checkpoint in the
    folder that the environment variable RAY_DATA_CHECKPOINT_PATH_BUCKET names.
    delete_checkpoint_on_success: removes its files when the job is complete. write_num_threads has no effect.
    The other arguments are an error.
    """

    DEFAULT_CHECKPOINT_PATH_BUCKET_ENV_VAR = "RAY_DATA_CHECKPOINT_PATH_BUCKET"
    DEFAULT_CHECKPOINT_PATH_DIR = "ray_data_checkpoint"

    def __init__(
        self,
        id_column: str | None = None,
        checkpoint_path: str | None = None,
        *,
        delete_checkpoint_on_success: bool = True,
        override_filesystem: Any = None,
        override_backend: Any = None,
        write_num_threads: int = 3,
        checkpoint_path_partition_filter: Any = None,
        checkpoint_filter_cls: Any = None,
        checkpoint_manager_cls: Any = None,
    ) -> None:
        if not isinstance(id_column, str) or not id_column:
            raise InvalidCheckpointingConfig(
                f"CheckpointConfig: id_column: expected a column's name, found {id_column!r}"
            )
        for name, given in (
            ("override_backend", override_backend),
            ("checkpoint_path_partition_filter", checkpoint_path_partition_filter),
            ("checkpoint_filter_cls", checkpoint_filter_cls),
            ("checkpoint_manager_cls", checkpoint_manager_cls),
        ):
            if given is not None:
                raise UnsupportedError(f"CheckpointConfig: {name} is not supported")
        path = os.fspath(checkpoint_path) if checkpoint_path else self._default_path()
        path, options = places.in_filesystem("CheckpointConfig", path, override_filesystem, None)
        path = os.fspath(path).removeprefix("file://")
        if "://" in path and not is_store(path):
            raise InvalidCheckpointingConfig(
                f"CheckpointConfig: {shown(path)}: expected a local folder, or the URL of a store"
            )
        self.id_column: str = id_column
        self.checkpoint_path: str = path
        self._options = places.checked("CheckpointConfig", options)
        self.delete_checkpoint_on_success: bool = delete_checkpoint_on_success
        self.write_num_threads: int = write_num_threads

    def _default_path(self):
        variable = self.DEFAULT_CHECKPOINT_PATH_BUCKET_ENV_VAR
        folder = os.environ.get(variable)
        if folder is None:
            raise InvalidCheckpointingConfig(
                f"CheckpointConfig: checkpoint_path: expected a folder, found None, and {variable} is not set"
            )
        return os.path.join(folder, self.DEFAULT_CHECKPOINT_PATH_DIR)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"CheckpointConfig({self.id_column!r}, {self.checkpoint_path!r})"


if not TYPE_CHECKING:
    __getattr__ = absent.hook("headrace.data.checkpoint.interfaces", "headrace.data.checkpoint")

__all__ = ["CheckpointConfig", "InvalidCheckpointingConfig", "InvalidCheckpointingOperators"]
