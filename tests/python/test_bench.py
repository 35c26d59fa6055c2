"""The benchmarks themselves, with few rows, beside pyarrow: equal rows, and a table of results."""

import importlib
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
BENCH = Path(__file__).resolve().parents[2] / "bench"
ROWS = 40_000


@pytest.mark.slow
def test_a_small_run(tmp_path):
    command = [sys.executable, BENCH / "run.py", "--rows", str(ROWS), "--runs", "1", "--peer", "pyarrow"]
    command += ["--only", "all_columns", "--data", tmp_path, "--json", tmp_path / "figures.json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("\nrows and sums of all columns agree\n")
    for line in (
        "memcpy",
        "first touch",
        "disk read",
        "snappy alone",
        "zstd alone",
        "libjpeg-turbo alone",
        "x ours",
        "peak MB",
    ):
        assert line in done.stdout
    measured = json.loads((tmp_path / "figures.json").read_text())
    assert (
        measured["runs"] == 1 and "memcpy" in "".join(measured["limits"]) and "pyarrow" in measured["peers"]
    )
    figures = measured["workloads"]["all_columns"]["figures"]
    ours, theirs = figures["headrace"], figures["pyarrow.dataset"]
    assert ours["rows"] == theirs["rows"] == ROWS
    assert ours["sums"] == theirs["sums"]
    assert ours["peak"] > 10e6 and ours["seconds"] and ours["first"]


@pytest.mark.parametrize(("name", "rows"), [("tokens", 1024), ("csv", 5000), ("csv_all", 5000)])
def test_rows_and_sums_agree(tmp_path, monkeypatch, name, rows):
    monkeypatch.syspath_prepend(BENCH)
    one, make_data = importlib.import_module("one"), importlib.import_module("make_data")
    workload = importlib.import_module(f"workloads.{name}")
    data = str(make_data.ensure(tmp_path, workload.DATA, rows))
    ours, theirs = (
        one.consume(getattr(workload, who)(data)(), "check", workload) for who in ("headrace", "pyarrow")
    )
    assert ours["rows"] == theirs["rows"] == rows
    assert ours["sums"] == theirs["sums"]


@pytest.mark.slow
def test_a_small_run_of_ranks(tmp_path, rank_server):
    pytest.importorskip("torch")
    command = [BENCH / "feeding.py", "--rows", "50000", "--images", "20", "--runs", "1"]
    command += ["--only", "local_shuffle", "border", "images"]
    text = rank_server.run(command, tmp_path, 250)
    for line in ("local shuffle", "Parquet, random_shuffle", "two ranks"):
        assert f"| {line} | " in text, text


def test_a_wrong_sum_is_found():
    sys.path.insert(0, str(BENCH))
    try:
        import run
    finally:
        sys.path.remove(str(BENCH))
    good = {"rows": 3, "sums": {"x": 6}}
    results = {
        "headrace": {"rows": 3, "sums": {"x": 7}},
        "polars": good,
        "pyarrow": good,
        "ray": run.Failed("no"),
    }
    (line,) = run.disagreements(results)
    assert line.startswith("headrace: ")
    assert run.disagreements({"polars": good, "pyarrow": good}) == []


def test_batches_of_exactly_so_many_rows():
    np = pytest.importorskip("numpy")
    sys.path.insert(0, str(BENCH))
    try:
        batches = importlib.import_module("batches")
    finally:
        sys.path.remove(str(BENCH))
    numbers = np.arange(5000)
    for cuts in ([0, 5000], [0, 1, 2, 1025, 3000, 5000], [0, 1024, 2048, 5000], list(range(0, 5001, 100))):
        chunks = [{"x": numbers[a:b]} for a, b in zip(cuts, cuts[1:], strict=False)]
        out = [b["x"] for b in batches.exact(chunks)]
        assert [len(x) for x in out] == [1024] * 4 + [904]
        assert (np.concatenate(out) == numbers).all()


def one(workload, data):
    command = [sys.executable, BENCH / "one.py", workload, "headrace", data, "check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1].removeprefix("RESULT "))


@pytest.mark.slow
def test_records(tmp_path):
    """Our benchmark reads the same records as other programs."""
    import tarfile

    np, image = pytest.importorskip("numpy"), pytest.importorskip("PIL.Image")
    sys.path.insert(0, str(BENCH))
    try:
        import batches
        import make_data
    finally:
        sys.path.remove(str(BENCH))
    data = make_data.ensure(tmp_path, "webdataset", 40)
    assert make_data.ensure(tmp_path, "webdataset", 40) == data
    members = {"cls": [], "jpg": [], "json": []}
    for path in sorted(data.iterdir()):
        with tarfile.open(path) as shard:
            for member in shard:
                members[member.name.split(".")[1]].append(shard.extractfile(member).read())
    made, stored = one("webdataset", data), one("webdataset_bytes", data)
    assert made["rows"] == stored["rows"] == 40
    assert stored["sums"]["jpg"] == batches.column_sum(np.array(members["jpg"], object))
    assert made["sums"]["cls"] == sum(map(int, members["cls"]))
    pixels = np.empty(40, object)
    pixels[:] = [np.asarray(image.open(io.BytesIO(jpg))) for jpg in members["jpg"]]
    assert made["sums"]["jpg"] == batches.column_sum(pixels)
    about = np.array([json.loads(text) for text in members["json"]])
    assert made["sums"]["json"] == batches.column_sum(about)
    data = make_data.ensure(tmp_path, "tfrecord", 1500)
    made = one("tfrecord", data)
    assert made["rows"] == 1500 and made["sums"]["doc"] == 1500 * 1499 // 2
    assert set(made["sums"]) == {"doc", "embedding", "label", "tokens", "url"}
