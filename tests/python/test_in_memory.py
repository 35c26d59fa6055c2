"""Objects in memory to datasets and back: from_*, blocks, sizes, names."""

import pickle
import subprocess
import sys
import types

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import headrace.data as hd
from headrace import exceptions

TABLE = pa.table({"a": pa.array([1, 2, 3], pa.int64()), "s": ["x", None, "z"]})


def stream_bytes(table):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def test_items_that_are_mappings_or_not():
    assert hd.from_items([types.MappingProxyType({"a": 1}), {"a": 2}]).take_all() == [{"a": 1}, {"a": 2}]
    assert hd.from_items([{"a": 1}, 2]).take_all() == [{"a": 1, "item": None}, {"a": None, "item": 2}]
    assert hd.from_items(["x", None]).take_all() == [{"item": "x"}, {"item": None}]
    assert hd.from_items(i for i in range(3)).count() == 3


@pytest.mark.parametrize("n, sizes", [(1, [10]), (3, [3, 3, 4]), (10, [1] * 10), (50, [1] * 10)])
def test_how_many_blocks(n, sizes):
    frame = pd.DataFrame({"item": range(10)})
    for ds in (
        hd.from_items(list(range(10)), override_num_blocks=n),
        hd.from_pandas([frame[:4], frame[4:]], override_num_blocks=n),
        hd.from_arrow(
            [pa.table({"item": range(2)}), pa.table({"item": range(2, 10)})], override_num_blocks=n
        ),
    ):
        assert [len(v) for v in ds.to_numpy_refs(column="item")] == sizes
        assert ds.num_blocks() == len(sizes)
        assert [r["item"] for r in ds.iter_rows()] == list(range(10))
    assert hd.from_items([], override_num_blocks=n).num_blocks() == 1


@pytest.mark.parametrize("n", [0, -2, True, 1.5])
def test_wrong_numbers_of_blocks(n):
    with pytest.raises(exceptions.InvalidArgument, match="from_items: override_num_blocks: .* at least 1"):
        hd.from_items([1, 2], override_num_blocks=n)


def test_arrow_streams_as_bytes():
    data = stream_bytes(TABLE)
    assert hd.from_arrow(data).to_arrow() == TABLE
    assert hd.from_arrow([TABLE, data]).to_arrow() == pa.concat_tables([TABLE, TABLE])
    for broken in (b"", b"xx", data[: len(data) // 2]):
        with pytest.raises(exceptions.DataError, match=f"from_arrow: {len(broken)} bytes are no Arrow"):
            hd.from_arrow(broken)


def test_objects_stand_for_references():
    frame = TABLE.to_pandas()
    assert hd.from_arrow_refs([TABLE, TABLE]).to_arrow() == pa.concat_tables([TABLE, TABLE])
    assert hd.from_pandas_refs([frame, frame]).count() == 6
    assert hd.from_numpy_refs([np.arange(3), np.arange(2)]).take_all() == [
        {"data": i} for i in [0, 1, 2, 0, 1]
    ]
    ds = hd.from_arrow(TABLE)
    assert pa.concat_tables(hd.from_arrow_refs(ds.to_arrow_refs()).to_arrow_refs()) == TABLE


def test_each_block_stays_one():
    ints = TABLE.select(["a"])
    ds = hd.from_blocks([ints, ints.to_pandas(), ints.slice(0, 0)])
    assert ds.num_blocks() == 3 and ds.count() == 6
    chunked = pa.concat_tables([TABLE, TABLE])
    assert hd.from_blocks([chunked]).num_blocks() == 1


def test_arrays_without_rows_are_refused():
    with pytest.raises(exceptions.InvalidArgument, match="at least one dimension"):
        hd.from_numpy(np.array(3))


def test_out_as_a_list():
    ds = hd.from_arrow([TABLE, TABLE])
    assert ds.to_arrow_refs() == [TABLE, TABLE]
    for frame in ds.to_pandas_refs():
        pd.testing.assert_frame_equal(frame, ds.limit(3).to_pandas())
    arrays = ds.to_numpy_refs()
    assert [a["a"].tolist() for a in arrays] == [[1, 2, 3]] * 2 and arrays[0]["s"].tolist() == [
        "x",
        None,
        "z",
    ]
    arrays[0]["a"][0] = 9  # the arrays are the caller's own
    assert ds.to_numpy_refs(column="a")[0].tolist() == [1, 2, 3]
    assert TABLE["a"].to_pylist() == [1, 2, 3]
    with pytest.raises(exceptions.HeadraceError, match="nope"):
        ds.to_numpy_refs(column="nope")
    none = hd.from_arrow(TABLE).limit(0)
    assert [t.schema for t in none.to_arrow_refs()] == [TABLE.schema]
    assert none.to_pandas_refs()[0].columns.tolist() == ["a", "s"]
    assert len(none.to_numpy_refs(column="a")) == 1


def test_size_of_what_is_not_there_yet():
    assert hd.range(10**12).size_bytes() == 8 * 10**12
    ds = hd.range(50_000).map_batches(lambda b: {"x": b["id"].astype("f4")}, compute="threads")
    assert ds.size_bytes() == 200_000 == ds.materialize().size_bytes()
    assert ds.limit(0).size_bytes() == 0
    with pytest.raises(NotImplementedError, match="materialize"):
        ds.num_blocks()
    assert ds.materialize().num_blocks() >= 1


def test_names():
    ds = hd.range(3)
    assert ds.name is None
    ds.set_name("train")
    assert ds.name == "train" and repr(ds).startswith("Dataset(train: range(3)), 3 rows")
    assert pickle.loads(pickle.dumps(ds)).name == "train" and ds.copy().name == "train"
    ds.set_name(None)
    assert ds.name is None and repr(ds).startswith("Dataset(range(3)), 3 rows")
    with pytest.raises(TypeError, match="expected a str, found int"):
        ds.set_name(3)


def test_arrays_and_frames_whose_types_widen():
    ds = hd.from_numpy([np.zeros((2, 3)), np.ones((1, 4))])
    assert [r["data"].shape for r in ds.iter_rows()] == [(3,), (3,), (4,)]
    frames = [pd.DataFrame({"x": [None]}, dtype=object), pd.DataFrame({"x": ["a"]}, dtype=object)]
    assert hd.from_pandas(frames).take_all() == [{"x": None}, {"x": "a"}]


@pytest.mark.parametrize("size", [0, -1, True, 2.5])
def test_wrong_sizes_of_a_batch(size):
    with pytest.raises(exceptions.InvalidArgument, match="take_batch: batch_size: .* at least 1"):
        hd.range(3).take_batch(size)


def test_ranges_of_tensors():
    assert hd.range_tensor(3, shape=[2, 2]).take_batch(3)["data"][2].tolist() == [[2, 2], [2, 2]]
    with pytest.raises(
        exceptions.TypeMismatchError, match="range_tensor: shape: expected a tuple, found int"
    ):
        hd.range_tensor(3, shape=2)


def test_names_are_where_ray_has_them():
    """The imports of programs for Ray, with the package's name changed."""
    import headrace.data.datasource.partitioning as partitioning
    from headrace.data import block, datasource

    only_there = {"WriteReturnType", "DummyOutputDatasink"}  # as in Ray
    for name in set(datasource.__all__) - only_there:
        assert getattr(datasource, name) is getattr(hd, name), name
    assert partitioning.Partitioning is hd.Partitioning and block.BlockMetadata is hd.BlockMetadata


def test_blocks_that_leave_a_dataset_depend_on_the_rows_alone():
    """Once they were the tables of the run: two datasets made of the same rows had other blocks, digests and
    function batches, by threads and time.
    """
    context = hd.DataContext.get_current()
    was, seen = context.num_threads, []

    def kept():
        return hd.range(60_000, override_num_blocks=3).filter(
            lambda row: row["id"] % 3 == 0, compute="threads"
        )

    try:
        for context.num_threads in (1, 2, 8):
            made = [
                hd.from_arrow(kept()),
                hd.from_arrow(kept().to_arrow()),
                hd.from_blocks([kept(), kept().to_arrow()]),
                hd.from_blocks(kept().to_arrow_refs()),
                hd.from_pandas(kept().to_pandas_refs()),
                hd.from_numpy(kept().to_numpy_refs(column="id")),
            ]
            seen.append([(ds.num_blocks(), ds._node.plan.digests()) for ds in made])
    finally:
        context.num_threads = was
    assert [n for n, _ in seen[0]] == [3, 3, 2, 3, 3, 3]
    assert seen[1] == seen[0] and seen[2] == seen[0]
    assert [t.num_rows for t in kept().repartition(4).to_arrow_refs()] == [5000] * 4
    assert len(kept().repartition(4).materialize().to_arrow_refs()) == 4


FRAME = """
import sys

sys.modules["pyarrow"] = None  # an import of it fails
import numpy as np
import pandas as pd

import headrace.data as hd

frame = pd.DataFrame(
    {
        "f": [1.5, np.nan],
        "f4": np.array([np.nan, 2], "f4"),
        "s": ["a", None],
        "i": [1, 2],
        "n": pd.array([1, None], "Int64"),
        "c": pd.Categorical(["x", None]),
        "t": pd.to_datetime(["2020-01-01 00:00:01", None]),
        "z": pd.to_datetime(["2020-01-01 00:00:01", None]).tz_localize("Europe/Berlin"),
        "b": [True, False],
        "o": [b"x", None],
    }
)
print(hd.from_pandas(frame).take_all())
print(hd.range(1).map_batches(lambda b: frame, compute="inline").take_all())
"""


def test_frames_without_pyarrow():
    """The story: a Series of pandas 3 has Arrow's protocol, which needs pyarrow: an ImportError of pandas.
    With pandas 2 NaN of numbers stayed NaN, and means of such columns were NaN.
    """
    program = FRAME.replace('sys.modules["pyarrow"] = None', "pass")
    found = []
    for text in (FRAME, program):
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        found.append(done.stdout)
    assert found[0] == found[1]
    first, second = found[0].splitlines()
    assert first == second
    assert "{'f': 1.5, 'f4': None, 's': 'a'" in first and "{'f': None, 'f4': 2.0, 's': None" in first
