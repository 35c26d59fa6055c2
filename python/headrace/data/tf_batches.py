"""Tables to tensors of TensorFlow, and a tf.data.Dataset over a DataIterator."""

from headrace import lazy_module
from headrace._core import InvalidArgument, TypeMismatchError
from headrace.optional import package

np = lazy_module("numpy")
blocks = lazy_module("headrace.data.blocks")  # imports numpy


class TfBatches:
    """Converts a table to what DataIterator.iter_tf_batches gives. dtypes: None, a tf.DType, or a dict of
    column -> tf.DType.
    """

    def __init__(self, dtypes):
        self.tf = package("tensorflow", "iter_tf_batches")
        self.dtypes = dtypes
        for dtype in dtypes.values() if isinstance(dtypes, dict) else [dtypes]:
            if dtype is not None and not isinstance(dtype, self.tf.DType):
                raise TypeMismatchError(f"iter_tf_batches: dtypes: expected a tf.DType, found {dtype!r}")

    def __reduce__(self):
        return TfBatches, (self.dtypes,)

    def __call__(self, table):
        names = table.names
        if isinstance(self.dtypes, dict):
            _known("iter_tf_batches: dtypes", self.dtypes, names)
        arrays = blocks.table_to_numpy(table)
        tensors = {}
        for i, name in enumerate(names):
            dtype = self.dtypes.get(name) if isinstance(self.dtypes, dict) else self.dtypes
            tensors[name] = _tensor(self.tf, table.column(i), arrays[name], dtype)
        return tensors


class TfExamples:
    """Converts a table to the tuples of DataIterator.to_tf. parts: for each element of the tuple, one column
    or a list of columns, and the tf.TypeSpec or the dict of them.
    """

    def __init__(self, parts):
        self.tf = package("tensorflow", "to_tf")
        self.parts = parts

    def __reduce__(self):
        return TfExamples, (self.parts,)

    def __call__(self, table):
        return tuple(self._part(table, columns, spec) for columns, spec in self.parts)

    def _part(self, table, columns, spec):
        if isinstance(columns, str):
            return self._one(table, columns, spec)
        return {name: self._one(table, name, spec[name]) for name in columns}

    def _one(self, table, name, spec):
        _known("to_tf", [name], table.names)
        column = table.column(table.names.index(name))
        array = blocks.column_to_numpy(column)
        is_ragged = isinstance(spec, self.tf.RaggedTensorSpec)
        made = _tensor(self.tf, column, array, spec.dtype, is_ragged)
        if isinstance(made, self.tf.RaggedTensor) and not is_ragged:
            raise TypeMismatchError(
                f"to_tf: column '{name}' ({column.type}): expected lists of one length for a tf.TensorSpec, "
                "found different ones; without a spec they are a tf.RaggedTensor"
            )
        return made


def dataset(iterator, request, parts, iterable):
    """A tf.data.Dataset over new passes of `iterator`. parts: (columns, spec or None) of features, labels and
    perhaps additional columns. iterable: makes an Iterable of the iterator, a request and a converter.
    """
    tf = package("tensorflow", "to_tf")
    for columns, _ in parts:
        if not isinstance(columns, str) and not (
            isinstance(columns, (list, tuple)) and all(isinstance(c, str) for c in columns)
        ):
            raise TypeMismatchError(f"to_tf: expected a column or a list of columns, found {columns!r}")
    if any(spec is None for _, spec in parts):
        schema = iterator.schema().base_schema
        parts = [(columns, spec or _specs(tf, schema, columns)) for columns, spec in parts]
    for columns, spec in parts:
        if not isinstance(columns, str):
            missing = [name for name in columns if not isinstance(spec, dict) or name not in spec]
            if missing:
                raise InvalidArgument(
                    f"to_tf: expected a dict of column -> tf.TypeSpec for {list(columns)}, found none for "
                    f"{missing[0]!r}"
                )
    batches = iterable(iterator, request, TfExamples(parts))
    signature = tuple(_signature(columns, spec) for columns, spec in parts)
    made = tf.data.Dataset.from_generator(lambda: iter(batches), output_signature=signature)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return made.with_options(options)


def _signature(columns, spec):
    return spec if isinstance(columns, str) else {name: spec[name] for name in columns}


def _known(what, wanted, names):
    for name in wanted:
        if name not in names:
            raise InvalidArgument(
                f"{what}: no column {name!r}; the columns are {', '.join(map(repr, names))}"
            )


def _specs(tf, schema, columns):
    _known("to_tf", [columns] if isinstance(columns, str) else columns, schema.names)
    if isinstance(columns, str):
        return _spec(tf, schema.field(columns))
    return {name: _spec(tf, schema.field(name)) for name in columns}


def _spec(tf, field):
    """The tf.TypeSpec of a column's batches."""
    pa = package("pyarrow", "to_tf")
    kind, shape, is_ragged = field.type, (None,), False
    while True:
        if isinstance(kind, pa.FixedShapeTensorType):
            kind, shape = kind.value_type, (*shape, *kind.shape)
        elif pa.types.is_fixed_size_list(kind):
            kind, shape = kind.value_type, (*shape, kind.list_size)
        elif (pa.types.is_list(kind) or pa.types.is_large_list(kind)) and not is_ragged:
            kind, shape, is_ragged = kind.value_type, (*shape, None), True
        else:
            break
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    dtype = _dtype(tf, kind)
    if dtype is None:
        raise TypeMismatchError(
            f"to_tf: column {field.name!r} is {field.type}: TensorFlow has no tensor for it; convert the "
            "column, or give its tf.TypeSpec"
        )
    if is_ragged:
        return tf.RaggedTensorSpec(shape, dtype=dtype)
    return tf.TensorSpec(shape, dtype=dtype, name=field.name)


def _dtype(tf, kind):
    types = package("pyarrow", "to_tf").types
    if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
        return tf.as_dtype(kind.to_pandas_dtype())
    texts = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    return tf.string if any(is_text(kind) for is_text in texts) else None


def _tensor(tf, column, array, dtype, ragged=False):
    """A tensor (rows, *shape) of a column, whose NumPy array is at hand. Lists of different lengths, and all
    lists if `ragged`, become a tf.RaggedTensor.
    """
    if column.kind == "list" and (ragged or array.dtype == object):
        return _ragged(tf, column, dtype)
    if (
        array.dtype.kind not in "biufcOUS"
        or array.dtype == object
        and column.kind not in ("string", "binary")
    ):
        raise TypeMismatchError(
            f"column '{column.name}' ({column.type}): TensorFlow has no tensor for it; select_columns() "
            "leaves the column out, with_column() converts it"
        )
    if array.dtype == object and column.null_count:
        raise TypeMismatchError(
            f"column '{column.name}' ({column.type}): {column.null_count} nulls in a batch; TensorFlow has "
            "no missing text: fill them, for example by fill_null('')"
        )
    if dtype is not None and dtype.is_integer and array.dtype.kind == "f" and not np.isfinite(array).all():
        raise TypeMismatchError(
            f"column '{column.name}' ({column.type}): {dtype.name} has no NaN and no infinity; a null of a "
            "number is NaN in a tensor"
        )
    try:
        return tf.convert_to_tensor(array, dtype=dtype)
    except (TypeError, ValueError) as e:
        raise TypeMismatchError(
            f"column '{column.name}' ({column.type}): cannot become "
            f"{dtype.name if dtype else 'a tensor'}: {e}"
        ) from None


def _ragged(tf, column, dtype):
    """Lists as a tf.RaggedTensor (rows, None, *shape of a value). One copy."""
    if column.null_count:
        raise TypeMismatchError(
            f"column '{column.name}' ({column.type}): {column.null_count} missing lists in a batch; a "
            "tf.RaggedTensor has none"
        )
    starts, lengths, values = column.lists()
    starts, lengths = np.asarray(starts), np.asarray(lengths)
    flat = blocks.column_to_numpy(values)
    ends = starts + lengths
    if len(starts) and (starts[1:] == ends[:-1]).all():  # one stretch of values
        flat = flat[starts[0] : ends[-1]]
    else:
        rows = [np.arange(start, end) for start, end in zip(starts, ends, strict=True)]
        flat = flat[np.concatenate(rows)] if rows else flat[:0]
    return tf.RaggedTensor.from_row_lengths(_tensor(tf, values, flat, dtype), lengths, validate=False)
