"""CSV against pyarrow.csv and Python's csv module: rows, types, any split, options, errors."""

import csv
import gzip
import io

import pyarrow as pa
import pyarrow.csv as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import headrace.data
from headrace.exceptions import DataError, InvalidArgument, UnsupportedError

QUICK = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
TYPED = st.sampled_from(
    "1 -7 0x1F 1.5 +2 -.5 1e5 inf nan NA NULL true False 0 2020-02-29 2020-13-01 10:00 10:00:59 x null "
    "2020-01-01T10:00:00 2020-01-01T10:00:00Z 2020-01-01T10:00:00.123456789 2020-01-01T10:00+02:00 "
    "9223372036854775808 00012".split()
    + ["", " 1", "1 ", "\t2020-01-01", " true", '"1"', '""', '"NA"', "ä"]
)
TEXT = st.text(alphabet='ab,"\n\r é', max_size=6)


def read(data, tmp_path, name="a.csv", **options):
    path = tmp_path / name
    path.write_bytes(data)
    return pa.table(headrace.data.read_csv(str(path), **options).to_arrow())


def same(ours, theirs):
    assert ours.schema.types == theirs.schema.types
    assert ours.schema.names == theirs.schema.names
    for a, b in zip(ours.columns, theirs.columns, strict=True):
        assert a.to_pylist() == b.to_pylist() or str(a.to_pylist()) == str(b.to_pylist())  # NaN


@QUICK
@given(st.lists(st.tuples(TYPED, TYPED), max_size=8), st.integers(1, 60))
def test_types_are_pyarrows(tmp_path, rows, fragment):
    data = "a,b\n" + "".join(f"{a},{b}\n" for a, b in rows)
    same(
        read(data.encode(), tmp_path, fragment_bytes=fragment),
        pc.read_csv(io.BytesIO(data.encode())),
    )


@QUICK
@given(
    st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=8),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    st.integers(1, 60),
)
def test_what_pythons_writer_writes_is_read(tmp_path, rows, end, quoting, fragment):
    if any("\r" in field for row in rows for field in row):
        quoting = csv.QUOTE_ALL  # Python 3.11 leaves a sole "\r" without quotes
    text = io.StringIO()
    writer = csv.writer(text, lineterminator=end, quoting=quoting)
    writer.writerows(rows)
    got = read(text.getvalue().encode(), tmp_path, names=["a", "b"], dtypes="string", fragment_bytes=fragment)
    assert [tuple(r.values()) for r in got.to_pylist()] == rows


@QUICK
@given(st.text(alphabet='ab,"\n\r', max_size=40), st.integers(1, 40))
def test_any_text_is_what_pyarrow_makes_of_it(tmp_path, text, fragment):
    data = ("h\n" + text).encode()
    try:
        theirs = pc.read_csv(
            io.BytesIO(data),
            pc.ReadOptions(column_names=["a", "b"]),
            pc.ParseOptions(newlines_in_values=True),
        )
    except pa.ArrowInvalid:
        with pytest.raises(DataError, match=r"a\.csv: line \d+: expected 2 fields"):
            read(data, tmp_path, names=["a", "b"], fragment_bytes=fragment)
        return
    same(read(data, tmp_path, names=["a", "b"], fragment_bytes=fragment), theirs)


def test_threads_do_not_matter(tmp_path):
    data = "a,b\n" + "".join(f'{i},"x{i}\n,""{i % 7}"\n' for i in range(20000))
    expected = [f'x{i}\n,"{i % 7}' for i in range(20000)]
    got = read(data.encode(), tmp_path, fragment_bytes=1000)
    assert got["b"].to_pylist() == expected
    assert got["a"].to_pylist() == list(range(20000))


def test_compressed_and_other_encodings(tmp_path):
    assert read(gzip.compress(b"a\n1\n"), tmp_path, "a.csv.gz").to_pylist() == [{"a": 1}]
    assert read("a\nä\n".encode("latin1"), tmp_path, encoding="latin1").to_pylist() == [{"a": "ä"}]
    assert read("a\nä\n".encode("utf-16"), tmp_path, encoding="utf-16").to_pylist() == [{"a": "ä"}]
    broken = b"a\nx\xffy\n"
    for errors, want in (("replace", "x\ufffdy"), ("ignore", "xy")):
        got = read(broken, tmp_path, dtypes={"a": "string"}, encoding_errors=errors)
        assert got.to_pylist() == [{"a": want}]
    with pytest.raises(DataError, match=r"a\.csv: line 2, column 'a': expected string.*UTF-8"):
        read(broken, tmp_path, dtypes={"a": str})


def test_pyarrows_options(tmp_path):
    got = read(
        b"x\n1;2,5\nno;\n",
        tmp_path,
        read_options=pc.ReadOptions(column_names=["a", "b"], skip_rows=1),
        parse_options=pc.ParseOptions(delimiter=";"),
        convert_options=pc.ConvertOptions(
            column_types={"a": pa.string()}, decimal_point=",", include_columns=["b", "a"]
        ),
    )
    assert got.to_pylist() == [{"b": 2.5, "a": "1"}, {"b": None, "a": "no"}]
    with pytest.raises(UnsupportedError, match="auto_dict_encode"):
        read(b"a\n1\n", tmp_path, convert_options=pc.ConvertOptions(auto_dict_encode=True))


def test_own_options(tmp_path):
    data = b"#c\na|b\n1|x,y\n2\n3|-|4\n"
    options = dict(delimiter="|", comment="#", null_values=["-"], strings_can_be_null=True)
    assert read(data, tmp_path, ragged="fit", **options)["b"].to_pylist() == ["x,y", None, None]
    assert read(data, tmp_path, ragged="skip", **options)["b"].to_pylist() == ["x,y"]
    with pytest.raises(DataError, match=r"a\.csv: line 4: expected 2 fields, found 1"):
        read(data, tmp_path, **options)
    with pytest.raises(InvalidArgument, match="ragged"):
        read(data, tmp_path, ragged="bend", **options)
    assert read(b"1,2\n", tmp_path, header=False).to_pylist() == [{"f0": 1, "f1": 2}]
    assert read(b"a,b\n1,2\n", tmp_path, columns=["b"]).to_pylist() == [{"b": 2}]


@pytest.mark.parametrize(
    "name", "bool int8 uint16 int32 int64 float double string large_string binary date32 date64".split()
)
def test_types_by_name(name, tmp_path):
    kind = pa.type_for_alias(name)
    text = "2020-01-01" if "date" in name else "1"
    got = read(f"a\n{text}\n".encode(), tmp_path, dtypes={"a": kind})
    assert got.schema.types == [kind]
    assert (
        got["a"].to_pylist()
        == pc.read_csv(
            io.BytesIO(f"a\n{text}\n".encode()), convert_options=pc.ConvertOptions(column_types={"a": kind})
        )["a"].to_pylist()
    )


def test_a_value_beyond_the_sample(tmp_path):
    data = b"a,b\n" + b"1,2\n" * 1000 + b"1,two\n"
    with pytest.raises(DataError, match=r"a\.csv: line 1002, column 'b': expected int64, found 'two'"):
        read(data, tmp_path, infer_bytes=100)
    assert read(data, tmp_path, infer_bytes=100, dtypes={"b": "string"}).num_rows == 1001
    assert read(data, tmp_path, infer_bytes=100, columns=["a"]).num_rows == 1001


@pytest.mark.parametrize("fragment", [1 << 10, 1 << 22])
def test_rows_left_out_are_counted(tmp_path, fragment):
    path = tmp_path / "a.csv"
    path.write_text("a,b\n" + "".join(f"{i},x\n" if i % 7 else f"{i}\n" for i in range(7000)))
    ds = headrace.data.read_csv(str(path), ragged="skip", fragment_bytes=fragment)
    assert len(ds.take_all()) == 6000
    assert ds.stats("dict")["bad_rows"] == 1000
    assert ds.count() == 6000


def test_options_of_another_kind(tmp_path):
    """The story: a dict was an AttributeError inside the reader."""
    (tmp_path / "a.csv").write_text("a\n1\n")
    for name in ("read_options", "parse_options", "convert_options"):
        with pytest.raises(TypeError, match=f"read_csv: {name}: expected pyarrow.csv.*, found dict"):
            headrace.data.read_csv(tmp_path / "a.csv", **{name: {"delimitr": ","}})


def test_a_head_of_one_field_is_mostly_no_head(tmp_path):
    (tmp_path / "a.csv").write_text("a;b\n1;2,5\n")
    with pytest.raises(DataError, match=r"line 2: expected 1 field, found 2; is the delimiter .*comment="):
        headrace.data.read_csv(tmp_path / "a.csv").take_all()


@pytest.mark.parametrize("encoding", ["latin-1", "latin1", "ISO_8859_1", "cp1252"])
def test_names_of_encodings_are_those_of_python(tmp_path, encoding):
    (tmp_path / "a.csv").write_bytes("n\nDän\n".encode(encoding))
    assert headrace.data.read_csv(tmp_path / "a.csv", encoding=encoding).take_all() == [{"n": "Dän"}]
