"""What a column of each type is in each kind of batch, in rows and in DataFrames, and that it comes back.

The table says what Ray 2.60 gives, but for what docs/ray.md names: lists of equal length are dense, rows have
arrays of numbers, DataFrames NumPy's types.
"""

import datetime
import decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import headrace.data as hd

DAY, STAMP = datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 1, 2, 3)
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
PLAIN = [*INTEGERS, "float", "double"]


def of(values):
    """What the values are: dtype, and of objects the classes."""
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
    """Through a function that gives what it got, also from DataFrames, where dates were timestamps[s]."""
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
    """Batches that travel together are cut out of one DataFrame, or made one by one: both have dates."""
    for nulls in (False, True):
        ds = hd.from_arrow(pa.concat_tables([table_of("date32", nulls)] * 5))
        seen = ds.map_batches(
            lambda f: {"k": [type(v).__name__ for v in f["x"]]}, batch_format="pandas", batch_size=2
        )
        assert {r["k"] for r in seen.take_all()} == {"date"} | ({"NoneType"} if nulls else set())
