"""stats() as people read it."""

import json

import pytest

import headrace.data as hd
from headrace.data import run_stats
from headrace.data.expressions import col
from headrace.exceptions import InvalidArgument


def plan():
    return hd.range(10_000).map_batches(lambda b: {"x": b["id"] * 2}).filter(expr=col("x") >= 10)


def test_a_table_of_operations():
    ds = plan()
    assert ds.stats() == "no run yet" and ds.stats("dict") == {} and ds.stats("json") == "{}"
    assert ds.count() == 9995
    lines = ds.stats().splitlines()
    assert lines[0].startswith("Run, epoch 0: ") and "; the consumer waited " in lines[0]
    assert lines[1].startswith("Read: 10,000 rows of 1 file in ")
    assert lines[2].split() == "operation rows in rows out busy CPU waits bytes out peak memory".split()
    mapped = next(line for line in lines if line.startswith("map_batches("))
    assert mapped.split()[1:3] == ["10,000", "10,000"] and "workers" in mapped
    kept = next(line for line in lines if line.startswith("filter("))
    assert kept.split("  ")[-1] and "9,995" in kept
    assert lines[-1].startswith("Memory: at most ")
    found = ds.stats("dict")
    assert found == json.loads(ds.stats("json")) and found["rows_read"] == 10_000
    with pytest.raises(InvalidArgument, match="expected 'text', 'json' or 'dict', found 'table'"):
        ds.stats("table")


def test_of_what_was_made(tmp_path):
    """It was {} after materialize()."""
    ds = plan()
    made = ds.materialize()
    assert made.stats() == ds.stats() and "map_batches" in made.stats()
    batches = made.iter_batches(batch_size=100)
    assert batches.stats() == "no run yet"
    made.count()
    assert sum(len(b["x"]) for b in batches) == 9995
    assert "9,995 rows" in batches.stats() and batches.stats("dict")["taken_rows"] == 9995
    assert made.stats() == batches.stats()  # of the last run, whoever began it
    ds.write_parquet(tmp_path)
    assert "write_parquet" in ds.stats()
    read = hd.read_parquet(tmp_path)
    assert read.filter(expr="x > 30000").count() == 0
    assert "ruled out: 1 fragments" in read.filter(expr="x > 30000").materialize().stats()


def test_of_ranks():
    share = hd.range(100).streaming_split(1)[0]
    assert sum(len(b["id"]) for b in share.iter_batches(batch_size=10)) == 100
    lines = share.stats().splitlines()
    assert lines[0] == "Split for 1 ranks, epoch 0: 10 steps"
    assert lines[1].startswith("Rank 0: 100 rows; waited ") and lines[2].startswith("Run, epoch 0: 100 rows")
    assert share.stats("dict")["steps"] == 10


def test_numbers():
    for shown, numbers, texts in (
        (run_stats._time, (0.00012, 0.25, 99.0, 1234.5), ["0.1 ms", "0.25 s", "99.00 s", "1,234 s"]),
        (run_stats.bytes_text, (999, 1500, 2.5e6, 3e9), ["999 B", "1.5 kB", "2.5 MB", "3.0 GB"]),
        (run_stats._count, (5, 1500, 2.5e6), ["5", "1.5 thousand", "2.5 million"]),
    ):
        assert [shown(n) for n in numbers] == texts


def test_they_are_logged(context, caplog):
    with caplog.at_level("INFO", "headrace.data"):
        plan().count()
        assert "statistics" not in caplog.text
        context.enable_auto_log_stats = True
        plan().count()
    (line,) = [r.getMessage() for r in caplog.records if ": statistics" in r.getMessage()]
    assert "rows in  rows out" in line and "\nMemory: at most " in line
