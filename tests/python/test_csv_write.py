"""write_csv: read back by pyarrow, pandas, DuckDB and ourselves."""

import datetime
import decimal
import gzip

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import headrace.data as hd


def table(n=500):
    return pa.table(
        {
            "i": pa.array([None if i % 7 == 0 else i - 200 for i in range(n)]),
            "u": pa.array([2**64 - 1 - i for i in range(n)], pa.uint64()),
            "f": pa.array([0.1 * i for i in range(n)]),
            "g": pa.array([0.1 * i for i in range(n)], pa.float32()),
            "b": pa.array([i % 2 == 0 for i in range(n)]),
            "s": pa.array(
                [["plain", 'with "quotes"', "comma, here", "line\nbreak", "", "é"][i % 6] for i in range(n)]
            ),
            "d": pa.array([datetime.date(1960, 1, 1) + datetime.timedelta(i * 97) for i in range(n)]),
            "t": pa.array(
                [datetime.datetime(1969, 12, 31, 23) + datetime.timedelta(seconds=i * 977) for i in range(n)]
            ),
            "dec": pa.array([decimal.Decimal(i - 250) / 8 for i in range(n)], pa.decimal128(10, 3)),
        }
    )


def only(folder):
    (path,) = folder.iterdir()
    return path


def test_read_back_by_pyarrow_and_ourselves(tmp_path):
    want = table()
    hd.from_arrow(want).write_csv(tmp_path / "out")
    path = only(tmp_path / "out")
    types = {f.name: f.type for f in want.schema}
    convert = pa.csv.ConvertOptions(column_types=types, strings_can_be_null=False)
    got = pa.csv.read_csv(
        path, parse_options=pa.csv.ParseOptions(newlines_in_values=True), convert_options=convert
    )
    assert got.to_pydict() == want.to_pydict()
    ours = hd.read_csv(path).to_arrow()
    for name in ("i", "f", "b", "s", "d"):
        assert ours[name].to_pylist() == want[name].to_pylist(), name


def test_read_back_by_pandas_and_duckdb(tmp_path):
    pandas = pytest.importorskip("pandas")
    duckdb = pytest.importorskip("duckdb")
    want = table()
    hd.from_arrow(want).write_csv(tmp_path / "out", compression="gzip")
    path = only(tmp_path / "out")
    assert path.name.endswith(".csv.gz")
    frame = pandas.read_csv(path, keep_default_na=False)
    assert frame["s"].tolist() == want["s"].to_pylist() and np.allclose(frame["f"], want["f"])
    rows = duckdb.sql(f"select s, f from read_csv('{path}', header=true)").fetchall()
    assert [r[1] for r in rows] == want["f"].to_pylist()


@pytest.mark.parametrize("compression", ["none", "zstd", "lz4"])
def test_options(tmp_path, compression):
    ds = hd.from_items([{"a": "x;y", "b": None}, {"a": "z", "b": 2}])
    options = {"delimiter": ";", "header": False, "quoting": "all", "null_text": "NA", "crlf": True}
    ds.write_csv(tmp_path / "out", compression=compression, **options)
    back = hd.read_csv(
        only(tmp_path / "out"),
        delimiter=";",
        names=["a", "b"],
        null_values=["NA"],
        dtypes={"b": pa.int64()},
    )
    assert back.take_all() == [{"a": "x;y", "b": None}, {"a": "z", "b": 2}]
    if compression == "none":
        assert only(tmp_path / "out").read_bytes() == b'"x;y";NA\r\n"z";2\r\n'


def test_a_compressed_file_is_one_for_others(tmp_path):
    hd.range(200_000).write_csv(tmp_path / "out", compression="gzip")
    lines = gzip.decompress(only(tmp_path / "out").read_bytes()).decode().splitlines()
    assert lines == ["id", *map(str, range(200_000))]


def test_what_is_refused(tmp_path):
    with pytest.raises(TypeError, match="'l' is list<item: int64>, a type that CSV cannot hold"):
        hd.from_items([{"l": [1, 2]}]).write_csv(tmp_path / "a")
    with pytest.raises(ValueError, match="'a': 'x,y' cannot be written without quotes"):
        hd.from_items([{"a": "x,y"}]).write_csv(tmp_path / "b", quoting="none")
    assert not list(tmp_path.glob("*/*"))
