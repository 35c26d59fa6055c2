"""Parquet files of several writers for corruption.py, and the two readers to compare.

`python tests/python/corruption_parquet.py [CASES [SEED]]` prints the verdicts of CASES (1000) damaged copies
of each file.
"""

import decimal
import io
import os
import struct
import sys
import tempfile
from collections import defaultdict
from datetime import date, datetime

import duckdb
import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pyarrow.parquet as pq
from corruption import Report, reader_of_paths, run_cases

import headrace.data as hd

# ---------------------------------------------------------------------------------------------- rows


def some_null(rng, values, every):
    return [None if rng.random() < 1 / every else v for v in values]


def flat(n, seed=1):
    """Columns without nesting: with and without nulls, with few and with many values."""
    rng = np.random.default_rng(seed)
    words = [f"word {v}" for v in rng.integers(0, 40, n)]
    cents = rng.integers(0, 10**6, n).tolist()
    return pa.table(
        {
            "id": pa.array(range(n), pa.int64()),
            "small": pa.array(some_null(rng, [int(v) for v in rng.integers(-9, 9, n)], 9), pa.int16()),
            "wide": pa.array(rng.integers(-(2**60), 2**60, n)),
            "real": pa.array(some_null(rng, [float(v) for v in rng.normal(size=n)], 20)),
            "single": pa.array(rng.normal(size=n).astype("f4")),
            "flag": pa.array(some_null(rng, [bool(v) for v in rng.integers(0, 2, n)], 5)),
            "word": pa.array(some_null(rng, words, 7)),
            "unique": pa.array([f"text {v} of its own" for v in rng.integers(0, 2**40, n)]),
            "day": pa.array([date.fromordinal(730000 + int(v)) for v in rng.integers(0, 900, n)]),
            "time": pa.array(
                [datetime(2024, 1, 1 + v % 28, v % 24) for v in rng.integers(0, 900, n).tolist()]
            ),
            "price": pa.array([decimal.Decimal(v).scaleb(-2) for v in cents], pa.decimal128(12, 2)),
        }
    )


def nested(n, seed=2):
    """Lists, structs, lists of structs, lists of lists, maps; each may be null and empty."""
    rng = np.random.default_rng(seed)

    def items(most, make):
        return [make(int(v)) for v in rng.integers(0, 1000, int(rng.integers(0, most)))]

    rows = {
        "ints": [items(6, lambda v: v if v % 13 else None) for _ in range(n)],
        "points": [{"x": int(v), "y": None if v % 5 == 0 else f"y{v % 30}"} for v in rng.integers(0, 100, n)],
        "spans": [items(4, lambda v: {"a": v, "b": v / 8}) for _ in range(n)],
        "deep": [items(3, lambda v: list(range(v % 4))) for _ in range(n)],
        "pairs": [list(dict(items(3, lambda v: (f"k{v % 20}", v))).items()) for _ in range(n)],
    }
    types = {
        "ints": pa.list_(pa.int64()),
        "points": pa.struct([("x", pa.int32()), ("y", pa.string())]),
        "spans": pa.list_(pa.struct([("a", pa.int64()), ("b", pa.float64())])),
        "deep": pa.list_(pa.list_(pa.int32())),
        "pairs": pa.map_(pa.string(), pa.int32()),
    }
    return pa.table({name: pa.array(some_null(rng, values, 8), types[name]) for name, values in rows.items()})


# ---------------------------------------------------------------------------------------------- writers


def by_pyarrow(table, **options):
    out = io.BytesIO()
    pq.write_table(table, out, **{"data_page_size": 2048, "row_group_size": 700, **options})
    return out.getvalue()


def by_headrace(table, **options):
    with tempfile.TemporaryDirectory() as folder:
        hd.from_arrow(table).write_parquet(folder, **{"page_bytes": 2048, "row_group_rows": 700, **options})
        return only_file(folder)


def only_file(folder):
    (name,) = os.listdir(folder)
    with open(os.path.join(folder, name), "rb") as f:
        return f.read()


def by_pandas(table, **options):
    frame = table.to_pandas()
    assert isinstance(frame, pd.DataFrame)
    out = io.BytesIO()
    frame.to_parquet(out, **options)
    return out.getvalue()


def by_polars(table, **options):
    out = io.BytesIO()
    polars.from_arrow(table).write_parquet(out, **{"data_page_size": 2048, "row_group_size": 700, **options})
    return out.getvalue()


def by_duckdb(table, **options):
    with tempfile.NamedTemporaryFile(suffix=".parquet") as file:
        words = "".join(f", {k} {v}" for k, v in options.items())
        connection = duckdb.connect()
        connection.register("t", table)
        connection.execute(f"COPY t TO '{file.name}' (FORMAT parquet, ROW_GROUP_SIZE 2048{words})")
        with open(file.name, "rb") as f:
            return f.read()


DELTA = {"id": "DELTA_BINARY_PACKED", "small": "DELTA_BINARY_PACKED", "wide": "DELTA_BINARY_PACKED"} | {
    "real": "BYTE_STREAM_SPLIT",
    "single": "BYTE_STREAM_SPLIT",
    "word": "DELTA_BYTE_ARRAY",
    "unique": "DELTA_LENGTH_BYTE_ARRAY",
    "day": "DELTA_BINARY_PACKED",
    "time": "DELTA_BINARY_PACKED",
    "flag": "RLE",
}


def files():
    """Yields (writer, name, make, covered): make() gives a file's bytes; covered: its pages have
    checksums.
    """
    tables = {"flat": flat(1500), "nested": nested(1500)}
    for rows, table in tables.items():
        for codec in ("none", "snappy", "zstd", "gzip", "brotli", "lz4"):
            for version in ("1.0", "2.0"):
                for checksum in (False, True):
                    options = {
                        "compression": codec,
                        "data_page_version": version,
                        "write_page_checksum": checksum,
                        "write_page_index": True,
                    }
                    name = f"{rows} {codec} v{version[0]}{' crc' if checksum else ''}"
                    yield "pyarrow", name, bind(by_pyarrow, table, options), checksum
        yield "pyarrow", f"{rows} plain", bind(by_pyarrow, table, {"use_dictionary": False}), False
    for codec in ("none", "zstd"):
        options = {"use_dictionary": False, "column_encoding": DELTA, "compression": codec}
        yield "pyarrow", f"flat delta {codec}", bind(by_pyarrow, tables["flat"], options), False
    yield "pandas", "flat snappy", bind(by_pandas, tables["flat"], {}), False
    yield "pandas", "flat zstd", bind(by_pandas, tables["flat"], {"compression": "zstd"}), False
    yield "pandas", "flat none", bind(by_pandas, tables["flat"], {"compression": None}), False
    for rows, table in tables.items():
        for codec in ("uncompressed", "snappy", "zstd", "gzip", "brotli", "lz4"):
            yield "Polars", f"{rows} {codec}", bind(by_polars, table, {"compression": codec}), False
        for codec in ("uncompressed", "snappy", "zstd", "gzip", "brotli", "lz4_raw"):
            for version in ("V1", "V2"):
                options = {"COMPRESSION": codec, "PARQUET_VERSION": version}
                yield "DuckDB", f"{rows} {codec} {version}", bind(by_duckdb, table, options), False
        for codec in ("none", "snappy", "zstd", "gzip", "brotli", "lz4"):
            for version in (1, 2):
                options = {"compression": codec, "page_version": version}
                yield "headrace", f"{rows} {codec} v{version} crc", bind(by_headrace, table, options), True
        options = {"page_checksum": False}
        yield "headrace", f"{rows} zstd", bind(by_headrace, table, options), False
        options = {"page_checksum": False, "compression": "none"}
        yield "headrace", f"{rows} none", bind(by_headrace, table, options), False


def bind(write, table, options):
    return lambda: write(table, **options)


# ---------------------------------------------------------------------------------------------- readers


def read_theirs(data):
    table = pq.read_table(pa.BufferReader(data), page_checksum_verification=True)
    table.validate(full=True)
    return table


def ours(path, **options):
    return reader_of_paths(lambda p: pa.table(hd.read_parquet(p, **options).to_arrow()), path)


def data_end(data):
    """The offset where pages and indexes end and the footer begins."""
    return len(data) - 8 - struct.unpack("<I", data[-8:-4])[0]


def damage_file(read, name, data, n, seed=0):
    """Returns (Report of pages, Report of the footer). A fifth of the cases damages the footer."""
    end = data_end(data)
    options = {"name": name, "seed": seed}
    pages = run_cases(read, read_theirs, data, n - n // 5, within=(4, end), **options)
    return pages, run_cases(read, read_theirs, data, n // 5, within=(end, len(data)), **options)


def main():
    n, seed = [int(v) for v in sys.argv[1:3] + ["1000", "0"][len(sys.argv) - 1 :]]
    sums = defaultdict(lambda: Report(""))
    with tempfile.TemporaryDirectory() as folder:
        read = ours(f"{folder}/damaged.parquet")
        for writer, name, make, covered in files():
            parts = damage_file(read, f"{writer} {name}", make(), n, seed)
            for part, report in zip(("pages", "footer"), parts, strict=True):
                print(part, report.line(), flush=True)
                for case in report.bad[:5] + (report.shared[:5] if covered and part == "pages" else []):
                    print("   ", case, flush=True)
                sums[writer, "checksums" if covered else "none", part].add(report)
    for key, report in sums.items():
        print(*key, report.line())


if __name__ == "__main__":
    main()
