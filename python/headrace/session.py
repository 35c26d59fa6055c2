"""init(), shutdown(), put(), get() and their like, for programs written for Ray: nothing starts."""

from __future__ import annotations

import os
from typing import Any, NoReturn, Self, TypeVar

from headrace.exceptions import InvalidArgument, UnsupportedError
from headrace.settings import hint

_KEYWORDS = (
    "num_cpus num_gpus resources labels object_store_memory local_mode include_dashboard dashboard_host "
    "dashboard_port job_config configure_logging logging_level logging_format logging_config log_to_driver "
    "namespace runtime_env enable_resource_isolation cgroup_path system_reserved_cpu system_reserved_memory "
    "proxy_server_url"
).split()
_initialized = False

T = TypeVar("T")


class Session(dict):
    """What init() returns; Ray's address_info, empty, and a context manager that ends with shutdown()."""

    dashboard_url = None
    address_info: dict = {}

    def disconnect(self):
        shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: Any) -> None:
        shutdown()


def init(address: str | None = None, *, ignore_reinit_error: bool = False, **options: Any) -> Any:
    """Starts nothing: Headrace runs in this process. Accepts Ray's keywords, without effect.

    Memory and threads are set by DataContext.memory_limit_bytes and num_threads.

    Raises:
        UnsupportedError: address names a cluster.
        RuntimeError: init() was called before, without ignore_reinit_error.
        InvalidArgument: a keyword that Ray does not have.
    """
    global _initialized
    unknown = [name for name in options if name not in _KEYWORDS and not name.startswith("_")]
    if unknown:
        raise InvalidArgument(
            f"init: unknown argument {unknown[0]!r}; expected those of ray.init()"
            + hint(unknown[0], _KEYWORDS)
        )
    if address not in (None, "auto", "local"):
        raise UnsupportedError(
            f"init: address {address!r:.80}: Headrace runs in this process and connects to no cluster; leave "
            "out address"
        )
    if _initialized and not ignore_reinit_error:
        raise RuntimeError("init: called before; give ignore_reinit_error=True, or call shutdown() first")
    _initialized = True
    return Session()


def shutdown(**ignored: Any) -> None:
    """Forgets init(). Datasets stay usable."""
    global _initialized
    _initialized = False


def is_initialized() -> bool:
    """Whether init() was called, and shutdown() not since. Headrace works without either."""
    return _initialized


def put(value: T, **ignored: Any) -> T:
    """Returns the value: objects stay in this process and need no references."""
    return value


def get(object_refs: Any, *, timeout: float | None = None, **ignored: Any) -> Any:
    """Returns what put() returned: an object, or a list of objects."""
    return object_refs


def wait(
    ray_waitables: Any, *, num_returns: int = 1, timeout: float | None = None, fetch_local: bool = True
) -> tuple[list[Any], list[Any]]:
    """(the first num_returns objects, the others): all are there."""
    refs = list(ray_waitables)
    if not 1 <= num_returns <= len(refs):
        raise ValueError(f"wait: num_returns: expected 1 to {len(refs)}, found {num_returns!r:.50}")
    return refs[:num_returns], refs[num_returns:]


def cluster_resources() -> dict[str, float]:
    """{"CPU": cores that this process may use, "GPU": its GPUs (left out if none), "memory": bytes}. The
    cores are those of its affinity, at most those of its control group's quota.
    """
    from headrace._core import cpus_allowed
    from headrace.udf import gpus

    found = {"CPU": float(cpus_allowed())}
    if devices := gpus.visible():
        found["GPU"] = float(len(devices))
    return found | {"memory": float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))}


available_resources = cluster_resources


def get_gpu_ids() -> list[int | str]:
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them: numbers, or texts. In a
    function with num_gpus=n these are the n GPUs of its worker.
    """
    from headrace.udf import gpus

    return [int(device) if device.isdigit() else device for device in gpus.visible()]


def remote(*args: Any, **kwargs: Any) -> NoReturn:
    """Not here. UnsupportedError says what to use."""
    raise UnsupportedError(
        "headrace.remote: tasks and actors are Ray's own: call ray.remote for them beside Headrace, or "
        "Dataset.map, map_batches and their classes for functions over rows"
    )
