"""`col("x").image`: functions of images in expressions. The engine runs a chain of them in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headrace._core import InvalidArgument

if TYPE_CHECKING:
    from headrace.data.expressions import Expr


def _numbers(values):
    values = [values] if isinstance(values, (int, float)) else list(values)
    return ",".join(repr(float(v)) for v in values)


def _pair(name, values):
    low, high = values
    if not 0 < low <= high:
        raise InvalidArgument(f"random_resized_crop: {name}: expected 0 < low <= high, found {values}")
    return float(low), float(high)


class ImageFunctions:
    """Functions of a column of images: files (binary), or uint8 pixels (height, width, channels).

    A chain is one pass: `col("bytes").image.decode().image.resize(224, 224)` decodes only what the resize
    needs. Random functions depend on the run's seed, the epoch, and the row's coordinate, never on threads.
    """

    def __init__(self, expr: Expr) -> None:
        self._expr = expr

    def decode(
        self,
        mode: str = "RGB",
        *,
        exact: bool = True,
        exif_orientation: bool = False,
        allow_truncated: bool = False,
        max_pixels: Any = None,
    ) -> Expr:
        """Pixels of the bytes of an image file; mode: "RGB", "RGBA", "L", "LA", or None for the stored one.
        exact=False: decodes a JPEG at 1/2, 1/4 or 1/8 of its size if that is at least twice the size that a
        resize needs.
        """
        return self._expr._call(
            "image_decode",
            mode="stored" if mode is None else mode,
            exact=exact,
            exif_orientation=exif_orientation,
            allow_truncated=allow_truncated,
            max_pixels=max_pixels,
        )

    def resize(self, height: int, width: int, *, interpolation: str = "bilinear") -> Expr:
        """Resizes with antialiasing. interpolation: nearest, box, bilinear, hamming, bicubic or lanczos."""
        return self._expr._call("image_resize", height=height, width=width, interpolation=interpolation)

    def center_crop(self, height: int, width: int) -> Expr:
        """The middle of the image; zeros surround an image that is smaller."""
        return self._expr._call("image_center_crop", height=height, width=width)

    def random_resized_crop(
        self,
        height: int,
        width: int,
        scale: Any = (0.08, 1.0),
        ratio: Any = (3 / 4, 4 / 3),
        *,
        seed: int | None = None,
        interpolation: str = "bilinear",
    ) -> Expr:
        """A part of random area (scale: share of the image) and shape (ratio: width / height), resized."""
        scale, ratio = _pair("scale", scale), _pair("ratio", ratio)
        return self._expr._call(
            "image_random_resized_crop",
            height=height,
            width=width,
            interpolation=interpolation,
            scale_low=scale[0],
            scale_high=scale[1],
            ratio_low=ratio[0],
            ratio_high=ratio[1],
            seed=seed,
        )

    def random_flip(self, p: float = 0.5, *, seed: int | None = None) -> Expr:
        """Mirrors left to right with probability p."""
        return self._expr._call("image_random_flip", p=p, seed=seed)

    def normalize(
        self,
        mean: float | Sequence[float] = 0.0,
        std: float | Sequence[float] = 1.0,
        *,
        dtype: str = "float32",
        layout: str = "CHW",
    ) -> Expr:
        """(value / 255 - mean) / std, as float32, float16, or bfloat16. Neither Arrow nor NumPy has bfloat16:
        the column is uint16, and torch converts it by `tensor.view(torch.bfloat16)`. layout: "CHW" or "HWC".
        """
        return self._expr._call(
            "image_normalize", mean=_numbers(mean), std=_numbers(std), dtype=dtype, layout=layout
        )
