"""hdfs:// and webhdfs://: files, folders, patterns, errors, retries; a NameNode redirects to a DataNode."""

import os
import shutil
import ssl
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command import MISSING, headrace
from hdfs_server import NameNode
from real_servers import certificates

import headrace.data as hd
from headrace.data.expressions import col
from headrace.exceptions import (
    DataError,
    HeadraceError,
    InvalidArgument,
    MismatchError,
    NotFoundError,
    UnsupportedError,
)

ODD = ["a b.txt", "a+b.txt", "100%.txt", "é.txt", "x=1&y.txt", "a'(b)!.txt", "~-.txt", "q#.txt", 'a"{]}.txt']


@pytest.fixture
def folder(tmp_path):
    for year in (2023, 2024):
        for part in range(2):
            path = tmp_path / "sales" / f"year={year}" / f"{part}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.table({"id": np.arange(100) + 1000 * year + 100 * part}), path)
    (tmp_path / "sales" / "_SUCCESS").write_text("")
    (tmp_path / "sales" / ".hidden").mkdir()
    (tmp_path / "sales" / ".hidden" / "x.parquet").write_text("no table")
    (tmp_path / "odd").mkdir()
    for i, name in enumerate(ODD):
        (tmp_path / "odd" / name).write_text(f"line {i}\n")
    (tmp_path / "empty").mkdir()
    (tmp_path / "a.csv").write_text("a,b\n1,2\n3,4\n")
    (tmp_path / "a.json").write_text('{"a": 1}\n{"a": 2}\n')
    (tmp_path / "long.csv").write_text("n\n" + "".join(f"{i}\n" for i in range(100_000)))
    return tmp_path


@pytest.fixture
def server(folder, monkeypatch):
    for name in ("HADOOP_USER_NAME", "WEBHDFS_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    server = NameNode(folder)
    yield server
    server.close()


@pytest.mark.parametrize(
    "where",
    [
        "sales",
        "sales/",
        "sales/*/*.parquet",
        "sales/year=20*",
        "sales/**/1.parquet",
        "sales/year=2023/1.parquet",
    ],
)
def test_rows_and_order_are_those_of_the_local_folder(where, folder, server):
    local = hd.read_parquet(f"{folder}/{where}")
    remote = hd.read_parquet(f"webhdfs://{server.host}/{where}")
    assert remote.schema() == local.schema()
    assert remote.to_arrow().equals(local.to_arrow())


@pytest.mark.parametrize(("read", "name"), [(hd.read_csv, "a.csv"), (hd.read_json, "a.json")])
def test_formats(read, name, folder, server):
    assert read(f"webhdfs://{server.host}/{name}").take_all() == read(f"{folder}/{name}").take_all()


def test_binary_files_and_odd_names(folder, server):
    rows = hd.read_binary_files(f"webhdfs://{server.host}/odd", include_paths=True).take_all()
    names = sorted(ODD, key=str.encode)
    assert [r["path"] for r in rows] == [f"webhdfs://{server.host}/odd/{name}" for name in names]
    assert [r["bytes"] for r in rows] == [(folder / "odd" / name).read_bytes() for name in names]


@pytest.mark.parametrize("url", ["hdfs://name:8020/a.csv", "hdfs://nameservice1/a.csv", "hdfs:///a.csv"])
@pytest.mark.parametrize("by", ["option", "environment"])
def test_the_address_of_http_is_given(url, by, server, monkeypatch):
    options = {"webhdfs_endpoint": server.url}
    if by == "environment":
        monkeypatch.setenv("WEBHDFS_ENDPOINT", server.url + "/")
        options = None
    assert hd.read_csv(url, storage_options=options).count() == 2


def test_without_a_host_an_endpoint_is_needed(server):
    with pytest.raises(InvalidArgument, match="webhdfs_endpoint"):
        hd.read_csv("hdfs:///a.csv")


def test_a_user_of_the_url_is_refused_and_not_shown(server):
    with pytest.raises(InvalidArgument, match="hdfs_user") as e:
        hd.read_csv(f"webhdfs://me:PASSWORD@{server.host}/a.csv")
    assert "PASSWORD" not in str(e.value)


def test_user(server, monkeypatch):
    server.user = "an na&x=1"
    url = f"webhdfs://{server.host}/a.csv"
    assert hd.read_csv(url, storage_options={"hdfs_user": server.user}).count() == 2
    with pytest.raises(HeadraceError, match="access denied.*AccessControlException: Permission denied"):
        hd.read_csv(url)
    monkeypatch.setenv("HADOOP_USER_NAME", server.user)
    assert hd.read_csv(url).count() == 2


def test_a_delegation_token_is_shown_nowhere(server):
    server.token = "SECRETTOKEN"
    ds = hd.read_csv(
        f"webhdfs://{server.host}/a.csv", storage_options={"hdfs_delegation_token": server.token}
    )
    assert len(ds.take_all()) == 2
    assert server.token not in repr(ds) + str(ds.explain()) + str(ds.stats()) + str(ds.input_files())
    server.data.fault = lambda n, handler: server.status(handler, 403)
    options = {"hdfs_delegation_token": server.token}
    with pytest.raises(HeadraceError) as e:
        hd.read_csv(f"webhdfs://{server.host}/a.csv", storage_options=options).take_all()
    assert server.token not in str(e.value) and "a.csv" in str(e.value)


def test_missing_files_folders_and_patterns(server):
    for name in ("none.csv", "none/*.csv", "empty", "sales/*.none"):
        with pytest.raises(NotFoundError, match=r"webhdfs://"):
            hd.read_csv(f"webhdfs://{server.host}/{name}")


@pytest.mark.parametrize(
    ("refusal", "error", "words"),
    [
        ((403, "StandbyException"), HeadraceError, "standby"),
        ((401, "AuthenticationException"), UnsupportedError, "Kerberos"),
        ((400, "IllegalArgumentException"), HeadraceError, "IllegalArgumentException: refused"),
        ((403, "SafeModeException"), HeadraceError, r"safe mode.*\(1 retry\)"),
        ((403, "RetriableException"), HeadraceError, r"cannot serve it now.*\(1 retry\)"),
        ((403, "IOException"), HeadraceError, r"the server refused \(HTTP 403\), IOException: refused$"),
        (
            (403, "AccessControlException", 'inode="/a b":me:drwx------\nat line'),
            HeadraceError,
            r'access denied.*AccessControlException: inode="/a b":me:drwx------$',
        ),
    ],
)
def test_refusals(refusal, error, words, server):
    """Once each IOException was "access denied", and words ended at the first quote in them."""
    server.refusal = refusal
    with pytest.raises(error, match=words):
        hd.read_csv(f"webhdfs://{server.host}/a.csv", storage_options={"max_retries": 1})


@pytest.mark.parametrize(
    "words",
    [
        ("SafeModeException", "Zero blocklocations for /a. Name node is in safe mode.\nThe reported"),
        ("IOException", "Failed to find datanode, suggest to check cluster health."),
    ],
)
def test_a_cluster_that_starts_is_asked_again(words, folder, server):
    def fault(number, handler):
        return "op=OPEN" in handler.path and number % 2 == 0 and server.refuse(handler, 403, *words)

    server.fault = fault
    assert hd.read_csv(f"webhdfs://{server.host}/long.csv").count() == 100_000


def test_a_file_that_became_shorter_is_one_error(folder, server):
    ds = hd.read_csv(f"webhdfs://{server.host}/long.csv")
    words = ("IOException", "Offset=100 out of the range [0, 10); OPEN, path=/long.csv")
    server.fault = lambda number, handler: "op=OPEN" in handler.path and server.refuse(handler, 403, *words)
    with pytest.raises(DataError, match=r"long\.csv: the file was replaced while it was read"):
        ds.take_all()


@pytest.mark.skipif(not shutil.which("openssl"), reason="openssl makes the certificate")
def test_tls(folder, server, tmp_path):
    """swebhdfs: both servers have certificates of an authority that SSL_CERT_FILE names."""
    (tmp_path / "tls").mkdir()
    ca = certificates(tmp_path / "tls")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "tls" / "server.pem", tmp_path / "tls" / "server.key")

    def encrypt(node):
        node.server.socket = context.wrap_socket(node.server.socket, server_side=True)
        node.url = node.url.replace("http:", "https:")

    def count(ca=ca, **env):
        env = {**os.environ, "SSL_CERT_FILE": str(ca), **env}
        program = [sys.executable, "-m", "headrace", "count", f"swebhdfs://{server.host}/sales"]
        return subprocess.run(program, capture_output=True, text=True, timeout=120, env=env)

    encrypt(server)
    assert "from https to an address without encryption" in count().stderr
    encrypt(server.data)
    assert count().stdout == "400\n"
    assert count(WEBHDFS_ENDPOINT=server.url).stdout == "400\n"
    (tmp_path / "other").mkdir()
    assert "certificate is not valid" in count(ca=certificates(tmp_path / "other")).stderr


def test_what_breaks_is_asked_for_again_at_the_namenode(folder, server):
    def fault(number, handler):
        if number % 2 == 0:
            return server.status(handler, 503, Retry_After="0")
        return None

    server.data.fault = fault
    assert hd.read_csv(f"webhdfs://{server.host}/long.csv").count() == 100_000
    opens = sum("op=OPEN" in path for _, path, _, _ in server.requests)
    assert opens == len(server.data.requests)


def test_ranges_are_asked_for_by_the_query(folder, server):
    ds = hd.read_csv(f"webhdfs://{server.host}/long.csv")
    assert ds.to_arrow().equals(hd.read_csv(f"{folder}/long.csv").to_arrow())
    assert all("offset=" in path and "length=" in path for _, path, _, _ in server.data.requests)


@pytest.mark.parametrize("change", ["shorter", "longer", "same length"])
def test_a_replaced_file_is_one_error(change, folder, server):
    ds = hd.read_csv(f"webhdfs://{server.host}/a.csv")
    text = {"shorter": "a,b\n1,2\n", "longer": "a,b\n1,2\n3,4\n5,6\n", "same length": "a,b\n5,6\n7,8\n"}[
        change
    ]
    (folder / "a.csv").write_text(text)
    os.utime(folder / "a.csv", (1, 1))
    with pytest.raises(DataError, match=r"a\.csv.*replaced"):
        ds.take_all()


def test_what_exists_is_no_pattern(folder, server):
    for name in ("x[1].csv", "x1.csv", "y*"):
        file = folder / name / "1.csv" if name == "y*" else folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"a\n{name}\n")
    for name in ("x[1].csv", "y*"):
        assert hd.read_csv(f"webhdfs://{server.host}/{name}").take_all() == [{"a": name}]
    assert hd.read_csv(f"webhdfs://{server.host}/x?.csv").take_all() == [{"a": "x1.csv"}]


def test_a_position_is_of_one_version(folder, server):
    def batches():
        return hd.read_csv(f"webhdfs://{server.host}/long.csv").iterator().iter_batches(batch_size=1000)

    first = batches()
    head = [next(it)["n"].tolist() for it in [iter(first)] for _ in range(3)]
    state = first.state_dict()
    again = batches()
    again.load_state_dict(state)
    local = hd.read_csv(f"{folder}/long.csv").to_arrow()["n"].to_pylist()
    rest = [x for batch in again for x in batch["n"].tolist()]
    assert sum(head, []) + rest == local
    text = (folder / "long.csv").read_text()
    (folder / "long.csv").write_text(text.replace("\n7\n", "\n8\n"))
    with pytest.raises(MismatchError, match=r"long\.csv has other contents"):
        changed = batches()
        changed.load_state_dict(state)
        list(changed)


@pytest.mark.skipif(MISSING, reason="the command is not built")
def test_the_command(folder, server):
    listed, _ = headrace("ls", f"webhdfs://{server.host}/sales")
    names = sorted(str(p.relative_to(folder)) for p in (folder / "sales").glob("year=*/*.parquet"))
    assert listed.split() == [f"webhdfs://{server.host}/{name}" for name in names]
    assert headrace("count", f"webhdfs://{server.host}/long.csv")[0] == "100000\n"
    assert headrace("clean", f"webhdfs://{server.host}/sales")[0] == ""


def test_readers_of_other_packages(folder, server):
    orc = pytest.importorskip("pyarrow.orc")
    orc.write_table(pa.table({"a": [1, 2]}), folder / "a.orc")
    assert hd.read_orc(f"webhdfs://{server.host}/a.orc").take_all() == [{"a": 1}, {"a": 2}]


def test_download(folder, server, monkeypatch):
    """DataNodes have private addresses; credentials go to no NameNode that only the data name."""
    url = f"webhdfs://{server.host}/odd/{ODD[0]}"
    ds = hd.from_items([{"url": url}])

    def download(**given):
        return ds.with_column("bytes", col("url").download(**given)).take_all()[0]["bytes"]

    assert download(allow_private=True) == b"line 0\n"
    with pytest.raises(InvalidArgument, match="its address is a private one"):
        download()
    server.user = "ann"
    with pytest.raises(InvalidArgument, match="credentials go to no server that a URL of the data names"):
        download(allow_private=True, storage_options={"hdfs_user": "ann"})
    options = {"hdfs_user": "ann", "webhdfs_endpoint": server.url}
    assert download(allow_private=True, storage_options=options) == b"line 0\n"
