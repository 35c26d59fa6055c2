#!/usr/bin/env python3
"""Writes the Parquet files that test_parquet_read.c reads, into the folder parquet/ beside this script.

One table of 150 rows in which every value follows from the row's number, stored in many ways.
The test makes the same values with the same rules, so that no file holds what another must agree with.
Run again only when the rules change: the bytes differ from one pyarrow to the next.
"""

import datetime
import decimal
import json
import pathlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

FOLDER = pathlib.Path(__file__).parent / "parquet"
ROWS = 150


def rows(rule):
    return [rule(i) for i in range(ROWS)]


def text(i):
    return None if i % 5 == 4 else "" if i % 11 == 0 else f"row {i}" if i % 17 else f"größe {i}"


def numbers(i):
    """A list with null items, empty, or null."""
    return None if i % 10 == 9 else [None if (i + j) % 13 == 0 else i + j for j in range(i % 4)]


def lists(i):
    return [[i * 100 + j * 10 + k for k in range((i + j) % 4)] for j in range(i % 3)]


def pair(i):
    return None if i % 8 == 7 else {"x": None if i % 6 == 5 else i, "y": [f"y{i}"] * (i % 3)}


def flat():
    day = datetime.date(1970, 1, 1)
    second = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    columns = {
        "id": (pa.int64(), False, lambda i: i),
        "i64": (pa.int64(), True, lambda i: None if i % 7 == 3 else i * i - 50),
        "i8": (pa.int8(), True, lambda i: None if i % 5 == 3 else i % 100 - 50),
        "u16": (pa.uint16(), True, lambda i: None if i % 6 == 2 else i * 199 % 65536),
        "u64": (pa.uint64(), True, lambda i: 2**63 + i),
        "f16": (pa.float16(), True, lambda i: np.float16(i / 4)),
        "f32": (pa.float32(), True, lambda i: None if i < 100 else i / 4),
        "f64": (pa.float64(), True, lambda i: None if i % 3 == 0 else i * 1.5),
        "flag": (pa.bool_(), True, lambda i: None if i % 9 == 2 else i % 3 == 1),
        "sure": (pa.bool_(), False, lambda i: i % 5 < 2),
        "text": (pa.string(), True, text),
        "long": (pa.large_string(), True, lambda i: "ab" * (i % 40)),
        "bytes": (pa.binary(), True, lambda i: bytes([i % 256]) * (i % 6)),
        "fixed": (pa.binary(3), True, lambda i: None if i % 4 == 0 else bytes([i % 256, 1, 2])),
        "day": (pa.date32(), True, lambda i: day + datetime.timedelta(days=i * 10)),
        "time": (pa.timestamp("us", "Europe/Berlin"), True, lambda i: second + datetime.timedelta(seconds=i)),
        "span": (pa.duration("ms"), True, lambda i: datetime.timedelta(milliseconds=i * 7)),
        "dec": (
            pa.decimal128(20, 2),
            True,
            lambda i: None if i % 6 == 1 else decimal.Decimal(i * i - 1000) / 100,
        ),
        "dec9": (pa.decimal128(9, 2), True, lambda i: decimal.Decimal(-i) / 100),
        "wide": (pa.decimal256(50, 0), True, lambda i: decimal.Decimal(i) * 10**15),
        "none": (pa.null(), True, lambda i: None),
        "dict": (
            pa.dictionary(pa.int32(), pa.string()),
            True,
            lambda i: None if i % 4 == 3 else f"city {i % 5}",
        ),
    }
    fields = [pa.field(name, t, nullable=n) for name, (t, n, _) in columns.items()]
    return pa.table([pa.array(rows(rule), t) for t, _, rule in columns.values()], schema=pa.schema(fields))


def nested():
    item = pa.field("item", pa.string(), nullable=False)
    deep = pa.list_(pa.struct([("a", pa.list_(pa.list_(pa.int32()))), ("b", pa.bool_())]))
    columns = {
        "list": (pa.list_(pa.int32()), numbers),
        "large": (pa.large_list(pa.int32()), numbers),
        "lists": (pa.list_(pa.list_(pa.int64())), lists),
        "pair": (pa.struct([("x", pa.int32()), ("y", pa.list_(item))]), pair),
        "map": (
            pa.map_(pa.string(), pa.int32()),
            lambda i: [(f"k{j}", None if j == 1 else i) for j in range(i % 3)],
        ),
        "fixed": (pa.list_(pa.int16(), 3), lambda i: None if i % 9 == 8 else [i, i + 1, i + 2]),
        "deep": (
            deep,
            lambda i: [{"a": lists(i + j), "b": i % 2 == 0} for j in range(i % 3)] if i % 7 else None,
        ),
    }
    tensor = pa.fixed_shape_tensor(pa.float32(), [2, 2])
    storage = pa.array([[i, i + 0.5, -i, 0] for i in range(ROWS)], pa.list_(pa.float32(), 4))
    arrays = [pa.array(rows(rule), t) for t, rule in columns.values()]
    arrays.append(pa.ExtensionArray.from_storage(tensor, storage))
    return pa.table(arrays, names=[*columns, "tensor"])


def long_lists():
    """Lists far longer than a page, and empty ones: repetition levels in long runs, rows across pages."""
    lengths = [3000, 0, 1, 700, 0, 5000] * 5
    return pa.table(
        {"tokens": [[(i * 31 + j) % 1000 for j in range(n)] for i, n in enumerate(lengths)]},
        schema=pa.schema([("tokens", pa.list_(pa.int32()))]),
    )


def skewed():
    """Some values are far longer than metadata lets one expect: in a column, and in one of two leaves."""
    long = [("a" if i % 50 < 45 else "b" * 9000) for i in range(400)]
    both = [{"n": i, "s": [long[i]] * (i % 3)} for i in range(400)]
    return pa.table({"id": range(400), "text": long, "both": both})


VARIANTS = {
    "plain": dict(compression="none", use_dictionary=False),
    "dict": dict(compression="snappy", use_dictionary=True),
    "v2": dict(compression="zstd", use_dictionary=True, data_page_version="2.0"),
    "gzip": dict(compression="gzip", use_dictionary=False, data_page_version="2.0"),
    "pages": dict(compression="zstd", use_dictionary=False, data_page_size=64, write_batch_size=16),
    "index": dict(
        compression="none", use_dictionary=True, data_page_size=64, write_batch_size=16, write_page_index=True
    ),
    "mixed": dict(
        compression="snappy",
        use_dictionary=True,
        dictionary_pagesize_limit=64,
        data_page_size=128,
        write_batch_size=16,
    ),
    "groups": dict(compression="none", use_dictionary=True, row_group_size=60),
}


def filter_text(i):
    """Few values, one of them rare, and nulls; many at the end of each row group, not by dictionary."""
    if i % 100 >= 60:
        return f"long text number {i}"
    return "rare" if i % 100 == 35 else None if i % 11 == 0 else f"k{i % 10}"


def main():
    FOLDER.mkdir(exist_ok=True)
    for name, options in VARIANTS.items():
        for kind, table in {"flat": flat(), "nested": nested()}.items():
            pq.write_table(table, FOLDER / f"{kind}_{name}.parquet", write_statistics=False, **options)
    for version in ("1.0", "2.0"):
        pq.write_table(
            long_lists(),
            FOLDER / f"long_v{version[0]}.parquet",
            compression="zstd",
            data_page_size=1000,
            use_dictionary=False,
            write_batch_size=100,
            data_page_version=version,
            write_statistics=False,
        )
    kinds = {
        "DELTA_BINARY_PACKED": ["id", "i64", "i8", "u16", "u64", "day", "time", "span"],
        "DELTA_LENGTH_BYTE_ARRAY": ["long", "dict"],
        "DELTA_BYTE_ARRAY": ["text", "bytes", "fixed", "dec"],
        "BYTE_STREAM_SPLIT": ["f16", "f32", "f64", "dec9", "wide"],
        "RLE": ["flag", "sure"],
    }
    encodings = {column: kind for kind, columns in kinds.items() for column in columns}
    options = dict(
        use_dictionary=False, column_encoding=encodings, write_statistics=False, data_page_size=256
    )
    pq.write_table(flat(), FOLDER / "flat_delta.parquet", compression="zstd", write_batch_size=32, **options)
    times = pa.array([None if i % 4 == 3 else i * 10**9 for i in range(40)], pa.timestamp("ns"))
    pq.write_table(
        pa.table({"t": times}),
        FOLDER / "int96.parquet",
        use_deprecated_int96_timestamps=True,
        store_schema=False,
    )
    pq.write_table(flat().slice(0, 0), FOLDER / "empty.parquet")
    for name, batch in (("skewed", 1024), ("skewed_pages", 10)):
        pq.write_table(
            skewed(),
            FOLDER / f"{name}.parquet",
            compression="zstd",
            write_statistics=False,
            write_batch_size=batch,
            data_page_size=100 if batch == 10 else 1 << 20,
        )
    # for test_parquet_prune.c
    pq.write_table(
        pa.table({"id": range(ROWS), "even": [2 * (i * 77 % ROWS) for i in range(ROWS)]}),
        FOLDER / "filter.parquet",
        row_group_size=100,
        use_dictionary=False,
        write_batch_size=10,
        data_page_size=20,
        write_page_index=True,
        bloom_filter_options={"even": {"ndv": 100}},
    )
    pq.write_table(
        pa.table({"id": range(ROWS), "text": [filter_text(i) for i in range(ROWS)]}),
        FOLDER / "filter_text.parquet",
        row_group_size=100,
        dictionary_pagesize_limit=200,
        write_batch_size=10,
        data_page_size=20,
        write_statistics=False,
    )
    other = pa.table({"id": pa.array([1.5, 2.5]), "text": ["a", "b"]})
    pq.write_table(other, FOLDER / "other_types.parquet")
    pq.write_table(other.select(["text"]), FOLDER / "no_id.parquet")
    sizes = {p.name: p.stat().st_size for p in sorted(FOLDER.glob("*.parquet"))}
    print(json.dumps(sizes, indent=1), sum(sizes.values()))


if __name__ == "__main__":
    main()
