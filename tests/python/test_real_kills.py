"""Processes that die while they write to SeaweedFS, or read from it, at a request that a relay chooses.

Nothing half is visible, the next run completes, and a resumed epoch is that of local files. Here is also the
file of five GiB.
"""

import hashlib
import http.client
import http.server
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from object_server import Server
from real_servers import Seaweed, need_tools
from test_s3_write import PHASES, WRITE
from test_store_formats import EPOCH, GETS

import headrace.data as hd
from headrace.exceptions import NotFoundError

need_tools()


class Relay:
    """Hands requests on, and calls hook(kind, path) before each.

    The hook returns None, "drop" (the server never sees it) or "lose" (the client never sees the answer).
    """

    def __init__(self, port):
        self.port, self.hook, self.lock = port, None, threading.Lock()
        self.server = Server(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    @staticmethod
    def kind(method, query):
        if "uploadId" in query:
            return {"PUT": "PART", "POST": "COMPLETE", "DELETE": "ABORT"}.get(method, method)
        if method == "POST":
            return "CREATE"
        return "LIST" if "list-type" in query or "uploads" in query else method

    def answer(self, handler):
        body = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        parts = urlsplit(handler.path)
        kind = self.kind(handler.command, parse_qs(parts.query, keep_blank_values=True))
        with self.lock:
            verdict = self.hook and self.hook(kind, parts.path)
        if verdict == "drop":
            handler.close_connection = True
            return
        upstream = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        upstream.request(handler.command, handler.path, body or None, dict(handler.headers))
        found = upstream.getresponse()
        data = found.read()
        upstream.close()
        if verdict == "lose":
            handler.close_connection = True
            return
        handler.send_response(found.status)
        for name, value in found.getheaders():
            if name.lower() not in ("content-length", "transfer-encoding", "connection", "server", "date"):
                handler.send_header(name, value)
        length = found.headers.get("Content-Length") if handler.command == "HEAD" else len(data)
        handler.send_header("Content-Length", str(length))
        handler.end_headers()
        handler.wfile.write(data)

    def _handler(outer):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                try:
                    outer.answer(self)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True

            do_HEAD = do_PUT = do_POST = do_DELETE = do_GET

            def log_message(self, *args):
                pass

        return Handler


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    store = Seaweed(tmp_path_factory.mktemp("weed"))
    store.relay = Relay(store.port)
    yield store
    store.relay.close()
    store.stop()


@pytest.fixture
def weed(running, monkeypatch):
    for name in [n for n in os.environ if n.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in {**running.env, "AWS_ENDPOINT_URL": running.relay.url}.items():
        monkeypatch.setenv(name, value)
    running.relay.hook = None
    yield running
    running.relay.hook = None


def ids(where):
    try:
        return sorted(r["id"] for r in hd.read_csv(where).take_all())
    except NotFoundError:
        return []


class OtherJob:
    """An upload of somebody else into the folder, which is under way all the time."""

    def __init__(self, weed, folder):
        self.weed, self.key = weed, f"/bucket/{folder}/another_000000_000000.csv"
        status, _, body = weed.signed("POST", self.key, query="uploads=")
        assert status == 200
        self.id = re.search(r"<UploadId>(.*?)</UploadId>", body.decode())[1]
        query = f"partNumber=1&uploadId={self.id}"
        status, headers, _ = weed.signed("PUT", self.key, b"id\n77\n", query)
        assert status == 200
        self.tag = headers["ETag"]

    def complete(self):
        part = f"<Part><PartNumber>1</PartNumber><ETag>{self.tag}</ETag></Part>"
        body = f"<CompleteMultipartUpload>{part}</CompleteMultipartUpload>".encode()
        status, _, answer = self.weed.signed("POST", self.key, body, f"uploadId={self.id}")
        assert status == 200, answer


@pytest.mark.parametrize("mode", ["append", "overwrite"])
@pytest.mark.parametrize("number", range(len(PHASES)))
def test_kill_in_each_phase_of_a_write(number, mode, weed):
    (kind, count, done), decided = PHASES[number]
    folder = f"{mode}{number}/out"
    where, before = f"s3://bucket/{folder}", []
    if mode == "overwrite":
        hd.range(7).write_csv(where)
        before = list(range(7))
    other, seen, child = OtherJob(weed, folder), [0], []

    def kill(found, path):
        seen[0] += found == kind
        if found != kind or seen[0] != count:
            return None
        os.kill(child[0].pid, signal.SIGKILL)
        return "lose" if done else "drop"

    weed.relay.hook = kill
    program = WRITE.replace("MODE", repr(mode)).replace("s3://bucket/out", where)
    child.append(subprocess.Popen([sys.executable, "-c", program]))
    assert child[0].wait(120) == -signal.SIGKILL
    weed.relay.hook = None
    new = list(range(40)) if mode == "overwrite" else before + list(range(40))
    assert ids(where) in ((before, new) if decided else (before,))
    hd.from_items([{"id": 1000}]).write_csv(where)
    assert ids(where) == (new if decided else before) + [1000]
    assert f"{folder}/another_000000_000000.csv" in weed.uploads()
    other.complete()
    assert ids(where) == sorted((new if decided else before) + [77, 1000])


def test_kill_in_an_epoch_and_go_on(weed, tmp_path):
    """Twice, in the middle of a request; the SHA-256 of all batches is that of local files."""
    files, rows, rng = 12, 50_000, np.random.default_rng(3)
    for i in range(files):
        table = pa.table({"x": np.arange(i * rows, (i + 1) * rows), "z": rng.random(rows)})
        pq.write_table(table, tmp_path / f"{i:02}.parquet", row_group_size=rows // 5)
        weed.put(f"epoch/{i:02}.parquet", (tmp_path / f"{i:02}.parquet").read_bytes())

    def start(where, name):
        options = json.dumps({"max_connections": 2} if name == "s3" else {})
        program = [sys.executable, "-c", textwrap.dedent(EPOCH), where, options, tmp_path / name]
        return subprocess.Popen(program)

    def seen(name):
        try:
            return json.loads((tmp_path / name).read_text())[0]
        except FileNotFoundError:
            return []

    assert start(str(tmp_path), "local").wait(120) == 0
    whole = seen("local")
    for _ in range(2):
        before, gets, child = len(seen("s3")), [0], []

        def kill(kind, path, before=before, gets=gets, child=child):
            gets[0] += kind == "GET"
            if kind != "GET" or gets[0] != GETS:
                return None
            end = time.monotonic() + 60
            while len(seen("s3")) <= before and time.monotonic() < end:
                time.sleep(0.01)
            os.kill(child[0].pid, signal.SIGKILL)
            return "drop"

        weed.relay.hook = kill
        child.append(start("s3://bucket/epoch", "s3"))
        assert child[0].wait(120) == -signal.SIGKILL
        weed.relay.hook = None
        assert before < len(seen("s3")) < len(whole)
    assert start("s3://bucket/epoch", "s3").wait(120) == 0
    shas = [hashlib.sha256("".join(seen(name)).encode()).hexdigest() for name in ("s3", "local")]
    assert shas[0] == shas[1]


HUGE_ROWS = 5 * (1 << 30) // 8 + 1000


@pytest.mark.timeout(7200)
@pytest.mark.skipif(not os.environ.get("HEADRACE_HUGE"), reason="HEADRACE_HUGE=1 writes 5 GiB")
def test_a_file_of_five_gib(tmp_path, monkeypatch):
    """More than a PUT of S3 may hold: 700 parts and more."""
    store = Seaweed(tmp_path, volume_mb=2048, volumes=32)
    try:
        for name, value in store.env.items():
            monkeypatch.setenv(name, value)
        where = "s3://bucket/huge.npy"
        hd.range(HUGE_ROWS).write_numpy(where, column="id", single_file=True)
        status, headers, _ = store.signed("HEAD", "/bucket/huge.npy")
        assert status == 200 and int(headers["Content-Length"]) > 5 << 30
        parts = int(re.search(r"-(\d+)", headers["ETag"])[1])
        assert parts >= 640
        expected = 0
        for batch in hd.read_numpy(where).iter_batches(batch_size=1 << 22):
            values = batch["data"]
            assert np.array_equal(values, np.arange(expected, expected + len(values)))
            expected += len(values)
        assert expected == HUGE_ROWS
        assert store.uploads() == []
    finally:
        store.stop()
