"""The methods of a Dataset and of a DataIterator that give batches and rows.

Tests: tests/python/test_iter.py, test_torch.py, test_tf.py, test_jax.py
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, overload

from headrace import lazy_module
from headrace._core import InvalidArgument
from headrace.data.context import check_format, check_seed, is_whole
from headrace.data.iterables import Iterable
from headrace.data.torch_batches import TorchBatches
from headrace.settings import check

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    import torch

    from headrace.data.annotations import (
        ArrowFormat,
        BatchArguments,
        BatchFormat,
        Columns,
        NumpyBatch,
        NumpyFormat,
        Padding,
        Row,
    )
    from headrace.data.iterator import DataIterator
    from headrace.data.torch_dataset import TorchIterableDataset

padded_lists = lazy_module("headrace.data.padding")
blocks = lazy_module("headrace.data.blocks")  # imports numpy, while the engine already reads

T = TypeVar("T")


class Consumers:
    """iter_batches() and its siblings. A subclass says which DataIterator counts the epochs."""

    def _consumed(self) -> DataIterator:
        raise NotImplementedError

    @overload
    def iter_batches(
        self, *, batch_format: NumpyFormat = ..., **arguments: Unpack[BatchArguments]
    ) -> Iterable[NumpyBatch]: ...
    @overload
    def iter_batches(
        self, *, batch_format: Literal["pandas"], **arguments: Unpack[BatchArguments]
    ) -> Iterable[pd.DataFrame]: ...
    @overload
    def iter_batches(
        self, *, batch_format: ArrowFormat, **arguments: Unpack[BatchArguments]
    ) -> Iterable[pa.Table]: ...
    def iter_batches(
        self,
        *,
        prefetch_batches: int = 1,
        batch_size: int | None = 256,
        batch_format: BatchFormat = "default",
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
        padding: Padding = None,
    ) -> Iterable[Any]:
        """Batches of exactly batch_size rows, the last one shorter unless drop_last.

        batch_format "numpy" (the default): dict of column -> array (rows, *shape), read-only if it shares the
        engine's memory; "pandas": a DataFrame; "pyarrow": a pyarrow.Table. batch_size None: tables as they
        come, whose borders after a function depend on time; the order of the rows does not.
        prefetch_batches + 1 batches are alive beside those that the consumer holds, in a share of a dataset
        up to 17 if 16 of them fit in 2 MiB. Where more spare waits, the run makes more
        (DataContext.most_prefetch_batches).

        local_shuffle_buffer_size=W: rows come in a random order within windows of W rows that overlap by
        half, so a row moves by up to 1.5 W. Memory holds about 2 W rows (MemoryLimitError if they do not
        fit). The order depends only on local_shuffle_seed (or, without one, DataContext.seed) and the epoch;
        all ranks of a split must give the same values.

        padding: a dict of column -> value, for columns of lists of different lengths: each becomes an array
        (rows, longest list of the batch), filled up with the value, and the batch has a column NAME_mask of
        bools beside it, True for values. True: all columns of lists of numbers, by 0. NumPy batches only.
        """
        batch_format = check_format(batch_format)
        padding = padded_lists.of_argument(padding)
        if padding is not None and batch_format not in ("default", "numpy"):
            raise InvalidArgument(
                f"iter_batches: padding makes NumPy arrays; found batch_format={batch_format!r}"
            )
        shuffle = _shuffle(local_shuffle_buffer_size, local_shuffle_seed)
        request = request_of(batch_size, drop_last, prefetch_batches) | shuffle
        return Iterable(self._consumed(), request, _converter(batch_format, padding))

    @overload
    def iter_torch_batches(
        self,
        *,
        dtypes: torch.dtype | Mapping[str, torch.dtype] | None = ...,
        device: str | torch.device | None = ...,
        collate_fn: None = ...,
        pin_memory: bool = ...,
        **arguments: Unpack[BatchArguments],
    ) -> Iterable[dict[str, torch.Tensor]]: ...
    @overload
    def iter_torch_batches(
        self,
        *,
        device: str | torch.device | None = ...,
        collate_fn: Callable[[Any], T],
        pin_memory: bool = ...,
        **arguments: Unpack[BatchArguments],
    ) -> Iterable[T]: ...
    def iter_torch_batches(
        self,
        *,
        prefetch_batches: int = 1,
        batch_size: int | None = 256,
        dtypes: torch.dtype | Mapping[str, torch.dtype] | None = None,
        device: str | torch.device | None = "auto",
        collate_fn: Callable[[Any], Any] | None = None,
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
        pin_memory: bool = False,
        padding: Padding = None,
    ) -> Iterable[Any]:
        """Batches as dicts of column -> tensor (rows, *shape) with memory of their own, which the consumer
        may write to.

        dtypes: one torch dtype, or a dict of column -> dtype; torch.bfloat16 reinterprets the bits of a
        uint16 column, as .image.normalize(dtype="bfloat16") makes it. device: "auto" is the device of the
        training worker, or the CPU. collate_fn: gets the batch as a dict of numpy arrays, or in the form that
        its class in headrace.data.collate_fn says, and returns the batch (tensors in dicts, lists and tuples
        then move to the device). padding: as in iter_batches; not with a collate_fn. Text and bytes come as
        lists. Integers are float64 with NaN in a batch with nulls, as in numpy batches. TypeMismatchError
        names the column if torch has no tensor for its type, if its rows have different lengths, or if it has
        nulls and is a boolean column or gets a dtype without NaN, or NaN or infinity and gets integers.
        """
        shuffle = _shuffle(local_shuffle_buffer_size, local_shuffle_seed)
        if collate_fn is not None and dtypes is not None:
            raise InvalidArgument(
                "iter_torch_batches: expected dtypes or collate_fn, found both; the function can convert "
                "itself"
            )
        padding = padded_lists.of_argument(padding)
        if padding is not None and collate_fn is not None:
            raise InvalidArgument("iter_torch_batches: expected padding or collate_fn, found both")
        convert = TorchBatches(dtypes, device, collate_fn, pin_memory, padding)
        own = not convert.copies and padding is None  # otherwise the engine's memory is copied once anyway
        request = request_of(batch_size, drop_last, prefetch_batches, own_memory=own) | shuffle
        self._consumed()._epochs.share()  # so that a DataLoader's workers count epochs with this process
        return Iterable(self._consumed(), request, convert)

    def iter_rows(
        self,
        *,
        prefetch_blocks: int = 0,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
    ) -> Iterable[Row]:
        """Rows as dicts: Python scalars, str, bytes, None; arrays for tensors and lists of numbers.

        The shares of a split take the rows in turn, as with batches of one row: rank r of n has the rows r,
        r + n, ... of the epoch. Local shuffle: as in iter_batches.
        """
        shuffle = _shuffle(local_shuffle_buffer_size, local_shuffle_seed)
        request = request_of(None, False, 1) | shuffle | {"rows": True}
        return Iterable(self._consumed(), request, None, by_row=True)

    def to_torch(
        self,
        *,
        label_column: str | None = None,
        feature_columns: Sequence[str] | Sequence[Sequence[str]] | Mapping[str, Sequence[str]] | None = None,
        label_column_dtype: torch.dtype | None = None,
        feature_column_dtypes: Any = None,
        batch_size: int = 1,
        prefetch_batches: int = 1,
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
        unsqueeze_label_tensor: bool = True,
        unsqueeze_feature_tensors: bool = True,
    ) -> TorchIterableDataset:
        """A torch IterableDataset with items (features, label), one per batch; each pass over it is one over
        the rows.

        feature_columns: a list of names gives one tensor (rows, columns), a list of lists a list of such
        tensors, a dict of lists a dict of them; None means all columns except the label. The label is a
        tensor (rows, 1), or (rows,) without unsqueeze_label_tensor; None without label_column.
        feature_column_dtypes has the form of feature_columns, or is one dtype for all.

        Use batch_size=None in torch's DataLoader, so that its batches are these. With num_workers=n worker w
        gives the batches w, w + n, ...: each batch once, in the order of a pass without workers. Each worker
        runs the whole plan with a share of the threads, so the engine without workers is faster, unless the
        DataLoader's own work takes longer. state_dict() and load_state_dict() are those of the batches; in a
        worker, those of its share.
        """
        from headrace.data.torch_dataset import TorchIterableDataset

        batches = self.iter_torch_batches(
            batch_size=batch_size,
            prefetch_batches=prefetch_batches,
            drop_last=drop_last,
            local_shuffle_buffer_size=local_shuffle_buffer_size,
            local_shuffle_seed=local_shuffle_seed,
            device="cpu",
        )
        return TorchIterableDataset(
            batches,
            label_column,
            feature_columns,
            label_column_dtype,
            feature_column_dtypes,
            unsqueeze_label_tensor,
            unsqueeze_feature_tensors,
        )

    def iter_jax_batches(
        self,
        *,
        prefetch_batches: int = 1,
        batch_size: int = 256,
        dtypes: Any = None,
        collate_fn: Callable[[Any], Any] | None = None,
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
        synchronize_batches: bool = False,
        paddings: Any = None,
    ) -> Iterable[Any]:
        """Batches as dicts of column -> jax.Array (rows, *shape), divided by rows among JAX's devices.

        batch_size: rows for the devices of this process, a multiple of their number. On the CPU an array may
        be the engine's memory, uncopied: JAX reads it, and copies what is donated. dtypes: one dtype, or a
        dict of column -> dtype; without it JAX makes int64 and float64 its default widths, and integers that
        do not fit are a TypeMismatchError. paddings: a number, or a dict of column -> number, that fills a
        short last batch up to batch_size rows; InvalidArgument names a column whose dtype lacks the number.
        collate_fn: gets the batch as the class in headrace.data.collate_fn says (else a dict of arrays) and
        returns arrays, or a dict of them. local_shuffle_*: as in iter_batches. TypeMismatchError names a
        column that is no array of numbers, or has nulls, NaN or infinity and gets a dtype without them;
        UnsupportedError: synchronize_batches with several processes.
        """
        from headrace.data.jax_batches import JaxBatches

        if not is_whole(batch_size) or batch_size < 1:
            raise InvalidArgument(
                f"iter_jax_batches: batch_size: expected a number of at least 1, found {batch_size!r}"
            )
        shuffle = _shuffle(local_shuffle_buffer_size, local_shuffle_seed)
        request = request_of(batch_size, drop_last, prefetch_batches) | shuffle
        convert = JaxBatches(batch_size, dtypes, collate_fn, paddings, synchronize_batches)
        return Iterable(self._consumed(), request, convert)

    def iter_tf_batches(
        self,
        *,
        prefetch_batches: int = 1,
        batch_size: int | None = 256,
        dtypes: Any = None,
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
    ) -> Iterable[dict[str, Any]]:
        """Batches as dicts of column -> tf.Tensor (rows, *shape); lists of different lengths become a
        tf.RaggedTensor.

        dtypes: one tf.DType, or a dict of column -> tf.DType. Makes one copy of each value.
        local_shuffle_*: as in iter_batches. TypeMismatchError names a column that has no tensor: times,
        structs, missing texts, tensors of different shapes.
        """
        from headrace.data.tf_batches import TfBatches

        shuffle = _shuffle(local_shuffle_buffer_size, local_shuffle_seed)
        request = request_of(batch_size, drop_last, prefetch_batches) | shuffle
        return Iterable(self._consumed(), request, TfBatches(dtypes))

    def to_tf(
        self,
        feature_columns: Columns,
        label_columns: Columns,
        *,
        additional_columns: Columns | None = None,
        prefetch_batches: int = 1,
        batch_size: int = 1,
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
        feature_type_spec: Any = None,
        label_type_spec: Any = None,
        additional_type_spec: Any = None,
    ) -> Any:
        """A tf.data.Dataset of (features, labels) or (features, labels, additional), for Model.fit(). Each
        pass over it is a new epoch.

        *_columns: one column, which gives a tensor, or a list of columns, which gives a dict of tensors.
        *_type_spec: a tf.TypeSpec, or a dict of column -> tf.TypeSpec; without it those of the schema, which
        does not know how long lists are: they are tf.RaggedTensors, also if all have one length (then
        tf.TensorSpec((None, length), dtype) makes them dense). Columns of tensors are dense.
        local_shuffle_*: as in iter_batches. Errors as in iter_tf_batches.
        """
        from headrace.data import tf_batches

        parts = [(feature_columns, feature_type_spec), (label_columns, label_type_spec)]
        if additional_columns is not None:
            parts.append((additional_columns, additional_type_spec))
        shuffle = _shuffle(local_shuffle_buffer_size, local_shuffle_seed)
        request = request_of(batch_size, drop_last, prefetch_batches) | shuffle
        return tf_batches.dataset(self._consumed(), request, parts, Iterable)


def _converter(batch_format, padding):
    """The function of a table that returns a batch. NumPy takes the shortest way: 100,000 batches a second
    feel every Python call.
    """
    if padding is not None:
        return functools.partial(_padded, padding=padding)
    if batch_format in ("numpy", "default"):
        return _numpy
    return functools.partial(_formatted, batch_format=batch_format)


def _numpy(table):
    return blocks.table_to_numpy(table)


def _formatted(table, batch_format):
    return blocks.to_format(table, batch_format)


def _padded(table, padding):
    return blocks.table_to_numpy(table) | padding.arrays(table)


def _shuffle(size, seed):
    """The part of a request about a local shuffle."""
    if size is not None and not is_whole(size, 1):
        raise InvalidArgument(
            f"local_shuffle_buffer_size: expected a number of at least 1, or None, found {size!r}"
        )
    check_seed("local_shuffle_seed", seed)
    if size is None:
        return {}
    return {"shuffle_rows": int(size), "shuffle_seed": None if seed is None else int(seed)}


def _is_size(value):
    """A number that an int equals, as 32.0 from a file of settings."""
    return isinstance(value, Real) and not isinstance(value, bool) and value >= 1 and value % 1 == 0


def request_of(batch_size, drop_last, prefetch_batches, own_memory=False):
    if batch_size is not None and not _is_size(batch_size):
        raise InvalidArgument(f"batch_size: expected a number of at least 1, or None, found {batch_size!r}")
    prefetch_batches = check("prefetch_batches", prefetch_batches, "count")
    return {
        "batch_rows": int(batch_size or 0),
        "drop_last": check("drop_last", drop_last, "flag"),
        "prefetch": prefetch_batches or -1,
        "own_memory": own_memory,
        "shuffle_rows": 0,
        "shuffle_seed": None,
    }
