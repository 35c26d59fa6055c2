"""read_fwf: rows against pandas.read_fwf, arguments, errors, the command."""

import gzip
import io
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import headrace.data as hd
from headrace import exceptions

COMMAND = Path(__file__).resolve().parents[2] / "build" / "release" / "src" / "cli" / "headrace"
WORDS = ["Zürich", "", "日本", "a b", "x", "Łódź"]


def written(n, widths=(9, 14, 12), seed=1):
    """(text, its columns): an integer, a number, a word, each at the right or the left of its field."""
    random = np.random.default_rng(seed)
    numbers, values = random.integers(-(10**6), 10**6, n), random.normal(size=n).round(6)
    words = [WORDS[i] for i in random.integers(0, len(WORDS), n)]
    lines = [f"{'n':>{widths[0]}}{'x':<{widths[1]}}{'word':>{widths[2]}}"]
    for a, b, c in zip(numbers, values, words, strict=True):
        lines.append(f"{a:{widths[0]}}{b:<{widths[1]}}{c:>{widths[2]}}")
    return "\n".join(lines) + "\n", {"n": numbers, "x": values, "word": words}


@pytest.mark.parametrize("suffix", ["fwf", "fwf.gz"])
@pytest.mark.parametrize("fragment_bytes", [None, 1000])
def test_the_same_rows_as_pandas(tmp_path, suffix, fragment_bytes):
    text, columns = written(3000)
    path = tmp_path / f"a.{suffix}"
    path.write_bytes(gzip.compress(text.encode()) if suffix.endswith("gz") else text.encode())
    theirs = pd.read_fwf(io.StringIO(text), widths=[9, 14, 12], keep_default_na=False)
    ours = hd.read_fwf(path, widths=[9, 14, 12], fragment_bytes=fragment_bytes).to_arrow()
    assert ours.schema == pa.schema([("n", pa.int64()), ("x", pa.float64()), ("word", pa.string())])
    for name, values in columns.items():
        assert ours[name].to_pylist() == theirs[name].tolist() == list(values)


def test_colspecs_names_and_fill_as_in_pandas(tmp_path):
    text = "..12..AB**\n.345..C***\n"
    (tmp_path / "a.txt").write_text(text)
    arguments = dict(colspecs=[(6, 10), (0, 4)], names=["word", "n"])
    theirs = pd.read_fwf(io.StringIO(text), delimiter=".*", **arguments)
    ours = hd.read_fwf(tmp_path / "a.txt", fill=".*", **arguments)
    assert ours.take_all() == theirs.to_dict("records") == [{"word": "AB", "n": 12}, {"word": "C", "n": 345}]


def test_lines_that_end_early_are_null_as_in_pandas(tmp_path):
    text = "12 ab\n34\n\n56 cd trailing\n"
    (tmp_path / "a.fwf").write_text(text)
    theirs = pd.read_fwf(io.StringIO(text), widths=[3, 2], header=None)
    ours = hd.read_fwf(tmp_path / "a.fwf", widths=[3, 2], header=False).to_arrow()
    assert ours.column_names == ["f0", "f1"]
    assert ours["f0"].to_pylist() == theirs[0].tolist() == [12, 34, 56]
    assert ours["f1"].to_pylist() == [None if v != v else v for v in theirs[1]] == ["ab", None, "cd"]


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "cp1252"])
def test_encodings(tmp_path, encoding):
    (tmp_path / "a.fwf").write_bytes("näme  1\nÄ    22\n".encode(encoding))
    ds = hd.read_fwf(tmp_path / "a.fwf", widths=[5, 2], header=False, encoding=encoding)
    assert ds.take_all() == [{"f0": "näme", "f1": 1}, {"f0": "Ä", "f1": 22}]


def test_columns_types_and_several_files(tmp_path):
    (tmp_path / "a.fwf").write_text("a b    \n1 0.5  \n")
    (tmp_path / "b.fwf").write_text("a b    \n2 7    \n3 nan  \n")
    read = dict(widths=[2, 5])
    ds = hd.read_fwf(tmp_path, columns=["b"], **read)
    assert ds.schema().types == ["double"]
    assert ds.take_all() == [{"b": 0.5}, {"b": 7.0}, {"b": None}]
    assert hd.read_fwf(tmp_path, dtypes={"a": "int16", "b": str}, **read).schema().types == [
        "int16",
        "string",
    ]
    assert hd.read_fwf(tmp_path, dtypes="string", **read).select_columns(["a"]).take(1) == [{"a": "1"}]
    assert hd.read_fwf(tmp_path, **read).count() == 3
    assert hd.read_fwf(tmp_path, **read).filter(expr="a > 1").take_all()[0] == {"a": 2, "b": 7.0}
    shuffled = hd.read_fwf(tmp_path, shuffle="files", **read)
    assert sorted(row["a"] for row in shuffled.iter_rows()) == [1, 2, 3]


def test_a_position_goes_on(tmp_path):
    text, columns = written(5000)
    (tmp_path / "a.fwf").write_text(text)
    ds = hd.read_fwf(tmp_path / "a.fwf", widths=[9, 14, 12], fragment_bytes=4000)
    batches = ds.iter_batches(batch_size=700)
    passing = iter(batches)
    first = [v for _ in range(3) for v in next(passing)["n"]]
    again = ds.iter_batches(batch_size=700)
    again.load_state_dict(batches.state_dict())
    rest = [v for batch in again for v in batch["n"]]
    assert first + rest == columns["n"].tolist()


def test_errors(tmp_path):
    path = tmp_path / "a.fwf"
    path.write_text("a b\n1 2\n3 x\n")
    with pytest.raises(
        exceptions.DataError, match=r"a\.fwf: line 3, column 'b' \(characters 2:3\): expected int64"
    ):
        hd.read_fwf(path, colspecs=[(0, 1), (2, 3)], dtypes={"b": "int64"}).take_all()
    with pytest.raises(exceptions.InvalidArgument, match="widths or colspecs"):
        hd.read_fwf(path).take_all()
    with pytest.raises(exceptions.InvalidArgument, match="expected widths or colspecs, found both"):
        hd.read_fwf(path, widths=[1], colspecs=[(0, 1)]).take_all()
    with pytest.raises(exceptions.InvalidArgument, match="widths: '-1'"):
        hd.read_fwf(path, widths=[-1]).take_all()
    with pytest.raises(exceptions.UnsupportedError, match="colspecs='infer'"):
        hd.read_fwf(path, colspecs="infer")
    with pytest.raises(exceptions.TypeMismatchError, match=r"expected a list of \(begin, end\)"):
        hd.read_fwf(path, colspecs=[1, 2])
    with pytest.raises(exceptions.InvalidArgument, match="3 names for 1 columns"):
        hd.read_fwf(path, widths=[1], names=["a", "b", "c"]).take_all()


@pytest.mark.skipif(not COMMAND.exists(), reason="needs build/release (make lib)")
def test_the_command_reads_it(tmp_path):
    (tmp_path / "a.fwf").write_text("a b\n1 2\n")
    run = [COMMAND, "head", "--json", "--option", "widths=2,1", tmp_path / "a.fwf"]
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout == '{"a":1,"b":2}\n'
