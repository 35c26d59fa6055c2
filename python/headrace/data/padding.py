"""Lists of different lengths as one array: padded to the longest of the batch, with a mask."""

from headrace import lazy_module
from headrace._core import InvalidArgument, TypeMismatchError

np = lazy_module("numpy")
blocks = lazy_module("headrace.data.blocks")  # imports numpy


def of_argument(given):
    """A Padding for the argument `padding` of batches; None if it pads nothing."""
    if given is not None and given is not True and not isinstance(given, dict):
        raise TypeMismatchError(
            f"padding: expected None, True, or a dict of column -> value, found {given!r}"
        )
    return Padding(given) if given else None


class Padding:
    """Pads columns. given: True (every list of numbers, by 0), or a dict of column -> value."""

    def __init__(self, given):
        self.given = given

    def values(self, table):
        """column -> value, of the columns to pad in this table."""
        if self.given is True:
            kinds = {name: table.column(i) for i, name in enumerate(table.names)}
            return {name: 0 for name, column in kinds.items() if _is_numbers(column)}
        for name in self.given:
            if name not in table.names:
                raise InvalidArgument(
                    f"padding: no column {name!r}; the columns are {', '.join(map(repr, table.names))}"
                )
        return self.given

    def arrays(self, table):
        """column -> array (rows, longest, ...), and column + "_mask" -> bool (rows, longest)."""
        out = {}
        for name, value in self.values(table).items():
            out[name], out[name + "_mask"] = padded(table.column(name), value)
        for name in out:
            if name.endswith("_mask") and name in table.names and name[:-5] in out:
                raise InvalidArgument(f"padding: there is a column {name!r} already; rename it")
        return out


def _is_numbers(column):
    """Lists of one dimension whose values are numbers."""
    if column.kind != "list":
        return False
    return column.lists()[2].kind in ("int", "float")


def padded(column, value):
    """The rows of a column of lists as an array (rows, longest, *shape of a value), filled up with `value`,
    and a mask (rows, longest) that is True for values. A null is a list without values. One copy.
    """
    if column.kind != "list":
        raise TypeMismatchError(
            f"padding: column '{column.name}' is {column.type}, expected a column of lists"
        )
    starts, lengths, values = column.lists()
    starts, lengths = np.asarray(starts), np.asarray(lengths)
    if values.kind not in ("int", "float", "bool", "list") or not (values.dense or len(values) == 0):
        raise TypeMismatchError(
            f"padding: column '{column.name}' is {column.type}, or has nulls in its lists; expected lists of "
            "numbers, all of which have one shape"
        )
    valid = column.valid()
    if valid is not None:
        lengths = np.where(np.asarray(valid), lengths, 0)
    flat = blocks.column_to_numpy(values)
    mask = np.arange(lengths.max(initial=0)) < lengths[:, None]
    out = np.empty(mask.shape + flat.shape[1:], flat.dtype)
    try:
        fill = flat.dtype.type(value)
        if flat.dtype.kind in "iu" and fill != value:  # NumPy 1 keeps the low bits
            raise OverflowError("it does not fit")
        out[~mask] = fill
    except (OverflowError, ValueError, TypeError) as e:
        raise InvalidArgument(
            f"padding: {value!r} is no value of column '{column.name}' ({column.type}): {e}"
        ) from None
    ends = starts + lengths
    if len(starts) and (starts[1:] == ends[:-1]).all():  # one stretch of values
        out[mask] = flat[starts[0] : ends[-1]]
    else:
        for row, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
            out[row, : end - start] = flat[start:end]
    return out, mask
