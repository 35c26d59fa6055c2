"""What make_loader returns, and that with other options: a torch loader rebuilt, converted, or called again.

Runs in the process of one configuration. Tests: test_tune.py.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import itertools
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from headrace._core import InvalidArgument, NotFoundError
from headrace.optional import package
from headrace.settings import hint
from headrace.tune.configurations import (
    GIVEN,
    HEADRACE,
    HEADRACE_LOADER,
    KNOBS,
    TORCH,
    Configuration,
    Target,
)

BATCH = 32  # rows of a batch, of a Dataset without a loader
LIBRARIES = (
    "dask",
    "xarray",
    "zarr",
    "cv2",
    "polars",
    "numexpr",
    "tensorflow",
)  # that start threads of their own
WINDOW = 1024  # rows of the window in which Headrace shuffles, for a loader with shuffle=True


def load(where: str) -> Any:
    """The object `path.py:name` or `module:name`. NotFoundError, InvalidArgument: there is no such one."""
    place, colon, name = where.rpartition(":")
    if not colon or not place or not name.isidentifier():
        raise InvalidArgument(f"{where!r}: expected FILE.py:NAME or MODULE:NAME")
    module = _of_file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
    try:
        return getattr(module, name)
    except AttributeError:
        names = [n for n in vars(module) if not n.startswith("_")]
        raise InvalidArgument(f"{place} has no {name!r}" + hint(name, names)) from None


def _of_file(path):
    """The module of a file, under its own name: worker processes of any start method can import it."""
    path = path.resolve()
    if not path.is_file():
        raise NotFoundError(f"{path}: no such file")
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    found = sys.modules.get(path.stem)
    if found is not None and getattr(found, "__file__", None) == str(path):
        return found
    if found is None and "." not in path.stem:
        return importlib.import_module(path.stem)
    spec = importlib.util.spec_from_file_location(f"headrace_tune_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def function_of(request: dict[str, Any], name: str) -> Any:
    """The object of a request: by its place, or pickled."""
    where, pickled = request[name]
    return load(where) if where else pickle.loads(pickled)


def called(target: Any, options: dict[str, Any]) -> Any:
    """What make_loader returns; a loader that was given instead stays."""
    if not callable(target) or kind_of(target) != "":
        return target
    return target(**options)


def kind_of(made: Any) -> str:
    """The kind of Target; "" for what is no loader."""
    utils = sys.modules.get("torch.utils.data")
    if utils and isinstance(made, utils.DataLoader):
        return "loader"
    if utils and isinstance(made, utils.IterableDataset):
        return "stream"
    if utils and isinstance(made, utils.Dataset):
        return "dataset" if hasattr(made, "__getitem__") and hasattr(made, "__len__") else "iterable"
    if hasattr(made, "iter_torch_batches"):
        return "headrace"
    if isinstance(made, type) or callable(made):
        return ""
    if hasattr(made, "__iter__"):
        return "iterable"
    by_index = hasattr(made, "__getitem__") and hasattr(made, "__len__")  # torch's DataLoader takes it, too
    return "dataset" if by_index and importlib.util.find_spec("torch") else ""


class Loaders:
    """Makes the iterable of a configuration.

    limit: batches of an epoch that are measured. A rebuilt loader ends there by itself, so that the border of
    two epochs is as it will be. batch_size, shuffle: of a Dataset without a loader.
    """

    def __init__(self, target: Any, limit: int | None, batch_size: int | None, shuffle: bool) -> None:
        self.target, self.limit = target, limit
        self.batch_size, self.shuffle = batch_size or BATCH, shuffle

    def describe(self) -> tuple[Target, Any]:
        """The Target, and its batches as given."""
        takes = _parameters(self.target)
        made = called(self.target, {})
        kind = kind_of(made)
        if not kind:
            raise InvalidArgument(
                "expected a torch Dataset or DataLoader, a Headrace Dataset or an iterable of batches, "
                f"found {type(made).__name__}"
            )
        found = Target(kind, takes=takes)
        found.libraries = [name for name in LIBRARIES if name in sys.modules]
        if found.is_torch:
            loader = made if kind == "loader" else self._wrapped(made, kind)
            found.options = {k: _option(loader, k) for k in KNOBS}
            found.why_not = _why_not(loader)
            found.converts = not found.why_not
            found.spawns = not _is_of_main(loader.dataset)
            found.pins = _has_accelerator()
            made = loader
        try:
            found.batches = len(made)
        except (TypeError, NotImplementedError):
            found.batches = None
        return found, self._plain(made, kind)

    def make(self, configuration: Configuration) -> tuple[Any, bool]:
        """A fresh iterable for a configuration, and whether it ends after `limit` batches by itself."""
        self.ends = self.limit is None
        return self._made(configuration), self.ends

    def _made(self, configuration):
        options = configuration.options
        takes = _parameters(self.target)
        if configuration.library == GIVEN or takes and configuration.library == TORCH:
            made = called(self.target, options if takes else {})
            return self._plain(self._limited(made), kind_of(made))
        made = called(self.target, {})
        kind = kind_of(made)
        if kind == "headrace":
            return self._plain(made, kind, options)
        loader = made if kind == "loader" else self._wrapped(made, kind)
        if configuration.library == HEADRACE:
            return self._converted(loader, options)
        if configuration.library == HEADRACE_LOADER:
            from headrace.torch import DataLoader

            return self._rebuilt(loader, DataLoader, {"pin_memory": loader.pin_memory, **options})
        return self._rebuilt(loader, type(loader), {"pin_memory": loader.pin_memory, **options})

    def _wrapped(self, dataset, kind):
        shuffle = self.shuffle and kind == "dataset"
        return _torch_data().DataLoader(dataset, batch_size=self.batch_size, shuffle=shuffle)

    def _plain(self, made, kind, options=None):
        """What a for loop takes: batches."""
        if kind in ("dataset", "stream"):
            return self._wrapped(made, kind)
        if kind == "headrace":
            shuffled = {"local_shuffle_buffer_size": WINDOW} if self.shuffle else {}
            return made.iter_torch_batches(batch_size=self.batch_size, **shuffled, **(options or {}))
        return made

    def _limited(self, made):
        """A plain DataLoader that ends after `limit` batches; others end in the middle of an epoch."""
        data = sys.modules.get("torch.utils.data")
        if not data or type(made) is not data.DataLoader or self._first(made) is None:
            return made
        return self._rebuilt(made, type(made), {k: _option(made, k) for k in KNOBS})

    def _first(self, loader):
        """The number of items of `limit` batches; None if the loader ends by itself before."""
        if _is_stream(loader) or self.limit is None or len(loader) <= self.limit:
            return None
        return self.limit * (loader.batch_size or 1)

    def _ended(self, loader):
        """Notes that the loader ends by itself."""
        self.ends = self.ends or not _is_stream(loader)

    def _rebuilt(self, loader, kind, options):
        """A loader with other options and the same dataset, sampler and functions."""
        if not _takes_all(kind):
            kind = _torch_data().DataLoader
        given = {
            name: getattr(loader, name)
            for name in ("collate_fn", "timeout", "worker_init_fn", "generator", "in_order")
            if getattr(loader, name, None) is not None
        }
        self._ended(loader)
        first = self._first(loader)
        if loader.batch_size is None and loader.batch_sampler is not None:
            given["batch_sampler"] = _First(loader.batch_sampler, self.limit if first else None)
        else:
            given["batch_size"] = loader.batch_size
            if loader.batch_size is not None:
                given["drop_last"] = loader.drop_last
            if not _is_stream(loader):
                given["sampler"] = _First(loader.sampler, first)
        if not options.get("num_workers"):
            given["timeout"] = 0
            options = {k: v for k, v in options.items() if k in ("num_workers", "pin_memory")}
        return kind(loader.dataset, **given, **{k: v for k, v in options.items() if v is not None})

    def _converted(self, loader, given):
        """The batches of headrace.data.from_torch(dataset, **given)."""
        import headrace.data

        self._ended(loader)
        dataset, first = loader.dataset, self._first(loader)
        if first is not None:
            dataset = _torch_data().Subset(dataset, range(min(first, len(dataset))))
        rows = headrace.data.from_torch(dataset, **given)
        options = {"batch_size": loader.batch_size, "drop_last": loader.drop_last}
        if loader.batch_size is None:
            options = {"batch_size": 1, "collate_fn": only_row}
        if isinstance(loader.sampler, _torch_data().RandomSampler):
            options["local_shuffle_buffer_size"] = WINDOW
        return _AsGiven(rows.iter_torch_batches(**options), dataset)


class _AsGiven:
    """Batches of from_torch in the form of the loader's own, which the user's step takes: rows that are no
    dicts have the columns `item`, or `item_0`, `item_1`, ...
    """

    def __init__(self, batches: Iterable[dict[str, Any]], dataset: Any) -> None:
        self.batches, self.dataset = batches, dataset

    def __iter__(self) -> Iterator[Any]:
        if hasattr(self.dataset, "__getitem__") and isinstance(self.dataset[0], Mapping):
            return iter(self.batches)
        return map(_without_names, self.batches)


def _without_names(batch):
    if [*batch] == ["item"]:
        return batch["item"]
    if [*batch] == [f"item_{i}" for i in range(len(batch))]:
        return [*batch.values()]
    return batch


def only_row(batch: dict[str, Any]) -> dict[str, Any]:
    """The one row of a batch: a row of a dataset that makes whole batches."""
    torch = package("torch", "headrace.tune")
    return {
        k: torch.from_numpy(v[0]) if getattr(v[0], "ndim", 0) and v[0].dtype != object else v[0]
        for k, v in batch.items()
    }


class _First:
    """The first n of a sampler's indices; all of them for None."""

    def __init__(self, sampler: Any, n: int | None) -> None:
        self.sampler, self.n = sampler, n

    def __iter__(self) -> Iterator[Any]:
        return itertools.islice(iter(self.sampler), self.n)

    def __len__(self) -> int:
        return len(self.sampler) if self.n is None else min(self.n, len(self.sampler))


def _torch_data():
    return package("torch.utils.data", "headrace.tune")


def _is_stream(loader):
    return isinstance(loader.dataset, _torch_data().IterableDataset)


def _parameters(target: Callable[..., Any]) -> list[str]:
    """The KNOBS that make_loader takes."""
    if not callable(target) or kind_of(target):
        return []
    try:
        parameters = inspect.signature(target).parameters
    except (TypeError, ValueError):
        return []
    if any(p.kind == p.VAR_KEYWORD for p in parameters.values()):
        return list(KNOBS)
    return [k for k in KNOBS if k in parameters]


def _takes_all(kind):
    """Whether a class of loaders has the arguments of DataLoader; a subclass may have its own instead."""
    parameters = inspect.signature(kind).parameters
    return set(KNOBS) <= parameters.keys() or any(p.kind == p.VAR_KEYWORD for p in parameters.values())


def _option(loader, name):
    value = getattr(loader, name, None)
    if name == "multiprocessing_context" and value is not None:
        return value if isinstance(value, str) else value.get_start_method()
    return value


def _why_not(loader):
    """Why from_torch cannot stand for a loader; "" if it can."""
    data = _torch_data()
    collate = data._utils.collate
    if loader.collate_fn not in (collate.default_collate, collate.default_convert):
        return "the loader has a collate_fn of its own, which headrace.torch.DataLoader calls"
    if loader.worker_init_fn is not None:
        return "the loader has a worker_init_fn, which headrace.torch.DataLoader calls"
    if _is_stream(loader):
        return ""
    if loader.batch_size is None and loader.batch_sampler is not None:
        return "the loader has a batch_sampler of its own, which headrace.torch.DataLoader uses"
    if type(loader.sampler) not in (data.RandomSampler, data.SequentialSampler):
        return "the loader has a sampler of its own, which headrace.torch.DataLoader uses"
    if loader.batch_sampler is not None and type(loader.batch_sampler) is not data.BatchSampler:
        return "the loader has a batch_sampler of its own, which headrace.torch.DataLoader uses"
    return ""


def _is_of_main(dataset):
    module = type(dataset).__module__
    return module in ("__main__", "__mp_main__")


def _has_accelerator():
    return bool(package("torch", "headrace.tune").accelerator.is_available())
