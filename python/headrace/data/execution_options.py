"""ExecutionOptions and ExecutionResources: how a run works and what it may use. The names are Ray's."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterable
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar

from headrace import _core
from headrace.settings import OnlyKnown, check, hinted

INF = float("inf")
RESOURCES = ("cpu", "gpu", "object_store_memory", "memory")


def bytes_of(name, n, least, whole=False):
    """A number of bytes from a number or a text. whole: a fraction is an error; otherwise this function cuts
    it off."""
    if isinstance(n, str):
        try:
            n = _core.parse_bytes(n)
        except _core.InvalidArgument as e:
            raise _core.InvalidArgument(f"{name}: {e}") from None
    if isinstance(n, bool) or not isinstance(n, Real) or not least <= n < 1 << 63 or whole and n != int(n):
        raise _core.InvalidArgument(
            f"{name}: expected a whole number of bytes of at least {least}, such as 268435456 or '256MiB', "
            f"found {n!r}"
        )
    return int(n)


@hinted
class ExecutionResources(OnlyKnown):
    """What runs may use. cpu: pool threads; memory, object_store_memory: bytes for data (the smaller value
    counts), also as text ("2GB"). gpu: no effect.

    None reads as 0, or as infinite in ExecutionOptions.resource_limits.
    """

    _names = RESOURCES

    def __init__(
        self,
        cpu: float | None = None,
        gpu: float | None = None,
        object_store_memory: float | None = None,
        memory: float | None = None,
    ) -> None:
        self._rest = 0.0
        self._given = {}
        given = zip(RESOURCES, (cpu, gpu, object_store_memory, memory), strict=True)
        for name, value in given:
            setattr(self, name, value)

    if not TYPE_CHECKING:

        def __setattr__(self, name, value):
            if name not in RESOURCES:
                super().__setattr__(name, value)
            elif value is None:
                self._given.pop(name, None)
            else:
                self._given[name] = _amount(f"ExecutionResources.{name}", value, "memory" in name)

        def __getattr__(self, name):
            if name in RESOURCES:
                return self._given.get(name, self._rest)
            return super().__getattr__(name)

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, ExecutionResources) and self.to_resource_dict() == other.to_resource_dict()

    def __hash__(self) -> int:
        return hash(tuple(self.to_resource_dict().values()))

    def __repr__(self) -> str:
        return f"ExecutionResources({', '.join(f'{n}={getattr(self, n)!r}' for n in RESOURCES)})"

    @classmethod
    def for_limits(
        cls,
        cpu: float | None = None,
        gpu: float | None = None,
        object_store_memory: float | None = None,
        memory: float | None = None,
    ) -> ExecutionResources:
        """Limits; None is infinite."""
        made = cls(cpu, gpu, object_store_memory, memory)
        made._rest = INF
        return made

    @classmethod
    def zero(cls) -> ExecutionResources:
        """All amounts are 0."""
        return cls(0.0, 0.0, 0.0, 0.0)

    @classmethod
    def inf(cls) -> ExecutionResources:
        """No limits."""
        return cls.for_limits()

    @classmethod
    def from_resource_dict(cls, resource_dict: dict[str, float]) -> ExecutionResources:
        """From a dict with the keys CPU (or num_cpus), GPU (or num_gpus), object_store_memory, memory."""
        return cls(
            cpu=resource_dict.get("CPU") or resource_dict.get("num_cpus"),
            gpu=resource_dict.get("GPU") or resource_dict.get("num_gpus"),
            object_store_memory=resource_dict.get("object_store_memory"),
            memory=resource_dict.get("memory"),
        )

    def to_resource_dict(self) -> dict[str, float]:
        """A dict with the keys CPU, GPU, object_store_memory, memory."""
        names = {"cpu": "CPU", "gpu": "GPU"}
        return {names.get(n, n): getattr(self, n) for n in RESOURCES}

    def copy(
        self,
        cpu: float | None = None,
        gpu: float | None = None,
        memory: float | None = None,
        object_store_memory: float | None = None,
    ) -> ExecutionResources:
        """A copy; the given values replace the old ones."""
        made = type(self)(**self._given)
        made._rest = self._rest
        given = {"cpu": cpu, "gpu": gpu, "memory": memory, "object_store_memory": object_store_memory}
        for name, value in given.items():
            if value is not None:
                setattr(made, name, value)
        return made

    def _with(self, other, how):
        return type(self)(**{n: how(getattr(self, n), getattr(other, n)) for n in RESOURCES})

    @classmethod
    def combine(
        cls, resources: Iterable[ExecutionResources], fn: Callable[[float, float], float]
    ) -> ExecutionResources | None:
        """fn(first, second) of each resource, from the first to the last; None for none."""
        found = list(resources)
        return functools.reduce(lambda a, b: a._with(b, fn), found) if found else None

    @classmethod
    def combine_sum(cls, resources: Iterable[ExecutionResources]) -> ExecutionResources:
        """The sum of each resource."""
        return cls.combine(resources, operator.add) or cls.zero()

    def add(self, other: Any) -> ExecutionResources:
        """The sum of each resource."""
        return self._with(other, lambda a, b: a + b)

    def subtract(self, other: Any) -> ExecutionResources:
        """The difference of each resource."""
        made = type(self)()
        made._given = {n: getattr(self, n) - getattr(other, n) for n in RESOURCES}
        return made

    def max(self, other: Any) -> ExecutionResources:
        """The larger amount of each resource."""
        return self._with(other, max)

    def min(self, other: Any) -> ExecutionResources:
        """The smaller amount of each resource."""
        return self._with(other, min)

    def scale(self, f: float) -> ExecutionResources:
        """Each amount times f."""
        if f < 0:
            raise _core.InvalidArgument(f"ExecutionResources.scale: expected 0 or more, found {f!r}")
        return self._with(self, lambda a, _: a * f if a and f else 0.0)

    def floordiv(self, other: Any) -> ExecutionResources:
        """For each resource, how often the amount of `other` fits."""
        return self._with(other, lambda a, b: INF if b == 0 or a == INF else math.floor(a / b))

    def is_zero(self) -> bool:
        """Whether all amounts are 0."""
        return all(getattr(self, n) == 0 for n in RESOURCES)

    def is_non_negative(self) -> bool:
        """Whether no amount is below 0."""
        return all(getattr(self, n) >= 0 for n in RESOURCES)

    def satisfies_limit(self, limit: ExecutionResources, *, ignore_object_store_memory: bool = False) -> bool:
        """Whether no amount exceeds the one in `limit`."""
        names = [n for n in RESOURCES if not (ignore_object_store_memory and n == "object_store_memory")]
        return all(getattr(self, n) <= getattr(limit, n) for n in names)


def _amount(what, value, is_memory):
    if is_memory and isinstance(value, str):
        return bytes_of(what, value, 0)
    value = check(what, value, "float")
    if not value >= 0:
        raise _core.InvalidArgument(f"{what}: expected 0 or more, found {value!r}")
    return value


@hinted
class ExecutionOptions(OnlyKnown):
    """How runs work.

    preserve_order: rows come in the order of the source, whatever runs at the same time. Default: True; False
        lets tables come as soon as they are ready, and the pass can be neither repeated nor resumed exactly.
    resource_limits, exclude_resources: ExecutionResources. The other arguments have no effect.
    """

    _names = {
        "preserve_order": "bool",
        "actor_locality_enabled": "bool",
        "verbose_progress": "bool",
        "label_selector": "dict|None",
        "locality_with_output": "bool|list",
    }

    def __init__(
        self,
        resource_limits: Any = None,
        exclude_resources: Any = None,
        preserve_order: bool = True,
        actor_locality_enabled: bool = True,
        verbose_progress: Any = None,
        label_selector: Any = None,
        locality_with_output: bool = False,
    ) -> None:
        self.resource_limits = resource_limits
        self.exclude_resources = exclude_resources
        self.preserve_order = preserve_order
        self.actor_locality_enabled = actor_locality_enabled
        self.verbose_progress: bool = bool(verbose_progress)
        self.label_selector = label_selector
        self.locality_with_output = locality_with_output

    def _values(self):
        return {n: getattr(self, n) for n in ("resource_limits", "exclude_resources", *self._names)}

    def __eq__(self, other: Any) -> bool:
        return type(self) is type(other) and self._values() == other._values()

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"ExecutionOptions({', '.join(f'{n}={v!r}' for n, v in self._values().items())})"

    @property
    def resource_limits(self) -> ExecutionResources:
        """The most that runs may use; infinite unless set."""
        return self._limits

    @resource_limits.setter
    def resource_limits(self, value: Any) -> ExecutionResources:
        value = _resources("resource_limits", value)
        self._limits = ExecutionResources.for_limits(**{n: v for n, v in value._given.items() if v != INF})

    @property
    def exclude_resources(self) -> ExecutionResources:
        """The part of the resources that runs leave free."""
        return self._excluded

    @exclude_resources.setter
    def exclude_resources(self, value: Any) -> ExecutionResources:
        self._excluded = _resources("exclude_resources", value).copy()

    def is_resource_limits_default(self) -> bool:
        """Whether there are no limits."""
        return self._limits == ExecutionResources.for_limits()

    def validate(self) -> None:
        """Raises InvalidArgument if a resource is both limited and excluded."""
        for name in ("cpu", "gpu", "object_store_memory"):
            if getattr(self._limits, name) != INF and getattr(self._excluded, name) > 0:
                raise _core.InvalidArgument(
                    f"ExecutionOptions: resource_limits and exclude_resources both have {name}"
                )

    def copy(self) -> ExecutionOptions:
        """An independent copy."""
        made = type(self)()
        for name, value in self._values().items():
            setattr(made, name, value)
        return made


def _resources(name, value):
    if value is None:
        return ExecutionResources()
    if not isinstance(value, ExecutionResources):
        found = f"{type(value).__name__} {value!r}"
        raise _core.TypeMismatchError(f"ExecutionOptions.{name}: expected ExecutionResources, found {found}")
    return value
