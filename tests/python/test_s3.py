"""s3://: folders, patterns, keys, credentials; every request's signature is checked by the server."""

import json
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from object_server import S3Server

import headrace.data as hd
from headrace.exceptions import DataError, HeadraceError, InvalidArgument, NotFoundError

ODD = ["a b.txt", "a+b.txt", "100%.txt", "é.txt", "x=1&y.txt", "a'(b)!*.txt", "~-_.txt"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("buckets")
    for year in (2023, 2024):
        for part in range(3):
            path = root / "lake" / "sales" / f"year={year}" / f"{part}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.table({"id": np.arange(100) + 1000 * year + 100 * part}), path)
    (root / "lake" / "sales" / "_SUCCESS").write_bytes(b"")
    (root / "lake" / "sales" / "notes.txt").write_text("no rows\n")
    (root / "odd").mkdir()
    for i, name in enumerate(ODD):
        (root / "odd" / name).write_text(f"line {i}\n")
    (root / "many" / "x").mkdir(parents=True)
    for i in range(25):
        (root / "many" / "x" / f"{i:03}.txt").write_text(f"{i}\n")
    return root


@pytest.fixture
def server(folder, monkeypatch, tmp_path):
    server = S3Server(folder)
    for name in (
        "AWS_PROFILE",
        "AWS_REGION",
        "AWS_DEFAULT_REGION",
        "AWS_SESSION_TOKEN",
        "AWS_ENDPOINT_URL_S3",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", server.key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", server.secret)
    yield server
    server.close()


@pytest.mark.parametrize(
    "where", ["sales", "sales/", "sales/*/*.parquet", "sales/**/?.parquet", "sales/year=20*"]
)
def test_rows_and_order_are_those_of_the_local_folder(where, folder, server):
    local = hd.read_parquet(f"{folder}/lake/{where}")
    remote = hd.read_parquet(f"s3://lake/{where}")
    assert remote.schema() == local.schema()
    assert remote.to_arrow().equals(local.to_arrow())


def test_a_whole_bucket_and_one_object(folder, server):
    assert hd.read_parquet("s3://lake").count() == 600
    assert hd.read_text("s3a://lake/sales/notes.txt", include_paths=True).take_all() == [
        {"text": "no rows", "path": "s3a://lake/sales/notes.txt"}
    ]


def test_odd_keys(folder, server):
    ds = hd.read_text("s3://odd/", include_paths=True)
    names = sorted(ODD, key=str.encode)
    assert [r["path"] for r in ds.take_all()] == [f"s3://odd/{n}" for n in names]
    for i, name in enumerate(ODD):
        if "*" not in name:
            assert hd.read_text(f"s3://odd/{name}").take_all() == [{"text": f"line {i}"}]


def test_long_lists_come_in_pages(server):
    server.page = 7
    assert [r["text"] for r in hd.read_text("s3://many/x").take_all()] == [str(i) for i in range(25)]
    assert 4 <= sum(r[0] == "LIST" for r in server.requests) <= 16


def test_sizes_of_lists_are_not_asked_for_again(server):
    hd.read_text("s3://many/x/").take_all()
    assert sum(r[0] == "HEAD" for r in server.requests) == 0


def put_constant(path, value):
    """Replaces the object by one of the same size, whatever the value."""
    columns = {"v": np.full(200_000, value), "r": np.random.default_rng(value).random(200_000)}
    new = path.parent.parent / "new"
    pq.write_table(pa.table(columns), new, row_group_size=5000, compression="none", use_dictionary=False)
    os.utime(new, ns=(0, value))  # the ETag of the test's server; Last-Modified is not sent
    new.replace(path)


@pytest.fixture
def unquoted(tmp_path, monkeypatch, server):
    """A server that lists ETags without quotes, as rclone and fake-gcs-server do."""
    (tmp_path / "lake" / "x").mkdir(parents=True)
    server.root = tmp_path
    server.list_tag = lambda tag: tag.strip('"')
    put_constant(tmp_path / "lake" / "x" / "a.parquet", 1)
    return server


def test_lists_without_quotes_mix_no_versions(unquoted, monkeypatch):
    """The story: such an ETag was none, and an epoch had rows of two files of one second and size."""
    monkeypatch.setenv("HEADRACE_MEMORY_LIMIT", "24MiB")
    batches, seen = hd.read_parquet("s3://lake/x/").iter_batches(batch_size=1000, prefetch_batches=0), set()
    with pytest.raises(DataError, match=r"/a.parquet: .*the object was replaced while it was read"):
        for i, batch in enumerate(batches):
            seen.update(np.unique(batch["v"]).tolist())
            if i == 0:
                put_constant(unquoted.root / "lake" / "x" / "a.parquet", 2)
    assert seen == {1}
    assert [r[0] for r in unquoted.requests].count("HEAD") == 1


def test_files_of_lists_without_quotes_are_cached(unquoted, tmp_path):
    for i in range(2):
        unquoted.forget()
        ds = hd.read_parquet("s3://lake/x/", storage_options={"cache_dir": str(tmp_path / "cache")})
        assert ds.count() == ds.filter("v == 1").count() == 200_000
        assert (unquoted.body_bytes() == 0) == (i == 1)


@pytest.mark.parametrize("listed", ["other", ""])
def test_listed_tags_that_answers_do_not_have_are_none(unquoted, listed):
    unquoted.list_tag = lambda tag: listed
    assert hd.read_parquet("s3://lake/x/").filter("v == 1").count() == 200_000


def test_empty_tags_are_none(unquoted, tmp_path):
    unquoted.etag = lambda path: '""'
    for where in ("x/", "x/a.parquet"):
        done = subprocess.run(
            [sys.executable, "-m", "headrace", "ls", "--json", f"s3://lake/{where}"],
            capture_output=True,
            text=True,
        )
        assert json.loads(done.stdout)["etag"] is None, done.stderr


def test_credentials(server, monkeypatch, tmp_path):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(InvalidArgument, match=r"s3://many/x: no credentials in storage_options"):
        hd.read_text("s3://many/x")
    keys = {"aws_access_key_id": server.key, "aws_secret_access_key": server.secret}
    assert hd.read_text("s3://many/x", storage_options=keys).count() == 25
    assert (
        hd.read_text("s3://many/x", storage_options={"key": server.key, "secret": server.secret}).count()
        == 25
    )
    (tmp_path / "credentials").write_text(
        f"[default]\naws_access_key_id = {server.key}\naws_secret_access_key = {server.secret}\n"
        f"[work]\naws_access_key_id = other\naws_secret_access_key = hush-hush\n"
    )
    assert hd.read_text("s3://many/x").count() == 25
    with pytest.raises(HeadraceError, match=r"HTTP 403\), InvalidAccessKeyId: refused") as e:
        hd.read_text("s3://many/x/", storage_options={"profile": "work"})
    assert "hush" not in str(e.value)
    server.token, server.region = "a/token+=", "eu-west-1"
    session = {**keys, "aws_session_token": server.token, "aws_region": "eu-west-1"}
    assert hd.read_text("s3://many/x", storage_options=session).count() == 25


def test_anonymous_access_is_explicit(server, monkeypatch):
    server.public = frozenset(["many"])
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    assert hd.read_text("s3://anonymous@many/x").count() == 25
    assert hd.read_text("s3://many/x", storage_options={"aws_skip_signature": True}).count() == 25
    with pytest.raises(HeadraceError, match=r"s3://lake/sales/: .*HTTP 403"):
        hd.read_parquet("s3://anonymous@lake/sales/")


def test_what_is_not_there(server):
    with pytest.raises(NotFoundError, match="s3://many/y: no such object, and nothing below it"):
        hd.read_text("s3://many/y")
    with pytest.raises(NotFoundError, match=r"s3://many/\*.csv: no object matches"):
        hd.read_csv("s3://many/*.csv")
    with pytest.raises(
        HeadraceError, match=r"s3://nothing/: no such bucket \(HTTP 404\), NoSuchBucket: refused"
    ):
        hd.read_csv("s3://nothing/")
    with pytest.raises(NotFoundError, match=r"s3://many/x"):  # it was a crash
        hd.read_csv("s3://many/x", file_extensions=["csv", "tsv"])
    ds = hd.read_text(["s3://many/y", "s3://many/x/000.txt"], ignore_missing_paths=True)
    assert ds.count() == 1


def test_the_clock_is_learnt(server, monkeypatch):
    def fault(number, handler):
        if number == 0:
            handler.send_response_only(403)
            body = b"<Error><Code>RequestTimeTooSkewed</Code></Error>"
            handler.send_header("Date", "Fri, 24 May 2030 00:00:00 GMT")
            handler.send_header("Content-Length", str(len(body)))
            handler.end_headers()
            if handler.command != "HEAD":
                handler.wfile.write(body)
            return True
        assert handler.headers["x-amz-date"].startswith("203005")

    ds = hd.read_text("s3://many/x/")
    server.forget()
    server.fault = fault
    assert ds.count() == 25


@pytest.mark.parametrize("where", ["s3://many/x", "s3://many/x/", "s3://many/x/*.txt"])
def test_a_bucket_in_another_region_is_found(where, server):
    server.region = "eu-central-1"
    assert hd.read_text(where, storage_options={"aws_region": "us-east-1"}).count() == 25


def test_a_request_that_s3_waited_for_is_sent_again(server):
    refused = []

    def fault(number, handler):
        if handler.command == "GET" and not refused:
            refused.append(number)
            server.refuse(handler, 400, "RequestTimeout")
            return True

    server.fault = fault
    assert hd.read_text("s3://many/x/000.txt").take_all() == [{"text": "0"}]
    assert refused


def test_a_list_that_is_an_error_with_status_200(server, monkeypatch):
    """The story: it was a malformed list, at once, without the store's words."""
    errors, answer = [1], server._list

    def refuses(handler, *query):
        if not errors:
            return answer(handler, *query)
        errors.pop()
        return server.refuse(handler, 200, "SlowDown")

    monkeypatch.setattr(server, "_list", refuses)
    assert hd.read_text("s3://many/x/").count() == 25 and not errors
    errors += [1] * 100
    with pytest.raises(HeadraceError, match=r"HTTP 200\), SlowDown: refused \(1 retr"):
        hd.read_text("s3://many/x/", storage_options={"max_retries": 1}).count()


def test_other_answers_400_are_errors_at_once(server):
    server.fault = lambda number, handler: server.refuse(handler, 400, "InvalidArgument") or True
    with pytest.raises(HeadraceError, match=r"HTTP 400"):
        hd.read_text("s3://many/x/000.txt").take_all()
    assert len(server.requests) == 1


def test_a_connection_that_died_idle_costs_no_retry(server):
    """The server closes connections after each answer without a word; max_retries is 0."""

    def fault(number, handler):
        handler.close_connection = True

    server.fault = fault
    urls = [f"s3://many/x/{i:03}.txt" for i in range(25)]
    ds = hd.read_text(urls, storage_options={"max_retries": 0, "max_connections": 1})
    assert [r["text"] for r in ds.take_all()] == [str(i) for i in range(25)]
