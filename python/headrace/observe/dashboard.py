"""dashboard(): a page on this machine that shows the runs of this process while they go on, and /metrics.

The server is Python's http.server: it is kept with Python and needs no package. It is slow, and has no
guards of its own; one browser and one Prometheus on the loopback address need no more than this:

- A request without the token gets 403, and nothing else; the token is compared in constant time.
- A web page elsewhere cannot read from it. The Host header must name the loopback address, or a name that an
  attacker controls could be pointed here (DNS rebinding); an Origin must be the server's own.
- The page's policy permits no script but ours and no other address. Text of users is JSON, and shown as text.
- At most MOST_CONNECTIONS at once, each idle for at most IDLE_S. Nothing is logged: addresses have the token.
- A forked child closes its copy of the socket.

Tests: tests/python/test_dashboard.py, test_tune_page.py
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import socket
import socketserver
import sys
import threading
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from headrace._core import InvalidArgument, __version__
from headrace.data import run_stats
from headrace.observe.live import Live, Record
from headrace.observe.metrics import TYPE, metrics
from headrace.observe.page import page, policy
from headrace.observe.run_report import verdict_lines
from headrace.settings import is_whole

ADDRESS = "127.0.0.1"
NAMES = ("127.0.0.1", "localhost", "[::1]")  # of the Host header; any port: a tunnel has its own
MOST_CONNECTIONS = 32
IDLE_S = 15
STOPS_S = 0.1  # between two looks whether to stop
SCRIPTS = [Path(__file__).with_name("live.js")]

_lock = threading.Lock()
_open: Dashboard | None = None


class Dashboard:
    """A dashboard that is open; a context manager. url: the address of the page, with its token;
    token: that alone, for what reads `/metrics`."""

    def __init__(self, port: int = 0) -> None:
        self.token: str = secrets.token_urlsafe(24)
        self._live = Live()
        try:
            self._server = _Server((ADDRESS, port), self)
        except BaseException as e:
            self._live.close()
            if isinstance(e, OSError) and e.errno is not None:
                raise OSError(e.errno, f"dashboard: port {port}: {os.strerror(e.errno)}") from None
            raise
        self.port: int = self._server.server_address[1]
        self._text = page("Headrace", {"headrace": __version__}, SCRIPTS, connects=True).encode()
        thread = threading.Thread(
            target=self._server.serve_forever, args=(STOPS_S,), name="headrace-dashboard", daemon=True
        )
        thread.start()

    @property
    def url(self) -> str:
        return f"http://{ADDRESS}:{self.port}/?token={self.token}"

    def close(self) -> None:
        """Stops the server. The runs go on. A second call does nothing."""
        global _open
        with _lock:
            if _open is not self:
                return  # closed, or the parent's of a forked child
            _open = None
        self._server.shutdown()
        self._server.server_close()
        self._live.close()

    def __enter__(self) -> Dashboard:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Dashboard({self.url!r})"


def dashboard(port: int = 0) -> Dashboard:
    """Serves a page on this machine that shows the runs of this process while they go on, and afterwards.

    Returns the Dashboard; its `url` has the token without which nothing is shown. The address
    `http://127.0.0.1:PORT/metrics` with the same token is for Prometheus. A second call returns the dashboard
    that is open. Runs that have begun before are shown from now on.

    port: of 127.0.0.1; 0: a free one. InvalidArgument: it is none, or a dashboard is open on another port.
    OSError: the port is taken.
    """
    global _open
    if not is_whole(port, 0) or port > 65535:
        raise InvalidArgument(f"dashboard: port: expected a number from 0 to 65535, found {port!r}")
    with _lock:
        if _open is None:
            _open = Dashboard(port)
        if port not in (0, _open.port):
            raise InvalidArgument(
                f"dashboard: port {port}: one is open on port {_open.port}; close() it first"
            )
        return _open


def _forked() -> None:
    """The dashboard is the parent's."""
    global _open, _lock
    _lock = threading.Lock()
    if _open is not None:
        _open._server.socket.close()
        _open = None


os.register_at_fork(after_in_child=_forked)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], dashboard: Dashboard) -> None:
        self.dashboard = dashboard
        self._connections: set[socket.socket] = set()
        self._changes = threading.Lock()
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        socketserver.TCPServer.server_bind(self)  # HTTPServer's asks a name server for our name
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._changes:
            full = len(self._connections) >= MOST_CONNECTIONS
            if not full:
                self._connections.add(request)
        if full:
            self.shutdown_request(request)
        else:
            super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._changes:
                self._connections.discard(request)

    def server_close(self) -> None:
        """Ends connections that wait for their next request, too."""
        super().server_close()
        with self._changes:
            for connection in self._connections:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], OSError):  # the browser has gone
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "headrace"
    sys_version = ""
    timeout = IDLE_S
    server: _Server

    def __getattr__(self, name: str) -> Any:
        """BaseHTTPRequestHandler asks for do_METHOD, and answers an unknown one itself, to anybody."""
        if name.startswith("do_"):
            return self._answer
        raise AttributeError(name)

    def _answer(self) -> None:
        try:
            address = urlsplit(self.path)
            words = parse_qs(address.query)
        except ValueError:
            address, words = urlsplit(""), {}  # no path and no token
        if not self._is_ours():
            self._send(HTTPStatus.FORBIDDEN, "text/plain", b"expected a request of this machine's own page\n")
        elif not self._knows_token(words):
            self._send(HTTPStatus.FORBIDDEN, "text/plain", b"expected the token of the dashboard's url\n")
        elif self.command not in ("GET", "HEAD"):
            self._send(HTTPStatus.METHOD_NOT_ALLOWED, "text/plain", b"expected GET or HEAD\n")
        elif address.path == "/":
            self._send(HTTPStatus.OK, "text/html; charset=utf-8", self.server.dashboard._text)
        elif address.path == "/news":
            made = _news(self.server.dashboard._live, words)
            self._send(HTTPStatus.OK, "application/json", made.encode())
        elif address.path == "/metrics":
            self._send(HTTPStatus.OK, TYPE, _metrics(self.server.dashboard._live).encode())
        else:
            self._send(HTTPStatus.NOT_FOUND, "text/plain", b"expected /, /news or /metrics\n")

    def _is_ours(self) -> bool:
        """The Host is a name of the loopback address, and the Origin, if any, is this server's."""
        host, origin = self.headers.get_all("Host", []), self.headers.get("Origin")
        if len(host) != 1 or _name(host[0]) not in NAMES:
            return False
        by_link = self.headers.get("Sec-Fetch-Mode") == "navigate"  # in a notebook's page, say
        if not by_link and self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            return False
        return origin is None or origin == f"http://{host[0]}"

    def _knows_token(self, words: dict[str, list[str]]) -> bool:
        given = words.get("token", [""])[0]
        header = self.headers.get("Authorization", "")
        if not given and header.startswith("Bearer "):
            given = header.removeprefix("Bearer ")
        return hmac.compare_digest(given.encode(), self.server.dashboard.token.encode())

    def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", policy(SCRIPTS, connects=True) + _FRAMES)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cache-Control", "no-store")
        if status == HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET, HEAD")
        if self.command not in ("GET", "HEAD"):
            self.send_header("Connection", "close")  # nobody reads the request's body
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


_FRAMES = "; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"


def _name(host: str) -> str:
    """Of a Host header, without the port."""
    name, _, port = host.rpartition(":")
    return (name if name and port.isdigit() else host).lower()


def _number(words: dict[str, list[str]], name: str) -> int:
    text = words.get(name, ["0"])[0]
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else 0


def _metrics(live: Live) -> str:
    live.look()
    with live.lock:
        return metrics(live.records.values())


def _news(live: Live, words: dict[str, list[str]]) -> str:
    """What a page lacks that shows run `run` (0: the newest), and has samples and spans to these numbers."""
    with live.lock:
        record = live.record(_number(words, "run"))
        head = {
            "now": round(live.now(), 3),
            "process": f"process {os.getpid()} on {socket.gethostname()}: {' '.join(sys.argv)}",
            "works": any(r.works for r in live.records.values()),
            "runs": [_line(r) for r in live.records.values()],
        }
        if record is None:
            return json.dumps(head | {"run": None})
        had = _number(words, "of") == record.number
        sample = _number(words, "sample") if had else 0
        span = _number(words, "span") if had else 0
        spans = ",".join(text for number, text in record.spans if number > span)
        samples = [s for s in record.samples if s[0] > sample]
        run = _of(record) | {
            "samples": samples,
            "sample": samples[-1][0] if samples else sample,
            "span": record.spans[-1][0] if record.spans else span,
        }
        return f'{json.dumps(head)[:-1]},"run":{json.dumps(run)[:-1]},"spans":[{spans}]}}}}'


def _line(record: Record) -> dict[str, Any]:
    """Of a run in the list."""
    return {"number": record.number, "title": record.title, "works": record.works, "rows": record.rows}


def _of(record: Record) -> dict[str, Any]:
    engine = record.engine
    return _line(record) | {
        "begin": round(record.begin, 3),
        "seconds": round(engine.get("seconds", 0), 3),
        "ranks": record.ranks,
        "verdict": verdict_lines(record.stats),
        "text": run_stats.shown(record.stats) if record.stats else "",
        "limit": engine.get("limit_bytes", 0),
        "operators": ["read", *(o["name"] for o in engine.get("operators", []))],
        "stages": [_stage_name(engine, stage) for stage in engine.get("stages", [])],
    }


def _stage_name(engine: dict[str, Any], stage: dict[str, Any]) -> str:
    names = [o["name"] for o in engine["operators"]]
    first = stage["operators"][0] if stage["operators"] else len(names)
    return names[first] if first < len(names) else "read"
