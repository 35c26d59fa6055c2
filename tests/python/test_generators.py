"""Functions that are generators: their tables move on at once, in bounded memory, in order."""

import os
import resource
import time

import numpy as np
import pytest

import headrace.data as hd


def column(ds, name="id"):
    return ds.to_arrow()[name].to_pylist()


def test_a_generator_gives_as_it_goes(compute, tmp_path):
    """The first batch arrives while the function waits before its second one."""
    path = str(tmp_path / "arrived")

    def slowly(batch):
        yield {"id": batch["id"][:1]}
        until = time.monotonic() + 60
        while not os.path.exists(path):
            assert time.monotonic() < until, "the consumer waits for the second batch"
            time.sleep(0.002)
        yield {"id": batch["id"][1:2]}

    rows = iter(hd.range(10).map_batches(slowly, compute=compute).iter_batches(batch_size=1))
    if compute == "inline":  # there the function runs when somebody asks for rows, and the consumer waits
        open(path, "w").close()
    assert next(rows)["id"].tolist() == [0]
    open(path, "w").close()
    assert next(rows)["id"].tolist() == [1]
    assert list(rows) == []


def endless(batch):
    n = 0
    while True:
        yield {"n": np.full(100_000, n)}
        n += 1


def test_endless_generators_are_left(compute):
    ds = hd.range(3).map_batches(endless, compute=compute)
    assert ds.take(2) == [{"n": 0}, {"n": 0}]
    assert hd.range(3).flat_map(lambda r: ({"n": i} for i in iter(int, 1)), compute=compute).take(1) == [
        {"n": 0}
    ]
    assert ds.limit(450_000).to_arrow()["n"].to_numpy()[[0, -1]].tolist() == [0, 4]


def much(batch):
    for i in range(200):
        yield {"id": np.full(500_000, batch["id"][0] * 1000 + i)}


def test_a_generator_may_give_more_than_memory(compute):
    """800 MB from one batch, with a limit of 200 MB; in order, with several batches at a time."""
    limit = hd.DataContext.get_current().memory_limit_bytes
    hd.DataContext.get_current().memory_limit_bytes = 200 << 20
    try:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        ds = hd.range(3).map_batches(much, batch_size=1, compute=compute)
        seen = []
        for batch in ds.iter_batches(batch_size=500_000, prefetch_batches=1):
            assert (batch["id"] == batch["id"][0]).all()
            seen.append(int(batch["id"][0]))
        assert seen == [k * 1000 + i for k in range(3) for i in range(200)]
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10
        assert grown < 600, f"{grown} MB"
    finally:
        hd.DataContext.get_current().memory_limit_bytes = limit


def test_a_later_generator_goes_on_while_an_earlier_one_works(tmp_path):
    """It stopped at 16 MiB, whatever the memory limit: workers with large rows worked one at a time."""
    limit = hd.DataContext.get_current().memory_limit_bytes
    hd.DataContext.get_current().memory_limit_bytes = 4 << 30

    def large(batch):
        done = tmp_path / f"done{batch['id'][0]}"
        if batch["id"][0] == 0:
            until = time.monotonic() + 60
            while not (tmp_path / "done1").exists() and time.monotonic() < until:
                time.sleep(0.005)
            yield {"id": [0], "found": [(tmp_path / "done1").exists()]}
            return
        for _ in range(6):
            yield {"id": np.full(1 << 20, 1), "found": np.full(1 << 20, True)}
        done.touch()

    try:
        ds = hd.range(2).map_batches(large, batch_size=1, concurrency=2)
        first = next(iter(ds.iter_rows()))
    finally:
        hd.DataContext.get_current().memory_limit_bytes = limit
    assert first == {"id": 0, "found": True}


def test_the_time_of_a_generator_is_all_of_its_time(compute):
    """Each pause forgot the time before it, and verdicts said that workers were 0 % busy."""

    def slow(batch):
        for i in range(100):
            time.sleep(0.005)
            yield {"id": [i]}

    its = hd.range(1).map_batches(slow, compute=compute).iter_batches(batch_size=1)
    for _ in its:
        time.sleep(0.007)
    served = next(o["served"] for o in its.stats("dict")["operators"] if o["name"].startswith("map_batches"))
    assert served["calls"] == 1
    assert served["busy_ns"] >= 100 * 5_000_000
    assert served["queued_ns"] < served["busy_ns"] / 2


def draws(batch):
    for _ in range(300):
        yield {"x": np.random.random(3), "id": batch["id"][:1].repeat(3)}


def test_generators_draw_the_same_numbers_however_they_are_paused():
    ds = hd.range(8)
    one = ds.map_batches(draws, batch_size=1, compute="inline").to_arrow()
    for concurrency in (1, 2):
        assert ds.map_batches(draws, batch_size=1, concurrency=concurrency).to_arrow() == one


@pytest.mark.parametrize("pause", [0, 0.03])
def test_what_a_generator_gave_before_it_failed(compute, pause):
    """Once a function that ran for more than a slice of time failed with "the call has ended"."""

    def fails(batch):
        yield {"id": [1, 2]}
        time.sleep(pause)
        yield {"id": [3]}
        raise KeyError("later")

    found = []
    with pytest.raises(KeyError, match="later"):
        for row in hd.range(3).map_batches(fails, compute=compute).iter_rows():
            found.append(row["id"])
    assert found == [1, 2, 3]


class Opened:
    """Records that its generators were closed."""

    def __init__(self, path):
        self.path = path

    def __call__(self, batch):
        try:
            yield from endless(batch)
        finally:
            with open(self.path, "a") as f:
                f.write("closed\n")


def test_generators_that_nobody_wants_are_closed(tmp_path, compute):
    path = tmp_path / "log"
    ds = hd.range(1).map_batches(Opened, fn_constructor_args=[str(path)], compute=compute)
    assert ds.take(1) == [{"n": 0}]
    until = time.monotonic() + 30
    while not (path.exists() and path.read_text()) and time.monotonic() < until:  # made first, then written
        time.sleep(0.02)
        if compute == "inline":
            ds.take(1)  # it is closed by the next call there
    assert path.read_text().startswith("closed\n")
