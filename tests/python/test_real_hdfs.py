"""WebHDFS of a real NameNode and DataNode: users, refusals, kills, a cluster that starts."""

import http.server
import os
import re
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import continued_run
import numpy as np
import pytest
from command import headrace
from real_servers import Hadoop, answer_of, ask, need_tools, wait_for

import headrace.data as hd
from headrace import _core, train
from headrace.exceptions import DataError, MismatchError, NotFoundError, StorageError

need_tools()


@pytest.fixture(scope="module")
def hadoop(tmp_path_factory):
    server = Hadoop(tmp_path_factory.mktemp("hadoop"))
    server.put("private/a.txt", b"secret\n")
    permit = "/webhdfs/v1/private?op=SETPERMISSION&permission=700&user.name=root"
    assert ask(server.port, "PUT", permit) == 200
    yield server
    server.stop()


def lines(url, **options):
    return [r["text"] for r in hd.read_text(url, storage_options=options or None).take_all()]


def test_permissions_are_those_of_the_user(hadoop):
    url = f"{hadoop.url}/private/a.txt"
    assert lines(url, hdfs_user="root") == ["secret"]
    words = r'access denied .*AccessControlException: Permission denied: user=ann, .*inode="/private":root:'
    with pytest.raises(StorageError, match=words):
        lines(url, hdfs_user="ann")
    with pytest.raises(StorageError, match=r'the server refused \(HTTP 400\), .*"an n" does not belong'):
        lines(url, hdfs_user="an n")


def test_what_is_not_there_is_named(hadoop):
    with pytest.raises(NotFoundError, match=r"none\.txt: no such object .*File does not exist: /none\.txt"):
        lines(f"{hadoop.url}/none.txt")


def test_ranges_of_many_blocks(hadoop):
    data = np.random.default_rng(1).bytes(7_300_001)
    hadoop.put("blocks.bin", data)
    assert hd.read_binary_files(f"{hadoop.url}/blocks.bin").take_all() == [{"bytes": data}]


@pytest.mark.parametrize("text", [b"1\n", b"1\n2\n3\n"])
def test_a_file_of_another_length_is_one_error(text, hadoop):
    hadoop.put("again.csv", b"n\n1\n2\n" * 30_000)
    ds = hd.read_csv(f"{hadoop.url}/again.csv")
    hadoop.put("again.csv", b"n\n" + text)
    with pytest.raises(DataError, match=r"again\.csv: the file was replaced while it was read"):
        ds.take_all()


# --------------------------------------------------------------------------------------------------- writing

WRITE = """
import headrace.data as hd
hd.range(40).write_csv(URL, max_rows_per_file=10, mode="overwrite")
"""


class Relay:
    """A NameNode before the NameNode: kills `child` at the number-th request of an operation, before the
    NameNode has it, or when it has answered.
    """

    def __init__(self, port):
        relay = self
        self.child = self.phase = None
        self.seen = 0

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                kill = relay.phase and f"op={relay.phase[0]}&" in self.path + "&"
                relay.seen += bool(kill)
                kill = kill and relay.seen == relay.phase[1]
                if kill and not relay.phase[2]:
                    return relay.end(self)
                status, headers, text = answer_of(port, self.command, self.path, body)
                if kill:
                    return relay.end(self)
                self.send_response(status)
                if "Location" in headers:
                    self.send_header("Location", headers["Location"])
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_PUT = do_POST = do_DELETE = do_GET

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"webhdfs://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def end(self, handler):
        os.kill(self.child.pid, signal.SIGKILL)
        handler.close_connection = True

    def kill(self, code, *phase):
        self.phase, self.seen = phase, 0
        code = code.replace("URL", repr(self.url + "/killed/out"))
        self.child = subprocess.Popen([sys.executable, "-c", code])
        assert self.child.wait(120) == -signal.SIGKILL
        self.phase = None


@pytest.fixture(scope="module")
def relay(hadoop):
    relay = Relay(hadoop.port)
    yield relay
    relay.server.shutdown()


def names(hadoop, folder):
    """All names in the folder, the hidden ones too."""
    where = f"/webhdfs/v1{folder}?op=LISTSTATUS&user.name=root"
    return sorted(re.findall(r'"pathSuffix":"([^"]*)"', answer_of(hadoop.port, "GET", where)[2].decode()))


def ids(url):
    try:
        return sorted(r["id"] for r in hd.read_csv(url).take_all())
    except NotFoundError:
        return []


PHASES = [
    (False, ("CREATE", 2, True), False),
    (False, ("RENAME", 2, False), False),
    (False, ("RENAME", 2, True), True),
    (True, ("RENAME", 1, False), False),
    (True, ("RENAME", 1, True), True),
    (True, ("RENAME", 3, True), True),
    (True, ("RENAME", 6, True), True),
    (True, ("DELETE", 1, True), True),
    (True, ("DELETE", 2, True), True),
]


@pytest.mark.parametrize("there, phase, decided", PHASES)
def test_kill_in_each_phase(there, phase, decided, hadoop, relay, monkeypatch):
    monkeypatch.setenv("HADOOP_USER_NAME", "root")
    url, before = f"{hadoop.url}/killed/out", list(range(7)) if there else []
    ask(hadoop.port, "DELETE", "/webhdfs/v1/killed?op=DELETE&recursive=true&user.name=root")
    if there:
        hd.range(7).write_csv(url)
    relay.kill(WRITE, *phase)
    assert ids(url) in (before, list(range(40)))
    hd.from_items([{"id": 1000}]).write_csv(url)
    assert ids(url) == [*(range(40) if decided else before), 1000]
    headrace("clean", "--all", url)
    assert ids(url) == [*(range(40) if decided else before), 1000]
    assert names(hadoop, "/killed") == ["out"]
    assert not any("_headrace" in name for name in names(hadoop, "/killed/out"))


def test_parts_are_joined(hadoop, monkeypatch):
    monkeypatch.setenv("HADOOP_USER_NAME", "root")
    monkeypatch.setattr(hd.DataContext.get_current(), "memory_limit_bytes", 64 << 20)
    values = np.random.default_rng(0).integers(0, 1 << 60, 3_000_000)
    where = f"{hadoop.url}/é b/{'ü' * 100}/large.npy"
    hd.from_numpy(values).write_numpy(where, column="data", single_file=True)
    data = hd.read_binary_files(where).take_all()[0]["bytes"]
    assert data[-values.nbytes :] == values.tobytes()


def test_of_writers_at_the_same_time_one_replaces_a_version(hadoop):
    given = ["hdfs_user=root"]
    url, won = f"{hadoop.url}/states/state", []
    version = _core.object_put(url, b"0", "", given)
    with pytest.raises(MismatchError):
        _core.object_put(url, b"0", "", given)
    ready = threading.Barrier(6)

    def write(i):
        ready.wait(20)
        try:
            won.append((str(i).encode(), _core.object_put(url, str(i).encode(), version, given)))
        except MismatchError:
            pass

    with ThreadPoolExecutor(6) as pool:
        for done in [pool.submit(write, i) for i in range(6)]:
            done.result()
    assert len(won) == 1 and _core.object_read(url, given) == won[0]
    assert names(hadoop, "/states") == ["state"]
    _core.objects_remove([url], given)
    assert "states" not in names(hadoop, "/")


def test_who_may_not_write_hears_it(hadoop):
    words = r"access denied .*AccessControlException: Permission denied: user=ann, access=WRITE"
    given = {"storage_options": {"hdfs_user": "ann"}}
    with pytest.raises(StorageError, match=words):
        hd.range(3).write_csv(f"{hadoop.url}/of-ann", **given)
    with pytest.raises(StorageError, match=words):
        hd.range(3).write_csv(f"{hadoop.url}/of-ann.csv", single_file=True, **given)


def test_a_folder_whose_parent_is_closed(hadoop):
    """Who may write into the folder alone may append: nothing beside it is touched."""
    ask(hadoop.port, "PUT", "/webhdfs/v1/home/ann?op=MKDIRS&user.name=root")
    ask(hadoop.port, "PUT", "/webhdfs/v1/home/ann?op=SETOWNER&owner=ann&user.name=root")
    given = {"storage_options": {"hdfs_user": "ann"}}
    url = f"{hadoop.url}/home/ann"
    for mode in ("create", "append", "overwrite"):
        hd.range(5).write_csv(url, mode=mode, max_rows_per_file=3, **given)
    assert hd.read_csv(url, **given).count() == 5
    assert not any("_headrace" in name for name in names(hadoop, "/home/ann"))
    headrace("clean", "--all", "--storage-option=hdfs_user=ann", url)


def test_a_trainer_keeps_its_run_there(hadoop):
    one = train.CheckpointConfig(num_to_keep=1)
    continued_run.check(f"{hadoop.url}/runs", storage_options={"hdfs_user": "root"}, checkpoint_config=one)
    assert [n for n in names(hadoop, "/runs/run") if "checkpoint_" in n] == ["checkpoint_000002"]


def test_a_cluster_that_starts_again(hadoop):
    """The NameNode is in safe mode until the DataNode has named its blocks: once that was "access denied"."""
    hadoop.put("here.txt", b"1\n")
    name, data = hadoop.servers
    for server in (data, name):
        server.kill()
        server.wait()
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    hadoop.servers[0] = subprocess.Popen(name.args, **quiet)
    opened = "/webhdfs/v1/here.txt?op=OPEN"
    assert wait_for(lambda: b"SafeModeException" in answer_of(hadoop.port, "GET", opened)[2])
    with pytest.raises(StorageError, match=r"here\.txt: the NameNode is in safe mode.*\(1 retry\)"):
        lines(f"{hadoop.url}/here.txt", max_retries=1)
    found = []
    reader = threading.Thread(target=lambda: found.extend(lines(f"{hadoop.url}/here.txt", max_retries=40)))
    reader.start()
    hadoop.servers[1] = subprocess.Popen(data.args, **quiet)
    reader.join()
    assert found == ["1"]
