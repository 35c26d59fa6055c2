"""cache= and storage_options= of each reader and writer: tables of deltalake, pylance and pyiceberg in
stores, Zarr stores, archives that Python reads, and a walk over all of them."""

import inspect
import pickle
import urllib.error
import urllib.request

import numpy as np
import pytest
from object_server import S3Server
from sdk_server import SdkServer

import headrace.data as hd
from headrace.data import table_options
from headrace.data.files import FileArguments
from headrace.exceptions import DataError, InvalidArgument, TypeMismatchError, UnsupportedError

ROWS = 1000
SUM = ROWS * (ROWS - 1) // 2


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    (tmp_path / "root" / "bucket").mkdir(parents=True)
    return tmp_path / "root"


@pytest.fixture
def server(root):
    server = SdkServer(root)
    yield server
    server.close()


def options_of(server):
    return {"endpoint": server.url, "key": server.key, "secret": server.secret, "region": "us-east-1"}


def data_bytes(server, of):
    """Bytes of rows that the server has sent."""
    return sum(n for method, path, _, n in server.requests if method == "GET" and of in path)


class Delta:
    package, of_rows = "deltalake", ".parquet"

    def __init__(self, server, tmp_path):
        self.server, self.where = server, "s3://bucket/dir/t"
        self.given = {"storage_options": options_of(server)}

    def write(self, ds):
        ds.write_delta(self.where, **self.given)

    def read(self, **given):
        return hd.read_delta(self.where, **{**self.given, **given})


class Lance(Delta):
    package, of_rows = "lance", "/data/"

    def write(self, ds):
        ds.write_lance(self.where, **self.given)

    def read(self, **given):
        return hd.read_lance(self.where, **{**self.given, **given})


class Iceberg(Delta):
    package, of_rows = "pyiceberg", ".parquet"

    def __init__(self, server, tmp_path):
        super().__init__(server, tmp_path)
        catalogs = pytest.importorskip("pyiceberg.catalog")
        self.how = {"type": "sql", "name": "c", "uri": f"sqlite:///{tmp_path}/c.db"}
        self.how["warehouse"] = "s3://bucket/w"
        catalogs.load_catalog(**self.how).create_namespace("n")

    def write(self, ds):
        ds.write_iceberg("n.t", self.how, **self.given)

    def read(self, **given):
        return hd.read_iceberg("n.t", catalog_kwargs=self.how, **{**self.given, **given})


@pytest.fixture(params=[Delta, Lance, Iceberg])
def table(request, server, tmp_path):
    pytest.importorskip(request.param.package)
    table = request.param(server, tmp_path)
    table.write(hd.range(ROWS))
    return table


def test_a_second_epoch_asks_for_no_rows(table, server, tmp_path):
    cache = tmp_path / "cache"
    for first in (True, False):
        server.forget()
        ds = table.read(cache=cache)
        assert ds.sum("id") == SUM
        sent, outside = data_bytes(server, table.of_rows), ds.stats("dict")["network"]["outside"]
        assert (sent > 0) == first
        assert outside["received_bytes" if first else "cached_bytes"] >= (sent or 1)
    server.forget()
    again = pickle.loads(pickle.dumps(ds))
    assert again.sum("id") == SUM
    assert server.body_bytes() == 0 or isinstance(table, Iceberg)  # whose metadata is read when it is opened
    assert data_bytes(server, table.of_rows) == 0
    server.forget()
    assert table.read().sum("id") == SUM
    assert data_bytes(server, table.of_rows) > 0


def test_the_environment_names_the_cache(table, server, tmp_path, monkeypatch):
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path / "cache"))
    for first in (True, False):
        server.forget()
        assert table.read().sum("id") == SUM
        assert (data_bytes(server, table.of_rows) > 0) == first
    server.forget()
    assert table.read(cache=False).sum("id") == SUM
    assert data_bytes(server, table.of_rows) > 0
    with pytest.raises(TypeMismatchError, match=r"cache: expected a folder, True or False, found 3"):
        table.read(cache=3)


def test_a_replaced_table_is_another_one(table, tmp_path):
    assert table.read(cache=tmp_path / "cache").sum("id") == SUM
    more = hd.range(ROWS)
    if isinstance(table, Lance):
        more.write_lance(table.where, mode="append", **table.given)
    else:
        table.write(more)
    assert table.read(cache=tmp_path / "cache").sum("id") == 2 * SUM


def test_no_secret_is_in_an_error(table, server, tmp_path):
    given = {"storage_options": {**table.given["storage_options"], "key": "other", "secret": "hush"}}
    server.statuses = {"InvalidAccessKeyId": 403}
    with pytest.raises(Exception) as e:
        table.read(cache=tmp_path / "cache", **given).sum("id")
    assert "hush" not in str(e.value)


def test_paths_of_delta_partitions(server, tmp_path):
    pytest.importorskip("deltalake")
    parts = ["a b%é/x", "=&?#", "plain"]
    rows = hd.from_items([{"id": i, "part": part} for i, part in enumerate(parts)])
    given = {"storage_options": options_of(server)}
    rows.write_delta("s3://bucket/p", partition_by=["part"], **given)
    found = hd.read_delta("s3://bucket/p", cache=tmp_path / "cache", **given)
    assert sorted(found.unique("part")) == sorted(parts) and found.sum("id") == 3


def test_caches_of_places_without_one(server, tmp_path):
    pytest.importorskip("deltalake")
    with pytest.raises(UnsupportedError, match=r"read_delta: cache: headrace does not read hf://x/y"):
        hd.read_delta("hf://x/y?sig=hush", cache=tmp_path / "cache")
    hd.range(3).write_delta(str(tmp_path / "t"))
    assert hd.read_delta(str(tmp_path / "t"), cache=tmp_path / "cache").count() == 3
    assert not (tmp_path / "cache").exists()


def test_others_do_not_read_by_the_loopback_store(server, root):
    from headrace.data.sources.loopback_store import open_store

    (root / "bucket" / "d").mkdir()
    (root / "bucket" / "d" / "x").write_bytes(b"0123456789")
    texts = [f"{name}={value}" for name, value in options_of(server).items()]
    url, options = open_store("s3://bucket/d", texts)
    address = options["aws_endpoint"] + "/" + url.removeprefix("s3://")

    def ask(path, key=options["aws_access_key_id"], method="GET", **headers):
        headers["Authorization"] = f"AWS4-HMAC-SHA256 Credential={key}/20260101/us-east-1/s3/aws4_request"
        asked = urllib.request.Request(address + path, headers=headers, method=method)
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(asked) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as e:
            return e.code, e.read()

    assert ask("/x") == (200, b"0123456789")
    for text, want in {"2-4": b"234", "-3": b"789", "7-": b"789", "8-99": b"89"}.items():
        assert ask("/x", Range=f"bytes={text}") == (206, want)
    assert ask("/x", Range="bytes=10-")[0] == 416
    assert ask("/x", key="another")[0] == 403
    assert ask("/none")[0] == 404
    assert ask("/x", method="DELETE")[0] == 405
    assert (root / "bucket" / "d" / "x").exists()


def test_zarr(server, root, tmp_path):
    zarr = pytest.importorskip("zarr")
    group = zarr.create_group(str(root / "bucket" / "g.zarr"))
    group.create_array("x", shape=(60, 3), chunks=(10, 3), dtype="i8")[:] = 7
    given = {"storage_options": options_of(server), "cache": tmp_path / "cache"}
    for first in (True, False):
        server.forget()
        assert hd.read_zarr("s3://bucket/g.zarr", **given).count() == 60
        assert (
            np.concatenate([b["x"] for b in hd.read_zarr("s3://bucket/g.zarr", **given).iter_batches()]).sum()
            == 7 * 180
        )
        ds = hd.read_zarr("s3://bucket/g.zarr", **given)
        ds.materialize()
        outside = ds.stats("dict")["network"]["outside"]
        assert outside["cached_bytes"] > 0 and "outside the run" in str(ds.stats())
        assert (server.body_bytes() > 0) == first
    with pytest.raises(TypeMismatchError, match=r"read_zarr: cache: expected a folder"):
        hd.read_zarr("s3://bucket/g.zarr", cache=3)
    fsspec = pytest.importorskip("fsspec")
    with pytest.raises(InvalidArgument, match=r"read_zarr: cache: the files of .* have no place in it"):
        hd.read_zarr("/g.zarr", filesystem=fsspec.filesystem("memory"), cache=tmp_path)


def test_archives_that_python_reads(root, tmp_path):
    """The story: with fileselect= a URL was looked for on the disk."""
    server = S3Server(root)
    rows = [{"__key__": f"k{i}", "cls": i, "txt": f"t{i}"} for i in range(20)]
    file = root / "bucket" / "a.tar"
    hd.from_items(rows).write_webdataset(str(file), single_file=True)
    given = {"storage_options": options_of(server), "fileselect": ["*.cls"], "decoder": True}
    try:
        for first in (True, False):
            server.forget()
            ds = hd.read_webdataset("s3://bucket/a.tar", cache=tmp_path / "cache", **given)
            assert [row["cls"] for row in ds.take_all()] == list(range(20))
            assert ds.unique("__url__") == ["s3://bucket/a.tar"]
            assert (server.body_bytes() > 0) == first
        (root / "bucket" / "b.tar").write_bytes(b"x" * 2000)
        with pytest.raises(DataError, match=r"s3://bucket/b.tar: tar: "):
            hd.read_webdataset("s3://bucket/b.tar", **given).take_all()
    finally:
        server.close()


def test_archives_of_filesystems_that_python_reads(tmp_path):
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    rows = [{"__key__": f"k{i}", "cls": i} for i in range(5)]
    hd.from_items(rows).write_webdataset(str(tmp_path / "a.tar"), single_file=True)
    memory.pipe("/hr_tar/a.tar", (tmp_path / "a.tar").read_bytes())
    try:
        ds = hd.read_webdataset("/hr_tar/a.tar", filesystem=memory, fileselect=["*.cls"], decoder=True)
        assert [row["cls"] for row in ds.take_all()] == list(range(5))
    finally:
        memory.rm("/hr_tar", recursive=True)


# What takes no cache= or storage_options=, and why.
WITHOUT = {
    "read_sql": "a database has no objects",
    "read_datasource": "the source has options of its own",
    "write_sql": "a database has no objects",
    "write_datasink": "the sink has options of its own",
}


def arguments_of(function):
    found = inspect.signature(function).parameters
    names = set(found)
    if "FileArguments" in str(found.get("common", "")):
        names |= set(FileArguments.__annotations__)
    return names


READERS = [n for n in dir(hd) if n.startswith("read_") and callable(getattr(hd, n))]
WRITERS = [n for n in dir(hd.Dataset) if n.startswith("write_")]


def test_all_are_walked():
    assert len(READERS) > 20 and len(WRITERS) > 12
    assert set(WITHOUT) <= {*READERS, *WRITERS}


@pytest.mark.parametrize("name", [n for n in READERS if n not in WITHOUT])
def test_each_reader_takes_options_and_a_cache(name):
    assert {"storage_options", "cache"} <= arguments_of(getattr(hd, name))


@pytest.mark.parametrize("name", [n for n in WRITERS if n not in WITHOUT])
def test_each_writer_takes_options(name, tmp_path):
    function = getattr(hd.Dataset, name)
    if "storage_options" in arguments_of(function):
        return
    # In **arguments: a wrong one is named.
    given = {"column": "id"} if name in ("write_images", "write_numpy") else {}
    where = f"s3://bucket/{name}"
    with pytest.raises(TypeMismatchError, match="storage_options: expected a dict with names, found int"):
        function(hd.range(3), where, **given, storage_options=3)


NAMES = {
    "key": "s3.access-key-id",
    "aws_access_key_id": "s3.access-key-id",
    "AWS_SECRET_ACCESS_KEY": "s3.secret-access-key",
    "region": "s3.region",
    "profile": "s3.profile-name",
    "timeout": "s3.request-timeout",
    "account_name": "adls.account-name",
    "google_project": "gcs.project-id",
    "s3.endpoint": "s3.endpoint",
    "hdfs_user": "hdfs.user",
}


@pytest.mark.parametrize("name", NAMES)
def test_names_of_pyiceberg(name):
    assert table_options.of_iceberg("here", {name: "x"}) == {NAMES[name]: "x"}


def test_options_of_pyiceberg():
    given = {
        "token": "t",
        "anon": True,
        "max_retries": 3,
        "cache_dir": "c",
        "allow_http": True,
        "secret": None,
    }
    assert table_options.of_iceberg("here", given) == {
        "s3.session-token": "t",
        "gcs.oauth2.token": "t",
        "adls.token": "t",
        "s3.anonymous": "true",
        "adls.anon": "true",
    }
    nested = {"client_kwargs": {"endpoint_url": "http://h"}}
    assert table_options.of_iceberg("here", nested)["s3.endpoint"] == "http://h"
    for name in ("use_ssl", "aws_s3_express", "nonsense"):
        with pytest.raises(UnsupportedError, match=f"here: storage_options: .* no counterpart of '{name}'"):
            table_options.of_iceberg("here", {name: "hush"})
    with pytest.raises(
        TypeMismatchError, match="here: storage_options: expected a dict with names, found str"
    ):
        table_options.of_iceberg("here", "hush")
    back = table_options.of_properties({"s3.access-key-id": "k", "s3.endpoint": "e", "warehouse": "w"})
    assert back == {"aws_access_key_id": "k", "aws_endpoint_url": "e"}


def test_options_of_object_store():
    given = {"key": "k", "endpoint": "http://h", "timeout": 60, "hedges": False, "anon": False, "x": 1}
    assert table_options.of_object_store("here", "s3://b/t", given) == {
        "aws_access_key_id": "k",
        "aws_endpoint": "http://h",
        "allow_http": "true",
        "timeout": "60s",
        "aws_skip_signature": "false",
        "x": "1",
    }
    assert table_options.of_object_store("here", "gs://b/t", {"token": "t"}) == {"google_bearer_token": "t"}
    assert table_options.of_object_store("here", "az://b/t", {"token": "t"}) == {"azure_storage_token": "t"}
    assert table_options.of_object_store("here", "/local", None) is None
