"""Certificates are checked against those of SSL_CERT_FILE, of the system, or of certifi; errors name the
proxy that refuses to connect.
"""

import http.server
import os
import re
import ssl
import subprocess
import sys
import threading

import pytest
from object_server import Server

import headrace.data as hd
from headrace import _core
from headrace.exceptions import HeadraceError

CONFIG = """[req]
distinguished_name = name
x509_extensions = more
prompt = no
[name]
CN = localhost
[more]
subjectAltName = DNS:localhost, IP:127.0.0.1
basicConstraints = critical, CA:TRUE
"""


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "4")
        self.send_header("ETag", '"one"')
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(b"a\n1\n")

    do_HEAD = do_GET

    def log_message(self, *args):
        pass


def serve(handler, context=None):
    found = Server(("127.0.0.1", 0), handler)
    if context:
        found.socket = context.wrap_socket(found.socket, server_side=True)
    threading.Thread(target=found.serve_forever, args=(0.02,), daemon=True).start()
    return found


@pytest.fixture
def secure(tmp_path):
    """(URL, file with its certificate) of a server over TLS."""
    (tmp_path / "req.cnf").write_text(CONFIG)
    key, cert = tmp_path / "key.pem", tmp_path / "cacert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", key]
    subprocess.run([*command, "-out", cert, "-config", tmp_path / "req.cnf"], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    server = serve(Handler, context)
    yield f"https://localhost:{server.server_port}/a.csv", cert
    server.shutdown()
    server.server_close()


READ = "import sys, headrace.data as hd; print(hd.read_csv(sys.argv[1]).take_all())"


def read(url, begin=(), **environment):
    kept = {k: v for k, v in os.environ.items() if not k.startswith("SSL_CERT")}
    return subprocess.run(
        [*begin, sys.executable, "-c", READ, url],
        env=kept | environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_ssl_cert_file(secure):
    url, cert = secure
    assert read(url, SSL_CERT_FILE=str(cert)).stdout == "[{'a': 1}]\n"
    assert "the server's certificate is not valid" in read(url).stderr
    other = url.replace("localhost", "localhost.")  # a name that the certificate does not have
    found = read(other, SSL_CERT_FILE=str(cert)).stderr
    if "not known" not in found:
        assert re.search(
            r"is not valid(: it is for another name than the host localhost\.|$)", found, re.MULTILINE
        )
    found = read(url, SSL_CERT_FILE=str(cert) + ".none").stderr
    assert f"the file of certificates {cert}.none cannot be read" in found


def test_ssl_cert_file_counts_when_a_reader_is_made(secure, monkeypatch):
    """It was read at the import: what a notebook says after its first error had no effect."""
    url, cert = secure
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with pytest.raises(HeadraceError, match=r"certificate is not valid(: nobody who signed it is in /.*|$)"):
        hd.read_csv(url)
    monkeypatch.setenv("SSL_CERT_FILE", str(cert))
    assert hd.read_csv(url).take_all() == [{"a": 1}]
    monkeypatch.delenv("SSL_CERT_FILE")
    with pytest.raises(HeadraceError, match="certificate is not valid"):
        hd.read_csv(url)


PLACES = ("/etc/ssl", "/etc/pki", "/usr/lib/ssl", "/usr/share/ca-certificates")


@pytest.fixture
def bare_machine(tmp_path):
    """The beginning of a command that sees no certificates of the system."""
    (tmp_path / "empty").mkdir()
    hide = "; ".join(f"mount --bind {tmp_path}/empty {p}" for p in PLACES if os.path.isdir(p))
    begin = ["unshare", "-rm", "sh", "-c", f'set -e; {hide}; exec "$@"', "sh"]
    if subprocess.run([*begin, "true"], capture_output=True).returncode:
        pytest.skip("this machine gives no namespaces to users")
    return begin


def test_certifi_where_the_system_has_none(secure, bare_machine, tmp_path):
    url, cert = secure
    package = tmp_path / "site" / "certifi"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('nobody needs to import it')\n")
    found = read(url, bare_machine, PYTHONPATH=str(package.parent))
    assert "Error" in found.stderr  # the package has no file
    (package / "cacert.pem").write_bytes(cert.read_bytes())
    found = read(url, bare_machine, PYTHONPATH=str(package.parent))
    assert (found.stdout, found.stderr) == ("[{'a': 1}]\n", "")
    found = read(url, PYTHONPATH=str(package.parent))
    if os.path.exists("/etc/ssl/certs/ca-certificates.crt"):  # the system's come first
        assert "the server's certificate is not valid" in found.stderr


def test_the_system_has_certificates():
    assert _core.has_certificates() == any(
        os.path.exists(p) for p in ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt")
    )


@pytest.mark.parametrize("status", [403, 404, 407, 502])
def test_a_proxy_that_refuses_to_connect(status):
    """Its answer was taken as that of the object: 404 was "no such object"."""
    seen = []

    class Proxy(Handler):
        def do_CONNECT(self):
            seen.append(self.path)
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

    server = serve(Proxy)
    proxy = f"http://127.0.0.1:{server.server_port}"
    options = {"proxy_url": proxy.replace("//", "//me:HUSH@"), "max_retries": 1}
    text = f"https://data.invalid/a.csv: the proxy {proxy} refuses to connect to the host \\(HTTP {status}\\)"
    with pytest.raises(HeadraceError, match=text) as e:
        hd.read_csv("https://data.invalid/a.csv", storage_options=options)
    assert not isinstance(e.value, FileNotFoundError)
    assert "HUSH" not in str(e.value)
    assert set(seen) == {"data.invalid:443"}
    assert ("(1 retry)" in str(e.value)) == (status == 502)
    server.shutdown()
    server.server_close()


def test_a_proxy_that_asks_for_credentials_or_is_not_there():
    class Proxy(Handler):
        def do_GET(self):
            self.send_response(407)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_HEAD = do_GET

    server = serve(Proxy)
    options = {"proxy_url": f"http://127.0.0.1:{server.server_port}", "max_retries": 0}
    with pytest.raises(HeadraceError, match=r"asks for credentials \(HTTP 407\), http://127.0.0.1:\d+"):
        hd.read_csv("http://data.invalid/a.csv", storage_options=options)
    server.shutdown()
    server.server_close()
    for proxy in ("http://me:HUSH@127.0.0.1:1", "me:HUSH@127.0.0.1:1"):
        with pytest.raises(HeadraceError, match=r"no connection to the proxy (http://)?127.0.0.1:1$"):
            hd.read_csv("http://data.invalid/a.csv", storage_options=options | {"proxy_url": proxy})
