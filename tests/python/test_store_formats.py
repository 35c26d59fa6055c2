"""Each format on each kind of store, and keys that no file of a disk has: rows are those of local files."""

import datetime
import gzip
import hashlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import textwrap
import time
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
from cloud_servers import AzServer, GsServer
from hdfs_server import NameNode
from object_server import FlatKeys, ObjectServer, S3Server

import headrace.data as hd
from headrace.data.expressions import col
from headrace.exceptions import DataError, NotFoundError, StorageError, UnsupportedError

SERVERS = {"http": ObjectServer, "s3": S3Server, "gs": GsServer, "az": AzServer, "hdfs": NameNode}
WRITABLE = ("s3", "gs", "az")  # whose keys are no paths


class Store:
    """A server with keys as real stores have them, the URL of its bucket, and the options that lead there."""

    def __init__(self, kind, root):
        (root / "bucket").mkdir(parents=True)
        self.kind = kind
        made = SERVERS[kind] if kind == "hdfs" else type("Flat", (FlatKeys, SERVERS[kind]), {})
        self.server = server = made(root)
        endpoint = {"endpoint": server.url}
        self.url, self.options = {
            "http": lambda: (f"{server.url}/bucket", {}),
            "hdfs": lambda: (f"webhdfs://{server.host}/bucket", {}),
            "s3": lambda: ("s3://bucket", {"key": server.key, "secret": server.secret, **endpoint}),
            "gs": lambda: ("gs://bucket", {"token": server.bearer, **endpoint}),
            "az": lambda: (
                "abfss://bucket@acct.dfs.core.windows.net",
                {"account_key": server.key, **endpoint},
            ),
        }[kind]()

    def put(self, key, data):
        file = self.server.file(f"bucket/{key}")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)

    def keys(self, below=""):
        return sorted((k for k in self.server.objects("bucket") if k.startswith(below)), key=str.encode)

    def bytes_of(self, key):
        return self.server.file(f"bucket/{key}").read_bytes()

    def url_of(self, key):
        return f"{self.url}/{quote(key, safe='/=') if self.kind == 'http' else key}"

    def read(self, reader, key, **given):
        """The dataset of a key, or of a list of keys."""
        where = [self.url_of(k) for k in key] if isinstance(key, list) else self.url_of(key)
        return reader(where, storage_options=self.options, **given)

    def names(self, key, **given):
        """What follows the bucket and the folder of the listed files."""
        files = self.read(hd.read_text, key, **given).input_files()
        return [f.removeprefix(f"{self.url}/").partition("/")[2] for f in files]


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    made = {}
    with pytest.MonkeyPatch.context() as patch:
        for name in [n for n in os.environ if re.match("AWS_|AZURE_|STORAGE_EMULATOR", n)]:
            patch.delenv(name)
        for kind in SERVERS:
            made[kind] = Store(kind, tmp_path_factory.mktemp(kind) / "root")
        yield made
        for one in made.values():
            one.server.close()


@pytest.fixture(params=SERVERS)
def any_store(request, stores):
    return stores[request.param]


@pytest.fixture(params=WRITABLE)
def store(request, stores):
    """One with lists and uploads."""
    found = stores[request.param]
    page = found.server.page
    yield found
    found.server.page = page


N = 57
RNG = np.random.default_rng(3)
COLUMNS = {
    "i": pa.array([None if i % 7 == 3 else i * 10**12 for i in range(N)], pa.int64()),
    "f": RNG.random(N),
    "s": [None if i % 5 == 4 else f'é,"q" {i}' for i in range(N)],
    "ok": [bool(i % 2) for i in range(N)],
}
LISTS = {"l": [list(range(i % 4)) for i in range(N)], "st": [{"a": i, "b": str(i)} for i in range(N)]}
OTHERS = {
    "b": [bytes(range(i)) for i in range(N)],
    "d": [datetime.date(2024, 1, 1) + datetime.timedelta(days=i) for i in range(N)],
}
FLAT = pa.table(COLUMNS)
NESTED = pa.table({**COLUMNS, **LISTS})
RICH = pa.table({**COLUMNS, **LISTS, **OTHERS})
FEATURES = pa.table({"f": COLUMNS["f"], "b": OTHERS["b"], "n": range(N)})
PIXELS = np.arange(3 * 48, dtype=np.uint8).reshape(3, 4, 4, 3)
SAMPLES = pa.table(
    {"__key__": [f"k{i}" for i in range(9)], "txt": [f"é {i}" for i in range(9)], "cls": range(9)}
)
PARTS = {"max_rows_per_file": 20}

# Name: rows, the writer, its arguments, the reader.
WRITTEN = {
    "parquet": (RICH, "write_parquet", PARTS, hd.read_parquet),
    "parquet-small-groups": (RICH, "write_parquet", {"row_group_size": 9}, hd.read_parquet),
    "arrow": (RICH, "write_arrow", PARTS, hd.read_arrow),
    "arrow-stream": (RICH, "write_arrow", {"stream": True, "compression": "zstd"}, hd.read_arrow),
    "csv": (FLAT, "write_csv", PARTS, hd.read_csv),
    "csv.gz": (FLAT, "write_csv", {"compression": "gzip"}, hd.read_csv),
    "json": (NESTED, "write_json", PARTS, hd.read_json),
    "json.zst": (NESTED, "write_json", {"compression": "zstd"}, hd.read_json),
    "json.lz4": (NESTED, "write_json", {"compression": "lz4"}, hd.read_json),
    "tfrecords": (FEATURES, "write_tfrecords", PARTS, hd.read_tfrecords),
    "numpy": (RNG.random((50, 3)), "write_numpy", {"column": "data", **PARTS}, hd.read_numpy),
    "webdataset": (SAMPLES, "write_webdataset", {"max_rows_per_file": 4}, hd.read_webdataset),
    "png": (PIXELS, "write_images", {"column": "data"}, hd.read_images),
    "jpeg": (PIXELS, "write_images", {"column": "data", "file_format": "jpg"}, hd.read_images),
    "bmp": (PIXELS, "write_images", {"column": "data", "file_format": "bmp"}, hd.read_images),
}


def write(name, path, **given):
    rows, writer, arguments, _ = WRITTEN[name]
    ds = hd.from_numpy(rows) if isinstance(rows, np.ndarray) else hd.from_arrow(rows)
    getattr(ds, writer)(path, **arguments, **given)


def data_files(folder):
    return sorted(p for p in folder.rglob("*") if p.is_file() and p.name[0] not in "._")


def rows_of(ds):
    """Without the column in which the samples of a tar name their tar."""
    found = ds.to_arrow()
    return found.drop_columns([c for c in found.column_names if c == "__url__"])


def assert_same(found, wanted):
    assert found.schema() == wanted.schema()
    assert found.count() == wanted.count()
    assert rows_of(found).equals(rows_of(wanted))


@pytest.mark.parametrize("name", WRITTEN)
def test_what_writers_write(name, any_store, tmp_path):
    write(name, str(tmp_path))
    files = data_files(tmp_path)
    read = WRITTEN[name][-1]
    if any_store.kind == "http":
        keys = [f"written/{name}/{file.name}" for file in files]
        for key, file in zip(keys, files, strict=True):
            any_store.put(key, file.read_bytes())
        assert_same(any_store.read(read, keys), read(str(tmp_path)))
        return
    write(name, any_store.url_of(f"written/{name}"), storage_options=any_store.options)
    keys = [k for k in any_store.keys(f"written/{name}/") if "/_" not in k]
    assert [any_store.bytes_of(k) for k in keys] == [file.read_bytes() for file in files]
    assert_same(any_store.read(read, f"written/{name}"), read(str(tmp_path)))


def npz():
    with io.BytesIO() as out:
        np.savez(out, a=np.arange(5), b=np.eye(5))
        return out.getvalue()


def tgz():
    with io.BytesIO() as out:
        with tarfile.open(fileobj=out, mode="w:gz") as tar:
            for i in range(3):
                member = tarfile.TarInfo(f"k{i}.txt")
                member.size = 1
                tar.addfile(member, io.BytesIO(b"x"))
        return out.getvalue()


def orc():
    with io.BytesIO() as out:
        pa.orc.write_table(pa.concat_tables([FLAT] * 400), out, stripe_size=1 << 16)
        return out.getvalue()


def avro():
    fastavro = pytest.importorskip("fastavro")
    with io.BytesIO() as out:
        fields = [{"name": "x", "type": "int"}]
        schema = {"type": "record", "name": "r", "fields": fields}
        fastavro.writer(out, schema, [{"x": i} for i in range(30)])
        return out.getvalue()


def hdf5():
    h5py = pytest.importorskip("h5py")
    with io.BytesIO() as out:
        with h5py.File(out, "w") as file:
            file["a"] = np.arange(30.0).reshape(10, 3)
        return out.getvalue()


def wav():
    soundfile = pytest.importorskip("soundfile")
    with io.BytesIO() as out:
        soundfile.write(out, RNG.random((1000, 2)) / 2, 8000, format="WAV")
        return out.getvalue()


# Files that no writer of ours writes. Name: the bytes, the reader, its arguments.
READ = {
    "x.fwf": (lambda: b"id   name \n1    ab   \n22   cd   \n", hd.read_fwf, {"widths": [5, 5]}),
    "x.txt": (lambda: "a\nbé\n\nc".encode(), hd.read_text, {}),
    "x.txt.gz": (lambda: gzip.compress(b"a\nb\n"), hd.read_text, {}),
    "x.tsv": (lambda: b"a\tb\n1\t2\n", hd.read_csv, {"delimiter": "\t"}),
    "array.json": (lambda: b'[{"a": 1}, {"a": null}]', hd.read_json, {}),
    "x.bin": (lambda: bytes(range(256)), hd.read_binary_files, {"include_paths": False}),
    "x.npz": (npz, hd.read_numpy, {}),
    "x.tgz": (tgz, hd.read_webdataset, {}),
    "x.orc": (orc, hd.read_orc, {"columns": ["s", "i"]}),
    "x.avro": (avro, hd.read_avro, {}),
    "x.h5": (hdf5, hd.read_hdf5, {}),
    "x.nc": (hdf5, hd.read_netcdf, {"variables": "a"}),
    "x.wav": (wav, hd.read_audio, {}),
}


@pytest.fixture(scope="module", params=READ)
def read_locally(request, tmp_path_factory):
    """(name, its bytes, its rows)."""
    make, read, arguments = READ[request.param]
    path = tmp_path_factory.mktemp("local") / "day=7" / request.param
    path.parent.mkdir()
    path.write_bytes(make())
    return request.param, path.read_bytes(), rows_of(read(str(path), partitioning="hive", **arguments))


def test_what_others_write(read_locally, any_store):
    name, data, wanted = read_locally
    _, read, arguments = READ[name]
    any_store.put(f"day=7/{name}", data)
    found = any_store.read(read, f"day=7/{name}", partitioning="hive", **arguments)
    found = rows_of(found)
    assert found.equals(wanted)
    assert set(found["day"].to_pylist()) == {"7"}


@pytest.mark.parametrize("read", [hd.read_orc, hd.read_avro, hd.read_hdf5, hd.read_audio])
def test_other_packages_name_the_damaged_object(read, stores):
    stores["s3"].put("damaged/x", b"x" * 100)
    with pytest.raises((DataError, OSError), match=r"s3://bucket/damaged/x: ") as e:
        stores["s3"].read(read, "damaged/x").take_all()
    assert "/proc" not in str(e.value)


def test_other_packages_get_bytes_of_the_cache(stores, tmp_path):
    s3 = stores["s3"]
    s3.put("cached/x.orc", orc())
    first = s3.read(hd.read_orc, "cached", cache=tmp_path).to_arrow()
    s3.server.forget()
    ds = s3.read(hd.read_orc, "cached", cache=tmp_path, include_paths=True)
    assert ds.unique("path") == ["s3://bucket/cached/x.orc"]
    assert ds.drop_columns(["path"]).to_arrow().equals(first)
    assert s3.server.body_bytes() == 0


def test_what_stores_do_not_have_is_said(stores):
    with pytest.raises(UnsupportedError, match=r"_OrcSink: http://host/x: nothing is written") as e:
        hd.range(3).write_orc("http://host/x?sig=hush")
    assert "hush" not in str(e.value)


# Names in keys.
ODD = ["%", "%2F", "%25", "+", " ", "é", "#", "x//y", "//z", "..", "a\\b", "\"<&>'", "&amp;", "a=b"]
ODD += ["tab\t", "日本", "𝄞", "?", "*", "[x]", "a?b#c"]


@pytest.fixture(params=WRITABLE, scope="module")
def odd(request, stores):
    for i, name in enumerate(ODD):
        stores[request.param].put(f"odd/{name}.txt", f"line {i}\n".encode())
    return stores[request.param]


def visible(names):
    """In the order of lists."""
    names = [f"{n}.txt" for n in names if not n.startswith(".")]
    return sorted(names, key=str.encode)


def test_odd_keys_are_listed_by_pages(odd):
    assert odd.names("odd/") == visible(ODD)
    page, odd.server.page = odd.server.page, 2
    assert odd.names("odd/") == visible(ODD)
    odd.server.page = page


@pytest.mark.parametrize("name", ODD)
def test_an_odd_key_is_read(name, odd):
    """Once a key with wildcards was a pattern only, although lists showed it."""
    ds = odd.read(hd.read_text, f"odd/{name}.txt", include_paths=True)
    assert ds.take_all() == [{"text": f"line {ODD.index(name)}", "path": f"{odd.url}/odd/{name}.txt"}]


@pytest.mark.parametrize("name", ODD)
def test_an_odd_path_of_http_is_read(name, stores):
    stores["http"].put(f"odd/{name}.txt", b"line\n")
    assert stores["http"].read(hd.read_text, f"odd/{name}.txt").take_all() == [{"text": "line"}]


PATTERNS = {
    "odd/%*": ["%.txt", "%25.txt", "%2F.txt"],
    "odd/[%]2?.*": ["%25.txt", "%2F.txt"],
    "odd/+*": ["+.txt"],
    "odd/#*": ["#.txt"],
    "odd/é.*": ["é.txt"],
    "odd/x/*": ["x//y.txt"],  # the folder without a name
    "odd/x//*.txt": ["x//y.txt"],  # once no pattern with // found anything
    "odd/*//*.txt": ["//z.txt", "x//y.txt"],
    "odd///?.txt": ["//z.txt"],
    "odd/**/y.txt": ["x//y.txt"],
    "odd/[[]*": ["[x].txt"],
    "odd/a*": ["a=b.txt", "a?b#c.txt", "a\\b.txt"],
    "odd/[.]*": [],
}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_of_odd_keys(pattern, odd):
    if not PATTERNS[pattern]:
        with pytest.raises(NotFoundError, match="no object matches"):
            odd.names(pattern)
        return
    assert odd.names(pattern) == PATTERNS[pattern]


def test_a_folder_that_exists_is_no_pattern(store, tmp_path):
    for name in ("[ab]/x.txt", "[ab]/sub/y.txt", "a/z.txt", "b/z.txt"):
        store.put(f"named/{name}", b"1\n")
        path = tmp_path / "named" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"1\n")
    for where in ("named/[ab]", "named/[ab]/", "named/[ab]/*.txt", "named/?", "named/[ab]/[xz]*"):
        local = hd.read_text(f"{tmp_path}/{where}").input_files()
        assert store.names(where) == [f.removeprefix(f"{tmp_path}/named/") for f in local]
    assert store.names("named/[ab]", file_extensions=["md", "txt"]) == ["[ab]/sub/y.txt", "[ab]/x.txt"]


@pytest.mark.parametrize("name", [n for n in ODD if n != ".."])
def test_an_odd_key_is_written(name, store):
    folder, file = f"out/{name}/q", f"single/{name}.csv"
    for rows, mode in ((3, "append"), (4, "append"), (2, "overwrite")):
        hd.range(rows).write_csv(store.url_of(folder), mode=mode, storage_options=store.options)
    assert [k.rpartition("/")[0] for k in store.keys(f"out/{name}/")] == [folder] * 2  # and _SUCCESS
    assert store.read(hd.read_csv, folder).count() == 2
    hd.range(5).write_csv(store.url_of(file), single_file=True, storage_options=store.options)
    assert store.keys(file) == [file]
    assert store.read(hd.read_csv, file).count() == 5


@pytest.mark.parametrize("where", ["s3", "gs", "az", "local"])
def test_writers_know_no_patterns(where, stores, tmp_path):
    """Once mode="overwrite" into a folder with a '*' in its name removed the files of other folders."""
    base = str(tmp_path) if where == "local" else stores[where].url_of("patterns")
    given = {} if where == "local" else {"storage_options": stores[where].options}

    def write(folder, mode):
        hd.range(3).write_csv(f"{base}/{folder}", mode=mode, **given)

    write("other/q", "append")
    for folder in ("*/q", "oth*/q", "other/[pq]", "othe?/q"):
        for mode in ("create", "overwrite"):
            write(folder, mode)
            assert hd.read_csv(f"{base}/other/q", **given).count() == 3
        assert hd.read_csv(f"{base}/{folder}", **given).count() == 3
        with pytest.raises(StorageError, match="already contains files"):
            write(folder, "create")
    hd.range(3).write_csv(f"{base}/one.csv", single_file=True, **given)
    hd.range(4).write_csv(f"{base}/*.csv", single_file=True, **given)
    assert hd.read_csv(f"{base}/*.csv", **given).count() == 4


VALUES = ["a/b", "%", "+", " ", "é", "a%2Fb", "#", "?", "x=1", "[x]", "*", None, "..", ".h", "_u", "a//b"]


def test_hive_partitions(any_store, tmp_path):
    table = pa.table({"k": VALUES * 2, "j": [1, 2] * len(VALUES), "x": range(2 * len(VALUES))})
    hd.from_arrow(table).write_parquet(str(tmp_path), partition_cols=["k", "j"])
    local = hd.read_parquet(str(tmp_path))
    if any_store.kind == "http":
        keys = [f"hive/{f.relative_to(tmp_path)}" for f in data_files(tmp_path)]
        for key in keys:
            any_store.put(key, (tmp_path / key.removeprefix("hive/")).read_bytes())
        remote = any_store.read(hd.read_parquet, keys)
        assert sorted(r["x"] for r in remote.take_all()) == list(range(table.num_rows))
        return
    where, options = any_store.url_of("hive é+%/t"), any_store.options
    hd.from_arrow(table).write_parquet(where, partition_cols=["k", "j"], storage_options=options)
    remote = any_store.read(hd.read_parquet, "hive é+%/t")
    assert remote.schema() == local.schema()
    assert remote.to_arrow().equals(local.to_arrow())
    for value in ("a/b", "a%2Fb", "?", "*"):
        found = remote.filter(expr=(col("k") == value) & (col("j") == "1")).take_all()
        assert [r["k"] for r in found] == [value] * sum(
            k == value and j == 1 for k, j in zip(*(table[c].to_pylist() for c in "kj"), strict=True)
        )


def outcome(reader, path, hide, **given):
    try:
        return str(reader(path, **given).take_all())
    except Exception as e:
        return f"{type(e).__name__}: {str(e).replace(hide, '')}"


TINY = {"csv": hd.read_csv, "json": hd.read_json, "txt": hd.read_text, "parquet": hd.read_parquet}
TINY |= {"arrow": hd.read_arrow, "npy": hd.read_numpy, "png": hd.read_images, "tar": hd.read_webdataset}
TINY |= {"bin": hd.read_binary_files, "tfrecords": hd.read_tfrecords, "orc": hd.read_orc}


@pytest.mark.parametrize("suffix", TINY)
@pytest.mark.parametrize("data", [b"", b"x", b"\n"])
def test_objects_of_no_or_one_byte(suffix, data, any_store, tmp_path):
    (tmp_path / f"a.{suffix}").write_bytes(data)
    any_store.put(f"tiny/a.{suffix}", data)
    local = outcome(TINY[suffix], str(tmp_path / f"a.{suffix}"), str(tmp_path))
    url = any_store.url_of(f"tiny/a.{suffix}")
    assert outcome(TINY[suffix], url, any_store.url_of("tiny"), storage_options=any_store.options) == local


def test_empty_objects_between_others(store):
    for i in range(6):
        store.put(f"between/{i}.txt", b"" if i % 2 else b"%d\n" % i)
    assert [r["text"] for r in store.read(hd.read_text, "between").take_all()] == ["0", "2", "4"]
    found = store.read(hd.read_binary_files, "between").take_all()
    assert [r["bytes"] for r in found] == [b"0\n", b"", b"2\n", b"", b"4\n", b""]


def test_folder_markers_are_no_files(store):
    for key, data in {"m/": b"", "m/sub/": b"", "m/sub/a.txt": b"1\n", "m/only/": b"", "m": b"0\n"}.items():
        store.put(f"marks/{key}", data)
    for where in ("marks/m/", "marks/m/*", "marks/m/*/", "marks/**/a.txt", "marks/m/sub"):
        assert store.names(where) == ["m/sub/a.txt"]
    assert store.names("marks") == ["m", "m/sub/a.txt"]
    assert store.names("marks/m") == ["m"]  # an object, and a folder: the object
    with pytest.raises(NotFoundError, match="no files there"):
        store.names("marks/m/only/")
    where = store.url_of("marks/m/only")
    hd.range(2).write_csv(where, mode="create", storage_options=store.options)
    hd.range(3).write_csv(where, mode="overwrite", storage_options=store.options)
    assert store.read(hd.read_csv, "marks/m/only").count() == 3


def test_deep_and_long_keys(store):
    deep = "deep/" + "/".join("d" * 450)
    hd.range(3).write_csv(store.url_of(deep), storage_options=store.options)
    assert store.read(hd.read_csv, "deep").count() == 3
    assert store.read(hd.read_csv, f"{deep}/*.csv").count() == 3
    assert store.read(hd.read_csv, "deep/**/*.csv").count() == 3
    long = "long/" + "é" * 500 + ".csv"
    hd.range(3).write_csv(store.url_of(long), single_file=True, storage_options=store.options)
    assert store.read(hd.read_csv, "long/*é.csv").count() == 3


def test_more_keys_than_a_page(store):
    names = [f"{i:04}.txt" for i in range(1005)]
    for i, name in enumerate(names):
        store.put(f"many/{name}", b"%d\n" % i)
    store.server.page = 1000  # of S3 and Google
    store.server.forget()
    assert store.names("many") == names
    assert 2 <= sum(r[0] == "LIST" for r in store.server.requests) <= 8  # spans: test_listing.py
    assert store.names("many/10*") == names[1000:]
    assert [r["text"] for r in store.read(hd.read_text, "many").take_all()] == [str(i) for i in range(1005)]
    store.server.page = 10
    where, given = store.url_of("many-out"), {"storage_options": store.options}
    hd.range(33).write_csv(where, max_rows_per_file=1, **given)
    hd.range(25).write_csv(where, max_rows_per_file=1, mode="overwrite", **given)
    assert store.read(hd.read_csv, "many-out").to_arrow()["id"].to_pylist() == list(range(25))
    assert len(store.keys("many-out/")) == 26


EPOCH = """
    import hashlib, json, os, sys
    import headrace.data as hd
    where, options, state_path = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
    shuffle = hd.FileShuffleConfig(seed=5)
    ds = hd.read_parquet(where, shuffle=shuffle, storage_options=options)
    ds = ds.map_batches(lambda b: {**b, "y": b["x"] * 2}, batch_size=2000, compute="threads")
    batches = ds.iter_batches(batch_size=2000, local_shuffle_buffer_size=10_000, local_shuffle_seed=11)
    seen = []
    if os.path.exists(state_path):
        seen, state = json.load(open(state_path))
        batches.load_state_dict(state)
    for batch in batches:
        seen.append(hashlib.sha256(b"".join(batch[c].tobytes() for c in ("x", "y", "z"))).hexdigest())
        with open(state_path + ".new", "w") as file:
            json.dump([seen, batches.state_dict()], file)
        os.rename(state_path + ".new", state_path)
"""


GETS = 25  # of about 60: the first batches need ten


def test_kill_in_an_epoch_and_go_on(stores, tmp_path):
    """The process dies in the middle of a request, twice; the position is the last saved one."""
    s3, files, rows = stores["s3"], 12, 50_000
    for i in range(files):
        table = pa.table({"x": np.arange(i * rows, (i + 1) * rows), "z": RNG.random(rows)})
        pq.write_table(table, tmp_path / f"{i:02}.parquet", row_group_size=rows // 5)
        s3.put(f"epoch/{i:02}.parquet", (tmp_path / f"{i:02}.parquet").read_bytes())
    options = {**s3.options, "max_connections": 2}

    def start(where, options, name):
        program = [sys.executable, "-c", textwrap.dedent(EPOCH), where, json.dumps(options), tmp_path / name]
        return subprocess.Popen(program)

    def seen(name):
        try:
            return json.loads((tmp_path / name).read_text())[0]
        except FileNotFoundError:
            return []

    assert start(str(tmp_path), {}, "local").wait(60) == 0
    whole = seen("local")
    assert len(whole) == files * rows // 2000
    for _ in range(2):
        before, gets, child = len(seen("s3")), [0], []

        def kill(number, handler, before=before, gets=gets, child=child):
            gets[0] += handler.command == "GET"
            if handler.command != "GET" or gets[0] != GETS:
                return None
            end = time.monotonic() + 60
            while len(seen("s3")) <= before and time.monotonic() < end:
                time.sleep(0.01)
            os.kill(child[0].pid, signal.SIGKILL)
            handler.close_connection = True
            return True

        s3.server.fault = kill
        child.append(start("s3://bucket/epoch", options, "s3"))
        assert child[0].wait(90) == -signal.SIGKILL
        s3.server.fault = None
        assert before < len(seen("s3")) < len(whole)
    assert start("s3://bucket/epoch", options, "s3").wait(60) == 0
    shas = [hashlib.sha256("".join(seen(name)).encode()).hexdigest() for name in ("s3", "local")]
    assert shas[0] == shas[1]
