"""The keyword arguments of write_*, as a user of Ray Data gives them."""

import gzip
import io
import os
import sqlite3
import tarfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.fs
import pyarrow.parquet as pq
import pytest

import headrace.data as hd
from headrace import exceptions

TABLE = pa.table({"a": [1, 2, 3], "s": ["x", "y", None]})


@pytest.fixture
def ds():
    return hd.from_arrow(TABLE)


def names(files):
    return [os.path.basename(f["path"]) for f in files]


class ByTask(hd.FilenameProvider):
    def get_filename_for_task(self, write_uuid, task_index):
        return f"mine-{task_index}.{self.file_format or 'png'}"


class ByRow(hd.FilenameProvider):
    def __init__(self):
        pass  # a subclass that does not call ours

    def get_filename_for_row(self, row, write_uuid, task_index, block_index, row_index):
        return f"{row['n']}.png"


def images(n):
    return hd.from_items([{"image": np.full((2, 3, 3), i, np.uint8), "n": i} for i in range(n)])


def test_filename_providers(ds, tmp_path):
    two = {"max_rows_per_file": 2}
    files = ds.write_parquet(tmp_path / "a", filename_provider=ByTask(file_format="parquet"), **two)
    assert names(files) == ["mine-0.parquet", "mine-1.parquet"]
    files = ds.write_csv(tmp_path / "b", filename_provider=hd.FilenameProvider("set", "csv"), **two)
    uuid = names(files)[0].split("_")[1]
    assert names(files) == [f"set_{uuid}_000000.csv", f"set_{uuid}_000001.csv"]
    files = images(3).write_images(tmp_path / "c", "image", filename_provider=ByTask())
    assert names(files) == [f"mine-0_000000_{i:06}.png" for i in range(3)]
    assert names(images(3).write_images(tmp_path / "d", "image", filename_provider=ByRow())) == [
        "0.png",
        "1.png",
        "2.png",
    ]
    with pytest.raises(
        TypeError, match="write_csv: filename_provider: expected a FilenameProvider, found str"
    ):
        ds.write_csv(tmp_path / "e", filename_provider="x")


def test_modes(ds, tmp_path):
    assert hd.SaveMode.APPEND == "append" and hd.SaveMode("overwrite") is hd.SaveMode.OVERWRITE
    for mode in ("create", hd.SaveMode.CREATE, "error", hd.SaveMode.ERROR):
        ds.write_csv(tmp_path / "a", mode="overwrite")
        with pytest.raises(exceptions.StorageError, match="already contains files"):
            ds.write_csv(tmp_path / "a", mode=mode)
    assert ds.write_csv(tmp_path / "a", mode=hd.SaveMode.IGNORE) == []
    ds.write_csv(tmp_path / "a", mode="APPEND")
    assert hd.read_csv(tmp_path / "a").count() == 6
    ds.write_csv(tmp_path / "a", mode=hd.SaveMode.OVERWRITE)
    assert hd.read_csv(tmp_path / "a").count() == 3
    with pytest.raises(ValueError, match="mode: expected one of append, create.*found 'replace'"):
        ds.write_csv(tmp_path / "a", mode="replace")
    with pytest.raises(TypeError, match="mode: expected a SaveMode, found int"):
        ds.write_csv(tmp_path / "a", mode=1)
    with pytest.raises(NotImplementedError, match="upsert"):
        ds.write_csv(tmp_path / "a", mode=hd.SaveMode.UPSERT)


def test_rows_per_file(ds, tmp_path):
    with pytest.warns(DeprecationWarning, match="num_rows_per_file is deprecated"):
        files = ds.write_parquet(tmp_path / "a", num_rows_per_file=2)
    assert [f["rows"] for f in files] == [2, 1]
    with pytest.raises(ValueError, match="expected min_rows_per_file <= max_rows_per_file, found 3 and 2"):
        ds.write_parquet(tmp_path / "b", min_rows_per_file=3, max_rows_per_file=2)
    with pytest.raises(ValueError, match="expected num_rows_per_file, or"):
        ds.write_parquet(tmp_path / "b", num_rows_per_file=3, min_rows_per_file=2)
    for name in ("min_rows_per_file", "max_rows_per_file", "min_bytes_per_file", "concurrency"):
        with pytest.raises(
            ValueError, match=f"write_parquet: {name}: expected a number of at least 1, found 0"
        ):
            ds.write_parquet(tmp_path / "b", **{name: 0})
    assert len(ds.write_parquet(tmp_path / "b", min_bytes_per_file=1 << 30, concurrency=3)) == 1


def test_paths_and_filesystems(ds, tmp_path):
    fs = pyarrow.fs
    below = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    (made,) = ds.write_parquet("x/y", filesystem=below)
    assert made["path"].startswith(str(tmp_path / "x" / "y"))
    assert hd.read_parquet("x", filesystem=below).to_arrow() == TABLE
    fsspec = pytest.importorskip("fsspec")
    ds.write_csv(str(tmp_path / "z"), filesystem=fsspec.filesystem("file"))
    assert hd.read_csv(tmp_path / "z").count() == 3
    memory = fsspec.filesystem("memory")
    ds.write_csv("write_arguments", filesystem=memory)
    assert hd.read_csv("write_arguments", filesystem=memory).count() == 3
    memory.rm("write_arguments", recursive=True)
    with pytest.raises(TypeError, match="write_csv: path: expected a str or a Path, found NoneType"):
        ds.write_csv(None)


def test_compressed_streams(ds, tmp_path):
    how = {"arrow_open_stream_args": {"compression": "gzip", "buffer_size": 1000}}
    (file,) = ds.write_json(tmp_path / "a", **how)
    assert gzip.decompress(Path(file["path"]).read_bytes()).startswith(b'{"a":1')
    assert hd.read_json(tmp_path / "a").count() == 3
    with pytest.raises(NotImplementedError, match="compression 'gzip': only write_csv and write_json"):
        ds.write_parquet(tmp_path / "b", **how)
    with pytest.raises(NotImplementedError, match="compression 'bz2': only write_csv and write_json"):
        ds.write_csv(tmp_path / "b", arrow_open_stream_args={"compression": "bz2"})
    with pytest.raises(ValueError, match="found 'codec'"):
        ds.write_csv(tmp_path / "b", arrow_open_stream_args={"codec": "gzip"})


def test_arguments_of_pyarrow(ds, tmp_path):
    options = pyarrow.csv.WriteOptions(include_header=False, delimiter=";", quoting_style="all_valid")
    for i, how in enumerate(
        ({"write_options": options}, {"arrow_csv_args_fn": lambda: {"write_options": options}})
    ):
        (file,) = ds.write_csv(tmp_path / f"a{i}", **how)
        expected = io.BytesIO()
        pyarrow.csv.write_csv(TABLE, expected, options)
        theirs = pyarrow.csv.read_csv(
            io.BytesIO(expected.getvalue()),
            parse_options=pyarrow.csv.ParseOptions(delimiter=";"),
            read_options=pyarrow.csv.ReadOptions(column_names=["a", "s"]),
        )
        ours = pyarrow.csv.read_csv(
            file["path"],
            parse_options=pyarrow.csv.ParseOptions(delimiter=";"),
            read_options=pyarrow.csv.ReadOptions(column_names=["a", "s"]),
        )
        assert ours == theirs
    with pytest.raises(TypeError, match="write_options: expected a WriteOptions, found dict"):
        ds.write_csv(tmp_path / "b", write_options={})
    (file,) = ds.write_parquet(
        tmp_path / "c",
        compression="snappy",
        row_group_size=2,
        version="2.6",
        arrow_parquet_args_fn=lambda: {"compression": "gzip"},  # wins, as in Ray
    )
    meta = pq.ParquetFile(file["path"]).metadata
    assert meta.num_row_groups == 2 and meta.row_group(0).column(0).compression == "GZIP"
    with pytest.raises(ValueError, match="write_parquet: no option 'compresion'; there are: compression"):
        ds.write_parquet(tmp_path / "d", compresion="zstd")
    (file,) = ds.write_json(tmp_path / "e", orient="records", lines=True, pandas_json_args_fn=lambda: {})
    assert Path(file["path"]).read_text().count("\n") == 3


def test_tf_schema(tmp_path):
    ds = hd.from_arrow(pa.table({"a": [1, 2], "s": ["x", "y"], "v": [[0.5], [1.0, 2.0]]}))
    schema = {"a": "float", "s": "bytes", "v": "list<float>"}
    ds.write_tfrecords(tmp_path / "a", tf_schema=schema)
    back = hd.read_tfrecords(tmp_path / "a", tf_schema=schema).take_all()
    assert [(r["a"], r["s"], r["v"].tolist()) for r in back] == [(1.0, b"x", [0.5]), (2.0, b"y", [1.0, 2.0])]
    assert hd.read_tfrecords(tmp_path / "a").schema().types[0] == "float"
    with pytest.raises(ValueError, match="column 'v' is not in tf_schema"):
        ds.write_tfrecords(tmp_path / "b", tf_schema={"a": "int64", "s": "bytes"})
    with pytest.raises(TypeError, match=r"column 's': expected int64 \(tf_schema\), found string"):
        ds.write_tfrecords(tmp_path / "b", tf_schema={**schema, "s": "int64"})
    with pytest.raises(TypeError, match=r"column 'v': expected list<bytes> \(tf_schema\), found list"):
        ds.write_tfrecords(tmp_path / "b", tf_schema={**schema, "v": "list<bytes>"})
    assert not (tmp_path / "b").exists()


def sample(i):
    pixels = np.full((4, 5, 3), 10 * i, np.uint8)
    return {
        "__key__": f"k{i}", "__url__": "gone", "png": pixels, "grey.png": pixels[:, :, :1],
        "npy": np.arange(i + 1.0), "json": {"label": i, "box": [1, 2]}, "pth": np.arange(3), "cls": i,
        "txt": f"text {i}", "bin": b"\0\1",
    }  # fmt: skip


def members(files):
    out = {}
    for file in files:
        with tarfile.open(file["path"]) as archive:
            out |= {m.name: archive.extractfile(m).read() for m in archive}
    return out


def test_samples_are_encoded_by_their_suffix(tmp_path):
    pytest.importorskip("PIL")
    torch = pytest.importorskip("torch")
    ds = hd.from_items([sample(i) for i in range(3)])
    found = members(ds.write_webdataset(tmp_path / "a"))
    assert set(found) == {f"k{i}.{c}" for i in range(3) for c in sample(0) if not c.startswith("__")}
    assert found["k2.json"] == b'{"label": 2, "box": [1, 2]}' and found["k1.txt"] == b"text 1"
    assert np.load(io.BytesIO(found["k2.npy"])).tolist() == [0, 1, 2]
    assert torch.load(io.BytesIO(found["k1.pth"]), weights_only=False).tolist() == [0, 1, 2]
    back = hd.read_webdataset(tmp_path / "a", suffixes=["png", "grey.png", "npy", "json", "cls"]).take_all()
    for i, row in enumerate(back):
        assert (row["png"] == 10 * i).all() and row["png"].shape == (4, 5, 3)
        assert row["grey.png"].shape[:2] == (4, 5) and row["cls"] == i
        assert row["npy"].tolist() == list(range(i + 1)) and row["json"]["label"] == i


def test_encoders_of_the_users_own(tmp_path):
    ds = hd.from_items([{"__key__": f"k{i}", "x": np.arange(i)} for i in range(3)])

    def rename(row):
        return {"__key__": row["__key__"], "npy": row["x"] + 1}

    found = members(ds.write_webdataset(tmp_path / "a", encoder=[rename, True]))
    assert np.load(io.BytesIO(found["k2.npy"])).tolist() == [1, 2]
    found = members(
        ds.write_webdataset(tmp_path / "b", encoder=lambda r: {"__key__": r["__key__"], "n": b"1"})
    )
    assert found == {f"k{i}.n": b"1" for i in range(3)}
    with pytest.raises(TypeError, match="column 'x' is list.*; a member is text, bytes or a number"):
        ds.write_webdataset(tmp_path / "c")
    with pytest.raises(TypeError, match="column 'x' is"):
        ds.write_webdataset(tmp_path / "c", encoder=None)
    with pytest.raises(ValueError, match="encoder: expected a bool, a function or a list of these, found 5"):
        ds.write_webdataset(tmp_path / "c", encoder=5)
    wrong = hd.from_items([{"png": np.zeros((3, 4, 7))}])
    with pytest.raises(TypeError, match=r"column 'png': expected pixels .*found float64 \(3, 4, 7\)"):
        wrong.write_webdataset(tmp_path / "c")
    assert not list(tmp_path.glob("c/*"))


def test_other_writers(ds, tmp_path):
    with pytest.raises(ValueError, match="no column 'nope'"):
        ds.write_numpy(tmp_path / "a", column="nope")
    with pytest.raises(TypeError, match="'s' is string"):
        ds.write_numpy(tmp_path / "a", column="s")
    with pytest.raises(
        ValueError, match="option 'file_format': expected one of 'png', 'jpeg', 'jpg', 'webp', 'bmp'"
    ):
        images(1).write_images(tmp_path / "a", "image", file_format="gif")
    db = tmp_path / "x.db"
    with sqlite3.connect(db) as connection:
        connection.execute("CREATE TABLE t(a, s)")
    connection.close()
    ds.write_sql(
        "INSERT INTO t VALUES (?, ?)", lambda: sqlite3.connect(db), concurrency=2, ray_remote_args={}
    )
    assert hd.read_sql("SELECT * FROM t", lambda: sqlite3.connect(db)).take_all() == TABLE.to_pylist()
