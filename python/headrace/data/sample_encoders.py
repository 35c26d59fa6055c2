"""Encoders of write_webdataset, for values that are no text, bytes or numbers: the suffix of the column names
the encoding, and a user's function gets whole samples as dicts.
"""

import io
import json

from headrace._core import InvalidArgument, TypeMismatchError
from headrace.optional import package

_IMAGES = {e: e for e in ("jpeg", "png", "webp", "bmp", "gif", "tiff")}
_IMAGES |= {"jpg": "jpeg", "tif": "tiff"} | dict.fromkeys(("ppm", "pgm", "pbm", "pnm"), "ppm")
_ENCODED = {*_IMAGES, "json", "npy", "pt", "pth", "pkl", "pickle", "mp"}
_EXPECTED = (
    "a member is text, bytes or a number, or its name ends in an encoding: "
    "json, npy, jpg, png, webp, pt, pkl, mp"
)
_PLAIN = ("string", "large_string", "binary", "large_binary", "bool", "null")
_NUMBERS = ("int", "uint", "float", "double", "halffloat")


def encoder_steps(encoder):
    """The argument `encoder` as a list of True and functions."""
    steps = list(encoder) if isinstance(encoder, (list, tuple)) else [encoder]
    steps = [True if isinstance(step, str) else step for step in steps if step not in (None, False)]
    for step in steps:
        if step is not True and not callable(step):
            raise InvalidArgument(
                f"write_webdataset: encoder: expected a bool, a function or a list of these, found {step!r}"
            )
    return steps


def _suffix(name):
    return name.rsplit(".", 1)[-1].lower()


def _is_plain(kind):
    return kind in _PLAIN or kind.startswith(_NUMBERS)


def encoded(ds, encoder):
    """The dataset with columns that the engine can write as members of samples."""
    steps = encoder_steps(encoder)
    if all(step is True for step in steps):
        schema = ds.schema()
        rest = {} if schema is None else dict(zip(schema.names, schema.types, strict=True))
        rest = {n: kind for n, kind in rest.items() if not n.startswith("__") and not _is_plain(kind)}
        for name, kind in rest.items() if steps else ():
            if _suffix(name) not in _ENCODED:
                raise TypeMismatchError(f"write_webdataset: column '{name}' is {kind}; {_EXPECTED}")
        return ds.map(_Encode(list(rest)), compute="threads") if rest and steps else ds
    for step in steps:
        ds = ds.map(_Encode(None) if step is True else step)
    return ds


class _Encode:
    """Encodes `columns` of a sample as bytes (None: all except text, bytes and numbers)."""

    __name__ = "encoder"

    def __init__(self, columns):
        self.columns = columns

    def __call__(self, sample):
        out = dict(sample)
        for name in out if self.columns is None else self.columns:
            value = out[name]
            if not (name.startswith("__") or value is None or isinstance(value, (str, bytes, int, float))):
                out[name] = encode(name, value)
        return out


def encode(name, value):
    """The bytes of a value in the encoding that the last part of the column's name gives."""
    suffix = _suffix(name)
    stream = io.BytesIO()
    if suffix in _IMAGES:
        _image(name, value).save(stream, format=_IMAGES[suffix])
    elif suffix == "json":
        return json.dumps(value, default=_json_value, ensure_ascii=False).encode()
    elif suffix == "npy":
        import numpy as np

        np.save(stream, np.asarray(value), allow_pickle=False)
    elif suffix in ("pt", "pth"):
        package("torch", "write_webdataset").save(value, stream)
    elif suffix in ("pkl", "pickle"):
        import pickle

        pickle.dump(value, stream)
    elif suffix == "mp":
        return package("msgpack", "write_webdataset").dumps(value, default=_json_value)
    else:
        raise TypeMismatchError(f"write_webdataset: column '{name}': {type(value).__name__}; {_EXPECTED}")
    return stream.getvalue()


def _image(name, value):
    image = package("PIL.Image", "write_webdataset")
    if hasattr(value, "save"):
        return value
    try:
        array = value[:, :, 0] if value.ndim == 3 and value.shape[2] == 1 else value
        return image.fromarray(array)
    except (AttributeError, TypeError, ValueError) as e:
        found = f"{value.dtype} {value.shape}" if hasattr(value, "shape") else type(value).__name__
        raise TypeMismatchError(
            f"write_webdataset: column '{name}': expected pixels (height, width, channels), found "
            f"{found}: {e}"
        ) from None


def _json_value(value):
    if hasattr(value, "tolist"):
        return value.tolist()
    if hasattr(value, "isoformat"):
        return value.isoformat()
    raise TypeMismatchError(f"write_webdataset: JSON has no form for {type(value).__name__}")
