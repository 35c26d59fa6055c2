"""A small HTTP server over a folder, with faults and counters, for the tests of URLs."""

import calendar
import contextlib
import copy
import hashlib
import hmac
import http.server
import itertools
import os
import random
import re
import socket
import threading
import time
from html import escape
from pathlib import Path
from urllib.parse import parse_qs, quote_plus, unquote, urlsplit


class Server(http.server.ThreadingHTTPServer):
    """Takes many connections at once: a full queue would cost each a second."""

    daemon_threads = True
    request_queue_size = 256


def is_awaited(handler):
    """Whether the client still waits for the answer: it has not closed the connection."""
    try:
        flags = socket.MSG_PEEK | socket.MSG_DONTWAIT
        return (
            socket.socket.recv(handler.connection, 1, flags) != b""
        )  # also of TLS, whose own takes no flags
    except BlockingIOError:
        return True
    except OSError:
        return False


class ObjectServer:
    """Serves the files below `root`. `fault`: a function of the request's number and handler, which answers
    itself and returns True, or returns None. `requests`: (method, path, first byte, number of bytes).
    """

    clock = staticmethod(time.time)  # of the server

    def __init__(self, root):
        self.root = Path(root)
        self.fault = None
        self.ranges = True
        self.etags = {}
        self.metadata = {}  # by path: more headers
        self.numbers = itertools.count()
        self.requests = []
        self.at_work = set()  # handlers of requests
        self.most_at_once = 0  # of these, whose clients had not given up
        self.delay_s = 0.0
        self.lock = threading.Lock()
        self.server = Server(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(
            target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        ).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    @property
    def at_once(self):
        return sum(is_awaited(handler) for handler in tuple(self.at_work))

    def body_bytes(self):
        return sum(n for method, _, _, n in self.requests if method == "GET")

    def forget(self):
        self.requests.clear()
        self.most_at_once = 0

    def etag(self, path):
        return self.etags.get(path, f'"{path.stat().st_mtime_ns:x}"')

    def file(self, path):
        """The file with the bytes of the object at `path`: bucket and key."""
        return self.root / path

    def objects(self, bucket):
        """The files of the bucket's objects by key."""
        root = self.root / bucket
        return {str(p.relative_to(root)): p for p in root.rglob("*") if p.is_file()}

    def answer(self, handler):
        path = self.file(unquote(urlsplit(handler.path).path).lstrip("/"))
        with self.lock:
            number = len(self.requests)
            self.requests.append((handler.command, handler.path, -1, 0))
            self.at_work.add(handler)
            self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            if self.delay_s:
                time.sleep(self.delay_s)
            if not (self.fault and self.fault(number, handler)):
                self._good(handler, path, number)
        except (BrokenPipeError, ConnectionResetError):
            handler.close_connection = True
        finally:
            with self.lock:
                self.at_work.discard(handler)

    def store(self, file, data):
        """Replaces it. Who reads it at this time gets the old bytes or the new ones."""
        new = self.root / f".new{threading.get_ident()}"
        new.write_bytes(data)
        new.replace(file)

    def _good(self, handler, path, number):
        with contextlib.ExitStack() as opened:
            with self.lock:  # the bytes and what is said of them are of one version
                if not path.is_file():
                    return self.status(handler, 404)
                file = opened.enter_context(open(path, "rb"))
                headers = {"ETag": self.etag(path), **self.metadata.get(path, {})}
            return self._send(handler, file, headers, number)

    def _send(self, handler, file, headers, number):
        if handler.headers.get("If-Match", headers["ETag"]) != headers["ETag"]:
            return self.status(handler, 412)
        begin, size = 0, os.fstat(file.fileno()).st_size
        end = size
        found = re.fullmatch(r"bytes=(\d+)-(\d*)", handler.headers.get("Range", ""))
        if found and self.ranges:
            begin, end = int(found[1]), min(int(found[2] or size) + 1, size)
            if begin >= size:
                return self.status(handler, 416)
            handler.send_response(206)
            handler.send_header("Content-Range", f"bytes {begin}-{end - 1}/{size}")
        else:
            handler.send_response(200)
        handler.send_header("Content-Length", str(end - begin))
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.end_headers()
        self.requests[number] = (handler.command, handler.path, begin, end - begin)
        if handler.command == "GET":
            file.seek(begin)
            handler.wfile.write(file.read(end - begin))
        return None

    @staticmethod
    def status(handler, code, **headers):
        handler.send_response(code)
        for name, value in {"Content-Length": "0", **headers}.items():
            handler.send_header(name if "-" in name else name.replace("_", "-"), value)
        handler.end_headers()
        return True

    def _handler(outer):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = 1 << 16

            def date_time_string(self, timestamp=None):
                return super().date_time_string(outer.clock() if timestamp is None else timestamp)

            def do_GET(self):
                outer.answer(self)
                self.wfile.flush()

            do_HEAD = do_PUT = do_POST = do_DELETE = do_GET

            def log_message(self, *args):
                pass

        return Handler


class S3Server(ObjectServer):
    """The same as S3, with the signature (version 4) computed here; the folders below `root` are
    buckets. public: names of buckets that anybody may read."""

    key, secret, token, region = "AKIATEST", "SECRETTEST", None, "us-east-1"
    page = 1000
    statuses: dict = {}  # of refusals that are not 403
    public: frozenset = frozenset()
    list_tag = staticmethod(lambda tag: tag)  # what lists have for an ETag
    on_write = None
    dialects = {"AWS4": ("s3", "aws4_request", "x-amz")}  # of signatures: service, end, headers

    def __init__(self, root):
        self.uploads = {}  # by id: the path, and the parts
        self.refused = []  # the codes
        self.numbers = itertools.count()
        super().__init__(root)

    def answer(self, handler):
        parts = urlsplit(handler.path)
        bucket = parts.path.split("/")[1]
        handler.body = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        if bucket not in self.public and (wrong := self._wrong(handler)):
            self.requests.append((handler.command, handler.path, -1, 0))
            return self.refuse(handler, self.statuses.get(wrong, 403), wrong)
        if handler.command == "GET" and "list-type" in parse_qs(parts.query):
            self.requests.append(("LIST", handler.path, -1, 0))
            return self._list(handler, bucket, parse_qs(parts.query, keep_blank_values=True))
        query = parse_qs(parts.query, keep_blank_values=True)
        if handler.command in ("PUT", "POST", "DELETE") or "uploads" in query:
            return self._write(handler, unquote(parts.path), query)
        return super().answer(handler)

    def _write(self, handler, path, query):
        """What writers ask for. on_write(kind, path, handler) may answer itself (True), or be "lose": the
        request is done, and its answer is lost."""
        kinds = {"PUT": "PUT", "POST": "CREATE", "DELETE": "DELETE", "GET": "UPLOADS"}
        kind = kinds[handler.command]
        if "uploadId" in query:
            kind = {"PUT": "PART", "POST": "COMPLETE", "DELETE": "ABORT"}[handler.command]
        with self.lock:
            self.requests.append((kind, path, -1, len(handler.body)))
        hook = self.on_write and self.on_write(kind, path, handler)
        if hook is True:
            return None
        with self.lock:
            status, headers, body = getattr(self, "_do_" + kind.lower())(handler, path, query)
        if hook == "lose":
            handler.close_connection = True
            return None
        handler.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body.encode())
        return None

    @staticmethod
    def _error(status, code):
        return status, {}, f"<Error><Code>{code}</Code><Message>refused</Message></Error>"

    def _store(self, handler, path, data, tag):
        file = self.file(path.lstrip("/"))
        if handler.headers.get("If-None-Match") == "*" and file.exists():
            return self._error(412, "PreconditionFailed")
        if "If-Match" in handler.headers and not file.exists():
            return self._error(404, "NoSuchKey")
        if "If-Match" in handler.headers and handler.headers["If-Match"] != self.etag(file):
            return self._error(412, "PreconditionFailed")
        file.parent.mkdir(parents=True, exist_ok=True)
        self.store(file, data)
        self.etags[file] = tag
        return 200, {"ETag": tag}, ""

    def _do_put(self, handler, path, query):
        return self._store(handler, path, handler.body, f'"{hashlib.md5(handler.body).hexdigest()}"')

    def _do_create(self, handler, path, query):
        upload = f"id+{next(self.numbers)}/="
        self.uploads[upload] = (path, {})
        return 200, {}, f"<Answer><UploadId>{upload}</UploadId></Answer>"

    def _do_part(self, handler, path, query):
        if query["uploadId"][0] not in self.uploads:
            return self._error(404, "NoSuchUpload")
        tag = f'"{hashlib.md5(handler.body).hexdigest()}"'
        self.uploads[query["uploadId"][0]][1][int(query["partNumber"][0])] = (tag, handler.body)
        return 200, {"ETag": tag}, ""

    def _do_complete(self, handler, path, query):
        found = self.uploads.get(query["uploadId"][0])
        if not found or found[0] != path:
            return self._error(404, "NoSuchUpload")
        numbers = [int(n) for n in re.findall(r"<PartNumber>(\d+)<", handler.body.decode())]
        tags = re.findall(r"<ETag>(.*?)</ETag>", handler.body.decode())
        if sorted(found[1]) != numbers or [found[1][n][0] for n in numbers] != tags:
            return self._error(400, "InvalidPart")
        if any(len(found[1][n][1]) < 5 << 20 for n in numbers[:-1]):
            return self._error(400, "EntityTooSmall")
        data = b"".join(found[1][n][1] for n in numbers)
        answer = self._store(handler, path, data, f'"{hashlib.md5(data).hexdigest()}-{len(numbers)}"')
        if answer[0] == 200:
            del self.uploads[query["uploadId"][0]]
        return answer[0], {}, answer[2] or "<CompleteMultipartUploadResult/>"

    def _do_abort(self, handler, path, query):
        if self.uploads.get(query["uploadId"][0], ("",))[0] != path:
            return self._error(404, "NoSuchUpload")
        del self.uploads[query["uploadId"][0]]
        return 204, {}, ""

    def _do_delete(self, handler, path, query):
        file = self.file(path.lstrip("/"))
        if "If-Match" in handler.headers and file.exists() and handler.headers["If-Match"] != self.etag(file):
            return self._error(412, "PreconditionFailed")
        file.unlink(missing_ok=True)
        return 204, {}, ""

    def _do_uploads(self, handler, path, query):
        bucket, prefix = path.strip("/"), query["prefix"][0]
        keys = [(p.removeprefix(f"/{bucket}/"), u) for u, (p, _) in self.uploads.items()]
        found = "".join(
            f"<Upload><Key>{quote_plus(k)}</Key><UploadId>{u}</UploadId></Upload>"
            for k, u in sorted(keys)
            if k.startswith(prefix)
        )
        head = "<EncodingType>url</EncodingType><IsTruncated>false</IsTruncated>"
        return 200, {}, f"<ListMultipartUploadsResult>{head}{found}</ListMultipartUploadsResult>"

    def refuse(self, handler, code, name):
        self.refused.append(name)
        body = f"<Error><Code>{name}</Code><Message>refused</Message></Error>".encode()
        handler.send_response(code)
        handler.send_header("Content-Length", str(len(body)))
        if name == "AuthorizationHeaderMalformed":
            handler.send_header("x-amz-bucket-region", self.region)
        handler.end_headers()
        if handler.command != "HEAD":
            handler.wfile.write(body)

    def _wrong(self, handler, of=None):
        """What is wrong with the signature (`of`: for another service); None: nothing."""
        given = handler.headers.get("Authorization", "")
        found = re.fullmatch(
            r"(\w+)-HMAC-SHA256 Credential=(.+?)/(\d+)/(.+?)/(\w+)/(\w+), "
            r"SignedHeaders=(\S+), Signature=(\w+)",
            given,
        )
        if not found or found[1] not in self.dialects:
            return "AccessDenied"
        dialect, key, day, region, service, end, names, signature = found.groups()
        prefix = self.dialects[dialect][2]
        if (service, end, prefix) != (of or self.dialects[dialect][0], *self.dialects[dialect][1:]):
            return "AuthorizationHeaderMalformed"
        path, _, query = handler.path.partition("?")
        headers = "".join(f"{n}:{handler.headers.get(n, '').strip()}\n" for n in names.split(";"))
        hashed = handler.headers[f"{prefix}-content-sha256"]
        if hashed != hashlib.sha256(handler.body).hexdigest():
            return "XAmzContentSHA256Mismatch"
        canonical = "\n".join([handler.command, path, query, headers, names, hashed])
        scope = f"{day}/{region}/{service}/{end}"
        digest = hashlib.sha256(canonical.encode()).hexdigest()
        text = "\n".join([f"{dialect}-HMAC-SHA256", handler.headers[f"{prefix}-date"], scope, digest])
        secret = f"{dialect}{self.secret}".encode()
        for part in (day, region, service, end):
            secret = hmac.digest(secret, part.encode(), "sha256")
        want = hmac.digest(secret, text.encode(), "sha256").hex()
        if key != self.key or handler.headers.get("x-amz-security-token") != self.token:
            return "InvalidAccessKeyId"
        if region != self.region:
            return "AuthorizationHeaderMalformed"
        return None if want == signature else "SignatureDoesNotMatch"

    def _list(self, handler, bucket, query):
        if not (self.root / bucket).is_dir():
            return self.refuse(handler, 404, "NoSuchBucket")
        prefix = query["prefix"][0]
        files = self.objects(bucket)
        behind = query.get("continuation-token", query.get("start-after", [""]))[0]
        keys = [k for k in sorted(files, key=str.encode) if k.startswith(prefix) and k > behind]
        encoded = query.get("encoding-type") == ["url"]
        lines = ["<EncodingType>url</EncodingType>"] if encoded else []
        page = min(self.page, int(query.get("max-keys", [self.page])[0]))
        for key in keys[:page]:
            tag = self.list_tag(self.etag(files[key])).replace('"', "&quot;")
            size = files[key].stat().st_size
            name = quote_plus(key) if encoded else escape(key)
            lines.append(f"<Contents><Key>{name}</Key><ETag>{tag}</ETag><Size>{size}</Size></Contents>")
        if len(keys) > page:
            lines.append("<IsTruncated>true</IsTruncated>")
            token = escape(keys[page - 1])
            lines.append(f"<NextContinuationToken>{token}</NextContinuationToken>")
        body = f"<ListBucketResult>{''.join(lines)}</ListBucketResult>".encode()
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)


class FlatKeys:
    """A server whose keys are no paths, as in real stores: "a//b", "a/", "../a", and "a" beside "a/b"."""

    def __init__(self, root):
        self.paths = {}  # by file
        super().__init__(root)

    def file(self, path):
        file = self.root / f".{hashlib.sha256(path.encode()).hexdigest()}"
        self.paths[file] = path
        return file

    def objects(self, bucket):
        begin = f"{bucket}/"
        found = [(file, path) for file, path in list(self.paths.items()) if path.startswith(begin)]
        return {path.removeprefix(begin): file for file, path in found if file.is_file()}


class ExpressServer(FlatKeys, S3Server):
    """A directory bucket of S3 (Express One Zone), as Amazon describes it. Only a session's keys sign, and
    they end. Lists come in no order, take only prefixes of folders, and do not begin behind a key; ETags
    are random texts; parts have consecutive numbers; uploads are listed without their ids as markers."""

    session_s = 300  # the length of sessions
    sign_headers = "host;x-amz-content-sha256;x-amz-date;x-amz-s3session-token"

    def __init__(self, root):
        self.sessions = {}  # by token: key, secret, the time of the end
        super().__init__(root)

    def answer(self, handler):
        query = parse_qs(urlsplit(handler.path).query, keep_blank_values=True)
        if "session" in query:
            handler.body = b""
            return self._session(handler)
        return super().answer(handler)

    def _session(self, handler):
        with self.lock:
            self.requests.append(("SESSION", handler.path, -1, 0))
        wrong = "AccessDenied" if "x-amz-s3session-token" in handler.headers else None
        if wrong := wrong or S3Server._wrong(self, handler, "s3express"):
            return self.refuse(handler, 403, wrong)
        if self.is_skewed(handler):
            return self.refuse(handler, 403, "RequestTimeTooSkewed")
        token, end = f"token{next(self.numbers)}+/==", self.clock() + self.session_s
        with self.lock:
            self.sessions[token] = (f"ASIA{len(self.sessions)}", f"secret{len(self.sessions)}", end)
        key, secret, _ = self.sessions[token]
        until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(end))
        body = (
            '<?xml version="1.0" encoding="UTF-8"?><CreateSessionResult><Credentials>'
            f"<SessionToken>{token}</SessionToken><SecretAccessKey>{secret}</SecretAccessKey>"
            f"<AccessKeyId>{key}</AccessKeyId><Expiration>{until}</Expiration></Credentials></CreateSessionResult>"
        ).encode()
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)
        return None

    def is_skewed(self, handler):
        given = calendar.timegm(time.strptime(handler.headers["x-amz-date"], "%Y%m%dT%H%M%SZ"))
        return abs(given - self.clock()) > 900

    def _wrong(self, handler, of=None):
        token = handler.headers.get("x-amz-s3session-token")
        if "x-amz-security-token" in handler.headers or token not in self.sessions:
            return "AccessDenied"
        if self.is_skewed(handler):
            return "RequestTimeTooSkewed"
        key, secret, end = self.sessions[token]
        if self.clock() >= end:
            return "ExpiredToken"
        if f"SignedHeaders={self.sign_headers}," not in handler.headers["Authorization"]:
            return "AccessDenied"
        one = copy.copy(self)
        one.key, one.secret, one.token = key, secret, None
        return S3Server._wrong(one, handler, "s3express")

    def _store(self, handler, path, data, tag):
        return super()._store(handler, path, data, f'"{random.getrandbits(128):032x}"')

    def _do_complete(self, handler, path, query):
        numbers = [int(n) for n in re.findall(r"<PartNumber>(\d+)<", handler.body.decode())]
        if numbers != list(range(1, len(numbers) + 1)):
            return self._error(400, "InvalidPart")
        return super()._do_complete(handler, path, query)

    def _do_uploads(self, handler, path, query):
        prefix = query["prefix"][0]
        if (prefix and not prefix.endswith("/")) or "upload-id-marker" in query:
            return self._error(400, "InvalidRequest")
        return super()._do_uploads(handler, path, query)

    def _list(self, handler, bucket, query):
        prefix, delimiter = query["prefix"][0], query.get("delimiter", [""])[0]
        if (prefix and not prefix.endswith("/")) or "start-after" in query or delimiter not in ("", "/"):
            return self.refuse(handler, 400, "InvalidRequest")
        files = self.objects(bucket)
        names = {k for k in files if k.startswith(prefix)}
        if delimiter:
            begun = [p.removeprefix(f"/{bucket}/") for p, _ in self.uploads.values()]
            found = [*names, *(k for k in begun if k.startswith(prefix))]
            folders = {
                prefix + k.removeprefix(prefix).split("/")[0] + "/" for k in found if "/" in k[len(prefix) :]
            }
            names = {k for k in names if "/" not in k[len(prefix) :]} | folders
        names = sorted(names, key=lambda k: hashlib.sha256(k.encode()).digest())
        behind = int(query.get("continuation-token", ["t0"])[0][1:])
        lines = ["<EncodingType>url</EncodingType>"]
        for name in names[behind : behind + self.page]:
            if name not in files:
                lines.append(f"<CommonPrefixes><Prefix>{quote_plus(name)}</Prefix></CommonPrefixes>")
                continue
            tag = self.etag(files[name]).replace('"', "&quot;")
            size = files[name].stat().st_size
            lines.append(
                f"<Contents><Key>{quote_plus(name)}</Key><ETag>{tag}</ETag><Size>{size}</Size>"
                "<StorageClass>EXPRESS_ONEZONE</StorageClass></Contents>"
            )
        if len(names) > behind + self.page:
            token = f"t{behind + self.page}"
            lines.append(
                f"<IsTruncated>true</IsTruncated><NextContinuationToken>{token}</NextContinuationToken>"
            )
        body = f"<ListBucketResult>{''.join(lines)}</ListBucketResult>".encode()
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)
        return None
