"""from_huggingface gives the rows that iterating over the dataset gives, in their order."""

import pytest

import headrace.data as hd
from headrace import exceptions

datasets = pytest.importorskip("datasets")


@pytest.fixture(scope="module")
def table():
    return datasets.Dataset.from_dict({"a": list(range(40)), "s": [str(i) for i in range(40)]})


def packed(batch):
    return {"n": [sum(batch["a"])]}


def numbered(row, i):
    return {"i": i}


MAPS = {
    "plain": lambda d: d,
    "select": lambda d: d.select([5, 3, 30]),
    "shuffle": lambda d: d.shuffle(seed=1),
    "filter": lambda d: d.filter(lambda r: r["a"] % 5 == 0),
    "shard": lambda d: d.shard(4, 1),
    "rename": lambda d: d.rename_column("a", "b"),
    "concat": lambda d: datasets.concatenate_datasets([d, d.select(range(3))]),
    "none": lambda d: d.select([]),
}
STREAMS = {
    "plain": lambda d: d,
    "map": lambda d: d.map(lambda r: {"z": r["a"] * 2}),
    "filter": lambda d: d.filter(lambda r: r["a"] > 25),
    "columns": lambda d: d.select_columns(["s"]).map(lambda r: {"t": r["s"] + "!"}),
    "take": lambda d: d.take(14),
    "skip": lambda d: d.skip(33),
    "skip and take": lambda d: d.skip(10).take(5),
    "shuffle": lambda d: d.shuffle(seed=1, buffer_size=7),
    "indices": lambda d: d.map(numbered, with_indices=True),
    "batches": lambda d: d.map(packed, batched=True, batch_size=7, remove_columns=["a", "s"]),
    "concat": lambda d: datasets.concatenate_datasets([d, d.take(3)]),
    "interleave": lambda d: datasets.interleave_datasets([d, d.skip(35)]),
    "repeat": lambda d: d.repeat(2),
}


@pytest.mark.parametrize("name", MAPS)
def test_maps(table, name):
    made = MAPS[name](table)
    assert hd.from_huggingface(made).take_all() == list(made)


@pytest.mark.parametrize("name", STREAMS)
def test_streams(table, name):
    made = STREAMS[name](table.to_iterable_dataset(num_shards=3))
    assert hd.from_huggingface(made).take_all() == list(made)


def test_plain_streams_are_read_by_shards(table):
    stream = table.to_iterable_dataset(num_shards=3)
    for shards, made in ((3, stream), (3, STREAMS["map"](stream)), (1, stream.take(3))):
        assert f"range({shards})" in repr(hd.from_huggingface(made))


def test_blocks_and_what_is_no_dataset(table):
    assert hd.from_huggingface(table, override_num_blocks=4).num_blocks() == 4
    with pytest.raises(ValueError, match="override_num_blocks: .*found 0"):
        hd.from_huggingface(table, override_num_blocks=0)
    both = datasets.DatasetDict({"train": table})
    with pytest.raises(
        exceptions.TypeMismatchError,
        match=r"expected a Dataset, such as dataset\['train'\], found a DatasetDict",
    ):
        hd.from_huggingface(both)
    assert hd.from_huggingface(both["train"]).count() == 40
    with pytest.raises(exceptions.TypeMismatchError, match="expected a datasets.Dataset, found list"):
        hd.from_huggingface([1])


def test_torch_datasets_without_items():
    torch = pytest.importorskip("torch")
    assert hd.from_torch(torch.utils.data.Subset([1, 2], [])).count() == 0
    assert hd.from_torch([]).take_all() == []
