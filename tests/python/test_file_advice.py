"""headrace stat's advice on the layout of files, and none where the layout suits."""

import gzip
import io
import re
import tarfile

import numpy as np
import pytest
from command import MISSING, headrace

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

pytestmark = pytest.mark.skipif(MISSING, reason="needs build/release (make lib)")


def advice(*words, **env):
    """The lines behind "advice: "."""
    out = headrace("stat", *words, **{"HEADRACE_NUM_THREADS": "4"} | env)[0]
    return [line.removeprefix("advice: ") for line in out.splitlines() if line.startswith("advice: ")]


def numbers(n):
    return pa.table({f"c{i}": np.arange(n) for i in range(4)})


def write_whole(path, n, n_group):
    """Row groups of one page a column: nothing of them can be read alone."""
    pq.write_table(
        numbers(n),
        path,
        row_group_size=n_group,
        data_page_size=1 << 30,
        max_rows_per_page=n,
        write_batch_size=n,
        use_dictionary=False,
        compression="none",
    )


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """70 MB in memory, in one row group."""
    path = tmp_path_factory.mktemp("advice") / "one.parquet"
    write_whole(path, 2_200_000, 2_200_000)
    return path


def test_one_large_row_group_keeps_threads_idle(large):
    (found,) = advice(large)
    assert found.startswith(f"{large}: fragment 0 has 70 MB in memory of 70 MB, and one thread reads it")
    assert "1.0 of 4 threads have work" in found and "up to 2.0 times as fast" in found  # two of 64 MiB
    assert advice(large, HEADRACE_NUM_THREADS="1") == []


def test_the_advised_layout_has_no_advice(large, tmp_path):
    out = tmp_path / "many.parquet"
    headrace("convert", large, out, "-w", "row_group_rows=500000")
    assert advice(out) == []


def test_a_large_file_among_small_ones(large, tmp_path):
    """The largest piece decides when reading ends."""
    for i in range(3):
        pq.write_table(numbers(100_000), tmp_path / f"{i}.parquet")
    (found,) = advice(tmp_path / "0.parquet", tmp_path / "1.parquet", large)
    assert found.startswith(f"{large}: fragment 0 ") and "1.1 of 4 threads have work" in found


def test_a_compressed_text(tmp_path):
    path = tmp_path / "a.csv.gz"
    noise = np.random.default_rng(0).bytes(12_000_000).hex()
    with gzip.open(path, "wt", compresslevel=1) as f:
        f.write("a\n" + "\n".join(noise[i : i + 64] for i in range(0, len(noise), 64)))
    (found,) = advice(path)
    assert "one thread reads it" in found and "1.0 of 4 threads" in found


def test_fragments_larger_than_memory_lets_all_threads_read(tmp_path):
    path = tmp_path / "four.parquet"
    write_whole(path, 8_800_000, 2_200_000)
    assert advice(path) == []
    (found,) = advice(path, "-m", "512MB")
    assert re.search(
        r"fragment \d has 70 MB in memory; 4 of that size at once need about 563 MB, the limit is 512 MB",
        found,
    )


def test_many_small_row_groups_and_many_small_files(tmp_path):
    path = tmp_path / "small.parquet"
    pq.write_table(numbers(12_000), path, row_group_size=10)
    (found,) = advice(path)
    assert re.match(r"1200 fragments have \d+ kB each on average", found) and "would be 1" in found
    for i in range(1001):
        (tmp_path / f"{i}.csv").write_text("a\n1\n")
    (found,) = advice(tmp_path / "*.csv")
    assert (
        found.startswith("1001 files have 0 kB each on average, and each is opened") and "would be 1" in found
    )


def test_a_large_row_group_that_threads_divide(tmp_path):
    """The story: one row group of 192 MB had no advice, since threads read its pages."""
    path = tmp_path / "one.parquet"
    pq.write_table(numbers(6_000_000), path, row_group_size=6_000_000)
    (found,) = advice(path, HEADRACE_NUM_THREADS="2")
    assert found.startswith("the largest of 1 fragments has 192 MB in memory: threads divide it, but ")
    assert "randomize_block_order()" in found and found.endswith("fragments of 67 MB would be 3")


def test_a_few_hundred_tiny_archives(tmp_path):
    for i in range(300):
        with tarfile.open(tmp_path / f"{i:03}.tar", "w") as archive:
            member = tarfile.TarInfo("0.txt")
            member.size = 100
            archive.addfile(member, io.BytesIO(bytes(100)))
    (found,) = advice(tmp_path / "*.tar")
    assert (
        found.startswith("300 files have 10 kB each on average, and each is opened") and "would be 1" in found
    )
    (found,) = advice(*sorted(tmp_path.glob("*.tar"))[:100])
    assert found.startswith("100 files")
    assert advice(*sorted(tmp_path.glob("*.tar"))[:99]) == []


def test_objects_of_json_have_no_advice(large):
    assert headrace("stat", "--json", large, HEADRACE_NUM_THREADS="4")[0].count("\n") == 1
