"""A custom Datasource and a custom Datasink: a binary log is read in parallel, summaries are written."""

import json
import os
import struct
import sys

import numpy as np
import pyarrow as pa
import ray
from ray.data import Datasink, Datasource, ReadTask
from ray.data.block import BlockMetadata

RECORD_BYTES = 16


def write_log(path, n):
    with open(path, "wb") as out:
        for i in range(n):
            out.write(struct.pack("<qd", i, (i * 37 % 101) / 4))


class SensorLog(Datasource):
    """Records of 16 bytes: a number and a value. Each task reads a range of them."""

    def __init__(self, path):
        self.path = path
        self.n = os.path.getsize(path) // RECORD_BYTES

    def estimate_inmemory_data_size(self):
        return self.n * RECORD_BYTES

    def get_read_tasks(self, parallelism, per_task_row_limit=None, data_context=None):
        cuts = np.linspace(0, self.n, min(parallelism, 8) + 1).astype(int)
        tasks = []
        for begin, end in zip(cuts[:-1], cuts[1:], strict=True):
            n = int(end - begin)
            meta = BlockMetadata(num_rows=n, size_bytes=n * RECORD_BYTES, input_files=None, exec_stats=None)
            tasks.append(
                ReadTask(lambda begin=int(begin), end=int(end), path=self.path: read(path, begin, end), meta)
            )
        return tasks


def read(path, begin, end):
    values = np.fromfile(
        path, np.dtype([("id", "<i8"), ("value", "<f8")]), end - begin, offset=begin * RECORD_BYTES
    )
    yield pa.table({"id": values["id"], "value": values["value"]})


class Summaries(Datasink):
    """A JSON file for each write task, and one that is written when all are complete."""

    def __init__(self, folder):
        self.folder = folder
        self.done = None

    def on_write_start(self, schema=None, **kwargs):
        os.makedirs(self.folder, exist_ok=True)

    def write(self, blocks, ctx):
        rows, total = 0, 0.0
        for block in blocks:
            rows += block.num_rows
            total += float(np.sum(block.column("value").to_numpy()))
        with open(os.path.join(self.folder, f"part-{ctx.task_idx:04}.json"), "w") as out:
            json.dump({"rows": rows, "total": total}, out)
        return {"rows": rows, "total": total}

    def on_write_complete(self, write_result):
        returned = write_result.write_returns
        self.done = [
            sum(r["rows"] for r in returned),
            sum(r["total"] for r in returned),
            int(write_result.num_rows),
        ]


def main(folder):
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    write_log(os.path.join(folder, "sensor.bin"), 10_000)
    ds = ray.data.read_datasource(SensorLog(os.path.join(folder, "sensor.bin")), override_num_blocks=8)
    schema = {name: str(kind) for name, kind in zip(ds.schema().names, ds.schema().types, strict=True)}
    even = ds.filter(lambda row: row["id"] % 2 == 0)
    sink = Summaries(os.path.join(folder, "out"))
    even.write_datasink(sink)
    parts = []
    for name in sorted(os.listdir(sink.folder)):
        with open(os.path.join(sink.folder, name)) as f:
            parts.append(json.load(f))
    print(
        json.dumps(
            {
                "schema": schema,
                "rows": ds.count(),
                "first": ds.sort("id").take(2),
                "sum": ds.sum("value"),
                "on_disk": [sum(p["rows"] for p in parts), sum(p["total"] for p in parts)],
                "complete": sink.done,
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1])
