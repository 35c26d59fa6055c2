"""Writing to hdfs:// and webhdfs://: as to a local folder, nothing of a job is visible before all of it."""

import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from command import MISSING, headrace
from hdfs_server import NameNode
from test_write_restart import KILLED

import headrace.data as hd
from headrace import _core, train
from headrace.data import restarting
from headrace.data.checkpoint import CheckpointConfig
from headrace.exceptions import (
    DataError,
    HeadraceError,
    MismatchError,
    NotFoundError,
    StorageError,
    UnsupportedError,
)
from headrace.train.torch import TorchTrainer

N = 40
PARTS = "_headrace_parts_"


class Hdfs:
    """A server, its URL, and what is there."""

    def __init__(self, root):
        self.root, self.server = root, NameNode(root)
        self.url = f"webhdfs://{self.server.host}"

    def write(self, ds, path="/out", **given):
        return ds.write_csv(self.url + path, **given)

    def rows(self, path="/out", **given):
        try:
            return sorted(r["id"] for r in hd.read_csv(self.url + path, **given).take_all())
        except NotFoundError:
            return []

    def keys(self):
        return sorted(str(p.relative_to(self.root)) for p in self.root.rglob("*") if p.is_file())

    def left(self):
        """Files and folders that only Headrace knows."""
        found = [str(p.relative_to(self.root)) for p in self.root.rglob("_headrace_*")]
        return sorted(name for name in found if name.count("_headrace_") == 1)

    def kinds(self):
        return [kind for kind, _ in self.server.written]


@pytest.fixture
def hdfs(tmp_path, monkeypatch):
    for name in ("HADOOP_USER_NAME", "WEBHDFS_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "root").mkdir()
    hdfs = Hdfs(tmp_path / "root")
    yield hdfs
    hdfs.server.close()


def once(kind, what, skip=0):
    """A hook that does `what` to a request of the kind, after some that pass."""
    left = list(range(skip + 1))

    def hook(found, path, handler):
        if found != kind or not left:
            return None
        left.pop()
        return None if left else what(handler)

    return hook


def slow_down(handler):
    return NameNode.status(handler, 503, Retry_After="0")


def lose(handler):
    return "lose"


# ----------------------------------------------------------------------------------------------------- files


def test_files_come_back_as_from_a_local_folder(hdfs, tmp_path):
    ds = hd.range(100)
    ds.write_parquet(str(tmp_path / "local"), max_rows_per_file=30)
    where = hdfs.url + "/a b+%é/o'u(t)"
    ds.write_parquet(where, max_rows_per_file=30)
    assert hd.read_parquet(where).to_arrow().equals(hd.read_parquet(str(tmp_path / "local")).to_arrow())
    assert not hdfs.left()
    assert sum("_SUCCESS" in k for k in hdfs.keys()) == 1


def test_a_file_of_many_parts_and_an_empty_one(hdfs, monkeypatch):
    monkeypatch.setattr(hd.DataContext.get_current(), "memory_limit_bytes", 128 << 20)
    values = np.arange(2_000_000)
    hd.from_numpy(values).write_numpy(hdfs.url + "/large.npy", column="data", single_file=True)
    assert np.array_equal(np.load(hdfs.root / "large.npy"), values)
    assert hdfs.kinds() == ["CREATE"] * 4 + ["CONCAT", "RENAME", "DELETE"]
    none = hd.from_items([{"text": "a"}]).filter(expr="text == 'b'")
    none.write_json(hdfs.url + "/none.jsonl", single_file=True)
    assert (hdfs.root / "none.jsonl").read_bytes() == b""
    assert not hdfs.left()


def test_names_of_a_concat_are_cut_into_several(hdfs, monkeypatch):
    """A query of 8 KiB is too long for servers."""
    monkeypatch.setattr(hd.DataContext.get_current(), "memory_limit_bytes", 64 << 20)
    values = np.random.default_rng(1).integers(0, 1 << 60, 5_000_000)
    where = "/" + "é" * 120 + "/" + "ü" * 120 + "/large.npy"
    hd.from_numpy(values).write_numpy(hdfs.url + where, column="data", single_file=True)
    assert np.array_equal(np.load(hdfs.root / where[1:]), values)
    assert hdfs.kinds().count("CONCAT") >= 2
    longest = max(len(path) for _, path, *_ in hdfs.server.requests)
    assert longest < 8000


def test_a_comma_in_the_path_of_many_parts(hdfs, monkeypatch):
    monkeypatch.setattr(hd.DataContext.get_current(), "memory_limit_bytes", 128 << 20)
    ds = hd.from_numpy(np.arange(2_000_000))
    with pytest.raises(
        UnsupportedError, match=r"the path has a comma.*write files of less than 5242880 bytes"
    ):
        ds.write_numpy(hdfs.url + "/a,b/large.npy", column="data", single_file=True)
    hd.range(3).write_csv(hdfs.url + "/a,b/one.csv", single_file=True)
    assert hdfs.keys() == ["a,b/one.csv"]


def test_modes(hdfs):
    hdfs.write(hd.range(5))
    hdfs.write(hd.range(5), mode="append")
    assert hdfs.rows() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    with pytest.raises(StorageError, match=r"/out: already contains files"):
        hdfs.write(hd.range(5), mode="create")
    hdfs.write(hd.range(7), mode="ignore")
    assert len(hdfs.rows()) == 10
    hdfs.write(hd.range(3), mode="overwrite")
    assert hdfs.rows() == [0, 1, 2]
    assert len(hdfs.keys()) == 2
    hdfs.write(hd.range(3), "/new", mode="ignore")
    hdfs.write(hd.range(3), "/over", mode="overwrite")
    assert hdfs.rows("/new") == hdfs.rows("/over") == [0, 1, 2]
    hdfs.write(hd.range(3), "/one.csv", single_file=True)
    with pytest.raises(StorageError, match=r"one.csv: the file exists already"):
        hdfs.write(hd.range(3), "/one.csv", single_file=True)
    hdfs.write(hd.range(4), "/one.csv", single_file=True, mode="overwrite")
    assert hdfs.rows("/one.csv") == [0, 1, 2, 3]
    with pytest.raises(StorageError, match=r"one.csv: expected a folder, found a file"):
        hdfs.write(hd.range(4), "/one.csv", mode="append")
    assert not hdfs.left()


def test_folders_of_partitions(hdfs):
    def write(values, **given):
        rows = [{"k": k, "id": i} for i, k in enumerate(values)]
        hd.from_items(rows).write_parquet(hdfs.url + "/p", partition_cols=["k"], **given)

    write(["a/b", "c"])
    write(["c", "d"], mode="append")
    ds = hd.read_parquet(hdfs.url + "/p")
    assert sorted((r["k"], r["id"]) for r in ds.take_all()) == [("a/b", 0), ("c", 0), ("c", 1), ("d", 1)]
    write(["e"], mode="overwrite")
    assert sorted(p.name for p in (hdfs.root / "p").iterdir()) == ["_SUCCESS", "k=e"]


def test_a_new_folder_is_one_rename(hdfs):
    """Nothing of it is there before, and _SUCCESS comes with the files."""
    seen = []

    def look(kind, path, handler):
        seen.append((hdfs.root / "out").exists())

    hdfs.server.on_write = look
    hdfs.write(hd.range(N), max_rows_per_file=10)
    assert not any(seen)
    assert hdfs.kinds()[-1] == "RENAME" and hdfs.server.written[-1][1].startswith(PARTS)
    assert len(list((hdfs.root / "out").iterdir())) == 5


def test_a_folder_that_comes_meanwhile_gets_the_files_too(hdfs):
    def other(handler):
        hdfs.server.on_write = None
        threading.Thread(target=hdfs.write, args=(hd.from_items([{"id": 1000}]),)).start()
        while not (hdfs.root / "out" / "_SUCCESS").exists():
            time.sleep(0.01)

    hdfs.server.on_write = once("CREATE", other)
    hdfs.write(hd.range(3), mode="append")
    assert hdfs.rows() == [0, 1, 2, 1000]
    assert not hdfs.left()


def test_a_failed_job_leaves_nothing(hdfs):
    def fails(batch):
        if batch["id"][0] >= 20:
            raise ValueError("no")
        return batch

    hdfs.write(hd.range(3), "/there")
    before = hdfs.keys()
    for path in ("/out", "/there"):
        with pytest.raises((HeadraceError, ValueError), match="no"):
            hdfs.write(hd.range(N).map_batches(fails, batch_size=10), path, max_rows_per_file=10)
    assert hdfs.keys() == before and not hdfs.left()
    assert hdfs.rows() == []


# -------------------------------------------------------------------------------------------------- failures


@pytest.mark.parametrize("path", ["/new", "/there", "/one.csv"])
@pytest.mark.parametrize("what", [slow_down, lose])
@pytest.mark.parametrize("kind", ["CREATE", "RENAME", "MKDIRS", "DELETE"])
def test_each_request_is_mended(kind, what, path, hdfs):
    hdfs.write(hd.range(3), "/there")
    hdfs.server.on_write = once(kind, what)
    given = {"single_file": True} if path == "/one.csv" else {"max_rows_per_file": 5}
    hdfs.write(hd.range(20), path, **given)
    assert hdfs.rows(path) == sorted([*range(20), *(range(3) if path == "/there" else [])])
    assert not hdfs.left()


@pytest.mark.parametrize("skip", [0, 1, 2])
@pytest.mark.parametrize("kind", ["CREATE", "CONCAT", "RENAME"])
@pytest.mark.parametrize("what", [slow_down, lose])
def test_no_byte_is_there_twice(kind, what, skip, hdfs, monkeypatch):
    monkeypatch.setattr(hd.DataContext.get_current(), "memory_limit_bytes", 64 << 20)
    values = np.random.default_rng(1).integers(0, 1 << 60, 2_500_000)
    hdfs.server.on_write = once(kind, what, skip)
    hd.from_numpy(values).write_numpy(
        f"{hdfs.url}/{'é' * 120}/{'é' * 120}/a.npy", column="data", single_file=True
    )
    assert np.array_equal(np.load(next(hdfs.root.rglob("a.npy"))), values)


def test_a_file_of_another_length_is_an_error(hdfs):
    """The DataNode keeps fewer bytes than it has got, or more."""
    for change in (lambda data: data[:-1], lambda data: data * 2):

        def spoil(handler, change=change):
            handler.body = change(handler.body)

        hdfs.server.on_write = once("CREATE", spoil)
        with pytest.raises(StorageError, match=r"\.csv: the file has \d+ bytes in HDFS, expected \d+$"):
            hdfs.write(hd.range(9))
        assert hdfs.rows() == [] and not hdfs.left()


def test_a_connection_that_breaks_in_the_middle(hdfs):
    """The DataNode has read a part of the body: the next attempt asks the NameNode again."""

    def fault(number, handler):
        if number == 0:
            handler.rfile.read(10)
            handler.close_connection = True
            handler.connection.close()
            return True
        return None

    hdfs.server.data.fault = fault
    hdfs.write(hd.range(50_000), "/one.csv", single_file=True)
    assert hdfs.rows("/one.csv") == list(range(50_000))
    assert sum("op=CREATE" in path for _, path, *_ in hdfs.server.requests) == 2


@pytest.mark.parametrize(
    "refusal, words",
    [
        (
            (403, "AccessControlException", "Permission denied: user=ann"),
            r"access denied \(HTTP 403\), Access.*user=ann$",
        ),
        (
            (403, "NSQuotaExceededException", "The quota is 5"),
            r"the server refused .*NSQuotaExceeded.*quota is 5$",
        ),
        (
            (404, "FileNotFoundException", "Parent path is not there"),
            r"no such object \(HTTP 404\), .*not there$",
        ),
        ((403, "StandbyException", "read on standby"), r"this NameNode is a standby; name the active one"),
        ((401, "AuthenticationException", "no"), r"Kerberos"),
    ],
)
def test_refusals_are_errors_at_once(refusal, words, hdfs):
    hdfs.server.on_write = lambda kind, path, handler: hdfs.server.refuse(handler, *refusal)
    with pytest.raises(HeadraceError, match=words):
        hdfs.write(hd.range(3), "/one.csv", single_file=True)
    assert len(hdfs.server.data.requests) == 1


def test_a_refused_rename_is_sent_once(hdfs):
    """A refusal of what makes a file visible was sent again, max_retries times, without a pause."""
    refused = []

    def hook(kind, path, handler):
        if kind == "RENAME":
            refused.append(path)
            return hdfs.server.refuse(handler, 403, "AccessControlException", "Permission denied")

    hdfs.server.on_write = hook
    with pytest.raises(StorageError, match="Permission denied"):
        hdfs.write(hd.range(N), "/out/one.csv", single_file=True, storage_options={"max_retries": 3})
    assert len(refused) == 1


def test_a_cluster_that_starts_is_asked_again(hdfs):
    words = (403, "IOException", "File /x could only be written to 0 of the 1 minReplication nodes.")
    hdfs.server.on_write = once("CREATE", lambda handler: hdfs.server.refuse(handler, *words))
    hdfs.write(hd.range(3))
    assert hdfs.rows() == [0, 1, 2]


def test_an_encryption_zone_says_what_to_do(hdfs, monkeypatch):
    monkeypatch.setattr(hd.DataContext.get_current(), "memory_limit_bytes", 64 << 20)
    words = (400, "IllegalArgumentException", "concat can not be called for files in an encryption zone.")
    hdfs.server.on_write = once("CONCAT", lambda handler: hdfs.server.refuse(handler, *words))
    with pytest.raises(UnsupportedError, match=r"encryption zone; write smaller files \(max_file_bytes\)"):
        hd.from_numpy(np.arange(2_000_000)).write_numpy(hdfs.url + "/a.npy", column="data", single_file=True)
    assert hdfs.keys() == []


def test_a_server_that_takes_the_body_itself_is_refused(hdfs):
    """It would be none of WebHDFS: the NameNode gets no bytes."""

    def fault(number, handler):
        if "op=CREATE" in handler.path:
            assert handler.headers.get("Content-Length") == "0"
            return hdfs.server.status(handler, 201)
        return None

    hdfs.server.fault = fault
    with pytest.raises(
        DataError, match=r"one.csv: the server takes no bytes: it answers CREATE without a redirect"
    ):
        hdfs.write(hd.range(3), "/one.csv", single_file=True)


def test_a_rename_that_is_answered_by_false(hdfs):
    """HttpFS knows no options of a rename."""

    def no(kind, path, handler):
        return kind == "RENAME" and hdfs.server.send(handler, {"boolean": False})

    hdfs.server.on_write = no
    with pytest.raises(
        StorageError, match=r"one.csv: the server does not rename it: the new name exists already"
    ):
        hdfs.write(hd.range(3), "/one.csv", single_file=True)


def test_users_tokens_and_their_secrets(hdfs):
    hdfs.server.user = "an na&x=1"
    hdfs.write(hd.range(3), storage_options={"hdfs_user": hdfs.server.user})
    with pytest.raises(StorageError, match="access denied"):
        hdfs.write(hd.range(3), "/other")
    hdfs.server.user, hdfs.server.token = None, "SECRETTOKEN"
    given = {"storage_options": {"hdfs_delegation_token": hdfs.server.token}}
    hdfs.write(hd.range(3), mode="overwrite", **given)
    hdfs.write(hd.range(4), mode="append", **given)
    assert hdfs.rows(**given) == [0, 0, 1, 1, 2, 2, 3]
    assert not any(hdfs.server.token in path for path in hdfs.keys())
    for kind in ("CREATE", "RENAME", "MKDIRS"):
        hdfs.server.on_write = lambda found, path, handler, kind=kind: (
            found == kind and hdfs.server.refuse(handler, 403, "AccessControlException")
        )
        ds = hd.from_items([{"k": 1, "id": 1}])
        with pytest.raises(HeadraceError) as e:
            ds.write_parquet(hdfs.url + "/out", partition_cols=["k"], **given)
        assert hdfs.server.token not in str(e.value) and "/out" in str(e.value)
        hdfs.server.on_write = None
        shown = headrace("clean", "--all", *option(given["storage_options"]), hdfs.url + "/out")
        assert hdfs.server.token not in "".join(map(str, shown))


def option(options):
    return [f"--storage-option={name}={value}" for name, value in options.items()]


def test_a_redirect_to_plain_http_gets_no_bytes(hdfs):
    def fault(number, handler):
        if "op=CREATE" in handler.path:
            return hdfs.server.status(handler, 307, Location="ftp://127.0.0.1/x")
        return None

    hdfs.server.fault = fault
    with pytest.raises(StorageError, match="the server redirects to what is neither http nor https"):
        hdfs.write(hd.range(3), "/one.csv", single_file=True)
    assert not hdfs.server.data.requests


# ----------------------------------------------------------------------------------------------------- kills

WRITE = """
import headrace.data as hd
hd.range(40).map(lambda r: {"id": r["id"]}).write_csv(URL, max_rows_per_file=10, mode=MODE)
"""
# Whether the folder is there; the operation, its number, and whether it is done before the kill; whether the
# job is decided then.
PHASES = [
    (False, ("CREATE", 2, True), False),
    (False, ("RENAME", 1, True), False),  # of _SUCCESS
    (False, ("RENAME", 2, False), False),
    (False, ("RENAME", 2, True), True),
    (True, ("CREATE", 2, True), False),
    (True, ("CREATE", 5, True), False),  # of the record, under its hidden name
    (True, ("RENAME", 1, False), False),
    (True, ("RENAME", 1, True), True),
    (True, ("RENAME", 3, True), True),
    (True, ("CREATE", 6, True), True),  # of _SUCCESS
    (True, ("RENAME", 6, True), True),
    (True, ("DELETE", 1, False), True),
    (True, ("DELETE", 2, True), True),
    (True, ("DELETE", 3, True), True),
]


def killed(hdfs, phase, mode="overwrite", path="/out", code=WRITE):
    """Runs a writer that is killed at an operation."""
    kind, number, done = phase
    seen = [0]

    def kill(found, key, handler):
        seen[0] += found == kind
        if found != kind or seen[0] != number:
            return None
        os.kill(child.pid, signal.SIGKILL)
        return "lose" if done else True

    hdfs.server.on_write = kill
    code = code.replace("MODE", repr(mode)).replace("URL", repr(hdfs.url + path))
    child = subprocess.Popen([sys.executable, "-c", code])
    assert child.wait(60) == -signal.SIGKILL
    hdfs.server.on_write = None


@pytest.mark.parametrize("there, phase, decided", PHASES)
def test_kill_in_each_phase(there, phase, decided, hdfs):
    before = list(range(7)) if there else []
    if there:
        hdfs.write(hd.range(7))
    killed(hdfs, phase)
    assert hdfs.rows() in (before, list(range(N)))
    if not there:
        assert (hdfs.root / "out").exists() == decided
    hdfs.write(hd.from_items([{"id": 1000}]))
    assert hdfs.rows() == [*(range(N) if decided else before), 1000]
    assert not any("_headrace_commit" in k for k in hdfs.keys())
    headrace("clean", "--all", hdfs.url + "/out")
    assert not hdfs.left()
    assert hdfs.rows() == [*(range(N) if decided else before), 1000]


def test_a_single_file_of_a_killed_writer(hdfs):
    for phase in (("CREATE", 1, True), ("RENAME", 1, False)):
        killed(
            hdfs,
            phase,
            path="/one.csv",
            code="import headrace.data as hd\nhd.range(9).write_csv(URL, single_file=True)",
        )
        assert hdfs.rows("/one.csv") == []
    assert len(hdfs.left()) == 2
    hdfs.write(hd.range(9), "/one.csv", single_file=True)
    out, _ = headrace("clean", "--all", hdfs.url + "/one.csv")
    assert out.count("aborted\t") == 2 and not hdfs.left()
    assert hdfs.rows("/one.csv") == list(range(9))


def test_readers_leave_out_what_is_not_complete(hdfs):
    """Below the folder, above it, by a pattern, and in a folder of a partition."""
    code = """
import headrace.data as hd
ds = hd.range(40).map(lambda r: {"id": r["id"], "k": r["id"] % 2})
ds.write_parquet(URL, partition_cols=["k"], mode=MODE)
"""

    def ids(path):
        try:
            return sorted(r["id"] for r in hd.read_parquet(hdfs.url + path).take_all())
        except NotFoundError:
            return []

    hd.from_items([{"id": 1000, "k": 0}]).write_parquet(hdfs.url + "/out", partition_cols=["k"])
    killed(hdfs, ("RENAME", 3, True), "append", code=code)  # both files have their names
    assert len(list(hdfs.root.rglob("*.parquet"))) == 3
    for path in (
        "/out",
        "",
        "/out/k=*/*.parquet",
        "/out/k=0",
        "/out/k=0/*.parquet",
        "/*/*/*.parquet",
        "/out/k=0/",
    ):
        assert ids(path) == [1000], path
    assert ids("/out/k=1") == []
    headrace("clean", hdfs.url + "/out")
    assert ids("/out") == [*range(40), 1000]
    assert ids("/out/k=1") == list(range(1, 40, 2))


def test_a_concurrent_job_is_not_touched(hdfs):
    """Another job begins, is completed and cleaned up after, while the first one is at work."""
    hdfs.write(hd.range(2))

    def others(handler):
        hdfs.server.on_write = None
        hdfs.write(hd.from_items([{"id": 100}]))
        killed(hdfs, ("RENAME", 2, True), "append")
        assert "unfinished" in headrace("clean", hdfs.url + "/out")[0]
        assert hdfs.rows() == sorted([0, 1, 100, *range(N)])

    hdfs.server.on_write = once("CREATE", others, 2)
    hdfs.write(hd.range(60).map(lambda r: {"id": 200 + r["id"]}), max_rows_per_file=10)
    assert hdfs.rows() == sorted([0, 1, 100, *range(N), *range(200, 260)])
    assert not hdfs.left()


@pytest.mark.skipif(MISSING, reason="the command is not built")
def test_the_command_cleans(hdfs):
    hdfs.write(hd.range(3), "/a/out")
    killed(hdfs, ("CREATE", 3, True), "append", "/a/out")
    killed(hdfs, ("CREATE", 3, True), "append", "/a/new")
    killed(hdfs, ("RENAME", 2, True), "append", "/a/out")
    out = headrace("clean", hdfs.url + "/a/out")[0].splitlines()
    assert [line.split("\t")[0] for line in out] == ["completed", "unfinished"]
    assert hdfs.rows("/a/out") == sorted([*range(3), *range(N)])
    new = next(name for name in hdfs.left() if name.startswith("a/_"))
    name = re.fullmatch(rf"a/{PARTS}(\w+)_[0-9a-f]{{16}}", new)[1]
    assert headrace("clean", "--job", "other", hdfs.url + "/a/new")[0] == f"unfinished\t{hdfs.url}/{new}\n"
    assert headrace("clean", "--job", name, hdfs.url + "/a/new")[0] == f"aborted\t{hdfs.url}/{new}\n"
    assert headrace("clean", "--all", hdfs.url + "/a")[0].startswith(f"aborted\t{hdfs.url}/a/out/{PARTS}")
    assert not hdfs.left() and headrace("clean", "--all", hdfs.url)[0] == ""


# ---------------------------------------------------------------------------------------------- several jobs


def test_jobs_at_the_same_time(hdfs):
    ds = hd.range(50)
    with ThreadPoolExecutor(3) as pool:
        for done in [pool.submit(hdfs.write, ds, max_rows_per_file=20) for _ in range(4)]:
            assert sum(r["rows"] for r in done.result()) == 50
    assert hdfs.rows() == sorted(list(range(50)) * 4)
    assert not hdfs.left()


@pytest.mark.parametrize("mode", ["create", "ignore"])
@pytest.mark.parametrize("there", [False, True])
def test_of_four_jobs_one_fills_the_folder(mode, there, hdfs):
    """Each has looked into the folder, which is missing or empty, before any has written."""
    ready, failed = threading.Barrier(4), []
    if there:
        (hdfs.root / "out").mkdir()

    def write(first):
        def wait(batch):
            ready.wait(20)
            return {"id": batch["id"] + first}

        try:
            hdfs.write(hd.range(N).map_batches(wait, batch_size=None, compute="threads"), mode=mode)
        except HeadraceError as error:
            failed.append(str(error))

    threads = [threading.Thread(target=write, args=(first,)) for first in range(0, 400, 100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(failed) < 4, failed
    ids = hdfs.rows()
    assert ids == list(range(ids[0], ids[0] + N))
    assert len(failed) == 3 if mode == "create" else len(failed) <= 3
    assert all(f"{hdfs.url}/out: " in error for error in failed), failed
    assert not hdfs.left()


def test_the_claim_of_a_killed_job_hinders_nobody(hdfs):
    (hdfs.root / "out").mkdir()
    killed(hdfs, ("RENAME", 1, True), "create")  # of the claim
    assert hdfs.rows() == [] and "out/_headrace_commit_" in hdfs.keys()
    hdfs.write(hd.range(3), mode="create")
    assert hdfs.rows() == [0, 1, 2]
    assert "out/_headrace_commit_" not in hdfs.keys()


# --------------------------------------------------------------------------------------------- small objects


@pytest.mark.parametrize("attributes", [True, False])
def test_single_objects_and_their_versions(attributes, hdfs):
    hdfs.server.has_attributes = attributes
    url = f"{hdfs.url}/a b+%é"
    first = _core.object_put(url, b"1", "", [])
    assert _core.object_read(url, []) == (b"1", first)
    with pytest.raises(MismatchError, match="somebody else has written or removed it meanwhile"):
        _core.object_put(url, b"2", "", [])
    second = _core.object_put(url, b"2", first, [])
    with pytest.raises(MismatchError, match="somebody else has written or removed it meanwhile"):
        _core.object_put(url, b"3", first, [])
    hdfs.server.on_write = once("RENAME", lose)
    third = _core.object_put(url, b"3", second, [])
    hdfs.server.on_write = once("CREATE", lose)
    assert _core.object_put(url, b"4", None, []) != third
    assert _core.objects_list(hdfs.url, []) == [(url, 1)]
    assert not hdfs.left()
    _core.objects_remove([url], [])
    with pytest.raises(MismatchError, match="somebody else has written or removed it meanwhile"):
        _core.object_put(url, b"5", third, [])
    assert not hdfs.left()


def test_of_writers_at_the_same_time_one_replaces_a_version(hdfs):
    """Others help the one that has decided, so its own steps find them done. Once two of three rounds had no
    winner, or a winner whose bytes were not there.
    """
    hdfs.server.fault = lambda number, handler: time.sleep(random.random() * 0.004)
    for k in range(20):
        url, won, ready = f"{hdfs.url}/state{k}", [], threading.Barrier(6)
        version = _core.object_put(url, b"0", "", [])

        def write(i, url=url, won=won, ready=ready, version=version):
            ready.wait(20)
            try:
                won.append((str(i).encode(), _core.object_put(url, str(i).encode(), version, [])))
            except MismatchError:
                pass

        with ThreadPoolExecutor(6) as pool:
            for done in [pool.submit(write, i) for i in range(6)]:
                done.result()
        assert len(won) == 1 and _core.object_read(url, []) == won[0]
    assert not hdfs.left()


def test_an_object_that_is_removed_meanwhile_is_not_made_again(hdfs):
    url = f"{hdfs.url}/state"
    version = _core.object_put(url, b"0", "", [])

    def remove(kind, path, handler):
        if kind == "SETXATTR":
            (hdfs.root / "state").unlink()

    hdfs.server.on_write = remove
    with pytest.raises(MismatchError):
        _core.object_put(url, b"1", version, [])
    assert hdfs.keys() == []


@pytest.mark.parametrize("lost", [False, True])
def test_a_writer_that_was_killed_after_its_decision(lost, hdfs):
    """The next one gives the file its name; where it is lost, the one after that writes its own."""
    url = f"{hdfs.url}/state"
    version = _core.object_put(url, b"0", "", [])
    code = f"from headrace import _core\n_core.object_put(URL, b'1', {version!r}, [])"
    killed(hdfs, ("SETXATTR", 1, True), path="/state", code=code)
    assert _core.object_read(url, []) == (b"0", version)
    if lost:
        headrace("clean", "--all", hdfs.url)
    with pytest.raises(MismatchError):
        _core.object_put(url, b"2", version, [])
    data, now = _core.object_read(url, [])
    assert data == (b"0" if lost else b"1")
    _core.object_put(url, b"3", now, [])
    assert _core.object_read(url, [])[0] == b"3"
    assert not hdfs.left()


def test_a_lost_answer_about_the_decision(hdfs):
    url = f"{hdfs.url}/state"
    version = _core.object_put(url, b"0", "", [])
    hdfs.server.on_write = once("SETXATTR", lose)
    _core.object_put(url, b"1", version, [])
    assert _core.object_read(url, [])[0] == b"1"


# The operation that kills a job, what its key has, its number among these, and whether it is done.
DEATHS = [
    ("CREATE", "/done/", 3, True),
    ("CREATE", "/out/", 3, True),
    ("RENAME", "/out/", 4, True),
    ("RENAME", "/done/", 3, False),
    ("DELETE", "/done/", 2, False),
]


@pytest.mark.parametrize(("kind", "what", "number", "done"), DEATHS)
def test_a_job_that_goes_on_is_killed(kind, what, number, done, hdfs, monkeypatch):
    """Parts of rows and the list of what is done are files of HDFS; each row is written once."""
    monkeypatch.setattr(restarting, "PART_BYTES", 4000)
    seen = [0]

    def kill(found, key, handler):
        seen[0] += found == kind and what in f"/{key}"
        if found != kind or what not in f"/{key}" or seen[0] != number:
            return None
        child.kill()
        return "lose" if done else True

    hdfs.server.on_write = kill
    words = [hdfs.url + "/out", hdfs.url + "/done"]
    child = subprocess.Popen([sys.executable, "-c", KILLED.replace("0.05", "0"), *words])
    assert child.wait(60) == -signal.SIGKILL
    hdfs.server.on_write = None
    context = hd.DataContext.get_current()
    context.checkpoint_config = CheckpointConfig("id", words[1])
    try:
        made = hd.range(4000, override_num_blocks=8).write_parquet(words[0])
    finally:
        context.checkpoint_config = None
    assert sum(f["rows"] for f in made) <= 4000
    ids = sorted(r["id"] for r in hd.read_parquet(words[0]).take_all())
    assert ids == list(range(4000))
    headrace("clean", "--all", hdfs.url)
    assert not hdfs.left()
    assert not any("done/" in key for key in hdfs.keys())


# -------------------------------------------------------------------------------------------------- training


def loop(config):
    start = train.get_checkpoint()
    first = int(start.get_metadata()["i"]) + 1 if start else 0
    for i in range(first, 4):
        with tempfile.TemporaryDirectory() as folder:
            made = train.Checkpoint.from_directory(folder)
            with open(os.path.join(folder, "weights"), "wb") as file:
                file.write(bytes([i]) * 100_000)
            made.set_metadata({"i": i})
            train.report({"i": i}, made)
        if i == 1 and not start:
            raise KeyError("stop")


def test_a_trainer_keeps_its_run_there(hdfs):
    def trainer():
        keep = train.CheckpointConfig(num_to_keep=1)
        run = train.RunConfig(name="run", storage_path=hdfs.url + "/runs", checkpoint_config=keep)
        return TorchTrainer(loop, scaling_config=train.ScalingConfig(num_workers=0), run_config=run)

    with pytest.raises(Exception, match="stop"):
        trainer().fit()
    result = trainer().fit()
    assert result.metrics == {"i": 3}
    assert result.checkpoint.path == f"{hdfs.url}/runs/run/checkpoint_000003"
    assert result.checkpoint.get_metadata() == {"i": 3}
    with result.checkpoint.as_directory() as folder, open(os.path.join(folder, "weights"), "rb") as file:
        assert file.read() == bytes([3]) * 100_000
    folders = [p.name for p in (hdfs.root / "runs" / "run").iterdir() if p.name.startswith("checkpoint_")]
    assert folders == ["checkpoint_000003"]  # empty folders go with their files
    assert not hdfs.left()


@pytest.mark.skipif(MISSING, reason="the command is not built")
def test_the_command_converts(hdfs):
    hdfs.write(hd.range(5), "/one.csv", single_file=True)
    headrace("convert", hdfs.url + "/one.csv", hdfs.url + "/two.parquet")
    assert hd.read_parquet(hdfs.url + "/two.parquet").take_all() == [{"id": i} for i in range(5)]
