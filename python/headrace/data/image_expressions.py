"""`col("x").image`: functions of images in expressions, done for each image in one pass by the engine."""

from headrace._core import InvalidArgument


def _numbers(values):
    values = [values] if isinstance(values, (int, float)) else list(values)
    return ",".join(repr(float(v)) for v in values)


def _pair(name, values):
    low, high = values
    if not 0 < low <= high:
        raise InvalidArgument(f"random_resized_crop: {name} {values}; expected 0 < low <= high")
    return float(low), float(high)


class ImageFunctions:
    """Functions of a column of images: files (binary), or uint8 pixels (height, width, channels).

    Written one after the other they are one pass: `col("bytes").image.decode().image.resize(224, 224)`
    decodes only what is needed. What is random depends on the run's seed, the epoch, and the row's place,
    never on threads.
    """

    def __init__(self, expr):
        self._expr = expr

    def decode(
        self, mode="RGB", *, exact=True, exif_orientation=False, allow_truncated=False, max_pixels=None
    ):
        """Bytes of an image file as pixels; mode: "RGB", "RGBA", "L", "LA", or None as stored. exact=False: a
        JPEG may be decoded at 1/2, 1/4 or 1/8 where that is still twice what a resize needs.
        """
        return self._expr._call(
            "image_decode",
            mode="stored" if mode is None else mode,
            exact=exact,
            exif_orientation=exif_orientation,
            allow_truncated=allow_truncated,
            max_pixels=max_pixels,
        )

    def resize(self, height, width, *, interpolation="bilinear"):
        """nearest, box (area), bilinear, hamming, bicubic or lanczos; antialiased."""
        return self._expr._call("image_resize", height=height, width=width, interpolation=interpolation)

    def center_crop(self, height, width):
        """The middle; around a smaller image stand zeros."""
        return self._expr._call("image_center_crop", height=height, width=width)

    def random_resized_crop(
        self, height, width, scale=(0.08, 1.0), ratio=(3 / 4, 4 / 3), *, seed=None, interpolation="bilinear"
    ):
        """A part of random area (scale: of the whole) and shape (ratio: width by height), resized."""
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

    def random_flip(self, p=0.5, *, seed=None):
        """Mirrored, left to right, with probability p."""
        return self._expr._call("image_random_flip", p=p, seed=seed)

    def normalize(self, mean=0.0, std=1.0, *, dtype="float32", layout="CHW"):
        """(value / 255 - mean) / std, as float32, float16, or bfloat16, which neither Arrow nor NumPy has: it
        comes as uint16, of which torch makes `tensor.view(torch.bfloat16)`. layout: "CHW" or "HWC".
        """
        return self._expr._call(
            "image_normalize", mean=_numbers(mean), std=_numbers(std), dtype=dtype, layout=layout
        )
