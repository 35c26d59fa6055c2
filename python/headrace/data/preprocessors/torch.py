"""TorchVisionPreprocessor: a transform of torchvision, or any function of tensors, over columns of images."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.data.preprocessor import BatchFormat
from headrace.data.preprocessors.utils import BuiltInPreprocessor, read_only
from headrace.data.preprocessors.version_support import SerializablePreprocessor
from headrace.optional import package

if TYPE_CHECKING:
    import torch


@SerializablePreprocessor(version=1, identifier="headrace.TorchVisionPreprocessor")
class TorchVisionPreprocessor(BuiltInPreprocessor):
    """Calls `transform` for each image, or for whole batches. There is nothing to fit.

    The transform gets a tensor, or the array if it raises TypeError for a tensor (as ToTensor does), and
    returns a tensor or an array.

    Args:
        columns: the columns of images.
        transform: the function.
        output_columns: as many names for the results; None: the results replace the columns.
        batched: calls `transform` with (rows, height, width, channels) instead of single images.
    """

    _is_fittable = False
    _FIELDS = ("columns", "output_columns", "torchvision_transform", "batched")

    columns: list[str] = read_only("columns", "The columns of images.")
    output_columns: list[str] = read_only("output_columns", "The columns that the result goes to.")
    torchvision_transform: Callable[[Any], Any] = read_only("torchvision_transform", "The function.")
    batched: bool = read_only("batched", "Whether the function gets whole batches.")

    def __init__(
        self,
        columns: list[str],
        transform: Callable[[np.ndarray | torch.Tensor], torch.Tensor],
        output_columns: list[str] | None = None,
        batched: bool = False,
    ):
        super().__init__()
        if not callable(transform):
            raise TypeError(f"TorchVisionPreprocessor: transform: expected a function, found {transform!r}")
        self._columns = columns
        self._output_columns = self._derive_and_validate_output_columns(columns, output_columns)
        self._torchvision_transform = transform
        self._batched = batched

    @classmethod
    def preferred_batch_format(cls) -> BatchFormat:
        return BatchFormat.NUMPY

    def _apply(self, image: np.ndarray) -> np.ndarray:
        torch = package("torch", "TorchVisionPreprocessor")
        try:
            made = self._torchvision_transform(
                torch.as_tensor(image if image.flags.writeable else image.copy())
            )
        except TypeError:
            made = self._torchvision_transform(image)
        if isinstance(made, torch.Tensor):
            made = made.numpy()
        if not isinstance(made, np.ndarray):
            raise ValueError(
                "`TorchVisionPreprocessor` expected your transform to return a `torch.Tensor` or "
                f"`np.ndarray`, but your transform returned a `{type(made).__name__}` instead."
            )
        return made

    def _images(self, images: np.ndarray) -> np.ndarray:
        if self._batched:
            return self._apply(images)
        made = [self._apply(image) for image in images]
        if made and all(m.shape == made[0].shape for m in made):
            return np.stack(made)
        cells = np.empty(len(made), object)
        for i, m in enumerate(made):
            cells[i] = m
        return cells

    def _transform_numpy(self, np_data: Any) -> Any:
        if not isinstance(np_data, Mapping):
            return self._images(np_data)
        names = zip(self._columns, self._output_columns, strict=True)
        return dict(np_data) | {out: self._images(np_data[c]) for c, out in names}

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(columns={self._columns}, output_columns={self._output_columns}, "
            f"transform={self._torchvision_transform!r})"
        )
