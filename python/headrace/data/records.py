"""What the readers of record files need of Python: schemas of tf.train.Example, decoders of WebDataset."""

from headrace._core import InvalidArgument

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
