"""Damaged files of every format but Parquet: no other rows in silence where a careful reader refuses.

Careful readers are pyarrow with full validation, NumPy, Python's json, csv, tarfile, zipfile, gzip, Pillow,
zarr, and for TFRecord the definition of the format. HEADRACE_THOROUGH=1 reads thousands of damaged copies.
"""

import ctypes
import datetime as dt
import io

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.ipc
import pytest
from corruption import cases, reader_of_paths, run_cases

import headrace.data as hd

N = 24  # cases of each file by default: three of each kind


def bench(name, ours, theirs, data, *, n=N, covered=False, **more):
    report = run_cases(ours, theirs, data, cases(n, 60 * n), name=name, **more)
    print(report.line())
    report.check(covered=covered)


def ours_of(read, path, **options):
    return reader_of_paths(lambda p: read(str(p), **options).to_arrow(), path)


# ---------------------------------------------------------------------------------- what is written


def numbers(n=300):
    rng = np.random.default_rng(5)
    return pa.table(
        {
            "id": pa.array(range(n), pa.int64()),
            "x": pa.array(rng.normal(size=n), pa.float64()),
            "small": pa.array(rng.integers(0, 100, n).astype("i2"), mask=rng.random(n) < 0.2),
            "name": pa.array([None if i % 11 == 3 else f"row {i} é" for i in range(n)]),
            "flag": pa.array(rng.random(n) < 0.5),
        }
    )


PAIRS = pa.map_(pa.string(), pa.int8())


def nested(n=120):
    rng = np.random.default_rng(6)
    base = dt.datetime(2024, 2, 28, 23, 59, 58)
    return pa.table(
        {
            "list": pa.array(
                [[int(v) for v in rng.integers(0, 9, i % 4)] for i in range(n)], pa.list_(pa.int32())
            ),
            "struct": pa.array([{"a": i, "b": f"s{i}"} if i % 7 else None for i in range(n)]),
            "word": pa.array([f"word {i % 5}" for i in range(n)]).dictionary_encode(),
            "time": pa.array([base + dt.timedelta(seconds=i) for i in range(n)], pa.timestamp("us")),
            "day": pa.array([base.date() + dt.timedelta(days=i) for i in range(n)], pa.date64()),
            "clock": pa.array([i * 700 for i in range(n)], pa.time32("s")),
            "price": pa.array([None if i % 9 == 0 else i for i in range(n)], pa.int32()).cast(
                pa.decimal128(12, 2)
            ),
            "map": pa.array(
                [[(f"k{j}", j) for j in range(i % 3)] for i in range(n)], pa.map_(pa.string(), pa.int8())
            ),
            "view": pa.array([f"{i} " * (i % 9) for i in range(n)], pa.string_view()),
            "fixed": pa.array([[i, i + 1] for i in range(n)], pa.list_(pa.int16(), 2)),
        }
    )


def ipc(table, stream, compression=None, rows=100):
    out = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=compression, unify_dictionaries=not stream)
    open_writer = pa.ipc.new_stream if stream else pa.ipc.new_file
    with open_writer(out, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=rows)
    return out.getvalue()


def written_by_us(table, tmp_path, write, **options):
    folder = tmp_path / "written"
    getattr(hd.from_arrow(table), write)(str(folder), **options)
    (path,) = [p for p in sorted(folder.rglob("*")) if p.is_file()]
    data = path.read_bytes()
    path.unlink()
    return data


# ---------------------------------------------------------------------------------------- Arrow IPC


def read_ipc(data):
    open_reader = pa.ipc.open_file if data[:6] == b"ARROW1" else pa.ipc.open_stream
    table = open_reader(pa.BufferReader(data)).read_all()
    table.validate(full=True)
    return table


def old_zstd():
    """Whether the engine's libzstd does not see extra bits behind a block's sequences; pyarrow's does."""
    try:
        return ctypes.CDLL("libzstd.so.1").ZSTD_versionNumber() < 10506
    except OSError:
        return False


def as_old_zstd(read):
    """A careful reader whose zstd is as old as the engine's: what only a newer one sees is no verdict."""

    def read_leniently(data):
        try:
            return read(data)
        except OSError as error:
            if "ZSTD decompression failed" in str(error) and old_zstd():
                return "damaged, as a newer libzstd says"
            raise

    return read_leniently


def polars_ipc(table, stream):
    out = io.BytesIO()
    frame = pl.from_arrow(table)
    (frame.write_ipc_stream if stream else frame.write_ipc)(out, compression="uncompressed")
    return out.getvalue()


def feather(table, compression):
    out = io.BytesIO()
    pyarrow.feather.write_feather(table.to_pandas(), out, compression=compression)
    return out.getvalue()


IPC = {
    "pyarrow file": lambda: ipc(numbers(), False),
    "pyarrow stream": lambda: ipc(numbers(), True),
    "pyarrow file, nested": lambda: ipc(nested(), False),
    "pyarrow stream, nested": lambda: ipc(nested(), True),
    "pyarrow file, lz4": lambda: ipc(numbers(), False, "lz4"),
    "pyarrow file, zstd": lambda: ipc(nested(), False, "zstd"),
    "pandas feather": lambda: feather(numbers(), "lz4"),
    "polars file": lambda: polars_ipc(numbers(), False),
    "polars stream": lambda: polars_ipc(numbers(), True),
}


@pytest.mark.parametrize("name", IPC)
def test_arrow(tmp_path, name):
    ours = ours_of(hd.read_arrow, tmp_path / "a.arrow", check_values="all")
    bench(name, ours, as_old_zstd(read_ipc), IPC[name]())


@pytest.mark.parametrize(
    "options", [{}, {"stream": True}, {"compression": "lz4"}, {"compression": "zstd"}], ids=str
)
def test_arrow_of_ours(tmp_path, options):
    data = written_by_us(nested(), tmp_path, "write_arrow", **options)
    ours = ours_of(hd.read_arrow, tmp_path / "a.arrow", check_values="all")
    bench(f"ours {options}", ours, as_old_zstd(read_ipc), data)
