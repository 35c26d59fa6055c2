"""headrace stat's advice on the layout of files, and none where the layout suits."""

import contextlib
import gzip
import io
import json
import os
import re
import shutil
import tarfile

import numpy as np
import pytest
from cloud_servers import AzServer, GsServer
from command import MISSING, headrace
from hdfs_server import NameNode
from object_server import ObjectServer, S3Server

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
    assert found.startswith(f"{large}: fragment 0 has 70.4 MB in memory of 70.4 MB, and one thread reads it")
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


def test_commands_on_rows_say_what_reads_zarr(tmp_path):
    """They said that the first bytes of a chunk identify no format, or gave the metadata as rows."""
    path = zarr_store(tmp_path, 3, (20, 8), (10, 8))
    for command in ("schema", "head", "count"):
        out, errors = headrace(command, path, status=1)
        assert out == ""
        assert errors.startswith(f"headrace: {path}: a Zarr store: read_zarr of the Python package")


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
        r"fragment \d has 70.4 MB in memory; "
        r"4 of that size at once need about 563.2 MB, the limit is 512.0 MB",
        found,
    )


def test_many_small_row_groups_and_many_small_files(tmp_path):
    """The story: 400 row groups of 7 kB, which took three times as long as one, had no advice."""
    path = tmp_path / "small.parquet"
    pq.write_table(numbers(12_000), path, row_group_size=10)
    (found,) = advice(path)
    assert re.match(r"1200 fragments have \d+ B each on average", found) and "would be 1" in found
    for n_group, advised in ((120, True), (122, False)):
        pq.write_table(numbers(12_000), path, row_group_size=n_group)
        assert bool(advice(path)) == advised
    for i in range(1001):
        (tmp_path / f"{i}.csv").write_text("a\n1\n")
    (found,) = advice(tmp_path / "*.csv")
    assert (
        found.startswith("1001 files have 4 B each on average, and each is opened") and "would be 1" in found
    )


def test_a_large_row_group_that_threads_divide(tmp_path):
    """The story: one row group of 192 MB had no advice, since threads read its pages."""
    path = tmp_path / "one.parquet"
    pq.write_table(numbers(6_000_000), path, row_group_size=6_000_000)
    (found,) = advice(path, HEADRACE_NUM_THREADS="2")
    assert found.startswith("the largest of 1 fragments has 192.0 MB in memory: threads divide it, but ")
    assert "randomize_block_order()" in found and found.endswith("fragments of 67.1 MB would be 3")


def test_a_few_hundred_tiny_archives(tmp_path):
    for i in range(300):
        with tarfile.open(tmp_path / f"{i:03}.tar", "w") as archive:
            member = tarfile.TarInfo("0.txt")
            member.size = 100
            archive.addfile(member, io.BytesIO(bytes(100)))
    (found,) = advice(tmp_path / "*.tar")
    assert (
        found.startswith("300 files have 10.2 kB each on average, and each is opened")
        and "would be 1" in found
    )
    (found,) = advice(*sorted(tmp_path.glob("*.tar"))[:100])
    assert found.startswith("100 files")
    assert advice(*sorted(tmp_path.glob("*.tar"))[:99]) == []


def test_objects_of_json_have_no_advice(large):
    assert headrace("stat", "--json", large, HEADRACE_NUM_THREADS="4")[0].count("\n") == 1


# ------------------------------------------------------------------------------------------ chunks of Zarr


def zarr_store(tmp_path, version, shape, chunks, shards=None, kind="f4"):
    zarr = pytest.importorskip("zarr")
    path = tmp_path / f"{version}.zarr"
    zarr.create_array(
        str(path), shape=shape, chunks=chunks, shards=shards, dtype=kind, zarr_format=version, overwrite=True
    )
    return path


@pytest.mark.parametrize("version", [2, 3])
def test_small_chunks_of_zarr(tmp_path, version):
    path = zarr_store(tmp_path, version, (20_000, 8), (10, 8))
    out = headrace("stat", path)[0].splitlines()
    assert out[0].split(": zarr, ")[1].endswith("[20000, 8], chunks [10, 8]: 2000 of 320 B in memory")
    (found,) = advice(path)
    assert found.startswith(
        f"{path}: 2000 chunks have 320 B each, and each takes about as long as one of 1.0 MB"
    )
    assert "would be 1, and read about" in found
    assert advice(zarr_store(tmp_path, version, (20_000, 8), (20_000, 8))) == []
    assert advice(zarr_store(tmp_path, version, (20_000, 64, 64), (64, 64, 64))) == []


@pytest.mark.parametrize("version", [2, 3])
def test_large_chunks_of_zarr(tmp_path, version):
    path = zarr_store(tmp_path, version, (100_000, 1000), (100_000, 500))
    (found,) = advice(path)
    assert found.startswith(f"{path}: the first axis has 1 chunk of 400.0 MB, each for one of 4 threads")
    assert "up to 4.0 times as fast" in found
    assert advice(path, HEADRACE_NUM_THREADS="1") == []
    path = zarr_store(tmp_path, version, (800_000, 1000), (100_000, 1000))
    assert advice(path) == []
    (found,) = advice(path, "-m", "1GB")
    assert "4 chunks of 400.0 MB at once need about 3.2 GB, the limit is 1.0 GB" in found


def test_groups_and_shards_of_zarr(tmp_path):
    """A chunk of a shard costs as much as one in a file."""
    zarr = pytest.importorskip("zarr")
    group = zarr.create_group(str(tmp_path / "g.zarr"))
    group.attrs["note"] = 'has "shape": [1], and {'
    group.create_array("images", shape=(1000, 28), chunks=(2, 28), shards=(500, 28), dtype="uint8")
    group.create_group("more").create_array("labels", shape=(1000,), chunks=(1000,), dtype="int64")
    images, labels, found = headrace("stat", tmp_path / "g.zarr")[0].splitlines()
    assert images == (
        f"{tmp_path}/g.zarr/images: zarr, uint8 [1000, 28], chunks [2, 28] in shards [500, 28]: "
        "500 of 56 B in memory"
    )
    assert labels.endswith("/more/labels: zarr, int64 [1000], chunks [1000]: 1 of 8.0 kB in memory")
    assert found.startswith(f"advice: {tmp_path}/g.zarr/images: 500 chunks have 56 B each")
    objects = [json.loads(line) for line in headrace("stat", "--json", tmp_path / "g.zarr")[0].splitlines()]
    assert objects[0]["shards"] == [500, 28] and objects[0]["n_chunks"] == 500 and "shards" not in objects[1]


@pytest.mark.parametrize(
    "text", ["", "{", "[", "[1]", '{"shape":[1]', '{"shape":[1],"chunks":[0]}', '{"a"}', '"']
)
def test_damaged_metadata_of_zarr(tmp_path, text):
    (tmp_path / "zarr.json").write_text(text)
    assert headrace("stat", tmp_path)[0] == f"{tmp_path}: zarr, no arrays\n"


def test_huge_numbers_of_zarr(tmp_path):
    text = '{"shape":[9223372036854775807,8],"chunks":[5,8],"dtype":"<f99999999999999999999"}'
    (tmp_path / "zarr.json").write_text(text)
    assert "[9223372036854775807, 8], chunks [5, 8]: " in headrace("stat", tmp_path)[0]


def test_patterns_of_zarr_stores(tmp_path):
    """The story: the bytes of a chunk were said to be of no known format."""
    for name in ("a.zarr", "b.zarr", "c[1].zarr"):
        (tmp_path / name).mkdir()
        (tmp_path / name / ".zarray").write_text('{"shape": [8], "chunks": [4], "dtype": "<f4"}')
    rest = ": zarr, <f4 [8], chunks [4]: 2 of 16 B in memory\n"
    assert headrace("stat", tmp_path / "[ab].zarr")[0] == f"{tmp_path}/a.zarr{rest}{tmp_path}/b.zarr{rest}"
    assert headrace("stat", tmp_path / "c[1].zarr")[0] == f"{tmp_path}/c[1].zarr{rest}"
    assert "no file" in headrace("stat", tmp_path / "d*.zarr", status=1)[1]
    (tmp_path / "a.csv").write_text("a\n1\n")
    out = headrace("stat", tmp_path / "a.*")[0]  # of a store that is not alone
    assert out.startswith(f"{tmp_path}/a.csv: 1 fragment") and ": zarr" not in out


SERVERS = {"s3": S3Server, "gs": GsServer, "az": AzServer, "webhdfs": NameNode, "http": ObjectServer}
OF_STORES = re.compile("AWS_|AZURE_|GOOGLE_|HADOOP_|WEBHDFS_|STORAGE_EMULATOR")


def options_of(kind, server):
    if kind == "s3":
        return {
            "endpoint": server.url,
            "aws_access_key_id": server.key,
            "aws_secret_access_key": server.secret,
        }
    if kind == "gs":
        return {"endpoint": server.url, "token": server.bearer}
    if kind == "az":
        return {"endpoint": server.url, "account_name": server.account, "account_key": server.key}
    return {}


@pytest.fixture(params=SERVERS)
def served(request, tmp_path, monkeypatch):
    """(folder, its URL, options of the command, server)"""
    kind, folder = request.param, tmp_path / "root" / "bucket"
    folder.mkdir(parents=True)
    for name in filter(OF_STORES.match, list(os.environ)):
        monkeypatch.delenv(name)
    server = SERVERS[kind](tmp_path / "root")
    url = {"http": f"{server.url}/bucket", "webhdfs": f"webhdfs://{getattr(server, 'host', '')}/bucket"}
    given = [word for k, v in options_of(kind, server).items() for word in ("--storage-option", f"{k}={v}")]
    yield folder, url.get(kind, f"{kind}://bucket"), given, server
    server.close()


def group_of(folder, version, consolidated):
    zarr = pytest.importorskip("zarr")
    group = zarr.create_group(str(folder / "g.zarr"), zarr_format=version)
    group.create_array("images", shape=(1000, 28), chunks=(2, 28), dtype="uint8")
    group.create_group("m\u00e4r\U0001f600").create_array("y", shape=(1000,), chunks=(1000,), dtype="int64")
    if consolidated:
        with pytest.warns() if version == 3 else contextlib.nullcontext():
            zarr.consolidate_metadata(str(folder / "g.zarr"))


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("consolidated", [True, False])
def test_zarr_at_urls_is_that_of_folders(served, version, consolidated):
    """The story: stat printed zarr.json as the bytes of a file, or said that there is no such object."""
    folder, url, options, server = served
    group_of(folder, version, consolidated)
    assert headrace("stat", f"{url}/g.zarr/images", *options)[0] == headrace(
        "stat", folder / "g.zarr/images"
    )[0].replace(str(folder), url)
    if url.startswith("http") and not consolidated:
        error = headrace("stat", f"{url}/g.zarr", status=1)[1]
        assert "a Zarr group without consolidated metadata: web servers list no members" in error
        return
    for more in ((), ("--json",)):
        here = headrace("stat", *more, folder / "g.zarr")[0]
        assert here.count("\n") == (2 if more else 3)
        server.forget()
        there = headrace("stat", *more, f"{url}/g.zarr/", *options)[0]
        assert sorted(there.splitlines()) == sorted(here.replace(str(folder), url).splitlines())
        assert not any("images/c" in path or "images/0" in path for _, path, _, _ in server.requests)


@pytest.mark.parametrize("version", [2, 3])
def test_members_whose_names_look_like_patterns(served, version):
    """An object that exists is no pattern: "run[1]" is not "run1", and "all*" is one array."""
    folder, url, options, _ = served
    if url.startswith("http"):
        pytest.skip("web servers list no members")
    group_of(folder, version, False)
    for name in ("run[1]", "run1", "run[2]", "all*", "a?", "[", "a b%20", "{x}"):
        shutil.copytree(folder / "g.zarr/images", folder / "g.zarr" / name)
    here, there = headrace("stat", folder / "g.zarr")[0], headrace("stat", f"{url}/g.zarr", *options)[0]
    assert here.count("run[1]: zarr") == 1 and here.count(": zarr, ") == 10
    assert sorted(there.splitlines()) == sorted(here.replace(str(folder), url).splitlines())


def test_urls_without_a_zarr_store(served):
    folder, url, options, server = served
    pq.write_table(numbers(10), folder / "a.parquet")
    (folder / "empty.zarr").mkdir()
    (folder / "empty.zarr" / ".zgroup").write_text('{"zarr_format": 2}')
    (folder / "empty.zarr" / ".zmetadata").write_text('{"metadata": {"a/.zarray": "')
    assert "no such object" in headrace("stat", f"{url}/none.zarr", *options, status=1)[1]
    server.forget()
    assert headrace("stat", f"{url}/a.parquet", *options)[0].startswith(f"{url}/a.parquet: 10 rows")
    assert not any("zarr" in path for _, path, _, _ in server.requests)
    assert headrace("stat", f"{url}/empty.zarr", *options)[0] == f"{url}/empty.zarr: zarr, no arrays\n"


def test_the_signature_of_a_url_stays_in_requests(tmp_path):
    group_of(tmp_path, 2, True)
    server = ObjectServer(tmp_path)
    out = headrace("stat", f"{server.url}/g.zarr?sig=secret")[0]
    server.close()
    assert out.startswith(f"{server.url}/g.zarr/images: zarr, ") and "secret" not in out
    assert all(path.endswith("?sig=secret") for _, path, _, _ in server.requests)
