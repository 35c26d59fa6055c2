"""Ragged columns padded with a mask, and the classes of collate functions."""

import pickle

import numpy as np
import pyarrow as pa
import pytest

import headrace.data as hd
from headrace import exceptions
from headrace.data import collate_fn as collate

LISTS = [[1, 2, 3], [], [4], None, [5, 6]]


def dataset():
    return hd.from_arrow(
        pa.table(
            {
                "id": range(5),
                "t": pa.array(LISTS, pa.list_(pa.int32())),
                "w": pa.array([[0.5] * i for i in range(5)], pa.large_list(pa.float32())),
                "s": list("abcde"),
            }
        )
    )


def by_hand(lists, value):
    longest = max((len(v or []) for v in lists), default=0)
    rows = [list(v or []) for v in lists]
    return (
        [v + [value] * (longest - len(v)) for v in rows],
        [[True] * len(v) + [False] * (longest - len(v)) for v in rows],
    )


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_numpy(size):
    ds = dataset().filter(expr="id != 2")  # the lists of a batch do not lie side by side
    kept = [v for i, v in enumerate(LISTS) if i != 2]
    for k, batch in enumerate(ds.iter_batches(batch_size=size, padding={"t": -1})):
        want, mask = by_hand(kept[k * size : (k + 1) * size], -1)
        assert batch["t"].tolist() == want and batch["t_mask"].tolist() == mask
        assert batch["t"].dtype == np.int32 and batch["t_mask"].dtype == bool
        assert batch["t"].shape == batch["t_mask"].shape
        assert list(batch) == ["id", "t", "w", "s", "t_mask"]


def test_all_columns():
    batch = next(iter(dataset().iter_batches(padding=True)))
    assert batch["t"].tolist() == by_hand(LISTS, 0)[0]
    assert batch["w"].shape == (5, 4) and batch["w_mask"].sum(axis=1).tolist() == [0, 1, 2, 3, 4]
    assert list(batch) == ["id", "t", "w", "s", "t_mask", "w_mask"]


def test_lists_of_equal_length_have_a_mask_too():
    ds = hd.from_arrow(pa.table({"t": [[1, 2], [3, 4]], "v": [[[1, 2]], [[3, 4], [5, 6]]]}))
    batch = next(iter(ds.iter_batches(padding={"t": 0, "v": 9})))
    assert batch["t"].tolist() == [[1, 2], [3, 4]] and batch["t_mask"].all()
    assert batch["v"].tolist() == [[[1, 2], [9, 9]], [[3, 4], [5, 6]]]  # lists of pairs
    assert batch["v_mask"].tolist() == [[True, False], [True, True]]


def test_torch():
    torch = pytest.importorskip("torch")
    batches = dataset().iter_torch_batches(batch_size=3, padding={"t": 7, "w": 0}, dtypes={"t": torch.int64})
    first, second = batches
    assert first["t"].dtype == torch.int64 and first["w"].dtype == torch.float32
    assert first["t_mask"].dtype == torch.bool
    assert first["t"].tolist() == by_hand(LISTS[:3], 7)[0]
    assert second["t"].tolist() == by_hand(LISTS[3:], 7)[0]
    assert second["w_mask"].tolist() == by_hand([[0] * 3, [0] * 4], 7)[1]
    assert list(first) == ["id", "t", "w", "s", "t_mask", "w_mask"] and first["s"] == ["a", "b", "c"]
    again = pickle.loads(pickle.dumps(batches))
    assert next(iter(again))["t"].tolist() == first["t"].tolist()


@pytest.mark.parametrize(
    "padding, error, text",
    [
        ("t", TypeError, "padding: expected None, True, or a dict"),
        ({"u": 0}, ValueError, "no column 'u'; the columns are 'id', 't', 'w', 's'"),
        ({"id": 0}, TypeError, "column 'id' is int64, expected a column of lists"),
        ({"t": 2**40}, ValueError, "1099511627776 is no value of column 't'"),
        ({"t": "x"}, ValueError, "'x' is no value of column 't'"),
    ],
)
def test_refusals(padding, error, text):
    with pytest.raises(error, match=text):
        next(iter(dataset().iter_batches(padding=padding)))


def test_refusals_of_formats():
    with pytest.raises(exceptions.InvalidArgument, match="found batch_format='pandas'"):
        dataset().iter_batches(batch_format="pandas", padding=True)
    ds = hd.from_arrow(pa.table({"t": [[1]], "t_mask": [1]}))
    with pytest.raises(exceptions.InvalidArgument, match="a column 't_mask' already"):
        next(iter(ds.iter_batches(padding=True)))
    ds = hd.from_arrow(pa.table({"t": [[1], [2, None]]}))
    with pytest.raises(exceptions.TypeMismatchError, match="nulls in its lists"):
        next(iter(ds.iter_batches(padding=True)))
    pytest.importorskip("torch")
    with pytest.raises(exceptions.InvalidArgument, match="padding or collate_fn, found both"):
        dataset().iter_torch_batches(padding=True, collate_fn=len)


# ------------------------------------------------------------------------------------------ collate functions


class Arrow(collate.ArrowBatchCollateFn):
    def __call__(self, batch):
        import torch

        assert isinstance(batch, pa.Table)
        return {"id": torch.tensor(batch["id"].to_pylist())}


class Numpy(collate.NumpyBatchCollateFn):
    def __call__(self, batch):
        import torch

        batch["id"] += 0  # it may be written to
        return {"id": torch.from_numpy(batch["id"])}


class Pandas(collate.PandasBatchCollateFn):
    def __call__(self, batch):
        import torch

        return {"id": torch.from_numpy(batch["id"].to_numpy(copy=True))}


class Bare(collate.CollateFn):
    def __call__(self, batch):
        import torch

        return {"id": torch.from_numpy(batch["id"])}


@pytest.mark.parametrize("cls", [Arrow, Numpy, Pandas, Bare])
def test_the_class_says_what_it_gets(cls):
    pytest.importorskip("torch")
    pytest.importorskip("pandas")
    batches = hd.range(10).iter_torch_batches(batch_size=4, collate_fn=cls())
    assert [b["id"].tolist() for b in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_the_default():
    torch = pytest.importorskip("torch")
    default = collate.DefaultCollateFn(dtypes={"id": torch.float32}, combine_chunks=True, num_workers=2)
    found = next(iter(hd.range(5).iter_torch_batches(collate_fn=default)))
    assert found["id"].dtype == torch.float32 and found["id"].tolist() == [0, 1, 2, 3, 4]

    class Doubled(collate.DefaultCollateFn):
        def __call__(self, batch):
            return {name: 2 * tensor for name, tensor in super().__call__(batch).items()}

    found = next(iter(hd.range(5).iter_torch_batches(collate_fn=Doubled())))
    assert found["id"].tolist() == [0, 2, 4, 6, 8]
    table = pa.table({"id": [1, 2], "v": [[0.5, 1], [2, 3]]})
    made = collate.DefaultCollateFn()(table)
    made["id"] += 1
    made["v"] += 1
    assert made["v"].tolist() == [[1.5, 2], [3, 4]]
    assert table.to_pydict() == {"id": [1, 2], "v": [[0.5, 1], [2, 3]]}  # the tensors' memory is their own
    with pytest.raises(TypeError, match=r"expected a pyarrow\.Table, found dict"):
        default({"id": [1]})
    with pytest.raises(TypeError, match="abstract"):
        collate.CollateFn()
