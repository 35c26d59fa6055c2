"""Damaged files: we never return wrong rows in silence where another reader refuses the file.

Each test reads some hundred damaged copies of files by several writers; HEADRACE_THOROUGH=1 reads thousands.
"""

import io
from pathlib import Path

import corruption_parquet as parquet
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corruption import KINDS, THOROUGH, Case, Report, cases, damage, judge, run_cases

import headrace.data
from headrace.exceptions import DataError

EXAMPLES = Path(__file__).parents[2] / "examples" / "data"

# ------------------------------------------------------------------------------------- the harness itself


@pytest.mark.parametrize("kind", KINDS)
def test_damage_is_a_function_of_its_seed(kind):
    data = bytes(range(256)) * 8
    once, what = damage(data, 7, kind)
    assert once == damage(data, 7, kind)[0] != data
    assert what.startswith(f"{kind}: ")
    assert len({damage(data, seed, kind)[0] for seed in range(50)}) > 20


def test_damage_stays_within_its_range():
    data = bytes(1000)
    for seed in range(200):
        for kind in set(KINDS) - {"cut", "hole"}:
            out = damage(data, seed, kind, within=(100, 200))[0]
            assert len(out) == 1000 and out != data
            assert out[:100] == data[:100] and out[200:] == data[200:]


def with_checksum(data):
    if len(data) < 64 or sum(data[:-1]) % 256 != data[-1]:
        raise DataError("the checksum differs")
    return data


def test_what_only_the_other_reader_refuses_is_silent():
    data = bytes(range(100))
    data += bytes([sum(data) % 256])
    lax = run_cases(bytes, with_checksum, data, 80, name="lax")
    assert lax.counts["silent"] > 70 and lax.total == 80
    with pytest.raises(AssertionError, match=r"lax: 80 cases: .*\n  seed '0/0': silent: lax: bit: bit "):
        lax.check()
    strict = run_cases(with_checksum, bytes, data, 80, name="strict")
    assert strict.counts["refused"] > 70 and not strict.counts["silent"]
    strict.check()


def test_what_no_reader_sees_counts_only_where_a_checksum_covers_it():
    report = run_cases(bytes, bytes, b"no checksum at all" * 9, 16)
    assert report.counts == {"shared": 16}
    report.check()
    with pytest.raises(AssertionError, match="shared"):
        report.check(covered=True)


def test_other_exceptions_are_crashes():
    def broken(data):
        return data if data == b"whole" else data.no_such_method()

    report = run_cases(broken, None, b"whole", 8)
    assert report.counts == {"crash": 8}
    with pytest.raises(AssertionError, match="AttributeError"):
        report.check()


# ---------------------------------------------------------------------------------------------- Parquet


@pytest.mark.parametrize("writer", ["pyarrow", "pandas", "Polars", "DuckDB", "headrace"])
def test_parquet(writer, tmp_path):
    """We refuse damaged pages where pyarrow does; with checksums we refuse all damage."""
    read, footers, pages = parquet.ours(tmp_path / "damaged.parquet"), Report("footers"), Report("pages")
    for by, name, make, covered in parquet.files():
        if by == writer:
            page, footer = parquet.damage_file(read, name, make(), cases(30, 500))
            page.check(covered)
            pages.add(page)
            footers.add(footer)
    pages.check()
    footers.check()
    assert pages.counts["refused"] > pages.total / 3


def test_parquet_verified(tmp_path):
    """Pages of zstd without a checksum: verify=True refuses whatever pyarrow refuses, with any libzstd."""
    usual, verified = parquet.ours(tmp_path / "a.parquet"), parquet.ours(tmp_path / "b.parquet", verify=True)
    shared = []
    for read in (usual, verified):
        total = Report("pages")
        for _, name, make, covered in parquet.files():
            if "zstd" in name and not covered:
                data = make()
                within = (4, parquet.data_end(data))
                options = {"name": name, "within": within}
                total.add(run_cases(read, parquet.read_theirs, data, cases(25, 400), **options))
        total.check()
        shared.append(total.counts["shared"])
    assert shared[1] < shared[0] * 2 / 3


# TimestampType in compact Thrift: isAdjustedToUTC is field 1, unit is field 2 with MICROS (field 2).
UNIT = bytes([0x12, 0x1C, 0x2C, 0, 0, 0])


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ([0x12, 0x3C, 0x2C, 0, 0, 0], "a time lacks its unit or its zone"),
        ([0x12, 0x1C, 0x4C, 0, 0, 0], "the unit of a time is unknown"),
    ],
)
def test_a_time_without_its_unit(tmp_path, changed, error):
    """The story: one flipped bit in the footer, and times came back as nanoseconds or seconds."""
    path = tmp_path / "times.parquet"
    pq.write_table(pa.table({"t": pa.array([1, 2], pa.timestamp("us"))}), path, store_schema=False)
    data = path.read_bytes()
    assert data.count(UNIT) == 1
    path.write_bytes(data.replace(UNIT, bytes(changed)))
    with pytest.raises(DataError, match=error):
        headrace.data.read_parquet(str(path)).to_arrow()


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_bits_of_a_footer(tmp_path, version):
    """Each bit of a footer that says much. The story: the field of a time's unit could be missing, and
    histograms of levels could have a count for another number of levels.
    """
    table = pa.table(
        {
            "t": pa.array([1, None], pa.timestamp("us", "UTC")),
            "l": [[1], [2, 3]],
            "s": ["a", "b"],
            "d": pa.array([1, 2], pa.decimal128(9, 2)),
            "i": pa.array([1, 2], pa.uint8()),
        }
    )
    sink = io.BytesIO()
    pq.write_table(table, sink, store_schema=False, data_page_version=version, write_page_index=True)
    data, read = sink.getvalue(), parquet.ours(tmp_path / "damaged.parquet")
    rows, their_rows, report = read(data), parquet.read_theirs(data), Report("bits")
    for bit in range(8 * parquet.data_end(data), 8 * len(data), 1 if THOROUGH else 11):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        verdict, detail = judge(read, parquet.read_theirs, bytes(damaged), rows, their_rows)
        report.counts[verdict] += 1
        if verdict in ("silent", "crash"):
            report.bad.append(Case(bit, verdict, "a bit", detail))
    report.check()
    assert report.counts["refused"] > report.total / 3


def test_a_fashion_mnist_file_with_50_bytes_of_ones(tmp_path):
    """A file without checksums; the story: a run of indices became longer than its page, and 755 images
    changed.
    """
    data = bytearray((EXAMPLES / "fashion_mnist_train.parquet").read_bytes())
    data[100_000:100_050] = b"\xff" * 50
    (tmp_path / "train.parquet").write_bytes(data)
    page = "train.parquet: row group 0, column 'image.*', page 0: (dictionary indices|zstd: a block)"
    with pytest.raises(DataError, match=page):
        headrace.data.read_parquet(str(tmp_path / "train.parquet")).to_arrow()
