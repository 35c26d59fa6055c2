"""Functions of Python in expressions, random numbers, identifiers, download(), star() and unnest()."""

import contextlib
import io
import os
import pickle
import uuid as python_uuid

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import headrace.data as hd
from headrace.data.expressions import (
    col,
    download,
    if_else,
    monotonically_increasing_id,
    pyarrow_udf,
    random,
    star,
    udf,
    unnest,
    uuid,
)
from headrace.exceptions import HeadraceError, InvalidArgument, TypeMismatchError


@udf(return_dtype="int64")
def add_one(x):
    return pc.add(x, 1)


@udf(return_dtype=pa.string())
def full_name(first, last, sep=" "):
    return pc.binary_join_element_wise(first, last, sep)


@udf(return_dtype=np.float32)
def root(x):
    return np.sqrt(x.to_numpy())


@udf(return_dtype="int64")
class AddOffset:
    def __init__(self, offset=1):
        self.offset = offset

    def __call__(self, x):
        return pc.add(x, self.offset)


def test_a_function_is_a_column():
    ds = hd.range(10_000).with_column("y", add_one(col("id")))
    assert ds.columns() == ["id", "y"]
    assert ds.to_arrow()["y"].to_pylist() == list(range(1, 10_001))
    assert add_one.__name__ == "add_one"


@pytest.mark.parametrize("compute", ["inline", "threads", hd.ActorPoolStrategy(size=1)], ids=str)
def test_it_runs_where_compute_says(compute):
    @udf(return_dtype="int64")
    def pid(x):
        return pa.array([os.getpid()] * len(x))

    found = hd.range(5).with_column("pid", pid(col("id")) + 0, compute=compute).unique("pid")
    assert (found == [os.getpid()]) == isinstance(compute, str)
    with pytest.raises(InvalidArgument, match="with_columns: compute: .*found 'nowhere'"):
        hd.range(5).with_column("y", col("id"), compute="nowhere")


def test_nested_in_expressions_and_in_each_other():
    ds = hd.range(5000)
    nested = ds.with_columns(
        {"a": add_one(add_one(col("id") * 2)) * 10, "b": if_else(add_one(col("id")) > 3, col("id"), -1)}
    )
    assert nested.columns() == ["id", "a", "b"]
    table = nested.to_arrow()
    assert table["a"].to_pylist() == [(2 * i + 2) * 10 for i in range(5000)]
    assert table["b"].to_pylist() == [i if i + 1 > 3 else -1 for i in range(5000)]
    kept = ds.filter(expr=(add_one(col("id")) % 100 == 0) & (col("id") < 1000))
    assert kept.columns() == ["id"]
    assert kept.to_arrow()["id"].to_pylist() == list(range(99, 1000, 100))


def test_arguments_types_and_names():
    people = hd.from_items([{"first": "Ann", "last": "Bee"}, {"first": "Cy", "last": None}])
    found = people.with_columns(
        {"n": full_name(col("first"), col("last")), "m": full_name(col("first"), last=col("last"), sep="-")}
    ).to_arrow()
    assert found["n"].to_pylist() == ["Ann Bee", None]
    assert found["m"].to_pylist() == ["Ann-Bee", None]
    numbers = hd.from_items([{"x": 4.0}, {"x": 9.0}]).with_column("r", root(col("x"))).to_arrow()
    assert numbers["r"].type == pa.float32() and numbers["r"].to_pylist() == [2.0, 3.0]
    same = add_one(col("id")) + add_one(col("id"))
    assert len(same._calls) == 1 and same.columns() == ["id"]
    assert len((add_one(col("id")) + add_one(col("x")))._calls) == 2
    assert "add_one(col('id'))" in repr(same)


def counting_udf(folder):
    """A function that writes one line per call, with its number of rows."""
    path = str(folder / "calls")

    @udf(return_dtype="int64")
    def counted(x):
        with open(path, "a") as file:
            file.write(f"{len(x)}\n")
        return pc.add(x, 1)

    def lines():
        import os

        return [int(n) for n in open(path)] if os.path.exists(path) else []

    return counted, lines


@pytest.mark.parametrize("step", ["with_columns", "filter", "sort"])
def test_equal_calls_are_evaluated_once(tmp_path, step):
    """In two columns, or twice in a filter or in sort keys: the function sees each row once."""
    counted, lines = counting_udf(tmp_path)
    ds = hd.range(10_000)
    again = counted(col("id")) * 2
    if step == "with_columns":
        ds = ds.with_columns({"a": counted(col("id")) + 1, "b": again, "c": counted(col("id"))})
        want = {"id": 7, "a": 9, "b": 16, "c": 8}
    elif step == "filter":
        ds = ds.filter(expr=(counted(col("id")) > 2) & (again < 10**9))
        want = {"id": 9}
    else:
        ds = ds.sort([again > 100, counted(col("id"))])
        want = {"id": 7}
    assert ds.to_arrow().to_pylist()[7] == want
    assert sum(lines()) == 10_000


def test_sorted_by_a_function():
    ds = hd.range(5000).with_column("x", col("id") % 7)

    @udf(return_dtype="int64")
    def opposite(x):
        return pc.negate(x)

    by_call = ds.sort([opposite(col("x")), "id"])
    assert by_call.columns() == ["id", "x"]
    assert by_call.to_arrow().equals(ds.sort(["x", "id"], descending=[True, False]).to_arrow())
    assert ds.sort(opposite(col("id")) + 1, descending=True).take(1) == [{"id": 0, "x": 0}]
    with pytest.raises(TypeMismatchError, match="add of int64 and string"):
        ds.sort(opposite(col("id")) + "a")


def test_grouped_by_a_function_and_by_expressions():
    ds = hd.range(1000)

    @udf(return_dtype="int64")
    def tens(x):
        return pc.divide(x, 100)

    found = ds.groupby((tens(col("id")) % 3).alias("k")).count().to_arrow().to_pylist()
    assert found == [{"k": 0, "count()": 400}, {"k": 1, "count()": 300}, {"k": 2, "count()": 300}]
    found = ds.groupby([(col("id") % 2).alias("odd"), (col("id") >= 500).alias("late")]).max("id")
    assert [tuple(r.values()) for r in found.iter_rows()] == [
        (0, False, 498),
        (0, True, 998),
        (1, False, 499),
        (1, True, 999),
    ]
    assert ds.groupby(col("id")).count().count() == 1000
    with pytest.raises(ValueError, match=r"has no name; write .*alias"):
        ds.groupby(tens(col("id")))
    with pytest.raises(ValueError, match="the dataset has a column 'id' already"):
        ds.groupby((col("id") % 2).alias("id"))


def test_only_what_is_needed_is_read_behind_row_numbers(tmp_path, capsys):
    pq.write_table(pa.table({"x": range(100), "wide": ["w" * 1000] * 100}), tmp_path / "t.parquet")
    ds = hd.read_parquet(str(tmp_path / "t.parquet")).with_column("n", monotonically_increasing_id())
    ds.select_columns(["x", "n"]).explain()
    assert capsys.readouterr().out.split("\non a resume:")[0].endswith("columns=[x]")
    assert ds.select_columns(["n"]).to_arrow()["n"].to_pylist() == list(range(100))


def test_two_functions_of_one_name_are_two():
    def make(n):
        @udf(return_dtype="int64")
        def fn(x):
            return pc.add(x, n)

        return fn

    ds = hd.range(3).with_column("y", make(1)(col("id")) * 100 + make(2)(col("id")))
    assert ds.to_arrow()["y"].to_pylist() == [102, 203, 304]


def test_classes_and_the_other_decorator():
    five = AddOffset(5)
    ds = hd.range(4).with_columns({"a": five(col("id")), "b": AddOffset(offset=7)(col("id"))})
    assert ds.to_arrow().to_pylist()[1] == {"id": 1, "a": 6, "b": 8}

    @pyarrow_udf(return_dtype="bool")
    def is_even(x):
        return pc.equal(pc.bit_wise_and(x, 1), 0)

    assert hd.range(5).filter(expr=is_even(col("id"))).count() == 3
    copy = pickle.loads(pickle.dumps(five(col("id")) + 1))
    assert hd.range(2).with_column("y", copy).to_arrow()["y"].to_pylist() == [6, 7]


def test_errors_are_at_the_line_or_name_the_function():
    ds = hd.range(3)
    with pytest.raises(InvalidArgument, match="no column 'nothing'|nothing"):
        ds.with_column("y", add_one(col("nothing")))
    with pytest.raises(TypeMismatchError, match="add of int64 and string|string and int64"):
        ds.with_column("y", full_name(col("id"), col("id")) + col("id"))
    with pytest.raises(TypeMismatchError, match="expected bool"):
        ds.filter(expr=add_one(col("id")))
    with pytest.raises(TypeMismatchError, match="expected a type, found"):
        udf(return_dtype="int3")
    with pytest.raises(TypeMismatchError, match="expected parentheses"):
        udf(lambda x: x)

    @udf(return_dtype="int64")
    def too_few(x):
        return x.slice(0, 1)

    with pytest.raises(TypeMismatchError, match=r"udf\(.*too_few\) returned 1 values; expected 3"):
        ds.with_column("y", too_few(col("id"))).to_arrow()

    @udf(return_dtype="int64")
    def fails(x):
        raise ValueError("no such thing")

    with pytest.raises(Exception, match="no such thing"):
        ds.with_column("y", fails(col("id"))).to_arrow()


def test_numbers_of_rows(tmp_path):
    table = pa.table({"x": list(range(3000))})
    parts = hd.from_arrow([table.slice(i, 700) for i in range(0, 3000, 700)])
    ds = parts.filter(expr=col("x") % 3 == 0).with_column("n", monotonically_increasing_id() * 2)
    assert ds.columns() == ["x", "n"]
    assert ds.to_arrow()["n"].to_pylist() == list(range(0, 2000, 2))
    assert ds.limit(3).to_arrow()["n"].to_pylist() == [0, 2, 4]
    assert ds.filter(expr=monotonically_increasing_id() < 5).count() == 5


def test_random_is_of_the_row():
    table = pa.table({"x": list(range(20_000))})
    one, two = random(), random()
    exprs = {"a": one, "b": two, "c": random(seed=7), "d": random(seed=7), "e": random(seed=8)}
    whole = hd.from_arrow(table).with_columns(exprs)
    found = whole.to_arrow()
    a, b = (found[n].to_numpy() for n in "ab")
    assert ((a >= 0) & (a < 1)).all() and abs(a.mean() - 0.5) < 0.01 and abs(a.std() - 12**-0.5) < 0.01
    assert abs(np.corrcoef(a, b)[0, 1]) < 0.03 and len(set(a.tolist())) == 20_000
    assert found["c"].equals(found["d"]) and not found["c"].equals(found["e"])
    assert whole.select_columns(["b"]).to_arrow()["b"].equals(found["b"])  # whatever else is computed
    kept = hd.from_arrow(table).filter(expr=col("x") >= 15_000).with_column("a", one).to_arrow()
    assert kept["a"].to_pylist() == found["a"].to_pylist()[15_000:]
    context = hd.DataContext.get_current()
    try:
        for threads in (1, 8):
            context.num_threads = threads
            assert whole.to_arrow().equals(found)
    finally:
        context.num_threads = None
    fixed = hd.range(10).with_columns(
        {"r": random(seed=3), "f": random(seed=3, reseed_after_execution=False)}
    )
    it = fixed.iterator()
    epochs = [next(iter(it.iter_batches(batch_size=10))) for _ in range(2)]
    assert (epochs[0]["f"] == epochs[1]["f"]).all() and (epochs[0]["r"] != epochs[1]["r"]).any()
    part = hd.range(20_000).filter(expr=random(seed=1) < 0.25).count()
    assert 4500 < part < 5500


def test_uuid():
    expr = uuid()
    ds = hd.range(5000).with_column("u", expr)
    found = ds.to_arrow()["u"].to_pylist()
    assert len(set(found)) == 5000
    for text in found[:50]:
        parsed = python_uuid.UUID(text)
        assert str(parsed) == text and parsed.version == 4 and parsed.variant == python_uuid.RFC_4122
    assert ds.to_arrow()["u"].to_pylist() == found  # a row keeps its own
    assert hd.range(5).with_column("u", uuid()).to_arrow()["u"].to_pylist() != found[:5]
    pair = [hd.range(5).with_column("u", uuid(seed=1)).to_arrow() for _ in range(2)]
    assert pair[0].equals(pair[1])
    short = hd.range(2).with_column("u", uuid().str.replace("-", ""))
    assert all(len(t) == 32 for t in short.to_arrow()["u"].to_pylist())


def test_download(tmp_path):
    for i in range(40):
        (tmp_path / f"a {i}.bin").write_bytes(bytes([i]) * (i + 1))
    paths = [str(tmp_path / f"a {i}.bin") for i in range(40)]
    uris = ["file://" + paths[0].replace(" ", "%20"), None, str(tmp_path / "missing"), *paths[1:]]
    ds = hd.from_items([{"uri": u, "i": i} for i, u in enumerate(uris)]).with_column("bytes", download("uri"))
    assert ds.columns() == ["uri", "i", "bytes"]
    found = ds.to_arrow()["bytes"].to_pylist()
    assert found == [b"\0", None, None, *(bytes([i]) * (i + 1) for i in range(1, 40))]
    sizes = ds.with_column("n", col("bytes").str.byte_len()).to_arrow()["n"].to_pylist()
    assert sizes[3:] == list(range(2, 41))
    with pytest.raises(HeadraceError, match=r"download: ftp://b/k: expected .* or a local path"):
        hd.from_items([{"uri": "ftp://b/k"}]).with_column("b", download("uri")).to_arrow()
    with pytest.raises(TypeMismatchError, match="filesystem: expected one of pyarrow.fs or fsspec"):
        download("uri", filesystem=object())
    with pytest.raises(InvalidArgument, match="uri"):
        hd.range(3).with_column("b", download("uri"))


def test_star_and_unnest():
    ds = hd.from_items([{"s": {"a": 1, "b": "x"}}, {"s": None}])
    found = ds.with_columns(unnest(col("s"))).to_arrow().select(["a", "b"]).to_pylist()
    assert found == [{"a": 1, "b": "x"}, {"a": None, "b": None}]
    both = ds.with_columns([star(), col("s").struct["a"].alias("c")], {"d": col("s").is_null()})
    assert both.columns() == ["s", "c", "d"]
    with pytest.raises(TypeMismatchError, match="expected a struct"):
        hd.range(2).with_columns(unnest(col("id")))
    with pytest.raises(TypeMismatchError, match="expected an expression"):
        unnest("s")

    @udf(return_dtype=pa.struct({"sum": pa.int64(), "product": pa.int64()}))
    def features(a, b):
        arrays = [pc.add(a, b).combine_chunks(), pc.multiply(a, b).combine_chunks()]
        return pa.StructArray.from_arrays(arrays, names=["sum", "product"])

    rows = hd.from_items([{"a": 2, "b": 10}, {"a": 3, "b": 20}])
    found = rows.with_columns(unnest(features(col("a"), col("b")))).to_arrow().to_pylist()
    assert found == [{"a": 2, "b": 10, "sum": 12, "product": 20}, {"a": 3, "b": 20, "sum": 23, "product": 60}]


# --------------------------------------------------------------------------- what functions get of wide rows


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """40 rows of one megabyte, in two files."""
    folder = tmp_path_factory.mktemp("wide")
    for i in range(2):
        ids = range(20 * i, 20 * i + 20)
        blobs = [bytes([n]) * (1 << 20) for n in ids]
        table = pa.table({"id": list(ids), "blob": pa.array(blobs, pa.large_binary()), "s": map(str, ids)})
        pq.write_table(table, folder / f"{i}.parquet", row_group_size=10)
    return str(folder)


def run(ds):
    """(rows of one pass, bytes that its functions got)."""
    rows = ds.to_arrow()
    return rows, [o["input_bytes"] for o in ds.stats("dict")["operators"] if "input_bytes" in o]


def check_wide(rows, ids):
    assert rows["id"].to_pylist() == list(ids)
    assert rows["s"].to_pylist() == [str(i) for i in ids]
    for i, blob in zip(ids, rows["blob"], strict=True):
        assert blob.as_py() == bytes([i]) * (1 << 20)


@pytest.mark.parametrize("compute", ["processes", "threads", "inline"])
def test_only_arguments_go_to_functions(wide, compute):
    both = add_one(col("id")) * 100 + add_one(add_one(col("id")) + 1)
    rows, given = run(hd.read_parquet(wide).with_column("y", both, compute=compute))
    check_wide(rows, range(40))
    assert rows["y"].to_pylist() == [(i + 1) * 100 + i + 3 for i in range(40)]
    assert given == [40 * 8] * 2

    twice = hd.from_arrow(rows.drop(["y"])).with_column("n", add_one(col("id")), compute=compute)
    rows, given = run(twice.with_column("m", full_name(col("s"), "x"), compute=compute))
    check_wide(rows, range(40))
    assert rows["n"].to_pylist() == list(range(1, 41)) and rows["m"][7].as_py() == "7 x"
    assert given[0] == 40 * 8 and given[1] < 1000


def test_only_arguments_go_to_a_filters_functions(wide):
    rows, given = run(hd.read_parquet(wide).filter(expr=add_one(col("id")) % 3 == 0, compute="inline"))
    check_wide(rows, range(2, 40, 3))
    assert given == [40 * 8]


def test_columns_that_nobody_wants_are_not_read(wide):
    ds = hd.read_parquet(wide).with_column("y", add_one(col("id")), compute="inline")
    assert "columns=[s, id]" in text_of(ds.select_columns(["y", "s"]))
    assert "columns=[id]" in text_of(ds.select_columns(["y"]))
    assert "columns=[id]" in text_of(
        hd.read_parquet(wide).filter(expr=add_one(col("id")) > 3).select_columns(["id"])
    )
    rows, given = run(ds.select_columns(["s", "y"]))
    assert rows.column_names == ["s", "y"] and given == [40 * 8]
    assert rows["s"].to_pylist() == [str(i) for i in range(40)]
    assert rows["y"].to_pylist() == list(range(1, 41))
    assert ds.count() == 40


def text_of(ds):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        ds.explain()
    return out.getvalue()


def test_functions_without_columns():
    """A table without columns travels with its number of rows."""

    @udf(return_dtype="int64")
    def nothing(n):
        return [7] * n

    ds = hd.range(10).with_column("y", nothing(10))
    assert ds.to_arrow()["y"].to_pylist() == [7] * 10


def test_an_argument_that_is_not_there():
    """If the columns are not known before the run, the run raises."""
    made = hd.range(10).map_batches(lambda b: {"other": b["id"]}, compute="inline")
    with pytest.raises(InvalidArgument, match="no column 'id'"):
        made.with_column("y", add_one(col("id")), compute="inline").to_arrow()
