"""The command and URLs: headrace ls, and --storage-option of all commands."""

import json

import pytest
from command import MISSING, headrace
from object_server import S3Server

pytestmark = pytest.mark.skipif(MISSING, reason="needs build/release (make lib)")


@pytest.fixture
def server(tmp_path, monkeypatch):
    folder = tmp_path / "root" / "bucket" / "lake"
    (folder / "b").mkdir(parents=True)
    for name, text in {
        "a.csv": "n\n1\n2\n",
        "b/c d.csv": "n\n3\n",
        "_SUCCESS": "",
        "b/.x.csv": "n\n9\n",
    }.items():
        (folder / name).write_text(text)
    server = S3Server(tmp_path / "root")
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", server.key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", server.secret)
    yield server
    server.close()


@pytest.fixture
def at(server):
    return "--storage-option", f"endpoint={server.url}"


def test_ls_shows_what_readers_see(server, at):
    names = ["s3://bucket/lake/a.csv", "s3://bucket/lake/b/c d.csv"]
    for where in ("s3://bucket/lake", "s3://bucket/lake/", "s3://bucket/lake/**/*.csv"):
        assert headrace("ls", where, *at)[0].splitlines() == names
    assert headrace("ls", "s3://bucket/lake/*.csv", *at)[0].splitlines() == names[:1]
    assert headrace("ls", "-l", "s3://bucket/lake", *at)[0] == (
        f" 6  {names[0]}\n 4  {names[1]}\n10  2 files\n"
    )
    assert not any(r[0] == "GET" for r in server.requests)
    found = [json.loads(line) for line in headrace("ls", "--json", *names, *at)[0].splitlines()]
    assert [(f["path"], f["bytes"]) for f in found] == list(zip(names, (6, 4), strict=True))
    assert all(f["etag"].startswith('"') for f in found)
    assert "nothing below it" in headrace("ls", "s3://bucket/x", *at, status=1)[1]


def test_ls_of_local_files(server, tmp_path):
    folder = server.root / "bucket" / "lake"
    assert headrace("ls", folder)[0].splitlines() == [f"{folder}/a.csv", f"{folder}/b/c d.csv"]
    assert json.loads(headrace("ls", "--json", folder / "a.csv")[0]) == {
        "path": f"{folder}/a.csv",
        "bytes": 6,
        "etag": None,
    }
    (tmp_path / "one\x1b[31m\n.csv").write_text("n\n")
    assert headrace("ls", f"{tmp_path}/one*")[0].count("\n") == 1
    assert "expected PATH" in headrace("ls", status=2)[1]
    assert "no such file" in headrace("ls", tmp_path / "none", status=1)[1]


def test_every_command_takes_storage_options(server, at, tmp_path):
    url = "s3://bucket/lake"
    assert headrace("count", url, *at)[0] == "3\n"
    assert headrace("schema", url, *at)[0] == "n: int64\n"
    assert len(headrace("head", url, "--json", *at)[0].splitlines()) == 3
    assert headrace("stat", f"{url}/a.csv", *at)[0].startswith(f"{url}/a.csv")
    headrace("sort", "--key", "n:desc", url, "s3://bucket/sorted.csv", *at)
    assert (server.root / "bucket" / "sorted.csv").read_text() == "n\n3\n2\n1\n"
    headrace("convert", url, "s3://bucket/out", "--to", "parquet", *at)
    assert headrace("count", "s3://bucket/out", *at)[0] == "3\n"
    server.uploads["1"] = ("/bucket/out/job1_0.csv", {})
    assert headrace("clean", "--all", "s3://bucket/out", *at)[0] == "aborted\ts3://bucket/out/job1_0.csv\n"


def test_wrong_options_show_no_values(server):
    assert (
        "there is no option 'endpont'; did you mean"
        in (headrace("ls", "s3://bucket/lake", "--storage-option", "endpont=hush", status=1)[1])
    )
    error = headrace("ls", "s3://bucket/lake", "--storage-option", "hush", status=2)[1]
    assert error == "headrace: --storage-option: expected NAME=VALUE\n"
