"""Random tables for tests of expressions, and the values of an expression over one."""

import datetime
import decimal
import math

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

import headrace.data as hd

INTS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
FLOATS = ["float", "double"]
UNITS = ["s", "ms", "us", "ns"]


def int_values(name):
    info = np.iinfo(name)
    edges = st.sampled_from([info.min, info.max, 0, 1, info.max // 2])
    return edges | st.integers(info.min, info.max) | st.integers(max(info.min, -3), 3)


def values_of(kind):
    """A strategy of values of this Arrow type."""
    if pa.types.is_null(kind):
        return st.none()
    if pa.types.is_boolean(kind):
        return st.booleans()
    if pa.types.is_integer(kind):
        return int_values(str(kind))
    if pa.types.is_float16(kind):
        return st.floats(width=16).map(np.float16)
    if pa.types.is_floating(kind):
        width = 32 if kind == pa.float32() else 64
        return st.floats(width=width) | st.sampled_from([0.0, -0.0, 1.0, 2.0, math.nan])
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return st.text(max_size=4) | st.sampled_from(["", "a", "ab", "b"])
    if pa.types.is_decimal(kind):
        places = decimal.Decimal(1).scaleb(-kind.scale)
        return st.integers(-(10**6), 10**6).map(lambda v: v * places)
    if pa.types.is_fixed_size_binary(kind):
        return st.binary(min_size=kind.byte_width, max_size=kind.byte_width)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return st.binary(max_size=4)
    if pa.types.is_date(kind):
        return st.dates(datetime.date(1900, 1, 1), datetime.date(2100, 1, 1))
    if pa.types.is_time(kind):
        step = {"s": 86400, "ms": 86400 * 10**3, "us": 86400 * 10**6, "ns": 86400 * 10**9}[kind.unit]
        return st.integers(0, step - 1)
    return st.integers(-(10**12), 10**12)  # timestamps and durations, as ticks


def column_of(kind, n):
    cells = st.lists(st.none() | values_of(kind), min_size=n, max_size=n)
    if pa.types.is_time(kind) or pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        ticks = pa.int32() if getattr(kind, "bit_width", 64) == 32 else pa.int64()
        return cells.map(lambda v: pa.array(v, ticks).cast(kind))
    return cells.map(lambda v: pa.array(v, kind))


@st.composite
def table_of(draw, *kinds):
    """Columns c0, c1, ... of these types; a slice at some place."""
    n = draw(st.integers(0, 12))
    whole = pa.table({f"c{i}": draw(column_of(k, n)) for i, k in enumerate(kinds)})
    begin = draw(st.integers(0, n))
    return whole.slice(begin, draw(st.integers(0, n - begin)))


def compute(expr, table):
    return hd.from_arrow(table).with_column("r", expr).select_columns(["r"]).to_arrow()["r"]


def same(found, want):
    """Equal values; NaN is NaN, -0.0 is 0.0."""
    assert len(found) == len(want)
    for a, b in zip(found, want, strict=True):
        if isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b):
            continue
        assert a == b and (a is None) == (b is None), (found, want)


def ticks(values):
    """Times as integers: datetime has no nanoseconds, and no year 0."""
    if not pa.types.is_temporal(values.type):
        return values
    return values.cast(pa.int32() if values.type.bit_width == 32 else pa.int64())
