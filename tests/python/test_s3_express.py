"""Directory buckets of S3 (Express One Zone), against a server that keeps the rules that Amazon describes."""

import time

import pyarrow as pa
import pytest
from command import MISSING, headrace
from object_server import ExpressServer, S3Server

import headrace.data as hd
from headrace.exceptions import HeadraceError, NotFoundError

BUCKET = "lake--use1-az4--x-s3"


@pytest.fixture
def server(tmp_path, monkeypatch):
    server = ExpressServer(tmp_path / "objects")
    (tmp_path / "objects" / BUCKET).mkdir(parents=True)
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


def put(server, key, text):
    file = server.file(f"{BUCKET}/{key}")
    file.write_text(text)


def fill(server, n=60):
    keys = [f"in/y={y}/{i:03}.txt" for y in (1, 2) for i in range(n // 2)]
    for key in keys:
        put(server, key, f"{key}\n")
    return sorted(keys)


def sessions(server):
    return sum(kind == "SESSION" for kind, *_ in server.requests)


@pytest.mark.parametrize("page", [7, 1000])
def test_rows_come_in_the_order_of_keys(server, page):
    keys, server.page = fill(server), page
    ds = hd.read_text(f"s3://{BUCKET}/in/", include_paths=True)
    assert [r["text"] for r in ds.take_all()] == keys
    assert [r["path"] for r in ds.take_all()] == [f"s3://{BUCKET}/{key}" for key in keys]
    assert sessions(server) == 1


def test_prefixes_patterns_and_single_objects(server):
    keys = fill(server)
    base = f"s3://{BUCKET}"
    assert hd.read_text(base).count() == 60
    assert [r["text"] for r in hd.read_text(f"{base}/in/y=1").take_all()] == keys[:30]
    assert [r["text"] for r in hd.read_text(f"{base}/in/y=2/01*.txt").take_all()] == keys[40:50]
    assert [r["text"] for r in hd.read_text(f"{base}/in/**/005.txt").take_all()] == [keys[5], keys[35]]
    assert hd.read_text(f"{base}/in/y=2/007.txt").take_all() == [{"text": keys[37]}]
    with pytest.raises(NotFoundError, match="nothing below it"):
        hd.read_text(f"{base}/in/y=").count()


def test_a_job_writes_reads_and_replaces(server):
    """Whole, with parts, a record and old files that go; nobody's ETag is a sum of its bytes here."""
    url = f"s3://{BUCKET}/out/"
    hd.range(1000).write_parquet(url, max_rows_per_file=300)
    assert hd.read_parquet(url).count() == 1000
    hd.range(50).write_parquet(url, mode="overwrite")
    assert sorted(r["id"] for r in hd.read_parquet(url).take_all()) == list(range(50))
    left = [key for key in server.objects(BUCKET) if "_headrace" in key]
    assert not left and not server.uploads


def test_a_lost_answer_to_a_completion(server):
    """The upload is gone, and the object has no ETag that counts its parts: its size says that it is ours."""
    lost = set()

    def lose(kind, path, handler):
        if kind == "COMPLETE" and path not in lost:
            lost.add(path)
            return "lose"
        return None

    server.on_write = lose
    url = f"s3://{BUCKET}/out/"
    hd.range(1000).write_parquet(url, max_rows_per_file=300)
    assert lost
    assert hd.read_parquet(url).count() == 1000


@pytest.mark.skipif(MISSING, reason="the command is not built")
def test_the_upload_of_another_job_stays(server):
    """Uploads are listed by pages whose markers are no ids; only those of the named job are aborted."""
    fill(server, 4)
    server.uploads["a+1"] = (f"/{BUCKET}/out/job-1_0.parquet", {})
    server.uploads["a+2"] = (f"/{BUCKET}/out/other_0.parquet", {})
    assert headrace("clean", "--job", "job-1", f"s3://{BUCKET}/out")[0].startswith("aborted")
    assert [path for path, _ in server.uploads.values()] == [f"/{BUCKET}/out/other_0.parquet"]


def test_readers_share_a_session(server):
    fill(server)
    for _ in range(5):
        hd.read_text(f"s3://{BUCKET}/in/").count()
    assert sessions(server) == 1


def test_a_session_is_renewed_before_it_ends(server):
    """The next one is asked for while the present one still serves: no request waits or is refused."""
    fill(server)
    server.session_s = 21  # of which the last 15 s are not used
    end = time.time() + 60
    while sessions(server) < 2 and time.time() < end:
        assert hd.read_text(f"s3://{BUCKET}/in/").count() == 60
        time.sleep(0.1)
    assert sessions(server) == 2
    first, second = (end for *_, end in server.sessions.values())
    assert second - server.session_s < first - 15
    assert not server.refused


def test_a_session_that_ended_early_is_replaced(server):
    fill(server)
    ds = hd.read_text(f"s3://{BUCKET}/in/")
    for token, (key, secret, _) in list(server.sessions.items()):
        server.sessions[token] = (key, secret, 0)
    assert ds.count() == 60
    assert sessions(server) == 2


@pytest.mark.parametrize("ahead_s", [-3600, 3600])
def test_a_clock_that_is_wrong(server, ahead_s):
    """A session of five minutes would always be over for a clock that is an hour ahead."""
    fill(server)
    server.clock = lambda: time.time() - ahead_s
    assert hd.read_text(f"s3://{BUCKET}/in/").count() == 60
    assert sessions(server) <= 3


def test_keys_that_may_not_begin_a_session(server, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(HeadraceError, match="a session with .*SignatureDoesNotMatch") as caught:
        hd.read_text(f"s3://{BUCKET}/in/").count()
    assert "wrong" not in str(caught.value)


def test_secrets_of_a_session_are_in_no_text(server):
    fill(server)
    ds = hd.read_text(f"s3://{BUCKET}/in/")
    server.fault = lambda number, handler: server.refuse(handler, 403, "AccessDenied") or True
    with pytest.raises(HeadraceError) as caught:
        ds.take_all()
    shown = f"{caught.value} {ds!r} {ds.stats()}"
    for token, (_, secret, _) in server.sessions.items():
        assert token not in shown and secret not in shown


def test_a_server_that_has_such_names_and_no_sessions(server, tmp_path, monkeypatch):
    (tmp_path / "plain" / BUCKET).mkdir(parents=True)
    (tmp_path / "plain" / BUCKET / "a.txt").write_text("a\n")
    plain = S3Server(tmp_path / "plain")
    options = {"aws_endpoint_url": plain.url, "aws_s3_express": False}
    try:
        assert hd.read_text(f"s3://{BUCKET}/", storage_options=options).take_all() == [{"text": "a"}]
    finally:
        plain.close()


def test_a_table_of_a_hive_layout(server):
    table = pa.table({"x": range(100), "k": [i % 4 for i in range(100)]})
    hd.from_arrow(table).write_parquet(f"s3://{BUCKET}/t/", partition_cols=["k"])
    back = hd.read_parquet(f"s3://{BUCKET}/t/")
    assert sorted((r["x"], int(r["k"])) for r in back.take_all()) == [(i, i % 4) for i in range(100)]
