"""Batches as torch tensors: memory, types, devices, types without a tensor."""

import datetime
import pickle

import numpy as np
import pyarrow as pa
import pytest

import headrace.data as hd
from headrace import exceptions
from headrace.data.expressions import col

torch = pytest.importorskip("torch")

DTYPES = {
    pa.int8(): torch.int8,
    pa.uint8(): torch.uint8,
    pa.int16(): torch.int16,
    pa.uint16(): torch.uint16,
    pa.int32(): torch.int32,
    pa.uint32(): torch.uint32,
    pa.int64(): torch.int64,
    pa.uint64(): torch.uint64,
    pa.float16(): torch.float16,
    pa.float32(): torch.float32,
    pa.float64(): torch.float64,
    pa.bool_(): torch.bool,
}


def first(ds, **arguments):
    return next(iter(ds.iter_torch_batches(batch_size=4, **arguments)))


@pytest.mark.parametrize("arrow_type", DTYPES, ids=str)
def test_types(arrow_type):
    values = pa.array(np.array([0, 1, 1, 0, 1])).cast(arrow_type)
    ds = hd.from_arrow(pa.table({"c": values}))
    batches = list(ds.iter_torch_batches(batch_size=4))
    assert batches[0]["c"].dtype == DTYPES[arrow_type] and batches[0]["c"].shape == (4,)
    assert [v for b in batches for v in b["c"].tolist()] == [0, 1, 1, 0, 1]


def test_shapes():
    images = np.arange(8 * 3 * 2, dtype=np.float32).reshape(8, 3, 2)
    table = {
        "image": [i.tolist() for i in images],
        "list": [[i, i + 1] for i in range(8)],
        "y": list(range(8)),
    }
    batch = first(hd.from_arrow(pa.table(table)))
    assert batch["image"].shape == (4, 3, 2) and batch["list"].shape == (4, 2) and batch["y"].shape == (4,)
    assert first(hd.from_numpy(images))["data"].tolist() == images[:4].tolist()


def test_tensors_are_the_consumers_own():
    ds = hd.from_numpy(np.zeros((8, 2), np.float32)).materialize()
    for _ in range(2):
        for batch in ds.iter_torch_batches(batch_size=4):
            assert batch["data"].sum() == 0
            batch["data"] += 1
    kept = [b["id"] for b in hd.range(1000).iter_torch_batches(batch_size=10)]
    for t in kept:
        t *= 2
    assert torch.cat(kept).tolist() == list(range(0, 2000, 2))


def copied(ds):
    """Bytes copied to give batches their own memory."""
    return [op["peak_bytes"] for op in ds.stats("dict")["operators"] if op["name"] == "gather"][0]


def test_a_table_that_is_a_batch_is_not_copied(tmp_path):
    """The reader makes 64 images at a time; a batch of exactly these is not copied."""
    pixels = np.random.default_rng(1).integers(0, 255, (128, 6, 6, 3), np.uint8)
    hd.from_numpy(pixels).write_images(str(tmp_path), column="data")
    scaled = col("bytes").image.decode("RGB").image.resize(6, 6).image.normalize([0.0], [1.0])
    ds = hd.read_binary_files(str(tmp_path)).with_column("x", scaled).select_columns(["x"])

    def rows(source, size):
        for batch in source.iter_torch_batches(batch_size=size):
            yield from batch["x"].numpy().copy()
            batch["x"] *= 0

    expected = list(rows(ds, 50))
    assert copied(ds) > 0
    np.testing.assert_array_equal(list(rows(ds, 64)), expected)
    assert copied(ds) == 0
    assert sorted(round(x.sum() * 255) for x in expected) == sorted(pixels.sum((1, 2, 3)))
    kept = ds.materialize()
    for _ in range(2):  # what is stored stays as it is
        np.testing.assert_array_equal(list(rows(kept, 64)), expected)
    assert copied(kept) > 0


def test_no_warnings(recwarn):
    list(hd.range(100).iter_torch_batches(batch_size=10))
    list(hd.from_items([{"b": True, "x": [1.0]}] * 10).iter_torch_batches(batch_size=5))
    assert not [w for w in recwarn if "writable" in str(w.message)]


def test_dtypes():
    ds = hd.from_items([{"x": [i], "y": [2 * i], "s": "t"} for i in range(4)])
    batch = first(ds, dtypes=torch.float32)
    assert batch["x"].dtype == batch["y"].dtype == torch.float32 and batch["s"] == ["t"] * 4
    batch = first(ds, dtypes={"x": torch.float64})
    assert batch["x"].dtype == torch.float64 and batch["y"].dtype == torch.int64
    with pytest.raises(exceptions.InvalidArgument, match="'z'"):
        first(ds, dtypes={"z": torch.float64})
    with pytest.raises(TypeError, match="'s': type string cannot be"):
        first(ds, dtypes={"s": torch.float64})
    with pytest.raises(exceptions.InvalidArgument, match="collate_fn"):
        ds.iter_torch_batches(dtypes=torch.float32, collate_fn=lambda b: b)


def test_text_comes_as_lists():
    batch = first(hd.from_items([{"s": "a", "b": b"x", "i": 1}, {"s": None, "b": b"y", "i": 2}]))
    assert batch["s"] == ["a", None] and batch["b"] == [b"x", b"y"] and batch["i"].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([[1, 2], [3]], "row 0 has 2 values, row 1 has 1"),
        ([[[1]], [[2, 3]]], "row 0 has 1 values, row 1 has 2"),
        ([[1], None], "1 of 2 rows are null"),
        ([["a"], ["b"]], "string"),
        ([{"a": 1}, {"a": 2}], "struct"),
        ([datetime.datetime(2024, 1, 1)] * 2, "timestamp"),
        ([datetime.date(2024, 1, 1)] * 2, "date32"),
        ([True, None], "1 nulls"),
    ],
)
def test_what_has_no_tensor(values, text):
    with pytest.raises(exceptions.TypeMismatchError, match=text) as e:
        first(hd.from_items([{"bad": v} for v in values]))
    assert "'bad'" in str(e.value)


def test_nulls_in_numbers_are_nan():
    """The story: integers with nulls were an error, where NumPy batches and Ray have NaN."""
    table = pa.table(
        {
            "f": pa.array([1.5, None], pa.float32()),
            "i": pa.array([7, None], pa.int16()),
            "u": pa.array([None, 2**40], pa.uint64()),
            "l": pa.array([[1, None], [3, 4]], pa.list_(pa.int32())),
            "n": pa.nulls(2),
            "whole": [1, 2],
        }
    )
    batch = first(hd.from_arrow(table))
    numpy = next(iter(hd.from_arrow(table).iter_batches()))
    kinds = {"f": torch.float32, "n": torch.float32, "whole": torch.int64}
    for name, tensor in batch.items():
        assert tensor.dtype == kinds.get(name, torch.float64)
        np.testing.assert_array_equal(tensor.numpy(), np.stack(list(numpy[name])))
    assert batch["l"].shape == (2, 2) and batch["u"].nan_to_num().tolist() == [0, 2**40]
    batch["i"][0] = 1  # its own memory
    assert first(hd.from_arrow(table), dtypes={"i": torch.float32})["i"].dtype == torch.float32


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_nan_does_not_become_an_integer(value):
    ds = hd.from_arrow(pa.table({"x": [1.0, value]}))
    text = r"'x' \(double\) has NaN or infinity in this batch, and a tensor of torch.int32"
    with pytest.raises(exceptions.TypeMismatchError, match=text):
        next(iter(ds.iter_torch_batches(dtypes=torch.int32)))


@pytest.mark.parametrize("which", ["label_column_dtype", "feature_column_dtypes"])
@pytest.mark.parametrize("dtype", [torch.int64, torch.bool])
def test_nulls_do_not_become_labels(which, dtype):
    """The story: they were the least integer."""
    ds = hd.from_items([{"x": None, "y": None}, {"x": 1, "y": 2}])
    name = "y" if which.startswith("label") else "x"
    text = f"to_torch: column '{name}': {dtype} has no NaN and no infinity; a null of a number is NaN"
    with pytest.raises(exceptions.TypeMismatchError, match=text):
        next(iter(ds.to_torch(label_column="y", batch_size=2, **{which: dtype})))


@pytest.mark.parametrize("name", ["f", "i", "l"])
def test_nulls_do_not_become_integers(name):
    """NaN as an integer is the least one; the story: dtypes=torch.int64 gave these labels in silence."""
    values = {"f": [1.5, None], "i": [7, None], "l": [[1, None], [3, 4]]}[name]
    ds = hd.from_items([{name: v} for v in values])
    with pytest.raises(
        exceptions.TypeMismatchError, match=f"'{name}' .* 1 nulls in this batch, and a tensor of torch.int64"
    ):
        first(ds, dtypes=torch.int64)
    assert first(hd.from_items([{"f": 1.5}]), dtypes=torch.int64)["f"].tolist() == [1]


def test_collate():
    def pad(batch):
        width = max(len(t) for t in batch["t"])
        out = np.zeros((len(batch["t"]), width), np.int64)
        for row, t in enumerate(batch["t"]):
            out[row, : len(t)] = t
        batch["y"] += 1  # its own memory
        return {"t": torch.from_numpy(out), "y": torch.from_numpy(batch["y"]), "n": [1, "a"]}

    batch = first(hd.from_items([{"t": list(range(i)), "y": i} for i in range(4)]), collate_fn=pad)
    assert batch["t"].tolist() == [[0, 0, 0], [0, 0, 0], [0, 1, 0], [0, 1, 2]]
    assert batch["y"].tolist() == [1, 2, 3, 4] and batch["n"] == [1, "a"]


def test_devices():
    batch = first(hd.range(4), device="cpu")
    assert batch["id"].device.type == "cpu"
    meta = first(hd.range(4), device="meta")
    assert meta["id"].device.type == "meta" and meta["id"].shape == (4,)
    moved = first(
        hd.range(4), device=torch.device("meta"), collate_fn=lambda b: [torch.as_tensor(b["id"]), "x"]
    )
    assert moved[0].device.type == "meta" and moved[1] == "x"
    assert first(hd.range(4), pin_memory=True)["id"].tolist() == [0, 1, 2, 3]


def test_split_gives_tensors():
    shards = hd.range(8).streaming_split(1)
    batches = list(shards[0].iter_torch_batches(batch_size=4))
    assert [b["id"].tolist() for b in batches] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    batches[0]["id"] += 1


def test_bfloat16_from_its_bits():
    values = torch.randn(50, 3).to(torch.bfloat16)
    bits = values.view(torch.int16).numpy().view(np.uint16)
    ds = hd.from_items([{"x": row, "y": float(i)} for i, row in enumerate(bits)])
    (batch,) = ds.iter_torch_batches(batch_size=None, dtypes={"x": torch.bfloat16, "y": torch.bfloat16})
    assert batch["x"].dtype == batch["y"].dtype == torch.bfloat16
    assert torch.equal(batch["x"], values)
    assert batch["y"].tolist() == list(range(50))
    (batch,) = ds.select_columns(["x"]).iter_torch_batches(batch_size=None, dtypes=torch.bfloat16)
    assert torch.equal(batch["x"], values)


@pytest.mark.parametrize("accelerator", ["none", "one"])
def test_random_numbers_are_those_of_manual_seed(monkeypatch, accelerator):
    """Where torch has no accelerator, only the processor's generator is seeded; devices are, where it has."""
    from headrace.udf import call

    seeded = []
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeded.append)
    monkeypatch.setattr(
        torch.accelerator, "current_accelerator", {"none": lambda: None, "one": lambda: "x"}[accelerator]
    )
    with call.kept_generators():
        for bits in (7, 2**64 - 1):
            call.seed(0, bits)
            found = torch.rand(3)
            torch.default_generator.manual_seed(bits & 0x7FFFFFFFFFFFFFFF)
            assert torch.equal(found, torch.rand(3))
    assert seeded == ([] if accelerator == "none" else [7, 2**63 - 1])


def test_a_pass_of_to_torch_cannot_be_pickled_and_its_dataset_can():
    dataset = hd.range(30).with_column("x", col("id") * 2).to_torch(label_column="id", batch_size=10)
    passing = iter(dataset)
    next(passing)
    with pytest.raises(exceptions.UnsupportedError, match="pickle the dataset that to_torch"):
        pickle.dumps(passing)
    again = pickle.loads(pickle.dumps(dataset))
    again.load_state_dict(dataset.state_dict())
    assert [(x[0].item(), label[0].item()) for x, label in again] == [(20, 10), (40, 20)]


def test_a_label_alone_is_an_error():
    with pytest.raises(exceptions.InvalidArgument, match="found none beside the label 'id'"):
        next(iter(hd.range(30).to_torch(label_column="id")))
