"""Every operation, reader and writer over nearly three times a limit of 16 MiB: the same bytes."""

import functools
import gc
import hashlib
import threading

import numpy as np
import pytest

import headrace.data as hd
from headrace import _core
from headrace.data import aggregate as agg
from headrace.data.expressions import col, lit
from headrace.exceptions import MemoryLimitError

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pytestmark = pytest.mark.slow
LIMIT = 16 << 20
ROWS = 400_000  # of 24 bytes and a text of 81: 2.7 times the limit


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("rows")
    key = (col("id") * 7_368_787) % (ROWS // 2)
    columns = {
        "key": key,
        "x": (col("id") % 1000) / 8.0,
        "name": (key + lit(10**12)).cast("string").str.rpad(81, "."),
    }
    hd.range(ROWS).with_columns(columns).write_parquet(path, max_rows_per_file=ROWS // 8)
    return path


@pytest.fixture(autouse=True)
def context(tmp_path):
    context = hd.DataContext.get_current()
    was = context.memory_limit_bytes
    spill = tmp_path / "spill"
    spill.mkdir()
    context.spill_dir = spill
    yield context
    context.memory_limit_bytes = was
    context.spill_dir = None
    gc.collect()
    assert _core.spill_used() == 0 and list(spill.iterdir()) == []


def add(digest, table):
    """Adds the table's bytes to the digest, independent of its cut."""
    table = pa.Table.from_batches([b for b in table.to_batches() if b.num_rows], table.schema)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    digest.update(sink.getvalue())


def rows(ds, **options):
    digest = hashlib.sha256()
    n = 0
    for batch in ds.iter_batches(batch_format="pyarrow", batch_size=20_000, **options):
        add(digest, batch)
        n += len(batch)
    return n, digest.hexdigest()


def each(parts):
    return [rows(part) for part in parts]


def double(batch):
    return {"id": batch["id"], "x": batch["x"] * 2}


def twice(row):
    return [{"id": row["id"]}, {"id": -row["id"]}]


def largest(batch):
    return {"key": batch["key"][:1], "x": batch["x"].max(keepdims=True)}


def shards(ds):
    """The rows of two consumers that read at the same time."""
    found = [None, None]
    iterators = ds.streaming_split(2, equal=True)

    def consume(i):
        found[i] = rows(iterators[i])

    threads = [threading.Thread(target=consume, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert None not in found
    return found


def tokens():
    """60,000 lists [0, 1, 2, ...] of 0 to 299 numbers: 72 MB."""
    lengths = np.arange(60_000) % 300
    ends = np.cumsum(lengths)
    values = np.arange(ends[-1]) - np.repeat(ends - lengths, lengths)
    return pa.ListArray.from_arrays(pa.array(np.append(0, ends), pa.int32()), pa.array(values))


def other():
    return hd.range(ROWS).with_columns({"key": col("id") * 2, "y": col("id") + 0.5}).drop_columns(["id"])


def joined(kind):
    return lambda ds: ds.join(other(), kind, 16, on=("key",))


def grouped(*aggregates, by="key"):
    return lambda ds: ds.groupby(by).aggregate(*aggregates)


# What gives datasets, or something else that can be compared. These hold all rows, and spill.
SPILL = {
    "sort": lambda ds: ds.sort("key"),
    "sort by text, descending": lambda ds: ds.sort(["name", "id"], descending=[True, False]),
    "random_shuffle": lambda ds: ds.random_shuffle(seed=5),
    "repartition, shuffled": lambda ds: ds.repartition(6, shuffle=True),
    "repartition by key": lambda ds: ds.repartition(6, keys=["key"]),
    "groupby, count and sum": grouped(agg.Count(), agg.Sum("x")),
    "groupby text": grouped(agg.Min("id"), agg.Max("x"), by="name"),
    "groupby, mean and std": grouped(agg.Mean("x"), agg.Std("x"), agg.AbsMax("x")),
    "groupby, lists": grouped(agg.AsList("x"), agg.Unique("id")),
    "groupby, quantile": grouped(agg.Quantile("x", q=0.25), agg.CountDistinct("x")),
    "groupby, values": grouped(agg.ValueCounter("x")),
    "groupby, percentages": grouped(agg.MissingValuePercentage("x"), agg.ZeroPercentage("x")),
    "groupby, first and last": grouped(
        agg.First("name"), agg.Last("x"), agg.ArgMin("name", "x"), agg.ArgMax("id", "x")
    ),
    "drop_duplicates": lambda ds: ds.drop_duplicates("key"),
    "drop_duplicates, last": lambda ds: ds.drop_duplicates(["key"], keep="last"),
    "distinct": lambda ds: ds.union(ds).distinct(),
    "value_counts": lambda ds: ds.value_counts("name"),
    "join inner": joined("inner"),
    "join left": joined("left_outer"),
    "join right": joined("right_outer"),
    "join full": joined("full_outer"),
    "join of text": lambda ds: ds.join(
        ds.rename_columns({"id": "i", "x": "y", "key": "k"}), "inner", 16, on=("name",)
    ),
    "materialize": lambda ds: ds.materialize(),
    "train_test_split, stratified": lambda ds: [
        d.sort("id")
        for d in ds.with_column("half", col("id") % 2).train_test_split(0.2, stratify="half", seed=1)
    ],
    "train_test_split, shuffled": lambda ds: ds.train_test_split(0.2, shuffle=True, seed=1),
}
STAY = {
    "as it is": lambda ds: ds,
    "join semi": joined("left_semi"),
    "join anti": joined("left_anti"),
    "map_batches inline": lambda ds: ds.map_batches(double, compute="inline"),
    "map_batches in threads": lambda ds: ds.map_batches(double, compute="threads", batch_size=5000),
    "map_batches in processes": lambda ds: ds.map_batches(double, concurrency=1, batch_size=5000),
    "map": lambda ds: ds.limit(20_000).map(lambda r: {"y": r["x"] + 1}, compute="threads"),
    "flat_map": lambda ds: ds.limit(20_000).flat_map(twice, compute="threads"),
    "filter": lambda ds: ds.filter(col("x") > 50),
    "with_column": lambda ds: ds.with_column("y", col("name").str.upper()),
    "columns": lambda ds: (
        ds.select_columns(["name", "id"]).rename_columns({"name": "n"}).drop_columns(["id"])
    ),
    "limit": lambda ds: ds.limit(ROWS * 3 // 4),
    "union": lambda ds: ds.union(ds),
    "zip": lambda ds: ds.zip(ds.rename_columns({"id": "i", "key": "k", "x": "y", "name": "n"})),
    "mix": lambda ds: ds.mix(ds, weights=[0.7, 0.3]),
    "sample": lambda ds: ds.sample(5000, seed=3),
    "random_sample": lambda ds: ds.random_sample(0.7, seed=2),
    "randomize_block_order": lambda ds: ds.randomize_block_order(seed=3),
    "repartition": lambda ds: ds.repartition(6),
    "repartition by rows": lambda ds: ds.repartition(target_num_rows_per_block=7000),
    "split": lambda ds: ds.split(3),
    "split_at_indices": lambda ds: ds.split_at_indices([1, ROWS // 2]),
    "split_proportionately": lambda ds: ds.split_proportionately([0.2, 0.3]),
    "train_test_split": lambda ds: ds.train_test_split(0.3),
    "streaming_train_test_split": lambda ds: ds.streaming_train_test_split(
        0.3, split_type="hash", hash_column="key"
    ),
    "map_groups": lambda ds: ds.limit(30_000).groupby("key").map_groups(largest, compute="threads"),
    "aggregate": lambda ds: ds.aggregate(agg.Sum("x"), agg.Mean("x"), agg.CountDistinct("x")),
    "few groups": grouped(agg.Count(), agg.Mean("x"), by="x"),
    "unique": lambda ds: sorted(ds.unique("x")),
    "summary": lambda ds: ds.summary(["x", "id"]).to_pandas().to_csv(),
    "count": lambda ds: [
        ds.filter(col("x") > 3).count(),
        ds.sum("x"),
        ds.min("name"),
        ds.max("name"),
        ds.std("x"),
    ],
    "local shuffle": functools.partial(rows, local_shuffle_buffer_size=20_000, local_shuffle_seed=4),
    "streaming_split": shards,
    "pack": lambda ds: hd.from_arrow(pa.table({"tokens": tokens()})).pack(16, "best_fit", pad_token_id=0),
    "explode": lambda ds: hd.from_arrow(pa.table({"tokens": tokens(), "i": np.arange(60_000)})).explode(
        "tokens"
    ),
    "batch_by_length": lambda ds: (
        hd.from_arrow(pa.table({"tokens": tokens()}))
        .batch_by_length("tokens", max_tokens=4096)
        .with_column("n", col("tokens").list.len())
        .select_columns(["n"])
    ),
    "range_tensor": lambda ds: hd.range_tensor(100_000, shape=(8, 8)).map_batches(
        lambda b: b, compute="threads"
    ),
}


FORMATS = {
    "parquet": (hd.read_parquet, {}),
    "csv": (hd.read_csv, {}),
    "json": (hd.read_json, {}),
    "arrow": (hd.read_arrow, {}),
    "numpy": (hd.read_numpy, {"column": "x"}),
    "tfrecords": (hd.read_tfrecords, {}),
    "webdataset": (hd.read_webdataset, {}),
}


def result(made):
    if isinstance(made, hd.Dataset):
        return rows(made)
    if isinstance(made, (list, tuple)) and any(isinstance(m, hd.Dataset) for m in made):
        return each(made)
    return made


def spilled(made):
    parts = made if isinstance(made, (list, tuple)) else [made]
    return sum(p.stats("dict").get("spill_written_bytes", 0) for p in parts) + _core.spill_used()


@pytest.mark.parametrize("name", [*SPILL, *STAY])
def test_the_same_bytes(folder, context, name):
    make = SPILL.get(name) or STAY[name]
    want = result(make(hd.read_parquet(folder)))
    context.memory_limit_bytes = LIMIT
    made = make(hd.read_parquet(folder))
    assert result(made) == want
    if name in SPILL:
        assert spilled(made) > 0


def test_a_summary_that_does_not_fit_says_so(folder, context):
    """The most frequent texts: the engine keeps all distinct ones."""
    context.memory_limit_bytes = LIMIT // 2
    with pytest.raises(MemoryLimitError, match=str(LIMIT // 2)):
        hd.read_parquet(folder).summary(["name"]).to_pandas()


def test_none_is_forgotten():
    """Every method has a case above, or stands here, because it keeps no rows or returns all of them."""
    import inspect

    lines = inspect.getsource(inspect.getmodule(test_none_is_forgotten))
    others = """
        names types base_schema add_column with_columns min max mean sum std schema columns input_files
        size_bytes num_blocks set_name name explain stats context take take_all take_batch show head iterator
        iter_torch_batches to_torch iter_rows to_pandas to_arrow to_arrow_refs to_pandas_refs to_numpy_refs
        write_images write_sql write_datasink copy count iter_jax_batches shard
        iter_tf_batches to_tf to_dict to_polars deserialize_lineage cache
    """.split()
    methods = [m for m in vars(hd.Dataset) if not m.startswith("_")]
    assert len(methods) > 40
    assert [m for m in methods if m not in others and f".{m}(" not in lines and m[6:] not in FORMATS] == []


# ------------------------------------------------------------------------------------------- formats


@pytest.mark.parametrize("name", FORMATS)
def test_written_and_read(folder, context, tmp_path, name):
    read, options = FORMATS[name]
    n = 20_000 if name == "webdataset" else ROWS
    files, found = [], []
    for limit in None, LIMIT:
        context.memory_limit_bytes = limit
        ds = hd.read_parquet(folder).limit(n)
        if name == "webdataset":
            ds = ds.with_column("__key__", col("id").cast("string")).select_columns(["__key__", "name"])
            ds = ds.rename_columns({"name": "txt"})
        out = tmp_path / str(limit)
        getattr(ds, f"write_{name}")(
            out, **options, **({} if name == "numpy" else {"max_rows_per_file": 200_000})
        )
        files.append([hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(out.iterdir())])
        found.append(rows(read(tmp_path / "None")))
    assert found[0] == found[1] and found[0][0] == n
    if name in ("parquet", "arrow"):  # row groups are smaller, so that they fit; rows are the same
        assert rows(read(tmp_path / str(LIMIT))) == found[0]
    else:
        assert files[0] == files[1] and len(files[0]) > 0


@pytest.mark.parametrize("name", ["parquet", "webdataset"])
def test_large_rows_are_written_within_the_limit(context, tmp_path, name):
    """The story: a row group was 64 MiB of pixels whatever the limit, and ten times that during encoding."""
    made = hd.range(300).map_batches(
        lambda b: {
            "__key__": [f"{i:04}" for i in b["id"]],
            "bin": [np.full(150_000, i % 251, np.uint8).tobytes() for i in b["id"]],
        },
        batch_size=10,
        compute="threads",
    )
    pixels = hd.range(300).map_batches(
        lambda b: {"image": np.repeat(b["id"] % 251, 150_000).astype(np.uint8).reshape(-1, 250, 200, 3)},
        batch_size=10,
        compute="threads",
    )
    context.memory_limit_bytes = LIMIT
    for ds in [made, pixels] if name == "parquet" else [made]:
        out = tmp_path / name
        getattr(ds, f"write_{name}")(out, mode="overwrite")
        assert ds.stats("dict")["peak_bytes"] < 2 * LIMIT
        read = getattr(hd, f"read_{name}")
        assert read(out).count() == 300
    if name == "parquet":
        last = hd.read_parquet(out).split_at_indices([299])[1].take_batch(1)["image"]
        assert last.shape == (1, 250, 200, 3) and (last == 299 % 251).all()
