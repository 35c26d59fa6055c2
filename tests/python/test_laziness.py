"""The engine opens only the files, and reads only the columns, that it needs."""

import json
import shutil

import numpy as np
import pytest

import headrace.data as hd
from headrace.data.expressions import col

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
FILES, ROWS = 1000, 10


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """1,000 files of 10 rows: id, x, and a long text."""
    path = tmp_path_factory.mktemp("many")
    for i in range(FILES):
        ids = np.arange(i * ROWS, (i + 1) * ROWS)
        pq.write_table(
            pa.table({"id": ids, "x": ids / 2, "text": ["a" * 200] * ROWS}), path / f"{i:04}.parquet"
        )
    return path


def even(row):
    return row["id"] % 2 == 0


def same(batch):
    return batch


def stats(ds):
    return ds.stats("dict")


PLANS = {
    "as it is": lambda ds: ds,
    "an expression": lambda ds: ds.filter(col("x") >= 0),
    "an expression of what is computed": lambda ds: ds.with_column("y", col("x") + 1).filter(col("y") > 0),
    "a function, in threads": lambda ds: ds.filter(even, compute="threads"),
    "a function, in the caller's thread": lambda ds: ds.filter(even, compute="inline"),
    "after map_batches": lambda ds: ds.map_batches(same, compute="threads").filter(even, compute="threads"),
    "after batches of 4": lambda ds: ds.map_batches(same, batch_size=4, compute="threads").filter(
        even, compute="threads"
    ),
    "in processes": lambda ds: ds.map_batches(same, batch_size=4, concurrency=1).filter(even, concurrency=1),
    "after select_columns": lambda ds: ds.select_columns(["id"]).filter(even, compute="threads"),
    "after rename_columns": lambda ds: ds.rename_columns({"x": "z"}).filter(col("z") >= 0),
    "after drop_columns": lambda ds: ds.drop_columns(["x"]).filter(even, compute="threads"),
    "after a union": lambda ds: ds.union(ds).filter(even, compute="threads"),
    "of two": lambda ds: ds.filter(even, compute="threads").union(ds.filter(even, compute="threads")),
    "after a union, by expression": lambda ds: ds.union(ds, ds).filter(col("x") >= 0),
    "after flat_map": lambda ds: ds.flat_map(lambda r: [r, r], compute="threads").filter(
        even, compute="threads"
    ),
    "after a larger limit": lambda ds: ds.limit(5000).filter(even, compute="threads"),
    "after random_sample": lambda ds: ds.random_sample(0.9, seed=1).filter(col("x") >= 0),
}


@pytest.mark.parametrize("name", PLANS)
def test_three_rows_of_a_thousand_files(folder, name):
    ds = PLANS[name](hd.read_parquet(folder)).limit(3)
    assert len(ds.take_all()) == 3
    assert stats(ds)["files_opened"] <= 4


@pytest.mark.parametrize(
    "look",
    [
        lambda ds: ds.take(3),
        lambda ds: ds.take_batch(3),
        lambda ds: ds.show(3),
        lambda ds: ds.to_pandas(limit=None) if ds.count() < 4 else ds.take(1),
        lambda ds: ds.schema(),
        lambda ds: ds.columns(),
    ],
    ids=["take", "take_batch", "show", "count and take", "schema", "columns"],
)
def test_looking(folder, look, capsys):
    """After a function of batches, so that only a run can know the rows."""
    ds = hd.read_parquet(folder).limit(40).map_batches(same, batch_size=4, compute="threads")
    look(ds)
    assert stats(ds)["files_opened"] <= 4


@pytest.mark.parametrize("look", [lambda ds: ds.schema(), lambda ds: ds.take(1)], ids=["schema", "take"])
def test_looking_behind_all_files(folder, look):
    ds = hd.read_parquet(folder).map_batches(same, batch_size=4, compute="threads")
    look(ds)
    assert stats(ds)["files_opened"] <= 4


def test_a_schema_needs_one_footer(folder, tmp_path):
    """The other files may be broken."""
    shutil.copy(folder / "0000.parquet", tmp_path)
    for i in range(1, 4):
        (tmp_path / f"000{i}.parquet").write_bytes(b"no footer")
    ds = hd.read_parquet(tmp_path).with_column("y", col("x") > 1).sort("id").select_columns(["y", "id"])
    assert ds.schema().names == ["y", "id"]
    assert ds.schema().types == ["bool", "int64"]
    assert stats(ds) == {}  # nothing was run


# ------------------------------------------------------------------------------------------- no input at all


def test_repr_and_explain_read_nothing(folder, tmp_path, capsys):
    """The files do not exist any more at the time of the call."""
    gone = tmp_path / "gone"
    gone.mkdir()
    for i in range(3):
        shutil.copy(folder / f"000{i}.parquet", gone)
    ds = hd.read_parquet(gone)
    made = {
        "filter": ds.filter(col("x") > 1),
        "filter(even)": ds.filter(even),
        "map(<lambda>)": ds.map(lambda r: r),
        "map_batches(same)": ds.map_batches(same, batch_size=3),
        "select_columns": ds.select_columns(["id"]),
        "with_columns": ds.with_column("y", col("x") + 1),
        "limit(3)": ds.limit(3),
        "union": ds.union(ds),
        "sort": ds.sort("x", descending=True),
        "random_shuffle": ds.random_shuffle(seed=1),
        "sample": ds.random_sample(0.5, seed=1),
        "groupby": ds.groupby("x").count(),
        "join": ds.join(ds.rename_columns({"x": "z", "text": "t"}), "inner", 2, on=("id",)),
        "zip": ds.zip(ds.rename_columns({"id": "a", "x": "b", "text": "c"})),
        "repartition": ds.repartition(2),
    }
    shutil.rmtree(gone)
    for name, one in made.items():
        assert name.split("(")[0] in repr(one), name
        one.explain()
        shown = capsys.readouterr().out
        assert "read_parquet" in shown, name
        if not shown.startswith("plan, runs as written:\n"):
            before, after = shown.split("runs as:\n")
            assert before.startswith("plan:\n") and "read_parquet" in before, name
            assert "read_parquet" in after and before.split("\n")[1:] != after.split("\n"), name


# ------------------------------------------------------------------------------------------- counts

COUNTS = {
    "files": lambda ds: ds,
    "map": lambda ds: ds.map(lambda r: 1 / 0),
    "with_column": lambda ds: ds.with_column("y", col("x") + 1),
    "select": lambda ds: ds.select_columns(["x"]),
    "one to one": lambda ds: ds.map_batches(lambda b: 1 / 0, udf_modifying_row_count=False),
    "sort": lambda ds: ds.sort("x"),
    "shuffle": lambda ds: ds.random_shuffle(),
    "sorted map": lambda ds: ds.map(lambda r: 1 / 0).sort("x"),
}


@pytest.mark.parametrize("name", COUNTS)
def test_counts_that_footers_tell(folder, name):
    """The count calls no function and reads no row."""
    ds = COUNTS[name](hd.read_parquet(folder))
    assert ds.count() == FILES * ROWS
    assert stats(ds) == {}
    assert ds.limit(7).count() == 7
    assert ds.limit(FILES * ROWS + 7).count() == FILES * ROWS
    assert ds.union(ds).count() == 2 * FILES * ROWS


def test_counts_that_have_to_be_computed(folder):
    ds = hd.read_parquet(folder)
    assert ds.filter(even, compute="threads").count() == FILES * ROWS // 2
    assert ds.flat_map(lambda r: [r] * 3, compute="threads").count() == FILES * ROWS * 3
    assert ds.with_column("k", col("id") % 7).groupby("k").count().count() == 7
    assert ds.groupby(None).count().count() == 1
    assert ds.filter(col("id") < 100).groupby("id").count().count() == 100
    other = hd.range(50).with_column("y", col("id") * 2)
    for how, want in (("inner", 50), ("left_outer", FILES * ROWS), ("right_outer", 50), ("left_semi", 50)):
        assert ds.join(other, how, 4, on=("id",)).count() == want, how
    assert ds.limit(5).sort("x").count() == 5
    assert ds.sort("x").limit(5).count() == 5
    assert ds.repartition(3).count() == FILES * ROWS
    assert ds.filter(col("id") < 0).count() == 0
    assert ds.select_columns(["id"]).zip(ds.select_columns(["x"])).count() == FILES * ROWS
    sample = ds.random_sample(0.5, seed=3)
    assert sample.count() == len(sample.take_all())


# ------------------------------------------------------------------------------------------- columns


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """One file: a, b, and c, which has nearly all bytes and cannot be read, because its pages are zeros."""
    path = tmp_path_factory.mktemp("wide") / "w.parquet"
    n = 20_000
    table = pa.table({"a": np.arange(n) % 10, "b": np.arange(n) / 2, "c": np.random.default_rng(1).random(n)})
    pq.write_table(table, path, use_dictionary=False, compression="none")
    meta = pq.read_metadata(path).row_group(0).column(2)
    data = bytearray(path.read_bytes())
    begin = meta.data_page_offset
    data[begin : begin + meta.total_compressed_size] = bytes(meta.total_compressed_size)
    path.write_bytes(data)
    with pytest.raises(Exception, match="'c'|page"):
        hd.read_parquet(path).select_columns(["c"]).take(1)
    return path


UNUSED = {
    "select_columns": lambda ds: ds.select_columns(["a"]),
    "filter": lambda ds: ds.filter(col("a") > 3).select_columns(["b"]),
    "with_column": lambda ds: (
        ds.with_column("y", col("c") + 1).with_column("z", col("a")).select_columns(["z"])
    ),
    "drop_columns": lambda ds: ds.drop_columns(["c"]),
    "rename_columns": lambda ds: ds.rename_columns({"c": "d"}).select_columns(["a"]),
    "limit": lambda ds: ds.limit(100).select_columns(["a"]),
    "union": lambda ds: ds.union(ds).select_columns(["a"]),
    "groupby": lambda ds: ds.groupby("a").sum("b"),
    "groupby after with_column": lambda ds: ds.with_column("k", col("a") * 2).groupby("k").count(),
    "sort": lambda ds: ds.sort("b").select_columns(["a"]),
    "shuffle": lambda ds: ds.random_shuffle(seed=1).select_columns(["b"]),
    "sample": lambda ds: ds.random_sample(0.5, seed=1).select_columns(["b"]),
    "repartition": lambda ds: ds.repartition(3).select_columns(["b"]),
    "join": lambda ds: ds.join(hd.range(10), "inner", 2, on=("a",), right_on=("id",)).select_columns(["b"]),
    "join semi": lambda ds: ds.join(hd.range(10), "left_semi", 2, on=("a",), right_on=("id",)).select_columns(
        ["b"]
    ),
    "zip": lambda ds: ds.zip(hd.range(20_000)).select_columns(["id", "b"]),
}


@pytest.mark.parametrize("name", UNUSED)
def test_columns_that_nobody_needs_are_not_read(wide, name):
    assert len(UNUSED[name](hd.read_parquet(wide)).take_all()) > 0


def test_counting_reads_what_the_filter_needs(wide):
    assert hd.read_parquet(wide).filter(col("a") > 4).count() == 10_000
    assert hd.read_parquet(wide).sort("c").count() == 20_000
    assert hd.read_parquet(wide).groupby("a").count().count() == 10


# ------------------------------------------------------------------------------------------ other formats


def kept(row):
    return True


@pytest.fixture(scope="module")
def small_files(tmp_path_factory):
    path = tmp_path_factory.mktemp("small")
    for i in range(300):
        (path / f"{i:03}.bin").write_bytes(bytes([i % 256]) * 500)
    return path


@pytest.mark.parametrize(
    "plan",
    [
        lambda ds: ds.filter(kept, compute="threads").limit(3),
        lambda ds: ds.filter(kept, compute="inline").limit(3),
        lambda ds: ds.map_batches(same, compute="threads").limit(3),
        lambda ds: ds.filter(col("path") != "").limit(3),
        lambda ds: ds.zip(ds.rename_columns({"bytes": "b", "path": "p"})).limit(3),
        lambda ds: ds.mix(ds, weights=[1, 1]).limit(3),
    ],
    ids=["filter in threads", "filter inline", "map_batches", "expression", "zip", "mix"],
)
def test_few_of_many_files_of_a_row(small_files, plan):
    """Files of one row are read 64 at a time; the story: also for three rows."""
    ds = plan(hd.read_binary_files(small_files, include_paths=True))
    assert [r["bytes"][0] for r in ds.take_all()] in ([0, 1, 2], [0, 0, 1])
    assert stats(ds)["files_opened"] <= 40  # of each input; it was 64 and more


def test_files_of_a_row_are_all_there_however_they_are_taken(small_files):
    ds = hd.read_binary_files(small_files)
    expected = [bytes([i % 256]) * 500 for i in range(300)]
    for n in (1, 4, 5, 100, 300):
        assert [r["bytes"] for r in ds.filter(kept, compute="threads").limit(n).iter_rows()] == expected[:n]
    batches = ds.limit(290).iter_batches(batch_size=7)
    seen = [b for _, batch in zip(range(11), batches, strict=False) for b in batch["bytes"]]
    again = ds.limit(290).iter_batches(batch_size=7)
    again.load_state_dict(batches.state_dict())
    rest = [b for batch in again for b in batch["bytes"]]
    assert seen + rest == expected[:290]


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """200 samples with invalid images and invalid JSON."""
    import io
    import tarfile

    path = tmp_path_factory.mktemp("archive") / "a.tar"
    with tarfile.open(path, "w") as tar:
        for i in range(200):
            for suffix, data in (("cls", b"%d" % i), ("jpg", b"no image" * 8000), ("json", b"{")):
                member = tarfile.TarInfo(f"{i:03}.{suffix}")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    return path


def test_members_that_nobody_wants_are_not_decoded(archive):
    """The story: every column of an archive with JSON was decoded, because Python parses JSON."""
    ds = hd.read_webdataset(archive)
    assert ds.select_columns(["cls"]).sum("cls") == sum(range(200))
    assert ds.drop_columns(["json", "jpg"]).columns() == ["__key__", "cls", "__url__"]
    assert ds.limit(150).drop_columns(["json", "jpg"]).count() == 150
    assert ds.select_columns(["__key__", "cls"]).filter(col("cls") > 197).take_all() == [
        {"__key__": "198", "cls": 198},
        {"__key__": "199", "cls": 199},
    ]
    with pytest.raises(ValueError, match="expected a JPEG"):
        ds.select_columns(["jpg"]).take()
    with pytest.raises(json.JSONDecodeError):
        ds.select_columns(["json"]).take()


def bytes_read(run):
    def total():
        with open("/proc/self/io") as f:
            return int(f.readline().split()[1])

    before = total()
    run()
    return total() - before


def test_members_that_nobody_wants_are_passed_over(archive):
    """The story: it read 13 MB of images to get the keys."""
    ds = hd.read_webdataset(archive).select_columns(["__key__", "cls"])
    assert bytes_read(ds.take_all) < archive.stat().st_size / 4


def test_functions_that_make_what_nobody_wants_are_not_called():
    from headrace.data.expressions import udf

    @udf(return_dtype="int64")
    def never(x):
        raise AssertionError("it ran")

    ds = hd.range(20).with_column("y", never(col("id")), compute="threads")
    assert ds.select_columns(["id"]).take(2) == [{"id": 0}, {"id": 1}]
    assert ds.sort("id", descending=True).select_columns(["id"]).take(1) == [{"id": 19}]
    assert ds.count() == 20 and ds.sum("id") == 190
    with pytest.raises(AssertionError, match="it ran"):
        ds.filter(col("y") > 3).select_columns(["id"]).take()
    context = hd.DataContext.get_current()
    old = context.max_errored_blocks
    context.max_errored_blocks = -1  # rows that it fails for are left out: then it matters
    try:
        ds = hd.range(20).with_column("y", never(col("id")), compute="threads")
    finally:
        context.max_errored_blocks = old
    assert ds.select_columns(["id"]).take_all() == []
