"""The columns of a function's results: those of its first batch, in the order of the rows.

The story: a column that a later batch lacked was an error far after the function; integers with nulls, which
NumPy shows as floats, were float64 in one batch and int64 in the next.
"""

import json
import time

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import headrace.data as hd
from headrace import exceptions
from headrace.data.expressions import col, if_else

N = 1100  # rows: three batches of a function of rows


@pytest.fixture(params=["processes", "threads", "inline"])
def compute(request):
    return request.param


def of_rows(row, compute="threads"):
    return hd.range(N).map(lambda r: row(r["id"]), compute=compute)


def in_blocks(n=N):
    """Several blocks, so that positions lie in different places."""
    return hd.range(n, override_num_blocks=n // 100)


def of_batches(fn):
    return in_blocks().map_batches(fn, batch_size=100, compute="threads")


# -------------------------------------------------------------------------------- columns that are missing


def lacking(i):
    """The second column is only in the first batch; the last batch has another order of columns."""
    return {"v": i, "w": str(i)} if i < 600 else {"v": i} if i < 1024 else {"w": None, "v": i}


LACKING = [str(i) if i < 600 else None for i in range(N)]


def test_columns_that_a_batch_lacks_are_null(compute):
    ds = of_rows(lacking, compute)
    found = ds.to_arrow()
    assert found.schema.names == ["v", "w"] and found["w"].to_pylist() == LACKING
    assert [row["w"] for row in ds.iter_rows()] == LACKING
    assert list(ds.materialize().to_pandas().columns) == ["v", "w"]


BEHIND = {
    "select_columns": lambda ds: ds.select_columns(["w"]),
    "filter": lambda ds: ds.filter(expr=col("w").is_null() | (col("v") >= 0)),
    "with_column": lambda ds: ds.with_column("x", col("w").str.len()),
    "a function": lambda ds: ds.map_batches(lambda b: {"w": b["w"]}, compute="threads"),
    "a function of rows": lambda ds: ds.map(lambda row: {"w": row["w"]}, compute="threads"),
    "sort": lambda ds: ds.sort("v"),
    "limit": lambda ds: ds.limit(N),
    "repartition": lambda ds: ds.repartition(4),
    "materialize": lambda ds: ds.materialize(),
    "join": lambda ds: ds.join(hd.range(N).rename_columns(["v"]), "inner", on=["v"]),
    "zip": lambda ds: ds.zip(hd.range(N)),
    "map_groups": lambda ds: ds.groupby("v").map_groups(lambda g: {"w": g["w"]}, compute="threads"),
}


@pytest.mark.parametrize("name", BEHIND)
def test_whatever_stands_behind_sees_all_columns(name):
    assert BEHIND[name](of_rows(lacking)).to_arrow()["w"].to_pylist() == LACKING


def test_groups_and_shuffles_behind():
    ds = of_rows(lacking)
    assert {r["w"]: r["count()"] for r in ds.groupby("w").count().take_all()}[None] == 500
    assert sorted(ds.random_shuffle().to_arrow()["w"].to_pylist(), key=str) == sorted(LACKING, key=str)


KINDS = {
    "map_batches": lambda f, c: hd.range(N).map_batches(lambda b: f(b["id"]), batch_size=100, compute=c),
    "generator": lambda f, c: hd.range(N).map_batches(
        lambda b: (f(b["id"][i : i + 50]) for i in (0, 50)), batch_size=100, compute=c
    ),
    "pandas": lambda f, c: hd.range(N).map_batches(
        lambda b: pd.DataFrame(f(b["id"].to_numpy())), batch_size=100, batch_format="pandas", compute=c
    ),
    "map_groups": lambda f, c: hd.range(N).groupby("id").map_groups(lambda g: f(g["id"]), compute=c),
    "flat_map": lambda f, c: hd.range(N).flat_map(
        lambda r: [{n: v[0] for n, v in f(np.array([r["id"]])).items()}], compute=c
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_function(kind, compute):
    ds = KINDS[kind](lambda ids: {"v": ids, "w": ids * 2} if ids[0] < 600 else {"v": ids}, compute)
    found = ds.to_arrow()
    assert found["v"].to_pylist() == list(range(N))
    assert found["w"].to_pylist() == [i * 2 if i < 600 else None for i in range(N)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_column_is_an_error_that_says_what_to_do(kind, compute):
    ds = KINDS[kind](lambda ids: {"v": ids} if ids[0] < 600 else {"v": ids, "late": ids}, compute)
    expected = (
        "column 'late' is not in the first batch, whose columns are 'v'; return all columns in every batch"
    )
    for consume in (ds.to_arrow, lambda ds=ds: ds.sort("v").take_all(), ds.materialize):
        with pytest.raises(exceptions.TypeMismatchError, match=expected):
            consume()
    assert ds.take(500)[-1] == {"v": 499}  # what comes before it is good


def slow_first(fn):
    """The first batch finishes last."""

    def slow(batch):
        if batch["id"][0] == 0:
            time.sleep(0.3)
        return fn(batch)

    return slow


@pytest.mark.parametrize("compute", ["processes", "threads"])
def test_the_first_batch_is_that_of_the_first_rows(compute):
    def one(batch):
        return {"b": batch["id"] * 0.5, "a": batch["id"]} if batch["id"][0] == 0 else {"a": batch["id"]}

    ds = hd.range(2000).map_batches(slow_first(one), batch_size=100, compute=compute, concurrency=2)
    found = ds.to_arrow()
    assert found.schema.names == ["b", "a"] and found["b"].null_count == 1900
    assert found["a"].to_pylist() == list(range(2000))


def test_first_batches_without_rows_say_nothing(compute):
    ds = hd.range(2000).map_batches(
        lambda b: {"none": []} if b["id"][0] < 900 else {"v": b["id"]}, batch_size=100, compute=compute
    )
    assert ds.to_arrow()["v"].to_pylist() == list(range(900, 2000))


RESUMED = {
    "a function": lambda: in_blocks().map(lambda r: lacking(r["id"]), compute="threads"),
    "a chain": lambda: (
        in_blocks()
        .map(lambda r: lacking(r["id"]), compute="threads")
        .map(lambda row: {"v": row["v"], "w": row["w"]}, compute="threads")
    ),
    "integers": lambda: holes().map_batches(lambda b: b, batch_size=100, compute="threads"),
    "fractions after them": lambda: holes().map_batches(
        lambda b: {"x": b["x"] / (2.0 if len(b["id"]) and b["id"][0] >= 500 else 1.0)},
        batch_size=100,
        compute="threads",
    ),
    "a union": lambda: (
        in_blocks()
        .map(lambda r: lacking(r["id"]), compute="threads")
        .union(hd.range(700).rename_columns(["v"]))
    ),
    "shapes": lambda: of_batches(
        lambda b: {"x": np.ones((100, 2, 3 + int(b["id"][0] > 500))), "s": [{"a": 1}] * 100}
    ),
    "objects": lambda: of_batches(lambda b: {"o": [Own(i) if i < 300 else None for i in b["id"].tolist()]}),
    "many columns": lambda: of_batches(lambda b: {f"column {i}": b["id"] for i in range(700)}),
}


def holes():
    """Integers; there are nulls among the first 300."""
    return in_blocks().with_column("x", if_else((col("id") % 3 == 0) & (col("id") < 300), None, col("id")))


class Own:
    """An object that is stored as a pickle."""

    def __init__(self, i):
        self.i = i

    def __eq__(self, other):
        return self.i == other.i


def batches_of(ds):
    return ds.iter_batches(batch_size=50, batch_format="pyarrow")


@pytest.mark.parametrize("name", RESUMED)
def test_a_resumed_pass_has_the_same_columns(name):
    """Its first batch is a later one: the position carries the columns of the very first batch."""
    whole = list(batches_of(RESUMED[name]()))
    for taken in (1, 13, len(whole) - 2):
        it = batches_of(RESUMED[name]())
        one = iter(it)
        for _ in range(taken):
            next(one)
        again = batches_of(RESUMED[name]())
        again.load_state_dict(json.loads(json.dumps(it.state_dict())))
        one = iter(again)
        rest = [next(one) for _ in range(2)]
        third = batches_of(RESUMED[name]())  # a position of a resumed pass says it, too
        third.load_state_dict(json.loads(json.dumps(again.state_dict())))
        rest += list(third)
        assert [b.schema for b in rest] == [b.schema for b in whole[taken:]]
        assert [b.to_pydict() for b in rest] == [b.to_pydict() for b in whole[taken:]]


def taken_up(ds, other, taken=13):
    """The rest of `other` from a position of ds."""
    it = batches_of(ds)
    one = iter(it)
    for _ in range(taken):
        next(one)
    state = it.state_dict()
    assert len(json.dumps(state)) < 20 << 10
    again = batches_of(other)
    again.load_state_dict(state)
    return again


def test_columns_of_other_code_are_found_again():
    """A resume with a function that returns one more column gets it, with a warning."""

    def of(names):
        return of_batches(lambda b: {name: b["id"] for name in names})

    again = taken_up(of(["v"]), of(["v", "w"]))
    with pytest.warns(UserWarning, match="code"):
        assert next(iter(again)).column_names == ["v", "w"]


def test_too_many_columns_for_a_position_have_to_come_again():
    """A position has a hash of 700 columns: other columns are an error, never wrong rows in silence."""

    def wide(b):
        n = 700 if b["id"][0] < 600 else 699
        return {f"column {i}": b["id"] for i in range(n)}

    ds = of_batches(wide)
    assert sum(len(b) for b in taken_up(ds, ds, 3)) == sum(len(b) for b in batches_of(ds)) - 150
    with pytest.raises(exceptions.TypeMismatchError, match="699 columns that differ"):
        list(taken_up(ds, ds, 15))


# ------------------------------------------------------------------------------------- integers with nulls


def nullable(n=20_000, begin=6_000, end=9_000, kind="int64"):
    values = [None if begin <= i < end and i % 3 else i % 120 for i in range(n)]
    return hd.from_arrow(pa.table({"id": range(n), "x": pa.array(values, kind)})), values


@pytest.mark.parametrize("batch_format", ["numpy", "pandas", "pyarrow"])
@pytest.mark.parametrize("begin", [0, 6_000])
def test_integers_with_nulls_stay_integers(compute, batch_format, begin):
    source, values = nullable(begin=begin)
    ds = source.map_batches(lambda batch: batch, batch_format=batch_format, compute=compute)
    assert ds.schema().types == ["int64", "int64"]
    assert ds.to_arrow()["x"].to_pylist() == values
    assert ds.sum("x") == sum(v for v in values if v is not None)
    assert ds.sort("x").take(1)[0]["x"] == 0
    assert {len(ds.map_batches(lambda b: b, batch_format=batch_format).schema().types)} == {2}


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "uint64"])
def test_of_every_integer_type(kind):
    source, values = nullable(kind=kind, begin=100)
    ds = source.map_batches(lambda b: b, compute="threads")
    assert str(ds.to_arrow().schema.field("x").type) == kind
    assert ds.to_arrow()["x"].to_pylist() == values


@pytest.mark.parametrize("begin", [0, 6_000])
def test_what_is_computed_of_them(begin):
    """The first batch decides whether numbers are integers."""
    source, values = nullable(begin=begin)

    def run(fn):
        return source.map_batches(fn, compute="threads").to_arrow()["x"]

    more = run(lambda b: {"x": b["x"] + 1})
    assert more.type == pa.int64() and more.to_pylist() == [None if v is None else v + 1 for v in values]
    rows = run(lambda b: {"x": b["x"][~np.isnan(b["x"])]})
    assert rows.type == pa.int64() and rows.to_pylist() == [v for v in values if v is not None]
    half = run(lambda b: {"x": b["x"] / 2})
    assert half.type == pa.float64() and half.null_count == 0
    np.testing.assert_array_equal(half.to_numpy(), np.array(values, float) / 2)
    mean = run(lambda b: {"x": [np.nanmean(b["x"])]})
    assert mean.type == pa.float64() and len(mean) == 5


def test_a_guess_that_was_wrong():
    """All values of the first batch are whole, later ones are fractions: the whole column is double."""
    values = [None if i % 7 == 0 else 2 * i for i in range(4096)] + [
        None if i % 5 == 0 else i for i in range(8000)
    ]
    ds = hd.from_arrow(pa.table({"x": values})).map_batches(lambda b: {"x": b["x"] / 2}, compute="threads")
    found = ds.to_arrow()["x"]
    assert found.type == pa.float64()
    np.testing.assert_array_equal(found.to_numpy(), np.array(values, float) / 2)
    assert (
        sum(np.nansum(b["x"]) for b in ds.iter_batches(batch_size=1000))
        == np.nansum(np.array(values, float)) / 2
    )


@pytest.mark.parametrize("batch_format", ["numpy", "pandas"])
def test_groups_of_a_null_key(compute, batch_format):
    """The story: TypeMismatchError, because the null's group alone returned its key as a float."""
    rows = [{"k": i % 4 or None, "n": None if i % 3 == 0 else i} for i in range(40)]
    ds = hd.from_items(rows).groupby("k")
    table = ds.map_groups(lambda g: g, batch_format=batch_format, compute=compute).to_arrow()
    assert table.schema.types == [pa.int64(), pa.int64()]
    expected = sorted(rows, key=lambda r: (r["k"] is None, r["k"] or 0))
    assert table.to_pylist() == expected
    sizes = ds.map_groups(lambda g: {"key": g["k"][:1], "rows": [len(g["k"])]}, compute=compute).to_arrow()
    assert sizes["key"].to_pylist() == [1, 2, 3, None] and sizes["rows"].to_pylist() == [10] * 4
    assert ds.map_groups(lambda g: {"k": g["k"][:1]}, compute=compute).sort("k").take_all()[-1] == {"k": None}


@pytest.mark.parametrize("compute", ["processes", "threads"])
def test_integers_and_floats_of_one_function(compute):
    """The first batch decides, however late it comes."""
    whole = lambda b: {"v": b["id"] if b["id"][0] % 200 == 0 else b["id"].astype(float)}  # noqa: E731
    ds = hd.range(2000).map_batches(slow_first(whole), batch_size=100, compute=compute, concurrency=2)
    assert ds.to_arrow()["v"].type == pa.int64() and ds.sum("v") == 1999 * 1000
    whole = lambda b: {"v": b["id"] if b["id"][0] % 200 else b["id"].astype(float)}  # noqa: E731
    ds = hd.range(2000).map_batches(slow_first(whole), batch_size=100, compute=compute, concurrency=2)
    assert ds.to_arrow()["v"].type == pa.float64() and ds.sum("v") == 1999 * 1000
    nan = lambda b: {"v": b["id"] if b["id"][0] < 500 else np.where(b["id"] % 2, np.nan, b["id"])}  # noqa: E731
    found = hd.range(1000).map_batches(nan, batch_size=100, compute=compute).to_arrow()["v"]
    assert found.type == pa.int64() and found.null_count == 250


def test_numbers_that_do_not_fit_are_named():
    ds = of_rows(lambda i: {"v": 1 if i < 600 else 0.5})
    with pytest.raises(
        exceptions.TypeMismatchError, match="rows 512 to 1023 .*'v' is double, expected int64 as in"
    ):
        ds.to_arrow()
    ds = of_rows(lambda i: {"v": 0.5 if i < 512 else 2**53 + i})
    with pytest.raises(exceptions.TypeMismatchError, match="row 0 of them is 9007199254741504"):
        ds.to_arrow()
    ds = of_rows(lambda i: {"v": i if i < 512 else str(i)})
    with pytest.raises(exceptions.TypeMismatchError, match="'v' is string, expected int64"):
        ds.sort("v").take_all()


def test_other_values_with_nulls_keep_their_types(compute):
    """Booleans with nulls are objects; times have NaT."""
    times = pd.Series(pd.to_datetime(["2024-01-01", None] * 3000))
    table = pa.table({
        "b": pa.array([None if i in (5000, 5001) else i % 2 == 0 for i in range(6000)]),
        "t": pa.Array.from_pandas(times),
        "s": pa.array([None if i > 4096 and i % 2 else str(i) for i in range(6000)]),
    })  # fmt: skip
    for batch_format in ("numpy", "pandas"):
        found = (
            hd.from_arrow(table)
            .map_batches(lambda b: b, batch_format=batch_format, compute=compute)
            .to_arrow()
        )
        assert found["b"].to_pylist() == table["b"].to_pylist()
        assert found["t"].null_count == 3000 and found["s"].to_pylist() == table["s"].to_pylist()


def test_pandas_own_integers_with_nulls():
    source, values = nullable()
    ds = source.map_batches(
        lambda df: df.assign(x=df["x"].astype("Int64") + 1), batch_format="pandas", compute="threads"
    )
    assert ds.to_arrow()["x"].to_pylist() == [None if v is None else v + 1 for v in values]


# ------------------------------------------------------------------------------ types that come later


def no_values_at_first(b):
    return {"id": b["id"], "v": [None] * 100 if b["id"][0] < 300 else [f"text {i}" for i in b["id"]]}


def numbers_later(b):
    return {"id": b["id"], "v": [None] * 100 if b["id"][0] < 300 else b["id"]}


def typed_at_first(b):
    return {"id": b["id"], "v": pa.array(no_values_at_first(b)["v"], pa.string())}


def fractions_later(b):
    """NumPy shows integers with nulls as floats; the engine takes the first batch for integers."""
    return {"id": b["id"], "v": b["v"] if b["id"][0] < 500 else b["v"] + 0.5}


LATER = {
    "text": (no_values_at_first, [None if i < 300 else f"text {i}" for i in range(N)]),
    "integers": (numbers_later, [None if i < 300 else i for i in range(N)]),
    "fractions": (
        fractions_later,
        [None if i % 3 == 0 else float(i) if i < 500 else i + 0.5 for i in range(N)],
    ),
}


def later(fn):
    values = pa.array([None if i % 3 == 0 else i for i in range(N)], pa.int64())
    table = pa.table({"id": range(N), "v": values})
    ds = hd.from_blocks([table.slice(i, 100) for i in range(0, N, 100)])
    return ds.map_batches(fn, batch_size=100, compute="threads", concurrency=2)


def by_id(ds):
    return [row["v"] for row in sorted(ds.iter_rows(), key=lambda row: row["id"])]


def written(kind):
    def write(ds, folder):
        getattr(ds, f"write_{kind}")(folder)
        return by_id(getattr(hd, f"read_{kind}")(str(folder)))

    return write


def in_batches(ds, **options):
    return [x for b in ds.iter_batches(batch_size=77, **options) for x in b["v"].tolist()]


def shuffled(ds):
    batches = ds.iter_batches(batch_size=77, local_shuffle_buffer_size=300, local_shuffle_seed=1)
    return [
        v for _, v in sorted(p for b in batches for p in zip(b["id"].tolist(), b["v"].tolist(), strict=True))
    ]


CONSUMERS = {
    "rows": lambda ds, _: by_id(ds),
    "arrow": lambda ds, _: ds.to_arrow()["v"].to_pylist(),
    "pandas": lambda ds, _: ds.to_pandas()["v"].tolist(),
    "batches": lambda ds, _: in_batches(ds),
    "pandas batches": lambda ds, _: in_batches(ds, batch_format="pandas"),
    "torch": lambda ds, _: [
        x
        for b in ds.iter_torch_batches(batch_size=77)
        for x in (b["v"] if isinstance(b["v"], list) else b["v"].tolist())
    ],
    "materialize": lambda ds, _: by_id(ds.materialize()),
    "sort": lambda ds, _: by_id(ds.sort("id")),
    "sort by it": lambda ds, _: by_id(ds.sort("v")),
    "shuffle": lambda ds, _: by_id(ds.random_shuffle(seed=1)),
    "blocks in another order": lambda ds, _: by_id(ds.randomize_block_order(seed=1)),
    "partitions": lambda ds, _: by_id(ds.repartition(3, keys=["id"])),
    "repartition": lambda ds, _: by_id(ds.repartition(3)),
    "group": lambda ds, _: [r["max(v)"] for r in ds.groupby("id").max("v").sort("id").iter_rows()],
    "groups": lambda ds, _: by_id(
        ds.groupby("id").map_groups(lambda g: g, batch_format="pyarrow", compute="threads")
    ),
    "join": lambda ds, _: by_id(ds.join(hd.range(N), "inner", on=["id"])),
    "zip": lambda ds, _: by_id(ds.zip(hd.range(N).rename_columns(["k"]))),
    "union": lambda ds, _: by_id(ds.union(hd.from_items([{"id": N}])))[:N],
    "a function": lambda ds, _: by_id(ds.map(lambda row: row, compute="threads")),
    "local shuffle": lambda ds, _: shuffled(ds),
    "parquet": written("parquet"),
    "arrow files": written("arrow"),
    "json": written("json"),
}
RIGHT = {"rows", "arrow", "pandas", "batches", "pandas batches", "materialize", "zip"}


@pytest.mark.parametrize("name", CONSUMERS)
@pytest.mark.parametrize("kind", LATER)
def test_types_that_come_later_are_right_or_an_error(kind, name, tmp_path):
    """The story: shuffles and partitions by keys gave later rows the first rows' types: all texts were null,
    fractions became the bits of their doubles as integers."""
    fn, expected = LATER[kind]
    ds = later(fn)
    assert ds.count() == N
    try:
        found = CONSUMERS[name](ds, tmp_path)
    except exceptions.HeadraceError as error:
        assert name not in RIGHT
        assert "'v' is" in str(error) or "'v' (" in str(error)
        assert isinstance(error, exceptions.TypeMismatchError)
        return
    assert [None if x is None or x != x else x for x in found] == expected


@pytest.mark.parametrize("name", sorted(CONSUMERS.keys() - {"torch"}))
def test_a_type_that_the_first_batch_gives(name, tmp_path):
    """The remedy that the error names works."""
    with pytest.raises(
        exceptions.TypeMismatchError, match="give the column its type from the first batch on"
    ):
        later(no_values_at_first).sort("id").take_all()
    found = CONSUMERS[name](later(typed_at_first), tmp_path)
    assert [None if x != x else x for x in found] == LATER["text"][1]


def test_numbers_of_another_package():
    """The story: an array of bfloat16 was "no conversion to a column", a list of such arrays pickled objects,
    with a line about decimals.
    """
    ml = pytest.importorskip("ml_dtypes")
    half, eighth, nibble = (np.zeros(4, t) for t in (ml.bfloat16, ml.float8_e5m2, ml.int4))
    ragged = np.empty(4, object)
    ragged[:] = [half, half[:1], half, half]
    for made, type_, to in [
        (half, "bfloat16", "float32"),
        (half.reshape(4, 1), "bfloat16", "float32"),
        (eighth, "float8_e5m2", "float32"),
        (nibble, "int4", "int8"),
        ([half] * 4, "bfloat16", "float32"),
        (list(half), "bfloat16", "float32"),
        (ragged, "bfloat16", "float32"),
        ([None, [half], None, []], "bfloat16", "float32"),
    ]:
        text = rf"column 'x'.*: no column type for values of type {type_}: convert.* by .astype\(\"{to}\"\)"
        with pytest.raises(exceptions.TypeMismatchError, match=text):
            hd.range(4).map_batches(lambda b, made=made: {"x": made}).take_all()
    with pytest.raises(exceptions.TypeMismatchError, match="column 'data'.* of type bfloat16: convert"):
        hd.from_numpy(half)
    assert hd.from_numpy(half.astype("float32")).take(1) == [{"data": 0.0}]
