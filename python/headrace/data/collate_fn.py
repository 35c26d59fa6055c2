"""Classes for iter_torch_batches(collate_fn=...): the class says in which form the function gets a batch.

Derive from one of them and define __call__(batch). What it returns (tensors, in dicts, lists or tuples) is
the batch; iter_torch_batches moves its tensors to the device. A plain function gets a dict of NumPy arrays.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from headrace._core import Table, TypeMismatchError, from_arrow
from headrace.optional import imported

if TYPE_CHECKING:
    import numpy  # noqa: F401
    import pandas  # noqa: F401
    import pyarrow

DataBatchType = TypeVar("DataBatchType")


def _is_sequence(batch: Any, of: Any) -> bool:
    return isinstance(batch, (list, tuple)) and all(of(value) for value in batch)


def _is_tensor(batch: Any) -> bool:
    torch = imported("torch")  # without it nothing is a tensor
    return torch is not None and isinstance(batch, torch.Tensor)


def is_tensor_batch_type(batch: Any) -> bool:
    """Whether a batch is a torch.Tensor, a list or tuple of them, one of these lists, or a dict of column ->
    tensor or list of tensors.
    """

    def tensors(value: Any) -> bool:
        return _is_sequence(value, _is_tensor)

    if isinstance(batch, Mapping):
        values = list(batch.values())
        return _is_sequence(values, _is_tensor) or _is_sequence(values, tensors)
    return _is_tensor(batch) or tensors(batch) or _is_sequence(batch, tensors)


class CollateFn(abc.ABC, Generic[DataBatchType]):
    """A function from a batch to what the training loop gets. Derive from one of the classes below."""

    @abc.abstractmethod
    def __call__(self, batch: DataBatchType) -> Any:
        """What the training loop gets for `batch`."""


class ArrowBatchCollateFn(CollateFn["pyarrow.Table"]):
    """A function of a pyarrow.Table (needs pyarrow), which shares the engine's memory."""

    _batch_format: str = "pyarrow"


class NumpyBatchCollateFn(CollateFn["dict[str, numpy.ndarray[Any, Any]]"]):
    """A function of a dict of column -> array (rows, *shape), with memory of its own."""


class PandasBatchCollateFn(CollateFn["pandas.DataFrame"]):
    """A function of a pandas.DataFrame, with memory of its own."""

    _batch_format: str = "pandas"


class DefaultCollateFn(ArrowBatchCollateFn):
    """The conversion of iter_torch_batches without a collate_fn: a dict of column -> tensor (rows, *shape).

    dtypes: one torch dtype, or a dict of column -> dtype. A column is always one tensor, which one thread
    makes: combine_chunks and num_workers have no effect.
    """

    _is_default: bool = True  # of this class alone: iter_torch_batches then needs no pyarrow

    def __init__(self, dtypes: Any = None, combine_chunks: bool = False, num_workers: int = 4) -> None:
        self.dtypes: Any = dtypes
        self.combine_chunks: bool = combine_chunks
        self.num_workers: int = num_workers

    def __call__(self, batch: pyarrow.Table) -> Any:
        """The tensors of a pyarrow.Table, in the CPU's memory; they own it, and the caller may write to
        them.
        """
        from headrace.data.torch_batches import TorchBatches

        if not hasattr(batch, "__arrow_c_stream__"):
            raise TypeMismatchError(
                f"DefaultCollateFn: expected a pyarrow.Table, found {type(batch).__name__}"
            )
        return TorchBatches(self.dtypes, "cpu", None, False)(Table.concat(from_arrow(batch)))
