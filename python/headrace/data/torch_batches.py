"""Batches of torch tensors: the conversion of iter_torch_batches().

Tests: tests/python/test_torch.py, test_copies.py, test_padding.py
"""

import sys

from headrace import lazy_module
from headrace._core import InvalidArgument, TypeMismatchError
from headrace.data.display import short_type
from headrace.optional import package
from headrace.settings import hint

np = lazy_module("numpy")
blocks = lazy_module("headrace.data.blocks")  # imports numpy, while the engine already reads


def _checked(dtypes):
    """`dtypes`, if it is of torch's types; they may be by column."""
    for dtype in dtypes.values() if isinstance(dtypes, dict) else () if dtypes is None else (dtypes,):
        if type(dtype).__module__ != "torch":
            name = getattr(dtype, "__name__", None) or str(dtype)
            use = f": write torch.{name}" if name.isidentifier() else ""
            raise TypeMismatchError(f"dtypes: expected a torch.dtype, found {dtype!r}{use}")
    return dtypes


class TorchBatches:
    """Converts a table to a dict of tensors; see DataIterator.iter_torch_batches."""

    def __init__(self, dtypes, device, collate_fn, pin_memory, padding=None):
        if vars(type(collate_fn)).get("_is_default"):
            dtypes, collate_fn = collate_fn.dtypes, None
        self.dtypes = _checked(dtypes)
        self.device = device
        self.collate_fn = collate_fn
        self.wanted_pin = bool(pin_memory)
        self.padding = padding
        self._load()

    def _load(self):
        self.torch = torch = package("torch", "iter_torch_batches")
        self.pin = self.wanted_pin and torch.cuda.is_available()
        self.copies = self.pin and self.collate_fn is None and self.padding is None and self.dtypes is None
        self.target = None

    def __reduce__(self):
        return TorchBatches, (self.dtypes, self.device, self.collate_fn, self.wanted_pin, self.padding)

    def _target(self):
        """The device, looked up once, at the first batch: by then the training worker has set its own."""
        if self.target is None:
            device = self.device
            if device == "auto":
                train = sys.modules.get("headrace.train.torch")
                device = train.get_device() if train is not None and _in_training() else "cpu"
            self.target = self.torch.device(device)
        return self.target

    def __call__(self, table):
        target = self._target()
        if self.collate_fn is not None:
            return self._moved(self.collate_fn(blocks.for_collate(table, self.collate_fn)), target)
        if self.copies:
            batch = table.batch(self._pinned_flat, self._pinned_other, False, True)
            return batch if target.type == "cpu" else self._moved(batch, target, pinned=True)
        if self.padding is not None:
            batch = self._padded(table)
        else:
            batch = table.batch(self._flat, self._other, True, True)
        if self.dtypes is not None:
            batch = self._typed(batch, table)
        return batch if target.type == "cpu" and not self.pin else self._moved(batch, target)

    def _padded(self, table):
        """All columns, in their order, with the padded ones and then their masks."""
        arrays = {name: self.torch.from_numpy(array) for name, array in self.padding.arrays(table).items()}

        def other(column):
            return None if column.name in arrays else self._other(column)

        return table.batch(self._flat, other, True, True) | arrays

    def _flat(self, column):
        return self.torch.from_numpy(np.asarray(column))

    def _other(self, column):
        kind = column.kind
        if kind in ("string", "binary"):
            return column.to_pylist()
        if kind in ("list", "tensor", "ragged") and not column.dense:
            if (array := _stacked(column)) is not None:
                return self.torch.from_numpy(array)
            what = f"column '{column.name}' ({short_type(column.type)})"
            raise TypeMismatchError(f"{what}: {_ragged_text(column)}: {_one_shape(column)}")
        if kind == "bool" and column.null_count:
            what = f"column '{column.name}' ({column.type})"
            raise TypeMismatchError(
                f"{what} has {column.null_count} nulls in this batch, and a tensor of booleans cannot "
                "hold nulls"
            )
        if column.time or kind in ("clock", "decimal", "interval", "struct", "map", "object"):
            raise TypeMismatchError(
                f"column '{column.name}': torch has no tensor for type {column.type}; "
                "drop_columns() leaves it out, cast() makes numbers of times, a collate_fn what you like"
            )
        return self.torch.from_numpy(blocks.column_to_numpy(column, writable=True))

    def _typed(self, batch, table):
        dtypes = self.dtypes
        if not isinstance(dtypes, dict):
            dtypes = dict.fromkeys((n for n, v in batch.items() if not isinstance(v, list)), dtypes)
        for name, dtype in dtypes.items():
            if name not in batch:
                known = f"{', '.join(batch)}{hint(name, batch)}"
                raise InvalidArgument(f"dtypes: no column '{name}'; the columns are {known}")
            column = table.column(name)
            if isinstance(batch[name], list):
                raise TypeMismatchError(f"column '{name}': type {column.type} cannot be a tensor of {dtype}")
            if batch[name].is_floating_point() and not dtype.is_floating_point and not dtype.is_complex:
                n = _nulls(column)
                if n:
                    raise TypeMismatchError(
                        f"column '{name}' ({column.type}) has {n} nulls in this batch, and a tensor of "
                        f"{dtype} cannot hold nulls"
                    )
                if dtype is not self.torch.bool and not batch[name].isfinite().all():
                    raise TypeMismatchError(
                        f"column '{name}' ({column.type}) has NaN or infinity in this batch, and a tensor of "
                        f"{dtype} cannot hold them"
                    )
            batch[name] = self._as(batch[name], dtype)
        return batch

    def _as(self, tensor, dtype):
        torch = self.torch
        if dtype is torch.bfloat16 and tensor.dtype == torch.uint16:
            return tensor.view(torch.int16).view(torch.bfloat16)  # the bits of bfloat16, see normalize()
        return tensor.to(dtype)

    def _moved(self, value, target, pinned=False):
        """Tensors in dicts, lists and tuples on the device. pinned: they lie in pinned memory already."""
        torch = self.torch
        if isinstance(value, torch.Tensor):
            if self.pin and not pinned and value.device.type == "cpu":
                value = self._buffer(value.shape, value.dtype).copy_(value)
            return value.to(target, non_blocking=self.pin)
        if isinstance(value, dict):
            return {k: self._moved(v, target, pinned) for k, v in value.items()}
        if type(value) in (list, tuple) and any(isinstance(v, torch.Tensor) for v in value):
            return type(value)(self._moved(v, target, pinned) for v in value)
        return value

    def _buffer(self, shape, dtype):
        """A new tensor in pinned memory. torch pins each buffer once: its allocator takes one back when no
        tensor refers to it and the copies from it to devices, which it has recorded as events, are done.
        """
        return self.torch.empty(shape, dtype=dtype, pin_memory=True)

    def _pinned_flat(self, column):
        """One copy, from the memory of the table to pinned memory."""
        array = np.asarray(column)
        buffer = self._buffer(array.shape, self.torch.from_numpy(np.empty(0, array.dtype)).dtype)
        np.copyto(buffer.numpy(), array)
        return buffer

    def _pinned_other(self, column):
        value = self._other(column)
        return self._moved(value, "cpu") if isinstance(value, self.torch.Tensor) else value


def _in_training():
    context = sys.modules.get("headrace.train.context")
    return bool(context and getattr(context, "in_worker", lambda: False)())


def _stacked(column):
    """Lists of equal length with nulls among their values, as one array of floats; otherwise None."""
    if column.kind != "list" or column.null_count or not len(column):
        return None
    array = blocks.column_to_numpy(column)
    cells = list(array)
    alike = all(
        isinstance(c, np.ndarray) and c.dtype.kind == "f" and c.shape == cells[0].shape for c in cells
    )
    return np.stack(cells) if alike else None


def _nulls(column):
    """Number of nulls in a column, for lists with those of their values."""
    n = column.null_count
    while column.kind == "list":
        column = column.lists()[2]
        n += column.null_count
    return n


def _one_shape(column):
    """What gives rows of the column one shape."""
    if column.kind == "ragged" and not column.null_count:
        return "col(name).image.resize(), read_images(size=) or a collate_fn gives them one shape"
    return "give padding=, or a collate_fn" if column.kind == "list" else "use a collate_fn to pad"


def _ragged_text(column):
    """Why the rows do not form one array."""
    if column.null_count:
        return f"{column.null_count} of {len(column)} rows are null"
    if column.kind == "ragged":
        shapes = [cell.shape for cell in blocks.column_to_numpy(column)]
        row = next((i for i, s in enumerate(shapes) if s != shapes[0]), 0)
        return f"row 0 has the shape {shapes[0]}, row {row} has {shapes[row]}"
    _, lengths, values = column.lists()
    lengths = np.asarray(lengths)
    for row, n in enumerate(lengths):
        if n != lengths[0]:
            return f"row 0 has {lengths[0]} values, row {row} has {n}"
    if values.kind in ("list", "tensor"):
        return "in its lists, " + _ragged_text(values)
    return f"values of type {values.type}" + (f" with {values.null_count} nulls" if values.null_count else "")
