"""Readers and writers with the stores' own servers (real_servers.py): the rows are those of local files."""

import hashlib
import os
import re
import threading
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from real_servers import Azurite, FakeGcs, Hadoop, JuiceFS, Nginx, Rclone, Seaweed, need_tools
from test_store_formats import (
    PATTERNS,
    READ,
    TINY,
    VALUES,
    WRITTEN,
    assert_same,
    data_files,
    outcome,
    rows_of,
)
from test_store_formats import visible as in_order
from test_store_formats import write as write_locally

import headrace.data as hd
from headrace.data.expressions import col, lit
from headrace.exceptions import DataError, HeadraceError, NotFoundError, StorageError

need_tools()

ODD = ["a b", "a+b", "100%", "é", "x=1&y", "a'(b)!", "~-", "q#", "%2F", "日本", "𝄞", "[x]", "*", "?"]
FLAT = ["x//y", "//z"]  # no file of a disk has such a name

ALL = {
    "s3": Seaweed,
    "juicefs": JuiceFS,
    "rclone": Rclone,
    "az": Azurite,
    "gs": FakeGcs,
    "hdfs": Hadoop,
    "http": Nginx,
}


@pytest.fixture(scope="module", params=ALL)
def running(request, tmp_path_factory):
    store = ALL[request.param](tmp_path_factory.mktemp(request.param))
    yield store
    store.stop()


@pytest.fixture
def store(running, monkeypatch):
    for name in [n for n in os.environ if re.match("AWS_|AZURE_|STORAGE_EMULATOR", n)]:
        monkeypatch.delenv(name)
    for name, value in running.env.items():
        monkeypatch.setenv(name, value)
    return running


@pytest.fixture
def writable(store):
    if not store.writes:
        pytest.skip("read only; fake-gcs-server has no uploads of several parts by XML")
    return store


@pytest.fixture
def listing(store):
    if not store.lists:
        pytest.skip("HTTP has no folders")
    return store


def test_folders_patterns_and_order(listing, tmp_path):
    for year in (2023, 2024):
        for part in range(3):
            path = tmp_path / "sales" / f"year={year}" / f"{part}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.table({"id": np.arange(100) + 1000 * year + 100 * part}), path)
            listing.put(str(path.relative_to(tmp_path)), path.read_bytes())
    for where in ("sales", "sales/", "sales/*/[12].parquet", "sales/year=2024", "sales/year=2023/1.parquet"):
        remote = hd.read_parquet(f"{listing.url}/{where}")
        assert remote.to_arrow().equals(hd.read_parquet(f"{tmp_path}/{where}").to_arrow())
    with pytest.raises(NotFoundError):
        hd.read_parquet(f"{listing.url}/sales/*/[45].parquet")
    with pytest.raises(NotFoundError):
        hd.read_parquet(f"{listing.url}/purchases")


def test_odd_keys(store):
    names = ODD + FLAT * store.flat
    for i, name in enumerate(names):
        store.put(f"odd/{name}.txt", f"line {i}\n".encode())
    urls = [store.url_of(f"odd/{name}") for name in in_order(names)]
    for i, name in enumerate(names):
        assert hd.read_text(store.url_of(f"odd/{name}.txt")).take_all() == [{"text": f"line {i}"}]
    if store.lists:
        ds = hd.read_text(f"{store.url}/odd", include_paths=True)
        assert [r["path"] for r in ds.take_all()] == urls


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_of_odd_keys(pattern, listing):
    if not listing.flat:
        pytest.skip("keys are paths")
    names = sorted({name for found in PATTERNS.values() for name in found if "\\" not in name})
    for name in names:
        listing.put(f"globs/{name}", b"1\n")
    where = f"{listing.url}/globs/{pattern.removeprefix('odd/')}"
    if not PATTERNS[pattern]:
        with pytest.raises(NotFoundError, match="no object matches"):
            hd.read_text(where).input_files()
        return
    found = [f.removeprefix(f"{listing.url}/globs/") for f in hd.read_text(where).input_files()]
    assert found == [name for name in PATTERNS[pattern] if name in names]  # Azurite makes '/' of '\\'


def test_small_and_large_objects(store):
    data = np.random.default_rng(0).bytes(30_000_000)
    store.put("sizes/large", data)
    store.put("sizes/one", b"x")
    found = {
        r["path"].rpartition("/")[2]: r["bytes"]
        for r in hd.read_binary_files(
            [store.url_of(f"sizes/{n}") for n in ("large", "one")], include_paths=True
        ).take_all()
    }
    assert found == {"large": data, "one": b"x"}


def test_more_keys_than_a_page(listing):
    if isinstance(listing, Hadoop):
        pytest.skip("a list of HDFS has one page, and a file takes a tenth of a second")
    names = [f"in/{i:04}.txt" for i in range(1005)]
    for name in [*names, "in-1.txt", "in.d/x.txt", "out.txt"]:
        listing.put(f"many/{name}", b"1\n")
    ds = hd.read_text(f"{listing.url}/many/", include_paths=True)
    found = [r["path"].removeprefix(f"{listing.url}/many/") for r in ds.take(4)]
    assert found == ["in-1.txt", "in.d/x.txt", *names[:2]]  # Seaweed and rclone have in/ on the first page
    assert ds.count() == 1008


def test_an_object_that_is_replaced_is_one_error(store):
    store.put("again.txt", b"one\n")
    ds = hd.read_text(f"{store.url}/again.txt")
    time.sleep(1)
    store.put("again.txt", b"two\n")
    with pytest.raises(DataError, match=r"again.txt: the (object|file) was replaced"):
        ds.take_all()


def test_wrong_keys_are_refused(store, monkeypatch):
    if not store.checks_keys:
        pytest.skip("fake-gcs-server takes any request")
    store.put("x.txt", b"one\n")
    monkeypatch.setenv(*store.wrong)
    with pytest.raises(HeadraceError, match=r"x.txt: access denied \(HTTP 403\)") as e:
        hd.read_text(f"{store.url}/x.txt")
    assert "hush" not in str(e.value)


@pytest.mark.parametrize("name", WRITTEN)
def test_what_writers_write(name, store, tmp_path):
    write_locally(name, str(tmp_path))
    files, read = data_files(tmp_path), WRITTEN[name][-1]
    keys = [f"a b+%é/{name}/{file.name}" for file in files]
    if store.writes:
        write_locally(name, store.url_of(f"a b+%é/{name}"))
    else:
        for key, file in zip(keys, files, strict=True):
            store.put(key, file.read_bytes())
    where = store.url_of(f"a b+%é/{name}") if store.lists else [store.url_of(key) for key in keys]
    assert_same(read(where), read(str(tmp_path)))


@pytest.mark.parametrize("name", READ)
def test_what_others_write(name, store, tmp_path):
    make, read, arguments = READ[name]
    data = make()
    (tmp_path / "day=7").mkdir()
    (tmp_path / "day=7" / name).write_bytes(data)
    store.put(f"day=7/{name}", data)
    local = read(str(tmp_path / "day=7" / name), partitioning="hive", **arguments)
    assert rows_of(read(store.url_of(f"day=7/{name}"), partitioning="hive", **arguments)).equals(
        rows_of(local)
    )


def test_hive_partitions(store, tmp_path):
    values = VALUES if store.flat else [v for v in VALUES if v not in ("a//b",)]
    table = pa.table({"k": values * 2, "j": [1, 2] * len(values), "x": range(2 * len(values))})
    hd.from_arrow(table).write_parquet(str(tmp_path), partition_cols=["k", "j"])
    local = hd.read_parquet(str(tmp_path))
    if store.writes:
        hd.from_arrow(table).write_parquet(store.url_of("hive é+%/t"), partition_cols=["k", "j"])
    keys = [f"hive é+%/t/{f.relative_to(tmp_path)}" for f in data_files(tmp_path)]
    for key in () if store.writes else keys:
        store.put(key, (tmp_path / key.removeprefix("hive é+%/t/")).read_bytes())
    if not store.lists:
        remote = hd.read_parquet([store.url_of(key) for key in keys])
        assert sorted(r["x"] for r in remote.take_all()) == list(range(table.num_rows))
        return
    remote = hd.read_parquet(store.url_of("hive é+%/t"))
    assert remote.to_arrow().equals(local.to_arrow())
    for value in ("a/b", "a%2Fb", "?", "*"):
        found = remote.filter(expr=(col("k") == value) & (col("j") == "1")).take_all()
        assert [r["k"] for r in found] == [value] * sum(
            k == value and j == 1 for k, j in zip(*(table[c].to_pylist() for c in "kj"), strict=True)
        )


@pytest.mark.parametrize("data", [b"", b"x", b"\n"])
def test_objects_of_no_or_one_byte(data, store, tmp_path):
    for suffix, read in TINY.items():
        (tmp_path / f"a.{suffix}").write_bytes(data)
        store.put(f"tiny{len(data)}/a.{suffix}", data)
        local = outcome(read, str(tmp_path / f"a.{suffix}"), str(tmp_path))
        url = store.url_of(f"tiny{len(data)}/a.{suffix}")
        assert outcome(read, url, store.url_of(f"tiny{len(data)}")) == local


def test_modes(writable):
    where = f"{writable.url}/modes"
    hd.range(500).write_parquet(where, max_rows_per_file=50)
    hd.range(500).write_parquet(where, max_rows_per_file=50)
    assert hd.read_parquet(where).count() == 1000
    hd.range(7).write_parquet(where, mode="overwrite")
    assert hd.read_parquet(where).count() == 7
    one = f"{writable.url}/one.csv"
    hd.range(3).write_csv(one, single_file=True)
    with pytest.raises(StorageError, match=r"one.csv: the file exists already"):
        hd.range(4).write_csv(one, single_file=True)
    hd.range(4).write_csv(one, single_file=True, mode="overwrite")
    assert hd.read_csv(one).count() == 4


def test_one_of_several_jobs_creates_a_folder(writable):
    """The others get an error, and the folder has the rows of one job."""
    if not writable.conditions:
        pytest.skip("it writes whatever the condition of the request says")
    for attempt in range(3):
        where, jobs, ended = f"{writable.url}/claims/{attempt}", 4, {}

        def write(job, where=where, ended=ended):
            rows = hd.range(100).with_column("job", lit(job))
            try:
                rows.write_parquet(where, mode="create", max_rows_per_file=20)
            except HeadraceError as e:
                ended[job] = str(e)
            else:
                ended[job] = None

        threads = [threading.Thread(target=write, args=(job,)) for job in range(jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        winners = [job for job, wrong in ended.items() if wrong is None]
        assert len(ended) == jobs and len(winners) == 1, ended
        assert all(re.search("another job|exist|contains", wrong) for wrong in ended.values() if wrong), ended
        assert hd.read_parquet(where).unique("job") == winners and hd.read_parquet(where).count() == 100


def test_a_file_of_many_parts(writable):
    values = np.random.default_rng(0).integers(0, 1 << 60, 5_000_000)
    where = f"{writable.url}/large.npy"
    hd.from_numpy(values).write_numpy(where, column="data", single_file=True)
    data = hd.read_binary_files(where).take_all()[0]["bytes"]
    assert hashlib.sha256(data[-values.nbytes :]).digest() == hashlib.sha256(values.tobytes()).digest()
