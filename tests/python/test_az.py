"""az:// and abfs://: folders, patterns, keys, credentials; signatures are checked by the server."""

import base64

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cloud_servers import AzServer

import headrace.data as hd
from headrace.data.expressions import col
from headrace.exceptions import DataError, HeadraceError, InvalidArgument, NotFoundError

ODD = ["a b.txt", "a+b.txt", "100%.txt", "é.txt", "x=1&y.txt", "a'(b)!*.txt", "~-_.txt", "q?#.txt"]
VARIABLES = ("CONNECTION_STRING", "ACCOUNT_NAME", "ACCOUNT", "ACCOUNT_KEY", "KEY", "SAS_TOKEN", "SAS_KEY")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("containers")
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
    for name in VARIABLES:
        monkeypatch.delenv(f"AZURE_STORAGE_{name}", raising=False)
    server = AzServer(folder)
    yield server
    server.close()


@pytest.fixture
def options(server):
    return {"endpoint": server.url, "account_name": server.account, "account_key": server.key}


@pytest.mark.parametrize(
    "where", ["sales", "sales/*/*.parquet", "sales/year=20*", "sales/year=2023/1.parquet"]
)
def test_rows_and_order_are_those_of_the_local_folder(where, folder, options):
    local = hd.read_parquet(f"{folder}/lake/{where}")
    remote = hd.read_parquet(f"az://lake/{where}", storage_options=options)
    assert remote.schema() == local.schema()
    assert remote.to_arrow().equals(local.to_arrow())


@pytest.mark.parametrize(
    "begin",
    ["az://lake", "abfss://lake@acct.dfs.core.windows.net", "wasb://lake@acct.blob.core.windows.net"]
    + ["azure://acct.blob.core.windows.net/lake"],
)
def test_each_form_of_a_url(begin, server):
    options = {"endpoint": server.url, "account_key": server.key}
    options |= {} if "acct" in begin else {"account_name": server.account}
    server.page = 3
    ds = hd.read_text(f"{begin}/odd/", include_paths=True, storage_options=options)
    assert [r["path"] for r in ds.take_all()] == [f"{begin}/odd/{n}" for n in sorted(ODD, key=str.encode)]
    for i, name in enumerate(ODD):
        if "*" not in name and "?" not in name:
            ds = hd.read_text(f"{begin}/odd/{name}", storage_options=options)
            assert ds.take_all() == [{"text": f"line {i}"}]


def connection(server, **more):
    parts = {"DefaultEndpointsProtocol": "http", "AccountName": server.account, "AccountKey": server.key}
    parts["BlobEndpoint"] = f"{server.url}/{server.account}"
    return ";".join(f"{k}={v}" for k, v in {**parts, **more}.items() if v)


def test_credentials(server, options, monkeypatch):
    def count(**given):
        return hd.read_text("az://lake/odd", storage_options=given).count()

    assert count(connection_string=connection(server)) == len(ODD)
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", connection(server))
    assert count() == len(ODD)
    monkeypatch.delenv("AZURE_STORAGE_CONNECTION_STRING")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", server.account)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", server.key)
    assert count(endpoint=server.url) == len(ODD)
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_KEY")
    with pytest.raises(InvalidArgument, match=r"az://lake/odd: no credentials in storage_options"):
        count(endpoint=server.url)
    server.sas = "sv=2021-08-06&sig=a%2Fhush%3D"
    assert count(endpoint=server.url, sas_token="?" + server.sas) == len(ODD)
    string = connection(server, AccountKey="", SharedAccessSignature=server.sas)
    assert count(connection_string=string) == len(ODD)
    server.bearer = "eyJ.token"
    assert count(endpoint=server.url, bearer_token=server.bearer) == len(ODD)
    for wrong in (
        {"account_key": base64.b64encode(b"hush" * 8).decode()},
        {"sas_token": "sv=1&sig=hush"},
        {"token": "hush"},
    ):
        words = r"az://lake/odd: .*HTTP (403\), AuthenticationFailed|401\), InvalidAuthentication)"
        with pytest.raises(HeadraceError, match=words) as e:
            count(endpoint=server.url, **wrong)
        assert "hush" not in str(e.value)
        assert next(iter(wrong.values())) not in str(e.value)


def test_anonymous_access_is_explicit(server):
    server.public = frozenset(["lake"])
    options = {"endpoint": server.url, "account_name": server.account}
    assert hd.read_text("az://anonymous@lake/odd", storage_options=options).count() == len(ODD)
    assert hd.read_text("az://lake/odd", storage_options={**options, "anon": True}).count() == len(ODD)


def test_what_is_not_there(options):
    with pytest.raises(NotFoundError, match="az://lake/y: no such object, and nothing below it"):
        hd.read_text("az://lake/y", storage_options=options)
    with pytest.raises(
        NotFoundError, match=r"az://nothing/: no such container \(HTTP 404\), ContainerNotFound: refused$"
    ):
        hd.read_text("az://nothing/", storage_options=options)


def test_folders_of_hierarchical_accounts_are_no_objects(server, options, folder):
    server.folders = frozenset(["sales", "sales/year=2023", "sales/year=2024"])
    for where in ("az://lake/sales", "az://lake/sales/", "az://lake/sales/*"):
        assert hd.read_parquet(where, storage_options=options).count() == 400


def test_an_object_that_is_replaced_is_one_error(folder, options):
    path = folder / "lake" / "again.txt"
    path.write_text("one\n")
    ds = hd.read_text("abfss://lake@acct/again.txt", storage_options=options)
    path.write_text("two\n")
    with pytest.raises(DataError, match=r"abfss://lake@acct/again.txt: the object was replaced"):
        ds.take_all()


def test_the_clock_is_learnt(server, options):
    def fault(number, handler):
        if number == 0:
            handler.send_response_only(403)
            handler.send_header("x-ms-error-code", "AuthenticationFailed")
            handler.send_header("Date", "Fri, 24 May 2030 00:00:00 GMT")
            handler.send_header("Content-Length", "0")
            handler.end_headers()
            return True
        assert handler.headers["x-ms-date"].startswith("Fri, 24 May 2030")

    ds = hd.read_text("az://lake/odd/a b.txt", storage_options=options)
    server.forget()
    server.fault = fault
    assert ds.count() == 1


def test_a_column_of_urls(options):
    table = pa.table({"url": ["az://lake/odd/a b.txt", "abfs://lake@acct/odd/é.txt"]})
    ds = hd.from_arrow(table).with_column("x", col("url").download(storage_options=options))
    assert [r["x"] for r in ds.take_all()] == [b"line 0\n", b"line 3\n"]
