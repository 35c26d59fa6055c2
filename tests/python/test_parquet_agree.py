"""Random schemas, both ways: our reader on pyarrow's files; pyarrow, DuckDB and Polars on our files; with all
options of both writers varied. Values come from a seed, so that tables can be long enough for pages,
dictionaries and runs.

HEADRACE_HUGE=1 runs what takes minutes and many GB: columns of more than 2 GiB of text, a page of 1 GB.
"""

import decimal
import os
import random
import subprocess
import sys

import duckdb
import numpy as np
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import headrace.data as hd

needs_much = pytest.mark.skipif(not os.environ.get("HEADRACE_HUGE"), reason="HEADRACE_HUGE=1 runs it")

# ---------------------------------------------------------------------------------------------- random tables

INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
UNITS = ["s", "ms", "us", "ns"]
LEAVES = (
    [getattr(pa, name)() for name in INTEGERS]
    + [pa.bool_(), pa.float16(), pa.float32(), pa.float64(), pa.date32(), pa.date64(), pa.null()]
    + [pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.binary(1), pa.binary(7)]
    + [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")]
    + [pa.timestamp(unit) for unit in UNITS]
    + [pa.timestamp("us", "UTC"), pa.timestamp("ms", "Europe/Berlin"), pa.timestamp("ns", "+05:30")]
    + [pa.duration(unit) for unit in UNITS]
    + [pa.decimal128(p, s) for p, s in ((1, 0), (9, 4), (18, 18), (38, 10))]
    + [pa.decimal256(50, 3), pa.decimal256(76, 0)]
    + [pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int32(), pa.int64())]
)
KEYS = [pa.string(), pa.int32(), pa.date32()]


def nested(inner):
    return st.one_of(
        inner.map(pa.list_),
        inner.map(pa.large_list),
        st.tuples(inner, st.integers(1, 3)).map(lambda pair: pa.list_(*pair)),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda ts: pa.struct([pa.field(f"f{i}", t) for i, t in enumerate(ts)])
        ),
        st.tuples(st.sampled_from(KEYS), inner).map(lambda pair: pa.map_(*pair)),
    )


TYPES = st.recursive(st.sampled_from(LEAVES), nested, max_leaves=5)


def integer(rng, bits, signed):
    """Often small ones, for dictionaries and runs; sometimes any."""
    if rng.random() < 0.9:
        return rng.randrange(0, 5)
    return rng.randrange(-(2 ** (bits - 1)), 2 ** (bits - 1)) if signed else rng.randrange(0, 2**bits)


def leaf(rng, t):
    if pa.types.is_integer(t):
        return integer(rng, t.bit_width, pa.types.is_signed_integer(t))
    if pa.types.is_boolean(t):
        return rng.random() < 0.5
    if pa.types.is_float16(t):
        return np.float16(rng.randrange(-100, 100) / 8)
    if pa.types.is_floating(t):
        return float(np.float32(rng.choice([0.0, -0.0, 1.5, rng.gauss(0, 1e6), float("inf")])))
    if pa.types.is_fixed_size_binary(t) and not pa.types.is_decimal(t):
        return rng.randbytes(t.byte_width)
    if pa.types.is_string(t) or pa.types.is_large_string(t):
        return "".join(rng.choices("abcö日😀", k=rng.choice([0, 1, 3, 3, 40])))
    if pa.types.is_binary(t) or pa.types.is_large_binary(t):
        return rng.randbytes(rng.choice([0, 1, 3, 90]))
    return None


def array(rng, t, n, nulls):
    """n values of type t; `nulls` is the share of nulls, at the top and inside."""
    valid = [rng.random() >= nulls for _ in range(n)]
    if pa.types.is_null(t):
        return pa.nulls(n)
    if pa.types.is_dictionary(t):
        words = array(rng, t.value_type, 4, 0)
        numbers = pa.array([rng.randrange(4) if v else None for v in valid], t.index_type)
        return pa.DictionaryArray.from_arrays(numbers, words)
    if pa.types.is_decimal(t):
        most = 10 ** min(t.precision, 30)
        with decimal.localcontext(prec=80):
            ints = [decimal.Decimal(rng.randrange(-most + 1, most)).scaleb(-t.scale) for _ in range(n)]
        return pa.array([x if v else None for x, v in zip(ints, valid, strict=True)], t)
    if pa.types.is_date64(t):
        days = pa.array([rng.randrange(-40000, 40000) if v else None for v in valid], pa.int32())
        return days.cast(pa.date32()).cast(t)
    if pa.types.is_temporal(t):
        most = 86399 if pa.types.is_time(t) else 40000 if t.bit_width == 32 else 10**9
        width = pa.int32() if t.bit_width == 32 else pa.int64()
        return pa.array([rng.randrange(0, most) if v else None for v in valid], width).cast(t)
    if pa.types.is_struct(t):
        parts = [array(rng, f.type, n, nulls) for f in t]
        mask = pa.array([not v for v in valid], pa.bool_())
        return pa.StructArray.from_arrays(parts, fields=list(t), mask=mask)
    if pa.types.is_fixed_size_list(t):
        items = array(rng, t.value_type, n * t.list_size, nulls)
        return pa.FixedSizeListArray.from_arrays(
            items, type=t, mask=pa.array([not v for v in valid], pa.bool_())
        )
    if pa.types.is_nested(t):
        lengths = [rng.choice([0, 1, 2, 2, 5]) if v else 0 for v in valid]
        ends = np.cumsum([0, *lengths])
        wide = pa.int64() if pa.types.is_large_list(t) else pa.int32()
        offsets = pa.array([int(e) if i == n or valid[i] else None for i, e in enumerate(ends)], wide)
        if pa.types.is_map(t):
            keys = array(rng, t.key_type, int(ends[-1]), 0)
            return pa.MapArray.from_arrays(
                offsets, keys, array(rng, t.item_type, int(ends[-1]), nulls), type=t
            )
        items = array(rng, t.value_type, int(ends[-1]), nulls)
        kind = pa.LargeListArray if pa.types.is_large_list(t) else pa.ListArray
        return kind.from_arrays(offsets, items, type=t)
    return pa.array([leaf(rng, t) if v else None for v in valid], t)


@st.composite
def tables(draw):
    n = draw(st.sampled_from([0, 1, 2, 63, 64, 300, 3000]))
    rng = random.Random(draw(st.integers(0, 2**32)))
    found = draw(st.lists(TYPES, min_size=1, max_size=3))
    columns = {
        f"c{i}": array(rng, t, n, draw(st.sampled_from([0, 0.05, 0.9, 1]))) for i, t in enumerate(found)
    }
    return pa.table(columns)


def decoded_type(t):
    """The type without dictionaries, which come as their values."""
    return rebuilt(t, lambda leaf: leaf.value_type if pa.types.is_dictionary(leaf) else leaf)


def rebuilt(t, of_leaf):
    if pa.types.is_struct(t):
        return pa.struct([f.with_type(rebuilt(f.type, of_leaf)) for f in t])
    if pa.types.is_map(t):
        return pa.map_(rebuilt(t.key_type, of_leaf), rebuilt(t.item_type, of_leaf))
    if pa.types.is_fixed_size_list(t):
        return pa.list_(rebuilt(t.value_type, of_leaf), t.list_size)
    if pa.types.is_large_list(t):
        return pa.large_list(rebuilt(t.value_type, of_leaf))
    return pa.list_(rebuilt(t.value_type, of_leaf)) if pa.types.is_list(t) else of_leaf(t)


def stored_type(t):
    """... and in the units that Parquet has."""

    def of_leaf(leaf):
        if pa.types.is_date64(leaf):
            return pa.date32()
        if pa.types.is_time32(leaf):
            return pa.time32("ms")
        return pa.timestamp("ms", leaf.tz) if pa.types.is_timestamp(leaf) and leaf.unit == "s" else leaf

    return rebuilt(decoded_type(t), of_leaf)


def same(found, expected, who):
    assert found.column_names == expected.column_names
    for name in expected.column_names:
        assert repr(found[name].to_pylist()) == repr(expected[name].to_pylist()), (
            who,
            name,
            expected[name].type,
        )


many = settings(
    max_examples=int(os.environ.get("HEADRACE_EXAMPLES", 25)),
    deadline=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
    ],
)

# -------------------------------------------------------------------------------------------- pyarrow -> here

WRITTEN_BY_PYARROW = st.fixed_dictionaries(
    {
        "compression": st.sampled_from(["none", "snappy", "zstd", "lz4", "gzip", "brotli"]),
        "data_page_size": st.sampled_from([1, 100, 4000, 1 << 20]),
        "data_page_version": st.sampled_from(["1.0", "2.0"]),
        "row_group_size": st.sampled_from([1, 100, 1 << 20]),
        "write_statistics": st.booleans(),
        "write_page_index": st.booleans(),
        "write_page_checksum": st.booleans(),
        "write_batch_size": st.sampled_from([10, 1024]),
        "store_schema": st.booleans(),
        "use_dictionary": st.booleans(),
        "dictionary_pagesize_limit": st.sampled_from([20, 1 << 20]),
        "use_byte_stream_split": st.booleans(),
    }
)


@pytest.mark.parametrize("values", [["a", "a", "b"], ["", ""], ["x", "long text", "x", "y", "long text"]])
def test_a_dictionary_with_duplicates(tmp_path, values):
    """The story: pyarrow's dictionary page keeps room for each duplicate, and does not write it."""
    indices = pa.array([*range(len(values)), None], pa.int8())
    column = pa.DictionaryArray.from_arrays(indices, pa.array(values))
    pq.write_table(pa.table({"a": column}), tmp_path / "a.parquet", store_schema=False)
    assert hd.read_parquet(str(tmp_path / "a.parquet")).to_arrow()["a"].to_pylist() == [*values, None]


@many
@given(table=tables(), options=WRITTEN_BY_PYARROW, threads=st.sampled_from([1, 2]))
def test_what_pyarrow_writes(tmp_path_factory, table, options, threads):
    path = str(tmp_path_factory.mktemp("r") / "x.parquet")
    if options["use_byte_stream_split"]:
        options["use_dictionary"] = False
        options["use_byte_stream_split"] = [
            name for name in table.column_names if pa.types.is_floating(table[name].type)
        ] or False
    if options["row_group_size"] == 1 and len(table) > 300:
        options["row_group_size"] = 100
    if not options["store_schema"]:
        options["data_page_size"] = 1 << 20
    try:
        pq.write_table(table, path, **options)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return  # of some types it writes no statistics, of others nothing
    # Its own reader loses rows of lists that pages of a few bytes break (26.0.1): the table itself counts.
    expected = table if options["store_schema"] else pq.read_table(path)
    found = hd.read_parquet(path).to_arrow()
    same(found, expected, "headrace")
    if options["store_schema"]:
        assert found.schema.types == [decoded_type(t) for t in pq.read_schema(path).types]


# ----------------------------------------------------------------------------------------- here -> the others

WRITTEN_HERE = st.fixed_dictionaries(
    {
        "compression": st.sampled_from(["none", "snappy", "zstd", "lz4", "gzip", "brotli"]),
        "data_page_size": st.sampled_from([40, 1000, 1 << 20]),
        "data_page_version": st.sampled_from(["1.0", "2.0"]),
        "row_group_size": st.sampled_from([7, 500, 1 << 20]),
        "write_statistics": st.booleans(),
        "write_page_index": st.booleans(),
        "use_dictionary": st.booleans(),
    }
)


def duckdb_reads(t):
    """Types that DuckDB has and reads unchanged from Parquet."""
    if pa.types.is_nested(t):
        return all(duckdb_reads(t.field(i).type) for i in range(t.num_fields))
    return not (pa.types.is_null(t) or pa.types.is_duration(t) or pa.types.is_decimal256(t))


def polars_reads(t):
    """Types that Polars has and reads unchanged; it has no maps."""
    if pa.types.is_nested(t):
        return not pa.types.is_map(t) and all(polars_reads(t.field(i).type) for i in range(t.num_fields))
    return not (pa.types.is_null(t) or pa.types.is_decimal256(t) or pa.types.is_float16(t))


@many
@given(table=tables(), options=WRITTEN_HERE)
def test_what_others_read(tmp_path_factory, table, options):
    path = str(tmp_path_factory.mktemp("w") / "x.parquet")
    hd.from_arrow(table).write_parquet(path, single_file=True, **options)
    back = pq.read_table(path)
    same(back, table, "pyarrow")
    assert back.schema.types == [stored_type(t) for t in table.schema.types]
    same(hd.read_parquet(path).to_arrow(), table, "headrace")
    zones_have_names = "+05:30" not in str(table.schema)  # Polars reads no file that has another
    for name in table.column_names:
        t, nulls = table[name].type, table[name].null_count
        if duckdb_reads(t):
            counted = duckdb.sql(f"select count(*), count({name}) from '{path}'").fetchall()
            assert counted == [(len(table), len(table) - nulls)], ("DuckDB", t)
            if pa.types.is_integer(t) or pa.types.is_string(t) or pa.types.is_boolean(t):
                rows = duckdb.sql(f"select {name} from '{path}'").fetchall()
                assert [r[0] for r in rows] == table[name].to_pylist(), ("DuckDB", t)
        if polars_reads(t) and zones_have_names:
            column = polars.read_parquet(path, columns=[name])[name]
            assert (len(column), column.null_count()) == (len(table), nulls), ("Polars", t)
            if pa.types.is_primitive(t) and not pa.types.is_temporal(t):
                assert column.to_list() == table[name].to_pylist(), ("Polars", t)


# ------------------------------------------------------------------------------------------------- very large


def texts(n, bytes_each):
    """n texts that compress well and differ: their number, then letters."""
    fill = pa.scalar("x" * (bytes_each - 10), pa.large_string())
    numbers = pc.utf8_lpad(pa.array(np.arange(n)).cast(pa.string()), 10, "0").cast(pa.large_string())
    return pc.binary_join_element_wise(numbers, fill, pa.scalar("", pa.large_string()))


@needs_much
@pytest.mark.timeout(900)
def test_more_than_2_gib_of_text(tmp_path):
    """One row group, one column: more text than 32-bit offsets can hold, also in a list column."""
    n, size = 2_400_000, 1000
    column = texts(n, size)
    pq.write_table(
        pa.table({"s": column}),
        tmp_path / "a.parquet",
        row_group_size=n,
        use_dictionary=False,
        store_schema=False,
    )
    assert pq.ParquetFile(tmp_path / "a.parquet").metadata.num_row_groups == 1
    at = 0
    for batch in hd.read_parquet(str(tmp_path / "a.parquet")).iter_batches(
        batch_size=100_000, batch_format="pyarrow"
    ):
        found = batch["s"].combine_chunks() if batch["s"].num_chunks > 1 else batch["s"].chunk(0)
        assert found.cast(pa.large_string()).equals(column.slice(at, len(found)))
        at += len(found)
    assert at == n
    path = str(tmp_path / "b.parquet")
    hd.from_arrow(pa.table({"s": column})).write_parquet(
        path, single_file=True, row_group_size=n, use_dictionary=False
    )
    at = 0
    for batch in pq.ParquetFile(path).iter_batches(batch_size=100_000):
        assert batch.column(0).cast(pa.large_string()).equals(column.slice(at, len(batch)))
        at += len(batch)
    assert at == n


READ = """
import re, sys, headrace.data as hd
rows = 0
try:
    for batch in hd.read_parquet(sys.argv[1]).iter_batches(batch_size=1024):
        rows += len(batch["x"])
finally:
    print(rows, int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) << 10)
"""


def read_within(path, limit):
    env = {**os.environ, "HEADRACE_MEMORY_LIMIT": limit}
    return subprocess.run([sys.executable, "-c", READ, path], env=env, capture_output=True, text=True)


def write_one_page(path, column, **options):
    """One row group, one column, one page."""
    pq.write_table(
        pa.table({"x": column}),
        path,
        row_group_size=len(column),
        data_page_size=(1 << 31) - 1,
        max_rows_per_page=len(column),
        use_dictionary=False,
        **options,
    )


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_a_page_larger_than_the_limit(tmp_path, compression):
    path = str(tmp_path / "one.parquet")
    column = pa.array(np.arange(12_000_000) * 7919)
    write_one_page(path, column, compression=compression)
    refused = read_within(path, "64MB")
    assert (
        refused.returncode
        and "one.parquet: row group 0, column 'x', page 0: a page that takes" in refused.stderr
    )
    assert "the memory limit is " in refused.stderr
    done = read_within(path, "300MB")
    assert not done.returncode, done.stderr
    rows, peak = map(int, done.stdout.split())
    assert rows == len(column) and peak < 300e6 + 150e6


@needs_much
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", ["numbers", "texts"])
@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_a_page_of_1_gb(tmp_path, kind, compression):
    """A page stays in memory whole, twice if it is compressed: with a lower limit it is an error, and the
    memory is never taken.
    """
    path = str(tmp_path / "x.parquet")
    if kind == "numbers":
        column = pa.array(np.arange(125_000_000) * 7919)
    else:
        column = texts(1_000_000, 1000)
    write_one_page(path, column, compression=compression, write_statistics=False)
    for limit in ("256MB", "4GB"):
        done = read_within(path, limit)
        rows, peak = map(int, done.stdout.split())
        if limit == "4GB":
            assert (rows, done.returncode) == (len(column), 0), done.stderr
            assert peak < 2.5e9
        else:
            assert rows == 0 and "x.parquet: row group 0, column 'x', page 0: a page that" in done.stderr
            assert peak < 256e6 + 150e6
