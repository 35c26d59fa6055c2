"""filesystem= of readers and writers: stores of pyarrow.fs and fsspec, which the engine reaches itself.

test_served.py has all others.
"""

import os
import pickle

import pytest
from object_server import S3Server

import headrace.data as hd
from headrace.data.filesystems import place
from headrace.exceptions import InvalidArgument

pa = pytest.importorskip("pyarrow")
fsspec = pytest.importorskip("fsspec")
import pyarrow.parquet as pq  # noqa: E402


@pytest.fixture
def server(tmp_path, monkeypatch):
    for name in [n for n in os.environ if n.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for part in ("a", "b"):
        (tmp_path / f"bucket/in/part={part}").mkdir(parents=True)
        pq.write_table(pa.table({"x": [1, 2]}), tmp_path / f"bucket/in/part={part}/f.parquet")
    found = S3Server(tmp_path)
    yield found
    found.close()


class OfS3(fsspec.AbstractFileSystem):
    """What s3fs.S3FileSystem is: a protocol, and the arguments it was made with."""

    protocol = ("s3", "s3a")
    __module__ = "s3fs.core"


def filesystems(server):
    host = server.url.removeprefix("http://")
    keys = {"access_key": server.key, "secret_key": server.secret}
    yield pa.fs.S3FileSystem(**keys, endpoint_override=host, scheme="http", region="us-east-1")
    client = {"endpoint_url": server.url, "region_name": "us-east-1"}
    yield OfS3(key=server.key, secret=server.secret, client_kwargs=client, default_block_size=1 << 20)
    yield OfS3(key=server.key, secret=server.secret, endpoint_url=server.url, anon=False)


def test_reading_and_writing(server):
    rows = [{"x": x, "part": p} for p in ("a", "b") for x in (1, 2)]
    for i, fs in enumerate(filesystems(server)):
        for path in ("bucket/in", "s3://bucket/in/", "bucket/in/*/f.parquet"):
            ds = hd.read_parquet(path, filesystem=fs)
            assert ds.take_all() == rows
        assert ds.input_files()[0] == "s3://bucket/in/part=a/f.parquet"
        assert pickle.loads(pickle.dumps(ds)).count() == 4
        below = (
            pa.fs.SubTreeFileSystem("bucket/in", fs)
            if i == 0
            else fsspec.filesystem("dir", path="bucket/in", fs=fs)
        )
        assert hd.read_parquet("part=b", filesystem=below, partitioning=None).count() == 2
        wrapped = pa.fs.PyFileSystem(pa.fs.FSSpecHandler(fs)) if i else fs
        assert hd.read_parquet("bucket/in", filesystem=wrapped).count() == 4
        ds.write_csv(f"bucket/out{i}", filesystem=fs)
        assert hd.read_csv(f"bucket/out{i}", filesystem=fs).count() == 4
        with pytest.raises(FileNotFoundError, match="s3://bucket/none"):
            hd.read_csv("bucket/none", filesystem=fs)
        with pytest.raises(InvalidArgument, match="expected a path or a URL of the filesystem"):
            hd.read_csv("file://bucket/in", filesystem=fs)


def test_options_of_the_caller_come_first(server):
    fs = OfS3(key=server.key, secret="wrong", endpoint_url=server.url)
    assert (
        hd.read_parquet(
            "bucket/in", filesystem=fs, storage_options={"aws_secret_access_key": server.secret}
        ).count()
        == 4
    )
    with pytest.raises(OSError, match="SignatureDoesNotMatch"):
        hd.read_parquet("bucket/in", filesystem=fs)


def of(protocol, **settings):
    names = {"protocol": protocol, "cachable": False, "__module__": "s3fs.core"}
    return type("Of", (fsspec.AbstractFileSystem,), names)(**settings)


@pytest.mark.parametrize(
    ("fs", "url", "options"),
    [
        (pa.fs.S3FileSystem(anonymous=True), "s3://b/k", {"aws_skip_signature": True}),
        (of("s3", anon=True, profile="p"), "s3://b/k", {"aws_skip_signature": True, "aws_profile": "p"}),
        (pa.fs.GcsFileSystem(anonymous=True), "gs://b/k", None),
        (of(("gs", "gcs"), token="anon"), "gs://b/k", {"google_skip_signature": True}),
        (of("gcs", token="ya29"), "gs://b/k", {"google_token": "ya29"}),
        (of("gs", token={"type": "x"}), "gs://b/k", {"google_service_account_key": '{"type": "x"}'}),
        (of("gs", token="google_default", project="p"), "gs://b/k", {"project": "p"}),
        (
            of("gs", token="ya29", requests_timeout=9, requester_pays=True, project="p"),
            "gs://b/k",
            {"google_token": "ya29", "timeout": 9, "requester_pays": True, "project": "p"},
        ),
        (
            of("s3", anon=True, use_ssl=False, requester_pays=True, config_kwargs={"read_timeout": 7}),
            "s3://b/k",
            {"aws_skip_signature": True, "use_ssl": "false", "aws_request_payer": True, "timeout": 7},
        ),
        (
            pa.fs.S3FileSystem(
                anonymous=True,
                connect_timeout=3,
                request_timeout=4,
                proxy_options={
                    "scheme": "http",
                    "host": "proxy",
                    "port": 1,
                    "username": "u",
                    "password": "p@",
                },
            ),
            "s3://b/k",
            {
                "aws_skip_signature": True,
                "connect_timeout": 3,
                "timeout": 4,
                "proxy_url": "http://u:p%40@proxy:1",
            },
        ),
        (of("abfs", anon=True, read_timeout=5), "az://b/k", {"azure_skip_signature": True, "timeout": 5}),
        (
            pa.fs.AzureFileSystem(account_name="acct", account_key="eA=="),
            "az://b/k",
            {"azure_storage_account_name": "acct", "azure_storage_account_key": "eA=="},
        ),
        (
            of(("abfs", "az"), connection_string="c", anon=True),
            "az://b/k",
            {"azure_storage_connection_string": "c", "azure_skip_signature": True},
        ),
    ],
)
def test_stores(fs, url, options):
    found = place("read", fs, "b/k")
    assert found[0] == url
    if options is None:  # pyarrow's defaults for anonymous access
        assert found[1].pop("google_skip_signature") is True and not found[1].keys() - {"google_endpoint_url"}
    else:
        assert found[1] == options


def test_what_the_engine_does_not_reach_is_served():
    emulator = pa.fs.AzureFileSystem(
        account_name="acct",
        account_key="eA==",
        blob_storage_authority="localhost:1",
        blob_storage_scheme="http",
    )
    assert place("read", emulator, "b/k")[1]["azure_storage_endpoint"] == "http://localhost:1/acct"
    own = of("s3", anon=True)
    type(own).__module__ = __name__  # a user's class may read in its own way
    for fs in (
        pa.fs.S3FileSystem(anonymous=True, tls_ca_file_path="/some/bundle.pem"),
        of("gs", token="anon", session_kwargs={"trust_env": True}),
        of("s3", config_kwargs={"retries": 3}),
        of("s3", client_kwargs={"verify": "x"}),
        of("https", client_kwargs={"headers": {"a": "b"}}),
        fsspec.filesystem("memory"),
        of("sftp"),
        own,
    ):
        assert place("read", fs, "b/k") is None
    assert place("read", of("https"), "https://host/x.csv") == ("https://host/x.csv", {})
    with pytest.raises(InvalidArgument, match="a path or a URL"):
        place("read", of("https"), "x.csv")
