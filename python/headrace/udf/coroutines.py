"""Async functions: coroutines and asynchronous generators, several calls at a time in one event loop.

Results keep the order of the rows. Calls share the random generators, so nothing seeds them.
"""

import asyncio
import inspect
import itertools

import numpy as np

from headrace.data import blocks
from headrace.udf import instances
from headrace.udf.batches import BATCH_PLACE, batches_of
from headrace.udf.call import (
    AWAY,
    HELD_BYTES,
    PAUSE,
    Tables,
    arrow_arguments,
    check_flat,
    in_tables,
    is_retried,
    is_true,
    last_tables,
    make_function,
    with_arrow_result,
)

ROWS_AT_A_TIME = 16  # calls of an async function of rows in one worker at a time


class Held:
    """A call, and the number of tables it has given."""

    def __init__(self, call):
        self.call = call
        self.given = 0


def go_on(waiting, tag, go, call=None):
    """Wakes a paused call: it continues (as `call`), or ends."""
    waiting.pop(tag).set_result((go, call))


class AsyncRunner:
    """A Runner for an event loop: run(call) serves one call; many run at the same time.

    waiting: tag -> Future of a paused call; all runners of the loop share it.
    """

    def __init__(self, spec, waiting):
        self.spec = spec
        self.name = spec["name"]
        self.whole = spec.get("whole", False)
        self.instance, self.fn = make_function(spec)
        self.state_warned = False  # whether it has logged that its state is too large
        self.rows = asyncio.Semaphore(ROWS_AT_A_TIME)
        self.waiting = waiting
        self.tasks = set()

    async def run(self, call):
        """Serves a call to its end."""
        from headrace.udf import errors

        spec = self.spec
        retries = spec.get("max_retries", 0) if spec.get("retried_errors") else 0
        held = Held(call)
        for attempt in range(retries + 1):
            try:
                if attempt == 0:
                    await self._states(call)
                await self._attempt(held)
                held.call.done()
                return
            except Exception as e:
                if attempt == retries or not is_retried(e, spec["retried_errors"]):
                    errors.advise(e, spec, held.call)
                    held.call.fail(*errors.pack(e))
                    return
            await asyncio.sleep(min(0.1 * 2**attempt, 10))

    async def _states(self, call):
        await self._value(instances.load_state(self.instance, call))
        if instances.wants_state(call):
            instances.save_state(await self._value(self.instance.state_dict()), call, self)

    async def _attempt(self, held):
        number = n_bytes = 0
        make = getattr(self, "_finish" if instances.is_last(held.call) else "_" + self.spec["kind"])
        async for table, batch, more in make(held.call):
            number += 1
            if number <= held.given:
                continue
            held.given = number
            n_bytes += table.nbytes
            if not more and n_bytes <= HELD_BYTES:
                if table.num_rows:
                    held.call.result(table, batch)
                continue
            go = held.call.stream(table, batch)
            if go == PAUSE:
                go = await self._paused(held)
            if go == AWAY:
                break

    async def _paused(self, held):
        waiting = asyncio.get_running_loop().create_future()
        self.waiting[held.call.tag] = waiting
        held.call.pause()
        go, call = await waiting
        held.call = call or held.call
        return go

    async def _call(self, row):
        async with self.rows:
            return await self._value(self.fn(row))

    @staticmethod
    async def _value(result):
        return await result if inspect.isawaitable(result) else result

    async def _all_rows(self, call, writable):
        """The function's results for all rows, in the order of the rows; the first error ends all calls."""
        tasks = [
            asyncio.ensure_future(self._call(row)) for row in blocks.rows_of(call.table, writable=writable)
        ]
        try:
            return await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()

    async def _batches(self, call):
        spec = self.spec
        places = np.frombuffer(call.batches, BATCH_PLACE)
        batches = batches_of(call.table, places["rows"], spec["batch_format"], not spec["zero_copy_batch"])
        tables_of = Tables(call, spec)
        for number, batch in enumerate(batches):
            result = self.fn(batch)
            if hasattr(result, "__aiter__"):
                async for item in result:
                    for table in tables_of(item):
                        yield table, number, True
            else:
                made = tables_of(await self._value(result))
                tables = list(itertools.islice(made, 2))
                for table in itertools.chain(tables, made):
                    yield table, number, len(tables) > 1

    _groups = _batches

    async def _finish(self, call):
        result = self.instance.finish()
        if not hasattr(result, "__aiter__"):
            for table in last_tables(await self._value(result), call, self.spec):
                yield table, 0, True
        elif self.spec["kind"] in ("rows", "flat"):
            for table in last_tables([row async for row in result], call, self.spec):
                yield table, 0, True
        else:
            async for item in result:
                for table in last_tables(item, call, self.spec):
                    yield table, 0, True

    async def _rows(self, call):
        rows = iter(await self._all_rows(call, True))
        for made, ended in in_tables(rows, call.build, self.whole):
            yield made, 0, not ended

    async def _filter(self, call):
        keep = [is_true(k, self.name) for k in await self._all_rows(call, False)]
        yield call.build({"keep": np.array(keep, bool)}), 0, False

    async def _flat(self, call):
        async def rows_of_one(row):
            async with self.rows:
                result = self.fn(row)
                if hasattr(result, "__aiter__"):
                    return [new async for new in result]
                result = await self._value(result)
                check_flat(result, self.name)
                return list(result)

        tasks = [asyncio.ensure_future(rows_of_one(row)) for row in blocks.rows_of(call.table, writable=True)]
        try:
            for begin in range(0, len(tasks), ROWS_AT_A_TIME):
                some = tasks[begin : begin + ROWS_AT_A_TIME]
                rows = [new for task in some for new in await task]
                for made, ended in in_tables(iter(rows), call.build):
                    yield made, 0, not ended or some[-1] is not tasks[-1]
        finally:
            for task in tasks:
                task.cancel()

    async def _column(self, call):
        batch = blocks.to_format(call.table, self.spec["batch_format"])
        values = await self._value(self.fn(batch))
        column = call.build({self.spec["column"]: values}).column(0)
        yield call.table.with_column(self.spec["column"], column), 0, False

    async def _arrow(self, call):
        given, words = arrow_arguments(call.table, self.spec["column"])
        result = await self._value(self.fn(*given, **words))
        yield with_arrow_result(call, result, self.spec), 0, False
