"""Feeds that are killed anywhere and started again, until they end.

One case is a dict of plain values, drawn from a number by draw(): a plan, its consumer (iter_batches, shares
of streaming_split in threads, or ranks as a launcher starts them, on one host or two), and what is killed
when. Each consumer logs its batches and stores state_dict() now and then; the next attempt loads the state
that it finds, perhaps with other numbers of ranks and threads. run_case() compares each row, of repeated
batches too, and at the end the whole sequence, with one undisturbed pass over the plan in one process.

All consumers are forks of this process, which has imported headrace and has no thread.

    python tests/python/feed_torture.py FIRST N     N cases from number FIRST on; see CONTRIBUTING.md
    python tests/python/feed_torture.py --matrix    threads x ranks x ways to start them, without kills
"""

import atexit
import ctypes
import faulthandler
import hashlib
import importlib
import itertools
import json
import mmap
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings
from pathlib import Path

import numpy as np
import numpy.random
import pandas  # noqa: F401
import pyarrow as pa
import pyarrow.parquet as pq

import headrace.data as hd
from headrace import exceptions
from headrace.data import expressions

PR_SET_CHILD_SUBREAPER = 36
LIMIT_S = 60.0  # for an attempt; only a hang reaches it
GRACE_S = 0.3  # until a launcher ends the other ranks
END_OF_EPOCH = 1 << 20
PEER_LOST = 3  # exit code of a rank that reports another's death
LARGE = 9000  # rows of the large sources
SMALL = 300

# ------------------------------------------------------------------------------------------------- functions


def row_function(row):
    return {"id": row["id"], "k": row["k"], "x": row["x"] * 0.5 + row["k"]}


def noise(batch):
    return {"id": batch["id"], "k": batch["k"], "x": batch["x"] + np.random.random(len(batch["id"]))}


def mean(batch):
    """Depends on the batch that it gets: other batches are other rows."""
    return {"id": batch["id"], "k": batch["k"], "x": batch["x"] + batch["x"].mean()}


def is_kept(row):
    return row["id"] % 3 != 1


def copies(row):
    return [{"id": row["id"], "k": row["k"], "x": row["x"] + i} for i in range(row["id"] % 3)]


def group_mean(group):
    return {"id": group["id"], "k": group["k"], "x": np.full(len(group["id"]), group["x"].mean())}


def documents(batch):
    """Lists of tokens of different lengths."""
    column = np.empty(len(batch["id"]), object)
    column[:] = [np.arange(i % 9, dtype=np.int64) + i for i in batch["id"]]
    return {"tokens": column}


class Running:
    """Adds the sum of all rows before the batch."""

    def __init__(self):
        self.sum = 0.0

    def __call__(self, batch):
        x = batch["x"] + self.sum
        self.sum += float(batch["x"].sum())
        return {"id": batch["id"], "k": batch["k"], "x": x}

    def state_dict(self):
        return {"sum": self.sum}

    def load_state_dict(self, state):
        self.sum = state["sum"]


class Sevens(Running):
    """Gives rows in sevens, so that rows of one batch come with the next, or at the end."""

    def __init__(self):
        self.rows = None

    def __call__(self, batch):
        batch = {name: np.array(batch[name]) for name in ("id", "k", "x")}
        if self.rows is not None:
            batch = {name: np.concatenate([self.rows[name], batch[name]]) for name in batch}
        n = len(batch["id"]) // 7 * 7
        self.rows = {name: column[n:] for name, column in batch.items()}
        return {name: column[:n] for name, column in batch.items()}

    def finish(self):
        return self.rows

    def state_dict(self):
        return {"rows": self.rows}

    def load_state_dict(self, state):
        self.rows = state["rows"]


# ----------------------------------------------------------------------------------------------------- plans


def import_all():
    """Imports what consumers would, each of them for itself."""
    for name in (
        "blocks",
        "combining",
        "convert",
        "loader",
        "materializing",
        "ordering",
        "packing",
        "padding",
    ):
        importlib.import_module(f"headrace.data.{name}")
    for name in ("resuming", "shares", "shuffling", "splitting"):
        importlib.import_module(f"headrace.data.{name}")
    for name in (
        "batches",
        "call",
        "code",
        "errors",
        "instances",
        "pool",
        "processes",
        "sending",
        "starter",
        "states",
    ):
        importlib.import_module(f"headrace.udf.{name}")


def write_data(folder):
    """The files of all plans."""
    ids = np.arange(LARGE)
    table = pa.table({"id": ids, "k": ids % 7, "x": ids * 0.25})
    pq.write_table(table, folder / "large.parquet", row_group_size=LARGE)
    for name in ("parquet", "jsonl", "csv"):
        (folder / name).mkdir()
    rows = table.slice(0, SMALL).to_pylist()
    for i, (begin, end) in enumerate([(0, 50), (50, 51), (51, 51), (51, 220), (220, SMALL)]):
        part = table.slice(begin, end - begin)
        pq.write_table(part, folder / "parquet" / f"{i}.parquet", row_group_size=40)
        if end > begin:
            text = "".join(json.dumps(row) + "\n" for row in rows[begin:end])
            (folder / "jsonl" / f"{i}.jsonl").write_text(text)
            text = "".join(f"{row['id']},{row['k']},{row['x']}\n" for row in rows[begin:end])
            (folder / "csv" / f"{i}.csv").write_text("id,k,x\n" + text)


def with_columns(ds):
    return ds.map_batches(
        lambda b: {"id": b["id"], "k": b["id"] % 7, "x": b["id"] * 0.25}, compute="inline", batch_size=64
    )


def source(spec, data):
    name, n = spec
    if name == "range":
        return with_columns(hd.range(n, override_num_blocks=max(1, n // 40)))
    if name == "memory":
        ids = np.arange(n)
        tables = [pa.table({"id": p, "k": p % 7, "x": p * 0.25}) for p in np.array_split(ids, 3)]
        return hd.from_arrow(tables)
    if name == "large":
        return hd.read_parquet(data / "large.parquet")
    read = {"parquet": hd.read_parquet, "jsonl": hd.read_json, "csv": hd.read_csv}[name]
    return read(data / name)


def seed_of(how):
    return hd.RandomSeedConfig(how[1]) if isinstance(how, list) else how


def step(ds, op, data):
    """The dataset after one step of a plan."""
    name, *args = op
    col = expressions.col
    if name == "map":
        return ds.map(row_function, compute=args[0])
    if name == "filter":
        return ds.filter(is_kept, compute=args[0])
    if name == "flat_map":
        return ds.flat_map(copies, compute=args[0])
    if name == "batches":
        function = {"noise": noise, "mean": mean}[args[0]]
        return ds.map_batches(function, compute=args[1], batch_size=args[2])
    if name == "class":
        kind = {"running": Running, "sevens": Sevens}[args[0]]
        return ds.map_batches(kind, compute=args[1], concurrency=1, batch_size=args[2])
    if name == "where":
        return ds.filter(expr="k != 3")
    if name == "column":
        drawn = expressions.random(seed=args[0])
        return ds.with_column("x", col("x") + drawn)
    if name == "zip":
        other = hd.range(args[0]).map_batches(lambda b: {"z": b["id"] * 2.0}, compute="inline")
        return ds.zip(other).with_column("x", col("x") + col("z")).drop_columns(["z"])
    if name == "union":
        return ds.union(dataset(args[0], data))
    if name == "mix":
        return ds.mix(dataset(args[0], data), weights=args[1])
    if name == "join":
        return ds.join(hd.range(args[0]), "inner", 3, on=["id"])
    if name == "groups":
        return ds.groupby("k").map_groups(group_mean, compute=args[0])
    if name == "sort":
        return ds.sort(args[0], descending=args[1])
    if name == "shuffle":
        return ds.random_shuffle(seed=seed_of(args[0]))
    if name == "blocks":
        return ds.randomize_block_order(seed=seed_of(args[0]))
    if name == "sample":
        return ds.random_sample(0.7, seed=seed_of(args[0]))
    if name == "repartition":
        return ds.repartition(args[0])
    if name == "limit":
        return ds.limit(args[0])
    if name == "materialize":
        return ds.materialize()
    assert name == "pack", name
    packed = ds.map_batches(documents, compute="inline", batch_size=args[2])
    return packed.pack(16, args[0], open_bins=args[1], loss_mask="loss_mask", eos_token_id=5)


def dataset(plan, data):
    ds = source(plan[0], data)
    for op in plan[1:]:
        ds = step(ds, op, data)
    return ds


# ------------------------------------------------------------------------------------------------ the drawing


def draw_seed(r):
    return r.choice([None, r.randrange(100), ["each epoch", r.randrange(100)]])


def draw_plan(r, deep=False):
    """A list of a source and steps. Of some steps the number of rows must be known."""
    name = r.choice(["range", "range", "memory", "large", "parquet", "parquet", "jsonl", "csv"])
    rows = {"range": r.choice([40, 200, 700]), "memory": r.choice([30, 500]), "large": LARGE}.get(name, SMALL)
    plan = [[name, rows]]
    one_to_one = ["map", "batches", "batches", "column", "class"]
    others = ["filter", "flat_map", "where", "union", "mix", "join", "groups", "sort", "shuffle", "shuffle"]
    others += ["blocks", "sample", "repartition", "limit", "materialize", "zip"]
    for _ in range(r.choice([0, 1, 1, 2, 2, 3]) if not deep else r.choice([0, 1])):
        op = r.choice(one_to_one + others)
        if (op == "zip" and rows is None) or (deep and op in ("union", "mix")):
            op = "batches"
        plan.append([op, *draw_arguments(r, op, rows)])
        if op == "limit" and rows is not None:
            rows = min(rows, plan[-1][1])
        elif op not in [*one_to_one, "zip", "sort", "shuffle", "blocks", "repartition", "materialize"]:
            rows = None
    if not deep and r.random() < 0.12:
        strategy = r.choice(["concat", "first_fit", "best_fit"])
        plan.append(["pack", strategy, r.choice([2, 8]), r.choice([None, 33])])
    return plan


def draw_arguments(r, op, rows):
    compute = "processes" if r.random() < 0.07 else r.choice(["threads", "inline"])  # a second each
    size = r.choice([None, 16, 33, 300])
    if op in ("map", "filter", "flat_map", "groups"):
        return [compute]
    if op in ("batches", "class"):
        if op == "class":
            return [r.choice(["running", "sevens"]), compute, size]
        # threads share the generators: random numbers are another each time
        return [r.choice(["noise", "mean"] if compute != "threads" else ["mean"]), compute, size]
    if op == "zip":
        return [rows]
    if op in ("union", "mix"):
        return [draw_plan(r, deep=True), *([r.choice([None, [3, 1], [1, 2]])] if op == "mix" else [])]
    if op in ("shuffle", "blocks", "sample"):
        return [draw_seed(r)]
    return {
        "column": [r.randrange(100)],
        "join": [r.choice([100, 250])],
        "sort": [r.choice(["k", "id", "x"]), r.random() < 0.5],
        "repartition": [r.choice([1, 4, 9])],
        "limit": [r.choice([25, 150, 5000])],
    }.get(op, [])


def draw(number):
    """The case of a number."""
    r = random.Random(number)
    plan = draw_plan(r)
    large = "large" in json.dumps(plan)
    way = r.choice(["alone", "alone", "split", "ring", "ring", "hosts"])
    case = {
        "number": number,
        "plan": plan,
        "way": way,
        "by_row": r.random() < 0.1 and not large,
        "batch": r.choice([100, 256, 700]) if large else r.choice([1, 5, 16, 16, 33, 100]),
        "prefetch": r.choice([0, 1, 1, 3, 8]),
        "shuffle_rows": r.choice([None, None, None, 20, 200]),
        "drop_last": r.random() < 0.3,
        "tail": r.choice(["drop", "drop", "pad", "uneven"]),
        "epochs": r.choice([1, 2, 2]),
        "repeat": r.random() < 0.25,
        "save_every": r.choice([1, 1, 2, 5]),
        "pause": r.choice([0, 0, 0.0005, 0.002]),
        "broken": False,
        "lanes": 1,
    }
    if case["by_row"]:
        case["batch"], case["drop_last"] = 1, False
    if any(op[0] == "pack" for op in plan):
        case["batch"] = min(case["batch"], 16)
    case["attempts"] = [draw_attempt(r, case) for _ in range(r.choice([2, 2, 3, 4]))]
    case["attempts"][-1]["kill"] = None
    more = random.Random(f"lanes {number}")
    if way == "hosts" and not case["by_row"]:
        case["lanes"] = more.choice([1, 2, 12])
    if case["lanes"] > 1 and more.random() < 0.7:
        counted = plan[0][0] in ("range", "memory", "large", "parquet")
        case["plan"] = [plan[0] if counted else ["parquet", SMALL]]
        case["plan"] += [op for op in plan[1:] if op[0] in ("map", "column")]
    if case["lanes"] > 1:  # streaming_split() has one lane
        for attempt in case["attempts"]:
            attempt["way"] = "hosts" if attempt["way"] == "hosts" else "ring"
    return case


def draw_attempt(r, case):
    """How one attempt reads, and what is killed in it. Shares resume in threads and in processes alike."""
    way = case["way"]
    if way != "alone" and r.random() < 0.3:
        way = r.choice(["split", "ring"])
    ranks = 1 if way == "alone" else r.choice([2, 4] if way == "hosts" else [1, 2, 2, 3, 4])
    at = r.choice([1, 2, r.randint(1, 12), r.randint(1, 60)])
    victim = r.randrange(ranks)
    kill = r.choice(
        [
            {
                "who": "self",
                "rank": victim,
                "at": at,
                "where": r.choice(["before", "logged", "saving", "saved"]),
            },
            {"who": "rank", "rank": victim, "at": at * ranks, "later": r.random() * 0.004},
            {"who": "rank", "rank": victim, "at": 0, "later": r.random() * 0.15},
            {"who": "worker", "number": r.randrange(100), "at": at * ranks // 2, "later": r.random() * 0.02},
            {"who": "all", "number": r.randrange(100), "at": at * ranks, "later": r.random() * 0.004},
        ]
    )
    return {
        "way": way,
        "ranks": ranks,
        "threads": r.choice([1, 2, 2, 8]),
        "saver": r.randrange(ranks),
        "loaders": r.choice([None, r.randrange(ranks) if way != "hosts" else None]),  # None: all
        "seed": r.randrange(1 << 30),
        "kill": kill,
    }


# ------------------------------------------------------------------------------ what a rank has to get


def schedule(rows, n, batch, tail, drop_last, own_steps=0, turn=0):
    """For each rank the batches of an epoch with `rows` rows left, as (first row, number). A batch of padding
    may go beyond the rows: these are the first ones of the step again.

    own_steps: of two hosts with lanes, the steps whose even turns (from `turn` on) are those of host 0.
    """
    ranks = [[] for _ in range(n)]
    full = rows // (n * batch)
    for s, i in itertools.product(range(full), range(n)):
        host, at = (turn + s * n + i) % 2, i // 2
        ranks[host * (n // 2) + at if s < own_steps else i].append(((s * n + i) * batch, batch))
    begin = full * n * batch
    rest = rows - begin
    if tail == "uneven":
        for r in range(n):
            size = min(batch, rest - r * batch)
            if size > 0 and not (drop_last and size < batch):
                ranks[r].append((begin + r * batch, size))
        return ranks
    each = rest // n if tail == "drop" else -(-rest // n)
    if drop_last and each < batch:
        each = 0
    for r in range(n if each else 0):
        ranks[r].append((begin + r * each, each))
    return ranks


def own_steps(case, rows, base, n, way):
    """The number of steps in which each of two hosts reads only its own lanes, and the turn of the first."""
    turn, turns = base // case["batch"], rows // case["lanes"] // case["batch"] * case["lanes"]
    has = way == "hosts" and case["has_lanes"] and turn < turns
    return (turns - turn) // n if has else 0, turn


def row_digests(batch):
    """A short digest of each row: of all columns, bit by bit."""
    names = sorted(name for name in batch if name != "__pad__")
    columns = []
    for name in names:
        column = np.asarray(batch[name])
        if column.dtype == object:
            columns.append([repr(np.asarray(v).tolist()).encode() for v in column])
        else:
            n, width = len(column), column.dtype.itemsize * int(np.prod(column.shape[1:]))
            data = column.tobytes()
            columns.append([data[i * width : (i + 1) * width] for i in range(n)])
    head = ",".join(names).encode()
    return [
        hashlib.blake2b(head + b"".join(row), digest_size=6).hexdigest() for row in zip(*columns, strict=True)
    ]


# ------------------------------------------------------------------------------------------------ a consumer


class Board:
    """Memory that all processes of a case share: how far each rank is, and whether one has ended badly."""

    def __init__(self):
        self.cells = memoryview(mmap.mmap(-1, 4096)).cast("q")

    def clear(self):
        for i in range(len(self.cells)):
            self.cells[i] = 0

    def pass_place(self, rank, place, has_met=True):
        """A rank is at `place`; `has_met`: and has got there by reading, so the others have met it."""
        self.cells[2 + 2 * rank] = place
        self.cells[3 + 2 * rank] += has_met

    def records(self, ranks):
        return sum(self.cells[3 + 2 * r] for r in range(ranks))

    def wait_for_all(self, ranks, place):
        while any(self.cells[2 + 2 * r] < place for r in range(ranks)):
            if self.cells[0]:
                raise exceptions.PeerError("another rank has ended")
            time.sleep(0.0002)

    def report_loss(self):
        self.cells[0] = 1


class Consumer:
    """One rank of an attempt."""

    def __init__(self, case, attempt, rank, board, folder, number):
        self.case, self.attempt, self.rank, self.board = case, attempt, rank, board
        self.folder, self.ranks = folder, attempt["ranks"]
        self.log = os.open(folder / "log" / f"{number}-{rank}", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        self.records = 0
        kill = attempt["kill"] or {}
        self.dies = kill if kill.get("who") == "self" and kill["rank"] == rank else None
        self.barrier = None  # of the threads of this process
        self.last = None

    def iterable(self, readable):
        how = {}
        if self.case["shuffle_rows"]:
            how = {"local_shuffle_buffer_size": self.case["shuffle_rows"], "local_shuffle_seed": 3}
        if self.case["by_row"]:
            return readable.iter_rows(**how)
        return readable.iter_batches(
            batch_size=self.case["batch"],
            prefetch_batches=self.case["prefetch"],
            drop_last=self.case["drop_last"],
            **how,
        )

    def run(self, readable, saved):
        """All epochs that are left after the state `saved`."""
        its = self.iterable(readable)
        epochs, self.epoch, self.base = self.case["epochs"], saved["epoch"], saved["base"]
        if self.case["repeat"]:
            its = its.repeat(epochs)
        if saved["state"] is not None and self.attempt["loaders"] in (None, self.rank):
            its.load_state_dict(saved["state"])
        self.begin_epoch()
        if self.epoch >= epochs:
            return
        if not self.case["repeat"]:
            while self.epoch < epochs:
                for batch in its:
                    self.take(its, batch)
                self.end_epoch(its)
            return
        while not self.mine and self.epoch < epochs:  # of a resumed one nothing may be left
            self.end_epoch(None)
        for batch in its:
            self.take(its, batch)
            while self.epoch < epochs and self.step >= len(self.mine):
                self.end_epoch(None)

    def begin_epoch(self):
        self.step = 0
        rows = self.case["rows"][self.epoch] if self.epoch < self.case["epochs"] else 0
        tail = "drop" if self.attempt["way"] == "alone" else self.case["tail"]
        own = own_steps(self.case, rows, self.base, self.ranks, self.attempt["way"])
        how = self.ranks, self.case["batch"], tail, self.case["drop_last"]
        self.mine = schedule(rows - self.base, *how, *own)[self.rank]

    def take(self, its, batch):
        if self.case["by_row"]:
            batch = {name: np.asarray([value]) for name, value in batch.items()}
        self.die("before")
        pads = "".join("p" if p else "." for p in batch.get("__pad__", []))
        self.write("rows", self.step, " ".join([pads or "-", *row_digests(batch)]))
        self.step += 1
        self.records += 1
        self.board.pass_place(self.rank, self.epoch * END_OF_EPOCH * 2 + self.step)
        self.die("logged")
        if self.step % self.case["save_every"] == 0 and self.is_full_step():
            base = self.base + self.step * self.ranks * self.case["batch"]
            self.save(its, self.epoch, base, self.epoch * END_OF_EPOCH * 2 + self.step)
        time.sleep(self.case["pause"])

    def is_full_step(self):
        """Whether all ranks have got this step, with full batches."""
        left = self.case["rows"][self.epoch] - self.base
        return self.step * self.ranks * self.case["batch"] <= left

    def end_epoch(self, its):
        self.write("end", self.step, "")
        self.records += 1
        place = self.epoch * END_OF_EPOCH * 2 + END_OF_EPOCH
        self.board.pass_place(self.rank, place, has_met=its is not None)
        self.epoch, self.base = self.epoch + 1, 0
        if its is not None:
            self.save(its, self.epoch, 0, place)
        self.begin_epoch()

    def write(self, kind, step, text):
        line = f"{kind} {self.epoch} {self.base} {self.ranks} {self.rank} {step} {self.attempt['way']} {text}"
        os.write(self.log, line.encode() + b"\n")

    def save(self, its, epoch, base, place):
        if self.barrier is not None:
            self.barrier.wait(LIMIT_S)
        elif self.rank == self.attempt["saver"]:
            self.board.wait_for_all(self.ranks, place)
        if self.rank == self.attempt["saver"]:
            state = its.state_dict()
            if self.case["broken"]:  # the state of one save ago, under this one's place
                state, self.last = self.last or state, state
            part = self.folder / f"state.part{os.getpid()}"
            part.write_text(json.dumps({"epoch": epoch, "base": base, "state": state}))
            self.die("saving")
            part.rename(self.folder / "state")
            self.die("saved")
        if self.barrier is not None:
            self.barrier.wait(LIMIT_S)

    def die(self, where):
        if self.dies and self.dies["where"] == where and self.records >= self.dies["at"]:
            os.kill(os.getpid(), signal.SIGKILL)


def read_split(consumers, ds, saved, case):
    """All shares in threads of this process."""
    shares = ds.streaming_split(len(consumers), tail=case["tail"])
    barrier = threading.Barrier(len(consumers))
    errors = []

    def run(consumer, share):
        consumer.barrier = barrier
        try:
            consumer.run(share, saved)
        except threading.BrokenBarrierError:
            pass
        except BaseException as e:
            errors.append(e)
            barrier.abort()

    threads = [threading.Thread(target=run, args=pair) for pair in zip(consumers, shares, strict=True)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if errors:
        raise errors[0]


def consume(case, attempt, ranks, board, folder, data, number):
    """The program of one process: reads for these ranks."""
    state = folder / "state"
    saved = json.loads(state.read_text()) if state.exists() else {"epoch": 0, "base": 0, "state": None}
    hd.DataContext.get_current().num_threads = attempt["threads"]
    hd.DataContext.get_current().stall_warning_s = 15
    ds = dataset(case["plan"], data)
    consumers = [Consumer(case, attempt, r, board, folder, number) for r in ranks]
    if attempt["way"] == "split":
        read_split(consumers, ds, saved, case)
    elif attempt["way"] == "alone":
        consumers[0].run(ds, saved)
    elif attempt["way"] == "numbered":
        share = ds.shard(ranks[0], attempt["ranks"], tail=case["tail"], lanes=case["lanes"])
        consumers[0].run(share, saved)
    else:
        if attempt["way"] == "namespaces":
            enter_namespace(ranks[0] >= (attempt["ranks"] + 1) // 2)
        consumers[0].run(ds.shard(tail=case["tail"], lanes=case["lanes"]), saved)


def variables(attempt, rank, name):
    """What a launcher sets for a rank; in network namespaces nothing tells two hosts apart but these."""
    ranks, way = attempt["ranks"], attempt["way"]
    if way not in ("ring", "hosts", "namespaces"):
        return {"HEADRACE_LAUNCHER": "none"}
    first = (ranks + 1) // 2 if way != "ring" else ranks  # ranks of the first host
    host = int(rank >= first)
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(ranks),
        "LOCAL_RANK": str(rank - host * first),
        "LOCAL_WORLD_SIZE": str(ranks - first if host else first),
        "GROUP_RANK": str(host if way == "hosts" else 0),
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": "1",
        "TORCHELASTIC_RUN_ID": name,
    }


# ---------------------------------------------------------------------------------------- the processes


def fork(program, output, env):
    """The id of a child that runs program(), with its output in a file."""
    pid = os.fork()
    if pid:
        return pid
    code = 0
    try:
        os.setsid()
        fd = os.open(output, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        os.dup2(fd, 1)
        os.dup2(fd, 2)
        faulthandler.enable()
        faulthandler.register(signal.SIGUSR1)
        os.environ.update(env)
        warnings.simplefilter("ignore", RuntimeWarning)  # of epochs with fewer rows than ranks
        program()
    except BaseException as e:
        sys.last_exc = e
        traceback.print_exc()
        code = PEER_LOST if isinstance(e, exceptions.PeerError) else 1
    try:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def children(pid):
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*"):
        try:
            found += [int(c) for c in (task / "children").read_text().split()]
        except OSError:
            pass
    return found


def below(pid):
    return [d for c in children(pid) for d in [c, *below(c)]]


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def strike(how, pids):
    """Kills what the case says. Returns whether there was something to kill."""
    if how["who"] == "rank":
        kill(pids[how["rank"] % len(pids)])
        return
    others = [d for pid in pids for d in below(pid)]
    if how["who"] == "worker" and others:
        kill(others[how["number"] % len(others)])
        return
    for pid in sorted([*pids, *others], key=lambda p: hash((p, how["number"]))):
        kill(pid)


class Attempt:
    """Its processes from their start to their end."""

    def __init__(self, pids, board, ranks, output):
        self.left, self.pids, self.codes = set(pids), pids, {}
        self.board, self.ranks, self.output = board, ranks, output
        self.until = time.monotonic() + LIMIT_S

    def reap(self):
        """Notes which processes have ended; orphans of the dead are this process's children."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                break
            if pid in self.left:
                self.left.discard(pid)
                self.codes[pid] = os.waitstatus_to_exitcode(status)
                if self.codes[pid]:
                    self.board.report_loss()
        if time.monotonic() > self.until:
            for pid in self.left:
                os.kill(pid, signal.SIGUSR1)
            time.sleep(0.5)
            raise AssertionError(f"the attempt hangs: {self.left} of {self.pids} are left")

    def wait_until(self, condition):
        while self.left and not condition():
            self.reap()
            time.sleep(0.0005)

    def end_early(self):
        """What a launcher does when a rank has died before all ranks have met."""
        cells = [self.board.cells[3 + 2 * r] for r in range(self.ranks)]
        if min(cells) == 0 and len(self.pids) > 1:
            moment = time.monotonic() + GRACE_S
            self.wait_until(lambda: time.monotonic() >= moment)
            for pid in self.left:
                kill(pid)

    def wait(self):
        self.wait_until(lambda: self.board.cells[0])
        if self.left and self.board.cells[0]:
            self.end_early()
        self.wait_until(lambda: False)
        while children(os.getpid()):
            assert time.monotonic() < self.until, f"processes remain: {children(os.getpid())}"
            self.reap()
            time.sleep(0.0005)


def run_attempt(case, attempt, board, folder, data, number):
    """Returns whether all ranks have ended well. Raises AssertionError if one fails without reason."""
    board.clear()
    how, output = attempt["kill"], folder / f"output{number}"
    together = attempt["way"] in ("alone", "split")
    groups = [list(range(attempt["ranks"]))] if together else [[r] for r in range(attempt["ranks"])]
    pids = []
    for ranks in groups:
        env = variables(attempt, ranks[0], f"{os.getpid()} {case['number']} {number}")
        pids.append(fork(lambda r=ranks: consume(case, attempt, r, board, folder, data, number), output, env))
    running = Attempt(pids, board, attempt["ranks"], output)
    try:
        struck = how is not None and how["who"] == "self"
        if how and how["who"] != "self":
            running.wait_until(lambda: board.records(attempt["ranks"]) >= how["at"])
            moment = time.monotonic() + how["later"]
            running.wait_until(lambda: time.monotonic() >= moment)
            struck = bool(running.left)
            if struck:
                strike(how, pids)
        running.wait()
    finally:
        for pid in [d for p in running.left for d in [p, *below(p)]]:
            kill(pid)
    codes = [running.codes[pid] for pid in pids]
    allowed = {0, -signal.SIGKILL, PEER_LOST} if struck else {0}
    assert set(codes) <= allowed, f"attempt {number} ended with {codes}"
    return not any(codes)


# -------------------------------------------------------------------------------------------------- one case


class References:
    """The rows of undisturbed passes, by plan, and whether the plan has lanes."""

    def __init__(self, data, folder):
        self.data, self.folder, self.known = data, folder, {}

    def rows(self, case):
        """For each epoch the digests of its rows; whether they are in lanes."""
        key = [case["plan"], case["shuffle_rows"], case["by_row"] or case["batch"], case["lanes"]]
        key = json.dumps(key)
        if key not in self.known:
            out = self.folder / "reference"
            output = self.folder / "reference.output"
            output.unlink(missing_ok=True)
            pid = fork(lambda: self.write(case, out), output, {"HEADRACE_LAUNCHER": "none"})
            running = Attempt([pid], Board(), 1, output)
            running.wait()
            assert running.codes[pid] == 0, (case, output.read_text())
            self.known[key] = json.loads(out.read_text())
        rows, has_lanes = self.known[key]
        return rows[: case["epochs"]], has_lanes

    def write(self, case, out):
        hd.DataContext.get_current().num_threads = 2
        consumer = Consumer.__new__(Consumer)
        consumer.case = case | {"drop_last": False, "by_row": False}
        readable = dataset(case["plan"], self.data)
        if case["lanes"] > 1:
            readable = readable.shard(0, 1, tail="uneven", lanes=case["lanes"])
        else:
            consumer.case["batch"] = max(case["batch"], 16)
        its = consumer.iterable(readable)
        rows = [[d for batch in its for d in row_digests(batch)] for _ in range(2)]
        has_lanes = case["lanes"] > 1 and its.stats("dict")["run"].get("lanes", {}).get("lanes", 1) > 1
        out.write_text(json.dumps([rows, has_lanes]))


def check(case, folder):
    """Compares what all attempts have logged with the reference: each row, and the whole sequence."""
    got = [[None] * len(rows) for rows in case["reference"]]
    ends = {}
    for log in sorted((folder / "log").iterdir(), key=lambda p: int(p.name.partition("-")[0])):
        for line in log.read_text().splitlines(keepends=True):
            if not line.endswith("\n"):
                break  # the rank was killed while it wrote; the next attempt has these rows again
            kind, *numbers, way, text = line.split(" ", 7)
            epoch, base, n, rank, s = map(int, numbers)
            rows = case["reference"][epoch]
            tail = "drop" if way == "alone" else case["tail"]
            own = own_steps(case, len(rows), base, n, way)
            ranks = schedule(len(rows) - base, n, case["batch"], tail, case["drop_last"], *own)
            where = f"{log.name}: epoch {epoch} from row {base} on, rank {rank} of {n}, step {s}"
            if kind == "end":
                assert s == len(ranks[rank]), f"{where}: {len(ranks[rank])} steps expected"
                last = max([b + size for r in ranks for b, size in r], default=0)
                ends[epoch] = min(base + last, len(rows))
                continue
            assert s < len(ranks[rank]), f"{where}: too many steps"
            begin, size = ranks[rank][s]
            pads, *digests = text.split()
            over = len(rows) - base - begin
            assert len(digests) == size, f"{where}: {size} rows expected, found {len(digests)}"
            if case["tail"] == "pad" and way != "alone":
                assert pads == "".join("p" if i >= over else "." for i in range(size)), (where, pads)
            first = (len(rows) - base) // (n * case["batch"]) * n * case["batch"]  # of the last step
            for i, digest in enumerate(digests):
                row = begin + i
                if row >= len(rows) - base:
                    row = first + (row - first) % (len(rows) - base - first)
                assert digest == rows[base + row], f"{where}: row {i} is another one"
                got[epoch][base + row] = digest
    assert sorted(ends) == list(range(case["epochs"])), f"epochs {sorted(ends)} have ended"
    ends = [ends[epoch] for epoch in range(case["epochs"])]
    whole, want = (
        hashlib.sha256(
            json.dumps([r[:end] for r, end in zip(epochs, ends, strict=True)]).encode()
        ).hexdigest()
        for epochs in (got, case["reference"])
    )
    assert whole == want, (
        f"rows are missing: {[r[:end].count(None) for r, end in zip(got, ends, strict=True)]}"
    )


def run_case(case, board, references, folder):
    """Returns the number of attempts. Raises AssertionError with the case and all output if a row differs."""
    (folder / "log").mkdir(parents=True)
    number = 0
    try:
        case["reference"], case["has_lanes"] = references.rows(case)
        case["rows"] = [len(rows) for rows in case["reference"]]
        for number, attempt in enumerate(case["attempts"]):
            if run_attempt(case, attempt, board, folder, references.data, number):
                break
        else:
            raise AssertionError("the last attempt has not ended")
        check(case, folder)
        return number + 1
    except AssertionError as e:
        shown = {k: v for k, v in case.items() if k != "reference"}
        output = "".join(f"--- {p.name}\n{p.read_text()}" for p in sorted(folder.glob("output*")))
        raise AssertionError(f"case {case['number']}: {e}\n{json.dumps(shown)}\n{output}") from None


def run_cases(cases):
    """All cases; prints those that fail. Returns the numbers of attempts and of failures."""
    attempts = failures = 0
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # no wait for a disk
    folder = Path(tempfile.mkdtemp(dir=memory))
    board = Board()
    try:
        (folder / "data").mkdir()
        write_data(folder / "data")
        import_all()
        references = References(folder / "data", folder)
        for case in cases:
            try:
                attempts += run_case(case, board, references, folder / "case")
            except AssertionError as e:
                failures += 1
                print(e, flush=True)
            shutil.rmtree(folder / "case", ignore_errors=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return attempts, failures


# ------------------------------------------------------------------------------------------------ the matrix

CLONE_NEWNET = 0x40000000
namespaces = []  # open files of two network namespaces; [None, None]: not to be had


def make_namespaces():
    for _ in range(2):
        inner, outer = os.pipe(), os.pipe()
        pid = os.fork()
        if pid == 0:
            os.write(inner[1], b"x" if ctypes.CDLL(None).unshare(CLONE_NEWNET) == 0 else b"-")
            os.read(outer[0], 1)
            os._exit(0)
        made = os.read(inner[0], 1) == b"x"
        namespaces.append(os.open(f"/proc/{pid}/ns/net", os.O_RDONLY) if made else None)
        os.write(outer[1], b"x")
        os.waitpid(pid, 0)
        for fd in (*inner, *outer):
            os.close(fd)


def enter_namespace(host):
    assert ctypes.CDLL(None, use_errno=True).setns(namespaces[host], CLONE_NEWNET) == 0, ctypes.get_errno()


MATRIX = [
    [["parquet", 300], ["batches", "noise", "inline", 33]],
    [["range", 700], ["map", "threads"], ["shuffle", ["each epoch", 3]]],
    [["jsonl", 300], ["mix", [["csv", 300]], [3, 1]], ["pack", "best_fit", 8, 33]],
    [["large", 9000], ["filter", "threads"]],
]


def matrix(plans=MATRIX, threads=(1, 2, 8), ranks=(1, 2, 3, 4, 8)):
    """Cases without kills: the same order for each number of threads and ranks, however the ranks start."""
    make_namespaces()
    ways = ["split", "numbered", "ring", "hosts", *(["namespaces"] if all(namespaces) else [])]
    for plan, tail, n_threads, n, way in itertools.product(plans, ["drop", "uneven"], threads, ranks, ways):
        if n == 1 and way in ("hosts", "namespaces"):
            continue
        attempt = {"way": way, "ranks": n, "threads": n_threads, "saver": 0, "loaders": None, "kill": None}
        case = draw(0) | {"plan": plan, "tail": tail, "batch": 100 if plan[0][0] == "large" else 8}
        case |= {"by_row": False, "shuffle_rows": None, "drop_last": False, "epochs": 2, "repeat": False}
        yield case | {"prefetch": 1, "save_every": 1 << 20, "pause": 0, "attempts": [attempt]}


def main():
    if sys.argv[1] == "--matrix":
        small = sys.argv[2:] == ["small"]
        began = time.monotonic()
        attempts, failures = run_cases(matrix(MATRIX[:2], (1, 8), (1, 3)) if small else matrix())
        print(f"matrix: {attempts} runs, {failures} failures, {time.monotonic() - began:.1f} s")
        sys.exit(bool(failures))
    first, n, *more = sys.argv[1:]
    began = time.monotonic()
    cases = (draw(number) for number in range(int(first), int(first) + int(n)))
    if more == ["--broken"]:
        cases = (case | {"broken": True} for case in cases)
    attempts, failures = run_cases(cases)
    print(f"{n} cases, {attempts} attempts, {failures} failures, {time.monotonic() - began:.1f} s")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
