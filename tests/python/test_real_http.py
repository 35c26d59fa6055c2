"""Readers with nginx (real_servers.py): TLS, redirects, servers without ranges, slow and broken ones."""

import hashlib
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from real_servers import Nginx, need_tools

import headrace.data as hd
from headrace.exceptions import DataError, HeadraceError, StorageError, UnsupportedError

need_tools()

ROWS = 200_000


@pytest.fixture(scope="module")
def nginx(tmp_path_factory):
    server = Nginx(tmp_path_factory.mktemp("nginx"))
    rng = np.random.default_rng(0)
    table = pa.table({"id": np.arange(ROWS), "value": rng.random(ROWS), "other": rng.random(ROWS)})
    pq.write_table(table, server.root / "a.parquet", row_group_size=ROWS // 10)
    (server.root / "text.csv").write_text("n\n" + "".join(f"{i}\n" for i in range(100_000)))
    yield server
    server.stop()


def local(nginx):
    return hd.read_parquet(str(nginx.root / "a.parquet")).to_arrow()


def news(nginx, log="access.log"):
    """What nginx has answered since the last call."""
    lines, seen = nginx.asked(log), nginx.__dict__.setdefault("seen", {})
    begin, seen[log] = seen.get(log, 0), len(lines)
    return lines[begin:]


def test_columns_are_ranges_of_http_1(nginx):
    news(nginx)
    ds = hd.read_parquet(f"{nginx.url}/a.parquet", columns=["id"])
    assert ds.to_arrow().equals(local(nginx).select(["id"]))
    lines = [line for line in news(nginx) if line.startswith("GET")]
    assert lines and all(" 206 " in line and line.endswith("HTTP/1.1") for line in lines)


def test_a_server_without_ranges_sends_the_whole(nginx):
    """Once for the schema, and once for the rows."""
    news(nginx)
    assert hd.read_parquet(f"{nginx.url}/whole/a.parquet").to_arrow().equals(local(nginx))
    assert hd.read_csv(f"{nginx.url}/whole/text.csv").sum("n") == sum(range(100_000))
    lines = [line for line in news(nginx) if line.startswith("GET")]
    assert lines and all(" 200 " in line for line in lines)
    size = (nginx.root / "a.parquet").stat().st_size
    assert sum(f'a.parquet 200 "bytes=0-{size - 1}"' in line for line in lines) == 2


def test_a_whole_that_is_too_large_is_one_error(nginx, monkeypatch):
    with open(nginx.root / "large.csv", "w") as file:
        file.write("n\n")
        file.truncate(200 << 20)
    context = hd.DataContext.get_current()
    monkeypatch.setattr(context, "memory_limit_bytes", 256 << 20)
    with pytest.raises(UnsupportedError, match=r"large\.csv: .* a quarter of the memory limit"):
        hd.read_csv(f"{nginx.url}/whole/large.csv").take_all()
    (nginx.root / "large.csv").unlink()


def test_redirects_keep_the_range(nginx):
    news(nginx)
    assert hd.read_parquet(f"{nginx.url}/moved/a.parquet").to_arrow().equals(local(nginx))
    lines = [line for line in news(nginx) if line.startswith("GET")]
    assert sum(" 302 " in line for line in lines) == sum(" 206 " in line for line in lines) > 0


def test_a_password_goes_to_its_host_alone(nginx):
    url = nginx.url.replace("http://", "http://me:secret@")
    news(nginx), news(nginx, "other.log")
    assert hd.read_csv(f"{url}/asks/text.csv").count() == 100_000
    assert all("Basic bWU6c2VjcmV0" in line for line in news(nginx))
    with pytest.raises(StorageError, match="HTTP 401"):
        hd.read_csv(f"{nginx.url}/asks/text.csv")
    assert hd.read_csv(f"{url}/away/text.csv").count() == 100_000
    assert all("Basic" in line for line in news(nginx) if "/away/" in line)
    other = news(nginx, "other.log")
    assert other and not any("Basic" in line for line in other)


def test_redirects_that_never_end_are_one_error(nginx):
    with pytest.raises(StorageError, match="more than 5 redirects"):
        hd.read_csv(f"{nginx.url}/loop/a.csv")


@pytest.mark.parametrize("where", ["ends", "busy"])
def test_what_is_never_answered_is_tried_again_and_then_an_error(where, nginx):
    news(nginx)
    with pytest.raises(StorageError, match=rf"/{where}/a\.csv: .*\(2 retries\)"):
        hd.read_csv(f"{nginx.url}/{where}/a.csv", storage_options={"max_retries": 2})
    lines = news(nginx)  # a connection that was open before is no attempt
    assert len(lines) == 3 if where == "busy" else len(lines) >= 3


def test_a_slow_server(nginx):
    """256 kB in each second and connection."""
    rows = hd.read_csv(f"{nginx.url}/slow/text.csv").to_arrow()
    assert rows.equals(hd.read_csv(str(nginx.root / "text.csv")).to_arrow())


def test_a_file_that_is_replaced_is_one_error(nginx):
    nginx.put("again.csv", b"n\n1\n")
    ds = hd.read_csv(f"{nginx.url}/again.csv")
    nginx.put("again.csv", b"n\n2\n3\n")
    with pytest.raises(DataError, match=r"again\.csv: the object was replaced"):
        ds.take_all()


def test_missing_files_are_one_error(nginx):
    with pytest.raises(HeadraceError, match=r"none\.csv: no such object \(HTTP 404\)"):
        hd.read_csv(f"{nginx.url}/none.csv")


HASH = """
import hashlib, sys
import headrace.data as hd
print(hashlib.sha256(hd.read_binary_files(sys.argv[1]).take_all()[0]["bytes"]).hexdigest())
"""


def test_certificates_of_an_own_authority(nginx):
    """The server speaks HTTP/2 too; bodies travel by HTTP/1.1."""

    def fetch(url, **env):
        program, env = [sys.executable, "-c", HASH, url], {**os.environ, **env}
        return subprocess.run(program, capture_output=True, text=True, timeout=120, env=env)

    known, url = {"SSL_CERT_FILE": str(nginx.ca)}, f"https://localhost:{nginx.tls}"
    done = fetch(f"{url}/a.parquet", **known)
    wanted = hashlib.sha256((nginx.root / "a.parquet").read_bytes()).hexdigest()
    assert done.stdout.strip() == wanted, done.stderr
    assert all(line.endswith("HTTP/1.1") for line in nginx.asked("tls.log"))
    assert "certificate is not valid" in fetch(f"{url}/a.parquet", SSL_CERT_FILE="").stderr
    assert "from https to an address without encryption" in fetch(f"{url}/plain/a.parquet", **known).stderr
