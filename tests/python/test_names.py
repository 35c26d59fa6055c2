"""A name with a zero byte is an error wherever names enter.

The story: a C string ends at its first zero byte. Columns 'a\\0b' and 'a' became two columns 'a', of which
rows had one: values were lost in silence. `select_columns(['a\\0zzz'])` gave column 'a', a path read another
file, and a partition folder `p=x%00y` came back as 'x'.
"""

import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace.data as hd
from headrace.data.expressions import col
from headrace.exceptions import DataError, InvalidArgument, UnsupportedError

BAD = "a\0b"
SHOWN = re.escape(repr(BAD))  # as an error has it
TWO = {BAD: [1], "a": [2]}


def one():
    return hd.from_items([{"a": 1}])


VALUES = {
    "items": lambda: hd.from_items([{BAD: 1, "a": 2}]),
    "items_later": lambda: hd.from_items([{"a": 2}, {"a": 2, BAD: 1}]),
    "fields": lambda: hd.from_items([{"s": {BAD: 1, "a": 2}}]),
    "fields_of_a_list": lambda: hd.from_items([{"s": [{BAD: 1}]}]),
    "table": lambda: hd.from_arrow(pa.table(TWO)),
    "batch": lambda: hd.from_arrow(pa.record_batch(TWO)),
    "reader": lambda: hd.from_arrow(pa.table(TWO).to_reader()),
    "nested": lambda: hd.from_arrow(pa.table({"s": [[{BAD: 1}]]})),
    "pandas": lambda: hd.from_pandas(pd.DataFrame(TWO)),
    "rows": lambda: hd.range(1).map(lambda r: {BAD: 1, "a": 2}).take_all(),
    "batches": lambda: hd.range(1).map_batches(lambda b: TWO).take_all(),
    "batches_pandas": lambda: hd.range(1).map_batches(lambda b: pd.DataFrame(TWO)).take_all(),
    "batches_arrow": lambda: hd.range(1).map_batches(lambda b: pa.table(TWO)).take_all(),
    "column_arrow": lambda: hd.range(1).map_batches(lambda b: {"s": pa.array([{BAD: 1}])}).take_all(),
}


@pytest.mark.parametrize("make", VALUES.values(), ids=VALUES)
def test_values_with_a_bad_name(make):
    with pytest.raises(InvalidArgument, match=r"a\\x00b"):
        make()


ARGUMENTS = {
    "select": lambda: one().select_columns([BAD]),
    "rename": lambda: one().rename_columns({"a": BAD}),
    "sort": lambda: one().sort(BAD),
    "sum": lambda: one().sum(BAD),
    "unique": lambda: one().unique(BAD),
    "join": lambda: one().join(one(), "inner", on=[BAD]),
    "suffix": lambda: one().join(one(), "inner", on=["a"], left_suffix=BAD, right_suffix="_r").take_all(),
    "add_column": lambda: one().add_column(BAD, lambda b: b["a"]).take_all(),
    "with_column": lambda: one().with_column(BAD, col("a")),
    "col": lambda: one().filter(expr=col(BAD) == 1),
    "hash": lambda: one().repartition(2, keys=[BAD]).take_all(),
    "partition": lambda: one().write_parquet("never", partition_cols=[BAD]),
}


@pytest.mark.parametrize("make", ARGUMENTS.values(), ids=ARGUMENTS)
def test_a_bad_name_as_an_argument(make):
    with pytest.raises(InvalidArgument, match=SHOWN):
        make()


@pytest.mark.parametrize(
    "make",
    [lambda: one().drop_columns([BAD]).take_all(), lambda: one().groupby(BAD).count()],
    ids=["drop", "groupby"],
)
def test_names_that_are_looked_up_in_python_are_not_found(make):
    with pytest.raises(ValueError, match=f"no column '{BAD}'"):
        make()


def test_paths(tmp_path):
    path = str(tmp_path / "x.parquet")
    pq.write_table(pa.table({"a": [1]}), path)
    with pytest.raises(InvalidArgument, match=r"parquet\\x00nope"):
        hd.read_parquet(path + "\0nope")
    with pytest.raises(InvalidArgument, match=r"\\x00nope"):
        hd.read_parquet(path, columns=["a\0nope"])
    with pytest.raises(InvalidArgument, match="a path cannot contain %00"):
        hd.read_parquet(f"file://{path}%00nope")
    with pytest.raises(InvalidArgument, match=r"out\\x00x"):
        one().write_parquet(str(tmp_path / "out\0x"))
    assert hd.read_parquet(f"file://{path}").count() == 1 and not (tmp_path / "out").exists()


def arrow_file(path):
    with pa.OSFile(path, "wb") as f, pa.ipc.new_file(f, pa.table(TWO).schema) as w:
        w.write_table(pa.table(TWO))


def records(path):
    np.save(path, np.zeros(2, [(BAD, "i4"), ("a", "i4")]))


def members(path):
    np.savez(path, aXb=np.zeros(2), a=np.ones(2))
    with open(path, "r+b") as f:
        whole = f.read().replace(b"aXb.npy", b"a\0b.npy")
        f.seek(0)
        f.write(whole)


def text(data):
    def write(path):
        with open(path, "w") as f:
            f.write(data)

    return write


FILES = {
    "parquet": (lambda p: pq.write_table(pa.table(TWO), p), hd.read_parquet),
    "parquet_fields": (lambda p: pq.write_table(pa.table({"s": [{BAD: 1, "a": 2}]}), p), hd.read_parquet),
    "arrow": (arrow_file, hd.read_arrow),
    "json": (text('{"a\\u0000b": 1, "a": 2}\n'), hd.read_json),
    "csv": (text("a\0b,a\n1,2\n"), hd.read_csv),
    "npy": (records, hd.read_numpy),
    "npz": (members, hd.read_numpy),
}


@pytest.mark.parametrize("kind", FILES)
def test_files_with_a_bad_name(tmp_path, kind):
    write, read = FILES[kind]
    path = str(tmp_path / f"x.{'npz' if kind == 'npz' else kind.partition('_')[0]}")
    write(path)
    with pytest.raises((DataError, UnsupportedError), match=rf"{re.escape(path)}.*(zero|NUL)"):
        read(path).take_all()


def test_partition_values_may_hold_zero_bytes_and_names_may_not(tmp_path):
    rows = [{"p": "x\0y", "v": 1}, {"p": "x", "v": 2}, {"p": "\0", "v": 3}]
    hd.from_items(rows).write_parquet(str(tmp_path / "t"), partition_cols=["p"])
    found = hd.read_parquet(str(tmp_path / "t")).take_all()
    assert sorted(({"p": r["p"], "v": r["v"]} for r in found), key=lambda r: r["v"]) == rows
    for folder in ("p%00q=1", "p=1"):
        (tmp_path / "u" / folder).mkdir(parents=True)
        pq.write_table(pa.table({"v": [1]}), tmp_path / "u" / folder / "f.parquet")
    with pytest.raises(DataError, match="folder 'p%00q=': a partition column's name holds a zero byte"):
        hd.read_parquet(str(tmp_path / "u")).take_all()


def test_values_keep_their_zero_bytes():
    """Only names must not have them."""
    ds = hd.from_items([{"a": "x\0y"}, {"a": "x"}])
    assert ds.unique("a") == ["x\0y", "x"]
    assert ds.filter(expr=col("a") == "x\0y").take_all() == [{"a": "x\0y"}]


def test_surrogates_in_values_name_the_column():
    """The story: it was a UnicodeEncodeError without the column's name."""
    for make in (
        lambda: hd.from_items([{"a": 1, "s": "x\ud800"}]),
        lambda: hd.from_items([{"a": 1, "s": {"t": ["x\ud800"]}}]),
        lambda: hd.range(1).map(lambda r: {"a": 1, "s": "x\ud800"}).take_all(),
        lambda: hd.range(1).map_batches(lambda b: {"a": [1], "s": ["x\ud800"]}).take_all(),
    ):
        with pytest.raises(InvalidArgument, match=r"column 's': .*'\\ud800' in position 1"):
            make()


def test_surrogates_in_names():
    with pytest.raises(InvalidArgument, match="lone surrogate"):
        one().select_columns(["a\udc80"])
    with pytest.raises(InvalidArgument, match="lone surrogate"):
        hd.from_items([{"a\ud800": 1}])
