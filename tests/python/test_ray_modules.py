"""Ray's modules of names that live elsewhere here, and what only programs written for Ray use."""

import importlib
import operator

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import headrace
import headrace.data as hd
from headrace import exceptions
from headrace.data.block import BlockAccessor, BlockMetadata
from headrace.data.collate_fn import is_tensor_batch_type
from headrace.data.util.torch_inference import TorchInference

BLOCKS = {
    "dict": {"a": [1, 2, 3], "b": ["x", "y", "z"]},
    "rows": [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}, {"a": 3, "b": "z"}],
    "pandas": pd.DataFrame({"a": [1, 2, 3], "b": ["x", "y", "z"]}),
    "arrow": pa.table({"a": [1, 2, 3], "b": ["x", "y", "z"]}),
}


@pytest.mark.parametrize("kind", BLOCKS)
def test_a_block_of_any_kind(kind):
    block = BlockAccessor.for_block(BLOCKS[kind])
    assert (block.num_rows(), block.size_bytes() > 24) == (3, True)
    assert block.schema().names == ["a", "b"]
    assert list(block.iter_rows(public_row_format=False)) == BLOCKS["rows"]
    assert block.to_arrow().to_pydict() == BLOCKS["dict"] == block.to_pandas().to_dict("list")
    assert block.to_numpy("a").tolist() == [1, 2, 3] and list(block.to_numpy(["b"])) == ["b"]
    assert block.to_batch_format("numpy")["a"].tolist() == [1, 2, 3]
    assert block.slice(1, 3).to_pydict()["a"] == [2, 3] == block.slice(1, 3, copy=True).to_pydict()["a"]
    assert block.take([2, 0]).to_pydict()["b"] == ["z", "x"]
    assert block.select(["b"]).column_names == ["b"] == block.drop(["a"]).column_names
    assert block.rename_columns({"a": "c"}).column_names == ["c", "b"]
    assert block.upsert_column("a", [7, 8, 9]).to_pydict()["a"] == [7, 8, 9]
    assert block.upsert_column("d", [7, 8, 9]).column_names == ["a", "b", "d"]
    found = block.get_metadata(["f"])
    assert (found.num_rows, found.input_files) == (3, ["f"])


def test_aggregates_of_a_block():
    block = BlockAccessor.for_block(pa.table({"a": [1, None, 3]}))
    assert (block.count("a"), block.count("a", ignore_nulls=True)) == (3, 2)
    assert (block.min("a", True), block.max("a", True), block.sum("a", True)) == (1, 3, 4)
    assert (block.mean("a", True), block.sum("a", False)) == (2, None)
    with pytest.raises(AttributeError, match="'sort_and_partition'.*use the methods of Dataset"):
        block.sort_and_partition  # noqa: B018
    with pytest.raises(exceptions.TypeMismatchError, match="expected a dict of column name"):
        BlockAccessor.for_block(7)


def test_places_of_block_metadata():
    """In the order of Ray 2.60."""
    found = BlockMetadata(1, 2, "stats", None, ["f"])
    assert (found.num_rows, found.size_bytes, found.exec_stats, found.input_files) == (1, 2, "stats", ["f"])


def test_modules_give_the_same_objects():
    for module, name, home in [
        ("data.read_api", "read_csv", "data"),
        ("data.grouped_data", "GroupedData", "data.grouping"),
        ("data.stats", "DatasetSummary", "data"),
        ("data.datasource.datasink", "Datasink", "data"),
        ("data.datasource.filename_provider", "FilenameProvider", "data"),
        ("data.exceptions", "SystemException", "exceptions:InternalError"),
        ("data.expressions", "_StringNamespace", "data.string_expressions:StringFunctions"),
        ("train.torch.config", "TorchConfig", "train.torch"),
        ("train.torch.train_loop_utils", "prepare_model", "train.torch"),
    ]:
        home, _, other = home.partition(":")
        same = getattr(importlib.import_module(f"headrace.{home}"), other or name)
        assert getattr(importlib.import_module(f"headrace.{module}"), name) is same


def test_absent_names():
    with pytest.raises(exceptions.UnsupportedError, match=r"headrace.data.read_kafka: use the service's own"):
        from headrace.data import read_kafka  # noqa: F401
    with pytest.raises(exceptions.UnsupportedError, match=r"headrace.data.read_kafka"):
        from headrace.data.read_api import read_kafka  # noqa: F401, F811
    with pytest.raises(AttributeError, match=r"'write_mongo': write by the service's own client, pymongo"):
        hd.range(3).write_mongo  # noqa: B018
    with pytest.raises(exceptions.UnsupportedError, match=r"headrace.kill: tasks, actors"):
        headrace.kill  # noqa: B018
    with pytest.raises(ImportError, match="DataParallelTrainer with iter_tf_batches"):
        importlib.import_module("headrace.train.tensorflow")
    for name in ("nothing", "read_nothing"):
        assert not hasattr(hd, name) and not hasattr(headrace, name)
    assert not hasattr(hd.range(3), "write_mongo")


def test_gpus(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,GPU-5")
    assert headrace.get_gpu_ids() == [3, "GPU-5"]


def test_resources_combine():
    two = [hd.ExecutionResources(cpu=1, memory=5), hd.ExecutionResources(cpu=3, gpu=1)]
    assert hd.ExecutionResources.combine(iter(two), max) == hd.ExecutionResources(3, 1, 0, 5)
    assert hd.ExecutionResources.combine([], operator.add) is None
    assert hd.ExecutionResources.combine_sum(two) == hd.ExecutionResources(4, 1, 0, 5)
    assert hd.ExecutionResources.combine_sum([]) == hd.ExecutionResources.zero()


def test_older_names_of_modes(tmp_path):
    ds = hd.range(2)
    ds.write_parquet(str(tmp_path), mode=hd.SinkMode.CREATE)
    with pytest.raises(exceptions.StorageError, match="already"):
        ds.write_parquet(str(tmp_path), mode=hd.SinkMode.CREATE)
    ds.write_parquet(str(tmp_path), mode=hd.SinkMode.OVERWRITE)
    assert hd.read_parquet(str(tmp_path)).count() == 2


def test_tensor_batches():
    torch = pytest.importorskip("torch")
    t = torch.zeros(2)
    for batch in (t, [t], (t, t), [[t], (t, t)], {"a": t}, {"a": [t, t]}):
        assert is_tensor_batch_type(batch)
    for batch in (np.zeros(2), [1], {"a": t, "b": [t]}, {"a": 1}, [[1]], "a"):
        assert not is_tensor_batch_type(batch)


class OnCpu(TorchInference):
    def initialize(self, factor):
        self.factor = factor

    def get_device(self):
        import torch

        return torch.device("cpu")


class Double(OnCpu):
    def process_on_device(self, input_batch, collated_tensors, collated_other):
        assert collated_other is None and input_batch["id"].flags.writeable is False
        return {"twice": collated_tensors["id"] * self.factor}


class Chunks(OnCpu):
    """A list of a column becomes one tensor; other values go from step to step."""

    def collate(self, input_batch):
        import torch

        return {"id": [torch.tensor(input_batch["id"][:1]), torch.tensor(input_batch["id"][1:])]}, "seen"

    def process_on_device(self, input_batch, collated_tensors, collated_other):
        return collated_tensors["id"] + 1, [collated_other]

    def finalize(self, input_batch, output_tensors, output_other):
        return {"next": output_tensors.numpy(), "other": output_other * len(output_tensors)}


def test_inference():
    pytest.importorskip("torch")
    made = hd.range(4).map_batches(Double, batch_size=2, fn_constructor_args=[3], compute="inline")
    assert made.take_all() == [{"twice": 3 * i} for i in range(4)]
    made = hd.range(2).map_batches(Chunks, fn_constructor_args=[1], compute="inline")
    assert made.take_all() == [{"next": 1, "other": "seen"}, {"next": 2, "other": "seen"}]


def test_inference_errors():
    torch = pytest.importorskip("torch")
    batch = {"id": np.arange(2)}
    with pytest.raises(NotImplementedError, match="OnCpu.process_on_device"):
        OnCpu(1)(batch)
    with pytest.raises(
        exceptions.TypeMismatchError, match="expected a dict of NumPy arrays, found DataFrame"
    ):
        Double(1)(pd.DataFrame(batch))
    with pytest.raises(exceptions.TypeMismatchError, match="expected tensors, found int"):
        type("Wrong", (OnCpu,), {"process_on_device": lambda *a: {"x": 1}})(1)(batch)
    with pytest.raises(exceptions.TypeMismatchError, match=r"expected no second value .* found str"):
        type("Two", (OnCpu,), {"process_on_device": lambda *a: ({}, "x")})(1)(batch)
    if not torch.cuda.is_available():
        with pytest.raises(exceptions.UnsupportedError, match="there is no CUDA device; override it"):
            TorchInference()(batch)
