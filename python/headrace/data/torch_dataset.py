"""DataIterator.to_torch(): passes over a dataset as a torch IterableDataset of (features, label)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headrace._core import InvalidArgument, TypeMismatchError, UnsupportedError
from headrace.optional import missing
from headrace.settings import hint

try:
    import torch
except ImportError as e:
    raise missing(e, "to_torch") from None


def _tensor(batch, columns, dtype, unsqueeze):
    parts = []
    for name in columns:
        if name not in batch:
            known = f"{', '.join(batch)}{hint(name, batch)}"
            raise InvalidArgument(f"to_torch: no column '{name}'; the columns are {known}")
        part = batch[name]
        if not isinstance(part, torch.Tensor):
            raise TypeMismatchError(
                f"to_torch: column '{name}': expected numbers, found text or bytes, which torch has no "
                "tensor for"
            )
        part = _typed(name, part, dtype) if dtype is not None else part
        parts.append(part.unsqueeze(1) if unsqueeze else part)
    return torch.cat(parts, dim=1) if len(parts) > 1 else parts[0]


def _typed(name, part, dtype):
    """The tensor as `dtype`. torch would make the least integer, or True, of NaN."""
    holds_nan = dtype.is_floating_point or dtype.is_complex
    if part.is_floating_point() and not holds_nan and not part.isfinite().all():
        raise TypeMismatchError(
            f"to_torch: column '{name}': {dtype} has no NaN and no infinity; a null of a number is NaN in a "
            "tensor"
        )
    return part.to(dtype)


def check(columns, dtypes):
    """Raises InvalidArgument unless the dtypes have the form of the columns."""
    if not dtypes or isinstance(dtypes, torch.dtype):
        return
    if isinstance(columns, dict):
        if not isinstance(dtypes, dict) or set(dtypes) != set(columns):
            raise InvalidArgument(
                "to_torch: feature_column_dtypes: expected a dict with the keys of feature_columns"
            )
    elif columns and isinstance(columns[0], (list, tuple)):
        if not isinstance(dtypes, (list, tuple)) or len(dtypes) != len(columns):
            raise InvalidArgument(
                "to_torch: feature_column_dtypes: expected a dtype for each list of columns"
            )
    else:
        raise InvalidArgument(
            f"to_torch: feature_column_dtypes: expected one dtype, found {type(dtypes).__name__}"
        )


class TorchIterableDataset(torch.utils.data.IterableDataset[Any]):
    """A pass over this dataset is a pass over the iterator; see DataIterator.to_torch()."""

    label: str | None
    columns: Any
    label_dtype: Any
    dtypes: Any
    unsqueeze_label: bool
    unsqueeze: bool

    def __init__(
        self,
        batches: Any,
        label: str | None,
        columns: Any,
        label_dtype: Any,
        dtypes: Any,
        unsqueeze_label: bool,
        unsqueeze: bool,
    ) -> None:
        check(columns, dtypes)
        groups = columns.values() if isinstance(columns, dict) else columns
        if columns and not isinstance(next(iter(groups)), str) and not all(groups):
            raise InvalidArgument(
                "to_torch: feature_columns: expected lists with columns, found an empty list"
            )
        self.batches = batches
        self.label, self.label_dtype, self.unsqueeze_label = label, label_dtype, unsqueeze_label
        self.columns, self.dtypes, self.unsqueeze = columns or None, dtypes, unsqueeze

    def _features(self, batch):
        columns, dtypes = self.columns, self.dtypes
        if columns is None:
            others = [n for n in batch if n != self.label]
            if not others:
                raise InvalidArgument(
                    f"to_torch: expected columns for the features, found none beside the label {self.label!r}"
                )
            return _tensor(batch, others, dtypes, self.unsqueeze)
        if isinstance(columns, dict):
            of = dtypes if isinstance(dtypes, dict) else dict.fromkeys(columns, dtypes)
            return {key: _tensor(batch, names, of[key], self.unsqueeze) for key, names in columns.items()}
        if isinstance(columns[0], (list, tuple)):
            of = dtypes if isinstance(dtypes, (list, tuple)) else [dtypes] * len(columns)
            return [_tensor(batch, names, d, self.unsqueeze) for names, d in zip(columns, of, strict=True)]
        return _tensor(batch, columns, dtypes, self.unsqueeze)

    def set_epoch(self, n: int) -> None:
        """The next pass is epoch n; see Iterable.set_epoch()."""
        self.batches.set_epoch(n)

    def state_dict(self) -> dict[str, Any]:
        """The consumer's position; in a worker of a DataLoader, the position in the worker's share."""
        return self.batches.state_dict()

    def load_state_dict(self, state: dict[str, Any], *, moved: bool = False, strict: bool = False) -> None:
        """The next pass resumes from `state`: see docs/resuming.md."""
        self.batches.load_state_dict(state, moved=moved, strict=strict)

    def _pair(self, batch):
        label = None
        if self.label is not None:
            label = _tensor(batch, [self.label], self.label_dtype, self.unsqueeze_label)
        return self._features(batch), label

    def __iter__(self) -> Iterator[Any]:
        return _Pairs(self)


class _Pairs:
    """One pass over a dataset of to_torch()."""

    def __init__(self, dataset):
        self.dataset = dataset
        self.batches = iter(dataset.batches)

    def __iter__(self):
        return self

    def __next__(self):
        return self.dataset._pair(next(self.batches))

    def __reduce__(self):
        raise UnsupportedError(
            "a pass belongs to its process: pickle the dataset that to_torch() returned, and give it "
            "load_state_dict() of its state_dict() to go on from here"
        )
