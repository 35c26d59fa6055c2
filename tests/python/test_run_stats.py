"""stats() as people read it."""

import json

import pytest

import headrace.data as hd
from headrace.data import run_stats
from headrace.data.expressions import col
from headrace.exceptions import DataError, InvalidArgument


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
    assert any(line.startswith("Memory: at most ") for line in lines)
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


CALLS = {
    "sum": lambda ds: ds.sum("id"),
    "min": lambda ds: ds.min("id"),
    "std": lambda ds: ds.std("id"),
    "unique": lambda ds: ds.unique("id"),
    "aggregate": lambda ds: ds.aggregate(hd.aggregate.Sum("id"), Last()),
    "summary": lambda ds: ds.summary(),
    "count": lambda ds: ds.count(),
    "take_all": lambda ds: ds.take_all(),
    "to_pandas": lambda ds: ds.to_pandas(),
    "materialize": lambda ds: ds.materialize(),
    "iter_batches": lambda ds: list(ds.iter_batches()),
    "iter_rows": lambda ds: list(ds.iter_rows()),
    "size_bytes": lambda ds: ds.size_bytes(),
    "to_random_access_dataset": lambda ds: ds.to_random_access_dataset("id"),
}


class Last(hd.aggregate.AggregateFn):
    """A user's own."""

    def __init__(self):
        super().__init__(init=lambda k: 0, accumulate_row=lambda a, row: row["id"], merge=max, name="last")


@pytest.mark.parametrize("name", CALLS)
def test_of_every_call(name):
    """The story: after sum() and its like there was "no run yet"."""
    ds = hd.range(2000).map_batches(lambda b: b, batch_size=100)
    CALLS[name](ds)
    found = ds.stats("dict")
    assert found["rows_read"] == 2000 and "error" not in found
    assert "map_batches(" in ds.stats() and "Error" not in ds.stats()


@pytest.mark.parametrize("name", CALLS)
def test_of_a_run_that_failed(name):
    """The story: "no run yet", after minutes of work."""

    def fails_late(batch):
        if batch["id"][0] >= 1500:
            raise ValueError('row "1500"\nis bad')
        return batch

    ds = hd.range(2000).map_batches(fails_late, batch_size=100)
    with pytest.raises(ValueError, match="is bad"):
        CALLS[name](ds)
    found = ds.stats("dict")
    assert found["rows_read"] > 0 and 'row "1500" is bad' in found["error"]
    lines = ds.stats().splitlines()
    assert lines[0].startswith("Run, epoch 0: ") and lines[1].startswith("Error: ") and '"1500"' in lines[1]
    assert any(line.startswith("map_batches(fails_late)") for line in lines)


def test_of_a_run_that_failed_at_its_beginning(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"PAR1 and no more")
    ds = hd.read_parquet(tmp_path / "a.parquet")
    with pytest.raises(DataError):
        ds.take(1)
    assert "Error: " in ds.stats() and "a.parquet" in ds.stats("dict")["error"]
    assert hd.range(3).take(3) and "error" not in hd.range(3).stats("dict")


def test_of_ranks_whose_run_failed():
    def fails(batch):
        raise ValueError("all are bad")

    (share,) = hd.range(2000).map_batches(fails, batch_size=100).streaming_split(1)
    with pytest.raises(ValueError, match="all are bad"):
        list(share.iter_batches())
    assert "all are bad" in share.stats("dict")["error"] and "\nError: map_batches(fails): " in share.stats()


def test_the_verdict_is_the_last_line():
    """Also of a split, whose run came after it."""
    stats = {"ranks": 1, "epoch": 0, "steps": 3, "rows": [30], "wait_ns": [5], "dropped_rows": 0}
    stats |= {"padded_rows": 0, "verdict": {"kind": "trainer", "starved": False, "text": "the trainer"}}
    ds = hd.range(30)
    ds.take_all()
    lines = run_stats.shown(stats | {"run": ds.stats("dict")}).splitlines()
    assert lines[-1] == "Verdict: the trainer" and any(line.startswith("Memory: ") for line in lines)


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
