"""cache(): the rows of the dataset without it, in any state of the folder."""

import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace.data as hd
from headrace import exceptions
from headrace.data.expressions import col
from headrace.data.expressions import random as random_number

FILES = 4
GROUP_ROWS = 60  # of 20 kB each: a stretch of the cache is about one row group
ROWS = FILES * 3 * GROUP_ROWS


def write_file(path, begin):
    rng = np.random.default_rng(begin)
    n = 3 * GROUP_ROWS
    table = pa.table(
        {
            "id": pa.array(np.arange(begin, begin + n)),
            "k": pa.array(rng.integers(0, 7, n)),
            "data": pa.array([rng.bytes(20_000) for _ in range(n)], pa.binary()),
            "words": pa.array([[f"w{i}", None][: i % 3] for i in range(n)], pa.list_(pa.string())),
        }
    )
    pq.write_table(table, path, row_group_size=GROUP_ROWS, compression="none")


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("source")
    for i in range(FILES):
        write_file(folder / f"f{i}.parquet", i * 3 * GROUP_ROWS)
    return str(folder)


@pytest.fixture
def calls(tmp_path):
    return Calls(tmp_path / "calls")


class Calls:
    """Counts rows that functions saw, in any process."""

    def __init__(self, path):
        self.path = str(path)

    def count(self):
        n = os.path.getsize(self.path) if os.path.exists(self.path) else 0
        Path(self.path).write_bytes(b"")
        return n


def counting(path):
    def double(batch):
        with open(path, "ab") as out:
            out.write(b"." * len(batch["id"]))
        batch["y"] = batch["id"] * 2
        return batch

    return double


def plain(rows):
    """Rows that compare by value."""
    return [{k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in row.items()} for row in rows]


def ids(ds):
    return [row["id"] for row in ds.iter_rows()]


def cached(ds):
    """(cached, computed) rows of the last run."""
    counts = [o for o in ds.stats("dict")["operators"] if "cached_rows" in o]
    return tuple(sum(o[name] for o in counts) for name in ("cached_rows", "computed_rows"))


def files_of(folder):
    return sorted(Path(folder).rglob("*.rows"))


# ---------------------------------------------------------- the same rows


def mean(batch):
    """Depends on the batch: rows that share one."""
    batch["mean"] = np.full(len(batch["id"]), np.mean(batch["id"]))
    return batch


def draw(batch):
    batch["drawn"] = np.random.random(len(batch["id"]))
    return batch


def twice(row):
    return [{"id": row["id"], "n": n} for n in range(row["id"] % 3)]


BELOW = {
    "read": lambda ds: ds,
    "batches": lambda ds: ds.map_batches(mean, batch_size=None),
    "exact batches": lambda ds: ds.map_batches(mean, batch_size=37),
    "draws": lambda ds: ds.map_batches(draw, batch_size=25),
    "rows": lambda ds: ds.map(lambda row: {"id": row["id"], "size": len(row["data"])}),
    "filter": lambda ds: ds.filter(expr=col("k") > 2).select_columns(["id", "data"]),
    "flat_map": lambda ds: ds.flat_map(twice),
    "limit": lambda ds: ds.limit(250).map_batches(mean, batch_size=None),
    "union": lambda ds: ds.union(ds.filter(expr=col("k") == 1)),
    "map after union": lambda ds: ds.union(ds.limit(100)).map_batches(mean, batch_size=64),
    "sort": lambda ds: ds.sort("k"),
    "group": lambda ds: ds.select_columns(["id", "k"]).groupby("k").sum("id").rename_columns({"k": "id"}),
    "repartition": lambda ds: ds.repartition(5),
    "zip": lambda ds: ds.select_columns(["id"]).zip(ds.select_columns(["data"])),
    "explode": lambda ds: ds.explode("words"),
    "shuffled alike": lambda ds: ds.random_shuffle(seed=3),
    "cache": lambda ds: ds.map_batches(mean, batch_size=20),
}
ABOVE = {
    "nothing": lambda ds: ds,
    "shuffle": lambda ds: ds.random_shuffle(),
    "batches": lambda ds: ds.map_batches(mean, batch_size=None),
    "exact batches": lambda ds: ds.map_batches(mean, batch_size=41),
    "filter, limit": lambda ds: ds.filter(expr=col("id") % 2 == 0).limit(150),
    "union": lambda ds: ds.select_columns(["id"]).union(hd.range(10)).map_batches(draw, batch_size=None),
    "sample": lambda ds: ds.random_sample(0.5),
}


@pytest.mark.parametrize("below", BELOW)
def test_rows_are_those_without_the_cache(source, tmp_path, below):
    base = BELOW[below](hd.read_parquet(source))
    if below == "cache":
        base = base.cache(tmp_path / "inner")
    for above in ["nothing", *random.Random(below).sample(sorted(ABOVE), 2)]:
        want = plain(ABOVE[above](base).take_all())
        ds = ABOVE[above](base.cache(tmp_path / "cache"))
        assert plain(ds.take_all()) == want, above
        assert plain(ds.take_all()) == want, above
        assert cached(ds)[1] == 0 or "limit" in above, above


@pytest.mark.parametrize("above", ABOVE)
def test_shuffles_and_functions_after_the_cache(source, tmp_path, above):
    base = hd.read_parquet(source).map_batches(mean, batch_size=None)
    ds = ABOVE[above](base.cache(tmp_path / "cache"))
    for epoch in range(3):
        want, got = ABOVE[above](base).iterator(), ds.iterator()
        for _ in range(epoch):
            skip_epoch(want)
            skip_epoch(got)
        assert plain(got.iter_rows()) == plain(want.iter_rows())


def skip_epoch(it):
    for _ in it.iter_batches(batch_size=None, batch_format="pyarrow"):
        pass


def test_batches_and_tensors_of_a_cache(tmp_path):
    ds = hd.from_numpy(np.arange(6000, dtype=np.float32).reshape(1000, 2, 3)).map_batches(lambda b: b)
    want = list(ds.iter_batches(batch_size=64, local_shuffle_buffer_size=200, local_shuffle_seed=1))
    for _ in range(2):
        kept = ds.cache(tmp_path / "cache")
        got = list(kept.iter_batches(batch_size=64, local_shuffle_buffer_size=200, local_shuffle_seed=1))
        assert len(got) == len(want)
        for a, b in zip(want, got, strict=True):
            np.testing.assert_array_equal(a["data"], b["data"])
    assert cached(kept) == (1000, 0)


# ---------------------------------------------------------- no calls


def test_functions_run_once(source, tmp_path, calls):
    base = hd.read_parquet(source).map_batches(counting(calls.path), batch_size=None)
    ds = base.cache(tmp_path / "cache", limit="1GB")
    first = plain(ds.take_all())
    assert calls.count() == ROWS
    assert cached(ds) == (0, ROWS)
    assert plain(ds.take_all()) == first
    assert calls.count() == 0
    assert cached(ds) == (ROWS, 0)
    again = base.map_batches(mean, batch_size=None)  # another plan, other rows
    again.cache(tmp_path / "cache").take_all()
    assert calls.count() == ROWS
    later = base.cache(tmp_path / "cache").map_batches(mean, batch_size=None)  # the same rows
    later.random_shuffle().take_all()
    assert calls.count() == 0
    assert "Cache: " in ds.stats()


def test_memory_and_spills_of_what_is_computed_count(tmp_path, context):
    """The story: the plan below the cache is a run of its own. It had a limit beside that of the run, and
    the bytes that its sort spilled stood nowhere.
    """
    context.memory_limit_bytes = 32 << 20
    rows = hd.range(2_000_000).sort("id", descending=True).cache(str(tmp_path / "rows"))
    batches = rows.iter_batches(batch_size=100_000)
    assert sum(len(b["id"]) for b in batches) == 2_000_000
    stats = batches.stats("dict")
    (below,) = [o for o in stats["operators"] if o["name"].startswith("sort(")]
    assert below["spill_written_bytes"] > 1 << 20
    assert below["peak_bytes"] <= stats["peak_bytes"]


def test_a_partial_epoch_is_used(source, tmp_path, calls):
    base = hd.read_parquet(source).map_batches(counting(calls.path), batch_size=None)
    ds = base.cache(tmp_path / "cache")
    rows = iter(ds.iter_rows())
    for _ in range(ROWS // 2):
        next(rows)
    rows.close()
    assert ids(ds) == list(range(ROWS))
    n_cached, n_computed = cached(ds)
    assert n_cached >= GROUP_ROWS
    assert n_cached + n_computed == ROWS
    assert ids(ds) == list(range(ROWS))
    assert cached(ds) == (ROWS, 0)


def test_inline_functions_and_threads_run_below_a_cache(source, tmp_path):
    for compute in ("inline", "threads"):
        n = {"n": 0}

        def f(batch, n=n):
            n["n"] += len(batch["id"])
            return {"id": batch["id"]}

        ds = hd.read_parquet(source).map_batches(f, batch_size=100, compute=compute)
        kept = ds.cache(tmp_path / compute, version="1")
        for _ in range(2):
            assert ids(kept) == list(range(ROWS))
        assert n["n"] == ROWS


def test_another_process_reads_it(source, tmp_path):
    out = [run_script(tmp_path, source) for _ in range(2)]
    assert out[0]["ids"] == out[1]["ids"] == list(range(ROWS))
    assert [o["cached"] for o in out] == [[0, ROWS], [ROWS, 0]]


SCRIPT = """
import json, sys
import headrace.data as hd

def work(row):
    return {{"id": row["id"], "data": row["data"]{change}}}

if __name__ == "__main__":
    source, folder = sys.argv[1:3]
    ds = hd.read_parquet(source).map(work).cache(folder)
    ids = [row["id"] for row in ds.iter_rows()]
    op = [o for o in ds.stats("dict")["operators"] if "cached_rows" in o][0]
    json.dump({{"ids": ids, "cached": [op["cached_rows"], op["computed_rows"]]}}, sys.stdout)
"""


def start_script(tmp_path, source, change=""):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT.format(change=change))
    return subprocess.Popen(
        [sys.executable, str(path), source, str(tmp_path / "cache")], stdout=subprocess.PIPE, text=True
    )


def run_script(tmp_path, source, change=""):
    process = start_script(tmp_path, source, change)
    text = process.communicate()[0]
    assert process.returncode == 0
    return json.loads(text)


def test_two_processes_fill_it_together(source, tmp_path):
    processes = [start_script(tmp_path, source) for _ in range(2)]
    for process in processes:
        assert json.loads(process.communicate()[0])["ids"] == list(range(ROWS))
        assert process.returncode == 0
    assert run_script(tmp_path, source)["cached"] == [ROWS, 0]


def test_threads_of_one_process_share_it(source, tmp_path):
    found = []

    def consume():
        ds = hd.read_parquet(source).map_batches(mean, batch_size=30).cache(tmp_path / "cache")
        found.append(ids(ds))

    threads = [threading.Thread(target=consume) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == [list(range(ROWS))] * 3


def test_ranks_get_all_rows_once(source, tmp_path):
    ds = hd.read_parquet(source).map_batches(mean, batch_size=None).cache(tmp_path / "cache")
    for expected in ((0, ROWS), (ROWS, 0)):
        shares = ds.streaming_split(2, equal=True)
        found = [[], []]

        def consume(rank, shares=shares, found=found):
            found[rank] = [row["id"] for row in shares[rank].iter_rows()]

        threads = [threading.Thread(target=consume, args=(rank,)) for rank in (0, 1)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert sorted(found[0] + found[1]) == list(range(ROWS))
        operators = json.loads(shares[0].stats("json"))["run"]["operators"]
        assert [(o["cached_rows"], o["computed_rows"]) for o in operators if "cached_rows" in o] == [expected]


# ---------------------------------------------------------- changes


def test_changed_code_gives_other_rows(source, tmp_path):
    assert run_script(tmp_path, source)["cached"] == [0, ROWS]
    assert run_script(tmp_path, source, ', "more": 1')["cached"] == [0, ROWS]
    assert run_script(tmp_path, source)["cached"] == [ROWS, 0]


def test_a_changed_file_gives_its_rows(tmp_path):
    write_file(tmp_path / "a.parquet", 0)

    def kept():
        return hd.read_parquet(str(tmp_path / "a.parquet")).map_batches(mean).cache(tmp_path / "cache")

    assert ids(kept()) == list(range(3 * GROUP_ROWS))
    write_file(tmp_path / "a.parquet", 7)
    assert ids(kept()) == list(range(7, 7 + 3 * GROUP_ROWS))


def test_another_seed_or_version_gives_other_rows(source, tmp_path):
    base = hd.read_parquet(source).map_batches(draw, batch_size=100)
    kept = base.cache(tmp_path / "cache")
    first = plain(kept.take_all())
    context = hd.DataContext.get_current()
    context.seed = 5
    try:
        other = plain(kept.take_all())
        assert other == plain(base.take_all())
        assert [r["drawn"] for r in first] != [r["drawn"] for r in other]
    finally:
        context.seed = 0
    versioned = base.cache(tmp_path / "cache", version="2")
    assert plain(versioned.take_all()) == first
    assert cached(versioned) == (0, ROWS)


# ---------------------------------------------------------- positions


def batches_of(ds):
    return ds.iterator().iter_batches(batch_size=25)


def state_after(ds, n):
    batches = batches_of(ds)
    it = iter(batches)
    for _ in range(n):
        next(it)
    state = json.loads(json.dumps(batches.state_dict()))
    it.close()
    return state


def rest(ds, state):
    batches = batches_of(ds)
    batches.load_state_dict(state)
    return [i for b in batches for i in b["id"].tolist()]


RESUMED = {
    "batches": lambda ds: ds.map_batches(mean, batch_size=None),
    "exact batches": lambda ds: ds.map_batches(mean, batch_size=35),
    "filter": lambda ds: ds.filter(expr=col("k") != 2),
    "sort": lambda ds: ds.sort("data"),
    "limit": lambda ds: ds.limit(350),
    "union": lambda ds: ds.union(ds.limit(90)),
}


@pytest.mark.parametrize("below", RESUMED)
def test_positions_fit_with_and_without_the_cache(source, tmp_path, below):
    base = RESUMED[below](hd.read_parquet(source))
    kept = base.cache(tmp_path / "cache").map_batches(draw, batch_size=None)
    without = base.map_batches(draw, batch_size=None)
    want = ids(without)
    for n in (0, 1, 7, 13):
        state = state_after(kept, n)
        assert rest(without, state) == want[n * 25 :], n
        assert rest(kept, state) == want[n * 25 :], n
        assert rest(kept, state_after(without, n)) == want[n * 25 :], n
    assert ids(kept) == want
    assert ids(kept) == want
    assert cached(kept)[1] == 0


KILLED = """
import json, os, sys
import headrace.data as hd

def work(batch):
    return {"id": batch["id"], "data": batch["data"]}

source, folder, state = sys.argv[1:4]
ds = hd.read_parquet(source).map_batches(work, batch_size=64).cache(folder)
batches = ds.iterator().iter_batches(batch_size=20)
if os.path.exists(state):
    batches.load_state_dict(json.load(open(state)))
for batch in batches:
    with open(state + ".new", "w") as out:
        json.dump(batches.state_dict(), out)
    os.rename(state + ".new", state)
    print(*batch["id"].tolist(), flush=True)
"""


def test_killed_again_and_again(source, tmp_path):
    """kill -9 at any time: the rows before and after it are all rows, each once."""
    script, state = tmp_path / "killed.py", tmp_path / "state"
    script.write_text(textwrap.dedent(KILLED))
    rng = random.Random(4)
    for _ in range(2):
        rows, ended = [], False
        while not ended:  # about five times
            process = subprocess.Popen(
                [sys.executable, str(script), source, str(tmp_path / "cache"), str(state)],
                stdout=subprocess.PIPE,
                text=True,
            )
            lines = []
            until = rng.randrange(10, 20)
            while len(lines) < until and (line := process.stdout.readline()):
                lines.append(line)
            ended = len(lines) < until
            if not ended:
                process.send_signal(signal.SIGKILL)
            process.wait()
            ended = ended or process.returncode == 0
            # The state is that after the last line, or after one more batch whose line was lost.
            rows += [int(i) for line in lines + process.stdout.readlines() for i in line.split()]
            process.stdout.close()
            seen = json.loads(state.read_text())
            assert "marker" not in seen
        state.unlink()
        assert sorted(set(rows)) == rows
        assert set(range(ROWS)) - set(rows) == missing(rows)
    assert not [p for p in Path(tmp_path / "cache").rglob("*.rows") if os.path.getsize(p) == 0]
    ds = hd.read_parquet(source).cache(tmp_path / "cache")
    assert ids(ds) == list(range(ROWS))


def missing(rows):
    """Rows of batches whose state was saved and whose line the kill lost: whole batches of 20."""
    lost = sorted(set(range(ROWS)) - set(rows))
    assert len(lost) % 20 == 0
    assert all(lost[i] % 20 == 0 and lost[i + 19] == lost[i] + 19 for i in range(0, len(lost), 20))
    return set(lost)


# ---------------------------------------------------------- damage


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "swap", "remove"])
def test_damaged_files_are_computed_again(source, tmp_path, calls, damage):
    base = hd.read_parquet(source).map_batches(counting(calls.path), batch_size=None)
    ds = base.cache(tmp_path / "cache")
    want = plain(ds.take_all())
    files = files_of(tmp_path / "cache")
    assert len(files) >= 6
    rng = random.Random(damage)
    for path in rng.sample(files, 3):
        data = bytearray(path.read_bytes())
        if damage == "flip":
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        elif damage == "cut":
            del data[rng.randrange(1, len(data)) :]
        elif damage == "empty":
            data.clear()
        elif damage == "swap":
            data = rng.choice([f for f in files if f != path]).read_bytes()
        path.write_bytes(data)
        if damage == "remove":
            path.unlink()
    calls.count()
    assert plain(ds.take_all()) == want
    assert calls.count() > 0
    assert cached(ds)[0] > 0
    ds.take_all()
    assert plain(ds.take_all()) == want
    assert cached(ds) == (ROWS, 0)


def test_every_byte_counts(tmp_path):
    """A small stretch with one bit flipped, at each place in turn."""
    items = hd.from_items([{"id": i, "s": "x" * i} for i in range(20)])
    ds = items.map(lambda row: row).cache(tmp_path / "cache")
    want = ds.take_all()
    (path,) = files_of(tmp_path / "cache")
    data = path.read_bytes()
    for at in range(0, len(data), max(1, len(data) // 60)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 16]) + data[at + 1 :])
        assert ds.take_all() == want, at


# ---------------------------------------------------------- limits


def used(folder):
    return sum(p.stat().st_size for p in Path(folder).rglob("*") if p.is_file())


def test_a_limit_below_the_data_keeps_a_part(source, tmp_path, calls):
    base = hd.read_parquet(source).map_batches(counting(calls.path), batch_size=None)
    limit = 6_000_000
    found = []
    for _ in range(3):
        ds = base.cache(tmp_path / "cache", limit=limit)
        assert ids(ds) == list(range(ROWS))
        assert used(tmp_path / "cache") <= limit
        found.append(cached(ds))
    assert found[0] == (0, ROWS)
    assert found[1][0] >= 2 * GROUP_ROWS
    assert found[2][0] >= found[1][0]  # nothing was thrown out for rows of the same dataset
    assert calls.count() == sum(computed for _, computed in found)


def test_rows_of_another_dataset_make_room(source, tmp_path):
    limit = 20_000_000
    first = hd.read_parquet(source).map_batches(mean, batch_size=None).cache(tmp_path / "cache", limit)
    ids(first)
    ids(first)
    assert cached(first) == (ROWS, 0)
    second = hd.read_parquet(source).map_batches(mean, batch_size=20).cache(tmp_path / "cache", limit)
    for _ in range(2):
        assert ids(second) == list(range(ROWS))
        assert used(tmp_path / "cache") <= limit
    assert cached(second) == (ROWS, 0)
    assert ids(first) == list(range(ROWS))


def test_a_disk_that_takes_no_more_ends_writing_only(source, tmp_path):
    """Files of the process may have 3 MB at most: a write of the cache fails in the middle of an epoch."""
    script = tmp_path / "full.py"
    script.write_text(
        textwrap.dedent(
            """
            import resource, signal, sys
            import headrace.data as hd

            source, folder = sys.argv[1:3]
            ds = hd.read_parquet(source, shuffle=None).cache(folder)
            it = iter(ds.iter_rows())
            rows = [next(it)["id"]]
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
            rows += [row["id"] for row in it]
            assert rows == list(range(len(rows))), rows[:10]
            print(len(rows))
            """
        )
    )
    done = subprocess.run(
        [sys.executable, str(script), source, str(tmp_path / "cache")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(ROWS)]
    assert done.stderr.count("cannot write") == 1
    assert not list(Path(tmp_path / "cache").rglob("*.tmp"))


@pytest.fixture
def full_disk(tmp_path):
    """A folder on a disk of 4 MiB that another file fills."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder]
    if os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("only root can mount a small disk")
    try:
        (folder / "other").write_bytes(bytes(4 << 20))
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def test_a_disk_that_is_full_from_the_start_is_one_warning(source, full_disk, caplog):
    """The story: nothing was cached, and nothing said so."""
    ds = hd.read_parquet(source, shuffle=None).cache(full_disk / "rows")
    for _ in range(2):
        assert ids(ds) == list(range(ROWS))
    assert [r.getMessage() for r in caplog.records] == [
        f"cache {full_disk}/rows/rows1: the disk is full (1/50 of it stays free): more rows are not cached"
    ]


# ---------------------------------------------------------- errors


@pytest.mark.parametrize(
    "step",
    [
        lambda ds: ds.random_shuffle(),
        lambda ds: ds.randomize_block_order(),
        lambda ds: ds.random_sample(0.5),
        lambda ds: ds.with_column("r", random_number()),
        lambda ds: hd.range(10).union(ds.random_shuffle()),
    ],
)
def test_what_differs_in_each_epoch_is_refused(tmp_path, step):
    with pytest.raises(exceptions.InvalidArgument, match=r"^cache: .*put it after cache\(\)"):
        step(hd.range(100)).cache(tmp_path / "cache")


def test_arguments(tmp_path):
    ds = hd.range(10)
    for arguments, text in [
        ((3,), "cache: path"),
        (("",), "cache: path"),
        (("s3://bucket/cache",), "cache: path: expected a folder on a disk of this machine"),
        ((tmp_path, 0), "cache: limit"),
        ((tmp_path, "many"), "cache: limit"),
    ]:
        with pytest.raises(exceptions.InvalidArgument, match=text):
            ds.cache(*arguments)
    with pytest.raises(exceptions.InvalidArgument, match="cache: version"):
        ds.cache(tmp_path, version=3)
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        ds.cache(tmp_path / "file").take_all()


def test_sources_of_the_user_need_a_version(tmp_path):
    class Numbers(hd.Datasource):
        def get_read_tasks(self, parallelism, per_task_row_limit=None, **other):
            return [hd.ReadTask(lambda: [pa.table({"id": [1, 2, 3]})], None)]

    ds = hd.read_datasource(Numbers())
    try:
        assert ids(ds.cache(tmp_path / "cache", version="1")) == [1, 2, 3]
    except exceptions.UnsupportedError:
        pytest.skip("no such source here")


def test_a_cached_dataset_is_explained_and_pickles(source, tmp_path, capsys):
    import pickle

    ds = hd.read_parquet(source).cache(tmp_path / "cache", "1GB")
    ds.explain()
    assert f"cache('{tmp_path}/cache', limit=1000000000)" in capsys.readouterr().out
    again = pickle.loads(pickle.dumps(ds))
    assert ids(ds) == ids(again)
    assert cached(again) == (ROWS, 0)
    assert ds.count() == ROWS
    assert ds.schema().names == ["id", "k", "data", "words"]
    assert ds.materialize().count() == ROWS


def test_take_reads_few_rows(source, tmp_path):
    ds = hd.read_parquet(source).cache(tmp_path / "cache")
    assert [row["id"] for row in ds.take(3)] == [0, 1, 2]
    assert ids(ds) == list(range(ROWS))
    assert [row["id"] for row in ds.take(3)] == [0, 1, 2]
    assert ds.limit(5).sum("id") == 10


def test_errors_of_functions_name_them_and_leave_no_rows(source, tmp_path):
    def fail(row):
        if row["id"] == 350:
            raise ValueError("no such row")
        return row

    ds = hd.read_parquet(source).map(fail).cache(tmp_path / "cache")
    for _ in range(2):
        rows = []
        with pytest.raises(Exception, match=r"map\(fail\)"):
            for row in ds.iter_rows():
                rows.append(row["id"])  # noqa: PERF401
        assert rows == list(range(len(rows)))
        assert len(rows) <= 350
        with pytest.raises(Exception, match=r"map\(fail\)"):
            ds.take_all()
    assert files_of(tmp_path / "cache")
