"""Packages that are not installed: each function that needs one says what to install."""

import ast
import functools
import json
import os
import pickle
import re
import subprocess
import sys
import threading
import tomllib
from pathlib import Path

import pytest

from headrace.exceptions import MissingPackageError, UnsupportedError
from headrace.optional import PACKAGES, imported, missing, package

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "python" / "headrace"
REQUIRED = {"headrace", "numpy", "cloudpickle", "tqdm"}

# For each package, what a user calls that needs it: the words that begin the message, and the program. The
# programs of a package share a process; hd is headrace.data, np is numpy, ds is hd.range(3), tmp a folder.
USES = {
    "PIL": {
        "write_webdataset": "hd.from_items([{'a.jpg': np.zeros((8, 8), 'u1')}]).write_webdataset(tmp)",
        "read_webdataset": """
            import io, tarfile
            with tarfile.open(f"{tmp}/a.tar", "w") as tar:
                member = tarfile.TarInfo("a.ppm")
                data = b"P6 1 1 255\\n123"
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
            hd.read_webdataset(f"{tmp}/a.tar").take_all()
        """,
    },
    "av": {"read_videos": "hd.read_videos(tmp)"},
    "daft": {"to_daft": "ds.to_daft()"},
    "dask": {"to_dask": "ds.to_dask()"},
    "deltalake": {"read_delta": "hd.read_delta(tmp)", "write_delta": "ds.write_delta(tmp)"},
    "fastavro": {"read_avro": "hd.read_avro(tmp)"},
    "h5py": {"read_hdf5": "hd.read_hdf5(tmp)", "read_netcdf": "hd.read_netcdf(tmp)"},
    "jax": {"iter_jax_batches": "ds.iter_jax_batches(batch_size=1)"},
    "lance": {"read_lance": "hd.read_lance(tmp)", "write_lance": "ds.write_lance(tmp)"},
    "lightgbm": {"headrace.train.lightgbm": "import headrace.train.lightgbm"},
    "lightning": {"headrace.train.lightning": "import headrace.train.lightning"},
    "modin": {"to_modin": "ds.to_modin()"},
    "msgpack": {"write_webdataset": "hd.from_items([{'a.mp': {'x': 1}}]).write_webdataset(tmp)"},
    "pandas": {
        "to_pandas": "ds.to_pandas()",
        "DataFrames": """next(iter(ds.iter_batches(batch_format="pandas")))""",
        "DataFrames ": """ds.map_batches(lambda b: b, batch_format="pandas").take_all()""",
        "DatasetSummary.to_pandas": "ds.summary().to_pandas()",
        "get_column_stats": "ds.summary().get_column_stats('id')",
        "preprocessors": """
            from headrace.data.preprocessors import StandardScaler
            StandardScaler(columns=["id"]).fit(ds).transform_batch({"id": np.arange(3)})
        """,
        "Result.metrics_dataframe": """
            from headrace.train import Result
            Result(metrics={}, checkpoint=None, error=None, path=tmp, history=[{"x": 1}]).metrics_dataframe
        """,
    },
    "polars": {"to_polars": "ds.to_polars()"},
    "pyarrow": {
        "read_orc": "hd.read_orc(tmp)",
        "DataType": """
            from headrace.data.datatype import DataType
            DataType.int64()
        """,
        "write_orc": "ds.write_orc(tmp)",
        "from_arrow": "hd.from_arrow(b'')",
        "tables of pyarrow": """ds.map_batches(lambda b: b, batch_format="pyarrow").take_all()""",
        "tables of pyarrow ": """next(iter(ds.iter_batches(batch_format="pyarrow")))""",
        "Schema.base_schema": "ds.schema().base_schema",
        "udf": """
            @udf(return_dtype="int64")
            def twice(x):
                return x
            ds.with_column("x", twice(col("id"))).take_all()
        """,
        "types of pyarrow": """
            from headrace.data import blocks
            blocks.arrow_type("int64")
        """,
        "tables of pyarrow  ": """
            from headrace.data.aggregate import AggregateFn
            one = AggregateFn(lambda k: 0, lambda a, b: a, "n", lambda a, row: a)
            ds.groupby("id").aggregate(one).take_all()
        """,
        "download": """
            from headrace.data.expressions import download
            download("u")
        """,
        "preprocessors": """
            from headrace.data.preprocessors.batches import to_arrow
            to_arrow({"id": np.arange(3)})
        """,
    },
    "pyiceberg": {
        "read_iceberg": "hd.read_iceberg(table_identifier='a.b')",
        "write_iceberg": "ds.write_iceberg('a.b')",
    },
    "soundfile": {"read_audio": "hd.read_audio(tmp)"},
    "tensorboard": {
        "TensorBoardWriter": """
            from types import SimpleNamespace
            from headrace.train import TensorBoardWriter
            TensorBoardWriter().before_start(SimpleNamespace(run_dir=tmp, history=[]))
        """
    },
    "tensorflow": {
        "iter_tf_batches": "ds.iter_tf_batches()",
        "to_tf": "ds.to_tf('id', 'id')",
    },
    "torch": {
        "TorchInference": """
            from headrace.data.util.torch_inference import TorchInference
            TorchInference()({"x": np.zeros(2)})
        """,
        "iter_torch_batches": "ds.iter_torch_batches()",
        "to_torch": "ds.iterator().to_torch()",
        "headrace.torch": "import headrace.torch",
        "headrace.train.torch": "import headrace.train.torch",
        "write_webdataset": "hd.from_items([{'a.pt': {'x': 1}}]).write_webdataset(tmp)",
        "TorchVisionPreprocessor": """
            from headrace.data.preprocessors import TorchVisionPreprocessor
            scale = TorchVisionPreprocessor(columns=["x"], transform=lambda x: x)
            scale.transform_batch({"x": np.zeros((1, 2, 2))})
        """,
        "a trainer": """
            from headrace import train
            from headrace.train.data_parallel_trainer import DataParallelTrainer
            two, run = train.ScalingConfig(num_workers=2), train.RunConfig(storage_path=tmp)
            DataParallelTrainer(print, scaling_config=two, run_config=run).fit()
        """,
    },
    "transformers": {
        "headrace.train.huggingface.transformers": "import headrace.train.huggingface.transformers"
    },
    "xgboost": {"headrace.train.xgboost": "import headrace.train.xgboost"},
    "zarr": {"read_zarr": "hd.read_zarr(tmp)"},
}
# Lines that only a value of the package, or a line before them, leads to.
LATER = {
    ("pyarrow", "AggregateFn"): "its function gets a table of pyarrow",
    ("pyarrow", "lit"): "a pyarrow.Scalar",
    ("pyarrow.compute", "BlockAccessor"): "after to_arrow()",
    ("dask", "to_dask"): "after dask.dataframe",
    ("pyarrow.fs", "a sink of files"): "after the filesystem",
    ("pyarrow.fs", "a URL"): "after the filesystem",
    ("pyarrow", "a URL"): "after the filesystem",
    ("pyarrow", "to_tf"): "after TensorFlow",
    ("pandas", "normalize_pandas_for_lightgbm"): "a DataFrame",
    ("torch", "headrace.tune"): "a loader of torch",
    ("torch.utils.data", "headrace.tune"): "a loader of torch",
}

# In every process, workers too, as if the packages were not installed.
ABSENT = """
import importlib.abc, os, sys

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in os.environ["ABSENT"].split():
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
"""
CHILD = """
import json, sys, tempfile, textwrap

import numpy as np
import headrace.data as hd
from headrace.data.expressions import col, udf

found = {}
for where, program in json.load(sys.stdin).items():
    with tempfile.TemporaryDirectory() as tmp:
        ds = hd.range(3)
        try:
            exec(textwrap.dedent(program), {"hd": hd, "np": np, "ds": ds, "tmp": tmp, "col": col, "udf": udf})
            found[where] = "no error"
        except Exception as e:
            found[where] = [type(e).__name__, str(e)]
print(json.dumps(found))
"""


@pytest.mark.parametrize("name", sorted(USES))
def test_missing(name, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(ABSENT)
    absent = "lightning pytorch_lightning" if name == "lightning" else name
    done = subprocess.run(
        [sys.executable, "-c", CHILD],
        input=json.dumps(USES[name]),
        env=os.environ | {"PYTHONPATH": str(tmp_path), "ABSENT": absent},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    pip, extra = PACKAGES[name]
    for where, found in json.loads(done.stdout.splitlines()[-1]).items():
        text = f"{where.strip()}: needs the package {pip}: pip install 'headrace[{extra}]'"
        assert found == ["MissingPackageError", text], where


def test_every_package_is_tried():
    assert set(USES) == set(PACKAGES) - {"pytorch_lightning"}


@functools.cache
def _trees():
    return [(path, ast.parse(path.read_text())) for path in sorted(SOURCES.rglob("*.py"))]


def _calls(function):
    """(package, where) of each call of package(), or where of each of missing(), that names it."""
    for _path, tree in _trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == function:
                if all(isinstance(a, ast.Constant) for a in node.args):
                    yield tuple(a.value for a in node.args)
                elif function == "missing" and isinstance(node.args[1], ast.Constant):
                    yield (node.args[1].value,)


def test_every_call_is_tried():
    tried = {(name, where.strip()) for name, uses in USES.items() for where in uses}
    calls = set(_calls("package"))
    assert len(calls) > 30
    not_tried = {c for c in calls if (c[0].partition(".")[0], c[1]) not in tried} - {
        ("torch.utils.tensorboard", "TensorBoardWriter"),  # torch needs tensorboard, which is tried
    }
    assert not_tried <= set(LATER), not_tried - set(LATER)
    assert set(LATER) <= calls, set(LATER) - calls
    modules = {where for (where,) in _calls("missing")}
    assert len(modules) > 5 and modules <= {where for _, where in tried}


def _is_guarded(node):
    """Whether a try statement catches ImportError."""
    names = {ast.unparse(h.type) for h in node.handlers if h.type is not None}
    return bool(names & {"ImportError", "ModuleNotFoundError", "(ImportError, TypeError)"})


def _bare(tree, where=""):
    """The imports of packages that are neither required nor in a `try` that catches ImportError."""
    if isinstance(tree, ast.If) and ast.unparse(tree.test) == "TYPE_CHECKING":
        return
    if isinstance(tree, ast.Try) and _is_guarded(tree):
        return
    names = []
    if isinstance(tree, ast.Import):
        names = [a.name for a in tree.names]
    elif isinstance(tree, ast.ImportFrom) and not tree.level:
        names = [tree.module]
    for name in names:
        root = name.partition(".")[0]
        if root not in sys.stdlib_module_names and root not in REQUIRED:
            yield f"line {tree.lineno}: import {name}"
    for child in ast.iter_child_nodes(tree):
        yield from _bare(child)


def test_no_bare_import():
    for path, tree in _trees():
        name = path.relative_to(SOURCES).as_posix()
        if name.startswith("torch/") or name == "data/annotations.py":
            continue  # torch/__init__.py imports these, in a `try`; only type checkers read the annotations
        found = list(_bare(tree))
        if name == "train/torch/__init__.py":  # torch's own submodules, after torch
            found = [f for f in found if "import torch." not in f]
        assert not found, f"{name}: {found}; use headrace.optional.package()"


def test_extras():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    for pip, extra in PACKAGES.values():
        assert any(re.match(rf"{pip}(\[\w+\])?>=", r) for r in extras[extra]), extra
    named = set(extras)
    for requirements in extras.values():
        for r in requirements:
            found = re.fullmatch(r"headrace\[(.*)\]", r)
            assert not found or set(found[1].split(",")) <= named, r
    versions = [c.rpartition(" ")[2] for c in project["classifiers"] if re.search(r":: 3\.\d+$", c)]
    assert versions[0] == project["requires-python"].removeprefix(">=")


def test_the_class():
    with pytest.raises(MissingPackageError) as e:
        raise missing(ModuleNotFoundError("", name="torch.nowhere"), "here")
    assert isinstance(e.value, (ImportError, NotImplementedError, UnsupportedError))
    assert e.value.name == "torch.nowhere"
    again = pickle.loads(pickle.dumps(e.value))
    assert type(again) is MissingPackageError and str(again) == str(e.value) and again.name == "torch.nowhere"


def test_other_failures_stay(tmp_path, monkeypatch):
    """A package that is there and fails is no missing package."""
    (tmp_path / "fails_inside.py").write_text("import no_such_module_of_its")
    (tmp_path / "fails_by_name.py").write_text("from json import no_such_name")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="no_such_module_of_its") as e:
        package("fails_inside", "here")
    assert type(e.value) is ModuleNotFoundError
    with pytest.raises(ImportError, match="no_such_name") as e:
        package("fails_by_name", "here")
    assert type(e.value) is ImportError


def test_a_module_that_another_thread_imports(tmp_path, monkeypatch):
    """The story: a writer's thread looked for pandas.DataFrame while another one imported pandas."""
    (tmp_path / "imported_slowly.py").write_text(
        "import sys\nthere, goes_on = sys.test_events\nthere.set()\ngoes_on.wait(60)\nlate = 1\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    there, goes_on = threading.Event(), threading.Event()
    monkeypatch.setattr(sys, "test_events", (there, goes_on), raising=False)
    assert imported("imported_slowly") is None
    thread = threading.Thread(target=package, args=("imported_slowly", "here"))
    thread.start()
    assert there.wait(60) and "imported_slowly" in sys.modules
    found = imported("imported_slowly")
    goes_on.set()
    thread.join()
    assert found is None and imported("imported_slowly").late == 1
