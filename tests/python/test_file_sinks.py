"""Sources and sinks of files by users' classes, as programs for Ray have them."""

import gzip
import io
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import headrace.data as hd
from headrace import exceptions
from headrace.data.datasource import (
    BlockBasedFileDatasink,
    Datasink,
    FileBasedDatasource,
    FilenameProvider,
    Partitioning,
    PathPartitionFilter,
    RowBasedFileDatasink,
    WriteResult,
)


class Csv(BlockBasedFileDatasink):
    def __init__(self, path, **more):
        super().__init__(path, file_format="csv", **more)

    def write_block_to_file(self, block, file):
        pyarrow.csv.write_csv(block.to_arrow(), file)


class Texts(RowBasedFileDatasink):
    def write_row_to_file(self, row, file):
        if row["id"] == 7:
            raise KeyError("seven")
        file.write(str(row["id"]).encode())


def files(folder):
    return sorted(p for p in Path(folder).rglob("*") if p.is_file())


def test_blocks(tmp_path):
    sink = Csv(str(tmp_path / "out"), min_rows_per_file=40)
    hd.range(100).write_datasink(sink)
    made = files(tmp_path / "out")
    assert [len(p.read_text().splitlines()) - 1 for p in made] == [40, 40, 20]
    assert all(p.suffix == ".csv" for p in made)
    assert hd.read_csv(str(tmp_path / "out")).sum("id") == 4950
    hd.range(10).write_datasink(sink)  # the same sink again appends
    assert len(files(tmp_path / "out")) == 4


def test_blocks_do_not_depend_on_threads(tmp_path):
    """The files are the same for any number of threads."""
    context = hd.DataContext.get_current()
    before, sizes = context.num_threads, []
    try:
        for n in (1, 4):
            context.num_threads = n
            hd.range(100_000).map_batches(lambda b: b, compute="threads").write_datasink(
                Csv(str(tmp_path / str(n)))
            )
            sizes.append([p.read_text() for p in files(tmp_path / str(n))])
    finally:
        context.num_threads = before
    assert sizes[0] == sizes[1]


def test_rows(tmp_path):
    hd.range(3).write_datasink(Texts(tmp_path, file_format="txt"))
    assert [p.read_text() for p in files(tmp_path)] == ["0", "1", "2"]
    assert all(p.name.endswith(f"_000000_{i:06}.txt") for i, p in enumerate(files(tmp_path)))


def test_a_job_that_fails_leaves_no_files(tmp_path):
    (tmp_path / "old").write_text("x")
    with pytest.raises(KeyError, match="seven"):
        hd.range(20).write_datasink(Texts(str(tmp_path)))
    assert [p.name for p in files(tmp_path)] == ["old"]


def test_modes(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "old").write_text("x")
    with pytest.raises(exceptions.StorageError, match=r'a: already contains files \(mode is "create"\)'):
        hd.range(2).write_datasink(Texts(str(tmp_path / "a"), mode=hd.SaveMode.ERROR))
    hd.range(2).write_datasink(Texts(str(tmp_path / "a"), mode="ignore"))
    assert [p.name for p in files(tmp_path / "a")] == ["old"]
    hd.range(2).write_datasink(Texts(str(tmp_path / "a"), mode="overwrite"))
    assert [p.read_text() for p in files(tmp_path / "a")] == ["0", "1"]
    with pytest.raises(exceptions.StorageError, match="does not exist, and try_create_dir is False"):
        hd.range(2).write_datasink(Texts(str(tmp_path / "b"), try_create_dir=False))
    with pytest.raises(exceptions.UnsupportedError, match="http://host/folder: nothing is written"):
        Texts("http://host/folder")
    with pytest.raises(exceptions.UnsupportedError, match="ftp://host/folder: expected a local path or"):
        Texts("ftp://host/folder")


class Named(FilenameProvider):
    def get_filename_for_row(self, row, write_uuid, task_index, block_index, row_index):
        return f"row-{row['id']}.gz"


def test_names_and_compression(tmp_path):
    sink = Texts(str(tmp_path), filename_provider=Named(), open_stream_args={"compression": "gzip"})
    hd.range(2).write_datasink(sink)
    assert [p.name for p in files(tmp_path)] == ["row-0.gz", "row-1.gz"]
    assert gzip.decompress((tmp_path / "row-1.gz").read_bytes()) == b"1"


class Counts(Datasink[int]):
    """Subscripted, and with a least number of bytes."""

    min_bytes_per_write = 20_000

    def write(self, blocks, ctx):
        return sum(block.num_rows for block in blocks)

    def on_write_complete(self, write_result: WriteResult[int]):
        self.result = write_result


def test_bytes_of_a_write():
    sink = Counts()
    hd.range(100_000, override_num_blocks=50).write_datasink(sink)
    assert sum(sink.result.write_returns) == sink.result.num_rows == 100_000
    assert all(n * 8 >= 20_000 for n in sink.result.write_returns[:-1]) and len(sink.result.write_returns) > 1
    both = WriteResult.combine(sink.result, WriteResult(1, 8, ["x"]))
    assert (both.num_rows, both.write_returns[-1]) == (100_001, "x")


class Lines(FileBasedDatasource):
    _FILE_EXTENSIONS = ["txt", "gz"]

    def _read_stream(self, f, path):
        for line in f.read().decode().splitlines():
            yield pa.table({"line": [line]})


@pytest.fixture
def folder(tmp_path):
    for k in ("k=1", "k=2"):
        (tmp_path / k).mkdir()
        (tmp_path / k / "a.txt").write_text(f"{k}\nx\n")
        (tmp_path / k / "b.gz").write_bytes(gzip.compress(f"{k} of gzip".encode()))
        (tmp_path / k / "c.csv").write_text("no")
    return tmp_path


LINES = ["k=1", "x", "k=1 of gzip", "k=2", "x", "k=2 of gzip"]


@pytest.mark.parametrize("n", [1, 3, 200])
def test_a_source_of_files(folder, n):
    ds = hd.read_datasource(Lines(str(folder)), override_num_blocks=n)
    assert [row["line"] for row in ds.take_all()] == LINES


def test_columns_of_a_source(folder):
    source = Lines(str(folder), partitioning=Partitioning("hive", field_types={"k": int}), include_paths=True)
    rows = hd.read_datasource(source).take_all()
    assert [(row["line"], row["k"]) for row in rows] == list(zip(LINES, [1, 1, 1, 2, 2, 2], strict=True))
    assert {Path(row["path"]).name for row in rows} == {"a.txt", "b.gz"}
    assert source.estimate_inmemory_data_size() > 0 and len(source._paths()) == 4


def test_files_of_a_source(folder):
    only = PathPartitionFilter.of(lambda values: values["k"] == "2")
    assert hd.read_datasource(Lines(str(folder), partition_filter=only)).count() == 3
    assert only.apply(str(folder / "k=2" / "a.txt")) and not only.apply(str(folder / "k=1" / "a.txt"))
    assert hd.read_datasource(Lines(str(folder), file_extensions=["csv"])).take_all() == [{"line": "no"}] * 2
    with pytest.raises(exceptions.NotFoundError):
        Lines(str(folder / "nothing"))
    with pytest.raises(
        exceptions.InvalidArgument, match="Lines: meta_provider: the engine lists files itself"
    ):
        Lines(str(folder), meta_provider=object())
    with pytest.raises(exceptions.TypeMismatchError, match="has the column 'line'"):
        hd.read_datasource(
            Lines(str(folder), partitioning=Partitioning("dir", field_names=["line"]))
        ).take_all()


class Images(FileBasedDatasource):
    """Random access: a subclass reads the bytes itself."""

    def _read_stream(self, f, path):
        yield pq.read_table(io.BytesIO(f.read()))


def test_a_source_of_whole_files(tmp_path):
    hd.range(5).write_parquet(str(tmp_path))
    assert hd.read_datasource(Images(str(tmp_path), file_extensions=["parquet"])).count() == 5
