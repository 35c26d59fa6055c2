"""A column of each type in each kind of batch, in rows and in DataFrames, and back.

The table has the results of Ray 2.60, except for the differences in docs/ray.md: lists of equal length are
dense, rows have arrays of numbers, DataFrames NumPy's types.
"""

import datetime
import decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import headrace.data as hd
from headrace.exceptions import TypeMismatchError

DAY, STAMP = datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 1, 2, 3)
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
PLAIN = [*INTEGERS, "float", "double"]


def of(values):
    """The values' dtype, and for objects their classes."""
    array = values if isinstance(values, np.ndarray) else None
    if isinstance(values, pd.Series):
        if values.dtype != object:
            return str(values.dtype)
        array = values.to_numpy()
    if array.dtype != object:
        return f"{array.dtype}{list(array.shape[1:]) if array.ndim > 1 else ''}"
    return " ".join(sorted({type(v).__name__ for v in array}))


# type: values, numpy, numpy with nulls, rows, pandas, pandas with nulls
CASES = {
    **{t: ([1, 2, 3], t, "float64", "int", t, "float64") for t in INTEGERS},
    "float": ([1.5, 2, 3], "float32", "float32", "float", "float32", "float32"),
    "double": ([1.5, 2, 3], "float64", "float64", "float", "float64", "float64"),
    "bool": ([True, False, True], "bool", "NoneType bool", "bool", "bool", "NoneType bool"),
    "string": (["a", "", "c"], "str", "NoneType str", "str", "str", "str"),
    "binary": ([b"a", b"", b"c"], "bytes", "NoneType bytes", "bytes", "bytes", "NoneType bytes"),
    "date32": ([DAY] * 3, "datetime64[D]", "datetime64[D]", "date", "date", "NoneType date"),
    "date64": ([DAY] * 3, "datetime64[ms]", "datetime64[ms]", "date", "date", "NoneType date"),
    "timestamp[s]": ([STAMP] * 3, *["datetime64[s]"] * 2, "datetime", *["datetime64[s]"] * 2),
    "timestamp[us]": ([STAMP] * 3, *["datetime64[us]"] * 2, "datetime", *["datetime64[us]"] * 2),
    "timestamp[us, tz=UTC]": (
        [STAMP.replace(tzinfo=datetime.UTC)] * 3,
        *["datetime64[us]"] * 2,
        "datetime",
        *["datetime64[us, UTC]"] * 2,
    ),
    "timestamp[ns]": ([STAMP] * 3, *["datetime64[ns]"] * 2, "datetime64", *["datetime64[ns]"] * 2),
    "duration[s]": (
        [datetime.timedelta(1)] * 3,
        *["timedelta64[s]"] * 2,
        "timedelta",
        *["timedelta64[s]"] * 2,
    ),
    "time64[us]": ([datetime.time(1)] * 3, "time", "NoneType time", "time", "time", "NoneType time"),
    "decimal128(5, 2)": (
        [decimal.Decimal("1.25")] * 3,
        *["Decimal", "Decimal NoneType", "Decimal", "Decimal", "Decimal NoneType"],
    ),
    "list<item: int64>": (
        [[1, 2]] * 3,
        "int64[2]",
        "NoneType ndarray",
        "ndarray",
        "ndarray",
        "NoneType ndarray",
    ),
    "list<item: string>": ([["a"]] * 3, "ndarray", "NoneType ndarray", "list", "ndarray", "NoneType ndarray"),
    "list<item: date32>": (
        [[DAY]] * 3,
        *["datetime64[D][1]", "NoneType ndarray", "list", "ndarray", "NoneType ndarray"],
    ),
    "struct<d: date32>": ([{"d": DAY}] * 3, "dict", "NoneType dict", "dict", "dict", "NoneType dict"),
    "null": ([None] * 3, "float32", "float32", "NoneType", "NoneType", "NoneType"),
}
NAMED = {
    "timestamp[us, tz=UTC]": pa.timestamp("us", "UTC"),
    "decimal128(5, 2)": pa.decimal128(5, 2),
    "list<item: int64>": pa.list_(pa.int64()),
    "list<item: string>": pa.list_(pa.string()),
    "list<item: date32>": pa.list_(pa.date32()),
    "struct<d: date32>": pa.struct([("d", pa.date32())]),
}


def table_of(kind, nulls):
    values = list(CASES[kind][0])
    if nulls:
        values[1] = None
    kind = NAMED[kind] if kind in NAMED else pa.type_for_alias(kind)
    return pa.table({"x": pa.array(values, kind)})


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("kind", CASES)
def test_what_a_column_is(kind, nulls):
    table, (_, numpy, numpy_nulls, rows, pandas, pandas_nulls) = table_of(kind, nulls), CASES[kind]
    ds = hd.from_arrow(table)
    assert of(next(iter(ds.iter_batches(batch_size=3)))["x"]) == (numpy_nulls if nulls else numpy)
    frame = next(iter(ds.iter_batches(batch_size=3, batch_format="pandas")))
    assert of(frame["x"]) == of(ds.to_pandas()["x"]) == (pandas_nulls if nulls else pandas)
    assert {type(r["x"]).__name__ for r in ds.iter_rows()} == {rows} | ({"NoneType"} if nulls else set())
    assert next(iter(ds.iter_batches(batch_size=3, batch_format="pyarrow"))) == table
    if kind != "null" and "list" not in kind:
        values = [None if pd.isna(v) else v for v in frame["x"]]
        assert values == table["x"].to_pylist()


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize(
    "kind", ["date32", "list<item: date32>", "list<item: string>", "struct<d: date32>", "null"]
)
@pytest.mark.parametrize("batch_format", ["numpy", "pandas", "pyarrow"])
def test_it_comes_back(kind, nulls, batch_format):
    """Through a function that returns its input; the story: dates from DataFrames were timestamps[s]."""
    if kind == "null" and batch_format == "numpy":
        return  # NaN there, which is a float
    table = table_of(kind, nulls)
    ds = hd.from_arrow(table)
    back = ds.map_batches(lambda batch: batch, batch_format=batch_format).to_arrow()
    assert back["x"].to_pylist() == ds.to_arrow()["x"].to_pylist()
    assert str(back["x"].type).replace("large_", "") == str(table["x"].type)
    assert hd.from_pandas(ds.to_pandas()).to_arrow()["x"].to_pylist() == table["x"].to_pylist()


def test_dates_beyond_the_years_of_datetime():
    days = hd.from_arrow(pa.table({"d": pa.array([10**6 * 4, 0, None], pa.date32())})).to_pandas()["d"]
    assert days.tolist() == [np.datetime64(4 * 10**6, "D"), datetime.date(1970, 1, 1), None]


def test_a_batch_of_few_rows_of_a_shared_call():
    """Batches that travel together are cut from one DataFrame or made one by one: both have dates."""
    for nulls in (False, True):
        ds = hd.from_arrow(pa.concat_tables([table_of("date32", nulls)] * 5))
        seen = ds.map_batches(
            lambda f: {"k": [type(v).__name__ for v in f["x"]]}, batch_format="pandas", batch_size=2
        )
        assert {r["k"] for r in seen.take_all()} == {"date"} | ({"NoneType"} if nulls else set())


# value that is the last to fit, and the first that does not; of numpy's units that Arrow lacks
EDGES = {
    "M8[Y]": 5_879_610,
    "M8[M]": 70_555_326,
    "M8[W]": (2**31 - 1) // 7,
    "M8[D]": 2**31 - 1,
    "M8[25h]": (2**63 - 1) // 90_000,
    "M8[h]": (2**63 - 1) // 3600,
    "M8[m]": (2**63 - 1) // 60,
    "m8[W]": (2**63 - 1) // 604_800,
    "m8[D]": (2**63 - 1) // 86_400,
    "m8[m]": (2**63 - 1) // 60,
}


@pytest.mark.parametrize("dtype", EDGES)
def test_times_that_do_not_fit_their_unit_are_refused(dtype):
    """The story: numpy wraps them, so the year 10**14 became another year in silence."""
    last = EDGES[dtype]
    for value in (last, -last, 0, 2**63 - 1, last + 1, -last - 2, 10**18):
        array = np.array([0, value], "i8").view(dtype)
        if -last <= value <= last:
            found = hd.from_arrow(hd.from_numpy(array).to_arrow()).to_arrow()["data"].to_numpy()
            assert (found == array.astype(found.dtype)).all()
        else:
            with pytest.raises(TypeMismatchError, match=r"value 1: time .* does not fit in .* bits in unit"):
                hd.from_numpy(array)


def test_times_finer_than_nanoseconds_are_not_cut():
    assert hd.from_numpy(np.array([5000, -5000], "m8[ps]")).to_arrow()["data"].cast("i8").to_pylist() == [
        5,
        -5,
    ]
    for value in (5001, -5001, -(2**63) + 1):
        with pytest.raises(TypeMismatchError, match="in unit 'ns'"):
            hd.from_numpy(np.array([value], "i8").view("m8[ps]"))


def test_lists_of_times_of_several_units():
    """numpy takes the finest unit and wraps larger values; here they become pickles."""
    far, near = np.datetime64(10**14, "Y"), np.datetime64(1, "ns")
    assert [r["t"] for r in hd.from_items([{"t": far}, {"t": near}]).take_all()] == [far, near]
    mixed = [np.datetime64(10, "Y"), None, np.datetime64(10, "s")]
    found = [r["t"] for r in hd.from_items([{"t": v} for v in mixed]).take_all()]
    assert found == [datetime.datetime(1980, 1, 1), None, datetime.datetime(1970, 1, 1, 0, 0, 10)]
