"""A proxy between a client and a store that does what networks and stores do on bad days.

Each request gets its fault, or none, by a hash of the case's number, what is asked for, and how often it was
asked for: the order in which requests come does not matter.
"""

import collections
import http.client
import random
import socket
import socketserver
import struct
import threading
import time

# What a request can meet, and how often beside the others.
FAULTS = {
    "reset": 3,  # before the answer
    "nothing": 3,  # the end before the answer
    "garbage": 1,  # what is no HTTP
    "status": 4,  # 500, 502, 503, 504, 408, 429, 400 RequestTimeout
    "cut": 3,  # a part of the body, then the end
    "cut_reset": 2,  # a part of the body, then a reset
    "short": 2,  # fewer bytes than the range, in an answer that is whole otherwise
    "stall": 1,  # a part of the body, then nothing
    "silent": 1,  # nothing at all
    "drip": 2,  # a few bytes at a time
    "lose": 4,  # the store does it, and its answer is lost
    "late": 4,
    "close": 3,  # after the answer, without a word
}
STATUSES = [
    (500, "InternalError"),
    (502, ""),
    (503, "SlowDown"),
    (504, ""),
    (408, "RequestTimeout"),
    (429, "TooManyRequests"),
    (400, "RequestTimeout"),
]
BURST, BURST_S = 12, 0.05  # an edge that throttles takes so many requests in that time


class Proxy(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 256

    def __init__(self, upstream):
        self.upstream = upstream  # (host, port)
        self.lock = threading.Lock()
        self.begin(0, 0.0)
        super().__init__(("127.0.0.1", 0), Connection)
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def begin(self, number, rate, dead=None, throttles=False, stall_s=1.0):
        """The next case.

        dead: requests whose path has this text always fail. stall_s: longer than a client waits.
        """
        with self.lock:
            self.number, self.rate, self.dead, self.throttles, self.stall_s = (
                number,
                rate,
                dead,
                throttles,
                stall_s,
            )
            self.asked = collections.Counter()
            self.counts = collections.Counter()
            self.recent = collections.deque()
            self.throttled_until = 0.0

    def fault_of(self, method, path, wanted):
        with self.lock:
            key = (method, path, wanted)
            self.asked[key] += 1
            rng = random.Random(f"{self.number} {key} {self.asked[key]}")
            fault = "none"
            if self.dead and self.dead in path:
                fault = rng.choice(["reset", "nothing", "status"])
            elif rng.random() < self.rate:
                fault = rng.choices(list(FAULTS), FAULTS.values())[0]
            elif self.throttles and self._is_throttled():
                fault = "throttle"
            self.counts[fault] += 1
            return fault, rng

    def _is_throttled(self):
        now = time.monotonic()
        self.recent.append(now)
        while self.recent[0] < now - BURST_S:
            self.recent.popleft()
        if len(self.recent) > BURST:
            self.throttled_until = now + 0.1
        return now < self.throttled_until


class Connection(socketserver.StreamRequestHandler):
    """One connection of the client, with one of its own to the store."""

    def handle(self):
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.store = None
        try:
            while self._exchange():
                pass
        except OSError:
            pass
        finally:
            if self.store:
                self.store.close()

    def _read_request(self):
        line = self.rfile.readline().decode("latin-1").split()
        if len(line) != 3:
            return None
        headers = []
        while (text := self.rfile.readline().decode("latin-1").rstrip("\r\n")) != "":
            headers.append(tuple(text.split(": ", 1)))
        named = {name.lower(): value for name, value in headers}
        return line[0], line[1], headers, named, self.rfile.read(int(named.get("content-length", 0)))

    def _forward(self, method, path, headers, body):
        if self.store is None:
            self.store = http.client.HTTPConnection(*self.server.upstream, timeout=30)
        try:
            self.store.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in headers:
                self.store.putheader(name, value)
            self.store.endheaders(body or None)
            answer = self.store.getresponse()
            return answer, answer.read()
        except (OSError, http.client.HTTPException):
            self.store.close()
            self.store = None
            raise ConnectionError from None

    def _reset(self):
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        return False

    def _refuse(self, status, code):
        body = f"<Error><Code>{code}</Code><Message>on a bad day</Message></Error>".encode() if code else b""
        head = f"HTTP/1.1 {status} Bad Day\r\nContent-Length: {len(body)}\r\nRetry-After: 0\r\n\r\n"
        self.wfile.write(head.encode() + body)
        return True

    def _exchange(self):
        """One request and its answer. False: the connection ends."""
        request = self._read_request()
        if request is None:
            return False
        method, path, headers, named, body = request
        fault, rng = self.server.fault_of(method, path, named.get("range", ""))
        if fault == "reset":
            return self._reset()
        if fault == "nothing":
            return False
        if fault == "garbage":
            self.wfile.write(rng.randbytes(200))
            return False
        if fault == "throttle":
            return self._refuse(503, "SlowDown")
        if fault == "status":
            return self._refuse(*rng.choice(STATUSES))
        if fault == "silent":
            time.sleep(self.server.stall_s)
            return False
        if fault == "late":
            time.sleep(rng.uniform(0, 0.05))
        answer, data = self._forward(method, path, headers, body)
        if fault == "lose":
            return False
        return self._answer(method, answer, data, fault, rng)

    def _answer(self, method, answer, data, fault, rng):
        part = rng.randrange(len(data)) if data else 0
        length = len(data)
        if fault == "short" and answer.status == 206:
            data, length = data[:part], part
        lines = [f"HTTP/1.1 {answer.status} {answer.reason}"]
        for name, value in answer.getheaders():
            if name.lower() != "content-length":
                lines.append(f"{name}: {value}")
        length = answer.getheader("Content-Length", "0") if method == "HEAD" else length
        lines.append(f"Content-Length: {length}")
        self.wfile.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
        if fault in ("cut", "cut_reset", "stall"):
            self.wfile.write(data[:part])
            if fault == "stall":
                time.sleep(self.server.stall_s)
            return self._reset() if fault == "cut_reset" else False
        if fault == "drip":
            for at in range(0, min(part, 200), 10):
                self.wfile.write(data[at : at + 10])
                time.sleep(0.001)
            data = data[(min(part, 200) + 9) // 10 * 10 :]
        self.wfile.write(data)
        return fault != "close"
