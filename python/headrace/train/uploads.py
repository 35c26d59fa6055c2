"""The worker's side of report(checkpoint=...): brings the files into the run's folder, at once or in the
background.

Tests: tests/python/test_train_uploads.py
"""

from __future__ import annotations

import shutil
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headrace import places
from headrace._core import StorageError
from headrace.train.checkpoint import Checkpoint
from headrace.train.files import copy_folder
from headrace.train.reported_checkpoint import CheckpointUploadMode
from headrace.train.reports import Begun, Raised

SLOW_S = 60.0  # between two lines about an upload that has not ended
UploadFn = Callable[[Checkpoint, str], Checkpoint]


@dataclass(frozen=True)
class Upload:
    """One checkpoint of one worker. stays: what stays if it fails, for errors."""

    checkpoint: Checkpoint
    mode: CheckpointUploadMode
    fn: UploadFn | None
    delete: bool
    rank: int
    stays: str

    def run(self, begun: Begun) -> str:
        """Brings the files where they belong. Returns the folder that has them."""
        if self.mode is CheckpointUploadMode.NO_UPLOAD:
            return self.checkpoint.path
        with _watched(f"rank {self.rank}: the upload of {begun.name}"):
            if self.fn is not None:
                return self._by_function(self.fn, begun.name)
            try:
                self._copy(begun.folder)
            except StorageError as e:
                raise StorageError(e.errno, f"{e.strerror}; {self.stays}") from e
            return begun.folder

    def _copy(self, folder: str) -> None:
        who, target = f"rank {self.rank}", places.of(folder)
        if places.is_url(self.checkpoint.path):
            with self.checkpoint.as_directory() as copy:
                copy_folder(copy, target, who)
        else:
            copy_folder(self.checkpoint.path, target, who)

    def _by_function(self, fn: UploadFn, name: str) -> str:
        try:
            made = fn(self.checkpoint, name)
        except Exception as e:
            tb = e.__traceback__.tb_next if e.__traceback__ else None
            text = "".join(traceback.format_exception(type(e), e, tb)).rstrip()
            e.add_note(f"checkpoint_upload_fn failed on rank {self.rank} for {name!r}:\n{text}")
            raise
        if not isinstance(made, Checkpoint):
            raise ValueError(
                f"checkpoint_upload_fn: expected that it returns a Checkpoint, found {type(made).__name__}"
            )
        return made.path

    def remove(self, place: str) -> None:
        """Deletes the local files, if the user wants that and they are not the checkpoint itself."""
        if not self.delete or places.is_url(self.checkpoint.path):
            return
        local = Path(self.checkpoint.path).resolve()
        if not places.is_url(place) and Path(place).resolve().is_relative_to(local):
            return
        try:
            shutil.rmtree(local)
        except FileNotFoundError:
            pass  # another worker reported the same folder
        except OSError as e:
            print(f"rank {self.rank}: cannot delete the local checkpoint: {e}", file=sys.stderr)


def check_delete(checkpoint: Checkpoint, run_folder: str) -> None:
    """Raises ValueError if the deletion of the local files would delete the run."""
    if places.is_url(run_folder) or places.is_url(checkpoint.path):
        return
    if Path(run_folder).resolve().is_relative_to(Path(checkpoint.path).resolve()):
        raise ValueError(
            f"report(delete_local_checkpoint_after_upload=True): the checkpoint's folder {checkpoint.path} "
            f"contains the run's folder {run_folder}; write the checkpoint into a temporary folder"
        )


class Uploads:
    """The background uploads of one worker: one after another, in the order of the reports."""

    def __init__(self, uploaded: Callable[[int, str | None, Raised | None], None]):
        self._uploaded = uploaded
        self._pool = ThreadPoolExecutor(1, "headrace-train-upload")

    def start(self, upload: Upload, begun: Begun) -> None:
        self._pool.submit(self._run, upload, begun)

    def _run(self, upload: Upload, begun: Begun) -> None:
        try:
            place = upload.run(begun)
        except BaseException as e:
            if not begun.waits:
                e.add_note(f"the upload of {begun.name} failed after its report() had returned")
                text = "".join(traceback.format_exception_only(e)).rstrip()
                print(f"rank {upload.rank}: {text}", file=sys.stderr, flush=True)
            self._report(begun.number, None, Raised.of(e))
            return
        upload.remove(place)
        self._report(begun.number, place, None)

    def _report(self, number: int, place: str | None, error: Raised | None) -> None:
        try:
            self._uploaded(number, place, error)
        except OSError:
            pass  # the driver has ended, and so will this process

    def close(self) -> None:
        """Starts no further upload; waits for the one under way."""
        self._pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _watched(what: str) -> Iterator[None]:
    """Prints a line every SLOW_S seconds until the block ends."""
    ended = threading.Event()

    def watch() -> None:
        seconds = 0.0
        while not ended.wait(SLOW_S):
            seconds += SLOW_S
            print(f"{what} has been running for {seconds:.0f} s", file=sys.stderr, flush=True)

    thread = threading.Thread(target=watch, name="headrace-train-upload-watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


__all__ = ["Upload", "Uploads", "check_delete"]
