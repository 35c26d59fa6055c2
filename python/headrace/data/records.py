"""What the readers of record files need of Python: schemas of tf.train.Example, decoders of WebDataset."""

import io
import json
from fnmatch import fnmatch

from headrace._core import InvalidArgument, UnsupportedError

# tensorflow_metadata.proto.v0.schema_pb2.FeatureType
_METADATA_TYPES = {1: "bytes", 2: "int64", 3: "float"}


def _is_single(feature):
    """Whether a feature of tensorflow_metadata has one value at most."""
    return bool(feature.HasField("shape") and all(d.size == 1 for d in feature.shape.dim)) or bool(
        feature.HasField("value_count") and feature.value_count.max == 1
    )


def tf_schema_text(schema):
    """The option tf_schema of the engine: lines "type name". None stays."""
    if schema is None:
        return None
    if isinstance(schema, dict):
        pairs = [(str(name), str(kind)) for name, kind in schema.items()]
    elif hasattr(schema, "feature"):
        pairs = []
        for f in schema.feature:
            kind = _METADATA_TYPES.get(f.type)
            if kind is None:
                raise InvalidArgument(f"tf_schema: feature {f.name!r}: type {f.type} is unknown")
            pairs.append((f.name, kind if _is_single(f) else f"list<{kind}>"))
    else:
        found = type(schema).__name__
        raise InvalidArgument(f"tf_schema: expected a dict or a schema of tensorflow_metadata, not {found}")
    for name, _ in pairs:
        if "\n" in name:
            raise InvalidArgument(f"tf_schema: feature {name!r}: a name has one line")
    return "\n".join(f"{kind} {name}" for name, kind in pairs)


_IMAGES = {"jpg", "jpeg", "png", "webp", "ppm", "pgm", "pbm", "pnm", "bmp", "gif", "tif", "tiff"}
_REFUSED = {"pickle", "pkl", "pyd", "pth", "pt"}
_MODES = {"l": "L", "rgb": "RGB", "rgba": "RGBA"}


def decoder_list(decoder):
    """The steps of the argument `decoder` of read_webdataset: True, a mode of images, or a function."""
    steps = list(decoder) if isinstance(decoder, (list, tuple)) else [decoder]
    out = []
    for d in steps:
        if d is None or d is False:
            continue
        if isinstance(d, str) and d.lower().removesuffix("8") not in _MODES:
            raise UnsupportedError(f"read_webdataset: decoder {d!r}: known are {', '.join(_MODES)}")
        if not (d is True or isinstance(d, str) or callable(d)):
            raise InvalidArgument(
                f"read_webdataset: decoder: expected a bool, a mode or a function, not {d!r}"
            )
        out.append(d)
    return out


def select_suffixes(ds, suffixes, url):
    """Only the columns of these suffixes, names or patterns, and those that say where a sample is from."""
    if suffixes is None:
        return ds
    wanted = [suffixes] if isinstance(suffixes, str) else list(suffixes)
    keep = ["__key__", url]
    return ds.select_columns(
        [c for c in ds.schema().names if c in keep or any(fnmatch(c, w.lstrip(".")) for w in wanted)]
    )


class _Decode:
    """What a step does with the columns that the engine gives as bytes; workers get a copy."""

    def __init__(self, columns, mode):
        self.columns = columns
        self.mode = mode

    def __call__(self, row):
        for name, kind in self.columns.items():
            if row[name] is not None:
                row[name] = self._value(kind, row[name])
        return row

    def _value(self, kind, data):
        if kind == "json":
            return json.loads(data)
        import numpy as np

        if kind == "npy":
            return np.load(io.BytesIO(data), allow_pickle=False)
        from PIL import Image

        image = Image.open(io.BytesIO(data))
        return np.asarray(image.convert(self.mode) if self.mode else image)


def decoded(ds, steps):
    """The samples after all steps; see read_webdataset."""
    for step in steps:
        if callable(step):
            ds = ds.map(step)
            continue
        columns = {}
        for name in ds.schema().names:
            kind = name.rsplit(".", 1)[-1]
            if kind in _REFUSED:
                raise UnsupportedError(
                    f"read_webdataset: column {name!r}: unpickling can run any code; "
                    "say decoder=None, or give a function"
                )
            if kind in ("json", "npy"):
                columns[name] = kind
            elif kind in _IMAGES:
                columns[name] = "image"
        if columns:
            ds = ds.map(_Decode(columns, None if step is True else _MODES[step.lower().removesuffix("8")]))
    return ds
