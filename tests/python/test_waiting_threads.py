"""No thread of the pool is lost to a network: while a request travels, other work goes on."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from cloud_servers import AzServer
from object_server import ObjectServer, S3Server

import headrace.data as hd
from headrace import _core

WAIT_S = 60


class Held:
    """Keeps each request until another run, on the pool's one thread, has delivered rows meanwhile."""

    def __init__(self):
        self.moved = threading.Condition()
        self.rows = self.n_held = self.stuck = 0

    def hold(self, server):
        """-> what answered its requests before."""
        answer = server.answer

        def late(handler):
            with self.moved:
                want = self.rows + 50_000
                self.n_held += 1
                if not self.moved.wait_for(lambda: self.rows >= want, WAIT_S):
                    self.stuck += 1
            return answer(handler)

        server.answer = late
        return answer

    def run(self, server, job):
        """Runs the job beside another run, which goes on until the job has ended. -> the job's result."""
        answer = self.hold(server)
        rows = iter(hd.range(1 << 40).iter_batches(batch_size=1000))
        with ThreadPoolExecutor(1) as pool:
            done = pool.submit(job)
            while not done.done():
                n = len(next(rows)["id"])
                with self.moved:
                    self.rows += n
                    self.moved.notify_all()
        rows.close()
        server.answer = answer
        result = done.result()
        assert (self.n_held > 0, self.stuck) == (True, 0)
        return result


@pytest.fixture(autouse=True)
def one_thread():
    _core.set_num_threads(1)
    yield
    _core.set_num_threads(0)


def s3(root):
    server = S3Server(root)
    options = {"key": server.key, "secret": server.secret, "endpoint": server.url, "region": "us-east-1"}
    return server, "s3://bucket", options


def az(root):
    server = AzServer(root)
    return server, "az://bucket", {"account_name": "acct", "account_key": server.key, "endpoint": server.url}


@pytest.mark.parametrize("mode", ["append", "create", "overwrite"])
@pytest.mark.parametrize("make", [s3, az])
def test_a_write_job_begins_and_commits(make, mode, tmp_path):
    """The begin and the commit of a job held a pool thread while their requests travelled: with as many jobs
    as threads, nothing else moved.
    """
    (tmp_path / "bucket").mkdir()
    server, url, options = make(tmp_path)
    held = Held()
    ds = hd.range(4000)
    if mode == "overwrite":
        ds.write_csv(url + "/out", storage_options=options)
    try:
        held.run(
            server,
            lambda: ds.write_csv(url + "/out", max_rows_per_file=2000, mode=mode, storage_options=options),
        )
        found = hd.read_csv(url + "/out", storage_options=options)
        assert sorted(r["id"] for r in found.take_all()) == list(range(4000))
    finally:
        server.close()


def test_readers_that_read_beyond_what_was_announced(tmp_path):
    """Lists, heads, the ends of lines in the next block, page indexes: all their requests."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    n, n_lines = 40_000, 1_500_000
    (tmp_path / "a").mkdir()
    hd.range(n_lines).write_csv(str(tmp_path / "a" / "rows.csv"), single_file=True)
    table = pa.table({"id": np.arange(n), "text": ["x" * 40] * n})
    pq.write_table(table, tmp_path / "a" / "rows.parquet", data_page_size=4096, write_page_index=True)
    server, held = ObjectServer(tmp_path), Held()
    try:
        csv = held.run(server, lambda: hd.read_csv(server.url + "/a/rows.csv").count())
        found = held.run(
            server,
            lambda: hd.read_parquet(server.url + "/a/rows.parquet", filter="id == 30000").to_arrow(),
        )
    finally:
        server.close()
    assert csv == n_lines and found["id"].to_pylist() == [30_000]
