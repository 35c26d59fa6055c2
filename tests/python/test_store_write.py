"""Writing to gs:// and az://: as to s3://, nothing of a job is visible before all of it."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import continued_run
import numpy as np
import pytest
from cloud_servers import AzServer, GsServer
from command import MISSING, headrace

import headrace.data as hd
from headrace import _core
from headrace.exceptions import HeadraceError, MismatchError, NotFoundError, StorageError

WRITE = """
import headrace.data as hd
hd.range(40).write_csv(URL, max_rows_per_file=10, mode=MODE, storage_options=OPTIONS)
"""


class Cloud:
    """A server, the URL of its bucket, and the options that lead there."""

    def __init__(self, name, root):
        (root / "bucket").mkdir(parents=True)
        if name == "az":
            self.server = AzServer(root)
            self.url = "abfss://bucket@acct.dfs.core.windows.net"
            self.options = {"account_key": self.server.key}
        else:
            self.server = GsServer(root)
            self.url = "gs://bucket"
            keys = {"google_hmac_key_id": self.server.key, "google_hmac_secret": self.server.secret}
            self.options = {"token": self.server.bearer} if name == "gs" else keys
        self.options["endpoint"] = self.server.url
        self.kind = name[:2]

    def write(self, ds, path="/out", **given):
        return ds.write_csv(self.url + path, storage_options=self.options, **given)

    def rows(self, path="/out"):
        try:
            ds = hd.read_csv(self.url + path, storage_options=self.options)
            return sorted(r["id"] for r in ds.take_all())
        except NotFoundError:
            return []

    def keys(self):
        root = self.server.root / "bucket"
        return sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file())

    def unfinished(self):
        return self.server.blocks if self.kind == "az" else self.server.uploads


@pytest.fixture(params=["gs", "gs-hmac", "az"])
def cloud(request, tmp_path):
    cloud = Cloud(request.param, tmp_path / "root")
    yield cloud
    cloud.server.close()


def test_files_come_back_as_from_a_local_folder(cloud, tmp_path):
    ds = hd.range(100)
    ds.write_parquet(str(tmp_path / "local"), max_rows_per_file=30)
    where = cloud.url + "/a b+%é/out"
    ds.write_parquet(where, max_rows_per_file=30, storage_options=cloud.options)
    found = hd.read_parquet(where, storage_options=cloud.options)
    assert found.to_arrow().equals(hd.read_parquet(str(tmp_path / "local")).to_arrow())
    assert not cloud.unfinished()
    assert not any("_headrace_commit" in k for k in cloud.keys())
    assert sum("_SUCCESS" in k for k in cloud.keys()) == 1


def test_large_and_empty_files(cloud):
    values = np.arange(2_000_000)
    path = cloud.url + "/large.npy"
    hd.from_numpy(values).write_numpy(path, column="data", single_file=True, storage_options=cloud.options)
    data = (cloud.server.root / "bucket" / "large.npy").read_bytes()
    assert np.array_equal(np.frombuffer(data[-8 * len(values) :], np.int64), values)
    assert sum(r[0] == "PART" for r in cloud.server.requests) == 2
    none = hd.from_items([{"text": "a"}]).filter(expr="text == 'b'")
    none.write_json(cloud.url + "/none.jsonl", single_file=True, storage_options=cloud.options)
    assert (cloud.server.root / "bucket" / "none.jsonl").read_bytes() == b""


def test_a_writer_at_its_limit_holds_no_thread(cloud, monkeypatch):
    """A thread of the pool waited for parts to leave: with one thread all other runs stood still."""
    context = hd.DataContext.get_current()
    monkeypatch.setattr(context, "memory_limit_bytes", 64 << 20)
    go, parts, path = threading.Event(), [], "/large.npy"

    def hold(kind, path, handler):
        if kind == "PART":
            parts.append(path)
            assert go.wait(60)

    def write():
        hd.range(8_000_000).write_numpy(
            cloud.url + path, column="id", single_file=True, storage_options=cloud.options
        )

    cloud.server.on_write = hold
    before, context.num_threads = context.num_threads, 1
    try:
        with ThreadPoolExecutor(2) as pool:
            written = pool.submit(write)
            try:
                while len(parts) < 2:
                    time.sleep(0.01)
                time.sleep(0.3)  # the writer has reached its limit
                assert pool.submit(hd.range(1000).sum, "id").result(30) == 499_500
                assert not written.done()
                assert len(parts) <= 5  # a quarter of the limit, in parts of 5 MiB, and a chunk
            finally:
                go.set()
            written.result(60)
    finally:
        context.num_threads = before
    values = np.load(cloud.server.root / "bucket" / path[1:])
    assert np.array_equal(values, np.arange(8_000_000))


def test_modes(cloud):
    cloud.write(hd.range(5))
    cloud.write(hd.range(5), mode="append")
    assert cloud.rows() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    with pytest.raises(StorageError, match=r"/out: already contains files"):
        cloud.write(hd.range(5), mode="create")
    cloud.write(hd.range(3), mode="overwrite")
    assert cloud.rows() == [0, 1, 2]
    assert len(cloud.keys()) == 2
    cloud.write(hd.range(3), "/one.csv", single_file=True)
    with pytest.raises(StorageError, match=r"one.csv: the file exists already"):
        cloud.write(hd.range(3), "/one.csv", single_file=True)
    cloud.write(hd.range(4), "/one.csv", single_file=True, mode="overwrite")
    assert cloud.rows("/one.csv") == [0, 1, 2, 3]


def test_a_failed_job_leaves_nothing(cloud):
    def fails(batch):
        if batch["id"][0] >= 20:
            raise ValueError("no")
        return batch

    with pytest.raises((HeadraceError, ValueError), match="no"):
        cloud.write(hd.range(40).map_batches(fails, batch_size=10), max_rows_per_file=10)
    assert cloud.keys() == []
    assert cloud.rows() == []
    assert cloud.kind == "az" or not cloud.unfinished()


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
    return GsServer.status(handler, 503, Retry_After="0")


KINDS = ("PART", "COMPLETE", "PUT", "DELETE")


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("kind,what", [(k, w) for k in KINDS for w in (slow_down, lambda h: "lose")])
def test_each_request_is_mended(kind, what, single, cloud):
    cloud.server.on_write = once(kind, what)
    given = {"single_file": True} if single else {"max_rows_per_file": 5}
    cloud.write(hd.range(20), **given)
    assert cloud.rows() == list(range(20))
    assert not any("_headrace_commit" in k for k in cloud.keys())


def test_a_file_that_another_program_makes_meanwhile_stays(tmp_path):
    cloud = Cloud("az", tmp_path / "root")

    def other(handler):
        path = cloud.server.root / "bucket" / "one.csv"
        path.write_text("id\n7\n")

    cloud.server.on_write = once("COMPLETE", other)
    with pytest.raises(StorageError, match=r"one.csv: it exists already \(HTTP 409\), BlobAlreadyExists"):
        cloud.write(hd.range(3), "/one.csv", single_file=True)
    assert cloud.rows("/one.csv") == [7]
    cloud.server.close()


# (kind, number, whether the request is done before the kill); whether the job is decided then.
PHASES = [
    (("PART", 2, True), False),
    (("PUT", 1, True), True),
    (("COMPLETE", 2, True), True),
    (("PUT", 2, True), True),
    (("DELETE", 1, False), True),
]


@pytest.mark.parametrize("phase,decided", PHASES)
def test_kill_in_each_phase(phase, decided, cloud):
    kind, number, done = phase
    cloud.write(hd.range(7))
    seen = [0]

    def kill(found, path, handler):
        seen[0] += found == kind
        if found != kind or seen[0] != number:
            return None
        os.kill(child.pid, signal.SIGKILL)
        return "lose" if done else True

    cloud.server.on_write = kill
    code = WRITE.replace("MODE", repr("overwrite")).replace("OPTIONS", repr(cloud.options))
    code = code.replace("URL", repr(cloud.url + "/out"))
    child = subprocess.Popen([sys.executable, "-c", code])
    assert child.wait(60) == -signal.SIGKILL
    cloud.server.on_write = None
    assert cloud.rows() in (list(range(7)), list(range(40)))
    cloud.write(hd.from_items([{"id": 1000}]))
    assert cloud.rows() == [*(range(40) if decided else range(7)), 1000]
    assert not any("_headrace_commit" in k for k in cloud.keys())


def test_jobs_at_the_same_time(cloud):
    ds = hd.range(50)
    with ThreadPoolExecutor(3) as pool:
        for done in [pool.submit(cloud.write, ds, max_rows_per_file=20) for _ in range(4)]:
            assert sum(r["rows"] for r in done.result()) == 50
    assert cloud.rows() == sorted(list(range(50)) * 4)
    assert not cloud.unfinished()


def test_blocks_that_are_gone_are_one_error(cloud):
    def refuse(kind, path, handler):
        return cloud.server.refuse(handler, 403, "AccessDenied") or True if kind == "COMPLETE" else None

    cloud.server.on_write = refuse
    with pytest.raises(StorageError, match="AccessDenied"):
        cloud.write(hd.range(5))
    cloud.server.on_write = None
    assert cloud.rows() == []
    cloud.unfinished().clear()
    with pytest.raises(StorageError, match="the file is lost: .*; remove _headrace_commit_"):
        cloud.write(hd.range(5))


def test_single_objects_and_their_versions(cloud):
    url, given = f"{cloud.url}/a b+%é", [f"{k}={v}" for k, v in cloud.options.items()]
    first = _core.object_put(url, b"1", "", given)
    assert _core.object_read(url, given) == (b"1", first)
    with pytest.raises(MismatchError, match="somebody else has written or removed it meanwhile"):
        _core.object_put(url, b"2", "", given)
    second = _core.object_put(url, b"2", first, given)
    with pytest.raises(MismatchError, match="somebody else has written or removed it meanwhile"):
        _core.object_put(url, b"3", first, given)
    cloud.server.on_write = once("PUT", lambda h: "lose")
    third = _core.object_put(url, b"3", second, given)
    assert _core.object_put(url, b"4", None, given) != third
    assert _core.objects_list(cloud.url, given) == [(url, 1)]
    _core.objects_remove([url], given)
    with pytest.raises(MismatchError, match="somebody else has written or removed it meanwhile"):
        _core.object_put(url, b"5", third, given)


def test_a_trainer_keeps_its_run_there(cloud):
    continued_run.check(cloud.url + "/runs", storage_options=cloud.options)


@pytest.mark.skipif(MISSING, reason="the command is not built")
def test_the_command_completes_what_was_decided(cloud, monkeypatch):
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", connection(cloud.server))
    if cloud.kind == "gs":
        cloud.server.public = frozenset(["bucket"])
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", cloud.server.url)

    def refuse(kind, path, handler):
        return cloud.server.refuse(handler, 403, "AccessDenied") or True if kind == "COMPLETE" else None

    cloud.server.on_write = refuse
    with pytest.raises(StorageError, match="AccessDenied"):
        cloud.write(hd.range(5))
    cloud.server.on_write = None
    assert headrace("clean", cloud.url + "/out")[0].startswith(f"completed\t{cloud.url}/out\t")
    assert cloud.rows() == [0, 1, 2, 3, 4]
    assert headrace("clean", "--all", cloud.url)[0] == ""


def connection(server):
    if not isinstance(server, AzServer):
        return ""
    return f"AccountName={server.account};AccountKey={server.key};BlobEndpoint={server.url}/{server.account}"
