"""Tables of deltalake, pylance and pyiceberg, and Zarr stores, in the stores' own servers (real_servers.py),
read by the clients of these packages and by the engine.
"""

import json
import os
import pickle
import re

import pytest
from real_servers import Azurite, FakeGcs, JuiceFS, Seaweed, need_tools

import headrace.data as hd

need_tools()

ROWS = 1000
SUM = ROWS * (ROWS - 1) // 2


@pytest.fixture(scope="module", params=[Seaweed, JuiceFS, Azurite])
def running(request, tmp_path_factory):
    store = request.param(tmp_path_factory.mktemp("store"))
    yield store
    store.stop()


@pytest.fixture
def store(running, monkeypatch):
    for name in [n for n in os.environ if re.match("AWS_|AZURE_|STORAGE_EMULATOR", n)]:
        monkeypatch.delenv(name)
    for name, value in running.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return running


def given(store):
    """storage_options: the packages do not know the environment's names of an endpoint."""
    if isinstance(store, Azurite):
        endpoint = re.search("BlobEndpoint=([^;]+)", store.env["AZURE_STORAGE_CONNECTION_STRING"])[1]
        return {"account_name": "devstoreaccount1", "account_key": store.key, "endpoint": endpoint}
    endpoint = store.env["AWS_ENDPOINT_URL"]
    return {"key": store.key, "secret": store.secret, "endpoint": endpoint, "region": "us-east-1"}


def twice(read, tmp_path):
    for cache in (False, tmp_path / "cache", tmp_path / "cache"):
        ds = read(cache=cache)
        for found in (ds, pickle.loads(pickle.dumps(ds))):
            assert sum(int(b["id"].sum()) for b in found.iter_batches()) == SUM


def test_delta(store, tmp_path):
    pytest.importorskip("deltalake")
    where = f"{store.url}/delta/t"
    options = given(store)
    hd.range(ROWS).write_delta(where, storage_options=options)
    twice(lambda **more: hd.read_delta(where, storage_options=options, **more), tmp_path)


def test_lance(store, tmp_path):
    pytest.importorskip("lance")
    where = f"{store.url}/lance/t"
    options = given(store)
    hd.range(ROWS).write_lance(where, storage_options=options)
    twice(lambda **more: hd.read_lance(where, storage_options=options, **more), tmp_path)


def test_iceberg(store, tmp_path):
    catalogs = pytest.importorskip("pyiceberg.catalog")
    if not isinstance(store, Seaweed):
        pytest.skip(
            "Azure needs adlfs, which is not here; the gateway refuses the uploads of pyarrow (HTTP 411)"
        )
    how = {"type": "sql", "name": "c", "uri": f"sqlite:///{tmp_path}/c.db"}
    how["warehouse"] = f"{store.url}/iceberg"
    catalogs.load_catalog(**how).create_namespace("n")
    options = given(store)
    hd.range(ROWS).write_iceberg("n.t", how, storage_options=options)
    twice(
        lambda **more: hd.read_iceberg("n.t", catalog_kwargs=how, storage_options=options, **more), tmp_path
    )


@pytest.fixture(scope="module")
def google(tmp_path_factory):
    store = FakeGcs(tmp_path_factory.mktemp("gs"))
    yield store
    store.stop()


def test_delta_on_google(google, tmp_path, monkeypatch):
    """Our writers need more of a server than the emulator has (FakeGcs.writes): the table is copied there."""
    deltalake = pytest.importorskip("deltalake")
    for name, value in google.env.items():
        monkeypatch.setenv(name, value)
    local = tmp_path / "delta" / "t"
    hd.range(ROWS).write_delta(str(local))
    for path in local.rglob("*"):
        if path.is_file():
            google.put(str(path.relative_to(tmp_path)), path.read_bytes())
    key = {"gcs_base_url": f"http://{google.env['STORAGE_EMULATOR_HOST']}", "disable_oauth": True}
    key |= {"client_email": "", "private_key": "", "private_key_id": ""}
    options = {"google_service_account_key": json.dumps(key)}
    where = f"{google.url}/delta/t"
    assert deltalake.DeltaTable(where, storage_options=options).version() == 0
    twice(lambda **more: hd.read_delta(where, storage_options=options, **more), tmp_path)


def test_zarr(store, tmp_path):
    zarr = pytest.importorskip("zarr")
    local = tmp_path / "g.zarr"
    zarr.create_group(str(local)).create_array("id", shape=(ROWS,), chunks=(100,), dtype="i8")[:] = range(
        ROWS
    )
    for path in local.rglob("*"):
        if path.is_file():
            store.put(f"zarr/{path.relative_to(tmp_path)}", path.read_bytes())
    twice(lambda **more: hd.read_zarr(f"{store.url}/zarr/g.zarr", **more), tmp_path)
