"""Training with PyTorch: a process group of the workers, and models and loaders prepared for it."""

from __future__ import annotations

import os
import pickle
import random
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from headrace import absent
from headrace.optional import missing
from headrace.settings import OnlyKnown
from headrace.train import context
from headrace.train.backend import BackendConfig
from headrace.train.checkpoint import Checkpoint
from headrace.train.config import DataConfig, RunConfig, ScalingConfig
from headrace.train.trainer import DataParallelTrainer
from headrace.train.validation_config import ValidationConfig

try:
    import torch
    import torch.distributed as dist
except ImportError as e:
    raise missing(e, "headrace.train.torch") from None


@dataclass
class TorchConfig(OnlyKnown, BackendConfig):
    """backend: "gloo", "nccl", or None (ScalingConfig(use_gpu) decides). init_method: "env". timeout_s: the
    limit of collective operations.
    """

    _names = {"backend": "str|None", "init_method": "str", "timeout_s": "int"}

    backend: str | None = None
    init_method: str = "env"
    timeout_s: int = 1800

    def __post_init__(self) -> None:
        if self.init_method != "env":
            raise NotImplementedError(
                f"TorchConfig(init_method={self.init_method!r}): only 'env' is supported"
            )
        if self.timeout_s <= 0:
            raise ValueError(f"TorchConfig(timeout_s={self.timeout_s}): expected more than 0 seconds")

    def start(self, session: context.Session) -> None:
        """Joins the process group. Each worker calls it before the train loop."""
        if "OMP_NUM_THREADS" not in os.environ:
            cpus = len(os.sched_getaffinity(0))
            torch.set_num_threads(max(1, cpus // session.local_world_size))
        if session.use_gpu:
            if not torch.cuda.is_available():
                raise RuntimeError("ScalingConfig(use_gpu=True): torch sees no CUDA device on this machine")
            torch.cuda.set_device(get_device())
        backend = self.backend or ("nccl" if session.use_gpu else "gloo")
        dist.init_process_group(backend, init_method="env://", timeout=timedelta(seconds=self.timeout_s))

    def stop(self) -> None:
        if dist.is_initialized():
            dist.destroy_process_group()


class TorchTrainer(DataParallelTrainer):
    """Runs a train loop on several processes that form a torch.distributed process group.

    train_loop_per_worker: the function that each worker calls, with train_loop_config (a dict, {} by default)
        if it takes an argument. It gets its data by train.get_dataset_shard(name) and reports by
        train.report(metrics, checkpoint).
    datasets: name -> Dataset; dataset_config divides them among the workers (default: all are split).
    metadata: a value that JSON can hold; every checkpoint has it (Checkpoint.get_metadata()), and so has
    get_context().get_metadata().
    validation_config: the function that validates checkpoints of report(validation=True) while the training
        goes on.
    resume_from_checkpoint: what get_checkpoint() gives until the run has a checkpoint of its own. The
    datasets begin at their start.

    A new trainer with the same RunConfig(name, storage_path) continues a run whose driver was interrupted:
    see fit() and docs/training.md.

    Functions of a script or a notebook travel to the workers by value: no `if __name__ == "__main__"` is
    necessary.
    """

    _config = ("torch_config", TorchConfig)

    def __init__(
        self,
        train_loop_per_worker: Callable[[], Any] | Callable[[dict[str, Any]], Any],
        *,
        train_loop_config: dict[str, Any] | None = None,
        torch_config: TorchConfig | None = None,
        scaling_config: ScalingConfig | None = None,
        run_config: RunConfig | None = None,
        datasets: dict[str, Any] | None = None,
        dataset_config: DataConfig | None = None,
        metadata: dict[str, Any] | None = None,
        validation_config: ValidationConfig | None = None,
        resume_from_checkpoint: Checkpoint | None = None,
    ):
        super().__init__(
            train_loop_per_worker,
            train_loop_config=train_loop_config,
            backend_config=torch_config,
            scaling_config=scaling_config,
            run_config=run_config,
            datasets=datasets,
            dataset_config=dataset_config,
            metadata=metadata,
            validation_config=validation_config,
            resume_from_checkpoint=resume_from_checkpoint,
        )


def _use_gpu() -> bool:
    return context._session is not None and context._session.use_gpu


def get_device() -> torch.device:
    """The device of this worker: with ScalingConfig(use_gpu=True) the CUDA device of its local rank,
    otherwise the CPU.
    """
    if _use_gpu() and torch.cuda.is_available():
        return torch.device("cuda", context._session.local_rank % torch.cuda.device_count())
    return torch.device("cpu")


def get_devices() -> list[torch.device]:
    """The list of this worker's one device."""
    return [get_device()]


def prepare_model(
    model: torch.nn.Module,
    move_to_device: bool | torch.device = True,
    parallel_strategy: Literal["ddp", "fsdp"] | None = "ddp",
    parallel_strategy_kwargs: dict[str, Any] | None = None,
) -> torch.nn.Module:
    """The model on this worker's device and, with more than one worker, wrapped in DistributedDataParallel
    ("ddp") or FullyShardedDataParallel ("fsdp", also on the CPU), which get parallel_strategy_kwargs.
    """
    if parallel_strategy not in ("ddp", "fsdp", None):
        raise ValueError(
            f"prepare_model(parallel_strategy={parallel_strategy!r}): expected 'ddp', 'fsdp' or None"
        )
    device = move_to_device if isinstance(move_to_device, torch.device) else get_device()
    if move_to_device:
        model = model.to(device)
    if parallel_strategy is None or not dist.is_initialized() or dist.get_world_size() < 2:
        return model
    kwargs = dict(parallel_strategy_kwargs or {})
    if parallel_strategy == "fsdp":
        from torch.distributed.fsdp import FullyShardedDataParallel

        if device.type == "cpu":  # without device_id it takes the machine's accelerator, or none is an error
            kwargs = {"device_id": device, **kwargs}
        return FullyShardedDataParallel(model, **kwargs)
    if device.type == "cuda":
        kwargs = {"device_ids": [device], "output_device": device, **kwargs}
    return torch.nn.parallel.DistributedDataParallel(model, **kwargs)


class _MovedLoader:
    """A loader that moves tensors to `device`."""

    def __init__(self, loader: torch.utils.data.DataLoader, device: torch.device):
        self._loader = loader
        self._device = device

    def __getattr__(self, name: str):
        return getattr(self._loader, name)

    def __len__(self) -> int:
        return len(self._loader)

    def _moved(self, item: Any) -> Any:
        if isinstance(item, torch.Tensor):
            return item.to(self._device, non_blocking=True)
        if isinstance(item, dict):
            return {k: self._moved(v) for k, v in item.items()}
        if isinstance(item, tuple) and hasattr(item, "_fields"):
            return type(item)(*map(self._moved, item))
        if isinstance(item, (list, tuple)):
            return type(item)(map(self._moved, item))
        return item

    def __iter__(self):
        return map(self._moved, self._loader)


def _with_sampler(loader: torch.utils.data.DataLoader) -> torch.utils.data.DataLoader:
    """The same loader over this rank's share of the items."""
    from torch.utils.data import DataLoader, DistributedSampler, SequentialSampler

    if loader.batch_sampler is not None and type(loader.batch_sampler) is not torch.utils.data.BatchSampler:
        warnings.warn(
            "prepare_data_loader: keeps the loader's own batch_sampler; every rank reads all items",
            stacklevel=3,
        )
        return loader
    return DataLoader(
        loader.dataset,
        batch_size=loader.batch_size,
        sampler=DistributedSampler(loader.dataset, shuffle=not isinstance(loader.sampler, SequentialSampler)),
        num_workers=loader.num_workers,
        collate_fn=loader.collate_fn,
        pin_memory=loader.pin_memory,
        drop_last=loader.drop_last,
        timeout=loader.timeout,
        worker_init_fn=loader.worker_init_fn,
        generator=loader.generator,
        multiprocessing_context=loader.multiprocessing_context,
        persistent_workers=loader.persistent_workers,
        prefetch_factor=loader.prefetch_factor,
    )


def prepare_data_loader(
    data_loader: torch.utils.data.DataLoader[Any],
    add_dist_sampler: bool = True,
    move_to_device: bool = True,
    auto_transfer: bool = True,
) -> Any:
    """A torch DataLoader for this rank: with a DistributedSampler (call loader.sampler.set_epoch), and
    tensors on the rank's device.

    Datasets of headrace.data do not need it: get_dataset_shard(...).iter_torch_batches(...).
    """
    many = dist.is_initialized() and dist.get_world_size() > 1
    iterable = isinstance(data_loader.dataset, torch.utils.data.IterableDataset)
    has_one = isinstance(data_loader.sampler, torch.utils.data.DistributedSampler)
    if many and add_dist_sampler and not iterable and not has_one:
        data_loader = _with_sampler(data_loader)
    device = get_device()
    return _MovedLoader(data_loader, device) if move_to_device and device.type != "cpu" else data_loader


def enable_reproducibility(seed: int = 0) -> None:
    """Seeds random, NumPy and torch, and selects deterministic algorithms. Datasets are repeatable without
    it.
    """
    import numpy

    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    random.seed(seed)
    numpy.random.seed(seed % 2**32)
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False


class TorchCheckpoint(Checkpoint):
    """A checkpoint with a model, and perhaps a preprocessor, under Ray's names."""

    MODEL_FILENAME = "model.pt"

    @classmethod
    def from_state_dict(cls, state_dict: dict[str, Any], *, preprocessor: Any = None) -> TorchCheckpoint:
        """A new temporary folder with a model's state_dict(), without the "module." of
        DistributedDataParallel. preprocessor: a fitted one, stored as readable JSON.
        """
        plain = {name.removeprefix("module."): value for name, value in state_dict.items()}
        return cls._of(plain, preprocessor)

    @classmethod
    def from_model(cls, model: torch.nn.Module, *, preprocessor: Any = None) -> TorchCheckpoint:
        """A new temporary folder with the pickled model. Code that loads it runs what the pickle says:
        from_state_dict() has only values.
        """
        return cls._of(model, preprocessor)

    @classmethod
    def _of(cls, saved: Any, preprocessor: Any) -> TorchCheckpoint:
        made = cls(tempfile.mkdtemp(prefix="headrace-checkpoint-"))
        torch.save(saved, os.path.join(made.path, cls.MODEL_FILENAME))
        if preprocessor is not None:
            made.set_preprocessor(preprocessor)
        return made

    def get_model(self, model: torch.nn.Module | None = None) -> torch.nn.Module:
        """`model` with the stored values; without `model` the stored model, for checkpoints of from_model():
        only for folders that you trust.
        """
        with self.as_directory() as folder:
            return self._loaded(os.path.join(folder, self.MODEL_FILENAME), model)

    @staticmethod
    def _loaded(path: str, model: torch.nn.Module | None) -> torch.nn.Module:
        if not os.path.exists(path):
            raise FileNotFoundError(f"{path}: expected the model of a TorchCheckpoint, found no such file")
        if model is None:
            found = torch.load(path, map_location="cpu", weights_only=False)
            if isinstance(found, torch.nn.Module):
                return found
            raise ValueError(
                f"{path}: expected a whole model, found a state_dict: call get_model(model) with a model of "
                "the same shape"
            )
        try:
            values = torch.load(path, map_location="cpu", weights_only=True)
        except pickle.UnpicklingError:  # of from_model(): its own values count, as in Ray
            return torch.load(path, map_location="cpu", weights_only=False)
        model.load_state_dict(values)
        return model

    def set_preprocessor(self, preprocessor: Any) -> None:
        """Stores a fitted preprocessor in the metadata."""
        self.update_metadata({_PREPROCESSOR: preprocessor.serialize()})

    def get_preprocessor(self) -> Any:
        """The stored preprocessor, or None."""
        text = self.get_metadata().get(_PREPROCESSOR)
        if text is None:
            return None
        from headrace.data.preprocessor import Preprocessor

        return Preprocessor.deserialize(text)


_PREPROCESSOR = "preprocessor"

if not TYPE_CHECKING:
    __getattr__ = absent.hook("headrace.train.torch")

__all__ = [
    "TorchCheckpoint",
    "TorchConfig",
    "TorchTrainer",
    "enable_reproducibility",
    "get_device",
    "get_devices",
    "prepare_data_loader",
    "prepare_model",
]
