"""Objects that were read once come from the folder of `cache=` afterwards, with the same rows."""

import signal
import subprocess
import sys
import textwrap

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from command import MISSING, headrace
from object_server import ObjectServer, S3Server

import headrace.data as hd
from headrace.data import DataContext
from headrace.exceptions import InvalidArgument, TypeMismatchError

ROWS = 100_000


@pytest.fixture
def server(tmp_path):
    rng = np.random.default_rng(1)
    table = pa.table({"n": np.arange(ROWS), **{name: rng.random(ROWS) for name in "abc"}})
    root = tmp_path / "root"
    root.mkdir()
    pq.write_table(table, root / "a.parquet", row_group_size=ROWS // 4)
    pa.csv.write_csv(table.slice(0, 20_000), root / "a.csv")
    server = ObjectServer(root)
    yield server
    server.close()


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "cache"


def files(folder):
    return sorted(p for p in folder.rglob("*-*") if p.is_file())


def read(server, folder, name="a.parquet", **kwargs):
    """(rows, bytes that the server sent, bytes from the cache)."""
    server.forget()
    reader = hd.read_csv if name.endswith("csv") else hd.read_parquet
    ds = reader(f"{server.url}/{name}", cache=folder, **kwargs)
    rows = ds.materialize()
    network = ds.stats("dict")["network"]
    return rows.to_arrow(), server.body_bytes(), network["cached_bytes"]


@pytest.mark.parametrize("name", ["a.parquet", "a.csv"])
def test_the_second_read_asks_for_no_bytes(server, folder, name):
    first, sent, _ = read(server, folder, name)
    assert sent > 0
    again, sent, cached = read(server, folder, name)
    assert again.equals(first)
    assert sent == 0
    assert cached > 0


def test_epochs_read_from_the_cache(server, folder):
    ds = hd.read_parquet(f"{server.url}/a.parquet", cache=folder).random_shuffle(seed=1)
    epochs = []
    for _ in range(2):
        server.forget()
        epochs.append([b["n"] for b in ds.iter_batches(batch_size=ROWS)])
    assert server.body_bytes() == 0
    assert "from the cache" in ds.stats()
    assert sorted(epochs[0][0]) == sorted(epochs[1][0]) == list(range(ROWS))


def test_only_what_is_read_is_kept(server, folder):
    read(server, folder, columns=["a"])
    some = sum(f.stat().st_size for f in files(folder))
    _, sent, _ = read(server, folder)
    assert sent > 0
    everything, sent, _ = read(server, folder)
    assert sent == 0
    assert some < sum(f.stat().st_size for f in files(folder)) / 2
    assert everything.num_rows == ROWS


def test_a_replaced_object_is_another_one(server, folder):
    read(server, folder)
    pq.write_table(pa.table({"n": [7]}), server.root / "a.parquet")
    rows, sent, _ = read(server, folder)
    assert rows.to_pydict() == {"n": [7]}
    assert sent > 0


def test_damaged_files_cost_a_request(server, folder):
    sent = []
    first, _, _ = read(server, folder)
    for i, file in enumerate(files(folder)):
        data = bytearray(file.read_bytes())
        data[len(data) * i // len(files(folder))] ^= 1
        file.write_bytes(data)
    for _ in range(3):  # what was good of a damaged file is fetched when it is read next
        again, last, _ = read(server, folder)
        assert again.equals(first)
        sent.append(last)
    assert sent[0] > 0
    assert sent[-1] == 0


def test_without_a_cache(server, folder, monkeypatch):
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(folder))
    read(server, False)
    assert not folder.exists()
    read(server, None)
    assert files(folder)
    _, sent, _ = read(server, None)
    assert sent == 0
    _, sent, _ = read(server, False)
    assert sent > 0


def test_true_is_the_users_folder(server, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    read(server, True)
    assert files(tmp_path / "home" / "headrace" / "v1")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "other"))
    read(server, True)
    assert files(tmp_path / "other" / ".cache" / "headrace")
    read(server, "~/mine")
    assert files(tmp_path / "other" / "mine")


def test_local_files_are_not_kept(server, folder):
    assert hd.read_parquet(str(server.root / "a.parquet"), cache=folder).count() == ROWS
    assert not folder.exists()


def test_wrong_arguments(server, monkeypatch):
    with pytest.raises(TypeMismatchError, match="cache: expected a folder, True or False, found 3"):
        read(server, 3)
    with pytest.raises(InvalidArgument, match="cache: expected a folder on a disk of this machine, found a"):
        read(server, "s3://bucket/cache")
    with pytest.raises(InvalidArgument, match="storage_options: cache_size: expected a number of bytes"):
        read(server, None, storage_options={"cache_size": "lots"})
    monkeypatch.setenv("HEADRACE_CACHE_SIZE", "lots")
    with pytest.raises(InvalidArgument, match="HEADRACE_CACHE_SIZE: .*lots"):
        read(server, None)


def test_objects_without_an_etag_are_not_kept(server, folder):
    server.etags = {server.root / "a.parquet": 'W/"weak"'}
    first, _, _ = read(server, folder)
    again, sent, cached = read(server, folder)
    assert again.equals(first)
    assert sent > 0
    assert cached == 0
    assert not files(folder)


def test_the_limit(server, folder):
    for i in range(20):
        pq.write_table(pa.table({"x": np.random.default_rng(i).random(8000)}), server.root / f"{i}.parquet")
        read(server, folder, f"{i}.parquet", storage_options={"cache_size": "1MB"})
        assert sum(f.stat().st_size for f in files(folder)) <= 1_000_000
    _, sent, _ = read(server, folder, "19.parquet", storage_options={"cache_size": "1MB"})
    assert sent == 0
    _, sent, _ = read(server, folder, "0.parquet", storage_options={"cache_size": "1MB"})
    assert sent > 0


def test_a_small_memory_limit(server, folder):
    first, _, _ = read(server, folder)
    context = DataContext.get_current()
    was, context.memory_limit_bytes = context.memory_limit_bytes, 16 << 20
    rows, sent, _ = read(server, folder)
    context.memory_limit_bytes = was
    assert rows.equals(first)
    assert sent == 0


SCRIPT = """
    import hashlib, resource, sys
    import headrace.data as hd
    url, folder, limit = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    sha = hashlib.sha256()
    for batch in hd.read_parquet(url, cache=folder).iter_batches(batch_size=1000):
        sha.update(b"".join(batch[name].tobytes() for name in "nabc"))
        print("batch", flush=True)
    print(sha.hexdigest())
"""


def start(server, folder, limit=0):
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SCRIPT), f"{server.url}/a.parquet", str(folder), str(limit)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def sha_of(process):
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out.split()[-1], err


def test_processes_share_the_folder(server, folder):
    shas = {sha_of(p)[0] for p in [start(server, folder) for _ in range(3)]}
    assert len(shas) == 1
    server.forget()
    assert {sha_of(start(server, folder))[0]} == shas
    assert server.body_bytes() == 0


def test_a_killed_process_leaves_a_good_cache(server, folder):
    want, _ = sha_of(start(server, folder / "other"))
    for n_batches in (1, 10, 40):
        with start(server, folder) as process:
            for _ in range(n_batches):
                process.stdout.readline()
            process.send_signal(signal.SIGKILL)
    assert sha_of(start(server, folder))[0] == want


def test_a_folder_that_fails_does_not_stop_another_one(server, folder, tmp_path, caplog):
    """The folder that a user named after the warning kept nothing for a minute."""
    (tmp_path / "file").write_text("no folder")
    for _ in range(2):
        read(server, tmp_path / "file")
    assert caplog.text.count("file/v1: cannot write: Not a directory") == 1
    read(server, folder)
    _, sent, cached = read(server, folder)
    assert (sent, cached > 0) == (0, True)


def test_a_full_disk_stops_only_the_writing(server, folder):
    want, _ = sha_of(start(server, folder / "other"))
    got, err = sha_of(start(server, folder, limit=100_000))
    assert got == want
    assert err.count("cannot write: File too large") == 1
    assert all(f.stat().st_size <= 100_000 for f in files(folder / "v1"))


def test_resume_reads_from_the_cache(server, folder):
    def dataset():
        return hd.read_parquet(f"{server.url}/a.parquet", cache=folder).random_shuffle(seed=3)

    want = [b["n"].tolist() for b in dataset().iter_batches(batch_size=10_000)]
    loader = dataset().iterator().iter_batches(batch_size=10_000)
    got = []
    for batch in loader:
        got.append(batch["n"].tolist())
        if len(got) == 4:
            state = loader.state_dict()
            break
    server.forget()
    rest = hd.read_parquet(f"{server.url}/a.parquet", cache=False).random_shuffle(seed=3)
    rest = rest.iterator().iter_batches(batch_size=10_000)
    rest.load_state_dict(state)  # a cache changes no position
    assert got + [b["n"].tolist() for b in rest] == want


def test_no_secret_is_in_the_folder(tmp_path, folder, monkeypatch):
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    root = tmp_path / "root" / "bucket"
    root.mkdir(parents=True)
    pq.write_table(pa.table({"n": range(1000)}), root / "a.parquet")
    server = S3Server(tmp_path / "root")
    server.secret, server.token = "HUSHsecret", "HUSHtoken"
    options = {"endpoint": server.url, "key": server.key, "secret": server.secret, "token": server.token}
    try:
        for first in (True, False):
            server.forget()
            ds = hd.read_parquet("s3://bucket/a.parquet", cache=folder, storage_options=options)
            assert ds.sum("n") == 499500
            assert (server.body_bytes() > 0) == first
        server.forget()
        server.public = {"bucket"}
        url = f"{server.url}/bucket/a.parquet?X-Amz-Signature=HUSH"
        assert hd.read_parquet(url, cache=folder).sum("n") == 499500
        assert server.body_bytes() == 0  # the same object by a signed URL
    finally:
        server.close()
    assert files(folder)
    for file in folder.rglob("*"):
        assert "HUSH" not in str(file)
        assert file.is_dir() or b"HUSH" not in file.read_bytes()


@pytest.mark.skipif(MISSING, reason="the command is not built")
def test_the_command_reads_from_the_cache(server, folder):
    first, _ = headrace("convert", f"{server.url}/a.csv", "-", "--to", "csv", HEADRACE_CACHE_DIR=str(folder))
    server.forget()
    again, _ = headrace("convert", f"{server.url}/a.csv", "-", "--to", "csv", HEADRACE_CACHE_DIR=str(folder))
    assert again == first
    assert first.count("\n") > 20_000
    assert server.body_bytes() == 0
    headrace("head", f"{server.url}/a.csv", status=1, HEADRACE_CACHE_SIZE="lots")
