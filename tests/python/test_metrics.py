"""/metrics: the text has the format of Prometheus, its names and units, and the values of stats()."""

import http.client
import re
import threading

import pytest

import headrace.data as hd
from headrace import observe
from headrace.data import running

LINE = re.compile(r'^headrace_[a-z_]+\{([a-z_]+="(?:[^"\\\n]|\\\\|\\"|\\n)*",?)*\} (\d+(\.\d+)?(e-?\d+)?)$')
NAME = 'a "quoted" \\ name\nof two lines'


def named(function):
    function.__name__ = NAME
    return function


def scraped():
    """The text of /metrics for two runs: one that has ended, of a split, and one that goes on."""
    with observe.dashboard() as board:
        shares = hd.range(4000).streaming_split(2)
        ranks = [threading.Thread(target=list, args=(s.iter_batches(batch_size=500),)) for s in shares]
        for rank in ranks:
            rank.start()
        for rank in ranks:
            rank.join()
        ds = hd.range(30_000).map_batches(named(lambda b: b), batch_size=1000).random_shuffle()
        made = iter(ds.iter_batches(batch_size=1000))
        for _ in range(3):
            next(made)
        connection = http.client.HTTPConnection("127.0.0.1", board.port, timeout=60)
        connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {board.token}"})
        answer = connection.getresponse()
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        text = answer.read().decode()
        connection.close()
        made.close()
        return text


@pytest.fixture(scope="module", autouse=True)
def no_others():
    """Other tests may have left runs open."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "_runs", {})
        yield


@pytest.fixture(scope="module")
def text():
    return scraped()


def test_the_format(text):
    """Each family has one HELP and one TYPE, before its samples, which stand together."""
    assert text.endswith("\n")
    family, seen, samples = None, set(), set()
    for line in text.splitlines():
        if line.startswith("# HELP "):
            family = line.split()[2]
            assert family not in seen
            seen.add(family)
        elif line.startswith("# TYPE "):
            kind = line.split()[3]
            assert line.split()[2] == family and (kind == "counter") == family.endswith("_total")
        else:
            assert LINE.match(line), line
            name = line.partition("{")[0]
            assert name == family or (
                kind == "histogram" and re.sub("_(bucket|sum|count)$", "", name) == family
            )
            assert line.rpartition(" ")[0] not in samples
            samples.add(line.rpartition(" ")[0])
    assert not [n for n in seen if re.search("_(ms|ns|us|kb|mb)(_|$)", n)]


def test_prometheus_reads_it(text):
    parser = pytest.importorskip("prometheus_client.parser")
    families = {f.name: f for f in parser.text_string_to_metric_families(text)}
    names = {s.labels["operator"] for s in families["headrace_operator_rows_out"].samples}
    assert f"map_batches({NAME})" in names
    assert families["headrace_rows_taken"].type == "counter"
    taken = {s.labels["run"]: s.value for s in families["headrace_rows_taken"].samples}
    assert sorted(taken.values()) == [3000, 4000]
    waits = families["headrace_step_wait_seconds"]
    assert waits.type == "histogram"
    for labels in {(s.labels["run"], s.labels["rank"]) for s in waits.samples}:
        mine = [s for s in waits.samples if (s.labels["run"], s.labels["rank"]) == labels]
        buckets = [s.value for s in mine if s.name.endswith("_bucket")]
        assert buckets == sorted(buckets)
        assert buckets[-1] == next(s.value for s in mine if s.name.endswith("_count"))
    (verdict,) = [s for s in families["headrace_verdict_info"].samples if "kind" in s.labels][:1]
    assert verdict.value == 1
    assert {"headrace_memory_limit_bytes", "headrace_operator_memory_bytes", "headrace_stage_queue_tables",
            "headrace_operator_busy_seconds", "headrace_operator_wait_seconds"} <= set(families)  # fmt: skip


def test_nothing_runs():
    with observe.dashboard() as board:
        connection = http.client.HTTPConnection("127.0.0.1", board.port, timeout=60)
        connection.request("GET", f"/metrics?token={board.token}")
        assert connection.getresponse().read() == b""
        connection.close()
