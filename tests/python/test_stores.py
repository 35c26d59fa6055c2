"""URLs: rows, order, resume and errors are those of local files, whatever the server does."""

import contextlib
import email.utils
import gzip
import io
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import tarfile
import threading
import time
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from object_server import ObjectServer

import headrace.data as hd
from headrace.data import DataContext
from headrace.data.expressions import col
from headrace.exceptions import DataError, HeadraceError, InvalidArgument, NotFoundError, UnsupportedError

ROWS = 40_000


def table():
    rng = np.random.default_rng(1)
    columns = {name: rng.random(ROWS) for name in "abcdefgh"}
    return pa.table({"id": np.arange(ROWS), **columns, "name": [f"name {i % 97}" for i in range(ROWS)]})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("objects")
    t = table()
    pq.write_table(t, root / "a.parquet", row_group_size=ROWS // 8)
    pa.csv.write_csv(t, root / "a.csv")
    ds = hd.from_arrow(t)
    ds.write_json(root / "json")
    ds.write_arrow(root / "arrow")
    (root / "a.txt").write_text("".join(f"line {i}\n" for i in range(ROWS)))
    for i in range(40):
        (root / f"small {i:02}.bin").write_bytes(bytes([i]) * (i * 100))
    np.save(root / "a.npy", np.arange(ROWS).reshape(-1, 2))
    (root / "empty.txt").write_bytes(b"")
    return root


@pytest.fixture
def server(folder):
    server = ObjectServer(folder)
    yield server
    server.close()


def files(folder, pattern):
    return sorted(str(p.relative_to(folder)) for p in folder.glob(pattern))


READERS = {
    "parquet": (hd.read_parquet, "a.parquet"),
    "csv": (hd.read_csv, "a.csv"),
    "json": (hd.read_json, "json/*"),
    "arrow": (hd.read_arrow, "arrow/*"),
    "text": (hd.read_text, "a.txt"),
    "binary": (hd.read_binary_files, "small*"),
    "numpy": (hd.read_numpy, "a.npy"),
}


@pytest.mark.parametrize("kind", READERS)
def test_rows_are_those_of_the_local_file(kind, folder, server):
    read, pattern = READERS[kind]
    names = files(folder, pattern)
    local = read([str(folder / n) for n in names])
    remote = read([f"{server.url}/{n.replace(' ', '%20')}" for n in names])
    assert remote.schema() == local.schema()
    assert remote.count() == local.count()
    assert remote.to_arrow().equals(local.to_arrow())
    assert str(remote.take(3)) == str(local.take(3))


def test_columns_of_one_name_keep_their_values(tmp_path):
    """Both had the values of the first, since a file of a store is opened by names of columns."""
    (tmp_path / "a.csv").write_text("a,a\n1,2\n3,4\n")
    with contextlib.closing(ObjectServer(tmp_path)) as server:
        found = hd.read_csv(f"{server.url}/a.csv").to_arrow()
    assert [c.to_pylist() for c in found.columns] == [[1, 3], [2, 4]]


@pytest.mark.parametrize("kind", ["parquet", "csv", "text"])
def test_a_small_memory_limit_holds(kind, folder, server, monkeypatch):
    read, name = READERS[kind]
    monkeypatch.setattr(DataContext.get_current(), "memory_limit_bytes", 16 << 20)
    assert read(f"{server.url}/{name}").to_arrow().equals(read(str(folder / name)).to_arrow())


def test_take_and_schema_of_parquet_read_few_bytes(folder, server):
    size = (folder / "a.parquet").stat().st_size
    ds = hd.read_parquet(f"{server.url}/a.parquet")
    assert [r[0] for r in server.requests] == ["HEAD"]
    ds.schema()
    assert server.body_bytes() <= 512 << 10
    assert ds.count() == ROWS
    footer = server.body_bytes()
    ds.select_columns(["id"]).take(5)
    assert server.body_bytes() - footer <= size // 8


@pytest.mark.parametrize("columns", [None, ["id", "a"]])
def test_row_groups_that_a_filter_rules_out_do_not_travel(columns, folder, server):
    """Their rows were left out, but the read-ahead had fetched their bytes."""
    every = hd.read_parquet(f"{server.url}/a.parquet", columns=columns)
    received = []
    for begin, end in (0, ROWS), (0, ROWS // 8), (3 * ROWS // 8, ROWS // 2), (ROWS - 1, ROWS):
        ds = every.filter(expr=(col("id") >= begin) & (col("id") < end))
        assert ds.to_arrow()["id"].to_pylist() == list(range(begin, end))
        received.append(ds.stats("dict")["network"]["received_bytes"])
    assert max(received[1:]) < received[0] / 2


def test_sizes_are_asked_for_at_once(server):
    server.delay_s = 0.02
    hd.read_binary_files([f"{server.url}/small%20{i:02}.bin" for i in range(40)])
    assert server.most_at_once >= 8


def test_a_resumed_run_reads_the_rest(folder, server):
    def feed(root):
        return hd.read_parquet(f"{root}/a.parquet").iter_batches(batch_size=1000)

    whole = [b["id"].tolist() for b in feed(str(folder))]
    batches, got = feed(server.url), []
    for batch in batches:
        got.append(batch["id"].tolist())
        if len(got) == 12:
            break
    state = batches.state_dict()
    rest = feed(server.url)
    rest.load_state_dict(state)
    assert got + [b["id"].tolist() for b in rest] == whole


def test_a_replaced_object_is_one_error(folder, server):
    path = folder / "a.parquet"
    ds = hd.read_parquet(f"{server.url}/a.parquet")
    ds.schema()
    server.etags[path] = '"another"'
    with pytest.raises(DataError, match=r"/a.parquet: .*the object was replaced while it was read"):
        ds.to_arrow()
    batches = hd.read_parquet(f"{server.url}/a.parquet").iter_batches(batch_size=1000)
    for _ in batches:
        break
    state = batches.state_dict()
    server.etags[path] = '"a third"'
    again = hd.read_parquet(f"{server.url}/a.parquet").iter_batches(batch_size=1000)
    again.load_state_dict(state)
    with pytest.raises(HeadraceError, match=r"a.parquet"):
        list(again)


TIME = "Tue, 14 Nov 2023 22:13:{:02} GMT"


@pytest.mark.parametrize("tag, when", [("", TIME), ('W/"{}"', TIME), ('W/"{}"', "")])
def test_versions_without_etags_are_not_mixed(tmp_path, monkeypatch, tag, when):
    """The story: the size alone was compared, and an epoch had rows of both files, and one of neither."""
    monkeypatch.setenv("HEADRACE_MEMORY_LIMIT", "16MiB")
    path = tmp_path / "v.csv"
    with contextlib.closing(ObjectServer(tmp_path)) as server:

        def put(version):
            path.write_text("v\n" + f"{version}" * 9 + ("\n" + f"{version}" * 9) * 1_000_000)
            server.etags[path] = tag.format(version)
            server.metadata[path] = {"Last-Modified": when.format(version)} if when else {}

        put(1)
        batches = hd.read_csv(f"{server.url}/v.csv").iter_batches(batch_size=1000, prefetch_batches=0)
        seen = set(next(iter(batches))["v"].tolist())
        put(2)
        with pytest.raises(DataError, match=r"/v.csv: .*the object was replaced while it was read"):
            for batch in batches:
                seen.update(batch["v"].tolist())
        assert seen == {111111111}
        put(3)
        ds = hd.read_csv(f"{server.url}/v.csv")
        ds.schema()
        if when:  # the list has it; a weak ETag is compared from the first part on
            put(4)
            with pytest.raises(DataError, match=r"/v.csv: .*the object was replaced while it was read"):
                ds.take_all()
        else:
            assert ds.count() == 1_000_001


def test_faults_are_mended(folder, server):
    def fault(number, handler):
        if handler.command == "GET" and number % 5 == 1:
            return server.status(handler, 503, Retry_After="0")
        if handler.command == "GET" and number % 5 == 3:
            handler.close_connection = True
            return True

    server.fault = fault
    options = {"max_retries": 10, "timeout": 5}
    ds = hd.read_parquet(f"{server.url}/a.parquet", storage_options=options)
    assert ds.to_arrow().equals(table())


def test_a_pause_that_ends_at_a_time(folder, server):
    """The story: Retry-After as a date was no pause. It is of the server's clock."""
    refused = []

    def fault(number, handler):
        if handler.command == "GET" and not refused:
            refused.append(time.monotonic())
            until = email.utils.formatdate(time.time() + 2, usegmt=True)
            return server.status(handler, 503, Retry_After=until)
        if handler.command == "GET":
            refused.append(time.monotonic())

    server.fault = fault
    assert hd.read_text(f"{server.url}/a.txt").count() == ROWS
    assert refused[1] - refused[0] > 0.9  # formatdate() drops a part of a second


def test_a_server_without_ranges_is_read_whole(folder, server):
    server.ranges = False
    assert hd.read_parquet(f"{server.url}/a.parquet").to_arrow().equals(table())


@pytest.mark.parametrize("name", ["large.csv", "large.parquet"])
def test_a_whole_that_is_too_large_is_one_error(name, server, tmp_path, monkeypatch):
    """Once only a read behind the first byte found out; one of the first byte took any size."""
    with open(tmp_path / "large.csv", "w") as file:
        file.write("n\n" + "1234567\n" * (3 << 20))
    t = pa.table({"n": np.random.default_rng(0).random(3 << 20)})
    pq.write_table(t, tmp_path / "large.parquet")
    server.root, server.ranges = tmp_path, False
    monkeypatch.setattr(hd.DataContext.get_current(), "memory_limit_bytes", 64 << 20)
    with pytest.raises(UnsupportedError, match=f"{name}: the server answers .* than a quarter of the memory"):
        getattr(hd, f"read_{name[6:]}")(f"{server.url}/{name}").take_all()


@pytest.mark.parametrize("columns", [4, 16])
@pytest.mark.parametrize("threads", [1, 16])
def test_the_memory_limit_holds_as_of_local_files(columns, threads, server, tmp_path, monkeypatch):
    """The story: each of 16 threads requested half of the limit, and parts of 8 MiB stayed until the last of
    their columns was read: 1.6 limits with 4 columns, 2.2 with 16.
    """
    rng = np.random.default_rng(0)
    t = pa.table({f"c{i}": rng.random(6_000_000 // columns) for i in range(columns)})
    pq.write_table(
        t, tmp_path / "large.parquet", row_group_size=2_000_000 // columns, compression="none"
    )  # 16 MB each
    server.root = tmp_path
    context = hd.DataContext.get_current()
    monkeypatch.setattr(context, "memory_limit_bytes", 24 << 20)
    monkeypatch.setattr(context, "num_threads", threads)
    for _ in range(3):
        ds = hd.read_parquet(f"{server.url}/large.parquet")
        batches = list(ds.select_columns(["c0"]).iter_batches(batch_size=8192))
        assert np.array_equal(np.concatenate([b["c0"] for b in batches]), t["c0"].to_numpy())
        assert sum(len(b["c1"]) for b in ds.iter_batches(batch_size=8192)) == t.num_rows
        assert ds.stats("dict")["peak_bytes"] < 1.25 * (24 << 20)


def test_what_is_not_there_is_named(server):
    with pytest.raises(NotFoundError, match=r"/nothing.csv: no such object \(HTTP 404\)"):
        hd.read_csv(f"{server.url}/nothing.csv")
    ds = hd.read_text([f"{server.url}/nothing", f"{server.url}/empty.txt"], ignore_missing_paths=True)
    assert ds.count() == 0
    with pytest.raises(InvalidArgument, match="there is no option 'retries'"):
        hd.read_csv(f"{server.url}/a.csv", storage_options={"retries": 3})


def test_secrets_of_urls_are_not_shown(server, capsys):
    host = server.url.replace("//", "//me:hush@")
    with pytest.raises(NotFoundError) as e:
        hd.read_csv(f"{host}/nothing.csv?token=hush")
    assert "hush" not in str(e.value)
    options = {"aws_secret_access_key": "hush", "aws_session_token": "hush"}
    ds = hd.read_parquet(f"{host}/a.parquet?token=hush", storage_options=options)
    batches = ds.iter_batches(batch_size=1000)
    next(iter(batches))
    ds.explain()
    for text in (repr(ds), ds.stats(), ds.stats("json"), str(batches.state_dict()), capsys.readouterr().out):
        assert text and "hush" not in text
    server.etags[server.root / "a.parquet"] = '"another"'
    with pytest.raises(DataError) as e:
        ds.to_arrow()
    assert "hush" not in str(e.value)


def test_a_new_signature_is_the_same_file(server):
    first = hd.read_parquet(f"{server.url}/a.parquet?sig=1").iter_batches(batch_size=1000)
    next(iter(first))
    again = hd.read_parquet(f"{server.url}/a.parquet?sig=2").iter_batches(batch_size=1000)
    again.load_state_dict(first.state_dict())
    assert next(iter(again))["id"][0] == 1000


def test_a_run_that_waits_ends_at_once(server):
    stop = threading.Event()

    def fault(number, handler):
        begin = re.match(r"bytes=(\d+)-", handler.headers.get("Range", ""))
        if begin and 1 << 20 < int(begin[1]) < 2 << 20:
            stop.wait(60)
            handler.close_connection = True
            return True

    server.fault = fault
    it = iter(hd.read_parquet(f"{server.url}/a.parquet").iter_batches(batch_size=1000))
    next(it)
    begin = time.monotonic()
    it.close()
    assert time.monotonic() - begin < 10
    stop.set()


SILENT = """
import sys, headrace.data as hd
what, url = sys.argv[1:]
if what == "list":
    hd.read_parquet(url)
else:
    hd.read_parquet(url).schema()
"""


@pytest.mark.parametrize("what", ["list", "schema"])
def test_an_interrupt_ends_a_wait_for_a_silent_server(what, server):
    stop, waits = threading.Event(), threading.Event()

    def fault(number, handler):
        if handler.command == ("HEAD" if what == "list" else "GET"):
            waits.set()
            stop.wait(60)
            handler.close_connection = True
            return True

    server.fault = fault
    program = [sys.executable, "-c", SILENT, what, f"{server.url}/a.parquet"]
    with subprocess.Popen(program, stderr=subprocess.PIPE, text=True) as child:
        assert waits.wait(60)
        time.sleep(0.1)
        begin = time.monotonic()
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=300)
        seconds = time.monotonic() - begin
    stop.set()
    assert "KeyboardInterrupt" in err
    assert seconds < 2  # 0.2 s, and the end of Python


@pytest.mark.parametrize("command", ["head", "count", "schema", "stat"])
def test_the_command_takes_urls(command, folder, server):
    def run(path):
        program = [sys.executable, "-m", "headrace", command, path]
        return subprocess.run(program, capture_output=True, text=True, timeout=120, check=True).stdout

    assert run(f"{server.url}/a.parquet").replace(server.url, str(folder)) == run(f"{folder}/a.parquet")


def test_a_forked_child_reads(server):
    ds = hd.read_parquet(f"{server.url}/a.parquet")
    assert ds.count() == ROWS
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if ds.to_arrow().equals(table()) else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert ds.to_arrow().equals(table())


def test_paths_are_urls(folder, server):
    ds = hd.read_text(f"{server.url}/a.txt", include_paths=True)
    assert ds.take(1)[0]["path"] == f"{server.url}/a.txt"


def test_each_byte_of_a_folder_of_partitions_travels_once(folder, server, tmp_path):
    """Once a row group that several tickets read was asked for again, page by page."""
    parts = tmp_path / "kind=x"
    parts.mkdir()
    rng = np.random.default_rng(2)
    t = pa.table({name: rng.random(300_000) for name in "abcdefghi"})
    pq.write_table(t, parts / "0.parquet", row_group_size=100_000)
    size = (parts / "0.parquet").stat().st_size
    server.root = tmp_path
    ds = hd.read_parquet(f"{server.url}/kind=x/0.parquet", partitioning="hive")
    assert ds.to_arrow().drop_columns(["kind"]).equals(t)
    assert server.body_bytes() < size * 1.1 + (1 << 20)


@pytest.mark.parametrize("memory_mb", [1024, 32])
def test_the_bytes_of_a_large_row_group_travel_once(memory_mb, server, tmp_path, monkeypatch):
    """Each of its tickets announced the chunks from their beginnings: pages that earlier tickets had read
    were fetched again, five times under a small memory limit.
    """
    rng = np.random.default_rng(4)
    t = pa.table({name: rng.random(700_000) for name in "abcde"})
    pq.write_table(t, tmp_path / "a.parquet", row_group_size=len(t), use_dictionary=False)
    size = (tmp_path / "a.parquet").stat().st_size
    server.root = tmp_path
    monkeypatch.setattr(DataContext.get_current(), "memory_limit_bytes", memory_mb << 20)
    n = 0
    for batch in hd.read_parquet(f"{server.url}/a.parquet").iter_batches(batch_size=50_000):
        assert (batch["c"] == t["c"].to_numpy()[n : n + len(batch["c"])]).all()
        n += len(batch["c"])
    assert n == len(t)
    assert server.body_bytes() < size * 1.25 + (1 << 20)


SMALL = 200
WRITERS = {
    "parquet": (hd.read_parquet, pq.write_table),
    "csv": (hd.read_csv, pa.csv.write_csv),
    "arrow": (hd.read_arrow, lambda t, path: hd.from_arrow(t).write_arrow(str(path), single_file=True)),
}


def test_a_long_file_in_gzip_travels_ahead_of_its_reads(server, tmp_path, monkeypatch):
    """The next range was asked for when the one before it was read up."""
    numbers = np.random.default_rng(0).integers(0, 1 << 62, 1_200_000)
    path = tmp_path / "numbers.csv.gz"
    path.write_bytes(gzip.compress(b"n\n" + b"\n".join(b"%d" % n for n in numbers), 1))
    monkeypatch.setattr(hd.DataContext.get_current(), "memory_limit_bytes", 64 << 20)
    server.root, server.delay_s = tmp_path, 0.15
    at_once = []
    server.fault = lambda number, handler: at_once.append(server.at_once)
    found = hd.read_csv(f"{server.url}/numbers.csv.gz").to_arrow()
    assert np.array_equal(found["n"].to_numpy(), numbers)
    assert max(at_once) > 1
    assert server.body_bytes() < path.stat().st_size + (8 << 20)  # the beginning gives the schema, too


def small_files(folder, kind):
    for i in range(SMALL):
        t = pa.table({"id": range(i * 10, i * 10 + 10), "text": ["word"] * 10})
        WRITERS[kind][1](t, folder / f"{i:03}.{kind}")
    return t.schema


def requests_of_files(server):
    """How often each file was asked for."""
    return Counter(path for method, path, _, _ in server.requests if method == "GET")


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("work", ["rows", "count", "unify"])
def test_small_files_are_one_request_each_and_many_at_once(kind, work, server, tmp_path):
    """Six were under way for rows, and two for count() and unify, as many as threads."""
    small_files(tmp_path, kind)
    server.root, server.delay_s = tmp_path, 0.03
    urls = [f"{server.url}/{i:03}.{kind}" for i in range(SMALL)]
    once = {"hedges": False, "timeout": 100}  # a machine that is slow for a moment asks again, else
    ds = WRITERS[kind][0](urls, storage_options=once, **({"unify": "all"} if work == "unify" else {}))
    server.forget()
    if work == "rows":
        assert ds.to_arrow()["id"].to_pylist() == list(range(SMALL * 10))
    elif work == "count":
        assert ds.count() == SMALL * 10
    else:
        assert ds.columns() == ["id", "text"]
    assert set(requests_of_files(server).values()) == {1} and len(requests_of_files(server)) == SMALL
    assert server.most_at_once > 16


def a_tar(path, values):
    with tarfile.open(path, "w") as tar:
        for i, data in enumerate(values):
            info = tarfile.TarInfo(f"{i:06}.bin")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


def a_tfrecord(path, values):
    hd.from_items([{"bytes": v} for v in values]).write_tfrecords(path.parent / "made")
    (made,) = (path.parent / "made").glob("*.tfrecord*")
    made.rename(path)


@pytest.mark.parametrize("limit", [24 << 20, 1 << 30])
@pytest.mark.parametrize("bytes_of_each", [40_000, 3_000_000])
@pytest.mark.parametrize("kind", ["tar", "tfrecord"])
def test_units_are_not_walked_by_a_request_for_each(
    server, tmp_path, monkeypatch, kind, bytes_of_each, limit
):
    """The story: an archive of 92 MB took 1,100 requests, one after another, before its first row."""
    rng = np.random.default_rng(0)
    wanted = [rng.bytes(bytes_of_each) for _ in range(24_000_000 // bytes_of_each)]
    (a_tar if kind == "tar" else a_tfrecord)(tmp_path / f"a.{kind}", wanted)
    monkeypatch.setattr(hd.DataContext.get_current(), "memory_limit_bytes", limit)
    server.root = tmp_path
    url, options = f"{server.url}/a.{kind}", {"hedges": False, "timeout": 100}
    if kind == "tar":
        ds = hd.read_webdataset(url, decoder=None, storage_options=options).rename_columns({"bin": "bytes"})
    else:
        ds = hd.read_tfrecords(url, storage_options=options)
    found = [v for b in ds.iter_batches(batch_size=10) for v in b["bytes"].tolist()]
    assert found == wanted
    assert len(server.requests) < 200
    # for the columns of all files, the places of rows, the rows; where memory is short, some bytes once more
    assert server.body_bytes() < (4 if limit < 1 << 30 else 2) * 24_000_000


@pytest.mark.parametrize("kind", ["tar", "tfrecord"])
def test_a_version_is_walked_once(server, tmp_path, monkeypatch, kind):
    """Each schema, run and epoch read through all files to find their rows: their bytes travelled twice."""
    rng = np.random.default_rng(0)
    wanted = []
    make = a_tar if kind == "tar" else a_tfrecord
    for name in "ab":
        values = [rng.bytes(40_000) for _ in range(300)]
        make(tmp_path / f"{name}.{kind}", values)
        wanted += values
    server.root = tmp_path
    urls = [f"{server.url}/{name}.{kind}" for name in "ab"]
    bytes_of_all = sum((tmp_path / f"{name}.{kind}").stat().st_size for name in "ab")

    def rows(**more):
        options = {"storage_options": {"hedges": False, "timeout": 100}, **more}
        if kind == "tar":
            ds = hd.read_webdataset(urls, decoder=None, **options).rename_columns({"bin": "bytes"})
        else:
            ds = hd.read_tfrecords(urls, **options)
        return [v for b in ds.iter_batches(batch_size=10) for v in b["bytes"].tolist()]

    # a reader keeps little, so that what is read twice travels twice
    monkeypatch.setattr(hd.DataContext.get_current(), "memory_limit_bytes", 24 << 20)
    assert rows() == wanted
    while server.at_work:
        time.sleep(0.01)
    server.forget()
    assert rows() == wanted
    while server.at_work:
        time.sleep(0.01)
    assert server.body_bytes() < 1.3 * bytes_of_all  # 2.4 times as many
    make(tmp_path / f"b.{kind}", values[:100])  # another version: other rows, in another number
    assert rows() == wanted[:400]
    monkeypatch.setattr(hd.DataContext.get_current(), "memory_limit_bytes", 1 << 30)
    server.etags = dict.fromkeys(tmp_path.iterdir(), 'W/"weak"')
    for _ in range(2):  # what has no version is walked each time
        assert rows() == wanted[:400]


def test_a_walk_serves_other_columns(server, tmp_path):
    """A later archive has the columns of the first one: its walk serves no other columns."""
    for name, suffixes in (("a", ["x"]), ("b", ["x", "y"])):
        with tarfile.open(tmp_path / f"{name}.tar", "w") as tar:
            for i in range(3):
                for suffix in suffixes:
                    info = tarfile.TarInfo(f"{i}.{suffix}")
                    info.size = 1
                    tar.addfile(info, io.BytesIO(str(i).encode()))
    server.root = tmp_path
    a, b = f"{server.url}/a.tar", f"{server.url}/b.tar"

    def columns(*urls):
        ds = hd.read_webdataset(list(urls), decoder=None)
        return sorted({*ds.columns()} - {"__url__"}), [bytes(row["x"]) for row in ds.take_all()]

    for _ in range(2):
        assert columns(a, b) == (["__key__", "x"], [b"0", b"1", b"2"] * 2)
        assert columns(b) == (["__key__", "x", "y"], [b"0", b"1", b"2"])
        assert columns(b, a) == (["__key__", "x", "y"], [b"0", b"1", b"2"] * 2)


def test_files_that_names_rule_out_are_not_asked_for(server, tmp_path):
    """Their footers were announced, for nothing."""
    for i in range(20):
        folder = tmp_path / f"part={i}"
        folder.mkdir()
        pq.write_table(pa.table({"id": [i] * 10}), folder / "0.parquet")
    server.root = tmp_path
    urls = [f"{server.url}/part={i}/0.parquet" for i in range(20)]
    ds = hd.read_parquet(urls, partitioning="hive")
    ds.schema()
    server.forget()
    assert ds.filter(expr=col("part") == "13").to_arrow()["id"].to_pylist() == [13] * 10
    assert list(requests_of_files(server)) == ["/part=13/0.parquet"]


def test_the_only_thread_does_not_wait_for_a_file(server, tmp_path):
    """The thread that opened the second file waited for its footer, and nobody read the first one."""
    rng = np.random.default_rng(3)
    for name in "ab":
        pq.write_table(pa.table({"x": rng.random(200_000)}), tmp_path / f"{name}.parquet")
    server.root = tmp_path
    held, first_rows = [], threading.Event()

    def fault(number, handler):
        if handler.command == "GET" and "b.parquet" in handler.path:
            held.append(first_rows.wait(60))
        elif handler.command == "GET":
            time.sleep(0.05)  # the second file's turn comes before the first file's rows are here

    server.fault = fault
    context, before = DataContext.get_current(), DataContext.get_current().num_threads
    context.num_threads = 1
    try:
        batches = hd.read_parquet([f"{server.url}/{n}.parquet" for n in "ab"]).iter_batches(batch_size=1000)
        n = 0
        for batch in batches:
            first_rows.set()
            n += len(batch["x"])
        assert n == 400_000 and all(held)
    finally:
        context.num_threads = before


@pytest.mark.skipif(not shutil.which("openssl"), reason="openssl makes the certificate")
def test_certificates_are_checked(server, tmp_path):
    cert, key = tmp_path / "c.pem", tmp_path / "k.pem"
    name = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    make = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    subprocess.run(
        [*make, *name, "-days", "2", "-keyout", key, "-out", cert], check=True, capture_output=True
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    server.server.socket = context.wrap_socket(server.server.socket, server_side=True)
    url = server.url.replace("http:", "https:") + "/a.parquet"
    program = [sys.executable, "-m", "headrace", "count", url]

    def count(**env):
        return subprocess.run(program, capture_output=True, text=True, timeout=120, env={**os.environ, **env})

    done = count(SSL_CERT_FILE=str(cert))
    assert done.returncode == 0 and str(ROWS) in done.stdout.replace(",", ""), done.stderr
    refused = count()
    assert refused.returncode == 1 and "the server's certificate is not valid" in refused.stderr
    program[-1] = url.replace("127.0.0.1", "localhost")  # a name that the certificate does not have
    other = count(SSL_CERT_FILE=str(cert))
    what = "the server's certificate is not valid: it is for another name than the host localhost"
    assert other.returncode == 1 and what in other.stderr
