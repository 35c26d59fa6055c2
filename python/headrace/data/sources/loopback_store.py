"""A store at a loopback address of this process, for pylance, which has a client of its own and takes no
other. It answers as S3 does, reads only, and gets the bytes through the engine, with its cache.

Each store has one folder and a random key, which only the options of open_store() have: other users of the
machine get 403. A forked child has stores of its own.

Tests: tests/python/test_table_stores.py
"""

from __future__ import annotations

import functools
import hmac
import http.server
import os
import re
import secrets
import threading
from html import escape
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from headrace import _core
from headrace._core import HeadraceError, NotFoundError
from headrace.data.paths import shown

BUCKET, FOLDER = "headrace", "table"
MODIFIED = ("2000-01-01T00:00:00.000Z", "Sat, 01 Jan 2000 00:00:00 GMT")  # what clients want to parse
OPEN_OBJECTS = 16
FIXED = ("data/", "_deletions/", "_indices/")  # folders whose objects have names that no other one gets

_stores: dict[tuple[str, ...], _Store] = {}
_lock = threading.Lock()


def _forget_stores():
    global _lock
    _stores.clear()
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forget_stores)  # their threads stay in the parent


def open_store(url: str, texts: list[str]) -> tuple[str, dict[str, str]]:
    """(URL, options of object_store) by which a client of S3 finds the objects below `url`."""
    with _lock:
        key = (url, *texts)
        if key not in _stores:
            _stores[key] = _Store(url, texts)
        return f"s3://{BUCKET}/{FOLDER}", _stores[key].options


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request, client_address):
        """A client that goes away is no error of this process."""


class _Store:
    """Serves the objects below a URL. Its texts may hold keys: nothing prints them."""

    def __init__(self, url, texts):
        self.url, self.texts = url.rstrip("/"), texts
        self.key, self.secret = secrets.token_hex(16), secrets.token_hex(16)
        self.opened = functools.lru_cache(OPEN_OBJECTS)(self._open)
        self.server = _Server(("127.0.0.1", 0), functools.partial(_Handler, self))
        threading.Thread(target=self.server.serve_forever, name="headrace-lance", daemon=True).start()

    @property
    def options(self):
        address = f"http://127.0.0.1:{self.server.server_address[1]}"
        return {
            "aws_access_key_id": self.key,
            "aws_secret_access_key": self.secret,
            "aws_region": "us-east-1",
            "aws_endpoint": address,
            "aws_virtual_hosted_style_request": "false",
            "allow_http": "true",
            "proxy_url": address,  # instead of the environment's, and then for no host at all
            "proxy_excludes": "127.0.0.1",
        }

    def _open(self, name):
        return _core.object_open(f"{self.url}/{name}", self.texts)

    def object(self, name):
        return self.opened(name) if name.startswith(FIXED) else self._open(name)

    def names(self, prefix):
        """(name, bytes) of the objects whose names begin with `prefix`, in the order of S3."""
        folder = f"{self.url}/{prefix.rpartition('/')[0]}".rstrip("/")
        found = ((url[len(self.url) + 1 :], n) for url, n in _core.objects_list(folder, self.texts))
        return sorted((f for f in found if f[0].startswith(prefix)), key=lambda f: f[0].encode())


def _range(text, n_bytes):
    """(begin, end) of a header; the whole object without one. None: there are no such bytes."""
    found = re.fullmatch(r"bytes=(\d*)-(\d*)", text or "")
    if not found or not (found[1] or found[2]):
        return 0, n_bytes
    if not found[1]:
        return max(0, n_bytes - int(found[2])), n_bytes
    begin, end = int(found[1]), min(int(found[2]) + 1 if found[2] else n_bytes, n_bytes)
    return (begin, end) if begin < end else None


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 1 << 16

    def __init__(self, store, *args):
        self.store = store
        super().__init__(*args)

    def log_message(self, *args):
        """Nothing is printed."""

    def do_GET(self):
        found = re.search(r"Credential=([^/]+)/", self.headers.get("Authorization", ""))
        if not found or not hmac.compare_digest(found[1], self.store.key):
            return self._refuse(403, "AccessDenied", "the key is another one")
        try:
            self._answer()
        except NotFoundError as e:
            self._refuse(404, "NoSuchKey", str(e))
        except HeadraceError as e:
            self._refuse(400, "HeadraceError", str(e))

    do_HEAD = do_GET

    def do_PUT(self):
        self._refuse(
            405, "MethodNotAllowed", f"{shown(self.store.url)}: the cache of a reader takes no objects"
        )

    do_POST = do_DELETE = do_PUT

    def _answer(self):
        url = urlsplit(self.path)
        name = unquote(url.path).removeprefix(f"/{BUCKET}").lstrip("/")
        if name:
            self._object(name.removeprefix(f"{FOLDER}/"))
        else:
            self._list(parse_qs(url.query, keep_blank_values=True))

    def _object(self, name):
        opened, n_bytes, version = self.store.object(name)
        part = _range(self.headers.get("Range"), n_bytes)
        if part is None:
            return self._refuse(416, "InvalidRange", "no such bytes")
        begin, end = part
        data = _core.object_range(opened, begin, end - begin) if self.command == "GET" else b""
        headers = {"Content-Length": str(end - begin), "Last-Modified": MODIFIED[1]}
        headers |= {"ETag": version} if version else {}
        partial = "Range" in self.headers
        if partial:
            headers["Content-Range"] = f"bytes {begin}-{end - 1}/{n_bytes}"
        self._send(206 if partial else 200, headers, data)

    def _list(self, query):
        prefix, cut = query.get("prefix", [""])[0], query.get("delimiter", [""])[0]
        behind = query.get("start-after", [""])[0]
        lines: dict[str, Any] = {}
        for name, size in self.store.names(prefix.removeprefix(FOLDER).lstrip("/")):
            key = f"{FOLDER}/{name}"
            head, found, _ = key[len(prefix) :].partition(cut) if cut else ("", "", "")
            if found:
                folder = escape(f"{prefix}{head}{cut}")
                lines[folder] = f"<CommonPrefixes><Prefix>{folder}</Prefix></CommonPrefixes>"
            elif key > behind:
                about = f"<LastModified>{MODIFIED[0]}</LastModified><Size>{size}</Size>"
                lines[key] = f"<Contents><Key>{escape(key)}</Key>{about}</Contents>"
        head = f"<Name>{BUCKET}</Name><KeyCount>{len(lines)}</KeyCount><IsTruncated>false</IsTruncated>"
        body = f"<ListBucketResult>{head}{''.join(lines.values())}</ListBucketResult>".encode()
        self._send(200, {"Content-Length": str(len(body)), "Content-Type": "application/xml"}, body)

    def _refuse(self, code, name, text):
        body = f"<Error><Code>{name}</Code><Message>{escape(text)}</Message></Error>".encode()
        self._send(code, {"Content-Length": str(len(body))}, b"" if self.command == "HEAD" else body)

    def _send(self, code, headers, body):
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
