"""The command and URLs: headrace ls, and --storage-option of all commands."""

import json
import signal
import socket
import subprocess
import threading

import pytest
from command import COMMAND, MISSING, environment, headrace
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


@pytest.fixture
def closed():
    """A port of this machine that nobody listens at."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        yield s.getsockname()[1]


def place_of(name, server, closed):
    """(bucket, options, what the error says)."""
    here = f"endpoint={server.url}"
    return {
        "key": (
            "bucket",
            [here, "key=AKIAOTHER", "secret=hush"],
            "access denied (HTTP 403), InvalidAccessKeyId",
        ),
        "secret": (
            "bucket",
            [here, f"key={server.key}", "secret=hush"],
            "access denied (HTTP 403), SignatureDoesNotMatch",
        ),
        "half": ("bucket", [here, "secret=hush"], "a secret access key without its access key id"),
        "bucket": ("none", [here], "no such bucket (HTTP 404)"),
        "port": (
            "bucket",
            [f"endpoint=http://127.0.0.1:{closed}"],
            f"no connection to the host 127.0.0.1:{closed}",
        ),
        "name": ("bucket", ["endpoint=http://no.invalid"], "the name of the host no.invalid is not known"),
    }[name]


@pytest.mark.parametrize("name", ["key", "secret", "half", "bucket", "port", "name"])
def test_a_hostile_place_is_one_line(name, server, closed, tmp_path):
    """Errors did not name the host; a bucket that is missing was "no such object"; a secret without its key
    was ignored, and the keys of the environment served.
    """
    bucket, options, words = place_of(name, server, closed)
    at = [word for o in [*options, "max_retries=1"] for word in ("--storage-option", o)]
    url = f"s3://{bucket}/lake"
    (tmp_path / "a.csv").write_text("n\n1\n")
    for command in (
        ["ls", url],
        ["count", f"{url}/a.csv"],
        ["head", f"{url}/a.csv"],
        ["stat", f"{url}/a.csv"],
        ["schema", f"{url}/a.csv"],
        ["convert", tmp_path / "a.csv", f"{url}/b.csv"],
        ["convert", f"{url}/a.csv", tmp_path / "out.csv"],
        ["clean", f"{url}/out"],
    ):
        error = headrace(*command, *at, status=1)[1]
        assert words in error and "hush" not in error, command
    assert not (tmp_path / "out.csv").exists() and not server.uploads
    assert sorted(p.name for p in server.root.rglob("*.csv")) == [".x.csv", "a.csv", "c d.csv"]


def test_http_is_not_written_to(closed, tmp_path):
    """The target's host was asked five times whether the file exists."""
    (tmp_path / "a.csv").write_text("n\n1\n")
    url = f"http://me:hush@127.0.0.1:{closed}/x"
    for more in (["x.csv"], ["x.csv", "--overwrite"], ["", "--to", "csv"], ["", "--to", "csv", "--folder"]):
        error = headrace("convert", *more[1:], tmp_path / "a.csv", url + more[0], status=1)[1]
        assert "headrace writes to local paths and to s3://" in error and "hush" not in error


@pytest.mark.parametrize("phase", ["read", "write"])
def test_an_interrupt_leaves_nothing_to_see(phase, server, at):
    """The request that a phase hangs at never gets an answer."""
    reached, end = threading.Event(), threading.Event()

    def hang(*_):
        reached.set()
        end.wait(60)

    if phase == "write":
        server.on_write = lambda kind, path, handler: hang() if kind == "PART" else None
    else:
        server.fault = lambda number, handler: hang() if handler.command == "GET" else None
    words = [COMMAND, "convert", "s3://bucket/lake/a.csv", "s3://bucket/lake/new.csv", *at]
    command = subprocess.Popen(words, env=environment(), stderr=subprocess.PIPE)
    assert reached.wait(60)
    command.send_signal(signal.SIGINT)
    assert command.wait(30) == -signal.SIGINT and command.stderr.read() == b""
    end.set()
    server.on_write = server.fault = None
    assert headrace("ls", "s3://bucket/lake/*.csv", *at)[0] == "s3://bucket/lake/a.csv\n"
    headrace("clean", "--all", "s3://bucket/lake/new.csv", *at)
    assert not server.uploads
