"""Parquet files that pyarrow wrote, read back: codecs, checksums, metadata, many columns and row groups."""

import os
import subprocess
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace.data as hd
from headrace.exceptions import DataError

ROOT = Path(__file__).resolve().parents[2]
COMMAND = Path(os.environ.get("HEADRACE_BUILD", ROOT / "build" / "release")) / "src" / "cli" / "headrace"


def stat(path):
    return subprocess.run([COMMAND, "stat", path], capture_output=True, text=True, check=True).stdout


def values(rows=5000, seed=0):
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "i": rng.integers(-1000, 1000, rows),
            "s": pa.array([None if i % 7 == 0 else f"text {i % 50}" for i in range(rows)]),
            "f": rng.standard_normal(rows),
            "l": pa.array([list(range(i % 5)) for i in range(rows)], pa.list_(pa.int32())),
        }
    )


def read(path, **options):
    return pa.table(hd.read_parquet(str(path), **options).to_arrow())


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "brotli", "zstd", "lz4"])
def test_codecs(tmp_path, codec, version):
    table = values()
    pq.write_table(
        table, tmp_path / "a.parquet", compression=codec, data_page_version=version, data_page_size=4096
    )
    assert read(tmp_path / "a.parquet").equals(table)


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_checksums(tmp_path, version):
    path = tmp_path / "sums.parquet"
    table = pa.table({"x": pa.array(range(10000), pa.int64())})
    pq.write_table(
        table,
        path,
        compression="none",
        use_dictionary=False,
        data_page_size=8000,
        write_page_checksum=True,
        data_page_version=version,
    )
    assert read(path).equals(table)
    data = bytearray(path.read_bytes())
    at = data.index((7000).to_bytes(8, "little") + (7001).to_bytes(8, "little"))
    data[at] ^= 1
    path.write_bytes(data)
    with pytest.raises(
        DataError, match=r"sums\.parquet: row group 0, column 'x', page [1-9]\d*: checksum of "
    ):
        read(path)
    damaged = read(path, verify_checksums=False)["x"].to_pylist()
    assert damaged[7000] == 7001 and damaged[:7000] == list(range(7000))


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_checksums_are_written(tmp_path, version, compression):
    """Checksums of every page, dictionaries included, over the stored bytes: pyarrow detects each changed
    one.
    """
    table = values()
    kwargs = {"compression": compression, "data_page_version": version, "data_page_size": 4096}
    ds = hd.from_arrow(table)
    ds.write_parquet(tmp_path / "with.parquet", single_file=True, **kwargs)
    ds.write_parquet(tmp_path / "without.parquet", single_file=True, write_page_checksum=False, **kwargs)
    data, plain = [(tmp_path / f"{name}.parquet").read_bytes() for name in ("with", "without")]
    assert len(plain) < len(data) < 1.05 * len(plain)
    assert pq.read_table(tmp_path / "with.parquet", page_checksum_verification=True).equals(table)
    meta = pq.ParquetFile(tmp_path / "with.parquet").metadata.row_group(0)
    dictionaries = 0
    for i in range(table.num_columns):
        column = meta.column(i)
        begin = column.dictionary_page_offset if column.has_dictionary_page else column.data_page_offset
        last = [begin + column.total_compressed_size - 1]  # bytes of the last page, and of the dictionary
        if column.has_dictionary_page:
            last.append(column.data_page_offset - 1)
            dictionaries += 1
        for at in last:
            path = tmp_path / "damaged.parquet"
            path.write_bytes(data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :])
            with pytest.raises(OSError, match="CRC"):
                pq.read_table(path, page_checksum_verification=True, columns=table.column_names[i : i + 1])
            with pytest.raises(DataError, match=r"damaged\.parquet: row group 0, .*: checksum of "):
                read(path)
    assert dictionaries > 0


def varint(n):
    n, out = 2 * n, b""  # zigzag of what is not negative
    while n > 127:
        n, out = n >> 7, out + bytes([n & 127 | 128])
    return out + bytes([n])


@pytest.mark.parametrize(
    ("writer", "fixed"),
    [("parquet-mr version 1.2.8", False), ("parquet-mr version 0.9", False)]
    + [("parquet-mr version 1.2.9", True), ("parquet-mr version 1.10.0", True)]
    + [("parquet-mr compatible x version 1.0", True), ("writer", True)],
)
def test_column_chunks_without_the_dictionarys_header(tmp_path, writer, fixed):
    """Sizes as parquet-mr before 1.2.9 counted them."""
    path = tmp_path / "old.parquet"
    want = pa.table({"s": [f"text {i % 50}" for i in range(1000)]})
    pq.write_table(want, path, compression="none", write_statistics=False)
    meta, data = pq.ParquetFile(path).metadata, path.read_bytes()
    size = meta.row_group(0).column(0).total_compressed_size
    assert meta.row_group(0).column(0).has_dictionary_page
    sizes = b"\x16" + varint(size) + b"\x16"  # total_uncompressed_size, total_compressed_size
    assert data.count(sizes + varint(size)) == 1
    data = data.replace(sizes + varint(size), sizes + varint(size - 14))
    name = meta.created_by.encode()
    assert data.count(name) == 1
    path.write_bytes(data.replace(name, writer.encode().ljust(len(name))[: len(name)]))
    if fixed:
        with pytest.raises(DataError, match="old.parquet: row group 0, column 's'.*the column chunk ends at"):
            read(path)
    else:
        assert read(path) == want


@pytest.mark.parametrize("writer", ["parquet-cpp version 1.5.1-SNAPSHOT", "parquet-cpp version 2.0.0", "cpp"])
def test_pages_that_deny_that_they_are_compressed(tmp_path, writer):
    """Pages of version 2 as parquet-cpp before 2.0.0 wrote them."""
    path = tmp_path / "old.parquet"
    want = pa.table({"s": [f"text {i}, and the same again: text {i}" for i in range(1000)]})
    how = {"compression": "snappy", "use_dictionary": False, "write_statistics": False}
    pq.write_table(want, path, data_page_version="2.0", **how)
    data, name = path.read_bytes(), pq.ParquetFile(path).metadata.created_by.encode()
    at = data.index(b"\x11\x1c\0\0\0", 4, 60)  # the one page's header ends: is_compressed, no statistics
    data = data[:at] + b"\x12" + data[at + 1 :]
    path.write_bytes(data.replace(name, writer.encode().ljust(len(name))[: len(name)]))
    assert path.read_bytes().count(writer[:20].encode()) == 1
    if "1.5.1" in writer:
        assert read(path) == want
    else:
        with pytest.raises(DataError, match="old.parquet: row group 0, column 's', page 0"):
            read(path)


def test_many_columns(tmp_path):
    """28,000 columns: footer and schema stay quick, and reading three columns costs only three columns."""
    n = 28000
    row = pa.table([pa.array([i, i + 1], pa.int32()) for i in range(n)], names=[f"c{i}" for i in range(n)])
    pq.write_table(
        row, tmp_path / "wide.parquet", compression="none", use_dictionary=False, write_statistics=False
    )
    ds = hd.read_parquet(str(tmp_path / "wide.parquet"), columns=["c27999", "c0", "c14000"])
    assert ds.take_all() == [{"c27999": 27999 + k, "c0": k, "c14000": 14000 + k} for k in range(2)]
    whole = read(tmp_path / "wide.parquet")
    assert whole.num_columns == n and whole["c123"].to_pylist() == [123, 124]


def test_many_row_groups(tmp_path):
    path = tmp_path / "groups.parquet"
    with pq.ParquetWriter(path, pa.schema([("x", pa.int64())])) as w:
        for i in range(10000):
            w.write_table(pa.table({"x": [3 * i, 3 * i + 1, 3 * i + 2]}))
    ds = hd.read_parquet(str(path))
    assert ds.count() == 30000
    assert [b["x"].tolist() for b in ds.iter_batches(batch_size=30000, batch_format="numpy")] == [
        list(range(30000))
    ]


@pytest.mark.skipif(not COMMAND.exists(), reason="needs build/release (make lib)")
def test_stat(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(
        values(),
        path,
        row_group_size=2000,
        compression={"i": "zstd", "s": "snappy", "f": "none", "l.list.element": "gzip"},
        use_dictionary=["s"],
        column_encoding={"f": "BYTE_STREAM_SPLIT"},
        write_page_index=True,
    )
    lines = stat(path).splitlines()
    assert lines[0] == f"{path}: 5000 rows in 3 fragments"
    assert lines[1].startswith("4 columns stored as 4, written by 'parquet-cpp")
    assert lines[2].startswith("fragment 0: 2000 rows, ")
    assert lines[3].startswith("  i: zstd, plain+rle, ") and ", 0 nulls, -1000 .. 999, page index" in lines[3]
    assert ", 286 nulls, text 0 .. text 9, page index" in lines[4]
    assert lines[5].startswith("  f: none, rle+byte_split, 16")
    assert lines[6].startswith("  l.element: gzip, ") and "values" in lines[6]
    assert lines[-5].startswith("fragment 2: 1000 rows, ")
    text = tmp_path / "a.txt"
    text.write_text("a\nb\n")
    assert stat(text).startswith(f"{text}: 1 fragment\nfragment 0: 4 bytes stored")


def test_a_file_that_is_cut_between_groups_is_named_once(tmp_path):
    """The story: the error had the path twice and named "page -1"."""
    path = str(tmp_path / "x.parquet")
    table = pa.table({"x": np.arange(400_000)})
    pq.write_table(table, path, row_group_size=100_000, compression=None, use_dictionary=False)
    place = pq.ParquetFile(path).metadata.row_group(3).column(0).data_page_offset
    batches = iter(hd.read_parquet(path).iter_batches(batch_size=1000, prefetch_batches=0))
    next(batches)
    os.truncate(path, place)
    with pytest.raises(DataError) as e:
        list(batches)
    text = str(e.value)
    assert text.startswith(f"{path}: row group ") and text.count(path) == 1 and "page -1" not in text, text
