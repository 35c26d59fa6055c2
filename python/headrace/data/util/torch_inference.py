"""TorchInference: a class for map_batches that computes with torch on a device."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headrace._core import TypeMismatchError, UnsupportedError
from headrace.optional import package

if TYPE_CHECKING:
    import torch


class TorchInference:
    """Computes batches on a GPU: derive from it, and define process_on_device().

    For each batch: collate() makes tensors on the CPU, they go to the device of get_device(),
    process_on_device() computes, its tensors come back to the CPU, and finalize() makes the batch that
    map_batches() gets. collate() and process_on_device() may return (tensors, other): the next step gets
    `other` as it is, else None. No step records gradients. Use initialize() instead of __init__().

    Tensors are one tensor, a list of them, or a dict of column -> tensor or list of tensors. A list of
    tensors of a column becomes one tensor on the device.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._device: torch.device | None = None
        self.initialize(*args, **kwargs)

    def initialize(self, *args: Any, **kwargs: Any) -> None:
        """Makes what the batches need, the model for example; gets fn_constructor_args."""

    def get_device(self) -> torch.device:
        """The device of process_on_device(). UnsupportedError: there is no GPU; override it for "cpu"."""
        torch = package("torch", "TorchInference")
        if not torch.cuda.is_available():
            raise UnsupportedError(
                "TorchInference.get_device: there is no CUDA device; override it: return torch.device('cpu')"
            )
        return torch.device("cuda")

    def collate(self, input_batch: Any) -> Any:
        """Tensors of the arrays of a batch; here a dict of column -> tensor (rows, *shape)."""
        import numpy as np

        torch = package("torch", "TorchInference")
        if not isinstance(input_batch, dict) or not all(
            isinstance(v, np.ndarray) for v in input_batch.values()
        ):
            raise TypeMismatchError(
                f"TorchInference.collate: expected a dict of NumPy arrays, found "
                f"{type(input_batch).__name__}: use batch_format='numpy', or override collate()"
            )
        return {name: torch.as_tensor(_writable(values)) for name, values in input_batch.items()}

    def process_on_device(self, input_batch: Any, collated_tensors: Any, collated_other: Any) -> Any:
        """Tensors on the device, of tensors on the device."""
        raise NotImplementedError(f"{type(self).__name__}.process_on_device")

    def finalize(self, input_batch: Any, output_tensors: Any, output_other: Any) -> Any:
        """The batch for map_batches(); here arrays in place of tensors."""
        if output_other is not None:
            raise TypeMismatchError(
                "TorchInference.finalize: expected no second value of process_on_device(), found "
                f"{type(output_other).__name__}: override finalize()"
            )
        return _arrays(output_tensors)

    def __call__(self, batch: Any) -> Any:
        torch = package("torch", "TorchInference")
        if self._device is None:
            self._device = self.get_device()
        with torch.no_grad():
            tensors, other = _pair(self.collate(batch))
            there = _to_device(tensors, self._device)
            computed, other = _pair(self.process_on_device(batch, there, other))
            return self.finalize(batch, _moved(computed, torch.device("cpu")), other)


def _writable(values):
    return values if values.flags.writeable else values.copy()


def _is_tensor(value):
    return hasattr(value, "detach") and hasattr(value, "to")


def _pair(result):
    """(tensors, other): a tuple of two has both."""
    return result if isinstance(result, tuple) and len(result) == 2 else (result, None)


def _mapped(value, leaf, sequence):
    if _is_tensor(value):
        return leaf(value)
    if isinstance(value, Mapping):
        return {name: _mapped(v, leaf, sequence) for name, v in value.items()}
    if isinstance(value, (list, tuple)):
        return sequence([_mapped(v, leaf, sequence) for v in value], type(value))
    raise TypeMismatchError(f"TorchInference: expected tensors, found {type(value).__name__}")


def _moved(value, device):
    return _mapped(value, lambda t: t.to(device), lambda made, kind: kind(made))


def _to_device(value, device):
    """The tensors on the device; the tensors of a column's list as one."""
    torch = package("torch", "TorchInference")
    move = functools.partial(_moved, device=device)
    if isinstance(value, Mapping):
        return {n: move(torch.cat(list(v)) if isinstance(v, (list, tuple)) else v) for n, v in value.items()}
    if isinstance(value, (list, tuple)) and value and all(isinstance(v, (list, tuple)) for v in value):
        return type(value)(move(torch.cat(list(v))) for v in value)
    return move(value)


def _arrays(value):
    return _mapped(value, lambda t: t.detach().cpu().numpy(), lambda made, kind: kind(made))


__all__ = ["TorchInference"]
