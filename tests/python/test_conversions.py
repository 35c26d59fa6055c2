"""Frames of other libraries, plans as bytes, rows by key, blocks: what Ray's Dataset has."""

import pickle

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pytest

import headrace
import headrace.data as hd
from headrace import exceptions
from headrace.data.expressions import col


def test_lineage(tmp_path):
    hd.range(10).write_parquet(str(tmp_path))
    factor = 3
    ds = hd.read_parquet(str(tmp_path)).map(lambda row: {"id": row["id"] * factor}).random_shuffle(seed=1)
    assert ds.has_serializable_lineage()
    again = hd.Dataset.deserialize_lineage(ds.serialize_lineage())
    assert again.take_all() == ds.take_all() and type(again) is hd.Dataset
    kept = ds.materialize()
    assert not kept.has_serializable_lineage()
    assert not ds.union(hd.from_items([{"id": 1}])).has_serializable_lineage()
    with pytest.raises(ValueError, match=r"has rows in memory .* or use pickle"):
        kept.serialize_lineage()
    with pytest.raises(TypeError, match="expected a Dataset, found dict"):
        hd.Dataset.deserialize_lineage(pickle.dumps({}))


def test_names_of_datasets():
    ds = hd.range(3)
    found = ds.get_dataset_id()
    assert found == ds.get_dataset_id() and found.startswith("dataset_")
    assert ds.copy().get_dataset_id() != found != hd.range(3).get_dataset_id()
    ds.set_name("mine")
    assert ds.get_dataset_id() == found.replace("dataset", "mine")


def test_statistics_as_a_dict():
    ds = hd.range(30).map_batches(lambda b: b, compute="inline")
    assert ds.get_stats_summary() == {}
    ds.take_all()
    assert ds.get_stats_summary(detail=True) == ds.stats("dict") != {}


def test_blocks():
    ds = hd.range(100, override_num_blocks=4)
    bundles = list(ds.iter_internal_ref_bundles())
    rows = [headrace.get(entry.ref) for bundle in bundles for entry in bundle.blocks]
    assert pa.concat_tables(rows).column("id").to_pylist() == list(range(100)) and len(bundles) == 4
    assert bundles[0].num_rows() == 25 and bundles[0].size_bytes() == 200
    assert bundles[0].schema.names == ["id"] and bundles[0].block_refs[0].num_rows == 25
    assert [t.num_rows for t in ds.get_internal_block_refs()] == [25] * 4


ROWS = [{"k": k, "v": f"v{k}", "a": np.arange(k)} for k in (30, 5, 20, 10)]


def test_rows_by_key():
    found = hd.from_items(ROWS).repartition(2).to_random_access_dataset("k", num_workers=3)
    assert [row and row["v"] for row in found.multiget([5, 6, 30, 31, 4])] == ["v5", None, "v30", None, None]
    row = headrace.get(found.get_async(10))
    assert row["v"] == "v10" and row["a"].tolist() == list(range(10))
    assert "Accesses: 6" in found.stats()


def test_rows_by_keys_that_are_missing_or_equal():
    keys = [2.0, None, float("nan"), 1.0, 2.0]
    found = hd.from_items([{"k": k, "n": i} for i, k in enumerate(keys)]).to_random_access_dataset("k")
    assert [row and row["n"] for row in found.multiget([1.0, 2.0, 3.0, 0.0])] == [3, 0, None, None]
    none = hd.range(0).to_random_access_dataset("id")
    assert none.multiget([1]) == [None]
    text = hd.from_items([{"k": "b"}, {"k": "a"}]).to_random_access_dataset("k")
    assert text.get_async("a") == {"k": "a"} and text.get_async("c") is None


def test_a_column_of_groups():
    """The story: Ray calls the expression for each group; the rows are the same."""
    rows = [{"g": g, "v": i} for i, g in enumerate("baab")]
    made = hd.from_items(rows).groupby("g").with_column("twice", col("v") * 2).take_all()
    assert made == [{"g": "aabb"[n], "v": i, "twice": 2 * i} for n, i in enumerate([1, 2, 0, 3])]


def test_orc(tmp_path):
    ds = hd.range(10).with_column("t", col("id").cast("string"))
    made = ds.write_orc(str(tmp_path), min_rows_per_file=4, compression="zstd")
    assert [f["rows"] for f in made] == [4, 4, 2] and made[0]["bytes"] > 0
    assert pyarrow.orc.ORCFile(made[0]["path"]).compression == "ZSTD"
    assert hd.read_orc(str(tmp_path)).take_all() == ds.take_all()
    with pytest.raises(exceptions.StorageError, match="already contains files"):
        ds.write_orc(str(tmp_path), mode="create")


def test_delta(tmp_path):
    pytest.importorskip("deltalake")
    where, ds = str(tmp_path / "t"), hd.range(10)
    ds.write_delta(where)
    ds.with_column("y", col("id") * 2).write_delta(where)
    found = hd.read_delta(where)
    assert found.count() == 20 and found.columns() == ["id", "y"] and found.sum("y") == 90
    with pytest.raises(Exception, match="schema"):
        ds.with_column("z", col("id")).write_delta(where, schema_mode="error")
    ds.write_delta(where, mode=hd.SaveMode.OVERWRITE)
    assert hd.read_delta(where).count() == 10 and hd.read_delta(where, version=1).count() == 20
    with pytest.raises(exceptions.InvalidArgument, match="schema_mode: expected 'merge' or 'error'"):
        ds.write_delta(where, schema_mode="x")


def test_a_delta_job_that_fails_writes_nothing(tmp_path):
    pytest.importorskip("deltalake")

    def fail(batch):
        if batch["id"][-1] > 5000:
            raise ZeroDivisionError("bad rows")
        return batch

    with pytest.raises(Exception, match="bad rows"):
        hd.range(10_000).map_batches(fail, batch_size=1000, compute="inline").write_delta(str(tmp_path / "t"))
    assert not list((tmp_path).rglob("*.json"))


def test_lance(tmp_path):
    pytest.importorskip("lance")
    where, ds = str(tmp_path / "t"), hd.range(10)
    ds.write_lance(where)
    ds.write_lance(where, mode="append", max_rows_per_file=3)
    assert hd.read_lance(where).count() == 20
    assert hd.read_lance(where, filter="id > 7", scanner_options={"batch_size": 1}).count() == 4
    ds.write_lance(where, mode=hd.SaveMode.OVERWRITE)
    assert hd.read_lance(where).take_all() == ds.take_all()
    with pytest.raises(exceptions.UnsupportedError, match="namespace_impl is not supported"):
        ds.write_lance(where, namespace_impl="rest")


def test_iceberg(tmp_path):
    catalogs = pytest.importorskip("pyiceberg.catalog")
    how = {"name": "c", "type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}"}
    catalogs.load_catalog(**how).create_namespace("n")

    def read():
        return hd.read_iceberg("n.t", catalog_kwargs=how)

    ds = hd.range(10)
    ds.write_iceberg("n.t", how)
    ds.with_column("y", col("id") * 2).write_iceberg("n.t", how)
    assert read().count() == 20 and read().columns() == ["id", "y"]
    ds.write_iceberg("n.t", how, mode="overwrite", overwrite_filter="id >= 5")
    assert read().count() == 20 and read().sum("y") == 20
    ds.write_iceberg("n.t", how, mode=hd.SaveMode.OVERWRITE)
    assert read().count() == 10
    more = hd.range(12).with_column("y", col("id"))
    more.write_iceberg("n.t", how, mode="upsert", upsert_kwargs={"join_cols": ["id"]})
    assert read().count() == 12 and read().sum("y") == 66
    with pytest.raises(exceptions.UnsupportedError, match="found 'create'"):
        ds.write_iceberg("n.t", how, mode="create")


def test_dask():
    pytest.importorskip("dask.dataframe")
    frame = hd.range(100, override_num_blocks=4).to_dask()
    assert frame.npartitions == 4 and frame.id.sum().compute() == 4950
    assert hd.from_dask(frame).sum("id") == 4950


class Session:
    """Stands for a SparkSession: what to_spark gives it."""

    def createDataFrame(self, rows):
        return rows


def test_spark():
    assert hd.range(3).to_spark(Session()).column("id").to_pylist() == [0, 1, 2]
    with pytest.raises(TypeError, match="expected a SparkSession, found str"):
        hd.range(3).to_spark("session")


def video(path, n=10, rate=10):
    av = pytest.importorskip("av")
    with av.open(str(path), "w") as file:
        stream = file.add_stream("mpeg4", rate=rate)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for i in range(n):
            pixels = np.full((48, 64, 3), i * 20, "u1")
            file.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        file.mux(stream.encode())


def test_videos(tmp_path):
    video(tmp_path / "a.mp4")
    video(tmp_path / "b.mp4", n=3)
    ds = hd.read_videos(str(tmp_path), include_timestamps=True, include_paths=True)
    rows = ds.take_all()
    assert [row["frame_index"] for row in rows] == [*range(10), *range(3)]
    assert rows[3]["frame"].shape == (48, 64, 3) and abs(rows[3]["frame"].mean() - 60) < 3
    np.testing.assert_allclose(rows[3]["frame_timestamp"], [0.3, 0.4])
    assert rows[-1]["path"].endswith("b.mp4")
    few = hd.read_videos(str(tmp_path / "a.mp4"), fps=3, resize=(10, 20)).take_all()
    assert [row["frame_index"] for row in few] == [0, 3, 6, 9] and few[0]["frame"].shape == (10, 20, 3)


def test_videos_that_are_damaged(tmp_path):
    video(tmp_path / "a.mp4")
    (tmp_path / "b.mp4").write_bytes(b"no video" * 100)
    with pytest.raises(exceptions.DataError, match="b.mp4: InvalidDataError"):
        hd.read_videos(str(tmp_path)).take_all()
    for arguments, text in [({"fps": 0}, "fps: expected"), ({"resize": (3,)}, "resize: expected")]:
        with pytest.raises(exceptions.InvalidArgument, match=text):
            hd.read_videos(str(tmp_path), **arguments)


def test_modules_of_ray_are_attributes():
    assert hd.preprocessors.StandardScaler and hd.expressions.col is col and hd.util.__name__.endswith("util")
    assert isinstance(hd.stats.DatasetSummary, type) and not hasattr(hd, "no_module")
