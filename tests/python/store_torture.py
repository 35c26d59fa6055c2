"""Reads and writes by a network and a store that fail at random: the rows are those of local files, or there
is one clear error; nothing hangs, and neither memory nor descriptors grow.

One case is a dict of plain values, drawn from a number by draw(): what is read or written, how often
requests fail, whether an object is dead or an edge throttles. A process of its own has the store
(object_server.py) and the proxy with the faults (fault_proxy.py).

An error of a time-out counts as a failure only where the store's process had its share of a CPU.

    python tests/python/store_torture.py FIRST N     N cases from number FIRST on
"""

import contextlib
import faulthandler
import json
import multiprocessing
import os
import random
import resource
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from fault_proxy import Proxy
from object_server import S3Server

import headrace.data as hd
from headrace.exceptions import DataError, NotFoundError, StorageError

FORMATS = ("parquet", "csv", "json", "text")
OPTIONS = {"timeout": 0.5, "connect_timeout": 2, "max_retries": 6}
CASE_S = 60  # a case that lasts longer hangs


def draw(number):
    rng = random.Random(number)
    case = {
        "number": number,
        "action": rng.choice(["all", "all", "first", "columns", "resume", "write", "write"]),
    }
    case |= {"format": rng.choice(FORMATS[:3] if case["action"] in ("columns", "write") else FORMATS)}
    case |= {"rate": rng.choice([0.02, 0.05, 0.1, 0.2]), "throttles": rng.random() < 0.2}
    case |= {"dead": rng.random() < 0.1, "limit": rng.choice([None, None, 64 << 20])}
    return case | {"batch": rng.choice([1, 97, 1000]), "stop": rng.random()}


def make_files(root):
    """A folder of each format, with the same rows."""
    rng = np.random.default_rng(0)
    for k in range(4):
        id_ = np.arange(k * 1500, (k + 1) * 1500)
        lengths = rng.integers(0, 60, len(id_))
        text = [f"row {i} " + "x" * int(n) for i, n in zip(id_, lengths, strict=True)]
        table = pa.table({"id": id_, "value": rng.random(len(id_)), "text": text})
        folders = {f: root / "bucket" / f for f in FORMATS}
        for folder in folders.values():
            folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, folders["parquet"] / f"{k}.parquet", row_group_size=400, write_page_index=True)
        rows = table.to_pylist()
        lines = "".join(f"{r['id']},{r['value']!r},{r['text']}\n" for r in rows)
        (folders["csv"] / f"{k}.csv").write_text("id,value,text\n" + lines)
        (folders["json"] / f"{k}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
        (folders["text"] / f"{k}.txt").write_text("".join(r["text"] + "\n" for r in rows))


TICK_S = 0.05


def watch_clock(longest):
    """Keeps the longest time that a thread of this process waited for a CPU."""
    while True:
        began = time.monotonic()
        time.sleep(TICK_S)
        longest.value = max(longest.value, time.monotonic() - began - TICK_S)


def serve(pipe, root, longest):
    """The store's process. A message: the arguments of Proxy.begin; the answer: what the last case met."""
    threading.Thread(target=watch_clock, args=(longest,), daemon=True).start()
    server = S3Server(root)
    host, port = server.url.removeprefix("http://").split(":")
    proxy = Proxy((host, int(port)))
    pipe.send((f"http://127.0.0.1:{proxy.server_address[1]}", server.url, server.key, server.secret))
    while (message := pipe.recv()) is not None:
        met = dict(proxy.counts)
        proxy.begin(**message)
        pipe.send(met)


def read(case, folder, **options):
    with limited(case["limit"]):
        ds = getattr(hd, f"read_{case['format']}")(folder, **options)
        if case["action"] == "first":
            return pa.Table.from_pylist(ds.take(7))
        if case["action"] == "columns":
            return ds.select_columns(["text", "id"]).filter(expr="id % 3 == 1").to_arrow()
        if case["action"] == "resume":
            return resumed(ds, case)
        return ds.to_arrow()


@contextlib.contextmanager
def limited(limit_bytes):
    context = hd.DataContext.get_current()
    before = context.memory_limit_bytes
    context.memory_limit_bytes = limit_bytes or before
    yield
    context.memory_limit_bytes = before


def resumed(ds, case):
    """A part of the batches, and the others by another iterator that begins at the stored position."""
    options = {"batch_size": case["batch"], "batch_format": "pyarrow"}
    batches, tables = ds.iter_batches(**options), []
    n = 1 + int(case["stop"] * 6000 / case["batch"])
    for batch in batches:
        tables.append(batch)
        if len(tables) == n:
            break
    others = ds.iter_batches(**options)
    others.load_state_dict(batches.state_dict())
    return pa.concat_tables([*tables, *others])


def run_case(case, stores, root):
    """None, or what is wrong; and whether the case ended with an error."""
    options = {"storage_options": stores["options"] | OPTIONS}
    if case["action"] == "write":
        return write(case, stores, root, options)
    local = read(case, str(root / "bucket" / case["format"]))
    try:
        remote = read(case, f"s3://bucket/{case['format']}", **options)
    except (StorageError, DataError) as e:
        return judge(case, stores, e), True
    if case["dead"] and case["action"] != "first":
        return "a dead object was read", False
    return None if remote.equals(local) else f"other rows: {remote.num_rows}, not {local.num_rows}", False


def judge(case, stores, error):
    """What is wrong with an error; None: nothing.

    The story: other programs held both CPUs for half a minute, and seven attempts of half a second each had
    no answer, in three cases one after another.
    """
    text = str(error)
    if "s3://bucket" not in text:
        return f"the error names no URL: {text}"
    if any(secret in text for secret in ("SECRETTEST", "Signature=", "AKIATEST")):
        return f"the error has a secret: {text}"
    waited = stores["longest"].value
    if "does not answer in time" in text and waited > OPTIONS["timeout"] / 4:
        return None
    if case["dead"] or case["rate"] >= 0.05:
        return None
    return f"an error at a rate of {case['rate']}, {waited:.2f} s without a CPU: {text}"


def write(case, stores, root, options):
    """All files of the job are visible, or none; who cleans up makes it one of the two."""
    folder = f"s3://bucket/out/{case['number']}"
    ds = hd.read_parquet(str(root / "bucket" / "parquet"))
    direct = {"storage_options": stores["direct"]}
    wrong, failed = None, False
    try:
        getattr(ds, f"write_{case['format']}")(folder, max_rows_per_file=900, **options)
    except (StorageError, DataError) as e:
        wrong, failed = judge(case, stores, e), True
    stores["begin"](number=case["number"], rate=0.0)
    seen = visible(case, folder, direct)
    if wrong or seen not in ((0, 6000) if failed else (6000,)):
        return wrong or f"{seen} rows are visible after {'an error' if failed else 'the job'}", failed
    other = "write_json" if case["format"] == "csv" else "write_csv"
    getattr(hd.range(1), other)(folder, **direct)  # completes what was decided
    after = visible(case, folder, direct)
    return (
        None if after == 6000 or after == seen == 0 else f"{after} rows after the next job, {seen} before"
    ), failed


def visible(case, folder, options):
    """The number of rows that readers see."""
    suffix = {"parquet": "parquet", "csv": "csv", "json": "json"}[case["format"]]
    try:
        ds = getattr(hd, f"read_{case['format']}")(folder, file_extensions=[suffix], **options)
    except NotFoundError:
        return 0
    return len(set(ds.select_columns(["id"]).to_arrow()["id"].to_pylist()))


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def memory_mb():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6


class Watch:
    """Ends the process with a stack when a case hangs."""

    def __init__(self):
        self.case, self.began = None, time.monotonic()
        threading.Thread(target=self._look, daemon=True).start()

    def begin(self, case):
        self.case, self.began = case, time.monotonic()

    def _look(self):
        while time.monotonic() - self.began < CASE_S:
            time.sleep(1)
        print(f"case {self.case} hangs", flush=True)
        faulthandler.dump_traceback(all_threads=True)
        os._exit(3)


def main():
    first, n = map(int, sys.argv[1:3])
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    began, failures, errors, met = time.monotonic(), 0, 0, {}
    watch = Watch()
    with tempfile.TemporaryDirectory(prefix="torture-") as folder:
        root = Path(folder)
        make_files(root)
        pipe, theirs = multiprocessing.get_context("spawn").Pipe()
        spawn = multiprocessing.get_context("spawn")
        longest = spawn.Value("d", 0.0)
        process = spawn.Process(target=serve, args=(theirs, root, longest), daemon=True)
        process.start()
        proxy, server, key, secret = pipe.recv()

        def begin(**arguments):
            pipe.send(arguments)
            for fault, times in pipe.recv().items():
                met[fault] = met.get(fault, 0) + times

        keys = {"aws_access_key_id": key, "aws_secret_access_key": secret}
        stores = {
            "options": {**keys, "endpoint": proxy},
            "direct": {**keys, "endpoint": server},
            "begin": begin,
            "longest": longest,
        }
        sizes = []
        for number in range(first, first + n):
            case = draw(number)
            watch.begin(case)
            longest.value = 0
            dead = "/2." if case["dead"] and case["action"] != "write" else None
            dead = "000002" if case["dead"] and case["action"] == "write" else dead
            begin(number=number, rate=case["rate"], dead=dead, throttles=case["throttles"])
            wrong, failed = run_case(case, stores, root)
            errors += failed
            if wrong:
                failures += 1
                print(f"case {case}: {wrong}", flush=True)
            sizes.append((descriptors(), memory_mb()))
        begin(number=0, rate=0.0)
        pipe.send(None)
    quarter, last = sizes[n // 4], sizes[-1]
    if n >= 40 and (last[0] > quarter[0] + 40 or last[1] > quarter[1] + 100):
        failures += 1
        print(f"descriptors, MB: {quarter} after a quarter of the cases, {last} at the end")
    seconds = time.monotonic() - began
    print(
        f"{n} cases, {errors} errors, {failures} failures, {seconds:.1f} s; met {dict(sorted(met.items()))}"
    )
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
