"""filesystem= of any class of fsspec and pyarrow: Python threads answer the engine's requests."""

import hashlib
import os
import pickle
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.fs
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

import headrace.data as hd
from headrace.data import DataContext, SaveMode
from headrace.data.served import threads
from headrace.exceptions import (
    DataError,
    HeadraceError,
    InvalidArgument,
    NotFoundError,
    StorageError,
    UnsupportedError,
)

fsspec = pytest.importorskip("fsspec")
from fsspec.implementations.local import LocalFileSystem  # noqa: E402
from fsspec.implementations.memory import MemoryFileSystem  # noqa: E402

ROWS = 6_000


class Store(MemoryFileSystem):
    """A user's filesystem with files of its own: it counts calls, is slow, and fails where it is told to."""

    protocol = "store"
    cachable = False
    root_marker = ""

    def __init__(self):
        super().__init__()
        self.store, self.pseudo_dirs = {}, [""]
        self.calls, self.at_once, self.most_at_once = [], 0, 0
        self.pause_s, self.fault = 0.0, None
        self.lock = threading.Lock()

    def _call(self, name, path):
        with self.lock:
            self.calls.append((name, path))
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            if self.fault is not None:
                self.fault(name, path)
            if self.pause_s:
                time.sleep(self.pause_s)
        finally:
            with self.lock:
                self.at_once -= 1

    def info(self, path, **kwargs):
        self._call("info", path)
        return super().info(path, **kwargs)

    def cat_file(self, path, start=None, end=None, **kwargs):
        self._call("cat_file", path)
        return super().cat_file(path, start, end, **kwargs)

    def mv(self, path1, path2, **kwargs):
        self._call("mv", path2)
        return super().mv(path1, path2, **kwargs)

    def files(self):
        return sorted(self.store)

    def count(self, name):
        return sum(found == name for found, _ in self.calls)


class OnlyOpen(fsspec.AbstractFileSystem):
    """A user's filesystem that can do the least: files by open(), over a folder of this machine."""

    protocol = "only"
    cachable = False

    def __init__(self, root):
        super().__init__()
        self.root, self.opened = str(root), 0

    def _at(self, path):
        return os.path.join(self.root, self._strip_protocol(path).lstrip("/"))

    def ls(self, path, detail=True, **kwargs):
        at, path = self._at(path), self._strip_protocol(path)
        if not os.path.exists(at):
            raise FileNotFoundError(path)
        if os.path.isfile(at):
            found = [(path, at)]
        else:
            found = [(f"{path}/{n}".lstrip("/"), os.path.join(at, n)) for n in sorted(os.listdir(at))]
        made = [
            {
                "name": name,
                "size": os.path.getsize(p),
                "type": "directory" if os.path.isdir(p) else "file",
                "mtime": os.path.getmtime(p),
            }
            for name, p in found
        ]
        return made if detail else [m["name"] for m in made]

    def _open(self, path, mode="rb", **kwargs):
        self.opened += 1
        return open(self._at(path), mode)

    def mkdir(self, path, create_parents=True, **kwargs):
        self.makedirs(path, exist_ok=True)

    def makedirs(self, path, exist_ok=False):
        os.makedirs(self._at(path), exist_ok=exist_ok)

    def rmdir(self, path):
        os.rmdir(self._at(path))

    def rm_file(self, path):
        os.remove(self._at(path))


def table():
    rng = np.random.default_rng(1)
    values = {name: rng.random(ROWS) for name in "abcd"}
    return pa.table({"id": np.arange(ROWS), **values, "name": [f"name {i % 97}" for i in range(ROWS)]})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("served")
    t = table()
    (root / "data").mkdir()
    pq.write_table(t, root / "data/a.parquet", row_group_size=ROWS // 8)
    pa.csv.write_csv(t, root / "data/a.csv")
    pa.csv.write_csv(t, pa.output_stream(root / "data/b.csv.gz"))
    ds = hd.from_arrow(t)
    ds.write_json(root / "data/json")
    ds.write_arrow(root / "data/arrow")
    ds.limit(500).write_tfrecords(root / "data/tfrecords")
    ds.limit(500).select_columns(["id", "name"]).write_webdataset(root / "data/webdataset")
    (root / "data/a.txt").write_text("".join(f"line {i}\n" for i in range(ROWS)))
    for i in range(40):
        (root / f"data/small {i:02}%é#?.bin").write_bytes(bytes([i]) * (i * 100))
    np.save(root / "data/a.npy", np.arange(ROWS).reshape(-1, 2))
    (root / "data/empty.txt").write_bytes(b"")
    pictures = np.arange(2 * 4 * 4 * 3, dtype=np.uint8).reshape(2, 4, 4, 3)
    hd.from_numpy(pictures).write_images(root / "data/images", "data")
    for year in (2023, 2024):
        for part in range(2):
            path = root / "data" / "sales" / f"year={year}" / f"{part}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.table({"id": np.arange(10) + 1000 * year + 100 * part}), path)
    (root / "data/sales/_SUCCESS").write_text("")
    (root / "data/sales/.hidden").mkdir()
    (root / "data/sales/.hidden/x.parquet").write_text("no table")
    pa.orc.write_table(t, root / "data/a.orc")
    return root


def store_of(folder):
    fs = Store()
    for at in (p for p in sorted(folder.rglob("*")) if p.is_file()):
        fs.pipe_file(str(at.relative_to(folder)), at.read_bytes())
    fs.calls.clear()
    return fs


@pytest.fixture
def store(folder):
    return store_of(folder)


class Renamed(LocalFileSystem):
    """fsspec's local files under another class: the engine does not know what it does."""

    protocol = "renamed"
    cachable = False


def kinds(folder):
    """Filesystems with the files of the folder, and the path of the folder in each."""
    local = pyarrow.fs.LocalFileSystem()
    yield store_of(folder), ""
    yield OnlyOpen(folder), ""
    yield Renamed(), f"{folder}/"
    yield pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(store_of(folder))), ""
    yield pyarrow.fs.PyFileSystem(Handler(local)), f"{folder}/"
    yield pyarrow.fs.SubTreeFileSystem(str(folder), pyarrow.fs.PyFileSystem(Handler(local))), ""


class Handler(pyarrow.fs.FileSystemHandler):
    """A user's filesystem for pyarrow."""

    def __init__(self, fs):
        self.fs_ = fs

    def __eq__(self, other):
        return isinstance(other, Handler)

    def __ne__(self, other):
        return not self == other


def _of_handler(name):
    return lambda self, *args: getattr(self.fs_, name)(*args)


for name in pyarrow.fs.FileSystemHandler.__abstractmethods__:
    plain = {"get_file_info_selector": "get_file_info", "delete_root_dir_contents": "delete_dir_contents"}
    setattr(Handler, name, _of_handler(plain.get(name, name)))
Handler.get_type_name = lambda self: "handler"
Handler.open_output_stream = lambda self, path, metadata: self.fs_.open_output_stream(path)
Handler.open_append_stream = lambda self, path, metadata: self.fs_.open_append_stream(path)
Handler.create_dir = lambda self, path, recursive: self.fs_.create_dir(path, recursive=recursive)
Handler.__abstractmethods__ = frozenset()

READERS = {
    "parquet": (hd.read_parquet, "a.parquet"),
    "csv": (hd.read_csv, "*.csv*"),
    "json": (hd.read_json, "json"),
    "arrow": (hd.read_arrow, "arrow"),
    "text": (hd.read_text, "*.txt"),
    "binary": (hd.read_binary_files, "small*"),
    "numpy": (hd.read_numpy, "a.npy"),
    "tfrecords": (hd.read_tfrecords, "tfrecords"),
    "webdataset": (hd.read_webdataset, "webdataset"),
    "images": (hd.read_images, "images"),
    "orc": (hd.read_orc, "a.orc"),
    "partitions": (hd.read_parquet, "sales"),
}


def comparable(ds, root=""):
    return [str(row).replace(root, "") for row in ds.take_all()]


@pytest.mark.parametrize("kind", READERS)
def test_rows_are_those_of_the_local_file(kind, folder):
    read, pattern = READERS[kind]
    local = read(f"{folder}/data/{pattern}")
    want = comparable(local, f"{folder}/")
    for fs, root in kinds(folder):
        found = read(f"{root}data/{pattern}", filesystem=fs)
        assert found.schema() == local.schema()
        assert found.count() == local.count()
        assert comparable(found, root) == want, type(fs)


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
def test_folders_patterns_and_partitions(where, folder):
    local = hd.read_parquet(f"{folder}/data/{where}", include_paths=True)
    want = comparable(local, f"{folder}/")
    for fs, root in kinds(folder):
        found = hd.read_parquet(f"{root}data/{where}", filesystem=fs, include_paths=True)
        assert comparable(found, root) == want
        assert [f.replace(root, "") for f in found.input_files()] == [
            f.replace(f"{folder}/", "") for f in local.input_files()
        ]


def test_filters_of_files(store):
    read = {"filesystem": store, "partitioning": None}
    kept = hd.read_parquet("data/sales", partition_filter=lambda paths: paths[1:3], **read)
    assert kept.input_files() == ["data/sales/year=2023/1.parquet", "data/sales/year=2024/0.parquet"]
    assert kept.count() == 20
    assert hd.read_binary_files("data", file_extensions=["npy"], **read).count() == 1
    assert hd.read_parquet(["data/none", "data/sales"], ignore_missing_paths=True, **read).count() == 40
    assert hd.read_parquet("store://data/sales", **read).count() == 40


def test_what_is_not_there_is_named(store):
    for path in ("none", "none/*.csv", "data/sales/*.none", "data/a.parquet/x"):
        with pytest.raises(NotFoundError, match=rf"^{path.replace('*', '.')}: no "):
            hd.read_csv(path, filesystem=store)
    with pytest.raises(InvalidArgument, match="expected a path or a URL of the filesystem"):
        hd.read_csv("s3://bucket/x.csv", filesystem=store)
    with pytest.raises(TypeError, match="expected one of pyarrow.fs or fsspec, found int"):
        hd.read_csv("x.csv", filesystem=7)
    with pytest.raises(InvalidArgument, match="cache"):
        hd.read_csv("data/a.csv", filesystem=store, cache=True)
    with pytest.raises(InvalidArgument, match="without the argument filesystem"):
        hd.read_csv("filesystem:///data/a.csv")


def test_many_requests_are_under_way_at_once(store):
    store.pause_s = 0.02
    ds = hd.read_binary_files("data/small*", filesystem=store)
    assert len(ds.take_all()) == 40
    assert 4 <= store.most_at_once <= threads.MOST


def test_few_bytes_are_read_for_few_rows(store):
    ds = hd.read_parquet("data/a.parquet", filesystem=store)
    assert store.count("cat_file") == 0
    ds.schema()
    assert ds.count() == ROWS
    assert store.count("cat_file") == 1
    ds.select_columns(["id"]).take(5)
    assert ds.select_columns(["id"]).stats("dict") is not None
    assert store.count("cat_file") <= 4


@pytest.mark.parametrize("kind", ["parquet", "csv", "text"])
def test_a_small_memory_limit_holds(kind, folder, store, monkeypatch):
    read, name = READERS[kind]
    monkeypatch.setattr(DataContext.get_current(), "memory_limit_bytes", 16 << 20)
    found = read(f"data/{name}", filesystem=store).to_arrow()
    assert found.equals(read(f"{folder}/data/{name}").to_arrow())


def test_an_exception_is_the_cause_of_a_typed_error(store):
    class Broken(Exception):
        pass

    def fault(name, path):
        if name == "cat_file":
            raise Broken("the wire is cut")

    store.fault = fault
    with pytest.raises(
        StorageError, match=r"^data/a.csv: Store: .*Broken: the wire is cut"
    ) as e:  # as OSError
        hd.read_csv("data/a.csv", filesystem=store).take_all()
    assert type(e.value.__cause__).__name__ == "Broken"
    assert "in fault" in e.value.__cause__.__notes__[0]
    store.fault = lambda name, path: (_ for _ in ()).throw(PermissionError("not yours"))
    with pytest.raises(OSError, match="data: Store: PermissionError: not yours"):
        hd.read_csv("data", filesystem=store)


def test_connections_that_break_are_tried_again(store, monkeypatch):
    monkeypatch.setattr("headrace.data.served.requests.PAUSE_S", 0.001)
    numbers = random.Random(7)

    def fault(name, path):
        if name in ("cat_file", "info") and numbers.random() < 0.05:
            raise ConnectionResetError("reset")

    store.fault = fault
    found = hd.read_binary_files("data/small*", filesystem=store).take_all()
    assert [len(r["bytes"]) for r in found] == [i * 100 for i in range(40)]


@pytest.mark.parametrize("seed", range(4))
def test_faults_at_random_give_the_rows_or_one_error(seed, store):
    numbers = random.Random(seed)

    def fault(name, path):
        time.sleep(numbers.random() * 0.003)
        if numbers.random() < 0.01:
            raise OSError(f"no luck with {name}")

    want = hd.read_parquet("data/a.parquet", filesystem=store).to_arrow()
    store.fault = fault
    for _ in range(20):
        try:
            assert hd.read_parquet("data/a.parquet", filesystem=store).to_arrow().equals(want)
        except StorageError as e:
            assert "data/a.parquet: Store: OSError: no luck with" in str(e)


def test_a_file_that_is_replaced_is_one_error(store):
    ds = hd.read_csv("data/a.csv", filesystem=store)
    data = store.cat_file("data/a.csv")
    store.pipe_file("data/a.csv", data)
    with pytest.raises(DataError, match=r"data/a.csv: the file was replaced while it was read"):
        ds.take_all()
    ds = hd.read_csv("data/a.csv", filesystem=store)
    store.pipe_file("data/a.csv", data[: len(data) // 2])
    with pytest.raises(DataError, match="data/a.csv: the f.* (gives .* bytes at|was replaced)"):
        ds.take_all()


def test_a_resumed_run_reads_the_rest_of_the_same_files(folder, store):
    def feed(fs=store, root=""):
        return hd.read_parquet(f"{root}data/a.parquet", filesystem=fs).iter_batches(batch_size=300)

    whole = [b["id"].tolist() for b in feed(None, f"{folder}/")]
    batches, got = feed(), []
    for batch in batches:
        got.append(batch["id"].tolist())
        if len(got) == 12:
            break
    state = batches.state_dict()
    rest = feed()
    rest.load_state_dict(state)
    assert got + [b["id"].tolist() for b in rest] == whole
    store.pipe_file("data/a.parquet", store.cat_file("data/a.parquet") + b"x")
    changed = hd.read_parquet("data/a.parquet", filesystem=store)
    again = changed.iter_batches(batch_size=300)
    again.load_state_dict(state)
    with pytest.raises(HeadraceError, match=r"a.parquet"):
        list(again)


def test_a_killed_run_resumes(tmp_path, folder):
    """The filesystem is a user's class: it counts what it gives, and the process dies in the middle."""
    script = textwrap.dedent("""
        import os, pickle, sys
        sys.path.insert(0, {here!r})
        import headrace.data as hd
        from test_served import OnlyOpen
        ds = hd.read_parquet("data/a.parquet", filesystem=OnlyOpen({folder!r}))
        batches = ds.random_shuffle(seed=3).iter_batches(batch_size=150)
        state, seen = {state!r}, open({seen!r}, "a")
        if os.path.exists(state):
            batches.load_state_dict(pickle.load(open(state, "rb")))
        for i, batch in enumerate(batches):
            seen.write("".join(f"{{x}}\\n" for x in batch["id"]))
            seen.flush()
            pickle.dump(batches.state_dict(), open(state + ".new", "wb"))
            os.replace(state + ".new", state)
            if i == 13:
                os.kill(os.getpid(), 9)
    """).format(
        here=os.path.dirname(__file__), folder=str(folder), state=f"{tmp_path}/s", seen=f"{tmp_path}/n"
    )
    runs = [subprocess.run([sys.executable, "-c", script]).returncode for _ in range(3)]
    assert runs == [-9, -9, 0]
    want = hd.read_parquet(f"{folder}/data/a.parquet").random_shuffle(seed=3).take_all()
    lines = "".join(f"{r['id']}\n" for r in want)
    assert hashlib.sha256((tmp_path / "n").read_bytes()).digest() == hashlib.sha256(lines.encode()).digest()


def test_an_interrupt_ends_a_wait(store):
    never = threading.Event()
    for what in ("info", "cat_file"):
        begun = threading.Event()

        def fault(name, path, what=what, begun=begun):
            if name == what:
                begun.set()
                never.wait()

        def interrupt(begun=begun):
            begun.wait()
            os.kill(os.getpid(), signal.SIGINT)

        store.fault = fault
        other = threading.Thread(target=interrupt)
        other.start()
        with pytest.raises(KeyboardInterrupt):
            hd.read_parquet("data/a.parquet", filesystem=store).take_all()
        other.join()
    never.set()


def test_a_run_that_waits_ends_at_once(store):
    never, begun = threading.Event(), threading.Event()
    schema = pa.schema([("id", pa.int64())])
    ds = hd.read_parquet("data/sales", filesystem=store, schema=schema, partitioning=None)
    first = next(p for p in ds.input_files())

    def fault(name, path):
        if name == "cat_file" and path != first:
            begun.set()
            never.wait()

    store.fault = fault
    reads = ds.iter_batches(batch_size=10)
    assert len(next(iter(reads))["id"]) == 10
    begun.wait()
    reads.close()
    never.set()


def test_forks_and_pickles(store, folder):
    ds = hd.read_parquet("data/sales", filesystem=store)
    assert ds.count() == 40
    pid = os.fork()
    if pid == 0:
        ok = ds.sum("id") is not None and hd.read_csv("data/a.csv", filesystem=store).count() == ROWS
        os._exit(0 if ok else 1)
    assert os.waitpid(pid, 0)[1] == 0

    class NoPickle(Store):
        def __reduce__(self):
            raise TypeError("it holds a lock")

    none = NoPickle()
    none.store = store.store
    with pytest.raises(UnsupportedError, match="cannot pickle the filesystem NoPickle: TypeError: it holds"):
        pickle.dumps(hd.read_parquet("data/sales", filesystem=none))
    only = hd.read_parquet("data/sales", filesystem=OnlyOpen(folder))
    assert pickle.loads(pickle.dumps(only)).take_all() == only.take_all()


def test_filesystems_and_threads_go(folder):
    only = OnlyOpen(folder)
    ds = hd.read_csv("data/a.csv", filesystem=only)
    ds.take(3)
    number = ds._node.args["filesystem"].number
    assert number in threads._threads.servers
    del ds
    deadline = time.monotonic() + 60
    while number in threads._threads.servers and time.monotonic() < deadline:
        time.sleep(0.01)
    assert number not in threads._threads.servers


def test_open_files_are_few(folder):
    only = OnlyOpen(folder)
    assert hd.read_binary_files("data/small*", filesystem=only).count() == 40
    hd.read_csv("data/a.csv", filesystem=only).take_all()
    opened = only.opened
    hd.read_parquet("data/a.parquet", filesystem=only).take_all()
    assert only.opened - opened <= threads.MOST


# ------------------------------------------------------------------------------------------------ writing

PICTURES = np.arange(2 * 4 * 4 * 3, dtype=np.uint8).reshape(2, 4, 4, 3)
FORMATS = {
    "parquet": (lambda ds, p, **f: ds.write_parquet(p, **f), hd.read_parquet),
    "arrow": (lambda ds, p, **f: ds.write_arrow(p, **f), hd.read_arrow),
    "csv": (lambda ds, p, **f: ds.write_csv(p, **f), hd.read_csv),
    "json": (lambda ds, p, **f: ds.write_json(p, **f), hd.read_json),
    "tfrecords": (lambda ds, p, **f: ds.write_tfrecords(p, **f), hd.read_tfrecords),
    "numpy": (lambda ds, p, **f: ds.write_numpy(p, column="id", **f), hd.read_numpy),
    "webdataset": (lambda ds, p, **f: ds.write_webdataset(p, **f), hd.read_webdataset),
}


def empty_kinds(folder):
    local = pyarrow.fs.LocalFileSystem()
    (folder / "only").mkdir(exist_ok=True)
    yield Store(), ""
    yield OnlyOpen(folder / "only"), ""
    yield Renamed(), f"{folder}/renamed/"
    yield pyarrow.fs.PyFileSystem(Handler(local)), f"{folder}/arrow/"


@pytest.mark.parametrize("name", FORMATS)
def test_each_format_comes_back_as_from_a_local_folder(name, tmp_path):
    write, read = FORMATS[name]
    ds = hd.range(100)
    write(ds, str(tmp_path / "local"))

    def rows(found):
        return [str({k: v for k, v in r.items() if not k.startswith("__")}) for r in found.take_all()]

    for fs, root in empty_kinds(tmp_path):
        out = write(ds, f"{root}a b+%é/out", filesystem=fs)
        assert rows(read(f"{root}a b+%é/out", filesystem=fs)) == rows(read(str(tmp_path / "local")))
        if isinstance(out, list):
            assert [r["path"].startswith(f"{root}a b+%é/out/") for r in out] == [True]
        assert not [f for f in all_files(fs, root) if ".part" in f]


def all_files(fs, root):
    if hasattr(fs, "find"):
        return fs.find(root)
    selector = pyarrow.fs.FileSelector(root, recursive=True)
    return [f.path for f in fs.get_file_info(selector) if f.is_file]


def ids(fs, path="out"):
    return sorted(r["id"] for r in hd.read_csv(path, filesystem=fs).take_all())


def test_modes(tmp_path):
    for fs, root in empty_kinds(tmp_path):
        out = f"{root}out"
        hd.range(5).write_csv(out, filesystem=fs)
        hd.range(5).write_csv(f"{out}/", filesystem=fs, mode=SaveMode.APPEND)
        assert ids(fs, out) == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
        with pytest.raises(StorageError, match=f"{out}: already contains files"):
            hd.range(5).write_csv(out, filesystem=fs, mode="create")
        assert hd.range(5).write_csv(out, filesystem=fs, mode="ignore") == []
        hd.range(3).write_csv(out, filesystem=fs, mode="overwrite")
        assert ids(fs, out) == [0, 1, 2]
        assert len(all_files(fs, out)) == 1
        one = f"{root}one.csv"
        hd.range(3).write_csv(one, filesystem=fs, single_file=True)
        with pytest.raises(StorageError, match=r"one.csv: .*the file exists already"):
            hd.range(3).write_csv(one, filesystem=fs, single_file=True)
        hd.range(4).write_csv(one, filesystem=fs, single_file=True, mode="overwrite")
        assert ids(fs, one) == [0, 1, 2, 3]


def test_images_partitions_and_a_header_that_comes_last(tmp_path):
    values = np.arange(3_000_000)
    for fs, root in empty_kinds(tmp_path):
        hd.from_numpy(PICTURES).write_images(f"{root}images", "data", filesystem=fs)
        assert hd.read_images(f"{root}images", filesystem=fs).count() == 2
        ds = hd.range(20).add_column("k", lambda b: np.array(["a/b", "x=1"] * 10)[: len(b["id"])])
        ds.write_parquet(f"{root}parts", partition_cols=["k"], filesystem=fs)
        found = hd.read_parquet(f"{root}parts", filesystem=fs).take_all()
        assert sorted(r["k"] for r in found) == ["a/b"] * 10 + ["x=1"] * 10
        one = f"{root}large.npy"
        hd.from_numpy(values).write_numpy(one, column="data", single_file=True, filesystem=fs)
        data = hd.read_numpy(one, filesystem=fs).to_arrow()["data"].to_numpy()
        assert np.array_equal(data, values)


def is_there(fs, path):
    if hasattr(fs, "exists"):
        return fs.exists(path)
    return fs.get_file_info(path).type != pyarrow.fs.FileType.NotFound


def test_a_failed_job_leaves_nothing(tmp_path):
    def fails(batch):
        if batch["id"][0] >= 20:
            raise ValueError("no")
        return batch

    for fs, root in empty_kinds(tmp_path):
        with pytest.raises((HeadraceError, ValueError), match="no"):
            job = hd.range(40).map_batches(fails, batch_size=10)
            job.write_csv(f"{root}a/out", filesystem=fs, max_rows_per_file=10)
        assert not is_there(fs, f"{root}a/out") and not is_there(fs, f"{root}a")


def test_a_move_that_fails_takes_the_names_back():
    fs = Store()
    hd.range(2).write_csv("out", filesystem=fs)
    before = fs.files()
    moved = []

    def fault(name, path):
        if name == "mv":
            moved.append(path)
            if len(moved) == 3:
                raise OSError("the third move")

    fs.fault = fault
    with pytest.raises(StorageError, match="out/.*: Store: OSError: the third move"):
        hd.range(60).write_csv("out", filesystem=fs, max_rows_per_file=10)
    assert len(moved) == 6 and fs.files() == before
    moved.clear()
    hd.range(20).write_csv("out", filesystem=fs, max_rows_per_file=10)
    assert len(fs.files()) == 3


def test_writing_without_room_or_rights_is_one_error():
    class Full(Store):
        def _open(self, path, mode="rb", **kwargs):
            if mode == "wb":
                raise OSError(28, "No space left on device")
            return super()._open(path, mode, **kwargs)

    with pytest.raises(StorageError, match="out/.*: Full: .*No space left"):
        hd.range(60).write_csv("out", filesystem=Full())


def test_a_folder_that_has_to_be_there():
    with pytest.raises(StorageError, match="the folder does not exist, and try_create_dir is False"):
        hd.range(60).write_csv("out", filesystem=Store(), try_create_dir=False)
