"""Traces of runs, as Perfetto wants them, and the report made of one."""

import gzip
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections import defaultdict

import pytest

import headrace.data as hd
from headrace.exceptions import DataError
from headrace.observe import report
from headrace.observe.run_report import FEW_SPANS, MOST_SPANS, OF_RANKS, RANKS, read_trace

BAD = "</script><script>window.hurt = 1</script>"


def wait(batch):
    import time

    time.sleep(0.005)
    return batch


def traced(path, context, rows=20_000):
    context.trace_path = str(path)
    ds = hd.range(rows, override_num_blocks=8).map_batches(
        wait, batch_size=500, compute="threads", concurrency=2
    )
    for _ in ds.random_shuffle().iter_batches(batch_size=512):
        pass
    return read_trace(path)


@pytest.fixture
def trace(tmp_path, context):
    return traced(tmp_path / "trace.json", context)


def spans(trace):
    found = defaultdict(list)
    for e in trace["traceEvents"]:
        if e["ph"] == "X":
            assert e["ts"] >= 0 and e["dur"] >= 0
            found[e["tid"]].append((e["ts"], e["ts"] + e["dur"], e["name"]))
    return {track: sorted(s) for track, s in found.items()}


def test_each_track_has_a_name_and_spans_of_one_never_overlap(trace):
    found = spans(trace)
    names = {e["tid"]: e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"}
    order = {e["tid"] for e in trace["traceEvents"] if e["name"] == "thread_sort_index"}
    assert set(found) <= set(names) == order
    assert names[0] == "consumer" and "thread 0" in names.values()
    assert any(re.match(r"map_batches\(wait\), waiting \d+$", n) for n in names.values())
    for track, track_spans in found.items():
        for (_, end, _), (begin, _, _) in zip(track_spans, track_spans[1:], strict=False):
            assert begin >= end - 0.002, names[track]  # three digits of a microsecond


def test_the_work_of_the_run_is_in_it(trace):
    done = {name for track_spans in spans(trace).values() for _, _, name in track_spans}
    assert {"read", "map_batches(wait)", "wait"} <= done
    counters = {e["name"] for e in trace["traceEvents"] if e["ph"] == "C"}
    assert counters == {"memory", "spilled"}
    stats = trace["otherData"]["stats"]
    assert stats["taken_rows"] == 20_000 and stats["done"] == 1 and trace["otherData"]["spans_lost"] == 0


def of_ranks(trace):
    return {track - RANKS: s for track, s in spans(trace).items() if RANKS <= track < RANKS + 1000}


@pytest.fixture
def trace_of_ranks(tmp_path, context):
    """Rank 0 does nothing in its steps, rank 1 reports in each."""
    context.trace_path = str(tmp_path / "trace.json")
    shares = hd.range(6000).streaming_split(2)
    begun = threading.Event()

    def slow():
        for _ in shares[1].iter_batches(batch_size=1000):
            assert begun.wait(60)
            begin = time.monotonic_ns()
            time.sleep(0.01)
            shares[1]._source.split.reported(1, begin, time.monotonic_ns())

    rank = threading.Thread(target=slow)
    rank.start()
    for _ in shares[0].iter_batches(batch_size=1000):
        begun.set()
    rank.join()
    return read_trace(tmp_path / "trace.json")


def test_each_rank_has_a_track(trace_of_ranks):
    """Its waits, its steps, and report() within them; they do not overlap, and have no gaps."""
    found = of_ranks(trace_of_ranks)
    assert set(found) == {0, 1}
    events = trace_of_ranks["traceEvents"]
    assert {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}[RANKS + 1] == "rank 1"
    sort = {e["tid"]: e["args"]["sort_index"] for e in events if e["name"] == "thread_sort_index"}
    assert sort[RANKS] < sort[RANKS + 1] < 0 <= min(n for t, n in sort.items() if t < RANKS)
    for rank in found.values():
        assert rank[0][2] == "wait", "for the first batch"
        for (_, end, _), (begin, _, _) in zip(rank, rank[1:], strict=False):
            assert end == pytest.approx(begin, abs=0.002)
    assert [name for _, _, name in found[1]].count("report") == 3
    assert all(e - b >= 10_000 for b, e, name in found[1] if name == "report")
    assert {name for _, _, name in found[0]} == {"wait", "step"}


def test_ranks_in_the_report(tmp_path, trace_of_ranks):
    data = data_of(report(tmp_path / "trace.json").read_text())
    ranks = [row for row in data["rows"] if row.get("rank")]
    assert [row["name"] for row in ranks] == ["rank 0", "rank 1"]
    assert OF_RANKS.index("report") in ranks[1]["what"] and "step" not in data["operations"]


def test_gzip(tmp_path, context):
    path = tmp_path / "trace.json.gz"
    found = traced(path, context, rows=1000)
    assert path.read_bytes()[:2] == b"\x1f\x8b" and found == json.loads(gzip.decompress(path.read_bytes()))


def test_the_environment_names_a_file_for_each_run(tmp_path):
    code = "import headrace.data as hd; ds = hd.range(100); ds.take(3); ds.sum('id')"
    path = tmp_path / "t.json.gz"
    for ranks, names in (
        ({}, ["t-2.json.gz", "t.json.gz"]),
        ({"RANK": "1"}, ["t-rank1-2.json.gz", "t-rank1.json.gz"]),
        ({"HEADRACE_RANK": "3", "RANK": "1"}, ["t-rank3-2.json.gz", "t-rank3.json.gz"]),
        ({"OMPI_COMM_WORLD_RANK": "2"}, ["t-rank2-2.json.gz", "t-rank2.json.gz"]),
        ({"SLURM_PROCID": "0"}, ["t-2.json.gz", "t.json.gz"]),
        ({"SLURM_PROCID": "12"}, ["t-rank12-2.json.gz", "t-rank12.json.gz"]),
    ):
        subprocess.run([sys.executable, "-c", code], env={"HEADRACE_TRACE": str(path)} | ranks, check=True)
        found = sorted(p.name for p in tmp_path.iterdir())
        assert found == names
        for name in names:
            assert read_trace(tmp_path / name)["otherData"]["stats"]["epoch"] == 0
            (tmp_path / name).unlink()


@pytest.mark.parametrize("name, found", [("", "trace.json.gz"), ("T.JSON.GZ", "T.JSON.GZ")])
def test_a_folder_and_capitals(tmp_path, name, found):
    code = "import headrace.data as hd; hd.range(100).take(3)"
    env = {"HEADRACE_TRACE": f"{tmp_path}/{name}"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stderr == "" and [p.name for p in tmp_path.iterdir()] == [found]
    assert (tmp_path / found).read_bytes()[:2] == b"\x1f\x8b" and read_trace(tmp_path / found)["traceEvents"]


def test_a_folder_that_is_missing_costs_no_run(tmp_path):
    code = "import headrace.data as hd; print(hd.range(10).sum('id'))"
    env = {"HEADRACE_TRACE": str(tmp_path / "none" / "t.json")}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "45\n" and "the trace cannot be written: No such file" in done.stderr


def test_a_trace_has_its_name_when_it_is_whole(tmp_path):
    """The story: a full disk left half a trace, in place of the good one of an earlier run."""
    code = "import headrace.data as hd; hd.range(5000, override_num_blocks=500).random_shuffle().take_all()"
    path = tmp_path / "t.json"
    path.write_text("of an earlier run")
    limited = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192)); {code}"
    run = [sys.executable, "-c", limited]
    env = {"HEADRACE_TRACE": str(path)}
    done = subprocess.run(run, env=env, capture_output=True, text=True, check=True)
    assert f"{path}: the trace cannot be written: File too large" in done.stderr
    assert [p.read_text() for p in tmp_path.iterdir()] == ["of an earlier run"]


def test_a_link_and_a_device_stay(tmp_path):
    code = "import headrace.data as hd; hd.range(100).take(3)"
    (tmp_path / "real.json").write_text("")
    (tmp_path / "link.json").symlink_to("real.json")
    for name in (tmp_path / "link.json", os.devnull, "/dev/stdout"):
        env = {"HEADRACE_TRACE": str(name)}
        done = subprocess.run(
            [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
        )
        assert done.stderr == ""
    assert json.loads(done.stdout)["traceEvents"]
    assert (tmp_path / "link.json").is_symlink() and read_trace(tmp_path / "real.json")["traceEvents"]
    assert len(list(tmp_path.iterdir())) == 2


def test_forked_processes_have_traces_of_their_own(tmp_path):
    """The story: all workers of a DataLoader wrote one file, and the last one's was left."""
    code = "import os, headrace.data as hd\nif pid := os.fork(): os.waitpid(pid, 0)\nhd.range(9).take(3)"
    env = {"HEADRACE_TRACE": str(tmp_path / "t.json")}
    subprocess.run([sys.executable, "-c", code], env=env, check=True)
    child, parent = sorted(p.name for p in tmp_path.iterdir())
    assert re.fullmatch(r"t-process\d+\.json", child) and parent == "t.json"
    assert read_trace(tmp_path / child)["traceEvents"] and read_trace(tmp_path / parent)["traceEvents"]


# ------------------------------------------------------------------------------------------ the report


def data_of(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page)[1])


def test_the_report(tmp_path, trace):
    path = report(tmp_path / "trace.json")
    assert path == tmp_path / "trace.html"
    page = path.read_text()
    data = data_of(page)
    assert data["rows"][0]["wait"] and data["rows"][0]["name"] == "consumer"
    for row in data["rows"]:
        assert len(row["begin"]) == len(row["end"]) == len(row["what"])
        assert row["begin"] == sorted(row["begin"]) and row["end"] == sorted(row["end"])
        assert all(0 <= w < len(data["operations"]) for w in row["what"])
    assert "20,000 rows" in data["stats"] and data["operations"][0] == "read"
    assert "http://" not in page and "https://" not in page  # it loads nothing


@pytest.mark.parametrize(
    "name, page",
    [
        ("trace-rank1.json.gz", "trace-rank1"),
        ("2026.11.29.json", "2026.11.29"),
        ("run.1", "run.1"),
        (".json", ".json"),
    ],
)
def test_the_page_has_the_name_of_its_trace(tmp_path, trace, name, page):
    """The story: 2026.11.29.json and 2026.11.30.json had one page, 2026.html."""
    (tmp_path / name).write_bytes((tmp_path / "trace.json").read_bytes())
    assert report(tmp_path / name) == tmp_path / f"{page}.html"


def test_text_of_users_is_text(tmp_path):
    event = {"ph": "X", "pid": 1, "tid": 1, "ts": 0.0, "dur": 5.0, "name": BAD}
    (tmp_path / "t.json").write_text(json.dumps({"otherData": {"stats": None}, "traceEvents": [event]}))
    page = report(tmp_path / "t.json", tmp_path / "out.html").read_text()
    assert BAD not in page and BAD in data_of(page)["operations"]


def page_of(tmp_path, spans):
    """The data of the page of a trace with these spans of one thread: begin and length in us, name."""
    events = [{"ph": "X", "pid": 1, "tid": 1, "ts": b, "dur": d, "name": name} for b, d, name in spans]
    (tmp_path / "t.json").write_text(json.dumps({"otherData": {"stats": None}, "traceEvents": events}))
    return data_of(report(tmp_path / "t.json").read_text())


@pytest.mark.parametrize("n, whole", [(FEW_SPANS, True), (MOST_SPANS, True), (2 * MOST_SPANS, False)])
def test_many_spans_have_bins_for_each_zoom(tmp_path, n, whole):
    """At each level the shares of each operation add up to its time, and all spans begin somewhere."""
    data = page_of(
        tmp_path, [(10.0 * i, 7.0 if i % 2 else 4.0, "map" if i % 2 else "read") for i in range(n)]
    )
    (row,) = data["rows"]
    assert row["whole"] is whole and len(row["begin"]) == (n if whole else 0)
    assert (len(row["levels"]) > 0) is (n > FEW_SPANS)
    for level in row["levels"]:
        assert len(level["index"]) <= MOST_SPANS and sum(level["many"]) == n
        assert (
            level["index"] == sorted(level["index"]) and 0 <= min(level["share"]) <= max(level["share"]) <= 1
        )
        of = [0.0, 0.0]
        for what, share in zip(level["what"], level["share"], strict=True):
            of[what] += share * level["width"]
        operations = dict(zip(data["operations"], of, strict=True))
        assert operations["read"] == pytest.approx(n * 2e-6, rel=1e-3)
        assert operations["map"] == pytest.approx(n * 3.5e-6, rel=1e-3)
    widths = [level["width"] for level in row["levels"]]
    assert widths == sorted(widths, reverse=True)


def test_a_short_burst_has_narrow_bins(tmp_path):
    """100,000 spans of 2 us in a minute: a zoom shows what each ten of them did."""
    burst = [(3e7 + 2.0 * i, 1.0, "read") for i in range(100_000)]
    (row,) = page_of(tmp_path, [(0.0, 5.0, "read"), *burst, (6e7, 5.0, "read")])["rows"]
    finest = row["levels"][-1]
    assert finest["width"] < 1e-4 and sorted(finest["share"])[len(finest["share"]) // 2] == pytest.approx(
        0.5, abs=0.1
    )


OF_TORCH = '{"schemaVersion": 1, "traceEvents": [{"ph": "X", "pid": 1, "tid": "a", "ts": 1, "dur": 2}]}'


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "[1]", "3", '{"traceEvents": 3}', "\x1f\x8bnot gzip", OF_TORCH]
)
def test_what_is_no_trace_is_an_error(tmp_path, text):
    """A story: a trace of torch's profiler was a TypeError, since its tracks have names."""
    path = tmp_path / "t.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(DataError, match="expected a trace of Headrace"):
        report(path)
    done = subprocess.run(
        [sys.executable, "-m", "headrace.observe", str(path)], capture_output=True, text=True
    )
    assert done.returncode == 1 and done.stderr.startswith(f"headrace: {path}: expected a trace")


def test_the_command(tmp_path, trace):
    words = [sys.executable, "-m", "headrace.observe", str(tmp_path / "trace.json"), str(tmp_path / "o.html")]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout == f"{tmp_path / 'o.html'}\n" and data_of((tmp_path / "o.html").read_text())["rows"]


def test_a_trace_that_is_missing_and_a_page_that_cannot_be_written(tmp_path, trace):
    for words, error in (
        ([tmp_path / "none.json"], f"{tmp_path}/none.json: No such file or directory"),
        ([tmp_path / "trace.json", tmp_path], f"{tmp_path}: Is a directory"),
    ):
        run = [sys.executable, "-m", "headrace.observe", *map(str, words)]
        done = subprocess.run(run, capture_output=True, text=True)
        assert (done.returncode, done.stdout, done.stderr) == (1, "", f"headrace: {error}\n")
