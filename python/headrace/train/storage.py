"""The folder of a run: complete checkpoints, and the reports.

    <storage_path>/<name>/checkpoint_000000/     the workers' files, .metadata.json, .headrace.json
                          progress.json          all reports, and the kept checkpoints; for Result.from_path
                          positions.json         positions without a checkpoint (positions.py)
                          trainer.pkl            for restore() (restore.py)
                          .headrace.lock         locked by the driver while it runs
                          .checkpoint_000001...  the next checkpoint, incomplete, with its driver's name
                          .upload_000001...      names the folder that a user's function fills
                          .removed..., .part...  what a driver removes or writes, with its name

Workers copy their files into the hidden folder side by side. When all of them have ended, the driver lists
the checkpoint in progress.json and then renames the folder: a listed checkpoint without a folder does not
count. A folder that the user filled gets .headrace.json before it is listed. The next driver of the run goes
on from the newest checkpoint, drops the reports after it, and removes what has the name of a driver that
died.

In a store nothing can be renamed or locked. Workers copy their files to the checkpoint's own name, which an
object .upload_... names before; .headrace.json is its last object, and without it nothing counts.
progress.json is only replaced in the version that this driver knows: a driver that starts later takes the run
over, and the one before ends with an error.
"""

from __future__ import annotations

import functools
import json
import os
import re
import secrets
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from headrace import _core, events, places
from headrace.places import Place, StorePath
from headrace.train import files
from headrace.train.checkpoint import Checkpoint
from headrace.train.config import CheckpointConfig, RunConfig
from headrace.train.files import STATE_FILE
from headrace.train.metrics import plain
from headrace.train.owner import Lock
from headrace.train.result import PROGRESS_FILE, Result

POSITIONS_FILE = "positions.json"
LOCK_FILE = ".headrace.lock"
STAGING = ".checkpoint_"
UPLOAD = ".upload_"
VERSION = 1  # of STATE_FILE, POSITIONS_FILE and PROGRESS_FILE
WRITE_SHARE = 50  # a report without a checkpoint waits this many times as long as the last write took


def _guarded(method: Callable) -> Callable:
    """Makes other threads wait in methods of the same storage."""

    @functools.wraps(method)
    def under_lock(self, *args, **kwargs):
        with self.changed:
            return method(self, *args, **kwargs)

    return under_lock


@dataclass(frozen=True)
class Target:
    """A checkpoint that does not count yet. name: of its folder below the run's; folder: where the workers
    put their files; marker: the file that names this folder if a user's function fills it, or in a store;
    by_function: a user's function fills it.
    """

    index: int
    name: str
    folder: Place
    marker: Place | None
    by_function: bool


@dataclass
class Kept:
    """A checkpoint of the run. name: of its folder below the run's; reports: their number up to the
    checkpoint's own; validation: None, or a dict of "status" (ReportedCheckpointStatus), "wanted" (of
    validation.wanted_by()) and perhaps "error".
    """

    name: str
    checkpoint: Checkpoint
    metrics: dict[str, Any]
    reports: int
    validation: dict[str, Any] | None = None

    @property
    def status(self) -> str:
        return self.validation["status"] if self.validation else "COMMITTED"

    @property
    def waits(self) -> bool:
        """Whether its validation has not ended."""
        return self.status == "PENDING_VALIDATION"

    def listed(self) -> dict[str, Any]:
        """What progress.json says of it."""
        known = {"name": self.name, "metrics": self.metrics, "reports": self.reports}
        return {**known, "validation": self.validation} if self.validation else known


class TakenOverError(RuntimeError):
    """Another driver writes the run of a store now."""


class RunStorage:
    """The driver's side. `changed` guards it: the threads of the control channel report, another one
    validates. It is notified when a checkpoint begins or ends to wait for its validation.

    start: what get_checkpoint() gives while the run has no checkpoint of its own.
    """

    def __init__(self, config: RunConfig, metadata: dict[str, Any], start: Checkpoint | None = None):
        # random: drivers in two containers may start in the same second with the same process id
        self.name = config.name or time.strftime("headrace_%Y-%m-%d_%H-%M-%S") + f"_{secrets.token_hex(4)}"
        self.path: Place = places.of(config.storage_path, config.storage_options) / self.name
        self.config: CheckpointConfig = config.checkpoint_config
        self.metadata = metadata
        self.start = start
        self.changed = threading.Condition()
        self.history: list[dict[str, Any]] = []
        self.datasets: dict[str, dict[str, int]] = {}  # see Result
        self.kept: list[Kept] = []
        self.finished = False
        self.next_index = 0
        self._whole_index = 0  # the next one after those of whole checkpoints
        self._reserved: set[str] = set()  # names of targets
        self._attempt = 0
        self._next_write = 0.0
        self._reported = False
        self._version = ""  # of progress.json in a store
        self._lost = False  # another driver has taken over the run
        self.lock = self._lock(self.path) if isinstance(self.path, Path) else None
        try:
            self._load()
        except BaseException:
            self._unlock()
            raise

    def _unlock(self) -> None:
        if self.lock is not None:
            self.lock.close()

    @staticmethod
    def _lock(path: Path) -> Lock:
        with files.explained("the driver", path, 0):
            path.mkdir(parents=True, exist_ok=True)
        lock = Lock(path / LOCK_FILE, create=True)
        if not lock.is_ours():
            raise RuntimeError(
                f"{path}: another driver is writing this run{lock.holder()}; wait for its end, or give "
                "RunConfig(name=...) another name"
            )
        lock.sign(f"pid {os.getpid()} on {socket.gethostname()} since {time.strftime('%Y-%m-%d %H:%M:%S')}")
        return lock

    def _load(self) -> None:
        """Takes over what an earlier driver has stored."""
        self.next_index = self._unused_index()
        self._whole_index = self.next_index
        known = self._read_progress()
        if known is None:
            there = [p.name for p in self.path.glob("checkpoint_*")]
            if files.folders_with(self.path, STATE_FILE, there):
                raise RuntimeError(
                    f"{self.path}: expected {PROGRESS_FILE} beside the checkpoints of an earlier run, found "
                    "none; put it back, or give RunConfig(name=...) another name"
                )
            return
        self.history = known["metrics"]
        self.finished = known.get("finished", False)
        self.datasets = known.get("datasets", {}) if self.finished else {}
        listed = [c["name"] for c in known["checkpoints"]]
        whole = files.folders_with(self.path, STATE_FILE, listed)
        for c in known["checkpoints"]:
            if c["name"] in whole:
                reports = c.get("reports", len(self.history))
                made = self._checkpoint(self.path / c["name"])
                self.kept.append(Kept(c["name"], made, c["metrics"], reports, c.get("validation")))
            elif isinstance(self.path, StorePath):
                files.remove(self.path / c["name"])  # its driver died while it removed it
        if self.kept:
            state = read_json(self.path / self.kept[-1].name / STATE_FILE) or {}
            self._whole_index = max(self.next_index, state.get("index", -1) + 1)

    def _unused_index(self) -> int:
        """The first index after those of folders that are there."""
        found = (re.fullmatch(r"checkpoint_(\d{6,})", path.name) for path in self.path.iterdir())
        return max((int(m[1]) for m in found if m), default=-1) + 1

    @property
    def options(self) -> places.Options | None:
        """How the run's store is reached."""
        return self.path.options if isinstance(self.path, StorePath) else None

    def _checkpoint(self, folder: Place) -> Checkpoint:
        return Checkpoint(str(folder), storage_options=self.options)

    def _read_progress(self) -> dict[str, Any] | None:
        path = self.path / PROGRESS_FILE
        if not isinstance(path, StorePath):
            return read_json(path)
        try:
            data, self._version = path.read_versioned()
        except FileNotFoundError:
            return None
        return parsed(path, data.decode())

    def close(self) -> None:
        """Ends the run: removes what is incomplete."""
        try:
            if self._next_write and not self._lost:
                self._write_progress(self.kept)
            self._remove_leftovers()
        except (OSError, TakenOverError) as e:
            print(f"the driver cannot store the run's last reports: {e}", file=sys.stderr)
        finally:
            self._unlock()

    @_guarded
    def begin(self) -> dict[str, Any] | None:
        """Before workers start: removes incomplete checkpoints of earlier workers, and the reports after the
        point from which the next workers go on. Returns that point's state: "workers", "counts", "datasets",
        "where"; None: the beginning.
        """
        self._attempt += 1
        if isinstance(self.path, StorePath):
            self._take_over(self.path)
        self._remove_leftovers()
        self._reserved.clear()
        self.next_index = self._whole_index
        self._prune()
        state = self._state()
        del self.history[state["reports"] if state else 0 :]
        self.datasets = state["counts"] if state else {}
        self.finished = False
        self._write_progress(self.kept)
        return state

    def _state(self) -> dict[str, Any] | None:
        if self.kept:
            newest = self.kept[-1]
            state = read_json(self.path / newest.name / STATE_FILE) or {}
            reports, where = newest.reports, newest.name
        else:
            state = read_json(self.path / POSITIONS_FILE)
            if state is None:
                return None
            reports, where = state["reports"], POSITIONS_FILE
        return {
            "workers": state.get("workers"),
            "counts": state.get("counts", {}),
            "datasets": state.get("datasets", {}),
            "reports": reports,
            "where": f"{self.path / where}",
        }

    def _take_over(self, run: StorePath) -> None:
        """Makes this driver the only one that can write progress.json; removes what another one has begun.
        The names of checkpoints on which a process of another machine may still be at work are not used
        again: its files could come late.
        """
        self._write_progress(self.kept)
        newest = read_json(run / self.kept[-1].name / STATE_FILE) if self.kept else None
        used = [(newest or {}).get("index", -1)]
        for marker in run.glob(f"{UPLOAD}*"):
            index = marker.name.removeprefix(UPLOAD).partition(".")[0]
            if index.isdigit() and not files.is_leftover(marker, owned=False):
                used.append(int(index))
            self._remove_upload(marker)
        run.abort_uploads()
        self._whole_index = max(self._unused_index(), *(index + 1 for index in used))

    def _remove_leftovers(self) -> None:
        owned = self.lock is not None and self.lock.state is True
        for marker in self.path.glob(f"{UPLOAD}*"):
            if files.is_leftover(marker, owned):
                self._remove_upload(marker)
        if isinstance(self.path, StorePath):
            return  # it has no other files that wait for a name
        for pattern in (f"{STAGING}*", f"{files.REMOVED}*", f"{files.PART}*"):
            for left in self.path.glob(pattern):
                if files.is_leftover(left, owned):
                    files.remove(left)

    @property
    def latest(self) -> Checkpoint | None:
        """The newest checkpoint of the run."""
        return self.kept[-1].checkpoint if self.kept else None

    @property
    def resumed(self) -> Checkpoint | None:
        """What get_checkpoint() gives."""
        return self.latest or self.start

    @_guarded
    def latest_place(self) -> str | None:
        """Where this run's rows go on: path of the newest checkpoint, or of the positions without one."""
        if self.latest is not None:
            return self.latest.path
        positions = self.path / POSITIONS_FILE
        return f"{positions}" if read_json(positions) is not None else None

    def restart_place(self) -> str | None:
        """The same for a restart, which may begin with another run's checkpoint; None: the beginning."""
        return self.latest_place() or (self.start.path if self.start else None)

    @_guarded
    def reported(self) -> list[tuple[str, dict[str, Any], str]]:
        """Path, metrics and status of each checkpoint that the run keeps, the oldest first."""
        return [(k.checkpoint.path, dict(k.metrics), k.status) for k in self.kept]

    @_guarded
    def waiting(self) -> list[Kept]:
        """The checkpoints that wait for their validation, the oldest first."""
        return [k for k in self.kept if k.waits]

    @_guarded
    def validated(
        self, kept: Kept, status: str, metrics: dict[str, Any], error: str, write: bool = True
    ) -> None:
        """Ends a checkpoint's validation: adds its metrics to those of its report, in the history too. An
        error changes nothing. write: to progress.json now.
        """
        reports = [kept.metrics, *self.history[kept.reports - 1 : kept.reports]]
        before = kept.validation, [dict(report) for report in reports]
        kept.validation = {**kept.validation, "status": status, **({"error": error} if error else {})}
        for report in reports:
            report.update(metrics)
        try:
            if write:
                self._write_progress(self.kept)
        except BaseException:
            kept.validation = before[0]
            for report, old in zip(reports, before[1], strict=True):
                report.clear()
                report.update(old)
            raise
        self._prune()
        self.changed.notify_all()

    @_guarded
    def reserve(self, dir_name: str | None, by_function: bool) -> Target:
        """The next checkpoint, to which the workers now copy their files. by_function: the user's function
        puts them into the folder of that name; what it leaves behind if it fails is removed, too.
        """
        if dir_name is not None and (os.sep in dir_name or dir_name.startswith(".")):
            raise ValueError(f"report(checkpoint_dir_name={dir_name!r}): expected a plain folder name")
        while dir_name is None and self._is_taken(self.path / f"checkpoint_{self.next_index:06d}"):
            self.next_index += 1
        name = dir_name or f"checkpoint_{self.next_index:06d}"
        final = self.path / name
        if name in self._reserved or (dir_name is not None and self._is_taken(final)):
            raise FileExistsError(f"report(checkpoint_dir_name={name!r}): {final} exists already")
        own = f"{self.next_index:06d}.{self._attempt}-{_core.process_name()}"
        at_once = by_function or isinstance(self.path, StorePath)  # under its own name
        marker = self.path / f"{UPLOAD}{own}" if at_once else None
        if marker is not None:
            files.write_whole(marker, name, "the driver")
        folder = final if at_once else self.path / f"{STAGING}{own}"
        target = Target(self.next_index, name, folder, marker, by_function)
        self._reserved.add(name)
        self.next_index += 1
        return target

    @staticmethod
    def _is_taken(folder: Place) -> bool:
        return folder.is_dir() if isinstance(folder, StorePath) else folder.exists()

    @_guarded
    def discard(self, target: Target | None) -> None:
        """Removes what the workers have copied for a checkpoint that does not become whole."""
        if target is None:
            return
        self._reserved.discard(target.name)
        self._attempt += 1
        if target.index == self.next_index - 1:
            self.next_index = target.index
        if target.marker is not None:
            self._remove_upload(target.marker)
        else:
            files.remove(target.folder)

    def _remove_upload(self, marker: Place) -> None:
        """Removes the folder that a user's function has filled, unless it is a checkpoint."""
        try:
            name = marker.read_text(encoding="utf-8")
        except OSError:
            return
        if name and all(Path(k.name).parts[0] != name for k in self.kept):
            files.remove(self.path / name)
        files.remove(marker)

    @_guarded
    def commit(
        self,
        metrics: dict[str, Any],
        target: Target | None,
        place: str | None,
        state: dict[str, Any] | None,
        wanted: dict[str, Any] | None = None,
    ) -> Checkpoint | None:
        """Stores one report of all workers; target: its checkpoint, whose files are in the folder `place`;
        state: "workers" and "datasets"; wanted: the checkpoint waits for this validation. Returns the
        checkpoint, complete, or None. An error stores nothing.
        """
        self.history.append(dict(metrics))
        if target is None:
            self._write_progress_now_and_then()
            return None
        try:
            folder = self.folder_of(place) if place else target.folder
            new = self._prepare(dict(metrics), target, folder, state or {}, wanted)
        except BaseException:
            self.history.pop()
            self.discard(target)
            raise
        self.kept.append(new)
        self._reserved.discard(target.name)
        self._whole_index = max(self._whole_index, target.index + 1)
        if isinstance(self.path, Path):
            files.sync_folder(self.path)
        if target.marker is not None:
            files.remove(target.marker)
        self._prune()
        self.changed.notify_all()
        return new.checkpoint

    def _prepare(
        self,
        metrics: dict[str, Any],
        target: Target,
        folder: Place,
        state: dict[str, Any],
        wanted: dict[str, Any] | None,
    ) -> Kept:
        """Makes a checkpoint of the files that the workers have copied."""
        ours = folder == target.folder and not target.by_function
        staged = ours and target.marker is None
        name = target.name if ours else self._name_of(folder)
        final = self.path / name
        if staged and final.exists():
            raise FileExistsError(f"report(checkpoint_dir_name={name!r}): {final} exists already")
        with files.explained("the driver", final, 0):
            made = self._checkpoint(folder)
            if self.metadata:
                made.set_metadata({**self.metadata, **made.get_metadata()})
            text = json.dumps({"version": VERSION, "index": target.index, **self._counted(state)})
            files.write_whole(folder / STATE_FILE, text, "the driver")
            new = Kept(name, self._checkpoint(final), metrics, len(self.history))
            if wanted is not None:
                new.validation = {"wanted": wanted, "status": "PENDING_VALIDATION"}
            self._write_progress([*self.kept, new])
            if staged:
                os.rename(str(folder), str(final))
        events.tell(events.TRAIN, "run %s: checkpoint %s is stored", self.name, final)
        return new

    def folder_of(self, place: str) -> Place:
        """The folder of this path, which a worker or a user's function names."""
        return places.of(place, self.options)

    def inside(self, folder: Place) -> PurePath:
        """The path of a folder below the run's folder. Raises ValueError if it is elsewhere."""
        run, found = self.path.resolve(), folder.resolve()
        if found == run or type(found) is not type(run) or not found.is_relative_to(run):
            raise ValueError(
                f"report(checkpoint=...): expected a folder below the run's folder {self.path} (with "
                "NO_UPLOAD, or from checkpoint_upload_fn; its path is "
                f"get_context().get_storage().experiment_fs_path), found {folder}"
            )
        return found.relative_to(run)

    def _name_of(self, folder: Path) -> str:
        """The name of a folder that the user filled, below the run's folder."""
        name = self.inside(folder)
        run, found = self.path.resolve(), folder.resolve()
        if not found.is_dir():
            raise FileNotFoundError(f"report(checkpoint=...): {folder}: the folder does not exist")
        for kept in self.kept:
            there = (run / kept.name).resolve()
            if found.is_relative_to(there) or there.is_relative_to(found):
                raise ValueError(
                    f"report(checkpoint=...): {folder}: expected a folder of its own, found one that shares "
                    f"files with the run's checkpoint {kept.name}"
                )
        return str(name)

    def keep_positions(self, state: dict[str, Any]) -> None:
        """Stores positions without a checkpoint; see positions.py. From any thread."""
        state = {"version": VERSION, "reports": len(self.history), **self._counted(state)}
        files.write_whole(self.path / POSITIONS_FILE, json.dumps(state), "the driver")

    def _score(self, metrics: dict[str, Any]) -> float:
        attribute = self.config.checkpoint_score_attribute
        value = metrics.get(attribute) if attribute else None
        if value is None:
            return float("-inf")
        value = float(value)
        return value if self.config.checkpoint_score_order == "max" else -value

    def _prune(self) -> None:
        limit = self.config.num_to_keep
        if limit is None or len(self.kept) <= limit:
            return
        # Never the newest: a restart begins there. One that waits has no score yet, and no better one goes
        # in its place.
        worst = sorted(self.kept[:-1], key=lambda k: self._score(k.metrics))[: len(self.kept) - limit]
        for kept in worst:
            if not kept.waits:
                self.kept.remove(kept)
                files.remove(self.path / kept.name)

    def _write_progress_now_and_then(self) -> None:
        """Reports without a checkpoint do not survive a crash anyway: their file costs 2 % of the time."""
        if time.monotonic() < self._next_write:
            return
        try:
            self._write_progress(self.kept)
        except OSError as e:
            if not self._reported:
                print(f"the driver cannot store reports for now: {e}", file=sys.stderr)
            self._reported = True

    def _write_progress(self, kept: list[Kept]) -> None:
        began = time.monotonic()
        text = json.dumps(
            {
                "version": VERSION,
                "finished": self.finished,
                "metrics": self.history,
                "datasets": self.datasets,
                "checkpoints": [k.listed() for k in kept],
            },
            default=plain,
        )
        self._store_progress(text)
        now = time.monotonic()
        self._next_write = now + WRITE_SHARE * (now - began)

    def _store_progress(self, text: str) -> None:
        path = self.path / PROGRESS_FILE
        if not isinstance(path, StorePath):
            files.write_whole(path, text, "the driver")
            return
        try:
            with files.sent("the driver"):
                self._version = path.write(text.encode(), self._version)
        except _core.MismatchError:
            self._lost = True
            raise TakenOverError(
                f"{self.path}: another driver has taken over this run; end one of the two, or give "
                "RunConfig(name=...) another name"
            ) from None

    def count(self, counts: dict[str, dict[str, int]]) -> None:
        """Adds what the shards of one attempt of fit() have counted, for Result.datasets."""
        self.datasets = _sums(self.datasets, counts)

    def _counted(self, state: dict[str, Any]) -> dict[str, Any]:
        """The state with the counts of the whole run, from which a restart goes on."""
        return {**state, "counts": _sums(self.datasets, state["counts"])} if "counts" in state else state

    def finish(self, return_value: Any) -> Result:
        """The train loop has ended on all workers."""
        self.finished = True
        events.tell(
            events.TRAIN, "run %s: the workers have finished after %d reports", self.name, len(self.history)
        )
        return self.result(return_value)

    def result(self, return_value: Any) -> Result:
        return Result(
            metrics=self.history[-1] if self.history else None,
            checkpoint=self.latest,
            error=None,
            path=str(self.path),
            best_checkpoints=[(k.checkpoint, k.metrics) for k in self.kept],
            return_value=return_value,
            history=self.history,
            datasets=self.datasets,
            validation_failures={
                k.name: k.validation["error"] for k in self.kept if "error" in (k.validation or {})
            },
        )


def _sums(a: dict[str, dict[str, int]], b: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    """name -> what -> the sum of both."""
    out = {name: dict(counts) for name, counts in a.items()}
    for name, counts in b.items():
        mine = out.setdefault(name, {})
        for what, n in counts.items():
            mine[what] = mine.get(what, 0) + n
    return out


def read_json(path: Place) -> dict[str, Any] | None:
    """The dict in a file of this module; None: there is no file."""
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    return parsed(path, text)


def parsed(path: Place, text: str) -> dict[str, Any]:
    try:
        known = json.loads(text)
        version = known.get("version", VERSION)
    except (ValueError, AttributeError):
        raise RuntimeError(
            f"{path}: expected a JSON object that a trainer wrote, found {text!r:.60}"
        ) from None
    if version != VERSION:
        raise RuntimeError(f"{path}: expected version {VERSION}, found {version!r:.30} of another Headrace")
    return known
