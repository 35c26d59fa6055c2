"""The dashboard: what it serves and to whom, its records, and the page in a browser (make test-pages)."""

import contextlib
import errno
import http.client
import json
import os
import re
import signal
import socket
import threading
import time
from pathlib import Path

import pytest

import headrace.data as hd
from headrace import observe
from headrace.data import running
from headrace.exceptions import InvalidArgument
from headrace.observe import live

BAD = '</script><img src=x onerror="window.hurt = 1">'


@pytest.fixture
def board(monkeypatch):
    """It knows nothing of what other tests left open."""
    monkeypatch.setattr(running, "_runs", {})
    with observe.dashboard() as made:
        yield made


def get(board, path="/news", token=True, method="GET", **headers):
    """(status, headers, text)"""
    connection = http.client.HTTPConnection("127.0.0.1", board.port, timeout=60)
    mark = "&" if "?" in path else "?"
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path + (f"{mark}token={board.token}" if token else ""), headers=named)
    answer = connection.getresponse()
    made = answer.status, answer.headers, answer.read().decode()
    connection.close()
    return made


def news(board, **had):
    board._live.look()
    words = "&".join(f"{name}={value}" for name, value in had.items())
    return json.loads(get(board, f"/news?{words}")[2])


def batches(rows=20_000, function=lambda b: b):
    return hd.range(rows).map_batches(function, batch_size=1000).iter_batches(batch_size=1000)


# ------------------------------------------------------------------------------ who may read


def test_without_the_token_there_is_nothing(board):
    for path in ("/", "/news", "/metrics", "/other"):
        for given in ("", "?token=", "?token=x", f"?token={board.token[:-1]}", "?token=%C3%A9"):
            status, _, text = get(board, path + given, token=False)
            assert status == 403 and "expected the token" in text and board.token not in text
    assert get(board, "/metrics", token=False, Authorization=f"Bearer {board.token}")[0] == 200
    assert get(board, "/metrics", token=False, Authorization="Bearer x")[0] == 403
    assert get(board, "/other")[0] == 404
    assert get(board, "/metrics", method="HEAD", token=False)[0] == 403


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "X"])
def test_other_methods(board, method):
    """The story: 501 for anybody, without a look at the token."""
    status, headers, text = get(board, "/news", token=False, method=method)
    assert status == 403 and "expected the token" in text and headers["Connection"] == "close"
    assert get(board, "/news", method=method, Host="example.com")[0] == 403
    status, headers, text = get(board, "/news", method=method)
    assert status == 405 and headers["Allow"] == "GET, HEAD" and text == "expected GET or HEAD\n"


@pytest.mark.parametrize("path", ["/", "/news", "/metrics", "/other"])
def test_head_is_get_without_the_body(board, path):
    status, headers, text = get(board, path, method="HEAD")
    expected, named, body = get(board, path)
    assert status == expected and text == "" and headers["Content-Type"] == named["Content-Type"]
    assert headers["Content-Length"] and (body or path == "/metrics")
    assert len(board.token) >= 32


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "0.0.0.0"])
def test_a_host_that_is_not_this_machine_is_refused(board, host):
    """A name that an attacker controls may be pointed at 127.0.0.1: DNS rebinding."""
    status, _, text = get(board, Host=host)
    assert status == 403 and "this machine's own page" in text


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:8000", "[::1]:8000"])
def test_names_of_this_machine(board, host):
    """With the port of a tunnel, too."""
    assert get(board, Host=host)[0] == 200


def test_pages_elsewhere_are_refused(board):
    for origin in ("http://evil.example", "null", "http://127.0.0.1:1"):
        assert get(board, Origin=origin)[0] == 403
    assert get(board, Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="no-cors")[0] == 403
    assert get(board, Sec_Fetch_Site="same-site")[0] == 403
    assert get(board, Origin=f"http://127.0.0.1:{board.port}", Sec_Fetch_Site="same-origin")[0] == 200
    assert get(board, "/", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate")[0] == 200, "a link"


def test_it_listens_on_loopback_alone_and_forbids_all_else(board):
    assert board._server.socket.getsockname()[0] == "127.0.0.1"
    _, headers, text = get(board, "/")
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'sha256-") and "unsafe" not in policy
    assert "connect-src 'self'" in policy and "frame-ancestors 'none'" in policy
    (own,) = re.findall(r'Content-Security-Policy"\s+content="([^"]*)"', text)
    assert policy.startswith(own)
    assert headers["Cache-Control"] == "no-store" and headers["Referrer-Policy"] == "no-referrer"
    assert headers["X-Content-Type-Options"] == "nosniff" and "Access-Control-Allow-Origin" not in headers
    assert board.token not in text and not re.search(r"https?://", text)


def test_one_is_open_at_a_time():
    with observe.dashboard() as first:
        assert observe.dashboard() is first is observe.dashboard(first.port)
        with pytest.raises(InvalidArgument, match="one is open on port"):
            observe.dashboard(1)
        assert first.url in repr(first)
    with observe.dashboard() as second:
        assert second.token != first.token
    with pytest.raises(OSError):
        get(second)
    assert running._listeners == []


@pytest.mark.parametrize("port", [-1, 65536, 8000.5, "8000"])
def test_what_is_no_port(port):
    with pytest.raises(InvalidArgument, match="expected a number from 0 to 65535"):
        observe.dashboard(port)


def test_closing_twice_and_a_taken_port():
    """The story: close() within `with` raised that a list has no such item, and the system's "Address already
    in use" named no port.
    """
    with observe.dashboard() as board:
        board.close()
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(OSError, match=rf"dashboard: port {port}: Address already in use") as caught:
            observe.dashboard(port)
        assert caught.value.errno == errno.EADDRINUSE
    with observe.dashboard() as board:
        assert get(board)[0] == 200


def test_an_address_that_is_none(board, capfd):
    """The story: anybody on the machine could print a traceback of ours in the program's output."""
    with socket.create_connection(("127.0.0.1", board.port), timeout=60) as raw:
        raw.sendall(b"GET http://[x/ HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        assert raw.makefile("rb").readline() == b"HTTP/1.1 403 Forbidden\r\n"
    assert capfd.readouterr() == ("", "")


def test_a_forked_child_has_no_dashboard(board):
    """Its copy of the socket would keep the port. The story: close() in the child waited for ever for a
    thread that only the parent has.
    """
    fd = board._server.socket.fileno()
    if (pid := os.fork()) == 0:
        code = 3
        with contextlib.suppress(BaseException):
            code = int(observe.dashboard.__globals__["_open"] is not None or bool(running._listeners))
            try:
                os.fstat(fd)
                code += 2
            except OSError:
                pass
            signal.alarm(60)  # kills the child where close() waits
            board.close()
            with observe.dashboard() as own:
                code += 4 * (get(own)[0] != 200 or own is board)
            board.close()
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert get(board)[0] == 200


def test_connections_are_limited(board):
    """One more than the most is closed at once; then there is room again."""
    from headrace.observe.dashboard import MOST_CONNECTIONS

    held = [http.client.HTTPConnection("127.0.0.1", board.port, timeout=60) for _ in range(MOST_CONNECTIONS)]
    for connection in held:
        connection.request("GET", f"/news?token={board.token}")
        assert connection.getresponse().read()
    with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
        get(board)
    for connection in held:
        connection.close()
    until = time.monotonic() + 60
    while True:
        with contextlib.suppress(http.client.RemoteDisconnected, ConnectionError):
            assert get(board)[0] == 200
            break
        assert time.monotonic() < until


# ------------------------------------------------------------------------------ records


def test_nothing_runs(board):
    found = news(board)
    assert found["run"] is None and found["runs"] == [] and not found["works"]


def test_a_run_that_goes_on_and_ends(board):
    """Each answer has only what is new."""
    made = iter(batches())
    next(made)
    first = news(board)["run"]
    assert first["works"] and first["rows"] == 1000 and first["samples"] and first["spans"]
    assert "map_batches" in first["title"] and first["operators"][0] == "read"
    had = {"of": first["number"], "sample": first["sample"], "span": first["span"]}
    for _ in range(5):
        next(made)
    then = news(board, **had)["run"]
    assert then["rows"] == 6000 and [s[2] for s in then["samples"]] == [6000]
    assert all(s[0] > first["sample"] for s in then["samples"])
    assert all(a[1:3] != b[1:3] for a in then["spans"] for b in first["spans"])
    for _ in made:
        pass
    last = news(board, of=then["number"], sample=then["sample"], span=then["span"])
    assert not last["works"] and last["run"]["rows"] == 20_000 and "20,000 rows" in last["run"]["text"]
    assert news(board, of=last["run"]["number"], sample=last["run"]["sample"])["run"]["samples"] == []
    whole = news(board)["run"]  # a page that opens now
    assert len(whole["spans"]) >= len(first["spans"]) + len(then["spans"])
    assert {name for s in whole["spans"] for name in [s[3]]} >= {"map_batches(<lambda>)"}
    for track, begin, took, _, many in whole["spans"]:
        assert track >= 0 and begin >= 0 and took >= 0 and many >= 1


def test_a_run_whose_consumer_waits(board):
    """The story: while a thread was in next(), the run was taken for one that had ended."""
    go = threading.Event()

    def held(batch):
        assert go.wait(60)
        return batch

    ds = hd.range(2000).map_batches(held, batch_size=1000, compute="threads")
    consumer = threading.Thread(target=lambda: list(ds.iter_batches(batch_size=1000)))
    consumer.start()
    until_s = time.monotonic() + 60
    while not (run := news(board)["run"]) or "operation" not in run["text"]:
        assert time.monotonic() < until_s
    assert all(news(board)["run"]["works"] for _ in range(3))
    go.set()
    consumer.join()
    found = news(board)
    assert not found["works"] and found["run"]["rows"] == 2000
    assert any(s[3] == "map_batches(held)" and s[0] >= 100_000 for s in found["run"]["spans"])


def test_a_run_that_began_before():
    made = iter(batches())
    next(made)
    with observe.dashboard() as board:
        found = news(board)["run"]
        assert found["works"] and found["rows"] == 1000
        made.close()
        assert not news(board)["run"]["works"]


def test_the_newest_run_is_shown_and_the_last_are_kept(board):
    for n in range(live.KEPT + 3):
        for _ in batches(1000 + n):
            pass
    found = news(board)
    assert len(found["runs"]) == live.KEPT and found["run"]["rows"] == 1000 + live.KEPT + 2
    numbers = [r["number"] for r in found["runs"]]
    assert numbers == sorted(numbers) and news(board, run=numbers[0])["run"]["number"] == numbers[0]
    assert news(board, run=10**9)["run"] is None
    assert news(board, run="x", sample="-1")["run"]["number"] == numbers[-1]


def test_writes_and_other_runs(board, tmp_path):
    hd.range(3000).write_parquet(tmp_path)
    assert "write_parquet" in news(board)["run"]["title"]
    hd.range(3000).random_shuffle().materialize()
    assert "random_shuffle" in news(board)["run"]["title"]


def test_torch_batches(board):
    pytest.importorskip("torch")
    for _ in hd.range(3000).iter_torch_batches(batch_size=1000):
        pass
    assert news(board)["run"]["rows"] == 3000


def test_ranks(board):
    """Of each rank a row with its steps, over all epochs."""
    shares = hd.range(8000).streaming_split(2)

    def train(share):
        for _ in range(2):
            for _ in share.iter_batches(batch_size=1000):
                time.sleep(0.001)

    ranks = [threading.Thread(target=train, args=(share,)) for share in shares]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    found = news(board)
    run = found["run"]
    assert run["ranks"] == 2 and not run["works"] and run["rows"] == 8000 and "Rank 1" in run["text"]
    assert [r["number"] for r in found["runs"]] == [run["number"]], "an epoch is no run of its own"
    for track in (50_000, 50_001):
        steps = [s for s in run["spans"] if s[0] == track and s[3] == "step"]
        assert sum(s[4] for s in steps) == 8
    shares[0]._source.owner.close()
    assert news(board)["run"]["rows"] == 8000


def test_samples_become_fewer(board, monkeypatch):
    """A long run keeps its whole curve."""
    monkeypatch.setattr(live, "MOST_SAMPLES", 16)
    made = iter(batches())
    next(made)
    for _ in range(200):
        board._live.look()
    (record,) = board._live.records.values()
    numbers = [s[0] for s in record.samples]
    assert len(numbers) <= 16 and numbers[0] == 1 and numbers[-1] > 180 and numbers == sorted(numbers)


def test_old_spans_go(board, monkeypatch):
    monkeypatch.setattr(live, "MOST_TEXT", 1)
    for _ in batches():
        board._live.look()
    (record,) = board._live.records.values()
    assert len(record.spans) == 1 and record.spans[0][0] >= 2


# ------------------------------------------------------------------------------ the page, in a browser


def until(browser, script):
    end = time.monotonic() + 60
    while not browser.js(f"return {script}"):
        assert time.monotonic() < end, browser.js("return document.body.innerText")
        time.sleep(0.05)


STATE = "document.querySelector('.state').textContent"
ROWS = "document.querySelectorAll('canvas').length"


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (390, False), (390, True)])
def test_the_page_lives(browser, board, width, dark):
    """It says that nothing runs; draws a run that goes on; goes on after its end. Text of users is text."""

    def slow(batch):
        time.sleep(0.01)
        return batch

    slow.__name__ = BAD
    browser.show(board.url, width=width, dark=dark, height=1500)
    until(browser, f"{STATE}.includes('No run is going on')")
    ds = hd.range(1_000_000_000).map_batches(slow, batch_size=1000, compute="threads", concurrency=2)
    made = iter(ds.iter_batches(batch_size=1000))
    next(made)
    go = threading.Event()

    def train():
        for _ in made:
            if go.is_set():
                break
            time.sleep(0.003)

    trainer = threading.Thread(target=train)
    trainer.start()
    until(browser, f"{STATE}.includes('goes on') && {ROWS} >= 6")
    until(browser, f"document.querySelector('pre').textContent.includes({json.dumps(BAD[:20])})")
    before = browser.js("return [...document.querySelectorAll('canvas')].map((c) => c.toDataURL());")
    rows = browser.js(f"return {STATE}")
    until(browser, f"{STATE} !== {json.dumps(rows)}")
    browser.drawn()
    after = browser.js("return [...document.querySelectorAll('canvas')].map((c) => c.toDataURL());")
    assert any(a != b for a, b in zip(before, after, strict=False)), "the charts grow"
    if folder := os.environ.get("TEST_PAGES_PICTURES"):
        time.sleep(6)
        browser.picture(Path(folder) / f"live-{width}-{'dark' if dark else 'light'}.png")
    go.set()
    trainer.join()
    made.close()
    until(browser, f"{STATE}.includes('has ended')")
    assert browser.js("return [window.hurt === undefined, document.images.length]") == [True, 0]
    assert browser.js("return document.documentElement.scrollWidth") <= width
    assert browser.errors() == []
    browser.js("document.querySelector('.chart').focus()")
    whole = browser.js("return document.querySelector('canvas').toDataURL()")
    browser.key("+")
    assert browser.js("return document.querySelector('canvas').toDataURL()") != whole


def test_the_page_without_its_server(browser):
    with observe.dashboard() as board:
        for _ in batches():
            pass
        browser.show(board.url)
        until(browser, f"{STATE}.includes('has ended')")
    until(browser, f"{STATE}.includes('does not answer')")
    assert browser.js(f"return {ROWS}") > 0
    browser.errors()


def test_the_page_of_ranks(browser, board):
    shares = hd.range(60_000).streaming_split(2)

    def train(share, step_s):
        for _ in share.iter_batches(batch_size=1000):
            time.sleep(step_s)

    ranks = [threading.Thread(target=train, args=a) for a in zip(shares, (0.01, 0.03), strict=True)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    browser.show(board.url, height=1500)
    until(browser, "[...document.querySelectorAll('h3')].some((h) => h.textContent === 'Ranks')")
    assert browser.errors() == []
    if folder := os.environ.get("TEST_PAGES_PICTURES"):
        browser.picture(Path(folder) / "live-ranks.png")
