"""Types of arguments and results, for type checkers and docs. Nothing imports this module at run time.

Row and batch types are those of docs/functions.md. A function of batches gets the type that `batch_format`
says, which the overloads of map_batches() and iter_batches() know.

Tests: tests/python/test_typing.py
"""

import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Concatenate, Literal, Protocol, TypeAlias, TypedDict

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from headrace.data.expressions import Expr
from headrace.data.functions import ActorPoolStrategy, TaskPoolStrategy

Path: TypeAlias = str | os.PathLike[str]
Paths: TypeAlias = Path | Sequence[Path]
Columns: TypeAlias = str | Sequence[str]

Row: TypeAlias = dict[str, Any]
NumpyBatch: TypeAlias = dict[str, npt.NDArray[Any]]
Batch: TypeAlias = NumpyBatch | pd.DataFrame | pa.Table
BatchFormat: TypeAlias = Literal["default", "numpy", "pandas", "pyarrow"] | None
NumpyFormat: TypeAlias = Literal["default", "numpy"]
ArrowFormat: TypeAlias = Literal["pyarrow"] | None

RowResult: TypeAlias = Mapping[str, Any]
BatchResult: TypeAlias = Mapping[str, Any] | pd.DataFrame | pd.Series | pa.Table | pa.RecordBatch


class FunctionClass(Protocol):
    """A user's class with state: each worker makes an instance and calls it."""

    def __call__(self, data: Any, /, *args: Any, **kwargs: Any) -> Any: ...


Class: TypeAlias = type[FunctionClass]
# Each function may have further parameters, for fn_args and fn_kwargs. The form without them is for lambdas.
RowResults: TypeAlias = RowResult | Awaitable[RowResult]
RowFunction: TypeAlias = Callable[[Row], RowResults] | Callable[Concatenate[Row, ...], RowResults] | Class
ManyRows: TypeAlias = Iterable[RowResult] | Awaitable[Iterable[RowResult]]
RowsFunction: TypeAlias = Callable[[Row], ManyRows] | Callable[Concatenate[Row, ...], ManyRows] | Class
Truth: TypeAlias = bool | np.bool_ | Awaitable[bool]
RowPredicate: TypeAlias = Callable[[Row], Truth] | Callable[Concatenate[Row, ...], Truth] | Class
BatchResults: TypeAlias = BatchResult | Iterator[BatchResult] | Awaitable[BatchResult]
NumpyFunction: TypeAlias = (
    Callable[[NumpyBatch], BatchResults] | Callable[Concatenate[NumpyBatch, ...], BatchResults] | Class
)
PandasFunction: TypeAlias = (
    Callable[[pd.DataFrame], BatchResults] | Callable[Concatenate[pd.DataFrame, ...], BatchResults] | Class
)
ArrowFunction: TypeAlias = (
    Callable[[pa.Table], BatchResults] | Callable[Concatenate[pa.Table, ...], BatchResults] | Class
)
AnyBatchFunction: TypeAlias = (
    Callable[[Any], BatchResults] | Callable[Concatenate[Any, ...], BatchResults] | Class
)
ColumnFunction: TypeAlias = Callable[[Any], Any] | Class

Compute: TypeAlias = (
    Literal["processes", "threads", "inline", "tasks", "actors"] | ActorPoolStrategy | TaskPoolStrategy | None
)
Concurrency: TypeAlias = int | tuple[int, int] | tuple[int, int, int] | None
Tail: TypeAlias = Literal["drop", "pad", "uneven"] | None
Padding: TypeAlias = dict[str, Any] | Literal[True] | None
Predicate: TypeAlias = str | Expr
Encoder: TypeAlias = bool | Callable[[Row], Row] | Sequence[Callable[[Row], Row]] | None
Decoder: TypeAlias = bool | str | Callable[[Row], Row] | Sequence[str | Callable[[Row], Row]] | None
Key: TypeAlias = str | Expr | Sequence[str | Expr]


class ClusterArguments(TypedDict, total=False):
    """Ray's arguments about machines. They have no effect; num_cpus and num_gpus limit the workers of a
    function.
    """

    num_cpus: float | None
    num_gpus: float | None
    memory: float | None
    label_selector: dict[str, str] | None
    fallback_strategy: list[dict[str, Any]] | None
    max_calls: int | None
    resources: dict[str, float] | None
    accelerator_type: str | None
    runtime_env: dict[str, Any] | None
    parallelism: int
    ray_remote_args: dict[str, Any] | None
    ray_remote_args_fn: Callable[[], dict[str, Any]] | None
    scheduling_strategy: Any


class FunctionArguments(ClusterArguments, total=False):
    """Keyword arguments of functions, beside those in the signatures."""

    max_retries: int | None
    max_restarts: int | None
    max_task_retries: int | None


class CallArguments(FunctionArguments, total=False):
    """Keyword arguments of map() and its siblings."""

    compute: Compute
    fn_args: Iterable[Any] | None
    fn_kwargs: Mapping[str, Any] | None
    fn_constructor_args: Iterable[Any] | None
    fn_constructor_kwargs: Mapping[str, Any] | None
    concurrency: Concurrency


class BatchArguments(TypedDict, total=False):
    """Keyword arguments of iter_batches() and iter_torch_batches()."""

    prefetch_batches: int
    batch_size: int | None
    drop_last: bool
    local_shuffle_buffer_size: int | None
    local_shuffle_seed: int | None
    padding: Padding
