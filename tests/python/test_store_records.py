"""Readers leave out the files of a job whose record stands without _SUCCESS, below and above its folder."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cloud_servers import AzServer, GsServer
from object_server import ExpressServer, FlatKeys, S3Server

import headrace.data as hd
from headrace.exceptions import HeadraceError, NotFoundError

SERVERS = {
    "s3": (type("FlatS3", (FlatKeys, S3Server), {}), "s3://bucket"),
    "express": (ExpressServer, "s3://bucket--use1-az4--x-s3"),
    "gs": (type("FlatGs", (FlatKeys, GsServer), {}), "gs://bucket"),
    "az": (AzServer, "az://bucket@acct.blob.core.windows.net"),
}


class Store:
    """A store with one job's files and a file of somebody else in each folder."""

    def __init__(self, name, root):
        cls, self.url = SERVERS[name]
        self.name, self.bucket = name, self.url.split("://")[1].split("@")[0]
        (root / self.bucket).mkdir(parents=True)
        self.server = cls(root)
        keys = {"key": self.server.key, "secret": getattr(self.server, "secret", "")}
        given = {"gs": {"token": getattr(self.server, "bearer", "")}, "az": {"account_key": self.server.key}}
        self.options = given.get(name, keys) | {"endpoint": self.server.url}

    def file(self, key):
        return self.server.file(f"{self.bucket}/{key}")

    def put(self, key, data):
        self.file(key).parent.mkdir(parents=True, exist_ok=True)
        self.file(key).write_bytes(data)

    def write(self, path, **given):
        """-> the key and the bytes of the job's record."""
        seen = []

        def keep(kind, path, handler):
            if kind == "PUT" and "_headrace_commit_" in path:
                seen.append((path.removeprefix(f"/{self.bucket}/"), handler.body))

        self.server.on_write = keep
        ds = hd.range(40).map(lambda r: {"id": r["id"], "k": r["id"] % 2, "j": r["id"] // 20})
        ds.write_parquet(f"{self.url}/{path}", storage_options=self.options, **given)
        self.server.on_write = None
        return seen[0]

    def ids(self, path, **given):
        try:
            ds = hd.read_parquet(f"{self.url}{path}", storage_options=self.options, **given)
            return sorted(r["id"] for r in ds.take_all())
        except NotFoundError:
            return []

    def lists(self):
        return sum(kind == "LIST" for kind, *_ in self.server.requests)


@pytest.fixture(params=SERVERS)
def store(request, tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    store = Store(request.param, tmp_path / "root")
    yield store
    store.server.close()


def parquet(table):
    file = pa.BufferOutputStream()
    pq.write_table(pa.table(table), file)
    return file.getvalue().to_pybytes()


OTHER = parquet({"id": [1000]})
PATHS = [
    "",
    "/",
    "/a",
    "/a/c/",
    "/a/c/k=1",
    "/a/c/k=1/",
    "/a/c/k=1/j=0/",
    "/a/c/k=1/*/*.parquet",
    "/a/c/k=1/j=0/*.parquet",
    "/a/c/k=1/j=*/*.parquet",
    "/a/c/k=[01]/j=0",
    "/a/c/k=1/j=0/[0-9a-f]*",
    "/a/c/k*",
    "/a/*/k=1/j=0/*.parquet",
    "/**/j=0/*.parquet",
    "/*/c/**/*.parquet",
]


def test_where_files_are_left_out(store):
    record, body = store.write("a/c", partition_cols=["k", "j"])
    store.put("a/c/k=1/j=0/other.parquet", OTHER)
    whole = {path: store.ids(path) for path in PATHS}
    assert all(1000 in ids for path, ids in whole.items() if not path.endswith("f]*"))
    assert all(set(range(1, 20, 2)) <= set(ids) for ids in whole.values())
    success = store.file("a/c/_SUCCESS").read_bytes()
    store.file("a/c/_SUCCESS").unlink()
    store.put(record, body)
    for path in PATHS:
        assert store.ids(path) == [id for id in whole[path] if id == 1000], path
    store.put("a/c/_SUCCESS", success)
    for path in PATHS:
        assert store.ids(path) == whole[path], path


@pytest.mark.parametrize("page", [1, 4])
@pytest.mark.parametrize("path", ["/out/", "/out/*.parquet"])
def test_a_record_behind_the_first_page(store, path, page):
    """take() reads the files of the first page, and the record that hides them stands on a later one."""
    record, body = store.write("out", max_rows_per_file=2)
    for i in range(10):
        store.put(f"out/z{i}.parquet", OTHER)
    store.file("out/_SUCCESS").unlink()
    store.put(record, body)
    store.server.page = page
    ds = hd.read_parquet(f"{store.url}{path}", storage_options=store.options, partitioning=None)
    assert [row["id"] for row in ds.select_columns("id").take(5)] == [1000] * 5
    assert ds.select_columns("id").sort("id").take_all() == [{"id": 1000}] * 10


@pytest.mark.parametrize("path", ["/out", "/out/*", "/out/[0-9a-f]*.parquet", "/out/JOB*", "/o*"])
def test_a_folder_without_partitions(store, path):
    record, body = store.write("out", max_rows_per_file=2)
    path = path.replace("JOB", record.split("_headrace_commit_")[1][:3])
    whole = store.ids(path)
    assert whole
    store.file("out/_SUCCESS").unlink()
    store.put(record, body)
    assert store.ids(path) == []


def test_old_files_are_left_out_below(store):
    """From _SUCCESS on the files that the job replaces are those that are not there."""
    store.write("a/c", partition_cols=["k", "j"])
    old = {key: store.file(key).read_bytes() for key in store.server.objects(store.bucket) if "/k=1/" in key}
    record, body = store.write("a/c", partition_cols=["k", "j"], mode="overwrite")
    for key, data in old.items():
        store.put(key, data)
    store.put(record, body)
    assert store.ids("/a/c/k=1/") == list(range(1, 40, 2))


def test_the_common_case_costs_no_request(store):
    store.write("a/c", partition_cols=["k", "j"])
    store.write("out")
    for path, most in [
        ("/out/", 1),
        ("/a/c/", 1),
        ("/out/*.parquet", 1),
        ("/a/c/k=1/", 2),
        ("/a/c/k=*/*/*.parquet", 2),
    ]:
        store.server.forget()
        assert store.ids(path)
        assert store.lists() <= most, path


def test_who_may_not_list_the_folder_above_reads_what_is_below(store):
    store.write("a/c", partition_cols=["k", "j"])
    listing = store.server._list

    def below(handler, bucket, query):
        prefix = query["prefix"] if store.name == "az" else query["prefix"][0]
        if not prefix.startswith("a/c/k=1/"):
            return store.server.refuse(handler, 403, "AccessDenied")
        return listing(handler, bucket, query)

    store.server._list = below
    assert store.ids("/a/c/k=1/") == list(range(1, 40, 2))
    with pytest.raises(HeadraceError, match="AccessDenied"):
        store.ids("/a/c/")


def test_a_job_that_ends_while_its_record_is_read(store):
    """The list was made before the job had completed all files: once a part of them were its rows."""
    record, body = store.write("out", max_rows_per_file=4)
    files = {
        k: store.file(k).read_bytes() for k in store.server.objects(store.bucket) if k.endswith(".parquet")
    }
    success = store.file("out/_SUCCESS").read_bytes()
    late = sorted(files)[5:]
    for key in [*late, "out/_SUCCESS"]:
        store.file(key).unlink()
    store.put(record, body)

    def finish(number, handler):
        if "_headrace_commit_" in handler.path and handler.command == "GET":
            for key in late:
                store.put(key, files[key])
            store.put("out/_SUCCESS", success)

    store.server.fault = finish
    assert store.ids("/out/") == list(range(40))


def test_a_job_that_begins_between_two_pages(store):
    """Its files are in the second page, and its record would have been in the first one."""
    record, body = store.write("out", max_rows_per_file=4)
    files = {k: store.file(k).read_bytes() for k in store.server.objects(store.bucket)}
    for key in files:
        store.file(key).unlink()
    del files["out/_SUCCESS"]
    for i in range(10):
        store.put(f"out/A{i}.parquet", OTHER)
    store.server.page = 5
    listing, n = store.server._list, []

    def begin(handler, bucket, query):
        n.append(1)
        if len(n) == 2:
            store.put(record, body)
            for key in sorted(files)[-4:]:
                store.put(key, files[key])
        return listing(handler, bucket, query)

    store.server._list = begin
    assert store.ids("/out/") == [1000] * 10
