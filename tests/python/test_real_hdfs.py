"""WebHDFS of a real NameNode and DataNode (real_servers.py): users, refusals, a cluster that starts again."""

import subprocess
import threading

import numpy as np
import pytest
from real_servers import Hadoop, ask, need_tools, wait_for

import headrace.data as hd
from headrace.exceptions import DataError, NotFoundError, StorageError

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


def test_a_cluster_that_starts_again(hadoop):
    """The NameNode is in safe mode until the DataNode has named its blocks: once that was "access denied"."""
    hadoop.put("here.txt", b"1\n")
    name, data = hadoop.servers
    for server in (data, name):
        server.kill()
        server.wait()
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    hadoop.servers[0] = subprocess.Popen(name.args, **quiet)
    assert wait_for(lambda: ask(hadoop.port, "GET", "/webhdfs/v1/here.txt?op=OPEN") == 403)
    with pytest.raises(StorageError, match=r"here\.txt: the NameNode is in safe mode.*\(1 retries\)"):
        lines(f"{hadoop.url}/here.txt", max_retries=1)
    found = []
    reader = threading.Thread(target=lambda: found.extend(lines(f"{hadoop.url}/here.txt", max_retries=40)))
    reader.start()
    hadoop.servers[1] = subprocess.Popen(data.args, **quiet)
    reader.join()
    assert found == ["1"]
