"""Names that a Dataset does not have: the error says which one to use."""

import copy
import pickle
import re

import numpy as np
import pytest

import headrace.data as hd
import headrace.train
from headrace.data import hints
from headrace.data.expressions import col


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("drop", "'Dataset' object has no attribute 'drop': use drop_columns()"),
        ("map_batch", "'Dataset' object has no attribute 'map_batch': did you mean 'map_batches'?"),
        (
            "id",
            "'Dataset' object has no attribute 'id': col('id') is the column in an expression, "
            "select_columns(['id']) a Dataset of it",
        ),
        ("xyzzy", "'Dataset' object has no attribute 'xyzzy'"),
    ],
)
def test_attributes(name, text):
    ds = hd.range(3)
    with pytest.raises(AttributeError, match=f"^{re.escape(text)}$"):
        getattr(ds, name)
    assert not hasattr(ds, name) and getattr(ds, name, 5) == 5
    assert pickle.loads(pickle.dumps(ds)).count() == copy.copy(ds).count() == 3


def test_hints_name_what_exists():
    ds = hd.range(3)
    for name, hint in hints.ELSEWHERE.items():
        assert not hasattr(hd.Dataset, name), name
        used = re.findall(r"(?<![.\w])(\w+)\(", hint)
        assert used or hint.startswith("preprocessors.")
        for method in used:
            assert hasattr(ds, method) or method in ("col", "aggregate"), (name, method)
    assert ds.filter(col("id").is_not_null()).count() == 3


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda ds, _: hd.read_csv("x", sep=";"), r"read_csv\(\) .* 'sep': use delimiter=$"),
        (lambda ds, _: hd.read_csv("x", usecols=["a"]), "use columns=$"),
        (lambda ds, _: hd.read_csv("x", dtype={}), "use dtypes=$"),
        (lambda ds, _: hd.read_parquet("x", dtype={}), "use schema=$"),
        (lambda ds, _: hd.read_csv("x", nrows=3), r"use limit\(n\) after the read$"),
        (lambda ds, _: hd.read_csv("x", delimeter=";"), "did you mean 'delimiter'"),
        (lambda ds, _: hd.read_text("x", include_path=True), "did you mean 'include_paths'"),
        (lambda ds, _: ds.map_batches(repr, num_proc=2), "use concurrency=$"),
        (lambda ds, _: ds.map_batches(repr, batch_sise=2), "did you mean 'batch_size'"),
        (lambda ds, _: ds.map(repr, batched=True), r"use map_batches\(\)$"),
        (lambda ds, _: ds.map(repr, batch_format="pandas"), r"map\(\) .* use map_batches\(\)$"),
        (lambda ds, _: ds.filter(bool, batch_size=3), r"filter\(\) .* use map_batches\(\)$"),
        (lambda ds, _: ds.flat_map(list, zero_copy_batch=True), r"flat_map\(\) .* use map_batches"),
        (lambda ds, _: ds.random_shuffle(random_state=1), "use seed=$"),
        (lambda ds, path: ds.write_parquet(path, partition_by="id"), "use partition_cols=$"),
        (lambda ds, path: ds.write_parquet(path, overwrite=True), "use mode=$"),
        (lambda ds, path: ds.write_csv(path, index=False), "nothing: rows have no index$"),
        (lambda ds, path: ds.write_csv(path, max_row_per_file=3), "did you mean 'max_rows_per_file'"),
        (lambda ds, path: ds.write_csv(path, partition_cols="id"), "argument 'partition_cols'$"),
        (lambda ds, _: ds.map(repr, xyzzy=1), r"map\(\) got an unexpected keyword argument 'xyzzy'$"),
    ],
)
def test_arguments_of_others(call, text, tmp_path):
    with pytest.raises(TypeError, match=text):
        call(hd.range(3), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_groups():
    groups = hd.range(3).groupby("id")
    for name, hint in hints.OF_GROUPS.items():
        with pytest.raises(AttributeError, match=re.escape(hint)):
            getattr(groups, name)
        used = re.match(r"(?:aggregate\()?(\w+)\(", hint)[1]
        assert hasattr(groups, used) or hasattr(hd.aggregate, used), name
    with pytest.raises(AttributeError, match="did you mean 'map_groups'"):
        _ = groups.map_group
    assert copy.copy(groups).count().count() == 3


def test_brackets_and_modules():
    with pytest.raises(TypeError, match=r"select_columns\(\['id'\]\) is a Dataset of these columns"):
        hd.range(3)["id"]
    with pytest.raises(AttributeError, match="write from headrace.train.torch import TorchTrainer"):
        _ = headrace.train.TorchTrainer


def test_types_of_tensors():
    torch = pytest.importorskip("torch")
    for wrong in ("float32", np.float32, np.dtype("float32"), {"id": "float32"}):
        with pytest.raises(TypeError, match="expected a torch.dtype, found .* write torch.float32"):
            hd.range(3).iter_torch_batches(dtypes=wrong)
    assert next(iter(hd.range(3).iter_torch_batches(dtypes=torch.float32)))["id"].dtype is torch.float32
