"""What Python does for readers of records: schemas of tf.train.Example, decoders of WebDataset samples."""

import io
import json
from fnmatch import fnmatch

from headrace._core import Expr, InvalidArgument, TypeMismatchError, UnsupportedError
from headrace.data.functions import function_node
from headrace.data.plan import Node
from headrace.optional import package

# tensorflow_metadata.proto.v0.schema_pb2.FeatureType
_METADATA_TYPES = {1: "bytes", 2: "int64", 3: "float"}


def _is_single(feature):
    """Whether a feature of tensorflow_metadata has at most one value."""
    return bool(feature.HasField("shape") and all(d.size == 1 for d in feature.shape.dim)) or bool(
        feature.HasField("value_count") and feature.value_count.max == 1
    )


def tf_schema_text(schema):
    """The engine's option tf_schema: lines "type name". None stays."""
    if schema is None:
        return None
    if isinstance(schema, dict):
        pairs = [(str(name), str(kind)) for name, kind in schema.items()]
    elif hasattr(schema, "feature"):
        pairs = []
        for f in schema.feature:
            kind = _METADATA_TYPES.get(f.type)
            if kind is None:
                raise InvalidArgument(f"tf_schema: feature {f.name!r}: unknown type {f.type}")
            pairs.append((f.name, kind if _is_single(f) else f"list<{kind}>"))
    else:
        found = type(schema).__name__
        raise InvalidArgument(f"tf_schema: expected a dict or a schema of tensorflow_metadata, found {found}")
    for name, _ in pairs:
        if "\n" in name:
            raise InvalidArgument(f"tf_schema: feature {name!r}: a name must not have a newline")
    return "\n".join(f"{kind} {name}" for name, kind in pairs)


_TEXTS = {"txt", "text", "transcript"}
_NUMBERS = {"cls", "cls2", "index", "inx", "id", "count"}
_PIXMAPS = {"ppm", "pgm", "pbm", "pnm"}  # Pillow decodes these; the engine has no decoder
_IMAGES = _PIXMAPS | {"jpg", "jpeg", "png", "webp", "bmp", "gif", "tif", "tiff"}
_REFUSED = {"pickle", "pkl", "pyd", "pth", "pt"}
_MODES = {"l": "L", "rgb": "RGB", "rgba": "RGBA"}


def _is_function(step):
    return step is not True and not isinstance(step, str)


def _mode(step):
    """The mode of images that a step wants; None: as stored."""
    if step is True or step.lower() == "pil":
        return None
    word = step.lower().removeprefix("pil").removesuffix("8")
    if word not in _MODES:
        known = ", ".join(["pil", *_MODES])
        raise UnsupportedError(f"read_webdataset: decoder: expected one of {known}, found {step!r}")
    return _MODES[word]


def decoder_list(decoder):
    """The steps of read_webdataset's argument `decoder`: each is True, a mode of images, or a function."""
    steps = list(decoder) if isinstance(decoder, (list, tuple)) else [decoder]
    steps = [step for step in steps if step is not None and step is not False]
    for step in steps:
        if step is not True and not isinstance(step, str) and not callable(step):
            raise InvalidArgument(
                f"read_webdataset: decoder: expected a bool, a mode or a function, found {step!r}"
            )
        if not _is_function(step):
            _mode(step)
    return steps


def decoder_options(steps):
    """The engine's options for the first step, if it is no function of the user's."""
    native = bool(steps) and not _is_function(steps[0])
    return {"decode": native, "images": (_mode(steps[0]) or "stored") if native else None}


def matches(suffix, wanted):
    """Whether a function, or a list of names and patterns (with or without a dot in front), wants a
    suffix.
    """
    if callable(wanted):
        return bool(wanted(suffix))
    for pattern in [wanted] if isinstance(wanted, str) else wanted:
        if "*" in pattern or "?" in pattern:
            if fnmatch("." + suffix, pattern) or fnmatch(suffix, pattern):
                return True
        elif pattern in (suffix, "." + suffix):
            return True
    return False


def select_suffixes(ds, suffixes, keep):
    """Selects the columns whose suffix `suffixes` wants (names, patterns, or a function), and `keep`."""
    if suffixes is None:
        return ds
    return ds.select_columns([c for c in ds._names() if c in keep or matches(c, suffixes)])


class _Decode:
    """Decodes one column of bytes; workers get a copy of this object."""

    def __init__(self, kind, mode):
        self.kind = kind
        self.mode = mode

    def __call__(self, values):
        decode = getattr(self, "_" + self.kind)
        return [decode(v) if isinstance(v, bytes) else v for v in values]

    def _text(self, data):
        return data.decode()

    def _number(self, data):
        return int(data)

    def _json(self, data):
        return json.loads(data)

    def _npy(self, data):
        import numpy as np

        return np.load(io.BytesIO(data), allow_pickle=False)

    def _image(self, data):
        import numpy as np

        image = package("PIL.Image", "read_webdataset").open(io.BytesIO(data))
        return np.asarray(image.convert(self.mode) if self.mode else image)


def _kind(column, by_engine):
    """The kind of decoding of a column; None: the values stay. by_engine: the engine decoded its part."""
    suffix = column.rsplit(".", 1)[-1]
    if suffix in _REFUSED:
        raise UnsupportedError(
            f"read_webdataset: column {column!r}: unpickling can run any code; use decoder=None, or a "
            "function"
        )
    if suffix in ("json", "npy"):
        return suffix
    if suffix in _PIXMAPS or (suffix in _IMAGES and not by_engine):
        return "image"
    if by_engine:
        return None
    return "text" if suffix in _TEXTS else "number" if suffix in _NUMBERS else None


def decoded(ds, steps, by_engine=True):
    """The samples after all steps; see read_webdataset. by_engine: the engine did its part of the first."""
    for i, step in enumerate(steps):
        if _is_function(step):
            ds = ds.map(step)
            continue
        names = ds._names()
        columns = [c for c in names if not c.startswith("__")]
        kinds = {c: kind for c in columns if (kind := _kind(c, by_engine and i == 0)) is not None}
        if kinds:
            ds = _with_decoded(ds, names, kinds, _mode(step))
    return ds


def _with_decoded(ds, names, kinds, mode):
    """Decodes each column in a step of its own, so that rules can remove the step of an unused column."""
    node, made = ds._node, {}
    for column, kind in kinds.items():
        made[column] = f"<decode({column})>"
        node = function_node(
            node,
            "decode",
            "made",
            _Decode(kind, mode),
            compute=_place([kind]),
            concurrency=None,
            options={"one_to_one": True, "made": made[column], "columns": (column,)},
            column=made[column],
        )
    exprs = [Expr.column(m) for m in made.values()]
    node = Node("with_columns", {"names": list(made), "exprs": exprs}, [node])
    return ds._plain(Node("project", {"names": list(names), "new_names": None}, [node]))


def _place(kinds):
    """Where to decode: threads for JSON, text and numbers, which are too small for a process."""
    return "threads" if set(kinds) <= {"json", "text", "number"} else None


def _with_values(ds, name, columns, function, kinds):
    """Adds columns that a function computes from others."""
    return ds._with_function(
        name,
        "values",
        function,
        compute=_place(kinds),
        concurrency=None,
        options={"one_to_one": True},
        column=columns,
    )


class _Expand:
    """Makes columns of the keys of the column json."""

    def __init__(self, taken):
        self.taken = taken

    def __call__(self, columns):
        rows = [self._object(v) for v in columns["json"]]
        names = dict.fromkeys(name for row in rows for name in row)
        for name in names:
            if name in self.taken:
                raise InvalidArgument(
                    f"read_webdataset: expand_json: the samples have a column {name!r} already"
                )
        return {name: [row.get(name) for row in rows] for name in names}

    @staticmethod
    def _object(value):
        if isinstance(value, (bytes, str)):
            value = json.loads(value)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise TypeMismatchError(
                f"read_webdataset: expand_json: column 'json': expected objects, found {type(value).__name__}"
            )
        return value


def expanded(ds):
    """The samples with a column for each key of their json."""
    names = ds._names()
    if "json" not in names:
        raise InvalidArgument(
            f"read_webdataset: expand_json: no column 'json'; the columns are {', '.join(names)}"
        )
    return _with_values(ds, "expand_json", ["json"], _Expand(frozenset(names)), ["json"])


def _feature_kind(name, kind):
    """ "int64", "float" or "bytes" for a column's type."""
    item = kind
    while item.startswith(("list<", "large_list<", "fixed_size_list<")):
        item = item.partition("item: ")[2]
    item = item.partition("value_type=")[2] or item  # a tensor
    if item.startswith(("int", "uint", "bool")):
        return "int64"
    if item.startswith(("float", "double", "halffloat")):
        return "float"
    if item.startswith(("string", "large_string", "binary", "large_binary", "fixed_size_binary")):
        return "bytes"
    raise TypeMismatchError(f"write_tfrecords: column '{name}': no feature can hold type {kind}")


def of_tf_schema(ds, schema):
    """The dataset with the types of tf_schema; TypeMismatchError if a column does not fit."""
    from headrace.data.expressions import col

    features = dict(reversed(line.split(" ", 1)) for line in tf_schema_text(schema).splitlines())
    found = ds.schema()
    for name, kind in [] if found is None else zip(found.names, found.types, strict=True):
        if name not in features:
            raise InvalidArgument(f"write_tfrecords: column '{name}' is not in tf_schema")
        wanted = features[name].removeprefix("list<").removesuffix(">")
        have = _feature_kind(name, kind)
        if (have, wanted) == ("int64", "float") and kind.startswith(("int", "uint")):
            ds = ds.with_column(name, col(name).cast("float"))
        elif have != wanted:
            raise TypeMismatchError(
                f"write_tfrecords: column '{name}': expected {features[name]} (tf_schema), found {kind}"
            )
    return ds
