"""Conversions that C leaves to Python: dates, decimals, pickles, and objects that are only like arrays.

python/src/py_value.c calls `maker` and `unpickled`, python/src/py_build.c the rest. This file imports numpy
when a value needs it; it recognises torch, pandas and pyarrow by their modules and never imports them.
"""

import datetime
import decimal
import logging
import pickle
import sys

from headrace._core import InvalidArgument, TypeMismatchError
from headrace.optional import imported

EPOCH = datetime.datetime(1970, 1, 1)
EPOCH_DAY = EPOCH.toordinal()
MICRO = datetime.timedelta(microseconds=1)
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
ARROW_UNIT = {"s": "s", "ms": "m", "us": "u", "ns": "n"}


def _numpy():
    import numpy

    return numpy


# --------------------------------------------------------------------------------------------------- names


def check_arrow_names(data):
    """Raises InvalidArgument for a name with a zero byte in Arrow data or types: C would cut it."""
    for name in _arrow_names(data):
        if isinstance(name, str) and "\0" in name:
            raise InvalidArgument(f"column {name!r}: expected names without zero bytes")


def _arrow_names(data):
    """The column names of a frame, or pyarrow's text of the types (with all names) if it has a zero byte."""
    pyarrow = imported("pyarrow")
    kinds = tuple(getattr(pyarrow, k) for k in ("Schema", "DataType", "Field") if hasattr(pyarrow, k))
    places = data, getattr(data, "schema", None), getattr(data, "type", None)
    types = next((x for x in places if isinstance(x, kinds)), None)
    if types is None:
        columns = getattr(data, "columns", None)
        return columns if isinstance(columns, list) else ()
    if not isinstance(types, pyarrow.Schema):
        return (str(types),)
    printed = types.to_string(show_field_metadata=False, show_schema_metadata=False)
    return [*types.names, printed] if "\0" in printed else ()


# --------------------------------------------------------------------------------------- columns to objects


def zone_of(name):
    """The tzinfo of a zone's name ("Europe/Berlin", "UTC") or of a fixed offset ("+02:00")."""
    if name[:1] in "+-" and len(name) == 6:
        delta = datetime.timedelta(hours=int(name[1:3]), minutes=int(name[4:6]))
        return datetime.timezone(-delta if name[0] == "-" else delta)
    if name == "UTC":
        return datetime.UTC
    import zoneinfo

    return zoneinfo.ZoneInfo(name)


def maker(kind, unit, zone, scale):
    """The function that makes a Python object from a stored date, time or decimal.

    Nanoseconds, and dates outside the years 1 to 9999, become numpy.datetime64 (in UTC) or timedelta64.
    """
    if kind == "decimal":
        return lambda raw: decimal.Decimal(f"{int.from_bytes(raw, 'little', signed=True)}E{-scale}")
    if kind == "date32":
        return _date_of_days
    if kind == "date64":
        return lambda ms: _date_of_days(ms // 86_400_000)
    if kind == "time":
        return lambda v: (EPOCH + MICRO * (v * 10**6 // PER_SECOND[unit])).time()
    if kind == "duration":
        if unit == "ns":
            return lambda v: _numpy().timedelta64(v, "ns")
        return lambda v: _timedelta(v, unit)
    if unit == "ns":
        return lambda v: _numpy().datetime64(v, "ns")
    if zone is None:
        return lambda v: _datetime(v, unit)
    tz = zone_of(zone)
    return lambda v: _datetime_in(v, unit, tz)


def _date_of_days(days):
    try:
        return datetime.date.fromordinal(EPOCH_DAY + days)
    except (ValueError, OverflowError):
        return _numpy().datetime64(days, "D")


def _timedelta(v, unit):
    try:
        return MICRO * (v * (10**6 // PER_SECOND[unit]))
    except OverflowError:
        return _numpy().timedelta64(v, unit)


def _datetime(v, unit):
    try:
        return EPOCH + MICRO * (v * (10**6 // PER_SECOND[unit]))
    except OverflowError:
        return _numpy().datetime64(v, unit)


def _datetime_in(v, unit, tz):
    made = _datetime(v, unit)
    if not isinstance(made, datetime.datetime):
        return made
    return made.replace(tzinfo=datetime.UTC).astimezone(tz)


# ----------------------------------------------------------------------------------------- objects by pickle

allowed = True  # in a worker process: whether the function's columns may hold pickles
_logged = set()  # columns with pickles; each is logged once


def unpickled(data):
    """The value in a memoryview."""
    data = data.tobytes()
    if b"_class_setstate" not in data:
        return pickle.loads(data)
    from headrace.udf import sending  # a class by value comes from cloudpickle, which is here

    return sending.loads(data)


def _pickle(value):
    """Pickles a value, with cloudpickle if another process could not import the class or function."""
    cloud = imported("cloudpickle")
    if cloud is None or not cloud.list_registry_pickle_by_value():
        try:
            made = pickle.dumps(value, 5)
            if b"_main__" not in made:  # a class of the script, __main__ or __mp_main__
                return made
        except Exception:
            pass
    from headrace.udf import sending

    return sending.dumps(value)


def pickled(values, name, why):
    """The values of a column without a type as pickles; None stays. `why` is the exception that says why.

    NotImplemented if `values` is no sequence or has numbers of a type from outside of numpy, or if
    DataContext.enable_fallback_to_arrow_object_ext_type is False.
    """
    np = _numpy()
    module = type(values).__module__.partition(".")[0]
    if module == "pandas":
        values = _pandas(values)[0]
    if not isinstance(values, (list, tuple, np.ndarray)) or not _fallback() or _is_foreign(_first(values)):
        return NotImplemented
    if isinstance(values, np.ndarray) and (values.dtype != object or values.ndim != 1):
        return NotImplemented
    made = []
    for row, value in enumerate(values):
        if value is None or type(value).__name__ in ("NaTType", "NAType"):
            made.append(None)
            continue
        try:
            made.append(_pickle(value))
        except Exception as e:
            kind = f"{type(value).__module__}.{type(value).__qualname__}"
            text = f"{type(e).__name__}: {e}"
            raise TypeMismatchError(
                f"column '{name}', row {row}: a value of class {kind} cannot be pickled: {text}"
            ) from e
    if name not in _logged:
        _logged.add(name)
        logging.getLogger("headrace.data").warning(
            "%s; the column holds pickled Python objects, which is slow: docs/functions.md", why
        )
    return made


def _first(values):
    """The first value that is neither None nor a list."""
    np = _numpy()
    while isinstance(values, (list, tuple)) or isinstance(values, np.ndarray) and values.dtype == object:
        values = values.ravel() if isinstance(values, np.ndarray) else values
        values = next((v for v in values if v is not None), None)
    return values


def _is_foreign(value):
    """Whether a value, or an array, has a dtype that another package registers: bfloat16 of ml_dtypes."""
    return getattr(getattr(value, "dtype", None), "isbuiltin", None) == 2


def no_type(value):
    """Why there is no column for a value or an array."""
    dtype = getattr(value, "dtype", None)
    if dtype is None:
        return f"no column type for a value of type {type(value).__name__}"
    text = f"no column type for values of type {dtype}"
    if not _is_foreign(value):
        return text
    plain = "int8" if "int" in dtype.name else "float32"
    return f'{text}: convert them, for example by .astype("{plain}")'


def _fallback():
    context = imported("headrace.data.context")
    if (
        context is not None
        and context.DataContext.get_current().enable_fallback_to_arrow_object_ext_type is False
    ):
        return False
    return allowed


# --------------------------------------------------------------------------------------- objects to columns

SPECIAL = (datetime.date, datetime.time, datetime.timedelta, decimal.Decimal)


def item(value):
    """One value of a list as an array, None, a plain object (a date, a time, a decimal, a dict, a list), or
    NotImplemented.
    """
    kind = type(value).__name__
    if kind in ("NaTType", "NAType"):
        return None
    if isinstance(value, SPECIAL):
        return value
    if isinstance(value, dict) or kind == "mappingproxy":
        return dict(value)
    if isinstance(value, range):
        return list(value)
    np = imported("numpy")
    if np and isinstance(value, (np.datetime64, np.timedelta64)):
        return None if np.isnat(value) else value
    if kind in ("Tensor", "Parameter") and "torch" in sys.modules:
        return tensor_to_numpy(value)
    if hasattr(value, "__array__") or hasattr(value, "__array_interface__"):
        array = _numpy().asarray(value)
        if array.dtype.kind in "mM":
            return list(array)
        return NotImplemented if array.ndim == 0 and array.dtype == object else array
    return NotImplemented


def tensor_to_numpy(tensor):
    """A torch tensor as an array; a CPU tensor shares its memory. bfloat16, which numpy lacks, becomes
    float32.
    """
    torch = sys.modules["torch"]
    tensor = tensor.detach()
    if tensor.dtype == torch.bfloat16:
        tensor = tensor.float()
    return tensor.cpu().resolve_conj().resolve_neg().numpy()


def _only(values, types, what):
    for row, v in enumerate(values):
        if v is not None and not isinstance(v, types):
            raise TypeMismatchError(f"row {row}: expected {what}, found {type(v).__name__}")


def special(values):
    """(Arrow format, list of int, bytes or None) of a list of dates, times, durations or decimals."""
    first = next(v for v in values if v is not None)
    np = imported("numpy")
    if np and isinstance(first, (np.datetime64, np.timedelta64)):
        _only(values, type(first), f"{type(first).__name__} values")
        letter = "M" if isinstance(first, np.datetime64) else "m"
        array, form, valid = _numpy_time(_numpy_times(values, letter))
        valid = np.ones(len(array), bool) if valid is None else valid
        return form, _typed([v if ok else None for v, ok in zip(array.tolist(), valid, strict=True)], form)
    if isinstance(first, datetime.datetime):
        _only(values, datetime.datetime, "datetimes")
        return _datetimes(values)
    if isinstance(first, datetime.date):
        _only(values, datetime.date, "dates")
        if any(isinstance(v, datetime.datetime) for v in values):
            raise TypeMismatchError("dates and datetimes in one column")
        return "tdD", _typed([None if v is None else v.toordinal() - EPOCH_DAY for v in values], "tdD")
    if isinstance(first, datetime.time):
        _only(values, datetime.time, "times")
        zero = datetime.datetime.min
        return "ttu", [
            None if v is None else (zero.combine(zero, v.replace(tzinfo=None)) - zero) // MICRO
            for v in values
        ]
    if isinstance(first, datetime.timedelta):
        _only(values, datetime.timedelta, "timedeltas")
        return "tDu", [None if v is None else v // MICRO for v in values]
    _only(values, decimal.Decimal, "decimals")
    return _decimals(values)


def _typed(values, form):
    """The ints as NumPy scalars of the type's width, which C stores without conversion."""
    np = _numpy()
    if form != "tdD":
        return values
    return [None if v is None else np.int32(v) for v in values]


def _datetimes(values):
    zones = {v.tzinfo is not None for v in values if v is not None}
    if len(zones) > 1:
        raise TypeMismatchError("datetimes with and without a time zone in one column")
    nanos = any(getattr(v, "nanosecond", 0) for v in values)
    zone = ""
    if True in zones:
        first = next(v for v in values if v is not None)
        zone = getattr(first.tzinfo, "key", None) or "UTC"
    out = []
    for v in values:
        if v is None:
            out.append(None)
            continue
        plain = v.astimezone(datetime.UTC).replace(tzinfo=None) if v.tzinfo else v
        micros = (datetime.datetime(*plain.timetuple()[:6], plain.microsecond) - EPOCH) // MICRO
        out.append(micros * 1000 + getattr(v, "nanosecond", 0) if nanos else micros)
    return f"ts{'n' if nanos else 'u'}:{zone}", out


def _decimals(values):
    tuples = [None if v is None else v.as_tuple() for v in values]
    for row, t in enumerate(tuples):
        if t and not isinstance(t.exponent, int):
            raise TypeMismatchError(f"row {row}: expected a finite decimal, found {values[row]}")
    scale = max([0, *(-t.exponent for t in tuples if t)])
    whole = [None if t is None else int(v.scaleb(scale, _WIDE)) for t, v in zip(tuples, values, strict=True)]
    precision = max([1, *(len(str(abs(v))) for v in whole if v is not None)])
    if precision > 76:
        raise TypeMismatchError(f"expected decimals of at most 76 digits, found {precision}")
    width = 16 if precision <= 38 else 32
    form = f"d:{max(precision, scale, 1)},{scale}" + (",256" if width == 32 else "")
    return form, [None if v is None else v.to_bytes(width, "little", signed=True) for v in whole]


_WIDE = decimal.Context(prec=200)


def _in_unit(array, dtype):
    """A datetime64 or timedelta64 array in another unit. TypeMismatchError if a number does not fit, where
    numpy would wrap it. Days have 32 bits here.
    """
    np = _numpy()
    dtype = np.dtype(dtype)
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    factor = 1
    if dtype == "M8[D]":  # years and months have no fixed length
        low, high = np.array([-(2**31), 2**31 - 1]).view(dtype).astype(array.dtype)  # rounded down
        low = low if low.astype(dtype).astype("i8") == -(2**31) else low + 1
    else:
        span = np.dtype(array.dtype.str.replace("M8", "m8")), np.dtype(dtype.str.replace("M8", "m8"))
        factor = int(np.array([1]).view(span[0]).astype(span[1]).astype("i8")[0])  # 0: from a finer unit
        high = np.array([(2**63 - 1) // (factor or 1)]).view(array.dtype)[0]
        low = np.array([-((2**63 - 1) // (factor or 1))]).view(array.dtype)[0]
    if not factor:
        made, wrong = _in_nanoseconds(array)
    else:
        made, wrong = None, (array > high) | (array < low)
    if wrong.any():
        unit, bits = np.datetime_data(dtype)[0], 32 if dtype == "M8[D]" else 64
        place, time = int(wrong.argmax()), array[wrong][0]
        try:
            time = str(time)
        except OverflowError:  # numpy from 2.5 on prints no year beyond 64 bits of seconds
            time = f"{time.astype('i8')} x {time.dtype}"
        raise TypeMismatchError(f"value {place}: time {time} does not fit in {bits} bits in unit {unit!r}")
    return array.astype(dtype, copy=False) if made is None else made.view(dtype)


def _in_nanoseconds(array):
    """(int64 nanoseconds, which of them are cut) of times in a finer unit, by integers: numpy from 2.5 on
    refuses some conversions near the limits.
    """
    np = _numpy()
    unit, count = np.datetime_data(array.dtype)
    per = {"ps": 10**3, "fs": 10**6, "as": 10**9}[unit]
    ints, nat = array.view("i8"), np.isnat(array)
    rest = ints % per
    made = ints // per * count + rest * count // per
    return np.where(nat, ints, made), (rest * count % per != 0) & ~nat


def _numpy_times(values, letter):
    """A list of datetime64 or timedelta64 or None as an array; an error where numpy would wrap a value."""
    np = _numpy()
    array = np.array(values, dtype=f"{letter}8")
    if len({v.dtype for v in values if v is not None}) > 1:
        given = (np.array(["NaT"], array.dtype) if v is None else np.array([v], v.dtype) for v in values)
        array = np.concatenate([_in_unit(v, array.dtype) for v in given])
    return array


def _numpy_time(array):
    """(values, Arrow format, bool array (False: NaT) or None) of a datetime64 or timedelta64 array."""
    np = _numpy()
    unit, count = np.datetime_data(array.dtype)
    letter = array.dtype.kind
    if letter == "M":
        target = {
            "Y": "D",
            "M": "D",
            "W": "D",
            "D": "D",
            "h": "s",
            "m": "s",
            "s": "s",
            "ms": "ms",
            "us": "us",
        }.get(unit, "ns")
        target = "s" if unit == "generic" else target
    else:
        target = {"W": "s", "D": "s", "h": "s", "m": "s", "s": "s", "ms": "ms", "us": "us"}.get(unit, "ns")
        target = "s" if unit == "generic" else target
        if unit in ("Y", "M"):
            raise TypeMismatchError(f"a duration in unit {unit!r} has no fixed length")
    array = _in_unit(array, f"{letter}8[{target}]")
    nat = np.isnat(array)
    valid = ~nat if nat.any() else None
    ints = array.view("i8")
    if target == "D":
        ints = np.where(nat, 0, ints).astype("i4")
        return ints, "tdD", valid
    form = f"ts{ARROW_UNIT[target]}:" if letter == "M" else f"tD{ARROW_UNIT[target]}"
    return ints, form, valid


def plain(values):
    """(array or list, Arrow format or None, bool array that is False for nulls or None) of a column's values.

    NotImplemented if the values are not numpy's, torch's or pandas', and have no __array__.
    """
    module = type(values).__module__.partition(".")[0]
    if module == "pandas":
        return _pandas(values)
    np = _numpy()
    if isinstance(values, np.ma.MaskedArray):
        array, form, valid = plain(np.ma.getdata(values))
        mask = np.ma.getmaskarray(values)
        if array.ndim > 1:
            raise TypeMismatchError(f"expected a masked array of one dimension, found {array.ndim}")
        return array, form, ~mask if valid is None else valid & ~mask
    if isinstance(values, np.ndarray):
        if values.dtype.kind in "mM":
            if values.ndim == 1:
                return _numpy_time(values)
            return [list(row) for row in values], None, None
        if values.dtype.kind == "T":  # numpy's StringDType
            return values.tolist(), None, None
        return np.asarray(values), None, None
    if module == "torch" or type(values).__name__ in ("Tensor", "Parameter") and "torch" in sys.modules:
        return tensor_to_numpy(values), None, None
    if isinstance(values, range):
        return np.arange(values.start, values.stop, values.step), None, None
    if hasattr(values, "__arrow_c_array__") or hasattr(values, "__arrow_c_stream__"):
        return NotImplemented
    if hasattr(values, "__array__"):
        array = np.asarray(values)
        if array.ndim:
            return array, None, None
    return NotImplemented


def _pandas(series):
    np = _numpy()
    pandas = sys.modules["pandas"]
    if not isinstance(series, pandas.Series):
        series = pandas.Series(series)
    dtype = series.dtype
    if isinstance(dtype, np.dtype):
        if dtype.kind == "O":
            missing = series.isna().to_numpy()
            return [None if no else v for v, no in zip(series.to_numpy(), missing, strict=True)], None, None
        values = series.to_numpy()
        if dtype.kind in "mM":
            return plain(values)
        missing = np.isnan(values) if dtype.kind == "f" else np.False_  # as pandas gives them to Arrow
        return values, None, ~missing if missing.any() else None
    if isinstance(dtype, pandas.CategoricalDtype):
        return _pandas(series.astype(series.cat.categories.dtype))
    if isinstance(dtype, pandas.DatetimeTZDtype):
        ints, form, valid = _numpy_time(series.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy())
        return ints, form + str(dtype.tz), valid
    if hasattr(dtype, "numpy_dtype") and dtype.kind in "biuf":  # masked: Int64, boolean, Float32, ...
        missing = series.isna().to_numpy()
        values = series.to_numpy(dtype=dtype.numpy_dtype, na_value=dtype.numpy_dtype.type(0))
        return values, None, ~missing if missing.any() else None
    if isinstance(dtype, pandas.ArrowDtype):
        return series.array.__arrow_array__(), None, None
    missing = series.isna().to_numpy()
    return [None if no else v for v, no in zip(series.astype(object), missing, strict=True)], None, None


def arrays_of_one_type(arrays):
    """The arrays converted to the type that holds all their values; empty arrays do not count."""
    np = _numpy()
    types = {a.dtype for a in arrays if a is not None and np.size(a)}
    target = np.result_type(*types)
    if target.kind not in "biuf":
        raise TypeMismatchError("expected arrays of one type, found " + " and ".join(sorted(map(str, types))))
    return [None if a is None else np.asarray(a).astype(target) for a in arrays]


def lists_of_arrays(arrays):
    """Arrays of text or objects, as lists."""
    return [None if a is None else a.tolist() for a in arrays]
