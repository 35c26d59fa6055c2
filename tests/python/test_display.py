"""What repr(), show() and notebooks print of a dataset."""

import base64
import io
import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace.data as hd
from headrace.data import display

PEOPLE = """\
MaterializedDataset(from_pandas(3 rows)), 3 rows
╭────────┬──────────────╮
│      a │ name         │
│ double │ large_string │
╞════════╪══════════════╡
│    1.5 │ Ada          │
│    2.0 │ 日本         │
│   -0.1 │ None         │
╰────────┴──────────────╯"""


def test_rows_that_are_there():
    ds = hd.from_pandas(pd.DataFrame({"a": [1.5, 2, -0.1], "name": ["Ada", "日本", None]}))
    assert repr(ds) == PEOPLE


def test_ten_rows_of_many():
    lines = repr(hd.range(2000).materialize()).splitlines()
    assert lines[0].endswith("2,000 rows") and len(lines) == 1 + 4 + 10 + 1


def test_files_are_read_for_their_columns_alone(tmp_path):
    pq.write_table(pa.table({"x": [1], "t": ["a"]}), tmp_path / "a.parquet")
    ds = hd.read_parquet(str(tmp_path))
    assert repr(ds).splitlines()[1:] == [
        "╭───────┬────────╮",
        "│ x     │ t      │",
        "│ int64 │ string │",
        "╰───────┴────────╯",
    ]
    gone = hd.read_parquet(str(tmp_path / "a.parquet"))
    (tmp_path / "a.parquet").unlink()
    assert repr(gone).startswith(f"Dataset(read_parquet({tmp_path}/a.parquet))\nits columns are known")


def test_functions_are_not_called():
    def fails(row):
        raise AssertionError

    ds = hd.range(4).map(fails)
    assert repr(ds).splitlines() == [
        "Dataset(range(4) -> map(fails)), 4 rows",
        "its columns are known after a run; schema() reads the first rows for them",
    ]
    assert "map(fails)" in ds._repr_html_()


def test_show(capsys):
    values = {"x": np.zeros((3, 4)), "b": b"0123456789", "t": "two\nlines", "n": None, "l": "long " * 20}
    hd.from_items([values]).show()
    out = capsys.readouterr().out
    for text in ("float64[3, 4]", "10 bytes", "two\\nlines", "None", "long long long long long long l…"):
        assert text in out
    assert len({display._places(line) for line in out.splitlines()}) == 1
    hd.range(3).map(lambda r: {"y": r["id"]}).head(2)
    assert capsys.readouterr().out.splitlines()[4:] == ["│     0 │", "│     1 │", "╰───────╯"]
    hd.range(3).map(lambda r: r).filter(lambda r: False).show()
    assert capsys.readouterr().out == "no rows\n"


@pytest.mark.parametrize("width", [30, 60, 100])
def test_no_wider_than_the_terminal(width):
    ds = hd.from_items([{f"column_{i}": i for i in range(40)}])
    text = display.table(ds.schema(), ds.take(1), width=width)
    lines = text.splitlines()
    assert len({len(line) for line in lines}) == 1 and len(lines[0]) <= width
    assert "column_0" in lines[1] and " … " in lines[1]
    assert width < 60 or "column_39" in lines[1]


def test_a_terminal_without_these_characters(monkeypatch):
    class Ascii(io.StringIO):
        encoding = "ascii"

    out = Ascii()
    monkeypatch.setattr("sys.stdout", out)
    hd.from_items([{"t": "é"}]).show()
    assert out.getvalue().splitlines()[0] == "+--------+" and "\\xe9" in out.getvalue()


def test_notebooks():
    image = pytest.importorskip("PIL.Image")
    photos = np.random.default_rng(1).integers(0, 255, (2, 200, 100, 3), np.uint8)
    ds = hd.from_items([{"image": p, "text": "<b>&"} for p in photos])
    found = ds._repr_html_()
    assert "&lt;b&gt;&amp;" in found and "<b>" not in found
    pictures = re.findall(r'src="data:image/png;base64,([^"]+)"', found)
    assert [image.open(io.BytesIO(base64.b64decode(p))).size for p in pictures] == [(48, 96)] * 2


def test_many_steps_have_a_line_each():
    ds = hd.range(4).with_columns({f"column_{i}": i for i in range(9)}).random_shuffle(seed=1)
    lines = repr(ds).splitlines()
    assert (
        lines[:2] == ["Dataset(", "  range(4)"] and len(lines[2]) == display.WIDTH and lines[2].endswith("…")
    )
    assert lines[3:5] == ["  -> random_shuffle(seed=1)", "), 4 rows"]


def test_types_of_tensors_are_short():
    ragged = (
        "extension<arrow.variable_shape_tensor[value_type=uint8, ndim=3, dim_names=[height,width,channels]]>"
    )
    fixed = "extension<arrow.fixed_shape_tensor[value_type=float, shape=[2,3]]>"
    assert [display.short_type(t) for t in (ragged, fixed, "int64")] == [
        "uint8[?, ?, ?]",
        "float[2, 3]",
        "int64",
    ]
