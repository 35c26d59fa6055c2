"""Names that a Dataset does not have: the error says which one to use."""

import copy
import datetime
import pickle
import re
import traceback

import numpy as np
import pytest

import headrace.data as hd
import headrace.train
from headrace.data import hints
from headrace.data.expressions import col
from headrace.data.preprocessors import Chain, StandardScaler
from headrace.train.data_parallel_trainer import DataParallelTrainer

DAY = datetime.date(2024, 1, 2)


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


def test_python_adds_no_second_hint():
    """The story: "did you mean 'take'?. Did you mean: 'take'?" in the last line of a traceback."""
    for wrong in (lambda: hd.range(3).takee, lambda: hd.DataContext.get_current().target_max_blocksize):
        with pytest.raises(AttributeError) as caught:
            wrong()
        last = traceback.format_exception(caught.value)[-1]
        assert last.startswith("AttributeError: ") and last.lower().count("did you mean") == 1
        assert type(pickle.loads(pickle.dumps(caught.value))) is AttributeError


@pytest.mark.parametrize(
    ("method", "fn", "arguments", "advice"),
    [
        ("filter", lambda r: r["idd"], {}, "the function got the columns id; did you mean 'id'?"),
        ("map_batches", lambda b: b["x"], {}, "the function got the columns id"),
        ("map", lambda r: r.id, {}, "the function got a row, a dict: write row['id']"),
        ("map_batches", lambda b: b.assign(x=1), {}, "batch_format='pandas' gives it a DataFrame"),
        ("map_batches", lambda b: b[b["id"] > 1], {}, "batch_format='pandas' gives it a DataFrame"),
        ("map_batches", lambda b: b["id"].fillna(0), {}, "batch_format='pandas' gives it a DataFrame"),
        ("map_batches", lambda b: b["idd"], {"batch_format": "pandas"}, "did you mean 'id'?"),
        (
            "map_batches",
            lambda b: b["id"].sort(),
            {},
            "zero_copy_batch=False gives it a copy that it may change",
        ),
        ("map_batches", lambda b: {}["id"], {}, ""),
        ("map_batches", lambda b: b.nothing, {"batch_format": "pyarrow"}, ""),
    ],
)
def test_what_an_error_of_a_function_says_of_its_input(method, fn, arguments, advice):
    with pytest.raises((KeyError, AttributeError, TypeError, ValueError)) as caught:
        getattr(hd.range(3), method)(fn, compute="inline", **arguments).take_all()
    (note,) = caught.value.__notes__
    assert note.splitlines()[-1].endswith(advice) if advice else "the function got" not in note
    assert not hasattr(caught.value, "_headrace_advice")


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: headrace.train.ScalingConfig(num_worker=2), "'num_worker'; did you mean 'num_workers'?"),
        (lambda: headrace.train.RunConfig(storage="x"), "'storage'; did you mean 'storage_path'?"),
        (lambda: hd.ActorPoolStrategy(sise=2), "'sise'; did you mean 'size'?"),
        (lambda: hd.ExecutionOptions(preserve=True), "'preserve'; did you mean 'preserve_order'?"),
        (lambda: hd.Partitioning("hive", field_type={}), "'field_type'; did you mean 'field_types'?"),
        (lambda: DataParallelTrainer(print, dataset={}), "'dataset'; did you mean 'datasets'?"),
        (lambda: DataParallelTrainer(print, datasets=hd.range(3)), 'write {"train": dataset}'),
        (
            lambda: DataParallelTrainer(print, datasets={"x": "a.csv"}),
            r"datasets['x']: expected a Dataset, found str",
        ),
        (lambda: headrace.init(num_cpu=3), "did you mean 'num_cpus'?"),
        (lambda: Chain([StandardScaler(["id"])]), "write Chain(*steps)"),
        (
            lambda: hd.range(3).with_column("x", "id"),
            "lit('id') is that text in each row, col('id') a column",
        ),
        (lambda: col("x")[0], "col('x') has no [0]: write .list[...]"),
        (lambda: len(hd.range(3)), "DataLoader(ds.to_torch(batch_size=64), batch_size=None)"),
        (
            lambda: list(hd.from_items([{"d": DAY}]).iter_torch_batches()),
            "drop_columns() leaves it out, cast() makes",
        ),
        (
            lambda: list(hd.from_items([{"x": [1]}, {"x": [1, 2]}]).iter_torch_batches()),
            "give padding=, or a",
        ),
        (lambda: hd.range(3).groupby("id", "x"), "several keys are a list: groupby(['id', 'x'])"),
        (lambda: hd.range(3).join(hd.range(3), "inner", "id"), "write on='id'"),
        (lambda: hd.range(3).with_columns(x=col("id")), "write with_columns({'x': ...})"),
        (lambda: hd.range(3).select_columns([col("id")]), "expected names, found col('id')"),
        (lambda: hd.range(3).filter(col("id") > 1, col("id") < 3), "found two: join them by &"),
        (lambda: hd.range(3).filter(expr="id.x > 1"), "write col('x').struct['a'] or col('x').list[0]"),
        (lambda: hd.range(3).to_pandas(limit=2), "limit(2).to_pandas() takes the first ones"),
    ],
)
def test_wrong_arguments(call, text):
    with pytest.raises((TypeError, ValueError), match=re.escape(text)):
        call()


def test_a_folder_of_another_format(tmp_path):
    for name in ("a.csv.gz", "b.xyz"):
        (tmp_path / name).touch()
    with pytest.raises(FileNotFoundError, match=r"; there are \.csv files: read_csv\(\)$"):
        hd.read_parquet(tmp_path)


def test_names_of_other_libraries():
    with pytest.raises(
        AttributeError, match=r"'read_excel': write from_pandas\(pandas.read_excel\(path\)\)$"
    ) as caught:
        hd.read_excel  # noqa: B018
    assert "read_netcdf" not in traceback.format_exception(caught.value)[-1]
    for name, write in vars(hd)["_ELSEWHERE"].items():
        word = re.match(r"\w+", write)[0]
        assert not hasattr(hd, name) and (hasattr(hd, word) or hasattr(hd.Dataset, word)), name
