"""The keyword arguments that all readers share mean the same for each of them."""

import functools
import gzip
import os
import pickle
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest

import headrace.data as hd
from headrace import exceptions
from headrace.data import context


def write_orc(path, values):
    pytest.importorskip("pyarrow.orc").write_table(pa.table({"x": values}), path)


def write_avro(path, values):
    fastavro = pytest.importorskip("fastavro")
    schema = {"type": "record", "name": "r", "fields": [{"name": "x", "type": "long"}]}
    with open(path, "wb") as file:
        fastavro.writer(file, schema, [{"x": v} for v in values])


def write_hdf5(path, values):
    with pytest.importorskip("h5py").File(path, "w") as file:
        file["x"] = values


def write_audio(path, values):
    pytest.importorskip("soundfile").write(path, np.array(values, "i2"), 8000, subtype="PCM_16")


def write_ipc(path, values):
    with pa.ipc.new_file(path, pa.schema([("x", pa.int64())])) as writer:
        writer.write_table(pa.table({"x": values}))


def write_images(path, values):
    pytest.importorskip("PIL.Image").fromarray(np.array([values], np.uint8)).save(path)


def write_tfrecords(path, values):
    hd.from_items([{"x": v} for v in values]).write_tfrecords(path, single_file=True)


def write_webdataset(path, values):
    rows = [{"__key__": str(v), "cls": v} for v in values]
    hd.from_items(rows).write_webdataset(path, single_file=True)


# reader: (suffix, function that writes integers, function that gets them back out of a row; arguments, if it
# needs some)
READERS = {
    "read_parquet": ("parquet", lambda p, v: pq.write_table(pa.table({"x": v}), p), lambda r: [r["x"]]),
    "read_csv": ("csv", lambda p, v: p.write_text("x\n" + "".join(f"{i}\n" for i in v)), lambda r: [r["x"]]),
    "read_fwf": (
        "fwf",
        lambda p, v: p.write_text("x   \n" + "".join(f"{i:4}\n" for i in v)),
        lambda r: [r["x"]],
        {"widths": [4]},
    ),
    "read_json": (
        "json",
        lambda p, v: p.write_text("".join(f'{{"x":{i}}}' for i in v)),
        lambda r: [r["x"]],
    ),
    "read_text": ("txt", lambda p, v: p.write_text("".join(f"{i}\n" for i in v)), lambda r: [int(r["text"])]),
    "read_numpy": ("npy", lambda p, v: np.save(p, np.array(v)), lambda r: [r["data"]]),
    "read_binary_files": ("bin", lambda p, v: p.write_bytes(bytes(v)), lambda r: list(r["bytes"])),
    "read_arrow": ("arrow", write_ipc, lambda r: [r["x"]]),
    "read_images": ("png", write_images, lambda r: r["image"].ravel().tolist()),
    "read_tfrecords": ("tfrecord", write_tfrecords, lambda r: [r["x"]]),
    "read_webdataset": ("tar", write_webdataset, lambda r: [r["cls"]]),
    "read_orc": ("orc", write_orc, lambda r: [r["x"]]),
    "read_avro": ("avro", write_avro, lambda r: [r["x"]]),
    "read_hdf5": ("h5", write_hdf5, lambda r: [r["x"]]),
    "read_netcdf": ("nc", write_hdf5, lambda r: [r["x"]]),
    "read_audio": ("wav", write_audio, lambda r: (r["amplitude"][0] * 32768).astype(int).tolist()),
}


ALL_FILES = (
    "read_csv",
    "read_fwf",
    "read_text",
    "read_binary_files",
    "read_arrow",
    "read_tfrecords",
    "read_webdataset",
)
DECOMPRESSED = ("read_csv", "read_fwf", "read_json", "read_text", "read_tfrecords", "read_webdataset")


@pytest.fixture(params=READERS)
def kind(request, tmp_path):
    """(reader, folder, file names, values of a dataset): kind=a|b below the folder, two files each."""
    suffix, write, values, *needed = READERS[request.param]
    names = []
    for n, where in enumerate(["kind=a/0", "kind=a/1", "kind=b/0", "kind=__HIVE_DEFAULT_PARTITION__/1"]):
        path = tmp_path / "in" / f"{where}.{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, [10 * n, 10 * n + 1])
        names.append(str(path))
    reader = getattr(hd, request.param)
    if needed:
        reader = functools.update_wrapper(functools.partial(reader, **needed[0]), reader)

    def read(ds):
        return [v for row in ds.iter_rows() for v in values(row)]

    return reader, tmp_path / "in", names, read


SORTED = [30, 31, 0, 1, 10, 11, 20, 21]  # "kind=_..." comes first


def test_paths(kind):
    reader, folder, names, read = kind
    assert read(reader(folder)) == read(reader(str(folder))) == SORTED
    assert read(reader([Path(names[2]), names[0]])) == [20, 21, 0, 1]
    assert read(reader(f"file://{names[1]}")) == [10, 11]
    assert read(reader(str(folder / "kind=[ab]" / "0*"))) == [0, 1, 20, 21]
    assert read(reader(iter(names))) == [0, 1, 10, 11, 20, 21, 30, 31]


@pytest.mark.parametrize("paths", [5, None, [5], b"x", [b"x"], [None]])
def test_wrong_paths(kind, paths):
    with pytest.raises(exceptions.TypeMismatchError, match="paths: expected a str"):
        kind[0](paths)


def test_missing_files(kind):
    reader, folder, names, read = kind
    nowhere = str(folder / "nowhere")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        reader([names[0], nowhere])
    assert read(reader([nowhere, names[0]], ignore_missing_paths=True)) == [0, 1]
    with pytest.raises(FileNotFoundError, match="nowhere"):
        reader([nowhere], ignore_missing_paths=True)


def test_partitions_and_paths(kind):
    reader, folder, names, read = kind
    ds = reader(folder, partitioning=hd.Partitioning("hive"), include_paths=True)
    rows = ds.take_all()
    assert [r["kind"] for r in rows if r["path"] == names[3]][:1] == [None]
    for name, value in zip(names[:3], "aab", strict=True):
        assert {r["kind"] for r in rows if r["path"] == name} == {value}
    types = dict(zip(ds.schema().names, ds.schema().types, strict=True))
    assert (types["kind"], types["path"]) == ("string", "string") and ds.columns()[-1] == "path"
    assert read(reader(folder, partitioning=hd.Partitioning("hive"))) == SORTED
    assert "kind" not in reader(folder, partitioning=None).columns()
    by_level = hd.Partitioning("dir", base_dir=str(folder), field_names=["level"])
    assert reader(folder, partitioning=by_level).take(1)[0]["level"] == "kind=__HIVE_DEFAULT_PARTITION__"
    assert reader(names[0], include_paths="from").columns()[-1] == "from"


def test_filters_of_files(kind):
    reader, folder, names, read = kind
    only_a = hd.PathPartitionFilter.of(lambda found: found["kind"] == "a")
    ds = reader(folder, partition_filter=only_a)
    assert read(ds) == [0, 1, 10, 11]
    assert ds.input_files() == names[:2]
    with pytest.raises(FileNotFoundError, match="partition_filter keeps no file"):
        reader(folder, partition_filter=lambda paths: [])
    with pytest.raises(TypeError, match="partition_filter: expected a list of paths, found int"):
        reader(folder, partition_filter=lambda paths: 5)
    with pytest.raises(TypeError, match="partition_filter: expected a function"):
        reader(folder, partition_filter="a")


def test_file_extensions(kind):
    reader, folder, names, read = kind
    suffix = names[0].rsplit(".", 1)[1]
    os.rename(names[2], names[2] + "x")
    for given in (suffix, [suffix], ["." + suffix], [suffix.upper(), "nothing"]):
        assert read(reader(folder, file_extensions=given)) == [30, 31, 0, 1, 10, 11]
    assert read(reader(folder, file_extensions=[suffix + "x"])) == [20, 21]
    assert read(reader(folder, file_extensions=None)) == SORTED
    assert read(reader(names[2] + "x")) == [20, 21]  # a file that is named is read
    if reader.__name__ not in ALL_FILES:
        assert read(reader(folder)) == [30, 31, 0, 1, 10, 11]
    with pytest.raises(exceptions.NotFoundError, match=r"no files there whose names end in .none \(file"):
        reader(folder, file_extensions=["none"])
    with pytest.raises(exceptions.NotFoundError, match="no files there$"):
        reader(folder / "[x]", file_extensions=None, ignore_missing_paths=True)
    with pytest.raises(TypeError, match="file_extensions: expected a list of str, found int"):
        reader(folder, file_extensions=5)


def test_the_order_of_files(kind):
    reader, folder, names, read = kind
    seeded = reader(folder, shuffle=hd.FileShuffleConfig(seed=3))
    epochs = [tuple(v // 10 for v in read(seeded))[::2] for _ in range(6)]
    assert all(sorted(e) == [0, 1, 2, 3] for e in epochs) and len(set(epochs)) > 1
    again = reader(folder, shuffle=hd.FileShuffleConfig(seed=3))
    assert [tuple(v // 10 for v in read(again))[::2] for _ in range(6)] == epochs
    fixed = reader(folder, shuffle=hd.FileShuffleConfig(seed=3, reseed_after_execution=False))
    assert read(fixed) == read(fixed)
    assert sorted(read(reader(folder, shuffle="files"))) == sorted(SORTED)
    with pytest.raises(ValueError, match="shuffle: expected 'files' or a FileShuffleConfig, found 'rows'"):
        reader(folder, shuffle="rows")


def test_filesystems(kind):
    reader, folder, names, read = kind
    fs = pyarrow.fs
    local = fs.LocalFileSystem()
    below = fs.SubTreeFileSystem(str(folder), local)
    assert read(reader(folder, filesystem=local)) == SORTED
    assert read(reader("kind=b", filesystem=below)) == [20, 21]
    assert read(reader("/kind=b/", filesystem=below)) == [20, 21]
    deeper = fs.SubTreeFileSystem("kind=a", below)
    assert read(reader("", filesystem=deeper)) == [0, 1, 10, 11]
    base = hd.Partitioning("dir", base_dir="", field_names=["level"], filesystem=below)
    ds = reader("kind=b", filesystem=below, partitioning=base)
    assert ds.take(1)[0]["level"] == "kind=b"
    fsspec = pytest.importorskip("fsspec")
    assert read(reader(str(folder), filesystem=fsspec.filesystem("file"))) == SORTED
    inside = fsspec.filesystem("dir", path=str(folder), target_protocol="file")
    assert read(reader("kind=b", filesystem=inside)) == [20, 21]
    assert read(reader("kind=b", filesystem=fs.PyFileSystem(fs.FSSpecHandler(inside)))) == [20, 21]
    with pytest.raises(FileNotFoundError, match="x: no such file or folder in MemoryFileSystem"):
        reader("x", filesystem=fsspec.filesystem("memory"))
    with pytest.raises(TypeError, match="filesystem: expected one of pyarrow.fs or fsspec, found str"):
        reader("x", filesystem="file")
    with pytest.raises(
        NotImplementedError, match="ftp://host/x: headrace does not read URLs of scheme 'ftp'"
    ):
        reader("ftp://host/x")


def test_numbers_and_cluster_arguments(kind, monkeypatch):
    reader, folder, names, read = kind
    assert read(reader(folder, concurrency=2, override_num_blocks=3)) == SORTED
    for name in ("concurrency", "override_num_blocks"):
        with pytest.raises(ValueError, match=f"{name}: expected a number of at least 1, found 0"):
            reader(folder, **{name: 0})
    monkeypatch.setattr(context, "_warned", False)
    cluster = {
        "num_cpus": 1, "num_gpus": 1, "memory": 5, "ray_remote_args": {"x": 1}, "resources": {"x": 1},
        "accelerator_type": "A", "label_selector": {"x": "y"}, "fallback_strategy": [{}], "max_calls": 1,
        "runtime_env": {}, "parallelism": 7,
    }  # fmt: skip
    with pytest.warns(UserWarning, match="have no effect on one machine") as found:
        assert read(reader(folder, **cluster)) == SORTED
        reader(folder, **cluster)
    assert len(found) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reader(folder, **dict.fromkeys(cluster))
    with pytest.raises(TypeError, match=f"{reader.__name__}.. got an unexpected keyword argument 'colums'"):
        reader(folder, colums=["x"])


def test_how_files_are_opened(kind):
    reader, folder, names, read = kind
    assert read(reader(names[0], arrow_open_stream_args={"buffer_size": 1 << 20})) == [0, 1]
    with pytest.raises(
        ValueError, match="arrow_open_stream_args: expected compression or buffer_size, found 'codec'"
    ):
        reader(folder, arrow_open_stream_args={"codec": "gzip"})
    with pytest.raises(TypeError, match="arrow_open_stream_args: expected a dict, found str"):
        reader(folder, arrow_open_stream_args="gzip")
    packed = gzip.compress(Path(names[0]).read_bytes())
    Path(names[0]).write_bytes(packed)
    if reader.__name__ in DECOMPRESSED:
        assert read(reader(names[0], arrow_open_stream_args={"compression": "gzip"})) == [0, 1]
    else:
        with pytest.raises(NotImplementedError, match="does not decompress files"):
            reader(names[0], arrow_open_stream_args={"compression": "gzip"})


def test_a_pass_can_be_resumed_and_a_dataset_pickled(kind):
    reader, folder, names, read = kind
    ds = pickle.loads(pickle.dumps(reader(folder, shuffle=hd.FileShuffleConfig(seed=1))))
    whole = read(ds)
    other = reader(folder, shuffle=hd.FileShuffleConfig(seed=1))
    rows = other.iter_batches(batch_size=1, batch_format="pyarrow")
    first = next(iter(rows))
    again = ds.iter_batches(batch_size=1, batch_format="pyarrow")
    again.load_state_dict(rows.state_dict())
    rest = pa.concat_tables(list(again), promote_options="permissive")
    assert len(first) == 1 and len(rest) == len(whole) // (2 if len(whole) > ds.count() else 1) - 1


def test_a_column_named_like_the_paths(kind):
    reader, folder, names, read = kind
    taken = reader(names[0]).columns()[0]
    with pytest.raises(exceptions.InvalidArgument, match=f"has a column '{taken}' of its own"):
        reader(names[0], include_paths=taken).take_all()


def test_skip_paths(tmp_path):
    for i in range(3):
        pq.write_table(pa.table({"x": [i]}), tmp_path / f"{i}.parquet")
    second = tmp_path / "1.parquet"
    assert [r["x"] for r in hd.read_parquet(tmp_path, skip_paths=[second]).iter_rows()] == [0, 2]
    assert [r["x"] for r in hd.read_parquet(tmp_path, skip_paths=f"file://{second}").iter_rows()] == [0, 2]
    relative = os.path.relpath(second)
    assert hd.read_parquet(tmp_path, skip_paths=relative).count() == 2
    assert hd.read_parquet(os.path.relpath(tmp_path), skip_paths=second).count() == 2
    with pytest.raises(exceptions.NotFoundError, match="1.parquet: skip_paths keeps no file"):
        hd.read_parquet(second, skip_paths=second)
    ds = hd.read_parquet(tmp_path, skip_paths=[second], partition_filter=lambda paths: paths[:1])
    assert [r["x"] for r in ds.iter_rows()] == [0]
    for name in ("include_row_hash", "catalog", "tensor_column_schema"):
        with pytest.raises(NotImplementedError, match=f"read_parquet: {name} is not supported"):
            hd.read_parquet(tmp_path, **{name: {"a": 1}})


def test_a_broken_file_among_others_is_named(tmp_path):
    pytest.importorskip("fastavro")
    write_avro(tmp_path / "a.avro", [1])
    (tmp_path / "b.avro").write_bytes(b"Obj\x01" + bytes(50))
    with pytest.raises(exceptions.DataError, match="b.avro"):
        hd.read_avro(tmp_path).take_all()
    write_orc(tmp_path / "a.orc", [1])
    (tmp_path / "b.orc").write_bytes(b"ORC" + bytes(50))
    with pytest.raises(exceptions.DataError, match="b.orc"):
        hd.read_orc(tmp_path).take_all()


def test_many_stripes_and_slabs_with_columns_of_folders(tmp_path):
    orc = pytest.importorskip("pyarrow.orc")
    h5py = pytest.importorskip("h5py")
    for year in (2023, 2024):
        (tmp_path / f"year={year}").mkdir()
        rows = pa.table({"x": np.arange(100_000) + year})
        orc.write_table(rows, tmp_path / f"year={year}" / "a.orc", stripe_size=65536)
        with h5py.File(tmp_path / f"year={year}" / "a.h5", "w") as file:
            file.create_dataset("x", data=np.arange(300_000.0).reshape(-1, 3) + year, chunks=(1000, 3))
    assert orc.ORCFile(tmp_path / "year=2023" / "a.orc").nstripes > 1
    ds = hd.read_orc(tmp_path, partitioning=hd.Partitioning("hive"), include_paths=True)
    found = ds.to_arrow()
    assert found["x"].to_numpy().tolist() == [*range(2023, 102_023), *range(2024, 102_024)]
    assert found["year"].to_pylist() == ["2023"] * 100_000 + ["2024"] * 100_000
    assert set(found["path"].to_pylist()) == {str(tmp_path / f"year={y}" / "a.orc") for y in (2023, 2024)}
    ds = hd.read_hdf5(tmp_path, partitioning=hd.Partitioning("hive"))
    for year, begin in ((2023, 0), (2024, 100_000)):
        part = ds.take_batch(200_000)
        assert (part["year"][begin : begin + 100_000] == str(year)).all()
        assert (part["x"][begin : begin + 100_000, 0] == np.arange(0, 300_000, 3) + year).all()


@pytest.mark.parametrize("size", [5, (1, 2, 3), (0, 3), "big"])
def test_wrong_sizes_of_images(tmp_path, size):
    with pytest.raises(exceptions.InvalidArgument, match="read_images: size"):
        hd.read_images(tmp_path, size=size)


def test_arguments_of_numpy_load(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(3))
    ds = hd.read_numpy(tmp_path, mmap_mode="r", fix_imports=True, encoding="ASCII")
    assert [r["data"] for r in ds.iter_rows()] == [0, 1, 2]
    with pytest.raises(NotImplementedError, match="never loads pickled objects"):
        hd.read_numpy(tmp_path, allow_pickle=True)


def test_integers_of_numpy_are_integers(tmp_path):
    pq.write_table(pa.table({"x": range(4)}), tmp_path / "0.parquet")
    two = np.int64(2)
    ds = hd.read_parquet(tmp_path, concurrency=two, override_num_blocks=two)
    assert ds.limit(two).count() == len(ds.take(two)) == len(ds.take_batch(two)["x"]) == 2
    assert [
        len(b["x"]) for b in ds.map_batches(lambda b: b, batch_size=two).iter_batches(batch_size=two)
    ] == [2, 2]
    assert hd.from_items([1, 2, 3], override_num_blocks=two).count() == 3
    assert len(ds.streaming_split(two)) == 2
    ds.write_parquet(str(tmp_path / "out"), max_rows_per_file=two)
    assert len(os.listdir(tmp_path / "out")) == 2
    for wrong in (True, 2.0, np.float64(2), np.bool_(True)):
        with pytest.raises(exceptions.InvalidArgument, match="limit"):
            ds.limit(wrong)
