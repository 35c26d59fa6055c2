"""Sources of rows: read_parquet, read_text, range, from_items, from_numpy, from_pandas, from_arrow."""

import datetime
import gzip
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace.data as hd
from headrace import exceptions
from headrace.data import context


@pytest.fixture
def folder(tmp_path):
    """Three files of 10 rows: columns id, x, name."""
    for f in range(3):
        ids = list(range(f * 10, f * 10 + 10))
        table = pa.table({"id": ids, "x": [i / 2 for i in ids], "name": [f"n{i}" for i in ids]})
        pq.write_table(table, tmp_path / f"part-{f}.parquet", row_group_size=4)
    return tmp_path


def ids(ds):
    return [row["id"] for row in ds.iter_rows()]


def test_parquet_paths(folder):
    files = [str(folder / f"part-{f}.parquet") for f in range(3)]
    assert ids(hd.read_parquet(str(folder))) == list(range(30))
    assert ids(hd.read_parquet(folder)) == list(range(30))
    assert ids(hd.read_parquet(files[1])) == list(range(10, 20))
    assert ids(hd.read_parquet([files[2], files[0]])) == [*range(20, 30), *range(10)]
    assert ids(hd.read_parquet(str(folder / "part-[12].parquet"))) == list(range(10, 30))
    assert ids(hd.read_parquet([files[0], files[0]])) == [*range(10), *range(10)]


def test_parquet_options(folder):
    ds = hd.read_parquet(folder, columns=["name", "id"])
    assert ds.columns() == ["name", "id"]
    assert ds.take(1) == [{"name": "n0", "id": 0}]
    assert hd.read_parquet(folder, columns="id").columns() == ["id"]
    paths = hd.read_parquet(folder, include_paths=True).take_all()
    assert [r["path"][-14:] for r in paths[::10]] == [f"part-{f}.parquet" for f in range(3)]
    (folder / "notes.txt").write_text("no parquet")
    assert hd.read_parquet(folder, file_extensions=["parquet"]).count() == 30
    missing = str(folder / "none.parquet")
    assert hd.read_parquet([missing, str(folder / "part-0.parquet")], ignore_missing_paths=True).count() == 10
    assert hd.read_parquet(folder / "part-0.parquet", concurrency=2, override_num_blocks=7).count() == 10


def test_parquet_errors(folder):
    with pytest.raises(FileNotFoundError, match="none.parquet"):
        hd.read_parquet(str(folder / "none.parquet")).schema()
    with pytest.raises(exceptions.HeadraceError, match="nope"):
        hd.read_parquet(folder, columns=["nope"]).schema()
    with pytest.raises(exceptions.InvalidArgument):
        hd.read_parquet([])
    with pytest.raises(TypeError, match="colums"):
        hd.read_parquet(folder, colums=["id"])
    bad = folder / "bad.parquet"
    bad.write_bytes(b"PAR1" + b"\0" * 100 + b"PAR1")
    with pytest.raises(exceptions.DataError, match="bad.parquet"):
        hd.read_parquet(bad).take_all()
    pq.write_table(pa.table({"id": ["text"], "x": [1.0], "name": ["n"]}), folder / "zz.parquet")
    with pytest.raises(exceptions.TypeMismatchError, match="(?s)zz.parquet.*id|id.*zz.parquet"):
        hd.read_parquet([str(folder / "part-0.parquet"), str(folder / "zz.parquet")]).take_all()


def test_count_and_schema_need_no_rows(folder):
    ds = hd.read_parquet(folder)
    assert ds.count() == 30
    schema = ds.schema()
    assert schema.names == ["id", "x", "name"] and schema.types == ["int64", "double", "string"]
    assert schema.base_schema == pa.schema([("id", "int64"), ("x", "double"), ("name", "string")])
    assert "id" in repr(schema) and "double" in repr(schema) and len(schema) == 3
    assert ds.limit(7).count() == 7
    assert hd.range(10**12).count() == 10**12
    assert hd.range(10**12).take(2) == [{"id": 0}, {"id": 1}]


def test_text(tmp_path):
    lines = ["first", "", "second ä", "third"]
    (tmp_path / "a.txt").write_text("\n".join(lines))
    with gzip.open(tmp_path / "b.txt.gz", "wt") as f:
        f.write("zipped\r\nlines\n")
    assert [r["text"] for r in hd.read_text(tmp_path / "a.txt").take_all()] == ["first", "second ä", "third"]
    kept = hd.read_text(tmp_path / "a.txt", drop_empty_lines=False)
    assert [r["text"] for r in kept.take_all()] == lines
    assert [r["text"] for r in hd.read_text(tmp_path).take_all()][-2:] == ["zipped", "lines"]
    (tmp_path / "bad.txt").write_bytes(b"fine\n\xff\xfe\n")
    with pytest.raises(exceptions.DataError, match="bad.txt"):
        hd.read_text(tmp_path / "bad.txt").take_all()


def test_items(monkeypatch):
    assert hd.from_items([1, 2, 3]).take_all() == [{"item": 1}, {"item": 2}, {"item": 3}]
    assert hd.from_items([{"a": 1}, {"a": 2.5}]).take_all() == [{"a": 1.0}, {"a": 2.5}]
    assert hd.from_items([{"a": 1}, {"b": "x"}]).take_all() == [{"a": 1, "b": None}, {"a": None, "b": "x"}]
    day = datetime.date(2024, 1, 1)
    assert hd.from_items([{"d": day, "n": None}]).take_all() == [{"d": day, "n": None}]
    assert hd.from_items([]).count() == 0
    rows = hd.from_items([{"x": [1, 2]}, {"x": [3, 4]}]).take_all()
    assert isinstance(rows[0]["x"], np.ndarray) and rows[1]["x"].tolist() == [3, 4]
    assert hd.from_items([{"a": 1}, {"a": "x"}]).take_all() == [{"a": 1}, {"a": "x"}]  # by pickle
    monkeypatch.setattr(hd.DataContext.get_current(), "enable_fallback_to_arrow_object_ext_type", False)
    with pytest.raises(TypeError, match=r"column 'a', row 1: str, but row 0 has int"):
        hd.from_items([{"a": 1}, {"a": "x"}])


def test_numpy():
    images = np.arange(60, dtype=np.uint8).reshape(5, 3, 4)
    ds = hd.from_numpy(images)
    images[:] = 0  # a copy was taken
    batch = ds.take_batch(5)
    assert (
        batch["data"].shape == (5, 3, 4) and batch["data"].dtype == np.uint8 and batch["data"][4, 2, 3] == 59
    )
    two = hd.from_numpy([np.arange(3), np.arange(2)])
    assert [r["data"] for r in two.take_all()] == [0, 1, 2, 0, 1]
    with pytest.raises(TypeError, match="list"):
        hd.from_numpy([[1, 2]])


FRAMES = {
    "plain": pd.DataFrame({"i": [1, 2], "f": [0.5, np.nan], "s": ["a", "b"], "b": [True, False]}),
    "text with gaps": pd.DataFrame({"s": ["a", None, "b"]}),
    "objects": pd.DataFrame({"o": pd.Series([{"a": 1}, None], dtype=object), "l": [[1, 2], [3]]}),
    "times": pd.DataFrame(
        {"t": pd.to_datetime(["2024-01-01", None]), "d": pd.to_timedelta([1, 2], unit="s")}
    ),
    "zone": pd.DataFrame({"t": pd.to_datetime(["2024-01-01 12:00", None]).tz_localize("Europe/Berlin")}),
    "nullable": pd.DataFrame(
        {
            "i": pd.array([1, None], "Int32"),
            "b": pd.array([None, True], "boolean"),
            "s": pd.array(["x", None], "string"),
        }
    ),
    "category": pd.DataFrame({"c": pd.Categorical(["a", None, "b", "a"])}),
    "arrow": pd.DataFrame({"a": pd.array([1, None], pd.ArrowDtype(pa.int64()))}),
    "empty": pd.DataFrame({"i": pd.Series([], dtype="int64"), "s": pd.Series([], dtype=object)}),
}


@pytest.mark.parametrize("name", FRAMES)
def test_pandas(name):
    frame = FRAMES[name]
    found = hd.from_pandas(frame).to_arrow()
    expected = pa.Table.from_pandas(frame, preserve_index=False)
    assert found.num_rows == len(frame)
    for column in frame.columns:
        ours, theirs = found[column], expected[column]
        if pa.types.is_dictionary(theirs.type):
            theirs = theirs.cast(theirs.type.value_type)
        got = [None if v != v else v for v in ours.to_pylist()]  # NaN stays a value here
        assert got == theirs.to_pylist(), column
        if name not in ("empty", "objects"):
            assert str(ours.type).removeprefix("large_") == str(theirs.type).removeprefix("large_"), column


def test_pandas_lists_of_frames_and_errors():
    frame = pd.DataFrame({1: [1], "b": ["x"]}, index=[7])
    ds = hd.from_pandas([frame, frame])
    assert ds.take_all() == [{"1": 1, "b": "x"}] * 2
    with pytest.raises(TypeError, match="dict"):
        hd.from_pandas({"a": [1]})


def test_arrow():
    table = pa.table({"a": [1, 2, 3], "s": ["x", None, "z"]})
    for source in (table, [table.slice(0, 1), table.slice(1)], table.to_batches()[0], table.to_reader()):
        assert hd.from_arrow(source).to_arrow() == table
    assert hd.from_arrow(table.slice(0, 0)).schema().names == ["a", "s"]
    assert hd.from_arrow(hd.from_arrow(table)).take_all() == table.to_pylist()
    with pytest.raises(TypeError, match="dict"):
        hd.from_arrow({"a": 1})
    with pytest.raises(exceptions.TypeMismatchError, match="'a'"):
        hd.from_arrow([table, pa.table({"a": ["x"], "s": ["y"]})])


def test_cluster_arguments_warn_once(folder, monkeypatch):
    monkeypatch.setattr(context, "_warned", False)
    with pytest.warns(UserWarning, match="num_cpus"):
        hd.read_parquet(folder, num_cpus=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hd.read_parquet(folder, num_cpus=2, ray_remote_args={"a": 1})
        hd.range(3).map(lambda r: r, resources={"a": 1})


@pytest.mark.parametrize(
    "encoding", ["latin-1", "cp1252", "utf-16", "utf_16_le", "utf-8-sig", "koi8-r", "gb18030"]
)
def test_text_encodings(tmp_path, encoding):
    known = {"koi8-r": "привет", "gb18030": "中文", "latin-1": "café", "cp1252": "5 €"}.get(
        encoding, "naïve 🙂"
    )
    lines = [f"{known} {i}" for i in range(20000)]
    (tmp_path / "t.txt").write_bytes("\n".join(lines).encode(encoding))
    (tmp_path / "t.txt.gz").write_bytes(gzip.compress("\r\n".join(lines).encode(encoding)))
    assert [r["text"] for r in hd.read_text(tmp_path / "t.txt", encoding=encoding).iter_rows()] == lines
    assert [r["text"] for r in hd.read_text(tmp_path / "t.txt.gz", encoding=encoding).iter_rows()] == lines


def test_text_encoding_errors(tmp_path):
    (tmp_path / "t.txt").write_bytes(b"fine\n\x81\n")
    with pytest.raises(exceptions.DataError, match="t.txt: byte 5: 0x81.* is not cp1252"):
        hd.read_text(tmp_path / "t.txt", encoding="cp1252").take_all()
    with pytest.raises(exceptions.InvalidArgument, match="encoding 'rot13'"):
        hd.read_text(tmp_path / "t.txt", encoding="rot13").take_all()


def test_binary_files(tmp_path):
    contents = {f"{i:02}": bytes(range(i)) * 1000 for i in range(30)}
    for name, data in contents.items():
        (tmp_path / name).write_bytes(data)
    ds = hd.read_binary_files(tmp_path, include_paths=True)
    assert ds.count() == 30
    assert {r["path"][-2:]: r["bytes"] for r in ds.iter_rows()} == contents
    assert [r["bytes"] for r in ds.take(3)] == [contents[f"{i:02}"] for i in range(3)]
    assert hd.read_binary_files(tmp_path / "05", large=True).schema().types == ["large_binary"]
    assert hd.read_binary_files(tmp_path).select_columns([]).count() == 30
    assert hd.read_binary_files(tmp_path / "07", override_num_blocks=3).take_all() == [
        {"bytes": contents["07"]}
    ]
