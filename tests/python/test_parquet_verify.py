"""read_parquet(verify=True): values against the statistics of the file.

A file with one table's pages and another one's footer imitates damage that still decodes: statistics are in
the footer and in the page index before it.
"""

import datetime
import decimal
import io
import math

import corruption_parquet
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace.data as hd
from headrace.data.expressions import col
from headrace.exceptions import DataError

NAN = math.nan


def written(values, arrow_type, **options):
    out = io.BytesIO()
    table = pa.table({"x": pa.array(values, arrow_type)})
    pq.write_table(table, out, **{"compression": "none", "use_dictionary": False, **options})
    return out.getvalue()


def indexes_at(data):
    """The offset of the page index; of the footer if there is none."""
    meta = pq.ParquetFile(io.BytesIO(data)).metadata
    column = meta.row_group(meta.num_row_groups - 1).column(0)
    begin = column.dictionary_page_offset or column.data_page_offset
    return begin + column.total_compressed_size


def pages_of(data, other):
    """The pages of the file `data`, with the statistics of the file `other`."""
    assert len(data) == len(other) and indexes_at(data) == indexes_at(other)
    return data[: indexes_at(data)] + other[indexes_at(data) :]


def read(path, data, **options):
    path.write_bytes(data)
    return pa.table(hd.read_parquet(str(path), **options).to_arrow())["x"].to_pylist()


def day(n):
    return datetime.date(2024, 1, n)


D = decimal.Decimal
TYPES = {
    "int8": (pa.int8(), [-3, 5, 5], [-3, 5, 6]),
    "uint8": (pa.uint8(), [3, 200], [3, 201]),
    "int16": (pa.int16(), [-3, 5], [-4, 5]),
    "int32": (pa.int32(), [-3, 5], [-3, 2**31 - 1]),
    "uint32": (pa.uint32(), [3, 2**31], [3, 2**32 - 1]),
    "int64": (pa.int64(), [-3, None, 5], [-3, None, 2**40]),
    "uint64": (pa.uint64(), [2**63, 1], [2**64 - 1, 1]),
    "bool": (pa.bool_(), [True, True], [True, False]),
    "float16": (pa.float16(), [1.5, 2.5], [1.5, 3.5]),
    "float32": (pa.float32(), [1.5, 2.5, NAN], [1.5, math.inf, NAN]),
    "float64": (pa.float64(), [0.0, 2.5], [-1e-300, 2.5]),
    "date32": (pa.date32(), [day(2), day(5)], [day(1), day(5)]),
    "timestamp": (pa.timestamp("us"), [5, 9], [5, 10]),
    "time64": (pa.time64("us"), [5, 9], [5, 10]),
    "decimal9": (pa.decimal128(9, 2), [D("-1.50"), D("2.25")], [D("-1.51"), D("2.25")]),
    "decimal38": (pa.decimal128(38, 2), [D("-1.50"), D("2.25")], [D("-1.50"), D("2.26")]),
    "decimal76": (pa.decimal256(76, 2), [D("-1.50"), D("2.25")], [D("-1.50"), D("2.26")]),
    "string": (pa.string(), ["a", "me", "zé"], ["a", "me", "zö"]),
    "binary": (pa.binary(), [b"a", b"m\x7f"], [b"a", b"m\xff"]),
    "fixed": (pa.binary(3), [b"aaa", b"mmm"], [b"aaa", b"mm\xff"]),
    "list": (pa.list_(pa.int32()), [[1, 2], None, [], [9]], [[1, 2], None, [], [10]]),
}


@pytest.mark.parametrize("index", [False, True], ids=["chunk", "pages"])
@pytest.mark.parametrize("name", TYPES)
def test_values_outside_their_bounds(tmp_path, name, index):
    path = tmp_path / "a.parquet"
    arrow_type, inside, outside = TYPES[name]
    good, bad = [written(v, arrow_type, write_page_index=index) for v in (inside, outside)]
    assert str(read(path, good, verify=True)) == str(read(path, good))
    assert str(read(path, bad, verify=True)) == str(read(path, bad))
    damaged = pages_of(bad, good)
    assert str(read(path, damaged)) == str(read(path, bad))
    with pytest.raises(
        DataError, match=r"a\.parquet: row group 0, column 'x[^']*', page 0: value .* is .*"
    ) as e:
        read(path, damaged, verify=True)
    assert any(f"the {bound} of the column chunk" in str(e.value) for bound in ("greatest", "least"))


def test_an_error_names_value_and_bound(tmp_path):
    good, bad = [written(v, pa.int64()) for v in ([3, 7, 5], [3, 9, 5])]
    with pytest.raises(DataError, match="page 0: value 9, the greatest of the column chunk is 7"):
        read(tmp_path / "a.parquet", pages_of(bad, good), verify=True)


def test_a_page_is_compared_with_its_own_bounds(tmp_path):
    """The value is within the bounds of the column chunk, but not of its page."""
    options = {"write_page_index": True, "data_page_size": 8, "write_batch_size": 4}
    good = written([1, 2, 3, 4, 50, 60, 70, 80], pa.int64(), **options)
    bad = written([1, 2, 3, 40, 50, 60, 70, 80], pa.int64(), **options)
    with pytest.raises(DataError, match="page 0: value 40, the greatest of the page is 4"):
        read(tmp_path / "a.parquet", pages_of(bad, good), verify=True)


@pytest.mark.parametrize("index", [False, True], ids=["chunk", "pages"])
def test_nulls_are_counted(tmp_path, index):
    good = written([True, None, True, False, None], pa.bool_(), write_page_index=index)
    bad = written([True, None, True, False, True], pa.bool_(), write_page_index=index)
    says = "the page index says 2" if index else "the column chunk's statistics say 2"
    damaged = pages_of(bad, good)
    assert read(tmp_path / "a.parquet", damaged) == [True, None, True, False, True]
    with pytest.raises(DataError, match=f"page 0: 1 nulls, {says}"):
        read(tmp_path / "a.parquet", damaged, verify=True)


def test_nulls_are_counted_over_pages_and_batches(tmp_path):
    values = [None if i % 3 == 0 else i for i in range(30_000)]
    data = written(values, pa.int64(), data_page_size=1024, row_group_size=10_000)
    assert read(tmp_path / "a.parquet", data, verify=True) == values
    other = written([i if v is not None else None for i, v in enumerate(values)], pa.int64())
    assert read(tmp_path / "b.parquet", other, verify=True) == values


def test_zeros_and_nan_are_within_bounds(tmp_path):
    """Writers use -0.0 or 0.0 for both, and leave out NaN."""
    for values in ([0.0, -0.0], [NAN, 1.0], [NAN, NAN], [-0.0], [0.0, NAN]):
        for arrow_type in (pa.float32(), pa.float64(), pa.float16()):
            data = written(values, arrow_type, write_page_index=True)
            assert str(read(tmp_path / "a.parquet", data, verify=True)) == str(values)


def test_bounds_that_were_cut_are_bounds(tmp_path):
    """Our writer cuts bounds to 64 bytes and raises the greatest."""
    values = ["a" * 100, "é" * 100, "\U0010ffff" * 60, "z" * 64]
    path = tmp_path / "long.parquet"
    hd.from_arrow(pa.table({"x": values})).write_parquet(str(path), single_file=True)
    assert pa.table(hd.read_parquet(str(path), verify=True).to_arrow())["x"].to_pylist() == values


def test_int96_has_no_order(tmp_path):
    times = [datetime.datetime(2024, 1, 2), datetime.datetime(1950, 1, 2)]
    data = written(times, pa.timestamp("ns"), use_deprecated_int96_timestamps=True)
    assert read(tmp_path / "a.parquet", data, verify=True) == times


def test_filters_do_not_believe_what_is_checked(tmp_path):
    """The story: with damaged statistics a filter left out rows for which it is true."""
    good, bad = [written(list(range(n, n + 100)), pa.int64()) for n in (0, 500)]
    (tmp_path / "a.parquet").write_bytes(pages_of(bad, good))
    assert hd.read_parquet(str(tmp_path / "a.parquet"), filter=col("x") > 400).count() == 0
    with pytest.raises(DataError, match="value 500, the greatest of the column chunk is 99"):
        hd.read_parquet(str(tmp_path / "a.parquet"), filter=col("x") > 400, verify=True).count()


def test_files_of_all_writers(tmp_path):
    for writer, name, make, _ in corruption_parquet.files():
        (tmp_path / "a.parquet").write_bytes(make())
        ds = hd.read_parquet(str(tmp_path / "a.parquet"), verify=True)
        assert pa.table(ds.to_arrow()).num_rows == 1500, f"{writer} {name}"


def leaf_chunk(data, leaf):
    """The bytes of a leaf's column chunk, as (begin, end)."""
    column = pq.ParquetFile(io.BytesIO(data)).metadata.row_group(0).column(leaf)
    begin = column.dictionary_page_offset or column.data_page_offset
    return begin, begin + column.total_compressed_size


@pytest.mark.parametrize(
    "pairs, others",
    [
        ([[(1, 2), (3, 4)], [(5, 6)]], [[(1, 2)], [(3, 4), (5, 6)]]),  # other lengths of lists
        ([[], None, [(1, 2)]], [None, [], [(1, 2)]]),  # an empty list and a null one
        ([[(1, 2), None]], [[None, (1, 2)]]),  # other nulls of the structs
    ],
)
def test_leaves_of_one_list_that_differ(tmp_path, pairs, others):
    """The story: the first leaf's levels made the lists, and values of the second moved to other rows."""
    kind = pa.list_(pa.struct([("a", pa.int64()), ("b", pa.int64())]))

    def rows(lists):
        return [x and [p and {"a": p[0], "b": p[1]} for p in x] for x in lists]

    one, other = (written(rows(lists), kind, write_statistics=False) for lists in (pairs, others))
    begin, end = leaf_chunk(one, 1)
    assert (begin, end) == leaf_chunk(other, 1)
    spliced = one[:begin] + other[begin:end] + one[end:]
    path = tmp_path / "x.parquet"
    assert read(path, one, verify=True) == rows(pairs)
    with pytest.raises(DataError, match="'x.element.a' and 'x.element.b' have different"):
        read(path, spliced, verify=True)
