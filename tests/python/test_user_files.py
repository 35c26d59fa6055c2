"""Users' classes that read and write files themselves, and readers and writers by other packages: URLs and
filesystems.
"""

import fsspec
import pyarrow as pa
import pyarrow.fs
import pytest
from object_server import S3Server
from test_served import Handler, OnlyOpen, Store

import headrace.data as hd
from headrace.data import restarting
from headrace.data.checkpoint import CheckpointConfig
from headrace.data.datasource import BlockBasedFileDatasink, FileBasedDatasource, RowBasedFileDatasink


class Lines(FileBasedDatasource):
    _FILE_EXTENSIONS = ["txt"]

    def _read_stream(self, f, path):
        yield {"line": f.read().decode().split()}


class Rows(RowBasedFileDatasink):
    def write_row_to_file(self, row, file):
        file.write(str(row["id"]).encode())


class Blocks(BlockBasedFileDatasink):
    def write_block_to_file(self, block, file):
        file.write(" ".join(map(str, block.to_arrow()["id"].to_pylist())).encode())


@pytest.fixture
def server(tmp_path, monkeypatch):
    (tmp_path / "objects/bucket").mkdir(parents=True)
    found = S3Server(tmp_path / "objects")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", found.key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", found.secret)
    monkeypatch.setenv("AWS_ENDPOINT_URL", found.url)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    yield found
    found.close()


def places(tmp_path, server):
    """(filesystem, folder, storage_options)"""
    (tmp_path / "only").mkdir()
    yield None, str(tmp_path / "local"), None
    yield pyarrow.fs.LocalFileSystem(), str(tmp_path / "arrow"), None
    yield pyarrow.fs.PyFileSystem(Handler(pyarrow.fs.LocalFileSystem())), str(tmp_path / "py"), None
    yield Store(), "out", None
    yield OnlyOpen(tmp_path / "only"), "out", None
    yield None, "s3://bucket/out", None
    yield None, "s3://bucket/options", {"endpoint": server.url, "key": server.key, "secret": server.secret}


def test_files_of_sinks_come_back_by_sources(tmp_path, server):
    for fs, folder, options in places(tmp_path, server):
        if isinstance(fs, Store):
            continue  # its files are in this process alone, tasks run in others
        how = {"filesystem": fs, "storage_options": options}
        if fs is None:
            how.pop("filesystem")
        hd.range(5).write_datasink(Rows(folder, file_format="txt", **how))
        source = Lines(folder, **how)
        assert source.estimate_inmemory_data_size() == 5
        found = hd.read_datasource(Lines(folder, include_paths=True, **how)).take_all()
        assert sorted(int(r["line"]) for r in found) == list(range(5)), folder
        assert all(r["path"].startswith(folder) for r in found)
        hd.range(20).write_datasink(Blocks(folder, file_format="txt", mode="overwrite", **how))
        found = hd.read_datasource(Lines(folder, **how)).take_all()
        assert sorted(int(r["line"]) for r in found) == list(range(20))
        with pytest.raises(OSError, match="already contains files"):
            hd.range(20).write_datasink(Blocks(folder, file_format="txt", mode="create", **how))


class Fails(Rows):
    def write_row_to_file(self, row, file):
        super().write_row_to_file(row, file)
        if row["id"] == 3:
            raise ValueError("row 3")


def test_files_of_a_sink_that_fails_are_removed(tmp_path, server):
    for fs, folder, options in places(tmp_path, server):
        sink = Fails(folder, file_format="txt", filesystem=fs, storage_options=options)
        with pytest.raises(Exception, match="row 3"):
            hd.range(5).write_datasink(sink)
        assert sink._files() == []


def test_orc(tmp_path, server):
    for fs, folder, options in places(tmp_path, server):
        made = hd.range(100).write_orc(folder, filesystem=fs, storage_options=options)
        assert sum(r["rows"] for r in made) == 100 and all(r["bytes"] > 0 for r in made)
        read = hd.read_orc(folder, filesystem=fs, storage_options=options)
        assert read.to_arrow()["id"].to_pylist() == list(range(100))


def test_sources_over_http(tmp_path):
    pytest.importorskip("aiohttp")
    from object_server import ObjectServer

    (tmp_path / "a.txt").write_text("1 2 3")
    server = ObjectServer(tmp_path)
    try:
        assert hd.read_datasource(Lines(f"{server.url}/a.txt")).count() == 3
        assert (
            hd.read_datasource(Lines(f"{server.url}/a.txt", filesystem=fsspec.filesystem("http"))).count()
            == 3
        )
    finally:
        server.close()


def test_other_objects_are_no_filesystems(tmp_path):
    with pytest.raises(TypeError, match="Rows: filesystem: expected one of pyarrow.fs or fsspec, found int"):
        Rows("x", filesystem=7)
    assert pa is not None


@pytest.mark.parametrize("own", [False, True])
def test_a_write_job_goes_on_in_a_filesystem(own, monkeypatch):
    """With checkpoint_config a filesystem's path was taken for a local folder."""
    monkeypatch.setattr(restarting, "PART_BYTES", 4000)
    fs = Store()
    done = Store() if own else fs
    context = hd.DataContext.get_current()
    context.checkpoint_config = CheckpointConfig("id", "done", override_filesystem=done)

    def run(at):
        def fails(batch):
            if at in batch["id"]:
                raise ZeroDivisionError(f"row {at}")
            return batch

        ds = hd.range(5000, override_num_blocks=10).map_batches(fails, batch_size=500, compute="inline")
        return ds.write_csv("out", filesystem=fs)

    try:
        with pytest.raises(ZeroDivisionError):
            run(3333)
        before = len(fs.files())
        assert before > 1 and any(f.lstrip("/").startswith("done/") for f in done.files())
        made = run(-1)
        assert all(row["path"].startswith("out/") for row in made)
    finally:
        context.checkpoint_config = None
    assert sorted(r["id"] for r in hd.read_csv("out", filesystem=fs).take_all()) == list(range(5000))
    assert all(f.lstrip("/").startswith("out/") for f in fs.files())
