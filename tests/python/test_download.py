"""download(): the bytes of URLs and paths in a column."""

import itertools
import pickle
import socket
import subprocess
import sys
import threading

import pytest
from object_server import ObjectServer, S3Server

import headrace.data as hd
from headrace.data import DataContext, downloading
from headrace.data.downloading import Download
from headrace.data.expressions import col, download
from headrace.exceptions import DataError, InvalidArgument, NotFoundError, TypeMismatchError, UnsupportedError

N = 200


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("downloads")
    for i in range(N):
        (root / f"{i} é.bin").write_bytes(bytes([i]) * (i * 10))
    return root


@pytest.fixture
def server(folder):
    server = ObjectServer(folder)
    yield server
    server.close()


def urls(server, n=N):
    return hd.from_items([{"i": i, "url": f"{server.url}/{i} é.bin"} for i in range(n)])


def found(ds, **options):
    return ds.with_column("bytes", col("url").download(**options)).to_arrow()["bytes"].to_pylist()


def test_the_bytes_in_the_order_of_the_rows(server):
    server.delay_s = 0.01
    ds = urls(server).with_column("bytes", col("url").download(allow_private=True))
    assert ds.columns() == ["i", "url", "bytes"] and str(ds.schema().types[2]) == "large_binary"
    for row in ds.iter_rows():
        assert row["bytes"] == bytes([row["i"]]) * (row["i"] * 10)
    assert server.most_at_once > 16  # several calls at the same time
    sizes = urls(server).with_column("n", col("url").download(allow_private=True).str.byte_len())
    assert sizes.sum("n") == sum(10 * i for i in range(N))


def test_an_epoch_is_resumed_in_the_middle(server):
    batches = (
        urls(server).with_column("bytes", col("url").download(allow_private=True)).iter_batches(batch_size=32)
    )
    passing = iter(batches)
    next(passing)
    state = batches.state_dict()
    rest = [list(b["bytes"]) for b in passing]
    batches.load_state_dict(state)
    assert [list(b["bytes"]) for b in batches] == rest and len(rest) == 6


def test_what_cannot_be_read(server):
    ds = hd.from_items([{"url": f"{server.url}/1 é.bin"}, {"url": None}, {"url": f"{server.url}/none"}])
    with pytest.raises(NotFoundError, match=rf"{server.url}/none: no such object \(HTTP 404\)"):
        found(ds, allow_private=True)
    assert found(ds, allow_private=True, on_error="null") == [bytes([1]) * 10, None, None]
    assert found(urls(server, 3), allow_private=True, max_bytes="10B", on_error="null") == [
        b"",
        bytes([1]) * 10,
        None,
    ]
    with pytest.raises(DataError, match="2 é.bin: it has more than 10 bytes"):
        found(urls(server, 3), allow_private=True, max_bytes=10)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        nobody = hd.from_items([{"url": f"http://127.0.0.1:{closed.getsockname()[1]}/x"}])
        with pytest.raises(OSError, match="no connection to the host"):
            found(nobody, allow_private=True, storage_options={"max_retries": 0})


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0x7f000001", "127.1"])
def test_a_private_host_is_not_connected_to(host):
    """Its port was connected to before its address was refused, and a closed port was "no connection"."""
    with socket.socket() as closed, socket.create_server(("127.0.0.1", 0)) as listening:
        closed.bind(("127.0.0.1", 0))
        listening.settimeout(0.2)
        for server in closed, listening:
            ds = hd.from_items([{"url": f"http://{host}:{server.getsockname()[1]}/x"}])
            for on_error in "raise", "null":
                with pytest.raises(InvalidArgument, match="its address is a private one"):
                    found(ds, on_error=on_error, storage_options={"max_retries": 0})
        with pytest.raises(TimeoutError):
            listening.accept()


@pytest.mark.parametrize(
    "url, error",
    [
        ("", "download: found an empty text, expected a URL"),
        ("http://", "http://: the address names no host"),
        ("http:///x.png", "the address names no host"),
        ("https://:80/x.png", "the address names no host"),
        ("https://me:HUSH@a b/x.png", "https://a b/x.png: the host's name has a blank or a control"),
        ("http://a\r\nX-Other: 1/x.png", "the host's name has a blank or a control character"),
    ],
)
def test_what_is_no_url_is_like_what_is_not_there(url, error, server):
    """An empty text ended the run whatever on_error said: it was a path of this machine."""
    ds = hd.from_items([{"url": url}, {"url": f"{server.url}/1 é.bin"}])
    with pytest.raises(DataError, match=error) as e:
        found(ds, allow_private=True)
    assert "HUSH" not in str(e.value)
    assert found(ds, allow_private=True, on_error="null") == [None, bytes([1]) * 10]


def test_values_that_are_no_texts():
    with pytest.raises(TypeMismatchError, match="download: expected texts, found a value of int"):
        found(hd.from_items([{"url": 1}]))
    with pytest.raises(UnsupportedError, match=r"ftp://host/x: expected http://") as e:
        found(hd.from_items([{"url": "ftp://me:HUSH@host/x?sig=HUSH"}]))
    assert "HUSH" not in str(e.value)
    with pytest.raises(InvalidArgument, match="download: max_bytes: 'lots' is not a number of bytes"):
        col("url").download(max_bytes="lots")


def test_passing_faults_are_tried_again(server):
    refused = itertools.count()

    def fault(number, handler):
        return next(refused) % 3 == 0 and server.status(handler, 503, Retry_After="0")

    server.fault = fault
    assert found(urls(server, 30), allow_private=True) == [bytes([i]) * (i * 10) for i in range(30)]


def grown_mb(url, n, memory_mb):
    """By how much a process grows that downloads n objects and looks at them slowly."""
    program = f"""
import re, time
import headrace.data as hd
from headrace.data.expressions import col

def most():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1])

hd.DataContext.get_current().memory_limit_bytes = {memory_mb} << 20
ds = hd.from_items([{{"url": f"{url}?{{i}}"}} for i in range({n})])
ds = ds.with_column("bytes", col("url").download(allow_private=True))
before, seen = most(), 0
for row in ds.iter_rows():
    seen += len(row["bytes"])
    time.sleep(0.005)
assert seen == {n} * {2 << 20}
print((most() - before) >> 10)
"""
    return int(subprocess.run([sys.executable, "-c", program], check=True, capture_output=True).stdout)


def test_what_is_downloaded_ahead_is_within_the_memory_limit(tmp_path):
    """Under a limit of 32 MiB it grew by 650: calls and results were sixteen objects each, three times in
    memory, and results in memory of pyarrow did not count.
    """
    (tmp_path / "large").write_bytes(bytes(2 << 20))
    server = ObjectServer(tmp_path)
    try:
        assert grown_mb(f"{server.url}/large", 150, 32) < 80
    finally:
        server.close()


@pytest.mark.parametrize("memory_mb, most_calls", [(64, 2), (1024, 16)])
def test_large_objects_stay_within_a_part_of_the_memory_limit(memory_mb, most_calls, tmp_path, monkeypatch):
    """64 objects were under way, whatever their sizes and the limit."""
    (tmp_path / "large").write_bytes(bytes(1 << 20))
    server = ObjectServer(tmp_path)
    server.delay_s = 0.02
    try:
        monkeypatch.setattr(DataContext.get_current(), "memory_limit_bytes", memory_mb << 20)
        monkeypatch.setattr(downloading, "_room", downloading.Room())
        under_way, most, call = 0, 0, Download.found

        def counted(self, uris):
            nonlocal under_way, most
            with lock:
                under_way += 1
                most = max(most, under_way)
            try:
                return call(self, uris)
            finally:
                with lock:
                    under_way -= 1

        lock = threading.Lock()
        monkeypatch.setattr(Download, "found", counted)
        ds = hd.from_items([{"url": f"{server.url}/large?{i}"} for i in range(160)])
        ds = ds.with_column("bytes", col("url").download(allow_private=True))
        assert sum(len(row["bytes"]) for row in ds.iter_rows()) == 160 << 20
        assert most <= most_calls
        assert memory_mb == 64 or most > 2
    finally:
        server.close()


@pytest.mark.parametrize("on_error", ["raise", "null"])
def test_data_does_not_decide_what_is_read(server, folder, on_error):
    """A table from elsewhere may name /etc/passwd, or the address of a machine's metadata."""
    path = folder / "1 é.bin"
    for url in (str(path), f"file://{path}"):
        ds = hd.from_items([{"url": url}])
        with pytest.raises(InvalidArgument, match="a path of this machine; allow_local=True reads it"):
            found(ds, on_error=on_error)
        assert found(ds, on_error=on_error, allow_local=True) == [bytes([1]) * 10]
    with pytest.raises(InvalidArgument, match="its address is a private one; allow_private=True reads it"):
        found(urls(server), on_error=on_error)
    with pytest.raises(UnsupportedError, match=r"ftp://host/x: expected http://, .* found ftp://"):
        found(hd.from_items([{"url": "ftp://host/x"}]), on_error=on_error)
    assert server.requests == []
    server.fault = lambda number, handler: server.status(handler, 302, Location=f"file://{path}")
    with pytest.raises((OSError, DataError)):
        found(urls(server, 1), allow_private=True, storage_options={"max_retries": 0})


@pytest.fixture
def listener():
    """A port of this machine, and what came there first on each connection."""
    heard = []
    with socket.create_server(("127.0.0.1", 0)) as sock:

        def hear():
            while True:
                try:
                    connection, _ = sock.accept()
                except OSError:
                    return
                with connection:
                    connection.settimeout(1)
                    heard.append(connection.recv(1 << 16))

        threading.Thread(target=hear, daemon=True).start()
        yield sock.getsockname()[1], heard
        sock.shutdown(socket.SHUT_RDWR)


AWS = {"key": "AKID", "secret": "SECRET", "token": "SESSION", "region": "us-east-1"}
AZURE = {"account_name": "me", "token": "TOKEN"}
SAS = {"account_name": "me", "sas_token": "sv=1&sig=SECRET"}


@pytest.mark.parametrize(
    "url, options, error",
    [
        ("s3://localhost:{}#/x", AWS, "is no name of a bucket"),
        ("s3://localhost:{}?/x", AWS, "is no name of a bucket"),
        ("s3://localhost:{}%2f/x", AWS, "is no name of a bucket"),
        ("s3://anonymous@localhost:{}?/latest/meta-data", {}, "is no name of a bucket"),
        ("s3://?list-type=2&prefix=/a", AWS, "is no name of a bucket"),
        ("gs://localhost:{}#/x", {"google_token": "TOKEN"}, "is no name of a bucket"),
        ("abfss://c@localhost:{}#/x", AZURE, "is no name of an account"),
        ("abfss://c@localhost:{}#.dfs.core.windows.net/x", AZURE, "is no name of an account"),
        ("az://evil.localhost:{}/c/x", AZURE, "credentials go to no server that a URL of the data names"),
        ("az://evil.localhost:{}/c/x", SAS, "credentials go to no server that a URL of the data names"),
        ("abfss://c@evil.localhost:{}/x", AZURE, "credentials go to no server that a URL of the data names"),
        ("az://core.windows.net.localhost:{}/c/x", AZURE, "credentials go to no server"),
    ],
)
def test_data_does_not_decide_who_gets_credentials(url, options, error, listener):
    """The story: the URL's bucket or account became a part of the host, which got the token of the user."""
    port, heard = listener
    ds = hd.from_items([{"url": url.format(port)}])
    with pytest.raises(InvalidArgument, match=error):
        found(ds, storage_options={"max_retries": 0, "timeout": 2, **options})
    assert not any(heard)
    anonymous = hd.from_items([{"url": f"az://anonymous@127.0.0.1:{port}/c/x"}])
    with pytest.raises((InvalidArgument, OSError)):  # a server with TLS gets a greeting, and no request
        found(anonymous, storage_options={"max_retries": 0, "timeout": 2})
    assert not any(b"HTTP" in h for h in heard)


def test_a_store_redirects_to_no_private_address(folder, listener):
    port, heard = listener
    server = S3Server(folder.parent)
    try:
        server.fault = lambda number, handler: server.status(
            handler, 307, Location=f"http://127.0.0.1:{port}/x"
        )
        options = {"key": server.key, "secret": server.secret, "endpoint": server.url, "max_retries": 0}
        ds = hd.from_items([{"url": f"s3://{folder.name}/1 é.bin"}])
        with pytest.raises(InvalidArgument, match="its address is a private one"):
            found(ds, storage_options=options)
        assert not any(heard)
    finally:
        server.close()


PROXIES = ("http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY")


@pytest.mark.parametrize(
    "variables",
    [{"https_proxy": "http://127.0.0.1:9"}, {"all_proxy": "http://127.0.0.1:9", "no_proxy": "a.b, 0.0.0.0"}],
    ids=["of the other scheme", "no_proxy"],
)
def test_a_proxy_that_is_not_used_allows_no_private_address(variables, server, monkeypatch):
    """Any of these variables was enough, and the address of a direct connection was not looked at."""
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    url = server.url.replace("127.0.0.1", "0.0.0.0")  # that is no loopback by its name
    with pytest.raises(InvalidArgument, match="its address is a private one; allow_private=True reads it"):
        found(hd.from_items([{"url": f"{url}/1 é.bin"}]))
    assert server.requests == []


def test_a_proxy_connects_by_itself(server, monkeypatch):
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", server.url)
    monkeypatch.setenv("no_proxy", "ample.com,.org")
    assert found(hd.from_items([{"url": "http://example.com/3 é.bin"}])) == [bytes([3]) * 30]


def test_download_is_that_of_ray(server, folder):
    names = [
        f"{server.url}/3 é.bin",
        str(folder / "4 é.bin"),
        str(folder / "none"),
        f"{server.url}/none",
        None,
    ]
    ds = hd.from_items([{"url": name} for name in names])
    read = ds.with_column("bytes", download("url", allow_private=True)).to_arrow()["bytes"].to_pylist()
    assert read == [bytes([3]) * 30, bytes([4]) * 40, None, None, None]
    with pytest.raises(NotFoundError, match="none: No such file"):
        ds.with_column("bytes", download("url", allow_private=True, on_error="raise")).to_arrow()


def test_objects_of_s3_and_secrets(folder):
    server = S3Server(folder.parent)
    try:
        names = [f"s3://{folder.name}/{i} é.bin" for i in range(20)]
        ds = hd.from_items([{"url": name} for name in names])
        options = {"key": server.key, "secret": server.secret, "endpoint": server.url}
        ds = ds.with_column("bytes", col("url").download(storage_options=options))
        again = pickle.loads(pickle.dumps(ds))
        for each in (ds, again):
            assert [row["bytes"] for row in each.iter_rows()] == [bytes([i]) * (i * 10) for i in range(20)]
        shown = (
            repr(ds)
            + ds.stats()
            + ds.stats("json")
            + str(ds.iter_batches().state_dict())
            + str(ds._node.plan)
        )
        assert server.secret not in shown and server.key not in shown
        other = {**options, "secret": "wrong"}
        with pytest.raises(OSError, match="403"):
            found(hd.from_items([{"url": names[1]}]), storage_options=other)
    finally:
        server.close()


def test_wrong_arguments():
    for options, text in (
        ({"on_error": "skip"}, "on_error: expected 'raise' or 'null', found 'skip'"),
        ({"max_bytes": 0}, "max_bytes: expected at least 1 byte, found 0"),
        ({"max_bytes": 1.5}, "max_bytes: expected at least 1 byte, found 1.5"),
        ({"storage_options": {"timeot": 1}}, "there is no option 'timeot'; did you mean 'timeout'"),
    ):
        with pytest.raises(InvalidArgument, match=text):
            col("url").download(**options)


def test_paths_in_a_filesystem(tmp_path):
    """filesystem= was an error. Of one that Python threads serve, and of the local one."""
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    fs = pytest.importorskip("pyarrow.fs")
    for i in range(40):
        memory.pipe(f"/hr_download/{i}", b"x" * i)
        (tmp_path / str(i)).write_bytes(b"x" * i)
    try:
        for filesystem, folder in ((memory, "/hr_download"), (fs.LocalFileSystem(), str(tmp_path))):
            paths = [f"{folder}/{i}" for i in range(40)]
            ds = hd.from_items([{"p": p} for p in [*paths, None, f"{folder}/none"]])
            made = ds.with_column("b", download("p", filesystem=filesystem))
            assert [r["b"] for r in made.take_all()] == [b"x" * i for i in range(40)] + [None, None]
            small = ds.with_column("b", download("p", filesystem=filesystem, max_bytes=9)).take_all()
            assert [r["b"] is None for r in small[8:11]] == [False, False, True]
            with pytest.raises(NotFoundError, match="none"):
                ds.with_column("b", download("p", filesystem=filesystem, on_error="raise")).take_all()
    finally:
        memory.rm("/hr_download", recursive=True)


def test_a_filesystem_opens_nothing_else():
    """URLs in data are not the user's words: a path of this machine is no path of a store."""
    fs = pytest.importorskip("pyarrow.fs")
    s3 = fs.S3FileSystem(anonymous=True, region="eu-west-1")
    for url in ("file:///etc/passwd", "http://169.254.169.254/x"):
        ds = hd.from_items([{"p": url}]).with_column("b", download("p", filesystem=s3))
        with pytest.raises(InvalidArgument):
            ds.take_all()


def test_only_given_schemes(server, folder):
    ds = hd.from_items([{"url": f"{server.url}/1 é.bin"}, {"url": str(folder / "1 é.bin")}])
    both = {"allow_private": True, "allow_local": True}
    assert found(ds, schemes=["http", "file"], **both) == [bytes([1]) * 10] * 2
    assert found(ds.limit(1), schemes=["HTTP://"], **both) == [bytes([1]) * 10]
    for schemes, wrong in ((["http"], "its scheme is file"), (["https", "file"], "its scheme is http")):
        for on_error in ("raise", "null"):  # data do not decide what is read
            with pytest.raises(InvalidArgument, match=f"{wrong}; schemes= allows {', '.join(schemes)}"):
                found(ds, schemes=schemes, on_error=on_error, **both)
    assert ds.with_column("b", download("url", schemes=["http", "file"], allow_private=True)).count() == 2
    assert "schemes=['s3']" in str(col("url").download(schemes=["s3"]))
    for wrong in (["ftp"], [], "https", [1]):
        with pytest.raises((InvalidArgument, TypeMismatchError), match="download: schemes: expected"):
            col("url").download(schemes=wrong)
