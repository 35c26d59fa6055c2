"""Writes in parts that a restart can leave out: what CheckpointConfig does.

A part is some rows of one pass. The checkpoint folder has a file for each part, NAME.parquet with the ids of
its rows. While the files of the part are written it is NAME.pending, and their names contain NAME: a restart
removes the files of pending parts, so that each row is in the destination once.

In a store nothing is renamed: NAME.pending is empty, NAME.parquet comes after the files of the part, and then
NAME.pending goes. Beside NAME.parquet it means nothing.
"""

import os
import time
import uuid
from pathlib import Path

from headrace import lazy_module, places
from headrace._core import InvalidArgument, UnsupportedError
from headrace.data.checkpoint.interfaces import InvalidCheckpointingOperators
from headrace.data.paths import is_store, shown, storage_texts
from headrace.data.plan import Node
from headrace.places import StorePath

progress = lazy_module("headrace.data.progress")

PART_BYTES, PART_S = 64 << 20, 30.0
_ROW_BY_ROW = ("calls", "filter", "fragments", "project", "rebatch", "with_columns")


def _chain(node):
    """The nodes from the source to `node`; InvalidCheckpointingOperators if a step is not row by row."""
    if not node.inputs:
        return [node]
    if node.op not in _ROW_BY_ROW or len(node.inputs) != 1:
        raise InvalidCheckpointingOperators(
            f"checkpoint_config: {node.describe()}: expected steps that work row by row: functions, filters "
            "and columns"
        )
    return [*_chain(node.inputs[0]), node]


def _without(ds, config, done):
    """The dataset without the rows whose ids are in the dataset `done`: they go as near to the source as the
    column is there.
    """
    nodes = _chain(ds._node)
    first = next((i for i, node in enumerate(nodes) if config.id_column in ds._plain(node).columns()), None)
    if first is None:
        raise _no_column(config)
    if done is None:
        return ds
    on = (config.id_column,)
    node = ds._plain(nodes[first]).join(done, "left_anti", num_partitions=None, on=on)._node
    for step in nodes[first + 1 :]:
        node = Node(step.op, step.args, [node])
    return ds._plain(node)


def _no_column(config):
    return InvalidArgument(
        f"checkpoint_config: expected the column '{config.id_column}' in the source and in what is written"
    )


class Parts:
    """The checkpoint folder of a job that writes to `path`."""

    def __init__(self, config, path, options):
        self.config = config
        self.to = places.of(path, options)
        self.folder = places.of(
            config.checkpoint_path, options if config._options is None else config._options
        )
        if isinstance(self.folder, Path):
            self.folder.mkdir(parents=True, exist_ok=True)

    def clean(self):
        """Removes what a part that was not completed has left."""
        for pending in list(self.folder.glob("*.pending")):
            if not (self.folder / f"{pending.stem}.parquet").exists():
                self._remove_part(pending.stem)
            if isinstance(self.folder, StorePath):
                self.folder.abort_uploads(pending.stem)
            _remove(pending)

    def _remove_part(self, name):
        if isinstance(self.to, StorePath):
            self.to.remove_part(name)
            return
        for file in self.to.rglob(f"*{name}*"):
            file.unlink()

    def done(self):
        """The paths of the files with the ids of all complete parts."""
        return sorted(map(str, self.folder.glob("*.parquet")))

    def write(self, ds, write, write_ids):
        """write(ds, name) writes the files of a part, write_ids(ds, path) a file of ids."""
        if self.config.id_column not in ds.columns():
            raise _no_column(self.config)
        name = uuid.uuid4().hex
        pending, complete = self.folder / f"{name}.pending", self.folder / f"{name}.parquet"
        ids = ds.select_columns([self.config.id_column])
        if isinstance(pending, StorePath):
            pending.write(b"")
            made = write(ds, name)
            write_ids(ids, str(complete))
            pending.remove()
            return made
        write_ids(ids, str(pending))
        made = write(ds, name)
        os.replace(pending, complete)
        return made

    def end(self):
        if not self.config.delete_checkpoint_on_success:
            return
        for file in list(self.folder.glob("*.parquet")):
            _remove(file)
        if isinstance(self.folder, Path) and not any(self.folder.iterdir()):
            self.folder.rmdir()


def _remove(file):
    if isinstance(file, StorePath):
        file.remove()
    else:
        file.unlink()


def _parts(ds):
    """Lists of tables of about PART_BYTES, or of PART_S seconds."""
    held, size, begin = [], 0, time.monotonic()
    node = ds._cut_node()
    with ds._run(node) as run, progress.of_run(run, "write", node):
        for table in run:
            if table.num_rows:
                held.append(table)
                size += table.nbytes
            if held and (size >= PART_BYTES or time.monotonic() - begin >= PART_S):
                yield held
                held, size, begin = [], 0, time.monotonic()
    if held:
        yield held


def write_in_parts(ds, where, path, config, storage_options, write, write_ids):
    """What write(ds, name) returns for the rows that are not written yet: a list for each part.

    where: the writer's name, for errors. write_ids(ds, path) writes a file of ids.
    """
    if "://" in path and not is_store(path):
        raise UnsupportedError(
            f"{where}: checkpoint_config: expected a local folder or the URL of a store, found {shown(path)}"
        )
    parts = Parts(config, path, places.checked(where, storage_options))
    parts.clean()
    files = parts.done()
    options = storage_options if config._options is None else config._options
    found = {"urls": files, "format": "parquet", "storage_options": storage_texts(where, options)}
    rest = _without(ds, config, ds._plain(Node("read", found)) if files else None)
    made = []
    for tables in _parts(rest):
        part = ds._plain(Node("tables", {"tables": tables, "what": where}))
        made += parts.write(part, write, write_ids)
    parts.end()
    return made
