"""gs://: folders, patterns, keys, tokens, HMAC keys; each request's credentials are checked by the server."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cloud_servers import GsServer

import headrace.data as hd
from headrace.data.expressions import col
from headrace.exceptions import DataError, HeadraceError, InvalidArgument, NotFoundError

ODD = ["a b.txt", "a+b.txt", "100%.txt", "é.txt", "x=1&y.txt", "a'(b)!*.txt", "~-_.txt", "q?#.txt"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("buckets")
    for year in (2023, 2024):
        for part in range(2):
            path = root / "lake" / "sales" / f"year={year}" / f"{part}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.table({"id": np.arange(100) + 1000 * year + 100 * part}), path)
    (root / "lake" / "odd").mkdir()
    for i, name in enumerate(ODD):
        (root / "lake" / "odd" / name).write_text(f"line {i}\n")
    return root


@pytest.fixture
def server(folder, monkeypatch):
    monkeypatch.delenv("STORAGE_EMULATOR_HOST", raising=False)
    server = GsServer(folder)
    yield server
    server.close()


@pytest.fixture
def options(server):
    return {"endpoint": server.url, "token": server.bearer}


@pytest.mark.parametrize(
    "where", ["sales", "sales/*/*.parquet", "sales/year=20*", "sales/year=2023/1.parquet"]
)
def test_rows_and_order_are_those_of_the_local_folder(where, folder, options):
    local = hd.read_parquet(f"{folder}/lake/{where}")
    remote = hd.read_parquet(f"gs://lake/{where}", storage_options=options)
    assert remote.schema() == local.schema()
    assert remote.to_arrow().equals(local.to_arrow())


def test_odd_keys_and_pages(server, options):
    server.page = 3
    ds = hd.read_text("gcs://lake/odd/", include_paths=True, storage_options=options)
    assert [r["path"] for r in ds.take_all()] == [f"gcs://lake/odd/{n}" for n in sorted(ODD, key=str.encode)]
    for i, name in enumerate(ODD):
        if "*" not in name and "?" not in name:
            ds = hd.read_text(f"gs://lake/odd/{name}", storage_options=options)
            assert ds.take_all() == [{"text": f"line {i}"}]


def test_credentials(server, monkeypatch):
    endpoint = {"endpoint": server.url}
    with pytest.raises(InvalidArgument, match=r"gs://lake/odd: no credentials in storage_options"):
        hd.read_text("gs://lake/odd", storage_options=endpoint)
    keys = {"google_hmac_key_id": server.key, "google_hmac_secret": server.secret, **endpoint}
    assert hd.read_text("gs://lake/odd", storage_options=keys).count() == len(ODD)
    with pytest.raises(HeadraceError, match=r"HTTP 401\), InvalidToken: refused") as e:
        hd.read_text("gs://lake/odd/", storage_options={"token": "hush", **endpoint})
    assert "hush" not in str(e.value)
    with pytest.raises(HeadraceError, match="SignatureDoesNotMatch") as e:
        hd.read_text("gs://lake/odd/", storage_options={**keys, "google_hmac_secret": "hush"})
    assert "hush" not in str(e.value)


def test_anonymous_access_and_the_emulator(server, monkeypatch):
    server.public = frozenset(["lake"])
    endpoint = {"endpoint": server.url}
    assert hd.read_text("gs://anonymous@lake/odd", storage_options=endpoint).count() == len(ODD)
    assert hd.read_text("gs://lake/odd", storage_options={"anon": True, **endpoint}).count() == len(ODD)
    assert hd.read_text("gs://lake/odd", storage_options={"token": "anon", **endpoint}).count() == len(ODD)
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url.removeprefix("http://"))
    assert hd.read_text("gs://lake/odd").count() == len(ODD)


def test_what_is_not_there(options):
    with pytest.raises(NotFoundError, match="gs://lake/y: no such object, and nothing below it"):
        hd.read_text("gs://lake/y", storage_options=options)
    with pytest.raises(NotFoundError, match=r"HTTP 404\), NoSuchBucket: refused"):
        hd.read_text("gs://nothing/", storage_options=options)


def test_an_object_that_is_replaced_is_one_error(folder, options):
    path = folder / "lake" / "again.txt"
    path.write_text("one\n")
    ds = hd.read_text("gs://lake/again.txt", storage_options=options)
    path.write_text("two\n")
    with pytest.raises(DataError, match=r"gs://lake/again.txt: the object was replaced"):
        ds.take_all()


def test_a_column_of_urls(options):
    table = pa.table({"url": ["gs://lake/odd/a b.txt", "gs://lake/odd/é.txt"]})
    ds = hd.from_arrow(table).with_column("x", col("url").download(storage_options=options))
    assert [r["x"] for r in ds.take_all()] == [b"line 0\n", b"line 3\n"]
