"""Functions that await: several calls in flight, the order of the results kept."""

import asyncio
import time

import numpy as np
import pytest

import headrace.data as hd


def column(ds, name="id"):
    return ds.to_arrow()[name].to_pylist()


async def double_later(batch):
    await asyncio.sleep(0.01 * (3 - batch["id"][0] % 4))
    return {"id": batch["id"] * 2}


def test_async_batches_keep_their_order(compute):
    ds = hd.range(200).map_batches(double_later, batch_size=10, compute=compute)
    assert column(ds) == list(range(0, 400, 2))


class Service:
    """Counts how many of its calls are in flight; each ends when `wanted` have been."""

    wanted = 5

    def __init__(self):
        self.now = self.most = 0
        self.until = time.monotonic() + 30

    async def __call__(self, row):
        self.now += 1
        self.most = max(self.most, self.now)
        while self.most < self.wanted and time.monotonic() < self.until:
            await asyncio.sleep(0.005)
        self.now -= 1
        return {"id": row["id"], "most": self.most}


def test_async_rows_are_in_flight_together(compute):
    ds = hd.range(100).map(Service, compute=compute, concurrency=1)
    table = ds.to_arrow()
    assert table["id"].to_pylist() == list(range(100))
    assert max(table["most"].to_pylist()) > 4


def test_async_batches_are_in_flight_together():
    class Calls(Service):
        wanted = 2

        async def __call__(self, batch):
            made = await super().__call__({"id": batch["id"][0]})
            return {"id": [made["id"]], "most": [made["most"]]}

    table = hd.range(40).map_batches(Calls, batch_size=1, concurrency=1).to_arrow()
    assert table["id"].to_pylist() == list(range(40))
    assert 2 <= max(table["most"].to_pylist()) <= 4


async def async_parts(batch):
    for value in batch["id"]:
        await asyncio.sleep(0)
        yield {"id": [value, -value]}


async def async_flat(row):
    return [row] * (row["id"] % 3)


async def async_flat_generator(row):
    for _ in range(row["id"] % 3):
        yield row


async def is_even(row):
    await asyncio.sleep(0)
    return row["id"] % 2 == 0


def test_async_kinds(compute):
    ds = hd.range(30)
    assert column(ds.map_batches(async_parts, compute=compute)) == [v for i in range(30) for v in (i, -i)]
    thrice = [i for i in range(30) for _ in range(i % 3)]
    assert column(ds.flat_map(async_flat, compute=compute)) == thrice
    assert column(ds.flat_map(async_flat_generator, compute=compute)) == thrice
    assert column(ds.filter(is_even, compute=compute)) == list(range(0, 30, 2))


def much(batch):
    for i in range(100):
        yield {"id": np.full(500_000, batch["id"][0] * 1000 + i)}


async def much_later(batch):
    for part in much(batch):
        await asyncio.sleep(0)
        yield part


def test_async_generators_wait_for_whoever_collects(compute):
    ds = hd.range(2).map_batches(much_later, batch_size=1, compute=compute, concurrency=1)
    seen = [int(b["id"][0]) for b in ds.iter_batches(batch_size=500_000)]
    assert seen == [k * 1000 + i for k in range(2) for i in range(100)]
    assert ds.take(1) == [{"id": 0}]


async def fails_later(row):
    await asyncio.sleep(0.001)
    raise LookupError(f"row {row['id']}")


def test_async_errors(compute):
    with pytest.raises(LookupError, match="row 0"):
        hd.range(3).map(fails_later, compute=compute).take_all()
