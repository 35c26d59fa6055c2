"""Tables to dicts of jax.Array, divided by rows among JAX's devices."""

from headrace import lazy_module
from headrace._core import InvalidArgument, TypeMismatchError, UnsupportedError
from headrace.optional import package

np = lazy_module("numpy")
blocks = lazy_module("headrace.data.blocks")  # imports numpy

_SCALARS = (int, float, bool)


class JaxBatches:
    """Converts a table to what DataIterator.iter_jax_batches gives."""

    def __init__(self, batch_size, dtypes, collate_fn, paddings, synchronize):
        if paddings is not None and not isinstance(paddings, (*_SCALARS, dict)):
            raise TypeMismatchError(
                "iter_jax_batches: paddings: expected a number or a dict of column -> number, "
                f"found {paddings!r}"
            )
        self.batch_size = batch_size
        self.dtypes = dtypes
        self.collate_fn = collate_fn
        self.paddings = paddings
        self.synchronize = synchronize
        self._load()

    def _load(self):
        self.jax = jax = package("jax", "iter_jax_batches")
        devices = jax.devices()
        if self.synchronize and jax.process_count() > 1:
            raise UnsupportedError(
                "iter_jax_batches: synchronize_batches is not supported; streaming_split(n, "
                "equal=True) gives all processes the same number and sizes of batches"
            )
        if self.batch_size % jax.local_device_count():
            raise InvalidArgument(
                f"iter_jax_batches: batch_size: expected a multiple of the {jax.local_device_count()} local "
                f"devices, found {self.batch_size}"
            )
        mesh = jax.sharding.Mesh(np.asarray(devices), ("rows",))
        self.sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("rows"))

    def __reduce__(self):
        return JaxBatches, (self.batch_size, self.dtypes, self.collate_fn, self.paddings, self.synchronize)

    def __call__(self, table):
        if self.collate_fn is None:
            batch = blocks.table_to_numpy(table)  # JAX never writes to memory of others
        else:
            batch = self.collate_fn(blocks.for_collate(table, self.collate_fn))
        if not isinstance(batch, dict):
            return self._array("the batch", batch, None)
        for what, given in (("dtypes", self.dtypes), ("paddings", self.paddings)):
            unknown = [name for name in given if name not in batch] if isinstance(given, dict) else []
            if unknown:
                raise InvalidArgument(
                    f"iter_jax_batches: {what}: no column {unknown[0]!r}; the columns are {', '.join(batch)}"
                )
        return {name: self._array(f"column '{name}'", array, name) for name, array in batch.items()}

    def _array(self, what, array, name):
        array = np.asarray(array)
        if array.dtype.kind not in "biufcV" or array.dtype.hasobject:
            raise TypeMismatchError(
                f"{what}: JAX has no array for values of {array.dtype}; select_columns() leaves it out, "
                "collate_fn converts it"
            )
        dtype = self.dtypes.get(name) if isinstance(self.dtypes, dict) else self.dtypes
        if dtype is not None:
            array = _typed(what, array, dtype)
        if array.dtype.kind in "iu" and array.dtype.itemsize == 8 and not self.jax.config.jax_enable_x64:
            array = _of_32_bits(what, array)
        return self._placed(what, self._full(what, array, name))

    def _full(self, what, array, name):
        """Padded to batch_size rows."""
        value = self.paddings.get(name) if isinstance(self.paddings, dict) else self.paddings
        missing = self.batch_size - len(array)
        if value is not None:
            value = _of_type(what, value, array.dtype)
            if missing > 0:
                rest = np.full((missing, *array.shape[1:]), value, array.dtype)
                return np.concatenate([array, rest])
        if len(array) % self.jax.local_device_count():
            raise InvalidArgument(
                f"{what}: a batch of {len(array)} rows cannot be divided among "
                f"{self.jax.local_device_count()} devices; use drop_last=True or paddings="
            )
        return array

    def _placed(self, what, array):
        jax = self.jax
        if jax.process_count() > 1:
            return jax.make_array_from_process_local_data(self.sharding, array)
        return jax.device_put(array, self.sharding)


def _typed(what, array, dtype):
    """The array as `dtype`. NumPy would make the least integer, or True, of NaN."""
    try:
        target = np.dtype(dtype)
    except TypeError as e:
        raise TypeMismatchError(f"{what}: dtypes: {e}") from None
    if target.kind in "iub" and array.dtype.kind in "fc" and not np.isfinite(array).all():
        raise TypeMismatchError(
            f"{what}: dtypes: {target} has no NaN and no infinity; a null of a number is NaN in an array"
        )
    try:
        return array.astype(target, copy=False)
    except TypeError as e:
        raise TypeMismatchError(f"{what}: dtypes: {e}") from None


def _of_type(what, value, dtype):
    """A value of `paddings`, which must fit also while no batch is short."""
    try:
        if dtype.kind in "iu" and dtype.type(value) != value:  # NumPy would drop a fraction
            raise OverflowError("it does not fit")
        return np.full((), value, dtype)
    except (OverflowError, ValueError, TypeError) as e:
        raise InvalidArgument(f"{what}: paddings: {value!r} is no value of {dtype}: {e}") from None


def _of_32_bits(what, array):
    """The integers as JAX has them without jax_enable_x64. It would drop the upper bits without a word."""
    made = array.astype("i4" if array.dtype.kind == "i" else "u4")
    if not np.array_equal(made, array):
        value = array[made != array].flat[0]
        raise TypeMismatchError(
            f"{what}: the value {value} needs 64 bits, and JAX has {made.dtype} unless "
            "jax.config.update('jax_enable_x64', True) is called; dtypes= makes another type of it"
        )
    return made
