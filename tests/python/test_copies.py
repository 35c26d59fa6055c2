"""How often a value is copied on its way to the consumer: a batch within one table is a view in NumPy and one
copy in torch; a batch across tables is one copy in both. Addresses tell.
"""

import numpy as np
import pyarrow as pa
import pytest

import headrace.data as hd
from headrace.data import consumers, torch_batches

N = 4096


def source():
    """Rows in two tables, and the ranges of their memory."""
    table = pa.table(
        {
            "int": np.arange(N),
            "float": np.arange(N, dtype=np.float32),
            "image": pa.FixedShapeTensorArray.from_numpy_ndarray(np.ones((N, 4, 4, 3), np.uint8)),
            "list": pa.FixedSizeListArray.from_arrays(pa.array(np.arange(3 * N)), 3),
        }
    )
    return [table.slice(0, N // 2).combine_chunks(), table.slice(N // 2).combine_chunks()]


def ranges(tables):
    out = []
    for table in tables:
        for column in table.columns:
            for chunk in column.chunks:
                storage = chunk.storage if isinstance(chunk, pa.ExtensionArray) else chunk
                out += [(b.address, b.address + b.size) for b in storage.buffers() if b is not None]
    return out


def is_in(array, spans):
    at = array.__array_interface__["data"][0]
    return any(begin <= at and at + array.nbytes <= end for begin, end in spans)


@pytest.fixture
def converted(monkeypatch):
    """The tables that become batches, with the addresses of their columns."""
    seen = []

    def watched(table):
        columns = {name: table.column(name) for name in table.names}
        seen.append({name: np.asarray(column) for name, column in columns.items() if column.dense})

    numpy, call = consumers._numpy, torch_batches.TorchBatches.__call__
    monkeypatch.setattr(consumers, "_numpy", lambda table: (watched(table), numpy(table))[1])
    monkeypatch.setattr(
        torch_batches.TorchBatches, "__call__", lambda self, t: (watched(t), call(self, t))[1]
    )
    return seen


def same_memory(batch, columns):
    for name, array in columns.items():
        found = np.asarray(batch[name])
        assert found.__array_interface__["data"][0] == array.__array_interface__["data"][0], name
        assert found.nbytes == array.nbytes


@pytest.mark.parametrize("batch_size", [512, 1000, N // 2])
def test_numpy(converted, batch_size):
    tables = source()
    spans = ranges(tables)
    at = 0
    for batch in hd.from_arrow(tables).iter_batches(batch_size=batch_size):
        same_memory(batch, converted[-1])  # the conversion copies nothing
        n = len(batch["int"])
        across = at < N // 2 < at + n
        assert {is_in(array, spans) for array in batch.values()} == {not across}  # no copy, or one
        at += n
    assert at == N


@pytest.mark.parametrize("batch_size", [512, 1000, N // 2])
def test_torch(converted, batch_size):
    pytest.importorskip("torch")
    tables = source()
    spans = ranges(tables)
    for batch in hd.from_arrow(tables).iter_torch_batches(batch_size=batch_size):
        same_memory(batch, converted[-1])  # one copy: the one that the engine makes
        assert not any(is_in(np.asarray(tensor), spans) for tensor in batch.values())


def test_files(converted, tmp_path):
    torch = pytest.importorskip("torch")
    hd.from_arrow(source()).write_parquet(str(tmp_path))
    for batch in hd.read_parquet(str(tmp_path)).iter_torch_batches(batch_size=300):
        same_memory(batch, converted[-1])
        assert batch["image"].shape[1:] == (4, 4, 3) and batch["image"].dtype == torch.uint8


def test_padding(converted):
    """The lists are copied into the padded array from the source; other columns are copied once, too."""
    pytest.importorskip("torch")
    table = pa.table(
        {"id": np.arange(8), "l": pa.array([[1] * n for n in range(8)], pa.large_list(pa.int32()))}
    )
    spans = ranges([table])
    (batch,) = list(hd.from_arrow(table).iter_torch_batches(batch_size=8, padding=True))
    assert is_in(np.asarray(converted[-1]["id"]), spans)  # the engine has copied nothing
    assert batch["l"].sum(1).tolist() == list(range(8)) and not is_in(batch["id"].numpy(), spans)
    batch["id"] += 1  # the consumer may write to it
    assert table["id"].to_pylist() == list(range(8))


# --------------------------------------------------------------------------------------------- pinned memory


class Pinned:
    """Stands for torch's pinned memory."""

    def __init__(self, monkeypatch, torch):
        self.made = []
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        self.torch = torch
        buffer = self.buffer
        monkeypatch.setattr(torch_batches.TorchBatches, "_buffer", lambda batches, *like: buffer(*like))

    def buffer(self, shape, dtype):
        self.made.append(self.torch.empty(shape, dtype=dtype))
        return self.made[-1]


@pytest.mark.parametrize("batch_size", [512, 1000])
def test_pinned(monkeypatch, converted, batch_size):
    torch = pytest.importorskip("torch")
    pinned = Pinned(monkeypatch, torch)
    tables = source()
    spans = ranges(tables)
    batches, held = 0, []
    for batch in hd.from_arrow(tables).iter_torch_batches(
        batch_size=batch_size, pin_memory=True, device="cpu"
    ):
        n = len(batch["int"])
        at = int(batch["int"][0])
        if not at < N // 2 < at + n:  # the pinned copy is the only one
            assert all(is_in(array, spans) for array in converted[-1].values())
        assert {t.data_ptr() for t in batch.values()} == {t.data_ptr() for t in pinned.made[-4:]}
        assert (batch["int"] == torch.arange(at, at + n)).all() and (batch["image"] == 1).all()
        held.append(batch)
        batches += 1
    assert len(pinned.made) == 4 * batches
    assert [int(b["int"][0]) for b in held] == list(range(0, N, batch_size))  # none was used twice


def test_pinned_other_columns(monkeypatch):
    torch = pytest.importorskip("torch")
    pinned = Pinned(monkeypatch, torch)
    rows = pa.table({"b": [True, False], "n": [1, None], "s": ["x", "y"], "l": [[1, 2], [3, 4]]})
    loop = hd.from_arrow(rows).iter_torch_batches(batch_size=2, pin_memory=True, device="cpu")
    (batch,) = list(loop)
    assert batch["b"].tolist() == [True, False] and batch["n"][0] == 1 and batch["n"].isnan()[1]
    assert batch["s"] == ["x", "y"] and batch["l"].tolist() == [[1, 2], [3, 4]]
    made = {t.data_ptr() for t in pinned.made}
    assert len(pinned.made) == 3 and all(batch[name].data_ptr() in made for name in "bnl")
    (batch,) = list(
        hd.from_arrow(rows.select(["n", "l"])).iter_torch_batches(
            batch_size=2, pin_memory=True, device="cpu", dtypes=torch.float64
        )
    )
    made = {t.data_ptr() for t in pinned.made}
    assert batch["l"].dtype == torch.float64 and all(t.data_ptr() in made for t in batch.values())
