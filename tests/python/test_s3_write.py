"""Writing to s3://: nothing of a job is visible before all of it, whatever fails or is killed in between."""

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from command import MISSING, headrace
from object_server import S3Server

import headrace.data as hd
from headrace.exceptions import HeadraceError, NotFoundError, StorageError, UnsupportedError

WRITE = """
import headrace.data as hd
hd.range(40).write_csv("s3://bucket/out", max_rows_per_file=10, mode=MODE)
"""


@pytest.fixture
def server(tmp_path, monkeypatch):
    (tmp_path / "root" / "bucket").mkdir(parents=True)
    server = S3Server(tmp_path / "root")
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", server.key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", server.secret)
    yield server
    server.close()


def keys(server):
    """The keys of all objects, those of records and _SUCCESS included."""
    root = server.root / "bucket"
    return sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file())


def rows(path="s3://bucket/out"):
    try:
        return sorted(r["id"] for r in hd.read_csv(path).take_all())
    except NotFoundError:
        return []


PICTURES = np.arange(2 * 4 * 4 * 3, dtype=np.uint8).reshape(2, 4, 4, 3)

FORMATS = {
    "parquet": (lambda ds, p: ds.write_parquet(p), hd.read_parquet),
    "arrow": (lambda ds, p: ds.write_arrow(p), hd.read_arrow),
    "csv": (lambda ds, p: ds.write_csv(p), hd.read_csv),
    "json": (lambda ds, p: ds.write_json(p), hd.read_json),
    "tfrecords": (lambda ds, p: ds.write_tfrecords(p), hd.read_tfrecords),
    "numpy": (lambda ds, p: ds.write_numpy(p, column="id"), hd.read_numpy),
    "webdataset": (lambda ds, p: ds.write_webdataset(p), hd.read_webdataset),
}


@pytest.mark.parametrize("name", FORMATS)
def test_each_format_comes_back_as_from_a_local_folder(name, server, tmp_path):
    write, read = FORMATS[name]
    ds = hd.range(100)
    write(ds, str(tmp_path / "local"))
    write(ds, "s3://bucket/a b+%é/out")

    def comparable(where):
        return [str({k: v for k, v in r.items() if not k.startswith("__")}) for r in read(where).take_all()]

    assert comparable("s3://bucket/a b+%é/out") == comparable(str(tmp_path / "local"))
    assert not server.uploads
    assert not any("_headrace_commit" in k for k in keys(server))


def test_images_and_partitions(server):
    hd.from_numpy(PICTURES).map_batches(lambda b: {"image": b["data"]}).write_images(
        "s3://bucket/images", "image"
    )
    assert hd.read_images("s3://bucket/images").count() == 2
    ds = hd.range(20).add_column("k", lambda b: np.array(["a/b", "x=1"] * 10)[: len(b["id"])])
    ds.write_parquet("s3://bucket/parts", partition_cols=["k"])
    assert (
        sorted(r["k"] for r in hd.read_parquet("s3://bucket/parts").take_all()) == ["a/b"] * 10 + ["x=1"] * 10
    )


def test_large_files_have_parts_and_a_header_that_comes_last(server):
    values = np.arange(3_000_000)
    hd.from_numpy(values).write_numpy("s3://bucket/large.npy", column="data", single_file=True)
    data = (server.root / "bucket" / "large.npy").read_bytes()
    assert data[:6] == b"\x93NUMPY"
    assert np.array_equal(np.frombuffer(data[-8 * len(values) :], np.int64), values)
    assert sum(r[0] == "PART" for r in server.requests) == 3


def test_one_file_waits_for_its_id_and_for_no_list(server):
    """The list of records below a single file's name cost a round; no job decides anything there."""
    hd.range(5).write_parquet("s3://bucket/one.parquet", single_file=True, mode="overwrite")
    assert [r[0] for r in server.requests] == ["CREATE", "PART", "COMPLETE"]


def test_a_job_with_a_new_name_looks_for_no_uploads(server):
    hd.range(5).write_parquet("s3://bucket/new")
    assert not any(r[0] == "UPLOADS" for r in server.requests)


@pytest.mark.parametrize("write, read", [FORMATS[name] for name in ("parquet", "arrow", "numpy")])
def test_parts_of_shared_buffers_are_sent_again_from_their_beginning(server, write, read):
    """Each part fails once, when the server has its body. Buffers begin in the part before."""
    values, failed = np.random.default_rng(0).random(5_000_000), set()

    def fail_once(kind, path, handler):
        if kind != "PART" or handler.path in failed:
            return None
        failed.add(handler.path)
        return broken(handler)

    server.on_write = fail_once
    write(hd.from_numpy(values).rename_columns({"data": "id"}), "s3://bucket/shared")
    assert len(failed) >= 5
    got = [batch for batch in read("s3://bucket/shared").iter_batches(batch_size=None)]
    assert np.array_equal(np.concatenate([next(iter(batch.values())) for batch in got]), values)


def test_one_file_learns_the_region(server):
    """The first request for the id is refused with the region's name, and the second one goes there."""
    server.region = "eu-central-1"
    elsewhere = {"aws_region": "us-east-1"}
    hd.range(5).write_parquet("s3://bucket/one.parquet", single_file=True, storage_options=elsewhere)
    assert len(server.refused) == 1
    assert hd.read_parquet("s3://bucket/one.parquet").count() == 5


def test_modes(server):
    hd.range(5).write_csv("s3://bucket/out")
    hd.range(5).write_csv("s3://bucket/out/", mode="append")
    assert rows() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    with pytest.raises(StorageError, match="s3://bucket/out: already contains files"):
        hd.range(5).write_csv("s3://bucket/out", mode="create")
    assert hd.range(5).write_csv("s3://bucket/out", mode="ignore") == []
    hd.range(3).write_csv("s3://bucket/out", mode="overwrite")
    assert rows() == [0, 1, 2]
    assert len(keys(server)) == 2
    success = (server.root / "bucket" / "out" / "_SUCCESS").read_text()
    assert [k for k in keys(server) if k in success] == [k for k in keys(server) if "_SUCCESS" not in k]
    hd.range(3).write_csv("s3://bucket/one.csv", single_file=True)
    with pytest.raises(StorageError, match=r"one.csv: the file exists already"):
        hd.range(3).write_csv("s3://bucket/one.csv", single_file=True)
    hd.range(4).write_csv("s3://bucket/one.csv", single_file=True, mode="overwrite")
    assert rows("s3://bucket/one.csv") == [0, 1, 2, 3]
    assert not server.uploads


def test_a_server_without_uploads_may_say_so(server):
    """rclone's answers the list of uploads with NoSuchUpload; no job could write there."""

    def refuse(kind, path, handler):
        return server.refuse(handler, 404, "NoSuchUpload") or True if kind == "UPLOADS" else None

    server.on_write = refuse
    hd.range(5).write_csv("s3://bucket/out")
    assert rows() == [0, 1, 2, 3, 4]


def test_a_failed_job_leaves_nothing(server):
    def fails(batch):
        if batch["id"][0] >= 20:
            raise ValueError("no")
        return batch

    with pytest.raises((HeadraceError, ValueError), match="no"):
        hd.range(40).map_batches(fails, batch_size=10).write_csv("s3://bucket/out", max_rows_per_file=10)
    assert keys(server) == []
    assert not server.uploads


def once(kind, what):
    """A hook that does `what` to the first request of the kind."""
    left = [1]

    def hook(found, path, handler):
        if found != kind or not left:
            return None
        left.clear()
        return what(handler)

    return hook


def slow_down(handler):
    return S3Server.status(handler, 503, Retry_After="0")


def broken(handler):
    handler.close_connection = True
    return True


def error_inside(handler):
    body = b"<?xml?><Error><Code>InternalError</Code></Error>"
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)
    return True


KINDS = ("CREATE", "PART", "COMPLETE", "PUT", "DELETE")
FAULTS = [(kind, what) for kind in KINDS for what in (slow_down, broken, lambda h: "lose")]
FAULTS += [("COMPLETE", error_inside)]


@pytest.mark.parametrize("kind,what", FAULTS)
def test_each_request_is_mended(kind, what, server):
    server.on_write = once(kind, what)
    hd.range(20).write_csv("s3://bucket/out", max_rows_per_file=5)
    assert {r[0] for r in server.requests} >= set(KINDS)
    assert rows() == list(range(20))
    assert not any("_headrace_commit" in k for k in keys(server))
    assert not any(parts for _, parts in server.uploads.values())


def test_a_part_without_an_answer_slows_the_writer(server):
    """Once a store slower than the parts that it takes got all of them again, until the job failed."""
    ends = threading.Event()

    def silent(handler):
        ends.wait()
        handler.close_connection = True
        return True

    server.on_write = once("PART", silent)
    hd.range(20).write_csv("s3://bucket/out", storage_options={"timeout": 1, "max_retries": 20})
    ends.set()
    ds = hd.read_csv("s3://bucket/out").materialize()
    assert ds.count() == 20
    hosts = {host["host"]: host for host in ds.stats("dict")["network"]["hosts"]}
    assert hosts[f"{server.url}/bucket"]["throttled"] >= 1


def test_a_refusal_is_one_error_without_secrets(server):
    server.on_write = once("PART", lambda h: server.refuse(h, 403, "AccessDenied") or True)
    with pytest.raises(
        StorageError, match=r"s3://bucket/out/.*: access denied \(HTTP 403\), AccessDenied"
    ) as e:
        hd.range(20).write_csv("s3://bucket/out")
    assert server.secret not in str(e.value)
    assert keys(server) == []
    assert not server.uploads


# (kind, number, whether the request is done before the kill); whether the job is decided then.
PHASES = [
    (("PART", 2, True), False),
    (("PUT", 1, False), False),
    (("PUT", 1, True), True),
    (("COMPLETE", 2, True), True),
    (("PUT", 2, False), True),
    (("PUT", 2, True), True),
    (("DELETE", 1, False), True),
]


@pytest.mark.parametrize("mode", ["append", "overwrite"])
@pytest.mark.parametrize("phase,decided", PHASES)
def test_kill_in_each_phase(phase, decided, mode, server):
    kind, number, done = phase
    before = []
    if mode == "overwrite":
        hd.range(7).write_csv("s3://bucket/out")
        before = list(range(7))
    other = "id of another job"
    server.uploads[other] = ("/bucket/out/another_000000_000000.csv", {})
    seen = [0]

    def kill(found, path, handler):
        seen[0] += found == kind
        if found != kind or seen[0] != number:
            return None
        os.kill(child.pid, signal.SIGKILL)
        return "lose" if done else True

    server.on_write = kill
    child = subprocess.Popen([sys.executable, "-c", WRITE.replace("MODE", repr(mode))], env={**os.environ})
    assert child.wait(60) == -signal.SIGKILL
    server.on_write = None
    new = list(range(40)) if mode == "overwrite" else before + list(range(40))
    assert rows() in (before, new)
    if not decided:
        assert rows() == before
    hd.from_items([{"id": 1000}]).write_csv("s3://bucket/out")
    assert rows() == (new if decided else before) + [1000]
    assert not any("_headrace_commit" in k for k in keys(server))
    assert other in server.uploads


def test_other_urls_are_refused_without_their_secrets():
    words = "x/y: headrace writes to local paths and to s3://, gs://, az:// and hdfs:// URLs"
    with pytest.raises(UnsupportedError, match=words) as e:
        hd.range(3).write_csv("https://me:hush@x/y?sig=hush")
    assert "hush" not in str(e.value)


def test_jobs_at_the_same_time(server):
    ds = hd.range(100)
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(ds.write_csv, "s3://bucket/out", max_rows_per_file=20) for _ in range(8)]:
            assert sum(r["rows"] for r in done.result()) == 100
    assert rows() == sorted(list(range(100)) * 8)
    assert not server.uploads
    assert not any("_headrace_commit" in k for k in keys(server))


def test_uploads_that_somebody_aborts_are_one_error(server):
    def refuse(kind, path, handler):
        return server.refuse(handler, 403, "AccessDenied") or True if kind == "COMPLETE" else None

    server.on_write = refuse
    with pytest.raises(StorageError, match="AccessDenied"):
        hd.range(5).write_csv("s3://bucket/out")
    server.on_write = None
    assert len(server.uploads) == 1
    server.uploads.clear()
    with pytest.raises(StorageError, match="the file is lost: .*; remove _headrace_commit_"):
        hd.range(5).write_csv("s3://bucket/out")
    next((server.root / "bucket" / "out").glob("_headrace_commit_*")).unlink()
    hd.range(5).write_csv("s3://bucket/out")
    assert rows() == [0, 1, 2, 3, 4]


@pytest.mark.skipif(MISSING, reason="the command is not built")
def test_the_command_cleans(server, tmp_path):
    (tmp_path / "x.csv").write_text("id\n1\n2\n")
    headrace("convert", tmp_path / "x.csv", "s3://bucket/out", "--to", "csv")
    assert rows() == [1, 2]
    for key in ("out/job7_000000_000000.csv", "out/job77_000000_000000.csv", "é +/x.csv"):
        server.uploads[key] = (f"/bucket/{key}", {})
    out, _ = headrace("clean", "--job", "job7", "s3://bucket")
    assert out.splitlines() == [
        "unfinished\ts3://bucket/out/job77_000000_000000.csv",
        "aborted\ts3://bucket/out/job7_000000_000000.csv",
        "unfinished\ts3://bucket/é +/x.csv",
    ]
    assert headrace("clean", "--all", "s3://bucket/out/")[0] == (
        "aborted\ts3://bucket/out/job77_000000_000000.csv\n"
    )
    assert headrace("clean", "--json", "s3://bucket/")[0] == (
        '{"state": "unfinished", "path": "s3://bucket/é +/x.csv"}\n'
    )
    assert headrace("clean", "--all", "s3://bucket/")[0] == "aborted\ts3://bucket/é +/x.csv\n"
    assert not server.uploads

    def break_off(kind, path, handler):
        return server.refuse(handler, 403, "AccessDenied") or True if kind == "COMPLETE" else None

    server.on_write = break_off
    with pytest.raises(
        StorageError, match=r"written, and become visible with the next write .* AccessDenied"
    ):
        hd.from_items([{"id": 3}]).write_csv("s3://bucket/out")
    server.on_write = None
    assert rows() == [1, 2]
    assert headrace("clean", "s3://bucket/out")[0].startswith("completed\ts3://bucket/out\t")
    assert rows() == [1, 2, 3]
    assert headrace("clean", tmp_path)[0] == ""
    assert "no credentials" in headrace("clean", "s3://bucket", status=1, AWS_ACCESS_KEY_ID="")[1]
    assert "expected FOLDER" in headrace("clean", status=2)[1]


@pytest.mark.parametrize("mode", ["append", "overwrite", "create"])
def test_a_server_without_conditions(server, mode):
    """It answers 501 to If-None-Match: a folder needs none, since its names are the job's own."""

    def refuse(kind, path, handler):
        if "If-None-Match" in handler.headers:
            server.refuse(handler, 501, "NotImplemented")
            return True
        return None

    server.on_write = refuse
    hd.range(40).write_csv("s3://bucket/out", max_rows_per_file=10, mode=mode)
    assert rows() == list(range(40))
    if mode == "overwrite":
        hd.range(3).write_csv("s3://bucket/one.csv", single_file=True, mode=mode)
        assert hd.read_csv("s3://bucket/one.csv").count() == 3
    else:
        with pytest.raises(UnsupportedError, match=r"s3://bucket/one.csv: .*HTTP 501.*mode 'overwrite'"):
            hd.range(3).write_csv("s3://bucket/one.csv", single_file=True, mode=mode)


def test_urls_that_nothing_is_written_to(server):
    text = "http://host/x: headrace reads URLs of http, and writes none: a folder of a store is expected"
    assert text in headrace("clean", "http://host/x", status=1)[1]
    with pytest.raises(UnsupportedError, match="headrace writes to local paths and to s3://"):
        hd.range(3).write_csv("https://host/x")
